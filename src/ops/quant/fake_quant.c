/* ops/quant/fake_quant.c -- rounds floats as if they had been quantized, for training: with ranges in
 * attrs (Args), in scalars (Vars), or in a vector for the last dimension (PerChannel).
 *
 * The range is nudged so that 0 is representable.  Inside the range the gradient passes through;
 * outside, it goes to the end of the range that clipped the value. */
#include <math.h>

#include "graph/grad.h"
#include "graph/infer.h"
#include "run/scratch.h"

typedef struct state {
    float min, max;   /* only for Args */
    float low, high;  /* the lowest and highest code */
} state;

static mr_status *init_fake_quant(mr_make *m, void *state_)
{
    state *s = state_;
    int64_t bits;
    bool narrow;
    MR_TRY(mr_node_get_int(m->node, "num_bits", &bits));
    MR_TRY(mr_node_get_bool(m->node, "narrow_range", &narrow));
    if (bits < 2 || bits > 16)
        return mr_invalid("num_bits must be between 2 and 16, inclusive");
    s->low = narrow;
    s->high = (float)((1 << bits) - 1);
    return NULL;
}

static mr_status *init_args(mr_make *m, void *state_)
{
    state *s = state_;
    MR_TRY(init_fake_quant(m, state_));
    MR_TRY(mr_node_get_float(m->node, "min", &s->min));
    MR_TRY(mr_node_get_float(m->node, "max", &s->max));
    return s->min < s->max ? NULL
                           : mr_invalid("min has to be smaller than max, was: %g >= %g", s->min,
                                        s->max);
}

typedef struct nudged {
    float min, max, scale, zero;
    bool nothing; /* min and max are 0, so every result is 0 */
} nudged;

static nudged nudge_range(const state *s, float min, float max)
{
    float scale = (max - min) / (s->high - s->low), from_min = s->low - min / scale;
    float zero = from_min < s->low ? s->low : from_min > s->high ? s->high : roundf(from_min);
    nudged n = {.scale = scale, .min = (s->low - zero) * scale, .max = (s->high - zero) * scale};
    n.zero = floorf(-n.min / scale + 0.5f);
    n.nothing = min == 0 && max == 0;
    return n;
}

/* Args multiplies by the inverse of the scale, the other ops divide by it: the last bit may differ. */
static float quantize_value(const nudged *n, float inverse, float x)
{
    float v = x < n->max ? x : n->max;
    v = v > n->min ? v : n->min;
    float steps = inverse != 0 ? (v - n->min) * inverse : (v - n->min) / n->scale;
    return n->nothing ? 0 : floorf(steps - n->zero + 0.5f) * n->scale;
}

/* Channels are the last dimension; Args and Vars use one range for all of them. */
typedef struct job {
    const float *x, *g;
    const nudged *ranges;
    float inverse;
    int64_t channels;
    float *out;
} job;

static void quantize_rows(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    for (int64_t i = begin; i < end; i++)
        j->out[i] =
            quantize_value(&j->ranges[j->channels == 1 ? 0 : i % j->channels], j->inverse, j->x[i]);
}

static void grad_rows(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        const nudged *n = &j->ranges[j->channels == 1 ? 0 : i % j->channels];
        bool inside = n->nothing || (j->x[i] >= n->min && j->x[i] <= n->max);
        j->out[i] = inside ? j->g[i] : 0;
    }
}

/* Sums the gradients of values below the range for min, and of those above it for max; in double, in order. */
static void grad_ends(const job *j, int64_t n, double *ends)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t c = j->channels == 1 ? 0 : i % j->channels;
        const nudged *r = &j->ranges[c];
        if (r->nothing)
            continue;
        if (j->x[i] < r->min)
            ends[2 * c] += j->g[i];
        if (j->x[i] > r->max)
            ends[2 * c + 1] += j->g[i];
    }
}

/* ---- Args ---- */

static mr_status *fake_quant_args(mr_run *r)
{
    const state *s = r->state;
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *y;
    nudged n = nudge_range(s, s->min, s->max);
    n.nothing = false;
    n.zero = floorf(-n.min * (1 / n.scale) + 0.5f);
    MR_TRY(mr_run_forward(r, 0, 0, x->rank, x->dims, &y));
    job j = {x->data, NULL, &n, 1 / n.scale, 1, y->data};
    mr_run_for(r, x->n, 2, quantize_rows, &j);
    return NULL;
}

static mr_status *check_same(const mr_run *r)
{
    return mr_tensor_same_shape(mr_in(r, 0), mr_in(r, 1))
               ? NULL
               : mr_invalid("gradient and input must be the same size, got %s and %s",
                            MR_TENSOR_SHAPE(mr_in(r, 0)), MR_TENSOR_SHAPE(mr_in(r, 1)));
}

static mr_status *args_grad(mr_run *r)
{
    const state *s = r->state;
    const mr_tensor *g = mr_in(r, 0), *x = mr_in(r, 1);
    mr_tensor *y;
    nudged n = nudge_range(s, s->min, s->max);
    n.nothing = false;
    MR_TRY(check_same(r));
    MR_TRY(mr_run_forward(r, 0, 0, g->rank, g->dims, &y));
    job j = {x->data, g->data, &n, 0, 1, y->data};
    mr_run_for(r, x->n, 1, grad_rows, &j);
    return NULL;
}

/* ---- Vars and PerChannel ---- */

/* Reads the ranges from inputs i and i + 1: one, or one per channel of x.  The caller frees *out
 * with mr_scratch_free. */
static mr_status *read_ranges(const mr_run *r, const mr_tensor *x, int i, bool per_channel,
                              int64_t *channels, nudged **out)
{
    const mr_tensor *min = mr_in(r, i), *max = mr_in(r, i + 1);
    *channels = 1;
    if (per_channel) {
        if (x->rank < 1)
            return mr_invalid("inputs must have a last dimension, got a scalar");
        *channels = x->dims[x->rank - 1];
    }
    if (min->rank != per_channel || min->n != *channels)
        return mr_invalid("min has incorrect size, expected %lld was %s", (long long)*channels,
                          MR_TENSOR_SHAPE(min));
    if (max->rank != per_channel || max->n != *channels)
        return mr_invalid("max has incorrect size, expected %lld was %s", (long long)*channels,
                          MR_TENSOR_SHAPE(max));
    *out = mr_scratch(r, sizeof(nudged) * (size_t)(*channels + 1));
    if (!*out)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld ranges", (long long)*channels);
    for (int64_t k = 0; k < *channels; k++)
        (*out)[k] = nudge_range(r->state, MR_DATA(float, min)[k], MR_DATA(float, max)[k]);
    return NULL;
}

static mr_status *fake_quant_forward(mr_run *r, bool per_channel)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *y;
    nudged *ranges = NULL;
    job j = {.x = x->data};
    MR_TRY(read_ranges(r, x, 1, per_channel, &j.channels, &ranges));
    mr_status *st = mr_run_forward(r, 0, 0, x->rank, x->dims, &y);
    if (!st) {
        j.ranges = ranges;
        j.out = y->data;
        mr_run_for(r, x->n, 2, quantize_rows, &j);
    }
    mr_scratch_free(ranges);
    return st;
}

static mr_status *fake_quant_backward(mr_run *r, bool per_channel)
{
    const mr_tensor *g = mr_in(r, 0), *x = mr_in(r, 1), *min = mr_in(r, 2);
    mr_status *st = NULL;
    mr_tensor *out[3];
    nudged *ranges = NULL;
    double *ends = NULL;
    job j = {.x = x->data, .g = g->data};
    MR_TRY(check_same(r));
    MR_GO(read_ranges(r, x, 2, per_channel, &j.channels, &ranges));
    ends = mr_scratch_zeroed(r, (size_t)(j.channels + 1), 2 * sizeof(double));
    if (!ends)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld sums", (long long)j.channels));
    MR_GO(mr_run_output(r, 0, g->rank, g->dims, &out[0]));
    MR_GO(mr_run_output(r, 1, min->rank, min->dims, &out[1]));
    MR_GO(mr_run_output(r, 2, min->rank, min->dims, &out[2]));
    j.ranges = ranges;
    j.out = out[0]->data;
    mr_run_for(r, x->n, 1, grad_rows, &j);
    grad_ends(&j, x->n, ends);
    for (int64_t i = 0; i < j.channels; i++) {
        MR_DATA(float, out[1])[i] = (float)ends[2 * i];
        MR_DATA(float, out[2])[i] = (float)ends[2 * i + 1];
    }
out:
    mr_scratch_free(ranges);
    mr_scratch_free(ends);
    return st;
}

static mr_status *fake_quant_vars(mr_run *r) { return fake_quant_forward(r, false); }
static mr_status *per_channel(mr_run *r) { return fake_quant_forward(r, true); }
static mr_status *vars_grad(mr_run *r) { return fake_quant_backward(r, false); }
static mr_status *per_channel_grad(mr_run *r) { return fake_quant_backward(r, true); }

/* ---- shapes and gradients ---- */

static mr_status *vars_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &ignored));
    c->out[0] = c->in[0];
    return NULL;
}

/* The last dimension of x must equal the length of the ranges in inputs i and i + 1. */
static mr_status *infer_channels(mr_infer *c, const mr_pshape *x, int i, const mr_pshape **out_x,
                                 const mr_pshape **out_range)
{
    const mr_pshape *min, *max, *own;
    MR_TRY(mr_infer_rank_at_least(c, x, 1, &x));
    MR_TRY(mr_infer_rank(c, c->in[i], 1, &min));
    MR_TRY(mr_infer_rank(c, c->in[i + 1], 1, &max));
    MR_TRY(mr_infer_merge(c, min, max, out_range));
    MR_TRY(mr_infer_merge(c, mr_pshape_vector(c->arena, mr_infer_dim(x, -1)), *out_range, &own));
    *out_range = own;
    *out_x = x;
    return NULL;
}

static mr_status *per_channel_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    return infer_channels(c, c->in[0], 1, &c->out[0], &ignored);
}

static mr_status *vars_grad_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[3], 0, &ignored));
    MR_TRY(mr_infer_merge(c, c->in[0], c->in[1], &c->out[0]));
    mr_infer_out_scalar(c, 1);
    mr_infer_out_scalar(c, 2);
    return NULL;
}

static mr_status *per_channel_grad_shape(mr_infer *c)
{
    const mr_pshape *x;
    MR_TRY(mr_infer_merge(c, c->in[0], c->in[1], &x));
    MR_TRY(infer_channels(c, x, 2, &c->out[0], &c->out[1]));
    c->out[2] = c->out[1];
    return NULL;
}

#define QUANT_ATTRS "num_bits narrow_range"

static void args_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit_like(g, "FakeQuantWithMinMaxArgsGradient", "min max " QUANT_ATTRS,
                              MR_OUTS(mr_dyi(g, 0), mr_xi(g, 0))));
}

static void range_backward(mr_grad *g, const char *op)
{
    mr_out d = mr_emit_like(g, op, QUANT_ATTRS,
                            MR_OUTS(mr_dyi(g, 0), mr_xi(g, 0), mr_xi(g, 1), mr_xi(g, 2)));
    for (int i = 0; i < 3; i++)
        mr_dxi(g, i, mr_nth(d, i));
}

static void vars_backward(mr_grad *g) { range_backward(g, "FakeQuantWithMinMaxVarsGradient"); }
static void per_channel_backward(mr_grad *g)
{
    range_backward(g, "FakeQuantWithMinMaxVarsPerChannelGradient");
}

/* ---- ops ---- */

#define BITS "num_bits: int = 8; narrow_range: bool = false"
#define ARGS "min: float = -6; max: float = 6; " BITS
#define STATE(fn) .state_bytes = sizeof(state), .init = fn

MR_OP(FakeQuantWithMinMaxArgs,
    .doc      = "rounds as if quantized to the range of the attrs and back",
    .sig      = "inputs: float -> outputs: float",
    .attrs    = ARGS,
    .shape    = mr_shape_same,
    .grad     = args_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(fake_quant_args)),
    STATE(init_args),
    .examples = MR_EXAMPLES(
        "nograd min=0 max=255: [-3, 0, 1.4, 1.6, 254.5, 300] -> [0, 0, 1, 2, 255, 255]",
        "nograd min=-0.1 max=63.65: [-0.2, -0.1, 0, 0.3, 63.6] -> [0, 0, 0, 0.25, 63.5]",
        "nograd min=-10 max=10 num_bits=2: [-10, -1, 4, 10] -> [-6.666667, 0, 6.666667, 6.666667]",
        "nograd min=0 max=6 num_bits=4 narrow_range=true: [0, 3.1] -> [0, 3]",
        "nograd: [nan] -> [5.9764705]", "shape(0) -> shape(0)",
        "min=1 max=1: [1] -> !INVALID_ARGUMENT min has to be smaller than max, was: 1 >= 1",
        "num_bits=1: [1] -> !INVALID_ARGUMENT num_bits must be between 2 and 16",
        "num_bits=17: [1] -> !INVALID_ARGUMENT num_bits must be between 2 and 16"));

MR_OP(FakeQuantWithMinMaxArgsGradient,
    .doc      = "gradient of FakeQuantWithMinMaxArgs: passes where the input is in the range",
    .sig      = "gradients: float, inputs: float -> backprops: float",
    .attrs    = ARGS,
    .shape    = mr_shape_merge_all,
    .kernels  = MR_KERNELS(MR_CPU_ANY(args_grad)),
    STATE(init_args),
    .examples = MR_EXAMPLES(
        "min=0 max=255: [1, 2, 3, 4], [-3, 0, 255, 300] -> [0, 2, 3, 0]",
        "[1], [nan] -> [0]", "[1, 2], [1] -> !INVALID_ARGUMENT"));

MR_OP(FakeQuantWithMinMaxVars,
    .doc      = "rounds as if quantized to a range and back",
    .sig      = "inputs: float, min: float, max: float -> outputs: float",
    .attrs    = BITS,
    .shape    = vars_shape,
    .grad     = vars_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(fake_quant_vars)),
    STATE(init_fake_quant),
    .examples = MR_EXAMPLES(
        "nograd: [-3, 0, 1.4, 1.6, 254.5, 300], 0, 255 -> [0, 0, 1, 2, 255, 255]",
        "nograd num_bits=4 narrow_range=true: [0, 3.1], 0, 7 -> [0, 3]",
        "nograd: [1, 2, nan], 0, 0 -> [0, 0, 0]", "shape(0), 0, 1 -> shape(0)",
        "[1], [0], 1 -> !INVALID_ARGUMENT"));

MR_OP(FakeQuantWithMinMaxVarsGradient,
    .doc      = "gradient of FakeQuantWithMinMaxVars by its input and by both ends of the range",
    .sig      = "gradients: float, inputs: float, min: float, max: float -> "
                "backprops_wrt_input: float, backprop_wrt_min: float, backprop_wrt_max: float",
    .attrs    = BITS,
    .shape    = vars_grad_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(vars_grad)),
    STATE(init_fake_quant),
    .examples = MR_EXAMPLES(
        "[1, 2, 3, 4, 5], [-3, 0, 255, 300, 301], 0, 255 -> [0, 2, 3, 0, 0], 1, 9",
        "[1, 2], [5, -5], 0, 0 -> [1, 2], 0, 0", "shape(0), shape(0), 0, 1 -> shape(0), 0, 0",
        "[1, 2], [5], 0, 0 -> !INVALID_ARGUMENT"));

MR_OP(FakeQuantWithMinMaxVarsPerChannel,
    .doc      = "rounds as if quantized and back, with a range for each index of the last dimension",
    .sig      = "inputs: float, min: float, max: float -> outputs: float",
    .attrs    = BITS,
    .shape    = per_channel_shape,
    .grad     = per_channel_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(per_channel)),
    STATE(init_fake_quant),
    .examples = MR_EXAMPLES(
        "nograd: [[1.4, 1.4], [300, 300]], [0, 0], [255, 510] -> [[1, 2], [255, 300]]",
        "nograd: [1.4, 7], [0, 0], [255, 0] -> [1, 0]", "shape(0,1), [0], [1] -> shape(0,1)",
        "[1, 2], [0], [1] -> !INVALID_ARGUMENT", "1, [0], [1] -> !INVALID_ARGUMENT"));

MR_OP(FakeQuantWithMinMaxVarsPerChannelGradient,
    .doc      = "gradient of FakeQuantWithMinMaxVarsPerChannel by its input and the ends of the "
                "ranges",
    .sig      = "gradients: float, inputs: float, min: float, max: float -> "
                "backprops_wrt_input: float, backprop_wrt_min: float, backprop_wrt_max: float",
    .attrs    = BITS,
    .shape    = per_channel_grad_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(per_channel_grad)),
    STATE(init_fake_quant),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]], [[-3, 5], [300, 511]], [0, 0], [255, 510] -> [[0, 2], [0, 0]], [1, 0], "
        "[3, 4]",
        "shape(0,1), shape(0,1), [0], [1] -> shape(0,1), [0], [0]",
        "[1, 2], [1, 2], [0], [1] -> !INVALID_ARGUMENT"));
