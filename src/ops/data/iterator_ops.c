/* ops/data/iterator_ops.c -- ops on iterators: create one, set its dataset, get elements. */
#include "base/memory.h"
#include "ops/data/iterator_resource.h"
#include "ops/data/optional.h"
#include "ops/queue/named.h"

/* ---- Iterator, IteratorV2 ---- */

typedef struct named_state {
    mr_dataset_state base;
    mr_named named;
} named_state;

static mr_status *named_init(mr_make *m, void *state)
{
    named_state *s = state;
    MR_TRY(mr_dataset_init(m, &s->base));
    return mr_named_init(&s->named, m, &mr_iterator_resource_type);
}

static void named_deinit(void *state)
{
    named_state *s = state;
    if (s->named.device)
        mr_named_deinit(&s->named);
    mr_dataset_deinit(&s->base);
}

static mr_status *make_resource(void *ctx, mr_object **out)
{
    *out = &mr_iterator_resource_new(ctx)->base;
    return NULL;
}

/* Another node may have created an iterator with that name. */
static mr_status *open_named(named_state *s, mr_iterator_resource **out)
{
    MR_TRY(mr_named_open(&s->named, make_resource, &s->base, (mr_object **)out));
    mr_status *st = mr_iterator_resource_check(*out, s->base.n, s->base.types, s->base.shapes);
    if (st)
        mr_object_unref(&(*out)->base);
    return st;
}

static mr_status *make_named_iterator(mr_run *r)
{
    mr_iterator_resource *i;
    named_state *s = r->state;
    MR_TRY(open_named(s, &i));
    mr_object_unref(&i->base);
    mr_named_give(&s->named, r);
    return NULL;
}

#define R "r = RangeDataset output_types=[int64] output_shapes=[[]]: 3, 6, 1; "
#define IT "i = IteratorV2 shared_name=\"i\" container=\"\" output_types=[int64] output_shapes=[[]]; "
#define TYPES "output_types=[int64] output_shapes=[[]]"

#define NAMED_OP                                                                                   \
    .sig = "-> handle: resource",                                                                  \
    .attrs = "shared_name: string; container: string; " MR_DATASET_TYPES,                          \
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_shape_scalar,                               \
    .kernels = MR_KERNELS(MR_CPU_ANY(make_named_iterator)), .state_bytes = sizeof(named_state),    \
    .init = named_init, .deinit = named_deinit,                                                    \
    .examples = MR_EXAMPLES("shared_name=\"i\" container=\"\" " TYPES ": -> shape()",                \
                            "shared_name=\"\" container=\"\" output_types=[float, string] output_shapes=[[2,?], ?]: -> shape()", \
                            "shared_name=\"i\" container=\"\" output_types=[float, string] output_shapes=[[]]: -> "    \
                            "!INVALID_ARGUMENT differ in number")

MR_OP(Iterator, .doc = "an iterator that MakeIterator gives a dataset", NAMED_OP);
MR_OP(IteratorV2, .doc = "an iterator that MakeIterator gives a dataset", NAMED_OP);

static mr_status *make_iterator(mr_run *r)
{
    mr_dataset *d;
    mr_iterator_resource *i;
    MR_TRY(mr_dataset_of(mr_in(r, 0), &d));
    MR_TRY(mr_run_resource(r, 1, &mr_iterator_resource_type, (mr_object **)&i));
    mr_later *l = mr_later_new(r);
    mr_status *st = mr_iterator_resource_set(i, d, l, false);
    mr_later_unref(l);
    mr_object_unref(&i->base);
    return st;
}

MR_OP(MakeIterator,
    .doc     = "lets an iterator go over a dataset from its beginning",
    .sig     = "dataset: variant, iterator: resource ->",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_none,
    .kernels = MR_KERNELS(MR_CPU_ANY(make_iterator)),
    .examples = MR_EXAMPLES(R IT ": r, i ->",
                            R "i = IteratorV2 shared_name=\"f\" container=\"\" output_types=[float] output_shapes=[[]]; : r, i -> "
                              "!INVALID_ARGUMENT Data type mismatch at component 0: expected float but got int64."));

/* ---- OneShotIterator ---- */

typedef struct making { /* the call of dataset_factory */
    mr_run *r;
    mr_iterator_resource *i;
    mr_tensor *made;
} making;

static mr_status *take_made(making *m)
{
    mr_dataset *d;
    if (mr_status_code(mr_dataset_of(m->made, &d)) != MR_OK)
        return mr_invalid("The `dataset_factory` function must return a single scalar of dtype DT_VARIANT.");
    mr_later *l = mr_later_new(m->r);
    mr_status *st = mr_iterator_resource_set(m->i, d, l, true);
    mr_later_unref(l);
    return st;
}

static void end_making(void *ctx, mr_status *st)
{
    making m = *(making *)ctx;
    mr_free(ctx);
    if (!st)
        st = take_made(&m);
    mr_tensor_unref(m.made);
    mr_object_unref(&m.i->base);
    if (!st)
        mr_named_give(&((named_state *)m.r->state)->named, m.r);
    mr_run_done(m.r, st);
}

/* Two concurrent runs may both call the factory; the first dataset is kept. */
static void one_shot(mr_run *r)
{
    named_state *s = r->state;
    mr_caller *c = r->step->caller;
    mr_iterator_resource *i = NULL;
    mr_turn *t = NULL;
    mr_status *st = open_named(s, &i);
    if (!st && mr_status_code(st = mr_iterator_resource_turn(i, &t)) == MR_FAILED_PRECONDITION && c) {
        mr_status_free(st);
        making *m = mr_new(making);
        *m = (making){r, i, NULL};
        c->call(c, r, s->base.funcs[0], NULL, 0, &m->made, 1, end_making, m);
        return;
    }
    mr_turn_unref(t);
    if (i)
        mr_object_unref(&i->base);
    if (!st)
        mr_named_give(&s->named, r);
    mr_run_done(r, st);
}

MR_OP(OneShotIterator,
    .doc     = "an iterator over the dataset that a function returns",
    .sig     = "-> handle: resource",
    .attrs   = "dataset_factory: func; " MR_DATASET_TYPES "; container: string = ''; shared_name: string = ''",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(one_shot)),
    .state_bytes = sizeof(named_state), .init = named_init, .deinit = named_deinit);

/* ---- without names ---- */

static mr_status *make_anonymous_iterator(mr_run *r)
{
    mr_iterator_resource *i = mr_iterator_resource_new(r->state);
    mr_tensor *handle = NULL, *deleter = NULL;
    mr_status *st = mr_nameless_handle(r, &i->base, &handle);
    mr_object_unref(&i->base);
    MR_TRY(st);
    if (r->n_out == 2 && (st = mr_deleter_tensor(r, handle, &deleter))) {
        mr_tensor_unref(handle);
        return st;
    }
    mr_run_set(r, 0, handle);
    if (r->n_out == 2)
        mr_run_set(r, 1, deleter);
    return NULL;
}

static mr_status *make_counted_iterator(mr_run *r)
{
    mr_tensor *handle;
    MR_TRY(mr_anonymous_handle(r, &mr_iterator_resource_new(r->state)->base, &handle));
    mr_run_set(r, 0, handle);
    return NULL;
}

#define ANONYMOUS                                                                                     \
    .attrs = MR_DATASET_TYPES, .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_shape_scalar,       \
    .kernels = MR_KERNELS(MR_CPU_ANY(make_anonymous_iterator)), .state_bytes = sizeof(mr_dataset_state), \
    .init = mr_dataset_init, .deinit = mr_dataset_deinit

MR_OP(AnonymousIterator, .doc = "an iterator that only its handle leads to", .sig = "-> handle: resource", ANONYMOUS,
    .examples = MR_EXAMPLES(TYPES ": -> shape()"));
MR_OP(AnonymousIteratorV2, .doc = "an iterator, and what deletes it when it is dropped",
    .sig = "-> handle: resource, deleter: variant", ANONYMOUS, .examples = MR_EXAMPLES(TYPES ": -> shape(), shape()"));
MR_OP(AnonymousIteratorV3,
    .doc     = "an iterator that lives as long as its handle",
    .sig     = "-> handle: resource",
    .attrs   = MR_DATASET_TYPES,
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(make_counted_iterator)),
    .state_bytes = sizeof(mr_dataset_state), .init = mr_dataset_init, .deinit = mr_dataset_deinit,
    .examples = MR_EXAMPLES(TYPES ": -> shape()"));

MR_OP(DeleteIterator,
    .doc     = "deletes an iterator",
    .sig     = "handle: resource, deleter: variant ->",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_none,
    .kernels = MR_KERNELS(MR_CPU_ANY(mr_delete_handle)),
    .examples = MR_EXAMPLES("i = AnonymousIteratorV2 " TYPES "; : i, i:1 ->"));

/* ---- elements ---- */

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

static void ask_iterator(mr_run *r, mr_turn_give give)
{
    mr_iterator_resource *i = NULL;
    mr_turn *t = NULL;
    mr_status *st = mr_run_resource(r, 0, &mr_iterator_resource_type, (mr_object **)&i);
    if (!st)
        st = mr_iterator_resource_turn(i, &t);
    if (st)
        mr_run_done(r, st);
    else
        mr_turn_ask(t, 0, r, give, &i->base); /* the resource is kept until the answer */
    mr_turn_unref(t);
    if (i)
        mr_object_unref(&i->base);
}

static void get_next(mr_run *r) { ask_iterator(r, mr_give_element); }

#define GET_NEXT                                                                                            \
    .sig = "iterator: resource -> components: output_types", .attrs = MR_DATASET_TYPES,                     \
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = elements_shape, .kernels = MR_KERNELS(MR_CPU_ASYNC(get_next)), \
    .examples = MR_EXAMPLES(R IT "MakeIterator: r, i; " TYPES ": i -> 3",                                      \
                            R IT "MakeIterator: r, i; a = IteratorGetNext " TYPES ": i; " TYPES ": i -> 4",       \
                            "r = RangeDataset " TYPES ": 0, 0, 1; " IT "MakeIterator: r, i; " TYPES                \
                            ": i -> !OUT_OF_RANGE End of sequence",                                         \
                            R IT TYPES ": i -> !FAILED_PRECONDITION has not been initialized",                 \
                            R IT "MakeIterator: r, i; output_types=[float] output_shapes=[[]]: i -> "          \
                            "!INVALID_ARGUMENT Data type mismatch at component 0: expected float but got int64.")

MR_OP(IteratorGetNext, .doc = "the next element of an iterator", GET_NEXT);
MR_OP(IteratorGetNextSync, .doc = "the next element of an iterator", GET_NEXT);

static mr_status *give_optional(mr_run *r, const mr_dataset *d, mr_tensor *const *element)
{
    return mr_optional_give(r, element ? d->n : 0, element);
}

static void get_next_as_optional(mr_run *r) { ask_iterator(r, give_optional); }

MR_OP(IteratorGetNextAsOptional,
    .doc     = "the next element of an iterator, or none at its end",
    .sig     = "iterator: resource -> optional: variant",
    .attrs   = MR_DATASET_TYPES,
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(get_next_as_optional)),
    .examples = MR_EXAMPLES(R IT "MakeIterator: r, i; " TYPES ": i -> shape()"));

/* ---- handles as strings ---- */

static mr_status *to_string(mr_run *r) { return mr_handle_to_string(r, &mr_iterator_resource_type); }

MR_OP(IteratorToStringHandle,
    .doc     = "a string that leads to an iterator",
    .sig     = "resource_handle: resource -> string_handle: string",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(to_string)),
    .examples = MR_EXAMPLES(IT ": i -> shape()"));

static mr_status *from_string(mr_run *r)
{
    mr_iterator_resource *i;
    const mr_dataset_state *s = r->state;
    MR_TRY(mr_handle_from_string(r, &mr_iterator_resource_type, (mr_object **)&i));
    mr_status *st = mr_iterator_resource_check(i, s->n, s->types, s->shapes);
    mr_object_unref(&i->base);
    return st;
}

#define FROM_STRING                                                                                       \
    .sig = "string_handle: string -> resource_handle: resource",                                          \
    .attrs = "output_types: list(type) >= 0 = []; output_shapes: list(shape) >= 0 = []",                  \
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_shape_scalar,                                      \
    .kernels = MR_KERNELS(MR_CPU_ANY(from_string)), .state_bytes = sizeof(mr_dataset_state),              \
    .init = mr_dataset_init, .deinit = mr_dataset_deinit,                                                 \
    .examples = MR_EXAMPLES(IT "h = IteratorToStringHandle: i; : h -> shape()",                            \
                            "\"nonsense\" -> !INVALID_ARGUMENT ResourceHandle")

MR_OP(IteratorFromStringHandle, .doc = "the iterator a string leads to", FROM_STRING);
MR_OP(IteratorFromStringHandleV2, .doc = "the iterator a string leads to", FROM_STRING);

static mr_status *get_device(mr_run *r)
{
    mr_tensor *t;
    const mr_tensor *in = mr_in(r, 0);
    const mr_handle *h = in->n == 1 ? *MR_DATA(mr_handle *, in) : NULL;
    if (!h)
        return mr_invalid("Input 0 must be a handle");
    MR_TRY(mr_run_output(r, 0, 0, NULL, &t));
    return mr_tensor_set_str(t, 0, mr_sv_of(h->device));
}

MR_OP(IteratorGetDevice,
    .doc     = "the device an iterator lives on",
    .sig     = "resource: resource -> device: string",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(get_device)),
    .examples = MR_EXAMPLES(IT ": i -> \"/job:localhost/replica:0/task:0/device:CPU:0\""));
