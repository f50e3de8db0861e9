/* ops/example_fixture.c -- builds an example's steps as nodes of a graph and runs them one by one.
 *
 * Every input becomes a Const or Placeholder node (a VariableV2 for a reference), so that the op's
 * definition, attr inference and shape function are exercised as by a client; the kernel is then
 * called through mr_eval_node with the tensors themselves.  For a whole graph (for fuzzing) only
 * the nodes are created, and the caller runs them in a session. */
#include "ops/example_fixture.h"

#include <stdlib.h>

#include "base/memory.h"
#include "run/run.h"
#include "tests/harness/test.h"

/* Ops that mean something only inside a running session, each with the reason. */
static const struct {
    const char *op, *reason;
} no_examples[] = {
    {"_Arg", "argument of a function call"},
    {"_DeviceArg", "argument of a function call"},
    {"_DeviceRetval", "result of a function call"},
    {"_HostRecv", "waits for a Send of the same step"},
    {"_HostSend", "meets a Recv of the same step"},
    {"_Recv", "waits for a Send of the same step"},
    {"_Retval", "result of a function call"},
    {"_Send", "meets a Recv of the same step"},
    {"TensorArrayCloseV3", "uses an array of the same step"},
    {"TensorArrayConcatV3", "uses an array of the same step"},
    {"TensorArrayGatherV3", "uses an array of the same step"},
    {"TensorArrayGradV3", "uses an array of the same step"},
    {"TensorArrayReadV3", "uses an array of the same step"},
    {"TensorArrayScatterV3", "uses an array of the same step"},
    {"TensorArraySizeV3", "uses an array of the same step"},
    {"TensorArraySplitV3", "uses an array of the same step"},
    {"TensorArrayWriteV3", "uses an array of the same step"},
    {"Variable", "has no value before a session gives it one"},
    {"VariableV2", "has no value before a session gives it one"},
    {"ConsumeMutexLock", "needs the sole copy of a lock of the same step"},
    {"Enter", "needs the frames of the executor"},
    {"Exit", "needs the frames of the executor"},
    {"NextIteration", "needs the frames of the executor"},
    {"PartitionedCall", "calls a function of a library"},
    {"RefEnter", "needs the frames of the executor"},
    {"RefExit", "needs the frames of the executor"},
    {"RefMerge", "passes a reference to a variable of the session"},
    {"RefNextIteration", "needs the frames of the executor"},
    {"RefSelect", "passes a reference to a variable of the session"},
    {"RefSwitch", "passes a reference to a variable of the session"},
    {"StackCloseV2", "uses a stack of the same step"},
    {"StackPopV2", "uses a stack of the same step"},
    {"StackPushV2", "uses a stack of the same step"},
    {"OneShotIterator", "calls a function of a library"},
    {"MapDataset", "calls a function of a library"},
    {"ParallelMapDataset", "calls a function of a library"},
    {"ParallelMapDatasetV2", "calls a function of a library"},
    {"MapAndBatchDataset", "calls a function of a library"},
    {"FlatMapDataset", "calls a function of a library"},
    {"InterleaveDataset", "calls a function of a library"},
    {"ParallelInterleaveDataset", "calls a function of a library"},
    {"ParallelInterleaveDatasetV2", "calls a function of a library"},
    {"ParallelInterleaveDatasetV3", "calls a function of a library"},
    {"ParallelInterleaveDatasetV4", "calls a function of a library"},
    {"FilterDataset", "calls a function of a library"},
    {"ParallelFilterDataset", "calls a function of a library"},
    {"ScanDataset", "calls a function of a library"},
    {"TakeWhileDataset", "calls a function of a library"},
    {"ReduceDataset", "calls a function of a library"},
    {"GroupByWindowDataset", "calls a function of a library"},
    {"GroupByReducerDataset", "calls a function of a library"},
    {"GeneratorDataset", "calls a function of a library"},
    {"LoadDataset", "calls a function of a library"},
    {"SaveDataset", "calls a function of a library"},
    {"SaveDatasetV2", "calls a function of a library"},
    {"StatefulPartitionedCall", "calls a function of a library"},
    {"SymbolicGradient", "calls a function of a library"},
    {"TensorArrayWrite", "uses an array of the same step"},
    {"TensorArrayWriteV2", "uses an array of the same step"},
    {"TensorArrayRead", "uses an array of the same step"},
    {"TensorArrayReadV2", "uses an array of the same step"},
    {"TensorArrayGather", "uses an array of the same step"},
    {"TensorArrayGatherV2", "uses an array of the same step"},
    {"TensorArrayScatter", "uses an array of the same step"},
    {"TensorArrayScatterV2", "uses an array of the same step"},
    {"TensorArrayConcat", "uses an array of the same step"},
    {"TensorArrayConcatV2", "uses an array of the same step"},
    {"TensorArraySplit", "uses an array of the same step"},
    {"TensorArraySplitV2", "uses an array of the same step"},
    {"TensorArrayPack", "uses an array of the same step"},
    {"TensorArrayUnpack", "uses an array of the same step"},
    {"TensorArraySize", "uses an array of the same step"},
    {"TensorArraySizeV2", "uses an array of the same step"},
    {"TensorArrayClose", "uses an array of the same step"},
    {"TensorArrayCloseV2", "uses an array of the same step"},
    {"TensorArrayGrad", "uses an array of the same step"},
    {"TensorArrayGradV2", "uses an array of the same step"},
    {"TensorArrayGradWithShape", "uses an array of the same step"},
    {"StackPush", "uses a stack of the same step"},
    {"StackPop", "uses a stack of the same step"},
    {"StackClose", "uses a stack of the same step"},
    {"BatchFunction", "calls a function of a library"},
    {"RemoteCall", "calls a function of a library"},
    {"MapDefun", "calls a function of a library"},
    {"Case", "calls functions of a library"},
    {"For", "calls functions of a library"},
    {"If", "calls functions of a library"},
    {"StatelessCase", "calls functions of a library"},
    {"StatelessIf", "calls functions of a library"},
    {"StatelessWhile", "calls functions of a library"},
    {"While", "calls functions of a library"},
    {"_If", "calls functions of a library"},
    {"_While", "calls functions of a library"},
};

const char *mr_trial_excuse(const char *op)
{
    for (int i = 0; i < MR_COUNT(no_examples); i++)
        if (strcmp(no_examples[i].op, op) == 0)
            return no_examples[i].reason;
    return NULL;
}

/* ---- types ---- */

typedef struct type_set {
    mr_dtype *types;
    int n, max;
    bool any;
} type_set;

static void add_type(type_set *s, mr_dtype t)
{
    for (int i = 0; i < s->n; i++)
        if (s->types[i] == t)
            return;
    if (s->n < s->max)
        s->types[s->n++] = t;
}

static void add_kernel(void *ctx, const mr_kernel *k)
{
    type_set *s = ctx;
    if (strcmp(k->device, "CPU") != 0)
        return;
    if (k->type)
        add_type(s, (mr_dtype)k->type);
    else
        s->any = true;
}

int mr_trial_types(const mr_op_def *def, mr_dtype *out, int max)
{
    if (!def->key)
        return 0;
    type_set s = {out, 0, max, false};
    mr_kernel_each(def, add_kernel, &s);
    if (s.any && def->key->n_allowed > 0) {
        for (int i = 0; i < def->key->n_allowed; i++)
            add_type(&s, (mr_dtype)def->key->types[i]);
    } else if (s.any) {
        for (int t = 1; t < MR_REF_OFFSET; t++)
            if (mr_dtype_valid(t))
                add_type(&s, (mr_dtype)t);
    }
    return s.n;
}

static const mr_example_attr *find_attr(const mr_example_step *s, const char *name)
{
    for (int i = 0; i < s->n_attrs; i++)
        if (mr_sv_is(s->attrs[i].name, name))
            return &s->attrs[i];
    return NULL;
}

static bool is_type_list(const mr_op_def *d, const char *attr)
{
    const mr_attr_def *def = mr_op_def_attr(d, attr);
    return def && def->is_list && def->kind == MR_ATTR_TYPE;
}

/* The type that is forced on an attr; MR_INVALID: none. In earlier steps it applies to lists of types if the last
 * step has such a list too: the types of a queue and of its elements must agree. */
static mr_dtype forced_type(const mr_trial *t, const mr_example_step *s, const mr_op_def *d,
                            const char *attr)
{
    for (const mr_named_attr *f = t->forced; attr && f && f->name; f++) {
        bool same = s->op.n == 0 ? strcmp(f->name, attr) == 0
                                 : is_type_list(d, attr) && is_type_list(t->def, f->name);
        if (same)
            return (mr_dtype)f->v.type;
    }
    return MR_INVALID;
}

/* The meaning of $Name in an earlier step: the type that attr Name has in the last step. */
static mr_dtype dollar_type(const mr_trial *t, mr_sv text)
{
    mr_sv name = {text.p + 1, text.n - 1};
    if (mr_sv_is(name, "T"))
        return t->key;
    for (const mr_named_attr *f = t->forced; f && f->name; f++)
        if (mr_sv_is(name, f->name))
            return (mr_dtype)f->v.type;
    const mr_example_step *last = &t->example->steps[t->example->n_steps - 1];
    for (int i = 0; i < last->n_attrs; i++)
        if (mr_sv_eq(last->attrs[i].name, name))
            return mr_dtype_from_name(last->attrs[i].text);
    return t->key;
}

static mr_dtype named_type(const mr_trial *t, mr_sv text)
{
    return text.n > 1 && text.p[0] == '$' ? dollar_type(t, text) : mr_dtype_from_name(text);
}

/* The type that a literal without a type name suggests, for list(type) arguments. */
static mr_dtype natural_type(const mr_example_value *v)
{
    if (v->type != MR_INVALID)
        return v->type;
    if (v->n > 0 && !v->any && v->elements[0].is_str)
        return MR_STRING;
    return v->n > 0 && !v->any && v->elements[0].is_bool ? MR_BOOL : MR_FLOAT;
}

/* The type of an argument's literal: fixed, by its attr, by default, or as written. */
static mr_dtype literal_type(const mr_trial *t, const mr_example_step *s, const mr_op_def *d,
                             const mr_arg_def *arg, const mr_example_value *v)
{
    if (arg->type)
        return mr_dtype_base(arg->type);
    mr_dtype forced = forced_type(t, s, d, arg->type_attr ? arg->type_attr : arg->type_list_attr);
    if (forced != MR_INVALID)
        return forced;
    if (!arg->type_attr)
        return natural_type(v);
    const mr_example_attr *given = find_attr(s, arg->type_attr);
    if (given)
        return named_type(t, given->text);
    if (s->op.n == 0 && d->key && strcmp(d->key->name, arg->type_attr) == 0)
        return t->key;
    const mr_attr_def *a = mr_op_def_attr(d, arg->type_attr);
    if (v->type == MR_INVALID && a && a->has_default)
        return (mr_dtype)a->deflt.type;
    /* In a setup step a literal without a type name has the type under test. */
    return v->type == MR_INVALID && s->op.n > 0 && t->key ? t->key : natural_type(v);
}

/* ---- inputs ---- */

static bool is_hooked(const mr_trial *t, const mr_example_step *s, const mr_op_def *d)
{
    return t->hooks && (t->subject ? d == t->subject : s->op.n == 0);
}

/* Makes a reference; in a whole graph a node assigns the value to its variable. */
static mr_out variable(mr_trial *t, mr_tensor *v, const mr_pshape *shape)
{
    mr_out var =
        mr_emit0_with(&t->scope, "VariableV2",
                      MR_ATTRS({"dtype", mr_a_type(v->dtype)}, {"shape", mr_a_shape(shape)}));
    return t->whole ? mr_emit(&t->scope, "Assign", var, mr_const(&t->scope, mr_tensor_ref(v))) : var;
}

/* Makes the node that gives the value. A session without feeds sees a constant; if the example requires that
 * nothing is known, the constant is hidden behind a placeholder. */
static mr_out source(mr_trial *t, mr_tensor *v, bool is_ref)
{
    const mr_pshape *shape = mr_pshape_of(&t->graph->arena, v->rank, v->dims);
    if (is_ref)
        return variable(t, v, shape);
    const mr_pshape *declared = t->mode == MR_TRIAL_CONST    ? NULL
                                : t->mode == MR_TRIAL_SHAPED ? shape
                                                             : &mr_pshape_unknown;
    if (t->hooks)
        declared = t->hooks->placeholder(t->hooks->ctx, v);
    if (declared)
        return mr_placeholder(&t->scope, (mr_dtype)v->dtype, "in", declared);
    mr_out value = mr_const(&t->scope, mr_tensor_ref(v));
    if (!t->example->unknown)
        return value;
    return mr_emit_with(&t->scope, "PlaceholderWithDefault", MR_ATTRS({"shape", mr_a_shape(&mr_pshape_unknown)}), value);
}

static mr_status *named_input(mr_trial *t, const mr_example_value *v, mr_trial_input *out)
{
    for (int i = 0; i < t->example->n_steps - 1; i++) {
        mr_trial_step *s = &t->steps[i];
        if (!mr_sv_eq(t->example->steps[i].name, v->name) || !s->node || v->output >= s->n_out)
            continue;
        *out = (mr_trial_input){{s->node, v->output},
                                t->whole ? NULL : mr_tensor_ref(s->out[v->output])};
        return NULL;
    }
    return mr_invalid("no earlier step has an output %.*s:%d", MR_SV_ARG(v->name), v->output);
}

/* Makes a tensor of this type in the shape of the literal, with values near it where that has a meaning. */
static mr_status *stand_in(const mr_example_value *v, mr_dtype type, mr_tensor **out)
{
    MR_TRY(mr_tensor_zeros(NULL, type, v->shape->rank, v->shape->dims, out));
    for (int64_t i = 0; i < v->n && !v->any; i++) {
        char *at = (char *)(*out)->data + (size_t)i * mr_dtype_size(type);
        double x[2] = {v->elements[i].re, v->elements[i].im};
        if (type == MR_STRING)
            MR_CHECK_OK(mr_tensor_set_str(*out, i, mr_sv_of(x[0] != 0 ? "1" : "")));
        else if (type == MR_RESOURCE)
            *(mr_handle **)(void *)at = mr_handle_new("", "", "stand-in", "none", 0, NULL);
        else if (mr_dtype_is_plain(type) && isfinite(x[0]) && fabs(x[0]) < 100)
            mr_dtype_convert(MR_COMPLEX128, x, type, at, 1, false);
    }
    return NULL;
}

/* True if the value names a step that is not built yet. */
static bool is_later(const mr_trial *t, const mr_example_value *v)
{
    for (int i = 0; v->kind == MR_EX_NAME && i < t->example->n_steps; i++)
        if (mr_sv_eq(t->example->steps[i].name, v->name))
            return t->whole && !t->steps[i].node;
    return false;
}

static mr_status *one_input(mr_trial *t, const mr_example_step *s, const mr_op_def *d,
                            const mr_arg_def *arg, const mr_example_value *v, mr_trial_inputs *out)
{
    mr_trial_input in = {MR_NO_OUT, NULL};
    if (v->kind == MR_EX_LIST)
        return mr_invalid("argument %s is not a list", arg->name);
    if (v->kind == MR_EX_NAME) {
        MR_TRY(named_input(t, v, &in));
    } else {
        mr_dtype type = literal_type(t, s, d, arg, v);
        MR_TRY(mr_example_tensor(v, type, &in.t));
        if (!in.t && t->forced && mr_dtype_valid(type))
            MR_TRY(stand_in(v, type, &in.t));
        if (!in.t) {
            t->skipped = true;
            return NULL;
        }
    }
    mr_vec_push(out, in);
    return NULL;
}

/* An input from a step that is not built yet is the back edge of a loop: it is set when that step has been built. */
static mr_status *list_inputs(mr_trial *t, const mr_example_step *s, const mr_op_def *d,
                              const mr_arg_def *arg, const mr_example_value *v,
                              mr_trial_inputs *out)
{
    for (int k = 0; k < v->n_items; k++)
        if (is_later(t, v->items[k]))
            t->steps[s - t->example->steps].back = v->items[k];
        else
            MR_TRY(one_input(t, s, d, arg, v->items[k], out));
    return NULL;
}

/* Gives the values of one argument to the builder, and makes nodes for those that have none. */
static void give_inputs(mr_trial *t, const mr_arg_def *arg, mr_node_builder *b, mr_trial_inputs *in,
                        int start)
{
    int n = in->n - start;
    mr_out *outs = mr_arena_array(&t->arena, mr_out, n + 1);
    for (int k = 0; k < n; k++) {
        mr_trial_input *one = &in->p[start + k];
        if (!one->out.node)
            one->out = source(t, one->t, arg->is_ref);
        outs[k] = one->out;
    }
    if (arg->number_attr || arg->type_list_attr)
        mr_nb_input_list(b, outs, n);
    else if (n > 0)
        mr_nb_input(b, outs[0]);
}

static mr_status *all_inputs(mr_trial *t, const mr_example_step *s, const mr_op_def *d,
                             mr_node_builder *b, mr_trial_inputs *out)
{
    if (s->n_in != d->n_in)
        return mr_invalid("%s takes %d arguments, the example gives %d", d->name, d->n_in, s->n_in);
    for (int i = 0; i < d->n_in; i++) {
        const mr_arg_def *arg = &d->in[i];
        bool list = arg->number_attr || arg->type_list_attr;
        const mr_example_value *v = s->in[i];
        int start = out->n;
        if (list && v->kind == MR_EX_LIST)
            MR_TRY(list_inputs(t, s, d, arg, v, out));
        else
            MR_TRY(one_input(t, s, d, arg, v, out));
        if (is_hooked(t, s, d))
            t->hooks->inputs(t->hooks->ctx, arg, out, start);
        give_inputs(t, arg, b, out, start);
        if (t->steps[s - t->example->steps].back && out->n > start && out->p[start].out.node)
            mr_nb_input_later(b, mr_out_type(out->p[start].out));
    }
    return mr_scope_status(&t->scope);
}

/* Parses an attr of the example with the forced type: another type, or a tensor of that type. The example still
 * determines the length of a list of types. */
static mr_status *force_attr(mr_trial *t, const mr_example_attr *given, const mr_attr_def *def,
                             mr_dtype type, mr_attr *out, mr_tensor **held)
{
    *held = NULL;
    if (def->kind == MR_ATTR_TENSOR) {
        mr_example_value *v;
        mr_tensor_attr *holder = mr_arena_new(&t->arena, mr_tensor_attr);
        MR_TRY(mr_example_parse_value(&t->arena, given->text, &v));
        MR_TRY(stand_in(v, type, held));
        holder->t = *held;
        *out = (mr_attr){MR_ATTR_TENSOR, .tensor = holder};
        return NULL;
    }
    *out = mr_a_type(type);
    if (!def->is_list)
        return NULL;
    MR_TRY(mr_example_attr_value(&t->arena, given, def, t->key, out, held));
    int *types = mr_arena_array(&t->arena, int, out->n + 1);
    for (int i = 0; i < out->n; i++)
        types[i] = type;
    out->types = types;
    return NULL;
}

static mr_status *one_attr(mr_trial *t, const mr_example_step *s, const mr_op_def *d,
                           const mr_example_attr *given, mr_node_builder *b)
{
    const char *name = mr_arena_strndup(&t->arena, given->name.p, given->name.n);
    const mr_attr_def *def = mr_op_def_attr(d, name);
    mr_attr v;
    mr_tensor *held;
    if (!def)
        return mr_invalid("%s has no attr %s", d->name, name);
    bool tensor = def->kind == MR_ATTR_TENSOR && s->op.n == 0 && t->forced;
    mr_dtype forced = tensor ? t->key : forced_type(t, s, d, name);
    if (!forced && def->kind == MR_ATTR_TYPE && !def->is_list && given->text.p[0] == '$')
        forced = dollar_type(t, given->text);
    if (forced)
        MR_TRY(force_attr(t, given, def, forced, &v, &held));
    else
        MR_TRY(mr_example_attr_value(&t->arena, given, def, t->key, &v, &held));
    if (held)
        mr_nb_attr_tensor(b, name, held);
    else
        mr_nb_attr(b, name, v);
    mr_tensor_unref(held);
    return NULL;
}

static mr_status *all_attrs(mr_trial *t, const mr_example_step *s, const mr_op_def *d,
                            mr_node_builder *b)
{
    for (int i = 0; i < s->n_attrs; i++)
        MR_TRY(one_attr(t, s, d, &s->attrs[i], b));
    if (s->op.n == 0 && d->key && t->key && !find_attr(s, d->key->name))
        mr_nb_attr(b, d->key->name, mr_a_type(t->key));
    for (const mr_named_attr *f = t->forced; f && f->name && s->op.n == 0; f++)
        if (!is_type_list(d, f->name) && !find_attr(s, f->name))
            mr_nb_attr(b, f->name, f->v);
    if (is_hooked(t, s, d))
        t->hooks->attrs(t->hooks->ctx, d, b);
    return NULL;
}

/* ---- steps ---- */

static mr_status *build_step(mr_trial *t, int i)
{
    const mr_example_step *s = &t->example->steps[i];
    const mr_op_def *d = s->op.n ? mr_op_find(s->op) : t->def;
    if (!d)
        return mr_error(MR_NOT_FOUND, "no op %.*s", MR_SV_ARG(s->op));
    mr_status *st = NULL;
    mr_trial_inputs in = {0};
    mr_trial_step *made = &t->steps[i];
    mr_node_builder *b = mr_node_begin(t->graph, d->name, mr_graph_unique_name(t->graph, "op"));
    mr_nb_internal(b);
    if (t->whole && i > 0 && t->example->steps[i - 1].name.n == 0)
        mr_nb_control(b, t->steps[i - 1].node);
    MR_GO(all_inputs(t, s, d, b, &in));
    MR_GO(all_attrs(t, s, d, b));
    if (!t->skipped) {
        st = mr_node_finish(b, &made->node);
        b = NULL;
    }
out:
    if (b)
        mr_nb_abandon(b);
    made->n_in = in.n;
    made->in = mr_new_array(mr_tensor *, in.n + 1);
    for (int k = 0; k < in.n; k++)
        made->in[k] = in.p[k].t;
    mr_vec_deinit(&in);
    return st;
}

static mr_status *set_back_edges(mr_trial *t)
{
    for (int i = 0; i < t->example->n_steps; i++) {
        mr_node *n = t->steps[i].node;
        mr_trial_input in;
        if (!t->steps[i].back || n->n_in == 0 || n->in[n->n_in - 1].node)
            continue;
        MR_TRY(named_input(t, t->steps[i].back, &in));
        MR_TRY(mr_node_set_input(n, n->n_in - 1, in.out));
    }
    return NULL;
}

static mr_status *run_step(mr_trial *t, int i)
{
    MR_TRY(build_step(t, i));
    mr_trial_step *s = &t->steps[i];
    bool last = i == t->example->n_steps - 1;
    if (t->skipped)
        return NULL;
    s->n_out = s->node->n_out;
    s->out = mr_new_array(mr_tensor *, s->n_out + 1);
    if (last && t->whole)
        MR_TRY(set_back_edges(t));
    if (last && t->hooks)
        return t->hooks->run(t->hooks->ctx, s);
    return t->whole ? NULL : mr_eval_node(s->node, t->device, s->in, s->out);
}

/* ---- checking the results ---- */

static mr_status *check_shape(const mr_pshape *inferred, int rank, const int64_t *dims)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    bool ok = mr_pshape_compatible(inferred, mr_pshape_of(&a, rank, dims));
    mr_arena_deinit(&a);
    return ok ? NULL
              : mr_invalid("inferred shape %s, expected %s", MR_PSHAPE_TEXT(inferred),
                           MR_SHAPE_TEXT(rank, dims));
}

static mr_status *check_output(mr_trial *t, int i, const mr_example_value *want)
{
    mr_trial_step *s = mr_trial_last(t);
    mr_dtype type = mr_dtype_base(s->node->out_types[i]);
    if (want->kind == MR_EX_DEAD)
        return s->out[i] ? mr_invalid("output %d is not dead", i) : NULL;
    if (want->kind != MR_EX_TENSOR)
        return mr_invalid("an expected output must be a tensor");
    if (!mr_example_fits(want, type)) {
        t->skipped = true;
        return NULL;
    }
    MR_TRY(check_shape(s->node->out_shapes[i], want->shape->rank, want->shape->dims));
    if (!s->out[i])
        return mr_invalid("output %d is dead", i);
    return mr_status_prepend(mr_example_compare(want, s->out[i]), "output %d: ", i);
}

static mr_status *check_error(const mr_trial *t, mr_status *got)
{
    const mr_example *e = t->example;
    if (!got)
        return mr_invalid("succeeded, expected %s", mr_code_name(e->code));
    const char *text = mr_arena_strndup((mr_arena *)(uintptr_t)&t->arena, e->text.p, e->text.n);
    if (mr_status_code(got) == e->code && strstr(mr_status_message(got), text)) {
        mr_status_free(got);
        return NULL;
    }
    return mr_status_prepend(got, "expected error %s '%s', got %s: ", mr_code_name(e->code), text,
                             mr_code_name(mr_status_code(got)));
}

mr_status *mr_trial_steps(mr_trial *t)
{
    mr_status *st = NULL;
    for (int i = 0; i < t->example->n_steps && !st && !t->skipped; i++)
        st = run_step(t, i);
    return st;
}

mr_status *mr_trial_run(mr_trial *t)
{
    const mr_example *e = t->example;
    mr_status *st = mr_trial_steps(t);
    if (e->fails && !t->skipped)
        return check_error(t, st);
    if (st || t->skipped)
        return st;
    mr_node *n = mr_trial_last(t)->node;
    if (n->n_out != e->n_out)
        return mr_invalid("%d outputs, expected %d", n->n_out, e->n_out);
    for (int i = 0; i < e->n_out && !t->skipped; i++)
        MR_TRY(check_output(t, i, e->out[i]));
    return NULL;
}

void mr_trial_init(mr_trial *t, const mr_op_def *def, const mr_example *e, mr_dtype key,
                   mr_trial_mode mode)
{
    *t = (mr_trial){.def = def, .example = e, .key = key, .mode = e->unknown ? MR_TRIAL_UNKNOWN : mode};
    mr_arena_init(&t->arena, 0);
    t->graph = mr_graph_new();
    /* Only graphs older than its deprecation may use a deprecated op, so the graph gets an older producer version,
     * unless the example shows the refusal. */
    for (int i = 0; i < e->n_steps && !(e->fails && e->code == MR_UNIMPLEMENTED); i++) {
        const mr_op_def *d = e->steps[i].op.n > 0 ? mr_op_find(e->steps[i].op) : def;
        if (d && d->deprecated && d->deprecated <= t->graph->versions.producer)
            t->graph->versions.producer = d->deprecated - 1;
    }
    mr_scope_init(&t->scope, t->graph, "");
    MR_CHECK_OK(
        mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", NULL, &t->device));
    t->steps = mr_new_array(mr_trial_step, e->n_steps);
}

void mr_trial_deinit(mr_trial *t)
{
    for (int i = 0; i < t->example->n_steps; i++) {
        mr_trial_step *s = &t->steps[i];
        for (int k = 0; k < s->n_in; k++)
            mr_tensor_unref(s->in[k]);
        for (int k = 0; k < s->n_out; k++)
            mr_tensor_unref(s->out[k]);
        mr_free(s->in);
        mr_free(s->out);
    }
    mr_free(t->steps);
    mr_status_free(mr_scope_status(&t->scope));
    mr_scope_deinit(&t->scope);
    mr_graph_unref(t->graph);
    mr_device_free(t->device);
    mr_arena_deinit(&t->arena);
}
