/* ops/queue/named.c -- see named.h. */
#include "ops/queue/named.h"

#include "base/memory.h"

static mr_status *make_handle(mr_named *n, bool by_ref)
{
    if (!by_ref)
        return mr_handle_tensor(
            mr_handle_new(n->device->name, n->container, n->name, n->type->name, 0, NULL),
            &n->handle);
    n->ref = mr_variable_new(true, MR_STRING, n->name);
    n->ref->t = mr_tensor_vector_str(2, (const char *[]){n->container, n->name});
    return NULL;
}

mr_status *mr_named_init(mr_named *n, const mr_make *m, const mr_object_type *type)
{
    mr_sv container, shared;
    MR_TRY(mr_node_get_str(m->node, "container", &container));
    MR_TRY(mr_node_get_str(m->node, "shared_name", &shared));
    MR_TRY(mr_resource_check_names(container, shared));
    n->device = m->device;
    n->type = type;
    n->container = container.n ? mr_strndup(container.p, container.n)
                               : mr_strdup(mr_resources_default(m->device->resources));
    n->is_private = shared.n == 0;
    n->name = shared.n ? mr_strndup(shared.p, shared.n) : mr_resource_private_name(m->node->name);
    return make_handle(n, mr_dtype_is_ref(m->node->out_types[0]));
}

mr_status *mr_named_share(mr_named *n, const char *name)
{
    bool by_ref = n->ref != NULL;
    mr_tensor_unref(n->handle);
    mr_variable_unref(n->ref);
    mr_free(n->name);
    n->handle = NULL;
    n->ref = NULL;
    n->is_private = false;
    n->name = mr_strdup(name);
    return make_handle(n, by_ref);
}

void mr_named_deinit(mr_named *n)
{
    if (n->is_private) /* a kernel that never ran has no object to remove, which is fine */
        mr_status_free(mr_resources_remove(n->device->resources, mr_sv_of(n->container),
                                           mr_sv_of(n->name), n->type));
    mr_tensor_unref(n->handle);
    mr_variable_unref(n->ref);
    mr_free(n->container);
    mr_free(n->name);
}

mr_status *mr_named_open(mr_named *n, mr_status *(*make)(void *ctx, mr_object **out), void *ctx,
                         mr_object **out)
{
    return mr_resources_find_or_make(n->device->resources, mr_sv_of(n->container),
                                     mr_sv_of(n->name), n->type, make, ctx, out);
}

void mr_named_give(const mr_named *n, mr_run *r)
{
    if (n->handle)
        mr_run_set(r, 0, mr_tensor_ref(n->handle));
    else
        mr_run_set_ref(r, 0, mr_variable_ref(n->ref));
}

mr_status *mr_named_find(mr_run *r, const mr_object_type *type, mr_object **out)
{
    if (!mr_dtype_is_ref(r->node->in_types[0]))
        return mr_run_resource(r, 0, type, out);
    mr_tensor *t;
    MR_TRY(mr_variable_read(mr_in_ref(r, 0), mr_run_allocator(r), &t));
    mr_status *st;
    if (!t || t->n != 2)
        st = mr_invalid("Resource handle must have 2 elements, but had shape: %s",
                        t ? MR_TENSOR_SHAPE(t) : "none");
    else
        st = mr_resources_lookup(r->step->device->resources, mr_tensor_str_at(t, 0),
                                 mr_tensor_str_at(t, 1), type, out);
    mr_tensor_unref(t);
    return st;
}
