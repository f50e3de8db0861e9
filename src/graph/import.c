/* graph/import.c -- imports a GraphDef into a graph.
 *
 * The steps: the bytes are split into views (node_def.c); versions are checked; names are checked, prefixed and made
 * unique; each node's op is found and its attrs are decoded and checked; inputs are resolved, through the caller's
 * maps, to edges; the nodes are assembled (assemble.c). None of this changes existing nodes, and the new nodes are
 * removed if anything fails. */
#include <stdlib.h>

#include "base/memory.h"
#include "graph/assemble.h"
#include "graph/graph_def.h"
#include "graph/wire.h"
#include "proto/graph.pb-c.h"
#include "wire/message.h"
#include "wire/text_format.h"

/* The maximum number of outputs of an import, beyond 16 for each byte read: see MR_MAX_OUTPUTS. */
#define FREE_OUTPUTS (1 << 20)

typedef struct importer {
    mr_graph *g;
    const mr_import_options *o;
    size_t n_bytes;
    mr_node_defs defs;
    mr_library *library; /* the functions of the GraphDef */
    mr_versions versions;
    MR_VEC(int) bad_consumers;
    mr_map index;       /* name in the GraphDef -> its number, plus one */
    const char *prefix; /* with its slash; "" for none */
    const char **names; /* final ones, by number */
    mr_part *parts;
    MR_VEC(mr_part_edge) edges;
    mr_map maps;   /* name -> number of the last option.maps for it, plus one */
    int *next_map; /* the one before with the same name, plus one */
    bool *map_used;
    int *seen,
        *seen_old; /* by part and by id of an old node: the last part that has it as a control input */
} importer;

static mr_status *no_memory(void)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "GraphDef: out of memory");
}

static int n_nodes(const importer *im) { return im->defs.nodes.n; }

static int part_named(const importer *im, mr_sv name)
{
    return (int)(intptr_t)mr_map_get(&im->index, name) - 1;
}

static void importer_deinit(importer *im)
{
    mr_node_defs_deinit(&im->defs);
    mr_library_free(im->library);
    mr_vec_deinit(&im->bad_consumers);
    mr_map_deinit(&im->index);
    mr_vec_deinit(&im->edges);
    mr_map_deinit(&im->maps);
    mr_free(im->names);
    mr_free(im->parts);
    mr_free(im->next_map);
    mr_free(im->map_used);
    mr_free(im->seen);
    mr_free(im->seen_old);
}

/* ---- reading ---- */

static mr_status *read_versions(importer *im, mr_pb_reader *r)
{
    mr_pb_reader p;
    uint32_t field, wire;
    bool ok = true;
    while (ok && mr_pb_next(r, &field, &wire)) {
        switch (field) {
        case 1: im->versions.producer = mr_pb_int32(r); break;
        case 2: im->versions.min_consumer = mr_pb_int32(r); break;
        case 3:
            mr_pb_packed(r, MR_WIRE_VARINT, &p);
            while (ok && mr_pb_more(&p))
                ok = MR_TRY_PUSH(&im->bad_consumers, mr_pb_int32(&p));
            break;
        default: mr_pb_skip(r);
        }
    }
    return ok ? mr_pb_reader_status(r, "VersionDef") : no_memory();
}

/* Nodes stay views; functions are decoded at once, because nodes may be calls of them. */
static mr_status *read_graph(importer *im, mr_sv bytes)
{
    mr_pb_reader r, sub;
    uint32_t field, wire;
    int old_version = 0;
    bool has_versions = false;
    im->n_bytes = bytes.n;
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        switch (field) {
        case 1:
            mr_pb_message(&r, &sub);
            MR_TRY(mr_node_def_read(&sub, &im->defs));
            break;
        case 2: MR_TRY(mr_library_decode(mr_pb_bytes(&r), im->library)); break;
        case 3: old_version = mr_pb_int32(&r); break;
        case 4:
            has_versions = true;
            mr_pb_message(&r, &sub);
            MR_TRY(read_versions(im, &sub));
            break;
        default: mr_pb_skip(&r);
        }
    }
    if (!has_versions)
        im->versions.producer = old_version;
    return mr_pb_reader_status(&r, "GraphDef");
}

/* The rules of every versioned format of TensorFlow: the producer must not be too old, the file must not require a
 * newer consumer, and it must not be known to be broken with this version. */
static mr_status *check_versions(const importer *im)
{
    const int consumer = MR_GRAPH_PRODUCER;
    if (im->versions.producer < 0)
        return mr_invalid(
            "GraphDef producer version %d below min producer 0 supported by TensorFlow " MR_TF_VERSION
            ".  Please regenerate your graph.",
            im->versions.producer);
    if (im->versions.min_consumer > consumer)
        return mr_invalid(
            "GraphDef min consumer version %d above current version %d for TensorFlow " MR_TF_VERSION
            ".  Please upgrade TensorFlow.",
            im->versions.min_consumer, consumer);
    for (int i = 0; i < im->bad_consumers.n; i++)
        if (im->bad_consumers.p[i] == consumer)
            return mr_invalid(
                "GraphDef disallows consumer version %d.  Please upgrade TensorFlow: this version is likely "
                "buggy.",
                consumer);
    return NULL;
}

/* ---- names ---- */

static mr_status *check_name(const importer *im, mr_sv name)
{
    bool ok = im->o->internal_ok ? mr_name_valid_internal(name) : mr_name_valid_node(name);
    return ok ? NULL
              : mr_invalid("Node '%.*s': Node name contains invalid characters", MR_SV_ARG(name));
}

static mr_status *index_names(importer *im)
{
    im->index.borrow_keys = true;
    for (int i = 0; i < n_nodes(im); i++) {
        mr_sv name = im->defs.nodes.p[i].name;
        MR_TRY(check_name(im, name));
        if (mr_map_put(&im->index, name, (void *)(intptr_t)(i + 1)))
            return mr_invalid("Node '%.*s' is not unique", MR_SV_ARG(name));
    }
    return NULL;
}

static mr_status *find_prefix(importer *im)
{
    mr_sv p = mr_sv_of(im->o->prefix);
    im->prefix = "";
    if (p.n && p.p[p.n - 1] == '/')
        p.n--;
    if (!p.n)
        return NULL;
    if (!mr_name_valid_node(p) && !(im->o->internal_ok && mr_name_valid_internal(p)))
        return mr_invalid("Imported node name prefix '%s' would lead to invalid node names",
                          im->o->prefix);
    const char *base = mr_arena_strndup(&im->g->arena, p.p, p.n);
    if (im->o->uniquify_prefix)
        base = mr_graph_unique_prefix(im->g, base);
    im->prefix = mr_arena_printf(&im->g->arena, "%s/", base);
    return NULL;
}

/* A name that no node of the graph has or will have. */
static const char *unique_name(importer *im, const mr_map *wanted, const char *name)
{
    const char *unique;
    do
        unique = mr_graph_unique_prefix(im->g, name);
    while (mr_map_has(wanted, mr_sv_of(unique)));
    return unique;
}

/* TensorFlow's rules: unless renaming is allowed, an existing name is an error; if it is, a name that is a scope of
 * other nodes counts as taken as well. */
static mr_status *make_unique(importer *im, mr_map *wanted)
{
    const mr_import_options *o = im->o;
    bool may_rename = o->uniquify_names && !(o->prefix && o->prefix[0] && o->uniquify_prefix);
    for (int i = 0; i < n_nodes(im); i++)
        mr_map_putz(wanted, im->names[i], im);
    for (int i = 0; i < n_nodes(im); i++) {
        mr_sv name = mr_sv_of(im->names[i]);
        if (may_rename ? !mr_graph_name_used(im->g, name) : !mr_graph_find(im->g, name))
            continue;
        if (!may_rename)
            return mr_invalid("Node name '%s' already exists in the Graph", im->names[i]);
        im->names[i] = unique_name(im, wanted, im->names[i]);
        mr_map_putz(wanted, im->names[i], im);
    }
    return NULL;
}

/* Computes the final names: prefixed, and unique if the graph already has nodes. */
static mr_status *name_nodes(importer *im)
{
    mr_map wanted = {.borrow_keys = true};
    im->names = mr_try_calloc((size_t)n_nodes(im), sizeof(char *));
    if (!im->names)
        return no_memory();
    MR_TRY(find_prefix(im));
    size_t n_prefix = strlen(im->prefix);
    for (int i = 0; i < n_nodes(im); i++) {
        mr_sv name = im->defs.nodes.p[i].name;
        char *full = mr_arena_try_alloc(&im->g->arena, n_prefix + name.n + 1);
        if (!full)
            return no_memory();
        memcpy(full, im->prefix, n_prefix);
        memcpy(full + n_prefix, name.p, name.n);
        full[n_prefix + name.n] = '\0';
        im->names[i] = full;
    }
    if (im->g->nodes.n == 0) /* nothing to collide with */
        return NULL;
    mr_status *st = make_unique(im, &wanted);
    mr_map_deinit(&wanted);
    return st;
}

/* ---- ops and attrs ---- */

/* One entry of _class: "loc:@name" names a node, under its new name from now on. */
static mr_status *rename_class(importer *im, mr_sv node, mr_sv *text)
{
    if (!mr_sv_starts(*text, "loc:@"))
        return NULL;
    mr_sv name = {text->p + 5, text->n - 5};
    int i = part_named(im, name);
    if (i < 0 && !im->o->no_validate_colocation)
        return mr_invalid("Node '%.*s' expects to be colocated with unknown node '%.*s'", MR_SV_ARG(node),
                          MR_SV_ARG(name));
    char *renamed =
        i >= 0 ? mr_arena_printf(&im->g->arena, "loc:@%s", im->names[i])
               : mr_arena_printf(&im->g->arena, "loc:@%s%.*s", im->prefix, MR_SV_ARG(name));
    *text = mr_sv_of(renamed);
    return NULL;
}

static mr_status *rename_classes(importer *im, mr_sv node, mr_part *p)
{
    mr_attr *v = (mr_attr *)(uintptr_t)mr_named_attrs_find(p->d.attrs, p->d.n_attrs, "_class");
    if (!v || !v->is_list || v->kind != MR_ATTR_STRING)
        return NULL;
    for (int i = 0; i < v->n; i++) /* the array was allocated by decoding and may be changed */
        MR_TRY(rename_class(im, node, (mr_sv *)(uintptr_t)&v->ss[i]));
    return NULL;
}

static mr_status *make_device(importer *im, mr_sv device, const char **out)
{
    const char *fallback = im->o->default_device;
    if (!device.n)
        device = mr_sv_of(fallback);
    *out = "";
    return device.n ? mr_wire_name(&im->g->arena, device, out) : NULL;
}

/* Everything about a node that does not depend on other nodes. */
static mr_status *make_draft(importer *im, int i)
{
    mr_graph *g = im->g;
    const mr_node_def *n = &im->defs.nodes.p[i];
    mr_part *p = &im->parts[i];
    int producer = im->versions.producer;
    p->d.name = im->names[i];
    mr_status *st = mr_draft_def(g, im->library, n->op, producer, &p->d.def);
    if (st)
        return mr_status_append(st, "; NodeDef: {{node %s}}", p->d.name);
    MR_TRY(make_device(im, n->device, &p->d.device));
    MR_TRY(mr_node_def_attrs(&im->defs, n, &(mr_attr_room){&g->arena, &g->held, im->o->source}, &p->d.attrs, &p->d.n_attrs));
    MR_TRY(rename_classes(im, n->name, p));
    MR_TRY(mr_draft_attrs(&g->arena, &p->d, producer > MR_GRAPH_PRODUCER));
    p->is_merge = !strcmp(p->d.def->name, "Merge") || !strcmp(p->d.def->name, "RefMerge");
    p->is_next =
        !strcmp(p->d.def->name, "NextIteration") || !strcmp(p->d.def->name, "RefNextIteration");
    return mr_wire_keep(&g->arena, mr_node_def_extra(&im->defs, n), &p->d.extra);
}

/* ---- inputs ---- */

static mr_status *check_map(const importer *im, const mr_import_map *m)
{
    if (!m->name || !m->to.node || m->to.node->graph != im->g)
        return mr_invalid("input_map entry for '%s' does not refer to a node of the graph",
                          m->name ? m->name : "");
    if ((m->index < 0) != (m->to.index < 0))
        return mr_invalid("input_map entry %s:%d->%s:%d between control edge and non-control edge",
                          m->name, m->index, m->to.node->name, m->to.index);
    if (m->to.index >= m->to.node->n_out)
        return mr_invalid(
            "input_map entry %s:%d leads to invalid output %d of node %s which has %d outputs",
            m->name, m->index, m->to.index, m->to.node->name, m->to.node->n_out);
    return NULL;
}

/* Maps are found by name and then by output: the chain of a name starts with its last map. */
static mr_status *index_maps(importer *im)
{
    int n = im->o->n_maps;
    im->next_map = mr_try_calloc((size_t)n, sizeof(int));
    im->map_used = mr_try_calloc((size_t)n, sizeof(bool));
    if (!im->next_map || !im->map_used)
        return no_memory();
    im->maps.borrow_keys = true;
    for (int i = 0; i < n; i++) {
        MR_TRY(check_map(im, &im->o->maps[i]));
        void *before = mr_map_putz(&im->maps, im->o->maps[i].name, (void *)(intptr_t)(i + 1));
        im->next_map[i] = (int)(intptr_t)before;
    }
    return NULL;
}

/* The caller's map for an input: the last one if there are several. -1: none. */
static int find_map(const importer *im, mr_sv name, int index)
{
    int i = im->maps.n ? (int)(intptr_t)mr_map_get(&im->maps, name) : 0;
    while (i && im->o->maps[i - 1].index != index)
        i = im->next_map[i - 1];
    return i - 1;
}

/* Messages about inputs name nodes as the GraphDef does, without the prefix they get here. */
static mr_status *resolve_input(importer *im, mr_sv node, mr_sv text, mr_part_edge *out)
{
    mr_tensor_name t;
    if (!mr_tensor_name_parse(text, &t))
        return mr_invalid("Node '%.*s': Invalid input name '%.*s'", MR_SV_ARG(node), MR_SV_ARG(text));
    if (t.index < 0 && memchr(t.node.p, ':', t.node.n))
        return mr_invalid("Control input '%.*s' must not have ':' in NodeDef: {{node %.*s}}",
                          MR_SV_ARG(text), MR_SV_ARG(node));
    int map = find_map(im, t.node, t.index);
    if (map >= 0) {
        im->map_used[map] = true;
        *out = (mr_part_edge){-1, im->o->maps[map].to.index, im->o->maps[map].to.node};
        return NULL;
    }
    MR_ASSERT(t.index >= -1);
    *out = (mr_part_edge){part_named(im, t.node), t.index, NULL};
    if (out->part < 0 && im->o->extends)
        out->node = mr_graph_find(im->g, t.node);
    if (out->part < 0 && !out->node)
        return mr_invalid("Node '%.*s': Unknown input node '%.*s'", MR_SV_ARG(node), MR_SV_ARG(text));
    return NULL;
}

/* True the first time that an edge's producer is seen for this part. */
static bool first_seen(importer *im, int part, const mr_part_edge *e)
{
    int *at = e->part < 0 ? &im->seen_old[e->node->id] : &im->seen[e->part];
    bool first = *at != part + 1;
    *at = part + 1;
    return first;
}

/* Data inputs come first, then control inputs, of which duplicates are dropped. */
static mr_status *resolve_inputs(importer *im, int i)
{
    const mr_node_def *n = &im->defs.nodes.p[i];
    mr_part *p = &im->parts[i];
    int n_in = 0;
    p->first_edge = im->edges.n;
    for (int k = 0; k < n->n_inputs; k++) {
        mr_part_edge e;
        mr_sv text = im->defs.inputs.p[n->first_input + k];
        MR_TRY(resolve_input(im, n->name, text, &e));
        bool is_control = text.p[0] == '^';
        if (!is_control && n_in != k)
            return mr_invalid("Node '%.*s': Control dependencies must come after regular dependencies",
                              MR_SV_ARG(n->name));
        n_in += !is_control;
        if (is_control && !first_seen(im, i, &e))
            continue;
        p->n_ctrl += is_control;
        if (!MR_TRY_PUSH(&im->edges, e))
            return no_memory();
    }
    return mr_draft_types(&im->g->arena, &p->d, n_in);
}

/* Checks that all data inputs refer to existing outputs. */
static mr_status *check_sources(const importer *im, int i)
{
    const mr_part *p = &im->parts[i];
    for (int k = 0; k < p->d.n_in; k++) {
        const mr_part_edge *e = &im->edges.p[p->first_edge + k];
        int n_out = e->part < 0 ? e->node->n_out : im->parts[e->part].d.n_out;
        if (e->index < n_out)
            continue;
        mr_sv name = e->part < 0 ? mr_sv_of(e->node->name) : im->defs.nodes.p[e->part].name;
        const char *op = e->part < 0 ? e->node->def->name : im->parts[e->part].d.def->name;
        bool functional = !strcmp(op, "If") || !strcmp(op, "StatelessIf") || !strcmp(op, "While") || !strcmp(op, "StatelessWhile");
        return mr_invalid("Node '%.*s': Connecting to invalid output %d of source node %.*s which has %d outputs.%s",
                          MR_SV_ARG(im->defs.nodes.p[i].name), e->index, MR_SV_ARG(name), n_out,
                          functional ? " Try using tf.compat.v1.experimental.output_all_intermediates(True)." : "");
    }
    return NULL;
}

static mr_status *make_parts(importer *im)
{
    int64_t n_outputs = 0, most = FREE_OUTPUTS + 16 * (int64_t)im->n_bytes;
    im->parts = mr_try_calloc((size_t)n_nodes(im), sizeof(mr_part));
    im->seen = mr_try_calloc((size_t)n_nodes(im), sizeof(int));
    im->seen_old = mr_try_calloc(im->o->n_maps || im->o->extends ? (size_t)im->g->nodes.n : 0, sizeof(int));
    if (!im->parts || !im->seen || !im->seen_old)
        return no_memory();
    for (int i = 0; i < n_nodes(im); i++) {
        MR_TRY(make_draft(im, i));
        MR_TRY(resolve_inputs(im, i));
        n_outputs += im->parts[i].d.n_out;
        if (n_outputs > most)
            return mr_error(MR_RESOURCE_EXHAUSTED,
                            "GraphDef of %zu bytes requests more than %lld outputs", im->n_bytes,
                            (long long)most);
    }
    for (int i = 0; i < n_nodes(im); i++)
        MR_TRY(check_sources(im, i));
    return NULL;
}

/* ---- results ---- */

static mr_status *find_return(const importer *im, const mr_import_map *want, mr_out *out)
{
    int map = find_map(im, mr_sv_of(want->name), want->index);
    if (map >= 0) {
        *out = im->o->maps[map].to;
        return NULL;
    }
    int i = part_named(im, mr_sv_of(want->name));
    if (i < 0)
        return mr_invalid("Requested return tensor '%s:%d' not found in graph def", want->name,
                          want->index);
    *out = (mr_out){im->parts[i].node, want->index};
    if (want->index < 0 || want->index >= out->node->n_out)
        return mr_invalid("Invalid return output %d of node '%s', which has %d output(s)",
                          want->index, want->name, out->node->n_out);
    return NULL;
}

/* Unused maps are reported if they refer to nothing in the GraphDef. */
static bool names_nothing(const importer *im, int map)
{
    const mr_import_map *m = &im->o->maps[map];
    int i = part_named(im, mr_sv_of(m->name));
    return !im->map_used[map] && (i < 0 || m->index >= im->parts[i].d.n_out);
}

static mr_status *fill_results(const importer *im, mr_import_results *r)
{
    const mr_import_options *o = im->o;
    r->returns = mr_new_array(mr_out, o->n_returns);
    r->return_nodes = mr_new_array(mr_node *, o->n_return_nodes);
    r->unused = mr_new_array(int, o->n_maps);
    for (; r->n_returns < o->n_returns; r->n_returns++)
        MR_TRY(find_return(im, &o->returns[r->n_returns], &r->returns[r->n_returns]));
    for (; r->n_return_nodes < o->n_return_nodes; r->n_return_nodes++) {
        int i = part_named(im, mr_sv_of(o->return_nodes[r->n_return_nodes]));
        if (i < 0)
            return mr_invalid("Requested return node '%s' not found in graph def",
                              o->return_nodes[r->n_return_nodes]);
        r->return_nodes[r->n_return_nodes] = im->parts[i].node;
    }
    for (int i = 0; i < o->n_maps; i++)
        if (names_nothing(im, i))
            r->unused[r->n_unused++] = i;
    return NULL;
}

void mr_import_results_deinit(mr_import_results *r)
{
    mr_free(r->returns);
    mr_free(r->return_nodes);
    mr_free(r->unused);
    *r = (mr_import_results){0};
}

/* ---- the whole ---- */

static int by_number(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* The merged graph has the oldest producer and the highest min_consumer of its parts. */
static void merge_versions(importer *im)
{
    mr_versions *v = &im->g->versions;
    v->min_consumer = MR_MAX(v->min_consumer, im->versions.min_consumer);
    if (!im->bad_consumers.n)
        return;
    for (int i = 0; i < v->n_bad; i++)
        mr_vec_push(&im->bad_consumers, v->bad_consumers[i]);
    int n = im->bad_consumers.n,
        *all = mr_arena_memdup(&im->g->arena, im->bad_consumers.p, (size_t)n * sizeof(int));
    qsort(all, (size_t)n, sizeof(int), by_number);
    v->n_bad = 0;
    for (int i = 0; i < n; i++)
        if (i == 0 || all[i] != all[i - 1])
            all[v->n_bad++] = all[i];
    v->bad_consumers = all;
}

static mr_status *check_controls(const importer *im)
{
    for (int i = 0; i < im->o->n_controls; i++)
        if (!im->o->controls[i] || im->o->controls[i]->graph != im->g)
            return mr_invalid("A control dependency is not a node of the graph");
    return NULL;
}

/* The order matters: everything that can fail and be undone comes before the library is changed. */
static mr_status *import_bytes(importer *im, mr_sv bytes, mr_import_results *results)
{
    MR_TRY(read_graph(im, bytes));
    MR_TRY(check_versions(im));
    MR_TRY(check_controls(im));
    /* Shape functions of some ops depend on the producer version. */
    im->g->versions.producer = MR_MIN(im->g->versions.producer, im->versions.producer);
    MR_TRY(index_maps(im));
    MR_TRY(index_names(im));
    MR_TRY(name_nodes(im));
    MR_TRY(make_parts(im));
    mr_assembly a = {.graph = im->g,
                     .parts = im->parts,
                     .n_parts = n_nodes(im),
                     .edges = im->edges.p,
                     .controls = im->o->controls,
                     .n_controls = im->o->n_controls,
                     .importing = true};
    MR_TRY(mr_assemble(&a));
    MR_TRY(fill_results(im, results));
    /* Last, because it is the first step that cannot be undone; it either succeeds or changes nothing. */
    MR_TRY(mr_library_copy(im->library, im->g->library));
    merge_versions(im);
    return NULL;
}

mr_status *mr_graph_import(mr_graph *g, mr_sv graph_def, const mr_import_options *options,
                           mr_import_results *results)
{
    static const mr_import_options none;
    mr_import_results own = {0};
    importer im = {.g = g, .o = options ? options : &none, .library = mr_library_new()};
    int n_old = g->nodes.n, n_held = g->held.n, producer = g->versions.producer;
    mr_status *st = import_bytes(&im, graph_def, &own);
    if (st) {
        mr_graph_truncate(g, n_old, n_held);
        g->versions.producer = producer;
    }
    importer_deinit(&im);
    if (st || !results)
        mr_import_results_deinit(&own);
    if (results)
        *results = own;
    return st;
}

mr_status *mr_graph_import_text(mr_graph *g, mr_sv pbtxt, const mr_import_options *options)
{
    mr_status *st = NULL;
    ProtobufCMessage *m = NULL;
    mr_str bytes = {0};
    MR_GO(mr_text_parse(&tensorflow__graph_def__descriptor, pbtxt, &m));
    MR_GO(mr_message_pack(m, &bytes));
    MR_GO(mr_graph_import(g, mr_str_view(&bytes), options, NULL));
out:
    mr_message_free(m);
    mr_str_deinit(&bytes);
    return st;
}
