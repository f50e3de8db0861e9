/* ops/state/step_handle.c -- see step_handle.h. */
#include "ops/state/step_handle.h"

static mr_status *text_handle(mr_run *r, const char *container, const char *name, mr_tensor **out)
{
    MR_TRY(mr_tensor_new(mr_run_allocator(r), MR_STRING, 1, (int64_t[]){2}, out));
    mr_status *st = mr_tensor_set_str(*out, 0, mr_sv_of(container));
    if (!st)
        st = mr_tensor_set_str(*out, 1, mr_sv_of(name));
    if (st)
        mr_tensor_unref(*out);
    return st;
}

mr_status *mr_step_handle_give(mr_run *r, const mr_object_type *type, const char *name)
{
    const char *container = mr_resources_default(mr_step_resources(r->step));
    mr_tensor *t;
    if (mr_out_dtype(r, 0) == MR_RESOURCE)
        MR_TRY(mr_handle_tensor(mr_handle_new(r->step->device->name, container, name, type->name, 0, NULL), &t));
    else
        MR_TRY(text_handle(r, container, name, &t));
    if (!mr_dtype_is_ref(r->node->out_types[0])) {
        mr_run_set(r, 0, t);
        return NULL;
    }
    mr_variable *v = mr_variable_new(true, MR_STRING, name);
    v->t = t; /* no lock: the variable is not shared yet */
    mr_run_set_ref(r, 0, v);
    return NULL;
}

mr_status *mr_step_handle_find(mr_run *r, const mr_object_type *type, mr_object **out)
{
    int in_type = r->node->in_types[0];
    mr_tensor *t = NULL;
    if (in_type == MR_RESOURCE)
        return mr_run_resource(r, 0, type, out);
    if (mr_dtype_is_ref(in_type))
        MR_TRY(mr_variable_read(mr_in_ref(r, 0), mr_run_allocator(r), &t));
    else
        t = mr_tensor_ref(mr_in(r, 0));
    mr_status *st = t && t->dtype == MR_STRING && t->n == 2
                        ? mr_resources_lookup(mr_step_resources(r->step), mr_tensor_str_at(t, 0), mr_tensor_str_at(t, 1), type, out)
                        : mr_invalid("Resource handle must have 2 elements, but had shape: %s", t ? MR_TENSOR_SHAPE(t) : "none");
    mr_tensor_unref(t);
    return st;
}
