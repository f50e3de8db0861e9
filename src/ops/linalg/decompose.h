/* ops/linalg/decompose.h -- QR, eigenvalues and singular values: our own of double and complex128, and LAPACK's.
 *
 * Other types are converted before and after (mr_unpack, mr_repack).  Matrices are row-major and packed.
 * Memory is scratch memory of the run: RESOURCE_EXHAUSTED. The loops are bounded whatever the values; NaN
 * propagates, or counts as not converging. Returns CANCELLED soon after the step is cancelled. */
#ifndef MR_OPS_LINALG_DECOMPOSE_H
#define MR_OPS_LINALG_DECOMPOSE_H

#include "ops/linalg/matrices.h"
#include "run/scratch.h"

typedef struct mr_decompose { /* of one type */
    mr_dtype type;
    /* A (m x n) becomes R; q is m x k, its first k columns, min(m, n) <= k <= m; NULL: not computed. */
    mr_status *(*qr)(const mr_run *r, int64_t m, int64_t n, int64_t k, void *a, void *q);
    /* Eigenvalues of a Hermitian matrix, whose lower triangle is read, in ascending order, and the vectors as
     * columns of v; NULL: not computed. Overwrites A. *ok is false when it does not converge. */
    mr_status *(*eigh)(const mr_run *r, int64_t n, void *a, double *e, void *v, bool *ok);
    /* A (m x n) = U diag(s) V^H, s descending, min(m, n) of them. u is m x ku, v n x kv, with ku and kv either that
     * number or m and n; both NULL: not computed. Overwrites A. */
    mr_status *(*svd)(const mr_run *r, int64_t m, int64_t n, void *a, double *s, int64_t ku, void *u,
                      int64_t kv, void *v, bool *ok);
} mr_decompose;

/* double for real types, complex128 for complex ones. */
mr_dtype mr_full_type(mr_dtype t);
const mr_decompose *mr_decompose_of(mr_dtype type); /* of such a type */

typedef enum mr_decompose_kind {
    MR_DECOMPOSE_QR,
    MR_DECOMPOSE_EIGH,
    MR_DECOMPOSE_SVD,
    MR_DECOMPOSE_EIG, /* mr_eig of schur.h; not for mr_decompose_for */
} mr_decompose_kind;
/* The best functions for the m x n elements of t from `at` on: LAPACK's in the tensor's type (float for half), if they
 * are available and suit the matrix, or those of mr_decompose_of in double or complex128. */
const mr_decompose *mr_decompose_for(mr_decompose_kind kind, const mr_tensor *t, int64_t at, int64_t m, int64_t n);

/* True if LAPACK is available and better for these m x n elements of t. */
bool mr_lapack_suits(mr_decompose_kind kind, const mr_tensor *t, int64_t at, int64_t m, int64_t n);
/* Eigenvalues of an n x n matrix for which that is true, in the type of its tensor, and vectors of length 1 as columns
 * of v, or NULL. e and v have the complex type of the same precision. Overwrites A. */
mr_status *mr_eig_by_lapack(const mr_run *r, mr_dtype type, int64_t n, void *a, void *e, void *v, bool *ok);

/* Converts n elements of a tensor from `at` on to mr_full_type or another type, in new memory (which the caller
 * releases with mr_scratch_free); and back. */
mr_status *mr_unpack(const mr_run *r, const mr_tensor *t, int64_t at, int64_t n, void **out);
mr_status *mr_unpack_as(const mr_run *r, const mr_tensor *t, int64_t at, int64_t n, mr_dtype as, void **out);
void mr_repack(const void *from, mr_dtype full, int64_t n, mr_tensor *t, int64_t at);
/* Uninitialised memory for rows x cols elements of a full type; release it with mr_scratch_free. */
mr_status *mr_matrix_room(const mr_run *r, mr_dtype full, int64_t rows, int64_t cols, void **out);

#endif
