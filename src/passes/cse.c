/* passes/cse.c -- nodes that compute the same become one.
 *
 * Producers first, every node is looked up by what it is: op, attrs, inputs, control inputs, device.  When
 * an equal node was seen before, all uses move to it.  Left alone: state, references, control flow,
 * placeholders, and the ends of the graph. */
#include "passes/passes.h"

#include <stdlib.h>

static bool eligible(const mr_node *n)
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

static uint64_t mix(uint64_t h, uint64_t v) { return (h ^ v) * 0x9E3779B97F4A7C15u + (h >> 29); }

static uint64_t out_id(mr_out o) { return (uint64_t)(uint32_t)o.node->id << 20 | (uint32_t)o.index; }

/* Inputs in an order that does not depend on how a commutative op was written. */
static void ordered_inputs(const mr_node *n, uint64_t pair[2])
{
    uint64_t a = out_id(n->in[0]), b = out_id(n->in[1]);
    bool swap = (n->def->flags & MR_COMMUTATIVE) && b < a;
    pair[0] = swap ? b : a;
    pair[1] = swap ? a : b;
}

static uint64_t hash_node(const mr_node *n)
{
    uint64_t h = (uint64_t)(uintptr_t)n->def, ctrl = 0, pair[2];
    if (n->n_in == 2) {
        ordered_inputs(n, pair);
        h = mix(mix(h, pair[0]), pair[1]);
    } else {
        for (int i = 0; i < n->n_in; i++)
            h = mix(h, out_id(n->in[i]));
    }
    for (int i = 0; i < n->n_ctrl; i++)
        ctrl += mix(7, (uint64_t)n->ctrl[i]->id); /* order-free */
    for (int i = 0; i < n->n_attrs; i++)
        h = mr_attr_hash(&n->attrs[i].v, h);
    return mix(h, ctrl);
}

static bool has_control(const mr_node *n, const mr_node *src)
{
    for (int i = 0; i < n->n_ctrl; i++)
        if (n->ctrl[i] == src)
            return true;
    return false;
}

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
        if (!has_control(b, a->ctrl[i]))
            return false;
    return true;
}

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

/* All uses of `n` go to `first`, then n is removed. */
static mr_status *replace(mr_graph *g, mr_node *n, mr_node *first)
{
    for (int i = 0; i < n->n_out; i++)
        MR_TRY(mr_graph_replace_uses((mr_out){n, i}, (mr_out){first, i}));
    while (n->uses.n > 0) { /* only control edges are left */
        mr_node *user = mr_vec_last(&n->uses).node;
        mr_node_add_control(user, first);
        mr_node_remove_control(user, n);
    }
    mr_graph_remove(g, n);
    return NULL;
}

mr_status *mr_cse(mr_graph *g)
{
    mr_status *st = NULL;
    mr_imap seen = {0}; /* hash -> first node with it; equal hashes of different nodes simply miss */
    mr_node **order = NULL;
    int n = 0;
    MR_GO(mr_graph_topological(g, &order, &n));
    for (int i = 0; i < n; i++) {
        if (!eligible(order[i]))
            continue;
        uint64_t h = hash_node(order[i]);
        mr_node *first = mr_imap_get(&seen, h);
        if (!first)
            mr_imap_put(&seen, h, order[i]);
        else if (same_node(first, order[i]))
            MR_GO(replace(g, order[i], first));
    }
out:
    mr_imap_deinit(&seen);
    mr_free(order);
    return st;
}
