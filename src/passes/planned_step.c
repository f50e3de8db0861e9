/* passes/planned_step.c -- from a signature to the workload of its step.
 *
 * Nodes are in topological order (without the back edges of loops: one iteration is planned), in the groups of the
 * placer. Their times come from the cost model on devices that the group may use, and are INFINITY on the others. Feeds
 * and fetches are one group, which is fixed on the client's device.
 *
 * Reading ref variables again (mr_refresh_ref_reads), merging equal nodes and fusing depend on the placement, so they
 * come last: a search plans the step without them, and its result is realized (read again, merged, fused, then simulated) before
 * it is compared or shown. */
#include "passes/planned_step.h"

#include <math.h>

#include "base/memory.h"

/* ---- the step graph ---- */

/* A session accepts any shape as a feed; its size is assumed to be that of the graph's static shape. The names are
 * those that mr_prune gives. */
static mr_status *shape_feeds(mr_graph *g, const mr_run_signature *sig, bool rendezvous)
{
    mr_status *st = NULL;
    for (int i = 0; i < sig->n_feeds && !st; i++) {
        mr_out o = sig->feeds[i];
        char *name = rendezvous ? mr_printf("_recv_%s_%d", o.node->name, o.index)
                                : mr_printf("_arg_%s_%d_%d", o.node->name, o.index, i);
        mr_node *feed = mr_graph_find(g, mr_sv_of(name));
        if (feed)
            st = mr_out_refine_shape((mr_out){feed, 0}, mr_out_shape(o));
        mr_free(name);
    }
    return st;
}

/* True for a feed or a fetch, as mr_prune makes them: _Arg and _Retval, or transfers of a partial run. */
static bool is_client_end(const mr_node *n)
{
    const mr_attr *a = mr_node_attr(n, "client_terminated");
    return mr_node_is(n, "_Arg") || mr_node_is(n, "_Retval") ||
           (a && a->kind == MR_ATTR_BOOL && a->b);
}

/* Sets node->mark to the id of the node in the session's graph; -1 for feeds, fetches and nodes that were added.
 * Nodes keep their names when they are pruned, so the name leads back. */
static void mark_origins(const mr_graph *from, mr_graph *g)
{
    for (int i = 0; i < g->nodes.n; i++) {
        mr_node *n = g->nodes.p[i];
        const mr_node *origin =
            n && !is_client_end(n) ? mr_graph_find(from, mr_sv_of(n->name)) : NULL;
        if (n)
            n->mark = origin ? origin->id : -1;
    }
}

/* The devices of nodes follow from the placer's groups, not from earlier placements, so these are not passed on.
 * On failure *out is NULL. */
mr_status *mr_step_graph(const mr_graph *g, const mr_run_signature *sig, const mr_prepare_options *o,
                         mr_graph **out)
{
    mr_prepare_options plain = *o;
    mr_status *st = NULL;
    plain.placements = NULL;
    *out = NULL;
    MR_TRY(sig ? mr_prune(g, sig, &plain, out) : mr_graph_copy(g, NULL, out, NULL));
    mark_origins(g, *out);
    if (!o->no_fold)
        MR_GO(mr_fold(*out, o->max_folded_bytes));
    if (sig)
        MR_GO(shape_feeds(*out, sig, o->rendezvous));
out:
    if (st) {
        mr_graph_unref(*out);
        *out = NULL;
    }
    return st;
}

/* ---- which devices fit ---- */

/* Linear: a session has few devices. */
int mr_placer_device(const mr_placer *p, const char *name)
{
    for (int i = 0; i < p->o->n_devices; i++)
        if (strcmp(p->o->devices[i]->name, name) == 0)
            return i;
    return -1;
}

/* Marks the devices that can take a group and returns their number. With soft placement a request that fits nowhere
 * is relaxed. */
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

bool mr_place_is_fed(const mr_node *n)
{
    return mr_node_is(n, "Placeholder") || mr_node_is(n, "PlaceholderV2") || mr_node_is(n, "_Arg");
}

/* ---- the workload ---- */

/* The workload's numbers are positions in a topological order, so an input always has a smaller number. */
static mr_status *number_nodes(mr_planned_step *s)
{
    mr_node **order;
    int n;
    MR_TRY(mr_graph_topological(s->g, &order, &n));
    s->nodes = order;
    s->w.n_nodes = n;
    return NULL;
}

/* Numbers the groups in the order of their first node. device_of gets the device of a group that is placed
 * already, else -1. */
static void number_groups(mr_planned_step *s, mr_placer *p)
{
    int client = -1;
    s->group = mr_new_array(int, s->w.n_nodes + 1);
    s->roots = mr_new_array(int, s->w.n_nodes + 1);
    s->group_of = mr_new_array(int, p->g->nodes.n + 1);
    s->device_of = mr_new_array(int, s->w.n_nodes + 1);
    for (int i = 0; i < p->g->nodes.n; i++)
        s->group_of[i] = -1;
    for (int v = 0; v < s->w.n_nodes; v++) {
        int origin = s->nodes[v]->mark, root = origin < 0 ? -1 : mr_placer_root(p, origin);
        int *group = root < 0 ? &client : &s->group_of[root];
        if (*group < 0) {
            *group = s->w.n_groups;
            s->device_of[s->w.n_groups] = root < 0 ? 0
                                          : p->groups[root].device
                                              ? mr_placer_device(p, p->groups[root].device)
                                              : -1;
            s->roots[s->w.n_groups++] = root;
        }
        s->group[v] = *group;
        MR_ASSERT(*group >= 0 && *group < s->w.n_groups);
    }
}

/* Collects the inputs of all nodes. Each output of a node is a tensor, and one more tensor of the node means "it
 * has run". Edges that point backwards belong to loops and are left out. */
static void draw_edges(mr_planned_step *s, const mr_costs *c)
{
    int n = s->w.n_nodes, *number = mr_new_array(int, s->g->nodes.n + 1);
    for (int i = 0; i < s->g->nodes.n; i++)
        number[i] = -1;
    s->first_tensor = mr_new_array(int, n + 1);
    s->first_input = mr_new_array(int, n + 1);
    for (int v = 0; v < n; v++) {
        number[s->nodes[v]->id] = v;
        s->first_tensor[v + 1] = s->first_tensor[v] + s->nodes[v]->n_out + 1;
    }
    s->w.n_tensors = s->first_tensor[n];
    /* An input with a higher number than its consumer is a back edge. */
    for (int v = 0; v < n; v++) {
        const mr_node *node = s->nodes[v];
        for (int i = 0; i < node->n_in; i++) {
            mr_out in = node->in[i];
            int from = in.node ? number[in.node->id] : -1;
            if (from >= 0 && from < v)
                mr_vec_push(&s->inputs, (mr_workload_input){from, s->first_tensor[from] + in.index,
                                                            mr_costs_bytes(c, in)});
        }
        for (int i = 0; i < node->n_ctrl; i++) {
            int from = number[node->ctrl[i]->id];
            if (from >= 0 && from < v)
                mr_vec_push(&s->inputs,
                            (mr_workload_input){from, s->first_tensor[from + 1] - 1, 0});
        }
        s->first_input[v + 1] = s->inputs.n;
        MR_ASSERT(s->first_input[v] <= s->inputs.n);
    }
    mr_free(number);
}

/* The times of all nodes on all devices, from the cost model. */
static mr_status *draw_times(mr_planned_step *s, mr_placer *p)
{
    int n_devices = p->o->n_devices;
    size_t cells;
    if (mr_size_mul((size_t)s->w.n_nodes + 1, (size_t)n_devices, &cells))
        s->seconds = mr_try_calloc(cells, sizeof *s->seconds);
    if (!s->seconds)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot plan %d nodes on %d devices",
                        s->w.n_nodes, n_devices);
    mr_costs_fill(p->o->costs->measured, s->nodes, s->w.n_nodes, p->o->devices, n_devices,
                  s->seconds);
    return NULL;
}

/* Groups that were placed before stay, unless `all` are examined. A group that fits on no device is planned on the
 * first one; mr_place reports the error later. Placeholders that are not fed by name (if a whole graph is planned)
 * are on the client's device. */
static void find_fitting(mr_planned_step *s, mr_placer *p, bool all)
{
    size_t n_devices = (size_t)p->o->n_devices;
    s->fits = mr_new_array(bool, (size_t)s->w.n_groups *n_devices + 1);
    s->lost = mr_new_array(bool, s->w.n_groups + 1);
    for (int g = 0; g < s->w.n_groups; g++) {
        bool *fits = s->fits + (size_t)g * n_devices;
        if (s->roots[g] >= 0 && (s->device_of[g] < 0 || all))
            s->lost[g] = mark_fitting(p, s->roots[g], fits) == 0;
        if (s->lost[g] && s->device_of[g] < 0)
            s->device_of[g] = 0;
        if (s->device_of[g] >= 0)
            fits[s->device_of[g]] = true;
    }
    for (int v = 0; v < s->w.n_nodes; v++) {
        const bool *fits = s->fits + (size_t)s->group[v] * n_devices;
        for (size_t i = 0; i < n_devices; i++)
            if (!fits[i])
                s->seconds[(size_t)v * n_devices + i] = INFINITY;
        if (mr_place_is_fed(s->nodes[v]) && s->device_of[s->group[v]] < 0 && fits[0])
            s->device_of[s->group[v]] = 0;
    }
}

/* The bytes that a variable always holds; 0 for other nodes, and if the shape is not known. */
static int64_t variable_bytes(const mr_node *n)
{
    const mr_attr *s = mr_node_attr(n, "shape"), *t = mr_node_attr(n, "dtype");
    bool variable =
        mr_node_is(n, "VarHandleOp") || mr_node_is(n, "VariableV2") || mr_node_is(n, "Variable");
    if (!variable || !s || s->kind != MR_ATTR_SHAPE || !t || t->kind != MR_ATTR_TYPE ||
        !mr_pshape_full(s->shape))
        return 0;
    double bytes = (double)mr_dtype_size((mr_dtype)t->type);
    for (int i = 0; i < s->shape->rank; i++)
        bytes *= (double)s->shape->dims[i];
    return (int64_t)MR_MIN(bytes, 1e15);
}

/* Fills in the memory of nodes and devices. Variables that other steps placed before hold their memory during this
 * step too, so it is subtracted from the devices. */
static void weigh_memory(mr_planned_step *s, const mr_placer *p)
{
    const int64_t *memory = p->o->costs->memory;
    MR_ASSERT(s->w.n_groups <= s->w.n_nodes);
    s->bytes = mr_new_array(int64_t, s->w.n_nodes + 1);
    bool *here = mr_new_array(bool, p->g->nodes.n + 1);
    for (int v = 0; v < s->w.n_nodes; v++) {
        s->bytes[v] = variable_bytes(s->nodes[v]);
        if (s->nodes[v]->mark >= 0)
            here[s->nodes[v]->mark] = true;
    }
    if (memory) {
        s->memory = mr_new_array(int64_t, p->o->n_devices);
        memcpy(s->memory, memory, sizeof *memory * (size_t)p->o->n_devices);
        for (int i = 0; i < p->g->nodes.n; i++) {
            int d = p->g->nodes.p[i] && !here[i] && p->placed[i] ? mr_placer_device(p, p->placed[i])
                                                                 : -1;
            if (d >= 0)
                s->memory[d] -= variable_bytes(p->g->nodes.p[i]);
        }
    }
    mr_free(here);
}

/* The workload borrows the arrays of s and the links of the options; s borrows the step graph. */
mr_status *mr_planned_step_init(mr_planned_step *s, mr_placer *p, mr_graph *step_graph, bool all)
{
    mr_status *st = NULL;
    *s = (mr_planned_step){.g = step_graph, .first_added = step_graph->nodes.n};
    MR_GO(number_nodes(s));
    number_groups(s, p);
    draw_edges(s, p->o->costs->measured);
    MR_GO(draw_times(s, p));
    find_fitting(s, p, all);
    weigh_memory(s, p);
    s->w.n_devices = p->o->n_devices;
    s->w.group = s->group;
    s->w.seconds = s->seconds;
    s->w.bytes = s->bytes;
    s->w.first_input = s->first_input;
    s->w.inputs = s->inputs.p;
    s->w.links = p->o->costs->links;
    s->w.memory = s->memory;
    s->w.visits = p->o->costs->visits;
    s->w.cancelled = p->o->costs->cancelled;
out:
    if (st)
        mr_planned_step_deinit(s);
    return st;
}

/* Accepts a step that is partly initialised or all zeros. Frees the graph only if the step was realized. */
void mr_planned_step_deinit(mr_planned_step *s)
{
    mr_play_deinit(&s->play);
    mr_free(s->nodes);
    mr_free(s->group);
    mr_free(s->roots);
    mr_free(s->group_of);
    mr_free(s->device_of);
    mr_free(s->first_tensor);
    mr_free(s->first_input);
    mr_free(s->seconds);
    mr_free(s->bytes);
    mr_free(s->memory);
    mr_vec_deinit(&s->inputs);
    mr_free(s->fits);
    mr_free(s->lost);
    if (s->owns_graph)
        mr_graph_unref(s->g);
    *s = (mr_planned_step){0};
}

/* ---- realizing ---- */

/* Works on a copy of the graph, which the result owns. Marks are copied by hand, because mr_graph_copy does not. */
mr_status *mr_step_realize(mr_placer *p, const mr_graph *step_graph, const int *device_by_root,
                           bool all, mr_planned_step *out)
{
    mr_status *st = NULL;
    mr_graph *g = NULL;
    mr_node **map = NULL;
    *out = (mr_planned_step){0};
    MR_GO(mr_cancel_flag_check(p->o->costs->cancelled));
    MR_GO(mr_graph_copy(step_graph, NULL, &g, &map));
    /* The copy is placed before the passes run, because both compare the devices of nodes. */
    for (int i = 0; i < step_graph->nodes.n; i++) {
        mr_node *n = map[i];
        if (!n)
            continue;
        n->mark = step_graph->nodes.p[i]->mark;
        int d = n->mark < 0 ? 0 : device_by_root[mr_placer_root(p, n->mark)];
        MR_ASSERT(d < p->o->n_devices);
        n->placed = d < 0 ? NULL : p->o->devices[d]->name;
    }
    int first_added = g->nodes.n;
    MR_GO(mr_refresh_ref_reads(g));
    MR_GO(mr_simplify(g, p->o));
    if (!p->o->no_cse)
        MR_GO(mr_cse(g));
    MR_GO(mr_fuse(g, p->o));
    MR_GO(mr_planned_step_init(out, p, g, all));
    out->first_added = first_added;
    out->owns_graph = true;
    g = NULL;
    for (int i = 0; i < out->w.n_groups; i++)
        if (out->roots[i] >= 0 && device_by_root[out->roots[i]] >= 0)
            out->device_of[i] = device_by_root[out->roots[i]];
    MR_GO(mr_play_init(&out->play, &out->w));
    out->play.keep_sends = true;
    out->step_s = mr_play_step(&out->play, out->device_of);
out:
    mr_free(map);
    mr_graph_unref(g);
    if (st)
        mr_planned_step_deinit(out);
    return st;
}
