/* distbelief/lbfgs_test.c -- the minimiser over vectors in this test's memory: sandblaster_lbfgs_*. */
#include "distbelief/lbfgs.h"

#include "base/memory.h"
#include "distbelief/line_search.h"
#include "tests/harness/test.h"

enum { MOST = 64, HISTORY = 7, VECTORS = MR_LBFGS_HISTORY + 2 * HISTORY };

typedef struct space {
    double v[VECTORS][MOST];
    int n;
    double (*loss)(const double *x, int n, double *g);
    double lowest;
} space;

static mr_status *dot(void *arg, int a, int b, double *out)
{
    space *s = arg;
    *out = 0;
    for (int i = 0; i < s->n; i++)
        *out += s->v[a][i] * s->v[b][i];
    return NULL;
}

static mr_status *scale(void *arg, int a, double by)
{
    space *s = arg;
    for (int i = 0; i < s->n; i++)
        s->v[a][i] *= by;
    return NULL;
}

static mr_status *axpy(void *arg, int a, int b, double by)
{
    space *s = arg;
    for (int i = 0; i < s->n; i++)
        s->v[a][i] += by * s->v[b][i];
    return NULL;
}

static mr_status *copy(void *arg, int a, int b)
{
    space *s = arg;
    memcpy(s->v[a], s->v[b], sizeof s->v[a]);
    return NULL;
}

static mr_status *evaluate(void *arg, double *loss)
{
    space *s = arg;
    *loss = s->loss(s->v[MR_LBFGS_X], s->n, s->v[MR_LBFGS_G]);
    return NULL;
}

static mr_lbfgs_result minimize(space *s, int64_t most)
{
    mr_lbfgs_space v = {s, dot, scale, axpy, copy, evaluate, NULL};
    mr_lbfgs_result r;
    MR_CHECK_OK(mr_lbfgs_run(&v, &(mr_lbfgs_options){HISTORY, most, 1e-9, 0, 0}, &r));
    return r;
}

static double bowl(const double *x, int n, double *g) /* curvatures from 1 to 1000 */
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double c = pow(10, 3.0 * i / (n - 1));
        sum += c * (x[i] - 1) * (x[i] - 1) / 2;
        g[i] = c * (x[i] - 1);
    }
    return sum;
}

static double valley(const double *x, int n, double *g) /* Rosenbrock's */
{
    double sum = 0;
    memset(g, 0, (size_t)n * sizeof *g);
    for (int i = 0; i + 1 < n; i += 2) {
        double t = x[i + 1] - x[i] * x[i], u = 1 - x[i];
        sum += 100 * t * t + u * u;
        g[i] = -400 * t * x[i] - 2 * u;
        g[i + 1] = 200 * t;
    }
    return sum;
}

MR_TEST(sandblaster_lbfgs_finds_the_bottom_of_a_long_bowl)
{
    space s = {.n = 40, .loss = bowl};
    mr_lbfgs_result r = minimize(&s, 400);
    MR_CHECK_INT(r.end, MR_LBFGS_FLAT);
    for (int i = 0; i < s.n; i++)
        MR_CHECK_NEAR(s.v[MR_LBFGS_X][i], 1, 1e-8);
}

MR_TEST(sandblaster_lbfgs_follows_a_bent_valley)
{
    space s = {.n = 20, .loss = valley};
    for (int i = 0; i < s.n; i++)
        s.v[MR_LBFGS_X][i] = i % 2 ? 1 : -1.2;
    mr_lbfgs_result r = minimize(&s, 200);
    MR_CHECK_NEAR(r.loss, 0, 1e-12);
    MR_CHECK(r.iterations < 100 && r.evaluations < 150); /* steepest descent needs thousands */
}

MR_TEST(sandblaster_lbfgs_stops_at_the_minimum_it_began_in)
{
    space s = {.n = 4, .loss = bowl};
    for (int i = 0; i < s.n; i++)
        s.v[MR_LBFGS_X][i] = 1;
    mr_lbfgs_result r = minimize(&s, 10);
    MR_CHECK_INT(r.end, MR_LBFGS_FLAT);
    MR_CHECK_INT(r.iterations, 0);
}

static double uphill(const double *x, int n, double *g) /* says the wrong way */
{
    double sum = bowl(x, n, g);
    for (int i = 0; i < n; i++)
        g[i] = -g[i];
    return sum;
}

MR_TEST(sandblaster_lbfgs_ends_where_no_step_helps)
{
    space s = {.n = 4, .loss = uphill};
    mr_lbfgs_result r = minimize(&s, 10);
    MR_CHECK_INT(r.end, MR_LBFGS_NO_STEP);
    for (int i = 0; i < s.n; i++)
        MR_CHECK(s.v[MR_LBFGS_X][i] == 0); /* and X is where it was */
}

MR_TEST(sandblaster_lbfgs_refuses_a_history_of_none)
{
    mr_lbfgs_space v = {0};
    mr_lbfgs_result r;
    MR_CHECK_ERR(mr_lbfgs_run(&v, &(mr_lbfgs_options){.history = 0}, &r), MR_INVALID_ARGUMENT, "history");
}

MR_TEST(sandblaster_line_search_survives_infinite_losses)
{
    mr_line_search s;
    mr_line_begin(&s, 1, -1, 64, 0);
    mr_line_do next;
    do { /* (1 - t)^2 / 2 + 0.5 up to 2, then infinite */
        double t = s.step, loss = t > 2 ? INFINITY : (1 - t) * (1 - t) / 2 + 0.5;
        next = mr_line_step(&s, loss, t > 2 ? NAN : t - 1);
    } while (next == MR_LINE_TRY);
    MR_CHECK_INT(next, MR_LINE_TAKE);
    MR_CHECK(s.step > 0.05 && s.step < 2);
}
