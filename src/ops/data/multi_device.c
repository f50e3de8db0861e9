/* ops/data/multi_device.c -- one iterator for several devices, which get elements in turn.
 *
 * Every MultiDeviceIteratorInit starts again with a new incarnation id; callers pass the id they mean, so that
 * elements of a previous incarnation are not mixed with those of the next. */
#include "base/memory.h"
#include "ops/data/iterator_resource.h"
#include "ops/queue/named.h"

typedef struct multi {
    mr_iterator_resource base; /* with one shard per device */
    int n_devices;
    mr_mutex mu;
    int64_t incarnation MR_GUARDED_BY(mu);
} multi;

static void multi_free(mr_object *o)
{
    multi *m = (multi *)o;
    mr_iterator_resource_put(&m->base, NULL);
    mr_mutex_deinit(&m->base.mu);
    mr_mutex_deinit(&m->mu);
    mr_arena_deinit(&m->base.arena);
    mr_free(m);
}

static const mr_object_type multi_type = {.name = "tensorflow::data::MultiDeviceIterator", .free = multi_free};

typedef struct multi_state {
    mr_dataset_state base;
    mr_named named;
    int n_devices;
} multi_state;

static mr_status *multi_init(mr_make *m, void *state)
{
    multi_state *s = state;
    const mr_attr *devices;
    MR_TRY(mr_dataset_init(m, &s->base));
    MR_TRY(mr_node_get_list(m->node, "devices", MR_ATTR_STRING, &devices));
    s->n_devices = devices->n;
    return mr_node_attr(m->node, "shared_name") ? mr_named_init(&s->named, m, &multi_type) : NULL;
}

static void multi_deinit(void *state)
{
    multi_state *s = state;
    if (s->named.device)
        mr_named_deinit(&s->named);
    mr_dataset_deinit(&s->base);
}

static mr_status *make_multi(void *ctx, mr_object **out)
{
    const multi_state *s = ctx;
    mr_iterator_resource *plain = mr_iterator_resource_new(&s->base);
    multi *m = mr_new(multi);
    mr_object_init(&m->base.base, &multi_type);
    mr_mutex_init(&m->base.mu);
    mr_mutex_init(&m->mu);
    m->base.n = plain->n;
    m->base.types = plain->types;
    m->base.shapes = plain->shapes;
    m->base.arena = plain->arena; /* ownership moves */
    mr_arena_init(&plain->arena, 0);
    mr_object_unref(&plain->base);
    m->n_devices = s->n_devices;
    *out = &m->base.base;
    return NULL;
}

static mr_status *multi_device(mr_run *r)
{
    multi_state *s = r->state;
    mr_object *o;
    MR_TRY(mr_named_open(&s->named, make_multi, s, &o));
    mr_object_unref(o);
    mr_named_give(&s->named, r);
    return NULL;
}

static mr_status *with_deleter(mr_run *r, mr_object *o)
{
    mr_tensor *handle = NULL, *deleter = NULL;
    mr_status *st = mr_nameless_handle(r, o, &handle);
    mr_object_unref(o);
    MR_TRY(st);
    if ((st = mr_deleter_tensor(r, handle, &deleter))) {
        mr_tensor_unref(handle);
        return st;
    }
    mr_run_set(r, 0, handle);
    mr_run_set(r, 1, deleter);
    return NULL;
}

/* Without a deleter, the object lives as long as the handle. */
static mr_status *make_anonymous_iterator(mr_run *r)
{
    mr_object *o = NULL;
    mr_tensor *handle = NULL;
    MR_TRY(make_multi(r->state, &o));
    if (r->n_out == 2)
        return with_deleter(r, o);
    MR_TRY(mr_anonymous_handle(r, o, &handle));
    mr_run_set(r, 0, handle);
    return NULL;
}

#define TYPES "output_types=[int64] output_shapes=[[]]"
#define M "m = MultiDeviceIterator devices=[\"/cpu:0\", \"/cpu:1\"] shared_name=\"m\" container=\"\" " TYPES "; "
#define R "r = RangeDataset " TYPES ": 3, 9, 1; "
#define MULTI_STATE .state_bytes = sizeof(multi_state), .init = multi_init, .deinit = multi_deinit
#define FLAGS .flags = MR_STATEFUL | MR_NO_GRADIENT

MR_OP(MultiDeviceIterator,
    .doc     = "an iterator whose elements go to several devices in turn",
    .sig     = "-> handle: resource",
    .attrs   = "devices: list(string) >= 1; shared_name: string; container: string; " MR_DATASET_TYPES,
    FLAGS, .shape = mr_shape_scalar, .kernels = MR_KERNELS(MR_CPU_ANY(multi_device)), MULTI_STATE,
    .examples = MR_EXAMPLES("devices=[\"/cpu:0\"] shared_name=\"m\" container=\"\" " TYPES ": -> shape()"));

MR_OP(AnonymousMultiDeviceIterator,
    .doc     = "an iterator for several devices, and what deletes it when it is dropped",
    .sig     = "-> handle: resource, deleter: variant",
    .attrs   = "devices: list(string) >= 1; " MR_DATASET_TYPES,
    FLAGS, .shape = mr_shape_scalar, .kernels = MR_KERNELS(MR_CPU_ANY(make_anonymous_iterator)), MULTI_STATE,
    .examples = MR_EXAMPLES("devices=[\"/cpu:0\"] " TYPES ": -> shape(), shape()"));

MR_OP(AnonymousMultiDeviceIteratorV3,
    .doc     = "an iterator for several devices that only its handle leads to",
    .sig     = "-> handle: resource",
    .attrs   = "devices: list(string) >= 1; " MR_DATASET_TYPES,
    FLAGS, .shape = mr_shape_scalar, .kernels = MR_KERNELS(MR_CPU_ANY(make_anonymous_iterator)), MULTI_STATE,
    .examples = MR_EXAMPLES("devices=[\"/cpu:0\"] " TYPES ": -> shape()"));

static mr_status *delete_multi(mr_run *r)
{
    for (int i = 1; i + 1 < r->n_in; i++) {
        const mr_handle *h = mr_in(r, i)->n == 1 ? *MR_DATA(mr_handle *, mr_in(r, i)) : NULL;
        if (h) /* it may have been deleted already */
            mr_status_free(mr_resources_remove_handle(r->step->device->resources, h));
    }
    return mr_delete_handle(r);
}

MR_OP(DeleteMultiDeviceIterator,
    .doc     = "deletes an iterator for several devices, and those made of it",
    .sig     = "multi_device_iterator: resource, iterators: N * resource, deleter: variant ->",
    .attrs   = "N: int >= 0",
    FLAGS, .shape = mr_shape_none, .kernels = MR_KERNELS(MR_CPU_ANY(delete_multi)),
    .examples = MR_EXAMPLES("m = AnonymousMultiDeviceIterator devices=[\"/cpu:0\"] " TYPES "; : m, (), m:1 ->"));

/* ---- starting ---- */

static mr_status *begin_iteration(mr_run *r, multi *m, mr_dataset *d)
{
    int64_t ahead;
    mr_turn *t = NULL;
    mr_tensor *out;
    MR_TRY(mr_in_scalar_int(r, 2, "max_buffer_size", &ahead));
    MR_TRY(mr_iterator_resource_check(&m->base, d->n, d->types, d->shapes));
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    mr_later *l = mr_later_new(r);
    mr_status *st = mr_turn_new(d, l, m->n_devices, ahead, &t);
    mr_later_unref(l);
    MR_TRY(st);
    mr_lock(&m->mu);
    mr_iterator_resource_put(&m->base, t);
    *MR_DATA(int64_t, out) = ++m->incarnation;
    mr_unlock(&m->mu);
    return NULL;
}

static mr_status *multi_begin(mr_run *r)
{
    mr_dataset *d;
    multi *m;
    MR_TRY(mr_dataset_of(mr_in(r, 0), &d));
    MR_TRY(mr_run_resource(r, 1, &multi_type, (mr_object **)&m));
    mr_status *st = begin_iteration(r, m, d);
    mr_object_unref(&m->base.base);
    return st;
}

MR_OP(MultiDeviceIteratorInit,
    .doc     = "lets an iterator for several devices go over a dataset from its beginning; the number of this time",
    .sig     = "dataset: variant, multi_device_iterator: resource, max_buffer_size: int64 -> incarnation_id: int64",
    FLAGS, .shape = mr_shape_scalar, .kernels = MR_KERNELS(MR_CPU_ANY(multi_begin)),
    .examples = MR_EXAMPLES(R M ": r, m, 1 -> 1", R M "i = MultiDeviceIteratorInit: r, m, 1; : r, m, 1 -> 2"));

/* ---- elements ---- */

static mr_status *find_turn(mr_run *r, multi *m, mr_turn **out, int *shard)
{
    int64_t which, incarnation;
    MR_TRY(mr_in_scalar_int(r, 1, "shard_num", &which));
    MR_TRY(mr_in_scalar_int(r, 2, "incarnation_id", &incarnation));
    if (which < 0 || which >= m->n_devices)
        return mr_invalid("shard_num %lld is not in [0, %d)", (long long)which, m->n_devices);
    *shard = (int)which;
    mr_lock(&m->mu);
    mr_status *st = mr_iterator_resource_turn(&m->base, out);
    if (!st && incarnation != m->incarnation) {
        mr_turn_unref(*out);
        *out = NULL;
        st = mr_invalid("Invalid incarnation id");
    }
    mr_unlock(&m->mu);
    return st;
}

static void get_next(mr_run *r)
{
    multi *m = NULL;
    mr_turn *t = NULL;
    int shard = 0;
    mr_status *st = mr_run_resource(r, 0, &multi_type, (mr_object **)&m);
    if (!st)
        st = find_turn(r, m, &t, &shard);
    if (st)
        mr_run_done(r, st);
    else
        mr_turn_ask(t, shard, r, mr_give_element, &m->base.base);
    mr_turn_unref(t);
    if (m)
        mr_object_unref(&m->base.base);
}

static mr_status *elements_shape(mr_infer *c)
{
    const mr_attr *shapes;
    MR_TRY(mr_node_get_list(c->node, "output_shapes", MR_ATTR_SHAPE, &shapes));
    if (shapes->n != c->n_out)
        return mr_invalid("`output_shapes` must be the same length as `output_types` (%d vs. %d)", shapes->n, c->n_out);
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = shapes->shapes[i];
    return NULL;
}

#define BEGUN R M "b = MultiDeviceIteratorInit: r, m, 4; "
MR_OP(MultiDeviceIteratorGetNextFromShard,
    .doc     = "the next element for one of the devices",
    .sig     = "multi_device_iterator: resource, shard_num: int32, incarnation_id: int64 -> components: output_types",
    .attrs   = MR_DATASET_TYPES,
    FLAGS, .shape = elements_shape, .kernels = MR_KERNELS(MR_CPU_ASYNC(get_next)),
    .examples = MR_EXAMPLES(BEGUN TYPES ": m, 0, b -> 3", BEGUN TYPES ": m, 1, b -> 4",
                            BEGUN "a = MultiDeviceIteratorGetNextFromShard " TYPES ": m, 1, b; " TYPES ": m, 1, b -> 6",
                            BEGUN TYPES ": m, 1, 7 -> !INVALID_ARGUMENT Invalid incarnation id",
                            BEGUN TYPES ": m, 2, b -> !INVALID_ARGUMENT shard_num"));

static mr_status *to_string(mr_run *r) { return mr_handle_to_string(r, &multi_type); }

MR_OP(MultiDeviceIteratorToStringHandle,
    .doc     = "a string that leads to an iterator for several devices",
    .sig     = "multi_device_iterator: resource -> string_handle: string",
    FLAGS, .shape = mr_shape_scalar, .kernels = MR_KERNELS(MR_CPU_ANY(to_string)),
    .examples = MR_EXAMPLES(M ": m -> shape()"));

static mr_status *from_string(mr_run *r)
{
    multi *m;
    const mr_dataset_state *s = r->state;
    MR_TRY(mr_handle_from_string(r, &multi_type, (mr_object **)&m));
    mr_status *st = mr_iterator_resource_check(&m->base, s->n, s->types, s->shapes);
    mr_object_unref(&m->base.base);
    return st;
}

MR_OP(MultiDeviceIteratorFromStringHandle,
    .doc     = "the iterator for several devices that a string leads to",
    .sig     = "string_handle: string -> multi_device_iterator: resource",
    .attrs   = "output_types: list(type) >= 0 = []; output_shapes: list(shape) >= 0 = []",
    FLAGS, .shape = mr_shape_scalar, .kernels = MR_KERNELS(MR_CPU_ANY(from_string)),
    .state_bytes = sizeof(mr_dataset_state), .init = mr_dataset_init, .deinit = mr_dataset_deinit,
    .examples = MR_EXAMPLES(M "h = MultiDeviceIteratorToStringHandle: m; : h -> shape()",
                            "\"nonsense\" -> !INVALID_ARGUMENT ResourceHandle"));
