/* ops/image/adjust.c -- AdjustHue and AdjustSaturation: rotate hues and scale saturations, pixel by pixel. */
#include "base/simd.h"
#include "ops/image/hsv.h"
#include "ops/image/pixels.h"

typedef struct job {
    const float *x;
    float *y;
    float by;
} job;

/* The rotation of a hue, in [0, 1): the circle closes at 1. */
static float part_of_turn(float delta)
{
    float f = fmodf(delta, 1); /* NaN and infinity give NaN, which makes all colors NaN */
    return f < 0 ? f + 1 : f;
}

/* Pixels are processed in blocks, one array for each component: the compiler vectorises the arithmetic, but not a
 * loop over pixels of three components. */
enum { BLOCK = 256 };
typedef float planes[3][BLOCK];

MR_INLINE void split_pixels(const float *x, int64_t n, planes to)
{
    for (int64_t i = 0; i < n; i++) {
        to[0][i] = x[3 * i];
        to[1][i] = x[3 * i + 1];
        to[2][i] = x[3 * i + 2];
    }
}

MR_INLINE void join_pixels(planes from, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        y[3 * i] = from[0][i];
        y[3 * i + 1] = from[1][i];
        y[3 * i + 2] = from[2][i];
    }
}

/* The largest and the smallest component keep their values; only the one between is changed. */
MR_INLINE void turn_pixel(float *r, float *g, float *b, float by)
{
    float rgb[3] = {*r, *g, *b}, hsv[3], turned[3], smallest = MR_MIN(MR_MIN(*r, *g), *b);
    mr_rgb_to_hsv_float(rgb, hsv);
    float largest = hsv[2], h = hsv[0] + by;
    float one = h >= 1 ? h - 1 : h;
    mr_hsv_to_rgb_float((const float[]){one, 1, 1}, turned);
    *r = turned[0] == 1 ? largest : smallest + turned[0] * (largest - smallest);
    *g = turned[1] == 1 ? largest : smallest + turned[1] * (largest - smallest);
    *b = turned[2] == 1 ? largest : smallest + turned[2] * (largest - smallest);
}

MR_CLONES static void turn_hues(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    float by = j->by;
    planes p;
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t n = MR_MIN(BLOCK, end - i);
        split_pixels(j->x + 3 * i, n, p);
        for (int64_t k = 0; k < n; k++)
            turn_pixel(&p[0][k], &p[1][k], &p[2][k], by);
        join_pixels(p, n, j->y + 3 * i);
    }
}

MR_CLONES static void scale_saturations(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    float by = j->by;
    planes p;
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t n = MR_MIN(BLOCK, end - i);
        split_pixels(j->x + 3 * i, n, p);
        for (int64_t k = 0; k < n; k++) {
            float rgb[3] = {p[0][k], p[1][k], p[2][k]}, hsv[3];
            mr_rgb_to_hsv_float(rgb, hsv);
            float s = hsv[1] * by;
            hsv[1] = s < 0 ? 0 : s > 1 ? 1 : s;
            mr_hsv_to_rgb_float(hsv, rgb);
            p[0][k] = rgb[0], p[1][k] = rgb[1], p[2][k] = rgb[2];
        }
        join_pixels(p, n, j->y + 3 * i);
    }
}

static mr_status *adjust_pixels(mr_run *r, void (*part)(void *, int64_t, int64_t), float by)
{
    mr_status *st = NULL;
    mr_wide x = {0}, y = {0};
    const mr_tensor *t = mr_in(r, 0);
    MR_GO(mr_wide_in(r, 0, &x));
    MR_GO(mr_wide_out(r, 0, 0, t->rank, t->dims, &y));
    job j = {x.t->data, y.t->data, by};
    mr_run_for(r, y.t->n / 3, 12, part, &j);
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&y);
    return st;
}

static mr_status *adjust_hue(mr_run *r)
{
    float delta;
    MR_TRY(mr_check_images(mr_in(r, 0), true));
    MR_TRY(mr_in_scalar_float(r, 1, "delta", &delta));
    return adjust_pixels(r, turn_hues, part_of_turn(delta));
}

static mr_status *adjust_saturation(mr_run *r)
{
    float scale;
    MR_TRY(mr_check_images(mr_in(r, 0), true));
    MR_TRY(mr_in_scalar_float(r, 1, "scale", &scale));
    return adjust_pixels(r, scale_saturations, scale);
}

MR_OP(AdjustHue,
    .doc      = "colors with their hue turned by delta, a part of the whole circle",
    .sig      = "images: T, delta: float -> output: T",
    .attrs    = "T: {half, float} = DT_FLOAT",
    .shape    = mr_shape_images,
    .kernels  = MR_KERNELS({"CPU", MR_HALF, adjust_hue}, {"CPU", MR_FLOAT, adjust_hue},),
    .examples = MR_EXAMPLES(
        "[[[1, 0, 0], [0, 1, 0], [0, 0.5, 1]]], 0.5 -> [[[0, 1, 1], [1, 0, 1], [1, 0.5, 0]]]",
        "[[[4, 2, 2]]], 0.25 -> [[[3, 4, 2]]]",
        "[[[4, 2, 2]]], -0.75 -> [[[3, 4, 2]]]",
        "[[[4, 2, 2], [5, 5, 5]]], 1000000 -> [[[4, 2, 2], [5, 5, 5]]]",
        "T=float: [[[1, 0, 0]]], nan -> [[[nan, nan, nan]]]",
        "shape(0,2,3), 0.5 -> shape(0,2,3)",
        "[[[1, 2]]], 1 -> !INVALID_ARGUMENT input must have 3 channels but instead has 2 channels.",
        "[[1, 2, 3]], 1 -> !INVALID_ARGUMENT rank",
        "[[[1, 2, 3]]], [1] -> !INVALID_ARGUMENT delta must be 0-D"));

MR_OP(AdjustSaturation,
    .doc      = "colors with their saturation multiplied by scale, at most 1",
    .sig      = "images: T, scale: float -> output: T",
    .attrs    = "T: {half, float} = DT_FLOAT",
    .shape    = mr_shape_images,
    .kernels  = MR_KERNELS({"CPU", MR_HALF, adjust_saturation}, {"CPU", MR_FLOAT, adjust_saturation},),
    .examples = MR_EXAMPLES(
        "[[[4, 2, 2], [1, 2, 4]]], 0.5 -> [[[4, 3, 3], [2.5, 3, 4]]]",
        "[[[4, 2, 2]]], 0 -> [[[4, 4, 4]]]",
        "[[[4, 3, 2], [0, 0, 0]]], 100 -> [[[4, 2, 0], [0, 0, 0]]]",
        "[[[4, 2, 2]]], -1 -> [[[4, 4, 4]]]",
        "shape(1,0,3), 0.5 -> shape(1,0,3)",
        "[[[1, 2]]], 1 -> !INVALID_ARGUMENT input must have 3 channels but instead has 2 channels.",
        "[[[1, 2, 3]]], [1] -> !INVALID_ARGUMENT scale must be 0-D"));
