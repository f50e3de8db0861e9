/* ops/nn/fused.c -- ops that TensorFlow's optimizer, or old programs, fuse from several: padding
 * before a convolution; bias, normalization and activation after one; chains of element-wise ops. */
#include "base/memory.h"
#include "ops/nn/fused_fast.h"
#include "ops/nn/layout.h"

/* ---- padding, convolution ---- */

#define CONV_ATTRS "strides padding explicit_paddings data_format dilations use_cudnn_on_gpu"

static void pad_conv(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    mr_out padded = mr_inside_emit(s, n, "MirrorPad", "mode", MR_OUTS(in[0], in[1]));
    out[0] = mr_inside_emit(s, n, "Conv2D", CONV_ATTRS, MR_OUTS(padded, in[2]));
}

/* ResizeBilinear always gives floats. */
static void resize_pad_conv(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    const mr_attr *align = mr_node_attr(n, "resize_align_corners");
    mr_out resized = mr_emit_with(s, "ResizeBilinear", MR_ATTRS({"align_corners", *align}), in[0],
                                  in[1]);
    resized = mr_emit_with(s, "Cast", MR_ATTRS({"DstT", mr_a_type(mr_out_type(in[0]))}), resized);
    if (mr_scope_ok(s))
        pad_conv(s, n, (mr_out[]){resized, in[2], in[3]}, out);
}

MR_INSIDE(pad_conv, pad_conv)
MR_INSIDE(resize_pad_conv, resize_pad_conv)

#define THREE(M, ...)                                             \
    MR_TYPE_HALF(M, __VA_ARGS__) MR_TYPE_FLOAT(M, __VA_ARGS__)    \
    MR_TYPE_DOUBLE(M, __VA_ARGS__)
#define PAD_ATTRS \
    "mode: {'REFLECT', 'SYMMETRIC'}; strides: list(int); padding: {'SAME', 'VALID'}"

MR_OP(FusedPadConv2D,
    .doc      = "MirrorPad and Conv2D in one op",
    .sig      = "input: T, paddings: int32, filter: T -> output: T",
    .attrs    = "T: {half, float, double}; " PAD_ATTRS,
    MR_INSIDE_OP(pad_conv),
    .kernels  = MR_KERNELS(MR_CPU_ONE(mr_inside_run, THREE)),
    .examples = MR_EXAMPLES(
        "mode=\"REFLECT\" strides=[1, 1, 1, 1] padding=\"VALID\": [[[[1], [2], [3]]]], "
        "[[0, 0], [0, 0], [1, 1], [0, 0]], [[[[1]], [[10]]]] -> [[[[12], [21], [32], [23]]]]",
        "mode=\"SYMMETRIC\" strides=[1, 1, 2, 1] padding=\"VALID\": [[[[1], [2], [3]]]], "
        "[[0, 0], [0, 0], [1, 0], [0, 0]], [[[[1]], [[10]]]] -> [[[[11], [32]]]]",
        "mode=\"REFLECT\" strides=[1, 1, 1, 1] padding=\"VALID\": [[[[1], [2]]]], "
        "[[0, 0], [0, 0], [2, 0], [0, 0]], [[[[1]]]] -> !INVALID_ARGUMENT",
        "mode=\"REFLECT\" strides=[1, 1, 1, 1] padding=\"VALID\": [[[1]]], "
        "[[0, 0], [0, 0], [0, 0], [0, 0]], [[[[1]]]] -> !INVALID_ARGUMENT"));

MR_OP(FusedResizeAndPadConv2D,
    .doc      = "ResizeBilinear, MirrorPad and Conv2D in one op",
    .sig      = "input: T, size: int32, paddings: int32, filter: T -> output: T",
    .attrs    = "T: {half, float, double}; resize_align_corners: bool = false; " PAD_ATTRS,
    MR_INSIDE_OP(resize_pad_conv),
    .kernels  = MR_KERNELS(MR_CPU_ONE(mr_inside_run, THREE)),
    .examples = MR_EXAMPLES(
        "mode=\"REFLECT\" strides=[1, 1, 1, 1] padding=\"VALID\": [[[[1], [3]]]], [1, 4], "
        "[[0, 0], [0, 0], [1, 0], [0, 0]], [[[[1]], [[10]]]] -> [[[[12], [21], [32], [33]]]]",
        "resize_align_corners=true mode=\"SYMMETRIC\" strides=[1, 1, 1, 1] padding=\"VALID\": "
        "[[[[1], [3]]]], [1, 3], [[0, 0], [0, 0], [0, 0], [0, 0]], [[[[2]]]] -> [[[[2], [4], "
        "[6]]]]",
        "mode=\"REFLECT\" strides=[1, 1, 1, 1] padding=\"VALID\": [[[[1], [3]]]], [1, 0], "
        "[[0, 0], [0, 0], [1, 0], [0, 0]], [[[[1]], [[10]]]] -> !INVALID_ARGUMENT"));

/* ---- bias, normalization, activation ---- */

static mr_out emit_activation(mr_scope *s, const mr_node *n, mr_sv name, mr_out x)
{
    static const char *const plain[] = {"Relu",      "Relu6",    "Elu",          "Tanh",  "Sigmoid",
                                        "_GeluTanh", "_GeluErf", "_GeluSigmoid", "_Swish"};
    const mr_attr *alpha = mr_node_attr(n, "leakyrelu_alpha");
    for (int i = 0; i < MR_COUNT(plain); i++)
        if (mr_sv_is(name, plain[i]))
            return mr_emit(s, plain[i], x);
    if (mr_sv_is(name, "LeakyRelu") && alpha)
        return mr_emit_with(s, "LeakyRelu", MR_ATTRS({"alpha", *alpha}), x);
    mr_scope_fail(s, mr_error(MR_UNIMPLEMENTED, "Fusion is not implemented: [%.*s]", (int)name.n,
                              name.p));
    return MR_NO_OUT;
}

/* Reshapes a vector of channels so that it broadcasts against images of `rank`. */
static mr_out by_channel(mr_scope *s, mr_out v, bool first, int rank)
{
    const int32_t dims[5] = {1, -1, 1, 1, 1};
    return first ? mr_emit(s, "Reshape", v, mr_const_vec_i32(s, rank, dims)) : v;
}

/* args: scale, offset, mean, variance */
static mr_out emit_normalization(mr_scope *s, const mr_node *n, mr_out x, const mr_out *args, bool first,
                                 int rank)
{
    float epsilon = 0;
    mr_scope_fail(s, mr_node_get_float(n, "epsilon", &epsilon));
    mr_dtype t = mr_dtype_base(mr_out_type(x));
    mr_out root = mr_emit(s, "AddV2", args[3], mr_const_num(s, t, epsilon));
    mr_out factor = mr_emit(s, "Mul", args[0], mr_emit(s, "Rsqrt", root));
    x = mr_emit(s, "Sub", x, by_channel(s, args[2], first, rank));
    x = mr_emit(s, "Mul", x, by_channel(s, factor, first, rank));
    return mr_emit(s, "AddV2", x, by_channel(s, args[1], first, rank));
}

static bool is_channels_first(mr_scope *s, const mr_node *n)
{
    mr_layout l = MR_CHANNELS_LAST;
    if (mr_node_attr(n, "data_format"))
        mr_scope_fail(s, mr_layout_get(n, &l));
    return l == MR_CHANNELS_FIRST;
}

/* Applies the ops that the attr fused_ops lists to x; their arguments start at input 2: the vectors of the first op, then
 * the addend if the second is Add. */
static mr_out emit_fused_ops(mr_scope *s, const mr_node *n, const mr_out *in, mr_out x, int rank)
{
    const mr_attr *ops = NULL;
    int n_args = n->n_in - 2;
    bool first = is_channels_first(s, n);
    mr_scope_fail(s, mr_node_get_list(n, "fused_ops", MR_ATTR_STRING, &ops));
    if (!mr_scope_ok(s))
        return MR_NO_OUT;
    bool add = ops->n > 1 && mr_sv_is(ops->ss[1], "Add");
    if (ops->n == 0 || ops->n > 2 + add)
        mr_scope_fail(s, ops->n == 0 ? mr_invalid("Fused %s must have at least one fused op.",
                                                  n->def->name + 1)
                                     : mr_error(MR_UNIMPLEMENTED, "Fusion of %d ops is not "
                                                "implemented", ops->n));
    bool bias = ops->n > 0 && mr_sv_is(ops->ss[0], "BiasAdd");
    bool norm = ops->n > 0 && mr_sv_is(ops->ss[0], "FusedBatchNorm");
    int vectors = bias ? 1 : 4;
    if ((bias || norm) && n_args != vectors + add)
        mr_scope_fail(s, mr_invalid("Fused %s with %s%s must have %d extra arguments, got %d",
                                    n->def->name + 1, bias ? "BiasAdd" : "FusedBatchNorm",
                                    add ? " and Add" : "", vectors + add, n_args));
    if (!bias && !norm && ops->n > 0)
        mr_scope_fail(s, mr_error(MR_UNIMPLEMENTED, "Fusion is not implemented: [%.*s]",
                                  (int)ops->ss[0].n, ops->ss[0].p));
    if (!mr_scope_ok(s))
        return MR_NO_OUT;
    if (bias && mr_node_attr(n, MR_FUSED_BROADCASTS)) /* passes/fuse_conv.c: it was an addition */
        x = mr_emit(s, "AddV2", x, in[2]);
    else if (bias)
        x = mr_emit_with(s, "BiasAdd", MR_ATTRS({"data_format", mr_a_str(first ? "NCHW" : "NHWC")}),
                         x, in[2]);
    else
        x = emit_normalization(s, n, x, in + 2, first, rank);
    if (add && mr_scope_ok(s))
        x = mr_emit(s, "AddV2", x, in[2 + vectors]);
    return ops->n == 2 + add && mr_scope_ok(s) ? emit_activation(s, n, ops->ss[1 + add], x) : x;
}

static void fused_conv2d(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    out[0] = emit_fused_ops(s, n, in, mr_inside_emit(s, n, "Conv2D", CONV_ATTRS, in, 2), 4);
}

static void fused_conv3d(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    const mr_attr *pads = NULL;
    mr_scope_fail(s, mr_node_get_list(n, "padding_list", MR_ATTR_INT, &pads));
    if (pads && pads->n > 0)
        mr_scope_fail(s, mr_error(MR_UNIMPLEMENTED, "padding_list is not implemented"));
    out[0] = emit_fused_ops(s, n, in, mr_inside_emit(s, n, "Conv3D", CONV_ATTRS, in, 2), 5);
}

static void fused_depthwise(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    const mr_attr *paddings = mr_node_attr(n, MR_FUSED_PADDINGS);
    mr_out y = mr_inside_emit(s, n, "DepthwiseConv2dNative", "strides padding data_format dilations", in, 2);
    if (paddings && mr_scope_ok(s)) {
        mr_node_set_attr(y.node, "padding", mr_a_str("EXPLICIT"));
        mr_node_set_attr(y.node, "explicit_paddings", *paddings);
        mr_scope_fail(s, mr_node_infer(y.node));
    }
    out[0] = emit_fused_ops(s, n, in, y, 4);
}

static void fused_matmul(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    out[0] = emit_fused_ops(s, n, in, mr_inside_emit(s, n, "MatMul", "transpose_a transpose_b", in, 2), 2);
}

MR_INSIDE(fused_conv3d, fused_conv3d)

/* As MR_INSIDE and MR_INSIDE_OP, with the fast kernels for floats. */
#define FAST(name, init_state)                                                                   \
    static mr_status *name##_init(mr_make *m, void *s) { return init_state(m, s, name); }        \
    static mr_status *name##_shape(mr_infer *c) { return mr_inside_infer(c, name); }
#define FAST_OP(name)                                                                            \
    .shape = name##_shape, .state_bytes = sizeof(mr_fused_state), .init = name##_init,           \
    .deinit = mr_fused_deinit

FAST(fused_conv2d, mr_fused_conv_init)
FAST(fused_depthwise, mr_fused_conv_init)
FAST(fused_matmul, mr_fused_matmul_init)

#define WIDE(M, ...) MR_FLOATS32(M, __VA_ARGS__)
#define TWO(M, ...) MR_TYPE_BFLOAT16(M, __VA_ARGS__) MR_TYPE_FLOAT(M, __VA_ARGS__)
#define FUSED "fused_ops: list(string) = []; epsilon: float = 0.0001; leakyrelu_alpha: float = 0.2"
#define ONE "strides=[1, 1, 1, 1] padding=\"VALID\" "

MR_OP(_FusedConv2D,
    .doc      = "Conv2D, then the ops that fused_ops lists",
    .sig      = "input: T, filter: T, args: num_args * T -> output: T",
    .attrs    = "T: {float, double}; num_args: int >= 0; strides: list(int); padding: {'SAME', "
                "'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; data_format: {'NHWC', "
                "'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]; "
                "use_cudnn_on_gpu: bool = true; " FUSED,
    FAST_OP(fused_conv2d),
    .kernels  = MR_KERNELS(MR_CPU_ONE(mr_fused_conv2d_run, WIDE)),
    .examples = MR_EXAMPLES(
        ONE "fused_ops=[\"BiasAdd\"]: [[[[1], [2]]]], [[[[3, -1]]]], ([10, 1]) -> "
        "[[[[13, 0], [16, -1]]]]",
        ONE "fused_ops=[\"BiasAdd\", \"Relu\"]: [[[[1], [2]]]], [[[[3, -1]]]], ([-5, 1]) -> "
        "[[[[0, 0], [1, 0]]]]",
        ONE "fused_ops=[\"BiasAdd\", \"Relu6\"] data_format=\"NCHW\": [[[[1, 2]]]], [[[[3, -1]]]], "
        "([1, 1]) -> [[[[4, 6]], [[0, 0]]]]",
        ONE "fused_ops=[\"BiasAdd\", \"LeakyRelu\"] leakyrelu_alpha=0.5: [[[[1], [2]]]], "
        "[[[[-2]]]], ([3]) -> [[[[1], [-0.5]]]]",
        ONE "fused_ops=[\"BiasAdd\", \"Elu\"]: [[[[1]]]], [[[[-1]]]], ([0]) -> [[[[-0.6321206]]]]",
        ONE "fused_ops=[\"FusedBatchNorm\", \"Relu\"] epsilon=0: [[[[1], [2]]]], [[[[3]]]], "
        "([2], [1], [4], [4]) -> [[[[0], [3]]]]",
        ONE "fused_ops=[\"FusedBatchNorm\"] epsilon=0 data_format=\"NCHW\": [[[[1, 2]]]], "
        "[[[[3, 1]]]], ([2, 2], [1, 0], [4, 1], [4, 1]) -> [[[[0, 3]], [[0, 2]]]]",
        ONE "fused_ops=[\"BiasAdd\", \"Add\", \"Relu\"]: [[[[1], [2]]]], [[[[3, -1]]]], ([-5, 1], [[[[1, 2], [3, "
        "-1]]]]) -> [[[[0, 2], [4, 0]]]]",
        ONE "fused_ops=[\"BiasAdd\", \"Add\"]: [[[[1], [2]]]], [[[[3, -1]]]], ([0, 0], [10, 20]) -> [[[[13, 19], [16, "
        "18]]]]",
        "T=float strides=[1, 1, 1, 1] padding=\"SAME\" fused_ops=[\"BiasAdd\", \"Relu6\"]: [[[[nan], [2], [3], [-inf]]]], "
        "fill(1, 1,1,1,40), (fill(-1, 40)) -> [[[[nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, "
        "nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, "
        "nan, nan, nan, nan], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
        "1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, "
        "2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "
        "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]]]",
        ONE "fused_ops=[\"BiasAdd\", \"Relu\"]: shape(0,1,1,2), fill(1, 1,1,2,20), (fill(1, 20)) -> shape(0,1,1,20)",
        ONE "fused_ops=[\"BiasAdd\"]: [[[[1]]]], [[[[3]]]], ([1, 2]) -> !INVALID_ARGUMENT",
        ONE "fused_ops=[]: [[[[1]]]], [[[[3]]]], ([1]) -> !INVALID_ARGUMENT",
        ONE "fused_ops=[\"BiasAdd\"]: [[[[1]]]], [[[[3]]]], ([1], [2]) -> !INVALID_ARGUMENT",
        ONE "fused_ops=[\"Cos\"]: [[[[1]]]], [[[[3]]]], ([1]) -> !UNIMPLEMENTED Fusion is not",
        ONE "fused_ops=[\"BiasAdd\", \"Cos\"]: [[[[1]]]], [[[[3]]]], ([1]) -> !UNIMPLEMENTED"));

MR_OP(_FusedConv3D,
    .doc      = "Conv3D, then the ops that fused_ops lists",
    .sig      = "input: T, filter: T, args: num_args * T -> output: T",
    .attrs    = "T: {bfloat16, float}; num_args: int >= 0; strides: list(int) >= 5; padding: "
                "{'SAME', 'VALID'}; data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'; "
                "dilations: list(int) = [1, 1, 1, 1, 1]; padding_list: list(int) = []; " FUSED,
    MR_INSIDE_OP(fused_conv3d),
    .kernels  = MR_KERNELS(MR_CPU_ONE(mr_inside_run, TWO)),
    .examples = MR_EXAMPLES(
        "strides=[1, 1, 1, 1, 1] padding=\"VALID\" fused_ops=[\"BiasAdd\", \"Relu\"]: "
        "[[[[[1], [2]]]]], [[[[[3, -1]]]]], ([-5, 1]) -> [[[[[0, 0], [1, 0]]]]]",
        "strides=[1, 1, 1, 1, 1] padding=\"VALID\" fused_ops=[\"BiasAdd\"] data_format=\"NCDHW\": "
        "[[[[[1, 2]]]]], [[[[[3, -1]]]]], ([-5, 1]) -> [[[[[-2, 1]]], [[[0, -1]]]]]",
        "strides=[1, 1, 1, 1, 1] padding=\"VALID\" fused_ops=[\"BiasAdd\"] padding_list=[1]: "
        "[[[[[1, 2]]]]], [[[[[3]]]]], ([-5, 1]) -> !UNIMPLEMENTED"));

MR_OP(_FusedDepthwiseConv2dNative,
    .doc      = "DepthwiseConv2dNative, then the ops that fused_ops lists",
    .sig      = "input: T, filter: T, args: num_args * T -> output: T",
    .attrs    = "T: {half, bfloat16, float, double}; num_args: int >= 0; strides: list(int); "
                "padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'; "
                "dilations: list(int) = [1, 1, 1, 1]; " FUSED,
    FAST_OP(fused_depthwise),
    .kernels  = MR_KERNELS(MR_CPU_ONE(mr_fused_depthwise_run, MR_FLOATS)),
    .examples = MR_EXAMPLES(
        ONE "fused_ops=[\"BiasAdd\", \"Relu\"]: [[[[1, 2], [3, 4]]]], [[[[3], [-1]]]], ([-5, 3]) "
        "-> [[[[0, 1], [4, 0]]]]",
        ONE "fused_ops=[\"BiasAdd\", \"Add\", \"Relu6\"]: [[[[1, 2], [3, 4]]]], [[[[3], [-1]]]], ([-5, 3], [[[[1, 2], "
        "[3, 4]]]]) -> [[[[0, 3], [6, 3]]]]",
        ONE "fused_ops=[\"Relu\"]: [[[[1, 2]]]], [[[[3], [-1]]]], ([-5, 3]) -> !UNIMPLEMENTED"));

MR_OP(_FusedMatMul,
    .doc      = "MatMul, then the ops that fused_ops lists",
    .sig      = "a: T, b: T, args: num_args * T -> product: T",
    .attrs    = "transpose_a: bool = false; transpose_b: bool = false; T: {bfloat16, float}; "
                "num_args: int >= 0; " FUSED,
    FAST_OP(fused_matmul),
    .kernels  = MR_KERNELS(MR_CPU_ONE(mr_fused_matmul_run, TWO)),
    .examples = MR_EXAMPLES(
        "fused_ops=[\"BiasAdd\", \"Relu\"]: [[1, 2], [3, 4]], [[1, 0], [0, -1]], ([1, 3]) -> "
        "[[2, 1], [4, 0]]",
        "fused_ops=[\"BiasAdd\"] transpose_b=true: [[1, 2]], [[1, 1], [0, -1]], ([1, 3]) -> [[4, "
        "1]]",
        "fused_ops=[\"BiasAdd\", \"Tanh\"]: [[0]], [[1]], ([0]) -> [[0]]",
        "fused_ops=[\"BiasAdd\", \"Elu\"]: [[1, 2], [3, 4], [5, 6], [0, 0]], [[1, 0], [0, -1]], ([1, 0]) -> "
        "[[2, -0.8646647], [4, -0.9816844], [6, -0.9975212], [1, 0]]",
        "fused_ops=[\"BiasAdd\", \"Add\", \"Relu\"]: [[1, 2], [3, 4]], [[1, 0], [0, -1]], ([1, 3], [[-3, 0], [0, 2]]) -> "
        "[[0, 1], [4, 1]]",
        "fused_ops=[\"BiasAdd\", \"Add\"]: [[1, 2], [3, 4]], [[1, 0], [0, -1]], ([1, 3], [10, 20]) -> "
        "[[12, 21], [14, 19]]",
        "T=float fused_ops=[\"BiasAdd\", \"Relu\"]: fill(0.5, 5,300), fill(2, 300,40), (fill(1, 40)) -> fill(301, 5,40)",
        "T=float fused_ops=[\"BiasAdd\", \"Relu6\"] transpose_b=true: fill(0.5, 17,300), fill(2, 33,300), (fill(1, 33)) -> "
        "fill(6, 17,33)",
        "T=float fused_ops=[\"BiasAdd\", \"Sigmoid\"] transpose_a=true: [[0]], [[1]], ([0]) -> [[0.5]]",
        "fused_ops=[\"BiasAdd\", \"Relu\"]: shape(2,0), shape(0,2), ([1, -3]) -> [[1, 0], [1, 0]]",
        "T=float fused_ops=[\"BiasAdd\", \"Relu\"]: [[nan, 1], [inf, 0]], [[1], [-1]], ([1]) -> [[nan], [inf]]",
        "fused_ops=[\"BiasAdd\"]: [[1, 2]], [[1], [0]], ([1, 3]) -> !INVALID_ARGUMENT",
        "fused_ops=[\"BiasAdd\"]: [[1, 2]], [[1]], ([1]) -> !INVALID_ARGUMENT",
        "fused_ops=[\"BiasAdd\", \"Add\"]: [[0]], [[1]], ([0]) -> !INVALID_ARGUMENT extra arguments",
        "fused_ops=[\"BiasAdd\", \"Cos\"]: [[0]], [[1]], ([0]) -> !UNIMPLEMENTED Fusion is not"));

/* ---- batch normalization ---- */

/* Whether activation_mode is Relu; fails the scope unless it is Relu or Identity. */
static bool is_relu(mr_scope *s, const mr_node *n)
{
    mr_sv mode = {0};
    mr_scope_fail(s, mr_node_get_str(n, "activation_mode", &mode));
    if (!mr_sv_is(mode, "Identity") && !mr_sv_is(mode, "Relu"))
        mr_scope_fail(s, mr_invalid("Unsupported FusedBatchNorm activation mode: %.*s", (int)mode.n,
                                    mode.p));
    return mr_sv_is(mode, "Relu");
}

#define NORM_ATTRS "U epsilon exponential_avg_factor data_format is_training"

static void norm_ex(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    bool relu = is_relu(s, n);
    int sides = n->n_in - 5;
    if (sides > 1 || (sides == 1 && !relu))
        mr_scope_fail(s, mr_invalid("FusedBatchNorm accepts at most one side input, and only with "
                                    "the activation Relu"));
    mr_out y = mr_inside_emit(s, n, "FusedBatchNormV3", NORM_ATTRS, in, 5);
    for (int i = 0; i < 6; i++)
        out[i] = mr_nth(y, i);
    if (sides == 1)
        out[0] = mr_emit(s, "AddV2", out[0], in[5]);
    if (relu)
        out[0] = mr_emit(s, "Relu", out[0]);
}

/* in: y_backprop, x, scale, three reserves, offset, y */
static void norm_grad_ex(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    bool relu = is_relu(s, n);
    if (n->n_out > 6)
        mr_scope_fail(s, mr_invalid("FusedBatchNormGrad supports at most one side input"));
    if (!mr_scope_ok(s))
        return;
    mr_out dy = relu ? mr_emit(s, "ReluGrad", in[0], in[7]) : in[0];
    mr_out args[6] = {dy, in[1], in[2], in[3], in[4], in[5]};
    mr_out d = mr_inside_emit(s, n, "FusedBatchNormGradV3", "U epsilon data_format is_training",
                              args, 6);
    for (int i = 0; i < 5; i++)
        out[i] = mr_nth(d, i);
    for (int i = 5; i < n->n_out; i++)
        out[i] = dy;
}

MR_INSIDE(norm_ex, norm_ex)
MR_INSIDE(norm_grad_ex, norm_grad_ex)

#define NORMED(M, ...)                                                 \
    MR_TYPE_HALF(M, __VA_ARGS__) MR_TYPE_BFLOAT16(M, __VA_ARGS__)      \
    MR_TYPE_FLOAT(M, __VA_ARGS__)
#define NARROW(M, ...) MR_TYPE_HALF(M, __VA_ARGS__) MR_TYPE_FLOAT(M, __VA_ARGS__)

MR_OP(_FusedBatchNormEx,
    .doc      = "FusedBatchNormV3, then optionally the sum with another image and Relu",
    .sig      = "x: T, scale: U, offset: U, mean: U, variance: U, side_input: num_side_inputs * T "
                "-> "
                "y: T, batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U, "
                "reserve_space_3: U",
    .attrs    = "T: {half, float, bfloat16}; U: {float}; epsilon: float = 0.0001; "
                "exponential_avg_factor: float = 1.0; num_side_inputs: int >= 0 = 0; "
                "activation_mode: string = 'Identity'; data_format: {'NHWC', 'NCHW'} = 'NHWC'; "
                "is_training: bool = true",
    MR_INSIDE_OP(norm_ex),
    .kernels  = MR_KERNELS(MR_CPU_ONE(mr_inside_run, NORMED)),
    .examples = MR_EXAMPLES(
        "is_training=false epsilon=0 activation_mode=\"Relu\" num_side_inputs=0: [[[[1], [5]]]], "
        "[2], [1], [3], [4], () -> [[[[0], [3]]]], [3], [4], [3], [4], 0",
        "is_training=false epsilon=0 activation_mode=\"Relu\": [[[[1], [5]]]], [2], [1], [3], [4], "
        "([[[[4], [-9]]]]) -> [[[[3], [0]]]], [3], [4], [3], [4], 0",
        "is_training=false activation_mode=\"Cos\" num_side_inputs=0: [[[[1]]]], [2], [1], [3], "
        "[4], () -> !INVALID_ARGUMENT Unsupported FusedBatchNorm activation mode: Cos",
        "is_training=false: [[[[1]]]], [2], [1], [3], [4], ([[[[4]]]]) -> !INVALID_ARGUMENT"));

MR_OP(_FusedBatchNormGradEx,
    .doc      = "gradient of _FusedBatchNormEx",
    .sig      = "y_backprop: T, x: T, scale: float, reserve_space_1: U, reserve_space_2: U, "
                "reserve_space_3: U, offset: float, y: T -> x_backprop: T, scale_backprop: U, "
                "offset_backprop: U, reserve_space_4: U, reserve_space_5: U, "
                "side_input_backprop: num_side_inputs * T",
    .attrs    = "T: {half, float}; U: {float}; epsilon: float = 0.0001; "
                "num_side_inputs: int >= 0 = 0; activation_mode: string = 'Identity'; data_format: "
                "{'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'; is_training: bool = true",
    MR_INSIDE_OP(norm_grad_ex),
    .kernels  = MR_KERNELS(MR_CPU_ONE(mr_inside_run, NARROW)),
    .examples = MR_EXAMPLES(
        "is_training=false epsilon=0 activation_mode=\"Relu\" num_side_inputs=1: [[[[1], [2]]]], "
        "[[[[1], [5]]]], [2], [3], [4], 0, [1], [[[[0], [3]]]] -> [[[[0], [2]]]], [2], [2], "
        "shape(0), shape(0), "
        "[[[[0], [2]]]]",
        "is_training=false epsilon=0: [[[[1], [2]]]], [[[[1], [5]]]], [2], [3], [4], 0, [1], "
        "[[[[0], [3]]]] -> [[[[1], [2]]]], [1], [3], shape(0), shape(0)",
        "is_training=false num_side_inputs=2: [[[[1]]]], [[[[1]]]], [2], [3], [4], 0, [1], "
        "[[[[0]]]] -> !INVALID_ARGUMENT at most one side input"));

/* ---- chains ---- */

static void emit_chain(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    static const char *const known[] = {
        "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Elu",
        "Exp", "Expm1", "Floor", "Inv", "Log", "Log1p", "Neg", "Reciprocal", "Relu", "Relu6",
        "Rint", "Round", "Rsqrt", "Selu", "Sigmoid", "Sin", "Sinh", "Sqrt", "Square", "Tan",
        "Tanh"};
    const mr_attr *names = NULL;
    mr_scope_fail(s, mr_node_get_list(n, "op_names", MR_ATTR_STRING, &names));
    if (names && names->n == 0)
        mr_scope_fail(s, mr_invalid("Unary op composition must have at least one op"));
    out[0] = in[0];
    for (int i = 0; mr_scope_ok(s) && i < names->n; i++) {
        const char *op = NULL;
        for (int k = 0; k < MR_COUNT(known); k++)
            op = mr_sv_is(names->ss[i], known[k]) ? known[k] : op;
        if (!op)
            mr_scope_fail(s, mr_invalid("Do not have a compute function registered for op: %.*s",
                                        (int)MR_MIN(names->ss[i].n, 100), names->ss[i].p));
        else
            out[0] = mr_emit(s, op, out[0]);
    }
}

MR_INSIDE(chain, emit_chain)

MR_OP(_UnaryOpsComposition,
    .doc      = "element-wise ops, one after another",
    .sig      = "x: T -> y: T",
    .attrs    = "T: {float, half, double}; op_names: list(string)",
    MR_INSIDE_OP(chain),
    .kernels  = MR_KERNELS(MR_CPU_ONE(mr_inside_run, THREE)),
    .examples = MR_EXAMPLES(
        "op_names=[\"Abs\", \"Sqrt\"]: [-4, 9] -> [2, 3]", "op_names=[\"Relu\"]: shape(0) -> "
        "shape(0)",
        "op_names=[\"Square\", \"Neg\", \"Exp\"]: [0] -> [1]",
        "op_names=[]: [1] -> !INVALID_ARGUMENT at least one op",
        "op_names=[\"MatMul\"]: [1] -> !INVALID_ARGUMENT Do not have a compute function registered "
        "for op: MatMul"));
