/* exec/opencl/opencl.h -- the OpenCL device: a device of type GPU.
 *
 * A physical device is opened once and kept for the life of the process: one context, one queue, its memory, and a thread
 * that waits for what was queued.  A session's mr_device is a name for it with resources of its own.  Without OpenCL, or
 * without a device that is worth it, there is simply no GPU.
 *
 * MILLRACE_OPENCL: unset, devices other than the host's CPU are taken, and nothing is even loaded when the machine has no
 * driver but pocl; "all" takes any device, "off" none, other words those of platforms with that word in their name.
 * MILLRACE_OPENCL_MEMORY: bytes of a device to use at most. */
#ifndef MR_EXEC_OPENCL_OPENCL_H
#define MR_EXEC_OPENCL_OPENCL_H

#include "exec/opencl/driver.h"
#include "run/accel.h"

/* Lets sessions have such devices, where the environment says so.  Cheap, and harmless when called again. */
void mr_opencl_register(void);

/* ---- library.c ---- */
/* The driver, opened when it is first asked for; the error says what is missing. */
mr_status *mr_opencl_driver(const mr_cl_driver **out);
/* Is it worth opening?  *want is for mr_cl_driver.list. */
bool mr_opencl_wanted(const char **want);

/* ---- memory.c ---- */
typedef struct mr_opencl_memory mr_opencl_memory;
/* Pointers it hands out are addresses that nobody can read; `limit` in bytes. */
mr_opencl_memory *mr_opencl_memory_new(const mr_cl_driver *driver, mr_cl_device *d, const char *name, uint64_t limit,
                                       uint64_t max_buffer);
void mr_opencl_memory_free(mr_opencl_memory *m); /* and what is in it; NULL is fine */
mr_allocator *mr_opencl_allocator(mr_opencl_memory *m);
/* What an address stands for; INTERNAL when it is not in its memory. */
mr_status *mr_opencl_find(mr_opencl_memory *m, const void *p, size_t bytes, void **buffer, size_t *at);

/* ---- waiter.c ---- */
typedef struct mr_opencl_waiter mr_opencl_waiter;
/* Calls done(arg, status), in a thread of its own, when the event is there; in the order of the calls. */
mr_opencl_waiter *mr_opencl_waiter_new(const mr_cl_driver *driver);
void mr_opencl_wait(mr_opencl_waiter *w, mr_cl_event *e, void (*done)(void *arg, mr_status *st), void *arg);

/* ---- physical.c ---- */
typedef struct mr_opencl { /* a physical device; never freed */
    const mr_cl_driver *driver;
    mr_cl_device *d;
    mr_cl_info info;
    mr_opencl_memory *memory;
    mr_opencl_waiter *waiter;
} mr_opencl;
/* The devices there are, opened.  One that does not open is left out, with a warning in the log. */
int mr_opencl_devices(mr_opencl *const **out);

/* Queues a copy; the tensors are held until it is done.  done is called by the waiter, or at once on error. */
void mr_opencl_copy_in(mr_opencl *p, const mr_tensor *host, mr_tensor *dst, void (*done)(void *, mr_status *), void *arg);
void mr_opencl_copy_out(mr_opencl *p, const mr_tensor *src, mr_tensor *host, void (*done)(void *, mr_status *), void *arg);
/* The same without anybody who wants to know: what is copied is put aside first. */
mr_status *mr_opencl_copy_in_soon(mr_opencl *p, const void *host, mr_tensor *dst);

/* ---- device.c ---- */
mr_opencl *mr_opencl_of(const mr_device *d);
/* ---- start.c ---- */
void mr_opencl_start(mr_run *r);
/* ---- queue.c ---- */
extern const struct mr_accel mr_opencl_accel;

#endif
