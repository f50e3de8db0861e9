/* capi/session.c -- TF_Session: options, runs, partial runs. */
#include "capi/internal.h"

/* ---- options ---- */

TF_SessionOptions *TF_NewSessionOptions(void)
{
    TF_SessionOptions *o = mr_new(TF_SessionOptions);
    o->target = mr_strdup("");
    return o;
}

void TF_DeleteSessionOptions(TF_SessionOptions *o)
{
    if (!o)
        return;
    mr_free(o->target);
    mr_str_deinit(&o->config_proto);
    mr_free(o);
}

void TF_SetTarget(TF_SessionOptions *options, const char *target)
{
    mr_free(options->target);
    options->target = mr_strdup(target ? target : "");
}

void TF_SetConfig(TF_SessionOptions *options, const void *proto, size_t proto_len, TF_Status *status)
{
    mr_session_config c;
    mr_status *st = mr_session_config_parse((mr_sv){proto, proto_len}, &c);
    if (st) {
        mr_status_free(st);
        st = mr_invalid("Unparseable ConfigProto");
    } else {
        options->config = c;
        mr_str_clear(&options->config_proto);
        mr_str_append(&options->config_proto, proto, proto_len);
    }
    mr_capi_set_status(status, st);
}

mr_status *mr_capi_open_session(const TF_SessionOptions *o, mr_graph *g, mr_mutex *mu, mr_session **out)
{
    mr_capi_init();
    if (o->target[0] && strcmp(o->target, "local") != 0)
        return mr_error(MR_NOT_FOUND, "No session factory registered for the given session options: {target: \"%s\"}",
                        o->target);
    return mr_direct_session_new(g, mu, &o->config, out);
}

/* ---- sessions ---- */

TF_Session *TF_NewSession(TF_Graph *graph, const TF_SessionOptions *opts, TF_Status *status)
{
    mr_session *s = NULL;
    mr_status *st = mr_capi_open_session(opts, graph->graph, &graph->mu, &s);
    mr_capi_set_status(status, st);
    if (st)
        return NULL;
    TF_Session *out = mr_new(TF_Session);
    *out = (TF_Session){s, graph};
    mr_lock(&graph->mu);
    graph->n_sessions++;
    mr_unlock(&graph->mu);
    return out;
}

void TF_CloseSession(TF_Session *s, TF_Status *status)
{
    mr_capi_set_status(status, mr_session_close(s->session));
}

void TF_DeleteSession(TF_Session *s, TF_Status *status)
{
    mr_capi_set_status(status, NULL);
    if (!s)
        return;
    mr_session_free(s->session);
    TF_Graph *g = s->graph;
    mr_free(s);
    mr_lock(&g->mu);
    g->n_sessions--;
    mr_capi_graph_release(g);
}

void TF_ExtendSession(TF_Session *session, TF_Status *status)
{
    (void)session; /* a session sees new operations by itself */
    mr_capi_set_status(status, NULL);
}

/* ---- runs ---- */

enum { ON_STACK = 32 }; /* feeds and fetches that need no memory of their own */

typedef struct values { /* a client's tensors as ours, and back */
    mr_tensor *small_in[ON_STACK], *small_out[ON_STACK];
    mr_tensor **in, **out;
} values;

static mr_status *open_values(values *v, TF_Tensor *const *in, int n_in, int n_out)
{
    if (n_in < 0 || n_out < 0)
        return mr_invalid("a negative number of feeds or fetches");
    v->in = n_in <= ON_STACK ? v->small_in : mr_new_array(mr_tensor *, n_in);
    v->out = n_out <= ON_STACK ? v->small_out : mr_new_array(mr_tensor *, n_out);
    for (int i = 0; i < n_out; i++)
        v->out[i] = NULL;
    for (int i = 0; i < n_in; i++) {
        if (!in[i])
            return mr_invalid("feed %d has no tensor", i);
        v->in[i] = in[i]->t;
    }
    return NULL;
}

static void close_values(values *v, TF_Tensor **out, int n_out)
{
    for (int i = 0; i < n_out; i++)
        out[i] = mr_capi_tensor_new(v->out[i]);
    if (v->in != v->small_in)
        mr_free(v->in);
    if (v->out != v->small_out)
        mr_free(v->out);
}

static mr_status *check_operations(const TF_Session *s, const mr_run_args *a)
{
    for (int i = 0; i < a->n_feeds; i++)
        if (!a->feeds[i].node || a->feeds[i].node->graph != s->graph->graph)
            return mr_invalid("feed %d is not an operation of the session's graph", i);
    for (int i = 0; i < a->n_fetches; i++)
        if (!a->fetches[i].node || a->fetches[i].node->graph != s->graph->graph)
            return mr_invalid("fetch %d is not an operation of the session's graph", i);
    for (int i = 0; i < a->n_targets; i++)
        if (!a->targets[i] || a->targets[i]->graph != s->graph->graph)
            return mr_invalid("target %d is not an operation of the session's graph", i);
    return NULL;
}

static mr_run_args args_of(const values *v, const TF_Output *inputs, int ninputs, const TF_Output *outputs, int noutputs,
                           const TF_Operation *const *targets, int ntargets)
{
    return (mr_run_args){
        .feeds = mr_capi_outs(inputs), .feed_values = v->in, .n_feeds = ninputs,
        .fetches = mr_capi_outs(outputs), .fetched = v->out, .n_fetches = noutputs,
        .targets = (mr_node *const *)(uintptr_t)targets, .n_targets = ntargets,
    };
}

static mr_status *run(TF_Session *s, const TF_Buffer *run_options, const mr_run_args *a, TF_Buffer *run_metadata)
{
    mr_run_options o = {0};
    mr_str metadata = {0};
    if (run_metadata && run_metadata->data)
        return mr_invalid("Passing non-empty run_metadata is invalid.");
    MR_TRY(check_operations(s, a));
    if (run_options)
        MR_TRY(mr_run_options_parse(mr_capi_buffer_view(run_options), &o));
    mr_status *st = mr_session_run(s->session, a, run_options ? &o : NULL, run_metadata ? &metadata : NULL);
    if (run_metadata)
        mr_status_update(&st, mr_capi_buffer_fill(run_metadata, &metadata));
    return st;
}

void TF_SessionRun(TF_Session *session, const TF_Buffer *run_options, const TF_Output *inputs,
                   TF_Tensor *const *input_values, int ninputs, const TF_Output *outputs, TF_Tensor **output_values,
                   int noutputs, const TF_Operation *const *target_opers, int ntargets, TF_Buffer *run_metadata,
                   TF_Status *status)
{
    values v;
    mr_status *st = open_values(&v, input_values, ninputs, noutputs);
    mr_run_args a = args_of(&v, inputs, ninputs, outputs, noutputs, target_opers, ntargets);
    if (!st)
        st = run(session, run_options, &a, run_metadata);
    close_values(&v, output_values, MR_MAX(noutputs, 0));
    mr_capi_set_status(status, st);
}

/* ---- partial runs ---- */

void TF_SessionPRunSetup(TF_Session *session, const TF_Output *inputs, int ninputs, const TF_Output *outputs, int noutputs,
                         const TF_Operation *const *target_opers, int ntargets, const char **handle, TF_Status *status)
{
    values v = {0};
    char *h = NULL;
    mr_run_args a = args_of(&v, inputs, ninputs, outputs, noutputs, target_opers, ntargets);
    mr_status *st = check_operations(session, &a);
    if (!st)
        st = session->session->ops->partial_setup(session->session, &a, &h);
    *handle = st ? NULL : h;
    mr_capi_set_status(status, st);
}

void TF_SessionPRun(TF_Session *session, const char *handle, const TF_Output *inputs, TF_Tensor *const *input_values,
                    int ninputs, const TF_Output *outputs, TF_Tensor **output_values, int noutputs,
                    const TF_Operation *const *target_opers, int ntargets, TF_Status *status)
{
    values v;
    (void)target_opers, (void)ntargets; /* those of the set-up count */
    mr_status *st = open_values(&v, input_values, ninputs, noutputs);
    mr_run_args a = args_of(&v, inputs, ninputs, outputs, noutputs, NULL, 0);
    if (!st)
        st = check_operations(session, &a);
    if (!st)
        st = session->session->ops->partial_run(session->session, handle, &a);
    close_values(&v, output_values, MR_MAX(noutputs, 0));
    mr_capi_set_status(status, st);
}

void TF_DeletePRunHandle(const char *handle) { mr_free((char *)(uintptr_t)handle); }
