/* ops/quant/round_trip.c -- QuantizeAndDequantize in its four versions: rounds floats to the numbers
 * that a scale and a number of bits can represent, 0 included.
 *
 * The range is an input or attr, or that of the tensor (or of each slice along an axis).  The end of
 * the range that requires the larger step determines the scale; a given range also clamps. */
#ifndef T /* ---- included once: the ops ---- */
#include <float.h>
#include <math.h>

#include "graph/grad.h"
#include "ops/nn/wide.h"
#include "ops/quant/slices.h"

typedef struct state {
    bool is_signed, given, narrow, half_up;
    int64_t bits, axis;
    float min, max; /* only in the first version */
} state;

typedef struct job {
    const state *s;
    const mr_slices *sl;
    int64_t bits;
    const void *x, *min, *max;
    void *out;
} job;

static mr_status *check_bits(const state *s, int64_t bits)
{
    if (bits > 0 && bits < (s->is_signed ? 62 : 63))
        return NULL;
    return mr_invalid("num_bits is out of range: %lld with signed_input_ %s", (long long)bits,
                      s->is_signed ? "1" : "0");
}

#define MR_TYPED_FILE "ops/quant/round_trip.c"
#include "ops/nn/each_wide.h"

/* ---- attrs ---- */

static mr_status *init_round_trip(mr_make *m, void *state_)
{
    const mr_node *n = m->node;
    state *s = state_;
    mr_sv rounding = {0};
    s->axis = -1;
    MR_TRY(mr_node_get_bool(n, "signed_input", &s->is_signed));
    MR_TRY(mr_node_get_bool(n, "range_given", &s->given));
    if (mr_op_def_attr(n->def, "num_bits")) { /* V3 has an input instead */
        MR_TRY(mr_node_get_int(n, "num_bits", &s->bits));
        MR_TRY(check_bits(s, s->bits));
    }
    if (mr_op_def_attr(n->def, "axis")) {
        MR_TRY(mr_node_get_int(n, "axis", &s->axis));
        MR_TRY(mr_node_get_bool(n, "narrow_range", &s->narrow));
    }
    if (mr_op_def_attr(n->def, "round_mode"))
        MR_TRY(mr_node_get_str(n, "round_mode", &rounding));
    s->half_up = mr_sv_is(rounding, "HALF_UP");
    return NULL;
}

static mr_status *init_v1(mr_make *m, void *state_)
{
    state *s = state_;
    MR_TRY(init_round_trip(m, state_));
    MR_TRY(mr_node_get_float(m->node, "input_min", &s->min));
    MR_TRY(mr_node_get_float(m->node, "input_max", &s->max));
    if (s->given && !(s->min <= s->max))
        return mr_invalid("Invalid range: input_min %g > input_max %g", s->min, s->max);
    return NULL;
}

/* ---- kernels ---- */

/* If `ranges`, min and max are inputs 1 and 2; otherwise they are in the state. */
static mr_status *run_round_trip(mr_run *r, int64_t bits, bool ranges)
{
    const state *s = r->state;
    const mr_tensor *x = mr_in(r, 0);
    mr_status *st = NULL;
    mr_slices sl;
    mr_wide in[3] = {{0}}, y = {0};
    MR_GO(mr_slices_init(&sl, x, s->axis));
    for (int i = 1; i < 3 && ranges && s->given; i++)
        MR_GO(mr_slices_check(&sl, r, i, i == 1 ? "input_min" : "input_max", s->axis));
    for (int i = 0; i < (ranges ? 3 : 1); i++)
        MR_GO(mr_wide_in(r, i, &in[i]));
    MR_GO(mr_wide_out(r, -1, 0, x->rank, x->dims, &y));
    if (x->n > 0) {
        job j = {s, &sl, bits, in[0].t->data, NULL, NULL, y.t->data};
        if (ranges && s->given) {
            j.min = in[1].t->data;
            j.max = in[2].t->data;
        }
        MR_GO(y.t->dtype == MR_DOUBLE ? slices_double(r, &j) : slices_float(r, &j));
    }
    mr_wide_store(r, 0, &y);
out:
    for (int i = 0; i < 3; i++)
        mr_wide_deinit(&in[i]);
    mr_wide_deinit(&y);
    return st;
}

static mr_status *version_1(mr_run *r) { return run_round_trip(r, ((const state *)r->state)->bits, false); }
static mr_status *version_2(mr_run *r) { return run_round_trip(r, ((const state *)r->state)->bits, true); }

static mr_status *version_3(mr_run *r)
{
    if (mr_in(r, 3)->n != 1)
        return mr_invalid("num_bits must have one element, got shape %s",
                          MR_TENSOR_SHAPE(mr_in(r, 3)));
    int64_t bits = mr_tensor_int_at(mr_in(r, 3), 0);
    MR_TRY(check_bits(r->state, bits));
    return run_round_trip(r, bits, true);
}

static mr_status *round_trip_backward(mr_run *r)
{
    const mr_tensor *g = mr_in(r, 0), *x = mr_in(r, 1);
    const int64_t *axis = r->state;
    mr_status *st = NULL;
    mr_slices sl;
    mr_wide in[4] = {{0}}, y = {0};
    mr_tensor *ends[2];
    if (!mr_tensor_same_shape(g, x))
        return mr_invalid("gradient and input must be the same size, got %s and %s",
                          MR_TENSOR_SHAPE(g), MR_TENSOR_SHAPE(x));
    MR_GO(mr_slices_init(&sl, x, *axis));
    MR_GO(mr_slices_check(&sl, r, 2, "input_min", *axis));
    MR_GO(mr_slices_check(&sl, r, 3, "input_max", *axis));
    for (int i = 0; i < 4; i++)
        MR_GO(mr_wide_in(r, i, &in[i]));
    MR_GO(mr_wide_out(r, -1, 0, x->rank, x->dims, &y));
    for (int i = 0; i < 2; i++) { /* the gradients of min and max are 0 */
        MR_GO(mr_run_output(r, 1 + i, mr_in(r, 2 + i)->rank, mr_in(r, 2 + i)->dims, &ends[i]));
        mr_tensor_zero(ends[i]);
    }
    job j = {NULL, &sl, 0, in[1].t->data, in[2].t->data, in[3].t->data, y.t->data};
    if (x->n > 0 && y.t->dtype == MR_DOUBLE)
        grads_double(&j, in[0].t->data);
    else if (x->n > 0)
        grads_float(&j, in[0].t->data);
    mr_wide_store(r, 0, &y);
out:
    for (int i = 0; i < 4; i++)
        mr_wide_deinit(&in[i]);
    mr_wide_deinit(&y);
    return st;
}

static mr_status *init_axis(mr_make *m, void *axis)
{
    return mr_node_get_int(m->node, "axis", axis);
}

/* ---- shapes and gradients ---- */

static mr_status *infer_round_trip(mr_infer *c)
{
    MR_TRY(mr_slices_infer(c, 1));
    c->out[0] = c->in[0];
    return NULL;
}

static mr_status *grad_shape(mr_infer *c)
{
    MR_TRY(mr_slices_infer(c, 2));
    MR_TRY(mr_infer_merge(c, c->in[0], c->in[1], &c->out[0]));
    c->out[1] = c->in[2];
    c->out[2] = c->in[3];
    return NULL;
}

/* The straight-through estimator: the gradient passes unchanged. */
static void straight_through_grad(mr_grad *g) { mr_dxi(g, 0, mr_dyi(g, 0)); }

static void range_grad(mr_grad *g)
{
    mr_out d = mr_emit_like(g, "QuantizeAndDequantizeV4Grad", "axis",
                            MR_OUTS(mr_dyi(g, 0), mr_xi(g, 0), mr_xi(g, 1), mr_xi(g, 2)));
    for (int i = 0; i < 3; i++)
        mr_dxi(g, i, mr_nth(d, i));
}

#define FLOATS "{bfloat16, half, float, double}"
#define RANGES "input: T, input_min: T, input_max: T"
#define STATE(fn) .state_bytes = sizeof(state), .init = fn
#define V2_ATTRS                                                                               \
    "signed_input: bool = true; num_bits: int = 8; range_given: bool = false; T: " FLOATS "; " \
    "round_mode: {'HALF_TO_EVEN', 'HALF_UP'} = 'HALF_TO_EVEN'; narrow_range: bool = false; "   \
    "axis: int = -1"
#define V2_EXAMPLES                                                                            \
    "nograd range_given=true: [-3, -1, 0, 0.5, 1.5], -1, 1 -> "                                \
    "[-1.0078740, -1, 0, 0.503937, 1]",                                                        \
    "nograd range_given=true num_bits=4: [-8, -0.5, 1.5, 2.5, 9], -8, 7 -> [-8, 0, 2, 2, 7]",  \
    "nograd range_given=true num_bits=4 round_mode=\"HALF_UP\": [-8, -0.5, 1.5, 2.5, 9], -8, 7 " \
    "-> [-8, 0, 2, 3, 7]",                                                                     \
    "nograd range_given=true num_bits=4 narrow_range=true: [-8, 1], -7, 7 -> [-7, 1]",         \
    "nograd signed_input=false range_given=true num_bits=2: [-1, 1.2, 2, 5], 0, 3 -> "         \
    "[0, 1, 2, 3]",                                                                            \
    "nograd num_bits=4: [-7, 3.5, 0.25], 0, 0 -> [-7, 3.5, 0]",                                \
    "nograd axis=1 num_bits=3 range_given=true: [[1, 2], [3, 4]], [-4, -8], [3, 6] -> "        \
    "[[1, 2], [3, 4]]",                                                                        \
    "nograd axis=0 num_bits=3: [[1, 3], [2, 6]], [0, 0], [0, 0] -> [[1, 3], [2, 6]]",          \
    "shape(0), 0, 1 -> shape(0)", "num_bits=0: [1], 0, 1 -> !INVALID_ARGUMENT out of range",   \
    "num_bits=63: [1], 0, 1 -> !INVALID_ARGUMENT out of range",                                \
    "axis=1: [1], [0], [1] -> !INVALID_ARGUMENT Axis must be less than",                       \
    "axis=-2: [1], [0], [1] -> !INVALID_ARGUMENT",                                             \
    "range_given=true axis=0: [1, 2], [0], [1] -> !INVALID_ARGUMENT as many elements",         \
    "range_given=true: [1], 2, 1 -> !INVALID_ARGUMENT Invalid range: input_min 2 > input_max 1"

MR_OP(QuantizeAndDequantize,
    .doc         = "rounds as if quantized and dequantized",
    .sig         = "input: T -> output: T",
    .attrs       = "signed_input: bool = true; num_bits: int = 8; range_given: bool = false; "
                   "input_min: float = 0; input_max: float = 0; T: " FLOATS,
    .deprecated  = 22,
    .deprecation = "Replaced by QuantizeAndDequantizeV2",
    .shape       = mr_shape_same,
    .grad        = straight_through_grad,
    .kernels     = MR_KERNELS(MR_CPU_ANY(version_1)),
    STATE(init_v1),
    .examples    = MR_EXAMPLES(
        "nograd range_given=true input_min=-8 input_max=7 num_bits=4: [-9, 1.5, 2.5] -> [-8, 2, 2]",
        "nograd num_bits=4: [-7, 3.5, 0.25] -> [-7, 3.5, 0]", "shape(0) -> shape(0)",
        "range_given=true input_min=1 input_max=0: [1] -> !INVALID_ARGUMENT Invalid range",
        "num_bits=0: [1] -> !INVALID_ARGUMENT num_bits is out of range: 0 with signed_input_ 1"));

MR_OP(QuantizeAndDequantizeV2,
    .doc      = "rounds as if quantized to a range and dequantized",
    .sig      = RANGES " -> output: T",
    .attrs    = V2_ATTRS,
    .shape    = infer_round_trip,
    .grad     = straight_through_grad,
    .kernels  = MR_KERNELS(MR_CPU_ANY(version_2)),
    STATE(init_round_trip),
    .examples = MR_EXAMPLES(V2_EXAMPLES));

MR_OP(QuantizeAndDequantizeV3,
    .doc      = "QuantizeAndDequantizeV2 with the number of bits as an input",
    .sig      = RANGES ", num_bits: int32 -> output: T",
    .attrs    = "signed_input: bool = true; range_given: bool = true; T: " FLOATS "; "
                "narrow_range: bool = false; axis: int = -1",
    .shape    = infer_round_trip,
    .grad     = straight_through_grad,
    .kernels  = MR_KERNELS(MR_CPU_ANY(version_3)),
    STATE(init_round_trip),
    .examples = MR_EXAMPLES(
        "nograd: [-9, -0.5, 1.5, 2.5, 9], -8, 7, 4 -> [-8, 0, 2, 2, 7]",
        "nograd range_given=false: [-7, 3.5, 0.25], 0, 0, 4 -> [-7, 3.5, 0]",
        "shape(0), 0, 1, 8 -> shape(0)",
        "[1], 0, 1, 0 -> !INVALID_ARGUMENT num_bits is out of range: 0",
        "[1], 0, 1, [8, 8] -> !INVALID_ARGUMENT num_bits must have one element"));

MR_OP(QuantizeAndDequantizeV4,
    .doc      = "QuantizeAndDequantizeV2 whose gradient is 0 outside of the range",
    .sig      = RANGES " -> output: T",
    .attrs    = V2_ATTRS,
    .shape    = infer_round_trip,
    .grad     = range_grad,
    .kernels  = MR_KERNELS(MR_CPU_ANY(version_2)),
    STATE(init_round_trip),
    .examples = MR_EXAMPLES(V2_EXAMPLES));

MR_OP(QuantizeAndDequantizeV4Grad,
    .doc      = "gradient of QuantizeAndDequantizeV4: passes where the input is in the range",
    .sig      = "gradients: T, input: T, input_min: T, input_max: T -> input_backprop: T, "
                "input_min_backprop: T, input_max_backprop: T",
    .attrs    = "T: " FLOATS "; axis: int = -1",
    .shape    = grad_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(round_trip_backward)),
    .state_bytes = sizeof(int64_t), .init = init_axis,
    .examples = MR_EXAMPLES(
        "[1, 2, 3, 4], [-2, -1, 1, 2], -1, 1 -> [0, 2, 3, 0], 0, 0",
        "axis=0: [[1, 2], [3, 4]], [[0, 5], [0, 5]], [0, 1], [4, 5] -> [[1, 0], [0, 4]], [0, 0], "
        "[0, 0]",
        "shape(0), shape(0), 0, 1 -> shape(0), 0, 0", "[1], [nan], 0, 1 -> [0], 0, 0",
        "[1, 2], [1], 0, 1 -> !INVALID_ARGUMENT",
        "axis=0: [1, 2], [1, 2], [1], [2] -> !INVALID_ARGUMENT"));

#else /* ---- included for float and double ---- */

/* The minimum and maximum of slice k. */
static void FN(extremes)(const job *j, int64_t k, T *min, T *max)
{
    const mr_slices *sl = j->sl;
    const T *x = j->x;
    *min = *max = x[k * sl->inner];
    for (int64_t o = 0; o < sl->outer; o++) {
        const T *row = x + (o * sl->n + k) * sl->inner;
        for (int64_t i = 0; i < sl->inner; i++) {
            *min = row[i] < *min ? row[i] : *min;
            *max = row[i] > *max ? row[i] : *max;
        }
    }
}

/* Sets the scale by the end of the range that requires the larger step, and extends the other end to match. */
static void FN(fit)(const state *s, int64_t bits, T *min, T *max, T *scale, T *inverse)
{
    T most = sizeof(T) == 4 ? (T)FLT_MAX : (T)DBL_MAX;
    int64_t half = INT64_C(1) << (bits - 1);
    T low = s->is_signed ? (T)(-half + s->narrow) : 0;
    T high = s->is_signed ? (T)(half - 1) : (T)(2 * (half - 1) + 1);
    T by_min = low * *min > 0 ? low / *min : most, by_max = high * *max > 0 ? high / *max : most;
    if (by_min < by_max) {
        *scale = by_min;
        *inverse = *min / low;
        *max = high * *inverse;
    } else {
        *scale = by_max;
        *inverse = *max / high;
        *min = low * *inverse;
    }
}

static void FN(round_slice)(const job *j, int64_t k, T min, T max, T scale, T inverse)
{
    const mr_slices *sl = j->sl;
    for (int64_t o = 0; o < sl->outer; o++) {
        int64_t at = (o * sl->n + k) * sl->inner;
        for (int64_t i = at; i < at + sl->inner; i++) {
            T v = ((const T *)j->x)[i];
            if (j->s->given) {
                v = v < max ? v : max;
                v = v > min ? v : min;
            }
            v *= scale;
            v = j->s->half_up ? floor(v + (T)0.5) : rint(v);
            ((T *)j->out)[i] = v * inverse;
        }
    }
}

static mr_status *FN(slices)(mr_run *r, const job *j)
{
    (void)r;
    for (int64_t k = 0; k < j->sl->n; k++) {
        T min = (T)j->s->min, max = (T)j->s->max, scale, inverse;
        if (!j->s->given)
            FN(extremes)(j, k, &min, &max);
        else if (j->min) {
            min = ((const T *)j->min)[k];
            max = ((const T *)j->max)[k];
        }
        if (j->s->given && !(min <= max))
            return mr_invalid("Invalid range: input_min %g > input_max %g", (double)min,
                              (double)max);
        FN(fit)(j->s, j->bits, &min, &max, &scale, &inverse);
        FN(round_slice)(j, k, min, max, scale, inverse);
    }
    return NULL;
}

static void FN(grads)(const job *j, const T *g)
{
    const mr_slices *sl = j->sl;
    const T *x = j->x;
    for (int64_t row = 0; row < sl->outer * sl->n; row++) {
        T min = ((const T *)j->min)[row % sl->n], max = ((const T *)j->max)[row % sl->n];
        for (int64_t i = row * sl->inner; i < (row + 1) * sl->inner; i++)
            ((T *)j->out)[i] = x[i] >= min && x[i] <= max ? g[i] : 0;
    }
}
#endif
