/* exec/device_plugin.h -- device types that a loaded library brings.
 *
 * The C API (capi/device_plugin.c) checks what a library says and makes one of these of it.  Every session and server
 * made afterwards has the type's devices.
 *
 * Where a type has memory of its own, a value of its devices lies in that or in the host's and says so itself
 * (mr_tensor_on_host): before a kernel runs, inputs are brought to where it wants them.  Only kernels of the type, which
 * come through the C API too, make values there; mr_device.alloc is the host's, for all kernels that are borrowed. */
#ifndef MR_EXEC_DEVICE_PLUGIN_H
#define MR_EXEC_DEVICE_PLUGIN_H

#include "run/device.h"

typedef struct mr_plugin mr_plugin;
struct mr_plugin { /* lives as long as the process; a device below is what open gave */
    char type[32];
    int priority;
    bool borrows;    /* the CPU's kernels serve where it has none */
    bool own_memory; /* then alloc, free and copy are there */
    mr_speed speed;
    double latency_s, link_bytes_per_s; /* 0: as usual */
    mr_status *(*count)(const mr_plugin *p, int *out);
    mr_status *(*open)(const mr_plugin *p, int id, void **device);
    void (*close)(const mr_plugin *p, void *device);
    int64_t (*memory_bytes)(const mr_plugin *p, void *device); /* 0: not told */
    void *(*alloc)(const mr_plugin *p, void *device, size_t bytes);
    void (*free)(const mr_plugin *p, void *device, void *at, size_t bytes);
    mr_status *(*copy)(const mr_plugin *p, void *device, void *dst, const void *src, size_t bytes, mr_copy_way way);
    /* Calls run(arg) once, now or later, from any thread; NULL: nodes run at once. */
    void (*start)(const mr_plugin *p, void *device, const char *node, const char *op, bool own, void (*run)(void *arg), void *arg);
    mr_device_maker maker;
    mr_device_type device_type;
};

/* The plugin is taken over when there is no error: ALREADY_EXISTS, INVALID_ARGUMENT. */
mr_status *mr_plugin_register(mr_plugin *p);
/* What open gave for a device of a plugin; NULL for any other. */
void *mr_plugin_device(const mr_device *d);
/* Where a kernel that the library brought puts its output (-1: what it needs for itself); NULL: host memory. */
mr_allocator *mr_plugin_allocator(const mr_run *r, int output, mr_dtype type);
/* The memory of a device of a plugin; NULL: the host's. */
mr_allocator *mr_plugin_memory(const mr_device *d);
/* Loads the libraries that MILLRACE_DEVICES names, separated by ':', the first time it is called; later calls say the same. */
mr_status *mr_plugin_libraries(void);

#endif
