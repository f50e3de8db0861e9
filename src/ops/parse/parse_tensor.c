/* ops/parse/parse_tensor.c -- ParseTensor, SerializeTensor: convert tensors from and to TensorProto bytes. */
#include "graph/infer.h"
#include "run/run.h"

static mr_status *parse_tensor(mr_run *r)
{
    const mr_tensor *in = mr_in(r, 0);
    mr_tensor *t;
    if (in->rank != 0)
        return mr_invalid("Expected `serialized` to be a scalar, got shape: %s", MR_TENSOR_SHAPE(in));
    mr_status *st = mr_tensor_decode(mr_run_allocator(r), mr_tensor_str_at(in, 0), &t);
    if (mr_status_code(st) == MR_INVALID_ARGUMENT)
        return mr_status_prepend(st, "Could not parse `serialized` as TensorProto: ");
    MR_TRY(st);
    if ((mr_dtype)t->dtype != mr_out_dtype(r, 0)) {
        st = mr_invalid("Type mismatch between parsed tensor (%s) and dtype (%s)",
                        mr_dtype_name((mr_dtype)t->dtype), mr_dtype_name(mr_out_dtype(r, 0)));
        mr_tensor_unref(t);
        return st;
    }
    mr_run_set(r, 0, t);
    return NULL;
}

static mr_status *parse_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    return mr_infer_rank(c, c->in[0], 0, &ignored);
}

#define INT32_12 "\"\\x08\\x03\\x12\\x04\\x12\\x02\\x08\\x02\\x22\\x08\\x01\\x00\\x00\\x00\\x02\\x00\\x00\\x00\""

MR_OP(ParseTensor,
    .doc      = "the tensor that a serialized TensorProto holds",
    .sig      = "serialized: string -> output: out_type",
    .attrs    = "out_type: type",
    .flags    = MR_NO_GRADIENT,
    .shape    = parse_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(parse_tensor)),
    .examples = MR_EXAMPLES(
        "s = SerializeTensor T=$T: iota(2,2); : s -> iota(2,2)",
        "s = SerializeTensor T=$T: shape(0,3); : s -> shape(0,3)",
        "out_type=int32: " INT32_12 " -> [1, 2]",
        "s = SerializeTensor T=string: [\"a\", \"\"]; out_type=string: s -> [\"a\", \"\"]",
        "out_type=float: " INT32_12 " -> !INVALID_ARGUMENT Type mismatch between parsed tensor "
        "(int32) and dtype (float)",
        "out_type=float: \"abc\" -> !INVALID_ARGUMENT Could not parse `serialized` as TensorProto",
        "out_type=float: [\"a\"] -> !INVALID_ARGUMENT must be rank 0"));

static mr_status *serialize_tensor(mr_run *r)
{
    mr_tensor *out;
    mr_str s = {0};
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    mr_status *st = mr_tensor_encode(mr_in(r, 0), &s);
    if (!st)
        st = mr_tensor_set_str(out, 0, mr_str_view(&s));
    mr_str_deinit(&s);
    return st;
}

MR_OP(SerializeTensor,
    .doc      = "a tensor as a serialized TensorProto",
    .sig      = "tensor: T -> serialized: string",
    .attrs    = "T: type",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(serialize_tensor)),
    .examples = MR_EXAMPLES("T=int32: [1, 2] -> " INT32_12, "iota(3) -> ?", "shape(2,0) -> ?"));
