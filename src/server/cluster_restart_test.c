/* server/cluster_restart_test.c -- tasks that come and go while clients run steps: every run ends, and at last all is well. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "server/cluster_fixture.h"

enum { CLIENTS = 3, RESTARTS = 12 };

typedef struct client { /* a session of its own, opened again whenever it is lost */
    cluster_fixture *b;
    mr_out x, y;
    const char *master;
    _Atomic bool *stop;
    int n_ok, n_lost;
    mr_status *wrong; /* an error that no loss explains */
    mr_thread thread;
} client;

static bool is_loss(const mr_status *st)
{
    mr_code c = mr_status_code(st);
    return c == MR_UNAVAILABLE || c == MR_ABORTED || c == MR_CANCELLED;
}

static mr_status *run_one(client *c, mr_session *s, float value)
{
    mr_tensor *v = mr_tensor_scalar_f32(value), *got = NULL;
    mr_run_args a = {.feeds = &c->x, .feed_values = &v, .n_feeds = 1, .fetches = &c->y, .fetched = &got, .n_fetches = 1};
    mr_status *st = mr_session_run(s, &a, NULL, NULL);
    if (!st && *MR_DATA(float, got) != value * value + value)
        st = mr_error(MR_DATA_LOSS, "%g came for %g", (double)*MR_DATA(float, got), (double)value);
    mr_tensor_unref(got);
    mr_tensor_unref(v);
    return st;
}

static void run_client(void *arg)
{
    client *c = arg;
    mr_session *s = NULL;
    while (!*c->stop && !c->wrong) {
        mr_status *st = s ? run_one(c, s, (float)(c->n_ok % 100))
                          : mr_remote_session_new(c->b->net, c->master, c->b->g, NULL, MR_SV(""), NULL, &s);
        if (!st) {
            c->n_ok++;
            continue;
        }
        c->n_lost++;
        mr_session_free(s);
        s = NULL;
        if (is_loss(st))
            mr_status_free(st);
        else
            c->wrong = st;
    }
    mr_session_free(s);
}

/* Two parameter servers come and go; the masters, in two workers, stay. */
static void lives_through_restarts(mr_net *net)
{
    cluster_fixture b;
    _Atomic bool stop = false;
    client clients[CLIENTS];
    cluster_fixture_begin_on(&b, net, 2, 2);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    b.s.device = "/job:ps/task:0";
    mr_out square = mr_emit(&b.s, "Square", x);
    b.s.device = "/job:ps/task:1";
    mr_out y = mr_emit(&b.s, "AddV2", square, x);
    MR_CHECK_OK(mr_scope_status(&b.s));
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (client){.b = &b, .x = x, .y = y, .master = i % 2 ? "worker0:1" : "worker1:1", .stop = &stop};
        MR_CHECK_INT(mr_thread_start(&clients[i].thread, "client", run_client, &clients[i]), 0);
    }
    for (int i = 0; i < RESTARTS; i++) {
        mr_sleep_ns(20000000 + i * INT64_C(3000000));
        cluster_fixture_stop_task(&b, i % 2);
        cluster_fixture_start_task(&b, i % 2);
    }
    mr_sleep_ns(100000000);
    stop = true;
    for (int i = 0; i < CLIENTS; i++) {
        mr_thread_join(&clients[i].thread);
        MR_CHECK_OK(clients[i].wrong);
    }
    float v;
    b.session = NULL;
    MR_CHECK_OK(cluster_fixture_run(&b, x, 3, y, NULL, &v));
    MR_CHECK_NEAR(v, 12, 0);
    cluster_fixture_end(&b);
}

MR_TEST(restarts_of_tasks_end_every_run) { lives_through_restarts(mr_net_loop()); }
MR_TEST(restarts_of_tasks_end_every_run_of_one_host) { lives_through_restarts(mr_net_local()); }

/* ---- a master that is stopped while a session is made ---- */

typedef struct opener {
    cluster_fixture *b;
    mr_cancel *cancel;
    mr_status *st;
    mr_thread thread;
} opener;

static void open_it(void *arg)
{
    opener *o = arg;
    mr_session *s;
    o->st = mr_remote_session_new(o->b->net, o->b->cluster.tasks.p[1].address, o->b->g, NULL, MR_SV(""), o->cancel, &s);
}

MR_TEST(restarts_end_the_making_of_a_session)
{
    cluster_fixture b;
    opener o = {.b = &b};
    cluster_fixture_begin(&b, 1, 1);
    cluster_fixture_stop_task(&b, 0); /* so that it is waited for */
    MR_CHECK_INT(mr_thread_start(&o.thread, "opener", open_it, &o), 0);
    mr_sleep_ns(50000000); /* it may wait for the task by now, or find no master: both must end */
    cluster_fixture_stop_task(&b, 1);
    mr_thread_join(&o.thread);
    MR_CHECK(mr_status_code(o.st) == MR_CANCELLED || mr_status_code(o.st) == MR_UNAVAILABLE);
    mr_status_free(o.st);
    cluster_fixture_end(&b);
}

/* A task is not there, and would be waited for for ten minutes. */
MR_TEST(the_making_of_a_session_can_be_cancelled)
{
    for (int when = 0; when < 2; when++) {
        cluster_fixture b;
        opener o = {.b = &b, .cancel = mr_cancel_new(NULL)};
        cluster_fixture_begin_on(&b, mr_net_local(), 1, 1);
        cluster_fixture_stop_task(&b, 0);
        if (when == 0)
            mr_cancel_start(o.cancel);
        MR_CHECK_INT(mr_thread_start(&o.thread, "opener", open_it, &o), 0);
        mr_sleep_ns(50000000); /* it waits by now, as a rule; it must not matter */
        mr_cancel_start(o.cancel);
        mr_thread_join(&o.thread);
        MR_CHECK_ERR(o.st, MR_CANCELLED, "");
        mr_cancel_free(o.cancel);
        cluster_fixture_end(&b);
    }
}
