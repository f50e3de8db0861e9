/* ops/nn/wide.c -- converts 16-bit floats to float and back around a kernel. */
#include "ops/nn/wide.h"

#include "ops/nn/layout.h"

#define CONVERT_NS 0.7 /* per element */

typedef struct conversion {
    const char *from;
    char *to;
    mr_dtype from_type, to_type;
} conversion;

static void convert_part(void *ctx, int64_t begin, int64_t end)
{
    const conversion *c = ctx;
    mr_dtype_convert(c->from_type, c->from + (size_t)begin * mr_dtype_size(c->from_type),
                     c->to_type, c->to + (size_t)begin * mr_dtype_size(c->to_type), end - begin,
                     false);
}

void mr_run_convert(mr_run *r, const mr_tensor *from, mr_tensor *to)
{
    MR_ASSERT(from->n == to->n);
    conversion c = {from->data, to->data, (mr_dtype)from->dtype, (mr_dtype)to->dtype};
    mr_run_for(r, from->n, CONVERT_NS, convert_part, &c);
}

mr_status *mr_wide_in(mr_run *r, int i, mr_wide *out)
{
    mr_tensor *x = mr_in(r, i);
    mr_dtype wide = mr_wide_type((mr_dtype)x->dtype);
    *out = (mr_wide){x, false};
    if (wide == (mr_dtype)x->dtype)
        return NULL;
    *out = (mr_wide){0};
    MR_TRY(mr_run_temp(r, wide, x->rank, x->dims, &out->t));
    out->copy = true;
    mr_run_convert(r, x, out->t);
    return NULL;
}

mr_status *mr_wide_out(mr_run *r, int in, int i, int rank, const int64_t *dims, mr_wide *out)
{
    mr_dtype narrow = mr_out_dtype(r, i), wide = mr_wide_type(narrow);
    *out = (mr_wide){0};
    if (wide == narrow && in >= 0)
        return mr_run_forward(r, in, i, rank, dims, &out->t);
    if (wide == narrow)
        return mr_run_output(r, i, rank, dims, &out->t);
    MR_TRY(
        mr_run_output(r, i, rank, dims, &out->t)); /* reports early if there is no memory for it */
    MR_TRY(mr_run_temp(r, wide, rank, dims, &out->t));
    out->copy = true;
    return NULL;
}

void mr_wide_store(mr_run *r, int i, const mr_wide *y)
{
    if (y->copy)
        mr_run_convert(r, y->t, r->out[i].t);
}

void mr_wide_deinit(mr_wide *w)
{
    if (w->copy)
        mr_tensor_unref(w->t);
    *w = (mr_wide){0};
}

mr_status *mr_wide_turn(mr_run *r, mr_wide *w, int64_t batch, int64_t rows, int64_t cols)
{
    mr_tensor *turned;
    mr_dtype type = (mr_dtype)w->t->dtype;
    MR_ASSERT(batch * rows * cols == w->t->n);
    MR_TRY(mr_run_temp(r, type, 3, (const int64_t[]){batch, cols, rows}, &turned));
    mr_run_turn(r, w->t->data, turned->data, mr_dtype_size(type), batch, rows, cols);
    mr_wide_deinit(w);
    *w = (mr_wide){turned, true};
    return NULL;
}
