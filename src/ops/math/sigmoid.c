/* ops/math/sigmoid.c -- Sigmoid, its gradient, and Erf. */
#include "ops/nn/each_same.h"

/* Both signs use an exp that cannot overflow. */
static inline double sigmoid_d(double x)
{
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

MR_UNARY_ARRAY(sigmoid, mr_vsigmoid_f)
MR_UNARY_SLOW(sigmoid, MR_TYPE_DOUBLE, sigmoid_d(x))
MR_UNARY_SLOW(sigmoid, MR_COMPLEXES, 1 / (1 + exp(-x)))
MR_BINARY(sigmoid_grad, MR_FLOATS_COMPLEX, y * x * (1 - x)) /* x: sigmoid's output, y: dy */
MR_UNARY_ARRAY(erf, mr_verf_f)
MR_UNARY_SLOW(erf, MR_TYPE_DOUBLE, erf(x))

static void sigmoid_backward(mr_grad *g)
{
    mr_dx(g, "x", mr_emit(g->s, "SigmoidGrad", mr_conj(g, mr_y(g, "y")), mr_dy(g, "y")));
}

/* The derivatives of dy y (1 - y): by y it is dy (1 - 2 y), by dy it is y (1 - y). */
static void sigmoid_grad_backward(mr_grad *g)
{
    mr_out y = mr_conj(g, mr_x(g, "y")), dz = mr_dy(g, "z");
    mr_out both = mr_emit(g->s, "Mul", dz, mr_grad_shaped(g, mr_conj(g, mr_x(g, "dy")), y));
    mr_out twice = mr_emit(g->s, "Mul", y, mr_scalar_like(g, 2, y));
    mr_out slope = mr_emit(g->s, "Sub", mr_scalar_like(g, 1, y), twice);
    mr_dx(g, "y", mr_emit(g->s, "Mul", both, slope));
    mr_dx(g, "dy", mr_grad_shaped(g, mr_emit(g->s, "SigmoidGrad", y, dz), mr_x(g, "dy")));
}

/* 2 / sqrt(pi) exp(-x^2) */
static void erf_backward(mr_grad *g)
{
    mr_out x = mr_x(g, "x");
    mr_out bell = mr_emit(g->s, "Exp", mr_emit(g->s, "Neg", mr_emit(g->s, "Square", x)));
    mr_out slope = mr_emit(g->s, "Mul", bell, mr_scalar_like(g, M_2_SQRTPI, x));
    mr_dx(g, "x", mr_emit(g->s, "Mul", mr_dy(g, "y"), slope));
}

MR_OP(Sigmoid,
    .doc      = "1 / (1 + exp(-x)) of each element",
    .sig      = "x: T -> y: T",
    .attrs    = "T: {bfloat16, half, float, double, complex64, complex128}",
    .shape    = mr_shape_same,
    .grad     = sigmoid_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(sigmoid, MR_FLOATS_COMPLEX) MR_GPU_EACH(sigmoid)),
    .examples = MR_EXAMPLES(
        "[0, 1, -2] -> [0.5, 0.731058578630, 0.119202922022]",
        "[1+1i] -> [0.782041570634+0.201948227658i]",
        "T=float: [1000, -1000, inf, -inf, nan] -> [1, 0, 1, 0, nan]",
        "T=double nograd: [1000, -1000, inf, -inf, nan] -> [1, 0, 1, 0, nan]"));

MR_OP(SigmoidGrad,
    .doc      = "dy y (1 - y), where y is the output of Sigmoid",
    .sig      = "y: T, dy: T -> z: T",
    .attrs    = "T: {bfloat16, half, float, double, complex64, complex128}",
    .shape    = mr_shape_same,
    .grad     = sigmoid_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_FLAT(sigmoid_grad, MR_FLOATS_COMPLEX) MR_GPU_EACH_FLAT(sigmoid_grad)),
    .examples = MR_EXAMPLES(
        "[0, 0.5, 0.25], [1, 2, 4] -> [0, 0.5, 0.75]",
        "[1+1i], [2] -> [2-2i]",
        "[1i], [1+1i] -> [2i]"));

MR_OP(Erf,
    .doc      = "error function of each element",
    .sig      = "x: T -> y: T",
    .attrs    = "T: {bfloat16, half, float, double}",
    .shape    = mr_shape_same,
    .grad     = erf_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(erf, MR_FLOATS) MR_GPU_EACH(erf)),
    .examples = MR_EXAMPLES(
        "[0, 1, -0.5] -> [0, 0.842700792950, -0.520499877813]",
        "T=float: [inf, -inf, nan] -> [1, -1, nan]"));
