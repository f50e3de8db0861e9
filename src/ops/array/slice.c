/* ops/array/slice.c -- Slice: a block of a tensor. A contiguous block shares the buffer. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"
#include "run/accel.h"

/* Checks one dimension of the block; size -1 means "to the end". */
static mr_status *check_dim(int d, int64_t n, int64_t begin, int64_t *size)
{
    if (begin < 0 || begin > n)
        return mr_invalid("Expected begin[%d] in [0, %lld], but got %lld", d, (long long)n,
                          (long long)begin);
    if (*size == -1)
        *size = n - begin;
    if (*size < 0 || *size > n - begin)
        return mr_invalid("Expected size[%d] in [0, %lld], but got %lld", d, (long long)(n - begin),
                          (long long)*size);
    return NULL;
}

static mr_status *read_block(mr_run *r, int64_t *begin, int64_t *size)
{
    const mr_tensor *x = mr_in(r, 0), *b = mr_in(r, 1), *s = mr_in(r, 2);
    if (b->rank != 1 || s->rank != 1 || b->n != x->rank || s->n != x->rank)
        return mr_invalid("Expected begin and size arguments to be 1-D tensors of size %d, but got "
                          "shapes %s and %s instead.",
                          x->rank, MR_TENSOR_SHAPE(b), MR_TENSOR_SHAPE(s));
    for (int d = 0; d < x->rank; d++) {
        begin[d] = mr_tensor_int_at(b, d);
        size[d] = mr_tensor_int_at(s, d);
        MR_TRY(check_dim(d, x->dims[d], begin[d], &size[d]));
    }
    return NULL;
}

static mr_status *run_slice(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    int64_t begin[MR_MAX_RANK], size[MR_MAX_RANK], from[MR_MAX_RANK], to[MR_MAX_RANK], start = 0;
    mr_tensor *out;
    mr_blit b;
    MR_TRY(read_block(r, begin, size));
    mr_dims_strides(x->rank, x->dims, from);
    for (int d = 0; d < x->rank; d++)
        start += begin[d] * from[d];
    if (x->n > 0 && mr_is_contiguous(x->rank, x->dims, size))
        return mr_share(r, 0, 0, MR_MIN(start, x->n), x->rank, size);
    MR_TRY(mr_run_output(r, 0, x->rank, size, &out));
    if (out->n == 0)
        return NULL;
    mr_dims_strides(x->rank, size, to);
    mr_blit_init(&b);
    for (int d = 0; d < x->rank; d++)
        mr_blit_dim(&b, size[d], from[d], to[d]);
    MR_TRY(mr_blit_copy(r, &b, out, 0, x, start));
    return NULL;
}

/* ---- shape ---- */

/* Infers one dimension, as far as its size n (-1: unknown) and the constants determine it. */
static mr_status *infer_dim(int d, int64_t n, const mr_tensor *begin, int64_t size, int64_t *out)
{
    *out = -1;
    if (begin && n >= 0) {
        MR_TRY(check_dim(d, n, mr_tensor_int_at(begin, d), &size));
        *out = size;
    } else if (size >= 0) {
        *out = size;
    } else if (size < -1) {
        return mr_invalid("Expected size[%d] to be at least -1, but got %lld", d, (long long)size);
    }
    return NULL;
}

static mr_status *slice_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[0], *v = NULL, *size = NULL;
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &v));
    MR_TRY(mr_infer_rank(c, c->in[2], 1, &size));
    MR_TRY(mr_infer_merge(c, v, size, &v));
    int64_t rank = v->dims[0];
    if (rank > MR_MAX_RANK)
        return mr_invalid("Shape must be rank %lld but is rank %d", (long long)rank, x->rank);
    if (rank >= 0)
        MR_TRY(mr_infer_rank(c, x, (int)rank, &x));
    rank = x->rank;
    if (rank < 0)
        return NULL;
    const mr_tensor *begin = mr_infer_const(c, 1), *exact = mr_infer_const(c, 2);
    if (exact && exact->n != rank)
        return NULL;
    mr_pshape *out = mr_pshape_new(c->arena, (int)rank);
    c->out[0] = out;
    /* Partly known sizes are used too, but there -1 may mean "unknown" as well as "to the end". */
    if (!exact)
        MR_TRY(mr_infer_shape_value(c, 2, &size));
    for (int d = 0; d < rank; d++) {
        int64_t n = x->rank < 0 ? -1 : x->dims[d];
        if (exact)
            MR_TRY(infer_dim(d, n, begin && begin->n == rank ? begin : NULL,
                             mr_tensor_int_at(exact, d), &out->dims[d]));
        else if (size->rank == rank)
            out->dims[d] = size->dims[d];
    }
    return NULL;
}

/* ---- gradient: dy where the block was, zeros around it ---- */

static void slice_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0), begin = mr_xi(g, 1);
    if (mr_out_type(begin) != MR_INT32)
        begin = mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), begin);
    mr_out size = mr_shape_of(g, mr_yi(g, 0)), whole = mr_shape_of(g, mr_xi(g, 0));
    mr_out after = mr_emit(g->s, "Sub", mr_emit(g->s, "Sub", whole, size), begin);
    mr_out pads = mr_emit_with(g->s, "Pack", MR_ATTRS({"axis", mr_a_int(1)}), begin, after);
    mr_dxi(g, 0, mr_emit(g->s, "Pad", dy, pads));
}

MR_OP(Slice,
    .doc      = "the block of this size that begins there; a size of -1 is all the rest",
    .sig      = "input: T, begin: Index, size: Index -> output: T",
    .attrs    = "T: type; Index: {int32, int64}",
    .shape    = slice_shape,
    .grad     = slice_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_slice) MR_GPU_HOST(run_slice, FLOAT, 6, 0)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3, 4], int32[1], int32[2] -> [2, 3]",
        "[[1, 2, 3], [4, 5, 6]], int64[0, 1], int64[2, -1] -> [[2, 3], [5, 6]]",
        "[[1, 2, 3], [4, 5, 6]], int32[1, 0], int32[1, 3] -> [[4, 5, 6]]",
        "[[1, 2, 3], [4, 5, 6]], int32[1, 1], int32[1, 1] -> [[5]]",
        "iota(300,2), int32[1, 0], int32[-1, 2] -> shape(299,2)",
        "[\"a\", \"b\", \"c\"], int32[1], int32[-1] -> [\"b\", \"c\"]",
        "1, int32 shape(0), int32 shape(0) -> 1", "[1, 2], int32[2], int32[0] -> shape(0)",
        "shape(0,2), int32[0, 1], int32[0, 1] -> shape(0,1)",
        "[1, 2], int32[3], int32[0] -> !INVALID_ARGUMENT Expected begin[0] in [0, 2], but got 3",
        "[1, 2], int32[1], int32[2] -> !INVALID_ARGUMENT Expected size[0] in [0, 1], but got 2",
        "b = PlaceholderWithDefault dtype=int32 shape=?: int32[-1]; : [1, 2], b, int32[1] -> "
        "!INVALID_ARGUMENT Expected begin[0] in [0, 2], but got -1",
        "s = PlaceholderWithDefault dtype=int32 shape=?: int32[-2]; : [1, 2], int32[0], s -> "
        "!INVALID_ARGUMENT Expected size[0] in [0, 2], but got -2",
        "b = PlaceholderWithDefault dtype=int32 shape=?: int32[0, 0]; : [1, 2], b, b -> "
        "!INVALID_ARGUMENT Expected begin and size arguments to be 1-D tensors of size 1"));
