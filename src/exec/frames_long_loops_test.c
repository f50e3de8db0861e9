/* exec/frames_long_loops_test.c -- loops that run long, and loops in loops in loops. */
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "exec/gradient_fixture.h"

/* ---- memory ---- */
typedef struct memory {
    int64_t tensors, blocks; /* bytes in tensors, and from malloc */
    int64_t resident;
} memory;

static memory now(void)
{
    mr_allocator_stats s = {0};
    mr_allocator_get_stats(mr_cpu_allocator(), &s);
    struct mallinfo2 m = mallinfo2();
    long pages = 0, all = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    MR_CHECK(f && fscanf(f, "%ld %ld", &all, &pages) == 2);
    fclose(f);
    return (memory){s.in_use, (int64_t)(m.uordblks + m.hblkhd), pages * sysconf(_SC_PAGESIZE)};
}

enum { MIB = 1 << 20 };

/* Nothing in tensors, next to nothing elsewhere.  The pools keep pages for a while: those may vary.
 */
static void check_flat(memory before, memory after, int64_t resident)
{
    MR_CHECK_INT(after.tensors, before.tensors);
    if (after.blocks - before.blocks > 256 << 10)
        mr_test_fail(__FILE__, __LINE__, "%d KiB more from malloc",
                     (int)((after.blocks - before.blocks) >> 10));
#ifndef MR_DEBUG /* sanitizers keep freed memory for a while */
    if (after.resident - before.resident > resident)
        mr_test_fail(__FILE__, __LINE__, "%d MiB more resident",
                     (int)((after.resident - before.resident) / MIB));
#else
    (void)resident;
#endif
}

/* h <- tanh(h + x) for `times` rounds, on vectors of 100. */
typedef struct bench {
    mr_gradient_fixture r;
    mr_out times, last, slope;
    int64_t n;
} bench;

/* trap: the 500th round is an error. */
static void begin(bench *b, int parallel, int n_cpus, bool trap)
{
    *b = (bench){.n = 100};
    mr_gradient_fixture_init(&b->r);
    b->r.config.n_cpus = n_cpus;
    mr_named_attr dtype = {"dtype", mr_a_type(MR_INT32)};
    mr_out h = mr_gradient_fixture_input(&b->r, 1, &b->n, true), x = mr_gradient_fixture_input(&b->r, 1, &b->n, true);
    b->times = mr_emit_n(&b->r.b.s, "Placeholder", &dtype, 1, NULL, 0);
    mr_out v[2] = {{0}, h};
    mr_fb_for(&b->r.b, b->times, parallel, v + 1, 1);
    mr_out sum = mr_fb2(&b->r.b, "Add", v[1], x);
    if (n_cpus > 1)
        mr_node_set_device(sum.node, "/device:CPU:1");
    v[1] = mr_fb1(&b->r.b, "Tanh", sum);
    if (trap) {
        mr_out left = mr_fb2(&b->r.b, "Sub", mr_gradient_fixture_i32(&b->r, 500), v[0]);
        mr_node_add_control(v[1].node, mr_fb2(&b->r.b, "FloorDiv", left, left).node);
    }
    mr_fb_end_for(&b->r.b, v + 1, 1);
    b->last = v[1];
}

static void differentiate(bench *b)
{
    mr_gradient dx;
    MR_CHECK_OK(mr_graph_gradients(b->r.g, &b->last, 1, b->r.x, 1, NULL, &dx));
    b->slope = dx.dense;
}

static mr_status *try_run(bench *b, mr_out y, int times)
{
    mr_tensor *t = NULL, *limit = mr_tensor_scalar_i32(times);
    mr_out feeds[] = {b->r.x[0], b->r.x[1], b->times};
    mr_tensor *values[] = {b->r.feed[0], b->r.feed[1], limit};
    mr_run_args a = {.feeds = feeds,
                     .feed_values = values,
                     .n_feeds = 3,
                     .fetches = &y,
                     .fetched = &t,
                     .n_fetches = 1};
    if (!b->r.session)
        MR_CHECK_OK(mr_direct_session_new(b->r.g, NULL, &b->r.config, &b->r.session));
    mr_status *st = mr_session_run(b->r.session, &a, NULL, NULL);
    MR_CHECK(st || t->n == b->n);
    mr_tensor_unref(t);
    mr_tensor_unref(limit);
    return st;
}

static void run(bench *b, mr_out y, int times) { MR_CHECK_OK(try_run(b, y, times)); }

static void check_rounds(int parallel, int n_cpus, int times)
{
    bench b;
    begin(&b, parallel, n_cpus, false);
    for (int i = 0; i < 5; i++)
        run(&b, b.last, 200);
    memory before = now();
    run(&b, b.last, times);
    check_flat(before, now(), 4 * MIB);
    mr_gradient_fixture_deinit(&b.r);
}

MR_TEST(long_loops_take_no_more_memory)
{
    mr_test_deadline(120);
    check_rounds(1, 1, 100000);
    check_rounds(32, 1, 100000);
}

MR_TEST(long_loops_over_devices_take_no_more_memory)
{
    mr_test_deadline(120);
    check_rounds(1, 2, 20000);
    check_rounds(32, 2, 20000);
}

/* A thousand rounds keep 800 kB for the way back; at the end of the step they are gone. */
static void check_gradients(int parallel, int n_cpus)
{
    bench b;
    begin(&b, parallel, n_cpus, false);
    differentiate(&b);
    for (int i = 0; i < 3; i++)
        run(&b, b.slope, 1000);
    memory before = now();
    for (int i = 0; i < 10; i++)
        run(&b, b.slope, 1000);
    check_flat(before, now(), 4 * MIB);
    mr_gradient_fixture_deinit(&b.r);
}

MR_TEST(long_loops_give_back_what_their_gradients_kept)
{
    mr_test_deadline(120);
    check_gradients(1, 1);
    check_gradients(32, 1);
    check_gradients(32, 2);
}

/* What a step kept that failed halfway is gone too. */
MR_TEST(long_loops_that_fail_give_back_what_they_kept)
{
    for (int n_cpus = 1; n_cpus <= 2; n_cpus++) {
        bench b;
        begin(&b, 10, n_cpus, true);
        differentiate(&b);
        run(&b, b.slope, 499);
        memory before = now();
        for (int i = 0; i < 5; i++)
            MR_CHECK_ERR(try_run(&b, b.slope, 1000), MR_INVALID_ARGUMENT, "zero");
        check_flat(before, now(), 4 * MIB);
        mr_gradient_fixture_deinit(&b.r);
    }
}

/* ---- depth ---- */
/* v <- tanh(v * w) in the innermost of `depth` loops, of which one in `every` runs twice. */
static mr_out nest(mr_gradient_fixture *r, mr_out v, int depth, int every)
{
    if (depth == 0)
        return mr_fb1(&r->b, "Tanh", mr_fb2(&r->b, "Mul", v, r->x[1]));
    mr_out u[2] = {{0}, v};
    mr_fb_for(&r->b, mr_gradient_fixture_i32(r, depth % every ? 1 : 2), depth % 2 ? 1 : 10, u + 1, 1);
    u[1] = nest(r, u[1], depth - 1, every);
    mr_fb_end_for(&r->b, u + 1, 1);
    return u[1];
}

static void scalars(mr_gradient_fixture *r)
{
    mr_gradient_fixture_init(r);
    for (int i = 0; i < 2; i++)
        mr_gradient_fixture_input(r, 0, (const int64_t[]){0}, true);
}

static double run_scalar(mr_gradient_fixture *r, mr_out y)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_gradient_fixture_run(r, &y, 1, &t));
    double v = *MR_DATA(double, t);
    mr_tensor_unref(t);
    return v;
}

static double expected(const mr_gradient_fixture *r, int rounds)
{
    double v = *MR_DATA(double, r->feed[0]), w = *MR_DATA(double, r->feed[1]);
    for (int i = 0; i < rounds; i++)
        v = tanh(v * w);
    return v;
}

static void check_nest(int depth, int every, int n_cpus)
{
    mr_gradient_fixture r;
    scalars(&r);
    r.config.n_cpus = n_cpus;
    mr_out y = nest(&r, r.x[0], depth, every);
    if (n_cpus > 1)
        mr_node_set_device(mr_graph_find(r.g, MR_SV("Tanh")), "/device:CPU:1");
    MR_CHECK_NEAR(run_scalar(&r, y), expected(&r, 16), 1e-12);
    mr_gradient_fixture_check(&r, mr_fb2(&r.b, "Mul", y, r.x[0]));
    mr_gradient_fixture_deinit(&r);
}

MR_TEST(loops_nest_20_deep)
{
    check_nest(20, 5, 1);
    check_nest(20, 5, 2);
}

MR_TEST(loops_nest_100_deep)
{
    mr_test_deadline(120);
#ifndef MR_DEBUG /* sanitizers take their time */
    check_nest(100, 25, 2);
#endif
    check_nest(40, 10, 1);
}

/* if (x < 1) { if (x < 1) { ... v = v * w ... } else { v } } else { v } */
static mr_out choose(mr_gradient_fixture *r, mr_out v, int depth)
{
    mr_out y;
    if (depth == 0)
        return mr_fb2(&r->b, "Mul", v, r->x[1]);
    mr_fb_cond(&r->b, mr_fb2(&r->b, "Less", r->x[0], mr_gradient_fixture_num(r, 1)));
    mr_out deeper = choose(r, v, depth - 1);
    mr_fb_cond_else(&r->b, &deeper, 1);
    mr_fb_cond_end(&r->b, &v, &y);
    return y;
}

MR_TEST(conditionals_nest_200_deep)
{
    mr_test_deadline(60);
    for (int side = 0; side < 2; side++) {
        mr_gradient_fixture r;
        scalars(&r);
        *MR_DATA(double, r.feed[0]) = side ? 2 : 0.5;
        mr_gradient_fixture_check(&r, choose(&r, mr_fb1(&r.b, "Tanh", r.x[0]), 200));
        mr_gradient_fixture_deinit(&r);
    }
}

/* In a loop it must be known which sides were taken: up to 128 in one another. */
MR_TEST(conditionals_nested_too_deep_in_a_loop_run_but_do_not_differentiate)
{
    mr_gradient_fixture r;
    mr_gradient dx;
    scalars(&r);
    mr_out v[2] = {{0}, r.x[0]};
    mr_fb_for(&r.b, mr_gradient_fixture_i32(&r, 2), 10, v + 1, 1);
    v[1] = choose(&r, v[1], 200);
    mr_fb_end_for(&r.b, v + 1, 1);
    double x = *MR_DATA(double, r.feed[0]), w = *MR_DATA(double, r.feed[1]);
    MR_CHECK_NEAR(run_scalar(&r, v[1]), x * w * w, 1e-15);
    MR_CHECK_ERR(mr_graph_gradients(r.g, &v[1], 1, r.x, 1, NULL, &dx), MR_UNIMPLEMENTED,
                 "nested too deeply to be differentiated");
    mr_gradient_fixture_deinit(&r);
}
