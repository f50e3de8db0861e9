/* ops/nn/max_pool.h -- the maximum of each window, in two and three dimensions: loops and kernels. */
#ifndef MR_OPS_NN_MAX_POOL_H
#define MR_OPS_NN_MAX_POOL_H

#include "ops/nn/pool.h"

typedef void mr_pool_fn(const mr_pool_job *j, int64_t n, int64_t channel, int64_t channels);

/* The loops of one type, for mr_kernel.user. */
typedef struct mr_max_pool {
    mr_pool_fn *forward;   /* image -> result */
    mr_pool_fn *grad;      /* image, out_image: gradient -> result, of the image's size */
    mr_pool_fn *grad_near; /* the same in three dimensions; more: the maxima */
    mr_pool_fn *grad_grad; /* image, out_image: the maxima, more: of the image's size -> result, of the out image's size */
} mr_max_pool;
#define MR_MAX_POOL_ROW(E, name, number, S, C, ...) extern const mr_max_pool mr_max_pool_##name;
MR_FLOATS32(MR_MAX_POOL_ROW, )
MR_INTS(MR_MAX_POOL_ROW, )
#define mr_max_pool_half mr_max_pool_float
#define mr_max_pool_bfloat16 mr_max_pool_float

/* Kernels. */
mr_status *mr_max_pool_kernel(mr_run *r);           /* image */
mr_status *mr_max_pool_grad_kernel(mr_run *r);      /* image, output, gradient of the output */
mr_status *mr_max_pool_grad_grad_kernel(mr_run *r); /* image, output, of the image's shape */

mr_status *mr_max_pool_2d(mr_run *r);               /* mr_max_pool_kernel, or a pool along channels */

/* Rows for MR_KERNELS. */
#define MR_CPU_MAX_POOL_ROW(E, name, number, S, C, function) \
    {.device = "CPU",                                        \
     .type = MR_##E,                                         \
     .run = function,                                        \
     .user = (void *)(uintptr_t)&mr_max_pool_##name},
#define MR_CPU_MAX_POOL(function, TYPES) TYPES(MR_CPU_MAX_POOL_ROW, function)

#endif
