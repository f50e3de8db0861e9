/* ops/nn/conv3d.c -- Conv3D over [batch, depth, height, width, in] and its gradients. */
#include "ops/nn/conv_backward.h"

static const mr_conv_family family = {"Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2",
                                      "strides padding data_format dilations"};

static mr_status *run_conv3d(mr_run *r)
{
    const mr_window *w = &((const mr_conv_state *)r->state)->window;
    const mr_tensor *image = mr_in(r, 0), *filter = mr_in(r, 1);
    int64_t dims[5];
    mr_conv c;
    if (image->rank != 5)
        return mr_invalid("input must be 5-dimensional: %s", MR_TENSOR_SHAPE(image));
    if (filter->rank != 5)
        return mr_invalid("filter must be 5-dimensional: %s", MR_TENSOR_SHAPE(filter));
    MR_TRY(mr_conv_resolve(w, false, image->dims, filter->dims, &c));
    mr_conv_out_dims(w, &c, dims);
    return mr_conv_run(r, MR_CONV_FORWARD, &c, 0, 1, 5, dims);
}

static mr_status *conv3d_input(mr_run *r) { return mr_conv_input_kernel(r, false); }
static mr_status *conv3d_filter(mr_run *r) { return mr_conv_filter_kernel(r, false); }
static mr_status *infer_conv3d(mr_infer *c) { return mr_conv_infer(c, 3, false); }
static mr_status *infer_input(mr_infer *c) { return mr_conv_input_infer(c, 3); }
static mr_status *infer_filter(mr_infer *c) { return mr_conv_filter_infer(c, 3); }
static void conv3d_backward(mr_grad *g) { mr_conv_grad(g, &family); }
static void input_backward(mr_grad *g) { mr_conv_input_grad(g, &family); }
static void filter_backward(mr_grad *g) { mr_conv_filter_grad(g, &family); }

#define ATTRS                                                                             \
    "T: {half, bfloat16, float, double}; strides: list(int) >= 5; padding: {'SAME', 'VALID'}; " \
    "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'; dilations: list(int) = [1, 1, 1, 1, 1]"

MR_OP(Conv3D,
    .doc         = "3-D convolution with a filter [depth, height, width, in, out]",
    .sig         = "input: T, filter: T -> output: T",
    .attrs       = ATTRS,
    .shape       = infer_conv3d,
    .grad        = conv3d_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(run_conv3d, MR_FLOATS)),
    .state_bytes = sizeof(mr_conv_state),
    .init        = mr_conv3d_init,
    .deinit      = mr_conv_deinit,
    .examples    = MR_EXAMPLES(
        "strides=[1, 1, 1, 1, 1] padding=\"VALID\": [[[[[3], [1]], [[2], [-2]], [[-1], [1]]], "
        "[[[3], [-2]], [[-2], [-1]], [[2], [3]]]]], [[[[[-2, 3]]], [[[-2, 1]]]], [[[[0, 1]]], "
        "[[[-2, 0]]]]] -> [[[[[-6, 14], [4, -1]], [[-6, 3], [-4, -6]]]]]",
        "strides=[1, 1, 1, 1, 1] padding=\"VALID\": fill(1, 1,1,2,2,1), fill(1, 2,1,1,1,1) -> "
        "!INVALID_ARGUMENT Negative dimension size caused by subtracting 2 from 1",
        "strides=[1, 1, 1, 1, 1] padding=\"SAME\": [[[[[0, 3], [-1, -2]], [[-2, 0], [-1, 0]]], "
        "[[[2, 3], [-1, -2]], [[2, 0], [2, 0]]]]], [[[[[1], [3]], [[-2], [-1]]]], [[[[-2], [2]], "
        "[[1], [-2]]]]] -> [[[[[18], [-9]], [[-2], [-5]]], [[[15], [-7]], [[-2], [2]]]]]",
        "strides=[1, 2, 1, 2, 1] padding=\"SAME\": [[[[[1], [3], [-2]], [[-1], [-2], [2]]], "
        "[[[1], [-2], [-2]], [[2], [-1], [3]]], [[[-2], [1], [2]], [[3], [1], [-1]]]]], [[[[[0]], "
        "[[-1]]], [[[1]], [[2]]]], [[[[0]], [[3]]], [[[0]], [[-2]]]]] -> [[[[[-12], [2]], [[-1], "
        "[0]]], [[[4], [-1]], [[-1], [0]]]]]",
        "strides=[1, 1, 1, 1, 1] padding=\"VALID\" dilations=[1, 2, 1, 2, 1]: [[[[[0], [-1], "
        "[1]], [[2], [0], [3]]], [[[0], [-2], [-1]], [[-1], [1], [3]]], [[[-1], [0], [-1]], [[2], "
        "[2], [-1]]]]], [[[[[2]], [[-1]]]], [[[[1]], [[1]]]]] -> [[[[[-3]], [[2]]]]]",
        "strides=[1, 1, 1, 1, 1] padding=\"SAME\" data_format=\"NCDHW\": [[[[[2], [1]], [[2], "
        "[-2]]], [[[-1], [1]], [[-1], [-1]]]]], [[[[[1, 2], [-1, -1]]], [[[3, 0], [-2, 1]]]], "
        "[[[[-2, -2], [3, 3]]], [[[2, -1], [1, 0]]]]] -> [[[[[-8], [1]], [[-1], [-1]]], [[[1], "
        "[2]], [[4], [-3]]]]]",
        "strides=[1, 1, 1, 1, 1] padding=\"SAME\": shape(0,3,3,3,2), fill(1, 2,2,2,2,5) -> "
        "shape(0,3,3,3,5)",
        "T=float nograd strides=[1, 1, 1, 1, 1] padding=\"SAME\": fill(0.5, 3,4,5,6,8), fill(2, "
        "3,3,3,8,16) -> shape(3,4,5,6,16)",
        "strides=[1, 1, 1, 1, 1] padding=\"SAME\": fill(1, 1,1,1,1,3), fill(1, 1,1,1,2,1) -> "
        "!INVALID_ARGUMENT"));

MR_OP(Conv3DBackpropInputV2,
    .doc         = "gradient of Conv3D by its image",
    .sig         = "input_sizes: Tshape, filter: T, out_backprop: T -> output: T",
    .attrs       = ATTRS "; Tshape: {int32, int64} = DT_INT32",
    .shape       = infer_input,
    .grad        = input_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(conv3d_input, MR_FLOATS)),
    .state_bytes = sizeof(mr_conv_state),
    .init        = mr_conv3d_init,
    .deinit      = mr_conv_deinit,
    .examples    = MR_EXAMPLES(
        "strides=[1, 1, 1, 1, 1] padding=\"VALID\": [1, 2, 3, 2, 1], [[[[[-2, 3]]], [[[-2, 1]]]], "
        "[[[[0, 1]]], [[[-2, 0]]]]], [[[[[0, -2], [-1, 1]], [[-2, -2], [-2, 3]]]]] -> [[[[[-6], "
        "[5]], [[-4], [16]], [[2], [7]]], [[[-2], [1]], [[-2], [5]], [[4], [4]]]]]",
        "strides=[1, 1, 1, 1, 1] padding=\"SAME\": [1, 2, 2, 2, 2], [[[[[1], [3]], [[-2], "
        "[-1]]]], [[[[-2], [2]], [[1], [-2]]]]], [[[[[0], [-1]], [[1], [2]]], [[[0], [3]], [[0], "
        "[-2]]]]] -> [[[[[0, 0], [-1, -3]], [[1, 3], [0, 5]]], [[[0, 0], [5, 7]], [[-2, 2], [-5, "
        "-4]]]]]",
        "strides=[1, 2, 1, 2, 1] padding=\"SAME\": [1, 3, 2, 3, 1], [[[[[0]], [[-1]]], [[[1]], "
        "[[2]]]], [[[[0]], [[3]]], [[[0]], [[-2]]]]], [[[[[2], [-1]], [[1], [1]]], [[[2], [-1]], "
        "[[-2], [-1]]]]] -> [[[[[0], [-2], [0]], [[2], [3], [-1]]], [[[0], [6], [0]], [[0], [-1], "
        "[0]]], [[[0], [-2], [0]], [[2], [6], [-1]]]]]",
        "strides=[1, 1, 1, 1, 1] padding=\"VALID\" dilations=[1, 2, 1, 2, 1]: [1, 3, 2, 3, 1], "
        "[[[[[2]], [[-1]]]], [[[[1]], [[1]]]]], [[[[[1]], [[2]]]]] -> [[[[[2], [0], [-1]], [[4], "
        "[0], [-2]]], [[[0], [0], [0]], [[0], [0], [0]]], [[[1], [0], [1]], [[2], [0], [2]]]]]",
        "strides=[1, 1, 1, 1, 1] padding=\"SAME\" data_format=\"NCDHW\": [1, 2, 2, 2, 1], [[[[[1, "
        "2], [-1, -1]]], [[[3, 0], [-2, 1]]]], [[[[-2, -2], [3, 3]]], [[[2, -1], [1, 0]]]]], "
        "[[[[[2], [-2]], [[3], [2]]], [[[3], [1]], [[-1], [1]]]]] -> [[[[[8], [6]], [[-9], "
        "[16]]], [[[-5], [0]], [[13], [-11]]]]]",
        "Tshape=int64 strides=[1, 1, 1, 1, 1] padding=\"VALID\": [1, 2, 3, 2, 1], [[[[[-2, 3]]], "
        "[[[-2, 1]]]], [[[[0, 1]]], [[[-2, 0]]]]], [[[[[0, -2], [-1, 1]], [[-2, -2], [-2, 3]]]]] "
        "-> [[[[[-6], [5]], [[-4], [16]], [[2], [7]]], [[[-2], [1]], [[-2], [5]], [[4], [4]]]]]",
        "strides=[1, 1, 1, 1, 1] padding=\"SAME\": [1, 1, 1, 1, 1], fill(1, 1,1,1,1,1), fill(1, "
        "1,1,1,2,1) -> !INVALID_ARGUMENT"));

MR_OP(Conv3DBackpropFilterV2,
    .doc         = "gradient of Conv3D by its filter",
    .sig         = "input: T, filter_sizes: int32, out_backprop: T -> output: T",
    .attrs       = ATTRS,
    .shape       = infer_filter,
    .grad        = filter_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(conv3d_filter, MR_FLOATS)),
    .state_bytes = sizeof(mr_conv_state),
    .init        = mr_conv3d_init,
    .deinit      = mr_conv_deinit,
    .examples    = MR_EXAMPLES(
        "strides=[1, 1, 1, 1, 1] padding=\"VALID\": [[[[[3], [1]], [[2], [-2]], [[-1], [1]]], "
        "[[[3], [-2]], [[-2], [-1]], [[2], [3]]]]], [2, 2, 1, 1, 2], [[[[[0, -2], [-1, 1]], [[-2, "
        "-2], [-2, 3]]]]] -> [[[[[-1, -15]]], [[[2, -1]]]], [[[[8, -7]]], [[[-9, 8]]]]]",
        "strides=[1, 1, 1, 1, 1] padding=\"SAME\": [[[[[0, 3], [-1, -2]], [[-2, 0], [-1, 0]]], "
        "[[[2, 3], [-1, -2]], [[2, 0], [2, 0]]]]], [2, 1, 2, 2, 1], [[[[[0], [-1]], [[1], [2]]], "
        "[[[0], [3]], [[0], [-2]]]]] -> [[[[[-10], [-4]], [[-1], [0]]]], [[[[7], [2]], [[2], "
        "[0]]]]]",
        "strides=[1, 2, 1, 2, 1] padding=\"SAME\": [[[[[1], [3], [-2]], [[-1], [-2], [2]]], "
        "[[[1], [-2], [-2]], [[2], [-1], [3]]], [[[-2], [1], [2]], [[3], [1], [-1]]]]], [2, 2, 2, "
        "1, 1], [[[[[2], [-1]], [[1], [1]]], [[[2], [-1]], [[-2], [-1]]]]] -> [[[[[-6]], [[4]]], "
        "[[[3]], [[-2]]]], [[[[9]], [[-5]]], [[[1]], [[-2]]]]]",
        "strides=[1, 1, 1, 1, 1] padding=\"VALID\" dilations=[1, 2, 1, 2, 1]: [[[[[0], [-1], "
        "[1]], [[2], [0], [3]]], [[[0], [-2], [-1]], [[-1], [1], [3]]], [[[-1], [0], [-1]], [[2], "
        "[2], [-1]]]]], [2, 1, 2, 1, 1], [[[[[1]], [[2]]]]] -> [[[[[4]], [[7]]]], [[[[3]], "
        "[[-3]]]]]",
        "strides=[1, 1, 1, 1, 1] padding=\"SAME\" data_format=\"NCDHW\": [[[[[2], [1]], [[2], "
        "[-2]]], [[[-1], [1]], [[-1], [-1]]]]], [2, 2, 1, 2, 2], [[[[[2], [-2]], [[3], [2]]], "
        "[[[3], [1]], [[-1], [1]]]]] -> [[[[[4, 3], [-9, -2]]], [[[-4, 5], [-1, 4]]]], [[[[8, 4], "
        "[0, -4]]], [[[-4, -6], [-2, -3]]]]]",
        "strides=[1, 1, 1, 1, 1] padding=\"SAME\": shape(0,1,1,1,2), [1, 1, 1, 2, 1], "
        "shape(0,1,1,1,1) -> [[[[[0], [0]]]]]"));
