/* capi/federated_work.c -- federated work on the client's types: its graph, sessions and examples checked and opened. */
#include "capi/federated_work.h"

#include "capi/model.h"

/* ---- models ---- */

/* A placeholder and an assignment for a variable, added to the graph once for every use: names are made unique. */
static void add_parameter(mr_nn *net, const mr_nn_var *v, mr_learner_parameter *out)
{
    const mr_pshape *shape = mr_out_shape(v->value);
    const char *before = mr_nn_at(net, v->device);
    out->value = v->value;
    out->feed = mr_placeholder(&net->s, v->dtype, "weights", shape);
    out->assign = mr_nn_assign(net, v, out->feed).node;
    mr_nn_at(net, before);
}

/* Resets the state of optimizers and counters: one node after the assignments of all variables that are not averaged.
 */
static mr_node *add_reset(mr_nn *net)
{
    int n = 0;
    for (int i = 0; i < net->vars.n; i++)
        if (!net->vars.p[i].trainable) {
            if (!net->vars.p[i].assign) {
                mr_scope_fail(&net->s, mr_invalid("variable '%s' was adopted without what initialises it", net->vars.p[i].name));
                continue;
            }
            mr_vec_push(&net->s.controls, net->vars.p[i].assign);
            n++;
        }
    mr_node *reset = n ? mr_emit0(mr_as(&net->s, "federated_reset"), "NoOp").node : NULL;
    net->s.controls.n -= n;
    return reset;
}

/* Adds for each trainable variable the nodes to read and assign it, and one node that resets all others. */
static mr_status *open_model(mr_model *m, mr_capi_work *out, mr_node **init, mr_node **reset)
{
    mr_nn *net = m->net;
    const char *saved;
    mr_lock(&m->graph->mu);
    mr_nn_enter(net, "federated", &saved);
    out->parameters = mr_new_array(mr_learner_parameter, net->vars.n);
    for (int i = 0; i < net->vars.n && mr_scope_ok(&net->s); i++)
        if (net->vars.p[i].trainable)
            add_parameter(net, &net->vars.p[i], &out->parameters[out->n_parameters++]);
    *reset = add_reset(net);
    mr_nn_leave(net, saved);
    *init = mr_nn_initializer(net);
    mr_status *st = mr_status_copy(net->s.st);
    mr_unlock(&m->graph->mu);
    return st;
}

/* ---- without a model ---- */

static mr_status *take_parameters(const mr_federated_work *w, mr_capi_work *out)
{
    if (!w->graph || w->num_parameters < 1 || !w->parameters)
        return mr_invalid("federated: there is no model, and no graph with parameters");
    out->parameters = mr_new_array(mr_learner_parameter, w->num_parameters);
    out->n_parameters = w->num_parameters;
    for (int i = 0; i < w->num_parameters; i++) {
        const mr_federated_parameter *p = &w->parameters[i];
        MR_TRY(mr_capi_check_output(w->graph, p->value));
        MR_TRY(mr_capi_check_output(w->graph, p->feed));
        MR_TRY(mr_capi_check_op(w->graph, p->assign));
        out->parameters[i] = (mr_learner_parameter){mr_capi_out(p->value), mr_capi_out(p->feed), mr_capi_node(p->assign)};
    }
    return NULL;
}

/* ---- sessions ---- */

static mr_status *check_steps(const TF_Graph *g, const mr_federated_work *w)
{
    MR_TRY(mr_capi_check_op(g, w->train));
    if (w->num_inputs < 1 || !w->inputs)
        return mr_invalid("federated: steps need inputs");
    for (int i = 0; i < w->num_inputs; i++)
        MR_TRY(mr_capi_check_output(g, w->inputs[i]));
    if (w->loss.oper)
        MR_TRY(mr_capi_check_output(g, w->loss));
    if (w->rate.oper)
        MR_TRY(mr_capi_check_output(g, w->rate));
    if (w->init)
        MR_TRY(mr_capi_check_op(g, w->init));
    return w->reset ? mr_capi_check_op(g, w->reset) : NULL;
}

/* If clients run in parallel, each step uses one thread; the last session uses all threads. */
static mr_status *open_session(mr_capi_work *w, bool last, TF_Session **out)
{
    TF_SessionOptions o = {.target = (char *)(uintptr_t) ""};
    if (!last)
        o.config = (mr_session_config){.intra_threads = 1, .inter_threads = 1, .per_session_threads = true};
    return mr_capi_new_session(w->graph, &o, out);
}

static mr_status *open_learner(mr_capi_work *w, const mr_federated_work *from, int i, int n, mr_node *init, mr_node *reset)
{
    MR_TRY(open_session(w, i == n - 1, &w->sessions[i]));
    w->learners[i] = (mr_learner){.session = w->sessions[i]->session,
                                  .parameters = w->parameters,
                                  .n_parameters = w->n_parameters,
                                  .reset = reset,
                                  .train = mr_capi_node(from->train),
                                  .inputs = w->inputs,
                                  .n_inputs = from->num_inputs,
                                  .loss = mr_capi_out(from->loss),
                                  .rate = mr_capi_out(from->rate)};
    return init ? mr_session_run(w->sessions[i]->session, &(mr_run_args){.targets = &init, .n_targets = 1}, NULL, NULL) : NULL;
}

/* Opens n sessions on one graph, each with a learner. After an error the caller closes out. */
static mr_status *open_work(const mr_federated_work *w, int n, mr_capi_work *out)
{
    mr_node *init = mr_capi_node(w->init), *reset = mr_capi_node(w->reset);
    out->graph = w->model ? w->model->graph : w->graph;
    if (w->model)
        MR_TRY(open_model(w->model, out, &init, &reset));
    else
        MR_TRY(take_parameters(w, out));
    MR_TRY(check_steps(out->graph, w));
    MR_TRY(mr_learner_size(out->parameters, out->n_parameters, &out->n_weights));
    out->inputs = mr_new_array(mr_out, w->num_inputs);
    for (int i = 0; i < w->num_inputs; i++)
        out->inputs[i] = mr_capi_out(w->inputs[i]);
    out->sessions = mr_new_array(TF_Session *, n);
    out->learners = mr_new_array(mr_learner, n);
    out->n_learners = n;
    for (int i = 0; i < n; i++)
        MR_TRY(open_learner(out, w, i, n, init, reset));
    return NULL;
}

mr_status *mr_capi_work_open(const mr_federated_work *from, int n, mr_capi_work *out)
{
    mr_federated_work w;
    *out = (mr_capi_work){0};
    mr_status *st = mr_capi_take_struct(&w, sizeof w, from, sizeof(size_t), "mr_federated_work");
    if (!st)
        st = open_work(&w, n, out);
    if (st)
        mr_capi_work_close(out);
    return st;
}

void mr_capi_work_close(mr_capi_work *w)
{
    for (int i = 0; i < w->n_learners; i++)
        mr_capi_free_session(w->sessions[i]);
    mr_free(w->sessions);
    mr_free(w->learners);
    mr_free(w->parameters);
    mr_free(w->inputs);
    *w = (mr_capi_work){0};
}

/* ---- examples ---- */

/* Takes references to the tensors of a client; its rows are borrowed and must stay valid. Without rows, the first
 * num_rows examples are used, or all if that is 0. */
mr_status *mr_capi_examples_take(const mr_federated_examples *from, int n_inputs, mr_capi_examples *out)
{
    mr_federated_examples e;
    mr_status *st;
    *out = (mr_capi_examples){0};
    MR_TRY(mr_capi_take_struct(&e, sizeof e, from, sizeof(size_t), "mr_federated_examples"));
    if (!e.values || e.num_rows < 0)
        return mr_invalid("federated: a client has no examples");
    for (int i = 0; i < n_inputs; i++)
        if (!e.values[i])
            return mr_invalid("federated: a client has no examples for input %d", i);
    out->values = mr_new_array(mr_tensor *, MR_MAX(n_inputs, 1));
    for (out->n_values = 0; out->n_values < n_inputs; out->n_values++)
        if ((st = mr_capi_tensor_value(e.values[out->n_values], &out->values[out->n_values]))) {
            mr_capi_examples_drop(out);
            return st;
        }
    int64_t all = n_inputs && out->values[0]->rank ? out->values[0]->dims[0] : 0;
    out->e = (mr_learner_examples){out->values, e.rows, e.rows || e.num_rows ? e.num_rows : all};
    return NULL;
}

void mr_capi_examples_drop(mr_capi_examples *e)
{
    for (int i = 0; i < e->n_values; i++)
        mr_tensor_unref(e->values[i]);
    mr_free(e->values);
    *e = (mr_capi_examples){0};
}
