/* ops/dnnl.h -- what we use of oneDNN: matrix products; convolutions are in dnnl_conv.h.
 *
 * Only dnnl.c and dnnl_conv.c include oneDNN's own header, because its C API changes between
 * versions.  Calls run in the calling thread alone; who wants more threads cuts the work and calls
 * from several. */
#ifndef MR_OPS_DNNL_H
#define MR_OPS_DNNL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* C = A B, all row-major: A is m x k (k x m when ta), B is k x n (n x k when tb).  ld is the
 * distance between rows. */
mr_status *mr_dnnl_sgemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float *a,
                         int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc);

/* C = alpha A B + beta C, likewise. */
mr_status *mr_dnnl_sgemm_scaled(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                                const float *a, int64_t lda, const float *b, int64_t ldb,
                                float beta, float *c, int64_t ldc);

/* Around calls of oneDNN: one thread each.  enter gives the caller's own setting, for leave. */
int mr_dnnl_enter(void);
void mr_dnnl_leave(int before);
/* A dnnl_status_t as one of ours. */
mr_status *mr_dnnl_check(int st, const char *what);

#endif
