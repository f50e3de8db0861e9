/* ops/array/resize_area.c -- ResizeArea: each pixel of the result is the mean of the area that it covers in the
 * original.
 *
 * The area is a rectangle whose sides may cross pixels: a pixel at its edge counts by the part that is covered.
 * Weights and sums are floats, in TensorFlow's order. */
#include <math.h>

#include "base/memory.h"
#include "ops/array/resize.h"
#include "ops/image/pixels.h"

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

static mr_status *run_resize(mr_run *r)
{
    job j = {0};
    mr_tensor *out;
    mr_wide x = {0};
    MR_TRY(mr_resize_read(r, &j.z));
    int64_t dims[] = {j.z.batch, j.z.out_h, j.z.out_w, j.z.channels};
    MR_TRY(mr_run_output(r, 0, 4, dims, &out));
    if (out->n == 0)
        return NULL;
    MR_TRY(mr_pixels_in(r, 0, MR_FLOAT, &x));
    j.x = x.t->data;
    j.out = out->data;
    double row = (double)(j.z.scale_h + 1) * (double)(j.z.in_w + j.z.out_w) * (double)j.z.channels;
    mr_run_for(r, j.z.batch * j.z.out_h, row, make_rows, &j);
    mr_wide_deinit(&x);
    return NULL;
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
