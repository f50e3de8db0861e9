/* base/blocking.h -- threads for work that may wait: for a file, for Python, for a lock of the client.
 *
 * A pool (base/pool.h) has as many threads as are to compute at once.  A task that sleeps in one of them
 * keeps it from all others, and two tasks that wait for each other may never run at the same time.  Here
 * each task gets a thread: an idle one, or a new one, up to MR_BLOCKING_MAX in the process.  A thread
 * that has had nothing to do for a while ends.
 *
 * The limit: tasks beyond MR_BLOCKING_MAX wait for a thread, in the order of submission.  If all the
 * running ones wait for something that only a queued one can do, none of them ever goes on, just as in
 * TensorFlow when its inter-op threads are used up; cancelling the steps is the only way out.  The same
 * holds for fewer threads where the system refuses to start more. */
#ifndef MR_BASE_BLOCKING_H
#define MR_BASE_BLOCKING_H

#include "base/pool.h"

#define MR_BLOCKING_MAX 256

/* The task runs some time later in another thread, with denormal floats flushed to zero.  It is embedded in
 * what it works on, so submitting allocates nothing while threads are idle; its `next` is NULL before.
 * false: the task will not run, because there is no thread and none can be started, or because it was
 * withdrawn before. */
bool mr_blocking_submit(mr_task *t);
/* true: the task was waiting for a thread, and will not run.  false: it has begun, or it has not been
 * submitted yet, and then mr_blocking_submit will refuse it. */
bool mr_blocking_withdraw(mr_task *t);

typedef struct mr_blocking_state {
    int n_threads, n_idle, n_queued;
} mr_blocking_state;
mr_blocking_state mr_blocking_look(void);

#endif
