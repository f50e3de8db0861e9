/* capi/deprecated_session.c -- sessions that take GraphDefs and names instead of a TF_Graph.
 *
 * Such a session owns a graph that TF_ExtendGraph adds to; a run looks up the names in it and then
 * runs as usual. */
#include "capi/internal.h"
#include "graph/graph_def.h"

struct TF_DeprecatedSession {
    TF_Graph *graph;
    TF_Session *session;
};

TF_DeprecatedSession *TF_NewDeprecatedSession(const TF_SessionOptions *opts, TF_Status *status)
{
    TF_Graph *g = TF_NewGraph();
    TF_Session *s = TF_NewSession(g, opts, status);
    if (!s) {
        TF_DeleteGraph(g);
        return NULL;
    }
    TF_DeprecatedSession *d = mr_new(TF_DeprecatedSession);
    *d = (TF_DeprecatedSession){g, s};
    return d;
}

void TF_CloseDeprecatedSession(TF_DeprecatedSession *session, TF_Status *status)
{
    TF_CloseSession(session ? session->session : NULL, status);
}

void TF_DeleteDeprecatedSession(TF_DeprecatedSession *session, TF_Status *status)
{
    if (session)
        TF_DeleteGraph(session->graph); /* freed with its session */
    TF_DeleteSession(session ? session->session : NULL, status);
    mr_free(session);
}

TF_DeviceList *TF_DeprecatedSessionListDevices(TF_DeprecatedSession *session, TF_Status *status)
{
    return TF_SessionListDevices(session ? session->session : NULL, status);
}

/* New nodes may refer to nodes of the graph by name; each of these gets an input mapping. */
static mr_status *extend_graph(mr_graph *g, mr_sv graph_def)
{
    MR_VEC(mr_import_map) maps = {0};
    for (int i = 0; i < g->nodes.n; i++) {
        mr_node *n = g->nodes.p[i];
        for (int k = -1; k < n->n_out; k++)
            mr_vec_push(&maps, (mr_import_map){n->name, k, {n, k}});
    }
    mr_import_options o = {.n_maps = maps.n, .maps = maps.p};
    mr_status *st = mr_graph_import(g, graph_def, &o, NULL);
    mr_vec_deinit(&maps);
    return st;
}

void TF_ExtendGraph(TF_DeprecatedSession *session, const void *proto, size_t proto_len,
                    TF_Status *status)
{
    mr_status *st = NULL;
    if (!session || (proto_len && !proto)) {
        st = mr_invalid("session or proto is NULL");
    } else {
        mr_lock(&session->graph->mu);
        st = extend_graph(session->graph->graph, (mr_sv){proto, proto_len});
        mr_unlock(&session->graph->mu);
    }
    mr_capi_set_status(status, st);
}

/* ---- names to operations ---- */

typedef struct named_run {
    TF_Output *feeds, *fetches;
    const TF_Operation **targets;
} named_run;

static mr_status *find_output(const mr_graph *g, const char *name, const char *what, TF_Output *out)
{
    mr_tensor_name t;
    if (!name || !mr_tensor_name_parse(mr_sv_of(name), &t) || t.index < 0)
        return mr_invalid("%s '%s' is not the name of a tensor", what, name ? name : "");
    mr_node *n = mr_graph_find(g, t.node);
    if (!n)
        return mr_error(MR_NOT_FOUND, "%s %s: not found", what, name);
    *out = (TF_Output){mr_capi_op(n), t.index};
    return NULL;
}

static mr_status *find_outputs(const mr_graph *g, const char **names, int n, const char *what,
                               TF_Output **out)
{
    if (n < 0 || (n && !names))
        return mr_invalid("The list of names is NULL, or its length %d is negative", n);
    *out = mr_try_calloc((size_t)n, sizeof(TF_Output));
    if (!*out)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %d names", n);
    for (int i = 0; i < n; i++)
        MR_TRY(find_output(g, names[i], what, &(*out)[i]));
    return NULL;
}

static mr_status *find_targets(const mr_graph *g, const char **names, int n,
                               const TF_Operation ***out)
{
    if (n < 0 || (n && !names))
        return mr_invalid("The list of names is NULL, or its length %d is negative", n);
    *out = mr_try_calloc((size_t)n, sizeof(TF_Operation *));
    if (!*out)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %d names", n);
    for (int i = 0; i < n; i++) {
        (*out)[i] = mr_capi_op(mr_graph_find(g, mr_sv_of(names[i] ? names[i] : "")));
        if (!(*out)[i])
            return mr_error(MR_NOT_FOUND, "PruneForTargets: Some target nodes not found: %s",
                            names[i] ? names[i] : "");
    }
    return NULL;
}

static mr_status *resolve_names(TF_DeprecatedSession *s, const char **inputs, int n_in,
                                const char **outputs, int n_out, const char **targets, int n_targets,
                                named_run *r)
{
    *r = (named_run){0};
    if (!s)
        return mr_invalid("session is NULL");
    mr_lock(&s->graph->mu);
    mr_status *st = s->graph->graph->nodes.n > 0 ? NULL : mr_invalid("Session was not created with a graph before Run()!");
    if (!st)
        st = find_outputs(s->graph->graph, inputs, n_in, "Feed", &r->feeds);
    if (!st)
        st = find_outputs(s->graph->graph, outputs, n_out, "Fetch", &r->fetches);
    if (!st)
        st = find_targets(s->graph->graph, targets, n_targets, &r->targets);
    mr_unlock(&s->graph->mu);
    return st;
}

static void free_named_run(named_run *r)
{
    mr_free(r->feeds);
    mr_free(r->fetches);
    mr_free(r->targets);
}

/* After an error no output is set, even if it occurs before the run. */
static void clear_outputs(TF_Tensor **outputs, int n)
{
    for (int i = 0; outputs && i < n; i++)
        outputs[i] = NULL;
}

/* ---- running ---- */

void TF_Run(TF_DeprecatedSession *session, const TF_Buffer *run_options, const char **input_names,
            TF_Tensor **inputs, int ninputs, const char **output_names, TF_Tensor **outputs,
            int noutputs, const char **target_oper_names, int ntargets, TF_Buffer *run_metadata,
            TF_Status *status)
{
    named_run r;
    mr_status *st = resolve_names(session, input_names, ninputs, output_names, noutputs,
                                  target_oper_names, ntargets, &r);
    clear_outputs(outputs, noutputs);
    if (st)
        mr_capi_set_status(status, st);
    else
        TF_SessionRun(session->session, run_options, r.feeds, inputs, ninputs, r.fetches, outputs,
                      noutputs, r.targets, ntargets, run_metadata, status);
    free_named_run(&r);
}

void TF_PRunSetup(TF_DeprecatedSession *session, const char **input_names, int ninputs,
                  const char **output_names, int noutputs, const char **target_oper_names,
                  int ntargets, const char **handle, TF_Status *status)
{
    named_run r;
    mr_status *st = resolve_names(session, input_names, ninputs, output_names, noutputs,
                                  target_oper_names, ntargets, &r);
    if (handle)
        *handle = NULL;
    if (st)
        mr_capi_set_status(status, st);
    else
        TF_SessionPRunSetup(session->session, r.feeds, ninputs, r.fetches, noutputs, r.targets,
                            ntargets, handle, status);
    free_named_run(&r);
}

void TF_PRun(TF_DeprecatedSession *session, const char *handle, const char **input_names,
             TF_Tensor **inputs, int ninputs, const char **output_names, TF_Tensor **outputs,
             int noutputs, const char **target_oper_names, int ntargets, TF_Status *status)
{
    named_run r;
    mr_status *st = resolve_names(session, input_names, ninputs, output_names, noutputs,
                                  target_oper_names, ntargets, &r);
    clear_outputs(outputs, noutputs);
    if (st)
        mr_capi_set_status(status, st);
    else
        TF_SessionPRun(session->session, handle, r.feeds, inputs, ninputs, r.fetches, outputs,
                       noutputs, r.targets, ntargets, status);
    free_named_run(&r);
}
