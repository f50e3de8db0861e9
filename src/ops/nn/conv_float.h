/* ops/nn/conv_float.h -- the passes of a convolution over floats, on oneDNN. */
#ifndef MR_OPS_NN_CONV_FLOAT_H
#define MR_OPS_NN_CONV_FLOAT_H

#include "ops/nn/conv.h"

/* Images with channels last, filters as TensorFlow's, nothing empty; a, b and out in the order of
 * the pass.  `constant` is the tensor of the filter when that never changes, else NULL.
 * UNIMPLEMENTED where oneDNN has no code for it. */
mr_status *mr_conv_float(mr_run *r, struct mr_dnnl_convs *kept, mr_conv_pass pass, const mr_conv *c,
                         const float *a, const float *b, float *out, const mr_tensor *constant);

#endif
