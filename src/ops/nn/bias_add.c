/* ops/nn/bias_add.c -- adds one number a channel, and sums gradients a channel.
 *
 * Adding is broadcasting, which ops/elementwise.c knows.  The sum runs over all dimensions but that
 * of the channels: down the columns of a matrix [rows, channels]; for NCHW, where channels are not
 * last, each image's plane of a channel is summed first, which leaves such a matrix.
 *
 * The rows are cut into a fixed number of pieces that are summed apart and then added in order: the
 * result does not depend on the number of threads, and long chains of additions, which lose digits,
 * are short. */
#ifndef T /* ---- read once: the ops ---- */
#include "ops/elementwise.h"
#include "ops/nn/layout.h"
#include "ops/nn/wide.h"

enum {
    PIECES = 64,     /* at most */
    MIN_ROWS = 64,   /* of a piece */
    PANEL = 512,     /* columns summed at once: they stay in the first-level cache */
    WIDE_ENOUGH = 64 /* narrower matrices are folded: k rows of n columns are one row of k n */
};
#define ELEMENT_NS 0.15

typedef struct columns_job {
    const void *x; /* [rows, width] */
    void *sums;    /* [pieces, width] */
    int64_t rows, width, piece_rows;
} columns_job;

typedef struct planes_job {
    const void *x; /* [planes, size] */
    void *sums;    /* [planes] */
    int64_t size;
} planes_job;

#define MR_TYPED_FILE "ops/nn/bias_add.c"
#include "ops/nn/each_wide.h"

/* ---- BiasAdd ---- */

MR_BINARY(bias_add, MR_FLOATS_COMPLEX, x + y)
MR_BINARY(bias_add, MR_INTS, (uint64_t)x + (uint64_t)y)

static mr_status *init(mr_make *m, void *state) { return mr_layout_get(m->node, state); }

static int channel_dim(const mr_tensor *x, mr_layout layout)
{
    return layout == MR_CHANNELS_LAST ? x->rank - 1 : 1;
}

static mr_status *check(const mr_tensor *x, const mr_tensor *bias, mr_layout layout)
{
    if (x->rank < 2)
        return mr_invalid("Input tensor must be at least 2D: %s", MR_TENSOR_SHAPE(x));
    if (bias->rank != 1)
        return mr_invalid("Biases must be 1D: %s", MR_TENSOR_SHAPE(bias));
    if (bias->dims[0] == x->dims[channel_dim(x, layout)])
        return NULL;
    return mr_invalid("Must provide as many biases as the %s of the input tensor: %s vs. %s",
                      layout == MR_CHANNELS_LAST ? "last dimension" : "channel dimension",
                      MR_TENSOR_SHAPE(bias), MR_TENSOR_SHAPE(x));
}

/* The bias as [1, channels, 1, 1], so that broadcasting puts it where the channels are. */
static mr_status *add_channels_first(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *bias = mr_in(r, 1), *view;
    mr_shape s = {.rank = x->rank};
    for (int i = 0; i < s.rank; i++)
        s.dims[i] = i == 1 ? bias->dims[0] : 1;
    MR_TRY(mr_tensor_view(bias, (mr_dtype)bias->dtype, s.rank, s.dims, &view));
    r->in[1].t = view;
    mr_status *st = mr_each_run(r);
    r->in[1].t = bias;
    mr_tensor_unref(view);
    return st;
}

static mr_status *bias_add(mr_run *r)
{
    mr_layout layout = *(const mr_layout *)r->state;
    MR_TRY(check(mr_in(r, 0), mr_in(r, 1), layout));
    return layout == MR_CHANNELS_LAST ? mr_each_run(r) : add_channels_first(r);
}

static mr_status *bias_add_v1(mr_run *r)
{
    MR_TRY(check(mr_in(r, 0), mr_in(r, 1), MR_CHANNELS_LAST));
    return mr_each_run(r);
}

static mr_status *infer_add(mr_infer *c, mr_layout layout)
{
    const mr_pshape *x, *bias;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 2, &x));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &bias));
    c->out[0] = x;
    if (x->rank < 0)
        return NULL;
    int at = layout == MR_CHANNELS_LAST ? x->rank - 1 : 1;
    mr_pshape *y = mr_pshape_new(c->arena, x->rank);
    for (int i = 0; i < x->rank; i++)
        y->dims[i] = x->dims[i];
    c->out[0] = y;
    return mr_infer_merge_dim(x->dims[at], bias->dims[0], &y->dims[at]);
}

static mr_status *infer_bias_add(mr_infer *c)
{
    mr_layout layout;
    MR_TRY(mr_layout_get(c->node, &layout));
    return infer_add(c, layout);
}

static mr_status *infer_v1(mr_infer *c) { return infer_add(c, MR_CHANNELS_LAST); }

/* ---- BiasAddGrad of float and double ---- */

/* sums[width] of x[rows, width]. */
static mr_status *sum_columns(mr_run *r, const mr_tensor *x, int64_t rows, int64_t width,
                              void *sums)
{
    bool wide = x->dtype == MR_DOUBLE;
    columns_job j = {x->data, sums, rows, width, rows};
    int64_t pieces = MR_MIN(PIECES, rows / MIN_ROWS);
    if (pieces <= 1) {
        (wide ? columns_double : columns_float)(&j, 0, 1);
        return NULL;
    }
    mr_tensor *parts;
    MR_TRY(mr_run_temp(r, (mr_dtype)x->dtype, 2, (const int64_t[]){pieces, width}, &parts));
    j.sums = parts->data;
    j.piece_rows = (rows + pieces - 1) / pieces;
    mr_run_for(r, pieces, ELEMENT_NS * (double)j.piece_rows * (double)width,
               wide ? columns_double : columns_float, &j);
    columns_job all = {parts->data, sums, pieces, width, pieces};
    (wide ? columns_double : columns_float)(&all, 0, 1);
    mr_tensor_unref(parts);
    return NULL;
}

/* x is [batch, channels, size]. */
static mr_status *sum_planes(mr_run *r, const mr_tensor *x, int64_t batch, int64_t channels,
                             void *sums)
{
    int64_t planes = batch * channels;
    mr_tensor *parts;
    MR_TRY(mr_run_temp(r, (mr_dtype)x->dtype, 1, &planes, &parts));
    planes_job j = {x->data, parts->data, planes > 0 ? x->n / planes : 0};
    mr_run_for(r, planes, ELEMENT_NS * (double)j.size,
               x->dtype == MR_DOUBLE ? planes_double : planes_float, &j);
    mr_status *st = sum_columns(r, parts, batch, channels, sums);
    mr_tensor_unref(parts);
    return st;
}

static mr_status *bias_add_grad(mr_run *r)
{
    mr_layout layout = *(const mr_layout *)r->state;
    mr_status *st = NULL;
    mr_wide x = {0}, y = {0};
    const mr_tensor *g = mr_in(r, 0);
    if (g->rank < 2)
        return mr_invalid("Input tensor must be at least 2D: %s", MR_TENSOR_SHAPE(g));
    int64_t channels = g->dims[channel_dim(g, layout)];
    MR_GO(mr_wide_in(r, 0, &x));
    MR_GO(mr_wide_out(r, -1, 0, 1, &channels, &y));
    if (x.t->n == 0)
        mr_tensor_zero(y.t);
    else if (layout == MR_CHANNELS_LAST)
        MR_GO(sum_columns(r, x.t, x.t->n / channels, channels, y.t->data));
    else
        MR_GO(sum_planes(r, x.t, g->dims[0], channels, y.t->data));
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&y);
    return st;
}

/* ---- BiasAddGrad of the other types: one by one ---- */

#define OTHER_TYPES(M, ...) MR_INTS(M, __VA_ARGS__) MR_COMPLEXES(M, __VA_ARGS__)
#define SUM_ROW(E, name, number, S, C, wide)                                                      \
    static void sum_##name(const void *from, void *to, int64_t n, int64_t channels, int64_t size) \
    {                                                                                             \
        const S *x = from;                                                                        \
        S *y = to;                                                                                \
        for (int64_t i = 0; i < n; i++)                                                           \
            y[i / size % channels] = (S)((wide)y[i / size % channels] + (wide)x[i]);              \
    }
MR_INTS(SUM_ROW, uint64_t)
MR_TYPE_COMPLEX64(SUM_ROW, mr_c64)
MR_TYPE_COMPLEX128(SUM_ROW, mr_c128)

static mr_status *bias_add_grad_other(mr_run *r)
{
    mr_layout layout = *(const mr_layout *)r->state;
    const mr_tensor *g = mr_in(r, 0);
    if (g->rank < 2)
        return mr_invalid("Input tensor must be at least 2D: %s", MR_TENSOR_SHAPE(g));
    int64_t channels = g->dims[channel_dim(g, layout)], size = 1;
    for (int i = 2; i < g->rank && layout == MR_CHANNELS_FIRST; i++)
        size *= g->dims[i];
    mr_tensor *y;
    MR_TRY(mr_run_output(r, 0, 1, &channels, &y));
    mr_tensor_zero(y);
    void (*sum)(const void *, void *, int64_t, int64_t, int64_t) = r->kernel->user;
    if (g->n > 0)
        sum(g->data, y->data, g->n, channels, size);
    return NULL;
}

#define SUM_KERNEL_ROW(E, name, number, S, C, ...) \
    {.device = "CPU", .type = MR_##E, .run = bias_add_grad_other, .user = (void *)sum_##name},

static mr_status *infer_grad(mr_infer *c)
{
    mr_layout layout;
    MR_TRY(mr_layout_get(c->node, &layout));
    const mr_pshape *x;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 2, &x));
    mr_infer_out_vector(c, 0, mr_infer_dim(x, layout == MR_CHANNELS_LAST ? -1 : 1));
    return NULL;
}

/* ---- gradients ---- */

static void bias_add_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_dyi(g, 0));
    mr_dxi(g, 1, mr_emit_like(g, "BiasAddGrad", "data_format", MR_OUTS(mr_dyi(g, 0))));
}

static void v1_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_dyi(g, 0));
    mr_dxi(g, 1, mr_emit(g->s, "BiasAddGrad", mr_dyi(g, 0)));
}

/* Every element of a channel gets the channel's gradient: that of a bias added to nothing. */
static void bias_add_grad_backward(mr_grad *g)
{
    mr_out zeros = mr_zeros_like(g, mr_xi(g, 0));
    mr_dxi(g, 0, mr_emit_like(g, "BiasAdd", "data_format", MR_OUTS(zeros, mr_dyi(g, 0))));
}

MR_OP(BiasAdd,
    .doc         = "value + bias, one number a channel",
    .sig         = "value: T, bias: T -> output: T",
    .attrs       = "T: numbertype; data_format: {'NHWC', 'NCHW'} = 'NHWC'",
    .shape       = infer_bias_add,
    .grad        = bias_add_backward,
    .kernels     = MR_KERNELS(MR_CPU_EACH_BY(bias_add, MR_NUMBERS, bias_add)),
    .state_bytes = sizeof(mr_layout),
    .init        = init,
    .examples    = MR_EXAMPLES(
        "[[1, 2], [3, 4]], [10, 20] -> [[11, 22], [13, 24]]",
        "data_format=\"NCHW\": [[[1, 2], [3, 4]]], [10, 20] -> [[[11, 12], [23, 24]]]",
        "data_format=\"NCHW\": [[[[1, 2]], [[3, 4]]]], [10, 20] -> [[[[11, 12]], [[23, 24]]]]",
        "data_format=\"NCHW\": [[1, 2]], [10, 20] -> [[11, 22]]",
        "T=int8: [[127]], [1] -> [[-128]]",
        "[[1+1i]], [2-2i] -> [[3-1i]]",
        "shape(0,2), [1, 2] -> shape(0,2)",
        "[[1, 2]], [1, 2, 3] -> !INVALID_ARGUMENT",
        "[1, 2], [1, 2] -> !INVALID_ARGUMENT",
        "[[1, 2]], [[1, 2]] -> !INVALID_ARGUMENT"));

MR_OP(BiasAddV1,
    .doc      = "value + bias, one number a channel; channels are the last dimension",
    .sig      = "value: T, bias: T -> output: T",
    .attrs    = "T: numbertype",
    .shape    = infer_v1,
    .grad     = v1_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_BY(bias_add, MR_NUMBERS, bias_add_v1)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]], [10, 20] -> [[11, 22], [13, 24]]",
        "[[[1, 2]]], [1, 1] -> [[[2, 3]]]",
        "[[1, 2]], [1, 2, 3] -> !INVALID_ARGUMENT"));

MR_OP(BiasAddGrad,
    .doc         = "sum over all dimensions but that of the channels",
    .sig         = "out_backprop: T -> output: T",
    .attrs       = "T: numbertype; data_format: {'NHWC', 'NCHW'} = 'NHWC'",
    .shape       = infer_grad,
    .grad        = bias_add_grad_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(bias_add_grad, MR_FLOATS) OTHER_TYPES(SUM_KERNEL_ROW, )),
    .state_bytes = sizeof(mr_layout),
    .init        = init,
    .examples    = MR_EXAMPLES(
        "[[1, 2], [3, 4]] -> [4, 6]",
        "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]] -> [16, 20]",
        "data_format=\"NCHW\": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]] -> [14, 22]",
        "data_format=\"NCHW\": [[1, 2], [3, 4]] -> [4, 6]",
        "T=float nograd: fill(0.5, 1000,3) -> [500, 500, 500]",
        "T=double nograd: fill(0.5, 129,700) -> fill(64.5, 700)",
        "T=int8: [[100], [100]] -> [-56]",
        "[[1+1i], [2-2i]] -> [3-1i]",
        "shape(0,2) -> [0, 0]",
        "[1, 2] -> !INVALID_ARGUMENT"));

#else /* ---- read once a type ---- */
#include "ops/nn/row.h"

/* sums[n] += x over rows that are `stride` apart; n <= PANEL. */
MR_INLINE void FN(panel)(const T *x, int64_t rows, int64_t stride, int64_t n, T *sums)
{
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) {
        const T *a = x + i * stride, *b = a + stride, *c = b + stride, *d = c + stride;
        for (int64_t k = 0; k < n; k++)
            sums[k] += (a[k] + b[k]) + (c[k] + d[k]);
    }
    for (; i < rows; i++)
        for (int64_t k = 0; k < n; k++)
            sums[k] += x[i * stride + k];
}

/* Narrow matrices: several rows side by side are one, whose sums are folded afterwards. */
MR_INLINE void FN(narrow)(const T *x, int64_t rows, int64_t width, T *sums)
{
    int64_t fold = (WIDE_ENOUGH + width - 1) / width, folded = rows / fold, n = fold * width;
    T wide[2 * WIDE_ENOUGH] = {0};
    FN(panel)(x, folded, n, n, wide);
    FN(panel)(wide, fold, width, width, sums);
    FN(panel)(x + folded * n, rows % fold, width, width, sums);
}

/* The sums of pieces begin..end. */
MR_CLONES static void FN(columns)(void *ctx, int64_t begin, int64_t end)
{
    const columns_job *j = ctx;
    for (int64_t piece = begin; piece < end; piece++) {
        int64_t first = piece * j->piece_rows, rows = MR_MIN(j->piece_rows, j->rows - first);
        const T *x = (const T *)j->x + first * j->width;
        T *sums = (T *)j->sums + piece * j->width;
        memset(sums, 0, (size_t)j->width * sizeof(T));
        if (rows <= 0) /* pieces are rounded up to whole rows, so the last ones may be empty */
            continue;
        if (j->width < WIDE_ENOUGH) {
            FN(narrow)(x, rows, j->width, sums);
            continue;
        }
        for (int64_t at = 0; at < j->width; at += PANEL)
            FN(panel)(x + at, rows, j->width, MR_MIN(PANEL, j->width - at), sums + at);
    }
}

MR_CLONES static void FN(planes)(void *ctx, int64_t begin, int64_t end)
{
    const planes_job *j = ctx;
    for (int64_t i = begin; i < end; i++)
        ((T *)j->sums)[i] = FN(row_sum)((const T *)j->x + i * j->size, j->size);
}
#endif
