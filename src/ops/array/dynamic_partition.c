/* ops/array/dynamic_partition.c -- rows distributed to parts and merged again: DynamicPartition, DynamicStitch,
 * ParallelDynamicStitch. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/index.h"
#include "ops/array/layout.h"
#include "ops/first_error.h"
#include "run/scratch.h"

/* ---- DynamicPartition ---- */

static mr_status *check_partitions(const mr_tensor *data, const mr_tensor *partitions)
{
    bool fits = partitions->rank <= data->rank;
    for (int d = 0; d < partitions->rank && fits; d++)
        fits = partitions->dims[d] == data->dims[d];
    return fits ? NULL
                : mr_invalid("data.shape must start with partitions.shape, got data.shape = %s, "
                             "partitions.shape = %s",
                             MR_TENSOR_SHAPE(data), MR_TENSOR_SHAPE(partitions));
}

/* Sorts row numbers by partition, keeping their order; counts[p] of them belong to p. */
static void sort_by_partition(const mr_tensor *partitions, int n_parts, int64_t *counts, int64_t *rows)
{
    const int32_t *p = partitions->data;
    for (int64_t i = 0; i < partitions->n; i++)
        counts[p[i]]++;
    for (int64_t k = 0, at = 0; k < n_parts; k++) { /* counts become positions, then counts again */
        int64_t n = counts[k];
        counts[k] = at;
        at += n;
    }
    for (int64_t i = 0; i < partitions->n; i++)
        rows[counts[p[i]]++] = i;
    for (int k = n_parts - 1; k > 0; k--)
        counts[k] -= counts[k - 1];
}

static mr_status *write_parts(mr_run *r, const int64_t *counts, const int64_t *rows)
{
    const mr_tensor *data = mr_in(r, 0), *partitions = mr_in(r, 1);
    int64_t inner = mr_dims_product(data->dims, partitions->rank, data->rank);
    mr_shape s;
    s.rank = 0;
    MR_TRY(mr_shape_push(&s, 0));
    for (int d = partitions->rank; d < data->rank; d++)
        MR_TRY(mr_shape_push(&s, data->dims[d]));
    for (int i = 0; i < r->n_out; rows += counts[i++]) {
        mr_tensor *out;
        s.dims[0] = counts[i];
        MR_TRY(mr_run_output(r, i, s.rank, s.dims, &out));
        MR_TRY(mr_gather_rows(r, &(mr_gather){out, data, inner, counts[i], rows}, 1, 0, 1));
    }
    return NULL;
}

static mr_status *run_partition(mr_run *r)
{
    const mr_tensor *data = mr_in(r, 0), *partitions = mr_in(r, 1);
    mr_status *st = NULL;
    MR_TRY(check_partitions(data, partitions));
    MR_TRY(mr_index_check(partitions, "partitions", r->n_out));
    int64_t *counts = mr_scratch_zeroed(r, (size_t)r->n_out, sizeof(int64_t));
    int64_t *rows = mr_scratch_zeroed(r, (size_t)partitions->n + 1, sizeof(int64_t));
    if (!counts || !rows)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld rows", (long long)partitions->n));
    sort_by_partition(partitions, r->n_out, counts, rows);
    st = write_parts(r, counts, rows);
out:
    mr_scratch_free(counts);
    mr_scratch_free(rows);
    return st;
}

/* Checks that the shape begins with this prefix; both have a rank. */
static mr_status *check_prefix(mr_infer *c, const mr_pshape *shape, const mr_pshape *prefix)
{
    int64_t ignored;
    MR_TRY(mr_infer_rank_at_least(c, shape, prefix->rank, &shape));
    for (int d = 0; d < prefix->rank; d++)
        MR_TRY(mr_infer_merge_dim(shape->dims[d], prefix->dims[d], &ignored));
    return NULL;
}

static mr_status *partition_shape(mr_infer *c)
{
    const mr_pshape *data = c->in[0], *partitions = c->in[1];
    if (partitions->rank < 0 || data->rank < 0)
        return NULL;
    MR_TRY(check_prefix(c, data, partitions));
    const mr_pshape *out = mr_infer_concat(c, mr_pshape_vector(c->arena, -1),
                                           mr_infer_sub(c, data, partitions->rank, MR_MAX_RANK));
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = out;
    return NULL;
}

/* Partitioning the row numbers in the same way tells where each part's gradient belongs. */
static void partition_backward(mr_grad *g)
{
    int n = g->node->n_out;
    mr_out partitions = mr_xi(g, 1);
    mr_out zero = mr_const_i32(g->s, 0), one = mr_const_i32(g->s, 1);
    mr_out count = mr_emit(g->s, "Size", partitions);
    mr_out numbers = mr_emit(g->s, "Reshape", mr_emit(g->s, "Range", zero, count, one),
                             mr_shape_of(g, partitions));
    mr_out dealt = mr_emit_with(g->s, "DynamicPartition",
                                MR_ATTRS({"num_partitions", mr_a_int(n)}), numbers, partitions);
    mr_out *in = mr_new_array(mr_out, 2 * n);
    for (int i = 0; i < n; i++) {
        in[i] = mr_nth(dealt, i);
        in[n + i] = mr_dyi(g, i);
    }
    mr_out all =
        mr_emit_lists(g->s, "DynamicStitch", NULL, 0, (mr_emit_arg[]){{n, in}, {n, in + n}}, 2);
    mr_dxi(g, 0, mr_emit(g->s, "Reshape", all, mr_shape_of(g, mr_xi(g, 0))));
    mr_free(in);
}

MR_OP(DynamicPartition,
    .doc      = "the rows of data dealt out by the number of their partition",
    .sig      = "data: T, partitions: int32 -> outputs: num_partitions * T",
    .attrs    = "num_partitions: int >= 1; T: type",
    .shape    = partition_shape,
    .grad     = partition_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_partition)),
    .examples = MR_EXAMPLES(
        "num_partitions=2: [1, 2, 3, 4], [0, 1, 1, 0] -> [1, 4], [2, 3]",
        "num_partitions=3: [[1, 2], [3, 4]], [2, 0] -> [[3, 4]], shape(0,2), [[1, 2]]",
        "num_partitions=2: [[1, 2], [3, 4]], [[0, 1], [1, 0]] -> [1, 4], [2, 3]",
        "num_partitions=2: 7, 1 -> shape(0), [7]",
        "num_partitions=1: [\"a\", \"b\"], [0, 0] -> [\"a\", \"b\"]",
        "num_partitions=2: shape(0,3), shape(0) -> shape(0,3), shape(0,3)",
        "num_partitions=2: [1, 2], [0, 2] -> !INVALID_ARGUMENT partitions[1] = 2 is not in [0, 2)",
        "num_partitions=2: [1, 2], [0] -> !INVALID_ARGUMENT Dimensions must be equal, but are 2 and 1",
        "num_partitions=2: [1, 2], [[0, 1]] -> !INVALID_ARGUMENT Shape must be at least rank 2 but is rank 1",
        "unknown num_partitions=2: [1, 2], [[0, 1]] -> !INVALID_ARGUMENT data.shape must start with "
        "partitions.shape, got data.shape = [2], partitions.shape = [1,2]",
        "p = PlaceholderWithDefault dtype=int32 shape=?: int32[0]; num_partitions=2: [1, 2], p -> "
        "!INVALID_ARGUMENT data.shape must start with partitions.shape, got data.shape = [2]"));

/* ---- DynamicStitch ---- */

static mr_status *check_stitch(mr_run *r, int i)
{
    int n = r->n_in / 2;
    const mr_tensor *indices = mr_in(r, i), *data = mr_in(r, n + i);
    const mr_tensor *indices0 = mr_in(r, 0), *data0 = mr_in(r, n);
    bool fits = indices->rank <= data->rank;
    for (int d = 0; d < indices->rank && fits; d++)
        fits = indices->dims[d] == data->dims[d];
    if (!fits)
        return mr_invalid("data[%d].shape = %s does not start with indices[%d].shape = %s", i,
                          MR_TENSOR_SHAPE(data), i, MR_TENSOR_SHAPE(indices));
    if (!mr_shape_eq(data->rank - indices->rank, data->dims + indices->rank,
                     data0->rank - indices0->rank, data0->dims + indices0->rank))
        return mr_invalid("Need data[0].shape[%d:] = data[%d].shape[%d:], got data[0].shape = %s, "
                          "data[%d].shape = %s, indices[0].shape = %s, indices[%d].shape = %s",
                          indices0->rank, i, indices->rank, MR_TENSOR_SHAPE(data0), i,
                          MR_TENSOR_SHAPE(data), MR_TENSOR_SHAPE(indices0), i,
                          MR_TENSOR_SHAPE(indices));
    return NULL;
}

/* The number of rows of the result: the largest index plus one. */
static mr_status *stitched_rows(mr_run *r, int64_t *out)
{
    *out = 0;
    for (int i = 0; i < r->n_in / 2; i++) {
        const mr_tensor *t = mr_in(r, i);
        for (int64_t k = 0; k < t->n; k++) {
            int64_t v = MR_DATA(const int32_t, t)[k];
            if (v < 0)
                return mr_invalid("indices[%d]%s = %lld is out of range", i,
                                  MR_INDEX_PLACE(t->rank, t->dims, k), (long long)v);
            *out = MR_MAX(*out, v + 1);
        }
    }
    return NULL;
}

/* Later entries win. So the first pass finds the input that writes each row, then every row is written once. */
typedef struct stitching {
    mr_run *r;
    mr_tensor *out;
    int64_t inner;
    int64_t *place; /* the row of that input */
    int32_t *owner; /* the input + 1; 0: none */
    mr_first_error failed;
} stitching;

static void find_owners(stitching *s)
{
    for (int i = 0; i < s->r->n_in / 2; i++) {
        const mr_tensor *t = mr_in(s->r, i);
        for (int64_t k = 0; k < t->n; k++) {
            int32_t row = MR_DATA(const int32_t, t)[k];
            s->place[row] = k;
            s->owner[row] = i + 1;
        }
    }
}

static void write_rows(void *ctx, int64_t begin, int64_t end)
{
    stitching *s = ctx;
    size_t bytes = (size_t)s->inner * mr_dtype_size(s->out->dtype);
    bool plain = mr_dtype_is_plain(s->out->dtype);
    for (int64_t row = begin; row < end && !mr_first_error_any(&s->failed); row++) {
        int from = s->owner[row];
        const mr_tensor *data = from ? mr_in(s->r, s->r->n_in / 2 + from - 1) : NULL;
        char *to = (char *)s->out->data + (size_t)row * bytes;
        if (!plain && data)
            mr_first_error_note(&s->failed,
                                mr_tensor_try_copy_elements(s->out, row * s->inner, data,
                                                            s->place[row] * s->inner, s->inner));
        else if (plain && data)
            memcpy(to, (const char *)data->data + (size_t)s->place[row] * bytes, bytes);
        else if (plain)
            memset(to, 0, bytes);
    }
}

static mr_status *stitch_rows(mr_run *r, mr_tensor *out, int64_t n_rows)
{
    stitching s = {.r = r, .out = out, .inner = out->n / n_rows};
    mr_status *st = NULL;
    s.place = mr_scratch_zeroed(r, (size_t)n_rows, sizeof(int64_t));
    s.owner = mr_scratch_zeroed(r, (size_t)n_rows, sizeof(int32_t));
    if (s.place && s.owner) {
        find_owners(&s);
        mr_run_for(r, n_rows, 5 + 0.1 * (double)s.inner, write_rows, &s);
        st = mr_first_error_take(&s.failed);
    } else {
        st = mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld rows", (long long)n_rows);
    }
    mr_scratch_free(s.place);
    mr_scratch_free(s.owner);
    return st;
}

static mr_status *run_stitch(mr_run *r)
{
    int n = r->n_in / 2;
    const mr_tensor *indices = mr_in(r, 0), *data = mr_in(r, n);
    int64_t rows = 0;
    mr_shape s;
    mr_tensor *out;
    for (int i = 0; i < n; i++)
        MR_TRY(check_stitch(r, i));
    MR_TRY(stitched_rows(r, &rows));
    s.rank = 0;
    MR_TRY(mr_shape_push(&s, rows));
    for (int d = indices->rank; d < data->rank; d++)
        MR_TRY(mr_shape_push(&s, data->dims[d]));
    MR_TRY(mr_run_output(r, 0, s.rank, s.dims, &out));
    return out->n ? stitch_rows(r, out, rows) : NULL;
}

/* The dimensions of one input after those of its indices. */
static mr_status *stitch_tail(mr_infer *c, int i, const mr_pshape **out)
{
    const mr_pshape *indices = c->in[i], *data = c->in[c->n_in / 2 + i];
    *out = &mr_pshape_unknown;
    if (indices->rank < 0 || data->rank < 0)
        return NULL;
    MR_TRY(check_prefix(c, data, indices));
    *out = mr_infer_sub(c, data, indices->rank, MR_MAX_RANK);
    return NULL;
}

static mr_status *stitch_shape(mr_infer *c)
{
    const mr_pshape *tail = &mr_pshape_unknown, *one = NULL;
    int64_t rows = 0;
    for (int i = 0; i < c->n_in / 2; i++) {
        MR_TRY(stitch_tail(c, i, &one));
        MR_TRY(mr_infer_merge(c, tail, one, &tail));
        const mr_tensor *t = mr_infer_const(c, i);
        if (!t)
            rows = -1;
        for (int64_t k = 0; t && rows >= 0 && k < t->n; k++)
            rows = MR_MAX(rows, mr_tensor_int_at(t, k) + 1);
    }
    c->out[0] = mr_infer_concat(c, mr_pshape_vector(c->arena, rows), tail);
    return NULL;
}

static void stitch_backward(mr_grad *g)
{
    int n = g->node->n_in / 2;
    mr_out axis = mr_const_i32(g->s, 0);
    for (int i = 0; i < n; i++)
        mr_dxi(g, n + i, mr_emit(g->s, "GatherV2", mr_dyi(g, 0), mr_xi(g, i), axis));
}

MR_OP(DynamicStitch,
    .doc      = "rows put at their indices; of several for one place the last one counts",
    .sig      = "indices: N * int32, data: N * T -> merged: T",
    .attrs    = "N: int >= 1; T: type",
    .shape    = stitch_shape,
    .grad     = stitch_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_stitch)),
    .examples = MR_EXAMPLES(
        "nograd: ([0, 2], [1, 2]), ([10, 20], [30, 40]) -> [10, 30, 40]",
        "(0, [2, 1]), ([1, 2], [[3, 4], [5, 6]]) -> [[1, 2], [5, 6], [3, 4]]",
        "([[0, 1], [2, 3]]), ([[1, 2], [3, 4]]) -> [1, 2, 3, 4]",
        "([2]), ([5]) -> [0, 0, 5]", "([1]), ([\"a\"]) -> [\"\", \"a\"]",
        "(shape(0)), (shape(0,2)) -> shape(0,2)", "([1]), (shape(1,0)) -> shape(2,0)",
        "([-1]), ([1]) -> !INVALID_ARGUMENT is out of range",
        "([0, 1]), ([1]) -> !INVALID_ARGUMENT must be equal",
        "d = PlaceholderWithDefault dtype=$T shape=?: [1]; : ([0, 1]), (d) -> !INVALID_ARGUMENT "
        "data[0].shape = [1] does not start with indices[0].shape = [2]",
        "d = PlaceholderWithDefault dtype=$T shape=?: [[1]]; : ([0], [1]), ([1], d) -> "
        "!INVALID_ARGUMENT Need data[0].shape[1:] = data[1].shape[1:]"));

/* If several rows have the same index, TensorFlow may use any of them; here it is the last one. */
MR_OP(ParallelDynamicStitch,
    .doc      = "rows put at their indices; of several for one place any one may count",
    .sig      = "indices: N * int32, data: N * T -> merged: T",
    .attrs    = "N: int >= 1; T: type",
    .shape    = stitch_shape,
    .grad     = stitch_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_stitch)),
    .examples = MR_EXAMPLES(
        "(0, [2, 1]), ([1, 2], [[3, 4], [5, 6]]) -> [[1, 2], [5, 6], [3, 4]]", "([1]), ([\"a\"]) -> [\"\", \"a\"]",
        "([-1]), ([1]) -> !INVALID_ARGUMENT is out of range", "([0, 1]), ([1]) -> !INVALID_ARGUMENT must be equal"));
