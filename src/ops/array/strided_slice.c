/* ops/array/strided_slice.c -- Python's indexing: StridedSlice, and its gradient. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/blit.h"
#include "ops/array/strided_slice.h"
#include "run/accel.h"

#define MASKS "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask"

/* ---- StridedSlice ---- */

/* True if the ranges select one contiguous piece of memory, from *start on. */
static bool one_piece(const mr_slicing *s, const int64_t *dims, const int64_t *strides,
                      int64_t *start)
{
    int64_t sizes[MR_MAX_RANK];
    *start = 0;
    for (int d = 0; d < s->rank; d++) {
        if (s->ranges[d].size == 0 || (s->ranges[d].stride != 1 && s->ranges[d].size != 1))
            return false;
        sizes[d] = s->ranges[d].size;
        *start += s->ranges[d].begin * strides[d];
    }
    return mr_is_contiguous(s->rank, dims, sizes);
}

int64_t mr_slicing_walk(const mr_slicing *s, const int64_t *strides, bool from_whole, mr_blit *b)
{
    int64_t packed = 1, start = 0;
    mr_blit_init(b);
    for (int d = s->rank - 1; d >= 0; d--) {
        const mr_range *g = &s->ranges[d];
        int64_t step = g->size > 1 ? g->stride * strides[d] : 0;
        mr_blit_dim(b, g->size, from_whole ? step : packed, from_whole ? packed : step);
        packed *= g->size;
        start += g->size > 0 ? g->begin * strides[d] : 0;
    }
    return start;
}

static mr_status *run_strided_slice(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_slicing s;
    mr_tensor *out;
    mr_blit b;
    int64_t strides[MR_MAX_RANK], start;
    MR_TRY(mr_slicing_parse(r->node, mr_in(r, 1), mr_in(r, 2), mr_in(r, 3), x->rank, x->dims, &s));
    mr_dims_strides(x->rank, x->dims, strides);
    if (one_piece(&s, x->dims, strides, &start))
        return mr_share(r, 0, 0, start, s.shape.rank, s.shape.dims);
    MR_TRY(mr_run_output(r, 0, s.shape.rank, s.shape.dims, &out));
    if (out->n == 0)
        return NULL;
    start = mr_slicing_walk(&s, strides, true, &b);
    MR_TRY(mr_blit_copy(r, &b, out, 0, x, start));
    return NULL;
}

/* The vectors must have the same length, which may be known before their values are. */
static mr_status *check_lengths(mr_infer *c)
{
    const mr_pshape *s = c->in[1], *ignored;
    for (int i = 1; i < 4; i++)
        MR_TRY(mr_infer_merge(c, s, c->in[i], &s));
    return mr_infer_rank(c, s, 1, &ignored);
}

static mr_status *strided_slice_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[0];
    mr_slicing s;
    MR_TRY(check_lengths(c));
    const mr_tensor *begin = mr_infer_const(c, 1), *end = mr_infer_const(c, 2);
    const mr_tensor *strides = mr_infer_const(c, 3);
    if (x->rank < 0 || !strides)
        return NULL;
    MR_TRY(mr_slicing_parse(c->node, begin, end, strides, x->rank, x->dims, &s));
    c->out[0] = mr_pshape_of(c->arena, s.shape.rank, s.shape.dims);
    return NULL;
}

/* Casts an index vector to a type that StridedSliceGrad accepts. */
static mr_out wide_index(mr_grad *g, mr_out v)
{
    return mr_out_type(v) != MR_INT16
               ? v
               : mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), v);
}

static void strided_slice_backward(mr_grad *g)
{
    mr_out begin = wide_index(g, mr_xi(g, 1)), shape = mr_shape_of(g, mr_xi(g, 0));
    if (mr_out_type(begin) == MR_INT64)
        shape = mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT64)}), shape);
    mr_out in[] = {shape, begin, wide_index(g, mr_xi(g, 2)), wide_index(g, mr_xi(g, 3)),
                   mr_dyi(g, 0)};
    mr_dxi(g, 0, mr_emit_like(g, "StridedSliceGrad", MASKS, in, 5));
}

#define MASK_ATTRS                                                                           \
    "; begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: int = 0; " \
    "shrink_axis_mask: int = 0"

MR_OP(StridedSlice,
    .doc      = "x[begin:end:strides] as Python means it",
    .sig      = "input: T, begin: Index, end: Index, strides: Index -> output: T",
    .attrs    = "T: type; Index: {int16, int32, int64}" MASK_ATTRS,
    .shape    = strided_slice_shape,
    .grad     = strided_slice_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_strided_slice) MR_GPU_HOST(run_strided_slice, FLOAT, 14, 0)),
    .examples = MR_EXAMPLES(
        "iota(5), int32[-3], int32[10], int32[1] -> [2, 3, 4]",
        "iota(5), int32[4], int32[-1], int32[-1] -> shape(0)",
        "end_mask=1: iota(5), int64[4], int64[0], int64[-2] -> [4, 2, 0]",
        "iota(5), int32[-100], int32[3], int32[2] -> [0, 2]",
        "iota(5), int32[3], int32[1], int32[1] -> shape(0)",
        "iota(5), int32[0], int32[-7], int32[-1] -> [0]",
        "begin_mask=1 end_mask=1: iota(4), int32[0], int32[0], int32[-1] -> [3, 2, 1, 0]",
        "shrink_axis_mask=1: iota(3,2), int16[1], int16[2], int16[1] -> [2, 3]",
        "shrink_axis_mask=3: iota(3,2), int32[-1, 0], int32[0, 0], int32[1, 1] -> 4",
        "begin_mask=1 end_mask=3: iota(3,2), int32[0, 1], int32[0, 0], int32[2, 1] -> [[1], [5]]",
        "ellipsis_mask=1: iota(2,2,2), int32[0, 1], int32[0, 2], int32[1, 1] -> [[[1], [3]], [[5], "
        "[7]]]",
        "new_axis_mask=2 shrink_axis_mask=3: iota(2,2), int32[1, 0], int32[2, 0], int32[1, 1] -> "
        "[[2, 3]]",
        "ellipsis_mask=2 new_axis_mask=5: iota(2), int32[0, 0, 0], int32[0, 0, 0], int32[1, 1, 1] "
        "-> [[[0], [1]]]",
        "[\"a\", \"b\", \"c\"], int32[0], int32[3], int32[2] -> [\"a\", \"c\"]",
        "ellipsis_mask=1: 1, int32[0], int32[0], int32[1] -> 1",
        "iota(400), int32[100], int32[399], int32[1] -> shape(299)",
        "iota(2), int32 shape(0), int32 shape(0), int32 shape(0) -> [0, 1]",
        "shape(0,2), int32[0], int32[5], int32[1] -> shape(0,2)",
        "ellipsis_mask=3: iota(2), int32[0, 0], int32[1, 1], int32[1, 1] -> !INVALID_ARGUMENT "
        "Multiple ellipses in slice spec not allowed",
        "shrink_axis_mask=1: iota(2), int32[2], int32[3], int32[1] -> !INVALID_ARGUMENT slice "
        "index 2 of dimension 0 out of bounds.",
        "shrink_axis_mask=1: iota(2), int32[0], int32[1], int32[-1] -> !INVALID_ARGUMENT only "
        "stride 1 allowed",
        "iota(2), int32[0], int32[1], int32[0] -> !INVALID_ARGUMENT strides[0] must be non-zero",
        "iota(2), int32[0, 0], int32[1, 1], int32[1, 1] -> !INVALID_ARGUMENT Index out of range "
        "using input dim 1; input has only 1 dims",
        "s = PlaceholderWithDefault dtype=int32 shape=?: int32[1, 1]; : iota(2), int32[0], "
        "int32[1], s -> !INVALID_ARGUMENT Expected begin, end, and strides to be 1D equal size "
        "tensors"));

/* ---- StridedSliceGrad ---- */

static mr_status *run_strided_slice_grad(mr_run *r)
{
    const mr_tensor *dy = mr_in(r, 4);
    mr_shape shape;
    mr_slicing s;
    mr_tensor *out;
    mr_blit b;
    int64_t strides[MR_MAX_RANK], start, n;
    MR_TRY(mr_in_shape(r, 0, "shape", 0, &shape));
    MR_TRY(mr_shape_elements(shape.rank, shape.dims, &n));
    MR_TRY(mr_slicing_parse(r->node, mr_in(r, 1), mr_in(r, 2), mr_in(r, 3), shape.rank, shape.dims,
                            &s));
    if (!mr_shape_eq(dy->rank, dy->dims, s.shape.rank, s.shape.dims))
        return mr_invalid("shape of dy was %s instead of %s", MR_TENSOR_SHAPE(dy),
                          MR_SHAPE_TEXT(s.shape.rank, s.shape.dims));
    mr_dims_strides(shape.rank, shape.dims, strides);
    if (dy->n == n && one_piece(&s, shape.dims, strides, &start)) /* a contiguous piece */
        return mr_run_reshape(r, 4, 0, shape.rank, shape.dims);
    start = mr_slicing_walk(&s, strides, false, &b);
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    if (mr_dtype_is_plain(out->dtype))
        MR_TRY(mr_move_fill(r, out, 0, (char[16]){0}, out->n));
    if (dy->n > 0)
        MR_TRY(mr_blit_copy(r, &b, out, start, dy, 0));
    return NULL;
}

static mr_status *strided_slice_grad_shape(mr_infer *c)
{
    MR_TRY(check_lengths(c));
    return mr_shape_from_input0(c);
}

static void strided_slice_grad_backward(mr_grad *g)
{
    mr_out in[] = {mr_dyi(g, 0), mr_xi(g, 1), mr_xi(g, 2), mr_xi(g, 3)};
    mr_dxi(g, 4, mr_emit_like(g, "StridedSlice", MASKS, in, 4));
}

MR_OP(StridedSliceGrad,
    .doc      = "zeros with dy where StridedSlice took its result from: its gradient",
    .sig      = "shape: Index, begin: Index, end: Index, strides: Index, dy: T -> output: T",
    .attrs    = "T: type; Index: {int32, int64}" MASK_ATTRS,
    .shape    = strided_slice_grad_shape,
    .grad     = strided_slice_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_strided_slice_grad) MR_GPU_HOST(run_strided_slice_grad, FLOAT, 15, 0)),
    .examples = MR_EXAMPLES(
        "int32[5], int32[0], int32[5], int32[2], [1, 2, 3] -> [1, 0, 2, 0, 3]",
        "int32[4], int32[3], int32[0], int32[-2], [1, 2] -> [0, 2, 0, 1]",
        "shrink_axis_mask=1: int64[2, 2], int64[1], int64[2], int64[1], [1, 2] -> [[0, 0], [1, 2]]",
        "begin_mask=1 end_mask=1: int32[2], int32[0], int32[0], int32[1], [1, 2] -> [1, 2]",
        "begin_mask=1 end_mask=1: int32[2], int32[0], int32[0], int32[-1], [1, 2] -> [2, 1]",
        "int32[2, 2], int32[0, 1], int32[2, 2], int32[1, 1], [[1], [2]] -> [[0, 1], [0, 2]]",
        "int32[2], int32[1], int32[1], int32[1], shape(0) -> [0, 0]",
        "int32[2], int32[0], int32[1], int32[1], [1, 2] -> !INVALID_ARGUMENT shape of dy was [2] "
        "instead of [1]"));
