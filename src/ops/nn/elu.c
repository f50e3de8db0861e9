/* ops/nn/elu.c -- Elu and Selu with their gradients, which take the forward op's OUTPUT: a negative
 * output is exp(x) - 1 (times a constant), so the slope is the output plus the constant. */
#include "ops/nn/each_same.h"

/* With these constants, mean 0 and variance 1 are a fixed point of Selu. */
#define SCALE 1.0507009873554804934193349852946
#define SCALE_ALPHA 1.7580993408473768599402175208123

MR_UNARY(elu, MR_FLOAT_FAMILY, x < 0 ? mr_expm1f(x) : x)
MR_UNARY_SLOW(elu, MR_TYPE_DOUBLE, x < 0 ? expm1(x) : x)
MR_UNARY(selu, MR_FLOAT_FAMILY, x < 0 ? (float)SCALE_ALPHA * mr_expm1f(x) : (float)SCALE * x)
MR_UNARY_SLOW(selu, MR_TYPE_DOUBLE, x < 0 ? SCALE_ALPHA * expm1(x) : SCALE * x)

/* x: the incoming gradient, y: the forward op's output */
MR_BINARY(elu_grad, MR_FLOAT_FAMILY, y < 0 ? (y + 1) * x : x)
MR_BINARY(elu_grad, MR_TYPE_DOUBLE, y < 0 ? (y + 1) * x : x)
MR_BINARY(selu_grad, MR_FLOAT_FAMILY, y < 0 ? (y + (float)SCALE_ALPHA) * x : (float)SCALE * x)
MR_BINARY(selu_grad, MR_TYPE_DOUBLE, y < 0 ? (y + SCALE_ALPHA) * x : SCALE * x)

static void elu_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "EluGrad", mr_dyi(g, 0), mr_yi(g, 0)));
}

static void selu_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "SeluGrad", mr_dyi(g, 0), mr_yi(g, 0)));
}

/* The derivative of g (out + c) where out < 0; elsewhere the op is g itself. */
static void elu_grad_backward(mr_grad *g)
{
    mr_out dz = mr_dyi(g, 0), gradients = mr_xi(g, 0), outputs = mr_xi(g, 1);
    mr_out zeros = mr_zeros_like(g, outputs);
    mr_out below = mr_emit(g->s, "Less", outputs, zeros);
    mr_dxi(g, 0, mr_emit(g->s, g->node->def->name, dz, outputs));
    mr_dxi(g, 1, mr_emit(g->s, "Select", below, mr_emit(g->s, "Mul", dz, gradients), zeros));
}

MR_OP(Elu,
    .doc      = "x where it is positive, exp(x) - 1 elsewhere",
    .sig      = "features: T -> activations: T",
    .attrs    = "T: {half, bfloat16, float, double}",
    .shape    = mr_shape_same,
    .grad     = elu_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(elu, MR_FLOATS) MR_GPU_EACH(elu)),
    .examples = MR_EXAMPLES(
        "[1.5, -1, -0.001] -> [1.5, -0.632120558829, -0.000999500166625]",
        "nograd: 0 -> 0",
        "T=float: [nan, inf, -inf, -200] -> [nan, inf, -1, -1]"));

MR_OP(EluGrad,
    .doc      = "gradients (outputs + 1) where outputs < 0, else gradients; outputs are those of "
                "Elu",
    .sig      = "gradients: T, outputs: T -> backprops: T",
    .attrs    = "T: {half, bfloat16, float, double}",
    .shape    = mr_shape_merge_all,
    .grad     = elu_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_SAME(elu_grad, MR_FLOATS) MR_GPU_EACH_SAME(elu_grad)),
    .examples = MR_EXAMPLES(
        "[2, 2, 3], [1.5, -0.5, -0.25] -> [2, 1, 2.25]",
        "[1, 2], [1] -> !INVALID_ARGUMENT"));

MR_OP(Selu,
    .doc      = "Elu scaled so that mean 0 and variance 1 are kept through layers",
    .sig      = "features: T -> activations: T",
    .attrs    = "T: {half, bfloat16, float, double}",
    .shape    = mr_shape_same,
    .grad     = selu_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(selu, MR_FLOATS)),
    .examples = MR_EXAMPLES(
        "[1, 2, -1] -> [1.05070098736, 2.10140197471, -1.11133073781]",
        "T=float: [nan, inf, -inf] -> [nan, inf, -1.7580993]"));

MR_OP(SeluGrad,
    .doc      = "gradient of Selu from its outputs",
    .sig      = "gradients: T, outputs: T -> backprops: T",
    .attrs    = "T: {half, bfloat16, float, double}",
    .shape    = mr_shape_merge_all,
    .grad     = elu_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_SAME(selu_grad, MR_FLOATS)),
    .examples = MR_EXAMPLES(
        "[1, 2], [0.5, -0.5] -> [1.05070098736, 2.51619868169]",
        "[1, 2], [1] -> !INVALID_ARGUMENT"));
