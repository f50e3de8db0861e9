/* ops/sparse/fill_empty_rows.c -- adds a default element to rows without elements: SparseFillEmptyRows,
 * RaggedFillEmptyRows, and their gradients.
 *
 * Elements are sorted by row with a counting sort, so rows may be in any order; within a row the order
 * does not change. */
#include "base/memory.h"
#include "ops/array/add_run.h"
#include "ops/array/index.h"
#include "ops/maths.h"
#include "ops/sparse/sparse.h"
#include "run/scratch.h"

/* ---- sorting by row ---- */

typedef struct filling {
    int64_t n, rows, width; /* elements; rows; numbers per index, of which the row is the first */
    const int64_t *at;      /* n indices of `width` numbers */
    const mr_tensor *values, *rest;
    int64_t *next; /* by row: the position of its next element */
    int64_t total; /* elements of the result */
} filling;

static mr_status *check_filling(const filling *f, const char *name)
{
    if (f->rest->rank != 0)
        return mr_invalid("default_value must be a scalar, saw: %s", MR_TENSOR_SHAPE(f->rest));
    if (f->rows == 0 && f->n > 0)
        return mr_invalid(
            "Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = %lld",
            (long long)f->n);
    for (int64_t i = 0; i < f->n; i++)
        if (f->at[i * f->width] < 0 || f->at[i * f->width] >= f->rows)
            return mr_invalid("%s is invalid: entry %lld = %lld is not in [0, %lld)", name,
                              (long long)i, (long long)f->at[i * f->width], (long long)f->rows);
    return NULL;
}

/* Sets output 2, which flags rows without elements, and next[row] to the position of the row's first element. */
static mr_status *count_rows(mr_run *r, filling *f)
{
    mr_tensor *empty;
    MR_TRY(mr_run_output(r, 2, 1, &f->rows, &empty));
    MR_TRY(mr_new_i64(r, f->rows, &f->next));
    memset(f->next, 0, (size_t)f->rows * sizeof(int64_t));
    for (int64_t i = 0; i < f->n; i++)
        f->next[f->at[i * f->width]]++;
    for (int64_t row = 0; row < f->rows; row++) {
        int64_t n = f->next[row];
        MR_DATA(uint8_t, empty)[row] = n == 0;
        f->next[row] = f->total;
        f->total += MR_MAX(n, 1);
    }
    return NULL;
}

/* Fills outputs 0 (indices), 1 and 3: the elements sorted by row, and defaults for rows that have none. */
static mr_status *fill_outputs(mr_run *r, filling *f, mr_tensor *indices)
{
    const mr_tensor *empty = r->out[2].t;
    mr_tensor *values, *map;
    int64_t *out = indices->data;
    MR_TRY(mr_run_output(r, 1, 1, &f->total, &values));
    MR_TRY(mr_run_output(r, 3, 1, &f->n, &map));
    for (int64_t row = 0; row < f->rows; row++) {
        if (!MR_DATA(const uint8_t, empty)[row])
            continue;
        memset(out + f->next[row] * f->width, 0, (size_t)f->width * sizeof(int64_t));
        out[f->next[row] * f->width] = row;
        MR_TRY(mr_tensor_try_copy_elements(values, f->next[row], f->rest, 0, 1));
    }
    for (int64_t i = 0; i < f->n; i++) {
        int64_t to = f->next[f->at[i * f->width]]++;
        memcpy(out + to * f->width, f->at + i * f->width, (size_t)f->width * sizeof(int64_t));
        MR_TRY(mr_tensor_try_copy_elements(values, to, f->values, i, 1));
        MR_DATA(int64_t, map)[i] = to;
    }
    return NULL;
}

static mr_status *fill_rows(mr_run *r, filling *f, const char *name, bool matrix)
{
    mr_tensor *indices;
    MR_TRY(check_filling(f, name));
    mr_status *st = count_rows(r, f);
    if (!st)
        st = mr_run_output(r, 0, matrix ? 2 : 1, (int64_t[]){f->total, f->width}, &indices);
    if (!st)
        st = fill_outputs(r, f, indices);
    mr_scratch_free(f->next);
    return st;
}

/* ---- forward ---- */

static mr_status *sparse_fill(mr_run *r)
{
    mr_sparse s;
    MR_TRY(mr_sparse_read(r, 0, "", &s));
    if (s.rank < 1)
        return mr_invalid("Dense shape cannot be empty.");
    return fill_rows(r, &(filling){s.n, s.dims[0], s.rank, s.at, s.values, mr_in(r, 3)}, "indices(i, 0)",
                     true);
}

static mr_status *ragged_fill(mr_run *r)
{
    const mr_tensor *ids = mr_in(r, 0), *values = mr_in(r, 1);
    int64_t rows;
    MR_TRY(mr_in_scalar_int(r, 2, "nrows", &rows));
    if (ids->rank != 1 || values->rank != 1 || ids->n != values->n)
        return mr_invalid(
            "value_rowids and values must be vectors of one length, got shapes %s and %s",
            MR_TENSOR_SHAPE(ids), MR_TENSOR_SHAPE(values));
    if (rows < 0)
        return mr_invalid("nrows must not be negative, got %lld", (long long)rows);
    return fill_rows(r, &(filling){ids->n, rows, 1, ids->data, values, mr_in(r, 3)}, "value_rowids(i)",
                     false);
}

static mr_status *sparse_fill_shape(mr_infer *c)
{
    const mr_pshape *scalar, *shape = NULL;
    int64_t n, rank;
    MR_TRY(mr_infer_sparse(c, 0, &n, &rank));
    MR_TRY(mr_infer_rank(c, c->in[3], 0, &scalar));
    MR_TRY(mr_infer_shape_value(c, 2, &shape));
    mr_infer_out_sparse(c, 0, -1, rank, false);
    mr_infer_out_vector(c, 2, shape->rank > 0 ? shape->dims[0] : -1);
    mr_infer_out_vector(c, 3, n);
    return NULL;
}

static mr_status *ragged_fill_shape(mr_infer *c)
{
    const mr_pshape *ids = NULL, *values = NULL, *scalar;
    int64_t n, rows = -1;
    MR_TRY(mr_infer_rank(c, c->in[0], 1, &ids));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &values));
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &scalar));
    MR_TRY(mr_infer_rank(c, c->in[3], 0, &scalar));
    MR_TRY(mr_infer_merge_dim(ids->dims[0], values->dims[0], &n));
    mr_infer_out_vector(c, 0, -1);
    mr_infer_out_vector(c, 1, -1);
    mr_infer_out_vector(c, 2, mr_infer_int(c, 2, &rows) && rows >= 0 ? rows : -1);
    mr_infer_out_vector(c, 3, n);
    return NULL;
}

static void fill_backward(mr_grad *g)
{
    mr_out d = mr_emit(g->s, "SparseFillEmptyRowsGrad", mr_yi(g, 3), mr_dyi(g, 1));
    mr_dxi(g, 1, d);
    mr_dxi(g, 3, mr_nth(d, 1));
}

MR_OP(SparseFillEmptyRows,
    .doc      = "rows of a sparse tensor that have no element get default_value in their first column",
    .sig      = "indices: int64, values: T, dense_shape: int64, default_value: T -> output_indices: int64, output_values: T, "
                "empty_row_indicator: bool, reverse_index_map: int64",
    .attrs    = "T: type",
    .shape    = sparse_fill_shape,
    .grad     = fill_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(sparse_fill)),
    .examples = MR_EXAMPLES(
        "[[0, 1], [2, 0]], [1, 2], [4, 2], 9 -> [[0, 1], [1, 0], [2, 0], [3, 0]], [1, 9, 2, 9], [false, true, false, true], [0, 2]",
        "[[1], [0]], [1, 2], [2], 9 -> [[0], [1]], [2, 1], [false, false], [1, 0]",
        "shape(0,1), shape(0), [1], \"a\" -> [[0]], [\"a\"], [true], shape(0)",
        "shape(0,1), shape(0), [0], 9 -> shape(0,1), shape(0), shape(0), shape(0)",
        "[[0]], [1], [0], 9 -> !INVALID_ARGUMENT Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = 1",
        "[[2]], [1], [2], 9 -> !INVALID_ARGUMENT indices(i, 0) is invalid: entry 0 = 2 is not in [0, 2)",
        "[[0]], [1], [2], [9] -> !INVALID_ARGUMENT must be rank 0"));
MR_OP(RaggedFillEmptyRows,
    .doc      = "rows of a ragged tensor that have no element get default_value",
    .sig      = "value_rowids: int64, values: T, nrows: int64, default_value: T -> output_value_rowids: int64, output_values: T, "
                "empty_row_indicator: bool, reverse_index_map: int64",
    .attrs    = "T: type",
    .shape    = ragged_fill_shape,
    .grad     = fill_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(ragged_fill)),
    .examples = MR_EXAMPLES(
        "[0, 2, 2], [1, 2, 3], 4, 9 -> [0, 1, 2, 2, 3], [1, 9, 2, 3, 9], [false, true, false, true], [0, 2, 3]",
        "shape(0), shape(0), 1, \"a\" -> [0], [\"a\"], [true], shape(0)",
        "[2], [1], 2, 9 -> !INVALID_ARGUMENT value_rowids(i) is invalid", "[0], [1], -1, 9 -> !INVALID_ARGUMENT nrows must not be negative"));

/* ---- backward: each element gets the gradient of its new position, the default that of all other positions
 * ---- */

static mr_status *check_map(const mr_tensor *map, const mr_tensor *grad)
{
    if (map->rank != 1)
        return mr_invalid("reverse_index_map must be a vector, saw: %s", MR_TENSOR_SHAPE(map));
    if (grad->rank != 1)
        return mr_invalid("grad_values must be a vector, saw: %s", MR_TENSOR_SHAPE(grad));
    for (int64_t i = 0; i < map->n; i++)
        if ((uint64_t)MR_DATA(const int64_t, map)[i] >= (uint64_t)grad->n)
            return mr_invalid("Elements in reverse index must be in [0, %lld) but got %lld",
                              (long long)grad->n, (long long)MR_DATA(const int64_t, map)[i]);
    return NULL;
}

/* 16-bit floats are added as floats. */
static void add_unused(const mr_tensor *grad, const bool *used, mr_tensor *sum)
{
    mr_dtype t = (mr_dtype)grad->dtype, wide = t == MR_HALF || t == MR_BFLOAT16 ? MR_FLOAT : t;
    mr_add_run *add = mr_add_run_of(wide);
    size_t size = mr_dtype_size(t);
    char total[16] = {0}, one[16];
    for (int64_t i = 0; i < grad->n; i++) {
        if (used[i])
            continue;
        memcpy(one, (const char *)grad->data + (size_t)i * size, size);
        if (wide != t)
            mr_dtype_convert(t, (const char *)grad->data + (size_t)i * size, wide, one, 1, false);
        add(total, one, 1, 1);
    }
    if (wide != t)
        mr_dtype_convert(wide, total, t, sum->data, 1, false);
    else
        memcpy(sum->data, total, size);
}

static mr_status *fill_grad(mr_run *r)
{
    const mr_tensor *map = mr_in(r, 0), *grad = mr_in(r, 1);
    mr_tensor *values, *rest;
    MR_TRY(check_map(map, grad));
    MR_TRY(mr_run_output(r, 0, 1, map->dims, &values));
    MR_TRY(mr_run_output(r, 1, 0, NULL, &rest));
    MR_TRY(mr_sparse_pick(r, values, grad, map->data));
    bool *used = mr_scratch_zeroed(r, (size_t)grad->n + 1, sizeof(bool));
    if (!used)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld elements", (long long)grad->n);
    for (int64_t i = 0; i < map->n; i++)
        used[MR_DATA(const int64_t, map)[i]] = true;
    add_unused(grad, used, rest);
    mr_scratch_free(used);
    return NULL;
}

static mr_status *fill_grad_shape(mr_infer *c)
{
    const mr_pshape *map = NULL, *grad;
    MR_TRY(mr_infer_rank(c, c->in[0], 1, &map));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &grad));
    c->out[0] = map;
    mr_infer_out_scalar(c, 1);
    return NULL;
}

#define FILL_GRAD                                                                                       \
    .sig     = "reverse_index_map: int64, grad_values: T -> d_values: T, d_default_value: T",           \
    .attrs   = "T: type", .shape = fill_grad_shape,                                                     \
    .kernels = MR_KERNELS(MR_CPU_ONE(fill_grad, MR_NUMBERS) MR_CPU_ONE(fill_grad, MR_ALL_CODES))

MR_OP(SparseFillEmptyRowsGrad, .doc = "the gradient of SparseFillEmptyRows", FILL_GRAD,
    .examples = MR_EXAMPLES("[0, 2], [1, 2, 3, 4] -> [1, 3], 6", "shape(0), [1, 2] -> shape(0), 3", "[0], [7] -> [7], 0",
                            "[2], [1, 2] -> !INVALID_ARGUMENT Elements in reverse index must be in [0, 2) but got 2"));
MR_OP(RaggedFillEmptyRowsGrad, .doc = "the gradient of RaggedFillEmptyRows", FILL_GRAD,
    .examples = MR_EXAMPLES("[0, 2], [1, 2, 3, 4] -> [1, 3], 6"));
