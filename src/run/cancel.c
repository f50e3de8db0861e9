/* run/cancel.c -- cancellation: callbacks that end waits.
 *
 * A manager is a list of entries and a flag. Starting it removes the entries one by one and calls each with
 * the lock released, so a callback may register, unregister or start elsewhere. A callback often frees the
 * object that its entry is embedded in. So an entry is not touched once its callback has begun. The manager
 * remembers the one in progress by its address, for threads that unregister it meanwhile.
 *
 * Invariants:
 * - An entry is in the list exactly while its state is LISTED.
 * - `calling` is true from mr_cancel_start until call_all has called every entry; only the thread `caller` is
 * inside.
 * - `running` is an entry only while `calling` is true. */
#include "run/cancel.h"

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"

enum { UNKNOWN = 0, LISTED, CALLED };

static _Thread_local int depth;               /* callbacks on this thread's stack */
static _Thread_local mr_cancel *started_here; /* their entries are not called yet */

struct mr_cancel {
    mr_mutex mu;
    mr_cond idle;                    /* `running` or `calling` changed */
    mr_cancel_entry head;            /* ring of entries MR_GUARDED_BY(mu) */
    const mr_cancel_entry *running;  /* its callback is being called MR_GUARDED_BY(mu) */
    pthread_t caller;                /* by this thread MR_GUARDED_BY(mu) */
    bool calling;                    /* mr_cancel_start is at work MR_GUARDED_BY(mu) */
    bool doomed;                     /* freed from inside a callback: call_all does it MR_GUARDED_BY(mu) */
    _Atomic bool started;            /* written under mu, read anywhere */
    mr_cancel *parent;
    mr_cancel_entry in_parent;
    mr_cancel *next_started;
};

/* The child's entry in its parent: cancelling the parent cancels the child. Runs inside a callback of the parent,
 * so mr_cancel_start only queues the child here. */
static void parent_started(mr_cancel_entry *e)
{
    mr_cancel *c = (mr_cancel *)((char *)e - offsetof(mr_cancel, in_parent));
    mr_cancel_start(c);
}

/* If the parent has started already, the child is started from the beginning and is not registered. */
mr_cancel *mr_cancel_new(mr_cancel *parent)
{
    mr_cancel *c = mr_new(mr_cancel);
    mr_mutex_init(&c->mu);
    mr_cond_init(&c->idle);
    c->head.next = c->head.prev = &c->head;
    c->parent = parent;
    c->in_parent.fn = parent_started;
    if (parent && !mr_cancel_register(parent, &c->in_parent)) {
        c->parent = NULL;
        atomic_store(&c->started, true);
    }
    return c;
}

/* No thread may know the manager any more. */
static void destroy_manager(mr_cancel *c)
{
    mr_cond_deinit(&c->idle);
    mr_mutex_deinit(&c->mu);
    mr_free(c);
}

/* Waits until a start in another thread is over. From inside a callback of its own start it cannot wait for
 * itself: then it only marks the manager, and call_all frees it. */
void mr_cancel_free(mr_cancel *c)
{
    if (!c)
        return;
    if (c->parent)
        mr_cancel_unregister(c->parent, &c->in_parent);
    mr_lock(&c->mu);
    MR_ASSERT(c->head.next == &c->head);
    while (c->calling && !pthread_equal(c->caller, pthread_self()))
        mr_cond_wait(&c->idle, &c->mu);
    c->doomed = c->calling;
    bool now = !c->calling;
    mr_unlock(&c->mu);
    if (now)
        destroy_manager(c);
}

/* Needs the lock of the manager that holds e. */
static void unlink_locked(mr_cancel_entry *e)
{
    MR_ASSERT(e->prev->next == e && e->next->prev == e);
    e->prev->next = e->next;
    e->next->prev = e->prev;
    e->next = e->prev = NULL;
}

/* The entry must not be registered anywhere. If the manager has started, the entry is marked as called, so that
 * unregistering it later reports false. */
bool mr_cancel_register(mr_cancel *c, mr_cancel_entry *e)
{
    mr_lock(&c->mu);
    MR_ASSERT(e->fn);
    bool ok = !atomic_load_explicit(&c->started, memory_order_relaxed);
    e->state = ok ? LISTED : CALLED;
    if (ok) {
        e->next = &c->head;
        e->prev = c->head.prev;
        e->prev->next = e;
        c->head.prev = e;
    }
    mr_unlock(&c->mu);
    return ok;
}

/* Waits for the callback if it is running on another thread. Called from inside that very callback, it does
 * not wait. */
bool mr_cancel_unregister(mr_cancel *c, mr_cancel_entry *e)
{
    mr_lock(&c->mu);
    bool removed = e->state == LISTED;
    if (removed) {
        unlink_locked(e);
        e->state = UNKNOWN;
    }
    while (c->running == e && !pthread_equal(c->caller, pthread_self()))
        mr_cond_wait(&c->idle, &c->mu);
    mr_unlock(&c->mu);
    return removed;
}

/* Calls every entry of a started manager, each with the lock released. Entries cannot be added any more. */
static void call_all(mr_cancel *c)
{
    mr_lock(&c->mu);
    MR_ASSERT(c->calling && !c->running && pthread_equal(c->caller, pthread_self()));
    while (c->head.next != &c->head) {
        mr_cancel_entry *e = c->head.next;
        unlink_locked(e);
        e->state = CALLED;
        c->running = e;
        void (*fn)(mr_cancel_entry *) = e->fn;
        mr_unlock(&c->mu);
        fn(e); /* may free e */
        mr_lock(&c->mu);
        c->running = NULL;
        MR_ASSERT(c->calling);
        mr_cond_broadcast(&c->idle);
    }
    c->calling = false;
    bool doomed = c->doomed;
    mr_cond_broadcast(&c->idle);
    mr_unlock(&c->mu);
    if (doomed)
        destroy_manager(c);
}

/* Inside a callback the work is left to the outermost call on this thread: functions that call functions form
 * chains of managers thousands deep, and recursion would need as much stack. Until call_all is over nobody
 * else frees or resets the manager (`calling`). */
void mr_cancel_start(mr_cancel *c)
{
    mr_lock(&c->mu);
    bool first = !atomic_load_explicit(&c->started, memory_order_relaxed);
    if (first) {
        atomic_store(&c->started, true);
        c->calling = true;
        c->caller = pthread_self();
    }
    mr_unlock(&c->mu);
    if (!first)
        return;
    c->next_started = started_here;
    started_here = c;
    if (depth > 0)
        return;
    depth++;
    while ((c = started_here)) {
        started_here = c->next_started;
        call_all(c);
    }
    depth--;
}

bool mr_cancel_in_callback(void) { return depth > 0; }

bool mr_cancel_started(const mr_cancel *c)
{
    return atomic_load_explicit(&((mr_cancel *)(uintptr_t)c)->started, memory_order_acquire);
}

/* A parent that starts between the two checks finds this manager started and does nothing, so it is checked
 * again at the end. */
bool mr_cancel_reset(mr_cancel *c)
{
    if (c->parent && mr_cancel_started(c->parent))
        return false;
    mr_lock(&c->mu);
    while (c->calling)
        mr_cond_wait(&c->idle, &c->mu);
    MR_ASSERT(c->head.next == &c->head);
    atomic_store(&c->started, false);
    mr_unlock(&c->mu);
    if (c->parent && mr_cancel_started(c->parent))
        mr_cancel_start(c);
    return !mr_cancel_started(c);
}

static bool stop_asked(const void *c) { return mr_cancel_started(c); }

mr_stop mr_cancel_stop(const mr_cancel *c) { return (mr_stop){stop_asked, c}; }
