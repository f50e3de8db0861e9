/* ops/nn/pool.h -- pools: code that MaxPool, AvgPool and their gradients share.
 *
 * A pool slides a window like a convolution, so its geometry is an mr_conv, of which it uses only the
 * sizes.  Kernels get images with channels last and visit the taps of a window, the pixels that it
 * covers, in the order of rows and columns; padding is never visited. */
#ifndef MR_OPS_NN_POOL_H
#define MR_OPS_NN_POOL_H

#include "graph/grad.h"
#include "ops/nn/conv_accel.h"
#include "ops/nn/wide.h"

/* The state of a pool's kernel is its mr_window. */
mr_status *mr_pool2d_init(mr_make *m, void *state);
mr_status *mr_pool3d_init(mr_make *m, void *state);

/* The geometry over an image of these dims; channels are not pooled. */
mr_status *mr_pool_resolve(const mr_window *w, const int64_t *image, mr_conv *out);
/* The same for input i of a run, whose rank is checked; `what` names it in errors. */
mr_status *mr_pool_resolve_input(const mr_run *r, int i, const char *what, mr_conv *out);
/* Checks that input i has the shape of the pool's output. */
mr_status *mr_pool_check_out(const mr_run *r, int i, const char *what, const mr_conv *c);
mr_status *mr_pool_infer(mr_infer *c, int spatial);

/* The range of pixels that the window of an out pixel covers along dimension d. */
typedef struct mr_pool_extent {
    int64_t begin, end;
} mr_pool_extent;
static inline mr_pool_extent mr_pool_span(const mr_conv *c, int d, int64_t out)
{
    int64_t first = out * c->stride[d] - c->before[d], last = first + c->window[d];
    return (mr_pool_extent){first < 0 ? 0 : first, last < c->in[d] ? last : c->in[d]};
}

/* Gradients are added to zeros.  Rows of the image are zeroed only when the windows reach them, so that
 * they are still in the cache.  Returns how many rows must be zero for the windows of one row of the out
 * image. */
static inline int64_t mr_pool_reach(const mr_conv *c, int64_t oz, int64_t oy)
{
    mr_pool_extent z = mr_pool_span(c, 0, oz), y = mr_pool_span(c, 1, oy);
    return z.end > z.begin + 1 ? z.end * c->in[1] : z.begin * c->in[1] + y.end;
}

/* The work is split over images and, if there are few of them, over ranges of channels: fn computes one
 * range of one image.  All images have channels last. */
typedef struct mr_pool_job {
    const mr_conv *c;
    const void *image;          /* in size */
    const void *out_image;      /* out size */
    const void *more;           /* either */
    void *result;
    double lowest;              /* start value of a maximum, for floating types */
    void (*fn)(const struct mr_pool_job *j, int64_t n, int64_t channel, int64_t channels);
    int64_t ranges, range; /* set by mr_pool_run */
} mr_pool_job;
void mr_pool_run(mr_run *r, mr_pool_job *j, double pixel_ns);

/* Computes output 0 of the given dims with a kernel of pool.cl; the op's state is an mr_window. */
mr_status *mr_pool_run_accel(mr_run *r, const char *kernel, const mr_conv *c, int rank, const int64_t *dims,
                             const mr_tensor *a, const mr_tensor *b);

/* Input i with channels last, in a type that the kernels compute in. */
mr_status *mr_pool_in(mr_run *r, int i, const mr_conv *c, const int64_t *space, mr_wide *out);
/* Allocates output 0 of the given dims: *out is where to compute it; pass it to mr_pool_store at the end. */
mr_status *mr_pool_out(mr_run *r, int rank, const int64_t *dims, mr_wide *out);
mr_status *mr_pool_store(mr_run *r, const mr_conv *c, const int64_t *space, mr_wide *out);

#endif
