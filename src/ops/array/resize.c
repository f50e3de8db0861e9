/* ops/array/resize.c -- reads the arguments of the resizing ops. */
#include "ops/array/resize.h"

mr_status *mr_resize_size(mr_run *r, int i, int64_t *h, int64_t *w)
{
    const mr_tensor *t = mr_in(r, i);
    if (t->rank != 1 || t->n != 2)
        return mr_invalid("size must be a vector of two elements, got shape %s",
                          MR_TENSOR_SHAPE(t));
    *h = mr_tensor_int_at(t, 0);
    *w = mr_tensor_int_at(t, 1);
    if (*h <= 0 || *w <= 0)
        return mr_invalid("output dimensions must be positive");
    return NULL;
}

/* The distance between pixels of the resized image, in pixels of the original. With aligned corners the centers of
 * the outermost pixels coincide, so there is one step less than pixels. */
static float scale_of(int64_t in, int64_t out, bool align_corners)
{
    return align_corners && out > 1 ? (float)(in - 1) / (float)(out - 1) : (float)in / (float)out;
}

mr_status *mr_resize_scale(const mr_node *n, mr_resize *out)
{
    const mr_attr *half = mr_node_attr(n, "half_pixel_centers"); /* ResizeArea has none */
    MR_TRY(mr_node_get_bool(n, "align_corners", &out->align_corners));
    out->half_pixel_centers = half && half->b;
    if (out->align_corners && out->half_pixel_centers)
        return mr_invalid("If half_pixel_centers is True, align_corners must be False.");
    out->scale_h = scale_of(out->in_h, out->out_h, out->align_corners);
    out->scale_w = scale_of(out->in_w, out->out_w, out->align_corners);
    return NULL;
}

mr_status *mr_resize_read(mr_run *r, mr_resize *out)
{
    const mr_tensor *x = mr_in(r, 0);
    if (x->rank != 4)
        return mr_invalid("input must be 4-dimensional %s", MR_TENSOR_SHAPE(x));
    MR_TRY(mr_resize_size(r, 1, &out->out_h, &out->out_w));
    out->batch = x->dims[0];
    out->in_h = x->dims[1];
    out->in_w = x->dims[2];
    out->channels = x->dims[3];
    if (out->in_h <= 0 || out->in_w <= 0)
        return mr_invalid("input image must be of non-zero size");
    return mr_resize_scale(r->node, out);
}

mr_status *mr_resize_shape(mr_infer *c)
{
    const mr_pshape *x = NULL, *size = NULL;
    MR_TRY(mr_infer_rank(c, c->in[0], 4, &x));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &size));
    MR_TRY(mr_infer_dim_is(size->dims[0], 2));
    const mr_tensor *t = mr_infer_const(c, 1);
    mr_pshape *out = mr_pshape_new(c->arena, 4);
    out->dims[0] = x->dims[0];
    out->dims[3] = x->dims[3];
    for (int i = 0; t && t->n == 2 && i < 2; i++) {
        out->dims[1 + i] = mr_tensor_int_at(t, i);
        if (out->dims[1 + i] <= 0)
            return mr_invalid("output dimensions must be positive");
    }
    c->out[0] = out;
    return NULL;
}

mr_status *mr_resize_read_grad(mr_run *r, mr_resize *z)
{
    const mr_tensor *dy = mr_in(r, 0), *image = mr_in(r, 1);
    if (dy->rank != 4 || image->rank != 4)
        return mr_invalid("grads and original_image must be 4-dimensional, got shapes %s and %s",
                          MR_TENSOR_SHAPE(dy), MR_TENSOR_SHAPE(image));
    if (dy->dims[0] != image->dims[0] || dy->dims[3] != image->dims[3])
        return mr_invalid("batch and channels of grads %s and original_image %s must be equal",
                          MR_TENSOR_SHAPE(dy), MR_TENSOR_SHAPE(image));
    *z = (mr_resize){.batch = dy->dims[0], .channels = dy->dims[3], .out_h = dy->dims[1],
                     .out_w = dy->dims[2], .in_h = image->dims[1], .in_w = image->dims[2]};
    if (image->n > 0 && (z->out_h <= 0 || z->out_w <= 0))
        return mr_invalid("grads must be of non-zero size");
    return mr_resize_scale(r->node, z);
}

mr_status *mr_resize_grad_shape(mr_infer *c)
{
    return mr_infer_rank(c, c->in[1], 4, &c->out[0]);
}
