/* ops/nn/max_pool_v2.c -- MaxPoolV2 and its gradients: MaxPool with its window and strides as
 * inputs.
 *
 * The window is known only when the kernel runs, so each run builds an mr_window and passes it to the
 * kernels of MaxPool as their state. */
#include "ops/maths.h"
#include "ops/nn/max_pool.h"

/* Reads ksize and strides from inputs `at` and at + 1. */
static mr_status *read_window(const mr_run *r, int at, mr_window *w)
{
    int64_t v[2][4];
    static const char *const names[] = {"ksize", "strides"};
    for (int i = 0; i < 2; i++) {
        const mr_tensor *t = mr_in(r, at + i);
        if (t->rank != 1 || t->n != 4)
            return mr_invalid("Sliding window %s field must specify 4 dimensions, but got shape %s",
                              names[i], MR_TENSOR_SHAPE(t));
        for (int k = 0; k < 4; k++)
            v[i][k] = mr_tensor_int_at(t, k);
    }
    return mr_window_set_pool(w, v[0], v[1]);
}

static mr_status *run_with(mr_run *r, int at, bool depth, mr_status *(*kernel)(mr_run *))
{
    mr_window w = *(const mr_window *)r->state;
    mr_run own = *r; /* shares the inputs and outputs of r */
    MR_TRY(read_window(r, at, &w));
    if (!depth && (w.depth != 1 || w.depth_stride != 1))
        return mr_error(MR_UNIMPLEMENTED,
                        "MaxPoolingGrad is not yet supported on the depth dimension.");
    own.state = &w;
    return kernel(&own);
}

static mr_status *max_pool_v2_forward(mr_run *r) { return run_with(r, 1, true, mr_max_pool_2d); }
static mr_status *max_pool_v2_grad(mr_run *r) { return run_with(r, 3, false, mr_max_pool_grad_kernel); }
static mr_status *grad_grad(mr_run *r)
{
    return run_with(r, 3, false, mr_max_pool_grad_grad_kernel);
}

/* ---- shapes ---- */

static bool read_constant(mr_infer *c, int i, int64_t *out)
{
    const mr_tensor *t = mr_infer_const(c, i);
    if (!t || t->rank != 1 || t->n != 4)
        return false;
    for (int k = 0; k < 4; k++)
        out[k] = mr_tensor_int_at(t, k);
    return true;
}

static mr_status *infer_max_pool_v2(mr_infer *c)
{
    mr_window w;
    const mr_pshape *x, *ignored;
    int64_t size[4], stride[4];
    MR_TRY(mr_window_init(c->node, 2, &w));
    MR_TRY(mr_infer_rank(c, c->in[0], 4, &x));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[2], 1, &ignored));
    mr_pshape *y = mr_pshape_new(c->arena, 4);
    c->out[0] = y;
    y->dims[0] = mr_infer_dim(x, 0);
    if (!read_constant(c, 1, size) || !read_constant(c, 2, stride) || x->rank < 0)
        return NULL;
    MR_TRY(mr_window_set_pool(&w, size, stride));
    int channel = mr_layout_channel(w.layout, 4);
    y->dims[channel] = x->dims[channel] < 0 ? -1 : x->dims[channel] / w.depth;
    for (int i = 0; i < 2; i++) {
        int at = mr_layout_spatial(w.layout, i);
        MR_TRY(mr_window_infer(&w, i, x->dims[at], w.size[i], &y->dims[at]));
    }
    return NULL;
}

static mr_status *infer_grad(mr_infer *c) { return mr_infer_rank(c, c->in[0], 4, &c->out[0]); }
static mr_status *infer_grad_grad(mr_infer *c) { return mr_infer_rank(c, c->in[1], 4, &c->out[0]); }

/* ---- gradients ---- */

#define GRAD_ATTRS "padding data_format"

static void max_pool_v2_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit_like(g, "MaxPoolGradV2", GRAD_ATTRS,
                              MR_OUTS(mr_xi(g, 0), mr_yi(g, 0), mr_dyi(g, 0), mr_xi(g, 1),
                                      mr_xi(g, 2))));
}

/* The op is linear in the gradient; the image only determines where the gradient goes. */
static void pool_grad_backward(mr_grad *g, const char *op)
{
    mr_dxi(g, 0, mr_zeros_like(g, mr_xi(g, 0)));
    mr_dxi(g, 1, mr_zeros_like(g, mr_xi(g, 1)));
    mr_dxi(g, 2, mr_emit_like(g, op, GRAD_ATTRS,
                              MR_OUTS(mr_xi(g, 0), mr_xi(g, 1), mr_dyi(g, 0), mr_xi(g, 3),
                                      mr_xi(g, 4))));
}

static void grad_backward(mr_grad *g) { pool_grad_backward(g, "MaxPoolGradGradV2"); }
static void grad_grad_backward(mr_grad *g) { pool_grad_backward(g, "MaxPoolGradV2"); }

#define FORWARD_TYPES(M, ...)                                                        \
    MR_FLOATS(M, __VA_ARGS__) MR_SIGNED(M, __VA_ARGS__) MR_TYPE_UINT8(M, __VA_ARGS__) \
    MR_TYPE_UINT16(M, __VA_ARGS__)
#define STATE .state_bytes = sizeof(mr_window), .init = mr_pool2d_init
#define GRAD_SIG \
    .sig = "orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32 -> output: T"

MR_OP(MaxPoolV2,
    .doc      = "the largest value in each window",
    .sig      = "input: T, ksize: int32, strides: int32 -> output: T",
    .attrs    = "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, "
                "qint8} = DT_FLOAT; padding: {'SAME', 'VALID'}; "
                "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
    .shape    = infer_max_pool_v2,
    .grad     = max_pool_v2_backward,
    .kernels  = MR_KERNELS(MR_CPU_MAX_POOL(max_pool_v2_forward, FORWARD_TYPES)
                           MR_CPU_MAX_POOL(max_pool_v2_forward, MR_CODE_QINT8)),
    STATE,
    .examples = MR_EXAMPLES(
        "padding=\"VALID\": [[[[3], [13], [7], [2]]]], [1, 1, 2, 1], [1, 1, 2, 1] -> "
        "[[[[13], [7]]]]",
        "padding=\"SAME\": [[[[3], [13], [7]]]], [1, 1, 2, 1], [1, 1, 2, 1] -> [[[[13], [7]]]]",
        "padding=\"VALID\" data_format=\"NCHW\": [[[[3, 13, 7, 2]]]], [1, 1, 1, 2], [1, 1, 1, 2] "
        "-> [[[[13, 7]]]]",
        "nograd padding=\"VALID\": [[[[1, 4, 3, 2]]]], [1, 1, 1, 2], [1, 1, 1, 2] -> [[[[4, 3]]]]",
        "padding=\"VALID\": shape(0,1,2,1), [1, 1, 2, 1], [1, 1, 2, 1] -> shape(0,1,1,1)",
        "padding=\"VALID\": [[[[3]]]], [1, 0, 2, 1], [1, 1, 2, 1] -> !INVALID_ARGUMENT",
        "padding=\"VALID\": [[[[3]]]], [1, 2, 1], [1, 1, 2, 1] -> !INVALID_ARGUMENT",
        "padding=\"VALID\": [[[[3]]]], [2, 1, 1, 1], [1, 1, 2, 1] -> !UNIMPLEMENTED",
        "padding=\"VALID\" data_format=\"NCHW_VECT_C\": [[[[3]]]], [1, 1, 1, 1], [1, 1, 1, 1] -> "
        "!UNIMPLEMENTED"));

MR_OP(MaxPoolGradV2,
    .doc      = "gradient of MaxPoolV2: each window's gradient goes to the first of its largest values",
    GRAD_SIG,
    .attrs    = "padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'; "
                "T: realnumbertype = DT_FLOAT",
    .shape    = infer_grad,
    .grad     = grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_MAX_POOL(max_pool_v2_grad, MR_REALS)),
    STATE,
    .examples = MR_EXAMPLES(
        "nograd padding=\"VALID\": [[[[3], [3], [1], [4]]]], [[[[3], [4]]]], [[[[1], [10]]]], "
        "[1, 1, 2, 1], [1, 1, 2, 1] -> [[[[1], [0], [0], [10]]]]",
        "padding=\"VALID\": [[[[3], [5], [1], [4]]]], [[[[5], [4]]]], [[[[1], [10]]]], "
        "[1, 1, 2, 1], [1, 1, 2, 1] -> [[[[0], [1], [0], [10]]]]",
        "padding=\"VALID\": [[[[3], [5]]]], [[[[5]]]], [[[[1], [1]]]], [1, 1, 2, 1], [1, 1, 2, 1] "
        "-> !INVALID_ARGUMENT Expected grad shape",
        "padding=\"VALID\": [[[[3, 5]]]], [[[[5]]]], [[[[1]]]], [1, 1, 1, 2], [1, 1, 1, 2] -> "
        "!UNIMPLEMENTED"));

MR_OP(MaxPoolGradGradV2,
    .doc      = "gradient of MaxPoolGradV2 by its input grad",
    GRAD_SIG,
    .attrs    = "padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'; "
                "T: realnumbertype",
    .shape    = infer_grad_grad,
    .grad     = grad_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_MAX_POOL(grad_grad, MR_REALS)),
    STATE,
    .examples = MR_EXAMPLES(
        "padding=\"VALID\": [[[[3], [5], [1], [4]]]], [[[[5], [4]]]], [[[[1], [2], [7], [8]]]], "
        "[1, 1, 2, 1], [1, 1, 2, 1] -> [[[[2], [8]]]]",
        "padding=\"VALID\": [[[[3], [5]]]], [[[[5]]]], [[[[1]]]], [1, 1, 2, 1], [1, 1, 2, 1] -> "
        "!INVALID_ARGUMENT"));
