/* ops/queue/queue_ops.c -- the ops on queues: enqueue, dequeue, close, size and state.
 *
 * Each op has two forms that differ only in the handle (named.h); each kernel serves both, for all
 * kinds of queues. */
#include "graph/infer.h"
#include "ops/queue/named.h"
#include "ops/queue/queue.h"

/* ---- shared by the kernels ---- */

static mr_status *check_timeout(mr_make *m, void *p)
{
    int64_t ms;
    (void)p;
    MR_TRY(mr_node_get_int(m->node, "timeout_ms", &ms));
    return ms == -1 ? NULL : mr_invalid("Timeout not supported yet.");
}

static mr_status *find_queue(mr_run *r, mr_queue **out)
{
    return mr_named_find(r, &mr_queue_type, (mr_object **)out);
}

/* The queue of an asynchronous op, owned by the caller; NULL if this ended the run with an error. */
static mr_queue *open_queue(mr_run *r)
{
    mr_queue *q = NULL;
    mr_status *st = find_queue(r, &q);
    if (st)
        mr_run_done(r, st);
    return st ? NULL : q;
}

/* ---- enqueue ---- */

static void enqueue_some(mr_run *r, bool many)
{
    mr_queue *q = open_queue(r);
    if (q)
        mr_queue_enqueue(q, r, many);
}

static void enqueue_one(mr_run *r) { enqueue_some(r, false); }
static void enqueue_many(mr_run *r) { enqueue_some(r, true); }

#define NEW_FORM .flags = MR_STATEFUL | MR_NO_GRADIENT
#define OLD_FORM .flags = MR_NO_FOLD | MR_NO_GRADIENT

#define ENQUEUE(handle, kernel)                                          \
    .sig = "handle: " handle ", components: Tcomponents ->",              \
    .attrs = "Tcomponents: list(type) >= 1; timeout_ms: int = -1",        \
    .shape = mr_shape_none, .init = check_timeout,                        \
    .kernels = MR_KERNELS(MR_CPU_ASYNC(kernel))

#define FIFO "q = FIFOQueueV2 component_types=[float] shapes=[[]] shared_name=\"q\"; "
#define OLD_FIFO "q = FIFOQueue component_types=[float] shapes=[[]] shared_name=\"q\"; "
#define PADDING "q = PaddingFIFOQueueV2 component_types=[float] shapes=[[?]] shared_name=\"q\"; "
#define RANDOM(attrs) \
    "q = RandomShuffleQueueV2 component_types=[int32] shapes=[[]] shared_name=\"q\" " attrs "; "
#define PRIORITY "q = PriorityQueueV2 component_types=[string] shapes=[[]] shared_name=\"q\"; "
#define NONE "[\"localhost\", \"none\"]"

MR_OP(QueueEnqueueV2,
    .doc      = "puts one element into a queue, waiting for room",
    ENQUEUE("resource", enqueue_one), NEW_FORM,
    .examples = MR_EXAMPLES(
        FIFO "Tcomponents=[float]: q, (float 1) ->",
        FIFO "Tcomponents=[float]: q, (float[1, 2]) -> !INVALID_ARGUMENT "
             "Shape mismatch in tuple component 0. Expected [], got [2]",
        FIFO "Tcomponents=[int32]: q, (int32 1) -> !INVALID_ARGUMENT "
             "Signature mismatch, have: resource, int32-> expected: resource, float->",
        FIFO "Tcomponents=[float, float]: q, (float 1, float 1) -> !INVALID_ARGUMENT "
             "Signature mismatch, have: resource, float, float-> expected: resource, float->",
        FIFO "QueueCloseV2: q; Tcomponents=[float]: q, (float 1) -> "
             "!CANCELLED FIFOQueue 'q' is closed.",
        FIFO "timeout_ms=5 Tcomponents=[float]: q, (float 1) -> !INVALID_ARGUMENT "
             "Timeout not supported yet.",
        PADDING "Tcomponents=[float]: q, (float[1, 2]) ->",
        PADDING "Tcomponents=[float]: q, (float 1) -> !INVALID_ARGUMENT "
                "Shape mismatch in tuple component 0. Expected [?], got []",
        PADDING "QueueCloseV2: q; Tcomponents=[float]: q, (float[1]) -> "
                "!CANCELLED PaddingFIFOQueue 'q' is closed.",
        RANDOM("") "QueueCloseV2: q; Tcomponents=[int32]: q, (int32 1) -> "
                   "!CANCELLED RandomShuffleQueue 'q' is closed.",
        "q = PriorityQueueV2 component_types=[] shapes=[] shared_name=\"q\"; "
        "Tcomponents=[int64]: q, (int64[1, 2]) -> !INVALID_ARGUMENT "
        "Expected the priority element to be a scalar, but received shape: [2]"));
MR_OP(QueueEnqueue,
    .doc      = "the older form of QueueEnqueueV2",
    ENQUEUE("Ref(string)", enqueue_one), OLD_FORM,
    .examples = MR_EXAMPLES(
        OLD_FIFO "Tcomponents=[float]: q, (float 1) ->",
        "Tcomponents=[float]: " NONE ", (float 1) -> !NOT_FOUND does not exist",
        "Tcomponents=[float]: [\"q\"], (float 1) -> !INVALID_ARGUMENT "
        "Resource handle must have 2 elements, but had shape: [1]"));
MR_OP(QueueEnqueueManyV2,
    .doc      = "puts the rows of its components into a queue, one after another",
    ENQUEUE("resource", enqueue_many), NEW_FORM,
    .examples = MR_EXAMPLES(
        FIFO "Tcomponents=[float]: q, (float[1, 2]) ->",
        FIFO "Tcomponents=[float]: q, (float shape(0)) ->",
        FIFO "Tcomponents=[float]: q, (float[[1, 2]]) -> !INVALID_ARGUMENT "
             "Shape mismatch in tuple component 0. Expected [1], got [1,2]",
        FIFO "Tcomponents=[float]: q, (float 1) -> !INVALID_ARGUMENT must have at least one "
             "dimension",
        PADDING "Tcomponents=[float]: q, (float[1, 2]) -> !INVALID_ARGUMENT "
                "Shape mismatch in tuple component 0. Expected [2,?], got [2]",
        "q = FIFOQueueV2 component_types=[float, float] shared_name=\"q\"; "
        "Tcomponents=[float, float]: q, (float[1, 2], float[1]) -> !INVALID_ARGUMENT "
        "All input tensors must have the same size in the 0th dimension. Component 1 has 1, and "
        "should have 2"));
MR_OP(QueueEnqueueMany,
    .doc      = "the older form of QueueEnqueueManyV2",
    ENQUEUE("Ref(string)", enqueue_many), OLD_FORM,
    .examples = MR_EXAMPLES(
        OLD_FIFO "Tcomponents=[float]: q, (float[1, 2]) ->",
        "Tcomponents=[float]: " NONE ", (float[1]) -> !NOT_FOUND does not exist"));

/* ---- dequeue ---- */

static void dequeue_one(mr_run *r)
{
    mr_queue *q = open_queue(r);
    if (q)
        mr_queue_dequeue(q, r);
}

static void dequeue_some(mr_run *r, bool up_to)
{
    int64_t n = 0;
    mr_status *st = mr_in_scalar_int(r, 1, "n", &n);
    if (st) {
        mr_run_done(r, st);
        return;
    }
    mr_queue *q = open_queue(r);
    if (q)
        mr_queue_dequeue_many(q, r, n, up_to);
}

static void dequeue_many(mr_run *r) { dequeue_some(r, false); }
static void dequeue_up_to(mr_run *r) { dequeue_some(r, true); }

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
    const mr_pshape *batch = mr_pshape_vector(c->arena, n);
    for (int i = 0; h && i < c->n_out; i++)
        c->out[i] = mr_infer_concat(c, batch, h->parts[i].shape);
    return NULL;
}

static mr_status *many_shape(mr_infer *c)
{
    int64_t n;
    return batch_shape(c, mr_infer_int(c, 1, &n) && n >= 0 ? n : -1);
}

static mr_status *up_to_shape(mr_infer *c) { return batch_shape(c, -1); }

#define DEQUEUE(handle, inputs, shape_, kernel)                           \
    .sig = "handle: " handle inputs " -> components: component_types",    \
    .attrs = "component_types: list(type) >= 1; timeout_ms: int = -1",    \
    .shape = shape_, .init = check_timeout,                               \
    .kernels = MR_KERNELS(MR_CPU_ASYNC(kernel))

#define PUT(what) "QueueEnqueueManyV2 Tcomponents=[float]: q, (float" what "); "
#define FILLED FIFO PUT("[1, 2, 3]")
#define OLD_FILLED OLD_FIFO "QueueEnqueueMany Tcomponents=[float]: q, (float[1, 2, 3]); "
#define PADDED PADDING "QueueEnqueueV2 Tcomponents=[float]: q, (float[1]); " \
                       "QueueEnqueueV2 Tcomponents=[float]: q, (float[2, 3]); "
#define NUMBERS "QueueEnqueueManyV2 Tcomponents=[int32]: q, (int32[0, 1, 2, 3, 4, 5, 6, 7]); "
#define JOBS                                                              \
    PRIORITY "QueueEnqueueManyV2 Tcomponents=[int64, string]: q, "         \
             "(int64[5, -1, 3], [\"e\", \"a\", \"c\"]); "

MR_OP(QueueDequeueV2,
    .doc      = "takes one element out of a queue, waiting for it",
    DEQUEUE("resource", "", dequeue_shape, dequeue_one), NEW_FORM,
    .examples = MR_EXAMPLES(
        FILLED "component_types=[float]: q -> float 1",
        FILLED "component_types=[int32]: q -> !INVALID_ARGUMENT "
               "Signature mismatch, have: resource->int32 expected: resource->float",
        FIFO "QueueCloseV2: q; component_types=[float]: q -> !OUT_OF_RANGE FIFOQueue 'q' is closed "
             "and has insufficient elements (requested 1, current size 0)",
        PADDED "component_types=[float]: q -> float[1]",
        PADDING "QueueCloseV2: q; component_types=[float]: q -> !OUT_OF_RANGE PaddingFIFOQueue 'q' "
                "is closed and has insufficient elements (requested 1, current size 0)",
        RANDOM("") "QueueCloseV2: q; component_types=[int32]: q -> !OUT_OF_RANGE "
                   "RandomShuffleQueue 'q' is closed and has insufficient elements (requested 1, "
                   "current size 0)",
        JOBS "component_types=[int64, string]: q -> -1, \"a\"",
        PRIORITY "QueueCloseV2: q; component_types=[int64, string]: q -> !OUT_OF_RANGE "
                 "PriorityQueue 'q' is closed and has insufficient elements (requested 1, current "
                 "size 0)"));
MR_OP(QueueDequeue,
    .doc      = "the older form of QueueDequeueV2",
    DEQUEUE("Ref(string)", "", mr_shape_unknown, dequeue_one), OLD_FORM,
    .examples = MR_EXAMPLES(
        OLD_FILLED "component_types=[float]: q -> float 1",
        "component_types=[float]: " NONE " -> !NOT_FOUND does not exist"));
MR_OP(QueueDequeueManyV2,
    .doc      = "takes n elements out of a queue, stacked; waits until there are n",
    DEQUEUE("resource", ", n: int32", many_shape, dequeue_many), NEW_FORM,
    .examples = MR_EXAMPLES(
        FILLED "component_types=[float]: q, 2 -> float[1, 2]",
        FILLED "component_types=[float]: q, 0 -> shape(0)",
        FILLED "component_types=[float]: q, -1 -> !INVALID_ARGUMENT "
               "DequeueManyOp requested -1 < 0 elements",
        FILLED "QueueCloseV2: q; component_types=[float]: q, 4 -> !OUT_OF_RANGE FIFOQueue 'q' is "
               "closed and has insufficient elements (requested 4, current size 3)",
        "q = FIFOQueueV2 component_types=[float] shared_name=\"q\"; "
        "component_types=[float]: q, 1 -> !INVALID_ARGUMENT FIFOQueue's DequeueMany and "
        "DequeueUpTo require the components to have specified shapes.",
        PADDED "component_types=[float]: q, 2 -> float[[1, 0], [2, 3]]",
        PADDED "component_types=[float]: q, 0 -> shape(0,0)",
        "q = PaddingFIFOQueueV2 component_types=[string] shapes=[[?,?]] shared_name=\"q\"; "
        "QueueEnqueueV2 Tcomponents=[string]: q, ([[\"a\", \"b\"]]); "
        "QueueEnqueueV2 Tcomponents=[string]: q, ([[\"c\"], [\"d\"]]); "
        "component_types=[string]: q, 2 -> [[[\"a\", \"b\"], [\"\", \"\"]], "
        "[[\"c\", \"\"], [\"d\", \"\"]]]",
        "q = PaddingFIFOQueueV2 component_types=[int32] shapes=[[?,2,?]] shared_name=\"q\"; "
        "QueueEnqueueV2 Tcomponents=[int32]: q, (int32[[[1, 2], [3, 4]]]); "
        "QueueEnqueueV2 Tcomponents=[int32]: q, (int32[[[5], [6]], [[7], [8]]]); "
        "QueueEnqueueV2 Tcomponents=[int32]: q, (int32 shape(0,2,1)); "
        "component_types=[int32]: q, 3 -> [[[[1, 2], [3, 4]], [[0, 0], [0, 0]]], "
        "[[[5, 0], [6, 0]], [[7, 0], [8, 0]]], [[[0, 0], [0, 0]], [[0, 0], [0, 0]]]]",
        PADDED "QueueCloseV2: q; component_types=[float]: q, 3 -> !OUT_OF_RANGE PaddingFIFOQueue "
               "'q' is closed and has insufficient elements (requested 3, current size 2)",
        RANDOM("seed=1 seed2=2") NUMBERS "component_types=[int32]: q, 8 -> "
                                 "[7, 3, 0, 4, 6, 1, 2, 5]",
        JOBS "component_types=[int64, string]: q, 3 -> [-1, 3, 5], [\"a\", \"c\", \"e\"]",
        "q = PriorityQueueV2 component_types=[] shapes=[] shared_name=\"q\"; "
        "component_types=[int64]: q, 1 -> !INVALID_ARGUMENT PriorityQueue's DequeueMany requires "
        "the components to have specified shapes."));
MR_OP(QueueDequeueMany,
    .doc      = "the older form of QueueDequeueManyV2",
    DEQUEUE("Ref(string)", ", n: int32", mr_shape_unknown, dequeue_many), OLD_FORM,
    .examples = MR_EXAMPLES(
        OLD_FILLED "component_types=[float]: q, 2 -> float[1, 2]",
        "component_types=[float]: " NONE ", 1 -> !NOT_FOUND does not exist"));
MR_OP(QueueDequeueUpToV2,
    .doc      = "like QueueDequeueManyV2, but returns fewer elements if the queue is closed",
    DEQUEUE("resource", ", n: int32", up_to_shape, dequeue_up_to), NEW_FORM,
    .examples = MR_EXAMPLES(
        FILLED "QueueCloseV2: q; component_types=[float]: q, 4 -> float[1, 2, 3]",
        FILLED "component_types=[float]: q, -1 -> !INVALID_ARGUMENT "
               "DequeueUpToOp requested -1 < 0 elements",
        FIFO "QueueCloseV2: q; component_types=[float]: q, 4 -> !OUT_OF_RANGE FIFOQueue 'q' is "
             "closed and has insufficient elements (requested 4, current size 0)",
        PADDED "QueueCloseV2: q; component_types=[float]: q, 4 -> float[[1, 0], [2, 3]]",
        JOBS "QueueCloseV2: q; component_types=[int64, string]: q, 4 -> "
             "[-1, 3, 5], [\"a\", \"c\", \"e\"]"));
MR_OP(QueueDequeueUpTo,
    .doc      = "the older form of QueueDequeueUpToV2",
    DEQUEUE("Ref(string)", ", n: int32", mr_shape_unknown, dequeue_up_to), OLD_FORM,
    .examples = MR_EXAMPLES(
        OLD_FILLED "component_types=[float]: q, 2 -> float[1, 2]",
        "component_types=[float]: " NONE ", 1 -> !NOT_FOUND does not exist"));

/* ---- close ---- */

static mr_status *close_init(mr_make *m, void *cancel_pending)
{
    return mr_node_get_bool(m->node, "cancel_pending_enqueues", cancel_pending);
}

static void close_queue(mr_run *r)
{
    mr_queue *q = open_queue(r);
    if (q)
        mr_queue_close(q, r, *(const bool *)r->state);
}

#define CLOSE(handle)                                                          \
    .sig = "handle: " handle " ->",                                             \
    .attrs = "cancel_pending_enqueues: bool = false", .shape = mr_shape_none,   \
    .state_bytes = sizeof(bool), .init = close_init,                            \
    .kernels = MR_KERNELS(MR_CPU_ASYNC(close_queue))

MR_OP(QueueCloseV2,
    .doc      = "refuses new elements; pending enqueues still complete, unless they are cancelled",
    CLOSE("resource"), NEW_FORM,
    .examples = MR_EXAMPLES(
        FIFO ": q ->",
        FIFO "QueueCloseV2: q; : q -> !CANCELLED Queue 'q' is already closed.",
        FIFO "QueueCloseV2: q; cancel_pending_enqueues=true: q ->"));
MR_OP(QueueClose,
    .doc      = "the older form of QueueCloseV2",
    CLOSE("Ref(string)"), OLD_FORM,
    .examples = MR_EXAMPLES(OLD_FIFO ": q ->", NONE " -> !NOT_FOUND does not exist"));

/* ---- size and state ---- */

static mr_status *queue_size(mr_run *r)
{
    mr_queue *q;
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    MR_TRY(find_queue(r, &q));
    *MR_DATA(int32_t, out) = (int32_t)mr_queue_size(q); /* at most MR_QUEUE_UNBOUNDED */
    mr_object_unref((mr_object *)q);
    return NULL;
}

static mr_status *is_closed(mr_run *r)
{
    mr_queue *q;
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    MR_TRY(find_queue(r, &q));
    *MR_DATA(bool, out) = mr_queue_is_closed(q);
    mr_object_unref((mr_object *)q);
    return NULL;
}

#define LOOK(handle, result, kernel)                         \
    .sig = "handle: " handle " -> " result,                  \
    .shape = mr_shape_scalar, .kernels = MR_KERNELS(MR_CPU_ANY(kernel))

MR_OP(QueueSizeV2,
    .doc      = "how many elements a queue holds",
    LOOK("resource", "size: int32", queue_size), NEW_FORM,
    .examples = MR_EXAMPLES(FILLED ": q -> 3"));
MR_OP(QueueSize,
    .doc      = "the older form of QueueSizeV2",
    LOOK("Ref(string)", "size: int32", queue_size), OLD_FORM,
    .examples = MR_EXAMPLES(OLD_FILLED ": q -> 3", NONE " -> !NOT_FOUND does not exist"));
MR_OP(QueueIsClosedV2,
    .doc      = "whether the queue has been closed",
    LOOK("resource", "is_closed: bool", is_closed), NEW_FORM,
    .examples = MR_EXAMPLES(FIFO ": q -> false", FIFO "QueueCloseV2: q; : q -> true"));
MR_OP(QueueIsClosed,
    .doc      = "the older form of QueueIsClosedV2",
    LOOK("Ref(string)", "is_closed: bool", is_closed), OLD_FORM,
    .examples = MR_EXAMPLES(OLD_FIFO ": q -> false", NONE " -> !NOT_FOUND does not exist"));
