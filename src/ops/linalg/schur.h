/* ops/linalg/schur.h -- the Schur decomposition A = Z T Z^H, T an upper triangle, of complex128 matrices, and
 * functions based on it.
 *
 * Matrices are row-major and packed; real matrices are treated as complex ones. RESOURCE_EXHAUSTED; *ok is false
 * when the iteration does not converge, for example because of NaN. All loops are bounded; they return CANCELLED
 * soon after the step is cancelled. */
#ifndef MR_OPS_LINALG_SCHUR_H
#define MR_OPS_LINALG_SCHUR_H

#include "run/scratch.h"

/* A becomes T; if z is NULL only its diagonal does. */
mr_status *mr_schur(const mr_run *r, int64_t n, mr_c128 *a, mr_c128 *z, bool *ok);
/* Eigenvalues, and eigenvectors of length 1 as columns of v, which may be NULL. Overwrites A. */
mr_status *mr_eig(const mr_run *r, int64_t n, mr_c128 *a, mr_c128 *e, mr_c128 *v, bool *ok);
/* The square root whose eigenvalues have no negative real part; the logarithm whose eigenvalues have imaginary
 * parts in (-pi, pi]. In place; NaN and infinities if there is none. */
mr_status *mr_matrix_sqrt(const mr_run *r, int64_t n, mr_c128 *a, bool *ok);
mr_status *mr_matrix_log(const mr_run *r, int64_t n, mr_c128 *a, bool *ok);
/* In place, by scaling, a rational approximation and squaring. */
mr_status *mr_matrix_exp(const mr_run *r, int64_t n, mr_c128 *a);

#endif
