/* exec/opencl/physical.c -- the OpenCL devices of the machine, opened once, and copies to and from them.
 *
 * The list of devices is made on first use and never changes afterwards, so callers may read it without the
 * lock.
 *
 * A copy holds a reference to its host tensor until it is done. The device side needs none: if its memory is
 * handed out again, later commands are queued behind the copy. */
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "exec/opencl/opencl.h"
#include "kernels_cl.inc" /* mr_opencl_source: the text of all kernels */

enum { MOST = 16 };

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static mr_opencl *devices[MOST] MR_GUARDED_BY(mu);
static int n_devices MR_GUARDED_BY(mu) = -1; /* not looked for yet */

/* ---- opening ---- */

/* MILLRACE_OPENCL_MEMORY, or 15/16 of the device's memory: other programs need some too. */
static uint64_t memory_limit(const mr_cl_info *info)
{
    const char *said = getenv("MILLRACE_OPENCL_MEMORY");
    int64_t bytes = 0;
    bool given = said && mr_sv_to_i64(mr_sv_of(said), &bytes) && bytes > 0;
    return given ? MR_MIN((uint64_t)bytes, info->memory) : info->memory / 16 * 15;
}

/* A physical device is never freed, so on failure the opened device stays open. */
static mr_status *open_one(const mr_cl_driver *driver, int i, const mr_cl_info *info, mr_opencl **out)
{
    mr_cl_device *d = NULL;
    MR_TRY(driver->open(i, mr_opencl_source, &d));
    mr_opencl_waiter *w = mr_opencl_waiter_new(driver);
    if (!w)
        return mr_error(MR_RESOURCE_EXHAUSTED, "cannot start the thread that waits for the device");
    mr_opencl *p = mr_new(mr_opencl);
    *p = (mr_opencl){.driver = driver, .d = d, .info = *info, .waiter = w};
    p->memory = mr_opencl_memory_new(driver, d, "opencl", memory_limit(info), info->max_buffer);
    *out = p;
    return NULL;
}

/* Frees the status. */
static void warn_failed(mr_status *st, const char *what)
{
    mr_warn("%s: %s", what, mr_status_message(st));
    mr_status_free(st);
}

/* Opens every wanted device. A machine without OpenCL has an empty list; errors only go to the log. */
static void open_all(void) MR_REQUIRES(mu)
{
    const char *want;
    const mr_cl_driver *driver = NULL;
    mr_cl_info found[MOST];
    n_devices = 0;
    mr_status *st = mr_opencl_wanted(&want) ? mr_opencl_driver(&driver) : NULL;
    if (st)
        warn_failed(st, "OpenCL devices are not available");
    int n = driver ? driver->list(want, found, MOST) : 0;
    for (int i = 0; i < n; i++) {
        MR_ASSERT(n_devices < MOST);
        st = open_one(driver, i, &found[i], &devices[n_devices]);
        if (st)
            warn_failed(st, found[i].name);
        else
            n_devices++;
    }
}

/* The first call opens the devices, which compiles the kernels and may take seconds; other callers wait for it. */
int mr_opencl_devices(mr_opencl *const **out)
{
    mr_lock(&mu);
    if (n_devices < 0)
        open_all();
    int n = n_devices;
    mr_unlock(&mu);
    *out = devices; /* never changes again */
    return n;
}

/* ---- copies ---- */

typedef struct copy {
    const mr_tensor *host; /* a reference, until the copy is done */
    void (*done)(void *arg, mr_status *st);
    void *arg;
} copy;

/* Called by the waiter. The reference is dropped first: done may free everything else. */
static void copy_done(void *arg, mr_status *st)
{
    copy c = *(copy *)arg;
    mr_small_free(arg, sizeof c);
    mr_tensor_unref((mr_tensor *)(uintptr_t)c.host);
    c.done(c.arg, st);
}

/* Holds the host tensor until the event. done is called on the waiter's thread. */
static void copy_later(mr_opencl *p, mr_cl_event *e, const mr_tensor *host, void (*done)(void *, mr_status *), void *arg)
{
    copy *c = mr_small_alloc(sizeof *c);
    *c = (copy){mr_tensor_ref(host), done, arg};
    mr_opencl_wait(p->waiter, e, copy_done, c);
}

/* Queues a write of the whole tensor; `from` must not change until the event. */
static mr_status *begin_in(mr_opencl *p, const void *from, const mr_tensor *dst, mr_cl_event **e)
{
    void *buffer;
    size_t at, bytes = mr_tensor_bytes(dst);
    MR_TRY(mr_opencl_find(p->memory, dst->data, bytes, &buffer, &at));
    return p->driver->write(p->d, buffer, at, from, bytes, e);
}

/* Queues a read of the whole tensor; `to` is filled when the event ends. */
static mr_status *begin_out(mr_opencl *p, const mr_tensor *src, void *to, mr_cl_event **e)
{
    void *buffer;
    size_t at, bytes = mr_tensor_bytes(src);
    MR_TRY(mr_opencl_find(p->memory, src->data, bytes, &buffer, &at));
    return p->driver->read(p->d, buffer, at, to, bytes, e);
}

/* Without an event nothing was queued, either because the tensor is empty or because of an error. */
void mr_opencl_copy_in(mr_opencl *p, const mr_tensor *host, mr_tensor *dst, void (*done)(void *, mr_status *), void *arg)
{
    mr_cl_event *e = NULL;
    MR_ASSERT(mr_tensor_bytes(host) == mr_tensor_bytes(dst));
    mr_status *st = dst->n > 0 ? begin_in(p, host->data, dst, &e) : NULL;
    if (e)
        copy_later(p, e, host, done, arg);
    else
        done(arg, st);
}

void mr_opencl_copy_out(mr_opencl *p, const mr_tensor *src, mr_tensor *host, void (*done)(void *, mr_status *), void *arg)
{
    mr_cl_event *e = NULL;
    MR_ASSERT(mr_tensor_bytes(host) == mr_tensor_bytes(src));
    mr_status *st = src->n > 0 ? begin_out(p, src, host->data, &e) : NULL;
    if (e)
        copy_later(p, e, host, done, arg);
    else
        done(arg, st);
}

/* Errors are dropped: they show up again when the result is read. */
static void forget_status(void *arg, mr_status *st)
{
    mr_free(arg);
    mr_status_free(st);
}

/* Copies to a temporary block first, so the caller may change its memory at once. */
mr_status *mr_opencl_copy_in_soon(mr_opencl *p, const void *host, mr_tensor *dst)
{
    size_t bytes = mr_tensor_bytes(dst);
    mr_cl_event *e = NULL;
    if (bytes == 0)
        return NULL;
    void *aside = mr_try_alloc(bytes);
    if (!aside)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot allocate %zu bytes for a copy to the device",
                        bytes);
    memcpy(aside, host, bytes);
    mr_status *st = begin_in(p, aside, dst, &e);
    if (e)
        mr_opencl_wait(p->waiter, e, forget_status, aside);
    else
        mr_free(aside);
    return st;
}
