/* base/pool.h -- the threads that compute.
 *
 * mr_pool_submit hands over a task that runs some time later on some worker; the task is embedded in
 * what it works on, so submitting allocates nothing.  mr_pool_for splits one loop over the threads
 * that are idle and the calling thread, and returns when all of it is done; it may be called from
 * inside a task.  A thread that waits for something else (the caller of a step) can help meanwhile:
 * mr_pool_stay lets it join open loops until it is recalled.  Workers and guests spin briefly for
 * new work, then sleep.
 *
 * Whatever runs through a pool, on a worker or on the caller's thread, runs with denormal floats
 * flushed to zero, as in TensorFlow; the caller's own setting is restored. */
#ifndef MR_BASE_POOL_H
#define MR_BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/thread.h"

#define MR_POOL_MAX_THREADS 4096

typedef struct mr_pool mr_pool;

typedef struct mr_task {
    void (*fn)(struct mr_task *);
    struct mr_task *next; /* the pool's */
} mr_task;

/* A pool of n_threads counting the caller: n_threads - 1 workers, and one more while no caller computes.  A pool of 1
 * has none: there mr_pool_submit runs the task before it returns.  Called from inside one of the pool's tasks, it
 * queues the task, which runs next in the same thread when that one has ended, so that chains of tasks do not pile
 * up on the stack. */
mr_status *mr_pool_new(const char *name, int n_threads, mr_pool **out);
/* The same with n_threads workers: for a server, where the thread that starts a step does not compute. */
mr_status *mr_pool_new_served(const char *name, int n_threads, mr_pool **out);
void mr_pool_free(mr_pool *p); /* runs all queued tasks, then joins the threads; NULL is allowed */
/* How many threads compute at the same time, which decides into how many parts loops are split; 1 for NULL. */
int mr_pool_threads(const mr_pool *p);
int mr_pool_workers(const mr_pool *p); /* the pool's threads, without callers; 0 for NULL */
/* The number of idle workers minus the number of queued tasks; a hint, because it may change at any time. */
int mr_pool_idle(mr_pool *p);

/* Tasks begin in the order of submission. Do not hold a lock that a task may take: see above. */
void mr_pool_submit(mr_pool *p, mr_task *t);
/* Runs one queued task in the calling thread (in a pool of 1 also what that one submits); false when
 * there was none. */
bool mr_pool_help(mr_pool *p);

/* Calls fn(ctx, begin, end) on disjoint parts that cover 0..n. cost_ns is a guess of the cost of one unit in
 * nanoseconds: small loops are not split, because waking a thread costs some microseconds. p may be NULL: then the
 * caller does all the work. The parts depend on n, cost and the thread count only. */
void mr_pool_for(mr_pool *p, int64_t n, double cost_ns, void (*fn)(void *ctx, int64_t begin, int64_t end),
                 void *ctx);

/* ---- callers ---- */

/* Called when a thread that is not a worker begins to compute, and when it stops. While as many threads compute as the
 * pool has, loops wake no thread and tasks wait for a worker. */
void mr_pool_caller_begins(mr_pool *p); /* NULL is fine, here and below */
void mr_pool_caller_ends(mr_pool *p);

/* A thread that waits for something outside the pool and joins open loops while it waits. */
typedef struct mr_guest {
    _Atomic bool recalled; /* what it waits for has happened; cleared by the owner */
    _Atomic bool idle;     /* in mr_pool_stay and not inside a loop (a hint) */
    _Atomic bool asleep;
    mr_cond wake;
    bool listed; /* among the pool's sleeping guests; under the pool's lock */
    struct mr_guest *next;
} mr_guest;
void mr_guest_init(mr_guest *g);
void mr_guest_deinit(mr_guest *g);
/* Returns true when recalled, false when the deadline (mr_now_ns, 0: none) passed first; it leaves a loop after the
 * current part. It never runs tasks: they may need a lock that this thread holds, and may take long. */
bool mr_pool_stay(mr_pool *p, mr_guest *g, int64_t deadline_ns);
/* Ends the stay, from any thread; g and the pool must stay valid until this returns. */
void mr_pool_recall(mr_pool *p, mr_guest *g);

#endif
