/* capi/operation.c -- the properties of an operation, except its attrs.
 *
 * Most of them never change after the operation is finished and are read without a lock. Its
 * consumers change when an operation is added, and its inputs when TF_UpdateEdge is used: those are
 * read under the lock of the graph. */
#include "capi/internal.h"
#include "graph/graph_def.h"
#include "graph/infer.h"
#include "millrace/front_end.h"

size_t mr_operation_index(const TF_Operation *oper) { return oper ? (size_t)mr_capi_node(oper)->id : SIZE_MAX; }
const char *TF_OperationName(TF_Operation *oper) { return oper ? mr_capi_node(oper)->name : ""; }
const char *TF_OperationOpType(TF_Operation *oper)
{
    return oper ? mr_capi_node(oper)->def->name : "";
}
const char *TF_OperationDevice(TF_Operation *oper)
{
    return oper ? mr_capi_node(oper)->device : "";
}

/* ---- outputs ---- */

int TF_OperationNumOutputs(TF_Operation *oper) { return oper ? mr_capi_node(oper)->n_out : 0; }

static bool has_output(const mr_node *n, int index) { return n && index >= 0 && index < n->n_out; }

TF_DataType TF_OperationOutputType(TF_Output oper_out)
{
    mr_out o = mr_capi_out(oper_out);
    return has_output(o.node, o.index) ? (TF_DataType)mr_out_type(o) : (TF_DataType)0;
}

typedef mr_status *range_of(const mr_node *n, const char *arg, int *start, int *count);

/* The number of tensors of an argument. */
static int list_length(const TF_Operation *oper, const char *arg, const char *what, range_of *range,
                       TF_Status *status)
{
    int start, count = -1;
    mr_status *st = NULL;
    if (!oper || !arg)
        st = mr_invalid("oper or arg_name is NULL");
    else
        st = range(mr_capi_node(oper), arg, &start, &count);
    if (st && mr_status_code(st) == MR_INVALID_ARGUMENT) {
        mr_status_free(st);
        st = mr_invalid("%s arg '%s' not found", what, arg ? arg : "");
    }
    mr_capi_set_status(status, st);
    return st ? -1 : count;
}

int TF_OperationOutputListLength(TF_Operation *oper, const char *arg_name, TF_Status *status)
{
    return list_length(oper, arg_name, "Output", mr_node_out_range, status);
}

static int control_outputs(const mr_node *n, TF_Operation **out, int max)
{
    int found = 0;
    for (int i = 0; i < n->uses.n; i++) {
        if (n->uses.p[i].output >= 0)
            continue;
        if (out && found < max)
            out[found] = mr_capi_op(n->uses.p[i].node);
        found++;
    }
    return found;
}

static int list_consumers(mr_out o, TF_Input *out, int max)
{
    int found = 0;
    for (int i = 0; i < o.node->uses.n; i++) {
        const mr_use *u = &o.node->uses.p[i];
        if (u->output != o.index)
            continue;
        if (out && found < max)
            out[found] = (TF_Input){mr_capi_op(u->node), u->input};
        found++;
    }
    return found;
}

int TF_OperationOutputConsumers(TF_Output oper_out, TF_Input *consumers_out, int max_consumers)
{
    mr_out o = mr_capi_out(oper_out);
    if (!has_output(o.node, o.index))
        return 0;
    mr_mutex *mu = mr_capi_lock(o.node);
    int n = list_consumers(o, consumers_out, max_consumers);
    mr_capi_unlock(mu);
    return n;
}

int TF_OperationOutputNumConsumers(TF_Output oper_out)
{
    return TF_OperationOutputConsumers(oper_out, NULL, 0);
}

int TF_OperationGetControlOutputs(TF_Operation *oper, TF_Operation **out, int max_control_outputs)
{
    if (!oper)
        return 0;
    mr_mutex *mu = mr_capi_lock(mr_capi_node(oper));
    int n = control_outputs(mr_capi_node(oper), out, max_control_outputs);
    mr_capi_unlock(mu);
    return n;
}

int TF_OperationNumControlOutputs(TF_Operation *oper)
{
    return TF_OperationGetControlOutputs(oper, NULL, 0);
}

/* ---- inputs ---- */

int TF_OperationNumInputs(TF_Operation *oper) { return oper ? mr_capi_node(oper)->n_in : 0; }

static bool has_input(const mr_node *n, int index) { return n && index >= 0 && index < n->n_in; }

TF_DataType TF_OperationInputType(TF_Input oper_in)
{
    const mr_node *n = mr_capi_node(oper_in.oper);
    return has_input(n, oper_in.index) ? (TF_DataType)n->in_types[oper_in.index] : (TF_DataType)0;
}

int TF_OperationInputListLength(TF_Operation *oper, const char *arg_name, TF_Status *status)
{
    return list_length(oper, arg_name, "Input", mr_node_in_range, status);
}

TF_Output TF_OperationInput(TF_Input oper_in)
{
    const mr_node *n = mr_capi_node(oper_in.oper);
    if (!has_input(n, oper_in.index))
        return (TF_Output){NULL, -1};
    mr_mutex *mu = mr_capi_lock(n);
    mr_out o = n->in[oper_in.index];
    mr_capi_unlock(mu);
    return mr_capi_output(o);
}

void TF_OperationAllInputs(TF_Operation *oper, TF_Output *inputs, int max_inputs)
{
    const mr_node *n = mr_capi_node(oper);
    if (!n || !inputs)
        return;
    mr_mutex *mu = mr_capi_lock(n);
    for (int i = 0; i < n->n_in && i < max_inputs; i++)
        inputs[i] = mr_capi_output(n->in[i]);
    mr_capi_unlock(mu);
}

int TF_OperationGetControlInputs(TF_Operation *oper, TF_Operation **out, int max_control_inputs)
{
    const mr_node *n = mr_capi_node(oper);
    if (!n)
        return 0;
    mr_mutex *mu = mr_capi_lock(n);
    int count = n->n_ctrl;
    for (int i = 0; out && i < count && i < max_control_inputs; i++)
        out[i] = mr_capi_op(n->ctrl[i]);
    mr_capi_unlock(mu);
    return count;
}

int TF_OperationNumControlInputs(TF_Operation *oper)
{
    return TF_OperationGetControlInputs(oper, NULL, 0);
}

/* ---- the whole ---- */

static mr_status *encode_node(mr_node *n, mr_str *out) MR_NO_TSA
{
    mr_mutex *mu = mr_capi_lock(n);
    const TF_Graph *g = n->graph->tag;
    mr_status *st = mr_node_encode_full(n, g ? &g->updated : NULL, out);
    mr_capi_unlock(mu);
    return st;
}

void TF_OperationToNodeDef(TF_Operation *oper, TF_Buffer *output_node_def, TF_Status *status)
{
    mr_str bytes = {0};
    mr_status *st = NULL;
    if (oper) {
        st = encode_node(mr_capi_node(oper), &bytes);
    } else {
        st = mr_invalid("oper is NULL");
    }
    if (!st)
        st = mr_capi_buffer_fill(output_node_def, &bytes);
    mr_str_deinit(&bytes);
    mr_capi_set_status(status, st);
}

unsigned char TF_TryEvaluateConstant(TF_Graph *graph, TF_Output output, TF_Tensor **result,
                                     TF_Status *status)
{
    mr_tensor *t = NULL;
    TF_Tensor *own = NULL;
    mr_status *st = mr_capi_check_output(graph, output);
    if (!st) {
        mr_lock(&graph->mu);
        st = mr_out_value(mr_capi_out(output), &t);
        mr_unlock(&graph->mu);
    }
    if (!st && t)
        st = mr_capi_tensor_own(t, &own);
    bool known = own != NULL;
    if (result)
        *result = own;
    else
        TF_DeleteTensor(own);
    mr_capi_set_status(status, st);
    return known;
}
