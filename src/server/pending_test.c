/* server/pending_test.c -- a task that waits long for another one logs which one, and why. */
#include "server/pending.h"

#include "base/memory.h"
#include "ops/table.h"
#include "server/cluster_fixture.h"
#include "server/host.h"
#include "tests/harness/log.h"

#define PERIOD_NS INT64_C(30000000)

/* ---- a session that cannot be made ---- */

typedef struct making {
    cluster_fixture *b;
    mr_cancel *cancel;
    mr_session *session;
    mr_status *st;
    mr_thread thread;
} making;

static void make_session(void *arg)
{
    making *m = arg;
    cluster_fixture *b = m->b;
    m->st = mr_remote_session_new(b->net, b->cluster.tasks.p[b->n - 1].address, b->g, NULL, MR_SV(""), m->cancel,
                                  &m->session);
}

static void start_making(making *m, cluster_fixture *b)
{
    *m = (making){.b = b, .cancel = mr_cancel_new(NULL)};
    MR_CHECK_INT(mr_thread_start(&m->thread, "making", make_session, m), 0);
}

static void end_making(making *m)
{
    mr_cancel_start(m->cancel);
    mr_thread_join(&m->thread);
    MR_CHECK(m->st);
    mr_status_free(m->st);
    mr_cancel_free(m->cancel);
}

MR_TEST(session_that_waits_for_a_task_names_it_in_tensorflows_words)
{
    cluster_fixture b;
    making m;
    mr_test_log_begin(PERIOD_NS);
    cluster_fixture_begin_on(&b, mr_net_local(), 1, 1);
    cluster_fixture_stop_task(&b, 0);
    start_making(&m, &b);
    mr_test_log_wait("CreateSession still waiting for response from worker: /job:ps/replica:0/task:0 (", 2);
    end_making(&m);
    cluster_fixture_end(&b);
    mr_test_log_end();
}

MR_TEST(session_that_waits_for_its_master_says_why)
{
    cluster_fixture b;
    making m;
    mr_test_log_begin(PERIOD_NS);
    cluster_fixture_begin_on(&b, mr_net_local(), 0, 1);
    cluster_fixture_stop_task(&b, 0);
    start_making(&m, &b);
    mr_test_log_wait("CreateSession still waiting for the master: ", 1);
    mr_test_log_wait("worker0:1", 1);
    end_making(&m);
    cluster_fixture_end(&b);
    mr_test_log_end();
}

/* Ten tasks have a line each; the others are counted. */
MR_TEST(session_that_waits_for_many_tasks_counts_them)
{
    cluster_fixture b;
    making m;
    mr_test_log_begin(PERIOD_NS);
    cluster_fixture_begin_on(&b, mr_net_local(), 12, 1);
    for (int i = 0; i < 12; i++)
        cluster_fixture_stop_task(&b, i);
    start_making(&m, &b);
    mr_test_log_wait("CreateSession still waiting for response from 2 more of 13 workers", 2);
    end_making(&m);
    cluster_fixture_end(&b);
    mr_test_log_end();
}

/* ---- requests that nobody answers ---- */

enum { N_MUTE = 13 };

static void start_nothing(mr_net_peer *p, mr_net_request *r) { (void)p, (void)r; }
static void cancel_nothing(mr_net_request *r) { (void)r; }
static void disconnect_nothing(mr_net_peer *p) { (void)p; }
static mr_net mute_net = {
    .name = "mute", .start = start_nothing, .cancel = cancel_nothing, .disconnect = disconnect_nothing};

static mr_status *connect_mute(mr_task_peers *p, int task, mr_net **net, mr_net_peer **out)
{
    (void)p, (void)task;
    *net = &mute_net;
    *out = NULL;
    return NULL;
}

static void incarnation_changed(void *arg, mr_task_peers *p, int task) { (void)arg, (void)p, (void)task; }

static void forget_answer(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    (void)r, (void)reply;
    mr_status_free(st);
}

/* One request to each task: every reason has a line, ten tasks have one, and heartbeats have none. */
MR_TEST(request_that_is_not_answered_is_logged_with_its_reason)
{
    static const struct {
        const char *method, *text;
    } asked[N_MUTE] = {
        {MR_WORKER_SERVICE "RunGraph", "its part of a step is still running"},
        {MR_WORKER_SERVICE "RecvTensor", "a tensor of a step has not arrived"},
        {MR_WORKER_SERVICE "RegisterGraph", "it is still preparing its part of the graph"},
        {MR_WORKER_SERVICE "CreateWorkerSession", "it is still making its session"},
        {MR_WORKER_SERVICE "CompleteGroup", "not all members of a collective have joined"},
        {MR_WORKER_SERVICE "CompleteInstance", "the sender of a broadcast has not joined"},
        {MR_WORKER_SERVICE "JoinCollective", "not all workers have joined the group"},
        {MR_WORKER_SERVICE "RecvBuf", "a piece of a collective has not arrived"},
        {MR_WORKER_SERVICE "GetStepSequence", "it has not sent the id of a step"},
        {MR_WORKER_SERVICE "GetStatus", NULL},
        {MR_WORKER_SERVICE "Logging", MR_WORKER_SERVICE "Logging has not been answered"},
        {MR_WORKER_SERVICE "RunGraph", NULL}, /* the eleventh and twelfth line */
        {MR_WORKER_SERVICE "RunGraph", NULL},
    };
    mr_cluster c = {0};
    mr_host host = {.connect = connect_mute, .incarnation_changed = incarnation_changed};
    mr_net_request r[N_MUTE];
    mr_bytes none = {0};
    mr_ops_register();
    mr_test_log_begin(PERIOD_NS);
    MR_CHECK_OK(mr_timers_new(&host.timers));
    for (int i = 0; i < N_MUTE; i++)
        MR_CHECK_OK(mr_cluster_add(&c, MR_SV("ps"), i, MR_SV("nowhere:1")));
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("worker"), 0, MR_SV("here:1")));
    MR_CHECK_OK(mr_host_init(&host, &c, N_MUTE, &(mr_session_config){0}));
    for (int i = 0; i < N_MUTE; i++) {
        r[i] = (mr_net_request){.method = asked[i].method, .done = forget_answer};
        mr_task_peers_ask(host.peers, i, &r[i]);
    }
    mr_test_log_wait("Still waiting for 2 more tasks", 2);
    for (int i = 0; i < N_MUTE; i++) {
        const char *text = asked[i].text;
        char *line =
            mr_printf("Still waiting for /job:ps/replica:0/task:%d: %s%s", i, text ? text : "", text ? " (" : "");
        MR_CHECK((mr_test_log_count(line) > 1) == (text != NULL));
        mr_free(line);
    }
    for (int i = 0; i < N_MUTE; i++)
        r[i].done(&r[i], NULL, &none);
    mr_host_disconnect(&host);
    mr_host_deinit(&host);
    mr_timers_free(host.timers);
    mr_cluster_deinit(&c);
    mr_test_log_end();
}

/* ---- a step that waits ---- */

static void run_it(void *arg)
{
    making *m = arg;
    m->st = cluster_fixture_run(m->b, cluster_fixture_nothing, 0, cluster_fixture_nothing,
                                mr_graph_find(m->b->g, MR_SV("late")), NULL);
}

/* A value that never comes. */
static void wait_on(cluster_fixture *b, const char *device)
{
    const int types[] = {MR_FLOAT};
    b->s.device = device;
    mr_out q = mr_emit0_with(&b->s, "FIFOQueueV2",
                             MR_ATTRS({"component_types", mr_a_types(1, types)}, {"shared_name", mr_a_str("q")}));
    mr_out v = mr_emit_with(&b->s, "QueueDequeueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}), q);
    b->s.device = "/job:worker/task:0";
    mr_node_builder *nb = mr_node_begin(b->g, "Identity", "late");
    mr_nb_device(nb, b->s.device);
    mr_nb_input(nb, v);
    mr_node *late;
    MR_CHECK_OK(mr_node_finish(nb, &late));
    b->s.device = "";
}

MR_TEST(step_that_waits_for_a_task_names_it)
{
    cluster_fixture b;
    making m;
    mr_test_log_begin(PERIOD_NS);
    cluster_fixture_begin_on(&b, mr_net_local(), 1, 1);
    wait_on(&b, "/job:ps/task:0");
    cluster_fixture_session_of(&b);
    m = (making){.b = &b};
    MR_CHECK_INT(mr_thread_start(&m.thread, "step", run_it, &m), 0);
    mr_test_log_wait("Still waiting for /job:ps/replica:0/task:0", 2);
    MR_CHECK_OK(mr_session_close(b.session));
    mr_thread_join(&m.thread);
    MR_CHECK_ERR(m.st, MR_CANCELLED, "Session::Close()");
    cluster_fixture_end(&b);
    mr_test_log_end();
}

MR_TEST(server_of_this_process_is_known_by_its_target)
{
    cluster_fixture b;
    cluster_fixture_begin(&b, 0, 1);
    const char *address = mr_server_target(b.servers[0]) + sizeof "grpc://" - 1;
    MR_CHECK(mr_server_is_here(address) && !mr_server_is_here("elsewhere:1"));
    char *kept = mr_strdup(address);
    cluster_fixture_stop_task(&b, 0);
    MR_CHECK(!mr_server_is_here(kept));
    mr_free(kept);
    cluster_fixture_end(&b);
}

/* ---- a group that is not complete ---- */

typedef struct joining {
    mr_server *s;
    mr_cancel *cancel;
    mr_status *st;
    mr_thread thread;
} joining;

static void join_group(void *arg)
{
    joining *j = arg;
    mr_joined out;
    mr_join q = {
        .name = "g", .worker = 0, .n_workers = 2, .step = -1, .wait_ms = 60000, .settle_ms = 1000, .cancel = j->cancel};
    j->st = mr_server_join_group(j->s, &q, &out);
}

static void check_joining(int n_ps, const char *line)
{
    cluster_fixture b;
    mr_test_log_begin(PERIOD_NS);
    cluster_fixture_begin_on(&b, mr_net_local(), n_ps, 1);
    joining j = {.s = b.servers[b.n - 1], .cancel = mr_cancel_new(NULL)};
    MR_CHECK_INT(mr_thread_start(&j.thread, "join", join_group, &j), 0);
    mr_test_log_wait(line, 2);
    mr_cancel_start(j.cancel);
    mr_thread_join(&j.thread);
    MR_CHECK_ERR(j.st, MR_CANCELLED, "");
    mr_cancel_free(j.cancel);
    cluster_fixture_end(&b);
    mr_test_log_end();
}

MR_TEST(worker_that_waits_for_its_group_says_so)
{
    check_joining(1, "Still waiting for /job:ps/replica:0/task:0: not all workers have joined the group");
}

MR_TEST(leader_that_waits_for_its_group_says_so)
{
    check_joining(
        0, "Still waiting for other tasks at /job:worker/replica:0/task:0: not all workers have joined the group");
}
