/* ops/nn/relu.c -- Relu and Relu6 with their gradients.
 *
 * Both pass a NaN through.  The gradient ops depend only on the range that the second input is in, so
 * they work with the forward op's input or its output; the output is usually kept in memory anyway. */
#include "ops/nn/each_same.h"

#define SIGNED_NUMBERS(M, ...) MR_FLOATS(M, __VA_ARGS__) MR_SIGNED(M, __VA_ARGS__)

MR_UNARY(relu, SIGNED_NUMBERS, x < 0 ? 0 : x)
MR_UNARY(relu, MR_UNSIGNED, x)
MR_UNARY(relu6, SIGNED_NUMBERS, x < 0 ? 0 : x > 6 ? 6 : x)
MR_UNARY(relu6, MR_UNSIGNED, x > 6 ? 6 : x)

/* x: the incoming gradient, y: input or output of the forward op */
MR_BINARY(relu_grad, MR_REALS, y > 0 ? x : 0)
MR_BINARY(relu6_grad, MR_REALS, y > 0 && y < 6 ? x : 0)

static void relu_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "ReluGrad", mr_dyi(g, 0), mr_yi(g, 0)));
}

static void relu6_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "Relu6Grad", mr_dyi(g, 0), mr_yi(g, 0)));
}

/* The op is linear in the gradient, and constant in the features except at the kink. */
static void relu_grad_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, g->node->def->name, mr_dyi(g, 0), mr_xi(g, 1)));
    mr_dxi(g, 1, mr_zeros_like(g, mr_xi(g, 1)));
}

MR_OP(Relu,
    .doc      = "the larger of x and 0",
    .sig      = "features: T -> activations: T",
    .attrs    = "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, "
                "uint32, uint64, qint8}",
    .shape    = mr_shape_same,
    .grad     = relu_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(relu, MR_REALS) MR_GPU_EACH(relu) MR_CPU_EACH(relu, MR_CODE_QINT8)),
    .examples = MR_EXAMPLES(
        "nograd: [1, 0, 3] -> [1, 0, 3]",
        "T=qint8: [-1, 0, 3] -> [0, 0, 3]",
        "[[-1, 2], [0.5, -0.25]] -> [[0, 2], [0.5, 0]]",
        "[-128, 127] -> [0, 127]",
        "T=uint8: [0, 255] -> [0, 255]",
        "T=float: [nan, inf, -inf] -> [nan, inf, 0]",
        "shape(0,2) -> shape(0,2)"));

MR_OP(ReluGrad,
    .doc      = "gradients where features > 0, else 0",
    .sig      = "gradients: T, features: T -> backprops: T",
    .attrs    = "T: realnumbertype",
    .shape    = mr_shape_merge_all,
    .grad     = relu_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_SAME(relu_grad, MR_REALS) MR_GPU_EACH_SAME(relu_grad)),
    .examples = MR_EXAMPLES(
        "nograd: [1, 2, 3], [0, 1, 2] -> [0, 2, 3]",
        "[1.5, 2, 3], [-1, 0.5, 2] -> [0, 2, 3]",
        "T=float nograd: [1, 2, 3, nan], [nan, -0, inf, 1] -> [0, 0, 3, nan]",
        "[1, 2, 3], [1, 2] -> !INVALID_ARGUMENT"));

MR_OP(Relu6,
    .doc      = "x, but at least 0 and at most 6",
    .sig      = "features: T -> activations: T",
    .attrs    = "T: realnumbertype",
    .shape    = mr_shape_same,
    .grad     = relu6_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(relu6, MR_REALS) MR_GPU_EACH(relu6)),
    .examples = MR_EXAMPLES(
        "[1, 3, 7] -> [1, 3, 6]",
        "[-1.5, 2.5, 6.5] -> [0, 2.5, 6]",
        "nograd: [-5, 0, 6, 100] -> [0, 0, 6, 6]",
        "T=float: [nan, inf, -inf] -> [nan, 6, 0]"));

MR_OP(Relu6Grad,
    .doc      = "gradients where 0 < features < 6, else 0",
    .sig      = "gradients: T, features: T -> backprops: T",
    .attrs    = "T: realnumbertype",
    .shape    = mr_shape_merge_all,
    .grad     = relu_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_SAME(relu6_grad, MR_REALS) MR_GPU_EACH_SAME(relu6_grad)),
    .examples = MR_EXAMPLES(
        "nograd: [1, 2, 3, 4], [0, 1, 6, 7] -> [0, 2, 0, 0]",
        "[1.5, 2, 3], [-1, 5.5, 8] -> [0, 2, 0]",
        "[1, 2], [1, 2, 3] -> !INVALID_ARGUMENT"));
