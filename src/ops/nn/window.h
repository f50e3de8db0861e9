/* ops/nn/window.h -- windows that slide over images, for convolutions and pools.
 *
 * mr_window holds the attrs of a node for the spatial dimensions only: rows and columns, and for 3-D
 * ops depth before them.  Kernels treat all ops as three-dimensional: the dimensions that an op does
 * not have come first and have size 1.  mr_window_size (graph/infer.h) computes sizes and padding. */
#ifndef MR_OPS_NN_WINDOW_H
#define MR_OPS_NN_WINDOW_H

#include "graph/infer.h"
#include "ops/nn/layout.h"

enum { MR_SPACE = 3 }; /* spatial dimensions in a kernel */

typedef struct mr_window {
    int n; /* spatial dimensions of the op: 2 or 3 */
    mr_layout layout;
    mr_padding padding;
    /* for the op's n dimensions */
    int64_t stride[MR_SPACE], dilation[MR_SPACE], size[MR_SPACE]; /* size: only pools, from ksize */
    int64_t before[MR_SPACE], after[MR_SPACE];                    /* explicit paddings */
    int64_t depth, depth_stride; /* of pools: the window and stride along channels */
} mr_window;

/* Reads strides, padding, data_format, and if the op has them dilations, explicit_paddings and ksize.
 * Returns INVALID_ARGUMENT or UNIMPLEMENTED in the same cases as TensorFlow. */
mr_status *mr_window_init(const mr_node *n, int spatial, mr_window *out);

/* Sets the window and strides of a pool, which may also run along channels: one number for each dimension
 * of the image. */
mr_status *mr_window_set_pool(mr_window *w, const int64_t *size, const int64_t *stride);

/* The padding and the output's size along spatial dimension i of the op, for an input of size `in` and
 * a window of `size`; -1 is unknown. */
mr_status *mr_window_place(const mr_window *w, int i, int64_t in, int64_t size, int64_t *before,
                           int64_t *after, int64_t *out);
/* The output's size for shape inference (mr_infer_window). */
mr_status *mr_window_infer(const mr_window *w, int i, int64_t in, int64_t size, int64_t *out);

/* An image [batch, space.., channels] in the layout of the window. */
void mr_window_dims(const mr_window *w, int64_t batch, const int64_t *space, int64_t channels,
                    int64_t *out_dims);
static inline int mr_window_rank(const mr_window *w) { return w->n + 2; }

#endif
