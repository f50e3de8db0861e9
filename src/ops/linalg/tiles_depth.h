/* ops/linalg/tiles_depth.h -- depthwise convolutions, row by row; included once for each kind of CPU.
 *
 * The including file defines FN(name), TARGET, LANES (floats of a vector), VMIN and VMAX, and includes tiles_pack.h and
 * tiles_edge.h first. A vector of channels is computed for a whole row of pixels, so that the filter stays in
 * registers, and for DEPTH_PIXELS of them at a time. */

#define DEPTH_PIXELS 4
#define LOAD(p) (*(const FN(loose) *)(p))

/* What `end` makes of the sums of some pixels at channel c. */
TARGET MR_INLINE void FN(depth_store)(const mr_depth_row *r, FN(vec) *sums, int n, int64_t x, int64_t c)
{
    const mr_tile_end *end = r->end;
    float *out = r->out + x * r->channels + c;
#pragma GCC unroll 4
    for (int p = 0; p < n; p++) {
        FN(vec) v = sums[p];
        if (end) {
            if (end->center)
                v = v - LOAD(end->center + c);
            if (end->scale)
                v = v * LOAD(end->scale + c);
            if (end->shift)
                v = v + LOAD(end->shift + c);
            if (end->add)
                v = v + LOAD(end->add + (out - end->c) + p * r->channels);
            if (end->clamp)
                v = VMIN((FN(vec)){0} + end->high, VMAX((FN(vec)){0} + end->low, v));
        }
        *(FN(loose) *)(out + p * r->channels) = v;
    }
}

/* The channels from c on of one pixel, which fill less than a vector; the columns [from, end) of its window are inside
 * the image. The output may share the memory of the end's `add`. */
TARGET MR_INLINE void FN(depth_tail)(const mr_depth_row *r, int64_t c, int64_t x, int64_t from, int64_t end)
{
    float sums[LANES];
    const float *in = r->in + x * r->step + c, *w = r->filter + c;
    float *out = r->out + x * r->channels + c;
    const int64_t n = r->channels - c;
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int64_t ky = 0; ky < r->rows; ky++)
            for (int64_t kx = from; kx < end; kx++)
                sum += in[ky * r->jump + kx * r->tap + i] * w[(ky * r->cols + kx) * r->channels + i];
        sums[i] = sum;
    }
    if (r->end)
        FN(finish_row)(r->end, sums, out, c, n);
    memcpy(out, sums, (size_t)n * sizeof(float));
}

/* One pixel, of whose window the columns [from, end) are inside the image. */
TARGET static void FN(depth_edge)(const mr_depth_row *r, int64_t x, int64_t from, int64_t end)
{
    const float *in = r->in + x * r->step;
    int64_t c = 0;
    for (; c + LANES <= r->channels; c += LANES) {
        FN(vec) sum = {0};
        for (int64_t ky = 0; ky < r->rows; ky++)
            for (int64_t kx = from; kx < end; kx++)
                sum += LOAD(in + ky * r->jump + kx * r->tap + c) * LOAD(r->filter + (ky * r->cols + kx) * r->channels + c);
        FN(depth_store)(r, &sum, 1, x, c);
    }
    FN(depth_tail)(r, c, x, from, end);
}

/* Pixels [x, end) at channel c, for any window that is inside the image. */
TARGET MR_INLINE void FN(depth_any)(const mr_depth_row *r, int64_t c, int64_t x, int64_t end)
{
    for (; x + DEPTH_PIXELS <= end; x += DEPTH_PIXELS) {
        FN(vec) sums[DEPTH_PIXELS] = {{0}};
        const float *in = r->in + x * r->step + c, *w = r->filter + c;
        for (int64_t ky = 0; ky < r->rows; ky++)
            for (int64_t kx = 0; kx < r->cols; kx++, w += r->channels) {
                const FN(vec) by = LOAD(w);
                const float *from = in + ky * r->jump + kx * r->tap;
#pragma GCC unroll 4
                for (int p = 0; p < DEPTH_PIXELS; p++)
                    sums[p] += LOAD(from + p * r->step) * by;
            }
        FN(depth_store)(r, sums, DEPTH_PIXELS, x, c);
    }
    for (; x < end; x++) {
        FN(vec) sum = {0};
        const float *in = r->in + x * r->step + c, *w = r->filter + c;
        for (int64_t ky = 0; ky < r->rows; ky++)
            for (int64_t kx = 0; kx < r->cols; kx++, w += r->channels)
                sum += LOAD(in + ky * r->jump + kx * r->tap) * LOAD(w);
        FN(depth_store)(r, &sum, 1, x, c);
    }
}

/* The same for 3 x 3 windows that move by `stride` pixels: each pixel is loaded once for all windows that it is in.
 * fetches: each vector of channels brings its share of the pixels that r->ahead points to into the cache. */
TARGET MR_INLINE void FN(depth_3x3)(const mr_depth_row *r, int64_t c, int64_t x, int64_t end, const int stride,
                                    const bool fetches)
{
    FN(vec) w[9];
#pragma GCC unroll 9
    for (int i = 0; i < 9; i++)
        w[i] = LOAD(r->filter + i * r->channels + c);
    const int pixels = stride == 1 ? DEPTH_PIXELS : 2, wide = (pixels - 1) * stride + 3;
    const float *ahead = fetches ? r->ahead + c * r->last * stride * stride : NULL;
    for (; x + pixels <= end; x += pixels) {
        if (fetches) {
#pragma GCC unroll 8
            for (int i = 0; i < pixels * stride * stride; i++)
                __builtin_prefetch(ahead + (x * stride * stride + i) * LANES);
        }
        FN(vec) sums[DEPTH_PIXELS] = {{0}}, seen[DEPTH_PIXELS + 2];
        const float *in = r->in + x * r->step + c;
#pragma GCC unroll 3
        for (int ky = 0; ky < 3; ky++) {
#pragma GCC unroll 6
            for (int i = 0; i < wide; i++)
                seen[i] = LOAD(in + ky * r->jump + i * r->tap);
#pragma GCC unroll 3
            for (int kx = 0; kx < 3; kx++)
#pragma GCC unroll 4
                for (int p = 0; p < pixels; p++)
                    sums[p] += seen[p * stride + kx] * w[ky * 3 + kx];
        }
        FN(depth_store)(r, sums, pixels, x, c);
    }
    FN(depth_any)(r, c, x, end);
}

TARGET static void FN(depth_row)(const mr_depth_row *r)
{
    bool small = r->rows == 3 && r->cols == 3;
    int64_t c = 0;
    for (; c + LANES <= r->channels; c += LANES) {
        if (small && r->step == r->tap && r->ahead)
            FN(depth_3x3)(r, c, r->first, r->last, 1, true);
        else if (small && r->step == r->tap)
            FN(depth_3x3)(r, c, r->first, r->last, 1, false);
        else if (small && r->step == 2 * r->tap && r->ahead)
            FN(depth_3x3)(r, c, r->first, r->last, 2, true);
        else if (small && r->step == 2 * r->tap)
            FN(depth_3x3)(r, c, r->first, r->last, 2, false);
        else
            FN(depth_any)(r, c, r->first, r->last);
    }
    for (int64_t x = r->first; x < r->last && c < r->channels; x++)
        FN(depth_tail)(r, c, x, 0, r->cols);
}

#undef DEPTH_PIXELS
#undef LOAD
