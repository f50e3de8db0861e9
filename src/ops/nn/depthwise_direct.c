/* ops/nn/depthwise_direct.c -- depthwise convolutions of floats with one filter a channel.
 *
 * Rows of the window above or below the image are skipped, and columns beside it; so nothing is padded or copied. Each
 * row of the out image is computed in one piece. */
#include "ops/nn/depthwise_direct.h"

#include "base/memory.h"

enum { LARGE = 1 << 20 }; /* floats: images that no second-level cache holds */
#define WORK_NS 0.05 /* per multiplication */

typedef struct job {
    const mr_tiles *tiles;
    const mr_conv *c;
    const float *in, *filter;
    float *out;
    mr_conv_end end;
    bool ends;
} job;

bool mr_depthwise_direct_serves(const mr_conv *c)
{
    bool flat = c->in[0] == 1 && c->out[0] == 1 && c->window[0] == 1 && c->before[0] == 0;
    if (!flat || c->groups != c->in_channels || c->groups != c->out_channels)
        return false;
    for (int i = 1; i < MR_SPACE; i++) /* products of a few sizes fit 64 bits */
        if (c->window[i] > INT32_MAX || c->stride[i] > INT32_MAX || c->dilation[i] > INT32_MAX ||
            c->before[i] > INT32_MAX)
            return false;
    return true;
}

/* The taps [*from, *end) of a window that begins at `begin` which are inside an image of n pixels. */
static void taps_inside(int64_t begin, int64_t n, int64_t taps, int64_t dilation, int64_t *from, int64_t *end)
{
    *from = begin < 0 ? MR_MIN(taps, (-begin + dilation - 1) / dilation) : 0;
    *end = n > begin ? MR_MIN(taps, (n - begin + dilation - 1) / dilation) : 0;
    *end = MR_MAX(*from, *end);
}

/* The rows of the image below the window that begins at row `top`, for the next row of the out image: after the last one
 * come those of the next image. NULL: the images may be in the cache already, or end before. */
static const float *rows_ahead(const job *j, const float *image, int64_t top)
{
    const mr_conv *c = j->c;
    int64_t row = c->in[2] * c->in_channels, all = c->batch * mr_conv_in_size(c);
    int64_t at = image - j->in + (top + (c->window[1] - 1) * c->dilation[1] + 1) * row;
    return all >= LARGE && at + c->stride[1] * row <= all ? j->in + at : NULL;
}

static void make_row(const job *j, const float *image, int64_t y, float *out)
{
    const mr_conv *c = j->c;
    int64_t from, end, channels = c->in_channels, top = y * c->stride[1] - c->before[1];
    taps_inside(top, c->in[1], c->window[1], c->dilation[1], &from, &end);
    mr_depth_row r = {.step = c->stride[2] * channels,
                      .jump = c->dilation[1] * c->in[2] * channels,
                      .tap = c->dilation[2] * channels,
                      .rows = end - from,
                      .cols = c->window[2],
                      .channels = channels,
                      .out = out,
                      .end = j->ends ? &j->end.tile : NULL};
    r.filter = j->filter + from * r.cols * channels;
    r.in = image + ((top + from * c->dilation[1]) * c->in[2] - c->before[2]) * channels;
    r.ahead = rows_ahead(j, image, top);
    int64_t extent = (c->window[2] - 1) * c->dilation[2] + 1, room = c->in[2] + c->before[2] - extent;
    r.first = MR_MIN(c->out[2], (c->before[2] + c->stride[2] - 1) / c->stride[2]);
    r.last = room < 0 ? r.first : MR_MAX(r.first, MR_MIN(c->out[2], room / c->stride[2] + 1));
    for (int64_t x = 0; x < c->out[2]; x = x + 1 == r.first ? r.last : x + 1) {
        if (x >= r.first && x < r.last)
            continue;
        taps_inside(x * c->stride[2] - c->before[2], c->in[2], r.cols, c->dilation[2], &from, &end);
        j->tiles->depth_edge(&r, x, from, end);
    }
    if (r.first < r.last)
        j->tiles->depth_row(&r);
}

/* Computes rows [begin, end), counted over all out images. */
static void rows_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    const mr_conv *c = j->c;
    int64_t row = c->out[2] * c->out_channels;
    for (int64_t i = begin; i < end; i++) {
        make_row(j, j->in + i / c->out[1] * mr_conv_in_size(c), i % c->out[1], j->out + i * row);
        if (j->ends && j->end.then)
            j->end.then(j->out + i * row, row, j->end.alpha);
    }
}

void mr_depthwise_direct(mr_run *r, const mr_conv *c, const float *image, const float *filter, float *out,
                         const mr_conv_end *end)
{
    job j = {.tiles = mr_tiles_here(), .c = c, .in = image, .filter = filter, .out = out, .ends = end != NULL};
    if (end) {
        j.end = *end;
        j.end.tile.c = out;
    }
    double work = (double)(c->out[2] * c->window[1] * c->window[2]) * (double)c->out_channels;
    mr_run_for(r, c->batch * c->out[1], WORK_NS * work, rows_part, &j);
}
