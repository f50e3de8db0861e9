/* ops/nn/each_same.c -- runs element-wise loops over inputs of equal shapes. */
#include "ops/nn/each_same.h"

mr_status *mr_check_same_shape(const mr_run *r)
{
    const mr_tensor *a = mr_in(r, 0), *b = mr_in(r, 1);
    if (mr_tensor_same_shape(a, b))
        return NULL;
    return mr_invalid("Inputs to operation %s of type %s must have the same size and shape.  Input "
                      "0: %s != input 1: %s",
                      r->node->name, r->node->def->name, MR_TENSOR_SHAPE(a), MR_TENSOR_SHAPE(b));
}

mr_status *mr_each_same_run(mr_run *r)
{
    MR_TRY(mr_check_same_shape(r));
    return mr_each_run(r);
}

mr_status *mr_each_same_run_accel(mr_run *r)
{
    MR_TRY(mr_check_same_shape(r));
    return mr_each_run_accel(r);
}
