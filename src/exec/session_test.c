#include "exec/session.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "graph/library.h"
#include "graph/scope.h"
#include "passes/passes.h"
#include "proto/config.pb-c.h"
#include "tests/harness/test.h"
#include "wire/message.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

typedef struct bench {
    mr_graph *g;
    mr_scope s;
    mr_session *session;
    mr_session_config config;
} bench;

static void begin(bench *b)
{
    mr_ops_register();
    *b = (bench){.g = mr_graph_new()};
    mr_scope_init(&b->s, b->g, "");
}

static mr_session *session_of(bench *b)
{
    MR_CHECK_OK(mr_scope_status(&b->s));
    if (!b->session)
        MR_CHECK_OK(mr_direct_session_new(b->g, NULL, &b->config, &b->session));
    return b->session;
}

static void end(bench *b)
{
    mr_session_free(b->session);
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
}

static mr_out placeholder(bench *b, const char *name)
{
    return mr_placeholder(&b->s, MR_FLOAT, name, NULL);
}

/* One feed (node NULL: none), one fetch. */
static mr_status *run1(bench *b, mr_out feed, float value, mr_out fetch, float *out)
{
    mr_tensor *v = mr_tensor_scalar_f32(value), *got = NULL;
    mr_run_args a = {.feeds = &feed,
                     .feed_values = &v,
                     .n_feeds = feed.node != NULL,
                     .fetches = &fetch,
                     .fetched = &got,
                     .n_fetches = 1};
    mr_status *st = mr_session_run(b->session ? b->session : session_of(b), &a, NULL, NULL);
    if (!st)
        *out = *MR_DATA(float, got);
    MR_CHECK(!st || !got);
    mr_tensor_unref(got);
    mr_tensor_unref(v);
    return st;
}

static mr_status *run_target(bench *b, mr_node *n)
{
    return mr_session_run(session_of(b), &(mr_run_args){.targets = &n, .n_targets = 1}, NULL, NULL);
}

static float value(bench *b, mr_out fetch)
{
    float v;
    MR_CHECK_OK(run1(b, MR_NO_OUT, 0, fetch, &v));
    return v;
}

MR_TEST(session_feeds_and_fetches)
{
    bench b;
    begin(&b);
    mr_out x = placeholder(&b, "x"), y = mr_emit(&b.s, "AddV2", x, mr_const_f32(&b.s, 1));
    float v;
    for (int i = 0; i < 3; i++) {
        MR_CHECK_OK(run1(&b, x, (float)i, y, &v));
        MR_CHECK_NEAR(v, i + 1, 0);
    }
    end(&b);
}

/* As in TensorFlow it is the first run that needs an executor. */
MR_TEST(session_refuses_an_unknown_executor_type)
{
    for (int i = 0; i < 3; i++) {
        bench b;
        float got = 0;
        begin(&b);
        Tensorflow__ConfigProto c = TENSORFLOW__CONFIG_PROTO__INIT;
        Tensorflow__ConfigProto__Experimental e = TENSORFLOW__CONFIG_PROTO__EXPERIMENTAL__INIT;
        mr_str bytes = {0};
        e.executor_type = i == 0 ? "UNKNOWN" : i == 1 ? "DEFAULT" : "SINGLE_THREADED_EXECUTOR";
        c.experimental = &e;
        MR_CHECK_OK(mr_message_pack(&c.base, &bytes));
        MR_CHECK_OK(mr_session_config_parse(mr_str_view(&bytes), &b.config));
        mr_out one = mr_const_f32(&b.s, 1);
        mr_status *st = run1(&b, MR_NO_OUT, 0, one, &got);
        if (i == 0)
            MR_CHECK_ERR(st, MR_NOT_FOUND, "No executor factory registered for the given executor type: UNKNOWN");
        else
            MR_CHECK_OK(st);
        mr_str_deinit(&bytes);
        end(&b);
    }
}

MR_TEST(session_sees_nodes_added_later)
{
    bench b;
    begin(&b);
    mr_out x = mr_const_f32(&b.s, 2);
    MR_CHECK_NEAR(value(&b, x), 2, 0);
    mr_out y = mr_emit(&b.s, "Mul", x, mr_emit(&b.s, "Neg", x));
    MR_CHECK_NEAR(value(&b, y), -4, 0);
    end(&b);
}

MR_TEST(session_feeds_any_output)
{
    bench b;
    begin(&b);
    mr_out x = placeholder(&b, "x"), mid = mr_emit(&b.s, "Neg", x), y = mr_emit(&b.s, "Neg", mid);
    float v;
    MR_CHECK_OK(run1(&b, mid, 5, y, &v)); /* x is not needed */
    MR_CHECK_NEAR(v, -5, 0);
    MR_CHECK_ERR(run1(&b, MR_NO_OUT, 0, y, &v), MR_INVALID_ARGUMENT,
                 "You must feed a value for placeholder tensor 'x'");
    end(&b);
}

MR_TEST(session_gives_a_fetch_listed_twice_twice)
{
    bench b;
    begin(&b);
    mr_out x = mr_const_f32(&b.s, 2), y = mr_emit(&b.s, "Neg", x), fetches[] = {y, x, y};
    mr_tensor *got[3];
    MR_CHECK_OK(mr_session_run(session_of(&b),
                               &(mr_run_args){.fetches = fetches, .fetched = got, .n_fetches = 3},
                               NULL, NULL));
    MR_CHECK_NEAR(*MR_DATA(float, got[0]), -2, 0);
    MR_CHECK_NEAR(*MR_DATA(float, got[1]), 2, 0);
    MR_CHECK_NEAR(*MR_DATA(float, got[2]), -2, 0);
    for (int i = 0; i < 3; i++)
        mr_tensor_unref(got[i]);
    end(&b);
}

MR_TEST(session_does_not_mind_the_order_of_feeds)
{
    bench b;
    begin(&b);
    mr_out x = placeholder(&b, "x"), y = placeholder(&b, "y"), z = mr_emit(&b.s, "Sub", x, y);
    mr_tensor *two = mr_tensor_scalar_f32(2), *five = mr_tensor_scalar_f32(5), *got;
    for (int i = 0; i < 4; i++) {
        mr_out feeds[] = {i % 2 ? x : y, i % 2 ? y : x};
        mr_tensor *values[] = {i % 2 ? five : two, i % 2 ? two : five};
        MR_CHECK_OK(mr_session_run(session_of(&b),
                                   &(mr_run_args){.feeds = feeds,
                                                  .feed_values = values,
                                                  .n_feeds = 2,
                                                  .fetches = &z,
                                                  .fetched = &got,
                                                  .n_fetches = 1},
                                   NULL, NULL));
        MR_CHECK_NEAR(*MR_DATA(float, got), 3, 0);
        mr_tensor_unref(got);
    }
    mr_tensor_unref(two);
    mr_tensor_unref(five);
    end(&b);
}

/* ---- errors ---- */

MR_TEST(session_refuses_bad_requests)
{
    bench b;
    begin(&b);
    mr_out x = placeholder(&b, "x"), y = mr_emit(&b.s, "Neg", x), twice[] = {x, x},
           beyond = {x.node, 1};
    mr_session *s = session_of(&b);
    mr_tensor *f = mr_tensor_scalar_f32(1), *i = mr_tensor_scalar_i32(1), *values[] = {f, f},
              *got = NULL, *none = NULL;
    MR_CHECK_ERR(mr_session_run(s, &(mr_run_args){0}, NULL, NULL), MR_INVALID_ARGUMENT,
                 "Must specify at least one target");
    mr_run_args a = {.feeds = twice,
                     .feed_values = values,
                     .n_feeds = 2,
                     .fetches = &y,
                     .fetched = &got,
                     .n_fetches = 1};
    MR_CHECK_ERR(mr_session_run(s, &a, NULL, NULL), MR_INVALID_ARGUMENT, "fed more than once");
    a.n_feeds = 1;
    a.fetches = &x;
    MR_CHECK_ERR(mr_session_run(s, &a, NULL, NULL), MR_INVALID_ARGUMENT, "both fed and fetched");
    a.fetches = &beyond;
    MR_CHECK_ERR(mr_session_run(s, &a, NULL, NULL), MR_INVALID_ARGUMENT, "x:1");
    a.fetches = &y;
    a.feed_values = &i;
    MR_CHECK_ERR(mr_session_run(s, &a, NULL, NULL), MR_INVALID_ARGUMENT,
                 "to be float but int32 is provided");
    a.feed_values = &none;
    MR_CHECK_ERR(mr_session_run(s, &a, NULL, NULL), MR_INVALID_ARGUMENT, "has no value");
    mr_tensor_unref(f);
    mr_tensor_unref(i);
    end(&b);
}

MR_TEST(session_misses_dead_fetches)
{
    bench b;
    begin(&b);
    mr_out sw =
        mr_emit(&b.s, "Switch", placeholder(&b, "x"), mr_const(&b.s, mr_tensor_scalar_bool(true)));
    float v;
    MR_CHECK_OK(run1(&b, sw.node->in[0], 1, mr_nth(sw, 1), &v));
    MR_CHECK_ERR(run1(&b, sw.node->in[0], 1, sw, &v), MR_INVALID_ARGUMENT,
                 "Retval[0] does not have value");
    end(&b);
}

/* ---- state ---- */

static mr_out variable(bench *b, const char *name)
{
    return mr_emit0_with(
        mr_as(&b->s, name), "VariableV2",
        MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(&mr_pshape_scalar)}));
}

MR_TEST(session_keeps_variables_between_runs)
{
    bench b;
    begin(&b);
    mr_out v = variable(&b, "v"), init = mr_emit(&b.s, "Assign", v, mr_const_f32(&b.s, 1));
    mr_out add = mr_emit(&b.s, "AssignAdd", v, mr_const_f32(&b.s, 2));
    float x;
    MR_CHECK_ERR(run1(&b, MR_NO_OUT, 0, v, &x), MR_FAILED_PRECONDITION,
                 "Attempting to use uninitialized value v");
    MR_CHECK_OK(run_target(&b, init.node));
    for (int i = 0; i < 3; i++)
        MR_CHECK_OK(run_target(&b, add.node));
    MR_CHECK_NEAR(value(&b, v), 7, 0);
    end(&b);
}

MR_TEST(session_results_do_not_change_afterwards)
{
    bench b;
    begin(&b);
    mr_out v = variable(&b, "v"), init = mr_emit(&b.s, "Assign", v, mr_const_f32(&b.s, 1));
    mr_out add = mr_emit(&b.s, "AssignAdd", v, mr_const_f32(&b.s, 2));
    mr_tensor *got;
    MR_CHECK_OK(run_target(&b, init.node));
    MR_CHECK_OK(mr_session_run(session_of(&b),
                               &(mr_run_args){.fetches = &v, .fetched = &got, .n_fetches = 1}, NULL,
                               NULL));
    MR_CHECK_OK(run_target(&b, add.node));
    MR_CHECK_NEAR(*MR_DATA(float, got), 1, 0);
    mr_tensor_unref(got);
    end(&b);
}

MR_TEST(session_reset_clears_containers_and_closes)
{
    bench b;
    begin(&b);
    mr_out v = variable(&b, "v"), init = mr_emit(&b.s, "Assign", v, mr_const_f32(&b.s, 1));
    float x;
    MR_CHECK_OK(run_target(&b, init.node));
    mr_direct_sessions_reset(NULL, 0);
    MR_CHECK_ERR(run1(&b, MR_NO_OUT, 0, v, &x), MR_CANCELLED, "Session has been closed.");
    end(&b);
}

/* ---- ends ---- */

/* A loop that only a cancellation ends. */
static mr_node *endless(bench *b)
{
    mr_node *n;
    mr_out enter = mr_emit_with(&b->s, "Enter", MR_ATTRS({"frame_name", mr_a_str("w")}),
                                mr_const(&b->s, mr_tensor_scalar_bool(true)));
    mr_node_builder *nb = mr_node_begin(b->g, "Merge", "m");
    mr_nb_input_list(nb, (mr_out[]){enter, enter}, 2);
    MR_CHECK_OK(mr_node_finish(nb, &n));
    mr_out m = {n, 0}, cond = mr_emit(&b->s, "LoopCond", m), sw = mr_emit(&b->s, "Switch", m, cond);
    mr_out next = mr_emit(&b->s, "NextIteration", mr_nth(sw, 1));
    MR_CHECK_OK(mr_node_set_input(n, 1, next));
    return mr_emit(&b->s, "Exit", sw).node;
}

MR_TEST(session_timeout_ends_a_run)
{
    bench b;
    begin(&b);
    mr_node *n = endless(&b);
    mr_run_options o = {.timeout_ms = 20};
    MR_CHECK_ERR(
        mr_session_run(session_of(&b), &(mr_run_args){.targets = &n, .n_targets = 1}, &o, NULL),
        MR_DEADLINE_EXCEEDED, "Timed out waiting for notification");
    MR_CHECK_NEAR(value(&b, mr_const_f32(&b.s, 3)), 3, 0); /* it goes on */
    end(&b);
}

static void close_later(void *s)
{
    mr_sleep_ns(20000000);
    MR_CHECK_OK(mr_session_close(s));
}

MR_TEST(session_close_cancels_running_steps)
{
    bench b;
    begin(&b);
    mr_node *n = endless(&b);
    mr_thread t;
    MR_CHECK_INT(mr_thread_start(&t, "closer", close_later, session_of(&b)), 0);
    MR_CHECK_ERR(run_target(&b, n), MR_CANCELLED, "cancelled");
    mr_thread_join(&t);
    MR_CHECK_ERR(run_target(&b, n), MR_CANCELLED, "Session has been closed.");
    end(&b);
}

/* ---- threads ---- */

typedef struct client {
    bench *b;
    mr_out x, y;
    mr_thread t;
} client;

static void run_many(void *arg)
{
    client *c = arg;
    float v;
    for (int i = 0; i < 300; i++) {
        MR_CHECK_OK(run1(c->b, c->x, (float)i, c->y, &v));
        MR_CHECK_NEAR(v, i + 10, 0);
    }
}

MR_TEST(session_runs_from_many_threads)
{
    bench b;
    begin(&b);
    mr_out x = placeholder(&b, "x"), y = x;
    for (int i = 0; i < 10; i++)
        y = mr_emit(&b.s, "AddV2", y, mr_const_f32(&b.s, 1));
    session_of(&b);
    client c[4];
    for (int i = 0; i < 4; i++) {
        c[i] = (client){.b = &b, .x = x, .y = y};
        MR_CHECK_INT(mr_thread_start(&c[i].t, "client", run_many, &c[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        mr_thread_join(&c[i].t);
    end(&b);
}

MR_TEST(session_restores_the_callers_float_mode)
{
    bench b;
    begin(&b);
    volatile float tiny = 1e-40f;
    MR_CHECK_NEAR(value(&b, mr_const_f32(&b.s, 3)), 3, 0);
    MR_CHECK(tiny * 1.0f != 0.0f);
    end(&b);
}

/* Of a denormal: -1, or 0 where it is flushed. */
static float floor_of_a_denormal(bool no_fold)
{
    bench b;
    begin(&b);
    b.config.no_fold = no_fold;
    float v = value(&b, mr_emit(&b.s, "Floor", mr_const_f32(&b.s, -1e-40f)));
    end(&b);
    return v;
}

MR_TEST(session_folds_denormals_as_it_runs_them)
{
    MR_CHECK_NEAR(floor_of_a_denormal(false), floor_of_a_denormal(true), 0);
}

/* ---- devices ---- */

MR_TEST(session_spans_devices)
{
    bench b;
    begin(&b);
    b.config.n_cpus = 2;
    mr_out x = placeholder(&b, "x");
    b.s.device = "/device:CPU:1";
    mr_out y = mr_emit(&b.s, "AddV2", x, mr_const_f32(&b.s, 1));
    b.s.device = "/device:CPU:0";
    mr_out z = mr_emit(&b.s, "Mul", y, x);
    float v;
    for (int i = 0; i < 5; i++) {
        MR_CHECK_OK(run1(&b, x, (float)i, z, &v));
        MR_CHECK_NEAR(v, (i + 1) * i, 0);
    }
    end(&b);
}

/* One output to two devices whose numbers have the same last byte: two transfers, not one. */
MR_TEST(session_spans_many_devices)
{
    bench b;
    begin(&b);
    b.config.n_cpus = 300;
    mr_out x = placeholder(&b, "x");
    b.s.device = "/device:CPU:1";
    mr_out y = mr_emit(&b.s, "Neg", x);
    b.s.device = "/device:CPU:257";
    mr_out z = mr_emit(&b.s, "Square", x);
    b.s.device = "/device:CPU:0";
    float v;
    MR_CHECK_OK(run1(&b, x, 3, mr_emit(&b.s, "AddV2", y, z), &v));
    MR_CHECK_NEAR(v, 6, 0);
    end(&b);
}

/* i from 0 to x; the addition runs on the second device, and so may what leads back. */
static void loop_over_devices(const char *back)
{
    bench b;
    begin(&b);
    b.config.n_cpus = 2;
    mr_named_attr in[] = {{"frame_name", mr_a_str("w")}, {"is_constant", mr_a_bool(false)}};
    mr_named_attr constant[] = {{"frame_name", mr_a_str("w")}, {"is_constant", mr_a_bool(true)}};
    mr_out x = placeholder(&b, "x"), zero = mr_const_f32(&b.s, 0), one = mr_const_f32(&b.s, 1);
    b.s.device = "/device:CPU:0";
    mr_out first = mr_emit_n(&b.s, "Enter", in, 2, &zero, 1),
           limit = mr_emit_n(&b.s, "Enter", constant, 2, &x, 1);
    mr_out m = mr_emit(&b.s, "Merge", first, first),
           cond = mr_emit(&b.s, "LoopCond", mr_emit(&b.s, "Less", m, limit));
    mr_out sw = mr_emit(&b.s, "Switch", m, cond);
    b.s.device = "/device:CPU:1";
    mr_out step = mr_emit_n(&b.s, "Enter", constant, 2, &one, 1),
           sum = mr_emit(&b.s, "AddV2", mr_nth(sw, 1), step);
    b.s.device = back;
    MR_CHECK_OK(mr_node_set_input(m.node, 1, mr_emit(&b.s, "NextIteration", sum)));
    b.s.device = "/device:CPU:0";
    mr_out out = mr_emit(&b.s, "Exit", sw);
    float v;
    int limits[] = {0, 1, 2, 50, 300};
    for (int i = 0; i < MR_COUNT(limits); i++) {
        MR_CHECK_OK(run1(&b, x, (float)limits[i], out, &v));
        MR_CHECK_NEAR(v, limits[i], 0);
    }
    end(&b);
}

MR_TEST(session_loops_over_devices) { loop_over_devices("/device:CPU:0"); }
MR_TEST(session_loops_back_from_another_device) { loop_over_devices("/device:CPU:1"); }

/* A conditional whose sides are on two devices: deadness travels too. */
MR_TEST(session_conditionals_span_devices)
{
    bench b;
    begin(&b);
    b.config.n_cpus = 2;
    mr_out x = placeholder(&b, "x"), pred = mr_emit(&b.s, "Less", x, mr_const_f32(&b.s, 5));
    mr_out sw = mr_emit(&b.s, "Switch", x, pred);
    b.s.device = "/device:CPU:1";
    mr_out no = mr_emit(&b.s, "Neg", sw), yes = mr_emit(&b.s, "Square", mr_nth(sw, 1));
    b.s.device = "/device:CPU:0";
    mr_out y = mr_emit(&b.s, "Merge", no, yes);
    float v;
    for (int i = 0; i < 3; i++) {
        MR_CHECK_OK(run1(&b, x, 3, y, &v));
        MR_CHECK_NEAR(v, 9, 0);
        MR_CHECK_OK(run1(&b, x, 7, y, &v));
        MR_CHECK_NEAR(v, -7, 0);
    }
    end(&b);
}

MR_TEST(session_lists_devices)
{
    bench b;
    begin(&b);
    b.config.n_cpus = 3;
    mr_device_info *d;
    int n;
    mr_session *s = session_of(&b);
    MR_CHECK_OK(s->ops->list_devices(s, &d, &n));
    MR_CHECK_INT(n, 3);
    MR_CHECK_STR(d[2].name, "/job:localhost/replica:0/task:0/device:CPU:2");
    MR_CHECK_STR(d[2].type, "CPU");
    MR_CHECK(d[0].incarnation != 0 && d[0].memory_limit == 256 << 20);
    mr_device_infos_free(d, n);
    end(&b);
}

MR_TEST(session_refuses_absurd_device_counts)
{
    bench b;
    begin(&b);
    b.config.n_cpus = -1;
    MR_CHECK_ERR(mr_direct_session_new(b.g, NULL, &b.config, &b.session), MR_INVALID_ARGUMENT,
                 "device_count");
    b.config.n_cpus = INT32_MAX;
    MR_CHECK_ERR(mr_direct_session_new(b.g, NULL, &b.config, &b.session), MR_INVALID_ARGUMENT,
                 "device_count");
    b.session = NULL;
    end(&b);
}

MR_TEST(session_keeps_to_its_memory_limit)
{
    bench b;
    begin(&b);
    b.config.memory_limit = 1 << 20;
    mr_out n = mr_emit0_with(&b.s, "Placeholder", MR_ATTRS({"dtype", mr_a_type(MR_INT32)}));
    mr_out big = mr_emit(&b.s, "Fill", n, mr_const_f32(&b.s, 1));
    mr_session *session = session_of(&b);
    for (int i = 0; i < 2; i++) {
        mr_tensor *size = mr_tensor_vector_i32(1, &(int32_t){i ? 1000 : 1 << 20}), *got = NULL;
        mr_run_args a = {.feeds = &n, .feed_values = &size, .n_feeds = 1, .fetches = &big,
                         .fetched = &got, .n_fetches = 1};
        mr_status *st = mr_session_run(session, &a, NULL, NULL);
        if (i == 0)
            MR_CHECK_ERR(st, MR_RESOURCE_EXHAUSTED, "OOM when allocating tensor");
        else
            MR_CHECK_OK(st);
        mr_tensor_unref(got);
        mr_tensor_unref(size);
    }
    end(&b);
}

MR_TEST(session_logs_placements)
{
    bench b;
    begin(&b);
    b.config.log_placement = true;
    char *path = mr_printf("%s/log", mr_test_dir());
    int saved = dup(2);
    MR_CHECK(freopen(path, "w", stderr));
    mr_out x = placeholder(&b, "x"), y = mr_emit(mr_as(&b.s, "minus"), "Neg", x);
    float v;
    mr_status *st = run1(&b, x, 1, y, &v);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    MR_CHECK_OK(st);
    mr_str text = {0};
    MR_CHECK_OK(mr_file_read_all(path, &text));
    MR_CHECK(strstr(mr_str_z(&text),
                    "minus: (Neg): /job:localhost/replica:0/task:0/device:CPU:0\n"));
    mr_str_deinit(&text);
    mr_free(path);
    end(&b);
}

static void check_threads(int inter, int intra, bool own)
{
    bench b;
    begin(&b);
    b.config = (mr_session_config){
        .inter_threads = inter, .intra_threads = intra, .per_session_threads = own};
    mr_out x = placeholder(&b, "x");
    float v;
    MR_CHECK_OK(run1(&b, x, 4, mr_emit(&b.s, "Neg", x), &v));
    MR_CHECK_NEAR(v, -4, 0);
    end(&b);
}

MR_TEST(session_runs_with_any_thread_setting)
{
    int settings[] = {-1, 0, 1, 3};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            check_threads(settings[i], settings[k], false);
            check_threads(settings[i], settings[k], true);
        }
}

/* ---- what it tells ---- */

MR_TEST(session_traces_steps)
{
    bench b;
    begin(&b);
    mr_out x = placeholder(&b, "x"), y = mr_emit(mr_as(&b.s, "minus"), "Neg", x);
    mr_tensor *v = mr_tensor_scalar_f32(1), *got;
    mr_str meta = {0};
    mr_run_options o = {.trace_level = 3, .output_partition_graphs = true};
    MR_CHECK_OK(mr_session_run(session_of(&b),
                               &(mr_run_args){.feeds = &x,
                                              .feed_values = &v,
                                              .n_feeds = 1,
                                              .fetches = &y,
                                              .fetched = &got,
                                              .n_fetches = 1},
                               &o, &meta));
    Tensorflow__RunMetadata *m;
    MR_CHECK_OK(mr_message_unpack(&tensorflow__run_metadata__descriptor, mr_str_view(&meta),
                                  "RunMetadata", (ProtobufCMessage **)&m));
    MR_CHECK_INT(m->step_stats->n_dev_stats, 1);
    const Tensorflow__DeviceStepStats *d = m->step_stats->dev_stats[0];
    MR_CHECK_STR(d->device, "/job:localhost/replica:0/task:0/device:CPU:0");
    MR_CHECK_INT(d->n_node_stats, 3); /* _Arg, Neg, _Retval */
    bool found = false;
    for (size_t i = 0; i < d->n_node_stats; i++)
        if (strcmp(d->node_stats[i]->node_name, "minus") == 0) {
            found = true;
            MR_CHECK(strstr(d->node_stats[i]->timeline_label, "minus = Neg("));
            MR_CHECK(d->node_stats[i]->all_start_micros > INT64_C(1500000000000000));
            MR_CHECK_INT(d->node_stats[i]->n_output, 1);
            MR_CHECK_INT(d->node_stats[i]->output[0]->tensor_description->dtype, MR_FLOAT);
        }
    MR_CHECK(found);
    MR_CHECK_INT(m->n_partition_graphs, 1);
    MR_CHECK_INT(m->partition_graphs[0]->n_node, 3);
    mr_message_free(&m->base);
    mr_str_deinit(&meta);
    mr_tensor_unref(v);
    mr_tensor_unref(got);
    end(&b);
}

MR_TEST(config_reads_what_a_session_cares_about)
{
    Tensorflow__ConfigProto c;
    tensorflow__config_proto__init(&c);
    Tensorflow__ConfigProto__DeviceCountEntry cpu;
    tensorflow__config_proto__device_count_entry__init(&cpu);
    cpu.key = (char *)(uintptr_t) "CPU";
    cpu.value = 4;
    c.device_count = (Tensorflow__ConfigProto__DeviceCountEntry *[]){&cpu};
    c.n_device_count = 1;
    c.inter_op_parallelism_threads = 2;
    c.intra_op_parallelism_threads = 3;
    c.allow_soft_placement = true;
    c.operation_timeout_in_ms = 77;
    Tensorflow__GraphOptions g;
    tensorflow__graph_options__init(&g);
    Tensorflow__OptimizerOptions o;
    tensorflow__optimizer_options__init(&o);
    o.opt_level = TENSORFLOW__OPTIMIZER_OPTIONS__LEVEL__L0;
    o.do_constant_folding = true;
    g.optimizer_options = &o;
    c.graph_options = &g;
    mr_str bytes = {0};
    MR_CHECK_OK(mr_message_pack(&c.base, &bytes));
    mr_session_config got;
    MR_CHECK_OK(mr_session_config_parse(mr_str_view(&bytes), &got));
    mr_str_deinit(&bytes);
    MR_CHECK(got.n_cpus == 4 && got.inter_threads == 2 && got.intra_threads == 3 &&
             got.timeout_ms == 77);
    MR_CHECK(got.soft_placement && !got.log_placement && got.no_cse && !got.no_fold);
    MR_CHECK_OK(mr_session_config_parse(MR_SV(""), &got));
    MR_CHECK(got.n_cpus == 0 && !got.no_cse);
    MR_CHECK_ERR(mr_session_config_parse(MR_SV("\xff\xff"), &got), MR_INVALID_ARGUMENT,
                 "ConfigProto");
}

static mr_session_config graph_config(int level, bool schedule, bool lossy)
{
    Tensorflow__ConfigProto c;
    Tensorflow__GraphOptions g;
    Tensorflow__OptimizerOptions o;
    tensorflow__config_proto__init(&c);
    tensorflow__graph_options__init(&g);
    tensorflow__optimizer_options__init(&o);
    o.opt_level = (Tensorflow__OptimizerOptions__Level)level;
    g.optimizer_options = &o;
    g.enable_recv_scheduling = schedule;
    g.enable_bfloat16_sendrecv = lossy;
    c.graph_options = &g;
    mr_str bytes = {0};
    mr_session_config got;
    MR_CHECK_OK(mr_message_pack(&c.base, &bytes));
    MR_CHECK_OK(mr_session_config_parse(mr_str_view(&bytes), &got));
    mr_str_deinit(&bytes);
    return got;
}

/* Scheduling is a pass like the others: level L0 is without, unless it is asked for.  Lossy edges are only by wish. */
MR_TEST(session_config_switches_what_goes_between_tasks)
{
    const int l0 = TENSORFLOW__OPTIMIZER_OPTIONS__LEVEL__L0, l1 = TENSORFLOW__OPTIMIZER_OPTIONS__LEVEL__L1;
    MR_CHECK(graph_config(l1, false, false).schedule == MR_SCHEDULE_REMOTE && !graph_config(l1, false, false).lossy_sends);
    MR_CHECK(graph_config(l0, false, false).schedule == MR_SCHEDULE_NONE);
    MR_CHECK(graph_config(l0, true, false).schedule == MR_SCHEDULE_REMOTE);
    MR_CHECK(graph_config(l1, false, true).lossy_sends);
}

/* Packs and reads a ConfigProto with these options of the optimizers. */
static mr_session_config optimizer_config(int level, int remapping)
{
    Tensorflow__ConfigProto c;
    Tensorflow__GraphOptions g;
    Tensorflow__OptimizerOptions o;
    Tensorflow__RewriterConfig r;
    tensorflow__config_proto__init(&c);
    tensorflow__graph_options__init(&g);
    tensorflow__optimizer_options__init(&o);
    tensorflow__rewriter_config__init(&r);
    o.opt_level = (Tensorflow__OptimizerOptions__Level)level;
    r.remapping = (Tensorflow__RewriterConfig__Toggle)remapping;
    g.optimizer_options = &o;
    g.rewrite_options = &r;
    c.graph_options = &g;
    mr_str bytes = {0};
    mr_session_config got;
    MR_CHECK_OK(mr_message_pack(&c.base, &bytes));
    MR_CHECK_OK(mr_session_config_parse(mr_str_view(&bytes), &got));
    mr_str_deinit(&bytes);
    return got;
}

MR_TEST(session_config_switches_fusion_off_with_remapping_or_level_l0)
{
    const int l0 = TENSORFLOW__OPTIMIZER_OPTIONS__LEVEL__L0, l1 = TENSORFLOW__OPTIMIZER_OPTIONS__LEVEL__L1;
    const int on = TENSORFLOW__REWRITER_CONFIG__TOGGLE__ON, off = TENSORFLOW__REWRITER_CONFIG__TOGGLE__OFF;
    MR_CHECK(!optimizer_config(l1, on).no_fuse);
    MR_CHECK(optimizer_config(l1, off).no_fuse && !optimizer_config(l1, off).no_fold);
    MR_CHECK(optimizer_config(l0, on).no_fuse);
}

MR_TEST(run_options_are_read)
{
    mr_run_options o;
    MR_CHECK_OK(mr_run_options_parse(MR_SV("\x08\x03\x10\x05\x28\x01"), &o));
    MR_CHECK(o.trace_level == 3 && o.timeout_ms == 5 && o.output_partition_graphs &&
             !o.inter_op_in_caller);
    MR_CHECK_ERR(mr_run_options_parse(MR_SV("\xff\xff"), &o), MR_INVALID_ARGUMENT, "RunOptions");
}

/* ---- partial runs ---- */

typedef struct partial {
    bench b;
    mr_out x, y, sum, twice; /* sum = x + y, twice = 2 x */
    char *handle;
} partial;

static void begin_partial(partial *p)
{
    begin(&p->b);
    p->x = placeholder(&p->b, "x");
    p->y = placeholder(&p->b, "y");
    p->twice = mr_emit(mr_as(&p->b.s, "twice"), "AddV2", p->x, p->x);
    p->sum = mr_emit(mr_as(&p->b.s, "sum"), "AddV2", p->x, p->y);
    mr_out feeds[] = {p->x, p->y}, fetches[] = {p->sum, p->twice};
    mr_session *s = session_of(&p->b);
    MR_CHECK_OK(s->ops->partial_setup(
        s, &(mr_run_args){.feeds = feeds, .n_feeds = 2, .fetches = fetches, .n_fetches = 2},
        &p->handle));
}

static void end_partial(partial *p)
{
    mr_free(p->handle);
    end(&p->b);
}

static mr_status *partial_step(partial *p, mr_out feed, float v, mr_out fetch, float *out)
{
    mr_session *s = p->b.session;
    mr_tensor *t = mr_tensor_scalar_f32(v), *got = NULL;
    mr_run_args a = {.feeds = &feed,
                     .feed_values = &t,
                     .n_feeds = feed.node != NULL,
                     .fetches = &fetch,
                     .fetched = &got,
                     .n_fetches = fetch.node != NULL};
    mr_status *st = s->ops->partial_run(s, p->handle, &a, NULL);
    if (got)
        *out = *MR_DATA(float, got);
    mr_tensor_unref(got);
    mr_tensor_unref(t);
    return st;
}

MR_TEST(partial_run_feeds_and_fetches_piece_by_piece)
{
    partial p;
    begin_partial(&p);
    float v = 0;
    MR_CHECK_OK(partial_step(&p, p.x, 3, p.twice, &v));
    MR_CHECK_NEAR(v, 6, 0);
    MR_CHECK_OK(partial_step(&p, p.y, 4, MR_NO_OUT, &v));
    MR_CHECK_OK(partial_step(&p, MR_NO_OUT, 0, p.sum, &v));
    MR_CHECK_NEAR(v, 7, 0);
    MR_CHECK_ERR(partial_step(&p, MR_NO_OUT, 0, p.sum, &v), MR_INVALID_ARGUMENT,
                 "Must run 'setup'");
    end_partial(&p);
}

MR_TEST(partial_run_checks_its_use)
{
    partial p;
    begin_partial(&p);
    mr_out other = mr_emit(mr_as(&p.b.s, "other"), "Neg", p.x);
    float v = 0;
    MR_CHECK_ERR(partial_step(&p, p.x, 1, other, &v), MR_INVALID_ARGUMENT,
                 "The fetch other:0 was not specified in partial_run_setup.");
    MR_CHECK_ERR(partial_step(&p, other, 1, p.sum, &v), MR_INVALID_ARGUMENT,
                 "The feed other:0 was not specified in partial_run_setup.");
    MR_CHECK_ERR(partial_step(&p, p.x, 1, p.sum, &v), MR_INVALID_ARGUMENT,
                 "Fetch sum:0 can't be computed from the feeds that have been fed so far.");
    MR_CHECK_OK(partial_step(&p, p.x, 1, p.twice, &v));
    MR_CHECK_ERR(partial_step(&p, p.x, 1, p.sum, &v), MR_INVALID_ARGUMENT,
                 "The feed x:0 has already been fed.");
    MR_CHECK_ERR(partial_step(&p, p.y, 1, p.twice, &v), MR_INVALID_ARGUMENT,
                 "The fetch twice:0 has already been fetched.");
    MR_CHECK_OK(partial_step(&p, p.y, 1, p.sum, &v));
    MR_CHECK_NEAR(v, 2, 0);
    end_partial(&p);
}

MR_TEST(partial_run_is_ended_by_the_session)
{
    partial p;
    begin_partial(&p);
    end_partial(&p); /* would hang or leak otherwise */
}

/* A loop that was begun and never closed can be met by running it. */
MR_TEST(session_refuses_an_input_that_is_not_connected)
{
    bench b;
    begin(&b);
    mr_out enter = mr_emit_with(&b.s, "Enter", MR_ATTRS({"frame_name", mr_a_str("w")}), mr_const_f32(&b.s, 1));
    mr_node_builder *nb = mr_node_begin(b.g, "Merge", "open");
    mr_node *merge;
    float v;
    mr_nb_input_list(nb, &enter, 1);
    mr_nb_input_later(nb, MR_FLOAT);
    MR_CHECK_OK(mr_node_finish(nb, &merge));
    MR_CHECK_ERR(run1(&b, (mr_out){NULL, 0}, 0, (mr_out){merge, 0}, &v), MR_INVALID_ARGUMENT, "not connected");
    end(&b);
}
