/* capi/function.c -- TF_Function: functions that are made from graphs and copied into other graphs.
 *
 * A function of ours is immutable and shared, but attrs can be set on a TF_Function. So setting an
 * attr makes a new function, and graphs that have the old one keep it. */
#include "capi/internal.h"
#include "graph/library.h"
#include "wire/pb.h"

struct TF_Function {
    mr_function *f; /* referenced */
    char *name;     /* handed out: stays while f is replaced */
};

static TF_Function *wrap_function(mr_function *f)
{
    TF_Function *out = mr_new(TF_Function);
    *out = (TF_Function){f, mr_strdup(f->def.name)};
    return out;
}

void TF_DeleteFunction(TF_Function *func)
{
    if (!func)
        return;
    mr_function_unref(func->f);
    mr_free(func->name);
    mr_free(func);
}

const char *TF_FunctionName(TF_Function *func) { return func ? func->name : ""; }

/* ---- made of a graph ---- */

static mr_status *check_spec(const TF_Graph *g, const mr_function_spec *s)
{
    if (!g || !s->name || !s->name[0])
        return mr_invalid("A function needs a graph and a name");
    if (s->n_inputs < 0 || s->n_outputs < 0 || s->n_controls < 0 || s->n_nodes < -1 ||
        (s->n_inputs && !s->inputs) || (s->n_outputs && !s->outputs) ||
        (s->n_controls && !s->controls) || (s->n_nodes > 0 && !s->nodes))
        return mr_invalid("A list for function '%s' is NULL or has a negative length", s->name);
    return NULL;
}

TF_Function *TF_GraphToFunctionWithControlOutputs(
    const TF_Graph *fn_body, const char *fn_name, unsigned char append_hash_to_fn_name,
    int num_opers, const TF_Operation *const *opers, int ninputs, const TF_Output *inputs,
    int noutputs, const TF_Output *outputs, const char *const *output_names, int ncontrol_outputs,
    const TF_Operation *const *control_outputs, const char *const *control_output_names,
    const TF_FunctionOptions *opts, const char *description, TF_Status *status)
{
    (void)opts;                                   /* there are none yet */
    TF_Graph *g = (TF_Graph *)(uintptr_t)fn_body; /* const does not cover its lock */
    mr_function *f = NULL;
    mr_function_spec spec = {
        .name = fn_name,
        .append_hash = append_hash_to_fn_name,
        .n_nodes = num_opers,
        .nodes = (mr_node *const *)(uintptr_t)opers,
        .n_inputs = ninputs,
        .inputs = mr_capi_outs(inputs),
        .n_outputs = noutputs,
        .outputs = mr_capi_outs(outputs),
        .output_names = output_names,
        .n_controls = ncontrol_outputs,
        .controls = (mr_node *const *)(uintptr_t)control_outputs,
        .control_names = control_output_names,
        .description = description,
    };
    mr_status *st = check_spec(g, &spec);
    if (!st) {
        mr_lock(&g->mu);
        st = mr_function_from_graph(g->graph, &spec, &f);
        mr_unlock(&g->mu);
    }
    mr_capi_set_status(status, st);
    return st ? NULL : wrap_function(f);
}

TF_Function *TF_GraphToFunction(const TF_Graph *fn_body, const char *fn_name,
                                unsigned char append_hash_to_fn_name, int num_opers,
                                const TF_Operation *const *opers, int ninputs,
                                const TF_Output *inputs, int noutputs, const TF_Output *outputs,
                                const char *const *output_names, const TF_FunctionOptions *opts,
                                const char *description, TF_Status *status)
{
    return TF_GraphToFunctionWithControlOutputs(
        fn_body, fn_name, append_hash_to_fn_name, num_opers, opers, ninputs, inputs, noutputs,
        outputs, output_names, 0, NULL, NULL, opts, description, status);
}

/* ---- bytes ---- */

void TF_FunctionToFunctionDef(TF_Function *func, TF_Buffer *output_func_def, TF_Status *status)
{
    mr_str bytes = {0};
    mr_status *st = func ? mr_function_encode(func->f, &bytes) : mr_invalid("func is NULL");
    if (!st)
        st = mr_capi_buffer_fill(output_func_def, &bytes);
    mr_str_deinit(&bytes);
    mr_capi_set_status(status, st);
}

TF_Function *TF_FunctionImportFunctionDef(const void *proto, size_t proto_len, TF_Status *status)
{
    mr_function *f = NULL;
    mr_capi_init();
    mr_status *st = proto || !proto_len ? mr_function_decode((mr_sv){proto, proto_len}, &f) : mr_invalid("NULL");
    if (mr_status_code(st) == MR_INVALID_ARGUMENT || mr_status_code(st) == MR_DATA_LOSS) {
        mr_status_free(st);
        st = mr_invalid("Invalid FunctionDef given to TF_FunctionImportFunctionDef");
    }
    mr_capi_set_status(status, st);
    return st ? NULL : wrap_function(f);
}

/* ---- attrs ---- */

enum { FUNCTION_DEF_ATTR = 5 };

/* The definition with one more attr, which replaces an older one of that name. */
static mr_status *with_attr(const mr_function *f, const char *name, const mr_attr *v,
                            mr_function **out)
{
    mr_str bytes = {0};
    mr_pb_writer w;
    mr_status *st = NULL;
    mr_named_attr a = {name, *v};
    MR_GO(mr_function_encode(f, &bytes));
    mr_pb_writer_init(&w, &bytes);
    MR_GO(mr_named_attrs_write(&a, 1, FUNCTION_DEF_ATTR, &w));
    MR_GO(mr_pb_writer_status(&w, "FunctionDef"));
    MR_GO(mr_function_decode(mr_str_view(&bytes), out));
out:
    mr_str_deinit(&bytes);
    return st;
}

void TF_FunctionSetAttrValueProto(TF_Function *func, const char *attr_name, const void *proto,
                                  size_t proto_len, TF_Status *status)
{
    mr_arena a = {0};
    mr_attr v;
    mr_function *f = NULL;
    mr_status *st = NULL;
    if (!func || !attr_name || (proto_len && !proto))
        MR_GO(mr_invalid("func, attr_name or proto is NULL"));
    if ((st = mr_attr_decode(&a, (mr_sv){proto, proto_len}, &v))) {
        mr_status_free(st);
        MR_GO(mr_invalid("Unparseable AttrValue proto passed to TF_FunctionSetAttrValueProto"));
    }
    MR_GO(with_attr(func->f, attr_name, &v, &f));
    mr_function_unref(func->f);
    func->f = f;
out:
    mr_arena_deinit(&a);
    mr_capi_set_status(status, st);
}

void TF_FunctionGetAttrValueProto(TF_Function *func, const char *attr_name,
                                  TF_Buffer *output_attr_value, TF_Status *status)
{
    mr_str bytes = {0};
    mr_status *st = NULL;
    if (!func || !attr_name)
        MR_GO(mr_invalid("func or attr_name is NULL"));
    const mr_attr *v = mr_named_attrs_find(func->f->attrs, func->f->n_attrs, attr_name);
    if (!v)
        MR_GO(mr_invalid("Function '%s' has no attr named '%s'.", func->name, attr_name));
    MR_GO(mr_attr_encode(v, &bytes));
    MR_GO(mr_capi_buffer_fill(output_attr_value, &bytes));
out:
    mr_str_deinit(&bytes);
    mr_capi_set_status(status, st);
}

/* ---- functions of a graph ---- */

static mr_status *copy_function(mr_library *l, mr_function *f, mr_function *grad)
{
    MR_TRY(mr_library_add(l, f));
    if (!grad)
        return NULL;
    MR_TRY(mr_library_add(l, grad));
    return mr_library_set_gradient(l, f->def.name, grad->def.name);
}

void TF_GraphCopyFunction(TF_Graph *g, const TF_Function *func, const TF_Function *grad,
                          TF_Status *status)
{
    mr_status *st = NULL;
    if (!func || !g) {
        st = mr_invalid("'%s' argument to TF_GraphCopyFunction cannot be null", g ? "func" : "g");
    } else {
        mr_lock(&g->mu);
        st = copy_function(g->graph->library, func->f, grad ? grad->f : NULL);
        mr_unlock(&g->mu);
    }
    mr_capi_set_status(status, st);
}

int TF_GraphNumFunctions(TF_Graph *g)
{
    if (!g)
        return 0;
    mr_lock(&g->mu);
    int n = mr_library_count(g->graph->library);
    mr_unlock(&g->mu);
    return n;
}

int TF_GraphGetFunctions(TF_Graph *g, TF_Function **funcs, int max_func, TF_Status *status)
{
    int n = 0;
    mr_capi_set_status(status, g ? NULL : mr_invalid("g is NULL"));
    if (!g || !funcs)
        return 0;
    mr_lock(&g->mu);
    for (; n < max_func && n < mr_library_count(g->graph->library); n++)
        funcs[n] = wrap_function(mr_function_ref(mr_library_at(g->graph->library, n)));
    mr_unlock(&g->mu);
    return n;
}

void TF_GraphRemoveFunction(TF_Graph *g, const char *func_name, TF_Status *status)
{
    mr_status *st = g && func_name ? NULL : mr_invalid("g or func_name is NULL");
    if (!st) {
        mr_lock(&g->mu);
        st = mr_library_remove(g->graph->library, mr_sv_of(func_name));
        mr_unlock(&g->mu);
    }
    mr_capi_set_status(status, st);
}
