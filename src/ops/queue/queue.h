/* ops/queue/queue.h -- queues of tuples of tensors: their state, and the operations that wait on it.
 *
 * Operations that cannot complete at once wait as attempts in two lines, one for putters and one for
 * takers; only the first of each line may make progress (a large DequeueMany holds back later small
 * ones).  Kinds of queues differ in which element they take next and in the shapes they accept;
 * everything else is the same. */
#ifndef MR_OPS_QUEUE_QUEUE_H
#define MR_OPS_QUEUE_QUEUE_H

#include "ops/queue/elements.h"
#include "ops/queue/tuple.h"

typedef struct mr_queue mr_queue;

typedef struct mr_queue_kind {
    const char *name;     /* in error texts: "FIFOQueue" */
    const char *needs;    /* the ops that need shapes: "DequeueMany and DequeueUpTo require" */
    void (*put)(mr_elements *e);
    void (*take)(mr_elements *e, mr_tensor **out);
    void (*take_back)(mr_elements *e, mr_tensor *const *tuple);
    bool pads;            /* shapes may have unknown dimensions; batches are padded to the largest */
    bool by_priority;     /* component 0 is an int64 scalar; a batch is taken at once, so that it is
                             in order */
} mr_queue_kind;

extern const mr_queue_kind mr_queue_fifo, mr_queue_padding, mr_queue_random, mr_queue_priority;
extern const mr_object_type mr_queue_type;

#define MR_QUEUE_UNBOUNDED INT32_MAX

typedef struct mr_queue_spec {
    const mr_queue_kind *kind;
    const char *op;   /* the op of the node, for error texts */
    const char *name;
    mr_tuple_type tuple;
    int64_t capacity; /* MR_QUEUE_UNBOUNDED: no limit */
    /* only for a random queue */
    int64_t min_after_dequeue; /* elements that must remain while the queue is open */
    int64_t seed, seed2;       /* from the attrs; 0, 0: a random seed */
    mr_philox random;          /* the generator that they select */
} mr_queue_spec;

mr_queue *mr_queue_new(const mr_queue_spec *spec);
/* INVALID_ARGUMENT "Shared queue 'q' has ..." if the queue was created with a different spec. */
mr_status *mr_queue_matches(const mr_queue *q, const mr_queue_spec *spec);

/* Each takes over a reference to q and ends the asynchronous run r, now or when its turn comes. */
void mr_queue_enqueue(mr_queue *q, mr_run *r, bool many);
void mr_queue_dequeue(mr_queue *q, mr_run *r);
void mr_queue_dequeue_many(mr_queue *q, mr_run *r, int64_t n, bool up_to);
void mr_queue_close(mr_queue *q, mr_run *r, bool cancel_pending);

int64_t mr_queue_size(mr_queue *q);
bool mr_queue_is_closed(mr_queue *q);

#endif
