/* ops/array/broadcast_args.c -- the effect of broadcasting on shapes: BroadcastArgs, BroadcastGradientArgs. */
#include "base/memory.h"
#include "graph/infer.h"
#include "run/run.h"

static mr_status *write_ints(mr_run *r, int i, int n, const int64_t *v)
{
    mr_tensor *out;
    MR_TRY(mr_run_output(r, i, 1, (int64_t[]){n}, &out));
    for (int k = 0; k < n; k++) {
        if (out->dtype == MR_INT64)
            MR_DATA(int64_t, out)[k] = v[k];
        else
            MR_DATA(int32_t, out)[k] = (int32_t)v[k];
    }
    return NULL;
}

static mr_status *run_args(mr_run *r)
{
    mr_shape a, b, both;
    MR_TRY(mr_in_shape(r, 0, "s0", INT64_MIN, &a));
    MR_TRY(mr_in_shape(r, 1, "s1", INT64_MIN, &b));
    MR_TRY(mr_shape_broadcast(a.rank, a.dims, b.rank, b.dims, &both));
    return write_ints(r, 0, both.rank, both.dims);
}

static mr_status *args_shape(mr_infer *c)
{
    const mr_pshape *a = NULL, *b = NULL;
    MR_TRY(mr_infer_rank(c, c->in[0], 1, &a));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &b));
    bool known = a->dims[0] >= 0 && b->dims[0] >= 0;
    mr_infer_out_vector(c, 0, known ? MR_MAX(a->dims[0], b->dims[0]) : -1);
    return NULL;
}

MR_OP(BroadcastArgs,
    .doc      = "the shape that two shapes broadcast to",
    .sig      = "s0: T, s1: T -> r0: T",
    .attrs    = "T: {int32, int64} = DT_INT32",
    .flags    = MR_CHEAP | MR_NO_GRADIENT,
    .shape    = args_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_args, MR_INDEXES)),
    .examples = MR_EXAMPLES(
        "[2, 1, 3], [4, 1] -> [2, 4, 3]", "shape(0), [2] -> [2]", "[1], [0] -> [0]",
        "[2], [3] -> !INVALID_ARGUMENT Incompatible shapes: [2] vs. [3]",
        "[-1, 1], [1, -2] -> [-1, -2]", "[-1], [-1] -> [-1]",
        "[-1], [3] -> !INVALID_ARGUMENT Incompatible shapes: [-1] vs. [3]"));

/* ---- BroadcastGradientArgs ---- */

/* The axes along which a was repeated, or along which both are 1: summing over them gives a's shape. */
static int summed_axes(const mr_shape *a, const mr_shape *b, int rank, int64_t *out)
{
    int n = 0;
    for (int d = 0; d < rank; d++) {
        int i = d - (rank - a->rank), k = d - (rank - b->rank);
        int64_t x = i < 0 ? 1 : a->dims[i], y = k < 0 ? 1 : b->dims[k];
        if (x == 1 && (y != 1 || i >= 0 || k >= 0))
            out[n++] = d;
    }
    return n;
}

static mr_status *run_gradient_args(mr_run *r)
{
    mr_shape a, b, both;
    int64_t axes[MR_MAX_RANK] = {0};
    MR_TRY(mr_in_shape(r, 0, "s0", INT64_MIN, &a));
    MR_TRY(mr_in_shape(r, 1, "s1", INT64_MIN, &b));
    MR_TRY(mr_shape_broadcast(a.rank, a.dims, b.rank, b.dims, &both));
    bool equal = mr_shape_eq(a.rank, a.dims, b.rank, b.dims);
    MR_TRY(write_ints(r, 0, equal ? 0 : summed_axes(&a, &b, both.rank, axes), axes));
    return write_ints(r, 1, equal ? 0 : summed_axes(&b, &a, both.rank, axes), axes);
}

static mr_status *gradient_args_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    for (int i = 0; i < 2; i++) {
        MR_TRY(mr_infer_rank(c, c->in[i], 1, &ignored));
        mr_infer_out_vector(c, i, -1);
    }
    return NULL;
}

MR_OP(BroadcastGradientArgs,
    .doc      = "the axes over which the gradients of two broadcast operands are summed",
    .sig      = "s0: T, s1: T -> r0: T, r1: T",
    .attrs    = "T: {int32, int64} = DT_INT32",
    .flags    = MR_CHEAP | MR_NO_GRADIENT,
    .shape    = gradient_args_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_gradient_args, MR_INDEXES)),
    .examples = MR_EXAMPLES(
        "[2, 1, 3], [3] -> [1], [0, 1]", "[4, 1], [1, 5] -> [1], [0]",
        "[2, 3], [2, 3] -> shape(0), shape(0)", "shape(0), [2] -> [0], shape(0)",
        "[1], [1] -> shape(0), shape(0)", "shape(0), [1] -> [0], [0]", "[0], [1] -> shape(0), [0]",
        "[2], [3] -> !INVALID_ARGUMENT Incompatible shapes: [2] vs. [3]"));
