/* ops/array/gather.c -- slices of a tensor by index: Gather, GatherV2.
 *
 * params is seen as [batch, outer, n, inner] and indices as [batch, k]: the result is [batch,
 * outer, k, inner], a copy of `inner` elements for every (batch, outer, k). */
#include "graph/grad.h"
#include "ops/array/index.h"
#include "ops/array/layout.h"
#include "run/scratch.h"

/* ---- kernel ---- */

static mr_status *read_batch_dims(const mr_node *n, int indices_rank, int64_t *out)
{
    MR_TRY(mr_node_get_int(n, "batch_dims", out));
    if (*out < -indices_rank || *out > indices_rank)
        return mr_invalid("Expected batch_dims in the range [%d, %d], but got %lld", -indices_rank,
                          indices_rank, (long long)*out);
    *out += *out < 0 ? indices_rank : 0;
    return NULL;
}

static mr_status *check_batch(const mr_tensor *params, const mr_tensor *indices, int axis,
                              int batch)
{
    if (batch >= params->rank)
        return mr_invalid("batch_dims (%d) must be less than rank(params) (%d).", batch,
                          params->rank);
    if (axis < batch)
        return mr_invalid("batch_dims (%d) must be less than or equal to axis (%d).", batch, axis);
    for (int d = 0; d < batch; d++)
        if (params->dims[d] != indices->dims[d])
            return mr_invalid("params.shape[%d]: %lld should be equal to indices.shape[%d]: %lld",
                              d, (long long)params->dims[d], d, (long long)indices->dims[d]);
    return NULL;
}

static mr_status *gathered_shape(const mr_tensor *params, const mr_tensor *indices, int axis,
                                 int batch, mr_shape *out)
{
    mr_shape_set(out, axis, params->dims);
    for (int d = batch; d < indices->rank; d++)
        MR_TRY(mr_shape_push(out, indices->dims[d]));
    for (int d = axis + 1; d < params->rank; d++)
        MR_TRY(mr_shape_push(out, params->dims[d]));
    return NULL;
}

static mr_status *gather_slices(mr_run *r, int axis, int batch)
{
    const mr_tensor *params = mr_in(r, 0), *indices = mr_in(r, 1);
    mr_shape s;
    mr_tensor *out;
    int64_t *rows = NULL, n = params->dims[axis];
    int64_t inner = mr_dims_product(params->dims, axis + 1, params->rank);
    MR_TRY(check_batch(params, indices, axis, batch));
    MR_TRY(gathered_shape(params, indices, axis, batch, &s));
    int64_t batches = mr_dims_product(indices->dims, 0, batch);
    int64_t outer = mr_dims_product(params->dims, batch, axis);
    if (indices->n == 1 && batches * outer == 1) { /* contiguous */
        MR_TRY(mr_index_check(indices, "indices", n));
        return mr_share(r, 0, 0, mr_index_at(indices, 0) * inner, s.rank, s.dims);
    }
    MR_TRY(mr_index_load(r, indices, "indices", n, &rows));
    mr_status *st = mr_run_output(r, 0, s.rank, s.dims, &out);
    if (!st && out->n > 0)
        st = mr_gather_rows(r, &(mr_gather){out, params, inner, indices->n / batches, rows},
                            batches * outer, n, outer);
    mr_scratch_free(rows);
    return st;
}

static mr_status *run_gather(mr_run *r)
{
    if (mr_in(r, 0)->rank < 1)
        return mr_invalid("params must be at least 1 dimensional");
    return gather_slices(r, 0, 0);
}

static mr_status *run_gather_v2(mr_run *r)
{
    int axis = 0;
    int64_t batch = 0;
    if (mr_in(r, 0)->rank < 1)
        return mr_invalid("params must be at least 1 dimensional");
    MR_TRY(mr_in_axis(r, 2, mr_in(r, 0)->rank, &axis));
    MR_TRY(read_batch_dims(r->node, mr_in(r, 1)->rank, &batch));
    return gather_slices(r, axis, (int)batch);
}

/* ---- shape ---- */

static mr_status *gather_shape(mr_infer *c)
{
    const mr_pshape *params = NULL;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &params));
    c->out[0] = mr_infer_concat(c, c->in[1], mr_infer_sub(c, params, 1, MR_MAX_RANK));
    return NULL;
}

static mr_status *gather_v2_shape(mr_infer *c)
{
    const mr_pshape *params = NULL, *indices = c->in[1], *lead;
    int64_t batch = 0;
    int axis = -1;
    int64_t given;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &params));
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &lead));
    if (params->rank >= 0 && mr_infer_int(c, 2, &given))
        MR_TRY(mr_infer_position(given, params->rank, &axis));
    if (params->rank < 0 || indices->rank < 0)
        return NULL;
    MR_TRY(read_batch_dims(c->node, indices->rank, &batch));
    if (batch >= params->rank)
        return mr_invalid("batch_dims (%lld) must be less than rank(params) (%d).",
                          (long long)batch, params->rank);
    int rank = params->rank - 1 + indices->rank - (int)batch;
    if (rank > MR_MAX_RANK)
        return mr_invalid("the result would have %d dimensions, at most %d are possible", rank,
                          MR_MAX_RANK);
    c->out[0] = mr_pshape_new(c->arena, rank);
    if (axis < 0)
        return NULL;
    if (axis < batch)
        return mr_invalid("batch_dims (%lld) must be less than or equal to axis (%d).",
                          (long long)batch, axis);
    MR_TRY(mr_infer_merge(c, mr_infer_sub(c, params, 0, (int)batch),
                          mr_infer_sub(c, indices, 0, (int)batch), &lead));
    lead = mr_infer_concat(c, lead, mr_infer_sub(c, params, (int)batch, axis));
    lead = mr_infer_concat(c, lead, mr_infer_sub(c, indices, (int)batch, MR_MAX_RANK));
    c->out[0] = mr_infer_concat(c, lead, mr_infer_sub(c, params, axis + 1, MR_MAX_RANK));
    return NULL;
}

/* ---- gradient ---- */

/* `size` entries of a shape vector from `begin` on (-1: the rest). */
static mr_out shape_part(mr_grad *g, mr_out v, mr_out begin, mr_out size)
{
    mr_out b = mr_emit(g->s, "ExpandDims", begin, mr_const_i32(g->s, 0));
    mr_out s = mr_emit(g->s, "ExpandDims", size, mr_const_i32(g->s, 0));
    return mr_emit(g->s, "Slice", v, b, s);
}

static mr_out as_int32(mr_grad *g, mr_out v)
{
    return mr_out_type(v) == MR_INT32
               ? v
               : mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), v);
}

/* Along axis 0 the gradient is an IndexedSlices: the rows of dy with their row numbers. */
static void rows_backward(mr_grad *g)
{
    mr_out shape = mr_shape_of(g, mr_xi(g, 0));
    mr_out one = mr_const_i32(g->s, 1), all = mr_const_i32(g->s, -1);
    mr_out flat = mr_const_vec_i32(g->s, 1, (int32_t[]){-1});
    mr_out indices = mr_xi(g, 1);
    if (mr_out_type(indices) == MR_INT16)
        indices = as_int32(g, indices);
    indices = mr_emit(g->s, "Reshape", indices, flat);
    mr_out count =
        mr_emit(g->s, "ExpandDims", mr_emit(g->s, "Size", mr_xi(g, 1)), mr_const_i32(g->s, 0));
    mr_out tail = shape_part(g, shape, one, all);
    mr_out rows = mr_emit(g->s, "ConcatV2", count, tail, mr_const_i32(g->s, 0));
    mr_dxi_sparse(g, 0, mr_emit(g->s, "Reshape", mr_dyi(g, 0), rows), indices, shape);
}

/* The product of entries of a shape vector. */
static mr_out part_size(mr_grad *g, mr_out v, mr_out begin, mr_out size)
{
    return mr_emit(g->s, "Prod", shape_part(g, v, begin, size), mr_const_i32(g->s, 0));
}

typedef struct sizes { /* of params as [batch, outer, n, inner] and indices as [batch, k] */
    mr_out batch, outer, n, inner, k;
} sizes;

static sizes gather_sizes(mr_grad *g, mr_out shape, mr_out axis, int64_t batch_dims)
{
    mr_out zero = mr_const_i32(g->s, 0), one = mr_const_i32(g->s, 1), all = mr_const_i32(g->s, -1);
    mr_out batch = mr_const_i32(g->s, (int32_t)batch_dims), ishape = mr_shape_of(g, mr_xi(g, 1));
    return (sizes){
        .batch = part_size(g, shape, zero, batch),
        .outer = part_size(g, shape, batch, mr_emit(g->s, "Sub", axis, batch)),
        .n = part_size(g, shape, axis, one),
        .inner = part_size(g, shape, mr_emit(g->s, "Add", axis, one), all),
        .k = part_size(g, ishape, batch, all),
    };
}

/* Row numbers in [batch * n]: each batch's indices plus the number of its first row. */
static mr_out flat_rows(mr_grad *g, sizes z)
{
    mr_out zero = mr_const_i32(g->s, 0), one = mr_const_i32(g->s, 1);
    mr_out indices =
        mr_emit(g->s, "Reshape", as_int32(g, mr_xi(g, 1)), mr_emit(g->s, "Pack", z.batch, z.k));
    mr_out starts = mr_emit(g->s, "Mul", mr_emit(g->s, "Range", zero, z.batch, one), z.n);
    mr_out moved = mr_emit(g->s, "Add", indices, mr_emit(g->s, "ExpandDims", starts, one));
    return mr_emit(g->s, "Reshape", moved, mr_const_vec_i32(g->s, 1, (int32_t[]){-1}));
}

/* Sums dy as [batch, k, outer, inner] by row number, then restores the dimension order of params. */
static void general_backward(mr_grad *g, mr_out axis, int64_t batch_dims)
{
    mr_out shape = mr_shape_of(g, mr_xi(g, 0));
    mr_out swap = mr_const_vec_i32(g->s, 4, (int32_t[]){0, 2, 1, 3});
    mr_out rank = mr_emit(g->s, "Size", shape);
    sizes z =
        gather_sizes(g, shape, mr_emit(g->s, "FloorMod", as_int32(g, axis), rank), batch_dims);
    mr_out dy = mr_emit(g->s, "Reshape", mr_dyi(g, 0),
                        mr_emit(g->s, "Pack", z.batch, z.outer, z.k, z.inner));
    dy = mr_emit(g->s, "Transpose", dy, swap);
    mr_out rows = mr_emit(g->s, "Mul", z.batch, z.k),
           width = mr_emit(g->s, "Mul", z.outer, z.inner);
    dy = mr_emit(g->s, "Reshape", dy, mr_emit(g->s, "Pack", rows, width));
    mr_out total = mr_emit(g->s, "Mul", z.batch, z.n);
    mr_out dx = mr_emit(g->s, "UnsortedSegmentSum", dy, flat_rows(g, z), total);
    dx = mr_emit(g->s, "Reshape", dx, mr_emit(g->s, "Pack", z.batch, z.n, z.outer, z.inner));
    mr_dxi(g, 0, mr_emit(g->s, "Reshape", mr_emit(g->s, "Transpose", dx, swap), shape));
}

static bool is_axis_zero(mr_out axis)
{
    mr_tensor *t = NULL;
    mr_status *st = mr_out_value(axis, &t);
    bool zero = !st && t && t->n == 1 && mr_tensor_int_at(t, 0) == 0;
    mr_status_free(st);
    mr_tensor_unref(t);
    return zero;
}

static void gather_v2_backward(mr_grad *g)
{
    int64_t batch = 0;
    mr_status_free(mr_node_get_int(g->node, "batch_dims", &batch));
    int rank = mr_out_shape(mr_xi(g, 1))->rank;
    if (batch < 0 && rank < 0) {
        mr_grad_fail(
            g, MR_UNIMPLEMENTED,
            "the gradient of GatherV2 with negative batch_dims needs indices of known rank");
        return;
    }
    batch += batch < 0 ? rank : 0;
    if (batch == 0 && is_axis_zero(mr_xi(g, 2)))
        rows_backward(g);
    else
        general_backward(g, mr_xi(g, 2), batch);
}

MR_OP(Gather,
    .doc      = "slices of params along dimension 0, by index",
    .sig      = "params: Tparams, indices: Tindices -> output: Tparams",
    .attrs    = "validate_indices: bool = true; Tparams: type; Tindices: {int32, int64}",
    .key      = "Tparams",
    .shape    = gather_shape,
    .grad     = rows_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_gather)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4], [5, 6]], int32[2, 0, 2] -> [[5, 6], [1, 2], [5, 6]]",
        "[1, 2, 3], int64[[0, 1], [2, 0]] -> [[1, 2], [3, 1]]", "[1, 2], int32 1 -> 2",
        "[\"a\", \"b\"], int32[1, 1] -> [\"b\", \"b\"]", "[1, 2], int32 shape(0) -> shape(0)",
        "shape(2,0), int32[1] -> shape(1,0)",
        "[1, 2], int32[0, 2] -> !INVALID_ARGUMENT indices[1] = 2 is not in [0, 2)",
        "[1, 2], int32 -1 -> !INVALID_ARGUMENT indices = -1 is not in [0, 2)",
        "1, int32 0 -> !INVALID_ARGUMENT at least rank 1"));

MR_OP(GatherV2,
    .doc      = "slices of params along a dimension, by index",
    .sig      = "params: Tparams, indices: Tindices, axis: Taxis -> output: Tparams",
    .attrs    = "batch_dims: int = 0; Tparams: type; Tindices: {int16, int32, int64}; "
                "Taxis: {int32, int64}",
    .key      = "Tparams",
    .shape    = gather_v2_shape,
    .grad     = gather_v2_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_gather_v2)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4], [5, 6]], int32[2, 0], int32 0 -> [[5, 6], [1, 2]]",
        "[1, 2, 3], int16[2, 2], int32 0 -> [3, 3]",
        "[[1, 2, 3], [4, 5, 6]], int64[2, 0], int32 1 -> [[3, 1], [6, 4]]",
        "[[1, 2, 3], [4, 5, 6]], int16[[1], [1]], int64 -1 -> [[[2], [2]], [[5], [5]]]",
        "iota(2,3,2), int32[2, 0], int32 -2 -> [[[4, 5], [0, 1]], [[10, 11], [6, 7]]]",
        "batch_dims=1: [[1, 2, 3], [4, 5, 6]], int32[[0, 2], [1, 1]], int32 1 -> [[1, 3], [5, 5]]",
        "batch_dims=1: iota(2,2,2), int32[1, 0], int32 1 -> [[2, 3], [4, 5]]",
        "batch_dims=1: iota(2,2,2), int32[1, 0], int32 2 -> [[1, 3], [4, 6]]",
        "batch_dims=-1: [[1, 2], [3, 4]], int32[[0], [1]], int32 1 -> [[1], [4]]",
        "[\"a\", \"b\"], int32 1, int32 0 -> \"b\"",
        "iota(3,300), int32[2], int32 0 -> shape(1,300)",
        "shape(0,3), int32 shape(0), int32 0 -> shape(0,3)",
        "shape(2,3), int32 shape(0), int32 1 -> shape(2,0)",
        "[[1, 2]], int32[[0, 2]], int32 1 -> !INVALID_ARGUMENT indices[0,1] = 2 is not in [0, 2)",
        "[[1, 2]], int32[0], int32 2 -> !INVALID_ARGUMENT Shape must be at least rank 3 but is rank 2",
        "[[1, 2]], int32[0], int64 -9223372036854775808 -> !INVALID_ARGUMENT Shape must be at least rank "
        "9223372036854775808 but is rank 2",
        "batch_dims=1: [[1, 2]], int32[[0], [0]], int32 1 -> !INVALID_ARGUMENT must be equal",
        "i = PlaceholderWithDefault dtype=int32 shape=?: int32[[0], [0]]; batch_dims=1: [[1, 2]], "
        "i, int32 1 -> !INVALID_ARGUMENT params.shape[0]: 1 should be equal to indices.shape[0]: 2",
        "batch_dims=1: [[1, 2]], int32[[0]], int32 0 -> !INVALID_ARGUMENT must be less than or "
        "equal to axis"));
