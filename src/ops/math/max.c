/* ops/math/max.c -- Max and Min; All and Any. */
#include "ops/reduce_accel.h"

/* A NaN is kept once it occurs. C has no ?: on vectors, so bits are selected. */
typedef int32_t v8i __attribute__((vector_size(32)));
typedef int64_t v4i __attribute__((vector_size(32)));
#define CHOOSE(V, I, cmp) (V)((((x cmp a) | (x != x)) & (I)x) | (~((x cmp a) | (x != x)) & (I)a))
#define FLOATS(fn, top, cmp)                                                                       \
    MR_REDUCE_ADD(MR_CLONES, fn##_float_add, float, float, x cmp a || x != x ? x : a)              \
    MR_REDUCE_ADD(MR_CLONES, fn##_double_add, double, double, x cmp a || x != x ? x : a)           \
    MR_REDUCE_FOLD_VECTOR(fn##_float_fold, float, float, mr_lanes8f, top, x cmp a || x != x ? x : a,   \
                          CHOOSE(mr_lanes8f, v8i, cmp))                                                \
    MR_REDUCE_FOLD_VECTOR(fn##_double_fold, double, double, mr_lanes4d, top, x cmp a || x != x ? x : a,\
                          CHOOSE(mr_lanes4d, v4i, cmp))                                                \
    MR_REDUCER_ONE(fn, float, float, top, true)                                                    \
    MR_REDUCER_ONE(fn, double, double, top, true)
FLOATS(max, -INFINITY, >)
FLOATS(min, INFINITY, <)
MR_REDUCER(max, MR_TYPE_INT8, INT8_MIN, x > a ? x : a)
MR_REDUCER(max, MR_TYPE_INT16, INT16_MIN, x > a ? x : a)
MR_REDUCER_CLONED(max, MR_TYPE_INT32, INT32_MIN, x > a ? x : a)
MR_REDUCER_CLONED(max, MR_TYPE_INT64, INT64_MIN, x > a ? x : a)
MR_REDUCER(max, MR_UNSIGNED, 0, x > a ? x : a)
MR_REDUCER(min, MR_TYPE_INT8, INT8_MAX, x < a ? x : a)
MR_REDUCER(min, MR_TYPE_INT16, INT16_MAX, x < a ? x : a)
MR_REDUCER_CLONED(min, MR_TYPE_INT32, INT32_MAX, x < a ? x : a)
MR_REDUCER_CLONED(min, MR_TYPE_INT64, INT64_MAX, x < a ? x : a)
MR_REDUCER(min, MR_TYPE_UINT8, UINT8_MAX, x < a ? x : a)
MR_REDUCER(min, MR_TYPE_UINT16, UINT16_MAX, x < a ? x : a)
MR_REDUCER(min, MR_TYPE_UINT32, UINT32_MAX, x < a ? x : a)
MR_REDUCER(min, MR_TYPE_UINT64, UINT64_MAX, x < a ? x : a)
/* bools as bytes: one fed from outside may have any value. */
MR_REDUCER(all, MR_TYPE_UINT8, 1, a & (x != 0))
MR_REDUCER(any, MR_TYPE_UINT8, 0, a | (x != 0))

#define EXTREME_ROWS(fn)                                                                      \
    MR_CPU_REDUCE_FLOATS(fn) MR_CPU_REDUCE(fn, MR_INTS) MR_CPU_REDUCE_BY(QINT8, fn##_int8)    \
    MR_CPU_REDUCE_BY(QUINT8, fn##_uint8) MR_CPU_REDUCE_BY(QINT16, fn##_int16)                 \
    MR_CPU_REDUCE_BY(QUINT16, fn##_uint16) MR_CPU_REDUCE_BY(QINT32, fn##_int32)
#define BOOL_ROW(reducer) \
    {.device = "CPU", .run = mr_reduce_run, .user = (void *)(uintptr_t)&reducer},

/* The gradient is shared equally among all elements that equal the result. */
static void extreme_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out x = mr_xi(g, 0), top = mr_reduce_kept(g, mr_yi(g, 0)),
           dy = mr_reduce_kept(g, mr_dyi(g, 0));
    mr_attr type = mr_a_type(mr_dtype_base(mr_out_type(x)));
    mr_out hit = mr_emit_with(s, "Cast", MR_ATTRS({"DstT", type}), mr_emit(s, "Equal", x, top));
    mr_out hits =
        mr_emit_with(s, "Sum", MR_ATTRS({"keep_dims", mr_a_bool(true)}), hit, mr_xi(g, 1));
    mr_dxi(g, 0, mr_emit(s, "Mul", hit, mr_emit(s, "RealDiv", dy, hits)));
}

#define EXTREME_TYPES                                                                              \
    "keep_dims: bool = false; T: {float, double, int32, uint8, int16, int8, int64, bfloat16, "     \
    "uint16, half, uint32, uint64, qint8, quint8, qint32, qint16, quint16}; "                      \
    "Tidx: {int32, int64} = DT_INT32"

MR_OP(Max,
    .doc      = "largest element over some axes",
    .sig      = "input: T, reduction_indices: Tidx -> output: T",
    .attrs    = EXTREME_TYPES,
    .key      = "T",
    .shape    = mr_shape_reduction,
    .grad     = extreme_backward,
    .kernels  = MR_KERNELS(EXTREME_ROWS(max) MR_GPU_REDUCE(max)),
    .examples = MR_EXAMPLES(
        "[[1, 5, 3], [4, 2, 6]], 0 -> [4, 5, 6]",
        "[[1, 5, 3], [4, 2, 6]], 1 -> [5, 6]",
        "keep_dims=true: [[1, 5, 3], [4, 2, 6]], [1] -> [[5], [6]]",
        "[-1, -5], 0 -> -1",
        "iota(100), 0 -> 99",
        "nograd: [2, 5, 5], 0 -> 5",
        "nograd: [[1, nan], [inf, 2]], 1 -> [nan, inf]",
        "T=float: fill(nan, 3,50), 1 -> [nan, nan, nan]",
        "T=float: shape(2,0), 1 -> [-inf, -inf]",
        "T=int32: shape(2,0), 1 -> [-2147483648, -2147483648]"));

MR_OP(Min,
    .doc      = "smallest element over some axes",
    .sig      = "input: T, reduction_indices: Tidx -> output: T",
    .attrs    = EXTREME_TYPES,
    .key      = "T",
    .shape    = mr_shape_reduction,
    .grad     = extreme_backward,
    .kernels  = MR_KERNELS(EXTREME_ROWS(min) MR_GPU_REDUCE(min)),
    .examples = MR_EXAMPLES(
        "[[1, 5, 3], [4, 2, 6]], 0 -> [1, 2, 3]",
        "[[1, 5, 3], [4, 2, 6]], 1 -> [1, 2]",
        "keep_dims=true: [[1, 5, 3], [4, 2, 6]], [1] -> [[1], [2]]",
        "nograd: [[1, nan], [-inf, 2]], 1 -> [nan, -inf]",
        "T=float: shape(2,0), 1 -> [inf, inf]",
        "T=uint8: shape(2,0), 1 -> [255, 255]"));

MR_OP(All,
    .doc      = "whether all elements are true, over some axes",
    .sig      = "input: bool, reduction_indices: Tidx -> output: bool",
    .attrs    = "keep_dims: bool = false; Tidx: {int32, int64} = DT_INT32",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_reduction,
    .kernels  = MR_KERNELS(BOOL_ROW(all_uint8)),
    .examples = MR_EXAMPLES(
        "[[true, true], [true, false]], 1 -> [true, false]",
        "[[true, true], [true, false]], 0 -> [true, false]",
        "keep_dims=true: [[true, true], [true, false]], [0, 1] -> [[false]]",
        "shape(2,0), 1 -> [true, true]"));

MR_OP(Any,
    .doc      = "whether any element is true, over some axes",
    .sig      = "input: bool, reduction_indices: Tidx -> output: bool",
    .attrs    = "keep_dims: bool = false; Tidx: {int32, int64} = DT_INT32",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_reduction,
    .kernels  = MR_KERNELS(BOOL_ROW(any_uint8)),
    .examples = MR_EXAMPLES(
        "[[false, true], [false, false]], 1 -> [true, false]",
        "[[false, true], [false, false]], 0 -> [false, true]",
        "keep_dims=true: [[false, true], [false, false]], [0, 1] -> [[true]]",
        "shape(2,0), 1 -> [false, false]"));
