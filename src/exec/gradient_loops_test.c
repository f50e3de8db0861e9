/* exec/gradient_loops_test.c -- gradients of loops and conditionals, run by the executor.
 *
 * graph/gradient_loops_test.c checks the same graphs by an interpreter of its own; here they meet real
 * kernels, threads and parallel iterations. */
#include "exec/gradient_rig_test.h"
#include "graph/random_program_test.h"

static const int64_t none[1] = {0};

static void scalars(mr_grig *r, int n)
{
    mr_grig_init(r);
    for (int i = 0; i < n; i++)
        mr_grig_input(r, 0, none, true);
}

static const int parallel[] = {1, 32};

MR_TEST(run_gradients_of_a_loop)
{
    for (int i = 0; i < 2; i++)
        for (int n = 0; n < 6; n += 5) { /* also when it never runs */
            mr_grig r;
            scalars(&r, 2);
            mr_out v[3] = {{0}, r.x[0]};
            mr_fb_for(&r.b, mr_grig_i32(&r, n), parallel[i], v + 1, 1);
            v[1] = mr_fb1(&r.b, "Tanh", mr_fb2(&r.b, "Mul", v[1], r.x[1]));
            mr_fb_end_for(&r.b, v + 1, 1);
            mr_grig_check(&r, v[1]);
            mr_grig_deinit(&r);
        }
}

MR_TEST(run_gradients_of_nested_loops)
{
    for (int i = 0; i < 2; i++) {
        mr_grig r;
        scalars(&r, 2);
        mr_out v[3] = {{0}, r.x[0]}, u[3];
        mr_fb_for(&r.b, mr_grig_i32(&r, 4), parallel[i], v + 1, 1);
        u[1] = v[1];
        mr_fb_for(&r.b, v[0], parallel[1 - i], u + 1, 1);
        u[1] = mr_fb1(&r.b, "Tanh", mr_fb2(&r.b, "Mul", mr_fb2(&r.b, "Add", u[1], v[1]), r.x[1]));
        mr_fb_end_for(&r.b, u + 1, 1);
        v[1] = mr_fb2(&r.b, "Add", u[1], v[1]);
        mr_fb_end_for(&r.b, v + 1, 1);
        mr_grig_check(&r, v[1]);
        mr_grig_deinit(&r);
    }
}

MR_TEST(run_gradients_of_a_conditional_in_a_loop)
{
    for (int i = 0; i < 2; i++) {
        mr_grig r;
        scalars(&r, 2);
        mr_out v[3] = {{0}, r.x[0]};
        mr_fb_for(&r.b, mr_grig_i32(&r, 6), parallel[i], v + 1, 1);
        mr_fb_cond(&r.b, mr_fb2(&r.b, "Less", v[1], mr_grig_num(&r, 0.5)));
        mr_out a = mr_fb2(&r.b, "Add", mr_fb2(&r.b, "Mul", v[1], v[1]), r.x[1]);
        mr_fb_cond_else(&r.b, &a, 1);
        mr_out b = mr_fb2(&r.b, "Mul", mr_fb1(&r.b, "Tanh", v[1]), mr_grig_num(&r, 0.3));
        mr_fb_cond_end(&r.b, &b, &v[1]);
        mr_fb_end_for(&r.b, v + 1, 1);
        mr_grig_check(&r, v[1]);
        mr_grig_deinit(&r);
    }
}

MR_TEST(run_gradients_of_a_loop_in_a_conditional)
{
    for (int taken = 0; taken < 2; taken++) {
        mr_grig r;
        scalars(&r, 2);
        mr_out v[3] = {{0}, r.x[0]}, y;
        mr_fb_cond(&r.b, mr_fb2(&r.b, "Less", r.x[0], mr_grig_num(&r, taken)));
        mr_fb_for(&r.b, mr_grig_i32(&r, 3), 10, v + 1, 1);
        v[1] = mr_fb2(&r.b, "Mul", mr_fb1(&r.b, "Tanh", v[1]), r.x[1]);
        mr_fb_end_for(&r.b, v + 1, 1);
        mr_fb_cond_else(&r.b, &v[1], 1);
        mr_fb_cond_end(&r.b, &r.x[1], &y);
        mr_grig_check(&r, mr_fb2(&r.b, "Mul", y, r.x[1]));
        mr_grig_deinit(&r);
    }
}

/* h <- tanh(h W + x); the batch is not known beforehand in one of two runs. */
MR_TEST(run_gradients_of_a_recurrent_network)
{
    for (int known = 0; known < 2; known++) {
        mr_grig r;
        mr_grig_init(&r);
        mr_out h = mr_grig_input(&r, 2, (const int64_t[]){2, 3}, known), w = mr_grig_input(&r, 2, (const int64_t[]){3, 3}, true);
        mr_out x = mr_grig_input(&r, 2, (const int64_t[]){2, 3}, known), bias = mr_grig_input(&r, 1, (const int64_t[]){3}, true);
        mr_out v[3] = {{0}, h};
        mr_fb_for(&r.b, mr_grig_i32(&r, 5), 32, v + 1, 1);
        mr_out sum = mr_fb2(&r.b, "Add", mr_fb2(&r.b, "MatMul", v[1], w), x);
        v[1] = mr_fb1(&r.b, "Tanh", mr_fb2(&r.b, "Add", sum, bias));
        mr_fb_end_for(&r.b, v + 1, 1);
        mr_grig_check(&r, mr_fb2(&r.b, "Mul", v[1], v[1]));
        mr_grig_deinit(&r);
    }
}

MR_TEST(run_gradients_of_a_loop_over_two_devices)
{
    mr_grig r;
    scalars(&r, 2);
    r.config.n_cpus = 2;
    mr_out v[3] = {{0}, r.x[0]};
    mr_fb_for(&r.b, mr_grig_i32(&r, 4), 10, v + 1, 1);
    mr_out a = mr_fb1(&r.b, "Tanh", mr_fb2(&r.b, "Mul", v[1], r.x[1]));
    mr_node_set_device(a.node, "/device:CPU:1");
    v[1] = mr_fb2(&r.b, "Add", a, v[1]);
    mr_fb_end_for(&r.b, v + 1, 1);
    mr_grig_check(&r, v[1]);
    mr_grig_deinit(&r);
}

/* Puts about half of the arithmetic on another device. */
static void scatter(mr_grig *r, uint64_t seed)
{
    for (int i = 0; i < r->g->nodes.n; i++) {
        mr_node *n = r->g->nodes.p[i];
        bool moves = mr_node_is(n, "Tanh") || mr_node_is(n, "Mul") || mr_node_is(n, "Add") || mr_node_is(n, "Sub");
        if (moves && (seed * 2654435761u >> (i % 24)) % 2)
            mr_node_set_device(n, "/device:CPU:1");
    }
}

static void run_program(uint64_t seed, bool vectors, bool two_devices)
{
    mr_grig r;
    mr_grig_init(&r);
    r.program = (int)seed;
    r.config.n_cpus = two_devices ? 2 : 1;
    for (int i = 0; i < MR_RANDOM_PROGRAM_INPUTS; i++)
        mr_grig_input(&r, vectors, (const int64_t[]){2}, !vectors);
    mr_out y = mr_random_program(&r.b, r.x, seed, vectors, true);
    if (two_devices)
        scatter(&r, seed);
    mr_grig_check(&r, y);
    mr_grig_deinit(&r);
}

MR_TEST(run_gradients_of_random_programs)
{
    mr_test_deadline(120);
    uint64_t first = mr_test_random() % 100000;
    for (uint64_t seed = first; seed < first + 40; seed++)
        run_program(seed, seed % 2, false);
}

MR_TEST(run_gradients_of_random_programs_over_two_devices)
{
    mr_test_deadline(120);
    uint64_t first = mr_test_random() % 100000;
    for (uint64_t seed = first; seed < first + 20; seed++)
        run_program(seed, seed % 2, true);
}
