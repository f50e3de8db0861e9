/* graph/assemble.c -- orders parts, creates their nodes, closes loops.
 *
 * The order is that of TensorFlow's importer: of the nodes whose inputs all exist, the first in the file. Nearly all
 * files are already sorted; checking that takes one pass over the edges. Edges from NextIteration to Merge do not count
 * for the order; they are linked after all nodes exist. */
#include "graph/assemble.h"

#include "base/memory.h"

static mr_status *no_memory(int n)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to order %d nodes", n);
}

static int n_edges(const mr_part *p) { return p->d.n_in + p->n_ctrl; }

static bool closes_loop(const mr_assembly *a, const mr_part *dst, const mr_part_edge *e)
{
    return e->part >= 0 && dst->is_merge && a->parts[e->part].is_next;
}

/* Whether an edge depends on a part that must be created first. */
static bool edge_waits(const mr_assembly *a, const mr_part *dst, const mr_part_edge *e)
{
    return e->part >= 0 && !closes_loop(a, dst, e);
}

/* ---- types ---- The types of all parts are known before the first node is created, so edges are checked first, and
 * afterwards only shape functions can fail. */

static mr_status *check_edge(const mr_assembly *a, const mr_part *dst, int i)
{
    const mr_part_edge *e = &a->edges[dst->first_edge + i];
    const char *name = e->part < 0 ? e->node->name : a->parts[e->part].d.name;
    int n_out = e->part < 0 ? e->node->n_out : a->parts[e->part].d.n_out;
    if (e->index < 0 || e->index >= n_out)
        return mr_invalid(
            "Node '%s': Connecting to invalid output %d of source node %s which has %d outputs.",
            dst->d.name, e->index, name, n_out);
    int type = e->part < 0 ? e->node->out_types[e->index] : a->parts[e->part].d.out_types[e->index];
    if (!mr_types_fit(dst->d.in_types[i], type))
        return mr_invalid(
            "Input %d of node %s was passed %s from %s:%d incompatible with expected %s.", i,
            dst->d.name, mr_dtype_name(type), name, e->index, mr_dtype_name(dst->d.in_types[i]));
    return NULL;
}

static mr_status *check_edges(const mr_assembly *a)
{
    for (int i = 0; i < a->n_parts; i++)
        for (int k = 0; k < a->parts[i].d.n_in; k++)
            MR_TRY(check_edge(a, &a->parts[i], k));
    return NULL;
}

/* ---- order ---- */

static bool in_order(const mr_assembly *a)
{
    for (int i = 0; i < a->n_parts; i++) {
        const mr_part *p = &a->parts[i];
        for (int k = 0; k < n_edges(p); k++) {
            const mr_part_edge *e = &a->edges[p->first_edge + k];
            if (edge_waits(a, p, e) && e->part >= i)
                return false;
        }
    }
    return true;
}

/* The dependencies: the consumers of part p are list[start[p]] to list[start[p + 1]]. */
typedef struct waiting {
    int *start, *list;
    int *pending; /* inputs a part still waits for */
} waiting;

static void waiting_deinit(waiting *w)
{
    mr_free(w->start);
    mr_free(w->list);
    mr_free(w->pending);
}

/* Counts the consumers of each part, then lists them (a counting sort by producer). */
static mr_status *collect_waiting(const mr_assembly *a, waiting *w)
{
    int n = a->n_parts, total = 0;
    w->start = mr_try_calloc((size_t)n + 2, sizeof(int));
    w->pending = mr_try_calloc((size_t)n, sizeof(int));
    if (!w->start || !w->pending)
        return no_memory(n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n_edges(&a->parts[i]); k++) {
            const mr_part_edge *e = &a->edges[a->parts[i].first_edge + k];
            if (!edge_waits(a, &a->parts[i], e))
                continue;
            w->start[e->part + 2]++; /* shifted by two: filling below moves it to its place */
            w->pending[i]++;
            total++;
        }
    for (int i = 0; i <= n; i++) /* turns counts into start positions */
        w->start[i + 1] += w->start[i];
    w->list = mr_try_calloc((size_t)total, sizeof(int));
    if (!w->list)
        return no_memory(n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n_edges(&a->parts[i]); k++) {
            const mr_part_edge *e = &a->edges[a->parts[i].first_edge + k];
            if (edge_waits(a, &a->parts[i], e))
                w->list[w->start[e->part + 1]++] = i;
        }
    return NULL;
}

/* A heap with the smallest number on top. */
static void heap_push(int *heap, int *n, int v)
{
    int i = (*n)++;
    for (; i > 0 && heap[(i - 1) / 2] > v; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = v;
}

static int heap_pop(int *heap, int *n)
{
    int top = heap[0], v = heap[--*n], i = 0;
    for (;;) {
        int child = 2 * i + 1;
        if (child >= *n)
            break;
        if (child + 1 < *n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= v)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = v;
    return top;
}

/* Kahn's algorithm with a heap, so that the order does not depend on how edges were listed. */
static mr_status *sort_parts(const mr_assembly *a, int *order)
{
    mr_status *st = NULL;
    waiting w = {0};
    int n_ready = 0, n_done = 0;
    int *ready = mr_try_calloc((size_t)a->n_parts + 1, sizeof(int));
    if (!ready)
        MR_GO(no_memory(a->n_parts));
    MR_GO(collect_waiting(a, &w));
    for (int i = 0; i < a->n_parts; i++)
        if (!w.pending[i])
            heap_push(ready, &n_ready, i);
    while (n_ready) {
        int p = heap_pop(ready, &n_ready);
        order[n_done++] = p;
        for (int k = w.start[p]; k < w.start[p + 1]; k++)
            if (--w.pending[w.list[k]] == 0)
                heap_push(ready, &n_ready, w.list[k]);
    }
    if (n_done < a->n_parts) {
        int stuck = 0;
        while (!w.pending[stuck])
            stuck++;
        MR_GO(mr_invalid("%d nodes in a cycle, or depending on one, for example '%s'", a->n_parts - n_done,
                         a->parts[stuck].d.name));
    }
out:
    waiting_deinit(&w);
    mr_free(ready);
    return st;
}

/* ---- nodes ---- */

static mr_node *edge_source(const mr_assembly *a, const mr_part_edge *e)
{
    return e->part < 0 ? e->node : a->parts[e->part].node;
}

/* Ops whose shape functions were wrong when graphs that are still in use were written: TensorFlow ignores the
 * _output_shapes of these nodes. */
static bool was_wrong(const mr_node *n)
{
    static const char *const ops[] = {
        "RandomShuffleQueue", "PaddingFIFOQueue", "FIFOQueue", "PriorityQueue", "QueueSize", "Stack", "Barrier",
        "BarrierReadySize", "BarrierIncompleteSize", "HashTable", "MutableHashTable", "MutableHashTableOfTensors", "Mutex",
        "CuckooTable", "IndexTable", "WholeFileReader", "TextLineReader", "FixedLengthRecordReader", "TFRecordReader",
        "IdentityReader", "RefSwitch", "RefEnter", "RefNextIteration", "RefMerge", "RefIdentity", "LMDBReader",
        "ConditionalAccumulator", "SparseConditionalAccumulator", "Table"};
    for (int i = 0; i < MR_COUNT(ops); i++)
        if (mr_node_is(n, ops[i]))
            return true;
    return false;
}

/* The producer's _output_shapes refine the inferred shapes, unless they contradict them. */
static mr_status *use_output_shapes(mr_node *n, bool importing)
{
    const mr_attr *v = mr_node_attr(n, "_output_shapes");
    if (!v || !v->is_list || (v->kind != MR_ATTR_SHAPE && v->n > 0))
        return NULL;
    if (v->n < n->n_out)
        return !importing ? NULL
                          : mr_invalid("Node '%s' has %d outputs but the _output_shapes attribute specifies shapes for %d "
                                       "outputs", n->name, n->n_out, v->n);
    for (int i = 0; i < n->n_out; i++) {
        mr_status *st = mr_out_refine_shape((mr_out){n, i}, v->shapes[i]);
        if (st && importing && !was_wrong(n))
            return mr_status_prepend(
                st,
                "Node '%s' has an _output_shapes attribute inconsistent with the "
                "GraphDef for output #%d: ",
                n->name, i);
        mr_status_free(st);
    }
    if (importing)
        mr_node_clear_attr(n, "_output_shapes");
    return NULL;
}

static mr_status *make_node(const mr_assembly *a, mr_part *p)
{
    bool on_its_own = true; /* it has no input from other parts, so it gets the control inputs of a->controls */
    MR_ASSERT(!p->node);
    MR_TRY(mr_draft_make(a->graph, &p->d, &p->node));
    for (int k = 0; k < n_edges(p); k++) {
        const mr_part_edge *e = &a->edges[p->first_edge + k];
        if (closes_loop(a, p, e))
            continue;
        on_its_own &= e->part < 0;
        if (k < p->d.n_in)
            mr_node_link(p->node, k, (mr_out){edge_source(a, e), e->index});
        else
            mr_node_push_control(p->node, edge_source(a, e));
    }
    for (int i = 0; on_its_own && i < a->n_controls; i++)
        mr_node_add_control(p->node, a->controls[i]);
    MR_TRY(mr_node_infer(p->node));
    return use_output_shapes(p->node, a->importing);
}

/* Merge nodes were created without these inputs; their shapes are inferred without them, because the value from the
 * back edge may have another shape than the initial one. */
static void close_loops(const mr_assembly *a)
{
    for (int i = 0; i < a->n_parts; i++) {
        const mr_part *p = &a->parts[i];
        for (int k = 0; p->is_merge && k < n_edges(p); k++) {
            const mr_part_edge *e = &a->edges[p->first_edge + k];
            if (!closes_loop(a, p, e))
                continue;
            if (k < p->d.n_in)
                mr_node_link(p->node, k, (mr_out){edge_source(a, e), e->index});
            else
                mr_node_push_control(p->node, edge_source(a, e));
        }
    }
}

/* On an error some nodes may already be in the graph; the caller truncates it. */
mr_status *mr_assemble(mr_assembly *a)
{
    mr_status *st = NULL;
    int *order = NULL;
    MR_GO(check_edges(a));
    if (!in_order(a)) {
        order = mr_try_calloc((size_t)a->n_parts, sizeof(int));
        if (!order)
            MR_GO(no_memory(a->n_parts));
        MR_GO(sort_parts(a, order));
    }
    for (int i = 0; i < a->n_parts; i++)
        MR_GO(make_node(a, &a->parts[order ? order[i] : i]));
    close_loops(a);
out:
    mr_free(order);
    return st;
}
