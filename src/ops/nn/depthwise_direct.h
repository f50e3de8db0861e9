/* ops/nn/depthwise_direct.h -- depthwise convolutions of floats with one filter a channel. */
#ifndef MR_OPS_NN_DEPTHWISE_DIRECT_H
#define MR_OPS_NN_DEPTHWISE_DIRECT_H

#include "ops/nn/conv.h"

/* Whether this code supports the forward pass. */
bool mr_depthwise_direct_serves(const mr_conv *c);
/* Images have channels last, and nothing is empty. end: what becomes of the sums, or NULL. */
void mr_depthwise_direct(mr_run *r, const mr_conv *c, const float *image, const float *filter, float *out,
                         const mr_conv_end *end);

#endif
