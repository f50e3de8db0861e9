/* ops/array/split.c -- splits a tensor along a dimension: Split, SplitV.
 *
 * Contiguous parts (dimension 0, or only sizes of 1 before it) share the input's buffer. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"
#include "run/accel.h"
#include "run/scratch.h"

/* Sets output i to `size` elements of the axis from `start` on. */
static mr_status *cut_part(mr_run *r, int in, int i, int axis, int64_t start, int64_t size)
{
    const mr_tensor *x = mr_in(r, in);
    int64_t dims[MR_MAX_RANK], inner = mr_dims_product(x->dims, axis + 1, x->rank);
    int64_t outer = mr_dims_product(x->dims, 0, axis);
    mr_tensor *out;
    memcpy(dims, x->dims, (size_t)x->rank * sizeof(int64_t));
    dims[axis] = size;
    if (outer == 1)
        return mr_share(r, in, i, start * inner, x->rank, dims);
    MR_TRY(mr_run_output(r, i, x->rank, dims, &out));
    mr_blit b;
    mr_blit_init(&b);
    mr_blit_dim(&b, outer, x->dims[axis] * inner, size * inner);
    mr_blit_dim(&b, size * inner, 1, 1);
    if (out->n > 0)
        MR_TRY(mr_blit_copy(r, &b, out, 0, x, start * inner));
    return NULL;
}

/* ---- Split ---- */

static mr_status *bad_split_axis(int64_t axis, int rank)
{
    return mr_invalid("-input rank(-%d) <= split_dim < input rank (%d), but got %lld", rank, rank,
                      (long long)axis);
}

static mr_status *split_axis(const mr_run *r, int in, int rank, int *out)
{
    int64_t axis = 0;
    if (mr_in(r, in)->n != 1)
        return mr_invalid("split_dim_tensor must have exactly one element.");
    axis = mr_tensor_int_at(mr_in(r, in), 0);
    if (axis < -rank || axis >= rank)
        return bad_split_axis(axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return NULL;
}

static mr_status *run_split(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 1);
    int axis = 0;
    MR_TRY(split_axis(r, 0, x->rank, &axis));
    if (x->dims[axis] % r->n_out != 0)
        return mr_invalid("Number of ways to split should evenly divide the split dimension, but "
                          "got split_dim %d "
                          "(size = %lld) and num_split %d",
                          axis, (long long)x->dims[axis], r->n_out);
    int64_t size = x->dims[axis] / r->n_out;
    for (int i = 0; i < r->n_out; i++)
        MR_TRY(cut_part(r, 1, i, axis, i * size, size));
    return NULL;
}

/* The axis if it is known, else -1; a known rank limits it. */
static mr_status *known_axis(mr_infer *c, int in, int rank, int *out)
{
    int64_t axis;
    *out = -1;
    if (c->in[in]->rank > 0)
        return mr_invalid("Input must be scalar but has rank %d", c->in[in]->rank);
    if (rank < 0 || !mr_infer_int(c, in, &axis))
        return NULL;
    if (axis < -rank || axis >= rank)
        return mr_invalid("Dimension size, given by scalar input %lld must be in range [-%d, %d)", (long long)axis,
                          rank, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return NULL;
}

static mr_status *split_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[1], *out;
    int axis = -1;
    MR_TRY(known_axis(c, 0, x->rank, &axis));
    if (x->rank < 0)
        return NULL;
    if (axis < 0) {
        out = mr_pshape_new(c->arena, x->rank);
    } else {
        int64_t n = x->dims[axis];
        if (n >= 0 && n % c->n_out != 0)
            return mr_invalid("Dimension size must be evenly divisible by %d but is %lld\n\tNumber of ways to split "
                              "should evenly divide the split dimension",
                              c->n_out, (long long)n);
        out = mr_pshape_with(c->arena, x, axis, n < 0 ? -1 : n / c->n_out);
    }
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = out;
    return NULL;
}

/* Concatenates the gradients of all parts. */
static mr_out join_gradients(mr_grad *g, mr_out axis)
{
    int n = g->node->n_out;
    if (n == 1)
        return mr_dyi(g, 0);
    mr_out *in = mr_new_array(mr_out, n + 1);
    for (int i = 0; i < n; i++)
        in[i] = mr_dyi(g, i);
    in[n] = axis;
    mr_out all = mr_emit_n(g->s, "ConcatV2", NULL, 0, in, n + 1);
    mr_free(in);
    return all;
}

static void split_backward(mr_grad *g) { mr_dxi(g, 1, join_gradients(g, mr_xi(g, 0))); }

MR_OP(Split,
    .doc      = "the value in num_split equal parts along a dimension",
    .sig      = "split_dim: int32, value: T -> output: num_split * T",
    .attrs    = "num_split: int >= 1; T: type",
    .shape    = split_shape,
    .grad     = split_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_split) MR_GPU_HOST(run_split, FLOAT, 1, 0)),
    .examples = MR_EXAMPLES(
        "num_split=2: 0, [1, 2, 3, 4] -> [1, 2], [3, 4]",
        "num_split=2: -1, [[1, 2], [3, 4]] -> [[1], [3]], [[2], [4]]",
        "num_split=2: 1, [[\"a\", \"b\"]] -> [[\"a\"]], [[\"b\"]]",
        "num_split=1: 0, [1, 0] -> [1, 0]",
        "num_split=3: 1, [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]] -> [[[1, 2]], "
        "[[7, 8]]], [[[3, 4]], [[9, 10]]], [[[5, 6]], [[11, 12]]]",
        "num_split=2: 0, shape(0,3) -> shape(0,3), shape(0,3)",
        "num_split=2: 0, shape(2,0) -> shape(1,0), shape(1,0)",
        "num_split=2: 0, [1, 0, 1] -> !INVALID_ARGUMENT Number of ways to split should evenly "
        "divide the split dimension",
        "num_split=2: 1, [1, 0] -> !INVALID_ARGUMENT Dimension size, given by scalar input 1 must be in range [-1, 1)",
        "i = PlaceholderWithDefault dtype=int32 shape=?: int32 1; num_split=2: i, [1, 0] -> !INVALID_ARGUMENT "
        "-input rank(-1) <= split_dim < input rank (1), but got 1",
        "i = PlaceholderWithDefault dtype=int32 shape=?: int32 0; num_split=2: i, [1, 0, 1] -> "
        "!INVALID_ARGUMENT but got split_dim 0 (size = 3) and num_split 2"));

/* ---- SplitV ---- */

/* Computes the size written as -1 and checks that the whole axis is used. There are n sizes; total is the size of
 * the axis. */
static mr_status *resolve_sizes(int64_t *sizes, int n, int64_t total)
{
    int open = -1;
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        if (sizes[i] == -1 && open >= 0)
            return mr_invalid("There can only be one -1 in the input size_splits");
        if (sizes[i] == -1)
            open = i;
        else if (sizes[i] < 0)
            return mr_invalid("Split size at index %d must be >= 0. Got: %lld", i,
                              (long long)sizes[i]);
        else if (!mr_i64_add(sum, sizes[i], &sum))
            return mr_invalid("The sum of size_splits is too large");
    }
    if (open < 0 ? sum != total : sum > total)
        return mr_invalid("Determined shape must either match input shape along split_dim exactly "
                          "if fully specified, "
                          "or be less than the size of the input along split_dim if not fully "
                          "specified.  Got: %lld",
                          (long long)sum);
    if (open >= 0)
        sizes[open] = total - sum;
    return NULL;
}

static mr_status *run_split_v(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *t = mr_in(r, 1);
    int axis = 0;
    int64_t at = 0;
    mr_status *st = NULL;
    MR_TRY(split_axis(r, 2, x->rank, &axis));
    if (t->rank != 1 || t->n != r->n_out)
        return mr_invalid(
            "size_splits must be a vector of %d elements, one per output, got shape %s", r->n_out,
            MR_TENSOR_SHAPE(t));
    int64_t *sizes = mr_scratch(r, sizeof(int64_t) * (size_t)r->n_out);
    if (!sizes)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %d sizes", r->n_out);
    for (int i = 0; i < r->n_out; i++)
        sizes[i] = mr_tensor_int_at(t, i);
    MR_GO(resolve_sizes(sizes, r->n_out, x->dims[axis]));
    for (int i = 0; i < r->n_out; at += sizes[i++])
        MR_GO(cut_part(r, 0, i, axis, at, sizes[i]));
out:
    mr_scratch_free(sizes);
    return st;
}

/* The sizes of the parts; -1 where they are unknown. */
static mr_status *known_sizes(mr_infer *c, int64_t total, int64_t *sizes)
{
    const mr_tensor *t = mr_infer_const(c, 1);
    for (int i = 0; i < c->n_out; i++)
        sizes[i] = t && t->n == c->n_out ? mr_tensor_int_at(t, i) : -1;
    return t && total >= 0 ? resolve_sizes(sizes, c->n_out, total) : NULL;
}

static mr_status *split_v_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[0], *lengths = NULL;
    int axis = -1;
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &lengths));
    MR_TRY(mr_infer_dim_is(lengths->dims[0], c->n_out));
    MR_TRY(known_axis(c, 2, x->rank, &axis));
    if (x->rank < 0)
        return NULL;
    int64_t *sizes = mr_arena_array(c->arena, int64_t, c->n_out);
    if (axis >= 0)
        MR_TRY(known_sizes(c, x->dims[axis], sizes));
    for (int i = 0; i < c->n_out; i++) {
        if (axis >= 0 && sizes[i] < -1)
            return mr_invalid("Split size at index %d must be >= 0. Got: %lld", i,
                              (long long)sizes[i]);
        c->out[i] = axis < 0 ? mr_pshape_new(c->arena, x->rank)
                             : mr_pshape_with(c->arena, x, axis, sizes[i]);
    }
    return NULL;
}

static void split_v_backward(mr_grad *g) { mr_dxi(g, 0, join_gradients(g, mr_xi(g, 2))); }

MR_OP(SplitV,
    .doc      = "the value in parts of these sizes along a dimension; one size may be -1: the rest",
    .sig      = "value: T, size_splits: Tlen, split_dim: int32 -> output: num_split * T",
    .attrs    = "num_split: int >= 1; T: type; Tlen: {int32, int64} = DT_INT64",
    .shape    = split_v_shape,
    .grad     = split_v_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_split_v) MR_GPU_HOST(run_split_v, FLOAT, 6, 0)),
    .examples = MR_EXAMPLES(
        "num_split=3: [1, 2, 3, 4], [1, 3, 0], 0 -> [1], [2, 3, 4], shape(0)",
        "num_split=2 Tlen=int32: [[1, 2, 3], [4, 5, 6]], [-1, 1], -1 -> [[1, 2], [4, 5]], [[3], "
        "[6]]",
        "num_split=1: [[\"a\"]], [1], 1 -> [[\"a\"]]",
        "num_split=2: [1, 0], [1, 2], 0 -> !INVALID_ARGUMENT Determined shape must either match "
        "input shape along split_dim exactly",
        "num_split=2: [1, 0], [-1, 3], 0 -> !INVALID_ARGUMENT Determined shape",
        "num_split=2: [1, 0], [-1, -1], 0 -> !INVALID_ARGUMENT only be one -1",
        "num_split=2: [1, 0], [4, -2], 0 -> !INVALID_ARGUMENT Got: -2",
        "s = PlaceholderWithDefault dtype=int64 shape=?: int64[4, -2]; num_split=2: [1, 0], s, 0 "
        "-> !INVALID_ARGUMENT Got: -2",
        "num_split=2: [1, 0], [2], 0 -> !INVALID_ARGUMENT"));
