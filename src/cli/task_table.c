/* cli/task_table.c -- prints the tasks of a job as a table.
 *
 * A line is composed in plain text and cut to the width. Escape sequences for color are added after that, because they
 * take no columns. */
#include "cli/task_table.h"

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
    int name, host, step;          /* host 0: no task has one, or there is no room */
    bool judged, loss, left, restarts; /* some task has a value */
    int columns;                   /* before the text about what a task waits for */
    int width;                     /* of the terminal */
} widths;

static int count_digits(int64_t v)
{
    char text[32];
    return v < 0 ? 0 : snprintf(text, sizeof text, "%lld", (long long)v);
}

static int count_columns(const widths *w)
{
    return 1 + w->name + 2 + (w->host ? w->host + 2 : 0) + 12 + w->step + 2 + 10 + (w->loss ? 11 : 0) +
           (w->left ? 10 : 0) + (w->restarts ? 10 : 0) + (w->judged ? 25 : 0);
}

/* Computes the widths of the columns, and leaves columns out until the rest fits. */
static widths measure_widths(const mr_task_table *t, int width)
{
    widths w = {.name = 4, .step = 4, .width = width};
    for (int i = 0; i < t->n; i++) {
        const mr_row *r = &t->rows[i];
        w.name = MR_MAX(w.name, (int)strlen(r->name));
        w.host = r->host ? MR_MAX(MR_MAX(w.host, 4), (int)strlen(r->host)) : w.host;
        w.step = MR_MAX(w.step, count_digits(r->step));
        w.judged |= r->judged;
        w.loss |= r->loss == r->loss;
        w.left |= r->left_s >= 0;
        w.restarts |= r->restarts > 0;
    }
    w.host = MR_MIN(w.host, 24);
    if (count_columns(&w) >= width)
        w.judged = false;
    if (count_columns(&w) >= width)
        w.host = 0;
    w.columns = count_columns(&w);
    return w;
}

/* Ends a line that starts at `from`: cuts it to the width, so that the terminal never wraps it, replaces control
 * characters, which might move the cursor, and adds the color. */
static void finish_line(mr_str *out, size_t from, int width, const char *color)
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

/* The line with the names of the columns. */
static void print_head(const widths *w, bool color, mr_str *out)
{
    size_t from = out->n;
    mr_str_printf(out, " %-*s  ", w->name, "task");
    print_host(w, "host", out);
    mr_str_printf(out, "%-10s  %*s  %8s  ", "state", w->step, "step", "steps/s");
    if (w->loss)
        mr_str_printf(out, "%9s  ", "loss");
    if (w->left)
        mr_str_printf(out, "%8s  ", "left");
    if (w->restarts)
        mr_str_printf(out, "%8s  ", "restarts");
    if (w->judged)
        mr_str_printf(out, "%8s  %6s  %5s  ", "waited", "stale", "late");
    if (w->columns + (int)sizeof "waiting for" <= w->width)
        mr_str_appendz(out, "waiting for");
    finish_line(out, from, w->width, color ? "1" : NULL);
}

/* The loss, and the remaining time as "1:02:03" or "2:03". */
static void print_progress(const widths *w, const mr_row *r, mr_str *out)
{
    if (w->loss && r->loss == r->loss)
        mr_str_printf(out, "%9.4g  ", r->loss);
    else if (w->loss)
        mr_str_printf(out, "%9s  ", "");
    if (!w->left)
        return;
    char text[32] = "";
    int64_t s = r->left_s >= 0 ? (int64_t)MR_MIN(r->left_s + 0.5, 3.6e8) : -1;
    if (s >= 360000)
        snprintf(text, sizeof text, "%lld days", (long long)(s / 86400));
    else if (s >= 3600)
        snprintf(text, sizeof text, "%lld:%02lld:%02lld", (long long)(s / 3600), (long long)(s / 60 % 60),
                 (long long)(s % 60));
    else if (s >= 0)
        snprintf(text, sizeof text, "%lld:%02lld", (long long)(s / 60), (long long)(s % 60));
    mr_str_printf(out, "%8s  ", text);
}

/* Restarts, and the figures about waiting and staleness. */
static void print_figures(const widths *w, const mr_row *r, mr_str *out)
{
    if (w->restarts)
        r->restarts ? mr_str_printf(out, "%8d  ", r->restarts) : mr_str_printf(out, "%8s  ", "");
    if (w->judged && r->judged)
        mr_str_printf(out, "%6.1f s  %6.2f  %5lld  ", r->waited_s, r->staleness, (long long)r->late);
    else if (w->judged)
        mr_str_printf(out, "%8s  %6s  %5s  ", "", "", "");
}

/* Whether the text about what the task waits for would be cut and needs a separate line. */
static bool needs_own_line(const widths *w, const mr_row *r)
{
    return w->columns + (int)strlen(r->waiting) >= w->width && r->waiting[0];
}

/* One task; with own_line, what it waits for follows on a second line. */
static void print_row(const widths *w, const mr_row *r, bool own_line, bool color, mr_str *out)
{
    size_t from = out->n;
    const char *with = color ? states[r->state].color : NULL;
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
    print_progress(w, r, out);
    print_figures(w, r, out);
    if (own_line) {
        finish_line(out, from, w->width, with);
        from = out->n;
        mr_str_printf(out, "   waits for: ");
    }
    size_t room = (size_t)MR_MAX(w->width - 1 - (int)(out->n - from), 3);
    mr_sv what = mr_sv_of(r->waiting);
    if (what.n > room)
        mr_str_printf(out, "%.*s...", (int)room - 3, what.p);
    else
        mr_str_append(out, what.p, what.n);
    finish_line(out, from, w->width, with);
}

/* Summarizes the rows from i on, which have no room: " and 32 more: 2 serving, 30 training". */
static void print_rest(const mr_task_table *t, int i, int width, bool color, mr_str *out)
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
    finish_line(out, from, width, color ? "2" : NULL);
}

static void print_title(const mr_task_table *t, int width, bool color, mr_str *out)
{
    size_t from = out->n;
    int64_t s = t->seconds;
    mr_str_printf(out, "-- millrace  %d task%s  %lld:%02lld:%02lld ", t->n, t->n == 1 ? "" : "s", (long long)(s / 3600),
                  (long long)(s / 60 % 60), (long long)(s % 60));
    while (out->n - from < (size_t)MR_MAX(MR_MIN(width - 1, 78), 0))
        mr_str_appendc(out, '-');
    finish_line(out, from, width, color ? "2" : NULL);
}

void mr_task_table_print(const mr_task_table *t, int width, int height, bool color, mr_str *out)
{
    widths w = measure_widths(t, width);
    int room = MR_MAX(height - 2, 1), shown = t->n <= room ? t->n : room - 1, spare = room - shown - (shown < t->n);
    print_title(t, width, color, out);
    print_head(&w, color, out);
    for (int i = 0; i < shown; i++) {
        bool own_line = needs_own_line(&w, &t->rows[i]) && spare > 0;
        spare -= own_line;
        print_row(&w, &t->rows[i], own_line, color, out);
    }
    if (shown < t->n)
        print_rest(t, shown, width, color, out);
}
