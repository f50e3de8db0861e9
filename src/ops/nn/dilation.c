/* ops/nn/dilation.c -- Dilation2D, the grayscale dilation of morphology, and its gradients.
 *
 * Every output is the maximum over a window of a pixel plus the corresponding number of the filter, for
 * each channel separately; padding does not count.  The gradient goes to the first pixel, and the first
 * number of the filter, that gave the maximum; if a window contains no pixel, to where it begins. */
#ifndef T /* ---- included once: the ops ---- */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/nn/wide.h"
#include "ops/nn/window.h"

typedef struct state {
    int64_t stride[2], rate[2];
    mr_padding padding;
} state;

/* Sizes, for loops over [batch, rows, cols, channels]. */
typedef struct geometry {
    int64_t batch, in[2], channels, filter[2], out[2], before[2], stride[2], rate[2];
} geometry;

typedef struct job {
    const geometry *g;
    const void *image, *filter, *dy;
    void *out;
} job;

/* The loops of a type; all but the last may be split over images. */
typedef struct loops {
    void (*forward)(const job *j, int64_t image);
    void (*input)(const job *j, int64_t image);
    void (*filter)(const job *j, int64_t image); /* adds all images into the same result */
} loops;

/* Where a window begins: 0 if that is before the image. */
static int64_t begin_of(const geometry *g, int d, int64_t out)
{
    int64_t at = out * g->stride[d] - g->before[d];
    return at < 0 ? 0 : at;
}

#define MR_TYPED_FILE "ops/nn/dilation.c"
#include "ops/nn/each_number.h"

static const loops *loops_of(mr_dtype t)
{
    switch (t) {
#define LOOPS_CASE(E, name, number, S, C, ...) \
    case MR_##E: return &loops_##name;
        MR_FLOATS32(LOOPS_CASE, )
        MR_INTS(LOOPS_CASE, )
    default: return NULL;
    }
}

/* ---- attrs and sizes ---- */

static mr_status *get_steps(const mr_node *n, const char *attr, const char *what, int64_t out[2])
{
    const mr_attr *a;
    MR_TRY(mr_node_get_list(n, attr, MR_ATTR_INT, &a));
    if (a->n != 4)
        return mr_invalid("%s field must specify 4 dimensions", what);
    if (a->is[0] != 1 || a->is[3] != 1)
        return mr_error(MR_UNIMPLEMENTED, "%s is only supported across spatial dimensions.", what);
    out[0] = a->is[1];
    out[1] = a->is[2];
    if (out[0] < 1 || out[1] < 1)
        return mr_invalid("%s must be positive, got %lld and %lld", what, (long long)out[0],
                          (long long)out[1]);
    return NULL;
}

static mr_status *read_attrs(const mr_node *n, state *s)
{
    mr_sv padding;
    MR_TRY(get_steps(n, "strides", "Stride", s->stride));
    MR_TRY(get_steps(n, "rates", "Rate", s->rate));
    MR_TRY(mr_node_get_str(n, "padding", &padding));
    s->padding = mr_sv_is(padding, "SAME") ? MR_PAD_SAME : MR_PAD_VALID;
    return NULL;
}

static mr_status *init_dilation(mr_make *m, void *s) { return read_attrs(m->node, s); }

static mr_status *resolve_geometry(const state *s, const mr_tensor *image, const mr_tensor *filter,
                                   geometry *g)
{
    int64_t after;
    if (image->rank != 4)
        return mr_invalid("input must be 4-dimensional: %s", MR_TENSOR_SHAPE(image));
    if (filter->rank != 3)
        return mr_invalid("filter must be 3-dimensional: %s", MR_TENSOR_SHAPE(filter));
    if (image->dims[3] != filter->dims[2])
        return mr_invalid("input and filter must have the same depth: %lld vs %lld",
                          (long long)image->dims[3], (long long)filter->dims[2]);
    *g = (geometry){.batch = image->dims[0], .channels = image->dims[3]};
    for (int i = 0; i < 2; i++) {
        g->in[i] = image->dims[1 + i];
        g->filter[i] = filter->dims[i];
        g->stride[i] = s->stride[i];
        g->rate[i] = s->rate[i];
        if (g->filter[i] < 1)
            return mr_invalid("filter must not be empty: %s", MR_TENSOR_SHAPE(filter));
        MR_TRY(mr_window_size(g->in[i], g->filter[i], g->rate[i], g->stride[i], s->padding,
                              &g->before[i], &after, &g->out[i]));
    }
    return NULL;
}

/* ---- kernels ---- */

typedef struct split {
    const job *j;
    void (*fn)(const job *j, int64_t image);
} split;

static void run_images(void *ctx, int64_t begin, int64_t end)
{
    const split *s = ctx;
    for (int64_t i = begin; i < end; i++)
        s->fn(s->j, i);
}

static double image_cost(const geometry *g)
{
    return 1.5 * (double)g->out[0] * (double)g->out[1] * (double)g->channels *
           (double)g->filter[0] * (double)g->filter[1];
}

static mr_status *dilation_forward(mr_run *r)
{
    mr_status *st = NULL;
    mr_wide x = {0}, f = {0}, y = {0};
    geometry g;
    MR_GO(resolve_geometry(r->state, mr_in(r, 0), mr_in(r, 1), &g));
    MR_GO(mr_wide_out(r, -1, 0, 4, (int64_t[]){g.batch, g.out[0], g.out[1], g.channels}, &y));
    if (y.t->n == 0)
        goto out;
    MR_GO(mr_wide_in(r, 0, &x));
    MR_GO(mr_wide_in(r, 1, &f));
    job j = {&g, x.t->data, f.t->data, NULL, y.t->data};
    split s = {&j, loops_of((mr_dtype)y.t->dtype)->forward};
    mr_run_for(r, g.batch, image_cost(&g), run_images, &s);
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&f);
    mr_wide_deinit(&y);
    return st;
}

static mr_status *check_dy(const geometry *g, const mr_tensor *dy)
{
    const int64_t want[4] = {g->batch, g->out[0], g->out[1], g->channels};
    if (mr_shape_eq(dy->rank, dy->dims, 4, want))
        return NULL;
    return mr_invalid("out_backprop has incompatible size: %s, expected %s", MR_TENSOR_SHAPE(dy),
                      MR_SHAPE_TEXT(4, want));
}

static mr_status *dilation_backward(mr_run *r, bool by_filter)
{
    const mr_tensor *like = mr_in(r, by_filter);
    mr_status *st = NULL;
    mr_wide in[3] = {{0}}, y = {0};
    geometry g;
    MR_GO(resolve_geometry(r->state, mr_in(r, 0), mr_in(r, 1), &g));
    MR_GO(check_dy(&g, mr_in(r, 2)));
    MR_GO(mr_wide_out(r, -1, 0, like->rank, like->dims, &y));
    mr_tensor_zero(y.t);
    for (int i = 0; i < 3; i++)
        MR_GO(mr_wide_in(r, i, &in[i]));
    job j = {&g, in[0].t->data, in[1].t->data, in[2].t->data, y.t->data};
    const loops *l = loops_of((mr_dtype)y.t->dtype);
    split s = {&j, by_filter ? l->filter : l->input};
    if (in[2].t->n > 0 && by_filter)
        run_images(&s, 0, g.batch);
    else if (in[2].t->n > 0)
        mr_run_for(r, g.batch, image_cost(&g), run_images, &s);
    mr_wide_store(r, 0, &y);
out:
    for (int i = 0; i < 3; i++)
        mr_wide_deinit(&in[i]);
    mr_wide_deinit(&y);
    return st;
}

static mr_status *input_grad(mr_run *r) { return dilation_backward(r, false); }
static mr_status *filter_grad(mr_run *r) { return dilation_backward(r, true); }

/* ---- shapes and gradients ---- */

static mr_status *infer_dilation(mr_infer *c)
{
    state s;
    const mr_pshape *x, *f;
    int64_t before, after, channels;
    MR_TRY(read_attrs(c->node, &s));
    MR_TRY(mr_infer_rank(c, c->in[0], 4, &x));
    MR_TRY(mr_infer_rank(c, c->in[1], 3, &f));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(x, 3), mr_infer_dim(f, 2), &channels));
    mr_pshape *y = mr_pshape_new(c->arena, 4);
    y->dims[0] = mr_infer_dim(x, 0);
    y->dims[3] = channels;
    for (int i = 0; i < 2; i++)
        if (mr_infer_dim(x, 1 + i) >= 0 && mr_infer_dim(f, i) >= 0)
            MR_TRY(mr_window_size(mr_infer_dim(x, 1 + i), mr_infer_dim(f, i), s.rate[i],
                                  s.stride[i], s.padding, &before, &after, &y->dims[1 + i]));
    c->out[0] = y;
    return NULL;
}

static mr_status *infer_input(mr_infer *c) { return mr_infer_rank(c, c->in[0], 4, &c->out[0]); }
static mr_status *infer_filter(mr_infer *c) { return mr_infer_rank(c, c->in[1], 3, &c->out[0]); }

static void dilation_grad(mr_grad *g)
{
    static const char *const ops[] = {"Dilation2DBackpropInput", "Dilation2DBackpropFilter"};
    for (int i = 0; i < 2; i++)
        mr_dxi(g, i, mr_emit_like(g, ops[i], "strides rates padding",
                                  MR_OUTS(mr_xi(g, 0), mr_xi(g, 1), mr_dyi(g, 0))));
}

#define ATTRS                                                                               \
    "T: realnumbertype; strides: list(int) >= 4; rates: list(int) >= 4; padding: {'SAME', " \
    "'VALID'}"
#define STATE .state_bytes = sizeof(state), .init = init_dilation

MR_OP(Dilation2D,
    .doc      = "the largest sum of an image [batch, height, width, channels] and a filter [height, width, channels] "
                "in each window",
    .sig      = "input: T, filter: T -> output: T",
    .attrs    = ATTRS,
    .shape    = infer_dilation,
    .grad     = dilation_grad,
    .kernels  = MR_KERNELS(MR_CPU_ONE(dilation_forward, MR_REALS)),
    STATE,
    .examples = MR_EXAMPLES(
        "strides=[1, 1, 1, 1] rates=[1, 1, 1, 1] padding=\"VALID\": [[[[1], [2]], [[3], [9]]]], "
        "[[[4], [3]], [[1], [0]]] -> [[[[9]]]]",
        "nograd strides=[1, 1, 1, 1] rates=[1, 1, 1, 1] padding=\"SAME\": [[[[1], [2]], [[3], "
        "[4]]]], [[[4], [3]], [[1], [0]]] -> [[[[5], [6]], [[7], [8]]]]",
        "strides=[1, 1, 1, 1] rates=[1, 1, 2, 1] padding=\"VALID\": [[[[1, 9], [2, 8], [3, 1]]]], "
        "[[[4, 2], [3, 3]]] -> [[[[6, 11]]]]",
        "strides=[1, 2, 2, 1] rates=[1, 1, 1, 1] padding=\"SAME\": [[[[1], [7], [3]]]], [[[0], "
        "[1]]] -> [[[[8], [3]]]]",
        "strides=[1, 1, 1, 1] rates=[1, 1, 1, 1] padding=\"SAME\": shape(0,2,2,1), [[[4]]] -> "
        "shape(0,2,2,1)",
        "strides=[1, 1, 1, 1] rates=[1, 1, 1, 1] padding=\"VALID\": [[[[1]]]], [[[4, 3]]] -> "
        "!INVALID_ARGUMENT",
        "strides=[1, 1, 1, 1] rates=[1, 1, 1, 1] padding=\"VALID\": [[[[1]]]], [[[4]], [[4]]] -> "
        "shape(1,0,1,1)",
        "strides=[1, 0, 1, 1] rates=[1, 1, 1, 1] padding=\"VALID\": [[[[1]]]], [[[4]]] -> "
        "!INVALID_ARGUMENT", "strides=[1, 1, 1, 1] rates=[1, 1, 1, 2] padding=\"VALID\": "
        "[[[[1]]]], [[[4]]] -> !UNIMPLEMENTED Rate is only supported across spatial dimensions."));

MR_OP(Dilation2DBackpropInput,
    .doc      = "gradient of Dilation2D by its image",
    .sig      = "input: T, filter: T, out_backprop: T -> in_backprop: T",
    .attrs    = ATTRS,
    .shape    = infer_input,
    .kernels  = MR_KERNELS(MR_CPU_ONE(input_grad, MR_REALS)),
    STATE,
    .examples = MR_EXAMPLES(
        "strides=[1, 1, 1, 1] rates=[1, 1, 1, 1] padding=\"VALID\": [[[[1], [2]], [[3], [4]]]], "
        "[[[4], [3]], [[1], [0]]], [[[[7]]]] -> [[[[7], [0]], [[0], [0]]]]",
        "strides=[1, 1, 1, 1] rates=[1, 1, 3, 1] padding=\"SAME\": [[[[1], [2]]]], [[[4], [3]]], "
        "[[[[7], [1]]]] -> [[[[8], [0]]]]",
        "strides=[1, 1, 1, 1] rates=[1, 1, 1, 1] padding=\"VALID\": [[[[1]]]], [[[4]]], "
        "[[[[7], [1]]]] -> !INVALID_ARGUMENT out_backprop has incompatible size"));

MR_OP(Dilation2DBackpropFilter,
    .doc      = "gradient of Dilation2D by its filter",
    .sig      = "input: T, filter: T, out_backprop: T -> filter_backprop: T",
    .attrs    = ATTRS,
    .shape    = infer_filter,
    .kernels  = MR_KERNELS(MR_CPU_ONE(filter_grad, MR_REALS)),
    STATE,
    .examples = MR_EXAMPLES(
        "strides=[1, 1, 1, 1] rates=[1, 1, 1, 1] padding=\"SAME\": [[[[1], [2]], [[3], [4]]]], "
        "[[[4], [3]], [[1], [0]]], [[[[7], [1]], [[2], [3]]]] -> [[[13], [0]], [[0], [0]]]",
        "strides=[1, 1, 1, 1] rates=[1, 1, 1, 1] padding=\"VALID\": shape(0,1,1,1), [[[4]]], "
        "shape(0,1,1,1) -> [[[0]]]",
        "strides=[1, 1, 1, 1] rates=[1, 1, 1, 1] padding=\"VALID\": [[[[1]]]], [[[4]]], [[[7]]] -> "
        "!INVALID_ARGUMENT"));

#else /* ---- included once per type ---- */

/* The maximum of a window; *tap and *pixel are the places that gave it. */
static T FN(largest)(const job *j, const T *image, int64_t oy, int64_t ox, int64_t channel,
                     int64_t *tap, int64_t *pixel)
{
    const geometry *g = j->g;
    const T *filter = j->filter;
    T most = LOWEST;
    *tap = 0;
    *pixel = begin_of(g, 0, oy) * g->in[1] + begin_of(g, 1, ox);
    for (int64_t fy = 0; fy < g->filter[0]; fy++) {
        int64_t y = oy * g->stride[0] - g->before[0] + fy * g->rate[0];
        if (y < 0 || y >= g->in[0])
            continue;
        for (int64_t fx = 0; fx < g->filter[1]; fx++) {
            int64_t x = ox * g->stride[1] - g->before[1] + fx * g->rate[1];
            if (x < 0 || x >= g->in[1])
                continue;
            int64_t at = fy * g->filter[1] + fx, p = y * g->in[1] + x;
            T v = PLUS(image[p * g->channels + channel], filter[at * g->channels + channel]);
            if (v > most) {
                most = v;
                *tap = at;
                *pixel = p;
            }
        }
    }
    return most;
}

/* What to do with each window: store its maximum, or add its gradient to a pixel or a tap. */
enum { FN(STORE), FN(TO_PIXEL), FN(TO_TAP) };

static inline void FN(walk)(const job *j, int64_t b, int what)
{
    const geometry *g = j->g;
    int64_t in_size = g->in[0] * g->in[1] * g->channels, n = g->out[0] * g->out[1] * g->channels;
    const T *image = (const T *)j->image + b * in_size;
    const T *dy = j->dy ? (const T *)j->dy + b * n : NULL;
    T *out = (T *)j->out + (what == FN(STORE) ? b * n : what == FN(TO_PIXEL) ? b * in_size : 0);
    for (int64_t i = 0; i < n; i++) {
        int64_t channel = i % g->channels, at = i / g->channels, tap, pixel;
        T most = FN(largest)(j, image, at / g->out[1], at % g->out[1], channel, &tap, &pixel);
        if (what == FN(STORE)) {
            out[i] = most;
        } else {
            T *to = &out[(what == FN(TO_PIXEL) ? pixel : tap) * g->channels + channel];
            *to = PLUS(*to, dy[i]);
        }
    }
}

static void FN(forward)(const job *j, int64_t b) { FN(walk)(j, b, FN(STORE)); }
static void FN(to_pixels)(const job *j, int64_t b) { FN(walk)(j, b, FN(TO_PIXEL)); }
static void FN(to_taps)(const job *j, int64_t b) { FN(walk)(j, b, FN(TO_TAP)); }
static const loops FN(loops) = {FN(forward), FN(to_pixels), FN(to_taps)};
#endif
