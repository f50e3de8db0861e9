/* sim/show.c -- prints a simulated step as text. */
#include "sim/show.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "passes/effort.h"

void mr_sim_put_size(mr_str *out, double n, const char *unit)
{
    static const char *const powers[] = {"", "k", "M", "G", "T", "P", "E"};
    int i = 0;
    for (; n >= 999.5 && i + 1 < MR_COUNT(powers); i++)
        n /= 1000;
    mr_str_printf(out, "%.*f %s%s", n < 9.995 && i ? 2 : n < 99.95 && i ? 1 : 0, n, powers[i], unit);
}

static void put_time(mr_str *out, double s) { mr_put_duration(out, (double)llround(s * 1e9)); }

/* Pads the text written since `from` to a width. */
static void pad_to(mr_str *out, size_t from, int width)
{
    while (out->n - from < (size_t)width)
        mr_str_appendc(out, ' ');
}

static const char *device_name(const mr_sim_step *s, int d) { return s->plan->devices.p[d].name; }

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
        out[d] = INFINITY;
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

static void show_devices(const mr_sim_step *s, mr_str *out)
{
    int width = name_width(s);
    for (int d = 0; d < s->n_devices; d++) {
        const mr_speed *v = &s->devices[d]->speed;
        mr_str_printf(out, "%-10s %-*s  ", d ? "" : "devices", width, device_name(s, d));
        mr_sim_put_size(out, v->flops_per_s, "FLOP/s, ");
        mr_sim_put_size(out, v->bytes_per_s, "B/s, ");
        put_time(out, v->op_s);
        mr_str_appendz(out, " a node");
        if (s->memory[d] < INT64_C(1000000000000000)) {
            mr_str_appendz(out, ", memory ");
            mr_sim_put_size(out, (double)s->memory[d], "B");
        }
        mr_str_appendc(out, '\n');
    }
}

static void show_step(const mr_sim_step *s, const double *single, mr_str *out)
{
    int best = 0;
    mr_str_appendz(out, "step       ");
    put_time(out, s->step_s);
    for (int d = 1; single && d < s->n_devices; d++)
        best = single[d] < single[best] ? d : best;
    if (single && s->n_devices > 1 && !isinf(single[best])) {
        const char *before = s->plan->pins.n ? "with all unpinned nodes on " : "on ", *after = s->plan->pins.n ? "" : " alone";
        if (single[best] == s->step_s) {
            mr_str_printf(out, ", the same as %s%s%s", before, device_name(s, best), after);
        } else { /* never shorter: passes/place_cost.c */
            mr_str_printf(out, ", %.2f times as fast as %s%s%s (", single[best] / s->step_s, before, device_name(s, best), after);
            put_time(out, single[best]);
            mr_str_appendc(out, ')');
        }
    }
    mr_str_appendz(out, "\nbusy       ");
    for (int d = 0; d < s->n_devices; d++)
        mr_str_printf(out, "%s%s %.0f %%", d ? ", " : "", device_name(s, d), s->step_s > 0 ? 100 * s->busy_s[d] / s->step_s : 0);
    mr_str_appendc(out, '\n');
}

/* Shows what the pins cost, compared with the best single device of the plan without pins. */
static void show_pins(const mr_sim_step *s, mr_str *out)
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
        mr_str_printf(out, "pins       without pins, %s alone would take ", device_name(s, best));
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

void mr_sim_show_summary(const mr_sim_step *s, const double *single, mr_str *out)
{
    if (s->plan->title[0])
        mr_str_printf(out, "%s\n\n", s->plan->title);
    show_graph(s, out);
    show_devices(s, out);
    show_step(s, single, out);
    if (single && s->plan->pins.n && s->n_devices > 1)
        show_pins(s, out);
    if (s->n_devices > 1)
        show_transfers(s, out);
    if (s->place.measured)
        mr_str_appendz(out, "times      measured where there are measurements, estimated elsewhere\n");
}

/* ---- reasons ---- */

typedef struct reasons {
    const mr_sim_step *s;
    mr_str *out;
    int width; /* of the names of devices */
} reasons;

/* Prints why a node is on its device, and what each other device would change. */
static void tell_reason(void *arg, const mr_place_reason *r)
{
    reasons *t = arg;
    mr_str *out = t->out;
    mr_str_printf(out, "  %s (%s) on %s, ends at ", r->node->name, r->node->def->name, device_name(t->s, r->here.device));
    put_time(out, r->here.ends_s);
    mr_str_printf(out, ": %s\n", r->why);
    for (int i = 0; i < r->n_others; i++) {
        const mr_place_choice *c = &r->others[i];
        mr_str_printf(out, "      on %-*s  ", t->width, device_name(t->s, c->device));
        if (isinf(c->step_s)) {
            mr_str_appendz(out, "not enough memory\n");
            continue;
        }
        mr_str_appendz(out, "it would end at ");
        put_time(out, c->ends_s);
        mr_str_appendz(out, ", the step at ");
        put_time(out, c->step_s);
        double more = c->step_s - r->here.step_s;
        if (fabs(more) < 0.5e-9) {
            mr_str_appendz(out, ", as now\n");
            continue;
        }
        mr_str_appendz(out, ", ");
        put_time(out, fabs(more));
        mr_str_appendz(out, more > 0 ? " later\n" : " earlier\n");
    }
}

/* Each explained node costs a simulated step for every device. */
enum { MOST_VISITS = 50000000 };

static mr_status *explain_nodes(const mr_sim_step *s, const bool *wanted, mr_str *out)
{
    int64_t n = 0;
    for (int i = 0; i < s->def.g->nodes.n; i++)
        n += s->needed[i] && wanted[i];
    if (n * s->n_devices * s->n_needed > MOST_VISITS)
        return mr_error(MR_RESOURCE_EXHAUSTED,
                        "%lld nodes on %d devices are too many to explain at once; name a few of them", (long long)n,
                        s->n_devices);
    reasons r = {s, out, name_width(s)};
    return mr_sim_step_reasons(s, wanted, tell_reason, &r);
}

mr_status *mr_sim_show_reasons(const mr_sim_step *s, const char *node, mr_str *out)
{
    bool *wanted = mr_new_array(bool, s->def.g->nodes.n + 1);
    int n = 0;
    for (int i = 0; i < s->def.g->nodes.n; i++) {
        wanted[i] = s->needed[i] && (!node || strncmp(s->def.g->nodes.p[i]->name, node, strlen(node)) == 0);
        n += wanted[i];
    }
    size_t before = out->n;
    mr_status *st =
        n ? explain_nodes(s, wanted, out) : mr_invalid("The step does not run a node '%s'", node ? node : "");
    if (!st && out->n == before)
        st = mr_invalid("The step does not run '%s': it is computed when the step is prepared, or merged with an equal node", node ? node : "");
    mr_free(wanted);
    return st;
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

/* "gpu0", or "gpu0+gpu1" if the others have at least a fiftieth of the time. */
static void put_devices(const mr_sim_step *s, const double *seconds, mr_str *out)
{
    double sum = 0;
    int n = 0;
    for (int d = 0; d < s->n_devices; d++)
        sum += seconds[d];
    for (int d = 0; d < s->n_devices; d++)
        if (seconds[d] > 0 && seconds[d] >= sum / 50)
            mr_str_printf(out, "%s%s", n++ ? "+" : "", device_name(s, d));
    if (!n)
        mr_str_appendc(out, '-');
}

/* The width of the widest cell. */
static int cell_width(const mr_sim_step *s, const row_vec *rows)
{
    mr_str text = {0};
    int width = 8;
    for (int i = 0; i < 3 * rows->n; i++) {
        mr_str_clear(&text);
        put_devices(s, rows->p[i / 3].seconds + i % 3 * s->n_devices, &text);
        width = MR_MAX(width, (int)text.n);
    }
    mr_str_deinit(&text);
    return width;
}

static void show_rows(const mr_sim_step *s, const row_vec *rows, mr_str *out)
{
    int width = 5, cell = cell_width(s, rows);
    for (int i = 0; i < rows->n; i++)
        width = MR_MAX(width, (int)rows->p[i].name.n);
    mr_str_printf(out, "  %-*s  %-*s  %-*s  %-*s  %10s\n", width, "layer", cell, "forward", cell, "backward", cell, "update", "work");
    for (int i = 0; i < rows->n; i++) {
        const row *r = &rows->p[i];
        mr_str_printf(out, "  %-*.*s", width, MR_SV_ARG(r->name));
        for (int phase = 0; phase < 3; phase++) {
            size_t from = out->n;
            mr_str_appendz(out, "  ");
            put_devices(s, r->seconds + phase * s->n_devices, out);
            pad_to(out, from, cell + 2);
        }
        mr_str flops = {0};
        mr_sim_put_size(&flops, r->flops, "FLOP");
        mr_str_printf(out, "  %10s\n", mr_str_z(&flops));
        mr_str_deinit(&flops);
    }
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

mr_status *mr_sim_show_placement(const mr_sim_step *s, mr_str *out)
{
    row_vec rows = {0};
    int n_layers;
    mr_simtrain_chunk *layers = mr_sim_step_chunks((mr_sim_step *)s, &n_layers);
    gather_rows(s, layers, n_layers, &rows);
    mr_str_appendz(out, "placement\n");
    show_rows(s, &rows, out);
    for (int i = 0; i < rows.n; i++)
        mr_free(rows.p[i].seconds);
    mr_vec_deinit(&rows);
    mr_free(layers);
    if (s->n_devices == 1)
        return NULL;
    bool *wanted = mr_new_array(bool, s->def.g->nodes.n + 1);
    mark_heaviest(s, wanted);
    mr_str_appendz(out, "\nwhy the heaviest nodes are placed where they are\n");
    mr_status *st = explain_nodes(s, wanted, out);
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

void mr_sim_show_timeline(const mr_sim_step *s, int width, mr_str *out)
{
    mr_timeline t;
    mr_timeline_text_options o = {.width = width};
    mr_timeline_init(&t);
    mr_sim_step_timeline(s, &t);
    mr_str_appendz(out, "timeline\n");
    mr_timeline_text(&t, &o, out);
    mr_timeline_deinit(&t);
}
