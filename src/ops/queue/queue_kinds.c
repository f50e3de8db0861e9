/* ops/queue/queue_kinds.c -- the ops that create queues: FIFO, FIFO with padding, random, by priority.
 *
 * A kernel reads its attrs when it is created.  A run finds the queue or creates it, and checks that it
 * matches the attrs.  Each op has two forms that differ only in the handle. */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/queue/named.h"
#include "ops/queue/queue.h"

typedef struct state {
    mr_named named;
    mr_arena arena;
    mr_queue_spec spec;
} state;

/* ---- attrs ---- */

static mr_status *different_number(const mr_tuple_type *t)
{
    mr_str types = {0}, shapes = {0};
    mr_tuple_print_types(&types, t);
    mr_tuple_print_shapes(&shapes, t);
    mr_status *st = mr_invalid("Different number of component types.  Types: %s, Shapes: %s",
                               mr_str_z(&types), mr_str_z(&shapes));
    mr_str_deinit(&types);
    mr_str_deinit(&shapes);
    return st;
}

static mr_status *check_shapes(const mr_queue_kind *k, const mr_tuple_type *t)
{
    if (t->n == 0)
        return mr_invalid("Empty component types for a %s", k->name);
    if (k->pads && t->n_shapes != t->n)
        return mr_invalid("Shapes must be provided for all components, but received %d dtypes and "
                          "%d shapes.",
                          t->n, t->n_shapes);
    if (t->n_shapes != 0 && t->n_shapes != t->n)
        return different_number(t);
    for (int i = 0; i < t->n_shapes; i++) {
        if (k->pads && t->shapes[i]->rank < 0)
            return mr_invalid("shape %s must have known rank.", MR_PSHAPE_TEXT(t->shapes[i]));
        if (!k->pads && !mr_pshape_full(t->shapes[i]))
            return mr_invalid("shape %s of component %d is not fully defined, as a %s needs it",
                              MR_PSHAPE_TEXT(t->shapes[i]), i, k->name);
    }
    return NULL;
}

/* Adds component 0, the priority, which the attrs of a priority queue do not list. */
static mr_tuple_type with_priority(mr_arena *a, const mr_tuple_type *t)
{
    int *types = mr_arena_array(a, int, t->n + 1);
    const mr_pshape **shapes = mr_arena_array(a, const mr_pshape *, t->n_shapes + 1);
    types[0] = MR_INT64;
    shapes[0] = &mr_pshape_scalar;
    for (int i = 0; i < t->n; i++)
        types[i + 1] = t->types[i];
    for (int i = 0; i < t->n_shapes; i++)
        shapes[i + 1] = t->shapes[i];
    return (mr_tuple_type){t->n + 1, types, t->n_shapes ? t->n_shapes + 1 : 0, shapes};
}

static mr_status *read_tuple(mr_arena *a, const mr_node *n, const mr_queue_kind *k,
                             mr_tuple_type *out)
{
    const mr_attr *types, *shapes;
    MR_TRY(mr_node_get_list(n, "component_types", MR_ATTR_TYPE, &types));
    MR_TRY(mr_node_get_list(n, "shapes", MR_ATTR_SHAPE, &shapes));
    *out = (mr_tuple_type){types->n, types->types, shapes->n, shapes->shapes};
    if (k->by_priority)
        *out = with_priority(a, out);
    return NULL;
}

static mr_status *read_i32(const mr_node *n, const char *name, int64_t *out)
{
    MR_TRY(mr_node_get_int(n, name, out));
    return *out == (int32_t)*out
               ? NULL
               : mr_invalid("Attr %s has value %lld out of range for an int32", name,
                            (long long)*out);
}

static mr_status *read_random(mr_make *m, mr_queue_spec *s)
{
    mr_random_state random = {0};
    MR_TRY(read_i32(m->node, "min_after_dequeue", &s->min_after_dequeue));
    if (s->min_after_dequeue < 0)
        return mr_invalid("min_after_dequeue %lld must be >= 0", (long long)s->min_after_dequeue);
    if (s->min_after_dequeue >= s->capacity)
        return mr_invalid("min_after_dequeue %lld must be < capacity %lld",
                          (long long)s->min_after_dequeue, (long long)s->capacity);
    MR_TRY(mr_node_get_int(m->node, "seed", &s->seed));
    MR_TRY(mr_node_get_int(m->node, "seed2", &s->seed2));
    mr_status *st = mr_random_init(m, &random);
    if (!st)
        s->random = mr_random_reserve(&random, 0);
    mr_random_deinit(&random);
    return st;
}

static mr_status *init_queue(mr_make *m, state *s, const mr_queue_kind *k)
{
    mr_queue_spec *spec = &s->spec;
    mr_tuple_type tuple;
    mr_arena_init(&s->arena, 0);
    spec->kind = k;
    spec->op = m->node->def->op->name;
    MR_TRY(mr_named_init(&s->named, m, &mr_queue_type));
    spec->name = s->named.name;
    MR_TRY(read_i32(m->node, "capacity", &spec->capacity));
    if (spec->capacity < 0)
        spec->capacity = MR_QUEUE_UNBOUNDED;
    MR_TRY(read_tuple(&s->arena, m->node, k, &tuple));
    MR_TRY(check_shapes(k, &tuple));
    spec->tuple = mr_tuple_type_copy(&s->arena, &tuple); /* the node may be freed before the kernel */
    return k == &mr_queue_random ? read_random(m, spec) : NULL;
}

static mr_status *init_fifo(mr_make *m, void *s) { return init_queue(m, s, &mr_queue_fifo); }
static mr_status *init_padding(mr_make *m, void *s) { return init_queue(m, s, &mr_queue_padding); }
static mr_status *init_random(mr_make *m, void *s) { return init_queue(m, s, &mr_queue_random); }
static mr_status *init_priority(mr_make *m, void *s) { return init_queue(m, s, &mr_queue_priority); }

static void deinit_queue(void *p)
{
    state *s = p;
    mr_named_deinit(&s->named);
    mr_arena_deinit(&s->arena);
}

/* ---- find or create ---- */

static mr_status *make_queue(void *ctx, mr_object **out)
{
    *out = (mr_object *)mr_queue_new(ctx);
    return NULL;
}

static mr_status *open_queue(mr_run *r)
{
    state *s = r->state;
    mr_object *q;
    MR_TRY(mr_named_open(&s->named, make_queue, &s->spec, &q));
    mr_status *st = mr_queue_matches((mr_queue *)q, &s->spec);
    mr_object_unref(q);
    MR_TRY(st);
    mr_named_give(&s->named, r);
    return NULL;
}

/* ---- shapes ---- */

static mr_status *two_strings(mr_infer *c)
{
    mr_infer_out_vector(c, 0, 2);
    return NULL;
}

/* The handle carries the components' types and shapes to the Dequeue ops. */
static mr_status *handle_shape(mr_infer *c, const mr_queue_kind *k)
{
    mr_tuple_type t;
    MR_TRY(read_tuple(c->arena, c->node, k, &t));
    mr_infer_out_scalar(c, 0);
    if (t.n_shapes != t.n)
        return NULL;
    struct mr_handle_part *parts = mr_arena_array(c->arena, struct mr_handle_part, t.n);
    mr_handle_info *info = mr_arena_new(c->arena, mr_handle_info);
    for (int i = 0; i < t.n; i++)
        parts[i] = (struct mr_handle_part){(mr_dtype)t.types[i], t.shapes[i]};
    *info = (mr_handle_info){t.n, parts};
    c->out_handles[0] = info;
    return NULL;
}

static mr_status *plain_handle(mr_infer *c) { return handle_shape(c, &mr_queue_fifo); }
static mr_status *priority_handle(mr_infer *c) { return handle_shape(c, &mr_queue_priority); }

/* ---- the ops ---- */

#define QUEUE_ATTRS                                                         \
    "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; "     \
    "capacity: int = -1; container: string = ''; shared_name: string = ''"
#define RANDOM_ATTRS                                                        \
    "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; "     \
    "capacity: int = -1; min_after_dequeue: int = 0; seed: int = 0; "       \
    "seed2: int = 0; container: string = ''; shared_name: string = ''"
#define PRIORITY_ATTRS                                                      \
    "component_types: list(type) >= 0 = []; shapes: list(shape) >= 0; "     \
    "capacity: int = -1; container: string = ''; shared_name: string = ''"

#define QUEUE_OP(init_, shape_)                                             \
    .sig = "-> handle: resource", .flags = MR_STATEFUL | MR_NO_GRADIENT,    \
    .shape = shape_, .kernels = MR_KERNELS(MR_CPU_ANY(open_queue)),              \
    .state_bytes = sizeof(state), .init = init_, .deinit = deinit_queue
#define OLD_QUEUE_OP(init_)                                                 \
    .sig = "-> handle: Ref(string)", .flags = MR_STATEFUL | MR_NO_GRADIENT, \
    .shape = two_strings, .kernels = MR_KERNELS(MR_CPU_ANY(open_queue)),         \
    .state_bytes = sizeof(state), .init = init_, .deinit = deinit_queue

#define ONE "a = FIFOQueueV2 component_types=[float] shared_name=\"q\"; "

MR_OP(FIFOQueueV2,
    .doc      = "a queue that returns its elements in the order of arrival",
    .attrs    = QUEUE_ATTRS,
    QUEUE_OP(init_fifo, plain_handle),
    .examples = MR_EXAMPLES(
        "component_types=[float]: -> shape()",
        ONE "component_types=[float] shared_name=\"q\": -> shape()",
        ONE "component_types=[int32, string] shared_name=\"q\": -> !INVALID_ARGUMENT "
            "Shared queue 'q' has component types float but requested component types were "
            "int32, string",
        ONE "component_types=[float] shapes=[[2]] shared_name=\"q\": -> !INVALID_ARGUMENT "
            "Shared queue 'q' has component shapes [] but requested component shapes were [[2]]",
        ONE "component_types=[float] capacity=3 shared_name=\"q\": -> !INVALID_ARGUMENT "
            "Shared queue 'q' has capacity 2147483647 but requested capacity was 3",
        "a = RandomShuffleQueueV2 component_types=[float] shared_name=\"q\"; "
        "component_types=[float] shared_name=\"q\": -> !INVALID_ARGUMENT "
        "Expected RandomShuffleQueue, found FIFOQueueV2",
        "component_types=[float] capacity=2147483648: -> !INVALID_ARGUMENT "
        "Attr capacity has value 2147483648 out of range for an int32",
        "component_types=[float] shapes=[[?]]: -> !INVALID_ARGUMENT is not fully defined",
        "component_types=[float, int32] shapes=[[2]]: -> !INVALID_ARGUMENT "
        "Different number of component types.  Types: float, int32, Shapes: [[2]]"));

MR_OP(FIFOQueue,
    .doc      = "the older form of FIFOQueueV2",
    .attrs    = QUEUE_ATTRS,
    OLD_QUEUE_OP(init_fifo),
    .examples = MR_EXAMPLES(
        "component_types=[float] shared_name=\"q\": -> [\"localhost\", \"q\"]"));

MR_OP(PaddingFIFOQueueV2,
    .doc      = "a queue in order of arrival whose shapes may have unknown dimensions; batches are padded",
    .attrs    = QUEUE_ATTRS,
    QUEUE_OP(init_padding, plain_handle),
    .examples = MR_EXAMPLES(
        "component_types=[float] shapes=[[?,2]]: -> shape()",
        "a = PaddingFIFOQueueV2 component_types=[float] shapes=[[?]] shared_name=\"q\"; "
        "component_types=[float] shapes=[[2]] shared_name=\"q\": -> shape()",
        "a = PaddingFIFOQueueV2 component_types=[float] shapes=[[?]] shared_name=\"q\"; "
        "component_types=[float] shapes=[[2,?]] shared_name=\"q\": -> !INVALID_ARGUMENT Shared "
        "queue 'q' has component shapes [[?]] but requested component shapes were [[2,?]]",
        "component_types=[float] shapes=[?]: -> !INVALID_ARGUMENT must have known rank.",
        "component_types=[float]: -> !INVALID_ARGUMENT Shapes must be provided for all "
        "components, but received 1 dtypes and 0 shapes."));

MR_OP(PaddingFIFOQueue,
    .doc      = "the older form of PaddingFIFOQueueV2",
    .attrs    = QUEUE_ATTRS,
    OLD_QUEUE_OP(init_padding),
    .examples = MR_EXAMPLES("component_types=[float] shapes=[[?]] shared_name=\"q\": -> "
                            "[\"localhost\", \"q\"]"));

#define DRAWN "a = RandomShuffleQueueV2 component_types=[float] capacity=9 " \
              "min_after_dequeue=2 seed=5 seed2=6 shared_name=\"q\"; "

MR_OP(RandomShuffleQueueV2,
    .doc      = "a queue that returns its elements in random order",
    .attrs    = RANDOM_ATTRS,
    QUEUE_OP(init_random, plain_handle),
    .examples = MR_EXAMPLES(
        "component_types=[float]: -> shape()",
        DRAWN "component_types=[float] capacity=9 min_after_dequeue=2 shared_name=\"q\": -> "
              "shape()",
        DRAWN "component_types=[float] capacity=9 min_after_dequeue=3 shared_name=\"q\": -> "
              "!INVALID_ARGUMENT Shared queue 'q' has min_after_dequeue 2 but requested "
              "min_after_dequeue was 3.",
        DRAWN "component_types=[float] capacity=9 min_after_dequeue=2 seed=1 shared_name=\"q\": -> "
              "!INVALID_ARGUMENT Shared queue 'q' has random seeds (5, 6) but requested seeds are "
              "(1, 0).",
        "component_types=[float] min_after_dequeue=-1: -> !INVALID_ARGUMENT min_after_dequeue -1 "
        "must be >= 0",
        "component_types=[float] capacity=4 min_after_dequeue=4: -> !INVALID_ARGUMENT "
        "min_after_dequeue 4 must be < capacity 4"));

MR_OP(RandomShuffleQueue,
    .doc      = "the older form of RandomShuffleQueueV2",
    .attrs    = RANDOM_ATTRS,
    OLD_QUEUE_OP(init_random),
    .examples = MR_EXAMPLES(
        "component_types=[float] shared_name=\"q\": -> [\"localhost\", \"q\"]"));

MR_OP(PriorityQueueV2,
    .doc      = "a queue that returns the element with the smallest priority, its component 0",
    .attrs    = PRIORITY_ATTRS,
    QUEUE_OP(init_priority, priority_handle),
    .examples = MR_EXAMPLES(
        "component_types=[float] shapes=[[]]: -> shape()",
        "a = PriorityQueueV2 component_types=[float] shapes=[[]] shared_name=\"q\"; "
        "component_types=[] shapes=[] shared_name=\"q\": -> !INVALID_ARGUMENT Shared queue 'q' has "
        "component types int64, float but requested component types were int64"));

MR_OP(PriorityQueue,
    .doc      = "the older form of PriorityQueueV2",
    .attrs    = PRIORITY_ATTRS,
    OLD_QUEUE_OP(init_priority),
    .examples = MR_EXAMPLES("component_types=[float] shapes=[[]] shared_name=\"q\": -> "
                            "[\"localhost\", \"q\"]"));
