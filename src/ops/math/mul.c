/* ops/math/mul.c -- Mul, MulNoNan, Square and SquaredDifference. */
#include "ops/elementwise.h"

#define SQUARED_TYPES(M, ...) MR_FLOATS_COMPLEX(M, __VA_ARGS__) MR_INDEXES(M, __VA_ARGS__)

MR_BINARY(mul, MR_FLOATS_COMPLEX, x * y)
MR_BINARY(mul, MR_INTS, (uint64_t)x * (uint64_t)y)
MR_BINARY(mul_no_nan, MR_FLOATS_COMPLEX, y == 0 ? 0 : x * y)
MR_UNARY (square, MR_FLOATS_COMPLEX, x * x)
MR_UNARY (square, MR_INTS, (uint64_t)x * (uint64_t)x)
MR_BINARY(squared_difference, MR_FLOATS, (x - y) * (x - y))
MR_BINARY(squared_difference, MR_COMPLEXES, (x - y) * conj(x - y))
MR_BINARY(squared_difference, MR_INDEXES, ((uint64_t)x - (uint64_t)y) * ((uint64_t)x - (uint64_t)y))

/* The two gradients are emitted one after the other, not as arguments of one call: C leaves the order of those to the
 * compiler, and names of nodes, and with them the choice between equal placements, would depend on it. */
static void mul_backward(mr_grad *g)
{
    mr_out dz = mr_dyi(g, 0);
    mr_out dx = mr_emit(g->s, "Mul", dz, mr_conj(g, mr_xi(g, 1)));
    mr_dx_broadcast(g, dx, mr_emit(g->s, "Mul", mr_conj(g, mr_xi(g, 0)), dz));
}

/* Where y is 0 the product is 0 whatever x is, and so is its gradient by x. */
static void mul_no_nan_backward(mr_grad *g)
{
    mr_out dz = mr_dyi(g, 0);
    mr_out dx = mr_emit(g->s, "MulNoNan", dz, mr_conj(g, mr_xi(g, 1)));
    mr_dx_broadcast(g, dx, mr_emit(g->s, "MulNoNan", mr_conj(g, mr_xi(g, 0)), dz));
}

static void square_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0), twice = mr_emit(g->s, "Mul", dy, mr_scalar_like(g, 2, dy));
    mr_dxi(g, 0, mr_emit(g->s, "Mul", twice, mr_conj(g, mr_xi(g, 0))));
}

/* The result is real even for complex inputs, so only the real part of its gradient matters; with g = Re(dz) both
 * inputs get 2 g (x - y), up to the sign. */
static void squared_difference_backward(mr_grad *g)
{
    mr_out dz = mr_dyi(g, 0);
    if (mr_dtype_is_complex(mr_dtype_base(mr_out_type(dz)))) {
        mr_out sum = mr_emit(g->s, "AddV2", dz, mr_conj(g, dz));
        dz = mr_emit(g->s, "Mul", sum, mr_scalar_like(g, 0.5, dz));
    }
    mr_out twice = mr_emit(g->s, "Mul", dz, mr_scalar_like(g, 2, dz));
    mr_out dx = mr_emit(g->s, "Mul", twice, mr_emit(g->s, "Sub", mr_xi(g, 0), mr_xi(g, 1)));
    mr_dx_broadcast(g, dx, mr_emit(g->s, "Neg", dx));
}

MR_OP(Mul,
    .doc      = "x * y, element by element",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, "
                "uint64, int64, "
                "complex64, complex128}",
    .flags    = MR_COMMUTATIVE,
    .shape    = mr_shape_broadcast2,
    .grad     = mul_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(mul, MR_NUMBERS) MR_GPU_EACH(mul)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], [4, 5, 6] -> [4, 10, 18]",
        "2, [[1, 2], [3, 4]] -> [[2, 4], [6, 8]]",
        "[[1.5], [-2]], [2, 3, 4] -> [[3, 4.5, 6], [-4, -6, -8]]",
        "[1+2i], [3-1i] -> [5+5i]",
        "T=float: [inf, 0], [0, nan] -> [nan, nan]",
        "T=int16: 300, 300 -> 24464",
        "T=int32: 2147483647, 2 -> -2"));

MR_OP(MulNoNan,
    .doc      = "x * y, and 0 where y is 0 even if x is NaN or infinite",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {bfloat16, half, float, double, complex64, complex128}",
    .shape    = mr_shape_broadcast2,
    .grad     = mul_no_nan_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(mul_no_nan, MR_FLOATS_COMPLEX) MR_GPU_EACH(mul_no_nan)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], [4, 0, 6] -> [4, 0, 18]",
        "[1+1i], [2-1i] -> [3+1i]",
        "nograd: [nan, inf, nan], [0, 0, 1] -> [0, 0, nan]"));

MR_OP(Square,
    .doc      = "x * x of each element",
    .sig      = "x: T -> y: T",
    .attrs    = "T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, "
                "uint32, uint64, "
                "complex64, complex128}",
    .shape    = mr_shape_same,
    .grad     = square_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(square, MR_NUMBERS) MR_GPU_EACH(square)),
    .examples = MR_EXAMPLES(
        "[0, 1, 2, 3] -> [0, 1, 4, 9]",
        "[-1.5] -> [2.25]",
        "[1+2i] -> [-3+4i]",
        "T=int8: 12 -> -112"));

MR_OP(SquaredDifference,
    .doc      = "(x - y)^2, element by element; (x - y) conj(x - y) for complex numbers",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}",
    .flags    = MR_COMMUTATIVE,
    .shape    = mr_shape_broadcast2,
    .grad     = squared_difference_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(squared_difference, SQUARED_TYPES) MR_GPU_EACH(squared_difference)),
    .examples = MR_EXAMPLES(
        "[1, 5], [3, 4] -> [4, 1]",
        "[[1, 2]], [[0.5], [3]] -> [[0.25, 2.25], [4, 1]]",
        "[1+2i], [2+1i] -> [2]"));
