/* dist/pipeline_test.c -- orders of stages, and what they cost. */
#include "dist/pipeline.h"

#include <stdio.h>

#include "base/memory.h"
#include "tests/harness/test.h"

static const char *tasks_of(mr_pipeline_order order, int n_stages, int n_micro, int stage)
{
    static char text[256];
    mr_pipeline_task t[32];
    int n = 0;
    mr_pipeline_tasks(order, n_stages, n_micro, stage, t);
    for (int i = 0; i < 2 * n_micro; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%c%d", i ? " " : "", t[i].backward ? 'b' : 'f', t[i].micro);
    return text;
}

MR_TEST(pipeline_orders_are_those_of_the_papers)
{
    MR_CHECK_STR(tasks_of(MR_ORDER_FILL_DRAIN, 3, 3, 0), "f0 f1 f2 b0 b1 b2");
    MR_CHECK_STR(tasks_of(MR_ORDER_1F1B, 3, 4, 0), "f0 f1 f2 b0 f3 b1 b2 b3");
    MR_CHECK_STR(tasks_of(MR_ORDER_1F1B, 3, 4, 1), "f0 f1 b0 f2 b1 f3 b2 b3");
    MR_CHECK_STR(tasks_of(MR_ORDER_1F1B, 3, 4, 2), "f0 b0 f1 b1 f2 b2 f3 b3");
    MR_CHECK_STR(tasks_of(MR_ORDER_1F1B, 8, 2, 0), "f0 f1 b0 b1"); /* more stages than micro-batches */
}

/* M micro-batches over S equal stages take M + S - 1 times what one takes in a stage. */
MR_TEST(pipeline_costs_what_the_formula_says)
{
    const double f[] = {1, 1, 1, 1}, b[] = {2, 2, 2, 2};
    for (int order = MR_ORDER_FILL_DRAIN; order <= MR_ORDER_1F1B; order++) {
        mr_pipeline_cost c;
        MR_CHECK_OK(mr_pipeline_simulate((mr_pipeline_order)order, 4, 8, f, b, 0, &c));
        MR_CHECK_NEAR(c.step_s, 3 * (8 + 4 - 1), 1e-9);
        MR_CHECK_NEAR(c.alone_s, 3 * 8 * 4, 1e-9);
        MR_CHECK_NEAR(c.bubble, 3.0 / 11, 1e-9);
        MR_CHECK(c.alone_s / c.step_s >= 2.5);
        MR_CHECK_INT(c.most_kept, order == MR_ORDER_1F1B ? 4 : 8);
    }
}

/* Whatever the times, every task is done once and none before what it needs; nobody waits for itself. */
MR_TEST(pipeline_of_any_times_comes_to_an_end)
{
    for (int k = 0; k < 2000; k++) {
        double f[9], b[9], work = 0, longest = 0;
        int n = 1 + (int)(mr_test_random() % 9), m = 1 + (int)(mr_test_random() % 12);
        mr_pipeline_cost c;
        for (int i = 0; i < n; i++) {
            f[i] = (double)(mr_test_random() % 100);
            b[i] = (double)(mr_test_random() % 100);
            work += m * (f[i] + b[i]);
            longest = MR_MAX(longest, m * (f[i] + b[i]));
        }
        double transfer = (double)(mr_test_random() % 10);
        MR_CHECK_OK(mr_pipeline_simulate(k % 2 ? MR_ORDER_1F1B : MR_ORDER_FILL_DRAIN, n, m, f, b, transfer, &c));
        MR_CHECK(c.step_s >= longest && c.step_s <= work + 2 * transfer * n * m + 1e-9);
        MR_CHECK(c.bubble >= -1e-9 && c.bubble <= 1);
    }
}

MR_TEST(pipeline_refuses_what_cannot_be)
{
    const double one = 1, bad = -1;
    mr_pipeline_cost c;
    MR_CHECK_ERR(mr_pipeline_simulate(MR_ORDER_1F1B, 0, 1, &one, &one, 0, &c), MR_INVALID_ARGUMENT, "0 stages");
    MR_CHECK_ERR(mr_pipeline_simulate(MR_ORDER_1F1B, 1, 1 << 20, &one, &one, 0, &c), MR_INVALID_ARGUMENT, "micro");
    MR_CHECK_ERR(mr_pipeline_simulate(MR_ORDER_1F1B, 1, 1, &bad, &one, 0, &c), MR_INVALID_ARGUMENT, "Stage 0");
    MR_CHECK_ERR(mr_pipeline_simulate(MR_ORDER_1F1B, 1, 1, &one, &one, (double)NAN, &c), MR_INVALID_ARGUMENT, "transfer");
}
