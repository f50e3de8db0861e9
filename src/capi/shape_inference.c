/* capi/shape_inference.c -- gives a client's shape function its context; and TF_Shape.
 *
 * The context is the mr_infer of ours.  A handle holds a pointer to a shape, which is immutable and
 * lives in the arena of the graph: so handles may be copied and overwritten at will. */
#include "capi/op_definition.h"

#include "graph/infer.h"
#include "tensorflow/c/tf_shape.h"

struct TF_ShapeHandle {
    const mr_pshape *s;
};

struct TF_DimensionHandle {
    int64_t size; /* -1: unknown */
};

static mr_infer *infer_of(TF_ShapeInferenceContext *ctx) { return (mr_infer *)(void *)ctx; }

mr_status *mr_capi_infer(mr_infer *c, mr_capi_shape_fn *fn)
{
    TF_Status *status = TF_NewStatus();
    fn((TF_ShapeInferenceContext *)(void *)c, status);
    mr_status *st = mr_capi_status_copy(status);
    TF_DeleteStatus(status);
    return st;
}

/* ---- handles ---- */

static TF_ShapeHandle *new_handle(const mr_pshape *s)
{
    TF_ShapeHandle *h = mr_new(TF_ShapeHandle);
    h->s = s;
    return h;
}

TF_ShapeHandle *TF_NewShapeHandle(void) { return new_handle(&mr_pshape_unknown); }
void TF_DeleteShapeHandle(TF_ShapeHandle *handle) { mr_free(handle); }

TF_DimensionHandle *TF_NewDimensionHandle(void)
{
    TF_DimensionHandle *h = mr_new(TF_DimensionHandle);
    h->size = -1;
    return h;
}

void TF_DeleteDimensionHandle(TF_DimensionHandle *handle) { mr_free(handle); }

int TF_DimensionHandleValueKnown(TF_DimensionHandle *dim_handle)
{
    return dim_handle && dim_handle->size >= 0;
}

int64_t TF_DimensionHandleValue(TF_DimensionHandle *dim_handle)
{
    return dim_handle ? dim_handle->size : -1;
}

/* ---- inputs, outputs, attrs ---- */

int64_t TF_ShapeInferenceContextNumInputs(TF_ShapeInferenceContext *ctx) { return infer_of(ctx)->n_in; }

void TF_ShapeInferenceContextGetInput(TF_ShapeInferenceContext *ctx, int i, TF_ShapeHandle *handle,
                                      TF_Status *status)
{
    const mr_infer *c = infer_of(ctx);
    mr_status *st = NULL;
    if (i < 0 || i >= c->n_in)
        st = mr_invalid("input index out of range");
    else if (handle)
        handle->s = c->in[i];
    mr_capi_set_status(status, st);
}

void TF_ShapeInferenceContextSetOutput(TF_ShapeInferenceContext *ctx, int i, TF_ShapeHandle *handle,
                                       TF_Status *status)
{
    mr_infer *c = infer_of(ctx);
    mr_status *st = NULL;
    if (i < 0 || i >= c->n_out || !handle)
        st = mr_invalid("output index out of range");
    else
        c->out[i] = handle->s;
    mr_capi_set_status(status, st);
}

void TF_ShapeInferenceContextSetUnknownShape(TF_ShapeInferenceContext *ctx, TF_Status *status)
{
    mr_infer *c = infer_of(ctx);
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = &mr_pshape_unknown;
    mr_capi_set_status(status, NULL);
}

void TF_ShapeInferenceContext_GetAttrType(TF_ShapeInferenceContext *ctx, const char *attr_name,
                                          TF_DataType *val, TF_Status *status)
{
    mr_dtype t;
    mr_status *st = attr_name ? mr_node_get_type(infer_of(ctx)->node, attr_name, &t)
                              : mr_invalid("attr_name is NULL");
    if (!st)
        *val = (TF_DataType)t;
    mr_capi_set_status(status, st);
}

/* ---- making shapes ---- */

TF_ShapeHandle *TF_ShapeInferenceContextScalar(TF_ShapeInferenceContext *ctx)
{
    (void)ctx;
    return new_handle(&mr_pshape_scalar);
}

TF_ShapeHandle *TF_ShapeInferenceContextVectorFromSize(TF_ShapeInferenceContext *ctx, size_t size)
{
    int64_t n = size > INT64_MAX ? -1 : (int64_t)size;
    return new_handle(mr_pshape_vector(infer_of(ctx)->arena, n));
}

/* ---- looking into shapes ---- */

int64_t TF_ShapeInferenceContextRank(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *handle)
{
    (void)ctx;
    return handle ? handle->s->rank : -1;
}

int TF_ShapeInferenceContextRankKnown(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *handle)
{
    (void)ctx;
    return handle && handle->s->rank >= 0;
}

void TF_ShapeInferenceContextDim(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *shape_handle,
                                 int64_t i, TF_DimensionHandle *result)
{
    (void)ctx;
    if (!shape_handle || !result)
        return;
    const mr_pshape *s = shape_handle->s;
    int64_t at = i < 0 ? i + s->rank : i;
    result->size = at >= 0 && at < s->rank ? s->dims[at] : -1;
}

/* ---- checks ---- */

typedef mr_status *rank_check(mr_infer *c, const mr_pshape *s, int rank, const mr_pshape **out);

static void with_rank(TF_ShapeInferenceContext *ctx, const TF_ShapeHandle *handle, int64_t rank,
                      TF_ShapeHandle *result, rank_check *check, TF_Status *status)
{
    const mr_pshape *s = NULL;
    mr_status *st = NULL;
    if (!handle || !result)
        st = mr_invalid("A shape handle is NULL");
    else if (rank < 0 || rank > MR_MAX_RANK)
        st = mr_invalid("Rank must be between 0 and %d, but is %lld", MR_MAX_RANK, (long long)rank);
    else
        st = check(infer_of(ctx), handle->s, (int)rank, &s);
    if (!st)
        result->s = s;
    mr_capi_set_status(status, st);
}

void TF_ShapeInferenceContextWithRank(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *handle,
                                      int64_t rank, TF_ShapeHandle *result, TF_Status *status)
{
    with_rank(ctx, handle, rank, result, mr_infer_rank, status);
}

void TF_ShapeInferenceContextWithRankAtLeast(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *handle,
                                             int64_t rank, TF_ShapeHandle *result,
                                             TF_Status *status)
{
    with_rank(ctx, handle, rank, result, mr_infer_rank_at_least, status);
}

void TF_ShapeInferenceContextWithRankAtMost(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *handle,
                                            int64_t rank, TF_ShapeHandle *result, TF_Status *status)
{
    with_rank(ctx, handle, rank, result, mr_infer_rank_at_most, status);
}

/* ---- parts and sums ---- */

static mr_status *make_subshape(mr_infer *c, const mr_pshape *s, int64_t start, int64_t end,
                                const mr_pshape **out)
{
    *out = &mr_pshape_unknown;
    if (s->rank < 0)
        return NULL;
    int64_t from = start < 0 ? start + s->rank : MR_MIN(start, s->rank);
    int64_t to = end < 0 ? end + s->rank : MR_MIN(end, s->rank);
    if (from < 0 || to < 0)
        return mr_invalid("Subshape %s out of bounds: %lld, for shape with rank %d",
                          from < 0 ? "start" : "end", (long long)(from < 0 ? start : end), s->rank);
    if (from > to)
        return mr_invalid("Subshape must have computed start <= end, but is %lld and %lld "
                          "(computed from start %lld and end %lld over shape with rank %d)",
                          (long long)from, (long long)to, (long long)start, (long long)end,
                          s->rank);
    *out = mr_pshape_of(c->arena, (int)(to - from), s->dims + from);
    return NULL;
}

void TF_ShapeInferenceContextSubshape(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *shape_handle,
                                      int64_t start, int64_t end, TF_ShapeHandle *result,
                                      TF_Status *status)
{
    const mr_pshape *s = NULL;
    mr_status *st = shape_handle && result ? make_subshape(infer_of(ctx), shape_handle->s, start, end, &s)
                                           : mr_invalid("A shape handle is NULL");
    if (!st)
        result->s = s;
    mr_capi_set_status(status, st);
}

void TF_ShapeInferenceContextConcatenateShapes(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *first,
                                               TF_ShapeHandle *second, TF_ShapeHandle *result,
                                               TF_Status *status)
{
    mr_status *st = first && second && result ? NULL : mr_invalid("A shape handle is NULL");
    if (!st)
        result->s = mr_infer_concat(infer_of(ctx), first->s, second->s);
    mr_capi_set_status(status, st);
}

/* ---- TF_Shape: only ever of unknown rank, since nothing in the C API fills one in ---- */

struct TF_Shape {
    int rank;
};

TF_Shape *TF_NewShape(void)
{
    TF_Shape *s = mr_new(TF_Shape);
    s->rank = -1;
    return s;
}

int TF_ShapeDims(const TF_Shape *shape) { return shape ? shape->rank : -1; }

int64_t TF_ShapeDimSize(const TF_Shape *shape, int d)
{
    (void)shape, (void)d;
    return -1;
}

void TF_DeleteShape(TF_Shape *shape) { mr_free(shape); }
