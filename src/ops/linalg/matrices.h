/* ops/linalg/matrices.h -- shared by ops on batches of matrices.
 *
 * The last two dimensions are a matrix; the op is applied to each, in parallel if there are idle threads. half and
 * bfloat16 are computed in float (ops/nn/wide.h). */
#ifndef MR_OPS_LINALG_MATRICES_H
#define MR_OPS_LINALG_MATRICES_H

#include "graph/infer.h"
#include "ops/first_error.h"
#include "ops/linalg/dense.h"
#include "ops/nn/wide.h"

/* half, float, double, complex64, complex128 */
#define MR_FIELDS(M, ...) \
    MR_TYPE_HALF(M, __VA_ARGS__) MR_FLOATS32(M, __VA_ARGS__) MR_COMPLEXES(M, __VA_ARGS__)

static inline int64_t mr_rows(const mr_tensor *t) { return t->dims[t->rank - 2]; }
static inline int64_t mr_cols(const mr_tensor *t) { return t->dims[t->rank - 1]; }
/* The number of matrices; t may have none, and its matrices may be empty. */
int64_t mr_matrix_count(const mr_tensor *t);

/* INVALID_ARGUMENT unless input i has at least two dimensions, the last two of them equal. */
mr_status *mr_in_matrices(const mr_run *r, int i);
mr_status *mr_in_square_matrices(const mr_run *r, int i);

/* Work on n matrices: the first member of the op's own job struct. */
typedef struct mr_matrix_job {
    mr_run *r;
    const mr_dense *dense;
    mr_status *(*one)(struct mr_matrix_job *j, int64_t i);
    mr_first_error failed;
} mr_matrix_job;
/* Calls job->one for each matrix; flops estimates the multiplications for one. */
mr_status *mr_matrix_job_run(mr_matrix_job *j, int64_t n, double flops);

/* CANCELLED if the step of r is cancelled; called between the iterations of long computations. */
mr_status *mr_matrix_cancelled(const mr_run *r);

/* Matrix i of the packed matrices of t. */
static inline void *mr_matrix_at(const mr_tensor *t, int64_t i)
{
    size_t elements = (size_t)(i * mr_rows(t) * mr_cols(t));
    return (char *)t->data + elements * mr_dtype_size((mr_dtype)t->dtype);
}
/* Copies the elements of `from`, converted to the type of `to`, unless both share memory. */
void mr_matrices_copy(mr_run *r, const mr_tensor *from, mr_tensor *to);

/* Parts of shape functions: input i as [..., n, n]; and a whole one: the output is like a square input 0. */
mr_status *mr_infer_square(mr_infer *c, int i, const mr_pshape **out);
mr_status *mr_shape_square(mr_infer *c);

#endif
