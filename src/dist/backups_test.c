/* dist/backups_test.c -- how many are waited for, as times come in. */
#include "dist/backups.h"

#include <stdlib.h>

#include "base/memory.h"
#include "tests/harness/test.h"

enum { N = 8, MS = 1000000 };

static mr_backups crew(int n)
{
    mr_backups b;
    mr_backups_init(&b, n, 0);
    for (int i = 0; i < n; i++)
        mr_backups_there(&b, i, true, 0);
    return b;
}

/* One step in which worker 0 takes `first` and the others 100 ms and a little. */
static int step(mr_backups *b, int64_t first_ms)
{
    for (int i = 0; i < b->n_workers; i++)
        mr_backups_took(b, i, (i ? 100 + i % 3 : first_ms) * MS);
    return mr_backups_choose(b);
}

MR_TEST(backups_waits_for_all_while_nothing_is_known)
{
    mr_backups b = crew(N);
    MR_CHECK_INT(mr_backups_choose(&b), N);
    MR_CHECK(mr_backups_expected_ns(&b, N) == 0);
    mr_backups_deinit(&b);
}

MR_TEST(backups_waits_for_all_who_are_alike)
{
    mr_backups b = crew(N);
    for (int i = 0; i < 50; i++)
        MR_CHECK_INT(step(&b, 103), N);
    mr_backups_deinit(&b);
}

MR_TEST(backups_drops_a_straggler_within_two_steps_and_takes_it_back_within_two)
{
    mr_backups b = crew(N);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 10; i++)
            step(&b, 100);
        step(&b, 400);
        MR_CHECK_INT(step(&b, 400), N - 1);
        for (int i = 0; i < 20; i++)
            MR_CHECK_INT(step(&b, 400), N - 1);
        step(&b, 100);
        MR_CHECK_INT(step(&b, 100), N);
    }
    mr_backups_deinit(&b);
}

/* It is a seventh of the batch; 10 % of the time are not worth that. */
MR_TEST(backups_keeps_who_is_only_a_little_slower)
{
    mr_backups b = crew(N);
    for (int i = 0; i < 20; i++)
        MR_CHECK_INT(step(&b, 110), N);
    mr_backups_deinit(&b);
}

/* Dropping one of 8 pays from a step 8/7 as long on, with what hysteresis asks for 20 % longer: between them nothing changes. */
MR_TEST(backups_does_not_swing_between_two_numbers)
{
    mr_backups b = crew(N);
    for (int i = 0; i < 20; i++)
        MR_CHECK_INT(step(&b, 116), N);
    for (int i = 0; i < 20; i++)
        step(&b, 140);
    for (int i = 0; i < 20; i++)
        MR_CHECK_INT(step(&b, 116), N - 1);
    mr_backups_deinit(&b);
}

MR_TEST(backups_waits_for_half_at_least)
{
    mr_backups b = crew(N);
    for (int k = 0; k < 20; k++) {
        for (int i = 0; i < N; i++)
            mr_backups_took(&b, i, (i == 0 ? 1 : 1000) * MS);
        mr_backups_choose(&b);
    }
    MR_CHECK(mr_backups_choose(&b) >= N / 2);
    mr_backups_deinit(&b);
}

MR_TEST(backups_drops_more_when_a_gradient_more_is_worth_less)
{
    mr_backups all, few;
    mr_backups_init(&all, N, 1);
    mr_backups_init(&few, N, 0.25);
    for (int i = 0; i < N; i++) {
        mr_backups_there(&all, i, true, 0);
        mr_backups_there(&few, i, true, 0);
        mr_backups_took(&all, i, (100 + 10 * i) * MS);
        mr_backups_took(&few, i, (100 + 10 * i) * MS);
    }
    MR_CHECK_INT(mr_backups_choose(&all), N);
    MR_CHECK(mr_backups_choose(&few) < N);
    mr_backups_deinit(&all);
    mr_backups_deinit(&few);
}

MR_TEST(backups_expects_the_order_statistics_of_what_it_saw)
{
    mr_backups b = crew(3);
    for (int k = 0; k < MR_BACKUPS_WINDOW; k++) {
        mr_backups_took(&b, 0, 30);
        mr_backups_took(&b, 1, k % 2 ? 20 : 40); /* now before, now behind the first */
        mr_backups_took(&b, 2, 50);
    }
    mr_backups_choose(&b);
    MR_CHECK_NEAR(mr_backups_expected_ns(&b, 1), 25, 1e-9);
    MR_CHECK_NEAR(mr_backups_expected_ns(&b, 2), 35, 1e-9);
    MR_CHECK_NEAR(mr_backups_expected_ns(&b, 3), 50, 1e-9);
    MR_CHECK(mr_backups_expected_ns(&b, 4) == 0);
    mr_backups_deinit(&b);
}

/* It never came, so no time of it is known but that it takes longer than all it took before. */
MR_TEST(backups_gives_up_a_step_that_lasts_much_too_long)
{
    mr_backups b = crew(N);
    for (int i = 0; i < 10; i++)
        step(&b, 100);
    mr_backups_there(&b, 0, true, 150 * MS);
    MR_CHECK_INT(mr_backups_choose(&b), N);
    mr_backups_there(&b, 0, true, 1000 * MS);
    MR_CHECK_INT(mr_backups_choose(&b), N - 1);
    mr_backups_deinit(&b);
}

MR_TEST(backups_counts_only_who_is_there)
{
    mr_backups b = crew(N);
    for (int i = 0; i < 10; i++)
        step(&b, 400);
    MR_CHECK_INT(mr_backups_choose(&b), N - 1);
    mr_backups_there(&b, 0, false, 0);
    MR_CHECK_INT(mr_backups_choose(&b), N - 1); /* all that are left */
    for (int i = 0; i < N; i++)
        mr_backups_there(&b, i, false, 0);
    MR_CHECK_INT(mr_backups_choose(&b), 0);
    mr_backups_deinit(&b);
}

MR_TEST(backups_choices_are_among_those_there_whatever_comes)
{
    mr_backups b = crew(N);
    for (int i = 0; i < 20000; i++) {
        uint64_t x = mr_test_random();
        int worker = (int)(x % N), there = 0;
        if ((x >> 8) % 3)
            mr_backups_took(&b, worker, (int64_t)((x >> 16) % 4 ? (x >> 20) % 1000 : (x >> 18)));
        else
            mr_backups_there(&b, worker, (x >> 12) % 4 != 0, (int64_t)((x >> 20) % 100000));
        for (int k = 0; k < N; k++)
            there += b.workers[k].there;
        int m = mr_backups_choose(&b);
        MR_CHECK(m <= there && 2 * m >= there);
    }
    mr_backups_deinit(&b);
}
