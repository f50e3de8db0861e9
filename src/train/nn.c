/* train/nn.c -- the variables of a network, and their initial values.
 *
 * Variables are resource variables: a read is a snapshot, so a step never sees a half-updated one, and
 * saving does not stop training. Each has one handle (VarHandleOp), one read and one initial
 * assignment. Adopted variables were made by the client; their handle may be a reference
 * (VariableV2).
 *
 * Invariants: n->vars holds only variables that were built without an error, so each has a handle, a value and a known
 * shape. Variables are only appended. */
#include "train/nn.h"

#include <math.h>

#include "train/replicas.h"

mr_nn *mr_nn_new(mr_graph *g)
{
    mr_nn *n = mr_new(mr_nn);
    mr_scope_init(&n->s, g, "");
    n->seed = 1;
    return n;
}

/* Names and devices of variables are in the graph's arena and stay valid. */
void mr_nn_free(mr_nn *n)
{
    if (!n)
        return;
    mr_scope_deinit(&n->s);
    mr_vec_deinit(&n->vars);
    mr_replicas_free(n->replicas);
    mr_free(n);
}

void mr_nn_enter(mr_nn *n, const char *name, const char **saved_prefix)
{
    *saved_prefix = n->s.prefix;
    n->s.prefix = n->s.prefix[0] ? mr_arena_printf(&n->s.graph->arena, "%s/%s", n->s.prefix, name)
                                 : mr_arena_strdup(&n->s.graph->arena, name);
}

void mr_nn_leave(mr_nn *n, const char *saved_prefix) { n->s.prefix = saved_prefix; }

mr_out mr_nn_input(mr_nn *n, const char *name, mr_dtype type, int rank, const int64_t *dims)
{
    return mr_placeholder(&n->s, type, name, mr_pshape_of(&n->s.graph->arena, rank, dims));
}

mr_out mr_nn_setting(mr_nn *n, const char *name, float value)
{
    mr_out v = mr_const_f32(&n->s, value);
    return mr_emit_with(mr_as(&n->s, name), "PlaceholderWithDefault", MR_ATTRS({"shape", mr_a_shape(&mr_pshape_scalar)}),
                        v);
}

/* ---- initial values ---- */

/* The inputs and outputs of one unit: the sides of a matrix; for a filter, times its window. */
static void compute_fans(int rank, const int64_t *dims, double *in, double *out)
{
    MR_ASSERT(rank >= 0);
    double window = 1;
    for (int i = 0; i < rank - 2; i++)
        window *= (double)dims[i];
    *in = rank >= 2 ? window * (double)dims[rank - 2] : rank == 1 ? (double)dims[0] : 1;
    *out = rank >= 1 ? window * (double)dims[rank - 1] : 1;
}

/* Each random op gets another seed2, so two variables of the same shape start with different values. */
static mr_out random_of(mr_nn *n, const char *op, mr_out shape, mr_dtype t)
{
    n->next_seed++;
    return mr_emit_with(&n->s, op,
                        MR_ATTRS({"dtype", mr_a_type(t)}, {"seed", mr_a_int(n->seed)}, {"seed2", mr_a_int(n->next_seed)}),
                        shape);
}

/* value * scale + shift */
static mr_out scale_and_shift(mr_nn *n, mr_out v, mr_dtype t, double scale, double shift)
{
    v = mr_emit(&n->s, "Mul", v, mr_const_num(&n->s, t, scale));
    return shift == 0 ? v : mr_emit(&n->s, "AddV2", v, mr_const_num(&n->s, t, shift));
}

/* Adds the nodes of an initial value. HE divides by 0.8796, because cutting a normal distribution at
 * two deviations makes it narrower by that factor. */
static mr_out initial_value(mr_nn *n, mr_dtype t, int rank, const int64_t *dims, mr_nn_init init)
{
    mr_out shape = mr_const(&n->s, mr_tensor_vector_i64(rank, dims));
    double in, out;
    compute_fans(rank, dims, &in, &out);
    double glorot = sqrt(6 / MR_MAX(1, in + out));
    switch (init.kind) {
    case MR_NN_CONSTANT: return mr_emit(&n->s, "Fill", shape, mr_const_num(&n->s, t, init.a));
    case MR_NN_UNIFORM: return scale_and_shift(n, random_of(n, "RandomUniform", shape, t), t, init.b - init.a, init.a);
    case MR_NN_NORMAL: return scale_and_shift(n, random_of(n, "RandomStandardNormal", shape, t), t, init.b, init.a);
    case MR_NN_TRUNCATED_NORMAL:
        return scale_and_shift(n, random_of(n, "TruncatedNormal", shape, t), t, init.b, init.a);
    case MR_NN_GLOROT: return scale_and_shift(n, random_of(n, "RandomUniform", shape, t), t, 2 * glorot, -glorot);
    case MR_NN_HE:
        return scale_and_shift(n, random_of(n, "TruncatedNormal", shape, t), t,
                               sqrt(2 / MR_MAX(1, in)) / 0.87962566103423978, 0);
    }
    mr_scope_fail(&n->s, mr_invalid("unknown initializer %d", (int)init.kind));
    return MR_NO_OUT;
}

/* The name with the prefix of the scope, in the graph's arena. */
static const char *full_name(mr_nn *n, const char *name)
{
    return n->s.prefix[0] ? mr_arena_printf(&n->s.graph->arena, "%s/%s", n->s.prefix, name)
                          : mr_arena_strdup(&n->s.graph->arena, name);
}

const char *mr_nn_at(mr_nn *n, const char *device)
{
    const char *before = n->s.device;
    n->s.device = device;
    return before;
}

/* With `reuse`, the variable of this name, which must have the same type and shape. NULL: a new one is
 * needed. */
static const mr_nn_var *find_existing(mr_nn *n, const char *name, mr_dtype type, int rank, const int64_t *dims)
{
    for (int i = 0; n->reuse && i < n->vars.n; i++) {
        const mr_nn_var *v = &n->vars.p[i];
        if (strcmp(v->name, name) != 0)
            continue;
        const mr_pshape *s = mr_out_shape(v->value);
        if (v->dtype != type || s->rank != rank || (rank && memcmp(s->dims, dims, sizeof *dims * (size_t)rank) != 0))
            mr_scope_fail(&n->s, mr_invalid("variable '%s' is reused with another type or shape", name));
        return v;
    }
    return NULL;
}

/* Where a new variable goes: beside the variable of a slot, to the next parameter server, or to the scope's device. */
static const char *device_for(mr_nn *n, mr_dtype type, int64_t elements)
{
    int64_t bytes;
    MR_ASSERT(elements >= 0);
    if (n->place_with)
        return n->place_with;
    if (!mr_i64_mul(elements, (int64_t)mr_dtype_size(type), &bytes))
        bytes = INT64_MAX;
    return n->replicas ? mr_replicas_place(n->replicas, bytes) : n->s.device;
}

/* Adds the nodes of a variable. All of them, also its read and its initial value, are on the device of the variable. */
static void emit_variable(mr_nn *n, mr_nn_var *v, const char *name, int rank, const int64_t *dims, mr_nn_init init)
{
    const mr_pshape *shape = mr_pshape_of(&n->s.graph->arena, rank, dims);
    const char *before = mr_nn_at(n, v->device), *saved;
    v->handle = mr_emit0_with(mr_as(&n->s, name), "VarHandleOp",
                              MR_ATTRS({"dtype", mr_a_type(v->dtype)}, {"shape", mr_a_shape(shape)},
                                       {"shared_name", mr_a_str(v->name)}));
    mr_nn_enter(n, name, &saved);
    v->value = mr_emit_with(mr_as(&n->s, "Read"), "ReadVariableOp", MR_ATTRS({"dtype", mr_a_type(v->dtype)}), v->handle);
    mr_out start = initial_value(n, v->dtype, rank, dims, init);
    v->assign = mr_emit(mr_as(&n->s, "Assign"), "AssignVariableOp", v->handle, start).node;
    mr_nn_leave(n, saved);
    mr_nn_at(n, before);
}

/* Makes a variable, or returns the existing one if the network reuses. On an error the scope has it
 * and nothing is added to n->vars. */
mr_out mr_nn_variable(mr_nn *n, const char *name, mr_dtype type, int rank, const int64_t *dims, mr_nn_init init,
                       bool trainable)
{
    mr_nn_var v = {.dtype = type, .trainable = trainable, .name = full_name(n, name)};
    const mr_nn_var *old = find_existing(n, v.name, type, rank, dims);
    if (old)
        return mr_scope_ok(&n->s) ? old->value : MR_NO_OUT;
    mr_status *st = mr_shape_elements(rank, dims, &v.n);
    if (st) {
        mr_scope_fail(&n->s, mr_status_prepend(st, "variable '%s': ", v.name));
        return MR_NO_OUT;
    }
    v.device = device_for(n, type, v.n);
    emit_variable(n, &v, name, rank, dims, init);
    if (mr_scope_ok(&n->s)) {
        MR_ASSERT(v.handle.node && v.value.node && v.assign);
        mr_vec_push(&n->vars, v);
    }
    return v.value;
}

/* ---- adopted variables ---- */

/* Only nodes that are variables can be read, assigned and saved. */
static mr_status *check_adopted(const mr_nn_var *v)
{
    const mr_node *node = v->handle.node;
    if (!mr_node_is(node, "VarHandleOp") && !mr_node_is(node, "VariableV2") && !mr_node_is(node, "Variable"))
        return mr_invalid("'%s' is a node of %s: a variable is a VarHandleOp, VariableV2 or Variable", node->name,
                          node->def->name);
    return NULL;
}

/* Adds a read of an adopted variable, on its device and below its name. */
static mr_out read_adopted(mr_nn *n, const mr_nn_var *v)
{
    const char *saved, *before = mr_nn_at(n, v->device);
    mr_nn_enter(n, v->name, &saved);
    mr_out value = mr_nn_read(n, v);
    mr_nn_leave(n, saved);
    mr_nn_at(n, before);
    return value;
}

static mr_status *measure_adopted(mr_nn_var *v)
{
    const mr_pshape *shape = mr_out_shape(v->value);
    if (!mr_pshape_full(shape))
        return mr_invalid("variable '%s': its shape must be known", v->name);
    return mr_shape_elements(shape->rank, shape->dims, &v->n);
}

/* An adopted variable named global_step becomes the network's, unless it has one. */
static void note_step(mr_nn *n, const mr_nn_var *v)
{
    if (!n->global_step.node && v->dtype == MR_INT64 && mr_out_shape(v->value)->rank == 0 && !v->trainable && strcmp(v->name, "global_step") == 0)
        n->global_step = v->value;
}

/* Adopting a variable twice returns the first result. */
mr_out mr_nn_adopt(mr_nn *n, mr_out variable, mr_nn_var v)
{
    const mr_nn_var *old = mr_nn_find(n, variable);
    if (old)
        return old->value;
    v.handle = variable;
    v.name = variable.node->name;
    v.device = variable.node->device;
    mr_scope_fail(&n->s, check_adopted(&v));
    if (mr_scope_ok(&n->s))
        mr_scope_fail(&n->s, mr_node_get_type(variable.node, "dtype", &v.dtype));
    v.value = mr_scope_ok(&n->s) ? read_adopted(n, &v) : MR_NO_OUT;
    if (mr_scope_ok(&n->s))
        mr_scope_fail(&n->s, measure_adopted(&v));
    if (!mr_scope_ok(&n->s))
        return MR_NO_OUT;
    mr_vec_push(&n->vars, v);
    note_step(n, &v);
    return v.value;
}

mr_out mr_nn_read(mr_nn *n, const mr_nn_var *v)
{
    MR_ASSERT(v->handle.node);
    if (mr_nn_var_is_ref(v))
        return mr_emit(&n->s, "Identity", v->handle);
    return mr_emit_with(&n->s, "ReadVariableOp", MR_ATTRS({"dtype", mr_a_type(v->dtype)}), v->handle);
}

mr_out mr_nn_assign(mr_nn *n, const mr_nn_var *v, mr_out value)
{
    MR_ASSERT(v->handle.node);
    return mr_emit(&n->s, mr_nn_var_is_ref(v) ? "Assign" : "AssignVariableOp", v->handle, value);
}

mr_out mr_nn_assign_add(mr_nn *n, const mr_nn_var *v, mr_out value)
{
    return mr_emit(&n->s, mr_nn_var_is_ref(v) ? "AssignAdd" : "AssignAddVariableOp", v->handle, value);
}

const mr_nn_var *mr_nn_find(const mr_nn *n, mr_out o)
{
    for (int i = 0; i < n->vars.n; i++)
        if (mr_out_eq(n->vars.p[i].value, o) || mr_out_eq(n->vars.p[i].handle, o))
            return &n->vars.p[i];
    return NULL;
}

/* Uses a separate scope without prefix and device, so that the node is named `init` wherever the network is. */
mr_node *mr_nn_initializer(mr_nn *n)
{
    mr_scope s = {.graph = n->s.graph, .prefix = "", .device = ""};
    for (int i = 0; i < n->vars.n; i++)
        if (n->vars.p[i].assign)
            mr_vec_push(&s.controls, n->vars.p[i].assign);
    mr_out init = mr_scope_ok(&n->s) ? mr_emit0(mr_as(&s, "init"), "NoOp") : MR_NO_OUT;
    mr_scope_fail(&n->s, mr_scope_status(&s));
    mr_scope_deinit(&s);
    return init.node;
}

/* Its name has no prefix, so that it is the same variable in every layer and in TensorFlow's checkpoints. */
mr_out mr_nn_global_step(mr_nn *n)
{
    if (!n->global_step.node) {
        const char *saved = n->s.prefix;
        n->s.prefix = "";
        n->global_step = mr_nn_variable(n, "global_step", MR_INT64, 0, NULL, (mr_nn_init){MR_NN_CONSTANT, 0, 0}, false);
        n->s.prefix = saved;
    }
    return n->global_step;
}
