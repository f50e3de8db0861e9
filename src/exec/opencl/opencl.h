/* exec/opencl/opencl.h -- the OpenCL device: a device of type GPU.
 *
 * A physical device is opened once and kept as long as the process lives: one context, one queue, its memory,
 * and a thread that waits for queued commands. A session's mr_device is a name for it with its own resources.
 * Without OpenCL, or without a suitable device, there is simply no GPU.
 *
 * MILLRACE_OPENCL selects devices. Unset: all except the host's CPU, and nothing is even loaded if the
 * machine has no driver other than pocl. "all": any device. "off": none. Any other word: devices of platforms
 * with that word in their name. MILLRACE_OPENCL_MEMORY: bytes of a device to use at most. */
#ifndef MR_EXEC_OPENCL_OPENCL_H
#define MR_EXEC_OPENCL_OPENCL_H

#include "exec/opencl/driver.h"
#include "run/accel.h"

/* Lets sessions have such devices, if the environment allows it. Cheap, and may be called again. */
void mr_opencl_register(void);

/* ---- library.c ---- */
/* The driver, opened on the first call; the error says what is missing. */
mr_status *mr_opencl_driver(const mr_cl_driver **out);
/* Whether the driver should be opened. *want is for mr_cl_driver.list. */
bool mr_opencl_wanted(const char **want);

/* ---- memory.c ---- */
typedef struct mr_opencl_memory mr_opencl_memory;
/* The pointers it hands out are addresses that the host cannot read; `limit` in bytes. */
mr_opencl_memory *mr_opencl_memory_new(const mr_cl_driver *driver, mr_cl_device *d, const char *name, uint64_t limit,
                                       uint64_t max_buffer);
void mr_opencl_memory_free(mr_opencl_memory *m); /* with all blocks; NULL is fine */
mr_allocator *mr_opencl_allocator(mr_opencl_memory *m);
/* The buffer and offset that an address stands for; INTERNAL if it is not in this memory. */
mr_status *mr_opencl_find(mr_opencl_memory *m, const void *p, size_t bytes, void **buffer, size_t *at);

/* ---- waiter.c ---- */
typedef struct mr_opencl_waiter mr_opencl_waiter;
/* Calls done(arg, status), on the waiter's thread, when the command is done; in the order of the calls. */
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
/* The devices of this machine, opened. One that cannot be opened is left out, with a warning in the log. */
int mr_opencl_devices(mr_opencl *const **out);

/* Queues a copy; the host tensor is held until it is done. done is called by the waiter, or at once on error. */
void mr_opencl_copy_in(mr_opencl *p, const mr_tensor *host, mr_tensor *dst, void (*done)(void *, mr_status *), void *arg);
void mr_opencl_copy_out(mr_opencl *p, const mr_tensor *src, mr_tensor *host, void (*done)(void *, mr_status *), void *arg);
/* The same without a callback: the bytes are copied to a temporary block first. */
mr_status *mr_opencl_copy_in_soon(mr_opencl *p, const void *host, mr_tensor *dst);

/* ---- device.c ---- */
mr_opencl *mr_opencl_of(const mr_device *d);
/* ---- start.c ---- */
void mr_opencl_start(mr_run *r);
/* ---- queue.c ---- */
extern const struct mr_accel mr_opencl_accel;

#endif
