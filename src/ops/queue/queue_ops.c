/* ops/queue/queue_ops.c -- the ops on queues: making a FIFO queue, putting in, taking out, closing.
 *
 * Each op has two forms that differ only in the handle: a resource (V2), or a reference to two strings, container
 * and name (the older form). */
#include "graph/infer.h"
#include "ops/queue/queue.h"

/* ---- making ---- */

typedef struct state {
    mr_device *device;
    char *container, *name;
    bool is_private; /* goes with the kernel */
    mr_tensor *handle;      /* V2 */
    mr_variable *ref_handle; /* V1 */
    int64_t capacity;
} state;

static mr_status *read_spec(const mr_node *n, const state *s, mr_queue_spec *out)
{
    const mr_attr *types, *shapes;
    MR_TRY(mr_node_get_list(n, "component_types", MR_ATTR_TYPE, &types));
    MR_TRY(mr_node_get_list(n, "shapes", MR_ATTR_SHAPE, &shapes));
    if (shapes->n != 0 && shapes->n != types->n)
        return mr_invalid("a queue of %d components with %d shapes", types->n, shapes->n);
    *out = (mr_queue_spec){&mr_queue_fifo, s->name, types->n, types->types, shapes->n, shapes->shapes, s->capacity};
    return NULL;
}

static mr_status *make_handles(state *s, bool by_ref)
{
    if (by_ref) {
        s->ref_handle = mr_variable_new(true, MR_STRING, s->name);
        s->ref_handle->t = mr_tensor_vector_str(2, (const char *[]){s->container, s->name});
        return NULL;
    }
    return mr_handle_tensor(mr_handle_new(s->device->name, s->container, s->name, mr_queue_type.name, 0, NULL), &s->handle);
}

static mr_status *init(mr_make *m, void *p)
{
    state *s = p;
    mr_sv container, shared;
    s->device = m->device;
    MR_TRY(mr_node_get_str(m->node, "container", &container));
    MR_TRY(mr_node_get_str(m->node, "shared_name", &shared));
    MR_TRY(mr_resource_check_names(container, shared));
    MR_TRY(mr_node_get_int(m->node, "capacity", &s->capacity));
    s->container = container.n ? mr_strndup(container.p, container.n) : mr_strdup(mr_resources_default(m->device->resources));
    s->is_private = shared.n == 0;
    s->name = shared.n ? mr_strndup(shared.p, shared.n) : mr_resource_private_name(m->node->name);
    return make_handles(s, mr_dtype_is_ref(m->node->out_types[0]));
}

static void deinit(void *p)
{
    state *s = p;
    if (s->is_private && s->name)
        mr_status_free(mr_resources_remove(s->device->resources, mr_sv_of(s->container), mr_sv_of(s->name), &mr_queue_type));
    mr_tensor_unref(s->handle);
    mr_variable_unref(s->ref_handle);
    mr_free(s->container);
    mr_free(s->name);
}

static mr_status *make(void *ctx, mr_object **out)
{
    *out = (mr_object *)mr_queue_new(ctx);
    return NULL;
}

static mr_status *fifo_queue(mr_run *r)
{
    state *s = r->state;
    mr_queue_spec spec;
    mr_object *q;
    MR_TRY(read_spec(r->node, s, &spec));
    MR_TRY(mr_resources_find_or_make(r->step->device->resources, mr_sv_of(s->container), mr_sv_of(s->name), &mr_queue_type,
                                     make, &spec, &q));
    mr_status *st = mr_queue_matches((mr_queue *)q, &spec);
    mr_object_unref(q);
    MR_TRY(st);
    if (s->handle)
        mr_run_set(r, 0, mr_tensor_ref(s->handle));
    else
        mr_run_set_ref(r, 0, mr_variable_ref(s->ref_handle));
    return NULL;
}

static mr_status *two_strings(mr_infer *c)
{
    mr_infer_out_vector(c, 0, 2);
    return NULL;
}

/* The handle carries the components' types and shapes to the Dequeue ops. */
static mr_status *handle_shape(mr_infer *c)
{
    const mr_attr *types, *shapes;
    MR_TRY(mr_node_get_list(c->node, "component_types", MR_ATTR_TYPE, &types));
    MR_TRY(mr_node_get_list(c->node, "shapes", MR_ATTR_SHAPE, &shapes));
    mr_infer_out_scalar(c, 0);
    if (shapes->n != types->n)
        return NULL;
    struct mr_handle_part *parts = mr_arena_array(c->arena, struct mr_handle_part, types->n);
    mr_handle_info *info = mr_arena_new(c->arena, mr_handle_info);
    for (int i = 0; i < types->n; i++)
        parts[i] = (struct mr_handle_part){(mr_dtype)types->types[i], shapes->shapes[i]};
    *info = (mr_handle_info){types->n, parts};
    c->out_handles[0] = info;
    return NULL;
}

#define FIFO_ATTRS                                                                                      \
    "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; container: string = ''; " \
    "shared_name: string = ''"

MR_OP(FIFOQueueV2,
    .doc      = "a queue that gives out its elements in the order they came",
    .sig      = "-> handle: resource",
    .attrs    = FIFO_ATTRS,
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = handle_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(fifo_queue)),
    .state_bytes = sizeof(state), .init = init, .deinit = deinit,
    .examples = MR_EXAMPLES(
        "component_types=[float]: -> shape()",
        "a = FIFOQueueV2 component_types=[float] shared_name=\"q\"; "
        "component_types=[int32] shared_name=\"q\": -> !INVALID_ARGUMENT Shared queue 'q' has component types"));

MR_OP(FIFOQueue,
    .doc     = "the older form of FIFOQueueV2",
    .sig     = "-> handle: Ref(string)",
    .attrs   = FIFO_ATTRS,
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = two_strings,
    .kernels = MR_KERNELS(MR_CPU_ANY(fifo_queue)),
    .state_bytes = sizeof(state), .init = init, .deinit = deinit,
    .examples = MR_EXAMPLES("component_types=[float] shared_name=\"q\": -> [\"localhost\", \"q\"]"));

/* ---- finding the queue of a handle ---- */

static mr_status *find_queue(mr_run *r, mr_queue **out)
{
    if (!mr_dtype_is_ref(r->node->in_types[0]))
        return mr_run_resource(r, 0, &mr_queue_type, (mr_object **)out);
    mr_tensor *t;
    MR_TRY(mr_variable_read(mr_in_ref(r, 0), mr_run_allocator(r), &t));
    mr_status *st = !t || t->n != 2 ? mr_invalid("a queue's handle must be two strings")
                                    : mr_resources_lookup(r->step->device->resources, mr_tensor_str_at(t, 0),
                                                          mr_tensor_str_at(t, 1), &mr_queue_type, (mr_object **)out);
    mr_tensor_unref(t);
    return st;
}

static mr_status *check_timeout(const mr_run *r)
{
    int64_t ms;
    MR_TRY(mr_node_get_int(r->node, "timeout_ms", &ms));
    return ms == -1 ? NULL : mr_invalid("Timeout not supported yet: timeout_ms must be -1, got %lld", (long long)ms);
}

/* The queue of an asynchronous op; false when the run was ended with an error. */
static bool open_queue(mr_run *r, bool has_timeout, mr_queue **q)
{
    mr_status *st = has_timeout ? check_timeout(r) : NULL;
    if (!st)
        st = find_queue(r, q);
    if (st)
        mr_run_done(r, st);
    return !st;
}

static void close_queue(mr_queue *q) { mr_object_unref((mr_object *)q); }

/* ---- putting in ---- */

static void enqueue(mr_run *r)
{
    mr_queue *q;
    if (!open_queue(r, true, &q))
        return;
    mr_queue_enqueue(q, r, 1, false);
    close_queue(q);
}

static void enqueue_many(mr_run *r)
{
    mr_queue *q;
    if (!open_queue(r, true, &q))
        return;
    mr_queue_enqueue(q, r, 1, true);
    close_queue(q);
}

#define ENQUEUE_ATTRS "Tcomponents: list(type) >= 1; timeout_ms: int = -1"
#define QUEUE_STEP "q = FIFOQueueV2 component_types=[float] shapes=[[]] shared_name=\"q\"; "

MR_OP(QueueEnqueueV2,
    .doc = "puts one element into a queue, waiting for room",
    .sig = "handle: resource, components: Tcomponents ->", .attrs = ENQUEUE_ATTRS,
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_shape_none,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(enqueue)),
    .examples = MR_EXAMPLES(
        QUEUE_STEP "Tcomponents=[float]: q, (float 1) ->",
        QUEUE_STEP "Tcomponents=[float]: q, (float[1, 2]) -> !INVALID_ARGUMENT Shape mismatch in tuple component 0. Expected [], got [2]",
        QUEUE_STEP "QueueCloseV2: q; Tcomponents=[float]: q, (float 1) -> !CANCELLED FIFOQueue 'q' is closed."));
MR_OP(QueueEnqueue,
    .doc = "the older form of QueueEnqueueV2",
    .sig = "handle: Ref(string), components: Tcomponents ->", .attrs = ENQUEUE_ATTRS,
    .flags = MR_NO_FOLD | MR_NO_GRADIENT, .shape = mr_shape_none, .kernels = MR_KERNELS(MR_CPU_ASYNC(enqueue)),
    .examples = MR_EXAMPLES("Tcomponents=[float]: [\"localhost\", \"none\"], (float 1) -> !NOT_FOUND does not exist"));
MR_OP(QueueEnqueueManyV2,
    .doc = "puts the rows of its components into a queue, one after another",
    .sig = "handle: resource, components: Tcomponents ->", .attrs = ENQUEUE_ATTRS,
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_shape_none,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(enqueue_many)),
    .examples = MR_EXAMPLES(QUEUE_STEP "Tcomponents=[float]: q, (float[1, 2]) ->"));
MR_OP(QueueEnqueueMany,
    .doc = "the older form of QueueEnqueueManyV2",
    .sig = "handle: Ref(string), components: Tcomponents ->", .attrs = ENQUEUE_ATTRS,
    .flags = MR_NO_FOLD | MR_NO_GRADIENT, .shape = mr_shape_none, .kernels = MR_KERNELS(MR_CPU_ASYNC(enqueue_many)),
    .examples = MR_EXAMPLES("Tcomponents=[float]: [\"localhost\", \"none\"], (float[1]) -> !NOT_FOUND does not exist"));

/* ---- taking out ---- */

static void dequeue(mr_run *r)
{
    mr_queue *q;
    if (!open_queue(r, true, &q))
        return;
    mr_queue_dequeue(q, r);
    close_queue(q);
}

static void dequeue_n(mr_run *r, bool up_to)
{
    mr_queue *q;
    int64_t n;
    if (!open_queue(r, true, &q))
        return;
    mr_status *st = mr_in_scalar_int(r, 1, "n", &n);
    if (st)
        mr_run_done(r, st);
    else
        mr_queue_dequeue_many(q, r, n, up_to);
    close_queue(q);
}

static void dequeue_many(mr_run *r) { dequeue_n(r, false); }
static void dequeue_up_to(mr_run *r) { dequeue_n(r, true); }

static const mr_handle_info *handle_info(const mr_infer *c)
{
    const mr_handle_info *h = c->in_handles ? c->in_handles[0] : NULL;
    return h && h->n == c->n_out ? h : NULL;
}

static mr_status *dequeue_shape(mr_infer *c)
{
    const mr_handle_info *h = handle_info(c);
    for (int i = 0; h && i < c->n_out; i++)
        c->out[i] = h->parts[i].shape;
    return NULL;
}

static mr_status *batch_shape(mr_infer *c, int64_t n)
{
    const mr_handle_info *h = handle_info(c);
    for (int i = 0; h && i < c->n_out; i++) {
        if (h->parts[i].shape->rank < 0)
            continue;
        mr_pshape *s = mr_pshape_new(c->arena, h->parts[i].shape->rank + 1);
        s->dims[0] = n;
        for (int k = 0; k < h->parts[i].shape->rank; k++)
            s->dims[k + 1] = h->parts[i].shape->dims[k];
        c->out[i] = s;
    }
    return NULL;
}

static mr_status *many_shape(mr_infer *c)
{
    int64_t n;
    return batch_shape(c, mr_infer_int(c, 1, &n) && n >= 0 ? n : -1);
}

static mr_status *up_to_shape(mr_infer *c) { return batch_shape(c, -1); }

#define DEQUEUE_ATTRS "component_types: list(type) >= 1; timeout_ms: int = -1"
#define FILLED QUEUE_STEP "QueueEnqueueManyV2 Tcomponents=[float]: q, (float[1, 2, 3]); "

MR_OP(QueueDequeueV2,
    .doc = "takes one element out of a queue, waiting for it",
    .sig = "handle: resource -> components: component_types", .attrs = DEQUEUE_ATTRS,
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = dequeue_shape,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(dequeue)),
    .examples = MR_EXAMPLES(
        FILLED "component_types=[float]: q -> float 1",
        QUEUE_STEP "QueueCloseV2: q; component_types=[float]: q -> "
                   "!OUT_OF_RANGE FIFOQueue 'q' is closed and has insufficient elements (requested 1, current size 0)"));
MR_OP(QueueDequeue,
    .doc = "the older form of QueueDequeueV2",
    .sig = "handle: Ref(string) -> components: component_types", .attrs = DEQUEUE_ATTRS,
    .flags = MR_NO_FOLD | MR_NO_GRADIENT, .shape = mr_shape_unknown, .kernels = MR_KERNELS(MR_CPU_ASYNC(dequeue)),
    .examples = MR_EXAMPLES("component_types=[float]: [\"localhost\", \"none\"] -> !NOT_FOUND does not exist"));
MR_OP(QueueDequeueManyV2,
    .doc = "takes n elements out of a queue, stacked; waits until there are n",
    .sig = "handle: resource, n: int32 -> components: component_types", .attrs = DEQUEUE_ATTRS,
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = many_shape,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(dequeue_many)),
    .examples = MR_EXAMPLES(
        FILLED "component_types=[float]: q, 2 -> float[1, 2]",
        FILLED "component_types=[float]: q, 0 -> shape(0)",
        FILLED "component_types=[float]: q, -1 -> !INVALID_ARGUMENT -1 < 0",
        FILLED "QueueCloseV2: q; component_types=[float]: q, 4 -> !OUT_OF_RANGE (requested 4, current size 3)"));
MR_OP(QueueDequeueMany,
    .doc = "the older form of QueueDequeueManyV2",
    .sig = "handle: Ref(string), n: int32 -> components: component_types", .attrs = DEQUEUE_ATTRS,
    .flags = MR_NO_FOLD | MR_NO_GRADIENT, .shape = mr_shape_unknown, .kernels = MR_KERNELS(MR_CPU_ASYNC(dequeue_many)),
    .examples = MR_EXAMPLES("component_types=[float]: [\"localhost\", \"none\"], 1 -> !NOT_FOUND does not exist"));
MR_OP(QueueDequeueUpToV2,
    .doc = "like QueueDequeueManyV2, but what is left of a closed queue is enough",
    .sig = "handle: resource, n: int32 -> components: component_types", .attrs = DEQUEUE_ATTRS,
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = up_to_shape,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(dequeue_up_to)),
    .examples = MR_EXAMPLES(FILLED "QueueCloseV2: q; component_types=[float]: q, 4 -> float[1, 2, 3]"));
MR_OP(QueueDequeueUpTo,
    .doc = "the older form of QueueDequeueUpToV2",
    .sig = "handle: Ref(string), n: int32 -> components: component_types", .attrs = DEQUEUE_ATTRS,
    .flags = MR_NO_FOLD | MR_NO_GRADIENT, .shape = mr_shape_unknown, .kernels = MR_KERNELS(MR_CPU_ASYNC(dequeue_up_to)),
    .examples = MR_EXAMPLES("component_types=[float]: [\"localhost\", \"none\"], 1 -> !NOT_FOUND does not exist"));

/* ---- closing and looking ---- */

static void close_op(mr_run *r)
{
    mr_queue *q;
    bool cancel;
    mr_status *st = mr_node_get_bool(r->node, "cancel_pending_enqueues", &cancel);
    if (st) {
        mr_run_done(r, st);
        return;
    }
    if (!open_queue(r, false, &q))
        return;
    mr_queue_close(q, r, cancel);
    close_queue(q);
}

static mr_status *size(mr_run *r)
{
    mr_queue *q;
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    MR_TRY(find_queue(r, &q));
    *MR_DATA(int32_t, out) = (int32_t)MR_MIN(mr_queue_size(q), INT32_MAX);
    close_queue(q);
    return NULL;
}

static mr_status *is_closed(mr_run *r)
{
    mr_queue *q;
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    MR_TRY(find_queue(r, &q));
    *MR_DATA(bool, out) = mr_queue_is_closed(q);
    close_queue(q);
    return NULL;
}

MR_OP(QueueCloseV2,
    .doc = "no more elements may be put in; those that wait to be put in still are, unless cancelled",
    .sig = "handle: resource ->", .attrs = "cancel_pending_enqueues: bool = false",
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_shape_none,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(close_op)),
    .examples = MR_EXAMPLES(QUEUE_STEP ": q ->",
                            QUEUE_STEP "QueueCloseV2: q; : q -> !CANCELLED Queue 'q' is already closed.",
                            QUEUE_STEP "QueueCloseV2: q; cancel_pending_enqueues=true: q ->"));
MR_OP(QueueClose,
    .doc = "the older form of QueueCloseV2",
    .sig = "handle: Ref(string) ->", .attrs = "cancel_pending_enqueues: bool = false",
    .flags = MR_NO_FOLD | MR_NO_GRADIENT, .shape = mr_shape_none, .kernels = MR_KERNELS(MR_CPU_ASYNC(close_op)),
    .examples = MR_EXAMPLES("[\"localhost\", \"none\"] -> !NOT_FOUND does not exist"));
MR_OP(QueueSizeV2,
    .doc = "how many elements a queue holds",
    .sig = "handle: resource -> size: int32", .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(size)), .examples = MR_EXAMPLES(FILLED ": q -> 3"));
MR_OP(QueueSize,
    .doc = "the older form of QueueSizeV2",
    .sig = "handle: Ref(string) -> size: int32", .flags = MR_NO_FOLD | MR_NO_GRADIENT, .shape = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(size)),
    .examples = MR_EXAMPLES("[\"localhost\", \"none\"] -> !NOT_FOUND does not exist"));
MR_OP(QueueIsClosedV2,
    .doc = "has the queue been closed?",
    .sig = "handle: resource -> is_closed: bool", .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(is_closed)),
    .examples = MR_EXAMPLES(QUEUE_STEP ": q -> false", QUEUE_STEP "QueueCloseV2: q; : q -> true"));
MR_OP(QueueIsClosed,
    .doc = "the older form of QueueIsClosedV2",
    .sig = "handle: Ref(string) -> is_closed: bool", .flags = MR_NO_FOLD | MR_NO_GRADIENT, .shape = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(is_closed)),
    .examples = MR_EXAMPLES("[\"localhost\", \"none\"] -> !NOT_FOUND does not exist"));
