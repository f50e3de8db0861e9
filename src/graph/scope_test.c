/* graph/scope_test.c */
#include "graph/scope.h"

#include "base/memory.h"
#include "graph/sample_ops_fixture.h"

#define CHECK_GRAPH(g, expected)          \
    do {                                  \
        char *text_ = mr_sample_print(g); \
        MR_CHECK_STR(text_, expected);    \
        mr_free(text_);                   \
    } while (0)

MR_TEST(scope_names_nodes_under_its_prefix)
{
    mr_scope s;
    mr_sample_ops();
    mr_graph *g = mr_graph_new();
    mr_scope_init(&s, g, "net");
    mr_out x = mr_emit0(mr_as(&s, "x"), "TestSource"), y = mr_emit0(&s, "TestSource");
    mr_vec_push(&s.controls, y.node);
    s.device = "/cpu:0";
    s.colocate = x.node;
    mr_out z = mr_emit(&s, "TestAdd", x, y);
    MR_CHECK_OK(mr_scope_status(&s));
    MR_CHECK_STR(z.node->device, "/cpu:0");
    mr_scope_deinit(&s);
    mr_scope_init(&s, g, "net");
    mr_emit0(&s, "TestSource");
    MR_CHECK_OK(mr_scope_status(&s));
    mr_scope_deinit(&s);
    CHECK_GRAPH(g, "net/x = TestSource()\nnet/TestSource = TestSource()\n"
                   "net/TestAdd = TestAdd(net/x, net/TestSource, ^net/TestSource) {T=DT_FLOAT, "
                   "_class=[\"loc:@net/x\"]}\nnet_1/TestSource = TestSource()\n");
    mr_graph_unref(g);
}

MR_TEST(scope_keeps_its_first_error_and_adds_nothing_after)
{
    mr_scope s;
    mr_sample_ops();
    mr_graph *g = mr_graph_new();
    mr_scope_init(&s, g, "");
    mr_out x = mr_emit0(&s, "TestSource");
    mr_out bad = mr_emit(&s, "TestAdd", x);
    MR_CHECK(!bad.node && !mr_scope_ok(&s));
    MR_CHECK(!mr_emit(&s, "NoSuchOp", bad).node);
    MR_CHECK(!mr_nth(bad, 3).node);
    MR_CHECK_INT(g->nodes.n, 1);
    MR_CHECK_ERR(mr_scope_status(&s), MR_INVALID_ARGUMENT, "TestAdd cannot take 1 inputs");
    MR_CHECK_OK(mr_scope_status(&s));
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

MR_TEST(scope_gives_a_list_argument_what_the_others_leave)
{
    mr_scope s;
    mr_sample_ops();
    mr_graph *g = mr_graph_new();
    mr_scope_init(&s, g, "");
    mr_out x = mr_emit0(&s, "TestSource"),
           axis = mr_emit0_with(&s, "TestSource", MR_ATTRS({"T", mr_a_type(MR_INT32)}));
    mr_out c = mr_emit(&s, "TestConcat", x, x, x, axis);
    MR_CHECK_OK(mr_scope_status(&s));
    MR_CHECK_INT(mr_node_attr(c.node, "N")->i, 3);
    mr_out m = mr_emit_lists(&s, "TestMany", MR_ATTRS({"Tout", mr_a_types(1, (int[]){MR_BOOL})}),
                             (mr_emit_arg[]){{2, (mr_out[]){x, axis}}}, 1);
    MR_CHECK_OK(mr_scope_status(&s));
    MR_CHECK_INT(m.node->n_in, 2);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

MR_TEST(scope_constants)
{
    static const mr_op const_op = {
        .name = "Const", .sig = "-> output: dtype", .attrs = "value: tensor; dtype: type"};
    mr_scope s;
    mr_tensor *t;
    mr_sample_ops();
    MR_CHECK_OK(mr_op_register(&const_op));
    mr_graph *g = mr_graph_new();
    mr_scope_init(&s, g, "");
    mr_out c = mr_const_num(mr_as(&s, "c"), MR_HALF, 1.5);
    mr_const_f32(&s, 1);
    mr_const_str(&s, "x");
    mr_const_vec_i32(&s, 2, (int32_t[]){1, 2});
    MR_CHECK_OK(mr_scope_status(&s));
    MR_CHECK_OK(mr_node_get_tensor(c.node, "value", &t));
    MR_CHECK_INT(t->dtype, MR_HALF);
    MR_CHECK_NEAR(mr_half_to_float(*MR_DATA(mr_half, t)), 1.5, 0);
    mr_tensor_unref(t);
    mr_const_num(&s, MR_STRING, 1);
    MR_CHECK_ERR(mr_scope_status(&s), MR_INVALID_ARGUMENT, "string");
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}
