#include "graph/gradient_fixture.h"

/* ---- straight lines ---- */
MR_TEST(gradients_of_a_product)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_out y =
        mr_fb2(&t.b, "Mul", mr_fb1(&t.b, "Tanh", t.x[0]), mr_fb2(&t.b, "Mul", t.x[0], t.x[1]));
    mr_gtrial_check(&t, y);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_meeting_are_added)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out a = mr_fb2(&t.b, "Mul", t.x[0], t.x[0]),
           y = mr_fb2(&t.b, "Add", mr_fb2(&t.b, "Mul", a, t.x[0]), a);
    mr_gtrial_check(&t, y);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_undo_broadcasting_of_unknown_shapes)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_gtrial_vector(&t, 1, 3, false);
    mr_out x = mr_placeholder(&t.b.s, MR_DOUBLE, "any", NULL);
    t.x[0] = x;
    t.feed[0] = (mr_mini_feed){x.node, -1, {0.7}};
    mr_gtrial_check(&t, mr_fb2(&t.b, "Mul", mr_fb2(&t.b, "Mul", t.x[0], t.x[1]), t.x[1]));
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_undo_broadcasting_of_known_shapes)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_gtrial_vector(&t, 1, 3, true);
    int before = t.g->nodes.n;
    mr_gtrial_check(&t, mr_fb2(&t.b, "Mul", mr_fb2(&t.b, "Sub", t.x[0], t.x[1]), t.x[1]));
    for (int i = before; i < t.g->nodes.n; i++)
        MR_CHECK(!mr_node_is(t.g->nodes.p[i], "BroadcastGradientArgs"));
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_one_of_two_outputs_take_zeros_for_the_other)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out both = mr_fb1(&t.b, "Both", t.x[0]);
    mr_gtrial_check(&t, mr_fb2(&t.b, "Mul", mr_nth(both, 1), mr_nth(both, 1)));
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_are_added_when_a_y_leads_to_another)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out a = mr_fb2(&t.b, "Mul", t.x[0], t.x[0]), ys[] = {a, mr_fb2(&t.b, "Mul", a, a)};
    mr_gradient dx;
    mr_mini_value v;
    MR_CHECK_OK(mr_graph_gradients(t.g, ys, 2, t.x, 1, NULL, &dx));
    MR_CHECK_OK(mr_mini_run(t.g, t.feed, 1, &dx.dense, 1, 1, &v));
    MR_CHECK_NEAR(v.v[0], 2 * 0.3 + 4 * 0.3 * 0.3 * 0.3, 1e-12);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_stop_where_told)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out a = mr_fb2(&t.b, "Mul", t.x[0], t.x[0]), y = mr_fb2(&t.b, "Mul", a, t.x[0]);
    mr_gradient dx;
    mr_mini_value v;
    MR_CHECK_OK(mr_graph_gradients(t.g, &y, 1, t.x, 1,
                                   &(mr_gradient_options){.n_stop = 1, .stop = &a}, &dx));
    MR_CHECK_OK(mr_mini_run(t.g, t.feed, 1, &dx.dense, 1, 1, &v));
    MR_CHECK_NEAR(v.v[0], 0.09, 1e-12);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_use_what_arrives_at_ys)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out y = mr_fb2(&t.b, "Mul", t.x[0], t.x[0]);
    mr_gradient dx, dy = {mr_gtrial_num(&t, 10), MR_NO_OUT, MR_NO_OUT, MR_NO_OUT};
    mr_mini_value v;
    MR_CHECK_OK(
        mr_graph_gradients(t.g, &y, 1, t.x, 1, &(mr_gradient_options){.grad_ys = &dy}, &dx));
    MR_CHECK_OK(mr_mini_run(t.g, t.feed, 1, &dx.dense, 1, 1, &v));
    MR_CHECK_NEAR(v.v[0], 6, 1e-12);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_an_op_without_one_are_not_found)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out y = mr_fb1(&t.b, "NoGrad", t.x[0]);
    mr_gradient dx;
    MR_CHECK_ERR(mr_graph_gradients(t.g, &y, 1, t.x, 1, NULL, &dx), MR_NOT_FOUND,
                 "No gradient defined for op: NoGrad");
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_pass_by_an_op_without_one_that_leads_nowhere)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out y = mr_fb2(&t.b, "Mul", mr_fb1(&t.b, "NoGrad", mr_gtrial_num(&t, 3)), t.x[0]);
    mr_gtrial_check(&t, y);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_the_unreachable_are_none)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_out y = mr_fb1(&t.b, "Tanh", t.x[0]);
    mr_gradient dx[2];
    MR_CHECK_OK(mr_graph_gradients(t.g, &y, 1, t.x, 2, NULL, dx));
    MR_CHECK(dx[0].dense.node && !dx[1].dense.node);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_in_tensorflow_s_way_refuse_the_unreachable)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 2);
    mr_out y = mr_fb1(&t.b, "Tanh", t.x[0]);
    mr_gradient dx[2];
    mr_gradient_options o = {.tf_semantics = true};
    MR_CHECK_ERR(mr_graph_gradients(t.g, &y, 1, t.x, 2, &o, dx), MR_INVALID_ARGUMENT,
                 "Cannot compute the partial derivative for node 'x_1' as it's unreachable from "
                 "the output node(s).");
    mr_gtrial_deinit(&t);
}

/* z = x + y with y = 2 x */
MR_TEST(gradients_arrive_at_what_they_stop_at)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out y = mr_fb2(&t.b, "Mul", t.x[0], mr_gtrial_num(&t, 2)), z = mr_fb2(&t.b, "Add", t.x[0], y);
    mr_out xs[] = {t.x[0], y};
    const double want[][2] = {{3, 1}, {1, 1}, {1, 1}};
    for (int i = 0; i < 3; i++) { /* stop at x; at y; at both */
        mr_gradient dx[2];
        mr_gradient_options o = {.stop = &xs[i == 1], .n_stop = i == 2 ? 2 : 1};
        MR_CHECK_OK(mr_graph_gradients(t.g, &z, 1, xs, 2, &o, dx));
        for (int j = 0; j < 2; j++) {
            mr_mini_value got;
            MR_CHECK_OK(mr_mini_run(t.g, t.feed, 1, &dx[j].dense, 1, 7, &got));
            MR_CHECK_NEAR(got.v[0], want[i][j], 1e-12);
        }
    }
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_in_tensorflow_s_way_are_none_behind_what_stops_them)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out y = mr_fb1(&t.b, "StopGradient", t.x[0]);
    mr_gradient dx;
    MR_CHECK_OK(
        mr_graph_gradients(t.g, &y, 1, t.x, 1, &(mr_gradient_options){.tf_semantics = true}, &dx));
    MR_CHECK(!dx.dense.node && !dx.values.node);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_in_tensorflow_s_way_want_a_prefix_of_their_own)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out y = mr_fb1(&t.b, "Tanh", t.x[0]);
    mr_gradient dx;
    mr_gradient_options o = {.tf_semantics = true, .prefix = "Tanh"};
    MR_CHECK_ERR(mr_graph_gradients(t.g, &y, 1, t.x, 1, &o, &dx), MR_INVALID_ARGUMENT,
                 "conflicts with existing node");
    o.prefix = "Tan";
    MR_CHECK_OK(mr_graph_gradients(t.g, &y, 1, t.x, 1, &o, &dx));
    MR_CHECK(strncmp(dx.dense.node->name, "Tan/", 4) == 0);
    mr_gtrial_deinit(&t);
}

static bool ten_times(void *ctx, mr_grad *g)
{
    (void)ctx;
    if (!mr_node_is(g->node, "NoGrad"))
        return false;
    mr_dxi(g, 0, mr_emit(g->s, "Mul", mr_dyi(g, 0), mr_scalar_like(g, 10, mr_xi(g, 0))));
    return true;
}

MR_TEST(gradients_ask_the_override_first)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out y = mr_fb1(&t.b, "NoGrad", t.x[0]);
    mr_gradient dx;
    mr_mini_value v;
    MR_CHECK_OK(
        mr_graph_gradients(t.g, &y, 1, t.x, 1, &(mr_gradient_options){.override = ten_times}, &dx));
    MR_CHECK_OK(mr_mini_run(t.g, t.feed, 1, &dx.dense, 1, 1, &v));
    MR_CHECK_NEAR(v.v[0], 10, 0);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_colocate_when_asked)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out y = mr_fb1(&t.b, "Tanh", t.x[0]);
    mr_gradient dx;
    MR_CHECK_OK(
        mr_graph_gradients(t.g, &y, 1, t.x, 1, &(mr_gradient_options){.colocate = true}, &dx));
    const mr_attr *c = mr_node_attr(dx.dense.node, "_class");
    MR_CHECK(c && c->n == 1 && mr_sv_is(c->ss[0], "loc:@Tanh"));
    mr_gtrial_deinit(&t);
}

/* ---- rows ---- */
MR_TEST(gradients_of_rows_stay_rows)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_gtrial_vector(&t, 0, 4, true);
    mr_out a = mr_fb2(&t.b, "Gather", t.x[0], mr_gtrial_ints(&t, 2, (const int32_t[]){1, 3}));
    mr_out c = mr_fb2(&t.b, "Gather", t.x[0], mr_gtrial_ints(&t, 2, (const int32_t[]){3, 3})),
           y = mr_fb2(&t.b, "Mul", a, c);
    mr_gradient dx;
    mr_mini_value v[2];
    MR_CHECK_OK(
        mr_graph_gradients(t.g, &y, 1, t.x, 1, &(mr_gradient_options){.sparse = true}, &dx));
    MR_CHECK(!dx.dense.node && dx.values.node);
    mr_out fetch[] = {dx.values, dx.indices};
    MR_CHECK_OK(mr_mini_run(t.g, t.feed, 1, fetch, 2, 1, v));
    MR_CHECK_INT(v[0].n, 4);
    MR_CHECK_INT(v[1].n, 4);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_rows_and_of_all_are_added_dense)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_gtrial_vector(&t, 0, 4, true);
    mr_out a = mr_fb2(&t.b, "Gather", t.x[0], mr_gtrial_ints(&t, 4, (const int32_t[]){1, 3, 3, 0}));
    mr_gtrial_check(&t, mr_fb2(&t.b, "Mul", a, t.x[0]));
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_rows_are_dense_unless_asked_otherwise)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_gtrial_vector(&t, 0, 4, false);
    mr_out a = mr_fb2(&t.b, "Gather", t.x[0], mr_gtrial_ints(&t, 3, (const int32_t[]){1, 3, 3}));
    mr_gtrial_check(&t, mr_fb2(&t.b, "Mul", a, a));
    mr_gtrial_deinit(&t);
}

/* A walk only visits nodes that ys depend on; the rest of the graph costs nothing. */
MR_TEST(gradients_do_not_look_at_the_rest_of_the_graph)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    mr_out loop[2] = {{0}, t.x[0]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 7, loop + 1, 1); /* a loop elsewhere does not matter either */
    loop[1] = mr_fb1(&t.b, "Tanh", loop[1]);
    mr_fb_end_for(&t.b, loop + 1, 1);
    mr_out y = mr_fb1(&t.b, "Tanh", t.x[0]), other = t.x[0];
    for (int i = 0; i < 1000; i++)
        other = mr_fb1(&t.b, "Tanh", other);
    for (int i = 0; i < 1000; i++) /* x has consumers that no y depends on */
        mr_fb1(&t.b, "Neg", t.x[0]);
    int looked_at = 0;
    mr_gradient dx;
    mr_gradient_options o = {.n_looked_at = &looked_at};
    MR_CHECK_OK(mr_graph_gradients(t.g, &y, 1, t.x, 1, &o, &dx));
    MR_CHECK(dx.dense.node != NULL);
    MR_CHECK(looked_at > 0 && looked_at <= 4);
    MR_CHECK_OK(mr_graph_gradients(t.g, &other, 1, &y, 1, &o, &dx));
    MR_CHECK(!dx.dense.node);
    MR_CHECK_OK(mr_graph_gradients(t.g, &other, 1, t.x, 1, &o, &dx));
    MR_CHECK(looked_at >= 1000);
    mr_gtrial_deinit(&t);
}
