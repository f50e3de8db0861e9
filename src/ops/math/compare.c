/* ops/math/compare.c -- Less, Greater, LessEqual, GreaterEqual; LogicalAnd, LogicalOr, LogicalNot. */
#include "ops/elementwise.h"

MR_COMPARE(less, MR_REALS, x < y)
MR_COMPARE(less_equal, MR_REALS, x <= y)
MR_COMPARE(greater, MR_REALS, x > y)
MR_COMPARE(greater_equal, MR_REALS, x >= y)

/* A bool fed from outside may be any byte: any non-zero byte is true. */
MR_COMPARE(logical_and, MR_TYPE_UINT8, (x != 0) & (y != 0))
MR_COMPARE(logical_or, MR_TYPE_UINT8, (x | y) != 0)
MR_TEST_UNARY(logical_not, MR_TYPE_UINT8, x == 0)


#define LOGICAL(each) {.device = "CPU", .run = mr_each_run, .user = (void *)(uintptr_t)&each, .form = MR_FORM_BROADCAST},
#define REALS "T: realnumbertype"

MR_OP(Less,
    .doc      = "x < y, element by element",
    .sig      = "x: T, y: T -> z: bool",
    .attrs    = REALS,
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(less, MR_REALS) MR_GPU_EACH(less)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], [2, 2, 2] -> [true, false, false]",
        "[[1], [3]], [2, 4] -> [[true, true], [false, true]]",
        "[nan, 1], [1, nan] -> [false, false]",
        "T=uint8: 200, 100 -> false"));

MR_OP(LessEqual,
    .doc      = "x <= y, element by element",
    .sig      = "x: T, y: T -> z: bool",
    .attrs    = REALS,
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(less_equal, MR_REALS) MR_GPU_EACH(less_equal)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], 2 -> [true, true, false]", "[nan, 1], [1, nan] -> [false, false]"));

MR_OP(Greater,
    .doc      = "x > y, element by element",
    .sig      = "x: T, y: T -> z: bool",
    .attrs    = REALS,
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(greater, MR_REALS) MR_GPU_EACH(greater)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], 2 -> [false, false, true]", "[nan, 1], [1, nan] -> [false, false]"));

MR_OP(GreaterEqual,
    .doc      = "x >= y, element by element",
    .sig      = "x: T, y: T -> z: bool",
    .attrs    = REALS,
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(greater_equal, MR_REALS) MR_GPU_EACH(greater_equal)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], 2 -> [false, true, true]", "[nan, 1], [1, nan] -> [false, false]"));

MR_OP(LogicalAnd,
    .doc      = "x and y, element by element",
    .sig      = "x: bool, y: bool -> z: bool",
    .flags    = MR_COMMUTATIVE | MR_NO_GRADIENT,
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(LOGICAL(logical_and_uint8)),
    .examples = MR_EXAMPLES(
        "[false, false, true, true], [false, true, false, true] -> [false, false, false, true]",
        "[[true], [false]], [true, false] -> [[true, false], [false, false]]"));

MR_OP(LogicalOr,
    .doc      = "x or y, element by element",
    .sig      = "x: bool, y: bool -> z: bool",
    .flags    = MR_COMMUTATIVE | MR_NO_GRADIENT,
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(LOGICAL(logical_or_uint8)),
    .examples = MR_EXAMPLES(
        "[false, false, true, true], [false, true, false, true] -> [false, true, true, true]",
        "[false, true], false -> [false, true]"));

MR_OP(LogicalNot,
    .doc      = "not x of each element",
    .sig      = "x: bool -> y: bool",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(LOGICAL(logical_not_uint8)),
    .examples = MR_EXAMPLES("[false, true] -> [true, false]"));
