/* ops/nn/conv_direct.h -- convolutions of floats by the tiles of matrix products.
 *
 * Nothing is allocated but from the run's own memory, and results do not depend on the number of
 * threads. */
#ifndef MR_OPS_NN_CONV_DIRECT_H
#define MR_OPS_NN_CONV_DIRECT_H

#include "ops/nn/conv.h"

/* This pass can be made here, and is worth it. */
bool mr_conv_direct_serves(mr_conv_pass pass, const mr_conv *c);
/* Images with channels last, filters as TensorFlow's, nothing empty; a, b and out in the order of
 * the pass. */
mr_status *mr_conv_direct(mr_run *r, mr_conv_pass pass, const mr_conv *c, const float *a,
                          const float *b, float *out);

#endif
