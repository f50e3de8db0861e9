/* server/server_test.c -- whole clusters in one process, over calls that stay inside it and over those between
 * processes of one host. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "exec/device_sim.h"
#include "server/cluster_fixture.h"
#include "server/host.h"
#include "server/wire.h"

MR_TEST(server_runs_a_step_on_its_own)
{
    cluster_fixture b;
    cluster_fixture_begin(&b, 0, 1);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    mr_out y = mr_emit(&b.s, "Square", x);
    float v = 0;
    for (int i = 0; i < 5; i++) {
        MR_CHECK_OK(cluster_fixture_run(&b, x, (float)i, y, NULL, &v));
        MR_CHECK_NEAR(v, i * i, 0);
    }
    cluster_fixture_end(&b);
}

static void spans_tasks(mr_net *net)
{
    cluster_fixture b;
    cluster_fixture_begin_on(&b, net, 2, 1);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    b.s.device = "/job:ps/task:0";
    mr_out y = mr_emit(&b.s, "Square", x);
    b.s.device = "/job:ps/task:1";
    mr_out z = mr_emit(&b.s, "AddV2", y, x);
    b.s.device = "/job:worker/task:0";
    mr_out w = mr_emit(&b.s, "Mul", z, y);
    float v = 0;
    for (int i = 0; i < 20; i++) {
        MR_CHECK_OK(cluster_fixture_run(&b, x, (float)i, w, NULL, &v));
        MR_CHECK_NEAR(v, (i * i + i) * i * i, 0);
    }
    cluster_fixture_end(&b);
}

MR_TEST(server_spans_tasks) { spans_tasks(mr_net_loop()); }
MR_TEST(server_spans_tasks_of_one_host) { spans_tasks(mr_net_local()); }

/* A variable lives on its task, whatever session uses it. */
MR_TEST(server_keeps_variables_between_sessions)
{
    cluster_fixture b;
    float v = 0;
    cluster_fixture_begin(&b, 1, 1);
    b.s.device = "/job:ps/task:0";
    mr_out var = mr_emit0_with(mr_as(&b.s, "v"), "VariableV2",
                               MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(&mr_pshape_scalar)}));
    mr_out set = mr_emit(&b.s, "Assign", var, mr_const_f32(&b.s, 10));
    mr_out add = mr_emit(&b.s, "AssignAdd", var, mr_const_f32(&b.s, 1));
    b.s.device = "/job:worker/task:0";
    mr_out read = mr_emit(&b.s, "Neg", var);
    MR_CHECK_ERR(cluster_fixture_run(&b, cluster_fixture_nothing, 0, read, NULL, &v), MR_FAILED_PRECONDITION,
                 "uninitialized value v");
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, cluster_fixture_nothing, set.node, &v));
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, cluster_fixture_nothing, add.node, &v));
    mr_session_free(b.session);
    b.session = NULL;
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, read, NULL, &v));
    MR_CHECK_NEAR(v, -11, 0);
    cluster_fixture_end(&b);
}

static void loops_over_tasks(mr_net *net)
{
    cluster_fixture b;
    cluster_fixture_begin_on(&b, net, 1, 2);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    const mr_named_attr frame[] = {{"frame_name", mr_a_str("w")}};
    const mr_named_attr constant[] = {{"frame_name", mr_a_str("w")}, {"is_constant", mr_a_bool(true)}};
    mr_out enter = mr_emit_n(&b.s, "Enter", frame, 1, (mr_out[]){mr_const_f32(&b.s, 0)}, 1);
    mr_out limit = mr_emit_n(&b.s, "Enter", constant, 2, &x, 1);
    mr_out one = mr_emit_n(&b.s, "Enter", constant, 2, (mr_out[]){mr_const_f32(&b.s, 1)}, 1);
    mr_node_builder *nb = mr_node_begin(b.g, "Merge", "merge");
    mr_node *merge;
    mr_nb_input_list(nb, &enter, 1);
    mr_nb_input_later(nb, MR_FLOAT);
    MR_CHECK_OK(mr_node_finish(nb, &merge));
    mr_out cond = mr_emit(&b.s, "LoopCond", mr_emit(&b.s, "Less", (mr_out){merge, 0}, limit));
    mr_out sw = mr_emit(&b.s, "Switch", (mr_out){merge, 0}, cond);
    b.s.device = "/job:ps/task:0"; /* the addition is elsewhere */
    mr_out next = mr_emit(&b.s, "AddV2", mr_nth(sw, 1), one);
    b.s.device = "/job:worker/task:1";
    mr_out twice = mr_emit(&b.s, "NextIteration", next);
    b.s.device = "";
    MR_CHECK_OK(mr_scope_status(&b.s));
    MR_CHECK_OK(mr_node_set_input(merge, 1, twice));
    mr_out y = mr_emit(&b.s, "Exit", sw);
    float v = 0;
    for (int i = 0; i < 10; i++) {
        MR_CHECK_OK(cluster_fixture_run(&b, x, (float)i, y, NULL, &v));
        MR_CHECK_NEAR(v, i, 0);
    }
    cluster_fixture_end(&b);
}

MR_TEST(server_loops_over_tasks) { loops_over_tasks(mr_net_loop()); }
MR_TEST(server_loops_over_tasks_of_one_host) { loops_over_tasks(mr_net_local()); }

/* The error of the op that failed reaches the client, with its task. */
static void tells_where_a_step_failed(mr_net *net)
{
    cluster_fixture b;
    float v;
    cluster_fixture_begin_on(&b, net, 1, 1);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    b.s.device = "/job:ps/task:0";
    mr_out log = mr_emit(&b.s, "Log", x);
    mr_out bad = mr_emit_with(mr_as(&b.s, "checked"), "CheckNumerics", MR_ATTRS({"message", mr_a_str("not a number")}), log);
    b.s.device = "/job:worker/task:0";
    mr_out y = mr_emit(&b.s, "Neg", bad);
    MR_CHECK_OK(cluster_fixture_run(&b, x, 1, y, NULL, &v));
    mr_status *st = cluster_fixture_run(&b, x, -1, y, NULL, &v);
    MR_CHECK_INT(mr_status_code(st), MR_INVALID_ARGUMENT);
    MR_CHECK(strstr(mr_status_message(st), "/job:ps/replica:0/task:0") && strstr(mr_status_message(st), "{{node checked}}"));
    mr_status_free(st);
    MR_CHECK_OK(cluster_fixture_run(&b, x, 1, y, NULL, &v)); /* and the next step is not harmed */
    cluster_fixture_end(&b);
}

MR_TEST(server_tells_where_a_step_failed) { tells_where_a_step_failed(mr_net_loop()); }
MR_TEST(server_tells_where_a_step_failed_of_one_host) { tells_where_a_step_failed(mr_net_local()); }

MR_TEST(server_extends_the_graph)
{
    cluster_fixture b;
    float v;
    cluster_fixture_begin(&b, 1, 1);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    mr_out y = x;
    for (int i = 1; i < 4; i++) {
        y = mr_emit(&b.s, "AddV2", y, mr_const_f32(&b.s, 1));
        MR_CHECK_OK(cluster_fixture_run(&b, x, 5, y, NULL, &v));
        MR_CHECK_NEAR(v, 5 + i, 0);
    }
    cluster_fixture_end(&b);
}

MR_TEST(server_lists_the_devices_of_all_tasks)
{
    cluster_fixture b;
    mr_device_info *d;
    int n;
    cluster_fixture_begin(&b, 1, 2);
    mr_session *s = cluster_fixture_session_of(&b);
    MR_CHECK_OK(s->ops->list_devices(s, &d, &n));
    MR_CHECK_INT(n, 3);
    MR_CHECK_STR(d[0].name, "/job:worker/replica:0/task:1/device:CPU:0"); /* the client's */
    mr_device_infos_free(d, n);
    cluster_fixture_end(&b);
}

/* Without a session: those of the task, and of all others. */
MR_TEST(server_lists_the_devices_of_the_cluster)
{
    cluster_fixture b;
    mr_str body = {0}, reply = {0};
    mr_pb_reader r;
    uint32_t field, wire;
    int n_own = 0, n_others = 0;
    cluster_fixture_begin(&b, 1, 2);
    MR_CHECK_OK(cluster_fixture_call(b.net, "worker0:1", MR_MASTER_SERVICE "ListDevices", &body, &reply));
    mr_pb_reader_init(&r, mr_str_view(&reply));
    while (mr_pb_next(&r, &field, &wire)) {
        mr_sv name = mr_wire_field(mr_pb_bytes(&r), 1);
        MR_CHECK(mr_sv_is(name, "/job:worker/replica:0/task:0/device:CPU:0") == (field == 1));
        n_own += field == 1;
        n_others += field == 2;
    }
    MR_CHECK_INT(n_own, 1);
    MR_CHECK_INT(n_others, 2);
    mr_str_deinit(&reply);
    cluster_fixture_stop_task(&b, 0);
    MR_CHECK_ERR(cluster_fixture_call(b.net, "worker0:1", MR_MASTER_SERVICE "ListDevices", &body, NULL), MR_UNAVAILABLE,
                 "/job:ps/replica:0/task:0");
    cluster_fixture_end(&b);
}

/* A task that is gone: the step says so, and does not wait. */
static void fails_steps_of_a_lost_task(mr_net *net)
{
    cluster_fixture b;
    float v;
    cluster_fixture_begin_on(&b, net, 1, 1);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    b.s.device = "/job:ps/task:0";
    mr_out y = mr_emit(&b.s, "Square", x);
    MR_CHECK_OK(cluster_fixture_run(&b, x, 2, y, NULL, &v));
    mr_server_free(b.servers[0]);
    b.servers[0] = NULL;
    MR_CHECK_ERR(cluster_fixture_run(&b, x, 2, y, NULL, &v), MR_UNAVAILABLE, "/job:ps/replica:0/task:0");
    cluster_fixture_start_task(&b, 0); /* it is back, and knows nothing */
    MR_CHECK_ERR(cluster_fixture_run(&b, x, 2, y, NULL, &v), MR_ABORTED, "restarted");
    mr_session_free(b.session);
    b.session = NULL;
    MR_CHECK_OK(cluster_fixture_run(&b, x, 2, y, NULL, &v));
    cluster_fixture_end(&b);
}

MR_TEST(server_fails_steps_of_a_lost_task) { fails_steps_of_a_lost_task(mr_net_loop()); }
MR_TEST(server_fails_steps_of_a_lost_task_of_one_host) { fails_steps_of_a_lost_task(mr_net_local()); }

/* ---- what a ConfigProto asks for ---- */

/* Variables of an isolated session are its own. */
MR_TEST(server_isolates_the_state_of_a_session)
{
    cluster_fixture b;
    float v = 0;
    mr_pb_writer w;
    cluster_fixture_begin(&b, 1, 1);
    mr_pb_writer_init(&w, &b.config);
    mr_pb_put_varint(&w, 15, 1); /* isolate_session_state */
    b.s.device = "/job:ps/task:0";
    mr_out var = mr_emit0_with(mr_as(&b.s, "v"), "VariableV2",
                               MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(&mr_pshape_scalar)}));
    mr_out set = mr_emit(&b.s, "Assign", var, mr_const_f32(&b.s, 10));
    b.s.device = "/job:worker/task:0";
    mr_out read = mr_emit(&b.s, "Neg", var);
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, cluster_fixture_nothing, set.node, &v));
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, read, NULL, &v));
    MR_CHECK_NEAR(v, -10, 0);
    mr_session *first = b.session;
    b.session = NULL;
    MR_CHECK_ERR(cluster_fixture_run(&b, cluster_fixture_nothing, 0, read, NULL, &v), MR_FAILED_PRECONDITION,
                 "uninitialized value v");
    mr_session_free(first);
    cluster_fixture_end(&b);
}

/* A task that no filter lets through is not seen, and not waited for.  A node on it fails every step, as in
 * TensorFlow. */
MR_TEST(server_filters_devices)
{
    cluster_fixture b;
    float v = 0;
    mr_device_info *d;
    int n;
    mr_pb_writer w;
    cluster_fixture_begin(&b, 2, 1);
    cluster_fixture_stop_task(&b, 1);
    mr_pb_writer_init(&w, &b.config);
    mr_pb_put_bytes(&w, 4, MR_SV("/job:ps/task:0"));
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    b.s.device = "/job:ps/task:0";
    mr_out y = mr_emit(&b.s, "Neg", x);
    MR_CHECK_OK(cluster_fixture_run(&b, x, 3, y, NULL, &v));
    MR_CHECK_NEAR(v, -3, 0);
    b.s.device = "/job:ps/task:1";
    mr_out z = mr_emit(mr_as(&b.s, "z"), "Neg", x);
    MR_CHECK_ERR(cluster_fixture_run(&b, x, 3, z, NULL, &v), MR_INVALID_ARGUMENT, "z");
    MR_CHECK_ERR(cluster_fixture_run(&b, x, 3, mr_emit(mr_as(&b.s, "w"), "Neg", y), NULL, &v), MR_INVALID_ARGUMENT,
                 "z");
    MR_CHECK_OK(b.session->ops->list_devices(b.session, &d, &n));
    MR_CHECK_INT(n, 2);
    mr_device_infos_free(d, n);
    cluster_fixture_end(&b);
}

MR_TEST(server_logs_placements)
{
    cluster_fixture b;
    float v = 0;
    mr_pb_writer w;
    mr_str text = {0};
    cluster_fixture_begin(&b, 1, 1);
    mr_pb_writer_init(&w, &b.config);
    mr_pb_put_varint(&w, 8, 1); /* log_device_placement */
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    b.s.device = "/job:ps/task:0";
    mr_out y = mr_emit(mr_as(&b.s, "minus"), "Neg", x);
    char *path = mr_printf("%s/log", mr_test_dir());
    int saved = dup(2);
    MR_CHECK(freopen(path, "w", stderr));
    mr_status *st = cluster_fixture_run(&b, x, 3, y, NULL, &v);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    MR_CHECK_OK(st);
    MR_CHECK_OK(mr_file_read_all(path, &text));
    MR_CHECK(strstr(mr_str_z(&text), "minus: (Neg): /job:ps/replica:0/task:0/device:CPU:0\n"));
    mr_str_deinit(&text);
    mr_free(path);
    cluster_fixture_end(&b);
}

/* Nodes go to devices of any type that a task reports, which are seen by all. */
MR_TEST(server_places_on_simulated_devices_of_other_tasks)
{
    cluster_fixture b;
    float v = 0;
    mr_device_info *d;
    int n;
    mr_device_sims sims = {0};
    MR_CHECK_OK(mr_device_sims_parse(&sims, MR_SV("SIM:0=op=20ms,priority=1;GPU:2=op=1us")));
    cluster_fixture_begin_with(&b, &(mr_server_options){.net = mr_net_loop(), .simulated = &sims}, 1, 1);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    b.s.device = "/job:ps/task:0/device:SIM:0";
    mr_out y = mr_emit(&b.s, "Neg", x);
    b.s.device = "/job:worker/task:0/device:GPU:2";
    mr_out z = mr_emit(&b.s, "Exp", y);
    int64_t start = mr_now_ns();
    MR_CHECK_OK(cluster_fixture_run(&b, x, 0, z, NULL, &v));
    MR_CHECK(mr_now_ns() - start >= 20000000);
    MR_CHECK_NEAR(v, 1, 0);
    MR_CHECK_OK(b.session->ops->list_devices(b.session, &d, &n));
    MR_CHECK_INT(n, 6);
    mr_device_infos_free(d, n);
    cluster_fixture_end(&b);
    mr_device_sims_deinit(&sims);
}

/* Nothing goes to FAST but by cost, for its priority is the lowest.  Tasks tell what steps took, and devices are chosen anew. */
MR_TEST(server_places_by_cost)
{
    enum { SIDE = 64, STEPS = 30 };
    cluster_fixture b;
    float v = 0;
    mr_pb_writer w;
    mr_str text = {0};
    mr_device_sims sims = {0};
    int32_t dims[] = {SIDE, SIDE}, axes[] = {0, 1};
    MR_CHECK_OK(mr_device_sims_parse(&sims, MR_SV("FAST:0=flops_per_s=1e15,bytes_per_s=1T,op_us=0.001,priority=1")));
    cluster_fixture_begin_with(&b, &(mr_server_options){.net = mr_net_loop(), .simulated = &sims}, 1, 1);
    mr_pb_writer_init(&w, &b.config);
    mr_pb_put_varint(&w, 3, 4); /* placement_period */
    mr_pb_put_varint(&w, 8, 1); /* log_device_placement */
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    mr_out m = mr_emit(&b.s, "Fill", mr_const_vec_i32(&b.s, 2, dims), x);
    mr_out y = mr_emit(mr_as(&b.s, "product"), "MatMul", m, m);
    mr_out z = mr_emit(&b.s, "Mean", y, mr_const_vec_i32(&b.s, 2, axes));
    char *path = mr_printf("%s/log", mr_test_dir());
    int saved = dup(2);
    MR_CHECK(freopen(path, "w", stderr));
    mr_status *st = cluster_fixture_run(&b, x, 2, z, NULL, &v);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    MR_CHECK_OK(st);
    MR_CHECK_OK(mr_file_read_all(path, &text));
    MR_CHECK(strstr(mr_str_z(&text), "product: (MatMul): /job:worker/replica:0/task:0/device:FAST:0\n"));
    for (int i = 0; i < STEPS; i++) {
        MR_CHECK_OK(cluster_fixture_run(&b, x, (float)i, z, NULL, &v));
        MR_CHECK_NEAR(v, (double)SIDE * i * i, 1e-2 * SIDE);
    }
    mr_str_deinit(&text);
    mr_free(path);
    cluster_fixture_end(&b);
    mr_device_sims_deinit(&sims);
}

/* What says nothing of its kernels is there, but gets only what asks for it. */
MR_TEST(server_devices_that_are_not_described_come_last)
{
    mr_str text = {0};
    mr_pb_writer w;
    mr_device *d = NULL;
    mr_pb_writer_init(&w, &text);
    mr_pb_put_bytes(&w, 1, MR_SV("/job:ps/replica:0/task:0/device:GPU:0"));
    mr_pb_put_bytes(&w, 2, MR_SV("GPU"));
    mr_pb_put_bytes(&w, 7, MR_SV("device: 0, name: some card, pci bus id: 0"));
    MR_CHECK_OK(mr_device_attributes_decode(mr_str_view(&text), &d));
    MR_CHECK(d->type->priority < mr_device_cpu.priority && !d->type->kernels);
    mr_device_free(d);
    mr_pb_put_bytes(&w, 7, MR_SV("millrace; kernels CPU; priority 99; flops 7; bytes -1; op nan; ; more"));
    MR_CHECK_OK(mr_device_attributes_decode(mr_str_view(&text), &d));
    MR_CHECK_STR(d->type->kernels, "CPU");
    MR_CHECK_INT(d->type->priority, 99);
    MR_CHECK_NEAR(d->speed.flops_per_s, 7, 0);
    MR_CHECK_NEAR(d->speed.bytes_per_s, mr_speed_cpu.bytes_per_s, 0);
    MR_CHECK_NEAR(d->speed.op_s, mr_speed_cpu.op_s, 0);
    mr_device_free(d);
    mr_pb_put_bytes(&w, 2, MR_SV("TPU")); /* not what its name says */
    MR_CHECK_OK(mr_device_attributes_decode(mr_str_view(&text), &d));
    MR_CHECK(!d);
    mr_str_deinit(&text);
}

/* Filters are for devices, not for whole tasks; those of the master's own task are always seen. */
MR_TEST(server_filters_single_devices)
{
    cluster_fixture b;
    mr_device_info *d;
    int n;
    mr_pb_writer w;
    cluster_fixture_begin(&b, 2, 1);
    mr_pb_writer_init(&w, &b.config);
    mr_pb_put_bytes(&w, 4, MR_SV("/job:ps/task:0/device:CPU:1")); /* there is none */
    mr_pb_put_bytes(&w, 4, MR_SV("/job:ps/task:1/device:CPU:0"));
    mr_session *s = cluster_fixture_session_of(&b);
    MR_CHECK_OK(s->ops->list_devices(s, &d, &n));
    MR_CHECK_INT(n, 2);
    MR_CHECK_STR(d[0].name, "/job:worker/replica:0/task:0/device:CPU:0");
    MR_CHECK_STR(d[1].name, "/job:ps/replica:0/task:1/device:CPU:0");
    mr_device_infos_free(d, n);
    cluster_fixture_end(&b);
}

/* ---- how long a step may take ---- */

/* A step that would wait for ever, of a session with this ConfigProto and a server with that one. */
static void check_step_ends(mr_sv of_session, mr_sv of_server)
{
    cluster_fixture b;
    static const int types[] = {MR_FLOAT};
    mr_test_deadline(60);
    cluster_fixture_begin(&b, 0, 1);
    cluster_fixture_stop_task(&b, 0);
    b.task_config = of_server;
    cluster_fixture_start_task(&b, 0);
    mr_str_append(&b.config, of_session.p, of_session.n);
    mr_out q = mr_emit0_with(&b.s, "FIFOQueueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}));
    mr_out v = mr_emit_with(&b.s, "QueueDequeueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}), q);
    float got;
    MR_CHECK_ERR(cluster_fixture_run(&b, cluster_fixture_nothing, 0, v, NULL, &got), MR_DEADLINE_EXCEEDED, "");
    cluster_fixture_end(&b);
}

MR_TEST(server_gives_its_timeout_to_sessions_without_one)
{
    check_step_ends(MR_SV(""), MR_SV("\x58\x64")); /* operation_timeout_in_ms: 100 */
}

MR_TEST(server_leaves_sessions_the_timeout_they_have)
{
    check_step_ends(MR_SV("\x58\x64"), MR_SV("\x58\x80\xdd\xdb\x01")); /* 100; 3600000 */
}
