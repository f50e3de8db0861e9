/* run/later.c -- functions called when the step that wanted them is over.
 *
 * Calls are counted (busy) and threads are listed. The end of the session first forbids both (over), then
 * cancels, then waits. A thread holds a reference, so the last reference may be dropped by a thread that is
 * ending: it cannot join itself and is detached instead.
 *
 * The caller's list and this object point to each other. Whichever side ends first removes the link: the last
 * reference (forget), or the session (mr_later_end, which holds a reference meanwhile).
 *
 * An open function (mr_later_fn) holds things of the session without being counted, so the end of the session closes
 * it. Its state says whether a call is in progress: a call only changes the state, without the lock, unless the end
 * waits for it.
 *
 * Invariants, under mu: once `over` is set, busy only falls and no thread is added; `caller` is NULL only if
 * there was none or after busy has reached 0. */
#include "run/later.h"

#include "base/memory.h"

typedef struct mr_later_thread {
    mr_thread thread;
    mr_later *later;
    void (*fn)(void *arg);
    void *arg;
    bool finished; /* guarded by the later's lock */
    struct mr_later_thread *next;
} thread;

/* ---- making and freeing ---- */

/* A later with one reference, no caller yet, and a reference to the graph. Its cancellation has no parent: the
 * session starts it through mr_later_end. */
static mr_later *new_later(mr_graph *g, mr_device *d)
{
    mr_later *l = mr_new(mr_later);
    atomic_init(&l->refs, 1);
    l->graph = g ? mr_graph_ref(g) : NULL;
    l->device = d;
    l->cancel = mr_cancel_new(NULL);
    mr_mutex_init(&l->mu);
    mr_cond_init(&l->idle);
    return l;
}

/* Only the graph of an executor's node is kept alive by references, so without a caller no graph is kept either. */
mr_later *mr_later_new(mr_run *r)
{
    mr_caller *c = r->step->caller;
    mr_later *l = new_later(c ? r->node->graph : NULL, r->step->device);
    if (c) {
        l->caller = c;
        c->keep(c, l, r);
    }
    return l;
}

/* `like` stays locked until the new one is listed, so its session cannot end in between. */
mr_later *mr_later_new_in(const mr_later *from, mr_graph *g)
{
    mr_later *like = (mr_later *)(uintptr_t)from, *l = new_later(g, from->device);
    mr_lock(&like->mu);
    mr_caller *c = like->over ? NULL : like->caller;
    l->over = like->over;
    if (c) {
        l->caller = c;
        c->keep_like(c, l, like);
    }
    mr_unlock(&like->mu);
    if (l->over)
        mr_cancel_start(l->cancel);
    return l;
}

mr_later *mr_later_ref(mr_later *l)
{
    atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    return l;
}

/* Raises the count only if it is not 0: the last reference may be being dropped right now. */
bool mr_later_try_ref(mr_later *l)
{
    int n = atomic_load_explicit(&l->refs, memory_order_relaxed);
    while (n > 0 && !atomic_compare_exchange_weak(&l->refs, &n, n + 1))
        ;
    return n > 0;
}

/* Joins and frees the threads of a list that the caller owns. They have returned from fn or will soon. The calling
 * thread may be in the list; it cannot join itself and is detached. */
static void release_threads(thread *t)
{
    for (thread *next; t; t = next) {
        next = t->next;
        if (pthread_equal(t->thread.t, pthread_self()))
            pthread_detach(t->thread.t);
        else
            mr_thread_join(&t->thread);
        mr_free(t);
    }
}

/* The session, if it is not over, removes this object from its list before it is freed. */
void mr_later_unref(mr_later *l)
{
    if (!l || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1)
        return;
    MR_ASSERT(l->busy == 0 && !l->fns);
    MR_ASSERT(!l->over || !l->caller);
    mr_lock(&l->mu);
    mr_caller *c = l->caller;
    mr_unlock(&l->mu);
    if (c)
        c->forget(c, l);
    release_threads(l->threads);
    mr_cancel_free(l->cancel);
    mr_graph_unref(l->graph);
    mr_cond_deinit(&l->idle);
    mr_mutex_deinit(&l->mu);
    mr_free(l);
}

mr_device *mr_later_device(const mr_later *l) { return l->device; }
const struct mr_library *mr_later_library(const mr_later *l)
{
    return l->graph ? l->graph->library : NULL;
}
mr_cancel *mr_later_cancel(mr_later *l) { return l->cancel; }

/* A hint for callers that want to stop early: a call may still fail right after this returned false. */
bool mr_later_over(mr_later *l)
{
    mr_lock(&l->mu);
    bool over = l->over;
    mr_unlock(&l->mu);
    return over;
}

/* ---- calls ---- */

/* Counts a call: the session does not end before leave_call. Fails if the session is over or if there is no
 * caller. */
static mr_status *enter_call(mr_later *l, const char *function, mr_caller **out)
{
    mr_status *st = NULL;
    mr_lock(&l->mu);
    if (l->over)
        st = mr_error(MR_CANCELLED, "Session has been closed.");
    else if (!(*out = l->caller))
        st = mr_error(MR_FAILED_PRECONDITION, "Function %s cannot be called here: the op does not run in a session",
                      function);
    else
        l->busy++;
    mr_unlock(&l->mu);
    return st;
}

/* The last call wakes mr_later_end. */
static void leave_call(mr_later *l)
{
    mr_lock(&l->mu);
    MR_ASSERT(l->busy > 0);
    if (--l->busy == 0)
        mr_cond_broadcast(&l->idle);
    mr_unlock(&l->mu);
}

/* A call without its own cancellation is cancelled with the session. */
static mr_later_call with_cancel(mr_later *l, const mr_later_call *a)
{
    mr_later_call full = *a;
    if (!full.cancel)
        full.cancel = l->cancel;
    return full;
}

/* The count keeps the session alive; a reference is not needed, because the caller has one until this returns. */
mr_status *mr_later_run(mr_later *l, const mr_later_call *a)
{
    mr_caller *c;
    mr_later_call full = with_cancel(l, a);
    MR_TRY(enter_call(l, a->f->name, &c));
    mr_status *st = c->call_later(c, l, &full, NULL, NULL);
    leave_call(l);
    return st;
}

uint64_t mr_later_state_new(void)
{
    static _Atomic uint64_t last;
    return ++last;
}

/* Counts as a call: the session does not end meanwhile. If it is over, the states are gone with it. */
void mr_later_state_forget(mr_later *l, uint64_t state)
{
    mr_caller *c = NULL;
    mr_lock(&l->mu);
    if (!l->over && (c = l->caller))
        l->busy++;
    mr_unlock(&l->mu);
    if (!c)
        return;
    c->forget_state(c, state);
    leave_call(l);
}

typedef struct started {
    mr_later *later;
    void (*done)(void *ctx, mr_status *st);
    void *ctx;
} started;

/* Reports the end before it gives up the count and the reference: done may still use the session. */
static void started_done(void *ctx, mr_status *st)
{
    started s = *(started *)ctx;
    mr_small_free(ctx, sizeof(started));
    s.done(s.ctx, st);
    leave_call(s.later);
    mr_later_unref(s.later);
}

/* Holds a reference until the call is over; the caller may drop its own at once. */
void mr_later_start(mr_later *l, const mr_later_call *a, void (*done)(void *ctx, mr_status *st),
                    void *ctx)
{
    mr_caller *c;
    mr_later_call full = with_cancel(l, a);
    mr_status *st = enter_call(l, a->f->name, &c);
    if (st) {
        done(ctx, st);
        return;
    }
    started *s = mr_small_alloc(sizeof(started));
    *s = (started){mr_later_ref(l), done, ctx};
    c->call_later(c, l, &full, started_done, s);
}

/* ---- open functions ---- */

enum fn_state {
    FN_IDLE,
    FN_RUNNING,
    FN_AWAITED, /* running, and the end of the session waits for it */
    FN_CLOSED,  /* the session has ended */
};

struct mr_later_fn {
    mr_later *later; /* referenced */
    mr_caller *caller;
    struct mr_prepared *prepared; /* NULL once the session has ended */
    _Atomic int state;            /* enum fn_state */
    mr_later_fn *next, *prev;     /* in later->fns; guarded by its lock */
};

static void list_fn_locked(mr_later *l, mr_later_fn *f)
{
    f->prev = NULL;
    if ((f->next = l->fns))
        l->fns->prev = f;
    l->fns = f;
}

/* Takes f off the list and returns what it holds of the session; NULL if the end of the session has taken that. */
static struct mr_prepared *unlist_fn_locked(mr_later *l, mr_later_fn *f)
{
    struct mr_prepared *p = f->prepared;
    if (!p)
        return NULL;
    if (f->prev)
        f->prev->next = f->next;
    else
        l->fns = f->next;
    if (f->next)
        f->next->prev = f->prev;
    f->prepared = NULL;
    return p;
}

/* Counts as a call while the function is prepared. */
mr_status *mr_later_fn_open(mr_later *l, const mr_later_call *a, int n_first, mr_later_fn **out)
{
    mr_caller *c;
    struct mr_prepared *p = NULL;
    mr_later_call full = with_cancel(l, a);
    *out = NULL;
    MR_TRY(enter_call(l, a->f->name, &c));
    mr_status *st = c->open_fn(c, l, &full, n_first, &p);
    if (!st) {
        mr_later_fn *f = mr_new(mr_later_fn);
        *f = (mr_later_fn){.later = mr_later_ref(l), .caller = c, .prepared = p};
        mr_lock(&l->mu);
        list_fn_locked(l, f);
        mr_unlock(&l->mu);
        *out = f;
    }
    leave_call(l);
    return st;
}

/* The end of the session waits until the state is no longer FN_RUNNING, so what f holds stays valid meanwhile. */
mr_status *mr_later_fn_run(mr_later_fn *f, mr_tensor *const *first, mr_tensor **rets)
{
    int was = FN_IDLE;
    if (!atomic_compare_exchange_strong_explicit(&f->state, &was, FN_RUNNING, memory_order_acquire, memory_order_relaxed)) {
        MR_ASSERT(was == FN_CLOSED);
        return mr_error(MR_CANCELLED, "Session has been closed.");
    }
    mr_status *st = f->caller->run_fn(f->caller, f->prepared, first, rets);
    was = FN_RUNNING;
    if (atomic_compare_exchange_strong_explicit(&f->state, &was, FN_IDLE, memory_order_release, memory_order_relaxed))
        return st;
    MR_ASSERT(was == FN_AWAITED);
    mr_lock(&f->later->mu);
    atomic_store(&f->state, FN_IDLE);
    mr_cond_broadcast(&f->later->idle);
    mr_unlock(&f->later->mu);
    return st;
}

int64_t mr_later_fn_cost_ns(mr_later_fn *f)
{
    return atomic_load_explicit(&f->state, memory_order_acquire) == FN_IDLE ? f->caller->fn_cost_ns(f->prepared)
                                                                            : MR_LATER_FN_UNKNOWN;
}

/* Counts as a call while it gives back what it holds. */
void mr_later_fn_close(mr_later_fn *f)
{
    if (!f)
        return;
    mr_later *l = f->later;
    mr_lock(&l->mu);
    MR_ASSERT(f->state == FN_IDLE || f->state == FN_CLOSED);
    struct mr_prepared *p = unlist_fn_locked(l, f);
    l->busy += p != NULL;
    mr_unlock(&l->mu);
    if (p) {
        f->caller->close_fn(f->caller, p);
        leave_call(l);
    }
    mr_later_unref(l);
    mr_free(f);
}

/* Closes one open function, or waits for a change if a call of it is in progress. The lock is released meanwhile, so
 * the list may be another afterwards. */
static void end_fn_locked(mr_later *l, mr_later_fn *f) MR_REQUIRES(l->mu)
{
    int was = FN_IDLE;
    if (!atomic_compare_exchange_strong(&f->state, &was, FN_CLOSED)) {
        if (was == FN_AWAITED || atomic_compare_exchange_strong(&f->state, &was, FN_AWAITED))
            mr_cond_wait(&l->idle, &l->mu);
        return;
    }
    mr_caller *c = f->caller;
    struct mr_prepared *p = unlist_fn_locked(l, f);
    MR_ASSERT(p);
    mr_unlock(&l->mu);
    c->close_fn(c, p); /* f may be gone */
    mr_lock(&l->mu);
}

/* ---- threads ---- */

/* Once `finished` is set, another thread may join this one and free t. */
static void run_thread(void *arg)
{
    thread *t = arg;
    mr_later *l = t->later;
    t->fn(t->arg);
    mr_lock(&l->mu);
    t->finished = true;
    mr_unlock(&l->mu);
    mr_later_unref(l);
}

/* Removes the threads that have finished from the list. The caller releases them without the lock. Needs l->mu. */
static thread *take_finished_locked(mr_later *l)
{
    thread *done = NULL;
    for (thread **at = &l->threads; *at;) {
        thread *t = *at;
        if (!t->finished) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        t->next = done;
        done = t;
    }
    return done;
}

/* The lock is held while the thread starts, so it cannot finish before it is in the list. Threads that
 * finished earlier are joined on this occasion. */
mr_status *mr_later_thread(mr_later *l, const char *name, void (*fn)(void *arg), void *arg)
{
    thread *t = mr_new(thread), *done = NULL;
    *t = (thread){.later = mr_later_ref(l), .fn = fn, .arg = arg};
    mr_status *st = NULL;
    int err;
    mr_lock(&l->mu);
    if (l->over)
        st = mr_error(MR_CANCELLED, "Session has been closed.");
    else if ((err = mr_thread_start(&t->thread, name, run_thread, t)) != 0)
        st = mr_error(MR_RESOURCE_EXHAUSTED, "Cannot start the thread %s: error %d", name, err);
    if (!st) {
        done = take_finished_locked(l);
        t->next = l->threads;
        l->threads = t;
    }
    mr_unlock(&l->mu);
    release_threads(done);
    if (st) {
        mr_later_unref(t->later);
        mr_free(t);
    }
    return st;
}

/* ---- the end ---- */

/* Cancels without the lock, because callbacks of the cancellation may call back into this file. Afterwards l has
 * no caller and no threads, but may live on. The caller must hold a reference. */
void mr_later_end(mr_later *l)
{
    mr_lock(&l->mu);
    l->over = true;
    mr_unlock(&l->mu);
    mr_cancel_start(l->cancel);
    mr_lock(&l->mu);
    while (l->busy > 0 || l->fns)
        if (l->fns)
            end_fn_locked(l, l->fns);
        else
            mr_cond_wait(&l->idle, &l->mu);
    l->caller = NULL;
    MR_ASSERT(l->over && l->busy == 0);
    thread *threads = l->threads;
    l->threads = NULL;
    mr_unlock(&l->mu);
    release_threads(threads);
}
