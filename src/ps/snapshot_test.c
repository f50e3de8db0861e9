/* ps/snapshot_test.c -- all tables as a TensorBundle, and back. */
#include <stdio.h>

#include "ps/cluster_fixture.h"
#include "tests/harness/test.h"

MR_TEST(ps_snapshot_is_restored_to_other_servers)
{
    ps_fixture r;
    int t;
    char folder[512];
    snprintf(folder, sizeof folder, "%s/snapshot", mr_test_dir());
    mr_ps_table_options o = {.num_keys = 1000,
                             .width = 3,
                             .update = MR_PS_ADAGRAD,
                             .rate = 0.1f,
                             .start = 1,
                             .spread = 0.5f,
                             .seed = 3};
    static float ones[3000], before[3000], after[3000];
    for (int i = 0; i < 3000; i++)
        ones[i] = 1;
    for (int round = 0; round < 2; round++) {
        mr_ps_task k;
        ps_fixture_open(&r, 1 + 2 * round, 1, MR_PS_ADD);
        MR_CHECK_OK(mr_ps_make_table(r.ps, MR_SV("ada"), &o, &t));
        mr_ps_job pull = {.pull = true, .table = t, .keys = {.n = 1000}, .out = round ? after : before};
        if (round == 0) {
            MR_CHECK_OK(mr_ps_begin(r.ps, &(mr_ps_job){.table = t, .keys = {.n = 1000}, .floats = ones}, &k));
            MR_CHECK_OK(mr_ps_end(r.ps, k));
            ps_push_all(r.ps, r.table, 8);
            MR_CHECK_OK(mr_ps_save(r.ps, folder));
        } else {
            MR_CHECK_OK(mr_ps_load(r.ps, folder));
            ps_check_all(r.ps, r.table, 8);
        }
        /* What Adagrad keeps is there again too: the next push does the same. */
        MR_CHECK_OK(mr_ps_begin(r.ps, &(mr_ps_job){.table = t, .keys = {.n = 1000}, .floats = ones}, &k));
        MR_CHECK_OK(mr_ps_end(r.ps, k));
        MR_CHECK_OK(mr_ps_begin(r.ps, &pull, &k));
        MR_CHECK_OK(mr_ps_end(r.ps, k));
        ps_fixture_close(&r);
    }
    MR_CHECK(memcmp(before, after, sizeof before) == 0);
}

/* Ranges that were lost with all their copies begin again empty, and get the rows of the snapshot. */
MR_TEST(ps_snapshot_brings_back_what_was_lost)
{
    ps_fixture r;
    char folder[512];
    snprintf(folder, sizeof folder, "%s/snapshot", mr_test_dir());
    ps_fixture_open(&r, 2, 1, MR_PS_ADD);
    ps_push_all(r.ps, r.table, 5);
    MR_CHECK_OK(mr_ps_save(r.ps, folder));
    ps_push_all(r.ps, r.table, 1);
    ps_wait_quiet(r.ps);
    mr_ps_server_close(r.servers[0]);
    r.servers[0] = NULL;
    MR_CHECK_OK(mr_ps_load(r.ps, folder));
    ps_check_all(r.ps, r.table, 5);
    ps_push_all(r.ps, r.table, 2);
    ps_check_all(r.ps, r.table, 7);
    ps_fixture_close(&r);
}

/* Errors of before are why one restores, and are still told to who waits for them. */
MR_TEST(ps_snapshot_is_restored_after_pushes_that_failed)
{
    ps_fixture r;
    char folder[512];
    float v[1000] = {0};
    mr_ps_task t;
    snprintf(folder, sizeof folder, "%s/snapshot", mr_test_dir());
    ps_fixture_open(&r, 2, 1, MR_PS_ADD);
    ps_push_all(r.ps, r.table, 5);
    MR_CHECK_OK(mr_ps_save(r.ps, folder));
    ps_wait_quiet(r.ps);
    mr_ps_server_close(r.servers[0]);
    r.servers[0] = NULL;
    MR_CHECK_OK(mr_ps_begin(r.ps, &(mr_ps_job){.table = r.table, .keys = {.n = 1000}, .floats = v}, &t));
    MR_CHECK_OK(mr_ps_load(r.ps, folder));
    ps_check_all(r.ps, r.table, 5);
    MR_CHECK_ERR(mr_ps_end(r.ps, t), MR_DATA_LOSS, "table 'w'");
    ps_fixture_close(&r);
}

MR_TEST(ps_snapshot_of_a_table_that_is_called_options)
{
    ps_fixture r;
    int t;
    char folder[512];
    snprintf(folder, sizeof folder, "%s/snapshot", mr_test_dir());
    ps_fixture_open(&r, 1, 1, MR_PS_ADD);
    mr_ps_table_options o = {.num_keys = 1000, .update = MR_PS_ADD};
    MR_CHECK_OK(mr_ps_make_table(r.ps, MR_SV("my/options"), &o, &t));
    ps_push_all(r.ps, t, 3);
    MR_CHECK_OK(mr_ps_save(r.ps, folder));
    ps_push_all(r.ps, t, 1);
    MR_CHECK_OK(mr_ps_load(r.ps, folder));
    ps_check_all(r.ps, t, 3);
    ps_fixture_close(&r);
}
