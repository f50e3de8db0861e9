/* sim/train/train_test.c -- facts about simulated training that hold whatever the numbers are. */
#include "sim/train/job_fixture.h"

#include <stdlib.h>

#include "base/memory.h"
#include "tests/harness/test.h"

/* Four chunks of 10 ms forward, 20 ms backward, 1 MB. */
static mr_simtrain_job small_job(mr_simtrain_chunk chunks[4])
{
    mr_simtrain_job j;
    mr_simtrain_job_init(&j);
    for (int i = 0; i < 4; i++)
        chunks[i] = (mr_simtrain_chunk){.forward_s = 0.010, .backward_s = 0.020, .bytes = 1e6, .ps = i % 2};
    j.chunks = chunks;
    j.n_chunks = 4;
    j.n_workers = 4;
    j.n_ps = 2;
    j.batch = 10;
    j.steps = 50;
    return j;
}

MR_TEST(simtrain_one_worker_without_costs_takes_its_compute)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    j.n_workers = 1;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.total_s, 50 * 0.120, 1e-9);
    MR_CHECK_NEAR(r.step.median, 0.120, 1e-9);
    MR_CHECK_NEAR(r.examples_per_s, 10 / 0.120, 1e-6);
    MR_CHECK_NEAR(r.worker_busy, 1, 1e-9);
    mr_simtrain_result_deinit(&r);
}

/* Synchronous workers make their steps together; the others each make their own. */
MR_TEST(simtrain_steps_per_second_are_updates_or_steps_of_all_workers)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    for (int mode = MR_SIMTRAIN_ASYNC; mode <= MR_SIMTRAIN_SYNC; mode++) {
        j.mode = mode;
        mr_simtrain_result r = mr_simtrain_must_run(&j);
        MR_CHECK_NEAR(r.steps_per_s, (mode == MR_SIMTRAIN_SYNC ? 1 : 4) / 0.120, 1e-6);
        MR_CHECK(r.progress.n >= 50 && r.progress.n <= 202);
        MR_CHECK_NEAR(r.progress.p[r.progress.n - 1].steps, 50, 1e-9);
        mr_simtrain_result_deinit(&r);
    }
}

/* First chunk: there, served, back.  The others arrive while it computes; so do all gradients but the last. */
MR_TEST(simtrain_a_step_is_its_first_fetch_its_compute_and_its_last_push)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    j.n_workers = 1;
    j.latency_s = 0.001;
    j.ps_bytes_per_s = 1e9; /* 1 ms a message */
    j.step_s = 0.002;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.step.median, 0.002 + 0.003 + 0.120 + 0.003, 1e-9);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_applies_steps_times_workers_gradients_in_every_mode)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    j.tail_s = 0.05;
    j.delay_bound = 2;
    for (int mode = MR_SIMTRAIN_ASYNC; mode <= MR_SIMTRAIN_BOUNDED; mode++) {
        j.mode = mode;
        mr_simtrain_result r = mr_simtrain_must_run(&j);
        MR_CHECK_INT(r.applied, 50 * 4);
        MR_CHECK_INT(r.dropped, 0);
        mr_simtrain_result_deinit(&r);
    }
}

MR_TEST(simtrain_sync_takes_as_long_as_the_slowest)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    mr_simtrain_slow slow = {2, 3};
    j.mode = MR_SIMTRAIN_SYNC;
    j.slow = &slow;
    j.n_slow = 1;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.step.median, 3 * 0.120, 1e-9);
    MR_CHECK_NEAR(r.workers[2].wait_s, 0, 1e-9);
    MR_CHECK_NEAR(r.workers[0].wait_s / r.total_s, 2.0 / 3, 0.02);
    mr_simtrain_result_deinit(&r);
}

/* The gradients of the slow worker complete every step; with a backup they complete none. */
MR_TEST(simtrain_counts_the_steps_that_each_worker_completes)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_slow slow = {2, 3};
    for (int i = 0; i < 3; i++) {
        mr_simtrain_job j = small_job(c);
        j.mode = i == 2 ? MR_SIMTRAIN_ALLREDUCE : MR_SIMTRAIN_SYNC;
        j.backup = i == 1;
        j.warmup = 5;
        j.slow = &slow;
        j.n_slow = 1;
        mr_simtrain_result r = mr_simtrain_must_run(&j);
        int64_t sum = 0;
        for (int k = 0; k < r.n_workers; k++)
            sum += r.workers[k].last;
        MR_CHECK_INT(sum, 50);
        MR_CHECK_INT(r.workers[2].last, i == 1 ? 0 : 50);
        mr_simtrain_result_deinit(&r);
    }
}

/* Like the total, those of the warm-up count. */
MR_TEST(simtrain_dropped_gradients_of_the_workers_add_up)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    j.mode = MR_SIMTRAIN_SYNC;
    j.backup = 1;
    j.warmup = 10;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    int64_t sum = 0;
    for (int i = 0; i < r.n_workers; i++)
        sum += r.workers[i].dropped;
    MR_CHECK(r.dropped >= 49);
    MR_CHECK_INT(sum, r.dropped);
    MR_CHECK_INT(r.workers[0].steps, 50);
    mr_simtrain_result_deinit(&r);
}

/* One slow step of fifty: every quantile is the time of some step, and p99 is the longest. */
MR_TEST(simtrain_quantiles_are_times_of_steps)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    mr_simtrain_slow slow = {.index = 0, .factor = 3, .at_s = 2.999, .for_s = 0.06};
    j.mode = MR_SIMTRAIN_SYNC;
    j.slow = &slow;
    j.n_slow = 1;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_INT(r.step.n, 50);
    MR_CHECK_NEAR(r.step.median, 0.120, 1e-9);
    MR_CHECK_NEAR(r.step.p90, 0.120, 1e-9);
    MR_CHECK(r.step.max > 0.13 && r.step.p99 == r.step.max);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_async_lets_the_fast_go_on)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    mr_simtrain_slow slow = {2, 3};
    j.slow = &slow;
    j.n_slow = 1;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.examples_per_s, (3 + 1 / 3.0) * 10 / 0.120, 5);
    MR_CHECK(r.max_lead > 10);
    mr_simtrain_result_deinit(&r);
}

/* Steps of 120 ms. Twice as slow from 0.6 s on, for 0.48 s: the forward and backward passes of two steps begin in that
 * time. Then, from just before 3 s on, three times as slow to the end: after 0.6 + 2 * 0.24 = 1.08 s there are 16 steps until 3 s,
 * and 50 - 5 - 2 - 16 = 27 slow ones. */
MR_TEST(simtrain_a_worker_is_slow_for_some_time)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    mr_simtrain_slow slow[] = {{.index = 0, .factor = 3, .at_s = 2.999}, {.index = 0, .factor = 2, .at_s = 0.599, .for_s = 0.48}};
    j.n_workers = 1;
    j.slow = slow;
    j.n_slow = 2;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.total_s, 0.6 + 2 * 0.24 + 16 * 0.12 + 27 * 0.36, 1e-6);
    mr_simtrain_result_deinit(&r);
}

/* One message at a time and no compute: a step is four fetches and four pushes of 1 ms, of which server 1 has a half.
 * Its messages take 3 ms, from 10 steps on. */
MR_TEST(simtrain_a_slow_server_takes_longer_for_its_messages)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    mr_simtrain_slow slow = {.index = 1, .factor = 3, .kind = MR_SIMTRAIN_PS};
    j.n_workers = 1;
    j.ps_message_s = 0.001;
    for (int i = 0; i < 4; i++)
        c[i].forward_s = c[i].backward_s = 0;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.step.median, 0.004, 1e-9);
    mr_simtrain_result_deinit(&r);
    j.slow = &slow;
    j.n_slow = 1;
    r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.step.median, 2 * 0.006, 1e-9);
    MR_CHECK_NEAR(r.ps_busiest, 1, 1e-6);
    mr_simtrain_result_deinit(&r);
    slow.at_s = 10 * 0.004;
    r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.total_s, 10 * 0.004 + 40 * 0.012, 1e-9);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_the_barrier_costs_a_token_for_each_worker)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    j.mode = MR_SIMTRAIN_SYNC;
    j.token_s = 0.001;
    j.latency_s = 0.0005;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    /* a word and a token, a fetch and a push: 2 + 2 + 2 messages */
    MR_CHECK_NEAR(r.step.median, 0.120 + 4 * 0.001 + 6 * 0.0005, 1e-9);
    mr_simtrain_result_deinit(&r);
}

/* Three of five contribute; as long as no worker is more than one step late, all push one gradient per step. */
MR_TEST(simtrain_backups_drop_exactly_the_last)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    j.mode = MR_SIMTRAIN_SYNC;
    j.n_workers = 3;
    j.backup = 2;
    j.tail_s = 0.004;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_INT(r.applied, 50 * 3);
    MR_CHECK_INT(r.n_workers, 5);
    MR_CHECK(r.dropped >= 2 * 49 && r.dropped <= 2 * 50); /* those of the last step may be in flight */
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_a_backup_hides_a_slow_worker)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    mr_simtrain_slow slow = {1, 5};
    j.mode = MR_SIMTRAIN_SYNC;
    j.backup = 1;
    j.slow = &slow;
    j.n_slow = 1;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.step.median, 0.120, 1e-9);
    mr_simtrain_result_deinit(&r);
}

/* The step of 8 workers, one of which computes 4 times as long, with a number of backups that is chosen as they go. */
static mr_simtrain_result run_adaptive(double factor, double tail_s, int steps)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    mr_simtrain_slow slow = {5, factor};
    j.mode = MR_SIMTRAIN_SYNC;
    j.adaptive = true;
    j.n_workers = 8;
    j.steps = steps;
    j.latency_s = 0.0005;
    j.tail_s = tail_s;
    j.slow = &slow;
    j.n_slow = 1;
    return mr_simtrain_must_run(&j);
}

MR_TEST(backups_adaptive_hide_a_straggler_in_virtual_time)
{
    for (int i = 0; i < 2; i++) {
        double tail_s = i * 0.005;
        mr_simtrain_result alike = run_adaptive(1, tail_s, 100), straggler = run_adaptive(4, tail_s, 100);
        MR_CHECK(straggler.step.median <= 1.15 * alike.step.median);
        MR_CHECK(straggler.total_s <= 1.15 * alike.total_s); /* including the time to detect it */
        MR_CHECK(straggler.applied >= 95 * 7);
        MR_CHECK(alike.applied >= 98 * 8); /* and no worker is dropped needlessly */
        mr_simtrain_result_deinit(&alike);
        mr_simtrain_result_deinit(&straggler);
    }
}

MR_TEST(simtrain_a_bound_on_the_delay_holds)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    mr_simtrain_slow slow = {3, 4};
    j.mode = MR_SIMTRAIN_BOUNDED;
    j.tail_s = 0.1;
    j.slow = &slow;
    j.n_slow = 1;
    for (j.delay_bound = 0; j.delay_bound <= 5; j.delay_bound++) {
        mr_simtrain_result r = mr_simtrain_must_run(&j);
        MR_CHECK_INT(r.max_lead, j.delay_bound);
        mr_simtrain_result_deinit(&r);
    }
}

/* Delays that come by chance are ridden over; a worker that is slow for good is not run away from. */
MR_TEST(delay_adaptive_in_virtual_time)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    mr_simtrain_slow slow = {3, 4};
    j.mode = MR_SIMTRAIN_BOUNDED;
    j.n_workers = 8;
    j.steps = 1500;
    j.tail_s = 0.5;
    j.tail_share = 0.1;
    mr_simtrain_result in_step = mr_simtrain_must_run(&j);
    j.adaptive = true;
    mr_simtrain_result adaptive = mr_simtrain_must_run(&j);
    MR_CHECK(adaptive.total_s < 0.8 * in_step.total_s);
    MR_CHECK(adaptive.max_lead >= 2 && adaptive.max_lead <= 16);
    j.tail_s = 0;
    j.slow = &slow;
    j.n_slow = 1;
    mr_simtrain_result beside = mr_simtrain_must_run(&j);
    MR_CHECK(beside.max_lead <= 2);
    mr_simtrain_result_deinit(&in_step);
    mr_simtrain_result_deinit(&adaptive);
    mr_simtrain_result_deinit(&beside);
}

MR_TEST(simtrain_without_delay_bounded_is_in_step)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    mr_simtrain_slow slow = {0, 2};
    j.mode = MR_SIMTRAIN_BOUNDED;
    j.slow = &slow;
    j.n_slow = 1;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.step.median, 0.240, 1e-9);
    for (int i = 0; i < 4; i++)
        MR_CHECK_INT(r.workers[i].steps, 50);
    mr_simtrain_result_deinit(&r);
}

/* 4 messages each way of 1 MB at 100 MB/s over two servers: 40 ms of each a worker and step, whatever the workers do. */
MR_TEST(simtrain_a_parameter_server_is_the_limit)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    j.n_workers = 20;
    j.ps_bytes_per_s = 100e6;
    j.warmup = 10;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.examples_per_s, 10 / 0.040, 0.02 * 10 / 0.040);
    MR_CHECK(r.ps_busiest > 0.98 && r.ps_busiest <= 1 + 1e-9);
    mr_simtrain_result_deinit(&r);
    j.duplex = true;
    r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.examples_per_s, 10 / 0.020, 0.03 * 10 / 0.020);
    mr_simtrain_result_deinit(&r);
}

/* A queue with one server, random arrivals and fixed service: at half load a message waits half its service in the mean. */
MR_TEST(simtrain_waits_at_half_load_are_those_of_a_queue)
{
    mr_simtrain_chunk c = {.forward_s = 0, .backward_s = 0, .bytes = 1e6, .ps = 0};
    mr_simtrain_job j;
    mr_simtrain_job_init(&j);
    j.chunks = &c;
    j.n_chunks = 1;
    j.n_workers = 200;
    j.ps_bytes_per_s = 1e9; /* two messages of 1 ms a step */
    j.tail_s = 0.8;         /* the rest is chance */
    j.steps = 200;
    j.warmup = 20;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    double wait_s = r.step.mean - 0.8 - 0.002;
    MR_CHECK_NEAR(r.ps_busiest, 0.5, 0.02);
    /* the push follows its fetch at once and queues behind messages that arrived in between: between one and three
     * times M/D/1 */
    MR_CHECK(wait_s > 0.0005 && wait_s < 0.0035);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_a_chunk_over_all_servers_is_as_fast_as_all_of_them)
{
    mr_simtrain_chunk c = {.forward_s = 0.1, .backward_s = 0, .bytes = 8e6, .ps = -1};
    mr_simtrain_job j;
    mr_simtrain_job_init(&j);
    j.chunks = &c;
    j.n_chunks = 1;
    j.n_ps = 8;
    j.ps_bytes_per_s = 1e8;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.step.median, 0.1 + 2 * 0.010, 1e-9);
    mr_simtrain_result_deinit(&r);
}

/* ---- hosts ---- */

MR_TEST(simtrain_workers_of_one_core_share_it)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    j.n_hosts = 1;
    j.cores = 2;
    mr_simtrain_result r = mr_simtrain_must_run(&j); /* four workers, two cores */
    MR_CHECK_NEAR(r.examples_per_s, 2 * 10 / 0.120, 1e-3);
    MR_CHECK_NEAR(r.core_busy, 1, 1e-6);
    mr_simtrain_result_deinit(&r);
    j.n_workers = 2;
    r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.examples_per_s, 2 * 10 / 0.120, 1e-3);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_a_servers_messages_are_work_for_the_shared_cores)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    j.n_hosts = 1;
    j.cores = 1;
    j.n_workers = 1;
    j.ps_bytes_per_s = 200e6; /* 5 ms a message, 8 of them a step */
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    /* nothing overlaps on one core: 120 ms of compute and 40 ms of messages */
    MR_CHECK_NEAR(r.step.median, 0.160, 1e-6);
    mr_simtrain_result_deinit(&r);
}

/* ---- chance ---- */

MR_TEST(simtrain_the_same_seed_gives_the_same_result)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    j.tail_s = 0.03, j.rpc_s = j.rpc_tail_s = 0.002, j.ps_bytes_per_s = 1e8, j.ps_jitter = 1, j.spread = 0.1;
    j.worker_mtbf_s = 20, j.ps_mtbf_s = 50, j.checkpoint_s = 1, j.save_s = 0.1;
    mr_simtrain_result a = mr_simtrain_must_run(&j), b = mr_simtrain_must_run(&j);
    MR_CHECK(a.total_s == b.total_s && a.step.p99 == b.step.p99 && a.events == b.events && a.losses.n == b.losses.n);
    MR_CHECK(memcmp(a.workers, b.workers, sizeof *a.workers * 4) == 0);
    mr_simtrain_result_deinit(&b);
    j.seed = 2;
    b = mr_simtrain_must_run(&j);
    MR_CHECK(a.total_s != b.total_s);
    mr_simtrain_result_deinit(&a);
    mr_simtrain_result_deinit(&b);
}

MR_TEST(simtrain_the_last_of_n_calls_takes_the_harmonic_sum)
{
    mr_simtrain_chunk c = {.bytes = 1, .ps = -1};
    mr_simtrain_job j;
    mr_simtrain_job_init(&j);
    j.chunks = &c;
    j.n_chunks = 1;
    j.n_ps = 16;
    j.rpc_s = 0.001;
    j.rpc_tail_s = 0.001;
    j.steps = 20000;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    double h = 0;
    for (int i = 1; i <= 16; i++)
        h += 1.0 / i;
    MR_CHECK_NEAR(r.step.mean, 0.001 * (1 + h), 0.00003);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_staleness_of_equal_workers_is_that_of_the_others)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    j.n_workers = 16;
    j.tail_s = 0.02;
    j.warmup = 5;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.staleness.mean, 15, 0.5);
    mr_simtrain_result_deinit(&r);
}

/* ---- timelines ---- */

MR_TEST(simtrain_spans_of_a_worker_fill_its_step)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    j.n_workers = 1;
    j.latency_s = 0.001;
    j.ps_bytes_per_s = 1e9;
    j.step_s = 0.002;
    j.span_steps = 1;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    double sum_s = 0, served_s = 0;
    for (int i = 0; i < r.spans.n; i++) {
        const mr_simtrain_span *s = &r.spans.p[i];
        MR_CHECK_INT(s->step, 0);
        *(s->kind == MR_SIMTRAIN_PS ? &served_s : &sum_s) += s->end_s - s->start_s;
    }
    MR_CHECK_NEAR(sum_s, 0.002 + 0.003 + 0.120 + 0.003, 1e-9);
    MR_CHECK_NEAR(served_s, 8 * 0.001, 1e-9);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_prints_what_it_found)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    mr_simtrain_crash crash = {MR_SIMTRAIN_PS, 1, 3, true};
    mr_str out = {0};
    j.crashes = &crash, j.n_crashes = 1, j.checkpoint_s = 1, j.save_s = 0.1;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    mr_simtrain_print(&j, &r, &out);
    MR_CHECK(strstr(out.p, "4 workers, 2 parameter servers, async"));
    MR_CHECK(strstr(out.p, "ps 1 at 3.000 s with its host"));
    MR_CHECK(strstr(out.p, "the checkpoint of 2.100 s saved"));
    mr_str_deinit(&out);
    mr_simtrain_result_deinit(&r);
}

/* ---- refusals ---- */

static void refuse(const mr_simtrain_job *j, const char *text)
{
    mr_simtrain_result r;
    MR_CHECK_ERR(mr_simtrain_run(j, &r), MR_INVALID_ARGUMENT, text);
}

MR_TEST(simtrain_refuses_jobs_that_make_no_sense)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job good = small_job(c), j;
    mr_simtrain_slow slow = {4, 2};
    mr_simtrain_crash crash = {MR_SIMTRAIN_PS, 2, 1, false};
    j = good, j.n_workers = 0, refuse(&j, "workers is 0");
    j = good, j.n_workers = -7, refuse(&j, "workers");
    j = good, j.n_workers = 2000000000, refuse(&j, "workers");
    j = good, j.n_ps = 0, refuse(&j, "parameter servers is 0");
    j = good, j.steps = 0, refuse(&j, "steps");
    j = good, j.steps = 2000000000, refuse(&j, "steps");
    j = good, j.warmup = 50, refuse(&j, "warmup");
    j = good, j.rpc_s = NAN, refuse(&j, "rpc_s is nan");
    j = good, j.token_s = -1, refuse(&j, "token_s");
    j = good, j.tail_s = INFINITY, refuse(&j, "tail_s");
    j = good, j.ps_bytes_per_s = -1, refuse(&j, "ps_bytes_per_s");
    j = good, j.mode = 7, refuse(&j, "mode");
    j = good, j.backup = 1, refuse(&j, "backup");
    j = good, j.mode = MR_SIMTRAIN_SYNC, j.backup = 2000000000, refuse(&j, "backup");
    j = good, j.checkpoint_s = 1e-12, refuse(&j, "checkpoint_s");
    j = good, j.checkpoint_s = j.save_s = 1, j.save_blocks = true, refuse(&j, "save_s is 1");
    j = good, j.n_hosts = 1, j.cores = 0, refuse(&j, "cores");
    j = good, j.slow = &slow, j.n_slow = 1, refuse(&j, "slow worker is 4");
    slow.kind = MR_SIMTRAIN_PS, refuse(&j, "slow parameter server is 4");
    slow.index = 0, slow.at_s = -1, refuse(&j, "its at_s is -1");
    mr_simtrain_cut cut = {4, -1, 1, 1};
    j = good, j.cuts = &cut, j.n_cuts = 1, refuse(&j, "worker that is cut off is 4");
    cut.worker = 0, cut.ps = 2, refuse(&j, "parameter server that is cut off is 2");
    cut.ps = 1, cut.for_s = 0, refuse(&j, "duration of a cut is 0");
    j = good, j.crashes = &crash, j.n_crashes = 1, refuse(&j, "task that crashes is 2");
    j = good, j.n_workers = 20000, j.steps = 100000, refuse(&j, "too much");
    c[3].ps = 2, refuse(&good, "Chunk 3: parameter server is 2");
    c[3].ps = -1, c[3].bytes = NAN, refuse(&good, "Chunk 3: bytes");
}

MR_TEST(simtrain_a_job_that_gets_nowhere_ends)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    mr_simtrain_result r;
    mr_test_deadline(60);
    j.ps_mtbf_s = 0.01; /* there are no checkpoints, and a step takes 120 ms */
    j.restart_s = 0.001;
    MR_CHECK_ERR(mr_simtrain_run(&j, &r), MR_FAILED_PRECONDITION, "makes no progress");
}

MR_TEST(simtrain_ends_when_it_is_cancelled)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    mr_simtrain_result r;
    mr_cancel_flag cancelled = true;
    j.cancelled = &cancelled;
    MR_CHECK_ERR(mr_simtrain_run(&j, &r), MR_CANCELLED, "cancelled");
    MR_CHECK(!r.workers && r.spans.n == 0);
}

MR_TEST(simtrain_refused_memory_is_an_error)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    mr_simtrain_result r;
    for (int n = 1; n <= 10; n++) {
        mr_memory_fail_after(n);
        mr_status *st = mr_simtrain_run(&j, &r);
        mr_memory_fail_after(0);
        MR_CHECK_ERR(st, MR_RESOURCE_EXHAUSTED, "No memory");
    }
}

MR_TEST(simtrain_runs_without_chunks)
{
    mr_simtrain_job j;
    mr_simtrain_job_init(&j);
    j.step_s = 0.5;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.total_s, 50, 1e-9);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_a_thousand_workers_are_simulated_in_seconds)
{
    mr_simtrain_chunk c[4];
    mr_simtrain_job j = small_job(c);
    mr_test_deadline(120); /* under sanitizers */
    j.n_workers = 1000;
    j.mode = MR_SIMTRAIN_SYNC;
    j.backup = 10;
    j.ps_bytes_per_s = 1e10;
    j.tail_s = 0.01;
    j.steps = 30;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_INT(r.applied, 30 * 1000);
    MR_CHECK(r.events < 1500000);
    mr_simtrain_result_deinit(&r);
}
