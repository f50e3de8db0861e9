/* train/progress.c -- the progress bar of millrace/progress.h.
 *
 * On a terminal the line is rewritten at most every 80 ms and cut to the terminal's width. Elsewhere
 * (a log, a pipe) only about ten whole lines are written. The time left assumes the mean speed so far. */
#include "millrace/progress.h"

#include <math.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/report.h"
#include "base/str.h"

struct mr_progress {
    FILE *f;
    char *title;
    int64_t start, total, done;
    int64_t began_ns, drawn_ns;
    int tenth; /* the last tenth written to a log */
    bool terminal;
    mr_str note;
};

/* A run that was resumed begins at `start`; the time left is computed from the steps since then. */
mr_progress *mr_progress_new(FILE *stream, const char *title, int64_t start, int64_t total)
{
    mr_progress *p = mr_new(mr_progress);
    p->f = stream;
    p->title = mr_strdup(title);
    p->start = p->done = start;
    p->total = total;
    p->began_ns = mr_now_ns();
    p->terminal = isatty(fileno(stream));
    p->tenth = total > 0 ? (int)(10 * start / total) : 0;
    mr_report_progress(NAN, total); /* lets the launcher's table show the time left */
    return p;
}

/* The columns of the terminal; 80 if it does not report them, or very few. */
static int terminal_width(FILE *f)
{
    struct winsize w;
    return ioctl(fileno(f), TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 80;
}

/* At the end the time spent; before that the time left, or nothing as long as there is no progress. */
static void print_time_left(const mr_progress *p, mr_str *out)
{
    double spent = (double)(mr_now_ns() - p->began_ns) * 1e-9;
    double all = (double)(p->total - p->start), made = (double)(p->done - p->start);
    if (p->done >= p->total)
        mr_str_printf(out, "%.1f s", spent);
    else if (made > 0)
        mr_str_printf(out, "%.0f s left", spent * (all - made) / made);
}

static void print_bar(double share, int width, mr_str *out)
{
    int full = (int)(share * width);
    MR_ASSERT(width > 0);
    mr_str_appendc(out, '[');
    for (int i = 0; i < width; i++)
        mr_str_appendc(out, i < full ? '=' : i == full ? '>' : ' ');
    mr_str_appendz(out, "] ");
}

/* The bar takes the room that the text leaves, within limits. If the line is too long, its end is cut off: the time
 * left. */
static void compose_line(const mr_progress *p, int width, mr_str *out)
{
    enum { SHORTEST = 4, LONGEST = 24, AROUND = 3 };
    double share = p->total > 0 ? (double)p->done / (double)p->total : 1;
    mr_str text = {0};
    mr_str_printf(&text, "%3d %%  %s  ", (int)(100 * share), mr_str_z(&p->note));
    print_time_left(p, &text);
    mr_str_printf(out, "%s ", p->title);
    if (p->terminal)
        print_bar(share, MR_MAX(SHORTEST, MR_MIN(LONGEST, width - AROUND - (int)(out->n + text.n))), out);
    mr_str_append(out, text.p, text.n);
    mr_str_deinit(&text);
}

/* On a terminal, overwrites the line from its beginning and clears the rest; a newline only after the last one. */
static void draw_line(mr_progress *p, bool last)
{
    mr_str line = {0};
    int width = p->terminal ? terminal_width(p->f) - 1 : 0;
    compose_line(p, width, &line);
    if (p->terminal) {
        fprintf(p->f, "\r%.*s\x1b[K%s", width, mr_str_z(&line), last ? "\n" : "");
    } else {
        fprintf(p->f, "%s\n", mr_str_z(&line));
    }
    fflush(p->f);
    mr_str_deinit(&line);
    p->drawn_ns = mr_now_ns();
}

/* Draws on a terminal when the last drawing is old enough, elsewhere with each new tenth before the end. */
void mr_progress_update(mr_progress *p, int64_t done, const char *note, ...)
{
    va_list ap;
    p->done = done;
    va_start(ap, note);
    mr_str_clear(&p->note);
    mr_str_vprintf(&p->note, note, ap);
    va_end(ap);
    int tenth = p->total > 0 ? (int)(10 * done / p->total) : 0;
    if (p->terminal ? mr_now_ns() - p->drawn_ns > 80000000 : tenth > p->tenth && done < p->total)
        draw_line(p, false);
    p->tenth = tenth;
}

void mr_progress_end(mr_progress *p)
{
    if (!p)
        return;
    draw_line(p, true);
    mr_str_deinit(&p->note);
    mr_free(p->title);
    mr_free(p);
}
