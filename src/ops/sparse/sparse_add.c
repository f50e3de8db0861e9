/* ops/sparse/sparse_add.c -- combines two sparse tensors element by element: SparseAdd and its gradient,
 * SparseSparseMaximum, SparseSparseMinimum.
 *
 * Both are merged in row-major order.  An element that is in only one of them is combined with zero.
 * Indices are only compared and copied, so those beyond the dense shape do no harm. */
#include "base/memory.h"
#include "ops/sparse/sparse.h"
#include "ops/state/update.h"
#include "run/scratch.h"

/* ---- the merge ---- */

typedef struct meeting {
    int64_t a, b; /* the elements at this index; -1: none */
} meeting;

static mr_status *ranks_differ(const mr_sparse *a, const mr_sparse *b)
{
    mr_str text = {0};
    mr_str_appendz(&text, "Operands do not have the same ranks; got shapes: ");
    mr_tensor_summarize(a->shape, 10, &text);
    mr_str_appendz(&text, " and ");
    mr_tensor_summarize(b->shape, 10, &text);
    mr_status *st = mr_invalid("%s", mr_str_z(&text));
    mr_str_deinit(&text);
    return st;
}

static mr_status *check_pair(const mr_sparse *a, const mr_sparse *b)
{
    if (a->rank != b->rank)
        return ranks_differ(a, b);
    for (int64_t d = 0; d < a->rank; d++)
        if (a->dims[d] != b->dims[d])
            return mr_invalid("Operands' shapes do not match: got %lld and %lld for dimension %lld",
                              (long long)a->dims[d], (long long)b->dims[d], (long long)d);
    return NULL;
}

/* Merges the indices of both, in order. */
static mr_status *merge_places(const mr_run *r, const mr_sparse *a, const mr_sparse *b, meeting **out,
                               int64_t *n)
{
    size_t bytes;
    *out = mr_size_mul((size_t)a->n + (size_t)b->n + 1, sizeof **out, &bytes) ? mr_scratch(r, bytes)
                                                                              : NULL;
    if (!*out)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to join %lld and %lld elements",
                        (long long)a->n, (long long)b->n);
    *n = 0;
    for (int64_t i = 0, k = 0; i < a->n || k < b->n;) {
        int c = i == a->n   ? 1
                : k == b->n ? -1
                            : mr_sparse_compare(mr_sparse_at(a, i), mr_sparse_at(b, k), a->rank);
        (*out)[(*n)++] = (meeting){c <= 0 ? i : -1, c >= 0 ? k : -1};
        i += c <= 0;
        k += c >= 0;
    }
    return NULL;
}

static void write_indices(const mr_sparse *a, const mr_sparse *b, const meeting *m, int64_t n,
                          int64_t *out)
{
    for (int64_t i = 0; i < n; i++, out += a->rank)
        memcpy(out, m[i].a >= 0 ? mr_sparse_at(a, m[i].a) : mr_sparse_at(b, m[i].b),
               (size_t)a->rank * sizeof *out);
}

/* out[i] = a OP b; a missing element counts as *zero (if zero is NULL, the result is the other element). */
static void join_values(mr_update_kind kind, const mr_sparse *a, const mr_sparse *b,
                        const meeting *m, int64_t n, const void *zero, mr_tensor *out)
{
    size_t size = mr_dtype_size((mr_dtype)out->dtype);
    mr_update_loop *loop = mr_update_find(kind, (mr_dtype)out->dtype);
    char *to = out->data;
    for (int64_t i = 0; i < n; i++, to += size) {
        const char *x = m[i].a >= 0 ? (const char *)a->values->data + (size_t)m[i].a * size : zero;
        const char *y = m[i].b >= 0 ? (const char *)b->values->data + (size_t)m[i].b * size : zero;
        memcpy(to, x ? x : y, size);
        if (x && y)
            loop(to, y, 1);
    }
}

/* ---- SparseAdd ---- */

/* The absolute value in a type that can represent those of every other type. */
static long double absolute_value(mr_dtype t, const void *p)
{
#define REAL_CASE(E, name, number, S, C, ...) \
    case MR_##E: return fabsl((long double)MR_LD((const S *)p));
    switch (t) {
        MR_REALS(REAL_CASE, )
        MR_CODES(REAL_CASE, )
    case MR_COMPLEX64: return cabsf(*(const mr_c64 *)p);
    case MR_COMPLEX128: return cabs(*(const mr_c128 *)p);
    default: MR_ASSERT(false); return 0;
    }
}

/* The threshold with its sign: a negative one keeps everything. */
static long double threshold_of(const mr_tensor *t)
{
#define THRESH_CASE(E, name, number, S, C, ...) \
    case MR_##E: return (long double)MR_LD(MR_DATA(const S, t));
    switch (t->dtype) {
        MR_REALS(THRESH_CASE, )
    default: MR_ASSERT(false); return 0;
    }
}

/* Drops sums of two elements that are below the threshold; a threshold of zero drops only NaN.  An element that is in
 * only one operand is not a sum and stays, however small it is. */
static int64_t keep_large(meeting *m, mr_tensor *sums, int64_t n, long double threshold)
{
    mr_dtype t = (mr_dtype)sums->dtype;
    size_t size = mr_dtype_size(t);
    char *v = sums->data;
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (m[i].a >= 0 && m[i].b >= 0 && !(threshold <= absolute_value(t, v + (size_t)i * size)))
            continue;
        m[kept] = m[i];
        memmove(v + (size_t)kept++ * size, v + (size_t)i * size, size);
    }
    return kept;
}

static mr_status *run_add(mr_run *r)
{
    mr_sparse a, b;
    meeting *m = NULL;
    mr_tensor *sums = NULL, *indices, *values;
    int64_t n;
    mr_status *st = NULL;
    MR_TRY(mr_sparse_read(r, 0, "a_", &a));
    MR_TRY(mr_sparse_read(r, 3, "b_", &b));
    if (mr_in(r, 6)->rank != 0)
        return mr_invalid("The magnitude threshold must be a scalar: got shape %s",
                          MR_TENSOR_SHAPE(mr_in(r, 6)));
    MR_TRY(check_pair(&a, &b));
    MR_TRY(merge_places(r, &a, &b, &m, &n));
    MR_GO(mr_run_temp(r, (mr_dtype)a.values->dtype, 1, &n, &sums));
    join_values(MR_UPDATE_ADD, &a, &b, m, n, NULL, sums);
    n = keep_large(m, sums, n, threshold_of(mr_in(r, 6)));
    MR_GO(mr_sparse_output(r, 0, n, a.rank, &indices, &values));
    write_indices(&a, &b, m, n, indices->data);
    MR_GO(mr_tensor_try_copy_elements(values, 0, sums, 0, n));
    st = mr_give_vector(r, 2, a.rank, a.dims);
out:
    mr_scratch_free(m);
    mr_tensor_unref(sums);
    return st;
}

static mr_status *infer_pair(mr_infer *c, int64_t *rank)
{
    int64_t n, other;
    MR_TRY(mr_infer_sparse(c, 0, &n, rank));
    MR_TRY(mr_infer_sparse(c, 3, &n, &other));
    return mr_infer_merge_dim(*rank, other, rank);
}

static mr_status *add_shape(mr_infer *c)
{
    int64_t rank;
    MR_TRY(infer_pair(c, &rank));
    mr_infer_out_sparse(c, 0, -1, rank, true);
    return NULL;
}

static void add_backward(mr_grad *g)
{
    mr_out d = mr_emit(g->s, "SparseAddGrad", mr_dyi(g, 1), mr_xi(g, 0), mr_xi(g, 3), mr_yi(g, 0));
    mr_dxi(g, 1, d);
    mr_dxi(g, 4, mr_nth(d, 1));
}

MR_OP(SparseAdd,
    .doc      = "the sum of two sparse tensors, without sums smaller than thresh",
    .sig      = "a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, b_shape: int64, "
                "thresh: Treal -> sum_indices: int64, sum_values: T, sum_shape: int64",
    .attrs    = "T: numbertype; Treal: realnumbertype",
    .shape    = add_shape,
    .grad     = add_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_add, MR_NUMBERS) MR_CPU_ONE(run_add, MR_CODES)),
    .examples = MR_EXAMPLES(
        "[[0, 0], [1, 1]], [1, 2], [2, 2], [[0, 1], [1, 1]], [3, 4], [2, 2], float 0 -> [[0, 0], [0, 1], [1, 1]], [1, 3, 6], [2, 2]",
        "nograd: [[0], [1]], [1, 5], [2], [[0]], [1], [2], int32 3 -> [[1]], [5], [2]",
        "shape(0,1), shape(0), [2], [[1]], [4], [2], double 0 -> [[1]], [4], [2]",
        "nograd: [[0]], [3+4i], [1], shape(0,1), shape(0), [1], float 5 -> [[0]], [3+4i], [1]",
        "[[0]], [1], [2], [[0]], [1], [3], float 0 -> !INVALID_ARGUMENT Operands' shapes do not match: got 2 and 3 "
        "for dimension 0",
        "nograd: [[0]], [1], [2], [[5]], [2], [2], float 9 -> [[0], [5]], [1, 2], [2]",
        "[[-1], [7]], [1, 2], [2], [[7]], [3], [2], float 0 -> [[-1], [7]], [1, 5], [2]",
        "[[0]], [1], [2], [[0]], [1], [2], float[0] -> !INVALID_ARGUMENT The magnitude threshold must be a scalar"));

/* ---- its gradient ---- */

/* Sets output o: element i is the gradient of the sum's element at the same index, or zero if there is none. */
static mr_status *spread_sums(mr_run *r, int o, const mr_tensor *indices)
{
    const mr_tensor *grad = mr_in(r, 0), *sums = mr_in(r, 3);
    int64_t rank = sums->dims[1], k = 0;
    mr_tensor *out;
    MR_TRY(mr_tensor_zeros(mr_run_allocator(r), (mr_dtype)grad->dtype, 1, indices->dims, &out));
    mr_run_set(r, o, out);
    for (int64_t i = 0; i < out->n; i++) {
        const int64_t *at = MR_DATA(const int64_t, indices) + i * rank;
        while (k < sums->dims[0] &&
               mr_sparse_compare(MR_DATA(const int64_t, sums) + k * rank, at, rank) < 0)
            k++;
        if (k < sums->dims[0] &&
            mr_sparse_compare(MR_DATA(const int64_t, sums) + k * rank, at, rank) == 0)
            MR_TRY(mr_tensor_try_copy_elements(out, i, grad, k, 1));
    }
    return NULL;
}

static mr_status *run_add_grad(mr_run *r)
{
    const mr_tensor *grad = mr_in(r, 0), *a = mr_in(r, 1), *b = mr_in(r, 2), *sums = mr_in(r, 3);
    if (a->rank != 2 || b->rank != 2 || sums->rank != 2)
        return mr_invalid("a_indices, b_indices and sum_indices should be matrices but received "
                          "shapes: %s, %s and %s",
                          MR_TENSOR_SHAPE(a), MR_TENSOR_SHAPE(b), MR_TENSOR_SHAPE(sums));
    if (grad->rank != 1 || grad->n != sums->dims[0])
        return mr_invalid("# elements of backprop_val_grad and # rows of sum_indices should match "
                          "(#nnz of sum): shapes %s and %s",
                          MR_TENSOR_SHAPE(grad), MR_TENSOR_SHAPE(sums));
    if (a->dims[1] != b->dims[1] || a->dims[1] != sums->dims[1])
        return mr_invalid("The densified operands should have the same ndims: %s, %s and %s",
                          MR_TENSOR_SHAPE(a), MR_TENSOR_SHAPE(b), MR_TENSOR_SHAPE(sums));
    MR_TRY(spread_sums(r, 0, a));
    return spread_sums(r, 1, b);
}

static mr_status *add_grad_shape(mr_infer *c)
{
    const mr_pshape *a = NULL, *b = NULL, *sums;
    MR_TRY(mr_infer_rank(c, c->in[1], 2, &a));
    MR_TRY(mr_infer_rank(c, c->in[2], 2, &b));
    MR_TRY(mr_infer_rank(c, c->in[3], 2, &sums));
    mr_infer_out_vector(c, 0, a->dims[0]);
    mr_infer_out_vector(c, 1, b->dims[0]);
    return NULL;
}

MR_OP(SparseAddGrad,
    .doc      = "the gradient of SparseAdd",
    .sig      = "backprop_val_grad: T, a_indices: int64, b_indices: int64, sum_indices: int64 -> a_val_grad: T, b_val_grad: T",
    .attrs    = "T: numbertype",
    .flags    = MR_NO_GRADIENT,
    .shape    = add_grad_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_add_grad)),
    .examples = MR_EXAMPLES(
        "[5, 6, 7], [[0, 0], [1, 1]], [[0, 1], [1, 1]], [[0, 0], [0, 1], [1, 1]] -> [5, 7], [6, 7]",
        "[7], [[0]], [[1]], [[1]] -> [0], [7]", "shape(0), shape(0,1), shape(0,1), shape(0,1) -> shape(0), shape(0)",
        "[1, 2], [[0]], [[1]], [[1]] -> !INVALID_ARGUMENT should match (#nnz of sum)",
        "[1], [[0, 0]], [[1]], [[1]] -> !INVALID_ARGUMENT should have the same ndims"));

/* ---- maximum and minimum ---- */

static mr_status *run_extreme(mr_run *r, mr_update_kind kind)
{
    static const char zero[16];
    mr_sparse a, b;
    meeting *m;
    mr_tensor *indices, *values;
    int64_t n;
    MR_TRY(mr_sparse_read(r, 0, "a_", &a));
    MR_TRY(mr_sparse_read(r, 3, "b_", &b));
    MR_TRY(check_pair(&a, &b));
    MR_TRY(merge_places(r, &a, &b, &m, &n));
    mr_status *st = mr_sparse_output(r, 0, n, a.rank, &indices, &values);
    if (!st) {
        write_indices(&a, &b, m, n, indices->data);
        join_values(kind, &a, &b, m, n, zero, values);
    }
    mr_scratch_free(m);
    return st;
}

static mr_status *run_maximum(mr_run *r) { return run_extreme(r, MR_UPDATE_MAX); }
static mr_status *run_minimum(mr_run *r) { return run_extreme(r, MR_UPDATE_MIN); }

/* The kernel reports operands of different ranks or shapes, as in TensorFlow. */
static mr_status *extreme_shape(mr_infer *c)
{
    static const int ranks[] = {2, 1, 1};
    const mr_pshape *shapes[6];
    for (int i = 0; i < 6; i++)
        MR_TRY(mr_infer_rank(c, c->in[i], ranks[i % 3], &shapes[i]));
    bool same = shapes[2]->dims[0] == shapes[5]->dims[0];
    mr_infer_out_sparse(c, 0, -1, same ? shapes[2]->dims[0] : -1, false);
    return NULL;
}

#define EXTREME                                                                                                    \
    .sig   = "a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, b_shape: int64 -> "    \
             "output_indices: int64, output_values: T",                                                            \
    .flags = MR_NO_GRADIENT, .shape = extreme_shape

MR_OP(SparseSparseMaximum,
    .doc      = "the larger of two sparse tensors, element by element; a missing element counts as zero", EXTREME,
    .attrs    = "T: realnumbertype",
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_maximum, MR_REALS)),
    .examples = MR_EXAMPLES("[[0], [1]], [5, 2], [3], [[1], [2]], [7, 3], [3] -> [[0], [1], [2]], [5, 7, 3]",
                            "[[0]], [-5], [1], shape(0,1), shape(0), [1] -> [[0]], [0]",
                            "[[0]], [5], [1], [[0, 0]], [1], [1, 1] -> !INVALID_ARGUMENT Operands do not have the "
                            "same ranks; got shapes: 1 and 1 1",
                            "[[0]], [5], [1], [[0]], [1], [2] -> !INVALID_ARGUMENT Operands' shapes do not match: got "
                            "1 and 2 for dimension 0"));
MR_OP(SparseSparseMinimum,
    .doc      = "the smaller of two sparse tensors, element by element; a missing element counts as zero", EXTREME,
    .attrs    = "T: numbertype",
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_minimum, MR_REALS) MR_CPU_ONE(run_minimum, MR_CODES)),
    .examples = MR_EXAMPLES("[[0], [1]], [5, 2], [3], [[1], [2]], [7, 3], [3] -> [[0], [1], [2]], [0, 2, 0]",
                            "[[0]], [-5], [1], shape(0,1), shape(0), [1] -> [[0]], [-5]"));
