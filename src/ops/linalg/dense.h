/* ops/linalg/dense.h -- one LU, one Cholesky and one triangular solve for all ops and types.
 *
 * Matrices are row-major and packed, of float, double, complex64 or complex128; they are overwritten. Each function
 * halves its matrix until small blocks are left, so that nearly all the work is products of matrices (gemm.h),
 * which use the idle threads of r. No values are refused: a zero pivot is left in place, NaN and infinities
 * propagate. */
#ifndef MR_OPS_LINALG_DENSE_H
#define MR_OPS_LINALG_DENSE_H

#include "run/run.h"

/* Which triangle of a matrix is read, and how. */
typedef struct mr_triangle {
    bool lower;   /* as stored */
    bool adjoint; /* conjugated and transposed */
    bool unit;    /* the diagonal is ones and is not read */
} mr_triangle;

typedef struct mr_dense { /* of one type */
    /* P A = L U: U and below it L, whose diagonal is ones. Row i was swapped with row pivots[i], in the order of i. */
    mr_status *(*lu)(mr_run *r, int64_t n, void *a, int64_t *pivots);
    /* True if the diagonal has an exact zero. */
    bool (*has_zero_pivot)(int64_t n, const void *lu);
    /* B = A^-1 B from A's factors, or A^-H B; B is n x k. */
    mr_status *(*lu_solve)(mr_run *r, bool adjoint, int64_t n, int64_t k, const void *lu,
                           const int64_t *pivots, void *b);
    /* det A = *fraction * 2^*exponent, because intermediate results of a plain product might overflow. */
    void (*lu_determinant)(int64_t n, const void *lu, const int64_t *pivots, mr_c128 *fraction,
                           int64_t *exponent);
    /* B = op(A)^-1 B; only the triangle of A is read. */
    mr_status *(*solve)(mr_run *r, mr_triangle t, int64_t n, int64_t k, const void *a, void *b);
    /* A = L L^H, from the lower triangle to the lower triangle; zeros above.  *ok is false when A
     * is not positive definite. */
    mr_status *(*cholesky)(mr_run *r, int64_t n, void *a, bool *ok);
    /* Computes the gradient of A = L L^H from the gradient G of L, and overwrites G: 1/2 L^-H (P + P^H) L^-1, where
     * P is the lower triangle of L^H G with its diagonal halved. Lower triangles are read. */
    mr_status *(*cholesky_grad)(mr_run *r, int64_t n, const void *l, void *g);
} mr_dense;

const mr_dense *mr_dense_of(mr_dtype type); /* NULL: none of the four types */

#endif
