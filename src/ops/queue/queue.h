/* ops/queue/queue.h -- queues of tuples of tensors: state, and everything that waits on it.
 *
 * Operations that cannot finish at once wait as attempts in two lists, one for those that put in and one for
 * those that take out; only the first of each list may make progress (a large DequeueMany holds back later small
 * ones).  Attempts hold no thread: whoever changes the queue moves the others on and ends their runs. */
#ifndef MR_OPS_QUEUE_QUEUE_H
#define MR_OPS_QUEUE_QUEUE_H

#include "run/run.h"

typedef struct mr_queue mr_queue;

/* What kinds of queues differ in. */
typedef struct mr_queue_kind {
    const char *name; /* in error texts: "FIFOQueue" */
} mr_queue_kind;

extern const mr_queue_kind mr_queue_fifo;
extern const mr_object_type mr_queue_type;

typedef struct mr_queue_spec {
    const mr_queue_kind *kind;
    const char *name;
    int n; /* components */
    const int *types;
    int n_shapes; /* 0 or n */
    const mr_pshape *const *shapes;
    int64_t capacity; /* < 0: no limit */
} mr_queue_spec;

mr_queue *mr_queue_new(const mr_queue_spec *spec);
/* INVALID_ARGUMENT "Shared queue 'q' has ..." when an existing queue was made with another spec. */
mr_status *mr_queue_matches(const mr_queue *q, const mr_queue_spec *spec);

/* Each ends the asynchronous run r, at once or when its turn has come. */
void mr_queue_enqueue(mr_queue *q, mr_run *r, int first_component, bool many);
void mr_queue_dequeue(mr_queue *q, mr_run *r);
void mr_queue_dequeue_many(mr_queue *q, mr_run *r, int64_t n, bool up_to);
void mr_queue_close(mr_queue *q, mr_run *r, bool cancel_pending);
int64_t mr_queue_size(mr_queue *q);
bool mr_queue_is_closed(mr_queue *q);

#endif
