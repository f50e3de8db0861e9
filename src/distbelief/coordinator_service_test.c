/* distbelief/coordinator_service_test.c -- the coordinator service: orders that wait, workers that vanish, strangers:
 * sandblaster_service_*. */
#include "distbelief/coordinator_service.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/thread.h"
#include "distbelief/sandblaster_messages.h"
#include "server/routes.h"
#include "tests/harness/test.h"

typedef struct owner {
    mr_coordinator_service *service;
    mr_mutex mu;
    mr_cond changed;
    int joined, lost, said;
    int64_t last;
    bool at_once; /* answers every word with an order */
} owner;

static void count(owner *o, int *what, int64_t worker)
{
    mr_lock(&o->mu);
    ++*what;
    o->last = worker;
    mr_cond_broadcast(&o->changed);
    mr_unlock(&o->mu);
}

static void order(owner *o, int64_t worker)
{
    mr_bytes b = {0};
    MR_CHECK(mr_bytes_add_copy(&b, "go", 2));
    mr_coordinator_service_order(o->service, worker, &b);
}

static mr_status *joined(void *arg, int64_t worker, mr_sv hello)
{
    owner *o = arg;
    if (mr_sv_is(hello, "stranger"))
        return mr_invalid("not you");
    count(o, &o->joined, worker);
    if (o->at_once)
        order(o, worker);
    return NULL;
}

static void said(void *arg, int64_t worker, mr_sv report)
{
    owner *o = arg;
    (void)report;
    count(o, &o->said, worker);
    if (o->at_once)
        order(o, worker);
}

static void lost(void *arg, int64_t worker)
{
    owner *o = arg;
    count(o, &o->lost, worker);
}

static void open_service(owner *o)
{
    mr_mutex_init(&o->mu);
    mr_cond_init(&o->changed);
    MR_CHECK_OK(
        mr_coordinator_service_open(&(mr_coordinator_service_rules){NULL, o, joined, said, lost, NULL}, &o->service));
}

static void close_service(owner *o)
{
    mr_coordinator_service_close(o->service);
    mr_cond_deinit(&o->changed);
    mr_mutex_deinit(&o->mu);
}

static void await(owner *o, const int *what, int n)
{
    mr_lock(&o->mu);
    while (*what < n)
        mr_cond_wait(&o->changed, &o->mu);
    mr_unlock(&o->mu);
}

static mr_coordinator_client *join(owner *o, const char *hello)
{
    mr_coordinator_client *h;
    MR_CHECK_OK(mr_coordinator_client_join(
        &(mr_coordinator_client_rules){mr_coordinator_service_address(o->service), mr_sv_of(hello), 10000}, &h));
    return h;
}

MR_TEST(sandblaster_service_gives_orders_and_misses_who_leaves)
{
    owner o = {.at_once = true};
    mr_bytes report = {0}, got = {0};
    open_service(&o);
    mr_coordinator_client *h = join(&o, "");
    for (int i = 0; i < 5; i++) {
        MR_CHECK_OK(mr_coordinator_client_ask(h, &report, &got));
        MR_CHECK_INT(got.n, 2);
        mr_bytes_deinit(&got);
        MR_CHECK(mr_bytes_add_copy(&report, "done", 4));
    }
    mr_bytes_deinit(&report);
    mr_coordinator_client_leave(h);
    await(&o, &o.lost, 1);
    MR_CHECK_INT(o.said, 4);
    close_service(&o);
}

MR_TEST(sandblaster_service_sends_strangers_away)
{
    owner o = {.at_once = true};
    mr_bytes report = {0}, got = {0};
    open_service(&o);
    mr_coordinator_client *h = join(&o, "stranger");
    mr_status *st = mr_coordinator_client_ask(h, &report, &got);
    MR_CHECK(st);
    mr_status_free(st);
    mr_coordinator_client_leave(h);
    MR_CHECK_INT(o.joined, 0);
    close_service(&o);
}

static void ask(void *arg)
{
    mr_bytes report = {0}, got = {0};
    MR_CHECK(mr_bytes_add_copy(&report, "here", 4)); /* so that the service can tell when it waits */
    mr_status *st = mr_coordinator_client_ask(arg, &report, &got);
    MR_CHECK(mr_status_code(st) == MR_UNAVAILABLE || mr_status_code(st) == MR_CANCELLED);
    mr_status_free(st);
}

MR_TEST(sandblaster_service_lets_who_waits_go_when_it_closes)
{
    owner o = {0};
    mr_thread t;
    open_service(&o);
    mr_coordinator_client *h = join(&o, "");
    await(&o, &o.joined, 1);
    MR_CHECK_INT(mr_thread_start(&t, "asks", ask, h), 0);
    await(&o, &o.said, 1);
    close_service(&o);
    mr_thread_join(&t);
    mr_coordinator_client_leave(h);
}

MR_TEST(sandblaster_service_wait_can_be_cancelled)
{
    owner o = {0};
    mr_thread t;
    open_service(&o);
    mr_coordinator_client *h = join(&o, "");
    await(&o, &o.joined, 1);
    MR_CHECK_INT(mr_thread_start(&t, "asks", ask, h), 0);
    await(&o, &o.said, 1);
    mr_coordinator_client_cancel(h);
    mr_thread_join(&t);
    mr_coordinator_client_leave(h);
    close_service(&o);
}

/* The owner has the service before the first worker joins, also one that has waited for the door to open. */
MR_TEST(sandblaster_service_is_known_to_its_owner_before_anybody_joins)
{
    mr_test_deadline(60);
    for (int i = 0; i < 10; i++) {
        owner o = {.at_once = true};
        mr_coordinator_client *h;
        mr_bytes report = {0}, got = {0};
        mr_mutex_init(&o.mu);
        mr_cond_init(&o.changed);
        char address[64];
        MR_CHECK_OK(mr_coordinator_service_open(&(mr_coordinator_service_rules){NULL, &o, joined, said, lost, NULL},
                                                &o.service));
        snprintf(address, sizeof address, "%s",
                 mr_coordinator_service_address(o.service)); /* nobody else has it for a while */
        mr_coordinator_service_close(o.service);
        o.service = NULL;
        MR_CHECK_OK(mr_coordinator_client_join(&(mr_coordinator_client_rules){address, MR_SV(""), 10000}, &h));
        MR_CHECK_OK(mr_coordinator_service_open(&(mr_coordinator_service_rules){address, &o, joined, said, lost, NULL},
                                                &o.service));
        MR_CHECK_OK(mr_coordinator_client_ask(h, &report, &got));
        mr_bytes_deinit(&got);
        mr_coordinator_client_leave(h);
        close_service(&o);
    }
}

/* Joins while the service closes: each of both may come first at any point. */
static void join_and_leave(void *arg)
{
    mr_coordinator_client *h = NULL;
    mr_bytes report = {0}, got = {0};
    mr_status *st = mr_coordinator_client_join(&(mr_coordinator_client_rules){arg, MR_SV(""), 2000}, &h);
    if (!st)
        st = mr_coordinator_client_ask(h, &report, &got);
    mr_status_free(st);
    mr_bytes_deinit(&got);
    mr_coordinator_client_leave(h);
}

MR_TEST(sandblaster_service_may_close_while_workers_join)
{
    mr_test_deadline(120);
    for (int i = 0; i < 20; i++) {
        owner o = {0};
        char address[64];
        mr_thread t[3];
        open_service(&o);
        snprintf(address, sizeof address, "%s", mr_coordinator_service_address(o.service));
        for (int k = 0; k < 3; k++)
            MR_CHECK_INT(mr_thread_start(&t[k], "joins", join_and_leave, address), 0);
        await(&o, &o.joined, 1 + i % 3);
        close_service(&o);
        for (int k = 0; k < 3; k++)
            mr_thread_join(&t[k]);
    }
}

/* ---- strangers ---- */

typedef struct request {
    mr_net_request r;
    owner *o;
    int done;
} request;

static void done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    request *q = (request *)r;
    (void)reply;
    mr_status_free(st);
    count(q->o, &q->done, 0);
}

static uint64_t draw(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 33;
}

MR_TEST(sandblaster_service_survives_any_bytes)
{
    static const char *const methods[] = {"/millrace.Coordinator/Ask", "/millrace.Coordinator/Stay", "/millrace.Coordinator/Nothing"};
    owner o = {.at_once = true};
    mr_net *net;
    mr_net_peer *peer;
    uint64_t seed = 5;
    mr_test_deadline(60);
    open_service(&o);
    MR_CHECK_OK(mr_route_to(mr_coordinator_service_address(o.service), NULL, NULL, &net, &peer));
    for (int i = 0; i < 1000; i++) {
        uint8_t bytes[24] = {8, (uint8_t)(draw(&seed) % 5), 18, 2, 'a', 'b'};
        size_t n = 6;
        for (int k = (int)(draw(&seed) % 4); k > 0; k--) {
            bytes[draw(&seed) % sizeof bytes] = (uint8_t)draw(&seed);
            n = draw(&seed) % sizeof bytes;
        }
        request q = {.o = &o, .r = {.method = methods[draw(&seed) % 3], .done = done,
                                    .deadline_ns = mr_now_ns() + (i % 50 ? 3000000000 : 1000000)}};
        MR_CHECK(mr_bytes_add_copy(&q.r.body, bytes, n));
        net->start(peer, &q.r);
        net->cancel(&q.r);
        await(&o, &q.done, 1);
    }
    net->disconnect(peer);
    mr_coordinator_client *h = join(&o, ""); /* it still serves */
    mr_bytes report = {0}, got = {0};
    MR_CHECK_OK(mr_coordinator_client_ask(h, &report, &got));
    mr_bytes_deinit(&got);
    mr_coordinator_client_leave(h);
    close_service(&o);
}

MR_TEST(sandblaster_messages_survive_any_bytes)
{
    uint64_t seed = 9;
    mr_bytes real[3] = {0};
    mr_sv flat[3];
    MR_CHECK_OK(mr_blast_put_hello(&(mr_blast_hello){MR_SV("job"), 1000, 16}, &real[0]));
    MR_CHECK_OK(mr_blast_put_report(&(mr_blast_report){MR_TOLD_DONE, 3, 4, 0.5, 0, MR_SV("")}, &real[1]));
    MR_CHECK_OK(mr_blast_put_order(&(mr_blast_order){MR_WISH_COMPUTE, 3, 4, 24, 2, true}, &real[2]));
    for (int k = 0; k < 3; k++)
        MR_CHECK_OK(mr_bytes_flat(&real[k], &flat[k]));
    for (int i = 0; i < 100000; i++) {
        char bytes[64];
        int k = (int)(draw(&seed) % 3);
        size_t n = flat[k].n;
        memcpy(bytes, flat[k].p, n);
        for (int j = (int)(draw(&seed) % 4); j >= 0; j--)
            bytes[draw(&seed) % n] = (char)draw(&seed);
        mr_sv cut = {bytes, draw(&seed) % 8 ? n : draw(&seed) % n};
        mr_blast_hello h;
        mr_blast_report r;
        mr_blast_order o;
        mr_status *st = k == 0   ? mr_blast_get_hello(cut, &h)
                        : k == 1 ? mr_blast_get_report(cut, &r)
                                 : mr_blast_get_order(cut, &o);
        if (!st && k == 2)
            MR_CHECK(o.kind != MR_WISH_COMPUTE || (o.portion >= 0 && o.portion < o.portions));
        if (!st && k == 0)
            MR_CHECK(h.keys > 0 && h.width > 0);
        mr_status_free(st);
    }
    for (int k = 0; k < 3; k++)
        mr_bytes_deinit(&real[k]);
}
