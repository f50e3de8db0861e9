/* ops/nn/avg_pool.c -- AvgPool and its gradient: the mean of the pixels that a window covers, and
 * each window's gradient spread evenly over them. */
#ifndef T /* ---- included once: the ops ---- */
#include "ops/nn/avg_pool.h"

#include "base/memory.h"

#define PIXEL_NS 0.15

enum { BLOCK = 256 }; /* channels per pass of the gradient, so that their shares fit a local array */

#define MR_TYPED_FILE "ops/nn/avg_pool.c"
#include "ops/nn/each_wide.h"

static mr_status *spatial_only(const mr_window *w)
{
    if (w->depth != 1 || w->depth_stride != 1)
        return mr_error(MR_UNIMPLEMENTED, "Non-spatial pooling is not yet supported.");
    return NULL;
}

mr_status *mr_avg_pool2d_init(mr_make *m, void *state)
{
    MR_TRY(mr_pool2d_init(m, state));
    return spatial_only(state);
}

mr_status *mr_avg_pool3d_init(mr_make *m, void *state)
{
    MR_TRY(mr_pool3d_init(m, state));
    return spatial_only(state);
}

/* ---- kernels, for 2 and 3 dimensions ---- */

mr_status *mr_avg_pool_kernel(mr_run *r)
{
    const mr_window *w = r->state;
    mr_status *st = NULL;
    mr_wide x = {0}, y = {0};
    mr_conv c;
    int64_t dims[MR_SPACE + 2];
    MR_GO(mr_pool_resolve_input(r, 0, "tensor_in", &c));
    mr_conv_out_dims(w, &c, dims);
    if (mr_on_accel(r))
        return mr_pool_run_accel(r, "avg_pool", &c, mr_window_rank(w), dims, mr_in(r, 0), NULL);
    MR_GO(mr_pool_out(r, mr_window_rank(w), dims, &y));
    if (y.t->n == 0)
        goto out;
    MR_GO(mr_pool_in(r, 0, &c, c.in, &x));
    mr_pool_job j = {.c = &c, .image = x.t->data, .result = y.t->data,
                     .fn = x.t->dtype == MR_DOUBLE ? mean_double : mean_float};
    mr_pool_run(r, &j, PIXEL_NS);
    MR_GO(mr_pool_store(r, &c, c.out, &y));
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&y);
    return st;
}

/* Resolves the geometry from the dims of the image, which input 0 of a gradient op holds as a vector. */
static mr_status *resolve_sizes(const mr_run *r, mr_shape *image, mr_conv *out)
{
    const mr_window *w = r->state;
    int64_t ignored;
    MR_TRY(mr_in_shape(r, 0, "orig_input_shape", 0, image));
    if (image->rank != mr_window_rank(w))
        return mr_invalid("orig_input_shape must be 1-dimensional and %d elements, got %d",
                          mr_window_rank(w), image->rank);
    MR_TRY(mr_shape_elements(image->rank, image->dims, &ignored));
    MR_TRY(mr_pool_resolve(w, image->dims, out));
    return mr_pool_check_out(r, 1, "grad", out);
}

mr_status *mr_avg_pool_grad_kernel(mr_run *r)
{
    mr_status *st = NULL;
    mr_wide g = {0}, y = {0};
    mr_shape image;
    mr_conv c;
    MR_GO(resolve_sizes(r, &image, &c));
    if (mr_on_accel(r))
        return mr_pool_run_accel(r, "avg_pool_grad", &c, image.rank, image.dims, mr_in(r, 1), NULL);
    MR_GO(mr_pool_out(r, image.rank, image.dims, &y));
    if (y.t->n == 0)
        goto out;
    MR_GO(mr_pool_in(r, 1, &c, c.out, &g));
    mr_pool_job j = {.c = &c, .out_image = g.t->data, .result = y.t->data,
                     .fn = y.t->dtype == MR_DOUBLE ? spread_double : spread_float};
    mr_pool_run(r, &j, 2 * PIXEL_NS);
    MR_GO(mr_pool_store(r, &c, c.in, &y));
out:
    mr_wide_deinit(&g);
    mr_wide_deinit(&y);
    return st;
}

mr_status *mr_avg_pool_grad_infer(mr_infer *c, int spatial)
{
    const mr_pshape *s;
    MR_TRY(mr_infer_shape_value(c, 0, &s));
    return mr_infer_rank(c, s, spatial + 2, &c->out[0]);
}

/* ---- ops ---- */

static mr_status *infer_avg_pool(mr_infer *c) { return mr_pool_infer(c, 2); }
static mr_status *infer_grad(mr_infer *c) { return mr_avg_pool_grad_infer(c, 2); }

#define GRAD_ATTRS "ksize strides padding data_format"

static void avg_pool_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit_like(g, "AvgPoolGrad", GRAD_ATTRS,
                              MR_OUTS(mr_shape_of(g, mr_xi(g, 0)), mr_dyi(g, 0))));
}

static void grad_backward(mr_grad *g)
{
    mr_dxi(g, 1, mr_emit_like(g, "AvgPool", GRAD_ATTRS, MR_OUTS(mr_dyi(g, 0))));
}

#define ATTRS                                                                                   \
    "ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID'}; "              \
    "data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: {half, bfloat16, float, double}"

MR_OP(AvgPool,
    .doc         = "the mean of each window; padding does not count",
    .sig         = "value: T -> output: T",
    .attrs       = ATTRS,
    .shape       = infer_avg_pool,
    .grad        = avg_pool_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(mr_avg_pool_kernel, MR_FLOATS) MR_GPU(mr_avg_pool_kernel, FLOAT)),
    .state_bytes = sizeof(mr_window),
    .init        = mr_avg_pool2d_init,
    .examples    = MR_EXAMPLES(
        "ksize=[1, 1, 2, 1] strides=[1, 1, 2, 1] padding=\"SAME\": [[[[1], [2], [3], [4], [5]]]] "
        "-> [[[[1.5], [3.5], [5]]]]",
        "ksize=[1, 1, 3, 1] strides=[1, 1, 2, 1] padding=\"SAME\": [[[[1], [2], [3], [4], [5]]]] "
        "-> [[[[1.5], [3], [4.5]]]]",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": [[[[3], [13], [7], [2]], "
        "[[6], [10], [4], [1]], [[14], [0], [15], [9]], [[8], [12], [11], [5]]]] -> [[[[8], "
        "[3.5]], [[8.5], [10]]]]",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"SAME\": [[[[15, 22], [17, 20], [34, "
        "16]], [[29, 21], [2, 24], [11, 19]], [[30, 14], [35, 27], [0, 3]]], [[[10, 6], [12, 31], "
        "[4, 32]], [[25, 33], [13, 7], [28, 26]], [[9, 18], [8, 23], [1, 5]]]] -> [[[[15.75, "
        "21.75], [22.5, 17.5]], [[32.5, 20.5], [0, 3]]], [[[15, 19.25], [16, 29]], [[8.5, 20.5], "
        "[1, 5]]]]",
        "ksize=[1, 3, 3, 1] strides=[1, 2, 1, 1] padding=\"SAME\": [[[[2], [5], [17], [19]], "
        "[[12], [1], [11], [10]], [[13], [18], [7], [4]], [[8], [9], [0], [16]], [[6], [15], "
        "[14], [3]]]] -> [[[[5], [8], [10.5], [14.25]], [[10.1666666667], [8.77777777778], "
        "[8.44444444444], [8]], [[9.5], [8.66666666667], [9.5], [8.25]]]]",
        "ksize=[1, 1, 2, 3] strides=[1, 1, 1, 1] padding=\"VALID\" data_format=\"NCHW\": [[[[21, "
        "5, 8, 17], [4, 18, 1, 14], [19, 13, 20, 9]], [[7, 6, 2, 16], [12, 11, 22, 0], [15, 23, "
        "3, 10]]]] -> [[[[9.5, 10.5], [12.5, 12.5]], [[10, 9.5], [14.3333333333, 11.5]]]]",
        "nograd ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": fill(0.5, 2,6,6,300) "
        "-> fill(0.5, 2,3,3,300)",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": fill(1, 1,1,2,1) -> "
        "!INVALID_ARGUMENT Negative dimension size caused by subtracting 2 from 1",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": shape(0,4,4,1) -> "
        "shape(0,2,2,1)",
        "ksize=[1, 1, 1, 2] strides=[1, 1, 1, 2] padding=\"SAME\": [[[[1, 2]]]] -> !UNIMPLEMENTED "
        "Non-spatial pooling",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": [[[1]]] -> !INVALID_ARGUMENT"));

MR_OP(AvgPoolGrad,
    .doc         = "gradient of AvgPool: each window's gradient is spread evenly over its pixels",
    .sig         = "orig_input_shape: int32, grad: T -> output: T",
    .attrs       = ATTRS,
    .shape       = infer_grad,
    .grad        = grad_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(mr_avg_pool_grad_kernel, MR_FLOATS) MR_GPU_HOST(mr_avg_pool_grad_kernel, FLOAT, 1, 0)),
    .state_bytes = sizeof(mr_window),
    .init        = mr_avg_pool2d_init,
    .examples    = MR_EXAMPLES(
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": [1, 4, 4, 1], [[[[96], [96]], "
        "[[72], [24]]]] -> [[[[24], [24], [24], [24]], [[24], [24], [24], [24]], [[18], [18], "
        "[6], [6]], [[18], [18], [6], [6]]]]",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"SAME\": [2, 3, 3, 2], [[[[36, 72], "
        "[72, 0]], [[96, 48], [84, 0]]], [[[0, 84], [12, 60]], [[84, 0], [12, 48]]]] -> [[[[9, "
        "18], [9, 18], [36, 0]], [[9, 18], [9, 18], [36, 0]], [[48, 24], [48, 24], [84, 0]]], "
        "[[[0, 21], [0, 21], [6, 30]], [[0, 21], [0, 21], [6, 30]], [[42, 0], [42, 0], [12, 48]]]]",
        "ksize=[1, 3, 3, 1] strides=[1, 2, 1, 1] padding=\"SAME\": [1, 5, 4, 1], [[[[36], [48], "
        "[0], [12]], [[12], [48], [12], [96]], [[24], [48], [24], [60]]]] -> [[[[17], [17], [11], "
        "[3]], [[24.3333333333], [25.6666666667], [33.6666666667], [20.3333333333]], "
        "[[7.33333333333], [8.66666666667], [22.6666666667], [17.3333333333]], [[21.3333333333], "
        "[26.6666666667], [49.6666666667], [36.3333333333]], [[14], [18], [27], [19]]]]",
        "ksize=[1, 1, 2, 3] strides=[1, 1, 1, 1] padding=\"VALID\" data_format=\"NCHW\": [1, 2, "
        "3, 4], [[[[48, 36], [84, 84]], [[72, 36], [84, 96]]]] -> [[[[8, 14, 14, 6], [22, 42, 42, "
        "20], [14, 28, 28, 14]], [[12, 18, 18, 6], [26, 48, 48, 22], [14, 30, 30, 16]]]]",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": [0, 4, 4, 1], shape(0,2,2,1) "
        "-> shape(0,4,4,1)",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": [1, 4, 4, 1], [[[[1]]]] -> "
        "!INVALID_ARGUMENT",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": [1, 4, 4], [[[[1]]]] -> "
        "!INVALID_ARGUMENT",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": [1, -4, 4, 1], [[[[1]]]] -> "
        "!INVALID_ARGUMENT"));

#else /* ---- included once per type ---- */

typedef struct FN(window) {
    mr_pool_extent z, y, x;
    T count;
} FN(window);

MR_INLINE FN(window) FN(window_at)(const mr_conv *c, int64_t oz, int64_t oy, int64_t ox)
{
    FN(window) w = {mr_pool_span(c, 0, oz), mr_pool_span(c, 1, oy), mr_pool_span(c, 2, ox), 0};
    w.count = (T)((w.z.end - w.z.begin) * (w.y.end - w.y.begin) * (w.x.end - w.x.begin));
    return w;
}

/* to[n] = the mean of n channels over a window. */
MR_INLINE void FN(window_mean)(const mr_conv *c, FN(window) w, const T *image, int64_t n, T *to)
{
    const T share = 1 / w.count;
    memset(to, 0, (size_t)n * sizeof(T));
    for (int64_t z = w.z.begin; z < w.z.end; z++)
        for (int64_t y = w.y.begin; y < w.y.end; y++) {
            const T *row = image + ((z * c->in[1] + y) * c->in[2] + w.x.begin) * c->in_channels;
            int64_t x = w.x.begin;
            for (; x + 2 <= w.x.end; x += 2, row += 2 * c->in_channels) {
                const T *next = row + c->in_channels;
                MR_IVDEP
                for (int64_t k = 0; k < n; k++)
                    to[k] += row[k] + next[k];
            }
            int64_t rest = x < w.x.end ? n : 0;
            MR_IVDEP
            for (int64_t k = 0; k < rest; k++)
                to[k] += row[k];
        }
    for (int64_t k = 0; k < n; k++)
        to[k] *= share;
}

MR_CLONES static void FN(mean)(const mr_pool_job *j, int64_t batch, int64_t channel,
                               int64_t channels)
{
    const mr_conv *c = j->c;
    const T *image = (const T *)j->image + batch * mr_conv_in_size(c) + channel;
    T *to = (T *)j->result + batch * mr_conv_out_size(c) + channel;
    for (int64_t oz = 0; oz < c->out[0]; oz++)
        for (int64_t oy = 0; oy < c->out[1]; oy++)
            for (int64_t ox = 0; ox < c->out[2]; ox++, to += c->in_channels)
                FN(window_mean)(c, FN(window_at)(c, oz, oy, ox), image, channels, to);
}

MR_INLINE void FN(window_spread)(const mr_conv *c, FN(window) w, const T *g, int64_t n, T *result)
{
    T share[BLOCK];
    for (int64_t from = 0; from < n; from += BLOCK) {
        int64_t m = MR_MIN(BLOCK, n - from);
        for (int64_t k = 0; k < m; k++)
            share[k] = g[from + k] / w.count;
        for (int64_t z = w.z.begin; z < w.z.end; z++)
            for (int64_t y = w.y.begin; y < w.y.end; y++)
                for (int64_t x = w.x.begin; x < w.x.end; x++) {
                    T *to = result + ((z * c->in[1] + y) * c->in[2] + x) * c->in_channels + from;
                    for (int64_t k = 0; k < m; k++)
                        to[k] += share[k];
                }
    }
}

/* Zeroes rows from..to of the image and returns how many rows are zero now. */
MR_INLINE int64_t FN(zero_rows)(const mr_conv *c, T *image, int64_t from, int64_t to,
                                int64_t channels)
{
    for (int64_t i = from * c->in[2]; i < to * c->in[2]; i++)
        memset(image + i * c->in_channels, 0, (size_t)channels * sizeof(T));
    return MR_MAX(from, to);
}

MR_CLONES static void FN(spread)(const mr_pool_job *j, int64_t batch, int64_t channel,
                                 int64_t channels)
{
    const mr_conv *c = j->c;
    const T *g = (const T *)j->out_image + batch * mr_conv_out_size(c) + channel;
    T *result = (T *)j->result + batch * mr_conv_in_size(c) + channel;
    int64_t zeroed = 0;
    for (int64_t oz = 0; oz < c->out[0]; oz++)
        for (int64_t oy = 0; oy < c->out[1]; oy++) {
            zeroed = FN(zero_rows)(c, result, zeroed, mr_pool_reach(c, oz, oy), channels);
            for (int64_t ox = 0; ox < c->out[2]; ox++, g += c->in_channels)
                FN(window_spread)(c, FN(window_at)(c, oz, oy, ox), g, channels, result);
        }
    FN(zero_rows)(c, result, zeroed, c->in[0] * c->in[1], channels);
}
#endif
