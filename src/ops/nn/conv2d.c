/* ops/nn/conv2d.c -- Conv2D and its gradients; Conv2DBackpropInput is also known as a transposed
 * convolution.
 *
 * A convolution here does not flip its filter (others call it a correlation).  Unlike TensorFlow's
 * CPU kernels, these also support NCHW, groups, and dilations in the gradients. */
#include "ops/nn/conv_backward.h"
#include "run/accel.h"

static const mr_conv_family family = {
    "Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter",
    "strides use_cudnn_on_gpu padding explicit_paddings data_format dilations"};

static mr_status *run_conv2d(mr_run *r)
{
    const mr_window *w = &((const mr_conv_state *)r->state)->window;
    const mr_tensor *image = mr_in(r, 0), *filter = mr_in(r, 1);
    int64_t dims[4];
    mr_conv c;
    if (image->rank != 4)
        return mr_invalid("input must be 4-dimensional: %s", MR_TENSOR_SHAPE(image));
    if (filter->rank != 4)
        return mr_invalid("filter must be 4-dimensional: %s", MR_TENSOR_SHAPE(filter));
    MR_TRY(mr_conv_resolve(w, false, image->dims, filter->dims, &c));
    mr_conv_out_dims(w, &c, dims);
    return mr_conv_run(r, MR_CONV_FORWARD, &c, 0, 1, 4, dims);
}

static mr_status *conv2d_input(mr_run *r) { return mr_conv_input_kernel(r, false); }
static mr_status *conv2d_filter(mr_run *r) { return mr_conv_filter_kernel(r, false); }
static mr_status *infer_conv2d(mr_infer *c) { return mr_conv_infer(c, 2, false); }
static mr_status *infer_input(mr_infer *c) { return mr_conv_input_infer(c, 2); }
static mr_status *infer_filter(mr_infer *c) { return mr_conv_filter_infer(c, 2); }
static void conv2d_backward(mr_grad *g) { mr_conv_grad(g, &family); }
static void input_backward(mr_grad *g) { mr_conv_input_grad(g, &family); }
static void filter_backward(mr_grad *g) { mr_conv_filter_grad(g, &family); }

#define TYPES(M, ...) MR_FLOATS(M, __VA_ARGS__) MR_TYPE_INT32(M, __VA_ARGS__)
#define ATTRS                                                                             \
    "strides: list(int); use_cudnn_on_gpu: bool = true; "                                 \
    "padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; "         \
    "data_format: {'NHWC', 'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]"

MR_OP(Conv2D,
    .doc         = "2-D convolution of an image [batch, height, width, in] with a filter [height, "
                   "width, in, out]",
    .sig         = "input: T, filter: T -> output: T",
    .attrs       = "T: {half, bfloat16, float, double, int32}; " ATTRS,
    .shape       = infer_conv2d,
    .grad        = conv2d_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(run_conv2d, TYPES) MR_GPU(run_conv2d, FLOAT)),
    .state_bytes = sizeof(mr_conv_state),
    .init        = mr_conv2d_init,
    .deinit      = mr_conv_deinit,
    .examples    = MR_EXAMPLES(
        "strides=[1, 1, 1, 1] padding=\"VALID\": [[[[3], [1], [2]], [[-2], [-1], [1]], [[3], "
        "[-2], [-2]]]], [[[[-2]], [[3]]], [[[-2]], [[1]]]] -> [[[[0], [7]], [[-7], [7]]]]",
        "strides=[1, 1, 1, 1] padding=\"SAME\": [[[[0, 3], [-1, -2], [-2, 0]], [[-1, 0], [2, 3], "
        "[-1, -2]], [[2, 0], [2, 0], [2, 1]]]], [[[[1, 3], [-2, -1]], [[-2, 2], [1, -2]]], [[[-2, "
        "2], [-1, 3]], [[-2, 1], [2, 3]]]] -> [[[[-2, 8], [-2, 1], [2, -14]], [[-10, 1], [-10, "
        "14], [-2, 6]], [[-2, 10], [-1, 8], [0, 5]]]]",
        "strides=[1, 2, 1, 1] padding=\"SAME\": [[[[2], [-1], [1]], [[1], [2], [-1]], [[-2], "
        "[-1], [0]], [[0], [-2], [2]]], [[[-2], [2], [-2]], [[1], [0], [1]], [[2], [2], [3]], "
        "[[-2], [-2], [3]]]], [[[[1, 2]], [[-1, -1]]], [[[3, 0]], [[-2, 1]]], [[[-2, -2]], [[3, "
        "3]]]] -> [[[[3, 8], [8, -2], [-2, 2]], [[3, -5], [-11, 0], [6, 0]]], [[[1, -4], [7, 12], "
        "[-5, -10]], [[-2, 0], [-13, 4], [12, 6]]]]",
        "strides=[1, 1, 1, 1] padding=\"VALID\" dilations=[1, 2, 3, 1]: [[[[2], [3], [-2], [1]], "
        "[[3], [-1], [2], [1]], [[-2], [0], [-1], [-2]], [[3], [1], [-1], [3]]]], [[[[-1]], "
        "[[3]]], [[[2]], [[-2]]]] -> [[[[1]], [[0]]]]",
        "strides=[1, 1, 2, 1] padding=\"EXPLICIT\" explicit_paddings=[0, 0, 1, 0, 2, 1, 0, 0]: "
        "[[[[0], [-2], [-1]], [[1], [-2], [-2]]]], [[[[0]], [[3]]], [[[-1]], [[-2]]]] -> [[[[0], "
        "[4], [1]], [[0], [-3], [2]]]]",
        "strides=[1, 1, 1, 1] padding=\"SAME\" data_format=\"NCHW\": [[[[1, -2], [-2, 1], [-2, "
        "-1]], [[3, -1], [2, -2], [2, 3]]]], [[[[0, -1], [1, 2]]], [[[0, 3], [0, -2]]]] -> [[[[3, "
        "-1], [2, -2], [2, 3]], [[-5, 7], [-4, -14], [6, 7]]]]",
        "strides=[1, 1, 1, 1] padding=\"VALID\": [[[[0, -1, 1, 2], [0, 3, 0, -2]], [[-1, -1, 1, "
        "3], [-1, 0, -1, 2]]]], [[[[2, -1], [1, 1]], [[2, -1], [-2, -1]]]] -> [[[[-7, 3]], [[-5, "
        "1]]]]",
        "strides=[1, 1, 1, 1] padding=\"SAME\": shape(0,3,3,2), fill(1, 2,2,2,5) -> shape(0,3,3,5)",
        "strides=[1, 1, 1, 1] padding=\"VALID\": shape(1,1,3,1), fill(1, 2,2,1,1) -> "
        "!INVALID_ARGUMENT Negative dimension size caused by subtracting 2 from 1",
        "strides=[1, 1, 1, 1] padding=\"VALID\" dilations=[1, 1, 2, 1]: fill(1, 1,2,2,1), fill(1, 2,2,1,1) -> "
        "!INVALID_ARGUMENT Negative dimension size caused by subtracting 3 from 2",
        "strides=[1, 1, 1, 1] padding=\"EXPLICIT\" explicit_paddings=[0, 0, 1, 0, 0, 1, 0, 0]: fill(1, 1,2,2,1), "
        "fill(1, 4,4,1,1) -> !INVALID_ARGUMENT Negative dimension size caused by subtracting 4 from 3",
        "unknown strides=[1, 1, 1, 1] padding=\"VALID\": shape(1,1,3,1), fill(1, 2,2,1,1) -> "
        "shape(1,0,2,1)",
        "T=float nograd strides=[1, 2, 2, 1] padding=\"SAME\": fill(0.5, 5,17,19,3), fill(2, "
        "3,3,3,20) -> shape(5,9,10,20)",
        "T=float nograd strides=[1, 1, 1, 1] padding=\"VALID\": fill(0.5, 67,6,6,8), fill(2, "
        "3,3,8,16) -> fill(72, 67,4,4,16)",
        "unknown strides=[1, 1, 1, 1] padding=\"VALID\": fill(1, 1,2,2,1), fill(1, 4,4,1,1) -> "
        "!INVALID_ARGUMENT Computed output size would be negative",
        "strides=[1, 1, 1, 1] padding=\"VALID\": fill(1, 1,2,2,3), fill(1, 1,1,2,1) -> "
        "!INVALID_ARGUMENT",
        "strides=[1, 1, 1, 2] padding=\"VALID\": fill(1, 1,2,2,1), fill(1, 1,1,1,1) -> "
        "!UNIMPLEMENTED",
        "strides=[1, 0, 1, 1] padding=\"VALID\": fill(1, 1,2,2,1), fill(1, 1,1,1,1) -> "
        "!INVALID_ARGUMENT",
        "strides=[1, 1] padding=\"VALID\": fill(1, 1,2,2,1), fill(1, 1,1,1,1) -> !INVALID_ARGUMENT",
        "strides=[1, 1, 1, 1] padding=\"SAME\" explicit_paddings=[0, 0, 1, 1, 1, 1, 0, 0]: "
        "fill(1, 1,2,2,1), fill(1, 1,1,1,1) -> !INVALID_ARGUMENT explicit_paddings",
        "strides=[1, 1, 1, 1] padding=\"VALID\": fill(1, 1,2,2,1), shape(1,1,1,0) -> "
        "!INVALID_ARGUMENT"));

MR_OP(Conv2DBackpropInput,
    .doc         = "gradient of Conv2D by its image; the transposed convolution",
    .sig         = "input_sizes: int32, filter: T, out_backprop: T -> output: T",
    .attrs       = "T: {half, bfloat16, float, double, int32}; " ATTRS,
    .shape       = infer_input,
    .grad        = input_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(conv2d_input, TYPES) MR_GPU_HOST(conv2d_input, FLOAT, 1, 0)),
    .state_bytes = sizeof(mr_conv_state),
    .init        = mr_conv2d_init,
    .deinit      = mr_conv_deinit,
    .examples    = MR_EXAMPLES(
        "strides=[1, 1, 1, 1] padding=\"VALID\": [1, 3, 3, 1], [[[[-2]], [[3]]], [[[-2]], "
        "[[1]]]], [[[[0], [-2]], [[-1], [1]]]] -> [[[[0], [4], [-6]], [[2], [-1], [1]], [[2], "
        "[-3], [1]]]]",
        "strides=[1, 1, 1, 1] padding=\"SAME\": [1, 3, 3, 2], [[[[1, 3], [-2, -1]], [[-2, 2], [1, "
        "-2]]], [[[-2, 2], [-1, 3]], [[-2, 1], [2, 3]]]], [[[[0, -1], [1, 2], [0, 3]], [[0, -2], "
        "[-1, -1], [1, 3]], [[-1, 0], [-1, 2], [2, -1]]]] -> [[[[-3, 1], [5, -2], [11, -6]], "
        "[[-8, -1], [-7, 9], [16, 13]], [[-5, -4], [5, -9], [10, -5]]]]",
        "strides=[1, 2, 1, 1] padding=\"SAME\": [2, 4, 3, 1], [[[[1, 2]], [[-1, -1]]], [[[3, 0]], "
        "[[-2, 1]]], [[[-2, -2]], [[3, 3]]]], [[[[2, 3], [-2, 1], [3, -1]], [[2, 1], [-2, 0], "
        "[-1, -2]]], [[[3, 1], [-1, 3], [2, -2]], [[2, 1], [-2, 0], [-2, 3]]]] -> [[[[8], [-5], "
        "[2]], [[6], [-7], [14]], [[-6], [12], [-10]], [[6], [-9], [1]]], [[[5], [1], [-4]], "
        "[[9], [-8], [11]], [[-4], [3], [12]], [[6], [-9], [-2]]]]",
        "strides=[1, 2, 2, 1] padding=\"VALID\": [5, 5], [[[[2]], [[3]]], [[[-2]], [[1]]]], "
        "[[[[-1], [3]], [[2], [-2]]]] -> [[[[-2], [-3], [6], [9], [0]], [[2], [-1], [-6], [3], "
        "[0]], [[4], [6], [-4], [-6], [0]], [[-4], [2], [4], [-2], [0]], [[0], [0], [0], [0], "
        "[0]]]]",
        "strides=[1, 1, 1, 1] padding=\"VALID\" dilations=[1, 2, 3, 1]: [1, 4, 4, 1], [[[[-1]], "
        "[[3]]], [[[2]], [[-2]]]], [[[[-1]], [[-2]]]] -> [[[[1], [0], [0], [-3]], [[2], [0], [0], "
        "[-6]], [[-2], [0], [0], [2]], [[-4], [0], [0], [4]]]]",
        "strides=[1, 1, 2, 1] padding=\"EXPLICIT\" explicit_paddings=[0, 0, 1, 0, 2, 1, 0, 0]: "
        "[1, 2, 3, 1], [[[[0]], [[3]]], [[[-1]], [[-2]]]], [[[[1], [3], [-2]], [[-1], [-2], "
        "[2]]]] -> [[[[-3], [-12], [2]], [[2], [4], [-2]]]]",
        "strides=[1, 1, 1, 1] padding=\"SAME\" data_format=\"NCHW\": [1, 2, 3, 2], [[[[0, -1], "
        "[1, 2]]], [[[0, 3], [0, -2]]]], [[[[2, 1], [2, -2], [0, -2]], [[-1, 1], [-1, -1], [0, "
        "2]]]] -> [[[[1, -1], [-2, 4], [-3, -5]], [[0, 3], [2, -6], [2, 4]]]]",
        "strides=[1, 1, 1, 1] padding=\"VALID\": [1, 2, 2, 4], [[[[2, -1], [1, 1]], [[2, -1], "
        "[-2, -1]]]], [[[[1, 2]], [[-1, -1]]]] -> [[[[2, 1, -2, 2], [2, -2, -2, -2]], [[-2, -1, "
        "1, -1], [-2, 2, 1, 1]]]]",
        "strides=[1, 1, 1, 1] padding=\"SAME\": [0, 3, 3, 2], fill(1, 2,2,2,5), shape(0,3,3,5) -> "
        "shape(0,3,3,2)",
        "strides=[1, 1, 1, 1] padding=\"SAME\": [1, 3, 3, 2], fill(1, 2,2,2,5), fill(1, 1,3,2,5) "
        "-> !INVALID_ARGUMENT",
        "strides=[1, 1, 1, 1] padding=\"SAME\": [1, 3, 3], fill(1, 2,2,2,5), fill(1, 1,3,3,5) -> "
        "!INVALID_ARGUMENT",
        "strides=[1, 1, 1, 1] padding=\"SAME\": [-1, 3, 3, 2], fill(1, 2,2,2,5), fill(1, 1,3,3,5) "
        "-> !INVALID_ARGUMENT"));

MR_OP(Conv2DBackpropFilter,
    .doc         = "gradient of Conv2D by its filter",
    .sig         = "input: T, filter_sizes: int32, out_backprop: T -> output: T",
    .attrs       = "T: {half, bfloat16, float, double}; " ATTRS,
    .shape       = infer_filter,
    .grad        = filter_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(conv2d_filter, MR_FLOATS) MR_GPU_HOST(conv2d_filter, FLOAT, 2, 0)),
    .state_bytes = sizeof(mr_conv_state),
    .init        = mr_conv2d_init,
    .deinit      = mr_conv_deinit,
    .examples    = MR_EXAMPLES(
        "strides=[1, 1, 1, 1] padding=\"VALID\": [[[[3], [1], [2]], [[-2], [-1], [1]], [[3], "
        "[-2], [-2]]]], [2, 2, 1, 1], [[[[0], [-2]], [[-1], [1]]]] -> [[[[-1]], [[-2]]], [[[-3]], "
        "[[-2]]]]",
        "strides=[1, 1, 1, 1] padding=\"SAME\": [[[[0, 3], [-1, -2], [-2, 0]], [[-1, 0], [2, 3], "
        "[-1, -2]], [[2, 0], [2, 0], [2, 1]]]], [2, 2, 2, 2], [[[[0, -1], [1, 2], [0, 3]], [[0, "
        "-2], [-1, -1], [1, 3]], [[-1, 0], [-1, 2], [2, -1]]]] -> [[[[-4, -9], [-5, -17]], [[-5, "
        "-2], [1, 0]]], [[[2, 2], [4, 3]], [[-3, -10], [-3, -8]]]]",
        "strides=[1, 2, 1, 1] padding=\"SAME\": [[[[2], [-1], [1]], [[1], [2], [-1]], [[-2], "
        "[-1], [0]], [[0], [-2], [2]]], [[[-2], [2], [-2]], [[1], [0], [1]], [[2], [2], [3]], "
        "[[-2], [-2], [3]]], [[[-2], [1], [3]], [[-2], [0], [-2]], [[-1], [2], [-1]], [[1], [1], "
        "[-2]]]], [3, 2, 1, 2], [[[[2, 3], [-2, 1], [3, -1]], [[2, 1], [-2, 0], [-1, -2]]], [[[3, "
        "1], [-1, 3], [2, -2]], [[2, 1], [-2, 0], [-2, 3]]], [[[0, 2], [-2, 2], [0, -2]], [[-1, "
        "-2], [1, 1], [3, 1]]]] -> [[[[-13, 16]], [[-9, -2]]], [[[-10, 5]], [[-12, -4]]], [[[4, "
        "-1]], [[3, 10]]]]",
        "strides=[1, 1, 1, 1] padding=\"VALID\" dilations=[1, 2, 3, 1]: [[[[2], [3], [-2], [1]], "
        "[[3], [-1], [2], [1]], [[-2], [0], [-1], [-2]], [[3], [1], [-1], [3]]]], [2, 2, 1, 1], "
        "[[[[-1]], [[-2]]]] -> [[[[-8]], [[-3]]], [[[-4]], [[-4]]]]",
        "strides=[1, 1, 2, 1] padding=\"EXPLICIT\" explicit_paddings=[0, 0, 1, 0, 2, 1, 0, 0]: "
        "[[[[0], [-2], [-1]], [[1], [-2], [-2]]]], [2, 2, 1, 1], [[[[1], [3], [-2]], [[-1], [-2], "
        "[2]]]] -> [[[[-2]], [[4]]], [[[-4]], [[-2]]]]",
        "strides=[1, 1, 1, 1] padding=\"SAME\" data_format=\"NCHW\": [[[[1, -2], [-2, 1], [-2, "
        "-1]], [[3, -1], [2, -2], [2, 3]]]], [2, 1, 2, 2], [[[[2, 1], [2, -2], [0, -2]], [[-1, "
        "1], [-1, -1], [0, 2]]]] -> [[[[-4, -4], [7, 2]]], [[[-5, 6], [0, -9]]]]",
        "strides=[1, 1, 1, 1] padding=\"VALID\": [[[[0, -1, 1, 2], [0, 3, 0, -2]], [[-1, -1, 1, "
        "3], [-1, 0, -1, 2]]]], [1, 2, 2, 2], [[[[1, 2]], [[-1, -1]]]] -> [[[[1, 1], [0, 1]], "
        "[[1, 1], [3, -6]]]]",
        "T=float nograd strides=[1, 1, 1, 1] padding=\"VALID\": fill(0.5, 67,6,6,8), [3, 3, 8, "
        "16], fill(2, 67,4,4,16) -> fill(1072, 3,3,8,16)",
        "strides=[1, 1, 1, 1] padding=\"SAME\": shape(0,3,3,2), [1, 1, 2, 1], shape(0,3,3,1) -> "
        "[[[[0], [0]]]]",
        "nograd strides=[1, 1, 1, 1] padding=\"SAME\": fill(1, 1,3,3,2), [1, 1, 2, 0], "
        "shape(1,3,3,0) -> "
        "shape(1,1,2,0)",
        "strides=[1, 1, 1, 1] padding=\"SAME\": fill(1, 1,3,3,2), [1, 1, 3, 1], fill(1, 1,3,3,1) "
        "-> !INVALID_ARGUMENT"));
