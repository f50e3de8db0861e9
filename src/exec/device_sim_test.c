/* exec/device_sim_test.c -- simulated devices through sessions.  Of time only lower bounds are checked. */
#include "exec/device_sim.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/direct_session.h"
#include "graph/scope.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

enum { SIDE = 64, PRODUCTS = 4 };

typedef struct bench {
    mr_graph *g;
    mr_scope s;
    mr_session *session;
    mr_out x, scale, sum;
    mr_out products[PRODUCTS];
} bench;

static mr_out on(mr_out o, const char *device)
{
    mr_node_set_device(o.node, device);
    return o;
}

/* Products that do not depend on each other, added up.  device NULL: anywhere. */
static void build(bench *b, const char *device)
{
    int32_t dims[] = {SIDE, SIDE}, axes[] = {0, 1};
    mr_ops_register();
    *b = (bench){.g = mr_graph_new()};
    mr_scope_init(&b->s, b->g, "");
    b->scale = mr_placeholder(&b->s, MR_FLOAT, "scale", &mr_pshape_scalar);
    b->x = mr_emit(&b->s, "Fill", mr_const_vec_i32(&b->s, 2, dims), b->scale);
    for (int i = 0; i < PRODUCTS; i++) {
        b->products[i] = mr_emit(&b->s, "MatMul", b->x, b->x);
        if (device)
            on(b->products[i], device);
    }
    mr_out total = mr_emit_n(&b->s, "AddN", NULL, 0, b->products, PRODUCTS);
    b->sum = mr_emit(&b->s, "Mean", total, mr_const_vec_i32(&b->s, 2, axes));
    if (device) {
        on(b->x, "/device:CPU:0");
        on(total, "/device:CPU:0");
        on(b->sum, "/device:CPU:0");
    }
    MR_CHECK_OK(mr_scope_status(&b->s));
}

static mr_status *open_with(bench *b, const char *simulated, mr_session_config c)
{
    mr_device_sims sims = {0};
    MR_CHECK_OK(mr_device_sims_parse(&sims, mr_sv_of(simulated)));
    c.simulated = &sims;
    c.no_cse = true; /* products are to stay many */
    mr_status *st = mr_direct_session_new(b->g, NULL, &c, &b->session);
    mr_device_sims_deinit(&sims);
    return st;
}

static void begin(bench *b, const char *device, const char *simulated)
{
    build(b, device);
    MR_CHECK_OK(open_with(b, simulated, (mr_session_config){0}));
}

static void end(bench *b)
{
    mr_session_free(b->session);
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
}

static mr_status *step(bench *b, float scale, const mr_run_options *o, float *out)
{
    mr_tensor *in = mr_tensor_scalar_f32(scale), *t = NULL;
    mr_run_args a = {.feeds = &b->scale, .feed_values = &in, .n_feeds = 1, .fetches = &b->sum, .fetched = &t, .n_fetches = 1};
    mr_status *st = mr_session_run(b->session, &a, o, NULL);
    if (!st)
        *out = *MR_DATA(float, t);
    mr_tensor_unref(t);
    mr_tensor_unref(in);
    return st;
}

static double timed_step(bench *b)
{
    float v = 0;
    int64_t start = mr_now_ns();
    MR_CHECK_OK(step(b, 2, NULL, &v));
    int64_t took = mr_now_ns() - start;
    MR_CHECK_NEAR(v, 4.0 * SIDE * PRODUCTS, 1e-3);
    return (double)took / 1e9;
}

static mr_device *device_of(bench *b, const char *end)
{
    mr_env *e = &((mr_direct *)b->session)->env;
    for (int i = 0; i < e->n_devices; i++)
        if (strstr(e->devices[i]->name, end))
            return e->devices[i];
    return NULL;
}

static const double product_flops = 2.0 * SIDE * SIDE * SIDE;

MR_TEST(device_sim_takes_the_time_of_its_speed)
{
    bench b;
    char text[100];
    snprintf(text, sizeof text, "SIM:0=flops_per_s=%g,bytes_per_s=1T,op_us=0.001", product_flops / 0.01); /* 10 ms a product */
    begin(&b, "/device:SIM:0", text);
    MR_CHECK(timed_step(&b) >= PRODUCTS * 0.01);
    MR_CHECK(timed_step(&b) >= PRODUCTS * 0.01);
    end(&b);
}

MR_TEST(device_sim_takes_the_time_of_its_memory)
{
    bench b;
    double bytes = 3.0 * 4 * SIDE * SIDE; /* two inputs, one output */
    char text[100];
    snprintf(text, sizeof text, "SIM:0=flops_per_s=1T,bytes_per_s=%g,op_us=0.001", bytes / 0.01);
    begin(&b, "/device:SIM:0", text);
    MR_CHECK(timed_step(&b) >= PRODUCTS * 0.01);
    end(&b);
}

MR_TEST(device_sim_takes_the_least_time_of_a_node)
{
    bench b;
    begin(&b, "/device:SIM:0", "SIM:0=op=10ms");
    MR_CHECK(timed_step(&b) >= PRODUCTS * 0.01);
    end(&b);
}

/* The graph does not know how many rows come. */
MR_TEST(device_sim_counts_sizes_as_they_are)
{
    enum { ROWS = 512 };
    bench b;
    mr_arena a;
    mr_tensor *in = NULL, *out = NULL;
    mr_ops_register();
    mr_arena_init(&a, 0);
    b = (bench){.g = mr_graph_new()};
    mr_scope_init(&b.s, b.g, "");
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", mr_pshape_matrix(&a, -1, SIDE));
    mr_out y = on(mr_emit_with(&b.s, "MatMul", MR_ATTRS({"transpose_b", mr_a_bool(true)}), x, x), "/device:SIM:0");
    MR_CHECK_OK(mr_scope_status(&b.s));
    char text[100]; /* 20 ms by the true size */
    snprintf(text, sizeof text, "SIM:0=flops_per_s=%g,bytes_per_s=1T,op_us=0.001", 2.0 * ROWS * ROWS * SIDE / 0.02);
    MR_CHECK_OK(open_with(&b, text, (mr_session_config){0}));
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 2, (int64_t[]){ROWS, SIDE}, &in));
    memset(in->data, 0, mr_tensor_bytes(in));
    mr_run_args args = {.feeds = &x, .feed_values = &in, .n_feeds = 1, .fetches = &y, .fetched = &out, .n_fetches = 1};
    int64_t start = mr_now_ns();
    MR_CHECK_OK(mr_session_run(b.session, &args, NULL, NULL));
    MR_CHECK(mr_now_ns() - start >= 20000000);
    mr_tensor_unref(out);
    mr_tensor_unref(in);
    mr_arena_deinit(&a);
    end(&b);
}

MR_TEST(device_sim_links_take_time)
{
    bench b;
    begin(&b, "/device:SIM:0", "SIM:0=flops_per_s=1T,bytes_per_s=1T,op_us=0.001,latency_us=0.001; CPU:0>SIM:0=latency_us=30e3,bytes_per_s=1T");
    MR_CHECK(timed_step(&b) >= 0.03);
    end(&b);
    begin(&b, "/device:SIM:0", "SIM:0=flops_per_s=1T,bytes_per_s=1T,op_us=0.001,latency_us=0.001; SIM:0>CPU:0=latency_us=30e3,bytes_per_s=1T");
    MR_CHECK(timed_step(&b) >= 0.03);
    end(&b);
}

/* Four results come back over one link, 5 ms each. */
MR_TEST(device_sim_transfers_of_a_link_follow_each_other)
{
    bench b;
    char text[100];
    snprintf(text, sizeof text, "SIM:0=flops_per_s=1T,bytes_per_s=1T,op_us=0.001;SIM:0>CPU:0=latency_us=0.001,bytes_per_s=%g", 4.0 * SIDE * SIDE / 0.005);
    begin(&b, "/device:SIM:0", text);
    MR_CHECK(timed_step(&b) >= PRODUCTS * 0.005);
    end(&b);
}

MR_TEST(device_sim_between_two_of_them_the_link_counts_once_and_is_told)
{
    bench b;
    double latency, rate;
    begin(&b, "/device:SIM:1", "SIM:0=link_bytes_per_s=3G,latency_us=1;SIM:1=link_bytes_per_s=2G,latency_us=7;SIM:1>SIM:0=bytes_per_s=1G,latency_us=9");
    mr_device *d0 = device_of(&b, "SIM:0"), *d1 = device_of(&b, "SIM:1"), *cpu = device_of(&b, "CPU:0");
    MR_CHECK(d0->type->link(d0, d0, d1, &latency, &rate));
    MR_CHECK_NEAR(rate, 2e9, 1);
    MR_CHECK_NEAR(latency, 7e-6, 1e-12);
    MR_CHECK(d1->type->link(d1, d1, d0, &latency, &rate));
    MR_CHECK_NEAR(rate, 1e9, 1);
    MR_CHECK_NEAR(latency, 9e-6, 1e-12);
    MR_CHECK(d0->type->link(d0, cpu, d0, &latency, &rate));
    MR_CHECK_NEAR(rate, 3e9, 1);
    end(&b);
}

MR_TEST(device_sim_memory_is_limited)
{
    bench b;
    float v;
    begin(&b, "/device:SIM:0", "SIM:0=memory=4k"); /* a product is 16k */
    MR_CHECK_ERR(step(&b, 1, NULL, &v), MR_RESOURCE_EXHAUSTED, "OOM");
    end(&b);
    begin(&b, "/device:SIM:0", "SIM:0=memory=1M");
    timed_step(&b);
    end(&b);
}

MR_TEST(device_sim_attracts_what_asks_for_nothing)
{
    bench b;
    begin(&b, NULL, "SIM:0=op_us=1");
    timed_step(&b);
    MR_CHECK(strstr(((mr_direct *)b.session)->placements.device[b.products[0].node->id], "SIM:0") != NULL);
    end(&b);
    begin(&b, NULL, "SIM:0=op_us=1,priority=1");
    timed_step(&b);
    MR_CHECK(strstr(((mr_direct *)b.session)->placements.device[b.products[0].node->id], "CPU:0") != NULL);
    end(&b);
}

/* Both a node that is under way and those behind it end at once. */
MR_TEST(device_sim_steps_can_be_given_up)
{
    bench b;
    float v;
    mr_run_options o = {.timeout_ms = 20};
    begin(&b, "/device:SIM:0", "SIM:0=op=1000s");
    MR_CHECK_ERR(step(&b, 1, &o, &v), MR_DEADLINE_EXCEEDED, "");
    MR_CHECK_OK(mr_device_sim_slow(device_of(&b, "SIM:0"), 1e-9));
    timed_step(&b);
    end(&b);
    begin(&b, "/device:SIM:0", "SIM:0=op_us=1;SIM:0-CPU:0=latency_us=1e9"); /* a transfer that comes, */
    MR_CHECK_ERR(step(&b, 1, &o, &v), MR_DEADLINE_EXCEEDED, "");
    end(&b);
    begin(&b, "/device:SIM:0", "SIM:0=op_us=1;SIM:0>CPU:0=latency_us=1e9"); /* and one that goes */
    MR_CHECK_ERR(step(&b, 1, &o, &v), MR_DEADLINE_EXCEEDED, "");
    end(&b);
}

/* Stops its own step where it is told to: a cancellation while the kernel runs, without luck. */
static mr_status *run_stop(mr_run *r)
{
    if (*MR_DATA(float, mr_in(r, 0)) > 0)
        mr_cancel_start(r->step->cancel);
    mr_run_pass(r, 0, 0);
    return NULL;
}

static const mr_op stop_op = {.name = "TestStopsItsStep",
                              .sig = "x: float -> y: float",
                              .flags = MR_STATEFUL,
                              .kernels = (const mr_kernel[]){{"CPU", 0, run_stop}, {0}}};

/* The time of a node that was given up is not the next one's to wait for. */
MR_TEST(device_sim_is_free_again_when_a_kernel_runs_as_its_step_is_given_up)
{
    bench b = {.g = mr_graph_new()};
    float v;
    mr_run_options o = {.timeout_ms = 10000};
    mr_ops_register();
    if (!mr_op_find(mr_sv_of(stop_op.name)))
        MR_CHECK_OK(mr_op_register(&stop_op));
    mr_scope_init(&b.s, b.g, "");
    b.scale = mr_placeholder(&b.s, MR_FLOAT, "scale", &mr_pshape_scalar);
    b.sum = on(mr_emit(&b.s, stop_op.name, b.scale), "/device:SIM:0");
    MR_CHECK_OK(mr_scope_status(&b.s));
    MR_CHECK_OK(open_with(&b, "SIM:0=op=1000s", (mr_session_config){0}));
    MR_CHECK_ERR(step(&b, 1, &o, &v), MR_CANCELLED, "");
    MR_CHECK_OK(mr_device_sim_slow(device_of(&b, "SIM:0"), 1e-9));
    MR_CHECK_OK(step(&b, 0, &o, &v));
    end(&b);
}

static mr_status *send_rows(bench *b, int64_t rows, int64_t timeout_ms)
{
    mr_tensor *in = NULL, *t = NULL;
    mr_run_options o = {.timeout_ms = timeout_ms};
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 1, &rows, &in));
    memset(in->data, 0, mr_tensor_bytes(in));
    mr_run_args a = {.feeds = &b->x, .feed_values = &in, .n_feeds = 1, .fetches = &b->sum, .fetched = &t, .n_fetches = 1};
    mr_status *st = mr_session_run(b->session, &a, &o, NULL);
    mr_tensor_unref(t);
    mr_tensor_unref(in);
    return st;
}

/* Nor is a link's: 4 MB take 4000 s, 4 bytes 4 ms. */
MR_TEST(device_sim_links_are_free_again_when_a_transfer_is_given_up)
{
    bench b = {.g = mr_graph_new()};
    mr_arena a;
    mr_ops_register();
    mr_arena_init(&a, 0);
    mr_scope_init(&b.s, b.g, "");
    b.x = mr_placeholder(&b.s, MR_FLOAT, "x", mr_pshape_of(&a, 1, (int64_t[]){-1}));
    b.sum = on(mr_emit(&b.s, "Neg", b.x), "/device:SIM:0");
    MR_CHECK_OK(mr_scope_status(&b.s));
    MR_CHECK_OK(open_with(&b, "SIM:0;CPU:0>SIM:0=latency_us=1,bytes_per_s=1k", (mr_session_config){0}));
    for (int i = 0; i < 3; i++)
        MR_CHECK_ERR(send_rows(&b, 1 << 20, 20), MR_DEADLINE_EXCEEDED, "");
    MR_CHECK_OK(send_rows(&b, 1, 10000));
    mr_arena_deinit(&a);
    end(&b);
}

typedef struct runner {
    bench *b;
    mr_thread thread;
    bool fails;
} runner;

static void run_many(void *arg)
{
    runner *r = arg;
    mr_run_options o = {.timeout_ms = 1};
    for (int i = 0; i < 30; i++) {
        float v = 0;
        mr_status *st = step(r->b, (float)(i % 4), r->fails ? &o : NULL, &v);
        if (!st)
            MR_CHECK_NEAR(v, (i % 4) * (i % 4) * (double)SIDE * PRODUCTS, 1e-3);
        MR_CHECK(!st || r->fails);
        mr_status_free(st);
    }
}

MR_TEST(device_sim_serves_many_steps_at_once_also_such_that_are_given_up)
{
    enum { THREADS = 4 };
    bench b;
    runner r[THREADS];
    begin(&b, "/device:SIM:0", "SIM:0=op_us=100;SIM:0-CPU:0=latency_us=100");
    for (int i = 0; i < THREADS; i++) {
        r[i] = (runner){.b = &b, .fails = i % 2};
        MR_CHECK(mr_thread_start(&r[i].thread, "steps", run_many, &r[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        mr_thread_join(&r[i].thread);
    end(&b);
}

MR_TEST(device_sim_sessions_have_devices_of_their_own)
{
    bench a, b;
    begin(&a, "/device:SIM:0", "SIM:0=op_us=1");
    begin(&b, "/device:GPU:3", "GPU:3=op_us=1");
    timed_step(&a);
    timed_step(&b);
    MR_CHECK(device_of(&a, "GPU:3") == NULL);
    MR_CHECK(device_of(&b, "SIM:0") == NULL);
    end(&a);
    end(&b);
}

MR_TEST(device_sim_as_many_as_the_config_wants)
{
    bench b;
    mr_session_config c = {.n_counts = 1, .counts = {{"SIM", 1}}};
    build(&b, NULL);
    MR_CHECK_OK(open_with(&b, "SIM:0=op_us=1;SIM:1=op_us=1;GPU:0=op_us=1", c));
    MR_CHECK(device_of(&b, "SIM:0") && !device_of(&b, "SIM:1") && device_of(&b, "GPU:0"));
    end(&b);
}

MR_TEST(device_sim_comes_from_the_environment_too)
{
    bench b;
    build(&b, "/device:SIM:0");
    setenv("MILLRACE_SIMULATE", "SIM:0=op_us=1", 1);
    MR_CHECK_OK(mr_direct_session_new(b.g, NULL, &(mr_session_config){0}, &b.session));
    timed_step(&b);
    mr_session_free(b.session);
    b.session = NULL;
    setenv("MILLRACE_SIMULATE", "SIM:0=op=fast", 1);
    MR_CHECK_ERR(mr_direct_session_new(b.g, NULL, &(mr_session_config){0}, &b.session), MR_INVALID_ARGUMENT, "");
    unsetenv("MILLRACE_SIMULATE");
    end(&b);
}

static int count_on(bench *b, const char *device)
{
    int n = 0;
    for (int i = 0; i < PRODUCTS; i++)
        n += strstr(((mr_direct *)b->session)->placements.device[b->products[i].node->id], device) != NULL;
    return n;
}

/* By its promise FAST takes all, 1 ms a product; then it takes 50, while SLOW promises 5.  How many of them go there then is this
 * machine's matter too: under a sanitizer it may need 20 ms for a product itself. */
MR_TEST(device_sim_slowed_down_changes_the_plan)
{
    bench b;
    char text[200];
    build(&b, NULL);
    snprintf(text, sizeof text, "FAST:0=flops_per_s=%g,bytes_per_s=1T,op_us=1,latency_us=1;SLOW:0=flops_per_s=%g,bytes_per_s=1T,op_us=1,latency_us=1",
             product_flops / 1e-3, product_flops / 5e-3);
    MR_CHECK_OK(open_with(&b, text, (mr_session_config){.placement_period = 4}));
    device_of(&b, "CPU:0")->speed = (mr_speed){1e6, 1e6, 1e-3}; /* nothing wants to be there */
    timed_step(&b);
    MR_CHECK_INT(count_on(&b, "FAST"), PRODUCTS);
    MR_CHECK_OK(mr_device_sim_slow(device_of(&b, "FAST:0"), 50));
    for (int i = 1; i < 4; i++) /* these are measured */
        MR_CHECK(timed_step(&b) >= PRODUCTS * 0.05);
    timed_step(&b); /* before it devices are chosen anew */
    MR_CHECK(count_on(&b, "SLOW") > 0);
    end(&b);
}

MR_TEST(device_sim_slowing_refuses_what_cannot_be)
{
    bench b;
    begin(&b, NULL, "SIM:0=op_us=1");
    MR_CHECK_ERR(mr_device_sim_slow(device_of(&b, "CPU:0"), 2), MR_INVALID_ARGUMENT, "");
    MR_CHECK_ERR(mr_device_sim_slow(device_of(&b, "SIM:0"), 0), MR_INVALID_ARGUMENT, "");
    MR_CHECK_ERR(mr_device_sim_slow(device_of(&b, "SIM:0"), -1), MR_INVALID_ARGUMENT, "");
    MR_CHECK_ERR(mr_device_sim_slow(device_of(&b, "SIM:0"), 0.0 / 0.0), MR_INVALID_ARGUMENT, "");
    end(&b);
}

/* ---- text ---- */

static mr_status *parse(const char *text)
{
    mr_device_sims s = {0};
    mr_status *st = mr_device_sims_parse(&s, mr_sv_of(text));
    mr_device_sims_deinit(&s);
    return st;
}

MR_TEST(device_sim_text_is_read)
{
    mr_device_sims s = {0};
    MR_CHECK_OK(mr_device_sims_parse(&s, MR_SV(" GPU:1=speed=2e11,bandwidth=50G,op=5us,memory=4G,latency=10us,link=12G,"
                                               "priority=7 ;; SIM:0 ; GPU:1-SIM:0=latency=2ms,link=1k;SIM:0>CPU:0=link=8M")));
    const mr_device_sim *d = &s.devices.p[0];
    MR_CHECK_INT(s.devices.n, 2);
    MR_CHECK_STR(d->type, "GPU");
    MR_CHECK_INT(d->id, 1);
    MR_CHECK_NEAR(d->speed.flops_per_s, 2e11, 1);
    MR_CHECK_NEAR(d->speed.bytes_per_s, 5e10, 1);
    MR_CHECK_NEAR(d->speed.op_s, 5e-6, 1e-15);
    MR_CHECK_INT(d->memory, INT64_C(4) << 30);
    MR_CHECK_NEAR(d->latency_s, 1e-5, 1e-15);
    MR_CHECK_NEAR(d->link_bytes_per_s, 1.2e10, 1);
    MR_CHECK_INT(d->priority, 7);
    MR_CHECK_INT(s.links.n, 3);
    MR_CHECK_STR(s.links.p[1].from, "SIM:0");
    MR_CHECK_STR(s.links.p[1].to, "GPU:1");
    MR_CHECK_NEAR(s.links.p[1].latency_s, 2e-3, 1e-12);
    MR_CHECK_NEAR(s.links.p[1].bytes_per_s, 1000, 1e-9);
    MR_CHECK_NEAR(s.links.p[2].bytes_per_s, 8e6, 1e-3);
    mr_device_sims_deinit(&s);
}

/* The older names mean the same. */
MR_TEST(device_sim_text_has_the_keys_of_plans)
{
    mr_device_sims s = {0};
    MR_CHECK_OK(mr_device_sims_parse(&s, MR_SV("A:0=speed=2e11,bandwidth=50G,op=5us,memory=4G,latency=10us,link=12G;"
                                               "A:1=flops_per_s=2e11,bytes_per_s=50G,op_us=5,memory_bytes=4G,latency_us=10,"
                                               "link_bytes_per_s=12G;A:0>A:1=latency=2ms,link=1k;A:1>A:0=latency_us=2k,bytes_per_s=1k")));
    s.devices.p[1].id = 0;
    MR_CHECK(memcmp(&s.devices.p[0], &s.devices.p[1], sizeof s.devices.p[0]) == 0);
    MR_CHECK_NEAR(s.links.p[0].latency_s, s.links.p[1].latency_s, 1e-18);
    MR_CHECK_NEAR(s.links.p[0].bytes_per_s, s.links.p[1].bytes_per_s, 0);
    mr_device_sims_deinit(&s);
    MR_CHECK_ERR(parse("GPU:0=flop_per_s=1"), MR_INVALID_ARGUMENT,
                 "unknown key 'flop_per_s' (did you mean 'flops_per_s'?); the keys are flops_per_s,");
    MR_CHECK_ERR(parse("GPU:0=flops_per_s=much"), MR_INVALID_ARGUMENT, "'flops_per_s=much': expected flops_per_s=AMOUNT, as in 4G or 4e9");
    MR_CHECK_ERR(parse("A:0>B:0=op_us=1"), MR_INVALID_ARGUMENT,
                 "unknown key 'op_us'; the keys are latency_us, bytes_per_s");
}

MR_TEST(device_sim_text_that_cannot_be_is_refused)
{
    static const char *const bad[] = {"GPU",           "GPU:",          "GPU:x",       ":0",          "_GPU:0",          "GPU:-1",        "GPU:0=speed",
                                      "GPU:0=speed=",  "GPU:0=speed=-1", "GPU:0=speed=nan", "GPU:0=speed=1e999", "GPU:0=colour=red",
                                      "CPU:0=speed=1", "cpu:1",         "GPU:99999",   "GPU:0-GPU:0", "GPU:0>=link=1", "G:0-H:0=op=1s",
                                      "GPU:0=memory=1e30", "7:0",       "A_very_long_type_of_a_device_indeed:0", "=", "GPU:0,speed=1"};
    for (int i = 0; i < (int)MR_COUNT(bad); i++) {
        mr_status *st = parse(bad[i]);
        if (!st || mr_status_code(st) != MR_INVALID_ARGUMENT)
            mr_test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
        mr_status_free(st);
    }
    MR_CHECK_ERR(parse("GPU:0;GPU:0"), MR_ALREADY_EXISTS, "");
}

static void check_task(const char *text, const char *job, int number, const char *want)
{
    mr_str got = {0};
    MR_CHECK_OK(mr_device_sims_of_task(mr_sv_of(text), job, number, &got));
    MR_CHECK_STR(mr_str_z(&got), want);
    mr_str_deinit(&got);
}

MR_TEST(device_sim_text_for_tasks_is_dealt_out)
{
    static const char text[] = "ALL:0=op=1us; worker/GPU:0=speed=4G ; worker:1/GPU:0=speed=1G;worker:1/GPU:0>CPU:0=latency=1ms;ps/X:0";
    check_task(text, "worker", 0, "ALL:0=op=1us;GPU:0=speed=4G");
    check_task(text, "worker", 1, "ALL:0=op=1us;GPU:0=speed=1G;GPU:0>CPU:0=latency=1ms");
    check_task(text, "ps", 3, "ALL:0=op=1us;X:0");
    check_task("", "ps", 3, "");
    mr_str got = {0};
    MR_CHECK_ERR(mr_device_sims_of_task(MR_SV("ps:x/GPU:0"), "worker", 0, &got), MR_INVALID_ARGUMENT, "ps:x");
    MR_CHECK_ERR(mr_device_sims_of_task(MR_SV("/GPU:0"), "worker", 0, &got), MR_INVALID_ARGUMENT, "job");
    MR_CHECK_ERR(mr_device_sims_of_task(MR_SV("worker/GPU:0=speed=x"), "worker", 0, &got), MR_INVALID_ARGUMENT, "speed=x");
    mr_str_deinit(&got);
}
