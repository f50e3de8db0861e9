/* sim/graph_file.c -- the graph of a plan, from a file: a GraphDef, a MetaGraphDef (.meta) or a
 * SavedModel folder.
 *
 * The plan says what a step feeds, fetches and runs; otherwise the signature of a SavedModel does; otherwise every
 * placeholder is fed, and the only output that no node reads is fetched. */
#include "base/file.h"
#include "base/memory.h"
#include "graph/graph_def.h"
#include "sim/reader.h"
#include "sim/step.h"
#include "store/saved_model.h"
#include "wire/pb.h"

enum { MOST_LISTED = 8 };

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* ---- names ---- */

static mr_status *find_tensor(const char *file, const mr_graph *g, mr_sv name, bool node_only,
                              mr_out *out)
{
    mr_tensor_name t;
    if (!mr_tensor_name_parse(name, &t) || t.index < 0)
        return mr_invalid("'%.*s' is not the name of a tensor", MR_SV_ARG(name));
    *out = (mr_out){mr_graph_find(g, t.node), t.index};
    if (!out->node || (!node_only && t.index >= out->node->n_out))
        return mr_invalid("%s: there is no '%.*s'", file, MR_SV_ARG(name));
    return NULL;
}

static mr_status *find_named(const mr_sim_plan *p, mr_sim_graph_def *d)
{
    const mr_sim_graph_plan *from = &p->graph;
    mr_out o;
    for (int i = 0; i < from->feeds.n; i++) {
        MR_TRY(find_tensor(from->file, d->g, mr_sv_of(from->feeds.p[i]), false, &o));
        mr_vec_push(&d->feeds, o);
    }
    for (int i = 0; i < from->fetches.n; i++) {
        MR_TRY(find_tensor(from->file, d->g, mr_sv_of(from->fetches.p[i]), false, &o));
        mr_vec_push(&d->fetches, o);
    }
    for (int i = 0; i < from->targets.n; i++) {
        MR_TRY(find_tensor(from->file, d->g, mr_sv_of(from->targets.p[i]), true, &o));
        mr_vec_push(&d->targets, o.node);
    }
    return NULL;
}

static bool is_fed(const mr_sim_graph_def *d, const mr_node *n)
{
    for (int i = 0; i < d->feeds.n; i++)
        if (d->feeds.p[i].node == n)
            return true;
    return false;
}

/* Whether a client may want the node's value. Constants, variables and inputs are not results. */
static bool is_result(const mr_sim_graph_def *d, const mr_node *n)
{
    return n->uses.n == 0 && !is_fed(d, n) && !mr_node_is(n, "Const") &&
           !mr_node_is(n, "Placeholder") && !mr_node_is(n, "VariableV2") &&
           !mr_node_is(n, "Variable") && !mr_node_is(n, "VarHandleOp");
}

/* Finds the only node that no other node reads: fetches its outputs, or runs it if it has none. Nodes with outputs take
 * precedence over nodes without. */
static mr_status *find_only_result(const mr_sim_plan *p, mr_sim_graph_def *d)
{
    mr_node *found = NULL;
    mr_str names = {0};
    mr_status *st = NULL;
    int n = 0;
    for (int with_outputs = 1; with_outputs >= 0 && !n; with_outputs--)
        for (int i = 0; i < d->g->nodes.n; i++) {
            mr_node *node = d->g->nodes.p[i];
            if (!is_result(d, node) || (node->n_out > 0) != with_outputs)
                continue;
            found = node;
            if (n++ < MOST_LISTED)
                mr_str_printf(&names, "%s%s", n > 1 ? ", " : "", node->name);
        }
    if (n == 0)
        st = mr_invalid("%s: the graph computes nothing; name graph.fetches or graph.targets",
                        p->graph.file);
    else if (n > 1)
        st = mr_invalid("%s: the graph has %d results (%s%s); name those of the step in "
                        "graph.fetches or graph.targets",
                        p->graph.file, n, mr_str_z(&names), n > MOST_LISTED ? ", .." : "");
    else if (found->n_out == 0)
        mr_vec_push(&d->targets, found);
    for (int i = 0; !st && i < found->n_out; i++)
        mr_vec_push(&d->fetches, ((mr_out){found, i}));
    mr_str_deinit(&names);
    return st;
}

static mr_status *find_ends(const mr_sim_plan *p, mr_sim_graph_def *d)
{
    for (int i = 0; !d->feeds.n && i < d->g->nodes.n; i++)
        if (mr_node_is(d->g->nodes.p[i], "Placeholder"))
            mr_vec_push(&d->feeds, ((mr_out){d->g->nodes.p[i], 0}));
    return d->fetches.n || d->targets.n ? NULL : find_only_result(p, d);
}

/* ---- signatures ---- */

/* The tensor of an entry of SignatureDef.inputs or .outputs: map entry { key 1, value 2: TensorInfo
 * { name 1 } }. */
static mr_sv entry_tensor(mr_sv entry)
{
    mr_pb_reader r, info;
    uint32_t field, wire;
    mr_sv name = MR_SV("");
    mr_pb_reader_init(&r, entry);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 2 && mr_pb_message(&r, &info)) {
            while (mr_pb_next(&info, &field, &wire))
                if (field == 1)
                    name = mr_pb_bytes(&info);
                else
                    mr_pb_skip(&info);
        } else {
            mr_pb_skip(&r);
        }
    return name;
}

/* Takes feeds and fetches from SignatureDef { inputs 1, outputs 2 }, unless the plan names its own. */
static mr_status *take_signature(const mr_sim_plan *p, mr_sv signature, mr_sim_graph_def *d)
{
    bool own_feeds = p->graph.feeds.n > 0, own_ends = p->graph.fetches.n || p->graph.targets.n;
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, signature);
    while (mr_pb_next(&r, &field, &wire)) {
        mr_out o;
        if (field != 1 && field != 2) {
            mr_pb_skip(&r);
            continue;
        }
        mr_sv name = entry_tensor(mr_pb_bytes(&r));
        if (!name.n ||
            (field == 1 ? own_feeds : own_ends)) /* sparse tensors have no single name */
            continue;
        MR_TRY(find_tensor(p->graph.file, d->g, name, false, &o));
        bool known = false;
        for (int i = 0; i < (field == 1 ? d->feeds.n : d->fetches.n) && !known; i++)
            known = mr_out_eq(field == 1 ? d->feeds.p[i] : d->fetches.p[i], o);
        if (!known && field == 1)
            mr_vec_push(&d->feeds, o);
        else if (!known)
            mr_vec_push(&d->fetches, o);
    }
    return NULL;
}

/* The signature that the plan names, serving_default, or the only one. */
static mr_status *choose_signature(const mr_sim_plan *p, const mr_meta_graph *m,
                                   mr_sim_graph_def *d)
{
    const char *key = p->graph.signature ? p->graph.signature : "serving_default";
    const char *words[64];
    mr_str known = {0};
    mr_sv found;
    if (mr_meta_graph_signature(m, key, &found))
        return take_signature(p, found, d);
    if (!p->graph.signature && (m->signatures.n == 0 || p->graph.fetches.n || p->graph.targets.n))
        return NULL;
    if (!p->graph.signature && m->signatures.n == 1)
        return take_signature(p, m->signatures.p[0].bytes, d);
    int n = MR_MIN(m->signatures.n, (int)MR_COUNT(words));
    for (int i = 0; i < n; i++)
        words[i] =
            mr_arena_strndup(&d->g->arena, m->signatures.p[i].name.p, m->signatures.p[i].name.n);
    mr_sim_put_known(mr_sv_of(key), words, n, &known);
    mr_status *st = mr_invalid("%s: there is no signature '%.100s'%s (graph.signature)",
                               p->graph.file, key, mr_str_z(&known));
    mr_str_deinit(&known);
    return st;
}

static mr_status *import_meta(const mr_sim_plan *p, const mr_meta_graph *m, mr_sim_graph_def *d)
{
    MR_TRY(mr_graph_import(d->g, m->graph_def, NULL, NULL));
    MR_TRY(find_named(p, d));
    return choose_signature(p, m, d);
}

/* ---- files ---- */

/* Takes the MetaGraph tagged for serving, or the first one. */
static mr_status *import_saved_model(const mr_sim_plan *p, const char *dir, mr_sim_graph_def *d)
{
    mr_saved_model model;
    const mr_meta_graph *m = NULL;
    MR_TRY(mr_saved_model_read(dir, &model));
    for (int i = 0; i < model.graphs.n; i++) {
        bool serves = false;
        for (int k = 0; k < model.graphs.p[i].tags.n; k++)
            serves |= mr_sv_is(model.graphs.p[i].tags.p[k], "serve");
        if (!m || serves)
            m = &model.graphs.p[i];
        if (serves)
            break;
    }
    mr_status *st = m ? import_meta(p, m, d) : mr_invalid("the SavedModel has no graph");
    mr_saved_model_deinit(&model);
    return st;
}

static mr_status *import_file(const mr_sim_plan *p, mr_sim_graph_def *d)
{
    const char *path = p->graph.file;
    mr_str bytes = {0};
    mr_status *st = mr_file_read_all(path, &bytes);
    if (!st && ends_with(path, ".pbtxt")) {
        st = mr_graph_import_text(d->g, mr_str_view(&bytes), NULL);
    } else if (!st && ends_with(path, ".meta")) {
        mr_meta_graph m;
        st = mr_meta_graph_open(mr_str_view(&bytes), &m);
        if (!st)
            st = import_meta(p, &m, d);
        mr_meta_graph_deinit(&m);
        mr_str_deinit(&bytes);
        return st;
    } else if (!st) {
        st = mr_graph_import(d->g, mr_str_view(&bytes), NULL, NULL);
    }
    mr_str_deinit(&bytes);
    return st ? st : find_named(p, d);
}

/* Accepts a SavedModel folder, the file in it, or a graph file. */
static mr_status *import_graph(const mr_sim_plan *p, mr_sim_graph_def *d)
{
    const char *path = p->graph.file, *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    bool inside = strcmp(base, "saved_model.pb") == 0 || strcmp(base, "saved_model.pbtxt") == 0;
    if (!inside && !mr_saved_model_exists(path)) {
        if (p->graph.signature && !ends_with(path, ".meta"))
            return mr_invalid("graph.signature is of SavedModels");
        return import_file(p, d);
    }
    char *dir = !inside ? mr_strdup(path)
                : slash ? mr_strndup(path, (size_t)(slash - path))
                        : mr_strdup(".");
    mr_status *st = import_saved_model(p, dir, d);
    mr_free(dir);
    return st;
}

mr_status *mr_sim_graph_file_open(const mr_sim_plan *p, mr_sim_graph_def *out)
{
    *out = (mr_sim_graph_def){.g = mr_graph_new()};
    mr_status *st = import_graph(p, out);
    if (!st)
        st = find_ends(p, out);
    if (st) {
        mr_sim_graph_def_deinit(out);
        if (!strstr(mr_status_message(st), p->graph.file))
            mr_status_prepend(st, "%s: ", p->graph.file);
    }
    return st;
}
