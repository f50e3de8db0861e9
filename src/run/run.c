/* run/run.c -- the functions of a kernel's view of its run.
 *
 * An input whose value moved on to an output (mr_run_forward, mr_run_pass) is marked MR_ABSENT but keeps its
 * pointer. The kernel may go on reading it as long as the output holds it, and no reference count is touched
 * on the most common path of a tensor through a graph.
 *
 * Setting an output again drops its former value. */
#include "run/run.h"

#include <stdio.h>

#include "base/memory.h"

/* Keeps the pointer: see the head of this file. */
void mr_value_drop(mr_value *v)
{
    if (v->kind == MR_LIVE)
        mr_tensor_unref(v->t);
    else if (v->kind == MR_REF)
        mr_variable_unref(v->ref);
    v->kind = MR_ABSENT;
}

/* Functions share the resources of the step that called them, so the root step owns them. They are made on
 * first use. */
mr_resources *mr_step_resources(mr_step *s)
{
    while (s->root)
        s = s->root;
    mr_lock(s->mu);
    if (!s->resources) {
        char name[40];
        snprintf(name, sizeof(name), MR_STEP_CONTAINER "%lld", (long long)s->id);
        s->resources = mr_resources_new(name);
    }
    mr_resources *m = s->resources;
    mr_unlock(s->mu);
    return m;
}

/* ---- inputs ---- */

/* Accepts int32 and int64, as TensorFlow does for sizes and indices. */
mr_status *mr_in_scalar_int(const mr_run *r, int i, const char *what, int64_t *out)
{
    const mr_tensor *t = mr_in(r, i);
    if (t->rank != 0)
        return mr_invalid("%s must be a scalar, got shape %s", what, MR_TENSOR_SHAPE(t));
    if (t->dtype != MR_INT32 && t->dtype != MR_INT64)
        return mr_invalid("%s must be int32 or int64, got %s", what, mr_dtype_name(t->dtype));
    *out = mr_tensor_int_at(t, 0);
    return NULL;
}

/* Any byte other than 0 is true: a client may feed any byte. */
mr_status *mr_in_scalar_bool(const mr_run *r, int i, const char *what, bool *out)
{
    const mr_tensor *t = mr_in(r, i);
    if (t->rank != 0)
        return mr_invalid("%s must be a scalar, got shape %s", what, MR_TENSOR_SHAPE(t));
    if (t->dtype != MR_BOOL)
        return mr_invalid("%s must be bool, got %s", what, mr_dtype_name(t->dtype));
    *out = *(const uint8_t *)t->data != 0; /* a client may feed any byte */
    return NULL;
}

/* Errors name the argument and the value. Shapes of more than MR_MAX_RANK dimensions are refused. */
mr_status *mr_in_shape(const mr_run *r, int i, const char *what, int64_t min, mr_shape *out)
{
    const mr_tensor *t = mr_in(r, i);
    if (t->rank != 1)
        return mr_invalid("%s must be a vector, got shape %s", what, MR_TENSOR_SHAPE(t));
    if (t->dtype != MR_INT32 && t->dtype != MR_INT64)
        return mr_invalid("%s must be int32 or int64, got %s", what, mr_dtype_name(t->dtype));
    if (t->n > MR_MAX_RANK)
        return mr_invalid("%s has %lld dimensions, at most %d are possible", what, (long long)t->n,
                          MR_MAX_RANK);
    out->rank = (int)t->n;
    for (int64_t d = 0; d < t->n; d++) {
        out->dims[d] = mr_tensor_int_at(t, d);
        if (out->dims[d] < min)
            return mr_invalid("%s[%lld] = %lld must be at least %lld", what, (long long)d,
                              (long long)out->dims[d], (long long)min);
    }
    return NULL;
}

/* ---- outputs ---- */

void mr_run_set(mr_run *r, int i, mr_tensor *t)
{
    MR_ASSERT(i >= 0 && i < r->n_out && t);
    mr_value_drop(&r->out[i]);
    r->out[i] = (mr_value){.t = t, .kind = MR_LIVE};
}

void mr_run_set_ref(mr_run *r, int i, mr_variable *v)
{
    MR_ASSERT(i >= 0 && i < r->n_out && v);
    mr_value_drop(&r->out[i]);
    r->out[i] = (mr_value){.ref = v, .kind = MR_REF};
}

void mr_run_set_dead(mr_run *r, int i)
{
    MR_ASSERT(i >= 0 && i < r->n_out);
    mr_value_drop(&r->out[i]);
    r->out[i] = (mr_value){.t = NULL, .kind = MR_DEAD};
}

/* ---- where arguments are ---- */

/* The number of inputs or outputs that an argument stands for. */
static int arg_count(const mr_node *n, const mr_arg_def *arg)
{
    const char *name = arg->number_attr ? arg->number_attr : arg->type_list_attr;
    const mr_attr *a = name ? mr_node_attr(n, name) : NULL;
    return !name ? 1 : !a ? 0 : a->is_list ? a->n : (int)a->i;
}

/* True if the argument that the i-th input or output belongs to has its bit set. */
static bool has_bit(const mr_node *n, const mr_arg_def *args, int n_args, uint32_t bits, int i)
{
    if (bits == 0 || bits == UINT32_MAX)
        return bits != 0;
    for (int k = 0; k < n_args && k < 32; k++) {
        i -= arg_count(n, &args[k]);
        if (i < 0)
            return bits >> k & 1;
    }
    return false;
}

bool mr_run_host_in(const mr_run *r, int i)
{
    const mr_op_def *d = r->node->def;
    return has_bit(r->node, d->in, d->n_in, r->kernel->host_in, i);
}

bool mr_run_host_out(const mr_run *r, int i)
{
    const mr_op_def *d = r->node->def;
    return has_bit(r->node, d->out, d->n_out, r->kernel->host_out, i);
}

/* Host memory if the kernel asks for it (host_out), else the memory of the device. */
static mr_allocator *output_allocator(const mr_run *r, int i)
{
    mr_allocator *a = mr_run_allocator(r);
    return MR_LIKELY(a->host) || !mr_run_host_out(r, i) ? a : mr_cpu_allocator();
}

/* The run owns the new tensor; *out is borrowed. */
mr_status *mr_run_output(mr_run *r, int i, int rank, const int64_t *dims, mr_tensor **out)
{
    MR_TRY(mr_tensor_new(output_allocator(r, i), mr_out_dtype(r, i), rank, dims, out));
    mr_run_set(r, i, *out);
    return NULL;
}

/* True if the memory of the input can hold the output: nobody else sees it, and the sizes are equal. Types
 * may differ only if both are plain, since strings and handles need destructors of their own. */
static bool can_forward(const mr_run *r, int in, mr_dtype dtype, int rank, const int64_t *dims)
{
    const mr_value *v = &r->in[in];
    if (v->kind != MR_LIVE || !mr_tensor_sole(v->t))
        return false;
    if (v->t->dtype == dtype && mr_shape_eq(v->t->rank, v->t->dims, rank, dims))
        return true;
    if (v->t->dtype != dtype && (!mr_dtype_is_plain(dtype) || !mr_dtype_is_plain(v->t->dtype)))
        return false;
    int64_t n = 1;
    for (int d = 0; d < rank; d++)
        if (dims[d] < 0 || !mr_i64_mul(n, dims[d], &n))
            return false;
    return n == v->t->n && mr_dtype_size(dtype) == mr_dtype_size(v->t->dtype);
}

/* If the input's memory fits but its shape or type does not, the output is a view of it. Otherwise the output
 * gets new memory; the kernel need not know which. */
mr_status *mr_run_forward(mr_run *r, int in, int i, int rank, const int64_t *dims, mr_tensor **out)
{
    MR_ASSERT(in >= 0 && in < r->n_in);
    mr_dtype dtype = mr_out_dtype(r, i);
    if (!can_forward(r, in, dtype, rank, dims) || mr_tensor_on_host(r->in[in].t) != output_allocator(r, i)->host)
        return mr_run_output(r, i, rank, dims, out);
    mr_tensor *t = r->in[in].t;
    if (t->dtype == dtype && mr_shape_eq(t->rank, t->dims, rank, dims)) {
        r->in[in].kind = MR_ABSENT;
        *out = t;
    } else {
        MR_TRY(mr_tensor_view(t, dtype, rank, dims, out));
    }
    mr_run_set(r, i, *out);
    return NULL;
}

/* The first pass of an input moves it. Later ones find it absent and share what the pointer still shows; only
 * tensors are passed twice. */
void mr_run_pass(mr_run *r, int in, int i)
{
    MR_ASSERT(in >= 0 && in < r->n_in && i >= 0 && i < r->n_out);
    mr_value *v = &r->in[in];
    mr_value moved = *v;
    if (v->kind == MR_ABSENT)
        moved = (mr_value){.t = mr_tensor_ref(v->t), .kind = MR_LIVE};
    v->kind = MR_ABSENT;
    mr_value_drop(&r->out[i]);
    r->out[i] = moved;
}

/* Moves the input if the shape and type are the same already, else shares its memory through a view. */
mr_status *mr_run_reshape(mr_run *r, int in, int i, int rank, const int64_t *dims)
{
    mr_tensor *t = mr_in(r, in);
    if (mr_shape_eq(t->rank, t->dims, rank, dims) && t->dtype == mr_out_dtype(r, i)) {
        mr_run_pass(r, in, i);
        return NULL;
    }
    mr_tensor *view;
    MR_TRY(mr_tensor_view(t, mr_out_dtype(r, i), rank, dims, &view));
    mr_run_set(r, i, view);
    return NULL;
}

/* Safe without a lock: the nodes of the executor belong to a plan, which never changes. */
bool mr_run_wants(const mr_run *r, int i)
{
    if (!r->step->owner)
        return true;
    for (int u = 0; u < r->node->uses.n; u++)
        if (r->node->uses.p[u].output == i)
            return true;
    return false;
}

mr_status *mr_run_temp(mr_run *r, mr_dtype t, int rank, const int64_t *dims, mr_tensor **out)
{
    return mr_tensor_new(mr_run_allocator(r), t, rank, dims, out);
}

/* ---- resources ---- */

/* The handle of an input; borrowed from its tensor. */
static mr_status *handle_of(const mr_run *r, int in, const mr_handle **out)
{
    const mr_tensor *t = mr_in(r, in);
    if (t->dtype != MR_RESOURCE)
        return mr_invalid("input %d must be a resource handle, got %s", in,
                          mr_dtype_name(t->dtype));
    if (t->n < 1 || !*MR_DATA(mr_handle *, t))
        return mr_invalid("input %d is an empty resource handle", in);
    *out = *MR_DATA(mr_handle *, t);
    return NULL;
}

/* A handle must belong to this device and name this type. An anonymous handle has the object itself; the
 * others are looked up, objects of the step in the step's own resources. The texts are TensorFlow's. */
mr_status *mr_run_resource(mr_run *r, int in, const mr_object_type *type, mr_object **out)
{
    const mr_handle *h = NULL;
    MR_TRY(handle_of(r, in, &h));
    mr_device *d = r->step->device;
    if (strcmp(h->device, d->name) != 0)
        return mr_invalid("Trying to access resource %s located in device %s from device %s",
                          h->name, h->device, d->name);
    if (strcmp(h->type_name, type->name) != 0)
        return mr_invalid("Trying to access resource using the wrong type. Expected %s got %s",
                          type->name, h->type_name);
    if (h->object && h->object->type == type) {
        *out = mr_object_ref(h->object);
        return NULL;
    }
    mr_sv container = mr_sv_of(h->container);
    mr_resources *m =
        mr_sv_starts(container, MR_STEP_CONTAINER) ? mr_step_resources(r->step) : d->resources;
    return mr_resources_lookup(m, container, mr_sv_of(h->name), type, out);
}

mr_status *mr_run_variable(mr_run *r, int in, mr_variable **out)
{
    return mr_run_resource(r, in, &mr_variable_type, (mr_object **)out);
}

/* Takes over o, also on failure. */
mr_status *mr_anonymous_handle(mr_run *r, mr_object *o, mr_tensor **out)
{
    mr_device *d = r->step->device;
    char *name = mr_resource_private_name("anonymous");
    mr_handle *h = mr_handle_new(d->name, mr_resources_default(d->resources), name, o->type->name, 0,
                                 NULL);
    mr_free(name);
    h->object = o;
    return mr_handle_tensor(h, out);
}

/* Takes over h, also on failure. */
mr_status *mr_handle_tensor(mr_handle *h, mr_tensor **out)
{
    mr_status *st = mr_tensor_new(NULL, MR_RESOURCE, 0, NULL, out);
    if (st)
        mr_object_unref(&h->base);
    else
        *MR_DATA(mr_handle *, *out) = h;
    return st;
}
