/* capi/graph.c -- TF_Graph: its nodes, shapes and definitions. */
#include "capi/internal.h"
#include "graph/graph_def.h"

TF_Graph *TF_NewGraph(void)
{
    mr_capi_init();
    TF_Graph *g = mr_new(TF_Graph);
    mr_mutex_init(&g->mu);
    g->graph = mr_graph_new();
    return g;
}

void mr_capi_graph_release(TF_Graph *g)
{
    bool gone = g->deleted && g->n_sessions == 0;
    mr_unlock(&g->mu);
    if (!gone)
        return;
    mr_graph_unref(g->graph);
    mr_mutex_deinit(&g->mu);
    mr_free(g);
}

void TF_DeleteGraph(TF_Graph *graph)
{
    if (!graph)
        return;
    mr_lock(&graph->mu);
    graph->deleted = true;
    mr_capi_graph_release(graph);
}

/* ---- shapes ---- */

static mr_status *check_output(const TF_Graph *g, TF_Output o)
{
    const mr_node *n = mr_capi_node(o.oper);
    if (!n || n->graph != g->graph)
        return mr_invalid("Node %s was not found in the graph", n ? n->name : "NULL");
    if (o.index < 0 || o.index >= n->n_out)
        return mr_invalid("Node %s has %d outputs, there is no output %d", n->name, n->n_out, o.index);
    return NULL;
}

void TF_GraphSetTensorShape(TF_Graph *graph, TF_Output output, const int64_t *dims, const int num_dims,
                            TF_Status *status)
{
    mr_lock(&graph->mu);
    mr_status *st = check_output(graph, output);
    if (!st && num_dims > MR_MAX_RANK)
        st = mr_invalid("a shape of %d dimensions", num_dims);
    if (!st) {
        const mr_pshape *s = num_dims < 0 ? &mr_pshape_unknown : mr_pshape_of(&graph->graph->arena, num_dims, dims);
        st = mr_out_refine_shape(mr_capi_out(output), s);
    }
    mr_unlock(&graph->mu);
    mr_capi_set_status(status, st);
}

int TF_GraphGetTensorNumDims(TF_Graph *graph, TF_Output output, TF_Status *status)
{
    mr_lock(&graph->mu);
    mr_status *st = check_output(graph, output);
    int rank = st ? -1 : mr_out_shape(mr_capi_out(output))->rank;
    mr_unlock(&graph->mu);
    mr_capi_set_status(status, st);
    return rank;
}

static mr_status *copy_dims(const mr_pshape *s, int64_t *dims, int num_dims)
{
    if (num_dims != s->rank)
        return mr_invalid("Expected rank is %d but actual rank is %d", num_dims, s->rank);
    for (int i = 0; i < num_dims; i++)
        dims[i] = s->dims[i];
    return NULL;
}

void TF_GraphGetTensorShape(TF_Graph *graph, TF_Output output, int64_t *dims, int num_dims, TF_Status *status)
{
    mr_lock(&graph->mu);
    mr_status *st = check_output(graph, output);
    if (!st)
        st = copy_dims(mr_out_shape(mr_capi_out(output)), dims, num_dims);
    mr_unlock(&graph->mu);
    mr_capi_set_status(status, st);
}

/* ---- nodes ---- */

TF_Operation *TF_GraphOperationByName(TF_Graph *graph, const char *oper_name)
{
    mr_lock(&graph->mu);
    mr_node *n = mr_graph_find(graph->graph, mr_sv_of(oper_name));
    mr_unlock(&graph->mu);
    return mr_capi_op(n);
}

TF_Operation *TF_GraphNextOperation(TF_Graph *graph, size_t *pos)
{
    mr_node *n = NULL;
    mr_lock(&graph->mu);
    while (!n && *pos < (size_t)graph->graph->nodes.n)
        n = graph->graph->nodes.p[(*pos)++];
    mr_unlock(&graph->mu);
    return mr_capi_op(n);
}

void TF_UpdateEdge(TF_Graph *graph, TF_Output new_src, TF_Input dst, TF_Status *status)
{
    mr_lock(&graph->mu);
    mr_node *n = mr_capi_node(dst.oper);
    mr_status *st = check_output(graph, new_src);
    if (!st && (!n || n->graph != graph->graph || dst.index < 0 || dst.index >= n->n_in))
        st = mr_invalid("input %d of %s is not in the graph", dst.index, n ? n->name : "NULL");
    if (!st)
        st = mr_node_set_input(n, dst.index, mr_capi_out(new_src));
    mr_unlock(&graph->mu);
    mr_capi_set_status(status, st);
}

/* ---- serialized ---- */

void TF_GraphToGraphDef(TF_Graph *graph, TF_Buffer *output_graph_def, TF_Status *status)
{
    mr_str bytes = {0};
    mr_lock(&graph->mu);
    mr_status *st = mr_graph_export(graph->graph, &bytes);
    mr_unlock(&graph->mu);
    if (!st)
        st = mr_capi_buffer_fill(output_graph_def, &bytes);
    mr_str_deinit(&bytes);
    mr_capi_set_status(status, st);
}

void TF_GraphGetOpDef(TF_Graph *graph, const char *op_name, TF_Buffer *output_op_def, TF_Status *status)
{
    mr_str bytes = {0};
    mr_status *st = NULL;
    mr_lock(&graph->mu);
    const mr_op_def *d = mr_library_op(graph->graph->library, mr_sv_of(op_name));
    if (d)
        mr_op_def_encode(d, &bytes);
    else
        st = mr_error(MR_NOT_FOUND, "Op type not registered '%s'", op_name);
    mr_unlock(&graph->mu);
    if (!st)
        st = mr_capi_buffer_fill(output_op_def, &bytes);
    mr_capi_set_status(status, st);
}

void TF_GraphVersions(TF_Graph *graph, TF_Buffer *output_version_def, TF_Status *status)
{
    mr_str bytes = {0};
    mr_lock(&graph->mu);
    mr_versions_encode(&graph->graph->versions, &bytes);
    mr_unlock(&graph->mu);
    mr_capi_set_status(status, mr_capi_buffer_fill(output_version_def, &bytes));
}
