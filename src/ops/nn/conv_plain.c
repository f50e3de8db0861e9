/* ops/nn/conv_plain.c -- the passes of a convolution in plain C: for double and int32, and for
 * floats with a geometry that oneDNN does not support.
 *
 * In each pass the innermost loop runs over the out channels of a group, which are contiguous in the
 * filter and in the out image.  Work is split so that no two threads write the same element: by rows
 * of the out image, rows of the image, or rows of the filter. */
#ifndef T /* ---- included once ---- */
#include "base/memory.h"
#include "base/simd.h"
#include "ops/nn/conv.h"

#define WORK_NS 0.5 /* per multiplication */

typedef struct job {
    const mr_conv *c;
    const void *image, *filter, *out;
    void *result;
} job;

/* The part of the out image or of the window that overlaps the image along one dimension. */
typedef struct span { int64_t begin, end; } span;

/* The positions k of the window at which out position o reads a pixel of the image. */
static span window_span(const mr_conv *c, int d, int64_t o)
{
    int64_t first = o * c->stride[d] - c->before[d]; /* pixel under k = 0 */
    span s = {first < 0 ? (-first - 1) / c->dilation[d] + 1 : 0, c->window[d]};
    if (first + (c->window[d] - 1) * c->dilation[d] >= c->in[d])
        s.end = first >= c->in[d] ? 0 : (c->in[d] - 1 - first) / c->dilation[d] + 1;
    return s;
}

/* The out position that reads pixel i through position k of the window, or -1. */
static int64_t out_position(const mr_conv *c, int d, int64_t i, int64_t k)
{
    int64_t at = i + c->before[d] - k * c->dilation[d];
    return at >= 0 && at % c->stride[d] == 0 && at / c->stride[d] < c->out[d] ? at / c->stride[d]
                                                                              : -1;
}

/* Every group has one in channel and one out channel: then the loops run over channels. */
static bool is_depthwise(const mr_conv *c)
{
    return c->groups == c->in_channels && c->groups == c->out_channels;
}

static int64_t pixel_index(const int64_t *space, int64_t z, int64_t y, int64_t x)
{
    return (z * space[1] + y) * space[2] + x;
}

#define T float
#define W float /* the type in which products are added; unsigned for integers, so that they wrap */
#define FN(f) f##_float
#include "ops/nn/conv_plain.c"
#undef T
#undef W
#undef FN
#define T double
#define W double
#define FN(f) f##_double
#include "ops/nn/conv_plain.c"
#undef T
#undef W
#undef FN
#define T int32_t
#define W uint32_t
#define FN(f) f##_int32
#include "ops/nn/conv_plain.c"
#undef T
#undef W
#undef FN

typedef void part_fn(void *ctx, int64_t begin, int64_t end);

static part_fn *choose_part(mr_dtype type, part_fn *of_float, part_fn *of_double, part_fn *of_int32)
{
    return type == MR_FLOAT ? of_float : type == MR_DOUBLE ? of_double : of_int32;
}

void mr_conv_plain(mr_run *r, mr_dtype type, mr_conv_pass pass, const mr_conv *c, const void *a,
                   const void *b, void *out)
{
    job j = {.c = c, .result = out};
    double work = WORK_NS * (double)c->batch * mr_conv_work(c);
    int64_t n;
    part_fn *part;
    switch (pass) {
    case MR_CONV_FORWARD:
        j.image = a;
        j.filter = b;
        n = c->batch * c->out[0] * c->out[1];
        part = choose_part(type, forward_float, forward_double, forward_int32);
        break;
    case MR_CONV_INPUT:
        j.filter = a;
        j.out = b;
        n = c->batch * c->in[0] * c->in[1];
        part = choose_part(type, input_float, input_double, input_int32);
        break;
    default:
        j.image = a;
        j.out = b;
        n = mr_conv_pixels(c->window) * (c->in_channels / c->groups);
        part = choose_part(type, filter_float, filter_double, filter_int32);
    }
    mr_run_for(r, n, work / (double)MR_MAX(1, n), part, &j);
}

#else /* ---- included once per type ---- */

/* y[g] += x[g] w, over all groups at one place of the window: w is [in of a group, out]. */
MR_INLINE void FN(multiply)(const mr_conv *c, const T *x, const T *w, T *y)
{
    int64_t in = c->in_channels / c->groups, out = c->out_channels / c->groups;
    if (is_depthwise(c)) {
        for (int64_t g = 0; g < c->groups; g++)
            y[g] = (T)((W)y[g] + (W)x[g] * (W)w[g]);
        return;
    }
    for (int64_t g = 0; g < c->groups; g++)
        for (int64_t i = 0; i < in; i++) {
            const W factor = (W)x[g * in + i];
            const T *row = w + i * c->out_channels + g * out;
            for (int64_t o = 0; o < out; o++)
                y[g * out + o] = (T)((W)y[g * out + o] + factor * (W)row[o]);
        }
}

/* Computes rows (batch, depth, row) of the out image. */
MR_CLONES static void FN(forward)(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    const mr_conv *c = j->c;
    int64_t step = c->in_channels / c->groups * c->out_channels; /* elements of the filter per place of the window */
    for (int64_t row = begin; row < end; row++) {
        int64_t oy = row % c->out[1], oz = row / c->out[1] % c->out[0],
                n = row / c->out[1] / c->out[0];
        span z = window_span(c, 0, oz), y = window_span(c, 1, oy);
        const T *image = (const T *)j->image + n * mr_conv_in_size(c);
        T *to = (T *)j->result + row * c->out[2] * c->out_channels;
        memset(to, 0, (size_t)(c->out[2] * c->out_channels) * sizeof(T));
        for (int64_t ox = 0; ox < c->out[2]; ox++, to += c->out_channels) {
            span x = window_span(c, 2, ox);
            for (int64_t kz = z.begin; kz < z.end; kz++)
                for (int64_t ky = y.begin; ky < y.end; ky++)
                    for (int64_t kx = x.begin; kx < x.end; kx++) {
                        int64_t from =
                            pixel_index(c->in, oz * c->stride[0] - c->before[0] + kz * c->dilation[0],
                                        oy * c->stride[1] - c->before[1] + ky * c->dilation[1],
                                        ox * c->stride[2] - c->before[2] + kx * c->dilation[2]);
                        FN(multiply)
                        (c, image + from * c->in_channels,
                         (const T *)j->filter + pixel_index(c->window, kz, ky, kx) * step, to);
                    }
        }
    }
}

/* x[g] += w y[g]: the transpose of FN(multiply). */
MR_INLINE void FN(multiply_back)(const mr_conv *c, const T *y, const T *w, T *x)
{
    int64_t in = c->in_channels / c->groups, out = c->out_channels / c->groups;
    if (is_depthwise(c)) {
        for (int64_t g = 0; g < c->groups; g++)
            x[g] = (T)((W)x[g] + (W)w[g] * (W)y[g]);
        return;
    }
    for (int64_t g = 0; g < c->groups; g++)
        for (int64_t i = 0; i < in; i++) {
            const T *row = w + i * c->out_channels + g * out;
            W sum = (W)x[g * in + i];
            for (int64_t o = 0; o < out; o++)
                sum += (W)row[o] * (W)y[g * out + o];
            x[g * in + i] = (T)sum;
        }
}

/* Computes rows (batch, depth, row) of the image's gradient. */
MR_CLONES static void FN(input)(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    const mr_conv *c = j->c;
    int64_t step = c->in_channels / c->groups * c->out_channels, places = mr_conv_pixels(c->window);
    for (int64_t row = begin; row < end; row++) {
        int64_t iy = row % c->in[1], iz = row / c->in[1] % c->in[0], n = row / c->in[1] / c->in[0];
        const T *out = (const T *)j->out + n * mr_conv_out_size(c);
        T *to = (T *)j->result + row * c->in[2] * c->in_channels;
        memset(to, 0, (size_t)(c->in[2] * c->in_channels) * sizeof(T));
        for (int64_t k = 0; k < places; k++) {
            int64_t kx = k % c->window[2], ky = k / c->window[2] % c->window[1];
            int64_t oz = out_position(c, 0, iz, k / c->window[2] / c->window[1]);
            int64_t oy = out_position(c, 1, iy, ky);
            for (int64_t ix = 0; oz >= 0 && oy >= 0 && ix < c->in[2]; ix++) {
                int64_t ox = out_position(c, 2, ix, kx);
                if (ox >= 0)
                    FN(multiply_back)(c, out + pixel_index(c->out, oz, oy, ox) * c->out_channels,
                                      (const T *)j->filter + k * step, to + ix * c->in_channels);
            }
        }
    }
}

/* Adds x y[g] over all pixels of one image that place (kz, ky, kx) of the window reads. */
MR_INLINE void FN(correlate)(const mr_conv *c, const T *image, const T *out, int64_t k, int64_t i,
                             T *to)
{
    int64_t kx = k % c->window[2], ky = k / c->window[2] % c->window[1];
    int64_t kz = k / c->window[2] / c->window[1], pixels = mr_conv_pixels(c->out);
    int64_t in = c->in_channels / c->groups, group = c->out_channels / c->groups;
    for (int64_t p = 0; p < pixels; p++) {
        int64_t x = p % c->out[2] * c->stride[2] - c->before[2] + kx * c->dilation[2];
        int64_t y = p / c->out[2] % c->out[1] * c->stride[1] - c->before[1] + ky * c->dilation[1];
        int64_t z = p / c->out[2] / c->out[1] * c->stride[0] - c->before[0] + kz * c->dilation[0];
        if (x < 0 || y < 0 || z < 0 || x >= c->in[2] || y >= c->in[1] || z >= c->in[0])
            continue;
        const T *from = image + pixel_index(c->in, z, y, x) * c->in_channels + i;
        const T *dy = out + p * c->out_channels;
        for (int64_t g = 0; g < c->groups && is_depthwise(c); g++)
            to[g] = (T)((W)to[g] + (W)from[g] * (W)dy[g]);
        for (int64_t g = 0; g < c->groups && !is_depthwise(c); g++) {
            const W factor = (W)from[g * in];
            for (int64_t o = g * group; o < (g + 1) * group; o++)
                to[o] = (T)((W)to[o] + factor * (W)dy[o]);
        }
    }
}

/* Computes rows (place, in channel of a group) of the filter's gradient. */
MR_CLONES static void FN(filter)(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    const mr_conv *c = j->c;
    int64_t in = c->in_channels / c->groups;
    for (int64_t row = begin; row < end; row++) {
        T *to = (T *)j->result + row * c->out_channels;
        memset(to, 0, (size_t)c->out_channels * sizeof(T));
        for (int64_t n = 0; n < c->batch; n++)
            FN(correlate)(c, (const T *)j->image + n * mr_conv_in_size(c),
                          (const T *)j->out + n * mr_conv_out_size(c), row / in, row % in, to);
    }
}
#endif
