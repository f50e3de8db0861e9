/* graph/import_test.c -- GraphDefs into graphs and back. */
#include "graph/graph_def.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
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

static mr_graph *new_graph(void)
{
    mr_sample_ops();
    return mr_graph_new();
}

/* Through text into bytes, with results. */
static mr_status *import(mr_graph *g, const char *text, const mr_import_options *o,
                         mr_import_results *r)
{
    ProtobufCMessage *m;
    mr_str bytes = {0};
    MR_CHECK_OK(mr_text_parse(&tensorflow__graph_def__descriptor, mr_sv_of(text), &m));
    MR_CHECK_OK(mr_message_pack(m, &bytes));
    mr_message_free(m);
    mr_status *st = mr_graph_import(g, mr_str_view(&bytes), o, r);
    mr_str_deinit(&bytes);
    return st;
}

/* Fails, and leaves the graph as it was. */
static void check_refused(const char *text, const mr_import_options *o, mr_code code,
                          const char *why)
{
    mr_graph *g = new_graph();
    mr_node *x = mr_sample_source(g, "old", MR_FLOAT);
    mr_import_results r;
    MR_CHECK_ERR(import(g, text, o, &r), code, why);
    CHECK_GRAPH(g, "old = TestSource()\n");
    MR_CHECK_INT(x->uses.n, 0);
    MR_CHECK_INT(g->held.n, 0);
    MR_CHECK_INT(mr_library_count(g->library), 0);
    MR_CHECK_INT(g->versions.producer, MR_GRAPH_PRODUCER);
    mr_graph_unref(g);
}

#define X "node { name: 'x' op: 'TestSource' } "
#define Z                                                                                   \
    "node { name: 'z' op: 'TestAdd' input: 'x' input: 'x:0' attr { key: 'T' value { type: " \
    "DT_FLOAT } } } "
#define V "versions { producer: 27 } "

MR_TEST(import_makes_nodes_with_defaults)
{
    mr_graph *g = new_graph();
    MR_CHECK_OK(import(g, X Z V, NULL, NULL));
    CHECK_GRAPH(g, "x = TestSource()\nz = TestAdd(x, x) {T=DT_FLOAT}\n");
    MR_CHECK_INT(mr_node_attr(g->nodes.p[0], "T")->type, MR_FLOAT);
    MR_CHECK_INT(g->versions.producer, 27);
    mr_graph_unref(g);
}

MR_TEST(import_takes_nodes_in_any_order)
{
    mr_graph *g = new_graph();
    MR_CHECK_OK(import(g,
                       "node { name: 'c' op: 'TestSource' input: '^z' } " Z
                       "node { name: 'b' op: 'TestSource' } " X V,
                       NULL, NULL));
    /* of those that can be made the first in the file comes first */
    CHECK_GRAPH(g, "b = TestSource()\nx = TestSource()\nz = TestAdd(x, x) {T=DT_FLOAT}\n"
                   "c = TestSource(^z)\n");
    mr_graph_unref(g);
}

#define LOOP                                                                                       \
    "node { name: 'm' op: 'Merge' input: 'x' input: 'n' attr { key: 'T' value { type: DT_FLOAT } " \
    "} "                                                                                           \
    "       attr { key: 'N' value { i: 2 } } } "                                                   \
    "node { name: 'n' op: 'NextIteration' input: 'm' attr { key: 'T' value { type: DT_FLOAT } } "  \
    "} "

MR_TEST(import_closes_loops)
{
    mr_graph *g = new_graph();
    MR_CHECK_OK(import(g, LOOP X V, NULL, NULL));
    CHECK_GRAPH(
        g,
        "x = TestSource()\nm = Merge(x, n) {N=2, T=DT_FLOAT}\nn = NextIteration(m) {T=DT_FLOAT}\n");
    MR_CHECK_INT(mr_graph_find(g, MR_SV("n"))->uses.n, 1);
    mr_graph_unref(g);
}

MR_TEST(import_refuses_other_cycles)
{
    check_refused("node { name: 'a' op: 'TestSource' input: '^b' } node { name: 'b' op: "
                  "'TestSource' input: '^a' } " X,
                  NULL, MR_INVALID_ARGUMENT, "2 nodes in a cycle");
    check_refused("node { name: 'a' op: 'TestSource' input: '^a' }", NULL, MR_INVALID_ARGUMENT,
                  "1 nodes in a cycle");
}

MR_TEST(import_refuses_what_is_not_a_graph)
{
    check_refused("node { name: 'z' op: 'NoSuchOp' }", NULL, MR_NOT_FOUND,
                  "Op type not registered 'NoSuchOp'");
    check_refused(Z, NULL, MR_INVALID_ARGUMENT, "Node 'z': Unknown input node 'x'");
    check_refused(X "node { name: 'y' op: 'TestSource' input: '^x:1' }", NULL, MR_INVALID_ARGUMENT,
                  "Control input '^x:1' must not have ':'");
    check_refused(X "node { name: 'z' op: 'TestAdd' input: 'x' input: '^x' input: 'x' "
                    "attr { key: 'T' value { type: DT_FLOAT } } }",
                  NULL, MR_INVALID_ARGUMENT, "Node 'z': Control dependencies must come after regular dependencies");
    check_refused(X X, NULL, MR_INVALID_ARGUMENT, "Node 'x' is not unique");
    check_refused("node { name: 'old' op: 'TestSource' }", NULL, MR_INVALID_ARGUMENT,
                  "Node name 'old' already exists in the Graph");
    check_refused("node { name: '_x' op: 'TestSource' }", NULL, MR_INVALID_ARGUMENT,
                  "invalid characters");
    check_refused(
        X "node { name: 'z' op: 'TestAdd' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }",
        NULL, MR_INVALID_ARGUMENT,
        "NodeDef expected inputs 'float, float' do not match 1 inputs specified; Op<name=TestAdd; ");
    check_refused(X "node { name: 'z' op: 'TestAdd' input: 'x' input: 'x:1' "
                    "attr { key: 'T' value { type: DT_FLOAT } } }",
                  NULL, MR_INVALID_ARGUMENT,
                  "Node 'z': Connecting to invalid output 1 of source node x which has 1 outputs.");
    check_refused(X "node { name: 'z' op: 'TestAdd' input: 'x' input: 'x' "
                    "attr { key: 'T' value { type: DT_INT32 } } }",
                  NULL, MR_INVALID_ARGUMENT,
                  "Input 0 of node z was passed float from x:0 incompatible with expected int32.");
    check_refused(X "node { name: 'z' op: 'TestAdd' input: 'x' input: 'x' }", NULL,
                  MR_INVALID_ARGUMENT, "NodeDef missing attr 'T'");
    check_refused(X "node { name: 'z' op: 'TestBad' input: 'x' }", NULL, MR_INVALID_ARGUMENT,
                  "TestBad has no shape");
}

MR_TEST(import_refuses_malformed_bytes)
{
    mr_graph *g = new_graph();
    MR_CHECK_ERR(mr_graph_import(g,
                                 MR_SV("\x0a\x05"
                                       "abc"),
                                 NULL, NULL),
                 MR_INVALID_ARGUMENT, "malformed protobuf");
    MR_CHECK_ERR(mr_graph_import(g, MR_SV("\x0a\x02\x0a\x05"), NULL, NULL), MR_INVALID_ARGUMENT,
                 "NodeDef");
    MR_CHECK_OK(mr_graph_import(g, MR_SV(""), NULL, NULL));
    mr_graph_unref(g);
}

MR_TEST(import_checks_versions)
{
    check_refused("versions { min_consumer: 5000 }", NULL, MR_INVALID_ARGUMENT,
                  "GraphDef min consumer version 5000 above current version 1087 for TensorFlow 2.9.1.  Please upgrade TensorFlow.");
    check_refused("versions { producer: 2000 bad_consumers: 3 bad_consumers: 1087 }", NULL,
                  MR_INVALID_ARGUMENT, "GraphDef disallows consumer version 1087");
    check_refused("versions { producer: -1 }", NULL, MR_INVALID_ARGUMENT, "below min producer");
    mr_graph *g = new_graph();
    MR_CHECK_OK(
        import(g, "versions { producer: 2000 min_consumer: 12 bad_consumers: 3 bad_consumers: 3 }",
               NULL, NULL));
    MR_CHECK_INT(g->versions.producer, MR_GRAPH_PRODUCER);
    MR_CHECK_OK(
        import(g, "versions { producer: 30 min_consumer: 5 bad_consumers: 2 }", NULL, NULL));
    MR_CHECK_INT(g->versions.producer, 30);
    MR_CHECK_INT(g->versions.min_consumer, 12);
    MR_CHECK_INT(g->versions.n_bad, 2);
    MR_CHECK_INT(g->versions.bad_consumers[1], 3);
    mr_graph_unref(g);
}

MR_TEST(import_of_a_deprecated_op_depends_on_the_producer)
{
    check_refused("node { name: 'x' op: 'TestOld' } versions { producer: 10 }", NULL,
                  MR_UNIMPLEMENTED, "Op TestOld is not available in GraphDef version 10");
    mr_graph *g = new_graph();
    MR_CHECK_OK(import(g, "node { name: 'x' op: 'TestOld' } versions { producer: 9 }", NULL, NULL));
    mr_graph_unref(g);
}

MR_TEST(import_drops_empty_attrs_of_a_newer_producer)
{
    mr_graph *g = new_graph();
    MR_CHECK_OK(import(g,
                       "node { name: 'x' op: 'TestSource' attr { key: 'new' value { b: false } } } "
                       "versions { producer: 1994 }",
                       NULL, NULL));
    CHECK_GRAPH(g, "x = TestSource()\n");
    check_refused("node { name: 'x' op: 'TestSource' attr { key: 'new' value { b: true } } } "
                  "versions { producer: 1994 }",
                  NULL, MR_INVALID_ARGUMENT, "NodeDef mentions attr 'new'");
    check_refused("node { name: 'x' op: 'TestSource' attr { key: 'new' value { b: false } } } "
                  "versions { producer: 134 }",
                  NULL, MR_INVALID_ARGUMENT, "NodeDef mentions attr 'new'");
    mr_graph_unref(g);
}

/* ---- options ---- */

MR_TEST(import_puts_a_prefix_before_all_names)
{
    mr_graph *g = new_graph();
    MR_CHECK_OK(import(
        g,
        X Z "node { name: 'c' op: 'TestSource' input: '^x' attr { key: '_class' value { list { "
            "s: 'loc:@z' s: 'other' } } } }" V,
        &(mr_import_options){.prefix = "p/q/"}, NULL));
    CHECK_GRAPH(g, "p/q/x = TestSource()\np/q/z = TestAdd(p/q/x, p/q/x) {T=DT_FLOAT}\n"
                   "p/q/c = TestSource(^p/q/x) {_class=[\"loc:@p/q/z\", \"other\"]}\n");
    MR_CHECK_ERR(import(g, X, &(mr_import_options){.prefix = "p/q"}, NULL), MR_INVALID_ARGUMENT,
                 "Node name 'p/q/x' already exists");
    MR_CHECK_ERR(import(g, X, &(mr_import_options){.prefix = "_p"}, NULL), MR_INVALID_ARGUMENT,
                 "Imported node name prefix '_p' would lead to invalid node names");
    mr_graph_unref(g);
}

MR_TEST(import_makes_the_prefix_unique)
{
    mr_graph *g = new_graph();
    mr_import_options o = {.prefix = "p", .uniquify_prefix = true};
    for (int i = 0; i < 3; i++)
        MR_CHECK_OK(import(g, X, &o, NULL));
    CHECK_GRAPH(g, "p/x = TestSource()\np_1/x = TestSource()\np_2/x = TestSource()\n");
    mr_graph_unref(g);
}

MR_TEST(import_makes_names_unique)
{
    mr_graph *g = new_graph();
    mr_import_options o = {.uniquify_names = true};
    mr_sample_source(g, "x", MR_FLOAT);
    mr_sample_source(g, "z/y", MR_FLOAT); /* z is a prefix: taken as well */
    MR_CHECK_OK(import(
        g,
        X Z "node { name: 'x_1' op: 'TestSource' attr { key: '_class' value { list { s: 'loc:@x' "
            "} } } }" V,
        &o, NULL));
    CHECK_GRAPH(g, "x = TestSource()\nz/y = TestSource()\nx_2 = TestSource()\nz_1 = TestAdd(x_2, "
                   "x_2) {T=DT_FLOAT}\n"
                   "x_1 = TestSource() {_class=[\"loc:@x_2\"]}\n");
    mr_graph_unref(g);
}

MR_TEST(import_fills_empty_devices)
{
    mr_graph *g = new_graph();
    MR_CHECK_OK(import(g, X "node { name: 'y' op: 'TestSource' device: '/gpu:0' }" V,
                       &(mr_import_options){.default_device = "/cpu:0"}, NULL));
    MR_CHECK_STR(mr_graph_find(g, MR_SV("x"))->device, "/cpu:0");
    MR_CHECK_STR(mr_graph_find(g, MR_SV("y"))->device, "/gpu:0");
    mr_graph_unref(g);
}

MR_TEST(import_maps_inputs_and_reports_maps_that_name_nothing)
{
    mr_graph *g = new_graph();
    mr_node *a = mr_sample_source(g, "a", MR_FLOAT);
    mr_import_map maps[] = {{"x", 0, {a, 0}}, {"gone", 0, {a, 0}}, {"x", 5, {a, 0}},
                            {"z", 0, {a, 0}}, {"x", -1, {a, -1}},  {"none", -1, {a, -1}}};
    mr_import_results r;
    MR_CHECK_OK(
        import(g,
               X "node { name: 'z' op: 'TestAdd' input: 'x' input: 'gone' input: '^x' input: '^x' "
                 "attr { key: 'T' value { type: DT_FLOAT } } }" V,
               &(mr_import_options){.maps = maps, .n_maps = 6}, &r));
    CHECK_GRAPH(g, "a = TestSource()\nx = TestSource()\nz = TestAdd(a, a, ^a) {T=DT_FLOAT}\n");
    MR_CHECK_INT(r.n_unused, 2); /* x:5 and none; z:0 exists although nobody reads it */
    MR_CHECK_INT(r.unused[0], 2);
    MR_CHECK_INT(r.unused[1], 5);
    mr_import_results_deinit(&r);
    mr_graph_unref(g);
}

MR_TEST(import_checks_its_maps)
{
    mr_graph *g = new_graph();
    mr_node *a = mr_sample_source(g, "a", MR_FLOAT), *i = mr_sample_source(g, "i", MR_INT32);
    mr_import_map control = {"x", 0, {a, -1}}, range = {"x", 0, {a, 1}}, null = {"x", 0, {NULL, 0}},
                  type = {"x", 0, {i, 0}};
    MR_CHECK_ERR(import(g, X, &(mr_import_options){.maps = &control, .n_maps = 1}, NULL),
                 MR_INVALID_ARGUMENT, "between control edge and non-control edge");
    MR_CHECK_ERR(import(g, X, &(mr_import_options){.maps = &range, .n_maps = 1}, NULL),
                 MR_INVALID_ARGUMENT, "invalid output 1");
    MR_CHECK_ERR(import(g, X, &(mr_import_options){.maps = &null, .n_maps = 1}, NULL),
                 MR_INVALID_ARGUMENT, "does not refer to a node");
    MR_CHECK_ERR(import(g, X Z, &(mr_import_options){.maps = &type, .n_maps = 1}, NULL),
                 MR_INVALID_ARGUMENT, "was passed int32 from i:0");
    MR_CHECK_INT(g->nodes.n, 2);
    mr_graph_unref(g);
}

MR_TEST(import_adds_control_dependencies_where_nodes_stand_alone)
{
    mr_graph *g = new_graph();
    mr_node *a = mr_sample_source(g, "a", MR_FLOAT), *c = mr_sample_source(g, "c", MR_FLOAT);
    mr_import_map map = {"gone", 0, {a, 0}};
    MR_CHECK_OK(
        import(g,
               X Z "node { name: 'w' op: 'TestAdd' input: 'gone' input: 'gone' "
                   "attr { key: 'T' value { type: DT_FLOAT } } }" V,
               &(mr_import_options){
                   .maps = &map, .n_maps = 1, .controls = (mr_node *[]){c, c}, .n_controls = 2},
               NULL));
    CHECK_GRAPH(
        g,
        "a = TestSource()\nc = TestSource()\nx = TestSource(^c)\nz = TestAdd(x, x) {T=DT_FLOAT}\n"
        "w = TestAdd(a, a, ^c) {T=DT_FLOAT}\n");
    mr_graph_unref(g);
}

MR_TEST(import_returns_what_was_asked_for)
{
    mr_graph *g = new_graph();
    mr_node *a = mr_sample_source(g, "a", MR_FLOAT);
    mr_import_map map = {"z", 0, {a, 0}}, returns[] = {{"x", 0}, {"z", 0}};
    const char *nodes[] = {"z"};
    mr_import_results r;
    MR_CHECK_OK(import(g, X Z V,
                       &(mr_import_options){.prefix = "p",
                                            .maps = &map,
                                            .n_maps = 1,
                                            .returns = returns,
                                            .n_returns = 2,
                                            .return_nodes = nodes,
                                            .n_return_nodes = 1},
                       &r));
    MR_CHECK_STR(r.returns[0].node->name, "p/x");
    MR_CHECK(r.returns[1].node == a); /* mapped away */
    MR_CHECK_STR(r.return_nodes[0]->name, "p/z");
    mr_import_results_deinit(&r);
    mr_graph_unref(g);
    mr_import_map none = {"y", 0}, range = {"x", 2};
    const char *missing[] = {"y"};
    check_refused(X, &(mr_import_options){.returns = &none, .n_returns = 1}, MR_INVALID_ARGUMENT,
                  "Requested return tensor 'y:0' not found in graph def");
    check_refused(X, &(mr_import_options){.returns = &range, .n_returns = 1}, MR_INVALID_ARGUMENT,
                  "Invalid return output 2 of node 'x', which has 1 output(s)");
    check_refused(X, &(mr_import_options){.return_nodes = missing, .n_return_nodes = 1},
                  MR_INVALID_ARGUMENT, "Requested return node 'y' not found in graph def");
}

MR_TEST(import_checks_colocation)
{
    const char *text = "node { name: 'y' op: 'TestSource' attr { key: '_class' value { list { s: "
                       "'loc:@gone' } } } }";
    check_refused(text, NULL, MR_INVALID_ARGUMENT,
                  "Node 'y' expects to be colocated with unknown node 'gone'");
    mr_graph *g = new_graph();
    MR_CHECK_OK(
        import(g, text, &(mr_import_options){.no_validate_colocation = true, .prefix = "p"}, NULL));
    CHECK_GRAPH(g, "p/y = TestSource() {_class=[\"loc:@p/gone\"]}\n");
    mr_graph_unref(g);
}

MR_TEST(import_extends_what_is_there_when_asked)
{
    mr_graph *g = new_graph();
    const mr_import_options extends = {.extends = true};
    MR_CHECK_OK(import(g, "node { name: 'x' op: 'TestSource' }" V, NULL, NULL));
    const char *more = "node { name: 'y' op: 'TestSource' input: '^x' }" V;
    MR_CHECK_ERR(import(g, more, NULL, NULL), MR_INVALID_ARGUMENT, "Unknown input node '^x'");
    MR_CHECK_OK(import(g, more, &extends, NULL));
    MR_CHECK(mr_graph_find(g, MR_SV("y"))->ctrl[0] == mr_graph_find(g, MR_SV("x")));
    MR_CHECK_ERR(import(g, "node { name: 'z' op: 'TestSource' input: '^gone' }" V, &extends, NULL),
                 MR_INVALID_ARGUMENT, "Unknown input node");
    mr_graph_unref(g);
}

/* Nodes that were there have numbers of their own: more of them than come now. */
MR_TEST(import_that_extends_waits_for_each_old_node_once)
{
    mr_graph *g = new_graph();
    for (int i = 0; i < 200; i++) {
        char text[80];
        snprintf(text, sizeof text, "node { name: 'x%d' op: 'TestSource' }" V, i);
        MR_CHECK_OK(import(g, text, NULL, NULL));
    }
    MR_CHECK_OK(import(g, "node { name: 'y' op: 'TestSource' input: '^x7' input: '^x199' input: '^x199' input: '^x7' }" V,
                       &(mr_import_options){.extends = true}, NULL));
    const mr_node *y = mr_graph_find(g, MR_SV("y"));
    MR_CHECK_INT(y->n_ctrl, 2);
    MR_CHECK(y->ctrl[0] == mr_graph_find(g, MR_SV("x7")) && y->ctrl[1] == mr_graph_find(g, MR_SV("x199")));
    mr_graph_unref(g);
}

MR_TEST(import_of_internal_nodes_when_allowed)
{
    mr_graph *g = new_graph();
    MR_CHECK_OK(import(g, "node { name: '_x' op: '_TestInternal' }",
                       &(mr_import_options){.internal_ok = true}, NULL));
    mr_graph_unref(g);
}

/* Grappler leaves _FusedConv2D and the like in graphs: only names that begin with '_' are for the runtime alone. */
MR_TEST(import_takes_ops_that_begin_with_an_underscore)
{
    mr_graph *g = new_graph();
    MR_CHECK_OK(import(g, "node { name: 'x' op: '_TestInternal' }", NULL, NULL));
    mr_graph_unref(g);
}

MR_TEST(import_names_nodes_in_messages_as_the_graph_def_does)
{
    const mr_import_options o = {.prefix = "p"};
    check_refused(Z, &o, MR_INVALID_ARGUMENT, "Node 'z': Unknown input node 'x'");
    check_refused(X "node { name: 'z' op: 'TestAdd' input: 'x' input: 'x:1' attr { key: 'T' value { type: DT_FLOAT } } }", &o,
                  MR_INVALID_ARGUMENT, "Node 'z': Connecting to invalid output 1 of source node x which has 1 outputs.");
    check_refused("node { name: 'x' op: 'TestSource' attr { key: '_class' value { list { s: 'loc:@y' } } } }", &o,
                  MR_INVALID_ARGUMENT, "Node 'x' expects to be colocated with unknown node 'y'");
}

#define SHAPES(shapes) "attr { key: '_output_shapes' value { list { " shapes " } } }"

MR_TEST(import_checks_output_shapes)
{
    check_refused("node { name: 'x' op: 'TestSource' " SHAPES("") " }", NULL, MR_INVALID_ARGUMENT,
                  "Node 'x' has 1 outputs but the _output_shapes attribute specifies shapes for 0 outputs");
}

MR_TEST(import_learns_from_output_shapes)
{
    mr_graph *g = new_graph();
    MR_CHECK_OK(import(
        g,
        "node { name: 'x' op: 'TestSource' attr { key: '_output_shapes' value { list { shape { "
        "dim { size: 3 } dim { size: -1 } } } } } }" V,
        NULL, NULL));
    const mr_pshape *s = g->nodes.p[0]->out_shapes[0];
    MR_CHECK(s->rank == 2 && s->dims[0] == 3 && s->dims[1] == -1);
    MR_CHECK(!mr_node_attr(g->nodes.p[0], "_output_shapes")); /* it is known now */
    mr_graph_unref(g);
}

MR_TEST(import_bounds_the_outputs_a_few_bytes_ask_for)
{
    mr_str text = {0};
    mr_str_appendz(&text, X);
    for (int i = 0; i < 20; i++)
        mr_str_printf(&text,
                      "node { name: 's%d' op: 'TestSplit' input: 'x' attr { key: 'T' value { type: "
                      "DT_FLOAT } } "
                      "attr { key: 'n' value { i: 1000000 } } } ",
                      i);
    check_refused(mr_str_z(&text), NULL, MR_RESOURCE_EXHAUSTED, "outputs");
    mr_str_deinit(&text);
}

/* ---- back out ---- */

MR_TEST(export_writes_what_was_imported)
{
    mr_graph *g = new_graph();
    mr_str out = {0};
    MR_CHECK_OK(mr_graph_import_text(
        g,
        mr_sv_of(X "node { name: 's' op: 'TestSplit' input: 'x' device: '/cpu:0' "
                   "attr { key: 'n' value { i: 2 } } attr { key: 'T' value { type: DT_FLOAT } } } "
                   "node { name: 'z' op: 'TestAdd' input: 's:1' input: 's' input: '^x' "
                   "attr { key: 'T' value { type: DT_FLOAT } } "
                   "experimental_debug_info { original_node_names: 'orig' } } " V),
        NULL));
    MR_CHECK_OK(mr_graph_export_text(g, &out));
    MR_CHECK_STR(mr_str_z(&out), "node {\n  name: \"x\"\n  op: \"TestSource\"\n  attr {\n    key: "
                                 "\"T\"\n    value {\n      type: "
                                 "DT_FLOAT\n    }\n  }\n}\nnode {\n  name: \"s\"\n  op: "
                                 "\"TestSplit\"\n  input: \"x\"\n  device: "
                                 "\"/cpu:0\"\n  attr {\n    key: \"T\"\n    value {\n      type: "
                                 "DT_FLOAT\n    }\n  }\n  attr {\n    "
                                 "key: \"n\"\n    value {\n      i: 2\n    }\n  }\n}\nnode {\n  "
                                 "name: \"z\"\n  op: \"TestAdd\"\n  "
                                 "input: \"s:1\"\n  input: \"s\"\n  input: \"^x\"\n  attr {\n    "
                                 "key: \"T\"\n    value {\n      type: "
                                 "DT_FLOAT\n    }\n  }\n  experimental_debug_info {\n    "
                                 "original_node_names: \"orig\"\n  }\n}\n"
                                 "versions {\n  producer: 27\n}\n");
    mr_str_deinit(&out);
    mr_graph_unref(g);
}

MR_TEST(export_since_a_node_has_only_what_came_after)
{
    mr_graph *g = new_graph();
    mr_graph *h = mr_graph_new();
    mr_str out = {0};
    mr_sample_source(g, "a", MR_FLOAT);
    mr_sample_source(g, "b", MR_FLOAT);
    MR_CHECK_OK(mr_graph_export_since(g, 1, &out));
    MR_CHECK_OK(mr_graph_import(h, mr_str_view(&out), NULL, NULL));
    CHECK_GRAPH(h, "b = TestSource()\n");
    mr_str_deinit(&out);
    mr_graph_unref(g);
    mr_graph_unref(h);
}

MR_TEST(export_refuses_an_open_input)
{
    mr_graph *g = new_graph();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT), *z = mr_sample_add(g, "z", x, x);
    mr_str out = {0};
    MR_CHECK_OK(mr_node_set_input(z, 1, MR_NO_OUT));
    MR_CHECK_ERR(mr_graph_export(g, &out), MR_INVALID_ARGUMENT,
                 "Node 'z': input 1 is not connected");
    mr_str_deinit(&out);
    mr_graph_unref(g);
}

/* ---- speed: 10,000 nodes in well under 30 ms ---- */

MR_TEST(import_of_ten_thousand_nodes_is_quick)
{
    mr_graph *g = new_graph();
    mr_node *last = mr_sample_source(g, "x", MR_FLOAT);
    mr_str bytes = {0};
    char name[32];
    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "scope/layer_%d/add", i);
        last = mr_sample_add(g, name, last, g->nodes.p[0]);
    }
    MR_CHECK_OK(mr_graph_export(g, &bytes));
    mr_graph_unref(g);
    int64_t best = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        g = mr_graph_new();
        int64_t start = mr_thread_cpu_ns();
        MR_CHECK_OK(mr_graph_import(g, mr_str_view(&bytes), NULL, NULL));
        best = MR_MIN(best, mr_thread_cpu_ns() - start);
        mr_graph_unref(g);
    }
    fprintf(stderr, "10,000 nodes, %zu bytes: %.2f ms\n", bytes.n, (double)best / 1e6);
    MR_CHECK(best < 500 * INT64_C(1000000)); /* generous: sanitizers, a busy machine */
    mr_str_deinit(&bytes);
}
