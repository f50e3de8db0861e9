/* ops/queue/waiting.c -- the stages of a waiter: it is created, waits in a line, is released, and its
 * run ends.
 *
 * A waiter is released under the lock, and `line` is NULL afterwards, so a change and a cancellation
 * cannot both release it.  The thread that releases a waiter also ends its run, after it has unlocked.
 * Before the waiter is freed, its cancellation is unregistered, which waits for a callback that is
 * already running.  That callback needs only the lock, which is not held at this point, so this cannot
 * deadlock.
 *
 * The reference to the awaited object is dropped before the run ends: after the last run of a session,
 * its device may be freed at any time. */
#include "ops/queue/waiting.h"

#include <string.h>

void mr_waited_init(mr_waited *on, const mr_object_type *type, const mr_waited_kind *kind)
{
    mr_object_init(&on->base, type);
    mr_mutex_init(&on->mu);
    on->kind = kind;
}

void mr_waited_deinit(mr_waited *on) { mr_mutex_deinit(&on->mu); }

/* ---- lines ---- */

static void append_waiter(mr_waiters *l, mr_waiter *w)
{
    w->next = NULL;
    w->prev = l->last;
    if (l->last)
        l->last->next = w;
    else
        l->first = w;
    l->last = w;
}

static void take_out(mr_waiters *l, mr_waiter *w)
{
    if (w->prev)
        w->prev->next = w->next;
    else
        l->first = w->next;
    if (w->next)
        w->next->prev = w->prev;
    else
        l->last = w->prev;
}

void mr_waiter_let_go(mr_waiter *w, mr_status *st, mr_waiters *gone)
{
    MR_ASSERT(w->line);
    take_out(w->line, w);
    w->line = NULL;
    w->st = st;
    append_waiter(gone, w);
}

/* ---- ending runs, without the lock ---- */

static void end_run(mr_waiter *w)
{
    mr_run *r = w->r;
    mr_waited *on = w->on;
    mr_status *st = w->st;
    if (w->registered && !w->in_callback)
        mr_cancel_unregister(r->step->cancel, &w->entry);
    if (!st)
        st = on->kind->give(w);
    if (on->kind->forget)
        on->kind->forget(w);
    mr_small_free(w, on->kind->waiter_bytes);
    mr_object_unref(&on->base);
    mr_run_done(r, st);
}

static void end_runs(mr_waiters *gone)
{
    for (mr_waiter *w = gone->first, *next; w; w = next) {
        next = w->next;
        end_run(w);
    }
}

void mr_waited_unlock(mr_waited *on, mr_waiters *gone) MR_NO_TSA
{
    mr_waiters none = {0};
    gone = gone ? gone : &none;
    on->kind->advance(on, gone);
    mr_unlock(&on->mu);
    end_runs(gone);
}

/* ---- waiting and cancellation ---- */

void *mr_waiter_new(mr_waited *on, mr_run *r, const char *text)
{
    mr_waiter *w = mr_small_alloc(on->kind->waiter_bytes);
    memset(w, 0, on->kind->waiter_bytes);
    w->on = on;
    w->r = r;
    w->cancelled = text;
    return w;
}

static mr_status *cancelled_error(const mr_waiter *w)
{
    return mr_error(MR_CANCELLED, "%s", w->cancelled);
}

static void on_cancel(mr_cancel_entry *e)
{
    mr_waiter *w = (mr_waiter *)e;
    mr_waited *on = w->on;
    mr_waiters gone = {0};
    mr_lock(&on->mu);
    if (!w->line) { /* already released; the releasing thread waits for this callback to return */
        mr_unlock(&on->mu);
        return;
    }
    w->in_callback = true;
    mr_waiter_let_go(w, cancelled_error(w), &gone);
    on->kind->advance(on, &gone); /* it may have blocked waiters after it */
    mr_unlock(&on->mu);
    end_runs(&gone);
}

/* Most ops need not wait, so cancellation is registered only for a waiter that is still in line.  The lock is
 * held: a callback that fires at once waits for it, and then finds the waiter in its line. */
static void stay_locked(mr_waiter *w, mr_cancel *c, mr_waiters *gone)
{
    w->entry.fn = on_cancel;
    w->registered = mr_cancel_register(c, &w->entry);
    if (w->registered)
        return;
    mr_waiter_let_go(w, cancelled_error(w), gone);
    w->on->kind->advance(w->on, gone);
}

void mr_wait(mr_waiter *w, mr_waiters *line)
{
    mr_waited *on = w->on;
    mr_cancel *c = w->cancelled ? w->r->step->cancel : NULL;
    mr_waiters gone = {0};
    mr_object_ref(&on->base); /* another thread may end w, and drop its reference, before this one unlocks */
    mr_lock(&on->mu);
    w->line = line;
    append_waiter(line, w);
    if (c && mr_cancel_started(c))
        mr_waiter_let_go(w, cancelled_error(w), &gone);
    on->kind->advance(on, &gone);
    if (w->line && c)
        stay_locked(w, c, &gone);
    mr_unlock(&on->mu);
    mr_object_unref(&on->base);
    end_runs(&gone);
}
