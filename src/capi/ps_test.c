/* capi/ps_test.c -- millrace/ps.h as programs use it. */
#include "millrace/ps.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/harness/test.h"

static void check_ok(TF_Status *s)
{
    if (TF_GetCode(s) != TF_OK)
        mr_test_fail(__FILE__, __LINE__, "%s", TF_Message(s));
}

static int make_table(mr_ps *ps, const char *name, uint64_t keys, int width, mr_ps_update update,
                      TF_Status *s)
{
    mr_ps_table_options o = {
        .struct_size = sizeof o, .num_keys = keys, .width = width, .update = update, .rate = 0.5f};
    int t = mr_ps_table(ps, name, &o, s);
    check_ok(s);
    return t;
}

static void push(mr_ps *ps, int t, const uint64_t *keys, size_t n, const float *values, TF_Status *s)
{
    mr_ps_task k = mr_ps_push(ps, t, keys, n, values, NULL, s);
    check_ok(s);
    mr_ps_wait(ps, k, s);
    check_ok(s);
}

static void pull(mr_ps *ps, int t, const uint64_t *keys, size_t n, float *values, TF_Status *s)
{
    mr_ps_task k = mr_ps_pull(ps, t, keys, n, values, NULL, s);
    check_ok(s);
    mr_ps_wait(ps, k, s);
    check_ok(s);
}

MR_TEST(ps_capi_pushes_and_pulls_in_process)
{
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, s);
    check_ok(s);
    int t = make_table(ps, "w", 1000, 2, MR_PS_ADD, s);
    const uint64_t keys[3] = {0, 17, 999};
    float got[6];
    push(ps, t, keys, 3, (const float[]){1, 2, 3, 4, 5, 6}, s);
    push(ps, t, keys + 1, 2, (const float[]){10, 20, 30, 40}, s);
    pull(ps, t, keys, 3, got, s);
    const float want[6] = {1, 2, 13, 24, 35, 46};
    for (int i = 0; i < 6; i++)
        MR_CHECK_NEAR(got[i], want[i], 0);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

MR_TEST(ps_capi_table_is_found_again_or_refused)
{
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, s);
    int a = make_table(ps, "w", 10, 1, MR_PS_SGD, s), b = make_table(ps, "v", 10, 1, MR_PS_ADD, s);
    MR_CHECK(a != b);
    MR_CHECK_INT(make_table(ps, "w", 10, 1, MR_PS_SGD, s), a);
    mr_ps_table_options o = {.struct_size = sizeof o, .num_keys = 11, .update = MR_PS_SGD, .rate = 0.5f};
    MR_CHECK_INT(mr_ps_table(ps, "w", &o, s), -1);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

MR_TEST(ps_capi_algebra_where_the_parameters_are)
{
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, s);
    int a = make_table(ps, "a", 700, 1, MR_PS_ASSIGN, s), b = make_table(ps, "b", 700, 1, MR_PS_ASSIGN, s);
    double dot = 0;
    float got[2];
    mr_ps_vector(ps, MR_PS_FILL, a, 0, 3, NULL, s);
    mr_ps_vector(ps, MR_PS_FILL, b, 0, -2, NULL, s);
    mr_ps_vector(ps, MR_PS_AXPY, a, b, 0.5, NULL, s);
    mr_ps_vector(ps, MR_PS_SCALE, b, 0, 2, NULL, s);
    mr_ps_vector(ps, MR_PS_MULTIPLY, b, a, 0, NULL, s);
    mr_ps_vector(ps, MR_PS_DOT, a, b, 0, &dot, s);
    check_ok(s);
    MR_CHECK_NEAR(dot, 700 * 2 * -8, 0);
    mr_ps_vector(ps, MR_PS_NORM1, b, 0, 0, &dot, s);
    MR_CHECK_NEAR(dot, 700 * 8, 0);
    mr_ps_vector(ps, MR_PS_COPY, a, b, 0, NULL, s);
    pull(ps, a, (const uint64_t[]){0, 699}, 2, got, s);
    MR_CHECK_NEAR(got[0] + got[1], -16, 0);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

MR_TEST(ps_capi_refuses_keys_out_of_order_or_range)
{
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, s);
    int t = make_table(ps, "w", 10, 1, MR_PS_ADD, s);
    const float v[2] = {1, 1};
    MR_CHECK_INT(mr_ps_push(ps, t, (const uint64_t[]){3, 3}, 2, v, NULL, s), 0);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    MR_CHECK_INT(mr_ps_push(ps, t, (const uint64_t[]){3, 10}, 2, v, NULL, s), 0);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    MR_CHECK_INT(mr_ps_push_range(ps, t, 9, 2, v, NULL, s), 0);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    MR_CHECK_INT(mr_ps_push(ps, 7, (const uint64_t[]){3, 4}, 2, v, NULL, s), 0);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

static TF_Output constant_keys(TF_Graph *g, const char *name, const int64_t *keys, int64_t n, TF_Status *s)
{
    TF_Tensor *t = TF_AllocateTensor(TF_INT64, &n, 1, (size_t)n * sizeof(int64_t));
    memcpy(TF_TensorData(t), keys, (size_t)n * sizeof(int64_t));
    TF_OperationDescription *d = TF_NewOperation(g, "Const", name);
    TF_SetAttrTensor(d, "value", t, s);
    TF_SetAttrType(d, "dtype", TF_INT64);
    TF_DeleteTensor(t);
    return (TF_Output){TF_FinishOperation(d, s), 0};
}

static TF_OperationDescription *ps_op(TF_Graph *g, const char *type, TF_Output keys)
{
    TF_OperationDescription *d = TF_NewOperation(g, type, type);
    TF_SetAttrString(d, "table", "w", 1);
    TF_SetAttrString(d, "store", "here", 4);
    TF_SetAttrInt(d, "width", 2);
    TF_AddInput(d, keys);
    return d;
}

/* Keys in any order, and twice: a push adds their rows up, a pull gives each its own. */
MR_TEST(ps_capi_ops_of_a_graph_pull_and_push)
{
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, s);
    make_table(ps, "w", 100, 2, MR_PS_ADD, s);
    mr_ps_bind(ps, "here", s);
    check_ok(s);
    TF_Graph *g = TF_NewGraph();
    TF_Output keys = constant_keys(g, "keys", (const int64_t[]){40, 7, 40}, 3, s);
    TF_OperationDescription *d = TF_NewOperation(g, "Placeholder", "values");
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_Output values = {TF_FinishOperation(d, s), 0};
    TF_Output pull = {TF_FinishOperation(ps_op(g, "MillracePsPull", keys), s), 0};
    check_ok(s);
    MR_CHECK_INT(TF_GraphGetTensorNumDims(g, pull, s), 2);
    d = ps_op(g, "MillracePsPush", keys);
    TF_AddInput(d, values);
    const TF_Operation *push_op = TF_FinishOperation(d, s);
    check_ok(s);
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_Session *session = TF_NewSession(g, o, s);
    const int64_t dims[2] = {3, 2};
    TF_Tensor *in = TF_AllocateTensor(TF_FLOAT, dims, 2, 6 * sizeof(float)), *out = NULL;
    memcpy(TF_TensorData(in), (const float[]){1, 2, 3, 4, 10, 20}, 6 * sizeof(float));
    TF_SessionRun(session, NULL, &values, &in, 1, NULL, NULL, 0, &push_op, 1, NULL, s);
    check_ok(s);
    TF_SessionRun(session, NULL, NULL, NULL, 0, &pull, &out, 1, NULL, 0, NULL, s);
    check_ok(s);
    const float want[6] = {11, 22, 3, 4, 11, 22}, *got = TF_TensorData(out);
    for (int i = 0; i < 6; i++)
        MR_CHECK_NEAR(got[i], want[i], 0);
    mr_ps_free(ps); /* the name is free again */
    TF_DeleteTensor(out);
    out = NULL;
    TF_SessionRun(session, NULL, NULL, NULL, 0, &pull, &out, 1, NULL, 0, NULL, s);
    MR_CHECK_INT(TF_GetCode(s), TF_NOT_FOUND);
    TF_DeleteTensor(in);
    TF_DeleteSession(session, s);
    TF_DeleteSessionOptions(o);
    TF_DeleteGraph(g);
    TF_DeleteStatus(s);
}

static TF_Operation *add_binary(TF_Graph *g, const char *type, const char *name, TF_Output a, TF_Output b,
                                TF_Status *s)
{
    TF_OperationDescription *d = TF_NewOperation(g, type, name);
    TF_AddInput(d, a);
    TF_AddInput(d, b);
    TF_Operation *op = TF_FinishOperation(d, s);
    check_ok(s);
    return op;
}

static TF_Output add_placeholder(TF_Graph *g, const char *name, TF_Status *s)
{
    TF_OperationDescription *d = TF_NewOperation(g, "Placeholder", name);
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    return (TF_Output){TF_FinishOperation(d, s), 0};
}

/* new_slot = slot + gradient; new_value = value - new_slot. */
MR_TEST(ps_capi_an_update_can_be_a_graph)
{
    TF_Status *s = TF_NewStatus();
    TF_Graph *g = TF_NewGraph();
    TF_Buffer *def = TF_NewBuffer();
    TF_Output value = add_placeholder(g, "value", s), slot = add_placeholder(g, "slot", s),
              gradient = add_placeholder(g, "gradient", s);
    TF_Operation *sum = add_binary(g, "AddV2", "new_slot", slot, gradient, s);
    add_binary(g, "Sub", "new_value", value, (TF_Output){sum, 0}, s);
    TF_GraphToGraphDef(g, def, s);
    check_ok(s);
    mr_ps *ps = mr_ps_connect(NULL, s);
    mr_ps_table_options o = {.struct_size = sizeof o,
                             .num_keys = 50,
                             .update = MR_PS_GRAPH,
                             .start = 100,
                             .graph = def->data,
                             .graph_bytes = def->length,
                             .graph_slots = 1};
    int t = mr_ps_table(ps, "g", &o, s);
    check_ok(s);
    const uint64_t keys[2] = {3, 49};
    float got[2];
    push(ps, t, keys, 2, (const float[]){1, 2}, s);
    push(ps, t, keys, 1, (const float[]){1}, s);
    pull(ps, t, keys, 2, got, s);
    MR_CHECK_NEAR(got[0], 97, 0); /* 100 - 1 - 2 */
    MR_CHECK_NEAR(got[1], 98, 0);
    o.graph_bytes = 3;
    MR_CHECK_INT(mr_ps_table(ps, "bad", &o, s), -1);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    mr_ps_free(ps);
    TF_DeleteBuffer(def);
    TF_DeleteGraph(g);
    TF_DeleteStatus(s);
}

/* Ports that nobody has at the moment. */
static void free_ports(int *ports, int n)
{
    int fds[8];
    for (int i = 0; i < n; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof a;
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        MR_CHECK(bind(fds[i], (struct sockaddr *)&a, sizeof a) == 0 &&
                 getsockname(fds[i], (struct sockaddr *)&a, &size) == 0);
        ports[i] = ntohs(a.sin_port);
    }
    for (int i = 0; i < n; i++)
        close(fds[i]);
}

/* Tasks of a cluster serve parameters at their own addresses: the first ps has the manager, workers find it there. */
MR_TEST(ps_capi_tasks_of_a_cluster_serve_parameters)
{
    enum { N_PS = 2 };
    TF_Status *s = TF_NewStatus();
    char ps_hosts[128], worker_hosts[64];
    int ports[N_PS + 1];
    free_ports(ports, N_PS + 1);
    snprintf(ps_hosts, sizeof ps_hosts, "127.0.0.1:%d,127.0.0.1:%d", ports[0], ports[1]);
    snprintf(worker_hosts, sizeof worker_hosts, "127.0.0.1:%d", ports[2]);
    mr_cluster_task *tasks[N_PS + 1];
    mr_ps_server *servers[N_PS];
    for (int i = 0; i <= N_PS; i++) {
        mr_cluster_options o = {.struct_size = sizeof o,
                                .ps_hosts = ps_hosts,
                                .worker_hosts = worker_hosts,
                                .job = i < N_PS ? "ps" : "worker",
                                .index = i < N_PS ? i : 0};
        tasks[i] = mr_cluster_task_new(&o, s);
        check_ok(s);
    }
    mr_ps_manager *m =
        mr_ps_manager_start(&(mr_ps_manager_options){.struct_size = sizeof(mr_ps_manager_options),
                                                     .task = tasks[0],
                                                     .servers = N_PS,
                                                     .lost_ms = 20000},
                            s);
    check_ok(s);
    for (int i = 0; i < N_PS; i++) {
        servers[i] = mr_ps_server_start(
            &(mr_ps_server_options){.struct_size = sizeof(mr_ps_server_options), .task = tasks[i]}, s);
        check_ok(s);
    }
    MR_CHECK(strstr(ps_hosts, mr_ps_server_address(servers[1])) != NULL);
    mr_ps *ps = mr_ps_connect(&(mr_ps_options){.struct_size = sizeof(mr_ps_options), .task = tasks[N_PS]}, s);
    check_ok(s);
    int t = make_table(ps, "w", 1000, 1, MR_PS_ADD, s);
    const uint64_t keys[2] = {1, 998};
    float got[2];
    push(ps, t, keys, 2, (const float[]){4, 5}, s);
    pull(ps, t, keys, 2, got, s);
    MR_CHECK_NEAR(got[0] + 10 * got[1], 54, 0);
    mr_ps_free(ps);
    for (int i = 0; i < N_PS; i++)
        mr_ps_server_free(servers[i]);
    mr_ps_manager_free(m);
    for (int i = 0; i <= N_PS; i++)
        mr_cluster_task_free(tasks[i]);
    TF_DeleteStatus(s);
}

MR_TEST(ps_capi_refuses_what_cannot_be)
{
    TF_Status *s = TF_NewStatus();
    MR_CHECK(!mr_ps_manager_start(
        &(mr_ps_manager_options){.struct_size = sizeof(mr_ps_manager_options), .replicas = 99}, s));
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    MR_CHECK(!mr_ps_server_start(NULL, s));
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    MR_CHECK(!mr_ps_connect(&(mr_ps_options){.struct_size = sizeof(mr_ps_options), .half = 7}, s));
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    MR_CHECK(!mr_ps_connect(
        &(mr_ps_options){.struct_size = sizeof(mr_ps_options), .manager = "127.0.0.1:1", .timeout_ms = 50},
        s));
    MR_CHECK_INT(TF_GetCode(s), TF_DEADLINE_EXCEEDED);
    mr_ps *ps = mr_ps_connect(NULL, s);
    check_ok(s);
    MR_CHECK_INT(mr_ps_table(ps, "w", &(mr_ps_table_options){.struct_size = sizeof(mr_ps_table_options)}, s),
                 -1);
    MR_CHECK_INT(mr_ps_table(ps, NULL, NULL, s), -1);
    int t = make_table(ps, "w", 10, 1, MR_PS_ADD, s);
    MR_CHECK_INT(mr_ps_push(ps, t, NULL, 3, NULL, NULL, s), 0);
    MR_CHECK_INT(mr_ps_push_range(ps, t, 0, 3, NULL, NULL, s), 0);
    mr_ps_wait(ps, 12345, s);
    MR_CHECK_INT(TF_GetCode(s), TF_NOT_FOUND);
    mr_ps_vector(ps, MR_PS_DOT, t, 5, 0, NULL, s);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    mr_ps_restore(ps, "/nowhere/at/all", s);
    MR_CHECK_INT(TF_GetCode(s), TF_NOT_FOUND);
    mr_ps_free(ps);
    mr_ps_free(NULL);
    mr_ps_server_free(NULL);
    mr_ps_manager_free(NULL);
    mr_ps_wait(NULL, 1, s);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    TF_DeleteStatus(s);
}

typedef struct told {
    _Atomic int n;
    _Atomic int64_t last;
} told;

static void count_end(void *arg, mr_ps_task t, const TF_Status *status)
{
    told *x = arg;
    MR_CHECK_INT(TF_GetCode(status), TF_OK);
    x->n++;
    x->last = t;
}

/* A task begins when those before it have ended, and its end is told before a wait for it returns. */
MR_TEST(ps_capi_tasks_follow_each_other_and_tell_their_end)
{
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, s);
    int t = make_table(ps, "w", 10, 1, MR_PS_ADD, s);
    told x = {0};
    float got = -1;
    mr_ps_task before = 0;
    for (int i = 0; i < 20; i++) {
        mr_ps_call c = {
            .struct_size = sizeof c, .after = &before, .num_after = before > 0, .done = count_end, .arg = &x};
        before = mr_ps_push_range(ps, t, 3, 1, (const float[]){1}, &c, s);
        check_ok(s);
    }
    mr_ps_call c = {.struct_size = sizeof c, .after = &before, .num_after = 1, .done = count_end, .arg = &x};
    mr_ps_task last = mr_ps_pull_range(ps, t, 3, 1, &got, &c, s);
    check_ok(s);
    mr_ps_wait(ps, last, s);
    check_ok(s);
    MR_CHECK_NEAR(got, 20, 0);
    MR_CHECK_INT(x.n, 21);
    MR_CHECK_INT(x.last, last);
    mr_ps_wait_all(ps, s);
    check_ok(s);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}
