/* ops/nn/conv_direct.h -- convolutions of floats by the tiles of matrix products.
 *
 * All memory comes from the run's allocator, and results do not depend on the number of threads. */
#ifndef MR_OPS_NN_CONV_DIRECT_H
#define MR_OPS_NN_CONV_DIRECT_H

#include "ops/nn/conv.h"

/* Whether this code supports the pass and is faster than the alternatives. */
bool mr_conv_direct_serves(mr_conv_pass pass, const mr_conv *c);
/* Whether a forward pass stores each pixel of the out image once, as the end makes it, and never reads it before: then
 * the out image may share the memory of the end's `add`. */
bool mr_conv_direct_stores_once(const mr_conv *c);
/* Where the packed form of a constant filter is kept. */
typedef struct mr_conv_kept {
    mr_packed *packed;
    const mr_tensor *filter;
} mr_conv_kept;
/* Runs a pass.  Images have channels last, filters TensorFlow's layout, and nothing is empty; a, b and
 * out are in the order of the pass.  kept: NULL if the filter may change.  end: what becomes of the sums of a forward
 * pass, or NULL. */
mr_status *mr_conv_direct(mr_run *r, mr_conv_pass pass, const mr_conv *c, const float *a,
                          const float *b, float *out, const mr_conv_kept *kept, const mr_conv_end *end);

#endif
