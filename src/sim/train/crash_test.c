/* sim/train/crash_test.c -- what crashes cost a simulated job, and what checkpoints save. */
#include "base/memory.h"
#include "sim/train/job_fixture.h"
#include "tests/harness/test.h"

/* One chunk, 120 ms a step; 100 steps. */
static const mr_simtrain_chunk chunk = {.forward_s = 0.040, .backward_s = 0.080, .bytes = 1e6, .ps = -1};

static mr_simtrain_job job_with(const mr_simtrain_crash *crash, int workers)
{
    mr_simtrain_job j;
    mr_simtrain_job_init(&j);
    j.chunks = &chunk;
    j.n_chunks = 1;
    j.n_workers = workers;
    j.n_ps = 2;
    j.crashes = crash;
    j.n_crashes = 1;
    j.checkpoint_s = 1;
    j.save_s = 0.1;
    j.restore_s = 0.2;
    return j;
}

/* At 3.05 s the checkpoint begun at 3 s is not complete: the one of 2 s counts, with the 16 steps done by then. */
MR_TEST(simtrain_a_lost_server_costs_what_was_done_since_the_checkpoint)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_PS, 1, 3.05, false};
    mr_simtrain_job j = job_with(&crash, 1);
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    const mr_simtrain_loss *l = &r.losses.p[0];
    MR_CHECK_INT(r.losses.n, 1);
    MR_CHECK_NEAR(l->saved_steps, 16, 0);
    MR_CHECK_NEAR(l->lost_steps, 25 - 16, 0);
    MR_CHECK_NEAR(l->lost_s, 1.05, 1e-9);
    MR_CHECK_NEAR(l->checkpoint_at_s, 2.1, 1e-9);
    MR_CHECK_INT(r.applied, 100 + 9);
    /* it restarts in 1 s, is looked for in pauses that grow to 1 s, a session is opened, variables are restored */
    MR_CHECK(l->back_s >= 3.05 + 1 + 0.05 + 0.2 && l->back_s <= 3.05 + 1 + 1 + 0.05 + 0.2 + 0.1);
    MR_CHECK_NEAR(r.total_s, l->back_s + (100 - 16) * 0.120, 1e-6);
    MR_CHECK_NEAR(r.ideal_s, 100 * 0.120, 1e-9);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_without_a_checkpoint_a_lost_server_costs_everything)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_PS, 0, 3.05, false};
    mr_simtrain_job j = job_with(&crash, 1);
    j.checkpoint_s = 0;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.losses.p[0].lost_steps, 25, 0);
    MR_CHECK(isnan(r.losses.p[0].checkpoint_at_s));
    MR_CHECK_INT(r.applied, 125);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_a_lost_server_stops_every_mode_and_all_go_on)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_PS, 0, 3.05, false};
    mr_simtrain_job j = job_with(&crash, 5);
    j.delay_bound = 2;
    for (int mode = MR_SIMTRAIN_ASYNC; mode <= MR_SIMTRAIN_BOUNDED; mode++) {
        j.mode = mode;
        mr_simtrain_result r = mr_simtrain_must_run(&j);
        const mr_simtrain_loss *l = &r.losses.p[0];
        MR_CHECK_NEAR(l->saved_steps, 16, 0.5);
        MR_CHECK_NEAR(l->lost_steps, 9, 0.5);
        MR_CHECK(l->stopped_s > 1 && l->stopped_s < 3.5);
        MR_CHECK(r.total_s > r.ideal_s + 9 * 0.120 + 1 && r.total_s < r.ideal_s + 9 * 0.120 + 4);
        mr_simtrain_result_deinit(&r);
    }
}

/* Its process runs, the chief finds it in the next pause and restores its variables. */
MR_TEST(simtrain_the_way_back_of_a_server_has_parts)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_PS, 1, 3.05, false};
    mr_simtrain_job j = job_with(&crash, 2);
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    const mr_simtrain_loss *l = &r.losses.p[0];
    MR_CHECK_NEAR(l->restarted_s, 3.05 + 1, 1e-9);
    MR_CHECK(l->reached_s >= l->restarted_s && l->reached_s <= l->restarted_s + 1.1);
    MR_CHECK_NEAR(l->back_s - l->reached_s, 0.2, 1e-9);
    MR_CHECK_NEAR(l->checkpoint_taken_s, 2, 1e-9);
    mr_simtrain_result_deinit(&r);
}

/* Checkpoints that block cost time without failures; the others cost none. */
MR_TEST(simtrain_tells_the_cost_of_checkpoints_from_that_of_failures)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_PS, 1, 3.05, false};
    mr_simtrain_job j = job_with(&crash, 1);
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK(r.calm_s == r.ideal_s && r.calm_s < r.total_s);
    mr_simtrain_result_deinit(&r);
    j.save_blocks = true;
    j.save_s = 0.5;
    r = mr_simtrain_must_run(&j);
    MR_CHECK(r.calm_s > r.ideal_s + 0.5 && r.calm_s < r.total_s);
    mr_simtrain_result_deinit(&r);
    j.n_crashes = 0;
    r = mr_simtrain_must_run(&j);
    MR_CHECK(r.calm_s == r.total_s && r.ideal_s < r.total_s);
    mr_simtrain_result_deinit(&r);
    crash = (mr_simtrain_crash){MR_SIMTRAIN_WORKER, 0, 3.05, false};
    j.n_crashes = 1, j.checkpoint_s = 0;
    r = mr_simtrain_must_run(&j);
    MR_CHECK(r.calm_s == r.ideal_s && r.ideal_s < r.total_s);
    mr_simtrain_result_deinit(&r);
}

/* Whoever has not crashed waits while another task is down. */
MR_TEST(simtrain_only_a_crashed_worker_is_down)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_PS, 0, 3.05, false};
    mr_simtrain_job j = job_with(&crash, 3);
    j.mode = MR_SIMTRAIN_SYNC;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    for (int i = 0; i < 3; i++)
        MR_CHECK(r.workers[i].down_s == 0 && r.workers[i].wait_s > 1);
    mr_simtrain_result_deinit(&r);
    crash.kind = MR_SIMTRAIN_WORKER;
    crash.index = 1;
    r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.workers[1].down_s, r.losses.p[0].back_s - 3.05, 1e-9);
    MR_CHECK(r.workers[0].down_s == 0 && r.workers[0].wait_s > 1);
    mr_simtrain_result_deinit(&r);
    j.backup = 1; /* the others end the training while it is still down */
    j.restart_s = 1000;
    r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.workers[1].down_s, r.total_s - 3.05, 1e-9);
    mr_simtrain_result_deinit(&r);
}

/* ---- detection ---- */

MR_TEST(simtrain_a_refused_connection_is_noticed_at_once_a_silent_host_after_seven_seconds)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_PS, 0, 3.05, false};
    mr_simtrain_job j = job_with(&crash, 2);
    j.rpc_s = 0.001;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.losses.p[0].noticed_s, 3.051, 1e-9);
    mr_simtrain_result_deinit(&r);
    crash.silent = true;
    j.restart_s = 30;
    r = mr_simtrain_must_run(&j);
    double after_s = r.losses.p[0].noticed_s - 3.05;
    MR_CHECK(after_s > 7 - 0.7 && after_s <= 7 + 0.7);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_a_restart_is_noticed_before_the_silence_is_long)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_PS, 0, 3.05, true};
    mr_simtrain_job j = job_with(&crash, 2);
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    double after_s = r.losses.p[0].noticed_s - 3.05;
    MR_CHECK(after_s > 1 && after_s <= 1 + 0.7);
    mr_simtrain_result_deinit(&r);
}

/* ---- workers ---- */

MR_TEST(simtrain_a_lost_worker_stops_nobody_when_asynchronous)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_WORKER, 2, 3.05, false};
    mr_simtrain_job j = job_with(&crash, 4);
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    const mr_simtrain_loss *l = &r.losses.p[0];
    MR_CHECK_NEAR(l->lost_steps, 0, 0);
    MR_CHECK_NEAR(l->back_s, 3.05 + 1 + 0.05, 0.01);
    MR_CHECK(l->stopped_s < 0.120);
    MR_CHECK_INT(r.applied, 400);
    /* a quarter of the work is missing for 1.1 s */
    MR_CHECK_NEAR(r.total_s - r.ideal_s, 1.1 / 4, 0.15);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_the_barrier_waits_for_a_lost_worker_that_is_soon_back)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_WORKER, 2, 3.05, false};
    mr_simtrain_job j = job_with(&crash, 4);
    j.mode = MR_SIMTRAIN_SYNC;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    /* restart, session, token, a step */
    MR_CHECK_NEAR(r.losses.p[0].stopped_s, 1 + 0.05 + 0.120, 0.01);
    MR_CHECK_INT(r.applied, 400);
    mr_simtrain_result_deinit(&r);
}

/* Worker 0 is slow, so at 1.17 s the gradient of the lost worker is already there and that step ends without it. */
MR_TEST(simtrain_a_pause_begins_after_the_step_that_a_lost_worker_had_already_done)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_WORKER, 2, 1.17, false};
    mr_simtrain_slow slow = {.kind = MR_SIMTRAIN_WORKER, .index = 0, .factor = 2};
    mr_simtrain_job j = job_with(&crash, 4);
    j.mode = MR_SIMTRAIN_SYNC;
    j.slow = &slow;
    j.n_slow = 1;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    const mr_simtrain_loss *l = &r.losses.p[0];
    MR_CHECK_NEAR(l->back_s, 1.17 + 1 + 0.05, 0.01);
    /* from the step that ends at 1.2 s until the worker has computed one */
    MR_CHECK_NEAR(l->stopped_s, l->back_s - 1.2 + 0.120, 0.01);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_the_barrier_gives_up_a_silent_worker_after_its_lease)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_WORKER, 2, 3.05, false};
    mr_simtrain_job j = job_with(&crash, 4);
    j.mode = MR_SIMTRAIN_SYNC;
    j.lease_s = 2;
    j.restart_s = 5;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    const mr_simtrain_loss *l = &r.losses.p[0];
    MR_CHECK(l->stopped_s > 1.4 && l->stopped_s < 2.7);
    MR_CHECK_NEAR(l->back_s, 3.05 + 5 + 0.05, 0.01);
    MR_CHECK(r.applied < 400 && r.applied > 300); /* some steps had three gradients */
    MR_CHECK(r.workers[2].steps < r.workers[1].steps);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_a_backup_takes_the_place_of_a_lost_worker)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_WORKER, 2, 3.05, false};
    mr_simtrain_job j = job_with(&crash, 4);
    j.mode = MR_SIMTRAIN_SYNC;
    j.backup = 1;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK(r.losses.p[0].stopped_s <= 0.120 + 1e-9);
    MR_CHECK_NEAR(r.total_s, r.ideal_s, 1e-6);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_a_delay_bound_does_not_wait_for_the_dead)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_WORKER, 2, 3.05, false};
    mr_simtrain_job j = job_with(&crash, 4);
    j.mode = MR_SIMTRAIN_BOUNDED;
    j.delay_bound = 1;
    j.restart_s = 5;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_INT(r.applied, 400);
    MR_CHECK_INT(r.max_lead <= 1, 1);
    MR_CHECK(r.total_s - r.ideal_s < 2); /* three continue alone for 5 s */
    mr_simtrain_result_deinit(&r);
}

/* ---- the chief ---- */

MR_TEST(simtrain_the_next_worker_becomes_chief)
{
    mr_simtrain_crash crashes[] = {{MR_SIMTRAIN_CHIEF, 0, 3.05, false}, {MR_SIMTRAIN_CHIEF, 0, 9, false}};
    mr_simtrain_job j = job_with(crashes, 4);
    j.n_crashes = 2;
    j.mode = MR_SIMTRAIN_SYNC;
    j.chief_s = 2;
    j.lease_s = 2;
    j.restart_s = 60;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_INT(r.losses.n, 2);
    MR_CHECK_INT(r.losses.p[0].kind, MR_SIMTRAIN_CHIEF);
    MR_CHECK_INT(r.losses.p[0].index, 0);
    MR_CHECK_INT(r.losses.p[1].index, 1); /* it led by then */
    MR_CHECK_NEAR(r.losses.p[0].lost_steps, 0, 0);
    MR_CHECK(r.losses.p[0].stopped_s > 2 && r.losses.p[0].stopped_s < 6);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_server_and_chief_lost_together_come_back)
{
    mr_simtrain_crash crashes[] = {{MR_SIMTRAIN_CHIEF, 0, 3.05, true}, {MR_SIMTRAIN_PS, 0, 3.05, true}, {MR_SIMTRAIN_PS, 1, 3.06, false}};
    mr_simtrain_job j = job_with(crashes, 4);
    j.n_crashes = 3;
    for (int mode = MR_SIMTRAIN_ASYNC; mode <= MR_SIMTRAIN_BOUNDED; mode++) {
        j.mode = mode;
        mr_simtrain_result r = mr_simtrain_must_run(&j);
        double lost = 0;
        for (int i = 0; i < r.losses.n; i++) {
            MR_CHECK(!isnan(r.losses.p[i].back_s));
            lost += r.losses.p[i].lost_steps;
        }
        MR_CHECK_NEAR(lost, 9, 1); /* counted once */
        mr_simtrain_result_deinit(&r);
    }
}

/* ---- checkpoints ---- */

MR_TEST(simtrain_checkpoints_that_block_cost_their_time)
{
    mr_simtrain_job j = job_with(NULL, 3);
    j.n_crashes = 0;
    j.mode = MR_SIMTRAIN_SYNC;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.total_s, r.ideal_s, 1e-9); /* beside training */
    mr_simtrain_result_deinit(&r);
    j.save_blocks = true;
    r = mr_simtrain_must_run(&j);
    MR_CHECK(r.n_checkpoints >= 11);
    MR_CHECK(r.total_s > r.ideal_s + 0.3 && r.total_s <= r.ideal_s + 0.1 * (r.n_checkpoints + 1));
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_more_checkpoints_lose_less)
{
    mr_simtrain_job j = job_with(NULL, 4);
    double lost[2] = {0};
    j.n_crashes = 0;
    j.ps_mtbf_s = 20;
    j.steps = 1000;
    for (int often = 0; often < 2; often++) {
        j.checkpoint_s = often ? 0.5 : 5;
        mr_simtrain_result r = mr_simtrain_must_run(&j);
        MR_CHECK(r.losses.n > 3);
        for (int i = 0; i < r.losses.n; i++)
            lost[often] += r.losses.p[i].lost_steps / r.losses.n;
        mr_simtrain_result_deinit(&r);
    }
    MR_CHECK(lost[1] < lost[0] / 3);
}

/* Every mode, many seeds, everything fails: the job is done all the same, and its account is in order. */
MR_TEST(simtrain_jobs_end_whatever_fails)
{
    mr_test_deadline(120);
    mr_simtrain_job j = job_with(NULL, 6);
    j.n_crashes = 0;
    j.worker_mtbf_s = 15, j.ps_mtbf_s = 40, j.mtbf_silent = 0.5;
    j.lease_s = 2, j.chief_s = 2, j.tail_s = 0.03, j.delay_bound = 3;
    for (int i = 0; i < 60; i++) {
        j.seed = (uint64_t)i + 1;
        j.mode = i % 3;
        j.backup = j.mode == MR_SIMTRAIN_SYNC ? i % 2 : 0;
        j.n_hosts = i % 4 == 3;
        j.cores = 4;
        mr_simtrain_result r = mr_simtrain_must_run(&j);
        double lost = 0;
        for (int k = 0; k < r.losses.n; k++)
            lost += r.losses.p[k].lost_steps;
        MR_CHECK(r.total_s >= r.ideal_s * 0.9);
        if (j.mode != MR_SIMTRAIN_SYNC)
            MR_CHECK_NEAR((double)r.applied, (100 + lost) * 6, 1e-6);
        mr_simtrain_result_deinit(&r);
    }
}

/* Points before the crash, while the server is down, after the restore to the 16 steps of the checkpoint, and at the
 * end. */
MR_TEST(simtrain_progress_falls_to_the_restored_checkpoint)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_PS, 1, 3.05, false};
    mr_simtrain_job j = job_with(&crash, 1);
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    int n_falls = 0, n_level = 0;
    MR_CHECK_NEAR(r.progress.p[0].at_s, 0, 0);
    for (int i = 1; i < r.progress.n; i++) {
        const mr_simtrain_progress *a = &r.progress.p[i - 1], *b = &r.progress.p[i];
        MR_CHECK(b->at_s >= a->at_s);
        n_level += a->at_s == 3.05 && b->at_s == r.losses.p[0].back_s && a->steps == 25 && b->steps == 25;
        n_falls += b->steps < a->steps && b->steps == 16 && b->at_s == r.losses.p[0].back_s;
    }
    MR_CHECK_INT(n_falls, 1);
    MR_CHECK_INT(n_level, 1);
    MR_CHECK_NEAR(r.progress.p[r.progress.n - 1].at_s, r.total_s, 0);
    MR_CHECK_NEAR(r.progress.p[r.progress.n - 1].steps, 100, 0);
    mr_simtrain_result_deinit(&r);
}

MR_TEST(simtrain_progress_has_few_points_whatever_crashes)
{
    mr_simtrain_job j = job_with(NULL, 8);
    j.n_crashes = 0;
    j.steps = 3000;
    j.worker_mtbf_s = 5;
    j.ps_mtbf_s = 40;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK(r.losses.n > 400);
    MR_CHECK(r.progress.n > 200 && r.progress.n <= 800);
    mr_simtrain_result_deinit(&r);
}

/* The further checkpoint of 2.9 s is complete before the crash; the one of 2.95 s would begin while it is written. */
MR_TEST(simtrain_a_further_checkpoint_saves_steps)
{
    mr_simtrain_crash crash = {MR_SIMTRAIN_PS, 1, 3.05, false};
    mr_simtrain_job j = job_with(&crash, 1);
    const double at_s[] = {2.95, 2.9};
    j.checkpoint_s = 0;
    j.checkpoints = at_s;
    j.n_checkpoints = 2;
    mr_simtrain_result r = mr_simtrain_must_run(&j);
    MR_CHECK_INT(r.n_checkpoints, 1);
    MR_CHECK_NEAR(r.losses.p[0].checkpoint_at_s, 3.0, 1e-9);
    MR_CHECK_NEAR(r.losses.p[0].saved_steps, 24, 0);
    MR_CHECK_NEAR(r.losses.p[0].lost_steps, 1, 0);
    mr_simtrain_must_print(&j, &r, "checkpoints  1, at given times");
    mr_simtrain_result_deinit(&r);
    j.save_blocks = true;
    j.n_crashes = 0;
    r = mr_simtrain_must_run(&j);
    MR_CHECK_NEAR(r.ideal_s, 100 * 0.120, 1e-9);
    MR_CHECK_NEAR(r.total_s, 24 * 0.120 + 0.120 + 75 * 0.120, 1e-9); /* the step that runs at 2.9 s ends at 3 s */
    mr_simtrain_result_deinit(&r);
}
