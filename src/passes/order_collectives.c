/* passes/order_collectives.c -- runs the collectives of a device one after the other, in an order that all members
 * share.
 *
 * For sessions that request it (collective_deterministic_sequential_execution). The order is that of the instance
 * keys, as far as dependencies allow; this search is quadratic, but a step has few collectives. Collectives inside of
 * loops, and those with unknown keys, are not ordered. One order is found for all devices together, and control edges
 * follow it within each device, so they close no cycle.
 *
 * Invariant: a call enters the order (placed) only after all calls that it depends on. */
#include "base/memory.h"
#include "passes/passes.h"

typedef struct call {
    mr_node *node;
    int64_t key;
    bool placed;      /* in the order */
    uint64_t *behind; /* one bit for each call that this one depends on */
} call;

typedef struct orderer {
    mr_graph *g;
    MR_VEC(call) calls;
    MR_VEC(int) stack;
    bool *seen;
} orderer;

/* ---- keys ---- */

/* The position of the instance_key input of a V2 op; -1: none. */
static int key_input(const mr_node *n)
{
    if (strcmp(n->def->name, "CollectiveBcastRecvV2") == 0)
        return 2;
    return n->n_in > 3 ? 3 : -1;
}

/* Reads the instance key from an attr, or from a constant input; false if it is not known. */
static bool find_key(const mr_node *n, int64_t *key)
{
    mr_tensor *t = NULL;
    if (strncmp(n->def->name, "Collective", 10) != 0)
        return false;
    const mr_attr *a = mr_node_attr(n, "instance_key");
    if (a) {
        *key = a->i;
        return true;
    }
    int i = key_input(n);
    const mr_node *from = i >= 0 ? n->in[i].node : NULL;
    if (!from || strcmp(from->def->name, "Const") != 0)
        return false;
    mr_status *st = mr_node_get_tensor(from, "value", &t);
    bool known = !st && t->dtype == MR_INT32 && t->n == 1;
    if (known)
        *key = *MR_DATA(int32_t, t);
    mr_status_free(st);
    mr_tensor_unref(t);
    return known;
}

/* ---- who depends on whom ---- */

/* Each node is visited once per search. */
static void push_node(orderer *o, const mr_node *n)
{
    if (!n || o->seen[n->id])
        return;
    o->seen[n->id] = true;
    mr_vec_push(&o->stack, n->id);
}

/* Finds the other collectives that one depends on, by walking back from it. */
static void look_behind(orderer *o, int which)
{
    MR_ASSERT(o->stack.n == 0);
    memset(o->seen, 0, sizeof *o->seen * (size_t)o->g->nodes.n);
    push_node(o, o->calls.p[which].node);
    while (o->stack.n) {
        const mr_node *n = o->g->nodes.p[mr_vec_pop(&o->stack)];
        for (int i = 0; i < n->n_in; i++)
            push_node(o, n->in[i].node);
        for (int i = 0; i < n->n_ctrl; i++)
            push_node(o, n->ctrl[i]);
    }
    for (int i = 0; i < o->calls.n; i++)
        if (i != which && o->seen[o->calls.p[i].node->id])
            o->calls.p[which].behind[i / 64] |= UINT64_C(1) << (i % 64);
}

/* True if all calls that c depends on are in the order already. */
static bool is_free(const orderer *o, const call *c)
{
    for (int i = 0; i < o->calls.n; i++)
        if (!o->calls.p[i].placed && (c->behind[i / 64] >> (i % 64) & 1))
            return false;
    return true;
}

/* The free call with the lowest key. -1: none is left, or the rest depend on each other. */
static int next_of(const orderer *o)
{
    int best = -1;
    for (int i = 0; i < o->calls.n; i++) {
        const call *c = &o->calls.p[i];
        if (!c->placed && (best < 0 || c->key < o->calls.p[best].key) && is_free(o, c))
            best = i;
    }
    return best;
}

/* Adds a control edge from each collective to the next one of the same device. */
static void chain_calls(orderer *o)
{
    mr_map last = {.borrow_keys = true}; /* device -> node */
    for (int i; (i = next_of(o)) >= 0;) {
        mr_node *n = o->calls.p[i].node;
        MR_ASSERT(!o->calls.p[i].placed);
        o->calls.p[i].placed = true;
        mr_node *before = mr_map_putz(&last, n->placed ? n->placed : "", n);
        if (before)
            mr_node_add_control(n, before);
    }
    mr_map_deinit(&last);
}

/* Finds the dependencies between all collectives first: the edges that chain_calls adds need no new search,
 * because they follow the order. On failure the graph is unchanged. */
mr_status *mr_order_collectives(mr_graph *g)
{
    mr_frames frames;
    mr_status *st = NULL;
    orderer o = {.g = g};
    MR_TRY(mr_frames_find(g, &frames));
    for (int i = 0; i < g->nodes.n; i++) {
        int64_t key;
        if (g->nodes.p[i] && frames.of_node[i] == 0 && find_key(g->nodes.p[i], &key))
            mr_vec_push(&o.calls, (call){.node = g->nodes.p[i], .key = key});
    }
    o.seen = mr_try_calloc((size_t)g->nodes.n + 1, sizeof *o.seen);
    size_t words = ((size_t)o.calls.n + 63) / 64;
    uint64_t *bits = mr_try_calloc((size_t)o.calls.n * words + 1, sizeof *bits);
    if (!o.seen || !bits)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot order %d collectives", o.calls.n));
    for (int i = 0; i < o.calls.n; i++)
        o.calls.p[i].behind = bits + (size_t)i * words;
    for (int i = 0; i < o.calls.n; i++)
        look_behind(&o, i);
    chain_calls(&o);
out:
    mr_free(bits);
    mr_free(o.seen);
    mr_vec_deinit(&o.calls);
    mr_vec_deinit(&o.stack);
    mr_frames_deinit(&frames);
    return st;
}
