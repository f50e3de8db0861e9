/* base/pool.c -- one queue of tasks, one list of open loops, and threads that serve both.
 *
 * A loop (mr_pool_for) is on its caller's stack.  While it is in the list `loops`, others may join:
 * they count themselves into n_inside under the lock, then claim parts without it.  The caller
 * claims parts too; when none is left it unlinks the loop, after which nobody can join, and waits
 * for those still inside.  It waits only for parts that are already running, and a thread that runs one
 * waits, if at all, only for parts of loops opened deeper: so nesting cannot deadlock.  It does not
 * run other tasks while it waits, since they might want what it holds.
 *
 * Which thread takes what:
 * - Workers take parts of any open loop first (somebody waits for them), then tasks.
 * - Guests are threads that wait for a step to end (mr_pool_stay).  A guest takes parts of any open
 *   loop: a part waits for nothing but parts of deeper loops and takes no lock that a caller could
 *   hold, so this cannot deadlock whatever the guest holds, and it ends soon.  A guest takes no
 *   tasks: a task may be the rest of a long step.  The nodes of its step are given to it by the
 *   step's runner (exec/runner.c), which recalls it.
 * - The spare is a worker in place of the callers, for the time that none of them computes: else a
 *   pool of 2 would run the functions of a parallel map one by one while the caller waits for their
 *   results.  It takes tasks only, and is started when it is needed for the first time.
 * - At most n_threads are inside one loop, so a pool never uses more than it was made for.
 *
 * Waking a thread costs some microseconds on both sides, so a loop wakes sleepers only when it is
 * long enough to pay for it and fewer threads compute than the pool has; busy workers and the
 * callers of steps (n_callers) count as computing.  Threads that spin join without being woken.
 *
 * The end: a submitter does not touch the pool after its task may have run, since what the task
 * finishes may free the pool.  In a pool without workers the submitter runs the queue itself;
 * it is counted (n_draining), and freeing the pool waits for it.
 *
 * Sleeping: a thread decides to sleep under the lock, after it has seen that there is nothing for it;
 * work is added under the same lock, so no wake-up is lost.  n_tasks and n_loops repeat what there is
 * for threads that spin without the lock; they are hints, and are checked again under the lock.  A
 * recall is not made under the lock: the recaller sets `recalled` and then looks at `asleep`, the
 * guest sets `asleep` and then looks at `recalled`, both in sequential consistency, so at least one
 * of them sees the other. */
#include "base/pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/deterministic.h"
#include "base/memory.h"
#include "base/simd.h"
#include "base/thread.h"

#define SPIN_NS 50000 /* about the cost of putting a thread to sleep and waking it again */
#define MIN_PART_NS 15000.0
#define PARTS_PER_THREAD 4 /* more parts than threads balance workers that start late */
#define WAKE_NS 60000.0    /* a loop this long is worth waking a thread for */

typedef struct loop {
    struct loop *next;
    void (*fn)(void *ctx, int64_t begin, int64_t end);
    void *ctx;
    int64_t n, n_parts;
    bool wakes; /* long enough to wake threads for */
    _Atomic int64_t claimed;
    _Atomic int n_inside; /* threads in the loop besides the caller; changed under the pool's lock */
} loop;

struct mr_pool {
    int n_threads, n_workers;
    int64_t spin_ns;
    mr_mutex mu;
    mr_task *head MR_GUARDED_BY(mu), *tail MR_GUARDED_BY(mu);
    loop *loops MR_GUARDED_BY(mu);
    int n_sleeping MR_GUARDED_BY(mu);
    int n_spinning MR_GUARDED_BY(mu); /* workers looking for work: they need no wake-up */
    int n_guests_spinning MR_GUARDED_BY(mu);
    mr_guest *guests MR_GUARDED_BY(mu); /* asleep */
    int n_draining MR_GUARDED_BY(mu); /* threads that run tasks because there are no workers */
    bool closing MR_GUARDED_BY(mu);
    bool has_spare MR_GUARDED_BY(mu); /* the thread is running */
    bool spare_asleep MR_GUARDED_BY(mu);
    mr_thread spare;
    mr_cond spare_work;
    mr_cond work; /* something is queued, or closing */
    mr_cond left; /* the last thread has left a loop, or has drained */
    _Alignas(MR_CACHE_LINE) _Atomic int n_tasks; /* queued */
    _Atomic int n_loops;                         /* with parts to claim */
    _Alignas(MR_CACHE_LINE) _Atomic int n_callers; /* that compute, guests inside loops too */
    mr_thread workers[];
};

/* The pools whose tasks this thread is running right now, innermost first. */
typedef struct frame {
    const mr_pool *pool;
    struct frame *outer;
} frame;
static _Thread_local frame *frames;

static bool runs_task_of(const mr_pool *p)
{
    for (const frame *f = frames; f; f = f->outer)
        if (f->pool == p)
            return true;
    return false;
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- the queue ---- */

static void push_locked(mr_pool *p, mr_task *t) MR_REQUIRES(p->mu);
static void push_locked(mr_pool *p, mr_task *t)
{
    MR_ASSERT(t->fn && t != p->tail); /* a task is in the queue once at most */
    t->next = NULL;
    if (p->tail)
        p->tail->next = t;
    else
        p->head = t;
    p->tail = t;
    atomic_fetch_add(&p->n_tasks, 1); /* ordered before the look at n_callers: see call_spare_locked */
}

static mr_task *pop_locked(mr_pool *p) MR_REQUIRES(p->mu);
static mr_task *pop_locked(mr_pool *p)
{
    mr_task *t = p->head;
    if (!t)
        return NULL;
    p->head = t->next;
    if (!p->head)
        p->tail = NULL;
    atomic_fetch_sub_explicit(&p->n_tasks, 1, memory_order_relaxed);
    return t;
}

/* Wakes up to n sleeping workers and answers how many. */
static int64_t wake_workers_locked(mr_pool *p, int64_t n) MR_REQUIRES(p->mu);
static int64_t wake_workers_locked(mr_pool *p, int64_t n)
{
    n = MR_MIN(n, p->n_sleeping);
    if (n > 1 && n == p->n_sleeping)
        mr_cond_broadcast(&p->work);
    else
        for (int64_t i = 0; i < n; i++)
            mr_cond_signal(&p->work);
    return n;
}

/* Wakes up to n sleeping guests, the last to fall asleep first. */
static void wake_guests_locked(mr_pool *p, int64_t n) MR_REQUIRES(p->mu);
static void wake_guests_locked(mr_pool *p, int64_t n)
{
    for (mr_guest *g; n > 0 && (g = p->guests); n--) {
        p->guests = g->next;
        g->listed = false;
        mr_cond_signal(&g->wake);
    }
}

/* ---- loops ---- */

static void run_part(const loop *l, int64_t i)
{
    int64_t size = l->n / l->n_parts, larger = l->n % l->n_parts; /* the first ones have one more */
    int64_t begin = i * size + MR_MIN(i, larger);
    l->fn(l->ctx, begin, begin + size + (i < larger));
}

static bool is_recalled(const mr_guest *g)
{
    return atomic_load(&((mr_guest *)(uintptr_t)g)->recalled);
}

static bool is_in_time(int64_t deadline_ns) { return !deadline_ns || mr_now_ns() < deadline_ns; }

/* Runs parts until none is left to claim. A guest (NULL for other threads) also stops when it is recalled or its time
 * is over. */
static void run_parts(mr_pool *p, loop *l, const mr_guest *g, int64_t deadline_ns)
{
    while (!g || (!is_recalled(g) && is_in_time(deadline_ns))) {
        int64_t i = atomic_fetch_add_explicit(&l->claimed, 1, memory_order_relaxed);
        if (i >= l->n_parts)
            return;
        if (i == l->n_parts - 1) { /* there is no part left in this loop */
            int before = atomic_fetch_sub_explicit(&p->n_loops, 1, memory_order_relaxed);
            MR_ASSERT(before > 0);
            (void)before;
        }
        run_part(l, i);
    }
}

/* An open loop with parts left and room for one more, joined; or NULL. */
static loop *join_locked(mr_pool *p) MR_REQUIRES(p->mu);
static loop *join_locked(mr_pool *p)
{
    for (loop *l = p->loops; l; l = l->next)
        if (atomic_load_explicit(&l->claimed, memory_order_relaxed) < l->n_parts &&
            atomic_load_explicit(&l->n_inside, memory_order_relaxed) + 1 < p->n_threads) {
            atomic_fetch_add_explicit(&l->n_inside, 1, memory_order_relaxed);
            return l;
        }
    return NULL;
}

/* After the subtraction the loop may no longer exist: its caller spins on n_inside without the lock. */
static void leave_loop(mr_pool *p, loop *l)
{
    mr_lock(&p->mu);
    if (atomic_fetch_sub_explicit(&l->n_inside, 1, memory_order_acq_rel) == 1)
        mr_cond_broadcast(&p->left);
    mr_unlock(&p->mu);
}

/* Wakes threads for a loop, where that pays and fewer compute than may. */
static void invite_locked(mr_pool *p, const loop *l) MR_REQUIRES(p->mu);
static void invite_locked(mr_pool *p, const loop *l)
{
    int busy = p->n_workers - p->n_sleeping - p->n_spinning +
               atomic_load_explicit(&p->n_callers, memory_order_relaxed);
    int64_t n = MR_MIN(l->n_parts - 1, p->n_threads - busy) - p->n_spinning - p->n_guests_spinning;
    if (l->wakes && n > 0)
        wake_guests_locked(p, n - wake_workers_locked(p, n));
}

static void open_loop(mr_pool *p, loop *l)
{
    mr_lock(&p->mu);
    l->next = p->loops; /* the deepest loop first: others wait for it */
    p->loops = l;
    atomic_fetch_add_explicit(&p->n_loops, 1, memory_order_relaxed);
    invite_locked(p, l);
    mr_unlock(&p->mu);
}

static bool is_empty(const loop *l)
{
    return atomic_load_explicit(&((loop *)(uintptr_t)l)->n_inside, memory_order_acquire) == 0;
}

/* Spins until done(arg) or the time is up. */
static void spin_until(const mr_pool *p, bool (*done)(const void *), const void *arg)
{
    int64_t end = p->spin_ns ? mr_now_ns() + p->spin_ns : 0;
    while (p->spin_ns && !done(arg)) {
        for (int i = 0; i < 16; i++)
            cpu_relax();
        if (mr_now_ns() > end)
            return;
    }
}

static bool loop_is_empty(const void *l) { return is_empty(l); }

/* Lets no other thread join, and returns when all have left. */
static void close_loop(mr_pool *p, loop *l)
{
    mr_lock(&p->mu);
    loop **at = &p->loops;
    while (*at != l) {
        MR_ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    *at = l->next;
    mr_unlock(&p->mu);
    spin_until(p, loop_is_empty, l);
    if (is_empty(l))
        return;
    mr_lock(&p->mu);
    while (!is_empty(l))
        mr_cond_wait(&p->left, &p->mu);
    mr_unlock(&p->mu);
}

/* Depends only on its arguments, so that sums made part by part are the same each time. */
static int64_t count_parts(int n_threads, int64_t n, double cost_ns)
{
    if (!(cost_ns > 0))
        cost_ns = 1;
    double by_cost = (double)n * cost_ns / MIN_PART_NS;
    int64_t most = MR_MIN(n, (int64_t)n_threads * PARTS_PER_THREAD);
    return by_cost >= (double)most ? most : (int64_t)by_cost;
}

void mr_pool_for(mr_pool *p, int64_t n, double cost_ns,
                 void (*fn)(void *ctx, int64_t begin, int64_t end), void *ctx)
{
    if (n <= 0)
        return;
    mr_fp_mode mode = mr_denormals_flush();
    loop l = {.fn = fn, .ctx = ctx, .n = n, .n_parts = 1};
    int shares = mr_pool_shares(p);
    if (shares > 1)
        l.n_parts = count_parts(shares, n, cost_ns);
    l.wakes = (double)n * cost_ns >= WAKE_NS;
    if (l.n_parts <= 1) {
        fn(ctx, 0, n);
    } else if (mr_pool_threads(p) == 1) { /* the same parts, one after the other */
        for (int64_t part = 0; part < l.n_parts; part++)
            run_part(&l, part);
    } else {
        open_loop(p, &l);
        run_parts(p, &l, NULL, 0);
        close_loop(p, &l);
    }
    mr_denormals_restore(mode);
}

/* ---- tasks ---- */

static void run_task(const mr_pool *p, mr_task *t)
{
    frame f = {p, frames};
    frames = &f;
    t->fn(t); /* t may be freed or submitted again by its own function */
    frames = f.outer;
}

static mr_task *pop_task(mr_pool *p)
{
    mr_lock(&p->mu);
    mr_task *t = pop_locked(p);
    mr_unlock(&p->mu);
    return t;
}

/* Without workers: runs the queue empty, what its tasks submit included. */
static bool drain_tasks(mr_pool *p)
{
    mr_fp_mode mode = mr_denormals_flush();
    bool any = false;
    for (mr_task *t; (t = pop_task(p)); any = true)
        run_task(p, t);
    mr_denormals_restore(mode);
    return any;
}

/* ---- the spare ---- */

/* The spare: one more worker that runs tasks only while no caller computes. When the pool closes, it helps to empty the
 * queue. */
static void spare_main(void *arg)
{
    mr_pool *p = arg;
    mr_denormals_flush();
    mr_lock(&p->mu);
    for (;;) {
        bool may = p->closing || atomic_load(&p->n_callers) == 0;
        mr_task *t = may ? pop_locked(p) : NULL;
        if (t) {
            mr_unlock(&p->mu);
            run_task(p, t);
            mr_lock(&p->mu);
        } else if (p->closing) {
            break;
        } else {
            p->spare_asleep = true;
            mr_cond_wait(&p->spare_work, &p->mu);
            p->spare_asleep = false;
        }
    }
    mr_unlock(&p->mu);
}

/* Lets the spare run when no caller computes and more tasks are queued than workers are free.  Where no thread can be
 * started, the workers do it all.  n_callers changes without the lock: a submitter counts its task in n_tasks and then
 * looks at n_callers, a caller that ends does the reverse, both in sequential consistency, so at least one of them calls
 * the spare. */
static void call_spare_locked(mr_pool *p) MR_REQUIRES(p->mu);
static void call_spare_locked(mr_pool *p)
{
    int waiting = atomic_load_explicit(&p->n_tasks, memory_order_relaxed) - p->n_sleeping - p->n_spinning;
    bool may = p->n_workers > 0 && p->n_workers < p->n_threads && !p->closing &&
               atomic_load(&p->n_callers) == 0;
    if (waiting <= 0 || !may)
        return;
    if (!p->has_spare)
        p->has_spare = mr_thread_start(&p->spare, "compute/spare", spare_main, p) == 0;
    else if (p->spare_asleep)
        mr_cond_signal(&p->spare_work);
}

/* Without workers, the submitting thread runs the queue itself; n_draining keeps the pool alive until it is done. */
void mr_pool_submit(mr_pool *p, mr_task *t)
{
    mr_lock(&p->mu);
    push_locked(p, t);
    int ready = atomic_load_explicit(&p->n_tasks, memory_order_relaxed) +
                atomic_load_explicit(&p->n_loops, memory_order_relaxed);
    if (ready > p->n_spinning) /* threads that spin may take a loop first */
        wake_workers_locked(p, 1);
    call_spare_locked(p);
    bool drains = p->n_workers == 0 && !runs_task_of(p); /* otherwise the drain further up this stack runs it */
    p->n_draining += drains;
    mr_unlock(&p->mu); /* from here on the task may be over, and the pool with it unless this thread drains */
    if (!drains)
        return;
    drain_tasks(p);
    mr_lock(&p->mu);
    if (--p->n_draining == 0)
        mr_cond_broadcast(&p->left);
    mr_unlock(&p->mu);
}

bool mr_pool_help(mr_pool *p)
{
    if (p->n_workers == 0 && !runs_task_of(p))
        return drain_tasks(p);
    mr_task *t = pop_task(p);
    if (!t)
        return false;
    mr_fp_mode mode = mr_denormals_flush();
    run_task(p, t);
    mr_denormals_restore(mode);
    return true;
}

/* ---- workers ---- */

static bool has_ready(const void *arg)
{
    mr_pool *p = (mr_pool *)(uintptr_t)arg;
    return atomic_load_explicit(&p->n_loops, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&p->n_tasks, memory_order_relaxed) > 0;
}

/* Takes a loop or a task, waiting for one if need be; false when the pool closes. */
static bool next_work_locked(mr_pool *p, loop **l, mr_task **t) MR_REQUIRES(p->mu);
static bool next_work_locked(mr_pool *p, loop **l, mr_task **t)
{
    for (bool spun = false;;) {
        *t = NULL;
        if ((*l = join_locked(p)) || (*t = pop_locked(p))) /* loops first: someone waits for them */
            return true;
        if (p->closing)
            return false;
        if (!spun) {
            p->n_spinning++;
            mr_unlock(&p->mu);
            spin_until(p, has_ready, p);
            mr_lock(&p->mu);
            p->n_spinning--;
            spun = true;
        } else {
            p->n_sleeping++;
            mr_cond_wait(&p->work, &p->mu);
            p->n_sleeping--;
            spun = false;
        }
    }
}

/* The thread of a worker. Loops come before tasks, because the caller of a loop waits for it. */
static void worker_main(void *arg)
{
    mr_pool *p = arg;
    loop *l;
    mr_task *t;
    mr_denormals_flush();
    for (;;) {
        mr_lock(&p->mu);
        bool go_on = next_work_locked(p, &l, &t);
        mr_unlock(&p->mu);
        if (!go_on)
            return;
        if (l) {
            run_parts(p, l, NULL, 0);
            leave_loop(p, l);
        } else {
            run_task(p, t);
        }
    }
}

/* ---- callers and guests ---- */

void mr_pool_caller_begins(mr_pool *p)
{
    if (p)
        atomic_fetch_add(&p->n_callers, 1);
}

void mr_pool_caller_ends(mr_pool *p)
{
    if (!p || atomic_fetch_sub(&p->n_callers, 1) != 1 || atomic_load(&p->n_tasks) == 0)
        return;
    mr_lock(&p->mu);
    call_spare_locked(p);
    mr_unlock(&p->mu);
}

void mr_guest_init(mr_guest *g)
{
    *g = (mr_guest){0};
    mr_cond_init(&g->wake);
}

void mr_guest_deinit(mr_guest *g)
{
    MR_ASSERT(!g->listed);
    mr_cond_deinit(&g->wake);
}

typedef struct outlook { /* the condition that a guest spins for */
    mr_pool *pool;
    mr_guest *guest;
} outlook;

static bool has_parts_or_recall(const void *arg)
{
    const outlook *o = arg;
    return atomic_load_explicit(&o->guest->recalled, memory_order_acquire) ||
           atomic_load_explicit(&o->pool->n_loops, memory_order_relaxed) > 0;
}

static void spin_as_guest_locked(mr_pool *p, mr_guest *g) MR_REQUIRES(p->mu);
static void spin_as_guest_locked(mr_pool *p, mr_guest *g)
{
    p->n_guests_spinning++;
    mr_unlock(&p->mu);
    spin_until(p, has_parts_or_recall, &(outlook){p, g});
    mr_lock(&p->mu);
    p->n_guests_spinning--;
}

/* Returns once woken for a loop, recalled, or false: too late. */
static bool sleep_as_guest_locked(mr_pool *p, mr_guest *g, int64_t deadline_ns) MR_REQUIRES(p->mu);
static bool sleep_as_guest_locked(mr_pool *p, mr_guest *g, int64_t deadline_ns)
{
    bool in_time = true;
    g->next = p->guests;
    p->guests = g;
    g->listed = true;
    atomic_store(&g->asleep, true);
    while (g->listed && in_time && !is_recalled(g)) {
        if (deadline_ns)
            in_time = mr_cond_wait_until(&g->wake, &p->mu, deadline_ns);
        else
            mr_cond_wait(&g->wake, &p->mu);
    }
    atomic_store(&g->asleep, false);
    if (g->listed) {
        mr_guest **at = &p->guests;
        while (*at != g)
            at = &(*at)->next;
        *at = g->next;
        g->listed = false;
    }
    return in_time;
}

/* A guest alternates between running parts of loops, spinning once, and sleeping. It counts as a caller while it
 * computes, so that the spare does not run at the same time. */
bool mr_pool_stay(mr_pool *p, mr_guest *g, int64_t deadline_ns)
{
    bool in_time = true, spun = false;
    mr_fp_mode mode = mr_denormals_flush();
    mr_lock(&p->mu);
    atomic_store_explicit(&g->idle, true, memory_order_relaxed);
    while (!is_recalled(g) && in_time) {
        loop *l = join_locked(p);
        if (l) {
            atomic_store_explicit(&g->idle, false, memory_order_relaxed);
            mr_unlock(&p->mu);
            mr_pool_caller_begins(p);
            run_parts(p, l, g, deadline_ns);
            mr_pool_caller_ends(p);
            leave_loop(p, l);
            in_time = is_in_time(deadline_ns); /* others may open loops without end */
            mr_lock(&p->mu);
            atomic_store_explicit(&g->idle, true, memory_order_relaxed);
            spun = false;
        } else if (!spun) {
            spin_as_guest_locked(p, g);
            spun = true;
        } else {
            in_time = sleep_as_guest_locked(p, g, deadline_ns);
            spun = false;
        }
    }
    atomic_store_explicit(&g->idle, false, memory_order_relaxed);
    mr_unlock(&p->mu);
    mr_denormals_restore(mode);
    return is_recalled(g);
}

void mr_pool_recall(mr_pool *p, mr_guest *g)
{
    atomic_store_explicit(&g->idle, false, memory_order_relaxed);
    atomic_store(&g->recalled, true);
    if (!atomic_load(&g->asleep))
        return;
    mr_lock(&p->mu);
    mr_cond_signal(&g->wake);
    mr_unlock(&p->mu);
}

/* ---- creating and freeing ---- */

/* Ends the first n workers once the queue is empty, and frees the pool. */
static void close_pool(mr_pool *p, int n_workers)
{
    mr_lock(&p->mu);
    p->closing = true;
    mr_cond_broadcast(&p->work);
    mr_cond_signal(&p->spare_work);
    while (p->n_draining > 0)
        mr_cond_wait(&p->left, &p->mu);
    mr_unlock(&p->mu);
    for (int i = 0; i < n_workers; i++)
        mr_thread_join(&p->workers[i]);
    if (p->has_spare)
        mr_thread_join(&p->spare);
    MR_ASSERT(p->head == NULL && p->loops == NULL);
    MR_ASSERT(p->n_sleeping == 0 && p->n_spinning == 0 && !p->guests);
    MR_ASSERT(atomic_load(&p->n_tasks) == 0 && atomic_load(&p->n_loops) == 0);
    mr_cond_deinit(&p->left);
    mr_cond_deinit(&p->work);
    mr_cond_deinit(&p->spare_work);
    mr_mutex_deinit(&p->mu);
    mr_free(p);
}

/* Without its workers; NULL: no memory. */
static mr_pool *make_pool(int n_threads, int n_workers)
{
    mr_pool *p = NULL;
    size_t bytes = sizeof(*p) + (size_t)n_workers * sizeof(mr_thread);
    bytes = (bytes + MR_CACHE_LINE - 1) / MR_CACHE_LINE * MR_CACHE_LINE;
    if (!(p = aligned_alloc(MR_CACHE_LINE, bytes)))
        return NULL;
    memset(p, 0, bytes);
    p->n_threads = n_threads;
    p->n_workers = n_workers;
    p->spin_ns = mr_cpu_count() > 1 ? SPIN_NS : 0; /* on one core, spinning only delays other threads */
    mr_mutex_init(&p->mu);
    mr_cond_init(&p->work);
    mr_cond_init(&p->spare_work);
    mr_cond_init(&p->left);
    return p;
}

/* Starts the workers; when one cannot be started, those before it are ended again. */
static mr_status *new_pool(const char *name, int n_threads, int n_workers, mr_pool **out)
{
    if (n_threads < 1 || n_threads > MR_POOL_MAX_THREADS)
        return mr_invalid("pool '%s': %d threads, expected 1 to %d", name, n_threads,
                          MR_POOL_MAX_THREADS);
    mr_pool *p = make_pool(n_threads, n_workers);
    if (!p)
        return mr_error(MR_RESOURCE_EXHAUSTED, "pool '%s': no memory", name);
    for (int i = 0; i < n_workers; i++) {
        char label[32];
        snprintf(label, sizeof(label), "%.9s/%d", name, i);
        int err = mr_thread_start(&p->workers[i], label, worker_main, p);
        if (err) {
            p->n_workers = i;
            close_pool(p, i);
            errno = err;
            return mr_error(MR_RESOURCE_EXHAUSTED, "pool '%s': cannot start thread %d of %d: %m",
                            name, i + 1, n_workers);
        }
    }
    *out = p;
    return NULL;
}

mr_status *mr_pool_new(const char *name, int n_threads, mr_pool **out)
{
    return new_pool(name, n_threads, n_threads - 1, out);
}

mr_status *mr_pool_new_served(const char *name, int n_threads, mr_pool **out)
{
    return new_pool(name, n_threads, n_threads, out);
}

void mr_pool_free(mr_pool *p)
{
    if (!p)
        return;
    MR_ASSERT(!runs_task_of(p)); /* a worker cannot join itself */
    close_pool(p, p->n_workers);
}

int mr_pool_threads(const mr_pool *p) { return p ? p->n_threads : 1; }
int mr_pool_workers(const mr_pool *p) { return p ? p->n_workers : 0; }

int mr_pool_idle(mr_pool *p)
{
    mr_lock(&p->mu);
    int n = p->n_sleeping + p->n_spinning - atomic_load_explicit(&p->n_tasks, memory_order_relaxed) -
            atomic_load_explicit(&p->n_loops, memory_order_relaxed);
    mr_unlock(&p->mu);
    return MR_MAX(n, 0);
}
