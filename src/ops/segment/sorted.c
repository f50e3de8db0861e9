/* ops/segment/sorted.c -- SegmentSum, Mean, Prod, Min, Max: combine rows by sorted segment ids; and the
 * V2 forms, whose number of segments is an input. */
#include "ops/segment/segment.h"

static mr_status *join_segments(mr_run *r, mr_segments s)
{
    mr_tensor *out;
    int64_t segments = -1;
    s.data = mr_in(r, 0);
    s.ids = mr_in(r, 1);
    s.n = s.ids->n;
    if (r->n_in == 3) {
        MR_TRY(mr_in_scalar_int(r, 2, "num_segments", &segments));
        if (segments < 0)
            return mr_invalid("Input num_segments == %lld must not be negative.",
                              (long long)segments);
    }
    if (s.data->rank < 1)
        return mr_invalid("Shape must be at least rank 1");
    if (s.ids->rank != 1)
        return mr_invalid("segment_ids should be a vector.");
    if (s.ids->n != s.data->dims[0])
        return mr_invalid("segment_ids should be the same size as dimension 0 of input.");
    MR_TRY(mr_segments_sorted(s.ids, &segments));
    MR_TRY(mr_segments_output(r, 0, s.data, 1, segments, &out));
    return mr_segments_join(r, &s, out);
}

static mr_status *segment_sum(mr_run *r) { return join_segments(r, (mr_segments){.kind = MR_UPDATE_ADD}); }
static mr_status *segment_mean(mr_run *r)
{
    return join_segments(r, (mr_segments){.kind = MR_UPDATE_ADD, .scale = MR_SEGMENT_MEAN});
}
static mr_status *segment_prod(mr_run *r)
{
    return join_segments(r, (mr_segments){.kind = MR_UPDATE_MUL, .empty = MR_EMPTY_ONE});
}
static mr_status *segment_min(mr_run *r) { return join_segments(r, (mr_segments){.kind = MR_UPDATE_MIN}); }
static mr_status *segment_max(mr_run *r) { return join_segments(r, (mr_segments){.kind = MR_UPDATE_MAX}); }
static mr_status *segment_min_v2(mr_run *r)
{
    return join_segments(r, (mr_segments){.kind = MR_UPDATE_MIN, .empty = MR_EMPTY_HIGHEST});
}
static mr_status *segment_max_v2(mr_run *r)
{
    return join_segments(r, (mr_segments){.kind = MR_UPDATE_MAX, .empty = MR_EMPTY_LOWEST});
}

static mr_status *segment_shape(mr_infer *c)
{
    const mr_pshape *data = NULL, *ids, *scalar;
    int64_t segments = -1;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &data));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &ids));
    if (c->n_in == 3) {
        MR_TRY(mr_infer_rank(c, c->in[2], 0, &scalar));
        if (mr_infer_int(c, 2, &segments) && segments < 0)
            return mr_invalid("Dimension size, given by scalar input %d, must be non-negative but is %lld", 2,
                              (long long)segments);
    }
    if (data->rank >= 0)
        c->out[0] = mr_infer_concat(c, mr_pshape_vector(c->arena, segments),
                                    mr_infer_sub(c, data, 1, MR_MAX_RANK));
    return NULL;
}

/* ---- gradients ---- */

static mr_out spread_to_rows(mr_grad *g, mr_out v)
{
    return mr_emit(g->s, "GatherV2", v, mr_xi(g, 1), mr_const_i32(g->s, 0));
}

static void sum_backward(mr_grad *g) { mr_dxi(g, 0, spread_to_rows(g, mr_dyi(g, 0))); }

/* Each row gets its share of the segment's gradient; the sum of ones is the number of rows. */
static void mean_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out dy = mr_dyi(g, 0), ids = mr_xi(g, 1);
    mr_out ones = mr_cast(g, mr_ones_like(g, ids), mr_out_type(dy));
    mr_out count = mr_emit(s, "SegmentSum", mr_segment_mask(g, ones, mr_xi(g, 0)), ids);
    mr_dxi(g, 0, spread_to_rows(g, mr_emit(s, "RealDiv", dy, count)));
}

/* The rows that attain the extreme share its gradient equally. */
static void extreme_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out x = mr_xi(g, 0);
    mr_out chosen = mr_cast(g, mr_emit(s, "Equal", x, spread_to_rows(g, mr_yi(g, 0))), mr_out_type(x));
    mr_out count = mr_emit(s, "SegmentSum", chosen, mr_xi(g, 1));
    mr_out part = mr_emit(s, "DivNoNan", mr_dyi(g, 0), count);
    mr_dxi(g, 0, mr_emit(s, "Mul", chosen, spread_to_rows(g, part)));
}

/* As in unsorted.c: the product of the other elements, with special cases for zeros. */
static void prod_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out x = mr_xi(g, 0), ids = mr_xi(g, 1), dy = mr_dyi(g, 0);
    mr_out is_zero = mr_emit(s, "Equal", x, mr_scalar_like(g, 0, x));
    mr_out zeros = mr_emit(s, "SegmentSum", mr_cast(g, is_zero, MR_INT32), ids);
    mr_out many = mr_emit(s, "Greater", zeros, mr_const_i32(s, 1));
    mr_out rest = mr_emit(s, "SelectV2", is_zero, mr_scalar_like(g, 1, x), x);
    mr_out without = spread_to_rows(g, mr_emit(s, "SegmentProd", rest, ids));
    mr_out quotient = mr_emit(s, "RealDiv", spread_to_rows(g, mr_yi(g, 0)), rest);
    mr_out partial = mr_conj(g, mr_emit(s, "SelectV2", is_zero, without, quotient));
    dy = mr_emit(s, "SelectV2", many, mr_scalar_like(g, 0, dy), dy);
    mr_dxi(g, 0, mr_emit(s, "Mul", spread_to_rows(g, dy), partial));
}

/* ---- ops ---- */

#define SORTED(types)                                                   \
    .sig   = "data: T, segment_ids: Tindices -> output: T",             \
    .attrs = "T: " types "; Tindices: {int32, int64}", .shape = segment_shape

MR_OP(SegmentSum,
    .doc      = "sums of the rows of each segment",
    SORTED("numbertype"),
    .grad     = sum_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_sum, MR_NUMBERS) MR_CPU_ONE(segment_sum, MR_CODES)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4], [5, 6]], int32[0, 0, 2] -> [[4, 6], [0, 0], [5, 6]]", "[1, 2, 3], int64[0, 1, 1] -> [1, 5]",
        "[1+1i, 2-1i], int32[0, 0] -> [3]", "shape(0,2), int32 shape(0) -> shape(0,2)", "T=qint8: [1, -3], int32[0, 0] -> [-2]",
        "fill(1, 3,600), int32[0, 0, 0] -> fill(3, 1,600)",
        "[1, 2], int32[1, 0] -> !INVALID_ARGUMENT segment ids are not increasing",
        "[1, 2], int32[-1, 0] -> !INVALID_ARGUMENT Segment id -1 out of range [0, 1), possibly because 'segment_ids' "
        "input is not sorted.",
        "[1, 2, 3], int32[0, 1, 0] -> !INVALID_ARGUMENT segment ids are not increasing",
        "[1, 2, 3, 4], int32[0, 1, 2, 0] -> !INVALID_ARGUMENT Segment id 1 out of range [0, 1), possibly because "
        "'segment_ids' input is not sorted.",
        "[1, 2], int32[0, -1] -> !INVALID_ARGUMENT segment ids must be >= 0",
        "[1, 2], int32[0] -> !INVALID_ARGUMENT segment_ids should be the same size as dimension 0 of input",
        "1, int32[0] -> !INVALID_ARGUMENT at least rank 1"));

MR_OP(SegmentMean,
    .doc      = "means of the rows of each segment",
    SORTED("numbertype"),
    .grad     = mean_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_mean, MR_NUMBERS) MR_CPU_ONE(segment_mean, MR_CODES)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4], [5, 6]], int32[0, 0, 2] -> [[2, 3], [0, 0], [5, 6]]", "[1, 3, 4], int64[0, 0, 1] -> [2, 4]",
        "[1i, 2], int32[0, 0] -> [1+0.5i]", "T=int32: [1, 2], int32[0, 0] -> [1]", "shape(0), int32 shape(0) -> shape(0)"));

MR_OP(SegmentProd,
    .doc      = "products of the rows of each segment; 1 where there are none",
    SORTED("numbertype"),
    .grad     = prod_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_prod, MR_NUMBERS) MR_CPU_ONE(segment_prod, MR_CODES)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4], [5, 6]], int32[0, 0, 2] -> [[3, 8], [1, 1], [5, 6]]", "[2, 0, 3], int64[0, 0, 1] -> [0, 3]",
        "[0, 0, 3], int32[0, 0, 0] -> [0]"));

MR_OP(SegmentMin,
    .doc      = "smallest of the rows of each segment; 0 where there are none",
    SORTED("realnumbertype"),
    .grad     = extreme_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_min, MR_REALS)),
    .examples = MR_EXAMPLES("[[1, 4], [3, 2], [5, 6]], int32[0, 0, 2] -> [[1, 2], [0, 0], [5, 6]]",
                            "[3, 1, 2], int64[0, 0, 1] -> [1, 2]", "nograd: [nan, 1], int32[0, 0] -> [nan]"));

MR_OP(SegmentMax,
    .doc      = "largest of the rows of each segment; 0 where there are none",
    SORTED("realnumbertype"),
    .grad     = extreme_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_max, MR_REALS)),
    .examples = MR_EXAMPLES("[[1, 4], [3, 2], [5, 6]], int32[0, 0, 2] -> [[3, 4], [0, 0], [5, 6]]",
                            "[3, 1, 2], int64[0, 0, 1] -> [3, 2]"));

/* TensorFlow's later forms: the number of segments is an input. */
#define ALL_NUMBERS                                                                                          \
    "{float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, " \
    "quint16, uint16, complex128, half, uint32, uint64}"
#define SORTED_V2(types)                                                                        \
    .sig   = "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T",         \
    .attrs = "T: " types "; Tindices: {int32, int64}; Tnumsegments: {int32, int64} = DT_INT32", \
    .shape = segment_shape

MR_OP(SegmentSumV2, .doc = "sums of the rows of each segment", SORTED_V2(ALL_NUMBERS),
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_sum, MR_NUMBERS) MR_CPU_ONE(segment_sum, MR_ALL_CODES)),
    .examples = MR_EXAMPLES("[[1, 2], [3, 4]], int32[1, 1], 3 -> [[0, 0], [4, 6], [0, 0]]", "[1], int64[0], 1 -> [1]",
                            "[1], int32[1], 1 -> !INVALID_ARGUMENT segment ids must be < num_segments",
                            "[1], int32[0], -1 -> !INVALID_ARGUMENT Dimension size, given by scalar input 2, must be "
                            "non-negative but is -1"));
MR_OP(SegmentProdV2, .doc = "products of the rows of each segment; 1 where there are none", SORTED_V2(ALL_NUMBERS),
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_prod, MR_NUMBERS) MR_CPU_ONE(segment_prod, MR_ALL_CODES)),
    .examples = MR_EXAMPLES("[2, 3], int32[1, 1], 3 -> [1, 6, 1]"));
MR_OP(SegmentMinV2, .doc = "smallest of the rows of each segment, the highest number where there are none",
    SORTED_V2("realnumbertype"),
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_min_v2, MR_REALS)),
    .examples = MR_EXAMPLES("[2, 3], int32[0, 0], 1 -> [2]", "T=int16: [2, 3], int32[1, 1], 2 -> [32767, 2]"));
MR_OP(SegmentMaxV2, .doc = "largest of the rows of each segment, the lowest number where there are none",
    SORTED_V2("realnumbertype"),
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_max_v2, MR_REALS)),
    .examples = MR_EXAMPLES("[2, 3], int32[0, 0], 1 -> [3]", "T=int16: [2, 3], int32[1, 1], 2 -> [-32768, 3]"));
