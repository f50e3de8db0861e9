/* ops/segment/unsorted.c -- UnsortedSegmentSum, Prod, Min, Max: combine rows by segment ids in any order. */
#include "ops/array/index.h"
#include "ops/segment/segment.h"

static mr_status *check_ids(const mr_tensor *data, const mr_tensor *ids, int64_t segments)
{
    if (segments < 0)
        return mr_invalid("Input num_segments == %lld must not be negative.", (long long)segments);
    if (ids->rank > data->rank || !mr_shape_eq(ids->rank, ids->dims, ids->rank, data->dims))
        return mr_invalid("data.shape = %s does not start with segment_ids.shape = %s",
                          MR_TENSOR_SHAPE(data), MR_TENSOR_SHAPE(ids));
    for (int64_t i = 0; i < ids->n; i++)
        if (mr_segment_id(ids, i) >= segments)
            return mr_invalid("segment_ids%s = %lld is out of range [0, %lld)", MR_INDEX_PLACE(ids->rank, ids->dims, i),
                              (long long)mr_segment_id(ids, i), (long long)segments);
    return NULL;
}

static mr_status *join_segments(mr_run *r, mr_update_kind kind, mr_segment_empty empty)
{
    const mr_tensor *data = mr_in(r, 0), *ids = mr_in(r, 1);
    mr_tensor *out;
    int64_t segments;
    MR_TRY(mr_in_scalar_int(r, 2, "num_segments", &segments));
    MR_TRY(check_ids(data, ids, segments));
    MR_TRY(mr_segments_output(r, 0, data, ids->rank, segments, &out));
    return mr_segments_join(
        r, &(mr_segments){.kind = kind, .empty = empty, .data = data, .n = ids->n, .ids = ids},
        out);
}

static mr_status *segment_sum(mr_run *r) { return join_segments(r, MR_UPDATE_ADD, MR_EMPTY_ZERO); }
static mr_status *segment_prod(mr_run *r) { return join_segments(r, MR_UPDATE_MUL, MR_EMPTY_ONE); }
static mr_status *segment_min(mr_run *r) { return join_segments(r, MR_UPDATE_MIN, MR_EMPTY_HIGHEST); }
static mr_status *segment_max(mr_run *r) { return join_segments(r, MR_UPDATE_MAX, MR_EMPTY_LOWEST); }

static mr_status *segment_shape(mr_infer *c)
{
    const mr_pshape *data = c->in[0], *ids = c->in[1], *n_shape;
    int64_t segments = -1;
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &n_shape));
    bool known = mr_infer_int(c, 2, &segments);
    if (known && segments < 0)
        return mr_invalid("Dimension size, given by scalar input %d, must be non-negative but is %lld", 2,
                          (long long)segments);
    if (data->rank < 0 || ids->rank < 0)
        return NULL;
    MR_TRY(mr_infer_rank_at_least(c, data, ids->rank, &data));
    for (int d = 0; d < ids->rank; d++) {
        int64_t same;
        MR_TRY(mr_infer_merge_dim(data->dims[d], ids->dims[d], &same));
    }
    c->out[0] = mr_infer_concat(c, mr_pshape_vector(c->arena, known ? segments : -1),
                                mr_infer_sub(c, data, ids->rank, MR_MAX_RANK));
    return NULL;
}

/* ---- gradients ---- */

/* v for rows that belong to a segment, otherwise zero. */
static mr_out where_used(mr_grad *g, mr_out v)
{
    mr_out ids = mr_xi(g, 1);
    mr_out used =
        mr_segment_mask(g, mr_emit(g->s, "GreaterEqual", ids, mr_scalar_like(g, 0, ids)), v);
    return mr_emit(g->s, "SelectV2", used, v, mr_scalar_like(g, 0, v));
}

/* Each row gets the gradient of its segment; rows that were dropped get zero. */
static void sum_backward(mr_grad *g)
{
    mr_dxi(g, 0, where_used(g, mr_segment_spread(g, mr_dyi(g, 0), mr_xi(g, 1))));
}

/* The rows that attain the extreme share its gradient equally. */
static void extreme_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out x = mr_xi(g, 0), ids = mr_xi(g, 1);
    mr_out chosen =
        mr_cast(g, mr_emit(s, "Equal", x, mr_segment_spread(g, mr_yi(g, 0), ids)), mr_out_type(x));
    chosen = where_used(g, chosen);
    mr_out count = mr_emit(s, "UnsortedSegmentSum", chosen, ids, mr_xi(g, 2));
    mr_out part = mr_emit(s, "DivNoNan", mr_dyi(g, 0), count);
    mr_dxi(g, 0, mr_emit(s, "Mul", chosen, mr_segment_spread(g, part, ids)));
}

/* The derivative by an element is the product of the others.  For the only zero of a segment, that is the
 * product without it; if there are two zeros, it is 0; otherwise it is the product divided by the element. */
static void prod_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out x = mr_xi(g, 0), ids = mr_xi(g, 1), n = mr_xi(g, 2), dy = mr_dyi(g, 0);
    mr_out is_zero = mr_emit(s, "Equal", x, mr_scalar_like(g, 0, x));
    mr_out zeros = mr_emit(s, "UnsortedSegmentSum", mr_cast(g, is_zero, MR_INT32), ids, n);
    mr_out many = mr_emit(s, "Greater", zeros, mr_const_i32(s, 1));
    mr_out rest = mr_emit(s, "SelectV2", is_zero, mr_scalar_like(g, 1, x), x);
    mr_out without = mr_segment_spread(g, mr_emit(s, "UnsortedSegmentProd", rest, ids, n), ids);
    mr_out quotient = mr_emit(s, "RealDiv", mr_segment_spread(g, mr_yi(g, 0), ids), rest);
    mr_out partial = mr_conj(g, mr_emit(s, "SelectV2", is_zero, without, quotient));
    dy = mr_emit(s, "SelectV2", many, mr_scalar_like(g, 0, dy), dy);
    mr_dxi(g, 0, where_used(g, mr_emit(s, "Mul", mr_segment_spread(g, dy, ids), partial)));
}

/* ---- ops ---- */

#define UNSORTED(types)                                                                             \
    .sig   = "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T",             \
    .attrs = "T: " types "; Tindices: {int32, int64}; Tnumsegments: {int32, int64} = DT_INT32",     \
    .shape = segment_shape

MR_OP(UnsortedSegmentSum,
    .doc      = "sums of the rows of each segment; rows of negative segments are dropped",
    UNSORTED("numbertype"),
    .grad     = sum_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_sum, MR_NUMBERS) MR_CPU_ONE(segment_sum, MR_CODES)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4], [5, 6]], int32[0, 2, 0], 3 -> [[6, 8], [0, 0], [3, 4]]",
        "[[1, 2], [3, 4]], int64[[0, 1], [1, 1]], 2 -> [1, 9]",
        "[1, 2, 3], int32[0, -1, 1], 2 -> [1, 3]",
        "[1+1i, 2-1i], int32[0, 0], 1 -> [3]",
        "T=qint8: [1, 2, -3], int32[0, 1, 1], 2 -> [1, -1]", "[7], int32 shape(0), 2 -> !INVALID_ARGUMENT",
        "[[7, 8]], int32[1], 3 -> [[0, 0], [7, 8], [0, 0]]", "7, int32 1, 2 -> [0, 7]",
        "shape(0,2), int32 shape(0), 1 -> [[0, 0]]",
        "T=float: [1, 2], int32[0, 5], 2 -> !INVALID_ARGUMENT segment_ids[1] = 5 is out of range "
        "[0, 2)",
        "T=float: [1, 2], int32[0, 1], -1 -> !INVALID_ARGUMENT"));

MR_OP(UnsortedSegmentProd,
    .doc      = "products of the rows of each segment, 1 where there are none; rows of negative segments are dropped",
    UNSORTED("numbertype"),
    .grad     = prod_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_prod, MR_NUMBERS) MR_CPU_ONE(segment_prod, MR_CODES)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4], [5, 6]], int32[0, 2, 0], 3 -> [[5, 12], [1, 1], [3, 4]]",
        "[2, 0, 3, 4], int64[0, 0, 1, -1], 2 -> [0, 3]", "[0, 0, 3], int32[0, 0, 0], 1 -> [0]",
        "[1+1i, 2i], int32[0, 0], 1 -> [-2+2i]", "shape(0), int32 shape(0), 2 -> [1, 1]",
        "T=float: [1], int32[1], 1 -> !INVALID_ARGUMENT segment_ids[0] = 1 is out of range [0, 1)",
        "T=float: [[1, 2]], int32[[0, 7]], 2 -> !INVALID_ARGUMENT segment_ids[0,1] = 7 is out of range [0, 2)"));

MR_OP(UnsortedSegmentMin,
    .doc      = "smallest of the rows of each segment, the highest number where there are none",
    UNSORTED("realnumbertype"),
    .grad     = extreme_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_min, MR_REALS)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4], [5, 0]], int32[0, 1, 0], 2 -> [[1, 0], [3, 4]]", "[3, 1, 2], int64[0, 0, -1], 1 -> [1]",
        "T=int8: [1], int32[0], 2 -> [1, 127]", "T=half: shape(0), int32 shape(0), 1 -> [65504]",
        "nograd: [nan, 1], int32[0, 0], 1 -> [nan]"));

MR_OP(UnsortedSegmentMax,
    .doc      = "largest of the rows of each segment, the lowest number where there are none",
    UNSORTED("realnumbertype"),
    .grad     = extreme_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_max, MR_REALS)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4], [5, 0]], int32[0, 1, 0], 2 -> [[5, 2], [3, 4]]", "[3, 1, 2], int64[0, 0, -1], 1 -> [3]",
        "T=int32: [1], int32[0], 2 -> [1, -2147483648]", "T=half: shape(0), int32 shape(0), 1 -> [-65504]",
        "T=uint8: shape(0), int32 shape(0), 1 -> [0]",
        "T=float: [1, 2], int32[0, 2], 2 -> !INVALID_ARGUMENT segment_ids[1] = 2 is out of range [0, 2)"));
