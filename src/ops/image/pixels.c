/* ops/image/pixels.c -- converts pixels of any type to float, and checks that many image ops share. */
#include "ops/image/pixels.h"

mr_status *mr_pixels_in(mr_run *r, int i, mr_dtype type, mr_wide *out)
{
    mr_tensor *x = mr_in(r, i);
    *out = (mr_wide){x, false};
    if ((mr_dtype)x->dtype == type)
        return NULL;
    *out = (mr_wide){0};
    MR_TRY(mr_run_temp(r, type, x->rank, x->dims, &out->t));
    out->copy = true;
    mr_run_convert(r, x, out->t);
    return NULL;
}

mr_status *mr_pixels_out(mr_run *r, int i, mr_dtype type, int rank, const int64_t *dims, bool zeros, mr_wide *out)
{
    *out = (mr_wide){0};
    MR_TRY(mr_run_output(r, i, rank, dims, &out->t));
    if (mr_out_dtype(r, i) != type) {
        out->t = NULL;
        MR_TRY(mr_run_temp(r, type, rank, dims, &out->t));
        out->copy = true;
    }
    if (zeros)
        mr_tensor_zero(out->t);
    return NULL;
}

mr_status *mr_in_scalar_float(const mr_run *r, int i, const char *what, float *out)
{
    const mr_tensor *t = mr_in(r, i);
    if (t->rank != 0)
        return mr_invalid("%s must be 0-D, got shape %s", what, MR_TENSOR_SHAPE(t));
    mr_dtype_convert((mr_dtype)t->dtype, t->data, MR_FLOAT, out, 1, false);
    return NULL;
}

mr_status *mr_in_int32_vector(const mr_run *r, int i, const char *what, int n, const int32_t **out)
{
    const mr_tensor *t = mr_in(r, i);
    if (t->rank != 1 || t->n != n)
        return mr_invalid("%s must be a vector of %d elements, got shape %s", what, n, MR_TENSOR_SHAPE(t));
    *out = MR_DATA(const int32_t, t);
    return NULL;
}

mr_status *mr_check_images(const mr_tensor *t, bool rgb)
{
    if (t->rank < 3)
        return mr_invalid("input must be at least 3-D, got shape %s", MR_TENSOR_SHAPE(t));
    if (rgb && t->dims[t->rank - 1] != 3)
        return mr_invalid("input must have 3 channels but instead has %lld channels.",
                          (long long)t->dims[t->rank - 1]);
    return NULL;
}

mr_status *mr_shape_images(mr_infer *c)
{
    return mr_infer_rank_at_least(c, c->in[0], 3, &c->out[0]);
}

mr_status *mr_shape_colors(mr_infer *c)
{
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &c->out[0]));
    return mr_infer_dim_is(mr_infer_dim(c->out[0], -1), 3);
}

mr_status *mr_infer_ranks(mr_infer *c, int n, const int *ranks)
{
    const mr_pshape *s;
    for (int i = 0; i < n; i++)
        if (ranks[i] >= 0)
            MR_TRY(mr_infer_rank(c, c->in[i], ranks[i], &s));
    return NULL;
}
