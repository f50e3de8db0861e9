/* graph/export.c -- writes nodes of a graph as a GraphDef.
 *
 * Attrs are written sorted by name and inputs in their order, data first, so equal graphs give
 * equal bytes. */
#include "graph/graph_def.h"
#include "graph/wire.h"
#include "proto/graph.pb-c.h"
#include "wire/message.h"
#include "wire/text_format.h"

static void write_input(mr_pb_writer *w, mr_out o, bool full, mr_str *text)
{
    if (o.index == 0 && !full) { /* the canonical form of output 0 is the bare name */
        mr_pb_put_bytes(w, 3, mr_sv_of(o.node->name));
        return;
    }
    mr_str_clear(text);
    if (o.index < 0)
        mr_str_printf(text, "^%s", o.node->name);
    else
        mr_str_printf(text, "%s:%d", o.node->name, o.index);
    mr_pb_put_bytes(w, 3, mr_str_view(text));
}

/* `full` (may be NULL) names the inputs whose output number is written even if it is 0. */
static mr_status *write_node(mr_pb_writer *w, const mr_node *n, const mr_imap *full)
{
    mr_str text = {0};
    mr_status *st = NULL;
    mr_pb_opt_bytes(w, 1, mr_sv_of(n->name));
    mr_pb_opt_bytes(w, 2, mr_sv_of(n->def->name));
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i].node)
            MR_GO(mr_invalid("Node '%s': input %d is not connected", n->name, i));
        write_input(w, n->in[i], full && mr_imap_get(full, mr_input_key(n, i)), &text);
    }
    for (int i = 0; i < n->n_ctrl; i++)
        write_input(w, (mr_out){n->ctrl[i], -1}, false, &text);
    mr_pb_opt_bytes(w, 4, mr_sv_of(n->device));
    MR_GO(mr_named_attrs_write(n->attrs, n->n_attrs, 5, w));
    mr_pb_put_raw(w, n->extra.p, n->extra.n);
out:
    mr_str_deinit(&text);
    return st;
}

mr_status *mr_node_encode_full(const mr_node *n, const mr_imap *full, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    MR_TRY(write_node(&w, n, full));
    return mr_pb_writer_status(&w, "NodeDef");
}

mr_status *mr_node_encode(const mr_node *n, mr_str *out) { return mr_node_encode_full(n, NULL, out); }

static void write_versions(mr_pb_writer *w, const mr_versions *v)
{
    mr_pb_opt_varint(w, 1, (uint64_t)(int64_t)v->producer);
    mr_pb_opt_varint(w, 2, (uint64_t)(int64_t)v->min_consumer);
    mr_pb_put_packed_int32(w, 3, v->bad_consumers, (size_t)v->n_bad);
}

void mr_versions_encode(const mr_versions *v, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    write_versions(&w, v);
}

/* The whole library is exported each time: new nodes of a session may call any function, and adding the same function
 * again is allowed. */
mr_status *mr_graph_export_since(const mr_graph *g, int first, mr_str *out)
{
    mr_pb_writer w;
    size_t mark;
    mr_pb_writer_init(&w, out);
    for (int i = first; i < g->nodes.n; i++) {
        if (!g->nodes.p[i])
            continue;
        mark = mr_pb_begin(&w, 1);
        MR_TRY(write_node(&w, g->nodes.p[i], NULL));
        mr_pb_end(&w, mark);
    }
    mark = mr_pb_begin(&w, 2);
    MR_TRY(mr_library_encode(g->library, out));
    if (out->n == mark && !w.failed)
        out->n = mark - 2; /* omits an empty library: its tag and length are one byte each */
    else
        mr_pb_end(&w, mark);
    mark = mr_pb_begin(&w, 4);
    write_versions(&w, &g->versions);
    mr_pb_end(&w, mark);
    return mr_pb_writer_status(&w, "GraphDef");
}

mr_status *mr_graph_export(const mr_graph *g, mr_str *out)
{
    return mr_graph_export_since(g, 0, out);
}

mr_status *mr_graph_export_text(const mr_graph *g, mr_str *out)
{
    mr_status *st = NULL;
    ProtobufCMessage *m = NULL;
    mr_str bytes = {0};
    MR_GO(mr_graph_export(g, &bytes));
    MR_GO(
        mr_message_unpack(&tensorflow__graph_def__descriptor, mr_str_view(&bytes), "GraphDef", &m));
    MR_GO(mr_text_print(m, out));
out:
    mr_message_free(m);
    mr_str_deinit(&bytes);
    return st;
}
