/* run/device.h -- devices (where ops run) and their names.
 *
 * A device type is one struct; a device is one instance with its memory, its resources and the threads it computes
 * with. CPU devices share the process's pool.
 *
 * Memory: the allocator of a device says whether it is host memory (mr_allocator.host). If it is not, the host must not
 * touch the device's tensors. A kernel's host_in and host_out name the arguments that are in host memory nevertheless
 * (shapes, axes), and the type's start function brings each input to the memory where the kernel expects it. */
#ifndef MR_RUN_DEVICE_H
#define MR_RUN_DEVICE_H

#include "base/pool.h"
#include "base/vec.h"
#include "graph/op.h"
#include "run/resource.h"

typedef struct mr_device mr_device;

typedef struct mr_device_type {
    const char *name;    /* "CPU" */
    const char *kernels; /* the type to borrow kernels from for ops without a kernel for this type; NULL: none */
    const char *own;     /* the type its own kernels are registered for; NULL: its name */
    int priority;        /* placement prefers the higher */
    /* Runs a node asynchronously in place of its kernel: it brings the inputs to the right memory, calls the kernel
     * when they are ready (mr_run_kernel) and ends the run (mr_run_done). NULL: the executor calls kernels directly.
     * Not called for nodes that touch no data (MR_HOST_ONLY without host_in). */
    void (*start)(mr_run *r);
    bool moves; /* start is called for _Send and _Recv too */
    /* The cost of a transfer between this device and another one, if it is known. NULL or false: the default cost. */
    bool (*link)(const mr_device *d, const mr_device *from, const mr_device *to, double *latency_s, double *bytes_per_s);
    /* Copy data from and to host memory; NULL: the device's memory is host memory. */
    void (*copy_in)(mr_device *d, const mr_tensor *host, mr_tensor *dst,
                    void (*done)(void *, mr_status *), void *arg);
    void (*copy_out)(mr_device *d, const mr_tensor *src, mr_tensor *host,
                     void (*done)(void *, mr_status *), void *arg);
    void (*free)(mr_device *d);
} mr_device_type;

typedef struct mr_speed { /* as far as it is known beforehand; for placement */
    double flops_per_s, bytes_per_s;
    double op_s; /* the least time a node takes */
} mr_speed;
extern const mr_speed mr_speed_cpu; /* an estimate for one core of a typical machine */

struct mr_device {
    const mr_device_type *type;
    const char *name; /* full: /job:localhost/replica:0/task:0/device:CPU:0; owned */
    mr_allocator *alloc;
    const struct mr_accel *accel; /* how kernels queue work (run/accel.h); NULL: kernels compute on the host */
    mr_resources *resources; /* owned, unless shared */
    bool shares;             /* the resources are another device's */
    mr_pool *pool;           /* for loops inside a kernel; borrowed */
    uint64_t incarnation;    /* random, not 0 */
    int64_t memory_limit;
    mr_speed speed;
};

/* The kernel of a node on a device: the type's own, else one of the type it borrows from, else the CPU's if d has its
 * own memory and the node only counts (see device.c). NULL: none. */
const mr_kernel *mr_device_kernel(const mr_device *d, const mr_node *n);
/* For makers of all types: a device with this full name, new resources and an incarnation, and with the CPU's allocator
 * and speed. It has `bytes` zeroed bytes, which begin with the mr_device. The type's free must free it with mr_free. */
mr_status *mr_device_new(const mr_device_type *type, const char *full_name, size_t bytes, mr_pool *pool, mr_device **out);

/* ---- makers ---- */
typedef MR_VEC(mr_device *) mr_device_vec;
typedef struct mr_device_maker { /* of a type; lives as long as the process */
    const char *type;
    /* Appends the devices TASK/device:TYPE:i, at most `limit` (negative: all there are). A machine without such a
     * device is not an error. */
    mr_status *(*make)(const struct mr_device_maker *m, const char *task, mr_pool *pool, int limit, mr_device_vec *out);
    void *user;
} mr_device_maker;
/* Every session and server made from now on gets these devices, after its CPUs. ALREADY_EXISTS if the type has a maker,
 * or is CPU. */
mr_status *mr_device_maker_register(const mr_device_maker *m);
/* Calls all makers; limit returns the maximum number of devices of a type. */
mr_status *mr_device_make_all(const char *task, mr_pool *pool, int (*limit)(void *ctx, const char *type), void *ctx, mr_device_vec *out);

extern const mr_device_type mr_device_cpu;
mr_status *mr_device_new_cpu(const char *full_name, mr_pool *pool, mr_device **out);
void mr_device_free(mr_device *d); /* NULL is fine */
/* Replaces the resources of d, which must be new, by those of `with`, which must outlive d. */
void mr_device_share(mr_device *d, mr_device *with);

/* ---- names ---- */
typedef struct mr_device_name {
    char job[64], type[32];
    int replica, task, id; /* -1: unspecified */
    bool has_job, has_type;
} mr_device_name;

/* false if the text is not a device name; "" gives a name with all parts unspecified. Accepts the legacy form /cpu:0
 * and the local form CPU:0. */
bool mr_device_name_parse(mr_sv text, mr_device_name *out);
void mr_device_name_print(const mr_device_name *n, mr_str *out); /* canonical order */
bool mr_device_name_full(const mr_device_name *n);
/* True if every part that `pattern` specifies is specified and equal in n. */
bool mr_device_name_matches(const mr_device_name *pattern, const mr_device_name *n);
/* Adds the parts of other to n. A conflict is INVALID_ARGUMENT; with soft, conflicting types or ids become unspecified
 * instead. */
mr_status *mr_device_name_merge(mr_device_name *n, const mr_device_name *other, bool soft);
bool mr_device_name_same_task(const mr_device_name *a, const mr_device_name *b);

#endif
