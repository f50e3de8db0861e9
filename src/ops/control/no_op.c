/* ops/control/no_op.c -- ops that only order other ops: NoOp, ControlTrigger.
 *
 * ControlTrigger differs from NoOp in the executor: dead control inputs do not make it dead. */
#include "graph/infer.h"
#include "run/run.h"

static mr_status *run_no_op(mr_run *r)
{
    (void)r;
    return NULL;
}

MR_OP(NoOp,
    .doc     = "does nothing; a place for control edges",
    .sig     = "->",
    .flags   = MR_CHEAP | MR_NO_GRADIENT | MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = mr_shape_none,
    .kernels = MR_KERNELS(MR_CPU_ANY(run_no_op)),
    .examples = MR_EXAMPLES("->"));

MR_OP(ControlTrigger,
    .doc     = "does nothing, and is never dead: a place for control edges out of conditionals",
    .sig     = "->",
    .flags   = MR_CHEAP | MR_NO_GRADIENT | MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = mr_shape_none,
    .kernels = MR_KERNELS(MR_CPU_ANY(run_no_op)),
    .examples = MR_EXAMPLES("->"));
