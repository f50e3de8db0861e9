/* capi/pipeline.c -- millrace/cluster.h: pipelines on the client's types. */
#include "train/pipeline.h"

#include "base/memory.h"
#include "capi/cluster_internal.h"

/* The client's function that builds stages, and its arguments. */
typedef struct caller {
    mr_model *m;
    const mr_pipeline_options *o;
    int n_inputs;
} caller;

/* The client builds with calls that take the graph's lock themselves. */
static mr_out build_stage(void *arg, int stage, mr_out x, const mr_out *parts) MR_NO_TSA
{
    caller *c = arg;
    TF_Output *inputs = mr_new_array(TF_Output, c->n_inputs);
    for (int i = 0; i < c->n_inputs; i++)
        inputs[i] = mr_capi_output(parts[i]);
    mr_unlock(&c->m->graph->mu);
    TF_Output y = c->o->build(c->o->arg, c->m, stage, mr_capi_output(x), inputs);
    mr_lock(&c->m->graph->mu);
    mr_free(inputs);
    return mr_scope_ok(&c->m->net->s) ? mr_model_arg(c->m, y) : MR_NO_OUT;
}

static mr_status *check_options(const mr_pipeline_options *o)
{
    if (!o->build || !o->devices)
        return mr_invalid("A pipeline needs devices and a function that builds its stages");
    if (o->num_stages < 1 || o->num_stages > MR_PIPELINE_MAX)
        return mr_invalid("num_stages %d of a pipeline is not from 1 to %d", o->num_stages, MR_PIPELINE_MAX);
    for (int i = 0; i < o->num_stages; i++)
        if (!o->devices[i])
            return mr_invalid("Stage %d of a pipeline has no device", i);
    return NULL;
}

static mr_node *build_pipeline(mr_model *m, const TF_Output *inputs, int n, const mr_nn_optimizer *optimizer,
                               const mr_pipeline_options *o, mr_out *loss)
{
    caller c = {m, o, n};
    mr_nn_pipeline p = {o->num_stages, o->micro_batches, o->devices,
                         o->kind == MR_PIPELINE_1F1B ? MR_ORDER_1F1B : (mr_pipeline_order)o->kind, build_stage, &c};
    return mr_nn_pipeline_minimize(m->net, &p, mr_capi_outs(inputs), n, optimizer, loss);
}

TF_Operation *mr_pipeline_minimize(mr_model *m, const TF_Output *inputs, int num_inputs, mr_optimizer optimizer,
                                   const mr_pipeline_options *options, TF_Output *loss)
{
    mr_pipeline_options o;
    mr_node *train = NULL;
    mr_out mean = MR_NO_OUT;
    if (loss)
        *loss = (TF_Output){NULL, -1};
    if (!m)
        return NULL;
    mr_lock(&m->graph->mu);
    mr_status *st = mr_capi_take_options(options, &o, sizeof o);
    if (!st)
        st = check_options(&o);
    if (!st && (num_inputs < 1 || !inputs))
        st = mr_invalid("inputs of a pipeline is NULL, or its length %d is less than 1", num_inputs);
    mr_scope_fail(&m->net->s, st);
    for (int i = 0; i < num_inputs && mr_scope_ok(&m->net->s); i++)
        mr_model_arg(m, inputs[i]);
    mr_nn_optimizer with = mr_model_optimizer(m, optimizer);
    if (mr_scope_ok(&m->net->s))
        train = build_pipeline(m, inputs, num_inputs, &with, &o, &mean);
    mr_unlock(&m->graph->mu);
    if (loss && train)
        *loss = mr_capi_output(mean);
    return mr_capi_op(train);
}

static mr_status *predict_cost(const mr_pipeline_options *options, const double *forward_s, const double *backward_s,
                               double transfer_s, mr_pipeline_figures *out)
{
    mr_pipeline_options o;
    mr_pipeline_cost c;
    MR_TRY(mr_capi_take_options(options, &o, sizeof o));
    if (!forward_s || !backward_s || !out || out->struct_size < sizeof(size_t) || out->struct_size > (1 << 16))
        return mr_invalid("forward_s, backward_s or out is NULL, or out->struct_size is invalid");
    MR_TRY(mr_pipeline_simulate(o.kind == MR_PIPELINE_1F1B ? MR_ORDER_1F1B : MR_ORDER_FILL_DRAIN, o.num_stages, o.micro_batches,
                                forward_s, backward_s, transfer_s, &c));
    mr_pipeline_figures f = {out->struct_size, c.step_s, c.alone_s, c.bubble, c.most_kept};
    memset(out, 0, f.struct_size);
    memcpy(out, &f, MR_MIN(f.struct_size, sizeof f));
    return NULL;
}

void mr_pipeline_predict(const mr_pipeline_options *options, const double *forward_s, const double *backward_s, double transfer_s,
                         mr_pipeline_figures *out, TF_Status *status)
{
    mr_capi_set_status(status, predict_cost(options, forward_s, backward_s, transfer_s, out));
}
