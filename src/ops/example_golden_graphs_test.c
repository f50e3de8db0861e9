/* ops/example_golden_graphs_test.c -- golden graphs, read and written back.
 *
 * The comparison parses both sides with the generic message reader, not with our importer, and ignores attrs that
 * only we wrote because they have their default value. */
#include <stdio.h>

#include "base/file.h"
#include "base/memory.h"
#include "graph/graph_def.h"
#include "ops/table.h"
#include "proto/graph.pb-c.h"
#include "proto/saved_model.pb-c.h"
#include "tests/harness/test.h"
#include "wire/message.h"
#include "wire/text_format.h"

typedef Tensorflow__GraphDef graph_def;
typedef Tensorflow__NodeDef node_def;
typedef Tensorflow__NodeDef__AttrEntry attr_entry;

static graph_def *unpack(mr_sv bytes)
{
    ProtobufCMessage *m;
    MR_CHECK_OK(mr_message_unpack(&tensorflow__graph_def__descriptor, bytes, "GraphDef", &m));
    return (graph_def *)m;
}

static mr_attr value_of(mr_arena *a, const attr_entry *e)
{
    mr_str bytes = {0};
    mr_attr v = {0};
    if (e->value)
        MR_CHECK_OK(mr_message_pack(&e->value->base, &bytes));
    MR_CHECK_OK(mr_attr_decode(a, mr_str_view(&bytes), &v));
    mr_str_deinit(&bytes);
    return v;
}

static const attr_entry *find_attr(const node_def *n, const char *key)
{
    for (size_t i = 0; i < n->n_attr; i++)
        if (strcmp(n->attr[i]->key, key) == 0)
            return n->attr[i];
    return NULL;
}

static bool is_default(const mr_op_def *d, const char *key, const mr_attr *v)
{
    const mr_attr_def *a = d ? mr_op_def_attr(d, key) : NULL;
    return a && a->has_default && mr_attr_eq(&a->deflt, v);
}

/* An import checks _output_shapes and removes it, as TensorFlow's does: shapes are inferred from then on. */
static void compare_attrs(const char *file, const node_def *was, const node_def *is)
{
    mr_arena a;
    const mr_op_def *d = mr_op_find(mr_sv_of(was->op));
    mr_arena_init(&a, 0);
    for (size_t i = 0; i < was->n_attr; i++) {
        if (strcmp(was->attr[i]->key, "_output_shapes") == 0)
            continue;
        const attr_entry *e = find_attr(is, was->attr[i]->key);
        mr_attr x = value_of(&a, was->attr[i]), y = e ? value_of(&a, e) : (mr_attr){0};
        if (!e || !mr_attr_eq(&x, &y))
            mr_test_fail(__FILE__, __LINE__, "%s: attr %s of node %s changed", file,
                         was->attr[i]->key, was->name);
    }
    for (size_t i = 0; i < is->n_attr; i++) {
        mr_attr y = value_of(&a, is->attr[i]);
        if (!find_attr(was, is->attr[i]->key) && !is_default(d, is->attr[i]->key, &y))
            mr_test_fail(__FILE__, __LINE__, "%s: node %s has a new attr %s", file, is->name,
                         is->attr[i]->key);
    }
    mr_arena_deinit(&a);
}

/* "x:0" and "x" are the same input. */
static bool same_input(const char *a, const char *b)
{
    mr_tensor_name x, y;
    return mr_tensor_name_parse(mr_sv_of(a), &x) && mr_tensor_name_parse(mr_sv_of(b), &y) &&
           mr_sv_eq(x.node, y.node) && x.index == y.index;
}

static void compare_node(const char *file, const node_def *was, const node_def *is)
{
    MR_CHECK_STR(is->op, was->op);
    MR_CHECK_STR(is->device, was->device);
    MR_CHECK_INT(is->n_input, was->n_input);
    for (size_t i = 0; i < was->n_input; i++)
        MR_CHECK(same_input(is->input[i], was->input[i]));
    compare_attrs(file, was, is);
}

/* The library is compared as bytes, with all maps sorted. */
static void compare_library(const graph_def *was, const graph_def *is)
{
    mr_str x = {0}, y = {0};
    MR_CHECK_INT(was->library && was->library->n_function, is->library != NULL);
    if (!is->library)
        return;
    MR_CHECK_OK(mr_message_sort_maps(&was->library->base));
    MR_CHECK_OK(mr_message_sort_maps(&is->library->base));
    MR_CHECK_OK(mr_text_print(&was->library->base, &x));
    MR_CHECK_OK(mr_text_print(&is->library->base, &y));
    MR_CHECK_STR(mr_str_z(&y), mr_str_z(&x));
    mr_str_deinit(&x);
    mr_str_deinit(&y);
}

static void compare(const char *file, mr_sv was_bytes, mr_sv is_bytes)
{
    graph_def *was = unpack(was_bytes), *is = unpack(is_bytes);
    mr_map by_name = {0};
    MR_CHECK_INT(is->n_node, was->n_node);
    for (size_t i = 0; i < is->n_node; i++)
        mr_map_putz(&by_name, is->node[i]->name, is->node[i]);
    for (size_t i = 0; i < was->n_node; i++) {
        const node_def *n = mr_map_getz(&by_name, was->node[i]->name);
        MR_CHECK(n);
        compare_node(file, was->node[i], n);
    }
    compare_library(was, is);
    mr_map_deinit(&by_name);
    mr_message_free(&was->base);
    mr_message_free(&is->base);
}

/* Instantiates the bodies of all functions without free attrs. */
static void check_functions(const char *file, const mr_graph *g)
{
    for (int i = 0; i < mr_library_count(g->library); i++) {
        const mr_function *f = mr_library_at(g->library, i);
        mr_body b;
        if (f->def.n_attrs)
            continue;
        mr_status *st = mr_function_instantiate(g->library, f, NULL, 0, &b);
        if (st)
            mr_test_fail(__FILE__, __LINE__, "%s: %s: %s", file, f->def.name, mr_status_message(st));
        mr_body_deinit(&b);
    }
}

static int n_checked;

static void check_graph(const char *file, mr_sv bytes)
{
    mr_graph *g = mr_graph_new();
    mr_str out = {0};
    /* Freezing a graph leaves colocation constraints with nodes that no longer exist. */
    mr_status *st = mr_graph_import(g, bytes, &(mr_import_options){.no_validate_colocation = true}, NULL);
    if (st)
        mr_test_fail(__FILE__, __LINE__, "%s: %s", file, mr_status_message(st));
    MR_CHECK_OK(mr_graph_export(g, &out));
    compare(file, bytes, mr_str_view(&out));
    check_functions(file, g);
    mr_str_deinit(&out);
    mr_graph_unref(g);
    n_checked++;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

static const char *golden_dir;

/* A tool converted everything but the placeholder of the two fp16 graphs to half: TensorFlow refuses them, and so
 * do we. With a half placeholder they are valid graphs. */
static void repair(const char *name, mr_str *bytes)
{
    graph_def *d = unpack(mr_str_view(bytes));
    mr_graph *g = mr_graph_new();
    MR_CHECK_ERR(mr_graph_import(g, mr_str_view(bytes), NULL, NULL), MR_INVALID_ARGUMENT,
                 "incompatible with expected half");
    MR_CHECK_STR(d->node[0]->op, "Placeholder");
    attr_entry *dtype = (attr_entry *)(uintptr_t)find_attr(d->node[0], "dtype");
    MR_CHECK(dtype && strncmp(name, "fp16_", 5) == 0);
    dtype->value->type = TENSORFLOW__DATA_TYPE__DT_HALF;
    mr_str_clear(bytes);
    MR_CHECK_OK(mr_message_pack(&d->base, bytes));
    mr_message_free(&d->base);
    mr_graph_unref(g);
}

/* .pb are GraphDefs, .pbtxt the same as text. */
static mr_status *check_file(void *dir, const char *name)
{
    mr_str path = {0}, bytes = {0};
    bool is_text = ends_with(name, ".pbtxt");
    if (!is_text && !ends_with(name, ".pb"))
        return NULL;
    mr_str_printf(&path, "%s/%s/%s", golden_dir, (const char *)dir, name);
    MR_CHECK_OK(mr_file_read_all(mr_str_z(&path), &bytes));
    if (is_text) {
        ProtobufCMessage *m;
        MR_CHECK_OK(mr_text_parse(&tensorflow__graph_def__descriptor, mr_str_view(&bytes), &m));
        mr_str_clear(&bytes);
        MR_CHECK_OK(mr_message_pack(m, &bytes));
        mr_message_free(m);
    }
    if (strncmp(name, "fp16_", 5) == 0)
        repair(name, &bytes);
    check_graph(name, mr_str_view(&bytes));
    mr_str_deinit(&path);
    mr_str_deinit(&bytes);
    return NULL;
}

static void check_dir(const char *golden, const char *dir)
{
    mr_ops_register();
    golden_dir = golden;
    char *path = mr_printf("%s/%s", golden, dir);
    MR_CHECK_OK(mr_dir_each(path, check_file, (void *)(uintptr_t)dir));
    MR_CHECK(n_checked > 0);
    mr_free(path);
}

MR_TEST(golden_graphs_are_written_back_as_they_were) { check_dir(mr_test_golden(), "graphs"); }
MR_TEST(golden_text_graphs_are_written_back_as_they_were) { check_dir(mr_test_golden(), "pbtxt"); }
MR_TEST(golden_trained_graph_is_written_back_as_it_was) { check_dir(mr_test_golden(), "checkpoint/trained"); }
MR_TEST(golden_graphs_of_tensorflow_are_written_back_as_they_were) { check_dir(mr_test_tensorflow_golden(), "graphs"); }
MR_TEST(golden_text_graphs_of_tensorflow_are_written_back_as_they_were)
{
    check_dir(mr_test_tensorflow_golden(), "pbtxt");
}
MR_TEST(golden_trained_graph_of_tensorflow_is_written_back_as_it_was)
{
    check_dir(mr_test_tensorflow_golden(), "checkpoint/tensorflex_iris");
}

static void check_saved_model(const char *name)
{
    mr_str path = {0}, bytes = {0}, graph = {0};
    ProtobufCMessage *m;
    mr_str_printf(&path, "%s/saved_model/%s/saved_model.pb", golden_dir, name);
    MR_CHECK_OK(mr_file_read_all(mr_str_z(&path), &bytes));
    MR_CHECK_OK(mr_message_unpack(&tensorflow__saved_model__descriptor, mr_str_view(&bytes),
                                  "SavedModel", &m));
    const Tensorflow__SavedModel *s = (const Tensorflow__SavedModel *)m;
    for (size_t i = 0; i < s->n_meta_graphs; i++) {
        mr_str_clear(&graph);
        MR_CHECK_OK(mr_message_pack(&s->meta_graphs[i]->graph_def->base, &graph));
        check_graph(name, mr_str_view(&graph));
    }
    mr_message_free(m);
    mr_str_deinit(&path);
    mr_str_deinit(&bytes);
    mr_str_deinit(&graph);
}

MR_TEST(golden_saved_models_are_written_back_as_they_were)
{
    mr_ops_register();
    golden_dir = mr_test_golden();
    check_saved_model("half_plus_two/00000001");
    check_saved_model("while_loop");
    check_saved_model("object_graph");
}

MR_TEST(golden_saved_models_of_tensorflow_are_written_back_as_they_were)
{
    mr_ops_register();
    golden_dir = mr_test_tensorflow_golden();
    check_saved_model("SimpleWhileLoop");
    check_saved_model("VarsAndArithmeticObjectGraph");
    check_saved_model("half_plus_two/00000123");
    check_saved_model("half_plus_two_v2/00000123");
}
