/* ops/array/fill.c -- tensors of one value: Fill, ZerosLike, OnesLike. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"
#include "run/accel.h"
#include "tensor/variant.h"

static mr_status *run_fill(mr_run *r)
{
    const mr_tensor *value = mr_in(r, 1);
    mr_shape s;
    mr_tensor *out;
    mr_blit b;
    MR_TRY(mr_in_shape(r, 0, "dims", 0, &s));
    if (value->rank != 0)
        return mr_invalid("value must be a scalar, got shape %s", MR_TENSOR_SHAPE(value));
    MR_TRY(mr_run_output(r, 0, s.rank, s.dims, &out));
    mr_blit_init(&b);
    mr_blit_dim(&b, out->n, 0, 1);
    MR_TRY(mr_blit_copy(r, &b, out, 0, value, 0));
    return NULL;
}

static mr_status *fill_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    const mr_tensor *dims = mr_infer_const(c, 0);
    for (int64_t i = 0; dims && i < dims->n; i++)
        if (mr_tensor_int_at(dims, i) < 0)
            return mr_invalid("Fill dimensions must be >= 0");
    return mr_shape_from_input0(c);
}

static void fill_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0), zero = mr_const_i32(g->s, 0), one = mr_const_i32(g->s, 1);
    mr_out axes = mr_emit(g->s, "Range", zero, mr_emit(g->s, "Rank", dy), one);
    mr_dxi(g, 1, mr_emit(g->s, "Sum", dy, axes));
}

MR_OP(Fill,
    .doc      = "a tensor of this shape, all of one value",
    .sig      = "dims: index_type, value: T -> output: T",
    .attrs    = "T: type; index_type: {int32, int64} = DT_INT32",
    .shape    = fill_shape,
    .grad     = fill_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_fill) MR_GPU_HOST(run_fill, FLOAT, 1, 0)),
    .examples = MR_EXAMPLES(
        "[2, 3], 1 -> [[1, 1, 1], [1, 1, 1]]", "index_type=int64: [2], \"a\" -> [\"a\", \"a\"]",
        "shape(0), 7 -> 7", "[0, 3], 1 -> shape(0,3)", "[33], 1 -> fill(1, 33)",
        "[-1], 1 -> !INVALID_ARGUMENT Fill dimensions must be >= 0",
        "d = PlaceholderWithDefault dtype=int32 shape=?: int32[-1]; : d, 1 -> !INVALID_ARGUMENT at "
        "least 0",
        "[2], [1] -> !INVALID_ARGUMENT must be rank 0",
        "index_type=int64: [4611686018427387904, 4], 1 -> !INVALID_ARGUMENT",
        "index_type=int64: [1152921504606846976], 1 -> !RESOURCE_EXHAUSTED"));

/* ---- ZerosLike, OnesLike ---- */

/* Uses the input's memory when it is free. */
static mr_status *fill_like(mr_run *r, int value)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_dtype dtype = x->dtype;
    char one[16] = {0};
    mr_tensor *y;
    MR_TRY(mr_run_forward(r, 0, 0, x->rank, x->dims, &y));
    if (!mr_dtype_is_plain(dtype)) {
        mr_tensor_zero(y);
        return NULL;
    }
    if (value)
        mr_dtype_convert(MR_INT32, &value, dtype, one, 1, false);
    MR_TRY(mr_move_fill(r, y, 0, one, y->n));
    return NULL;
}

static mr_status *zeros_like(mr_run *r) { return fill_like(r, 0); }

static mr_status *variant_zeros_like(mr_run *r)
{
    mr_tensor *y;
    MR_TRY(mr_variants_zeros_like(mr_run_allocator(r), mr_in(r, 0), &y));
    mr_run_set(r, 0, y);
    return NULL;
}

static mr_status *ones_like(mr_run *r) { return fill_like(r, 1); }

MR_OP(ZerosLike,
    .doc      = "zeros in the shape of the input",
    .sig      = "x: T -> y: T",
    .attrs    = "T: type",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ONE(zeros_like, MR_PLAIN) {"CPU", MR_STRING, zeros_like},
                           {"CPU", MR_VARIANT, variant_zeros_like}, MR_GPU(zeros_like, FLOAT)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]] -> [[0, 0], [0, 0]]", "[\"a\"] -> [\"\"]", "true -> false",
        "shape(2,0) -> shape(2,0)"));

MR_OP(OnesLike,
    .doc      = "ones in the shape of the input",
    .sig      = "x: T -> y: T",
    .attrs    = "T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, "
                "int64, uint64, complex64, complex128, bool}",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(ones_like) MR_GPU(ones_like, FLOAT)),
    .examples = MR_EXAMPLES(
        "[0, 1, 3] -> [1, 1, 1]", "1+2i -> 1", "false -> true", "shape(0) -> shape(0)"));
