/* exec/runner.c -- who runs the work of a step: the thread that asked for it, and the pool.
 *
 * A thread that runs work keeps a list of what was posted meanwhile; it is on its stack and only
 * this thread sees it.  The list is found through a thread-local pointer, and nests when a kernel
 * runs another session.
 *
 * Which thread gets the work: the one that posts it, if it runs work of this runner already.  A
 * worker that holds more than one heavy node asks mr_runner_idle and hands one over: to the caller
 * first when it is idle, since it takes nodes of this step only, while workers serve all steps.
 *
 * The caller's wait: with a pool whose loops can be joined it is that pool's guest (mr_pool_stay),
 * else it sleeps on `changed`.  `waiting` says that it will look at its queue again before it
 * returns; it is changed under the lock, and so is the queue, so nothing given to it is left behind.
 * While it waits it holds no lock, and it runs nothing but parts of loops and work of its own
 * runner: neither waits for a node, so it cannot wait for itself.
 *
 * The end: the thread that finishes the last piece calls mr_runner_finish and does not touch the
 * runner after that.  The caller takes the lock before it leaves, so it cannot free the runner, or the
 * guest, while the other thread is still inside mr_runner_finish. */
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

static void append(mr_work **head, mr_work **tail, mr_work *w)
{
    w->next = NULL;
    if (*tail)
        (*tail)->next = w;
    else
        *head = w;
    *tail = w;
}

static void prepend(mr_work **head, mr_work **tail, mr_work *w)
{
    w->next = *head;
    *head = w;
    if (!*tail)
        *tail = w;
}

static mr_work *take(mr_work **head, mr_work **tail)
{
    mr_work *w = *head;
    if (w && !(*head = w->next))
        *tail = NULL;
    return w;
}

void mr_runner_init(mr_runner *r)
{
    *r = (mr_runner){0};
    mr_mutex_init(&r->mu);
    mr_cond_init(&r->changed);
    mr_guest_init(&r->guest);
}

void mr_runner_deinit(mr_runner *r)
{
    mr_guest_deinit(&r->guest);
    mr_cond_deinit(&r->changed);
    mr_mutex_deinit(&r->mu);
}

void mr_runner_reset(mr_runner *r, mr_pool *pool, mr_pool *loops, bool has_caller)
{
    MR_ASSERT(!r->head);
    r->pool = pool;
    r->loops = mr_pool_threads(loops) > 1 ? loops : mr_pool_threads(pool) > 1 ? pool : NULL;
    r->has_caller = has_caller;
    r->caller_only = false;
    r->waiting = has_caller; /* it starts the step and comes at once: the first work is its own */
    atomic_store_explicit(&r->finished, false, memory_order_relaxed);
}

void mr_runner_reset_caller_only(mr_runner *r, mr_pool *loops)
{
    mr_runner_reset(r, NULL, loops, true);
    r->caller_only = true;
}

/* Moves what waits for the caller to this thread's list. */
static void take_queued(mr_runner *r, list *l)
{
    mr_lock(&r->mu);
    for (mr_work *w; (w = take(&r->head, &r->tail));) {
        append(&l->head, &l->tail, w);
        atomic_fetch_sub_explicit(&r->n_queued, 1, memory_order_relaxed);
    }
    mr_unlock(&r->mu);
}

/* Runs a chain of work and what it posts meanwhile. */
static void run_chain(mr_runner *r, mr_work *w, bool is_caller)
{
    list l = {r, is_caller, w->next, NULL, mine};
    for (mr_work *x = l.head; x; x = x->next)
        l.tail = x;
    mr_fp_mode mode = mr_denormals_flush();
    mine = &l;
    for (;;) {
        w->fn(w);
        if (!l.head) /* that may have been the last piece, and the runner gone */
            break;
        if (atomic_load_explicit(&r->n_queued, memory_order_relaxed) > 0)
            take_queued(r, &l);
        w = take(&l.head, &l.tail);
    }
    mine = l.outer;
    mr_denormals_restore(mode);
}

void mr_runner_run(mr_runner *r, mr_work *w)
{
    w->next = NULL;
    run_chain(r, w, false);
}

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

/* Under the lock: the caller has something to look at. */
static void recall(mr_runner *r)
{
    if (r->loops)
        mr_pool_recall(r->loops, &r->guest);
    else
        mr_cond_signal(&r->changed);
}

/* true when the caller will do it: it has nothing else to do, or nobody else can. */
static bool give_to_caller(mr_runner *r, mr_work *w)
{
    if (!r->has_caller)
        return false;
    mr_lock(&r->mu);
    bool given = r->waiting || mr_pool_workers(r->pool) == 0;
    if (given) {
        append(&r->head, &r->tail, w);
        atomic_fetch_add_explicit(&r->n_queued, 1, memory_order_relaxed);
        if (r->waiting)
            recall(r);
    }
    mr_unlock(&r->mu);
    return given;
}

static bool caller_is_idle(mr_runner *r)
{
    return r->has_caller && atomic_load_explicit(&r->guest.idle, memory_order_relaxed);
}

static void hand_to_pool(mr_runner *r, mr_work *w)
{
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

void mr_runner_post(mr_runner *r, mr_work *w)
{
    if (mine && mine->runner == r)
        prepend(&mine->head, &mine->tail, w);
    else if (give_to_caller(r, w))
        return;
    else if (r->pool)
        hand_to_pool(r, w);
    else
        mr_runner_run(r, w);
}

void mr_runner_yield(mr_runner *r, mr_work *w)
{
    MR_ASSERT(mine && mine->runner == r);
    (void)r;
    append(&mine->head, &mine->tail, w);
}

void mr_runner_share(mr_runner *r)
{
    if (!mine || mine->runner != r || !mine->head)
        return;
    mr_work *w, *light = NULL, *light_tail = NULL;
    int idle = mr_runner_idle(r);
    while ((w = take(&mine->head, &mine->tail))) {
        if (w->heavy && idle > 0) {
            mr_runner_hand_over(r, w);
            idle--;
        } else {
            append(&light, &light_tail, w);
        }
    }
    mine->head = light;
    mine->tail = light_tail;
}

/* ---- the caller's wait ---- */

void mr_runner_finish(mr_runner *r)
{
    mr_lock(&r->mu);
    atomic_store_explicit(&r->finished, true, memory_order_release);
    if (r->waiting)
        recall(r);
    mr_unlock(&r->mu);
}

static bool has_news(const mr_runner *r)
{
    return atomic_load_explicit(&((mr_runner *)(uintptr_t)r)->finished, memory_order_acquire) ||
           atomic_load_explicit(&((mr_runner *)(uintptr_t)r)->n_queued, memory_order_relaxed) > 0;
}

/* Waits as a guest of the pool; r->mu is released meanwhile.  false when it is too late. */
static bool stay_locked(mr_runner *r, int64_t deadline_ns) MR_REQUIRES(r->mu);
static bool stay_locked(mr_runner *r, int64_t deadline_ns)
{
    atomic_store(&r->guest.recalled, false);
    mr_unlock(&r->mu);
    bool in_time = mr_pool_stay(r->loops, &r->guest, deadline_ns);
    mr_lock(&r->mu);
    return in_time;
}

/* All work for the caller, as a chain: what is heavy goes on to idle threads once it is busy.  NULL
 * when finished or too late. */
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

/* The caller counts as one of the pool's threads while it runs work; a guest inside a loop is counted there. */
static void run_as_caller(mr_runner *r, mr_work *w)
{
    mr_pool *other = r->pool != r->loops ? r->pool : NULL;
    mr_pool_caller_begins(r->loops);
    mr_pool_caller_begins(other);
    run_chain(r, w, true);
    mr_pool_caller_ends(r->loops);
    mr_pool_caller_ends(other);
}

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
