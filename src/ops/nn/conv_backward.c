/* ops/nn/conv_backward.c -- the two backward passes of a convolution, for all families of ops. */
#include "ops/nn/conv_backward.h"

#include "base/memory.h"

static mr_status *check_rank(const mr_run *r, const mr_window *w, const mr_tensor *t,
                             const char *what)
{
    if (t->rank == mr_window_rank(w))
        return NULL;
    return mr_invalid("%s: %s must be %d-dimensional, got %s", r->node->def->name, what,
                      mr_window_rank(w), MR_TENSOR_SHAPE(t));
}

/* Reads input_sizes: all dims of the image, or only the spatial ones. */
static mr_status *image_sizes(const mr_run *r, const mr_window *w, const mr_tensor *filter,
                              const mr_tensor *dy, int64_t *out_dims)
{
    mr_shape s;
    MR_TRY(mr_in_shape(r, 0, "input_sizes", 0, &s));
    int rank = mr_window_rank(w);
    if (s.rank == rank)
        memcpy(out_dims, s.dims, (size_t)rank * sizeof(int64_t));
    else if (s.rank == w->n)
        mr_window_dims(w, dy->dims[0], s.dims, filter->dims[w->n], out_dims);
    else
        return mr_invalid("%s: input_sizes must have %d or %d elements, got %d", r->node->def->name,
                          rank, w->n, s.rank);
    int64_t ignored;
    return mr_shape_elements(rank, out_dims, &ignored);
}

mr_status *mr_conv_input_kernel(mr_run *r, bool depthwise)
{
    const mr_window *w = &((const mr_conv_state *)r->state)->window;
    const mr_tensor *filter = mr_in(r, 1), *dy = mr_in(r, 2);
    int64_t dims[MR_SPACE + 2];
    mr_conv c;
    MR_TRY(check_rank(r, w, filter, "filter"));
    MR_TRY(check_rank(r, w, dy, "out_backprop"));
    MR_TRY(image_sizes(r, w, filter, dy, dims));
    MR_TRY(mr_conv_resolve(w, depthwise, dims, filter->dims, &c));
    MR_TRY(mr_conv_check_out(w, &c, dy));
    return mr_conv_run(r, MR_CONV_INPUT, &c, 1, 2, mr_window_rank(w), dims);
}

mr_status *mr_conv_filter_kernel(mr_run *r, bool depthwise)
{
    const mr_window *w = &((const mr_conv_state *)r->state)->window;
    const mr_tensor *image = mr_in(r, 0), *dy = mr_in(r, 2);
    mr_shape filter;
    mr_conv c;
    MR_TRY(check_rank(r, w, image, "input"));
    MR_TRY(check_rank(r, w, dy, "out_backprop"));
    MR_TRY(mr_in_shape(r, 1, "filter_sizes", 0, &filter));
    if (filter.rank != mr_window_rank(w))
        return mr_invalid("%s: filter_sizes must have %d elements, got %d", r->node->def->name,
                          mr_window_rank(w), filter.rank);
    int64_t n;
    MR_TRY(mr_shape_elements(filter.rank, filter.dims, &n));
    if (n == 0) /* the gradient of an empty filter is empty */
        return mr_run_output(r, 0, filter.rank, filter.dims, &(mr_tensor *){NULL});
    MR_TRY(mr_conv_resolve(w, depthwise, image->dims, filter.dims, &c));
    MR_TRY(mr_conv_check_out(w, &c, dy));
    return mr_conv_run(r, MR_CONV_FILTER, &c, 0, 2, filter.rank, filter.dims);
}

/* ---- shapes ---- */

mr_status *mr_conv_input_infer(mr_infer *c, int spatial)
{
    mr_window w;
    const mr_pshape *sizes, *filter, *dy;
    MR_TRY(mr_window_init(c->node, spatial, &w));
    int rank = mr_window_rank(&w);
    MR_TRY(mr_infer_rank(c, c->in[1], rank, &filter));
    MR_TRY(mr_infer_rank(c, c->in[2], rank, &dy));
    MR_TRY(mr_infer_shape_value(c, 0, &sizes));
    if (sizes->rank != spatial)
        return mr_infer_rank(c, sizes, rank, &c->out[0]);
    mr_pshape *image = mr_pshape_new(c->arena, rank);
    mr_window_dims(&w, dy->dims[0], sizes->dims, filter->dims[spatial], image->dims);
    c->out[0] = image;
    return NULL;
}

mr_status *mr_conv_filter_infer(mr_infer *c, int spatial)
{
    mr_window w;
    const mr_pshape *sizes;
    MR_TRY(mr_window_init(c->node, spatial, &w));
    MR_TRY(mr_infer_rank(c, c->in[0], mr_window_rank(&w), &sizes));
    MR_TRY(mr_infer_rank(c, c->in[2], mr_window_rank(&w), &sizes));
    MR_TRY(mr_infer_shape_value(c, 1, &sizes));
    return mr_infer_rank(c, sizes, mr_window_rank(&w), &c->out[0]);
}

/* ---- gradients: a convolution is linear in the image and in the filter, so the derivative of each
 * of the three passes consists of the other two ---- */

void mr_conv_grad(mr_grad *g, const mr_conv_family *f)
{
    mr_out image = mr_xi(g, 0), filter = mr_xi(g, 1), dy = mr_dyi(g, 0);
    mr_dxi(g, 0, mr_emit_like(g, f->input, f->attrs, MR_OUTS(mr_shape_of(g, image), filter, dy)));
    mr_dxi(g, 1, mr_emit_like(g, f->filter, f->attrs, MR_OUTS(image, mr_shape_of(g, filter), dy)));
}

void mr_conv_input_grad(mr_grad *g, const mr_conv_family *f)
{
    mr_out filter = mr_xi(g, 1), dy = mr_xi(g, 2), d = mr_dyi(g, 0);
    mr_dxi(g, 1, mr_emit_like(g, f->filter, f->attrs, MR_OUTS(d, mr_shape_of(g, filter), dy)));
    mr_dxi(g, 2, mr_emit_like(g, f->forward, f->attrs, MR_OUTS(d, filter)));
}

void mr_conv_filter_grad(mr_grad *g, const mr_conv_family *f)
{
    mr_out image = mr_xi(g, 0), dy = mr_xi(g, 2), d = mr_dyi(g, 0);
    mr_dxi(g, 0, mr_emit_like(g, f->input, f->attrs, MR_OUTS(mr_shape_of(g, image), d, dy)));
    mr_dxi(g, 2, mr_emit_like(g, f->forward, f->attrs, MR_OUTS(image, d)));
}
