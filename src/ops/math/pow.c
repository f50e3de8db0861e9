/* ops/math/pow.c -- Pow. */
#include "ops/elementwise.h"

#define POW_INTS MR_SIGNED

/* Power by squaring; y is not negative. Wraps around. */
static inline uint64_t int_pow(int64_t x, int64_t y)
{
    uint64_t power = 1, square = (uint64_t)x;
    for (; y > 0; y >>= 1, square *= square)
        if (y & 1)
            power *= square;
    return power;
}

static void pow_float_loop(void *const *p, int64_t n) { mr_vpow_f(n, p[1], p[2], p[0]); }
MR_FLOAT_FAMILY(MR_EACH_CONST_ROW, ARRAY, pow)
MR_BINARY_SLOW(pow, MR_DOUBLE_COMPLEX, pow(MR_AS_READ(x), MR_AS_READ(y)))
MR_BINARY_SLOW(pow, POW_INTS, int_pow(x, y))

#define HAS_NEGATIVE(E, name, number, S, C, ...)          \
    case MR_##E:                                          \
        for (int64_t i = 0; i < t->n; i++)                \
            negative |= MR_DATA(S, t)[i] < 0;             \
        break;

static bool has_negative(const mr_tensor *t)
{
    bool negative = false;
    switch (t->dtype) {
        POW_INTS(HAS_NEGATIVE, )
    default: break;
    }
    return negative;
}

static mr_status *pow_ints(mr_run *r)
{
    if (mr_in(r, 0)->n > 0 && has_negative(mr_in(r, 1)))
        return mr_invalid("Integers to negative integer powers are not allowed");
    return mr_each_apply(r, r->kernel->user);
}

/* log(x) where it is finite and real, 0 elsewhere. */
static mr_out safe_log(mr_grad *g, mr_out x)
{
    bool is_complex = mr_dtype_is_complex(mr_dtype_base(mr_out_type(x)));
    mr_out zero = mr_scalar_like(g, 0, x);
    mr_out mask = mr_emit(g->s, is_complex ? "NotEqual" : "Greater", x, zero);
    mr_out safe = mr_emit(g->s, "Select", mask, x, mr_ones_like(g, x));
    return mr_emit(g->s, "Log", safe); /* log 1 is the 0 that is needed */
}

/* MulNoNan: where dz is 0, the gradient is 0 too, even if the slope is infinite. */
static void pow_backward(mr_grad *g)
{
    mr_out x = mr_conj(g, mr_xi(g, 0)), y = mr_conj(g, mr_xi(g, 1)), z = mr_conj(g, mr_yi(g, 0)),
           dz = mr_dyi(g, 0);
    mr_out less = mr_emit(g->s, "Sub", y, mr_scalar_like(g, 1, y));
    mr_out by_x = mr_emit(g->s, "Mul", y, mr_emit(g->s, "Pow", x, less));
    mr_out by_y = mr_emit(g->s, "Mul", z, safe_log(g, x));
    mr_out dx = mr_emit(g->s, "MulNoNan", by_x, dz);
    mr_dx_broadcast(g, dx, mr_emit(g->s, "MulNoNan", by_y, dz));
}

MR_OP(Pow,
    .doc      = "x to the power y, element by element",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {bfloat16, float, half, double, int8, int16, int32, int64, complex64, "
                "complex128}",
    .shape    = mr_shape_broadcast2,
    .grad     = pow_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(pow, MR_FLOATS_COMPLEX) {.device = MR_ACCEL_KERNELS, .type = MR_FLOAT, .run = mr_each_run_accel, .user = "each_power"},
                           MR_CPU_EACH_BY(pow, POW_INTS, pow_ints)),
    .examples = MR_EXAMPLES(
        "[2, 3, 5], [3, 2, 0] -> [8, 9, 1]",
        "[4, 2], [[0.5], [-1]] -> [[2, 1.414213562373], [0.25, 0.5]]",
        "nograd: [-2, -2], [2, 3] -> [4, -8]", "[1i], [2] -> [-1]",
        "[1+1i], [2+1i] -> [-0.309743504928+0.857658012589i]",
        "T=float nograd: [0, 0, -8, inf, nan], [0, -1, 0.5, 2, 0] -> [1, inf, nan, inf, 1]",
        "T=int8: 2, 7 -> -128",
        "T=int32: [2, 2], [3, -1] -> !INVALID_ARGUMENT Integers to negative integer powers are not "
        "allowed"));
