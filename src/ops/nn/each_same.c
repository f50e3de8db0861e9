/* ops/nn/each_same.c -- runs element-wise loops over inputs of equal shapes, or of equal sizes. */
#include "ops/nn/each_same.h"

#include "graph/grad.h"

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

/* Replaces input 1 by a view in the shape of input 0. */
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

mr_out mr_grad_shaped(mr_grad *g, mr_out v, mr_out like)
{
    if (!v.node || !like.node)
        return v;
    const mr_pshape *have = v.node->out_shapes[v.index], *want = like.node->out_shapes[like.index];
    if (mr_pshape_full(want) && mr_pshape_eq(have, want))
        return v;
    return mr_emit(g->s, "Reshape", v, mr_emit(g->s, "Shape", like));
}
