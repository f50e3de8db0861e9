/* ops/nn/max_pool.c -- MaxPool and its gradients. */
#include "ops/nn/max_pool.h"

#include <float.h>
#include <math.h>

#include "base/memory.h"
#include "ops/maths.h"
#include "ops/reduce_accel.h"

#define PIXEL_NS 0.15

/* ---- kernels, for 2 and 3 dimensions ---- */

/* The maximum of no numbers, or of NaNs only.  TensorFlow's CPU kernels start with the lowest finite number of the type
 * in two dimensions and with -inf in three. */
static double lowest_of(mr_dtype t, int rank)
{
    if (rank != 4)
        return -INFINITY;
    return t == MR_HALF ? -65504 : t == MR_BFLOAT16 ? -0x1.fep127 : t == MR_DOUBLE ? -DBL_MAX : -FLT_MAX;
}

mr_status *mr_max_pool_kernel(mr_run *r)
{
    const mr_window *w = r->state;
    const mr_max_pool *loops = r->kernel->user;
    mr_status *st = NULL;
    mr_wide x = {0}, y = {0};
    mr_conv c;
    int64_t dims[MR_SPACE + 2];
    MR_GO(mr_pool_resolve_input(r, 0, "tensor_in", &c));
    mr_conv_out_dims(w, &c, dims);
    if (mr_on_accel(r))
        return mr_pool_run_accel(r, "max_pool", &c, mr_window_rank(w), dims, mr_in(r, 0), NULL);
    MR_GO(mr_pool_out(r, mr_window_rank(w), dims, &y));
    if (y.t->n == 0)
        goto out;
    MR_GO(mr_pool_in(r, 0, &c, c.in, &x));
    mr_pool_job j = {.c = &c, .image = x.t->data, .result = y.t->data, .fn = loops->forward,
                     .lowest = lowest_of(mr_out_dtype(r, 0), mr_window_rank(w))};
    mr_pool_run(r, &j, PIXEL_NS);
    MR_GO(mr_pool_store(r, &c, c.out, &y));
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&y);
    return st;
}

mr_status *mr_max_pool_grad_kernel(mr_run *r)
{
    const mr_max_pool *loops = r->kernel->user;
    const mr_tensor *image = mr_in(r, 0);
    mr_status *st = NULL;
    mr_wide x = {0}, top = {0}, g = {0}, y = {0};
    mr_conv c;
    MR_GO(mr_pool_resolve_input(r, 0, "tensor_in", &c));
    MR_GO(mr_pool_check_out(r, 1, "orig_output", &c));
    MR_GO(mr_pool_check_out(r, 2, "grad", &c));
    if (mr_on_accel(r))
        return mr_pool_run_accel(r, "max_pool_grad", &c, image->rank, image->dims, image, mr_in(r, 2));
    MR_GO(mr_pool_out(r, image->rank, image->dims, &y));
    if (y.t->n == 0)
        goto out;
    MR_GO(mr_pool_in(r, 0, &c, c.in, &x));
    MR_GO(mr_pool_in(r, 2, &c, c.out, &g));
    mr_pool_job j = {.c = &c, .image = x.t->data, .out_image = g.t->data, .result = y.t->data,
                     .fn = loops->grad};
    if (image->rank == 5) { /* only the 3-D gradient reads the values of orig_output */
        MR_GO(mr_pool_in(r, 1, &c, c.out, &top));
        j.more = top.t->data;
        j.fn = loops->grad_near;
    }
    mr_pool_run(r, &j, 3 * PIXEL_NS);
    MR_GO(mr_pool_store(r, &c, c.in, &y));
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&top);
    mr_wide_deinit(&g);
    mr_wide_deinit(&y);
    return st;
}

mr_status *mr_max_pool_grad_grad_kernel(mr_run *r)
{
    const mr_window *w = r->state;
    const mr_max_pool *loops = r->kernel->user;
    mr_status *st = NULL;
    mr_wide x = {0}, top = {0}, g = {0}, y = {0};
    mr_conv c;
    int64_t dims[MR_SPACE + 2];
    MR_GO(mr_pool_resolve_input(r, 0, "tensor_in", &c));
    MR_GO(mr_pool_check_out(r, 1, "orig_output", &c));
    if (!mr_tensor_same_shape(mr_in(r, 2), mr_in(r, 0)))
        MR_GO(mr_invalid("Expected grad shape to be %s, but got %s", MR_TENSOR_SHAPE(mr_in(r, 0)),
                         MR_TENSOR_SHAPE(mr_in(r, 2))));
    mr_conv_out_dims(w, &c, dims);
    MR_GO(mr_pool_out(r, mr_window_rank(w), dims, &y));
    if (y.t->n == 0)
        goto out;
    MR_GO(mr_pool_in(r, 0, &c, c.in, &x));
    MR_GO(mr_pool_in(r, 1, &c, c.out, &top));
    MR_GO(mr_pool_in(r, 2, &c, c.in, &g));
    mr_pool_job j = {.c = &c, .image = x.t->data, .out_image = top.t->data, .more = g.t->data, .result = y.t->data,
                     .fn = loops->grad_grad};
    mr_pool_run(r, &j, 6 * PIXEL_NS);
    MR_GO(mr_pool_store(r, &c, c.out, &y));
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&top);
    mr_wide_deinit(&g);
    mr_wide_deinit(&y);
    return st;
}

/* ---- pooling along channels ---- */

/* Windows along channels divide the channels evenly and do not overlap: each window is a run of `depth`
 * neighbouring elements. */
#define DEPTH_ROW(E, name, number, S, C, ...)                                     \
    static void depth_##name(const void *from, void *to, int64_t n, int64_t depth) \
    {                                                                             \
        const S *x = from;                                                        \
        S *y = to;                                                                \
        for (int64_t i = 0; i < n; i++, x += depth) {                             \
            y[i] = x[0];                                                          \
            for (int64_t k = 1; k < depth; k++)                                   \
                y[i] = x[k] > y[i] ? x[k] : y[i];                                 \
        }                                                                         \
    }
MR_FLOATS32(DEPTH_ROW, )
MR_INTS(DEPTH_ROW, )

static void depth_any(mr_dtype type, const void *from, void *to, int64_t n, int64_t depth)
{
    switch (type) {
#define DEPTH_CASE(E, name, number, S, C, ...) \
    case MR_##E: depth_##name(from, to, n, depth); break;
        MR_FLOATS32(DEPTH_CASE, )
        MR_INTS(DEPTH_CASE, )
        MR_CODE_QINT8(DEPTH_CASE, )
    default: break;
    }
}

static mr_status *check_depth(const mr_window *w, int64_t channels)
{
    for (int i = 0; i < w->n; i++)
        if (w->size[i] != 1 || w->stride[i] != 1)
            return mr_error(MR_UNIMPLEMENTED, "MaxPooling supports exactly one of pooling across "
                            "depth or pooling across width/height.");
    if (channels % w->depth != 0)
        return mr_error(MR_UNIMPLEMENTED,
                        "Depthwise max pooling requires the depth window to evenly "
                        "divide the input depth.");
    if (w->depth != w->depth_stride)
        return mr_error(MR_UNIMPLEMENTED,
                        "Depthwise max pooling requires the depth window to equal "
                        "the depth stride.");
    if (w->layout != MR_CHANNELS_LAST)
        return mr_error(MR_UNIMPLEMENTED, "Depthwise max pooling is implemented for NHWC only.");
    return NULL;
}

static mr_status *pool_depth(mr_run *r)
{
    const mr_window *w = r->state;
    mr_status *st = NULL;
    mr_wide x = {0}, y = {0};
    mr_conv c;
    MR_GO(mr_pool_resolve_input(r, 0, "tensor_in", &c));
    MR_GO(check_depth(w, c.in_channels));
    const mr_tensor *in = mr_in(r, 0);
    const int64_t dims[4] = {in->dims[0], in->dims[1], in->dims[2], in->dims[3] / w->depth};
    MR_GO(mr_wide_in(r, 0, &x));
    MR_GO(mr_wide_out(r, -1, 0, 4, dims, &y));
    depth_any((mr_dtype)x.t->dtype, x.t->data, y.t->data, y.t->n, w->depth);
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&x);
    mr_wide_deinit(&y);
    return st;
}

/* Runs the pool as a reduction of the last axis of [.., depth]. */
static mr_status *pool_depth_accel(mr_run *r)
{
    const mr_window *w = r->state;
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *rows, *y;
    mr_conv c;
    MR_TRY(mr_pool_resolve_input(r, 0, "tensor_in", &c));
    MR_TRY(check_depth(w, c.in_channels));
    const int64_t dims[4] = {x->dims[0], x->dims[1], x->dims[2], x->dims[3] / w->depth};
    MR_TRY(mr_run_output(r, 0, 4, dims, &y));
    if (y->n == 0)
        return NULL;
    MR_TRY(mr_tensor_view(x, MR_FLOAT, 2, (int64_t[]){y->n, w->depth}, &rows));
    mr_status *st = mr_reduce_accel(r, "max", rows, (bool[]){false, true}, 1, y);
    mr_tensor_unref(rows);
    return st;
}

/* ---- ops ---- */

static bool along_depth(const mr_window *w) { return w->depth != 1 || w->depth_stride != 1; }

mr_status *mr_max_pool_2d(mr_run *r)
{
    if (along_depth(r->state))
        return mr_on_accel(r) ? pool_depth_accel(r) : pool_depth(r);
    return mr_max_pool_kernel(r);
}

static mr_status *init_grad(mr_make *m, void *state)
{
    MR_TRY(mr_pool2d_init(m, state));
    if (along_depth(state))
        return mr_error(MR_UNIMPLEMENTED,
                        "MaxPoolingGrad is not yet supported on the depth dimension.");
    return NULL;
}

static mr_status *infer_max_pool(mr_infer *c) { return mr_pool_infer(c, 2); }

static mr_status *infer_grad(mr_infer *c) { return mr_infer_rank(c, c->in[0], 4, &c->out[0]); }

#define GRAD_ATTRS "ksize strides padding data_format"

static void max_pool_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit_like(g, "MaxPoolGrad", GRAD_ATTRS " explicit_paddings",
                              MR_OUTS(mr_xi(g, 0), mr_yi(g, 0), mr_dyi(g, 0))));
}

/* The op is linear in the gradient; the image only determines where the gradient goes. */
static void grad_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_zeros_like(g, mr_xi(g, 0)));
    mr_dxi(g, 1, mr_zeros_like(g, mr_xi(g, 1)));
    mr_dxi(g, 2, mr_emit_like(g, "MaxPoolGradGrad", GRAD_ATTRS,
                              MR_OUTS(mr_xi(g, 0), mr_xi(g, 1), mr_dyi(g, 0))));
}

static void grad_grad_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_zeros_like(g, mr_xi(g, 0)));
    mr_dxi(g, 1, mr_zeros_like(g, mr_xi(g, 1)));
    mr_dxi(g, 2, mr_emit_like(g, "MaxPoolGrad", GRAD_ATTRS,
                              MR_OUTS(mr_xi(g, 0), mr_xi(g, 1), mr_dyi(g, 0))));
}

#define FORWARD_TYPES(M, ...)                                                        \
    MR_FLOATS(M, __VA_ARGS__) MR_SIGNED(M, __VA_ARGS__) MR_TYPE_UINT8(M, __VA_ARGS__) \
    MR_TYPE_UINT16(M, __VA_ARGS__)

MR_OP(MaxPool,
    .doc         = "the largest value in each window",
    .sig         = "input: T -> output: T",
    .attrs       = "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, "
                   "qint8} = DT_FLOAT; ksize: list(int) >= 4; strides: list(int) >= 4; padding: "
                   "{'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; "
                   "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
    .shape       = infer_max_pool,
    .grad        = max_pool_backward,
    .kernels     = MR_KERNELS(MR_CPU_MAX_POOL(mr_max_pool_2d, FORWARD_TYPES)
                              MR_CPU_MAX_POOL(mr_max_pool_2d, MR_CODE_QINT8) MR_GPU(mr_max_pool_2d, FLOAT)),
    .state_bytes = sizeof(mr_window),
    .init        = mr_pool2d_init,
    .examples    = MR_EXAMPLES(
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": [[[[3], [13], [7], [2]], "
        "[[6], [10], [4], [1]], [[14], [0], [15], [9]], [[8], [12], [11], [5]]]] -> [[[[13], "
        "[7]], [[14], [15]]]]",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"SAME\": [[[[15, 22], [17, 20], [34, "
        "16]], [[29, 21], [2, 24], [11, 19]], [[30, 14], [35, 27], [0, 3]]], [[[10, 6], [12, 31], "
        "[4, 32]], [[25, 33], [13, 7], [28, 26]], [[9, 18], [8, 23], [1, 5]]]] -> [[[[29, 24], "
        "[34, 19]], [[35, 27], [0, 3]]], [[[25, 33], [28, 32]], [[9, 23], [1, 5]]]]",
        "ksize=[1, 3, 3, 1] strides=[1, 2, 1, 1] padding=\"SAME\": [[[[2], [5], [17], [19]], "
        "[[12], [1], [11], [10]], [[13], [18], [7], [4]], [[8], [9], [0], [16]], [[6], [15], "
        "[14], [3]]]] -> [[[[12], [17], [19], [19]], [[18], [18], [18], [16]], [[15], [15], [16], "
        "[16]]]]",
        "ksize=[1, 1, 2, 3] strides=[1, 1, 1, 1] padding=\"VALID\" data_format=\"NCHW\": [[[[21, "
        "5, 8, 17], [4, 18, 1, 14], [19, 13, 20, 9]], [[7, 6, 2, 16], [12, 11, 22, 0], [15, 23, "
        "3, 10]]]] -> [[[[21, 18], [20, 20]], [[22, 22], [23, 23]]]]",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"EXPLICIT\" explicit_paddings=[0, 0, 1, "
        "0, 0, 1, 0, 0]: [[[[2], [7], [0]], [[8], [5], [3]], [[6], [1], [4]]]] -> [[[[7], [0]], "
        "[[8], [4]]]]",
        "T=float ksize=[1, 1, 2, 1] strides=[1, 1, 2, 1] padding=\"SAME\": [[[[-3], [-1], [-2]]]] "
        "-> [[[[-1], [-2]]]]",
        "T=float nograd ksize=[1, 2, 2, 1] strides=[1, 1, 1, 1] padding=\"VALID\": [[[[1], [2], [3]], [[4], [5], [6]], "
        "[[7], [nan], [9]]]] -> [[[[5], [6]], [[7], [9]]]]",
        "T=float nograd ksize=[1, 1, 2, 1] strides=[1, 1, 2, 1] padding=\"VALID\": [[[[nan], [2], [nan], [nan], [-inf], "
        "[nan], [2], [nan]]]] -> [[[[2], [-3.4028234e38], [-3.4028234e38], [2]]]]",
        "T=half nograd ksize=[1, 1, 2, 1] strides=[1, 1, 2, 1] padding=\"VALID\": [[[[nan], [2], [nan], [nan]]]] -> "
        "[[[[2], [-65504]]]]",
        "nograd ksize=[1, 1, 1, 2] strides=[1, 1, 1, 2] padding=\"VALID\": [[[[1, 4, 3, 2]]]] -> "
        "[[[[4, 3]]]]",
        "T=float nograd ksize=[1, 3, 3, 1] strides=[1, 2, 2, 1] padding=\"SAME\": fill(-1, "
        "3,9,9,300) -> fill(-1, 3,5,5,300)",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": shape(0,4,4,1) -> "
        "shape(0,2,2,1)",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": shape(1,1,2,3) -> "
        "!INVALID_ARGUMENT Negative dimension size caused by subtracting 2 from 1",
        "unknown ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": shape(1,1,2,3) -> "
        "shape(1,0,1,3)",
        "ksize=[2, 1, 1, 1] strides=[1, 1, 1, 1] padding=\"VALID\": [[[[1]]]] -> !UNIMPLEMENTED "
        "Pooling is not yet supported on the batch dimension.",
        "ksize=[1, 2, 1, 2] strides=[1, 1, 1, 2] padding=\"SAME\": [[[[1, 2]]]] -> !UNIMPLEMENTED",
        "ksize=[1, 1, 1, 3] strides=[1, 1, 1, 3] padding=\"SAME\": [[[[1, 2]]]] -> !UNIMPLEMENTED",
        "ksize=[1, 0, 1, 1] strides=[1, 1, 1, 1] padding=\"SAME\": [[[[1, 2]]]] -> "
        "!INVALID_ARGUMENT",
        "ksize=[1, 1, 1, 1] strides=[1, 0, 1, 1] padding=\"SAME\": [[[[1, 2]]]] -> "
        "!INVALID_ARGUMENT",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\" data_format=\"NCHW_VECT_C\": "
        "[[[[1]]]] -> !UNIMPLEMENTED",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": [[[1]]] -> !INVALID_ARGUMENT"));

MR_OP(MaxPoolGrad,
    .doc         = "gradient of MaxPool: each window's gradient goes to the first of its largest values",
    .sig         = "orig_input: T, orig_output: T, grad: T -> output: T",
    .attrs       = "ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID', "
                   "'EXPLICIT'}; explicit_paddings: list(int) = []; data_format: {'NHWC', 'NCHW'} "
                   "= 'NHWC'; T: realnumbertype = DT_FLOAT",
    .shape       = infer_grad,
    .grad        = grad_backward,
    .kernels     = MR_KERNELS(MR_CPU_MAX_POOL(mr_max_pool_grad_kernel, MR_REALS) MR_GPU(mr_max_pool_grad_kernel, FLOAT)),
    .state_bytes = sizeof(mr_window),
    .init        = init_grad,
    .examples    = MR_EXAMPLES(
        "T=int64 ksize=[1, 1, 2, 1] strides=[1, 1, 1, 1] padding=\"VALID\": [[[[1], [5], [2]]]], "
        "[[[[5], [5]]]], [[[[9223372036854775807], [1]]]] -> [[[[0], [-9223372036854775808], "
        "[0]]]]",
        "nograd ksize=[1, 1, 2, 1] strides=[1, 1, 2, 1] padding=\"VALID\": [[[[3], [3], [1], "
        "[3]]]], [[[[3], [3]]]], [[[[1], [10]]]] -> [[[[1], [0], [0], [10]]]]",
        "T=float nograd ksize=[1, 1, 5, 1] strides=[1, 1, 5, 1] padding=\"VALID\": [[[[nan], [2], [1], [4], [nan], [3], "
        "[nan], [1], [nan], [7]]]], [[[[2], [1]]]], [[[[3], [5]]]] -> [[[[3], [0], [0], [0], [0], [0], [0], [0], [0], [5]]]]",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": [[[[3], [13], [7], [2]], "
        "[[6], [10], [4], [1]], [[14], [0], [15], [9]], [[8], [12], [11], [5]]]], [[[[13], [7]], "
        "[[14], [15]]]], [[[[8], [8]], [[6], [2]]]] -> [[[[0], [8], [8], [0]], [[0], [0], [0], "
        "[0]], [[6], [0], [2], [0]], [[0], [0], [0], [0]]]]",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"SAME\": [[[[15, 22], [17, 20], [34, "
        "16]], [[29, 21], [2, 24], [11, 19]], [[30, 14], [35, 27], [0, 3]]], [[[10, 6], [12, 31], "
        "[4, 32]], [[25, 33], [13, 7], [28, 26]], [[9, 18], [8, 23], [1, 5]]]], [[[[29, 24], [34, "
        "19]], [[35, 27], [0, 3]]], [[[25, 33], [28, 32]], [[9, 23], [1, 5]]]], [[[[3, 6], [6, "
        "0]], [[8, 4], [7, 0]]], [[[0, 7], [1, 5]], [[7, 0], [1, 4]]]] -> [[[[0, 0], [0, 0], [6, "
        "0]], [[3, 0], [0, 6], [0, 0]], [[0, 0], [8, 4], [7, 0]]], [[[0, 0], [0, 0], [0, 5]], "
        "[[0, 7], [0, 0], [1, 0]], [[7, 0], [0, 0], [1, 4]]]]",
        "ksize=[1, 3, 3, 1] strides=[1, 2, 1, 1] padding=\"SAME\": [[[[2], [5], [17], [19]], "
        "[[12], [1], [11], [10]], [[13], [18], [7], [4]], [[8], [9], [0], [16]], [[6], [15], "
        "[14], [3]]]], [[[[12], [17], [19], [19]], [[18], [18], [18], [16]], [[15], [15], [16], "
        "[16]]]], [[[[3], [4], [0], [1]], [[1], [4], [1], [8]], [[2], [4], [2], [5]]]] -> [[[[0], "
        "[0], [4], [1]], [[3], [0], [0], [0]], [[0], [6], [0], [0]], [[0], [0], [0], [15]], [[0], "
        "[6], [0], [0]]]]",
        "ksize=[1, 1, 2, 3] strides=[1, 1, 1, 1] padding=\"VALID\" data_format=\"NCHW\": [[[[21, "
        "5, 8, 17], [4, 18, 1, 14], [19, 13, 20, 9]], [[7, 6, 2, 16], [12, 11, 22, 0], [15, 23, "
        "3, 10]]]], [[[[21, 18], [20, 20]], [[22, 22], [23, 23]]]], [[[[4, 3], [7, 7]], [[6, 3], "
        "[7, 8]]]] -> [[[[4, 0, 0, 0], [0, 3, 0, 0], [0, 0, 14, 0]], [[0, 0, 0, 0], [0, 0, 9, 0], "
        "[0, 15, 0, 0]]]]",
        "nograd ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"EXPLICIT\" "
        "explicit_paddings=[0, 0, 1, 0, 0, 1, 0, 0]: [[[[2], [7], [0]], [[8], [5], [3]], [[6], "
        "[1], [4]]]], [[[[7], [0]], [[8], [4]]]], [[[[3], [4]], [[1], [5]]]] -> [[[[0], [3], "
        "[4]], [[1], [0], [0]], [[0], [0], [5]]]]",
        "nograd ksize=[1, 3, 3, 1] strides=[1, 1, 1, 1] padding=\"SAME\": [[[[0, 1], [1, 1], [2, "
        "0], [0, 0]], [[1, 1], [0, 1], [2, 0], [1, 1]], [[1, 1], [2, 2], [2, 2], [1, 0]], [[1, "
        "0], [1, 1], [2, 1], [2, 2]]]], [[[[1, 1], [2, 1], [2, 1], [2, 1]], [[2, 2], [2, 2], [2, "
        "2], [2, 2]], [[2, 2], [2, 2], [2, 2], [2, 2]], [[2, 2], [2, 2], [2, 2], [2, 2]]]], "
        "[[[[5, 6], [8, 6], [1, 6], [4, 8]], [[1, 8], [5, 1], [0, 8], [8, 8]], [[2, 6], [8, 1], "
        "[8, 3], [5, 3]], [[6, 7], [0, 8], [1, 8], [1, 6]]]] -> [[[[0, 12], [5, 6], [26, 0], [0, "
        "0]], [[0, 0], [0, 0], [21, 0], [0, 8]], [[0, 0], [10, 50], [1, 17], [0, 0]], [[0, 0], "
        "[0, 0], [0, 0], [0, 0]]]]",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": shape(0,4,4,1), "
        "shape(0,2,2,1), shape(0,2,2,1) -> shape(0,4,4,1)",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": [[[[1], [2]], [[3], [4]]]], "
        "[[[[4]]]], [[[[1], [1]]]] -> !INVALID_ARGUMENT",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": [[[[1], [2]], [[3], [4]]]], "
        "[[[[4], [4]]]], [[[[1]]]] -> !INVALID_ARGUMENT"));

MR_OP(MaxPoolGradGrad,
    .doc         = "gradient of MaxPoolGrad: the values of grad at the first largest value of each window",
    .sig         = "orig_input: T, orig_output: T, grad: T -> output: T",
    .attrs       = "ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID'}; "
                   "data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: realnumbertype",
    .shape       = infer_max_pool,
    .grad        = grad_grad_backward,
    .kernels     = MR_KERNELS(MR_CPU_MAX_POOL(mr_max_pool_grad_grad_kernel, MR_REALS)),
    .state_bytes = sizeof(mr_window),
    .init        = init_grad,
    .examples    = MR_EXAMPLES(
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": [[[[3], [13], [7], [2]], "
        "[[6], [10], [4], [1]], [[14], [0], [15], [9]], [[8], [12], [11], [5]]]], [[[[13], [7]], "
        "[[14], [15]]]], [[[[8], [8], [6], [2]], [[8], [7], [2], [1]], [[5], [4], [4], [5]], "
        "[[7], [3], [6], [4]]]] -> [[[[8], [6]], [[5], [4]]]]",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"SAME\": [[[[15, 22], [17, 20], [34, "
        "16]], [[29, 21], [2, 24], [11, 19]], [[30, 14], [35, 27], [0, 3]]], [[[10, 6], [12, 31], "
        "[4, 32]], [[25, 33], [13, 7], [28, 26]], [[9, 18], [8, 23], [1, 5]]]], [[[[29, 24], [34, "
        "19]], [[35, 27], [0, 3]]], [[[25, 33], [28, 32]], [[9, 23], [1, 5]]]], [[[[3, 6], [6, "
        "0], [8, 4]], [[7, 0], [0, 7], [1, 5]], [[7, 0], [1, 4], [6, 2]]], [[[1, 2], [7, 0], [5, "
        "0]], [[0, 4], [4, 3], [2, 4]], [[6, 3], [3, 2], [1, 5]]]] -> [[[[7, 7], [8, 5]], [[1, "
        "4], [6, 2]]], [[[0, 4], [2, 0]], [[6, 2], [1, 5]]]]",
        "ksize=[1, 3, 3, 1] strides=[1, 2, 1, 1] padding=\"SAME\": [[[[2], [5], [17], [19]], "
        "[[12], [1], [11], [10]], [[13], [18], [7], [4]], [[8], [9], [0], [16]], [[6], [15], "
        "[14], [3]]]], [[[[12], [17], [19], [19]], [[18], [18], [18], [16]], [[15], [15], [16], "
        "[16]]]], [[[[3], [4], [0], [1]], [[1], [4], [1], [8]], [[2], [4], [2], [5]], [[6], [2], "
        "[5], [5]], [[1], [4], [5], [0]]]] -> [[[[1], [0], [1], [1]], [[4], [4], [4], [5]], [[4], "
        "[4], [5], [5]]]]",
        "ksize=[1, 1, 2, 3] strides=[1, 1, 1, 1] padding=\"VALID\" data_format=\"NCHW\": [[[[21, "
        "5, 8, 17], [4, 18, 1, 14], [19, 13, 20, 9]], [[7, 6, 2, 16], [12, 11, 22, 0], [15, 23, "
        "3, 10]]]], [[[[21, 18], [20, 20]], [[22, 22], [23, 23]]]], [[[[4, 3, 7, 7], [8, 6, 0, "
        "0], [6, 5, 8, 5]], [[6, 3, 7, 8], [7, 4, 7, 7], [3, 8, 7, 0]]]] -> [[[[4, 6], [8, 8]], "
        "[[7, 7], [8, 8]]]]",
        "nograd ksize=[1, 3, 3, 1] strides=[1, 1, 1, 1] padding=\"SAME\": [[[[0, 1], [1, 1], [2, "
        "0], [0, 0]], [[1, 1], [0, 1], [2, 0], [1, 1]], [[1, 1], [2, 2], [2, 2], [1, 0]], [[1, "
        "0], [1, 1], [2, 1], [2, 2]]]], [[[[1, 1], [2, 1], [2, 1], [2, 1]], [[2, 2], [2, 2], [2, "
        "2], [2, 2]], [[2, 2], [2, 2], [2, 2], [2, 2]], [[2, 2], [2, 2], [2, 2], [2, 2]]]], "
        "[[[[5, 6], [8, 6], [1, 6], [4, 8]], [[1, 8], [5, 1], [0, 8], [8, 8]], [[2, 6], [8, 1], "
        "[8, 3], [5, 3]], [[6, 7], [0, 8], [1, 8], [1, 6]]]] -> [[[[8, 6], [1, 6], [1, 6], [1, "
        "8]], [[8, 1], [1, 1], [1, 1], [1, 3]], [[8, 1], [0, 1], [0, 1], [0, 3]], [[8, 1], [8, "
        "1], [8, 1], [8, 3]]]]",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": shape(0,4,4,1), "
        "shape(0,2,2,1), shape(0,4,4,1) -> shape(0,2,2,1)",
        "ksize=[1, 2, 2, 1] strides=[1, 2, 2, 1] padding=\"VALID\": [[[[1], [2]], [[3], [4]]]], "
        "[[[[4]]]], [[[[1]]]] -> !INVALID_ARGUMENT"));
