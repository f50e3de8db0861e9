/* capi/exporter.c -- millrace/saved_model.h: checks the description of a client and converts it to that of
 * train/exporter.h. */
#include "train/exporter.h"

#include "capi/model.h"
#include "exec/saved_model.h"
#include "millrace/saved_model.h"

static mr_status *take_tensors(const TF_Graph *g, mr_arena *a, const mr_signature_arg *t, int n, const mr_export_tensor **out)
{
    if (n < 0 || (n && !t))
        return mr_invalid("The tensors of a signature are NULL, or their number %d is negative", n);
    mr_export_tensor *to = mr_arena_array(a, mr_export_tensor, n + 1);
    for (int i = 0; i < n; i++) {
        if (!t[i].name)
            return mr_invalid("Tensor %d of a signature has no name", i);
        MR_TRY(mr_capi_check_output(g, t[i].tensor));
        to[i] = (mr_export_tensor){t[i].name, mr_capi_out(t[i].tensor)};
    }
    *out = to;
    return NULL;
}

static mr_status *take_signatures(const TF_Graph *g, mr_arena *a, const mr_saved_model_options *o, mr_export *e)
{
    if (o->num_signatures < 0 || (o->num_signatures && !o->signatures))
        return mr_invalid("signatures is NULL, or its length %d is negative", o->num_signatures);
    mr_export_signature *to = mr_arena_array(a, mr_export_signature, o->num_signatures + 1);
    for (int i = 0; i < o->num_signatures; i++) {
        const mr_signature *s = &o->signatures[i];
        to[i] = (mr_export_signature){.key = s->key, .method = s->method ? s->method : MR_PREDICT, .n_inputs = s->num_inputs,
                                      .n_outputs = s->num_outputs};
        if (!s->key)
            return mr_invalid("Signature %d has no key", i);
        MR_TRY(take_tensors(g, a, s->inputs, s->num_inputs, &to[i].inputs));
        MR_TRY(take_tensors(g, a, s->outputs, s->num_outputs, &to[i].outputs));
    }
    e->signatures = to;
    e->n_signatures = o->num_signatures;
    return NULL;
}

static mr_status *take_assets(const TF_Graph *g, mr_arena *a, const mr_saved_model_options *o, mr_export *e)
{
    if (o->num_assets < 0 || (o->num_assets && !o->assets))
        return mr_invalid("assets is NULL, or its length %d is negative", o->num_assets);
    mr_export_asset *to = mr_arena_array(a, mr_export_asset, o->num_assets + 1);
    for (int i = 0; i < o->num_assets; i++) {
        if (!o->assets[i].file)
            return mr_invalid("Asset %d has no file", i);
        MR_TRY(mr_capi_check_output(g, o->assets[i].path));
        to[i] = (mr_export_asset){mr_capi_out(o->assets[i].path), o->assets[i].file};
    }
    e->assets = to;
    e->n_assets = o->num_assets;
    return NULL;
}

static mr_status *take_tags(const mr_saved_model_options *o, mr_export *e)
{
    static const char *const serve[] = {"serve"};
    if (o->num_tags < 0 || (o->num_tags && !o->tags))
        return mr_invalid("tags is NULL, or its length %d is negative", o->num_tags);
    for (int i = 0; i < o->num_tags; i++)
        if (!o->tags[i])
            return mr_invalid("Tag %d is NULL", i);
    e->tags = o->num_tags ? o->tags : serve;
    e->n_tags = o->num_tags ? o->num_tags : 1;
    return NULL;
}

static mr_status *take_all(const TF_Graph *g, mr_arena *a, const mr_saved_model_options *o, mr_export *e)
{
    MR_TRY(take_tags(o, e));
    MR_TRY(take_signatures(g, a, o, e));
    MR_TRY(take_assets(g, a, o, e));
    if (o->init)
        MR_TRY(mr_capi_check_op(g, o->init));
    e->init = mr_capi_node(o->init);
    return NULL;
}

/* The graph is exported under its lock, but not while variables are saved: a run takes the lock too. */
void mr_saved_model_save(TF_Graph *graph, mr_saver *saver, TF_Session *session, const char *dir, const mr_saved_model_options *options,
                         TF_Status *status)
{
    mr_arena a = {0};
    mr_export e = {0};
    mr_saved_model_options o;
    mr_str meta = {0};
    mr_nn_saver *ours = saver ? mr_capi_saver(saver) : NULL;
    mr_status *st = NULL;
    if (!graph || !dir || (saver && !session))
        MR_GO(mr_invalid("graph or dir is NULL, or there is a saver without a session"));
    MR_GO(mr_capi_take_options(options, &o, sizeof o));
    MR_GO(take_all(graph, &a, &o, &e));
    mr_lock(&graph->mu);
    st = mr_meta_graph_write(graph->graph, ours, &e, &meta);
    mr_unlock(&graph->mu);
    MR_GO(st);
    MR_GO(mr_export_saved_model(mr_str_view(&meta), ours, session ? session->session : NULL, dir, &e));
out:
    mr_str_deinit(&meta);
    mr_arena_deinit(&a);
    mr_capi_set_status(status, st);
}

static mr_status *find_named(const mr_model_tensor *t, int n, const char *key, const char *name, TF_Output *out)
{
    for (int i = 0; i < n; i++)
        if (strcmp(t[i].name, name) == 0) {
            *out = mr_capi_output(t[i].tensor);
            return NULL;
        }
    return mr_error(MR_NOT_FOUND, "Signature '%s' has no tensor '%s'", key, name);
}

TF_Output mr_signature_tensor(TF_Graph *graph, const TF_Buffer *meta_graph_def, const char *key, const char *name, unsigned char input,
                              TF_Status *status)
{
    TF_Output out = {NULL, -1};
    mr_meta_graph m = {0};
    mr_model_signature s = {0};
    mr_status *st = NULL;
    if (!graph || !meta_graph_def || !key || !name)
        MR_GO(mr_invalid("graph, meta_graph_def, key or name is NULL"));
    MR_GO(mr_meta_graph_open(mr_capi_buffer_view(meta_graph_def), &m));
    MR_GO(mr_model_signature_find(graph->graph, &m, key, &s));
    MR_GO(input ? find_named(s.inputs.p, s.inputs.n, key, name, &out) : find_named(s.outputs.p, s.outputs.n, key, name, &out));
out:
    mr_model_signature_deinit(&s);
    mr_meta_graph_deinit(&m);
    mr_capi_set_status(status, st);
    return out;
}
