/* exec/runner.h -- who runs the work of a step: the thread that asked for it, and the pool.
 *
 * Work is posted to the runner of a step (functions it calls use the same one).  Posted from a
 * thread that is already running work of that runner, it waits in that thread's own list and costs
 * nothing: this is how a value moves on between devices, and how functions call functions without a
 * deeper and deeper stack.  Posted from elsewhere (a queue, a network thread) it goes to the caller
 * when it is waiting, else to the pool.
 *
 * The caller computes as a worker does: while it waits it joins the loops that kernels have opened
 * (those of other steps too), and takes nodes of its own step that another thread has to spare. */
#ifndef MR_EXEC_RUNNER_H
#define MR_EXEC_RUNNER_H

#include "base/pool.h"
#include "base/thread.h"

typedef struct mr_runner mr_runner;

typedef struct mr_work { /* embedded in what is to be done */
    mr_task task;        /* while in the pool */
    void (*fn)(struct mr_work *);
    mr_runner *runner;
    struct mr_work *next;
    bool heavy; /* worth another thread */
} mr_work;

struct mr_runner {
    mr_pool *pool;   /* NULL: all is done by the caller */
    mr_pool *loops;  /* whose loops the caller joins while it waits; NULL: none */
    bool has_caller; /* somebody will call mr_runner_wait */
    bool caller_only; /* there is no pool, and kernels that may wait run in the caller's thread as well */
    mr_guest guest;  /* the caller while it waits, where there are loops to join */
    mr_mutex mu;
    mr_cond changed; /* the same where there are none */
    mr_work *head MR_GUARDED_BY(mu), *tail MR_GUARDED_BY(mu); /* for the caller */
    bool waiting MR_GUARDED_BY(mu); /* the caller; also while it is still on its way to wait */
    _Atomic bool finished; /* set under mu */
    _Atomic int n_queued;  /* changed under mu */
};

void mr_runner_init(mr_runner *r);
void mr_runner_deinit(mr_runner *r);
/* Before each use.  loops: the pool of the kernels' loops. */
void mr_runner_reset(mr_runner *r, mr_pool *pool, mr_pool *loops, bool has_caller);
/* The same for a caller who wants every kernel in the thread that calls mr_runner_wait. */
void mr_runner_reset_caller_only(mr_runner *r, mr_pool *loops);
/* The newest is run first: a tree of calls is walked in depth, with few of them open at a time. */
void mr_runner_post(mr_runner *r, mr_work *w);
/* From inside work that could go on for ever: puts itself behind all other work of this thread. */
void mr_runner_yield(mr_runner *r, mr_work *w);
/* Gives work to another thread, the caller or one of the pool, whatever this thread is doing.  Only when
 * mr_runner_idle said so. */
void mr_runner_hand_over(mr_runner *r, mr_work *w);
/* Threads that have nothing to do, the caller included (a hint). */
int mr_runner_idle(mr_runner *r);
/* Hands heavy work of this thread's own list to idle threads, because it is about to be busy
 * itself. */
void mr_runner_share(mr_runner *r);
/* Other work waits for this thread: who runs an endless loop posts itself again and returns. */
bool mr_runner_crowded(const mr_runner *r);
/* Runs w in this thread, and what it posts; denormals are flushed meanwhile. */
void mr_runner_run(mr_runner *r, mr_work *w);
/* This thread is the caller, and the work it runs is all that it was given: it may be kept by a kernel that
 * blocks, as long as nothing else of the step runs. */
bool mr_runner_is_caller_alone(const mr_runner *r);
/* Ends the wait.  The runner may be gone once this returns. */
void mr_runner_finish(mr_runner *r);
/* Runs work until finished: true.  false when the deadline (0: none) passed first. */
bool mr_runner_wait(mr_runner *r, int64_t deadline_ns);

#endif
