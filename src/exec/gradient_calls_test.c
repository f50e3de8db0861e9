/* exec/gradient_calls_test.c -- gradients through function calls, variables and gathered rows, run
 * by the executor. */
#include "exec/gradient_fixture.h"
#include "graph/library.h"

/* A function of two doubles: body writes its result. */
static void add_function(mr_library *l, const char *name,
                         mr_out (*body)(mr_fb *b, mr_out x, mr_out w))
{
    mr_graph *g = mr_graph_new();
    mr_fb b;
    mr_function *f = NULL;
    MR_CHECK_OK(mr_library_copy(l, g->library));
    mr_fb_init(&b, g);
    mr_out in[] = {mr_placeholder(&b.s, MR_DOUBLE, "x", NULL),
                   mr_placeholder(&b.s, MR_DOUBLE, "w", NULL)};
    mr_out out = body(&b, in[0], in[1]);
    mr_function_spec spec = {
        .name = name, .n_nodes = -1, .n_inputs = 2, .inputs = in, .n_outputs = 1, .outputs = &out};
    MR_CHECK_OK(mr_function_from_graph(g, &spec, &f));
    MR_CHECK_OK(mr_library_add(l, f));
    mr_function_unref(f);
    mr_fb_deinit(&b);
    mr_graph_unref(g);
}

static mr_out product(mr_fb *b, mr_out x, mr_out w)
{
    return mr_fb2(b, "Mul", mr_fb1(b, "Tanh", mr_fb2(b, "Mul", x, w)), x);
}

static mr_out looping(mr_fb *b, mr_out x, mr_out w)
{
    mr_out v[2] = {{0}, x};
    mr_fb_for(b, mr_fb_num(b, MR_INT32, 3), 10, v + 1, 1);
    v[1] = mr_fb1(b, "Tanh", mr_fb2(b, "Mul", v[1], w));
    mr_fb_end_for(b, v + 1, 1);
    return v[1];
}

static mr_out calling(mr_fb *b, mr_out x, mr_out w)
{
    mr_out in[] = {x, w};
    return mr_fb2(b, "Add", mr_fb_emit(b, "product", NULL, 0, in, 2), x);
}

static mr_out forgetting(mr_fb *b, mr_out x, mr_out w)
{
    (void)w;
    return mr_fb1(b, "Tanh", x);
}

/* A part of the body is somewhere else, in a loop too. */
static mr_out spread(mr_fb *b, mr_out x, mr_out w)
{
    mr_out v[2] = {{0}, x};
    mr_fb_for(b, mr_fb_num(b, MR_INT32, 2), 10, v + 1, 1);
    b->s.device = "/device:CPU:1";
    mr_out there = mr_fb1(b, "Tanh", mr_fb2(b, "Mul", v[1], w));
    b->s.device = "";
    v[1] = mr_fb2(b, "Mul", there, x);
    mr_fb_end_for(b, v + 1, 1);
    return v[1];
}

static void setup(mr_gradient_fixture *r)
{
    mr_gradient_fixture_init(r);
    mr_gradient_fixture_input(r, 0, (const int64_t[]){0}, true);
    mr_gradient_fixture_input(r, 0, (const int64_t[]){0}, true);
    add_function(r->g->library, "product", product);
    add_function(r->g->library, "looping", looping);
    add_function(r->g->library, "calling", calling);
    add_function(r->g->library, "forgetting", forgetting);
    add_function(r->g->library, "spread", spread);
}

static mr_out call(mr_gradient_fixture *r, const char *f, mr_out x, mr_out w)
{
    return mr_fb_emit(&r->b, f, NULL, 0, (mr_out[]){x, w}, 2);
}

MR_TEST(run_gradients_of_calls)
{
    static const char *const names[] = {"product", "looping", "calling"};
    for (int i = 0; i < 3; i++) {
        mr_gradient_fixture r;
        setup(&r);
        mr_out y = call(&r, names[i], r.x[0], r.x[1]);
        mr_gradient_fixture_check(&r, mr_fb2(&r.b, "Mul", y, r.x[0]));
        mr_gradient_fixture_deinit(&r);
    }
}

MR_TEST(run_gradients_of_a_partitioned_call)
{
    mr_gradient_fixture r;
    setup(&r);
    mr_func_ref f = {"looping", 0, NULL};
    mr_named_attr attrs[] = {{"f", {MR_ATTR_FUNC, .func = &f}},
                             {"Tout", mr_a_types(1, (const int[]){MR_DOUBLE})}};
    mr_gradient_fixture_check(&r, mr_emit_n(&r.b.s, "PartitionedCall", attrs, 2, r.x, 2));
    mr_gradient_fixture_deinit(&r);
}

MR_TEST(run_gradients_of_a_call_in_a_loop_in_a_conditional)
{
    mr_gradient_fixture r;
    setup(&r);
    mr_out v[2] = {{0}, r.x[0]}, y;
    mr_fb_cond(&r.b, mr_fb2(&r.b, "Less", r.x[0], mr_gradient_fixture_num(&r, 1)));
    mr_fb_for(&r.b, mr_gradient_fixture_i32(&r, 3), 10, v + 1, 1);
    v[1] = call(&r, "calling", v[1], r.x[1]);
    mr_fb_end_for(&r.b, v + 1, 1);
    mr_fb_cond_else(&r.b, &v[1], 1);
    mr_fb_cond_end(&r.b, &r.x[1], &y);
    mr_gradient_fixture_check(&r, y);
    mr_gradient_fixture_deinit(&r);
}

/* The three ways of calling, in both sides of a conditional in a loop, and with a body on two
 * devices. */
MR_TEST(run_gradients_of_calls_in_a_conditional_in_a_loop)
{
    static const char *const names[] = {"looping", "spread"};
    for (int i = 0; i < 2; i++) {
        mr_gradient_fixture r;
        setup(&r);
        r.config.n_cpus = 2;
        mr_func_ref f = {names[i], 0, NULL};
        mr_named_attr attrs[] = {{"f", {MR_ATTR_FUNC, .func = &f}},
                                 {"Tout", mr_a_types(1, (const int[]){MR_DOUBLE})}};
        mr_out v[2] = {{0}, r.x[0]};
        mr_fb_for(&r.b, mr_gradient_fixture_i32(&r, 5), 10, v + 1, 1);
        mr_fb_cond(&r.b, mr_fb2(&r.b, "Less", v[1], mr_gradient_fixture_num(&r, 0.4)));
        mr_out in[] = {mr_fb2(&r.b, "Add", v[1], mr_gradient_fixture_num(&r, 0.9)), r.x[1]};
        mr_out a = mr_fb_emit(&r.b, "PartitionedCall", attrs, 2, in, 2);
        a = call(&r, names[i], mr_fb2(&r.b, "Add", a, r.x[0]), r.x[1]);
        mr_fb_cond_else(&r.b, &a, 1);
        in[0] = v[1];
        mr_out b = mr_fb_emit(&r.b, "StatefulPartitionedCall", attrs, 2, in, 2);
        mr_fb_cond_end(&r.b, &b, &v[1]);
        mr_fb_end_for(&r.b, v + 1, 1);
        mr_gradient_fixture_check(&r, v[1]);
        mr_gradient_fixture_deinit(&r);
    }
}

/* The gradient flows to an argument that nobody asks about, and not to the one asked about: nothing
 * of what the call's gradient emits is left, nor may be kept for the backward loop. */
MR_TEST(run_gradients_of_a_call_that_forgets_its_argument)
{
    mr_gradient_fixture r;
    setup(&r);
    mr_out v[2] = {{0}, r.x[0]};
    mr_fb_for(&r.b, mr_gradient_fixture_i32(&r, 3), 10, v + 1, 1);
    v[1] = call(&r, "forgetting", mr_gradient_fixture_num(&r, 0.5), v[1]);
    mr_fb_end_for(&r.b, v + 1, 1);
    mr_gradient_fixture_check(&r, mr_fb2(&r.b, "Mul", v[1], r.x[1]));
    mr_gradient_fixture_deinit(&r);
}

MR_TEST(run_gradients_by_symbolic_gradient)
{
    mr_gradient_fixture r;
    setup(&r);
    mr_func_ref f = {"product", 0, NULL};
    mr_named_attr attrs[] = {{"f", {MR_ATTR_FUNC, .func = &f}},
                             {"Tout", mr_a_types(2, (const int[]){MR_DOUBLE, MR_DOUBLE})}};
    mr_out in[] = {r.x[0], r.x[1], mr_gradient_fixture_num(&r, 1)},
           dx = mr_emit_n(&r.b.s, "SymbolicGradient", attrs, 2, in, 3);
    mr_tensor *t[2];
    mr_out fetches[] = {dx, mr_nth(dx, 1)};
    MR_CHECK_OK(mr_gradient_fixture_run(&r, fetches, 2, t));
    double x = *MR_DATA(double, r.feed[0]), w = *MR_DATA(double, r.feed[1]), th = tanh(x * w);
    MR_CHECK_NEAR(*MR_DATA(double, t[0]), (1 - th * th) * w * x + th, 1e-12);
    MR_CHECK_NEAR(*MR_DATA(double, t[1]), (1 - th * th) * x * x, 1e-12);
    mr_tensor_unref(t[0]);
    mr_tensor_unref(t[1]);
    mr_gradient_fixture_deinit(&r);
}

static mr_out slope_of(mr_gradient_fixture *r, const char *name, mr_out x, mr_out w)
{
    mr_func_ref f = {name, 0, NULL};
    mr_named_attr attrs[] = {{"f", {MR_ATTR_FUNC, .func = &f}},
                             {"Tout", mr_a_types(2, (const int[]){MR_DOUBLE, MR_DOUBLE})}};
    mr_out in[] = {x, w, mr_gradient_fixture_num(r, 1)};
    return mr_fb_emit(&r->b, "SymbolicGradient", attrs, 2, in, 3);
}

/* Descends along the slope of a function with a loop in it, while it is above 0.2. */
MR_TEST(run_symbolic_gradients_in_a_conditional_in_a_loop)
{
    mr_gradient_fixture r;
    setup(&r);
    mr_out v[2] = {{0}, r.x[0]};
    mr_fb_for(&r.b, mr_gradient_fixture_i32(&r, 6), 10, v + 1, 1);
    mr_fb_cond(&r.b, mr_fb2(&r.b, "Less", mr_gradient_fixture_num(&r, 0.2), v[1]));
    mr_out down = mr_fb2(&r.b, "Sub", v[1], slope_of(&r, "looping", v[1], r.x[1]));
    mr_fb_cond_else(&r.b, &down, 1);
    mr_fb_cond_end(&r.b, &v[1], &v[1]);
    mr_fb_end_for(&r.b, v + 1, 1);
    mr_tensor *t;
    MR_CHECK_OK(mr_gradient_fixture_run(&r, &v[1], 1, &t));
    double x = *MR_DATA(double, r.feed[0]), w = *MR_DATA(double, r.feed[1]);
    for (int i = 0; i < 6 && x > 0.2; i++) {
        double y = x, d = 1;
        for (int k = 0; k < 3; k++) {
            y = tanh(y * w);
            d *= (1 - y * y) * w;
        }
        x -= d;
    }
    MR_CHECK_NEAR(*MR_DATA(double, t), x, 1e-12);
    mr_tensor_unref(t);
    mr_gradient_fixture_deinit(&r);
}

/* As in TensorFlow. */
MR_TEST(run_gradients_of_symbolic_gradients_are_refused)
{
    mr_gradient_fixture r;
    setup(&r);
    mr_out y = slope_of(&r, "product", r.x[0], r.x[1]);
    mr_gradient dx;
    MR_CHECK_ERR(mr_graph_gradients(r.g, &y, 1, r.x, 1, NULL, &dx), MR_NOT_FOUND,
                 "No gradient defined for op: SymbolicGradient");
    mr_gradient_fixture_deinit(&r);
}

/* ---- variables ---- */
MR_TEST(run_gradients_of_a_variable_read_in_a_loop)
{
    mr_gradient_fixture r;
    mr_gradient dw;
    mr_tensor *t;
    mr_gradient_fixture_init(&r);
    mr_gradient_fixture_input(&r, 0, (const int64_t[]){0}, true);
    mr_named_attr attrs[] = {{"dtype", mr_a_type(MR_DOUBLE)},
                             {"shape", mr_a_shape(&mr_pshape_scalar)}};
    mr_out w = mr_emit_n(&r.b.s, "VarHandleOp", attrs, 2, NULL, 0);
    mr_out set = mr_emit(&r.b.s, "AssignVariableOp", w, mr_gradient_fixture_num(&r, 0.9));
    mr_out v[2] = {{0}, r.x[0]};
    mr_fb_for(&r.b, mr_gradient_fixture_i32(&r, 4), 10, v + 1, 1);
    v[1] = mr_fb2(&r.b, "Mul", v[1], mr_fb_emit(&r.b, "ReadVariableOp", attrs, 1, &w, 1));
    mr_fb_end_for(&r.b, v + 1, 1);
    MR_CHECK_OK(mr_graph_gradients(r.g, &v[1], 1, &w, 1, NULL, &dw));
    MR_CHECK_OK(mr_gradient_fixture_target(&r, set.node));
    MR_CHECK_OK(mr_gradient_fixture_run(&r, &dw.dense, 1, &t));
    MR_CHECK_NEAR(*MR_DATA(double, t), 4 * *MR_DATA(double, r.feed[0]) * 0.9 * 0.9 * 0.9, 1e-12);
    mr_tensor_unref(t);
    mr_gradient_fixture_deinit(&r);
}

/* ---- rows ---- */
static mr_out rows(mr_gradient_fixture *r, mr_out params, const int32_t *which)
{
    mr_out at = mr_fb_const(&r->b, mr_tensor_vector_i32(2, which)), axis = mr_gradient_fixture_i32(r, 0);
    return mr_fb_emit(&r->b, "GatherV2", NULL, 0, (mr_out[]){params, at, axis}, 3);
}

MR_TEST(run_gradients_of_rows_in_a_loop)
{
    for (int known = 0; known < 2; known++) {
        mr_gradient_fixture r;
        mr_gradient_fixture_init(&r);
        mr_out p = mr_gradient_fixture_input(&r, 2, (const int64_t[]){4, 2}, known);
        mr_out v[2] = {{0}, mr_gradient_fixture_input(&r, 2, (const int64_t[]){2, 2}, known)};
        mr_fb_for(&r.b, mr_gradient_fixture_i32(&r, 3), 10, v + 1, 1);
        v[1] =
            mr_fb1(&r.b, "Tanh", mr_fb2(&r.b, "Mul", v[1], rows(&r, p, (const int32_t[]){3, 1})));
        mr_fb_end_for(&r.b, v + 1, 1);
        mr_gradient_fixture_check(&r, mr_fb2(&r.b, "Mul", v[1], rows(&r, p, (const int32_t[]){3, 3})));
        mr_gradient_fixture_deinit(&r);
    }
}

MR_TEST(run_gradients_of_rows_on_one_side)
{
    for (int taken = 0; taken < 2; taken++) {
        mr_gradient_fixture r;
        mr_gradient_fixture_init(&r);
        mr_out p = mr_gradient_fixture_input(&r, 2, (const int64_t[]){4, 2}, true), y;
        mr_out q = mr_gradient_fixture_input(&r, 2, (const int64_t[]){2, 2}, true);
        mr_fb_cond(&r.b, mr_fb2(&r.b, "Less", mr_gradient_fixture_num(&r, 0), mr_gradient_fixture_num(&r, taken)));
        mr_out a = rows(&r, p, (const int32_t[]){3, 1});
        mr_fb_cond_else(&r.b, &a, 1);
        mr_fb_cond_end(&r.b, &q, &y);
        mr_gradient_fixture_check(&r, mr_fb2(&r.b, "Mul", y, y));
        mr_gradient_fixture_deinit(&r);
    }
}
