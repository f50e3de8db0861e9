/* ops/nn/pool3d.c -- MaxPool3D and AvgPool3D with their gradients, over [batch, depth, height,
 * width, channels]. */
#include "ops/nn/avg_pool.h"
#include "ops/nn/max_pool.h"

static mr_status *infer_pool3d(mr_infer *c) { return mr_pool_infer(c, 3); }
static mr_status *infer_max_grad(mr_infer *c) { return mr_infer_rank(c, c->in[0], 5, &c->out[0]); }
static mr_status *infer_avg_grad(mr_infer *c) { return mr_avg_pool_grad_infer(c, 3); }

#define GRAD_ATTRS "ksize strides padding data_format"

static void max_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit_like(g, "MaxPool3DGrad", GRAD_ATTRS,
                              MR_OUTS(mr_xi(g, 0), mr_yi(g, 0), mr_dyi(g, 0))));
}

static mr_out cast_to(mr_grad *g, mr_dtype to, mr_out v)
{
    return mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(to)}), v);
}

/* MaxPool3DGradGrad requires one type: if the inputs have two, they are cast to float, which holds both. */
static void max_grad_backward(mr_grad *g)
{
    mr_out in[] = {mr_xi(g, 0), mr_xi(g, 1), mr_dyi(g, 0)};
    mr_dtype type = mr_dtype_base(g->node->in_types[2]);
    bool mixed = mr_dtype_base(g->node->in_types[0]) != type;
    for (int i = 0; i < 3 && mixed; i++)
        in[i] = cast_to(g, MR_FLOAT, in[i]);
    mr_out out = mr_emit_like(g, "MaxPool3DGradGrad", GRAD_ATTRS, in, 3);
    mr_dxi(g, 0, mr_zeros_like(g, mr_xi(g, 0)));
    mr_dxi(g, 1, mr_zeros_like(g, mr_xi(g, 1)));
    mr_dxi(g, 2, mixed ? cast_to(g, type, out) : out);
}

static void max_grad_grad_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_zeros_like(g, mr_xi(g, 0)));
    mr_dxi(g, 1, mr_zeros_like(g, mr_xi(g, 1)));
    mr_dxi(g, 2, mr_emit_like(g, "MaxPool3DGrad", GRAD_ATTRS,
                              MR_OUTS(mr_xi(g, 0), mr_xi(g, 1), mr_dyi(g, 0))));
}

static void avg_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit_like(g, "AvgPool3DGrad", GRAD_ATTRS,
                              MR_OUTS(mr_shape_of(g, mr_xi(g, 0)), mr_dyi(g, 0))));
}

static void avg_grad_backward(mr_grad *g)
{
    mr_dxi(g, 1, mr_emit_like(g, "AvgPool3D", GRAD_ATTRS, MR_OUTS(mr_dyi(g, 0))));
}

#define SIZES "ksize: list(int) >= 5; strides: list(int) >= 5; padding: {'SAME', 'VALID'}; " \
              "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'; "
#define MAX_TYPES(M, ...) MR_FLOATS16(M, __VA_ARGS__) MR_TYPE_FLOAT(M, __VA_ARGS__)

MR_OP(MaxPool3D,
    .doc         = "the largest value in each window",
    .sig         = "input: T -> output: T",
    .attrs       = SIZES "T: {half, bfloat16, float}",
    .shape       = infer_pool3d,
    .grad        = max_backward,
    .kernels     = MR_KERNELS(MR_CPU_MAX_POOL(mr_max_pool_kernel, MAX_TYPES)),
    .state_bytes = sizeof(mr_window),
    .init        = mr_avg_pool3d_init,
    .examples    = MR_EXAMPLES(
        "ksize=[1, 2, 2, 2, 1] strides=[1, 2, 2, 2, 1] padding=\"VALID\": [[[[[3], [13], [7], "
        "[2]], [[6], [10], [4], [1]]], [[[14], [0], [15], [9]], [[8], [12], [11], [5]]]]] -> "
        "[[[[[14], [15]]]]]",
        "ksize=[1, 2, 1, 2, 1] strides=[1, 1, 1, 1, 1] padding=\"SAME\": [[[[[22, 12], [17, 15]], "
        "[[14, 16], [1, 2]]], [[[21, 13], [4, 20]], [[6, 7], [5, 18]]], [[[9, 11], [23, 19]], "
        "[[0, 8], [3, 10]]]]] -> [[[[[22, 20], [17, 20]], [[14, 18], [5, 18]]], [[[23, 20], [23, "
        "20]], [[6, 18], [5, 18]]], [[[23, 19], [23, 19]], [[3, 10], [3, 10]]]]]",
        "ksize=[1, 1, 1, 2, 2] strides=[1, 1, 1, 1, 2] padding=\"SAME\" data_format=\"NCDHW\": "
        "[[[[[3, 4, 6], [9, 8, 2]], [[11, 0, 1], [5, 7, 10]]]]] -> [[[[[9, 6], [9, 2]], [[11, "
        "10], [7, 10]]]]]",
        "ksize=[1, 1, 1, 2, 1] strides=[1, 1, 1, 1, 1] padding=\"VALID\": [[[[[1]]]]] -> "
        "!INVALID_ARGUMENT Negative dimension size caused by subtracting 2 from 1",
        "T=float nograd ksize=[1, 1, 1, 2, 1] strides=[1, 1, 1, 2, 1] padding=\"VALID\": [[[[[nan], [2], [1], [nan], [nan], "
        "[nan]]]]] -> [[[[[2], [1], [-inf]]]]]"));

MR_OP(MaxPool3DGrad,
    .doc         = "gradient of MaxPool3D: each window's gradient goes to all values within 1e-5 of its largest",
    .sig         = "orig_input: TInput, orig_output: TInput, grad: T -> output: T",
    .attrs       = SIZES "T: {half, bfloat16, float} = DT_FLOAT; "
                         "TInput: {half, bfloat16, float} = DT_FLOAT",
    .key         = "T",
    .shape       = infer_max_grad,
    .grad        = max_grad_backward,
    .kernels     = MR_KERNELS(MR_CPU_MAX_POOL(mr_max_pool_grad_kernel, MAX_TYPES)),
    .state_bytes = sizeof(mr_window),
    .init        = mr_avg_pool3d_init,
    .examples    = MR_EXAMPLES(
        "TInput=$T ksize=[1, 2, 2, 2, 1] strides=[1, 2, 2, 2, 1] padding=\"VALID\": [[[[[3], "
        "[13], [7], [2]], [[6], [10], [4], [1]]], [[[14], [0], [15], [9]], [[8], [12], [11], "
        "[5]]]]], [[[[[14], [15]]]]], [[[[[8], [8]]]]] -> [[[[[0], [0], [0], [0]], [[0], [0], "
        "[0], [0]]], [[[8], [0], [8], [0]], [[0], [0], [0], [0]]]]]",
        "TInput=$T ksize=[1, 2, 1, 2, 1] strides=[1, 1, 1, 1, 1] padding=\"SAME\": [[[[[22, 12], "
        "[17, 15]], [[14, 16], [1, 2]]], [[[21, 13], [4, 20]], [[6, 7], [5, 18]]], [[[9, 11], "
        "[23, 19]], [[0, 8], [3, 10]]]]], [[[[[22, 20], [17, 20]], [[14, 18], [5, 18]]], [[[23, "
        "20], [23, 20]], [[6, 18], [5, 18]]], [[[23, 19], [23, 19]], [[3, 10], [3, 10]]]]], "
        "[[[[[7, 5], [1, 8]], [[7, 8], [2, 7]]], [[[7, 7], [8, 4]], [[2, 6], [4, 3]]], [[[0, 7], "
        "[5, 5]], [[6, 6], [8, 2]]]]] -> [[[[[7, 0], [1, 0]], [[7, 0], [0, 0]]], [[[0, 0], [0, "
        "24]], [[2, 0], [6, 24]]], [[[0, 0], [20, 12]], [[0, 0], [14, 8]]]]]",
        "T=float nograd TInput=$T ksize=[1, 1, 1, 2, 1] strides=[1, 1, 1, 2, 1] padding=\"VALID\": [[[[[nan], [2], [3], [3], [1], "
        "[nan]]]]], [[[[[2], [3], [1]]]]], [[[[[3], [5], [7]]]]] -> [[[[[0], [3], [5], [5], [7], [0]]]]]",
        "TInput=half ksize=[1, 1, 1, 2, 1] strides=[1, 1, 1, 2, 1] padding=\"VALID\": [[[[[3], "
        "[2]]]]], [[[[[3]]]]], [[[[[8]]]]] -> [[[[[8], [0]]]]]",
        "TInput=$T ksize=[1, 1, 1, 2, 2] strides=[1, 1, 1, 1, 2] padding=\"SAME\" "
        "data_format=\"NCDHW\": [[[[[3, 4, 6], [9, 8, 2]], [[11, 0, 1], [5, 7, 10]]]]], [[[[[9, "
        "6], [9, 2]], [[11, 10], [7, 10]]]]], [[[[[3, 6], [6, 0]], [[8, 4], [7, 0]]]]] -> [[[[[0, "
        "0, 6], [9, 0, 0]], [[8, 0, 0], [0, 7, 4]]]]]"));

MR_OP(MaxPool3DGradGrad,
    .doc         = "gradient of MaxPool3DGrad",
    .sig         = "orig_input: T, orig_output: T, grad: T -> output: T",
    .attrs       = SIZES "T: realnumbertype",
    .shape       = infer_pool3d,
    .grad        = max_grad_grad_backward,
    .kernels     = MR_KERNELS(MR_CPU_MAX_POOL(mr_max_pool_grad_grad_kernel, MR_REALS)),
    .state_bytes = sizeof(mr_window),
    .init        = mr_avg_pool3d_init,
    .examples    = MR_EXAMPLES(
        "T=float nograd ksize=[1, 1, 1, 2, 1] strides=[1, 1, 1, 2, 1] padding=\"VALID\": [[[[[nan], [2], [nan], [nan]]]]], "
        "[[[[[2], [1]]]]], [[[[[3], [5], [7], [9]]]]] -> [[[[[5], [0]]]]]",
        "ksize=[1, 2, 2, 2, 1] strides=[1, 2, 2, 2, 1] padding=\"VALID\": [[[[[3], [13], [7], "
        "[2]], [[6], [10], [4], [1]]], [[[14], [0], [15], [9]], [[8], [12], [11], [5]]]]], "
        "[[[[[14], [15]]]]], [[[[[8], [8], [6], [2]], [[8], [7], [2], [1]]], [[[5], [4], [4], "
        "[5]], [[7], [3], [6], [4]]]]] -> [[[[[5], [4]]]]]",
        "ksize=[1, 2, 1, 2, 1] strides=[1, 1, 1, 1, 1] padding=\"SAME\": [[[[[22, 12], [17, 15]], "
        "[[14, 16], [1, 2]]], [[[21, 13], [4, 20]], [[6, 7], [5, 18]]], [[[9, 11], [23, 19]], "
        "[[0, 8], [3, 10]]]]], [[[[[22, 20], [17, 20]], [[14, 18], [5, 18]]], [[[23, 20], [23, "
        "20]], [[6, 18], [5, 18]]], [[[23, 19], [23, 19]], [[3, 10], [3, 10]]]]], [[[[[7, 5], [1, "
        "8]], [[7, 8], [2, 7]]], [[[7, 7], [8, 4]], [[2, 6], [4, 3]]], [[[0, 7], [5, 5]], [[6, "
        "6], [8, 2]]]]] -> [[[[[7, 4], [1, 4]], [[7, 3], [4, 3]]], [[[5, 4], [5, 4]], [[2, 3], "
        "[4, 3]]], [[[5, 5], [5, 5]], [[8, 2], [8, 2]]]]]",
        "ksize=[1, 1, 1, 2, 2] strides=[1, 1, 1, 1, 2] padding=\"SAME\" data_format=\"NCDHW\": "
        "[[[[[3, 4, 6], [9, 8, 2]], [[11, 0, 1], [5, 7, 10]]]]], [[[[[9, 6], [9, 2]], [[11, 10], "
        "[7, 10]]]]], [[[[[3, 6, 6], [0, 8, 4]], [[7, 0, 0], [7, 1, 5]]]]] -> [[[[[0, 6], [0, "
        "4]], [[7, 5], [1, 5]]]]]"));

MR_OP(AvgPool3D,
    .doc         = "the mean of each window; padding does not count",
    .sig         = "input: T -> output: T",
    .attrs       = SIZES "T: {half, bfloat16, float, double}",
    .shape       = infer_pool3d,
    .grad        = avg_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(mr_avg_pool_kernel, MR_FLOATS)),
    .state_bytes = sizeof(mr_window),
    .init        = mr_avg_pool3d_init,
    .examples    = MR_EXAMPLES(
        "ksize=[1, 2, 2, 2, 1] strides=[1, 2, 2, 2, 1] padding=\"VALID\": [[[[[3], [13], [7], "
        "[2]], [[6], [10], [4], [1]]], [[[14], [0], [15], [9]], [[8], [12], [11], [5]]]]] -> "
        "[[[[[8.25], [6.75]]]]]",
        "ksize=[1, 2, 1, 2, 1] strides=[1, 1, 1, 1, 1] padding=\"SAME\": [[[[[22, 12], [17, 15]], "
        "[[14, 16], [1, 2]]], [[[21, 13], [4, 20]], [[6, 7], [5, 18]]], [[[9, 11], [23, 19]], "
        "[[0, 8], [3, 10]]]]] -> [[[[[16, 15], [10.5, 17.5]], [[6.5, 10.75], [3, 10]]], [[[14.25, "
        "15.75], [13.5, 19.5]], [[3.5, 10.75], [4, 14]]], [[[16, 15], [23, 19]], [[1.5, 9], [3, "
        "10]]]]]",
        "ksize=[1, 1, 1, 2, 2] strides=[1, 1, 1, 1, 2] padding=\"SAME\" data_format=\"NCDHW\": "
        "[[[[[3, 4, 6], [9, 8, 2]], [[11, 0, 1], [5, 7, 10]]]]] -> [[[[[6, 4], [8.5, 2]], [[5.75, "
        "5.5], [6, 10]]]]]"));

MR_OP(AvgPool3DGrad,
    .doc         = "gradient of AvgPool3D: each window's gradient is spread evenly over its pixels",
    .sig         = "orig_input_shape: int32, grad: T -> output: T",
    .attrs       = SIZES "T: {half, bfloat16, float, double}",
    .shape       = infer_avg_grad,
    .grad        = avg_grad_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(mr_avg_pool_grad_kernel, MR_FLOATS)),
    .state_bytes = sizeof(mr_window),
    .init        = mr_avg_pool3d_init,
    .examples    = MR_EXAMPLES(
        "ksize=[1, 2, 2, 2, 1] strides=[1, 2, 2, 2, 1] padding=\"VALID\": [1, 2, 2, 4, 1], "
        "[[[[[96], [96]]]]] -> [[[[[12], [12], [12], [12]], [[12], [12], [12], [12]]], [[[12], "
        "[12], [12], [12]], [[12], [12], [12], [12]]]]]",
        "ksize=[1, 2, 1, 2, 1] strides=[1, 1, 1, 1, 1] padding=\"SAME\": [1, 3, 2, 2, 2], "
        "[[[[[84, 60], [12, 96]], [[84, 96], [24, 84]]], [[[84, 84], [96, 48]], [[24, 72], [48, "
        "36]]], [[[0, 84], [60, 60]], [[72, 72], [96, 24]]]]] -> [[[[[21, 15], [27, 63]], [[21, "
        "24], [33, 66]]], [[[42, 36], [96, 108]], [[27, 42], [63, 102]]], [[[21, 63], [129, "
        "147]], [[42, 54], [162, 96]]]]]",
        "ksize=[1, 1, 1, 2, 2] strides=[1, 1, 1, 1, 2] padding=\"SAME\" data_format=\"NCDHW\": "
        "[1, 1, 2, 2, 3], [[[[[36, 72], [72, 0]], [[96, 48], [84, 0]]]]] -> [[[[[9, 9, 36], [45, "
        "45, 36]], [[24, 24, 24], [66, 66, 24]]]]]"));
