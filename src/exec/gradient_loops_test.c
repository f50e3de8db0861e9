/* exec/gradient_loops_test.c -- gradients of loops and conditionals, run by the executor.
 *
 * graph/gradient_loops_test.c checks the same graphs by an interpreter of its own; here they meet
 * real kernels, threads and parallel iterations. */
#include <stdio.h>

#include "exec/gradient_fixture.h"
#include "graph/random_program_fixture.h"

static const int64_t none[1] = {0};

static void scalars(mr_gradient_fixture *r, int n)
{
    mr_gradient_fixture_init(r);
    for (int i = 0; i < n; i++)
        mr_gradient_fixture_input(r, 0, none, true);
}

static const int parallel[] = {1, 32};

MR_TEST(run_gradients_of_a_loop)
{
    for (int i = 0; i < 2; i++)
        for (int n = 0; n < 6; n += 5) { /* also when it never runs */
            mr_gradient_fixture r;
            scalars(&r, 2);
            mr_out v[3] = {{0}, r.x[0]};
            mr_fb_for(&r.b, mr_gradient_fixture_i32(&r, n), parallel[i], v + 1, 1);
            v[1] = mr_fb1(&r.b, "Tanh", mr_fb2(&r.b, "Mul", v[1], r.x[1]));
            mr_fb_end_for(&r.b, v + 1, 1);
            mr_gradient_fixture_check(&r, v[1]);
            mr_gradient_fixture_deinit(&r);
        }
}

MR_TEST(run_gradients_of_nested_loops)
{
    for (int i = 0; i < 2; i++) {
        mr_gradient_fixture r;
        scalars(&r, 2);
        mr_out v[3] = {{0}, r.x[0]}, u[3];
        mr_fb_for(&r.b, mr_gradient_fixture_i32(&r, 4), parallel[i], v + 1, 1);
        u[1] = v[1];
        mr_fb_for(&r.b, v[0], parallel[1 - i], u + 1, 1);
        u[1] = mr_fb1(&r.b, "Tanh", mr_fb2(&r.b, "Mul", mr_fb2(&r.b, "Add", u[1], v[1]), r.x[1]));
        mr_fb_end_for(&r.b, u + 1, 1);
        v[1] = mr_fb2(&r.b, "Add", u[1], v[1]);
        mr_fb_end_for(&r.b, v + 1, 1);
        mr_gradient_fixture_check(&r, v[1]);
        mr_gradient_fixture_deinit(&r);
    }
}

MR_TEST(run_gradients_of_a_conditional_in_a_loop)
{
    for (int i = 0; i < 2; i++) {
        mr_gradient_fixture r;
        scalars(&r, 2);
        mr_out v[3] = {{0}, r.x[0]};
        mr_fb_for(&r.b, mr_gradient_fixture_i32(&r, 6), parallel[i], v + 1, 1);
        mr_fb_cond(&r.b, mr_fb2(&r.b, "Less", v[1], mr_gradient_fixture_num(&r, 0.5)));
        mr_out a = mr_fb2(&r.b, "Add", mr_fb2(&r.b, "Mul", v[1], v[1]), r.x[1]);
        mr_fb_cond_else(&r.b, &a, 1);
        mr_out b = mr_fb2(&r.b, "Mul", mr_fb1(&r.b, "Tanh", v[1]), mr_gradient_fixture_num(&r, 0.3));
        mr_fb_cond_end(&r.b, &b, &v[1]);
        mr_fb_end_for(&r.b, v + 1, 1);
        mr_gradient_fixture_check(&r, v[1]);
        mr_gradient_fixture_deinit(&r);
    }
}

MR_TEST(run_gradients_of_a_loop_in_a_conditional)
{
    for (int taken = 0; taken < 2; taken++) {
        mr_gradient_fixture r;
        scalars(&r, 2);
        mr_out v[3] = {{0}, r.x[0]}, y;
        mr_fb_cond(&r.b, mr_fb2(&r.b, "Less", r.x[0], mr_gradient_fixture_num(&r, taken)));
        mr_fb_for(&r.b, mr_gradient_fixture_i32(&r, 3), 10, v + 1, 1);
        v[1] = mr_fb2(&r.b, "Mul", mr_fb1(&r.b, "Tanh", v[1]), r.x[1]);
        mr_fb_end_for(&r.b, v + 1, 1);
        mr_fb_cond_else(&r.b, &v[1], 1);
        mr_fb_cond_end(&r.b, &r.x[1], &y);
        mr_gradient_fixture_check(&r, mr_fb2(&r.b, "Mul", y, r.x[1]));
        mr_gradient_fixture_deinit(&r);
    }
}

/* h <- tanh(h W + x); the batch is not known beforehand in one of two runs. */
MR_TEST(run_gradients_of_a_recurrent_network)
{
    for (int known = 0; known < 2; known++) {
        mr_gradient_fixture r;
        mr_gradient_fixture_init(&r);
        mr_out h = mr_gradient_fixture_input(&r, 2, (const int64_t[]){2, 3}, known),
               w = mr_gradient_fixture_input(&r, 2, (const int64_t[]){3, 3}, true);
        mr_out x = mr_gradient_fixture_input(&r, 2, (const int64_t[]){2, 3}, known),
               bias = mr_gradient_fixture_input(&r, 1, (const int64_t[]){3}, true);
        mr_out v[3] = {{0}, h};
        mr_fb_for(&r.b, mr_gradient_fixture_i32(&r, 5), 32, v + 1, 1);
        mr_out sum = mr_fb2(&r.b, "Add", mr_fb2(&r.b, "MatMul", v[1], w), x);
        v[1] = mr_fb1(&r.b, "Tanh", mr_fb2(&r.b, "Add", sum, bias));
        mr_fb_end_for(&r.b, v + 1, 1);
        mr_gradient_fixture_check(&r, mr_fb2(&r.b, "Mul", v[1], v[1]));
        mr_gradient_fixture_deinit(&r);
    }
}

/* Puts nodes on devices at random; what must stay together does. */
static void scatter(mr_gradient_fixture *r, uint64_t seed, int n_devices)
{
    r->config.n_cpus = n_devices;
    r->config.soft_placement = true;
    for (int i = 0; n_devices > 1 && i < r->g->nodes.n; i++) {
        char device[32];
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        snprintf(device, sizeof(device), "/device:CPU:%d", (int)(seed >> 33) % n_devices);
        mr_node_set_device(r->g->nodes.p[i], device);
    }
}

/* ---- a long short-term memory, step by step ---- */
typedef struct lstm {
    mr_gradient_fixture r;
    mr_out wx, wh;          /* [2,8], [2,8] */
    mr_out inputs, outputs; /* arrays */
    mr_out state[5];        /* counter, c, h, flow of outputs */
} lstm;

static mr_out array(lstm *l, mr_out size)
{
    mr_named_attr attrs[] = {{"dtype", mr_a_type(MR_DOUBLE)}};
    return mr_fb_emit(&l->r.b, "TensorArrayV3", attrs, 1, &size, 1);
}

static mr_out steps(lstm *l, int n)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_INT32, 1, (const int64_t[]){n}, &t));
    for (int i = 0; i < n; i++)
        MR_DATA(int32_t, t)[i] = i;
    return mr_fb_const(&l->r.b, t);
}

/* One of the four parts of the gates. */
static mr_out gate(lstm *l, mr_out all, int i, const char *op)
{
    mr_out parts[] = {mr_fb_num(&l->r.b, MR_INT32, 1), all};
    mr_named_attr attrs[] = {{"num_split", mr_a_int(4)}};
    return mr_fb1(&l->r.b, op, mr_nth(mr_fb_emit(&l->r.b, "Split", attrs, 1, parts, 2), i));
}

static void lstm_step(lstm *l, mr_out flow)
{
    mr_fb *b = &l->r.b;
    mr_named_attr dtype[] = {{"dtype", mr_a_type(MR_DOUBLE)}};
    mr_out *v = l->state + 1, t = l->state[0];
    mr_out x = mr_fb_emit(b, "TensorArrayReadV3", dtype, 1, (mr_out[]){l->inputs, t, flow}, 3);
    mr_out z = mr_fb2(b, "Add", mr_fb2(b, "MatMul", x, l->wx), mr_fb2(b, "MatMul", v[1], l->wh));
    mr_out keep = mr_fb2(b, "Mul", gate(l, z, 0, "Sigmoid"), v[0]);
    v[0] =
        mr_fb2(b, "Add", keep, mr_fb2(b, "Mul", gate(l, z, 1, "Sigmoid"), gate(l, z, 2, "Tanh")));
    v[1] = mr_fb2(b, "Mul", gate(l, z, 3, "Sigmoid"), mr_fb1(b, "Tanh", v[0]));
    v[2] = mr_fb_emit(b, "TensorArrayWriteV3", NULL, 0, (mr_out[]){l->outputs, t, v[1], v[2]}, 4);
}

static void run_lstm(int parallel_iterations, int n_cpus)
{
    lstm l = {0};
    mr_gradient_fixture_init(&l.r);
    mr_fb *b = &l.r.b;
    enum { STEPS = 4 };
    mr_out x = mr_gradient_fixture_input(&l.r, 3, (const int64_t[]){STEPS, 1, 2}, true);
    mr_out h = mr_gradient_fixture_input(&l.r, 2, (const int64_t[]){1, 2}, true);
    l.wx = mr_gradient_fixture_input(&l.r, 2, (const int64_t[]){2, 8}, true);
    l.wh = mr_gradient_fixture_input(&l.r, 2, (const int64_t[]){2, 8}, true);
    mr_out size = mr_gradient_fixture_i32(&l.r, STEPS), all = steps(&l, STEPS);
    l.inputs = array(&l, size);
    l.outputs = array(&l, size);
    mr_out flow = mr_fb_emit(b, "TensorArrayScatterV3", NULL, 0,
                             (mr_out[]){l.inputs, all, x, mr_nth(l.inputs, 1)}, 4);
    l.state[1] = l.state[2] = h;
    l.state[3] = mr_nth(l.outputs, 1);
    mr_fb_for(b, size, parallel_iterations, l.state + 1, 3);
    lstm_step(&l, flow);
    mr_fb_end_for(b, l.state + 1, 3);
    mr_named_attr dtype[] = {{"dtype", mr_a_type(MR_DOUBLE)}};
    mr_out y =
        mr_fb_emit(b, "TensorArrayGatherV3", dtype, 1, (mr_out[]){l.outputs, all, l.state[3]}, 3);
    y = mr_fb2(b, "Mul", y, y);
    scatter(&l.r, (uint64_t)parallel_iterations, n_cpus);
    mr_gradient_fixture_check(&l.r, y);
    mr_gradient_fixture_deinit(&l.r);
}

MR_TEST(run_gradients_of_an_lstm)
{
    mr_test_deadline(60);
    run_lstm(1, 1);
    run_lstm(32, 1);
}

MR_TEST(run_gradients_of_an_lstm_over_three_devices)
{
    mr_test_deadline(60);
    run_lstm(1, 3);
    run_lstm(32, 3);
}

/* The parts of a value in an array, joined again. */
MR_TEST(run_gradients_of_an_array_split_and_joined)
{
    lstm l = {0};
    mr_fb *b = &l.r.b;
    mr_tensor *t;
    mr_gradient_fixture_init(&l.r);
    mr_out x = mr_gradient_fixture_input(&l.r, 2, (const int64_t[]){5, 2}, true);
    MR_CHECK_OK(mr_tensor_new(NULL, MR_INT64, 1, (const int64_t[]){2}, &t));
    MR_DATA(int64_t, t)[0] = 2;
    MR_DATA(int64_t, t)[1] = 3;
    mr_out lengths = mr_fb_const(b, t), size = mr_gradient_fixture_i32(&l.r, 2);
    mr_named_attr dtype[] = {{"dtype", mr_a_type(MR_DOUBLE)}};
    l.inputs = array(&l, size);
    mr_out parts[] = {l.inputs, mr_fb1(b, "Tanh", x), lengths, mr_nth(l.inputs, 1)};
    mr_out flow = mr_fb_emit(b, "TensorArraySplitV3", NULL, 0, parts, 4);
    mr_out y = mr_fb_emit(b, "TensorArrayConcatV3", dtype, 1, (mr_out[]){l.inputs, flow}, 2);
    mr_gradient_fixture_check(&l.r, mr_fb2(b, "Mul", y, y));
    mr_gradient_fixture_deinit(&l.r);
}

/* An element more behind the parts: the gradient of the whole value has no rows of it. */
MR_TEST(run_gradients_of_an_array_that_has_grown_after_a_split)
{
    mr_gradient_fixture r;
    mr_gradient_fixture_init(&r);
    mr_fb *b = &r.b;
    mr_named_attr attrs[] = {{"dtype", mr_a_type(MR_DOUBLE)}, {"dynamic_size", mr_a_bool(true)}};
    mr_out x = mr_gradient_fixture_input(&r, 2, (const int64_t[]){5, 2}, false), size = mr_gradient_fixture_i32(&r, 0);
    mr_out a = mr_fb_emit(b, "TensorArrayV3", attrs, 2, &size, 1);
    mr_out lengths = mr_fb_const(b, mr_tensor_vector_i64(2, (const int64_t[]){2, 3}));
    mr_out parts[] = {a, mr_fb1(b, "Tanh", x), lengths, mr_nth(a, 1)};
    mr_out flow = mr_fb_emit(b, "TensorArraySplitV3", NULL, 0, parts, 4);
    mr_out last[] = {a, mr_gradient_fixture_i32(&r, 2), mr_fb2(b, "Mul", x, x), flow};
    flow = mr_fb_emit(b, "TensorArrayWriteV3", NULL, 0, last, 4);
    mr_out y = mr_fb_emit(b, "TensorArrayConcatV3", attrs, 1, (mr_out[]){a, flow}, 2);
    mr_gradient_fixture_check(&r, mr_fb2(b, "Mul", y, y));
    mr_gradient_fixture_deinit(&r);
}

/* Through the arrays of the first gradient, too. */
MR_TEST(run_gradients_of_the_gradients_of_an_array)
{
    mr_gradient_fixture r;
    mr_gradient_fixture_init(&r);
    mr_fb *b = &r.b;
    mr_named_attr dtype = {"dtype", mr_a_type(MR_DOUBLE)};
    mr_out x = mr_gradient_fixture_input(&r, 0, NULL, true), size = mr_gradient_fixture_i32(&r, 1),
           zero = mr_gradient_fixture_i32(&r, 0);
    mr_gradient dx;
    mr_out a = mr_fb_emit(b, "TensorArrayV3", &dtype, 1, &size, 1);
    mr_out write[] = {a, zero, mr_fb1(b, "Tanh", x), mr_nth(a, 1)};
    mr_out flow = mr_fb_emit(b, "TensorArrayWriteV3", NULL, 0, write, 4);
    mr_out y = mr_fb_emit(b, "TensorArrayReadV3", &dtype, 1, (mr_out[]){a, zero, flow}, 3);
    y = mr_fb2(b, "Mul", y, y);
    MR_CHECK_OK(mr_graph_gradients(r.g, &y, 1, &x, 1, NULL, &dx));
    mr_gradient_fixture_check(&r, dx.dense);
    mr_gradient_fixture_deinit(&r);
}

MR_TEST(run_gradients_of_a_loop_over_two_devices)
{
    mr_gradient_fixture r;
    scalars(&r, 2);
    r.config.n_cpus = 2;
    mr_out v[3] = {{0}, r.x[0]};
    mr_fb_for(&r.b, mr_gradient_fixture_i32(&r, 4), 10, v + 1, 1);
    mr_out a = mr_fb1(&r.b, "Tanh", mr_fb2(&r.b, "Mul", v[1], r.x[1]));
    mr_node_set_device(a.node, "/device:CPU:1");
    v[1] = mr_fb2(&r.b, "Add", a, v[1]);
    mr_fb_end_for(&r.b, v + 1, 1);
    mr_gradient_fixture_check(&r, v[1]);
    mr_gradient_fixture_deinit(&r);
}

static void run_program(uint64_t seed, bool vectors, bool two_devices)
{
    mr_gradient_fixture r;
    mr_gradient_fixture_init(&r);
    r.program = (int)seed;
    for (int i = 0; i < MR_RANDOM_PROGRAM_INPUTS; i++)
        mr_gradient_fixture_input(&r, vectors, (const int64_t[]){2}, !vectors);
    mr_out y = mr_random_program(&r.b, r.x, seed, vectors, true);
    scatter(&r, seed, two_devices ? 2 : 1);
    mr_gradient_fixture_check(&r, y);
    mr_gradient_fixture_deinit(&r);
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
