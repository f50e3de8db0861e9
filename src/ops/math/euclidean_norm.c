/* ops/math/euclidean_norm.c -- EuclideanNorm: the root of the sum of squares along axes.
 *
 * Squares are summed in double whatever the type, so that neither integers wrap nor floats overflow in between. If
 * nothing is summed (no axes, or only axes of size 1) the result is the input itself, including its sign, as in
 * TensorFlow's reductions. */
#include "ops/reduce.h"

static const double nothing = 0;

static void add_totals(void *acc, const void *totals, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ((double *)acc)[i] += ((const double *)totals)[i];
}

#define SQUARE_REAL(x) ((double)(x) * (double)(x))
#define SQUARE_COMPLEX(x) (SQUARE_REAL(creal(x)) + SQUARE_REAL(cimag(x)))

/* Integers: only the root for several elements can exceed the type; it becomes the largest number. */
#define ROOT_FLOATING(S, v) ((S)sqrt(v))
#define MOST_SIGNED(S) (double)(((uint64_t)1 << (8 * sizeof(S) - 1)) - 1)
#define ROOT_INTEGER(S, v) root_of(v, (S)-1 > 0 ? (double)(S)-1 : MOST_SIGNED(S))
static double root_of(double v, double most)
{
    double root = sqrt(v);
    return root < most ? root : most;
}

#define NORM(E, name, number, S, C, SQUARE, ROOT)                                         \
    static void norm_##name##_add(void *acc, const void *x, int64_t n)                    \
    {                                                                                     \
        for (int64_t i = 0; i < n; i++)                                                   \
            ((double *)acc)[i] += SQUARE(((const S *)x)[i]);                              \
    }                                                                                     \
    static void norm_##name##_fold(void *totals, const void *x, int64_t rows, int64_t n)  \
    {                                                                                     \
        const S *p = x;                                                                   \
        for (int64_t r = 0; r < rows; r++, p += n) {                                      \
            double sum = 0;                                                               \
            for (int64_t i = 0; i < n; i++)                                               \
                sum += SQUARE(p[i]);                                                      \
            ((double *)totals)[r] = sum;                                                  \
        }                                                                                 \
    }                                                                                     \
    static void norm_##name##_finish(void *out, const void *total, int64_t n, int64_t count) \
    {                                                                                     \
        (void)count;                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                 \
            double v = ((const double *)total)[i];                                        \
            ((S *)out)[i] = (S)ROOT(S, v);                                                \
        }                                                                                 \
    }                                                                                     \
    static const mr_reducer norm_##name =                                                 \
        MR_REDUCER_INIT(S, double, double, nothing, nothing, norm_##name##_add, add_totals, \
                        add_totals, norm_##name##_fold, true, norm_##name##_finish);
MR_FLOATS32(NORM, SQUARE_REAL, ROOT_FLOATING)
MR_COMPLEXES(NORM, SQUARE_COMPLEX, ROOT_FLOATING)
MR_TYPE_INT8(NORM, SQUARE_REAL, ROOT_INTEGER)
MR_TYPE_INT16(NORM, SQUARE_REAL, ROOT_INTEGER)
MR_TYPE_INT32(NORM, SQUARE_REAL, ROOT_INTEGER)
MR_TYPE_UINT8(NORM, SQUARE_REAL, ROOT_INTEGER)
MR_TYPE_UINT16(NORM, SQUARE_REAL, ROOT_INTEGER)
MR_TYPE_UINT32(NORM, SQUARE_REAL, ROOT_INTEGER)
/* The largest number is not a double, so the next smaller double is used. */
#define ROOT_LONG(S, v) root_of(v, (S)-1 > 0 ? 18446744073709549568.0 : 9223372036854774784.0)
MR_TYPE_INT64(NORM, SQUARE_REAL, ROOT_LONG)
MR_TYPE_UINT64(NORM, SQUARE_REAL, ROOT_LONG)

/* The real part of a complex number, as a complex number. */
static mr_out real_part(mr_grad *g, mr_out v)
{
    mr_dtype type = mr_dtype_base(mr_out_type(v));
    if (!mr_dtype_is_complex(type))
        return v;
    mr_attr part = mr_a_type(type == MR_COMPLEX64 ? MR_FLOAT : MR_DOUBLE);
    return mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(type)}),
                        mr_emit_with(g->s, "Real", MR_ATTRS({"Tout", part}), v));
}

/* dx = x dy / y; NaN where the norm is 0, as in TensorFlow. A norm is real. */
static void norm_backward(mr_grad *g)
{
    mr_out y = mr_reduce_kept(g, mr_yi(g, 0));
    mr_out dy = mr_reduce_kept(g, real_part(g, mr_dyi(g, 0)));
    mr_dxi(g, 0, mr_emit(g->s, "Mul", mr_xi(g, 0), mr_emit(g->s, "RealDiv", dy, y)));
}

#define ROW_BY(E, reducer) \
    {.device = "CPU", .type = MR_##E, .run = mr_reduce_run, .user = (void *)(uintptr_t)&reducer},
#define ROW(E, name, number, S, C, ...) ROW_BY(E, norm_##name)

MR_OP(EuclideanNorm,
    .doc      = "the root of the sum of squares of elements along axes",
    .sig      = "input: T, reduction_indices: Tidx -> output: T",
    .attrs    = "keep_dims: bool = false; T: numbertype; Tidx: {int32, int64} = DT_INT32",
    .key      = "T",
    .shape    = mr_shape_reduction,
    .grad     = norm_backward,
    .kernels  = MR_KERNELS(ROW_BY(HALF, norm_float) ROW_BY(BFLOAT16, norm_float) MR_FLOATS32(ROW, )
                           MR_COMPLEXES(ROW, ) MR_INTS(ROW, ) MR_CODES(ROW, )),
    .examples = MR_EXAMPLES(
        "[3, 4], 0 -> 5", "[[3, 4], [6, 8]], 1 -> [5, 10]",
        "keep_dims=true: [[3, 4], [6, 8]], int64[1] -> [[5], [10]]",
        "[[3, 0], [4, 2]], [0, 1] -> 5.385164807135", "nograd: [3+4i, 0], 0 -> 5",
        "T=double: [-1, 2], shape(0) -> [-1, 2]", "nograd: [[-3], [4]], 1 -> [-3, 4]", "nograd: [[-3]], [0, 1] -> -3",
        "nograd: shape(0,2), 0 -> [0, 0]", "nograd: 0, shape(0) -> 0",
        "T=uint8: [30, 40], 0 -> 50", "T=int8: [100, 100], 0 -> 127", "T=int32: [-3, 4], 0 -> 5",
        "T=float nograd: [3e30, 4e30], 0 -> 5e30", "T=float nograd: [nan, 1], 0 -> nan",
        "[1, 2], 1 -> !INVALID_ARGUMENT"));
