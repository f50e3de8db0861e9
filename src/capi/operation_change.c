/* capi/operation_change.c -- changes finished operations.
 *
 * TensorFlow lets a client write anything here and finds out when it runs. We reject changes that
 * would make the graph inconsistent: attrs that the op does not have or of another kind, attrs that
 * determine the types of its inputs and outputs, and incompatible shapes. */
#include "capi/internal.h"
#include "graph/graph_def.h"

/* ---- edges ---- */

/* Replaces an input of a finished operation. Records it in g->updated, because the graph may now have a cycle. */
static mr_status *update_edge(TF_Graph *g, TF_Output src, TF_Input dst) MR_REQUIRES(g->mu)
{
    mr_node *n = mr_capi_node(dst.oper), *from = mr_capi_node(src.oper);
    MR_TRY(mr_capi_check_op(g, src.oper));
    MR_TRY(mr_capi_check_op(g, dst.oper));
    if (src.index < 0 || src.index >= from->n_out)
        return mr_error(MR_OUT_OF_RANGE,
                        "Cannot update edge. Output index [%d] is greater than the number of total "
                        "outputs [%d].",
                        src.index, from->n_out);
    if (dst.index < 0 || dst.index >= n->n_in)
        return mr_error(MR_OUT_OF_RANGE,
                        "Cannot update edge. Input index [%d] is greater than the number of total "
                        "inputs [%d].",
                        dst.index, n->n_in);
    const mr_pshape *now = mr_out_shape(mr_capi_out(src));
    const mr_pshape *old =
        n->in[dst.index].node ? mr_out_shape(n->in[dst.index]) : &mr_pshape_unknown;
    if (!mr_pshape_compatible(old, now))
        return mr_invalid("Cannot update edge, incompatible shapes: %s and %s.",
                          MR_PSHAPE_TEXT(old), MR_PSHAPE_TEXT(now));
    MR_TRY(mr_node_set_input(n, dst.index, mr_capi_out(src)));
    mr_imap_put(&g->updated, mr_input_key(n, dst.index), g);
    return NULL;
}

void TF_UpdateEdge(TF_Graph *graph, TF_Output new_src, TF_Input dst, TF_Status *status)
{
    mr_status *st = graph ? NULL : mr_invalid("graph is NULL");
    if (!st) {
        mr_lock(&graph->mu);
        st = update_edge(graph, new_src, dst);
        atomic_store_explicit(&graph->rewired, true, memory_order_release);
        mr_unlock(&graph->mu);
    }
    mr_capi_set_status(status, st);
}

/* Whether this is an operation of the graph, for functions without a status. */
static bool is_of(const TF_Graph *g, const TF_Operation *op)
{
    return g && op && mr_capi_node(op)->graph == g->graph;
}

void TF_AddOperationControlInput(TF_Graph *graph, TF_Operation *op, TF_Operation *input)
{
    if (!is_of(graph, op) || !is_of(graph, input))
        return;
    mr_lock(&graph->mu);
    mr_node_add_control(mr_capi_node(op), mr_capi_node(input));
    atomic_store_explicit(&graph->rewired, true, memory_order_release);
    mr_unlock(&graph->mu);
}

void TF_RemoveAllControlInputs(TF_Graph *graph, TF_Operation *op)
{
    mr_node *n = mr_capi_node(op);
    if (!is_of(graph, op))
        return;
    mr_lock(&graph->mu);
    while (n->n_ctrl > 0)
        mr_node_remove_control(n, n->ctrl[n->n_ctrl - 1]);
    mr_unlock(&graph->mu);
}

void TF_SetRequestedDevice(TF_Graph *graph, TF_Operation *op, const char *device)
{
    if (!is_of(graph, op))
        return;
    mr_lock(&graph->mu);
    mr_node_set_device(mr_capi_node(op), device);
    mr_unlock(&graph->mu);
}

/* ---- attrs ---- */

static bool attr_is(const char *attr, const char *name) { return attr && strcmp(attr, name) == 0; }

static bool arg_hangs_on(const mr_arg_def *args, int n, const char *attr)
{
    for (int i = 0; i < n; i++)
        if (attr_is(args[i].type_attr, attr) || attr_is(args[i].number_attr, attr) ||
            attr_is(args[i].type_list_attr, attr))
            return true;
    return false;
}

/* Whether the attr determines the inputs and outputs of the operation, so that it must not change. */
static bool types_hang_on(const mr_node *n, const char *attr)
{
    return arg_hangs_on(n->def->in, n->def->n_in, attr) ||
           arg_hangs_on(n->def->out, n->def->n_out, attr);
}

static mr_status *check_attr(const mr_node *n, const char *name, const mr_attr *v)
{
    const mr_attr_def *d = mr_op_def_attr(n->def, name);
    if (!d && name[0] == '_')
        return NULL; /* clients may set any attr that starts with _ */
    if (!d)
        return mr_invalid("Op %s of operation '%s' has no attr named '%s'", n->def->name, n->name,
                          name);
    MR_TRY(mr_attr_def_check(d, v));
    const mr_attr *have = mr_node_attr(n, name);
    if (types_hang_on(n, name) && have && !mr_attr_eq(have, v))
        return mr_invalid("Attr '%s' of operation '%s' cannot change: its inputs or outputs depend "
                          "on it",
                          name, n->name);
    return NULL;
}

/* Shapes follow from attrs; when the new ones cannot be, the old attr stays. */
static mr_status *set_attr(mr_node *n, const char *name, const mr_attr *v)
{
    MR_TRY(check_attr(n, name, v));
    const mr_attr *have = mr_node_attr(n, name);
    mr_attr old = have ? *have : (mr_attr){0};
    mr_node_set_attr(n, name, *v);
    mr_status *st = name[0] == '_' ? NULL : mr_node_infer(n);
    if (st && have)
        mr_node_set_attr(n, name, old);
    else if (st)
        mr_node_clear_attr(n, name);
    return st;
}

void TF_SetAttr(TF_Graph *graph, TF_Operation *op, const char *attr_name,
                TF_Buffer *attr_value_proto, TF_Status *status)
{
    mr_arena a = {0};
    mr_attr v;
    mr_status *st = NULL;
    MR_GO(mr_capi_check_op(graph, op));
    if (!attr_name)
        MR_GO(mr_invalid("attr_name is NULL"));
    if ((st = mr_attr_decode(&a, mr_capi_buffer_view(attr_value_proto), &v))) {
        mr_status_free(st);
        MR_GO(mr_invalid("Unparseable AttrValue proto"));
    }
    mr_lock(&graph->mu);
    st = set_attr(mr_capi_node(op), attr_name, &v);
    mr_unlock(&graph->mu);
out:
    mr_arena_deinit(&a);
    mr_capi_set_status(status, st);
}

void TF_ClearAttr(TF_Graph *graph, TF_Operation *op, const char *attr_name, TF_Status *status)
{
    mr_status *st = mr_capi_check_op(graph, op);
    if (!st && !attr_name)
        st = mr_invalid("attr_name is NULL");
    if (!st && types_hang_on(mr_capi_node(op), attr_name))
        st = mr_invalid("Attr '%s' of operation '%s' cannot be removed: its inputs or outputs depend on it",
                        attr_name, mr_capi_node(op)->name);
    if (!st) {
        mr_lock(&graph->mu);
        mr_node_clear_attr(mr_capi_node(op), attr_name);
        mr_unlock(&graph->mu);
    }
    mr_capi_set_status(status, st);
}
