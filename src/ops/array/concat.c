/* ops/array/concat.c -- tensors joined along a dimension: Concat, ConcatV2, ConcatOffset. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"
#include "run/accel.h"

/* Concat has its axis first, ConcatV2 last; the values are the other inputs. */
typedef struct args {
    int axis, first, n;
} args;

static args concat_args(const mr_node *n)
{
    bool v1 = mr_node_is(n, "Concat");
    return (args){v1 ? 0 : n->n_in - 1, v1 ? 1 : 0, n->n_in - 1};
}

/* ---- kernel ---- */

static mr_status *shape_mismatch(const char *what, const mr_tensor *a, int i, const mr_tensor *b)
{
    return mr_invalid("ConcatOp : %s should match: shape[0] = %s vs. shape[%d] = %s",
                      what, MR_TENSOR_SHAPE(a), i, MR_TENSOR_SHAPE(b));
}

/* The result's size along the axis.  Scalars (axis 0) count as vectors of one element. */
static mr_status *joined_size(mr_run *r, args a, int axis, int64_t *out)
{
    const mr_tensor *first = mr_in(r, a.first);
    *out = 0;
    for (int i = 0; i < a.n; i++) {
        const mr_tensor *t = mr_in(r, a.first + i);
        if (t->rank != first->rank)
            return shape_mismatch("Ranks of all input tensors", first, i, t);
        for (int d = 0; d < t->rank; d++)
            if (d != axis && t->dims[d] != first->dims[d])
                return shape_mismatch("Dimensions of inputs", first, i, t);
        if (!mr_i64_add(*out, t->rank == 0 ? 1 : t->dims[axis], out))
            return mr_invalid("ConcatOp : The result is too large");
    }
    return NULL;
}

/* The axis, counted from the front. Axis 0 is also valid for scalars, which become a vector: a graph with known
 * shapes refuses that when it is built, an eager execution does not. */
static mr_status *concat_axis(const mr_run *r, args a, int rank, int *axis)
{
    const mr_tensor *t = mr_in(r, a.axis);
    if (t->rank > 1 || t->n != 1)
        return mr_invalid("ConcatOp : %s tensor should be a scalar integer, but got shape %s",
                          a.axis == 0 ? "concat_dim" : "axis", MR_TENSOR_SHAPE(t));
    int64_t given = mr_tensor_int_at(t, 0);
    if (given != 0 && (given < -rank || given >= rank))
        return mr_invalid("ConcatOp : Expected concatenating dimensions in the range [%d, %d), but got %lld", -rank,
                          rank, (long long)given);
    *axis = (int)(given < 0 ? given + rank : given);
    return NULL;
}

/* Rows that are joined from long pieces. All pieces of a row are written before the next row, so that the result is
 * written in order. */
typedef struct joint {
    const mr_run *run;
    args a;
    char *out;
    size_t row_bytes, outer;
} joint;

static void join_rows(void *ctx, int64_t begin, int64_t end)
{
    const joint *j = ctx;
    char *to = j->out + (size_t)begin * j->row_bytes;
    for (int64_t row = begin; row < end; row++)
        for (int i = 0; i < j->a.n; i++) {
            const mr_tensor *t = mr_in(j->run, j->a.first + i);
            size_t bytes = mr_tensor_bytes(t) / j->outer;
            memcpy(to, (const char *)t->data + (size_t)row * bytes, bytes);
            to += bytes;
        }
}

enum { LONG_PIECE = 64, MANY_ROWS = 16 }; /* bytes; few rows are better copied input by input, on all threads */

static bool has_long_pieces(const mr_run *r, args a, const mr_tensor *out, int64_t outer)
{
    if (!mr_dtype_is_plain(out->dtype) || !mr_tensor_on_host(out) || outer < MANY_ROWS)
        return false;
    for (int i = 0; i < a.n; i++)
        if (mr_tensor_bytes(mr_in(r, a.first + i)) / (size_t)outer < LONG_PIECE)
            return false;
    return true;
}

/* Joins the values. If one of them is the whole result, because the others are empty, it is passed through. */
static mr_status *run_concat(mr_run *r)
{
    args a = concat_args(r->node);
    const mr_tensor *first = mr_in(r, a.first);
    int axis = 0, rank = MR_MAX(first->rank, 1);
    int64_t total = 0, dims[MR_MAX_RANK], at = 0;
    mr_tensor *out;
    MR_TRY(concat_axis(r, a, first->rank, &axis));
    MR_TRY(joined_size(r, a, axis, &total));
    memcpy(dims, first->dims, (size_t)first->rank * sizeof(int64_t));
    dims[axis] = total;
    for (int i = 0; i < a.n && first->rank > 0; i++)
        if (mr_in(r, a.first + i)->dims[axis] == total) { /* all others are empty */
            mr_run_pass(r, a.first + i, 0);
            return NULL;
        }
    MR_TRY(mr_run_output(r, 0, rank, dims, &out));
    int64_t inner = mr_dims_product(dims, axis + 1, rank),
            outer = mr_dims_product(dims, 0, axis);
    if (out->n > 0 && has_long_pieces(r, a, out, outer)) {
        joint j = {r, a, out->data, mr_tensor_bytes(out) / (size_t)outer, (size_t)outer};
        mr_run_for(r, outer, 0.1 * (double)j.row_bytes + 4 * a.n, join_rows, &j);
        return NULL;
    }
    for (int i = 0; i < a.n && out->n > 0; i++) {
        const mr_tensor *t = mr_in(r, a.first + i);
        int64_t run = t->rank == 0 ? 1 : t->dims[axis] * inner;
        mr_blit b;
        mr_blit_init(&b);
        mr_blit_dim(&b, outer, run, total * inner);
        mr_blit_dim(&b, run, 1, 1);
        MR_TRY(mr_blit_copy(r, &b, out, at, t, 0));
        at += run;
    }
    return NULL;
}

/* ---- shape ---- */

/* If the axis is unknown: the rank of the first input whose rank is known, with unknown sizes. */
static mr_status *shape_of_any_axis(mr_infer *c, args a)
{
    const mr_pshape *ignored;
    int rank = -1;
    for (int i = 0; i < a.n && rank < 0; i++)
        rank = c->in[a.first + i]->rank;
    if (rank == 0)
        return mr_invalid("Can't concatenate scalars (use tf.stack instead)");
    if (rank < 0)
        return NULL;
    for (int i = 0; i < a.n; i++)
        MR_TRY(mr_infer_rank(c, c->in[a.first + i], rank, &ignored));
    c->out[0] = mr_pshape_new(c->arena, rank);
    return NULL;
}

/* The parts before and after the axis must agree; the sizes along it are added. Inputs are read from the last to
 * the first, as in TensorFlow, so that errors name the same input. */
static mr_status *concat_shape(mr_infer *c)
{
    args a = concat_args(c->node);
    const mr_pshape *before = &mr_pshape_unknown, *after = &mr_pshape_unknown, *ignored;
    int64_t axis, total = 0;
    MR_TRY(mr_infer_rank(c, c->in[a.axis], 0, &ignored));
    if (!mr_infer_int(c, a.axis, &axis))
        return shape_of_any_axis(c, a);
    for (int i = a.n - 1; i >= 0; i--) {
        const mr_pshape *x = c->in[a.first + i];
        int at;
        if (x->rank < 0) {
            total = -1;
            continue;
        }
        MR_TRY(mr_infer_position(axis, x->rank, &at));
        MR_TRY(mr_infer_merge(c, mr_infer_sub(c, x, 0, at), before, &before));
        if (total >= 0 && x->dims[at] < 0)
            total = -1;
        else if (total >= 0 && !mr_i64_add(total, x->dims[at], &total))
            return mr_invalid("Dimension size overflow from adding %lld and %lld", (long long)total,
                              (long long)x->dims[at]);
        MR_TRY(mr_infer_merge(c, mr_infer_sub(c, x, at + 1, MR_MAX_RANK), after, &after));
    }
    if (before->rank >= 0)
        c->out[0] = mr_infer_concat(c, mr_infer_concat(c, before, mr_pshape_vector(c->arena, total)), after);
    return NULL;
}

/* ---- gradient: the parts of dy ---- */

/* Gets the sizes along the axis; false unless all are known. */
static bool static_sizes(mr_grad *g, args a, int64_t axis, int32_t *sizes)
{
    for (int i = 0; i < a.n; i++) {
        const mr_pshape *s = mr_out_shape(mr_xi(g, a.first + i));
        if (s->rank <= 0 || axis < -s->rank || axis >= s->rank)
            return false;
        int64_t n = mr_infer_dim(s, (int)axis);
        if (n < 0 || n > INT32_MAX)
            return false;
        sizes[i] = (int32_t)n;
    }
    return true;
}

static bool constant_axis(mr_grad *g, args a, int64_t *out)
{
    mr_tensor *t = NULL;
    mr_status *st = mr_out_value(mr_xi(g, a.axis), &t);
    bool known = !st && t && t->n == 1;
    if (known)
        *out = mr_tensor_int_at(t, 0);
    mr_status_free(st);
    mr_tensor_unref(t);
    return known;
}

/* Emits one node if the sizes are known: SplitV shares dy's buffer where it can. */
static bool split_backward(mr_grad *g, args a)
{
    int64_t axis;
    int32_t *sizes = mr_new_array(int32_t, a.n);
    bool known = constant_axis(g, a, &axis) && static_sizes(g, a, axis, sizes);
    if (known) {
        mr_out in[] = {mr_dyi(g, 0), mr_const_vec_i32(g->s, a.n, sizes),
                       mr_const_i32(g->s, (int32_t)axis)};
        mr_out parts = mr_emit_n(g->s, "SplitV", MR_ATTRS({"num_split", mr_a_int(a.n)}), in, 3);
        for (int i = 0; i < a.n; i++)
            mr_dxi(g, a.first + i, mr_nth(parts, i));
    }
    mr_free(sizes);
    return known;
}

static void concat_backward(mr_grad *g)
{
    args a = concat_args(g->node);
    if (split_backward(g, a))
        return;
    mr_out *in = mr_new_array(mr_out, a.n + 1);
    mr_out axis = mr_xi(g, a.axis);
    if (mr_out_type(axis) != MR_INT32)
        axis = mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), axis);
    in[0] = axis;
    for (int i = 0; i < a.n; i++)
        in[i + 1] = mr_shape_of(g, mr_xi(g, a.first + i));
    mr_out offsets = mr_emit_n(g->s, "ConcatOffset", NULL, 0, in, a.n + 1);
    for (int i = 0; i < a.n; i++)
        mr_dxi(g, a.first + i, mr_emit(g->s, "Slice", mr_dyi(g, 0), mr_nth(offsets, i), in[i + 1]));
    mr_free(in);
}

MR_OP(Concat,
    .doc      = "the values one after another along a dimension",
    .sig      = "concat_dim: int32, values: N * T -> output: T",
    .attrs    = "N: int >= 2; T: type",
    .shape    = concat_shape,
    .grad     = concat_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_concat) MR_GPU_HOST(run_concat, FLOAT, 1, 0)),
    .examples = MR_EXAMPLES(
        "0, ([1, 0], [1]) -> [1, 0, 1]",
        "1, ([[1], [0]], [[0, 1], [1, 1]]) -> [[1, 0, 1], [0, 1, 1]]", "[0], ([1], [0]) -> !INVALID_ARGUMENT must be "
        "rank 0 but is rank 1",
        "0, (1, 0) -> !INVALID_ARGUMENT Shape must be at least rank 1 but is rank 0",
        "i = PlaceholderWithDefault dtype=int32 shape=?: int32 0; : i, (1, 0) -> !INVALID_ARGUMENT Can't concatenate "
        "scalars (use tf.stack instead)"));

MR_OP(ConcatV2,
    .doc      = "the values one after another along a dimension",
    .sig      = "values: N * T, axis: Tidx -> output: T",
    .attrs    = "N: int >= 2; T: type; Tidx: {int32, int64} = DT_INT32",
    .shape    = concat_shape,
    .grad     = concat_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_concat) MR_GPU_HOST(run_concat, FLOAT, 2, 0)),
    .examples = MR_EXAMPLES(
        "([1, 2], [3], shape(0)), 0 -> [1, 2, 3]",
        "([[1, 2], [3, 4]], [[5], [6]]), -1 -> [[1, 2, 5], [3, 4, 6]]",
        "Tidx=int64: ([[\"a\"]], [[\"b\"]]), 0 -> [[\"a\"], [\"b\"]]",
        "(shape(0,2), [[1, 2]]), 0 -> [[1, 2]]", "(shape(2,0), shape(3,0)), 0 -> shape(5,0)",
        "([[[1, 2]], [[3, 4]]], [[[5, 6]], [[7, 8]]]), 1 -> [[[1, 2], [5, 6]], [[3, 4], [7, 8]]]",
        "([1], [[1]]), 0 -> !INVALID_ARGUMENT must be equal rank",
        "([[1, 2]], [[1]]), 0 -> !INVALID_ARGUMENT must be equal",
        "x = PlaceholderWithDefault dtype=$T shape=?: [[1]]; : ([[1, 2]], x), 0 -> "
        "!INVALID_ARGUMENT ConcatOp : Dimensions of inputs should match: shape[0] = [1,2] vs. "
        "shape[1] = [1,1]",
        "x = PlaceholderWithDefault dtype=$T shape=?: 1; y = PlaceholderWithDefault dtype=$T shape=?: 0; nograd"
        ": (x, y, x), 0 -> [1, 0, 1]",
        "x = PlaceholderWithDefault dtype=$T shape=?: 1; i = PlaceholderWithDefault dtype=int32 shape=?: int32 1; "
        ": (x, x), i -> !INVALID_ARGUMENT ConcatOp : Expected concatenating dimensions in the range [0, 0), but got 1",
        "(1, 0), 0 -> !INVALID_ARGUMENT must be at least rank 1 but is rank 0",
        "i = PlaceholderWithDefault dtype=int32 shape=?: int32 1; : ([1], [1]), i -> "
        "!INVALID_ARGUMENT ConcatOp : Expected concatenating dimensions in the range [-1, 1), but got 1",
        "([1], [1]), -2 -> !INVALID_ARGUMENT Shape must be at least rank 2 but is rank 1",
        "([1], [1]), int64 -9223372036854775808 -> !INVALID_ARGUMENT Shape must be at least rank 9223372036854775808 "
        "but is rank 1",
        "([1], [1]), int64 9223372036854775807 -> !INVALID_ARGUMENT Shape must be at least rank 9223372036854775808 "
        "but is rank 1"));

/* ---- ConcatOffset ---- */

static mr_status *shapes_differ(int64_t axis, int i, const mr_tensor *t, const mr_tensor *first)
{
    mr_str text = {0};
    mr_str_printf(&text, "All dimensions except %lld must match. Input %d has shape [", (long long)axis, i);
    mr_tensor_summarize(t, 10, &text);
    mr_str_appendz(&text, "] and doesn't match input 0 with shape [");
    mr_tensor_summarize(first, 10, &text);
    mr_status *st = mr_invalid("%s].", mr_str_z(&text));
    mr_str_deinit(&text);
    return st;
}

static mr_status *check_offset_shapes(mr_run *r, int64_t axis, const mr_tensor *first)
{
    for (int i = 1; i < r->n_in; i++) {
        const mr_tensor *t = mr_in(r, i);
        if (t->n != first->n)
            return mr_invalid("input %d should contain %lld elements, but got %lld", i - 1, (long long)first->n,
                              (long long)t->n);
        for (int64_t d = 0; d < t->n; d++)
            if (d != axis && mr_tensor_int_at(t, d) != mr_tensor_int_at(first, d))
                return shapes_differ(axis, i - 1, t, first);
    }
    return NULL;
}

static mr_status *run_concat_offset(mr_run *r)
{
    const mr_tensor *first = mr_in(r, 1), *dim = mr_in(r, 0);
    int64_t at = 0;
    if (dim->rank > 1 || dim->n != 1) /* the gradient accepts every axis that Concat accepts */
        return mr_invalid("Concat dim tensor should be a scalar integer, but got shape %s", MR_TENSOR_SHAPE(dim));
    int64_t axis = mr_tensor_int_at(dim, 0);
    for (int i = 1; i < r->n_in; i++)
        if (mr_in(r, i)->rank != 1)
            return mr_invalid("input %d should be a vector, but got shape %s", i, MR_TENSOR_SHAPE(mr_in(r, i)));
    if (axis < -first->n || axis >= first->n)
        return mr_invalid("Concat dim is out of range: %lld vs. %lld", (long long)axis,
                          (long long)first->n);
    axis = axis < 0 ? axis + first->n : axis;
    MR_TRY(check_offset_shapes(r, axis, first));
    for (int i = 0; i < r->n_out; i++) {
        mr_tensor *out;
        MR_TRY(mr_run_output(r, i, 1, first->dims, &out));
        mr_tensor_zero(out);
        if (at > INT32_MAX || at < INT32_MIN)
            return mr_invalid("offset %lld of input %d does not fit in int32", (long long)at, i);
        MR_DATA(int32_t, out)[axis] = (int32_t)at;
        at += mr_tensor_int_at(mr_in(r, i + 1), axis);
    }
    return NULL;
}

static mr_status *concat_offset_shape(mr_infer *c)
{
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = c->in[i + 1];
    return NULL;
}

MR_OP(ConcatOffset,
    .doc      = "where each of these shapes begins in their concatenation",
    .sig      = "concat_dim: int32, shape: N * int32 -> offset: N * int32",
    .attrs    = "N: int >= 2",
    .flags    = MR_CHEAP | MR_NO_GRADIENT,
    .shape    = concat_offset_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_concat_offset)),
    .examples = MR_EXAMPLES(
        "1, ([2, 2, 7], [2, 3, 7], [2, 5, 7]) -> [0, 0, 0], [0, 2, 0], [0, 5, 0]",
        "-1, ([3], [4]) -> [0], [3]",
        "0, ([2, 2], [2, 3]) -> !INVALID_ARGUMENT All dimensions except 0 must match.",
        "2, ([2, 2], [2, 3]) -> !INVALID_ARGUMENT Concat dim is out of range: 2 vs. 2"));
