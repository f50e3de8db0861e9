/* passes/cse.c -- common subexpression elimination: nodes that compute the same value become one.
 *
 * Going from producers to consumers, every node is looked up by its op, attrs, inputs, control inputs and device.
 * If an equal node was seen before, all uses move to that one. Nodes with state, references or control flow are
 * never merged, nor are placeholders and nodes without outputs.
 *
 * Merged nodes are removed together at the end. Until then `gone` marks them, and `instead` names the node that
 * replaces each.
 *
 * Invariant: instead[id] is set exactly if gone[id] is, and names a node that stays. */
#include "passes/passes.h"

#include <stdlib.h>

/* True if merging the node with an equal one cannot change results. */
static bool can_merge(const mr_node *n)
{
    if ((n->def->flags & (MR_STATEFUL | MR_NO_FOLD)) || n->def->function || mr_node_is_control_flow(n))
        return false;
    if (n->n_out == 0 || mr_node_is(n, "Placeholder") || mr_node_is(n, "PlaceholderV2") ||
        mr_node_is(n, "PlaceholderWithDefault"))
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (mr_dtype_is_ref(n->in_types[i]) || mr_dtype_is_ref(mr_out_type(n->in[i])))
            return false;
    return true;
}

static uint64_t mix_hash(uint64_t h, uint64_t v) { return (h ^ v) * 0x9E3779B97F4A7C15u + (h >> 29); }

/* Identifies an output by a number, for hashing and comparing. */
static uint64_t out_id(mr_out o) { return (uint64_t)(uint32_t)o.node->id << 20 | (uint32_t)o.index; }

/* The two inputs in an order that does not depend on how a commutative op was written. */
static void ordered_inputs(const mr_node *n, uint64_t pair[2])
{
    uint64_t a = out_id(n->in[0]), b = out_id(n->in[1]);
    bool swap = (n->def->flags & MR_COMMUTATIVE) && b < a;
    pair[0] = swap ? b : a;
    pair[1] = swap ? a : b;
}

/* Equal nodes (same_node) have equal hashes; control inputs are added up, so their order does not matter. */
static uint64_t hash_node(const mr_node *n)
{
    uint64_t h = (uint64_t)(uintptr_t)n->def, ctrl = 0, pair[2];
    if (n->n_in == 2) {
        ordered_inputs(n, pair);
        h = mix_hash(mix_hash(h, pair[0]), pair[1]);
    } else {
        for (int i = 0; i < n->n_in; i++)
            h = mix_hash(h, out_id(n->in[i]));
    }
    for (int i = 0; i < n->n_ctrl; i++)
        ctrl += mix_hash(7, (uint64_t)n->ctrl[i]->id); /* order-free */
    for (int i = 0; i < n->n_attrs; i++)
        h = mr_attr_hash(&n->attrs[i].v, h);
    return mix_hash(h, ctrl);
}

/* Linear: control inputs are few, and same_inputs compares them in order first. */
static bool has_control(const mr_node *n, const mr_node *src)
{
    for (int i = 0; i < n->n_ctrl; i++)
        if (n->ctrl[i] == src)
            return true;
    return false;
}

/* Compares data inputs in order (of commutative ops: in either order) and control inputs as sets; those are mostly in
 * the same order. */
static bool same_inputs(const mr_node *a, const mr_node *b)
{
    if (a->n_in != b->n_in || a->n_ctrl != b->n_ctrl)
        return false;
    if (a->n_in == 2) {
        uint64_t x[2], y[2];
        ordered_inputs(a, x);
        ordered_inputs(b, y);
        if (x[0] != y[0] || x[1] != y[1])
            return false;
    }
    for (int i = 0; a->n_in != 2 && i < a->n_in; i++)
        if (!mr_out_eq(a->in[i], b->in[i]))
            return false;
    for (int i = 0; i < a->n_ctrl; i++)
        if (b->ctrl[i] != a->ctrl[i] && !has_control(b, a->ctrl[i]))
            return false;
    return true;
}

/* The attrs must be in the same order; nodes made by the same code have them so. */
static bool same_node(const mr_node *a, const mr_node *b)
{
    if (a->def != b->def || a->n_attrs != b->n_attrs || !same_inputs(a, b))
        return false;
    if ((a->placed || b->placed) && (!a->placed || !b->placed || strcmp(a->placed, b->placed) != 0))
        return false;
    for (int i = 0; i < a->n_attrs; i++)
        if (strcmp(a->attrs[i].name, b->attrs[i].name) != 0 || !mr_attr_eq(&a->attrs[i].v, &b->attrs[i].v))
            return false;
    return strcmp(a->device, b->device) == 0;
}

typedef struct merger {
    mr_graph *g;
    mr_node **instead; /* by id: the node that takes this one's place; NULL: none does */
    bool *gone;        /* by id: instead is set */
    int *waited;       /* by id: 1 + id of the last visited node that has this one as a control input */
} merger;

/* Replaces merged control inputs by the nodes that stay, each once. Edges from nodes that stay are not touched;
 * edges from merged nodes are dropped when those are removed. So a node with n control inputs costs O(n), however
 * many of them change. */
static void redirect_controls(merger *m, mr_node *n)
{
    int kept = 0;
    for (int i = 0; i < n->n_ctrl; i++)
        if (!m->gone[n->ctrl[i]->id])
            m->waited[n->ctrl[i]->id] = n->id + 1;
    for (int i = 0; i < n->n_ctrl; i++) {
        mr_node *src = n->ctrl[i];
        if (m->gone[src->id]) {
            src = m->instead[src->id];
            MR_ASSERT(src && !m->gone[src->id]);
            if (m->waited[src->id] == n->id + 1)
                continue;
            m->waited[src->id] = n->id + 1;
            mr_vec_push(&src->uses, (mr_use){n, -1, -1});
        }
        n->ctrl[kept++] = src;
    }
    n->n_ctrl = kept;
}

/* Makes consumers of n's outputs read those of `first`. Nodes that wait for n by a control edge are redirected
 * when they are visited, which is later. */
static mr_status *replace_node(merger *m, mr_node *n, mr_node *first)
{
    MR_ASSERT(!m->gone[first->id] && n->n_out == first->n_out);
    for (int i = 0; i < n->n_out; i++)
        MR_TRY(mr_graph_replace_uses((mr_out){n, i}, (mr_out){first, i}));
    m->instead[n->id] = first;
    m->gone[n->id] = true;
    return NULL;
}

/* The edges that are left at a merged node lead to other merged nodes or were redirected already. */
static void remove_merged(merger *m)
{
    for (int i = 0; i < m->g->nodes.n; i++)
        if (m->gone[i])
            m->g->nodes.p[i]->uses.n = 0;
    mr_graph_remove_all(m->g, m->gone);
}

/* If two different nodes have equal hashes, the second one is simply not merged with others. */
mr_status *mr_cse(mr_graph *g)
{
    mr_status *st = NULL;
    mr_imap seen = {0}; /* hash -> first node with it */
    mr_node **order = NULL;
    int n = 0, n_gone = 0;
    size_t all = (size_t)g->nodes.n + 1;
    merger m = {g, mr_try_calloc(all, sizeof *m.instead), mr_try_calloc(all, sizeof *m.gone), mr_try_calloc(all, sizeof *m.waited)};
    if (!m.instead || !m.gone || !m.waited)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot search %d nodes for equal ones", g->nodes.n));
    MR_GO(mr_graph_topological(g, &order, &n));
    /* Producers first: when a node is visited, its inputs are final, so equal nodes have equal inputs. */
    for (int i = 0; i < n; i++) {
        if (n_gone > 0)
            redirect_controls(&m, order[i]);
        if (!can_merge(order[i]))
            continue;
        uint64_t h = hash_node(order[i]);
        mr_node *first = mr_imap_get(&seen, h);
        if (!first) {
            mr_imap_put(&seen, h, order[i]);
        } else if (same_node(first, order[i])) {
            MR_GO(replace_node(&m, order[i], first));
            n_gone++;
        }
    }
    if (n_gone > 0)
        remove_merged(&m);
out:
    mr_imap_deinit(&seen);
    mr_free(order);
    mr_free(m.instead);
    mr_free(m.gone);
    mr_free(m.waited);
    return st;
}
