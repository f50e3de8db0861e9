/* capi/train.c -- millrace/train.h and millrace/data.h: the functions of train/ on the client's types.
 *
 * A model holds its graph's lock only inside each call. */
#include "millrace/train.h"

#include "capi/internal.h"
#include "millrace/data.h"
#include "train/digits.h"
#include "train/net.h"
#include "train/saver.h"

struct mr_model {
    TF_Graph *graph;
    mr_net *net;
};

struct mr_saver {
    mr_net_saver *saver;
};

mr_model *mr_model_new(TF_Graph *graph)
{
    mr_model *m = mr_new(mr_model);
    m->graph = graph;
    m->net = mr_net_new(graph->graph);
    return m;
}

void mr_model_free(mr_model *m)
{
    if (!m)
        return;
    mr_net_free(m->net);
    mr_free(m);
}

void mr_model_status(const mr_model *m, TF_Status *status)
{
    mr_capi_set_status(status, mr_status_copy(m->net->s.st));
}

void mr_model_seed(mr_model *m, int64_t seed) { m->net->seed = seed; }

int64_t mr_parameter_count(const mr_model *m)
{
    int64_t n = 0;
    for (int i = 0; i < m->net->vars.n; i++)
        n += m->net->vars.p[i].trainable ? m->net->vars.p[i].n : 0;
    return n;
}

/* Runs a building call under the graph's lock. */
#define BUILD(type, call)            \
    do {                             \
        mr_lock(&m->graph->mu);      \
        type result_ = (call);       \
        mr_unlock(&m->graph->mu);    \
        return result_;              \
    } while (0)
#define BUILD_OUT(call) BUILD(TF_Output, mr_capi_output(call))
#define BUILD_OP(call) BUILD(TF_Operation *, mr_capi_op(call))

TF_Operation *mr_initializer(mr_model *m) { BUILD_OP(mr_net_initializer(m->net)); }

TF_Output mr_input(mr_model *m, const char *name, TF_DataType type, int num_dims, const int64_t *dims)
{
    BUILD_OUT(mr_net_input(m->net, name, (mr_dtype)type, num_dims, dims));
}

TF_Output mr_setting(mr_model *m, const char *name, float value) { BUILD_OUT(mr_net_setting(m->net, name, value)); }

static mr_net_init init_of(mr_init i) { return (mr_net_init){(mr_net_init_kind)i.kind, i.a, i.b}; }

TF_Output mr_parameter(mr_model *m, const char *name, TF_DataType type, int num_dims, const int64_t *dims, mr_init init)
{
    BUILD_OUT(mr_net_variable(m->net, name, (mr_dtype)type, num_dims, dims, init_of(init), true));
}

TF_Output mr_state(mr_model *m, const char *name, TF_DataType type, int num_dims, const int64_t *dims, mr_init init)
{
    BUILD_OUT(mr_net_variable(m->net, name, (mr_dtype)type, num_dims, dims, init_of(init), false));
}

TF_Output mr_parameter_handle(mr_model *m, TF_Output value)
{
    const mr_net_var *v = mr_net_find(m->net, mr_capi_out(value));
    return mr_capi_output(v ? v->handle : MR_NO_OUT);
}

TF_Output mr_embedding(mr_model *m, const char *name, TF_Output ids, int64_t rows, int64_t columns)
{
    BUILD_OUT(mr_net_embedding(m->net, name, mr_capi_out(ids), rows, columns));
}

TF_Output mr_global_step(mr_model *m) { BUILD_OUT(mr_net_global_step(m->net)); }

TF_Output mr_dense(mr_model *m, const char *name, TF_Output x, int64_t units, mr_activation activation)
{
    BUILD_OUT(mr_net_dense(m->net, name, mr_capi_out(x), units, (mr_net_activation)activation));
}

TF_Output mr_conv2d(mr_model *m, const char *name, TF_Output x, int64_t filters, int64_t kernel, int64_t stride,
                    const char *padding, mr_activation activation)
{
    BUILD_OUT(mr_net_conv2d(m->net, name, mr_capi_out(x), filters, kernel, stride, padding,
                            (mr_net_activation)activation));
}

TF_Output mr_max_pool(mr_model *m, TF_Output x, int64_t size, int64_t stride, const char *padding)
{
    BUILD_OUT(mr_net_pool(m->net, "MaxPool", mr_capi_out(x), size, stride, padding));
}

TF_Output mr_avg_pool(mr_model *m, TF_Output x, int64_t size, int64_t stride, const char *padding)
{
    BUILD_OUT(mr_net_pool(m->net, "AvgPool", mr_capi_out(x), size, stride, padding));
}

TF_Output mr_dropout(mr_model *m, TF_Output x, TF_Output rate)
{
    BUILD_OUT(mr_net_dropout(m->net, mr_capi_out(x), mr_capi_out(rate)));
}

TF_Output mr_flatten(mr_model *m, TF_Output x) { BUILD_OUT(mr_net_flatten(m->net, mr_capi_out(x))); }

TF_Output mr_softmax_loss(mr_model *m, TF_Output logits, TF_Output labels)
{
    BUILD_OUT(mr_net_softmax_loss(m->net, mr_capi_out(logits), mr_capi_out(labels)));
}

TF_Output mr_sigmoid_loss(mr_model *m, TF_Output logits, TF_Output targets)
{
    BUILD_OUT(mr_net_sigmoid_loss(m->net, mr_capi_out(logits), mr_capi_out(targets)));
}

TF_Output mr_squared_loss(mr_model *m, TF_Output values, TF_Output targets)
{
    BUILD_OUT(mr_net_squared_loss(m->net, mr_capi_out(values), mr_capi_out(targets)));
}

TF_Output mr_l2_penalty(mr_model *m, float weight) { BUILD_OUT(mr_net_l2_penalty(m->net, weight)); }

TF_Output mr_accuracy(mr_model *m, TF_Output logits, TF_Output labels)
{
    BUILD_OUT(mr_net_accuracy(m->net, mr_capi_out(logits), mr_capi_out(labels)));
}

/* ---- gradients ---- */

typedef struct overriding {
    const mr_gradients_options *o;
    TF_Graph *graph;
} overriding;

/* Lets the client's callback set the gradients of a node's inputs. */
static bool override(void *ctx, mr_grad *g) MR_NO_TSA
{
    const overriding *v = ctx;
    const mr_node *n = g->node;
    TF_Output *dy = mr_new_array(TF_Output, n->n_out + 1), *dx = mr_new_array(TF_Output, n->n_in + 1);
    for (int i = 0; i < n->n_out; i++)
        dy[i] = mr_capi_output(mr_has_dy(g, i) ? mr_dyi(g, i) : MR_NO_OUT);
    for (int i = 0; i < n->n_in; i++)
        dx[i] = mr_capi_output(MR_NO_OUT);
    mr_unlock(&v->graph->mu); /* the callback adds operations through the C API, which takes the lock */
    bool handled = v->o->override(v->o->override_arg, v->graph, mr_capi_op(n), dy, dx);
    mr_lock(&v->graph->mu);
    for (int i = 0; handled && i < n->n_in; i++)
        if (dx[i].oper)
            mr_dxi(g, i, mr_capi_out(dx[i]));
    mr_free(dy);
    mr_free(dx);
    return handled;
}

static void give_gradients(mr_gradient *g, int n, TF_Output *dense, mr_sparse_output *sparse)
{
    for (int i = 0; i < n; i++) {
        dense[i] = mr_capi_output(g[i].dense);
        if (sparse)
            sparse[i] = (mr_sparse_output){mr_capi_output(g[i].values), mr_capi_output(g[i].indices),
                                           mr_capi_output(g[i].dense_shape)};
    }
}

void mr_gradients(TF_Graph *graph, const TF_Output *ys, int num_ys, const TF_Output *xs, int num_xs,
                  const mr_gradients_options *options, TF_Output *dense, mr_sparse_output *sparse, TF_Status *status)
{
    mr_gradients_options o = {0};
    if (options)
        memcpy(&o, options, MR_MIN(options->struct_size, sizeof o));
    overriding over = {&o, graph};
    mr_gradient *g = mr_new_array(mr_gradient, num_xs + 1), *grad_ys = mr_new_array(mr_gradient, num_ys + 1);
    for (int i = 0; o.grad_ys && i < num_ys; i++) {
        grad_ys[i] = MR_NO_GRAD;
        grad_ys[i].dense = mr_capi_out(o.grad_ys[i]);
    }
    mr_gradient_options with = {
        .prefix = o.prefix, .grad_ys = o.grad_ys ? grad_ys : NULL, .n_stop = o.num_stop, .stop = mr_capi_outs(o.stop),
        .colocate = o.colocate, .sparse = sparse != NULL, .override = o.override ? override : NULL, .ctx = &over,
    };
    mr_lock(&graph->mu);
    mr_status *st = mr_graph_gradients(graph->graph, mr_capi_outs(ys), num_ys, mr_capi_outs(xs), num_xs, &with, g);
    mr_unlock(&graph->mu);
    if (!st)
        give_gradients(g, num_xs, dense, sparse);
    mr_capi_set_status(status, st);
    mr_free(g);
    mr_free(grad_ys);
}

/* ---- optimizers ---- */

mr_optimizer mr_sgd(float rate) { return (mr_optimizer){.kind = MR_SGD, .rate = rate}; }
mr_optimizer mr_momentum(float rate, float momentum) { return (mr_optimizer){.kind = MR_MOMENTUM, .rate = rate, .a = momentum}; }
mr_optimizer mr_nesterov(float rate, float momentum) { return (mr_optimizer){.kind = MR_NESTEROV, .rate = rate, .a = momentum}; }
mr_optimizer mr_adagrad(float rate) { return (mr_optimizer){.kind = MR_ADAGRAD, .rate = rate, .a = 0.1f}; }
mr_optimizer mr_rmsprop(float rate) { return (mr_optimizer){.kind = MR_RMSPROP, .rate = rate, .a = 0.9f, .epsilon = 1e-10f}; }
mr_optimizer mr_adam(float rate)
{
    return (mr_optimizer){.kind = MR_ADAM, .rate = rate, .a = 0.9f, .b = 0.999f, .epsilon = 1e-8f};
}

TF_Operation *mr_minimize(mr_model *m, TF_Output loss, mr_optimizer o)
{
    mr_net_optimizer with = {(mr_net_optimizer_kind)o.kind, o.rate, mr_capi_out(o.schedule), o.a, o.b, o.epsilon,
                             o.clip_norm};
    BUILD_OP(mr_net_minimize(m->net, mr_capi_out(loss), &with));
}

TF_Output mr_exponential_decay(mr_model *m, float rate, int64_t steps, float factor, unsigned char staircase)
{
    BUILD_OUT(mr_net_exponential_decay(m->net, rate, steps, factor, staircase));
}

TF_Output mr_polynomial_decay(mr_model *m, float rate, int64_t steps, float end_rate, float power)
{
    BUILD_OUT(mr_net_polynomial_decay(m->net, rate, steps, end_rate, power));
}

TF_Output mr_piecewise_rate(mr_model *m, int num_boundaries, const int64_t *boundaries, const float *rates)
{
    BUILD_OUT(mr_net_piecewise(m->net, num_boundaries, boundaries, rates));
}

/* ---- checkpoints ---- */

mr_saver *mr_saver_new(mr_model *m, int max_to_keep)
{
    mr_saver *s = mr_new(mr_saver);
    mr_lock(&m->graph->mu);
    s->saver = mr_net_saver_new(m->net, max_to_keep);
    mr_unlock(&m->graph->mu);
    return s;
}

void mr_saver_free(mr_saver *s)
{
    if (!s)
        return;
    mr_net_saver_free(s->saver);
    mr_free(s);
}

void mr_saver_save(mr_saver *s, TF_Session *session, const char *prefix, int64_t step, TF_Status *status)
{
    mr_capi_set_status(status, mr_net_save(s->saver, session->session, prefix, step));
}

void mr_saver_restore(mr_saver *s, TF_Session *session, const char *path, TF_Status *status)
{
    mr_capi_set_status(status, mr_net_restore(s->saver, session->session, path));
}

int mr_saver_restore_latest(mr_saver *s, TF_Session *session, const char *folder, TF_Status *status)
{
    bool found;
    mr_capi_set_status(status, mr_net_restore_latest(s->saver, session->session, folder, &found));
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
const char *mr_digits_name(const mr_digits *d) { return d->generated ? "generated digits" : "MNIST"; }
int64_t mr_digits_count(const mr_digits *d, mr_split split) { return d->part[split == MR_SPLIT_TEST].n; }

void mr_digits_batch(const mr_digits *d, mr_split split, uint64_t seed, int64_t first, int64_t n, TF_Tensor **images,
                     TF_Tensor **labels, TF_Status *status)
{
    mr_tensor *x = NULL, *y = NULL;
    mr_capi_set_status(status, mr_digits_take(d, split == MR_SPLIT_TEST, seed, first, n, &x, &y));
    *images = mr_capi_tensor_new(x);
    *labels = mr_capi_tensor_new(y);
}
