/* ops/sparse/sparse_dense.c -- ops on a sparse and a dense tensor: SparseToDense, SparseTensorDenseAdd,
 * SparseDenseCwiseAdd, Mul and Div. */
#include "base/memory.h"
#include "ops/array/add_run.h"
#include "ops/array/blit.h"
#include "ops/array/index.h"
#include "ops/array/layout.h"
#include "ops/segment/segment.h"
#include "ops/sparse/sparse.h"
#include "run/scratch.h"

/* ---- SparseToDense ---- */

/* Converts indices of any integer type to an int64 matrix [n, rank], which the caller owns. */
static mr_status *wide_matrix(mr_run *r, const mr_tensor *t, int64_t n, int64_t rank,
                              mr_tensor **out)
{
    MR_TRY(mr_run_temp(r, MR_INT64, 2, (int64_t[]){n, rank}, out));
    mr_dtype_convert((mr_dtype)t->dtype, t->data, MR_INT64, (*out)->data, t->n, false);
    return NULL;
}

static mr_status *check_to_dense(const mr_tensor *indices, const mr_tensor *shape,
                                 const mr_tensor *values, const mr_tensor *rest, int64_t *n,
                                 int64_t *rank)
{
    if (indices->rank > 2)
        return mr_invalid("sparse_indices should be a scalar, vector, or matrix, got shape %s",
                          MR_TENSOR_SHAPE(indices));
    *n = indices->rank > 0 ? indices->dims[0] : 1;
    *rank = indices->rank > 1 ? indices->dims[1] : 1;
    if (shape->rank != 1)
        return mr_invalid("output_shape must be rank 1, got shape %s", MR_TENSOR_SHAPE(shape));
    if (shape->n != *rank)
        return mr_invalid("output_shape has incorrect number of elements: %lld should be: %lld",
                          (long long)shape->n, (long long)*rank);
    if (values->rank > 1 || (values->rank == 1 && values->n != *n))
        return mr_invalid("sparse_values has incorrect shape %s, should be [] or [%lld]",
                          MR_TENSOR_SHAPE(values), (long long)*n);
    return rest->rank == 0 ? NULL : mr_invalid("default_value should be a scalar.");
}

static mr_status *fill_default(mr_run *r, mr_tensor *out, const mr_tensor *value)
{
    if (mr_dtype_is_plain((mr_dtype)out->dtype))
        return mr_move_fill(r, out, 0, value->data, out->n);
    for (int64_t i = 0; i < out->n; i++)
        MR_TRY(mr_tensor_try_copy_elements(out, i, value, 0, 1));
    return NULL;
}

static mr_status *place_values(mr_run *r, const mr_sparse *s, const mr_tensor *values, mr_tensor *out)
{
    int64_t strides[MR_MAX_RANK];
    mr_sparse_strides(s, strides);
    MR_TRY(fill_default(r, out, mr_in(r, 3)));
    for (int64_t i = 0; i < s->n; i++)
        MR_TRY(mr_tensor_try_copy_elements(out,
                                           mr_sparse_flat(mr_sparse_at(s, i), strides, s->rank),
                                           values, values->rank ? i : 0, 1));
    return NULL;
}

static mr_status *run_to_dense(mr_run *r)
{
    const mr_tensor *shape = mr_in(r, 1), *values = mr_in(r, 2);
    mr_tensor *indices = NULL, *dims = NULL, *out;
    int64_t n = 0, rank = 0, total;
    mr_sparse s;
    mr_status *st = NULL;
    MR_TRY(check_to_dense(mr_in(r, 0), shape, values, mr_in(r, 3), &n, &rank));
    MR_GO(wide_matrix(r, mr_in(r, 0), n, rank, &indices));
    MR_GO(mr_run_temp(r, MR_INT64, 1, shape->dims, &dims));
    mr_dtype_convert((mr_dtype)shape->dtype, shape->data, MR_INT64, dims->data, shape->n, false);
    MR_GO(mr_sparse_of(indices, NULL, dims, "", &s));
    MR_GO(mr_sparse_elements(&s, &total));
    MR_GO((*(const bool *)r->state ? mr_sparse_check_order : mr_sparse_check_bounds)(&s));
    MR_GO(mr_run_output(r, 0, (int)rank, s.dims, &out));
    st = place_values(r, &s, values, out);
out:
    mr_tensor_unref(indices);
    mr_tensor_unref(dims);
    return st;
}

static mr_status *to_dense_init(mr_make *m, void *state)
{
    return mr_node_get_bool(m->node, "validate_indices", state);
}

static mr_status *to_dense_shape(mr_infer *c) { return mr_infer_shape_value(c, 1, &c->out[0]); }

/* Indices that are a scalar or a vector are reshaped to a matrix.  If one value went to all places, its gradient
 * is the sum. */
static void to_dense_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out dy = mr_dyi(g, 0), values = mr_xi(g, 2), zero = mr_const_i32(s, 0);
    mr_out as_rows = mr_emit(s, "Pack", mr_const_i32(s, -1), mr_emit(s, "Size", mr_xi(g, 1)));
    mr_out d = mr_emit(s, "GatherNd", dy, mr_emit(s, "Reshape", mr_xi(g, 0), as_rows));
    mr_out axes = mr_emit(s, "BroadcastGradientArgs", mr_shape_of(g, values), mr_shape_of(g, d));
    mr_out flat = mr_emit(s, "Reshape", dy, mr_const_vec_i32(s, 1, (int32_t[]){-1}));
    mr_dxi(g, 2, mr_emit(s, "Reshape", mr_emit(s, "Sum", d, axes), mr_shape_of(g, values)));
    mr_dxi(g, 3, mr_emit(s, "Sub", mr_emit(s, "Sum", flat, zero), mr_emit(s, "Sum", d, zero)));
}

MR_OP(SparseToDense,
    .doc      = "a tensor of default_value with values at indices",
    .sig      = "sparse_indices: Tindices, output_shape: Tindices, sparse_values: T, default_value: T -> dense: T",
    .attrs    = "validate_indices: bool = true; T: type; Tindices: {int32, int64}",
    .shape    = to_dense_shape,
    .grad     = to_dense_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_to_dense)),
    .state_bytes = sizeof(bool), .init = to_dense_init,
    .examples = MR_EXAMPLES(
        "int32[[0, 1], [1, 0]], int32[2, 2], [1, 2], 0 -> [[0, 1], [2, 0]]", "int64[1, 3], int64[4], 5, 1 -> [1, 5, 1, 5]",
        "int32 2, int32[3], 5, 0 -> [0, 0, 5]", "int32[[0]], int32[2], [\"a\"], \"b\" -> [\"a\", \"b\"]",
        "int32 shape(0,2), int32[1, 2], shape(0), 3 -> [[3, 3]]", "nograd validate_indices=false: int32[1, 0, 1], int32[2], [1, 2, 3], 0 -> [2, 3]",
        "int32[1, 0], int32[2], [1, 2], 0 -> !INVALID_ARGUMENT indices[1] = [0] is out of order",
        "int32[1, 1], int32[2], [1, 2], 0 -> !INVALID_ARGUMENT indices[1] = [1] is repeated",
        "int32[[0, 2]], int32[2, 2], [1], 0 -> !INVALID_ARGUMENT indices[0] = [0,2] is out of bounds: need 0 <= index < [2,2]",
        "int32[1], int32[2], [1, 2], 0 -> !INVALID_ARGUMENT sparse_values has incorrect shape [2], should be [] or [1]",
        "int32[1], int32[2, 2], [1], 0 -> !INVALID_ARGUMENT output_shape has incorrect number of elements"));

/* ---- SparseTensorDenseAdd ---- */

static mr_status *check_dense_add(const mr_tensor *indices, const mr_tensor *values,
                                  const mr_tensor *shape, const mr_tensor *b)
{
    if (indices->rank != 2 || values->rank != 1 || shape->rank != 1 ||
        values->n != indices->dims[0] || shape->n != indices->dims[1])
        return mr_invalid(
            "a_indices, a_values and a_shape of shapes %s, %s and %s do not form a sparse tensor",
            MR_TENSOR_SHAPE(indices), MR_TENSOR_SHAPE(values), MR_TENSOR_SHAPE(shape));
    if (shape->n != b->rank)
        return mr_invalid("Two operands have different ndims: %lld vs. %d", (long long)shape->n,
                          b->rank);
    for (int d = 0; d < b->rank; d++)
        if (mr_index_at(shape, d) != b->dims[d])
            return mr_invalid("Dimension %d does not equal (no broadcasting is supported): sparse "
                              "side %lld vs dense side %lld",
                              d, (long long)mr_index_at(shape, d), (long long)b->dims[d]);
    return NULL;
}

static mr_status *run_dense_add(mr_run *r)
{
    const mr_tensor *indices = mr_in(r, 0), *values = mr_in(r, 1), *b = mr_in(r, 3);
    mr_add_run *add = mr_add_run_of((mr_dtype)b->dtype);
    size_t size = mr_dtype_size((mr_dtype)b->dtype);
    int64_t *rows;
    mr_tensor *out;
    MR_TRY(check_dense_add(indices, values, mr_in(r, 2), b));
    for (int64_t i = 0; i < indices->n; i++)
        if ((uint64_t)mr_index_at(indices, i) >= (uint64_t)b->dims[i % b->rank])
            return mr_invalid("Sparse tensor has some invalid index on dimension %lld; dense tensor shape: %s",
                              (long long)(i / b->rank), MR_TENSOR_SHAPE(b));
    MR_TRY(mr_index_load_nd(r, indices, b->rank, b->dims, "shape", &rows));
    mr_status *st = mr_take_over(r, 3, 0, &out);
    for (int64_t i = 0; i < values->n && !st; i++)
        add((char *)out->data + (size_t)rows[i] * size,
            (const char *)values->data + (size_t)i * size, 1, 1);
    mr_scratch_free(rows);
    return st;
}

static mr_status *dense_add_shape(mr_infer *c)
{
    c->out[0] = c->in[3];
    return NULL;
}

static void dense_add_backward(mr_grad *g)
{
    mr_dxi(g, 1, mr_emit(g->s, "GatherNd", mr_dyi(g, 0), mr_xi(g, 0)));
    mr_dxi(g, 3, mr_dyi(g, 0));
}

MR_OP(SparseTensorDenseAdd,
    .doc      = "the sum of a sparse and a dense tensor of one shape",
    .sig      = "a_indices: Tindices, a_values: T, a_shape: Tindices, b: T -> output: T",
    .attrs    = "T: numbertype; Tindices: {int32, int64}",
    .shape    = dense_add_shape,
    .grad     = dense_add_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_dense_add)),
    .examples = MR_EXAMPLES(
        "int32[[0, 1], [1, 0]], [5, 6], int32[2, 2], [[1, 2], [3, 4]] -> [[1, 7], [9, 4]]",
        "int64[[1], [1]], [5, 6], int64[2], [1, 2] -> [1, 13]", "int32 shape(0,1), shape(0), int32[2], [1, 2] -> [1, 2]",
        "int32[[2]], [5], int32[2], [1, 2] -> !INVALID_ARGUMENT Sparse tensor has some invalid index on dimension 0; "
        "dense tensor shape: [2]",
        "int32[[0]], [5], int32[3], [1, 2] -> !INVALID_ARGUMENT Dimension 0 does not equal (no broadcasting is supported)",
        "int32[[0]], [5], int32[2], [[1, 2]] -> !INVALID_ARGUMENT Two operands have different ndims: 1 vs. 2"));

/* ---- SparseDenseCwise*: the dense tensor is broadcast, and only the elements of the sparse one are computed
 * ---- */

/* Strides of the dense tensor along the dimensions of the sparse one; 0 where it is broadcast. */
static mr_status *dense_strides(const mr_sparse *s, const mr_tensor *dense, int64_t *out)
{
    int64_t step = 1;
    bool fits = dense->rank <= s->rank && s->rank <= MR_MAX_RANK;
    for (int64_t d = s->rank - 1, k = dense->rank - 1; d >= 0 && fits; d--, k--) {
        int64_t n = k >= 0 ? dense->dims[k] : 1;
        fits = n == 1 || n == s->dims[d];
        out[d] = n == 1 ? 0 : step;
        step *= n;
    }
    return fits ? NULL
                : mr_invalid("SparseDenseBinaryOpShared broadcasts dense to sparse only; got "
                             "incompatible shapes: %s vs. %s",
                             MR_SHAPE_TEXT((int)MR_MIN(s->rank, MR_MAX_RANK), s->dims),
                             MR_TENSOR_SHAPE(dense));
}

/* Gathers the dense values at the indices of s into a new tensor. */
static mr_status *gather_dense(mr_run *r, const mr_sparse *s, const mr_tensor *dense,
                               mr_tensor **out)
{
    int64_t strides[MR_MAX_RANK], *rows;
    MR_TRY(dense_strides(s, dense, strides));
    MR_TRY(mr_sparse_check_bounds(s));
    MR_TRY(mr_new_i64(r, s->n, &rows));
    for (int64_t i = 0; i < s->n; i++)
        rows[i] = mr_sparse_flat(mr_sparse_at(s, i), strides, s->rank);
    mr_status *st = mr_run_temp(r, (mr_dtype)dense->dtype, 1, &s->n, out);
    if (!st)
        st = mr_sparse_pick(r, *out, dense, rows);
    mr_scratch_free(rows);
    return st;
}

static mr_status *run_cwise(mr_run *r, mr_update_kind kind)
{
    mr_sparse s;
    mr_tensor *others = NULL, *out;
    MR_TRY(mr_sparse_read(r, 0, "sp_", &s));
    MR_TRY(gather_dense(r, &s, mr_in(r, 3), &others));
    mr_status *st = mr_update_check(kind, others);
    if (!st)
        st = mr_run_output(r, 0, 1, &s.n, &out);
    if (!st)
        st = mr_tensor_try_copy_elements(out, 0, s.values, 0, s.n);
    if (!st)
        mr_update_find(kind, (mr_dtype)out->dtype)(out->data, others->data, s.n);
    mr_tensor_unref(others);
    return st;
}

static mr_status *cwise_add(mr_run *r) { return run_cwise(r, MR_UPDATE_ADD); }
static mr_status *cwise_mul(mr_run *r) { return run_cwise(r, MR_UPDATE_MUL); }
static mr_status *cwise_div(mr_run *r) { return run_cwise(r, MR_UPDATE_DIV); }

static mr_status *cwise_shape(mr_infer *c)
{
    int64_t n, rank;
    MR_TRY(mr_infer_sparse(c, 0, &n, &rank));
    mr_infer_out_vector(c, 0, n);
    return NULL;
}

/* The dense tensor reshaped to the rank of the sparse one, and the indices in it of the sparse one's
 * elements. */
typedef struct under {
    mr_out shape, places, values;
} under;

static under look_under(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out dense = mr_xi(g, 3), rank = mr_emit(s, "Size", mr_xi(g, 2));
    mr_out shape = mr_cast(g, mr_shape_of(g, dense), MR_INT64);
    mr_out more = mr_emit(s, "Sub", rank, mr_emit(s, "Size", shape));
    mr_out ones =
        mr_emit(s, "Fill", mr_emit(s, "ExpandDims", more, mr_const_i32(s, 0)), mr_const_i64(s, 1));
    under u = {.shape = mr_emit(s, "ConcatV2", ones, shape, mr_const_i32(s, 0))};
    /* along a dimension that is broadcast, all indices are 0 */
    mr_out moves = mr_cast(g, mr_emit(s, "NotEqual", u.shape, mr_const_i64(s, 1)), MR_INT64);
    u.places = mr_emit(s, "Mul", mr_xi(g, 0), moves);
    u.values = mr_emit(s, "GatherNd", mr_emit(s, "Reshape", dense, u.shape), u.places);
    return u;
}

static void give_dense(mr_grad *g, const under *u, mr_out d)
{
    mr_out sums = mr_emit(g->s, "ScatterNd", u->places, d, u->shape);
    mr_dxi(g, 3, mr_emit(g->s, "Reshape", sums, mr_shape_of(g, mr_xi(g, 3))));
}

static void add_backward(mr_grad *g)
{
    under u = look_under(g);
    mr_dxi(g, 1, mr_dyi(g, 0));
    give_dense(g, &u, mr_dyi(g, 0));
}

static void mul_backward(mr_grad *g)
{
    under u = look_under(g);
    mr_dxi(g, 1, mr_emit(g->s, "Mul", mr_dyi(g, 0), mr_conj(g, u.values)));
    give_dense(g, &u, mr_emit(g->s, "Mul", mr_dyi(g, 0), mr_conj(g, mr_xi(g, 1))));
}

static void div_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    under u = look_under(g);
    mr_out d =
        mr_emit(s, "RealDiv", mr_emit(s, "Neg", mr_xi(g, 1)), mr_emit(s, "Square", u.values));
    mr_dxi(g, 1, mr_emit(s, "RealDiv", mr_dyi(g, 0), mr_conj(g, u.values)));
    give_dense(g, &u, mr_emit(s, "Mul", mr_dyi(g, 0), mr_conj(g, d)));
}

#define CWISE(fn)                                                                            \
    .sig     = "sp_indices: int64, sp_values: T, sp_shape: int64, dense: T -> output: T",    \
    .attrs   = "T: numbertype", .shape = cwise_shape,                                        \
    .kernels = MR_KERNELS(MR_CPU_ONE(fn, MR_NUMBERS) MR_CPU_ONE(fn, MR_CODES))

MR_OP(SparseDenseCwiseAdd,
    .doc      = "a dense tensor added to the elements of a sparse one", CWISE(cwise_add), .grad = add_backward,
    .examples = MR_EXAMPLES(
        "[[0, 1], [1, 0]], [5, 6], [2, 2], [[1, 2], [3, 4]] -> [7, 9]", "[[0, 1], [1, 0]], [5, 6], [2, 2], [1, 2] -> [7, 7]",
        "[[0, 1], [1, 0]], [5, 6], [2, 2], [[1], [2]] -> [6, 8]", "[[0], [1]], [5, 6], [2], 3 -> [8, 9]",
        "shape(0,1), shape(0), [2], [1, 2] -> shape(0)",
        "[[0]], [5], [2], [1, 2, 3] -> !INVALID_ARGUMENT broadcasts dense to sparse only; got incompatible shapes: [2] vs. [3]",
        "[[2]], [5], [2], [1, 2] -> !INVALID_ARGUMENT is out of bounds"));
MR_OP(SparseDenseCwiseMul,
    .doc      = "the elements of a sparse tensor multiplied by a dense one", CWISE(cwise_mul), .grad = mul_backward,
    .examples = MR_EXAMPLES("[[0, 1], [1, 0]], [5, 6], [2, 2], [[1, 2], [3, 4]] -> [10, 18]",
                            "[[0, 1], [1, 1]], [5, 6], [2, 2], [1, 2] -> [10, 12]", "[[0]], [1i], [1], [1i] -> [-1]"));
MR_OP(SparseDenseCwiseDiv,
    .doc      = "the elements of a sparse tensor divided by a dense one", CWISE(cwise_div), .grad = div_backward,
    .examples = MR_EXAMPLES("[[0, 1], [1, 0]], [6, 6], [2, 2], [[1, 2], [3, 4]] -> [3, 2]",
                            "[[0, 1], [1, 1]], [4, 6], [2, 2], [1, 2] -> [2, 3]",
                            "T=int32: [[0]], [5], [1], [0] -> !INVALID_ARGUMENT Integer division by zero"));
