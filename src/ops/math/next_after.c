/* ops/math/next_after.c -- other element-wise ops of two arguments: NextAfter, Xlog1py, ApproximateEqual, Cross. */
#include "ops/elementwise.h"
#include "run/run.h"

#define XLOG1PY_TYPES(M, ...) \
    HALF_AND_MORE(M, __VA_ARGS__) MR_COMPLEXES(M, __VA_ARGS__)

MR_BINARY_SLOW(next_after, MR_FLOATS32, nextafter(x, y))

/* ---- Xlog1py ---- */

/* C has no log1p for complex numbers; near 0 it must not compute 1 + something small. */
#define COMPLEX_LOG1P(C, R, name)                                                   \
    static C log1p_##name(C x)                                                      \
    {                                                                               \
        R a = creal(x), b = cimag(x);                                               \
        bool near = fabs(a) < 0.5 && fabs(b) < 0.5;                                 \
        R re = near ? log1p(a * (2 + a) + b * b) / 2 : log(hypot(1 + a, b));        \
        return re + (C)I * (R)atan2(b, 1 + a);                                      \
    }
COMPLEX_LOG1P(mr_c64, float, c64)
COMPLEX_LOG1P(mr_c128, double, c128)

#define HALF_AND_MORE(M, ...) MR_TYPE_HALF(M, __VA_ARGS__) MR_FLOATS32(M, __VA_ARGS__)
MR_BINARY_SLOW(xlog1py, HALF_AND_MORE, x == 0 ? 0 : x * log1p(y))
MR_BINARY_SLOW(xlog1py, MR_TYPE_COMPLEX64, x == 0 ? 0 : x * log1p_c64(y))
MR_BINARY_SLOW(xlog1py, MR_TYPE_COMPLEX128, x == 0 ? 0 : x * log1p_c128(y))

/* By x: log1p(y) where x is not 0; by y: x / (1 + y), 0 where x is 0. */
static void xlog1py_backward(mr_grad *g)
{
    mr_out x = mr_conj(g, mr_xi(g, 0)), y = mr_conj(g, mr_xi(g, 1)), dz = mr_dyi(g, 0);
    mr_dtype type = mr_dtype_base(mr_out_type(x));
    mr_out mask = mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(type)}),
                               mr_emit(g->s, "NotEqual", x, mr_scalar_like(g, 0, x)));
    mr_out by_x = mr_emit(g->s, "Xlog1py", mask, y);
    mr_out by_y =
        mr_emit(g->s, "Xdivy", x, mr_emit(g->s, "AddV2", y, mr_scalar_like(g, 1, y)));
    mr_out dx = mr_emit(g->s, "Mul", dz, by_x);
    mr_dx_broadcast(g, dx, mr_emit(g->s, "Mul", dz, by_y));
}

MR_OP(NextAfter,
    .doc      = "the number next to x1 in the direction of x2, element by element",
    .sig      = "x1: T, x2: T -> output: T",
    .attrs    = "T: {double, float} = DT_FLOAT",
    .shape    = mr_shape_broadcast2,
    .kernels  = MR_KERNELS(MR_CPU_EACH(next_after, MR_FLOATS32)),
    .examples = MR_EXAMPLES(
        "T=float: [1, 1, 2], [2, 0, 2] -> [1.00000012, 0.99999994, 2]",
        "T=double: 1, [2, 0] -> [1.0000000000000002, 0.99999999999999989]",
        "T=float: [nan, 1, inf], [1, nan, 0] -> [nan, nan, 3.4028234e38]",
        "shape(0), 1 -> shape(0)", "[1, 2], [1, 2, 3] -> !INVALID_ARGUMENT must be equal"));

MR_OP(Xlog1py,
    .doc      = "x log(1 + y), and 0 where x is 0 whatever y is",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {half, float, double, complex64, complex128}",
    .shape    = mr_shape_broadcast2,
    .grad     = xlog1py_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(xlog1py, XLOG1PY_TYPES)),
    .examples = MR_EXAMPLES(
        "[1, 2, -3], [0, 1, 3] -> [0, 1.386294361120, -4.158883083360]",
        "[1+1i], [1i] -> [-0.438824573117+1.131971753677i]",
        "T=double: 1, [1e-10] -> [9.9999999995e-11]",
        "nograd: [0, 0], [-1, nan] -> [0, 0]", "T=float nograd: [1, 1], [-1, -2] -> [-inf, nan]"));

/* ---- ApproximateEqual ---- */

/* The tolerance is converted to the type first: for integers one below 1 becomes 0, and no difference is smaller
 * than that. Differences of integers wrap around. */
#define NEAR(E, name, number, S, C, difference)                                              \
    static void near_##name(const mr_tensor *x, const mr_tensor *y, double tolerance, bool *z) \
    {                                                                                        \
        const C limit = (C)tolerance;                                                        \
        for (int64_t i = 0; i < x->n; i++) {                                                 \
            const C a = MR_LD(MR_DATA(S, x) + i), b = MR_LD(MR_DATA(S, y) + i);              \
            z[i] = difference(C, a, b) < limit;                                              \
        }                                                                                    \
    }
#define APART_FLOATING(C, a, b) fabs(a - b)
#define LESS(C, a, b) ((C)((uint64_t)(a) - (uint64_t)(b)))
#define APART_SIGNED(C, a, b) (LESS(C, a, b) < 0 ? LESS(C, b, a) : LESS(C, a, b))
#define APART_UNSIGNED(C, a, b) ((C)(a > b ? a - b : b - a))
MR_FLOATS(NEAR, APART_FLOATING)
MR_SIGNED(NEAR, APART_SIGNED)
MR_UNSIGNED(NEAR, APART_UNSIGNED)
#define NEAR_COMPLEX(E, name, number, S, C, R)                                               \
    static void near_##name(const mr_tensor *x, const mr_tensor *y, double tolerance, bool *z) \
    {                                                                                        \
        for (int64_t i = 0; i < x->n; i++)                                                   \
            z[i] = fabs(MR_DATA(S, x)[i] - MR_DATA(S, y)[i]) < (R)tolerance;                 \
    }
MR_TYPE_COMPLEX64(NEAR_COMPLEX, float)
MR_TYPE_COMPLEX128(NEAR_COMPLEX, double)

typedef void near_fn(const mr_tensor *x, const mr_tensor *y, double tolerance, bool *z);
typedef struct tolerance_state {
    double tolerance;
} tolerance_state;

/* Converting a tolerance that no integer type can hold would be undefined. */
static mr_status *tolerance_init(mr_make *m, void *state)
{
    float v;
    MR_TRY(mr_node_get_float(m->node, "tolerance", &v));
    if (fabsf(v) < FLT_MIN) /* threads that flush denormals would read it as 0, others would not */
        v = 0;
    bool integer = !mr_dtype_is_floating((mr_dtype)m->kernel->type) &&
                   !mr_dtype_is_complex((mr_dtype)m->kernel->type);
    ((tolerance_state *)state)->tolerance =
        integer && !(v >= 0 && v <= 127) ? (v > 127 ? 127 : 0) : v;
    return NULL;
}

static mr_status *approximate_equal(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *y = mr_in(r, 1);
    mr_tensor *z;
    if (!mr_tensor_same_shape(x, y))
        return mr_invalid("x and y must be of the same shape. x shape: %s. y shape: %s",
                          MR_TENSOR_SHAPE(x), MR_TENSOR_SHAPE(y));
    MR_TRY(mr_run_output(r, 0, x->rank, x->dims, &z));
    ((near_fn *)r->kernel->user)(x, y, ((tolerance_state *)r->state)->tolerance, z->data);
    return NULL;
}

#define NEAR_ROW(E, name, number, S, C, ...) \
    {.device = "CPU",                        \
     .type = MR_##E,                         \
     .run = approximate_equal,               \
     .user = (void *)(uintptr_t)near_##name},

MR_OP(ApproximateEqual,
    .doc      = "whether |x - y| < tolerance, element by element",
    .sig      = "x: T, y: T -> z: bool",
    .attrs    = "T: numbertype; tolerance: float = 1e-05",
    .flags    = MR_COMMUTATIVE | MR_NO_GRADIENT,
    .shape    = mr_shape_merge_all,
    .kernels  = MR_KERNELS(MR_NUMBERS(NEAR_ROW, ) MR_CODES(NEAR_ROW, )),
    .state_bytes = sizeof(tolerance_state), .init = tolerance_init,
    .examples = MR_EXAMPLES(
        "tolerance=2: [1, 4, 9], [2, 4, 6] -> [true, true, false]",
        "T=float: [1, 1, nan], [1.000001, 1.0001, nan] -> [true, false, false]",
        "tolerance=0.75: [1+1i, 1], [1+1.5i, 2] -> [true, false]",
        "T=double tolerance=0: [1], [1] -> [false]", "shape(0), shape(0) -> shape(0)",
        "[1, 2], [1, 2, 3] -> !INVALID_ARGUMENT must be equal",
        "y = PlaceholderWithDefault dtype=$T shape=?: [1, 2]; : 1, y -> !INVALID_ARGUMENT x and y "
        "must be of the same shape"));

/* ---- Cross ---- */

/* 64 bits are enough, because the result is narrowed again. */
#define CROSS(E, name, number, S, C, P)                                                   \
    static void cross_##name(const void *from_a, const void *from_b, void *to, int64_t n) \
    {                                                                                     \
        const S *a = from_a, *b = from_b;                                                 \
        S *out = to;                                                                      \
        for (int64_t i = 0; i < n; i++, a += 3, b += 3, out += 3) {                       \
            P x = (P)MR_LD(a), y = (P)MR_LD(a + 1), z = (P)MR_LD(a + 2);                  \
            P u = (P)MR_LD(b), v = (P)MR_LD(b + 1), w = (P)MR_LD(b + 2);                  \
            MR_ST(out, (C)(y * w - z * v));                                               \
            MR_ST(out + 1, (C)(z * u - x * w));                                           \
            MR_ST(out + 2, (C)(x * v - y * u));                                           \
        }                                                                                 \
    }
MR_FLOATS16(CROSS, float)
MR_TYPE_FLOAT(CROSS, float)
MR_TYPE_DOUBLE(CROSS, double)
MR_INTS(CROSS, uint64_t)
typedef void cross_fn(const void *a, const void *b, void *out, int64_t n);

static mr_status *run_cross(mr_run *r)
{
    const mr_tensor *a = mr_in(r, 0), *b = mr_in(r, 1);
    mr_tensor *out;
    if (!mr_tensor_same_shape(a, b))
        return mr_invalid("Both inputs must be of same shape: %s vs. %s", MR_TENSOR_SHAPE(a),
                          MR_TENSOR_SHAPE(b));
    if (a->rank < 1)
        return mr_invalid("Input must be at least 1D, not a scalar");
    if (a->dims[a->rank - 1] != 3)
        return mr_error(MR_FAILED_PRECONDITION,
                        "Cross-products are only defined for 3-element vectors, not for %s",
                        MR_TENSOR_SHAPE(a));
    MR_TRY(mr_run_output(r, 0, a->rank, a->dims, &out));
    ((cross_fn *)r->kernel->user)(a->data, b->data, out->data, a->n / 3);
    return NULL;
}

static mr_status *cross_shape(mr_infer *c)
{
    const mr_pshape *a, *b, *both;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &a));
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 1, &b));
    MR_TRY(mr_infer_merge(c, a, b, &both));
    if (both->rank >= 0)
        MR_TRY(mr_infer_dim_is(mr_infer_dim(both, -1), 3));
    c->out[0] = both;
    return NULL;
}

static void cross_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "Cross", mr_xi(g, 1), mr_dyi(g, 0)));
    mr_dxi(g, 1, mr_emit(g->s, "Cross", mr_dyi(g, 0), mr_xi(g, 0)));
}

#define CROSS_ROW(E, name, number, S, C, ...) \
    {.device = "CPU", .type = MR_##E, .run = run_cross, .user = (void *)(uintptr_t)cross_##name},

MR_OP(Cross,
    .doc      = "the cross products of the vectors of three in the last dimension",
    .sig      = "a: T, b: T -> product: T",
    .attrs    = "T: realnumbertype",
    .shape    = cross_shape,
    .grad     = cross_backward,
    .kernels  = MR_KERNELS(MR_REALS(CROSS_ROW, )),
    .examples = MR_EXAMPLES(
        "[1, 0, 0], [0, 1, 0] -> [0, 0, 1]",
        "[[1, 2, 3], [4, 5, 7]], [[6, 5, 4], [3, 2, 1]] -> [[-7, 14, -7], [-9, 17, -7]]",
        "T=uint8: [0, 1, 0], [1, 0, 0] -> [0, 0, 255]",
        "T=int8: [100, 0, 0], [0, 2, 0] -> [0, 0, -56]",
        "T=float: [nan, 0, 0], [0, 1, 0] -> [0, nan, nan]", "shape(0,3), shape(0,3) -> shape(0,3)",
        "[1, 2], [1, 2] -> !INVALID_ARGUMENT Dimension must be 3 but is 2",
        "[1, 2, 3], [[1, 2, 3]] -> !INVALID_ARGUMENT",
        "1, 1 -> !INVALID_ARGUMENT at least rank 1",
        "x = PlaceholderWithDefault dtype=$T shape=?: [1, 2]; : x, x -> !FAILED_PRECONDITION "
        "Cross-products are only defined for 3-element vectors"));
