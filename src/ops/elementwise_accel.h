/* ops/elementwise_accel.h -- broadcasting on an accelerator. The kernels' side is exec/opencl/prelude.cl. */
#ifndef MR_OPS_ELEMENTWISE_ACCEL_H
#define MR_OPS_ELEMENTWISE_ACCEL_H

#include <stdio.h>

#include "ops/broadcast.h"
#include "run/accel.h"

enum { MR_ACCEL_DIMS = 8 }; /* of a walk, after collapsing */

/* Runs kernel(n, result, inputs) or KERNEL_walk(n, result, inputs, dims, strides of each input). */
mr_status *mr_each_apply_accel(mr_run *r, const char *kernel);
/* Appends a walk's dims and strides to a kernel's arguments: room for MR_ACCEL_DIMS * (1 + operands). */
mr_status *mr_accel_walk(const mr_run *r, const mr_broadcast *b, mr_accel_arg *args, int *n);

#endif
