/* ops/array/resize_bilinear.c -- ResizeBilinear, and its gradient.
 *
 * Along each side a pixel of the result is between two of the original, `lower` and `upper`, at the fraction `lerp`
 * of the distance. These are computed once for all rows and columns; then a row of the result is computed from two
 * rows of the original. Where resize_taps.h can pick the pixels, each of the two is interpolated along the row first,
 * and kept for the next row of the result. The gradient adds each pixel to the same four. */
#include <math.h>

#include "base/memory.h"
#include "base/simd.h"
#include "graph/grad.h"
#include "ops/array/resize.h"
#include "ops/array/resize_taps.h"
#include "run/scratch.h"

typedef struct between {
    int64_t lower, upper;
    float lerp;
} between;

static between find_source(const mr_resize *z, int64_t i, float scale, int64_t n)
{
    float at = z->half_pixel_centers ? ((float)i + 0.5f) * scale - 0.5f : (float)i * scale;
    float floor_at = floorf(at);
    between b = {MR_MAX((int64_t)floor_at, 0), MR_MIN((int64_t)ceilf(at), n - 1), at - floor_at};
    b.lower = MR_MIN(b.lower, b.upper);
    return b;
}

/* Finds the sources of all rows, then of all columns. */
static mr_status *find_all(const mr_run *r, const mr_resize *z, between **out)
{
    size_t n = (size_t)z->out_h + (size_t)z->out_w;
    if (!(*out = mr_scratch_zeroed(r, n, sizeof(between))))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %zu positions", n);
    for (int64_t i = 0; i < z->out_h; i++)
        (*out)[i] = find_source(z, i, z->scale_h, z->in_h);
    for (int64_t i = 0; i < z->out_w; i++)
        (*out)[z->out_h + i] = find_source(z, i, z->scale_w, z->in_w);
    return NULL;
}

/* ---- forward ---- */

typedef struct job {
    mr_resize z;
    const between *rows, *cols;
    const mr_tensor *x;
    mr_tensor *out;
    /* NULL, or the lower and the upper taps of a row; then `lerps` is that of each element of a row */
    const mr_taps *taps;
    mr_dtype taps_type;
    const float *lerps;
} job;

/* Computes rows begin..end, counted over the results of all images. */
#define RESIZE_ROWS(E, name, number, S, C, ...)                                              \
    static void rows_##name(void *ctx, int64_t begin, int64_t end)                           \
    {                                                                                        \
        const job *j = ctx;                                                                  \
        int64_t ch = j->z.channels, row = j->z.in_w * ch;                                    \
        for (int64_t r = begin; r < end; r++) {                                              \
            between y = j->rows[r % j->z.out_h];                                             \
            const S *image = MR_DATA(const S, j->x) + r / j->z.out_h * j->z.in_h * row;      \
            const S *top = image + y.lower * row, *bottom = image + y.upper * row;           \
            float *o = MR_DATA(float, j->out) + r * j->z.out_w * ch;                         \
            for (int64_t i = 0; i < j->z.out_w; i++, o += ch) {                              \
                between x = j->cols[i];                                                      \
                int64_t a = x.lower * ch, b = x.upper * ch;                                  \
                for (int64_t k = 0; k < ch; k++) {                                           \
                    float tl = (float)MR_LD(top + a + k), tr = (float)MR_LD(top + b + k);    \
                    float bl = (float)MR_LD(bottom + a + k), br = (float)MR_LD(bottom + b + k); \
                    float t = tl + (tr - tl) * x.lerp, d = bl + (br - bl) * x.lerp;          \
                    o[k] = t + (d - t) * y.lerp;                                             \
                }                                                                            \
            }                                                                                \
        }                                                                                    \
    }

#define RESIZED_TYPES(M, ...)                                                          \
    MR_FLOATS(M, __VA_ARGS__) MR_SIGNED(M, __VA_ARGS__) MR_TYPE_UINT8(M, __VA_ARGS__)  \
    MR_TYPE_UINT16(M, __VA_ARGS__)

RESIZED_TYPES(RESIZE_ROWS, )

static void rows_any(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
#define CASE(E, name, number, S, C, ...) \
    case MR_##E: rows_##name(ctx, begin, end); return;
    switch (j->x->dtype) {
        RESIZED_TYPES(CASE, )
    default: return;
    }
#undef CASE
}

/* ---- forward with taps ---- */

#define TO_FLOATS(E, name, number, S, C, ...)                                            \
    static void floats_of_##name(const void *restrict from, float *restrict to, int64_t n) \
    {                                                                                    \
        const S *x = from;                                                               \
        for (int64_t i = 0; i < n; i++)                                                  \
            to[i] = (float)MR_LD(x + i);                                                 \
    }
RESIZED_TYPES(TO_FLOATS, )

static void to_floats(mr_dtype type, const void *from, float *to, int64_t n)
{
#define CASE(E, name, number, S, C, ...) \
    case MR_##E: floats_of_##name(from, to, n); return;
    switch (type) {
        RESIZED_TYPES(CASE, )
    default: return;
    }
#undef CASE
}

MR_CLONES static void lerp_along(const float *restrict low, const float *restrict high, const float *restrict lerps,
                                 float *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = low[i] + (high[i] - low[i]) * lerps[i];
}

MR_CLONES static void lerp_down(const float *restrict top, const float *restrict bottom, float lerp,
                                float *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = top[i] + (bottom[i] - top[i]) * lerp;
}

typedef struct line { /* a block of a source row, interpolated along the row */
    _Alignas(64) float at[MR_TAPS_OUT];
    int64_t row; /* counted over all images, -1: none */
} line;

static void make_line(const job *j, const mr_taps_block *b, int64_t row, line *to)
{
    _Alignas(64) float low[MR_TAPS_OUT], high[MR_TAPS_OUT], floats[MR_TAPS_IN];
    mr_dtype type = (mr_dtype)j->x->dtype;
    size_t first = (size_t)(row * j->z.in_w * j->z.channels + b->from);
    const void *x = (const char *)j->x->data + first * mr_dtype_size(type);
    if (type != j->taps_type) {
        to_floats(type, x, floats, b->n_from);
        x = floats;
    }
    mr_taps_take(j->taps, 0, b, x, low);
    mr_taps_take(j->taps, 1, b, x, high);
    lerp_along(low, high, j->lerps + b->out, to->at, b->n);
    to->row = row;
}

/* The line of a row, which may be one of the two from the row before. The line of `keep` stays. */
static const line *find_line(const job *j, const mr_taps_block *b, int64_t row, line lines[2], const line *keep)
{
    for (int i = 0; i < 2; i++)
        if (lines[i].row == row)
            return &lines[i];
    line *to = keep == &lines[0] || (!keep && lines[0].row > lines[1].row) ? &lines[1] : &lines[0];
    make_line(j, b, row, to);
    return to;
}

/* Computes a block of rows begin..end. */
static void block_of_rows(const job *j, const mr_taps_block *b, int64_t begin, int64_t end)
{
    line lines[2];
    lines[0].row = lines[1].row = -1;
    for (int64_t r = begin; r < end; r++) {
        between y = j->rows[r % j->z.out_h];
        int64_t image = r / j->z.out_h * j->z.in_h;
        const line *top = find_line(j, b, image + y.lower, lines, NULL);
        const line *bottom = find_line(j, b, image + y.upper, lines, top);
        lerp_down(top->at, bottom->at, y.lerp, MR_DATA(float, j->out) + r * j->z.out_w * j->z.channels + b->out, b->n);
    }
}

static void rows_by_taps(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    for (int i = 0; i < mr_taps_blocks(j->taps); i++)
        block_of_rows(j, mr_taps_block_at(j->taps, i), begin, end);
}

/* Makes the taps if this CPU has them; the caller frees them and *lerps. */
static mr_status *make_taps(const mr_run *r, job *j, mr_taps **taps, float **lerps)
{
    int64_t w = j->z.out_w, ch = j->z.channels;
    mr_status *st = NULL;
    int64_t *pixels = mr_scratch(r, 2 * (size_t)w * sizeof(int64_t));
    if (!pixels)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld positions", (long long)w);
    for (int64_t i = 0; i < w; i++) {
        pixels[i] = j->cols[i].lower;
        pixels[w + i] = j->cols[i].upper;
    }
    j->taps_type = MR_UINT8;
    if (j->x->dtype == MR_UINT8)
        MR_GO(mr_taps_new(r, MR_UINT8, 2, pixels, w, j->z.in_w, ch, taps));
    if (!*taps) {
        j->taps_type = MR_FLOAT;
        MR_GO(mr_taps_new(r, MR_FLOAT, 2, pixels, w, j->z.in_w, ch, taps));
    }
    if (!*taps)
        goto out;
    if (!(*lerps = mr_scratch(r, (size_t)(w * ch) * sizeof(float)))) {
        st = mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld positions", (long long)(w * ch));
        goto out;
    }
    for (int64_t i = 0; i < w; i++)
        for (int64_t k = 0; k < ch; k++)
            (*lerps)[i * ch + k] = j->cols[i].lerp;
    j->taps = *taps;
    j->lerps = *lerps;
out:
    mr_scratch_free(pixels);
    return st;
}

static mr_status *run_resize(mr_run *r)
{
    job j = {.x = mr_in(r, 0)};
    mr_status *st = NULL;
    between *places = NULL;
    mr_taps *taps = NULL;
    float *lerps = NULL;
    MR_TRY(mr_resize_read(r, &j.z));
    int64_t dims[] = {j.z.batch, j.z.out_h, j.z.out_w, j.z.channels};
    MR_TRY(mr_run_output(r, 0, 4, dims, &j.out));
    if (j.out->n == 0)
        return NULL;
    MR_TRY(find_all(r, &j.z, &places));
    j.rows = places;
    j.cols = places + j.z.out_h;
    MR_GO(make_taps(r, &j, &taps, &lerps));
    mr_run_for(r, j.z.batch * j.z.out_h, (taps ? 0.3 : 2.0) * (double)(j.z.out_w * j.z.channels),
               taps ? rows_by_taps : rows_any, &j);
out:
    mr_scratch_free(lerps);
    mr_scratch_free(taps);
    mr_scratch_free(places);
    return st;
}

static void resize_backward(mr_grad *g)
{
    if (!mr_dtype_is_floating(mr_dtype_base(mr_out_type(mr_xi(g, 0)))))
        return;
    mr_out in[] = {mr_dyi(g, 0), mr_xi(g, 0)};
    mr_dxi(g, 0, mr_emit_like(g, "ResizeBilinearGrad", "align_corners half_pixel_centers", in, 2));
}

#define RESIZE_ATTRS "; align_corners: bool = false; half_pixel_centers: bool = false"

MR_OP(ResizeBilinear,
    .doc      = "images of another size, by linear interpolation; [batch, height, width, channels]",
    .sig      = "images: T, size: int32 -> resized_images: float",
    .attrs    = "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double, "
                "bfloat16}" RESIZE_ATTRS,
    .shape    = mr_resize_shape,
    .grad     = resize_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_resize, RESIZED_TYPES)),
    .examples = MR_EXAMPLES(
        "[[[[1], [3]], [[5], [7]]]], [4, 4] -> [[[[1], [2], [3], [3]], [[3], [4], [5], [5]], [[5], "
        "[6], [7], [7]], [[5], [6], [7], [7]]]]",
        "align_corners=true: [[[[1], [3]]]], [1, 3] -> [[[[1], [2], [3]]]]",
        "half_pixel_centers=true: [[[[0], [4]]]], [1, 4] -> [[[[0], [1], [3], [4]]]]",
        "[[[[1, 10], [3, 30]]]], [1, 4] -> [[[[1, 10], [2, 20], [3, 30], [3, 30]]]]",
        "iota(1,4,4,1), [2, 2] -> [[[[0], [2]], [[8], [10]]]]",
        "shape(0,2,2,3), [3, 3] -> shape(0,3,3,3)",
        "[[[[1]]]], [0, 2] -> !INVALID_ARGUMENT output dimensions must be positive",
        "shape(1,0,2,1), [2, 2] -> !INVALID_ARGUMENT input image must be of non-zero size",
        "[1], [2, 2] -> !INVALID_ARGUMENT must be rank 4"));

/* ---- gradient ---- */

/* Adds the gradient of one image (float) to sums (float). */
static void add_image(const job *j, const float *dy, float *sums)
{
    int64_t ch = j->z.channels, row = j->z.in_w * ch;
    for (int64_t r = 0; r < j->z.out_h; r++) {
        between y = j->rows[r];
        float *top = sums + y.lower * row, *bottom = sums + y.upper * row;
        for (int64_t i = 0; i < j->z.out_w; i++, dy += ch) {
            between x = j->cols[i];
            int64_t a = x.lower * ch, b = x.upper * ch;
            for (int64_t k = 0; k < ch; k++) {
                float t = dy[k] * (1 - y.lerp), d = dy[k] * y.lerp;
                top[a + k] += t * (1 - x.lerp);
                top[b + k] += t * x.lerp;
                bottom[a + k] += d * (1 - x.lerp);
                bottom[b + k] += d * x.lerp;
            }
        }
    }
}

/* Images begin..end. Here x holds the float sums and out is the result. */
static void add_images(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    int64_t from = j->z.out_h * j->z.out_w * j->z.channels,
            to = j->z.in_h * j->z.in_w * j->z.channels;
    for (int64_t b = begin; b < end; b++)
        add_image(j, MR_DATA(const float, j->x) + b * from, MR_DATA(float, j->out) + b * to);
}

static mr_status *run_resize_grad(mr_run *r)
{
    const mr_tensor *image = mr_in(r, 1);
    mr_status *st = NULL;
    mr_tensor *sums = NULL, *out;
    between *places = NULL;
    job j = {.x = mr_in(r, 0)};
    MR_TRY(mr_resize_read_grad(r, &j.z));
    MR_TRY(mr_run_output(r, 0, 4, image->dims, &out));
    if (out->n == 0)
        return NULL;
    MR_GO(mr_tensor_zeros(mr_run_allocator(r), MR_FLOAT, 4, image->dims, &sums));
    MR_GO(find_all(r, &j.z, &places));
    j.rows = places;
    j.cols = places + j.z.out_h;
    j.out = sums;
    mr_run_for(r, j.z.batch, 4.0 * (double)(j.z.out_h * j.z.out_w * j.z.channels), add_images, &j);
    mr_dtype_convert(MR_FLOAT, sums->data, out->dtype, out->data, out->n, false);
out:
    mr_tensor_unref(sums);
    mr_scratch_free(places);
    return st;
}

MR_OP(ResizeBilinearGrad,
    .doc      = "the gradient of ResizeBilinear",
    .sig      = "grads: float, original_image: T -> output: T",
    .attrs    = "T: {float, bfloat16, half, double}" RESIZE_ATTRS,
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_resize_grad_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_resize_grad, MR_FLOATS)),
    .examples = MR_EXAMPLES(
        "[[[[1], [1], [1], [1]]]], [[[[0], [0]]]] -> [[[[1.5], [2.5]]]]",
        "align_corners=true: [[[[1], [2], [3]]]], [[[[0], [0]]]] -> [[[[2], [4]]]]",
        "half_pixel_centers=true: [[[[1], [2], [4], [8]]]], [[[[0], [0]]]] -> [[[[3.5], [11.5]]]]",
        "shape(0,3,3,1), shape(0,2,2,1) -> shape(0,2,2,1)",
        "[[[[1, 2]]]], [[[[1]]]] -> !INVALID_ARGUMENT must be equal"));
