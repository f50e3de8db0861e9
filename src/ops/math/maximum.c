/* ops/math/maximum.c -- Maximum and Minimum. */
#include "ops/elementwise.h"

MR_BINARY(maximum, MR_REALS, MR_LARGER(x, y))
MR_BINARY(minimum, MR_REALS, MR_SMALLER(x, y))

/* The whole gradient goes to the input that was chosen; to x if both are equal. */
static void choice_backward(mr_grad *g, const char *test)
{
    mr_out dz = mr_dyi(g, 0), zero = mr_zeros_like(g, dz);
    mr_out mask = mr_emit(g->s, test, mr_xi(g, 0), mr_xi(g, 1));
    mr_out dx = mr_emit(g->s, "Select", mask, dz, zero);
    mr_dx_broadcast(g, dx, mr_emit(g->s, "Select", mask, zero, dz));
}

static void maximum_backward(mr_grad *g) { choice_backward(g, "GreaterEqual"); }
static void minimum_backward(mr_grad *g) { choice_backward(g, "LessEqual"); }

#define ORDERED \
    "T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64}"

MR_OP(Maximum,
    .doc      = "the larger of x and y, element by element; NaN when either is",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = ORDERED,
    .shape    = mr_shape_broadcast2,
    .grad     = maximum_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(maximum, MR_REALS) MR_GPU_EACH(maximum)),
    .examples = MR_EXAMPLES(
        "[1, 5, 3], [4, 2, 0] -> [4, 5, 3]",
        "nograd: [1, 5, 3], 3 -> [3, 5, 3]",
        "[[1, -2]], [[0], [-3]] -> [[1, 0], [1, -2]]",
        "nograd: [nan, 1, inf], [1, nan, 1] -> [nan, nan, inf]"));

MR_OP(Minimum,
    .doc      = "the smaller of x and y, element by element; NaN when either is",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = ORDERED,
    .shape    = mr_shape_broadcast2,
    .grad     = minimum_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(minimum, MR_REALS) MR_GPU_EACH(minimum)),
    .examples = MR_EXAMPLES(
        "[1, 5, 3], [4, 2, 0] -> [1, 2, 0]",
        "nograd: [1, 5, 3], 3 -> [1, 3, 3]",
        "[[1, -2]], [[0], [-3]] -> [[0, -2], [-3, -3]]",
        "nograd: [nan, 1, -inf], [1, nan, 1] -> [nan, nan, -inf]"));
