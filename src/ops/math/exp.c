/* ops/math/exp.c -- Exp, Expm1, Log and Log1p. */
#include "ops/elementwise.h"

/* C has no expm1 and log1p for complex numbers. Near 0 neither may compute 1 + something small. */
#define COMPLEX_MATHS(C, R, name)                                                                  \
    static C expm1_##name(C x)                                                                     \
    {                                                                                              \
        R a = creal(x), b = cimag(x), s = sin(b / 2);                                              \
        R re = expm1(a) * cos(b) - 2 * s * s; /* e^a cos b - 1, without cancellation */            \
        return re + (C)I * (R)(exp(a) * sin(b));                                                   \
    }                                                                                              \
    static C log1p_##name(C x)                                                                     \
    {                                                                                              \
        R a = creal(x), b = cimag(x);                                                              \
        bool near = fabs(a) < 0.5 && fabs(b) < 0.5;                                                \
        R re = near ? log1p(a * (2 + a) + b * b) / 2 : log(hypot(1 + a, b));                       \
        return re + (C)I * (R)atan2(b, 1 + a);                                                     \
    }
COMPLEX_MATHS(mr_c64, float, c64)
COMPLEX_MATHS(mr_c128, double, c128)

MR_UNARY_ARRAY(exp, mr_vexp_f)
MR_UNARY_SLOW(exp, MR_DOUBLE_COMPLEX, exp(x))
MR_UNARY_ARRAY(expm1, mr_vexpm1_f)
MR_UNARY_SLOW(expm1, MR_TYPE_DOUBLE, expm1(x))
MR_UNARY_SLOW(expm1, MR_TYPE_COMPLEX64, expm1_c64(x))
MR_UNARY_SLOW(expm1, MR_TYPE_COMPLEX128, expm1_c128(x))
MR_UNARY_ARRAY(log, mr_vlog_f)
MR_UNARY_SLOW(log, MR_DOUBLE_COMPLEX, log(MR_AS_READ(x)))
MR_UNARY_ARRAY(log1p, mr_vlog1p_f)
MR_UNARY_SLOW(log1p, MR_TYPE_DOUBLE, log1p(x))
MR_UNARY_SLOW(log1p, MR_TYPE_COMPLEX64, log1p_c64(x))
MR_UNARY_SLOW(log1p, MR_TYPE_COMPLEX128, log1p_c128(x))

static void exp_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "Mul", mr_dyi(g, 0), mr_conj(g, mr_yi(g, 0))));
}

static void expm1_backward(mr_grad *g)
{
    mr_out slope = mr_emit(g->s, "Exp", mr_conj(g, mr_xi(g, 0)));
    mr_dxi(g, 0, mr_emit(g->s, "Mul", mr_dyi(g, 0), slope));
}

static void log_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "RealDiv", mr_dyi(g, 0), mr_conj(g, mr_xi(g, 0))));
}

static void log1p_backward(mr_grad *g)
{
    mr_out x = mr_conj(g, mr_xi(g, 0)), more = mr_emit(g->s, "AddV2", x, mr_scalar_like(g, 1, x));
    mr_dxi(g, 0, mr_emit(g->s, "RealDiv", mr_dyi(g, 0), more));
}

#define TYPES "T: {bfloat16, half, float, double, complex64, complex128}"

MR_OP(Exp,
    .doc      = "e to the power x of each element",
    .sig      = "x: T -> y: T",
    .attrs    = TYPES,
    .shape    = mr_shape_same,
    .grad     = exp_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(exp, MR_FLOATS_COMPLEX) MR_GPU_EACH(exp)),
    .examples = MR_EXAMPLES(
        "[0, 1, -2] -> [1, 2.718281828459, 0.135335283237]",
        "[1+1i] -> [1.468693939916+2.287355287179i]",
        "T=float: [1000, -1000, inf, -inf, nan] -> [inf, 0, inf, 0, nan]"));

MR_OP(Expm1,
    .doc      = "exp(x) - 1 of each element, accurate near 0",
    .sig      = "x: T -> y: T",
    .attrs    = TYPES,
    .shape    = mr_shape_same,
    .grad     = expm1_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(expm1, MR_FLOATS_COMPLEX) MR_GPU_EACH(expm1)),
    .examples = MR_EXAMPLES(
        "[0, 1, -2] -> [0, 1.718281828459, -0.864664716763]",
        "T=float: [1e-10] -> [1.00000000e-10]",
        "T=double: [1e-10] -> [1.00000000005e-10]",
        "T=complex128: [1e-12+1e-12i] -> [1.000000000000e-12+1.000000000001e-12i]",
        "[1+1i] -> [0.468693939916+2.287355287179i]"));

MR_OP(Log,
    .doc      = "natural logarithm of each element",
    .sig      = "x: T -> y: T",
    .attrs    = TYPES,
    .shape    = mr_shape_same,
    .grad     = log_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(log, MR_FLOATS_COMPLEX) MR_GPU_EACH(log)),
    .examples = MR_EXAMPLES(
        "[1, 2, 0.5] -> [0, 0.693147180560, -0.693147180560]",
        "[1+1i] -> [0.346573590280+0.785398163397i]",
        "T=float: [0, -1, inf, nan] -> [-inf, nan, inf, nan]"));

MR_OP(Log1p,
    .doc      = "log(1 + x) of each element, accurate near 0",
    .sig      = "x: T -> y: T",
    .attrs    = TYPES,
    .shape    = mr_shape_same,
    .grad     = log1p_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(log1p, MR_FLOATS_COMPLEX) MR_GPU_EACH(log1p)),
    .examples = MR_EXAMPLES(
        "[0, 1, -0.5] -> [0, 0.693147180560, -0.693147180560]",
        "T=float: [1e-10] -> [1.00000000e-10]",
        "T=double: [1e-10] -> [9.9999999995e-11]",
        "T=complex128: [1e-12+1e-12i] -> [1.000000000000e-12+0.999999999999e-12i]",
        "[1+1i] -> [0.804718956217+0.463647609001i]",
        "T=float: [-1, -2, inf, nan] -> [-inf, nan, inf, nan]"));
