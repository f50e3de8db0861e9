/* ps/cluster_waits_test.c -- a client or a parameter server that waits long logs for whom, and why.
 *
 * A peer that does not answer is one whose thread stands still (ps_halt) until the test has seen the log. */
#include <stdio.h>

#include "ps/client_internal.h"
#include "ps/cluster_fixture.h"
#include "ps/manager_internal.h"
#include "ps/server_internal.h"
#include "tests/harness/log.h"
#include "tests/harness/test.h"

#define PERIOD_NS INT64_C(5000000)

/* ---- who waits ---- */

typedef struct waiter {
    ps_fixture *r;
    mr_ps *ps;
    mr_thread thread;
} waiter;

static void start(ps_fixture *r, waiter *w, void (*fn)(void *arg))
{
    *w = (waiter){.r = r, .ps = r->ps};
    MR_CHECK_INT(mr_thread_start(&w->thread, "waiter", fn, w), 0);
}

/* "Still waiting for <who> at <address>: <why>" has come twice. */
static void wait_for_log(const char *who, const char *address, const char *why)
{
    char text[256];
    snprintf(text, sizeof text, "Still waiting for %s at %s: %s", who, address, why);
    mr_test_log_wait(text, 2);
}

/* ---- for servers ---- */

static void make_table(void *arg)
{
    waiter *w = arg;
    int table;
    mr_ps_table_options o = {.num_keys = 1000, .update = MR_PS_ADD};
    MR_CHECK_OK(mr_ps_make_table(w->ps, MR_SV("w"), &o, &table));
    MR_CHECK_INT(table, w->r->table);
}

static void push(void *arg)
{
    waiter *w = arg;
    ps_push_all(w->ps, w->r->table, 1);
}

static void pull(void *arg)
{
    waiter *w = arg;
    ps_check_all(w->ps, w->r->table, 0);
}

static void push_twice(void *arg)
{
    waiter *w = arg;
    float v[1000] = {0};
    mr_ps_task t;
    for (int i = 0; i < 2; i++)
        MR_CHECK_OK(mr_ps_begin(w->ps, &(mr_ps_job){.table = w->r->table, .keys = {.n = 1000}, .floats = v}, &t));
    MR_CHECK_OK(mr_ps_end_all(w->ps));
}

/* As ops and Python do: nobody waits for it in the library. */
static void push_and_leave(void *arg)
{
    waiter *w = arg;
    float v[1] = {1};
    mr_ps_task t;
    MR_CHECK_OK(mr_ps_begin(w->ps, &(mr_ps_job){.table = w->r->table, .keys = {.n = 1}, .floats = v}, &t));
}

static void check_wait_for_server(mr_ps_options o, void (*fn)(void *arg), const char *why)
{
    ps_fixture r;
    ps_halt h;
    waiter w;
    ps_fixture_open(&r, 1, 1, MR_PS_ADD);
    mr_ps *first = r.ps;
    o.observer = 1;
    r.ps = ps_add_client(&r, o);
    make_table(&(waiter){.r = &r, .ps = r.ps});
    ps_halt_begin(&h, &r.servers[0]->inbox);
    mr_test_log_begin(PERIOD_NS);
    start(&r, &w, fn);
    wait_for_log("the parameter server", mr_ps_server_where(r.servers[0]), why);
    ps_halt_end(&h);
    mr_thread_join(&w.thread);
    mr_test_log_end();
    mr_ps_close(r.ps);
    r.ps = first;
    ps_fixture_close(&r);
}

MR_TEST(ps_logs_a_long_wait_for_a_push)
{
    check_wait_for_server((mr_ps_options){0}, push, "it has not answered a push to table 'w' (");
}

MR_TEST(ps_logs_a_long_wait_for_a_pull)
{
    check_wait_for_server((mr_ps_options){0}, pull, "it has not answered a pull of table 'w' (");
}

MR_TEST(ps_logs_a_long_wait_for_room)
{
    check_wait_for_server((mr_ps_options){.max_bytes = 1000}, push_twice, "it has not answered a push to table 'w' (");
}

MR_TEST(ps_logs_a_push_that_nobody_waits_for)
{
    check_wait_for_server((mr_ps_options){0}, push_and_leave, "it has not answered a push to table 'w' (");
}

/* ---- for the manager ---- */

/* What fn asks is not answered until the log says so. */
static void check_wait_for_manager(void (*fn)(void *), const char *reason)
{
    ps_fixture r;
    ps_halt h;
    waiter w;
    ps_fixture_open(&r, 1, 1, MR_PS_ADD);
    ps_halt_begin(&h, &r.manager->inbox);
    mr_test_log_begin(PERIOD_NS);
    start(&r, &w, fn);
    wait_for_log("the parameter manager", r.address, reason);
    ps_halt_end(&h);
    mr_thread_join(&w.thread);
    mr_test_log_end();
    ps_fixture_close(&r);
}

MR_TEST(ps_logs_a_long_wait_for_an_answer_of_the_manager)
{
    check_wait_for_manager(make_table, "it has not answered " MR_PS_MANAGER_SERVICE "Table (");
}

/* Every call fails at once, and is made again. */
MR_TEST(ps_logs_a_long_wait_for_a_manager_that_has_gone)
{
    ps_fixture r;
    waiter w;
    ps_fixture_open(&r, 1, 1, MR_PS_ADD);
    mr_ps_server_close(r.servers[0]);
    mr_ps_manager_close(r.manager);
    mr_test_log_begin(PERIOD_NS);
    start(&r, &w, make_table);
    wait_for_log("the parameter manager", r.address, "");
    r.lost_ms = 1000; /* twice that is waited for the servers that the worker remembers */
    ps_open_manager(&r, r.address, 1, 1);
    ps_add_server(&r, 0);
    mr_thread_join(&w.thread);
    mr_test_log_end();
    ps_fixture_close(&r);
}

/* The manager's answer came before its news, which are kept back here. */
MR_TEST(ps_logs_a_long_wait_for_a_table)
{
    ps_fixture r;
    waiter w;
    ps_fixture_open(&r, 1, 1, MR_PS_ADD);
    mr_lock(&r.ps->mu);
    int n_tables = r.ps->n_tables;
    r.ps->n_tables = 0;
    mr_unlock(&r.ps->mu);
    mr_test_log_begin(PERIOD_NS);
    start(&r, &w, make_table);
    wait_for_log("the parameter manager", r.address, "it has not sent table 0 (");
    mr_lock(&r.ps->mu);
    r.ps->n_tables = n_tables;
    mr_cond_broadcast(&r.ps->changed);
    mr_unlock(&r.ps->mu);
    mr_thread_join(&w.thread);
    mr_test_log_end();
    ps_fixture_close(&r);
}

static void renew(void *arg) { MR_CHECK_OK(mr_ps_renew(((waiter *)arg)->ps)); }

MR_TEST(ps_logs_a_long_wait_for_lost_ranges)
{
    ps_fixture r;
    waiter w;
    ps_fixture_open(&r, 1, 1, MR_PS_ADD);
    ps_wait_quiet(r.ps); /* no other view comes */
    mr_lock(&r.ps->mu);
    int64_t epoch = r.ps->stats.epoch;
    r.ps->stats.epoch = 0;
    mr_unlock(&r.ps->mu);
    mr_test_log_begin(PERIOD_NS);
    start(&r, &w, renew);
    wait_for_log("the parameter manager", r.address, "it has not sent where lost ranges are now (");
    mr_lock(&r.ps->mu);
    r.ps->stats.epoch = epoch;
    mr_cond_broadcast(&r.ps->changed);
    mr_unlock(&r.ps->mu);
    mr_thread_join(&w.thread);
    mr_test_log_end();
    ps_fixture_close(&r);
}

static void open_client(void *arg)
{
    waiter *w = arg;
    w->r->ps = ps_add_client(w->r, (mr_ps_options){0});
}

MR_TEST(ps_logs_a_long_wait_for_more_servers)
{
    ps_fixture r = {0};
    waiter w;
    mr_test_deadline(120);
    ps_open_manager(&r, NULL, 2, 1);
    ps_add_server(&r, 0);
    mr_test_log_begin(PERIOD_NS);
    start(&r, &w, open_client);
    wait_for_log("the parameter manager", r.address, "it waits for more servers (");
    ps_add_server(&r, 1);
    mr_thread_join(&w.thread);
    mr_test_log_end();
    ps_fixture_close(&r);
}

static void add_server(void *arg) { ps_add_server(((waiter *)arg)->r, 0); }

MR_TEST(ps_server_logs_a_long_wait_for_its_manager)
{
    ps_fixture r = {0};
    ps_halt h;
    waiter w;
    mr_test_deadline(120);
    ps_open_manager(&r, NULL, 1, 1);
    ps_halt_begin(&h, &r.manager->inbox);
    mr_test_log_begin(PERIOD_NS);
    start(&r, &w, add_server);
    wait_for_log("the parameter manager", r.address, "it does not answer (");
    ps_halt_end(&h);
    mr_thread_join(&w.thread);
    mr_test_log_end();
    ps_fixture_close(&r);
}

static void hand_over(void *arg) { MR_CHECK_OK(mr_ps_server_hand_over(((waiter *)arg)->r->servers[0])); }

MR_TEST(ps_server_logs_a_long_wait_to_leave)
{
    ps_fixture r;
    ps_halt h;
    waiter w;
    ps_fixture_open(&r, 2, 1, MR_PS_ADD);
    ps_wait_quiet(r.ps);
    ps_halt_begin(&h, &r.manager->inbox);
    mr_test_log_begin(PERIOD_NS);
    start(&r, &w, hand_over);
    wait_for_log("the parameter manager", r.address, "it has not moved this server's ranges to others (");
    ps_halt_end(&h);
    mr_thread_join(&w.thread);
    mr_test_log_end();
    ps_fixture_close(&r);
}

/* ---- for slower workers ---- */

static void iterate(void *arg)
{
    int64_t at;
    for (int i = 0; i < 5; i++)
        MR_CHECK_OK(mr_ps_next_iteration(((waiter *)arg)->ps, &at));
}

MR_TEST(ps_logs_a_long_wait_for_a_slower_worker)
{
    ps_fixture r;
    waiter w;
    ps_fixture_open(&r, 1, 1, MR_PS_ADD);
    mr_ps_close(r.ps);
    mr_ps *slow = ps_add_client(&r, (mr_ps_options){.delay = 1, .name = "slow"});
    r.ps = ps_add_client(&r, (mr_ps_options){.delay = 1, .name = "quick"});
    mr_test_log_begin(PERIOD_NS);
    start(&r, &w, iterate);
    mr_test_log_wait("Still waiting for worker 'slow': it is at iteration 0, and iteration ", 2);
    mr_ps_close(slow); /* who has left is not waited for */
    mr_thread_join(&w.thread);
    mr_test_log_end();
    ps_fixture_close(&r);
}

/* A manager that cannot say who is slow is named itself. */
MR_TEST(ps_logs_a_long_wait_for_an_iteration_of_a_silent_manager)
{
    check_wait_for_manager(iterate, "it has not answered " MR_PS_MANAGER_SERVICE "Workers (");
}
