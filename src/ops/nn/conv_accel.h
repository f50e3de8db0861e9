/* ops/nn/conv_accel.h -- convolutions on a device of its own. */
#ifndef MR_OPS_NN_CONV_ACCEL_H
#define MR_OPS_NN_CONV_ACCEL_H

#include "ops/nn/conv.h"
#include "run/accel.h"

/* As mr_conv_run: output 0, of shape `dims`, from a and b; float.  The kernel's state is an mr_conv_state. */
mr_status *mr_conv_run_accel(mr_run *r, mr_conv_pass pass, const mr_conv *c, const mr_tensor *a, const mr_tensor *b,
                             int rank, const int64_t *dims);
/* Runs a kernel of conv.cl or pool.cl: KERNEL(n, out, a, b unless it is NULL, geometry), one item an element of out. */
mr_status *mr_window_launch(mr_run *r, const char *kernel, const mr_conv *c, mr_layout layout, mr_tensor *out,
                            const mr_tensor *a, const mr_tensor *b);

#endif
