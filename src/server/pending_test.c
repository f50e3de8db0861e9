/* server/pending_test.c -- a task that waits long for another one logs which one, and why. */
#include "server/pending.h"

#include "server/bench_test.h"
#include "tests/harness/log.h"

#define PERIOD_NS INT64_C(30000000)

/* ---- a session that cannot be made ---- */

typedef struct making {
    bench *b;
    mr_cancel *cancel;
    mr_session *session;
    mr_status *st;
    mr_thread thread;
} making;

static void make_session(void *arg)
{
    making *m = arg;
    bench *b = m->b;
    m->st = mr_remote_session_new(b->net, b->cluster.tasks.p[b->n - 1].address, b->g, NULL, MR_SV(""), m->cancel,
                                  &m->session);
}

static void start_making(making *m, bench *b)
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
    bench b;
    making m;
    mr_test_log_begin(PERIOD_NS);
    bench_begin_on(&b, mr_net_local(), 1, 1);
    bench_stop_task(&b, 0);
    start_making(&m, &b);
    mr_test_log_wait("CreateSession still waiting for response from worker: /job:ps/replica:0/task:0 (", 2);
    end_making(&m);
    bench_end(&b);
    mr_test_log_end();
}

MR_TEST(session_that_waits_for_its_master_says_why)
{
    bench b;
    making m;
    mr_test_log_begin(PERIOD_NS);
    bench_begin_on(&b, mr_net_local(), 0, 1);
    bench_stop_task(&b, 0);
    start_making(&m, &b);
    mr_test_log_wait("CreateSession still waiting for the master: ", 1);
    mr_test_log_wait("worker0:1", 1);
    end_making(&m);
    bench_end(&b);
    mr_test_log_end();
}

/* ---- a step that waits ---- */

static void run_it(void *arg)
{
    making *m = arg;
    m->st = bench_run(m->b, bench_nothing, 0, bench_nothing, mr_graph_find(m->b->g, MR_SV("late")), NULL);
}

/* A value that never comes. */
static void wait_on(bench *b, const char *device)
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
    bench b;
    making m;
    mr_test_log_begin(PERIOD_NS);
    bench_begin_on(&b, mr_net_local(), 1, 1);
    wait_on(&b, "/job:ps/task:0");
    bench_session_of(&b);
    m = (making){.b = &b};
    MR_CHECK_INT(mr_thread_start(&m.thread, "step", run_it, &m), 0);
    mr_test_log_wait("Still waiting for /job:ps/replica:0/task:0", 2);
    MR_CHECK_OK(mr_session_close(b.session));
    mr_thread_join(&m.thread);
    MR_CHECK_ERR(m.st, MR_CANCELLED, "Session::Close()");
    bench_end(&b);
    mr_test_log_end();
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
    bench b;
    mr_test_log_begin(PERIOD_NS);
    bench_begin_on(&b, mr_net_local(), n_ps, 1);
    joining j = {.s = b.servers[b.n - 1], .cancel = mr_cancel_new(NULL)};
    MR_CHECK_INT(mr_thread_start(&j.thread, "join", join_group, &j), 0);
    mr_test_log_wait(line, 2);
    mr_cancel_start(j.cancel);
    mr_thread_join(&j.thread);
    MR_CHECK_ERR(j.st, MR_CANCELLED, "");
    mr_cancel_free(j.cancel);
    bench_end(&b);
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
