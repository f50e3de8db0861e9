/* ops/nn/conv_accel.c -- convolutions on an accelerator.
 *
 * With channels last and without groups a convolution is a product: each window of the image is a row of a matrix
 * [pixels of the out image, window x channels], and the filter is the other matrix, in its layout in memory.
 *
 *     forward   out    = windows x filter
 *     filter    filter = windows^T x gradient
 *     input     windows = gradient x filter^T, added up where windows overlap
 *
 * The windows of a few images at a time are written out, so that they take a bounded amount of memory.  Other
 * geometries are summed directly, which is slower but needs no extra memory. */
#include "ops/nn/conv_accel.h"

#define ROOM_BYTES (INT64_C(48) << 20) /* memory for windows, unless one image alone needs more */

typedef struct product {
    mr_run *r;
    const mr_conv *c;
    int64_t pixels, row; /* pixels of the out image; elements of a window */
    mr_tensor *col;      /* windows of `images` images */
    int64_t images;
} product;

static bool is_product(const mr_conv *c, mr_layout layout)
{
    return layout == MR_CHANNELS_LAST && c->groups == 1 && c->n == 2;
}

static mr_status *product_init(product *p, mr_run *r, const mr_conv *c)
{
    int64_t size;
    *p = (product){.r = r, .c = c, .pixels = mr_conv_pixels(c->out), .row = mr_conv_pixels(c->window) * c->in_channels};
    if (!mr_i64_mul(p->pixels, p->row, &size) || size > INT64_MAX / 8)
        return mr_error(MR_RESOURCE_EXHAUSTED, "the convolution is too large: %lld windows of %lld elements per image",
                        (long long)p->pixels, (long long)p->row);
    p->images = MR_MAX(1, MR_MIN(c->batch, ROOM_BYTES / (4 * MR_MAX(size, 1))));
    return mr_run_temp(r, MR_FLOAT, 1, &(int64_t){p->images * size}, &p->col);
}

/* Launches conv_spread or conv_gather for `images` images, starting at image `first`. */
static mr_status *launch_windows(const product *p, const char *kernel, const mr_tensor *image, int64_t first,
                                 int64_t images, bool to_image)
{
    const mr_conv *c = p->c;
    mr_accel_arg at = MR_AT(image), col = MR_AT(p->col);
    at.i = first * mr_conv_in_size(c);
    int64_t n = images * (to_image ? mr_conv_in_size(c) : p->pixels * p->row);
    return mr_accel_launch(p->r, kernel, n,
                           MR_ACCEL(MR_AI(n), to_image ? at : col, to_image ? col : at, MR_AI(c->in[1]), MR_AI(c->in[2]),
                                    MR_AI(c->in_channels), MR_AI(c->out[1]), MR_AI(c->out[2]), MR_AI(c->window[1]),
                                    MR_AI(c->window[2]), MR_AI(c->stride[1]), MR_AI(c->stride[2]), MR_AI(c->dilation[1]),
                                    MR_AI(c->dilation[2]), MR_AI(c->before[1]), MR_AI(c->before[2])));
}

/* Runs the pass for `images` images, starting at image `first`.  The gradient of a filter is overwritten for
 * the first image and added to after that. */
static mr_status *some_images(const product *p, mr_conv_pass pass, const mr_tensor *a, const mr_tensor *b, mr_tensor *out,
                              int64_t first, int64_t images)
{
    int64_t rows = images * p->pixels, oc = p->c->out_channels, at = first * p->pixels * oc;
    mr_accel_gemm g = {.n_batch = 1};
    switch (pass) {
    case MR_CONV_FORWARD:
        MR_TRY(launch_windows(p, "conv_spread", a, first, images, false));
        g = (mr_accel_gemm){rows, oc, p->row, {p->col, 0, false}, {b, 0, false}, {out, at, false}, .n_batch = 1};
        return mr_accel_gemm_run(p->r, &g);
    case MR_CONV_FILTER:
        MR_TRY(launch_windows(p, "conv_spread", a, first, images, false));
        g = (mr_accel_gemm){p->row, oc, rows, {p->col, 0, true}, {b, at, false}, {out, 0, false}, first > 0, 1};
        return mr_accel_gemm_run(p->r, &g);
    default:
        g = (mr_accel_gemm){rows, p->row, oc, {b, at, false}, {a, 0, true}, {p->col, 0, false}, .n_batch = 1};
        MR_TRY(mr_accel_gemm_run(p->r, &g));
        return launch_windows(p, "conv_gather", out, first, images, true);
    }
}

static mr_status *run_product(mr_run *r, mr_conv_pass pass, const mr_conv *c, const mr_tensor *a, const mr_tensor *b,
                              mr_tensor *out)
{
    product p;
    mr_status *st = NULL;
    MR_TRY(product_init(&p, r, c));
    for (int64_t first = 0; first < c->batch && !st; first += p.images)
        st = some_images(&p, pass, a, b, out, first, MR_MIN(p.images, c->batch - first));
    mr_tensor_unref(p.col); /* safe: the queue runs later users of this memory after these kernels */
    return st;
}

mr_status *mr_window_launch(mr_run *r, const char *kernel, const mr_conv *c, mr_layout layout, mr_tensor *out,
                            const mr_tensor *a, const mr_tensor *b)
{
    const int64_t *sizes[] = {c->in, c->out, c->window, c->stride, c->dilation, c->before};
    mr_accel_arg args[32] = {MR_AI(out->n), MR_AT(out), MR_AT(a)};
    int n = 3;
    if (b)
        args[n++] = MR_AT(b);
    args[n++] = MR_AI(layout == MR_CHANNELS_FIRST);
    args[n++] = MR_AI(c->batch);
    args[n++] = MR_AI(c->in_channels);
    args[n++] = MR_AI(c->out_channels);
    args[n++] = MR_AI(c->groups);
    for (int i = 0; i < MR_COUNT(sizes); i++)
        for (int d = 0; d < MR_SPACE; d++)
            args[n++] = MR_AI(sizes[i][d]);
    return mr_accel_launch(r, kernel, out->n, args, n);
}

mr_status *mr_conv_run_accel(mr_run *r, mr_conv_pass pass, const mr_conv *c, const mr_tensor *a, const mr_tensor *b,
                             int rank, const int64_t *dims)
{
    static const char *const kernels[] = {"conv_forward", "conv_input", "conv_filter"};
    mr_layout layout = ((const mr_conv_state *)r->state)->window.layout;
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, rank, dims, &out));
    if (a->n == 0 || b->n == 0 || out->n == 0)
        return mr_accel_fill(r, out, 0);
    return is_product(c, layout) ? run_product(r, pass, c, a, b, out)
                                 : mr_window_launch(r, kernels[pass], c, layout, out, a, b);
}
