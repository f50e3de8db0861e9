/* ops/state/tensor_array_old.c -- the TensorArray ops of older graphs.
 *
 * The handle is a vector of two strings (V2), or a reference to one (the first form); the array and the kernels are
 * those of V3.  The first two forms return no flow with their handle: the handle orders the ops that follow. */
#include "graph/grad.h"
#include "ops/state/tensor_array.h"

/* ---- gradients ---- */

/* The gradient array of the V2 form, which takes handles of either kind. */
static mr_out gradient_array(mr_grad *g, mr_out flow)
{
    return mr_emit_with(g->s, "TensorArrayGradV2", MR_ATTRS({"source", mr_a_str(mr_grad_source(g))}), mr_x(g, "handle"), flow);
}

static mr_attr element_type(mr_grad *g, const char *arg) { return mr_a_type(mr_dtype_base(mr_out_type(mr_x(g, arg)))); }

static void read_backward(mr_grad *g)
{
    mr_out flow = mr_x(g, "flow_in"), ta = gradient_array(g, flow);
    mr_dx(g, "flow_in", mr_emit(g->s, "TensorArrayWriteV2", ta, mr_x(g, "index"), mr_dy(g, "value"), flow));
}

static void write_backward(mr_grad *g)
{
    mr_out flow = mr_dy(g, "flow_out"), ta = gradient_array(g, flow);
    mr_dx(g, "value", mr_emit_with(g->s, "TensorArrayReadV2", MR_ATTRS({"dtype", element_type(g, "value")}), ta,
                                   mr_x(g, "index"), flow));
    mr_dx(g, "flow_in", flow);
}

static void gather_backward(mr_grad *g)
{
    mr_out flow = mr_x(g, "flow_in"), ta = gradient_array(g, flow);
    mr_dx(g, "flow_in", mr_emit(g->s, "TensorArrayScatterV2", ta, mr_x(g, "indices"), mr_dy(g, "value"), flow));
}

static void scatter_backward(mr_grad *g)
{
    mr_out flow = mr_dy(g, "flow_out"), ta = gradient_array(g, flow);
    mr_dx(g, "value", mr_emit_with(g->s, "TensorArrayGatherV2", MR_ATTRS({"dtype", element_type(g, "value")}), ta,
                                   mr_x(g, "indices"), flow));
    mr_dx(g, "flow_in", flow);
}

static void concat_backward(mr_grad *g)
{
    mr_out flow = mr_x(g, "flow_in"), ta = gradient_array(g, flow);
    mr_dx(g, "flow_in", mr_emit(g->s, "TensorArraySplitV2", ta, mr_dy(g, "value"), mr_y(g, "lengths"), flow));
}

/* Only the first rows: an array that has grown since has more elements. */
static void split_backward(mr_grad *g)
{
    mr_out flow = mr_dy(g, "flow_out"), ta = gradient_array(g, flow);
    mr_out all = mr_emit_with(g->s, "TensorArrayConcatV2", MR_ATTRS({"dtype", element_type(g, "value")}), ta, flow);
    mr_out shape = mr_emit(g->s, "Shape", mr_x(g, "value"));
    mr_dx(g, "value", mr_emit(g->s, "Slice", all, mr_emit(g->s, "ZerosLike", shape), shape));
    mr_dx(g, "flow_in", flow);
}

/* ---- the ops ---- */
MR_OP(TensorArray, .doc = "an array of `size` tensors for this step",
    .sig = "size: int32 -> handle: Ref(string)",
    .attrs = "dtype: type; dynamic_size: bool = false; clear_after_read: bool = true; tensor_array_name: string = ''; element_shape: shape = { unknown_rank: true }",
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .deprecated = 16, .deprecation = "Use TensorArrayV3",
    .shape = mr_array_shape_pair, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_new)),
    .examples = MR_EXAMPLES("dtype=float: 3 -> shape(2)", "dtype=float: -1 -> !INVALID_ARGUMENT a size of -1"));
MR_OP(TensorArrayV2, .doc = "an array of `size` tensors for this step",
    .sig = "size: int32 -> handle: string",
    .attrs = "dtype: type; element_shape: shape = { unknown_rank: true }; dynamic_size: bool = false; clear_after_read: bool = true; tensor_array_name: string = ''",
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .deprecated = 26, .deprecation = "Use TensorArrayV3",
    .shape = mr_array_shape_pair, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_new)),
    .examples = MR_EXAMPLES("dtype=float: 3 -> shape(2)", "dtype=float: -1 -> !INVALID_ARGUMENT a size of -1"));
MR_OP(TensorArrayWrite, .doc = "writes one element",
    .sig = "handle: Ref(string), index: int32, value: T, flow_in: float -> flow_out: float",
    .attrs = "T: type",
    .flags = MR_NO_FOLD, .deprecated = 16, .deprecation = "Use TensorArrayWriteV3",
    .shape = mr_array_shape_write, .grad = write_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_write)));
MR_OP(TensorArrayWriteV2, .doc = "writes one element",
    .sig = "handle: string, index: int32, value: T, flow_in: float -> flow_out: float",
    .attrs = "T: type",
    .flags = MR_NO_FOLD, .deprecated = 26, .deprecation = "Use TensorArrayWriteV3",
    .shape = mr_array_shape_write, .grad = write_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_write)));
MR_OP(TensorArrayRead, .doc = "reads one element",
    .sig = "handle: Ref(string), index: int32, flow_in: float -> value: dtype",
    .attrs = "dtype: type",
    .flags = MR_NO_FOLD, .deprecated = 16, .deprecation = "Use TensorArrayReadV3",
    .shape = mr_array_shape_read, .grad = read_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_read)));
MR_OP(TensorArrayReadV2, .doc = "reads one element",
    .sig = "handle: string, index: int32, flow_in: float -> value: dtype",
    .attrs = "dtype: type",
    .flags = MR_NO_FOLD, .deprecated = 26, .deprecation = "Use TensorArrayReadV3",
    .shape = mr_array_shape_read, .grad = read_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_read)));
MR_OP(TensorArrayGather, .doc = "reads elements and stacks them",
    .sig = "handle: Ref(string), indices: int32, flow_in: float -> value: dtype",
    .attrs = "dtype: type; element_shape: shape = { unknown_rank: true }",
    .flags = MR_NO_FOLD, .deprecated = 16, .deprecation = "Use TensorArrayGatherV3",
    .shape = mr_array_shape_gather, .grad = gather_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_gather)));
MR_OP(TensorArrayGatherV2, .doc = "reads elements and stacks them",
    .sig = "handle: string, indices: int32, flow_in: float -> value: dtype",
    .attrs = "dtype: type; element_shape: shape = { unknown_rank: true }",
    .flags = MR_NO_FOLD, .deprecated = 26, .deprecation = "Use TensorArrayGatherV3",
    .shape = mr_array_shape_gather, .grad = gather_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_gather)));
MR_OP(TensorArrayScatter, .doc = "writes the rows of a value to elements",
    .sig = "handle: Ref(string), indices: int32, value: T, flow_in: float -> flow_out: float",
    .attrs = "T: type",
    .flags = MR_NO_FOLD, .deprecated = 19, .deprecation = "Use TensorArrayScatterV3",
    .shape = mr_array_shape_scatter, .grad = scatter_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_scatter)));
MR_OP(TensorArrayScatterV2, .doc = "writes the rows of a value to elements",
    .sig = "handle: string, indices: int32, value: T, flow_in: float -> flow_out: float",
    .attrs = "T: type",
    .flags = MR_NO_FOLD, .deprecated = 26, .deprecation = "Use TensorArrayScatterV3",
    .shape = mr_array_shape_scatter, .grad = scatter_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_scatter)));
MR_OP(TensorArrayConcat, .doc = "joins all elements along their first dimension",
    .sig = "handle: Ref(string), flow_in: float -> value: dtype, lengths: int64",
    .attrs = "dtype: type; element_shape_except0: shape = { unknown_rank: true }",
    .flags = MR_NO_FOLD, .deprecated = 16, .deprecation = "Use TensorArrayConcatV3",
    .shape = mr_array_shape_concat, .grad = concat_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_concat)));
MR_OP(TensorArrayConcatV2, .doc = "joins all elements along their first dimension",
    .sig = "handle: string, flow_in: float -> value: dtype, lengths: int64",
    .attrs = "dtype: type; element_shape_except0: shape = { unknown_rank: true }",
    .flags = MR_NO_FOLD,
    .shape = mr_array_shape_concat, .grad = concat_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_concat)));
MR_OP(TensorArraySplit, .doc = "writes parts of a value, lengths[i] rows to element i",
    .sig = "handle: Ref(string), value: T, lengths: int64, flow_in: float -> flow_out: float",
    .attrs = "T: type",
    .flags = MR_NO_FOLD, .deprecated = 16, .deprecation = "Use TensorArraySplitV3",
    .shape = mr_array_shape_split, .grad = split_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_split)));
MR_OP(TensorArraySplitV2, .doc = "writes parts of a value, lengths[i] rows to element i",
    .sig = "handle: string, value: T, lengths: int64, flow_in: float -> flow_out: float",
    .attrs = "T: type",
    .flags = MR_NO_FOLD, .deprecated = 26, .deprecation = "Use TensorArraySplitV3",
    .shape = mr_array_shape_split, .grad = split_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_split)));
MR_OP(TensorArrayPack, .doc = "reads all elements and stacks them",
    .sig = "handle: Ref(string), flow_in: float -> value: dtype",
    .attrs = "dtype: type; element_shape: shape = { unknown_rank: true }",
    .flags = MR_NO_FOLD | MR_NO_GRADIENT, .deprecated = 16, .deprecation = "Use TensorArrayGatherV3",
    .shape = mr_array_shape_pack, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_pack)));
MR_OP(TensorArrayUnpack, .doc = "writes the rows of a value to all elements",
    .sig = "handle: Ref(string), value: T, flow_in: float -> flow_out: float",
    .attrs = "T: type",
    .flags = MR_NO_FOLD | MR_NO_GRADIENT, .deprecated = 20, .deprecation = "Use TensorArrayScatterV3",
    .shape = mr_array_shape_unpack, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_unpack)));
MR_OP(TensorArraySize, .doc = "the number of elements",
    .sig = "handle: Ref(string), flow_in: float -> size: int32",
    .flags = MR_NO_FOLD | MR_NO_GRADIENT, .deprecated = 16, .deprecation = "Use TensorArraySizeV3",
    .shape = mr_shape_scalar, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_size)));
MR_OP(TensorArraySizeV2, .doc = "the number of elements",
    .sig = "handle: string, flow_in: float -> size: int32",
    .flags = MR_NO_FOLD | MR_NO_GRADIENT, .deprecated = 26, .deprecation = "Use TensorArraySizeV3",
    .shape = mr_shape_scalar, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_size)));
MR_OP(TensorArrayClose, .doc = "empties an array; using it later is an error",
    .sig = "handle: Ref(string) ->",
    .flags = MR_NO_FOLD | MR_NO_GRADIENT, .deprecated = 16, .deprecation = "Use TensorArrayCloseV3",
    .shape = mr_shape_none, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_close)));
MR_OP(TensorArrayCloseV2, .doc = "empties an array; using it later is an error",
    .sig = "handle: string ->",
    .flags = MR_NO_FOLD | MR_NO_GRADIENT, .deprecated = 26, .deprecation = "Use TensorArrayCloseV3",
    .shape = mr_shape_none, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_close)));
MR_OP(TensorArrayGrad, .doc = "the array that collects the gradients of another's elements",
    .sig = "handle: string, flow_in: float -> grad_handle: Ref(string)",
    .attrs = "source: string",
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .deprecated = 16, .deprecation = "Use TensorArrayGradV3",
    .shape = mr_array_shape_pair, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_gradient)));
MR_OP(TensorArrayGradV2, .doc = "the array that collects the gradients of another's elements",
    .sig = "handle: string, flow_in: float -> grad_handle: string",
    .attrs = "source: string",
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .deprecated = 26, .deprecation = "Use TensorArrayGradV3",
    .shape = mr_array_shape_pair, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_gradient)));
