/* ops/nn/fractional_pool.c -- FractionalMaxPool and FractionalAvgPool: pools whose windows have k or
 * k + 1 rows and columns, in a random order, and their gradients.
 *
 * A pooling sequence lists where each window begins, and last where the image ends.  Overlapping
 * windows share the row (column) where the next one begins. */
#ifndef T /* ---- included once: the ops ---- */
#include <float.h>
#include <math.h>

#include "base/clock.h"
#include "base/memory.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/random/philox.h"

typedef struct state {
    float ratio[2];
    bool pseudo_random, overlapping;
    int64_t seed, seed2;
} state;

/* Windows over an image [batch, rows, cols, channels]. */
typedef struct windows {
    int64_t batch, in[2], out[2], channels;
    const int64_t *at[2]; /* out + 1 numbers each */
    bool overlapping;
} windows;

typedef struct span {
    int64_t begin, end; /* of rows or columns */
} span;

static span span_of(const windows *w, int d, int64_t i)
{
    int64_t end = w->at[d][i + 1] + w->overlapping;
    return (span){w->at[d][i], MR_MIN(end, w->in[d])};
}

static int64_t pixel_at(const windows *w, int64_t b, int64_t y, int64_t x)
{
    return ((b * w->in[0] + y) * w->in[1] + x) * w->channels;
}

/* One window, whose channels are computed one by one. */
typedef struct cell {
    const windows *w;
    int64_t b, first; /* first: index of the window's first channel in the out image */
    span y, x;
} cell;

#define T float
#define LOWEST -FLT_MAX
#define FN(f) f##_float
#include "ops/nn/fractional_pool.c"
#undef T
#undef LOWEST
#undef FN
#define T double
#define LOWEST -DBL_MAX
#define FN(f) f##_double
#include "ops/nn/fractional_pool.c"
#undef T
#undef LOWEST
#undef FN
#define T int32_t
#define LOWEST INT32_MIN
#define FN(f) f##_int32
#include "ops/nn/fractional_pool.c"
#undef T
#undef LOWEST
#undef FN
#define T int64_t
#define LOWEST INT64_MIN
#define FN(f) f##_int64
#include "ops/nn/fractional_pool.c"
#undef T
#undef LOWEST
#undef FN

#define TYPES(M, ...) MR_FLOATS32(M, __VA_ARGS__) MR_INDEXES(M, __VA_ARGS__)

/* The loops of a type over one window, for mr_kernel.user. */
typedef struct loops {
    void (*forward)(const cell *c, const void *image, void *out);
    /* max pool: image, gradient of the out image -> gradient of the image; average pool: the same
     * without the image */
    void (*back)(const cell *c, const void *image, const void *dy, void *dx);
} loops;
#define LOOPS_ROW(E, name, number, S, C, ...)                         \
    static const loops max_loops_##name = {max_##name, max_back_##name}; \
    static const loops mean_loops_##name = {mean_##name, mean_back_##name};
TYPES(LOOPS_ROW, )

static void each_window(const windows *w, void (*fn)(void *ctx, const cell *c), void *ctx)
{
    for (int64_t b = 0; b < w->batch; b++)
        for (int64_t i = 0; i < w->out[0]; i++)
            for (int64_t j = 0; j < w->out[1]; j++) {
                cell c = {w, b, ((b * w->out[0] + i) * w->out[1] + j) * w->channels,
                          span_of(w, 0, i), span_of(w, 1, j)};
                fn(ctx, &c);
            }
}

/* ---- sequences ---- */

/* Window i begins at ceil(alpha (i + u)) for one random number u, which is small enough that all windows
 * have k or k + 1 rows. */
static void one_number(mr_philox *p, int64_t in, int64_t out, int64_t *at)
{
    double alpha = (double)in / (double)out, k = (double)(in / out);
    double first = (k + 2) / alpha - 1, last = ((double)in + 1 - k) / alpha - ((double)out - 1);
    mr_words w = mr_words_at(*p, 0);
    double u = mr_words_double(&w) * (first < last ? first : last);
    mr_philox_skip(p, 1);
    at[0] = 0;
    at[out] = in;
    for (int64_t i = 1; i < out; i++) {
        int64_t begin = (int64_t)ceil(alpha * ((double)i + u)) - 1;
        at[i] = MR_MAX(at[i - 1], MR_MIN(begin, in));
    }
}

/* As many windows of size k + 1 as needed, the others of size k, in a random order. */
static void shuffled_sequence(mr_philox *p, int64_t in, int64_t out, int64_t *at)
{
    mr_words w = mr_words_at(*p, 0);
    mr_philox_skip(p, (uint64_t)(out + 3) / 4);
    int64_t *size = at + 1;
    for (int64_t i = 0; i < out; i++)
        size[i] = in / out + (i < in % out);
    for (int64_t i = 0; i < out - 1; i++) {
        int64_t k = i + (int64_t)(mr_words_next(&w) % (uint64_t)(out - i)), t = size[i];
        size[i] = size[k];
        size[k] = t;
    }
    at[0] = 0;
    for (int64_t i = 1; i <= out; i++)
        at[i] += at[i - 1];
}

static mr_status *read_ratios(const mr_node *n, float out[2])
{
    const mr_attr *a;
    MR_TRY(mr_node_get_list(n, "pooling_ratio", MR_ATTR_FLOAT, &a));
    if (a->n != 4)
        return mr_invalid("pooling_ratio field must specify 4 dimensions");
    for (int i = 0; i < 4; i++)
        if (!(a->fs[i] >= 1))
            return mr_invalid("pooling_ratio cannot be smaller than 1, got: %g", a->fs[i]);
    if (a->fs[0] != 1 || a->fs[3] != 1)
        return mr_error(MR_UNIMPLEMENTED, "Fractional pooling is not yet supported on the batch "
                                          "nor channel dimension.");
    out[0] = a->fs[1];
    out[1] = a->fs[2];
    return NULL;
}

static mr_status *init_fractional_pool(mr_make *m, void *state_)
{
    state *s = state_;
    bool deterministic;
    MR_TRY(read_ratios(m->node, s->ratio));
    MR_TRY(mr_node_get_bool(m->node, "pseudo_random", &s->pseudo_random));
    MR_TRY(mr_node_get_bool(m->node, "overlapping", &s->overlapping));
    MR_TRY(mr_node_get_bool(m->node, "deterministic", &deterministic));
    MR_TRY(mr_node_get_int(m->node, "seed", &s->seed));
    MR_TRY(mr_node_get_int(m->node, "seed2", &s->seed2));
    bool given = s->seed != 0 || s->seed2 != 0;
    if (!deterministic && given)
        return mr_invalid("Both seed and seed2 should be 0 if deterministic is false.");
    if (deterministic && !given) { /* random seeds, but the same ones each time this kernel runs */
        s->seed = (int64_t)mr_random64();
        s->seed2 = (int64_t)mr_random64();
    }
    return NULL;
}

static mr_philox stream_of(const state *s)
{
    bool given = s->seed != 0 || s->seed2 != 0;
    uint64_t a = given ? (uint64_t)s->seed : mr_random64();
    uint64_t b = given ? (uint64_t)s->seed2 : mr_random64();
    return (mr_philox){{0, 0, (uint32_t)b, (uint32_t)(b >> 32)},
                       {(uint32_t)a, (uint32_t)(a >> 32)}};
}

/* ---- forward ---- */

typedef struct job {
    const loops *l;
    const void *image, *dy;
    void *out;
} job;

static void forward_window(void *ctx, const cell *c)
{
    const job *j = ctx;
    j->l->forward(c, j->image, j->out);
}

static mr_status *fractional_pool_forward(mr_run *r)
{
    const state *s = r->state;
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *y, *at[2];
    if (x->rank != 4)
        return mr_invalid("tensor_in must be 4-dimensional: %s", MR_TENSOR_SHAPE(x));
    windows w = {.batch = x->dims[0], .in = {x->dims[1], x->dims[2]}, .channels = x->dims[3],
                 .overlapping = s->overlapping};
    mr_philox p = stream_of(s);
    for (int i = 0; i < 2; i++) {
        w.out[i] = (int64_t)floorf((float)w.in[i] / s->ratio[i]);
        if (w.out[i] < 1)
            return mr_invalid("pooling_ratio leaves no rows or no columns of an image of shape %s",
                              MR_TENSOR_SHAPE(x));
        w.out[i] = MR_MIN(w.out[i], w.in[i]); /* a float may round a large size up */
        MR_TRY(mr_run_output(r, 1 + i, 1, (int64_t[]){w.out[i] + 1}, &at[i]));
        (s->pseudo_random ? one_number : shuffled_sequence)(&p, w.in[i], w.out[i], at[i]->data);
        w.at[i] = at[i]->data;
    }
    MR_TRY(mr_run_output(r, 0, 4, (int64_t[]){w.batch, w.out[0], w.out[1], w.channels}, &y));
    job j = {r->kernel->user, x->data, NULL, y->data};
    if (y->n > 0)
        each_window(&w, forward_window, &j);
    return NULL;
}

/* ---- backward ---- */

/* Checks that the windows of a pooling sequence begin inside the image, in increasing order. */
static mr_status *check_sequence(const mr_tensor *t, int64_t in, int64_t out, const char *what)
{
    const int64_t *at = MR_DATA(int64_t, t);
    if (t->rank != 1 || t->n != out + 1)
        return mr_invalid("%s must be a vector of %lld numbers, got %s", what, (long long)out + 1,
                          MR_TENSOR_SHAPE(t));
    for (int64_t i = 0; i < out; i++)
        if (at[i] < 0 || at[i] >= in || at[i + 1] <= at[i] || at[i + 1] > in)
            return mr_invalid("%s must increase from window to window and stay within 0..%lld, got "
                              "%lld and %lld", what, (long long)in, (long long)at[i],
                              (long long)at[i + 1]);
    return NULL;
}

/* Fills w from the dims of the image, the gradient in input g and the sequences in the inputs after it. */
static mr_status *read_windows(const mr_run *r, const int64_t *dims, int g, windows *w)
{
    const mr_tensor *dy = mr_in(r, g);
    if (dy->rank != 4 || dy->dims[0] != dims[0] || dy->dims[3] != dims[3])
        return mr_invalid("out_backprop must be 4-dimensional, with the batch size and channels of the "
                          "input (%s), got %s", MR_SHAPE_TEXT(4, dims), MR_TENSOR_SHAPE(dy));
    *w = (windows){.batch = dims[0], .in = {dims[1], dims[2]}, .out = {dy->dims[1], dy->dims[2]},
                   .channels = dims[3], .overlapping = *(const bool *)r->state};
    for (int i = 0; i < 2; i++) {
        MR_TRY(check_sequence(mr_in(r, g + 1 + i), w->in[i], w->out[i],
                              i ? "col_pooling_sequence" : "row_pooling_sequence"));
        w->at[i] = mr_in(r, g + 1 + i)->data;
    }
    return NULL;
}

static void back_window(void *ctx, const cell *c)
{
    const job *j = ctx;
    j->l->back(c, j->image, j->dy, j->out);
}

static mr_status *max_grad(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *y = mr_in(r, 1), *dy = mr_in(r, 2);
    windows w;
    mr_tensor *dx;
    if (x->rank != 4)
        return mr_invalid("orig_input must be 4-dimensional: %s", MR_TENSOR_SHAPE(x));
    MR_TRY(read_windows(r, x->dims, 2, &w));
    if (!mr_tensor_same_shape(y, dy))
        return mr_invalid("orig_output and out_backprop must have the same shape, got %s and %s",
                          MR_TENSOR_SHAPE(y), MR_TENSOR_SHAPE(dy));
    MR_TRY(mr_run_output(r, 0, 4, x->dims, &dx));
    mr_tensor_zero(dx);
    job j = {r->kernel->user, x->data, dy->data, dx->data};
    each_window(&w, back_window, &j);
    return NULL;
}

static mr_status *mean_grad(mr_run *r)
{
    mr_shape shape;
    windows w;
    mr_tensor *dx, *sums;
    MR_TRY(mr_in_shape(r, 0, "orig_input_tensor_shape", 0, &shape));
    if (shape.rank != 4)
        return mr_invalid("orig_input_tensor_shape must be 1-dimensional and 4 elements");
    MR_TRY(read_windows(r, shape.dims, 1, &w));
    MR_TRY(mr_run_output(r, 0, 4, shape.dims, &dx));
    MR_TRY(mr_run_temp(r, MR_DOUBLE, 4, shape.dims, &sums));
    mr_tensor_zero(sums);
    job j = {r->kernel->user, NULL, mr_in(r, 1)->data, sums->data};
    each_window(&w, back_window, &j);
    mr_dtype_convert(MR_DOUBLE, sums->data, (mr_dtype)dx->dtype, dx->data, dx->n, false);
    mr_tensor_unref(sums);
    return NULL;
}

static mr_status *init_grad(mr_make *m, void *overlapping)
{
    return mr_node_get_bool(m->node, "overlapping", overlapping);
}

/* ---- shapes and gradients ---- */

static mr_status *infer_fractional_pool(mr_infer *c)
{
    float ratio[2];
    const mr_pshape *x;
    MR_TRY(read_ratios(c->node, ratio));
    MR_TRY(mr_infer_rank(c, c->in[0], 4, &x));
    mr_pshape *y = mr_pshape_new(c->arena, 4);
    y->dims[0] = mr_infer_dim(x, 0);
    y->dims[3] = mr_infer_dim(x, 3);
    for (int i = 0; i < 2; i++) {
        int64_t n = mr_infer_dim(x, 1 + i);
        y->dims[1 + i] = n < 0 ? -1 : MR_MIN(n, (int64_t)floorf((float)n / ratio[i]));
        mr_infer_out_vector(c, 1 + i, n < 0 ? -1 : y->dims[1 + i] + 1);
    }
    c->out[0] = y;
    return NULL;
}

static mr_status *infer_max_grad(mr_infer *c) { return mr_infer_rank(c, c->in[0], 4, &c->out[0]); }
static mr_status *infer_mean_grad(mr_infer *c)
{
    const mr_pshape *shape;
    MR_TRY(mr_infer_shape_value(c, 0, &shape));
    return mr_infer_rank(c, shape, 4, &c->out[0]);
}

static void max_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit_like(g, "FractionalMaxPoolGrad", "overlapping",
                              MR_OUTS(mr_xi(g, 0), mr_yi(g, 0), mr_dyi(g, 0), mr_yi(g, 1),
                                      mr_yi(g, 2))));
}

static void mean_backward(mr_grad *g)
{
    mr_out shape = mr_emit_with(g->s, "Shape", MR_ATTRS({"out_type", mr_a_type(MR_INT64)}),
                                mr_xi(g, 0));
    mr_dxi(g, 0, mr_emit_like(g, "FractionalAvgPoolGrad", "overlapping",
                              MR_OUTS(shape, mr_dyi(g, 0), mr_yi(g, 1), mr_yi(g, 2))));
}

#define ROW(E, name, number, S, C, kind, function) \
    {.device = "CPU", .type = MR_##E, .run = function,  \
     .user = (void *)(uintptr_t)&kind##_loops_##name},
#define KERNELS(kind, function) MR_KERNELS(TYPES(ROW, kind, function))
#define NUMBERS "{float, double, int32, int64}"
#define POOL                                                                                    \
    .sig = "value: T -> output: T, row_pooling_sequence: int64, col_pooling_sequence: int64",   \
    .attrs = "pooling_ratio: list(float) >= 4; pseudo_random: bool = false; "                   \
             "overlapping: bool = false; deterministic: bool = false; seed: int = 0; "          \
             "seed2: int = 0; T: " NUMBERS,                                                     \
    .flags = MR_NO_FOLD, .shape = infer_fractional_pool, .state_bytes = sizeof(state), .init = init_fractional_pool
#define FIXED "pooling_ratio=[1, 1, 2, 1] deterministic=true seed=5 "

MR_OP(FractionalMaxPool,
    .doc      = "the largest value in windows of random sizes",
    POOL,
    .grad     = max_backward,
    .kernels  = KERNELS(max, fractional_pool_forward),
    .examples = MR_EXAMPLES(
        FIXED ": [[[[1], [7], [3], [4]]]] -> [[[[7], [4]]]], [0, 1], [0, 2, 4]",
        FIXED "overlapping=true: [[[[1], [2], [5], [4]]]] -> [[[[5], [5]]]], [0, 1], [0, 2, 4]",
        FIXED "pseudo_random=true: [[[[1, 2], [7, 5], [3, 8], [4, 9]]]] -> [[[[7, 5], [4, 9]]]], "
        "[0, 1], [0, 2, 4]",
        "nograd pooling_ratio=[1, 1.5, 1.4, 1]: fill(3, 2,5,9,1) -> fill(3, 2,3,6,1), shape(4), "
        "shape(7)",
        "pooling_ratio=[1, 1, 2, 1]: shape(0,1,4,1) -> shape(0,1,2,1), [0, 1], [0, 2, 4]",
        "pooling_ratio=[1, 2, 2, 1]: [[[[1], [2]]]] -> !INVALID_ARGUMENT leaves no rows",
        "pooling_ratio=[1, 0.5, 2, 1]: [[[[1], [2]]]] -> !INVALID_ARGUMENT cannot be smaller than "
        "1",
        "pooling_ratio=[1, 1, 1, 2]: [[[[1], [2]]]] -> !UNIMPLEMENTED",
        "pooling_ratio=[1, 1, 1, 1] seed=1: [[[[1]]]] -> !INVALID_ARGUMENT Both seed and seed2",
        "pooling_ratio=[1, 1, 1, 1]: [[[1]]] -> !INVALID_ARGUMENT"));

MR_OP(FractionalAvgPool,
    .doc      = "the mean in windows of random sizes",
    POOL,
    .grad     = mean_backward,
    .kernels  = KERNELS(mean, fractional_pool_forward),
    .examples = MR_EXAMPLES(
        FIXED ": [[[[1], [7], [3], [5]]]] -> [[[[4], [4]]]], [0, 1], [0, 2, 4]",
        FIXED "overlapping=true: [[[[1], [2], [3], [5]]]] -> [[[[2], [4]]]], [0, 1], [0, 2, 4]",
        "T=int32 " FIXED ": [[[[1], [2], [-3], [-4]]]] -> [[[[1], [-3]]]], [0, 1], [0, 2, 4]",
        "nograd pooling_ratio=[1, 1.5, 1.4, 1]: fill(3, 2,5,9,1) -> fill(3, 2,3,6,1), shape(4), "
        "shape(7)",
        "pooling_ratio=[1, 1, 1, 1]: [[[1]]] -> !INVALID_ARGUMENT"));

#define GRAD .state_bytes = sizeof(bool), .init = init_grad

MR_OP(FractionalMaxPoolGrad,
    .doc      = "gradient of FractionalMaxPool: each window's gradient goes to its first largest value",
    .sig      = "orig_input: T, orig_output: T, out_backprop: T, row_pooling_sequence: int64, "
                "col_pooling_sequence: int64 -> output: T",
    .attrs    = "overlapping: bool = false; T: " NUMBERS,
    .shape    = infer_max_grad,
    .kernels  = KERNELS(max, max_grad), GRAD,
    .examples = MR_EXAMPLES(
        "[[[[1], [7], [3], [4]]]], [[[[7], [4]]]], [[[[5], [6]]]], [0, 1], [0, 2, 4] -> "
        "[[[[0], [5], [0], [6]]]]",
        "overlapping=true: [[[[1], [2], [9], [4]]]], [[[[9], [9]]]], [[[[5], [6]]]], [0, 1], "
        "[0, 2, 4] -> [[[[0], [0], [11], [0]]]]",
        "[[[[1], [7]]]], [[[[7]]]], [[[[5]]]], [0, 1], [0, 3] -> !INVALID_ARGUMENT "
        "col_pooling_sequence must increase",
        "[[[[1], [7]]]], [[[[7]]]], [[[[5]]]], [0, 1, 1], [0, 2] -> !INVALID_ARGUMENT "
        "row_pooling_sequence must be a vector of 2 numbers",
        "[[[[1], [7]]]], [[[[7], [8]]]], [[[[5]]]], [0, 1], [0, 2] -> !INVALID_ARGUMENT"));

MR_OP(FractionalAvgPoolGrad,
    .doc      = "gradient of FractionalAvgPool: the pixels of each window share its gradient",
    .sig      = "orig_input_tensor_shape: int64, out_backprop: T, row_pooling_sequence: int64, "
                "col_pooling_sequence: int64 -> output: T",
    .attrs    = "overlapping: bool = false; T: " NUMBERS,
    .shape    = infer_mean_grad,
    .kernels  = KERNELS(mean, mean_grad), GRAD,
    .examples = MR_EXAMPLES(
        "[1, 1, 4, 1], [[[[4], [6]]]], [0, 1], [0, 2, 4] -> [[[[2], [2], [3], [3]]]]",
        "overlapping=true: [1, 1, 4, 1], [[[[6], [4]]]], [0, 1], [0, 2, 4] -> "
        "[[[[2], [2], [4], [2]]]]",
        "[1, 1, 4], [[[[4], [6]]]], [0, 1], [0, 2, 4] -> !INVALID_ARGUMENT",
        "[1, 1, 4, 1], [[[[4], [6]]]], [0, 1], [2, 0, 4] -> !INVALID_ARGUMENT must increase",
        "[2, 1, 4, 1], [[[[4], [6]]]], [0, 1], [0, 2, 4] -> !INVALID_ARGUMENT out_backprop"));

#else /* ---- included for float, double, int32 and int64: one window ---- */

/* The index of the first maximum of a channel; a NaN counts only if it is the first element. */
static int64_t FN(largest)(const cell *c, const T *image, int64_t channel)
{
    int64_t best = pixel_at(c->w, c->b, c->y.begin, c->x.begin) + channel;
    for (int64_t y = c->y.begin; y < c->y.end; y++)
        for (int64_t x = c->x.begin; x < c->x.end; x++) {
            int64_t at = pixel_at(c->w, c->b, y, x) + channel;
            best = image[at] > image[best] ? at : best;
        }
    return best;
}

/* A NaN is never the maximum, as in TensorFlow: the search starts with the lowest number of the type. */
static void FN(max)(const cell *c, const void *image, void *out)
{
    for (int64_t k = 0; k < c->w->channels; k++) {
        T most = LOWEST;
        for (int64_t y = c->y.begin; y < c->y.end; y++)
            for (int64_t x = c->x.begin; x < c->x.end; x++) {
                T v = ((const T *)image)[pixel_at(c->w, c->b, y, x) + k];
                most = v > most ? v : most;
            }
        ((T *)out)[c->first + k] = most;
    }
}

static void FN(max_back)(const cell *c, const void *image, const void *dy, void *dx)
{
    for (int64_t k = 0; k < c->w->channels; k++) {
        T *to = (T *)dx + FN(largest)(c, image, k), g = ((const T *)dy)[c->first + k];
        *to = (T)0.5 != 0 ? *to + g : (T)((uint64_t)*to + (uint64_t)g); /* integers wrap */
    }
}

static int64_t FN(pixels)(const cell *c)
{
    return (c->y.end - c->y.begin) * (c->x.end - c->x.begin);
}

/* The mean of integers is computed in integers: sums wrap, and the quotient is truncated. */
static void FN(mean)(const cell *c, const void *image, void *out)
{
    for (int64_t k = 0; k < c->w->channels; k++) {
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t y = c->y.begin; y < c->y.end; y++)
            for (int64_t x = c->x.begin; x < c->x.end; x++) {
                T v = ((const T *)image)[pixel_at(c->w, c->b, y, x) + k];
                if ((T)0.5 != 0)
                    sum += (double)v;
                else
                    whole += (uint64_t)(int64_t)v;
            }
        ((T *)out)[c->first + k] =
            (T)0.5 != 0 ? (T)(sum / (double)FN(pixels)(c))
                        : (T)((int64_t)(T)whole / FN(pixels)(c));
    }
}

/* dx is an array of doubles, which is converted to T after all windows have added to it. */
static void FN(mean_back)(const cell *c, const void *image, const void *dy, void *dx)
{
    (void)image;
    for (int64_t k = 0; k < c->w->channels; k++) {
        double share = (double)((const T *)dy)[c->first + k] / (double)FN(pixels)(c);
        for (int64_t y = c->y.begin; y < c->y.end; y++)
            for (int64_t x = c->x.begin; x < c->x.end; x++)
                ((double *)dx)[pixel_at(c->w, c->b, y, x) + k] += share;
    }
}
#endif
