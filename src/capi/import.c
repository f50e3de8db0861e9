/* capi/import.c -- TF_GraphImportGraphDef and its options.
 *
 * The options keep copies of all strings, so a client may free its own at once. */
#include "capi/internal.h"
#include "graph/graph_def.h"

struct TF_ImportGraphDefOptions {
    mr_import_options o; /* its arrays are set from the vectors below when it is used */
    mr_arena arena;      /* of all strings */
    MR_VEC(mr_import_map) maps;
    MR_VEC(mr_node *) controls;
    MR_VEC(mr_import_map) returns;
    MR_VEC(const char *) return_nodes;
};

struct TF_ImportGraphDefResults {
    mr_import_results r;
    mr_arena arena;
    const char **unused_names; /* of the mappings that named nothing */
    int *unused_indexes;
};

/* ---- options ---- */

TF_ImportGraphDefOptions *TF_NewImportGraphDefOptions(void)
{
    return mr_new(TF_ImportGraphDefOptions);
}

void TF_DeleteImportGraphDefOptions(TF_ImportGraphDefOptions *opts)
{
    if (!opts)
        return;
    mr_vec_deinit(&opts->maps);
    mr_vec_deinit(&opts->controls);
    mr_vec_deinit(&opts->returns);
    mr_vec_deinit(&opts->return_nodes);
    mr_arena_deinit(&opts->arena);
    mr_free(opts);
}

static const char *keep_string(TF_ImportGraphDefOptions *opts, const char *s)
{
    return mr_arena_strdup(&opts->arena, s ? s : "");
}

void TF_ImportGraphDefOptionsSetPrefix(TF_ImportGraphDefOptions *opts, const char *prefix)
{
    if (opts)
        opts->o.prefix = keep_string(opts, prefix);
}

void TF_ImportGraphDefOptionsSetDefaultDevice(TF_ImportGraphDefOptions *opts, const char *device)
{
    if (opts)
        opts->o.default_device = keep_string(opts, device);
}

void TF_ImportGraphDefOptionsSetUniquifyNames(TF_ImportGraphDefOptions *opts,
                                              unsigned char uniquify_names)
{
    if (opts)
        opts->o.uniquify_names = uniquify_names;
}

void TF_ImportGraphDefOptionsSetUniquifyPrefix(TF_ImportGraphDefOptions *opts,
                                               unsigned char uniquify_prefix)
{
    if (opts)
        opts->o.uniquify_prefix = uniquify_prefix;
}

void TF_ImportGraphDefOptionsSetValidateColocationConstraints(TF_ImportGraphDefOptions *opts,
                                                              unsigned char enable)
{
    if (opts)
        opts->o.no_validate_colocation = !enable;
}

void TF_ImportGraphDefOptionsAddInputMapping(TF_ImportGraphDefOptions *opts, const char *src_name,
                                             int src_index, TF_Output dst)
{
    if (opts)
        mr_vec_push(&opts->maps,
                    (mr_import_map){keep_string(opts, src_name), src_index, mr_capi_out(dst)});
}

void TF_ImportGraphDefOptionsRemapControlDependency(TF_ImportGraphDefOptions *opts,
                                                    const char *src_name, TF_Operation *dst)
{
    if (opts)
        mr_vec_push(&opts->maps,
                    (mr_import_map){keep_string(opts, src_name), -1, {mr_capi_node(dst), -1}});
}

void TF_ImportGraphDefOptionsAddControlDependency(TF_ImportGraphDefOptions *opts,
                                                  TF_Operation *oper)
{
    if (opts)
        mr_vec_push(&opts->controls, mr_capi_node(oper));
}

void TF_ImportGraphDefOptionsAddReturnOutput(TF_ImportGraphDefOptions *opts, const char *oper_name,
                                             int index)
{
    if (opts)
        mr_vec_push(&opts->returns, (mr_import_map){keep_string(opts, oper_name), index, MR_NO_OUT});
}

int TF_ImportGraphDefOptionsNumReturnOutputs(const TF_ImportGraphDefOptions *opts)
{
    return opts ? opts->returns.n : 0;
}

void TF_ImportGraphDefOptionsAddReturnOperation(TF_ImportGraphDefOptions *opts,
                                                const char *oper_name)
{
    if (opts)
        mr_vec_push(&opts->return_nodes, keep_string(opts, oper_name));
}

int TF_ImportGraphDefOptionsNumReturnOperations(const TF_ImportGraphDefOptions *opts)
{
    return opts ? opts->return_nodes.n : 0;
}

/* ---- results ---- */

void TF_ImportGraphDefResultsReturnOutputs(TF_ImportGraphDefResults *results, int *num_outputs,
                                           TF_Output **outputs)
{
    *num_outputs = results ? results->r.n_returns : 0;
    *outputs = results ? (TF_Output *)results->r.returns : NULL;
}

void TF_ImportGraphDefResultsReturnOperations(TF_ImportGraphDefResults *results, int *num_opers,
                                              TF_Operation ***opers)
{
    *num_opers = results ? results->r.n_return_nodes : 0;
    *opers = results ? (TF_Operation **)results->r.return_nodes : NULL;
}

void TF_ImportGraphDefResultsMissingUnusedInputMappings(TF_ImportGraphDefResults *results,
                                                        int *num_missing_unused_input_mappings,
                                                        const char ***src_names, int **src_indexes)
{
    *num_missing_unused_input_mappings = results ? results->r.n_unused : 0;
    *src_names = results ? results->unused_names : NULL;
    *src_indexes = results ? results->unused_indexes : NULL;
}

void TF_DeleteImportGraphDefResults(TF_ImportGraphDefResults *results)
{
    if (!results)
        return;
    mr_import_results_deinit(&results->r);
    mr_arena_deinit(&results->arena);
    mr_free(results);
}

/* Names are copied, because the options may be freed before the results. */
static void name_unused(TF_ImportGraphDefResults *out, const mr_import_options *o)
{
    out->unused_names = mr_arena_array(&out->arena, const char *, out->r.n_unused);
    out->unused_indexes = mr_arena_array(&out->arena, int, out->r.n_unused);
    for (int i = 0; i < out->r.n_unused; i++) {
        const mr_import_map *m = &o->maps[out->r.unused[i]];
        out->unused_names[i] = mr_arena_strdup(&out->arena, m->name);
        out->unused_indexes[i] = m->index;
    }
}

/* ---- importing ---- */

static mr_import_options complete_options(const TF_ImportGraphDefOptions *opts)
{
    mr_import_options o = {0};
    if (!opts)
        return o;
    o = opts->o;
    o.n_maps = opts->maps.n;
    o.maps = opts->maps.p;
    o.n_controls = opts->controls.n;
    o.controls = opts->controls.p;
    o.n_returns = opts->returns.n;
    o.returns = opts->returns.p;
    o.n_return_nodes = opts->return_nodes.n;
    o.return_nodes = opts->return_nodes.p;
    return o;
}

static mr_status *import_graph(TF_Graph *graph, const TF_Buffer *graph_def,
                               const TF_ImportGraphDefOptions *options, mr_import_results *results)
{
    mr_import_options o = complete_options(options);
    if (!graph || !graph_def)
        return mr_invalid("graph or graph_def is NULL");
    mr_tensor *source = mr_capi_buffer_source(graph_def);
    o.source = source;
    mr_lock(&graph->mu);
    mr_status *st = mr_graph_import(graph->graph, mr_capi_buffer_view(graph_def), &o, results);
    mr_unlock(&graph->mu);
    mr_tensor_unref(source);
    return st;
}

TF_ImportGraphDefResults *TF_GraphImportGraphDefWithResults(TF_Graph *graph,
                                                            const TF_Buffer *graph_def,
                                                            const TF_ImportGraphDefOptions *options,
                                                            TF_Status *status)
{
    TF_ImportGraphDefResults *out = mr_new(TF_ImportGraphDefResults);
    mr_status *st = import_graph(graph, graph_def, options, &out->r);
    mr_capi_set_status(status, st);
    if (st) {
        TF_DeleteImportGraphDefResults(out);
        return NULL;
    }
    mr_import_options o = complete_options(options);
    name_unused(out, &o);
    return out;
}

TF_ImportGraphDefResults *
TF_GraphImportGraphDefWithResultsNoSerialization(TF_Graph *graph, const TF_Buffer *graph_def,
                                                 const TF_ImportGraphDefOptions *options,
                                                 TF_Status *status)
{
    return TF_GraphImportGraphDefWithResults(graph, graph_def, options, status);
}

void TF_GraphImportGraphDefWithReturnOutputs(TF_Graph *graph, const TF_Buffer *graph_def,
                                             const TF_ImportGraphDefOptions *options,
                                             TF_Output *return_outputs, int num_return_outputs,
                                             TF_Status *status)
{
    mr_import_results r = {0};
    mr_status *st = NULL;
    int expected = TF_ImportGraphDefOptionsNumReturnOutputs(options);
    if (num_return_outputs != expected)
        st = mr_invalid("Expected 'num_return_outputs' to be %d, got %d", expected,
                        num_return_outputs);
    else if (num_return_outputs > 0 && !return_outputs)
        st = mr_invalid("'return_outputs' must be preallocated to length %d", num_return_outputs);
    if (!st)
        st = import_graph(graph, graph_def, options, &r);
    for (int i = 0; !st && i < r.n_returns; i++)
        return_outputs[i] = mr_capi_output(r.returns[i]);
    mr_import_results_deinit(&r);
    mr_capi_set_status(status, st);
}

void TF_GraphImportGraphDef(TF_Graph *graph, const TF_Buffer *graph_def,
                            const TF_ImportGraphDefOptions *options, TF_Status *status)
{
    mr_capi_set_status(status, import_graph(graph, graph_def, options, NULL));
}
