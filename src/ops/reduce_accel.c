/* ops/reduce_accel.c -- reductions on an accelerator: dimensions become offsets for the kernels of reduce.cl. */
#include "ops/reduce_accel.h"

#include <stdio.h>

enum { MOST = 4, LONG = 2 * MR_ACCEL_GROUP }; /* MOST: dimensions of each kind; LONG: shortest fold that is worth a
                                               * work-group */

typedef struct sizes { /* of dimensions, outermost first */
    int n;
    int64_t size[MOST], stride[MOST];
} sizes;

/* Adds one dimension in front; false when there is no room. The caller merges neighbours. */
static bool push_front(sizes *s, int64_t size, int64_t stride)
{
    if (s->n == MOST)
        return false;
    memmove(s->size + 1, s->size, sizeof *s->size * (size_t)s->n);
    memmove(s->stride + 1, s->stride, sizeof *s->stride * (size_t)s->n);
    s->size[0] = size;
    s->stride[0] = stride;
    s->n++;
    return true;
}

static bool sort_out(const mr_tensor *x, const bool *fold, sizes *kept, sizes *folded)
{
    int64_t stride = 1;
    int last = -1; /* the last dimension before this one whose size is not 1 */
    *kept = *folded = (sizes){0};
    for (int d = x->rank - 1; d >= 0; d--) {
        if (x->dims[d] == 1)
            continue;
        sizes *s = fold[d] ? folded : kept;
        if (last >= 0 && fold[last] == fold[d])
            s->size[0] *= x->dims[d];
        else if (!push_front(s, x->dims[d], stride))
            return false;
        stride *= x->dims[d];
        last = d;
    }
    return true;
}

/* Appends the sizes of the inner three dimensions and all strides, as offset4 of reduce.cl expects them. */
static int push_args(mr_accel_arg *args, int n, const sizes *s)
{
    int pad = MOST - s->n;
    for (int i = 1; i < MOST; i++)
        args[n++] = MR_AI(i < pad ? 1 : s->size[i - pad]);
    for (int i = 0; i < MOST; i++)
        args[n++] = MR_AI(i < pad ? 0 : s->stride[i - pad]);
    return n;
}

mr_status *mr_reduce_accel(mr_run *r, const char *kernel, const mr_tensor *x, const bool *fold, float divisor, mr_tensor *out)
{
    sizes kept, folded;
    mr_accel_arg args[32];
    char name[64];
    int64_t count = x->n > 0 ? x->n / out->n : 0;
    if (!sort_out(x, fold, &kept, &folded))
        return mr_error(MR_UNIMPLEMENTED, "%s on %s: more than %d groups of folded or kept dimensions, in shape %s",
                        r->node->def->name, r->step->device->type->name, MOST, MR_TENSOR_SHAPE(x));
    args[0] = MR_AI(out->n);
    args[1] = MR_AI(count);
    args[2] = MR_AT(out);
    args[3] = MR_AT(x);
    int n = push_args(args, 4, &kept);
    n = push_args(args, n, &folded);
    args[n++] = MR_AF(divisor);
    bool shared = count >= LONG;
    snprintf(name, sizeof name, "reduce_%s_%s", kernel, shared ? "group" : "item");
    return mr_accel_launch(r, name, shared ? out->n * MR_ACCEL_GROUP : out->n, args, n);
}

static bool is_reshape(const mr_tensor *x, const bool *fold)
{
    for (int d = 0; d < x->rank; d++)
        if (fold[d] && x->dims[d] != 1)
            return false;
    return true;
}

mr_status *mr_reduce_run_accel(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    const char *kernel = r->kernel->user;
    bool fold[MR_MAX_RANK], keep_dims, mean = strcmp(kernel, "mean") == 0;
    MR_TRY(mr_reduce_axes(mr_in(r, 1), x->rank, fold));
    MR_TRY(mr_node_get_bool(r->node, "keep_dims", &keep_dims));
    mr_shape shape;
    int64_t count = 1;
    shape.rank = 0;
    for (int d = 0; d < x->rank; d++) {
        if (!fold[d] || keep_dims)
            shape.dims[shape.rank++] = fold[d] ? 1 : x->dims[d];
        count *= fold[d] ? x->dims[d] : 1;
    }
    if (is_reshape(x, fold))
        return mr_run_reshape(r, 0, 0, shape.rank, shape.dims);
    mr_tensor *y;
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &y));
    return mr_reduce_accel(r, mean ? "sum" : kernel, x, fold, mean ? (float)count : 1, y);
}
