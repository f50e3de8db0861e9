/* ops/dnnl.h -- what we use of oneDNN: matrix products and (with more below it) convolutions.
 *
 * Only dnnl.c includes oneDNN's own header, because its C API changes between versions.  Calls run
 * in the calling thread alone; who wants more threads cuts the work and calls from several. */
#ifndef MR_OPS_DNNL_H
#define MR_OPS_DNNL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* C = A B, all row-major: A is m x k (k x m when ta), B is k x n (n x k when tb).  ld is the
 * distance between rows. */
mr_status *mr_dnnl_sgemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float *a,
                         int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc);

#endif
