/* graph/topological.c -- producers before consumers.
 *
 * Kahn's algorithm over the uses that nodes keep. Loops are closed only by edges from NextIteration to Merge, so
 * without them a valid graph is acyclic; nodes that remain at the end are on a cycle or depend on one. */
#include "base/memory.h"
#include "graph/draft.h"

static bool edge_counts(const mr_node *src, const mr_node *dst) { return !mr_is_back_edge(src, dst); }

static int count_inputs(const mr_node *n)
{
    int pending = 0;
    for (int i = 0; i < n->n_in; i++)
        pending += n->in[i].node && edge_counts(n->in[i].node, n);
    for (int i = 0; i < n->n_ctrl; i++)
        pending += edge_counts(n->ctrl[i], n);
    return pending;
}

static mr_status *cycle_error(const mr_graph *g, const int *pending, int n_left)
{
    mr_str names = {0};
    int shown = 0;
    for (int i = 0; i < g->nodes.n && shown < 3; i++)
        if (g->nodes.p[i] && pending[i] > 0)
            mr_str_printf(&names, "%s%s", shown++ ? ", " : "", g->nodes.p[i]->name);
    mr_status *st = mr_invalid("Graph is invalid, contains a cycle with %d nodes, including: %s",
                               n_left, mr_str_z(&names));
    mr_str_deinit(&names);
    return st;
}

/* The order doubles as the queue of nodes whose inputs have all been seen. */
mr_status *mr_graph_topological(const mr_graph *g, mr_node ***order, int *n)
{
    mr_status *st = NULL;
    int n_live = 0, n_ready = 0;
    int *pending = mr_try_calloc((size_t)g->nodes.n, sizeof(*pending));
    mr_node **ready = mr_try_calloc((size_t)g->nodes.n, sizeof(*ready));
    if (!pending || !ready)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory to order %d nodes", g->nodes.n));
    for (int i = 0; i < g->nodes.n; i++) {
        mr_node *node = g->nodes.p[i];
        n_live += node != NULL;
        if (node && (pending[i] = count_inputs(node)) == 0)
            ready[n_ready++] = node;
    }
    for (int i = 0; i < n_ready; i++) {
        const mr_node *src = ready[i];
        for (int k = 0; k < src->uses.n; k++) {
            mr_node *dst = src->uses.p[k].node;
            if (edge_counts(src, dst) && --pending[dst->id] == 0)
                ready[n_ready++] = dst;
        }
    }
    if (n_ready < n_live)
        MR_GO(cycle_error(g, pending, n_live - n_ready));
    *order = ready;
    *n = n_ready;
    ready = NULL;
out:
    mr_free(pending);
    mr_free(ready);
    return st;
}
