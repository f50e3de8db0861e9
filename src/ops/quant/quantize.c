/* ops/quant/quantize.c -- QuantizeV2 and Dequantize: convert floats to codes of 8, 16 or 32 bits and
 * back.
 *
 * There are three modes: MIN_COMBINED spreads all codes over the range; MIN_FIRST does the same after
 * rounding the lower end to a multiple of the step, so that 0 stays 0; SCALED has only a scale, and 0
 * has the code 0.  The arithmetic is TensorFlow's, in float. */
#include <float.h>
#include <math.h>

#include "base/memory.h"
#include "ops/quant/slices.h"
#include "run/scratch.h"

typedef enum mode { MIN_COMBINED, MIN_FIRST, SCALED } mode;

typedef struct state {
    mode mode;
    bool half_to_even, narrow;
    int64_t axis;
    float minimum_range;
} state;

/* The range of the codes of a type. */
typedef struct codes {
    double lowest, highest;
} codes;

static codes codes_of(mr_dtype t)
{
    switch (t) {
    case MR_QINT8: return (codes){INT8_MIN, INT8_MAX};
    case MR_QUINT8: return (codes){0, UINT8_MAX};
    case MR_QINT16: return (codes){INT16_MIN, INT16_MAX};
    case MR_QUINT16: return (codes){0, UINT16_MAX};
    default: return (codes){INT32_MIN, INT32_MAX};
    }
}

static mr_status *init_state(mr_make *m, void *state_)
{
    state *s = state_;
    mr_sv name;
    MR_TRY(mr_node_get_str(m->node, "mode", &name));
    s->mode = mr_sv_is(name, "SCALED")      ? SCALED
              : mr_sv_is(name, "MIN_FIRST") ? MIN_FIRST
                                            : MIN_COMBINED;
    MR_TRY(mr_node_get_int(m->node, "axis", &s->axis));
    return mr_node_get_bool(m->node, "narrow_range", &s->narrow);
}

static mr_status *init_quantize(mr_make *m, void *state_)
{
    state *s = state_;
    mr_sv rounding, name;
    MR_TRY(init_state(m, state_));
    MR_TRY(mr_node_get_str(m->node, "mode", &name));
    MR_TRY(mr_node_get_str(m->node, "round_mode", &rounding));
    MR_TRY(mr_node_get_float(m->node, "ensure_minimum_range", &s->minimum_range));
    s->half_to_even = mr_sv_is(rounding, "HALF_TO_EVEN");
    if (s->half_to_even && s->mode != SCALED)
        return mr_invalid("Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is "
                          "'%.*s'.", (int)name.n, name.p);
    return NULL;
}

/* ---- floats to codes ---- */

typedef struct range {
    float min, max;
} range;

static float clamp_value(float v, float min, float max)
{
    v = v < max ? v : max; /* a NaN becomes max */
    return v > min ? v : min;
}

/* v as a code, clamped: rounding may have moved it out of range. */
static int32_t to_code(double v, codes c)
{
    return (int32_t)(v > c.lowest ? v < c.highest ? v : c.highest : c.lowest);
}

static void store_code(mr_dtype t, void *out, int64_t i, int32_t code)
{
    switch (t) {
    case MR_QINT8: ((int8_t *)out)[i] = (int8_t)code; break;
    case MR_QUINT8: ((uint8_t *)out)[i] = (uint8_t)code; break;
    case MR_QINT16: ((int16_t *)out)[i] = (int16_t)code; break;
    case MR_QUINT16: ((uint16_t *)out)[i] = (uint16_t)code; break;
    default: ((int32_t *)out)[i] = code;
    }
}

/* How one slice is quantized: code = round((clamp(x) - shift) scale + offset). */
typedef struct map {
    float min, max, shift, scale, offset;
    bool up; /* round by adding 1/2 and taking the floor, as TensorFlow does for unsigned codes */
} map;

static map map_combined(range r, codes c)
{
    float scale = (float)((c.highest - c.lowest) / (double)(r.max - r.min));
    return (map){r.min, r.max, r.min, scale, (float)c.lowest, c.lowest == 0};
}

static map map_scaled(const state *s, range *r, codes c)
{
    float low = (float)(c.lowest + s->narrow), high = (float)c.highest;
    float by_min = low * r->min > 0 ? low / r->min : FLT_MAX;
    float by_max = high * r->max > 0 ? high / r->max : FLT_MAX;
    float scale = by_min < by_max ? by_min : by_max;
    *r = (range){low / scale, high / scale};
    return (map){r->min, r->max, 0, scale, 0, false};
}

static int32_t quantize_one(const state *s, const map *m, codes c, float x)
{
    float v = (clamp_value(x, m->min, m->max) - m->shift) * m->scale + m->offset;
    return to_code(m->up ? floorf(v + 0.5f) : s->half_to_even ? rintf(v) : roundf(v), c);
}

/* MIN_FIRST rounds x and the lower end separately. */
static int32_t quantize_first(range r, codes c, float x)
{
    float steps = (float)(c.highest - c.lowest);
    float scale = r.max == r.min ? 0 : (float)((double)steps / (double)(r.max - r.min));
    float v = roundf(x * scale) - (roundf(r.min * scale) - (float)c.lowest);
    return to_code(v, c);
}

typedef struct job {
    const state *s;
    const mr_slices *sl;
    const float *x;
    mr_tensor *out;
    const map *maps;
    const range *ranges;
    codes codes;
} job;

static void quantize_rows(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    for (int64_t row = begin; row < end; row++) {
        int64_t slice = row % j->sl->n;
        for (int64_t i = row * j->sl->inner; i < (row + 1) * j->sl->inner; i++) {
            int32_t code = j->s->mode == MIN_FIRST
                               ? quantize_first(j->ranges[slice], j->codes, j->x[i])
                               : quantize_one(j->s, &j->maps[slice], j->codes, j->x[i]);
            store_code((mr_dtype)j->out->dtype, j->out->data, i, code);
        }
    }
}

/* Widens the range so that it contains 0 and is not too small. */
static mr_status *widen_range(const state *s, range *r)
{
    if (r->max < r->min)
        return mr_invalid("input_max_range must be larger than input_min_range.");
    float largest = MR_MAX(1.0f, MR_MAX(fabsf(r->min), fabsf(r->max)));
    r->min = r->min < 0 ? r->min : 0;
    r->max = MR_MAX(r->max, r->min + largest * s->minimum_range);
    r->max = r->max > 0 ? r->max : 0;
    return NULL;
}

static mr_status *set_ranges(mr_run *r, const mr_slices *sl, codes c, map *maps, range *ranges)
{
    const state *s = r->state;
    mr_tensor *out[2];
    int rank = s->axis == -1 ? 0 : 1;
    MR_TRY(mr_run_output(r, 1, rank, &sl->n, &out[0]));
    MR_TRY(mr_run_output(r, 2, rank, &sl->n, &out[1]));
    for (int64_t i = 0; i < sl->n; i++) {
        ranges[i] = (range){MR_DATA(float, mr_in(r, 1))[i], MR_DATA(float, mr_in(r, 2))[i]};
        MR_TRY(widen_range(s, &ranges[i]));
        maps[i] = s->mode == SCALED ? map_scaled(s, &ranges[i], c) : map_combined(ranges[i], c);
        MR_DATA(float, out[0])[i] = ranges[i].min;
        MR_DATA(float, out[1])[i] = ranges[i].max;
    }
    return NULL;
}

static mr_status *run_quantize(mr_run *r)
{
    const state *s = r->state;
    const mr_tensor *x = mr_in(r, 0);
    mr_status *st = NULL;
    mr_slices sl;
    job j = {s, &sl, x->data, .codes = codes_of(mr_out_dtype(r, 0))};
    MR_TRY(mr_slices_init(&sl, x, s->axis));
    MR_TRY(mr_slices_check(&sl, r, 1, "min_range", s->axis));
    MR_TRY(mr_slices_check(&sl, r, 2, "max_range", s->axis));
    if (sl.n != 1 && s->mode == MIN_FIRST)
        return mr_error(MR_UNIMPLEMENTED,
                        "MIN_FIRST mode is not implemented for Quantize with axis != -1.");
    map *maps = mr_scratch(r, sizeof(map) * (size_t)(sl.n + 1));
    range *ranges = mr_scratch(r, sizeof(range) * (size_t)(sl.n + 1));
    if (!maps || !ranges)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld ranges", (long long)sl.n));
    MR_GO(mr_run_output(r, 0, x->rank, x->dims, &j.out));
    MR_GO(set_ranges(r, &sl, j.codes, maps, ranges));
    j.maps = maps;
    j.ranges = ranges;
    if (x->n > 0)
        mr_run_for(r, sl.outer * sl.n, 2.0 * (double)sl.inner, quantize_rows, &j);
out:
    mr_scratch_free(maps);
    mr_scratch_free(ranges);
    return st;
}

/* ---- codes to floats ---- */

/* value = (code + shift) scale + offset */
typedef struct back {
    float shift, scale, offset;
} back;

static back back_of(const state *s, codes c, float min, float max)
{
    float steps = (float)(c.highest - c.lowest), high = (float)c.highest;
    if (s->mode == SCALED) {
        float low = (float)(c.lowest + s->narrow), by_max = max / high;
        float by_min = c.lowest == 0 ? by_max : min / low;
        return (back){0, by_min < by_max ? by_max : by_min, 0};
    }
    float scale = (max - min) / steps;
    if (s->mode == MIN_FIRST && max != min)
        min = roundf(min / scale) * scale;
    return (back){-(float)c.lowest, scale, min};
}

static float code_at(const mr_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case MR_QINT8: return MR_DATA(int8_t, t)[i];
    case MR_QUINT8: return MR_DATA(uint8_t, t)[i];
    case MR_QINT16: return MR_DATA(int16_t, t)[i];
    case MR_QUINT16: return MR_DATA(uint16_t, t)[i];
    default: return (float)MR_DATA(int32_t, t)[i];
    }
}

typedef struct back_job {
    const state *s;
    const mr_slices *sl;
    const mr_tensor *x;
    const float *min, *max;
    mr_tensor *out;
} back_job;

static void dequantize_rows(void *ctx, int64_t begin, int64_t end)
{
    const back_job *j = ctx;
    codes c = codes_of((mr_dtype)j->x->dtype);
    for (int64_t row = begin; row < end; row++) {
        int64_t slice = row % j->sl->n;
        back b = back_of(j->s, c, j->min[slice], j->max[slice]);
        for (int64_t i = row * j->sl->inner; i < (row + 1) * j->sl->inner; i++) {
            float v = (code_at(j->x, i) + b.shift) * b.scale + b.offset;
            if (j->out->dtype == MR_FLOAT)
                MR_DATA(float, j->out)[i] = v;
            else
                MR_DATA(mr_bf16, j->out)[i] = mr_float_to_bf16(v);
        }
    }
}

static mr_status *run_dequantize(mr_run *r)
{
    const state *s = r->state;
    mr_slices sl;
    back_job j = {s, &sl, mr_in(r, 0), mr_in(r, 1)->data, mr_in(r, 2)->data, NULL};
    if (mr_out_dtype(r, 0) == MR_BFLOAT16 && s->mode != MIN_COMBINED)
        return mr_invalid("When output type is bfloat16, Mode string must be 'MIN_COMBINED'");
    MR_TRY(mr_slices_init(&sl, j.x, s->axis));
    MR_TRY(mr_slices_check(&sl, r, 1, "input_min_tensor", s->axis));
    MR_TRY(mr_slices_check(&sl, r, 2, "input_max_tensor", s->axis));
    if (sl.n != 1 && s->mode == MIN_FIRST)
        return mr_error(MR_UNIMPLEMENTED,
                        "MIN_FIRST mode is not implemented for Dequantize with axis != -1.");
    MR_TRY(mr_run_output(r, 0, j.x->rank, j.x->dims, &j.out));
    if (j.x->n > 0)
        mr_run_for(r, sl.outer * sl.n, 1.0 * (double)sl.inner, dequantize_rows, &j);
    return NULL;
}

/* ---- ops ---- */

static mr_status *infer_quantize(mr_infer *c)
{
    MR_TRY(mr_slices_infer(c, 1));
    c->out[0] = c->in[0];
    if (c->n_out == 1)
        return NULL;
    c->out[1] = c->in[1];
    c->out[2] = c->in[2];
    return NULL;
}

#define CODES "{qint8, quint8, qint32, qint16, quint16}"
#define MODES "{'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = 'MIN_COMBINED'"

MR_OP(QuantizeV2,
    .doc         = "quantizes floats to codes, and returns the range that they represent",
    .sig         = "input: float, min_range: float, max_range: float -> output: T, "
                   "output_min: float, output_max: float",
    .attrs       = "T: " CODES "; mode: " MODES "; "
                   "round_mode: {'HALF_AWAY_FROM_ZERO', 'HALF_TO_EVEN'} = 'HALF_AWAY_FROM_ZERO'; "
                   "narrow_range: bool = false; axis: int = -1; "
                   "ensure_minimum_range: float = 0.01",
    .shape       = infer_quantize,
    .kernels     = MR_KERNELS(MR_CPU_ANY(run_quantize)),
    .state_bytes = sizeof(state),
    .init        = init_quantize,
    .examples    = MR_EXAMPLES(
        "T=quint8: [0, 1, 127.5, 300, -3, nan], 0, 255 -> [0, 1, 128, 255, 0, 255], 0, 255",
        "T=qint8: [0, 1, 127.5, 300, -3], 0, 255 -> [-128, -127, -1, 127, -128], 0, 255",
        "T=qint8 mode=\"SCALED\": [-1, -0.5, 0, 0.3, 1], -1, 1 -> [-127, -64, 0, 38, 127], "
        "-1.007874, 1",
        "T=qint8 mode=\"SCALED\" narrow_range=true: [-1, -0.5, 0, 0.3, 2], -1, 1 -> "
        "[-127, -64, 0, 38, 127], -1, 1",
        "T=qint8 mode=\"SCALED\" round_mode=\"HALF_TO_EVEN\": [-0.5, 0.5, 1.5, 2.5], -128, 127 -> "
        "[0, 0, 2, 2], -128, 127",
        "T=quint8 mode=\"MIN_FIRST\": [0, 1, 127.4, 300, -3], 0, 255 -> [0, 1, 127, 255, 0], 0, "
        "255",
        "T=qint32: [-1, 0, 1], -1, 1 -> [-2147483648, 0, 2147483647], -1, 1",
        "T=qint16: [-1, 1], -1, 1 -> [-32768, 32767], -1, 1",
        "T=quint16: [-1, 1], -1, 1 -> [0, 65535], -1, 1",
        "T=quint8 axis=1: [[1, 2], [3, 4]], [0, 0], [3, 4] -> [[85, 128], [255, 255]], [0, 0], "
        "[3, 4]",
        "T=quint8: [0, 0.5], 0, 0 -> [0, 255], 0, 0.01",
        "T=quint8: shape(0), 0, 1 -> shape(0), 0, 1",
        "T=quint8: [1], 2, 1 -> !INVALID_ARGUMENT input_max_range must be larger than",
        "T=quint8 axis=2: [1], [2], [1] -> !INVALID_ARGUMENT Axis must be less than input "
        "dimension",
        "T=quint8 axis=-2: [1], [2], [1] -> !INVALID_ARGUMENT",
        "T=quint8 axis=0: [1, 2], [2], [1] -> !INVALID_ARGUMENT as many elements as input",
        "T=quint8 axis=0 mode=\"MIN_FIRST\": [1, 2], [0, 0], [1, 1] -> !UNIMPLEMENTED MIN_FIRST",
        "T=quint8 round_mode=\"HALF_TO_EVEN\": [1], 0, 1 -> !INVALID_ARGUMENT Round mode"));

MR_OP(Dequantize,
    .doc         = "converts codes to floats in the range that they represent",
    .sig         = "input: T, min_range: float, max_range: float -> output: dtype",
    .attrs       = "T: " CODES "; mode: " MODES "; narrow_range: bool = false; axis: int = -1; "
                   "dtype: {bfloat16, float} = DT_FLOAT",
    .shape       = infer_quantize,
    .kernels     = MR_KERNELS(MR_CPU_ANY(run_dequantize)),
    .state_bytes = sizeof(state),
    .init        = init_state,
    .examples    = MR_EXAMPLES(
        "T=quint8: [0, 51, 255], 0, 5 -> [0, 1, 5]", "T=qint8: [-128, -77, 127], 0, 5 -> [0, 1, 5]",
        "T=qint8 mode=\"SCALED\": [-127, 0, 64], -1, 1 -> [-1, 0, 0.503937]",
        "T=qint8 mode=\"SCALED\": [-128, 0, 64], -2, 1 -> [-2, 0, 1]",
        "T=qint8 mode=\"SCALED\" narrow_range=true: [-127, 0], -2, 1 -> [-2, 0]",
        "T=quint8 mode=\"SCALED\": [51, 255], 0, 5 -> [1, 5]",
        "T=quint8 mode=\"MIN_FIRST\": [0, 51, 255], 0, 5 -> [0, 1, 5]",
        "T=quint8 mode=\"MIN_FIRST\": [0, 127, 255], -0.5, 0.5 -> [-0.498039, 0, 0.501961]",
        "T=qint16: [-32768, 32767], -1, 1 -> [-1, 1]", "T=quint16: [0, 65535], -1, 1 -> [-1, 1]",
        "T=qint32: [-2147483648, 2147483647], -1, 1 -> [-1, 1]",
        "T=quint8 axis=0: [[0, 255], [0, 255]], [0, -1], [1, 3] -> [[0, 1], [-1, 3]]",
        "T=quint8 dtype=bfloat16: [0, 51, 255], 0, 5 -> [0, 1, 5]",
        "T=quint8 dtype=bfloat16 mode=\"SCALED\": [0], 0, 5 -> !INVALID_ARGUMENT bfloat16",
        "T=quint8: shape(0,2), 0, 5 -> shape(0,2)",
        "T=quint8 axis=1: [0], [0], [5] -> !INVALID_ARGUMENT Axis must be less than",
        "T=quint8 axis=0: [0, 1], [0], [5] -> !INVALID_ARGUMENT as many elements as input",
        "T=quint8: [0], [0, 1], 5 -> !INVALID_ARGUMENT",
        "T=quint8 axis=0 mode=\"MIN_FIRST\": [0, 1], [0, 0], [5, 5] -> !UNIMPLEMENTED MIN_FIRST"));
