/* exec/gradient_fixture.c -- gradients run by a session and compared with finite differences. */
#include "exec/gradient_fixture.h"

#include "base/memory.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

void mr_gradient_fixture_init(mr_gradient_fixture *r)
{
    mr_ops_register();
    *r = (mr_gradient_fixture){.g = mr_graph_new(), .config = {.intra_threads = 2, .inter_threads = 2}};
    mr_fb_init(&r->b, r->g);
}

void mr_gradient_fixture_deinit(mr_gradient_fixture *r)
{
    mr_fb_deinit(&r->b);
    mr_session_free(r->session);
    for (int i = 0; i < r->n_x; i++)
        mr_tensor_unref(r->feed[i]);
    mr_graph_unref(r->g);
}

mr_out mr_gradient_fixture_input(mr_gradient_fixture *r, int rank, const int64_t *dims, bool known)
{
    int i = r->n_x++;
    const mr_pshape *s = known ? mr_pshape_of(&r->g->arena, rank, dims) : NULL;
    MR_CHECK(i < MR_GRADIENT_FIXTURE_INPUTS);
    r->x[i] = mr_placeholder(&r->b.s, MR_DOUBLE, "x", s);
    MR_CHECK_OK(mr_tensor_new(NULL, MR_DOUBLE, rank, dims, &r->feed[i]));
    for (int64_t j = 0; j < r->feed[i]->n; j++)
        MR_DATA(double, r->feed[i])[j] = 0.3 + 0.4 * sin((double)(j + 3 * i));
    return r->x[i];
}

static mr_status *open_session(mr_gradient_fixture *r)
{
    return r->session ? NULL : mr_direct_session_new(r->g, NULL, &r->config, &r->session);
}

mr_status *mr_gradient_fixture_target(mr_gradient_fixture *r, mr_node *n)
{
    MR_TRY(open_session(r));
    return mr_session_run(r->session, &(mr_run_args){.targets = &n, .n_targets = 1}, NULL, NULL);
}

mr_status *mr_gradient_fixture_run(mr_gradient_fixture *r, const mr_out *fetches, int n, mr_tensor **out)
{
    MR_TRY(open_session(r));
    mr_run_args a = {.feeds = r->x,
                     .feed_values = r->feed,
                     .n_feeds = r->n_x,
                     .fetches = fetches,
                     .n_fetches = n,
                     .fetched = out};
    return mr_session_run(r->session, &a, NULL, NULL);
}

static double total(mr_gradient_fixture *r, mr_out y)
{
    mr_tensor *t;
    double sum = 0;
    MR_CHECK_OK(mr_gradient_fixture_run(r, &y, 1, &t));
    for (int64_t i = 0; i < t->n; i++)
        sum += MR_DATA(double, t)[i];
    mr_tensor_unref(t);
    return sum;
}

static double difference(mr_gradient_fixture *r, mr_out y, double *at, double eps)
{
    double was = *at;
    *at = was + eps;
    double more = total(r, y);
    *at = was - eps;
    double less = total(r, y);
    *at = was;
    return (more - less) / (2 * eps);
}

/* Where a conditional tips over close by, differences say nothing. */
static void check_element(mr_gradient_fixture *r, mr_out y, double *at, double got)
{
    double d = difference(r, y, at, 1e-5), again = difference(r, y, at, 4e-6);
    if (fabs(d - again) < 1e-3 * (1 + fabs(d)) && fabs(d - got) > 1e-6 * (1 + fabs(d)))
        mr_test_fail(__FILE__, __LINE__, "program %d: gradient is %.9g, by differences %.9g",
                     r->program, got, d);
}

void mr_gradient_fixture_check(mr_gradient_fixture *r, mr_out y)
{
    mr_gradient dx[MR_GRADIENT_FIXTURE_INPUTS];
    mr_out fetches[MR_GRADIENT_FIXTURE_INPUTS];
    mr_tensor *got[MR_GRADIENT_FIXTURE_INPUTS] = {0};
    int n = 0;
    MR_CHECK_OK(mr_graph_gradients(r->g, &y, 1, r->x, r->n_x, NULL, dx));
    for (int i = 0; i < r->n_x; i++)
        if (dx[i].dense.node)
            fetches[n++] = dx[i].dense;
    if (n > 0)
        MR_CHECK_OK(mr_gradient_fixture_run(r, fetches, n, got));
    for (int i = 0, k = 0; i < r->n_x; i++) {
        const mr_tensor *t = dx[i].dense.node ? got[k++] : NULL;
        if (t && !mr_tensor_same_shape(t, r->feed[i]))
            mr_test_fail(__FILE__, __LINE__, "gradient of shape %s for an input of %s",
                         MR_TENSOR_SHAPE(t), MR_TENSOR_SHAPE(r->feed[i]));
        for (int64_t j = 0; j < r->feed[i]->n; j++)
            check_element(r, y, &MR_DATA(double, r->feed[i])[j], t ? MR_DATA(double, t)[j] : 0);
    }
    for (int i = 0; i < n; i++)
        mr_tensor_unref(got[i]);
}
