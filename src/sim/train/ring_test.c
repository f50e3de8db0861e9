/* sim/train/ring_test.c -- training by all-reduce in virtual time. */
#include <math.h>

#include "base/memory.h"
#include "sim/train/job_fixture.h"
#include "tests/harness/test.h"

/* Two chunks of 8 MB: 40 ms forward and 80 ms backward together. */
static const mr_simtrain_chunk chunks[] = {{.forward_s = 0.020, .backward_s = 0.040, .bytes = 8e6},
                                           {.forward_s = 0.020, .backward_s = 0.040, .bytes = 8e6}};

/* 1 GB/s: an n-th of a chunk takes 8 ms / n. */
static mr_simtrain_job ring_of(int workers)
{
    mr_simtrain_job j;
    mr_simtrain_job_init(&j);
    j.mode = MR_SIMTRAIN_ALLREDUCE;
    j.chunks = chunks;
    j.n_chunks = 2;
    j.n_workers = workers;
    j.n_ps = 0;
    j.batch = 10;
    j.worker_bytes_per_s = 1e9;
    return j;
}

static mr_simtrain_job ring_with_crashes(int workers, const mr_simtrain_crash *crashes, int n)
{
    mr_simtrain_job j = ring_of(workers);
    j.crashes = crashes;
    j.n_crashes = n;
    return j;
}

static mr_simtrain_job ring_with_cut(int workers, const mr_simtrain_cut *cut)
{
    mr_simtrain_job j = ring_of(workers);
    j.cuts = cut;
    j.n_cuts = 1;
    return j;
}

/* The last chunk is reduced while the first one computes backward; then the first takes 2 (n - 1) phases. The copy at the
 * start takes a latency and 16 ms; the request to join and the answer a latency each. */
MR_TEST(simtrain_an_all_reduce_takes_twice_n_minus_1_phases)
{
    for (int n = 2; n <= 5; n++) {
        mr_simtrain_job j = ring_of(n);
        j.latency_s = 0.0005;
        j.step_s = 0.002;
        mr_simtrain_result r = mr_simtrain_must_run(&j);
        double reduce_s = 2 * (n - 1) * (8e6 / n / 1e9 + 0.0005), step_s = 0.002 + 0.120 + reduce_s;
        MR_CHECK(reduce_s < 0.040);
        MR_CHECK_NEAR(r.step.median, step_s, 1e-9);
        MR_CHECK_NEAR(r.step.max, step_s + 3 * 0.0005 + 0.016, 1e-9); /* the first one */
        MR_CHECK_NEAR(r.total_s, 3 * 0.0005 + 0.016 + 100 * step_s, 1e-6);
        MR_CHECK_NEAR(r.steps_per_s * r.total_s, 100, 1e-6);
        MR_CHECK_NEAR(r.examples_per_s, 10 * n * r.steps_per_s, 1e-6);
        MR_CHECK_INT(r.applied, 100 * n);
        MR_CHECK_NEAR(r.workers[0].push_s, 100 * reduce_s, 1e-6);
        MR_CHECK_NEAR(r.workers[0].wait_s, 2 * 0.0005, 1e-9);
        MR_CHECK_NEAR(r.workers[0].fetch_s, 0.0005 + 0.016, 1e-9);
        MR_CHECK_INT(r.workers[0].steps, 100);
        MR_CHECK_NEAR(r.ps_busiest, 0, 0);
        mr_simtrain_result_deinit(&r);
    }
}

/* Chunks are reduced one after the other: at a tenth of the speed, both together take longer than the compute that
 * they overlap with. 2 * 3 / 4 * 80 ms = 120 ms each; the first begins 80 ms after the step. */
MR_TEST(simtrain_chunks_of_an_all_reduce_follow_each_other)
{
    mr_simtrain_job j = ring_of(4);
    j.worker_bytes_per_s = 1e8;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.step.median, 0.080 + 2 * 0.120, 1e-9);
    MR_CHECK_NEAR(r.worker_nic_busy, 0.240 / 0.320, 1e-2);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_a_ring_of_one_only_computes)
{
    mr_simtrain_job j = ring_of(1);
    j.latency_s = 0.010;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.total_s, 0.020 + 100 * 0.120, 1e-9);
    mr_simtrain_result_deinit(&r);
}

/* The others wait for the slow one: 240 ms instead of 120, and its last chunk is the last to be ready. */
MR_TEST(simtrain_a_straggler_slows_the_ring)
{
    mr_simtrain_job j = ring_of(4);
    mr_simtrain_slow slow = {.index = 1, .factor = 2};
    mr_str text = {0};
    j.slow = &slow;
    j.n_slow = 1;
    j.span_steps = 1;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.step.median, 0.240 + 0.012, 1e-9);
    MR_CHECK_NEAR(r.workers[1].wait_s, 0, 1e-9);
    MR_CHECK_NEAR(r.workers[0].wait_s, 100 * 0.120, 1e-6);
    MR_CHECK_NEAR(r.workers[0].push_s, 100 * 0.012, 1e-6);
    int n_reduce = 0;
    for (int i = 0; i < r.spans.n; i++)
        n_reduce += r.spans.p[i].doing == MR_SIMTRAIN_REDUCE;
    MR_CHECK_INT(n_reduce, 4);
    mr_simtrain_print(&j, &r, &text);
    MR_CHECK(strstr(mr_str_z(&text), "4 workers, allreduce: 100 steps of 10 examples a worker\n"));
    MR_CHECK(strstr(mr_str_z(&text), "reduce 5 %"));
    MR_CHECK(!strstr(mr_str_z(&text), "ps  "));
    mr_str_deinit(&text);
    mr_simtrain_result_deinit(&r);
}

/* Steps of 132 ms after a copy of 16 ms: at 2 s the 16th runs. Its crash is noticed at once; the others settle for half
 * a second, copy (16 ms) and repeat the step. With a restart of 10 s they make the rest without the fourth, at 120 ms +
 * 2 * 2/3 * 8 ms; it comes back at 12.05 s, when all join at once. */
MR_TEST(simtrain_a_ring_goes_on_without_a_lost_worker_and_takes_it_back)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_WORKER, 3, 2, false};
    mr_simtrain_job j = ring_with_crashes(4, &crash, 1);
    j.restart_s = 10;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    const double few_s = 0.120 + 4.0 / 3 * 0.008, again_s = 2.5 + 0.016, back_s = 12.05;
    double n_few = floor((back_s - again_s) / few_s);
    MR_CHECK_NEAR(r.losses.p[0].noticed_s, 2, 1e-9);
    MR_CHECK_NEAR(r.losses.p[0].back_s, back_s, 1e-9);
    MR_CHECK_NEAR(r.losses.p[0].stopped_s, 0.5 + 0.016 + few_s, 1e-6);
    MR_CHECK_NEAR(r.losses.p[0].lost_steps, 0, 0);
    MR_CHECK_NEAR(r.total_s, back_s + 0.016 + (100 - 15 - n_few) * 0.132, 1e-6);
    MR_CHECK_INT(r.applied, 100 * 4 - (int)n_few);
    MR_CHECK_INT(r.workers[3].steps, 100 - (int)n_few);
    mr_simtrain_result_deinit(&r);
}

/* A host that fails is missed after the lease, or when it is back. */
MR_TEST(simtrain_a_ring_waits_a_lease_for_a_silent_worker)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_WORKER, 3, 2, true};
    mr_simtrain_job j = ring_with_crashes(4, &crash, 1);
    j.restart_s = 100;
    j.lease_s = 3;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.losses.p[0].noticed_s, 5, 1e-9);
    MR_CHECK_NEAR(r.losses.p[0].stopped_s, 3 + 0.5 + 0.016 + 0.120 + 4.0 / 3 * 0.008, 1e-6);
    mr_simtrain_result_deinit(&r);
    j.restart_s = 1;
    r = mr_simtrain_must_run(&j);
    MR_CHECK(isnan(r.losses.p[0].noticed_s));
    MR_CHECK_NEAR(r.losses.p[0].stopped_s, 1 + 0.05 + 0.016 + 0.132, 1e-6); /* open_s is 50 ms */
    MR_CHECK_NEAR(r.total_s, 3.05 + 0.016 + 85 * 0.132, 1e-6);
    mr_simtrain_result_deinit(&r);
}

/* As long as one worker is left, its parameters are; after the last one, those of the checkpoint. */
MR_TEST(simtrain_a_ring_restores_a_checkpoint_when_all_are_lost)
{
    mr_simtrain_crash crashes[] = {{MR_SIMTRAIN_WORKER, 0, 5, false}, {MR_SIMTRAIN_WORKER, 1, 5.2, false}};
    const double at_s[] = {3};
    mr_simtrain_job j = ring_with_crashes(2, crashes, 1);
    j.checkpoints = at_s;
    j.n_checkpoints = 1;
    j.save_s = 0.1;
    j.restore_s = 0.2;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.losses.p[0].lost_steps, 0, 0);
    MR_CHECK(isnan(r.losses.p[0].checkpoint_at_s));
    MR_CHECK_INT(r.losses.p[0].kind, MR_SIMTRAIN_CHIEF);
    mr_simtrain_result_deinit(&r);
    j.n_crashes = 2;
    r = mr_simtrain_must_run(&j);
    const mr_simtrain_loss *l = &r.losses.p[1];
    double step_s = 0.120 + 0.008; /* 2 * 1/2 * 8 ms */
    MR_CHECK_NEAR(l->saved_steps, floor((3 - 0.016) / step_s), 0);
    MR_CHECK_NEAR(l->lost_steps, floor((5 - 0.016) / step_s) - l->saved_steps, 0);
    MR_CHECK_NEAR(l->checkpoint_at_s, 3.1, 1e-9);
    MR_CHECK_NEAR(l->lost_s, 2.2, 1e-9);
    MR_CHECK_NEAR(r.losses.p[0].lost_steps, 0, 0);
    MR_CHECK_NEAR(r.progress.p[r.progress.n - 1].steps, 100, 0);
    mr_simtrain_must_print(&j, &r, "the checkpoint of 3.100 s saved 23 steps; 15 steps (2.200 s) are lost");
    mr_simtrain_result_deinit(&r);
    j.n_checkpoints = 0;
    r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.losses.p[1].lost_steps, 38, 0);
    MR_CHECK(isnan(r.losses.p[1].checkpoint_at_s));
    mr_simtrain_result_deinit(&r);
}

/* The exchange of the step that runs at 1 s is made after the cut, at 1.5 s: that of the last chunk, and then that of the
 * first. */
MR_TEST(simtrain_a_short_cut_stops_the_ring)
{
    mr_simtrain_cut cut = {1, -1, 1, 0.5};
    mr_simtrain_job j = ring_with_cut(4, &cut);
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    int before = (int)floor((1 - 0.016) / 0.132);
    MR_CHECK_NEAR(r.total_s, 1.5 + 2 * 0.012 + (99 - before) * 0.132, 1e-6);
    mr_simtrain_must_print(&j, &r, "cut          worker 1 from all other workers at 1.000 s for 500 ms");
    mr_simtrain_result_deinit(&r);
}

/* After a lease of 1 s the others go on without it; it joins again at 6 s. */
MR_TEST(simtrain_a_ring_gives_up_a_worker_that_is_cut_off)
{
    mr_simtrain_cut cut = {1, -1, 1, 5};
    mr_simtrain_job j = ring_with_cut(4, &cut);
    j.lease_s = 1;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    const double few_s = 0.120 + 4.0 / 3 * 0.008;
    double n_few = floor((6 - 2.516) / few_s);
    MR_CHECK_NEAR(r.total_s, 6 + 0.016 + (100 - 7 - n_few) * 0.132, 1e-6);
    MR_CHECK_INT(r.workers[1].steps, 100 - (int)n_few);
    MR_CHECK_INT(r.losses.n, 0);
    mr_simtrain_result_deinit(&r);
}

/* The only worker that has the parameters is cut off while the others crash and return: they wait for it. */
MR_TEST(simtrain_a_ring_waits_for_the_parameters_of_a_worker_that_is_cut_off)
{
    mr_simtrain_cut cut = {0, -1, 1, 9};
    mr_simtrain_crash crashes[] = {{MR_SIMTRAIN_WORKER, 1, 2, false}, {MR_SIMTRAIN_WORKER, 2, 2, false}, {MR_SIMTRAIN_WORKER, 0, 8, false}};
    mr_simtrain_job j = ring_with_cut(3, &cut);
    j.crashes = crashes;
    j.n_crashes = 2;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.losses.p[0].lost_steps + r.losses.p[1].lost_steps, 0, 0);
    MR_CHECK(r.losses.p[0].stopped_s > 8);
    mr_simtrain_result_deinit(&r);
    j.n_crashes = 3; /* and then it is lost, too: they begin again */
    r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.losses.p[2].lost_steps, 7, 0);
    MR_CHECK(r.losses.p[0].stopped_s > 6 && r.losses.p[0].stopped_s < 7);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_a_ring_has_no_parameter_servers)
{
    mr_simtrain_result r;
    mr_simtrain_sweep sweep;
    mr_simtrain_slow slow = {.index = 0, .factor = 2, .kind = MR_SIMTRAIN_PS};
    mr_simtrain_crash crash = {MR_SIMTRAIN_PS, 0, 1, false};
    mr_simtrain_cut cut = {0, 0, 1, 1};
    mr_simtrain_job good = ring_of(4), j = good;
    j.slow = &slow, j.n_slow = 1;
    MR_CHECK_ERR(mr_simtrain_run(&j, &r), MR_INVALID_ARGUMENT, "slow parameter server is 0, but the mode allreduce has no parameter servers");
    j = good, j.crashes = &crash, j.n_crashes = 1;
    MR_CHECK_ERR(mr_simtrain_run(&j, &r), MR_INVALID_ARGUMENT, "the mode allreduce has no parameter servers");
    j = good, j.cuts = &cut, j.n_cuts = 1;
    MR_CHECK_ERR(mr_simtrain_run(&j, &r), MR_INVALID_ARGUMENT, "the mode allreduce has no parameter servers");
    j = good, j.backup = 1;
    MR_CHECK_ERR(mr_simtrain_run(&j, &r), MR_INVALID_ARGUMENT, "backup workers is 1");
    MR_CHECK_ERR(mr_simtrain_sweep_run(&good, "ps", 1, 4, &sweep), MR_INVALID_ARGUMENT, "no parameter servers to sweep over");
    MR_CHECK_OK(mr_simtrain_sweep_run(&good, "workers", 1, 8, &sweep));
    MR_CHECK_INT(sweep.points.n, 4);
    MR_CHECK(sweep.points.p[3].examples_per_s > 7 * sweep.points.p[0].examples_per_s);
    mr_simtrain_sweep_deinit(&sweep);
}
