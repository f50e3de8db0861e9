/* ops/segment/sparse_segment.c -- SparseSegment*: combine chosen rows of a tensor by sorted segment ids,
 * and their gradients. */
#include <stdlib.h>

#include "ops/array/index.h"
#include "ops/segment/segment.h"
#include "run/scratch.h"

/* ---- forward ---- */

static mr_status *check_lists(const mr_tensor *data, const mr_tensor *indices, const mr_tensor *ids)
{
    if (data->rank < 1)
        return mr_invalid("Shape must be at least rank 1");
    if (indices->rank != 1)
        return mr_invalid("indices should be a vector.");
    if (ids->rank != 1)
        return mr_invalid("segment_ids should be a vector.");
    return indices->n == ids->n ? NULL
                                : mr_invalid("segment_ids and indices should have same size.");
}

static mr_status *join_segments(mr_run *r, mr_segment_scale scale)
{
    const mr_tensor *data = mr_in(r, 0), *indices = mr_in(r, 1), *ids = mr_in(r, 2);
    mr_tensor *out;
    int64_t segments = -1;
    if (r->n_in == 4) {
        MR_TRY(mr_in_scalar_int(r, 3, "num_segments", &segments));
        if (segments < 0)
            return mr_invalid("Input num_segments == %lld must not be negative.",
                              (long long)segments);
    }
    MR_TRY(check_lists(data, indices, ids));
    MR_TRY(mr_segments_sorted(ids, &segments));
    for (int64_t i = 0; i < indices->n; i++)
        if ((uint64_t)mr_segment_id(indices, i) >= (uint64_t)data->dims[0])
            return mr_invalid("Bad: indices[%lld] == %lld out of range [0, %lld)", (long long)i,
                              (long long)mr_segment_id(indices, i), (long long)data->dims[0]);
    MR_TRY(mr_segments_output(r, 0, data, 1, segments, &out));
    mr_segments s = {.kind = MR_UPDATE_ADD,
                     .scale = scale,
                     .data = data,
                     .n = ids->n,
                     .rows = indices,
                     .ids = ids};
    return mr_segments_join(r, &s, out);
}

static mr_status *segment_sum(mr_run *r) { return join_segments(r, MR_SEGMENT_PLAIN); }
static mr_status *segment_mean(mr_run *r) { return join_segments(r, MR_SEGMENT_MEAN); }
static mr_status *segment_sqrt_n(mr_run *r) { return join_segments(r, MR_SEGMENT_SQRT_N); }

static mr_status *check_vectors(mr_infer *c)
{
    const mr_pshape *indices = NULL, *ids = NULL, *ignored;
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &indices));
    MR_TRY(mr_infer_rank(c, c->in[2], 1, &ids));
    return mr_infer_merge(c, indices, ids, &ignored);
}

/* [n] + data[1:], where n is the value of input 3, if there is one. */
static mr_status *segment_shape(mr_infer *c)
{
    const mr_pshape *data = NULL, *scalar;
    int64_t n = -1;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &data));
    MR_TRY(check_vectors(c));
    if (c->n_in == 4) {
        MR_TRY(mr_infer_rank(c, c->in[3], 0, &scalar));
        if (mr_infer_int(c, 3, &n) && n < 0)
            return mr_invalid("Cannot specify a negative value for %s", c->node->def->in[3].name);
    }
    if (c->n_out == 2) {
        mr_infer_out_vector(c, 1, -1);
        n = -1;
    }
    if (data->rank >= 0)
        c->out[0] = mr_infer_concat(c, mr_pshape_vector(c->arena, n),
                                    mr_infer_sub(c, data, 1, MR_MAX_RANK));
    return NULL;
}

static void sparse_segment_backward(mr_grad *g, const char *op)
{
    mr_dxi(g, 0,
           mr_emit(g->s, op, mr_dyi(g, 0), mr_xi(g, 1), mr_xi(g, 2), mr_dim0(g, mr_xi(g, 0))));
}

static void sum_backward(mr_grad *g) { sparse_segment_backward(g, "SparseSegmentSumGrad"); }
static void mean_backward(mr_grad *g) { sparse_segment_backward(g, "SparseSegmentMeanGrad"); }
static void sqrt_n_backward(mr_grad *g) { sparse_segment_backward(g, "SparseSegmentSqrtNGrad"); }

#define INDEX_ATTRS "Tidx: {int32, int64} = DT_INT32; Tsegmentids: {int32, int64} = DT_INT32"
#define FLOAT_TYPES "T: {bfloat16, half, float, double}; "
#define FORWARD(types)                                                                          \
    .sig   = "data: T, indices: Tidx, segment_ids: Tsegmentids -> output: T",                   \
    .attrs = types INDEX_ATTRS, .shape = segment_shape
#define WITH_NUM(types)                                                                                          \
    .sig   = "data: T, indices: Tidx, segment_ids: Tsegmentids, num_segments: Tnumsegments -> output: T",       \
    .attrs = types "Tidx: {int32, int64} = DT_INT32; Tnumsegments: {int32, int64} = DT_INT32; "                 \
             "Tsegmentids: {int32, int64} = DT_INT32", .shape = segment_shape

MR_OP(SparseSegmentSum,
    .doc      = "sums of chosen rows by segment",
    FORWARD("T: realnumbertype; "),
    .grad     = sum_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_sum, MR_REALS)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4], [5, 6]], [0, 2, 2], [0, 0, 2] -> [[6, 8], [0, 0], [5, 6]]",
        "Tidx=int64 Tsegmentids=int64: [1, 2], [1, 1], [0, 0] -> [4]", "[1, 2], shape(0), shape(0) -> shape(0)",
        "[1, 2], [2], [0] -> !INVALID_ARGUMENT indices[0] == 2 out of range [0, 2)",
        "[1, 2], [0, 1], [1, 0] -> !INVALID_ARGUMENT segment ids are not increasing",
        "[1, 2], [0], [-1] -> !INVALID_ARGUMENT segment ids must be >= 0",
        "[1, 2], [0, 1], [0] -> !INVALID_ARGUMENT must be equal"));
MR_OP(SparseSegmentMean,
    .doc      = "means of chosen rows by segment",
    FORWARD(FLOAT_TYPES),
    .grad     = mean_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_mean, MR_FLOATS)),
    .examples = MR_EXAMPLES("[[1, 2], [3, 4], [5, 6]], [0, 2, 2], [0, 0, 2] -> [[3, 4], [0, 0], [5, 6]]",
                            "Tidx=int64 Tsegmentids=int64: [1, 2], [1, 0], [0, 0] -> [1.5]"));
MR_OP(SparseSegmentSqrtN,
    .doc      = "sums of chosen rows by segment, divided by the root of how many there are",
    FORWARD(FLOAT_TYPES),
    .grad     = sqrt_n_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_sqrt_n, MR_FLOATS)),
    .examples = MR_EXAMPLES("[[1, 2], [3, 4]], [0, 1, 0, 1], [0, 0, 0, 0] -> [[4, 6]]", "[1, 2], [1, 0], [0, 2] -> [2, 0, 1]",
                            "Tidx=int64 Tsegmentids=int64: [1, 2], [1, 1], [0, 0] -> [2.8284271]"));
MR_OP(SparseSegmentSumWithNumSegments,
    .doc      = "sums of chosen rows by segment, of which there are num_segments",
    WITH_NUM("T: realnumbertype; "),
    .grad     = sum_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_sum, MR_REALS)),
    .examples = MR_EXAMPLES("[[1, 2], [3, 4]], [0, 1], [0, 0], 2 -> [[4, 6], [0, 0]]", "[1, 2], shape(0), shape(0), 2 -> [0, 0]",
                            "Tnumsegments=int64: [1, 2], [1], [0], 0 -> !INVALID_ARGUMENT segment ids must be < num_segments",
                            "[1], [0], [0], -1 -> !INVALID_ARGUMENT negative"));
MR_OP(SparseSegmentMeanWithNumSegments,
    .doc      = "means of chosen rows by segment, of which there are num_segments",
    WITH_NUM(FLOAT_TYPES),
    .grad     = mean_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_mean, MR_FLOATS)),
    .examples = MR_EXAMPLES("[[1, 2], [3, 4]], [0, 1], [0, 0], 2 -> [[2, 3], [0, 0]]"));
MR_OP(SparseSegmentSqrtNWithNumSegments,
    .doc      = "sums of chosen rows by segment, divided by the root of how many there are; num_segments of them",
    WITH_NUM(FLOAT_TYPES),
    .grad     = sqrt_n_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(segment_sqrt_n, MR_FLOATS)),
    .examples = MR_EXAMPLES("[1, 3], [0, 1, 1, 0], [0, 0, 0, 0], 2 -> [4, 0]"));

/* ---- backward: every chosen row gets the gradient of its segment, scaled ---- */

static mr_status *check_grad(const mr_tensor *grad, const mr_tensor *indices, const mr_tensor *ids,
                             int64_t rows)
{
    MR_TRY(check_lists(grad, indices, ids));
    if (rows < 0)
        return mr_invalid("Cannot specify a negative value for output_dim0");
    if (ids->n > 0 && mr_segment_id(ids, ids->n - 1) >= grad->dims[0])
        return mr_invalid("Invalid number of segments");
    for (int64_t i = 0; i < ids->n; i++)
        if ((uint64_t)mr_segment_id(ids, i) >= (uint64_t)grad->dims[0])
            return mr_invalid("Segment id %lld out of range [0, %lld).", (long long)mr_segment_id(ids, i),
                              (long long)grad->dims[0]);
    for (int64_t i = 0; i < ids->n; i++)
        if ((uint64_t)mr_segment_id(indices, i) >= (uint64_t)rows)
            return mr_invalid("Index %lld out of range [0, %lld).", (long long)mr_segment_id(indices, i),
                              (long long)rows);
    return NULL;
}

/* Allocates the factors of the gradients: entry k is that of row k's segment.  NULL if there is no scaling. */
static mr_status *new_weights(const mr_run *r, const mr_tensor *ids, int64_t segments,
                              mr_segment_scale scale, double **out)
{
    *out = NULL;
    if (scale == MR_SEGMENT_PLAIN)
        return NULL;
    int64_t *counts = mr_scratch_zeroed(r, (size_t)segments + 1, sizeof(int64_t));
    *out = mr_scratch(r, ((size_t)ids->n + 1) * sizeof(double));
    if (!counts || !*out) {
        mr_scratch_free(counts);
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld segments", (long long)segments);
    }
    for (int64_t i = 0; i < ids->n; i++)
        counts[mr_segment_id(ids, i)]++;
    for (int64_t i = 0; i < ids->n; i++) {
        double n = (double)counts[mr_segment_id(ids, i)];
        (*out)[i] = 1 / (scale == MR_SEGMENT_MEAN ? n : sqrt(n));
    }
    mr_scratch_free(counts);
    return NULL;
}

/* Adds the gradients, the rows of input 0, to the rows of out that `to` names. */
static mr_status *sum_grads(mr_run *r, const mr_tensor *to, mr_segment_scale scale, mr_tensor *out)
{
    const mr_tensor *grad = mr_in(r, 0), *ids = mr_in(r, 2);
    double *weights;
    mr_status *st = new_weights(r, ids, grad->dims[0], scale, &weights);
    mr_segments s = {.kind = MR_UPDATE_ADD,
                     .data = grad,
                     .n = ids->n,
                     .rows = ids,
                     .ids = to,
                     .weights = weights};
    if (!st)
        st = mr_segments_join(r, &s, out);
    mr_scratch_free(weights);
    return st;
}

static mr_status *segment_grad(mr_run *r, mr_segment_scale scale)
{
    mr_tensor *out;
    int64_t rows;
    MR_TRY(mr_in_scalar_int(r, 3, "output_dim0", &rows));
    MR_TRY(check_grad(mr_in(r, 0), mr_in(r, 1), mr_in(r, 2), rows));
    MR_TRY(mr_segments_output(r, 0, mr_in(r, 0), 1, rows, &out));
    return sum_grads(r, mr_in(r, 1), scale, out);
}

static mr_status *sum_grad(mr_run *r) { return segment_grad(r, MR_SEGMENT_PLAIN); }
static mr_status *mean_grad(mr_run *r) { return segment_grad(r, MR_SEGMENT_MEAN); }
static mr_status *sqrt_n_grad(mr_run *r) { return segment_grad(r, MR_SEGMENT_SQRT_N); }

/* ---- V2: only the rows that are used, and their indices ---- */

static int compare_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts v, whose numbers are not negative, by a radix sort from the lowest byte on.  (qsort would call malloc for the
 * second array.) */
static mr_status *sort_rows(const mr_run *r, int64_t *v, int64_t n)
{
    int64_t most = 0, *other = mr_scratch(r, (size_t)n * sizeof *v), *from = v, *to = other;
    if (!other)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to sort %lld rows", (long long)n);
    for (int64_t i = 0; i < n; i++)
        most = MR_MAX(most, v[i]);
    for (int shift = 0; shift < 64 && most >> shift > 0; shift += 8) {
        int64_t next[257] = {0}, *turn = from;
        for (int64_t i = 0; i < n; i++)
            next[(from[i] >> shift & 255) + 1]++;
        for (int i = 0; i < 256; i++)
            next[i + 1] += next[i];
        for (int64_t i = 0; i < n; i++)
            to[next[from[i] >> shift & 255]++] = from[i];
        from = to;
        to = turn;
    }
    if (from != v)
        memcpy(v, from, (size_t)n * sizeof *v);
    mr_scratch_free(other);
    return NULL;
}

/* Removes repeated numbers from a sorted array and returns how many are left. */
static int64_t drop_repeated(int64_t *v, int64_t n)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || v[i] != v[kept - 1])
            v[kept++] = v[i];
    return kept;
}

static void number_rows(const mr_tensor *indices, const int64_t *used, int64_t n, int64_t *to)
{
    for (int64_t i = 0; i < indices->n; i++) {
        int64_t row = mr_segment_id(indices, i);
        to[i] = (const int64_t *)bsearch(&row, used, (size_t)n, sizeof *used, compare_int64) - used;
    }
}

static mr_status *grad_v2(mr_run *r, mr_segment_scale scale)
{
    const mr_tensor *indices = mr_in(r, 1);
    mr_tensor *out, *list, *to = NULL;
    mr_status *st = NULL;
    int64_t rows, *used = NULL;
    MR_TRY(mr_in_scalar_int(r, 3, "dense_output_dim0", &rows));
    MR_TRY(check_grad(mr_in(r, 0), indices, mr_in(r, 2), rows));
    MR_TRY(mr_index_load(r, indices, "indices", rows, &used));
    MR_GO(sort_rows(r, used, indices->n));
    int64_t n = drop_repeated(used, indices->n);
    MR_GO(mr_run_temp(r, MR_INT64, 1, indices->dims, &to));
    number_rows(indices, used, n, to->data);
    MR_GO(mr_run_output(r, 1, 1, &n, &list));
    mr_dtype_convert(MR_INT64, used, (mr_dtype)list->dtype, list->data, n, false);
    MR_GO(mr_segments_output(r, 0, mr_in(r, 0), 1, n, &out));
    st = sum_grads(r, to, scale, out);
out:
    mr_scratch_free(used);
    mr_tensor_unref(to);
    return st;
}

static mr_status *sum_grad_v2(mr_run *r) { return grad_v2(r, MR_SEGMENT_PLAIN); }
static mr_status *mean_grad_v2(mr_run *r) { return grad_v2(r, MR_SEGMENT_MEAN); }
static mr_status *sqrt_n_grad_v2(mr_run *r) { return grad_v2(r, MR_SEGMENT_SQRT_N); }

#define GRAD                                                                                                  \
    .sig   = "grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: int32 -> output: T",             \
    .attrs = FLOAT_TYPES INDEX_ATTRS, .shape = segment_shape
#define GRAD_V2                                                                                               \
    .sig   = "grad: T, indices: Tidx, segment_ids: Tsegmentids, dense_output_dim0: int32 -> "                 \
             "output: T, sorted_unique_indices: Tidx",                                                        \
    .attrs = FLOAT_TYPES INDEX_ATTRS, .shape = segment_shape

MR_OP(SparseSegmentSumGrad,
    .doc      = "the gradient of SparseSegmentSum", GRAD,
    .kernels  = MR_KERNELS(MR_CPU_ONE(sum_grad, MR_FLOATS)),
    .examples = MR_EXAMPLES("[[1, 2], [3, 4]], [0, 2, 2], [0, 0, 1], 3 -> [[1, 2], [0, 0], [4, 6]]",
                            "Tidx=int64 Tsegmentids=int64: [1], [1], [0], 2 -> [0, 1]",
                            "[1], [2], [0], 2 -> !INVALID_ARGUMENT Index 2 out of range [0, 2).",
                            "[1], [0], [1], 2 -> !INVALID_ARGUMENT Invalid number of segments",
                            "[1], [0, 0], [1, 0], 2 -> !INVALID_ARGUMENT Segment id 1 out of range [0, 1).",
                            "[1], [0], [0], -2 -> !INVALID_ARGUMENT Cannot specify a negative value for output_dim0"));
MR_OP(SparseSegmentMeanGrad,
    .doc      = "the gradient of SparseSegmentMean", GRAD,
    .kernels  = MR_KERNELS(MR_CPU_ONE(mean_grad, MR_FLOATS)),
    .examples = MR_EXAMPLES("[[1, 2], [3, 4]], [0, 2, 2], [0, 0, 1], 3 -> [[0.5, 1], [0, 0], [3.5, 5]]"));
MR_OP(SparseSegmentSqrtNGrad,
    .doc      = "the gradient of SparseSegmentSqrtN", GRAD,
    .kernels  = MR_KERNELS(MR_CPU_ONE(sqrt_n_grad, MR_FLOATS)),
    .examples = MR_EXAMPLES("[2, 3], [0, 1, 0, 1, 0], [0, 0, 0, 0, 1], 2 -> [5, 2]"));
MR_OP(SparseSegmentSumGradV2,
    .doc      = "the gradient of SparseSegmentSum: only the rows used, and their numbers", GRAD_V2,
    .kernels  = MR_KERNELS(MR_CPU_ONE(sum_grad_v2, MR_FLOATS)),
    .examples = MR_EXAMPLES("[[1, 2], [3, 4]], [2, 0, 2], [0, 0, 1], 5 -> [[1, 2], [4, 6]], [0, 2]",
                            "Tidx=int64 Tsegmentids=int64: [1], shape(0), shape(0), 2 -> shape(0), shape(0)",
                            "[1], [9], [0], 2 -> !INVALID_ARGUMENT Index 9 out of range [0, 2)."));
MR_OP(SparseSegmentMeanGradV2,
    .doc      = "the gradient of SparseSegmentMean: only the rows used, and their numbers", GRAD_V2,
    .kernels  = MR_KERNELS(MR_CPU_ONE(mean_grad_v2, MR_FLOATS)),
    .examples = MR_EXAMPLES("[2, 4], [2, 0, 2], [0, 0, 1], 5 -> [1, 5], [0, 2]"));
MR_OP(SparseSegmentSqrtNGradV2,
    .doc      = "the gradient of SparseSegmentSqrtN: only the rows used, and their numbers", GRAD_V2,
    .kernels  = MR_KERNELS(MR_CPU_ONE(sqrt_n_grad_v2, MR_FLOATS)),
    .examples = MR_EXAMPLES("[2], [3, 1, 1, 3], [0, 0, 0, 0], 5 -> [2, 2], [1, 3]"));
