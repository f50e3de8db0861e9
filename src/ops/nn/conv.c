/* ops/nn/conv.c -- geometry, layouts and types around the passes that all convolution ops share. */
#include "ops/nn/conv.h"

#include "base/memory.h"
#include "ops/dnnl_conv.h"
#include "ops/nn/conv_accel.h"
#include "ops/nn/conv_backward_taps.h"
#include "ops/nn/conv_direct.h"
#include "ops/nn/conv_float.h"
#include "ops/nn/conv_repeat.h"
#include "ops/nn/depthwise_direct.h"
#include "ops/nn/wide.h"

#define FINISH_NS 0.2 /* per element */

/* ---- state ---- */

static mr_status *init_conv(mr_make *m, int spatial, mr_conv_state *s)
{
    s->kept = mr_dnnl_convs_new();
    mr_packed_init(&s->packed);
    return mr_window_init(m->node, spatial, &s->window);
}

mr_status *mr_conv2d_init(mr_make *m, void *state) { return init_conv(m, 2, state); }
mr_status *mr_conv3d_init(mr_make *m, void *state) { return init_conv(m, 3, state); }

void mr_conv_deinit(void *state)
{
    mr_conv_state *s = state;
    mr_dnnl_convs_free(s->kept);
    mr_packed_deinit(&s->packed);
}

/* ---- geometry ---- */

static mr_status *resolve_channels(bool depthwise, int64_t image, int64_t filter_in,
                                   int64_t filter_out, mr_conv *out)
{
    out->in_channels = image;
    out->out_channels = filter_out;
    out->groups = 1;
    if (depthwise) {
        if (image != filter_in)
            return mr_invalid("input and filter must have the same depth: %lld vs %lld",
                              (long long)image, (long long)filter_in);
        out->groups = image;
        if (!mr_i64_mul(image, filter_out, &out->out_channels))
            return mr_invalid("Too many channels: %lld times %lld", (long long)image,
                              (long long)filter_out);
        return NULL;
    }
    if (filter_in == 0 || image % filter_in != 0)
        return mr_invalid("input depth must be evenly divisible by filter depth: %lld vs %lld",
                          (long long)image, (long long)filter_in);
    out->groups = MR_MAX(1, image / filter_in);
    if (filter_out % out->groups != 0)
        return mr_invalid("output depth must be evenly divisible by number of groups: %lld vs %lld",
                          (long long)filter_out, (long long)out->groups);
    return NULL;
}

mr_status *mr_conv_resolve(const mr_window *w, bool depthwise, const int64_t *image,
                           const int64_t *filter, mr_conv *out)
{
    int rank = mr_window_rank(w);
    *out = (mr_conv){.n = w->n, .batch = image[0]};
    for (int i = 0; i < rank; i++)
        if (filter[i] <= 0)
            return mr_invalid("filter must not have zero elements (i.e. all dimensions must be "
                              "non-zero): %s", MR_SHAPE_TEXT(rank, filter));
    MR_TRY(resolve_channels(depthwise, image[mr_layout_channel(w->layout, rank)], filter[w->n],
                            filter[w->n + 1], out));
    for (int i = 0; i < MR_SPACE; i++)
        out->in[i] = out->out[i] = out->window[i] = out->stride[i] = out->dilation[i] = 1;
    for (int i = 0; i < w->n; i++) {
        int at = MR_SPACE - w->n + i;
        out->in[at] = image[mr_layout_spatial(w->layout, i)];
        out->window[at] = filter[i];
        out->stride[at] = w->stride[i];
        out->dilation[at] = w->dilation[i];
        MR_TRY(mr_window_place(w, i, out->in[at], out->window[at], &out->before[at],
                               &out->after[at], &out->out[at]));
    }
    return NULL;
}

void mr_conv_out_dims(const mr_window *w, const mr_conv *c, int64_t *out_dims)
{
    mr_window_dims(w, c->batch, c->out + MR_SPACE - c->n, c->out_channels, out_dims);
}

mr_status *mr_conv_check_out(const mr_window *w, const mr_conv *c, const mr_tensor *t)
{
    int64_t want[MR_SPACE + 2];
    mr_conv_out_dims(w, c, want);
    int rank = mr_window_rank(w);
    if (mr_shape_eq(t->rank, t->dims, rank, want))
        return NULL;
    return mr_invalid("out_backprop must have the shape of the forward output: %s expected, got %s",
                      MR_SHAPE_TEXT(rank, want), MR_TENSOR_SHAPE(t));
}

/* ---- one pass ---- */

/* Whether operand 0 (a), 1 (b) or 2 (the output) of a pass is an image; the remaining one is the filter. */
static bool is_image(mr_conv_pass pass, int operand)
{
    int filter = pass == MR_CONV_FORWARD ? 1 : pass == MR_CONV_INPUT ? 0 : 2;
    return operand != filter;
}

/* The number of pixels and channels of an operand that is an image. */
static void image_size(mr_conv_pass pass, const mr_conv *c, int operand, int64_t *pixels,
                       int64_t *channels)
{
    bool in = pass == MR_CONV_FORWARD  ? operand == 0
              : pass == MR_CONV_INPUT ? operand == 2
                                      : operand == 0;
    *pixels = mr_conv_pixels(in ? c->in : c->out);
    *channels = in ? c->in_channels : c->out_channels;
}

/* Transposes an input image to channels last. */
static mr_status *turn_in(mr_run *r, mr_conv_pass pass, const mr_conv *c, int operand, mr_wide *x)
{
    int64_t pixels, channels;
    image_size(pass, c, operand, &pixels, &channels);
    return mr_wide_turn(r, x, c->batch, channels, pixels);
}

/* Whether oneDNN should run a pass that our own tiles do not serve.  Its fast depthwise code lacks some passes, and its
 * fallback for those is slower than plain C. */
static bool for_dnnl(mr_conv_pass pass, const mr_conv *c)
{
    bool depthwise = c->groups > 1 && c->groups == c->in_channels;
    bool dilated = c->dilation[0] > 1 || c->dilation[1] > 1 || c->dilation[2] > 1;
    bool large = c->window[0] > 1 || c->window[1] > 3 || c->window[2] > 3;
    if (depthwise && pass != MR_CONV_FORWARD && dilated)
        return false;
    if (depthwise && ((pass == MR_CONV_FILTER && large) || c->n > 2))
        return false;
    return mr_dnnl_conv_fits(c);
}

/* The tensor of the filter if it is a constant of the graph, else NULL. */
static const mr_tensor *constant_filter(const mr_run *r, mr_conv_pass pass)
{
    const mr_tensor *t = mr_in(r, 1); /* of both passes that read a filter */
    return pass != MR_CONV_FILTER && t->readonly && t->dtype == MR_FLOAT ? t : NULL;
}

static mr_status *compute_pass(mr_run *r, mr_conv_state *s, mr_conv_pass pass, const mr_conv *c, mr_dtype type,
                               const void *a, const void *b, void *out)
{
    const mr_conv_kept kept = {&s->packed, constant_filter(r, pass)};
    if (type == MR_FLOAT && pass == MR_CONV_FILTER && mr_conv_taps_serves(c))
        return mr_conv_taps(r, c, a, b, out);
    if (type == MR_FLOAT && mr_conv_direct_serves(pass, c))
        return mr_conv_direct(r, pass, c, a, b, out, kept.filter ? &kept : NULL, NULL);
    if (type == MR_FLOAT && pass == MR_CONV_FORWARD && mr_depthwise_direct_serves(c)) {
        mr_depthwise_direct(r, c, a, b, out, NULL);
        return NULL;
    }
    if (type == MR_FLOAT && for_dnnl(pass, c)) {
        mr_status *st = mr_conv_float(r, s->kept, pass, c, a, b, out,
                                      constant_filter(r, pass));
        mr_code code = mr_status_code(st);
        if (code != MR_UNIMPLEMENTED && code != MR_INVALID_ARGUMENT)
            return st; /* otherwise the geometry is valid, but oneDNN does not support it */
        mr_status_free(st);
    }
    mr_conv_plain(r, type, pass, c, a, b, out);
    return NULL;
}

/* Groups of one in channel and several out channels: repeats the channels of the image, so that every
 * group has one of each. */
static mr_status *compute_repeated(mr_run *r, mr_conv_state *s, mr_conv_pass pass, const mr_conv *c, mr_dtype type,
                                   const void *a, const void *b, void *out)
{
    int64_t times = c->out_channels / c->groups, n = c->batch * mr_conv_in_size(c), many;
    mr_conv single = *c;
    single.in_channels = single.groups = c->out_channels;
    mr_tensor *image;
    if (!mr_i64_mul(n, times, &many))
        return mr_error(MR_RESOURCE_EXHAUSTED, "A depthwise convolution over %lld channels with multiplier %lld is too large",
                        (long long)c->in_channels, (long long)times);
    MR_TRY(mr_run_temp(r, type, 1, &many, &image));
    mr_status *st;
    if (pass == MR_CONV_INPUT) {
        st = compute_pass(r, s, pass, &single, type, a, b, image->data);
        mr_channels_fold(r, type, image->data, out, n, times);
    } else {
        mr_channels_repeat(r, a, image->data, mr_dtype_size(type), n, times);
        st = compute_pass(r, s, pass, &single, type, image->data, b, out);
    }
    mr_tensor_unref(image);
    return st;
}

/* Runs a pass on operands with channels last, in float, double or int32. */
static mr_status *run_last(mr_run *r, mr_conv_state *s, mr_conv_pass pass, const mr_conv *c, const mr_tensor *a,
                           const mr_tensor *b, void *out)
{
    mr_dtype type = (mr_dtype)a->dtype;
    bool repeated = c->groups > 1 && c->groups == c->in_channels && c->groups != c->out_channels;
    return (repeated ? compute_repeated : compute_pass)(r, s, pass, c, type, a->data, b->data, out);
}

static mr_status *run_wide(mr_run *r, mr_conv_pass pass, const mr_conv *c, mr_wide *a, mr_wide *b,
                           mr_tensor *y)
{
    mr_conv_state *s = r->state;
    if (s->window.layout == MR_CHANNELS_LAST)
        return run_last(r, s, pass, c, a->t, b->t, y->data);
    if (is_image(pass, 0))
        MR_TRY(turn_in(r, pass, c, 0, a));
    if (is_image(pass, 1))
        MR_TRY(turn_in(r, pass, c, 1, b));
    if (!is_image(pass, 2))
        return run_last(r, s, pass, c, a->t, b->t, y->data);
    int64_t pixels, channels;
    image_size(pass, c, 2, &pixels, &channels);
    mr_tensor *turned;
    MR_TRY(mr_run_temp(r, (mr_dtype)y->dtype, 1, &y->n, &turned));
    mr_status *st = run_last(r, s, pass, c, a->t, b->t, turned->data);
    if (!st)
        mr_run_turn(r, turned->data, y->data, mr_dtype_size((mr_dtype)y->dtype), c->batch, pixels,
                    channels);
    mr_tensor_unref(turned);
    return st;
}

typedef struct finish_job {
    const mr_conv_end *end;
    float *y;
    int64_t cols;
} finish_job;

static void finish_part(void *ctx, int64_t begin, int64_t end)
{
    const finish_job *j = ctx;
    mr_tile_finish(&j->end->tile, j->y + begin * j->cols, end - begin, j->cols);
    if (j->end->then)
        j->end->then(j->y + begin * j->cols, (end - begin) * j->cols, j->end->alpha);
}

void mr_conv_finish(mr_run *r, const mr_conv_end *end, float *y, int64_t rows, int64_t cols)
{
    mr_conv_end own = *end;
    own.tile.c = y;
    mr_run_for(r, rows, FINISH_NS * (double)cols, finish_part, &(finish_job){&own, y, cols});
}

bool mr_conv_end_in_place(const mr_conv *c)
{
    if (c->batch * mr_conv_in_size(c) == 0)
        return false; /* the output is zeroed first */
    return mr_conv_direct_serves(MR_CONV_FORWARD, c) ? mr_conv_direct_stores_once(c) : mr_depthwise_direct_serves(c);
}

mr_status *mr_conv_run_end(mr_run *r, mr_conv_state *s, const mr_conv *c, const mr_conv_end *end)
{
    const mr_tensor *a = mr_in(r, 0), *b = mr_in(r, 1);
    mr_tensor *y = r->out[0].t;
    const mr_conv_kept kept = {&s->packed, constant_filter(r, MR_CONV_FORWARD)};
    if (a->n == 0 || b->n == 0)
        mr_tensor_zero(y);
    else if (mr_conv_direct_serves(MR_CONV_FORWARD, c))
        return mr_conv_direct(r, MR_CONV_FORWARD, c, a->data, b->data, y->data, kept.filter ? &kept : NULL, end);
    else if (mr_depthwise_direct_serves(c))
        return mr_depthwise_direct(r, c, a->data, b->data, y->data, end), NULL;
    else
        MR_TRY(run_last(r, s, MR_CONV_FORWARD, c, a, b, y->data));
    mr_conv_finish(r, end, y->data, y->n / c->out_channels, c->out_channels);
    return NULL;
}

mr_status *mr_conv_run(mr_run *r, mr_conv_pass pass, const mr_conv *c, int a, int b, int rank,
                       const int64_t *dims)
{
    mr_status *st = NULL;
    mr_wide wa = {0}, wb = {0}, y = {0};
    if (mr_on_accel(r))
        return mr_conv_run_accel(r, pass, c, mr_in(r, a), mr_in(r, b), rank, dims);
    MR_GO(mr_wide_out(r, -1, 0, rank, dims, &y));
    if (y.t->n == 0)
        goto out;
    if (mr_in(r, a)->n == 0 || mr_in(r, b)->n == 0) {
        mr_tensor_zero(r->out[0].t);
        goto out;
    }
    MR_GO(mr_wide_in(r, a, &wa));
    MR_GO(mr_wide_in(r, b, &wb));
    MR_GO(run_wide(r, pass, c, &wa, &wb, y.t));
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&wa);
    mr_wide_deinit(&wb);
    mr_wide_deinit(&y);
    return st;
}

/* ---- shapes ---- */

static mr_status *infer_channels(const mr_pshape *x, const mr_pshape *f, const mr_window *w,
                                 bool depthwise, int64_t *out)
{
    int64_t image = x->dims[mr_layout_channel(w->layout, x->rank)], in = f->dims[w->n];
    int64_t count = f->dims[w->n + 1];
    *out = count;
    if (depthwise) {
        MR_TRY(mr_infer_merge_dim(image, in, &in));
        if (in < 0 || count < 0)
            *out = -1;
        else if (!mr_i64_mul(in, count, out))
            return mr_invalid("Too many channels: %lld times %lld", (long long)in,
                              (long long)count);
        return NULL;
    }
    if (image < 0 || in < 0)
        return NULL;
    if (in == 0 || image % in != 0)
        return mr_invalid("Depth of input (%lld) is not a multiple of input depth of filter (%lld)",
                          (long long)image, (long long)in);
    if (image > 0 && count >= 0 && count % (image / in) != 0)
        return mr_invalid("Depth of output (%lld) is not a multiple of the number of groups (%lld)",
                          (long long)count, (long long)(image / in));
    return NULL;
}

mr_status *mr_conv_infer(mr_infer *c, int spatial, bool depthwise)
{
    mr_window w;
    const mr_pshape *x, *f;
    MR_TRY(mr_window_init(c->node, spatial, &w));
    int rank = mr_window_rank(&w);
    MR_TRY(mr_infer_rank(c, c->in[0], rank, &x));
    MR_TRY(mr_infer_rank(c, c->in[1], rank, &f));
    int64_t space[MR_SPACE], channels;
    for (int i = 0; i < spatial; i++)
        MR_TRY(mr_window_infer(&w, i, x->dims[mr_layout_spatial(w.layout, i)], f->dims[i], &space[i]));
    MR_TRY(infer_channels(x, f, &w, depthwise, &channels));
    mr_pshape *y = mr_pshape_new(c->arena, rank);
    mr_window_dims(&w, x->dims[0], space, channels, y->dims);
    c->out[0] = y;
    return NULL;
}
