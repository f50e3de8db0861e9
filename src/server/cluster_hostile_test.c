/* server/cluster_hostile_test.c -- callers that send what nobody should, in an order that nobody expects; each test is a way in
 * which a task once came to harm. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "graph/graph_def.h"
#include "net/transport_fixture.h"
#include "ops/table.h"
#include "server/cluster_fixture.h"
#include "server/host.h"

static const char worker_cpu[] = "/job:worker/replica:0/task:0/device:CPU:0";

/* ---- messages ---- */

static mr_status *say(cluster_fixture *b, const char *method, mr_str *body)
{
    return cluster_fixture_call(b->net, b->cluster.tasks.p[b->n - 1].address, method, body, NULL);
}

static mr_status *name_session(cluster_fixture *b, const char *method, mr_sv handle)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, handle);
    return say(b, method, &body);
}

static mr_status *create(cluster_fixture *b, mr_sv handle, const char *master, uint64_t incarnation)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, handle);
    mr_pb_put_bytes(&w, 5, mr_sv_of(master));
    mr_pb_put_varint(&w, 6, incarnation);
    return say(b, MR_WORKER_SERVICE "CreateWorkerSession", &body);
}

/* A Recv of a value that is sent along, or never; of the session of masters that create none. */
static mr_status *register_recv(cluster_fixture *b)
{
    mr_str body = {0}, graph = {0};
    mr_pb_writer w;
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_scope_init(&s, g, "");
    mr_out n = mr_emit0_with(&s, "_Recv",
                             MR_ATTRS({"tensor_type", mr_a_type(MR_FLOAT)}, {"tensor_name", mr_a_str("x")},
                                      {"send_device", mr_a_str(worker_cpu)}, {"recv_device", mr_a_str(worker_cpu)},
                                      {"send_device_incarnation", mr_a_int(1)}, {"client_terminated", mr_a_bool(true)}));
    MR_CHECK_OK(mr_scope_status(&s));
    n.node->device = worker_cpu;
    MR_CHECK_OK(mr_graph_export(g, &graph));
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 2, mr_str_view(&graph));
    mr_str_deinit(&graph);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
    return say(b, MR_WORKER_SERVICE "RegisterGraph", &body);
}

/* A piece of a partial run of the first graph. */
static mr_status *run_piece(cluster_fixture *b, uint64_t step, bool last, const char *send)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, MR_SV("0000000000000000"));
    mr_pb_put_varint(&w, 2, step);
    mr_pb_put_varint(&w, 6, 1);
    mr_pb_opt_varint(&w, 7, last);
    if (send) {
        size_t mark = mr_pb_begin(&w, 3);
        mr_pb_put_bytes(&w, 1, mr_sv_of(send));
        mr_pb_put_bytes(&w, 2, MR_SV("\x08\x01\x12\x00\x2d\x00\x00\x80\x3f")); /* a float: 1 */
        mr_pb_end(&w, mark);
    }
    return say(b, MR_WORKER_SERVICE "RunGraph", &body);
}

static mr_status *clean_up(cluster_fixture *b, uint64_t step)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_varint(&w, 1, step);
    return say(b, MR_WORKER_SERVICE "CleanupGraph", &body);
}

/* ---- sessions ---- */

/* A handle is kept as a C string: one that ends early would never be found again. */
MR_TEST(hostile_handles_with_a_zero_byte_are_refused)
{
    cluster_fixture b;
    cluster_fixture_begin(&b, 0, 1);
    MR_CHECK_ERR(create(&b, (mr_sv){"a\0b", 3}, "m", 1), MR_INVALID_ARGUMENT, "zero byte");
    MR_CHECK_OK(create(&b, MR_SV("a"), "m", 1));
    MR_CHECK_OK(create(&b, MR_SV("c"), "m", 2)); /* which ends those of the master's life before */
    cluster_fixture_end(&b);
}

MR_TEST(hostile_deletion_of_the_nameless_session_is_not_for_ever)
{
    cluster_fixture b;
    cluster_fixture_begin(&b, 0, 1);
    MR_CHECK_OK(register_recv(&b));
    MR_CHECK_OK(name_session(&b, MR_WORKER_SERVICE "DeleteWorkerSession", MR_SV("")));
    MR_CHECK_OK(register_recv(&b));
    cluster_fixture_end(&b);
}

/* ---- partial runs ---- */

MR_TEST(hostile_partial_runs_without_a_last_piece_leave_nothing)
{
    cluster_fixture b;
    cluster_fixture_begin(&b, 0, 1);
    MR_CHECK_OK(register_recv(&b));
    MR_CHECK_OK(run_piece(&b, 7, false, NULL));
    MR_CHECK_OK(clean_up(&b, 7));
    MR_CHECK_ERR(run_piece(&b, 7, false, NULL), MR_ABORTED, "");
    MR_CHECK_OK(run_piece(&b, 8, false, NULL)); /* nobody cleans up */
    cluster_fixture_end(&b);
}

MR_TEST(hostile_pieces_behind_the_last_one_are_refused)
{
    cluster_fixture b;
    char key[200];
    cluster_fixture_begin(&b, 0, 1);
    MR_CHECK_OK(register_recv(&b));
    snprintf(key, sizeof(key), "%s;0000000000000001;%s;x;0:0", worker_cpu, worker_cpu);
    MR_CHECK_OK(run_piece(&b, 7, true, key));
    MR_CHECK_ERR(run_piece(&b, 7, true, NULL), MR_ABORTED, "over");
    cluster_fixture_end(&b);
}

/* What is refused for a value it brings has begun a step, which ends with it. */
MR_TEST(hostile_values_without_a_key_end_their_step)
{
    cluster_fixture b;
    cluster_fixture_begin(&b, 0, 1);
    MR_CHECK_OK(register_recv(&b));
    MR_CHECK_ERR(run_piece(&b, 7, false, "no key"), MR_INVALID_ARGUMENT, "");
    MR_CHECK_ERR(run_piece(&b, 7, false, NULL), MR_ABORTED, "");
    cluster_fixture_end(&b);
}

/* ---- callers that leave ---- */

typedef struct leaver {
    mr_net_request request; /* first */
    mr_net_peer *peer;
    mr_mutex mu;
    mr_cond changed;
    bool done MR_GUARDED_BY(mu);
    mr_code code MR_GUARDED_BY(mu);
} leaver;

static void left(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    leaver *l = (leaver *)r;
    (void)reply;
    mr_lock(&l->mu);
    l->code = mr_status_code(st);
    l->done = true;
    mr_cond_broadcast(&l->changed);
    mr_unlock(&l->mu);
    mr_status_free(st);
}

static void start_call(cluster_fixture *b, leaver *l, const char *method, mr_str *body)
{
    *l = (leaver){.request = {.method = method, .done = left}};
    mr_bytes_add_str(&l->request.body, body);
    mr_mutex_init(&l->mu);
    mr_cond_init(&l->changed);
    MR_CHECK_OK(b->net->connect(b->net, b->cluster.tasks.p[b->n - 1].address, NULL, NULL, &l->peer));
    b->net->start(l->peer, &l->request);
}

static mr_code end_call(cluster_fixture *b, leaver *l)
{
    mr_lock(&l->mu);
    while (!l->done)
        mr_cond_wait(&l->changed, &l->mu);
    mr_unlock(&l->mu);
    b->net->disconnect(l->peer);
    mr_cond_deinit(&l->changed);
    mr_mutex_deinit(&l->mu);
    return l->code;
}

/* A call that is cancelled after a while, at whatever it is then. */
static void call_and_leave(cluster_fixture *b, const char *method, mr_str *body, int64_t after_ns)
{
    leaver l;
    start_call(b, &l, method, body);
    mr_sleep_ns(after_ns);
    b->net->cancel(&l.request);
    end_call(b, &l);
}

static void encode_step(const char *session, const char *fetch, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    mr_pb_put_bytes(&w, 1, mr_sv_of(session));
    mr_pb_put_bytes(&w, 3, mr_sv_of(fetch));
}

static mr_status *create_with_graph(cluster_fixture *b, mr_str *handle)
{
    mr_str body = {0}, graph = {0};
    mr_pb_writer w;
    MR_CHECK_OK(mr_graph_export(b->g, &graph));
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_str_view(&graph));
    mr_str_deinit(&graph);
    return cluster_fixture_call(b->net, b->cluster.tasks.p[b->n - 1].address, MR_MASTER_SERVICE "CreateSession", &body,
                                handle);
}

/* The step has a part on each task, and each waits: cancelling the first one ends the whole step, under the hands of
 * who cancels. */
static void leaves_a_step(mr_net *net)
{
    cluster_fixture b;
    mr_str reply = {0};
    const int types[] = {MR_FLOAT};
    cluster_fixture_begin_on(&b, net, 2, 1);
    mr_out sum = {NULL, 0};
    for (int i = 0; i < 2; i++) {
        b.s.device = i ? "/job:ps/task:1" : "/job:ps/task:0";
        mr_out q = mr_emit0_with(&b.s, "FIFOQueueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}));
        mr_out v = mr_emit_with(&b.s, "QueueDequeueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}), q);
        sum = sum.node ? mr_emit(mr_as(&b.s, "sum"), "AddV2", sum, v) : v;
    }
    MR_CHECK_OK(mr_scope_status(&b.s));
    MR_CHECK_OK(create_with_graph(&b, &reply));
    char handle[17] = "";
    MR_CHECK(reply.n >= 18);
    memcpy(handle, reply.p + 2, 16);
    for (int i = 0; i < 10; i++) {
        mr_str body = {0};
        encode_step(handle, "sum:0", &body);
        call_and_leave(&b, MR_MASTER_SERVICE "RunStep", &body, i * INT64_C(2000000));
    }
    mr_str_deinit(&reply);
    cluster_fixture_end(&b);
}

MR_TEST(hostile_clients_leave_steps_that_wait) { leaves_a_step(mr_net_loop()); }
MR_TEST(hostile_clients_leave_steps_that_wait_of_one_host) { leaves_a_step(mr_net_local()); }

/* A loop without end, in tasks that were told to have no threads for their steps. */
MR_TEST(hostile_clients_leave_steps_that_spin)
{
    mr_server_def def = {.job = "worker"};
    cluster_fixture b = {.net = mr_net_loop(), .n = 1};
    mr_str reply = {0};
    mr_node *merge;
    mr_ops_register();
    MR_CHECK_OK(mr_cluster_add(&b.cluster, MR_SV("worker"), 0, MR_SV("worker0:1")));
    MR_CHECK_OK(mr_cluster_copy(&b.cluster, &def.cluster));
    mr_str_appendz(&def.config, "\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"); /* inter_op_parallelism_threads: -1 */
    MR_CHECK_OK(mr_server_new(&def, &(mr_server_options){.net = b.net}, &b.servers[0]));
    MR_CHECK_OK(mr_server_start(b.servers[0]));
    b.g = mr_graph_new();
    mr_scope_init(&b.s, b.g, "");
    mr_out enter = mr_emit_with(&b.s, "Enter", MR_ATTRS({"frame_name", mr_a_str("w")}), mr_const_f32(&b.s, 0));
    mr_node_builder *nb = mr_node_begin(b.g, "Merge", "merge");
    mr_nb_input_list(nb, &enter, 1);
    mr_nb_input_later(nb, MR_FLOAT);
    MR_CHECK_OK(mr_node_finish(nb, &merge));
    mr_out go_on = mr_emit(&b.s, "LoopCond", mr_emit(&b.s, "Equal", (mr_out){merge, 0}, (mr_out){merge, 0}));
    mr_out sw = mr_emit(&b.s, "Switch", (mr_out){merge, 0}, go_on);
    mr_out next = mr_emit(&b.s, "NextIteration", mr_nth(sw, 1));
    mr_emit(mr_as(&b.s, "never"), "Exit", sw);
    MR_CHECK_OK(mr_scope_status(&b.s));
    MR_CHECK_OK(mr_node_set_input(merge, 1, next));
    MR_CHECK_OK(create_with_graph(&b, &reply));
    char handle[17] = "";
    memcpy(handle, reply.p + 2, 16);
    for (int i = 0; i < 4; i++) {
        mr_str body = {0};
        encode_step(handle, "never:0", &body);
        call_and_leave(&b, MR_MASTER_SERVICE "RunStep", &body, INT64_C(20000000));
    }
    mr_str_deinit(&reply);
    mr_str_deinit(&def.config);
    mr_cluster_deinit(&def.cluster);
    cluster_fixture_end(&b);
}

/* A task of the cluster is not there, so the creation waits for it. */
static void leaves_a_creation(mr_net *net)
{
    cluster_fixture b;
    cluster_fixture_begin_on(&b, net, 2, 1);
    cluster_fixture_stop_task(&b, 0);
    for (int i = 0; i < 10; i++) {
        mr_str body = {0};
        call_and_leave(&b, MR_MASTER_SERVICE "CreateSession", &body, i * INT64_C(1000000));
    }
    cluster_fixture_end(&b);
}

MR_TEST(hostile_clients_leave_sessions_that_are_made) { leaves_a_creation(mr_net_loop()); }
MR_TEST(hostile_clients_leave_sessions_that_are_made_of_one_host) { leaves_a_creation(mr_net_local()); }

/* The step that waits is the last to use its graph, and ends inside of the cancellation of its session. */
MR_TEST(hostile_graphs_that_nobody_knows_end_with_their_session)
{
    cluster_fixture b;
    leaver l;
    mr_str body = {0}, again = {0};
    mr_pb_writer w;
    cluster_fixture_begin(&b, 0, 1);
    MR_CHECK_OK(register_recv(&b));
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, MR_SV("0000000000000000"));
    mr_pb_put_varint(&w, 2, 7);
    start_call(&b, &l, MR_WORKER_SERVICE "RunGraph", &body);
    mr_pb_writer_init(&w, &again);
    mr_pb_put_bytes(&w, 1, MR_SV("0000000000000000"));
    MR_CHECK_OK(say(&b, MR_WORKER_SERVICE "DeregisterGraph", &again));
    MR_CHECK_OK(name_session(&b, MR_WORKER_SERVICE "DeleteWorkerSession", MR_SV("")));
    MR_CHECK_INT(end_call(&b, &l), MR_CANCELLED);
    cluster_fixture_end(&b);
}

/* ---- connections that never become calls ---- */

enum { N_RAW = 40, RAW_KINDS = 5 };

static int connect_raw(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MR_CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    return fd;
}

static void put_frame(mr_str *s, uint32_t n, int type, int flags, uint32_t stream)
{
    const uint8_t head[9] = {(uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n, (uint8_t)type, (uint8_t)flags,
                             (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
    mr_str_append(s, head, sizeof(head));
}

static void put_header(mr_str *s, const char *name, const char *value) /* HPACK: literal, not indexed */
{
    mr_str_appendc(s, 0);
    mr_str_appendc(s, (char)strlen(name));
    mr_str_appendz(s, name);
    mr_str_appendc(s, (char)strlen(value));
    mr_str_appendz(s, value);
}

/* A call whose message claims 4 GiB, of which some bytes come, and then nothing. */
static void put_long_call(mr_str *s)
{
    mr_str headers = {0};
    put_header(&headers, ":method", "POST");
    put_header(&headers, ":scheme", "http");
    put_header(&headers, ":path", MR_WORKER_SERVICE "GetStatus");
    put_header(&headers, ":authority", "x");
    put_header(&headers, "te", "trailers");
    put_header(&headers, "content-type", "application/grpc");
    put_frame(s, 0, 4, 0, 0); /* SETTINGS */
    put_frame(s, (uint32_t)headers.n, 1, 4, 1);
    mr_str_append(s, headers.p, headers.n);
    put_frame(s, 10, 0, 0, 1);
    mr_str_append(s, "\0\xff\xff\xff\xff" "12345", 10);
    mr_str_deinit(&headers);
}

/* Nothing; half of a greeting; what is no HTTP/2; a frame that is not there; a message that is not there. */
static void say_raw(int fd, int kind)
{
    static const char greeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    mr_str s = {0};
    if (kind == 1)
        mr_str_append(&s, greeting, 10);
    if (kind == 2)
        mr_str_appendz(&s, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    if (kind >= 3)
        mr_str_appendz(&s, greeting);
    if (kind == 3)
        put_frame(&s, 0xffffff, 0, 0, 1);
    if (kind == 4)
        put_long_call(&s);
    MR_CHECK(s.n == 0 || send(fd, s.p, s.n, MSG_NOSIGNAL) == (ssize_t)s.n);
    mr_str_deinit(&s);
}

/* They are there all the time; a client that behaves is served among them, and the end of the server does not wait
 * for them. */
MR_TEST(hostile_connections_that_say_nothing_are_no_harm)
{
    mr_server_def def = {.job = "worker"};
    mr_server *server;
    mr_net *grpc;
    char address[256];
    int fds[N_RAW];
    float v = 0;
    cluster_fixture b = {.n = 1};
    mr_ops_register();
    MR_CHECK_OK(mr_net_grpc(&grpc));
    setenv("MILLRACE_SHM", "off", 1);
    trial_address(grpc, address);
    MR_CHECK_OK(mr_cluster_add(&def.cluster, MR_SV("worker"), 0, mr_sv_of(address)));
    MR_CHECK_OK(mr_server_new(&def, NULL, &server));
    MR_CHECK_OK(mr_server_start(server));
    for (int i = 0; i < N_RAW; i++) {
        fds[i] = connect_raw(address);
        say_raw(fds[i], i % RAW_KINDS);
    }
    b.g = mr_graph_new();
    mr_scope_init(&b.s, b.g, "");
    mr_out y = mr_emit(&b.s, "Neg", mr_const_f32(&b.s, 2));
    MR_CHECK_OK(mr_scope_status(&b.s));
    MR_CHECK_OK(mr_remote_session_new(NULL, address, b.g, NULL, MR_SV(""), NULL, &b.session));
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, y, NULL, &v));
    MR_CHECK_NEAR(v, -2, 0);
    mr_session_free(b.session);
    int64_t before = mr_now_ns();
    mr_server_free(server);
    MR_CHECK(mr_now_ns() - before < INT64_C(4500000000)); /* handlers that are slow get 5 s */
    for (int i = 0; i < N_RAW; i++)
        close(fds[i]);
    mr_scope_deinit(&b.s);
    mr_graph_unref(b.g);
    mr_cluster_deinit(&def.cluster);
}

/* ---- specs ---- */

MR_TEST(hostile_task_numbers_do_not_wrap)
{
    mr_server_def d;
    static const char *const specs[] = {
        "{\"cluster\": {\"w\": {\"-4294967295\": \"a:1\"}}, \"task\": {\"type\": \"w\", \"index\": 1}}",
        "{\"cluster\": {\"w\": [\"a:1\", \"b:1\"]}, \"task\": {\"type\": \"w\", \"index\": -4294967295}}",
        "{\"cluster\": {\"w\": [\"a:1\", \"b:1\"]}, \"task\": {\"type\": \"w\", \"index\": 4294967297}}",
    };
    for (int i = 0; i < MR_COUNT(specs); i++)
        MR_CHECK_ERR(mr_server_def_from_json(mr_sv_of(specs[i]), &d), MR_INVALID_ARGUMENT, "task");
}
