/* base/blocking.h -- threads for work that may wait: for a file, for Python, for a lock of the client's.
 *
 * A pool (base/pool.h) has as many threads as compute at once; a task that sleeps there takes one of
 * them from everybody, and two tasks that wait for each other may never meet.  Here each task gets a
 * thread: an idle one, or a new one, up to MR_BLOCKING_MAX in the process.  Beyond that tasks wait for
 * a thread, in the order of submission.  Threads end when they have had nothing to do for a while. */
#ifndef MR_BASE_BLOCKING_H
#define MR_BASE_BLOCKING_H

#include "base/pool.h"

#define MR_BLOCKING_MAX 256

/* The task runs some time later on another thread, with denormal floats flushed to zero; it is embedded in
 * what it works on, so submitting allocates nothing while threads are idle.  false: there is no thread and
 * none can be started, so the task will not run. */
bool mr_blocking_submit(mr_task *t);
/* Takes back a task that still waits for a thread: true.  false: it has begun, or is not here. */
bool mr_blocking_withdraw(mr_task *t);

typedef struct mr_blocking_state {
    int n_threads, n_idle, n_queued;
} mr_blocking_state;
mr_blocking_state mr_blocking_look(void);

#endif
