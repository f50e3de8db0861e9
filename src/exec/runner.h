/* exec/runner.h -- decides which thread runs the work of a step: the caller's or one of the pool.
 *
 * Work is posted to the runner of a step; functions it calls use the same one. Work posted from a thread that
 * already runs work of that runner goes to that thread's own list and costs nothing. This is how a value
 * moves on between devices, and how functions call functions without a growing stack. Work posted from
 * elsewhere (a queue, a network thread) goes to the caller if it is waiting, else to the pool.
 *
 * The caller computes like a thread of the pool: while it waits it joins the loops that kernels have opened
 * (those of other steps too), and takes nodes of its own step that another thread can spare. */
#ifndef MR_EXEC_RUNNER_H
#define MR_EXEC_RUNNER_H

#include "base/pool.h"
#include "base/thread.h"

typedef struct mr_runner mr_runner;

typedef struct mr_work { /* embedded in the object that the work is about */
    mr_task task;        /* while in the pool */
    void (*fn)(struct mr_work *);
    mr_runner *runner;
    struct mr_work *next;
    bool heavy; /* worth another thread */
} mr_work;

struct mr_runner {
    mr_pool *pool;   /* NULL: the caller does everything */
    mr_pool *loops;  /* the pool whose loops the caller joins while it waits; NULL: none */
    bool has_caller; /* a thread will call mr_runner_wait */
    bool caller_only; /* there is no pool, and kernels that may block run on the caller's thread as well */
    mr_guest guest;  /* the caller while it waits, if `loops` is set */
    mr_mutex mu;
    mr_cond changed; /* wakes the caller if `loops` is NULL */
    mr_work *head MR_GUARDED_BY(mu), *tail MR_GUARDED_BY(mu); /* for the caller */
    bool waiting MR_GUARDED_BY(mu); /* the caller waits, or is about to */
    _Atomic bool finished; /* set under mu */
    _Atomic int n_queued;  /* changed under mu */
};

void mr_runner_init(mr_runner *r);
void mr_runner_deinit(mr_runner *r);
/* To be called before each use. loops: the pool of the kernels' loops. */
void mr_runner_reset(mr_runner *r, mr_pool *pool, mr_pool *loops, bool has_caller);
/* The same for a caller that wants every kernel on the thread that calls mr_runner_wait. */
void mr_runner_reset_caller_only(mr_runner *r, mr_pool *loops);
/* Posts work. The newest runs first: a tree of calls is walked depth first, with few calls open at a time. */
void mr_runner_post(mr_runner *r, mr_work *w);
/* For work that could continue for ever: puts itself behind all other work of this thread. */
void mr_runner_yield(mr_runner *r, mr_work *w);
/* Gives work to another thread, the caller or one of the pool. Only if mr_runner_idle reported one. */
void mr_runner_hand_over(mr_runner *r, mr_work *w);
/* The number of threads that have nothing to do, the caller included (a hint). */
int mr_runner_idle(mr_runner *r);
/* Hands heavy work of this thread's own list to idle threads, because this thread is about to be busy. */
void mr_runner_share(mr_runner *r);
/* True if other work waits for this thread: an endless loop then yields. */
bool mr_runner_crowded(const mr_runner *r);
/* Runs w, and the work it posts, on this thread; denormals are flushed meanwhile. */
void mr_runner_run(mr_runner *r, mr_work *w);
/* True if this thread is the caller and has no other work: a kernel may block it, as long as nothing else of the step
 * runs. */
bool mr_runner_is_caller_alone(const mr_runner *r);
/* Ends the wait. The runner may be gone once this returns. */
void mr_runner_finish(mr_runner *r);
/* Runs work until the runner is finished, and returns true; false if the deadline (0: none) passed first. */
bool mr_runner_wait(mr_runner *r, int64_t deadline_ns);

#endif
