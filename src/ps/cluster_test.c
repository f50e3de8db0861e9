/* ps/cluster_test.c -- servers join, leave and are lost, and a manager is restarted, while workers push. */
#include "base/clock.h"
#include "base/thread.h"
#include "ps/cluster_fixture.h"
#include "tests/harness/log.h"
#include "tests/harness/test.h"

MR_TEST(ps_three_servers_hold_a_table)
{
    ps_fixture r;
    ps_fixture_open(&r, 3, 2, MR_PS_ADD);
    for (int i = 0; i < 20; i++)
        ps_push_all(r.ps, r.table, 1);
    ps_check_all(r.ps, r.table, 20);
    mr_ps_stats s;
    mr_ps_count(r.ps, &s);
    MR_CHECK_INT(s.servers, 3);
    ps_fixture_close(&r);
}

MR_TEST(ps_a_lost_server_takes_nothing_with_it)
{
    ps_fixture r;
    ps_fixture_open(&r, 3, 2, MR_PS_ADD);
    for (int i = 0; i < 10; i++)
        ps_push_all(r.ps, r.table, 1);
    ps_wait_quiet(r.ps);
    mr_ps_server_close(r.servers[1]);
    r.servers[1] = NULL;
    for (int i = 0; i < 10; i++)
        ps_push_all(r.ps, r.table, 1);
    ps_check_all(r.ps, r.table, 20);
    ps_wait_quiet(r.ps); /* the others have copies of all now */
    mr_ps_server_close(r.servers[0]);
    r.servers[0] = NULL;
    ps_push_all(r.ps, r.table, 1);
    ps_check_all(r.ps, r.table, 21);
    ps_fixture_close(&r);
}

MR_TEST(ps_servers_join_and_leave_while_workers_push)
{
    ps_fixture r;
    ps_fixture_open(&r, 1, 2, MR_PS_ADD);
    float sum = 0;
    for (int i = 1; i < 5; i++) {
        ps_add_server(&r, i);
        for (int k = 0; k < 20; k++, sum++)
            ps_push_all(r.ps, r.table, 1);
    }
    ps_wait_quiet(r.ps);
    ps_check_all(r.ps, r.table, sum);
    for (int i = 0; i < 3; i++) {
        MR_CHECK_OK(mr_ps_server_hand_over(r.servers[i]));
        mr_ps_server_close(r.servers[i]);
        r.servers[i] = NULL;
        ps_push_all(r.ps, r.table, 1);
        sum++;
    }
    ps_check_all(r.ps, r.table, sum);
    ps_fixture_close(&r);
}

MR_TEST(ps_the_last_server_cannot_leave)
{
    ps_fixture r;
    ps_fixture_open(&r, 1, 2, MR_PS_ADD);
    MR_CHECK_ERR(mr_ps_server_hand_over(r.servers[0]), MR_FAILED_PRECONDITION, "No other server");
    ps_push_all(r.ps, r.table, 3);
    ps_check_all(r.ps, r.table, 3);
    ps_fixture_close(&r);
}

MR_TEST(ps_a_manager_that_is_started_anew_learns_from_the_servers)
{
    ps_fixture r;
    ps_fixture_open(&r, 2, 2, MR_PS_ADD);
    ps_push_all(r.ps, r.table, 1);
    ps_wait_quiet(r.ps);
    mr_ps_manager_close(r.manager);
    ps_push_all(r.ps, r.table, 1); /* nobody needs it for that */
    ps_open_manager(&r, r.address, 1, 2);
    ps_add_server(&r, 2);
    ps_wait_quiet(r.ps);
    ps_push_all(r.ps, r.table, 1);
    ps_check_all(r.ps, r.table, 3);
    mr_ps_server_close(r.servers[0]);
    r.servers[0] = NULL;
    ps_push_all(r.ps, r.table, 1);
    ps_check_all(r.ps, r.table, 4);
    int again;
    mr_ps_table_options t = {.struct_size = sizeof t, .num_keys = 1000, .update = MR_PS_ADD};
    MR_CHECK_OK(mr_ps_make_table(r.ps, MR_SV("w"), &t, &again));
    MR_CHECK_INT(again, r.table);
    ps_fixture_close(&r);
}

MR_TEST(ps_what_is_lost_with_all_copies_is_said)
{
    ps_fixture r;
    ps_fixture_open(&r, 2, 1, MR_PS_ADD);
    ps_push_all(r.ps, r.table, 1);
    ps_wait_quiet(r.ps);
    mr_ps_server_close(r.servers[0]);
    r.servers[0] = NULL;
    float v[1000] = {0};
    mr_ps_task t;
    MR_CHECK_OK(mr_ps_begin(
        r.ps, &(mr_ps_job){.pull = true, .table = r.table, .keys = {.first = 0, .n = 1000}, .out = v}, &t));
    MR_CHECK_ERR(mr_ps_end(r.ps, t), MR_DATA_LOSS, "table 'w'");
    ps_fixture_close(&r);
}

static void work(void *arg)
{
    ps_worker *w = arg;
    for (int i = 0; i < w->times; i++)
        ps_push_all(w->ps, w->table, 1);
}

MR_TEST(ps_many_workers_add_up)
{
    ps_fixture r;
    ps_worker w[4];
    ps_fixture_open(&r, 2, 2, MR_PS_ADD);
    for (int i = 0; i < 4; i++) {
        w[i] = (ps_worker){.ps = ps_add_client(&r, (mr_ps_options){.delay = MR_PS_EVENTUAL, .observer = 1}),
                        .table = r.table,
                        .times = 50};
        MR_CHECK_OK(mr_ps_make_table(
            w[i].ps, MR_SV("w"), &(mr_ps_table_options){.num_keys = 1000, .update = MR_PS_ADD}, &w[i].table));
        MR_CHECK_INT(mr_thread_start(&w[i].thread, "worker", work, &w[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        mr_thread_join(&w[i].thread);
    ps_check_all(r.ps, r.table, 200);
    for (int i = 0; i < 4; i++)
        mr_ps_close(w[i].ps);
    ps_fixture_close(&r);
}

/* ---- a worker that outlives all servers and the manager ---- */

static void begin_again(ps_fixture *r)
{
    mr_ps_server_close(r->servers[0]);
    mr_ps_manager_close(r->manager);
    r->lost_ms = 1000; /* twice that is waited for the servers that the worker remembers */
    ps_open_manager(r, r->address, 1, 1);
    ps_add_server(r, 0);
}

static const mr_ps_table_options thousand = {.num_keys = 1000, .update = MR_PS_ADD};

MR_TEST(ps_a_worker_that_outlives_the_servers_keeps_its_tables)
{
    ps_fixture r;
    int w, z;
    ps_fixture_open(&r, 1, 1, MR_PS_ADD);
    begin_again(&r);
    MR_CHECK_OK(mr_ps_make_table(r.ps, MR_SV("z"), &thousand, &z));
    MR_CHECK_INT(z, 1); /* 0 is "w", as the worker knows it */
    mr_ps *other = ps_add_client(&r, (mr_ps_options){.observer = 1});
    MR_CHECK_OK(mr_ps_make_table(other, MR_SV("w"), &thousand, &w));
    MR_CHECK_INT(w, r.table);
    ps_push_all(r.ps, r.table, 2);
    ps_check_all(other, w, 2);
    ps_check_all(other, z, 0);
    mr_ps_close(other);
    ps_fixture_close(&r);
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
    ps_fixture r;
    int b, w;
    float v[1];
    mr_ps_task t;
    gate g = {.reached = false};
    mr_mutex_init(&g.mu);
    mr_cond_init(&g.changed);
    ps_fixture_open(&r, 1, 1, MR_PS_ADD);
    mr_ps_job pull = {.pull = true, .table = r.table, .keys = {.n = 1}, .out = v, .done = stand_still, .arg = &g};
    MR_CHECK_OK(mr_ps_begin(r.ps, &pull, &t));
    mr_lock(&g.mu);
    while (!g.reached)
        mr_cond_wait(&g.changed, &g.mu);
    mr_unlock(&g.mu);
    begin_again(&r);
    mr_ps *other = ps_add_client(&r, (mr_ps_options){.observer = 1});
    MR_CHECK_OK(mr_ps_make_table(other, MR_SV("b"), &thousand, &b));
    MR_CHECK_OK(mr_ps_make_table(other, MR_SV("w"), &thousand, &w));
    gate_pass(&g);
    MR_CHECK_ERR(mr_ps_make_table(r.ps, MR_SV("w"), &thousand, &w), MR_FAILED_PRECONDITION, "tables differ from the manager's");
    ps_check_all(other, b, 0);
    mr_ps_close(other);
    ps_fixture_close(&r);
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

/* The caller whose hand-over succeeds frees the server. */
MR_TEST(ps_all_who_let_a_server_leave_hear_that_it_failed)
{
    ps_fixture r;
    leaver l[4];
    ps_fixture_open(&r, 1, 2, MR_PS_ADD);
    for (int i = 0; i < 4; i++) {
        l[i].server = r.servers[0];
        MR_CHECK_INT(mr_thread_start(&l[i].thread, "leaver", let_leave, &l[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        mr_thread_join(&l[i].thread);
        MR_CHECK_INT(l[i].code, MR_FAILED_PRECONDITION);
    }
    ps_fixture_close(&r);
}

/* A push that nobody can take ends in time, and says where. */
MR_TEST(ps_a_push_without_servers_ends_in_time)
{
    ps_fixture r;
    ps_fixture_open(&r, 1, 1, MR_PS_ADD);
    mr_ps *ps = ps_add_client(&r, (mr_ps_options){.timeout_ms = 300, .observer = 1});
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
    ps_fixture_close(&r);
}

MR_TEST(ps_logs_a_long_wait_for_a_manager)
{
    mr_ps *ps;
    mr_test_log_begin(INT64_C(5000000));
    MR_CHECK_ERR(mr_ps_open(&(mr_ps_options){.manager = "127.0.0.1:1", .timeout_ms = 500}, &ps), MR_DEADLINE_EXCEEDED,
                 "The parameter manager at 127.0.0.1:1 does not answer");
    MR_CHECK(mr_test_log_count("Still waiting for the parameter manager at 127.0.0.1:1: it does not answer") > 1);
    mr_test_log_end();
}
