/* ops/array/one_hot.c -- OneHot: adds a dimension in which one position is on. */
#include "graph/infer.h"
#include "ops/array/blit.h"
#include "ops/array/index.h"
#include "ops/array/layout.h"

/* The position of the new dimension in a result of `rank` dimensions. */
static mr_status *hot_axis(const mr_node *n, int rank, int *out)
{
    int64_t axis = 0;
    MR_TRY(mr_node_get_int(n, "axis", &axis));
    if (axis < -1 || axis >= rank)
        return mr_invalid("Expected axis to be -1 or between [0, %d).  But received: %lld", rank,
                          (long long)axis);
    *out = axis < 0 ? rank - 1 : (int)axis;
    return NULL;
}

static mr_status *check_values(mr_run *r)
{
    for (int i = 2; i < 4; i++)
        if (mr_in(r, i)->rank != 0)
            return mr_invalid("%s must be a scalar, but got: %s", i == 2 ? "on_value" : "off_value",
                              MR_TENSOR_SHAPE(mr_in(r, i)));
    return NULL;
}

/* Writes the off value everywhere, then the on value where an index is in range. */
static mr_status *write_hot(mr_run *r, mr_tensor *out, int64_t depth, int64_t suffix)
{
    const mr_tensor *indices = mr_in(r, 0), *on = mr_in(r, 2);
    size_t elem = mr_dtype_size(out->dtype);
    bool plain = mr_dtype_is_plain(out->dtype);
    mr_blit b;
    mr_blit_init(&b);
    mr_blit_dim(&b, out->n, 0, 1);
    MR_TRY(mr_blit_copy(r, &b, out, 0, mr_in(r, 3), 0));
    for (int64_t i = 0; i < indices->n; i++) {
        int64_t v = mr_index_at(indices, i);
        if (v < 0 || v >= depth)
            continue;
        int64_t at = (i / suffix * depth + v) * suffix + i % suffix;
        if (plain)
            memcpy((char *)out->data + (size_t)at * elem, on->data, elem);
        else
            MR_TRY(mr_tensor_try_copy_elements(out, at, on, 0, 1));
    }
    return NULL;
}

static mr_status *run_one_hot(mr_run *r)
{
    const mr_tensor *indices = mr_in(r, 0);
    int64_t depth = 0;
    int axis = 0;
    mr_shape s;
    mr_tensor *out;
    MR_TRY(hot_axis(r->node, indices->rank + 1, &axis));
    MR_TRY(mr_in_scalar_int(r, 1, "depth", &depth));
    MR_TRY(check_values(r));
    if (depth < 0)
        return mr_invalid("depth must be non-negative, got: %lld", (long long)depth);
    mr_shape_set(&s, axis, indices->dims);
    MR_TRY(mr_shape_push(&s, depth));
    for (int d = axis; d < indices->rank; d++)
        MR_TRY(mr_shape_push(&s, indices->dims[d]));
    MR_TRY(mr_run_output(r, 0, s.rank, s.dims, &out));
    return out->n > 0 ? write_hot(r, out, depth, mr_dims_product(indices->dims, axis, indices->rank)) : NULL;
}

static mr_status *one_hot_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[0], *ignored;
    int64_t depth = -1;
    int axis = 0;
    for (int i = 1; i < 4; i++)
        MR_TRY(mr_infer_rank(c, c->in[i], 0, &ignored));
    if (mr_infer_int(c, 1, &depth) && depth < 0)
        return mr_invalid("depth must be non-negative, got: %lld", (long long)depth);
    if (x->rank < 0)
        return NULL;
    MR_TRY(hot_axis(c->node, x->rank + 1, &axis));
    const mr_pshape *lead = mr_infer_concat(c, mr_infer_sub(c, x, 0, axis),
                                            mr_pshape_vector(c->arena, depth));
    c->out[0] = mr_infer_concat(c, lead, mr_infer_sub(c, x, axis, MR_MAX_RANK));
    return NULL;
}

MR_OP(OneHot,
    .doc      = "on_value at the place each index names in a new dimension, off_value elsewhere",
    .sig      = "indices: TI, depth: int32, on_value: T, off_value: T -> output: T",
    .attrs    = "axis: int = -1; T: type; TI: {uint8, int32, int64} = DT_INT64",
    .key      = "T",
    .flags    = MR_NO_GRADIENT,
    .shape    = one_hot_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_one_hot)),
    .examples = MR_EXAMPLES(
        "[0, 2, -1, 3], 3, 1, 0 -> [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]",
        "axis=0 TI=int32: [0, 2], 3, 5, 1 -> [[5, 1], [1, 1], [1, 5]]",
        "TI=uint8: 1, 2, \"on\", \"off\" -> [\"off\", \"on\"]",
        "axis=1: [[0, 1], [1, 1]], 2, 1, 0 -> [[[1, 0], [0, 1]], [[0, 0], [1, 1]]]",
        "shape(0), 3, 1, 0 -> shape(0,3)", "[0, 1], 0, 1, 0 -> shape(2,0)",
        "[0], -1, 1, 0 -> !INVALID_ARGUMENT depth must be non-negative, got: -1",
        "axis=2: [0], 1, 1, 0 -> !INVALID_ARGUMENT Expected axis to be -1 or between [0, 2).  But "
        "received: 2"));
