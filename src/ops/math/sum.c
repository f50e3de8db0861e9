/* ops/math/sum.c -- Sum and Mean. */
#include "ops/reduce_accel.h"

#define SMALL_INTS(M, ...)                                           \
    MR_TYPE_INT8(M, __VA_ARGS__) MR_TYPE_UINT8(M, __VA_ARGS__)      \
    MR_TYPE_INT16(M, __VA_ARGS__) MR_TYPE_UINT16(M, __VA_ARGS__)
#define LARGE_INTS(M, ...)                                           \
    MR_TYPE_INT32(M, __VA_ARGS__) MR_TYPE_UINT32(M, __VA_ARGS__)    \
    MR_TYPE_INT64(M, __VA_ARGS__) MR_TYPE_UINT64(M, __VA_ARGS__)

MR_REDUCE_LOOPS_FLOATS(sum, 0, a + x)
MR_REDUCER_FLOATS(sum, sum, mr_reduce_narrow, NULL)
MR_REDUCER(sum, MR_COMPLEXES, 0, a + x)
MR_REDUCER(sum, SMALL_INTS, 0, (uint64_t)a + (uint64_t)x)
MR_REDUCER_CLONED(sum, LARGE_INTS, 0, (uint64_t)a + (uint64_t)x)

/* Means of floats share the loops of sums; the mean of no elements is 0 / 0. */
#define MEAN(name, S, Total)                                                                \
    static void mean_##name##_finish(void *out, const void *total, int64_t n, int64_t count) \
    {                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                     \
            ((S *)out)[i] = (S)(((const Total *)total)[i] / (Total)count);                  \
    }
MEAN(float, float, double)
MEAN(double, double, double)
MEAN(complex64, mr_c64, mr_c64)
MEAN(complex128, mr_c128, mr_c128)
MR_REDUCER_FLOATS(mean, sum, mean_float_finish, mean_double_finish)
#define MEAN_COMPLEX(E, name, number, S, C, ...)                                           \
    static const mr_reducer mean_##name =                                                  \
        MR_REDUCER_INIT(S, S, S, sum_##name##_empty, sum_##name##_empty, sum_##name##_add, \
                        sum_##name##_add, sum_##name##_add, sum_##name##_fold, false,      \
                        mean_##name##_finish);
MR_COMPLEXES(MEAN_COMPLEX, )

/* Means of integers are truncated towards zero; sums have 64 bits. The mean of no elements is 0. */
#define MEAN_INT(name, S, Total)                                                              \
    MR_REDUCE_ADD(, mean_##name##_add, Total, S, (uint64_t)a + (uint64_t)x)                   \
    MR_REDUCE_FOLD(mean_##name##_fold, Total, S, 0, (uint64_t)a + (uint64_t)x)                \
    static void mean_##name##_finish(void *out, const void *total, int64_t n, int64_t count)  \
    {                                                                                         \
        for (int64_t i = 0; i < n; i++)                                                       \
            ((S *)out)[i] = (S)(count ? ((const Total *)total)[i] / (Total)count : 0);        \
    }                                                                                         \
    static const mr_reducer mean_##name =                                                     \
        MR_REDUCER_INIT(S, Total, Total, sum_int64_empty, sum_int64_empty, mean_##name##_add, \
                        sum_int64_add, sum_int64_add, mean_##name##_fold, false,              \
                        mean_##name##_finish);
#define MEAN_SIGNED(E, name, number, S, C, ...) MEAN_INT(name, S, int64_t)
#define MEAN_UNSIGNED(E, name, number, S, C, ...) MEAN_INT(name, S, uint64_t)
MR_SIGNED(MEAN_SIGNED, )
MR_UNSIGNED(MEAN_UNSIGNED, )

const mr_reducer *mr_sum_reducer(mr_dtype type)
{
    switch (type) {
#define CASE(E, name, number, S, C, ...) \
    case MR_##E: return &sum_##name;
        MR_FLOATS32(CASE, ) MR_COMPLEXES(CASE, ) MR_INTS(CASE, ) MR_CODES(CASE, )
    case MR_HALF: case MR_BFLOAT16: return &sum_float;
    default: return NULL;
    }
}

static void sum_backward(mr_grad *g) { mr_dxi(g, 0, mr_reduce_spread(g, mr_dyi(g, 0))); }

/* The number of elements per mean, as a scalar of dy's type. */
static mr_out mean_count(mr_grad *g, mr_out dy)
{
    const mr_pshape *x = mr_out_shape(mr_xi(g, 0)), *y = mr_out_shape(mr_yi(g, 0));
    int64_t n_x, n_y;
    if (mr_pshape_full(x) && mr_pshape_full(y)) {
        mr_status *st = mr_shape_elements(x->rank, x->dims, &n_x);
        if (!st)
            st = mr_shape_elements(y->rank, y->dims, &n_y);
        mr_scope_fail(g->s, st);
        return st ? MR_NO_OUT : mr_scalar_like(g, (double)(n_x / MR_MAX(n_y, 1)), dy);
    }
    mr_scope *s = g->s;
    const mr_attr wide = mr_a_type(MR_INT64);
    mr_out in = mr_emit_with(s, "Size", MR_ATTRS({"out_type", wide}), mr_xi(g, 0));
    mr_out out = mr_emit_with(s, "Size", MR_ATTRS({"out_type", wide}), mr_yi(g, 0));
    mr_out n = mr_emit(s, "FloorDiv", in, mr_emit(s, "Maximum", out, mr_const_i64(s, 1)));
    return mr_scope_ok(s)
               ? mr_emit_with(s, "Cast",
                              MR_ATTRS({"DstT", mr_a_type(mr_dtype_base(mr_out_type(dy)))}), n)
               : n;
}

static void mean_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0);
    mr_dxi(g, 0, mr_reduce_spread(g, mr_emit(g->s, "RealDiv", dy, mean_count(g, dy))));
}

MR_OP(Sum,
    .doc      = "sum over some axes",
    .sig      = "input: T, reduction_indices: Tidx -> output: T",
    .attrs    = "keep_dims: bool = false; T: numbertype; Tidx: {int32, int64} = DT_INT32",
    .key      = "T",
    .shape    = mr_shape_reduction,
    .grad     = sum_backward,
    .kernels  = MR_KERNELS(MR_CPU_REDUCE_FLOATS(sum) MR_CPU_REDUCE(sum, MR_COMPLEXES)
                           MR_CPU_REDUCE(sum, MR_INTS) MR_CPU_REDUCE(sum, MR_CODES) MR_GPU_REDUCE(sum)),
    .examples = MR_EXAMPLES(
        "shape(1,5,5,0), 1 -> shape(1,5,0)",
        "[[1, 2, 3], [4, 5, 6]], 0 -> [5, 7, 9]",
        "[[1, 2, 3], [4, 5, 6]], 1 -> [6, 15]",
        "[[1, 2, 3], [4, 5, 6]], [0, 1] -> 21",
        "[[1, 2, 3], [4, 5, 6]], int64[-1] -> [6, 15]",
        "keep_dims=true: [[1, 2, 3], [4, 5, 6]], [1] -> [[6], [15]]",
        "keep_dims=true: [[1, 2, 3], [4, 5, 6]], [0, 1] -> [[21]]",
        "[[1, 2], [3, 4]], int32 shape(0) -> [[1, 2], [3, 4]]",
        "7, int32 shape(0) -> 7",
        "shape(2,0), 0 -> shape(0)",
        "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [0, 2] -> [14, 22]",
        "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]], 1 -> [[4, 6], [12, 14]]",
        "[[[[1], [2]]], [[[3], [4]]]], [0, 3] -> [[4, 6]]",
        "[1+2i, 3-1i], 0 -> 4+1i",
        "shape(2,0), 1 -> [0, 0]",
        "shape(0,2), 1 -> shape(0)",
        "shape(0,2), 0 -> [0, 0]",
        "fill(1, 2,60), 1 -> [60, 60]",
        "fill(1, 60,2), 0 -> [60, 60]",
        "T=int8: [100, 100], 0 -> -56",
        "T=qint8: [100, 20], 0 -> 120",
        "T=float: fill(0.1, 100000), 0 -> 10000.00",
        "T=float: fill(0.1, 20000,3), 0 -> [2000.000, 2000.000, 2000.000]",
        "T=half: fill(1, 4096), 0 -> 4096",
        "T=float: [1, inf, -inf], 0 -> nan",
        "T=float: [[1, 2]], 2 -> !INVALID_ARGUMENT",
        "T=float: [[1, 2]], [0, 0] -> !INVALID_ARGUMENT",
        "T=float: [[1, 2]], [[0]] -> !INVALID_ARGUMENT"));

MR_OP(Mean,
    .doc      = "mean over some axes",
    .sig      = "input: T, reduction_indices: Tidx -> output: T",
    .attrs    = "keep_dims: bool = false; T: numbertype; Tidx: {int32, int64} = DT_INT32",
    .key      = "T",
    .shape    = mr_shape_reduction,
    .grad     = mean_backward,
    .kernels  = MR_KERNELS(MR_CPU_REDUCE_FLOATS(mean) MR_CPU_REDUCE(mean, MR_COMPLEXES)
                           MR_CPU_REDUCE(mean, MR_INTS) MR_CPU_REDUCE(mean, MR_CODES) MR_GPU_REDUCE(mean)),
    .examples = MR_EXAMPLES(
        "[[1, 2, 3], [5, 6, 7]], 0 -> [3, 4, 5]",
        "[[1, 2, 3], [5, 6, 7]], [0, 1] -> 4",
        "keep_dims=true: [[1, 2], [4, 5]], 1 -> [[1.5], [4.5]]",
        "[1+2i, 3-1i], 0 -> 2+0.5i",
        "T=float: shape(2,0), 1 -> [nan, nan]",
        "T=int32: shape(2,0), 1 -> [0, 0]",
        "T=int32: [-3, -4], 0 -> -3",
        "T=uint8: [255, 253], 0 -> 254",
        "T=quint8: [255, 253], 0 -> 254",
        "T=int8: fill(100, 300), 0 -> 100"));
