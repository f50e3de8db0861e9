/* ps/server_budget_test.c -- what a server does with the memory it was given. */
#include "base/clock.h"
#include "base/thread.h"
#include "ps/cluster_fixture.h"
#include "ps/manager_internal.h"
#include "ps/request.h"
#include "tests/harness/test.h"

/* Neither tables nor pushes take more than a server was given. */
MR_TEST(ps_a_server_keeps_to_its_budget)
{
    ps_fixture r = {0};
    int t;
    mr_ps_task task;
    ps_open_manager(&r, NULL, 1, 1);
    mr_ps_server_options o = {.struct_size = sizeof o, .manager = r.address, .memory = 200000};
    MR_CHECK_OK(mr_ps_server_open(&o, NULL, &r.servers[0]));
    r.ps = ps_add_client(&r, (mr_ps_options){.timeout_ms = 1000});
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
    ps_fixture_close(&r);
}

/* ---- a chain whose members have not all the same memory ---- */

static void add_server_with(ps_fixture *r, int i, int64_t memory)
{
    mr_ps_server_options o = {.struct_size = sizeof o, .manager = r->address, .memory = memory};
    MR_CHECK_OK(mr_ps_server_open(&o, NULL, &r->servers[i]));
}

static mr_code push_key(mr_ps *ps, int table, uint64_t key)
{
    mr_ps_task t;
    mr_ps_job j = {.table = table, .keys = {.first = key, .n = 1}, .floats = (const float[]){1}};
    MR_CHECK_OK(mr_ps_begin(ps, &j, &t));
    mr_status *st = mr_ps_end(ps, t);
    mr_code code = mr_status_code(st);
    mr_status_free(st);
    return code;
}

/* A range of "big" takes 16 kB.  Where the small server is head it refuses; where it follows it leaves the chain, and what the
 * head took counts. */
MR_TEST(ps_a_member_without_memory_leaves_its_chain)
{
    enum { RANGES = 24, KEYS = 100000 };
    ps_fixture r = {0};
    int w, big, n_ok = 0, n_full = 0;
    mr_test_deadline(120);
    ps_open_manager(&r, NULL, 2, 2);
    add_server_with(&r, 0, 0);
    add_server_with(&r, 1, 10000);
    r.ps = ps_add_client(&r, (mr_ps_options){0});
    MR_CHECK_OK(mr_ps_make_table(r.ps, MR_SV("w"), &(mr_ps_table_options){.num_keys = 1000, .update = MR_PS_ADD}, &w));
    MR_CHECK_OK(mr_ps_make_table(r.ps, MR_SV("big"), &(mr_ps_table_options){.num_keys = KEYS, .update = MR_PS_ADD}, &big));
    ps_push_all(r.ps, w, 1); /* both have all of it */
    for (uint64_t i = 0; i < RANGES; i++) {
        uint64_t key = i * KEYS / RANGES + 1;
        float got;
        mr_code code = push_key(r.ps, big, key);
        MR_CHECK(code == MR_OK || code == MR_RESOURCE_EXHAUSTED);
        n_ok += code == MR_OK;
        n_full += code == MR_RESOURCE_EXHAUSTED;
        ps_pull_keys(r.ps, big, &key, 1, &got);
        MR_CHECK_NEAR(got, code == MR_OK, 0);
    }
    MR_CHECK_INT(n_ok, RANGES / 2);
    MR_CHECK_INT(n_full, RANGES / 2);
    bool quiet;
    MR_CHECK_OK(mr_ps_is_quiet(r.ps, &quiet));
    MR_CHECK(!quiet); /* copies are missing, and that is told */
    ps_push_all(r.ps, w, 1);
    ps_check_all(r.ps, w, 2);
    MR_CHECK_OK(mr_ps_server_hand_over(r.servers[1])); /* it lives, and what it has can be had */
    mr_ps_server_close(r.servers[1]);
    r.servers[1] = NULL;
    ps_check_all(r.ps, w, 2);
    for (uint64_t i = 0; i < RANGES; i++)
        MR_CHECK_INT(push_key(r.ps, big, i * KEYS / RANGES + 1), MR_OK);
    ps_fixture_close(&r);
}

typedef struct motions {
    int moving, full;
} motions;

static void look_at_motions(void *manager, void *arg)
{
    const mr_ps_manager *m = manager;
    *(motions *)arg = (motions){mr_psm_in_motion(&m->psm), m->psm.full.n};
}

/* Until nothing moves because somebody has declined. */
static void wait_declined(const ps_fixture *r)
{
    motions m = {1, 0};
    while (m.moving > 0 || m.full == 0) {
        mr_ps_inbox_ask(&r->manager->inbox, look_at_motions, &m);
        mr_sleep_ns(5000000);
    }
}

/* Three servers have room for their share of 128 kB, and two have none for the third's when it is lost: neither may die of
 * that, and nothing be lost. */
MR_TEST(ps_survivors_without_memory_for_more_go_on_with_what_they_have)
{
    enum { KEYS = 48000, AT_ONCE = 1000 };
    static float v[KEYS];
    ps_fixture r = {0};
    int t;
    mr_ps_task task;
    mr_test_deadline(120);
    ps_open_manager(&r, NULL, 3, 2);
    for (int i = 0; i < 3; i++)
        add_server_with(&r, i, 160000);
    r.ps = ps_add_client(&r, (mr_ps_options){0});
    MR_CHECK_OK(mr_ps_make_table(r.ps, MR_SV("t"), &(mr_ps_table_options){.num_keys = KEYS, .update = MR_PS_ADD}, &t));
    for (int i = 0; i < KEYS; i++)
        v[i] = (float)(i % 7);
    for (uint64_t i = 0; i < KEYS; i += AT_ONCE) {
        MR_CHECK_OK(mr_ps_begin(r.ps, &(mr_ps_job){.table = t, .keys = {.first = i, .n = AT_ONCE}, .floats = v + i}, &task));
        MR_CHECK_OK(mr_ps_end(r.ps, task));
    }
    ps_wait_quiet(r.ps);
    mr_ps_server_close(r.servers[2]);
    r.servers[2] = NULL;
    wait_declined(&r);
    add_server_with(&r, 3, 0); /* what they declined goes to this one */
    ps_wait_quiet(r.ps);
    memset(v, 0, sizeof v);
    MR_CHECK_OK(mr_ps_begin(r.ps, &(mr_ps_job){.pull = true, .table = t, .keys = {.n = KEYS}, .out = v}, &task));
    MR_CHECK_OK(mr_ps_end(r.ps, task));
    for (int i = 0; i < KEYS; i++)
        MR_CHECK_NEAR(v[i], i % 7, 0);
    for (int i = 0; i < 2; i++) /* both are still there */
        MR_CHECK_OK(mr_ps_server_hand_over(r.servers[i]));
    ps_fixture_close(&r);
}

/* ---- pulls, whose answers the test keeps as a slow network would ---- */

enum { PULL_RANGES = 4, PULL_KEYS = 10000 }; /* 40 kB */

typedef struct asked {
    mr_net_request r; /* first */
    mr_mutex mu;
    mr_cond ended;
    bool done;
    int turn; /* as the how manieth it ended */
    mr_code code;
    mr_bytes reply;
} asked;

static _Atomic int turns;

static void on_done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    asked *a = (asked *)r;
    mr_lock(&a->mu);
    a->done = true;
    a->turn = ++turns;
    a->code = mr_status_code(st);
    a->reply = *reply;
    *reply = (mr_bytes){0};
    mr_cond_signal(&a->ended);
    mr_unlock(&a->mu);
    mr_status_free(st);
}

/* A pull of keys 0 .. n - 1 of table 0, all in the first ranges. */
static void ask(mr_net_peer *p, asked *a, uint64_t n)
{
    mr_pb_writer w;
    mr_str head = {0};
    mr_ps_request q = {.client = 7, .n = n};
    *a = (asked){.r = {.method = MR_PS_SERVICE "Pull", .done = on_done}};
    mr_mutex_init(&a->mu);
    mr_cond_init(&a->ended);
    for (uint64_t i = 0; i < PULL_RANGES && i * PULL_KEYS / PULL_RANGES < n; i++) {
        mr_vec_push(&q.ranges, i);
        mr_vec_push(&q.epochs, 0);
    }
    mr_ps_head_begin(&w, &head);
    mr_ps_request_put(&w, &q);
    MR_CHECK_OK(mr_ps_head_end_alone(&w, &head, &a->r.body));
    mr_ps_request_deinit(&q);
    mr_net_loop()->start(p, &a->r);
}

static mr_code answered(asked *a)
{
    mr_lock(&a->mu);
    while (!a->done)
        mr_cond_wait(&a->ended, &a->mu);
    mr_unlock(&a->mu);
    return a->code;
}

static void asked_deinit(asked *a)
{
    mr_bytes_deinit(&a->reply);
    mr_cond_deinit(&a->ended);
    mr_mutex_deinit(&a->mu);
}

typedef struct puller {
    mr_ps_manager *manager;
    mr_ps_server *server;
    mr_ps *ps;
    mr_net_peer *peer;
} puller;

/* All within this process, where an answer's memory is the server's own until it is dropped. */
static void puller_open(puller *p, int64_t memory)
{
    const char *at = MR_PS_INSIDE "budget/manager", *server = MR_PS_INSIDE "budget/server";
    mr_ps_manager_options m = {.struct_size = sizeof m, .address = at, .replicas = 1, .num_ranges = PULL_RANGES, .lost_ms = 20000};
    mr_ps_server_options s = {.struct_size = sizeof s, .address = server, .manager = at, .memory = memory};
    static const float v[1000];
    int t;
    mr_test_deadline(120);
    MR_CHECK_OK(mr_ps_manager_open(&m, NULL, &p->manager));
    MR_CHECK_OK(mr_ps_server_open(&s, NULL, &p->server));
    MR_CHECK_OK(mr_ps_open(&(mr_ps_options){.manager = at}, &p->ps));
    MR_CHECK_OK(mr_net_loop()->connect(mr_net_loop(), server, NULL, NULL, &p->peer));
    MR_CHECK_OK(mr_ps_make_table(p->ps, MR_SV("t"), &(mr_ps_table_options){.num_keys = PULL_KEYS, .update = MR_PS_ADD}, &t));
    for (uint64_t i = 0; i < PULL_KEYS; i += 1000) {
        mr_ps_task task;
        MR_CHECK_OK(mr_ps_begin(p->ps, &(mr_ps_job){.table = t, .keys = {.first = i, .n = 1000}, .floats = v}, &task));
        MR_CHECK_OK(mr_ps_end(p->ps, task));
    }
}

static void puller_close(puller *p)
{
    mr_net_loop()->disconnect(p->peer);
    mr_ps_close(p->ps);
    mr_ps_server_close(p->server);
    mr_ps_manager_close(p->manager);
}

MR_TEST(ps_answers_on_their_way_take_room_from_others)
{
    puller p;
    asked first, large, small, again;
    puller_open(&p, 100000);
    ask(p.peer, &first, PULL_KEYS);
    MR_CHECK_INT(answered(&first), MR_OK);
    ask(p.peer, &small, 100);
    MR_CHECK_INT(answered(&small), MR_OK); /* there is room for this */
    ask(p.peer, &large, PULL_KEYS);
    MR_CHECK_INT(answered(&large), MR_UNAVAILABLE); /* and none for this, as long as it waits */
    asked_deinit(&first);
    ask(p.peer, &again, PULL_KEYS);
    MR_CHECK_INT(answered(&again), MR_OK);
    asked_deinit(&large);
    asked_deinit(&small);
    asked_deinit(&again);
    puller_close(&p);
}

MR_TEST(ps_pulls_wait_in_line_for_memory)
{
    puller p;
    asked first, large, small;
    puller_open(&p, 100000);
    for (bool served = false; !served;) { /* on a slow machine the large one may wait for too long */
        ask(p.peer, &first, PULL_KEYS);
        MR_CHECK_INT(answered(&first), MR_OK);
        ask(p.peer, &large, PULL_KEYS);
        ask(p.peer, &small, 100); /* which there would be room for */
        asked_deinit(&first);
        served = answered(&large) == MR_OK;
        MR_CHECK(served || large.code == MR_UNAVAILABLE);
        MR_CHECK(answered(&small) == MR_OK || !served);
        MR_CHECK(!served || large.turn < small.turn);
        asked_deinit(&large);
        asked_deinit(&small);
    }
    puller_close(&p);
}

MR_TEST(ps_a_pull_in_line_can_be_cancelled)
{
    puller p;
    asked first, large, again;
    puller_open(&p, 100000);
    ask(p.peer, &first, PULL_KEYS);
    MR_CHECK_INT(answered(&first), MR_OK);
    ask(p.peer, &large, PULL_KEYS);
    mr_net_loop()->cancel(&large.r);
    MR_CHECK(answered(&large) == MR_CANCELLED || large.code == MR_UNAVAILABLE); /* whichever came first */
    asked_deinit(&first);
    ask(p.peer, &again, PULL_KEYS);
    MR_CHECK_INT(answered(&again), MR_OK);
    asked_deinit(&large);
    asked_deinit(&again);
    puller_close(&p);
}

MR_TEST(ps_a_server_ends_with_pulls_in_line_and_answers_on_their_way)
{
    puller p;
    asked first, large;
    puller_open(&p, 100000);
    ask(p.peer, &first, PULL_KEYS);
    MR_CHECK_INT(answered(&first), MR_OK);
    ask(p.peer, &large, PULL_KEYS);
    mr_ps_server_close(p.server);
    p.server = NULL;
    MR_CHECK(answered(&large) != MR_OK);
    MR_CHECK_INT(first.reply.n >= PULL_KEYS * sizeof(float), 1); /* which outlives it */
    puller_close(&p);
    asked_deinit(&first);
    asked_deinit(&large);
}

/* However full it is: values take 40 kB of 45, the answer as much again. */
MR_TEST(ps_what_a_full_server_holds_can_be_read)
{
    puller p;
    static float v[PULL_KEYS];
    mr_ps_task t;
    puller_open(&p, 45000);
    MR_CHECK_OK(mr_ps_begin(p.ps, &(mr_ps_job){.pull = true, .keys = {.n = PULL_KEYS}, .out = v}, &t));
    MR_CHECK_OK(mr_ps_end(p.ps, t));
    puller_close(&p);
}

MR_TEST(ps_a_pull_larger_than_the_budget_is_an_error)
{
    puller p;
    static float v[3 * PULL_KEYS];
    int big;
    mr_ps_task t;
    puller_open(&p, 100000);
    mr_ps_table_options o = {.num_keys = 3 * PULL_KEYS, .update = MR_PS_ADD};
    MR_CHECK_OK(mr_ps_make_table(p.ps, MR_SV("big"), &o, &big));
    MR_CHECK_OK(mr_ps_begin(p.ps, &(mr_ps_job){.pull = true, .table = big, .keys = {.n = 3 * PULL_KEYS}, .out = v}, &t));
    MR_CHECK_ERR(mr_ps_end(p.ps, t), MR_RESOURCE_EXHAUSTED, "exceeds this server's whole memory budget");
    MR_CHECK_OK(mr_ps_begin(p.ps, &(mr_ps_job){.pull = true, .table = big, .keys = {.n = PULL_KEYS}, .out = v}, &t));
    MR_CHECK_OK(mr_ps_end(p.ps, t)); /* in pieces it can be had */
    puller_close(&p);
}
