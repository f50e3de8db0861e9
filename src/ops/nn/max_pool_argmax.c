/* ops/nn/max_pool_argmax.c -- MaxPoolWithArgmax, which also returns the index of each maximum, and the
 * gradients that use these indices.
 *
 * An index is (row * width + column) * channels + channel, within the image or, with the attr
 * include_batch_in_index, within the whole batch.  The first number of a window is the maximum unless a
 * later one is larger. */
#ifndef T /* ---- included once: the ops ---- */
#include "ops/nn/pool.h"

typedef struct state {
    mr_window window; /* must be first: mr_pool_resolve_input reads it from the state */
    bool with_batch;
} state;

/* One image, with room for its maxima and their indices. */
typedef struct job {
    const mr_conv *c;
    const void *image;
    void *most;
    int64_t *places;
} job;

#define MR_TYPED_FILE "ops/nn/max_pool_argmax.c"
#include "ops/nn/each_number.h"

static void walk_image(mr_dtype t, const job *j)
{
    switch (t) {
#define WALK_CASE(E, name, number, S, C, ...) \
    case MR_##E: walk_##name(j); break;
        MR_FLOATS32(WALK_CASE, )
        MR_INTS(WALK_CASE, )
    default: break;
    }
}

static mr_status *init_argmax_pool(mr_make *m, void *state_)
{
    state *s = state_;
    MR_TRY(mr_pool2d_init(m, &s->window));
    if (s->window.depth != 1 || s->window.depth_stride != 1)
        return mr_error(MR_UNIMPLEMENTED,
                        "Non-spatial pooling is not yet supported. Volunteers? :)");
    return mr_node_get_bool(m->node, "include_batch_in_index", &s->with_batch);
}

static void store_places(mr_tensor *t, int64_t first, const int64_t *places, int64_t n, int64_t add)
{
    for (int64_t i = 0; i < n; i++)
        if (t->dtype == MR_INT64)
            MR_DATA(int64_t, t)[first + i] = places[i] + add;
        else
            MR_DATA(int32_t, t)[first + i] = (int32_t)(places[i] + add);
}

static mr_status *pool_images(mr_run *r, const mr_conv *c, const mr_wide *x, mr_wide *y,
                              mr_tensor *argmax)
{
    const state *s = r->state;
    int64_t in_size = mr_conv_in_size(c), n = mr_conv_out_size(c);
    size_t bytes = mr_dtype_size((mr_dtype)x->t->dtype);
    mr_tensor *places;
    MR_TRY(mr_run_temp(r, MR_INT64, 1, &n, &places));
    for (int64_t b = 0; b < c->batch; b++) {
        job j = {c, (const char *)x->t->data + (size_t)(b * in_size) * bytes,
                 (char *)y->t->data + (size_t)(b * n) * bytes, places->data};
        walk_image((mr_dtype)x->t->dtype, &j);
        store_places(argmax, b * n, places->data, n, s->with_batch ? b * in_size : 0);
    }
    mr_tensor_unref(places);
    return NULL;
}

static mr_status *argmax_pool_forward(mr_run *r)
{
    const state *s = r->state;
    mr_status *st = NULL;
    mr_wide x = {0}, y = {0};
    mr_tensor *argmax;
    mr_conv c;
    int64_t dims[MR_SPACE + 2];
    MR_GO(mr_pool_resolve_input(r, 0, "tensor_in", &c));
    mr_conv_out_dims(&s->window, &c, dims);
    MR_GO(mr_wide_out(r, -1, 0, 4, dims, &y));
    MR_GO(mr_run_output(r, 1, 4, dims, &argmax));
    if (argmax->dtype == MR_INT32 && mr_in(r, 0)->n > INT32_MAX)
        MR_GO(mr_invalid("the indices of an input of shape %s do not fit int32", MR_TENSOR_SHAPE(mr_in(r, 0))));
    if (y.t->n == 0)
        goto out;
    MR_GO(mr_wide_in(r, 0, &x));
    MR_GO(pool_images(r, &c, &x, &y, argmax));
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&y);
    return st;
}

/* ---- gradients ---- */

/* Element i of argmax as an index within the whole batch; INVALID_ARGUMENT if it is outside of its image. */
static mr_status *place_at(const mr_run *r, const mr_tensor *argmax, int64_t i, int64_t *out)
{
    const state *s = r->state;
    const mr_tensor *image = mr_in(r, 0);
    int64_t size = image->n / image->dims[0], b = i / (argmax->n / image->dims[0]);
    int64_t at = mr_tensor_int_at(argmax, i);
    if (!s->with_batch && at >= 0 && at < size)
        at += b * size;
    if (at < b * size || at >= (b + 1) * size)
        return mr_invalid("invalid output index: %lld, the image has %lld elements",
                          (long long)mr_tensor_int_at(argmax, i), (long long)size);
    *out = at;
    return NULL;
}

static mr_status *check_grad(const mr_run *r, bool back, const mr_conv *c)
{
    const state *s = r->state;
    const mr_tensor *image = mr_in(r, 0), *g = mr_in(r, 1), *argmax = mr_in(r, 2);
    int64_t out[MR_SPACE + 2];
    mr_conv_out_dims(&s->window, c, out);
    const int64_t *want = back ? image->dims : out;
    if (!mr_shape_eq(g->rank, g->dims, 4, want))
        return mr_invalid("Expected grad shape to be %s, but got %s", MR_SHAPE_TEXT(4, want),
                          MR_TENSOR_SHAPE(g));
    if (!mr_shape_eq(argmax->rank, argmax->dims, 4, out))
        return mr_invalid("Expected argmax shape to be %s, but got %s", MR_SHAPE_TEXT(4, out),
                          MR_TENSOR_SHAPE(argmax));
    return NULL;
}

/* y[at] += g[i]: several windows may have the same maximum. */
static void add_to(mr_dtype t, void *y, int64_t at, const void *g, int64_t i)
{
    switch (t) {
#define ADD_CASE(E, name, number, S, C, ...) \
    case MR_##E: add_##name(y, at, g, i); break;
        MR_FLOATS32(ADD_CASE, )
        MR_INTS(ADD_CASE, )
    default: break;
    }
}

static mr_status *scatter_gradient(mr_run *r)
{
    const mr_tensor *image = mr_in(r, 0), *argmax = mr_in(r, 2);
    mr_status *st = NULL;
    mr_wide g = {0}, y = {0};
    mr_conv c;
    MR_GO(mr_pool_resolve_input(r, 0, "tensor_in", &c));
    MR_GO(check_grad(r, false, &c));
    MR_GO(mr_wide_out(r, -1, 0, image->rank, image->dims, &y));
    mr_tensor_zero(y.t);
    MR_GO(mr_wide_in(r, 1, &g));
    for (int64_t i = 0; i < argmax->n && image->n > 0; i++) {
        int64_t at;
        MR_GO(place_at(r, argmax, i, &at));
        add_to((mr_dtype)y.t->dtype, y.t->data, at, g.t->data, i);
    }
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&g);
    mr_wide_deinit(&y);
    return st;
}

static mr_status *gather_gradient(mr_run *r)
{
    const mr_tensor *image = mr_in(r, 0), *g = mr_in(r, 1), *argmax = mr_in(r, 2);
    size_t bytes = mr_dtype_size((mr_dtype)g->dtype);
    mr_tensor *y;
    mr_conv c;
    MR_TRY(mr_pool_resolve_input(r, 0, "tensor_in", &c));
    MR_TRY(check_grad(r, true, &c));
    MR_TRY(mr_run_output(r, 0, argmax->rank, argmax->dims, &y));
    if (image->n == 0)
        mr_tensor_zero(y);
    for (int64_t i = 0; i < argmax->n && image->n > 0; i++) {
        int64_t at;
        MR_TRY(place_at(r, argmax, i, &at));
        memcpy((char *)y->data + (size_t)i * bytes, (const char *)g->data + (size_t)at * bytes,
               bytes);
    }
    return NULL;
}

static mr_status *infer_argmax_pool(mr_infer *c)
{
    MR_TRY(mr_pool_infer(c, 2));
    c->out[1] = c->out[0];
    return NULL;
}

static mr_status *infer_grad(mr_infer *c) { return mr_infer_rank(c, c->in[0], 4, &c->out[0]); }
static mr_status *infer_grad_grad(mr_infer *c) { return mr_infer_rank(c, c->in[2], 4, &c->out[0]); }

#define GRAD_ATTRS "ksize strides padding include_batch_in_index"

static void argmax_pool_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit_like(g, "MaxPoolGradWithArgmax", GRAD_ATTRS,
                              MR_OUTS(mr_xi(g, 0), mr_dyi(g, 0), mr_yi(g, 1))));
}

/* The op is linear in the gradient; only the size of the image matters. */
static void grad_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_zeros_like(g, mr_xi(g, 0)));
    mr_dxi(g, 1, mr_emit_like(g, "MaxPoolGradGradWithArgmax", GRAD_ATTRS,
                              MR_OUTS(mr_xi(g, 0), mr_dyi(g, 0), mr_xi(g, 2))));
}

static void grad_grad_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_zeros_like(g, mr_xi(g, 0)));
    mr_dxi(g, 1, mr_emit_like(g, "MaxPoolGradWithArgmax", GRAD_ATTRS,
                              MR_OUTS(mr_xi(g, 0), mr_dyi(g, 0), mr_xi(g, 2))));
}

#define STATE .state_bytes = sizeof(state), .init = init_argmax_pool
#define WINDOW_ATTRS "ksize: list(int) >= 4; strides: list(int) >= 4; "
#define GRAD_DEF                                                                               \
    .sig = "input: T, grad: T, argmax: Targmax -> output: T",                                  \
    .attrs = WINDOW_ATTRS "padding: {'SAME', 'VALID'}; include_batch_in_index: bool = false; " \
             "Targmax: {int32, int64}; T: realnumbertype",                                     \
    .key = "T", STATE
#define TWO "ksize=[1, 1, 2, 1] strides=[1, 1, 1, 1] padding=\"VALID\" "

MR_OP(MaxPoolWithArgmax,
    .doc      = "the largest value in each window, and where it is",
    .sig      = "input: T -> output: T, argmax: Targmax",
    .attrs    = WINDOW_ATTRS "Targmax: {int32, int64} = DT_INT64; padding: {'SAME', 'VALID'}; "
                "include_batch_in_index: bool = false; T: realnumbertype",
    .key      = "T",
    .shape    = infer_argmax_pool,
    .grad     = argmax_pool_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(argmax_pool_forward, MR_REALS)),
    STATE,
    .examples = MR_EXAMPLES(
        TWO ": [[[[1], [5], [2]]]] -> [[[[5], [5]]]], [[[[1], [1]]]]",
        TWO "Targmax=int32: [[[[1, 9], [5, 3], [2, 4]]], [[[1, 2], [3, 4], [6, 5]]]] -> "
        "[[[[5, 9], [5, 4]]], [[[3, 4], [6, 5]]]], [[[[2, 1], [2, 5]]], [[[2, 3], [4, 5]]]]",
        TWO "include_batch_in_index=true: [[[[1], [5]]], [[[3], [2]]]] -> [[[[5]]], [[[3]]]], "
        "[[[[1]]], [[[2]]]]",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"SAME\": [[[[3], [1], [2]], [[4], [6], "
        "[5]]]] -> [[[[6], [5]]]], [[[[4], [5]]]]",
        "nograd " TWO ": [[[[3], [3]]]] -> [[[[3]]]], [[[[0]]]]",
        "nograd T=float " TWO ": [[[[nan], [3], [4]]]] -> [[[[nan], [4]]]], [[[[0], [2]]]]",
        TWO ": shape(0,1,3,1) -> shape(0,1,2,1), shape(0,1,2,1)",
        "ksize=[1, 1, 1, 2] strides=[1, 1, 1, 2] padding=\"VALID\": [[[[1, 2]]]] -> !UNIMPLEMENTED",
        TWO ": [[[1]]] -> !INVALID_ARGUMENT"));

MR_OP(MaxPoolGradWithArgmax,
    .doc      = "gradient of MaxPoolWithArgmax: each window's gradient goes to the index of its maximum",
    GRAD_DEF,
    .shape    = infer_grad,
    .grad     = grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(scatter_gradient, MR_REALS)),
    .examples = MR_EXAMPLES(
        TWO ": [[[[1], [5], [2]]]], [[[[3], [4]]]], int64[[[[1], [1]]]] -> [[[[0], [7], [0]]]]",
        TWO "include_batch_in_index=true: [[[[1], [5]]], [[[3], [2]]]], [[[[7]]], [[[8]]]], "
        "int32[[[[1]]], [[[2]]]] -> [[[[0], [7]]], [[[8], [0]]]]",
        TWO ": [[[[1], [5], [2]]]], [[[[3], [4]]]], int64[[[[1], [3]]]] -> !INVALID_ARGUMENT "
        "invalid output index: 3",
        TWO ": [[[[1], [5], [2]]]], [[[[3], [4]]]], int64[[[[-1], [0]]]] -> !INVALID_ARGUMENT",
        TWO ": [[[[1], [5], [2]]]], [[[[3]]]], int64[[[[1], [3]]]] -> !INVALID_ARGUMENT Expected "
        "grad shape to be [1,1,2,1], but got [1,1,1,1]"));

MR_OP(MaxPoolGradGradWithArgmax,
    .doc      = "gradient of MaxPoolGradWithArgmax: the values at the index of each maximum",
    GRAD_DEF,
    .shape    = infer_grad_grad,
    .grad     = grad_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(gather_gradient, MR_REALS)),
    .examples = MR_EXAMPLES(
        TWO ": [[[[1], [5], [2]]]], [[[[3], [4], [9]]]], int64[[[[1], [1]]]] -> [[[[4], [4]]]]",
        TWO "include_batch_in_index=true: [[[[1], [5]]], [[[3], [2]]]], [[[[7], [8]]], [[[9], "
        "[3]]]], int32[[[[1]]], [[[2]]]] -> [[[[8]]], [[[9]]]]",
        TWO ": [[[[1], [5], [2]]]], [[[[3], [4], [9]]]], int64[[[[1], [5]]]] -> !INVALID_ARGUMENT "
        "invalid output index: 5"));

#else /* ---- included once per type ---- */

static void FN(window)(const job *j, mr_pool_extent y, mr_pool_extent x, int64_t channel, T *most, int64_t *place)
{
    const mr_conv *c = j->c;
    const T *image = j->image;
    *most = LOWEST;
    *place = -1;
    for (int64_t v = y.begin; v < y.end; v++)
        for (int64_t h = x.begin; h < x.end; h++) {
            int64_t at = (v * c->in[2] + h) * c->in_channels + channel;
            if (*place < 0 || image[at] > *most) {
                *most = image[at];
                *place = at;
            }
        }
}

static void FN(walk)(const job *j)
{
    const mr_conv *c = j->c;
    int64_t i = 0;
    for (int64_t oy = 0; oy < c->out[1]; oy++)
        for (int64_t ox = 0; ox < c->out[2]; ox++)
            for (int64_t channel = 0; channel < c->in_channels; channel++, i++)
                FN(window)(j, mr_pool_span(c, 1, oy), mr_pool_span(c, 2, ox), channel,
                           (T *)j->most + i, &j->places[i]);
}

static void FN(add)(void *y, int64_t at, const void *g, int64_t i)
{
    T *to = (T *)y + at;
    *to = PLUS(*to, ((const T *)g)[i]);
}
#endif
