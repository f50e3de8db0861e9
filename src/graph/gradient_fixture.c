/* graph/gradient_fixture.c -- checks gradients against finite differences, without kernels. */
#include "graph/gradient_fixture.h"

#include "graph/control_flow.h"

void mr_gtrial_init(mr_gtrial *t, int n_x)
{
    mr_mini_register();
    *t = (mr_gtrial){.g = mr_graph_new(), .n_x = n_x};
    mr_fb_init(&t->b, t->g);
    for (int i = 0; i < n_x; i++) {
        t->x[i] = mr_placeholder(&t->b.s, MR_DOUBLE, "x", &mr_pshape_scalar);
        t->feed[i] = (mr_mini_feed){t->x[i].node, -1, {0.3 + 0.4 * i}};
    }
}

void mr_gtrial_vector(mr_gtrial *t, int i, int n, bool known)
{
    const mr_pshape *s = known ? mr_pshape_vector(&t->g->arena, n) : NULL;
    t->x[i] = mr_placeholder(&t->b.s, MR_DOUBLE, "v", s);
    t->feed[i] = (mr_mini_feed){t->x[i].node, n, {0}};
    for (int j = 0; j < n; j++)
        t->feed[i].v[j] = 0.2 + 0.3 * j;
}

void mr_gtrial_deinit(mr_gtrial *t)
{
    mr_fb_deinit(&t->b);
    mr_graph_unref(t->g);
}

static double total(mr_gtrial *t, mr_out y, uint64_t seed)
{
    mr_mini_value v;
    double sum = 0;
    MR_CHECK_OK(mr_mini_run(t->g, t->feed, t->n_x, &y, 1, seed, &v));
    MR_CHECK(!v.dead);
    for (int i = 0; i < v.n; i++)
        sum += v.v[i];
    return sum;
}

static double difference(mr_gtrial *t, mr_out y, int x, int i, double eps)
{
    double at = t->feed[x].v[i];
    t->feed[x].v[i] = at + eps;
    double more = total(t, y, 1);
    t->feed[x].v[i] = at - eps;
    double less = total(t, y, 1);
    t->feed[x].v[i] = at;
    return (more - less) / (2 * eps);
}

/* NaN where a conditional tips over so close by that differences say nothing. */
static double by_differences(mr_gtrial *t, mr_out y, int x, int i)
{
    double d = difference(t, y, x, i, 1e-5);
    return fabs(d - difference(t, y, x, i, 4e-6)) < 1e-3 * (1 + fabs(d)) ? d : NAN;
}

static void check_one(mr_gtrial *t, mr_out dx, uint64_t order, int n, const double *expected)
{
    mr_mini_value v = {0};
    if (dx.node)
        MR_CHECK_OK(mr_mini_run(t->g, t->feed, t->n_x, &dx, 1, order, &v));
    MR_CHECK(!v.dead);
    for (int j = 0; j < n; j++)
        if (!isnan(expected[j]) && !(fabs(v.v[j] - expected[j]) < 1e-6))
            mr_test_fail(__FILE__, __LINE__, "program %d: gradient is %g, by differences %g",
                         t->program, v.v[j], expected[j]);
}

/* A node's inputs are all of one frame, as the executor demands. */
static void check_frames(mr_graph *g)
{
    mr_cflow f;
    mr_cflow_init(&f, g);
    for (int i = 0; i < g->nodes.n; i++) {
        const mr_node *n = g->nodes.p[i];
        const mr_loop_frame *frame = NULL;
        for (int j = -n->n_ctrl; j < n->n_in; j++) {
            mr_out in = j < 0 ? (mr_out){n->ctrl[-1 - j], 0} : n->in[j];
            const mr_loop_frame *from = mr_cflow_value_frame(&f, in);
            if (frame && from != frame)
                mr_test_fail(__FILE__, __LINE__, "%s '%s' has inputs of frames '%s' and '%s'",
                             n->def->name, n->name, frame->name, from->name);
            frame = from;
        }
    }
    mr_cflow_deinit(&f);
}

void mr_gtrial_check(mr_gtrial *t, mr_out y)
{
    mr_gradient dx[4];
    MR_CHECK_OK(mr_graph_gradients(t->g, &y, 1, t->x, t->n_x, NULL, dx));
    check_frames(t->g);
    for (int i = 0; i < t->n_x; i++) {
        int n = t->feed[i].n < 0 ? 1 : t->feed[i].n;
        double expected[8];
        for (int j = 0; j < n; j++)
            expected[j] = by_differences(t, y, i, j);
        for (uint64_t order = 1; order <= 4; order++)
            check_one(t, dx[i].dense, order, n, expected);
    }
}
