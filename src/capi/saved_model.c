/* capi/saved_model.c -- TF_LoadSessionFromSavedModel. */
#include "exec/saved_model.h"

#include "capi/internal.h"
#include "graph/graph_def.h"

static mr_status *check_arguments(const char *dir, const char *const *tags, int n, TF_Graph *graph, const TF_Buffer *meta)
{
    if (!dir || n < 0 || (n && !tags) || !graph)
        return mr_invalid("A folder, tags and a graph are needed to load a SavedModel");
    for (int i = 0; i < n; i++)
        if (!tags[i])
            return mr_invalid("Tag %d is NULL", i);
    if (meta && meta->data)
        return mr_invalid("Passing non-empty meta_graph_def is invalid.");
    return NULL;
}

static mr_status *import_graph(TF_Graph *graph, const mr_meta_graph *m)
{
    mr_lock(&graph->mu);
    mr_status *st = graph->graph->nodes.n ? mr_invalid("Graph is non-empty.")
                                          : mr_graph_import(graph->graph, m->graph_def, NULL, NULL);
    mr_unlock(&graph->mu);
    return st;
}

static mr_status *give_meta(const mr_meta_graph *m, TF_Buffer *out)
{
    mr_str copy = {0};
    if (!out)
        return NULL;
    if (!mr_str_try_append(&copy, m->bytes.p, m->bytes.n))
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for a MetaGraphDef of %zu bytes", m->bytes.n);
    return mr_capi_buffer_fill(out, &copy);
}

/* Frees the session if the state of the model cannot be loaded into it. */
static mr_status *start_session(TF_Graph *graph, const TF_SessionOptions *options, const mr_meta_graph *m,
                                const char *dir, const mr_run_options *o, TF_Session **out)
{
    TF_Session *s;
    MR_TRY(import_graph(graph, m));
    MR_TRY(mr_capi_new_session(graph, options, &s));
    mr_status *st = mr_saved_model_start(s->session, graph->graph, m, dir, o);
    if (st)
        mr_capi_free_session(s);
    else
        *out = s;
    return st;
}

TF_Session *TF_LoadSessionFromSavedModel(const TF_SessionOptions *session_options, const TF_Buffer *run_options, const char *export_dir,
                                         const char *const *tags, int tags_len, TF_Graph *graph, TF_Buffer *meta_graph_def,
                                         TF_Status *status)
{
    mr_saved_model model = {0};
    const mr_meta_graph *m;
    mr_run_options o = {0};
    TF_Session *out = NULL;
    mr_status *st = NULL;
    mr_capi_init();
    MR_GO(check_arguments(export_dir, tags, tags_len, graph, meta_graph_def));
    if (run_options)
        MR_GO(mr_capi_run_options(run_options, &o));
    MR_GO(mr_saved_model_read(export_dir, &model));
    MR_GO(mr_saved_model_find(&model, tags, tags_len, &m));
    MR_GO(start_session(graph, session_options, m, export_dir, run_options ? &o : NULL, &out));
    MR_GO(give_meta(m, meta_graph_def));
out:
    mr_saved_model_deinit(&model);
    if (st) {
        mr_capi_free_session(out);
        out = NULL;
    }
    mr_capi_set_status(status, st);
    return out;
}
