/* capi/train.c -- millrace/train.h and millrace/data.h: the functions of train/ on the client's
 * types.
 *
 * A model holds its graph's lock only inside each call. Arguments of the client are checked here:
 * an invalid tensor becomes the first error of the model, so train/ gets only valid arguments. */
#include "millrace/train.h"

#include "capi/model.h"
#include "millrace/data.h"
#include "train/digits.h"
#include "train/saver.h"

struct mr_saver {
    mr_nn_saver *saver;
};

mr_model *mr_model_new(TF_Graph *graph)
{
    if (!graph)
        return NULL;
    mr_model *m = mr_new(mr_model);
    m->graph = graph;
    m->net = mr_nn_new(graph->graph);
    return m;
}

void mr_model_free(mr_model *m)
{
    if (!m)
        return;
    mr_nn_free(m->net);
    mr_free(m);
}

void mr_model_status(const mr_model *m, TF_Status *status)
{
    mr_capi_set_status(status, m ? mr_status_copy(m->net->s.st) : mr_invalid("The model is NULL"));
}

void mr_model_seed(mr_model *m, int64_t seed)
{
    if (m)
        m->net->seed = seed;
}

int64_t mr_parameter_count(const mr_model *m)
{
    int64_t n = 0;
    for (int i = 0; m && i < m->net->vars.n; i++)
        n += m->net->vars.p[i].trainable ? m->net->vars.p[i].n : 0;
    return n;
}

/* ---- checks of arguments: an error is kept in the model ---- */

static mr_out check_output(mr_model *m, TF_Output o) { return mr_model_arg(m, o); }

static const char *check_name(mr_model *m, const char *s)
{
    if (!s)
        mr_scope_fail(&m->net->s, mr_invalid("A name is NULL"));
    return s ? s : "";
}

static const int64_t *check_shape(mr_model *m, int n, const int64_t *dims)
{
    if (n < 0 || n > MR_MAX_RANK || (n && !dims))
        mr_scope_fail(&m->net->s, mr_invalid("dims is NULL, or the rank %d of a shape is invalid", n));
    return dims;
}

/* Runs a building call under the graph's lock; nothing is built any more after an error. */
#define BUILD(type, nothing, args, call) \
    do {                                 \
        type result_ = nothing;          \
        if (!m)                          \
            return result_;              \
        mr_lock(&m->graph->mu);          \
        args;                            \
        if (mr_scope_ok(&m->net->s))     \
            result_ = (call);            \
        mr_unlock(&m->graph->mu);        \
        return result_;                  \
    } while (0)
#define NONE ((TF_Output){NULL, -1})
#define BUILD_OUT(args, call) BUILD(TF_Output, NONE, args, mr_capi_output(call))
#define BUILD_OP(args, call) BUILD(TF_Operation *, NULL, args, mr_capi_op(call))
#define NOTHING_TO_CHECK (void)0

TF_Operation *mr_initializer(mr_model *m)
{
    BUILD_OP(NOTHING_TO_CHECK, mr_nn_initializer(m->net));
}

TF_Output mr_input(mr_model *m, const char *name, TF_DataType type, int num_dims,
                   const int64_t *dims)
{
    BUILD_OUT((check_name(m, name), check_shape(m, num_dims, dims)),
              mr_nn_input(m->net, name, (mr_dtype)type, num_dims, dims));
}

TF_Output mr_setting(mr_model *m, const char *name, float value)
{
    BUILD_OUT(check_name(m, name), mr_nn_setting(m->net, name, value));
}

/* ---- variables ---- */

static mr_nn_init init_of(mr_init i) { return (mr_nn_init){(mr_nn_init_kind)i.kind, i.a, i.b}; }

TF_Output mr_parameter(mr_model *m, const char *name, TF_DataType type, int num_dims,
                       const int64_t *dims, mr_init init)
{
    BUILD_OUT((check_name(m, name), check_shape(m, num_dims, dims)),
              mr_nn_variable(m->net, name, (mr_dtype)type, num_dims, dims, init_of(init), true));
}

TF_Output mr_state(mr_model *m, const char *name, TF_DataType type, int num_dims,
                   const int64_t *dims, mr_init init)
{
    BUILD_OUT((check_name(m, name), check_shape(m, num_dims, dims)),
              mr_nn_variable(m->net, name, (mr_dtype)type, num_dims, dims, init_of(init), false));
}

TF_Output mr_parameter_handle(mr_model *m, TF_Output value)
{
    const mr_nn_var *v = m ? mr_nn_find(m->net, mr_capi_out(value)) : NULL;
    return mr_capi_output(v ? v->handle : MR_NO_OUT);
}

/* An output that may be missing. */
static mr_out check_optional_output(mr_model *m, TF_Output o) { return o.oper ? check_output(m, o) : MR_NO_OUT; }

static void take_gradient(mr_model *m, const mr_adopt_options *o, mr_nn_var *v)
{
    mr_out g = check_optional_output(m, o->gradient), indices = check_optional_output(m, o->indices),
           shape = check_optional_output(m, o->dense_shape);
    v->differentiated = o->differentiated;
    if (indices.node && (!g.node || !shape.node))
        mr_scope_fail(&m->net->s, mr_invalid("A sparse gradient needs values, indices and a shape"));
    v->gradient = indices.node ? (mr_gradient){MR_NO_OUT, g, indices, shape} : (mr_gradient){g, MR_NO_OUT, MR_NO_OUT, MR_NO_OUT};
}

static mr_nn_var adopt_variable(mr_model *m, const mr_adopt_options *options)
{
    mr_adopt_options o;
    mr_nn_var v = {.gradient = MR_NO_GRAD};
    mr_status *st = mr_capi_take_options(options, &o, sizeof o);
    if (!st && o.initializer)
        st = mr_capi_check_op(m->graph, o.initializer);
    mr_scope_fail(&m->net->s, st);
    if (!mr_scope_ok(&m->net->s))
        return v;
    v.trainable = !o.fixed;
    v.assign = o.initializer ? mr_capi_node(o.initializer) : NULL;
    if (o.differentiated)
        take_gradient(m, &o, &v);
    return v;
}

TF_Output mr_model_adopt(mr_model *m, TF_Output variable, const mr_adopt_options *options)
{
    mr_nn_var v = {.n = 0};
    BUILD_OUT((check_output(m, variable), v = adopt_variable(m, options)),
              mr_nn_adopt(m->net, mr_capi_out(variable), v));
}

TF_Output mr_embedding(mr_model *m, const char *name, TF_Output ids, int64_t rows, int64_t columns)
{
    BUILD_OUT((check_name(m, name), check_output(m, ids)),
              mr_nn_embedding(m->net, name, mr_capi_out(ids), rows, columns));
}

TF_Output mr_global_step(mr_model *m) { BUILD_OUT(NOTHING_TO_CHECK, mr_nn_global_step(m->net)); }

/* ---- layers ---- */

TF_Output mr_dense(mr_model *m, const char *name, TF_Output x, int64_t units,
                   mr_activation activation)
{
    BUILD_OUT((check_name(m, name), check_output(m, x)),
              mr_nn_dense(m->net, name, mr_capi_out(x), units, (mr_nn_activation)activation));
}

TF_Output mr_conv2d(mr_model *m, const char *name, TF_Output x, int64_t filters, int64_t kernel,
                    int64_t stride, const char *padding, mr_activation activation)
{
    BUILD_OUT((check_name(m, name), check_name(m, padding), check_output(m, x)),
              mr_nn_conv2d(m->net, name, mr_capi_out(x), filters, kernel, stride, padding,
                            (mr_nn_activation)activation));
}

TF_Output mr_max_pool(mr_model *m, TF_Output x, int64_t size, int64_t stride, const char *padding)
{
    BUILD_OUT((check_name(m, padding), check_output(m, x)),
              mr_nn_pool(m->net, "MaxPool", mr_capi_out(x), size, stride, padding));
}

TF_Output mr_avg_pool(mr_model *m, TF_Output x, int64_t size, int64_t stride, const char *padding)
{
    BUILD_OUT((check_name(m, padding), check_output(m, x)),
              mr_nn_pool(m->net, "AvgPool", mr_capi_out(x), size, stride, padding));
}

TF_Output mr_dropout(mr_model *m, TF_Output x, TF_Output rate)
{
    BUILD_OUT((check_output(m, x), check_output(m, rate)), mr_nn_dropout(m->net, mr_capi_out(x), mr_capi_out(rate)));
}

TF_Output mr_lstm(mr_model *m, const char *name, TF_Output x, int64_t units,
                  unsigned char all_steps)
{
    BUILD_OUT((check_name(m, name), check_output(m, x)),
              mr_nn_lstm(m->net, name, mr_capi_out(x), units, all_steps != 0));
}

TF_Output mr_flatten(mr_model *m, TF_Output x)
{
    BUILD_OUT(check_output(m, x), mr_nn_flatten(m->net, mr_capi_out(x)));
}

/* ---- losses and figures ---- */

TF_Output mr_softmax_loss(mr_model *m, TF_Output logits, TF_Output labels)
{
    BUILD_OUT((check_output(m, logits), check_output(m, labels)),
              mr_nn_softmax_loss(m->net, mr_capi_out(logits), mr_capi_out(labels)));
}

TF_Output mr_sigmoid_loss(mr_model *m, TF_Output logits, TF_Output targets)
{
    BUILD_OUT((check_output(m, logits), check_output(m, targets)),
              mr_nn_sigmoid_loss(m->net, mr_capi_out(logits), mr_capi_out(targets)));
}

TF_Output mr_squared_loss(mr_model *m, TF_Output values, TF_Output targets)
{
    BUILD_OUT((check_output(m, values), check_output(m, targets)),
              mr_nn_squared_loss(m->net, mr_capi_out(values), mr_capi_out(targets)));
}

TF_Output mr_l2_penalty(mr_model *m, float weight)
{
    BUILD_OUT(NOTHING_TO_CHECK, mr_nn_l2_penalty(m->net, weight));
}

TF_Output mr_accuracy(mr_model *m, TF_Output logits, TF_Output labels)
{
    BUILD_OUT((check_output(m, logits), check_output(m, labels)),
              mr_nn_accuracy(m->net, mr_capi_out(logits), mr_capi_out(labels)));
}

/* ---- optimizers ---- */

mr_optimizer mr_sgd(float rate) { return (mr_optimizer){.kind = MR_SGD, .rate = rate}; }

mr_optimizer mr_momentum(float rate, float momentum)
{
    return (mr_optimizer){.kind = MR_MOMENTUM, .rate = rate, .a = momentum};
}

mr_optimizer mr_nesterov(float rate, float momentum)
{
    return (mr_optimizer){.kind = MR_NESTEROV, .rate = rate, .a = momentum};
}

mr_optimizer mr_adagrad(float rate)
{
    return (mr_optimizer){.kind = MR_ADAGRAD, .rate = rate, .a = 0.1f};
}

mr_optimizer mr_rmsprop(float rate)
{
    return (mr_optimizer){.kind = MR_RMSPROP, .rate = rate, .a = 0.9f, .epsilon = 1e-10f};
}

mr_optimizer mr_adam(float rate)
{
    return (mr_optimizer){.kind = MR_ADAM, .rate = rate, .a = 0.9f, .b = 0.999f, .epsilon = 1e-8f};
}

mr_nn_optimizer mr_model_optimizer(mr_model *m, mr_optimizer o)
{
    if (o.schedule.oper)
        check_output(m, o.schedule);
    return (mr_nn_optimizer){(mr_nn_optimizer_kind)o.kind,
                              o.rate,
                              mr_capi_out(o.schedule),
                              o.a,
                              o.b,
                              o.epsilon,
                              o.clip_norm};
}

TF_Operation *mr_minimize(mr_model *m, TF_Output loss, mr_optimizer o)
{
    mr_nn_optimizer with;
    BUILD_OP((check_output(m, loss), with = mr_model_optimizer(m, o)),
             mr_nn_minimize(m->net, mr_capi_out(loss), &with));
}

/* ---- gradients of the caller ---- */

/* One variable and its gradient, of the variable's type and shape as far as that is known. */
static mr_status *take_update(mr_model *m, TF_Output variable, const mr_gradient_value *from, mr_nn_gradients *g)
{
    MR_TRY(mr_capi_check_output(m->graph, variable));
    const mr_nn_var *v = mr_nn_find(m->net, mr_capi_out(variable));
    if (!v)
        return mr_invalid("'%s' is not a variable of the model", mr_capi_node(variable.oper)->name);
    int at = (int)(v - m->net->vars.p);
    for (int i = 0; i < g->n; i++)
        if (g->var[i] == at)
            return mr_invalid("variable '%s' is given twice", v->name);
    const TF_Output rows[] = {from->sparse.values, from->sparse.indices, from->sparse.dense_shape};
    mr_gradient found = MR_NO_GRAD;
    if (from->dense.oper) {
        MR_TRY(mr_capi_check_output(m->graph, from->dense));
        found.dense = mr_capi_out(from->dense);
        if (!mr_pshape_compatible(mr_out_shape(found.dense), mr_out_shape(v->value)))
            return mr_invalid("the gradient of variable '%s' has shape %s instead of %s", v->name,
                              MR_PSHAPE_TEXT(mr_out_shape(found.dense)), MR_PSHAPE_TEXT(mr_out_shape(v->value)));
    } else if (rows[0].oper) {
        for (int i = 0; i < 3; i++)
            MR_TRY(mr_capi_check_output(m->graph, rows[i]));
        found = (mr_gradient){MR_NO_OUT, mr_capi_out(rows[0]), mr_capi_out(rows[1]), mr_capi_out(rows[2])};
    }
    mr_out value = found.dense.node ? found.dense : found.values;
    if (value.node && mr_dtype_base(mr_out_type(value)) != v->dtype)
        return mr_invalid("the gradient of variable '%s' is %s instead of %s", v->name, mr_dtype_name(mr_out_type(value)),
                          mr_dtype_name(v->dtype));
    g->var[g->n] = at;
    g->g[g->n++] = found;
    return NULL;
}

static mr_node *apply_gradients(mr_model *m, int n, const TF_Output *variables, const mr_gradient_value *gradients,
                                const mr_nn_optimizer *o)
{
    mr_nn_global_step(m->net); /* it may be made here, and move the list of variables */
    mr_nn_gradients g = {.var = mr_new_array(int, n + 1), .g = mr_new_array(mr_gradient, n + 1)};
    for (int i = 0; i < n && mr_scope_ok(&m->net->s); i++)
        mr_scope_fail(&m->net->s, take_update(m, variables[i], &gradients[i], &g));
    mr_node *train = mr_scope_ok(&m->net->s) ? mr_nn_apply(m->net, o, &g) : NULL;
    mr_nn_gradients_deinit(&g);
    return train;
}

static void check_updates(mr_model *m, int n, const TF_Output *variables, const mr_gradient_value *gradients)
{
    if (n < 0 || (n && (!variables || !gradients)))
        mr_scope_fail(&m->net->s, mr_invalid("variables or gradients is NULL although there are %d", n));
}

TF_Operation *mr_apply_gradients(mr_model *m, int num_variables, const TF_Output *variables,
                                 const mr_gradient_value *gradients, mr_optimizer o)
{
    mr_nn_optimizer with;
    BUILD_OP((check_updates(m, num_variables, variables, gradients), with = mr_model_optimizer(m, o)),
             apply_gradients(m, num_variables, variables, gradients, &with));
}

TF_Output mr_exponential_decay(mr_model *m, float rate, int64_t steps, float factor,
                               unsigned char staircase)
{
    BUILD_OUT(NOTHING_TO_CHECK, mr_nn_exponential_decay(m->net, rate, steps, factor, staircase));
}

TF_Output mr_polynomial_decay(mr_model *m, float rate, int64_t steps, float end_rate, float power)
{
    BUILD_OUT(NOTHING_TO_CHECK, mr_nn_polynomial_decay(m->net, rate, steps, end_rate, power));
}

static void check_pieces(mr_model *m, int n, const int64_t *boundaries, const float *rates)
{
    if (n < 0 || (n && !boundaries) || !rates)
        mr_scope_fail(&m->net->s, mr_invalid("boundaries or rates is NULL, or their number %d is negative", n));
}

TF_Output mr_piecewise_rate(mr_model *m, int num_boundaries, const int64_t *boundaries,
                            const float *rates)
{
    BUILD_OUT(check_pieces(m, num_boundaries, boundaries, rates),
              mr_nn_piecewise(m->net, num_boundaries, boundaries, rates));
}

/* ---- checkpoints ---- */

mr_saver *mr_saver_new(mr_model *m, int max_to_keep)
{
    if (!m)
        return NULL;
    mr_saver *s = mr_new(mr_saver);
    mr_lock(&m->graph->mu);
    s->saver = mr_nn_saver_new(m->net, max_to_keep);
    mr_unlock(&m->graph->mu);
    return s;
}

void mr_saver_free(mr_saver *s)
{
    if (!s)
        return;
    mr_nn_saver_free(s->saver);
    mr_free(s);
}

struct mr_nn_saver *mr_capi_saver(mr_saver *s) { return s->saver; }

static mr_status *check_saver(const mr_saver *s, const TF_Session *session, const char *path)
{
    if (!s || !session || !path)
        return mr_invalid("saver, session or path is NULL");
    return NULL;
}

void mr_saver_save(mr_saver *s, TF_Session *session, const char *prefix, int64_t step,
                   TF_Status *status)
{
    mr_status *st = check_saver(s, session, prefix);
    mr_capi_set_status(status, st ? st : mr_nn_save(s->saver, session->session, prefix, step));
}

void mr_saver_restore(mr_saver *s, TF_Session *session, const char *path, TF_Status *status)
{
    mr_status *st = check_saver(s, session, path);
    mr_capi_set_status(status, st ? st : mr_nn_restore(s->saver, session->session, path));
}

int mr_saver_restore_latest(mr_saver *s, TF_Session *session, const char *folder, TF_Status *status)
{
    bool found = false;
    mr_status *st = check_saver(s, session, folder);
    if (!st)
        st = mr_nn_restore_latest(s->saver, session->session, folder, &found);
    mr_capi_set_status(status, st);
    return found;
}

/* ---- digits ---- */

enum { GENERATED_TRAIN = 20000, GENERATED_TEST = 4000 };

mr_digits *mr_digits_open(const char *folder, TF_Status *status)
{
    mr_digits *d = NULL;
    mr_status *st = NULL;
    if (folder && folder[0])
        st = mr_digits_load(folder, &d);
    else
        d = mr_digits_generate(GENERATED_TRAIN, GENERATED_TEST);
    mr_capi_set_status(status, st);
    return d;
}

void mr_digits_free(mr_digits *d) { mr_digits_drop(d); }

const char *mr_digits_name(const mr_digits *d)
{
    return !d ? "" : d->generated ? "generated digits" : "MNIST";
}

int64_t mr_digits_count(const mr_digits *d, mr_split split)
{
    return d ? d->part[split == MR_SPLIT_TEST].n : 0;
}

void mr_digits_batch(const mr_digits *d, mr_split split, uint64_t seed, int64_t first, int64_t n,
                     TF_Tensor **images, TF_Tensor **labels, TF_Status *status)
{
    mr_tensor *x = NULL, *y = NULL;
    mr_status *st = d ? mr_digits_take(d, split == MR_SPLIT_TEST, seed, first, n, &x, &y)
                      : mr_invalid("digits is NULL");
    mr_capi_set_status(status, st);
    *images = mr_capi_tensor_new(x);
    *labels = mr_capi_tensor_new(y);
}
