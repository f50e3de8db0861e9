/* ops/linalg/matrices.c -- batches of matrices: checks, threads, shapes. */
#include "ops/linalg/matrices.h"

int64_t mr_matrix_count(const mr_tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->rank - 2; d++)
        if (__builtin_mul_overflow(n, t->dims[d], &n)) /* only if another dimension is 0 */
            return 0;
    return n;
}

mr_status *mr_in_matrices(const mr_run *r, int i)
{
    if (mr_in(r, i)->rank < 2)
        return mr_invalid("Input tensor %d must have rank >= 2, but its shape is %s", i,
                          MR_TENSOR_SHAPE(mr_in(r, i)));
    return NULL;
}

mr_status *mr_in_square_matrices(const mr_run *r, int i)
{
    const mr_tensor *t = mr_in(r, i);
    MR_TRY(mr_in_matrices(r, i));
    if (mr_rows(t) != mr_cols(t))
        return mr_invalid("Input matrix must be square, but its shape is %s", MR_TENSOR_SHAPE(t));
    return NULL;
}

static void run_part(void *ctx, int64_t begin, int64_t end)
{
    mr_matrix_job *j = ctx;
    for (int64_t i = begin; i < end && !mr_first_error_any(&j->failed); i++)
        mr_first_error_note(&j->failed, j->one(j, i));
}

mr_status *mr_matrix_cancelled(const mr_run *r)
{
    bool cancelled = r->step->cancel && mr_cancel_started(r->step->cancel);
    return cancelled ? mr_error(MR_CANCELLED, "%s was cancelled", r->node->def->name) : NULL;
}

mr_status *mr_matrix_job_run(mr_matrix_job *j, int64_t n, double flops)
{
    MR_ENSURE(j->dense);
    mr_run_for(j->r, n, 20 + 0.5 * flops, run_part, j);
    return mr_first_error_take(&j->failed);
}

void mr_matrices_copy(mr_run *r, const mr_tensor *from, mr_tensor *to)
{
    if (from->data != to->data && from->n > 0)
        mr_run_convert(r, from, to);
}

mr_status *mr_infer_square(mr_infer *c, int i, const mr_pshape **out)
{
    const mr_pshape *s;
    int64_t n;
    MR_TRY(mr_infer_rank_at_least(c, c->in[i], 2, &s));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(s, -2), mr_infer_dim(s, -1), &n));
    *out = s->rank < 0 ? s
                       : mr_infer_concat(c, mr_infer_sub(c, s, 0, -2),
                                         mr_pshape_matrix(c->arena, n, n));
    return NULL;
}

mr_status *mr_shape_square(mr_infer *c) { return mr_infer_square(c, 0, &c->out[0]); }
