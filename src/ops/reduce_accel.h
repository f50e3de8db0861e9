/* ops/reduce_accel.h -- reductions of float on an accelerator. */
#ifndef MR_OPS_REDUCE_ACCEL_H
#define MR_OPS_REDUCE_ACCEL_H

#include "ops/reduce.h"
#include "run/accel.h"

/* Runs an op with inputs (x, axes) and attr keep_dims whose mr_kernel.user is the name of a kernel of reduce.cl:
 * "sum", "prod", "max", "min"; or "mean". */
mr_status *mr_reduce_run_accel(mr_run *r);
/* Folds x over the dimensions with fold[d] into out, and divides by divisor. */
mr_status *mr_reduce_accel(mr_run *r, const char *kernel, const mr_tensor *x, const bool *fold, float divisor, mr_tensor *out);

/* A row for MR_KERNELS; the axes are in host memory. */
#define MR_GPU_REDUCE(name)                                                          \
    {.device = MR_ACCEL_KERNELS, .type = MR_FLOAT, .run = mr_reduce_run_accel, .host_in = 2,    \
     .user = (void *)(uintptr_t) #name},

#endif
