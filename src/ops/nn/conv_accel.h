/* ops/nn/conv_accel.h -- convolutions on an accelerator. */
#ifndef MR_OPS_NN_CONV_ACCEL_H
#define MR_OPS_NN_CONV_ACCEL_H

#include "ops/nn/conv.h"
#include "run/accel.h"

/* Like mr_conv_run: computes output 0, of shape `dims`, from a and b, in float.  The kernel's state must be an
 * mr_conv_state. */
mr_status *mr_conv_run_accel(mr_run *r, mr_conv_pass pass, const mr_conv *c, const mr_tensor *a, const mr_tensor *b,
                             int rank, const int64_t *dims);
/* Runs a kernel of conv.cl or pool.cl: KERNEL(n, out, a, b if not NULL, geometry), one item per element of out. */
mr_status *mr_window_launch(mr_run *r, const char *kernel, const mr_conv *c, mr_layout layout, mr_tensor *out,
                            const mr_tensor *a, const mr_tensor *b);

#endif
