/* ops/image/rgb_to_hsv.c -- RGBToHSV and HSVToRGB. */
#include "graph/grad.h"
#include "ops/image/hsv.h"
#include "ops/image/pixels.h"

typedef struct job {
    const void *x;
    void *y;
} job;

#define PART(T, name, convert)                                            \
    static void name(void *ctx, int64_t begin, int64_t end)               \
    {                                                                     \
        const job *j = ctx;                                               \
        const T *x = j->x;                                                \
        T *y = j->y;                                                      \
        for (int64_t i = begin; i < end; i++) {                           \
            T in[3] = {x[3 * i], x[3 * i + 1], x[3 * i + 2]};             \
            convert(in, y + 3 * i); /* y may be x */                      \
        }                                                                 \
    }
PART(float, to_hsv_float, mr_rgb_to_hsv_float)
PART(double, to_hsv_double, mr_rgb_to_hsv_double)
PART(float, to_rgb_float, mr_hsv_to_rgb_float)
PART(double, to_rgb_double, mr_hsv_to_rgb_double)

static mr_status *convert_colors(mr_run *r, void (*of_float)(void *, int64_t, int64_t),
                                 void (*of_double)(void *, int64_t, int64_t))
{
    mr_status *st = NULL;
    mr_wide x = {0}, y = {0};
    const mr_tensor *t = mr_in(r, 0);
    if (t->rank < 1)
        return mr_invalid("input must be at least 1D%s", MR_TENSOR_SHAPE(t));
    if (t->dims[t->rank - 1] != 3)
        return mr_invalid("input must have 3 channels but input only has %lld channels.",
                          (long long)t->dims[t->rank - 1]);
    MR_GO(mr_wide_in(r, 0, &x));
    MR_GO(mr_wide_out(r, 0, 0, t->rank, t->dims, &y));
    job j = {x.t->data, y.t->data};
    mr_run_for(r, y.t->n / 3, 6, y.t->dtype == MR_DOUBLE ? of_double : of_float, &j);
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&y);
    return st;
}

static mr_status *rgb_to_hsv(mr_run *r) { return convert_colors(r, to_hsv_float, to_hsv_double); }
static mr_status *hsv_to_rgb(mr_run *r) { return convert_colors(r, to_rgb_float, to_rgb_double); }

/* ---- gradient ---- */

/* Gives every pixel a row of a 3 x 3 table, by its index. */
static mr_out pick_rows(mr_grad *g, const float table[9], mr_out index)
{
    mr_out x = mr_xi(g, 0);
    mr_out rows = mr_const(g->s, mr_tensor_of(MR_FLOAT, 2, (const int64_t[]){3, 3}, table));
    rows = mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(mr_dtype_base(mr_out_type(x)))}), rows);
    return mr_emit(g->s, "GatherV2", rows, index, mr_const_i32(g->s, 0));
}

/* With max and min the largest and smallest component, k the first that is largest and m the last that is smallest:
 *
 *     value = max                      d value = e_k
 *     saturation = 1 - min / max       d saturation = e_k min / max^2 - e_m / max
 *     hue = (turn_k . x) / 6 range     d hue = (turn_k - (turn_k . x) / range (e_k - e_m)) / 6 range
 *
 * where turn_k is the difference of the two other components. A division by zero gives 0. */
static void rgb_to_hsv_backward(mr_grad *g)
{
    static const float unit[] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, mirrored[] = {0, 0, 1, 0, 1, 0, 1, 0, 0},
                       turns[] = {0, 1, -1, -1, 0, 1, 1, -1, 0};
    mr_scope *s = g->s;
    mr_out x = mr_xi(g, 0), last = mr_const_i32(s, -1), axes = mr_const_vec_i32(s, 1, (const int32_t[]){-1});
    mr_out e_max = pick_rows(g, unit, mr_emit(s, "ArgMax", x, last));
    mr_out turn = pick_rows(g, turns, mr_emit(s, "ArgMax", x, last));
    mr_out e_min = pick_rows(g, mirrored, mr_emit(s, "ArgMin", mr_emit(s, "ReverseV2", x, axes), last));
#define KEPT(op, v) mr_emit_with(s, op, MR_ATTRS({"keep_dims", mr_a_bool(true)}), v, axes)
    mr_out max = KEPT("Max", x), min = KEPT("Min", x), range = mr_emit(s, "Sub", max, min);
    mr_out slope = mr_emit(s, "DivNoNan", KEPT("Sum", mr_emit(s, "Mul", turn, x)), range);
#undef KEPT
    mr_out d_s = mr_emit(s, "DivNoNan", mr_emit(s, "Mul", e_max, mr_emit(s, "DivNoNan", min, max)), max);
    d_s = mr_emit(s, "Sub", d_s, mr_emit(s, "DivNoNan", e_min, max));
    mr_out d_h = mr_emit(s, "Sub", turn, mr_emit(s, "Mul", slope, mr_emit(s, "Sub", e_max, e_min)));
    d_h = mr_emit(s, "DivNoNan", d_h, mr_emit(s, "Mul", range, mr_scalar_like(g, 6, x)));
    mr_out dy = mr_emit_with(s, "Split", MR_ATTRS({"num_split", mr_a_int(3)}), last, mr_dyi(g, 0));
    mr_out dx = mr_emit(s, "Mul", dy, d_h);
    dx = mr_emit(s, "Add", dx, mr_emit(s, "Mul", mr_nth(dy, 1), d_s));
    mr_dxi(g, 0, mr_emit(s, "Add", dx, mr_emit(s, "Mul", mr_nth(dy, 2), e_max)));
}

MR_OP(RGBToHSV,
    .doc      = "colors as hue, saturation and value, all in [0, 1]",
    .sig      = "images: T -> output: T",
    .attrs    = "T: {half, bfloat16, float, double} = DT_FLOAT",
    .shape    = mr_shape_colors,
    .grad     = rgb_to_hsv_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(rgb_to_hsv, MR_FLOATS)),
    .examples = MR_EXAMPLES(
        "[0.25, 0.5, 0.75] -> [0.58333, 0.66667, 0.75]",
        "[[0.75, 0.5, 0.25], [0.5, 0.75, 0.125], [0.25, 0.125, 1]] -> "
        "[[0.08333, 0.66667, 0.75], [0.23333, 0.83333, 0.75], [0.69048, 0.875, 1]]",
        "[1, 0.25, 0.5] -> [0.94444, 0.75, 1]",
        "nograd: [[0, 0, 0], [0.5, 0.5, 0.5], [1, 0, 1]] -> [[0, 0, 0], [0, 0, 0.5], [0.83333, 1, 1]]",
        "shape(2,0,3) -> shape(2,0,3)",
        "[1, 2] -> !INVALID_ARGUMENT",
        "1 -> !INVALID_ARGUMENT rank"));

MR_OP(HSVToRGB,
    .doc      = "colors of hue, saturation and value as red, green and blue",
    .sig      = "images: T -> output: T",
    .attrs    = "T: {half, bfloat16, float, double} = DT_FLOAT",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_colors,
    .kernels  = MR_KERNELS(MR_CPU_ONE(hsv_to_rgb, MR_FLOATS)),
    .examples = MR_EXAMPLES(
        "[0.75, 0.5, 0.5] -> [0.375, 0.25, 0.5]",
        "[[0, 1, 1], [0.25, 1, 1], [0.5, 0, 0.25]] -> [[1, 0, 0], [0.5, 1, 0], [0.25, 0.25, 0.25]]",
        "[[0, 1, 2], [1, 1, 1]] -> [[2, 0, 0], [1, 0, 0]]",
        "shape(0,3) -> shape(0,3)",
        "[[1, 2]] -> !INVALID_ARGUMENT"));
