/* capi/session.c -- TF_Session: options, runs, partial runs.
 *
 * A run only unwraps the client's tensors, calls exec/, and wraps the fetched ones. Up to ON_STACK
 * of each need no memory; more use the allocator of tensors, which keeps freed memory. So a step
 * that ran before allocates nothing. */
#include "capi/internal.h"
#include "server/server.h"

/* ---- options ---- */

TF_SessionOptions *TF_NewSessionOptions(void)
{
    TF_SessionOptions *o = mr_new(TF_SessionOptions);
    o->target = mr_strdup("");
    return o;
}

void TF_DeleteSessionOptions(TF_SessionOptions *options)
{
    if (!options)
        return;
    mr_free(options->target);
    mr_str_deinit(&options->config_proto);
    mr_capi_simulated_free(options->simulated);
    mr_free(options);
}

void TF_SetTarget(TF_SessionOptions *options, const char *target)
{
    if (!options)
        return;
    mr_free(options->target);
    options->target = mr_strdup(target ? target : "");
}

void TF_SetConfig(TF_SessionOptions *options, const void *proto, size_t proto_len,
                  TF_Status *status)
{
    mr_session_config c;
    mr_status *st = NULL;
    if (!options || (proto_len && !proto))
        MR_GO(mr_invalid("options or proto is NULL"));
    if ((st = mr_session_config_parse((mr_sv){proto, proto_len}, &c))) {
        mr_status_free(st);
        MR_GO(mr_invalid("Unparseable ConfigProto"));
    }
    mr_str copy = {0};
    if (!mr_str_try_append(&copy, proto, proto_len))
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "No memory for a ConfigProto"));
    mr_str_deinit(&options->config_proto);
    options->config_proto = copy;
    options->config = c;
out:
    mr_capi_set_status(status, st);
}

static bool is_local(const char *target) { return !target[0] || strcmp(target, "local") == 0; }

/* The address after grpc://, or NULL. */
static const char *master_address(const char *target)
{
    static const char scheme[] = "grpc://";
    return strncmp(target, scheme, sizeof scheme - 1) == 0 ? target + sizeof scheme - 1 : NULL;
}

static mr_status *no_target(const char *target)
{
    return mr_error(MR_NOT_FOUND,
                    "No session factory registered for the given session options: {target: \"%s\"}",
                    target);
}

/* Opens a session in this process, or for a target grpc://ADDRESS one on that master. mu guards the graph. */
mr_status *mr_capi_open_session(const TF_SessionOptions *o, mr_graph *g, mr_mutex *mu, mr_cancel *cancel, mr_session **out)
{
    mr_session_config config = o ? o->config : (mr_session_config){0};
    mr_capi_init();
    if (o && o->simulated && !is_local(o->target))
        return mr_invalid(
            "Simulated devices can be set only for sessions in this process; for %s, start its servers with them",
            o->target);
    if (o && master_address(o->target))
        return mr_remote_session_new(NULL, master_address(o->target), g, mu, mr_str_view(&o->config_proto), cancel, out);
    if (o && !is_local(o->target))
        return no_target(o->target);
    config.simulated = o ? o->simulated : NULL;
    return mr_direct_session_new(g, mu, &config, out);
}

static mr_status *reset_containers(const TF_SessionOptions *o, const char *const *containers, int n)
{
    if (!o || is_local(o->target)) {
        mr_direct_sessions_reset(containers, n);
        return NULL;
    }
    if (!master_address(o->target))
        return no_target(o->target);
    return mr_remote_reset(NULL, master_address(o->target), containers, n, o->config.timeout_ms);
}

void TF_Reset(const TF_SessionOptions *opt, const char **containers, int ncontainers,
              TF_Status *status)
{
    mr_status *st = NULL;
    if (ncontainers < 0 || (ncontainers && !containers))
        st = mr_invalid("containers is NULL, or its length %d is negative", ncontainers);
    for (int i = 0; !st && i < ncontainers; i++)
        if (!containers[i])
            st = mr_invalid("Container %d has no name", i);
    if (!st)
        st = reset_containers(opt, containers, ncontainers);
    mr_capi_set_status(status, st);
}

/* ---- sessions ---- */

mr_status *mr_capi_new_session(TF_Graph *graph, const TF_SessionOptions *opts, TF_Session **out)
{
    mr_session *s = NULL;
    if (!graph)
        return mr_invalid("graph is NULL");
    MR_TRY(mr_capi_open_session(opts, graph->graph, &graph->mu, NULL, &s));
    *out = mr_new(TF_Session);
    **out = (TF_Session){s, graph};
    mr_lock(&graph->mu);
    graph->n_sessions++;
    mr_unlock(&graph->mu);
    return NULL;
}

TF_Session *TF_NewSession(TF_Graph *graph, const TF_SessionOptions *opts, TF_Status *status)
{
    TF_Session *out = NULL;
    mr_capi_set_status(status, mr_capi_new_session(graph, opts, &out));
    return out;
}

static mr_status *no_session(void) { return mr_invalid("session is NULL"); }

void TF_CloseSession(TF_Session *session, TF_Status *status)
{
    mr_capi_set_status(status, session ? mr_session_close(session->session) : no_session());
}

void mr_capi_free_session(TF_Session *session)
{
    if (!session)
        return;
    mr_session_free(session->session);
    TF_Graph *g = session->graph;
    mr_free(session);
    mr_lock(&g->mu);
    g->n_sessions--;
    mr_capi_graph_release(g);
}

void TF_DeleteSession(TF_Session *session, TF_Status *status)
{
    mr_capi_set_status(status, NULL);
    mr_capi_free_session(session);
}

void TF_ExtendSession(TF_Session *session, TF_Status *status)
{
    /* Otherwise nothing to do: a session sees new operations by itself. */
    mr_capi_set_status(status, session ? NULL : no_session());
}

/* ---- the client's tensors as ours, and back ---- */

enum { ON_STACK = 32 };

typedef struct values {
    mr_tensor *small[2 * ON_STACK];
    mr_tensor **in, **out; /* owned */
    int n_in, n_out;
    bool on_heap; /* then in and out are one block */
} values;

static size_t heap_bytes(const values *v)
{
    return ((size_t)v->n_in + (size_t)v->n_out) * sizeof(mr_tensor *);
}

/* Makes room for n_in and n_out tensors, all NULL: in v itself if they fit, otherwise in one block. */
static mr_status *reserve_values(values *v, int n_in, int n_out)
{
    if (n_in < 0 || n_out < 0)
        return mr_invalid("The number of feeds or fetches is negative");
    mr_allocator *a = mr_cpu_allocator();
    bool small = n_in <= ON_STACK && n_out <= ON_STACK;
    v->n_in = n_in;
    v->n_out = n_out;
    v->in = small ? v->small : a->alloc(a, heap_bytes(v));
    if (!v->in) {
        v->n_in = v->n_out = 0;
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %d feeds and %d fetches", n_in,
                        n_out);
    }
    v->on_heap = !small;
    v->out = v->in + n_in;
    for (int i = 0; i < n_in; i++)
        v->in[i] = NULL;
    for (int i = 0; i < n_out; i++)
        v->out[i] = NULL;
    return NULL;
}

/* Also sets all of `outputs` to NULL: so they are on every error. */
static mr_status *open_values(values *v, TF_Tensor *const *inputs, int n_in, TF_Tensor **outputs,
                              int n_out)
{
    v->on_heap = false;
    v->n_in = v->n_out = 0;
    if ((n_in > 0 && !inputs) || (n_out > 0 && !outputs))
        return mr_invalid("inputs or outputs is NULL although there are %d inputs and %d outputs", n_in, n_out);
    for (int i = 0; i < n_out; i++)
        outputs[i] = NULL;
    MR_TRY(reserve_values(v, n_in, n_out));
    for (int i = 0; i < n_in; i++) {
        if (!inputs[i])
            return mr_invalid("The tensor of feed %d is NULL", i);
        MR_TRY(mr_capi_tensor_value(inputs[i], &v->in[i]));
    }
    return NULL;
}

static void close_values(values *v, TF_Tensor **outputs)
{
    for (int i = 0; i < v->n_out; i++)
        outputs[i] = mr_capi_tensor_new(v->out[i]);
    for (int i = 0; i < v->n_in; i++)
        mr_tensor_unref(v->in[i]);
    mr_allocator *a = mr_cpu_allocator();
    if (v->on_heap)
        a->free(a, v->in, heap_bytes(v));
}

/* ---- checking what to run ---- */

static mr_run_args args_of(const values *v, const TF_Output *inputs, int ninputs,
                           const TF_Output *outputs, int noutputs,
                           const TF_Operation *const *targets, int ntargets)
{
    return (mr_run_args){
        .feeds = mr_capi_outs(inputs),
        .feed_values = v ? v->in : NULL,
        .n_feeds = ninputs,
        .fetches = mr_capi_outs(outputs),
        .fetched = v ? v->out : NULL,
        .n_fetches = noutputs,
        .targets = (mr_node *const *)(uintptr_t)targets,
        .n_targets = ntargets,
    };
}

static mr_status *check_outs(const TF_Session *s, const mr_out *o, int n, const char *what)
{
    if (n < 0 || (n && !o))
        return mr_invalid("The list of %ss is NULL, or its length %d is negative", what, n);
    for (int i = 0; i < n; i++)
        if (!o[i].node || o[i].node->graph != s->graph->graph)
            return mr_invalid("%s %d is not an operation of the session's graph", what, i);
    return NULL;
}

mr_status *mr_capi_check_operations(const TF_Session *s, const mr_run_args *a)
{
    if (!s)
        return no_session();
    MR_TRY(check_outs(s, a->feeds, a->n_feeds, "feed"));
    MR_TRY(check_outs(s, a->fetches, a->n_fetches, "fetch"));
    if (a->n_targets < 0 || (a->n_targets && !a->targets))
        return mr_invalid("The list of targets is NULL, or its length %d is negative", a->n_targets);
    for (int i = 0; i < a->n_targets; i++)
        if (!a->targets[i] || a->targets[i]->graph != s->graph->graph)
            return mr_invalid("target %d is not an operation of the session's graph", i);
    return mr_capi_check_cycles(s->graph);
}

mr_status *mr_capi_run_options(const TF_Buffer *run_options, mr_run_options *o)
{
    mr_status *st = mr_run_options_parse(mr_capi_buffer_view(run_options), o);
    mr_status_free(st);
    return st ? mr_invalid("Unparseable RunOptions proto") : NULL;
}

/* ---- runs ---- */

/* Checks the arguments, runs one step, and fills run_metadata if it is not NULL. A step in an interruptible thread gets
 * its cancel object. */
static mr_status *run_step(TF_Session *s, const TF_Buffer *run_options, const mr_run_args *a,
                           TF_Buffer *run_metadata)
{
    mr_run_options o = {0};
    mr_str metadata = {0};
    if (run_metadata && run_metadata->data)
        return mr_invalid("Passing non-empty run_metadata is invalid.");
    MR_TRY(mr_capi_check_operations(s, a));
    if (run_options)
        MR_TRY(mr_capi_run_options(run_options, &o));
    o.cancel = mr_capi_run_cancel();
    mr_status *st = mr_session_run(s->session, a, run_options || o.cancel ? &o : NULL, run_metadata ? &metadata : NULL);
    if (run_metadata)
        mr_status_update(&st, mr_capi_buffer_fill(run_metadata, &metadata));
    return st;
}

void TF_SessionRun(TF_Session *session, const TF_Buffer *run_options, const TF_Output *inputs,
                   TF_Tensor *const *input_values, int ninputs, const TF_Output *outputs,
                   TF_Tensor **output_values, int noutputs, const TF_Operation *const *target_opers,
                   int ntargets, TF_Buffer *run_metadata, TF_Status *status)
{
    values v;
    mr_status *st = open_values(&v, input_values, ninputs, output_values, noutputs);
    if (!st) {
        mr_run_args a = args_of(&v, inputs, ninputs, outputs, noutputs, target_opers, ntargets);
        st = run_step(session, run_options, &a, run_metadata);
    }
    close_values(&v, output_values);
    mr_capi_set_status(status, st);
}

/* ---- partial runs ---- */

void TF_SessionPRunSetup(TF_Session *session, const TF_Output *inputs, int ninputs,
                         const TF_Output *outputs, int noutputs,
                         const TF_Operation *const *target_opers, int ntargets, const char **handle,
                         TF_Status *status)
{
    char *h = NULL;
    mr_run_args a = args_of(NULL, inputs, ninputs, outputs, noutputs, target_opers, ntargets);
    mr_status *st = handle ? mr_capi_check_operations(session, &a) : mr_invalid("handle is NULL");
    if (!st)
        st = session->session->ops->partial_setup(session->session, &a, &h);
    if (handle)
        *handle = st ? NULL : h;
    mr_capi_set_status(status, st);
}

void TF_SessionPRun(TF_Session *session, const char *handle, const TF_Output *inputs,
                    TF_Tensor *const *input_values, int ninputs, const TF_Output *outputs,
                    TF_Tensor **output_values, int noutputs,
                    const TF_Operation *const *target_opers, int ntargets, TF_Status *status)
{
    values v;
    (void)target_opers, (void)ntargets; /* those of the set-up count */
    mr_status *st = open_values(&v, input_values, ninputs, output_values, noutputs);
    if (!st) {
        mr_run_args a = args_of(&v, inputs, ninputs, outputs, noutputs, NULL, 0);
        st = mr_capi_check_operations(session, &a);
        if (!st)
            st = session->session->ops->partial_run(session->session, handle ? handle : "", &a,
                                                    &(mr_run_options){.cancel = mr_capi_run_cancel()});
    }
    close_values(&v, output_values);
    mr_capi_set_status(status, st);
}

void TF_DeletePRunHandle(const char *handle) { mr_free((char *)(uintptr_t)handle); }
