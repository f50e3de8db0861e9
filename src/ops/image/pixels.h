/* ops/image/pixels.h -- converts pixels of any type to float, and checks that many image ops share.
 *
 * Most image ops compute in float whatever the type of the images: their kernels are written once, over a float
 * copy if the images have another type (ops/nn/wide.h has the other functions for such copies). */
#ifndef MR_OPS_IMAGE_PIXELS_H
#define MR_OPS_IMAGE_PIXELS_H

#include "graph/infer.h"
#include "ops/nn/wide.h"

/* Input i in `type`: itself, or a converted copy.  Freed by mr_wide_deinit. */
mr_status *mr_pixels_in(mr_run *r, int i, mr_dtype type, mr_wide *out);
/* Output i, computed in `type`, initialised to zero if `zeros`; mr_wide_store converts it to its own type. */
mr_status *mr_pixels_out(mr_run *r, int i, mr_dtype type, int rank, const int64_t *dims, bool zeros, mr_wide *out);

/* Inputs that are scalars or vectors; `what` names them in errors. */
mr_status *mr_in_scalar_float(const mr_run *r, int i, const char *what, float *out); /* float or half */
mr_status *mr_in_int32_vector(const mr_run *r, int i, const char *what, int n, const int32_t **out);

/* Images have a rank of at least 3, and 3 channels if `rgb`. mr_shape_images is the shape function: output 0 is like
 * input 0. */
mr_status *mr_check_images(const mr_tensor *t, bool rgb);
mr_status *mr_shape_images(mr_infer *c);
/* The same for a color in the last dimension: rank >= 1, output 0 like input 0. */
mr_status *mr_shape_colors(mr_infer *c);
/* Checks the ranks of the first inputs, one number each; -1: any. */
mr_status *mr_infer_ranks(mr_infer *c, int n, const int *ranks);

#endif
