/* tests/fuzz/saved_model.c -- mutated SavedModels: opened, selected by tags, imported, started, queried for their
 * signatures.
 *
 * Accepted models are written again as the same bytes. Starting runs the restore and init ops that the mutant names, in
 * a folder without variables, with a deadline. */
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "exec/saved_model.h"
#include "graph/graph_def.h"
#include "ops/table.h"
#include "proto/saved_model.pb-c.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pb_tree.h"
#include "wire/message.h"
#include "wire/text_format.h"

enum { OPENED, CHOSEN, STARTED, N_COUNTS };

#define GRAPH                                                                                                             \
    "graph_def { node { name: 'path' op: 'Const' attr { key: 'dtype' value { type: DT_STRING } } "                        \
    "attr { key: 'value' value { tensor { dtype: DT_STRING tensor_shape {} string_val: '?' } } } } "                      \
    "node { name: 'v' op: 'VarHandleOp' attr { key: 'dtype' value { type: DT_STRING } } "                                 \
    "attr { key: 'shape' value { shape {} } } } "                                                                         \
    "node { name: 'set' op: 'AssignVariableOp' input: 'v' input: 'path' attr { key: 'dtype' value { type: DT_STRING } } } " \
    "node { name: 'get' op: 'ReadVariableOp' input: 'v' attr { key: 'dtype' value { type: DT_STRING } } } "               \
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } } "                                \
    "node { name: 'y' op: 'Neg' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } } "                                 \
    "node { name: 'init' op: 'NoOp' input: '^set' } versions { producer: 1087 } } "
#define SIGNATURES                                                                                                        \
    "signature_def { key: 'serving_default' value { inputs { key: 'x' value { name: 'x:0' dtype: DT_FLOAT } } "           \
    "outputs { key: 'y' value { name: 'y:0' dtype: DT_FLOAT tensor_shape { dim { size: -1 } } } } "                       \
    "method_name: 'tensorflow/serving/predict' } } "
#define SERVE "meta_info_def { tags: 'serve' tensorflow_version: '2.9.1' } "

static const char *const texts[] = {
    "saved_model_schema_version: 1 meta_graphs { " SERVE GRAPH SIGNATURES
    "collection_def { key: 'saved_model_main_op' value { node_list { value: 'init' } } } "
    "asset_file_def { tensor_info { name: 'path:0' } filename: 'words.txt' } }",
    "saved_model_schema_version: 1 meta_graphs { " SERVE GRAPH SIGNATURES
    "signature_def { key: '__saved_model_init_op' value { outputs { key: '__saved_model_init_op' value { name: 'init' } } } } "
    "saver_def { filename_tensor_name: 'path:0' save_tensor_name: 'get:0' restore_op_name: 'set' version: V2 } "
    "object_graph_def { nodes { } } } meta_graphs { meta_info_def { tags: 'train' } " GRAPH "}",
    "saved_model_schema_version: 1 meta_graphs { " SERVE GRAPH
    "collection_def { key: 'legacy_init_op' value { node_list { value: 'set' } } } "
    "collection_def { key: 'saved_model_assets' value { any_list { value { type_url: 'x' value: '\\n\\010\\n\\006path:0\\022\\001f' } } } } "
    "collection_def { key: 'numbers' value { int64_list { value: 3 } } } }",
};

static MR_VEC(mr_str) seeds;
static char *folder; /* has the files of variables that cannot be read */

/* ---- mutants ---- */

static void mutate(fuzz_rng *r, mr_str *out)
{
    const mr_str *seed = &seeds.p[fuzz_below(r, (uint64_t)seeds.n)];
    fuzz_tree t;
    fuzz_tree_parse(&t, &tensorflow__saved_model__descriptor, mr_str_view(seed));
    for (uint64_t k = fuzz_below(r, 4); k > 0; k--)
        fuzz_tree_change(r, &t, NULL, NULL);
    fuzz_tree_write(&t, out);
    fuzz_tree_deinit(&t);
    if (fuzz_once_in(r, 8))
        fuzz_damage(r, out);
}

/* ---- what was accepted ---- */

static void check_written_again(const mr_saved_model *m)
{
    mr_saved_model back;
    mr_str bytes = {0};
    mr_sv *graphs = mr_new_array(mr_sv, m->graphs.n + 1);
    for (int i = 0; i < m->graphs.n; i++)
        graphs[i] = m->graphs.p[i].bytes;
    fuzz_must(mr_saved_model_write(folder, graphs, m->graphs.n), "writing");
    fuzz_must(mr_saved_model_read(folder, &back), "reading what was written");
    bool same = back.graphs.n == m->graphs.n;
    for (int i = 0; same && i < m->graphs.n; i++)
        same = mr_sv_eq(graphs[i], back.graphs.p[i].bytes);
    if (!same)
        fuzz_fail("a model differs after a round trip");
    mr_saved_model_deinit(&back);
    mr_str_deinit(&bytes);
    mr_free(graphs);
}

/* The same model as text, in a separate folder. */
static void check_as_text(const mr_str *bytes)
{
    mr_saved_model back;
    mr_str text = {0};
    ProtobufCMessage *m;
    mr_writer *w;
    mr_status *st = mr_message_unpack(&tensorflow__saved_model__descriptor, mr_str_view(bytes), "SavedModel", &m);
    if (st) { /* contents that no message can hold, such as a string with a NUL in it */
        mr_status_free(st);
        return;
    }
    char *dir = mr_printf("%s/text", folder), *path = mr_printf("%s/saved_model.pbtxt", dir);
    fuzz_must(mr_text_print(m, &text), "printing");
    fuzz_must(mr_dir_make(dir), "a folder");
    fuzz_must(mr_writer_open(path, &w), "a file");
    mr_writer_write(w, text.p, text.n);
    fuzz_must(mr_writer_commit(w), "a file");
    mr_writer_free(w);
    if (!mr_saved_model_exists(dir))
        fuzz_fail("a model that was just written cannot be found");
    st = mr_saved_model_read(dir, &back); /* enums by number and the like may not survive a round trip */
    if (!st)
        mr_saved_model_deinit(&back);
    mr_status_free(st);
    mr_message_free(m);
    mr_str_deinit(&text);
    mr_free(dir);
    mr_free(path);
}

static void ask_signatures(const mr_graph *g, const mr_meta_graph *m)
{
    for (int i = 0; i < m->signatures.n; i++) {
        mr_model_signature s;
        char *key = mr_strndup(m->signatures.p[i].name.p, m->signatures.p[i].name.n);
        mr_status *st = mr_model_signature_find(g, m, key, &s);
        mr_model_signature_deinit(&s);
        mr_status_free(st);
        mr_free(key);
    }
}

static mr_status *start(const mr_meta_graph *m, mr_graph *g)
{
    mr_session_config config = {.inter_threads = -1, .timeout_ms = 200, .memory_limit = 64 << 20};
    mr_session *s;
    MR_TRY(mr_graph_import(g, m->graph_def, NULL, NULL));
    ask_signatures(g, m);
    MR_TRY(mr_direct_session_new(g, NULL, &config, &s));
    mr_status *st = mr_saved_model_start(s, g, m, folder, NULL);
    mr_session_free(s);
    return st;
}

/* Graphs have a separate target; here, those with ops that create files or end the process are not run. */
static bool may_run(mr_sv graph_def)
{
    static const char *const no[] = {"Abort", "WriteFile", "Save", "Print", "Merge", "Summary", "Dataset", "Shard"};
    for (int i = 0; i < MR_COUNT(no); i++)
        if (graph_def.n && memmem(graph_def.p, graph_def.n, no[i], strlen(no[i])))
            return false;
    return true;
}

static void try_model(fuzz_run *r, mr_saved_model *m, const char *const *tags, int n)
{
    const mr_meta_graph *meta;
    mr_status *st = mr_saved_model_find(m, tags, n, &meta);
    if (!st) {
        mr_graph *g = mr_graph_new();
        r->counts[CHOSEN]++;
        if (may_run(meta->graph_def))
            st = start(meta, g);
        r->counts[STARTED] += !st;
        mr_graph_unref(g);
    }
    fuzz_say(r, "%s", mr_status_message(st));
    mr_status_free(st);
}

static void try_bytes(fuzz_run *r, mr_sv bytes)
{
    static const char *const serve[] = {"serve"}, *const train[] = {"train"};
    mr_saved_model m;
    mr_str copy = {0};
    mr_str_append(&copy, bytes.p, bytes.n);
    mr_status *st = mr_saved_model_open(&copy, &m);
    if (!st) {
        r->counts[OPENED]++;
        if (fuzz_once_in(&r->rng, 50))
            check_written_again(&m);
        if (fuzz_once_in(&r->rng, 50))
            check_as_text(&m.bytes);
        try_model(r, &m, fuzz_once_in(&r->rng, 4) ? train : serve, 1);
        mr_status_free(mr_saved_model_read(".", &(mr_saved_model){0}));
        mr_saved_model_deinit(&m);
    }
    mr_status_free(st);
}

/* ---- the target ---- */

static void prepare(void)
{
    mr_ops_register();
    for (int i = 0; i < MR_COUNT(texts); i++) {
        mr_str bytes = {0};
        fuzz_pack_text(&tensorflow__saved_model__descriptor, texts[i], &bytes);
        mr_vec_push(&seeds, bytes);
    }
    char *golden = fuzz_golden("saved_model");
    /* those of TensorFlow, or ours */
    static const char *const names[] = {"SimpleWhileLoop", "VarsAndArithmeticObjectGraph", "half_plus_two/00000123",
                                        "while_loop",      "object_graph",                 "half_plus_two/00000001"};
    for (int i = 0; i < MR_COUNT(names); i++) {
        char *path = mr_printf("%s/%s/saved_model.pb", golden, names[i]);
        mr_str bytes = {0};
        mr_status_free(mr_file_read_all(path, &bytes));
        if (bytes.n)
            mr_vec_push(&seeds, bytes);
        mr_free(path);
    }
    mr_free(golden);
}

static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return N_COUNTS; }

static void run(fuzz_run *r)
{
    mr_str input = {0};
    if (!folder) { /* of this child */
        folder = mr_printf("model-%d", (int)getpid());
        fuzz_must(mr_dir_make(folder), "a folder");
    }
    mutate(&r->rng, &input);
    fuzz_note(r, mr_str_view(&input));
    try_bytes(r, mr_str_view(&input));
    mr_str_deinit(&input);
}

static void replay(fuzz_run *r, mr_sv input)
{
    folder = mr_printf("model-%d", (int)getpid());
    fuzz_must(mr_dir_make(folder), "a folder");
    try_bytes(r, input);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    static const char *const names[] = {"opened", "chosen", "started"};
    return fuzz_shares("saved_model", names, counts, N_COUNTS, runs, 1, out, err);
}

const fuzz_target fuzz_saved_model = {"saved_model", "mutated SavedModels, opened and started", prepare, n_runs, n_counts, run, replay,
                                      summary};
