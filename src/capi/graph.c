/* capi/graph.c -- TF_Graph: its nodes, shapes and definitions.
 *
 * Each TF_Graph has a lock that guards our graph inside. Operations are read without it: most of
 * their properties never change; the few that do (consumers, attrs) are read under the lock. */
#include "capi/internal.h"
#include "graph/graph_def.h"
#include "graph/library.h"

TF_Graph *TF_NewGraph(void)
{
    mr_capi_init();
    TF_Graph *g = mr_new(TF_Graph);
    mr_mutex_init(&g->mu);
    g->graph = mr_graph_new();
    g->graph->tag = g;
    return g;
}

void mr_capi_graph_release(TF_Graph *g)
{
    bool gone = g->deleted && g->n_sessions == 0;
    mr_unlock(&g->mu);
    if (!gone)
        return;
    g->graph->tag = NULL; /* others may still hold our graph */
    mr_graph_unref(g->graph);
    mr_imap_deinit(&g->updated);
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

void TF_SetRequireShapeInferenceFns(TF_Graph *graph, bool require)
{
    if (!graph)
        return;
    mr_lock(&graph->mu);
    graph->shapes_optional = !require;
    mr_unlock(&graph->mu);
}

mr_status *mr_capi_check_op(const TF_Graph *g, const TF_Operation *op)
{
    const mr_node *n = mr_capi_node(op);
    if (!g || !n || n->graph != g->graph)
        return mr_invalid("Node %s was not found in the graph", n ? n->name : "NULL");
    return NULL;
}

mr_status *mr_capi_check_output(const TF_Graph *g, TF_Output o)
{
    const mr_node *n = mr_capi_node(o.oper);
    MR_TRY(mr_capi_check_op(g, o.oper));
    if (o.index < 0 || o.index >= n->n_out)
        return mr_invalid("Node %s has %d outputs, there is no output %d", n->name, n->n_out,
                          o.index);
    return NULL;
}

mr_status *mr_capi_check_cycles(TF_Graph *g)
{
    mr_node **order = NULL;
    int n;
    if (MR_LIKELY(!atomic_load_explicit(&g->rewired, memory_order_acquire)))
        return NULL;
    mr_lock(&g->mu);
    mr_status *st = mr_graph_topological(g->graph, &order, &n);
    if (!st)
        atomic_store_explicit(&g->rewired, false, memory_order_release);
    mr_unlock(&g->mu);
    mr_free(order);
    return st;
}

/* ---- shapes ---- */

static mr_status *set_shape(TF_Graph *g, TF_Output o, const int64_t *dims, int n)
{
    const mr_pshape *s = &mr_pshape_unknown;
    MR_TRY(mr_capi_check_output(g, o));
    if (n > MR_MAX_RANK || (n > 0 && !dims))
        return mr_invalid("dims is NULL, or the rank %d is larger than %d", n, MR_MAX_RANK);
    for (int i = 0; i < n; i++)
        if (dims[i] < -1)
            return mr_invalid("Dimension %d of the shape is %lld", i, (long long)dims[i]);
    if (n >= 0)
        s = mr_pshape_of(&g->graph->arena, n, dims);
    return mr_out_refine_shape(mr_capi_out(o), s);
}

void TF_GraphSetTensorShape(TF_Graph *graph, TF_Output output, const int64_t *dims,
                            const int num_dims, TF_Status *status)
{
    mr_status *st = mr_capi_check_op(graph, output.oper); /* NULL graphs have no lock */
    if (!st) {
        mr_lock(&graph->mu);
        st = set_shape(graph, output, dims, num_dims);
        mr_unlock(&graph->mu);
    }
    mr_capi_set_status(status, st);
}

/* The shape of an output as it is now; shapes are immutable, so only finding it needs the lock. */
static mr_status *get_shape(TF_Graph *g, TF_Output o, const mr_pshape **out)
{
    *out = &mr_pshape_unknown;
    MR_TRY(mr_capi_check_output(g, o));
    mr_lock(&g->mu);
    *out = mr_out_shape(mr_capi_out(o));
    mr_unlock(&g->mu);
    return NULL;
}

int TF_GraphGetTensorNumDims(TF_Graph *graph, TF_Output output, TF_Status *status)
{
    const mr_pshape *s;
    mr_capi_set_status(status, get_shape(graph, output, &s));
    return s->rank;
}

static mr_status *copy_dims(const mr_pshape *s, int64_t *dims, int num_dims)
{
    if (num_dims != s->rank)
        return mr_invalid("Expected rank is %d but actual rank is %d", num_dims, s->rank);
    if (num_dims > 0 && !dims)
        return mr_invalid("dims is NULL although num_dims is %d", num_dims);
    for (int i = 0; i < num_dims; i++)
        dims[i] = s->dims[i];
    return NULL;
}

void TF_GraphGetTensorShape(TF_Graph *graph, TF_Output output, int64_t *dims, int num_dims,
                            TF_Status *status)
{
    const mr_pshape *s;
    mr_status *st = get_shape(graph, output, &s);
    mr_capi_set_status(status, st ? st : copy_dims(s, dims, num_dims));
}

/* ---- nodes ---- */

TF_Operation *TF_GraphOperationByName(TF_Graph *graph, const char *oper_name)
{
    if (!graph || !oper_name)
        return NULL;
    mr_lock(&graph->mu);
    mr_node *n = mr_graph_find(graph->graph, mr_sv_of(oper_name));
    mr_unlock(&graph->mu);
    return mr_capi_op(n);
}

TF_Operation *TF_GraphNextOperation(TF_Graph *graph, size_t *pos)
{
    mr_node *n = NULL;
    if (!graph || !pos)
        return NULL;
    mr_lock(&graph->mu);
    while (!n && *pos < (size_t)graph->graph->nodes.n)
        n = graph->graph->nodes.p[(*pos)++];
    mr_unlock(&graph->mu);
    return mr_capi_op(n);
}

/* ---- serialized ---- */

void TF_GraphToGraphDef(TF_Graph *graph, TF_Buffer *output_graph_def, TF_Status *status)
{
    mr_str bytes = {0};
    mr_status *st = graph ? NULL : mr_invalid("graph is NULL");
    if (!st) {
        mr_lock(&graph->mu);
        st = mr_graph_export(graph->graph, &bytes);
        mr_unlock(&graph->mu);
    }
    if (!st)
        st = mr_capi_buffer_fill(output_graph_def, &bytes);
    mr_str_deinit(&bytes);
    mr_capi_set_status(status, st);
}

void TF_GraphGetOpDef(TF_Graph *graph, const char *op_name, TF_Buffer *output_op_def,
                      TF_Status *status)
{
    mr_str bytes = {0};
    mr_status *st = graph && op_name ? NULL : mr_invalid("graph or op_name is NULL");
    if (!st) {
        mr_lock(&graph->mu);
        const mr_op_def *d = mr_library_op(graph->graph->library, mr_sv_of(op_name));
        if (d)
            mr_op_def_encode(d, &bytes);
        else
            st = mr_op_unknown(mr_sv_of(op_name));
        mr_unlock(&graph->mu);
    }
    if (!st)
        st = mr_capi_buffer_fill(output_op_def, &bytes);
    mr_capi_set_status(status, st);
}

void TF_GraphVersions(TF_Graph *graph, TF_Buffer *output_version_def, TF_Status *status)
{
    mr_str bytes = {0};
    mr_status *st = graph ? NULL : mr_invalid("graph is NULL");
    if (!st) {
        mr_lock(&graph->mu);
        mr_versions_encode(&graph->graph->versions, &bytes);
        mr_unlock(&graph->mu);
        st = mr_capi_buffer_fill(output_version_def, &bytes);
    }
    mr_capi_set_status(status, st);
}
