/* run/device.h -- where ops run, and the names of such places.
 *
 * A device type is one struct; a device is one instance with its memory, its resources and the
 * threads it computes with.  CPU devices share the process's pool.
 *
 * Memory: the allocator of a device says whether it is host memory (mr_allocator.host).  A device with memory of its
 * own has tensors that the host must not touch; a kernel's host_in and host_out tell which of its arguments lie in
 * host memory all the same (shapes, axes), and its type's start brings each input to where the kernel wants it. */
#ifndef MR_RUN_DEVICE_H
#define MR_RUN_DEVICE_H

#include "base/pool.h"
#include "base/vec.h"
#include "graph/op.h"
#include "run/resource.h"

typedef struct mr_device mr_device;

typedef struct mr_device_type {
    const char *name;    /* "CPU" */
    const char *kernels; /* the type whose kernels serve where it has none of its own; NULL: no other's */
    const char *own;     /* the type its own kernels are registered for; NULL: its name */
    int priority;        /* placement prefers the higher */
    /* Runs a node in place of its kernel, as an asynchronous one: sees to the inputs, calls the kernel when its time has
     * come (mr_run_kernel), ends by mr_run_done.  NULL: kernels are called directly.  Not asked for nodes that touch no
     * data (MR_HOST_ONLY without host_in). */
    void (*start)(mr_run *r);
    bool moves; /* start is asked for _Send and _Recv too */
    /* What a transfer between this device and another one takes, as far as it is known; NULL, or false: as usual. */
    bool (*link)(const mr_device *d, const mr_device *from, const mr_device *to, double *latency_s, double *bytes_per_s);
    /* Data to and from host memory; NULL: the device's memory is host memory. */
    void (*copy_in)(mr_device *d, const mr_tensor *host, mr_tensor *dst,
                    void (*done)(void *, mr_status *), void *arg);
    void (*copy_out)(mr_device *d, const mr_tensor *src, mr_tensor *host,
                     void (*done)(void *, mr_status *), void *arg);
    void (*free)(mr_device *d);
} mr_device_type;

typedef struct mr_speed { /* as far as it is known beforehand; for placement */
    double flops_per_s, bytes_per_s;
    double op_s; /* the least a node takes */
} mr_speed;
extern const mr_speed mr_speed_cpu; /* one core of a usual machine */

struct mr_device {
    const mr_device_type *type;
    const char *name; /* full: /job:localhost/replica:0/task:0/device:CPU:0; owned */
    mr_allocator *alloc;
    const struct mr_accel *accel; /* for kernels of its own (run/accel.h); NULL: they compute on the host */
    mr_resources *resources; /* owned, unless shared */
    bool shares;             /* the resources are another device's */
    mr_pool *pool;           /* for loops inside a kernel; borrowed */
    uint64_t incarnation;    /* random, not 0 */
    int64_t memory_limit;
    mr_speed speed;
};

/* The kernel of a node on a device: its type's own, or of the type it borrows from; NULL: none. */
const mr_kernel *mr_device_kernel(const mr_device *d, const mr_node *n);
/* What all types need: a device with this name (full), resources and an incarnation, on the CPU's allocator and speed,
 * in `bytes` zeroed bytes of which the first are an mr_device.  The type's free gets it and frees it by mr_free. */
mr_status *mr_device_new(const mr_device_type *type, const char *full_name, size_t bytes, mr_pool *pool, mr_device **out);

/* ---- who makes them ---- */
typedef MR_VEC(mr_device *) mr_device_vec;
typedef struct mr_device_maker { /* of a type; lives as long as the process */
    const char *type;
    /* Appends the devices TASK/device:TYPE:i, at most `limit` (below 0: as many as there are).  To have none is no
     * error. */
    mr_status *(*make)(const struct mr_device_maker *m, const char *task, mr_pool *pool, int limit, mr_device_vec *out);
    void *user;
} mr_device_maker;
/* Every session and server made from now on has such devices, behind its CPUs.  ALREADY_EXISTS for a type that has a
 * maker, and for CPU. */
mr_status *mr_device_maker_register(const mr_device_maker *m);
/* Calls all makers; limit says how many of a type at most. */
mr_status *mr_device_make_all(const char *task, mr_pool *pool, int (*limit)(void *ctx, const char *type), void *ctx, mr_device_vec *out);

extern const mr_device_type mr_device_cpu;
mr_status *mr_device_new_cpu(const char *full_name, mr_pool *pool, mr_device **out);
void mr_device_free(mr_device *d); /* NULL is fine */
/* d, which is new, has the resources of another one from now on, which must outlive it. */
void mr_device_share(mr_device *d, mr_device *with);

/* ---- names ---- */
typedef struct mr_device_name {
    char job[64], type[32];
    int replica, task, id; /* -1: unspecified */
    bool has_job, has_type;
} mr_device_name;

/* false when it cannot be parsed; "" gives all unspecified.  Legacy /cpu:0 and local CPU:0
 * accepted. */
bool mr_device_name_parse(mr_sv text, mr_device_name *out);
void mr_device_name_print(const mr_device_name *n, mr_str *out); /* canonical order */
bool mr_device_name_full(const mr_device_name *n);
/* Every part specified in `pattern` equals that of n. */
bool mr_device_name_matches(const mr_device_name *pattern, const mr_device_name *n);
/* Adds other's parts to n; a conflict is INVALID_ARGUMENT unless soft (then rules of §11). */
mr_status *mr_device_name_merge(mr_device_name *n, const mr_device_name *other, bool soft);
bool mr_device_name_same_task(const mr_device_name *a, const mr_device_name *b);

#endif
