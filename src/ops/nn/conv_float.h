/* ops/nn/conv_float.h -- the passes of a convolution over floats, on oneDNN. */
#ifndef MR_OPS_NN_CONV_FLOAT_H
#define MR_OPS_NN_CONV_FLOAT_H

#include "ops/nn/conv.h"

/* Runs a pass.  Images have channels last, filters TensorFlow's layout, and nothing is empty; a, b and
 * out are in the order of the pass.  `constant` is the tensor of the filter if it never changes, else
 * NULL.  Returns UNIMPLEMENTED if oneDNN has no code for the geometry. */
mr_status *mr_conv_float(mr_run *r, struct mr_dnnl_convs *kept, mr_conv_pass pass, const mr_conv *c,
                         const float *a, const float *b, float *out, const mr_tensor *constant);

#endif
