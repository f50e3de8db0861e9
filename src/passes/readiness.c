/* passes/readiness.c -- the sets of gates of all nodes.
 *
 * Sets are sorted arrays without duplicates, and each exists once: a set's number identifies it. Unions of two sets are
 * remembered. A gate hides what is behind it: nodes after a Merge depend on its choice alone. The side of a Switch is
 * identified by the predicate and the output, so all Switches of a conditional are one gate; what the Switch passes on
 * keeps its gates.
 *
 * With many gates on different paths the sets could take memory quadratic in the graph. Beyond MAX_GATES entries in all,
 * nodes that would need another set get a number of their own, which equals no other: less can be fused then. */
#include "passes/readiness.h"

#include <stdlib.h>

#include "base/memory.h"

enum { MAX_GATES = 1 << 20 };

typedef mr_gate_set gate_set;

typedef struct finder {
    mr_arena arena;
    MR_VEC(gate_set) sets;
    mr_imap by_content; /* hash -> 1 + number of the first set with it */
    mr_imap unions;     /* two numbers -> 1 + number of the union */
    mr_imap sides;      /* predicate and output -> the number of the gate, from -1 down: nodes are gates by id */
    int n_sides;
    int64_t n_gates;
    int *gates; /* by node id */
} finder;

/* A number that no other set has. */
static int unknown_set(finder *w)
{
    mr_vec_push(&w->sets, (gate_set){-1, NULL});
    return w->sets.n - 1;
}

static int find_set(finder *w, const int *gates, int n)
{
    uint64_t h = mr_hash64(gates, sizeof *gates * (size_t)n) | 1;
    int at = (int)(intptr_t)mr_imap_get(&w->by_content, h) - 1;
    if (at >= 0 && w->sets.p[at].n == n && memcmp(w->sets.p[at].gates, gates, sizeof *gates * (size_t)n) == 0)
        return at;
    if (at >= 0 || w->n_gates + n > MAX_GATES)
        return unknown_set(w);
    w->n_gates += n;
    mr_vec_push(&w->sets, (gate_set){n, mr_arena_memdup(&w->arena, gates, sizeof *gates * (size_t)n)});
    mr_imap_put(&w->by_content, h, (void *)(intptr_t)w->sets.n);
    return w->sets.n - 1;
}

/* Merges two sorted arrays; to has room for both. Returns the number of entries. */
static int merge_gates(const gate_set *a, const gate_set *b, int *to)
{
    int n = 0, i = 0, k = 0;
    while (i < a->n || k < b->n) {
        int next = k == b->n || (i < a->n && a->gates[i] <= b->gates[k]) ? a->gates[i] : b->gates[k];
        i += i < a->n && a->gates[i] == next;
        k += k < b->n && b->gates[k] == next;
        to[n++] = next;
    }
    return n;
}

static int join_sets(finder *w, int a, int b)
{
    if (a == b || b == 0)
        return a;
    if (a == 0)
        return b;
    if (w->sets.p[a].n < 0 || w->sets.p[b].n < 0)
        return unknown_set(w);
    uint64_t key = (uint64_t)MR_MIN(a, b) << 32 | (uint64_t)MR_MAX(a, b);
    int at = (int)(intptr_t)mr_imap_get(&w->unions, key) - 1;
    if (at >= 0)
        return at;
    int *all = mr_new_array(int, w->sets.p[a].n + w->sets.p[b].n);
    at = find_set(w, all, merge_gates(&w->sets.p[a], &w->sets.p[b], all));
    mr_free(all);
    if (w->sets.p[at].n >= 0)
        mr_imap_put(&w->unions, key, (void *)(intptr_t)(at + 1));
    return at;
}

static int single_gate(finder *w, int gate) { return find_set(w, &gate, 1); }

/* The gate of one output of a Switch. Its second input chooses the output. */
static int side_gate(finder *w, mr_out o)
{
    mr_out chosen = o.node->in[1];
    if (!chosen.node || chosen.index >= 1 << 10 || o.index >= 1 << 10)
        return unknown_set(w);
    uint64_t key = (uint64_t)(uint32_t)chosen.node->id << 20 | (uint64_t)chosen.index << 10 | (uint64_t)o.index;
    int gate = (int)(intptr_t)mr_imap_get(&w->sides, key);
    if (gate == 0) {
        gate = -++w->n_sides;
        mr_imap_put(&w->sides, key, (void *)(intptr_t)gate);
    }
    return single_gate(w, gate);
}

/* The gates of a value. */
static int gates_of(finder *w, mr_out o)
{
    int set = w->gates[o.node->id];
    return mr_node_is_switch(o.node) && o.node->n_in >= 2 ? join_sets(w, set, side_gate(w, o)) : set;
}

/* True if the node may wait, or be dead for reasons of its own, besides a Switch. Where no CPU kernel tells, it may. */
static bool is_gate(const mr_node *n)
{
    if (mr_node_is_switch(n) || mr_node_is_enter(n))
        return false;
    if (mr_node_is_control_flow(n) || mr_node_is(n, "ControlTrigger") || n->def->function || !n->def->op || (n->def->flags & MR_BLOCKS))
        return true;
    const mr_kernel *k = mr_kernel_find(n, mr_device_cpu.name);
    return !k || !k->run || k->blocks || mr_node_is(n, "_Recv") || mr_node_is(n, "_HostRecv");
}

static int node_gates(finder *w, const mr_node *n)
{
    if (is_gate(n))
        return single_gate(w, n->id);
    int set = 0;
    for (int i = 0; i < n->n_in; i++)
        set = n->in[i].node ? join_sets(w, set, gates_of(w, n->in[i])) : unknown_set(w);
    for (int i = 0; i < n->n_ctrl; i++)
        set = join_sets(w, set, w->gates[n->ctrl[i]->id]);
    return set;
}

mr_status *mr_readiness_find(const mr_graph *g, mr_node *const *order, int n, mr_readiness *out)
{
    finder w = {.gates = mr_try_calloc((size_t)g->nodes.n + 1, sizeof(int))};
    out->gates = w.gates;
    if (!w.gates)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot find what %d nodes wait for", n);
    mr_arena_init(&w.arena, 0);
    mr_vec_push(&w.sets, (gate_set){0, NULL});
    for (int i = 0; i < n; i++)
        w.gates[order[i]->id] = node_gates(&w, order[i]);
    out->n_sets = w.sets.n;
    out->sets = w.sets.p;
    out->arena = w.arena;
    mr_imap_deinit(&w.by_content);
    mr_imap_deinit(&w.unions);
    mr_imap_deinit(&w.sides);
    return NULL;
}

bool mr_readiness_includes(const mr_readiness *r, int whole, int part)
{
    const mr_gate_set *a = &r->sets[whole], *b = &r->sets[part];
    if (whole == part || part == 0)
        return true;
    int at = 0;
    for (int i = 0; i < b->n; i++) {
        while (at < a->n && a->gates[at] < b->gates[i])
            at++;
        if (at >= a->n || a->gates[at] != b->gates[i])
            return false;
    }
    return a->n >= 0 && b->n >= 0;
}

void mr_readiness_deinit(mr_readiness *r)
{
    if (!r->gates)
        return;
    mr_free(r->gates);
    mr_free(r->sets);
    mr_arena_deinit(&r->arena);
    *r = (mr_readiness){0};
}
