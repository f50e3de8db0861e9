/* ops/data/iterator_resource.c -- iterators as resources, and handles to them. */
#include "ops/data/iterator_resource.h"

#include "base/memory.h"

/* ---- the resource ---- */

static void resource_free(mr_object *o)
{
    mr_iterator_resource *i = (mr_iterator_resource *)o;
    mr_iterator_resource_put(i, NULL);
    mr_mutex_deinit(&i->mu);
    mr_arena_deinit(&i->arena);
    mr_free(i);
}

const mr_object_type mr_iterator_resource_type = {.name = "tensorflow::data::IteratorResource",
                                                  .free = resource_free};

mr_iterator_resource *mr_iterator_resource_new(const mr_dataset_state *s)
{
    mr_iterator_resource *i = mr_new(mr_iterator_resource);
    mr_object_init(&i->base, &mr_iterator_resource_type);
    mr_mutex_init(&i->mu);
    mr_arena_init(&i->arena, 256);
    mr_tensor_vec none = {0};
    i->n = s->n;
    if (s->n > 0) {
        mr_attr types = mr_a_types(s->n, s->types), shapes = mr_a_shapes(s->n, s->shapes);
        i->types = mr_attr_copy(&i->arena, &none, &types).types;
        i->shapes = mr_attr_copy(&i->arena, &none, &shapes).shapes;
    }
    return i;
}

mr_status *mr_iterator_resource_check(const mr_iterator_resource *i, int n, const int *types,
                                      const mr_pshape *const *shapes)
{
    if (i->n == 0 || n == 0)
        return NULL;
    const mr_dataset as_dataset = {.n = n, .types = types, .shapes = shapes};
    MR_TRY(mr_dataset_check_types(i->n, i->types, &as_dataset));
    return mr_dataset_check_shapes(i->n, i->shapes, &as_dataset);
}

static void close_turn(mr_turn *t)
{
    if (t)
        mr_turn_close(t);
    mr_turn_unref(t);
}

void mr_iterator_resource_put(mr_iterator_resource *i, mr_turn *t)
{
    mr_lock(&i->mu);
    mr_turn *former = i->turn;
    i->turn = t;
    mr_unlock(&i->mu);
    close_turn(former);
}

mr_status *mr_iterator_resource_set(mr_iterator_resource *i, mr_dataset *d, mr_later *l, bool only_if_new)
{
    mr_turn *t = NULL;
    MR_TRY(mr_iterator_resource_check(i, d->n, d->types, d->shapes));
    MR_TRY(mr_turn_new(d, l, 1, 1, &t));
    mr_lock(&i->mu);
    mr_turn *former = i->turn;
    if (!former || !only_if_new)
        i->turn = t;
    else
        former = t;
    mr_unlock(&i->mu);
    close_turn(former);
    return NULL;
}

mr_status *mr_iterator_resource_turn(mr_iterator_resource *i, mr_turn **out)
{
    mr_lock(&i->mu);
    *out = i->turn ? mr_turn_ref(i->turn) : NULL;
    mr_unlock(&i->mu);
    return *out ? NULL
                : mr_error(MR_FAILED_PRECONDITION,
                           "GetNext() failed because the iterator has not been initialized. Ensure that you "
                           "have run the initializer operation for this iterator before getting the next "
                           "element.");
}

/* An element must match the types and shapes that its node declares, because shape inference relied on them. */
static mr_status *check_output(const mr_run *r, int i, const mr_tensor *t)
{
    const mr_pshape *said = r->node->out_shapes[i];
    if (t->dtype != mr_out_dtype(r, i))
        return mr_invalid("Data type mismatch at component %d: expected %s but got %s.", i,
                          mr_dtype_name(mr_out_dtype(r, i)), mr_dtype_name(t->dtype));
    bool fits = said->rank < 0 || said->rank == t->rank;
    for (int k = 0; fits && k < said->rank; k++)
        fits = said->dims[k] < 0 || said->dims[k] == t->dims[k];
    return fits ? NULL
                : mr_invalid("Incompatible shapes at component %d: expected %s but got %s.", i, MR_PSHAPE_TEXT(said),
                             MR_TENSOR_SHAPE(t));
}

mr_status *mr_give_element(mr_run *r, const mr_dataset *d, mr_tensor *const *element)
{
    if (!element)
        return mr_error(MR_OUT_OF_RANGE, "End of sequence");
    if (d->n != r->n_out)
        return mr_invalid("Number of components does not match: expected %d types but got %d.", r->n_out, d->n);
    for (int i = 0; i < d->n; i++)
        MR_TRY(check_output(r, i, element[i]));
    for (int i = 0; i < d->n; i++)
        mr_run_set(r, i, mr_tensor_ref(element[i]));
    return NULL;
}

/* ---- handles ---- */

mr_status *mr_nameless_handle(mr_run *r, mr_object *o, mr_tensor **out)
{
    mr_resources *all = r->step->device->resources;
    char *name = mr_resource_private_name("AnonymousResource");
    mr_status *st = mr_resources_create(all, mr_sv_of(""), mr_sv_of(name), o);
    if (!st)
        st = mr_handle_tensor(mr_handle_new(r->step->device->name, mr_resources_default(all), name, o->type->name, 0, NULL),
                              out);
    mr_free(name);
    return st;
}

/* The resource may be removed with its device, which outlives every step but not every tensor. So the deleter holds
 * the object itself and its name, and drops the name with the device's resources. */
typedef struct deleter {
    mr_object base;
    mr_later *later; /* if it is over, the device is gone */
    mr_handle *handle;
} deleter;

static void deleter_free(mr_object *o)
{
    deleter *d = (deleter *)o;
    if (!mr_later_over(d->later))
        mr_status_free(mr_resources_remove_handle(mr_later_device(d->later)->resources, d->handle));
    mr_object_unref(&d->handle->base);
    mr_later_unref(d->later);
    mr_free(d);
}

static const mr_object_type deleter_type = {.name = "tensorflow::ResourceDeleter", .free = deleter_free};

mr_status *mr_deleter_tensor(mr_run *r, const mr_tensor *handle, mr_tensor **out)
{
    MR_TRY(mr_tensor_new(NULL, MR_VARIANT, 0, NULL, out));
    deleter *d = mr_new(deleter);
    mr_object_init(&d->base, &deleter_type);
    d->later = mr_later_new(r);
    d->handle = (mr_handle *)mr_object_ref(*MR_DATA(mr_object *, handle));
    *MR_DATA(mr_object *, *out) = &d->base;
    return NULL;
}

mr_status *mr_delete_handle(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 0);
    const mr_handle *h = t->n == 1 ? *MR_DATA(mr_handle *, t) : NULL;
    if (!h)
        return mr_invalid("Input 0 must be a handle");
    return mr_resources_remove_handle(r->step->device->resources, h);
}

mr_status *mr_handle_to_string(mr_run *r, const mr_object_type *type)
{
    mr_object *o;
    mr_tensor *t;
    mr_str bytes = {0};
    MR_TRY(mr_run_resource(r, 0, type, &o)); /* checks that the handle refers to one */
    mr_object_unref(o);
    mr_handle_encode(*MR_DATA(mr_handle *, mr_in(r, 0)), &bytes);
    mr_status *st = mr_run_output(r, 0, 0, NULL, &t);
    if (!st)
        st = mr_tensor_set_str(t, 0, mr_str_view(&bytes));
    mr_str_deinit(&bytes);
    return st;
}

mr_status *mr_handle_from_string(mr_run *r, const mr_object_type *type, mr_object **out)
{
    const mr_tensor *s = mr_in(r, 0);
    mr_handle *h = NULL;
    mr_tensor *t = NULL;
    if (s->n != 1 || s->rank != 0)
        return mr_invalid("string_handle must be a scalar");
    mr_status *st = mr_handle_decode(mr_tensor_str_at(s, 0), &h);
    if (mr_status_code(st) == MR_RESOURCE_EXHAUSTED)
        return st;
    if (st) {
        mr_status_free(st);
        return mr_invalid("Could not parse string_handle as a valid ResourceHandle");
    }
    if (strcmp(h->device, r->step->device->name) != 0)
        st = mr_invalid("Attempted create an iterator on device \"%s\" from handle defined on device \"%s\"",
                        r->step->device->name, h->device);
    else if (strcmp(h->type_name, type->name) != 0)
        st = mr_invalid("Trying to access resource using the wrong type. Expected %s got %s", type->name, h->type_name);
    else
        st = mr_resources_lookup(r->step->device->resources, mr_sv_of(h->container), mr_sv_of(h->name), type, out);
    if (st) {
        mr_object_unref(&h->base);
        return st;
    }
    st = mr_handle_tensor(h, &t);
    if (st) {
        mr_object_unref(*out);
        return st;
    }
    mr_run_set(r, 0, t);
    return NULL;
}
