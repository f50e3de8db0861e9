/* ops/math/prod.c -- Prod. */
#include "ops/reduce_accel.h"

MR_REDUCE_LOOPS_FLOATS(prod, 1, a * x)
MR_REDUCER_FLOATS(prod, prod, mr_reduce_narrow, NULL)
MR_REDUCER(prod, MR_COMPLEXES, 1, a * x)
MR_REDUCER(prod, MR_INTS, 1, (uint64_t)a * (uint64_t)x)

/* Products of the elements before (after) each element along axis 0. */
static mr_out products_of_others(mr_grad *g, mr_out x, bool after)
{
    const mr_named_attr attrs[] = {{"exclusive", mr_a_bool(true)}, {"reverse", mr_a_bool(after)}};
    return mr_emit_n(g->s, "Cumprod", attrs, 2, MR_OUTS(x, mr_const_i32(g->s, 0)));
}

static mr_out flatten_to_vector(mr_grad *g, mr_out v)
{
    return mr_emit(g->s, "Reshape", v, mr_const_vec_i32(g->s, 1, (int32_t[]){-1}));
}

/* The folded axes as a vector of int32, none negative. */
static mr_out folded_axes(mr_grad *g, mr_out rank)
{
    mr_out axes = flatten_to_vector(g, mr_xi(g, 1));
    if (mr_scope_ok(g->s) && mr_out_type(axes) != MR_INT32)
        axes = mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), axes);
    return mr_emit(g->s, "FloorMod", axes, rank);
}

/* The kept axes: where a mask over all of them is 0. */
static mr_out kept_axes(mr_grad *g, mr_out folded, mr_out rank)
{
    mr_out mask =
        mr_emit(g->s, "UnsortedSegmentSum", mr_emit(g->s, "OnesLike", folded), folded, rank);
    mr_out where = mr_emit(g->s, "Where", mr_emit(g->s, "Equal", mask, mr_const_i32(g->s, 0)));
    return mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), flatten_to_vector(g, where));
}

/* The derivative by an element is the product of all others, which is also right if there are zeros. The folded
 * axes are moved to the front and merged, so that the products run along axis 0. */
static void prod_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out x = mr_xi(g, 0), rank = mr_emit(s, "Rank", x), zero = mr_const_i32(s, 0);
    mr_out folded = folded_axes(g, rank), kept = kept_axes(g, folded, rank);
    mr_out order = mr_emit(s, "ConcatV2", folded, kept, zero);
    mr_out moved = mr_emit(s, "Transpose", x, order), shape = mr_emit(s, "Shape", x);
    mr_out sizes = mr_emit(s, "GatherV2", shape, folded, zero);
    mr_out rows = mr_emit(s, "Prod", sizes, zero);
    mr_out cols = mr_emit(s, "Prod", mr_emit(s, "GatherV2", shape, kept, zero), zero);
    mr_out matrix = mr_emit(s, "Pack", rows, cols);
    mr_out flat = mr_conj(g, mr_emit(s, "Reshape", moved, matrix));
    mr_out product = mr_emit(s, "Mul", products_of_others(g, flat, false), products_of_others(g, flat, true));
    mr_out back = mr_emit(s, "Reshape", product, mr_emit(s, "Shape", moved));
    back = mr_emit(s, "Transpose", back, mr_emit(s, "InvertPermutation", order));
    mr_dxi(g, 0, mr_emit(s, "Mul", mr_reduce_kept(g, mr_dyi(g, 0)), back));
}

MR_OP(Prod,
    .doc      = "product over some axes",
    .sig      = "input: T, reduction_indices: Tidx -> output: T",
    .attrs    = "keep_dims: bool = false; T: numbertype; Tidx: {int32, int64} = DT_INT32",
    .key      = "T",
    .shape    = mr_shape_reduction,
    .grad     = prod_backward,
    .kernels  = MR_KERNELS(MR_CPU_REDUCE_FLOATS(prod) MR_CPU_REDUCE(prod, MR_COMPLEXES)
                           MR_CPU_REDUCE(prod, MR_INTS) MR_CPU_REDUCE(prod, MR_CODES) MR_GPU_REDUCE(prod)),
    .examples = MR_EXAMPLES(
        "[[1, 2, 3], [4, 5, 6]], 0 -> [4, 10, 18]",
        "[[1, 2], [4, 5]], [0, 1] -> 40",
        "keep_dims=true: [[1, 2, 3], [4, 5, 1]], [-1] -> [[6], [20]]",
        "[0, 2, 3], 0 -> 0",
        "[0, 0, 3], 0 -> 0",
        "[[[1, 2], [3, 4]], [[5, 1], [2, 3]]], [0, 2] -> [10, 72]",
        "[1+1i, 2i], 0 -> -2+2i",
        "shape(2,0), 1 -> [1, 1]",
        "T=int8: [16, 16], 0 -> 0",
        "T=qint32: [16, -16], 0 -> -256"));
