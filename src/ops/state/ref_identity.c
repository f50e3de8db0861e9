/* ops/state/ref_identity.c -- RefIdentity: passes a reference on. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "run/run.h"

static mr_status *ref_identity(mr_run *r)
{
    mr_run_pass(r, 0, 0);
    return NULL;
}

MR_OP(RefIdentity,
    .doc      = "its input, as a reference, whether it has a value yet or not",
    .sig      = "input: Ref(T) -> output: Ref(T)",
    .attrs    = "T: type",
    .flags    = MR_UNINIT_OK | MR_CHEAP | MR_NO_FOLD | MR_HOST_ONLY,
    .shape    = mr_shape_same,
    .grad     = mr_grad_identity,
    .kernels  = MR_KERNELS(MR_CPU_ANY(ref_identity)),
    .examples = MR_EXAMPLES("[[1, 0], [1, 1]] -> [[1, 0], [1, 1]]", "shape(2,0) -> shape(2,0)"));
