/* cli/inspect_graph.c -- describes the inputs, outputs and ops of a graph, and of MetaGraphs and SavedModels.
 *
 * A graph with unknown ops cannot be imported; then only its NodeDefs are described. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/columns.h"
#include "base/file.h"
#include "base/map.h"
#include "base/memory.h"
#include "cli/inspect.h"
#include "graph/graph_def.h"
#include "proto/saved_model.pb-c.h"
#include "store/saved_model.h"
#include "wire/message.h"

/* ---- ops by frequency ---- */

typedef struct op_count {
    const char *op;
    int n;
} op_count;
typedef MR_VEC(op_count) op_counts;

static void count_op(op_counts *c, mr_map *at, const char *op)
{
    intptr_t i = (intptr_t)mr_map_getz(at, op);
    if (i == 0) {
        mr_vec_push(c, (op_count){op, 0});
        i = c->n;
        mr_map_putz(at, op, (void *)i);
    }
    c->p[i - 1].n++;
}

static int more_first(const void *a, const void *b)
{
    const op_count *x = a, *y = b;
    return x->n != y->n ? y->n - x->n : strcmp(x->op, y->op);
}

static void print_ops(op_counts *c, mr_str *out)
{
    enum { A_LINE = 5 };
    if (c->n)
        qsort(c->p, (size_t)c->n, sizeof *c->p, more_first);
    mr_str_printf(out, "ops      %d kinds\n", c->n);
    for (int i = 0; i < c->n; i++)
        mr_str_printf(out, "%s%s x %d%s", i % A_LINE ? "" : "  ", c->p[i].op, c->p[i].n,
                      i + 1 == c->n || i % A_LINE == A_LINE - 1 ? "\n" : ", ");
}

/* ---- a graph that could be imported ---- */

static void print_node(const mr_node *n, mr_str *out)
{
    mr_str_printf(out, "%s = %s(", n->name, n->def->name);
    for (int i = 0; i < n->n_in; i++)
        mr_str_printf(out, n->in[i].index ? "%s%s:%d" : "%s%s", i ? ", " : "", n->in[i].node->name, n->in[i].index);
    for (int i = 0; i < n->n_ctrl; i++)
        mr_str_printf(out, "%s^%s", i || n->n_in ? ", " : "", n->ctrl[i]->name);
    mr_str_appendz(out, ")");
    for (int i = 0; i < n->n_out; i++)
        mr_str_printf(out, "%s%s%s", i ? ", " : " -> ", mr_dtype_name(n->out_types[i]), MR_PSHAPE_TEXT(n->out_shapes[i]));
    mr_str_appendc(out, '\n');
}

static bool is_input(const mr_node *n) { return strncmp(n->def->name, "Placeholder", 11) == 0; }

static bool is_variable(const mr_node *n)
{
    return mr_node_is(n, "VarHandleOp") || mr_node_is(n, "VariableV2") || mr_node_is(n, "Variable");
}

/* Whether the node is an output of the graph: it has a value that no other node uses. */
static bool is_output(const mr_node *n, const bool *used)
{
    return n->n_out > 0 && !used[n->id] && !is_input(n) && !is_variable(n) && !mr_dtype_is_ref(n->out_types[0]);
}

static bool *find_used(const mr_graph *g)
{
    bool *used = mr_new_array(bool, g->nodes.n + 1);
    for (int k = 0; k < g->nodes.n; k++) {
        const mr_node *n = g->nodes.p[k];
        for (int i = 0; i < n->n_in; i++)
            used[n->in[i].node->id] = true;
        for (int i = 0; i < n->n_ctrl; i++)
            used[n->ctrl[i]->id] = true;
    }
    return used;
}

static void add_row(mr_columns *c, const char *what, const mr_node *n, int out)
{
    const mr_pshape *shape = n->out_shapes[out];
    int type = n->out_types[out];
    const mr_handle_info *h = n->out_handles ? n->out_handles[out] : NULL;
    if (h && h->n == 1) { /* show the type and shape of what the handle refers to */
        type = h->parts[0].dtype;
        shape = h->parts[0].shape;
    }
    mr_columns_row(c, what, n->name, mr_dtype_name(mr_dtype_base(type)), MR_PSHAPE_TEXT(shape));
}

static double const_bytes(const mr_graph *g, int *n)
{
    double bytes = 0;
    *n = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const mr_attr *v = mr_node_is(g->nodes.p[i], "Const") ? mr_node_attr(g->nodes.p[i], "value") : NULL;
        if (!v || v->kind != MR_ATTR_TENSOR)
            continue;
        bytes += v->tensor->raw.p ? (double)v->tensor->raw.n : v->tensor->t ? (double)mr_tensor_bytes(v->tensor->t) : 0;
        (*n)++;
    }
    return bytes;
}

/* Prints the inputs, variables and outputs, at most `most` lines of each. */
static void print_ends(const mr_graph *g, int most, mr_str *out)
{
    static const char *const names[] = {"input", "variable", "output"};
    mr_columns rows = {0};
    bool *used = find_used(g);
    for (int what = 0; what < MR_COUNT(names); what++) {
        int n_left_out = 0, n_shown = 0;
        for (int i = 0; i < g->nodes.n; i++) {
            const mr_node *n = g->nodes.p[i];
            if (!(what == 0 ? is_input(n) : what == 1 ? is_variable(n) : is_output(n, used)))
                continue;
            if (n_shown++ < most)
                add_row(&rows, names[what], n, 0);
            else
                n_left_out++;
        }
        if (n_left_out) {
            char *more = mr_printf("and %d more: --all shows them", n_left_out);
            mr_columns_row(&rows, names[what], more);
            mr_free(more);
        }
    }
    mr_columns_print(&rows, 0, out);
    mr_free(used);
}

static void print_graph(const mr_graph *g, const mr_inspect_options *o, mr_str *out)
{
    enum { MOST = 20 };
    op_counts ops = {0};
    mr_map at = {0};
    char size[32];
    int n_consts;
    for (int i = 0; i < g->nodes.n; i++)
        count_op(&ops, &at, g->nodes.p[i]->def->name);
    double bytes = const_bytes(g, &n_consts);
    mr_str_printf(out, "graph    %d nodes, %d functions, producer %d\n", g->nodes.n, mr_library_count(g->library), g->versions.producer);
    mr_str_printf(out, "consts   %d tensors, %s\n", n_consts, mr_bytes_text(bytes, size));
    print_ends(g, o->all ? INT_MAX : MOST, out);
    print_ops(&ops, out);
    for (int i = 0; i < g->nodes.n && o->all; i++)
        print_node(g->nodes.p[i], out);
    mr_vec_deinit(&ops);
    mr_map_deinit(&at);
}

/* ---- a graph that could not be imported ---- */

/* Describes a graph from its NodeDefs. `why` is the error of the import. */
static mr_status *print_raw(mr_sv graph_def, const mr_status *why, mr_str *out)
{
    Tensorflow__GraphDef *d;
    op_counts ops = {0};
    mr_map at = {0};
    MR_TRY(mr_message_unpack(&tensorflow__graph_def__descriptor, graph_def, "GraphDef", (ProtobufCMessage **)&d));
    if (d->n_node == 0 && !d->library && !d->versions) {
        mr_message_free(&d->base);
        return mr_invalid("not a graph, checkpoint, SavedModel, TFRecord or event file");
    }
    for (size_t i = 0; i < d->n_node; i++)
        count_op(&ops, &at, d->node[i]->op);
    mr_str_printf(out, "graph    %zu nodes, %zu functions, producer %d\n", d->n_node, d->library ? d->library->n_function : 0,
                  d->versions ? d->versions->producer : 0);
    mr_str_printf(out, "note     the graph cannot be imported: %s\n", mr_status_message(why));
    print_ops(&ops, out);
    mr_vec_deinit(&ops);
    mr_map_deinit(&at);
    mr_message_free(&d->base);
    return NULL;
}

mr_status *mr_inspect_graph(mr_sv graph_def, const mr_inspect_options *o, mr_str *out)
{
    mr_graph *g = mr_graph_new();
    mr_status *why = mr_graph_import(g, graph_def, NULL, NULL), *st = NULL;
    if (why)
        st = print_raw(graph_def, why, out);
    else
        print_graph(g, o, out);
    mr_status_free(why);
    mr_graph_unref(g);
    return st;
}

/* ---- MetaGraphs ---- */

static void add_tensor(mr_columns *c, const char *what, const char *name, const Tensorflow__TensorInfo *t)
{
    mr_str shape = {0};
    const Tensorflow__TensorShapeProto *s = t ? t->tensor_shape : NULL;
    bool known = s && !s->unknown_rank;
    mr_str_appendz(&shape, known ? "[" : "?");
    for (size_t i = 0; known && i < s->n_dim; i++)
        if (s->dim[i]->size < 0)
            mr_str_printf(&shape, "%s?", i ? "," : "");
        else
            mr_str_printf(&shape, "%s%lld", i ? "," : "", (long long)s->dim[i]->size);
    mr_str_appendz(&shape, known ? "]" : "");
    mr_columns_row(c, what, name, t ? mr_dtype_name(t->dtype) : "", mr_str_z(&shape),
                   t && t->encoding_case == TENSORFLOW__TENSOR_INFO__ENCODING_NAME ? t->name : "(several tensors)");
    mr_str_deinit(&shape);
}

static mr_status *print_signature(mr_named_bytes s, mr_str *out)
{
    Tensorflow__SignatureDef *d;
    mr_columns rows = {0};
    MR_TRY(mr_message_unpack(&tensorflow__signature_def__descriptor, s.bytes, "SignatureDef", (ProtobufCMessage **)&d));
    mr_str_printf(out, "signature %.*s%s%s\n", MR_SV_ARG(s.name), d->method_name[0] ? "  " : "", d->method_name);
    for (size_t i = 0; i < d->n_inputs; i++)
        add_tensor(&rows, "takes", d->inputs[i]->key, d->inputs[i]->value);
    for (size_t i = 0; i < d->n_outputs; i++)
        add_tensor(&rows, "gives", d->outputs[i]->key, d->outputs[i]->value);
    mr_columns_print(&rows, 2, out);
    mr_message_free(&d->base);
    return NULL;
}

static mr_status *print_asset(mr_sv bytes, mr_str *out)
{
    Tensorflow__AssetFileDef *a;
    MR_TRY(mr_message_unpack(&tensorflow__asset_file_def__descriptor, bytes, "AssetFileDef", (ProtobufCMessage **)&a));
    mr_str_printf(out, "asset    %s\n", a->filename);
    mr_message_free(&a->base);
    return NULL;
}

static mr_status *print_meta(const mr_meta_graph *m, const mr_inspect_options *o, mr_str *out)
{
    mr_str_appendz(out, "tags     ");
    mr_meta_graph_print_tags(m, out);
    if (m->tensorflow_version.n)
        mr_str_printf(out, "  written by TensorFlow %.*s", MR_SV_ARG(m->tensorflow_version));
    mr_str_printf(out, "%s\n", m->object_graph.n ? "  with an object graph" : "");
    for (int i = 0; i < m->signatures.n; i++)
        MR_TRY(print_signature(m->signatures.p[i], out));
    for (int i = 0; i < m->assets.n; i++)
        MR_TRY(print_asset(m->assets.p[i], out));
    for (int i = 0; i < m->collections.n; i++)
        mr_str_printf(out, "%s%.*s%s", i ? ", " : "collections ", MR_SV_ARG(m->collections.p[i].name),
                      i + 1 == m->collections.n ? "\n" : "");
    return mr_inspect_graph(m->graph_def, o, out);
}

mr_status *mr_inspect_meta_graph(mr_sv meta_graph_def, const mr_inspect_options *o, mr_str *out)
{
    mr_meta_graph m;
    mr_status *st = mr_meta_graph_open(meta_graph_def, &m);
    if (!st)
        st = print_meta(&m, o, out);
    mr_meta_graph_deinit(&m);
    return st;
}

mr_status *mr_inspect_saved_model(const char *dir, const mr_inspect_options *o, mr_str *out)
{
    mr_saved_model m;
    char *prefix = mr_printf("%s/variables/variables", dir), *index = mr_printf("%s.index", prefix);
    mr_status *st = mr_saved_model_read(dir, &m);
    for (int i = 0; !st && i < m.graphs.n; i++) {
        mr_str_appendz(out, i ? "\n" : "");
        st = print_meta(&m.graphs.p[i], o, out);
    }
    if (!st && mr_file_exists(index)) {
        mr_str_appendz(out, "\nvariables\n");
        st = mr_inspect_checkpoint(prefix, out);
    }
    if (!st)
        mr_saved_model_deinit(&m);
    mr_free(prefix);
    mr_free(index);
    return st;
}
