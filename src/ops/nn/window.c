/* ops/nn/window.c -- reads and checks the attrs of sliding windows. */
#include "ops/nn/window.h"

#include "base/memory.h"

/* Reads a list with one number per dimension of the image, including batch and channels. */
static mr_status *get_list(const mr_node *n, const mr_window *w, const char *name, const char *what,
                           const int64_t **out)
{
    const mr_attr *a;
    MR_TRY(mr_node_get_list(n, name, MR_ATTR_INT, &a));
    if (a->n != w->n + 2)
        return mr_invalid("Sliding window %s field must specify %d dimensions, but got %d", what,
                          w->n + 2, a->n);
    *out = a->is;
    return NULL;
}

/* Reads numbers that must be 1 for batch and channels and positive elsewhere. */
static mr_status *get_steps(const mr_node *n, const mr_window *w, const char *name, int64_t *out)
{
    const int64_t *v;
    MR_TRY(get_list(n, w, name, name, &v));
    if (v[0] != 1 || v[mr_layout_channel(w->layout, w->n + 2)] != 1)
        return mr_error(MR_UNIMPLEMENTED, "Current implementation does not yet support %s in the "
                        "batch and depth dimensions.", name);
    for (int i = 0; i < w->n; i++) {
        out[i] = v[mr_layout_spatial(w->layout, i)];
        if (out[i] < 1)
            return mr_invalid("%s should be larger than 0, but got %lld",
                              strcmp(name, "strides") ? "Dilated rates" : "Row and column strides",
                              (long long)out[i]);
    }
    return NULL;
}

mr_status *mr_window_set_pool(mr_window *w, const int64_t *size, const int64_t *stride)
{
    int channel = mr_layout_channel(w->layout, w->n + 2);
    for (int i = 0; i < w->n + 2; i++)
        if (size[i] < 1 || stride[i] < 1)
            return mr_invalid("Sliding window ksize and strides must be positive, but got %lld and "
                              "%lld", (long long)size[i], (long long)stride[i]);
    if (size[0] != 1 || stride[0] != 1)
        return mr_error(MR_UNIMPLEMENTED, "Pooling is not yet supported on the batch dimension.");
    for (int i = 0; i < w->n; i++) {
        w->size[i] = size[mr_layout_spatial(w->layout, i)];
        w->stride[i] = stride[mr_layout_spatial(w->layout, i)];
        w->dilation[i] = 1;
    }
    w->depth = size[channel];
    w->depth_stride = stride[channel];
    return NULL;
}

static mr_status *get_pool(const mr_node *n, mr_window *w)
{
    const int64_t *size, *stride;
    MR_TRY(get_list(n, w, "ksize", "ksize", &size));
    MR_TRY(get_list(n, w, "strides", "strides", &stride));
    return mr_window_set_pool(w, size, stride);
}

static mr_status *get_explicit(const mr_node *n, mr_window *w)
{
    const mr_attr *a;
    MR_TRY(mr_node_get_list(n, "explicit_paddings", MR_ATTR_INT, &a));
    if (w->padding != MR_PAD_EXPLICIT)
        return a->n == 0 ? NULL
                         : mr_invalid("explicit_paddings attribute must be empty if the padding "
                                      "attribute is not EXPLICIT");
    int rank = w->n + 2, channel = mr_layout_channel(w->layout, rank);
    if (a->n != 2 * rank)
        return mr_invalid("explicit_paddings attribute must contain %d values, but got: %d",
                          2 * rank, a->n);
    for (int i = 0; i < 2 * rank; i++) {
        if (a->is[i] < 0)
            return mr_invalid("All elements of explicit_paddings must be nonnegative");
        if ((i / 2 == 0 || i / 2 == channel) && a->is[i] != 0)
            return mr_invalid("Nonzero explicit padding in the batch or depth dimensions is not "
                              "supported");
    }
    for (int i = 0; i < w->n; i++) {
        w->before[i] = a->is[2 * mr_layout_spatial(w->layout, i)];
        w->after[i] = a->is[2 * mr_layout_spatial(w->layout, i) + 1];
    }
    return NULL;
}

static mr_status *get_padding(const mr_node *n, mr_window *w)
{
    mr_sv s;
    MR_TRY(mr_node_get_str(n, "padding", &s));
    w->padding = mr_sv_is(s, "SAME")    ? MR_PAD_SAME
                 : mr_sv_is(s, "VALID") ? MR_PAD_VALID
                                        : MR_PAD_EXPLICIT;
    return mr_node_attr(n, "explicit_paddings") ? get_explicit(n, w) : NULL;
}

mr_status *mr_window_init(const mr_node *n, int spatial, mr_window *out)
{
    *out = (mr_window){.n = spatial, .depth = 1, .depth_stride = 1};
    MR_TRY(mr_layout_get(n, &out->layout));
    MR_TRY(get_padding(n, out));
    if (mr_node_attr(n, "ksize"))
        return get_pool(n, out);
    for (int i = 0; i < spatial; i++)
        out->dilation[i] = 1;
    if (!mr_node_attr(n, "strides")) /* a pool whose window is an input */
        return NULL;
    MR_TRY(get_steps(n, out, "strides", out->stride));
    return mr_node_attr(n, "dilations") ? get_steps(n, out, "dilations", out->dilation) : NULL;
}

mr_status *mr_window_place(const mr_window *w, int i, int64_t in, int64_t size, int64_t *before,
                           int64_t *after, int64_t *out)
{
    *before = w->before[i];
    *after = w->after[i];
    return mr_window_size(in, size, w->dilation[i], w->stride[i], w->padding, before, after, out);
}

mr_status *mr_window_infer(const mr_window *w, int i, int64_t in, int64_t size, int64_t *out)
{
    return mr_infer_window(in, size, w->dilation[i], w->stride[i], w->padding, w->before[i], w->after[i], out);
}

void mr_window_dims(const mr_window *w, int64_t batch, const int64_t *space, int64_t channels,
                    int64_t *out_dims)
{
    out_dims[0] = batch;
    out_dims[mr_layout_channel(w->layout, w->n + 2)] = channels;
    for (int i = 0; i < w->n; i++)
        out_dims[mr_layout_spatial(w->layout, i)] = space[i];
}
