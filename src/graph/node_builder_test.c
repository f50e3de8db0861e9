/* graph/node_builder_test.c -- what mr_node_finish accepts, learns and refuses. */
#include "base/memory.h"
#include "graph/sample_ops_fixture.h"

static mr_graph *new_graph(void)
{
    mr_sample_ops();
    return mr_graph_new();
}

#define CHECK_GRAPH(g, expected)          \
    do {                                  \
        char *text_ = mr_sample_print(g); \
        MR_CHECK_STR(text_, expected);    \
        mr_free(text_);                   \
    } while (0)

MR_TEST(node_types_are_learnt_from_inputs)
{
    mr_graph *g = new_graph();
    mr_node *x = mr_sample_source(g, "x", MR_INT32), *y = mr_sample_source(g, "y", MR_INT32);
    mr_node *z = mr_sample_add(g, "z", x, y);
    MR_CHECK_INT(z->out_types[0], MR_INT32);
    MR_CHECK_INT(z->in_types[1], MR_INT32);
    MR_CHECK_INT(x->uses.n, 1);
    CHECK_GRAPH(g, "x = TestSource() {T=DT_INT32}\ny = TestSource() {T=DT_INT32}\n"
                   "z = TestAdd(x, y) {T=DT_INT32}\n");
    mr_graph_unref(g);
}

MR_TEST(node_list_lengths_and_types_are_learnt_from_inputs)
{
    mr_graph *g = new_graph();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT), *i = mr_sample_source(g, "i", MR_INT32), *n;
    mr_node_builder *b = mr_node_begin(g, "TestConcat", "c");
    mr_nb_input_list(b, (mr_out[]){mr_o(x, 0), mr_o(x, 0), mr_o(x, 0)}, 3);
    mr_nb_input(b, mr_o(i, 0));
    MR_CHECK_OK(mr_node_finish(b, &n));
    MR_CHECK_INT(mr_node_attr(n, "N")->i, 3);
    MR_CHECK_INT(n->n_in, 4);
    b = mr_node_begin(g, "TestMany", "m");
    mr_nb_input_list(b, (mr_out[]){mr_o(x, 0), mr_o(i, 0)}, 2);
    mr_nb_attr(b, "Tout", mr_a_types(3, (int[]){MR_BOOL, MR_FLOAT, MR_STRING}));
    MR_CHECK_OK(mr_node_finish(b, &n));
    MR_CHECK_INT(n->n_out, 3);
    MR_CHECK_INT(n->out_types[2], MR_STRING);
    MR_CHECK_INT(mr_node_attr(n, "Tin")->types[1], MR_INT32);
    mr_graph_unref(g);
}

MR_TEST(node_ranges_of_arguments)
{
    mr_graph *g = new_graph();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT), *n;
    int start, count;
    mr_node_builder *b = mr_node_begin(g, "TestSplit", "s");
    mr_nb_input(b, mr_o(x, 0));
    mr_nb_attr(b, "n", mr_a_int(3));
    MR_CHECK_OK(mr_node_finish(b, &n));
    MR_CHECK_OK(mr_node_out_range(n, "b", &start, &count));
    MR_CHECK(start == 3 && count == 1);
    MR_CHECK_OK(mr_node_out_range(n, "a", &start, &count));
    MR_CHECK(start == 0 && count == 3);
    MR_CHECK_OK(mr_node_in_range(n, "x", &start, &count));
    MR_CHECK(start == 0 && count == 1);
    MR_CHECK_ERR(mr_node_in_range(n, "a", &start, &count), MR_INVALID_ARGUMENT, "'a'");
    mr_graph_unref(g);
}

/* ---- what is refused, with TensorFlow's words ---- */

/* One node of op `op` with these inputs must fail, and leave the graph as it was. */
static void check_refused(mr_graph *g, mr_node_builder *b, mr_code code, const char *text)
{
    int n_nodes = g->nodes.n, n_held = g->held.n;
    mr_node *n = NULL;
    MR_CHECK_ERR(mr_node_finish(b, &n), code, text);
    MR_CHECK(!n);
    MR_CHECK_INT(g->nodes.n, n_nodes);
    MR_CHECK_INT(g->held.n, n_held);
}

MR_TEST(node_of_an_unknown_op_is_refused)
{
    mr_graph *g = new_graph();
    check_refused(g, mr_node_begin(g, "Foo", "n"), MR_NOT_FOUND, "Op type not registered 'Foo'");
    mr_graph_unref(g);
}

MR_TEST(node_name_must_be_valid_and_free)
{
    mr_graph *g = new_graph();
    mr_sample_source(g, "x", MR_FLOAT);
    check_refused(g, mr_node_begin(g, "TestSource", "x"), MR_INVALID_ARGUMENT,
                  "Duplicate node name in graph: 'x'");
    check_refused(g, mr_node_begin(g, "TestSource", "_x"), MR_INVALID_ARGUMENT,
                  "invalid characters");
    check_refused(g, mr_node_begin(g, "TestSource", ""), MR_INVALID_ARGUMENT, "invalid characters");
    mr_graph_unref(g);
}

/* TensorFlow takes ops that begin with '_' from anybody; names that do are for the runtime. */
MR_TEST(node_of_an_internal_op_may_be_anybody_s)
{
    mr_sample_ops();
    mr_graph *g = mr_graph_new();
    mr_node *n = NULL;
    MR_CHECK_OK(mr_node_finish(mr_node_begin(g, "_TestInternal", "x"), &n));
    check_refused(g, mr_node_begin(g, "_TestInternal", "_y"), MR_INVALID_ARGUMENT, "");
    mr_graph_unref(g);
}

MR_TEST(node_of_a_deprecated_op_is_refused_by_newer_graphs)
{
    mr_graph *g = new_graph();
    mr_node *n;
    check_refused(
        g, mr_node_begin(g, "TestOld", "x"), MR_UNIMPLEMENTED,
        "Op TestOld is not available in GraphDef version 1087. It has been removed in version 10.");
    g->versions.producer = 9;
    MR_CHECK_OK(mr_node_finish(mr_node_begin(g, "TestOld", "x"), &n));
    mr_graph_unref(g);
}

MR_TEST(node_inputs_are_counted)
{
    mr_graph *g = new_graph();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT);
    mr_node_builder *b = mr_node_begin(g, "TestAdd", "z");
    mr_nb_input(b, mr_o(x, 0));
    check_refused(g, b, MR_INVALID_ARGUMENT,
                  "1 inputs specified of 2 inputs in Op while building NodeDef 'z'");
    b = mr_node_begin(g, "TestAdd", "z");
    for (int i = 0; i < 3; i++)
        mr_nb_input(b, mr_o(x, 0));
    check_refused(g, b, MR_INVALID_ARGUMENT, "More than 2 inputs");
    MR_CHECK_INT(x->uses.n, 0);
    mr_graph_unref(g);
}

MR_TEST(node_inputs_must_agree_in_type)
{
    mr_graph *g = new_graph();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT), *i = mr_sample_source(g, "i", MR_INT32);
    mr_node_builder *b = mr_node_begin(g, "TestAdd", "z");
    mr_nb_input(b, mr_o(x, 0));
    mr_nb_input(b, mr_o(i, 0));
    check_refused(g, b, MR_INVALID_ARGUMENT,
                  "Inconsistent values for attr 'T' DT_FLOAT vs. DT_INT32 while building "
                  "NodeDef 'z' using Op<name=TestAdd");
    b = mr_node_begin(g, "TestConcat", "z");
    mr_nb_input_list(b, (mr_out[]){mr_o(x, 0), mr_o(i, 0)}, 2);
    mr_nb_input(b, mr_o(i, 0));
    check_refused(g, b, MR_INVALID_ARGUMENT, "Input 'values' passed int32 expected float");
    b = mr_node_begin(g, "TestConcat", "z");
    mr_nb_input_list(b, (mr_out[]){mr_o(x, 0), mr_o(x, 0)}, 2);
    mr_nb_input(b, mr_o(x, 0));
    check_refused(g, b, MR_INVALID_ARGUMENT, "Input 'axis' passed float expected int32");
    mr_graph_unref(g);
}

MR_TEST(node_lists_and_single_inputs_are_told_apart)
{
    mr_graph *g = new_graph();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT);
    mr_node_builder *b = mr_node_begin(g, "TestConcat", "z");
    mr_nb_input(b, mr_o(x, 0));
    check_refused(g, b, MR_INVALID_ARGUMENT, "Single tensor passed to 'values', expected list");
    b = mr_node_begin(g, "TestAdd", "z");
    mr_nb_input_list(b, (mr_out[]){mr_o(x, 0)}, 1);
    check_refused(g, b, MR_INVALID_ARGUMENT,
                  "List provided to input 'x' when single Tensor expected");
    mr_graph_unref(g);
}

MR_TEST(node_inputs_must_exist)
{
    mr_graph *g = new_graph(), *other = mr_graph_new();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT), *y = mr_sample_source(other, "y", MR_FLOAT);
    mr_node_builder *b = mr_node_begin(g, "TestAdd", "z");
    mr_nb_input(b, mr_o(x, 1));
    check_refused(g, b, MR_INVALID_ARGUMENT,
                  "Connecting to invalid output 1 of source node x which has 1 outputs");
    b = mr_node_begin(g, "TestAdd", "z");
    mr_nb_input(b, MR_NO_OUT);
    check_refused(g, b, MR_INVALID_ARGUMENT, "is null");
    b = mr_node_begin(g, "TestAdd", "z");
    mr_nb_input(b, mr_o(y, 0));
    check_refused(g, b, MR_INVALID_ARGUMENT, "another graph");
    b = mr_node_begin(g, "TestSource", "z");
    mr_nb_control(b, y);
    check_refused(g, b, MR_INVALID_ARGUMENT, "another graph");
    mr_graph_unref(g);
    mr_graph_unref(other);
}

MR_TEST(node_attrs_are_checked)
{
    mr_graph *g = new_graph();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT), *s = mr_sample_source(g, "s", MR_STRING);
    static const struct {
        const char *name;
        mr_attr v;
        const char *text;
    } bad[] = {
        {"mode",
         {MR_ATTR_STRING, .s = {"C", 1}},
         "Value for attr 'mode' of \"C\" is not in the list of allowed values: \"A\", \"B\"; "
         "NodeDef: {{node n}}"},
        {"k", {MR_ATTR_INT, .i = 0}, "Value for attr 'k' of 0 must be at least minimum 1"},
        {"k", {MR_ATTR_FLOAT, .f = 1}, "AttrValue had value with type 'float' when 'int' expected"},
        {"names",
         {MR_ATTR_STRING, .s = {"x", 1}},
         "with type 'string' when 'list(string)' expected"},
        {"other", {MR_ATTR_INT, .i = 0}, "NodeDef mentions attr 'other' not in"},
        {"T",
         {MR_ATTR_TYPE, .type = MR_INT32},
         "Inconsistent values for attr 'T' DT_INT32 vs. DT_FLOAT"},
        {"k", {MR_ATTR_PLACEHOLDER, .s = {"K", 1}}, "'placeholder'"},
    };
    for (int i = 0; i < MR_COUNT(bad); i++) {
        mr_node_builder *b = mr_node_begin(g, "TestMode", "n");
        mr_nb_input(b, mr_o(x, 0));
        mr_nb_attr(b, bad[i].name, bad[i].v);
        check_refused(g, b, MR_INVALID_ARGUMENT, bad[i].text);
    }
    mr_node_builder *b = mr_node_begin(g, "TestMode", "n");
    mr_nb_input(b, mr_o(s, 0));
    check_refused(
        g, b, MR_INVALID_ARGUMENT,
        "Value for attr 'T' of string is not in the list of allowed values: float, int32");
    mr_graph_unref(g);
}

MR_TEST(node_missing_attr_is_named)
{
    mr_graph *g = new_graph();
    check_refused(g, mr_node_begin(g, "TestVar", "v"), MR_INVALID_ARGUMENT,
                  "NodeDef missing attr 'T'");
    mr_graph_unref(g);
}

MR_TEST(node_type_attrs_must_be_types)
{
    mr_graph *g = new_graph();
    mr_node_builder *b = mr_node_begin(g, "TestSource", "n");
    mr_nb_attr(b, "T", mr_a_type(MR_FLOAT + MR_REF_OFFSET));
    check_refused(g, b, MR_INVALID_ARGUMENT, "must not have reference type value of float_ref");
    b = mr_node_begin(g, "TestSource", "n");
    mr_nb_attr(b, "T", mr_a_type(77));
    check_refused(g, b, MR_INVALID_ARGUMENT, "invalid DataType enum: 77");
    mr_graph_unref(g);
}

MR_TEST(node_with_too_many_outputs_is_refused)
{
    mr_graph *g = new_graph();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT);
    mr_node_builder *b = mr_node_begin(g, "TestSplit", "s");
    mr_nb_input(b, mr_o(x, 0));
    mr_nb_attr(b, "n", mr_a_int(INT64_MAX));
    check_refused(g, b, MR_INVALID_ARGUMENT, "Number of outputs is too big");
    mr_graph_unref(g);
}

MR_TEST(node_whose_shape_function_fails_is_refused)
{
    mr_graph *g = new_graph();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT);
    mr_node_builder *b = mr_node_begin(g, "TestBad", "n");
    mr_nb_input(b, mr_o(x, 0));
    check_refused(g, b, MR_INVALID_ARGUMENT, "TestBad has no shape");
    MR_CHECK_INT(x->uses.n, 0);
    MR_CHECK(!mr_graph_find(g, MR_SV("n")));
    mr_graph_unref(g);
}

/* ---- what is accepted ---- */

MR_TEST(node_reads_references_as_values_but_not_the_other_way_round)
{
    mr_graph *g = new_graph();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT), *v, *n;
    mr_node_builder *b = mr_node_begin(g, "TestVar", "v");
    mr_nb_attr(b, "T", mr_a_type(MR_FLOAT));
    MR_CHECK_OK(mr_node_finish(b, &v));
    MR_CHECK_INT(v->out_types[0], MR_FLOAT + MR_REF_OFFSET);
    n = mr_sample_add(g, "z", v, x);
    MR_CHECK_INT(n->in_types[0], MR_FLOAT);
    b = mr_node_begin(g, "TestAssign", "a");
    mr_nb_input(b, mr_o(v, 0));
    mr_nb_input(b, mr_o(v, 0));
    MR_CHECK_OK(mr_node_finish(b, &n));
    b = mr_node_begin(g, "TestAssign", "b");
    mr_nb_input(b, mr_o(x, 0));
    mr_nb_input(b, mr_o(x, 0));
    check_refused(g, b, MR_INVALID_ARGUMENT, "Input 'ref' passed float expected ref type");
    mr_graph_unref(g);
}

MR_TEST(node_control_inputs_are_kept_once)
{
    mr_graph *g = new_graph();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT), *y = mr_sample_source(g, "y", MR_FLOAT), *n;
    for (int many = 0; many < 2; many++) {
        mr_node_builder *b = mr_node_begin(g, "TestSource", many ? "m" : "n");
        for (int i = 0; i < (many ? 100 : 3); i++) {
            mr_nb_control(b, y);
            mr_nb_control(b, x);
        }
        MR_CHECK_OK(mr_node_finish(b, &n));
        MR_CHECK_INT(n->n_ctrl, 2);
        MR_CHECK_INT(x->uses.n, many + 1);
    }
    mr_graph_unref(g);
}

MR_TEST(node_defaults_are_filled_in)
{
    mr_graph *g = new_graph();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT), *n;
    mr_node_builder *b = mr_node_begin(g, "TestMode", "n");
    mr_nb_input(b, mr_o(x, 0));
    mr_nb_attr(b, "_own", mr_a_int(5));
    MR_CHECK_OK(mr_node_finish(b, &n));
    MR_CHECK_INT(n->n_attrs, 5);
    MR_CHECK_INT(mr_node_attr(n, "k")->i, 2);
    MR_CHECK(mr_sv_is(mr_node_attr(n, "mode")->s, "A"));
    MR_CHECK_INT(mr_node_attr(n, "_own")->i, 5);
    mr_graph_unref(g);
}

MR_TEST(node_colocation_is_sorted_and_replaced_by_setting_class)
{
    mr_graph *g = new_graph();
    mr_node *b1 = mr_sample_source(g, "b", MR_FLOAT), *a = mr_sample_source(g, "a", MR_FLOAT), *n;
    mr_node_builder *b = mr_node_begin(g, "TestSource", "n");
    mr_nb_colocate(b, b1);
    mr_nb_colocate(b, a);
    mr_nb_colocate(b, b1);
    MR_CHECK_OK(mr_node_finish(b, &n));
    b = mr_node_begin(g, "TestSource", "m");
    mr_nb_colocate(b, b1);
    mr_nb_attr(b, "_class", mr_a_strs(1, (mr_sv[]){MR_SV("loc:@z")}));
    mr_nb_colocate(b, a);
    MR_CHECK_OK(mr_node_finish(b, &n));
    b = mr_node_begin(g, "TestSource", "k");
    mr_nb_attr(b, "_class", mr_a_int(1));
    check_refused(g, b, MR_INVALID_ARGUMENT, "_class");
    CHECK_GRAPH(
        g,
        "b = TestSource()\na = TestSource()\nn = TestSource() {_class=[\"loc:@a\", \"loc:@b\"]}\n"
        "m = TestSource() {_class=[\"loc:@a\", \"loc:@z\"]}\n");
    mr_graph_unref(g);
}

MR_TEST(node_back_edge_is_set_later)
{
    mr_graph *g = new_graph();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT), *i = mr_sample_source(g, "i", MR_INT32),
            *merge, *next;
    mr_node_builder *b = mr_node_begin(g, "Merge", "merge");
    mr_nb_input_list(b, (mr_out[]){mr_o(x, 0)}, 1);
    mr_nb_input_later(b, MR_FLOAT);
    MR_CHECK_OK(mr_node_finish(b, &merge));
    MR_CHECK_INT(merge->n_in, 2);
    MR_CHECK(!merge->in[1].node);
    b = mr_node_begin(g, "NextIteration", "next");
    mr_nb_input(b, mr_o(merge, 0));
    MR_CHECK_OK(mr_node_finish(b, &next));
    MR_CHECK_ERR(
        mr_node_set_input(merge, 1, mr_o(i, 0)), MR_INVALID_ARGUMENT,
        "Input 1 of node merge was passed int32 from i:0 incompatible with expected float.");
    MR_CHECK_OK(mr_node_set_input(merge, 1, mr_o(next, 0)));
    MR_CHECK(merge->in[1].node == next);
    MR_CHECK_INT(next->uses.n, 1);
    mr_graph_unref(g);
}

MR_TEST(node_builders_of_one_graph_do_not_disturb_each_other)
{
    mr_graph *g = new_graph();
    mr_node *n;
    mr_node_builder *a = mr_node_begin(g, "TestSource", "a"),
                    *b = mr_node_begin(g, "TestSource", "b");
    mr_nb_device(a, "/cpu:0");
    mr_tensor *t = mr_tensor_scalar_f32(1);
    mr_nb_attr_tensor(a, "_t", t);
    mr_tensor_unref(t);
    mr_nb_abandon(a);
    MR_CHECK_OK(mr_node_finish(b, &n));
    MR_CHECK_STR(n->device, "");
    mr_graph_unref(g);
}

MR_TEST(node_getters_tell_absent_from_of_another_kind)
{
    mr_graph *g = new_graph();
    mr_node *n = mr_sample_source(g, "n", MR_FLOAT);
    mr_dtype t;
    int64_t i;
    MR_CHECK_OK(mr_node_get_type(n, "T", &t));
    MR_CHECK_INT(t, MR_FLOAT);
    MR_CHECK_ERR(mr_node_get_int(n, "T", &i), MR_INVALID_ARGUMENT,
                 "AttrValue had value with type 'type' when 'int' expected");
    MR_CHECK_ERR(mr_node_get_int(n, "x", &i), MR_NOT_FOUND, "No attr named 'x' in NodeDef");
    mr_graph_unref(g);
}
