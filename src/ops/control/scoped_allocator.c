/* ops/control/scoped_allocator.c -- several tensors in one buffer: creates it, concatenates into it, and splits it
 * again.
 *
 * In TensorFlow the producers of the inputs write into the buffer themselves. Ours write to their own memory, so
 * the concatenation copies. Each tensor begins at a multiple of ALIGN bytes in the buffer, as the shape of the
 * buffer assumes. */
#include "graph/infer.h"
#include "run/run.h"

enum { ALIGN = 64 };

static mr_status *make_backing(mr_run *r)
{
    const mr_pshape *shape;
    mr_tensor *y;
    MR_TRY(mr_node_get_shape(r->node, "shape", &shape));
    if (!mr_pshape_full(shape))
        return mr_invalid("_ScopedAllocator: the shape %s must be fully defined", MR_PSHAPE_TEXT(shape));
    MR_TRY(mr_run_output(r, 0, shape->rank, shape->dims, &y));
    mr_tensor_zero(y);
    return NULL;
}

/* The position of a tensor of n elements after `at`, in elements; false when it does not fit into total. */
static bool place_next(int64_t *at, int64_t n, int64_t total, size_t size, int64_t *begin)
{
    int64_t per = (int64_t)MR_MAX(ALIGN / size, 1);
    *begin = (*at + per - 1) / per * per;
    if (*begin > total || n > total - *begin)
        return false;
    *at = *begin + n;
    return true;
}

static mr_status *too_small(const mr_run *r, const mr_tensor *buffer, int i)
{
    return mr_invalid("%s: input %d does not fit into a buffer of shape %s", r->node->def->name, i, MR_TENSOR_SHAPE(buffer));
}

static mr_status *run_concat(mr_run *r)
{
    const mr_tensor *buffer = mr_in(r, 0);
    const mr_pshape *shape;
    bool reshape;
    mr_tensor *y;
    int64_t at = 0, begin;
    MR_TRY(mr_node_get_bool(r->node, "reshape", &reshape));
    MR_TRY(mr_node_get_shape(r->node, "shape", &shape));
    if (!mr_dtype_is_plain(buffer->dtype))
        return mr_invalid("%s does not support elements of type %s", r->node->def->name, mr_dtype_name(buffer->dtype));
    if (reshape && !mr_pshape_full(shape))
        return mr_invalid("_ScopedAllocatorConcat: the shape %s must be fully defined", MR_PSHAPE_TEXT(shape));
    if (reshape)
        MR_TRY(mr_run_output(r, 0, shape->rank, shape->dims, &y));
    else
        MR_TRY(mr_run_output(r, 0, buffer->rank, buffer->dims, &y));
    if (y->n != buffer->n)
        return mr_invalid("_ScopedAllocatorConcat: shape %s for a buffer of shape %s", MR_TENSOR_SHAPE(y), MR_TENSOR_SHAPE(buffer));
    mr_tensor_zero(y);
    for (int i = 1; i < r->n_in; i++) {
        const mr_tensor *t = mr_in(r, i);
        if (!place_next(&at, t->n, y->n, mr_dtype_size(y->dtype), &begin))
            return too_small(r, buffer, i);
        MR_TRY(mr_tensor_try_copy_elements(y, begin, t, 0, t->n));
    }
    return NULL;
}

/* The shapes are those of the inputs that were concatenated. */
static mr_status *run_split(mr_run *r)
{
    const mr_tensor *buffer = mr_in(r, 0);
    int64_t at = 0, begin;
    if (!mr_dtype_is_plain(buffer->dtype))
        return mr_invalid("%s does not support elements of type %s", r->node->def->name, mr_dtype_name(buffer->dtype));
    for (int i = 0; i < r->n_out; i++) {
        const mr_tensor *like = mr_in(r, 1 + i);
        mr_tensor *y;
        if (!place_next(&at, like->n, buffer->n, mr_dtype_size(buffer->dtype), &begin))
            return too_small(r, buffer, i);
        MR_TRY(mr_run_output(r, i, like->rank, like->dims, &y));
        MR_TRY(mr_tensor_try_copy_elements(y, 0, buffer, begin, y->n));
    }
    return NULL;
}

static mr_status *concat_shape(mr_infer *c)
{
    bool reshape;
    MR_TRY(mr_node_get_bool(c->node, "reshape", &reshape));
    if (!reshape) {
        c->out[0] = c->in[0];
        return NULL;
    }
    return mr_node_get_shape(c->node, "shape", &c->out[0]);
}

static mr_status *split_shape(mr_infer *c)
{
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = c->in[1 + i];
    return NULL;
}

MR_OP(_ScopedAllocator,
    .doc      = "a buffer for several tensors",
    .sig      = "-> output: T",
    .attrs    = "shapes: list(shape); shape: shape; T: type; sa_name: string; id: int; expected_call_count: int",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_from_attr,
    .kernels  = MR_KERNELS(MR_CPU_ANY(make_backing)),
    .examples = MR_EXAMPLES("shapes=[[2], [3]] shape=[32] sa_name=\"a\" id=1 expected_call_count=2: -> shape(32)",
                            "T=float shapes=[[2]] shape=? sa_name=\"a\" id=1 expected_call_count=2: -> !INVALID_ARGUMENT fully"));

MR_OP(_ScopedAllocatorConcat,
    .doc      = "the inputs in one buffer, each at the next multiple of 64 bytes",
    .sig      = "backing: T, inputs: N * T -> output: T",
    .attrs    = "shape: shape; T: type; reshape: bool = false; sa_name: string; id: int; N: int >= 2",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = concat_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_concat)),
    .examples = MR_EXAMPLES(
        "T=double shape=[2,5] reshape=true sa_name=\"a\" id=1: shape(10), ([1, 2], [3, 4]) -> [[1, 2, 0, 0, 0], [0, 0, 0, 3, 4]]",
        "T=double shape=[10] sa_name=\"a\" id=1: shape(10), ([1], [3, 4, 5]) -> !INVALID_ARGUMENT does not fit",
        "T=float shape=[3] reshape=true sa_name=\"a\" id=1: shape(10), ([1], [3]) -> !INVALID_ARGUMENT"));

MR_OP(_ScopedAllocatorSplit,
    .doc      = "the tensors that lie in a buffer",
    .sig      = "concat: T, split: N * T -> output: N * T",
    .attrs    = "T: type; sa_name: string; id: int; N: int >= 2; shapes: list(shape)",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = split_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_split)),
    .examples = MR_EXAMPLES(
        "T=double shapes=[[1], [2]] sa_name=\"a\" id=1: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], ([0], [0, 0]) -> [1], [9, 10]",
        "T=double shapes=[[1], [2]] sa_name=\"a\" id=1: [1, 2], ([0], [0, 0]) -> !INVALID_ARGUMENT does not fit"));
