/* ops/array/reverse.c -- ReverseV2, Reverse: reverses dimensions. */
#include "graph/grad.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"
#include "run/accel.h"

static mr_status *read_axes(const mr_tensor *axes, int rank, bool *reversed)
{
    for (int64_t i = 0; i < axes->n; i++) {
        int64_t axis = mr_tensor_int_at(axes, i);
        if (axis < -rank || axis >= rank)
            return mr_invalid("'axis'[%lld] = %lld is out of valid range [%d, %d]", (long long)i,
                              (long long)axis, -rank, rank - 1);
        axis = axis < 0 ? axis + rank : axis;
        if (reversed[axis])
            return mr_invalid("axis %lld specified more than once.", (long long)axis);
        reversed[axis] = true;
    }
    return NULL;
}

static mr_status *reverse_dims(mr_run *r, const bool *reversed)
{
    const mr_tensor *x = mr_in(r, 0);
    int64_t strides[MR_MAX_RANK], from = 0;
    bool any = false;
    mr_tensor *out;
    mr_blit b;
    mr_dims_strides(x->rank, x->dims, strides);
    mr_blit_init(&b);
    for (int d = 0; d < x->rank; d++) {
        mr_blit_dim(&b, x->dims[d], reversed[d] ? -strides[d] : strides[d], strides[d]);
        from += reversed[d] ? (x->dims[d] - 1) * strides[d] : 0;
        any = any || (reversed[d] && x->dims[d] > 1);
    }
    if (!any || x->n == 0) {
        mr_run_pass(r, 0, 0);
        return NULL;
    }
    MR_TRY(mr_run_output(r, 0, x->rank, x->dims, &out));
    return mr_blit_copy(r, &b, out, 0, x, from);
}

static mr_status *run_reverse(mr_run *r)
{
    const mr_tensor *axes = mr_in(r, 1);
    bool reversed[MR_MAX_RANK] = {0};
    if (axes->rank != 1)
        return mr_invalid("'dims' must be 1-dimension, not %d", axes->rank);
    MR_TRY(read_axes(axes, mr_in(r, 0)->rank, reversed));
    return reverse_dims(r, reversed);
}

static mr_status *reverse_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    bool reversed[MR_MAX_RANK] = {0};
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &ignored));
    c->out[0] = c->in[0];
    const mr_tensor *axes = mr_infer_const(c, 1);
    return axes && c->in[0]->rank >= 0 ? read_axes(axes, c->in[0]->rank, reversed) : NULL;
}

static void reverse_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "ReverseV2", mr_dyi(g, 0), mr_xi(g, 1)));
}

MR_OP(ReverseV2,
    .doc      = "the elements in reverse order along these dimensions",
    .sig      = "tensor: T, axis: Tidx -> output: T",
    .attrs    = "Tidx: {int32, int64} = DT_INT32; T: {uint8, int8, uint16, int16, int32, uint32, "
                "int64, uint64, bool, bfloat16, half, float, double, complex64, complex128, "
                "string}",
    .key      = "T",
    .shape    = reverse_shape,
    .grad     = reverse_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_reverse) MR_GPU_HOST(run_reverse, FLOAT, 2, 0)),
    .examples = MR_EXAMPLES(
        "[1, 0, 0], [0] -> [0, 0, 1]", "[1, 2, 3], [0] -> [3, 2, 1]",
        "[[1, 2], [3, 4]], [0] -> [[3, 4], [1, 2]]", "[[1, 2], [3, 4]], [-1] -> [[2, 1], [4, 3]]",
        "Tidx=int64: [[1, 2], [3, 4]], [0, 1] -> [[4, 3], [2, 1]]",
        "[\"a\", \"b\"], [0] -> [\"b\", \"a\"]", "[1, 2], shape(0) -> [1, 2]", "1, shape(0) -> 1",
        "shape(0,2), [0] -> shape(0,2)", "iota(3,1,2), [0, 1] -> [[[4, 5]], [[2, 3]], [[0, 1]]]",
        "[1, 2], [1] -> !INVALID_ARGUMENT 'axis'[0] = 1 is out of valid range [-1, 0]",
        "[1, 2], [0, -1] -> !INVALID_ARGUMENT axis 0 specified more than once."));

/* ---- the first form: a flag for each dimension ---- */

static mr_status *run_reverse_flags(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *flags = mr_in(r, 1);
    bool reversed[MR_MAX_RANK] = {0};
    if (flags->rank != 1 || flags->n != x->rank)
        return mr_invalid("'dims' must be a vector of as many values as 'tensor' has dimensions: shapes %s and %s",
                          MR_TENSOR_SHAPE(flags), MR_TENSOR_SHAPE(x));
    for (int d = 0; d < x->rank; d++)
        reversed[d] = MR_DATA(const uint8_t, flags)[d] != 0;
    return reverse_dims(r, reversed);
}

static mr_status *reverse_flags_shape(mr_infer *c)
{
    const mr_pshape *flags = NULL;
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &flags));
    c->out[0] = c->in[0];
    if (flags->dims[0] < 0 || flags->dims[0] > MR_MAX_RANK)
        return NULL;
    return mr_infer_rank(c, c->in[0], (int)flags->dims[0], &c->out[0]);
}

static void reverse_flags_backward(mr_grad *g) { mr_dxi(g, 0, mr_emit(g->s, "Reverse", mr_dyi(g, 0), mr_xi(g, 1))); }

MR_OP(Reverse,
    .doc      = "the elements in reverse order along the dimensions that are flagged",
    .sig      = "tensor: T, dims: bool -> output: T",
    .attrs    = "T: {uint8, int8, uint16, int16, uint32, int32, uint64, int64, bool, bfloat16, half, float, double, "
                "complex64, complex128, string}",
    .shape    = reverse_flags_shape,
    .grad     = reverse_flags_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_reverse_flags)),
    .examples = MR_EXAMPLES(
        "[1, 0, 0], [true] -> [0, 0, 1]", "[[1, 2], [3, 4]], [true, false] -> [[3, 4], [1, 2]]",
        "[[1, 2], [3, 4]], [true, true] -> [[4, 3], [2, 1]]", "[\"a\", \"b\"], [false] -> [\"a\", \"b\"]",
        "1, shape(0) -> 1", "[1, 2], [true, false] -> !INVALID_ARGUMENT must be rank 2",
        "f = PlaceholderWithDefault dtype=bool shape=?: bool[true, true]; : [1, 2], f -> !INVALID_ARGUMENT 'dims' must be"));
