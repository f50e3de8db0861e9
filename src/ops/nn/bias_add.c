/* ops/nn/bias_add.c -- adds one number per channel; the gradient sums over each channel.
 *
 * The addition is a broadcast (ops/elementwise.c); the sum over all dimensions except the channels is
 * a reduction (ops/reduce.c). */
#include "ops/elementwise.h"
#include "ops/nn/layout.h"
#include "ops/reduce_accel.h"

/* ---- BiasAdd ---- */

MR_BINARY(bias_add, MR_FLOATS_COMPLEX, x + y)
MR_BINARY(bias_add, MR_INTS, (uint64_t)x + (uint64_t)y)

static mr_status *init_bias_add(mr_make *m, void *state) { return mr_layout_get(m->node, state); }

static mr_status *check_bias(const mr_tensor *x, const mr_tensor *bias, mr_layout layout)
{
    if (x->rank < 2)
        return mr_invalid("Input tensor must be at least 2D: %s", MR_TENSOR_SHAPE(x));
    if (bias->rank != 1)
        return mr_invalid("Biases must be 1D: %s", MR_TENSOR_SHAPE(bias));
    if (bias->dims[0] == x->dims[mr_layout_channel(layout, x->rank)])
        return NULL;
    return mr_invalid("Must provide as many biases as the %s of the input tensor: %s vs. %s",
                      layout == MR_CHANNELS_LAST ? "last dimension" : "channel dimension",
                      MR_TENSOR_SHAPE(bias), MR_TENSOR_SHAPE(x));
}

static mr_status *add_each(mr_run *r) { return mr_on_accel(r) ? mr_each_run_accel(r) : mr_each_run(r); }

/* Views the bias as [1, channels, 1, 1] for the call, so that broadcasting aligns it with the channels. */
static mr_status *add_channels_first(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *bias = mr_in(r, 1), *view;
    mr_shape s = {.rank = x->rank};
    for (int i = 0; i < s.rank; i++)
        s.dims[i] = i == 1 ? bias->dims[0] : 1;
    MR_TRY(mr_tensor_view(bias, (mr_dtype)bias->dtype, s.rank, s.dims, &view));
    r->in[1].t = view;
    mr_status *st = add_each(r);
    r->in[1].t = bias;
    mr_tensor_unref(view);
    return st;
}

static mr_status *bias_add(mr_run *r)
{
    mr_layout layout = *(const mr_layout *)r->state;
    MR_TRY(check_bias(mr_in(r, 0), mr_in(r, 1), layout));
    return layout == MR_CHANNELS_LAST ? add_each(r) : add_channels_first(r);
}

static mr_status *bias_add_v1(mr_run *r)
{
    MR_TRY(check_bias(mr_in(r, 0), mr_in(r, 1), MR_CHANNELS_LAST));
    return add_each(r);
}

static mr_status *infer_add(mr_infer *c, mr_layout layout)
{
    const mr_pshape *x, *bias;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 2, &x));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &bias));
    c->out[0] = x;
    if (x->rank < 0)
        return NULL;
    int at = mr_layout_channel(layout, x->rank);
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

/* ---- BiasAddGrad ---- */

static mr_status *bias_add_grad(mr_run *r)
{
    mr_layout layout = *(const mr_layout *)r->state;
    const mr_tensor *g = mr_in(r, 0);
    if (g->rank < 2)
        return mr_invalid("Input tensor must be at least 2D: %s", MR_TENSOR_SHAPE(g));
    int channel = mr_layout_channel(layout, g->rank);
    bool fold[MR_MAX_RANK];
    for (int i = 0; i < g->rank; i++)
        fold[i] = i != channel;
    mr_tensor *y;
    MR_TRY(mr_run_output(r, 0, 1, &g->dims[channel], &y));
    mr_dtype type = (mr_dtype)g->dtype;
    if (mr_on_accel(r))
        return mr_reduce_accel(r, "sum", g, fold, 1, y);
    return mr_reduce(r, mr_sum_reducer(type), type, g->data, g->rank, g->dims, fold, y->data);
}

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

/* Every element of a channel gets the channel's gradient: the same as adding it as a bias to zeros. */
static void bias_add_grad_backward(mr_grad *g)
{
    mr_out zeros = mr_zeros_like(g, mr_xi(g, 0));
    mr_dxi(g, 0, mr_emit_like(g, "BiasAdd", "data_format", MR_OUTS(zeros, mr_dyi(g, 0))));
}

MR_OP(BiasAdd,
    .doc         = "value + bias, one number per channel",
    .sig         = "value: T, bias: T -> output: T",
    .attrs       = "T: numbertype; data_format: {'NHWC', 'NCHW'} = 'NHWC'",
    .shape       = infer_bias_add,
    .grad        = bias_add_backward,
    .kernels     = MR_KERNELS(MR_CPU_EACH_FORM(bias_add, MR_NUMBERS, bias_add, MR_FORM_BIAS)
                              MR_CPU_EACH_FORM(bias_add, MR_CODES, bias_add, MR_FORM_BIAS) MR_GPU_EACH_BY(bias_add, bias_add)),
    .state_bytes = sizeof(mr_layout),
    .init        = init_bias_add,
    .examples    = MR_EXAMPLES(
        "[[1, 2], [3, 4]], [10, 20] -> [[11, 22], [13, 24]]",
        "data_format=\"NCHW\": [[[1, 2], [3, 4]]], [10, 20] -> [[[11, 12], [23, 24]]]",
        "data_format=\"NCHW\": [[[[1, 2]], [[3, 4]]]], [10, 20] -> [[[[11, 12]], [[23, 24]]]]",
        "data_format=\"NCHW\": [[1, 2]], [10, 20] -> [[11, 22]]",
        "T=int8: [[127]], [1] -> [[-128]]",
        "T=quint8: [[127]], [1] -> [[128]]",
        "[[1+1i]], [2-2i] -> [[3-1i]]",
        "shape(0,2), [1, 2] -> shape(0,2)",
        "[[1, 2]], [1, 2, 3] -> !INVALID_ARGUMENT",
        "[1, 2], [1, 2] -> !INVALID_ARGUMENT",
        "[[1, 2]], [[1, 2]] -> !INVALID_ARGUMENT"));

MR_OP(BiasAddV1,
    .doc      = "value + bias, one number per channel; channels are the last dimension",
    .sig      = "value: T, bias: T -> output: T",
    .attrs    = "T: numbertype",
    .shape    = infer_v1,
    .grad     = v1_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_FORM(bias_add, MR_NUMBERS, bias_add_v1, MR_FORM_BIAS)
                           MR_CPU_EACH_FORM(bias_add, MR_CODES, bias_add_v1, MR_FORM_BIAS) MR_GPU_EACH_BY(bias_add, bias_add_v1)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]], [10, 20] -> [[11, 22], [13, 24]]",
        "[[[1, 2]]], [1, 1] -> [[[2, 3]]]",
        "[[1+1i]], [2-2i] -> [[3-1i]]",
        "[[1, 2]], [1, 2, 3] -> !INVALID_ARGUMENT"));

MR_OP(BiasAddGrad,
    .doc         = "sum over all dimensions except the channels",
    .sig         = "out_backprop: T -> output: T",
    .attrs       = "T: numbertype; data_format: {'NHWC', 'NCHW'} = 'NHWC'",
    .shape       = infer_grad,
    .grad        = bias_add_grad_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(bias_add_grad, MR_NUMBERS)
                              MR_CPU_ONE(bias_add_grad, MR_CODES) MR_GPU(bias_add_grad, FLOAT)),
    .state_bytes = sizeof(mr_layout),
    .init        = init_bias_add,
    .examples    = MR_EXAMPLES(
        "[[1, 2], [3, 4]] -> [4, 6]",
        "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]] -> [16, 20]",
        "data_format=\"NCHW\": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]] -> [14, 22]",
        "data_format=\"NCHW\": [[1, 2], [3, 4]] -> [4, 6]",
        "T=float nograd: fill(0.5, 1000,3) -> [500, 500, 500]",
        "T=double nograd: fill(0.5, 129,700) -> fill(64.5, 700)",
        "T=int8: [[100], [100]] -> [-56]",
        "T=qint32: [[100], [-200]] -> [-100]",
        "[[1+1i], [2-2i]] -> [3-1i]",
        "shape(0,2) -> [0, 0]",
        "[1, 2] -> !INVALID_ARGUMENT"));
