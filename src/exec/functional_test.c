/* exec/functional_test.c -- If, Case, While and For with real functions and sessions. */
#include "base/memory.h"
#include "exec/functional_fixture.h"

static void add_branches(function_fixture *b)
{
    mr_out a = function_fixture_begin(b, 1);
    function_fixture_end(b, "Twice", mr_emit(&b->f, "AddV2", a, a));
    a = function_fixture_begin(b, 1);
    function_fixture_end(b, "Quadrat", mr_emit(&b->f, "Mul", a, a));
}

MR_TEST(if_calls_the_chosen_branch)
{
    function_fixture b;
    function_fixture_init(&b);
    add_branches(&b);
    mr_out y = function_fixture_if(&b.s, "StatelessIf", mr_emit(&b.s, "Greater", b.x, mr_const_f32(&b.s, 4)), "Twice", "Quadrat", b.x);
    MR_CHECK_NEAR(function_fixture_value(&b, 5, y), 10, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 3, y), 9, 0);
    function_fixture_deinit(&b);
}

MR_TEST(if_takes_any_tensor_as_its_condition)
{
    function_fixture b;
    function_fixture_init(&b);
    add_branches(&b);
    mr_out y = function_fixture_if(&b.s, "If", mr_const_str(&b.s, ""), "Twice", "Quadrat", b.x);
    MR_CHECK_NEAR(function_fixture_value(&b, 5, y), 25, 0);
    mr_out z = function_fixture_if(&b.s, "If", b.x, "Twice", "Quadrat", b.x);
    MR_CHECK_NEAR(function_fixture_value(&b, 5, z), 10, 0);
    function_fixture_deinit(&b);
}

MR_TEST(if_with_a_branch_that_is_not_there_is_an_error)
{
    function_fixture b;
    function_fixture_init(&b);
    add_branches(&b);
    float v;
    mr_out y = function_fixture_if(&b.s, "If", b.x, "Twice", "Nowhere", b.x);
    MR_CHECK_NEAR(function_fixture_value(&b, 5, y), 10, 0);
    MR_CHECK_ERR(function_fixture_run(&b, 0, y, &v), MR_NOT_FOUND, "Nowhere");
    function_fixture_deinit(&b);
}

MR_TEST(case_takes_the_last_branch_for_an_index_outside)
{
    function_fixture b;
    function_fixture_init(&b);
    add_branches(&b);
    static const mr_func_ref f0 = {.name = "Twice"}, f1 = {.name = "Quadrat"};
    const mr_func_ref *list[] = {&f0, &f1};
    static const int t[] = {MR_FLOAT};
    mr_out index = mr_emit_with(&b.s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), b.x);
    mr_out y = mr_emit_with(&b.s, "Case", MR_ATTRS({"Tin", mr_a_types(1, t)}, {"Tout", mr_a_types(1, t)},
                                                   {"branches", {MR_ATTR_FUNC, true, 2, .funcs = list}}), index, b.x);
    MR_CHECK_NEAR(function_fixture_value(&b, 0, y), 0, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 1, y), 1, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 7, y), 49, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, -7, y), 49, 0);
    function_fixture_deinit(&b);
}

/* Below(a, b) = a < 1000 ; Double(a, b) = 2a, b + 1 */
static void add_loop(function_fixture *b)
{
    mr_out a = function_fixture_begin(b, 2);
    function_fixture_end(b, "Below", mr_emit(&b->f, "Less", a, mr_const_f32(&b->f, 1000)));
    a = function_fixture_begin(b, 2);
    function_fixture_end2(b, "Double", mr_emit(&b->f, "AddV2", a, a),
                          mr_emit(&b->f, "AddV2", b->args[1], mr_const_f32(&b->f, 1)));
}

MR_TEST(while_runs_until_its_condition_is_false)
{
    function_fixture b;
    function_fixture_init(&b);
    add_loop(&b);
    mr_out w = function_fixture_while(&b.s, "StatelessWhile", "Below", "Double", b.x, mr_const_f32(&b.s, 0));
    MR_CHECK_NEAR(function_fixture_value(&b, 1, w), 1024, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 1, mr_nth(w, 1)), 10, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 5000, mr_nth(w, 1)), 0, 0);
    function_fixture_deinit(&b);
}

MR_TEST(while_of_many_iterations_needs_no_more_stack)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out a = function_fixture_begin(&b, 1);
    function_fixture_end(&b, "More", mr_emit(&b.f, "Less", a, mr_const_f32(&b.f, 200000)));
    a = function_fixture_begin(&b, 1);
    function_fixture_end(&b, "Next", mr_emit(&b.f, "AddV2", a, mr_const_f32(&b.f, 1)));
    MR_CHECK_NEAR(function_fixture_value(&b, 0, function_fixture_while1(&b.s, "While", "More", "Next", b.x)), 200000,
                  0);
    function_fixture_deinit(&b);
}

MR_TEST(while_that_never_ends_ends_with_its_step)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out a = function_fixture_begin(&b, 1);
    function_fixture_end(&b, "Always", mr_emit(&b.f, "Equal", a, a));
    a = function_fixture_begin(&b, 1);
    function_fixture_end(&b, "Same", mr_emit(&b.f, "Identity", a));
    float v;
    b.timeout_ms = 200;
    mr_out w = function_fixture_while1(&b.s, "While", "Always", "Same", b.x);
    MR_CHECK_ERR(function_fixture_run(&b, 1, w, &v), MR_DEADLINE_EXCEEDED, "");
    function_fixture_deinit(&b);
}

MR_TEST(while_refuses_a_body_that_changes_types)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out a = function_fixture_begin(&b, 1);
    function_fixture_end(&b, "More", mr_emit(&b.f, "Less", a, mr_const_f32(&b.f, 10)));
    a = function_fixture_begin(&b, 1);
    function_fixture_end(&b, "Text", mr_emit(&b.f, "StringJoin", mr_const_str(&b.f, "a")));
    float v;
    mr_out w = function_fixture_while1(&b.s, "While", "More", "Text", b.x);
    MR_CHECK_ERR(function_fixture_run(&b, 1, w, &v), MR_INVALID_ARGUMENT, "Expected type");
    function_fixture_deinit(&b);
}

/* Sum(i, s) = s + i */
MR_TEST(for_counts_for_its_body)
{
    function_fixture b;
    function_fixture_init(&b);
    function_fixture_begin_types(&b, 2, (const int[]){MR_INT32, MR_FLOAT});
    function_fixture_end(&b, "AddUp", mr_emit(&b.f, "AddV2", b.args[1],
                                mr_emit_with(&b.f, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}), b.args[0])));
    static const int t[] = {MR_FLOAT};
    static const mr_func_ref body = {.name = "AddUp"};
    mr_out y = mr_emit_with(&b.s, "For", MR_ATTRS({"T", mr_a_types(1, t)}, {"body", {MR_ATTR_FUNC, .func = &body}}),
                            mr_const_i32(&b.s, 10), mr_const_i32(&b.s, 1), mr_const_i32(&b.s, -2), b.x);
    MR_CHECK_NEAR(function_fixture_value(&b, 0.5, y), 30.5, 0); /* 10 + 8 + 6 + 4 + 2 */
    function_fixture_deinit(&b);
}

/* Plus(a, c) = 2a + c for each of many rows */
MR_TEST(map_defun_stacks_what_its_function_gives_for_rows)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out a = function_fixture_begin(&b, 2);
    function_fixture_end(&b, "Plus", mr_emit(&b.f, "AddV2", mr_emit(&b.f, "AddV2", a, a), b.args[1]));
    static const int t[] = {MR_FLOAT};
    static const mr_func_ref f = {.name = "Plus"};
    static const int32_t axis[] = {0};
    const mr_pshape *shapes[] = {&mr_pshape_unknown};
    mr_out rows = mr_emit(&b.s, "Range", mr_const_f32(&b.s, 0), mr_const_f32(&b.s, 100), mr_const_f32(&b.s, 1));
    mr_out in[] = {rows, b.x};
    mr_named_attr attrs[] = {{"Targuments", mr_a_types(1, t)}, {"Tcaptured", mr_a_types(1, t)}, {"output_types", mr_a_types(1, t)},
                             {"output_shapes", mr_a_shapes(1, shapes)}, {"f", {MR_ATTR_FUNC, .func = &f}}};
    mr_emit_arg args[] = {{1, in}, {1, in + 1}};
    mr_out y = mr_emit_lists(&b.s, "MapDefun", attrs, 5, args, 2);
    MR_CHECK_NEAR(function_fixture_value(&b, 0.5, mr_emit(&b.s, "Sum", y, mr_const_vec_i32(&b.s, 1, axis))), 9900 + 50,
                  0);
    function_fixture_deinit(&b);
}

/* The shape of what a call gives is what its body makes; TensorFlow holds no kernel to what was said of it before. */
MR_TEST(call_may_return_another_shape_than_was_declared)
{
    function_fixture b;
    function_fixture_init(&b);
    add_branches(&b);
    mr_out y = function_fixture_call(&b.s, "Twice", b.x),
           z = function_fixture_if(&b.s, "If", b.x, "Twice", "Quadrat", b.x);
    MR_CHECK_OK(mr_scope_status(&b.s));
    y.node->out_shapes[0] = z.node->out_shapes[0] = mr_pshape_vector(&b.g->arena, 3);
    MR_CHECK_NEAR(function_fixture_value(&b, 5, y), 10, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 5, z), 10, 0);
    function_fixture_deinit(&b);
}
