/* ops/random/samples.c -- loops and shapes of ops that sample distributions with parameters. */
#include "ops/random/samples.h"

double mr_pairs_uniform(mr_pairs *s)
{
    if (s->uniforms == 0) {
        uint32_t w[4];
        mr_philox_next(&s->p, w);
        s->uniform[0] = mr_philox_double(w[0], w[1]);
        s->uniform[1] = mr_philox_double(w[2], w[3]);
        s->uniforms = 2;
    }
    return s->uniform[--s->uniforms];
}

double mr_pairs_normal(mr_pairs *s)
{
    if (s->normals == 0) {
        uint32_t w[4];
        mr_philox_next(&s->p, w);
        mr_philox_normal_double(w, s->normal);
        s->normals = 2;
    }
    return s->normal[--s->normals];
}

double mr_number_at(const mr_tensor *t, int64_t i)
{
    double v;
    size_t bytes = mr_dtype_size((mr_dtype)t->dtype);
    mr_dtype_convert((mr_dtype)t->dtype, (const char *)t->data + (size_t)i * bytes, MR_DOUBLE, &v,
                     1, false);
    return v;
}

static void draw_samples(void *ctx, int64_t begin, int64_t end)
{
    const mr_samples *s = ctx;
    mr_dtype type = (mr_dtype)s->out->dtype;
    for (int64_t k = begin; k < end; k++) {
        int64_t param = k / s->n_samples, at = k % s->n_samples * s->n_params + param;
        double v = s->draw(s, k, param);
        mr_dtype_convert(MR_DOUBLE, &v, type,
                         (char *)s->out->data + (size_t)at * mr_dtype_size(type), 1, false);
    }
}

void mr_samples_run(mr_run *r, mr_samples *s, double cost_ns)
{
    if (s->out->n > 0)
        mr_run_for(r, s->out->n, cost_ns, draw_samples, s);
}

mr_status *mr_samples_before(mr_run *r, int params, mr_samples *out)
{
    mr_shape shape;
    const mr_tensor *p = mr_in(r, params);
    MR_TRY(mr_in_shape(r, 0, "shape", 0, &shape));
    MR_TRY(mr_shape_elements(shape.rank, shape.dims, &out->n_samples));
    out->n_params = p->n;
    for (int i = 0; i < p->rank; i++)
        MR_TRY(mr_shape_push(&shape, p->dims[i]));
    return mr_run_output(r, 0, shape.rank, shape.dims, &out->out);
}

mr_status *mr_samples_before_infer(mr_infer *c, int params)
{
    const mr_pshape *shape;
    MR_TRY(mr_infer_shape_value(c, 0, &shape));
    c->out[0] = mr_infer_concat(c, shape, c->in[params]);
    return NULL;
}

mr_status *mr_samples_ending(mr_run *r, int i, int rank, const int64_t *dims, mr_samples *out)
{
    mr_shape shape;
    MR_TRY(mr_in_shape(r, i, "shape", 0, &shape));
    int before = shape.rank - rank;
    if (before < 0 || !mr_shape_eq(rank, shape.dims + before, rank, dims))
        return mr_invalid("Shape passed in must end with broadcasted shape.");
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out->out));
    MR_TRY(mr_shape_elements(before, shape.dims, &out->n_samples));
    return mr_shape_elements(rank, dims, &out->n_params);
}
