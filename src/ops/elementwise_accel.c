/* ops/elementwise_accel.c -- element-wise ops on an accelerator: each has a kernel for equal shapes, and one that walks
 * its inputs where shapes differ. */
#include "ops/elementwise_accel.h"

#include "ops/elementwise.h"

enum { DIMS = MR_ACCEL_DIMS };

static mr_status *too_many(const mr_run *r, const mr_broadcast *b)
{
    return mr_error(MR_UNIMPLEMENTED,
                    "%s on %s: broadcasting these shapes takes %d dimensions, but at most %d are supported",
                    r->node->def->name, r->step->device->type->name, b->rank, DIMS);
}

mr_status *mr_accel_walk(const mr_run *r, const mr_broadcast *b, mr_accel_arg *args, int *n)
{
    if (b->rank > DIMS)
        return too_many(r, b);
    int pad = DIMS - b->rank;
    for (int d = 0; d < DIMS; d++)
        args[(*n)++] = MR_AI(d < pad ? 1 : b->dims[d - pad]);
    for (int k = 0; k < b->n_operands; k++)
        for (int d = 0; d < DIMS; d++)
            args[(*n)++] = MR_AI(d < pad ? 0 : b->strides[k][d - pad]);
    return NULL;
}

/* Makes the result, in an input's memory if nobody else holds it. */
static mr_status *make_result(mr_run *r, int rank, const int64_t *dims, mr_tensor **out)
{
    for (int i = 0; i < r->n_in; i++) {
        const mr_tensor *x = mr_in(r, i);
        if (mr_tensor_sole(x) && x->dtype == mr_out_dtype(r, 0) && mr_shape_eq(x->rank, x->dims, rank, dims))
            return mr_run_forward(r, i, 0, rank, dims, out);
    }
    return mr_run_output(r, 0, rank, dims, out);
}

static mr_status *run_walk(mr_run *r, const char *kernel)
{
    mr_broadcast b;
    mr_accel_arg args[4 + 4 * (DIMS + 1)];
    char name[64];
    mr_tensor *y;
    int n = 2;
    mr_broadcast_init(&b);
    for (int k = 0; k < r->n_in; k++)
        MR_TRY(mr_broadcast_add(&b, mr_in(r, k)->rank, mr_in(r, k)->dims));
    MR_TRY(mr_broadcast_collapse(&b));
    for (int k = 0; k < r->n_in; k++)
        args[n++] = MR_AT(mr_in(r, k));
    MR_TRY(mr_accel_walk(r, &b, args, &n));
    MR_TRY(make_result(r, b.shape.rank, b.shape.dims, &y));
    args[0] = MR_AI(y->n);
    args[1] = MR_AT(y);
    snprintf(name, sizeof name, "%s_walk", kernel);
    return mr_accel_launch(r, name, y->n, args, n);
}

mr_status *mr_each_apply_accel(mr_run *r, const char *kernel)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_accel_arg args[2 + MR_BROADCAST_OPERANDS];
    mr_tensor *y;
    for (int i = 1; i < r->n_in; i++)
        if (r->n_in > 2 || !mr_tensor_same_shape(x, mr_in(r, i)))
            return run_walk(r, kernel);
    for (int i = 0; i < r->n_in; i++) /* before one of them becomes the result */
        args[2 + i] = MR_AT(mr_in(r, i));
    MR_TRY(make_result(r, x->rank, x->dims, &y));
    args[0] = MR_AI(y->n);
    args[1] = MR_AT(y);
    return mr_accel_launch(r, kernel, y->n, args, 2 + r->n_in);
}

mr_status *mr_each_run_accel(mr_run *r) { return mr_each_apply_accel(r, r->kernel->user); }
