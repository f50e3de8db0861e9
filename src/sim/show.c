/* sim/show.c -- prints a simulated step as text. */
#include "sim/show.h"

#include <math.h>
#include <stdio.h>

#include "base/columns.h"
#include "base/memory.h"
#include "base/wrap.h"
#include "passes/effort.h"

enum { KEY = 11 }; /* columns of the keys of the summary */

void mr_sim_put_size(mr_str *out, double n, const char *unit)
{
    static const char *const powers[] = {"", "k", "M", "G", "T", "P", "E"};
    int i = 0;
    for (; n >= 999.5 && i + 1 < MR_COUNT(powers); i++)
        n /= 1000;
    mr_str_printf(out, "%.*f %s%s", n < 9.995 && i ? 2 : n < 99.95 && i ? 1 : 0, n, powers[i], unit);
}

void mr_sim_put_heading(const mr_terminal *to, const char *before, const char *text, mr_str *out)
{
    mr_str_appendz(out, before);
    size_t from = out->n;
    mr_style_put(to, MR_STYLE_HEADING, mr_sv_of(text), out);
    mr_str_appendc(out, '\n');
    mr_wrap(out, from, to->width, 0);
}

static void put_time(mr_str *out, double s) { mr_put_duration(out, (double)llround(s * 1e9)); }

static const char *device_name(const mr_sim_step *s, int d) { return s->plan->devices.p[d].name; }

/* The name in the color that the device has in the timeline. */
static void put_device(const mr_sim_step *s, int d, const mr_terminal *to, mr_str *out)
{
    mr_style_put(to, mr_style_device(d), mr_sv_of(device_name(s, d)), out);
}

static int name_width(const mr_sim_step *s)
{
    int w = 4;
    for (int d = 0; d < s->n_devices; d++)
        w = MR_MAX(w, (int)strlen(device_name(s, d)));
    return w;
}

double *mr_sim_single_steps(const mr_sim_step *s)
{
    double *out = mr_new_array(double, s->n_devices);
    for (int d = 0; d < s->n_devices; d++) {
        out[d] = INFINITY; /* stays if memory does not suffice, or the plan was cancelled */
        mr_status_free(mr_sim_step_alone(s, d, &out[d]));
    }
    return out;
}

/* ---- summary ---- */

static double total_flops(const mr_sim_step *s)
{
    double sum = 0;
    for (int v = 0; v < s->n_nodes; v++)
        sum += mr_effort_of(s->nodes[v], MR_USUAL_DIM).flops;
    return sum;
}

static void show_graph(const mr_sim_step *s, mr_str *out)
{
    const mr_sim_graph_plan *g = &s->plan->graph;
    mr_str_printf(out, "graph      %s", g->model ? g->model->name : g->file);
    for (int i = 0; g->model && g->model->params[i].name; i++)
        mr_str_printf(out, "%s%s %lld", i ? ", " : ": ", g->model->params[i].name, (long long)g->params[i]);
    mr_str_printf(out, "\n           %d nodes, %d of them for a step, ", s->def.g->nodes.n, s->n_needed);
    mr_sim_put_size(out, total_flops(s), "FLOP\n");
}

static void show_devices(const mr_sim_step *s, const mr_terminal *to, mr_str *out)
{
    int width = name_width(s);
    for (int d = 0; d < s->n_devices; d++) {
        const mr_speed *v = &s->devices[d]->speed;
        size_t from = out->n;
        mr_str_printf(out, "%-*s", KEY, d ? "" : "devices");
        put_device(s, d, to, out);
        mr_text_pad(out, from, KEY + width + 2);
        mr_sim_put_size(out, v->flops_per_s, "FLOP/s, ");
        mr_sim_put_size(out, v->bytes_per_s, "B/s, ");
        put_time(out, v->op_s);
        mr_str_appendz(out, " a node");
        if (s->memory[d] < INT64_C(1000000000000000)) {
            mr_str_appendz(out, ", memory ");
            mr_sim_put_size(out, (double)s->memory[d], "B");
        }
        mr_str_appendc(out, '\n');
        mr_wrap(out, from, to->width, KEY + width + 2);
    }
}

static void show_step(const mr_sim_step *s, const double *single, const mr_terminal *to, mr_str *out)
{
    int best = 0;
    mr_str time = {0};
    put_time(&time, s->step_s);
    mr_str_appendz(out, "step       ");
    mr_style_put(to, MR_STYLE_HEADING, mr_str_view(&time), out);
    mr_str_deinit(&time);
    for (int d = 1; single && d < s->n_devices; d++)
        best = single[d] < single[best] ? d : best;
    if (single && s->n_devices > 1 && !isinf(single[best])) {
        bool same = single[best] == s->step_s; /* never shorter: passes/place_cost.c */
        if (same)
            mr_str_appendz(out, ", the same as ");
        else
            mr_str_printf(out, ", %.2f times as fast as ", single[best] / s->step_s);
        mr_str_appendz(out, s->plan->pins.n ? "with all unpinned nodes on " : "on ");
        put_device(s, best, to, out);
        mr_str_appendz(out, s->plan->pins.n ? "" : " alone");
        if (!same) {
            mr_str_appendz(out, " (");
            put_time(out, single[best]);
            mr_str_appendc(out, ')');
        }
    }
    mr_str_appendz(out, "\nbusy       ");
    for (int d = 0; d < s->n_devices; d++) {
        mr_str_appendz(out, d ? ", " : "");
        put_device(s, d, to, out);
        mr_str_printf(out, " %.0f %%", s->step_s > 0 ? 100 * s->busy_s[d] / s->step_s : 0);
    }
    mr_str_appendc(out, '\n');
}

/* Shows what the pins cost, compared with the best single device of the plan without pins. */
static void show_pins(const mr_sim_step *s, const mr_terminal *to, mr_str *out)
{
    mr_sim_plan free_plan = *s->plan; /* shares everything but its numbers */
    mr_sim_step *unpinned = NULL;
    int best = 0;
    free_plan.pins.n = 0;
    free_plan.visits = 1; /* only single devices are simulated */
    mr_costs *costs = s->plan->costs ? NULL : (mr_costs *)s->place.measured;
    mr_status *st = mr_sim_step_new(&free_plan, costs, &unpinned);
    if (st) {
        mr_status_free(st);
        return;
    }
    double *alone = mr_sim_single_steps(unpinned);
    for (int d = 1; d < s->n_devices; d++)
        best = alone[d] < alone[best] ? d : best;
    if (alone[best] < s->step_s) {
        mr_str_appendz(out, "pins       without pins, ");
        put_device(s, best, to, out);
        mr_str_appendz(out, " alone would take ");
        put_time(out, alone[best]);
        mr_str_printf(out, " (%.2f times as fast)\n", s->step_s / alone[best]);
    }
    mr_free(alone);
    mr_sim_step_free(unpinned);
}

static void show_transfers(const mr_sim_step *s, mr_str *out)
{
    double bytes = 0;
    int n = 0;
    for (int i = 0; i < s->planned.play.sends.n; i++) {
        bytes += (double)s->planned.play.sends.p[i].bytes;
        n += s->planned.play.sends.p[i].bytes > 0;
    }
    mr_str_printf(out, "transfers  %d tensor%s, ", n, n == 1 ? "" : "s");
    mr_sim_put_size(out, bytes, "B");
    int controls = s->planned.play.sends.n - n; /* a send without bytes only signals that a node has ended */
    if (controls > 0)
        mr_str_printf(out, ", and %d control signal%s", controls, controls == 1 ? "" : "s");
    mr_str_appendc(out, '\n');
}

/* The title is free text: what might move the cursor becomes a space. */
static void show_title(const char *title, const mr_terminal *to, mr_str *out)
{
    mr_str text = {0};
    size_t from = out->n;
    for (const char *p = title; *p; p++)
        mr_str_appendc(&text, (unsigned char)*p < ' ' || *p == 0x7f ? ' ' : *p);
    mr_style_put(to, MR_STYLE_HEADING, mr_str_view(&text), out);
    mr_str_appendz(out, "\n\n");
    mr_wrap(out, from, to->width, 0);
    mr_str_deinit(&text);
}

void mr_sim_show_summary(const mr_sim_step *s, const double *single, const mr_terminal *to, mr_str *out)
{
    if (s->plan->title[0])
        show_title(s->plan->title, to, out);
    size_t from = out->n;
    show_graph(s, out);
    mr_wrap(out, from, to->width, KEY);
    show_devices(s, to, out);
    from = out->n;
    show_step(s, single, to, out);
    if (single && s->plan->pins.n && s->n_devices > 1)
        show_pins(s, to, out);
    if (s->n_devices > 1)
        show_transfers(s, out);
    if (s->place.measured)
        mr_str_appendz(out, "times      measured where there are measurements, estimated elsewhere\n");
    mr_wrap(out, from, to->width, KEY);
}

/* ---- reasons ---- */

typedef struct reasons {
    const mr_sim_step *s;
    const mr_terminal *to;
    mr_str *out;
    int width; /* of the names of devices */
} reasons;

/* What would change if the node were on another device. */
static void put_choice(mr_str *out, const mr_place_choice *c, double step_s)
{
    if (isinf(c->step_s)) {
        mr_str_appendz(out, "not enough memory\n");
        return;
    }
    mr_str_appendz(out, "it would end at ");
    put_time(out, c->ends_s);
    mr_str_appendz(out, ", the step at ");
    put_time(out, c->step_s);
    double more = c->step_s - step_s;
    if (fabs(more) < 0.5e-9) {
        mr_str_appendz(out, ", as now\n");
        return;
    }
    mr_str_appendz(out, ", ");
    put_time(out, fabs(more));
    mr_str_appendz(out, more > 0 ? " later\n" : " earlier\n");
}

/* Prints why a node is on its device, and what each other device would change. */
static void tell_reason(void *arg, const mr_place_reason *r)
{
    enum { HEAD = 4, CHOICE = 6 };
    reasons *t = arg;
    mr_str *out = t->out;
    size_t from = out->n;
    mr_str_appendz(out, "  ");
    mr_style_put(t->to, MR_STYLE_HEADING, mr_sv_of(r->node->name), out);
    mr_str_printf(out, " (%s) on ", r->node->def->name);
    put_device(t->s, r->here.device, t->to, out);
    mr_str_appendz(out, ", ends at ");
    put_time(out, r->here.ends_s);
    mr_str_printf(out, ": %s\n", r->why);
    mr_wrap(out, from, t->to->width, HEAD);
    for (int i = 0; i < r->n_others; i++) {
        int column = CHOICE + 3 + t->width + 2;
        from = out->n;
        mr_str_printf(out, "%*son ", CHOICE, "");
        put_device(t->s, r->others[i].device, t->to, out);
        mr_text_pad(out, from, column);
        put_choice(out, &r->others[i], r->here.step_s);
        mr_wrap(out, from, t->to->width, column);
    }
}

mr_status *mr_sim_show_reasons(const mr_sim_step *s, const char *node, const mr_terminal *to, mr_str *out)
{
    reasons r = {s, to, out, name_width(s)};
    return mr_sim_step_explain(s, node, tell_reason, &r);
}

/* ---- placement by layer ---- */

typedef struct row { /* a layer */
    mr_sv name;
    double *seconds; /* [phase * n_devices + device] */
    double flops;
} row;

typedef MR_VEC(row) row_vec;

static row *find_row(const mr_sim_step *s, row_vec *rows, mr_sv name)
{
    for (int i = 0; i < rows->n; i++)
        if (mr_sv_eq(rows->p[i].name, name))
            return &rows->p[i];
    mr_vec_push(rows, (row){.name = name, .seconds = mr_new_array(double, 3 * s->n_devices)});
    return &mr_vec_last(rows);
}

/* Sums up times and work by layer; the layers come first, in their order, then the rest. */
static void gather_rows(const mr_sim_step *s, const mr_simtrain_chunk *layers, int n_layers, row_vec *rows)
{
    for (int i = 0; i < n_layers; i++) /* in their order */
        find_row(s, rows, mr_sv_of(layers[i].name));
    for (int v = 0; v < s->n_nodes; v++) {
        mr_sim_phase phase = mr_sim_step_phase(s, v);
        mr_sv name = mr_sim_step_layer(s, v);
        row *r = NULL;
        for (int i = 0; i < n_layers && !r; i++) {
            size_t n = strlen(layers[i].name);
            if (name.n >= n && memcmp(name.p, layers[i].name, n) == 0 && (name.n == n || name.p[n] == '/'))
                r = &rows->p[i];
        }
        if (!r)
            r = find_row(s, rows, MR_SV("the rest"));
        r->seconds[(int)phase * s->n_devices + s->device[v]] += s->planned.play.finish[v] - s->planned.play.start[v];
        r->flops += mr_effort_of(s->nodes[v], MR_USUAL_DIM).flops;
    }
}

/* "gpu0", or "gpu0+gpu1" if the others have at least a fiftieth of the time. Returns the color of a single device. */
static const char *put_devices(const mr_sim_step *s, const double *seconds, mr_str *out)
{
    double sum = 0;
    int n = 0, last = 0;
    for (int d = 0; d < s->n_devices; d++)
        sum += seconds[d];
    for (int d = 0; d < s->n_devices; d++)
        if (seconds[d] > 0 && seconds[d] >= sum / 50) {
            mr_str_printf(out, "%s%s", n++ ? "+" : "", device_name(s, d));
            last = d;
        }
    if (!n)
        mr_str_appendc(out, '-');
    return n == 1 ? mr_style_device(last) : NULL;
}

static void show_rows(const mr_sim_step *s, const row_vec *rows, const mr_terminal *to, mr_str *out)
{
    enum { WORK = 4 };
    mr_columns table = {.right = 1u << WORK, .whole = 1u << WORK};
    mr_columns_row(&table, "layer", "forward", "backward", "update", "work");
    mr_columns_style(&table, -1, MR_STYLE_HEADING);
    for (int i = 0; i < rows->n; i++) {
        const row *r = &rows->p[i];
        mr_str cells[WORK + 1] = {0};
        const char *texts[WORK + 1], *colors[WORK + 1] = {0};
        mr_str_append(&cells[0], r->name.p, r->name.n);
        for (int phase = 0; phase < 3; phase++)
            colors[1 + phase] = put_devices(s, r->seconds + phase * s->n_devices, &cells[1 + phase]);
        mr_sim_put_size(&cells[WORK], r->flops, "FLOP");
        for (int k = 0; k <= WORK; k++)
            texts[k] = mr_str_z(&cells[k]);
        mr_columns_add(&table, WORK + 1, texts);
        for (int k = 0; k <= WORK; k++) {
            mr_columns_style(&table, k, colors[k]);
            mr_str_deinit(&cells[k]);
        }
    }
    mr_columns_fit(&table, to, 2, out);
}

enum { HEAVIEST = 5 };

/* Marks the nodes that take longest, among those that could run elsewhere. */
static void mark_heaviest(const mr_sim_step *s, bool *wanted)
{
    for (int k = 0; k < HEAVIEST; k++) {
        int best = -1;
        const mr_node *found = NULL;
        for (int v = 0; v < s->n_nodes; v++) {
            const mr_node *n = mr_graph_find(s->def.g, mr_sv_of(s->nodes[v]->name));
            double t = s->planned.play.finish[v] - s->planned.play.start[v];
            if (n && s->needed[n->id] && !wanted[n->id] && (best < 0 || t > s->planned.play.finish[best] - s->planned.play.start[best])) {
                best = v;
                found = n;
            }
        }
        if (found)
            wanted[found->id] = true;
    }
}

mr_status *mr_sim_show_placement(const mr_sim_step *s, const mr_terminal *to, mr_str *out)
{
    row_vec rows = {0};
    int n_layers;
    mr_simtrain_chunk *layers = mr_sim_step_chunks((mr_sim_step *)s, &n_layers);
    gather_rows(s, layers, n_layers, &rows);
    mr_sim_put_heading(to, "", "placement", out);
    show_rows(s, &rows, to, out);
    for (int i = 0; i < rows.n; i++)
        mr_free(rows.p[i].seconds);
    mr_vec_deinit(&rows);
    mr_free(layers);
    if (s->n_devices == 1)
        return NULL;
    bool *wanted = mr_new_array(bool, s->def.g->nodes.n + 1);
    mark_heaviest(s, wanted);
    mr_sim_put_heading(to, "\n", "why the heaviest nodes are placed where they are", out);
    reasons r = {s, to, out, name_width(s)};
    mr_status *st = mr_sim_step_reasons(s, wanted, tell_reason, &r);
    mr_free(wanted);
    return st;
}

/* ---- timeline ---- */

static int64_t to_ns(double seconds) { return (int64_t)llround(seconds * 1e9); }

static int task_of(const mr_sim_step *s, mr_timeline *t, int d)
{
    char name[32];
    snprintf(name, sizeof name, "task:%d", (int)s->plan->devices.p[d].task);
    return mr_timeline_task(t, mr_sv_of(name));
}

static void add_nodes(const mr_sim_step *s, mr_timeline *t, int *span)
{
    mr_str label = {0};
    for (int v = 0; v < s->n_nodes; v++) {
        int d = s->device[v];
        mr_str_clear(&label);
        mr_sim_step_label(s, v, &label);
        span[v] =
            mr_timeline_span(t, (mr_span){.name = mr_str_z(&label),
                                          .op = s->nodes[v]->def->name,
                                          .step = 1,
                                          .lane = mr_timeline_lane(t, task_of(s, t, d), mr_sv_of(device_name(s, d))),
                                          .start_ns = to_ns(s->planned.play.start[v]),
                                          .end_ns = to_ns(s->planned.play.finish[v])});
    }
    mr_str_deinit(&label);
}

/* A transfer is a span on its link, with arrows from the node that produces the tensor to the nodes that read it. */
static void add_sends(const mr_sim_step *s, mr_timeline *t, const int *span)
{
    const mr_play *play = &s->planned.play;
    mr_str label = {0};
    for (int i = 0; i < play->sends.n; i++) {
        const mr_play_send *x = &play->sends.p[i];
        char lane[80];
        mr_str_clear(&label);
        mr_sim_step_send_label(s, x, &label);
        snprintf(lane, sizeof lane, "%s>%s", device_name(s, x->from), device_name(s, x->to));
        double on_the_wire = (double)x->bytes / s->links[x->from * s->n_devices + x->to].bytes_per_s;
        int id = mr_timeline_span(t, (mr_span){.name = mr_str_z(&label), .op = "_Send", .step = 1, .kind = MR_SPAN_SEND, .bytes = x->bytes,
                                               .lane = mr_timeline_lane(t, task_of(s, t, x->from), mr_sv_of(lane)),
                                               .peer = 1 + task_of(s, t, x->to),
                                               .start_ns = to_ns(x->start), .end_ns = to_ns(x->start + on_the_wire)});
        mr_timeline_arrow(t, span[x->node], id, true);
        for (int k = play->first_use[x->node]; k < play->first_use[x->node + 1]; k++)
            if (play->uses[k].tensor == x->tensor && s->device[play->uses[k].node] == x->to)
                mr_timeline_arrow(t, id, span[play->uses[k].node], true);
    }
    mr_str_deinit(&label);
}

void mr_sim_step_timeline(const mr_sim_step *s, mr_timeline *out)
{
    int *span = mr_new_array(int, s->n_nodes + 1);
    for (int d = 0; d < s->n_devices; d++) /* in the plan's order, idle devices too */
        mr_timeline_lane(out, task_of(s, out, d), mr_sv_of(device_name(s, d)));
    mr_timeline_step_add(out, 1, 0, 0, to_ns(s->step_s));
    add_nodes(s, out, span);
    add_sends(s, out, span);
    mr_free(span);
}

void mr_sim_put_timeline(const mr_timeline *t, const mr_terminal *to, mr_timeline_text_options o, mr_str *out)
{
    o.width = to->width;
    o.color = to->color;
    o.ascii = to->ascii;
    mr_timeline_text(t, &o, out);
}

void mr_sim_show_timeline(const mr_sim_step *s, const mr_terminal *to, mr_str *out)
{
    mr_timeline t;
    mr_timeline_init(&t);
    mr_sim_step_timeline(s, &t);
    mr_sim_put_heading(to, "", "timeline", out);
    mr_sim_put_timeline(&t, to, (mr_timeline_text_options){0}, out);
    mr_timeline_deinit(&t);
}
