/* ops/linalg/lapack.h -- the interface between libmillrace-lapack.so and the rest of the library.
 *
 * That library contains LAPACK's routines for QR, eigenvalues and singular values, and the BLAS below them, which uses
 * the products of this library (product.h). It is opened at the first use (lapack_library.c), asked for one symbol, and
 * returns a table of functions on plain memory; all memory is the caller's. Without it decompose.c is used. */
#ifndef MR_OPS_LINALG_LAPACK_H
#define MR_OPS_LINALG_LAPACK_H

#include "ops/linalg/product.h"

#define MR_LAPACK_ABI 2

/* What the routines need from the library, and the memory of one call. */
typedef struct mr_lapack_call {
    mr_dtype type; /* float, double, complex64, complex128 */
    void (*product)(const mr_product *p, void *room);
    bool (*cancelled)(const void *ctx); /* asked often */
    const void *ctx;
    void *memory; /* aligned to 64, as many bytes as the function with _room gives */
} mr_lapack_call;

typedef enum mr_lapack_result {
    MR_LAPACK_OK,
    MR_LAPACK_DIVERGED,  /* no convergence */
    MR_LAPACK_CANCELLED, /* the results are undefined */
    MR_LAPACK_REFUSED,   /* LAPACK found an argument invalid: a bug of ours */
} mr_lapack_result;

/* As in mr_decompose, for finite numbers and matrices that are not empty, with dimensions below 2^24 and the shorter
 * one at most 16000. Everything is in the call's type, but e and s are double, and the results of `eig` are complex. */
typedef struct mr_lapack {
    int abi;
    size_t (*qr_room)(mr_dtype type, int64_t m, int64_t n, int64_t k);
    mr_lapack_result (*qr)(const mr_lapack_call *c, int64_t m, int64_t n, int64_t k, void *a, void *q);
    size_t (*eigh_room)(mr_dtype type, int64_t n, bool vectors);
    mr_lapack_result (*eigh)(const mr_lapack_call *c, int64_t n, void *a, double *e, void *v);
    size_t (*svd_room)(mr_dtype type, int64_t m, int64_t n, int64_t ku, int64_t kv, bool vectors);
    mr_lapack_result (*svd)(const mr_lapack_call *c, int64_t m, int64_t n, void *a, double *s, int64_t ku, void *u,
                            int64_t kv, void *v);
    /* Eigenvalues of any square matrix, and vectors of length 1 as columns of v; NULL: not computed. Overwrites A. */
    size_t (*eig_room)(mr_dtype type, int64_t n, bool vectors);
    mr_lapack_result (*eig)(const mr_lapack_call *c, int64_t n, void *a, void *e, void *v);
} mr_lapack;

/* The routines; NULL if the library cannot be loaded. */
const mr_lapack *mr_lapack_here(void);
/* Chooses between LAPACK and decompose.c, for tests: false also for what mr_lapack_here would give. */
void mr_lapack_use(bool use);

/* The only symbol; NULL if it is from another build. */
#define MR_LAPACK_SYMBOL "mr_lapack_get"
typedef const mr_lapack *(*mr_lapack_fn)(int abi);

#endif
