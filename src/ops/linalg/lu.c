/* ops/linalg/lu.c -- Lu: P A = L U, packed in one matrix, with the permutation of rows. */
#include "ops/linalg/matrices.h"
#include "run/scratch.h"

typedef struct job {
    mr_matrix_job base;
    mr_tensor *lu, *p;
    int64_t n;
    int64_t *pivots; /* of all matrices; each becomes the permutation of its rows */
} job;

/* Row i of the factors was row order[i] of A. */
static void order_of(int64_t n, int64_t *pivots, mr_tensor *p, int64_t at)
{
    for (int64_t i = 0; i < n; i++)
        if (p->dtype == MR_INT64)
            MR_DATA(int64_t, p)[at + i] = i;
        else
            MR_DATA(int32_t, p)[at + i] = (int32_t)i;
    for (int64_t i = 0; i < n; i++) {
        int64_t with = pivots[i];
        if (p->dtype == MR_INT64) {
            int64_t t = MR_DATA(int64_t, p)[at + i];
            MR_DATA(int64_t, p)[at + i] = MR_DATA(int64_t, p)[at + with];
            MR_DATA(int64_t, p)[at + with] = t;
        } else {
            int32_t t = MR_DATA(int32_t, p)[at + i];
            MR_DATA(int32_t, p)[at + i] = MR_DATA(int32_t, p)[at + with];
            MR_DATA(int32_t, p)[at + with] = t;
        }
    }
}

static mr_status *factor_one(mr_matrix_job *base, int64_t i)
{
    job *j = (job *)base;
    void *a = mr_matrix_at(j->lu, i);
    int64_t *pivots = j->pivots + i * j->n;
    MR_TRY(base->dense->lu(base->r, j->n, a, pivots));
    if (base->dense->has_zero_pivot(j->n, a))
        return mr_invalid("Input is not invertible.");
    order_of(j->n, pivots, j->p, i * j->n);
    return NULL;
}

static mr_status *run_lu(mr_run *r)
{
    mr_status *st = NULL;
    const mr_tensor *a = mr_in(r, 0);
    mr_wide y = {0};
    job j = {.n = 0};
    MR_TRY(mr_in_square_matrices(r, 0));
    int64_t count = mr_matrix_count(a);
    j.n = mr_cols(a);
    if (j.n > INT32_MAX)
        return mr_invalid("Lu of matrices with %lld rows: their permutation does not fit into int32",
                          (long long)j.n);
    MR_GO(mr_wide_out(r, 0, 0, a->rank, a->dims, &y));
    MR_GO(mr_run_output(r, 1, a->rank - 1, a->dims, &j.p));
    mr_matrices_copy(r, a, y.t);
    j.base = (mr_matrix_job){.r = r, .dense = mr_dense_of((mr_dtype)y.t->dtype), .one = factor_one};
    j.lu = y.t;
    if (a->n == 0)
        goto out;
    j.pivots = mr_scratch(r, sizeof(int64_t) * (size_t)(count * j.n));
    if (!j.pivots)
        MR_GO(
            mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the pivots of %s", MR_TENSOR_SHAPE(a)));
    double n = (double)j.n;
    MR_GO(mr_matrix_job_run(&j.base, count, n * n * n / 3));
    mr_wide_store(r, 0, &y);
out:
    mr_scratch_free(j.pivots);
    mr_wide_deinit(&y);
    return st;
}

static mr_status *infer_lu(mr_infer *c)
{
    const mr_pshape *a;
    MR_TRY(mr_infer_square(c, 0, &a));
    c->out[0] = a;
    if (a->rank >= 0)
        c->out[1] = mr_infer_sub(c, a, 0, -1);
    return NULL;
}

MR_OP(Lu,
    .doc      = "L and U, in one matrix without the ones of L, of the rows of square matrices in "
                "another "
                "order, and that order",
    .sig      = "input: T -> lu: T, p: output_idx_type",
    .attrs    = "T: {double, float, half, complex64, complex128}; output_idx_type: {int32, int64} "
                "= DT_INT32",
    .shape    = infer_lu,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_lu, MR_FIELDS)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [4, 4]] -> [[4, 4], [0.25, 1]], [1, 0]",
        "output_idx_type=int64: [[4, 2], [2, 4]] -> [[4, 2], [0.5, 3]], [0, 1]",
        "[[[2]], [[5]]] -> [[[2]], [[5]]], [[0], [0]]",
        "[[0, 0, 2], [4, 0, 0], [0, 1, 0]] -> [[4, 0, 0], [0, 1, 0], [0, 0, 2]], [1, 2, 0]",
        "[[0, 1i], [2, 0]] -> [[2, 0], [0, 1i]], [1, 0]", "shape(0,0) -> shape(0,0), shape(0)",
        "shape(2,0,0) -> shape(2,0,0), shape(2,0)",
        "[[1, 2], [2, 4]] -> !INVALID_ARGUMENT Input is not invertible.",
        "[[1, 2]] -> !INVALID_ARGUMENT must be equal"));
