/* ops/nn/softplus.c -- Softplus and Softsign with their gradients, which take the forward op's
 * INPUT. */
#include "ops/nn/each_same.h"

/* log(1 + exp(x)) without overflow, and without losing a small exp(x) next to the 1. */
MR_UNARY_ARRAY(softplus, mr_vsoftplus_f)
MR_UNARY_SLOW(softplus, MR_TYPE_DOUBLE, (x < 0 ? 0 : x) + log1p(exp(-fabs(x))))
MR_UNARY(softsign, MR_FLOATS, x / (1 + fabs(x)))

/* x: the incoming gradient, y: the forward op's input */
MR_BINARY(softplus_grad, MR_FLOAT_FAMILY, x * mr_sigmoidf(y))
MR_BINARY_SLOW(softplus_grad, MR_TYPE_DOUBLE, x / (1 + exp(-y)))
MR_BINARY(softsign_grad, MR_FLOATS, x / ((1 + fabs(y)) * (1 + fabs(y))))

static void softplus_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "SoftplusGrad", mr_dyi(g, 0), mr_xi(g, 0)));
}

static void softsign_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "SoftsignGrad", mr_dyi(g, 0), mr_xi(g, 0)));
}

/* The op is g s with s = sigmoid(x).  Its derivative by g is s; by x it is g s (1 - s), which SigmoidGrad
 * computes. */
static void softplus_grad_backward(mr_grad *g)
{
    mr_out dz = mr_dyi(g, 0), gradients = mr_xi(g, 0), features = mr_xi(g, 1);
    mr_dxi(g, 0, mr_emit(g->s, "SoftplusGrad", dz, features));
    mr_dxi(g, 1, mr_emit(g->s, "SigmoidGrad", mr_emit(g->s, "Sigmoid", features),
                         mr_emit(g->s, "Mul", dz, gradients)));
}

/* The op is g / (1 + |x|)^2; its derivative by x is -2 g sign(x) / (1 + |x|)^3. */
static void softsign_grad_backward(mr_grad *g)
{
    mr_out dz = mr_dyi(g, 0), gradients = mr_xi(g, 0), features = mr_xi(g, 1);
    mr_out slope = mr_emit(g->s, "SoftsignGrad", mr_emit(g->s, "Mul", dz, gradients), features);
    mr_out sign =
        mr_emit(g->s, "Mul", mr_emit(g->s, "Sign", features), mr_scalar_like(g, -2, features));
    mr_out width =
        mr_emit(g->s, "AddV2", mr_emit(g->s, "Abs", features), mr_scalar_like(g, 1, features));
    mr_dxi(g, 0, mr_emit(g->s, "SoftsignGrad", dz, features));
    mr_dxi(g, 1, mr_emit(g->s, "RealDiv", mr_emit(g->s, "Mul", slope, sign), width));
}

MR_OP(Softplus,
    .doc      = "log(1 + exp(x))",
    .sig      = "features: T -> activations: T",
    .attrs    = "T: {half, bfloat16, float, double}",
    .shape    = mr_shape_same,
    .grad     = softplus_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(softplus, MR_FLOATS) MR_GPU_EACH(softplus)),
    .examples = MR_EXAMPLES(
        "[0, 1, -1] -> [0.69314718056, 1.31326168752, 0.313261687518]",
        "[100, -5] -> [100, 0.0067153484891]",
        "T=float: [nan, inf, -inf, -200] -> [nan, inf, 0, 0]"));

MR_OP(SoftplusGrad,
    .doc      = "gradients / (1 + exp(-features))",
    .sig      = "gradients: T, features: T -> backprops: T",
    .attrs    = "T: {half, bfloat16, float, double}",
    .shape    = mr_shape_merge_all,
    .grad     = softplus_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_SAME(softplus_grad, MR_FLOATS) MR_GPU_EACH_SAME(softplus_grad)),
    .examples = MR_EXAMPLES(
        "[1, 2, 2], [0, 1, -1] -> [0.5, 1.46211715726, 0.53788284274]",
        "T=float nograd: [1, 1], [200, -200] -> [1, 0]",
        "[1, 2], [1] -> !INVALID_ARGUMENT"));

MR_OP(Softsign,
    .doc      = "x / (1 + |x|)",
    .sig      = "features: T -> activations: T",
    .attrs    = "T: {half, bfloat16, float, double}",
    .shape    = mr_shape_same,
    .grad     = softsign_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(softsign, MR_FLOATS) MR_GPU_EACH(softsign)),
    .examples = MR_EXAMPLES(
        "[1, -1, 3, -0.25] -> [0.5, -0.5, 0.75, -0.2]",
        "T=float: [nan, inf] -> [nan, nan]"));

MR_OP(SoftsignGrad,
    .doc      = "gradients / (1 + |features|)^2",
    .sig      = "gradients: T, features: T -> backprops: T",
    .attrs    = "T: {half, bfloat16, float, double}",
    .shape    = mr_shape_merge_all,
    .grad     = softsign_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_SAME(softsign_grad, MR_FLOATS) MR_GPU_EACH_SAME(softsign_grad)),
    .examples = MR_EXAMPLES(
        "[1, 2], [1, -3] -> [0.25, 0.125]",
        "[1, 2], [1] -> !INVALID_ARGUMENT"));
