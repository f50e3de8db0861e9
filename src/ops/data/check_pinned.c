/* ops/data/check_pinned.c -- CheckPinned: tells whether a tensor is in host memory that is pinned for CUDA.
 *
 * TensorFlow knows this only if it was built with CUDA, and returns an error otherwise; we are never built with
 * CUDA, so we always return it. */
#include "graph/infer.h"
#include "run/run.h"

static mr_status *check_pinned(mr_run *r)
{
    (void)r;
    return mr_error(MR_FAILED_PRECONDITION, "to check pinnedness, must be built with `--config=cuda`");
}

MR_OP(CheckPinned,
    .doc     = "its input, if it lies in memory pinned for CUDA, which is never here",
    .sig     = "tensor: T -> output: T",
    .attrs   = "T: type",
    .flags   = MR_NO_FOLD | MR_NO_GRADIENT,
    .shape   = mr_shape_same,
    .kernels = MR_KERNELS(MR_CPU_ANY(check_pinned)),
    .examples = MR_EXAMPLES("[1, 0] -> !FAILED_PRECONDITION to check pinnedness, must be built with `--config=cuda`",
                            "shape(0) -> !FAILED_PRECONDITION to check pinnedness"));
