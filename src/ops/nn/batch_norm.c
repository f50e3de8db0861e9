/* ops/nn/batch_norm.c -- FusedBatchNorm in its three versions.
 *
 * In training, the mean and variance of each channel come from the batch; otherwise they are inputs.
 * The outputs are those of TensorFlow's CPU kernels: batch_variance is corrected for the degree of
 * freedom that the mean takes (m / (m - 1)), reserve_space_2 is not, and the third reserve is a zero
 * scalar.  epsilon is added to the variance under the square root.
 *
 * All arithmetic is in float, also for 16-bit x. */
#include "ops/nn/batch_norm.h"

#include "base/memory.h"
#include "ops/maths.h"

mr_status *mr_norm_init(mr_make *m, void *state)
{
    mr_norm *s = state;
    s->factor = 1;
    MR_TRY(mr_layout_get(m->node, &s->layout));
    MR_TRY(mr_node_get_float(m->node, "epsilon", &s->epsilon));
    if (mr_node_attr(m->node, "exponential_avg_factor"))
        MR_TRY(mr_node_get_float(m->node, "exponential_avg_factor", &s->factor));
    return mr_node_get_bool(m->node, "is_training", &s->training);
}

mr_status *mr_norm_check_image(const mr_tensor *x, const char *what)
{
    if (x->rank == 4 || x->rank == 5)
        return NULL;
    return mr_invalid("%s must be 4 or 5-dimensional: %s", what, MR_TENSOR_SHAPE(x));
}

mr_status *mr_norm_check_vector(const mr_run *r, int i, const char *what, int64_t channels)
{
    const mr_tensor *t = mr_in(r, i);
    if (t->rank != 1)
        return mr_invalid("%s must be 1-dimensional: %s", what, MR_TENSOR_SHAPE(t));
    if (t->n != channels)
        return mr_invalid("%s must have the same number of elements as the channels of x, got %lld "
                          "and %lld", what, (long long)t->n, (long long)channels);
    return NULL;
}

/* ---- forward ---- */

enum { X, SCALE, OFFSET, MEAN, VARIANCE, N_IN };            /* inputs */
enum { Y, BATCH_MEAN, BATCH_VARIANCE, RESERVE_MEAN, RESERVE_VARIANCE, N_OUT }; /* outputs */

typedef struct pass {
    mr_run *r;
    const mr_norm *s;
    mr_channels c;
    mr_wide in[N_IN], out[N_OUT];
    mr_tensor *shift, *scale, *offset; /* by channel, repeated */
    mr_tensor *sums;                   /* two doubles a channel */
} pass;

static void pass_deinit(pass *p)
{
    for (int i = 0; i < N_IN; i++)
        mr_wide_deinit(&p->in[i]);
    for (int i = 0; i < N_OUT; i++)
        mr_wide_deinit(&p->out[i]);
    mr_tensor_unref(p->shift);
    mr_tensor_unref(p->scale);
    mr_tensor_unref(p->offset);
    mr_tensor_unref(p->sums);
}

static const float *input_data(const pass *p, int i) { return p->in[i].t->data; }
static float *output_data(const pass *p, int i) { return p->out[i].t->data; }

static mr_status *check_inputs(mr_run *r, const mr_norm *s, int64_t *channels)
{
    const mr_tensor *x = mr_in(r, X);
    MR_TRY(mr_norm_check_image(x, "input"));
    *channels = x->dims[mr_layout_channel(s->layout, x->rank)];
    MR_TRY(mr_norm_check_vector(r, SCALE, "scale", *channels));
    MR_TRY(mr_norm_check_vector(r, OFFSET, "offset", *channels));
    if (s->training && s->factor == 1.0f)
        return NULL; /* mean and variance are not read */
    MR_TRY(mr_norm_check_vector(r, MEAN, "estimated_mean", *channels));
    return mr_norm_check_vector(r, VARIANCE, "estimated_variance", *channels);
}

static mr_status *open_operands(pass *p, int64_t channels)
{
    mr_run *r = p->r;
    const mr_tensor *x = mr_in(r, X);
    for (int i = 0; i < N_IN; i++)
        MR_TRY(mr_wide_in(r, i, &p->in[i]));
    MR_TRY(mr_wide_out(r, -1, Y, x->rank, x->dims, &p->out[Y]));
    for (int i = BATCH_MEAN; i < N_OUT; i++)
        MR_TRY(mr_wide_out(r, -1, i, 1, &channels, &p->out[i]));
    if (r->n_out == N_OUT)
        return NULL;
    mr_tensor *unused; /* V3's third reserve */
    MR_TRY(mr_run_output(r, N_OUT, 0, NULL, &unused));
    mr_tensor_zero(unused);
    return NULL;
}

/* Stores the mean and variance of the batch in the reserve outputs. */
static mr_status *measure_batch(pass *p)
{
    int64_t channels = p->c.channels;
    double *means = p->sums->data, *variances = means + channels;
    MR_TRY(mr_channels_moments(p->r, &p->c, input_data(p, X), means, variances));
    for (int64_t i = 0; i < channels; i++) {
        output_data(p, RESERVE_MEAN)[i] = (float)means[i];
        output_data(p, RESERVE_VARIANCE)[i] = (float)variances[i];
    }
    return NULL;
}

/* Blends the batch's mean and variance into the running ones with weight `factor`.  A factor of 1 ignores
 * the running values, which may then be empty. */
static void update_running_stats(pass *p)
{
    double m = (double)(p->c.batch * p->c.pixels), bessel = m / fmax(m - 1, 1);
    float f = p->s->factor;
    for (int64_t i = 0; i < p->c.channels; i++) {
        float mean = output_data(p, RESERVE_MEAN)[i];
        float variance = (float)((double)output_data(p, RESERVE_VARIANCE)[i] * bessel);
        output_data(p, BATCH_MEAN)[i] = f == 1.0f ? mean : (1 - f) * input_data(p, MEAN)[i] + f * mean;
        output_data(p, BATCH_VARIANCE)[i] =
            f == 1.0f ? variance : (1 - f) * input_data(p, VARIANCE)[i] + f * variance;
    }
}

static void copy_given(pass *p, int64_t channels)
{
    size_t bytes = (size_t)channels * sizeof(float);
    for (int i = BATCH_MEAN; i < N_OUT; i++) {
        bool is_mean = i == BATCH_MEAN || i == RESERVE_MEAN;
        memcpy(output_data(p, i), input_data(p, is_mean ? MEAN : VARIANCE), bytes);
    }
}

/* y = (x - mean) scale / sqrt(variance + epsilon) + offset */
static void normalise_batch(pass *p)
{
    float *shift = p->shift->data, *scale = p->scale->data, *offset = p->offset->data;
    for (int64_t i = 0; i < p->c.channels; i++) {
        shift[i] = output_data(p, RESERVE_MEAN)[i];
        scale[i] = input_data(p, SCALE)[i] / sqrtf(output_data(p, RESERVE_VARIANCE)[i] + p->s->epsilon);
        offset[i] = input_data(p, OFFSET)[i];
    }
    mr_channels_spread(&p->c, shift);
    mr_channels_spread(&p->c, scale);
    mr_channels_spread(&p->c, offset);
    mr_channels_scale(p->r, &p->c, input_data(p, X), shift, scale, offset, output_data(p, Y));
}

static mr_status *compute_norm(pass *p, int64_t channels)
{
    mr_run *r = p->r;
    if (p->s->training && mr_in(r, X)->n == 0) { /* an empty batch has no mean */
        for (int i = BATCH_MEAN; i < N_OUT; i++)
            for (int64_t k = 0; k < channels; k++)
                output_data(p, i)[k] = NAN;
        return NULL;
    }
    if (!p->s->training)
        copy_given(p, channels);
    if (mr_in(r, X)->n == 0)
        return NULL;
    mr_channels_init(&p->c, p->s->layout, p->in[X].t);
    MR_TRY(mr_channels_numbers(r, &p->c, &p->shift));
    MR_TRY(mr_channels_numbers(r, &p->c, &p->scale));
    MR_TRY(mr_channels_numbers(r, &p->c, &p->offset));
    MR_TRY(mr_run_temp(r, MR_DOUBLE, 2, (const int64_t[]){2, channels}, &p->sums));
    if (p->s->training) {
        MR_TRY(measure_batch(p));
        update_running_stats(p);
    }
    normalise_batch(p);
    return NULL;
}

static mr_status *batch_norm(mr_run *r)
{
    pass p = {.r = r, .s = r->state};
    int64_t channels;
    mr_status *st = NULL;
    MR_GO(check_inputs(r, p.s, &channels));
    MR_GO(open_operands(&p, channels));
    MR_GO(compute_norm(&p, channels));
    for (int i = 0; i < N_OUT; i++)
        mr_wide_store(r, i, &p.out[i]);
out:
    pass_deinit(&p);
    return st;
}

/* ---- shapes ---- */

mr_status *mr_norm_infer(mr_infer *c, const mr_pshape *x, int first, int last,
                                 const mr_pshape **image, const mr_pshape **vector)
{
    mr_layout layout;
    MR_TRY(mr_layout_get(c->node, &layout));
    MR_TRY(mr_infer_rank_at_least(c, x, 4, &x));
    MR_TRY(mr_infer_rank_at_most(c, x, 5, &x));
    int at = x->rank < 0 ? 0 : mr_layout_channel(layout, x->rank);
    int64_t channels = x->rank < 0 ? -1 : x->dims[at];
    for (int i = first; i <= last; i++) {
        const mr_pshape *v;
        MR_TRY(mr_infer_rank(c, c->in[i], 1, &v));
        MR_TRY(mr_infer_merge_dim(channels, v->dims[0], &channels));
    }
    *vector = mr_pshape_vector(c->arena, channels);
    *image = x;
    if (x->rank < 0 || x->dims[at] == channels)
        return NULL;
    mr_pshape *known = mr_pshape_new(c->arena, x->rank);
    for (int i = 0; i < x->rank; i++)
        known->dims[i] = i == at ? channels : x->dims[i];
    *image = known;
    return NULL;
}

static mr_status *infer_batch_norm(mr_infer *c)
{
    bool training;
    const mr_pshape *vector;
    MR_TRY(mr_node_get_bool(c->node, "is_training", &training));
    MR_TRY(mr_norm_infer(c, c->in[X], SCALE, training ? OFFSET : VARIANCE, &c->out[Y], &vector));
    for (int i = BATCH_MEAN; i < N_OUT; i++)
        c->out[i] = vector;
    return NULL; /* V3's third reserve stays unknown: its shape depends on the device */
}

/* ---- gradients: of y alone; the other outputs are statistics ---- */

/* Casts v: the gradient ops take only float vectors. */
static mr_out cast_to(mr_grad *g, mr_dtype to, mr_out v)
{
    if (!mr_scope_ok(g->s) || mr_dtype_base(mr_out_type(v)) == to)
        return v;
    return mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(to)}), v);
}

static void batch_norm_backward(mr_grad *g, const char *op, bool reserve_3)
{
    bool training = false;
    mr_status *st = mr_node_get_bool(g->node, "is_training", &training);
    if (st)
        mr_scope_fail(g->s, st);
    mr_out mean = training ? mr_yi(g, RESERVE_MEAN) : mr_xi(g, MEAN);
    mr_out variance = training ? mr_yi(g, RESERVE_VARIANCE) : mr_xi(g, VARIANCE);
    mr_dtype type = mr_dtype_base(g->node->in_types[SCALE]);
    const mr_out args[] = {mr_dyi(g, Y),
                           mr_xi(g, X),
                           cast_to(g, MR_FLOAT, mr_xi(g, SCALE)),
                           cast_to(g, MR_FLOAT, mean),
                           cast_to(g, MR_FLOAT, variance),
                           reserve_3 ? cast_to(g, MR_FLOAT, mr_yi(g, N_OUT)) : MR_NO_OUT};
    mr_out d = mr_emit_like(g, op, "epsilon data_format is_training", args, reserve_3 ? 6 : 5);
    mr_dxi(g, X, d);
    mr_dxi(g, SCALE, cast_to(g, type, mr_nth(d, 1)));
    mr_dxi(g, OFFSET, cast_to(g, type, mr_nth(d, 2)));
}

static void backward_v1(mr_grad *g) { batch_norm_backward(g, "FusedBatchNormGrad", false); }
static void backward_v2(mr_grad *g) { batch_norm_backward(g, "FusedBatchNormGradV2", false); }
static void backward_v3(mr_grad *g) { batch_norm_backward(g, "FusedBatchNormGradV3", true); }

/* ---- ops ---- */

MR_OP(FusedBatchNorm,
    .doc         = "each channel shifted and scaled to mean 0 and variance 1, then by scale and "
                   "offset",
    .sig         = "x: T, scale: T, offset: T, mean: T, variance: T -> y: T, batch_mean: T, "
                   "batch_variance: T, reserve_space_1: T, reserve_space_2: T",
    .attrs       = "T: {float}; " MR_NORM_FACTOR MR_NORM_FORMATS,
    .shape       = infer_batch_norm,
    .grad        = backward_v1,
    .kernels     = MR_KERNELS(MR_CPU_ONE(batch_norm, MR_TYPE_FLOAT)),
    .state_bytes = sizeof(mr_norm),
    .init        = mr_norm_init,
    .examples    = MR_EXAMPLES(
        "epsilon=0.001: [[[[1], [2]], [[4], [7]]]], [2], [0.5], shape(0), shape(0) -> "
        "[[[[-1.6819711], [-0.8091827]], [[0.9363942], [3.5547595]]]], [3.5], [7], [3.5], [5.25]",
        "is_training=false: [[[[1, 2], [2, 0]], [[4, -1], [7, 3]]]], [2, 1], [0.5, -1], [1, 0.5], "
        "[4, 0.25] -> [[[[0.5, 1.9994002], [1.4999875, -1.9998001]], [[3.4999625, -3.9994002], "
        "[6.499925, 3.9990003]]]], [1, 0.5], [4, 0.25], [1, 0.5], [4, 0.25]",
        "data_format=\"NCHW\": [[[[1, 2], [4, 7]], [[2, 0], [-1, 3]]]], [2, 1], [0.5, -1], "
        "shape(0), shape(0) -> [[[[-1.6821581, -0.80929487], [0.93643162, 3.5550214]], "
        "[[-0.36755712, -1.6324429], [-2.2648858, 0.26488577]]]], [3.5, 1], [7, 3.3333333], [3.5, "
        "1], [5.25, 2.5]",
        "exponential_avg_factor=0.25: [[[[1, 2], [2, 0]], [[4, -1], [7, 3]]]], [2, 1], "
        "[0.5, -1], [1, 2], [3, 4] -> [[[[-1.6821581, -0.36755712], [-0.80929487, -1.6324429]], "
        "[[0.93643162, -2.2648858], [3.5550214, 0.26488577]]]], [1.625, 1.75], [4, 3.8333333], "
        "[3.5, 1], [5.25, 2.5]",
        "shape(0,1,1,2), [1, 1], [0, 0], shape(0), shape(0) -> shape(0,1,1,2), [nan, "
        "nan], [nan, nan], [nan, nan], [nan, nan]",
        "[[[[1]]]], [1, 2], [0], shape(0), shape(0) -> !INVALID_ARGUMENT",
        "is_training=false: [[[[1]]]], [1], [0], shape(0), shape(0) -> !INVALID_ARGUMENT",
        "[[1]], [1], [0], shape(0), shape(0) -> !INVALID_ARGUMENT",
        "nograd: fill(3, 5,9,7,30), fill(1, 30), fill(0.5, 30), shape(0), shape(0) -> fill(0.5, "
        "5,9,7,30), fill(3, 30), fill(0, 30), fill(3, 30), fill(0, 30)"));

MR_OP(FusedBatchNormV2,
    .doc         = "FusedBatchNorm whose statistics are floats when x is not",
    .sig         = "x: T, scale: U, offset: U, mean: U, variance: U -> y: T, batch_mean: U, "
                   "batch_variance: U, reserve_space_1: U, reserve_space_2: U",
    .attrs       = MR_NORM_NARROW MR_NORM_FACTOR MR_NORM_FORMATS,
    .shape       = infer_batch_norm,
    .grad        = backward_v2,
    .kernels     = MR_KERNELS(MR_CPU_ONE(batch_norm, MR_NORM_TYPES)),
    .state_bytes = sizeof(mr_norm),
    .init        = mr_norm_init,
    .examples    = MR_EXAMPLES(
        "epsilon=0.001: [[[[1], [2]], [[4], [7]]]], [2], [0.5], shape(0), shape(0) -> "
        "[[[[-1.6819711], [-0.8091827]], [[0.9363942], [3.5547595]]]], [3.5], [7], [3.5], [5.25]",
        "is_training=false: [[[[1, 2], [2, 0]], [[4, -1], [7, 3]]]], [2, 1], [0.5, -1], [1, 0.5], "
        "[4, 0.25] -> [[[[0.5, 1.9994002], [1.4999875, -1.9998001]], [[3.4999625, -3.9994002], "
        "[6.499925, 3.9990003]]]], [1, 0.5], [4, 0.25], [1, 0.5], [4, 0.25]",
        "data_format=\"NCHW\": [[[[1, 2], [4, 7]], [[2, 0], [-1, 3]]]], [2, 1], [0.5, -1], "
        "shape(0), shape(0) -> [[[[-1.6821581, -0.80929487], [0.93643162, 3.5550214]], "
        "[[-0.36755712, -1.6324429], [-2.2648858, 0.26488577]]]], [3.5, 1], [7, 3.3333333], [3.5, "
        "1], [5.25, 2.5]",
        "exponential_avg_factor=0.25: [[[[1, 2], [2, 0]], [[4, -1], [7, 3]]]], [2, 1], "
        "[0.5, -1], [1, 2], [3, 4] -> [[[[-1.6821581, -0.36755712], [-0.80929487, -1.6324429]], "
        "[[0.93643162, -2.2648858], [3.5550214, 0.26488577]]]], [1.625, 1.75], [4, 3.8333333], "
        "[3.5, 1], [5.25, 2.5]",
        "shape(0,1,1,2), [1, 1], [0, 0], shape(0), shape(0) -> shape(0,1,1,2), [nan, "
        "nan], [nan, nan], [nan, nan], [nan, nan]",
        "[[[[1]]]], [1, 2], [0], shape(0), shape(0) -> !INVALID_ARGUMENT",
        "is_training=false: [[[[1]]]], [1], [0], shape(0), shape(0) -> !INVALID_ARGUMENT",
        "[[1]], [1], [0], shape(0), shape(0) -> !INVALID_ARGUMENT"));

MR_OP(FusedBatchNormV3,
    .doc         = "FusedBatchNorm of images in two or three dimensions",
    .sig         = "x: T, scale: U, offset: U, mean: U, variance: U -> y: T, batch_mean: U, "
                   "batch_variance: U, reserve_space_1: U, reserve_space_2: U, reserve_space_3: U",
    .attrs       = "T: {half, bfloat16, float}; U: {bfloat16, float}; " MR_NORM_FACTOR
                   MR_NORM_FORMATS_3D,
    .shape       = infer_batch_norm,
    .grad        = backward_v3,
    .kernels     = MR_KERNELS(MR_CPU_ONE(batch_norm, MR_NORM_TYPES)),
    .state_bytes = sizeof(mr_norm),
    .init        = mr_norm_init,
    .examples    = MR_EXAMPLES(
        "epsilon=0.001: [[[[1], [2]], [[4], [7]]]], [2], [0.5], shape(0), shape(0) -> "
        "[[[[-1.6819711], [-0.8091827]], [[0.9363942], [3.5547595]]]], [3.5], [7], [3.5], [5.25], "
        "0",
        "is_training=false: [[[[1, 2], [2, 0]], [[4, -1], [7, 3]]]], [2, 1], [0.5, -1], [1, 0.5], "
        "[4, 0.25] -> [[[[0.5, 1.9994002], [1.4999875, -1.9998001]], [[3.4999625, -3.9994002], "
        "[6.499925, 3.9990003]]]], [1, 0.5], [4, 0.25], [1, 0.5], [4, 0.25], 0",
        "data_format=\"NCHW\": [[[[1, 2], [4, 7]], [[2, 0], [-1, 3]]]], [2, 1], [0.5, -1], "
        "shape(0), shape(0) -> [[[[-1.6821581, -0.80929487], [0.93643162, 3.5550214]], "
        "[[-0.36755712, -1.6324429], [-2.2648858, 0.26488577]]]], [3.5, 1], [7, 3.3333333], [3.5, "
        "1], [5.25, 2.5], 0",
        "exponential_avg_factor=0.25: [[[[1, 2], [2, 0]], [[4, -1], [7, 3]]]], [2, 1], "
        "[0.5, -1], [1, 2], [3, 4] -> [[[[-1.6821581, -0.36755712], [-0.80929487, -1.6324429]], "
        "[[0.93643162, -2.2648858], [3.5550214, 0.26488577]]]], [1.625, 1.75], [4, 3.8333333], "
        "[3.5, 1], [5.25, 2.5], 0",
        "shape(0,1,1,2), [1, 1], [0, 0], shape(0), shape(0) -> shape(0,1,1,2), [nan, "
        "nan], [nan, nan], [nan, nan], [nan, nan], 0",
        "[[[[1]]]], [1, 2], [0], shape(0), shape(0) -> !INVALID_ARGUMENT",
        "is_training=false: [[[[1]]]], [1], [0], shape(0), shape(0) -> !INVALID_ARGUMENT",
        "[[1]], [1], [0], shape(0), shape(0) -> !INVALID_ARGUMENT",
        "data_format=\"NDHWC\": [[[[[1, 2], [2, 0]]], [[[4, -1], [7, 3]]]]], [2, 1], [0.5, "
        "-1], shape(0), shape(0) -> [[[[[-1.6821581, -0.36755712], [-0.80929487, -1.6324429]]], "
        "[[[0.93643162, -2.2648858], [3.5550214, 0.26488577]]]]], [3.5, 1], [7, 3.3333333], [3.5, "
        "1], [5.25, 2.5], 0",
        "data_format=\"NCDHW\": [[[[[1, 2]], [[4, 7]]], [[[2, 0]], [[-1, 3]]]]], [2, 1], "
        "[0.5, -1], shape(0), shape(0) -> [[[[[-1.6821581, -0.80929487]], [[0.93643162, "
        "3.5550214]]], [[[-0.36755712, -1.6324429]], [[-2.2648858, 0.26488577]]]]], [3.5, 1], [7, "
        "3.3333333], [3.5, 1], [5.25, 2.5], 0",
        "T=float U=bfloat16 nograd: [[[[1], [3]]]], [1], [0], shape(0), shape(0) -> [[[[-0.99995], "
        "[0.99995]]]], [2], [2], [2], [1], 0"));
