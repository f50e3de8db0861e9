/* ops/state/variable.c -- Variable, VariableV2 and the variables of one step.
 *
 * The node's output is a reference to a variable in the device's resources; the first run creates it, without a
 * value.  A temporary variable is in the step's resources; its key includes frame and iteration, so that every
 * iteration of a loop has a separate one. */
#include "graph/infer.h"
#include "run/run.h"
#include "run/accel.h"

typedef struct state {
    char *container, *name;
    mr_dtype dtype;
    mr_pshape *shape;
    mr_resource_memo memo;
} state;

static mr_pshape *copy_shape(const mr_pshape *s)
{
    size_t bytes = sizeof *s + sizeof s->dims[0] * (size_t)MR_MAX(s->rank, 0);
    return memcpy(mr_alloc(bytes), s, bytes);
}

static mr_status *init_variable(mr_make *m, void *p)
{
    state *s = p;
    mr_sv container, shared;
    const mr_pshape *shape;
    MR_TRY(mr_node_get_type(m->node, "dtype", &s->dtype));
    MR_TRY(mr_node_get_shape(m->node, "shape", &shape));
    MR_TRY(mr_node_get_str(m->node, "container", &container));
    MR_TRY(mr_node_get_str(m->node, "shared_name", &shared));
    MR_TRY(mr_resource_check_names(container, shared));
    s->shape = copy_shape(shape);
    s->container = mr_strndup(container.p, container.n);
    s->name = shared.n ? mr_strndup(shared.p, shared.n) : mr_strdup(m->node->name);
    return NULL;
}

static void deinit_variable(void *p)
{
    state *s = p;
    mr_free(s->container);
    mr_free(s->name);
    mr_free(s->shape);
}

static mr_status *make_variable(void *ctx, mr_object **out)
{
    const state *s = ctx;
    mr_variable *v = mr_variable_new(true, s->dtype, s->name);
    mr_variable_declare(v, s->shape);
    *out = &v->base;
    return NULL;
}

static mr_status *run_variable(mr_run *r)
{
    state *s = r->state;
    mr_object *o;
    MR_TRY(mr_resources_find_or_make_again(r->step->device->resources, mr_sv_of(s->container), mr_sv_of(s->name),
                                           &mr_ref_variable_type, make_variable, s, &s->memo, &o));
    mr_run_set_ref(r, 0, (mr_variable *)o);
    return NULL;
}

#define VARIABLE_OP                                                                         \
    .sig = "-> ref: Ref(dtype)",                                                            \
    .attrs = "shape: shape; dtype: type; container: string = ''; shared_name: string = ''", \
    .flags = MR_STATEFUL | MR_CHEAP | MR_NO_GRADIENT, .shape = mr_shape_from_attr,          \
    .kernels = MR_KERNELS(MR_CPU_ANY(run_variable) MR_GPU(run_variable, FLOAT)),            \
    .state_bytes = sizeof(state), .init = init_variable, .deinit = deinit_variable

MR_OP(VariableV2,
    .doc = "a reference to a variable that exists as long as the session's device",
    VARIABLE_OP);

MR_OP(Variable,
    .doc = "the older name of VariableV2",
    VARIABLE_OP);

/* ---- temporary variables ---- */

static mr_status *temporary_init(mr_make *m, void *p)
{
    state *s = p;
    mr_sv name;
    const mr_pshape *shape;
    MR_TRY(mr_node_get_type(m->node, "dtype", &s->dtype));
    MR_TRY(mr_node_get_shape(m->node, "shape", &shape));
    MR_TRY(mr_node_get_str(m->node, "var_name", &name));
    s->shape = copy_shape(shape);
    s->name = name.n ? mr_strndup(name.p, name.n) : mr_strdup(m->node->name);
    return mr_pshape_full(shape) ? NULL : mr_invalid("a temporary variable needs a full shape, not %s", MR_PSHAPE_TEXT(shape));
}

static char *temporary_name(const mr_run *r, const char *name)
{
    return mr_printf("%s/frame:%llu/iter:%lld", name, (unsigned long long)r->frame, (long long)r->iteration);
}

static mr_status *temporary_variable(mr_run *r)
{
    const state *s = r->state;
    char *name = temporary_name(r, s->name);
    mr_variable *v = mr_variable_new(true, s->dtype, s->name);
    mr_variable_declare(v, s->shape);
    mr_status *st = mr_tensor_zeros(mr_run_allocator(r), s->dtype, s->shape->rank, s->shape->dims, &v->t);
    if (!st)
        st = mr_resources_create(mr_step_resources(r->step), MR_SV("tmp_var"), mr_sv_of(name), &v->base);
    mr_free(name);
    if (st)
        mr_variable_unref(v);
    else
        mr_run_set_ref(r, 0, v);
    return st;
}

MR_OP(TemporaryVariable,
    .doc      = "a variable for this step and iteration; DestroyTemporaryVariable returns its value and removes it",
    .sig      = "-> ref: Ref(dtype)",
    .attrs    = "shape: shape; dtype: type; var_name: string = ''",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_from_attr,
    .kernels  = MR_KERNELS(MR_CPU_ANY(temporary_variable) MR_GPU(temporary_variable, FLOAT)),
    .state_bytes = sizeof(state), .init = temporary_init, .deinit = deinit_variable,
    .examples = MR_EXAMPLES("dtype=float shape=[2]: -> shape(2)"));

typedef struct destroy_state {
    char *name;
} destroy_state;

static mr_status *destroy_init(mr_make *m, void *p)
{
    mr_sv name;
    MR_TRY(mr_node_get_str(m->node, "var_name", &name));
    ((destroy_state *)p)->name = mr_strndup(name.p, name.n);
    return NULL;
}

static void destroy_deinit(void *p) { mr_free(((destroy_state *)p)->name); }

static mr_status *destroy_temporary(mr_run *r)
{
    char *name = temporary_name(r, ((destroy_state *)r->state)->name);
    mr_tensor *t;
    mr_status *st = mr_variable_read(mr_in_ref(r, 0), mr_run_allocator(r), &t);
    if (!st)
        mr_run_set(r, 0, t);
    if (!st)
        st = mr_resources_remove(mr_step_resources(r->step), MR_SV("tmp_var"), mr_sv_of(name), &mr_ref_variable_type);
    mr_free(name);
    return st;
}

MR_OP(DestroyTemporaryVariable,
    .doc      = "the final value of a TemporaryVariable",
    .sig      = "ref: Ref(T) -> value: T",
    .attrs    = "T: type; var_name: string",
    .flags    = MR_NO_FOLD | MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(destroy_temporary) MR_GPU(destroy_temporary, FLOAT)),
    .state_bytes = sizeof(destroy_state), .init = destroy_init, .deinit = destroy_deinit,
    .examples = MR_EXAMPLES("var_name=\"none\": [1, 2] -> !NOT_FOUND does not exist"));

/* ---- ops on references ---- */

static mr_status *is_initialized(mr_run *r)
{
    mr_variable *v = mr_in_ref(r, 0);
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    mr_lock(&v->mu);
    *MR_DATA(bool, out) = v->t != NULL;
    mr_unlock(&v->mu);
    return NULL;
}

MR_OP(IsVariableInitialized,
    .doc      = "whether the variable has a value",
    .sig      = "ref: Ref(dtype) -> is_initialized: bool",
    .attrs    = "dtype: type",
    .flags    = MR_UNINIT_OK | MR_NO_FOLD | MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(is_initialized) MR_GPU_HOST(is_initialized, FLOAT, 0, 1)),
    .examples = MR_EXAMPLES("[1, 2] -> true"));

static mr_status *count_locked(mr_run *r, mr_variable *v, int64_t limit) MR_REQUIRES(v->mu)
{
    mr_tensor *t, *out;
    if (!v->t || v->t->rank != 0)
        return mr_invalid("CountUpTo needs a scalar, not %s", v->t ? MR_TENSOR_SHAPE(v->t) : "an uninitialized variable");
    int64_t now = mr_tensor_int_at(v->t, 0);
    if (now >= limit)
        return mr_error(MR_OUT_OF_RANGE, "Reached limit of %lld", (long long)limit);
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    MR_TRY(mr_variable_writable(v, mr_run_allocator(r), &t));
    memcpy(out->data, t->data, mr_tensor_bytes(t));
    if (v->dtype == MR_INT32)
        *MR_DATA(int32_t, t) = (int32_t)(now + 1);
    else
        *MR_DATA(int64_t, t) = now + 1;
    return NULL;
}

static mr_status *count_up_to(mr_run *r)
{
    int64_t limit;
    mr_variable *v = mr_in_ref(r, 0);
    MR_TRY(mr_node_get_int(r->node, "limit", &limit));
    mr_lock(&v->mu);
    mr_status *st = count_locked(r, v, limit);
    mr_unlock(&v->mu);
    return st;
}

static mr_status *count_shape(mr_infer *c) { return mr_infer_rank(c, c->in[0], 0, &c->out[0]); }

MR_OP(CountUpTo,
    .doc      = "the variable's value before it is raised by one; OUT_OF_RANGE at the limit",
    .sig      = "ref: Ref(T) -> output: T",
    .attrs    = "limit: int; T: {int32, int64}",
    .flags    = MR_NO_FOLD | MR_NO_GRADIENT,
    .shape    = count_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(count_up_to, MR_INDEXES)),
    .examples = MR_EXAMPLES("limit=3: 2 -> 2", "limit=3: [2] -> !INVALID_ARGUMENT Shape must be rank 0 but is rank 1",
                            "limit=3: 3 -> !OUT_OF_RANGE Reached limit of 3"));
