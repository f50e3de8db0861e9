/* exec/plan.c -- makes a plan from a graph.
 *
 * Nodes are numbered frame by frame, producers first within each frame, so running a chain of nodes walks
 * through memory in order. The sizes of the arrays come from the graph. They are therefore allocated with
 * mr_try_calloc, and a graph that does not fit the compact records is refused.
 *
 * The steps are: frames, nodes with their kernels, counters and slots, edges. Each needs the one before. */
#include "exec/plan.h"

#include "base/memory.h"
#include "base/vec.h"
#include "passes/passes.h"

#define MAX_NESTING 1000 /* of loops: giving up a failed step goes down recursively */

typedef struct maker {
    mr_plan *p;
    mr_graph *g;
    mr_node **order; /* producers first */
    int n;
    mr_frames frames; /* n == 0: no loops */
    uint32_t *index;  /* of a node by its id */
} maker;

static mr_status *no_memory(void)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot plan the graph");
}

#define TRY_ARRAY(to, n)                                                      \
    do {                                                                      \
        if (!((to) = mr_try_calloc((size_t)(n) + 1, sizeof(*(to)))))          \
            return no_memory();                                               \
    } while (0)

/* The frame of a node; all are in the root if the graph has no loops. */
static int frame_of(const maker *m, const mr_node *n)
{
    return m->frames.n ? m->frames.of_node[n->id] : 0;
}

/* ---- frames ---- */

/* Graphs without loops need no frames and are the common case. */
static bool has_loops(const mr_graph *g)
{
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.p[i] && (mr_node_is_enter(g->nodes.p[i]) || mr_node_is_exit(g->nodes.p[i]) ||
                              mr_node_is_next(g->nodes.p[i])))
            return true;
    return false;
}

/* Copies the frames that passes/frames.c found. Frame 0 is the root; a parent has a smaller index than its
 * children. Nesting is limited, because clearing a failed step recurses (frames.c). */
static mr_status *make_frames(maker *m)
{
    mr_plan *p = m->p;
    if (has_loops(m->g))
        MR_TRY(mr_frames_find(m->g, &m->frames));
    p->n_frames = MR_MAX(m->frames.n, 1);
    TRY_ARRAY(p->frames, p->n_frames);
    TRY_ARRAY(p->children, p->n_frames);
    int *depth = mr_arena_try_array(&m->g->arena, int, p->n_frames);
    if (!depth)
        return no_memory();
    p->frames[0] = (mr_plan_frame){.name = "", .parent = -1, .parallel = 1};
    for (int i = 1; i < p->n_frames; i++) {
        const mr_frame_info *info = &m->frames.info[i];
        mr_plan_frame *f = &p->frames[i];
        MR_ASSERT(info->parent >= 0 && info->parent < i);
        f->name = mr_arena_strdup(&m->g->arena, info->name);
        f->name_hash = mr_hash64(f->name, strlen(f->name));
        f->parent = info->parent;
        f->child = p->frames[info->parent].n_children++;
        f->n_enters = info->n_enters;
        f->parallel = info->parallel_iterations;
        depth[i] = depth[info->parent] + 1;
        if (depth[i] > MAX_NESTING)
            return mr_invalid("frame '%s': loops are nested deeper than %d", f->name, MAX_NESTING);
    }
    /* children lists the children of all frames, grouped by parent; a frame finds its own from first_child on. */
    uint32_t at = 0;
    for (int i = 0; i < p->n_frames; at += (uint32_t)p->frames[i++].n_children)
        p->frames[i].first_child = at;
    for (int i = 1; i < p->n_frames; i++)
        p->children[p->frames[p->frames[i].parent].first_child + (uint32_t)p->frames[i].child] = i;
    return NULL;
}

/* ---- nodes ---- */

/* The flags that follow from the op alone. Outputs of a Switch or a Recv may stay unset: then they are dead. */
static uint32_t flags_by_op(const mr_node *n)
{
    const char *op = n->def->name;
    uint32_t f = 0;
    if (n->def->flags & MR_CHEAP)
        f |= MR_PN_CHEAP;
    if (n->def->flags & MR_UNINIT_OK)
        f |= MR_PN_UNINIT_OK;
    if (mr_node_is_merge(n))
        f |= MR_PN_MERGE;
    if (mr_node_is_enter(n))
        f |= MR_PN_ENTER;
    if (mr_node_is_exit(n))
        f |= MR_PN_EXIT;
    if (mr_node_is_next(n))
        f |= MR_PN_NEXT;
    if (mr_node_is_switch(n))
        f |= MR_PN_MAY_SKIP;
    if (strcmp(op, "NoOp") == 0 || strcmp(op, "ControlTrigger") == 0)
        f |= MR_PN_NOTHING;
    if (strcmp(op, "_Send") == 0 || strcmp(op, "_HostSend") == 0)
        f |= MR_PN_TRANSFER;
    if (strcmp(op, "_Recv") == 0 || strcmp(op, "_HostRecv") == 0)
        f |= MR_PN_TRANSFER | MR_PN_MAY_SKIP;
    return f;
}

/* True if a value that arrives may be a reference: the output that is read, or the declared input, is one. */
static bool may_get_refs(const mr_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (mr_dtype_is_ref(mr_out_type(n->in[i])) || mr_dtype_is_ref(n->in_types[i]))
            return true;
    return false;
}

/* Refuses nodes that do not fit the compact records, and graphs that are not complete. */
static mr_status *check_node(const maker *m, const mr_node *n)
{
    if (n->n_out >= 1 << (32 - MR_PE_BITS))
        return mr_error(MR_RESOURCE_EXHAUSTED, "{{node %s}} has %d outputs, but a plan allows fewer than %d", n->name,
                        n->n_out, 1 << (32 - MR_PE_BITS));
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i].node)
            return mr_error(MR_INTERNAL, "input %d of {{node %s}} is not connected", i, n->name);
    if (mr_node_is_next(n) && frame_of(m, n) == 0)
        return mr_invalid("{{node %s}} is a NextIteration outside of any loop", n->name);
    return NULL;
}

/* True if the device type runs the node itself. Such a type gets all nodes that touch data, and the transfers
 * too if it moves data itself. */
static bool by_device(const mr_plan *p, const mr_node *n, const mr_kernel *k)
{
    const mr_device_type *type = p->device->type;
    bool touches_data = !n->def->op || !(n->def->op->flags & MR_HOST_ONLY) || k->host_in;
    return type->start && (touches_data || (type->moves && (flags_by_op(n) & MR_PN_TRANSFER)));
}

/* Finds the kernel of a node and copies what the hot path needs into the plan, so that it follows no
 * pointers. Starting an asynchronous kernel, and handing over one that may block, count as cheap: the thread
 * is free again at once. */
static mr_status *make_node(maker *m, uint32_t at, const mr_node *n, mr_kernel_cache *kernels)
{
    mr_plan_node *pn = &m->p->nodes[at];
    mr_make make = {n, NULL, m->p->device, m->g->library};
    mr_instance *k = NULL;
    MR_TRY(check_node(m, n));
    MR_TRY(mr_kernel_cache_get(kernels, &make, &k));
    m->p->kernels[at] = k;
    MR_ASSERT(k->kernel->run || k->kernel->run_async);
    *pn = (mr_plan_node){k->kernel->run, k->kernel->run_async, n, k, flags_by_op(n)};
    pn->n_in = (uint32_t)n->n_in;
    pn->n_out = (uint32_t)n->n_out;
    /* The device's start function replaces the kernel, so it is called even if the kernel does nothing. */
    if (by_device(m->p, n, k->kernel)) {
        pn->run_async = m->p->device->type->start;
        pn->flags = (pn->flags | MR_PN_ASYNC) & ~(uint32_t)MR_PN_NOTHING;
    } else {
        if (!k->kernel->run)
            pn->flags |= MR_PN_ASYNC | MR_PN_CHEAP;
        if (k->kernel->blocks || (n->def->flags & MR_BLOCKS))
            pn->flags |= MR_PN_BLOCKS | MR_PN_CHEAP;
    }
    if (may_get_refs(n))
        pn->flags |= MR_PN_REFS;
    bool constant = false;
    if (pn->flags & MR_PN_ENTER)
        MR_TRY(mr_node_get_bool(n, "is_constant", &constant));
    if (constant)
        pn->flags |= MR_PN_CONSTANT;
    m->p->max_out = MR_MAX(m->p->max_out, pn->n_out);
    atomic_init(&m->p->heavy[at], !(pn->flags & MR_PN_CHEAP));
    return NULL;
}

/* Appends the counter and the slots of a node to those of its frame, and numbers Enters and Exits. */
static mr_status *place_node(maker *m, uint32_t at, uint32_t *n_merges)
{
    mr_plan_node *pn = &m->p->nodes[at];
    int frame = frame_of(m, pn->node);
    mr_plan_frame *f = &m->p->frames[frame];
    if (__builtin_add_overflow(f->n_slots, pn->n_in, &f->n_slots))
        return no_memory();
    pn->word = f->n_words++;
    pn->slot = f->n_slots - pn->n_in;
    if (pn->flags & MR_PN_MERGE)
        n_merges[frame]++;
    if (pn->flags & MR_PN_ENTER)
        pn->extra = (uint32_t)m->p->frames[mr_frames_out(&m->frames, pn->node)].child;
    if (pn->flags & MR_PN_EXIT)
        pn->extra = (uint32_t)f->n_exits++;
    return NULL;
}

/* Gives all nodes their counters and slots. The second counters of Merges come behind the first counters of
 * their frame, so the first pass only counts them. */
static mr_status *place_words(maker *m)
{
    mr_plan *p = m->p;
    uint32_t *n_merges = mr_new_array(uint32_t, p->n_frames);
    mr_status *st = NULL;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        MR_GO(place_node(m, i, n_merges));
    /* The words of a frame: one per node, then one more per Merge. */
    uint32_t first = 0;
    for (int i = 0; i < p->n_frames; i++) {
        p->frames[i].first_word = first;
        first += p->frames[i].n_words + n_merges[i];
    }
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].flags & MR_PN_MERGE)
            p->nodes[i].extra = p->frames[frame_of(m, p->nodes[i].node)].n_words++;
out:
    mr_free(n_merges);
    return st;
}

/* Fills in the initial counters, and collects the nodes that are ready from the start. */
static mr_status *make_words(maker *m)
{
    mr_plan *p = m->p;
    const mr_plan_frame *last = &p->frames[p->n_frames - 1];
    TRY_ARRAY(p->words, last->first_word + last->n_words);
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const mr_plan_node *pn = &p->nodes[i];
        uint32_t *words = p->words + p->frames[frame_of(m, pn->node)].first_word;
        uint32_t n_ctrl = (uint32_t)pn->node->n_ctrl;
        MR_ASSERT(pn->word < p->frames[frame_of(m, pn->node)].n_words);
        words[pn->word] = n_ctrl + (pn->flags & MR_PN_MERGE ? 1 : pn->n_in);
        if (pn->flags & MR_PN_MERGE)
            words[pn->extra] = pn->n_in;
        if (n_ctrl + pn->n_in == 0)
            p->roots[p->n_roots++] = i;
    }
    return NULL;
}

/* Sorts the nodes by frame with a counting sort, which keeps producers first within a frame. */
static mr_status *sort_by_frame(maker *m)
{
    int n_frames = m->p->n_frames;
    mr_node **sorted = NULL;
    int *at = mr_new_array(int, n_frames + 1);
    for (int i = 0; i < m->n; i++)
        at[frame_of(m, m->order[i]) + 1]++;
    for (int f = 0; f < n_frames; f++)
        at[f + 1] += at[f];
    if ((sorted = mr_try_calloc((size_t)m->n + 1, sizeof(*sorted))))
        for (int i = 0; i < m->n; i++)
            sorted[at[frame_of(m, m->order[i])]++] = m->order[i];
    mr_free(at);
    if (!sorted)
        return no_memory();
    mr_free(m->order);
    m->order = sorted;
    return NULL;
}

/* Kernels are found first: the flags that place_words needs depend on them. */
static mr_status *make_nodes(maker *m, mr_kernel_cache *kernels)
{
    MR_TRY(sort_by_frame(m));
    for (int i = 0; i < m->n; i++) {
        m->index[m->order[i]->id] = (uint32_t)i;
        MR_TRY(make_node(m, (uint32_t)i, m->order[i], kernels));
    }
    MR_TRY(place_words(m));
    return make_words(m);
}

/* ---- edges ---- */

/* Translates one use of an output. An edge that is the only one into its node needs no counting (MR_PE_SOLE). */
static mr_plan_edge make_edge(const maker *m, const mr_use *u)
{
    uint32_t dst = m->index[u->node->id];
    const mr_plan_node *pn = &m->p->nodes[dst];
    MR_ASSERT(dst < m->p->n_nodes && pn->node == u->node);
    bool control = u->input < 0, merge = pn->flags & MR_PN_MERGE;
    uint32_t what = control ? MR_PE_CONTROL : (uint32_t)u->output << MR_PE_BITS;
    if (merge && !control)
        what |= MR_PE_MERGE;
    if (!merge && u->node->n_in + u->node->n_ctrl == 1)
        what |= MR_PE_SOLE;
    if ((merge && control) || mr_node_is(u->node, "ControlTrigger"))
        what |= MR_PE_BLIND;
    if (pn->flags & MR_PN_CHEAP)
        what |= MR_PE_CHEAP;
    return (mr_plan_edge){dst, pn->word, control ? 0 : pn->slot + (uint32_t)u->input, what};
}

/* Orders data edges by output, then by consumer; control edges come last. */
static int by_output(const void *a, const void *b)
{
    const mr_plan_edge *x = a, *y = b;
    uint64_t kx = (uint64_t)(x->what & MR_PE_CONTROL) << 63 |
                  (uint64_t)(x->what >> MR_PE_BITS) << 32 | x->dst;
    uint64_t ky = (uint64_t)(y->what & MR_PE_CONTROL) << 63 |
                  (uint64_t)(y->what >> MR_PE_BITS) << 32 | y->dst;
    if (kx != ky)
        return kx < ky ? -1 : 1;
    return (x->slot > y->slot) - (x->slot < y->slot);
}

/* Sorts the edges of one node and marks the last edge of each output: along it the value moves instead of
 * being shared. */
static void finish_edges(mr_plan_edge *e, uint32_t n)
{
    qsort(e, n, sizeof(*e), by_output);
    for (uint32_t i = 0; i < n && !(e[i].what & MR_PE_CONTROL); i++)
        if (i + 1 == n || (e[i + 1].what & MR_PE_CONTROL) ||
            e[i + 1].what >> MR_PE_BITS != e[i].what >> MR_PE_BITS)
            e[i].what |= MR_PE_LAST;
}

/* The edges of a node are adjacent, in the order of finish_edges. */
static mr_status *make_edges(maker *m)
{
    mr_plan *p = m->p;
    size_t n = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        n += (size_t)p->nodes[i].node->uses.n;
    if (n > UINT32_MAX - 1)
        return no_memory();
    TRY_ARRAY(p->edges, n);
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        mr_plan_node *pn = &p->nodes[i];
        pn->edge = p->n_edges;
        for (int u = 0; u < pn->node->uses.n; u++)
            p->edges[p->n_edges++] = make_edge(m, &pn->node->uses.p[u]);
        pn->n_edges = p->n_edges - pn->edge;
        MR_ASSERT(p->n_edges <= n);
        finish_edges(p->edges + pn->edge, pn->n_edges);
    }
    return NULL;
}

/* ---- the whole ---- */

/* Fills the plan. On failure the caller frees what was made so far. */
static mr_status *make_plan(maker *m, mr_kernel_cache *kernels)
{
    mr_plan *p = m->p;
    MR_TRY(mr_graph_topological(m->g, &m->order, &m->n));
    p->n_nodes = (uint32_t)m->n;
    MR_TRY(make_frames(m));
    TRY_ARRAY(p->nodes, m->n);
    TRY_ARRAY(p->kernels, m->n);
    TRY_ARRAY(p->roots, m->n);
    TRY_ARRAY(p->heavy, m->n);
    TRY_ARRAY(p->cost_ns, m->n);
    TRY_ARRAY(m->index, m->g->nodes.n);
    MR_TRY(make_nodes(m, kernels));
    return make_edges(m);
}

/* The maker and its arrays live only here; the plan keeps a reference to the graph. On failure *out is NULL. */
mr_status *mr_plan_new(mr_graph *g, mr_device *d, mr_kernel_cache *kernels, mr_plan **out)
{
    maker m = {.p = mr_new(mr_plan), .g = g};
    m.p->graph = mr_graph_ref(g);
    m.p->device = d;
    mr_status *st = make_plan(&m, kernels);
    mr_free(m.order);
    mr_free(m.index);
    mr_frames_deinit(&m.frames);
    if (st) {
        mr_plan_free(m.p);
        m.p = NULL;
    }
    *out = m.p;
    return st;
}

/* Also called for a plan that was made in part, so every array may be NULL. */
void mr_plan_free(mr_plan *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; p->kernels && i < p->n_nodes; i++)
        mr_instance_unref(p->kernels[i]);
    mr_free(p->kernels);
    mr_free(p->nodes);
    mr_free(p->edges);
    mr_free(p->words);
    mr_free(p->roots);
    mr_free(p->frames);
    mr_free(p->children);
    mr_free((void *)p->heavy);
    mr_free((void *)p->cost_ns);
    mr_graph_unref(p->graph);
    mr_free(p);
}

/* The kept cost is a moving average: a new measurement has a weight of one quarter and counts as at most four times the
 * old cost, because the thread may have been descheduled meanwhile. */
void mr_plan_note_cost(const mr_plan *p, uint32_t i, int64_t took_ns)
{
    MR_ASSERT(i < p->n_nodes);
    uint32_t ns = (uint32_t)MR_MIN(took_ns, INT32_MAX / 8);
    uint32_t old = atomic_load_explicit(&p->cost_ns[i], memory_order_relaxed);
    if (old)
        ns = old - old / 4 + MR_MIN(ns, 4 * (uint64_t)old) / 4;
    atomic_store_explicit(&p->cost_ns[i], ns, memory_order_relaxed);
    if (!(p->nodes[i].flags & MR_PN_CHEAP))
        atomic_store_explicit(&p->heavy[i], ns > MR_HEAVY_NS, memory_order_relaxed);
}
