/* server/retries_test.c -- calls that come twice, late, or of somebody who is gone, made by hand to one task. */
#include "base/memory.h"
#include "base/thread.h"
#include "graph/graph_def.h"
#include "graph/scope.h"
#include "ops/table.h"
#include "server/host.h"
#include "server/server.h"
#include "server/wire.h"
#include "tests/harness/test.h"

typedef struct bench {
    mr_server *server;
    mr_net_peer *peer;
    mr_str reply; /* of the last call */
} bench;

static void begin(bench *b)
{
    mr_server_def def = {.job = "worker"};
    *b = (bench){0};
    mr_ops_register();
    MR_CHECK_OK(mr_cluster_add(&def.cluster, MR_SV("worker"), 0, MR_SV("alone:1")));
    MR_CHECK_OK(mr_server_new(&def, &(mr_server_options){mr_net_loop()}, &b->server));
    MR_CHECK_OK(mr_server_start(b->server));
    MR_CHECK_OK(mr_net_loop()->connect(mr_net_loop(), "alone:1", NULL, NULL, &b->peer));
    mr_cluster_deinit(&def.cluster);
}

static void end(bench *b)
{
    mr_net_loop()->disconnect(b->peer);
    mr_server_free(b->server);
    mr_str_deinit(&b->reply);
}

typedef struct waited {
    mr_net_request request; /* first */
    mr_mutex mu;
    mr_cond changed;
    bool done;
    mr_status *st;
    mr_str *reply;
} waited;

static void came(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    waited *w = (waited *)r;
    mr_sv bytes;
    mr_lock(&w->mu);
    w->st = st ? st : mr_bytes_flat(reply, &bytes);
    mr_str_clear(w->reply);
    if (!w->st)
        mr_str_append(w->reply, bytes.p, bytes.n);
    w->done = true;
    mr_cond_broadcast(&w->changed);
    mr_unlock(&w->mu);
}

static mr_status *call(bench *b, const char *method, mr_str *body)
{
    waited w = {.request = {.method = method, .done = came}, .reply = &b->reply};
    mr_bytes_add_str(&w.request.body, body);
    mr_mutex_init(&w.mu);
    mr_cond_init(&w.changed);
    mr_net_loop()->start(b->peer, &w.request);
    mr_lock(&w.mu);
    while (!w.done)
        mr_cond_wait(&w.changed, &w.mu);
    mr_unlock(&w.mu);
    mr_cond_deinit(&w.changed);
    mr_mutex_deinit(&w.mu);
    return w.st;
}

static mr_status *create(bench *b, const char *session, const char *master, uint64_t incarnation)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(session));
    mr_pb_put_bytes(&w, 5, mr_sv_of(master));
    mr_pb_put_varint(&w, 6, incarnation);
    return call(b, MR_WORKER_SERVICE "CreateWorkerSession", &body);
}

static mr_status *delete(bench *b, const char *session)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(session));
    return call(b, MR_WORKER_SERVICE "DeleteWorkerSession", &body);
}

/* A graph of one NoOp; its handle is in the reply. */
static mr_status *register_graph(bench *b, const char *session)
{
    mr_str body = {0}, graph = {0};
    mr_pb_writer w;
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_scope_init(&s, g, "");
    mr_out n = mr_emit0(&s, "NoOp");
    MR_CHECK_OK(mr_scope_status(&s));
    n.node->device = "/job:worker/replica:0/task:0/device:CPU:0";
    MR_CHECK_OK(mr_graph_export(g, &graph));
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(session));
    mr_pb_put_bytes(&w, 2, mr_str_view(&graph));
    mr_pb_put_varint(&w, 6, 1);
    mr_str_deinit(&graph);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
    return call(b, MR_WORKER_SERVICE "RegisterGraph", &body);
}

/* The first graph of a task has this handle. */
static mr_status *run_graph(bench *b, const char *session, uint64_t step)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, MR_SV("0000000000000000"));
    mr_pb_put_varint(&w, 2, step);
    mr_pb_put_bytes(&w, 8, mr_sv_of(session));
    mr_pb_put_varint(&w, 10, 1);
    return call(b, MR_WORKER_SERVICE "RunGraph", &body);
}

MR_TEST(server_begins_a_step_once)
{
    bench b;
    begin(&b);
    MR_CHECK_OK(create(&b, "a", "m", 1));
    MR_CHECK_OK(register_graph(&b, "a"));
    MR_CHECK_OK(run_graph(&b, "a", 7));
    MR_CHECK_ERR(run_graph(&b, "a", 7), MR_ABORTED, "begun before");
    MR_CHECK_OK(run_graph(&b, "a", 8));
    end(&b);
}

/* Handles are counted anew by each life of a task: the same one may be another session's graph. */
MR_TEST(server_runs_a_graph_only_for_its_session)
{
    bench b;
    begin(&b);
    MR_CHECK_OK(create(&b, "a", "m", 1));
    MR_CHECK_OK(create(&b, "b", "m", 1));
    MR_CHECK_OK(register_graph(&b, "a"));
    MR_CHECK_ERR(run_graph(&b, "b", 7), MR_ABORTED, "Graph handle is not found");
    MR_CHECK_ERR(run_graph(&b, "c", 7), MR_ABORTED, "Graph handle is not found");
    MR_CHECK_OK(run_graph(&b, "a", 7)); /* who was refused has not begun it */
    end(&b);
}

MR_TEST(server_makes_no_session_that_was_deleted)
{
    bench b;
    begin(&b);
    MR_CHECK_OK(delete(&b, "a")); /* overtook it */
    MR_CHECK_ERR(create(&b, "a", "m", 1), MR_ABORTED, "was deleted");
    end(&b);
}

MR_TEST(server_drops_sessions_of_a_masters_earlier_life)
{
    bench b;
    begin(&b);
    MR_CHECK_OK(create(&b, "a", "m", 1));
    MR_CHECK_OK(create(&b, "x", "other", 9));
    MR_CHECK_OK(create(&b, "b", "m", 2));
    MR_CHECK_ERR(register_graph(&b, "a"), MR_ABORTED, "Session handle is not found");
    MR_CHECK_OK(register_graph(&b, "b"));
    MR_CHECK_OK(register_graph(&b, "x"));
    end(&b);
}

MR_TEST(server_does_a_request_of_a_client_once)
{
    bench b;
    begin(&b);
    for (int i = 0; i < 2; i++) {
        mr_str body = {0};
        mr_pb_writer w;
        mr_pb_writer_init(&w, &body);
        mr_pb_put_bytes(&w, 1, MR_SV("nowhere"));
        mr_pb_put_varint(&w, 8, 77);
        MR_CHECK_ERR(call(&b, MR_MASTER_SERVICE "RunStep", &body), MR_ABORTED, i ? "received twice" : "is not found");
    }
    end(&b);
}
