/* ops/array/resize_area.c -- ResizeArea: each pixel of the result is the mean of the area that it covers in the
 * original.
 *
 * The area is a rectangle whose sides may cross pixels: a pixel at its edge counts by the part that is covered.
 * Weights and sums are floats, in TensorFlow's order. */
#include <math.h>

#include "base/memory.h"
#include "base/simd.h"
#include "ops/array/resize.h"
#include "ops/array/resize_taps.h"
#include "ops/image/pixels.h"
#include "run/scratch.h"

typedef struct span { /* the area that one row or column of the result covers */
    float from, to;
    int64_t first, end; /* pixels touched; with aligned corners the last may be outside */
    float size;         /* of a whole step */
} span;

static span covered_span(int64_t i, float scale)
{
    float from = (float)i * scale, to = (float)(i + 1) * scale;
    return (span){from, to, (int64_t)floorf(from), (int64_t)ceilf(to), scale};
}

/* The part of pixel i that is covered. */
static float covered_part(const span *s, int64_t i)
{
    float at = (float)i;
    if (at < s->from)
        return at + 1 > s->to ? s->size : at + 1 - s->from;
    return at + 1 > s->to ? s->to - at : 1;
}

typedef struct job {
    mr_resize z;
    const float *x;
    float *out;
    /* NULL, or as many taps as the widest span has pixels; then these are the number of each element's taps, at
     * least `fewest`, and their covered parts, tap by tap */
    const mr_taps *taps;
    int n_taps, fewest;
    const int32_t *counts;
    const float *parts;
} job;

static void add_pixels(const job *j, const float *image, const span *rows, const span *cols, float *sums)
{
    int64_t ch = j->z.channels;
    for (int64_t k = 0; k < ch; k++)
        sums[k] = 0;
    for (int64_t y = rows->first; y < rows->end; y++) {
        float part_y = covered_part(rows, y);
        const float *row = image + MR_MIN(y, j->z.in_h - 1) * j->z.in_w * ch;
        for (int64_t x = cols->first; x < cols->end; x++) {
            float part = part_y * covered_part(cols, x);
            const float *pixel = row + MR_MIN(x, j->z.in_w - 1) * ch;
            for (int64_t k = 0; k < ch; k++)
                sums[k] += pixel[k] * part;
        }
    }
}

/* Computes rows begin..end, counted over the results of all images. */
static void make_rows(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    int64_t ch = j->z.channels;
    float share = 1 / (j->z.scale_h * j->z.scale_w);
    for (int64_t r = begin; r < end; r++) {
        span rows = covered_span(r % j->z.out_h, j->z.scale_h);
        const float *image = j->x + r / j->z.out_h * j->z.in_h * j->z.in_w * ch;
        float *out = j->out + r * j->z.out_w * ch;
        for (int64_t i = 0; i < j->z.out_w; i++, out += ch) {
            span cols = covered_span(i, j->z.scale_w);
            add_pixels(j, image, &rows, &cols, out);
            for (int64_t k = 0; k < ch; k++)
                out[k] *= share;
        }
    }
}

/* ---- with taps ---- */

MR_CLONES static void add_taps(float *restrict sums, const float *restrict x, const float *restrict parts, float part_y,
                               int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sums[i] += x[i] * (part_y * parts[i]);
}

/* Tap k, which only the elements with more than k taps have. */
MR_CLONES static void add_some_taps(float *restrict sums, const float *restrict x, const float *restrict parts,
                                    float part_y, const int32_t *restrict counts, int k, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float sum = sums[i] + x[i] * (part_y * parts[i]);
        sums[i] = counts[i] > k ? sum : sums[i];
    }
}

MR_CLONES static void scale_sums(const float *restrict sums, float by, float *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = sums[i] * by;
}

/* Computes a block of a row as add_pixels does. */
static void make_block(const job *j, const mr_taps_block *b, const float *image, const span *rows, float *out)
{
    _Alignas(64) float sums[MR_TAPS_OUT], taken[MR_TAPS_OUT];
    int64_t width = j->z.out_w * j->z.channels;
    memset(sums, 0, (size_t)b->n * sizeof(float));
    for (int64_t y = rows->first; y < rows->end; y++) {
        float part_y = covered_part(rows, y);
        const float *row = image + MR_MIN(y, j->z.in_h - 1) * j->z.in_w * j->z.channels + b->from;
        for (int k = 0; k < j->n_taps; k++) {
            const float *parts = j->parts + k * width + b->out;
            mr_taps_take(j->taps, k, b, row, taken);
            if (k < j->fewest)
                add_taps(sums, taken, parts, part_y, b->n);
            else
                add_some_taps(sums, taken, parts, part_y, j->counts + b->out, k, b->n);
        }
    }
    scale_sums(sums, 1 / (j->z.scale_h * j->z.scale_w), out + b->out, b->n);
}

static void make_rows_by_taps(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    for (int64_t r = begin; r < end; r++) {
        span rows = covered_span(r % j->z.out_h, j->z.scale_h);
        const float *image = j->x + r / j->z.out_h * j->z.in_h * j->z.in_w * j->z.channels;
        for (int i = 0; i < mr_taps_blocks(j->taps); i++)
            make_block(j, mr_taps_block_at(j->taps, i), image, &rows, j->out + r * j->z.out_w * j->z.channels);
    }
}

/* The number of taps: of the widest span, and of the narrowest. */
static void count_taps(const mr_resize *z, int64_t *most, int64_t *fewest)
{
    *most = 0, *fewest = INT64_MAX;
    for (int64_t i = 0; i < z->out_w; i++) {
        span s = covered_span(i, z->scale_w);
        *most = MR_MAX(*most, s.end - s.first);
        *fewest = MR_MIN(*fewest, s.end - s.first);
    }
}

/* A span without a tap k repeats its last pixel, which is not added. */
static void fill_pixels(const mr_resize *z, int taps, int64_t *pixels)
{
    for (int64_t i = 0; i < z->out_w; i++) {
        span s = covered_span(i, z->scale_w);
        for (int k = 0; k < taps; k++)
            pixels[k * z->out_w + i] = MR_MIN(MR_MIN(s.first + k, s.end - 1), z->in_w - 1);
    }
}

static void fill_parts(const mr_resize *z, int taps, int32_t *counts, float *parts)
{
    int64_t ch = z->channels;
    for (int64_t e = 0; e < z->out_w * ch; e += ch) {
        span s = covered_span(e / ch, z->scale_w);
        for (int64_t c = 0; c < ch; c++)
            counts[e + c] = (int32_t)(s.end - s.first);
        for (int k = 0; k < taps; k++)
            for (int64_t c = 0; c < ch; c++)
                parts[k * z->out_w * ch + e + c] = s.first + k < s.end ? covered_part(&s, s.first + k) : 0;
    }
}

/* Makes the taps if this CPU has them; the caller frees them and *tables. */
static mr_status *make_taps(const mr_run *r, job *j, mr_taps **taps, int32_t **tables)
{
    enum { MOST_TAPS = 16 }; /* beyond, the windows are too wide */
    int64_t w = j->z.out_w, ch = j->z.channels, most, fewest;
    mr_status *st = NULL;
    count_taps(&j->z, &most, &fewest);
    if (most > MOST_TAPS || fewest < 1)
        return NULL;
    int64_t *pixels = mr_scratch(r, (size_t)most * (size_t)w * sizeof(int64_t));
    if (!pixels)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld positions", (long long)w);
    fill_pixels(&j->z, (int)most, pixels);
    MR_GO(mr_taps_new(r, MR_FLOAT, (int)most, pixels, w, j->z.in_w, ch, taps));
    if (!*taps)
        goto out;
    if (!(*tables = mr_scratch(r, (size_t)(1 + most) * (size_t)(w * ch) * sizeof(float)))) {
        st = mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld positions", (long long)(w * ch));
        goto out;
    }
    float *parts = (float *)*tables + w * ch;
    fill_parts(&j->z, (int)most, *tables, parts);
    j->taps = *taps;
    j->n_taps = (int)most;
    j->fewest = (int)fewest;
    j->counts = *tables;
    j->parts = parts;
out:
    mr_scratch_free(pixels);
    return st;
}

static mr_status *run_resize(mr_run *r)
{
    mr_status *st = NULL;
    job j = {0};
    mr_taps *taps = NULL;
    int32_t *tables = NULL;
    mr_tensor *out;
    mr_wide x = {0};
    MR_TRY(mr_resize_read(r, &j.z));
    int64_t dims[] = {j.z.batch, j.z.out_h, j.z.out_w, j.z.channels};
    MR_TRY(mr_run_output(r, 0, 4, dims, &out));
    if (out->n == 0)
        return NULL;
    MR_GO(mr_pixels_in(r, 0, MR_FLOAT, &x));
    j.x = x.t->data;
    j.out = out->data;
    MR_GO(make_taps(r, &j, &taps, &tables));
    double row = (double)(j.z.scale_h + 1) * (double)(j.z.in_w + j.z.out_w) * (double)j.z.channels;
    mr_run_for(r, j.z.batch * j.z.out_h, taps ? row / 4 : row, taps ? make_rows_by_taps : make_rows, &j);
out:
    mr_wide_deinit(&x);
    mr_scratch_free(tables);
    mr_scratch_free(taps);
    return st;
}

#define RESIZED_TYPES(M, ...)                                                          \
    MR_FLOATS(M, __VA_ARGS__) MR_SIGNED(M, __VA_ARGS__) MR_TYPE_UINT8(M, __VA_ARGS__)  \
    MR_TYPE_UINT16(M, __VA_ARGS__)

MR_OP(ResizeArea,
    .doc      = "images of another size, each pixel the mean of the area it covers; [batch, height, width, channels]",
    .sig      = "images: T, size: int32 -> resized_images: float",
    .attrs    = "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}; "
                "align_corners: bool = false",
    .shape    = mr_resize_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_resize, RESIZED_TYPES)),
    .examples = MR_EXAMPLES(
        "iota(1,4,4,1), [2, 2] -> [[[[2.5], [4.5]], [[10.5], [12.5]]]]",
        "[[[[0], [3], [6]]]], [1, 2] -> [[[[1], [5]]]]",
        "[[[[1, 10], [3, 30]]]], [2, 4] -> "
        "[[[[1, 10], [1, 10], [3, 30], [3, 30]], [[1, 10], [1, 10], [3, 30], [3, 30]]]]",
        "align_corners=true: [[[[0], [4], [8]]]], [1, 2] -> [[[[2], [8]]]]",
        "align_corners=true: [[[[7]]]], [1, 1] -> [[[[7]]]]",
        "shape(0,2,2,3), [3, 3] -> shape(0,3,3,3)",
        "[[[[1]]]], [0, 2] -> !INVALID_ARGUMENT output dimensions must be positive",
        "shape(1,0,2,1), [2, 2] -> !INVALID_ARGUMENT input image must be of non-zero size"));
