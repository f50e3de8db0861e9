/* ops/nn/max_pool_loops.c -- the loops of MaxPool and its gradients.
 *
 * Taps are taken four at a time, each of them a run of contiguous channels.  If fewer than four are
 * left, the last one is repeated, which does not change the maximum.
 *
 * NaNs are treated as in TensorFlow's CPU kernels.  In the forward pass a NaN is never the maximum.  The
 * gradient in two dimensions finds the maximum by another rule, that of MaxPoolWithArgmax: the first tap,
 * unless a later one is larger.  So a NaN gets the gradient if it is the first tap.
 *
 * The gradient goes to the first tap that equals the maximum.  It is carried along: a tap that
 * equals the maximum gets it and leaves zero for the taps after it.  In three dimensions every tap that
 * is near the maximum gets all of it, as in TensorFlow. */
#ifndef T /* ---- included once ---- */
#include <math.h>

#include "base/memory.h"
#include "base/simd.h"
#include "ops/nn/max_pool.h"

enum { BLOCK = 256 }; /* channels whose maxima are kept in a local array at a time */

/* A window, and an iterator over its taps; both stay in registers once inlined. */
typedef struct window {
    mr_pool_extent z, y, x;
} window;

typedef struct taps {
    int64_t z, y, x; /* the next tap */
} taps;

MR_INLINE window window_at(const mr_conv *c, int64_t oz, int64_t oy, int64_t ox)
{
    window w = {mr_pool_span(c, 0, oz), mr_pool_span(c, 1, oy), mr_pool_span(c, 2, ox)};
    if (w.y.begin >= w.y.end || w.x.begin >= w.x.end)
        w.z.end = w.z.begin; /* all of it is padding */
    return w;
}

MR_INLINE taps taps_begin(const window *w) { return (taps){w->z.begin, w->y.begin, w->x.begin}; }

MR_INLINE int64_t tap_take(taps *t, const window *w, const mr_conv *c)
{
    int64_t pixel = (t->z * c->in[1] + t->y) * c->in[2] + t->x;
    if (++t->x == w->x.end) {
        t->x = w->x.begin;
        if (++t->y == w->y.end) {
            t->y = w->y.begin;
            t->z++;
        }
    }
    return pixel;
}

MR_INLINE int64_t taps_count(const window *w)
{
    return (w->z.end - w->z.begin) * (w->y.end - w->y.begin) * (w->x.end - w->x.begin);
}

MR_INLINE bool taps_left(const taps *t, const window *w) { return t->z < w->z.end; }

/* The next four taps, as pixels of the image; if fewer are left, the last one is repeated. */
MR_INLINE void taps_take4(taps *t, const window *w, const mr_conv *c, int64_t *pixels)
{
    pixels[0] = tap_take(t, w, c);
    for (int i = 1; i < 4; i++)
        pixels[i] = taps_left(t, w) ? tap_take(t, w, c) : pixels[i - 1];
}

#define LARGER(p, q) ((q) > (p) ? (q) : (p))
/* Whether a tap gets the gradient: it is the maximum.  If that is NaN, it is the first tap. */
#define IS_TOP(x, top) ((x) == (top) || (top) != (top))

/* True for windows of 2 x 2 pixels that do not overlap and are inside the image. */
static inline bool are_squares(const mr_conv *c)
{
    bool in = c->in[0] == 1 && c->out[0] == 1 && c->window[0] == 1 && c->before[0] == 0;
    for (int i = 1; i < MR_SPACE; i++)
        in &= c->window[i] == 2 && c->stride[i] == 2 && c->dilation[i] == 1 && c->before[i] == 0 &&
              c->out[i] <= c->in[i] / 2;
    return in;
}

#define MR_TYPED_FILE "ops/nn/max_pool_loops.c"
#include "ops/nn/each_number.h"

#else /* ---- included once per type ---- */

/* The largest of four taps and of the previous result, or of *lowest if these are the first taps.  Comparisons with NaN
 * are false, so a NaN in the start value stays and all others are skipped.  If lowest is NULL, the first tap is the
 * start value. */
MR_INLINE void FN(max4)(const T *image, const int64_t *at, int64_t stride, bool first, const T *lowest, int64_t n,
                        T *to)
{
    const T *a = image + at[0] * stride, *b = image + at[1] * stride;
    const T *c = image + at[2] * stride, *d = image + at[3] * stride;
    if (first) {
        MR_IVDEP
        for (int64_t k = 0; k < n; k++) {
            T most = lowest ? LARGER(*lowest, a[k]) : a[k];
            most = LARGER(most, b[k]);
            most = LARGER(most, c[k]);
            to[k] = LARGER(most, d[k]);
        }
        return;
    }
    MR_IVDEP
    for (int64_t k = 0; k < n; k++) {
        T most = LARGER(to[k], a[k]);
        most = LARGER(most, b[k]);
        most = LARGER(most, c[k]);
        to[k] = LARGER(most, d[k]);
    }
}

MR_INLINE void FN(window_max)(const mr_conv *c, const window *w, const T *image, const T *lowest, int64_t n, T *to)
{
    taps t = taps_begin(w);
    bool first = true;
    for (; taps_left(&t, w); first = false) {
        int64_t at[4];
        taps_take4(&t, w, c, at);
        FN(max4)(image, at, c->in_channels, first, lowest, n, to);
    }
    for (int64_t k = 0; k < n && first; k++)
        to[k] = lowest ? *lowest : LOWEST;
}

CLONES static void FN(forward)(const mr_pool_job *j, int64_t batch, int64_t channel,
                               int64_t channels)
{
    const mr_conv *c = j->c;
    const T *image = (const T *)j->image + batch * mr_conv_in_size(c) + channel;
    T *to = (T *)j->result + batch * mr_conv_out_size(c) + channel;
    const T lowest = (T)0.5 != 0 ? (T)j->lowest : (T)LOWEST;
    for (int64_t oz = 0; oz < c->out[0]; oz++)
        for (int64_t oy = 0; oy < c->out[1]; oy++)
            for (int64_t ox = 0; ox < c->out[2]; ox++, to += c->in_channels) {
                window w = window_at(c, oz, oy, ox);
                FN(window_max)(c, &w, image, &lowest, channels, to);
            }
}

/* Adds g to the first tap that equals the maximum and sets g to 0; if no tap equals it, g stays. */
MR_INLINE void FN(give4)(const T *image, const int64_t *at, int64_t stride, const T *top, int64_t n,
                         T *g, T *result)
{
    const T *a = image + at[0] * stride, *b = image + at[1] * stride;
    const T *c = image + at[2] * stride, *d = image + at[3] * stride;
    T *ga = result + at[0] * stride, *gb = result + at[1] * stride;
    T *gc = result + at[2] * stride, *gd = result + at[3] * stride;
    MR_IVDEP
    for (int64_t k = 0; k < n; k++) {
        T m = top[k], left = g[k], zero = 0;
        ga[k] = PLUS(ga[k], IS_TOP(a[k], m) ? left : zero);
        left = IS_TOP(a[k], m) ? zero : left;
        gb[k] = PLUS(gb[k], IS_TOP(b[k], m) ? left : zero);
        left = IS_TOP(b[k], m) ? zero : left;
        gc[k] = PLUS(gc[k], IS_TOP(c[k], m) ? left : zero);
        left = IS_TOP(c[k], m) ? zero : left;
        gd[k] = PLUS(gd[k], IS_TOP(d[k], m) ? left : zero);
        g[k] = IS_TOP(d[k], m) ? zero : left;
    }
}

/* The same for one tap. */
MR_INLINE void FN(give1)(const T *image, int64_t at, int64_t stride, const T *top, int64_t n, T *g,
                         T *result)
{
    const T *a = image + at * stride;
    T *ga = result + at * stride;
    MR_IVDEP
    for (int64_t k = 0; k < n; k++) {
        T left = g[k], zero = 0;
        ga[k] = PLUS(ga[k], IS_TOP(a[k], top[k]) ? left : zero);
        g[k] = IS_TOP(a[k], top[k]) ? zero : left;
    }
}

MR_INLINE void FN(window_grad)(const mr_conv *c, const window *w, const T *image, const T *g,
                               int64_t n, T *result)
{
    T top[BLOCK], left[BLOCK];
    for (int64_t from = 0; from < n; from += BLOCK) {
        int64_t m = MR_MIN(BLOCK, n - from), at[4];
        taps t = taps_begin(w);
        FN(window_max)(c, w, image + from, NULL, m, top);
        memcpy(left, g + from, (size_t)m * sizeof(T));
        int64_t count = taps_count(w);
        for (; count >= 4; count -= 4) {
            taps_take4(&t, w, c, at);
            FN(give4)(image + from, at, c->in_channels, top, m, left, result + from);
        }
        for (; count > 0; count--)
            FN(give1)
            (image + from, tap_take(&t, w, c), c->in_channels, top, m, left, result + from);
    }
}

/* Zeroes rows from..to of the image and returns how many rows are zero now. */
MR_INLINE int64_t FN(zero_rows)(const mr_conv *c, T *image, int64_t from, int64_t to,
                                int64_t channels)
{
    for (int64_t i = from * c->in[2]; i < to * c->in[2]; i++)
        memset(image + i * c->in_channels, 0, (size_t)channels * sizeof(T));
    return MR_MAX(from, to);
}

/* The gradient of a window of 2 x 2 pixels that belong to no other window. row: elements of a row of the image. */
MR_INLINE void FN(give_square)(const T *image, const T *g, int64_t pixel, int64_t row, int64_t n, T *result)
{
    const T *a = image, *b = a + pixel, *c = a + row, *d = b + row;
    T *ga = result, *gb = ga + pixel, *gc = ga + row, *gd = gb + row;
    MR_IVDEP
    for (int64_t k = 0; k < n; k++) {
        T m = LARGER(a[k], b[k]), zero = 0, left = PLUS(zero, g[k]); /* -0 becomes 0, as in a sum */
        m = LARGER(m, c[k]);
        m = LARGER(m, d[k]);
        ga[k] = IS_TOP(a[k], m) ? left : zero;
        left = IS_TOP(a[k], m) ? zero : left;
        gb[k] = IS_TOP(b[k], m) ? left : zero;
        left = IS_TOP(b[k], m) ? zero : left;
        gc[k] = IS_TOP(c[k], m) ? left : zero;
        left = IS_TOP(c[k], m) ? zero : left;
        gd[k] = IS_TOP(d[k], m) ? left : zero;
    }
}

/* The gradient where are_squares() holds: every element is written once, instead of zeroed and added to. */
MR_INLINE void FN(squares_grad)(const mr_conv *c, const T *image, const T *g, int64_t channels, T *result)
{
    int64_t pixel = c->in_channels, row = c->in[2] * pixel;
    for (int64_t y = 0; y < c->out[1]; y++, image += 2 * row, result += 2 * row) {
        for (int64_t x = 0; x < c->out[2]; x++, g += pixel)
            FN(give_square)(image + 2 * x * pixel, g, pixel, row, channels, result + 2 * x * pixel);
        for (int64_t x = 2 * c->out[2]; x < c->in[2]; x++) {
            memset(result + x * pixel, 0, (size_t)channels * sizeof(T));
            memset(result + row + x * pixel, 0, (size_t)channels * sizeof(T));
        }
    }
    FN(zero_rows)(c, result, 0, c->in[1] - 2 * c->out[1], channels);
}

CLONES static void FN(grad)(const mr_pool_job *j, int64_t batch, int64_t channel, int64_t channels)
{
    const mr_conv *c = j->c;
    const T *image = (const T *)j->image + batch * mr_conv_in_size(c) + channel;
    const T *g = (const T *)j->out_image + batch * mr_conv_out_size(c) + channel;
    T *result = (T *)j->result + batch * mr_conv_in_size(c) + channel;
    int64_t zeroed = 0;
    if (are_squares(c)) {
        FN(squares_grad)(c, image, g, channels, result);
        return;
    }
    for (int64_t oz = 0; oz < c->out[0]; oz++)
        for (int64_t oy = 0; oy < c->out[1]; oy++) {
            zeroed = FN(zero_rows)(c, result, zeroed, mr_pool_reach(c, oz, oy), channels);
            for (int64_t ox = 0; ox < c->out[2]; ox++, g += c->in_channels) {
                window w = window_at(c, oz, oy, ox);
                FN(window_grad)(c, &w, image, g, channels, result);
            }
        }
    FN(zero_rows)(c, result, zeroed, c->in[0] * c->in[1], channels);
}

/* The gradient of each window goes to all its taps that are within 1e-5 of its maximum, which is given (more). */
CLONES static void FN(grad_near)(const mr_pool_job *j, int64_t batch, int64_t channel, int64_t channels)
{
    const mr_conv *c = j->c;
    const T *image = (const T *)j->image + batch * mr_conv_in_size(c) + channel;
    const T *g = (const T *)j->out_image + batch * mr_conv_out_size(c) + channel;
    const T *top = (const T *)j->more + batch * mr_conv_out_size(c) + channel;
    T *result = (T *)j->result + batch * mr_conv_in_size(c) + channel;
    FN(zero_rows)(c, result, 0, c->in[0] * c->in[1], channels);
    for (int64_t oz = 0; oz < c->out[0]; oz++)
        for (int64_t oy = 0; oy < c->out[1]; oy++)
            for (int64_t ox = 0; ox < c->out[2]; ox++, g += c->in_channels, top += c->in_channels) {
                window w = window_at(c, oz, oy, ox);
                for (taps t = taps_begin(&w); taps_left(&t, &w);) {
                    int64_t at = tap_take(&t, &w, c) * c->in_channels;
                    MR_IVDEP
                    for (int64_t k = 0; k < channels; k++) {
                        T x = image[at + k], zero = 0;
                        double away = (double)x - (double)top[k];
                        bool is_near = away < 1e-5f && away > -1e-5f;
                        result[at + k] = PLUS(result[at + k], is_near ? g[k] : zero);
                    }
                }
            }
}

/* to = more at the first tap that equals the maximum, which is given (top); 0 where none does (a NaN). */
MR_INLINE void FN(window_pick)(const mr_conv *c, const window *w, const T *image, const T *top, const T *more,
                               int64_t n, T *to)
{
    bool found[BLOCK];
    for (int64_t from = 0; from < n; from += BLOCK) {
        int64_t m = MR_MIN(BLOCK, n - from);
        taps t = taps_begin(w);
        memset(to + from, 0, (size_t)m * sizeof(T));
        memset(found, 0, sizeof found);
        while (taps_left(&t, w)) {
            int64_t at = tap_take(&t, w, c) * c->in_channels + from;
            for (int64_t k = 0; k < m; k++) {
                bool hit = !found[k] && image[at + k] == top[from + k];
                to[from + k] = hit ? more[at + k] : to[from + k];
                found[k] |= hit;
            }
        }
    }
}

static void FN(grad_grad)(const mr_pool_job *j, int64_t batch, int64_t channel, int64_t channels)
{
    const mr_conv *c = j->c;
    int64_t offset = batch * mr_conv_in_size(c) + channel;
    const T *image = (const T *)j->image + offset, *more = (const T *)j->more + offset;
    const T *top = (const T *)j->out_image + batch * mr_conv_out_size(c) + channel;
    T *to = (T *)j->result + batch * mr_conv_out_size(c) + channel;
    for (int64_t oz = 0; oz < c->out[0]; oz++)
        for (int64_t oy = 0; oy < c->out[1]; oy++)
            for (int64_t ox = 0; ox < c->out[2]; ox++, to += c->in_channels, top += c->in_channels) {
                window w = window_at(c, oz, oy, ox);
                FN(window_pick)(c, &w, image, top, more, channels, to);
            }
}

const mr_max_pool FN(mr_max_pool) = {FN(forward), FN(grad), FN(grad_near), FN(grad_grad)};
#endif
