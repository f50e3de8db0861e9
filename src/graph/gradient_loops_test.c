#include "graph/gradient_fixture.h"

/* ---- conditionals ---- */
MR_TEST(gradients_of_a_conditional)
{
    for (int taken = 0; taken < 2; taken++) {
        mr_gtrial t;
        mr_gtrial_init(&t, 2);
        mr_out pred = mr_fb2(&t.b, "Less", t.x[0], mr_gtrial_num(&t, taken ? 1 : 0)), y;
        mr_fb_cond(&t.b, pred);
        mr_out a = mr_fb2(&t.b, "Mul", t.x[0], t.x[1]);
        mr_fb_cond_else(&t.b, &a, 1);
        mr_out b = mr_fb1(&t.b, "Tanh", t.x[0]); /* x[1] is not used on this side */
        mr_fb_cond_end(&t.b, &b, &y);
        mr_gtrial_check(&t, mr_fb2(&t.b, "Mul", y, t.x[0]));
        mr_gtrial_deinit(&t);
    }
}

MR_TEST(gradients_of_nested_conditionals)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 3);
    mr_out inner, y, p = mr_fb2(&t.b, "Less", t.x[0], mr_gtrial_num(&t, 1)),
                     q = mr_fb2(&t.b, "Less", t.x[1], mr_gtrial_num(&t, 0));
    mr_fb_cond(&t.b, p);
    mr_fb_cond(&t.b, q);
    mr_out a = mr_fb2(&t.b, "Mul", t.x[0], t.x[2]);
    mr_fb_cond_else(&t.b, &a, 1);
    mr_out b = mr_fb2(&t.b, "Mul", mr_fb1(&t.b, "Tanh", t.x[1]), mr_gtrial_num(&t, 3));
    mr_fb_cond_end(&t.b, &b, &inner);
    mr_out c = mr_fb2(&t.b, "Mul", inner, t.x[0]);
    mr_fb_cond_else(&t.b, &c, 1);
    mr_fb_cond_end(&t.b, &t.x[2], &y);
    mr_gtrial_check(&t, y);
    mr_gtrial_deinit(&t);
}

/* As an optimizer may leave it: x[1] and x[2] are used on one side only, without a Switch. */
MR_TEST(gradients_of_values_used_on_one_side_without_a_switch)
{
    for (int taken = 0; taken < 4; taken++) {
        mr_gtrial t;
        mr_gtrial_init(&t, 3);
        mr_fb *b = &t.b;
        mr_out p = mr_fb2(b, "Less", t.x[0], mr_gtrial_num(&t, taken & 1));
        mr_out q = mr_fb2(b, "Less", t.x[1], mr_gtrial_num(&t, taken >> 1));
        mr_out split = mr_fb2(b, "Switch", t.x[0], p),
               inner_q = mr_nth(mr_fb2(b, "Switch", q, p), 1);
        mr_out inner = mr_fb2(b, "Switch", mr_nth(split, 1), inner_q);
        mr_out a = mr_fb2(b, "Mul", mr_nth(inner, 1), t.x[1]),
               c = mr_fb2(b, "Mul", mr_nth(inner, 0), t.x[2]);
        mr_out joined = mr_fb_emit(b, "Merge", NULL, 0, (mr_out[]){c, a}, 2);
        mr_out y = mr_fb_emit(b, "Merge", NULL, 0, (mr_out[]){mr_nth(split, 0), joined}, 2);
        mr_gtrial_check(&t, mr_fb2(b, "Mul", mr_fb1(b, "Tanh", y), t.x[2]));
        mr_gtrial_deinit(&t);
    }
}

MR_TEST(gradients_of_gradients_of_a_conditional)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out y, p = mr_fb2(&t.b, "Less", t.x[0], mr_gtrial_num(&t, 1));
    mr_gradient dx;
    mr_fb_cond(&t.b, p);
    mr_out a = mr_fb2(&t.b, "Mul", t.x[0], mr_fb2(&t.b, "Mul", t.x[0], t.x[0]));
    mr_fb_cond_else(&t.b, &a, 1);
    mr_fb_cond_end(&t.b, &t.x[0], &y);
    MR_CHECK_OK(mr_graph_gradients(t.g, &y, 1, t.x, 1, NULL, &dx));
    mr_gtrial_check(&t, dx.dense);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_rows_in_a_conditional)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_gtrial_vector(&t, 0, 4, true);
    mr_out y, p = mr_fb2(&t.b, "Less", mr_gtrial_num(&t, 0), mr_gtrial_num(&t, 1));
    mr_fb_cond(&t.b, p);
    mr_out a = mr_fb2(&t.b, "Gather", t.x[0], mr_gtrial_ints(&t, 2, (const int32_t[]){1, 3}));
    mr_fb_cond_else(&t.b, &a, 1);
    mr_out b = mr_fb2(&t.b, "Gather", t.x[0], mr_gtrial_ints(&t, 2, (const int32_t[]){0, 0}));
    mr_fb_cond_end(&t.b, &b, &y);
    mr_gtrial_check(&t, mr_fb2(&t.b, "Mul", y, y));
    mr_gtrial_deinit(&t);
}

/* ---- loops ---- */
MR_TEST(gradients_of_a_loop)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_out v[3] = {{0}, t.x[0]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 4), 10, v + 1, 1);
    v[1] = mr_fb1(&t.b, "Tanh", mr_fb2(&t.b, "Mul", v[1], t.x[1])); /* x[1] is invariant */
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_gtrial_check(&t, v[1]);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_a_loop_that_never_runs)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_out v[3] = {{0}, t.x[0]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 0), 10, v + 1, 1);
    v[1] = mr_fb2(&t.b, "Mul", v[1], t.x[1]);
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_gtrial_check(&t, v[1]);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_a_loop_with_a_variable_nobody_takes_out)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_out v[4] = {{0}, t.x[0], t.x[1]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 2);
    mr_out a = v[1];
    v[1] = mr_fb2(&t.b, "Mul", v[1], v[2]);
    v[2] = mr_fb1(&t.b, "Tanh", a);
    mr_fb_end_for(&t.b, v + 1, 2);
    mr_gtrial_check(&t, v[1]);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_a_loop_with_shapes_that_grow)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_gtrial_vector(&t, 0, 1, false);
    mr_gtrial_vector(&t, 1, 2, false);
    mr_out v[3] = {{0}, t.x[0]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 1);
    v[1] = mr_fb2(&t.b, "Append", mr_fb1(&t.b, "Tanh", v[1]), t.x[1]);
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_gtrial_check(&t, mr_fb2(&t.b, "Mul", v[1], v[1]));
    mr_gtrial_deinit(&t);
}

/* The op's gradient is emitted for both its inputs, and that of the second goes again. */
MR_TEST(gradients_of_a_loop_by_one_of_an_ops_two_inputs)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_gtrial_vector(&t, 0, 1, false);
    mr_out v[3] = {{0}, t.x[0]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 1);
    mr_out fixed = mr_fb2(&t.b, "Fill", mr_gtrial_ints(&t, 1, (const int32_t[]){2}),
                          mr_gtrial_num(&t, 0.5));
    v[1] = mr_fb2(&t.b, "Append", mr_fb1(&t.b, "Tanh", v[1]), fixed);
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_gtrial_check(&t, mr_fb2(&t.b, "Mul", v[1], v[1]));
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_rows_in_a_loop)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_gtrial_vector(&t, 0, 4, false);
    mr_gtrial_vector(&t, 1, 2, false);
    mr_out v[3] = {{0}, t.x[1]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 1);
    mr_out rows = mr_fb2(&t.b, "Gather", t.x[0], mr_gtrial_ints(&t, 2, (const int32_t[]){1, 3}));
    v[1] = mr_fb1(&t.b, "Tanh", mr_fb2(&t.b, "Mul", v[1], rows));
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_gtrial_check(&t, v[1]);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_nested_loops)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_out v[3] = {{0}, t.x[0]}, u[3];
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 1);
    u[1] = v[1];
    mr_fb_for(&t.b, v[0], 10, u + 1, 1); /* runs 0, 1, 2 times */
    u[1] = mr_fb1(&t.b, "Tanh", mr_fb2(&t.b, "Mul", mr_fb2(&t.b, "Add", u[1], v[1]), t.x[1]));
    mr_fb_end_for(&t.b, u + 1, 1);
    v[1] = mr_fb2(&t.b, "Add", u[1], v[1]);
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_gtrial_check(&t, v[1]);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_a_conditional_in_a_loop)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_out v[3] = {{0}, t.x[0]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 5), 10, v + 1, 1);
    mr_fb_cond(&t.b, mr_fb2(&t.b, "Less", v[1], mr_gtrial_num(&t, 0.5)));
    mr_out a = mr_fb2(&t.b, "Add", mr_fb2(&t.b, "Mul", v[1], v[1]), t.x[1]);
    mr_fb_cond_else(&t.b, &a, 1);
    mr_out b = mr_fb2(&t.b, "Mul", mr_fb1(&t.b, "Tanh", v[1]), mr_gtrial_num(&t, 0.3));
    mr_fb_cond_end(&t.b, &b, &v[1]);
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_gtrial_check(&t, v[1]);
    mr_gtrial_deinit(&t);
}

/* A value from outside as front ends bring it into a body: only there in iterations that are run. */
static mr_out brought(mr_gtrial *t, mr_out v, mr_out var)
{
    mr_out o = mr_fb1(&t->b, "Identity", v);
    mr_node_add_control(o.node, var.node);
    return o;
}

/* The predicate does not change in the loop, and one side does not hang on the loop's variable. */
MR_TEST(gradients_of_a_conditional_in_a_loop_that_is_decided_outside)
{
    for (int taken = 0; taken < 2; taken++) {
        mr_gtrial t;
        mr_gtrial_init(&t, 2);
        mr_out v[3] = {{0}, t.x[0]}, pred = mr_fb2(&t.b, "Less", t.x[0], mr_gtrial_num(&t, taken));
        mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 1);
        mr_fb_cond(&t.b, brought(&t, pred, v[1]));
        mr_out a = mr_fb2(&t.b, "Mul", v[1], t.x[1]);
        mr_fb_cond_else(&t.b, &a, 1);
        mr_out b = mr_gtrial_num(&t, 10);
        mr_fb_cond_end(&t.b, &b, &v[1]);
        mr_fb_end_for(&t.b, v + 1, 1);
        mr_gtrial_check(&t, v[1]);
        mr_gtrial_deinit(&t);
    }
}

/* The same, requested inside the body: the loop ends. */
MR_TEST(gradients_within_the_body_of_a_conditional_that_is_decided_outside)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out v[3] = {{0}, t.x[0]}, pred = mr_fb2(&t.b, "Less", t.x[0], mr_gtrial_num(&t, 0)), y, ten;
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 1);
    mr_out x = v[1];
    mr_fb_cond(&t.b, brought(&t, pred, x));
    mr_out a = mr_fb2(&t.b, "Mul", x, x);
    mr_fb_cond_else(&t.b, &a, 1);
    ten = mr_gtrial_num(&t, 10);
    mr_fb_cond_end(&t.b, &ten, &y);
    mr_gradient dx;
    MR_CHECK_OK(mr_graph_gradients(t.g, &y, 1, &x, 1, NULL, &dx));
    mr_fb_adopt(&t.b, dx.dense);
    v[1] = dx.dense;
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_mini_value got;
    MR_CHECK_OK(mr_mini_run(t.g, t.feed, 1, &v[1], 1, 7, &got));
    MR_CHECK_NEAR(got.v[0], 0, 1e-12);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_a_loop_in_a_conditional)
{
    for (int taken = 0; taken < 2; taken++) {
        mr_gtrial t;
        mr_gtrial_init(&t, 2);
        mr_out v[3] = {{0}, t.x[0]}, y;
        mr_fb_cond(&t.b, mr_fb2(&t.b, "Less", t.x[0], mr_gtrial_num(&t, taken)));
        mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 1);
        v[1] = mr_fb2(&t.b, "Mul", mr_fb1(&t.b, "Tanh", v[1]), t.x[1]);
        mr_fb_end_for(&t.b, v + 1, 1);
        mr_fb_cond_else(&t.b, &v[1], 1);
        mr_fb_cond_end(&t.b, &t.x[1], &y);
        mr_gtrial_check(&t, mr_fb2(&t.b, "Mul", y, t.x[1]));
        mr_gtrial_deinit(&t);
    }
}

static int count_ops(const mr_graph *g, const char *op)
{
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++)
        n += mr_node_is(g->nodes.p[i], op);
    return n;
}

MR_TEST(gradients_of_a_loop_keep_nothing_that_is_invariant)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_out v[3] = {{0}, t.x[0]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 1);
    v[1] = mr_fb2(&t.b, "Add", mr_fb2(&t.b, "Mul", v[1], mr_gtrial_num(&t, 2)), t.x[1]);
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_gradient dx;
    MR_CHECK_OK(mr_graph_gradients(t.g, &v[1], 1, t.x, 1, NULL, &dx));
    MR_CHECK_INT(count_ops(t.g, "StackV2"), 0);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_a_loop_keep_a_value_once)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out v[3] = {{0}, t.x[0]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 1);
    v[1] = mr_fb2(&t.b, "Mul", mr_fb2(&t.b, "Mul", v[1], v[1]), mr_fb1(&t.b, "Identity", v[1]));
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_gradient dx;
    MR_CHECK_OK(mr_graph_gradients(t.g, &v[1], 1, t.x, 1, NULL, &dx));
    MR_CHECK_INT(count_ops(t.g, "StackV2"), 2); /* v and v * v */
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_a_loop_leave_existing_nodes_alone)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_out v[3] = {{0}, t.x[0]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 1);
    v[1] = mr_fb2(&t.b, "Mul", v[1], t.x[1]);
    mr_fb_end_for(&t.b, v + 1, 1);
    int n = t.g->nodes.n, before = 0, after = 0;
    mr_gradient dx[2];
    for (int i = 0; i < n; i++)
        before += t.g->nodes.p[i]->n_ctrl * 1000 + t.g->nodes.p[i]->n_in;
    MR_CHECK_OK(mr_graph_gradients(t.g, &v[1], 1, t.x, 2, NULL, dx));
    for (int i = 0; i < n; i++)
        after += t.g->nodes.p[i]->n_ctrl * 1000 + t.g->nodes.p[i]->n_in;
    MR_CHECK_INT(before, after);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_a_loop_twice_do_not_get_into_each_other_s_way)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_out v[3] = {{0}, t.x[0]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 1);
    v[1] = mr_fb2(&t.b, "Mul", mr_fb1(&t.b, "Tanh", v[1]), t.x[1]);
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_gtrial_check(&t, v[1]);
    mr_gtrial_check(&t, mr_fb2(&t.b, "Mul", v[1], v[1]));
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_gradients_of_a_loop_are_refused)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out v[3] = {{0}, t.x[0]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 1);
    v[1] = mr_fb2(&t.b, "Mul", v[1], v[1]);
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_gradient dx, ddx;
    MR_CHECK_OK(mr_graph_gradients(t.g, &v[1], 1, t.x, 1, NULL, &dx));
    MR_CHECK_ERR(mr_graph_gradients(t.g, &dx.dense, 1, t.x, 1, NULL, &ddx), MR_UNIMPLEMENTED,
                 "Second-order gradient for while loops not supported");
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_with_respect_to_the_inside_of_a_loop_are_refused)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out v[3] = {{0}, t.x[0]}, inside;
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 1);
    inside = v[1] = mr_fb1(&t.b, "Tanh", v[1]);
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_gradient dx;
    MR_CHECK_ERR(mr_graph_gradients(t.g, &v[1], 1, &inside, 1, NULL, &dx), MR_INVALID_ARGUMENT,
                 "inside of while loop 'while_0'");
    mr_gtrial_deinit(&t);
}

/* x <- x - 0.1 d/dx (tanh(x) w), four times: the gradient is requested inside the body. */
MR_TEST(gradients_within_the_body_of_a_loop)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_out v[3] = {{0}, t.x[0]}, w = mr_fb1(&t.b, "Tanh", t.x[1]);
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 4), 10, v + 1, 1);
    mr_out y = mr_fb2(&t.b, "Mul", mr_fb1(&t.b, "Tanh", v[1]), w), xs[] = {v[1], t.x[1]};
    mr_gradient dx[2];
    MR_CHECK_OK(mr_graph_gradients(t.g, &y, 1, xs, 2, NULL, dx));
    mr_fb_adopt(&t.b, dx[0].dense);
    mr_fb_adopt(&t.b, dx[1].dense);
    mr_out step = mr_fb2(&t.b, "Add", dx[0].dense, dx[1].dense);
    v[1] = mr_fb2(&t.b, "Sub", v[1], mr_fb2(&t.b, "Mul", step, mr_gtrial_num(&t, 0.1)));
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_mini_value got;
    MR_CHECK_OK(mr_mini_run(t.g, t.feed, 2, &v[1], 1, 7, &got));
    double x = 0.3, b = tanh(0.7);
    for (int i = 0; i < 4; i++)
        x -= 0.1 * ((1 - tanh(x) * tanh(x)) * b + tanh(x) * (1 - b * b));
    MR_CHECK_NEAR(got.v[0], x, 1e-12);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_through_the_start_of_the_loop_they_are_in_are_refused)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out v[3] = {{0}, t.x[0]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 4), 10, v + 1, 1);
    mr_gradient dx;
    mr_out y = mr_fb1(&t.b, "Tanh", v[1]);
    MR_CHECK_ERR(mr_graph_gradients(t.g, &y, 1, t.x, 1, NULL, &dx), MR_INVALID_ARGUMENT,
                 "Cannot compute gradient inside while loop with respect to op");
    v[1] = y;
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_a_choice_of_three)
{
    for (int taken = 0; taken < 3; taken++) {
        mr_gtrial t;
        mr_gtrial_init(&t, 1);
        mr_out split = mr_emit_with(&t.b.s, "_SwitchN", MR_ATTRS({"num_outs", mr_a_int(3)}), t.x[0],
                                    mr_gtrial_i32(&t, taken));
        mr_out in[] = {mr_fb1(&t.b, "Tanh", mr_nth(split, 2)),
                       mr_fb1(&t.b, "Neg", mr_nth(split, 0)),
                       mr_fb2(&t.b, "Mul", mr_nth(split, 1), mr_nth(split, 1))};
        mr_gtrial_check(&t, mr_fb_emit(&t.b, "Merge", NULL, 0, in, 3));
        mr_gtrial_deinit(&t);
    }
}

/* Which input the Merge took is known only when it has run. */
MR_TEST(gradients_of_a_merge_of_two_conditionals)
{
    for (int taken = 0; taken < 2; taken++) {
        mr_gtrial t;
        mr_gtrial_init(&t, 2);
        mr_out p = mr_fb2(&t.b, "Less", t.x[0], mr_gtrial_num(&t, taken));
        mr_out q = mr_fb2(&t.b, "GreaterEqual", t.x[0], mr_gtrial_num(&t, taken));
        mr_out a = mr_nth(mr_fb2(&t.b, "Switch", t.x[0], p), 1),
               b = mr_nth(mr_fb2(&t.b, "Switch", t.x[1], q), 1);
        mr_out in[] = {mr_fb1(&t.b, "Tanh", a), mr_fb2(&t.b, "Mul", b, b)};
        mr_gtrial_check(&t, mr_fb_emit(&t.b, "Merge", NULL, 0, in, 2));
        mr_gtrial_deinit(&t);
    }
}

MR_TEST(gradients_of_a_variable_read_in_a_loop_arrive_at_its_handle)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out handle = mr_emit0_with(
        &t.b.s, "VarHandleOp",
        MR_ATTRS({"dtype", mr_a_type(MR_DOUBLE)}, {"shape", mr_a_shape(&mr_pshape_scalar)}));
    mr_out v[3] = {{0}, t.x[0]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 4), 10, v + 1, 1);
    mr_named_attr dtype = {"dtype", mr_a_type(MR_DOUBLE)};
    v[1] = mr_fb2(&t.b, "Mul", v[1], mr_fb_emit(&t.b, "ReadVariableOp", &dtype, 1, &handle, 1));
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_gradient dx;
    MR_CHECK_OK(mr_graph_gradients(t.g, &v[1], 1, &handle, 1, NULL, &dx));
    MR_CHECK(dx.dense.node && mr_node_is_exit(dx.dense.node));
    MR_CHECK_INT(mr_out_type(dx.dense), MR_DOUBLE);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_a_loop_without_a_condition_are_refused)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_named_attr frame = {"frame_name", mr_a_str("f")};
    mr_out in = mr_emit_n(&t.b.s, "Enter", &frame, 1, &t.x[0], 1), y = mr_emit(&t.b.s, "Exit", in);
    mr_gradient dx;
    MR_CHECK_ERR(mr_graph_gradients(t.g, &y, 1, t.x, 1, NULL, &dx), MR_INVALID_ARGUMENT,
                 "it has no LoopCond");
    mr_gtrial_deinit(&t);
}
