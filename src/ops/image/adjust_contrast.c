/* ops/image/adjust_contrast.c -- AdjustContrastv2 and AdjustContrast: move pixels away from the mean of their
 * channel and image, or towards it. */
#include "graph/grad.h"
#include "ops/image/pixels.h"

typedef struct job {
    const float *x;
    float *y;
    int64_t pixels, channels;
    float factor;
    bool clip;
    float min, max;
} job;

/* Adjusts one channel of one image; the mean is summed in double, whatever the size of the image. */
static void adjust_channels(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i / j->channels * j->pixels * j->channels + i % j->channels;
        double sum = 0;
        for (int64_t p = 0; p < j->pixels; p++)
            sum += j->x[at + p * j->channels];
        float mean = (float)(sum / (double)j->pixels);
        for (int64_t p = 0; p < j->pixels; p++) {
            float v = (j->x[at + p * j->channels] - mean) * j->factor + mean;
            if (j->clip)
                v = MR_MIN(MR_MAX(v, j->min), j->max);
            j->y[at + p * j->channels] = v;
        }
    }
}

static mr_status *run_contrast(mr_run *r, job *j)
{
    mr_status *st = NULL;
    mr_wide x = {0}, y = {0};
    const mr_tensor *t = mr_in(r, 0);
    MR_GO(mr_pixels_in(r, 0, MR_FLOAT, &x));
    MR_GO(mr_pixels_out(r, 0, MR_FLOAT, t->rank, t->dims, false, &y));
    if (t->n > 0) {
        j->x = x.t->data;
        j->y = y.t->data;
        j->channels = t->dims[t->rank - 1];
        j->pixels = t->dims[t->rank - 2] * t->dims[t->rank - 3];
        mr_run_for(r, t->n / j->pixels, 3 * (double)j->pixels, adjust_channels, j);
    }
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&y);
    return st;
}

static mr_status *adjust_contrast_v2(mr_run *r)
{
    job j = {0};
    MR_TRY(mr_check_images(mr_in(r, 0), false));
    MR_TRY(mr_in_scalar_float(r, 1, "contrast_factor", &j.factor));
    return run_contrast(r, &j);
}

static mr_status *adjust_contrast(mr_run *r)
{
    job j = {.clip = true};
    MR_TRY(mr_check_images(mr_in(r, 0), false));
    MR_TRY(mr_in_scalar_float(r, 1, "contrast_factor", &j.factor));
    MR_TRY(mr_in_scalar_float(r, 2, "min_value", &j.min));
    MR_TRY(mr_in_scalar_float(r, 3, "max_value", &j.max));
    return run_contrast(r, &j);
}

/* y = factor x + (1 - factor) mean(x), with the mean over height and width. */
static void adjust_contrast_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out x = mr_xi(g, 0), dy = mr_dyi(g, 0), factor = mr_xi(g, 1);
    mr_out axes = mr_const_vec_i32(s, 2, (const int32_t[]){-3, -2});
#define MEAN(v) mr_emit_with(s, "Mean", MR_ATTRS({"keep_dims", mr_a_bool(true)}), v, axes)
#define CAST(v, t) mr_emit_with(s, "Cast", MR_ATTRS({"DstT", mr_a_type(t)}), v)
    mr_dtype type = mr_dtype_base(mr_out_type(x));
    mr_out f = CAST(factor, type), rest = mr_emit(s, "Sub", mr_scalar_like(g, 1, x), f);
    mr_dxi(g, 0, mr_emit(s, "Add", mr_emit(s, "Mul", dy, f), mr_emit(s, "Mul", MEAN(dy), rest)));
    mr_out moved = mr_emit(s, "Mul", CAST(dy, MR_FLOAT), CAST(mr_emit(s, "Sub", x, MEAN(x)), MR_FLOAT));
    mr_out flat = mr_emit(s, "Reshape", moved, mr_const_vec_i32(s, 1, (const int32_t[]){-1}));
    mr_dxi(g, 1, mr_emit(s, "Sum", flat, mr_const_i32(s, 0)));
#undef MEAN
#undef CAST
}

MR_OP(AdjustContrastv2,
    .doc      = "(x - mean) contrast_factor + mean, with the mean of every channel of every image",
    .sig      = "images: T, contrast_factor: float -> output: T",
    .attrs    = "T: {half, float} = DT_FLOAT",
    .shape    = mr_shape_images,
    .grad     = adjust_contrast_backward,
    .kernels  = MR_KERNELS({"CPU", MR_HALF, adjust_contrast_v2}, {"CPU", MR_FLOAT, adjust_contrast_v2},),
    .examples = MR_EXAMPLES(
        "[[[1, 10], [3, 30]]], 2 -> [[[0, 0], [4, 40]]]",
        "[[[[1], [3]], [[5], [7]]], [[[1], [1]], [[1], [1]]]], 0.5 -> "
        "[[[[2.5], [3.5]], [[4.5], [5.5]]], [[[1], [1]], [[1], [1]]]]",
        "shape(2,0,3,1), 2 -> shape(2,0,3,1)",
        "[[1]], 2 -> !INVALID_ARGUMENT rank",
        "[[[1]]], [2] -> !INVALID_ARGUMENT contrast_factor must be 0-D"));

#define CLIPPED_TYPES(M, ...)                                                                      \
    MR_SIGNED(M, __VA_ARGS__) MR_TYPE_UINT8(M, __VA_ARGS__) MR_FLOATS32(M, __VA_ARGS__)

MR_OP(AdjustContrast,
    .doc         = "AdjustContrastv2 with its results kept between min_value and max_value",
    .sig         = "images: T, contrast_factor: float, min_value: float, max_value: float -> output: float",
    .attrs       = "T: {uint8, int8, int16, int32, int64, float, double}",
    .deprecated  = 2,
    .deprecation = "Use AdjustContrastv2 instead",
    .shape       = mr_shape_images,
    .kernels     = MR_KERNELS(MR_CPU_ONE(adjust_contrast, CLIPPED_TYPES)),
    .examples    = MR_EXAMPLES(
        "[[[1, 10], [3, 30]]], 2, 1, 30 -> [[[1, 1], [4, 30]]]",
        "shape(0,2,2), 2, 0, 1 -> shape(0,2,2)",
        "[[[1]]], 2, [1], 3 -> !INVALID_ARGUMENT min_value must be 0-D",
        "[[[1]]], 2, 1, [3] -> !INVALID_ARGUMENT max_value must be 0-D"));
