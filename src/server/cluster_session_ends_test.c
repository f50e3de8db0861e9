/* server/cluster_session_ends_test.c -- sessions that end under their steps, and those that come too late. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "graph/graph_def.h"
#include "server/cluster_fixture.h"
#include "server/host.h"
#include "server/wire.h"

typedef struct later { /* a run in a thread of its own */
    cluster_fixture *b;
    mr_out fetch;
    mr_status *st;
    mr_thread thread;
} later;

static void run_it(void *arg)
{
    later *l = arg;
    float v;
    l->st = cluster_fixture_run(l->b, cluster_fixture_nothing, 0, l->fetch, NULL, &v);
}

static void start(later *l, cluster_fixture *b, mr_out fetch)
{
    *l = (later){.b = b, .fetch = fetch};
    cluster_fixture_session_of(b);
    MR_CHECK_INT(mr_thread_start(&l->thread, "later", run_it, l), 0);
}

/* A value that never comes. */
static mr_out wait_on(cluster_fixture *b, const char *device)
{
    const int types[] = {MR_FLOAT};
    b->s.device = device;
    mr_out q = mr_emit0_with(&b->s, "FIFOQueueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}, {"shared_name", mr_a_str("q")}));
    mr_out v = mr_emit_with(&b->s, "QueueDequeueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}), q);
    b->s.device = "";
    return v;
}

/* A loop without end. */
static mr_out spin_on(cluster_fixture *b, const char *device)
{
    const mr_named_attr frame[] = {{"frame_name", mr_a_str("w")}};
    mr_node *merge;
    b->s.device = device;
    mr_out enter = mr_emit_n(&b->s, "Enter", frame, 1, (mr_out[]){mr_const_f32(&b->s, 0)}, 1);
    mr_node_builder *nb = mr_node_begin(b->g, "Merge", "merge");
    mr_nb_device(nb, device);
    mr_nb_input_list(nb, &enter, 1);
    mr_nb_input_later(nb, MR_FLOAT);
    MR_CHECK_OK(mr_node_finish(nb, &merge));
    mr_out cond = mr_emit(&b->s, "LoopCond", mr_emit(&b->s, "Equal", (mr_out){merge, 0}, (mr_out){merge, 0}));
    mr_out sw = mr_emit(&b->s, "Switch", (mr_out){merge, 0}, cond);
    mr_out next = mr_emit(&b->s, "NextIteration", mr_nth(sw, 1));
    MR_CHECK_OK(mr_scope_status(&b->s));
    MR_CHECK_OK(mr_node_set_input(merge, 1, next));
    mr_out y = mr_emit(&b->s, "Exit", sw);
    b->s.device = "";
    return y;
}

static void closes_under_a_step(mr_net *net, mr_out (*value)(cluster_fixture *b, const char *device),
                                const char *device)
{
    cluster_fixture b;
    later l;
    cluster_fixture_begin_on(&b, net, 1, 1);
    start(&l, &b, value(&b, device));
    mr_sleep_ns(50000000); /* the step may have begun, or not: both must end */
    MR_CHECK_OK(mr_session_close(b.session));
    mr_thread_join(&l.thread);
    bool begun = l.st && strstr(mr_status_message(l.st), "Step");
    MR_CHECK_ERR(l.st, MR_CANCELLED,
                 begun ? "Step was cancelled by an explicit call to `Session::Close()`." : "Session has been closed.");
    cluster_fixture_end(&b);
}

MR_TEST(server_closes_a_session_whose_step_waits) { closes_under_a_step(mr_net_loop(), wait_on, "/job:ps/task:0"); }
MR_TEST(server_closes_a_session_whose_step_waits_of_one_host) { closes_under_a_step(mr_net_local(), wait_on, "/job:ps/task:0"); }
MR_TEST(server_closes_a_session_whose_step_waits_here) { closes_under_a_step(mr_net_local(), wait_on, "/job:worker/task:0"); }
/* The threads that compute are busy with the very step that is to end. */
MR_TEST(server_closes_a_session_whose_step_spins) { closes_under_a_step(mr_net_local(), spin_on, "/job:worker/task:0"); }
MR_TEST(server_closes_a_session_whose_step_spins_elsewhere) { closes_under_a_step(mr_net_local(), spin_on, "/job:ps/task:0"); }

/* And a task that is stopped ends the steps of others. */
static void stops_under_a_step(mr_net *net, const char *device)
{
    cluster_fixture b;
    later l;
    cluster_fixture_begin_on(&b, net, 1, 1);
    start(&l, &b, wait_on(&b, device));
    mr_sleep_ns(50000000);
    cluster_fixture_stop_task(&b, 0);
    mr_thread_join(&l.thread);
    MR_CHECK_ERR(l.st, MR_UNAVAILABLE, "/job:ps/replica:0/task:0");
    cluster_fixture_end(&b);
}

MR_TEST(server_fails_the_step_of_a_task_that_stops) { stops_under_a_step(mr_net_loop(), "/job:ps/task:0"); }
MR_TEST(server_fails_the_step_of_a_task_that_stops_of_one_host) { stops_under_a_step(mr_net_local(), "/job:ps/task:0"); }

MR_TEST(server_refuses_steps_of_a_closed_session)
{
    cluster_fixture b;
    float v;
    cluster_fixture_begin(&b, 0, 1);
    mr_out one = mr_const_f32(&b.s, 1);
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, one, NULL, &v));
    MR_CHECK_OK(mr_session_close(b.session));
    MR_CHECK_ERR(cluster_fixture_run(&b, cluster_fixture_nothing, 0, one, NULL, &v), MR_CANCELLED, "closed");
    cluster_fixture_end(&b);
}

/* ---- Reset ---- */

/* A variable of a container, set to 5. */
static void set_variable(cluster_fixture *b, const char *container, mr_out *read)
{
    float v;
    b->s.device = "/job:ps/task:0";
    mr_out var = mr_emit0_with(&b->s, "VariableV2",
                               MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(&mr_pshape_scalar)},
                                        {"container", mr_a_str(container)}));
    mr_out set = mr_emit(&b->s, "Assign", var, mr_const_f32(&b->s, 5));
    *read = mr_emit(&b->s, "Neg", var);
    MR_CHECK_OK(cluster_fixture_run(b, cluster_fixture_nothing, 0, cluster_fixture_nothing, set.node, &v));
}

static void resets(const char *container, const char *given)
{
    cluster_fixture b;
    float v;
    mr_out read;
    cluster_fixture_begin_on(&b, mr_net_local(), 1, 1);
    set_variable(&b, container, &read);
    MR_CHECK_OK(mr_remote_reset(b.net, "worker0:1", &given, given != NULL, 0));
    MR_CHECK_ERR(cluster_fixture_run(&b, cluster_fixture_nothing, 0, read, NULL, &v), MR_ABORTED,
                 "not found"); /* it was closed */
    cluster_fixture_end_session(&b);
    MR_CHECK_ERR(cluster_fixture_run(&b, cluster_fixture_nothing, 0, read, NULL, &v), MR_FAILED_PRECONDITION,
                 "uninitialized");
    cluster_fixture_end(&b);
}

MR_TEST(server_resets_the_default_container) { resets("", NULL); }
MR_TEST(server_resets_a_container) { resets("mine", "mine"); }

MR_TEST(server_resets_no_other_container)
{
    cluster_fixture b;
    float v;
    mr_out read;
    const char *other = "other";
    cluster_fixture_begin(&b, 1, 1);
    set_variable(&b, "mine", &read);
    MR_CHECK_OK(mr_remote_reset(b.net, "worker0:1", &other, 1, 0));
    cluster_fixture_end_session(&b);
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, read, NULL, &v));
    MR_CHECK_NEAR(v, -5, 0);
    cluster_fixture_end(&b);
}

MR_TEST(server_resets_only_tasks_that_pass_the_filters)
{
    cluster_fixture b;
    float v;
    mr_out read;
    mr_str body = {0};
    mr_pb_writer w;
    cluster_fixture_begin(&b, 1, 1);
    set_variable(&b, "", &read);
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 2, MR_SV("/job:worker"));
    MR_CHECK_OK(cluster_fixture_call(b.net, "worker0:1", MR_MASTER_SERVICE "Reset", &body, NULL));
    cluster_fixture_end_session(&b);
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, read, NULL, &v));
    cluster_fixture_end(&b);
}

MR_TEST(server_names_the_task_that_cannot_be_reset)
{
    cluster_fixture b;
    cluster_fixture_begin(&b, 1, 1);
    cluster_fixture_stop_task(&b, 0);
    MR_CHECK_ERR(mr_remote_reset(b.net, "worker0:1", NULL, 0, 0), MR_UNAVAILABLE, "/job:ps/replica:0/task:0");
    cluster_fixture_end(&b);
}

/* ---- sessions nobody uses ---- */

MR_TEST(server_closes_idle_sessions_when_told_to)
{
    cluster_fixture b;
    float v;
    cluster_fixture_begin_with(&b, &(mr_server_options){.net = mr_net_loop(), .session_gc_ms = 400}, 1, 1);
    mr_out one = mr_const_f32(&b.s, 1);
    for (int i = 0; i < 6; i++) { /* one that is used stays */
        MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, one, NULL, &v));
        mr_sleep_ns(100000000);
    }
    mr_sleep_ns(1200000000);
    MR_CHECK_ERR(cluster_fixture_run(&b, cluster_fixture_nothing, 0, one, NULL, &v), MR_ABORTED, "not found");
    cluster_fixture_end(&b);
}

/* ---- wrong clusters ---- */

static mr_status *new_server(const mr_cluster *c, const char *job, int task)
{
    mr_server *s = NULL;
    mr_server_def def = {.cluster = *c, .job = (char *)(uintptr_t)job, .task = task};
    mr_status *st = mr_server_new(&def, &(mr_server_options){.net = mr_net_loop()}, &s);
    mr_server_free(s);
    return st;
}

MR_TEST(server_refuses_a_cluster_that_is_wrong)
{
    mr_cluster c = {0};
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("ps"), 0, MR_SV("a:1")));
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("worker"), 0, MR_SV("b:1")));
    MR_CHECK_OK(new_server(&c, "worker", 0));
    MR_CHECK_ERR(new_server(&c, "worker", 1), MR_INVALID_ARGUMENT, "Task 1 of job \"worker\" is not in the cluster");
    MR_CHECK_ERR(new_server(&c, "worker", -1), MR_INVALID_ARGUMENT, "is not in the cluster");
    MR_CHECK_ERR(new_server(&c, "chief", 0), MR_INVALID_ARGUMENT, "is not in the cluster");
    MR_CHECK_ERR(mr_cluster_add(&c, MR_SV("ps"), 0, MR_SV("c:1")), MR_INVALID_ARGUMENT, "twice");
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("ps"), 1, MR_SV("b:1")));
    MR_CHECK_ERR(new_server(&c, "worker", 0), MR_INVALID_ARGUMENT,
                 "/job:ps/replica:0/task:1 and /job:worker/replica:0/task:0 have the same address, b:1");
    mr_cluster_deinit(&c);
}

/* The master's spec has ps/1 where ps/0 listens, of another cluster for all it knows. */
MR_TEST(server_tells_a_task_of_another_cluster)
{
    cluster_fixture b;
    mr_session *s;
    mr_server *odd;
    mr_server_def def = {.job = "odd", .task = 0};
    cluster_fixture_begin(&b, 1, 1);
    MR_CHECK_OK(mr_cluster_add(&def.cluster, MR_SV("odd"), 0, MR_SV("odd:1")));
    MR_CHECK_OK(mr_cluster_add(&def.cluster, MR_SV("ps"), 1, MR_SV("ps0:1")));
    MR_CHECK_OK(mr_server_new(&def, &b.options, &odd));
    MR_CHECK_OK(mr_server_start(odd));
    MR_CHECK_ERR(mr_remote_session_new(b.net, "odd:1", b.g, NULL, MR_SV(""), NULL, &s), MR_INVALID_ARGUMENT,
                 "The task at ps0:1 has the device /job:ps/replica:0/task:0/device:CPU:0, but it should be "
                 "/job:ps/replica:0/task:1");
    mr_server_free(odd);
    mr_cluster_deinit(&def.cluster);
    cluster_fixture_end(&b);
}

/* ---- requests that are wrong ---- */

typedef struct raw { /* a session made by hand, of a graph with y = Neg(x) on ps */
    cluster_fixture b;
    mr_str session, reply;
} raw;

static void begin_raw(raw *k)
{
    mr_str body = {0}, graph = {0};
    mr_pb_writer w;
    *k = (raw){0};
    cluster_fixture_begin(&k->b, 1, 1);
    mr_out x = mr_placeholder(&k->b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    k->b.s.device = "/job:ps/task:0";
    mr_emit(mr_as(&k->b.s, "y"), "Neg", x);
    MR_CHECK_OK(mr_scope_status(&k->b.s));
    MR_CHECK_OK(mr_graph_export(k->b.g, &graph));
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_str_view(&graph));
    MR_CHECK_OK(cluster_fixture_call(k->b.net, "worker0:1", MR_MASTER_SERVICE "CreateSession", &body, &k->reply));
    mr_sv handle = mr_wire_field(mr_str_view(&k->reply), 1);
    mr_str_append(&k->session, handle.p, handle.n);
    mr_str_deinit(&graph);
}

static void end_raw(raw *k)
{
    mr_str_deinit(&k->session);
    mr_str_deinit(&k->reply);
    cluster_fixture_end(&k->b);
}

static mr_status *run_raw(raw *k, const char *feed, mr_tensor *value, int times, const char *fetch, const char *target)
{
    mr_str body = {0}, proto = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_str_view(&k->session));
    MR_CHECK_OK(mr_tensor_encode(value, &proto));
    for (int i = 0; i < times; i++) {
        size_t mark = mr_pb_begin(&w, 2);
        mr_pb_put_bytes(&w, 1, mr_sv_of(feed));
        mr_pb_put_bytes(&w, 2, mr_str_view(&proto));
        mr_pb_end(&w, mark);
    }
    if (fetch)
        mr_pb_put_bytes(&w, 3, mr_sv_of(fetch));
    if (target)
        mr_pb_put_bytes(&w, 4, mr_sv_of(target));
    mr_str_deinit(&proto);
    return cluster_fixture_call(k->b.net, "worker0:1", MR_MASTER_SERVICE "RunStep", &body, &k->reply);
}

MR_TEST(server_tells_what_is_wrong_with_a_step)
{
    raw k;
    mr_tensor *f = mr_tensor_scalar_f32(1), *i = mr_tensor_scalar_i32(1);
    begin_raw(&k);
    MR_CHECK_ERR(run_raw(&k, "x:0", f, 1, "z:0", NULL), MR_NOT_FOUND, "z:0");
    MR_CHECK_ERR(run_raw(&k, "w:0", f, 1, "y:0", NULL), MR_NOT_FOUND, "w:0");
    MR_CHECK_ERR(run_raw(&k, "x:0", f, 1, "y:0", "gone"), MR_NOT_FOUND, "gone");
    MR_CHECK_ERR(run_raw(&k, "x:0", f, 1, "y:7", NULL), MR_INVALID_ARGUMENT, "y");
    MR_CHECK_ERR(run_raw(&k, "x:0", f, 2, "y:0", NULL), MR_INVALID_ARGUMENT, "x:0");
    MR_CHECK_ERR(run_raw(&k, "x:0", f, 0, "y:0", NULL), MR_INVALID_ARGUMENT, "x"); /* a placeholder must be fed */
    MR_CHECK_ERR(run_raw(&k, "x:0", i, 1, "y:0", NULL), MR_INTERNAL, "does not match declared output type float");
    MR_CHECK_OK(run_raw(&k, "x:0", f, 1, "y:0", NULL));
    MR_CHECK_OK(run_raw(&k, "x", f, 1, "y", "y"));
    mr_tensor_unref(f);
    mr_tensor_unref(i);
    end_raw(&k);
}

static mr_status *extend(raw *k, int64_t version, const char *name)
{
    mr_str body = {0}, graph = {0};
    mr_pb_writer w;
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_scope_init(&s, g, "");
    mr_emit0(mr_as(&s, name), "NoOp");
    MR_CHECK_OK(mr_scope_status(&s));
    MR_CHECK_OK(mr_graph_export(g, &graph));
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_str_view(&k->session));
    mr_pb_put_bytes(&w, 2, mr_str_view(&graph));
    mr_pb_opt_varint(&w, 3, (uint64_t)version);
    mr_str_deinit(&graph);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
    return cluster_fixture_call(k->b.net, "worker0:1", MR_MASTER_SERVICE "ExtendSession", &body, &k->reply);
}

MR_TEST(server_extends_only_the_newest_graph)
{
    raw k;
    begin_raw(&k);
    MR_CHECK_ERR(extend(&k, 1, "n1"), MR_ABORTED, "version 0, but the request extends version 1");
    MR_CHECK_OK(extend(&k, 0, "n1"));
    MR_CHECK_ERR(extend(&k, 0, "n2"), MR_ABORTED, "version 1, but the request extends version 0");
    MR_CHECK_ERR(extend(&k, 1, "y"), MR_INVALID_ARGUMENT, "y"); /* is there */
    MR_CHECK_OK(extend(&k, 1, "n2"));
    end_raw(&k);
}
