/* sim/train/sweep_test.c -- sweeps, and the published curves. */
#include "base/memory.h"
#include "sim/train/calibration.h"
#include "tests/harness/test.h"

static mr_simtrain_chunk chunks[2];

/* 100 ms of compute and 2 ms of one server's time a step. */
static mr_simtrain_job small_job(void)
{
    mr_simtrain_job j;
    mr_simtrain_job_init(&j);
    for (int i = 0; i < 2; i++)
        chunks[i] = (mr_simtrain_chunk){.forward_s = 0.020, .backward_s = 0.030, .bytes = 0.5e6, .ps = 0};
    j.chunks = chunks;
    j.n_chunks = 2;
    j.ps_bytes_per_s = 1e9;
    j.warmup = 5;
    return j;
}

/* One server has 2 ms for each step: 50 workers of 100 ms keep it busy. */
MR_TEST(simtrain_a_sweep_finds_where_workers_stop_to_help)
{
    mr_simtrain_job j = small_job();
    mr_simtrain_sweep s;
    MR_CHECK_OK(mr_simtrain_sweep_run(&j, "workers", 1, 1000, &s));
    MR_CHECK_INT(s.points.n, 11);
    MR_CHECK_NEAR(s.points.p[10].value, 1000, 0);
    MR_CHECK_NEAR(s.points.p[4].examples_per_s / s.points.p[0].examples_per_s, 16, 0.5);
    MR_CHECK_NEAR(s.points.p[10].examples_per_s, 500, 15);
    MR_CHECK_NEAR(s.knee, 64, 0);
    mr_simtrain_sweep_deinit(&s);
}

MR_TEST(simtrain_a_sweep_deals_chunks_out_to_more_servers)
{
    mr_simtrain_job j = small_job();
    mr_simtrain_sweep s;
    j.n_workers = 200;
    MR_CHECK_OK(mr_simtrain_sweep_run(&j, "ps", 1, 4, &s));
    MR_CHECK_INT(s.points.n, 3);
    MR_CHECK_NEAR(s.points.p[1].examples_per_s / s.points.p[0].examples_per_s, 2, 0.1);
    MR_CHECK_NEAR(s.knee, 2, 0); /* there are but two chunks */
    MR_CHECK_INT(chunks[1].ps, 0);
    mr_simtrain_sweep_deinit(&s);
}

MR_TEST(simtrain_a_sweep_over_backups_counts_by_one)
{
    mr_simtrain_job j = small_job();
    mr_simtrain_slow slow[] = {{0, 3}, {1, 2}, {11, 9}};
    mr_simtrain_sweep s;
    mr_str out = {0};
    j.mode = MR_SIMTRAIN_SYNC;
    j.n_workers = 10;
    j.backup = 5;
    j.slow = slow;
    j.n_slow = 3; /* the third is only there with two backups */
    MR_CHECK_OK(mr_simtrain_sweep_run(&j, "backup", 0, 4, &s));
    MR_CHECK_INT(s.points.n, 5);
    MR_CHECK_NEAR(s.points.p[0].step_median_s / s.points.p[1].step_median_s, 1.5, 0.06);
    MR_CHECK(isnan(s.knee));
    mr_simtrain_sweep_print(&s, &out);
    MR_CHECK(strstr(out.p, "backup  examples/s"));
    mr_str_deinit(&out);
    mr_simtrain_sweep_deinit(&s);
}

/* The sentence under the table must hold for every row of it. */
static void check_verdict(const double *examples_per_s, int n, const char *says)
{
    mr_simtrain_sweep s = {.what = "workers", .doubles = true};
    mr_str out = {0};
    for (int i = 0; i < n; i++)
        mr_vec_push(&s.points, ((mr_simtrain_point){.value = (double)(1 << i), .examples_per_s = examples_per_s[i]}));
    mr_simtrain_sweep_conclude(&s);
    mr_simtrain_sweep_print(&s, &out);
    if (!strstr(mr_str_z(&out), says))
        mr_test_fail(__FILE__, __LINE__, "expected '%s' in\n%s", says, mr_str_z(&out));
    mr_str_deinit(&out);
    mr_simtrain_sweep_deinit(&s);
}

MR_TEST(simtrain_a_sweeps_verdict_holds_for_its_table)
{
    check_verdict((double[]){100, 102, 190, 350, 614}, 5, "\nAt 1 workers, twice as many add less than 5 %, but more of them help again. The most examples/s, within 1 %, come with workers = 16.");
    check_verdict((double[]){100, 102, 190, 350, 351}, 5, "\nFrom 8 workers on, twice as many add less than 5 %. The most examples/s, within 1 %, come with workers = 8.");
    check_verdict((double[]){100, 200, 210, 214, 180}, 5, "\nFrom 4 workers on, twice as many add less than 5 %. The most examples/s, within 1 %, come with workers = 8.");
    check_verdict((double[]){100, 190, 350}, 3, "\nTwice as many always add 5 % or more.");
}

MR_TEST(simtrain_a_sweep_refuses_what_makes_no_sense)
{
    mr_simtrain_job j = small_job();
    mr_simtrain_sweep s;
    MR_CHECK_ERR(mr_simtrain_sweep_run(&j, "colour", 1, 2, &s), MR_INVALID_ARGUMENT, "Cannot sweep over 'colour'");
    MR_CHECK_ERR(mr_simtrain_sweep_run(&j, "backup", 1, 2, &s), MR_INVALID_ARGUMENT, "mode sync");
    MR_CHECK_ERR(mr_simtrain_sweep_run(&j, "delay", 1, 2, &s), MR_INVALID_ARGUMENT, "mode bounded");
    MR_CHECK_ERR(mr_simtrain_sweep_run(&j, "workers", 0, 2, &s), MR_INVALID_ARGUMENT, "integers");
    MR_CHECK_ERR(mr_simtrain_sweep_run(&j, "workers", 3, 2, &s), MR_INVALID_ARGUMENT, "integers");
    MR_CHECK_ERR(mr_simtrain_sweep_run(&j, "workers", NAN, 2, &s), MR_INVALID_ARGUMENT, "integers");
    MR_CHECK_ERR(mr_simtrain_sweep_run(&j, "workers", 1, 1e300, &s), MR_INVALID_ARGUMENT, "integers");
}

/* ---- the published curves ---- */

/* Every point of a curve; those between its ends are predictions. */
static void check_curve(mr_simtrain_curve kind)
{
    int n_inner = 0;
    mr_test_deadline(300); /* under sanitizers */
    for (int i = 0; i < mr_simtrain_n_figures; i++) {
        const mr_simtrain_figure *f = &mr_simtrain_osdi16_figures[i];
        double got;
        if (f->kind != kind)
            continue;
        MR_CHECK_OK(mr_simtrain_figure_run(&mr_simtrain_osdi16, f, &got));
        if (!(fabs(got / f->published - 1) <= 0.10))
            mr_test_fail(__FILE__, __LINE__, "%s at %d: %g simulated, %g published", f->curve, f->x, got, f->published);
        n_inner += !f->is_end;
    }
    MR_CHECK(n_inner >= 2);
}

MR_TEST(simtrain_predicts_the_null_step_within_a_tenth) { check_curve(MR_SIMTRAIN_NULL_STEP); }
MR_TEST(simtrain_predicts_inception_async_within_a_tenth) { check_curve(MR_SIMTRAIN_INCEPTION_ASYNC); }
MR_TEST(simtrain_predicts_inception_sync_within_a_tenth) { check_curve(MR_SIMTRAIN_INCEPTION_SYNC); }
MR_TEST(simtrain_predicts_inception_with_backups_within_a_tenth) { check_curve(MR_SIMTRAIN_INCEPTION_BACKUP); }

MR_TEST(simtrain_the_first_backup_helps_most)
{
    double t[6];
    for (int b = 0, i = 0; i < mr_simtrain_n_figures; i++)
        if (mr_simtrain_osdi16_figures[i].kind == MR_SIMTRAIN_INCEPTION_BACKUP)
            MR_CHECK_OK(mr_simtrain_figure_run(&mr_simtrain_osdi16, &mr_simtrain_osdi16_figures[i], &t[b++]));
    MR_CHECK(t[0] - t[1] > 2 * (t[3] - t[4]) && t[0] - t[1] > 3 * (t[4] - t[5]));
}
