/* graph/library_test.c -- functions: read and written, instantiated, made of nodes. */
#include "graph/library.h"

#include "base/memory.h"
#include "graph/graph_def.h"
#include "graph/sample_ops_fixture.h"
#include "proto/graph.pb-c.h"
#include "wire/message.h"
#include "wire/text_format.h"

#define CHECK_GRAPH(g, expected)          \
    do {                                  \
        char *text_ = mr_sample_print(g); \
        MR_CHECK_STR(text_, expected);    \
        mr_free(text_);                   \
    } while (0)

static void to_bytes(const char *text, mr_str *out)
{
    ProtobufCMessage *m;
    MR_CHECK_OK(mr_text_parse(&tensorflow__function_def__descriptor, mr_sv_of(text), &m));
    MR_CHECK_OK(mr_message_sort_maps(m));
    MR_CHECK_OK(mr_message_pack(m, out));
    mr_message_free(m);
}

static mr_status *decode(const char *text, mr_function **out)
{
    mr_str bytes = {0};
    mr_sample_ops();
    to_bytes(text, &bytes);
    mr_status *st = mr_function_decode(mr_str_view(&bytes), out);
    mr_str_deinit(&bytes);
    return st;
}

static mr_function *of_text(const char *text)
{
    mr_function *f;
    MR_CHECK_OK(decode(text, &f));
    return f;
}

/* The FunctionDef as text. */
static char *print(const mr_function *f)
{
    ProtobufCMessage *m;
    mr_str bytes = {0}, text = {0};
    MR_CHECK_OK(mr_function_encode(f, &bytes));
    MR_CHECK_OK(mr_message_unpack(&tensorflow__function_def__descriptor, mr_str_view(&bytes),
                                  "FunctionDef", &m));
    MR_CHECK_OK(mr_text_print(m, &text));
    mr_message_free(m);
    mr_str_deinit(&bytes);
    return mr_str_take(&text);
}

/* f(x: T, xs: N * T) -> (sum: T, all: N * T), with a body out of order. */
#define SAMPLE                                                                                     \
    "signature { name: 'F' input_arg { name: 'x' type_attr: 'T' } "                                \
    "  input_arg { name: 'xs' type_attr: 'T' number_attr: 'N' } "                                  \
    "  output_arg { name: 'sum' type_attr: 'T' } output_arg { name: 'all' type_attr: 'T' "         \
    "number_attr: 'N' } "                                                                          \
    "  attr { name: 'T' type: 'type' } attr { name: 'N' type: 'int' default_value { i: 2 } } "     \
    "  description: 'kept' control_output: 'late' } "                                              \
    "node_def { name: 'b' op: 'TestAdd' input: 'a:z:0' input: 'xs:1' input: '^c' "                 \
    "  attr { key: 'T' value { placeholder: 'T' } } } "                                            \
    "node_def { name: 'a' op: 'TestAdd' input: 'x' input: 'xs:0' attr { key: 'T' value { "         \
    "placeholder: 'T' } } } "                                                                      \
    "node_def { name: 'c' op: 'TestSource' input: '^x' attr { key: '_f' value { func { name: 'G' " \
    "  attr { key: 'U' value { placeholder: 'T' } } } } } } "                                      \
    "ret { key: 'sum' value: 'b:z' } ret { key: 'all' value: 'xs' } "                              \
    "control_ret { key: 'late' value: 'c' } attr { key: '_noinline' value { b: true } } "          \
    "arg_attr { key: 0 value { attr { key: '_output_shapes' value { list { shape { dim { size: 3 " \
    "} } } } } } } "

MR_TEST(function_is_written_as_it_was_read)
{
    mr_sample_ops();
    mr_str bytes = {0}, again = {0};
    mr_function *f;
    to_bytes(SAMPLE, &bytes);
    MR_CHECK_OK(mr_function_decode(mr_str_view(&bytes), &f));
    MR_CHECK_OK(mr_function_encode(f, &again));
    ProtobufCMessage *x, *y;
    mr_str xt = {0}, yt = {0};
    MR_CHECK_OK(
        mr_message_unpack(&tensorflow__function_def__descriptor, mr_str_view(&bytes), "x", &x));
    MR_CHECK_OK(
        mr_message_unpack(&tensorflow__function_def__descriptor, mr_str_view(&again), "y", &y));
    MR_CHECK_OK(mr_text_print(x, &xt));
    MR_CHECK_OK(mr_text_print(y, &yt));
    MR_CHECK_STR(mr_str_z(&yt), mr_str_z(&xt));
    mr_message_free(x);
    mr_message_free(y);
    mr_str_deinit(&xt);
    mr_str_deinit(&yt);
    mr_str_deinit(&bytes);
    mr_str_deinit(&again);
    mr_function_unref(f);
}

MR_TEST(function_instantiates_with_its_attrs)
{
    mr_function *f = of_text(SAMPLE);
    mr_body b;
    mr_named_attr attrs[] = {{"T", mr_a_type(MR_INT32)}, {"more", mr_a_int(1)}};
    MR_CHECK_OK(mr_function_instantiate(NULL, f, attrs, 2, &b));
    mr_function_unref(f);
    CHECK_GRAPH(
        b.graph,
        "x = _Arg() {T=DT_INT32, _output_shapes=[[3]], index=0}\n"
        "xs_0 = _Arg() {T=DT_INT32, index=1}\nxs_1 = _Arg() {T=DT_INT32, index=2}\n"
        "a = TestAdd(x, xs_0) {T=DT_INT32}\nc = TestSource(^x) {_f=G[U=DT_INT32]}\n"
        "b = TestAdd(a, xs_1, ^c) {T=DT_INT32}\nsum_RetVal = _Retval(b) {T=DT_INT32, index=0}\n"
        "all_RetVal_0 = _Retval(xs_0) {T=DT_INT32, index=1}\n"
        "all_RetVal_1 = _Retval(xs_1) {T=DT_INT32, index=2}\n");
    MR_CHECK_INT(b.n_args, 3);
    MR_CHECK_INT(b.n_rets, 3);
    MR_CHECK_INT(b.n_keep, 1);
    MR_CHECK_STR(b.args[2]->name, "xs_1");
    MR_CHECK_STR(b.rets[0]->name, "sum_RetVal");
    MR_CHECK_STR(b.keep[0]->name, "c");
    MR_CHECK_INT(b.args[0]->out_shapes[0]->dims[0], 3);
    mr_body_deinit(&b);
}

static void check_no_instance(const char *text, mr_code code, const char *why)
{
    mr_function *f = of_text(text);
    mr_body b;
    MR_CHECK_ERR(mr_function_instantiate(NULL, f, NULL, 0, &b), code, why);
    mr_function_unref(f);
}

#define SIG                                                                                      \
    "signature { name: 'F' input_arg { name: 'x' type: DT_FLOAT } output_arg { name: 'y' type: " \
    "DT_FLOAT } } "

MR_TEST(function_body_errors_are_named)
{
    check_no_instance(SAMPLE, MR_INVALID_ARGUMENT, "missing attr 'T'");
    check_no_instance(SIG, MR_INVALID_ARGUMENT, "Return y missing in function 'F'");
    check_no_instance(SIG "ret { key: 'y' value: 'z' }", MR_INVALID_ARGUMENT, "'z' is not found");
    check_no_instance(SIG "ret { key: 'y' value: 'a:z:0' }", MR_INVALID_ARGUMENT,
                      "'a:z:0' is not found");
    check_no_instance(SIG "ret { key: 'y' value: 'x:1' }", MR_INVALID_ARGUMENT,
                      "'x:1' has only 1 values");
    check_no_instance(SIG "node_def { name: 'a' op: 'NoSuchOp' } ret { key: 'y' value: 'x' }",
                      MR_NOT_FOUND, "Function 'F', node 'a': Op type not registered 'NoSuchOp'");
    check_no_instance(SIG "node_def { name: 'a' op: 'TestAdd' input: 'x' attr { key: 'T' value { "
                          "type: DT_FLOAT } } } "
                          "ret { key: 'y' value: 'x' }",
                      MR_INVALID_ARGUMENT, "expected inputs 'float, float' do not match 1 inputs specified; Op<name=TestAdd; ");
    check_no_instance(
        SIG "node_def { name: 'a' op: 'TestSource' attr { key: 'T' value { placeholder: 'U' } } } "
            "ret { key: 'y' value: 'x' }",
        MR_INVALID_ARGUMENT, "Failed to bind placeholder 'U'");
    check_no_instance(
        SIG "node_def { name: 'a' op: 'TestSource' } node_def { name: 'a' op: 'TestSource' } "
            "ret { key: 'y' value: 'x' }",
        MR_INVALID_ARGUMENT, "'a' is not unique");
    check_no_instance(
        SIG "node_def { name: 'a' op: 'TestSource' input: '^a' } ret { key: 'y' value: 'x' }",
        MR_INVALID_ARGUMENT, "cycle");
    check_no_instance(
        SIG "node_def { name: 'a' op: 'TestSource' attr { key: 'T' value { type: DT_INT32 } } } "
            "ret { key: 'y' value: 'a:o:0' }",
        MR_INVALID_ARGUMENT, "incompatible with expected float");
}

MR_TEST(function_decode_checks_control_outputs)
{
    mr_function *f;
    MR_CHECK_ERR(decode("signature { name: 'F' control_output: 'c' }", &f), MR_INVALID_ARGUMENT,
                 "control output 'c' is missing");
    MR_CHECK_ERR(decode("", &f), MR_INVALID_ARGUMENT, "no name");
    f = of_text("signature { name: 'F' control_output: 'b' } control_ret { key: 'a' value: 'n' } "
                "control_ret { key: 'b' value: 'n' }");
    MR_CHECK_STR(f->control_outputs[0], "b");
    MR_CHECK_STR(f->control_outputs[1], "a");
    mr_function_unref(f);
}

/* ---- library ---- */

#define F1 SIG "ret { key: 'y' value: 'x' }"
#define F2                                                                                        \
    SIG "node_def { name: 'a' op: 'TestAdd' input: 'x' input: 'x' attr { key: 'T' value { type: " \
        "DT_FLOAT } } } "                                                                         \
        "ret { key: 'y' value: 'a:z:0' }"

MR_TEST(library_takes_a_name_once_unless_equal)
{
    mr_function *a = of_text(F1), *same = of_text(F1), *other = of_text(F2);
    mr_function *op = of_text("signature { name: 'TestAdd' }");
    mr_library *l = mr_library_new();
    MR_CHECK_OK(mr_library_add(l, a));
    MR_CHECK_OK(mr_library_add(l, same));
    MR_CHECK_INT(mr_library_count(l), 1);
    MR_CHECK_ERR(mr_library_add(l, other), MR_INVALID_ARGUMENT,
                 "a different function with the same name");
    MR_CHECK_ERR(mr_library_add(l, op), MR_INVALID_ARGUMENT, "an op with the same name");
    MR_CHECK(mr_library_find(l, MR_SV("F")) == a);
    MR_CHECK(mr_library_op(l, MR_SV("F")) == &a->def);
    MR_CHECK_STR(mr_library_op(l, MR_SV("TestAdd"))->name, "TestAdd");
    MR_CHECK(!mr_library_op(l, MR_SV("G")));
    MR_CHECK_OK(mr_library_remove(l, MR_SV("F")));
    MR_CHECK_ERR(mr_library_remove(l, MR_SV("F")), MR_INVALID_ARGUMENT, "non-existent");
    MR_CHECK_OK(mr_library_add(l, other));
    mr_library_free(l);
    mr_function_unref(a);
    mr_function_unref(same);
    mr_function_unref(other);
    mr_function_unref(op);
}

MR_TEST(library_gradients)
{
    mr_library *l = mr_library_new(), *copy = mr_library_new();
    mr_str bytes = {0};
    mr_sample_ops();
    MR_CHECK_OK(mr_library_set_gradient(l, "F", "G"));
    MR_CHECK_OK(mr_library_set_gradient(l, "F", "G"));
    MR_CHECK_OK(mr_library_set_gradient(l, "H", "I"));
    MR_CHECK_ERR(mr_library_set_gradient(l, "F", "H"), MR_INVALID_ARGUMENT,
                 "already has gradient function 'G'");
    MR_CHECK_OK(mr_library_encode(l, &bytes));
    MR_CHECK_OK(mr_library_decode(mr_str_view(&bytes), copy));
    MR_CHECK_STR(mr_library_gradient(copy, "F"), "G");
    MR_CHECK_OK(mr_library_set_gradient(copy, "F", ""));
    MR_CHECK(!mr_library_gradient(copy, "F"));
    MR_CHECK_STR(mr_library_gradient(copy, "H"), "I");
    mr_str_deinit(&bytes);
    mr_library_free(l);
    mr_library_free(copy);
}

MR_TEST(function_removed_from_the_library_stays_with_its_callers)
{
    mr_function *f = of_text(F1);
    mr_graph *g = mr_graph_new(), *copy;
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT), *call;
    MR_CHECK_OK(mr_library_add(g->library, f));
    mr_function_unref(f);
    mr_node_builder *b = mr_node_begin(g, "F", "call");
    mr_nb_input(b, mr_o(x, 0));
    MR_CHECK_OK(mr_node_finish(b, &call));
    MR_CHECK_OK(mr_library_remove(g->library, MR_SV("F")));
    MR_CHECK_OK(mr_graph_copy(g, NULL, &copy, NULL));
    mr_graph_unref(g);
    CHECK_GRAPH(copy, "x = TestSource()\ncall = F(x)\n");
    mr_graph_unref(copy);
}

MR_TEST(import_brings_functions_along)
{
    const char *text =
        "node { name: 'x' op: 'TestSource' } node { name: 'call' op: 'F' input: 'x' } "
        "library { function { " F1 " } gradient { function_name: 'F' gradient_func: 'G' } }";
    mr_sample_ops();
    mr_graph *g = mr_graph_new();
    mr_function *other = of_text(F2);
    mr_str out = {0};
    MR_CHECK_OK(mr_graph_import_text(g, mr_sv_of(text), NULL));
    CHECK_GRAPH(g, "x = TestSource()\ncall = F(x)\n");
    MR_CHECK_STR(mr_library_gradient(g->library, "F"), "G");
    MR_CHECK_OK(mr_graph_import_text(g, mr_sv_of(text), &(mr_import_options){.prefix = "again"}));
    MR_CHECK_INT(mr_library_count(g->library), 1);
    MR_CHECK_OK(mr_graph_export_text(g, &out));
    MR_CHECK(strstr(mr_str_z(&out), "gradient_func: \"G\""));
    mr_graph_unref(g);
    g = mr_graph_new();
    MR_CHECK_OK(mr_library_add(g->library, other));
    MR_CHECK_ERR(mr_graph_import_text(g, mr_sv_of(text), NULL), MR_INVALID_ARGUMENT,
                 "a different function");
    MR_CHECK_INT(g->nodes.n, 0);
    mr_function_unref(other);
    mr_str_deinit(&out);
    mr_graph_unref(g);
}

/* ---- nodes become a function ---- */

/* X, b; sum = X + b; Sum = sum + X, after b. */
static mr_graph *sums(mr_node **x, mr_node **b, mr_node **sum, mr_node **sum2)
{
    mr_sample_ops();
    mr_graph *g = mr_graph_new();
    *x = mr_sample_source(g, "9/X", MR_FLOAT);
    *b = mr_sample_source(g, "b", MR_FLOAT);
    *sum = mr_sample_add(g, "sum", *x, *b);
    *sum2 = mr_sample_add(g, "Sum", *sum, *x);
    mr_node_add_control(*sum2, *b);
    return g;
}

MR_TEST(function_of_a_whole_graph)
{
    mr_node *x, *b, *sum, *sum2;
    mr_graph *g = sums(&x, &b, &sum, &sum2);
    mr_function *f;
    mr_out in[] = {mr_o(x, 0)}, out[] = {mr_o(sum2, 0), mr_o(sum, 0), mr_o(x, 0)};
    const char *names[] = {"total", NULL, NULL};
    mr_function_spec spec = {.name = "F",
                             .n_nodes = -1,
                             .inputs = in,
                             .n_inputs = 1,
                             .outputs = out,
                             .n_outputs = 3,
                             .output_names = names,
                             .controls = &b,
                             .n_controls = 1,
                             .description = "d"};
    MR_CHECK_OK(mr_function_from_graph(g, &spec, &f));
    char *text = print(f);
    MR_CHECK_STR(
        text,
        "signature {\n  name: \"F\"\n  input_arg {\n    name: \"x_0\"\n    type: DT_FLOAT\n  }\n"
        "  output_arg {\n    name: \"total\"\n    type: DT_FLOAT\n  }\n"
        "  output_arg {\n    name: \"sum\"\n    type: DT_FLOAT\n  }\n"
        "  output_arg {\n    name: \"x\"\n    type: DT_FLOAT\n  }\n"
        "  description: \"d\"\n  control_output: \"b\"\n}\n"
        "node_def {\n  name: \"b\"\n  op: \"TestSource\"\n  attr {\n    key: \"T\"\n    value {\n"
        "      type: DT_FLOAT\n    }\n  }\n}\n"
        "node_def {\n  name: \"sum_0\"\n  op: \"TestAdd\"\n  input: \"x_0\"\n  input: \"b:o:0\"\n  "
        "attr {\n"
        "    key: \"T\"\n    value {\n      type: DT_FLOAT\n    }\n  }\n}\n"
        "node_def {\n  name: \"Sum\"\n  op: \"TestAdd\"\n  input: \"sum_0:z:0\"\n  input: \"x_0\"\n"
        "  input: \"^b\"\n  attr {\n    key: \"T\"\n    value {\n      type: DT_FLOAT\n    }\n  "
        "}\n}\n"
        "ret {\n  key: \"sum\"\n  value: \"sum_0:z:0\"\n}\nret {\n  key: \"total\"\n"
        "  value: \"Sum:z:0\"\n}\nret {\n  key: \"x\"\n  value: \"x_0\"\n}\n"
        "control_ret {\n  key: \"b\"\n  value: \"b\"\n}\n");
    mr_free(text);
    mr_body body;
    MR_CHECK_OK(mr_function_instantiate(g->library, f, NULL, 0, &body));
    MR_CHECK_INT(body.graph->nodes.n, 7);
    mr_body_deinit(&body);
    mr_function_unref(f);
    mr_graph_unref(g);
}

MR_TEST(function_name_with_a_hash_depends_on_the_body)
{
    mr_node *x, *b, *sum, *sum2;
    mr_graph *g = sums(&x, &b, &sum, &sum2);
    mr_function *f1, *f2, *f3;
    mr_out in[] = {mr_o(x, 0)}, out1[] = {mr_o(sum, 0)}, out2[] = {mr_o(sum2, 0)};
    mr_function_spec spec = {.name = "F",
                             .append_hash = true,
                             .n_nodes = -1,
                             .inputs = in,
                             .n_inputs = 1,
                             .outputs = out1,
                             .n_outputs = 1};
    MR_CHECK_OK(mr_function_from_graph(g, &spec, &f1));
    MR_CHECK_OK(mr_function_from_graph(g, &spec, &f2));
    spec.outputs = out2;
    MR_CHECK_OK(mr_function_from_graph(g, &spec, &f3));
    MR_CHECK_STR(f1->def.name, f2->def.name);
    MR_CHECK(strcmp(f1->def.name, f3->def.name) != 0);
    MR_CHECK(strncmp(f1->def.name, "F_", 2) == 0 && strlen(f1->def.name) == 13);
    MR_CHECK(mr_function_eq(f1, f2) && !mr_function_eq(f1, f3));
    mr_function_unref(f1);
    mr_function_unref(f2);
    mr_function_unref(f3);
    mr_graph_unref(g);
}

MR_TEST(function_of_nodes_needs_all_it_reads)
{
    mr_node *x, *b, *sum, *sum2;
    mr_graph *g = sums(&x, &b, &sum, &sum2);
    mr_function *f;
    mr_out in[] = {mr_o(x, 0), mr_o(x, 0)}, out[] = {mr_o(sum2, 0)},
           all[] = {mr_o(x, 0), mr_o(b, 0), mr_o(sum, 0)};
    mr_function_spec spec = {.name = "F",
                             .n_nodes = 1,
                             .nodes = &sum2,
                             .inputs = all,
                             .n_inputs = 1,
                             .outputs = out,
                             .n_outputs = 1};
    MR_CHECK_ERR(mr_function_from_graph(g, &spec, &f), MR_INVALID_ARGUMENT,
                 "Input 0, 'sum:0', of node 'Sum' in function 'F' is not available");
    spec.inputs = in;
    spec.n_inputs = 2;
    MR_CHECK_ERR(mr_function_from_graph(g, &spec, &f), MR_INVALID_ARGUMENT,
                 "9/X:0 appears more than once");
    spec.inputs = (mr_out[]){mr_o(x, 0), mr_o(sum, 0)};
    MR_CHECK_ERR(mr_function_from_graph(g, &spec, &f), MR_INVALID_ARGUMENT,
                 "The source of control edge [id=5 b:-1 -> Sum:-1] is not in the body");
    spec.inputs = all;
    spec.n_inputs = 3;
    MR_CHECK_OK(mr_function_from_graph(g, &spec, &f));
    MR_CHECK_STR(f->nodes[0].inputs[2], "^b");
    mr_function_unref(f);
    spec.n_nodes = 0;
    MR_CHECK_ERR(mr_function_from_graph(g, &spec, &f), MR_INVALID_ARGUMENT,
                 "Sum:0 is neither in the function body nor among function inputs");
    spec.n_nodes = 2;
    spec.nodes = (mr_node *[]){sum2, sum2};
    MR_CHECK_ERR(mr_function_from_graph(g, &spec, &f), MR_INVALID_ARGUMENT, "listed twice");
    mr_graph_unref(g);
}

MR_TEST(function_boundary_takes_no_references)
{
    mr_sample_ops();
    mr_graph *g = mr_graph_new();
    mr_node *v;
    mr_function *f;
    mr_node_builder *b = mr_node_begin(g, "TestVar", "v");
    mr_nb_attr(b, "T", mr_a_type(MR_FLOAT));
    MR_CHECK_OK(mr_node_finish(b, &v));
    mr_out o = mr_o(v, 0), bad = mr_o(v, 1);
    MR_CHECK_ERR(
        mr_function_from_graph(
            g, &(mr_function_spec){.name = "F", .n_nodes = -1, .outputs = &o, .n_outputs = 1}, &f),
        MR_INVALID_ARGUMENT, "Output 0 of node 'v' has a reference type float_ref");
    MR_CHECK_ERR(
        mr_function_from_graph(
            g, &(mr_function_spec){.name = "F", .n_nodes = -1, .inputs = &bad, .n_inputs = 1}, &f),
        MR_OUT_OF_RANGE, "does not have output 1");
    mr_graph_unref(g);
}

MR_TEST(function_output_names_are_unique)
{
    mr_node *x, *b, *sum, *sum2;
    mr_graph *g = sums(&x, &b, &sum, &sum2);
    mr_function *f;
    mr_out out[] = {mr_o(sum, 0), mr_o(sum2, 0)};
    const char *names[] = {"a", "a"};
    mr_function_spec spec = {
        .name = "F", .n_nodes = -1, .outputs = out, .n_outputs = 2, .output_names = names};
    MR_CHECK_ERR(mr_function_from_graph(g, &spec, &f), MR_INVALID_ARGUMENT,
                 "Cannot have duplicate output names");
    spec.output_names = NULL;
    MR_CHECK_OK(mr_function_from_graph(g, &spec, &f));
    MR_CHECK_STR(f->def.out[0].name, "sum");
    MR_CHECK_STR(f->def.out[1].name, "sum_0");
    mr_function_unref(f);
    mr_graph_unref(g);
}
