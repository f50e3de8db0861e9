/* run/later.h -- function calls outside of a step.
 *
 * A dataset iterator calls functions between steps and from its own threads. mr_later_new takes what such a call needs
 * from a run and keeps it alive: the library, the device, the session's threads. Its use ends with its session: closing
 * the session cancels calls in progress, and freeing the session waits for all calls and threads, so that none of them
 * touches freed memory. The object itself may outlive the session; its calls then fail with CANCELLED. */
#ifndef MR_RUN_LATER_H
#define MR_RUN_LATER_H

#include "run/run.h"

typedef struct mr_later mr_later;

/* Made from a run. Outside of a session (mr_eval_node) it cannot call functions but still has a device and threads. */
mr_later *mr_later_new(mr_run *r);
/* The same with the library of another graph, which is referenced. */
mr_later *mr_later_new_in(const mr_later *l, mr_graph *g);
mr_later *mr_later_ref(mr_later *l);
void mr_later_unref(mr_later *l); /* NULL is fine */
mr_device *mr_later_device(const mr_later *l);
/* NULL if it has no functions; lives as long as l. */
const struct mr_library *mr_later_library(const mr_later *l);
/* Started when the session is closed; may be the parent of other managers. Lives as long as l. */
mr_cancel *mr_later_cancel(mr_later *l);
/* True once the session has ended: calls and new threads fail. */
bool mr_later_over(mr_later *l);

typedef struct mr_later_call {
    const mr_func_ref *f;
    mr_tensor *const *args; /* live, borrowed until the call is over */
    mr_tensor **rets;       /* owned by the caller afterwards; untouched on failure */
    int n_args, n_rets;
    mr_cancel *cancel;      /* cancels the call; NULL: only the session's end does */
    uint64_t state;         /* only calls with the same state share what stateful nodes of the function keep, such
                               as the position in a sequence of random numbers; 0: the session's */
    bool one_thread;        /* all kernels run one after the other in one thread: the caller's (mr_later_run), or one
                               that mr_later_start chooses */
} mr_later_call;
/* A new, unique state. Call mr_later_state_forget after the last call that uses it has ended. */
uint64_t mr_later_state_new(void);
void mr_later_state_forget(mr_later *l, uint64_t state);

/* Runs the call in this thread and waits for its end; other threads help unless one_thread is set. Must not be called
 * from a kernel or its callback, because that would block a thread of the pool. */
mr_status *mr_later_run(mr_later *l, const mr_later_call *a);
/* Returns at once. done is called once, from any thread (perhaps this one), and must not wait. Copies *a, but not what
 * it points to. */
void mr_later_start(mr_later *l, const mr_later_call *a, void (*done)(void *ctx, mr_status *st),
                    void *ctx);

/* A function that one object calls many times, from one thread at a time: what does not differ from call to call is
 * done once. It is the function that its name meant when it was opened. */
typedef struct mr_later_fn mr_later_fn;
/* a->args are the n_args last arguments (captured values), the same in all calls; they, a->f and a->cancel must outlive
 * the mr_later_fn. n_first arguments come before them. */
mr_status *mr_later_fn_open(mr_later *l, const mr_later_call *a, int n_first, mr_later_fn **out);
/* As mr_later_run, with these first arguments. */
mr_status *mr_later_fn_run(mr_later_fn *f, mr_tensor *const *first, mr_tensor **rets);
/* About the time of a call that cannot wait and that one thread does best alone; such a call may also be made by a
 * thread of the pool. MR_LATER_FN_UNKNOWN: the function may wait, has work for several threads, or was not measured
 * yet. */
#define MR_LATER_FN_UNKNOWN INT64_MAX
int64_t mr_later_fn_cost_ns(mr_later_fn *f);
void mr_later_fn_close(mr_later_fn *f); /* no call is in progress; NULL is fine */

/* Starts a thread that the end of the session waits for. fn must return soon after mr_later_cancel is started.
 * CANCELLED if the session has ended; RESOURCE_EXHAUSTED if no thread can be started. */
mr_status *mr_later_thread(mr_later *l, const char *name, void (*fn)(void *arg), void *arg);

/* ---- for the caller's side (exec/function.c) ---- */
struct mr_later {
    _Atomic int refs; /* not mr_refs: the session's list holds a pointer without a reference (mr_later_try_ref) */
    mr_graph *graph; /* whose library it is; NULL: none */
    mr_device *device;
    int depth;          /* nesting of the function call it was made in */
    size_t depth_bytes; /* memory that these nested calls use together */
    mr_cancel *cancel;
    mr_mutex mu;
    mr_cond idle; /* busy fell to 0 */
    mr_caller *caller MR_GUARDED_BY(mu); /* NULL: none, or the session is over */
    bool over MR_GUARDED_BY(mu);
    int busy MR_GUARDED_BY(mu); /* calls under way */
    mr_later_fn *fns MR_GUARDED_BY(mu); /* those that are open */
    struct mr_later_thread *threads MR_GUARDED_BY(mu);
    /* the caller's: */
    mr_cancel_entry in_session;
    struct mr_later *next, *prev;
};
/* Takes a reference for a caller that has none but knows that l is not freed yet. false: l is being freed. */
bool mr_later_try_ref(mr_later *l);
/* Called when the session ends: cancels calls and threads and waits for them. */
void mr_later_end(mr_later *l);

#endif
