/* ops/math/hyperbolic.c -- Sinh, Cosh, and the inverses of sines and hyperbolic functions. */
#include "ops/elementwise.h"

MR_UNARY_SLOW(sinh, MR_FLOATS_COMPLEX, sinh(x))
MR_UNARY_SLOW(cosh, MR_FLOATS_COMPLEX, cosh(x))
MR_UNARY_SLOW(asinh, MR_FLOATS_COMPLEX, asinh(x))
MR_UNARY_SLOW(acosh, MR_FLOATS_COMPLEX, acosh(x))
MR_UNARY_SLOW(atanh, MR_FLOATS_COMPLEX, atanh(x))
MR_UNARY_SLOW(asin, MR_FLOATS_COMPLEX, asin(x))
MR_UNARY_SLOW(acos, MR_FLOATS_COMPLEX, acos(x))

/* For integers: converts the result as Cast does; NaN becomes the smallest integer. */
static int64_t double_to_i64(double v) { return fabs(v) < 0x1p63 ? (int64_t)v : INT64_MIN; }
MR_UNARY_SLOW(asin, MR_SIGNED, double_to_i64(asin((double)x)))
MR_UNARY_SLOW(acos, MR_SIGNED, double_to_i64(acos((double)x)))

static mr_out emit_unary(mr_grad *g, const char *op, mr_out x) { return mr_emit(g->s, op, x); }

/* dx = dy * slope(conj x) */
static void multiply_by_slope(mr_grad *g, const char *slope)
{
    mr_dxi(g, 0, mr_emit(g->s, "Mul", mr_dyi(g, 0), emit_unary(g, slope, mr_conj(g, mr_xi(g, 0)))));
}

/* dx = dy / slope(conj y): the slope of an inverse function, from that of the function itself. */
static void divide_by_slope(mr_grad *g, const char *slope)
{
    mr_dxi(g, 0, mr_emit(g->s, "RealDiv", mr_dyi(g, 0), emit_unary(g, slope, mr_conj(g, mr_yi(g, 0)))));
}

static void sinh_backward(mr_grad *g) { multiply_by_slope(g, "Cosh"); }
static void cosh_backward(mr_grad *g) { multiply_by_slope(g, "Sinh"); }
static void asinh_backward(mr_grad *g) { divide_by_slope(g, "Cosh"); }
static void acosh_backward(mr_grad *g) { divide_by_slope(g, "Sinh"); }

/* 1 - conj(x)^2 */
static mr_out one_less_square(mr_grad *g)
{
    mr_out square = emit_unary(g, "Square", mr_conj(g, mr_xi(g, 0)));
    return mr_emit(g->s, "Sub", mr_scalar_like(g, 1, square), square);
}

static void atanh_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "RealDiv", mr_dyi(g, 0), one_less_square(g)));
}

static void asin_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "RealDiv", mr_dyi(g, 0), emit_unary(g, "Sqrt", one_less_square(g))));
}

static void acos_backward(mr_grad *g)
{
    mr_out slope = mr_emit(g->s, "RealDiv", mr_dyi(g, 0), emit_unary(g, "Sqrt", one_less_square(g)));
    mr_dxi(g, 0, emit_unary(g, "Neg", slope));
}

#define WIDE "T: {bfloat16, half, float, double, complex64, complex128}"
#define WIDER "T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}"

MR_OP(Sinh,
    .doc      = "hyperbolic sine of each element",
    .sig      = "x: T -> y: T",
    .attrs    = WIDE,
    .shape    = mr_shape_same,
    .grad     = sinh_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(sinh, MR_FLOATS_COMPLEX)),
    .examples = MR_EXAMPLES(
        "[0, 1, -2] -> [0, 1.175201193644, -3.626860407847]",
        "[1+1i] -> [0.634963914785+1.298457581416i]", "shape(0,2) -> shape(0,2)",
        "T=float nograd: [1e-10, 1000, -1000, inf, nan] -> [1.00000000e-10, inf, -inf, inf, nan]"));

MR_OP(Cosh,
    .doc      = "hyperbolic cosine of each element",
    .sig      = "x: T -> y: T",
    .attrs    = WIDE,
    .shape    = mr_shape_same,
    .grad     = cosh_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(cosh, MR_FLOATS_COMPLEX)),
    .examples = MR_EXAMPLES(
        "[0, 1, -2] -> [1, 1.543080634815, 3.762195691084]",
        "[1+1i] -> [0.833730025131+0.988897705763i]",
        "T=float nograd: [1000, -inf, nan] -> [inf, inf, nan]"));

MR_OP(Asinh,
    .doc      = "inverse hyperbolic sine of each element",
    .sig      = "x: T -> y: T",
    .attrs    = WIDE,
    .shape    = mr_shape_same,
    .grad     = asinh_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(asinh, MR_FLOATS_COMPLEX)),
    .examples = MR_EXAMPLES(
        "[0, 1, -2] -> [0, 0.881373587020, -1.443635475179]",
        "[1+1i] -> [1.061275061905+0.666239432493i]",
        "T=double: [1e-12, 1e300] -> [1.00000000000e-12, 691.468675078774]",
        "T=float nograd: [inf, -inf, nan] -> [inf, -inf, nan]"));

MR_OP(Acosh,
    .doc      = "inverse hyperbolic cosine of each element",
    .sig      = "x: T -> y: T",
    .attrs    = WIDE,
    .shape    = mr_shape_same,
    .grad     = acosh_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(acosh, MR_FLOATS_COMPLEX)),
    .examples = MR_EXAMPLES(
        "nograd: [1, 2, 10] -> [0, 1.316957896925, 2.993222846126]",
        "[2, 10] -> [1.316957896925, 2.993222846126]",
        "[1+1i] -> [1.061275061905+0.904556894302i]",
        "T=float nograd: [0.5, -1, inf, nan] -> [nan, nan, inf, nan]"));

MR_OP(Atanh,
    .doc      = "inverse hyperbolic tangent of each element",
    .sig      = "x: T -> y: T",
    .attrs    = WIDE,
    .shape    = mr_shape_same,
    .grad     = atanh_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(atanh, MR_FLOATS_COMPLEX)),
    .examples = MR_EXAMPLES(
        "[0, 0.5, -0.25] -> [0, 0.549306144334, -0.255412811883]",
        "[1+1i] -> [0.402359478109+1.017221967898i]",
        "T=float nograd: [1, -1, 2, nan] -> [inf, -inf, nan, nan]"));

MR_OP(Asin,
    .doc      = "inverse sine of each element",
    .sig      = "x: T -> y: T",
    .attrs    = WIDER,
    .shape    = mr_shape_same,
    .grad     = asin_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(asin, MR_FLOATS_COMPLEX) MR_CPU_EACH(asin, MR_SIGNED)),
    .examples = MR_EXAMPLES(
        "[0, 0.5, -0.25] -> [0, 0.523598775598, -0.252680255142]",
        "[1+1i] -> [0.666239432493+1.061275061905i]", "0 -> 0",
        "T=int32: [0, 1, -1] -> [0, 1, -1]",
        "T=float nograd: [1, -1, 2, nan] -> [1.57079633, -1.57079633, nan, nan]"));

MR_OP(Acos,
    .doc      = "inverse cosine of each element",
    .sig      = "x: T -> y: T",
    .attrs    = WIDER,
    .shape    = mr_shape_same,
    .grad     = acos_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(acos, MR_FLOATS_COMPLEX) MR_CPU_EACH(acos, MR_SIGNED)),
    .examples = MR_EXAMPLES(
        "[0, 0.5, -0.25] -> [1.570796326795, 1.047197551197, 1.823476581937]",
        "[1+1i] -> [0.904556894302-1.061275061905i]", "nograd: 1 -> 0",
        "T=int32: [0, 1, -1] -> [1, 0, 3]",
        "T=float nograd: [1, -1, 2, nan] -> [0, 3.14159265, nan, nan]"));
