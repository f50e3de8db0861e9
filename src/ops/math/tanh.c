/* ops/math/tanh.c -- Tanh and its gradient. */
#include "ops/nn/each_same.h"

MR_UNARY_ARRAY(tanh, mr_vtanh_f)
MR_UNARY_SLOW(tanh, MR_DOUBLE_COMPLEX, tanh(x))
MR_BINARY(tanh_grad, MR_FLOATS_COMPLEX, y * (1 - x * x)) /* x: tanh's output, y: dy */

static void tanh_backward(mr_grad *g)
{
    mr_dx(g, "x", mr_emit(g->s, "TanhGrad", mr_conj(g, mr_y(g, "y")), mr_dy(g, "y")));
}

/* The derivatives of dy (1 - y^2): by y it is -2 y dy, by dy it is 1 - y^2. */
static void tanh_grad_backward(mr_grad *g)
{
    mr_out y = mr_conj(g, mr_x(g, "y")), dz = mr_dy(g, "z");
    mr_out dy = mr_grad_shaped(g, mr_conj(g, mr_x(g, "dy")), y);
    mr_out scaled = mr_emit(g->s, "Mul", dz, mr_scalar_like(g, -2, dz));
    mr_dx(g, "y", mr_emit(g->s, "Mul", mr_emit(g->s, "Mul", scaled, dy), y));
    mr_dx(g, "dy", mr_grad_shaped(g, mr_emit(g->s, "TanhGrad", y, dz), mr_x(g, "dy")));
}

MR_OP(Tanh,
    .doc      = "tanh of each element",
    .sig      = "x: T -> y: T",
    .attrs    = "T: {bfloat16, half, float, double, complex64, complex128}",
    .shape    = mr_shape_same,
    .grad     = tanh_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(tanh, MR_FLOATS_COMPLEX) MR_GPU_EACH(tanh)),
    .examples = MR_EXAMPLES(
        "[0, 1] -> [0, 0.761594155956]",
        "[-0.5, 20, -20] -> [-0.462117157260, 1, -1]",
        "[0.5+0.5i] -> [0.564083141267+0.403896455316i]",
        "T=float: [nan, inf, -inf, -0] -> [nan, 1, -1, -0]",
        "shape(0) -> shape(0)"));

MR_OP(TanhGrad,
    .doc      = "dy (1 - y^2), where y is the output of Tanh",
    .sig      = "y: T, dy: T -> z: T",
    .attrs    = "T: {bfloat16, half, float, double, complex64, complex128}",
    .shape    = mr_shape_same,
    .grad     = tanh_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_FLAT(tanh_grad, MR_FLOATS_COMPLEX) MR_GPU_EACH_FLAT(tanh_grad)),
    .examples = MR_EXAMPLES(
        "[0, 0.5, 1], [1, 2, 3] -> [1, 1.5, 0]",
        "[1i], [1+1i] -> [2+2i]",
        "0.5, [4] -> 3",
        "[1, 2], [1] -> !INVALID_ARGUMENT same number of elements"));
