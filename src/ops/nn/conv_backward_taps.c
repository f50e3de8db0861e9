/* ops/nn/conv_backward_taps.c -- the gradient of a filter as products of matrices.
 *
 * For one pixel of the window (a tap), the gradient is X' G: row i of X is the pixel of the image that the tap covers
 * at output pixel i, and row i of G is the gradient of output pixel i, of all images. The product sums over all images
 * before it adds to the filter. conv_direct.c adds to the filter once for each image: that is slow if the filter does
 * not fit the cache and the images have few pixels, which is so in the last layers of a deep network.
 *
 * X is the image itself for a window of one pixel that moves by one pixel; otherwise the pixels are copied for each
 * tap. G is packed once for all taps. */
#include "ops/nn/conv_backward_taps.h"

#include "base/memory.h"
#include "ops/linalg/gemm.h"

/* Below these numbers of out pixels of an image, and from these numbers of floats of a filter, products are faster than
 * conv_direct.c. Measured on a CPU with AVX-512 and a second-level cache of 1 MiB. */
enum {
    FEW_PIXELS = 128,
    LARGE_FILTER = 1 << 18,
    FEW_PIXELS_OF_ONE = 256, /* for windows of one pixel */
    LARGE_FILTER_OF_ONE = 1 << 16,
};
#define COPY_NS 0.1 /* per element */

/* Copies the pixels that one tap covers. */
typedef struct gather {
    const mr_conv *c;
    const float *image;
    float *to;
    int64_t ky, kx;
} gather;

static void copy_pixel(const mr_conv *c, const float *row, int64_t x, float *to)
{
    size_t bytes = (size_t)c->in_channels * sizeof(float);
    if (row && x >= 0 && x < c->in[2])
        memcpy(to, row + x * c->in_channels, bytes);
    else
        memset(to, 0, bytes); /* padding */
}

/* Rows [begin, end) of all out images. */
static void gather_rows(void *ctx, int64_t begin, int64_t end)
{
    const gather *j = ctx;
    const mr_conv *c = j->c;
    for (int64_t i = begin; i < end; i++) {
        int64_t y = i % c->out[1] * c->stride[1] - c->before[1] + j->ky * c->dilation[1];
        int64_t x = j->kx * c->dilation[2] - c->before[2];
        const float *image = j->image + i / c->out[1] * mr_conv_in_size(c);
        const float *row = y >= 0 && y < c->in[1] ? image + y * c->in[2] * c->in_channels : NULL;
        float *to = j->to + i * c->out[2] * c->in_channels;
        for (int64_t o = 0; o < c->out[2]; o++, x += c->stride[2], to += c->in_channels)
            copy_pixel(c, row, x, to);
    }
}

static bool is_one_pixel(const mr_conv *c)
{
    return mr_conv_pixels(c->window) == 1 && c->before[1] == 0 && c->before[2] == 0 && c->after[1] == 0 &&
           c->after[2] == 0;
}

/* Out pixel i covers pixel i of the image. */
static bool is_the_image(const mr_conv *c)
{
    return is_one_pixel(c) && c->stride[1] == 1 && c->stride[2] == 1;
}

bool mr_conv_taps_serves(const mr_conv *c)
{
    bool flat = c->in[0] == 1 && c->out[0] == 1 && c->window[0] == 1 && c->before[0] == 0;
    if (!flat || c->groups != 1)
        return false;
    int64_t pixels = mr_conv_pixels(c->out), size = mr_conv_filter_size(c);
    if (!is_one_pixel(c))
        return pixels < FEW_PIXELS && size >= LARGE_FILTER;
    return !is_the_image(c) || (pixels < FEW_PIXELS_OF_ONE && size >= LARGE_FILTER_OF_ONE);
}

mr_status *mr_conv_taps(mr_run *r, const mr_conv *c, const float *image, const float *grad, float *out)
{
    mr_status *st = NULL;
    mr_tensor *pixels = NULL, *packed = NULL;
    int64_t n = c->batch * mr_conv_pixels(c->out), taps = mr_conv_pixels(c->window), size = c->in_channels * c->out_channels;
    mr_gemm_batch g = {.one = {.type = MR_FLOAT, .m = c->in_channels, .n = c->out_channels, .k = n, .ta = true},
                       .n_batch = 1,
                       .a = image,
                       .b = grad,
                       .a_n = n * c->in_channels,
                       .b_n = n * c->out_channels};
    if (!is_the_image(c)) {
        MR_GO(mr_run_temp(r, MR_FLOAT, 2, (const int64_t[]){n, c->in_channels}, &pixels));
        g.a = pixels->data;
    }
    if (taps > 1)
        MR_GO(mr_gemm_pack_b(r, &g.one, grad, &packed));
    g.one.packed_b = packed;
    for (int64_t tap = 0; tap < taps; tap++) {
        gather j = {c, image, pixels ? pixels->data : NULL, tap / c->window[2], tap % c->window[2]};
        double row_ns = COPY_NS * (double)(c->out[2] * c->in_channels);
        if (pixels)
            mr_run_for(r, c->batch * c->out[1], row_ns, gather_rows, &j);
        g.c = out + tap * size;
        MR_GO(mr_gemm_run(r, &g));
    }
out:
    mr_tensor_unref(pixels);
    mr_tensor_unref(packed);
    return st;
}
