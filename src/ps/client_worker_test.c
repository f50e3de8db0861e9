/* ps/client_worker_test.c -- what a worker's pushes and pulls do: how they travel, what is kept back, iterations. */
#include <stdio.h>

#include "base/clock.h"
#include "base/thread.h"
#include "ps/cluster_fixture.h"
#include "tests/harness/test.h"

/* However keys and values travel, small integers come through. */
MR_TEST(ps_codecs_change_bytes_and_not_values)
{
    enum { N = 500 };
    uint64_t keys[N];
    float v[N], got[N];
    ps_fixture r;
    ps_fixture_open(&r, 2, 1, MR_PS_ADD);
    for (int i = 0; i < N; i++) {
        keys[i] = (uint64_t)(2 * i);
        v[i] = (float)(i % 3);
    }
    int64_t plain = 0;
    for (int how = 0; how < 4; how++) {
        mr_ps *ps = ps_add_client(
            &r,
            (mr_ps_options){.cache_keys = how & 1, .compress = how >> 1, .half = how >> 1, .observer = 1});
        char name[8];
        int t;
        snprintf(name, sizeof name, "t%d", how);
        MR_CHECK_OK(mr_ps_make_table(ps, mr_sv_of(name),
                                     &(mr_ps_table_options){.num_keys = 1000, .update = MR_PS_ADD}, &t));
        for (int i = 0; i < 10; i++)
            ps_push_keys(ps, t, keys, N, v, NULL);
        ps_pull_keys(ps, t, keys, N, got);
        for (int i = 0; i < N; i++)
            MR_CHECK_NEAR(got[i], 10 * v[i], 0);
        mr_ps_stats s;
        mr_ps_count(ps, &s);
        if (how == 0)
            plain = s.bytes_sent;
        else
            MR_CHECK(s.bytes_sent < plain);
        if (how & 1)
            MR_CHECK(s.key_hits >= s.key_lists * 8 / 11);
        mr_ps_close(ps);
    }
    ps_fixture_close(&r);
}

typedef struct heard { /* by who is told that a task has ended */
    mr_ps *ps;
    mr_ps_stats s;
} heard;

static void count_at_end(void *arg, mr_ps_task t, const mr_status *st)
{
    heard *h = arg;
    (void)t;
    MR_CHECK(!st);
    mr_ps_count(h->ps, &h->s);
}

MR_TEST(ps_bytes_of_a_task_are_counted_when_it_ends)
{
    float v[1000];
    ps_fixture r;
    mr_ps_task t;
    mr_ps_stats before;
    ps_fixture_open(&r, 1, 1, MR_PS_ADD);
    heard h = {.ps = r.ps};
    mr_ps_count(r.ps, &before);
    MR_CHECK_OK(mr_ps_begin(r.ps,
                            &(mr_ps_job){.pull = true,
                                         .table = r.table,
                                         .keys = {.n = 1000},
                                         .out = v,
                                         .done = count_at_end,
                                         .arg = &h},
                            &t));
    MR_CHECK_OK(mr_ps_end(r.ps, t));
    MR_CHECK(h.s.bytes_received - before.bytes_received >= (int64_t)sizeof v);
    MR_CHECK(h.s.bytes_sent > before.bytes_sent);
    ps_fixture_close(&r);
}

MR_TEST(ps_small_changes_are_kept_and_flushed)
{
    const uint64_t keys[2] = {5, 900};
    float got[2];
    ps_fixture r;
    ps_fixture_open(&r, 2, 1, MR_PS_ADD);
    mr_ps_call c = {.struct_size = sizeof c, .modified = 1.5f};
    for (int i = 0; i < 3; i++)
        ps_push_keys(r.ps, r.table, keys, 2, (const float[]){1, 0.25f}, &c);
    ps_pull_keys(r.ps, r.table, keys, 2, got);
    MR_CHECK_NEAR(got[0], 2, 0);
    MR_CHECK_NEAR(got[1], 0, 0);
    mr_ps_task t;
    MR_CHECK_OK(mr_ps_begin_flush(r.ps, r.table, &t));
    MR_CHECK_OK(mr_ps_end(r.ps, t));
    ps_pull_keys(r.ps, r.table, keys, 2, got);
    MR_CHECK_NEAR(got[0], 3, 0);
    MR_CHECK_NEAR(got[1], 0.75, 0);
    ps_fixture_close(&r);
}

MR_TEST(ps_pushes_of_several_workers_make_one_update)
{
    ps_fixture r;
    int t;
    ps_fixture_open(&r, 2, 2, MR_PS_ADD);
    MR_CHECK_OK(
        mr_ps_make_table(r.ps, MR_SV("sync"),
                         &(mr_ps_table_options){.num_keys = 1000, .update = MR_PS_ADD, .aggregate = 2}, &t));
    ps_push_all(r.ps, t, 3);
    ps_check_all(r.ps, t, 0);
    ps_push_all(r.ps, t, 5);
    ps_check_all(r.ps, t, 4);
    const uint64_t key = 7; /* a push of one key counts for all ranges */
    ps_push_keys(r.ps, t, &key, 1, (const float[]){2}, NULL);
    ps_push_all(r.ps, t, 2);
    float got[2];
    ps_pull_keys(r.ps, t, (const uint64_t[]){7, 999}, 2, got);
    MR_CHECK_NEAR(got[0], 6, 0);
    MR_CHECK_NEAR(got[1], 5, 0);
    ps_fixture_close(&r);
}

/* The mean of pushes that are all within l1 is, too: however many workers there are. */
MR_TEST(ps_kkt_leaves_out_by_l1_whatever_the_number_of_workers)
{
    ps_fixture r;
    int t;
    float w[2] = {0};
    const uint64_t keys[2] = {7, 999};
    ps_fixture_open(&r, 1, 1, MR_PS_ADD);
    mr_ps *other = ps_add_client(&r, (mr_ps_options){0});
    mr_ps_table_options o = {.num_keys = 1000, .update = MR_PS_PROXIMAL, .l1 = 1, .aggregate = 2};
    mr_ps_call call = {.kkt = w}; /* the threshold is 0.9 */
    MR_CHECK_OK(mr_ps_make_table(r.ps, MR_SV("sparse"), &o, &t));
    MR_CHECK_OK(mr_ps_make_table(other, MR_SV("sparse"), &o, &t));
    ps_push_keys(r.ps, t, keys, 2, (const float[]){0.8f, 1, 3, 1}, &call); /* gradient and curvature of each key */
    ps_push_keys(other, t, keys, 2, (const float[]){0.8f, 1, 3, 1}, &call);
    mr_ps_stats s;
    mr_ps_count(other, &s); /* who came last knows of both */
    MR_CHECK_INT(s.rows_sent, 1);
    ps_pull_keys(r.ps, t, keys, 2, w);
    MR_CHECK_NEAR(w[0], 0, 0);
    MR_CHECK_NEAR(w[1], -2, 1e-6);
    mr_ps_close(other);
    ps_fixture_close(&r);
}

static void iterate(void *arg)
{
    ps_worker *w = arg;
    int64_t at;
    for (int i = 0; i < w->times; i++)
        MR_CHECK_OK(mr_ps_next_iteration(w->ps, &at));
}

MR_TEST(ps_iterations_wait_for_the_slowest)
{
    ps_fixture r;
    ps_fixture_open(&r, 1, 1, MR_PS_ADD);
    mr_ps_close(r.ps);
    r.ps = ps_add_client(&r, (mr_ps_options){.delay = 2, .name = "slow"});
    ps_worker quick = {.ps = ps_add_client(&r, (mr_ps_options){.delay = 2, .name = "quick"}), .times = 6};
    int64_t at;
    mr_ps_stats s;
    MR_CHECK_INT(mr_thread_start(&quick.thread, "quick", iterate, &quick), 0);
    for (int i = 1; i <= 4; i++) {
        do /* it gets two ahead by itself */
            mr_ps_count(quick.ps, &s);
        while (s.iteration < i + 2);
        mr_sleep_ns(20000000);
        mr_ps_worker_stats rows[4];
        int n;
        MR_CHECK_OK(mr_ps_waits(r.ps, rows, 4, &n));
        MR_CHECK_INT(n, 2);
        mr_ps_count(quick.ps, &s);
        MR_CHECK(s.iteration <= i + 2); /* and no further */
        MR_CHECK_OK(mr_ps_next_iteration(r.ps, &at));
        MR_CHECK_INT(at, i);
    }
    mr_ps_close(r.ps); /* who has left is not waited for */
    r.ps = NULL;
    mr_thread_join(&quick.thread);
    mr_ps_close(quick.ps);
    ps_fixture_close(&r);
}

/* What nobody waits for is not kept for ever. */
MR_TEST(ps_errors_that_nobody_asks_for_are_forgotten)
{
    ps_fixture r;
    ps_fixture_open(&r, 1, 1, MR_PS_ADD);
    mr_ps_task first = 0, t = 0;
    float v[1] = {0};
    for (int i = 0; i < 5000; i++) {
        MR_CHECK_OK(mr_ps_begin(r.ps, &(mr_ps_job){.table = r.table, .keys = {.n = 1}, .floats = v}, &t));
        mr_ps_cancel(r.ps, t);
        first = first ? first : t;
    }
    mr_status_free(mr_ps_end_all(r.ps));
    MR_CHECK_OK(mr_ps_end(r.ps, first)); /* forgotten, well or not */
    MR_CHECK_OK(mr_ps_end(r.ps, t));
    ps_fixture_close(&r);
}
