/* ops/nn/conv_backward_taps.h -- the gradient of a filter as products of matrices, one for each pixel of the window. */
#ifndef MR_OPS_NN_CONV_BACKWARD_TAPS_H
#define MR_OPS_NN_CONV_BACKWARD_TAPS_H

#include "ops/nn/conv.h"

/* True if this code can compute the gradient of the filter and is faster than conv_direct.h. */
bool mr_conv_taps_serves(const mr_conv *c);
/* Computes it: floats with channels last, nothing empty. */
mr_status *mr_conv_taps(mr_run *r, const mr_conv *c, const float *image, const float *grad, float *out);

#endif
