#include "graph/control_flow.h"

#include "graph/gradient_fixture.h"

static void find(mr_gtrial *t, mr_cflow *f)
{
    mr_cflow_init(f, t->g);
    for (int i = 0; i < t->g->nodes.n; i++)
        MR_CHECK_OK(mr_cflow_visit(f, t->g->nodes.p[i]));
}

static void done(mr_gtrial *t, mr_cflow *f)
{
    mr_cflow_deinit(f);
    mr_gtrial_deinit(t);
}

MR_TEST(control_flow_is_none_in_a_straight_line)
{
    mr_gtrial t;
    mr_cflow f;
    mr_gtrial_init(&t, 1);
    mr_out y = mr_fb1(&t.b, "Tanh", t.x[0]);
    find(&t, &f);
    MR_CHECK(!f.any && mr_cflow_frame(&f, y.node) == mr_cflow_root(&f));
    MR_CHECK(mr_cflow_guard(&f, y.node) == f.always);
    done(&t, &f);
}

MR_TEST(control_flow_tells_frames_and_loop_variables)
{
    mr_gtrial t;
    mr_cflow f;
    mr_gtrial_init(&t, 2);
    mr_out v[2] = {{0}, t.x[0]}, u[2], inside;
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 7, v + 1, 1);
    u[1] = v[1];
    mr_fb_for(&t.b, v[0], 32, u + 1, 1);
    inside = u[1] = mr_fb2(&t.b, "Mul", u[1], t.x[1]);
    mr_fb_end_for(&t.b, u + 1, 1);
    v[1] = u[1];
    mr_fb_end_for(&t.b, v + 1, 1);
    find(&t, &f);
    MR_CHECK_INT(f.frames.n, 3);
    mr_loop_frame *inner = mr_cflow_frame(&f, inside.node);
    MR_CHECK_INT(inner->depth, 2);
    MR_CHECK_INT(inner->parallel_iterations, 32);
    MR_CHECK_INT(inner->parent->parallel_iterations, 7);
    MR_CHECK_INT(inner->vars.n, 2); /* its counter, and u */
    MR_CHECK_INT(inner->exits.n, 2);
    MR_CHECK(inner->cond && inner->cond != inner->parent->cond);
    MR_CHECK(mr_cflow_value_frame(&f, u[1]) == inner->parent); /* an Exit's value is outside */
    MR_CHECK(mr_cflow_value_frame(&f, v[1]) == mr_cflow_root(&f));
    done(&t, &f);
}

MR_TEST(control_flow_guards_each_side_and_nothing_behind)
{
    mr_gtrial t;
    mr_cflow f;
    mr_gtrial_init(&t, 1);
    mr_out y;
    mr_fb_cond(&t.b, mr_fb2(&t.b, "Less", t.x[0], mr_gtrial_num(&t, 1)));
    mr_out a = mr_fb1(&t.b, "Tanh", t.x[0]), c = mr_gtrial_num(&t, 2);
    mr_fb_cond_else(&t.b, &a, 1);
    mr_out b = mr_fb1(&t.b, "Neg", t.x[0]);
    mr_fb_cond_end(&t.b, &b, &y);
    find(&t, &f);
    MR_CHECK_INT(mr_cflow_guard(&f, a.node)->n, 1);
    MR_CHECK_INT(mr_cflow_guard(&f, a.node)->sides[0].side, 1);
    MR_CHECK_INT(mr_cflow_guard(&f, b.node)->sides[0].side, 0);
    MR_CHECK(mr_cflow_guard(&f, c.node) == mr_cflow_guard(&f, a.node)); /* by its control edge */
    MR_CHECK(mr_cflow_guard(&f, y.node) == f.always);
    mr_out sel;
    int sides[2];
    MR_CHECK(mr_cflow_merge_selector(&f, y.node, &sel, sides));
    MR_CHECK(mr_node_is(sel.node, "Less") && sides[0] == 0 && sides[1] == 1);
    done(&t, &f);
}

MR_TEST(control_flow_guards_what_leaves_a_loop_on_one_side)
{
    mr_gtrial t;
    mr_cflow f;
    mr_gtrial_init(&t, 1);
    mr_out v[2] = {{0}, t.x[0]}, y;
    mr_fb_cond(&t.b, mr_fb2(&t.b, "Less", t.x[0], mr_gtrial_num(&t, 1)));
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 1);
    v[1] = mr_fb1(&t.b, "Tanh", v[1]);
    mr_out inside = v[1];
    mr_fb_end_for(&t.b, v + 1, 1);
    mr_fb_cond_else(&t.b, &v[1], 1);
    mr_fb_cond_end(&t.b, &t.x[0], &y);
    find(&t, &f);
    MR_CHECK_INT(mr_cflow_guard(&f, inside.node)->n, 2); /* the side, and that the loop continues */
    MR_CHECK_INT(mr_cflow_value_guard(&f, v[1])->n, 1);
    MR_CHECK(mr_guard_within(&f, mr_cflow_guard(&f, inside.node),
                             mr_cflow_frame(&f, inside.node)) == f.always);
    done(&t, &f);
}

MR_TEST(control_flow_does_not_know_when_a_merge_of_strangers_is_live)
{
    mr_gtrial t;
    mr_cflow f;
    mr_gtrial_init(&t, 2);
    mr_out p = mr_fb2(&t.b, "Less", t.x[0], t.x[1]), q = mr_fb2(&t.b, "Less", t.x[1], t.x[0]);
    mr_out in[] = {mr_nth(mr_fb2(&t.b, "Switch", t.x[0], p), 1),
                   mr_nth(mr_fb2(&t.b, "Switch", t.x[1], q), 1)};
    mr_out y = mr_fb_emit(&t.b, "Merge", NULL, 0, in, 2), sel;
    int sides[2];
    find(&t, &f);
    MR_CHECK_INT(mr_cflow_guard(&f, y.node)->n, 1);
    MR_CHECK_INT(mr_cflow_guard(&f, y.node)->sides[0].index, -1);
    MR_CHECK(!mr_cflow_merge_selector(&f, y.node, &sel, sides));
    done(&t, &f);
}

MR_TEST(control_flow_gives_up_on_conditionals_nested_without_end)
{
    mr_gtrial t;
    mr_cflow f;
    mr_gtrial_init(&t, 1);
    mr_out y = t.x[0];
    for (int i = 0; i < 200; i++)
        y = mr_nth(mr_emit(&t.b.s, "Switch", y, mr_placeholder(&t.b.s, MR_BOOL, "p", NULL)), 1);
    find(&t, &f);
    MR_CHECK(mr_cflow_value_guard(&f, y) == f.too_deep);
    done(&t, &f);
}

MR_TEST(control_flow_refuses_loops_nested_without_end)
{
    mr_gtrial t;
    mr_cflow f;
    mr_gtrial_init(&t, 1);
    mr_out y = t.x[0];
    for (int i = 0; i < 200; i++)
        y = mr_emit_with(&t.b.s, "Enter", MR_ATTRS({"frame_name", mr_a_str("f")}), y);
    mr_cflow_init(&f, t.g);
    MR_CHECK_ERR(mr_cflow_visit(&f, t.g->nodes.p[t.g->nodes.n - 1]), MR_INVALID_ARGUMENT, "nested more than 100 deep");
    done(&t, &f);
}
