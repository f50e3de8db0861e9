/* exec/timeline_text.c -- a timeline as lines of characters.
 *
 *                  |0 ms     |2        |4        |6
 *     worker:0  CPU:0  [conv1===][pool]....[fc1==]   61 %
 *     ps:0      CPU:0        [>>]   [apply=]         20 %
 *
 * A lane is a line of cells. A cell shows the kind that took most of its time, however little that was: short
 * spans must not vanish. Spans of three cells or more get brackets, and as much of their name as fits. At the
 * right is the share of the time in which the lane did something other than wait (unless no_shares is set).
 *
 * With color, the background of a cell in which something happens shows what: a span is a box. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/terminal.h"
#include "base/wrap.h"
#include "exec/timeline.h"

enum {
    DEFAULT_WIDTH = 100,
    DEFAULT_LANES = 48,
    LABEL_MAX = 24,
    LABEL_MIN = 9, /* labels become shorter only for want of GOOD_CELLS, and no shorter than this */
    GOOD_CELLS = 20,
    MIN_CELLS = 10,
    MAX_CELLS = 4096,
    MARKS_TOLD = 12,
    NAME_MIN = 3, /* characters of a shortened name, without the ellipsis */
};
#define SHARE_WIDTH 6 /* " 100 %" */

static const char fills[MR_SPAN_KINDS] = {'=', ':', '>', '.', 's', 'x'};

/* By kind; NULL: the color of the lane. */
static const char *const styles[MR_SPAN_KINDS] = {
    NULL, MR_STYLE_INPUT_BOX, MR_STYLE_SEND_BOX, MR_STYLE_WAIT_BOX, MR_STYLE_SAVE_BOX, MR_STYLE_DOWN_BOX,
};

typedef struct drawn_cell {
    char shown;         /* ELLIPSIS stands for one */
    signed char kind;   /* -1: idle */
    bool mark;
} drawn_cell;
enum { ELLIPSIS = 1 };

typedef struct picture {
    const mr_timeline *t;
    mr_timeline_text_options o;
    mr_terminal terminal;
    double from_ns, ns_per_cell;
    int n_cells, task_width, lane_width;
    int *first, *next; /* spans by lane: the first of each lane, and the one after each span; -1: none */
    double *cells;     /* of one lane: n_cells x kinds, time spent */
    drawn_cell *line;
    int n_colored;     /* lanes that have a color, so far */
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

static const char *ellipsis(const picture *p) { return p->o.ascii ? "~" : "\xe2\x80\xa6"; }

/* Appends a text, cut to the width. Its end is kept, since it says more: whole names if there are some of four
 * characters or more, else from anywhere. */
static void put_end(const picture *p, mr_sv text, int width, mr_str *out)
{
    if (mr_text_columns(text) <= width) {
        mr_str_append(out, text.p, text.n);
        return;
    }
    size_t n = (size_t)MR_MAX(width - 1, 0);
    mr_sv end = {text.p + text.n - n, n};
    while (end.n && ((unsigned char)end.p[0] & 0xC0) == 0x80) /* inside of a character */
        end = (mr_sv){end.p + 1, end.n - 1};
    mr_sv names = end;
    for (size_t i = 0; i + 4 < end.n && names.n == end.n; i++)
        if (strchr("/ ", end.p[i]))
            names = (mr_sv){end.p + i + 1, end.n - i - 1};
    mr_str_appendz(out, ellipsis(p));
    mr_str_append(out, names.p, names.n);
}

/* A label of the given width. Of a link, both ends are shortened: "cpu0>gpu0". */
static void put_label(picture *p, const char *text, const char *style, int width)
{
    mr_str label = {0};
    const char *link = strchr(text, '>');
    size_t from = p->out->n;
    if (link && mr_text_columns(mr_sv_of(text)) > width) {
        put_end(p, (mr_sv){text, (size_t)(link - text)}, (width - 1) / 2, &label);
        mr_str_appendc(&label, '>');
        put_end(p, mr_sv_of(link + 1), width - 1 - (width - 1) / 2, &label);
    } else {
        put_end(p, mr_sv_of(text), width, &label);
    }
    mr_style_put(&p->terminal, style, mr_str_view(&label), p->out);
    mr_text_pad(p->out, from, width);
    mr_str_deinit(&label);
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
    mr_str_printf(p->out, "%*s", p->task_width + p->lane_width + 4, "");
    mr_style_put(&p->terminal, MR_STYLE_DIM, shown, p->out);
    mr_str_appendc(p->out, '\n');
    mr_str_deinit(&line);
}

/* With color, computing needs no character: the color of its lane shows it, and names are easier to read. */
static char fill_of(const picture *p, int kind)
{
    return kind < 0 || (p->o.color && !styles[kind]) ? ' ' : fills[kind];
}

/* Explains only the characters that occur in the picture. */
static void put_legend(picture *p, const bool *seen)
{
    int indent = p->task_width + p->lane_width + 4, column = indent;
    mr_str_printf(p->out, "%*s", indent, "");
    for (int k = 0, n = 0; k < MR_SPAN_KINDS; k++) {
        const char *name = mr_span_kind_name((mr_span_kind)k);
        int width = 2 + (int)strlen(name);
        if (!seen[k])
            continue;
        if (n && column + 3 + width > p->terminal.width) {
            mr_str_printf(p->out, "\n%*s", indent, "");
            column = indent;
            n = 0;
        }
        mr_str_printf(p->out, "%s", n++ ? "   " : "");
        if (p->o.color)
            mr_str_printf(p->out, "\x1b[%sm%c\x1b[0m %s", styles[k] ? styles[k] : mr_style_device_box(0), fill_of(p, k),
                          name);
        else
            mr_str_printf(p->out, "%c %s", fills[k], name);
        column += width + 3;
    }
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

/* The kind with most time in the cell; -1 if nothing happened. */
static int cell_kind(const double *cell)
{
    int most = 0;
    for (int k = 1; k < MR_SPAN_KINDS; k++)
        if (cell[k] > cell[most])
            most = k;
    return cell[most] > 0 ? most : -1;
}

/* The part of a name that says something in n characters: all of it, else its last components, else the beginning of
 * the last one and an ellipsis (*cut), else nothing. */
static mr_sv fitting_name(const char *name, int n, bool *cut)
{
    mr_sv v = mr_name_end(mr_sv_of(name), n);
    const char *slash = strrchr(name, '/');
    mr_sv last = mr_sv_of(slash ? slash + 1 : name); /* may be empty */
    *cut = !v.n && n >= NAME_MIN + 1 && last.n > (size_t)n;
    return *cut ? (mr_sv){last.p, (size_t)n - 1} : v;
}

/* Draws brackets and name over the fill. If the fill says more than "it computes", one cell of it stays in
 * front of the name. */
static void draw_span(picture *p, const mr_span *s)
{
    int from = (int)clip_to_cells(p, s->start_ns), to = (int)ceil(clip_to_cells(p, s->end_ns)) - 1;
    bool cut;
    if (to - from < 2 || (double)s->end_ns < p->from_ns)
        return;
    if (s->kind != MR_SPAN_WAIT) { /* a bracket has the color of its span, whatever takes most of the cell's time */
        p->line[from] = (drawn_cell){.shown = '[', .kind = (signed char)s->kind};
        p->line[to] = (drawn_cell){.shown = ']', .kind = (signed char)s->kind};
    }
    int at = from + (s->kind == MR_SPAN_COMPUTE ? 1 : 2);
    MR_ASSERT(from >= 0 && to < p->n_cells);
    if (p->o.no_names)
        return;
    mr_sv name = fitting_name(s->name, to - at, &cut);
    for (size_t i = 0; i < name.n; i++) {
        unsigned char c = (unsigned char)name.p[i];
        p->line[at + (int)i].shown = c >= 0x21 && c < 0x7f ? (char)c : '?';
    }
    if (cut)
        p->line[at + (int)name.n].shown = ELLIPSIS;
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

/* Appends the first n cells of the line. Cells of one style share an escape sequence. */
static void put_cells(picture *p, int n, const char *compute)
{
    const char *style = NULL;
    for (int i = 0; i < n; i++) {
        const drawn_cell *c = &p->line[i];
        const char *wanted = NULL;
        if (p->o.color && c->mark)
            wanted = MR_STYLE_MARK;
        else if (p->o.color && c->kind >= 0)
            wanted = styles[c->kind] ? styles[c->kind] : compute;
        if (wanted != style) {
            mr_str_appendz(p->out, style ? "\x1b[0m" : "");
            if (wanted)
                mr_str_printf(p->out, "\x1b[%sm", wanted);
            style = wanted;
        }
        if (c->shown == ELLIPSIS)
            mr_str_appendz(p->out, ellipsis(p));
        else
            mr_str_appendc(p->out, c->shown);
    }
    mr_str_appendz(p->out, style ? "\x1b[0m" : "");
}

/* Fills p->line with the cells of a lane, its spans and its marks. */
static void draw_lane(picture *p, int lane)
{
    for (int c = 0; c < p->n_cells; c++) {
        int kind = cell_kind(&p->cells[c * MR_SPAN_KINDS]);
        p->line[c] = (drawn_cell){.shown = fill_of(p, kind), .kind = (signed char)kind};
    }
    draw_spans(p, lane);
    for (int i = 0; i < p->t->marks.n; i++) {
        const mr_mark *m = &p->t->marks.p[i];
        drawn_cell *c = &p->line[MR_MIN((int)clip_to_cells(p, m->at_ns), p->n_cells - 1)];
        if (row_of(p->t, m->lane) == lane && (double)m->at_ns >= p->from_ns) {
            c->shown = '!';
            c->mark = true;
        }
    }
}

/* The number of the color of a lane: that of the next device. Lanes that only transfer or wait have none, -1. */
static int lane_color(picture *p, int lane)
{
    bool colored = p->first[lane] < 0; /* an idle device */
    for (int i = p->first[lane]; i >= 0 && !colored; i = p->next[i])
        colored = !styles[p->t->spans.p[i].kind];
    return colored ? p->n_colored++ : -1;
}

/* Prints one line: labels, cells and the busy share. seen: the kinds that the legend must explain. */
static void put_lane(picture *p, int lane, bool with_task, bool *seen)
{
    const mr_lane *l = &p->t->lanes.p[lane];
    int color = lane_color(p, lane);
    count_lane(p, lane);
    draw_lane(p, lane);
    for (int i = 0; i < p->n_cells * MR_SPAN_KINDS; i++)
        seen[i % MR_SPAN_KINDS] |= p->cells[i] > 0;
    put_label(p, with_task ? p->t->tasks.p[l->task] : "", NULL, p->task_width);
    mr_str_appendz(p->out, "  ");
    put_label(p, l->name, color < 0 ? NULL : mr_style_device(color), p->lane_width);
    mr_str_appendz(p->out, "  ");
    /* Without the column at the right, trailing blanks are cut. */
    int n_cells = p->n_cells;
    while (p->o.no_shares && n_cells > 0 && p->line[n_cells - 1].kind < 0 && !p->line[n_cells - 1].mark)
        n_cells--;
    put_cells(p, n_cells, mr_style_device_box(color));
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
        int task = MR_MIN(mr_text_columns(mr_sv_of(t->tasks.p[t->lanes.p[i].task])), LABEL_MAX);
        int lane = MR_MIN(mr_text_columns(mr_sv_of(t->lanes.p[i].name)), LABEL_MAX);
        p->task_width = MR_MAX(p->task_width, task);
        p->lane_width = MR_MAX(p->lane_width, lane);
    }
    int width = p->o.width > 0 ? p->o.width : DEFAULT_WIDTH;
    p->terminal = (mr_terminal){.width = width, .color = p->o.color, .ascii = p->o.ascii};
    int cells = width - p->task_width - p->lane_width - 4 - SHARE_WIDTH;
    for (; cells < GOOD_CELLS && MR_MAX(p->task_width, p->lane_width) > LABEL_MIN; cells++)
        --*(p->task_width > p->lane_width ? &p->task_width : &p->lane_width);
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
        size_t from = p->out->n;
        mr_style_put(&p->terminal, MR_STYLE_MARK, MR_SV("!"), p->out);
        mr_str_appendc(p->out, ' ');
        mr_put_duration(p->out, fmax(0, (double)m->at_ns - p->from_ns));
        mr_str_printf(p->out, "  %s: %s\n", t->tasks.p[t->lanes.p[m->lane].task], m->text);
        mr_wrap(p->out, from, p->terminal.width, 4);
    }
    if (t->marks.n > MARKS_TOLD)
        mr_str_printf(p->out, "! and %d more\n", t->marks.n - MARKS_TOLD);
}

/* One line for the lanes that are not drawn. */
static void put_rest(picture *p, int n_left, double busy)
{
    size_t from = p->out->n;
    if (!n_left)
        return;
    mr_str_printf(p->out, "... and %d more lanes", n_left);
    if (!p->o.no_shares)
        mr_str_printf(p->out, ", busy %.0f %% of the time", 100 * busy / n_left / p->n_cells);
    mr_str_appendc(p->out, '\n');
    mr_wrap(p->out, from, p->terminal.width, 4);
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
    p.line = mr_new_array(drawn_cell, p.n_cells);
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
