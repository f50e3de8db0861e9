/* exec/opencl/opencl_test.c -- sessions with an OpenCL device.
 *
 * On a machine without one, pocl's will do: it computes on the CPU, but has memory and a queue like any other. */
#include <stdio.h>
#include <stdlib.h>

#include "exec/opencl/opencl_fixture.h"

MR_TEST(opencl_device_is_listed_as_a_gpu)
{
    gpu_fixture r;
    mr_device_info *d = NULL;
    int n = 0;
    gpu_begin(&r);
    MR_CHECK_OK(gpu_session(&r)->ops->list_devices(r.session, &d, &n));
    MR_CHECK_INT(n, 2);
    MR_CHECK_STR(d[1].name, "/job:localhost/replica:0/task:0/device:GPU:0");
    MR_CHECK_STR(d[1].type, "GPU");
    MR_CHECK(d[1].memory_limit > 1 << 20);
    mr_device_infos_free(d, n);
    gpu_end(&r);
}

MR_TEST(opencl_product_and_sum_of_fed_matrices)
{
    gpu_fixture r;
    gpu_begin(&r);
    r.traced = true;
    mr_out x = mr_placeholder(&r.s, MR_FLOAT, "x", NULL);
    mr_out w = mr_const(&r.s, mr_tensor_of(MR_FLOAT, 2, (int64_t[]){2, 3}, (float[]){1, 2, 3, 4, 5, 6}));
    mr_out b = mr_const(&r.s, mr_tensor_of(MR_FLOAT, 1, (int64_t[]){3}, (float[]){10, 20, 30}));
    mr_out xw = mr_emit(mr_as(&r.s, "xw"), "MatMul", x, w);
    mr_out y = mr_emit(mr_as(&r.s, "y"), "AddV2", xw, b);
    mr_tensor *in = mr_tensor_of(MR_FLOAT, 2, (int64_t[]){2, 2}, (float[]){1, 0, 1, 1}), *out;
    MR_CHECK_OK(gpu_run1(&r, x, in, y, &out));
    static const float want[] = {11, 22, 33, 15, 27, 39};
    MR_CHECK_INT(out->n, 6);
    for (int i = 0; i < 6; i++)
        MR_CHECK_NEAR(MR_DATA(float, out)[i], want[i], 0);
    MR_CHECK_STR(gpu_place_of(&r, "xw"), "GPU");
    MR_CHECK_STR(gpu_place_of(&r, "y"), "GPU");
    mr_tensor_unref(in);
    mr_tensor_unref(out);
    gpu_end(&r);
}

typedef struct timed {
    const char *node;
    int64_t took_us;
} timed;

static void note_time(void *ctx, const char *device, const Tensorflow__NodeExecStats *n)
{
    timed *t = ctx;
    (void)device;
    if (strcmp(n->node_name, t->node) == 0)
        t->took_us = n->all_end_rel_micros;
}

/* Queueing it takes some microseconds; no device that this test will ever run on does it at 10 TFLOP/s. */
MR_TEST(opencl_traced_time_of_a_node_is_that_of_its_work)
{
    gpu_fixture r;
    gpu_begin(&r);
    r.traced = true;
    mr_out x = mr_placeholder(&r.s, MR_FLOAT, "x", NULL);
    mr_out y = mr_emit(mr_as(&r.s, "y"), "MatMul", x, x);
    mr_tensor *in, *out;
    timed t = {"y", 0};
    MR_CHECK_OK(mr_tensor_zeros(NULL, MR_FLOAT, 2, (int64_t[]){1024, 1024}, &in));
    MR_CHECK_OK(gpu_run1(&r, x, in, y, &out));
    gpu_each_node(&r, note_time, &t);
    MR_CHECK(t.took_us > 200);
    mr_tensor_unref(in);
    mr_tensor_unref(out);
    gpu_end(&r);
}

/* ---- values and memory ---- */

static mr_tensor *floats(int64_t n, float first)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 1, &n, &t));
    for (int64_t i = 0; i < n; i++)
        MR_DATA(float, t)[i] = first + (float)i;
    return t;
}

static mr_out variable(gpu_fixture *r, mr_out start, mr_node **assign)
{
    mr_out h = mr_emit0_with(mr_as(&r->s, "v"), "VarHandleOp",
                             MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(&mr_pshape_unknown)}));
    *assign = mr_emit(&r->s, "AssignVariableOp", h, start).node;
    return mr_emit_with(&r->s, "ReadVariableOp", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}), h);
}

/* The copy to the device reads the client's memory where it lies, so the step must not end before it is done. */
MR_TEST(opencl_feeds_may_be_changed_as_soon_as_the_step_is_over)
{
    enum { N = 1 << 20 };
    gpu_fixture r;
    gpu_begin(&r);
    mr_out x = mr_placeholder(&r.s, MR_FLOAT, "x", NULL);
    mr_node *assign;
    mr_out v = variable(&r, x, &assign);
    for (int round = 0; round < 3; round++) {
        mr_tensor *in = floats(N, (float)round), *out;
        mr_run_args a = {.feeds = &x, .feed_values = &in, .n_feeds = 1, .targets = &assign, .n_targets = 1};
        MR_CHECK_OK(gpu_run(&r, &a));
        memset(in->data, 0xff, mr_tensor_bytes(in));
        MR_CHECK_OK(gpu_run1(&r, MR_NO_OUT, NULL, v, &out));
        for (int64_t i = 0; i < N; i += 4097)
            MR_CHECK_NEAR(MR_DATA(float, out)[i], (float)(round + i), 0);
        mr_tensor_unref(in);
        mr_tensor_unref(out);
    }
    gpu_end(&r);
}

typedef struct gate {
    mr_mutex mu;
    mr_cond changed;
    bool open MR_GUARDED_BY(mu), copied MR_GUARDED_BY(mu);
} gate;

static void wait_at_gate(void *arg, mr_status *st)
{
    gate *g = arg;
    MR_CHECK_OK(st);
    mr_lock(&g->mu);
    while (!g->open)
        mr_cond_wait(&g->changed, &g->mu);
    mr_unlock(&g->mu);
}

static void note_copied(void *arg, mr_status *st)
{
    gate *g = arg;
    MR_CHECK_OK(st);
    mr_lock(&g->mu);
    g->copied = true;
    mr_cond_broadcast(&g->changed);
    mr_unlock(&g->mu);
}

/* The one who is told of ends is held up, so no copy can be reported as done; starting more of them goes on all the same. */
MR_TEST(opencl_copies_are_started_without_waiting_for_them)
{
    gate g = {.open = false};
    mr_opencl *const *devices;
    mr_tensor *in = floats(1000, 5), *out = floats(1000, 0), *there;
    gpu_require();
    MR_CHECK(mr_opencl_devices(&devices) > 0);
    mr_mutex_init(&g.mu);
    mr_cond_init(&g.changed);
    MR_CHECK_OK(mr_tensor_new(mr_opencl_allocator(devices[0]->memory), MR_FLOAT, 1, in->dims, &there));
    MR_CHECK(!mr_tensor_on_host(there));
    mr_opencl_copy_in(devices[0], in, there, wait_at_gate, &g);
    mr_opencl_copy_out(devices[0], there, out, note_copied, &g);
    mr_lock(&g.mu);
    MR_CHECK(!g.copied);
    g.open = true;
    mr_cond_broadcast(&g.changed);
    while (!g.copied)
        mr_cond_wait(&g.changed, &g.mu);
    mr_unlock(&g.mu);
    MR_CHECK(mr_tensor_equal(in, out));
    mr_tensor_unref(in);
    mr_tensor_unref(out);
    mr_tensor_unref(there);
}

MR_TEST(opencl_tensors_are_copied_and_zeroed_by_the_device)
{
    mr_opencl *const *devices;
    mr_tensor *in = floats(33, 1), *there, *again, *zeros, *back;
    gpu_require();
    MR_CHECK(mr_opencl_devices(&devices) > 0);
    mr_allocator *a = mr_opencl_allocator(devices[0]->memory);
    MR_CHECK_OK(mr_tensor_copy(a, in, &there));
    MR_CHECK_OK(mr_tensor_copy(a, there, &again));
    MR_CHECK_OK(mr_tensor_copy(NULL, again, &back));
    MR_CHECK(mr_tensor_on_host(back) && mr_tensor_equal(in, back));
    mr_tensor_unref(back);
    MR_CHECK_OK(mr_tensor_zeros(a, MR_FLOAT, 1, in->dims, &zeros));
    MR_CHECK_OK(mr_tensor_copy(NULL, zeros, &back));
    for (int64_t i = 0; i < back->n; i++)
        MR_CHECK_NEAR(MR_DATA(float, back)[i], 0, 0);
    mr_tensor *all[] = {in, there, again, zeros, back};
    for (int i = 0; i < MR_COUNT(all); i++)
        mr_tensor_unref(all[i]);
}

MR_TEST(opencl_memory_that_is_not_there_is_resource_exhausted)
{
    gpu_fixture r;
    setenv("MILLRACE_OPENCL_MEMORY", "4194304", 1);
    gpu_begin(&r);
    mr_out n = mr_placeholder(&r.s, MR_INT32, "n", NULL);
    mr_out one = mr_const_f32(&r.s, 1);
    mr_out big = mr_emit(mr_as(&r.s, "big"), "Fill", n, one);
    mr_out sum = mr_emit(&r.s, "Sum", big, mr_const_i32(&r.s, 0));
    mr_tensor *much = mr_tensor_vector_i32(1, (int32_t[]){1 << 24}), *little = mr_tensor_vector_i32(1, (int32_t[]){1 << 16});
    mr_tensor *out;
    MR_CHECK_ERR(gpu_run1(&r, n, much, sum, &out), MR_RESOURCE_EXHAUSTED, "{{node big}}");
    MR_CHECK_OK(gpu_run1(&r, n, little, sum, &out));
    MR_CHECK_NEAR(*MR_DATA(float, out), 1 << 16, 0);
    mr_tensor_unref(out);
    mr_tensor_unref(much);
    mr_tensor_unref(little);
    gpu_end(&r);
}

/* ---- control flow ---- */

/* The condition is computed on the device and decides on the host. */
MR_TEST(opencl_conditionals_choose_by_values_of_the_device)
{
    gpu_fixture r;
    gpu_begin(&r);
    r.traced = true;
    r.config.no_fold = true;
    mr_out x = mr_placeholder(&r.s, MR_FLOAT, "x", NULL), two = mr_const_f32(&r.s, 2);
    mr_out pred = mr_emit(mr_as(&r.s, "pred"), "Greater", x, two);
    mr_out sw = mr_emit(mr_as(&r.s, "sw"), "Switch", x, pred);
    mr_out yes = mr_emit(&r.s, "Mul", mr_nth(sw, 1), two), no = mr_emit(&r.s, "Neg", sw);
    mr_out y = mr_emit(&r.s, "Merge", no, yes);
    for (int i = 0; i < 4; i++) {
        mr_tensor *in = mr_tensor_scalar_f32((float)i), *out;
        MR_CHECK_OK(gpu_run1(&r, x, in, y, &out));
        MR_CHECK_NEAR(*MR_DATA(float, out), i > 2 ? 2 * i : -i, 0);
        mr_tensor_unref(in);
        mr_tensor_unref(out);
    }
    MR_CHECK_STR(gpu_place_of(&r, "pred"), "GPU");
    MR_CHECK_STR(gpu_place_of(&r, "sw"), "GPU");
    gpu_end(&r);
}

static mr_out fixed_in_loop(mr_scope *s, float v)
{
    return mr_emit_with(s, "Enter", MR_ATTRS({"frame_name", mr_a_str("loop")}, {"is_constant", mr_a_bool(true)}),
                        mr_const_f32(s, v));
}

/* while (x < 1000) x = x * 3, x and its bound on the device. */
MR_TEST(opencl_loops_turn_on_the_device)
{
    gpu_fixture r;
    gpu_begin(&r);
    r.traced = true;
    mr_scope *s = &r.s;
    mr_out x = mr_placeholder(s, MR_FLOAT, "x", NULL);
    mr_out enter = mr_emit_with(s, "Enter", MR_ATTRS({"frame_name", mr_a_str("loop")}), x);
    mr_out bound = fixed_in_loop(s, 1000);
    mr_out three = fixed_in_loop(s, 3);
    mr_out merge = mr_emit(s, "Merge", enter, enter);
    mr_out go_on = mr_emit(s, "LoopCond", mr_emit(mr_as(s, "less"), "Less", merge, bound));
    mr_out sw = mr_emit(s, "Switch", merge, go_on);
    mr_out next = mr_emit(s, "NextIteration", mr_emit(mr_as(s, "mul"), "Mul", mr_nth(sw, 1), three));
    mr_out end = mr_emit(s, "Exit", sw);
    MR_CHECK_OK(mr_scope_status(s));
    MR_CHECK_OK(mr_node_set_input(merge.node, 1, next));
    mr_tensor *in = mr_tensor_scalar_f32(1), *out;
    MR_CHECK_OK(gpu_run1(&r, x, in, end, &out));
    MR_CHECK_NEAR(*MR_DATA(float, out), 2187, 0);
    MR_CHECK_STR(gpu_place_of(&r, "mul"), "GPU");
    mr_tensor_unref(in);
    mr_tensor_unref(out);
    gpu_end(&r);
}

/* ---- several at once ---- */

typedef struct runner {
    mr_thread thread;
    gpu_fixture *r;
    mr_out x, y;
    int k;
    bool right;
} runner;

static void run_many(void *arg)
{
    runner *w = arg;
    w->right = true;
    for (int i = 0; i < 50; i++) {
        mr_tensor *in = floats(2000, (float)w->k), *out = NULL;
        mr_run_args a = {.feeds = &w->x, .feed_values = &in, .n_feeds = 1, .fetches = &w->y, .fetched = &out, .n_fetches = 1};
        mr_status *st = mr_session_run(w->r->session, &a, NULL, NULL);
        w->right &= !st && MR_DATA(float, out)[1999] == 2 * (float)(w->k + 1999);
        mr_status_free(st);
        mr_tensor_unref(in);
        mr_tensor_unref(out);
    }
}

MR_TEST(opencl_serves_two_sessions_and_many_steps_at_once)
{
    gpu_fixture rigs[2];
    runner runners[4];
    for (int i = 0; i < 2; i++) {
        gpu_begin(&rigs[i]);
        mr_out x = mr_placeholder(&rigs[i].s, MR_FLOAT, "x", NULL), y = mr_emit(&rigs[i].s, "AddV2", x, x);
        gpu_session(&rigs[i]);
        for (int k = i; k < 4; k += 2)
            runners[k] = (runner){.r = &rigs[i], .x = x, .y = y, .k = k};
    }
    for (int k = 0; k < 4; k++)
        MR_CHECK_INT(mr_thread_start(&runners[k].thread, "run", run_many, &runners[k]), 0);
    for (int k = 0; k < 4; k++) {
        mr_thread_join(&runners[k].thread);
        MR_CHECK(runners[k].right);
    }
    gpu_end(&rigs[0]);
    gpu_end(&rigs[1]);
}

/* ---- trouble ---- */

MR_TEST(opencl_error_of_a_kernel_names_its_node)
{
    gpu_fixture r;
    gpu_begin(&r);
    mr_out x = mr_placeholder(&r.s, MR_FLOAT, "x", NULL), y = mr_emit(mr_as(&r.s, "product"), "MatMul", x, x);
    mr_tensor *in = mr_tensor_of(MR_FLOAT, 2, (int64_t[]){2, 3}, (float[6]){0}), *out;
    MR_CHECK_ERR(gpu_run1(&r, x, in, y, &out), MR_INVALID_ARGUMENT, "{{node product}}");
    mr_tensor_unref(in);
    gpu_end(&r);
}

static mr_status *fails(void) { return mr_error(MR_UNAVAILABLE, "the device is lost"); }
static mr_status *launch_fails(mr_cl_device *d, const char *kernel, int64_t global, const mr_cl_arg *args, int n)
{
    (void)d, (void)kernel, (void)global, (void)args, (void)n;
    return fails();
}
static mr_status *read_fails(mr_cl_device *d, void *buffer, size_t at, void *host, size_t bytes, mr_cl_event **out)
{
    (void)d, (void)buffer, (void)at, (void)host, (void)bytes, (void)out;
    return fails();
}

/* A driver that gives up ends the step, whatever it was doing; when it is back, so is the session. */
MR_TEST(opencl_lost_device_ends_the_step_and_nothing_else)
{
    gpu_fixture r;
    mr_opencl *const *devices;
    gpu_begin(&r);
    MR_CHECK(mr_opencl_devices(&devices) > 0);
    mr_out x = mr_placeholder(&r.s, MR_FLOAT, "x", NULL), y = mr_emit(mr_as(&r.s, "twice"), "AddV2", x, x);
    mr_tensor *in = floats(100000, 0), *out;
    MR_CHECK_OK(gpu_run1(&r, x, in, y, &out));
    mr_tensor_unref(out);
    const mr_cl_driver *good = devices[0]->driver;
    mr_cl_driver bad = *good;
    bad.launch = launch_fails;
    devices[0]->driver = &bad;
    MR_CHECK_ERR(gpu_run1(&r, x, in, y, &out), MR_UNAVAILABLE, "{{node twice}}");
    bad = *good;
    bad.read = read_fails;
    MR_CHECK_ERR(gpu_run1(&r, x, in, y, &out), MR_UNAVAILABLE, "{{node twice");
    devices[0]->driver = good;
    MR_CHECK_OK(gpu_run1(&r, x, in, y, &out));
    MR_CHECK_NEAR(MR_DATA(float, out)[99], 198, 0);
    mr_tensor_unref(out);
    mr_tensor_unref(in);
    gpu_end(&r);
}

/* ---- when there is none ---- */

static int n_devices(const mr_session_config *c)
{
    mr_graph *g = mr_graph_new();
    mr_session *s;
    mr_device_info *d;
    int n;
    MR_CHECK_OK(mr_direct_session_new(g, NULL, c, &s));
    MR_CHECK_OK(s->ops->list_devices(s, &d, &n));
    mr_device_infos_free(d, n);
    mr_session_free(s);
    mr_graph_unref(g);
    return n;
}

MR_TEST(opencl_absent_is_no_error)
{
    setenv("MILLRACE_OPENCL", "off", 1);
    MR_CHECK_INT(n_devices(&(mr_session_config){0}), 1);
    setenv("MILLRACE_OPENCL", "all", 1);
    setenv("MILLRACE_OPENCL_LIB", "/nowhere/libmillrace-opencl.so", 1);
    MR_CHECK_INT(n_devices(&(mr_session_config){0}), 1);
}

MR_TEST(opencl_devices_are_counted_by_the_session)
{
    gpu_require();
    MR_CHECK_INT(n_devices(&(mr_session_config){0}), 2);
    MR_CHECK_INT(n_devices(&(mr_session_config){.n_counts = 1, .counts = {{"GPU", 0}}}), 1);
}

static void touch(const char *folder, const char *file)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "w");
    MR_CHECK(f);
    fclose(f);
}

MR_TEST(opencl_is_opened_by_itself_only_for_a_driver_other_than_pocl)
{
    const char *want;
    unsetenv("MILLRACE_OPENCL");
    setenv("OCL_ICD_VENDORS", "/nowhere", 1);
    MR_CHECK(!mr_opencl_wanted(&want));
    setenv("OCL_ICD_VENDORS", mr_test_dir(), 1);
    touch(mr_test_dir(), "pocl.icd");
    touch(mr_test_dir(), "readme");
    MR_CHECK(!mr_opencl_wanted(&want));
    touch(mr_test_dir(), "maker.icd");
    MR_CHECK(mr_opencl_wanted(&want) && !want);
    setenv("MILLRACE_OPENCL", "Portable", 1);
    MR_CHECK(mr_opencl_wanted(&want) && strcmp(want, "Portable") == 0);
}
