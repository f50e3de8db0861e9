/* run/blocking_work.h -- work for a step in a thread of base/blocking.h, withdrawn when the step is cancelled.
 *
 * When all threads are in use, work waits for one.  It must not go on waiting once its step is cancelled: the tasks
 * that use the threads may themselves wait for that cancellation.  So the work is withdrawn and told so. */
#ifndef MR_RUN_BLOCKING_WORK_H
#define MR_RUN_BLOCKING_WORK_H

#include "base/pool.h"
#include "run/cancel.h"

typedef struct mr_blocking_work { /* embedded in what it works on; all zeros but fn at first */
    /* Called once.  cancelled: the step was cancelled before a thread took the work, so it can only end; the calling
     * thread may be any, and must not wait.  Otherwise the thread may wait: it is one of base/blocking.h, or, if the
     * system cannot start any, the one that started the work.  fn may free the work or start it again. */
    void (*fn)(struct mr_blocking_work *w, bool cancelled);
    /* the rest belongs to blocking_work.c */
    mr_task task;
    mr_cancel_entry entry;
    mr_cancel *cancel;
} mr_blocking_work;

/* Calls fn some time later, perhaps before this returns.  `cancel` lives until then. */
void mr_blocking_work_start(mr_blocking_work *w, mr_cancel *cancel);

#endif
