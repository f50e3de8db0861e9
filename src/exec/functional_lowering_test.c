/* exec/functional_lowering_test.c -- functional control flow put down as Switch, Merge and loops gives what its kernels give. */
#include "base/memory.h"
#include "exec/functional_fixture.h"
#include "passes/passes.h"

static mr_out lowered(mr_out o)
{
    if (o.node)
        mr_node_set_attr(o.node, "_lower_using_switch_merge", mr_a_bool(true));
    return o;
}

/* How many nodes of this op are left of the graph once it is lowered. */
static int count_lowered(function_fixture *b, const char *op)
{
    mr_graph *g;
    bool any;
    int n = 0;
    MR_CHECK_OK(mr_graph_copy(b->g, NULL, &g, NULL));
    MR_CHECK_OK(mr_lower(&g, &any));
    for (int i = 0; i < g->nodes.n; i++)
        n += g->nodes.p[i] && mr_node_is(g->nodes.p[i], op);
    mr_graph_unref(g);
    return n;
}

static void add_functions(function_fixture *b)
{
    mr_out a = function_fixture_begin(b, 1);
    function_fixture_end(b, "Twice", mr_emit(&b->f, "AddV2", a, a));
    a = function_fixture_begin(b, 1);
    function_fixture_end(b, "Plus7", mr_emit(&b->f, "AddV2", a, mr_const_f32(&b->f, 7)));
    a = function_fixture_begin(b, 1);
    function_fixture_end(b, "Seven", mr_const_f32(&b->f, 7));
    a = function_fixture_begin(b, 1);
    function_fixture_end(b, "Below", mr_emit(&b->f, "Less", a, mr_const_f32(&b->f, 1000)));
}

MR_TEST(lowering_if_takes_the_chosen_branch)
{
    function_fixture b;
    function_fixture_init(&b);
    add_functions(&b);
    mr_out y = lowered(function_fixture_if(&b.s, "If", b.x, "Twice", "Seven", b.x));
    mr_out z = mr_emit(&b.s, "AddV2", y, b.x);
    MR_CHECK_NEAR(function_fixture_value(&b, 5, z), 15, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 0, z), 7, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 5, y), 10, 0); /* fetched by its own name */
    MR_CHECK_INT(count_lowered(&b, "If"), 0);
    function_fixture_deinit(&b);
}

MR_TEST(lowering_case_takes_the_last_branch_for_an_index_outside)
{
    function_fixture b;
    function_fixture_init(&b);
    add_functions(&b);
    static const mr_func_ref f0 = {.name = "Twice"}, f1 = {.name = "Plus7"}, f2 = {.name = "Seven"};
    const mr_func_ref *list[] = {&f0, &f1, &f2};
    static const int t[] = {MR_FLOAT};
    mr_out index = mr_emit_with(&b.s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), b.x);
    mr_out y = lowered(mr_emit_with(&b.s, "StatelessCase", MR_ATTRS({"Tin", mr_a_types(1, t)}, {"Tout", mr_a_types(1, t)},
                                                                    {"branches", {MR_ATTR_FUNC, true, 3, .funcs = list}}), index, b.x));
    MR_CHECK_NEAR(function_fixture_value(&b, 0, y), 0, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 1, y), 8, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 2, y), 7, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, -3, y), 7, 0);
    MR_CHECK_INT(count_lowered(&b, "StatelessCase"), 0);
    function_fixture_deinit(&b);
}

MR_TEST(lowering_while_makes_a_loop)
{
    function_fixture b;
    function_fixture_init(&b);
    add_functions(&b);
    mr_out y = lowered(function_fixture_while1(&b.s, "While", "Below", "Twice", b.x));
    MR_CHECK_NEAR(function_fixture_value(&b, 1, y), 1024, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 3000, y), 3000, 0);
    mr_emit(&b.s, "Identity", y);
    MR_CHECK_INT(count_lowered(&b, "While"), 0);
    MR_CHECK_INT(count_lowered(&b, "LoopCond"), 1);
    function_fixture_deinit(&b);
}

/* Step(i, s, c) = i + 1, s + c, c ; Until(i, s, c) = i < c */
static void add_sum(function_fixture *b)
{
    mr_out i = function_fixture_begin(b, 3);
    function_fixture_end(b, "Until", mr_emit(&b->f, "Less", i, b->args[2]));
    i = function_fixture_begin(b, 3);
    mr_out rets[] = {mr_emit(&b->f, "AddV2", i, mr_const_f32(&b->f, 1)), mr_emit(&b->f, "AddV2", b->args[1], b->args[2]), b->args[2]};
    function_fixture_end_n(b, "Step", rets, 3);
}

MR_TEST(lowering_while_passes_invariants_by)
{
    function_fixture b;
    function_fixture_init(&b);
    add_sum(&b);
    mr_out in[] = {mr_const_f32(&b.s, 0), mr_const_f32(&b.s, 100), b.x};
    mr_out w = lowered(function_fixture_while_n(&b.s, "StatelessWhile", "Until", "Step", in, 3));
    MR_CHECK_NEAR(function_fixture_value(&b, 5, w), 5, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 5, mr_nth(w, 1)), 125, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 5, mr_nth(w, 2)), 5, 0);
    function_fixture_deinit(&b);
}

/* Only what a fetch needs of a loop is there. */
MR_TEST(lowering_while_leaves_out_what_nobody_reads)
{
    function_fixture b;
    function_fixture_init(&b);
    add_sum(&b);
    mr_out in[] = {mr_const_f32(&b.s, 0), mr_const_f32(&b.s, 100), b.x};
    mr_out w = lowered(function_fixture_while_n(&b.s, "StatelessWhile", "Until", "Step", in, 3));
    mr_emit(&b.s, "Identity", w);
    MR_CHECK_INT(count_lowered(&b, "NextIteration"), 1);
    function_fixture_deinit(&b);
}

MR_TEST(lowering_nested_loops_and_conditionals)
{
    function_fixture b;
    function_fixture_init(&b);
    add_functions(&b);
    mr_out a = function_fixture_begin(&b, 1); /* Inner(a) = a > 100 ? a + 7 : 2a, while < 1000 */
    mr_out big = mr_emit(&b.f, "Greater", a, mr_const_f32(&b.f, 100));
    function_fixture_end(&b, "Inner", lowered(function_fixture_if(&b.f, "StatelessIf", big, "Plus7", "Twice", a)));
    a = function_fixture_begin(&b, 1); /* Outer(a) = (while a < 1000: a = Inner(a)) - 500 */
    mr_out w = lowered(function_fixture_while1(&b.f, "StatelessWhile", "Below", "Inner", a));
    function_fixture_end(&b, "Outer", mr_emit(&b.f, "Sub", w, mr_const_f32(&b.f, 500)));
    mr_out y = lowered(function_fixture_call(&b.s, "Outer", lowered(function_fixture_call(&b.s, "Outer", b.x))));
    float x = 1;
    for (int k = 0; k < 2; k++) {
        while (x < 1000)
            x = x > 100 ? x + 7 : 2 * x;
        x -= 500;
    }
    MR_CHECK_NEAR(function_fixture_value(&b, 1, y), x, 0);
    MR_CHECK_INT(count_lowered(&b, "PartitionedCall") + count_lowered(&b, "StatelessWhile") + count_lowered(&b, "StatelessIf"), 0);
    function_fixture_deinit(&b);
}

/* Count(a) = a > 0 ? Count(a - 1) + 1 : 0, all of it to be lowered: it stops somewhere, and the kernels do the rest. */
MR_TEST(lowering_recursion_ends)
{
    function_fixture b;
    function_fixture_init(&b);
    mr_out a = function_fixture_begin(&b, 1);
    function_fixture_end(&b, "Zero", mr_emit(&b.f, "Sub", a, a));
    a = function_fixture_begin(&b, 1);
    mr_out less = mr_emit(&b.f, "Sub", a, mr_const_f32(&b.f, 1));
    function_fixture_end(
        &b, "Rest", mr_emit(&b.f, "AddV2", lowered(function_fixture_call(&b.f, "Count", less)), mr_const_f32(&b.f, 1)));
    a = function_fixture_begin(&b, 1);
    mr_out more = mr_emit(&b.f, "Greater", a, mr_const_f32(&b.f, 0));
    function_fixture_end(&b, "Count", lowered(function_fixture_if(&b.f, "StatelessIf", more, "Rest", "Zero", a)));
    MR_CHECK_NEAR(function_fixture_value(&b, 50, lowered(function_fixture_call(&b.s, "Count", b.x))), 50, 0);
    function_fixture_deinit(&b);
}

/* ---- effects ---- */

static mr_out variable(function_fixture *b)
{
    return mr_emit0_with(mr_as(&b->s, "v"), "VarHandleOp", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(&mr_pshape_scalar)},
                                                                   {"shared_name", mr_a_str("v")}));
}

static mr_out handle_in_body(function_fixture *b)
{
    return mr_emit0_with(&b->f, "VarHandleOp", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(&mr_pshape_scalar)},
                                                        {"shared_name", mr_a_str("v")}));
}

static mr_out read_of(mr_scope *s, mr_out handle)
{
    return mr_emit_with(s, "ReadVariableOp", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}), handle);
}

static void assign(function_fixture *b, mr_out handle, float value)
{
    mr_out a = mr_emit(&b->s, "AssignVariableOp", handle, mr_const_f32(&b->s, value));
    MR_CHECK_OK(mr_scope_status(&b->s));
    if (!b->session)
        MR_CHECK_OK(mr_direct_session_new(b->g, NULL, &b->config, &b->session));
    mr_run_args args = {.targets = &a.node, .n_targets = 1};
    MR_CHECK_OK(mr_session_run(b->session, &args, NULL, NULL));
}

/* Bump(a) = a + 1, and v += a by the way. */
static void add_bump(function_fixture *b)
{
    mr_out a = function_fixture_begin(b, 1);
    mr_emit(&b->f, "AssignAddVariableOp", handle_in_body(b), a);
    function_fixture_end(b, "Bump", mr_emit(&b->f, "AddV2", a, mr_const_f32(&b->f, 1)));
    a = function_fixture_begin(b, 1);
    function_fixture_end(b, "Small", mr_emit(&b->f, "Less", a, mr_const_f32(&b->f, 5)));
}

static float read_after(function_fixture *b, mr_out handle, mr_out y, float x)
{
    mr_out r = read_of(&b->s, handle);
    mr_node_add_control(r.node, y.node);
    return function_fixture_value(b, x, r);
}

MR_TEST(lowering_keeps_the_effects_of_a_loop_before_what_follows)
{
    function_fixture b;
    function_fixture_init(&b);
    add_bump(&b);
    mr_out v = variable(&b), w = lowered(function_fixture_while1(&b.s, "While", "Small", "Bump", b.x));
    assign(&b, v, 0);
    MR_CHECK_NEAR(read_after(&b, v, w, 1), 1 + 2 + 3 + 4, 0);
    function_fixture_deinit(&b);
}

MR_TEST(lowering_runs_effects_of_the_chosen_branch_only)
{
    function_fixture b;
    function_fixture_init(&b);
    add_bump(&b);
    add_functions(&b);
    mr_out v = variable(&b), y = lowered(function_fixture_if(&b.s, "If", b.x, "Bump", "Twice", b.x));
    assign(&b, v, 0);
    MR_CHECK_NEAR(read_after(&b, v, y, 3), 3, 0);
    MR_CHECK_NEAR(read_after(&b, v, y, 0), 3, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 3, y), 4, 0); /* who takes the result alone runs them too */
    MR_CHECK_NEAR(function_fixture_value(&b, 0, read_of(&b.s, v)), 6, 0);
    function_fixture_deinit(&b);
}

MR_TEST(lowering_call_waits_for_the_control_inputs_of_its_node)
{
    function_fixture b;
    function_fixture_init(&b);
    function_fixture_begin(&b, 1);
    function_fixture_end(&b, "Read", read_of(&b.f, handle_in_body(&b)));
    mr_out v = variable(&b), y = lowered(function_fixture_call(&b.s, "Read", b.x));
    mr_out a = mr_emit(&b.s, "AssignVariableOp", v, mr_emit(&b.s, "Mul", b.x, b.x));
    mr_node_add_control(y.node, a.node);
    MR_CHECK_NEAR(function_fixture_value(&b, 3, y), 9, 0);
    MR_CHECK_NEAR(function_fixture_value(&b, 4, y), 16, 0);
    function_fixture_deinit(&b);
}

MR_TEST(lowering_does_not_check_declared_shapes)
{
    function_fixture b;
    function_fixture_init(&b);
    add_functions(&b);
    mr_out y = lowered(function_fixture_if(&b.s, "If", b.x, "Twice", "Seven", b.x));
    MR_CHECK_OK(mr_scope_status(&b.s));
    y.node->out_shapes[0] = mr_pshape_vector(&b.g->arena, 3);
    MR_CHECK_NEAR(function_fixture_value(&b, 5, y), 10, 0);
    function_fixture_deinit(&b);
}
