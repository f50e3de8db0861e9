/* cli/screen.c -- writes the lines of tasks, and on a terminal a table below them.
 *
 * Invariant on a terminal: the cursor is at the beginning of the line below the table, which is `height` lines high. */
#include "cli/screen.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/terminal.h"

enum { MAX_LINE = 1 << 16, MAX_PENDING = 1 << 20 };

/* Terminals that support synchronized output show everything between these two at once; others ignore them. */
#define FRAME_BEGIN "\x1b[?2026h\x1b[?25l"
#define FRAME_END "\x1b[?25h\x1b[?2026l"

struct mr_screen {
    bool table, color;
    bool one;       /* output and error are the same terminal */
    int height;     /* of the table on the screen */
    mr_str pending; /* lines to write above the table */
    mr_str drawn;   /* the table */
};

static bool same_terminal(void)
{
    struct stat a, b;
    return isatty(1) && isatty(2) && fstat(1, &a) == 0 && fstat(2, &b) == 0 && a.st_rdev == b.st_rdev;
}

mr_screen *mr_screen_new(bool table)
{
    const char *term = getenv("TERM");
    mr_screen *s = mr_new(mr_screen);
    s->table = table && isatty(2) && term && strcmp(term, "dumb") != 0;
    s->color = mr_terminal_color(2, MR_COLOR_AUTO);
    s->one = same_terminal();
    return s;
}

bool mr_screen_has_table(const mr_screen *s) { return s->table; }

void mr_screen_write(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EAGAIN)
            poll(&(struct pollfd){fd, POLLOUT, 0}, 1, -1);
        else if (k < 0 && errno != EINTR)
            return;
        else if (k > 0) {
            p += k;
            n -= (size_t)k;
        }
    }
}

/* ---- lines ---- */

static void compose_line(int number, const char *name, int width, mr_sv text, bool color, mr_str *out)
{
    if (color)
        mr_str_printf(out, "\x1b[%sm[%-*s]\x1b[0m ", mr_style_device(number), width, name);
    else
        mr_str_printf(out, "[%-*s] ", width, name);
    mr_str_append(out, text.p, text.n);
    mr_str_appendz(out, color ? "\x1b[0m" : "");
}

/* Writes a line, or with a table adds it to the next frame. If too much is pending, the frame is written now. */
static void put_line(mr_screen *s, int stream, mr_str *line)
{
    if (!s->table || (stream == 1 && !s->one)) {
        mr_str_appendc(line, '\n');
        mr_screen_write(stream, line->p, line->n);
        return;
    }
    mr_str_append(&s->pending, line->p, line->n);
    mr_str_appendz(&s->pending, "\x1b[K\n");
    if (s->pending.n > MAX_PENDING)
        mr_screen_clear(s);
}

void mr_screen_line(mr_screen *s, int number, const char *name, int name_width, int stream, mr_sv text)
{
    mr_str line = {0};
    compose_line(number, name, name_width, text, s->color && (stream == 2 || s->one), &line);
    put_line(s, stream, &line);
    mr_str_deinit(&line);
}

void mr_screen_say(mr_screen *s, const char *text)
{
    mr_str line = {0};
    mr_str_printf(&line, s->color ? "\x1b[1mmillrace:\x1b[0m %s" : "millrace: %s", text);
    put_line(s, 2, &line);
    mr_str_deinit(&line);
}

void mr_lines_add(mr_lines *l, const char *p, size_t n, mr_lines_fn fn, void *arg)
{
    for (size_t i = 0; i < n; i++) {
        bool end = p[i] == '\n' || p[i] == '\r';
        if (!end)
            mr_str_appendc(&l->begun, p[i]);
        if ((end && l->begun.n > 0) || l->begun.n >= MAX_LINE)
            mr_lines_end(l, fn, arg);
    }
}

void mr_lines_end(mr_lines *l, mr_lines_fn fn, void *arg)
{
    if (l->begun.n)
        fn(arg, mr_str_view(&l->begun));
    mr_str_clear(&l->begun);
}

/* ---- frames ---- */

static void go_up(const mr_screen *s, mr_str *out)
{
    mr_str_appendz(out, FRAME_BEGIN);
    if (s->height)
        mr_str_printf(out, "\x1b[%dA\r", s->height);
}

/* Each line clears the rest of its row, so the old frame need not be cleared first. */
static void add_table(mr_screen *s, mr_str *out)
{
    mr_sv rest = mr_str_view(&s->drawn), line;
    while (mr_sv_cut(&rest, '\n', &line) && rest.p) {
        mr_str_append(out, line.p, line.n);
        mr_str_appendz(out, "\x1b[K\n");
        s->height++;
    }
}

/* Replaces the table on the screen by the pending lines and the new table, with a single write. */
static void write_frame(mr_screen *s)
{
    mr_str out = {0};
    go_up(s, &out);
    mr_str_append(&out, mr_str_z(&s->pending), s->pending.n);
    mr_str_clear(&s->pending);
    s->height = 0;
    add_table(s, &out);
    mr_str_appendz(&out, "\x1b[J" FRAME_END);
    mr_screen_write(2, out.p, out.n);
    mr_str_deinit(&out);
}

/* Writes nothing if the table has not changed and no line is pending. */
void mr_screen_draw(mr_screen *s, const mr_task_table *t)
{
    struct winsize w;
    mr_str text = {0};
    if (!s->table)
        return;
    bool known = ioctl(2, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 && w.ws_row > 0;
    mr_task_table_print(t, known ? w.ws_col : 80, MR_MAX((known ? w.ws_row : 24) - 2, 3), s->color, &text);
    bool same = mr_sv_eq(mr_str_view(&text), mr_str_view(&s->drawn)) && !s->pending.n;
    mr_str_deinit(&s->drawn);
    s->drawn = text;
    if (!same)
        write_frame(s);
}

void mr_screen_clear(mr_screen *s)
{
    mr_str_clear(&s->drawn);
    if (s->table && (s->height || s->pending.n))
        write_frame(s);
}

void mr_screen_free(mr_screen *s)
{
    if (!s)
        return;
    if (s->pending.n)
        mr_screen_clear(s);
    mr_str_deinit(&s->pending);
    mr_str_deinit(&s->drawn);
    mr_free(s);
}
