/* passes/simplify.c -- removes nodes whose output is one of their inputs, and replaces powers by products.
 *
 * Removed: Identity and its kin, x * 1, x / 1, x - 0, x + 0 (of floats only x + -0, because -0 + 0 is 0), x^1, pairs of
 * Neg, LogicalNot or Invert, a Cast there and back through a wider type, a Transpose that moves nothing or undoes another
 * one, a Reshape to the shape that is there, and the Sum and Reshape by which the gradient of an operation that might have
 * broadcast an input takes its shape, if it cannot have done so (passes/dims.h), with what only they have read. x^2, x^3 and x^-1 become Square, Mul and Reciprocal, which the following
 * passes can fuse. Results keep their bits; only a denormal number, which the removed node would have read as 0, may pass.
 *
 * As in TensorFlow's Grappler, a node stays if
 * - it reads a reference: then it is the time of the read;
 * - it has control inputs, or it brings a value to another device, or says how values travel there;
 * - other nodes wait for it and its input comes from a Switch or the like, whose outputs are dead one by one;
 * - it has no readers: the step asks for it;
 * - a constant that it reads exists at other times than its input (passes/readiness.h).
 * Fetched values have readers of their own here (_Retval), and what is fed is an input. */
#include <math.h>

#include "base/memory.h"
#include "passes/dims.h"
#include "passes/fuse.h"
#include "passes/readiness.h"

typedef struct simplifier {
    mr_graph *g;
    mr_node **order;
    int n, n_ids;
    mr_node **instead; /* by id: what other nodes wait for when they waited for this one; NULL: it stays */
    mr_readiness ready; /* made when it is first needed */
    mr_dims_table dims; /* only where there are BroadcastGradientArgs */
} simplifier;

/* ---- looking at nodes ---- */

static bool is_any(const mr_node *n, const char *const *ops, int n_ops)
{
    for (int i = 0; i < n_ops; i++)
        if (mr_node_is(n, ops[i]))
            return true;
    return false;
}
#define IS_ANY(n, ...) is_any(n, (const char *const[]){__VA_ARGS__}, MR_COUNT(((const char *const[]){__VA_ARGS__})))

static bool is_float(int t) { return t == MR_FLOAT || t == MR_DOUBLE || t == MR_HALF || t == MR_BFLOAT16; }
static bool is_int(int t)
{
    return t == MR_INT8 || t == MR_INT16 || t == MR_INT32 || t == MR_INT64 || t == MR_UINT8 || t == MR_UINT16 || t == MR_UINT32 ||
           t == MR_UINT64;
}

static bool has_waiters(const mr_node *n)
{
    for (int u = 0; u < n->uses.n; u++)
        if (n->uses.p[u].input < 0)
            return true;
    return false;
}

/* True if the node has run, or is not dead, whenever v exists, so nobody who waits for v needs to wait for it. */
static bool exists_with(simplifier *w, const mr_node *c, mr_out v)
{
    if (mr_node_is(c, "Const") && c->n_ctrl == 0)
        return true;
    if (!w->ready.gates && c->id < w->n_ids) {
        mr_status *st = mr_readiness_find(w->g, w->order, w->n, &w->ready);
        mr_status_free(st); /* without memory, fewer nodes are simplified */
        if (st)
            mr_readiness_deinit(&w->ready);
    }
    if (!w->ready.gates || c->id >= w->n_ids || v.node->id >= w->n_ids)
        return false;
    return mr_readiness_includes(&w->ready, w->ready.gates[v.node->id], w->ready.gates[c->id]);
}

/* The value of a Const of this many dimensions (-1: any); NULL: it is none. The caller owns it. */
static mr_tensor *constant(mr_out o, int rank)
{
    mr_tensor *t = NULL;
    if (mr_node_is(o.node, "Const"))
        mr_status_free(mr_node_get_tensor(o.node, "value", &t));
    if (!t || rank < 0 || t->rank == rank)
        return t;
    mr_tensor_unref(t);
    return NULL;
}

/* True if o is a constant scalar; *v is its value. */
static bool scalar(simplifier *w, mr_out o, mr_out other, double *v)
{
    int type = mr_out_type(o);
    mr_tensor *t = is_float(type) || is_int(type) ? constant(o, 0) : NULL;
    bool found = t && exists_with(w, o.node, other) && mr_dtype_convert((mr_dtype)type, t->data, MR_DOUBLE, v, 1, false);
    mr_tensor_unref(t);
    return found;
}

/* ---- nodes whose output is one of their inputs ---- */

static bool is_pass(const mr_node *n) { return IS_ANY(n, "Identity", "StopGradient", "PreventGradient", "Snapshot"); }

/* Whether `x op v` (v op x, if left) is x, to the bit. */
static bool is_neutral(const mr_node *n, bool left, double v)
{
    bool floats = is_float(n->out_types[0]), negative = signbit(v);
    if (mr_node_is(n, "Mul"))
        return v == 1;
    if (IS_ANY(n, "Add", "AddV2"))
        return v == 0 && (!floats || negative);
    if (left)
        return false;
    if (mr_node_is(n, "Sub"))
        return v == 0 && (!floats || !negative);
    if (IS_ANY(n, "RealDiv", "Div") || (mr_node_is(n, "Pow") && floats))
        return v == 1;
    return false;
}

static mr_out without_neutral(simplifier *w, const mr_node *n)
{
    double v;
    if (n->n_in != 2 || !(is_float(n->out_types[0]) || is_int(n->out_types[0])))
        return MR_NO_OUT;
    if (scalar(w, n->in[1], n->in[0], &v) && is_neutral(n, false, v))
        return n->in[0];
    return scalar(w, n->in[0], n->in[1], &v) && is_neutral(n, true, v) ? n->in[1] : MR_NO_OUT;
}

/* The node that makes the first input of n, if it is of the same op and waits for nothing else. */
static const mr_node *same_before(const mr_node *n)
{
    const mr_node *before = n->in[0].node;
    return before->def == n->def && before->n_ctrl == 0 ? before : NULL;
}

static mr_out without_pair(const mr_node *n)
{
    const mr_node *before = IS_ANY(n, "Neg", "LogicalNot", "Invert") ? same_before(n) : NULL;
    return before ? before->in[0] : MR_NO_OUT;
}

/* Whether each number of type `from` is one of type `to`. Denormal floats are not: a Cast reads them as 0. */
static bool is_wider(int from, int to)
{
    static const struct {
        int from, to[8];
    } wider[] = {
        {MR_HALF, {MR_FLOAT, MR_DOUBLE}},
        {MR_INT8, {MR_INT16, MR_INT32, MR_INT64, MR_FLOAT, MR_DOUBLE}}, {MR_UINT8, {MR_INT16, MR_INT32, MR_INT64, MR_FLOAT, MR_DOUBLE}},
        {MR_INT16, {MR_INT32, MR_INT64, MR_FLOAT, MR_DOUBLE}}, {MR_INT32, {MR_INT64, MR_DOUBLE}},
        {MR_BOOL, {MR_INT8, MR_UINT8, MR_INT32, MR_INT64, MR_FLOAT, MR_DOUBLE}},
    };
    for (int i = 0; i < MR_COUNT(wider); i++)
        for (int k = 0; wider[i].from == from && k < 8; k++)
            if (wider[i].to[k] == to)
                return true;
    return false;
}

static mr_out without_casts(const mr_node *n)
{
    if (!mr_node_is(n, "Cast"))
        return MR_NO_OUT;
    if (n->in_types[0] == n->out_types[0])
        return n->in[0];
    const mr_node *before = same_before(n);
    return before && before->in_types[0] == n->out_types[0] && is_wider(before->in_types[0], n->in_types[0]) ? before->in[0] : MR_NO_OUT;
}

/* The permutation of a Transpose; false: it is not constant, or not one of the dimensions of its input. */
static bool permutation(simplifier *w, const mr_node *n, int64_t *at, int *rank)
{
    mr_tensor *t = constant(n->in[1], 1);
    bool seen[MR_MAX_RANK] = {false}, ok = t && t->n == mr_out_shape(n->in[0])->rank && exists_with(w, n->in[1].node, n->in[0]);
    for (int i = 0; ok && i < t->n; i++) {
        at[i] = mr_tensor_int_at(t, i);
        ok = at[i] >= 0 && at[i] < t->n && !seen[at[i]];
        if (ok)
            seen[at[i]] = true;
    }
    *rank = ok ? (int)t->n : 0;
    mr_tensor_unref(t);
    return ok;
}

static mr_out without_transpose(simplifier *w, const mr_node *n)
{
    int64_t outer[MR_MAX_RANK], inner[MR_MAX_RANK];
    int rank, ignored;
    bool moves = false;
    if (!mr_node_is(n, "Transpose") || !permutation(w, n, outer, &rank))
        return MR_NO_OUT;
    for (int i = 0; i < rank; i++)
        moves |= outer[i] != i;
    if (!moves)
        return n->in[0];
    const mr_node *before = same_before(n);
    if (!before || !permutation(w, before, inner, &ignored))
        return MR_NO_OUT;
    for (int i = 0; i < rank; i++)
        if (inner[outer[i]] != i)
            return MR_NO_OUT;
    return before->in[0];
}

static mr_out without_reshape(simplifier *w, const mr_node *n)
{
    const mr_pshape *x = n->n_in == 2 ? mr_out_shape(n->in[0]) : NULL, *y = n->n_out == 1 ? n->out_shapes[0] : NULL;
    if (!mr_node_is(n, "Reshape") || !mr_pshape_full(x) || !mr_pshape_full(y) || !mr_shape_eq(x->rank, x->dims, y->rank, y->dims) ||
        !mr_node_is(n->in[1].node, "Const") || !exists_with(w, n->in[1].node, n->in[0]))
        return MR_NO_OUT;
    return n->in[0];
}

/* Reshape(Sum(x, axes), shape) of a gradient, where x has the shape of the operand already: then the axes have one element
 * each, if there are any. */
static mr_out without_unbroadcast(simplifier *w, const mr_node *n)
{
    if (!mr_node_is(n, "Reshape") || !w->dims.shapes || mr_node_is_switch(n->in[1].node))
        return MR_NO_OUT;
    mr_out x = n->in[0];
    const mr_node *sum = x.node;
    if (mr_node_is(sum, "Sum") && sum->n_ctrl == 0 && !mr_node_is_switch(sum->in[1].node)) {
        mr_out axes = mr_dims_origin(&w->dims, sum->in[1]);
        x = sum->in[0];
        if (!mr_node_is(axes.node, "BroadcastGradientArgs") || !mr_dims_has_shape(&w->dims, x, axes.node->in[axes.index]) ||
            !exists_with(w, sum->in[1].node, x))
            return MR_NO_OUT;
    }
    return mr_dims_reshape_keeps(&w->dims, x, n->in[1]) && exists_with(w, n->in[1].node, x) ? x : MR_NO_OUT;
}

/* The output that is always equal to the first one of n; MR_NO_OUT: none is known. */
static mr_out equal_output(simplifier *w, const mr_node *n)
{
    mr_out (*const rules[])(simplifier *, const mr_node *) = {without_neutral, without_transpose, without_reshape, without_unbroadcast};
    if (is_pass(n))
        return n->in[0];
    mr_out o = without_pair(n);
    o = o.node ? o : without_casts(n);
    for (int i = 0; i < MR_COUNT(rules) && !o.node; i++)
        o = rules[i](w, n);
    return o;
}

/* ---- changing the graph ---- */

static bool may_go(const mr_node *n)
{
    if (n->n_out != 1 || n->n_in < 1 || n->n_ctrl > 0 || n->uses.n == 0 || !n->def->op)
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i].node || mr_dtype_is_ref(mr_out_type(n->in[i])))
            return false;
    return true;
}

/* Whether readers of n may read o instead, and nodes that wait for n may wait for o's node. */
static bool may_stand_for(mr_out o, const mr_node *n)
{
    return mr_out_type(o) == n->out_types[0] && !mr_dtype_is_ref(mr_out_type(o)) && mr_fuse_same_device(o.node, n) &&
           !(has_waiters(n) && mr_node_is_control_flow(o.node)) && !mr_node_attr(n, MR_LOSSY_ATTR) && !mr_node_attr(o.node, MR_LOSSY_ATTR);
}

static mr_status *emit(simplifier *w, const mr_node *n, const char *op, const char *name, mr_out a, mr_out b, mr_node **out)
{
    mr_node_builder *nb = mr_node_begin(w->g, op, mr_graph_unique_name(w->g, name));
    mr_nb_internal(nb);
    mr_nb_device(nb, n->device);
    mr_nb_input(nb, a);
    if (b.node)
        mr_nb_input(nb, b);
    MR_TRY(mr_node_finish(nb, out));
    (*out)->placed = n->placed;
    (*out)->mark = n->mark;
    (*out)->tag = (void *)(uintptr_t)(*out)->name;
    return NULL;
}

/* x^3 is x x x from left to right, as in Pow's kernel; 16-bit floats would be rounded once more. */
static mr_status *replace_power(simplifier *w, mr_node *n)
{
    double v;
    mr_node *power = NULL;
    bool wide = n->out_types[0] == MR_FLOAT || n->out_types[0] == MR_DOUBLE;
    if (!mr_node_is(n, "Pow") || !scalar(w, n->in[1], n->in[0], &v))
        return NULL;
    mr_out x = n->in[0];
    const char *name = mr_arena_strdup(&w->g->arena, n->name);
    if (v == 2) {
        MR_TRY(emit(w, n, "Square", name, x, MR_NO_OUT, &power));
    } else if (v == 3 && wide) {
        MR_TRY(emit(w, n, "Square", name, x, MR_NO_OUT, &power));
        MR_TRY(emit(w, n, "Mul", name, (mr_out){power, 0}, x, &power));
    } else if (v == -1 && wide) {
        MR_TRY(emit(w, n, "Reciprocal", name, x, MR_NO_OUT, &power));
    } else {
        return NULL;
    }
    power->out_shapes[0] = n->out_shapes[0];
    power->tag = (void *)(uintptr_t)name;
    MR_TRY(mr_graph_replace_uses((mr_out){n, 0}, (mr_out){power, 0}));
    w->instead[n->id] = power;
    return NULL;
}

static mr_status *visit_node(simplifier *w, mr_node *n)
{
    if (!may_go(n))
        return NULL;
    mr_out o = equal_output(w, n);
    if (!o.node)
        return n->out_types[0] == n->in_types[0] && is_float(n->out_types[0]) ? replace_power(w, n) : NULL;
    if (!may_stand_for(o, n))
        return NULL;
    MR_TRY(mr_graph_replace_uses((mr_out){n, 0}, o));
    w->instead[n->id] = o.node;
    return NULL;
}

/* Removes what only removed nodes have read, if it has no effect: the constants, and the first nodes of pairs. Consumers
 * first, so that whole chains go. */
static void sweep(simplifier *w, const bool *had_readers)
{
    for (int i = w->n - 1; i >= 0; i--) {
        mr_node *n = w->order[i];
        if (n && had_readers[i] && n->uses.n == 0 && (is_pass(n) || IS_ANY(n, "Const", "Neg", "LogicalNot", "Invert", "Cast", "Transpose", "Sum", "Shape", "BroadcastGradientArgs", "StackV2") || mr_node_is_enter(n)))
            mr_graph_remove(w->g, n);
    }
}

mr_status *mr_simplify(mr_graph *g, const mr_prepare_options *o)
{
    mr_status *st = NULL;
    bool *had_readers = NULL;
    size_t all = (size_t)g->nodes.n + 1;
    simplifier w = {.g = g, .n_ids = g->nodes.n};
    if (o->no_simplify)
        return NULL;
    w.instead = mr_try_calloc(all, sizeof *w.instead);
    had_readers = mr_try_calloc(all, sizeof *had_readers);
    if (!w.instead || !had_readers)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot simplify a graph of %d nodes", g->nodes.n));
    MR_GO(mr_graph_topological(g, &w.order, &w.n));
    bool any = false, broadcasts = false;
    for (int i = 0; i < w.n; i++)
        broadcasts |= mr_node_is(w.order[i], "BroadcastGradientArgs");
    if (broadcasts)
        MR_GO(mr_dims_find(g, w.order, w.n, &w.dims));
    for (int i = 0; i < w.n; i++) {
        had_readers[i] = w.order[i]->uses.n > 0;
        MR_GO(visit_node(&w, w.order[i]));
        any |= w.instead[w.order[i]->id] != NULL;
    }
    if (any) {
        for (int i = 0; i < w.n; i++)
            if (w.instead[w.order[i]->id])
                w.order[i] = NULL; /* freed by the next line */
        MR_GO(mr_fuse_finish(g, w.instead, w.n_ids));
        sweep(&w, had_readers);
    }
out:
    mr_readiness_deinit(&w.ready);
    mr_dims_deinit(&w.dims);
    mr_free(w.order);
    mr_free(w.instead);
    mr_free(had_readers);
    return st;
}
