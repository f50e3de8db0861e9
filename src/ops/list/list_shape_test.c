/* ops/list/list_shape_test.c -- shape inference for lists. */
#include "graph/infer.h"
#include "graph/scope.h"
#include "ops/table.h"
#include "tests/harness/test.h"

/* A loop may begin with a list of one type and end with one of another. The Merge has no back edge yet, or
 * (`twice`) the Enter instead of it, as in a loop that Python builds. */
static void check_loop_of_lists(bool twice)
{
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_node *merge;
    mr_ops_register();
    mr_scope_init(&s, g, "");
    mr_out l = mr_emit_with(&s, "EmptyTensorList", MR_ATTRS({"element_dtype", mr_a_type(MR_INT32)}),
                            mr_const_i32(&s, -1), mr_const_i32(&s, -1));
    mr_out enter = mr_emit_with(&s, "Enter", MR_ATTRS({"frame_name", mr_a_str("f")}), l);
    mr_node_builder *b = mr_node_begin(g, "Merge", "merge");
    mr_nb_input_list(b, (mr_out[]){enter, enter}, twice ? 2 : 1);
    if (!twice)
        mr_nb_input_later(b, MR_VARIANT);
    MR_CHECK_OK(mr_node_finish(b, &merge));
    mr_out out = mr_emit(&s, "Exit", (mr_out){merge, 0});
    mr_emit_with(&s, "TensorListStack", MR_ATTRS({"element_dtype", mr_a_type(MR_FLOAT)}), out, mr_const_i32(&s, -1));
    MR_CHECK_OK(mr_scope_status(&s));
    mr_emit_with(&s, "TensorListStack", MR_ATTRS({"element_dtype", mr_a_type(MR_FLOAT)}), l, mr_const_i32(&s, -1));
    MR_CHECK_ERR(mr_scope_status(&s), MR_INVALID_ARGUMENT, "wrong element dtype");
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

MR_TEST(list_of_another_type_may_come_out_of_a_loop)
{
    check_loop_of_lists(false);
    check_loop_of_lists(true);
}

/* This does not hold at the end of a conditional: both branches are known. */
MR_TEST(list_of_one_type_comes_out_of_a_conditional)
{
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_ops_register();
    mr_scope_init(&s, g, "");
    mr_out l = mr_emit_with(&s, "EmptyTensorList", MR_ATTRS({"element_dtype", mr_a_type(MR_INT32)}),
                            mr_const_i32(&s, -1), mr_const_i32(&s, -1));
    mr_out split = mr_emit(&s, "Switch", l, mr_placeholder(&s, MR_BOOL, "p", NULL));
    mr_out joined = mr_emit(&s, "Merge", mr_nth(split, 0), mr_nth(split, 1));
    MR_CHECK_OK(mr_scope_status(&s));
    mr_emit_with(&s, "TensorListStack", MR_ATTRS({"element_dtype", mr_a_type(MR_FLOAT)}), joined, mr_const_i32(&s, -1));
    MR_CHECK_ERR(mr_scope_status(&s), MR_INVALID_ARGUMENT, "wrong element dtype");
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

/* A batch of lists knows what its lists have in common. */
MR_TEST(list_batches_know_their_elements)
{
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_ops_register();
    mr_scope_init(&s, g, "");
    mr_named_attr of_floats[] = {{"element_dtype", mr_a_type(MR_FLOAT)}};
    mr_out max = mr_const_i32(&s, -1);
    mr_out pair = mr_const_vec_i32(&s, 2, (int32_t[]){2, 3}), other = mr_const_vec_i32(&s, 2, (int32_t[]){2, 4});
    mr_out three = mr_const_vec_i32(&s, 1, (int32_t[]){3});
    mr_out a = mr_emit_n(&s, "EmptyTensorList", of_floats, 1, (mr_out[]){pair, max}, 2);
    mr_out b = mr_emit_n(&s, "EmptyTensorList", of_floats, 1, (mr_out[]){other, max}, 2);
    mr_out c = mr_emit_n(&s, "EmptyTensorList", of_floats, 1, (mr_out[]){three, max}, 2);
    mr_out ab = mr_emit(&s, "Pack", a, b), cc = mr_emit(&s, "Pack", c, c);
    MR_CHECK_OK(mr_scope_status(&s));
    const mr_handle_info *h = ab.node->out_handles ? ab.node->out_handles[ab.index] : NULL;
    MR_CHECK(h && h->n == 1 && h->parts[0].dtype == MR_FLOAT);
    MR_CHECK_STR(h ? MR_PSHAPE_TEXT(h->parts[0].shape) : "", "[2,?]");
    mr_emit_n(&s, "TensorListConcatLists", of_floats, 1, (mr_out[]){ab, cc}, 2);
    MR_CHECK_ERR(mr_scope_status(&s), MR_INVALID_ARGUMENT, "Shapes must be equal rank, but are 2 and 1");
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}
