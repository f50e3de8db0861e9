/* ops/nn/pool.c -- geometry, layouts and threads that all pools share. */
#include "ops/nn/pool.h"

#include "base/deterministic.h"
#include "base/memory.h"

mr_status *mr_pool2d_init(mr_make *m, void *state) { return mr_window_init(m->node, 2, state); }
mr_status *mr_pool3d_init(mr_make *m, void *state) { return mr_window_init(m->node, 3, state); }

/* ---- geometry ---- */

mr_status *mr_pool_resolve(const mr_window *w, const int64_t *image, mr_conv *out)
{
    int64_t channels = image[mr_layout_channel(w->layout, mr_window_rank(w))];
    *out = (mr_conv){.n = w->n,
                     .batch = image[0],
                     .in_channels = channels,
                     .out_channels = channels,
                     .groups = 1};
    for (int i = 0; i < MR_SPACE; i++)
        out->in[i] = out->out[i] = out->window[i] = out->stride[i] = out->dilation[i] = 1;
    for (int i = 0; i < w->n; i++) {
        int at = MR_SPACE - w->n + i;
        out->in[at] = image[mr_layout_spatial(w->layout, i)];
        out->window[at] = w->size[i];
        out->stride[at] = w->stride[i];
        MR_TRY(mr_window_place(w, i, out->in[at], w->size[i], &out->before[at], &out->after[at],
                               &out->out[at]));
    }
    return NULL;
}

mr_status *mr_pool_resolve_input(const mr_run *r, int i, const char *what, mr_conv *out)
{
    const mr_window *w = r->state;
    const mr_tensor *x = mr_in(r, i);
    if (x->rank != mr_window_rank(w))
        return mr_invalid("%s must be %d-dimensional: %s", what, mr_window_rank(w),
                          MR_TENSOR_SHAPE(x));
    return mr_pool_resolve(w, x->dims, out);
}

mr_status *mr_pool_check_out(const mr_run *r, int i, const char *what, const mr_conv *c)
{
    const mr_window *w = r->state;
    const mr_tensor *t = mr_in(r, i);
    int64_t want[MR_SPACE + 2];
    mr_conv_out_dims(w, c, want);
    if (mr_shape_eq(t->rank, t->dims, mr_window_rank(w), want))
        return NULL;
    return mr_invalid("Expected %s shape to be %s, but got %s", what,
                      MR_SHAPE_TEXT(mr_window_rank(w), want), MR_TENSOR_SHAPE(t));
}

mr_status *mr_pool_infer(mr_infer *c, int spatial)
{
    mr_window w;
    const mr_pshape *x;
    MR_TRY(mr_window_init(c->node, spatial, &w));
    int rank = mr_window_rank(&w);
    MR_TRY(mr_infer_rank(c, c->in[0], rank, &x));
    int64_t space[MR_SPACE];
    for (int i = 0; i < spatial; i++)
        MR_TRY(mr_window_infer(&w, i, x->dims[mr_layout_spatial(w.layout, i)], w.size[i], &space[i]));
    int64_t channels = x->dims[mr_layout_channel(w.layout, rank)];
    mr_pshape *y = mr_pshape_new(c->arena, rank);
    mr_window_dims(&w, x->dims[0], space, channels < 0 ? -1 : channels / w.depth, y->dims);
    c->out[0] = y;
    return NULL;
}

/* ---- running ---- */

enum { MIN_CHANNELS = 16 }; /* per range */

static void run_pool_part(void *ctx, int64_t begin, int64_t end)
{
    const mr_pool_job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i % j->ranges * j->range;
        j->fn(j, i / j->ranges, first, MR_MIN(j->range, j->c->in_channels - first));
    }
}

void mr_pool_run(mr_run *r, mr_pool_job *j, double pixel_ns)
{
    const mr_conv *c = j->c;
    int64_t threads = mr_pool_shares(r->step->device->pool), channels = c->in_channels;
    int64_t wanted = c->batch >= threads ? 1 : (threads + c->batch - 1) / c->batch;
    wanted = MR_MAX(1, MR_MIN(wanted, channels / MIN_CHANNELS));
    j->range = (channels + wanted - 1) / wanted;
    j->ranges = (channels + j->range - 1) / j->range;
    double pixels = (double)mr_conv_pixels(c->out) * (double)mr_conv_pixels(c->window);
    mr_run_for(r, c->batch * j->ranges, pixel_ns * pixels * (double)j->range, run_pool_part, j);
}

mr_status *mr_pool_in(mr_run *r, int i, const mr_conv *c, const int64_t *space, mr_wide *out)
{
    const mr_window *w = r->state;
    MR_TRY(mr_wide_in(r, i, out));
    if (w->layout == MR_CHANNELS_LAST)
        return NULL;
    return mr_wide_turn(r, out, c->batch, c->in_channels, mr_conv_pixels(space));
}

mr_status *mr_pool_out(mr_run *r, int rank, const int64_t *dims, mr_wide *out)
{
    const mr_window *w = r->state;
    MR_TRY(mr_wide_out(r, -1, 0, rank, dims, out));
    if (w->layout == MR_CHANNELS_LAST || out->copy)
        return NULL;
    mr_tensor *turned; /* computed in a temporary, then transposed into the output */
    MR_TRY(mr_run_temp(r, mr_out_dtype(r, 0), rank, dims, &turned));
    *out = (mr_wide){turned, true};
    return NULL;
}

mr_status *mr_pool_store(mr_run *r, const mr_conv *c, const int64_t *space, mr_wide *out)
{
    const mr_window *w = r->state;
    if (w->layout == MR_CHANNELS_LAST) {
        mr_wide_store(r, 0, out);
        return NULL;
    }
    if (out->t->dtype != r->out[0].t->dtype) {
        MR_TRY(mr_wide_turn(r, out, c->batch, mr_conv_pixels(space), c->in_channels));
        mr_wide_store(r, 0, out);
        return NULL;
    }
    mr_run_turn(r, out->t->data, r->out[0].t->data, mr_dtype_size((mr_dtype)out->t->dtype),
                c->batch, mr_conv_pixels(space), c->in_channels);
    return NULL;
}

mr_status *mr_pool_run_accel(mr_run *r, const char *kernel, const mr_conv *c, int rank, const int64_t *dims,
                             const mr_tensor *a, const mr_tensor *b)
{
    const mr_window *w = r->state;
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, rank, dims, &out));
    if (a->n == 0 || (b && b->n == 0)) /* an empty image, or an empty gradient */
        return mr_accel_fill(r, out, 0);
    return mr_window_launch(r, kernel, c, w->layout, out, a, b);
}
