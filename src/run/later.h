/* run/later.h -- functions called when the step that wanted them is over.
 *
 * An iterator over a dataset calls functions between steps and from threads of its own.  What such
 * a call needs is taken from a run while there is one (mr_later_new) and kept by count: library,
 * device, the session's threads.  It ends with its session: closing that cancels what is under way,
 * and freeing it waits for all calls and threads, so that neither ever touches what is gone.  The
 * object itself may live on; calls then say CANCELLED. */
#ifndef MR_RUN_LATER_H
#define MR_RUN_LATER_H

#include "run/run.h"

typedef struct mr_later mr_later;

/* From a run; where no functions can be called (mr_eval_node) it still has a device and threads. */
mr_later *mr_later_new(mr_run *r);
/* The same with the library of another graph, which is referenced. */
mr_later *mr_later_new_in(const mr_later *l, mr_graph *g);
mr_later *mr_later_ref(mr_later *l);
void mr_later_unref(mr_later *l); /* NULL is fine */
mr_device *mr_later_device(const mr_later *l);
/* NULL where there are no functions; lives as long as l. */
const struct mr_library *mr_later_library(const mr_later *l);
/* Started when the session is closed: a parent for others; lives as long as l. */
mr_cancel *mr_later_cancel(mr_later *l);
/* The session is over: nothing can be called or started any more. */
bool mr_later_over(mr_later *l);

typedef struct mr_later_call {
    const mr_func_ref *f;
    mr_tensor *const *args; /* live, borrowed until the call is over */
    mr_tensor **rets;       /* owned by the caller afterwards; untouched on failure */
    int n_args, n_rets;
    mr_cancel *cancel;      /* cancels the call; NULL: only the session's end does */
    uint64_t state;         /* only calls with the same state share what stateful nodes of the function keep, such
                               as the position in a sequence of random numbers; 0: the session's */
    bool one_thread;        /* all its kernels run in one thread, one after the other: in mr_later_run's, or in one that
                               mr_later_start finds for the call */
} mr_later_call;
/* A state that no other has; to be forgotten when no call of it is under way or will come. */
uint64_t mr_later_state_new(void);
void mr_later_state_forget(mr_later *l, uint64_t state);

/* Runs it in this thread, with others' help unless one_thread is set, and waits.  Not from inside a kernel or a
 * callback of one: it would hold up a thread of the pool. */
mr_status *mr_later_run(mr_later *l, const mr_later_call *a);
/* Returns at once; done is called once, from any thread (perhaps this one), and must not wait.
 * Copies *a, not what it points to. */
void mr_later_start(mr_later *l, const mr_later_call *a, void (*done)(void *ctx, mr_status *st),
                    void *ctx);

/* A thread that the session's end waits for.  fn must return soon once mr_later_cancel is started.
 * CANCELLED when the session is over; RESOURCE_EXHAUSTED. */
mr_status *mr_later_thread(mr_later *l, const char *name, void (*fn)(void *arg), void *arg);

/* ---- for the caller's side (exec/function.c) ---- */
struct mr_later {
    _Atomic int refs; /* not mr_refs: the session's list takes references that do not count yet */
    mr_graph *graph; /* whose library it is; NULL: none */
    mr_device *device;
    int depth;          /* of the function call it was made in, */
    size_t depth_bytes; /* and what those calls took together */
    mr_cancel *cancel;
    mr_mutex mu;
    mr_cond idle; /* busy fell to 0 */
    mr_caller *caller MR_GUARDED_BY(mu); /* NULL: none, or the session is over */
    bool over MR_GUARDED_BY(mu);
    int busy MR_GUARDED_BY(mu); /* calls under way */
    struct mr_later_thread *threads MR_GUARDED_BY(mu);
    /* the caller's: */
    mr_cancel_entry in_session;
    struct mr_later *next, *prev;
};
/* A reference for one who holds none but knows that it is not freed yet; false: it is on its way. */
bool mr_later_try_ref(mr_later *l);
/* The end of its session: calls and threads are cancelled, and waited for. */
void mr_later_end(mr_later *l);

#endif
