/* base/pool.h -- the threads that compute.
 *
 * Two ways in.  mr_pool_submit hands over a task that runs some time later on some worker; the task
 * is embedded in what it works on, so submitting allocates nothing.  mr_pool_for splits one loop over
 * the workers that are idle and the calling thread, and returns when all of it is done; it may be
 * called from inside a task.  Workers spin briefly for new work, then sleep. */
#ifndef MR_BASE_POOL_H
#define MR_BASE_POOL_H

#include <stdint.h>

#include "base/status.h"

typedef struct mr_pool mr_pool;

typedef struct mr_task {
    void (*fn)(struct mr_task *);
    struct mr_task *next; /* the pool's */
} mr_task;

/* A pool of n_threads counting the caller: 1 makes no threads at all, and tasks then run inside
 * mr_pool_submit's caller as soon as it returns to mr_pool_help or at once when nobody helps. */
mr_status *mr_pool_new(const char *name, int n_threads, mr_pool **out);
void mr_pool_free(mr_pool *p); /* runs what is queued, then joins; NULL is fine */
int mr_pool_threads(const mr_pool *p);

void mr_pool_submit(mr_pool *p, mr_task *t);
/* Runs one queued task in the calling thread, if there is one. */
bool mr_pool_help(mr_pool *p);

/* Calls fn(ctx, begin, end) on disjoint parts that cover 0..n.  cost_ns is a guess of the cost of one
 * unit in nanoseconds: small loops are not split (a hand-over costs some microseconds).  p may be
 * NULL: then the caller does all.  The parts depend on n, cost and the thread count only. */
void mr_pool_for(mr_pool *p, int64_t n, double cost_ns, void (*fn)(void *ctx, int64_t begin, int64_t end),
                 void *ctx);

#endif
