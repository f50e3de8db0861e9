/* cli/table.c -- the tasks of a job as a table.
 *
 * A line is composed in plain text and cut to the width; colours go around what is left, so they count no columns. */
#include "cli/table.h"

#include <stdio.h>

#include "base/memory.h"

static const struct {
    const char *text, *color;
} states[MR_ROW_STATES] = {
    [MR_ROW_STARTING] = {"starting", "2"},    [MR_ROW_SERVING] = {"serving", "36"}, [MR_ROW_TRAINING] = {"training", "32"},
    [MR_ROW_WAITING] = {"waiting", "33"},     [MR_ROW_RESTARTING] = {"restarting", "31"},
    [MR_ROW_DONE] = {"done", "34"},           [MR_ROW_ENDING] = {"ending", "2"},
};

typedef struct widths {
    int name, host, step; /* host 0: nobody has one */
    bool judged;          /* somebody is */
} widths;

static int digits(int64_t v)
{
    char text[32];
    return v < 0 ? 0 : snprintf(text, sizeof text, "%lld", (long long)v);
}

static widths measure(const mr_table *t)
{
    widths w = {4, 0, 4, false};
    for (int i = 0; i < t->n; i++) {
        const mr_row *r = &t->rows[i];
        w.name = MR_MAX(w.name, (int)strlen(r->name));
        w.host = r->host ? MR_MAX(MR_MAX(w.host, 4), (int)strlen(r->host)) : w.host;
        w.step = MR_MAX(w.step, digits(r->step));
        w.judged |= r->judged;
    }
    w.host = MR_MIN(w.host, 24);
    return w;
}

/* Ends a line that was begun at `from`: cut to the width, so that the terminal never wraps it, with nothing in it that
 * would move the cursor, and in a colour. */
static void finish(mr_str *out, size_t from, int width, const char *color)
{
    mr_str line = {0};
    size_t n = MR_MIN(out->n - from, (size_t)MR_MAX(width - 1, 1));
    while (n > 0 && out->p[from + n - 1] == ' ')
        n--;
    mr_str_append(&line, out->p + from, n);
    for (size_t i = 0; i < line.n; i++)
        if ((unsigned char)line.p[i] < ' ' || line.p[i] == 0x7f)
            line.p[i] = ' ';
    out->n = from;
    if (color)
        mr_str_printf(out, "\x1b[%sm", color);
    mr_str_append(out, mr_str_z(&line), line.n);
    mr_str_appendz(out, color ? "\x1b[0m\n" : "\n");
    mr_str_deinit(&line);
}

static void print_host(const widths *w, const char *host, mr_str *out)
{
    if (w->host)
        mr_str_printf(out, "%-*.*s  ", w->host, w->host, host ? host : "");
}

static void print_head(const widths *w, int width, bool color, mr_str *out)
{
    size_t from = out->n;
    mr_str_printf(out, " %-*s  ", w->name, "task");
    print_host(w, "host", out);
    mr_str_printf(out, "%-10s  %*s  %8s  ", "state", w->step, "step", "steps/s");
    if (w->judged)
        mr_str_printf(out, "%8s  %6s  %5s  ", "waited", "stale", "late");
    mr_str_appendz(out, "waiting for");
    finish(out, from, width, color ? "1" : NULL);
}

/* How it fares with the others. */
static void print_figures(const widths *w, const mr_row *r, mr_str *out)
{
    if (r->judged)
        mr_str_printf(out, "%6.1f s  %6.2f  %5lld  ", r->waited_s, r->staleness, (long long)r->late);
    else if (w->judged)
        mr_str_printf(out, "%8s  %6s  %5s  ", "", "", "");
}

static void print_row(const widths *w, const mr_row *r, int width, bool color, mr_str *out)
{
    size_t from = out->n;
    mr_str_printf(out, " %-*s  ", w->name, r->name);
    print_host(w, r->host, out);
    mr_str_printf(out, "%-10s  ", states[r->state].text);
    if (r->step >= 0)
        mr_str_printf(out, "%*lld  ", w->step, (long long)r->step);
    else
        mr_str_printf(out, "%*s  ", w->step, "");
    if (r->rate >= 0)
        mr_str_printf(out, "%8.*f  ", r->rate < 99.95 ? 1 : 0, r->rate);
    else
        mr_str_printf(out, "%8s  ", "");
    print_figures(w, r, out);
    mr_str_appendz(out, r->waiting);
    if (r->restarts)
        mr_str_printf(out, "%s(restarted %d time%s)", r->waiting[0] ? "  " : "", r->restarts, r->restarts > 1 ? "s" : "");
    finish(out, from, width, color ? states[r->state].color : NULL);
}

/* " 2 serving, 30 training": what the rows from i on do. */
static void print_rest(const mr_table *t, int i, int width, bool color, mr_str *out)
{
    int count[MR_ROW_STATES] = {0};
    size_t from = out->n;
    mr_str_printf(out, " and %d more:", t->n - i);
    for (; i < t->n; i++)
        count[t->rows[i].state]++;
    const char *between = " ";
    for (int s = 0; s < MR_ROW_STATES; s++)
        if (count[s]) {
            mr_str_printf(out, "%s%d %s", between, count[s], states[s].text);
            between = ", ";
        }
    finish(out, from, width, color ? "2" : NULL);
}

static void print_title(const mr_table *t, int width, bool color, mr_str *out)
{
    size_t from = out->n;
    int64_t s = t->seconds;
    mr_str_printf(out, "-- millrace  %d task%s  %lld:%02lld:%02lld ", t->n, t->n == 1 ? "" : "s", (long long)(s / 3600),
                  (long long)(s / 60 % 60), (long long)(s % 60));
    while (out->n - from < (size_t)MR_MAX(MR_MIN(width - 1, 78), 0))
        mr_str_appendc(out, '-');
    finish(out, from, width, color ? "2" : NULL);
}

void mr_table_print(const mr_table *t, int width, int height, bool color, mr_str *out)
{
    widths w = measure(t);
    int room = MR_MAX(height - 2, 1), shown = t->n <= room ? t->n : room - 1;
    print_title(t, width, color, out);
    print_head(&w, width, color, out);
    for (int i = 0; i < shown; i++)
        print_row(&w, &t->rows[i], width, color, out);
    if (shown < t->n)
        print_rest(t, shown, width, color, out);
}
