/* ops/array/resize.h -- shared by the resizing ops: sizes, and the input position of a pixel. */
#ifndef MR_OPS_ARRAY_RESIZE_H
#define MR_OPS_ARRAY_RESIZE_H

#include "graph/infer.h"
#include "run/run.h"

typedef struct mr_resize {
    bool align_corners, half_pixel_centers;
    int64_t batch, channels;
    int64_t in_h, in_w;   /* of the original image */
    int64_t out_h, out_w; /* of the resized image */
    float scale_h, scale_w;
} mr_resize;

/* Forward: images [b, h, w, c] in input 0, size [2] in input 1. */
mr_status *mr_resize_read(mr_run *r, mr_resize *out);
/* Reads the attrs and computes the scale, once the sizes are set. */
mr_status *mr_resize_scale(const mr_node *n, mr_resize *out);
/* Backward: gradients of the resized images in input 0, the original images in input 1. */
mr_status *mr_resize_read_grad(mr_run *r, mr_resize *out);
/* The size argument, input i: two positive numbers. */
mr_status *mr_resize_size(mr_run *r, int i, int64_t *h, int64_t *w);

/* [b, h, w, c] with h and w from the value of input 1. */
mr_status *mr_resize_shape(mr_infer *c);
/* Backward: the shape of input 1. */
mr_status *mr_resize_grad_shape(mr_infer *c);

#endif
