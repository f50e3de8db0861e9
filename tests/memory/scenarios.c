/* tests/memory/scenarios.c -- what people do with graphs, sessions and files, as scenarios. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/regex.h"
#include "dist/cluster.h"
#include "exec/saved_model.h"
#include "graph/grad.h"
#include "graph/graph_def.h"
#include "graph/scope.h"
#include "ops/table.h"
#include "proto/config.pb-c.h"
#include "proto/graph.pb-c.h"
#include "store/bundle.h"
#include "store/events.h"
#include "store/record.h"
#include "tests/memory/memory.h"
#include "wire/json.h"
#include "wire/message.h"
#include "wire/snappy.h"
#include "wire/text_format.h"

/* ---- graphs to work on: written here, or made of text ---- */

#define F(name) "attr { key: '" name "' value { type: DT_FLOAT } } "
#define NODE(name, op, inputs, attrs) "node { name: '" name "' op: '" op "' " inputs attrs "} "
#define IN(x) "input: '" x "' "
#define CONST(name, shape, values) \
    NODE(name, "Const", "", F("dtype") "attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { " shape " } " values " } } } ")

static const char network[] =
    NODE("x", "Placeholder", "", F("dtype") "attr { key: 'shape' value { shape { dim { size: -1 } dim { size: 3 } } } } ")
    CONST("w", "dim { size: 3 } dim { size: 2 }", "float_val: [1, 2, 3, 4, 5, 6]")
    CONST("b", "dim { size: 2 }", "float_val: [1, -100]")
    NODE("product", "MatMul", IN("x") IN("w"), F("T"))
    NODE("sum", "BiasAdd", IN("product") IN("b"), F("T"))
    NODE("y", "Relu", IN("sum"), F("T")) "versions { producer: 1087 }";

static const char loop[] =
    CONST("one", "", "float_val: 1") CONST("limit", "", "float_val: 5")
    NODE("enter", "Enter", IN("one"), F("T") "attr { key: 'frame_name' value { s: 'f' } } ")
    NODE("enter_limit", "Enter", IN("limit"), F("T") "attr { key: 'frame_name' value { s: 'f' } } attr { key: 'is_constant' value { b: true } } ")
    NODE("merge", "Merge", IN("enter") IN("next"), F("T") "attr { key: 'N' value { i: 2 } } ")
    NODE("less", "Less", IN("merge") IN("enter_limit"), F("T")) NODE("cond", "LoopCond", IN("less"), "")
    NODE("switch", "Switch", IN("merge") IN("cond"), F("T")) NODE("add", "AddV2", IN("switch:1") IN("switch:1"), F("T"))
    NODE("next", "NextIteration", IN("add"), F("T")) NODE("y", "Exit", IN("switch"), F("T")) "versions { producer: 1087 }";

static const char calls[] =
    "library { function { signature { name: 'Twice' input_arg { name: 'x' type: DT_FLOAT } output_arg { name: 'y' type: DT_FLOAT } } "
    "node_def { name: 'add' op: 'AddV2' input: 'x' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } } "
    "ret { key: 'y' value: 'add:z:0' } } } "
    CONST("x", "", "float_val: 3")
    NODE("y", "PartitionedCall", IN("x"),
         "attr { key: 'Tin' value { list { type: DT_FLOAT } } } attr { key: 'Tout' value { list { type: DT_FLOAT } } } "
         "attr { key: 'f' value { func { name: 'Twice' } } } ") "versions { producer: 1087 }";

static const char variables[] =
    CONST("one", "dim { size: 4 }", "float_val: 1")
    NODE("v", "VarHandleOp", "", F("dtype") "attr { key: 'shape' value { shape { dim { size: 4 } } } } ")
    NODE("set", "AssignVariableOp", IN("v") IN("one"), F("dtype")) NODE("more", "AssignAddVariableOp", IN("v") IN("one") IN("^set"), F("dtype"))
    NODE("y", "ReadVariableOp", IN("v") IN("^more"), F("dtype")) "versions { producer: 1087 }";

static const char strings[] =
    "node { name: 'x' op: 'Const' attr { key: 'dtype' value { type: DT_STRING } } attr { key: 'value' value { tensor { dtype: DT_STRING "
    "tensor_shape { dim { size: 2 } } string_val: 'a string that is longer than what fits inside of one' string_val: 'b' } } } } "
    "node { name: 'y' op: 'StringJoin' input: 'x' input: 'x' attr { key: 'N' value { i: 2 } } } versions { producer: 1087 }";

#define STRINGS_CONST(name, shape, values)                                                                                 \
    "node { name: '" name "' op: 'Const' attr { key: 'dtype' value { type: DT_STRING } } attr { key: 'value' value { "      \
    "tensor { dtype: DT_STRING tensor_shape { " shape " } " values " } } } } "
#define INTS_CONST(name, shape, values)                                                                                    \
    "node { name: '" name "' op: 'Const' attr { key: 'dtype' value { type: DT_INT32 } } attr { key: 'value' value { "       \
    "tensor { dtype: DT_INT32 tensor_shape { " shape " } " values " } } } } "
#define STRINGS(key) "attr { key: '" key "' value { type: DT_STRING } } "

static const char string_arrays[] =
    STRINGS_CONST("x", "dim { size: 2 } dim { size: 1 }",
                  "string_val: 'a string that is longer than what fits inside of one' string_val: 'another that is longer than what fits'")
    INTS_CONST("two", "", "int_val: 2") INTS_CONST("rows", "dim { size: 2 }", "int_val: [1, 0]")
    NODE("array", "TensorArrayV3", IN("two"), STRINGS("dtype") "attr { key: 'clear_after_read' value { b: false } } ")
    NODE("write", "TensorArrayScatterV3", IN("array") IN("rows") IN("x") IN("array:1"), STRINGS("T"))
    NODE("stack", "TensorArrayGatherV3", IN("array") IN("rows") IN("write"), STRINGS("dtype"))
    NODE("join", "TensorArrayConcatV3", IN("array") IN("write"), STRINGS("dtype"))
    NODE("flat", "Squeeze", IN("stack"), STRINGS("T"))
    NODE("y", "StringJoin", IN("join") IN("flat"), "attr { key: 'N' value { i: 2 } } ") "versions { producer: 1087 }";

static mr_status *bytes_of(const char *text, mr_str *out)
{
    ProtobufCMessage *m;
    MR_TRY(mr_text_parse(&tensorflow__graph_def__descriptor, mr_sv_of(text), &m));
    mr_status *st = mr_message_pack(m, out);
    mr_message_free(m);
    return st;
}

/* ---- importing and exporting ---- */

static mr_status *import_bytes(void *arg)
{
    mr_str bytes = {0};
    mr_graph *g = mr_graph_new();
    mr_status *st = bytes_of(arg, &bytes);
    memory_begin();
    if (!st)
        st = mr_graph_import(g, mr_str_view(&bytes), NULL, NULL);
    memory_end();
    mr_graph_unref(g);
    mr_str_deinit(&bytes);
    return st;
}

static mr_status *import_text(void *arg)
{
    mr_graph *g = mr_graph_new();
    memory_begin();
    mr_status *st = mr_graph_import_text(g, mr_sv_of(arg), NULL);
    memory_end();
    mr_graph_unref(g);
    return st;
}

static mr_status *export_graph(void *arg)
{
    mr_str out = {0};
    mr_graph *g = mr_graph_new();
    mr_status *st = mr_graph_import_text(g, mr_sv_of(arg), NULL);
    memory_begin();
    if (!st)
        st = mr_graph_export(g, &out);
    memory_end();
    mr_graph_unref(g);
    mr_str_deinit(&out);
    return st;
}

static mr_status *export_text(void *arg)
{
    mr_str out = {0};
    mr_graph *g = mr_graph_new();
    mr_status *st = mr_graph_import_text(g, mr_sv_of(arg), NULL);
    memory_begin();
    if (!st)
        st = mr_graph_export_text(g, &out);
    memory_end();
    mr_graph_unref(g);
    mr_str_deinit(&out);
    return st;
}

/* ---- sessions ---- */

static const mr_session_config in_caller = {.inter_threads = -1};

static mr_status *run_y(mr_graph *g, mr_session *s)
{
    mr_node *x = mr_graph_find(g, MR_SV("x")), *y = mr_graph_find(g, MR_SV("y"));
    bool fed = x && mr_node_is(x, "Placeholder");
    mr_tensor *in = mr_tensor_of(MR_FLOAT, 2, (const int64_t[]){1, 3}, (const float[]){1, 2, 3}), *out = NULL;
    mr_out feed = {x, 0}, fetch = {y, 0};
    mr_run_args a = {.feeds = &feed, .feed_values = &in, .n_feeds = fed, .fetches = &fetch, .fetched = &out, .n_fetches = 1};
    mr_status *st = mr_session_run(s, &a, NULL, NULL);
    mr_tensor_unref(in);
    mr_tensor_unref(out);
    return st;
}

static mr_status *first_run(void *arg)
{
    mr_graph *g = mr_graph_new();
    mr_session *s = NULL;
    mr_status *st = mr_graph_import_text(g, mr_sv_of(arg), NULL);
    memory_begin();
    if (!st)
        st = mr_direct_session_new(g, NULL, &in_caller, &s);
    if (!st)
        st = run_y(g, s);
    memory_end();
    mr_session_free(s);
    mr_graph_unref(g);
    return st;
}

static mr_status *warm_run(void *arg)
{
    mr_graph *g = mr_graph_new();
    mr_session *s = NULL;
    mr_status *st = mr_graph_import_text(g, mr_sv_of(arg), NULL);
    if (!st)
        st = mr_direct_session_new(g, NULL, &in_caller, &s);
    if (!st)
        st = run_y(g, s);
    memory_begin();
    if (!st)
        st = run_y(g, s);
    memory_end();
    mr_session_free(s);
    mr_graph_unref(g);
    return st;
}

static mr_status *traced_run(void *arg)
{
    mr_graph *g = mr_graph_new();
    mr_session *s = NULL;
    mr_str metadata = {0};
    mr_tensor *out = NULL;
    mr_run_options o = {.trace_level = MR_FULL_TRACE, .output_partition_graphs = true};
    mr_status *st = mr_graph_import_text(g, mr_sv_of(arg), NULL);
    if (!st)
        st = mr_direct_session_new(g, NULL, &in_caller, &s);
    mr_out y = {mr_graph_find(g, MR_SV("y")), 0};
    mr_run_args a = {.fetches = &y, .fetched = &out, .n_fetches = 1};
    memory_begin();
    if (!st)
        st = mr_session_run(s, &a, &o, &metadata);
    memory_end();
    mr_tensor_unref(out);
    mr_str_deinit(&metadata);
    mr_session_free(s);
    mr_graph_unref(g);
    return st;
}

static mr_status *two_devices(void *arg)
{
    mr_session_config config = {.inter_threads = -1, .n_cpus = 2};
    mr_graph *g = mr_graph_new();
    mr_session *s = NULL;
    mr_status *st = mr_graph_import_text(g, mr_sv_of(arg), NULL);
    for (int i = 0; i < g->nodes.n; i++)
        if (mr_node_is(g->nodes.p[i], "Relu"))
            mr_node_set_device(g->nodes.p[i], "/cpu:1");
    memory_begin();
    if (!st)
        st = mr_direct_session_new(g, NULL, &config, &s);
    if (!st)
        st = run_y(g, s);
    memory_end();
    mr_session_free(s);
    mr_graph_unref(g);
    return st;
}

static mr_status *gradients(void *arg)
{
    mr_graph *g = mr_graph_new();
    mr_gradient dx;
    mr_status *st = mr_graph_import_text(g, mr_sv_of(arg), NULL);
    mr_node *from = mr_graph_find(g, MR_SV("y")), *to = mr_graph_find(g, arg == loop ? MR_SV("one") : arg == calls ? MR_SV("x") : MR_SV("w"));
    memory_begin();
    if (!st) {
        mr_out y = {from, 0}, x = {to, 0};
        st = mr_graph_gradients(g, &y, 1, &x, 1, NULL, &dx);
    }
    memory_end();
    mr_graph_unref(g);
    return st;
}

/* ---- messages ---- */

static mr_status *parse_text(void *arg)
{
    ProtobufCMessage *m = NULL;
    memory_begin();
    mr_status *st = mr_text_parse(&tensorflow__graph_def__descriptor, mr_sv_of(arg), &m);
    memory_end();
    if (!st)
        mr_message_free(m);
    return st;
}

static mr_status *print_text(void *arg)
{
    ProtobufCMessage *m;
    mr_str out = {0};
    MR_TRY(mr_text_parse(&tensorflow__graph_def__descriptor, mr_sv_of(arg), &m));
    memory_begin();
    mr_status *st = mr_text_print(m, &out);
    memory_end();
    mr_message_free(m);
    mr_str_deinit(&out);
    return st;
}

static mr_status *unpack_message(void *arg)
{
    mr_str bytes = {0};
    ProtobufCMessage *m = NULL;
    mr_status *st = bytes_of(arg, &bytes);
    memory_begin();
    if (!st)
        st = mr_message_unpack(&tensorflow__graph_def__descriptor, mr_str_view(&bytes), "GraphDef", &m);
    memory_end();
    if (!st)
        mr_message_free(m);
    mr_str_deinit(&bytes);
    return st;
}

static mr_status *read_config(void *arg)
{
    Tensorflow__ConfigProto c = TENSORFLOW__CONFIG_PROTO__INIT;
    mr_session_config out;
    mr_str bytes = {0};
    (void)arg;
    c.inter_op_parallelism_threads = 2;
    mr_status *st = mr_message_pack(&c.base, &bytes);
    memory_begin();
    if (!st)
        st = mr_session_config_parse(mr_str_view(&bytes), &out);
    memory_end();
    mr_str_deinit(&bytes);
    return st;
}

static mr_status *read_cluster(void *arg)
{
    mr_server_def d;
    memory_begin();
    mr_status *st = mr_server_def_from_json(mr_sv_of(arg), &d);
    memory_end();
    if (!st)
        mr_server_def_deinit(&d);
    return st;
}

/* "a" and then copies of it: 3 tags of 64 bytes each. */
static mr_status *uncompress(void *arg)
{
    static const char packed[] = {(char)0xC1, 0x01, 0x00, 'a', (char)0xFE, 0x01, 0x00, (char)0xFE, 0x01, 0x00, (char)0xFE, 0x01, 0x00};
    mr_str out = {0};
    (void)arg;
    memory_begin();
    mr_status *st = mr_snappy_uncompress((mr_sv){packed, sizeof packed}, &out);
    memory_end();
    mr_str_deinit(&out);
    return st;
}

/* ---- tensors ---- */

static mr_tensor *tensor_for(const void *arg)
{
    static const char *const words[] = {"one", "two words that do not fit inside of a string's header", "three"};
    static const float floats[600];
    return strcmp(arg, "strings") == 0 ? mr_tensor_vector_str(3, words) : mr_tensor_of(MR_FLOAT, 2, (const int64_t[]){20, 30}, floats);
}

static mr_status *tensor_there_and_back(void *arg)
{
    mr_tensor *t = tensor_for(arg), *back = NULL;
    mr_str bytes = {0};
    memory_begin();
    mr_status *st = mr_tensor_encode(t, &bytes);
    if (!st)
        st = mr_tensor_decode(NULL, mr_str_view(&bytes), &back);
    memory_end();
    mr_tensor_unref(t);
    mr_tensor_unref(back);
    mr_str_deinit(&bytes);
    return st;
}

static mr_status *tensor_copies(void *arg)
{
    mr_tensor *t = tensor_for(arg), *copy = NULL, *rows = NULL, *view = NULL;
    memory_begin();
    mr_status *st = mr_tensor_copy(NULL, t, &copy);
    if (!st)
        st = mr_tensor_rows(t, 1, 2, &rows);
    if (!st)
        st = mr_tensor_view(t, (mr_dtype)t->dtype, 1, (const int64_t[]){t->n}, &view);
    memory_end();
    mr_tensor_unref(t);
    mr_tensor_unref(copy);
    mr_tensor_unref(rows);
    mr_tensor_unref(view);
    return st;
}

/* ---- files ---- */

static char *in_folder(const char *name) { return mr_printf("memory-%d/%s", (int)getpid(), name); }

static mr_status *write_bundle(const char *prefix, const mr_tensor *t)
{
    mr_bundle_writer *w;
    MR_TRY(mr_bundle_writer_new(prefix, &w));
    mr_status *st = mr_bundle_add(w, MR_SV("a"), t);
    if (!st)
        st = mr_bundle_add(w, MR_SV("b"), t);
    if (!st)
        st = mr_bundle_finish(w);
    mr_bundle_writer_free(w);
    return st;
}

static mr_status *save_checkpoint(void *arg)
{
    mr_tensor *t = tensor_for(arg);
    char *prefix = in_folder("saved");
    memory_begin();
    mr_status *st = write_bundle(prefix, t);
    memory_end();
    mr_free(prefix);
    mr_tensor_unref(t);
    return st;
}

static mr_status *read_checkpoint(void *arg)
{
    mr_tensor *t = tensor_for(arg), *back = NULL;
    char *prefix = in_folder("read");
    mr_bundle *b = NULL;
    mr_status *st = write_bundle(prefix, t);
    memory_begin();
    if (!st)
        st = mr_bundle_open(prefix, &b);
    if (!st)
        st = mr_bundle_read(b, MR_SV("b"), NULL, &back);
    memory_end();
    if (b)
        mr_bundle_close(b);
    mr_tensor_unref(back);
    mr_tensor_unref(t);
    mr_free(prefix);
    return st;
}

static mr_status *write_records(const char *path, mr_compression c)
{
    static char bytes[3000];
    mr_writer *file = NULL;
    mr_record_writer *w = NULL;
    mr_status *st = NULL;
    MR_GO(mr_writer_open(path, &file));
    MR_GO(mr_record_writer_new(file, c, &w));
    for (int i = 0; i < 3; i++)
        MR_GO(mr_record_write(w, (mr_sv){bytes, sizeof bytes}));
    MR_GO(mr_record_finish(w));
    MR_GO(mr_writer_commit(file));
out:
    mr_record_writer_free(w);
    mr_writer_free(file);
    return st;
}

static mr_compression compression_of(const char *name)
{
    mr_compression c = MR_UNCOMPRESSED;
    mr_compression_parse(mr_sv_of(name), &c);
    return c;
}

static mr_status *save_records(void *arg)
{
    char *path = in_folder("records");
    memory_begin();
    mr_status *st = write_records(path, compression_of(arg));
    memory_end();
    mr_free(path);
    return st;
}

static mr_status *read_records(void *arg)
{
    char *path = in_folder("records_read");
    mr_record_reader *r = NULL;
    mr_str record = {0};
    mr_status *st = write_records(path, compression_of(arg));
    memory_begin();
    if (!st)
        st = mr_record_reader_open(path, compression_of(arg), 0, &r);
    for (int i = 0; i < 3 && !st; i++)
        st = mr_record_read(r, &record);
    memory_end();
    mr_record_reader_close(r);
    mr_str_deinit(&record);
    mr_free(path);
    return st;
}

static const char model[] =
    "saved_model_schema_version: 1 meta_graphs { meta_info_def { tags: 'serve' } graph_def { node { name: 'x' op: 'Placeholder' "
    "attr { key: 'dtype' value { type: DT_FLOAT } } } node { name: 'y' op: 'Neg' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } } "
    "node { name: 'init' op: 'NoOp' } } collection_def { key: 'saved_model_main_op' value { node_list { value: 'init' } } } "
    "signature_def { key: 'serving_default' value { inputs { key: 'x' value { name: 'x:0' } } outputs { key: 'y' value { name: 'y:0' } } } } }";

static void write_model(void *arg)
{
    char *path = in_folder("saved_model.pbtxt");
    mr_writer *w;
    (void)arg;
    mr_status *st = mr_writer_open(path, &w);
    if (!st)
        st = mr_writer_write(w, model, strlen(model));
    if (!st)
        st = mr_writer_commit(w);
    mr_writer_free(w);
    mr_status_free(st);
    mr_free(path);
}

static mr_status *load_model(void *arg)
{
    static const char *const tags[] = {"serve"};
    char *dir = in_folder("");
    mr_saved_model m = {0};
    const mr_meta_graph *meta;
    mr_graph *g = mr_graph_new();
    mr_session *s = NULL;
    mr_model_signature signature = {0};
    mr_status *st = NULL;
    (void)arg;
    memory_begin();
    MR_GO(mr_saved_model_read(dir, &m));
    MR_GO(mr_saved_model_find(&m, tags, 1, &meta));
    MR_GO(mr_graph_import(g, meta->graph_def, NULL, NULL));
    MR_GO(mr_direct_session_new(g, NULL, &in_caller, &s));
    MR_GO(mr_saved_model_start(s, g, meta, dir, NULL));
    MR_GO(mr_model_signature_find(g, meta, "serving_default", &signature));
out:
    memory_end();
    mr_model_signature_deinit(&signature);
    mr_session_free(s);
    mr_graph_unref(g);
    mr_saved_model_deinit(&m);
    mr_free(dir);
    return st;
}

/* ---- the table ---- */

static void make_folder(void *arg)
{
    char *dir = in_folder("");
    (void)arg;
    mr_status_free(mr_dir_make(dir));
    mr_free(dir);
}

static const char tf_config[] = "{\"cluster\": {\"ps\": [\"a:1\"], \"worker\": [\"b:1\", \"b:2\"]}, \"task\": {\"type\": \"worker\", \"index\": 1}}";

#define TEXT(t) (void *)(uintptr_t)(t)
#define FOR_GRAPHS(S)                                                                                                      \
    S(network, "a network") S(loop, "a loop") S(calls, "a call") S(variables, "variables") S(strings, "strings")     \
        S(string_arrays, "arrays of strings")
#define IMPORT(g, name) {"import " name, TEXT(g), NULL, import_bytes}, {"import " name " as text", TEXT(g), NULL, import_text},
#define EXPORT(g, name) {"export " name, TEXT(g), NULL, export_graph}, {"export " name " as text", TEXT(g), NULL, export_text},
#define RUN(g, name) {"first run of " name, TEXT(g), NULL, first_run}, {"another run of " name, TEXT(g), NULL, warm_run},
#define MESSAGES(g, name)                                                                                                  \
    {"parse text of " name, TEXT(g), NULL, parse_text}, {"print text of " name, TEXT(g), NULL, print_text},                \
        {"unpack " name, TEXT(g), NULL, unpack_message},

static const memory_scenario all[] = {
    FOR_GRAPHS(IMPORT) FOR_GRAPHS(EXPORT) FOR_GRAPHS(RUN) FOR_GRAPHS(MESSAGES)
    {"traced run of a loop", TEXT(loop), NULL, traced_run},
    {"traced run of variables", TEXT(variables), NULL, traced_run},
    {"a network over two devices", TEXT(network), NULL, two_devices},
    {"gradients of a network", TEXT(network), NULL, gradients},
    {"gradients of a loop", TEXT(loop), NULL, gradients},
    {"gradients of a call", TEXT(calls), NULL, gradients},
    {"read a ConfigProto", NULL, NULL, read_config},
    {"read TF_CONFIG", TEXT(tf_config), NULL, read_cluster},
    {"uncompress", NULL, NULL, uncompress},
    {"a TensorProto of floats", TEXT("floats"), NULL, tensor_there_and_back},
    {"a TensorProto of strings", TEXT("strings"), NULL, tensor_there_and_back},
    {"copies and views of floats", TEXT("floats"), NULL, tensor_copies},
    {"copies and views of strings", TEXT("strings"), NULL, tensor_copies},
    {"save floats", TEXT("floats"), make_folder, save_checkpoint},
    {"save strings", TEXT("strings"), make_folder, save_checkpoint},
    {"restore floats", TEXT("floats"), make_folder, read_checkpoint},
    {"restore strings", TEXT("strings"), make_folder, read_checkpoint},
    {"write records", TEXT(""), make_folder, save_records},
    {"write records by zlib", TEXT("ZLIB"), make_folder, save_records},
    {"write records by gzip", TEXT("GZIP"), make_folder, save_records},
    {"read records", TEXT(""), make_folder, read_records},
    {"read records by zlib", TEXT("ZLIB"), make_folder, read_records},
    {"read records by gzip", TEXT("GZIP"), make_folder, read_records},
    {"load a SavedModel", NULL, write_model, load_model},
};

const memory_scenario *memory_scenarios(int *n)
{
    mr_ops_register();
    *n = MR_COUNT(all);
    return all;
}
