/* ops/math/sqrt.c -- Sqrt, Rsqrt, Reciprocal, its old name Inv, and their gradients.
 *
 * The gradient ops take the forward OUTPUT y, conjugated, and give exactly 0 where dy is 0, so that an infinite
 * slope does not produce NaN there. */
#include "ops/math/integer_div.h"
#include "ops/nn/each_same.h"

MR_UNARY(sqrt, MR_FLOATS, sqrt(x))
MR_UNARY_SLOW(sqrt, MR_COMPLEXES, sqrt(x))
MR_UNARY(rsqrt, MR_FLOATS, 1 / sqrt(x))
MR_UNARY_SLOW(rsqrt, MR_COMPLEXES, 1 / sqrt(x))
MR_UNARY(reciprocal, MR_FLOATS_COMPLEX, 1 / x)
MR_UNARY(reciprocal, MR_SIGNED, x == 1 || x == -1 ? x : 0) /* 1 / x, truncated towards zero; x is not 0 */

/* In these x is the forward output, y is dy. */
MR_BINARY(sqrt_grad, MR_FLOATS32, y == 0 ? 0 : (typeof(x))0.5 * y / x)
MR_BINARY(rsqrt_grad, MR_FLOATS32, y == 0 ? 0 : (typeof(x))-0.5 * (y * x) * (x * x))
MR_BINARY(reciprocal_grad, MR_FLOATS32, y == 0 ? 0 : -y * x * x)
MR_FLOATS16(MR_EACH_CONST_ROW, FAST, sqrt_grad)
MR_FLOATS16(MR_EACH_CONST_ROW, FAST, rsqrt_grad)
MR_FLOATS16(MR_EACH_CONST_ROW, FAST, reciprocal_grad)
MR_BINARY(sqrt_grad, MR_COMPLEXES, y == 0 ? 0 : (typeof(x))0.5 * y / conj(x))
MR_BINARY(rsqrt_grad, MR_COMPLEXES,
          y == 0 ? 0 : (typeof(x))-0.5 * (y * conj(x)) * (conj(x) * conj(x)))
MR_BINARY(reciprocal_grad, MR_COMPLEXES, y == 0 ? 0 : -y * conj(x) * conj(x))

static void by_output(mr_grad *g, const char *op)
{
    mr_dxi(g, 0, mr_emit(g->s, op, mr_yi(g, 0), mr_dyi(g, 0)));
}

static void sqrt_backward(mr_grad *g) { by_output(g, "SqrtGrad"); }
static void rsqrt_backward(mr_grad *g) { by_output(g, "RsqrtGrad"); }
static void reciprocal_backward(mr_grad *g) { by_output(g, "ReciprocalGrad"); }
static void inv_backward(mr_grad *g) { by_output(g, "InvGrad"); }

static mr_out emit_product(mr_grad *g, mr_out a, mr_out b) { return mr_emit(g->s, "Mul", a, b); }
static mr_out scale_by(mr_grad *g, double by, mr_out a) { return emit_product(g, a, mr_scalar_like(g, by, a)); }

/* z = dy / (2 conj(y)): with a = dz / y, the derivative by y is -conj(a) z, by dy it is a / 2. */
static void sqrt_grad_backward(mr_grad *g)
{
    mr_out a = mr_emit(g->s, "RealDiv", mr_dyi(g, 0), mr_xi(g, 0));
    mr_dxi(g, 0, mr_emit(g->s, "Neg", emit_product(g, mr_conj(g, a), mr_yi(g, 0))));
    mr_dxi(g, 1, mr_grad_shaped(g, scale_by(g, 0.5, a), mr_xi(g, 1)));
}

/* z = -dy conj(y)^3 / 2. */
static void rsqrt_grad_backward(mr_grad *g)
{
    mr_out y = mr_xi(g, 0), dy = mr_grad_shaped(g, mr_xi(g, 1), y), dz = mr_dyi(g, 0), back = mr_conj(g, y);
    mr_dxi(g, 0,
           scale_by(g, -1.5, emit_product(g, emit_product(g, mr_conj(g, dz), dy), mr_emit(g->s, "Square", back))));
    mr_dxi(g, 1, mr_grad_shaped(g, mr_emit(g->s, "RsqrtGrad", back, dz), mr_xi(g, 1)));
}

/* z = -dy conj(y)^2. */
static void inverse_grad_backward(mr_grad *g, const char *op)
{
    mr_out y = mr_xi(g, 0), dy = mr_grad_shaped(g, mr_xi(g, 1), y), dz = mr_dyi(g, 0), back = mr_conj(g, y);
    mr_dxi(g, 0, scale_by(g, -2, emit_product(g, emit_product(g, mr_conj(g, dz), dy), back)));
    mr_dxi(g, 1, mr_grad_shaped(g, mr_emit(g->s, op, back, dz), mr_xi(g, 1)));
}

static void reciprocal_grad_backward(mr_grad *g) { inverse_grad_backward(g, "ReciprocalGrad"); }
static void inv_grad_backward(mr_grad *g) { inverse_grad_backward(g, "InvGrad"); }

#define WIDE "T: {bfloat16, half, float, double, complex64, complex128}"
#define WIDER "T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}"
#define INVERSES                                    \
    "[1, 2, -4] -> [1, 0.5, -0.25]",                \
    "[1+1i] -> [0.5-0.5i]",                         \
    "T=int32: [1, -1, 7] -> [1, -1, 0]",            \
    "T=int8: [1, 0] -> !INVALID_ARGUMENT Integer division by zero", \
    "[1, -1] -> [1, -1]",                           \
    "T=float: [0, -0, inf, nan] -> [inf, -inf, 0, nan]"
#define INVERSE_GRADS                                       \
    "[1, 0.5, -2], [1, 2, 3] -> [-1, -0.5, -12]",           \
    "[1+1i], [1] -> [2i]",                                  \
    "[1+1i], [1+2i] -> [-4+2i]",                            \
    "nograd: [inf, 3], [0, 0] -> [0, 0]"

MR_OP(Sqrt,
    .doc      = "square root of each element",
    .sig      = "x: T -> y: T",
    .attrs    = WIDE,
    .shape    = mr_shape_same,
    .grad     = sqrt_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(sqrt, MR_FLOATS_COMPLEX) MR_GPU_EACH(sqrt)),
    .examples = MR_EXAMPLES(
        "[1, 4, 2] -> [1, 2, 1.414213562373]",
        "[3+4i] -> [2+1i]",
        "nograd: [-4+0i] -> [2i]",
        "T=float: [0, inf, -1, nan] -> [0, inf, nan, nan]"));

MR_OP(SqrtGrad,
    .doc      = "dy / (2 y), where y is the output of Sqrt",
    .sig      = "y: T, dy: T -> z: T",
    .attrs    = WIDE,
    .shape    = mr_shape_same,
    .grad     = sqrt_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_FLAT(sqrt_grad, MR_FLOATS_COMPLEX) MR_GPU_EACH_FLAT(sqrt_grad)),
    .examples = MR_EXAMPLES(
        "[1, 2, 0.5], [1, 2, 3] -> [0.5, 0.5, 3]",
        "[1+1i], [4] -> [1+1i]",
        "[1+1i], [4+2i] -> [0.5+1.5i]",
        "nograd: [0, 1], [0, 0] -> [0, 0]"));

MR_OP(Rsqrt,
    .doc      = "1 / sqrt(x) of each element",
    .sig      = "x: T -> y: T",
    .attrs    = WIDE,
    .shape    = mr_shape_same,
    .grad     = rsqrt_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(rsqrt, MR_FLOATS_COMPLEX) MR_GPU_EACH(rsqrt)),
    .examples = MR_EXAMPLES(
        "[1, 4, 2] -> [1, 0.5, 0.707106781187]",
        "[3+4i] -> [0.4-0.2i]",
        "nograd: [-4+0i] -> [-0.5i]",
        "T=float: [0, -0, inf, -1] -> [inf, -inf, 0, nan]"));

MR_OP(RsqrtGrad,
    .doc      = "-dy y^3 / 2, where y is the output of Rsqrt",
    .sig      = "y: T, dy: T -> z: T",
    .attrs    = WIDE,
    .shape    = mr_shape_same,
    .grad     = rsqrt_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_FLAT(rsqrt_grad, MR_FLOATS_COMPLEX) MR_GPU_EACH_FLAT(rsqrt_grad)),
    .examples = MR_EXAMPLES(
        "[1, 2, -1], [1, 0.5, 3] -> [-0.5, -2, 1.5]",
        "[1+1i], [1] -> [1+1i]",
        "[1+1i], [1+1i] -> [2i]",
        "nograd: [inf], [0] -> [0]"));

MR_OP(Reciprocal,
    .doc      = "1 / x of each element",
    .sig      = "x: T -> y: T",
    .attrs    = WIDER,
    .shape    = mr_shape_same,
    .grad     = reciprocal_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(reciprocal, MR_FLOATS_COMPLEX) MR_GPU_EACH(reciprocal)
                           MR_CPU_EACH_BY(reciprocal, MR_SIGNED, mr_integer_inverse_run)),
    .examples = MR_EXAMPLES(INVERSES));

MR_OP(ReciprocalGrad,
    .doc      = "-dy y^2, where y is the output of Reciprocal",
    .sig      = "y: T, dy: T -> z: T",
    .attrs    = WIDE,
    .shape    = mr_shape_same,
    .grad     = reciprocal_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_FLAT(reciprocal_grad, MR_FLOATS_COMPLEX) MR_GPU_EACH_FLAT(reciprocal_grad)),
    .examples = MR_EXAMPLES(INVERSE_GRADS));

MR_OP(Inv,
    .doc      = "1 / x of each element (the old name of Reciprocal)",
    .sig      = "x: T -> y: T",
    .attrs    = WIDER,
    .shape    = mr_shape_same,
    .grad     = inv_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(reciprocal, MR_FLOATS_COMPLEX) MR_GPU_EACH(reciprocal)
                           MR_CPU_EACH_BY(reciprocal, MR_SIGNED, mr_integer_inverse_run)),
    .examples = MR_EXAMPLES(INVERSES));

MR_OP(InvGrad,
    .doc      = "-dy y^2, where y is the output of Inv",
    .sig      = "y: T, dy: T -> z: T",
    .attrs    = WIDE,
    .shape    = mr_shape_same,
    .grad     = inv_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_FLAT(reciprocal_grad, MR_FLOATS_COMPLEX) MR_GPU_EACH_FLAT(reciprocal_grad)),
    .examples = MR_EXAMPLES(INVERSE_GRADS));
