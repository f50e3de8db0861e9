/* base/pool.h -- the threads that compute.
 *
 * Two ways in.  mr_pool_submit hands over a task that runs some time later on some worker; the task
 * is embedded in what it works on, so submitting allocates nothing.  mr_pool_for splits one loop over
 * the workers that are idle and the calling thread, and returns when all of it is done; it may be
 * called from inside a task.  Workers spin briefly for new work, then sleep.
 *
 * Whatever runs through a pool, on a worker or on the caller's thread, runs with denormal floats
 * flushed to zero, as in TensorFlow; the caller's own setting is restored. */
#ifndef MR_BASE_POOL_H
#define MR_BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define MR_POOL_MAX_THREADS 4096

typedef struct mr_pool mr_pool;

typedef struct mr_task {
    void (*fn)(struct mr_task *);
    struct mr_task *next; /* the pool's */
} mr_task;

/* A pool of n_threads counting the caller, so with n_threads - 1 workers.  A pool of 1 has none: there
 * mr_pool_submit runs the task before it returns, unless it is called from inside one of the pool's
 * tasks; then the task waits until that one has ended and runs next in the same thread, so that
 * chains of tasks do not pile up on the stack. */
mr_status *mr_pool_new(const char *name, int n_threads, mr_pool **out);
void mr_pool_free(mr_pool *p); /* runs what is queued, then joins; NULL is fine */
int mr_pool_threads(const mr_pool *p); /* 1 for NULL */
/* Workers without work, less what is queued for them already; a hint, as it may change at once. */
int mr_pool_idle(mr_pool *p);

/* Tasks begin in the order of submission.  Call it with no lock held that a task may want: see above. */
void mr_pool_submit(mr_pool *p, mr_task *t);
/* Runs one queued task in the calling thread (in a pool of 1 also what that one submits); false when
 * there was none. */
bool mr_pool_help(mr_pool *p);

/* Calls fn(ctx, begin, end) on disjoint parts that cover 0..n.  cost_ns is a guess of the cost of one
 * unit in nanoseconds: small loops are not split (a hand-over costs some microseconds).  p may be
 * NULL: then the caller does all.  The parts depend on n, cost and the thread count only. */
void mr_pool_for(mr_pool *p, int64_t n, double cost_ns, void (*fn)(void *ctx, int64_t begin, int64_t end),
                 void *ctx);

#endif
