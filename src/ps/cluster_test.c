/* ps/cluster_test.c -- a manager, servers and workers in one process, over real sockets. */
#include <stdio.h>

#include "base/clock.h"
#include "base/thread.h"
#include "ps/client.h"
#include "ps/manager.h"
#include "ps/server.h"
#include "tests/harness/test.h"

enum { MAX_SERVERS = 6 };

typedef struct rig {
    mr_ps_manager *manager;
    int64_t lost_ms; /* 0: 20000: who is closed is seen at once; a slow machine is no loss */
    char address[128];
    mr_ps_server *servers[MAX_SERVERS];
    mr_ps *ps;
    int table;
} rig;

static void add_server(rig *r, int i)
{
    mr_ps_server_options o = {.struct_size = sizeof o, .manager = r->address};
    MR_CHECK_OK(mr_ps_server_open(&o, NULL, &r->servers[i]));
}

static mr_ps *add_client(const rig *r, mr_ps_options o)
{
    mr_ps *ps;
    o.struct_size = sizeof o;
    o.manager = r->address;
    MR_CHECK_OK(mr_ps_open(&o, &ps));
    return ps;
}

static void open_manager(rig *r, const char *address, int n, int replicas)
{
    mr_ps_manager_options o = {.struct_size = sizeof o,
                               .address = address,
                               .replicas = replicas,
                               .servers = n,
                               .num_ranges = 24,
                               .lost_ms = r->lost_ms ? r->lost_ms : 20000};
    MR_CHECK_OK(mr_ps_manager_open(&o, NULL, &r->manager));
    snprintf(r->address, sizeof r->address, "%s", mr_ps_manager_where(r->manager));
}

static void rig_open(rig *r, int n, int replicas, mr_ps_update update)
{
    *r = (rig){0};
    mr_test_deadline(120);
    open_manager(r, NULL, n, replicas);
    for (int i = 0; i < n; i++)
        add_server(r, i);
    r->ps = add_client(r, (mr_ps_options){0});
    mr_ps_table_options t = {.struct_size = sizeof t, .num_keys = 1000, .update = update};
    MR_CHECK_OK(mr_ps_make_table(r->ps, MR_SV("w"), &t, &r->table));
}

static void rig_close(rig *r)
{
    mr_ps_close(r->ps);
    for (int i = 0; i < MAX_SERVERS; i++)
        mr_ps_server_close(r->servers[i]);
    mr_ps_manager_close(r->manager);
}

static void push_all(mr_ps *ps, int table, float amount)
{
    float v[1000];
    mr_ps_task t;
    for (int i = 0; i < 1000; i++)
        v[i] = amount;
    MR_CHECK_OK(
        mr_ps_begin(ps, &(mr_ps_job){.table = table, .keys = {.first = 0, .n = 1000}, .floats = v}, &t));
    MR_CHECK_OK(mr_ps_end(ps, t));
}

static void check_all(mr_ps *ps, int table, float want)
{
    float v[1000];
    mr_ps_task t;
    MR_CHECK_OK(mr_ps_begin(
        ps, &(mr_ps_job){.pull = true, .table = table, .keys = {.first = 0, .n = 1000}, .out = v}, &t));
    MR_CHECK_OK(mr_ps_end(ps, t));
    for (int i = 0; i < 1000; i++)
        MR_CHECK_NEAR(v[i], want, 0);
}

/* Until every range has its copies where they should be. */
static void wait_quiet(mr_ps *ps)
{
    bool quiet = false;
    while (!quiet) {
        MR_CHECK_OK(mr_ps_is_quiet(ps, &quiet));
        if (!quiet)
            mr_sleep_ns(5000000);
    }
}

MR_TEST(ps_three_servers_hold_a_table)
{
    rig r;
    rig_open(&r, 3, 2, MR_PS_ADD);
    for (int i = 0; i < 20; i++)
        push_all(r.ps, r.table, 1);
    check_all(r.ps, r.table, 20);
    mr_ps_stats s;
    mr_ps_count(r.ps, &s);
    MR_CHECK_INT(s.servers, 3);
    rig_close(&r);
}

MR_TEST(ps_a_lost_server_takes_nothing_with_it)
{
    rig r;
    rig_open(&r, 3, 2, MR_PS_ADD);
    for (int i = 0; i < 10; i++)
        push_all(r.ps, r.table, 1);
    wait_quiet(r.ps);
    mr_ps_server_close(r.servers[1]);
    r.servers[1] = NULL;
    for (int i = 0; i < 10; i++)
        push_all(r.ps, r.table, 1);
    check_all(r.ps, r.table, 20);
    wait_quiet(r.ps); /* the others have copies of all now */
    mr_ps_server_close(r.servers[0]);
    r.servers[0] = NULL;
    push_all(r.ps, r.table, 1);
    check_all(r.ps, r.table, 21);
    rig_close(&r);
}

MR_TEST(ps_servers_join_and_leave_while_workers_push)
{
    rig r;
    rig_open(&r, 1, 2, MR_PS_ADD);
    float sum = 0;
    for (int i = 1; i < 5; i++) {
        add_server(&r, i);
        for (int k = 0; k < 20; k++, sum++)
            push_all(r.ps, r.table, 1);
    }
    wait_quiet(r.ps);
    check_all(r.ps, r.table, sum);
    for (int i = 0; i < 3; i++) {
        MR_CHECK_OK(mr_ps_server_hand_over(r.servers[i]));
        mr_ps_server_close(r.servers[i]);
        r.servers[i] = NULL;
        push_all(r.ps, r.table, 1);
        sum++;
    }
    check_all(r.ps, r.table, sum);
    rig_close(&r);
}

MR_TEST(ps_the_last_server_cannot_leave)
{
    rig r;
    rig_open(&r, 1, 2, MR_PS_ADD);
    MR_CHECK_ERR(mr_ps_server_hand_over(r.servers[0]), MR_FAILED_PRECONDITION, "no other server");
    push_all(r.ps, r.table, 3);
    check_all(r.ps, r.table, 3);
    rig_close(&r);
}

MR_TEST(ps_a_manager_that_is_started_anew_learns_from_the_servers)
{
    rig r;
    rig_open(&r, 2, 2, MR_PS_ADD);
    push_all(r.ps, r.table, 1);
    wait_quiet(r.ps);
    mr_ps_manager_close(r.manager);
    push_all(r.ps, r.table, 1); /* nobody needs it for that */
    open_manager(&r, r.address, 1, 2);
    add_server(&r, 2);
    wait_quiet(r.ps);
    push_all(r.ps, r.table, 1);
    check_all(r.ps, r.table, 3);
    mr_ps_server_close(r.servers[0]);
    r.servers[0] = NULL;
    push_all(r.ps, r.table, 1);
    check_all(r.ps, r.table, 4);
    int again;
    mr_ps_table_options t = {.struct_size = sizeof t, .num_keys = 1000, .update = MR_PS_ADD};
    MR_CHECK_OK(mr_ps_make_table(r.ps, MR_SV("w"), &t, &again));
    MR_CHECK_INT(again, r.table);
    rig_close(&r);
}

MR_TEST(ps_what_is_lost_with_all_copies_is_said)
{
    rig r;
    rig_open(&r, 2, 1, MR_PS_ADD);
    push_all(r.ps, r.table, 1);
    wait_quiet(r.ps);
    mr_ps_server_close(r.servers[0]);
    r.servers[0] = NULL;
    float v[1000] = {0};
    mr_ps_task t;
    MR_CHECK_OK(mr_ps_begin(
        r.ps, &(mr_ps_job){.pull = true, .table = r.table, .keys = {.first = 0, .n = 1000}, .out = v}, &t));
    MR_CHECK_ERR(mr_ps_end(r.ps, t), MR_DATA_LOSS, "table 'w'");
    rig_close(&r);
}

typedef struct worker {
    mr_ps *ps;
    int table, pushes;
    mr_thread thread;
} worker;

static void work(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < w->pushes; i++)
        push_all(w->ps, w->table, 1);
}

MR_TEST(ps_many_workers_add_up)
{
    rig r;
    worker w[4];
    rig_open(&r, 2, 2, MR_PS_ADD);
    for (int i = 0; i < 4; i++) {
        w[i] = (worker){.ps = add_client(&r, (mr_ps_options){.delay = MR_PS_EVENTUAL, .observer = 1}),
                        .table = r.table,
                        .pushes = 50};
        MR_CHECK_OK(mr_ps_make_table(
            w[i].ps, MR_SV("w"), &(mr_ps_table_options){.num_keys = 1000, .update = MR_PS_ADD}, &w[i].table));
        MR_CHECK_INT(mr_thread_start(&w[i].thread, "worker", work, &w[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        mr_thread_join(&w[i].thread);
    check_all(r.ps, r.table, 200);
    for (int i = 0; i < 4; i++)
        mr_ps_close(w[i].ps);
    rig_close(&r);
}

static void push_keys(mr_ps *ps, int table, const uint64_t *keys, size_t n, const float *v,
                      const mr_ps_call *c)
{
    mr_ps_task t;
    MR_CHECK_OK(mr_ps_begin(
        ps, &(mr_ps_job){.table = table, .keys = {.list = keys, .n = n}, .floats = v, .call = c}, &t));
    MR_CHECK_OK(mr_ps_end(ps, t));
}

static void pull_keys(mr_ps *ps, int table, const uint64_t *keys, size_t n, float *v)
{
    mr_ps_task t;
    MR_CHECK_OK(mr_ps_begin(
        ps, &(mr_ps_job){.pull = true, .table = table, .keys = {.list = keys, .n = n}, .out = v}, &t));
    MR_CHECK_OK(mr_ps_end(ps, t));
}

/* However keys and values travel, small integers come through. */
MR_TEST(ps_codecs_change_bytes_and_not_values)
{
    enum { N = 500 };
    uint64_t keys[N];
    float v[N], got[N];
    rig r;
    rig_open(&r, 2, 1, MR_PS_ADD);
    for (int i = 0; i < N; i++) {
        keys[i] = (uint64_t)(2 * i);
        v[i] = (float)(i % 3);
    }
    int64_t plain = 0;
    for (int how = 0; how < 4; how++) {
        mr_ps *ps = add_client(
            &r,
            (mr_ps_options){.cache_keys = how & 1, .compress = how >> 1, .half = how >> 1, .observer = 1});
        char name[8];
        int t;
        snprintf(name, sizeof name, "t%d", how);
        MR_CHECK_OK(mr_ps_make_table(ps, mr_sv_of(name),
                                     &(mr_ps_table_options){.num_keys = 1000, .update = MR_PS_ADD}, &t));
        for (int i = 0; i < 10; i++)
            push_keys(ps, t, keys, N, v, NULL);
        pull_keys(ps, t, keys, N, got);
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
    rig_close(&r);
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
    rig r;
    mr_ps_task t;
    mr_ps_stats before;
    rig_open(&r, 1, 1, MR_PS_ADD);
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
    rig_close(&r);
}

MR_TEST(ps_small_changes_are_kept_and_flushed)
{
    const uint64_t keys[2] = {5, 900};
    float got[2];
    rig r;
    rig_open(&r, 2, 1, MR_PS_ADD);
    mr_ps_call c = {.struct_size = sizeof c, .modified = 1.5f};
    for (int i = 0; i < 3; i++)
        push_keys(r.ps, r.table, keys, 2, (const float[]){1, 0.25f}, &c);
    pull_keys(r.ps, r.table, keys, 2, got);
    MR_CHECK_NEAR(got[0], 2, 0);
    MR_CHECK_NEAR(got[1], 0, 0);
    mr_ps_task t;
    MR_CHECK_OK(mr_ps_begin_flush(r.ps, r.table, &t));
    MR_CHECK_OK(mr_ps_end(r.ps, t));
    pull_keys(r.ps, r.table, keys, 2, got);
    MR_CHECK_NEAR(got[0], 3, 0);
    MR_CHECK_NEAR(got[1], 0.75, 0);
    rig_close(&r);
}

MR_TEST(ps_pushes_of_several_workers_make_one_update)
{
    rig r;
    int t;
    rig_open(&r, 2, 2, MR_PS_ADD);
    MR_CHECK_OK(
        mr_ps_make_table(r.ps, MR_SV("sync"),
                         &(mr_ps_table_options){.num_keys = 1000, .update = MR_PS_ADD, .aggregate = 2}, &t));
    push_all(r.ps, t, 3);
    check_all(r.ps, t, 0);
    push_all(r.ps, t, 5);
    check_all(r.ps, t, 4);
    const uint64_t key = 7; /* a push of one key counts for all ranges */
    push_keys(r.ps, t, &key, 1, (const float[]){2}, NULL);
    push_all(r.ps, t, 2);
    float got[2];
    pull_keys(r.ps, t, (const uint64_t[]){7, 999}, 2, got);
    MR_CHECK_NEAR(got[0], 6, 0);
    MR_CHECK_NEAR(got[1], 5, 0);
    rig_close(&r);
}

/* The mean of pushes that are all within l1 is, too: however many workers there are. */
MR_TEST(ps_kkt_leaves_out_by_l1_whatever_the_number_of_workers)
{
    rig r;
    int t;
    float w[2] = {0};
    const uint64_t keys[2] = {7, 999};
    rig_open(&r, 1, 1, MR_PS_ADD);
    mr_ps *other = add_client(&r, (mr_ps_options){0});
    mr_ps_table_options o = {.num_keys = 1000, .update = MR_PS_PROXIMAL, .l1 = 1, .aggregate = 2};
    mr_ps_call call = {.kkt = w}; /* the threshold is 0.9 */
    MR_CHECK_OK(mr_ps_make_table(r.ps, MR_SV("sparse"), &o, &t));
    MR_CHECK_OK(mr_ps_make_table(other, MR_SV("sparse"), &o, &t));
    push_keys(r.ps, t, keys, 2, (const float[]){0.8f, 1, 3, 1}, &call); /* gradient and curvature of each key */
    push_keys(other, t, keys, 2, (const float[]){0.8f, 1, 3, 1}, &call);
    mr_ps_stats s;
    mr_ps_count(other, &s); /* who came last knows of both */
    MR_CHECK_INT(s.rows_sent, 1);
    pull_keys(r.ps, t, keys, 2, w);
    MR_CHECK_NEAR(w[0], 0, 0);
    MR_CHECK_NEAR(w[1], -2, 1e-6);
    mr_ps_close(other);
    rig_close(&r);
}

static void iterate(void *arg)
{
    worker *w = arg;
    int64_t at;
    for (int i = 0; i < w->pushes; i++)
        MR_CHECK_OK(mr_ps_next_iteration(w->ps, &at));
}

MR_TEST(ps_iterations_wait_for_the_slowest)
{
    rig r;
    rig_open(&r, 1, 1, MR_PS_ADD);
    mr_ps_close(r.ps);
    r.ps = add_client(&r, (mr_ps_options){.delay = 2, .name = "slow"});
    worker quick = {.ps = add_client(&r, (mr_ps_options){.delay = 2, .name = "quick"}), .pushes = 6};
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
    rig_close(&r);
}

MR_TEST(ps_snapshot_is_restored_to_other_servers)
{
    rig r;
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
        rig_open(&r, 1 + 2 * round, 1, MR_PS_ADD);
        MR_CHECK_OK(mr_ps_make_table(r.ps, MR_SV("ada"), &o, &t));
        mr_ps_job pull = {.pull = true, .table = t, .keys = {.n = 1000}, .out = round ? after : before};
        if (round == 0) {
            MR_CHECK_OK(mr_ps_begin(r.ps, &(mr_ps_job){.table = t, .keys = {.n = 1000}, .floats = ones}, &k));
            MR_CHECK_OK(mr_ps_end(r.ps, k));
            push_all(r.ps, r.table, 8);
            MR_CHECK_OK(mr_ps_save(r.ps, folder));
        } else {
            MR_CHECK_OK(mr_ps_load(r.ps, folder));
            check_all(r.ps, r.table, 8);
        }
        /* What Adagrad keeps is there again too: the next push does the same. */
        MR_CHECK_OK(mr_ps_begin(r.ps, &(mr_ps_job){.table = t, .keys = {.n = 1000}, .floats = ones}, &k));
        MR_CHECK_OK(mr_ps_end(r.ps, k));
        MR_CHECK_OK(mr_ps_begin(r.ps, &pull, &k));
        MR_CHECK_OK(mr_ps_end(r.ps, k));
        rig_close(&r);
    }
    MR_CHECK(memcmp(before, after, sizeof before) == 0);
}

/* Ranges that were lost with all their copies begin anew, and get what the snapshot has. */
MR_TEST(ps_snapshot_brings_back_what_was_lost)
{
    rig r;
    char folder[512];
    snprintf(folder, sizeof folder, "%s/snapshot", mr_test_dir());
    rig_open(&r, 2, 1, MR_PS_ADD);
    push_all(r.ps, r.table, 5);
    MR_CHECK_OK(mr_ps_save(r.ps, folder));
    push_all(r.ps, r.table, 1);
    wait_quiet(r.ps);
    mr_ps_server_close(r.servers[0]);
    r.servers[0] = NULL;
    MR_CHECK_OK(mr_ps_load(r.ps, folder));
    check_all(r.ps, r.table, 5);
    push_all(r.ps, r.table, 2);
    check_all(r.ps, r.table, 7);
    rig_close(&r);
}

/* Errors of before are why one restores, and are still told to who waits for them. */
MR_TEST(ps_snapshot_is_restored_after_pushes_that_failed)
{
    rig r;
    char folder[512];
    float v[1000] = {0};
    mr_ps_task t;
    snprintf(folder, sizeof folder, "%s/snapshot", mr_test_dir());
    rig_open(&r, 2, 1, MR_PS_ADD);
    push_all(r.ps, r.table, 5);
    MR_CHECK_OK(mr_ps_save(r.ps, folder));
    wait_quiet(r.ps);
    mr_ps_server_close(r.servers[0]);
    r.servers[0] = NULL;
    MR_CHECK_OK(mr_ps_begin(r.ps, &(mr_ps_job){.table = r.table, .keys = {.n = 1000}, .floats = v}, &t));
    MR_CHECK_OK(mr_ps_load(r.ps, folder));
    check_all(r.ps, r.table, 5);
    MR_CHECK_ERR(mr_ps_end(r.ps, t), MR_DATA_LOSS, "table 'w'");
    rig_close(&r);
}

MR_TEST(ps_snapshot_of_a_table_that_is_called_options)
{
    rig r;
    int t;
    char folder[512];
    snprintf(folder, sizeof folder, "%s/snapshot", mr_test_dir());
    rig_open(&r, 1, 1, MR_PS_ADD);
    mr_ps_table_options o = {.num_keys = 1000, .update = MR_PS_ADD};
    MR_CHECK_OK(mr_ps_make_table(r.ps, MR_SV("my/options"), &o, &t));
    push_all(r.ps, t, 3);
    MR_CHECK_OK(mr_ps_save(r.ps, folder));
    push_all(r.ps, t, 1);
    MR_CHECK_OK(mr_ps_load(r.ps, folder));
    check_all(r.ps, t, 3);
    rig_close(&r);
}

/* ---- a worker that outlives all servers and the manager ---- */

static void begin_again(rig *r)
{
    mr_ps_server_close(r->servers[0]);
    mr_ps_manager_close(r->manager);
    r->lost_ms = 1000; /* twice that is waited for the servers that the worker remembers */
    open_manager(r, r->address, 1, 1);
    add_server(r, 0);
}

static const mr_ps_table_options thousand = {.num_keys = 1000, .update = MR_PS_ADD};

MR_TEST(ps_a_worker_that_outlives_the_servers_keeps_its_tables)
{
    rig r;
    int w, z;
    rig_open(&r, 1, 1, MR_PS_ADD);
    begin_again(&r);
    MR_CHECK_OK(mr_ps_make_table(r.ps, MR_SV("z"), &thousand, &z));
    MR_CHECK_INT(z, 1); /* 0 is "w", as the worker knows it */
    mr_ps *other = add_client(&r, (mr_ps_options){.observer = 1});
    MR_CHECK_OK(mr_ps_make_table(other, MR_SV("w"), &thousand, &w));
    MR_CHECK_INT(w, r.table);
    push_all(r.ps, r.table, 2);
    check_all(other, w, 2);
    check_all(other, z, 0);
    mr_ps_close(other);
    rig_close(&r);
}

typedef struct gate { /* holds up a client's thread */
    mr_mutex mu;
    mr_cond changed;
    bool reached, open;
} gate;

static void stand_still(void *arg, mr_ps_task t, const mr_status *st)
{
    gate *g = arg;
    (void)t, (void)st;
    mr_lock(&g->mu);
    g->reached = true;
    mr_cond_broadcast(&g->changed);
    while (!g->open)
        mr_cond_wait(&g->changed, &g->mu);
    mr_unlock(&g->mu);
}

static void gate_pass(gate *g)
{
    mr_lock(&g->mu);
    g->open = true;
    mr_cond_broadcast(&g->changed);
    mr_unlock(&g->mu);
}

/* It would push to "b" what is meant for "w". */
MR_TEST(ps_a_worker_whose_tables_have_other_numbers_is_not_let_in)
{
    rig r;
    int b, w;
    float v[1];
    mr_ps_task t;
    gate g = {.reached = false};
    mr_mutex_init(&g.mu);
    mr_cond_init(&g.changed);
    rig_open(&r, 1, 1, MR_PS_ADD);
    mr_ps_job pull = {.pull = true, .table = r.table, .keys = {.n = 1}, .out = v, .done = stand_still, .arg = &g};
    MR_CHECK_OK(mr_ps_begin(r.ps, &pull, &t));
    mr_lock(&g.mu);
    while (!g.reached)
        mr_cond_wait(&g.changed, &g.mu);
    mr_unlock(&g.mu);
    begin_again(&r);
    mr_ps *other = add_client(&r, (mr_ps_options){.observer = 1});
    MR_CHECK_OK(mr_ps_make_table(other, MR_SV("b"), &thousand, &b));
    MR_CHECK_OK(mr_ps_make_table(other, MR_SV("w"), &thousand, &w));
    gate_pass(&g);
    MR_CHECK_ERR(mr_ps_make_table(r.ps, MR_SV("w"), &thousand, &w), MR_FAILED_PRECONDITION, "tables are others");
    check_all(other, b, 0);
    mr_ps_close(other);
    rig_close(&r);
    mr_cond_deinit(&g.changed);
    mr_mutex_deinit(&g.mu);
}

typedef struct leaver {
    mr_ps_server *server;
    mr_code code;
    mr_thread thread;
} leaver;

static void let_leave(void *arg)
{
    leaver *l = arg;
    mr_status *st = mr_ps_server_hand_over(l->server);
    l->code = mr_status_code(st);
    mr_status_free(st);
}

/* Whoever hears that it went well frees the server. */
MR_TEST(ps_all_who_let_a_server_leave_hear_that_it_failed)
{
    rig r;
    leaver l[4];
    rig_open(&r, 1, 2, MR_PS_ADD);
    for (int i = 0; i < 4; i++) {
        l[i].server = r.servers[0];
        MR_CHECK_INT(mr_thread_start(&l[i].thread, "leaver", let_leave, &l[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        mr_thread_join(&l[i].thread);
        MR_CHECK_INT(l[i].code, MR_FAILED_PRECONDITION);
    }
    rig_close(&r);
}

/* Neither tables nor pushes take more than a server was given. */
MR_TEST(ps_a_server_keeps_to_its_budget)
{
    rig r = {0};
    int t;
    mr_ps_task task;
    open_manager(&r, NULL, 1, 1);
    mr_ps_server_options o = {.struct_size = sizeof o, .manager = r.address, .memory = 200000};
    MR_CHECK_OK(mr_ps_server_open(&o, NULL, &r.servers[0]));
    r.ps = add_client(&r, (mr_ps_options){.timeout_ms = 1000});
    MR_CHECK_OK(mr_ps_make_table(r.ps, MR_SV("big"),
                                 &(mr_ps_table_options){.num_keys = 100000, .update = MR_PS_ADD}, &t));
    static float v[100000];
    MR_CHECK_OK(mr_ps_begin(r.ps, &(mr_ps_job){.table = t, .keys = {.n = 1000}, .floats = v}, &task));
    MR_CHECK_OK(mr_ps_end(r.ps, task));
    MR_CHECK_OK(mr_ps_begin(r.ps, &(mr_ps_job){.table = t, .keys = {.n = 100000}, .floats = v}, &task));
    mr_status *st = mr_ps_end(r.ps, task);
    MR_CHECK(st != NULL);
    mr_status_free(st);
    MR_CHECK_OK(mr_ps_begin(r.ps, &(mr_ps_job){.table = t, .keys = {.n = 1000}, .floats = v},
                            &task)); /* and goes on */
    MR_CHECK_OK(mr_ps_end(r.ps, task));
    rig_close(&r);
}

/* A push that nobody can take ends in time, and says where. */
MR_TEST(ps_a_push_without_servers_ends_in_time)
{
    rig r;
    rig_open(&r, 1, 1, MR_PS_ADD);
    mr_ps *ps = add_client(&r, (mr_ps_options){.timeout_ms = 300, .observer = 1});
    mr_ps_task t;
    float v[10] = {0};
    mr_ps_server_close(r.servers[0]);
    r.servers[0] = NULL;
    mr_ps_manager_close(r.manager); /* nobody says that it is lost either */
    r.manager = NULL;
    MR_CHECK_OK(mr_ps_begin(ps, &(mr_ps_job){.table = 0, .keys = {.n = 10}, .floats = v}, &t));
    mr_status *st = mr_ps_end(ps, t);
    MR_CHECK(mr_status_code(st) == MR_DEADLINE_EXCEEDED || mr_status_code(st) == MR_DATA_LOSS);
    MR_CHECK(strstr(mr_status_message(st), "push to table 'w'") != NULL);
    mr_status_free(st);
    mr_ps_close(ps);
    mr_ps_close(r.ps);
    r.ps = NULL;
    rig_close(&r);
}

/* What nobody waits for is not kept for ever. */
MR_TEST(ps_errors_that_nobody_asks_for_are_forgotten)
{
    rig r;
    rig_open(&r, 1, 1, MR_PS_ADD);
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
    rig_close(&r);
}
