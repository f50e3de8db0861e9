/* ops/nn/conv.h -- convolutions: one geometry and three passes serve all convolution ops.
 *
 * Images are [batch, space.., channels], filters [window.., channels of a group, out channels].  The
 * out channels [i out/groups, (i+1) out/groups) read only the in channels [i in/groups, ..).  A
 * depthwise convolution has as many groups as in channels; its filter [window.., in, multiplier] has
 * the same memory layout.
 *
 * float (and half, bfloat16 by way of float) runs on our own tiles (conv_direct.h) or oneDNN
 * (conv_float.h), the rest in plain C. */
#ifndef MR_OPS_NN_CONV_H
#define MR_OPS_NN_CONV_H

#include "ops/linalg/packed.h"
#include "ops/nn/window.h"

typedef struct mr_conv { /* all of one type, so that two can be compared as bytes */
    int64_t n; /* spatial dimensions of the op; the first 3 - n of the arrays are of size 1 */
    int64_t batch, in_channels, out_channels, groups;
    int64_t in[MR_SPACE], out[MR_SPACE], window[MR_SPACE];
    int64_t stride[MR_SPACE], dilation[MR_SPACE], before[MR_SPACE], after[MR_SPACE];
} mr_conv;

typedef enum mr_conv_pass {
    MR_CONV_FORWARD, /* image, filter -> out image */
    MR_CONV_INPUT,   /* filter, gradient of the out image -> gradient of the image */
    MR_CONV_FILTER,  /* image, gradient of the out image -> gradient of the filter */
} mr_conv_pass;

/* State of a convolution's kernel: its attrs and the primitives it keeps. */
typedef struct mr_conv_state {
    mr_window window;
    struct mr_dnnl_convs *kept;
    mr_packed packed; /* the filter for our own tiles, if it is constant */
} mr_conv_state;

typedef mr_sums_end mr_conv_end; /* what becomes of the sums of a forward pass; tile.c is set by the pass */
mr_status *mr_conv2d_init(mr_make *m, void *state);
mr_status *mr_conv3d_init(mr_make *m, void *state);
void mr_conv_deinit(void *state);

/* The geometry for an image and a filter; depthwise: the filter is [window.., in, multiplier]. */
mr_status *mr_conv_resolve(const mr_window *w, bool depthwise, const int64_t *image,
                           const int64_t *filter, mr_conv *out);
/* The dims of the out image in the window's layout. */
void mr_conv_out_dims(const mr_window *w, const mr_conv *c, int64_t *out_dims);
/* Checks that `dims` are those of the out image; INVALID_ARGUMENT. */
mr_status *mr_conv_check_out(const mr_window *w, const mr_conv *c, const mr_tensor *t);

/* Computes output 0, of shape `dims`, from inputs a and b of the run, in the order of the pass. */
mr_status *mr_conv_run(mr_run *r, mr_conv_pass pass, const mr_conv *c, int a, int b, int rank,
                       const int64_t *dims);

/* Computes output 0, which the caller has created and which is not empty, from inputs 0 and 1: floats with channels
 * last.  s: the state, which need not be that of the run. */
mr_status *mr_conv_run_end(mr_run *r, mr_conv_state *s, const mr_conv *c, const mr_conv_end *end);
/* Whether output 0 may share the memory of end->tile.add. */
bool mr_conv_end_in_place(const mr_conv *c);
/* Applies `end` to sums that are complete. */
void mr_conv_finish(mr_run *r, const mr_conv_end *end, float *y, int64_t rows, int64_t cols);

/* The passes in plain C, over packed arrays with channels last (ops/nn/conv_plain.c).  Types:
 * float, double, int32. */
void mr_conv_plain(mr_run *r, mr_dtype type, mr_conv_pass pass, const mr_conv *c, const void *a,
                   const void *b, void *out);

/* Shape function of a forward convolution. */
mr_status *mr_conv_infer(mr_infer *c, int spatial, bool depthwise);

/* Pixels; elements of one in image, one out image and the filter; multiplications per image. */
static inline int64_t mr_conv_pixels(const int64_t *space)
{
    return space[0] * space[1] * space[2];
}
static inline int64_t mr_conv_in_size(const mr_conv *c)
{
    return mr_conv_pixels(c->in) * c->in_channels;
}
static inline int64_t mr_conv_out_size(const mr_conv *c)
{
    return mr_conv_pixels(c->out) * c->out_channels;
}
static inline int64_t mr_conv_filter_size(const mr_conv *c)
{
    return mr_conv_pixels(c->window) * (c->in_channels / c->groups) * c->out_channels;
}
static inline double mr_conv_work(const mr_conv *c)
{
    return (double)mr_conv_pixels(c->out) * (double)mr_conv_filter_size(c);
}

#endif
