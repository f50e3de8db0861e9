/* server/cluster_duplicate_calls_test.c -- calls that come twice, late, or of somebody who is gone, made by hand to one task.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "graph/graph_def.h"
#include "graph/scope.h"
#include "ops/table.h"
#include "server/cluster_fixture.h"
#include "server/host.h"
#include "server/wire.h"

typedef struct alone { /* a task on its own */
    mr_server *server;
    mr_str reply; /* of the last call */
} alone;

static void begin(alone *b)
{
    mr_server_def def = {.job = "worker"};
    *b = (alone){0};
    mr_ops_register();
    MR_CHECK_OK(mr_cluster_add(&def.cluster, MR_SV("worker"), 0, MR_SV("alone:1")));
    MR_CHECK_OK(mr_server_new(&def, &(mr_server_options){mr_net_loop()}, &b->server));
    MR_CHECK_OK(mr_server_start(b->server));
    mr_cluster_deinit(&def.cluster);
}

static void end(alone *b)
{
    mr_server_free(b->server);
    mr_str_deinit(&b->reply);
}

static mr_status *call(alone *b, const char *method, mr_str *body)
{
    return cluster_fixture_call(mr_net_loop(), "alone:1", method, body, &b->reply);
}

static mr_status *create(alone *b, const char *session, const char *master, uint64_t incarnation)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(session));
    mr_pb_put_bytes(&w, 5, mr_sv_of(master));
    mr_pb_put_varint(&w, 6, incarnation);
    return call(b, MR_WORKER_SERVICE "CreateWorkerSession", &body);
}

static mr_status *delete(alone *b, const char *session)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(session));
    return call(b, MR_WORKER_SERVICE "DeleteWorkerSession", &body);
}

static const char device[] = "/job:worker/replica:0/task:0/device:CPU:0";

static mr_status *register_def(alone *b, const char *session, mr_sv graph_def)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(session));
    mr_pb_put_bytes(&w, 2, graph_def);
    mr_pb_put_varint(&w, 6, 1);
    return call(b, MR_WORKER_SERVICE "RegisterGraph", &body);
}

/* The graph of a scope; its handle is in the reply. */
static mr_status *register_scope(alone *b, const char *session, mr_scope *s)
{
    mr_str graph = {0};
    MR_CHECK_OK(mr_scope_status(s));
    for (int i = 0; i < s->graph->nodes.n; i++)
        s->graph->nodes.p[i]->device = device;
    MR_CHECK_OK(mr_graph_export(s->graph, &graph));
    mr_status *st = register_def(b, session, mr_str_view(&graph));
    mr_str_deinit(&graph);
    return st;
}

/* A graph of one NoOp. */
static mr_status *register_graph(alone *b, const char *session)
{
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_scope_init(&s, g, "");
    mr_emit0(&s, "NoOp");
    mr_status *st = register_scope(b, session, &s);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
    return st;
}

/* The first graph of a task has this handle. */
static mr_status *run_graph(alone *b, const char *session, uint64_t step)
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
    alone b;
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
    alone b;
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
    alone b;
    begin(&b);
    MR_CHECK_OK(delete(&b, "a")); /* overtook it */
    MR_CHECK_ERR(create(&b, "a", "m", 1), MR_ABORTED, "was deleted");
    end(&b);
}

MR_TEST(server_drops_sessions_of_a_masters_earlier_incarnation)
{
    alone b;
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
    alone b;
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

static mr_status *deregister(alone *b, const char *session, const char *graph)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(graph));
    mr_pb_put_bytes(&w, 2, mr_sv_of(session));
    mr_pb_put_varint(&w, 3, 1);
    return call(b, MR_WORKER_SERVICE "DeregisterGraph", &body);
}

MR_TEST(server_deregisters_a_graph_only_for_its_session)
{
    alone b;
    begin(&b);
    MR_CHECK_OK(create(&b, "a", "m", 1));
    MR_CHECK_OK(create(&b, "b", "m", 1));
    MR_CHECK_OK(register_graph(&b, "a"));
    MR_CHECK_ERR(deregister(&b, "b", "0000000000000000"), MR_ABORTED, "Graph handle is not found");
    MR_CHECK_OK(run_graph(&b, "a", 7));
    MR_CHECK_OK(deregister(&b, "a", "0000000000000000"));
    MR_CHECK_ERR(deregister(&b, "a", "0000000000000000"), MR_ABORTED, "Graph handle is not found");
    MR_CHECK_ERR(run_graph(&b, "a", 8), MR_ABORTED, "Graph handle is not found");
    end(&b);
}

/* ---- calls under way ---- */

typedef struct later {
    alone *b;
    uint64_t step;
    mr_status *st;
    mr_thread thread;
} later;

static void run_it(void *arg)
{
    later *l = arg;
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, MR_SV("0000000000000000"));
    mr_pb_put_varint(&w, 2, l->step);
    mr_pb_put_bytes(&w, 8, MR_SV("a"));
    mr_pb_put_varint(&w, 10, 1);
    l->st = cluster_fixture_call(mr_net_loop(), "alone:1", MR_WORKER_SERVICE "RunGraph", &body, NULL);
}

static void start(later *l, alone *b, uint64_t step)
{
    *l = (later){.b = b, .step = step};
    MR_CHECK_INT(mr_thread_start(&l->thread, "later", run_it, l), 0);
}

/* A graph that waits for a value nobody sends. */
static void register_waiting(alone *b)
{
    const int types[] = {MR_FLOAT};
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_scope_init(&s, g, "");
    mr_out q = mr_emit0_with(&s, "FIFOQueueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}, {"shared_name", mr_a_str("q")}));
    mr_emit_with(&s, "QueueDequeueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}), q);
    MR_CHECK_OK(register_scope(b, "a", &s));
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

MR_TEST(server_runs_a_graph_to_its_end_that_is_deregistered)
{
    alone b;
    later l;
    begin(&b);
    MR_CHECK_OK(create(&b, "a", "m", 1));
    register_waiting(&b);
    start(&l, &b, 7);
    mr_sleep_ns(50000000); /* it may have begun, or not: both must end */
    MR_CHECK_OK(deregister(&b, "a", "0000000000000000"));
    MR_CHECK_OK(delete(&b, "a")); /* which ends the step, and so the graph */
    mr_thread_join(&l.thread);
    mr_code code = mr_status_code(l.st); /* ABORTED: the step came behind */
    MR_CHECK(code == MR_CANCELLED || code == MR_ABORTED);
    mr_status_free(l.st);
    end(&b);
}

/* ---- buffers ---- */

/* A graph that sends 3 floats under a name, as a collective would its buffers. */
static void register_sending(alone *b, uint64_t incarnation)
{
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_scope_init(&s, g, "");
    mr_tensor *t = NULL;
    MR_CHECK_OK(mr_tensor_new(mr_cpu_allocator(), MR_FLOAT, 1, (int64_t[]){3}, &t));
    for (int i = 0; i < 3; i++)
        MR_DATA(float, t)[i] = (float)i;
    mr_out v = mr_const(&s, t);
    mr_node_builder *nb = mr_node_begin(g, "_Send", "send");
    mr_node *send;
    mr_nb_internal(nb);
    mr_nb_input(nb, v);
    mr_nb_attr(nb, "tensor_name", mr_a_str("ring:0:1"));
    mr_nb_attr(nb, "send_device", mr_a_str(device));
    mr_nb_attr(nb, "send_device_incarnation", mr_a_int((int64_t)incarnation));
    mr_nb_attr(nb, "recv_device", mr_a_str(device));
    MR_CHECK_OK(mr_node_finish(nb, &send));
    MR_CHECK_OK(register_scope(b, "a", &s));
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

static mr_status *recv_buf(alone *b, uint64_t step, uint64_t incarnation, int64_t bytes)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_varint(&w, 1, step);
    mr_pb_put_bytes(&w, 2, MR_SV("ring:0:1"));
    mr_pb_put_varint(&w, 3, (uint64_t)bytes);
    mr_pb_put_bytes(&w, 8, mr_sv_of(device));
    mr_pb_put_bytes(&w, 9, mr_sv_of(device));
    mr_pb_put_varint(&w, 11, incarnation);
    return call(b, MR_WORKER_SERVICE "RecvBuf", &body);
}

static uint64_t incarnation_of(alone *b)
{
    mr_str body = {0};
    mr_device *d;
    MR_CHECK_OK(call(b, MR_WORKER_SERVICE "GetStatus", &body));
    MR_CHECK_OK(mr_device_attributes_decode(mr_wire_field(mr_str_view(&b->reply), 1), &d));
    uint64_t incarnation = d->incarnation;
    mr_device_free(d);
    return incarnation;
}

MR_TEST(server_gives_buffers_by_their_key)
{
    alone b;
    begin(&b);
    uint64_t incarnation = incarnation_of(&b);
    MR_CHECK_OK(create(&b, "a", "m", 1));
    register_sending(&b, incarnation);
    MR_CHECK_ERR(recv_buf(&b, 7, incarnation + 1, 12), MR_ABORTED, "incarnation");
    MR_CHECK_OK(run_graph(&b, "a", 7));
    MR_CHECK_OK(recv_buf(&b, 7, incarnation, 12));
    mr_sv any = mr_wire_field(mr_str_view(&b.reply), 4);
    MR_CHECK(mr_sv_is(mr_wire_field(any, 1), "type.googleapis.com/tensorflow.RecvBufRespExtra"));
    mr_sv content = mr_wire_field(mr_wire_field(any, 2), 1);
    MR_CHECK_INT((int)content.n, 12);
    float last;
    memcpy(&last, content.p + 8, sizeof last);
    MR_CHECK_NEAR(last, 2, 0);
    MR_CHECK_OK(run_graph(&b, "a", 8));
    MR_CHECK_ERR(recv_buf(&b, 8, incarnation, 16), MR_INVALID_ARGUMENT, "has 12 bytes, but 16 were requested");
    end(&b);
}

/* ---- what is not there ---- */

MR_TEST(server_has_no_tracing_of_its_own)
{
    alone b;
    mr_str body = {0};
    begin(&b);
    MR_CHECK_ERR(call(&b, MR_WORKER_SERVICE "Tracing", &body), MR_UNIMPLEMENTED, "trace_level");
    MR_CHECK_ERR(call(&b, MR_WORKER_SERVICE "Nonsense", &body), MR_UNIMPLEMENTED, "Nonsense");
    MR_CHECK_ERR(call(&b, "/nobody.Service/Nonsense", &body), MR_UNIMPLEMENTED, "Nonsense");
    end(&b);
}
