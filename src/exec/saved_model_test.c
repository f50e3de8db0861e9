/* exec/saved_model_test.c -- SavedModels: golden ones, and what is wrong with broken ones. */
#include "exec/saved_model.h"

#include "base/file.h"
#include "base/memory.h"
#include "graph/graph_def.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

typedef struct loaded {
    mr_saved_model model;
    const mr_meta_graph *meta;
    mr_graph *graph;
    mr_session *session;
} loaded;

static const char *const serve[] = {"serve"};

static mr_status *load(const char *dir, loaded *l)
{
    mr_session_config config = {0};
    mr_ops_register();
    *l = (loaded){.graph = mr_graph_new()};
    MR_TRY(mr_saved_model_read(dir, &l->model));
    MR_TRY(mr_saved_model_find(&l->model, serve, 1, &l->meta));
    MR_TRY(mr_graph_import(l->graph, l->meta->graph_def, NULL, NULL));
    MR_TRY(mr_direct_session_new(l->graph, NULL, &config, &l->session));
    return mr_saved_model_start(l->session, l->graph, l->meta, dir, NULL);
}

static void unload(loaded *l)
{
    mr_session_free(l->session);
    mr_graph_unref(l->graph);
    mr_saved_model_deinit(&l->model);
}

static void load_golden(const char *golden, const char *name, loaded *l)
{
    char *dir = mr_printf("%s/saved_model/%s", golden, name);
    MR_CHECK_OK(load(dir, l));
    mr_free(dir);
}

static mr_out named(const loaded *l, const char *tensor)
{
    mr_tensor_name t;
    MR_CHECK(mr_tensor_name_parse(mr_sv_of(tensor), &t));
    mr_node *n = mr_graph_find(l->graph, t.node);
    MR_CHECK(n != NULL);
    return (mr_out){n, t.index};
}

/* Runs with the one input and the first output of a signature. */
static mr_tensor *ask(loaded *l, const char *key, mr_tensor *in)
{
    mr_model_signature s;
    mr_tensor *out = NULL;
    MR_CHECK_OK(mr_model_signature_find(l->graph, l->meta, key, &s));
    MR_CHECK(s.inputs.n == 1 && s.outputs.n >= 1);
    mr_run_args a = {.feeds = &s.inputs.p[0].tensor, .feed_values = &in, .n_feeds = 1, .fetches = &s.outputs.p[0].tensor,
                     .fetched = &out, .n_fetches = 1};
    MR_CHECK_OK(mr_session_run(l->session, &a, NULL, NULL));
    mr_model_signature_deinit(&s);
    mr_tensor_unref(in);
    return out;
}

/* regress: the signature that takes serialized Examples; here it gets none. */
static void check_half_plus_two(const char *golden, const char *name, const char *regress)
{
    loaded l;
    const float x[] = {0, 1, 2, 3};
    load_golden(golden, name, &l);
    mr_tensor *y = ask(&l, regress, mr_tensor_vector_str(0, NULL));
    MR_CHECK_INT(y->n, 0);
    mr_tensor_unref(y);
    mr_tensor *in = mr_tensor_of(MR_FLOAT, 2, (const int64_t[]){4, 1}, x), *out = NULL;
    mr_out feed = named(&l, "x:0"), fetch = named(&l, "y:0");
    mr_run_args a = {.feeds = &feed, .feed_values = &in, .n_feeds = 1, .fetches = &fetch, .fetched = &out, .n_fetches = 1};
    MR_CHECK_OK(mr_session_run(l.session, &a, NULL, NULL));
    for (int i = 0; i < 4; i++)
        MR_CHECK_NEAR(MR_DATA(float, out)[i], x[i] / 2 + 2, 0);
    mr_tensor_unref(in);
    mr_tensor_unref(out);
    unload(&l);
}

static void check_while_loop(const char *golden, const char *name)
{
    loaded l;
    load_golden(golden, name, &l);
    mr_tensor *y = ask(&l, "serving_default", mr_tensor_scalar_f32(10));
    MR_CHECK_NEAR(*MR_DATA(float, y), 55, 0);
    mr_tensor_unref(y);
    unload(&l);
}

/* A model of a = 1 and b = 3. */
static void check_object_graph(const char *golden, const char *name, double want)
{
    loaded l;
    load_golden(golden, name, &l);
    mr_model_signature s;
    MR_CHECK(l.meta->object_graph.n > 0);
    MR_CHECK_OK(mr_model_signature_find(l.graph, l.meta, "serving_default", &s));
    MR_CHECK(s.inputs.n == 2 && s.outputs.n == 1);
    mr_tensor *in[] = {mr_tensor_scalar_f32(1), mr_tensor_scalar_f32(3)}, *out = NULL;
    mr_out feeds[] = {s.inputs.p[0].tensor, s.inputs.p[1].tensor};
    mr_run_args a = {.feeds = feeds, .feed_values = in, .n_feeds = 2, .fetches = &s.outputs.p[0].tensor, .fetched = &out,
                     .n_fetches = 1};
    MR_CHECK_OK(mr_session_run(l.session, &a, NULL, NULL));
    MR_CHECK_NEAR(*MR_DATA(float, out), want, 1e-5);
    mr_tensor_unref(out);
    mr_tensor_unref(in[0]);
    mr_tensor_unref(in[1]);
    mr_model_signature_deinit(&s);
    unload(&l);
}

MR_TEST(saved_model_of_the_first_layout_is_served)
{
    check_half_plus_two(mr_test_golden(), "half_plus_two/00000001", "regress_x_to_y");
}
MR_TEST(saved_model_with_a_functional_loop_is_served) { check_while_loop(mr_test_golden(), "while_loop"); }
MR_TEST(saved_model_with_an_object_graph_is_served)
{
    check_object_graph(mr_test_golden(), "object_graph", (1 + 1) * (3 + 2) / 3.0);
}

MR_TEST(saved_model_of_tensorflow_half_plus_two_is_served)
{
    check_half_plus_two(mr_test_tensorflow_golden(), "half_plus_two/00000123", "regress_x_to_y2");
}
MR_TEST(saved_model_of_tensorflow_of_the_newer_layout_is_served)
{
    check_half_plus_two(mr_test_tensorflow_golden(), "half_plus_two_v2/00000123", "regress_x_to_y2");
}
MR_TEST(saved_model_of_tensorflow_with_a_functional_loop_is_served)
{
    check_while_loop(mr_test_tensorflow_golden(), "SimpleWhileLoop");
}
MR_TEST(saved_model_of_tensorflow_with_an_object_graph_is_served)
{
    check_object_graph(mr_test_tensorflow_golden(), "VarsAndArithmeticObjectGraph", (1 + 1) * (3 + 2) / 3.0 + 5);
}

/* The parsed x of an Example goes through the model; `bytes` is Example{features{feature{x: float_list[4]}}}. */
MR_TEST(saved_model_parses_examples)
{
    static const char bytes[] = "\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x12\x06\x0a\x04\0\0\x80\x40";
    loaded l;
    mr_tensor *examples = mr_tensor_vector_str(1, (const char *const[]){""});
    MR_CHECK_OK(mr_tensor_set_str(examples, 0, (mr_sv){bytes, sizeof bytes - 1}));
    load_golden(mr_test_golden(), "half_plus_two/00000001", &l);
    mr_tensor *y = ask(&l, "regress_x_to_y", examples);
    MR_CHECK_INT(y->n, 1);
    MR_CHECK_NEAR(*MR_DATA(float, y), 4, 0);
    mr_tensor_unref(y);
    unload(&l);
}

/* ---- what is wrong ---- */

static void write_file(const char *dir, const char *name, mr_sv bytes)
{
    mr_writer *w;
    char *path = mr_printf("%s/%s", dir, name);
    MR_CHECK_OK(mr_writer_open(path, &w));
    MR_CHECK_OK(mr_writer_write(w, bytes.p, bytes.n));
    MR_CHECK_OK(mr_writer_commit(w));
    mr_writer_free(w);
    mr_free(path);
}

static void check_text(const char *text, mr_code code, const char *why)
{
    loaded l;
    write_file(mr_test_dir(), "saved_model.pbtxt", mr_sv_of(text));
    MR_CHECK_ERR(load(mr_test_dir(), &l), code, why);
    unload(&l);
}

#define META(more) "meta_graphs { meta_info_def { tags: 'serve' } " more " }"

MR_TEST(saved_model_that_is_not_there)
{
    mr_saved_model m;
    MR_CHECK_ERR(mr_saved_model_read("/no/such/folder", &m), MR_NOT_FOUND, "Could not find SavedModel .pb or .pbtxt");
}

MR_TEST(saved_model_of_other_tags_tells_them)
{
    check_text("meta_graphs { meta_info_def { tags: 'train' tags: 'gpu' } } meta_graphs {}", MR_NOT_FOUND,
               "supplied tags: { serve }. The SavedModel has these sets of tags: { train, gpu }, { }");
}

MR_TEST(saved_model_of_text_is_read)
{
    loaded l;
    write_file(mr_test_dir(), "saved_model.pbtxt", MR_SV(META("graph_def { node { name: 'a' op: 'NoOp' } }")));
    MR_CHECK_OK(load(mr_test_dir(), &l));
    MR_CHECK(mr_graph_find(l.graph, MR_SV("a")) != NULL);
    unload(&l);
}

MR_TEST(saved_model_names_what_its_graph_lacks)
{
    check_text(META("collection_def { key: 'saved_model_main_op' value { node_list { value: 'init' } } }"), MR_INVALID_ARGUMENT,
               "saved_model_main_op 'init' is not in the graph");
    check_text(META("collection_def { key: 'legacy_init_op' value { node_list { value: 'a' value: 'b' } } }"),
               MR_FAILED_PRECONDITION, "Expected exactly one main op in : legacy_init_op");
    check_text(META("asset_file_def { tensor_info { name: 'x:0' } filename: 'f' }"), MR_INVALID_ARGUMENT,
               "the tensor of an asset 'x:0' is not in the graph");
    check_text(META("signature_def { key: '__saved_model_init_op' value { outputs { key: '__saved_model_init_op' "
                    "value { name: 'z' } } } }"),
               MR_INVALID_ARGUMENT, "the init op 'z' is not in the graph");
}

MR_TEST(saved_model_feeds_the_paths_of_assets)
{
    loaded l;
    const char *dir = mr_test_dir();
    /* The init op writes the path it was fed to a variable, from which it is read here. */
    write_file(dir, "saved_model.pbtxt",
               MR_SV(META("asset_file_def { tensor_info { name: 'path:0' } filename: 'words.txt' }"
                          "collection_def { key: 'saved_model_main_op' value { node_list { value: 'set' } } }"
                          "graph_def { node { name: 'path' op: 'Const' attr { key: 'dtype' value { type: DT_STRING } } "
                          "attr { key: 'value' value { tensor { dtype: DT_STRING tensor_shape {} string_val: '?' } } } }"
                          "node { name: 'v' op: 'VarHandleOp' attr { key: 'dtype' value { type: DT_STRING } } "
                          "attr { key: 'shape' value { shape {} } } }"
                          "node { name: 'set' op: 'AssignVariableOp' input: 'v' input: 'path' "
                          "attr { key: 'dtype' value { type: DT_STRING } } }"
                          "node { name: 'get' op: 'ReadVariableOp' input: 'v' attr { key: 'dtype' value { type: DT_STRING } } } }")));
    MR_CHECK_OK(load(dir, &l));
    mr_tensor *out = NULL;
    mr_out get = named(&l, "get:0");
    mr_run_args a = {.fetches = &get, .fetched = &out, .n_fetches = 1};
    MR_CHECK_OK(mr_session_run(l.session, &a, NULL, NULL));
    char *path = mr_printf("%s/assets/words.txt", dir);
    MR_CHECK(mr_sv_is(mr_tensor_str_at(out, 0), path));
    mr_free(path);
    mr_tensor_unref(out);
    unload(&l);
}
