/* exec/device_plugin.h -- device types that a loaded library provides.
 *
 * The C API (capi/device_plugin.c) checks the library's description and makes an mr_plugin of it. Every
 * session and server made afterwards has the type's devices.
 *
 * If a type has its own memory, a value of its devices is in that memory or in the host's, and
 * mr_tensor_on_host tells which. Before a kernel runs, its inputs are copied to where it wants them. Only
 * kernels of the type, which come through the C API too, make values in device memory; mr_device.alloc is the
 * host's, for all borrowed kernels. */
#ifndef MR_EXEC_DEVICE_PLUGIN_H
#define MR_EXEC_DEVICE_PLUGIN_H

#include "run/device.h"

typedef struct mr_plugin mr_plugin;
struct mr_plugin { /* lives as long as the process; `device` below is what open returned */
    char type[32];
    int priority;
    bool borrows;    /* uses the CPU's kernel if it has none for an op */
    bool own_memory; /* then alloc, free and copy are set */
    mr_speed speed;
    double latency_s, link_bytes_per_s; /* 0: the default */
    mr_status *(*count)(const mr_plugin *p, int *out);
    mr_status *(*open)(const mr_plugin *p, int id, void **device);
    void (*close)(const mr_plugin *p, void *device);
    int64_t (*memory_bytes)(const mr_plugin *p, void *device); /* 0: unknown */
    void *(*alloc)(const mr_plugin *p, void *device, size_t bytes);
    void (*free)(const mr_plugin *p, void *device, void *at, size_t bytes);
    mr_status *(*copy)(const mr_plugin *p, void *device, void *dst, const void *src, size_t bytes, mr_copy_way way);
    /* Calls run(arg) once, now or later, from any thread; NULL: nodes run at once. */
    void (*start)(const mr_plugin *p, void *device, const char *node, const char *op, bool own, void (*run)(void *arg), void *arg);
    mr_device_maker maker;
    mr_device_type device_type;
};

/* Takes over the plugin, unless it fails: ALREADY_EXISTS, INVALID_ARGUMENT. */
mr_status *mr_plugin_register(mr_plugin *p);
/* What open returned for a device of a plugin; NULL for any other device. */
void *mr_plugin_device(const mr_device *d);
/* Where a kernel of the library puts its output (-1: its temporary memory); NULL: host memory. */
mr_allocator *mr_plugin_allocator(const mr_run *r, int output, mr_dtype type);
/* The memory of a device of a plugin; NULL: the host's. */
mr_allocator *mr_plugin_memory(const mr_device *d);
/* Loads the libraries that MILLRACE_DEVICES names, separated by ':', on the first call; later calls return the same
 * status. */
mr_status *mr_plugin_libraries(void);

#endif
