/* ops/values_fixture.c -- runs nodes with mr_eval_node, after the nodes they depend on. */
#include "ops/values_fixture.h"

#include "base/memory.h"
#include "run/run.h"

void mr_values_init(mr_values *v, mr_graph *g, mr_device *device)
{
    *v = (mr_values){g, device, g->nodes.n, mr_new_array(mr_tensor **, g->nodes.n + 1)};
}

void mr_values_deinit(mr_values *v)
{
    for (int i = 0; i < v->n_nodes; i++) {
        for (int k = 0; v->of[i] && k < v->graph->nodes.p[i]->n_out; k++)
            mr_tensor_unref(v->of[i][k]);
        mr_free(v->of[i]);
    }
    mr_free(v->of);
}

void mr_values_set(mr_values *v, const mr_node *n, mr_tensor *const *outs, int n_outs)
{
    if (v->of[n->id])
        return;
    v->of[n->id] = mr_new_array(mr_tensor *, n_outs + 1);
    for (int i = 0; i < n_outs; i++)
        v->of[n->id][i] = mr_tensor_ref(outs[i]);
}

static mr_status *run_node(mr_values *v, const mr_node *n, mr_tensor **in, mr_tensor **made)
{
    mr_tensor *ignored;
    for (int i = 0; i < n->n_in; i++)
        MR_TRY(mr_values_get(v, n->in[i], &in[i]));
    for (int i = 0; i < n->n_ctrl; i++)
        MR_TRY(mr_values_get(v, (mr_out){n->ctrl[i], 0}, &ignored));
    return mr_eval_node(n, v->device, in, made);
}

mr_status *mr_values_get(mr_values *v, mr_out o, mr_tensor **out)
{
    mr_node *n = o.node;
    if (!v->of[n->id]) {
        mr_tensor **in = mr_new_array(mr_tensor *, n->n_in + 1);
        mr_tensor **made = mr_new_array(mr_tensor *, n->n_out + 1);
        mr_status *st = run_node(v, n, in, made);
        mr_free(in);
        if (st) {
            mr_free(made);
            return st;
        }
        v->of[n->id] = made;
    }
    *out = o.index >= 0 && o.index < n->n_out ? v->of[n->id][o.index] : NULL;
    return NULL;
}
