/* ops/math/bessel.c -- Bessel functions of orders 0 and 1, of the first and second kind, plain and
 * modified; a trailing e: scaled by exp(-|x|) or exp(x).
 *
 * J and Y are those of the C library, in double for all types; I and K are in base/special.h. */
#include "base/special.h"
#include "ops/elementwise.h"

MR_UNARY_SLOW(i0, MR_FLOATS, mr_bessel_i0(x))
MR_UNARY_SLOW(i0e, MR_FLOATS, mr_bessel_i0e(x))
MR_UNARY_SLOW(i1, MR_FLOATS, mr_bessel_i1(x))
MR_UNARY_SLOW(i1e, MR_FLOATS, mr_bessel_i1e(x))
MR_UNARY_SLOW(k0, MR_FLOATS, mr_bessel_k0(x))
MR_UNARY_SLOW(k0e, MR_FLOATS, mr_bessel_k0e(x))
MR_UNARY_SLOW(k1, MR_FLOATS, mr_bessel_k1(x))
MR_UNARY_SLOW(k1e, MR_FLOATS, mr_bessel_k1e(x))
MR_UNARY_SLOW(j0, MR_FLOATS, j0((double)x))
MR_UNARY_SLOW(j1, MR_FLOATS, j1((double)x))
MR_UNARY_SLOW(y0, MR_FLOATS, y0((double)x))
MR_UNARY_SLOW(y1, MR_FLOATS, y1((double)x))

/* ---- gradients ---- */

static mr_out of_x(mr_grad *g, const char *op) { return mr_emit(g->s, op, mr_xi(g, 0)); }

static void times_slope(mr_grad *g, mr_out slope)
{
    mr_dxi(g, 0, mr_emit(g->s, "Mul", mr_dyi(g, 0), slope));
}

/* y / x */
static mr_out divide_by_input(mr_grad *g) { return mr_emit(g->s, "RealDiv", mr_yi(g, 0), mr_xi(g, 0)); }

/* The slope of an odd function is 0.5 at 0, where its formula divides 0 by 0. */
static void times_slope_but_at_zero(mr_grad *g, mr_out slope)
{
    mr_out x = mr_xi(g, 0), at_zero = mr_emit(g->s, "Equal", x, mr_scalar_like(g, 0, x));
    times_slope(g, mr_emit(g->s, "SelectV2", at_zero, mr_scalar_like(g, 0.5, x), slope));
}

static void i0_backward(mr_grad *g) { times_slope(g, of_x(g, "BesselI1")); }
static void k0_backward(mr_grad *g) { times_slope(g, mr_emit(g->s, "Neg", of_x(g, "BesselK1"))); }
static void j0_backward(mr_grad *g) { times_slope(g, mr_emit(g->s, "Neg", of_x(g, "BesselJ1"))); }
static void y0_backward(mr_grad *g) { times_slope(g, mr_emit(g->s, "Neg", of_x(g, "BesselY1"))); }

static void i0e_backward(mr_grad *g)
{
    mr_out scale = mr_emit(g->s, "Mul", of_x(g, "Sign"), mr_yi(g, 0));
    times_slope(g, mr_emit(g->s, "Sub", of_x(g, "BesselI1e"), scale));
}

static void i1_backward(mr_grad *g)
{
    times_slope_but_at_zero(g, mr_emit(g->s, "Sub", of_x(g, "BesselI0"), divide_by_input(g)));
}

/* I0e - y (sign x + 1/x) */
static void i1e_backward(mr_grad *g)
{
    mr_out scale = mr_emit(g->s, "AddV2", of_x(g, "Sign"), of_x(g, "Reciprocal"));
    mr_out part = mr_emit(g->s, "Mul", mr_yi(g, 0), scale);
    times_slope_but_at_zero(g, mr_emit(g->s, "Sub", of_x(g, "BesselI0e"), part));
}

static void k0e_backward(mr_grad *g)
{
    times_slope(g, mr_emit(g->s, "Sub", mr_yi(g, 0), of_x(g, "BesselK1e")));
}

static void k1_backward(mr_grad *g)
{
    times_slope(g, mr_emit(g->s, "Neg", mr_emit(g->s, "AddV2", of_x(g, "BesselK0"), divide_by_input(g))));
}

/* y - y/x - K0e */
static void k1e_backward(mr_grad *g)
{
    mr_out rest = mr_emit(g->s, "Sub", mr_yi(g, 0), divide_by_input(g));
    times_slope(g, mr_emit(g->s, "Sub", rest, of_x(g, "BesselK0e")));
}

static void j1_backward(mr_grad *g)
{
    times_slope_but_at_zero(g, mr_emit(g->s, "Sub", of_x(g, "BesselJ0"), divide_by_input(g)));
}

static void y1_backward(mr_grad *g)
{
    times_slope(g, mr_emit(g->s, "Sub", of_x(g, "BesselY0"), divide_by_input(g)));
}

#define BESSEL(fn) \
    .sig = "x: T -> y: T", .attrs = "T: {bfloat16, half, float, double}", .shape = mr_shape_same, \
    .grad = fn##_backward, .kernels = MR_KERNELS(MR_CPU_EACH(fn, MR_FLOATS))

MR_OP(BesselI0,
    .doc      = "the modified Bessel function I_0 of each element",
    BESSEL(i0),
    .examples = MR_EXAMPLES(
        "[0, 1, -2.5] -> [1, 1.266065877752, 3.289839144050]", "shape(0,2) -> shape(0,2)",
        "T=float nograd: [1000, inf, -inf, nan] -> [inf, inf, inf, nan]"));

MR_OP(BesselI0e,
    .doc      = "exp(-|x|) I_0(x) of each element",
    BESSEL(i0e),
    .examples = MR_EXAMPLES(
        "[1, -2.5, 50] -> [0.465759607594, 0.270046441612, 0.0565616266]", "nograd: 0 -> 1",
        "T=float nograd: [1e30, inf, nan] -> [3.98942280e-16, 0, nan]"));

MR_OP(BesselI1,
    .doc      = "the modified Bessel function I_1 of each element",
    BESSEL(i1),
    .examples = MR_EXAMPLES(
        "[0, 1, -2.5] -> [0, 0.565159103992, -2.516716245289]",
        "T=float nograd: [1000, inf, -inf, nan] -> [inf, inf, -inf, nan]"));

MR_OP(BesselI1e,
    .doc      = "exp(-|x|) I_1(x) of each element",
    BESSEL(i1e),
    .examples = MR_EXAMPLES(
        "[1, -2.5, 50] -> [0.207910415350, -0.206584649531, 0.0559931239]", "nograd: 0 -> 0",
        "T=float nograd: [inf, nan] -> [0, nan]"));

MR_OP(BesselK0,
    .doc      = "the modified Bessel function K_0 of each element",
    BESSEL(k0),
    .examples = MR_EXAMPLES(
        "[0.5, 1, 2.5] -> [0.924419071228, 0.421024438241, 0.062347553200]",
        "T=float nograd: [0, -1, inf, nan] -> [inf, nan, 0, nan]"));

MR_OP(BesselK0e,
    .doc      = "exp(x) K_0(x) of each element",
    BESSEL(k0e),
    .examples = MR_EXAMPLES(
        "[0.5, 1, 2.5] -> [1.524109385774, 1.144463079807, 0.759548690328]",
        "T=float nograd: [0, -1, inf, nan] -> [inf, nan, 0, nan]"));

MR_OP(BesselK1,
    .doc      = "the modified Bessel function K_1 of each element",
    BESSEL(k1),
    .examples = MR_EXAMPLES(
        "[0.5, 1, 2.5] -> [1.656441120003, 0.601907230197, 0.073890816348]",
        "T=float nograd: [0, -1, inf, nan] -> [inf, nan, 0, nan]"));

MR_OP(BesselK1e,
    .doc      = "exp(x) K_1(x) of each element",
    BESSEL(k1e),
    .examples = MR_EXAMPLES(
        "[0.5, 1, 2.5] -> [2.731009708212, 1.636153486263, 0.900174423908]",
        "T=float nograd: [0, -1, inf, nan] -> [inf, nan, 0, nan]"));

MR_OP(BesselJ0,
    .doc      = "the Bessel function J_0 of each element",
    BESSEL(j0),
    .examples = MR_EXAMPLES(
        "[0, 1, -2.5] -> [1, 0.765197686558, -0.048383776468]",
        "T=float nograd: [100, inf, nan] -> [0.0199858503, 0, nan]"));

MR_OP(BesselJ1,
    .doc      = "the Bessel function J_1 of each element",
    BESSEL(j1),
    .examples = MR_EXAMPLES(
        "[0, 1, -2.5] -> [0, 0.440050585745, -0.497094102464]",
        "T=float nograd: [100, inf, nan] -> [-0.0771453520, 0, nan]"));

MR_OP(BesselY0,
    .doc      = "the Bessel function Y_0 of each element",
    BESSEL(y0),
    .examples = MR_EXAMPLES(
        "[0.5, 1, 2.5] -> [-0.444518733507, 0.088256964216, 0.498070359615]",
        "T=float nograd: [0, -1, inf, nan] -> [-inf, nan, 0, nan]"));

MR_OP(BesselY1,
    .doc      = "the Bessel function Y_1 of each element",
    BESSEL(y1),
    .examples = MR_EXAMPLES(
        "[0.5, 1, 2.5] -> [-1.471472392670, -0.781212821300, 0.145918137967]",
        "T=float nograd: [0, -1, inf, nan] -> [-inf, nan, 0, nan]"));
