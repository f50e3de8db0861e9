/* ops/sparse/count.c -- counts how often each value occurs in each row: SparseBincount, RaggedBincount
 * (dense results), and DenseCountSparseOutput, SparseCountSparseOutput, RaggedCountSparseOutput (sparse
 * results). */
#include "base/memory.h"
#include "ops/sparse/sparse.h"
#include "run/scratch.h"

/* Values by row, the common form of dense, sparse and ragged inputs. */
typedef struct counted {
    const mr_tensor *values, *weights; /* weights: one per value, or none */
    int64_t n, rows;
    bool one;     /* the input has no rows, only values: results have one dimension less */
    int64_t *row; /* row of each value; NULL: all in row 0, or value i in row i / per_row */
    int64_t per_row;
} counted;

static int64_t row_of(const counted *c, int64_t i)
{
    return c->row ? c->row[i] : c->per_row ? i / c->per_row : 0;
}

/* ---- inputs ---- */

static mr_status *check_weights(const mr_tensor *values, const mr_tensor *weights)
{
    if (weights->n == 0 || mr_tensor_same_shape(values, weights))
        return NULL;
    return mr_invalid(
        "Weights and values must have the same shape. Weight shape: %s; values shape: %s",
        MR_TENSOR_SHAPE(weights), MR_TENSOR_SHAPE(values));
}

static mr_status *read_dense(const mr_tensor *values, const mr_tensor *weights, counted *c)
{
    if (values->rank < 1 || values->rank > 2)
        return mr_invalid("Input must be a 1 or 2-dimensional tensor. Got: %s",
                          MR_TENSOR_SHAPE(values));
    MR_TRY(check_weights(values, weights));
    *c = (counted){values, weights, values->n, values->rank == 2 ? values->dims[0] : 1,
                   values->rank == 1};
    c->per_row = values->rank == 2 ? values->dims[1] : 0;
    return NULL;
}

static mr_status *read_sparse(const mr_run *r, const mr_tensor *indices, const mr_tensor *values,
                              const mr_tensor *shape, const mr_tensor *weights, counted *c)
{
    mr_sparse s;
    MR_TRY(mr_sparse_of(indices, values, shape, "", &s));
    if (s.rank < 1 || s.rank > 2)
        return mr_invalid("Input must be a 1 or 2-dimensional tensor. Got: %lld dimensions",
                          (long long)s.rank);
    MR_TRY(mr_sparse_check_bounds(&s));
    MR_TRY(check_weights(values, weights));
    *c = (counted){values, weights, s.n, s.rank == 2 ? s.dims[0] : 1, s.rank == 1};
    if (c->one)
        return NULL;
    MR_TRY(mr_new_i64(r, s.n, &c->row));
    for (int64_t i = 0; i < s.n; i++)
        c->row[i] = mr_sparse_at(&s, i)[0];
    return NULL;
}

static mr_status *read_ragged(const mr_run *r, const mr_tensor *splits, const mr_tensor *values,
                              const mr_tensor *weights, counted *c)
{
    const int64_t *at = splits->data;
    if (splits->rank != 1 || splits->n < 1)
        return mr_invalid("Must provide at least 1 row split: splits has shape %s",
                          MR_TENSOR_SHAPE(splits));
    if (values->rank != 1)
        return mr_invalid("values must be a vector, got shape %s", MR_TENSOR_SHAPE(values));
    if (at[0] != 0)
        return mr_invalid("Splits must start with 0, not with %lld", (long long)at[0]);
    if (at[splits->n - 1] != values->n)
        return mr_invalid("Splits must end with the number of values, got %lld instead of %lld",
                          (long long)at[splits->n - 1], (long long)values->n);
    for (int64_t i = 1; i < splits->n; i++)
        if (at[i] < at[i - 1])
            return mr_invalid("Splits must not decrease: splits[%lld] = %lld", (long long)i,
                              (long long)at[i]);
    MR_TRY(check_weights(values, weights));
    *c = (counted){values, weights, values->n, splits->n - 1, false};
    MR_TRY(mr_new_i64(r, values->n, &c->row));
    for (int64_t row = 0; row + 1 < splits->n; row++)
        for (int64_t i = at[row]; i < at[row + 1]; i++)
            c->row[i] = row;
    return NULL;
}

/* ---- counting ---- */

/* Counts value i at result `at`: adds 1 or its weight, or sets it to 1 for binary output. */
#define COUNT(E, name, number, S, C, ADD)                                                             \
    static void count_##name(mr_tensor *out, int64_t at, const counted *c, int64_t i, bool binary)    \
    {                                                                                                 \
        S *p = MR_DATA(S, out) + at;                                                                  \
        S by = c->weights->n ? MR_DATA(const S, c->weights)[i] : 1;                                   \
        *p = binary ? 1 : (S)ADD(*p, by);                                                             \
    }
#define ADD_FLOATS(a, b) ((a) + (b))
#define ADD_INTS(a, b) ((uint64_t)(a) + (uint64_t)(b))
MR_INDEXES(COUNT, ADD_INTS)
MR_FLOATS32(COUNT, ADD_FLOATS)

typedef void count_fn(mr_tensor *out, int64_t at, const counted *c, int64_t i, bool binary);

static count_fn *count_of(mr_dtype t)
{
    return t == MR_INT32   ? count_int32
           : t == MR_INT64 ? count_int64
           : t == MR_FLOAT ? count_float
                           : count_double;
}

static mr_status *check_values(const counted *c)
{
    for (int64_t i = 0; i < c->n; i++)
        if (mr_tensor_int_at(c->values, i) < 0)
            return mr_invalid("Input values must all be non-negative: values[%lld] = %lld",
                              (long long)i, (long long)mr_tensor_int_at(c->values, i));
    return NULL;
}

/* ---- dense results ---- */

static mr_status *dense_bincount(mr_run *r, const counted *c, int size_input)
{
    int64_t size;
    mr_tensor *out;
    bool binary = *(const bool *)r->state;
    MR_TRY(mr_in_scalar_int(r, size_input, "size", &size));
    if (size < 0)
        return mr_invalid("size (%lld) must be non-negative", (long long)size);
    MR_TRY(check_values(c));
    int64_t dims[] = {c->rows, size};
    MR_TRY(mr_run_output(r, 0, c->one ? 1 : 2, c->one ? dims + 1 : dims, &out));
    mr_tensor_zero(out);
    count_fn *count = count_of((mr_dtype)out->dtype);
    for (int64_t i = 0; i < c->n; i++) {
        int64_t v = mr_tensor_int_at(c->values, i);
        if (v < size)
            count(out, row_of(c, i) * size + v, c, i, binary);
    }
    return NULL;
}

static mr_status *sparse_bincount(mr_run *r)
{
    counted c = {0};
    MR_TRY(read_sparse(r, mr_in(r, 0), mr_in(r, 1), mr_in(r, 2), mr_in(r, 4), &c));
    mr_status *st = dense_bincount(r, &c, 3);
    mr_scratch_free(c.row);
    return st;
}

static mr_status *ragged_bincount(mr_run *r)
{
    counted c = {0};
    MR_TRY(read_ragged(r, mr_in(r, 0), mr_in(r, 1), mr_in(r, 3), &c));
    mr_status *st = dense_bincount(r, &c, 2);
    mr_scratch_free(c.row);
    return st;
}

static mr_status *binary_init(mr_make *m, void *state)
{
    return mr_node_get_bool(m->node, "binary_output", state);
}

static mr_status *sparse_bincount_shape(mr_infer *c)
{
    const mr_pshape *scalar, *shape = NULL;
    int64_t n, rank, size = -1;
    MR_TRY(mr_infer_sparse(c, 0, &n, &rank));
    MR_TRY(mr_infer_rank(c, c->in[3], 0, &scalar));
    if (mr_infer_int(c, 3, &size) && size < 0)
        return mr_invalid("size (%lld) must be non-negative", (long long)size);
    MR_TRY(mr_infer_shape_value(c, 2, &shape));
    if (rank == 1)
        mr_infer_out_vector(c, 0, size);
    else if (rank == 2)
        c->out[0] = mr_pshape_matrix(c->arena, shape->rank == 2 ? shape->dims[0] : -1, size);
    return NULL;
}

static mr_status *ragged_bincount_shape(mr_infer *c)
{
    const mr_pshape *scalar, *splits = NULL;
    int64_t size = -1;
    MR_TRY(mr_infer_rank(c, c->in[0], 1, &splits));
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &scalar));
    if (mr_infer_int(c, 2, &size) && size < 0)
        return mr_invalid("size (%lld) must be non-negative", (long long)size);
    c->out[0] = mr_pshape_matrix(c->arena, splits->dims[0] > 0 ? splits->dims[0] - 1 : -1, size);
    return NULL;
}

#define BINCOUNT                                                                                      \
    .attrs = "Tidx: {int32, int64}; T: {int32, int64, float, double}; binary_output: bool = false",   \
    .flags = MR_NO_GRADIENT, .key = "T", .state_bytes = sizeof(bool), .init = binary_init

MR_OP(SparseBincount,
    .doc      = "how often, or with what weight, each number below size occurs in a sparse vector or in rows of a "
                "matrix",
    .sig      = "indices: int64, values: Tidx, dense_shape: int64, size: Tidx, weights: T -> output: T", BINCOUNT,
    .shape    = sparse_bincount_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(sparse_bincount)),
    .examples = MR_EXAMPLES(
        "[[0, 0], [0, 1], [2, 0]], int32[1, 1, 3], [3, 2], int32 4, shape(0) -> [[0, 2, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]",
        "[[0], [3]], int64[1, 1], [4], int64 2, [5, 6] -> [0, 11]",
        "binary_output=true: [[0], [3]], int32[1, 1], [4], int32 2, shape(0) -> [0, 1]", "[[0]], int32[7], [1], int32 2, shape(0) -> [0, 0]",
        "[[0]], int32[-1], [1], int32 2, shape(0) -> !INVALID_ARGUMENT must all be non-negative",
        "[[0]], int32[1], [1], int32 -2, shape(0) -> !INVALID_ARGUMENT size (-2) must be non-negative",
        "[[5, 0]], int32[1], [2, 2], int32 2, shape(0) -> !INVALID_ARGUMENT is out of bounds",
        "[[0]], int32[1], [1], int32 2, [1, 2] -> !INVALID_ARGUMENT Weights and values must have the same shape"));
MR_OP(RaggedBincount,
    .doc      = "how often, or with what weight, each number below size occurs in rows of a ragged tensor",
    .sig      = "splits: int64, values: Tidx, size: Tidx, weights: T -> output: T", BINCOUNT,
    .shape    = ragged_bincount_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(ragged_bincount)),
    .examples = MR_EXAMPLES(
        "[0, 2, 2, 3], int32[1, 1, 0], int32 2, shape(0) -> [[0, 2], [0, 0], [1, 0]]", "[0, 2], int64[1, 0], int64 2, [5, 6] -> [[6, 5]]",
        "[1, 2], int32[1, 0], int32 2, shape(0) -> !INVALID_ARGUMENT Splits must start with 0, not with 1",
        "[0, 1], int32[1, 0], int32 2, shape(0) -> !INVALID_ARGUMENT Splits must end with the number of values, got 1 instead of 2",
        "[0, 3, 2], int32[1, 0], int32 2, shape(0) -> !INVALID_ARGUMENT Splits must not decrease",
        "shape(0), int32 shape(0), int32 2, shape(0) -> !INVALID_ARGUMENT Must provide at least 1 row split"));

/* ---- sparse results ---- */

typedef struct limits {
    int64_t min, max;
    bool binary;
} limits;

static mr_status *limits_init(mr_make *m, void *p)
{
    limits *l = p;
    MR_TRY(mr_node_get_int(m->node, "minlength", &l->min));
    MR_TRY(mr_node_get_int(m->node, "maxlength", &l->max));
    return mr_node_get_bool(m->node, "binary_output", &l->binary);
}

/* Collects the values below maxlength as keys [row, value]; which[k] is the index of the value of key k. */
static mr_status *collect_keys(const mr_run *r, const counted *c, const limits *l, int64_t **keys,
                               int64_t **which, int64_t *n, int64_t *top)
{
    *n = *top = 0;
    *which = NULL;
    int64_t two;
    if (!mr_i64_mul(c->n, 2, &two))
        return mr_error(MR_RESOURCE_EXHAUSTED, "too many values to count");
    MR_TRY(mr_new_i64(r, two, keys));
    MR_TRY(mr_new_i64(r, c->n, which));
    for (int64_t i = 0; i < c->n; i++) {
        int64_t v = mr_tensor_int_at(c->values, i);
        if (l->max >= 0 && v >= l->max)
            continue;
        (*keys)[2 * *n] = row_of(c, i);
        (*keys)[2 * *n + 1] = v;
        (*which)[(*n)++] = i;
        *top = MR_MAX(*top, v);
    }
    return NULL;
}

/* Sorts the keys and writes one entry of the result for each group of equal keys. */
static mr_status *write_counts(mr_run *r, const counted *c, const limits *l, const mr_sparse *k,
                               const int64_t *which, const int64_t *order)
{
    int64_t n = 0, at = -1;
    int width = c->one ? 1 : 2;
    mr_tensor *indices, *values;
    for (int64_t i = 0; i < k->n; i++)
        n += i == 0 ||
             mr_sparse_compare(mr_sparse_at(k, order[i - 1]), mr_sparse_at(k, order[i]), 2) != 0;
    MR_TRY(mr_sparse_output(r, 0, n, width, &indices, &values));
    mr_tensor_zero(values);
    count_fn *count = count_of((mr_dtype)values->dtype);
    for (int64_t i = 0; i < k->n; i++) {
        const int64_t *key = mr_sparse_at(k, order[i]);
        if (i == 0 || mr_sparse_compare(mr_sparse_at(k, order[i - 1]), key, 2) != 0)
            memcpy(MR_DATA(int64_t, indices) + ++at * width, key + (c->one ? 1 : 0),
                   (size_t)width * sizeof(int64_t));
        count(values, at, c, which[order[i]], l->binary);
    }
    return NULL;
}

static mr_status *count_sparse(mr_run *r, const counted *c)
{
    const limits *l = r->state;
    int64_t *keys = NULL, *which = NULL, *order = NULL, n, top;
    mr_status *st = NULL;
    MR_TRY(check_values(c));
    MR_GO(collect_keys(r, c, l, &keys, &which, &n, &top));
    mr_sparse k = {.n = n, .rank = 2, .at = keys};
    MR_GO(mr_sparse_sort(r, &k, &order));
    MR_GO(write_counts(r, c, l, &k, which, order));
    int64_t size = l->max >= 0 ? l->max : MR_MAX(top == INT64_MAX ? top : top + 1, l->min);
    st = mr_give_vector(r, 2, c->one ? 1 : 2, c->one ? &size : (int64_t[]){c->rows, size});
out:
    mr_scratch_free(keys);
    mr_scratch_free(which);
    mr_scratch_free(order);
    return st;
}

static mr_status *dense_count(mr_run *r)
{
    counted c;
    MR_TRY(read_dense(mr_in(r, 0), mr_in(r, 1), &c));
    return count_sparse(r, &c);
}

static mr_status *sparse_count(mr_run *r)
{
    counted c = {0};
    MR_TRY(read_sparse(r, mr_in(r, 0), mr_in(r, 1), mr_in(r, 2), mr_in(r, 3), &c));
    mr_status *st = count_sparse(r, &c);
    mr_scratch_free(c.row);
    return st;
}

static mr_status *ragged_count(mr_run *r)
{
    counted c = {0};
    MR_TRY(read_ragged(r, mr_in(r, 0), mr_in(r, 1), mr_in(r, 2), &c));
    mr_status *st = count_sparse(r, &c);
    mr_scratch_free(c.row);
    return st;
}

static mr_status *dense_count_shape(mr_infer *c)
{
    mr_infer_out_sparse(c, 0, -1, c->in[0]->rank == 1 || c->in[0]->rank == 2 ? c->in[0]->rank : -1,
                        true);
    return NULL;
}

static mr_status *sparse_count_shape(mr_infer *c)
{
    int64_t n, rank;
    MR_TRY(mr_infer_sparse(c, 0, &n, &rank));
    mr_infer_out_sparse(c, 0, -1, rank, true);
    return NULL;
}

static mr_status *ragged_count_shape(mr_infer *c)
{
    mr_infer_out_sparse(c, 0, -1, 2, true);
    return NULL;
}

#define COUNT_OP                                                                                                    \
    .attrs = "T: {int32, int64}; minlength: int >= -1 = -1; maxlength: int >= -1 = -1; binary_output: bool; "       \
             "output_type: {int32, int64, float, double}",                                                          \
    .flags = MR_NO_GRADIENT, .key = "output_type", .state_bytes = sizeof(limits), .init = limits_init
#define COUNT_OUT " -> output_indices: int64, output_values: output_type, output_dense_shape: int64"

MR_OP(DenseCountSparseOutput,
    .doc      = "how often, or with what weight, each value occurs in a vector or in rows of a matrix, as a sparse "
                "tensor",
    .sig      = "values: T, weights: output_type" COUNT_OUT, COUNT_OP,
    .shape    = dense_count_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(dense_count)),
    .examples = MR_EXAMPLES(
        "binary_output=false: int32[[1, 1, 7], [3, 3, 3]], shape(0) -> [[0, 1], [0, 7], [1, 3]], [2, 1, 3], [2, 8]",
        "binary_output=true: int64[5, 1, 5], shape(0) -> [[1], [5]], [1, 1], [6]",
        "binary_output=false maxlength=3: int32[5, 1, 2], [4, 5, 6] -> [[1], [2]], [5, 6], [3]",
        "binary_output=false minlength=9: int32[1], shape(0) -> [[1]], [1], [9]",
        "binary_output=false: int32 shape(0), shape(0) -> shape(0,1), shape(0), [1]",
        "binary_output=false: int32[-1], shape(0) -> !INVALID_ARGUMENT must all be non-negative",
        "binary_output=false: int32 1, shape(0) -> !INVALID_ARGUMENT Input must be a 1 or 2-dimensional tensor."));
MR_OP(SparseCountSparseOutput,
    .doc      = "how often, or with what weight, each value occurs in a sparse vector or in rows of a matrix",
    .sig      = "indices: int64, values: T, dense_shape: int64, weights: output_type" COUNT_OUT, COUNT_OP,
    .shape    = sparse_count_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(sparse_count)),
    .examples = MR_EXAMPLES(
        "binary_output=false: [[0, 0], [0, 1], [2, 0]], int32[1, 1, 3], [3, 2], shape(0) -> [[0, 1], [2, 3]], [2, 1], [3, 4]",
        "binary_output=false: [[0], [3]], int64[1, 1], [4], [5, 6] -> [[1]], [11], [2]",
        "binary_output=false: [[0, 0]], int32[1], [0, 2], shape(0) -> !INVALID_ARGUMENT is out of bounds"));
MR_OP(RaggedCountSparseOutput,
    .doc      = "how often, or with what weight, each value occurs in rows of a ragged tensor, as a sparse tensor",
    .sig      = "splits: int64, values: T, weights: output_type" COUNT_OUT, COUNT_OP,
    .shape    = ragged_count_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(ragged_count)),
    .examples = MR_EXAMPLES(
        "binary_output=false: [0, 2, 2, 3], int32[1, 1, 0], shape(0) -> [[0, 1], [2, 0]], [2, 1], [3, 2]",
        "binary_output=true: [0, 2], int64[4, 4], shape(0) -> [[0, 4]], [1], [1, 5]",
        "binary_output=false: [0, 1], int32[1, 0], shape(0) -> !INVALID_ARGUMENT Splits must end with the number of values"));
