/* exec/opencl/waiter.c -- the thread that waits for the commands of a device.
 *
 * A device runs all commands in order, so events are waited for in the order they were made. OpenCL could
 * call back itself, but on its own threads, where nothing may be queued or waited for; and what follows a
 * copy is a kernel.
 *
 * Invariant: `last` points to the `next` of the last entry, or to `first` if the list is empty. */
#include "base/memory.h"
#include "exec/opencl/opencl.h"

typedef struct waiting {
    mr_cl_event *e;
    void (*done)(void *arg, mr_status *st);
    void *arg;
    struct waiting *next;
} waiting;

struct mr_opencl_waiter {
    const mr_cl_driver *driver;
    mr_thread thread;
    mr_mutex mu;
    waiting *first MR_GUARDED_BY(mu), **last MR_GUARDED_BY(mu);
    mr_cond more; /* first is not NULL */
};

/* Blocks until there is an event, and takes the oldest. */
static waiting *take_event(mr_opencl_waiter *w)
{
    mr_lock(&w->mu);
    while (!w->first)
        mr_cond_wait(&w->more, &w->mu);
    waiting *x = w->first;
    w->first = x->next;
    if (!w->first)
        w->last = &w->first;
    mr_unlock(&w->mu);
    return x;
}

/* The thread's body; it never ends, because a physical device is never freed. */
static void wait_on(void *arg)
{
    mr_opencl_waiter *w = arg;
    for (;;) {
        waiting *x = take_event(w);
        x->done(x->arg, w->driver->wait(x->e));
        mr_small_free(x, sizeof *x);
    }
}

/* NULL if the thread cannot be started. */
mr_opencl_waiter *mr_opencl_waiter_new(const mr_cl_driver *driver)
{
    mr_opencl_waiter *w = mr_new(mr_opencl_waiter);
    w->driver = driver;
    w->last = &w->first;
    mr_mutex_init(&w->mu);
    mr_cond_init(&w->more);
    if (mr_thread_start(&w->thread, "opencl", wait_on, w) == 0)
        return w;
    mr_cond_deinit(&w->more);
    mr_mutex_deinit(&w->mu);
    mr_free(w);
    return NULL;
}

/* Events must be passed in the order in which their commands were queued; the waiter waits for them in that order. */
void mr_opencl_wait(mr_opencl_waiter *w, mr_cl_event *e, void (*done)(void *arg, mr_status *st), void *arg)
{
    waiting *x = mr_small_alloc(sizeof *x);
    *x = (waiting){e, done, arg, NULL};
    mr_lock(&w->mu);
    MR_ASSERT(!*w->last);
    *w->last = x;
    w->last = &x->next;
    mr_cond_signal(&w->more);
    mr_unlock(&w->mu);
}
