/* server/watch_test.c -- tasks that fall silent, masters that vanish, tasks that come back. */
#include "server/watch.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "server/cluster_fixture.h"
#include "server/wire.h"

enum { LOST_MS = 1500 };

/* ---- a transport whose servers can be struck dumb ---- */

typedef struct listener { /* of one address */
    char address[64];
    void (*handle)(void *arg, mr_net_call *c);
    void *arg;
    _Atomic bool dumb, deaf; /* does not answer; or only that something is not there */
    _Atomic bool slow;       /* does not answer CreateWorkerSession */
} listener;

static listener listeners[CLUSTER_FIXTURE_MAX_TASKS];
static int n_listeners;

static listener *listener_of(const char *address)
{
    for (int i = 0; i < n_listeners; i++)
        if (strcmp(listeners[i].address, address) == 0)
            return &listeners[i];
    return NULL;
}

static void forget(void *arg, mr_net_call *c)
{
    (void)arg;
    c->net->reply(c, mr_error(MR_CANCELLED, "nobody heard it"), NULL);
}

/* A call to a dumb server waits until its caller leaves. */
static void pass(void *arg, mr_net_call *c)
{
    listener *d = arg;
    if (d->deaf)
        c->net->reply(c, mr_error(MR_NOT_FOUND, "nobody heard it"), NULL);
    else if (!d->dumb && !(d->slow && strstr(c->method, "CreateWorkerSession")))
        d->handle(d->arg, c);
    else if (!c->net->on_cancel(c, forget, NULL))
        forget(NULL, c);
}

static mr_status *listen_behind(mr_net *n, const mr_net_listen *o, mr_net_server **out, int *port)
{
    (void)n;
    listener *d = listener_of(o->address);
    if (!d)
        d = &listeners[n_listeners++];
    snprintf(d->address, sizeof d->address, "%s", o->address);
    d->handle = o->handle;
    d->arg = o->arg;
    d->dumb = d->slow = false;
    mr_net_listen behind = *o;
    behind.handle = pass;
    behind.arg = d;
    return mr_net_local()->listen(mr_net_local(), &behind, out, port);
}

static mr_net *fragile_net(void)
{
    static mr_net net;
    net = *mr_net_local();
    net.listen = listen_behind;
    return &net;
}

/* ---- */

static void begin(cluster_fixture *b, int n_ps, int n_workers)
{
    cluster_fixture_begin_with(b, &(mr_server_options){.net = fragile_net(), .lost_ms = LOST_MS}, n_ps, n_workers);
}

typedef struct later {
    cluster_fixture *b;
    mr_out fetch;
    mr_status *st;
    _Atomic bool over;
    mr_thread thread;
} later;

static void run_it(void *arg)
{
    later *l = arg;
    float v;
    l->st = cluster_fixture_run(l->b, cluster_fixture_nothing, 0, l->fetch, NULL, &v);
    l->over = true;
}

static void start(later *l, cluster_fixture *b, mr_out fetch)
{
    *l = (later){.b = b, .fetch = fetch};
    cluster_fixture_session_of(b);
    MR_CHECK_INT(mr_thread_start(&l->thread, "later", run_it, l), 0);
}

typedef struct queue {
    mr_out get, put;
} queue;

static queue add_queue(cluster_fixture *b, const char *device)
{
    const int types[] = {MR_FLOAT};
    b->s.device = device;
    mr_out q = mr_emit0_with(&b->s, "FIFOQueueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}, {"shared_name", mr_a_str("q")}));
    mr_out get = mr_emit_with(&b->s, "QueueDequeueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}), q);
    mr_out one = mr_const_f32(&b->s, 1);
    mr_out put = mr_emit_with(&b->s, "QueueEnqueueV2", MR_ATTRS({"Tcomponents", mr_a_types(1, types)}), q, one);
    b->s.device = "";
    return (queue){get, put};
}

MR_TEST(watch_ends_the_step_of_a_silent_task)
{
    cluster_fixture b;
    later l;
    float v;
    begin(&b, 1, 1);
    queue q = add_queue(&b, "/job:ps/task:0");
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, cluster_fixture_nothing, q.put.node, &v));
    MR_CHECK_OK(
        cluster_fixture_run(&b, cluster_fixture_nothing, 0, q.get, NULL, &v)); /* so the master has heard of it */
    mr_sleep_ns(INT64_C(1000000000));
    start(&l, &b, q.get);
    listener_of("ps0:1")->dumb = true;
    mr_thread_join(&l.thread);
    MR_CHECK_ERR(l.st, MR_UNAVAILABLE, "/job:ps/replica:0/task:0 is lost: last heard of");
    /* And who comes later does not wait at all. */
    int64_t before = mr_now_ns();
    MR_CHECK_ERR(cluster_fixture_run(&b, cluster_fixture_nothing, 0, q.get, NULL, &v), MR_UNAVAILABLE,
                 "/job:ps/replica:0/task:0 is lost");
    MR_CHECK(mr_now_ns() - before < LOST_MS * INT64_C(1000000));
    cluster_fixture_end(&b);
}

/* Also when it is only its second device that counts, and whoever receives from it, and nobody else, is to notice. */
MR_TEST(watch_ends_what_comes_from_any_device_of_a_silent_task)
{
    cluster_fixture b;
    later l;
    begin(&b, 2, 1);
    b.task_config = MR_SV("\x0a\x07\x0a\x03" "CPU" "\x10\x02"); /* device_count { "CPU": 2 } */
    for (int i = 0; i < 3; i++) {
        cluster_fixture_stop_task(&b, i);
        cluster_fixture_start_task(&b, i);
    }
    queue q = add_queue(&b, "/job:ps/task:0/device:CPU:1");
    b.s.device = "/job:ps/task:1/device:CPU:1";
    mr_out y = mr_emit(&b.s, "Neg", q.get);
    start(&l, &b, y);
    mr_sleep_ns(INT64_C(1000000000));
    MR_CHECK(!l.over);
    listener_of("ps0:1")->dumb = true;
    mr_thread_join(&l.thread);
    MR_CHECK_ERR(l.st, MR_UNAVAILABLE, "/job:ps/replica:0/task:0 is lost: last heard of");
    cluster_fixture_end(&b);
}

/* A graph that is on its way to it. */
MR_TEST(watch_ends_a_registration_with_a_silent_task)
{
    cluster_fixture b;
    float v;
    begin(&b, 1, 1);
    b.s.device = "/job:ps/task:0";
    mr_out one = mr_const_f32(&b.s, 1), two = mr_emit(&b.s, "Neg", one);
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, one, NULL, &v));
    mr_sleep_ns(INT64_C(1000000000));
    listener_of("ps0:1")->dumb = true;
    MR_CHECK_ERR(cluster_fixture_run(&b, cluster_fixture_nothing, 0, two, NULL, &v), MR_UNAVAILABLE,
                 "/job:ps/replica:0/task:0 is lost");
    cluster_fixture_end(&b);
}

/* Waiting is not silence. */
MR_TEST(watch_lets_a_step_wait)
{
    cluster_fixture b;
    later l;
    float v;
    begin(&b, 1, 1);
    queue q = add_queue(&b, "/job:ps/task:0");
    start(&l, &b, q.get);
    mr_sleep_ns(2 * LOST_MS * INT64_C(1000000));
    MR_CHECK(!l.over);
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, cluster_fixture_nothing, q.put.node, &v));
    mr_thread_join(&l.thread);
    MR_CHECK_OK(l.st);
    cluster_fixture_end(&b);
}

/* Whether a task knows a session: a graph of it, be it empty, can be registered. */
static bool knows_session(cluster_fixture *b, const char *address, mr_sv session)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, session);
    mr_pb_put_varint(&w, 6, 1);
    mr_status *st = cluster_fixture_call(b->net, address, MR_WORKER_SERVICE "RegisterGraph", &body, NULL);
    bool knows = !st;
    MR_CHECK(knows || mr_status_code(st) == MR_ABORTED);
    mr_status_free(st);
    return knows;
}

/* A master that is silent leaves nothing behind at its tasks. */
MR_TEST(watch_frees_the_sessions_of_a_silent_master)
{
    cluster_fixture b;
    mr_str body = {0}, reply = {0};
    begin(&b, 1, 1);
    MR_CHECK_OK(cluster_fixture_call(b.net, "worker0:1", MR_MASTER_SERVICE "CreateSession", &body, &reply));
    mr_sv session = mr_wire_field(mr_str_view(&reply), 1);
    mr_sleep_ns(2 * LOST_MS * INT64_C(1000000));
    MR_CHECK(knows_session(&b, "ps0:1", session)); /* though nobody used it */
    listener_of("worker0:1")->dumb = true;
    while (knows_session(&b, "ps0:1", session)) /* until the test's deadline */
        mr_sleep_ns(50000000);
    listener_of("worker0:1")->dumb = false;
    mr_str_deinit(&reply);
    cluster_fixture_end(&b);
}

/* And one that is restarted. */
MR_TEST(watch_frees_the_sessions_of_a_masters_earlier_incarnation)
{
    cluster_fixture b;
    mr_str body = {0}, reply = {0};
    begin(&b, 1, 1);
    MR_CHECK_OK(cluster_fixture_call(b.net, "worker0:1", MR_MASTER_SERVICE "CreateSession", &body, &reply));
    mr_sv session = mr_wire_field(mr_str_view(&reply), 1);
    MR_CHECK(knows_session(&b, "ps0:1", session));
    listener_of("ps0:1")->deaf = true; /* it does not hear the master's farewell */
    cluster_fixture_stop_task(&b, 1);
    listener_of("ps0:1")->deaf = false;
    cluster_fixture_start_task(&b, 1);
    while (knows_session(&b, "ps0:1", session))
        mr_sleep_ns(50000000);
    mr_str_deinit(&reply);
    cluster_fixture_end(&b);
}

/* Of two tasks that talk to each other only one is lost to the other; their master hears both. */
MR_TEST(watch_tells_who_was_restarted)
{
    cluster_fixture b;
    later l;
    begin(&b, 2, 1);
    queue q = add_queue(&b, "/job:ps/task:0");
    b.s.device = "/job:ps/task:1";
    mr_out y = mr_emit(&b.s, "Neg", q.get);
    start(&l, &b, y);
    mr_sleep_ns(INT64_C(500000000));
    cluster_fixture_stop_task(&b, 0);
    cluster_fixture_start_task(&b, 0);
    mr_thread_join(&l.thread);
    MR_CHECK(mr_status_code(l.st) == MR_UNAVAILABLE || mr_status_code(l.st) == MR_ABORTED);
    MR_CHECK(strstr(mr_status_message(l.st), "/job:ps/replica:0/task:0"));
    mr_status_free(l.st);
    float v;
    MR_CHECK_ERR(cluster_fixture_run(&b, cluster_fixture_nothing, 0, y, NULL, &v), MR_ABORTED,
                 "/job:ps/replica:0/task:0");
    cluster_fixture_end(&b);
}


/* The client does not wait for a master that is silent. */
MR_TEST(watch_ends_the_run_of_a_client_whose_master_is_silent)
{
    cluster_fixture b;
    later l;
    begin(&b, 1, 1);
    queue q = add_queue(&b, "/job:ps/task:0");
    start(&l, &b, q.get);
    mr_sleep_ns(INT64_C(500000000));
    listener_of("worker0:1")->dumb = true;
    int64_t before = mr_now_ns();
    mr_thread_join(&l.thread);
    MR_CHECK(mr_now_ns() - before < INT64_C(10000000000));
    /* Its tasks may have noticed first. */
    MR_CHECK(mr_status_code(l.st) == MR_UNAVAILABLE || mr_status_code(l.st) == MR_CANCELLED);
    mr_status_free(l.st);
    listener_of("worker0:1")->dumb = false;
    cluster_fixture_end(&b);
}

/* Clients open another session after UNAVAILABLE, and would end with anything else. */
MR_TEST(watch_a_task_that_makes_no_session_is_unavailable)
{
    cluster_fixture b;
    mr_session *s;
    begin(&b, 1, 1);
    listener_of(b.cluster.tasks.p[0].address)->slow = true;
    MR_CHECK_ERR(mr_remote_session_new(b.net, b.cluster.tasks.p[1].address, b.g, NULL, MR_SV(""), NULL, &s), MR_UNAVAILABLE,
                 "/job:ps/replica:0/task:0");
    listener_of(b.cluster.tasks.p[0].address)->slow = false;
    MR_CHECK_OK(mr_remote_session_new(b.net, b.cluster.tasks.p[1].address, b.g, NULL, MR_SV(""), NULL, &s));
    mr_session_free(s);
    cluster_fixture_end(&b);
}
