/* server/cluster_edges_test.c -- what goes between tasks: how often, and as what.
 *
 * Requests are counted by a transport that passes all of them on.  What a task asks of itself does not go through it. */
#include <math.h>

#include "base/memory.h"
#include "graph/grad.h"
#include "passes/passes.h"
#include "server/cluster_fixture.h"

/* ---- a transport that counts ---- */

static mr_net counting;
static _Atomic int n_registered, n_received, n_ran;

static void count_and_start(mr_net_peer *p, mr_net_request *r)
{
    n_registered += strstr(r->method, "/RegisterGraph") != NULL;
    n_received += strstr(r->method, "/RecvTensor") != NULL;
    n_ran += strstr(r->method, "/RunGraph") != NULL;
    mr_net_loop()->start(p, r);
}

static void begin_counted(cluster_fixture *b, int n_ps, int n_workers)
{
    counting = *mr_net_loop();
    counting.start = count_and_start;
    cluster_fixture_begin_on(b, &counting, n_ps, n_workers);
}

/* ---- how often ---- */

MR_TEST(edges_graphs_are_sent_once)
{
    cluster_fixture b;
    float v;
    begin_counted(&b, 2, 1);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    b.s.device = "/job:ps/task:0";
    mr_out y = mr_emit(&b.s, "Square", x);
    b.s.device = "/job:ps/task:1";
    mr_out z = mr_emit(&b.s, "Neg", y);
    for (int i = 0; i < 20; i++) {
        MR_CHECK_OK(cluster_fixture_run(&b, x, (float)i, z, NULL, &v));
        MR_CHECK_NEAR(v, -i * i, 0);
        MR_CHECK_INT(n_registered, 2); /* one a task that is not the master itself */
        MR_CHECK_INT(n_ran, 2 * (i + 1));
    }
    MR_CHECK_OK(cluster_fixture_run(&b, x, 3, y, NULL, &v)); /* another signature is another graph, on one of them */
    MR_CHECK_INT(n_registered, 3);
    cluster_fixture_end(&b);
}

MR_TEST(edges_a_tensor_goes_to_a_task_once)
{
    cluster_fixture b;
    float v;
    begin_counted(&b, 1, 1);
    b.s.device = "/job:ps/task:0";
    mr_out scalar = mr_const(&b.s, mr_tensor_vector_i32(0, NULL));
    mr_out x = mr_emit_with(&b.s, "RandomUniform", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}), scalar);
    b.s.device = "/job:worker/task:0";
    mr_out two = mr_const_f32(&b.s, 2);
    mr_out y = mr_emit(&b.s, "Sub", mr_emit(&b.s, "AddV2", x, x), mr_emit(&b.s, "Mul", x, two));
    for (int i = 1; i <= 5; i++) {
        MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, y, NULL, &v));
        MR_CHECK_NEAR(v, 0, 0);
        MR_CHECK_INT(n_received, i); /* three uses, one transfer */
    }
    cluster_fixture_end(&b);
}

/* A control edge is a transfer too, one for all that wait. */
MR_TEST(edges_control_edges_cross_tasks_once)
{
    cluster_fixture b;
    float v;
    begin_counted(&b, 1, 1);
    b.s.device = "/job:ps/task:0";
    mr_out var = mr_emit0_with(&b.s, "VariableV2",
                               MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(&mr_pshape_scalar)}));
    mr_out set = mr_emit(&b.s, "Assign", var, mr_const_f32(&b.s, 7));
    b.s.device = "/job:worker/task:0";
    mr_out p = mr_const_f32(&b.s, 1), q = mr_emit(&b.s, "Identity", p), r = mr_emit(&b.s, "Identity", p);
    mr_node_add_control(q.node, set.node);
    mr_node_add_control(r.node, set.node);
    mr_out y = mr_emit(&b.s, "AddV2", q, r);
    b.s.device = "/job:ps/task:0"; /* read after the worker has heard of it */
    mr_out read = mr_emit(&b.s, "Identity", var);
    mr_node_add_control(read.node, y.node);
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, read, NULL, &v));
    MR_CHECK_NEAR(v, 7, 0);
    MR_CHECK_INT(n_received, 3); /* there, back, and the value that is fetched */
    cluster_fixture_end(&b);
}

/* ---- as what ---- */

static const float odd[] = {1.00390637f, -3.14159274f, 1e-40f, 3.4e38f, 0, -0.0f, INFINITY, -INFINITY};

/* GraphOptions.enable_bfloat16_sendrecv. */
static void be_lossy(cluster_fixture *b) { mr_str_append(&b->config, "\x52\x02\x38\x01", 4); }

/* A vector, fed and fetched at the worker. */
static void run_vector(cluster_fixture *b, mr_out feed, const float *x, mr_out fetch, float *y, int n)
{
    mr_tensor *v = mr_tensor_of(MR_FLOAT, 1, (int64_t[]){n}, x), *got = NULL;
    mr_run_args a = {.feeds = &feed, .feed_values = &v, .n_feeds = 1, .fetches = &fetch, .fetched = &got, .n_fetches = 1};
    MR_CHECK_OK(mr_session_run(cluster_fixture_session_of(b), &a, NULL, NULL));
    MR_CHECK(got->dtype == MR_FLOAT && got->n == n);
    memcpy(y, MR_DATA(float, got), sizeof(float) * (size_t)n);
    mr_tensor_unref(got);
    mr_tensor_unref(v);
}

/* x at the worker, the same by way of the parameter server. */
static mr_out there_and_back(cluster_fixture *b, mr_out *x)
{
    b->s.device = "/job:worker/task:0";
    *x = mr_placeholder(&b->s, MR_FLOAT, "x", NULL);
    mr_out from = mr_emit(&b->s, "Identity", *x);
    b->s.device = "/job:ps/task:0";
    mr_out there = mr_emit(&b->s, "Identity", from);
    b->s.device = "/job:worker/task:0";
    return mr_emit(&b->s, "Identity", there);
}

static float upper_half(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    u &= 0xffff0000;
    memcpy(&f, &u, 4);
    return f;
}

MR_TEST(edges_floats_arrive_as_they_were_sent)
{
    cluster_fixture b;
    mr_out x;
    float y[MR_COUNT(odd)];
    cluster_fixture_begin(&b, 1, 1);
    mr_out back = there_and_back(&b, &x);
    run_vector(&b, x, odd, back, y, MR_COUNT(odd));
    MR_CHECK(memcmp(y, odd, sizeof y) == 0);
    cluster_fixture_end(&b);
}

MR_TEST(edges_lossy_floats_lose_their_lower_half)
{
    cluster_fixture b;
    mr_out x;
    float y[MR_COUNT(odd)];
    cluster_fixture_begin(&b, 1, 1);
    be_lossy(&b);
    mr_out back = there_and_back(&b, &x);
    run_vector(&b, x, odd, back, y, MR_COUNT(odd));
    for (int i = 0; i < MR_COUNT(odd); i++) {
        float expected = upper_half(odd[i]);
        MR_CHECK(memcmp(&y[i], &expected, sizeof(float)) == 0);
    }
    MR_CHECK(y[0] != odd[0] && y[6] == INFINITY && y[7] == -INFINITY);
    cluster_fixture_end(&b);
}

/* Those too whose upper half alone would be infinity. */
MR_TEST(edges_lossy_nans_stay_nans)
{
    static const uint32_t bits[] = {0x7f800001, 0xff800001, 0x7fc00000, 0xffffffff, 0x7f80ffff};
    cluster_fixture b;
    mr_out x;
    float in[MR_COUNT(bits)], y[MR_COUNT(bits)];
    memcpy(in, bits, sizeof in);
    cluster_fixture_begin(&b, 1, 1);
    be_lossy(&b);
    mr_out back = there_and_back(&b, &x);
    run_vector(&b, x, in, back, y, MR_COUNT(bits));
    for (int i = 0; i < MR_COUNT(bits); i++)
        MR_CHECK(isnan(y[i]) && !signbit(y[i]) == !signbit(in[i]));
    cluster_fixture_end(&b);
}

MR_TEST(edges_a_node_chooses_for_itself)
{
    cluster_fixture b;
    mr_out x;
    float y;
    cluster_fixture_begin(&b, 1, 1);
    mr_out back = there_and_back(&b, &x), there = back.node->in[0], from = there.node->in[0];
    mr_node_set_attr(from.node, MR_LOSSY_ATTR, mr_a_bool(true));
    run_vector(&b, x, odd, back, &y, 1);
    MR_CHECK(y == upper_half(odd[0]));
    cluster_fixture_end(&b);
    cluster_fixture_begin(&b, 1, 1);
    be_lossy(&b);
    back = there_and_back(&b, &x), there = back.node->in[0], from = there.node->in[0];
    mr_node_set_attr(from.node, MR_LOSSY_ATTR, mr_a_bool(false));
    mr_node_set_attr(there.node, MR_LOSSY_ATTR, mr_a_bool(false));
    run_vector(&b, x, odd, back, &y, 1);
    MR_CHECK(y == odd[0]);
    cluster_fixture_end(&b);
}

/* The edges of the gradient are lossy as well; it knows nothing of it. */
MR_TEST(edges_lossy_edges_have_gradients)
{
    cluster_fixture b;
    mr_out x;
    mr_gradient dx;
    float y;
    cluster_fixture_begin(&b, 1, 1);
    be_lossy(&b);
    mr_out back = there_and_back(&b, &x), cost = mr_emit(&b.s, "Square", back);
    MR_CHECK_OK(mr_graph_gradients(b.g, &cost, 1, &x, 1, &(mr_gradient_options){.colocate = true}, &dx));
    run_vector(&b, x, odd + 1, dx.dense, &y, 1);
    MR_CHECK(y == upper_half(2 * upper_half(odd[1])));
    cluster_fixture_end(&b);
}

/* A while loop whose body is on another task, and loses a bit of its sum each time. */
MR_TEST(edges_lossy_loops)
{
    cluster_fixture b;
    mr_node *merge;
    float v;
    cluster_fixture_begin(&b, 1, 1);
    be_lossy(&b);
    const mr_named_attr frame[] = {{"frame_name", mr_a_str("w")}};
    const mr_named_attr constant[] = {{"frame_name", mr_a_str("w")}, {"is_constant", mr_a_bool(true)}};
    b.s.device = "/job:worker/task:0";
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar), ten = mr_const_f32(&b.s, 10), third = mr_const_f32(&b.s, 1.34375f);
    mr_out enter = mr_emit_n(&b.s, "Enter", frame, 1, &x, 1), limit = mr_emit_n(&b.s, "Enter", constant, 2, &ten, 1);
    mr_out more = mr_emit_n(&b.s, "Enter", constant, 2, &third, 1);
    mr_node_builder *nb = mr_node_begin(b.g, "Merge", "merge");
    mr_nb_device(nb, b.s.device);
    mr_nb_input_list(nb, &enter, 1);
    mr_nb_input_later(nb, MR_FLOAT);
    MR_CHECK_OK(mr_node_finish(nb, &merge));
    mr_out cond = mr_emit(&b.s, "LoopCond", mr_emit(&b.s, "Less", (mr_out){merge, 0}, limit));
    mr_out sw = mr_emit(&b.s, "Switch", (mr_out){merge, 0}, cond);
    b.s.device = "/job:ps/task:0";
    mr_out sum = mr_emit(&b.s, "AddV2", mr_nth(sw, 1), more);
    b.s.device = "/job:worker/task:0";
    mr_out next = mr_emit(&b.s, "NextIteration", sum);
    MR_CHECK_OK(mr_scope_status(&b.s));
    MR_CHECK_OK(mr_node_set_input(merge, 1, next));
    mr_out y = mr_emit(&b.s, "Exit", sw);
    float expected = 0.1f;
    while (expected < 10)
        expected = upper_half(upper_half(expected) + 1.34375f);
    MR_CHECK_OK(cluster_fixture_run(&b, x, 0.1f, y, NULL, &v));
    MR_CHECK(v == expected);
    cluster_fixture_end(&b);
}
