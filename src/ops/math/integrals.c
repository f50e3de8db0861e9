/* ops/math/integrals.c -- functions defined by integrals, and inverses of such: Erfc, Erfinv, Ndtri, Dawsn, Expint,
 * FresnelCos, FresnelSin, Spence. See base/special.h. */
#include "base/special.h"
#include "ops/elementwise.h"

MR_UNARY_SLOW(erfc, MR_FLOATS, erfc((double)x)) /* erfcf is off by up to three units */
MR_UNARY_SLOW(erfinv, MR_FLOATS, mr_erfinv(x))
MR_UNARY_SLOW(ndtri, MR_FLOATS, mr_ndtri(x))
MR_UNARY_SLOW(dawsn, MR_FLOATS, mr_dawsn(x))
MR_UNARY_SLOW(expint, MR_FLOATS, mr_expint(x))
MR_UNARY_SLOW(fresnel_cos, MR_FLOATS, mr_fresnel_cos(x))
MR_UNARY_SLOW(fresnel_sin, MR_FLOATS, mr_fresnel_sin(x))
MR_UNARY_SLOW(spence, MR_FLOATS, mr_spence(x))

/* ---- gradients ---- */

static mr_out emit_unary(mr_grad *g, const char *op, mr_out x) { return mr_emit(g->s, op, x); }
static mr_out multiply_by_number(mr_grad *g, mr_out x, double v)
{
    return mr_emit(g->s, "Mul", x, mr_scalar_like(g, v, x));
}

static void times_slope(mr_grad *g, mr_out slope)
{
    mr_dxi(g, 0, mr_emit(g->s, "Mul", mr_dyi(g, 0), slope));
}

/* -2 / sqrt(pi) exp(-x^2) */
static void erfc_backward(mr_grad *g)
{
    mr_out bell = emit_unary(g, "Exp", emit_unary(g, "Neg", emit_unary(g, "Square", mr_xi(g, 0))));
    times_slope(g, multiply_by_number(g, bell, -M_2_SQRTPI));
}

/* sqrt(pi) / 2 exp(y^2) */
static void erfinv_backward(mr_grad *g)
{
    times_slope(g, multiply_by_number(g, emit_unary(g, "Exp", emit_unary(g, "Square", mr_yi(g, 0))), 1 / M_2_SQRTPI));
}

/* sqrt(2 pi) exp(y^2 / 2) */
static void ndtri_backward(mr_grad *g)
{
    mr_out power = multiply_by_number(g, emit_unary(g, "Square", mr_yi(g, 0)), 0.5);
    times_slope(g, multiply_by_number(g, emit_unary(g, "Exp", power), 2.50662827463100050242));
}

/* 1 - 2 x y */
static void dawsn_backward(mr_grad *g)
{
    mr_out both = multiply_by_number(g, mr_emit(g->s, "Mul", mr_xi(g, 0), mr_yi(g, 0)), 2);
    times_slope(g, mr_emit(g->s, "Sub", mr_scalar_like(g, 1, both), both));
}

static void expint_backward(mr_grad *g)
{
    times_slope(g, mr_emit(g->s, "RealDiv", emit_unary(g, "Exp", mr_xi(g, 0)), mr_xi(g, 0)));
}

static void fresnel_backward(mr_grad *g, const char *wave)
{
    times_slope(g, emit_unary(g, wave, multiply_by_number(g, emit_unary(g, "Square", mr_xi(g, 0)), M_PI_2)));
}

static void fresnel_cos_backward(mr_grad *g) { fresnel_backward(g, "Cos"); }
static void fresnel_sin_backward(mr_grad *g) { fresnel_backward(g, "Sin"); }

/* log(x) / (1 - x), which is -1 at 1. */
static void spence_backward(mr_grad *g)
{
    mr_out x = mr_xi(g, 0), one = mr_scalar_like(g, 1, x);
    mr_out slope = mr_emit(g->s, "RealDiv", emit_unary(g, "Log", x), mr_emit(g->s, "Sub", one, x));
    mr_out at_one = mr_emit(g->s, "Equal", x, one);
    times_slope(g, mr_emit(g->s, "SelectV2", at_one, mr_scalar_like(g, -1, x), slope));
}

#define INTEGRAL(fn) \
    .sig = "x: T -> y: T", .attrs = "T: {bfloat16, half, float, double}", .shape = mr_shape_same, \
    .grad = fn##_backward, .kernels = MR_KERNELS(MR_CPU_EACH(fn, MR_FLOATS))

MR_OP(Erfc,
    .doc      = "1 - erf(x) of each element, accurate in the tail",
    INTEGRAL(erfc),
    .examples = MR_EXAMPLES(
        "[0, 1, -0.5] -> [1, 0.157299207050, 1.520499877813]",
        "T=double: [10] -> [2.08848758376e-45]", "shape(0,3) -> shape(0,3)",
        "T=float nograd: [inf, -inf, nan] -> [0, 2, nan]"));

MR_OP(Erfinv,
    .doc      = "the inverse of the error function of each element",
    INTEGRAL(erfinv),
    .examples = MR_EXAMPLES(
        "[0, 0.5, -0.75] -> [0, 0.476936276204, -0.813419847598]",
        "T=double: [1e-20] -> [8.86226925453e-21]",
        "T=float nograd: [1, -1, 2, nan] -> [inf, -inf, nan, nan]"));

MR_OP(Ndtri,
    .doc      = "the quantile of the normal distribution at each element",
    INTEGRAL(ndtri),
    .examples = MR_EXAMPLES(
        "[0.5, 0.25, 0.875] -> [0, -0.674489750196, 1.150349380376]",
        "T=double nograd: [1e-300] -> [-37.0471]",
        "T=float nograd: [0, 1, -1, 2, nan] -> [-inf, inf, nan, nan, nan]"));

MR_OP(Dawsn,
    .doc      = "Dawson's integral of each element",
    INTEGRAL(dawsn),
    .examples = MR_EXAMPLES(
        "[0, 1, -0.5, 20] -> [0, 0.538079506913, -0.424436383502, 0.025031367926]",
        "T=float nograd: [inf, -inf, nan] -> [0, 0, nan]"));

MR_OP(Expint,
    .doc      = "the exponential integral Ei of each element",
    INTEGRAL(expint),
    .examples = MR_EXAMPLES(
        "[1, 0.5, -1, -2.5] -> [1.895117816356, 0.454219904863, -0.219383934396, -0.024914917870]",
        "T=double: [50] -> [1.05856368971317e20]",
        "T=float nograd: [0, inf, -inf, nan] -> [-inf, inf, 0, nan]"));

MR_OP(FresnelCos,
    .doc      = "the integral of cos(pi t^2 / 2) from 0 to each element",
    INTEGRAL(fresnel_cos),
    .examples = MR_EXAMPLES(
        "[0, 1, -2] -> [0, 0.779893400377, -0.488253406075]",
        "T=float nograd: [100, inf, -inf, nan] -> [0.499999899, 0.5, -0.5, nan]"));

MR_OP(FresnelSin,
    .doc      = "the integral of sin(pi t^2 / 2) from 0 to each element",
    INTEGRAL(fresnel_sin),
    .examples = MR_EXAMPLES(
        "[0, 1, -2] -> [0, 0.438259147390, -0.343415678364]",
        "T=float nograd: [100, inf, -inf, nan] -> [0.496816901, 0.5, -0.5, nan]"));

MR_OP(Spence,
    .doc      = "the dilogarithm Li_2(1 - x) of each element",
    INTEGRAL(spence),
    .examples = MR_EXAMPLES(
        "[1, 0.5, 3] -> [0, 0.582240526465, -1.436746366884]",
        "T=float nograd: [0, -1, inf, nan] -> [1.64493407, nan, -inf, nan]"));
