/* ops/math/bitwise.c -- integers as bit vectors: BitwiseAnd, BitwiseOr, BitwiseXor, Invert, LeftShift, RightShift,
 * PopulationCount. */
#include "ops/elementwise.h"

/* Shifts by a negative number or by more than the number of bits are undefined in C. As in TensorFlow the amount is
 * limited to 0 .. bits - 1 first. */
#define BITS(y) (8 * sizeof(y))
#define AMOUNT(y) ((y) >= 1 ? (uint64_t)(y) < BITS(y) ? (uint64_t)(y) : BITS(y) - 1 : 0)

MR_BINARY(bitwise_and, MR_INTS, x & y)
MR_BINARY(bitwise_or, MR_INTS, x | y)
MR_BINARY(bitwise_xor, MR_INTS, x ^ y)
MR_UNARY(invert, MR_INTS, ~x)
MR_BINARY(left_shift, MR_INTS, (uint64_t)x << AMOUNT(y))
MR_BINARY(right_shift, MR_INTS, x >> AMOUNT(y))

/* The results have another type than the elements: one byte each. The sign of a narrow number must not be extended
 * to bits that it does not have. */
#define MR_EACH_COUNT(S) uint8_t
#define OWN_BITS(x) ((uint64_t)(x) & UINT64_MAX >> (64 - BITS(x)))
MR_EACH(1, COUNT, FAST, population_count, MR_INTS, (__builtin_popcountll(OWN_BITS(x))))

#define TYPES "T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64}"

MR_OP(BitwiseAnd,
    .doc      = "the bits that are set in x and y, element by element",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = TYPES,
    .flags    = MR_COMMUTATIVE,
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(bitwise_and, MR_INTS)),
    .examples = MR_EXAMPLES(
        "[0, 5, 3, 14], [5, 0, 7, 11] -> [0, 0, 3, 10]", "[[1], [6]], [3, 4] -> [[1, 0], [2, 4]]",
        "[-1, -2], 127 -> [127, 126]", "T=uint64: 18446744073709551615, 9 -> 9",
        "shape(0), 1 -> shape(0)", "[1, 2], [1, 2, 3] -> !INVALID_ARGUMENT must be equal"));

MR_OP(BitwiseOr,
    .doc      = "the bits that are set in x or y, element by element",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = TYPES,
    .flags    = MR_COMMUTATIVE,
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(bitwise_or, MR_INTS)),
    .examples = MR_EXAMPLES(
        "[0, 5, 3, 14], [5, 0, 7, 11] -> [5, 5, 7, 15]", "[-128, 1], 1 -> [-127, 1]",
        "[1, 2], [1, 2, 3] -> !INVALID_ARGUMENT must be equal"));

MR_OP(BitwiseXor,
    .doc      = "the bits that differ between x and y, element by element",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = TYPES,
    .flags    = MR_COMMUTATIVE,
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(bitwise_xor, MR_INTS)),
    .examples = MR_EXAMPLES(
        "[0, 5, 3, 14], [5, 0, 7, 11] -> [5, 5, 4, 5]", "[-1, -2], -1 -> [0, 1]",
        "[1, 2], [1, 2, 3] -> !INVALID_ARGUMENT must be equal"));

MR_OP(Invert,
    .doc      = "each bit the other way",
    .sig      = "x: T -> y: T",
    .attrs    = TYPES,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_EACH(invert, MR_INTS)),
    .examples = MR_EXAMPLES(
        "T=int8: [0, 5, -128] -> [-1, -6, 127]", "T=uint8: [0, 5, 255] -> [255, 250, 0]",
        "T=uint16: 1 -> 65534", "[-1, -8] -> [0, 7]", "shape(2,0) -> shape(2,0)",
        "T=uint64: 0 -> 18446744073709551615", "T=uint32: 0 -> 4294967295"));

MR_OP(LeftShift,
    .doc      = "x with its bits moved up by y, which is taken as between 0 and the number of bits "
                "less one",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = TYPES,
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(left_shift, MR_INTS)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], [0, 3, 4] -> [1, 16, 48]",
        "T=int8: [-1, -5, -1], [3, 7, 9] -> [-8, -128, -128]",
        "[-1, 3], -5 -> [-1, 3]",
        "T=int32: 1, [31, 32, 100] -> [-2147483648, -2147483648, -2147483648]",
        "T=uint8: 255, [1, 8, 200] -> [254, 128, 128]",
        "T=uint64: 1, 18446744073709551615 -> 9223372036854775808", "shape(0), 1 -> shape(0)",
        "[1, 2], [1, 2, 3] -> !INVALID_ARGUMENT must be equal"));

MR_OP(RightShift,
    .doc      = "x with its bits moved down by y, which is taken as between 0 and the number of "
                "bits "
                "less one; the sign stays",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = TYPES,
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(right_shift, MR_INTS)),
    .examples = MR_EXAMPLES(
        "[1, 16, 100], [0, 3, 4] -> [1, 2, 6]", "[-1, -64, -128], [3, 3, 9] -> [-1, -8, -1]",
        "T=int32: -64, [3, 31, 32, -1] -> [-8, -1, -1, -64]",
        "T=uint8: 255, [1, 8, 200] -> [127, 1, 1]",
        "T=uint64: 18446744073709551615, 63 -> 1",
        "[1, 2], [1, 2, 3] -> !INVALID_ARGUMENT must be equal"));

MR_OP(PopulationCount,
    .doc      = "how many bits of each element are set",
    .sig      = "x: T -> y: uint8",
    .attrs    = TYPES,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_EACH(population_count, MR_INTS)),
    .examples = MR_EXAMPLES(
        "[0, 1, 7, 100] -> [0, 1, 3, 3]", "T=int8: [-1, -128] -> [8, 1]", "T=int16: -1 -> 16",
        "T=int32: -1 -> 32", "T=int64: [-1, -2] -> [64, 63]", "T=uint8: 255 -> 8",
        "shape(0,3) -> shape(0,3)"));
