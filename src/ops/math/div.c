/* ops/math/div.c -- division of numbers: Div, RealDiv, DivNoNan, Xdivy, Xlogy.
 *
 * Div of integers is TruncateDiv, see integer_div.c. */
#include "ops/elementwise.h"
#include "ops/math/integer_div.h"

#define XDIVY_TYPES(M, ...) \
    MR_TYPE_HALF(M, __VA_ARGS__) MR_FLOATS32(M, __VA_ARGS__) MR_COMPLEXES(M, __VA_ARGS__)

MR_BINARY(div, MR_FLOATS_COMPLEX, x / y)
MR_BINARY(div, MR_SIGNED, mr_truncate_div(x, y))
MR_BINARY(div, MR_UNSIGNED, x / y)
MR_BINARY(div_no_nan, MR_FLOATS_COMPLEX, y == 0 ? 0 : x / y)
MR_BINARY(xdivy, XDIVY_TYPES, x == 0 ? 0 : x / y)
MR_BINARY_SLOW(xlogy, XDIVY_TYPES, x == 0 ? 0 : x * log(MR_AS_READ(y)))

/* dx = dz / y and dy = dz ((-x / y) / y), with the division the op itself uses. */
static void divide_backward(mr_grad *g, const char *op)
{
    mr_out x = mr_conj(g, mr_xi(g, 0)), y = mr_conj(g, mr_xi(g, 1)), dz = mr_dyi(g, 0);
    mr_out slope = mr_emit(g->s, op, mr_emit(g->s, op, mr_emit(g->s, "Neg", x), y), y);
    mr_out dx = mr_emit(g->s, op, dz, y);
    mr_dx_broadcast(g, dx, mr_emit(g->s, "Mul", dz, slope));
}

static void div_backward(mr_grad *g) { divide_backward(g, "Div"); }
static void real_div_backward(mr_grad *g) { divide_backward(g, "RealDiv"); }
static void div_no_nan_backward(mr_grad *g) { divide_backward(g, "DivNoNan"); }

/* 1 where x is not 0, else 0. */
static mr_out not_zero(mr_grad *g, mr_out x)
{
    mr_out test = mr_emit(g->s, "NotEqual", x, mr_scalar_like(g, 0, x));
    return mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(mr_dtype_base(mr_out_type(x)))}),
                        test);
}

static void xdivy_backward(mr_grad *g)
{
    mr_out x = mr_conj(g, mr_xi(g, 0)), y = mr_conj(g, mr_xi(g, 1)), dz = mr_dyi(g, 0);
    mr_out by_x = mr_emit(g->s, "Xdivy", not_zero(g, x), y);
    mr_out by_y = mr_emit(g->s, "Xdivy", mr_emit(g->s, "Neg", x), mr_emit(g->s, "Square", y));
    mr_out dx = mr_emit(g->s, "Mul", dz, by_x);
    mr_dx_broadcast(g, dx, mr_emit(g->s, "Mul", dz, by_y));
}

static void xlogy_backward(mr_grad *g)
{
    mr_out x = mr_conj(g, mr_xi(g, 0)), y = mr_conj(g, mr_xi(g, 1)), dz = mr_dyi(g, 0);
    mr_out by_x = mr_emit(g->s, "Xlogy", not_zero(g, x), y);
    mr_out dx = mr_emit(g->s, "Mul", dz, by_x);
    mr_dx_broadcast(g, dx, mr_emit(g->s, "Mul", dz, mr_emit(g->s, "Xdivy", x, y)));
}

MR_OP(Div,
    .doc      = "x / y, element by element; integers are cut towards zero",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, "
                "uint64, int64, "
                "complex64, complex128}",
    .shape    = mr_shape_broadcast2,
    .grad     = div_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(div, MR_FLOATS_COMPLEX) MR_GPU_EACH(div)
                           MR_CPU_EACH_BY(div, MR_INTS, mr_integer_div_run)),
    .examples = MR_EXAMPLES(
        "[6, 9], [2, 3] -> [3, 3]",
        "[1, 2], 4 -> [0.25, 0.5]",
        "[3+1i], [1+1i] -> [2-1i]",
        "T=int32: [7, -7, 7, -7], [2, 2, -2, -2] -> [3, -3, -3, 3]",
        "T=int8: -128, -1 -> -128",
        "T=int64: -9223372036854775808, -1 -> -9223372036854775808",
        "T=float: [1, -1, 0], 0 -> [inf, -inf, nan]",
        "T=int32: [1, 2], [1, 0] -> !INVALID_ARGUMENT Integer division by zero",
        "T=int32: shape(0), 0 -> shape(0)"));

MR_OP(RealDiv,
    .doc      = "x / y, element by element; integers are cut towards zero",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, "
                "uint64, int64, "
                "complex64, complex128}",
    .shape    = mr_shape_broadcast2,
    .grad     = real_div_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(div, MR_FLOATS_COMPLEX) MR_GPU_EACH(div)
                           MR_CPU_EACH_BY(div, MR_INTS, mr_integer_div_run)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], [2, 4, -8] -> [0.5, 0.5, -0.375]",
        "[[3], [5]], [2, 4] -> [[1.5, 0.75], [2.5, 1.25]]",
        "[3+1i], [1+1i] -> [2-1i]",
        "[6, 7], [2, 7] -> [3, 1]",
        "T=int32: [7, -7], 2 -> [3, -3]",
        "T=uint8: 1, 0 -> !INVALID_ARGUMENT Integer division by zero"));

MR_OP(DivNoNan,
    .doc      = "x / y, and 0 where y is 0",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {half, float, bfloat16, double, complex64, complex128}",
    .shape    = mr_shape_broadcast2,
    .grad     = div_no_nan_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(div_no_nan, MR_FLOATS_COMPLEX) MR_GPU_EACH(div_no_nan)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], [2, 4, -8] -> [0.5, 0.5, -0.375]",
        "[3+1i], [1+1i] -> [2-1i]",
        "nograd: [1, nan, inf, 0], 0 -> [0, 0, 0, 0]"));

MR_OP(Xdivy,
    .doc      = "x / y, and 0 where x is 0 whatever y is",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {half, float, double, complex64, complex128}",
    .shape    = mr_shape_broadcast2,
    .grad     = xdivy_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(xdivy, XDIVY_TYPES) MR_GPU_EACH(xdivy)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], [2, 4, -8] -> [0.5, 0.5, -0.375]",
        "[3+1i], [1+1i] -> [2-1i]",
        "nograd: [0, 0], [0, nan] -> [0, 0]",
        "T=float: [0, 0, 1], [0, nan, 0] -> [0, 0, inf]"));

MR_OP(Xlogy,
    .doc      = "x log(y), and 0 where x is 0 whatever y is",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {half, float, double, complex64, complex128}",
    .shape    = mr_shape_broadcast2,
    .grad     = xlogy_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(xlogy, XDIVY_TYPES) MR_GPU_EACH(xlogy)),
    .examples = MR_EXAMPLES(
        "[1, 2, -3], [1, 2, 4] -> [0, 1.386294361120, -4.158883083360]",
        "[1+1i], [1i] -> [-1.570796326795+1.570796326795i]",
        "nograd: [0, 0], [0, nan] -> [0, 0]",
        "T=float: [0, 0, 1], [0, nan, 0] -> [0, 0, -inf]"));
