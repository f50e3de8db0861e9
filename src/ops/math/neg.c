/* ops/math/neg.c -- Neg, Abs and Sign. */
#include "ops/elementwise.h"

#define SIGNED_NUMBERS(M, ...) MR_FLOATS_COMPLEX(M, __VA_ARGS__) MR_SIGNED(M, __VA_ARGS__)
#define SIGNED_REALS(M, ...) MR_FLOATS(M, __VA_ARGS__) MR_SIGNED(M, __VA_ARGS__)

MR_UNARY(neg, MR_FLOATS_COMPLEX, -x)
MR_UNARY(neg, MR_SIGNED, 0 - (uint64_t)x)
MR_UNARY(abs, MR_FLOATS, fabs(x))
MR_UNARY(abs, MR_SIGNED, x < 0 ? 0 - (uint64_t)x : (uint64_t)x) /* the minimum is unchanged */
MR_UNARY(sign, MR_FLOATS, x != x ? x : (x > 0) - (x < 0))
MR_UNARY(sign, MR_SIGNED, (x > 0) - (x < 0))
MR_UNARY_SLOW(sign, MR_COMPLEXES, x == 0 ? 0 : x / fabs(x))

static void neg_backward(mr_grad *g) { mr_dxi(g, 0, mr_emit(g->s, "Neg", mr_dyi(g, 0))); }

static void abs_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "Mul", mr_dyi(g, 0), mr_emit(g->s, "Sign", mr_xi(g, 0))));
}

/* Constant almost everywhere. (Not so for complex numbers; TensorFlow uses zero there too.) */
static void sign_backward(mr_grad *g) { mr_dxi(g, 0, mr_zeros_like(g, mr_xi(g, 0))); }

MR_OP(Neg,
    .doc      = "-x of each element",
    .sig      = "x: T -> y: T",
    .attrs    = "T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, "
                "complex128}",
    .shape    = mr_shape_same,
    .grad     = neg_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(neg, SIGNED_NUMBERS) MR_GPU_EACH(neg)),
    .examples = MR_EXAMPLES(
        "[1, -2, 3] -> [-1, 2, -3]",
        "[1-2i] -> [-1+2i]",
        "T=float: [0, inf, nan] -> [-0, -inf, nan]",
        "T=int8: [-128] -> [-128]"));

MR_OP(Abs,
    .doc      = "|x| of each element",
    .sig      = "x: T -> y: T",
    .attrs    = "T: {bfloat16, half, float, double, int8, int16, int32, int64}",
    .shape    = mr_shape_same,
    .grad     = abs_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(abs, SIGNED_REALS) MR_GPU_EACH(abs)),
    .examples = MR_EXAMPLES(
        "[1, -2, 3] -> [1, 2, 3]",
        "nograd: [0, -inf, nan] -> [0, inf, nan]",
        "T=int32: -2147483648 -> -2147483648"));

MR_OP(Sign,
    .doc      = "-1, 0 or 1 by the sign of each element; x / |x| of complex numbers",
    .sig      = "x: T -> y: T",
    .attrs    = "T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, "
                "complex128}",
    .shape    = mr_shape_same,
    .grad     = sign_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(sign, SIGNED_NUMBERS) MR_GPU_EACH(sign)),
    .examples = MR_EXAMPLES(
        "nograd: [7, 0, -5] -> [1, 0, -1]",
        "T=double: [7, -0.5] -> [1, -1]",
        "nograd: [3+4i] -> [0.6+0.8i]",
        "T=float: [inf, -inf, nan] -> [1, -1, ?]"));
