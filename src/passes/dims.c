/* passes/dims.c -- finds the dimensions of all values, from producers to consumers, and from where a stack is filled to where it
 * is read.
 *
 * Ops whose shapes are known to follow from their inputs have a rule here; each unknown dimension of other nodes' outputs
 * gets a symbol of its own. Where a node requires dimensions to be equal, its output takes the one that says most: a size, else
 * the oldest symbol.
 *
 * Loops: a variable of a loop is first taken to have the same shape in all iterations. If what comes back by NextIteration
 * does not fit, it gets symbols of its own, and everything is computed again. */
#include "passes/dims.h"

#include "base/memory.h"
#include "run/fused.h"

enum { MOST_ROUNDS = 8, MOST_NUMBERS = 16 };

typedef struct finder {
    mr_dims_table *t;
    mr_node *const *order;
    int n;
    MR_VEC(int) born; /* by symbol: the frame in which it has a meaning */
    mr_frames frames;
    int frame; /* of the node that is visited */
    mr_node **writers; /* by array_of(): the node that writes into a TensorArray; `several`, NULL: none */
    mr_node *several;
    bool *fed;   /* by id: depends on feeds, or on state other than variables */
    bool *loose; /* by id of a Merge: the shape differs between iterations */
} finder;

static const mr_dims nothing = {.n = -1};

static mr_dims *new_dims(finder *w, int n)
{
    mr_dims *d = mr_arena_alloc(&w->t->arena, sizeof *d + sizeof *d->d * (size_t)MR_MAX(n, 0));
    d->n = n;
    return d;
}

static int64_t new_symbol(finder *w)
{
    mr_vec_push(&w->born, w->frame);
    return -1 - w->born.n;
}

static const mr_dims *get(const mr_dims_table *t, const mr_dims ***all, mr_out o)
{
    const mr_dims *d = o.node && o.node->id < t->n_ids && all[o.node->id] ? all[o.node->id][o.index] : NULL;
    return d ? d : &nothing;
}

static const mr_dims *shape_in(const finder *w, const mr_node *n, int i)
{
    return i < n->n_in ? get(w->t, w->t->shapes, n->in[i]) : &nothing;
}
static const mr_dims *value_in(const finder *w, const mr_node *n, int i)
{
    return i < n->n_in ? get(w->t, w->t->values, n->in[i]) : &nothing;
}

static bool same(const mr_dims *a, const mr_dims *b)
{
    return a->n >= 0 && a->n == b->n && memcmp(a->d, b->d, sizeof *a->d * (size_t)a->n) == 0;
}

/* Of two dimensions that are equal. */
static int64_t better(int64_t a, int64_t b) { return a >= 0 ? a : b >= 0 ? b : MR_MAX(a, b); }

/* What leaves a loop is of its last iteration: a symbol of the loop has another meaning outside. */
static const mr_dims *left_loop(finder *w, const mr_dims *x)
{
    if (x->n < 0)
        return NULL;
    mr_dims *d = new_dims(w, x->n);
    for (int i = 0; i < x->n; i++) {
        int f = w->frame;
        while (x->d[i] < -1 && f >= 0 && f != w->born.p[-x->d[i] - 2])
            f = w->frames.info[f].parent;
        d->d[i] = f < 0 ? new_symbol(w) : x->d[i];
    }
    return d;
}

/* ---- constants and attrs ---- */

static const mr_dims *constant(finder *w, const mr_node *n)
{
    mr_tensor *t = NULL;
    mr_dims *d = NULL;
    bool bad = false;
    if (n->out_types[0] != MR_INT32 && n->out_types[0] != MR_INT64)
        return NULL;
    mr_status_free(mr_node_get_tensor(n, "value", &t));
    if (t && t->rank <= 1 && t->n <= MOST_NUMBERS) {
        d = new_dims(w, (int)t->n);
        for (int i = 0; i < t->n; i++) {
            d->d[i] = mr_tensor_int_at(t, i);
            bad |= d->d[i] < -1; /* would be taken for a symbol */
        }
        d->n = bad ? -1 : d->n;
    }
    mr_tensor_unref(t);
    return d;
}

/* An int that may be negative: an axis. false: it is not constant. */
static bool constant_axis(mr_out o, int rank, int *axis)
{
    mr_tensor *t = NULL;
    if (mr_node_is(o.node, "Const"))
        mr_status_free(mr_node_get_tensor(o.node, "value", &t));
    bool ok = t && t->n == 1 && (t->dtype == MR_INT32 || t->dtype == MR_INT64) && rank > 0;
    int64_t v = ok ? mr_tensor_int_at(t, 0) : 0;
    mr_tensor_unref(t);
    ok = ok && v >= -rank && v < rank;
    *axis = ok ? (int)(v < 0 ? v + rank : v) : 0;
    return ok;
}

static bool flag(const mr_node *n, const char *name)
{
    bool v = false;
    if (mr_node_attr(n, name))
        mr_status_free(mr_node_get_bool(n, name, &v));
    return v;
}

/* ---- shapes ---- */

/* Sizes that cannot depend on a feed, and a new symbol for each other dimension. */
static const mr_dims *plain_shape(finder *w, const mr_node *n, int output)
{
    const mr_pshape *s = n->out_shapes[output];
    if (s->rank < 0 || s->rank > MOST_NUMBERS)
        return NULL;
    mr_dims *d = new_dims(w, s->rank);
    for (int i = 0; i < s->rank; i++)
        d->d[i] = s->dims[i] >= 0 && !w->fed[n->id] ? s->dims[i] : new_symbol(w);
    return d;
}

/* All inputs broadcast. */
static const mr_dims *broadcast(finder *w, const mr_node *n)
{
    int rank = 0;
    for (int i = 0; i < n->n_in; i++) {
        if (shape_in(w, n, i)->n < 0)
            return NULL;
        rank = MR_MAX(rank, shape_in(w, n, i)->n);
    }
    mr_dims *d = new_dims(w, rank);
    for (int k = 1; k <= rank; k++) {
        int64_t size = 1;
        bool unclear = false;
        for (int i = 0; i < n->n_in; i++) {
            const mr_dims *x = shape_in(w, n, i);
            int64_t v = k <= x->n ? x->d[x->n - k] : 1;
            if (v == 1 || v == size)
                continue;
            unclear |= v < 0 && size < 0;
            size = size == 1 || v >= 0 ? v : size;
        }
        d->d[rank - k] = unclear && size < 0 ? new_symbol(w) : size;
    }
    return d;
}

/* Inputs from `first` on have one shape. */
static const mr_dims *common(finder *w, const mr_node *n, int first)
{
    const mr_dims *x = shape_in(w, n, first);
    mr_dims *d = NULL;
    for (int i = first + 1; i < n->n_in; i++) {
        const mr_dims *y = shape_in(w, n, i);
        if (y->n < 0 || same(x, y))
            continue;
        if (x->n < 0) {
            x = y;
            continue;
        }
        if (x->n != y->n)
            return NULL;
        d = new_dims(w, x->n);
        for (int k = 0; k < x->n; k++)
            d->d[k] = better(x->d[k], y->d[k]);
        x = d;
    }
    return x->n < 0 ? NULL : x;
}

static const mr_dims *element_wise(finder *w, const mr_node *n, mr_each_form form)
{
    const mr_dims *x = shape_in(w, n, 0);
    switch (form) {
    case MR_FORM_BROADCAST:
    case MR_FORM_SELECT_V2: return broadcast(w, n);
    case MR_FORM_SAME:
    case MR_FORM_SUM: return common(w, n, 0);
    case MR_FORM_SELECT: return common(w, n, 1);
    case MR_FORM_NONE: return NULL;
    default: return x->n < 0 ? NULL : x;
    }
}

static const mr_dims *mat_mul(finder *w, const mr_node *n)
{
    const mr_dims *a = shape_in(w, n, 0), *b = shape_in(w, n, 1);
    mr_dims *d = new_dims(w, 2);
    d->d[0] = a->n == 2 ? a->d[flag(n, "transpose_a")] : new_symbol(w);
    d->d[1] = b->n == 2 ? b->d[!flag(n, "transpose_b")] : new_symbol(w);
    return d;
}

/* ConcatV2: all dimensions but one are equal. */
static const mr_dims *concat(finder *w, const mr_node *n)
{
    const mr_dims *x = shape_in(w, n, 0);
    int axis;
    if (x->n < 0 || !constant_axis(n->in[n->n_in - 1], x->n, &axis))
        return NULL;
    mr_dims *d = new_dims(w, x->n);
    memcpy(d->d, x->d, sizeof *d->d * (size_t)x->n);
    for (int i = 1; i < n->n_in - 1; i++) {
        const mr_dims *y = shape_in(w, n, i);
        for (int k = 0; k < d->n; k++)
            if (k == axis)
                d->d[k] = y->n == d->n && y->d[k] >= 0 && d->d[k] >= 0 ? d->d[k] + y->d[k] : -1;
            else if (y->n == d->n)
                d->d[k] = better(d->d[k], y->d[k]);
    }
    if (n->n_in > 2 && d->d[axis] < 0)
        d->d[axis] = new_symbol(w);
    return d;
}

/* Split: input 0 is the axis; SplitV: input 2 is, and input 1 has the sizes. */
static const mr_dims *part(finder *w, const mr_node *n, int output)
{
    bool v = mr_node_is(n, "SplitV");
    const mr_dims *x = shape_in(w, n, !v), *sizes = v ? value_in(w, n, 1) : &nothing;
    int axis;
    if (v)
        x = shape_in(w, n, 0);
    if (x->n < 0 || !constant_axis(n->in[v ? 2 : 0], x->n, &axis))
        return NULL;
    mr_dims *d = new_dims(w, x->n);
    memcpy(d->d, x->d, sizeof *d->d * (size_t)x->n);
    if (v)
        d->d[axis] = sizes->n == n->n_out ? sizes->d[output] : new_symbol(w);
    else
        d->d[axis] = x->d[axis] >= 0 ? x->d[axis] / n->n_out : new_symbol(w);
    return d;
}

static const mr_dims *transposed(finder *w, const mr_node *n)
{
    const mr_dims *x = shape_in(w, n, 0), *p = value_in(w, n, 1);
    if (x->n < 0 || p->n != x->n)
        return NULL;
    mr_dims *d = new_dims(w, x->n);
    for (int i = 0; i < x->n; i++) {
        if (p->d[i] < 0 || p->d[i] >= x->n)
            return NULL;
        d->d[i] = x->d[p->d[i]];
    }
    return d;
}

/* Whether x, with one dimension left open by -1, must be y if both have as many elements. */
static bool fills(const mr_dims *x, const mr_dims *y)
{
    int n_open = 0;
    if (x->n < 0 || x->n != y->n)
        return false;
    for (int i = 0; i < x->n; i++) {
        n_open += x->d[i] == -1;
        if (x->d[i] != y->d[i] && x->d[i] != -1)
            return false;
        if (x->d[i] == 0)
            return false;
    }
    return n_open <= 1;
}

/* The shape of the operand that a Sum makes a gradient for, if it does: it adds up what the operand was broadcast to. The Sum
 * itself may have fewer dimensions. */
static const mr_dims *operand_shape(const finder *w, const mr_node *sum)
{
    mr_out axes = mr_node_is(sum, "Sum") ? mr_dims_origin(w->t, sum->in[1]) : MR_NO_OUT;
    return axes.node && mr_node_is(axes.node, "BroadcastGradientArgs") ? get(w->t, w->t->values, axes.node->in[axes.index]) : &nothing;
}

static const mr_dims *reshaped(finder *w, const mr_node *n)
{
    const mr_dims *x = shape_in(w, n, 0), *to = value_in(w, n, 1), *operand = operand_shape(w, n->in[0].node);
    if (to->n >= 0 && fills(to, operand))
        return operand;
    if (to->n < 0 || fills(to, x))
        return to->n < 0 ? NULL : x;
    mr_dims *d = new_dims(w, to->n);
    for (int i = 0; i < to->n; i++)
        d->d[i] = to->d[i] == -1 ? new_symbol(w) : to->d[i];
    return d;
}

/* A reduction along constant axes. */
static const mr_dims *reduced(finder *w, const mr_node *n)
{
    const mr_dims *x = shape_in(w, n, 0);
    bool gone[MOST_NUMBERS] = {false}, keep = flag(n, "keep_dims");
    mr_tensor *t = NULL;
    if (mr_node_is(n->in[1].node, "Const"))
        mr_status_free(mr_node_get_tensor(n->in[1].node, "value", &t));
    bool ok = t && t->rank <= 1 && (t->dtype == MR_INT32 || t->dtype == MR_INT64) && x->n >= 0 && x->n <= MOST_NUMBERS;
    for (int i = 0; ok && i < t->n; i++) {
        int64_t axis = mr_tensor_int_at(t, i);
        axis += axis < 0 ? x->n : 0;
        ok = axis >= 0 && axis < x->n;
        if (ok)
            gone[axis] = true;
    }
    mr_tensor_unref(t);
    if (!ok)
        return NULL;
    mr_dims *d = new_dims(w, x->n);
    d->n = 0;
    for (int i = 0; i < x->n; i++)
        if (!gone[i] || keep)
            d->d[d->n++] = gone[i] ? 1 : x->d[i];
    return d;
}

static const mr_dims *tiled(finder *w, const mr_node *n)
{
    const mr_dims *x = shape_in(w, n, 0), *times = value_in(w, n, 1);
    if (x->n < 0 || times->n != x->n)
        return NULL;
    mr_dims *d = new_dims(w, x->n);
    for (int i = 0; i < x->n; i++)
        d->d[i] = times->d[i] == 1 ? x->d[i] : x->d[i] == 1 && times->d[i] != -1 ? times->d[i] : new_symbol(w);
    return d;
}

static const mr_dims *expanded(finder *w, const mr_node *n)
{
    const mr_dims *x = shape_in(w, n, 0);
    int axis;
    if (x->n < 0 || !constant_axis(n->in[1], x->n + 1, &axis))
        return NULL;
    mr_dims *d = new_dims(w, x->n + 1);
    for (int i = 0; i <= x->n; i++)
        d->d[i] = i == axis ? 1 : x->d[i - (i > axis)];
    return d;
}

/* ---- TensorArrays ---- */

/* A number for the array that a handle in input 0 comes from, or for the array of its gradients; -1: not known. */
static int array_of(const mr_node *n)
{
    bool gradient = false;
    const mr_node *a = n->in[0].node;
    for (;;) {
        if (mr_node_is_enter(a) || mr_node_is(a, "Identity"))
            a = a->in[0].node;
        else if (mr_node_is(a, "TensorArrayGradV3") && !gradient)
            gradient = true, a = a->in[0].node;
        else
            break;
    }
    return mr_node_is(a, "TensorArrayV3") ? 2 * a->id + gradient : -1;
}

/* Unknown uses of an array might write into it: only known ones may be there. */
static void find_writers(finder *w)
{
    for (int i = 0; i < w->n; i++) {
        mr_node *n = w->order[i];
        int a = mr_node_is(n, "TensorArrayWriteV3") || mr_node_is(n, "TensorArrayScatterV3") ? array_of(n) : -1;
        if (a >= 0)
            w->writers[a] = w->writers[a] ? w->several : n;
    }
    for (int i = 0; i < w->n; i++) { /* a handle that goes anywhere else */
        mr_node *n = w->order[i];
        bool usual = mr_node_is_enter(n) || mr_node_is(n, "Identity") || strncmp(n->def->name, "TensorArray", 11) == 0;
        for (int k = 0; k < n->n_in && !usual; k++)
            if (n->in_types[k] == MR_RESOURCE && mr_node_is(n->in[k].node, "TensorArrayV3"))
                w->writers[2 * n->in[k].node->id] = w->writers[2 * n->in[k].node->id + 1] = w->several;
        if (mr_node_is(n, "TensorArraySplitV3") || mr_node_is(n, "TensorArrayGradWithShape")) {
            int a = array_of(n);
            if (a >= 0)
                w->writers[a & ~1] = w->writers[a | 1] = w->several;
        }
    }
}

/* The dimensions of the elements of an array with one writer, without what changes while it is written. */
static const mr_dims *element_of(finder *w, const mr_node *n)
{
    int a = array_of(n);
    const mr_node *writer = a >= 0 ? w->writers[a] : NULL;
    if (!writer || writer == w->several)
        return NULL;
    const mr_dims *x = shape_in(w, writer, 2);
    int skip = mr_node_is(writer, "TensorArrayScatterV3"), inner = w->frame;
    if (x->n < skip)
        return NULL;
    mr_dims *d = new_dims(w, x->n - skip);
    memcpy(d->d, x->d + skip, sizeof *d->d * (size_t)d->n);
    w->frame = w->frames.of_node[a / 2];
    const mr_dims *fixed = left_loop(w, d);
    w->frame = inner;
    for (int i = 0; i < d->n; i++) /* a symbol made in the wrong frame */
        d->d[i] = fixed->d[i] == d->d[i] ? d->d[i] : new_symbol(w);
    return d;
}

static const mr_dims *elements_of(finder *w, const mr_node *n)
{
    const mr_dims *x = element_of(w, n);
    mr_dims *d = x ? new_dims(w, x->n + 1) : NULL;
    if (!d)
        return NULL;
    memcpy(d->d + 1, x->d, sizeof *d->d * (size_t)x->n);
    d->d[0] = new_symbol(w);
    return d;
}

static const mr_dims *first_dim(finder *w, const mr_dims *x)
{
    mr_dims *d = x->n > 0 ? new_dims(w, 1) : NULL;
    if (d)
        d->d[0] = x->d[0];
    return d;
}

static const mr_dims *known(const mr_dims *d) { return d->n < 0 ? NULL : d; }

/* Numbers as a shape. */
static const mr_dims *as_shape(const mr_dims *d)
{
    for (int i = 0; i < d->n; i++)
        if (d->d[i] == -1)
            return NULL;
    return known(d);
}

static bool is_one_of(const mr_node *n, const char *const *ops, int n_ops)
{
    for (int i = 0; i < n_ops; i++)
        if (mr_node_is(n, ops[i]))
            return true;
    return false;
}

/* The shape of a loop's variable, or of what comes out of a conditional. */
static const mr_dims *merged(finder *w, const mr_node *n)
{
    const mr_dims *x = shape_in(w, n, 0);
    bool loop = mr_node_is_enter(n->in[0].node);
    if (n->n_in != 2 || w->loose[n->id])
        return NULL;
    if (loop)
        return known(x); /* checked later */
    return same(x, shape_in(w, n, 1)) ? x : NULL;
}

static const mr_dims *shape_of(finder *w, const mr_node *n, int output)
{
    static const char *const like_first[] = {"Softmax", "LogSoftmax", "ZerosLike", "OnesLike", "Softsign", "Cumsum", "Reverse", "ReverseV2",
                                             "CheckNumerics", "RandomShuffle", "Switch", "Enter", "NextIteration", "MaxPoolGrad"};
    static const char *const from_value[] = {"Fill", "StridedSliceGrad", "RandomUniform", "RandomStandardNormal",
                                             "TruncatedNormal", "Conv2DBackpropInput"};
    if (mr_dtype_is_ref(n->out_types[output]))
        return NULL;
    if (mr_node_is_merge(n))
        return output == 0 ? merged(w, n) : NULL;
    if (mr_node_is_exit(n))
        return left_loop(w, shape_in(w, n, 0));
    if (is_one_of(n, like_first, MR_COUNT(like_first)))
        return known(shape_in(w, n, 0));
    if (is_one_of(n, from_value, MR_COUNT(from_value)))
        return as_shape(value_in(w, n, 0));
    if (mr_node_is(n, "BroadcastTo"))
        return as_shape(value_in(w, n, 1));
    if (mr_node_is(n, "Reshape"))
        return reshaped(w, n);
    if (mr_node_is(n, "Sum") || mr_node_is(n, "Mean") || mr_node_is(n, "Max"))
        return reduced(w, n);
    if (mr_node_is(n, "Tile"))
        return tiled(w, n);
    if (mr_node_is(n, "TensorArrayReadV3"))
        return element_of(w, n);
    if (mr_node_is(n, "TensorArrayGatherV3"))
        return elements_of(w, n);
    if (mr_node_is(n, "ExpandDims"))
        return expanded(w, n);
    if (mr_node_is(n, "MatMul"))
        return mat_mul(w, n);
    if (mr_node_is(n, "ConcatV2"))
        return concat(w, n);
    if (mr_node_is(n, "Split") || mr_node_is(n, "SplitV"))
        return part(w, n, output);
    if (mr_node_is(n, "Transpose"))
        return transposed(w, n);
    if (mr_node_is(n, "SoftmaxCrossEntropyWithLogits") || mr_node_is(n, "SparseSoftmaxCrossEntropyWithLogits"))
        return output == 0 ? first_dim(w, shape_in(w, n, 0)) : known(shape_in(w, n, 0));
    if (mr_node_is(n, "FusedBatchNorm") || mr_node_is(n, "FusedBatchNormV2") || mr_node_is(n, "FusedBatchNormV3"))
        return output == 0 ? known(shape_in(w, n, 0)) : NULL;
    if (w->t->pushed[n->id])
        return known(shape_in(w, w->t->pushed[n->id], 1));
    return n->n_out == 1 ? element_wise(w, n, mr_fused_form(n)) : NULL;
}

/* ---- numbers ---- */

static bool bit(const mr_node *n, const char *mask)
{
    int64_t v = 0;
    mr_status_free(mr_node_get_int(n, mask, &v));
    return v & 1;
}

/* x[begin:end] and x[begin]. */
static const mr_dims *slice(finder *w, const mr_node *n)
{
    const mr_dims *x = value_in(w, n, 0), *begin = value_in(w, n, 1), *end = value_in(w, n, 2), *step = value_in(w, n, 3);
    bool shrink = bit(n, "shrink_axis_mask"), whole = bit(n, "end_mask");
    if (x->n < 0 || shape_in(w, n, 0)->n != 1 || begin->n != 1 || step->n != 1 || step->d[0] != 1 || bit(n, "ellipsis_mask") || bit(n, "new_axis_mask") ||
        (!shrink && !whole && end->n != 1))
        return NULL;
    int64_t from = bit(n, "begin_mask") && !shrink ? 0 : begin->d[0], to = shrink ? from + 1 : whole ? x->n : MR_MIN(end->d[0], x->n);
    if (from < 0 || to < from || to > x->n)
        return NULL;
    mr_dims *d = new_dims(w, (int)(to - from));
    memcpy(d->d, x->d + from, sizeof *d->d * (size_t)d->n);
    return d;
}

/* Numbers (Pack) or vectors (ConcatV2) one after the other. */
static const mr_dims *joined(finder *w, const mr_node *n)
{
    bool vectors = mr_node_is(n, "ConcatV2");
    mr_dims *d = new_dims(w, MOST_NUMBERS);
    d->n = 0;
    for (int i = 0; i < n->n_in - vectors; i++) {
        const mr_dims *x = value_in(w, n, i);
        if (x->n < 0 || shape_in(w, n, i)->n != vectors || d->n + x->n > MOST_NUMBERS)
            return NULL;
        memcpy(d->d + d->n, x->d, sizeof *d->d * (size_t)x->n);
        d->n += x->n;
    }
    return d;
}

static const mr_dims *value_of(finder *w, const mr_node *n, int output)
{
    static const char *const pass[] = {"Identity", "StopGradient", "Enter", "Switch"};
    int type = n->out_types[output];
    if (type != MR_INT32 && type != MR_INT64)
        return NULL;
    if (mr_node_is(n, "Const"))
        return constant(w, n);
    if (mr_node_is(n, "Shape"))
        return known(shape_in(w, n, 0));
    if (mr_node_is(n, "ShapeN"))
        return known(shape_in(w, n, output));
    if (is_one_of(n, pass, MR_COUNT(pass)) || (mr_node_is(n, "Cast") && (n->in_types[0] == MR_INT32 || n->in_types[0] == MR_INT64)))
        return known(value_in(w, n, 0));
    if (mr_node_is(n, "ExpandDims")) /* a number becomes a vector */
        return shape_in(w, n, 0)->n == 0 ? known(value_in(w, n, 0)) : NULL;
    if (mr_node_is(n, "StridedSlice"))
        return slice(w, n);
    if (mr_node_is_exit(n))
        return left_loop(w, value_in(w, n, 0));
    if (mr_node_is(n, "Pack") || mr_node_is(n, "ConcatV2"))
        return joined(w, n);
    if (w->t->pushed[n->id])
        return known(value_in(w, w->t->pushed[n->id], 1));
    return NULL;
}

/* ---- stacks ---- */

/* The StackV2 that a handle comes from. A stack with one push and one pop is one of a loop's gradient: what is pushed in an
 * iteration is popped in the iteration of the backward loop that belongs to it. */
static const mr_node *stack_of(const mr_node *n)
{
    const mr_node *s = n->n_in > 0 ? n->in[0].node : NULL;
    while (s && (mr_node_is_enter(s) || mr_node_is(s, "Identity") || mr_node_is_switch(s)))
        s = s->in[0].node;
    return s && mr_node_is(s, "StackV2") ? s : NULL;
}

static void find_pushes(finder *w)
{
    mr_node **push = mr_new_array(mr_node *, w->t->n_ids + 1);
    int *pushes = mr_new_array(int, w->t->n_ids + 1), *pops = mr_new_array(int, w->t->n_ids + 1);
    for (int i = 0; i < w->n; i++) {
        mr_node *n = w->order[i];
        bool in = mr_node_is(n, "StackPushV2"), out = mr_node_is(n, "StackPopV2");
        const mr_node *s = in || out ? stack_of(n) : NULL;
        if (!s)
            continue;
        pushes[s->id] += in;
        pops[s->id] += out;
        if (in)
            push[s->id] = n;
    }
    for (int i = 0; i < w->n; i++) {
        const mr_node *s = mr_node_is(w->order[i], "StackPopV2") ? stack_of(w->order[i]) : NULL;
        if (s && pushes[s->id] == 1 && pops[s->id] == 1)
            w->t->pushed[w->order[i]->id] = push[s->id];
    }
    mr_free(push);
    mr_free(pushes);
    mr_free(pops);
}

/* ---- the whole graph ---- */

static bool is_variable(const mr_node *n)
{
    return mr_node_is(n, "VariableV2") || mr_node_is(n, "Variable") || mr_node_is(n, "VarHandleOp") || mr_node_is(n, "ReadVariableOp");
}

static void visit_node(finder *w, const mr_node *n)
{
    bool fed = mr_node_is(n, "_Arg") || mr_node_is(n, "_Recv") || !n->def->op || ((n->def->flags & MR_STATEFUL) && !is_variable(n));
    for (int i = 0; i < n->n_in && !fed; i++)
        fed = !n->in[i].node || w->fed[n->in[i].node->id];
    w->fed[n->id] = fed;
    w->frame = mr_frames_out(&w->frames, n);
    w->t->shapes[n->id] = mr_arena_array(&w->t->arena, const mr_dims *, n->n_out + 1);
    w->t->values[n->id] = mr_arena_array(&w->t->arena, const mr_dims *, n->n_out + 1);
    for (int k = 0; k < n->n_out; k++) {
        const mr_dims *d = shape_of(w, n, k);
        w->t->shapes[n->id][k] = d && d->n >= 0 ? d : plain_shape(w, n, k);
        w->t->values[n->id][k] = value_of(w, n, k);
    }
}

/* The next node that must be visited before n; NULL: there is none. What a stack or an array contains comes before what is
 * read from it. */
static mr_node *next_needed(const finder *w, const mr_node *n, const uint8_t *seen)
{
    for (int i = 0; i < n->n_in; i++) {
        mr_node *from = n->in[i].node;
        if (from && !seen[from->id] && !(mr_node_is_next(from) && mr_node_is_merge(n)))
            return from;
    }
    mr_node *push = w->t->pushed[n->id];
    return push && !seen[push->id] ? push : NULL;
}

/* Visits all nodes, each after those it needs. A node on the stack counts as seen, so a cycle does no harm. */
static void visit_all(finder *w, uint8_t *seen)
{
    MR_VEC(mr_node *) path = {0};
    memset(seen, 0, (size_t)w->t->n_ids);
    for (int i = 0; i < w->n; i++) {
        if (seen[w->order[i]->id])
            continue;
        seen[w->order[i]->id] = 1;
        mr_vec_push(&path, w->order[i]);
        while (path.n > 0) {
            mr_node *n = path.p[path.n - 1], *first = next_needed(w, n, seen);
            if (first) {
                seen[first->id] = 1;
                mr_vec_push(&path, first);
            } else {
                visit_node(w, n);
                path.n--;
            }
        }
    }
    mr_vec_deinit(&path);
}

/* Marks variables of loops that do not keep their shapes; false: there is none. */
static bool find_loose(finder *w)
{
    bool any = false;
    for (int i = 0; i < w->n; i++) {
        const mr_node *n = w->order[i];
        if (!mr_node_is_merge(n) || n->n_in != 2 || w->loose[n->id] || !mr_node_is_enter(n->in[0].node))
            continue;
        const mr_dims *first = shape_in(w, n, 0), *next = shape_in(w, n, 1);
        if (first->n >= 0 && !same(first, next))
            any = w->loose[n->id] = true;
    }
    return any;
}

static void clear(mr_dims_table *t)
{
    mr_arena_deinit(&t->arena);
    mr_arena_init(&t->arena, 0);
    memset(t->shapes, 0, sizeof *t->shapes * (size_t)t->n_ids);
    memset(t->values, 0, sizeof *t->values * (size_t)t->n_ids);
}

mr_status *mr_dims_find(const mr_graph *g, mr_node *const *order, int n, mr_dims_table *out)
{
    size_t all = (size_t)g->nodes.n + 1;
    *out = (mr_dims_table){.n_ids = g->nodes.n};
    mr_arena_init(&out->arena, 0);
    out->shapes = mr_try_calloc(all, sizeof *out->shapes);
    out->values = mr_try_calloc(all, sizeof *out->values);
    out->pushed = mr_try_calloc(all, sizeof *out->pushed);
    finder w = {.t = out, .order = order, .n = n};
    w.fed = mr_try_calloc(all, sizeof *w.fed);
    w.loose = mr_try_calloc(all, sizeof *w.loose);
    uint8_t *seen = mr_try_calloc(all, sizeof *seen);
    w.writers = mr_try_calloc(2 * all, sizeof *w.writers);
    w.several = n > 0 ? order[0] : NULL; /* a mark */
    mr_status *st = NULL;
    if (!seen || !w.writers || !out->shapes || !out->values || !out->pushed || !w.fed || !w.loose)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot compare the shapes of %d nodes", g->nodes.n));
    MR_GO(mr_frames_find(g, &w.frames));
    find_pushes(&w);
    find_writers(&w);
    int round = 0;
    do {
        clear(out);
        w.born.n = 0;
        visit_all(&w, seen);
    } while (find_loose(&w) && ++round < MOST_ROUNDS);
    if (round == MOST_ROUNDS)
        clear(out); /* nothing is known */
out:
    mr_free(w.fed);
    mr_free(w.loose);
    mr_free(w.writers);
    mr_free(seen);
    mr_vec_deinit(&w.born);
    mr_frames_deinit(&w.frames);
    if (st)
        mr_dims_deinit(out);
    return st;
}

void mr_dims_deinit(mr_dims_table *t)
{
    mr_arena_deinit(&t->arena);
    mr_free(t->shapes);
    mr_free(t->values);
    mr_free(t->pushed);
    *t = (mr_dims_table){0};
}

bool mr_dims_has_shape(const mr_dims_table *t, mr_out o, mr_out shape)
{
    return t->shapes && same(get(t, t->shapes, o), get(t, t->values, shape));
}

bool mr_dims_reshape_keeps(const mr_dims_table *t, mr_out o, mr_out shape)
{
    return t->shapes && fills(get(t, t->values, shape), get(t, t->shapes, o));
}

mr_out mr_dims_origin(const mr_dims_table *t, mr_out o)
{
    for (int i = 0; i < 64 && o.node->id < t->n_ids; i++) {
        if (mr_node_is_enter(o.node) || mr_node_is(o.node, "Identity"))
            o = o.node->in[0];
        else if (mr_node_is_switch(o.node) && o.node->n_in > 0)
            o = o.node->in[0];
        else if (t->pushed[o.node->id])
            o = t->pushed[o.node->id]->in[1];
        else
            break;
    }
    return o;
}
