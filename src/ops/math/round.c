/* ops/math/round.c -- Floor, Ceil, Round, Rint, and the tests IsNan, IsInf, IsFinite.
 *
 * The gradient of a step function is zero almost everywhere, so there is none. */
#include "ops/elementwise.h"

MR_UNARY(floor, MR_FLOATS, floor(x))
MR_UNARY(ceil, MR_FLOATS, ceil(x))
MR_UNARY(rint, MR_FLOATS, rint(x)) /* ties to even: the rounding mode is always nearest */

/* Each part separately: multiplying by I would turn an infinite part into NaN. */
#define RINT_PARTS(E, name, number, S, C, R)                    \
    static void rint_##name##_loop(void *const *p, int64_t n)   \
    {                                                           \
        const R *x = p[1];                                      \
        R *y = p[0];                                            \
        for (int64_t i = 0; i < 2 * n; i++)                     \
            y[i] = rint(x[i]);                                  \
    }                                                           \
    static const mr_each rint_##name = {rint_##name##_loop, false, 1.0f};
MR_TYPE_COMPLEX64(RINT_PARTS, float)
MR_TYPE_COMPLEX128(RINT_PARTS, double)

MR_TEST_UNARY(is_nan, MR_FLOATS, x != x)
MR_TEST_UNARY(is_inf, MR_FLOATS, fabs(x) == INFINITY)
MR_TEST_UNARY(is_finite, MR_FLOATS, fabs(x) < INFINITY)

static mr_status *round_int(mr_run *r)
{
    mr_run_pass(r, 0, 0);
    return NULL;
}

#define FLOATS "T: {bfloat16, half, float, double}"

MR_OP(Floor,
    .doc      = "largest integer not above each element",
    .sig      = "x: T -> y: T",
    .attrs    = FLOATS,
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_EACH(floor, MR_FLOATS) MR_GPU_EACH(floor)),
    .examples = MR_EXAMPLES(
        "[1.5, -1.5, 2, -0.25] -> [1, -2, 2, -1]", "[inf, nan, -0] -> [inf, nan, -0]"));

MR_OP(Ceil,
    .doc      = "smallest integer not below each element",
    .sig      = "x: T -> y: T",
    .attrs    = FLOATS,
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_EACH(ceil, MR_FLOATS) MR_GPU_EACH(ceil)),
    .examples = MR_EXAMPLES(
        "[1.5, -1.5, 2, 0.25] -> [2, -1, 2, 1]", "[inf, nan, -0.5] -> [inf, nan, -0]"));

MR_OP(Round,
    .doc      = "nearest integer of each element, the even one of two",
    .sig      = "x: T -> y: T",
    .attrs    = "T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, "
                "complex128}",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_EACH(rint, MR_FLOATS) MR_GPU_EACH(rint) MR_CPU_ONE(round_int, MR_SIGNED)
                           MR_CPU_EACH(rint, MR_COMPLEXES)),
    .examples = MR_EXAMPLES(
        "[0.5, 1.5, 2.5, -0.5, -1.5] -> [0, 2, 2, -0, -2]",
        "[1, -3] -> [1, -3]",
        "[0.5-1.5i, 2.25+1i] -> [0-2i, 2+1i]",
        "[inf, nan] -> [inf, nan]"));

MR_OP(Rint,
    .doc      = "nearest integer of each element, the even one of two",
    .sig      = "x: T -> y: T",
    .attrs    = FLOATS,
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_EACH(rint, MR_FLOATS) MR_GPU_EACH(rint)),
    .examples = MR_EXAMPLES("[0.5, 1.5, 2.5, -0.5, -1.7] -> [0, 2, 2, -0, -2]"));

MR_OP(IsNan,
    .doc      = "which elements are not a number",
    .sig      = "x: T -> y: bool",
    .attrs    = FLOATS,
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_EACH(is_nan, MR_FLOATS) MR_GPU_EACH(is_nan)),
    .examples = MR_EXAMPLES("[1, nan, inf, -inf] -> [false, true, false, false]"));

MR_OP(IsInf,
    .doc      = "which elements are infinite",
    .sig      = "x: T -> y: bool",
    .attrs    = FLOATS,
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_EACH(is_inf, MR_FLOATS) MR_GPU_EACH(is_inf)),
    .examples = MR_EXAMPLES("[1, nan, inf, -inf] -> [false, false, true, true]"));

MR_OP(IsFinite,
    .doc      = "which elements are neither infinite nor NaN",
    .sig      = "x: T -> y: bool",
    .attrs    = FLOATS,
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_EACH(is_finite, MR_FLOATS) MR_GPU_EACH(is_finite)),
    .examples = MR_EXAMPLES("[1, nan, inf, -inf] -> [true, false, false, false]"));
