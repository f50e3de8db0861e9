/* ops/math/segment_sum.c -- UnsortedSegmentSum: adds rows to the segments they name.
 *
 * The columns are cut over threads, not the rows: each thread goes through all rows, so no two
 * write the same place and the order of additions stays. */
#include "ops/elementwise.h"

MR_BINARY(add, MR_FLOATS32, x + y)
MR_BINARY(add, MR_COMPLEXES, x + y)
MR_BINARY(add, MR_INTS, (uint64_t)x + (uint64_t)y)

typedef struct job {
    mr_each_loop *add;
    const mr_tensor *ids;
    const char *rows;
    char *sums;
    size_t bytes;
    int64_t width;
} job;

static void columns_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    for (int64_t i = 0; i < j->ids->n; i++) {
        int64_t to = mr_tensor_int_at(j->ids, i);
        if (to < 0)
            continue;
        char *sum = j->sums + (size_t)(to * j->width + begin) * j->bytes;
        const char *row = j->rows + (size_t)(i * j->width + begin) * j->bytes;
        j->add((void *[]){sum, sum, (void *)(uintptr_t)row}, end - begin);
    }
}

static mr_status *check_ids(const mr_tensor *data, const mr_tensor *ids, int64_t segments)
{
    if (segments < 0)
        return mr_invalid("Input num_segments == %lld must not be negative.", (long long)segments);
    if (ids->rank > data->rank || !mr_shape_eq(ids->rank, ids->dims, ids->rank, data->dims))
        return mr_invalid("data.shape = %s does not start with segment_ids.shape = %s",
                          MR_TENSOR_SHAPE(data), MR_TENSOR_SHAPE(ids));
    for (int64_t i = 0; i < ids->n; i++)
        if (mr_tensor_int_at(ids, i) >= segments)
            return mr_invalid("segment_ids[%lld] = %lld is out of range [0, %lld)", (long long)i,
                              (long long)mr_tensor_int_at(ids, i), (long long)segments);
    return NULL;
}

/* The sums of data's rows in a tensor of zeros of the same type. */
static void add_rows(mr_run *r, const mr_each *e, const mr_tensor *data, const mr_tensor *ids,
                     mr_tensor *sums)
{
    if (ids->n == 0 || data->n == 0)
        return;
    job j = {e->loop,         ids, data->data, sums->data, mr_dtype_size((mr_dtype)data->dtype),
             data->n / ids->n};
    mr_run_for(r, j.width, (e->cost_ns + 1) * (double)ids->n, columns_part, &j);
}

/* 16-bit floats: sums in float, rounded once. */
static mr_status *add_rows_wide(mr_run *r, const mr_each *e, const mr_tensor *data,
                                const mr_tensor *ids, mr_tensor *out)
{
    mr_status *st = NULL;
    mr_tensor *wide = NULL, *sums = NULL;
    MR_GO(mr_run_temp(r, MR_FLOAT, data->rank, data->dims, &wide));
    MR_GO(mr_run_temp(r, MR_FLOAT, out->rank, out->dims, &sums));
    mr_dtype_convert((mr_dtype)data->dtype, data->data, MR_FLOAT, wide->data, data->n, false);
    mr_tensor_zero(sums);
    add_rows(r, e, wide, ids, sums);
    mr_dtype_convert(MR_FLOAT, sums->data, (mr_dtype)out->dtype, out->data, out->n, false);
out:
    mr_tensor_unref(wide);
    mr_tensor_unref(sums);
    return st;
}

static mr_status *segment_sum(mr_run *r)
{
    const mr_tensor *data = mr_in(r, 0), *ids = mr_in(r, 1);
    const mr_each *e = r->kernel->user;
    int64_t segments;
    MR_TRY(mr_in_scalar_int(r, 2, "num_segments", &segments));
    MR_TRY(check_ids(data, ids, segments));
    mr_shape shape;
    mr_shape_set(&shape, 1, &segments);
    for (int d = ids->rank; d < data->rank; d++)
        MR_TRY(mr_shape_push(&shape, data->dims[d]));
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    if (e->widen)
        return add_rows_wide(r, e, data, ids, out);
    mr_tensor_zero(out);
    add_rows(r, e, data, ids, out);
    return NULL;
}

static mr_status *segment_shape(mr_infer *c)
{
    const mr_pshape *data = c->in[0], *ids = c->in[1], *n_shape;
    int64_t segments = -1;
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &n_shape));
    bool known = mr_infer_int(c, 2, &segments);
    if (known && segments < 0)
        return mr_invalid("Input num_segments == %lld must not be negative.", (long long)segments);
    if (data->rank < 0 || ids->rank < 0)
        return NULL;
    MR_TRY(mr_infer_rank_at_least(c, data, ids->rank, &data));
    for (int d = 0; d < ids->rank; d++) {
        int64_t same;
        MR_TRY(mr_infer_merge_dim(ids->dims[d], data->dims[d], &same));
    }
    c->out[0] = mr_infer_concat(c, mr_pshape_vector(c->arena, known ? segments : -1),
                                mr_infer_sub(c, data, ids->rank, MR_MAX_RANK));
    return NULL;
}

/* A mask of ids' shape with as many 1s behind as data has further dimensions. */
static mr_out mask_like(mr_grad *g, mr_out mask, mr_out rows)
{
    mr_scope *s = g->s;
    mr_out more = mr_emit(s, "Sub", mr_emit(s, "Rank", rows), mr_emit(s, "Rank", mask));
    mr_out ones =
        mr_emit(s, "Fill", mr_emit(s, "Reshape", more, mr_const_vec_i32(s, 1, (int32_t[]){1})),
                mr_const_i32(s, 1));
    mr_out shape = mr_emit(s, "ConcatV2", mr_emit(s, "Shape", mask), ones, mr_const_i32(s, 0));
    return mr_emit(s, "Reshape", mask, shape);
}

/* Each row gets the gradient of its segment; rows that were dropped get zero. */
static void segment_sum_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out ids = mr_xi(g, 1), zero = mr_scalar_like(g, 0, ids), dy = mr_dyi(g, 0);
    mr_out rows = mr_emit(s, "GatherV2", dy, mr_emit(s, "Maximum", ids, zero), mr_const_i32(s, 0));
    mr_out used = mask_like(g, mr_emit(s, "GreaterEqual", ids, zero), rows);
    mr_dxi(g, 0, mr_emit(s, "SelectV2", used, rows, mr_scalar_like(g, 0, dy)));
}

MR_FLOATS16(MR_EACH_CONST_ROW, FAST, add)

MR_OP(UnsortedSegmentSum,
    .doc      = "sums of the rows of each segment; rows of negative segments are dropped",
    .sig      = "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T",
    .attrs    = "T: numbertype; Tindices: {int32, int64}; Tnumsegments: {int32, int64} = DT_INT32",
    .shape    = segment_shape,
    .grad     = segment_sum_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_BY(add, MR_NUMBERS, segment_sum)
                           MR_CPU_EACH_BY(add, MR_CODES, segment_sum)),
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
