/* exec/runner.c -- decides which thread runs the work of a step: the caller's or one of the pool.
 *
 * A thread that runs work keeps a list of the work that was posted meanwhile. The list is on its stack, and
 * only this thread sees it. It is found through a thread-local pointer, and it nests when a kernel runs
 * another session.
 *
 * Which thread gets the work: the one that posts it, if it already runs work of this runner. A worker that
 * holds more than one heavy node asks mr_runner_idle and hands one over. An idle caller gets it first, since
 * it takes nodes of this step only, while the threads of the pool serve all steps.
 *
 * The caller's wait: with a pool whose loops it can join, the caller is that pool's guest (mr_pool_stay);
 * otherwise it sleeps on `changed`. `waiting` means that the caller will look at its queue again before it
 * returns. Both `waiting` and the queue change only under the lock, so no work given to the caller is left
 * behind. While it waits, the caller holds no lock and runs nothing but parts of loops and work of its own
 * runner. Neither waits for a node, so the caller cannot wait for itself.
 *
 * The end: the thread that finishes the last piece calls mr_runner_finish and does not touch the runner after
 * that. The caller takes the lock before it leaves, so it cannot free the runner, or the guest, while the
 * other thread is still inside mr_runner_finish.
 *
 * Invariants: head and tail of a list are NULL together; n_queued is the length of the caller's queue; a
 * runner is reset only when its queue is empty. */
#include "exec/runner.h"

#include "base/memory.h"
#include "base/simd.h"

typedef struct list {
    const mr_runner *runner;
    bool is_callers;
    mr_work *head, *tail;
    struct list *outer;
} list;

static _Thread_local list *mine;

/* The end of a list: runs after everything that is in it. */
static void append_work(mr_work **head, mr_work **tail, mr_work *w)
{
    w->next = NULL;
    if (*tail)
        (*tail)->next = w;
    else
        *head = w;
    *tail = w;
}

/* The front of a list: runs next. */
static void prepend_work(mr_work **head, mr_work **tail, mr_work *w)
{
    w->next = *head;
    *head = w;
    if (!*tail)
        *tail = w;
}

/* NULL if the list is empty. */
static mr_work *take_first(mr_work **head, mr_work **tail)
{
    mr_work *w = *head;
    if (w && !(*head = w->next))
        *tail = NULL;
    return w;
}

/* The runner must be reset before each use. */
void mr_runner_init(mr_runner *r)
{
    *r = (mr_runner){0};
    mr_mutex_init(&r->mu);
    mr_cond_init(&r->changed);
    mr_guest_init(&r->guest);
}

/* The step has ended and the caller has returned from mr_runner_wait. */
void mr_runner_deinit(mr_runner *r)
{
    MR_ASSERT(!r->head && r->n_queued == 0);
    mr_guest_deinit(&r->guest);
    mr_cond_deinit(&r->changed);
    mr_mutex_deinit(&r->mu);
}

/* `waiting` is set from the start if there is a caller: it starts the step and waits at once, so the first
 * work is its own. */
void mr_runner_reset(mr_runner *r, mr_pool *pool, mr_pool *loops, bool has_caller)
{
    MR_ASSERT(!r->head);
    MR_ASSERT(r->n_queued == 0);
    r->pool = pool;
    r->loops = mr_pool_threads(loops) > 1 ? loops : mr_pool_threads(pool) > 1 ? pool : NULL;
    r->has_caller = has_caller;
    r->caller_only = false;
    r->waiting = has_caller;
    atomic_store_explicit(&r->finished, false, memory_order_relaxed);
}

/* Without a pool, give_to_caller puts all work into the caller's queue. */
void mr_runner_reset_caller_only(mr_runner *r, mr_pool *loops)
{
    mr_runner_reset(r, NULL, loops, true);
    r->caller_only = true;
}

/* Moves the work in the caller's queue to this thread's list. */
static void take_queued(mr_runner *r, list *l)
{
    mr_lock(&r->mu);
    for (mr_work *w; (w = take_first(&r->head, &r->tail));) {
        append_work(&l->head, &l->tail, w);
        MR_ASSERT(r->n_queued > 0);
        atomic_fetch_sub_explicit(&r->n_queued, 1, memory_order_relaxed);
    }
    mr_unlock(&r->mu);
}

/* Runs a chain of work, and then everything it posts on this thread. The runner may be gone once the list is
 * empty: that may have been the last piece of the step. Denormals are flushed to zero meanwhile, as
 * TensorFlow does. */
static void run_chain(mr_runner *r, mr_work *w, bool is_caller)
{
    list l = {r, is_caller, w->next, NULL, mine};
    for (mr_work *x = l.head; x; x = x->next)
        l.tail = x;
    mr_fp_mode mode = mr_denormals_flush();
    MR_ASSERT(!l.head == !l.tail);
    mine = &l;
    MR_ASSERT(w->fn);
    for (;;) {
        w->fn(w);
        if (!l.head)
            break;
        if (atomic_load_explicit(&r->n_queued, memory_order_relaxed) > 0)
            take_queued(r, &l);
        w = take_first(&l.head, &l.tail);
    }
    mine = l.outer;
    mr_denormals_restore(mode);
}

/* For threads that are not the caller: those of the pool, and the poster if the runner has neither caller nor
 * pool. */
void mr_runner_run(mr_runner *r, mr_work *w)
{
    w->next = NULL;
    run_chain(r, w, false);
}

/* False on threads of the pool, and while the caller has other work to do. */
bool mr_runner_is_caller_alone(const mr_runner *r)
{
    return mine && mine->runner == r && mine->is_callers && !mr_runner_crowded(r);
}

bool mr_runner_crowded(const mr_runner *r)
{
    return (mine && mine->head) ||
           atomic_load_explicit(&((mr_runner *)(uintptr_t)r)->n_queued, memory_order_relaxed) > 0;
}

static void run_from_pool(mr_task *t)
{
    mr_work *w = (mr_work *)t;
    mr_runner_run(w->runner, w);
}

/* Wakes the caller from its wait. The lock is held. */
static void recall_caller(mr_runner *r)
{
    if (r->loops)
        mr_pool_recall(r->loops, &r->guest);
    else
        mr_cond_signal(&r->changed);
}

/* Returns true if the caller will do the work: it is waiting, or there is no other thread that could. */
static bool give_to_caller(mr_runner *r, mr_work *w)
{
    if (!r->has_caller)
        return false;
    mr_lock(&r->mu);
    bool given = r->waiting || mr_pool_workers(r->pool) == 0;
    if (given) {
        append_work(&r->head, &r->tail, w);
        atomic_fetch_add_explicit(&r->n_queued, 1, memory_order_relaxed);
        if (r->waiting)
            recall_caller(r);
    }
    mr_unlock(&r->mu);
    return given;
}

/* A hint: the caller may become busy at once. give_to_caller decides under the lock. */
static bool caller_is_idle(mr_runner *r)
{
    return r->has_caller && atomic_load_explicit(&r->guest.idle, memory_order_relaxed);
}

/* The task is part of w, so handing over allocates nothing. */
static void hand_to_pool(mr_runner *r, mr_work *w)
{
    MR_ASSERT(r->pool && w->fn);
    w->runner = r;
    w->task.fn = run_from_pool;
    mr_pool_submit(r->pool, &w->task);
}

void mr_runner_hand_over(mr_runner *r, mr_work *w)
{
    if (!caller_is_idle(r) || !give_to_caller(r, w))
        hand_to_pool(r, w);
}

int mr_runner_idle(mr_runner *r)
{
    return r->pool ? mr_pool_idle(r->pool) + caller_is_idle(r) : 0;
}

/* Prepended, not appended: the newest work runs first, so a tree of calls is walked depth first. */
void mr_runner_post(mr_runner *r, mr_work *w)
{
    if (mine && mine->runner == r)
        prepend_work(&mine->head, &mine->tail, w);
    else if (give_to_caller(r, w))
        return;
    else if (r->pool)
        hand_to_pool(r, w);
    else
        mr_runner_run(r, w);
}

/* w runs again on this thread, after the work that is in its list now. */
void mr_runner_yield(mr_runner *r, mr_work *w)
{
    MR_ASSERT(mine && mine->runner == r);
    (void)r;
    append_work(&mine->head, &mine->tail, w);
}

/* Called before this thread runs something long. Light work stays here, in its order. */
void mr_runner_share(mr_runner *r)
{
    if (!mine || mine->runner != r || !mine->head)
        return;
    mr_work *w, *light = NULL, *light_tail = NULL;
    int idle = mr_runner_idle(r);
    while ((w = take_first(&mine->head, &mine->tail))) {
        if (w->heavy && idle > 0) {
            mr_runner_hand_over(r, w);
            idle--;
        } else {
            append_work(&light, &light_tail, w);
        }
    }
    mine->head = light;
    mine->tail = light_tail;
}

/* ---- the caller's wait ---- */

/* Under the lock, so that the caller cannot miss the signal between its check and its wait. */
void mr_runner_finish(mr_runner *r)
{
    mr_lock(&r->mu);
    atomic_store_explicit(&r->finished, true, memory_order_release);
    if (r->waiting)
        recall_caller(r);
    mr_unlock(&r->mu);
}

/* True if the caller must stop waiting: the step has ended, or there is work for it. */
static bool has_news(const mr_runner *r)
{
    return atomic_load_explicit(&((mr_runner *)(uintptr_t)r)->finished, memory_order_acquire) ||
           atomic_load_explicit(&((mr_runner *)(uintptr_t)r)->n_queued, memory_order_relaxed) > 0;
}

/* Waits as a guest of the pool; r->mu is released meanwhile. Returns false if the deadline passed. */
static bool stay_locked(mr_runner *r, int64_t deadline_ns) MR_REQUIRES(r->mu);
static bool stay_locked(mr_runner *r, int64_t deadline_ns)
{
    atomic_store(&r->guest.recalled, false);
    mr_unlock(&r->mu);
    bool in_time = mr_pool_stay(r->loops, &r->guest, deadline_ns);
    mr_lock(&r->mu);
    return in_time;
}

/* Waits for work and takes all of it, as a chain: once the caller is busy, it passes heavy pieces on to idle
 * threads. Returns NULL if the step is finished or the deadline passed. */
static mr_work *next_for_caller(mr_runner *r, int64_t deadline_ns)
{
    bool in_time = true;
    mr_lock(&r->mu);
    r->waiting = true;
    while (!has_news(r) && in_time) {
        if (r->loops)
            in_time = stay_locked(r, deadline_ns);
        else if (deadline_ns)
            in_time = mr_cond_wait_until(&r->changed, &r->mu, deadline_ns);
        else
            mr_cond_wait(&r->changed, &r->mu);
    }
    r->waiting = false;
    mr_work *w = r->head;
    r->head = r->tail = NULL;
    atomic_store_explicit(&r->n_queued, 0, memory_order_relaxed);
    mr_unlock(&r->mu);
    return w;
}

/* While the caller runs work it counts as one of the threads of the pools. A guest inside a loop is counted
 * by mr_pool_stay. */
static void run_as_caller(mr_runner *r, mr_work *w)
{
    mr_pool *other = r->pool != r->loops ? r->pool : NULL;
    mr_pool_caller_begins(r->loops);
    mr_pool_caller_begins(other);
    run_chain(r, w, true);
    mr_pool_caller_ends(r->loops);
    mr_pool_caller_ends(other);
}

/* Alternates between waiting and running. The runner may be freed as soon as this returns true. */
bool mr_runner_wait(mr_runner *r, int64_t deadline_ns)
{
    MR_ASSERT(r->has_caller);
    for (;;) {
        mr_work *w = next_for_caller(r, deadline_ns);
        if (w)
            run_as_caller(r, w);
        else
            return atomic_load_explicit(&r->finished, memory_order_acquire);
    }
}
