/* exec/opencl/waiter.c -- the thread that waits for what a device was asked to do.
 *
 * A device does everything in order, so events are waited for in the order they were made.  OpenCL could call us back
 * itself, but from its own threads, in which nothing may be queued or waited for: what follows a copy is a kernel. */
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

static waiting *take(mr_opencl_waiter *w)
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

static void wait_on(void *arg)
{
    mr_opencl_waiter *w = arg;
    for (;;) {
        waiting *x = take(w);
        x->done(x->arg, w->driver->wait(x->e));
        mr_small_free(x, sizeof *x);
    }
}

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

void mr_opencl_wait(mr_opencl_waiter *w, mr_cl_event *e, void (*done)(void *arg, mr_status *st), void *arg)
{
    waiting *x = mr_small_alloc(sizeof *x);
    *x = (waiting){e, done, arg, NULL};
    mr_lock(&w->mu);
    *w->last = x;
    w->last = &x->next;
    mr_cond_signal(&w->more);
    mr_unlock(&w->mu);
}
