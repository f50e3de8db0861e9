/* exec/timeline_text.c -- a timeline as lines of characters.
 *
 *                  |0 ms     |2        |4        |6
 *     worker:0  CPU:0  [conv1===][pool]....[fc1==]   61 %
 *     ps:0      CPU:0        [>>]   [apply=]         20 %
 *
 * A lane is a line of cells. A cell shows the kind that took most of its time, however little that was: short
 * spans must not vanish. Spans of three cells or more get brackets, and as much of their name as fits. At the
 * right is the share of the time in which the lane did something other than wait (unless no_shares is set). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "exec/timeline.h"

enum {
    DEFAULT_WIDTH = 100,
    DEFAULT_LANES = 48,
    LABEL_MAX = 24,
    MIN_CELLS = 20,
    MAX_CELLS = 4096,
    MARKS_TOLD = 12,
    NAME_MIN = 7
};
#define SHARE_WIDTH 6 /* " 100 %" */

static const char fills[MR_SPAN_KINDS] = {'=', ':', '>', '.', 's', 'x'};

typedef struct picture {
    const mr_timeline *t;
    mr_timeline_text_options o;
    double from_ns, ns_per_cell;
    int n_cells, task_width, lane_width;
    int *first, *next; /* spans by lane: the first of each lane, and the one after each span; -1: none */
    double *cells;     /* of one lane: n_cells x kinds, time spent */
    char *line;
    mr_str *out;
} picture;

/* ---- numbers ---- */

typedef struct unit {
    const char *name;
    double ns;
} unit;

/* The largest unit in which the duration is at least 1; for minutes and hours at least 3, because 90 s reads
 * better than 1.5 min. */
static unit unit_of(double ns)
{
    static const unit units[] = {
        {"h", 3600e9}, {"min", 60e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}};
    for (int i = 0; i < MR_COUNT(units); i++)
        if (ns >= units[i].ns * (i < 2 ? 3 : 1))
            return units[i];
    return (unit){"ns", 1};
}

/* Three significant digits, as far as the unit is not nanoseconds. */
void mr_put_duration(mr_str *out, double ns)
{
    unit u = unit_of(ns);
    double v = ns / u.ns;
    mr_str_printf(out, "%.*f %s",
                  v < 9.995 && u.ns > 1   ? 2
                  : v < 99.95 && u.ns > 1 ? 1
                                          : 0,
                  v, u.name);
}

/* The smallest 1, 2 or 5 times a power of ten that is not less than v. */
static double round_up(double v)
{
    double power = pow(10, floor(log10(v)));
    double lead = v / power;
    return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

/* ---- the frame ---- */

/* Pads or cuts to the width. Of a longer text the end is kept, since it says more. */
static void put_label(mr_str *out, const char *text, int width)
{
    size_t n = strlen(text);
    bool cut = n > (size_t)width;
    mr_str_printf(out, "%s%-*s", cut ? "~" : "", width - cut,
                  cut ? text + n - (size_t)width + 1 : text);
}

/* Draws a tick about every ten cells, in a unit that suits the whole range. */
static void put_axis(picture *p)
{
    double total = p->ns_per_cell * p->n_cells;
    unit u = unit_of(total);
    double tick = round_up(10 * p->ns_per_cell / u.ns) * u.ns;
    mr_str line = {0};
    for (int i = 0; i < p->n_cells + 10; i++)
        mr_str_appendc(&line, ' ');
    for (double at = 0; at < total; at += tick) {
        char text[40];
        int cell = (int)(at / p->ns_per_cell);
        int n = snprintf(text, sizeof text, "|%.6g%s%s", at / u.ns, at == 0 ? " " : "",
                         at == 0 ? u.name : "");
        if (cell + n <= p->n_cells)
            memcpy(line.p + cell, text, (size_t)n);
    }
    mr_sv shown = mr_str_view(&line);
    while (shown.n && shown.p[shown.n - 1] == ' ')
        shown.n--;
    mr_str_printf(p->out, "%*s%.*s\n", p->task_width + p->lane_width + 4, "", MR_SV_ARG(shown));
    mr_str_deinit(&line);
}

/* Explains only the characters that occur in the picture. */
static void put_legend(picture *p, const bool *seen)
{
    mr_str_printf(p->out, "%*s", p->task_width + p->lane_width + 4, "");
    for (int k = 0, n = 0; k < MR_SPAN_KINDS; k++)
        if (seen[k])
            mr_str_printf(p->out, "%s%c %s", n++ ? "   " : "", fills[k],
                          mr_span_kind_name((mr_span_kind)k));
    mr_str_appendc(p->out, '\n');
}

/* The lane in whose line a lane is drawn; that lane may itself be drawn in another one's line. */
static int row_of(const mr_timeline *t, int lane)
{
    for (int i = 0; i < 4 && t->lanes.p[lane].row != lane; i++)
        lane = t->lanes.p[lane].row;
    return lane;
}

/* ---- one lane ---- */

/* The cell of a time, between 0 and n_cells. */
static double clip_to_cells(const picture *p, int64_t ns)
{
    double cell = ((double)ns - p->from_ns) / p->ns_per_cell;
    return fmin(fmax(cell, 0), p->n_cells);
}

/* Adds a span's time to its cells. A span shorter than a cell still counts a little, so that it shows. */
static void count_span(picture *p, const mr_span *s)
{
    double from = clip_to_cells(p, s->start_ns), to = clip_to_cells(p, s->end_ns);
    if ((double)s->end_ns < p->from_ns || from >= p->n_cells)
        return;
    for (int c = (int)from; c < p->n_cells && c <= (int)to; c++) {
        double part = fmin(to, c + 1) - fmax(from, c);
        p->cells[c * MR_SPAN_KINDS + (int)s->kind] += part > 0 || from == to ? part + 1e-9 : 0;
    }
}

/* The character of the kind with most time in the cell. */
static char cell_fill(const double *cell)
{
    int most = 0;
    for (int k = 1; k < MR_SPAN_KINDS; k++)
        if (cell[k] > cell[most])
            most = k;
    return cell[most] > 0 ? fills[most] : ' ';
}

/* The part of a name that says something in n characters: all of it, else its last components, else the
 * beginning of the last one if n allows a useful piece. */
static mr_sv fitting_name(const char *name, int n)
{
    mr_sv v = mr_sv_of(name);
    while (v.n > (size_t)n) {
        const char *slash = memchr(v.p, '/', v.n);
        if (!slash || slash + 1 == v.p + v.n)
            break;
        v = (mr_sv){slash + 1, v.n - (size_t)(slash + 1 - v.p)};
    }
    if (v.n > (size_t)n)
        v.n = n >= NAME_MIN ? (size_t)n : 0;
    return v;
}

/* Draws brackets and name over the fill. If the fill says more than "it computes", one cell of it stays in
 * front of the name. */
static void draw_span(picture *p, const mr_span *s)
{
    int from = (int)clip_to_cells(p, s->start_ns), to = (int)ceil(clip_to_cells(p, s->end_ns)) - 1;
    if (to - from < 2 || (double)s->end_ns < p->from_ns)
        return;
    if (s->kind != MR_SPAN_WAIT) {
        p->line[from] = '[';
        p->line[to] = ']';
    }
    int at = from + (s->kind == MR_SPAN_COMPUTE ? 1 : 2);
    MR_ASSERT(from >= 0 && to < p->n_cells);
    mr_sv name = p->o.no_names ? MR_SV("") : fitting_name(s->name, to - at);
    for (size_t i = 0; i < name.n; i++) {
        unsigned char c = (unsigned char)name.p[i];
        p->line[at + (int)i] = c >= 0x21 && c < 0x7f ? (char)c : '?';
    }
}

/* A span that begins inside another one, or beside it in a lane that shares the line, is not drawn over it. */
static void draw_spans(picture *p, int lane)
{
    const mr_span *outer = NULL;
    for (int i = p->first[lane]; i >= 0; i = p->next[i]) {
        const mr_span *s = &p->t->spans.p[i];
        if (outer && s->start_ns < outer->end_ns)
            continue;
        outer = s;
        draw_span(p, s);
    }
}

/* The time, in cells, in which the lane of p->cells did something other than wait. Nested spans count once. */
static double busy_cells(const picture *p)
{
    double busy = 0;
    for (int c = 0; c < p->n_cells; c++) {
        const double *cell = &p->cells[c * MR_SPAN_KINDS];
        busy += fmin(1, cell[MR_SPAN_COMPUTE] + cell[MR_SPAN_INPUT] + cell[MR_SPAN_SEND] +
                            cell[MR_SPAN_SAVE]);
    }
    return busy;
}

/* Fills p->cells with the time of each kind in each cell of a lane. */
static void count_lane(picture *p, int lane)
{
    memset(p->cells, 0, sizeof *p->cells * (size_t)p->n_cells * MR_SPAN_KINDS);
    for (int i = p->first[lane]; i >= 0; i = p->next[i])
        count_span(p, &p->t->spans.p[i]);
}

/* Draws one line: labels, cells, marks and the busy share. seen: the kinds that the legend must explain. */
static void put_lane(picture *p, int lane, bool with_task, bool *seen)
{
    const mr_lane *l = &p->t->lanes.p[lane];
    count_lane(p, lane);
    for (int c = 0; c < p->n_cells; c++) {
        const double *cell = &p->cells[c * MR_SPAN_KINDS];
        p->line[c] = cell_fill(cell);
        for (int k = 0; k < MR_SPAN_KINDS; k++)
            seen[k] = seen[k] || cell[k] > 0;
    }
    draw_spans(p, lane);
    for (int i = 0; i < p->t->marks.n; i++) {
        const mr_mark *m = &p->t->marks.p[i];
        double cell = clip_to_cells(p, m->at_ns);
        if (row_of(p->t, m->lane) == lane && (double)m->at_ns >= p->from_ns)
            p->line[MR_MIN((int)cell, p->n_cells - 1)] = '!';
    }
    put_label(p->out, with_task ? p->t->tasks.p[l->task] : "", p->task_width);
    mr_str_appendz(p->out, "  ");
    put_label(p->out, l->name, p->lane_width);
    /* Without the column at the right, trailing blanks are cut. */
    int n_cells = p->n_cells;
    while (p->o.no_shares && n_cells > 0 && p->line[n_cells - 1] == ' ')
        n_cells--;
    mr_str_printf(p->out, "  %.*s", n_cells, p->line);
    if (!p->o.no_shares)
        mr_str_printf(p->out, " %3.0f %%", 100 * busy_cells(p) / p->n_cells);
    mr_str_appendc(p->out, '\n');
}

/* ---- all ---- */

/* For qsort: by start, the outer one of nested spans first. */
static int by_start(const void *a, const void *b)
{
    const mr_span *x = *(const mr_span *const *)a, *y = *(const mr_span *const *)b;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns); /* the outer one first */
}

/* Makes a list of each line's spans by rising start; filled from the last to the first. */
static void sort_spans(picture *p)
{
    const mr_timeline *t = p->t;
    const mr_span **sorted = mr_new_array(const mr_span *, t->spans.n + 1);
    for (int i = 0; i < t->spans.n; i++)
        sorted[i] = &t->spans.p[i];
    qsort(sorted, (size_t)t->spans.n, sizeof *sorted, by_start);
    for (int i = 0; i < t->lanes.n; i++)
        p->first[i] = -1;
    for (int i = t->spans.n; i-- > 0;) {
        int id = (int)(sorted[i] - t->spans.p), lane = row_of(t, sorted[i]->lane);
        p->next[id] = p->first[lane];
        p->first[lane] = id;
    }
    mr_free(sorted);
}

/* Decides the widths of the columns and the time per cell. */
static void measure_picture(picture *p)
{
    const mr_timeline *t = p->t;
    int64_t from = p->o.from_ns, to = p->o.to_ns;
    if (!from && !to)
        mr_timeline_range(t, &from, &to);
    for (int i = 0; i < t->lanes.n; i++) {
        int task = (int)MR_MIN(strlen(t->tasks.p[t->lanes.p[i].task]), (size_t)LABEL_MAX);
        int lane = (int)MR_MIN(strlen(t->lanes.p[i].name), (size_t)LABEL_MAX);
        p->task_width = MR_MAX(p->task_width, task);
        p->lane_width = MR_MAX(p->lane_width, lane);
    }
    int width = p->o.width > 0 ? p->o.width : DEFAULT_WIDTH;
    int cells = width - p->task_width - p->lane_width - 4 - SHARE_WIDTH;
    p->n_cells = MR_MIN(MR_MAX(cells, MIN_CELLS), MAX_CELLS);
    MR_ASSERT(p->n_cells >= MIN_CELLS && p->n_cells <= MAX_CELLS);
    p->from_ns = (double)from;
    p->ns_per_cell = fmax(1e-3, ((double)to - (double)from) / p->n_cells);
}

/* Lists the first marks with their times; the picture shows only where they are. */
static void put_marks(picture *p)
{
    const mr_timeline *t = p->t;
    for (int i = 0; i < t->marks.n && i < MARKS_TOLD; i++) {
        const mr_mark *m = &t->marks.p[i];
        mr_str_appendz(p->out, "! ");
        mr_put_duration(p->out, fmax(0, (double)m->at_ns - p->from_ns));
        mr_str_printf(p->out, "  %s: %s\n", t->tasks.p[t->lanes.p[m->lane].task], m->text);
    }
    if (t->marks.n > MARKS_TOLD)
        mr_str_printf(p->out, "! and %d more\n", t->marks.n - MARKS_TOLD);
}

/* One line for the lanes that are not drawn. */
static void put_rest(picture *p, int n_left, double busy)
{
    if (!n_left)
        return;
    mr_str_printf(p->out, "... and %d more lanes", n_left);
    if (!p->o.no_shares)
        mr_str_printf(p->out, ", busy %.0f %% of the time", 100 * busy / n_left / p->n_cells);
    mr_str_appendc(p->out, '\n');
}

/* Draws the lanes of one task together, in the order they were added. */
static void put_lanes(picture *p, bool *seen)
{
    const mr_timeline *t = p->t;
    int max = p->o.max_lanes > 0 ? p->o.max_lanes : DEFAULT_LANES, shown = 0, left = 0;
    double left_busy = 0;
    MR_VEC(int) *of_task = (void *)mr_calloc((size_t)t->tasks.n + 1, sizeof *of_task);
    for (int i = 0; i < t->lanes.n; i++)
        if (t->lanes.p[i].row == i)
            mr_vec_push(&of_task[t->lanes.p[i].task], i);
    for (int task = 0; task < t->tasks.n; task++) {
        for (int i = 0; i < of_task[task].n; i++) {
            if (shown < max) {
                put_lane(p, of_task[task].p[i], i == 0, seen);
                shown++;
            } else {
                count_lane(p, of_task[task].p[i]);
                left_busy += busy_cells(p);
                left++;
            }
        }
        mr_vec_deinit(&of_task[task]);
    }
    mr_free(of_task);
    put_rest(p, left, left_busy);
}

/* The arrays of the picture serve one lane at a time, so memory does not grow with the number of lanes. Axis and
 * cells share the scale that measure_picture chooses. */
void mr_timeline_text(const mr_timeline *t, const mr_timeline_text_options *options, mr_str *out)
{
    picture p = {.t = t, .out = out};
    bool seen[MR_SPAN_KINDS] = {0};
    if (options)
        p.o = *options;
    if (!t->lanes.n) {
        mr_str_appendz(out, "(the timeline is empty)\n");
        return;
    }
    measure_picture(&p);
    p.first = mr_new_array(int, t->lanes.n);
    p.next = mr_new_array(int, t->spans.n + 1);
    p.cells = mr_new_array(double, p.n_cells *MR_SPAN_KINDS);
    p.line = mr_new_array(char, p.n_cells + 1);
    sort_spans(&p);
    put_axis(&p);
    put_lanes(&p, seen);
    put_legend(&p, seen);
    put_marks(&p);
    mr_free(p.first);
    mr_free(p.next);
    mr_free(p.cells);
    mr_free(p.line);
}
