/* capi/eager_op.c -- TFE_Op: an op is described, run, and freed.
 *
 * The description of an op goes to two places: to a node description, as in a graph, and to a key. If an op with this
 * key ran before, its node runs again and the new description is dropped. */
#include "capi/eager.h"

#include "graph/library.h"

typedef struct group { /* inputs added as one list */
    int first, n;
} group;

struct TFE_Op {
    TFE_Context *ctx;
    char *name, *device;
    const mr_op_def *def;
    mr_function *function;          /* whose definition that is, referenced; NULL for an op */
    TF_OperationDescription *desc;  /* what attrs are set on; NULL after an execution */
    MR_VEC(TFE_TensorHandle *) inputs; /* owned */
    MR_VEC(group) lists;
    MR_VEC(mr_named_attr) counts;   /* ints and lengths of lists, which determine the extent of list arguments */
    mr_arena arena;                 /* of their names */
    mr_map said;                    /* attrs that have a value, from the client or from inputs: the first value wins */
    int n_args;                     /* arguments whose inputs were added; -1: unknown */
    mr_str key;
    bool has_attrs;
};

/* ---- creating and freeing ---- */

/* The caller owns *f, which is NULL for an op. */
static const mr_op_def *find_def(TFE_Context *ctx, const char *name, mr_function **f)
{
    mr_lock(&ctx->graph->mu);
    const mr_function *found = mr_library_find(ctx->graph->graph->library, mr_sv_of(name));
    *f = found ? mr_function_ref(found) : NULL;
    mr_unlock(&ctx->graph->mu);
    return *f ? &(*f)->def : mr_op_find(mr_sv_of(name));
}

TFE_Op *TFE_NewOp(TFE_Context *ctx, const char *op_or_function_name, TF_Status *status)
{
    mr_function *f = NULL;
    mr_status *st = NULL;
    const mr_op_def *d = NULL;
    if (!ctx || !op_or_function_name)
        st = mr_invalid("ctx or op_or_function_name is NULL");
    else if (!(d = find_def(ctx, op_or_function_name, &f)))
        st = mr_error(MR_NOT_FOUND, "'%s' is neither a type of a primitive operation nor a name of a function registered in this "
                                    "process", op_or_function_name);
    mr_capi_set_status(status, st);
    if (st)
        return NULL;
    TFE_Op *op = mr_new(TFE_Op);
    op->ctx = ctx;
    op->name = mr_strdup(op_or_function_name);
    op->device = mr_strdup("");
    op->def = d;
    op->function = f;
    char *node = mr_printf("eager/%s_%lld", op->name, (long long)atomic_fetch_add(&ctx->n_ops, 1));
    op->desc = TF_NewOperation(ctx->graph, op->name, node);
    mr_free(node);
    mr_str_append(&op->key, op->name, strlen(op->name) + 1);
    return op;
}

TF_OperationDescription *mr_eager_description(const TFE_Op *op) { return op->desc; }

static void abandon_description(TFE_Op *op)
{
    if (!op->desc)
        return;
    mr_status_free(op->desc->st);
    mr_nb_abandon(op->desc->b);
    mr_free(op->desc);
    op->desc = NULL;
}

void TFE_DeleteOp(TFE_Op *op)
{
    if (!op)
        return;
    abandon_description(op);
    for (int i = 0; i < op->inputs.n; i++)
        TFE_DeleteTensorHandle(op->inputs.p[i]);
    mr_vec_deinit(&op->inputs);
    mr_vec_deinit(&op->lists);
    mr_vec_deinit(&op->counts);
    mr_map_deinit(&op->said);
    mr_arena_deinit(&op->arena);
    mr_str_deinit(&op->key);
    mr_function_unref(op->function);
    mr_free(op->name);
    mr_free(op->device);
    mr_free(op);
}

static bool op_is_valid(const TFE_Op *op, TF_Status *status)
{
    mr_capi_set_status(status, op ? NULL : mr_invalid("op is NULL"));
    return op != NULL;
}

const char *TFE_OpGetName(const TFE_Op *op, TF_Status *status) { return op_is_valid(op, status) ? op->name : ""; }
TFE_Context *TFE_OpGetContext(const TFE_Op *op, TF_Status *status) { return op_is_valid(op, status) ? op->ctx : NULL; }
const char *TFE_OpGetDevice(const TFE_Op *op, TF_Status *status) { return op_is_valid(op, status) ? op->device : ""; }

void TFE_OpSetDevice(TFE_Op *op, const char *device_name, TF_Status *status)
{
    if (!op_is_valid(op, status))
        return;
    const char *name = device_name ? device_name : "";
    const char *found = name[0] ? mr_eager_device(op->ctx, name) : "";
    if (!found) {
        mr_capi_set_status(status, mr_invalid("Could not find device %s for op %s", name, op->name));
        return;
    }
    mr_free(op->device);
    op->device = mr_strdup(found);
}

/* ---- inputs ---- */

static void mark_attr_set(TFE_Op *op, const char *attr)
{
    if (attr)
        mr_map_putz(&op->said, attr, op);
}

/* The attrs that follow from the next argument's inputs: clients set them too, but the inputs take precedence. If the
 * tensors of a list are added one by one, the end of the list is unknown. */
static void say_from_inputs(TFE_Op *op, bool list)
{
    if (op->n_args < 0 || op->n_args >= op->def->n_in)
        return;
    const mr_arg_def *a = &op->def->in[op->n_args++];
    if (!list && (a->number_attr || a->type_list_attr)) {
        op->n_args = -1;
        return;
    }
    mark_attr_set(op, a->type_attr);
    mark_attr_set(op, a->number_attr);
    mark_attr_set(op, a->type_list_attr);
}

static void add_input(TFE_Op *op, TFE_TensorHandle *input, TF_Status *status)
{
    if ((input = TFE_TensorHandleCopySharingTensor(input, status)))
        mr_vec_push(&op->inputs, input);
}

void TFE_OpAddInput(TFE_Op *op, TFE_TensorHandle *input, TF_Status *status)
{
    if (!op_is_valid(op, status))
        return;
    say_from_inputs(op, false);
    add_input(op, input, status);
}

void TFE_OpAddInputList(TFE_Op *op, TFE_TensorHandle **inputs, int num_inputs, TF_Status *status)
{
    if (!op_is_valid(op, status))
        return;
    if (num_inputs < 0 || (num_inputs && !inputs)) {
        mr_capi_set_status(status, mr_invalid("inputs is NULL, or its length %d is negative", num_inputs));
        return;
    }
    say_from_inputs(op, true);
    mr_vec_push(&op->lists, (group){op->inputs.n, num_inputs});
    for (int i = 0; i < num_inputs && TF_GetCode(status) == TF_OK; i++)
        add_input(op, inputs[i], status);
}

int TFE_OpGetFlatInputCount(const TFE_Op *op, TF_Status *status) { return op_is_valid(op, status) ? op->inputs.n : 0; }

TFE_TensorHandle *TFE_OpGetFlatInput(const TFE_Op *op, int index, TF_Status *status)
{
    if (!op_is_valid(op, status))
        return NULL;
    if (index >= 0 && index < op->inputs.n)
        return op->inputs.p[index];
    mr_capi_set_status(status, mr_invalid("There is no input %d of %s", index, op->name));
    return NULL;
}

/* ---- attrs ---- */

/* Begins the part of the key for an attr. False if it has a value already, or nothing can be set any more. */
static bool begin_attr(TFE_Op *op, const char *attr, char kind)
{
    if (!op || !op->desc || !attr || mr_map_getz(&op->said, attr))
        return false;
    mark_attr_set(op, attr);
    op->has_attrs = true;
    mr_str_appendc(&op->key, kind);
    mr_str_append(&op->key, attr, strlen(attr) + 1);
    return true;
}

static void add_to_key(TFE_Op *op, const void *p, size_t n)
{
    mr_str_append(&op->key, &n, sizeof n);
    if (p)
        mr_str_append(&op->key, p, n);
}

static void set_count(TFE_Op *op, const char *attr, int64_t n)
{
    mr_vec_push(&op->counts, (mr_named_attr){mr_arena_strdup(&op->arena, attr), mr_a_int(n)});
}

static size_t bytes_of(int n, size_t each) { return n > 0 ? (size_t)n * each : 0; }

void TFE_OpSetAttrString(TFE_Op *op, const char *attr_name, const void *value, size_t length)
{
    if (!begin_attr(op, attr_name, 's'))
        return;
    add_to_key(op, value, value ? length : 0);
    TF_SetAttrString(op->desc, attr_name, value, length);
}

void TFE_OpSetAttrInt(TFE_Op *op, const char *attr_name, int64_t value)
{
    if (!begin_attr(op, attr_name, 'i'))
        return;
    add_to_key(op, &value, sizeof value);
    set_count(op, attr_name, value);
    TF_SetAttrInt(op->desc, attr_name, value);
}

void TFE_OpSetAttrFloat(TFE_Op *op, const char *attr_name, float value)
{
    if (!begin_attr(op, attr_name, 'f'))
        return;
    add_to_key(op, &value, sizeof value);
    TF_SetAttrFloat(op->desc, attr_name, value);
}

void TFE_OpSetAttrBool(TFE_Op *op, const char *attr_name, unsigned char value)
{
    if (!begin_attr(op, attr_name, 'b'))
        return;
    add_to_key(op, &value, 1);
    TF_SetAttrBool(op->desc, attr_name, value);
}

void TFE_OpSetAttrType(TFE_Op *op, const char *attr_name, TF_DataType value)
{
    if (!begin_attr(op, attr_name, 't'))
        return;
    add_to_key(op, &value, sizeof value);
    TF_SetAttrType(op->desc, attr_name, value);
}

/* The description reports an invalid shape later; here it is reported at once. */
static mr_status *check_shape(const char *attr, const int64_t *dims, int n)
{
    if (n > MR_MAX_RANK || (n > 0 && !dims))
        return mr_invalid("Value specified for `%s` has %d dimensions which is over the limit of %d.", attr, n, MR_MAX_RANK);
    for (int i = 0; i < n; i++)
        if (dims[i] < -1)
            return mr_invalid("Dimension %d of the shape for `%s` is %lld", i, attr, (long long)dims[i]);
    return NULL;
}

void TFE_OpSetAttrShape(TFE_Op *op, const char *attr_name, const int64_t *dims, const int num_dims, TF_Status *out_status)
{
    mr_status *st = check_shape(attr_name ? attr_name : "", dims, num_dims);
    mr_capi_set_status(out_status, st);
    if (st || !begin_attr(op, attr_name, 'h'))
        return;
    add_to_key(op, num_dims < 0 ? NULL : dims, bytes_of(num_dims, sizeof(int64_t)));
    mr_str_appendc(&op->key, num_dims < 0 ? '?' : '.');
    TF_SetAttrShape(op->desc, attr_name, dims, num_dims);
}

void TFE_OpSetAttrFunctionName(TFE_Op *op, const char *attr_name, const char *data, size_t length)
{
    if (!begin_attr(op, attr_name, 'F'))
        return;
    add_to_key(op, data, data ? length : 0);
    TF_SetAttrFuncName(op->desc, attr_name, data, length);
}

static bool names_function(TFE_Op *op, const TFE_Op *value)
{
    if (op && op->desc && (!value || value->has_attrs))
        mr_status_update(&op->desc->st,
                         value ? mr_error(MR_UNIMPLEMENTED, "Function %s of %s has attrs, which is not supported",
                                          value->name, op->name)
                               : mr_invalid("The function for %s is NULL", op->name));
    return op && value && !value->has_attrs;
}

void TFE_OpSetAttrFunction(TFE_Op *op, const char *attr_name, const TFE_Op *value)
{
    if (names_function(op, value))
        TFE_OpSetAttrFunctionName(op, attr_name, value->name, strlen(value->name));
}

void TFE_OpSetAttrFunctionList(TFE_Op *op, const char *attr_name, const TFE_Op **value, int num_values)
{
    if (num_values < 0 || (num_values && !value) || !begin_attr(op, attr_name, 'G'))
        return;
    mr_func_ref *f = mr_new_array(mr_func_ref, num_values + 1);
    const mr_func_ref **list = mr_new_array(const mr_func_ref *, num_values + 1);
    bool all = true;
    for (int i = 0; i < num_values; i++) {
        all &= names_function(op, value[i]);
        f[i].name = all ? value[i]->name : "";
        list[i] = &f[i];
        add_to_key(op, f[i].name, strlen(f[i].name));
    }
    set_count(op, attr_name, num_values);
    if (all)
        mr_nb_attr(op->desc->b, attr_name, (mr_attr){MR_ATTR_FUNC, true, num_values, .funcs = list});
    mr_free(f);
    mr_free(list);
}

void TFE_OpSetAttrTensor(TFE_Op *op, const char *attr_name, TF_Tensor *tensor, TF_Status *status)
{
    mr_str bytes = {0};
    if (!op_is_valid(op, status))
        return;
    mr_tensor *value = NULL;
    mr_status *st = mr_capi_tensor_value(tensor, &value);
    if (!st)
        st = mr_tensor_encode(value, &bytes);
    mr_tensor_unref(value);
    mr_capi_set_status(status, st);
    if (!st && begin_attr(op, attr_name, 'T')) {
        add_to_key(op, bytes.p, bytes.n);
        TF_SetAttrTensor(op->desc, attr_name, tensor, status);
    }
    mr_str_deinit(&bytes);
}

void TFE_OpSetAttrStringList(TFE_Op *op, const char *attr_name, const void *const *values, const size_t *lengths,
                             int num_values)
{
    if (!begin_attr(op, attr_name, 'S'))
        return;
    for (int i = 0; values && lengths && i < num_values; i++)
        add_to_key(op, values[i], values[i] ? lengths[i] : 0);
    set_count(op, attr_name, num_values);
    TF_SetAttrStringList(op->desc, attr_name, values, lengths, num_values);
}

/* A list of plain values to the key; false when it cannot be set. */
static bool begin_list(TFE_Op *op, const char *attr, char kind, const void *values, int n, size_t each)
{
    if (!begin_attr(op, attr, kind))
        return false;
    add_to_key(op, values, values ? bytes_of(n, each) : 0);
    set_count(op, attr, n);
    return true;
}

void TFE_OpSetAttrIntList(TFE_Op *op, const char *attr_name, const int64_t *values, int num_values)
{
    if (begin_list(op, attr_name, 'I', values, num_values, sizeof *values))
        TF_SetAttrIntList(op->desc, attr_name, values, num_values);
}

void TFE_OpSetAttrFloatList(TFE_Op *op, const char *attr_name, const float *values, int num_values)
{
    if (begin_list(op, attr_name, 'L', values, num_values, sizeof *values))
        TF_SetAttrFloatList(op->desc, attr_name, values, num_values);
}

void TFE_OpSetAttrBoolList(TFE_Op *op, const char *attr_name, const unsigned char *values, int num_values)
{
    if (begin_list(op, attr_name, 'B', values, num_values, sizeof *values))
        TF_SetAttrBoolList(op->desc, attr_name, values, num_values);
}

void TFE_OpSetAttrTypeList(TFE_Op *op, const char *attr_name, const TF_DataType *values, int num_values)
{
    if (begin_list(op, attr_name, 'Y', values, num_values, sizeof *values))
        TF_SetAttrTypeList(op->desc, attr_name, values, num_values);
}

void TFE_OpSetAttrShapeList(TFE_Op *op, const char *attr_name, const int64_t **dims, const int *num_dims, int num_values,
                            TF_Status *out_status)
{
    mr_status *st = num_values < 0 || (num_values && (!dims || !num_dims))
                        ? mr_invalid("dims or num_dims is NULL, or the length %d is negative", num_values)
                        : NULL;
    for (int i = 0; !st && i < num_values; i++)
        st = check_shape(attr_name ? attr_name : "", dims[i], num_dims[i]);
    mr_capi_set_status(out_status, st);
    if (st || !begin_attr(op, attr_name, 'H'))
        return;
    for (int i = 0; i < num_values; i++) {
        add_to_key(op, num_dims[i] < 0 ? NULL : dims[i], bytes_of(num_dims[i], sizeof(int64_t)));
        mr_str_appendc(&op->key, num_dims[i] < 0 ? '?' : '.');
    }
    set_count(op, attr_name, num_values);
    TF_SetAttrShapeList(op->desc, attr_name, (const int64_t *const *)dims, num_dims, num_values);
}

/* ---- what an op is ---- */

static TF_AttrType attr_type(const mr_op_def *d, const char *attr, unsigned char *is_list, TF_Status *status)
{
    const mr_attr_def *a = d && attr ? mr_op_def_attr(d, attr) : NULL;
    if (is_list)
        *is_list = a && a->is_list;
    mr_capi_set_status(status, a ? NULL : mr_invalid("Attribute '%s' does not exist for this operation", attr ? attr : ""));
    return a ? (TF_AttrType)(a->kind - 1) : TF_ATTR_INT;
}

TF_AttrType TFE_OpGetAttrType(TFE_Op *op, const char *attr_name, unsigned char *is_list, TF_Status *status)
{
    return attr_type(op ? op->def : NULL, attr_name, is_list, status);
}

TF_AttrType TFE_OpNameGetAttrType(TFE_Context *ctx, const char *op_or_function_name, const char *attr_name,
                                  unsigned char *is_list, TF_Status *status)
{
    mr_function *f = NULL;
    const mr_op_def *d = ctx && op_or_function_name ? find_def(ctx, op_or_function_name, &f) : NULL;
    TF_AttrType t = attr_type(d, attr_name, is_list, status);
    mr_function_unref(f);
    return t;
}

static bool said_count(const TFE_Op *op, const char *attr, int64_t *n)
{
    for (int i = op->counts.n - 1; attr && i >= 0; i--)
        if (strcmp(op->counts.p[i].name, attr) == 0) {
            *n = op->counts.p[i].v.i;
            return true;
        }
    return false;
}

static const char *count_attr(const mr_arg_def *a) { return a->number_attr ? a->number_attr : a->type_list_attr; }

/* How many inputs from `at` on belong to an argument: those that were added as one list, or the number in an attr, or
 * for the last list all that later arguments leave. */
static int64_t length_of_list(const TFE_Op *op, int arg, int at)
{
    const mr_op_def *d = op->def;
    int64_t n;
    for (int i = 0; i < op->lists.n; i++)
        if (op->lists.p[i].first == at)
            return op->lists.p[i].n;
    if (said_count(op, count_attr(&d->in[arg]), &n))
        return n;
    return op->inputs.n - at - (d->n_in - arg - 1);
}

/* Where each argument's inputs begin; `starts` has room for n_in + 1. */
static mr_status *group_inputs(const TFE_Op *op, int *starts)
{
    int at = 0;
    for (int i = 0; i < op->def->n_in; i++) {
        int64_t n = count_attr(&op->def->in[i]) ? length_of_list(op, i, at) : 1;
        starts[i] = at;
        if (n < 0 || n > op->inputs.n - at)
            return mr_invalid("%s has %d inputs: too few for its argument '%s'", op->name, op->inputs.n, op->def->in[i].name);
        at += (int)n;
    }
    starts[op->def->n_in] = at;
    return at == op->inputs.n
               ? NULL
               : mr_invalid("%s has %d inputs, %d more than it takes", op->name, op->inputs.n, op->inputs.n - at);
}

int TFE_OpGetInputLength(TFE_Op *op, const char *input_name, TF_Status *status)
{
    if (!op_is_valid(op, status))
        return -1;
    int i = input_name ? mr_op_def_input(op->def, input_name) : -1, n = -1;
    int *starts = mr_new_array(int, op->def->n_in + 2);
    mr_status *st = i < 0 ? mr_invalid("Input '%s' not found", input_name ? input_name : "") : group_inputs(op, starts);
    if (!st)
        n = starts[i + 1] - starts[i];
    mr_free(starts);
    mr_capi_set_status(status, st);
    return n;
}

int TFE_OpGetOutputLength(TFE_Op *op, const char *output_name, TF_Status *status)
{
    if (!op_is_valid(op, status))
        return -1;
    int i = output_name ? mr_op_def_output(op->def, output_name) : -1;
    int64_t n = 1;
    if (i < 0)
        mr_capi_set_status(status, mr_invalid("Output '%s' not found", output_name ? output_name : ""));
    else if (count_attr(&op->def->out[i]) && !said_count(op, count_attr(&op->def->out[i]), &n))
        mr_capi_set_status(status, mr_invalid("Attr '%s' of %s is not set", count_attr(&op->def->out[i]), op->name));
    return TF_GetCode(status) == TF_OK ? (int)n : -1;
}

/* ---- running ---- */

/* The placeholder for input i in its type; made when it is first needed. */
static mr_status *add_placeholder(TFE_Context *c, mr_dtype t, int i, mr_out *out)
{
    MR_ENSURE((int)t < MR_EAGER_TYPES);
    mr_eager_inputs *in = &c->inputs[t];
    while (in->nodes.n <= i) {
        mr_node *n;
        char *name = mr_printf("in/%s_%d", mr_dtype_name(t), in->nodes.n);
        mr_node_builder *b = mr_node_begin(c->graph->graph, "Placeholder", name);
        mr_free(name);
        mr_nb_attr(b, "dtype", mr_a_type(t));
        MR_TRY(mr_node_finish(b, &n));
        mr_vec_push(&in->nodes, n);
    }
    *out = (mr_out){in->nodes.p[i], 0};
    return NULL;
}

static mr_status *make_node(TFE_Op *op, const mr_out *feeds, const int *starts, mr_node **out)
{
    for (int i = 0; i < op->def->n_in; i++)
        if (count_attr(&op->def->in[i]))
            mr_nb_input_list(op->desc->b, feeds + starts[i], starts[i + 1] - starts[i]);
        else
            mr_nb_input(op->desc->b, feeds[starts[i]]);
    mr_nb_device(op->desc->b, op->device);
    mr_status *st = mr_node_finish(op->desc->b, out);
    mr_free(op->desc);
    op->desc = NULL;
    return st;
}

/* With the graph's lock held. */
static mr_status *find_node(TFE_Op *op, mr_out *feeds, const int *starts, mr_node **out)
{
    for (int i = 0; i < op->inputs.n; i++)
        MR_TRY(add_placeholder(op->ctx, op->inputs.p[i]->t->dtype, i, &feeds[i]));
    *out = mr_map_get(&op->ctx->known, mr_str_view(&op->key));
    if (*out)
        return NULL;
    MR_TRY(make_node(op, feeds, starts, out));
    mr_map_put(&op->ctx->known, mr_str_view(&op->key), *out);
    return NULL;
}

/* Completes the key: device, input types, and which inputs belong to which argument. */
static void end_key(TFE_Op *op, const int *starts)
{
    mr_str_appendc(&op->key, '@');
    mr_str_append(&op->key, op->device, strlen(op->device) + 1);
    add_to_key(op, starts, bytes_of(op->def->n_in + 1, sizeof *starts));
    for (int i = 0; i < op->inputs.n; i++)
        mr_str_appendc(&op->key, (char)op->inputs.p[i]->t->dtype);
}

/* Runs a node in the session of the context: feeds the inputs and fetches all outputs. retvals get new handles on
 * success; the trace is added to the metadata of the context. */
static mr_status *run_node(TFE_Op *op, mr_node *n, const mr_out *feeds, TFE_TensorHandle **retvals)
{
    mr_tensor **in = mr_new_array(mr_tensor *, op->inputs.n + 1), **got = mr_new_array(mr_tensor *, n->n_out + 1);
    mr_out *fetches = mr_new_array(mr_out, n->n_out + 1);
    mr_str metadata = {0};
    bool traced = op->ctx->wants_metadata;
    mr_run_options o = {.trace_level = traced ? MR_FULL_TRACE : 0, .cancel = mr_capi_run_cancel()};
    for (int i = 0; i < op->inputs.n; i++)
        in[i] = op->inputs.p[i]->t;
    for (int i = 0; i < n->n_out; i++)
        fetches[i] = (mr_out){n, i};
    mr_run_args a = {.feeds = feeds, .feed_values = in, .n_feeds = op->inputs.n, .fetches = fetches, .fetched = got,
                     .n_fetches = n->n_out, .targets = &n, .n_targets = 1};
    mr_status *st = mr_session_run(op->ctx->session->session, &a, &o, traced ? &metadata : NULL);
    for (int i = 0; !st && i < n->n_out; i++)
        retvals[i] = mr_eager_handle_new(got[i], op->device[0] ? op->device : op->ctx->devices[0].name);
    if (traced) {
        mr_lock(&op->ctx->graph->mu);
        mr_str_append(&op->ctx->metadata, metadata.p, metadata.n);
        mr_unlock(&op->ctx->graph->mu);
    }
    mr_str_deinit(&metadata);
    mr_free(in);
    mr_free(got);
    mr_free(fetches);
    return st;
}

/* Finds or adds the node for the key of the op and runs it. The lock of the graph is held only while the node is looked
 * up.  */
static mr_status *execute_op(TFE_Op *op, TFE_TensorHandle **retvals, int *n)
{
    mr_node *node = NULL;
    mr_status *st = NULL;
    if (!op->desc)
        return mr_error(MR_FAILED_PRECONDITION, "%s has already been executed", op->name);
    if (op->desc->st)
        return mr_status_copy(op->desc->st);
    int *starts = mr_new_array(int, op->def->n_in + 2);
    mr_out *feeds = mr_new_array(mr_out, op->inputs.n + 1);
    MR_GO(group_inputs(op, starts));
    end_key(op, starts);
    mr_lock(&op->ctx->graph->mu);
    st = find_node(op, feeds, starts, &node);
    mr_unlock(&op->ctx->graph->mu);
    MR_GO(st);
    if (*n < node->n_out || (node->n_out && !retvals))
        MR_GO(mr_invalid("%s has %d outputs, but there is room for %d", op->name, node->n_out, *n));
    MR_GO(run_node(op, node, feeds, retvals));
    *n = node->n_out;
out:
    abandon_description(op);
    mr_free(starts);
    mr_free(feeds);
    return st;
}

void TFE_Execute(TFE_Op *op, TFE_TensorHandle **retvals, int *num_retvals, TF_Status *status)
{
    if (!op_is_valid(op, status))
        return;
    mr_status *st = num_retvals && *num_retvals >= 0 ? execute_op(op, retvals, num_retvals)
                                                     : mr_invalid("num_retvals is NULL or negative");
    if (st && num_retvals)
        *num_retvals = 0;
    mr_capi_set_status(status, st);
}
