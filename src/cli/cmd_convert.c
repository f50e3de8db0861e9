/* cli/cmd_convert.c -- `millrace convert`: freezes, strips or compresses a graph, or converts it to and from text.
 *
 * The input is turned into a GraphDef. --freeze or --strip and then --eight-bit and --align rewrite it (cli/convert.h).
 * The result is written as text or binary, depending on the name of the output file. Without these options, the message is
 * only translated between text and binary. */
#include <stdio.h>

#include "base/columns.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/convert.h"
#include "cli/inspect.h"
#include "exec/saved_model.h"
#include "graph/graph_def.h"
#include "graph/scope.h"
#include "passes/passes.h"
#include "proto/saved_model.pb-c.h"
#include "store/checkpoint.h"
#include "wire/message.h"
#include "wire/text_format.h"

static bool freeze, strip, eight_bit, align;
static const char *inputs, *outputs, *checkpoint, *tags = "serve", *signature = "serving_default";

/* ---- reading ---- */

typedef struct source {
    mr_file_kind kind;
    char *path;
    mr_str graph;         /* GraphDef */
    mr_saved_model model; /* only if kind is MR_FILE_SAVED_MODEL */
    const mr_meta_graph *meta;
    mr_names outputs;
} source;

static mr_status *read_meta(source *s)
{
    mr_str bytes = {0};
    mr_meta_graph m = {0};
    mr_status *st = NULL;
    MR_GO(mr_file_read_all(s->path, &bytes));
    MR_GO(mr_meta_graph_open(mr_str_view(&bytes), &m));
    mr_str_append(&s->graph, m.graph_def.p, m.graph_def.n);
out:
    mr_meta_graph_deinit(&m);
    mr_str_deinit(&bytes);
    return st;
}

static mr_status *read_model(source *s)
{
    mr_names wanted = {0};
    mr_names_split(tags, &wanted);
    mr_status *st = mr_saved_model_read(s->path, &s->model);
    if (!st)
        st = mr_saved_model_find(&s->model, (const char *const *)wanted.p, wanted.n, &s->meta);
    if (!st)
        mr_str_append(&s->graph, s->meta->graph_def.p, s->meta->graph_def.n);
    mr_names_deinit(&wanted);
    return st;
}

static mr_status *read_source(const char *file, source *s)
{
    MR_TRY(mr_file_kind_of(file, &s->kind, &s->path));
    switch (s->kind) {
    case MR_FILE_SAVED_MODEL: return read_model(s);
    case MR_FILE_META_GRAPH: return read_meta(s);
    case MR_FILE_GRAPH: return mr_file_read_all(s->path, &s->graph);
    case MR_FILE_GRAPH_TEXT:
        MR_TRY(mr_file_read_all(s->path, &s->graph));
        return mr_status_prepend(mr_text_to_bytes(&tensorflow__graph_def__descriptor, &s->graph), "%s: ", s->path);
    default: return mr_invalid("%s is not a graph or SavedModel", file);
    }
}

/* The outputs named on the command line, or else those of the signature of the SavedModel. */
static mr_status *find_outputs(source *s, const mr_graph *g)
{
    mr_model_signature sig;
    mr_names_split(outputs, &s->outputs);
    if (s->outputs.n > 0)
        return NULL;
    if (!s->meta)
        return mr_invalid("no output nodes: give --outputs NAME,NAME");
    MR_TRY(mr_model_signature_find(g, s->meta, signature, &sig));
    for (int i = 0; i < sig.outputs.n; i++)
        mr_vec_push(&s->outputs, mr_strdup(sig.outputs.p[i].tensor.node->name));
    mr_model_signature_deinit(&sig);
    return NULL;
}

/* ---- freezing ---- */

static void free_values(mr_map *values)
{
    uint32_t pos = 0;
    mr_sv key;
    void *t;
    while (mr_map_next(values, &pos, &key, &t))
        mr_tensor_unref(t);
    mr_map_deinit(values);
}

static bool is_variable(const mr_node *n)
{
    return mr_node_is(n, "VarHandleOp") || mr_node_is(n, "VariableV2") || mr_node_is(n, "Variable");
}

/* Reads the value of a variable, which is saved under the name of its node or under its shared_name. */
static mr_status *value_from_checkpoint(mr_checkpoint *c, const mr_node *n, mr_tensor **out)
{
    mr_sv shared;
    mr_status *st = mr_checkpoint_read(c, mr_sv_of(n->name), NULL, out);
    if (mr_status_code(st) != MR_NOT_FOUND)
        return st;
    mr_status *second = mr_node_get_str(n, "shared_name", &shared);
    if (!second && shared.n)
        second = mr_checkpoint_read(c, shared, NULL, out);
    else
        mr_status_update(&second, mr_status_copy(st));
    mr_status_free(st);
    return second;
}

static mr_status *values_from_checkpoint(const mr_graph *g, const char *prefix, mr_map *values)
{
    mr_checkpoint *c;
    mr_status *st = NULL;
    MR_TRY(mr_checkpoint_open(prefix, &c));
    for (int i = 0; i < g->nodes.n && !st; i++) {
        mr_tensor *t;
        if (is_variable(g->nodes.p[i]) && !(st = value_from_checkpoint(c, g->nodes.p[i], &t)))
            mr_map_putz(values, g->nodes.p[i]->name, t);
    }
    mr_checkpoint_close(c);
    return st;
}

/* Loads the model into a session, as a server would, and reads every variable of the original graph. Adds read
 * nodes to g. */
static mr_status *values_from_model(const source *s, mr_graph *g, mr_map *values)
{
    mr_session_config config = {0};
    mr_session *session = NULL;
    mr_scope scope;
    mr_status *st = NULL;
    int n_nodes = g->nodes.n;
    mr_scope_init(&scope, g, "freeze");
    MR_GO(mr_direct_session_new(g, NULL, &config, &session));
    MR_GO(mr_saved_model_start(session, g, s->meta, s->path, NULL));
    for (int i = 0; i < n_nodes; i++) {
        mr_node *n = g->nodes.p[i];
        mr_tensor *t = NULL;
        mr_out from = {n, 0};
        if (!is_variable(n))
            continue;
        if (mr_node_is(n, "VarHandleOp")) {
            mr_dtype type;
            MR_GO(mr_node_get_type(n, "dtype", &type));
            from = mr_emit_with(&scope, "ReadVariableOp", MR_ATTRS({"dtype", mr_a_type(type)}), from);
            MR_GO(mr_scope_status(&scope));
        }
        mr_run_args a = {.fetches = &from, .fetched = &t, .n_fetches = 1};
        MR_GO(mr_session_run(session, &a, NULL, NULL));
        mr_map_putz(values, n->name, t);
    }
out:
    mr_scope_deinit(&scope);
    mr_session_free(session);
    return st;
}

/* Replaces calls by the bodies of their functions until none is left, because variables may be passed to functions. The
 * next strip removes functions that are no longer called. */
static mr_status *inline_calls(mr_str *graph_def)
{
    mr_graph *g = mr_graph_new();
    mr_status *st = NULL;
    bool any = true;
    MR_GO(mr_graph_import(g, mr_str_view(graph_def), NULL, NULL));
    while (any) {
        any = false;
        for (int i = 0; i < g->nodes.n; i++)
            if (mr_node_is(g->nodes.p[i], "PartitionedCall") || mr_node_is(g->nodes.p[i], "StatefulPartitionedCall"))
                mr_node_set_attr(g->nodes.p[i], "_lower_using_switch_merge", mr_a_bool(true));
        MR_GO(mr_lower(&g, &any));
    }
    mr_str_clear(graph_def);
    MR_GO(mr_graph_export(g, graph_def));
out:
    mr_graph_unref(g);
    return st;
}

static mr_status *name_and_inline(mr_str *graph_def, const mr_names *feeds, const mr_names *wanted)
{
    mr_str next = {0};
    mr_status *st = NULL;
    MR_GO(mr_name_results(mr_str_view(graph_def), wanted, &next));
    MR_GO(inline_calls(&next));
    mr_str_clear(graph_def);
    MR_GO(mr_strip_graph(mr_str_view(&next), feeds, wanted, graph_def));
out:
    mr_str_deinit(&next);
    return st;
}

/* Replaces s->graph by a frozen graph with only the nodes that the outputs need. Nodes that save and train are dropped
 * first, because they use variables in ways that cannot be frozen. */
static mr_status *freeze_source(source *s, mr_graph *g)
{
    mr_map values = {0};
    mr_str needed = {0}, frozen = {0};
    mr_names feeds = {0};
    mr_status *st = NULL;
    mr_names_split(inputs, &feeds);
    MR_GO(mr_strip_graph(mr_str_view(&s->graph), &feeds, &s->outputs, &needed));
    MR_GO(name_and_inline(&needed, &feeds, &s->outputs));
    if (s->meta && !checkpoint)
        MR_GO(values_from_model(s, g, &values));
    else if (checkpoint)
        MR_GO(values_from_checkpoint(g, checkpoint, &values));
    else
        MR_GO(mr_invalid(
            "--freeze needs the values of the variables: give --checkpoint PREFIX, or a SavedModel as FROM"));
    MR_GO(mr_freeze_graph(mr_str_view(&needed), &values, &frozen));
    mr_str_deinit(&s->graph);
    s->graph = frozen;
    frozen = (mr_str){0};
out:
    free_values(&values);
    mr_names_deinit(&feeds);
    mr_str_deinit(&needed);
    mr_str_deinit(&frozen);
    return st;
}

/* ---- the rest ---- */

static mr_status *strip_source(source *s)
{
    mr_names feeds = {0};
    mr_str out = {0};
    mr_names_split(inputs, &feeds);
    mr_status *st = mr_strip_graph(mr_str_view(&s->graph), &feeds, &s->outputs, &out);
    mr_names_deinit(&feeds);
    mr_str_deinit(&s->graph);
    s->graph = out;
    return st;
}

static mr_status *shrink_source(source *s)
{
    enum { LEAST = 1024 }; /* elements; smaller constants would save nothing */
    mr_str out = {0};
    int n;
    mr_status *st = mr_quantize_graph(mr_str_view(&s->graph), LEAST, &out, &n);
    if (!st)
        printf("stored %d constants as 8-bit values\n", n);
    mr_str_deinit(&s->graph);
    s->graph = out;
    return st;
}

static mr_status *align_source(source *s)
{
    mr_str out = {0};
    mr_status *st = mr_align_graph(mr_str_view(&s->graph), &out);
    mr_str_deinit(&s->graph);
    s->graph = out;
    return st;
}

/* Writes a serialized message, as text if the name of the file says so, and prints its size. */
static mr_status *write_message(const char *path, const ProtobufCMessageDescriptor *d, mr_sv bytes)
{
    mr_str text = {0};
    ProtobufCMessage *m = NULL;
    mr_status *st = NULL;
    char size[32];
    if (mr_file_is_text(path)) {
        MR_GO(mr_message_unpack(d, bytes, d->short_name, &m));
        MR_GO(mr_text_print(m, &text));
        bytes = mr_str_view(&text);
    }
    MR_GO(mr_file_write_all(path, bytes));
    printf("%s: %s\n", path, mr_bytes_text((double)bytes.n, size));
out:
    mr_message_free(m);
    mr_str_deinit(&text);
    return st;
}

/* Applies --freeze or --strip, then --eight-bit and --align, to s->graph. Freezing includes stripping. */
static mr_status *change_graph(source *s)
{
    mr_graph *g = mr_graph_new();
    mr_status *st = NULL;
    if (freeze || (strip && !outputs))
        MR_GO(mr_graph_import(g, mr_str_view(&s->graph), NULL, NULL));
    if (freeze || strip)
        MR_GO(find_outputs(s, g));
    if (freeze)
        MR_GO(freeze_source(s, g));
    else if (strip)
        MR_GO(strip_source(s));
    if (eight_bit)
        MR_GO(shrink_source(s));
    if (align)
        MR_GO(align_source(s));
out:
    mr_graph_unref(g);
    return st;
}

/* Converts between text and binary. A SavedModel or MetaGraph keeps its type and is not reduced to its graph. */
static mr_status *translate_source(const source *s, const char *to)
{
    mr_str bytes = {0};
    if (s->kind == MR_FILE_SAVED_MODEL)
        return write_message(to, &tensorflow__saved_model__descriptor, mr_str_view(&s->model.bytes));
    if (s->kind != MR_FILE_META_GRAPH)
        return write_message(to, &tensorflow__graph_def__descriptor, mr_str_view(&s->graph));
    mr_status *st = mr_file_read_all(s->path, &bytes);
    if (!st)
        st = write_message(to, &tensorflow__meta_graph_def__descriptor, mr_str_view(&bytes));
    mr_str_deinit(&bytes);
    return st;
}

static mr_status *run_convert(int n, char **args)
{
    source s = {0};
    (void)n;
    mr_status *st = read_source(args[0], &s);
    if (!st && !freeze && !strip && !eight_bit && !align)
        st = translate_source(&s, args[1]);
    else if (!st && !(st = change_graph(&s)))
        st = write_message(args[1], &tensorflow__graph_def__descriptor, mr_str_view(&s.graph));
    mr_saved_model_deinit(&s.model);
    mr_names_deinit(&s.outputs);
    mr_str_deinit(&s.graph);
    mr_free(s.path);
    return st;
}

static const mr_option options[] = {
    {"freeze", MR_OPT_FLAG, &freeze, NULL, "replace variables by constants with their values"},
    {"strip", MR_OPT_FLAG, &strip, NULL, "keep only the nodes that the outputs need; remove assertions and prints"},
    {"eight-bit", MR_OPT_FLAG, &eight_bit, NULL, "store large float constants as 8-bit values"},
    {"align", MR_OPT_FLAG, &align, NULL, "store large constants so that programs can use them in the mapped file, without a copy"},
    {"outputs", MR_OPT_STRING, &outputs, "NAMES",
     "output nodes, NAME,NAME; required by --freeze and --strip unless FROM is a SavedModel (default: the outputs of its signature)"},
    {"inputs", MR_OPT_STRING, &inputs, "NAMES", "nodes that become placeholders, NAME,NAME"},
    {"checkpoint", MR_OPT_STRING, &checkpoint, "PREFIX",
     "with --freeze, take the values of variables from this checkpoint; not needed for a SavedModel"},
    {"signature", MR_OPT_STRING, &signature, "KEY", "signature of the SavedModel (default serving_default)"},
    {"tags", MR_OPT_STRING, &tags, "TAGS", "tags of the graph in the SavedModel, TAG,TAG (default serve)"},
    {0},
};

static const mr_help_item examples[] = {
    {"millrace convert graph.pb graph.pbtxt", "Convert a graph to text:"},
    {"millrace convert --freeze --strip model frozen.pb", "Freeze a SavedModel into a single file:"},
    {0},
};

MR_COMMAND(convert, .summary = "freeze, strip or compress a graph, or convert it to and from text",
           .group = MR_COMMANDS_MODEL, .usage = "FROM TO", .options = options, .examples = examples, .min_args = 2,
           .max_args = 2, .run = run_convert,
           .about = "FROM is a GraphDef (.pb, .pbtxt), a MetaGraphDef (.meta) or the folder of a SavedModel. TO is written "
                    "as text if its name ends in .pbtxt, otherwise in binary. Without --freeze, --strip, --eight-bit "
                    "or --align, the file is only converted between the two forms.");
