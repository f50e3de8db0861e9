/* ops/array/shape.c -- ops that compute with a shape and never read data: Shape, ShapeN, Size, Rank. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "run/run.h"

static mr_status *write_shape(mr_run *r, int i)
{
    const mr_tensor *t = mr_in(r, i);
    mr_tensor *out;
    MR_TRY(mr_run_output(r, i, 1, (int64_t[]){t->rank}, &out));
    for (int d = 0; d < t->rank; d++) {
        if (out->dtype == MR_INT64)
            MR_DATA(int64_t, out)[d] = t->dims[d];
        else if (t->dims[d] > INT32_MAX)
            return mr_invalid("Shape output type is 32-bit but dim %d is %lld", d,
                              (long long)t->dims[d]);
        else
            MR_DATA(int32_t, out)[d] = (int32_t)t->dims[d];
    }
    return NULL;
}

static mr_status *run_shape(mr_run *r)
{
    for (int i = 0; i < r->n_out; i++)
        MR_TRY(write_shape(r, i));
    return NULL;
}

static mr_status *shape_shape(mr_infer *c)
{
    for (int i = 0; i < c->n_out; i++)
        mr_infer_out_vector(c, i, c->in[i]->rank);
    return NULL;
}

MR_OP(Shape,
    .doc      = "the shape of its input",
    .sig      = "input: T -> output: out_type",
    .attrs    = "T: type; out_type: {int32, int64} = DT_INT32",
    .flags    = MR_CHEAP | MR_NO_GRADIENT | MR_HOST_ONLY,
    .shape    = shape_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_shape)),
    .examples = MR_EXAMPLES(
        "[[1, 0, 1], [0, 0, 1]] -> int32[2, 3]", "1 -> shape(0)",
        "out_type=int64: shape(4,0) -> int64[4, 0]", "[\"a\", \"b\"] -> int32[2]",
        "shape(3000000000,0) -> !INVALID_ARGUMENT 32-bit but dim 0 is 3000000000",
        "out_type=int64: shape(3000000000,0) -> int64[3000000000, 0]"));

MR_OP(ShapeN,
    .doc      = "the shapes of its inputs",
    .sig      = "input: N * T -> output: N * out_type",
    .attrs    = "N: int >= 1; T: type; out_type: {int32, int64} = DT_INT32",
    .flags    = MR_CHEAP | MR_NO_GRADIENT | MR_HOST_ONLY,
    .shape    = shape_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_shape)),
    .examples = MR_EXAMPLES("([1, 0], 1, [[1, 0, 0]]) -> int32[2], shape(0), int32[1, 3]"));

static mr_status *run_size(mr_run *r)
{
    int64_t n = mr_in(r, 0)->n;
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    if (out->dtype == MR_INT64)
        *MR_DATA(int64_t, out) = n;
    else if (n > INT32_MAX)
        return mr_invalid("Number of elements was larger than representable by 32-bit output type");
    else
        *MR_DATA(int32_t, out) = (int32_t)n;
    return NULL;
}

MR_OP(Size,
    .doc      = "how many elements its input has",
    .sig      = "input: T -> output: out_type",
    .attrs    = "T: type; out_type: {int32, int64} = DT_INT32",
    .flags    = MR_CHEAP | MR_NO_GRADIENT | MR_HOST_ONLY,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_size)),
    .examples = MR_EXAMPLES(
        "[[1, 0, 1], [0, 0, 1]] -> int32 6", "1 -> 1", "out_type=int64: shape(4,0) -> int64 0"));

static mr_status *run_rank(mr_run *r)
{
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    *MR_DATA(int32_t, out) = mr_in(r, 0)->rank;
    return NULL;
}

MR_OP(Rank,
    .doc      = "how many dimensions its input has",
    .sig      = "input: T -> output: int32",
    .attrs    = "T: type",
    .flags    = MR_CHEAP | MR_NO_GRADIENT | MR_HOST_ONLY,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_rank)),
    .examples = MR_EXAMPLES("[[1, 0]] -> 2", "1 -> 0"));
