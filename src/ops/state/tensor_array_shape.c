/* ops/state/tensor_array_shape.c -- shape inference for TensorArrays.
 *
 * The handle carries the shape of the elements if all of them have the same: if the array declares it
 * fully, or declares that they are identical.  The kernels check values against it, so elements that are
 * read have it, too.  The elements of a gradient array have the same shapes. */
#include "ops/state/tensor_array.h"

/* Inputs of the ops; the array is the first input of each. */
enum { HANDLE = 0, INDEX = 1 };

static const mr_pshape *element_shape(const mr_infer *c)
{
    const mr_handle_info *h = c->in_handles ? c->in_handles[HANDLE] : NULL;
    return h && h->n > 0 ? h->parts[0].shape : &mr_pshape_unknown;
}

static mr_status *check_scalar(mr_infer *c, int input)
{
    const mr_pshape *ignored;
    return mr_infer_rank(c, c->in[input], 0, &ignored);
}

mr_status *mr_array_shape_new(mr_infer *c)
{
    struct mr_handle_part *part = mr_arena_new(c->arena, struct mr_handle_part);
    mr_handle_info *info = mr_arena_new(c->arena, mr_handle_info);
    bool identical = false;
    MR_TRY(check_scalar(c, 0));
    MR_TRY(mr_node_get_type(c->node, "dtype", &part->dtype));
    MR_TRY(mr_node_get_shape(c->node, "element_shape", &part->shape));
    MR_TRY(mr_node_get_bool(c->node, "identical_element_shapes", &identical));
    *info = (mr_handle_info){1, part};
    if (identical || mr_pshape_full(part->shape))
        c->out_handles[0] = info;
    return mr_shape_scalar(c);
}

mr_status *mr_array_shape_gradient(mr_infer *c)
{
    c->out_handles[0] = c->in_handles[HANDLE];
    return mr_shape_scalar(c);
}

/* If the element's shape is known, dimensions are prepended to it. */
mr_status *mr_array_shape_gradient_with(mr_infer *c)
{
    const mr_pshape *front, *ignored;
    MR_TRY(mr_infer_rank(c, c->in[2], 1, &ignored));
    MR_TRY(mr_infer_shape_value(c, 2, &front));
    const mr_handle_info *h = c->in_handles[HANDLE];
    if (h && h->n > 0 && front->rank >= 0) {
        struct mr_handle_part *part = mr_arena_new(c->arena, struct mr_handle_part);
        mr_handle_info *info = mr_arena_new(c->arena, mr_handle_info);
        *part = (struct mr_handle_part){h->parts[0].dtype, mr_infer_concat(c, front, h->parts[0].shape)};
        *info = (mr_handle_info){1, part};
        c->out_handles[0] = info;
    }
    return mr_shape_scalar(c);
}

mr_status *mr_array_shape_pair(mr_infer *c)
{
    mr_infer_out_vector(c, 0, 2);
    return NULL;
}

mr_status *mr_array_shape_pack(mr_infer *c)
{
    const mr_pshape *each;
    MR_TRY(mr_node_get_shape(c->node, "element_shape", &each));
    c->out[0] = mr_infer_concat(c, mr_pshape_vector(c->arena, -1), each);
    return NULL;
}

mr_status *mr_array_shape_unpack(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 1, &ignored));
    return mr_shape_scalar(c);
}

mr_status *mr_array_shape_write(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(check_scalar(c, INDEX));
    MR_TRY(mr_infer_merge(c, c->in[2], element_shape(c), &ignored));
    return mr_shape_scalar(c);
}

mr_status *mr_array_shape_read(mr_infer *c)
{
    MR_TRY(check_scalar(c, INDEX));
    c->out[0] = element_shape(c);
    return NULL;
}

mr_status *mr_array_shape_gather(mr_infer *c)
{
    const mr_pshape *indices;
    MR_TRY(mr_infer_rank(c, c->in[INDEX], 1, &indices));
    c->out[0] = mr_infer_concat(c, indices, element_shape(c));
    return NULL;
}

mr_status *mr_array_shape_scatter(mr_infer *c)
{
    const mr_pshape *indices, *value, *ignored;
    int64_t rows;
    MR_TRY(mr_infer_rank(c, c->in[INDEX], 1, &indices));
    MR_TRY(mr_infer_rank_at_least(c, c->in[2], 1, &value));
    if (value->rank > 0) {
        MR_TRY(mr_infer_merge_dim(mr_infer_dim(indices, 0), value->dims[0], &rows));
        MR_TRY(
            mr_infer_merge(c, mr_infer_sub(c, value, 1, MR_MAX_RANK), element_shape(c), &ignored));
    }
    return mr_shape_scalar(c);
}

mr_status *mr_array_shape_concat(mr_infer *c)
{
    mr_infer_out_vector(c, 1, -1);
    return NULL;
}

mr_status *mr_array_shape_split(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[2], 1, &ignored)); /* the kernel checks the rank of the value */
    return mr_shape_scalar(c);
}
