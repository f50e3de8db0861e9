/* passes/place_cost.c -- devices chosen by what a step would take.
 *
 * The needed part of the graph becomes an mr_workload: nodes in topological order (back edges of loops left out: one round
 * of a loop is planned), groups of the placer, times from the cost model where a group may stand and INFINITY where it
 * may not.  passes/assign.c plans it.  Fed values are on the client's device, so placeholders are kept there.
 *
 * A group for which no device is left is not planned: place.c then names the reason, or softens its request. */
#include <math.h>

#include "base/memory.h"
#include "passes/place_internal.h"
#include "passes/simulate.h"

typedef struct drawing { /* a work, and what its numbers stand for */
    mr_placer *p;
    mr_workload w;
    mr_node **nodes; /* by number in the work */
    int *number;     /* by node id; -1: not in it */
    int *roots;      /* by group of the work: the placer's */
    int *group_of;   /* by the placer's root; -1: not in it */
    int *group;
    double *seconds;
    int64_t *bytes;
    int *first_input, *first_tensor; /* by number: of its inputs, of its outputs */
    MR_VEC(mr_workload_input) inputs;
    int *device_of; /* by group of the work */
    bool *fits;     /* [group * n_devices + device] */
    bool *lost;     /* by group: it fits nowhere */
} drawing;

static void drawing_deinit(drawing *d)
{
    mr_free(d->nodes);
    mr_free(d->number);
    mr_free(d->roots);
    mr_free(d->group_of);
    mr_free(d->group);
    mr_free(d->seconds);
    mr_free(d->bytes);
    mr_free(d->first_input);
    mr_free(d->first_tensor);
    mr_vec_deinit(&d->inputs);
    mr_free(d->device_of);
    mr_free(d->fits);
    mr_free(d->lost);
}

/* ---- who may stand where ---- */

static int device_number(const mr_placer *p, const char *name)
{
    for (int i = 0; i < p->o->n_devices; i++)
        if (strcmp(p->o->devices[i]->name, name) == 0)
            return i;
    return -1;
}

/* May a group stand on a device?  With soft placement a request that fits nowhere is loosened. */
static int mark_fitting(mr_placer *p, int root, bool *fits)
{
    mr_device_name request = p->groups[root].request;
    int n = 0;
    for (int round = 0; round < 2 && !n; round++) {
        for (int i = 0; i < p->o->n_devices; i++)
            n += fits[i] = mr_placer_fits(p, root, p->o->devices[i], &request);
        if (!p->o->soft_placement)
            break;
        request.has_type = false;
        request.id = -1;
    }
    return n;
}

static bool is_fed(const mr_node *n)
{
    return mr_node_is(n, "Placeholder") || mr_node_is(n, "PlaceholderV2") || mr_node_is(n, "_Arg");
}

/* ---- the work ---- */

static mr_status *number_nodes(drawing *d, const bool *needed)
{
    const mr_graph *g = d->p->g;
    mr_node **order;
    int n;
    MR_TRY(mr_graph_topological(g, &order, &n));
    d->nodes = mr_new_array(mr_node *, n + 1);
    d->number = mr_new_array(int, g->nodes.n + 1);
    d->group = mr_new_array(int, n + 1);
    for (int i = 0; i < g->nodes.n; i++)
        d->number[i] = -1;
    for (int i = 0; i < n; i++)
        if (!needed || needed[order[i]->id]) {
            d->number[order[i]->id] = d->w.n_nodes;
            d->nodes[d->w.n_nodes++] = order[i];
        }
    mr_free(order);
    return NULL;
}

/* Groups get numbers; *device_of is what was decided before. */
static void number_groups(drawing *d)
{
    mr_placer *p = d->p;
    d->roots = mr_new_array(int, d->w.n_nodes + 1);
    d->group_of = mr_new_array(int, p->g->nodes.n + 1);
    d->device_of = mr_new_array(int, d->w.n_nodes + 1);
    for (int i = 0; i < p->g->nodes.n; i++)
        d->group_of[i] = -1;
    for (int v = 0; v < d->w.n_nodes; v++) {
        int root = mr_placer_root(p, d->nodes[v]->id);
        if (d->group_of[root] < 0) {
            d->group_of[root] = d->w.n_groups;
            d->device_of[d->w.n_groups] = p->groups[root].device ? device_number(p, p->groups[root].device) : -1;
            d->roots[d->w.n_groups++] = root;
        }
        d->group[v] = d->group_of[root];
    }
}

/* A tensor a node's output, and one for "it has run". */
static void draw_edges(drawing *d)
{
    const mr_costs *c = d->p->o->costs->measured;
    int n = d->w.n_nodes;
    d->first_tensor = mr_new_array(int, n + 1);
    d->first_input = mr_new_array(int, n + 1);
    for (int v = 0; v < n; v++)
        d->first_tensor[v + 1] = d->first_tensor[v] + d->nodes[v]->n_out + 1;
    d->w.n_tensors = d->first_tensor[n];
    for (int v = 0; v < n; v++) {
        const mr_node *node = d->nodes[v];
        for (int i = 0; i < node->n_in; i++) {
            mr_out in = node->in[i];
            int from = in.node ? d->number[in.node->id] : -1;
            if (from >= 0 && from < v) /* else the back edge of a loop */
                mr_vec_push(&d->inputs, (mr_workload_input){from, d->first_tensor[from] + in.index, mr_costs_bytes(c, in)});
        }
        for (int i = 0; i < node->n_ctrl; i++) {
            int from = d->number[node->ctrl[i]->id];
            if (from >= 0 && from < v)
                mr_vec_push(&d->inputs, (mr_workload_input){from, d->first_tensor[from + 1] - 1, 0});
        }
        d->first_input[v + 1] = d->inputs.n;
    }
}

static mr_status *draw_times(drawing *d)
{
    mr_placer *p = d->p;
    const mr_place_costs *costs = p->o->costs;
    int n_devices = p->o->n_devices;
    size_t cells;
    if (mr_size_mul((size_t)d->w.n_nodes + 1, (size_t)n_devices, &cells))
        d->seconds = mr_try_calloc(cells, sizeof *d->seconds);
    if (!d->seconds)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory to plan %d nodes on %d devices", d->w.n_nodes, n_devices);
    mr_costs_fill(costs->measured, d->nodes, d->w.n_nodes, p->o->devices, n_devices, d->seconds);
    return NULL;
}

/* Groups that were placed before stay, unless `all` are looked at.  One that fits nowhere stands, for the plan, on the first
 * device: the error comes later. */
static void find_fitting(drawing *d, bool all)
{
    int n_devices = d->p->o->n_devices;
    d->fits = mr_new_array(bool, (size_t)d->w.n_groups * (size_t)n_devices + 1);
    d->lost = mr_new_array(bool, d->w.n_groups + 1);
    for (int g = 0; g < d->w.n_groups; g++) {
        bool *fits = d->fits + (size_t)g * (size_t)n_devices;
        if (d->device_of[g] < 0 || all)
            d->lost[g] = mark_fitting(d->p, d->roots[g], fits) == 0;
        if (d->lost[g] && d->device_of[g] < 0)
            d->device_of[g] = 0;
        if (d->device_of[g] >= 0)
            fits[d->device_of[g]] = true;
    }
}

static void forbid(drawing *d)
{
    size_t n_devices = (size_t)d->p->o->n_devices;
    for (int v = 0; v < d->w.n_nodes; v++) {
        const bool *fits = d->fits + (size_t)d->group[v] * n_devices;
        for (size_t i = 0; i < n_devices; i++)
            if (!fits[i])
                d->seconds[(size_t)v * n_devices + i] = INFINITY;
        if (is_fed(d->nodes[v]) && d->device_of[d->group[v]] < 0 && fits[0])
            d->device_of[d->group[v]] = 0;
    }
}

/* Variables hold their memory for good. */
static void weigh(drawing *d)
{
    d->bytes = mr_new_array(int64_t, d->w.n_nodes + 1);
    for (int v = 0; v < d->w.n_nodes; v++) {
        const mr_node *n = d->nodes[v];
        const mr_attr *s = mr_node_attr(n, "shape"), *t = mr_node_attr(n, "dtype");
        bool variable = mr_node_is(n, "VarHandleOp") || mr_node_is(n, "VariableV2") || mr_node_is(n, "Variable");
        if (!variable || !s || s->kind != MR_ATTR_SHAPE || !t || t->kind != MR_ATTR_TYPE || !mr_pshape_full(s->shape))
            continue;
        double bytes = (double)mr_dtype_size((mr_dtype)t->type);
        for (int i = 0; i < s->shape->rank; i++)
            bytes *= (double)s->shape->dims[i];
        d->bytes[v] = (int64_t)MR_MIN(bytes, 1e15);
    }
}

static mr_status *draw(mr_placer *p, const bool *needed, bool all, drawing *d)
{
    *d = (drawing){.p = p};
    MR_TRY(number_nodes(d, needed));
    number_groups(d);
    draw_edges(d);
    MR_TRY(draw_times(d));
    find_fitting(d, all);
    forbid(d);
    weigh(d);
    d->w.n_devices = p->o->n_devices;
    d->w.group = d->group;
    d->w.seconds = d->seconds;
    d->w.bytes = d->bytes;
    d->w.first_input = d->first_input;
    d->w.inputs = d->inputs.p;
    d->w.links = p->o->costs->links;
    d->w.memory = p->o->costs->memory;
    d->w.visits = p->o->costs->visits;
    return NULL;
}

/* ---- choosing ---- */

mr_status *mr_place_by_cost(mr_placer *p, const bool *needed)
{
    drawing d;
    double makespan;
    int culprit = -1;
    mr_status *st = draw(p, needed, false, &d);
    if (!st && d.w.n_nodes)
        st = mr_assign_find(&d.w, d.device_of, &makespan, &culprit);
    if (st && culprit >= 0)
        mr_status_append(st, " ({{node %s}})", d.nodes[culprit]->name);
    for (int g = 0; !st && g < d.w.n_groups; g++) {
        mr_place_group *gr = &p->groups[d.roots[g]];
        if (!gr->device && !gr->error && !d.lost[g])
            gr->device = p->o->devices[d.device_of[g]]->name;
    }
    drawing_deinit(&d);
    return st;
}

/* ---- saying why ---- */

/* What holds state is where it was put when it was first needed, whatever is known by now. */
static bool holds_state(const drawing *d, int v)
{
    const mr_placer *p = d->p;
    for (int i = p->groups[d->roots[d->group[v]]].first; i >= 0; i = p->next[i])
        if (p->g->nodes.p[i]->def->flags & MR_STATEFUL)
            return true;
    return false;
}

typedef enum verdict { BEST, AS_GOOD, WORSE } verdict; /* of where a node stands */

static const char *reason(const drawing *d, int v, int n_fit, verdict here)
{
    const mr_node *n = d->nodes[v];
    if (n->device[0])
        return "as it asks for";
    if (n_fit == 1)
        return d->p->groups[d->roots[d->group[v]]].request.has_job ||
                       d->p->groups[d->roots[d->group[v]]].request.has_type
                   ? "as those ask for that it must stand with"
                   : "no other device can run it";
    if (is_fed(n))
        return "fed values are there";
    if (here == WORSE)
        return holds_state(d, v) ? "it holds state, which stays" : "it was placed before, or nothing better was found";
    return here == BEST ? "the step would be longer elsewhere" : "the step would be no shorter elsewhere";
}

/* Moves the node's group to every other device it fits on, one at a time; others has room for all. */
static void try_others(drawing *d, mr_play *play, int v, mr_place_reason *r, mr_place_choice *others)
{
    int g = d->group[v], here = d->device_of[g], n_devices = d->w.n_devices;
    for (int i = 0; i < n_devices; i++) {
        if (i == here || !d->fits[(size_t)g * (size_t)n_devices + (size_t)i])
            continue;
        d->device_of[g] = i;
        double step = mr_play_step(play, d->device_of);
        others[r->n_others++] = (mr_place_choice){i, isinf(step) ? step : play->finish[v], step};
    }
    d->device_of[g] = here;
}

static void explain_node(drawing *d, mr_play *play, int v, mr_place_choice *others,
                         void (*tell)(void *arg, const mr_place_reason *r), void *arg)
{
    int here = d->device_of[d->group[v]];
    double step = mr_play_step(play, d->device_of);
    verdict verdict_here = BEST;
    mr_place_reason r = {.node = d->nodes[v], .here = {here, play->finish[v], step}, .others = others};
    try_others(d, play, v, &r, others);
    for (int i = 0; i < r.n_others; i++)
        if (others[i].step_s <= step)
            verdict_here = MR_MAX(verdict_here, others[i].step_s < step ? WORSE : AS_GOOD);
    r.why = reason(d, v, r.n_others + d->fits[(size_t)d->group[v] * (size_t)d->w.n_devices + (size_t)here], verdict_here);
    tell(arg, &r);
}

mr_status *mr_placer_reasons(mr_placer *p, const bool *needed, const bool *wanted, void (*tell)(void *arg, const mr_place_reason *r),
                             void *arg)
{
    drawing d;
    mr_play play = {0};
    mr_status *st = draw(p, needed, true, &d);
    mr_place_choice *others = mr_new_array(mr_place_choice, p->o->n_devices);
    if (!st)
        st = mr_play_init(&play, &d.w);
    for (int v = 0; v < d.w.n_nodes && !st; v++)
        if (!wanted || wanted[d.nodes[v]->id])
            explain_node(&d, &play, v, others, tell, arg);
    mr_play_deinit(&play);
    mr_free(others);
    drawing_deinit(&d);
    return st;
}

void mr_place_reason_print(const mr_place_reason *r, mr_device *const *devices, mr_str *out)
{
    mr_str_printf(out, "%s (%s) on %s: %.3f ms, step %.3f ms; %s\n", r->node->name, r->node->def->name,
                  devices[r->here.device]->name, 1e3 * r->here.ends_s, 1e3 * r->here.step_s, r->why);
    for (int i = 0; i < r->n_others; i++) {
        const mr_place_choice *c = &r->others[i];
        if (isinf(c->step_s))
            mr_str_printf(out, "    on %s: there is no memory\n", devices[c->device]->name);
        else
            mr_str_printf(out, "    on %s: %.3f ms, step %.3f ms\n", devices[c->device]->name, 1e3 * c->ends_s, 1e3 * c->step_s);
    }
}
