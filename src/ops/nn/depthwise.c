/* ops/nn/depthwise.c -- convolutions of each channel separately: the filter is [height, width,
 * channels, multiplier], and out channel c * multiplier + q depends only on channel c. */
#include "ops/nn/conv_backward.h"
#include "run/accel.h"

static const mr_conv_family family = {
    "DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput",
    "DepthwiseConv2dNativeBackpropFilter",
    "strides padding explicit_paddings data_format dilations"};

/* A limit that TensorFlow has: clients may rely on the error. */
static mr_status *check_strides(const mr_window *w)
{
    if (w->stride[0] == w->stride[1])
        return NULL;
    return mr_invalid("Current implementation only supports equal length strides in the row and "
                      "column dimensions.");
}

static mr_status *init_depthwise(mr_make *m, void *state)
{
    MR_TRY(mr_conv2d_init(m, state));
    return check_strides(&((const mr_conv_state *)state)->window);
}

static mr_status *run_depthwise(mr_run *r)
{
    const mr_window *w = &((const mr_conv_state *)r->state)->window;
    const mr_tensor *image = mr_in(r, 0), *filter = mr_in(r, 1);
    int64_t dims[4];
    mr_conv c;
    if (image->rank != 4)
        return mr_invalid("input must be 4-dimensional%s", MR_TENSOR_SHAPE(image));
    if (filter->rank != 4)
        return mr_invalid("filter must be 4-dimensional: %s", MR_TENSOR_SHAPE(filter));
    MR_TRY(mr_conv_resolve(w, true, image->dims, filter->dims, &c));
    mr_conv_out_dims(w, &c, dims);
    return mr_conv_run(r, MR_CONV_FORWARD, &c, 0, 1, 4, dims);
}

static mr_status *depthwise_input(mr_run *r) { return mr_conv_input_kernel(r, true); }
static mr_status *depthwise_filter(mr_run *r) { return mr_conv_filter_kernel(r, true); }
static mr_status *infer_depthwise(mr_infer *c) { return mr_conv_infer(c, 2, true); }
static mr_status *infer_input(mr_infer *c) { return mr_conv_input_infer(c, 2); }
static mr_status *infer_filter(mr_infer *c) { return mr_conv_filter_infer(c, 2); }
static void depthwise_backward(mr_grad *g) { mr_conv_grad(g, &family); }
static void input_backward(mr_grad *g) { mr_conv_input_grad(g, &family); }
static void filter_backward(mr_grad *g) { mr_conv_filter_grad(g, &family); }

#define ATTRS                                                                             \
    "T: {half, bfloat16, float, double}; strides: list(int); "                            \
    "padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; "         \
    "data_format: {'NHWC', 'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]"

MR_OP(DepthwiseConv2dNative,
    .doc         = "2-D convolution of each channel with its own filters",
    .sig         = "input: T, filter: T -> output: T",
    .attrs       = ATTRS,
    .shape       = infer_depthwise,
    .grad        = depthwise_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(run_depthwise, MR_FLOATS) MR_GPU(run_depthwise, FLOAT)),
    .state_bytes = sizeof(mr_conv_state),
    .init        = init_depthwise,
    .deinit      = mr_conv_deinit,
    .examples    = MR_EXAMPLES(
        "strides=[1, 1, 1, 1] padding=\"VALID\": [[[[3, 1], [2, -2], [-1, 1]], [[3, -2], [-2, "
        "-1], [2, 3]], [[2, -1], [0, 2], [3, 0]]]], [[[[-2], [3]], [[-2], [1]]], [[[0], [1]], "
        "[[-2], [0]]]] -> [[[[-6, -1], [-6, -6]], [[-2, -8], [-6, 2]]]]",
        "strides=[1, 1, 1, 1] padding=\"VALID\": fill(1, 1,1,2,1), fill(1, 2,1,1,1) -> "
        "!INVALID_ARGUMENT Negative dimension size caused by subtracting 2 from 1",
        "strides=[1, 1, 1, 1] padding=\"SAME\": [[[[0, 3], [-1, -2], [-2, 0]], [[-1, 0], [2, 3], "
        "[-1, -2]], [[2, 0], [2, 0], [2, 1]]]], [[[[1, 3], [-2, -1]], [[-2, 2], [1, -2]]], [[[-2, "
        "2], [-1, 3]], [[-2, 1], [2, 3]]]] -> [[[[0, -2, -2, 10], [1, -4, -3, 5], [0, -8, 2, "
        "-6]], [[-13, 7, 3, -6], [-4, 10, -6, 4], [-5, 1, 3, 5]], [[-2, 10, 0, 0], [-2, 10, 1, "
        "-2], [2, 6, -2, -1]]]]",
        "strides=[1, 2, 2, 1] padding=\"SAME\": [[[[2], [-1], [1], [1]], [[2], [-1], [-2], [-1]], "
        "[[0], [0], [-2], [2]]], [[[-2], [2], [-2], [1]], [[0], [1], [2], [2]], [[3], [-2], [-2], "
        "[3]]]], [[[[1, 2]], [[-1, -1]]], [[[3, 0]], [[-2, 1]]], [[[-2, -2]], [[3, 3]]]] -> "
        "[[[[1, -8], [2, 2]], [[3, 5], [-11, -1]]], [[[-7, 5], [-6, 3]], [[12, -3], [-12, 5]]]]",
        "strides=[1, 1, 1, 1] padding=\"VALID\" dilations=[1, 2, 1, 1]: [[[[2, 3], [-2, 1], [3, "
        "-1]], [[2, 1], [-2, 0], [-1, -2]], [[3, 1], [-1, 3], [2, -2]], [[2, 1], [-2, 0], [-2, "
        "3]]]], [[[[-1], [3]], [[2], [-2]]], [[[-1], [1]], [[2], [-1]]]] -> [[[[-11, 5], [13, "
        "10]], [[-12, 4], [-2, 1]]]]",
        "strides=[1, 2, 2, 1] padding=\"EXPLICIT\" explicit_paddings=[0, 0, 1, 0, 2, 1, 0, 0]: "
        "[[[[0, -2], [-1, 1], [-2, -2]], [[-2, 3], [3, 1], [0, 1]]]], [[[[0], [3]], [[-1], "
        "[-2]]], [[[-2], [0]], [[-1], [0]]]] -> [[[[0, 0], [1, 0], [4, 0]]]]",
        "strides=[1, 1, 1, 1] padding=\"SAME\" data_format=\"NCHW\": [[[[1, -2], [-2, 1]], [[3, "
        "-1], [2, -2]]]], [[[[0, -1], [1, 2]]], [[[0, 3], [0, -2]]]] -> [[[[0, 0], [0, 0]], [[-7, "
        "5], [2, -1]], [[3, -1], [2, -2]], [[2, 2], [4, -4]]]]",
        "T=float nograd strides=[1, 1, 1, 1] padding=\"SAME\": fill(0.5, 3,9,9,24), fill(2, "
        "3,3,24,1) -> shape(3,9,9,24)",
        "strides=[1, 1, 1, 1] padding=\"SAME\": shape(0,3,3,2), fill(1, 2,2,2,5) -> "
        "shape(0,3,3,10)",
        "strides=[1, 1, 1, 1] padding=\"SAME\": fill(1, 1,3,3,2), fill(1, 2,2,3,1) -> "
        "!INVALID_ARGUMENT",
        "strides=[1, 1, 2, 1] padding=\"SAME\": fill(1, 1,3,3,2), fill(1, 2,2,2,1) -> "
        "!INVALID_ARGUMENT equal length strides"));

MR_OP(DepthwiseConv2dNativeBackpropInput,
    .doc         = "gradient of DepthwiseConv2dNative by its image",
    .sig         = "input_sizes: int32, filter: T, out_backprop: T -> output: T",
    .attrs       = ATTRS,
    .shape       = infer_input,
    .grad        = input_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(depthwise_input, MR_FLOATS) MR_GPU_HOST(depthwise_input, FLOAT, 1, 0)),
    .state_bytes = sizeof(mr_conv_state),
    .init        = init_depthwise,
    .deinit      = mr_conv_deinit,
    .examples    = MR_EXAMPLES(
        "strides=[1, 1, 1, 1] padding=\"VALID\": [1, 3, 3, 2], [[[[-2], [3]], [[-2], [1]]], "
        "[[[0], [1]], [[-2], [0]]]], [[[[0, -2], [-1, 1]], [[-2, -2], [-2, 3]]]] -> [[[[0, -6], "
        "[2, 1], [2, 1]], [[4, -8], [8, 8], [6, 3]], [[0, -2], [4, 3], [4, 0]]]]",
        "strides=[1, 1, 1, 1] padding=\"SAME\": [1, 3, 3, 2], [[[[1, 3], [-2, -1]], [[-2, 2], [1, "
        "-2]]], [[[-2, 2], [-1, 3]], [[-2, 1], [2, 3]]]], [[[[0, -1, 1, 2], [0, 3, 0, -2], [-1, "
        "-1, 1, 3]], [[-1, 0, -1, 2], [2, -1, -2, 0], [2, 2, 1, 0]], [[3, 3, 0, -1], [0, 1, 3, "
        "3], [-1, 2, 3, -2]]]] -> [[[[-3, -4], [7, -1], [2, -1]], [[-3, 5], [6, 1], [5, -2]], "
        "[[14, 8], [-1, -1], [2, -12]]]]",
        "strides=[1, 2, 2, 1] padding=\"SAME\": [2, 3, 4, 1], [[[[1, 2]], [[-1, -1]]], [[[3, 0]], "
        "[[-2, 1]]], [[[-2, -2]], [[3, 3]]]], [[[[2, 3], [-2, 1]], [[3, -1], [2, 1]]], [[[-2, 0], "
        "[-1, -2]], [[3, 1], [-1, 3]]]] -> [[[[6], [-1], [-6], [5]], [[-9], [13], [6], [-6]], "
        "[[9], [-7], [6], [-3]]], [[[-6], [4], [-3], [0]], [[9], [-10], [11], [-11]], [[9], [-5], "
        "[-3], [5]]]]",
        "strides=[1, 1, 1, 1] padding=\"VALID\" dilations=[1, 2, 1, 1]: [1, 4, 3, 2], [[[[-1], "
        "[3]], [[2], [-2]]], [[[-1], [1]], [[2], [-1]]]], [[[[-1, -2], [1, -1]], [[3, 2], [-1, "
        "0]]]] -> [[[[1, -6], [-3, 1], [2, 2]], [[-3, 6], [7, -4], [-2, 0]], [[1, -2], [-3, 1], "
        "[2, 1]], [[-3, 2], [7, -2], [-2, 0]]]]",
        "strides=[1, 2, 2, 1] padding=\"EXPLICIT\" explicit_paddings=[0, 0, 1, 0, 2, 1, 0, 0]: "
        "[1, 2, 3, 2], [[[[0], [3]], [[-1], [-2]]], [[[-2], [0]], [[-1], [0]]]], [[[[1, 3], [-2, "
        "-1], [-2, 2]]]] -> [[[[4, 0], [2, 0], [4, 0]], [[0, 0], [0, 0], [0, 0]]]]",
        "strides=[1, 1, 1, 1] padding=\"SAME\" data_format=\"NCHW\": [1, 2, 2, 2], [[[[0, -1], "
        "[1, 2]]], [[[0, 3], [0, -2]]]], [[[[2, 2], [0, -2]], [[-1, -1], [0, 2]], [[1, -2], [-2, "
        "-2]], [[1, -1], [2, 1]]]] -> [[[[1, 1], [-3, -5]], [[3, -4], [0, 2]]]]",
        "strides=[1, 1, 1, 1] padding=\"SAME\": [1, 3, 3, 2], fill(1, 2,2,2,5), fill(1, 1,3,2,10) "
        "-> !INVALID_ARGUMENT"));

MR_OP(DepthwiseConv2dNativeBackpropFilter,
    .doc         = "gradient of DepthwiseConv2dNative by its filter",
    .sig         = "input: T, filter_sizes: int32, out_backprop: T -> output: T",
    .attrs       = ATTRS,
    .shape       = infer_filter,
    .grad        = filter_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(depthwise_filter, MR_FLOATS) MR_GPU_HOST(depthwise_filter, FLOAT, 2, 0)),
    .state_bytes = sizeof(mr_conv_state),
    .init        = init_depthwise,
    .deinit      = mr_conv_deinit,
    .examples    = MR_EXAMPLES(
        "strides=[1, 1, 1, 1] padding=\"VALID\": [[[[3, 1], [2, -2], [-1, 1]], [[3, -2], [-2, "
        "-1], [2, 3]], [[2, -1], [0, 2], [3, 0]]]], [2, 2, 2, 1], [[[[0, -2], [-1, 1]], [[-2, "
        "-2], [-2, 3]]]] -> [[[[-4], [-3]], [[1], [16]]], [[[-2], [11]], [[-8], [1]]]]",
        "strides=[1, 1, 1, 1] padding=\"SAME\": [[[[0, 3], [-1, -2], [-2, 0]], [[-1, 0], [2, 3], "
        "[-1, -2]], [[2, 0], [2, 0], [2, 1]]]], [2, 2, 2, 2], [[[[0, -1, 1, 2], [0, 3, 0, -2], "
        "[-1, -1, 1, 3]], [[-1, 0, -1, 2], [2, -1, -2, 0], [2, 2, 1, 0]], [[3, 3, 0, -1], [0, 1, "
        "3, 3], [-1, 2, 3, -2]]]] -> [[[[9, 7], [-2, 8]], [[2, 4], [2, 5]]], [[[7, 10], [-1, "
        "-12]], [[2, -7], [1, 10]]]]",
        "strides=[1, 2, 2, 1] padding=\"SAME\": [[[[2], [-1], [1], [1]], [[2], [-1], [-2], [-1]], "
        "[[0], [0], [-2], [2]]], [[[-2], [2], [-2], [1]], [[0], [1], [2], [2]], [[3], [-2], [-2], "
        "[3]]]], [3, 2, 1, 2], [[[[2, 3], [-2, 1]], [[3, -1], [2, 1]]], [[[-2, 0], [-1, -2]], "
        "[[3, 1], [-1, 3]]]] -> [[[[0, 2]], [[-4, 7]]], [[[15, 6]], [[-14, 5]]], [[[6, 0]], [[-4, "
        "-8]]]]",
        "strides=[1, 1, 1, 1] padding=\"VALID\" dilations=[1, 2, 1, 1]: [[[[2, 3], [-2, 1], [3, "
        "-1]], [[2, 1], [-2, 0], [-1, -2]], [[3, 1], [-1, 3], [2, -2]], [[2, 1], [-2, 0], [-2, "
        "3]]]], [2, 2, 2, 1], [[[[-1, -2], [1, -1]], [[3, 2], [-1, 0]]]] -> [[[[4], [-5]], [[0], "
        "[-1]]], [[[4], [-3]], [[-1], [-4]]]]",
        "strides=[1, 2, 2, 1] padding=\"EXPLICIT\" explicit_paddings=[0, 0, 1, 0, 2, 1, 0, 0]: "
        "[[[[0, -2], [-1, 1], [-2, -2]], [[-2, 3], [3, 1], [0, 1]]]], [2, 2, 2, 1], [[[[1, 3], "
        "[-2, -1], [-2, 2]]]] -> [[[[0], [0]], [[0], [0]]], [[[4], [-2]], [[2], [-1]]]]",
        "strides=[1, 1, 1, 1] padding=\"SAME\" data_format=\"NCHW\": [[[[1, -2], [-2, 1]], [[3, "
        "-1], [2, -2]]]], [2, 1, 2, 2], [[[[2, 2], [0, -2]], [[-1, -1], [0, 2]], [[1, -2], [-2, "
        "-2]], [[1, -1], [2, 1]]]] -> [[[[-4, 3], [5, 6]]], [[[-2, 1], [6, 4]]]]",
        "strides=[1, 1, 1, 1] padding=\"SAME\": shape(0,3,3,2), [1, 1, 2, 1], shape(0,3,3,2) -> "
        "[[[[0], [0]]]]"));
