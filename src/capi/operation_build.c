/* capi/operation_build.c -- TF_NewOperation ... TF_FinishOperation.
 *
 * A description is a builder of ours and one more error: what the C API itself rejects (a NULL, a
 * shape of rank 300) before it reaches the builder. The builder looks at the graph only when the
 * operation is finished, so only that takes the graph's lock; the variants for callers that hold it
 * already differ only in that. */
#include "capi/internal.h"

TF_OperationDescription *TF_NewOperation(TF_Graph *graph, const char *op_type,
                                         const char *oper_name)
{
    if (!graph)
        return NULL;
    TF_OperationDescription *d = mr_new(TF_OperationDescription);
    d->graph = graph;
    d->b = mr_node_begin(graph->graph, op_type ? op_type : "", oper_name ? oper_name : "");
    mr_nb_client(d->b);
    return d;
}

TF_OperationDescription *TF_NewOperationLocked(TF_Graph *graph, const char *op_type,
                                               const char *oper_name)
{
    return TF_NewOperation(graph, op_type, oper_name);
}

void TF_SetDevice(TF_OperationDescription *desc, const char *device)
{
    if (desc)
        mr_nb_device(desc->b, device);
}

void TF_AddInput(TF_OperationDescription *desc, TF_Output input)
{
    if (desc)
        mr_nb_input(desc->b, mr_capi_out(input));
}

void TF_AddInputList(TF_OperationDescription *desc, const TF_Output *inputs, int num_inputs)
{
    if (!desc)
        return;
    if (num_inputs < 0 || (num_inputs && !inputs))
        mr_status_update(&desc->st, mr_invalid("inputs is NULL, or its length %d is negative", num_inputs));
    else
        mr_nb_input_list(desc->b, mr_capi_outs(inputs), num_inputs);
}

void TF_AddControlInput(TF_OperationDescription *desc, TF_Operation *input)
{
    if (desc)
        mr_nb_control(desc->b, mr_capi_node(input));
}

void TF_ColocateWith(TF_OperationDescription *desc, TF_Operation *op)
{
    if (!desc)
        return;
    if (op)
        mr_nb_colocate(desc->b, mr_capi_node(op));
    else
        mr_status_update(&desc->st, mr_invalid("Cannot colocate with an operation that is NULL"));
}

TF_Operation *TF_FinishOperationLocked(TF_OperationDescription *desc, TF_Status *status)
{
    mr_node *n = NULL;
    if (!desc) {
        mr_capi_set_status(status, mr_invalid("desc is NULL"));
        return NULL;
    }
    mr_status *st = desc->st;
    if (st)
        mr_nb_abandon(desc->b);
    else
        st = mr_node_finish(desc->b, &n);
    mr_free(desc);
    mr_capi_set_status(status, st);
    return mr_capi_op(n);
}

TF_Operation *TF_FinishOperation(TF_OperationDescription *desc, TF_Status *status)
{
    if (!desc)
        return TF_FinishOperationLocked(NULL, status);
    mr_mutex *mu = &desc->graph->mu; /* desc is freed afterwards */
    mr_lock(mu);
    TF_Operation *op = TF_FinishOperationLocked(desc, status);
    mr_unlock(mu);
    return op;
}
