/* exec/functional_while_gradients_test.c -- gradients of functional loops, run as they are and lowered. */
#include "base/memory.h"
#include "exec/functional_fixture.h"

/* Until(i, a) = i < 3 ; Square(i, a) = i + 1, a * a */
static void add_squares(function_fixture *b)
{
    mr_out i = function_fixture_begin(b, 2);
    function_fixture_end(b, "Until", mr_emit(&b->f, "Less", i, mr_const_f32(&b->f, 3)));
    i = function_fixture_begin(b, 2);
    function_fixture_end2(b, "Squared", mr_emit(&b->f, "AddV2", i, mr_const_f32(&b->f, 1)), mr_emit(&b->f, "Mul", b->args[1], b->args[1]));
}

static mr_out lower(mr_out o, bool yes)
{
    if (yes && o.node)
        mr_node_set_attr(o.node, "_lower_using_switch_merge", mr_a_bool(true));
    return o;
}

MR_TEST(while_gradient_of_repeated_squares)
{
    for (int lowered = 0; lowered < 2; lowered++) {
        function_fixture b;
        function_fixture_init(&b);
        add_squares(&b);
        mr_out w = lower(function_fixture_while(&b.s, "StatelessWhile", "Until", "Squared", mr_const_f32(&b.s, 0), b.x),
                         lowered);
        mr_out dx = function_fixture_gradient(&b, mr_nth(w, 1)); /* x^8 */
        MR_CHECK_NEAR(function_fixture_value(&b, 1.5, mr_nth(w, 1)), 25.62890625, 1e-4);
        MR_CHECK_NEAR(function_fixture_value(&b, 1.5, dx), 8 * 17.0859375, 1e-2);
        function_fixture_deinit(&b);
    }
}

MR_TEST(while_gradient_without_an_iteration_is_the_identity)
{
    for (int lowered = 0; lowered < 2; lowered++) {
        function_fixture b;
        function_fixture_init(&b);
        add_squares(&b);
        mr_out w =
            lower(function_fixture_while(&b.s, "While", "Until", "Squared", mr_const_f32(&b.s, 7), b.x), lowered);
        MR_CHECK_NEAR(function_fixture_value(&b, 1.5, function_fixture_gradient(&b, mr_nth(w, 1))), 1, 0);
        function_fixture_deinit(&b);
    }
}

MR_TEST(while_gradient_reaches_a_constant_of_the_loop)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out i = function_fixture_begin(&b, 3); /* a = a * c, three times */
    function_fixture_end(&b, "Until", mr_emit(&b.f, "Less", i, mr_const_f32(&b.f, 3)));
    i = function_fixture_begin(&b, 3);
    mr_out rets[] = {mr_emit(&b.f, "AddV2", i, mr_const_f32(&b.f, 1)), mr_emit(&b.f, "Mul", b.args[1], b.args[2]), b.args[2]};
    function_fixture_end_n(&b, "Times", rets, 3);
    mr_out in[] = {mr_const_f32(&b.s, 0), mr_const_f32(&b.s, 5), b.x};
    mr_out w = function_fixture_while_n(&b.s, "StatelessWhile", "Until", "Times", in, 3);
    MR_CHECK_NEAR(function_fixture_value(&b, 2, function_fixture_gradient(&b, mr_nth(w, 1))), 60, 1e-4); /* 5 * 3 x^2 */
    function_fixture_deinit(&b);
}

/* A loop in a loop: each turn of the outer one squares twice. */
MR_TEST(while_gradient_of_nested_loops)
{
    for (int lowered = 0; lowered < 2; lowered++) {
        function_fixture b;
        function_fixture_init(&b);
        mr_out i = function_fixture_begin(&b, 2);
        function_fixture_end(&b, "Twice", mr_emit(&b.f, "Less", i, mr_const_f32(&b.f, 2)));
        i = function_fixture_begin(&b, 2);
        function_fixture_end2(&b, "Squared", mr_emit(&b.f, "AddV2", i, mr_const_f32(&b.f, 1)), mr_emit(&b.f, "Mul", b.args[1], b.args[1]));
        i = function_fixture_begin(&b, 2);
        mr_out inner = lower(function_fixture_while(&b.f, "StatelessWhile", "Twice", "Squared", mr_const_f32(&b.f, 0), b.args[1]), lowered);
        function_fixture_end2(&b, "Outer", mr_emit(&b.f, "AddV2", i, mr_const_f32(&b.f, 1)), mr_nth(inner, 1));
        mr_out w = lower(function_fixture_while(&b.s, "StatelessWhile", "Twice", "Outer", mr_const_f32(&b.s, 0), b.x),
                         lowered);
        float x = 1.1f, x15 = 1;
        for (int k = 0; k < 15; k++)
            x15 *= x;
        MR_CHECK_NEAR(function_fixture_value(&b, x, function_fixture_gradient(&b, mr_nth(w, 1))), 16 * x15,
                      1e-2); /* x^16 */
        function_fixture_deinit(&b);
    }
}

MR_TEST(while_gradient_of_a_conditional_in_a_loop)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out a = function_fixture_begin(&b, 1);
    function_fixture_end(&b, "Cube", mr_emit(&b.f, "Mul", a, mr_emit(&b.f, "Mul", a, a)));
    a = function_fixture_begin(&b, 1);
    function_fixture_end(&b, "Plain", mr_emit(&b.f, "Mul", a, mr_const_f32(&b.f, 2)));
    mr_out i = function_fixture_begin(&b, 2);
    function_fixture_end(&b, "Until", mr_emit(&b.f, "Less", i, mr_const_f32(&b.f, 2)));
    i = function_fixture_begin(&b, 2);
    mr_out even = mr_emit(&b.f, "Less", i, mr_const_f32(&b.f, 1));
    function_fixture_end2(&b, "Step", mr_emit(&b.f, "AddV2", i, mr_const_f32(&b.f, 1)), function_fixture_if(&b.f, "StatelessIf", even, "Cube", "Plain", b.args[1]));
    mr_out w = function_fixture_while(&b.s, "StatelessWhile", "Until", "Step", mr_const_f32(&b.s, 0), b.x); /* 2 x^3 */
    MR_CHECK_NEAR(function_fixture_value(&b, 2, mr_nth(w, 1)), 16, 1e-4);
    MR_CHECK_NEAR(function_fixture_value(&b, 2, function_fixture_gradient(&b, mr_nth(w, 1))), 24, 1e-3);
    function_fixture_deinit(&b);
}

MR_TEST(while_has_second_derivatives)
{
    function_fixture b;
    function_fixture_init(&b);
    add_squares(&b);
    mr_out w = function_fixture_while(&b.s, "StatelessWhile", "Until", "Squared", mr_const_f32(&b.s, 0), b.x);
    mr_out d2 = function_fixture_gradient(&b, function_fixture_gradient(&b, mr_nth(w, 1)));
    MR_CHECK_NEAR(function_fixture_value(&b, 1.5, d2), 56 * 11.390625, 1e-1); /* 56 x^6 */
    function_fixture_deinit(&b);
}

MR_TEST(if_has_second_derivatives)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out a = function_fixture_begin(&b, 1);
    function_fixture_end(&b, "Cube", mr_emit(&b.f, "Mul", a, mr_emit(&b.f, "Mul", a, a)));
    a = function_fixture_begin(&b, 1);
    function_fixture_end(&b, "Plain", mr_emit(&b.f, "Mul", a, mr_const_f32(&b.f, 2)));
    mr_out y = function_fixture_if(&b.s, "StatelessIf", mr_emit(&b.s, "Greater", b.x, mr_const_f32(&b.s, 1)), "Cube",
                                   "Plain", b.x);
    mr_out d = function_fixture_gradient(&b, y), d2 = function_fixture_gradient(&b, d);
    MR_CHECK_NEAR(function_fixture_value(&b, 2, d), 12, 1e-4);
    MR_CHECK_NEAR(function_fixture_value(&b, 2, d2), 12, 1e-4);
    MR_CHECK_NEAR(function_fixture_value(&b, 0.5, d), 2, 1e-4);
    MR_CHECK_NEAR(function_fixture_value(&b, 0.5, d2), 0, 1e-4);
    function_fixture_deinit(&b);
}

MR_TEST(while_gradient_reaches_a_variable)
{
    function_fixture b;
    function_fixture_init(&b);
    function_fixture_begin_types(&b, 3, (const int[]){MR_FLOAT, MR_FLOAT, MR_RESOURCE});
    function_fixture_end(&b, "Until", mr_emit(&b.f, "Less", b.args[0], mr_const_f32(&b.f, 3)));
    function_fixture_begin_types(&b, 3, (const int[]){MR_FLOAT, MR_FLOAT, MR_RESOURCE});
    mr_out read = mr_emit_with(&b.f, "ReadVariableOp", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}), b.args[2]);
    mr_out rets[] = {mr_emit(&b.f, "AddV2", b.args[0], mr_const_f32(&b.f, 1)), mr_emit(&b.f, "Mul", b.args[1], read), b.args[2]};
    function_fixture_end_n(&b, "Times", rets, 3);
    mr_out v = mr_emit0_with(&b.s, "VarHandleOp", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(&mr_pshape_scalar)}));
    mr_out in[] = {mr_const_f32(&b.s, 0), mr_const_f32(&b.s, 5), v};
    mr_out w = function_fixture_while_n(&b.s, "While", "Until", "Times", in, 3), y = mr_nth(w, 1);
    mr_out set = mr_emit(&b.s, "AssignVariableOp", v, b.x);
    MR_CHECK_OK(mr_scope_status(&b.s));
    mr_gradient dv = MR_NO_GRAD;
    MR_CHECK_OK(mr_graph_gradients(b.g, &y, 1, &v, 1, NULL, &dv));
    MR_CHECK(dv.dense.node != NULL);
    mr_node_add_control(w.node, set.node);
    mr_node_add_control(dv.dense.node, set.node);
    for (int i = 0; i < b.g->nodes.n; i++)
        if (mr_node_is(b.g->nodes.p[i], "VariableShape"))
            mr_node_add_control(b.g->nodes.p[i], set.node);
    MR_CHECK_NEAR(function_fixture_value(&b, 2, dv.dense), 60, 1e-4);
    function_fixture_deinit(&b);
}

MR_TEST(while_gradient_of_a_body_within_itself_is_an_error)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out i = function_fixture_begin(&b, 2);
    function_fixture_end(&b, "Until", mr_emit(&b.f, "Less", i, mr_const_f32(&b.f, 3)));
    i = function_fixture_begin(&b, 2);
    mr_out w = function_fixture_while(&b.f, "StatelessWhile", "Until", "Again", i, b.args[1]);
    function_fixture_end2(&b, "Again", mr_emit(&b.f, "AddV2", i, mr_const_f32(&b.f, 1)), mr_nth(w, 1));
    mr_out y = mr_nth(function_fixture_while(&b.s, "StatelessWhile", "Until", "Again", mr_const_f32(&b.s, 0), b.x), 1);
    mr_gradient dx;
    MR_CHECK_OK(mr_scope_status(&b.s));
    MR_CHECK_ERR(mr_graph_gradients(b.g, &y, 1, &b.x, 1, NULL, &dx), MR_UNIMPLEMENTED, "nested more than");
    function_fixture_deinit(&b);
}
