/* sim/train/cut_test.c -- what cuts between workers and parameter servers cost a simulated job. */
#include <math.h>

#include "base/memory.h"
#include "sim/train/job_fixture.h"
#include "tests/harness/test.h"

/* One chunk, 120 ms a step, messages take no time; 100 steps. */
static const mr_simtrain_chunk spread = {.forward_s = 0.040, .backward_s = 0.080, .bytes = 1e6, .ps = -1};
static const mr_simtrain_chunk at_first = {.forward_s = 0.040, .backward_s = 0.080, .bytes = 1e6, .ps = 0};

static mr_simtrain_job job_with(const mr_simtrain_cut *cut, int workers)
{
    mr_simtrain_job j;
    mr_simtrain_job_init(&j);
    j.chunks = &spread;
    j.n_chunks = 1;
    j.n_workers = workers;
    j.n_ps = 2;
    j.cuts = cut;
    j.n_cuts = 1;
    return j;
}

static double total_of(const mr_simtrain_job *j)
{
    mr_simtrain_result r = mr_simtrain_must_run(j);
    double total_s = r.total_s;
    mr_simtrain_result_deinit(&r);
    return total_s;
}

/* The push of step 9, at 1.08 s, waits until 1.5 s. Then there are 91 more steps. */
MR_TEST(simtrain_a_push_waits_until_the_cut_ends)
{
    mr_simtrain_cut cut = {0, -1, 1, 0.5};
    mr_simtrain_job j = job_with(&cut, 1);
    j.span_steps = 1;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    const mr_simtrain_span *x = NULL;
    MR_CHECK_NEAR(r.total_s, 1.5 + 91 * 0.120, 1e-9);
    MR_CHECK_NEAR(r.ideal_s, 100 * 0.120, 1e-9);
    MR_CHECK_NEAR(r.step.max, 0.120 + 0.420, 1e-9);
    for (int i = 0; i < r.spans.n; i++)
        if (r.spans.p[i].doing == MR_SIMTRAIN_CUT)
            x = &r.spans.p[i];
    MR_CHECK(x && x->start_s == 1 && x->end_s == 1.5 && x->index == 0);
    mr_simtrain_must_print(&j, &r, "cut          worker 0 from all parameter servers at 1.000 s for 500 ms");
    mr_simtrain_must_print(&j, &r, "without crashes, cuts and checkpoints");
    mr_simtrain_result_deinit(&r);
}

/* The part of one server is enough; a server that holds nothing is not missed. */
MR_TEST(simtrain_a_cut_from_one_server_delays_what_it_holds)
{
    mr_simtrain_cut cut = {0, 1, 1, 0.5};
    mr_simtrain_job j = job_with(&cut, 1);
    MR_CHECK_NEAR(total_of(&j), 1.5 + 91 * 0.120, 1e-9);
    j.chunks = &at_first;
    MR_CHECK_NEAR(total_of(&j), 100 * 0.120, 1e-9);
    j.n_hosts = 3;
    MR_CHECK_NEAR(total_of(&j), 100 * 0.120, 1e-9);
    j.chunks = &spread;
    MR_CHECK_NEAR(total_of(&j), 1.5 + 91 * 0.120, 1e-9);
}

/* A message with a latency of 10 ms that is sent just before the cut is sent again after it. The push of the eighth
 * step is sent at 8 * 0.160 - 0.020 = 1.26 s. */
MR_TEST(simtrain_a_message_under_way_is_sent_again_after_the_cut)
{
    mr_simtrain_cut cut = {0, -1, 1.265, 0.5};
    mr_simtrain_job j = job_with(&cut, 1);
    j.latency_s = 0.010;
    MR_CHECK_NEAR(total_of(&j), 1.765 + 0.020 + 92 * 0.160, 1e-9);
}

/* Messages take as long as without cuts, if none falls into the cut. */
MR_TEST(simtrain_messages_of_a_worker_with_cuts_cost_the_same)
{
    mr_simtrain_cut cut = {1, 1, 1e6, 1};
    mr_simtrain_job j = job_with(&cut, 3);
    j.ps_message_s = 0.003, j.ps_bytes_per_s = 1e8, j.worker_bytes_per_s = 1e8, j.latency_s = 0.002;
    j.step_s = 0.001, j.rpc_s = 0.001, j.ps_jitter = 0.5, j.tail_s = 0.010;
    for (int mode = MR_SIMTRAIN_ASYNC; mode <= MR_SIMTRAIN_SYNC; mode++)
        for (int hosts = 0; hosts <= 2; hosts += 2) {
            j.mode = mode;
            j.n_hosts = hosts;
            mr_simtrain_result r = mr_simtrain_must_run(&j);
            MR_CHECK_NEAR(r.total_s, r.ideal_s, 1e-9);
            mr_simtrain_result_deinit(&r);
        }
}

/* Worker 2 is cut off for 5 s. With a lease of 1 s the others continue soon after 2 s; its gradient comes too late, and
 * it joins again. Without, all wait. */
MR_TEST(simtrain_a_worker_that_is_cut_off_is_not_waited_for_after_the_lease)
{
    mr_simtrain_cut cut = {2, -1, 1, 5};
    mr_simtrain_job j = job_with(&cut, 3);
    j.mode = MR_SIMTRAIN_SYNC;
    j.lease_s = 100;
    MR_CHECK_NEAR(total_of(&j), 6 + 91 * 0.120, 0.2);
    j.lease_s = 1;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK(r.total_s > 12 + 0.7 && r.total_s < 12 + 1.5);
    MR_CHECK_NEAR(r.step.max, 1.1, 0.4);
    MR_CHECK_INT(r.dropped, 1);
    MR_CHECK_INT(r.losses.n, 0);
    /* of the time without it there are about 4 s */
    MR_CHECK(r.workers[0].steps == 100 && r.workers[2].steps > 60 && r.workers[2].steps < 70);
    mr_simtrain_result_deinit(&r);
}

/* The barrier is the chief's, so all wait for it until another worker is the chief. */
MR_TEST(simtrain_a_chief_that_is_cut_off_is_replaced)
{
    mr_simtrain_cut cut = {0, -1, 1, 20};
    mr_simtrain_job j = job_with(&cut, 3);
    j.mode = MR_SIMTRAIN_SYNC;
    j.lease_s = 1;
    j.chief_s = 100;
    MR_CHECK(total_of(&j) > 20);
    j.chief_s = 1;
    double total_s = total_of(&j);
    MR_CHECK(total_s > 12 + 1 && total_s < 12 + 5);
}

/* The checkpoint of 1 s is left out; the one of 0.95 s would end during the cut, and is written after it. */
MR_TEST(simtrain_a_chief_that_is_cut_off_saves_later)
{
    mr_simtrain_cut cut = {0, -1, 0.99, 1};
    const double at_s[] = {0.95, 1.00};
    mr_simtrain_crash crash = {MR_SIMTRAIN_PS, 0, 2.5, false};
    mr_simtrain_job j = job_with(&cut, 1);
    j.checkpoints = at_s, j.n_checkpoints = 2;
    j.save_s = 0.1;
    j.crashes = &crash, j.n_crashes = 1;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_INT(r.n_checkpoints, 1);
    MR_CHECK_NEAR(r.losses.p[0].checkpoint_at_s, 1.99 + 0.1, 1e-9);
    MR_CHECK_NEAR(r.losses.p[0].saved_steps, 7, 0);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_a_cut_without_an_end_does_not_run_forever)
{
    mr_simtrain_cut cut = {0, -1, 1, 1e9};
    mr_simtrain_job j = job_with(&cut, 2);
    MR_CHECK_NEAR(total_of(&j), 8 * 0.12 + (200 - 16) * 0.12, 0.13); /* asynchronous: the other one does the rest */
    j.mode = MR_SIMTRAIN_SYNC;
    j.max_events = 100000;
    j.chief_s = 1e6;
    mr_simtrain_result r;
    MR_CHECK_ERR(mr_simtrain_run(&j, &r), MR_FAILED_PRECONDITION, "makes no progress");
}
