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

/* ---- one exponent for all elements ---- */

/* Powers by products and roots, as TensorFlow's arithmetic optimizer writes them. They are at most 2 ulp off (the cube 1);
 * x^0 is 1 for NaN too, and the roots of -0 and -inf are those of C's pow. */
MR_UNARY(power_0, MR_FLOATS, ((void)x, 1))
MR_UNARY(power_1, MR_FLOATS, x)
MR_UNARY(power_2, MR_FLOATS, x * x)
MR_UNARY(power_3, MR_FLOATS, x * x * x)
MR_UNARY(power_4, MR_FLOATS, (x * x) * (x * x))
MR_UNARY(power_minus_1, MR_FLOATS, 1 / x)
MR_UNARY(power_minus_2, MR_FLOATS, (1 / x) * (1 / x)) /* 1 / x^2 would round in denormals */
MR_UNARY(power_half, MR_FLOATS, x == -INFINITY ? -x : sqrt(x + 0))
MR_UNARY(power_minus_half, MR_FLOATS, x == -INFINITY ? 0 : 1 / sqrt(x + 0))
MR_UNARY(power_2, POW_INTS, (uint64_t)x * (uint64_t)x)
MR_UNARY(power_3, POW_INTS, (uint64_t)x * (uint64_t)x * (uint64_t)x)

typedef struct fixed_power {
    double exponent;
    const mr_each *each; /* a loop that reads x only */
} fixed_power;

enum { MAX_FIXED = 10 };
#define FLOAT_POWERS(E, name, ...)                                                                       \
    static const fixed_power powers_##name[MAX_FIXED] = {                                                \
        {0, &power_0_##name}, {1, &power_1_##name}, {2, &power_2_##name}, {3, &power_3_##name},          \
        {4, &power_4_##name}, {-1, &power_minus_1_##name}, {-2, &power_minus_2_##name},                  \
        {0.5, &power_half_##name}, {-0.5, &power_minus_half_##name}};
#define INT_POWERS(E, name, ...) \
    static const fixed_power powers_##name[MAX_FIXED] = {{2, &power_2_##name}, {3, &power_3_##name}};
MR_FLOATS(FLOAT_POWERS, )
POW_INTS(INT_POWERS, )

static const fixed_power *fixed_powers(mr_dtype type)
{
    switch (type) {
#define CASE(E, name, ...) \
    case MR_##E: return powers_##name;
        MR_FLOATS(CASE, ) POW_INTS(CASE, )
#undef CASE
    default: return NULL;
    }
}

/* Runs the general loop, or the one for the exponent if it is a single number that has one. */
static mr_status *pow_run(mr_run *r)
{
    const mr_tensor *y = mr_in(r, 1);
    const fixed_power *f = y->n == 1 ? fixed_powers((mr_dtype)y->dtype) : NULL;
    double exponent;
    if (f) {
        mr_dtype_convert((mr_dtype)y->dtype, y->data, MR_DOUBLE, &exponent, 1, false);
        for (; f->each; f++)
            if (f->exponent == exponent)
                return mr_each_apply(r, f->each);
    }
    return mr_each_apply(r, r->kernel->user);
}

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
    return pow_run(r);
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
    .kernels  = MR_KERNELS(MR_CPU_EACH_BY(pow, MR_FLOATS, pow_run) MR_CPU_EACH(pow, MR_COMPLEXES)
                           {.device = MR_ACCEL_KERNELS, .type = MR_FLOAT, .run = mr_each_run_accel, .user = "each_power"},
                           MR_CPU_EACH_BY(pow, POW_INTS, pow_ints)),
    .examples = MR_EXAMPLES(
        "[2, 3, 5], [3, 2, 0] -> [8, 9, 1]",
        "[4, 2], [[0.5], [-1]] -> [[2, 1.414213562373], [0.25, 0.5]]",
        "nograd: [-2, -2], [2, 3] -> [4, -8]", "[1i], [2] -> [-1]",
        "[1+1i], [2+1i] -> [-0.309743504928+0.857658012589i]",
        "T=float nograd: [0, 0, -8, inf, nan], [0, -1, 0.5, 2, 0] -> [1, inf, nan, inf, 1]",
        "T=float nograd: [-0.0, -inf, nan, -2], 0.5 -> [0, inf, nan, nan]",
        "T=float nograd: [-0.0, -inf, nan], -0.5 -> [inf, 0, nan]",
        "T=float nograd: [-0.0, -2, inf], -1 -> [-inf, -0.5, 0]", "T=float nograd: [nan, 0], 0 -> [1, 1]",
        "[[1, 2]], [[[3]]] -> [[[1, 8]]]", "T=float: shape(0), 2 -> shape(0)",
        "T=int8: 2, 7 -> -128", "T=int8: [-128, 13], 2 -> [0, -87]", "T=int32: [-3, 2], 3 -> [-27, 8]",
        "T=int32: [2, 2], [3, -1] -> !INVALID_ARGUMENT Integers to negative integer powers are not "
        "allowed"));
