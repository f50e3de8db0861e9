/* server/remote_call_test.c -- functions called on devices of other tasks. */
#include <math.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "graph/library.h"
#include "server/cluster_fixture.h"

/* A function of one float joins the library of the client's graph; its body is told by `make`. */
static void add_function(cluster_fixture *b, const char *name, mr_out (*make)(mr_scope *s, mr_out a))
{
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_function *made;
    mr_scope_init(&s, g, "");
    MR_CHECK_OK(mr_library_copy(b->g->library, g->library));
    mr_out a = mr_placeholder(&s, MR_FLOAT, "a", NULL), y = make(&s, a);
    MR_CHECK_OK(mr_scope_status(&s));
    mr_function_spec spec = {.name = name, .n_nodes = -1, .n_inputs = 1, .inputs = &a, .n_outputs = 1, .outputs = &y};
    MR_CHECK_OK(mr_function_from_graph(g, &spec, &made));
    MR_CHECK_OK(mr_library_add(b->g->library, made));
    mr_function_unref(made);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

static mr_out remote(mr_scope *s, mr_out target, const char *function, mr_out x)
{
    static const int type[] = {MR_FLOAT};
    mr_func_ref f = {function, 0, NULL};
    return mr_emit_with(s, "RemoteCall",
                        MR_ATTRS({"Tin", mr_a_types(1, type)}, {"Tout", mr_a_types(1, type)}, {"f", {MR_ATTR_FUNC, .func = &f}}),
                        target, x);
}

static mr_out variable(mr_scope *s)
{
    return mr_emit0_with(s, "VarHandleOp", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(&mr_pshape_scalar)},
                                                    {"shared_name", mr_a_str("v")}));
}

/* The variable v of the task where it runs, and a. */
static mr_out add_variable(mr_scope *s, mr_out a)
{
    return mr_emit(s, "AddV2", a, mr_emit_with(s, "ReadVariableOp", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}), variable(s)));
}

static void set_variable(cluster_fixture *b, const char *device, float to)
{
    float v;
    b->s.device = device;
    mr_node *set = mr_emit(&b->s, "AssignVariableOp", variable(&b->s), mr_const_f32(&b->s, to)).node;
    b->s.device = "";
    MR_CHECK_OK(cluster_fixture_run(b, cluster_fixture_nothing, 0, cluster_fixture_nothing, set, &v));
}

static void runs_where_it_is_told(mr_net *net)
{
    cluster_fixture b;
    float v = 0;
    cluster_fixture_begin_on(&b, net, 2, 1);
    add_function(&b, "AddVariable", add_variable);
    set_variable(&b, "/job:ps/task:0", 10);
    set_variable(&b, "/job:ps/task:1", 20);
    set_variable(&b, "/job:worker/task:0", 30);
    b.s.device = "/job:worker/task:0";
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    mr_out ps0 = remote(&b.s, mr_const_str(&b.s, "/job:ps/replica:0/task:0/device:CPU:0"), "AddVariable", x);
    mr_out ps1 = remote(&b.s, mr_const_str(&b.s, "/job:ps/task:1"), "AddVariable", x);
    mr_out here = remote(&b.s, mr_const_str(&b.s, "/job:worker/task:0/cpu:0"), "AddVariable", x);
    mr_out both = remote(&b.s, mr_const_str(&b.s, "/job:ps/task:1"), "AddVariable", ps0);
    for (int i = 0; i < 3; i++) { /* registered once, run often */
        MR_CHECK_OK(cluster_fixture_run(&b, x, (float)i, ps0, NULL, &v));
        MR_CHECK_NEAR(v, i + 10, 0);
        MR_CHECK_OK(cluster_fixture_run(&b, x, (float)i, ps1, NULL, &v));
        MR_CHECK_NEAR(v, i + 20, 0);
        MR_CHECK_OK(cluster_fixture_run(&b, x, (float)i, here, NULL, &v));
        MR_CHECK_NEAR(v, i + 30, 0);
        MR_CHECK_OK(cluster_fixture_run(&b, x, (float)i, both, NULL, &v));
        MR_CHECK_NEAR(v, i + 30, 0);
    }
    cluster_fixture_end(&b);
}

MR_TEST(remote_call_runs_on_the_task_that_is_told) { runs_where_it_is_told(mr_net_loop()); }
MR_TEST(remote_call_runs_on_the_task_that_is_told_of_one_host) { runs_where_it_is_told(mr_net_local()); }

/* A run in a thread of its own. */
typedef struct later {
    cluster_fixture *b;
    mr_out fetch;
    float got;
    mr_status *st;
    mr_thread thread;
} later;

static void run_it(void *arg)
{
    later *l = arg;
    l->st = cluster_fixture_run(l->b, cluster_fixture_nothing, 0, l->fetch, NULL, &l->got);
}

static void begin_later(later *l, cluster_fixture *b, mr_out fetch)
{
    *l = (later){.b = b, .fetch = fetch};
    cluster_fixture_session_of(b);
    MR_CHECK_INT(mr_thread_start(&l->thread, "later", run_it, l), 0);
}

/* Each registers that finds nothing registered, and one of the registrations is kept. */
MR_TEST(remote_call_of_one_node_by_several_steps_at_once)
{
    enum { N = 8 };
    cluster_fixture b;
    later l[N];
    cluster_fixture_begin_on(&b, mr_net_local(), 1, 1);
    add_function(&b, "AddVariable", add_variable);
    set_variable(&b, "/job:ps/task:0", 1);
    b.s.device = "/job:worker/task:0";
    mr_out y = remote(&b.s, mr_const_str(&b.s, "/job:ps/task:0"), "AddVariable", mr_const_f32(&b.s, 2));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++)
            begin_later(&l[i], &b, y);
        for (int i = 0; i < N; i++) {
            mr_thread_join(&l[i].thread);
            MR_CHECK_OK(l[i].st);
            MR_CHECK_NEAR(l[i].got, 3, 0);
        }
    }
    cluster_fixture_end(&b);
}

static mr_out check_numbers(mr_scope *s, mr_out a)
{
    return mr_emit_with(s, "CheckNumerics", MR_ATTRS({"message", mr_a_str("no number")}), a);
}

MR_TEST(remote_call_errors_name_the_task)
{
    cluster_fixture b;
    float v = 0;
    cluster_fixture_begin_on(&b, mr_net_local(), 1, 1);
    add_function(&b, "Check", check_numbers);
    b.s.device = "/job:worker/task:0";
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    mr_out y = remote(&b.s, mr_const_str(&b.s, "/job:ps/task:0"), "Check", x);
    MR_CHECK_ERR(cluster_fixture_run(&b, x, INFINITY, y, NULL, &v), MR_INVALID_ARGUMENT,
                 "From /job:worker/replica:0/task:0:\nFrom /job:ps/replica:0/task:0:\nno number");
    MR_CHECK_OK(cluster_fixture_run(&b, x, 2, y, NULL, &v));
    MR_CHECK_NEAR(v, 2, 0);
    mr_out nowhere = remote(&b.s, mr_const_str(&b.s, "/job:ps/task:7"), "Check", x);
    MR_CHECK_ERR(cluster_fixture_run(&b, x, 2, nowhere, NULL, &v), MR_INVALID_ARGUMENT, "no device '/job:ps/task:7'");
    mr_out unknown = remote(&b.s, mr_const_str(&b.s, "/job:ps/task:0"), "Nothing", x);
    MR_CHECK_ERR(cluster_fixture_run(&b, x, 2, unknown, NULL, &v), MR_NOT_FOUND, "Nothing");
    cluster_fixture_end(&b);
}

/* ---- the end of calls that wait ---- */

static const int floats[] = {MR_FLOAT};

static mr_out queue(mr_scope *s)
{
    return mr_emit0_with(s, "FIFOQueueV2", MR_ATTRS({"component_types", mr_a_types(1, floats)}, {"shared_name", mr_a_str("q")}));
}

static mr_out dequeue(mr_scope *s) { return mr_emit_with(s, "QueueDequeueV2", MR_ATTRS({"component_types", mr_a_types(1, floats)}), queue(s)); }

/* Waits for a value that is put into the queue of the task where it runs. */
static mr_out add_dequeued(mr_scope *s, mr_out a) { return mr_emit(s, "AddV2", a, dequeue(s)); }

static mr_out wait_at_ps(cluster_fixture *b)
{
    add_function(b, "AddDequeued", add_dequeued);
    b->s.device = "/job:worker/task:0";
    mr_out y = remote(&b->s, mr_const_str(&b->s, "/job:ps/task:0"), "AddDequeued", mr_const_f32(&b->s, 1));
    b->s.device = "";
    return y;
}

/* What still waited at the other task would take the value. */
static void ends_with_its_step(mr_net *net)
{
    cluster_fixture b;
    float v = 0;
    cluster_fixture_begin_on(&b, net, 1, 1);
    mr_out y = wait_at_ps(&b);
    b.s.device = "/job:ps/task:0";
    mr_node *put = mr_emit_n(&b.s, "QueueEnqueueV2", (mr_named_attr[]){{"Tcomponents", mr_a_types(1, floats)}}, 1,
                             (mr_out[]){queue(&b.s), mr_const_f32(&b.s, 5)}, 2).node;
    mr_out take = dequeue(&b.s);
    MR_CHECK_OK(mr_scope_status(&b.s));
    for (int i = 0; i < 2; i++) { /* while it is registered, or while it runs */
        mr_tensor *t = NULL;
        mr_run_args a = {.fetches = &y, .fetched = &t, .n_fetches = 1};
        mr_run_options o = {.timeout_ms = i ? 200 : 20};
        MR_CHECK_ERR(mr_session_run(cluster_fixture_session_of(&b), &a, &o, NULL), MR_DEADLINE_EXCEEDED, "");
        MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, cluster_fixture_nothing, put, &v));
        MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, take, NULL, &v));
        MR_CHECK_NEAR(v, 5, 0);
    }
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, cluster_fixture_nothing, put, &v));
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, y, NULL, &v));
    MR_CHECK_NEAR(v, 6, 0);
    cluster_fixture_end(&b);
}

MR_TEST(remote_call_ends_with_its_step) { ends_with_its_step(mr_net_loop()); }
MR_TEST(remote_call_ends_with_its_step_of_one_host) { ends_with_its_step(mr_net_local()); }

/* It may have begun, or not: both must end. */
static void begin_waiting(later *l, cluster_fixture *b)
{
    begin_later(l, b, wait_at_ps(b));
    mr_sleep_ns(50000000);
}

static void ends_with_its_session(mr_net *net)
{
    cluster_fixture b;
    later l;
    cluster_fixture_begin_on(&b, net, 1, 1);
    begin_waiting(&l, &b);
    MR_CHECK_OK(mr_session_close(b.session));
    mr_thread_join(&l.thread);
    MR_CHECK_ERR(l.st, MR_CANCELLED, "Close");
    cluster_fixture_end(&b);
}

MR_TEST(remote_call_ends_with_its_session) { ends_with_its_session(mr_net_loop()); }
MR_TEST(remote_call_ends_with_its_session_of_one_host) { ends_with_its_session(mr_net_local()); }

static void ends_with_its_task(mr_net *net)
{
    cluster_fixture b;
    later l;
    cluster_fixture_begin_on(&b, net, 1, 1);
    begin_waiting(&l, &b);
    cluster_fixture_stop_task(&b, 0);
    mr_thread_join(&l.thread);
    MR_CHECK_ERR(l.st, MR_UNAVAILABLE, "/job:ps/replica:0/task:0");
    cluster_fixture_end(&b);
}

MR_TEST(remote_call_ends_with_its_task) { ends_with_its_task(mr_net_loop()); }
MR_TEST(remote_call_ends_with_its_task_of_one_host) { ends_with_its_task(mr_net_local()); }

/* ---- recursion ---- */

static mr_out ping(mr_scope *s, mr_out a) { return remote(s, mr_const_str(s, "/job:worker/task:0"), "Pong", a); }
static mr_out pong(mr_scope *s, mr_out a) { return remote(s, mr_const_str(s, "/job:ps/task:0"), "Ping", a); }

MR_TEST(remote_call_without_end_is_an_error)
{
    cluster_fixture b;
    float v = 0;
    cluster_fixture_begin_on(&b, mr_net_local(), 1, 1);
    add_function(&b, "Ping", ping);
    add_function(&b, "Pong", pong);
    b.s.device = "/job:worker/task:0";
    mr_out y = remote(&b.s, mr_const_str(&b.s, "/job:ps/task:0"), "Ping", mr_const_f32(&b.s, 1));
    MR_CHECK_ERR(cluster_fixture_run(&b, cluster_fixture_nothing, 0, y, NULL, &v), MR_RESOURCE_EXHAUSTED,
                 "nested deeper");
    cluster_fixture_end(&b);
}
