/* ops/array/inplace.c -- ops that TensorFlow defines by what happens to memory: InplaceAdd,
 * InplaceSub, InplaceUpdate, DeepCopy, Empty, Snapshot, GuaranteeConst, _EagerConst,
 * _ParallelConcatStart, _ParallelConcatUpdate; and ParallelConcat, which is made of the last two.
 *
 * Here a value never changes while others read it: memory is overwritten only when nobody else holds it. */
#include "base/memory.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/array/layout.h"
#include "ops/state/update.h"

/* ---- rows changed ---- */

static mr_status *check_rows(const mr_tensor *x, const mr_tensor *i, const mr_tensor *v)
{
    if (i->rank != 1)
        return mr_invalid("i must be a vector. %s", MR_TENSOR_SHAPE(i));
    if (x->rank < 1 || x->rank != v->rank)
        return mr_invalid("x and v shape doesn't match (ranks differ): %s vs. %s",
                          MR_TENSOR_SHAPE(x), MR_TENSOR_SHAPE(v));
    if (!mr_shape_eq(x->rank - 1, x->dims + 1, v->rank - 1, v->dims + 1))
        return mr_invalid("x and v shape doesn't match: %s vs. %s", MR_TENSOR_SHAPE(x),
                          MR_TENSOR_SHAPE(v));
    if (i->n != v->dims[0])
        return mr_invalid("i and v shape doesn't match at index 0: %s vs. %s", MR_TENSOR_SHAPE(i),
                          MR_TENSOR_SHAPE(v));
    return i->n == 0 || x->dims[0] > 0 ? NULL : mr_invalid("x has no rows to change");
}

static mr_status *change_row(mr_update_kind kind, mr_tensor *y, int64_t row, const mr_tensor *v,
                             int64_t k)
{
    int64_t width = v->n / v->dims[0];
    size_t bytes = (size_t)width * mr_dtype_size((mr_dtype)y->dtype);
    if (kind == MR_UPDATE_SET)
        return mr_tensor_try_copy_elements(y, row * width, v, k * width, width);
    mr_update_find(kind, (mr_dtype)y->dtype)((char *)y->data + (size_t)row * bytes,
                                             (const char *)v->data + (size_t)k * bytes, width);
    return NULL;
}

/* Row numbers are taken modulo the number of rows, as in TensorFlow. */
static mr_status *change_rows(mr_run *r, mr_update_kind kind)
{
    const mr_tensor *x = mr_in(r, 0), *i = mr_in(r, 1), *v = mr_in(r, 2);
    mr_tensor *y;
    MR_TRY(check_rows(x, i, v));
    MR_TRY(mr_take_over(r, 0, 0, &y));
    for (int64_t k = 0; k < i->n; k++) {
        int64_t row = MR_DATA(const int32_t, i)[k] % y->dims[0];
        MR_TRY(change_row(kind, y, row < 0 ? row + y->dims[0] : row, v, k));
    }
    return NULL;
}

static mr_status *inplace_update(mr_run *r) { return change_rows(r, MR_UPDATE_SET); }
static mr_status *inplace_add(mr_run *r) { return change_rows(r, MR_UPDATE_ADD); }
static mr_status *inplace_sub(mr_run *r) { return change_rows(r, MR_UPDATE_SUB); }

#define INPLACE .sig = "x: T, i: int32, v: T -> y: T", .attrs = "T: type", .shape = mr_shape_same

MR_OP(InplaceUpdate, .doc = "x with rows i replaced", INPLACE,
    .kernels = MR_KERNELS(MR_CPU_ANY(inplace_update)),
    .examples = MR_EXAMPLES("[[1, 2], [3, 4]], [1], [[5, 6]] -> [[1, 2], [5, 6]]", "[1, 2], [-1, 2], [7, 8] -> [8, 7]",
                            "[\"a\"], [0], [\"b\"] -> [\"b\"]", "[1], shape(0), shape(0) -> [1]",
                            "shape(0), [0], [1] -> !INVALID_ARGUMENT no rows", "[1], 0, [1] -> !INVALID_ARGUMENT i must be a vector",
                            "[1, 2], [0, 1], [1] -> !INVALID_ARGUMENT i and v shape doesn't match",
                            "[1, 2], [0], [[1]] -> !INVALID_ARGUMENT x and v shape doesn't match (ranks differ)"));
MR_OP(InplaceAdd, .doc = "x with v added to rows i", INPLACE,
    .kernels = MR_KERNELS(MR_CPU_ONE(inplace_add, MR_NUMBERS) MR_CPU_ONE(inplace_add, MR_ALL_CODES)),
    .examples = MR_EXAMPLES("[[1, 2], [3, 4]], [1, 1], [[5, 6], [1, 1]] -> [[1, 2], [9, 11]]"));
MR_OP(InplaceSub, .doc = "x with v subtracted from rows i", INPLACE,
    .kernels = MR_KERNELS(MR_CPU_ONE(inplace_sub, MR_NUMBERS) MR_CPU_ONE(inplace_sub, MR_ALL_CODES)),
    .examples = MR_EXAMPLES("[[5, 6], [7, 8]], [0], [[1, 2]] -> [[4, 4], [7, 8]]"));

/* ---- copies and new tensors ---- */

static mr_status *deep_copy(mr_run *r)
{
    mr_tensor *y;
    MR_TRY(mr_tensor_copy(mr_run_allocator(r), mr_in(r, 0), &y));
    mr_run_set(r, 0, y);
    return NULL;
}

MR_OP(DeepCopy,
    .doc      = "a copy that shares no memory",
    .sig      = "x: T -> y: T", .attrs = "T: type", .flags = MR_STATEFUL, .shape = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(deep_copy)),
    .examples = MR_EXAMPLES("[1, 2] -> [1, 2]", "\"a\" -> \"a\"", "shape(0,2) -> shape(0,2)"));

/* Zeros whether init is set or not, so that old contents of memory are never exposed. */
static mr_status *run_empty(mr_run *r)
{
    mr_shape s;
    mr_tensor *out;
    MR_TRY(mr_in_shape(r, 0, "shape", 0, &s));
    MR_TRY(mr_tensor_zeros(mr_run_allocator(r), mr_out_dtype(r, 0), s.rank, s.dims, &out));
    mr_run_set(r, 0, out);
    return NULL;
}

MR_OP(Empty,
    .doc      = "a tensor of this shape, of zeros (which TensorFlow promises only with init)",
    .sig      = "shape: int32 -> output: dtype", .attrs = "dtype: type; init: bool = false",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_shape_from_input0,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_empty)),
    .examples = MR_EXAMPLES("[2] -> [0, 0]", "init=true dtype=string: [1] -> [\"\"]", "shape(0) -> 0", "[0, 2] -> shape(0,2)",
                            "[-1] -> !INVALID_ARGUMENT"));

static mr_status *pass_input(mr_run *r)
{
    mr_run_pass(r, 0, 0);
    return NULL;
}

MR_OP(Snapshot,
    .doc      = "its input as it is now",
    .sig      = "input: T -> output: T", .attrs = "T: type", .shape = mr_shape_same, .grad = mr_grad_identity,
    .kernels  = MR_KERNELS(MR_CPU_ANY(pass_input)), .examples = MR_EXAMPLES("[1, 0] -> [1, 0]", "\"a\" -> \"a\""));

static mr_status *run_guarantee_const(mr_run *r)
{
    if (mr_in(r, 0)->dtype == MR_RESOURCE)
        return mr_invalid("Input tensor cannot be a resource variable handle.");
    mr_run_pass(r, 0, 0);
    return NULL;
}

MR_OP(GuaranteeConst, .doc = "its input, which is promised never to change", .sig = "input: T -> output: T",
      .attrs = "T: type", .flags = MR_STATEFUL, .shape = mr_shape_same, .grad = mr_grad_identity,
      .kernels = MR_KERNELS(MR_CPU_ANY(run_guarantee_const)),
      .examples = MR_EXAMPLES("[1, 0] -> [1, 0]", "\"a\" -> \"a\""));

MR_OP(_EagerConst,
    .doc      = "its input, which was a constant where it was made",
    .sig      = "input: T -> output: T", .attrs = "T: type", .shape = mr_shape_same, .grad = mr_grad_identity,
    .kernels  = MR_KERNELS(MR_CPU_ANY(pass_input)), .examples = MR_EXAMPLES("[1, 0] -> [1, 0]"));

/* ---- a tensor assembled from rows ---- */

static mr_status *full_shape(const mr_node *n, const mr_pshape **out)
{
    MR_TRY(mr_node_get_shape(n, "shape", out));
    return mr_pshape_full(*out) ? NULL : mr_invalid("shape attr must be fully defined.");
}

static mr_status *concat_shape(mr_infer *c)
{
    const mr_pshape *shape, *row;
    MR_TRY(full_shape(c->node, &shape));
    if (shape->rank < 1)
        return mr_invalid("shape attr must be at least a vector");
    const mr_pshape *one =
        mr_infer_concat(c, mr_pshape_vector(c->arena, 1), mr_infer_sub(c, shape, 1, MR_MAX_RANK));
    for (int i = 0; i < c->n_in; i++)
        MR_TRY(mr_status_prepend(mr_infer_merge(c, c->in[i], one, &row),
                                 "All input shapes must be those of rows of the shape attr: "));
    if (shape->dims[0] != c->n_in)
        return mr_invalid("shape attr says %lld rows, but %d are given", (long long)shape->dims[0],
                          c->n_in);
    c->out[0] = shape;
    return NULL;
}

static mr_status *parallel_concat(mr_run *r)
{
    const mr_pshape *s;
    mr_tensor *out;
    MR_TRY(full_shape(r->node, &s));
    if (s->rank < 1 || s->dims[0] != r->n_in)
        return mr_invalid("shape attr %s is not that of %d rows", MR_PSHAPE_TEXT(s), r->n_in);
    MR_TRY(mr_run_output(r, 0, s->rank, s->dims, &out));
    int64_t width = out->n / r->n_in;
    for (int i = 0; i < r->n_in; i++) {
        const mr_tensor *v = mr_in(r, i);
        if (v->rank != s->rank || v->dims[0] != 1 || v->n != width)
            return mr_invalid("input %d of shape %s is not a row of %s", i, MR_TENSOR_SHAPE(v),
                              MR_PSHAPE_TEXT(s));
        MR_TRY(mr_tensor_try_copy_elements(out, i * width, v, 0, width));
    }
    return NULL;
}

static void concat_backward(mr_grad *g)
{
    int n = g->node->n_in;
    mr_out parts = mr_emit_with(g->s, "Split", MR_ATTRS({"num_split", mr_a_int(n)}),
                                mr_const_i32(g->s, 0), mr_dyi(g, 0));
    for (int i = 0; i < n; i++)
        mr_dxi(g, i, mr_nth(parts, i));
}

MR_OP(ParallelConcat,
    .doc      = "rows of first size 1 put together",
    .sig      = "values: N * T -> output: T", .attrs = "N: int >= 1; T: type; shape: shape",
    .shape    = concat_shape, .grad = concat_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(parallel_concat)),
    .examples = MR_EXAMPLES("shape=[2,2]: ([[1, 2]], [[3, 4]]) -> [[1, 2], [3, 4]]", "shape=[1]: ([\"a\"]) -> [\"a\"]",
                            "shape=[2,?]: ([[1, 2]], [[3, 4]]) -> !INVALID_ARGUMENT shape attr must be fully defined.",
                            "shape=[2]: ([1, 2], [1]) -> !INVALID_ARGUMENT All input shapes must be",
                            "shape=[3]: ([1], [1]) -> !INVALID_ARGUMENT shape attr"));

static mr_status *concat_start(mr_run *r)
{
    const mr_pshape *s;
    mr_tensor *out;
    MR_TRY(full_shape(r->node, &s));
    MR_TRY(mr_tensor_zeros(mr_run_allocator(r), mr_out_dtype(r, 0), s->rank, s->dims, &out));
    mr_run_set(r, 0, out);
    return NULL;
}

MR_OP(_ParallelConcatStart,
    .doc      = "room for the rows of ParallelConcat",
    .sig      = "-> output: dtype", .attrs = "shape: shape; dtype: type", .flags = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_from_attr, .kernels = MR_KERNELS(MR_CPU_ANY(concat_start)),
    .examples = MR_EXAMPLES("shape=[2]: -> [0, 0]", "shape=[?]: -> !INVALID_ARGUMENT must be fully defined"));

static mr_status *loc_init(mr_make *m, void *state)
{
    return mr_node_get_int(m->node, "loc", state);
}

static mr_status *concat_update(mr_run *r)
{
    const mr_tensor *value = mr_in(r, 0), *update = mr_in(r, 1);
    mr_tensor *out;
    int64_t loc = *(const int64_t *)r->state;
    if (value->rank < 1 || value->rank != update->rank || update->dims[0] != 1 ||
        !mr_shape_eq(value->rank - 1, value->dims + 1, update->rank - 1, update->dims + 1))
        return mr_invalid("update %s is not a row of value %s", MR_TENSOR_SHAPE(update),
                          MR_TENSOR_SHAPE(value));
    if (loc < 0 || loc >= value->dims[0])
        return mr_invalid("loc %lld is not in [0, %lld)", (long long)loc,
                          (long long)value->dims[0]);
    MR_TRY(mr_take_over(r, 0, 0, &out));
    return mr_tensor_try_copy_elements(out, loc * update->n, update, 0, update->n);
}

MR_OP(_ParallelConcatUpdate,
    .doc      = "the value with row loc replaced",
    .sig      = "value: T, update: T -> output: T", .attrs = "T: type; loc: int", .flags = MR_NO_GRADIENT,
    .shape    = mr_shape_same, .kernels = MR_KERNELS(MR_CPU_ANY(concat_update)),
    .state_bytes = sizeof(int64_t), .init = loc_init,
    .examples = MR_EXAMPLES("loc=1: [1, 2], [7] -> [1, 7]", "loc=0: [\"a\"], [\"b\"] -> [\"b\"]",
                            "loc=2: [1, 2], [7] -> !INVALID_ARGUMENT loc 2 is not in [0, 2)",
                            "loc=0: [1, 2], [7, 8] -> !INVALID_ARGUMENT is not a row of value"));
