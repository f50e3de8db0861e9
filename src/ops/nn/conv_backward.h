/* ops/nn/conv_backward.h -- kernels, shape functions and gradients of the two backward passes of a
 * convolution. */
#ifndef MR_OPS_NN_CONV_BACKWARD_H
#define MR_OPS_NN_CONV_BACKWARD_H

#include "graph/grad.h"
#include "ops/nn/conv.h"

/* Kernels: inputs (input_sizes, filter, out_backprop) and (input, filter_sizes, out_backprop). */
mr_status *mr_conv_input_kernel(mr_run *r, bool depthwise);
mr_status *mr_conv_filter_kernel(mr_run *r, bool depthwise);

mr_status *mr_conv_input_infer(mr_infer *c, int spatial);
mr_status *mr_conv_filter_infer(mr_infer *c, int spatial);

/* The names of a family's ops and the attrs they share. */
typedef struct mr_conv_family {
    const char *forward, *input, *filter, *attrs;
} mr_conv_family;
void mr_conv_grad(mr_grad *g, const mr_conv_family *f);
void mr_conv_input_grad(mr_grad *g, const mr_conv_family *f);
void mr_conv_filter_grad(mr_grad *g, const mr_conv_family *f);

#endif
