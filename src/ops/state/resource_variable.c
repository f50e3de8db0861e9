/* ops/state/resource_variable.c -- resource variables: VarHandleOp and the ops that read and write through it.
 *
 * The handle names a variable in the device's resources; AssignVariableOp creates it.  A read shares the buffer, and a
 * writer copies the buffer first if a reader still holds it, so a read is a snapshot. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/state/update.h"
#include "run/accel.h"

typedef struct handle_state {
    mr_tensor *handle; /* created once; every run returns a reference to it */
} handle_state;

static const char anonymous[] = "cd2c89b7-88b7-44c8-ad83-06c2a9158347";

static mr_status *make_handle(const mr_node *n, mr_device *d, mr_tensor **out)
{
    mr_sv container, shared;
    struct mr_handle_part part;
    MR_TRY(mr_node_get_type(n, "dtype", &part.dtype));
    MR_TRY(mr_node_get_shape(n, "shape", &part.shape));
    MR_TRY(mr_node_get_str(n, "container", &container));
    MR_TRY(mr_node_get_str(n, "shared_name", &shared));
    MR_TRY(mr_resource_check_names(container, shared));
    char *c = container.n ? mr_strndup(container.p, container.n) : mr_strdup(mr_resources_default(d->resources));
    char *name = mr_sv_is(shared, anonymous) ? mr_resource_private_name(n->name) : mr_strndup(shared.p, shared.n);
    mr_status *st = mr_handle_tensor(mr_handle_new(d->name, c, name, mr_variable_type.name, 1, &part), out);
    mr_free(c);
    mr_free(name);
    return st;
}

static mr_status *handle_init(mr_make *m, void *p)
{
    handle_state *s = p;
    MR_TRY(make_handle(m->node, m->device, &s->handle));
    s->handle->readonly = true;
    return NULL;
}

static void handle_deinit(void *p) { mr_tensor_unref(((handle_state *)p)->handle); }

static mr_status *var_handle(mr_run *r)
{
    const mr_attr *shared = mr_node_attr(r->node, "shared_name");
    mr_tensor *t = mr_tensor_ref(((handle_state *)r->state)->handle);
    if (shared && mr_sv_is(shared->s, anonymous)) { /* a separate variable for every run */
        mr_tensor_unref(t);
        MR_TRY(make_handle(r->node, r->step->device, &t));
    }
    mr_run_set(r, 0, t);
    return NULL;
}

static mr_status *handle_shape(mr_infer *c)
{
    struct mr_handle_part *part = mr_arena_new(c->arena, struct mr_handle_part);
    mr_handle_info *info = mr_arena_new(c->arena, mr_handle_info);
    MR_TRY(mr_node_get_type(c->node, "dtype", &part->dtype));
    MR_TRY(mr_node_get_shape(c->node, "shape", &part->shape));
    *info = (mr_handle_info){1, part};
    c->out_handles[0] = info;
    mr_infer_out_scalar(c, 0);
    return NULL;
}

MR_OP(VarHandleOp,
    .doc      = "a handle to the variable named by container and shared_name",
    .sig      = "-> resource: resource",
    .attrs    = "container: string = ''; shared_name: string = ''; dtype: type; shape: shape; "
                "allowed_devices: list(string) = []",
    .flags    = MR_STATEFUL | MR_CHEAP | MR_NO_GRADIENT,
    .shape    = handle_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(var_handle) MR_GPU(var_handle, FLOAT)),
    .state_bytes = sizeof(handle_state), .init = handle_init, .deinit = handle_deinit,
    .examples = MR_EXAMPLES("dtype=float shape=[2]: -> shape()"));

/* ---- reading ---- */

static const struct mr_handle_part *first_part(const mr_infer *c)
{
    const mr_handle_info *h = c->in_handles ? c->in_handles[0] : NULL;
    return h && h->n > 0 ? &h->parts[0] : NULL;
}

static mr_status *read_shape(mr_infer *c)
{
    const struct mr_handle_part *part = first_part(c);
    mr_dtype t;
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[0], 0, &ignored));
    MR_TRY(mr_node_get_type(c->node, "dtype", &t));
    if (part && part->dtype != t)
        return mr_invalid("Trying to read variable with wrong dtype. Expected %s got %s", mr_dtype_name(part->dtype),
                          mr_dtype_name(t));
    if (part)
        c->out[0] = part->shape;
    return NULL;
}

static mr_sv handle_name(const mr_run *r, int i)
{
    const mr_handle *h = mr_in(r, i)->n == 1 ? *MR_DATA(mr_handle *, mr_in(r, i)) : NULL;
    return mr_sv_of(h ? h->name : "?");
}

static mr_status *uninitialized_error(const mr_run *r)
{
    mr_sv name = handle_name(r, 0);
    return mr_error(MR_FAILED_PRECONDITION,
                    "Could not find variable %.*s. This could mean that the variable has been deleted. In TF1, it can "
                    "also mean the variable is uninitialized.",
                    MR_SV_ARG(name));
}

static mr_status *read_variable(mr_run *r)
{
    mr_variable *v;
    mr_tensor *t = NULL;
    mr_status *st = mr_run_variable(r, 0, &v);
    if (mr_status_code(st) == MR_NOT_FOUND) {
        mr_status_free(st);
        return uninitialized_error(r);
    }
    MR_TRY(st);
    if (v->dtype != mr_out_dtype(r, 0))
        st = mr_invalid("Trying to read variable with wrong dtype. Expected %s got %s", mr_dtype_name(v->dtype),
                        mr_dtype_name(mr_out_dtype(r, 0)));
    else
        st = mr_variable_read(v, mr_run_allocator(r), &t);
    mr_variable_unref(v);
    MR_TRY(st);
    if (!t)
        return uninitialized_error(r);
    mr_run_set(r, 0, t);
    return NULL;
}

static void read_backward(mr_grad *g) { mr_dx(g, "resource", mr_dy(g, "value")); }

MR_OP(ReadVariableOp,
    .doc      = "the value of a variable as it is now",
    .sig      = "resource: resource -> value: dtype",
    .attrs    = "dtype: type",
    .flags    = MR_STATEFUL | MR_CHEAP,
    .shape    = read_shape,
    .grad     = read_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(read_variable) MR_GPU(read_variable, FLOAT)),
    .examples = MR_EXAMPLES(
        "h = VarHandleOp dtype=$T shape=[2]; AssignVariableOp: h, [1, 2]; : h -> [1, 2]",
        "h = VarHandleOp dtype=string shape=[2]; AssignVariableOp: h, string[\"a\", \"b\"]; dtype=string: h -> [\"a\", \"b\"]",
        "h = VarHandleOp dtype=float shape=[2]; dtype=float: h -> !FAILED_PRECONDITION Could not find variable"));

/* ---- writing ---- */

static mr_status *assign_shape(mr_infer *c)
{
    const struct mr_handle_part *part = first_part(c);
    mr_dtype t;
    MR_TRY(mr_node_get_type(c->node, "dtype", &t));
    if (part && part->dtype != t)
        return mr_invalid("Trying to initialize handle for variable with wrong dtype. Expected %s got %s",
                          mr_dtype_name(part->dtype), mr_dtype_name(t));
    const mr_pshape *ignored;
    return part ? mr_infer_merge(c, part->shape, c->in[1], &ignored) : NULL;
}

typedef struct making {
    mr_dtype dtype;
    const char *name;
} making;

static mr_status *make_variable(void *ctx, mr_object **out)
{
    making *m = ctx;
    *out = &mr_variable_new(false, m->dtype, m->name)->base;
    return NULL;
}

static mr_status *find_or_make(mr_run *r, mr_dtype t, mr_variable **out)
{
    const mr_handle *h = mr_in(r, 0)->n == 1 ? *MR_DATA(mr_handle *, mr_in(r, 0)) : NULL;
    if (!h)
        return mr_invalid("the handle of a variable must be a scalar");
    making m = {t, h->name};
    mr_object *o;
    MR_TRY(mr_resources_find_or_make(r->step->device->resources, mr_sv_of(h->container), mr_sv_of(h->name),
                                     &mr_variable_type, make_variable, &m, &o));
    *out = (mr_variable *)o;
    return NULL;
}

static mr_status *store_locked(mr_run *r, mr_variable *v, mr_tensor *value, bool validate) MR_REQUIRES(v->mu)
{
    if (v->dtype != value->dtype)
        return mr_invalid("Trying to assign variable with wrong dtype. Expected %s got %s", mr_dtype_name(v->dtype),
                          mr_dtype_name(value->dtype));
    if (validate && v->t && !mr_tensor_same_shape(v->t, value))
        return mr_invalid("Trying to assign to variable with tensor with wrong shape. Expected %s got %s",
                          MR_TENSOR_SHAPE(v->t), MR_TENSOR_SHAPE(value));
    mr_tensor *t = NULL;
    if (v->copy_on_read) { /* sparse updates write the buffer in place, so it must not be shared */
        MR_TRY(mr_tensor_copy(mr_run_allocator(r), value, &t));
    } else {
        t = mr_tensor_ref(value);
    }
    mr_tensor_unref(v->t);
    v->t = t;
    return NULL;
}

static mr_status *assign_variable(mr_run *r)
{
    mr_variable *v = NULL;
    bool validate;
    MR_TRY(mr_node_get_bool(r->node, "validate_shape", &validate));
    MR_TRY(find_or_make(r, (mr_dtype)mr_in(r, 1)->dtype, &v));
    mr_lock(&v->mu);
    mr_status *st = store_locked(r, v, mr_in(r, 1), validate);
    mr_unlock(&v->mu);
    mr_variable_unref(v);
    return st;
}

MR_OP(AssignVariableOp,
    .doc      = "assigns a value to a variable, which is created if it does not exist",
    .sig      = "resource: resource, value: dtype ->",
    .attrs    = "dtype: type; validate_shape: bool = false",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = assign_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(assign_variable) MR_GPU(assign_variable, FLOAT)),
    .examples = MR_EXAMPLES("h = VarHandleOp dtype=$T shape=[2]; : h, [1, 2] ->"));

static mr_status *update_locked(mr_run *r, mr_variable *v, mr_update_kind kind) MR_REQUIRES(v->mu)
{
    const mr_tensor *value = mr_in(r, 1);
    mr_update_loop *loop = mr_update_find(kind, v->dtype);
    mr_tensor *t;
    MR_TRY(mr_variable_writable(v, mr_run_allocator(r), &t));
    if (!t)
        return uninitialized_error(r);
    if (v->dtype != value->dtype)
        return mr_invalid("Cannot update variable of type %s with a value of type %s", mr_dtype_name(v->dtype),
                          mr_dtype_name(value->dtype));
    if (!mr_tensor_same_shape(t, value))
        return mr_invalid("Cannot update variable with shape %s using a Tensor with shape %s, shapes must be equal.",
                          MR_TENSOR_SHAPE(t), MR_TENSOR_SHAPE(value));
    if (!loop)
        return mr_error(MR_UNIMPLEMENTED, "%s is not implemented for type %s", r->node->def->name,
                        mr_dtype_name(v->dtype));
    return mr_update_run(r, kind, loop, t, value);
}

static mr_status *update_variable(mr_run *r, mr_update_kind kind)
{
    mr_variable *v;
    MR_TRY(mr_run_variable(r, 0, &v));
    mr_lock(&v->mu);
    mr_status *st = update_locked(r, v, kind);
    mr_unlock(&v->mu);
    mr_variable_unref(v);
    return st;
}

static mr_status *add_to(mr_run *r) { return update_variable(r, MR_UPDATE_ADD); }
static mr_status *sub_from(mr_run *r) { return update_variable(r, MR_UPDATE_SUB); }

MR_OP(AssignAddVariableOp,
    .doc      = "adds to a variable",
    .sig      = "resource: resource, value: dtype ->",
    .attrs    = "dtype: type",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = assign_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(add_to, MR_NUMBERS) MR_CPU_ONE(add_to, MR_ALL_CODES) MR_GPU(add_to, FLOAT)),
    .examples = MR_EXAMPLES(
        "h = VarHandleOp dtype=$T shape=[2]; AssignVariableOp: h, [1, 2]; : h, [1, 2] ->",
        "h = VarHandleOp dtype=$T shape=?; AssignVariableOp: h, [1, 2]; : h, [1] -> !INVALID_ARGUMENT must be equal",
        "h = VarHandleOp dtype=$T shape=?; : h, [1] -> !NOT_FOUND does not exist"));

MR_OP(AssignSubVariableOp,
    .doc      = "subtracts from a variable",
    .sig      = "resource: resource, value: dtype ->",
    .attrs    = "dtype: type",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = assign_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(sub_from, MR_NUMBERS) MR_CPU_ONE(sub_from, MR_ALL_CODES) MR_GPU(sub_from, FLOAT)),
    .examples = MR_EXAMPLES("h = VarHandleOp dtype=$T shape=[2]; AssignVariableOp: h, [1, 2]; : h, [1, 2] ->"));

/* ---- destruction and queries ---- */

static bool has_value(mr_variable *v)
{
    mr_lock(&v->mu);
    bool there = v->t != NULL;
    mr_unlock(&v->mu);
    return there;
}

static mr_status *var_is_initialized(mr_run *r)
{
    mr_variable *v = NULL;
    mr_tensor *out;
    mr_status *st = mr_run_variable(r, 0, &v);
    if (st && mr_status_code(st) != MR_NOT_FOUND)
        return st;
    mr_status_free(st);
    st = mr_run_output(r, 0, 0, NULL, &out);
    if (!st)
        *MR_DATA(bool, out) = v && has_value(v);
    mr_variable_unref(v);
    return st;
}

MR_OP(VarIsInitializedOp,
    .doc      = "whether the variable exists and has a value",
    .sig      = "resource: resource -> is_initialized: bool",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(var_is_initialized) MR_GPU_ANY_HOST(var_is_initialized, 0, 1)),
    .examples = MR_EXAMPLES(
        "h = VarHandleOp dtype=float shape=[1]; : h -> false",
        "h = VarHandleOp dtype=float shape=[1]; AssignVariableOp: h, [1]; : h -> true"));

static mr_status *destroy_resource(mr_run *r)
{
    bool ignore;
    const mr_handle *h = mr_in(r, 0)->n == 1 ? *MR_DATA(mr_handle *, mr_in(r, 0)) : NULL;
    MR_TRY(mr_node_get_bool(r->node, "ignore_lookup_error", &ignore));
    if (!h)
        return mr_invalid("DestroyResourceOp needs one handle");
    mr_status *st = mr_resources_remove_handle(r->step->device->resources, h);
    if (ignore && mr_status_code(st) == MR_NOT_FOUND) {
        mr_status_free(st);
        return NULL;
    }
    return st;
}

MR_OP(DestroyResourceOp,
    .doc      = "removes the resource of a handle",
    .sig      = "resource: resource ->",
    .attrs    = "ignore_lookup_error: bool = true",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_none,
    .kernels  = MR_KERNELS(MR_CPU_ANY(destroy_resource) MR_GPU_ANY(destroy_resource)),
    .examples = MR_EXAMPLES(
        "h = VarHandleOp dtype=float shape=[1]; AssignVariableOp: h, [1]; : h ->",
        "h = VarHandleOp dtype=float shape=[1]; ignore_lookup_error=false: h -> !NOT_FOUND does not exist"));

static mr_status *variable_shape_shape(mr_infer *c)
{
    const struct mr_handle_part *part = first_part(c);
    mr_infer_out_vector(c, 0, part && part->shape->rank >= 0 ? part->shape->rank : -1);
    return NULL;
}

static mr_status *variable_shape(mr_run *r)
{
    mr_variable *v;
    mr_tensor *t = NULL, *out;
    MR_TRY(mr_run_variable(r, 0, &v));
    mr_lock(&v->mu);
    t = mr_tensor_ref(v->t);
    mr_unlock(&v->mu);
    mr_variable_unref(v);
    if (!t)
        return uninitialized_error(r);
    mr_status *st = mr_run_output(r, 0, 1, (int64_t[]){t->rank}, &out);
    for (int i = 0; !st && i < t->rank; i++) {
        if (out->dtype == MR_INT64)
            MR_DATA(int64_t, out)[i] = t->dims[i];
        else if (t->dims[i] > INT32_MAX)
            st = mr_invalid("dimension %d of the variable does not fit int32", i);
        else
            MR_DATA(int32_t, out)[i] = (int32_t)t->dims[i];
    }
    mr_tensor_unref(t);
    return st;
}

MR_OP(VariableShape,
    .doc      = "the shape of a variable",
    .sig      = "input: resource -> output: out_type",
    .attrs    = "out_type: {int32, int64} = DT_INT32",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = variable_shape_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(variable_shape, MR_INDEXES) MR_GPU_HOST(variable_shape, INT32, 0, 1) MR_GPU_HOST(variable_shape, INT64, 0, 1)),
    .examples = MR_EXAMPLES(
        "h = VarHandleOp dtype=float shape=[2]; AssignVariableOp dtype=float: h, float[1, 2]; : h -> [2]"));
