/* ops/array/pack.c -- tensors stacked along a new dimension, and unstacked again: Pack, Unpack. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"
#include "run/accel.h"

/* The position of the new dimension among the result's `rank`. TensorFlow's errors differ between building a graph
 * and running it. */
static mr_status *stack_axis(const mr_node *n, int rank, bool runs, int *out)
{
    int64_t axis = 0;
    MR_TRY(mr_node_get_int(n, "axis", &axis));
    if (axis < -rank || axis >= rank)
        return runs ? mr_invalid("axis = %lld not in [%d, %d)", (long long)axis, -rank, rank)
                    : mr_invalid("Invalid axis: %lld; must be in [%d,%d)", (long long)axis, -rank, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return NULL;
}

/* ---- Pack ---- */

static mr_status *pack_dims(mr_run *r, int axis, int64_t *dims)
{
    const mr_tensor *first = mr_in(r, 0);
    for (int i = 1; i < r->n_in; i++)
        if (!mr_tensor_same_shape(first, mr_in(r, i)))
            return mr_invalid(
                "Shapes of all inputs must match: values[0].shape = %s != values[%d].shape = %s",
                MR_TENSOR_SHAPE(first), i, MR_TENSOR_SHAPE(mr_in(r, i)));
    for (int d = 0; d <= first->rank; d++)
        dims[d] = d == axis ? r->n_in : first->dims[d - (d > axis)];
    return NULL;
}

static mr_status *run_pack(mr_run *r)
{
    const mr_tensor *first = mr_in(r, 0);
    int64_t dims[MR_MAX_RANK + 1];
    int axis = 0;
    mr_tensor *out;
    MR_TRY(stack_axis(r->node, first->rank + 1, true, &axis));
    MR_TRY(pack_dims(r, axis, dims));
    if (r->n_in == 1 && first->rank < MR_MAX_RANK)
        return mr_run_reshape(r, 0, 0, first->rank + 1, dims);
    MR_TRY(mr_run_output(r, 0, first->rank + 1, dims, &out));
    int64_t inner = mr_dims_product(first->dims, axis, first->rank),
            outer = mr_dims_product(first->dims, 0, axis);
    for (int i = 0; i < r->n_in && out->n > 0; i++) {
        if (outer == 1) {
            MR_TRY(mr_move(r, out, i * inner, mr_in(r, i), 0, inner));
            continue;
        }
        mr_blit b;
        mr_blit_init(&b);
        mr_blit_dim(&b, outer, inner, r->n_in * inner);
        mr_blit_dim(&b, inner, 1, 1);
        MR_TRY(mr_blit_copy(r, &b, out, i * inner, mr_in(r, i), 0));
    }
    return NULL;
}

/* What the types and shapes behind two handles have in common; NULL: nothing, because the types differ. */
static const mr_handle_info *common_handle(mr_infer *c, const mr_handle_info *a, const mr_handle_info *b)
{
    if (a->n != b->n)
        return NULL;
    struct mr_handle_part *parts = mr_arena_array(c->arena, struct mr_handle_part, a->n);
    for (int i = 0; i < a->n; i++) {
        const mr_pshape *s = a->parts[i].shape, *t = b->parts[i].shape;
        if (a->parts[i].dtype != b->parts[i].dtype)
            return NULL;
        mr_pshape *both = s->rank == t->rank && s->rank >= 0 ? mr_pshape_new(c->arena, s->rank) : NULL;
        for (int d = 0; both && d < s->rank; d++)
            both->dims[d] = s->dims[d] == t->dims[d] ? s->dims[d] : -1;
        parts[i] = (struct mr_handle_part){a->parts[i].dtype, both ? both : &mr_pshape_unknown};
    }
    mr_handle_info *out = mr_arena_new(c->arena, mr_handle_info);
    *out = (mr_handle_info){a->n, parts};
    return out;
}

/* For a tensor of handles, such as a batch of lists: what the known handles have in common. */
static void pack_handles(mr_infer *c)
{
    const mr_handle_info *all = NULL;
    for (int i = 0; i < c->n_in; i++) {
        const mr_handle_info *h = c->in_handles[i];
        if (h && all && !(all = common_handle(c, all, h)))
            return;
        all = all ? all : h;
    }
    c->out_handles[0] = all;
}

static mr_status *pack_shape(mr_infer *c)
{
    const mr_pshape *s = c->in[c->n_in - 1];
    int axis = 0;
    for (int i = c->n_in - 2; i >= 0; i--) {
        mr_status *st = mr_infer_merge(c, c->in[i], s, &s);
        if (st)
            return mr_status_append(st, "\n\tFrom merging shape %d with other shapes.", i);
    }
    if (s->rank < 0)
        return NULL;
    if (s->rank == MR_MAX_RANK)
        return mr_invalid("a tensor of %d dimensions cannot get another dimension", s->rank);
    MR_TRY(stack_axis(c->node, s->rank + 1, false, &axis));
    mr_pshape *out = mr_pshape_new(c->arena, s->rank + 1);
    for (int d = 0; d <= s->rank; d++)
        out->dims[d] = d == axis ? c->n_in : s->dims[d - (d > axis)];
    c->out[0] = out;
    pack_handles(c);
    return NULL;
}

static void pack_backward(mr_grad *g)
{
    int n = g->node->n_in;
    mr_out dy = mr_dyi(g, 0);
    int64_t axis = 0;
    mr_status_free(mr_node_get_int(g->node, "axis", &axis));
    mr_out parts =
        mr_emit_with(g->s, "Unpack", MR_ATTRS({"num", mr_a_int(n)}, {"axis", mr_a_int(axis)}), dy);
    for (int i = 0; i < n; i++)
        mr_dxi(g, i, mr_nth(parts, i));
}

MR_OP(Pack,
    .doc      = "the values stacked in a new dimension",
    .sig      = "values: N * T -> output: T",
    .attrs    = "N: int >= 1; T: type; axis: int = 0",
    .shape    = pack_shape,
    .grad     = pack_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_pack) MR_GPU(run_pack, FLOAT)),
    .examples = MR_EXAMPLES(
        "(1, 2, 3) -> [1, 2, 3]", "([1, 2], [3, 4]) -> [[1, 2], [3, 4]]",
        "axis=1: ([1, 2], [3, 4]) -> [[1, 3], [2, 4]]",
        "axis=-1: ([[1, 2]], [[3, 4]]) -> [[[1, 3], [2, 4]]]", "(\"a\", \"b\") -> [\"a\", \"b\"]",
        "([1, 2]) -> [[1, 2]]", "axis=-2: (shape(0), shape(0)) -> shape(2,0)",
        "axis=2: ([1], [1]) -> !INVALID_ARGUMENT Invalid axis: 2; must be in [-2,2)",
        "([1], [1, 2]) -> !INVALID_ARGUMENT must be equal",
        "x = PlaceholderWithDefault dtype=$T shape=?: [1, 2]; : ([1], x) -> !INVALID_ARGUMENT "
        "Shapes of all inputs must match: values[0].shape = [1] != values[1].shape = [2]"));

/* ---- Unpack ---- */

static mr_status *run_unpack(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    int axis = 0;
    int64_t dims[MR_MAX_RANK];
    MR_TRY(stack_axis(r->node, x->rank, true, &axis));
    if (x->dims[axis] != r->n_out)
        return mr_invalid("Input shape axis %d must equal %d, got shape %s", axis, r->n_out,
                          MR_TENSOR_SHAPE(x));
    for (int d = 0; d < x->rank - 1; d++)
        dims[d] = x->dims[d + (d >= axis)];
    int64_t inner = mr_dims_product(x->dims, axis + 1, x->rank),
            outer = mr_dims_product(x->dims, 0, axis);
    for (int i = 0; i < r->n_out; i++) {
        mr_tensor *out;
        if (outer == 1) {
            MR_TRY(mr_share(r, 0, i, i * inner, x->rank - 1, dims));
            continue;
        }
        MR_TRY(mr_run_output(r, i, x->rank - 1, dims, &out));
        mr_blit b;
        mr_blit_init(&b);
        mr_blit_dim(&b, outer, r->n_out * inner, inner);
        mr_blit_dim(&b, inner, 1, 1);
        if (out->n > 0)
            MR_TRY(mr_blit_copy(r, &b, out, 0, x, i * inner));
    }
    return NULL;
}

static mr_status *unpack_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[0];
    int axis = 0;
    int64_t dims[MR_MAX_RANK];
    if (x->rank < 0)
        return NULL;
    MR_TRY(stack_axis(c->node, x->rank, false, &axis));
    MR_TRY(mr_infer_dim_is(x->dims[axis], c->n_out));
    for (int d = 0; d < x->rank - 1; d++)
        dims[d] = x->dims[d + (d >= axis)];
    const mr_pshape *s = mr_pshape_of(c->arena, x->rank - 1, dims);
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = s;
    return NULL;
}

static void unpack_backward(mr_grad *g)
{
    int n = g->node->n_out;
    mr_out *in = mr_new_array(mr_out, n + 1);
    for (int i = 0; i < n; i++)
        in[i] = mr_dyi(g, i);
    mr_dxi(g, 0, mr_emit_like(g, "Pack", "axis", in, n));
    mr_free(in);
}

MR_OP(Unpack,
    .doc      = "the parts of the value along a dimension, which they lose",
    .sig      = "value: T -> output: num * T",
    .attrs    = "num: int >= 0; T: type; axis: int = 0",
    .shape    = unpack_shape,
    .grad     = unpack_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_unpack) MR_GPU(run_unpack, FLOAT)),
    .examples = MR_EXAMPLES(
        "num=2: [[1, 2], [3, 4]] -> [1, 2], [3, 4]",
        "num=2 axis=1: [[1, 2], [3, 4]] -> [1, 3], [2, 4]", "num=3 axis=-1: [1, 2, 3] -> 1, 2, 3",
        "num=0: shape(0,2) ->", "num=2: shape(2,0) -> shape(0), shape(0)",
        "num=1: [[\"a\", \"b\"]] -> [\"a\", \"b\"]",
        "num=3: [1, 2] -> !INVALID_ARGUMENT Dimension must be 3 but is 2",
        "x = PlaceholderWithDefault dtype=$T shape=?: [1, 2]; num=3: x -> !INVALID_ARGUMENT Input "
        "shape axis 0 must equal 3, got shape [2]",
        "num=1: 1 -> !INVALID_ARGUMENT Invalid axis: 0; must be in [0,0)"));
