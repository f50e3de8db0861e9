/* ops/array/gather_nd.c -- slices by index tuples, read and written: GatherNd, ScatterNd.
 *
 * The last dimension of indices holds tuples into the first k dimensions of a tensor. A tuple is converted to the
 * number of a row of the remaining dimensions, so that both ops work on rows. */
#include "graph/grad.h"
#include "ops/array/add_run.h"
#include "ops/array/index.h"
#include "ops/array/layout.h"
#include "run/scratch.h"

/* ---- GatherNd ---- */

static mr_status *gather_nd_dims(const mr_tensor *params, const mr_tensor *indices, mr_shape *out)
{
    if (params->rank < 1)
        return mr_invalid("params must be at least a vector");
    if (indices->rank < 1)
        return mr_invalid("indices must be at least a vector");
    int64_t k = indices->dims[indices->rank - 1];
    if (k > params->rank)
        return mr_invalid(
            "index innermost dimension length must be <= params rank; saw: %lld vs. %d",
            (long long)k, params->rank);
    mr_shape_set(out, indices->rank - 1, indices->dims);
    for (int d = (int)k; d < params->rank; d++)
        MR_TRY(mr_shape_push(out, params->dims[d]));
    return NULL;
}

static mr_status *run_gather_nd(mr_run *r)
{
    const mr_tensor *params = mr_in(r, 0), *indices = mr_in(r, 1);
    mr_shape s;
    mr_tensor *out;
    int64_t *rows = NULL;
    MR_TRY(gather_nd_dims(params, indices, &s));
    int k = (int)indices->dims[indices->rank - 1];
    int64_t n = mr_dims_product(indices->dims, 0, indices->rank - 1);
    if (n > 0 && params->n == 0 && k > 0)
        return mr_invalid("Requested more than 0 entries, but params is empty. Params shape: %s",
                          MR_TENSOR_SHAPE(params));
    MR_TRY(mr_run_output(r, 0, s.rank, s.dims, &out));
    if (n == 0 || params->n == 0)
        return NULL;
    MR_TRY(mr_index_load_nd(r, indices, params->rank, params->dims, "param shape", &rows));
    int64_t inner = mr_dims_product(params->dims, k, params->rank);
    mr_status *st = mr_gather_rows(r, &(mr_gather){out, params, inner, n, rows}, 1, 0, 1);
    mr_scratch_free(rows);
    return st;
}

static mr_status *gather_nd_shape(mr_infer *c)
{
    const mr_pshape *params = NULL, *indices = NULL;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &params));
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 1, &indices));
    if (params->rank < 0 || indices->rank < 0 || mr_infer_dim(indices, -1) < 0)
        return NULL;
    int64_t k = mr_infer_dim(indices, -1);
    if (k > params->rank)
        return mr_invalid("indices.shape[-1] must be <= params.rank, but saw indices shape: %s and "
                          "params shape: %s",
                          MR_PSHAPE_TEXT(indices), MR_PSHAPE_TEXT(params));
    c->out[0] = mr_infer_concat(c, mr_infer_sub(c, indices, 0, -1),
                                mr_infer_sub(c, params, (int)k, MR_MAX_RANK));
    return NULL;
}

/* Casts indices to a type that shapes can have. */
static mr_out wide_indices(mr_grad *g, mr_out v)
{
    return mr_out_type(v) != MR_INT16
               ? v
               : mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), v);
}

static void gather_nd_backward(mr_grad *g)
{
    mr_out indices = wide_indices(g, mr_xi(g, 1)), shape = mr_shape_of(g, mr_xi(g, 0));
    if (mr_out_type(indices) == MR_INT64)
        shape = mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT64)}), shape);
    mr_dxi(g, 0, mr_emit(g->s, "ScatterNd", indices, mr_dyi(g, 0), shape));
}

MR_OP(GatherNd,
    .doc      = "slices of params by tuples of indices, the last dimension of indices",
    .sig      = "params: Tparams, indices: Tindices -> output: Tparams",
    .attrs    = "Tparams: type; Tindices: {int16, int32, int64}",
    .shape    = gather_nd_shape,
    .grad     = gather_nd_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_gather_nd)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]], int32[[0, 0], [1, 1]] -> [1, 4]",
        "[[1, 2], [3, 4]], int64[[1], [0]] -> [[3, 4], [1, 2]]",
        "iota(2,2,2), int16[[[0, 1]], [[1, 0]]] -> [[[2, 3]], [[4, 5]]]",
        "[\"a\", \"b\"], int32[1] -> \"b\"", "[1, 2], int32 shape(3,0) -> [[1, 2], [1, 2], [1, 2]]",
        "[1, 2], int32 shape(0,1) -> shape(0)", "shape(0,2), int32 shape(0,1) -> shape(0,2)",
        "[[1, 2], [3, 4]], int32[[0, 0], [1, 2]] -> !INVALID_ARGUMENT indices[1] = [1, 2] does not "
        "index into param shape [2,2]",
        "[1, 2], int32[-1] -> !INVALID_ARGUMENT indices = [-1] does not index into param shape [2]",
        "[1, 2], int32[[0, 0]] -> !INVALID_ARGUMENT must be <= params",
        "shape(0), int32[[0]] -> !INVALID_ARGUMENT Requested more than 0 entries, but params is "
        "empty. Params shape: [0]"));

/* ---- ScatterNd ---- */

typedef struct scatter {
    mr_tensor *out;
    const mr_tensor *updates;
    const int64_t *rows;
    int64_t n, inner;
    mr_add_run *add;
} scatter;

/* Adds columns begin..end of every row. Rows with the same index are added in order, whichever thread does it. */
static void add_columns(void *ctx, int64_t begin, int64_t end)
{
    const scatter *s = ctx;
    size_t elem = mr_dtype_size(s->out->dtype);
    for (int64_t i = 0; i < s->n; i++)
        s->add((char *)s->out->data + (size_t)(s->rows[i] * s->inner + begin) * elem,
               (const char *)s->updates->data + (size_t)(i * s->inner + begin) * elem, 1,
               end - begin);
}

static mr_status *add_strings(const scatter *s)
{
    mr_status *st = NULL;
    for (int64_t i = 0; i < s->n * s->inner && !st; i++)
        st = mr_add_string(s->out, s->rows[i / s->inner] * s->inner + i % s->inner, s->updates, i);
    return st;
}

/* A shape in the type of the indices, which may be int16. */
static mr_status *read_shape(const mr_tensor *t, mr_shape *out)
{
    if (t->rank != 1)
        return mr_invalid("shape must be a vector, got shape %s", MR_TENSOR_SHAPE(t));
    out->rank = 0;
    for (int64_t i = 0; i < t->n; i++)
        MR_TRY(mr_shape_push(out, mr_index_at(t, i)));
    return NULL; /* negative sizes are refused when the elements are counted */
}

static mr_status *run_scatter_nd(mr_run *r)
{
    const mr_tensor *indices = mr_in(r, 0), *updates = mr_in(r, 1);
    mr_shape shape;
    int64_t *rows = NULL, total;
    mr_status *st = NULL;
    scatter s = {.updates = updates, .add = mr_add_run_of(updates->dtype)};
    MR_TRY(read_shape(mr_in(r, 2), &shape));
    MR_TRY(mr_shape_elements(shape.rank, shape.dims, &total));
    MR_TRY(mr_scatter_nd_check(indices, updates, shape.rank, shape.dims));
    MR_TRY(mr_tensor_zeros(mr_run_allocator(r), updates->dtype, shape.rank, shape.dims, &s.out));
    mr_run_set(r, 0, s.out);
    if (updates->n == 0 || total == 0)
        return NULL;
    MR_TRY(mr_index_load_nd(r, indices, shape.rank, shape.dims, "shape", &rows));
    int k = (int)indices->dims[indices->rank - 1];
    s.rows = rows;
    s.n = mr_dims_product(indices->dims, 0, indices->rank - 1);
    s.inner = mr_dims_product(shape.dims, k, shape.rank);
    if (s.add)
        mr_run_for(r, s.inner, 0.5 * (double)s.n, add_columns, &s);
    else
        st = add_strings(&s);
    mr_scratch_free(rows);
    return st;
}

static mr_status *scatter_nd_shape(mr_infer *c)
{
    MR_TRY(mr_infer_shape_value(c, 2, &c->out[0]));
    return mr_infer_scatter_nd(c, c->in[0], c->in[1], c->out[0], "output");
}

static void scatter_nd_backward(mr_grad *g)
{
    mr_dxi(g, 1, mr_emit(g->s, "GatherNd", mr_dyi(g, 0), mr_xi(g, 0)));
}

MR_OP(ScatterNd,
    .doc      = "zeros with the updates added at tuples of indices",
    .sig      = "indices: Tindices, updates: T, shape: Tindices -> output: T",
    .attrs    = "T: type; Tindices: {int16, int32, int64}",
    .key      = "T",
    .shape    = scatter_nd_shape,
    .grad     = scatter_nd_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_scatter_nd, MR_PLAIN)
                           {"CPU", MR_STRING, run_scatter_nd},),
    .examples = MR_EXAMPLES(
        "int32[[3], [1], [3]], [1, 2, 4], int32[5] -> [0, 2, 0, 5, 0]",
        "int64[[1], [0]], [[1, 2], [3, 4]], int64[3, 2] -> [[3, 4], [1, 2], [0, 0]]",
        "int32[[0, 1], [1, 0]], [1, 2], int32[2, 2] -> [[0, 1], [2, 0]]",
        "int16[[1]], [1], int16[2] -> [0, 1]",
        "int32[[1], [1]], [\"a\", \"b\"], int32[2] -> [\"\", \"ab\"]",
        "int32[[0], [1]], [true, false], int32[2] -> [true, false]",
        "int32 shape(0,1), shape(0), int32[2] -> [0, 0]",
        "int32 shape(0,1), shape(0,0), int32[2, 0] -> shape(2,0)",
        "int32[[2]], [1], int32[2] -> !INVALID_ARGUMENT indices[0] = [2] does not index into shape "
        "[2]",
        "int32[[0]], [1], int32[0] -> !INVALID_ARGUMENT Indices and updates specified for empty "
        "output",
        "int32[[0]], [1, 2], int32[2] -> !INVALID_ARGUMENT The outer 1 dimensions of indices.shape=[1,1] must match "
        "the "
        "outer 1 dimensions of updates.shape=[2]: Dimension 0 in both shapes must be equal, but are 1 and 2. Shapes "
        "are [1] and [2].",
        "s = PlaceholderWithDefault dtype=int32 shape=?: int32[2]; : int32[[0]], [1, 2], s -> "
        "!INVALID_ARGUMENT The outer 1 dimensions of indices.shape=[1,1] must match",
        "u = PlaceholderWithDefault dtype=$T shape=?: [1, 2]; : int32[[0]], u, int32[2] -> !INVALID_ARGUMENT "
        "Outer dimensions of indices and update must match. Indices shape: [1,1], updates shape:[2]",
        "u = PlaceholderWithDefault dtype=$T shape=?: [[1]]; : int32[[0]], u, int32[2] -> !INVALID_ARGUMENT "
        "Inner dimensions of output shape must match inner dimensions of updates shape. Output: [2] updates: [1,1]"));
