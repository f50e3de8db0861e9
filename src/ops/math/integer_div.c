/* ops/math/integer_div.c -- FloorDiv, FloorMod, Mod, TruncateDiv, TruncateMod.
 *
 * A zero among the divisors fails the whole op. Every element of a broadcast operand is used in a result that is
 * not empty, so the divisors are checked first and the loops need not check. */
#include "ops/math/integer_div.h"

#include "ops/elementwise.h"

/* True if one of n elements of this size is zero. */
#define HAS_ZERO(T)                                   \
    do {                                              \
        const T *p = t->data;                         \
        bool zero = false;                            \
        for (int64_t i = 0; i < t->n; i++)            \
            zero |= p[i] == 0;                        \
        return zero;                                  \
    } while (0)

static bool has_zero(const mr_tensor *t)
{
    switch (mr_dtype_size((mr_dtype)t->dtype)) {
    case 1: HAS_ZERO(uint8_t);
    case 2: HAS_ZERO(uint16_t);
    case 4: HAS_ZERO(uint32_t);
    default: HAS_ZERO(uint64_t);
    }
}

mr_status *mr_integer_div_run(mr_run *r)
{
    if (mr_in(r, 0)->n > 0 && has_zero(mr_in(r, 1)))
        return mr_invalid("Integer division by zero");
    return mr_each_apply(r, r->kernel->user);
}

mr_status *mr_integer_inverse_run(mr_run *r)
{
    if (has_zero(mr_in(r, 0)))
        return mr_invalid("Integer division by zero");
    return mr_each_apply(r, r->kernel->user);
}

/* ---- integers of up to 32 bits, through floating point ----
 *
 * The CPU divides vectors of floating point numbers only. Their quotient, exact to far less than 1 / |y|, is rounded to
 * an integer in the low bits of its sum with a rounder; the remainder, which is between -|y| / 2 and |y| / 2, is then
 * moved to the side that the op wants. Everything wraps, so the minimum divided by -1 is itself. */

/* for 16 bits */
#define NEAREST_FLOAT(x, y) (mr_float_bits((float)(x) / (float)(y) + MR_ROUNDER) - mr_float_bits(MR_ROUNDER))

#define SMALL_UNSIGNED(M, ...) MR_TYPE_UINT8(M, __VA_ARGS__) MR_TYPE_UINT16(M, __VA_ARGS__)

MR_INLINE uint32_t low_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return (uint32_t)u;
}
#define NEAREST_DOUBLE(x, y) low_bits((double)(x) / (double)(y) + 6755399441055744.0) /* 1.5 * 2^52 */

/* x - y n for the nearest integer n to x / y. */
#define REST(nearest, x, y) (int32_t)((uint32_t)(x) - nearest(x, y) * (uint32_t)(y))

#define NARROW_DIV(name, S, nearest)                                                               \
    MR_INLINE uint32_t floor_div_##name(S x, S y)                                                  \
    {                                                                                              \
        int32_t r = REST(nearest, x, y);                                                           \
        return nearest(x, y) - (r != 0 && (r < 0) != (y < 0));                                     \
    }                                                                                              \
    MR_INLINE uint32_t floor_mod_##name(S x, S y)                                                  \
    {                                                                                              \
        int32_t r = REST(nearest, x, y);                                                           \
        return (uint32_t)r + (r != 0 && (r < 0) != (y < 0) ? (uint32_t)y : 0);                     \
    }                                                                                              \
    MR_INLINE uint32_t truncate_div_##name(S x, S y)                                               \
    {                                                                                              \
        int32_t r = REST(nearest, x, y);                                                           \
        uint32_t step = (x < 0) == (y < 0) ? 1 : UINT32_MAX;                                       \
        return nearest(x, y) - (r != 0 && (r < 0) != (x < 0) ? step : 0);                          \
    }
NARROW_DIV(8, int8_t, NEAREST_FLOAT)
NARROW_DIV(16, int16_t, NEAREST_FLOAT)
NARROW_DIV(32, int32_t, NEAREST_DOUBLE)

/* There is no such op for 8 and 16 bits. */
MR_INLINE uint32_t truncate_mod_32(int32_t x, int32_t y)
{
    int32_t r = REST(NEAREST_DOUBLE, x, y);
    uint32_t step = (x < 0) == (y < 0) ? (uint32_t)y : 0 - (uint32_t)y;
    return (uint32_t)r + (r != 0 && (r < 0) != (x < 0) ? step : 0);
}

/* Unsigned: the quotient is one less where the remainder is negative. Of 8 and 16 bits they are small int32. */
MR_INLINE uint32_t div_u16(uint32_t x, uint32_t y)
{
    uint32_t q = NEAREST_FLOAT((int32_t)x, (int32_t)y);
    return q - ((int32_t)(x - q * y) < 0);
}
MR_INLINE uint32_t div_u32(uint32_t x, uint32_t y)
{
    uint32_t q = NEAREST_DOUBLE(x, y);
    return q - ((int32_t)(x - q * y) < 0);
}

MR_BINARY(floor_div, MR_FLOATS, floor(x / y))
MR_BINARY_CLONED(floor_div, MR_TYPE_INT8, floor_div_8(x, y))
MR_BINARY_CLONED(floor_div, MR_TYPE_INT16, floor_div_16(x, y))
MR_BINARY_CLONED(floor_div, MR_TYPE_INT32, floor_div_32(x, y))
MR_BINARY(floor_div, MR_TYPE_INT64, mr_floor_div(x, y))
MR_BINARY_CLONED(floor_div, SMALL_UNSIGNED, div_u16(x, y))
MR_BINARY_CLONED(floor_div, MR_TYPE_UINT32, div_u32(x, y))
MR_BINARY(floor_div, MR_TYPE_UINT64, x / y)
MR_BINARY_ARRAYS(floor_mod, mr_vfloor_mod_f, mr_vfloor_mod_d)
MR_BINARY_CLONED(floor_mod, MR_TYPE_INT8, floor_mod_8(x, y))
MR_BINARY_CLONED(floor_mod, MR_TYPE_INT16, floor_mod_16(x, y))
MR_BINARY_CLONED(floor_mod, MR_TYPE_INT32, floor_mod_32(x, y))
MR_BINARY(floor_mod, MR_TYPE_INT64, mr_floor_mod(x, y))
MR_BINARY_CLONED(floor_mod, SMALL_UNSIGNED, x - div_u16(x, y) * y)
MR_BINARY_CLONED(floor_mod, MR_TYPE_UINT32, x - div_u32(x, y) * y)
MR_BINARY(floor_mod, MR_TYPE_UINT64, x % y)
MR_BINARY_ARRAYS(truncate_mod, mr_vfmod_f, mr_vfmod_d)
MR_BINARY_CLONED(truncate_mod, MR_TYPE_INT32, truncate_mod_32(x, y))
MR_BINARY(truncate_mod, MR_TYPE_INT64, mr_truncate_mod(x, y))
MR_BINARY(truncate_div, MR_FLOATS, trunc(x / y))
MR_BINARY_CLONED(truncate_div, MR_TYPE_INT8, truncate_div_8(x, y))
MR_BINARY_CLONED(truncate_div, MR_TYPE_INT16, truncate_div_16(x, y))
MR_BINARY_CLONED(truncate_div, MR_TYPE_INT32, truncate_div_32(x, y))
MR_BINARY(truncate_div, MR_TYPE_INT64, mr_truncate_div(x, y))
MR_BINARY_CLONED(truncate_div, SMALL_UNSIGNED, div_u16(x, y))
MR_BINARY_CLONED(truncate_div, MR_TYPE_UINT32, div_u32(x, y))
MR_BINARY(truncate_div, MR_TYPE_UINT64, x / y)

/* The derivative by x is 1; by y it is minus the quotient, which is constant around almost every point. */
static void floor_mod_backward(mr_grad *g)
{
    mr_out dz = mr_dyi(g, 0), q = mr_emit(g->s, "FloorDiv", mr_xi(g, 0), mr_xi(g, 1));
    mr_dx_broadcast(g, dz, mr_emit(g->s, "Mul", dz, mr_emit(g->s, "Neg", q)));
}

#define MOD_EXAMPLES                                                          \
    "[7, 6, 5], [4, 3, 7] -> [3, 0, 5]",                                      \
    "[5.5, -5.5], 2 -> [1.5, -1.5]",                                          \
    "T=int32: [-7, 7, -7], [2, -2, -2] -> [-1, 1, -1]",                       \
    "T=int64: -9223372036854775808, -1 -> 0",                                 \
    "T=float: [1, inf], [0, 2] -> [nan, nan]",                                \
    "T=int32: 1, 0 -> !INVALID_ARGUMENT Integer division by zero"

MR_OP(FloorDiv,
    .doc      = "x / y rounded down, element by element",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, "
                "uint64, int64, "
                "complex64, complex128}",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(floor_div, MR_FLOATS) MR_GPU_EACH(floor_div)
                           MR_CPU_EACH_BY(floor_div, MR_INTS, mr_integer_div_run)),
    .examples = MR_EXAMPLES(
        "[7, 6, 5], [2, 3, 7] -> [3, 2, 0]",
        "[-7, 7, -7, -6], [2, -2, -2, 2] -> [-4, -4, 3, -3]",
        "T=int8: -128, -1 -> -128",
        "T=float: [1, -1, 0], 0 -> [inf, -inf, nan]",
        "T=int32: 1, 0 -> !INVALID_ARGUMENT Integer division by zero"));

MR_OP(FloorMod,
    .doc      = "remainder of FloorDiv: it has the sign of y",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64, bfloat16, half, "
                "float, double}",
    .shape    = mr_shape_broadcast2,
    .grad     = floor_mod_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(floor_mod, MR_FLOATS)
                           MR_CPU_EACH_BY(floor_mod, MR_INTS, mr_integer_div_run)),
    .examples = MR_EXAMPLES(
        "[7, 6, 5], [4, 4, 7] -> [3, 2, 5]",
        "[-7, 7, -7], [2, -2, -2] -> [1, -1, -1]",
        "nograd: [-6, 6], [2, -2] -> [0, 0]",
        "[5.5, -5.5], [2, 3] -> [1.5, 0.5]",
        "T=int64: -9223372036854775808, -1 -> 0",
        "T=uint64: 18446744073709551615, 10 -> 5",
        "T=int32: 1, 0 -> !INVALID_ARGUMENT Integer division by zero"));

MR_OP(Mod,
    .doc      = "remainder of the division cut towards zero: it has the sign of x",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {int32, int64, half, half, bfloat16, float, double}",
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(truncate_mod, MR_FLOATS)
                           MR_CPU_EACH_BY(truncate_mod, MR_INDEXES, mr_integer_div_run)),
    .examples = MR_EXAMPLES(MOD_EXAMPLES));

MR_OP(TruncateMod,
    .doc      = "remainder of TruncateDiv: it has the sign of x",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {int32, int64, bfloat16, half, float, double}",
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(truncate_mod, MR_FLOATS)
                           MR_CPU_EACH_BY(truncate_mod, MR_INDEXES, mr_integer_div_run)),
    .examples = MR_EXAMPLES(MOD_EXAMPLES));

MR_OP(TruncateDiv,
    .doc      = "x / y cut towards zero, element by element",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, "
                "uint64, int64, "
                "complex64, complex128}",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(truncate_div, MR_FLOATS)
                           MR_CPU_EACH_BY(truncate_div, MR_INTS, mr_integer_div_run)),
    .examples = MR_EXAMPLES(
        "[7, 6, 5], [2, 3, 7] -> [3, 2, 0]",
        "[-7, 7, -7], [2, -2, -2] -> [-3, -3, 3]",
        "[5.5, -5.5], 2 -> [2, -2]",
        "T=float: [1, -1, 0], 0 -> [inf, -inf, nan]",
        "T=int32: -2147483648, -1 -> -2147483648",
        "T=int32: 1, 0 -> !INVALID_ARGUMENT Integer division by zero"));
