/* run/blocking_work.c -- work on a thread that may block, or cancelled before it got one.
 *
 * Two sides may call fn: the thread that takes the work, and the cancellation. If the cancellation finds the
 * work in the queue of base/blocking.h, it removes it and calls fn. Otherwise a thread has the work, or none
 * will get it (mr_blocking_submit refuses work that was withdrawn before), and that side calls fn. It calls
 * mr_cancel_unregister first, which waits for a callback that is running and reports whether there was one.
 * So fn is called exactly once. */
#include "run/blocking_work.h"

#include <stddef.h>

#include "base/blocking.h"

/* Runs on a thread that may block, or on the starter's thread if no thread could be started. Unregistering first
 * settles whether the cancellation came earlier; a callback that is running finishes before fn is called. */
static void run_work(mr_task *t)
{
    mr_blocking_work *w = (mr_blocking_work *)((char *)t - offsetof(mr_blocking_work, task));
    bool in_time = mr_cancel_unregister(w->cancel, &w->entry);
    w->fn(w, !in_time);
}

/* The callback of the cancellation. If the work has left the queue already, the side that took it calls fn. fn may
 * free the entry; mr_cancel allows that. */
static void withdraw_work(mr_cancel_entry *e)
{
    mr_blocking_work *w = (mr_blocking_work *)((char *)e - offsetof(mr_blocking_work, entry));
    if (mr_blocking_withdraw(&w->task))
        w->fn(w, true);
}

/* Registers with the cancellation before it submits the work, so no cancellation is missed: work that is withdrawn
 * before it is submitted is refused by mr_blocking_submit. Once fn may have been called, w may be freed, so
 * nothing touches it after the last call. */
void mr_blocking_work_start(mr_blocking_work *w, mr_cancel *cancel)
{
    MR_ASSERT(w->fn);
    w->task = (mr_task){.fn = run_work};
    w->entry = (mr_cancel_entry){.fn = withdraw_work};
    w->cancel = cancel;
    if (!mr_cancel_register(cancel, &w->entry))
        w->fn(w, true);
    else if (!mr_blocking_submit(&w->task)) /* no thread can be started, or the step was cancelled just now */
        run_work(&w->task);
}
