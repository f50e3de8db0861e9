/* exec/placing_test.c -- sessions that place by cost and learn from their steps. */
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "exec/device_sim.h"
#include "exec/direct_session.h"
#include "graph/scope.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

enum { DEVICES = 3, SIDE = 128, PRODUCTS = 6 };

typedef struct bench {
    mr_graph *g;
    mr_scope s;
    mr_session *session;
    mr_out x, w, sum;
    mr_out products[PRODUCTS];
    mr_node *assign;
} bench;

static mr_out fill(bench *b, float v)
{
    int32_t dims[] = {SIDE, SIDE};
    return mr_emit(&b->s, "Fill", mr_const_vec_i32(&b->s, 2, dims), mr_const_f32(&b->s, v));
}

/* Products of x and a variable, all added up. */
static void begin(bench *b, int period)
{
    mr_arena a;
    mr_ops_register();
    mr_arena_init(&a, 0);
    *b = (bench){.g = mr_graph_new()};
    mr_scope_init(&b->s, b->g, "");
    const mr_pshape *square = mr_pshape_matrix(&a, SIDE, SIDE);
    b->x = mr_emit(&b->s, "Mul", fill(b, 1), mr_placeholder(&b->s, MR_FLOAT, "scale", &mr_pshape_scalar));
    b->w = mr_emit0_with(&b->s, "VariableV2", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(square)}));
    b->assign = mr_emit(&b->s, "Assign", b->w, fill(b, 2)).node;
    for (int i = 0; i < PRODUCTS; i++)
        b->products[i] = mr_emit(&b->s, "MatMul", b->x, b->w);
    mr_out total = mr_emit_n(&b->s, "AddN", NULL, 0, b->products, PRODUCTS);
    int32_t axes[] = {0, 1};
    b->sum = mr_emit(&b->s, "Mean", total, mr_const_vec_i32(&b->s, 2, axes));
    MR_CHECK_OK(mr_scope_status(&b->s));
    mr_arena_deinit(&a);
    mr_session_config c = {.n_cpus = DEVICES, .placement_period = period};
    MR_CHECK_OK(mr_direct_session_new(b->g, NULL, &c, &b->session));
    mr_run_args args = {.targets = &b->assign, .n_targets = 1};
    MR_CHECK_OK(mr_session_run(b->session, &args, NULL, NULL));
}

static void end(bench *b)
{
    mr_session_free(b->session);
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
}

static mr_direct *inside(bench *b) { return (mr_direct *)b->session; }

static float step(bench *b, float scale)
{
    mr_tensor *in = mr_tensor_scalar_f32(scale), *out = NULL;
    mr_out feed = {mr_graph_find(b->g, MR_SV("scale")), 0};
    mr_run_args a = {.feeds = &feed, .feed_values = &in, .n_feeds = 1, .fetches = &b->sum, .fetched = &out, .n_fetches = 1};
    MR_CHECK_OK(mr_session_run(b->session, &a, NULL, NULL));
    float v = *MR_DATA(float, out);
    mr_tensor_unref(out);
    mr_tensor_unref(in);
    return v;
}

static void set_speed(bench *b, int device, double flops_per_s)
{
    inside(b)->env.devices[device]->speed = (mr_speed){flops_per_s, 1e11, 1e-6};
}

static int count_on(bench *b, int device)
{
    int n = 0;
    for (int i = 0; i < PRODUCTS; i++)
        n += strcmp(inside(b)->placements.device[b->products[i].node->id], inside(b)->env.devices[device]->name) == 0;
    return n;
}

MR_TEST(placing_uses_the_devices_that_promise_speed)
{
    bench b;
    begin(&b, 1000);
    set_speed(&b, 0, 1e9);
    set_speed(&b, 1, 1e9);
    set_speed(&b, 2, 1e12);
    MR_CHECK_NEAR(step(&b, 1), 2.0 * SIDE * PRODUCTS, 1e-2);
    MR_CHECK_INT(count_on(&b, 2), PRODUCTS);
    end(&b);
}

/* Every kernel here runs as fast as on the others, but it was promised to be a thousand times faster. */
MR_TEST(placing_learns_that_a_promise_was_not_kept)
{
    bench b;
    begin(&b, 4);
    set_speed(&b, 0, 1e11);
    set_speed(&b, 1, 1e11);
    set_speed(&b, 2, 1e15);
    for (int i = 0; i < 3; i++)
        MR_CHECK_NEAR(step(&b, 1), 2.0 * SIDE * PRODUCTS, 1e-2);
    MR_CHECK_INT(count_on(&b, 2), PRODUCTS);
    for (int i = 0; i < 3; i++)
        MR_CHECK_NEAR(step(&b, 3), 6.0 * SIDE * PRODUCTS, 1e-2);
    MR_CHECK(count_on(&b, 2) < PRODUCTS);
    end(&b);
}

MR_TEST(placing_leaves_variables_where_they_are)
{
    bench b;
    begin(&b, 2);
    const char *home = inside(&b)->placements.device[b.w.node->id];
    for (int i = 0; i < DEVICES; i++)
        set_speed(&b, i, strcmp(home, inside(&b)->env.devices[i]->name) == 0 ? 1e9 : 1e13);
    for (int i = 0; i < 12; i++)
        MR_CHECK_NEAR(step(&b, 1), 2.0 * SIDE * PRODUCTS, 1e-2);
    MR_CHECK_STR(inside(&b)->placements.device[b.w.node->id], home);
    MR_CHECK(inside(&b)->former.n > 0);
    end(&b);
}

typedef struct runner {
    bench *b;
    mr_thread thread;
} runner;

static void run_many(void *arg)
{
    runner *r = arg;
    for (int i = 0; i < 40; i++)
        MR_CHECK_NEAR(step(r->b, (float)(i % 4)), 2.0 * SIDE * PRODUCTS * (i % 4), 1e-2);
}

MR_TEST(placing_anew_does_not_disturb_steps_that_run)
{
    enum { THREADS = 4 };
    bench b;
    runner r[THREADS];
    begin(&b, 3);
    for (int i = 0; i < THREADS; i++) {
        r[i].b = &b;
        MR_CHECK(mr_thread_start(&r[i].thread, "steps", run_many, &r[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        mr_thread_join(&r[i].thread);
    MR_CHECK(inside(&b)->former.n >= 4);
    end(&b);
}

/* What another task says of a step is as good as what was seen here. */
MR_TEST(placing_learns_from_the_stats_of_a_step)
{
    bench b;
    mr_str metadata = {0}, text = {0};
    mr_tensor *in = mr_tensor_scalar_f32(1), *out = NULL;
    mr_pb_reader r;
    uint32_t field, wire;
    int n_told = 0;
    char *path = mr_printf("%s/costs", mr_test_dir());
    begin(&b, 1000);
    mr_placing *p = mr_placing_new(inside(&b)->env.devices, DEVICES, 0);
    mr_out feed = {mr_graph_find(b.g, MR_SV("scale")), 0};
    mr_run_args a = {.feeds = &feed, .feed_values = &in, .n_feeds = 1, .fetches = &b.sum, .fetched = &out, .n_fetches = 1};
    MR_CHECK_OK(mr_session_run(b.session, &a, &(mr_run_options){.trace_level = 3}, &metadata));
    mr_pb_reader_init(&r, mr_str_view(&metadata));
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1)
            mr_placing_learn_stats(p, mr_pb_bytes(&r));
        else
            mr_pb_skip(&r);
    mr_placing_learn_stats(p, MR_SV("\x0a\x7fnonsense"));
    MR_CHECK_OK(mr_placing_save(p, path));
    MR_CHECK_OK(mr_file_read_all(path, &text));
    for (int i = 0; i < PRODUCTS; i++) {
        const mr_node *n = b.products[i].node;
        char *line = mr_printf("%s\t%s\t1\t", inside(&b)->placements.device[n->id], n->name);
        char *size = mr_printf("bytes\t%s\t0\t%d\n", n->name, SIDE * SIDE * 4);
        n_told += strstr(mr_str_z(&text), line) && strstr(mr_str_z(&text), size);
        mr_free(line);
        mr_free(size);
    }
    MR_CHECK(n_told >= 1); /* equal products on one device are computed once */
    mr_tensor_unref(out);
    mr_tensor_unref(in);
    mr_str_deinit(&text);
    mr_str_deinit(&metadata);
    mr_placing_free(p);
    mr_free(path);
    end(&b);
}

static int count_lines(const char *text, const char *with)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, with)); at++)
        n++;
    return n;
}

/* Each node once, and again when it has moved. */
MR_TEST(placing_logs_what_is_new)
{
    bench b;
    mr_str text = {0};
    mr_placements told = {0};
    char *path = mr_printf("%s/log", mr_test_dir());
    begin(&b, 1000);
    step(&b, 1);
    const mr_node *n = b.products[0].node;
    mr_placements *now = &inside(&b)->placements;
    const char *first = now->device[n->id], *other = inside(&b)->env.devices[strstr(first, "CPU:0") != NULL]->name;
    int saved = dup(2);
    MR_CHECK(freopen(path, "w", stderr));
    mr_placing_log(b.g, now, &told);
    mr_placing_log(b.g, now, &told);
    now->device[n->id] = other;
    mr_placing_log(b.g, now, &told);
    now->device[n->id] = first;
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    MR_CHECK_OK(mr_file_read_all(path, &text));
    char *before = mr_printf("%s: (MatMul): %s\n", n->name, first), *after = mr_printf("%s: (MatMul): %s\n", n->name, other);
    MR_CHECK_INT(count_lines(mr_str_z(&text), before), 1);
    MR_CHECK_INT(count_lines(mr_str_z(&text), after), 1);
    MR_CHECK(strstr(mr_str_z(&text), before) < strstr(mr_str_z(&text), after));
    mr_free(before);
    mr_free(after);
    mr_free(path);
    mr_str_deinit(&text);
    mr_placements_deinit(&told);
    end(&b);
}

/* ---- feeds ---- */

/* x [64, 1000] is fed and multiplied with a variable; a simulated GPU computes for nothing behind a link of its own. */
typedef struct fed {
    mr_graph *g;
    mr_scope s;
    mr_device_sims sims;
    mr_session *session;
    mr_out x, w, y;
    mr_node *assign;
} fed;

static void begin_fed(fed *f, const char *gpu)
{
    mr_arena a;
    int32_t dims[] = {1000, 8};
    mr_ops_register();
    mr_arena_init(&a, 0);
    *f = (fed){.g = mr_graph_new()};
    mr_scope_init(&f->s, f->g, "");
    f->x = mr_placeholder(&f->s, MR_FLOAT, "x", mr_pshape_matrix(&a, 64, 1000));
    f->w = mr_emit0_with(&f->s, "VariableV2", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(mr_pshape_matrix(&a, 1000, 8))}));
    f->assign = mr_emit(&f->s, "Assign", f->w, mr_emit(&f->s, "Fill", mr_const_vec_i32(&f->s, 2, dims), mr_const_f32(&f->s, 1))).node;
    f->y = mr_emit(&f->s, "MatMul", f->x, f->w);
    MR_CHECK_OK(mr_scope_status(&f->s));
    mr_arena_deinit(&a);
    MR_CHECK_OK(mr_device_sims_parse(&f->sims, mr_sv_of(gpu)));
    mr_session_config c = {.n_cpus = 1, .placement_period = 1000, .simulated = &f->sims};
    MR_CHECK_OK(mr_direct_session_new(f->g, NULL, &c, &f->session));
    mr_run_args args = {.targets = &f->assign, .n_targets = 1};
    MR_CHECK_OK(mr_session_run(f->session, &args, NULL, NULL));
}

static void end_fed(fed *f)
{
    mr_session_free(f->session);
    mr_device_sims_deinit(&f->sims);
    mr_scope_deinit(&f->s);
    mr_graph_unref(f->g);
}

static const char *placed_on(fed *f, mr_out o)
{
    const char *d = ((mr_direct *)f->session)->placements.device[o.node->id];
    return d ? d + strlen("/job:localhost/replica:0/task:0/device:") : "";
}

static void step_fed(fed *f)
{
    mr_tensor *in = NULL, *out = NULL;
    MR_CHECK_OK(mr_tensor_zeros(mr_cpu_allocator(), MR_FLOAT, 2, (int64_t[]){64, 1000}, &in));
    mr_run_args a = {.feeds = &f->x, .feed_values = &in, .n_feeds = 1, .fetches = &f->y, .fetched = &out, .n_fetches = 1};
    MR_CHECK_OK(mr_session_run(f->session, &a, NULL, NULL));
    mr_tensor_unref(in);
    mr_tensor_unref(out);
}

/* 256 kB over a slow link take longer than the product on the CPU; over a fast one they do not. */
MR_TEST(placing_counts_what_it_costs_to_move_a_feed)
{
    fed f;
    begin_fed(&f, "GPU:0=flops_per_s=1e15,bytes_per_s=1e15,op_us=0.001,latency_us=1,link_bytes_per_s=100M");
    step_fed(&f);
    MR_CHECK_STR(placed_on(&f, f.y), "CPU:0");
    end_fed(&f);
    begin_fed(&f, "GPU:0=flops_per_s=1e15,bytes_per_s=1e15,op_us=0.001,latency_us=1,link_bytes_per_s=1e14");
    step_fed(&f);
    MR_CHECK_STR(placed_on(&f, f.y), "GPU:0");
    end_fed(&f);
}

/* A placeholder may not say how much is fed; steps do. */
MR_TEST(placing_learns_how_large_a_feed_is)
{
    fed f;
    mr_str text = {0};
    char *path = mr_printf("%s/feeds", mr_test_dir());
    begin_fed(&f, "GPU:0=op_us=0.001,latency_us=1");
    mr_run_options traced = {.trace_level = 3};
    mr_tensor *in = NULL, *out = NULL;
    mr_str metadata = {0};
    MR_CHECK_OK(mr_tensor_zeros(mr_cpu_allocator(), MR_FLOAT, 2, (int64_t[]){64, 1000}, &in));
    mr_run_args a = {.feeds = &f.x, .feed_values = &in, .n_feeds = 1, .fetches = &f.y, .fetched = &out, .n_fetches = 1};
    MR_CHECK_OK(mr_session_run(f.session, &a, &traced, &metadata));
    mr_placing *p = mr_placing_new(((mr_direct *)f.session)->env.devices, ((mr_direct *)f.session)->env.n_devices, 0);
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, mr_str_view(&metadata));
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1)
            mr_placing_learn_stats(p, mr_pb_bytes(&r));
        else
            mr_pb_skip(&r);
    MR_CHECK_OK(mr_placing_save(p, path));
    MR_CHECK_OK(mr_file_read_all(path, &text));
    MR_CHECK(strstr(mr_str_z(&text), "bytes\t_arg_x_0_0\t0\t256000\n"));
    mr_placing_free(p);
    mr_tensor_unref(in);
    mr_tensor_unref(out);
    mr_str_deinit(&text);
    mr_str_deinit(&metadata);
    mr_free(path);
    end_fed(&f);
}

/* The initializer alone would put the variable where it is filled faster: that is not where it is used. */
MR_TEST(placing_puts_new_state_where_later_steps_use_it)
{
    fed f;
    begin_fed(&f, "GPU:0=flops_per_s=1e15,bytes_per_s=1e15,op_us=0.001,latency_us=1,link_bytes_per_s=100M");
    MR_CHECK_STR(placed_on(&f, f.w), "CPU:0");
    end_fed(&f);
    begin_fed(&f, "GPU:0=flops_per_s=1e15,bytes_per_s=1e15,op_us=0.001,latency_us=1,link_bytes_per_s=1e14");
    MR_CHECK_STR(placed_on(&f, f.w), "GPU:0");
    end_fed(&f);
}
