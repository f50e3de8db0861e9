/* server/unresolved_test.c -- requests to tasks of which nobody knows yet where they are: who ends them, and what may happen
 * meanwhile. */
#include "server/unresolved.h"

#include "base/memory.h"
#include "ops/table.h"
#include "tests/harness/test.h"

/* ---- a transport that answers before start returns, and a service that says what a test says ---- */

static int n_started, n_cancelled;

static void start(mr_net_peer *p, mr_net_request *r)
{
    mr_bytes none = {0};
    (void)p;
    n_started++;
    mr_bytes_deinit(&r->body);
    r->done(r, mr_error(MR_UNAVAILABLE, "nobody is there"), &none);
}

static void cancel(mr_net_request *r)
{
    (void)r;
    n_cancelled++;
}

static void disconnect(mr_net_peer *p) { (void)p; }

static mr_net quick = {.name = "quick", .start = start, .cancel = cancel, .disconnect = disconnect};

static mr_status *connect_quick(mr_task_peers *p, int task, mr_net **net, mr_net_peer **out)
{
    (void)p, (void)task;
    *net = &quick;
    *out = NULL;
    return NULL;
}

static void incarnation_changed(void *arg, mr_task_peers *p, int task) { (void)arg, (void)p, (void)task; }
static void watch(mr_naming *n, const char *name, int task) { (void)n, (void)name, (void)task; }
static mr_naming service = {.watch = watch};

/* ---- a host that wants to ask ps 0 ---- */

typedef struct cluster_fixture {
    mr_host host;
    mr_timers *timers;
} cluster_fixture;

static void begin(cluster_fixture *b)
{
    mr_cluster c = {0};
    *b = (cluster_fixture){.host = {.connect = connect_quick, .incarnation_changed = incarnation_changed}};
    n_started = n_cancelled = 0;
    mr_ops_register();
    MR_CHECK_OK(mr_timers_new(&b->timers));
    b->host.timers = b->timers;
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("ps"), 0, MR_SV("zk")));
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("worker"), 0, MR_SV("zk")));
    MR_CHECK_OK(mr_host_init(&b->host, &c, 1, &(mr_session_config){0}));
    mr_task_peers_name_by(b->host.peers, &service);
    mr_cluster_deinit(&c);
}

static void end(cluster_fixture *b)
{
    mr_task_peers_name_by(b->host.peers, NULL);
    mr_host_deinit(&b->host);
    mr_timers_free(b->timers);
}

/* A request that is cancelled once more when it is over, as by one who has not heard of that. */
typedef struct question {
    mr_net_request request; /* first */
    cluster_fixture *b;
    int n_done;
    mr_code code;
} question;

static void done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    question *q = (question *)r;
    (void)reply;
    q->n_done++;
    q->code = mr_status_code(st);
    mr_status_free(st);
    mr_task_peers_cancel(q->b->host.peers, 0, r);
}

static void ask(question *q, cluster_fixture *b, bool patient)
{
    *q = (question){.request = {.method = "/x", .wait_for_ready = patient, .done = done}, .b = b};
    mr_task_peers_ask(b->host.peers, 0, &q->request);
}

MR_TEST(unresolved_request_that_ends_can_be_cancelled_in_its_callback)
{
    cluster_fixture b;
    question q;
    begin(&b);
    ask(&q, &b, false);
    MR_CHECK_INT(q.n_done, 0);
    mr_task_peers_found(b.host.peers, 0, (mr_sv){NULL, 0}); /* nothing stands there */
    MR_CHECK_INT(q.n_done, 1);
    MR_CHECK_INT(q.code, MR_UNAVAILABLE);
    MR_CHECK_INT(n_started + n_cancelled, 0);
    end(&b);
}

MR_TEST(unresolved_request_that_is_answered_as_it_starts_can_be_cancelled_in_its_callback)
{
    cluster_fixture b;
    question q;
    begin(&b);
    ask(&q, &b, true);
    mr_task_peers_found(b.host.peers, 0, (mr_sv){NULL, 0});
    MR_CHECK_INT(q.n_done, 0); /* it waits for its task */
    mr_task_peers_found(b.host.peers, 0, MR_SV("ps0:1 0000000000000007"));
    MR_CHECK_INT(q.n_done, 1);
    MR_CHECK_INT(n_started, 1);
    MR_CHECK_INT(n_cancelled, 1);
    end(&b);
}

MR_TEST(unresolved_request_ends_with_its_peers)
{
    cluster_fixture b;
    question q;
    begin(&b);
    ask(&q, &b, true);
    mr_host_disconnect(&b.host);
    MR_CHECK_INT(q.n_done, 1);
    MR_CHECK_INT(q.code, MR_CANCELLED);
    end(&b);
}
