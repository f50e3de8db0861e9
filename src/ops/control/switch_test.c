/* ops/control/switch_test.c -- shape inference for references that Switch and Merge choose. */
#include "graph/infer.h"
#include "graph/scope.h"
#include "ops/table.h"
#include "tests/harness/test.h"

static void check_select(const mr_pshape *a, const mr_pshape *b, const char *want)
{
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_out v[2];
    mr_ops_register();
    mr_scope_init(&s, g, "");
    for (int i = 0; i < 2; i++)
        v[i] = mr_emit0_with(&s, "VariableV2", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(i ? b : a)}));
    mr_out chosen = mr_emit(&s, "RefSelect", mr_const_i32(&s, 0), v[0], v[1]);
    MR_CHECK_OK(mr_scope_status(&s));
    MR_CHECK_STR(MR_PSHAPE_TEXT(mr_out_shape(chosen)), want);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

MR_TEST(ref_select_has_the_shape_that_all_have)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    const mr_pshape *two = mr_pshape_vector(&a, 2), *any = mr_pshape_vector(&a, -1);
    check_select(two, two, "[2]");
    check_select(two, mr_pshape_vector(&a, 3), "<unknown>");
    check_select(two, any, "<unknown>");
    check_select(any, any, "<unknown>");
    mr_arena_deinit(&a);
}
