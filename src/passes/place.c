/* passes/place.c -- chooses a device for every node.
 *
 * Nodes that must stay together (a `_class` attr, an edge into a reference or resource input) form groups by
 * union-find. The requests of a group are merged. Its candidates are the devices that match the merged request and
 * have kernels for all its members, best first: type priority, then name.
 *
 * A group is placed once, when the first of its members is reached. Generators (no inputs, one output) wait for a
 * second round, so that they can follow their consumers. If costs are given, place_cost.c has chosen before.
 *
 * A session that adds some operations and runs them, again and again, must not pay for its whole graph each time. So
 * mr_place_added looks only at nodes without a device, as long as their groups reach no further than to nodes that have
 * one, and the result is certain to be that of all nodes; otherwise all nodes are placed.
 *
 * Invariants: the root of a group is its smallest id; only groups[root] is used; a group that has a device is never
 * changed. */
#include "passes/planned_step.h"

/* Halves the path on the way, so later searches are short. */
int mr_placer_root(mr_placer *p, int i)
{
    while (p->parent[i] != i)
        i = p->parent[i] = p->parent[p->parent[i]];
    return i;
}

/* The smaller id becomes the root. */
static void join_groups(mr_placer *p, int a, int b)
{
    a = mr_placer_root(p, a);
    b = mr_placer_root(p, b);
    MR_ASSERT(p->parent[a] == a && p->parent[b] == b);
    p->parent[MR_MAX(a, b)] = MR_MIN(a, b);
}

/* Ops that call functions, which may run on several devices and may take handles from any of them. */
static bool may_move_handles(const mr_node *n)
{
    static const char *const ops[] = {"PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "_If", "Case",
                                      "StatelessCase", "While", "StatelessWhile", "_While", "For", "RemoteCall"};
    for (int i = 0; i < MR_COUNT(ops); i++)
        if (mr_node_is(n, ops[i]))
            return true;
    return false;
}

/* The place of a node among p->nodes; -1 if it is outside. */
static int place_of(const mr_placer *p, const mr_node *n)
{
    int low = 0, high = p->n;
    if (!p->some)
        return n->id;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (p->nodes[mid]->id < n->id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < p->n && p->nodes[low] == n ? low : -1;
}

/* The device of a node's group so far; NULL: none. */
static const char *device_of(mr_placer *p, const mr_node *n)
{
    int i = place_of(p, n);
    return i >= 0 ? p->groups[mr_placer_root(p, i)].device : p->placed[n->id];
}

/* Joins a node with another one, which may be outside. */
static void join_nodes(mr_placer *p, int i, const mr_node *with)
{
    int k = place_of(p, with);
    if (k >= 0) {
        join_groups(p, i, k);
        return;
    }
    const char *device = p->placed[with->id];
    MR_ASSERT(device); /* nodes without a device are never outside */
    p->unclear |= p->outside[i] && strcmp(p->outside[i], device) != 0;
    p->outside[i] = device;
}

/* Joins a node with the producers of its reference and resource inputs, and with the nodes its `_class` names. */
static void join_neighbours(mr_placer *p, int at)
{
    const mr_node *n = p->nodes[at];
    bool takes_handles = false;
    for (int i = 0; i < n->n_in && !takes_handles; i++)
        takes_handles = n->in[i].node && (mr_dtype_is_ref(n->in_types[i]) || n->in_types[i] == MR_RESOURCE);
    takes_handles = takes_handles && !may_move_handles(n);
    for (int i = 0; i < n->n_in && takes_handles; i++)
        if (n->in[i].node && (mr_dtype_is_ref(n->in_types[i]) || n->in_types[i] == MR_RESOURCE))
            join_nodes(p, at, n->in[i].node);
    const mr_attr *c = mr_node_attr(n, "_class");
    for (int i = 0; c && c->is_list && c->kind == MR_ATTR_STRING && i < c->n; i++) {
        if (!mr_sv_starts(c->ss[i], "loc:@"))
            continue;
        const mr_node *with = mr_graph_find(p->g, (mr_sv){c->ss[i].p + 5, c->ss[i].n - 5});
        if (with)
            join_nodes(p, at, with);
        else
            p->dangling = true;
    }
}

/* Adds a node's own request to its group's; conflicts name both nodes. The texts are TensorFlow's. */
static mr_status *add_request(mr_placer *p, int i, mr_place_group *gr)
{
    const mr_node *n = p->nodes[i];
    mr_device_name own;
    if (!mr_device_name_parse(mr_sv_of(n->device), &own))
        return mr_invalid("Malformed device specification '%s' in node: {{node %s}}", n->device, n->name);
    mr_status *st = mr_device_name_merge(&gr->request, &own, p->o->soft_placement);
    if (st && gr->named_by >= 0)
        mr_status_prepend(st, "Cannot colocate nodes {{colocation_node %s}} and {{colocation_node %s}}: ", n->name,
                          p->nodes[gr->named_by]->name);
    if (gr->named_by < 0)
        gr->named_by = i;
    return st;
}

/* Links the members of each group by p->next, in the order of their ids. */
static void list_members(mr_placer *p)
{
    for (int i = 0; i < p->n; i++)
        p->groups[i].first = -1;
    for (int i = p->n - 1; i >= 0; i--) {
        if (!p->nodes[i])
            continue;
        mr_place_group *gr = &p->groups[mr_placer_root(p, i)];
        p->next[i] = gr->first;
        gr->first = i;
    }
}

/* Collects the requests of all groups, and where their members were placed before. */
static void gather_requests(mr_placer *p)
{
    for (int i = 0; i < p->n; i++) {
        const mr_node *n = p->nodes[i];
        if (!n)
            continue;
        mr_place_group *gr = &p->groups[mr_placer_root(p, i)];
        if (n->device[0])
            mr_status_update(&gr->error, add_request(p, i, gr));
        const char *before = p->some ? p->outside[i] : p->placed[i];
        p->unclear |= p->some && before && gr->device && strcmp(before, gr->device) != 0;
        if (before && !gr->device)
            gr->device = before;
    }
}

/* A call of a library function runs on any device. */
static bool has_kernel(const mr_node *n, const mr_device *d)
{
    return n->def->function || mr_device_kernel(d, n);
}

/* Nodes that were added later may have no kernel on the device of their group. Then the group is placed again, unless
 * it has state, which cannot move. */
static bool may_stay(mr_placer *p, const mr_place_group *gr)
{
    const mr_device *d = NULL;
    bool has_state = false, has_all = true;
    for (int i = 0; i < p->o->n_devices; i++)
        if (strcmp(p->o->devices[i]->name, gr->device) == 0)
            d = p->o->devices[i];
    for (int i = gr->first; d && i >= 0; i = p->next[i]) {
        const mr_node *n = p->nodes[i];
        has_state |= p->placed[n->id] && (n->def->flags & MR_STATEFUL);
        has_all &= p->placed[n->id] || has_kernel(n, d); /* those placed before had one */
    }
    return has_all || has_state;
}

/* With `some`: the group of nodes outside that this one belongs to has the device that it would have if all nodes were
 * looked at, and no error. A request that is met by the device conflicts with no other one that it meets. */
static bool is_clear(mr_placer *p, const mr_place_group *gr)
{
    mr_device_name name;
    bool known = false;
    for (int i = 0; i < p->o->n_devices; i++)
        known |= strcmp(p->o->devices[i]->name, gr->device) == 0;
    return known && !gr->error && mr_device_name_parse(mr_sv_of(gr->device), &name) &&
           mr_device_name_matches(&gr->request, &name) && may_stay(p, gr);
}

/* Groups that must move lose their earlier device. */
static void forget_misfits(mr_placer *p)
{
    for (int i = 0; i < p->n; i++) {
        mr_place_group *gr = &p->groups[i];
        if (!gr->device)
            continue;
        if (p->some)
            p->unclear |= !is_clear(p, gr);
        else if (!may_stay(p, gr))
            gr->device = NULL;
    }
}

/* TensorFlow's text. */
static mr_status *no_kernel(const mr_node *n)
{
    mr_str attrs = {0};
    for (int i = 0; i < n->n_attrs; i++) {
        mr_str_printf(&attrs, "%s%s=", i ? ", " : "", n->attrs[i].name);
        if (n->attrs[i].v.kind == MR_ATTR_TENSOR)
            mr_str_appendz(&attrs, "...");
        else
            mr_attr_print(&attrs, &n->attrs[i].v);
    }
    mr_status *st = mr_invalid("No OpKernel was registered to support Op '%s' used by {{node %s}} with these attrs: [%s]",
                               n->def->name, n->name, mr_str_z(&attrs));
    mr_str_deinit(&attrs);
    return st;
}

/* True if the device matches the request and has kernels for all members of the group. */
bool mr_placer_fits(mr_placer *p, int root, const mr_device *d, const mr_device_name *request)
{
    int k = 0;
    while (p->order[k] != d)
        k++;
    MR_ASSERT(k < p->o->n_devices);
    if (!mr_device_name_matches(request, &p->names[k]))
        return false;
    for (int i = p->groups[root].first; i >= 0; i = p->next[i])
        if (!has_kernel(p->nodes[i], d))
            return false;
    return true;
}

/* The preferred device that fits, by p->order; NULL: none. */
static const char *first_candidate(mr_placer *p, int root, const mr_device_name *request)
{
    for (int i = 0; i < p->o->n_devices; i++)
        if (mr_placer_fits(p, root, p->order[i], request))
            return p->order[i]->name;
    return NULL;
}

/* Explains why a group has no device. A member without any kernel explains more than the request does. The text is
 * TensorFlow's. */
static mr_status *cannot_assign(mr_placer *p, const mr_node *n, const mr_place_group *gr)
{
    for (int i = gr->first; i >= 0; i = p->next[i]) {
        const mr_node *m = p->nodes[i];
        bool any = false;
        for (int d = 0; d < p->o->n_devices; d++)
            any |= has_kernel(m, p->o->devices[d]);
        if (!any)
            return no_kernel(m);
    }
    mr_str have = {0}, want = {0};
    mr_device_name_print(&gr->request, &want);
    for (int i = 0; i < p->o->n_devices; i++)
        mr_str_printf(&have, "%s%s", i ? ", " : " ", p->o->devices[i]->name);
    mr_status *st = mr_invalid("Cannot assign a device for operation %s: {{node %s}} was explicitly assigned to %s but "
                               "available devices are [%s ]. Make sure the device specification refers to a valid device.",
                               n->name, n->name, mr_str_z(&want), mr_str_z(&have));
    mr_str_deinit(&have);
    mr_str_deinit(&want);
    return st;
}

/* Places a node's group, on `wish` if that is allowed. With soft placement a request that cannot be met loses its
 * device type and number. */
static void place_group(mr_placer *p, int at, const char *wish)
{
    int root = mr_placer_root(p, at);
    mr_place_group *gr = &p->groups[root];
    MR_ASSERT(p->parent[root] == root && gr->first >= 0);
    if (gr->device || gr->error)
        return;
    for (int i = 0; wish && i < p->o->n_devices; i++)
        if (strcmp(wish, p->order[i]->name) == 0 && mr_placer_fits(p, root, p->order[i], &gr->request))
            gr->device = p->order[i]->name;
    if (!gr->device)
        gr->device = first_candidate(p, root, &gr->request);
    if (!gr->device && p->o->soft_placement) {
        mr_device_name soft = gr->request;
        soft.has_type = false;
        soft.id = -1;
        gr->device = first_candidate(p, root, &soft);
    }
    if (!gr->device)
        gr->error = cannot_assign(p, p->nodes[at], gr);
}

/* Typically a constant or a random tensor: cheaper to make where it is used than to send. */
static bool is_generator(const mr_node *n) { return n->n_in == 0 && n->n_out == 1 && !mr_dtype_is_ref(n->out_types[0]); }

/* Ops that read only the shape of their input, so they cost nothing next to it. */
static bool is_metadata(const mr_node *n)
{
    return mr_node_is(n, "Shape") || mr_node_is(n, "Size") || mr_node_is(n, "Rank");
}

/* The one device that all consumers of a generator share, or NULL. */
static const char *consumers_device(mr_placer *p, const mr_node *n)
{
    const char *d = NULL;
    for (int i = 0; i < n->uses.n; i++) {
        if (n->uses.p[i].input < 0)
            continue;
        const char *c = device_of(p, n->uses.p[i].node);
        if (!c || (d && strcmp(c, d) != 0))
            return NULL;
        d = c;
    }
    return d;
}

/* Shape, Size and Rank follow their input; generators follow their consumers. */
static void place_round(mr_placer *p, bool generators)
{
    for (int i = 0; i < p->n; i++) {
        const mr_node *n = p->nodes[i];
        if (!n || is_generator(n) != generators || p->groups[mr_placer_root(p, i)].later)
            continue;
        const char *wish = NULL;
        if (generators)
            wish = consumers_device(p, n);
        else if (is_metadata(n) && n->in[0].node)
            wish = device_of(p, n->in[0].node);
        place_group(p, i, wish);
    }
}

/* For qsort: the higher priority first, then by name. */
static int by_preference(const void *a, const void *b)
{
    const mr_device *x = *(mr_device *const *)a, *y = *(mr_device *const *)b;
    if (x->type->priority != y->type->priority)
        return x->type->priority > y->type->priority ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Writes the results to `placed`, and returns the first error that counts. */
static mr_status *collect_results(mr_placer *p, const bool *needed)
{
    mr_status *st = NULL;
    for (int i = 0; i < p->n; i++) {
        const mr_node *n = p->nodes[i];
        if (!n)
            continue;
        mr_place_group *gr = &p->groups[mr_placer_root(p, i)];
        if (gr->error && !st && (!needed || needed[n->id]))
            st = mr_status_copy(gr->error);
        p->placed[n->id] = gr->error ? NULL : gr->device;
    }
    return st;
}

/* ---- the whole ---- */

/* Forms the groups of these nodes with their requests and earlier devices. `placed` and `nodes` are borrowed; only
 * collect_results writes to `placed`. */
static void placer_init_of(mr_placer *p, const mr_graph *g, const mr_prepare_options *o, const char **placed,
                           mr_node *const *nodes, int n, bool some)
{
    *p = (mr_placer){.g = g, .o = o, .placed = placed, .nodes = nodes, .n = n, .some = some};
    p->parent = mr_new_array(int, n + 1);
    p->next = mr_new_array(int, n + 1);
    p->groups = mr_new_array(mr_place_group, n + 1);
    p->order = mr_new_array(mr_device *, o->n_devices);
    p->names = mr_new_array(mr_device_name, o->n_devices);
    p->outside = some ? mr_new_array(const char *, n + 1) : NULL;
    memcpy(p->order, o->devices, sizeof *p->order * (size_t)o->n_devices);
    qsort(p->order, (size_t)o->n_devices, sizeof *p->order, by_preference);
    for (int i = 0; i < o->n_devices; i++) {
        bool valid = mr_device_name_parse(mr_sv_of(p->order[i]->name), &p->names[i]);
        MR_ASSERT(valid);
        (void)valid;
    }
    mr_device_name any;
    mr_device_name_parse(MR_SV(""), &any);
    for (int i = 0; i < n; i++) {
        p->parent[i] = i;
        p->groups[i].named_by = -1;
        p->groups[i].request = any;
    }
    for (int i = 0; i < n; i++)
        if (nodes[i])
            join_neighbours(p, i);
    list_members(p);
    gather_requests(p);
    forget_misfits(p);
}

static void placer_init(mr_placer *p, const mr_graph *g, const mr_prepare_options *o, const char **placed)
{
    placer_init_of(p, g, o, placed, g->nodes.p, g->nodes.n, false);
}

/* `placed` and `nodes` are borrowed and stay. */
static void placer_deinit(mr_placer *p)
{
    for (int i = 0; i < p->n; i++)
        mr_status_free(p->groups[i].error);
    mr_free(p->groups);
    mr_free(p->parent);
    mr_free(p->next);
    mr_free(p->order);
    mr_free(p->names);
    mr_free(p->outside);
}

/* With costs, a group is placed together with the nodes it works with, so not before a step needs it. */
static void put_off(mr_placer *p, const bool *needed)
{
    for (int i = 0; i < p->g->nodes.n; i++)
        p->groups[i].later = true;
    for (int i = 0; i < p->g->nodes.n; i++)
        if (needed[i])
            p->groups[mr_placer_root(p, i)].later = false;
}

/* Errors of groups that are not needed are dropped; those groups stay without a device. */
mr_status *mr_place(const mr_graph *g, const mr_prepare_options *o, const mr_run_signature *sig, const bool *needed, const char **placed)
{
    mr_placer p;
    placer_init(&p, g, o, placed);
    if (o->costs && needed)
        put_off(&p, needed);
    mr_status *st = o->costs ? mr_place_by_cost(&p, sig, needed) : NULL;
    place_round(&p, false);
    place_round(&p, true);
    mr_status_update(&st, collect_results(&p, o->place_all ? NULL : needed));
    placer_deinit(&p);
    return st;
}

/* The nodes without a device, in the order of their ids; NULL if they are most of the graph. */
static mr_node **without_device(const mr_graph *g, const char *const *placed, int *n)
{
    int most = g->nodes.n / 2;
    *n = 0;
    for (int i = 0; i < g->nodes.n && *n <= most; i++)
        *n += !placed[i] && g->nodes.p[i];
    if (*n > most)
        return NULL;
    mr_node **nodes = mr_new_array(mr_node *, *n + 1);
    for (int i = 0, k = 0; k < *n; i++)
        if (!placed[i] && g->nodes.p[i])
            nodes[k++] = g->nodes.p[i];
    return nodes;
}

/* Places nodes without a device as mr_place would. False if that would look at the others, too; then nothing changed. */
static bool place_some(const mr_graph *g, const mr_prepare_options *o, const bool *needed, mr_placements *to, mr_status **st)
{
    mr_placer p;
    int n;
    mr_node **nodes = to->entangled ? NULL : without_device(g, to->device, &n);
    if (!nodes)
        return false;
    placer_init_of(&p, g, o, to->device, nodes, n, true);
    bool clear = !p.unclear;
    if (clear) {
        place_round(&p, false);
        place_round(&p, true);
        *st = collect_results(&p, o->place_all ? NULL : needed);
        to->entangled = p.dangling;
    }
    placer_deinit(&p);
    mr_free(nodes);
    return clear;
}

/* A group keeps its device if a node joins it that requests another one. The next one to join may contradict that
 * request, although it agrees with the device. */
static bool is_not_where_requested(mr_placer *p, const mr_place_group *gr)
{
    mr_device_name name;
    return gr->device && !gr->error && !p->o->soft_placement &&
           !(mr_device_name_parse(mr_sv_of(gr->device), &name) && mr_device_name_matches(&gr->request, &name));
}

/* A `_class` may name a node that is added later, which then joins a group that has a device. So with such a name, or with
 * a group that is not where it was requested, all nodes are looked at each time. */
mr_status *mr_place_added(const mr_graph *g, const mr_prepare_options *o, const bool *needed, mr_placements *to)
{
    mr_placer p;
    mr_status *st = NULL;
    MR_ASSERT(!o->costs && to->n >= g->nodes.n);
    if (place_some(g, o, needed, to, &st))
        return st;
    placer_init(&p, g, o, to->device);
    place_round(&p, false);
    place_round(&p, true);
    st = collect_results(&p, o->place_all ? NULL : needed);
    to->entangled = p.dangling;
    for (int i = 0; i < p.n && !to->entangled; i++)
        to->entangled = is_not_where_requested(&p, &p.groups[i]);
    placer_deinit(&p);
    return st;
}

/* The groups are formed again from the graph; `placed` is only read. */
mr_status *mr_place_simulate(const mr_graph *g, const mr_prepare_options *o, const mr_run_signature *sig, const char *const *placed,
                             mr_planned_step *out)
{
    mr_placer p;
    placer_init(&p, g, o, (const char **)placed); /* only read */
    mr_status *st = mr_placer_simulate(&p, sig, false, out);
    placer_deinit(&p);
    return st;
}

/* As mr_place_simulate, with every group that is not placed on one device. */
mr_status *mr_place_alone(const mr_graph *g, const mr_prepare_options *o, const mr_run_signature *sig, const char *const *placed,
                          int device, double *seconds)
{
    mr_placer p;
    placer_init(&p, g, o, (const char **)placed); /* only read */
    mr_status *st = mr_placer_alone(&p, sig, device, seconds);
    placer_deinit(&p);
    return st;
}

/* The step is simulated once with all its alternatives (all), and then each node is explained. */
mr_status *mr_place_reasons(const mr_graph *g, const mr_prepare_options *o, const mr_run_signature *sig, const char *const *placed,
                            const bool *wanted, void (*tell)(void *arg, const mr_place_reason *r), void *arg)
{
    mr_placer p;
    mr_planned_step s;
    placer_init(&p, g, o, (const char **)placed); /* only read */
    mr_status *st = mr_placer_simulate(&p, sig, true, &s);
    if (!st) {
        st = mr_placer_reasons(&p, &s, wanted, tell, arg);
        mr_planned_step_deinit(&s);
    }
    placer_deinit(&p);
    return st;
}

typedef struct printer {
    const mr_prepare_options *o;
    mr_str *out;
} printer;

static void print_reason(void *arg, const mr_place_reason *r)
{
    const printer *p = arg;
    mr_place_reason_print(r, p->o->devices, p->out);
}

/* Appends one block of text for each node. */
mr_status *mr_place_explain(const mr_graph *g, const mr_prepare_options *o, const mr_run_signature *sig, const char *const *placed,
                            mr_str *out)
{
    printer p = {o, out};
    return mr_place_reasons(g, o, sig, placed, NULL, print_reason, &p);
}
