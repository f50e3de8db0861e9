/* ops/state/resource_more.c -- more ops on resource variables: many handles or values at once
 * (_VarHandlesOp, _ReadVariablesOp), counting (ResourceCountUpTo), DisableCopyOnRead; and the time
 * (Timestamp). */
#include "base/clock.h"
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/array/layout.h"
#include "run/run.h"

/* ---- many at once ---- */

typedef struct handles {
    int n;
    mr_tensor **t; /* created once; every run returns references to them */
} handles;

static mr_status *make_handle(const mr_device *d, mr_sv container, mr_sv name,
                              struct mr_handle_part part, mr_tensor **out)
{
    MR_TRY(mr_resource_check_names(container, name));
    char *c = container.n ? mr_strndup(container.p, container.n)
                          : mr_strdup(mr_resources_default(d->resources));
    char *z = mr_strndup(name.p, name.n);
    mr_status *st =
        mr_handle_tensor(mr_handle_new(d->name, c, z, mr_variable_type.name, 1, &part), out);
    mr_free(c);
    mr_free(z);
    return st;
}

typedef struct lists {
    const mr_attr *containers, *names, *types, *shapes;
} lists;

static mr_status *read_lists(const mr_node *n, int count, lists *l)
{
    *l = (lists){mr_node_attr(n, "containers"), mr_node_attr(n, "shared_names"),
                 mr_node_attr(n, "dtypes"), mr_node_attr(n, "shapes")};
    const mr_attr *all[] = {l->containers, l->names, l->types, l->shapes};
    for (int i = 0; i < 4; i++)
        if (!all[i] || !all[i]->is_list || all[i]->n != count)
            return mr_invalid(
                "containers, shared_names, dtypes and shapes must have %d entries each", count);
    return NULL;
}

static void handles_deinit(void *p)
{
    handles *h = p;
    for (int i = 0; i < h->n; i++)
        mr_tensor_unref(h->t[i]);
    mr_free(h->t);
}

static mr_status *handles_init(mr_make *m, void *p)
{
    handles *h = p;
    lists l;
    MR_TRY(read_lists(m->node, m->node->n_out, &l));
    h->t = mr_try_calloc((size_t)m->node->n_out + 1, sizeof *h->t);
    if (!h->t)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %d handles", m->node->n_out);
    for (; h->n < m->node->n_out; h->n++) {
        struct mr_handle_part part = {mr_dtype_base(l.types->types[h->n]), l.shapes->shapes[h->n]};
        MR_TRY(
            make_handle(m->device, l.containers->ss[h->n], l.names->ss[h->n], part, &h->t[h->n]));
        h->t[h->n]->readonly = true;
    }
    return NULL;
}

static mr_status *var_handles(mr_run *r)
{
    const handles *h = r->state;
    for (int i = 0; i < h->n; i++)
        mr_run_set(r, i, mr_tensor_ref(h->t[i]));
    return NULL;
}

static mr_status *handles_shape(mr_infer *c)
{
    lists l;
    MR_TRY(read_lists(c->node, c->n_out, &l));
    for (int i = 0; i < c->n_out; i++) {
        struct mr_handle_part *part = mr_arena_new(c->arena, struct mr_handle_part);
        mr_handle_info *info = mr_arena_new(c->arena, mr_handle_info);
        *part = (struct mr_handle_part){mr_dtype_base(l.types->types[i]), l.shapes->shapes[i]};
        *info = (mr_handle_info){1, part};
        c->out_handles[i] = info;
        mr_infer_out_scalar(c, i);
    }
    return NULL;
}

MR_OP(_VarHandlesOp,
    .doc      = "handles to the variables named by containers and shared_names",
    .sig      = "-> resources: N * resource",
    .attrs    = "containers: list(string); shared_names: list(string); N: int >= 0; dtypes: list(type); shapes: list(shape)",
    .flags    = MR_STATEFUL | MR_CHEAP | MR_NO_GRADIENT,
    .shape    = handles_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(var_handles)),
    .state_bytes = sizeof(handles), .init = handles_init, .deinit = handles_deinit,
    .examples = MR_EXAMPLES(
        "N=2 containers=[\"\", \"\"] shared_names=[\"a\", \"b\"] dtypes=[float, int32] shapes=[[2], []]: -> shape(), shape()",
        "N=2 containers=[\"\"] shared_names=[\"a\", \"b\"] dtypes=[float, int32] shapes=[[2], []]: -> !INVALID_ARGUMENT "
        "must have 2 entries"));

static mr_status *read_one(mr_run *r, int i)
{
    mr_variable *v;
    mr_tensor *t = NULL;
    MR_TRY(mr_run_variable(r, i, &v));
    mr_status *st = NULL;
    if (v->dtype != mr_out_dtype(r, i))
        st = mr_invalid("Trying to read variable with wrong dtype. Expected %s got %s",
                        mr_dtype_name(v->dtype), mr_dtype_name(mr_out_dtype(r, i)));
    else
        st = mr_variable_read(v, mr_run_allocator(r), &t);
    if (!st && !t)
        st = mr_error(MR_FAILED_PRECONDITION, "Could not find variable %s: it has no value",
                      v->name);
    mr_variable_unref(v);
    if (!st)
        mr_run_set(r, i, t);
    return st;
}

static mr_status *read_variables(mr_run *r)
{
    for (int i = 0; i < r->n_in; i++)
        MR_TRY(read_one(r, i));
    return NULL;
}

static mr_status *reads_shape(mr_infer *c)
{
    if (c->n_in != c->n_out)
        return mr_invalid("%d variables but %d outputs", c->n_in, c->n_out);
    for (int i = 0; i < c->n_in; i++) {
        const mr_handle_info *h = c->in_handles ? c->in_handles[i] : NULL;
        if (!h || h->n == 0)
            continue;
        if (h->parts[0].dtype != mr_dtype_base(c->node->out_types[i]))
            return mr_invalid("Trying to read variable with wrong dtype. Expected %s got %s",
                              mr_dtype_name(h->parts[0].dtype),
                              mr_dtype_name(c->node->out_types[i]));
        c->out[i] = h->parts[0].shape;
    }
    return NULL;
}

MR_OP(_ReadVariablesOp,
    .doc      = "the values of variables as they are now",
    .sig      = "resources: N * resource -> values: dtypes",
    .attrs    = "N: int >= 0; dtypes: list(type) >= 1",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = reads_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(read_variables)),
    .examples = MR_EXAMPLES(
        "a = VarHandleOp dtype=float shape=[2]; dtypes=[float]: (a) -> !NOT_FOUND does not exist"));

/* ---- counting ---- */

static mr_status *count_locked(mr_run *r, mr_variable *v, int64_t limit) MR_REQUIRES(v->mu)
{
    mr_tensor *t, *out;
    if (v->dtype != mr_out_dtype(r, 0))
        return mr_invalid("the variable is of type %s, the output of type %s", mr_dtype_name(v->dtype),
                          mr_dtype_name(mr_out_dtype(r, 0)));
    if (!v->t)
        return mr_error(MR_FAILED_PRECONDITION, "Could not find variable %s: it has no value",
                        v->name);
    if (v->t->rank != 0)
        return mr_invalid("input is not a scalar: %s", MR_TENSOR_SHAPE(v->t));
    int64_t now = mr_tensor_int_at(v->t, 0);
    if (now >= limit)
        return mr_error(MR_OUT_OF_RANGE, "Reached limit of %lld", (long long)limit);
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    MR_TRY(mr_variable_writable(v, mr_run_allocator(r), &t));
    memcpy(out->data, t->data, mr_tensor_bytes(t));
    if (v->dtype == MR_INT32)
        *MR_DATA(int32_t, t) = (int32_t)((uint32_t)now + 1);
    else
        *MR_DATA(int64_t, t) = now + 1;
    return NULL;
}

static mr_status *count_init(mr_make *m, void *state)
{
    return mr_node_get_int(m->node, "limit", state);
}

static mr_status *count_up_to(mr_run *r)
{
    mr_variable *v;
    MR_TRY(mr_run_variable(r, 0, &v));
    mr_lock(&v->mu);
    mr_status *st = count_locked(r, v, *(const int64_t *)r->state);
    mr_unlock(&v->mu);
    mr_variable_unref(v);
    return st;
}

static mr_status *count_shape(mr_infer *c)
{
    const mr_handle_info *h = c->in_handles ? c->in_handles[0] : NULL;
    mr_dtype type;
    MR_TRY(mr_node_get_type(c->node, "T", &type));
    if (h && h->n > 0 && (mr_dtype)h->parts[0].dtype != type)
        return mr_invalid("Data types do not match: %s and %s", mr_dtype_name(type), mr_dtype_name(h->parts[0].dtype));
    return mr_infer_rank(c, mr_infer_variable(c, 0), 0, &c->out[0]);
}

MR_OP(ResourceCountUpTo,
    .doc      = "the variable's value before it is raised by one; OUT_OF_RANGE at the limit",
    .sig      = "resource: resource -> output: T",
    .attrs    = "limit: int; T: {int32, int64}",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = count_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(count_up_to, MR_INDEXES)),
    .state_bytes = sizeof(int64_t), .init = count_init,
    .examples = MR_EXAMPLES("v = VarHandleOp dtype=$T shape=[]; AssignVariableOp: v, 2; limit=3: v -> 2",
                            "v = VarHandleOp dtype=$T shape=[]; AssignVariableOp: v, 3; limit=3: v -> !OUT_OF_RANGE Reached limit of 3",
                            "v = VarHandleOp dtype=$T shape=[1]; AssignVariableOp: v, [3]; limit=3: v -> "
                            "!INVALID_ARGUMENT Shape must be rank 0 but is rank 1"));

/* ---- DisableCopyOnRead, Timestamp ---- */

static mr_status *disable_copy_on_read(mr_run *r)
{
    mr_variable *v;
    MR_TRY(mr_run_variable(r, 0, &v));
    mr_lock(&v->mu);
    v->copy_on_read =
        false; /* safe: a writer copies the value while a reader holds it */
    mr_unlock(&v->mu);
    mr_variable_unref(v);
    return NULL;
}

MR_OP(DisableCopyOnRead,
    .doc      = "a variable that was updated in rows shares its memory with readers again",
    .sig      = "resource: resource ->",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_none,
    .kernels  = MR_KERNELS(MR_CPU_ANY(disable_copy_on_read)),
    .examples = MR_EXAMPLES("v = VarHandleOp dtype=float shape=[1]; AssignVariableOp dtype=float: v, float[1]; : v ->",
                            "v = VarHandleOp dtype=float shape=[1]; : v -> !NOT_FOUND does not exist"));

static mr_status *run_timestamp(mr_run *r)
{
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    *MR_DATA(double, out) = (double)mr_wall_us() / 1e6;
    return NULL;
}

MR_OP(Timestamp,
    .doc      = "seconds since 1970",
    .sig      = "-> ts: double",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_timestamp)),
    .examples = MR_EXAMPLES("-> shape()"));
