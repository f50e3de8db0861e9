#include "ps/update.h"

#include "base/memory.h"
#include "exec/session.h"
#include "graph/scope.h"
#include "ops/table.h"
#include "tests/harness/test.h"

enum { N = 37, STEPS = 6 };

static float draw(void) { return (float)((double)(int64_t)mr_test_random() * 0x1p-63); }

/* ---- the same steps by the ops ---- */

/* A graph with a variable, its slots and one ApplyX, whose gradient (and Adam's powers) are fed. */
typedef struct op_bench {
    mr_graph *g;
    mr_scope s;
    mr_session *session;
    mr_out feeds[3], var, step;
    mr_out init[4];
    int n_vars;
} op_bench;

static mr_out variable(op_bench *b, float start)
{
    mr_out v = mr_emit0_with(&b->s, "VariableV2", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)},
                                                           {"shape", mr_a_shape(mr_pshape_vector(&b->g->arena, N))}));
    mr_out first = mr_emit(&b->s, "Fill", mr_const_vec_i32(&b->s, 1, (const int32_t[]){N}),
                           mr_const_f32(&b->s, start));
    b->init[b->n_vars++] = mr_emit(&b->s, "Assign", v, first);
    return v;
}

static mr_tensor *vector(const float *v)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 1, (const int64_t[]){N}, &t));
    memcpy(MR_DATA(float, t), v, N * sizeof(float));
    return t;
}

static void op_begin(op_bench *b)
{
    mr_ops_register();
    *b = (op_bench){.g = mr_graph_new()};
    mr_scope_init(&b->s, b->g, "");
    b->feeds[0] = mr_placeholder(&b->s, MR_FLOAT, "g", NULL);
    b->feeds[1] = mr_placeholder(&b->s, MR_FLOAT, "power1", NULL);
    b->feeds[2] = mr_placeholder(&b->s, MR_FLOAT, "power2", NULL);
    b->var = variable(b, 0.5f);
}

static void op_start(op_bench *b)
{
    MR_CHECK_OK(mr_scope_status(&b->s));
    MR_CHECK_OK(mr_direct_session_new(b->g, NULL, &(mr_session_config){0}, &b->session));
    for (int i = 0; i < b->n_vars; i++)
        MR_CHECK_OK(mr_session_run(b->session, &(mr_run_args){.targets = &b->init[i].node, .n_targets = 1},
                                   NULL, NULL));
}

static void op_step(op_bench *b, const float *g, float power1, float power2, float *out)
{
    mr_tensor *in[] = {vector(g), mr_tensor_scalar_f32(power1), mr_tensor_scalar_f32(power2)};
    mr_tensor *got = NULL;
    mr_run_args a = {.feeds = b->feeds, .feed_values = in, .n_feeds = 3,
                     .fetches = &b->step, .fetched = &got, .n_fetches = 1};
    MR_CHECK_OK(mr_session_run(b->session, &a, NULL, NULL));
    memcpy(out, MR_DATA(float, got), N * sizeof(float));
    mr_tensor_unref(got);
    for (int i = 0; i < 3; i++)
        mr_tensor_unref(in[i]);
}

/* Pushes of random gradients leave the values that the op leaves. */
static void compare(op_bench *b, mr_ps_rule rule)
{
    op_start(b);
    rule.width = 1;
    MR_CHECK_OK(mr_ps_rule_init(&rule));
    float *planes = mr_new_array(float, N * mr_ps_rule_planes(&rule));
    mr_ps_rule_fill(planes, 0, N, 1, 0.5f, 0, 1);
    mr_ps_rule_start(&rule, planes, N);
    float power1 = 1, power2 = 1, g[N], want[N];
    for (int t = 0; t < STEPS; t++) {
        for (int i = 0; i < N; i++)
            g[i] = i == 3 ? 0 : 2 * draw();
        power1 *= rule.a, power2 *= rule.b;
        op_step(b, g, power1, power2, want);
        mr_ps_rule_apply(&rule, planes, N, NULL, N, g);
        for (int i = 0; i < N; i++)
            if (planes[i] != want[i])
                mr_test_fail(__FILE__, __LINE__, "step %d element %d: %.9g, the op %.9g", t, i,
                             (double)planes[i], (double)want[i]);
    }
    mr_free(planes);
    mr_ps_rule_deinit(&rule);
    mr_session_free(b->session);
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
}

#define F(v) mr_const_f32(&b.s, v)

MR_TEST(ps_update_sgd_is_apply_gradient_descent)
{
    op_bench b;
    op_begin(&b);
    b.step = mr_emit(&b.s, "ApplyGradientDescent", b.var, F(0.3f), b.feeds[0]);
    compare(&b, (mr_ps_rule){.kind = MR_RULE_SGD, .rate = 0.3f});
}

MR_TEST(ps_update_sgd_with_penalties_is_apply_proximal_gradient_descent)
{
    op_bench b;
    op_begin(&b);
    b.step = mr_emit(&b.s, "ApplyProximalGradientDescent", b.var, F(0.3f), F(0.5f), F(0.1f), b.feeds[0]);
    compare(&b, (mr_ps_rule){.kind = MR_RULE_SGD, .rate = 0.3f, .l1 = 0.5f, .l2 = 0.1f});
}

MR_TEST(ps_update_momentum_is_apply_momentum)
{
    op_bench b;
    op_begin(&b);
    b.step = mr_emit(&b.s, "ApplyMomentum", b.var, variable(&b, 0), F(0.3f), b.feeds[0], F(0.8f));
    compare(&b, (mr_ps_rule){.kind = MR_RULE_MOMENTUM, .rate = 0.3f, .a = 0.8f});
}

MR_TEST(ps_update_nesterov_is_apply_momentum_with_it)
{
    op_bench b;
    op_begin(&b);
    b.step = mr_emit_with(&b.s, "ApplyMomentum", MR_ATTRS({"use_nesterov", mr_a_bool(true)}), b.var,
                          variable(&b, 0), F(0.3f), b.feeds[0], F(0.9f));
    compare(&b, (mr_ps_rule){.kind = MR_RULE_MOMENTUM, .rate = 0.3f, .b = 1});
}

MR_TEST(ps_update_adagrad_is_apply_adagrad)
{
    op_bench b;
    op_begin(&b);
    b.step = mr_emit(&b.s, "ApplyAdagrad", b.var, variable(&b, 0.1f), F(0.3f), b.feeds[0]);
    compare(&b, (mr_ps_rule){.kind = MR_RULE_ADAGRAD, .rate = 0.3f});
}

MR_TEST(ps_update_adagrad_with_penalties_is_apply_proximal_adagrad)
{
    op_bench b;
    op_begin(&b);
    b.step = mr_emit(&b.s, "ApplyProximalAdagrad", b.var, variable(&b, 0.2f), F(0.3f), F(0.5f), F(0.25f),
                     b.feeds[0]);
    compare(&b, (mr_ps_rule){.kind = MR_RULE_ADAGRAD, .rate = 0.3f, .a = 0.2f, .l1 = 0.5f, .l2 = 0.25f});
}

MR_TEST(ps_update_rmsprop_is_apply_rmsprop)
{
    op_bench b;
    op_begin(&b);
    mr_out ms = variable(&b, 1), mom = variable(&b, 0);
    b.step = mr_emit(&b.s, "ApplyRMSProp", b.var, ms, mom, F(0.03f), F(0.9f), F(0.5f), F(1e-3f), b.feeds[0]);
    compare(&b, (mr_ps_rule){.kind = MR_RULE_RMSPROP, .rate = 0.03f, .b = 0.5f, .epsilon = 1e-3f});
}

MR_TEST(ps_update_adam_is_apply_adam)
{
    op_bench b;
    op_begin(&b);
    mr_out m = variable(&b, 0), v = variable(&b, 0);
    b.step = mr_emit(&b.s, "ApplyAdam", b.var, m, v, b.feeds[1], b.feeds[2], F(0.03f), F(0.9f), F(0.999f),
                     F(1e-8f), b.feeds[0]);
    compare(&b, (mr_ps_rule){.kind = MR_RULE_ADAM, .rate = 0.03f});
}

MR_TEST(ps_update_ftrl_is_apply_ftrl)
{
    op_bench b;
    op_begin(&b);
    mr_out accum = variable(&b, 0.1f), linear = variable(&b, 0);
    b.step = mr_emit(&b.s, "ApplyFtrl", b.var, accum, linear, b.feeds[0], F(0.3f), F(0.4f), F(0.1f), F(-0.5f));
    compare(&b, (mr_ps_rule){.kind = MR_RULE_FTRL, .rate = 0.3f, .l1 = 0.4f, .l2 = 0.1f});
}

/* ---- rows ---- */

/* Rows that lie apart come out as if they were pushed alone, and the others stay. */
static void rows_are_independent(mr_ps_rule_kind kind, int width)
{
    enum { ROWS = 23, PUSHED = 7 };
    const uint32_t rows[PUSHED] = {0, 2, 3, 9, 10, 15, 22};
    mr_ps_rule r = {.kind = kind, .width = width, .l1 = kind >= MR_RULE_FTRL ? 0.1f : 0};
    MR_CHECK_OK(mr_ps_rule_init(&r));
    int planes = mr_ps_rule_planes(&r), push_width = mr_ps_rule_push_width(&r);
    float *all = mr_new_array(float, ROWS * width * planes), *some = mr_new_array(float, ROWS * width * planes);
    float *g = mr_new_array(float, ROWS * push_width), *g_some = mr_new_array(float, PUSHED * push_width);
    mr_ps_rule_fill(all, 100, ROWS, width, 0, 1, 5);
    mr_ps_rule_start(&r, all, ROWS);
    memcpy(some, all, sizeof(float) * (size_t)(ROWS * width * planes));
    float *before = mr_new_array(float, ROWS * width);
    memcpy(before, all, sizeof(float) * (size_t)(ROWS * width));
    for (int t = 0; t < 3; t++) {
        for (int i = 0; i < ROWS * push_width; i++)
            g[i] = draw();
        for (int k = 0; k < PUSHED; k++)
            memcpy(g_some + k * push_width, g + (int)rows[k] * push_width, sizeof(float) * (size_t)push_width);
        mr_ps_rule_apply(&r, all, ROWS, NULL, ROWS, g);
        mr_ps_rule_apply(&r, some, ROWS, rows, PUSHED, g_some);
    }
    for (int i = 0, k = 0; i < ROWS; i++) {
        bool pushed = k < PUSHED && (int)rows[k] == i;
        k += pushed;
        MR_CHECK(memcmp(some + i * width, (pushed ? all : before) + i * width, sizeof(float) * (size_t)width) == 0);
    }
    mr_free(all), mr_free(some), mr_free(g), mr_free(g_some), mr_free(before);
    mr_ps_rule_deinit(&r);
}

MR_TEST(ps_update_rows_of_one_float_are_independent)
{
    for (int k = 0; k < MR_RULE_KINDS; k++)
        rows_are_independent((mr_ps_rule_kind)k, 1);
}

MR_TEST(ps_update_wide_rows_are_independent)
{
    for (int k = 0; k < MR_RULE_KINDS; k++)
        rows_are_independent((mr_ps_rule_kind)k, 5);
}

MR_TEST(ps_update_values_start_by_seed_and_key_alone)
{
    float whole[20], part[6];
    mr_ps_rule_fill(whole, 50, 10, 2, 1, 0.5f, 7);
    mr_ps_rule_fill(part, 53, 3, 2, 1, 0.5f, 7);
    MR_CHECK(memcmp(whole + 6, part, sizeof part) == 0);
    float low = 2, high = 0;
    for (int i = 0; i < 20; i++)
        low = MR_MIN(low, whole[i]), high = MR_MAX(high, whole[i]);
    MR_CHECK(low >= 0.5f && low < 0.8f && high <= 1.5f && high > 1.2f);
    mr_ps_rule_fill(part, 53, 3, 2, 1, 0.5f, 8);
    MR_CHECK(memcmp(whole + 6, part, sizeof part) != 0);
}

/* ---- the proximal step ---- */

static float proximal(float w, float g, float u, float rate, float l1, float l2)
{
    mr_ps_rule r = {.kind = MR_RULE_PROXIMAL, .width = 1, .rate = rate, .l1 = l1, .l2 = l2};
    MR_CHECK_OK(mr_ps_rule_init(&r));
    mr_ps_rule_apply(&r, &w, 1, NULL, 1, (float[]){g, u});
    mr_ps_rule_deinit(&r);
    return w;
}

MR_TEST(ps_update_proximal_is_the_soft_threshold)
{
    MR_CHECK_NEAR(proximal(1, 2, 4, 1, 0, 0), 0.5, 1e-6);       /* w - g / u */
    MR_CHECK_NEAR(proximal(1, 2, 4, 1, 1, 0), 0.25, 1e-6);      /* shrunk by l1 / u */
    MR_CHECK_NEAR(proximal(-1, -2, 4, 1, 1, 0), -0.25, 1e-6);
    MR_CHECK_NEAR(proximal(1, 2, 4, 1, 3, 0), 0, 0);            /* not past 0 */
    MR_CHECK_NEAR(proximal(1, 2, 4, 0.5f, 1, 0), 5. / 8, 1e-6); /* half the step */
    MR_CHECK_NEAR(proximal(1, 2, 4, 1, 1, 1), 1. / 5, 1e-6);
}

MR_TEST(ps_update_proximal_is_least_where_it_lands)
{
    for (int i = 0; i < 200; i++) {
        double w = (double)draw() * 2, g = (double)draw() * 3, u = 0.1 + fabs((double)draw()), l1 = fabs((double)draw());
        double l2 = 0.2, x = (double)proximal((float)w, (float)g, (float)u, 1, (float)l1, (float)l2);
#define COST(x) (g * ((x)-w) + u / 2 * ((x)-w) * ((x)-w) + l2 / 2 * (x) * (x) + l1 * fabs(x))
        MR_CHECK(COST(x) <= COST(x + 1e-2) && COST(x) <= COST(x - 1e-2));
#undef COST
    }
}

MR_TEST(ps_update_proximal_without_curvature_stays)
{
    MR_CHECK_NEAR(proximal(1, 2, 0, 1, 1, 0), 1, 0);
    MR_CHECK_NEAR(proximal(1, 2, -1, 1, 1, 0), 1, 0);
    MR_CHECK_NEAR(proximal(1, 2, NAN, 1, 1, 0), 1, 0);
}

/* ---- hostile and long-lived ---- */

MR_TEST(ps_update_adam_survives_any_count)
{
    mr_ps_rule r = {.kind = MR_RULE_ADAM, .width = 1};
    MR_CHECK_OK(mr_ps_rule_init(&r));
    const float counts[] = {NAN, INFINITY, -INFINITY, -5, 1e30f, (float)r.n_adam};
    for (int i = 0; i < MR_COUNT(counts); i++) {
        float planes[4] = {1, 0, 0, counts[i]};
        mr_ps_rule_apply(&r, planes, 1, NULL, 1, (float[]){0.5f});
        MR_CHECK(planes[0] < 1 && planes[0] > 0.9f);
        MR_CHECK(planes[3] >= 1 && planes[3] <= (float)(r.n_adam - 1));
    }
    mr_ps_rule_deinit(&r);
}

static void refuses(mr_ps_rule r, const char *text)
{
    MR_CHECK_ERR(mr_ps_rule_init(&r), MR_INVALID_ARGUMENT, text);
    mr_ps_rule_deinit(&r);
}

MR_TEST(ps_update_refuses_what_makes_no_sense)
{
    refuses((mr_ps_rule){.kind = (mr_ps_rule_kind)99, .width = 1}, "unknown kind 99");
    refuses((mr_ps_rule){.kind = MR_RULE_ADD}, "width is 0");
    refuses((mr_ps_rule){.kind = MR_RULE_SGD, .width = 1, .rate = NAN}, "not finite");
    refuses((mr_ps_rule){.kind = MR_RULE_ADD, .width = 1, .l1 = 1}, "penalties are not supported");
    refuses((mr_ps_rule){.kind = MR_RULE_FTRL, .width = 1, .l1 = -1}, "must not be negative");
    refuses((mr_ps_rule){.kind = MR_RULE_ADAM, .width = 1, .a = 1}, "between 0 and 1");
    refuses((mr_ps_rule){.kind = MR_RULE_PROXIMAL, .width = 1, .rate = -1}, "rate -1 is negative");
    refuses((mr_ps_rule){.kind = MR_RULE_ADAGRAD, .width = 1, .a = -1}, "expected 0 or more");
}
