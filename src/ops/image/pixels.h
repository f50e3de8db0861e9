/* ops/image/pixels.h -- pixels of any type as floats, and checks that many image ops share.
 *
 * Most image ops compute in float whatever the type of the images: their kernels are written once, over a copy
 * in float where the images are of another type (ops/nn/wide.h has the rest of such copies). */
#ifndef MR_OPS_IMAGE_PIXELS_H
#define MR_OPS_IMAGE_PIXELS_H

#include "graph/infer.h"
#include "ops/nn/wide.h"

/* Input i in `type`: itself, or a converted copy.  Freed by mr_wide_deinit. */
mr_status *mr_pixels_in(mr_run *r, int i, mr_dtype type, mr_wide *out);
/* Output i computed in `type`, all zero where `zeros` says so; mr_wide_store brings it into its own type. */
mr_status *mr_pixels_out(mr_run *r, int i, mr_dtype type, int rank, const int64_t *dims, bool zeros, mr_wide *out);

/* Scalars and vectors that are inputs; `what` names them in errors. */
mr_status *mr_in_scalar_float(const mr_run *r, int i, const char *what, float *out); /* float or half */
mr_status *mr_in_int32_vector(const mr_run *r, int i, const char *what, int n, const int32_t **out);

/* Images: rank >= 3, the last dimension being 3 where `rgb` says so; output 0 likewise. */
mr_status *mr_check_images(const mr_tensor *t, bool rgb);
mr_status *mr_shape_images(mr_infer *c);
/* The same for a color in the last dimension: rank >= 1, output 0 like input 0. */
mr_status *mr_shape_colors(mr_infer *c);
/* Checks the ranks of the first inputs, one a number; -1: any. */
mr_status *mr_infer_ranks(mr_infer *c, int n, const int *ranks);

#endif
