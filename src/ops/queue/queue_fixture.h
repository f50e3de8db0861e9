/* ops/queue/queue_fixture.h -- a queue of int64 scalars and all ops on it.  For tests only.
 *
 * In a priority queue, the priority is a component: there each element is the number twice. */
#ifndef MR_OPS_QUEUE_QUEUE_FIXTURE_H
#define MR_OPS_QUEUE_QUEUE_FIXTURE_H

#include "ops/queue/calls_fixture.h"

typedef struct mr_queue_fixture {
    mr_calls calls;
    mr_callee make, enqueue, enqueue_many, dequeue, dequeue_many, dequeue_up_to, close, cancel,
        size, is_closed;
    mr_tensor *handle;
    int width; /* components */
} mr_queue_fixture;

/* kind: "FIFOQueueV2"; named "q". */
void mr_queue_fixture_init(mr_queue_fixture *g, const char *kind, int64_t capacity, int64_t min_after);
void mr_queue_fixture_deinit(mr_queue_fixture *g);

/* Calls that have not begun. */
mr_call *mr_queue_fixture_new_enqueue(mr_queue_fixture *g, int64_t v);
mr_call *mr_queue_fixture_new_enqueue_many(mr_queue_fixture *g, int n, const int64_t *v);
mr_call *mr_queue_fixture_new_dequeue(mr_queue_fixture *g);
mr_call *mr_queue_fixture_new_dequeue_many(mr_queue_fixture *g, int n, bool up_to);
mr_call *mr_queue_fixture_new_close(mr_queue_fixture *g, bool cancel_pending);

/* Calls that have begun. */
mr_call *mr_queue_fixture_enqueue(mr_queue_fixture *g, int64_t v);
mr_call *mr_queue_fixture_dequeue(mr_queue_fixture *g);
mr_call *mr_queue_fixture_dequeue_many(mr_queue_fixture *g, int n);
mr_call *mr_queue_fixture_dequeue_up_to(mr_queue_fixture *g, int n);
mr_call *mr_queue_fixture_close(mr_queue_fixture *g, bool cancel_pending);
mr_call *mr_queue_fixture_begun(mr_call *c);

/* These succeed at once. */
void mr_queue_fixture_put(mr_queue_fixture *g, int64_t v);
int64_t mr_queue_fixture_take(mr_queue_fixture *g);
int64_t mr_queue_fixture_size(mr_queue_fixture *g);

/* Ends a dequeue.  If it succeeds, *out is its first component, which the caller owns. */
mr_status *mr_queue_fixture_end(mr_queue_fixture *g, mr_call *c, mr_tensor **out);
/* Checks that a dequeue has ended with exactly these values, and frees it. */
void mr_queue_fixture_check_gave(const char *file, int line, mr_queue_fixture *g, mr_call *c, int n,
                       const int64_t *v);
#define MR_CHECK_GAVE(g, call, ...)                                       \
    mr_queue_fixture_check_gave(__FILE__, __LINE__, g, call,                        \
                      MR_COUNT(((const int64_t[]){__VA_ARGS__})),         \
                      (const int64_t[]){__VA_ARGS__})

#endif
