/* capi/gradients.c -- TF_AddGradients and mr_gradients: graph/grad.h on the client's types.
 *
 * TF_AddGradients follows TensorFlow's rules: all results are dense, and an x that y does not
 * depend on is an error. mr_gradients adds sparse results, tensors to stop at, and gradients by a
 * callback. */
#include "capi/internal.h"
#include "graph/grad.h"
#include "millrace/train.h"

typedef struct request {
    TF_Graph *g;
    const TF_Output *y, *x, *grad_ys;
    int ny, nx;
} request;

/* ---- arguments ---- */

static mr_status *check_outputs(const TF_Graph *g, const TF_Output *o, int n)
{
    for (int i = 0; i < n; i++)
        if (o[i].oper)
            MR_TRY(mr_capi_check_output(g, o[i]));
    return NULL;
}

static mr_status *check_request(const request *r, const void *results)
{
    if (!r->g || r->ny < 0 || r->nx < 0 || (r->ny && !r->y) || (r->nx && (!r->x || !results)))
        return mr_invalid("The graph or a list of outputs is NULL, or a length is negative");
    if (r->ny == 0 && r->nx > 0)
        return mr_invalid("There are no outputs to differentiate");
    return r->grad_ys ? check_outputs(r->g, r->grad_ys, r->ny) : NULL;
}

/* Converts the incoming gradients of a client; one without an operation means ones. */
static mr_gradient *dense_gradients(const TF_Output *o, int n)
{
    mr_gradient *g = mr_try_calloc((size_t)n, sizeof(*g));
    for (int i = 0; g && i < n; i++) {
        g[i] = MR_NO_GRAD;
        if (o && o[i].oper)
            g[i].dense = mr_capi_out(o[i]);
    }
    return g;
}

/* Adds the nodes; *out has r->nx gradients, mr_free. */
static mr_status *add_gradients(const request *r, mr_gradient_options o, mr_gradient **out)
{
    mr_status *st = NULL;
    mr_gradient *found = dense_gradients(NULL, r->nx), *given = dense_gradients(r->grad_ys, r->ny);
    if (!found || !given)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %d gradients", r->nx));
    o.grad_ys = r->grad_ys ? given : NULL;
    mr_lock(&r->g->mu);
    st = mr_graph_gradients(r->g->graph, mr_capi_outs(r->y), r->ny, mr_capi_outs(r->x), r->nx, &o,
                            found);
    mr_unlock(&r->g->mu);
out:
    if (st) {
        mr_free(found);
        found = NULL;
    }
    mr_free(given);
    *out = found;
    return st;
}

/* ---- TensorFlow's ---- */

void TF_AddGradientsWithPrefix(TF_Graph *g, const char *prefix, TF_Output *y, int ny, TF_Output *x,
                               int nx, TF_Output *dx, TF_Status *status, TF_Output *dy)
{
    request r = {.g = g, .y = y, .ny = ny, .x = x, .nx = nx, .grad_ys = dx};
    mr_gradient *found = NULL;
    mr_status *st = check_request(&r, dy);
    if (!st && nx > 0)
        st = add_gradients(&r, (mr_gradient_options){.prefix = prefix, .tf_semantics = true},
                           &found);
    for (int i = 0; found && i < nx; i++)
        dy[i] = mr_capi_output(found[i].dense);
    mr_free(found);
    mr_capi_set_status(status, st);
}

void TF_AddGradients(TF_Graph *g, TF_Output *y, int ny, TF_Output *x, int nx, TF_Output *dx,
                     TF_Status *status, TF_Output *dy)
{
    TF_AddGradientsWithPrefix(g, NULL, y, ny, x, nx, dx, status, dy);
}

/* ---- ours ---- */

typedef struct overriding {
    const mr_gradients_options *o;
    TF_Graph *graph;
} overriding;

/* Takes the gradients that the callback set, as far as they are valid. */
static void take_dense(const overriding *v, mr_grad *g, int i, TF_Output dx)
{
    mr_status *st = mr_capi_check_output(v->graph, dx);
    if (st)
        mr_scope_fail(g->s, st);
    else
        mr_dxi(g, i, mr_capi_out(dx));
}

static void take_rows(const overriding *v, mr_grad *g, int i, const mr_sparse_output *dx)
{
    const TF_Output parts[] = {dx->values, dx->indices, dx->dense_shape};
    mr_status *st = NULL;
    for (int j = 0; j < 3 && !st; j++)
        st = mr_capi_check_output(v->graph, parts[j]);
    if (!st && mr_dtype_base(mr_out_type(mr_capi_out(dx->dense_shape))) != MR_INT32)
        st = mr_invalid("The dense shape of a sparse gradient of '%s' is not of type int32",
                        g->node->name);
    if (st)
        mr_scope_fail(g->s, st);
    else
        mr_dxi_sparse(g, i, mr_capi_out(dx->values), mr_capi_out(dx->indices),
                      mr_capi_out(dx->dense_shape));
}

static TF_Output no_output(void) { return mr_capi_output(MR_NO_OUT); }

static mr_gradient_value value_of(const mr_gradient *g)
{
    return (mr_gradient_value){mr_capi_output(g->dense),
                               {mr_capi_output(g->values), mr_capi_output(g->indices),
                                mr_capi_output(g->dense_shape)}};
}

/* The graph is unlocked while a callback runs: it adds operations through the C API, which takes
 * the lock. */
static bool override_dense(const overriding *v, mr_grad *g) MR_NO_TSA
{
    const mr_node *n = g->node;
    TF_Output *dy = mr_new_array(TF_Output, n->n_out + 1);
    TF_Output *dx = mr_new_array(TF_Output, n->n_in + 1);
    for (int i = 0; i < n->n_out; i++)
        dy[i] = mr_has_dy(g, i) ? mr_capi_output(mr_dyi(g, i)) : no_output();
    for (int i = 0; i < n->n_in; i++)
        dx[i] = no_output();
    mr_unlock(&v->graph->mu);
    bool handled = v->o->override(v->o->override_arg, v->graph, mr_capi_op(n), dy, dx);
    mr_lock(&v->graph->mu);
    for (int i = 0; handled && i < n->n_in; i++)
        if (dx[i].oper)
            take_dense(v, g, i, dx[i]);
    mr_free(dy);
    mr_free(dx);
    return handled;
}

/* Calls the callback without the lock of the graph, because it adds nodes. Gradients that it does not set are none. */
static bool override_any(const overriding *v, mr_grad *g) MR_NO_TSA
{
    const mr_gradient nothing = MR_NO_GRAD;
    const mr_node *n = g->node;
    mr_gradient_value *dy = mr_new_array(mr_gradient_value, n->n_out + 1);
    mr_gradient_value *dx = mr_new_array(mr_gradient_value, n->n_in + 1);
    for (int i = 0; i < n->n_out; i++)
        dy[i] = value_of(mr_has_dy(g, i) ? mr_dy_any(g, i) : &nothing);
    for (int i = 0; i < n->n_in; i++)
        dx[i] = value_of(&nothing);
    mr_unlock(&v->graph->mu);
    bool handled = v->o->override_any(v->o->override_arg, v->graph, mr_capi_op(n), dy, dx);
    mr_lock(&v->graph->mu);
    for (int i = 0; handled && i < n->n_in; i++) {
        if (dx[i].dense.oper)
            take_dense(v, g, i, dx[i].dense);
        else if (dx[i].sparse.values.oper)
            take_rows(v, g, i, &dx[i].sparse);
    }
    mr_free(dy);
    mr_free(dx);
    return handled;
}

/* Lets the client's callback set the gradients of a node's inputs. */
static bool override_gradient(void *ctx, mr_grad *g) MR_NO_TSA
{
    const overriding *v = ctx;
    if (v->o->overrides) {
        mr_unlock(&v->graph->mu);
        bool wanted = v->o->overrides(v->o->override_arg, mr_capi_op(g->node));
        mr_lock(&v->graph->mu);
        if (!wanted)
            return false;
    }
    return v->o->override_any ? override_any(v, g) : override_dense(v, g);
}

static void give_gradients(const mr_gradient *g, int n, TF_Output *dense, mr_sparse_output *sparse)
{
    for (int i = 0; g && i < n; i++) {
        dense[i] = mr_capi_output(g[i].dense);
        if (sparse)
            sparse[i] = value_of(&g[i]).sparse;
    }
}

static mr_status *check_options(const TF_Graph *g, const mr_gradients_options *o)
{
    if (o->num_stop < 0 || (o->num_stop && !o->stop))
        return mr_invalid("stop is NULL, or num_stop is negative");
    for (int i = 0; i < o->num_stop; i++)
        MR_TRY(mr_capi_check_output(g, o->stop[i]));
    return NULL;
}

/* After an error dense and sparse are not set. */
void mr_gradients(TF_Graph *graph, const TF_Output *ys, int num_ys, const TF_Output *xs, int num_xs,
                  const mr_gradients_options *options, TF_Output *dense, mr_sparse_output *sparse,
                  TF_Status *status)
{
    mr_gradients_options o = {0};
    mr_gradient *found = NULL;
    if (options) /* of a client compiled against an older or a newer header */
        memcpy(&o, options, MR_MIN(options->struct_size, sizeof o));
    overriding over = {&o, graph};
    request r = {.g = graph, .y = ys, .ny = num_ys, .x = xs, .nx = num_xs, .grad_ys = o.grad_ys};
    mr_status *st = check_request(&r, dense);
    if (!st)
        st = check_options(graph, &o);
    if (!st && num_xs > 0)
        st = add_gradients(&r,
                           (mr_gradient_options){.prefix = o.prefix,
                                                 .n_stop = o.num_stop,
                                                 .stop = mr_capi_outs(o.stop),
                                                 .colocate = o.colocate,
                                                 .sparse = sparse != NULL,
                                                 .override = o.override || o.override_any ? override_gradient : NULL,
                                                 .ctx = &over},
                           &found);
    give_gradients(found, num_xs, dense, sparse);
    mr_free(found);
    mr_capi_set_status(status, st);
}

/* ---- gradients of a client's own ops ---- */

typedef struct client_gradient {
    mr_gradient_function *function;
    void *arg;
} client_gradient;

/* Opens the graph for a client's callback, which locks it by itself.  A graph of ours (a function's body) has no
 * client's handle: it gets one for the time of the call. */
static TF_Graph *open_graph(mr_graph *g, TF_Graph *room) MR_NO_TSA
{
    TF_Graph *theirs = g->tag;
    if (theirs) {
        mr_unlock(&theirs->mu);
        return theirs;
    }
    mr_mutex_init(&room->mu);
    room->graph = g;
    g->tag = room;
    return room;
}

static void close_graph(TF_Graph *opened, TF_Graph *room) MR_NO_TSA
{
    if (opened != room) {
        mr_lock(&opened->mu);
        return;
    }
    room->graph->tag = NULL;
    mr_mutex_deinit(&room->mu);
}

/* Has a client's function make the gradient of a node. */
static void call_gradient(void *ctx, mr_grad *g)
{
    const client_gradient *c = ctx;
    const mr_node *n = g->node;
    TF_Graph room = {0};
    TF_Status *status = TF_NewStatus();
    TF_Output *dy = mr_new_array(TF_Output, n->n_out + 1), *dx = mr_new_array(TF_Output, n->n_in + 1);
    for (int i = 0; i < n->n_out; i++)
        dy[i] = mr_has_dy(g, i) ? mr_capi_output(mr_dyi(g, i)) : no_output();
    for (int i = 0; i < n->n_in; i++)
        dx[i] = no_output();
    if (mr_scope_ok(g->s)) {
        TF_Graph *graph = open_graph(g->s->graph, &room);
        mr_gradient_call call = {sizeof call, graph, mr_capi_op(n), g->s->prefix, dy, dx};
        c->function(c->arg, &call, status);
        overriding v = {.graph = graph};
        mr_scope_fail(g->s, mr_capi_status_copy(status));
        close_graph(graph, &room);
        for (int i = 0; i < n->n_in && mr_scope_ok(g->s); i++)
            if (dx[i].oper)
                take_dense(&v, g, i, dx[i]);
    }
    mr_free(dy);
    mr_free(dx);
    TF_DeleteStatus(status);
}

void mr_register_gradient(const char *op_type, mr_gradient_function *function, void *arg, TF_Status *status)
{
    mr_status *st = NULL;
    mr_capi_init();
    if (!op_type || !op_type[0])
        MR_GO(mr_invalid("The name of the op is NULL or empty"));
    client_gradient *c = mr_new(client_gradient); /* never freed */
    *c = (client_gradient){function, arg};
    st = mr_gradient_register(op_type, function ? call_gradient : NULL, c);
    if (st || !function)
        mr_free(c);
out:
    mr_capi_set_status(status, st);
}
