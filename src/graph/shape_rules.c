/* graph/shape_rules.c -- shape functions that many ops share. */
#include "graph/infer.h"

mr_status *mr_shape_unknown(mr_infer *c)
{
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = &mr_pshape_unknown;
    return NULL;
}

mr_status *mr_shape_none(mr_infer *c)
{
    (void)c;
    return NULL;
}

mr_status *mr_shape_same(mr_infer *c)
{
    MR_ENSURE(c->n_in > 0);
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = c->in[0];
    return NULL;
}

mr_status *mr_shape_scalar(mr_infer *c)
{
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = &mr_pshape_scalar;
    return NULL;
}

mr_status *mr_shape_merge_all(mr_infer *c)
{
    MR_ENSURE(c->n_in > 0);
    const mr_pshape *s = c->in[c->n_in - 1];
    for (int i = c->n_in - 2; i >= 0; i--) { /* from the last one on, in the order of TensorFlow's errors */
        mr_status *st = mr_infer_merge(c, c->in[i], s, &s);
        if (st && c->node->def->in[0].number_attr)
            return mr_status_append(st, "\n\tFrom merging shape %d with other shapes.", i);
        MR_TRY(st);
    }
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = s;
    return NULL;
}

/* One dimension of a broadcast. An unknown one is 1 or equals the other, so the other one decides unless it is 1
 * itself. False if they are incompatible. */
static bool broadcast_dim(int64_t a, int64_t b, int64_t *out)
{
    if (a == 1 || (a < 0 && b != 1))
        *out = b;
    else if (b == 1 || b < 0 || a == b)
        *out = a;
    else
        return false;
    return true;
}

mr_status *mr_infer_broadcast(mr_infer *c, const mr_pshape *a, const mr_pshape *b,
                              const mr_pshape **out)
{
    *out = &mr_pshape_unknown;
    if (a->rank < 0 || b->rank < 0)
        return NULL;
    if (mr_pshape_full(a) && mr_pshape_eq(a, b)) {
        *out = a;
        return NULL;
    }
    int rank = MR_MAX(a->rank, b->rank);
    mr_pshape *s = mr_pshape_new(c->arena, rank);
    for (int i = rank; i >= 1; i--) { /* from the left, in the order of TensorFlow's errors; missing dimensions count as
                                       * 1 */
        int64_t da = i <= a->rank ? a->dims[a->rank - i] : 1,
                db = i <= b->rank ? b->dims[b->rank - i] : 1;
        if (!broadcast_dim(da, db, &s->dims[rank - i]))
            return mr_invalid("Dimensions must be equal, but are %lld and %lld", (long long)da,
                              (long long)db);
    }
    *out = s;
    return NULL;
}

mr_status *mr_shape_broadcast2(mr_infer *c)
{
    MR_ENSURE(c->n_in >= 2 && c->n_out >= 1);
    mr_status *st = mr_infer_broadcast(c, c->in[0], c->in[1], &c->out[0]);
    /* Equal and NotEqual may be set to return "different" instead of failing. */
    const mr_attr *strict = mr_node_attr(c->node, "incompatible_shape_error");
    if (st && strict && strict->kind == MR_ATTR_BOOL && !strict->b) {
        mr_status_free(st);
        st = NULL;
        c->out[0] = &mr_pshape_unknown;
    }
    for (int i = 1; i < c->n_out; i++)
        c->out[i] = c->out[0];
    return st;
}

mr_status *mr_shape_from_attr(mr_infer *c)
{
    MR_ENSURE(c->n_out >= 1);
    MR_TRY(mr_node_get_shape(c->node, "shape", &c->out[0]));
    /* Before producer version 22 a placeholder without a shape was written as one with a scalar's.
     */
    if (c->out[0]->rank == 0 && c->producer <= 21 && mr_node_is(c->node, "Placeholder"))
        c->out[0] = &mr_pshape_unknown;
    return NULL;
}

mr_status *mr_shape_from_input0(mr_infer *c)
{
    MR_ENSURE(c->n_in >= 1 && c->n_out >= 1);
    return mr_infer_shape_value(c, 0, &c->out[0]);
}

/* ---- reductions ---- */
/* Marks the axes named by a constant; those out of range are errors, duplicates are left to the
 * kernel. */
static mr_status *mark_axes(const mr_tensor *axes, int rank, bool *reduced)
{
    for (int64_t i = 0; i < axes->n; i++) {
        int64_t axis = mr_tensor_int_at(axes, i);
        if (axis < -rank || axis >= rank)
            return mr_invalid("Invalid reduction dimension %lld for input with %d dimensions",
                              (long long)axis, rank);
        reduced[axis < 0 ? axis + rank : axis] = true;
    }
    return NULL;
}

/* If the axes are not known, only keep_dims determines the rank. */
mr_status *mr_shape_reduction(mr_infer *c)
{
    MR_ENSURE(c->n_in >= 2 && c->n_out >= 1);
    const mr_pshape *x = c->in[0], *ignored;
    bool keep = false, reduced[MR_MAX_RANK] = {0};
    MR_TRY(mr_infer_rank_at_most(c, c->in[1], 1, &ignored));
    MR_TRY(mr_node_get_bool(c->node, "keep_dims", &keep));
    const mr_tensor *axes = mr_infer_const(c, 1);
    if (x->rank < 0 || (!axes && !keep))
        return NULL;
    if (!axes) {
        c->out[0] = mr_pshape_new(c->arena, x->rank);
        return NULL;
    }
    if (axes->dtype != MR_INT32 && axes->dtype != MR_INT64)
        return mr_invalid("reduction axes have type %s, not int32 or int64",
                          mr_dtype_name(axes->dtype));
    MR_TRY(mark_axes(axes, x->rank, reduced));
    int rank = 0;
    int64_t dims[MR_MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        if (!reduced[i] || keep)
            dims[rank++] = reduced[i] ? 1 : x->dims[i];
    c->out[0] = mr_pshape_of(c->arena, rank, dims);
    return NULL;
}

/* ---- windows ---- */
static mr_status *check_window(int64_t n, int64_t filter, int64_t dilation, int64_t stride)
{
    if (stride <= 0)
        return mr_invalid("Stride must be > 0, but got %lld", (long long)stride);
    if (dilation < 1)
        return mr_invalid("Dilation rate must be >= 1, but got %lld", (long long)dilation);
    if (filter == 0 || filter < -1 || n < -1)
        return mr_invalid("Window size must be > 0, but got %lld", (long long)filter);
    return NULL;
}

static mr_status *too_large(void) { return mr_invalid("Window or padding sizes are too large"); }

/* (span - extent + stride) / stride, which is 0 for a window that is just too large: only shape inference rejects
 * that. */
static mr_status *fitting_windows(int64_t span, int64_t extent, int64_t stride, bool infers, int64_t *out)
{
    int64_t room;
    if (infers)
        MR_TRY(mr_infer_subtract(span, extent, &room));
    if (__builtin_sub_overflow(span, extent, &room) || !mr_i64_add(room, stride, &room))
        return too_large();
    if (room / stride < 0)
        return mr_invalid("Computed output size would be negative: %lld [input_size: %lld, "
                          "effective_filter_size: "
                          "%lld, stride: %lld]",
                          (long long)(room / stride), (long long)span, (long long)extent,
                          (long long)stride);
    *out = room / stride;
    return NULL;
}

static mr_status *same_padding(int64_t n, int64_t extent, int64_t stride, int64_t *before,
                               int64_t *after, int64_t *out)
{
    int64_t size = n / stride + (n % stride != 0), covered;
    if (size > 0 &&
        (!mr_i64_mul(size - 1, stride, &covered) || !mr_i64_add(covered, extent, &covered)))
        return too_large();
    int64_t pad = size > 0 ? MR_MAX(0, covered - n) : 0;
    *before = pad / 2;
    *after = pad - pad / 2;
    *out = size;
    return NULL;
}

/* Both functions of graph/infer.h in one: `infers` is true for shape inference. */
static mr_status *window_size(int64_t n, int64_t filter, int64_t dilation, int64_t stride,
                              mr_padding padding, bool infers, int64_t *before, int64_t *after,
                              int64_t *out)
{
    int64_t extent = -1, span = n, ignored[2];
    before = before ? before : &ignored[0];
    after = after ? after : &ignored[1];
    MR_TRY(check_window(n, filter, dilation, stride));
    if (filter > 0 &&
        (!mr_i64_mul(filter - 1, dilation, &extent) || !mr_i64_add(extent, 1, &extent)))
        return too_large();
    if (padding == MR_PAD_EXPLICIT && (*before < 0 || *after < 0))
        return mr_invalid("Explicit padding must not be negative, but got %lld and %lld",
                          (long long)*before, (long long)*after);
    if (padding == MR_PAD_VALID)
        *before = *after = 0;
    *out = -1;
    if (padding == MR_PAD_SAME) {
        *before = *after = -1;
        if (n >= 0 && extent > 0)
            return same_padding(n, extent, stride, before, after, out);
        if (n >= 0)
            *out = n / stride + (n % stride != 0); /* the size does not depend on the window */
        return NULL;
    }
    if (n < 0 || extent < 0)
        return NULL;
    if (!mr_i64_add(span, *before, &span) || !mr_i64_add(span, *after, &span))
        return too_large();
    return fitting_windows(span, extent, stride, infers, out);
}

mr_status *mr_window_size(int64_t n, int64_t filter, int64_t dilation, int64_t stride,
                          mr_padding padding, int64_t *before, int64_t *after, int64_t *out)
{
    return window_size(n, filter, dilation, stride, padding, false, before, after, out);
}

mr_status *mr_infer_window(int64_t n, int64_t filter, int64_t dilation, int64_t stride,
                           mr_padding padding, int64_t before, int64_t after, int64_t *out)
{
    return window_size(n, filter, dilation, stride, padding, true, &before, &after, out);
}
