/* graph/graph.c -- creates and rewires a graph's nodes and edges.
 *
 * Invariants: node n is nodes.p[n->id] and by_name[n->name]; in[i] = (s, k) exactly when s->uses
 * holds (n, i, k), ctrl holds s exactly when s->uses holds (n, -1, -1).  Only the functions of this
 * file touch both ends of an edge. */
#include "graph/graph.h"

#include "base/memory.h"
#include "graph/draft.h"
#include "graph/library.h"

/* ---- references ---- */

mr_graph *mr_graph_new(void)
{
    mr_graph *g = mr_new(mr_graph);
    mr_arena_init(&g->arena, 0);
    mr_refs_init(&g->refs);
    g->by_name.borrow_keys = true;
    g->library = mr_library_new();
    g->versions = (mr_versions){.producer = MR_GRAPH_PRODUCER};
    return g;
}

mr_graph *mr_graph_ref(mr_graph *g)
{
    mr_refs_take(&g->refs);
    return g;
}

void mr_graph_unref(mr_graph *g)
{
    if (!g || !mr_refs_drop(&g->refs))
        return;
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.p[i])
            mr_vec_deinit(&g->nodes.p[i]->uses);
    for (int i = 0; i < g->held.n; i++)
        mr_tensor_unref(g->held.p[i]);
    mr_vec_deinit(&g->nodes);
    mr_vec_deinit(&g->held);
    mr_map_deinit(&g->by_name);
    mr_map_deinit(&g->name_hints);
    mr_map_deinit(&g->prefixes);
    mr_library_free(g->library);
    mr_arena_deinit(&g->arena);
    mr_free(g);
}

mr_node *mr_graph_find(const mr_graph *g, mr_sv name) { return mr_map_get(&g->by_name, name); }

/* ---- one node ---- */

static void add_node(mr_graph *g, mr_node *n)
{
    MR_ASSERT(!mr_graph_find(g, mr_sv_of(n->name)));
    n->graph = g;
    n->id = g->nodes.n;
    mr_vec_push(&g->nodes, n);
    mr_map_putz(&g->by_name, n->name, n);
    g->n_control_flow += mr_node_is_control_flow(n);
}

mr_status *mr_draft_make(mr_graph *g, const mr_draft *d, mr_node **out)
{
    mr_node *n = mr_arena_new(&g->arena, mr_node);
    n->in = mr_arena_try_array(&g->arena, mr_out, d->n_in);
    n->out_shapes = mr_arena_try_array(&g->arena, const mr_pshape *, d->n_out);
    if (!n->in || !n->out_shapes)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for node '%s'", d->name);
    n->name = d->name;
    n->def = d->def;
    n->device = d->device ? d->device : "";
    n->n_in = d->n_in;
    n->n_out = d->n_out;
    for (int i = 0; i < n->n_in; i++)
        n->in[i] = MR_NO_OUT;
    n->in_types = d->in_types;
    n->out_types = d->out_types;
    for (int i = 0; i < n->n_out; i++)
        n->out_shapes[i] = &mr_pshape_unknown;
    n->attrs = d->attrs;
    n->n_attrs = d->n_attrs;
    n->extra = d->extra;
    add_node(g, n);
    *out = n;
    return NULL;
}

/* ---- edges ---- */

/* Searches from both ends: nodes are mostly removed in the order of creation, or in reverse. */
static int find_use(const mr_node *src, const mr_node *dst, int input, int output)
{
    for (int low = 0, high = src->uses.n - 1; low <= high; low++, high--) {
        const mr_use *a = &src->uses.p[low], *b = &src->uses.p[high];
        if (b->node == dst && b->input == input && b->output == output)
            return high;
        if (a->node == dst && a->input == input && a->output == output)
            return low;
    }
    return -1;
}

static void drop_use(mr_node *src, const mr_node *dst, int input, int output)
{
    int i = find_use(src, dst, input, output);
    MR_ASSERT(i >= 0);
    if (i >= 0)
        mr_vec_remove_swap(&src->uses, i);
}

void mr_node_link(mr_node *n, int input, mr_out src)
{
    MR_ASSERT(input >= 0 && input < n->n_in);
    MR_ASSERT(!src.node || (src.node->graph == n->graph && src.index < src.node->n_out));
    mr_out old = n->in[input];
    if (old.node)
        drop_use(old.node, n, input, old.index);
    n->in[input] = src;
    if (src.node)
        mr_vec_push(&src.node->uses, (mr_use){n, input, src.index});
}

mr_status *mr_node_set_input(mr_node *n, int index, mr_out src)
{
    if (index < 0 || index >= n->n_in)
        return mr_error(MR_OUT_OF_RANGE, "Node '%s' has %d inputs, not %d", n->name, n->n_in,
                        index);
    if (src.node) {
        if (src.node->graph != n->graph)
            return mr_invalid("Input %d of node '%s' belongs to another graph", index, n->name);
        if (src.index < 0 || src.index >= src.node->n_out)
            return mr_invalid(
                "Node '%s': Connecting to invalid output %d of source node %s which has %d "
                "outputs.",
                n->name, src.index, src.node->name, src.node->n_out);
        if (!mr_types_fit(n->in_types[index], mr_out_type(src)))
            return mr_invalid(
                "Input %d of node %s was passed %s from %s:%d incompatible with expected %s.",
                index, n->name, mr_dtype_name(mr_out_type(src)), src.node->name, src.index,
                mr_dtype_name(n->in_types[index]));
    }
    mr_node_link(n, index, src.node ? src : MR_NO_OUT);
    return NULL;
}

/* Searches the shorter of the two lists, so a node with thousands of uses costs nothing. */
static bool has_control(const mr_node *n, const mr_node *src)
{
    if (src->uses.n < n->n_ctrl)
        return find_use(src, n, -1, -1) >= 0;
    for (int i = 0; i < n->n_ctrl; i++)
        if (n->ctrl[i] == src)
            return true;
    return false;
}

/* Space for control inputs doubles at powers of two, so its size need not be stored. */
void mr_node_push_control(mr_node *n, mr_node *src)
{
    MR_ASSERT(src->graph == n->graph);
    bool full = n->n_ctrl == 0 || (n->n_ctrl & (n->n_ctrl - 1)) == 0;
    if (full) {
        mr_node **more = mr_arena_array(&n->graph->arena, mr_node *, n->n_ctrl ? 2 * n->n_ctrl : 1);
        if (n->n_ctrl)
            memcpy(more, n->ctrl, (size_t)n->n_ctrl * sizeof(*more));
        n->ctrl = more;
    }
    n->ctrl[n->n_ctrl++] = src;
    mr_vec_push(&src->uses, (mr_use){n, -1, -1});
}

void mr_node_add_control(mr_node *n, mr_node *src)
{
    if (!has_control(n, src))
        mr_node_push_control(n, src);
}

void mr_node_remove_control(mr_node *n, mr_node *src)
{
    for (int i = 0; i < n->n_ctrl; i++) {
        if (n->ctrl[i] != src)
            continue;
        drop_use(src, n, -1, -1);
        /* In place: there is space for the next power of two of any earlier count, and so of this one. */
        memmove(n->ctrl + i, n->ctrl + i + 1, (size_t)(n->n_ctrl - i - 1) * sizeof(*n->ctrl));
        n->n_ctrl--;
        return;
    }
}

/* Types are checked for all consumers before the first is changed. */
mr_status *mr_graph_replace_uses(mr_out from, mr_out to)
{
    mr_node *src = from.node;
    for (int i = 0; i < src->uses.n; i++) {
        const mr_use *u = &src->uses.p[i];
        if (u->output == from.index && u->node != to.node &&
            !mr_types_fit(u->node->in_types[u->input], mr_out_type(to)))
            return mr_invalid("Input %d of node %s cannot read %s:%d of type %s instead of %s:%d",
                              u->input, u->node->name, to.node->name, to.index,
                              mr_dtype_name(mr_out_type(to)), src->name, from.index);
    }
    int n = src->uses.n, kept = 0;
    for (int i = 0; i < n; i++) { /* uses may grow beyond n if `to` is another output of src */
        mr_use u = src->uses.p[i];
        if (u.output != from.index || u.node == to.node) {
            src->uses.p[kept++] = u;
            continue;
        }
        u.node->in[u.input] = to;
        u.output = to.index;
        mr_vec_push(&to.node->uses, u);
    }
    int more = src->uses.n - n;
    if (more > 0) /* a node without uses has no array either */
        memmove(src->uses.p + kept, src->uses.p + n, (size_t)more * sizeof(mr_use));
    src->uses.n = kept + more;
    return NULL;
}

/* In reverse, because the use of the last input was added last and is found at once. */
static void unlink_all(mr_node *n)
{
    for (int i = n->n_ctrl - 1; i >= 0; i--)
        drop_use(n->ctrl[i], n, -1, -1);
    for (int i = n->n_in - 1; i >= 0; i--)
        if (n->in[i].node)
            drop_use(n->in[i].node, n, i, n->in[i].index);
    n->n_ctrl = n->n_in = 0; /* makes a second call harmless */
}

void mr_graph_remove(mr_graph *g, mr_node *n)
{
    unlink_all(n);
    MR_ASSERT(n->uses.n == 0); /* a node that only feeds itself may be removed, too */
    mr_vec_deinit(&n->uses);
    mr_map_remove(&g->by_name, mr_sv_of(n->name));
    g->n_control_flow -= mr_node_is_control_flow(n);
    g->nodes.p[n->id] = NULL;
}

void mr_node_rename(mr_node *n, const char *name)
{
    mr_map *names = &n->graph->by_name;
    MR_ASSERT(!mr_map_has(names, mr_sv_of(name)));
    mr_map_remove(names, mr_sv_of(n->name));
    n->name = name;
    mr_map_putz(names, name, n);
}

/* Removes the uses by nodes that are being removed, in one pass. */
static void drop_uses_by(mr_node *src, const bool *gone)
{
    int kept = 0;
    for (int i = 0; i < src->uses.n; i++)
        if (!gone[src->uses.p[i].node->id])
            src->uses.p[kept++] = src->uses.p[i];
    src->uses.n = kept;
}

void mr_graph_remove_all(mr_graph *g, const bool *gone)
{
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.p[i])
            drop_uses_by(g->nodes.p[i], gone);
    for (int i = 0; i < g->nodes.n; i++) {
        mr_node *n = gone[i] ? g->nodes.p[i] : NULL;
        if (!n)
            continue;
        n->n_ctrl = n->n_in = 0; /* their uses are dropped already */
        mr_graph_remove(g, n);
    }
}

void mr_graph_truncate(mr_graph *g, int n_nodes, int n_held)
{
    for (int i = g->nodes.n - 1; i >= n_nodes; i--)
        unlink_all(g->nodes.p[i]); /* first all edges: back edges point at earlier nodes */
    for (int i = g->nodes.n - 1; i >= n_nodes; i--)
        mr_graph_remove(g, g->nodes.p[i]);
    g->nodes.n = n_nodes;
    g->n_prefixed = MR_MIN(g->n_prefixed, n_nodes);
    while (g->held.n > n_held)
        mr_tensor_unref(mr_vec_pop(&g->held));
}

/* ---- attrs and device ---- Old values of attrs stay in the arena until the graph is freed: only passes change attrs,
 * once for each node, on a copy that lives no longer than its plan. */

/* The position of the name, or where it would be inserted. */
static int attr_index(const mr_node *n, const char *name, bool *found)
{
    int low = 0, high = n->n_attrs;
    *found = false;
    while (low < high) {
        int mid = low + (high - low) / 2, c = strcmp(name, n->attrs[mid].name);
        if (c == 0) {
            *found = true;
            return mid;
        }
        if (c < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

void mr_node_set_attr(mr_node *n, const char *name, mr_attr v)
{
    mr_graph *g = n->graph;
    bool found;
    int i = attr_index(n, name, &found);
    mr_attr copy = mr_attr_copy(&g->arena, &g->held, &v);
    if (found) {
        n->attrs[i].v = copy;
        return;
    }
    mr_named_attr *more = mr_arena_array(&g->arena, mr_named_attr, n->n_attrs + 1);
    for (int k = 0; k < n->n_attrs; k++)
        more[k + (k >= i)] = n->attrs[k];
    more[i] = (mr_named_attr){mr_arena_strdup(&g->arena, name), copy};
    n->attrs = more;
    n->n_attrs++;
}

void mr_node_clear_attr(mr_node *n, const char *name)
{
    bool found;
    int i = attr_index(n, name, &found);
    if (!found)
        return;
    memmove(n->attrs + i, n->attrs + i + 1, (size_t)(n->n_attrs - i - 1) * sizeof(n->attrs[0]));
    n->n_attrs--;
}

void mr_node_set_device(mr_node *n, const char *device)
{
    n->device = mr_arena_strdup(&n->graph->arena, device ? device : "");
}

/* Consumers are not updated: as in TensorFlow, new shapes only reach nodes that are created later. */
mr_status *mr_out_refine_shape(mr_out o, const mr_pshape *s)
{
    const mr_pshape *merged;
    MR_TRY(mr_pshape_merge(&o.node->graph->arena, o.node->out_shapes[o.index], s, &merged));
    o.node->out_shapes[o.index] = merged;
    return NULL;
}
