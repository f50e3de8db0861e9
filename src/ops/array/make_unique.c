/* ops/array/make_unique.c -- MakeUnique: makes the elements of a row different from each other in their last bits. */
#include "base/memory.h"
#include "graph/infer.h"
#include "run/run.h"

/* Replaces the low bits by the column number, as many as the largest number needs. A zero first becomes the
 * smallest normal number, so that the result is never zero or denormal. The sign is kept. */
static uint32_t mark_column(uint32_t bits, uint32_t mask, uint32_t column)
{
    if ((bits & 0x7fffffff) == 0)
        bits |= 0x00800000;
    return (bits & ~mask) | column;
}

static mr_status *run_make_unique(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *y;
    uint32_t mask = 1;
    if (x->rank != 2)
        return mr_invalid("input must be a matrix, got shape %s", MR_TENSOR_SHAPE(x));
    if (x->dims[1] > 1 << 23)
        return mr_invalid("%lld columns are too many: their numbers do not fit into the bits of a float",
                          (long long)x->dims[1]);
    while (mask < (uint64_t)x->dims[1])
        mask *= 2;
    MR_TRY(mr_run_output(r, 0, 2, x->dims, &y));
    const uint32_t *from = x->data;
    uint32_t *to = y->data;
    for (int64_t i = 0; i < x->n; i++)
        to[i] = mark_column(from[i], mask - 1, (uint32_t)(i % x->dims[1]));
    return NULL;
}

static mr_status *make_unique_shape(mr_infer *c) { return mr_infer_rank(c, c->in[0], 2, &c->out[0]); }

MR_OP(MakeUnique,
    .doc      = "the elements of each row made different from each other by their last bits",
    .sig      = "input: float -> output: float",
    .flags    = MR_NO_GRADIENT,
    .shape    = make_unique_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_make_unique)),
    .examples = MR_EXAMPLES("[[1, 1]] -> [[1, 1.00000012]]", "[[0, -2]] -> [[1.17549435e-38, -2.00000024]]", "[[3]] -> [[3]]",
                            "shape(0,2) -> shape(0,2)", "[1] -> !INVALID_ARGUMENT must be rank 2"));
