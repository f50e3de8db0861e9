/* ps/cluster_fixture.c -- a manager, servers and a worker in one process. */
#include "ps/cluster_fixture.h"

#include <stdio.h>

#include "base/clock.h"
#include "tests/harness/test.h"

void ps_add_server(ps_fixture *r, int i)
{
    mr_ps_server_options o = {.struct_size = sizeof o, .manager = r->address};
    MR_CHECK_OK(mr_ps_server_open(&o, NULL, &r->servers[i]));
}

mr_ps *ps_add_client(const ps_fixture *r, mr_ps_options o)
{
    mr_ps *ps;
    o.struct_size = sizeof o;
    o.manager = r->address;
    MR_CHECK_OK(mr_ps_open(&o, &ps));
    return ps;
}

void ps_open_manager(ps_fixture *r, const char *address, int n, int replicas)
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

void ps_fixture_open(ps_fixture *r, int n, int replicas, mr_ps_update update)
{
    *r = (ps_fixture){0};
    mr_test_deadline(120);
    ps_open_manager(r, NULL, n, replicas);
    for (int i = 0; i < n; i++)
        ps_add_server(r, i);
    r->ps = ps_add_client(r, (mr_ps_options){0});
    mr_ps_table_options t = {.struct_size = sizeof t, .num_keys = 1000, .update = update};
    MR_CHECK_OK(mr_ps_make_table(r->ps, MR_SV("w"), &t, &r->table));
}

void ps_fixture_close(ps_fixture *r)
{
    mr_ps_close(r->ps);
    for (int i = 0; i < PS_FIXTURE_SERVERS; i++)
        mr_ps_server_close(r->servers[i]);
    mr_ps_manager_close(r->manager);
}

void ps_push_all(mr_ps *ps, int table, float amount)
{
    float v[1000];
    mr_ps_task t;
    for (int i = 0; i < 1000; i++)
        v[i] = amount;
    MR_CHECK_OK(
        mr_ps_begin(ps, &(mr_ps_job){.table = table, .keys = {.first = 0, .n = 1000}, .floats = v}, &t));
    MR_CHECK_OK(mr_ps_end(ps, t));
}

void ps_check_all(mr_ps *ps, int table, float want)
{
    float v[1000];
    mr_ps_task t;
    MR_CHECK_OK(mr_ps_begin(
        ps, &(mr_ps_job){.pull = true, .table = table, .keys = {.first = 0, .n = 1000}, .out = v}, &t));
    MR_CHECK_OK(mr_ps_end(ps, t));
    for (int i = 0; i < 1000; i++)
        MR_CHECK_NEAR(v[i], want, 0);
}

void ps_wait_quiet(mr_ps *ps)
{
    bool quiet = false;
    while (!quiet) {
        MR_CHECK_OK(mr_ps_is_quiet(ps, &quiet));
        if (!quiet)
            mr_sleep_ns(5000000);
    }
}

void ps_push_keys(mr_ps *ps, int table, const uint64_t *keys, size_t n, const float *v,
                      const mr_ps_call *c)
{
    mr_ps_task t;
    MR_CHECK_OK(mr_ps_begin(
        ps, &(mr_ps_job){.table = table, .keys = {.list = keys, .n = n}, .floats = v, .call = c}, &t));
    MR_CHECK_OK(mr_ps_end(ps, t));
}

void ps_pull_keys(mr_ps *ps, int table, const uint64_t *keys, size_t n, float *v)
{
    mr_ps_task t;
    MR_CHECK_OK(mr_ps_begin(
        ps, &(mr_ps_job){.pull = true, .table = table, .keys = {.list = keys, .n = n}, .out = v}, &t));
    MR_CHECK_OK(mr_ps_end(ps, t));
}

/* ---- a peer that stands still ---- */

static void stand_still(void *owner, mr_ps_note *n)
{
    ps_halt *h = (ps_halt *)((char *)n - offsetof(ps_halt, note));
    (void)owner;
    mr_lock(&h->mu);
    h->reached = true;
    mr_cond_broadcast(&h->changed);
    while (!h->open)
        mr_cond_wait(&h->changed, &h->mu);
    h->gone = true;
    mr_cond_broadcast(&h->changed);
    mr_unlock(&h->mu);
}

void ps_halt_begin(ps_halt *h, mr_ps_inbox *inbox)
{
    *h = (ps_halt){.reached = false};
    mr_mutex_init(&h->mu);
    mr_cond_init(&h->changed);
    mr_ps_inbox_put(inbox, &h->note, stand_still);
    mr_lock(&h->mu);
    while (!h->reached)
        mr_cond_wait(&h->changed, &h->mu);
    mr_unlock(&h->mu);
}

void ps_halt_end(ps_halt *h)
{
    mr_lock(&h->mu);
    h->open = true;
    mr_cond_broadcast(&h->changed);
    while (!h->gone)
        mr_cond_wait(&h->changed, &h->mu);
    mr_unlock(&h->mu);
    mr_cond_deinit(&h->changed);
    mr_mutex_deinit(&h->mu);
}
