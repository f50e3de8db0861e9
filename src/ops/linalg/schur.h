/* ops/linalg/schur.h -- what follows from A = Z T Z^H, T an upper triangle, of complex128 matrices.
 *
 * Row-major and packed; real matrices are treated as complex ones.  RESOURCE_EXHAUSTED; *ok is false when
 * the iteration does not converge, NaN included.  All loops are bounded; CANCELLED, soon after the
 * step is. */
#ifndef MR_OPS_LINALG_SCHUR_H
#define MR_OPS_LINALG_SCHUR_H

#include "run/scratch.h"

/* A becomes T; z NULL: only its diagonal does. */
mr_status *mr_schur(const mr_run *r, int64_t n, mr_c128 *a, mr_c128 *z, bool *ok);
/* Eigenvalues, and eigenvectors of length 1 as columns of v, which may be NULL.  A is written over. */
mr_status *mr_eig(const mr_run *r, int64_t n, mr_c128 *a, mr_c128 *e, mr_c128 *v, bool *ok);
/* The square root whose eigenvalues have no negative real part; the logarithm whose eigenvalues'
 * imaginary parts are in (-pi, pi].  In place; NaN and infinities where there is none. */
mr_status *mr_matrix_sqrt(const mr_run *r, int64_t n, mr_c128 *a, bool *ok);
mr_status *mr_matrix_log(const mr_run *r, int64_t n, mr_c128 *a, bool *ok);
/* In place, by scaling, a rational approximation and squaring. */
mr_status *mr_matrix_exp(const mr_run *r, int64_t n, mr_c128 *a);

#endif
