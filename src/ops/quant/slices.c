/* ops/quant/slices.c -- checks the axis of quantization, and the ranges of its slices. */
#include "ops/quant/slices.h"

mr_status *mr_slices_init(mr_slices *s, const mr_tensor *x, int64_t axis)
{
    *s = (mr_slices){1, 1, 1};
    if (axis < -1)
        return mr_invalid("Axis must be at least -1. Found %lld", (long long)axis);
    if (axis >= x->rank)
        return mr_invalid("Axis must be less than input dimension(%d), got %lld", x->rank,
                          (long long)axis);
    for (int i = 0; i < x->rank; i++) {
        int64_t *part = i < axis ? &s->outer : i == axis ? &s->n : &s->inner;
        *part *= x->dims[i];
    }
    return NULL;
}

mr_status *mr_slices_check(const mr_slices *s, const mr_run *r, int i, const char *what,
                           int64_t axis)
{
    const mr_tensor *t = mr_in(r, i);
    if (t->n == s->n && (axis >= 0 ? t->rank == 1 : t->rank <= 1))
        return NULL;
    return mr_invalid("%s must have as many elements as input on the quantization axis (%lld), got "
                      "%s, expected %lld", what, (long long)axis, MR_TENSOR_SHAPE(t),
                      (long long)s->n);
}

mr_status *mr_slices_infer(mr_infer *c, int i)
{
    int64_t axis;
    const mr_pshape *min, *max, *ignored;
    MR_TRY(mr_node_get_int(c->node, "axis", &axis));
    if (axis < -1)
        return mr_invalid("axis should be at least -1, got %lld", (long long)axis);
    MR_TRY(mr_infer_rank(c, c->in[i], axis == -1 ? 0 : 1, &min));
    MR_TRY(mr_infer_rank(c, c->in[i + 1], axis == -1 ? 0 : 1, &max));
    if (axis == -1)
        return NULL;
    MR_TRY(mr_infer_merge(c, min, max, &ignored));
    if (axis >= INT32_MAX)
        return mr_invalid("axis should be smaller than %d, got %lld", INT32_MAX, (long long)axis);
    return NULL;
}
