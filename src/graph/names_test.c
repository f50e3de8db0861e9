/* graph/names_test.c */
#include "graph/sample_ops_fixture.h"

MR_TEST(name_of_a_node_has_the_characters_of_tensorflow)
{
    MR_CHECK(mr_name_valid_node(MR_SV("a/b_c-d.E9")));
    MR_CHECK(mr_name_valid_node(MR_SV(".x")));
    MR_CHECK(mr_name_valid_node(MR_SV("9")));
    MR_CHECK(mr_name_valid_node(MR_SV("a>b")));
    MR_CHECK(!mr_name_valid_node(MR_SV("")));
    MR_CHECK(!mr_name_valid_node(MR_SV("_x")));
    MR_CHECK(!mr_name_valid_node(MR_SV("/x")));
    MR_CHECK(!mr_name_valid_node(MR_SV("a b")));
    MR_CHECK(!mr_name_valid_node(MR_SV("a:0")));
    MR_CHECK(!mr_name_valid_node(MR_SV("a\\b")));
    MR_CHECK(!mr_name_valid_node(MR_SV("a>")));
    MR_CHECK(!mr_name_valid_node(MR_SV("a>_b")));
    MR_CHECK(!mr_name_valid_node(MR_SV("a\0b")));
}

MR_TEST(name_of_an_internal_node_may_start_with_an_underscore)
{
    MR_CHECK(mr_name_valid_internal(MR_SV("_x")));
    MR_CHECK(mr_name_valid_internal(MR_SV("x")));
    MR_CHECK(!mr_name_valid_internal(MR_SV("-x")));
}

static void check_parse(const char *text, const char *node, int index)
{
    mr_tensor_name t;
    MR_CHECK(mr_tensor_name_parse(mr_sv_of(text), &t));
    if (!mr_sv_is(t.node, node) || t.index != index)
        mr_test_fail(__FILE__, __LINE__, "%s: '%.*s' %d", text, MR_SV_ARG(t.node), t.index);
}

MR_TEST(tensor_name_is_a_node_and_an_output)
{
    mr_tensor_name t;
    check_parse("a", "a", 0);
    check_parse("a:0", "a", 0);
    check_parse("a:13", "a", 13);
    check_parse("a/b:2147483647", "a/b", 2147483647);
    check_parse("^a", "a", -1);
    check_parse("^a:1", "a:1", -1);
    check_parse("a:b", "a:b", 0);
    check_parse("a:", "a:", 0);
    check_parse("a12", "a12", 0);
    check_parse("12", "12", 0);
    MR_CHECK(!mr_tensor_name_parse(MR_SV(""), &t));
    MR_CHECK(!mr_tensor_name_parse(MR_SV("^"), &t));
    MR_CHECK(!mr_tensor_name_parse(MR_SV(":1"), &t));
    MR_CHECK(!mr_tensor_name_parse(MR_SV("a:2147483648"), &t));
    MR_CHECK(!mr_tensor_name_parse(MR_SV("a:99999999999999999999"), &t));
}

MR_TEST(name_not_taken_yet_gets_the_next_number)
{
    mr_sample_ops();
    mr_graph *g = mr_graph_new();
    MR_CHECK_STR(mr_graph_unique_name(g, "x"), "x");
    mr_sample_source(g, "x", MR_FLOAT);
    mr_sample_source(g, "x_1", MR_FLOAT);
    MR_CHECK_STR(mr_graph_unique_name(g, "x"), "x_2");
    MR_CHECK_STR(mr_graph_unique_name(g, "y"), "y");
    mr_graph_unref(g);
}

MR_TEST(prefix_is_taken_by_nodes_below_it_and_by_a_node_of_its_name)
{
    mr_sample_ops();
    mr_graph *g = mr_graph_new();
    mr_sample_source(g, "a/b/c", MR_FLOAT);
    mr_sample_source(g, "n", MR_FLOAT);
    MR_CHECK(mr_graph_name_used(g, MR_SV("a")));
    MR_CHECK(mr_graph_name_used(g, MR_SV("a/b")));
    MR_CHECK(mr_graph_name_used(g, MR_SV("a/b/c")));
    MR_CHECK(!mr_graph_name_used(g, MR_SV("a/b/c/d")));
    MR_CHECK_STR(mr_graph_unique_prefix(g, "a"), "a_1");
    MR_CHECK_STR(mr_graph_unique_prefix(g, "n"), "n_1");
    MR_CHECK_STR(mr_graph_unique_prefix(g, "b"), "b");
    mr_sample_source(g, "b/x", MR_FLOAT);
    MR_CHECK_STR(mr_graph_unique_prefix(g, "b"), "b_1");
    mr_graph_unref(g);
}
