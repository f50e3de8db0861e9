/* run/blocking_work.h -- work for a step in a thread of base/blocking.h, withdrawn when the step is cancelled.
 *
 * When all threads are in use, work waits for one. It must not keep waiting after its step is cancelled, because the
 * work that occupies the threads may itself wait for that cancellation. So cancelled work leaves the queue, and its
 * function is called with cancelled = true. */
#ifndef MR_RUN_BLOCKING_WORK_H
#define MR_RUN_BLOCKING_WORK_H

#include "base/pool.h"
#include "run/cancel.h"

typedef struct mr_blocking_work { /* embedded in what it works on; all zeros but fn at first */
    /* Called exactly once. cancelled: the step was cancelled before a thread took the work; the function should only
     * clean up. It may be called on any thread then and must not wait. Otherwise it may wait: the thread is one of
     * base/blocking.h or, if the system cannot start a thread, the one that started the work. fn may free the work or
     * start it again. */
    void (*fn)(struct mr_blocking_work *w, bool cancelled);
    /* the rest belongs to blocking_work.c */
    mr_task task;
    mr_cancel_entry entry;
    mr_cancel *cancel;
} mr_blocking_work;

/* Calls fn later, perhaps before this returns. `cancel` must live until then. */
void mr_blocking_work_start(mr_blocking_work *w, mr_cancel *cancel);

#endif
