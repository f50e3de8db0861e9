/* ops/nn/batch_norm_grad.c -- the gradients of FusedBatchNorm.
 *
 * The examples in training are not checked against finite differences: mean and variance depend on x
 * there, and an example cannot recompute them when x changes (batch_norm_test.c changes all three). */
#include "ops/nn/batch_norm.h"

#include "base/memory.h"
#include "ops/maths.h"

/* ---- backward: dy, x, scale, and mean and variance as the forward op used them ---- */

typedef struct back {
    mr_run *r;
    const mr_norm *s;
    mr_channels c;
    mr_wide in[5], dx, dscale, doffset;
    mr_tensor *shift, *scale, *slope, *offset, *sums;
} back;

static void back_deinit(back *b)
{
    for (int i = 0; i < 5; i++)
        mr_wide_deinit(&b->in[i]);
    mr_wide_deinit(&b->dx);
    mr_wide_deinit(&b->dscale);
    mr_wide_deinit(&b->doffset);
    mr_tensor_unref(b->shift);
    mr_tensor_unref(b->scale);
    mr_tensor_unref(b->slope);
    mr_tensor_unref(b->offset);
    mr_tensor_unref(b->sums);
}

static mr_status *back_open(back *b, int64_t *channels)
{
    mr_run *r = b->r;
    const mr_tensor *dy = mr_in(r, 0), *x = mr_in(r, 1);
    MR_TRY(mr_norm_check_image(dy, "y_backprop"));
    if (!mr_tensor_same_shape(dy, x))
        return mr_invalid("x and y_backprop must have same shape, got %s and %s",
                          MR_TENSOR_SHAPE(x), MR_TENSOR_SHAPE(dy));
    *channels = x->dims[mr_layout_channel(b->s->layout, x->rank)];
    MR_TRY(mr_norm_check_vector(r, 2, "scale", *channels));
    MR_TRY(mr_norm_check_vector(r, 3, "saved mean", *channels));
    MR_TRY(mr_norm_check_vector(r, 4, "saved variance", *channels));
    for (int i = 0; i < 5; i++)
        MR_TRY(mr_wide_in(r, i, &b->in[i]));
    MR_TRY(mr_wide_out(r, -1, 0, x->rank, x->dims, &b->dx));
    MR_TRY(mr_wide_out(r, -1, 1, 1, channels, &b->dscale));
    MR_TRY(mr_wide_out(r, -1, 2, 1, channels, &b->doffset));
    mr_tensor *nothing;
    MR_TRY(mr_run_output(r, 3, 1, (const int64_t[]){0}, &nothing));
    return mr_run_output(r, 4, 1, (const int64_t[]){0}, &nothing);
}

/* With i = 1 / sqrt(variance + epsilon) and sums over the m elements of a channel:
 *     doffset = sum(dy)     dscale = i sum(dy (x - mean))
 *     dx = scale i (dy - sum(dy) / m - (x - mean) i^2 sum(dy (x - mean)) / m)
 * If mean and variance are inputs, dx is just scale i dy. */
static void back_numbers(back *b)
{
    const double *sums = b->sums->data;
    const float *scale = b->in[2].t->data, *mean = b->in[3].t->data, *variance = b->in[4].t->data;
    double m = (double)(b->c.batch * b->c.pixels);
    for (int64_t k = 0; k < b->c.channels; k++) {
        double i = 1 / sqrt((double)variance[k] + (double)b->s->epsilon), a = (double)scale[k] * i;
        double dy = sums[k], dy_x = sums[b->c.channels + k];
        MR_DATA(float, b->doffset.t)[k] = (float)dy;
        MR_DATA(float, b->dscale.t)[k] = (float)(dy_x * i);
        MR_DATA(float, b->shift)[k] = mean[k];
        MR_DATA(float, b->scale)[k] = (float)a;
        MR_DATA(float, b->slope)[k] = b->s->training ? (float)(-a * i * i * dy_x / m) : 0;
        MR_DATA(float, b->offset)[k] = b->s->training ? (float)(-a * dy / m) : 0;
    }
}

static mr_status *back_compute(back *b, int64_t channels)
{
    mr_run *r = b->r;
    if (b->dx.t->n == 0) {
        mr_tensor_zero(b->dscale.t);
        mr_tensor_zero(b->doffset.t);
        return NULL;
    }
    mr_channels_init(&b->c, b->s->layout, b->dx.t);
    mr_tensor **numbers[] = {&b->shift, &b->scale, &b->slope, &b->offset};
    for (int i = 0; i < MR_COUNT(numbers); i++)
        MR_TRY(mr_channels_numbers(r, &b->c, numbers[i]));
    MR_TRY(mr_run_temp(r, MR_DOUBLE, 2, (const int64_t[]){2, channels}, &b->sums));
    memcpy(b->shift->data, b->in[3].t->data, (size_t)channels * sizeof(float));
    mr_channels_spread(&b->c, b->shift->data);
    const float *dy = b->in[0].t->data, *x = b->in[1].t->data;
    MR_TRY(mr_channels_products(r, &b->c, dy, x, b->shift->data, b->sums->data));
    back_numbers(b);
    for (int i = 0; i < MR_COUNT(numbers); i++)
        mr_channels_spread(&b->c, (*numbers[i])->data);
    mr_channels_mix(r, &b->c, dy, x, b->scale->data, b->shift->data, b->slope->data,
                    b->offset->data, b->dx.t->data);
    return NULL;
}

static mr_status *batch_norm_grad(mr_run *r)
{
    back b = {.r = r, .s = r->state};
    int64_t channels;
    mr_status *st = NULL;
    MR_GO(back_open(&b, &channels));
    MR_GO(back_compute(&b, channels));
    mr_wide_store(r, 0, &b.dx);
    mr_wide_store(r, 1, &b.dscale);
    mr_wide_store(r, 2, &b.doffset);
out:
    back_deinit(&b);
    return st;
}

static mr_status *infer_grad(mr_infer *c)
{
    const mr_pshape *x, *vector;
    MR_TRY(mr_infer_merge(c, c->in[0], c->in[1], &x));
    MR_TRY(mr_norm_infer(c, x, 2, 4, &c->out[0], &vector));
    c->out[1] = c->out[2] = vector;
    mr_infer_out_vector(c, 3, 0);
    mr_infer_out_vector(c, 4, 0);
    return NULL;
}

MR_OP(FusedBatchNormGrad,
    .doc         = "gradient of FusedBatchNorm by x, scale and offset",
    .sig         = "y_backprop: T, x: T, scale: T, reserve_space_1: T, reserve_space_2: T -> "
                   "x_backprop: T, scale_backprop: T, offset_backprop: T, reserve_space_3: T, "
                   "reserve_space_4: T",
    .attrs       = "T: {float}; " MR_NORM_EPSILON MR_NORM_FORMATS,
    .shape       = infer_grad,
    .grad        = mr_norm_grad_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(batch_norm_grad, MR_TYPE_FLOAT)),
    .state_bytes = sizeof(mr_norm),
    .init        = mr_norm_init,
    .examples    = MR_EXAMPLES(
        "nograd epsilon=0.001: [[[[0.1], [-0.2]], [[0.3], [0.4]]]], [[[[1], [2]], [[4], [7]]]], "
        "[2], "
        "[3.5], [5.25] -> [[[[0.12257434], [-0.2057477]], [[0.09767551], [-0.01450215]]]], "
        "[0.69823075], [0.6], shape(0), shape(0)",
        "is_training=false: [[[[1, 2], [-2, 0]], [[3, -1], [0.5, 3]]]], [[[[1, 2], [2, 0]], [[4, "
        "-1], [7, 3]]]], [2, 1], [1, 0.5], [4, 0.25] -> [[[[0.9999875, 3.9992002], [-1.999975, "
        "0]], [[2.9999625, -1.9996001], [0.49999375, 5.9988004]]]], [4.9999375, 23.995201], [2.5, "
        "4], shape(0), shape(0)",
        "nograd data_format=\"NCHW\": [[[[1, -2], [3, 0.5]], [[2, 0], [-1, 3]]]], [[[[1, 2], [4, "
        "7]], "
        "[[2, 0], [-1, 3]]]], [2, 1], [3.5, 1], [5.25, 2.5] -> [[[[0.71698739, -2.0574678], "
        "[1.9951175, -0.65463704]], [[2.5296703e-05, -2.5296703e-05], [-5.0593407e-05, "
        "5.0593407e-05]]]], [1.6366186, 6.3244288], [2.5, 4], shape(0), shape(0)",
        "shape(0,1,1,2), shape(0,1,1,2), [1, 1], [0, 0], [1, 1] -> shape(0,1,1,2), [0, 0], [0, "
        "0], shape(0), shape(0)",
        "[[[[1]]]], [[[[1, 2]]]], [1], [0], [1] -> !INVALID_ARGUMENT",
        "[[[[1]]]], [[[[1]]]], [1], [0, 1], [1] -> !INVALID_ARGUMENT"));

MR_OP(FusedBatchNormGradV2,
    .doc         = "gradient of FusedBatchNormV2 by x, scale and offset",
    .sig         = "y_backprop: T, x: T, scale: float, reserve_space_1: U, reserve_space_2: U -> "
                   "x_backprop: T, scale_backprop: U, offset_backprop: U, reserve_space_3: U, "
                   "reserve_space_4: U",
    .attrs       = MR_NORM_NARROW MR_NORM_EPSILON MR_NORM_FORMATS,
    .shape       = infer_grad,
    .grad        = mr_norm_grad_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(batch_norm_grad, MR_NORM_TYPES)),
    .state_bytes = sizeof(mr_norm),
    .init        = mr_norm_init,
    .examples    = MR_EXAMPLES(
        "T=float nograd epsilon=0.001: [[[[0.1], [-0.2]], [[0.3], [0.4]]]], [[[[1], [2]], [[4], "
        "[7]]]], "
        "[2], "
        "[3.5], [5.25] -> [[[[0.12257434], [-0.2057477]], [[0.09767551], [-0.01450215]]]], "
        "[0.69823075], [0.6], shape(0), shape(0)",
        "is_training=false: [[[[1, 2], [-2, 0]], [[3, -1], [0.5, 3]]]], [[[[1, 2], [2, 0]], [[4, "
        "-1], [7, 3]]]], [2, 1], [1, 0.5], [4, 0.25] -> [[[[0.9999875, 3.9992002], [-1.999975, "
        "0]], [[2.9999625, -1.9996001], [0.49999375, 5.9988004]]]], [4.9999375, 23.995201], [2.5, "
        "4], shape(0), shape(0)",
        "nograd data_format=\"NCHW\": [[[[1, -2], [3, 0.5]], [[2, 0], [-1, 3]]]], [[[[1, 2], [4, "
        "7]], "
        "[[2, 0], [-1, 3]]]], [2, 1], [3.5, 1], [5.25, 2.5] -> [[[[0.71698739, -2.0574678], "
        "[1.9951175, -0.65463704]], [[2.5296703e-05, -2.5296703e-05], [-5.0593407e-05, "
        "5.0593407e-05]]]], [1.6366186, 6.3244288], [2.5, 4], shape(0), shape(0)",
        "shape(0,1,1,2), shape(0,1,1,2), [1, 1], [0, 0], [1, 1] -> shape(0,1,1,2), [0, 0], [0, "
        "0], shape(0), shape(0)",
        "[[[[1]]]], [[[[1, 2]]]], [1], [0], [1] -> !INVALID_ARGUMENT",
        "[[[[1]]]], [[[[1]]]], [1], [0, 1], [1] -> !INVALID_ARGUMENT"));

MR_OP(FusedBatchNormGradV3,
    .doc         = "gradient of FusedBatchNormV3 by x, scale and offset",
    .sig         = "y_backprop: T, x: T, scale: float, reserve_space_1: U, reserve_space_2: U, "
                   "reserve_space_3: U -> x_backprop: T, scale_backprop: U, offset_backprop: U, "
                   "reserve_space_4: U, reserve_space_5: U",
    .attrs       = MR_NORM_NARROW MR_NORM_EPSILON MR_NORM_FORMATS_3D,
    .shape       = infer_grad,
    .grad        = mr_norm_grad_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(batch_norm_grad, MR_NORM_TYPES)),
    .state_bytes = sizeof(mr_norm),
    .init        = mr_norm_init,
    .examples    = MR_EXAMPLES(
        "T=float nograd epsilon=0.001: [[[[0.1], [-0.2]], [[0.3], [0.4]]]], [[[[1], [2]], [[4], "
        "[7]]]], "
        "[2], "
        "[3.5], [5.25], 0 -> [[[[0.12257434], [-0.2057477]], [[0.09767551], [-0.01450215]]]], "
        "[0.69823075], [0.6], shape(0), shape(0)",
        "is_training=false: [[[[1, 2], [-2, 0]], [[3, -1], [0.5, 3]]]], [[[[1, 2], [2, 0]], [[4, "
        "-1], [7, 3]]]], [2, 1], [1, 0.5], [4, 0.25], 0 -> [[[[0.9999875, 3.9992002], [-1.999975, "
        "0]], [[2.9999625, -1.9996001], [0.49999375, 5.9988004]]]], [4.9999375, 23.995201], [2.5, "
        "4], shape(0), shape(0)",
        "nograd data_format=\"NCHW\": [[[[1, -2], [3, 0.5]], [[2, 0], [-1, 3]]]], [[[[1, 2], [4, "
        "7]], "
        "[[2, 0], [-1, 3]]]], [2, 1], [3.5, 1], [5.25, 2.5], 0 -> [[[[0.71698739, -2.0574678], "
        "[1.9951175, -0.65463704]], [[2.5296703e-05, -2.5296703e-05], [-5.0593407e-05, "
        "5.0593407e-05]]]], [1.6366186, 6.3244288], [2.5, 4], shape(0), shape(0)",
        "shape(0,1,1,2), shape(0,1,1,2), [1, 1], [0, 0], [1, 1], 0 -> shape(0,1,1,2), [0, 0], [0, "
        "0], shape(0), shape(0)",
        "is_training=false data_format=\"NCDHW\": [[[[1, 2]]]], [[[[3, 4]]]], [2], [1], [4], 0 -> "
        "[[[[0.9999875, 1.999975]]]], [3.99995], [3], shape(0), shape(0)",
        "[[[[1]]]], [[[[1, 2]]]], [1], [0], [1], 0 -> !INVALID_ARGUMENT",
        "[[[[1]]]], [[[[1]]]], [1], [0, 1], [1], 0 -> !INVALID_ARGUMENT"));
