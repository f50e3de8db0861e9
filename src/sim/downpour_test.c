/* sim/downpour_test.c -- in virtual time Downpour is faster than one machine, and with Adagrad faster still. */
#include "sim/downpour.h"

#include "tests/harness/test.h"

static mr_falls_result run(mr_falls_options o)
{
    mr_falls_result r;
    MR_CHECK_OK(mr_falls_run(&o, &r));
    return r;
}

/* Each at its best rate of the grid, to the same loss. */
static void check_order(bool convex)
{
    mr_test_deadline(120);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        mr_falls_result r[3];
        for (int m = 0; m < 3; m++) {
            r[m] = run((mr_falls_options){.method = (mr_falls_method)m, .convex = convex, .seed = seed});
            MR_CHECK(r[m].reached);
        }
        MR_CHECK(r[MR_FALLS_DOWNPOUR].seconds < r[MR_FALLS_SGD].seconds);
        MR_CHECK(r[MR_FALLS_DOWNPOUR_ADAGRAD].seconds < r[MR_FALLS_DOWNPOUR].seconds);
    }
}

MR_TEST(downpour_virtual_time_order_of_a_network) { check_order(false); }

MR_TEST(downpour_virtual_time_order_of_a_convex_problem) { check_order(true); }

MR_TEST(downpour_virtual_time_repeats_by_seed)
{
    mr_falls_options o = {.method = MR_FALLS_DOWNPOUR_ADAGRAD, .seed = 9};
    mr_falls_result a = run(o), b = run(o);
    MR_CHECK(a.seconds == b.seconds && a.loss == b.loss && a.steps == b.steps);
    o.seed = 10;
    b = run(o);
    MR_CHECK(a.loss != b.loss);
}

MR_TEST(downpour_virtual_time_rarer_fetches_make_staler_gradients)
{
    mr_falls_options o = {.method = MR_FALLS_DOWNPOUR, .target = 1e-9, .limit_s = 10};
    double fresh = run(o).stale;
    o.n_fetch = 5;
    MR_CHECK(run(o).stale > 1.5 * fresh);
}

MR_TEST(downpour_virtual_time_warm_start_goes_alone)
{
    mr_falls_options o = {.method = MR_FALLS_DOWNPOUR, .target = 1e-9, .limit_s = 5};
    int64_t all = run(o).steps;
    o.warm_steps = 1000000; /* the limit comes first; one replica moves, so the others wait */
    int64_t alone = run(o).steps;
    MR_CHECK(alone * 4 < all);
}
