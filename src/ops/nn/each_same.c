/* ops/nn/each_same.c -- runs element-wise loops over inputs of equal shapes, or as many elements. */
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

/* Input 1 in the shape of input 0. */
static mr_status *reshape_second(mr_run *r)
{
    const mr_tensor *a = mr_in(r, 0), *b = mr_in(r, 1);
    mr_tensor *v;
    if (mr_tensor_same_shape(a, b))
        return NULL;
    if (a->n != b->n)
        return mr_invalid("The two arguments to a cwise op must have same number of elements, got %lld and %lld", (long long)a->n,
                          (long long)b->n);
    MR_TRY(mr_tensor_view(b, (mr_dtype)b->dtype, a->rank, a->dims, &v));
    mr_tensor_unref(mr_in(r, 1));
    r->in[1].t = v;
    return NULL;
}

mr_status *mr_each_flat_run(mr_run *r)
{
    MR_TRY(reshape_second(r));
    return mr_each_run(r);
}

mr_status *mr_each_flat_run_accel(mr_run *r)
{
    MR_TRY(reshape_second(r));
    return mr_each_run_accel(r);
}
