/* ops/linalg/gemm.h -- products of matrices, of every type that has them. */
#ifndef MR_OPS_LINALG_GEMM_H
#define MR_OPS_LINALG_GEMM_H

#include "ops/linalg/tiles.h"
#include "run/run.h"

/* C = op(A) op(B), all row-major: op(A) is m x k, op(B) is k x n. */
typedef struct mr_gemm {
    mr_dtype type; /* float, double, int16, int32, int64, complex64, complex128 */
    int64_t m, n, k;
    bool ta, tb;         /* A is stored k x m, B is stored n x k */
    bool conj_a, conj_b; /* and conjugated; only for complex types */
    bool minus;          /* C -= op(A) op(B) instead; not for half and bfloat16 */
    /* Distance between rows, in elements; 0: the rows are packed. Parts of larger matrices have types of 32 bits or
     * more, and several of them a C that is packed or placed. */
    int64_t lda, ldb, ldc;
    bool plus; /* C += op(A) op(B); not for half and bfloat16 */
    const mr_tensor *packed_b; /* B by mr_gemm_pack_b, then b itself is not read; or NULL */
} mr_gemm;

/* True if products of this type are supported (half and bfloat16: through float, in mr_gemm_batch). */
bool mr_gemm_has(mr_dtype type);
/* n_batch products of this kind: A of product i begins at element at(ctx, 0, i), B at at(ctx, 1, i), C at i m n
 * unless places_c; also for half and bfloat16. a_n and b_n are the numbers of elements of a and b. */
typedef struct mr_gemm_batch {
    mr_gemm one;
    int64_t n_batch;
    int64_t (*at)(void *ctx, int operand, int64_t i); /* operand 0: A, 1: B, 2: C; NULL: one product */
    bool places_c; /* C of product i begins at element at(ctx, 2, i); only for types of 32 bits or more */
    void *ctx;
    const void *a, *b;
    int64_t a_n, b_n;
    void *c;
    const mr_sums_end *end; /* what becomes of the sums of one product of floats with packed rows, or NULL */
} mr_gemm_batch;
mr_status *mr_gemm_run(mr_run *r, const mr_gemm_batch *g);
/* Packs B once for many products of floats of this kind. *out is NULL if that does not pay; packed_b may be set to
 * it in either case. */
mr_status *mr_gemm_pack_b(mr_run *r, const mr_gemm *g, const float *b, mr_tensor **out);

#endif
