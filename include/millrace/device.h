/* millrace/device.h -- devices beside the CPU, and which of them takes what.
 *
 * Simulated devices compute on this machine and take the time of another: a speed, a memory and links that are told.  Add
 * them to the options of a session, or name them in the environment (MILLRACE_SIMULATE), and use them by their names like
 * any other device:
 *
 *     mr_session_simulate(options, "GPU:0=flops_per_s=2e11,memory_bytes=4G; GPU:1=flops_per_s=8e11;"
 *                                  "GPU:0-GPU:1=latency_us=2,bytes_per_s=50G", status);
 *
 * A ConfigProto with placement_period N above 0 lets the session choose devices by cost: for the shortest step, by estimates
 * first, and again after N steps, later more rarely, by what steps really took.  mr_session_explain tells why a node stands
 * where it stands.  docs/devices.md has the whole story.
 *
 * Structs begin with their size, and zero is a sensible value of every field that is not said to be needed. */
#ifndef MILLRACE_DEVICE_H
#define MILLRACE_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "millrace/millrace.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- simulated devices ---- */

typedef struct mr_simulated_device {
    size_t struct_size; /* sizeof(mr_simulated_device) */
    const char *type;   /* needed: "GPU", "SIM", any name but "CPU" */
    int id;             /* of this type: the 0 of "GPU:0" */
    int priority;       /* where nothing else decides, nodes go to the type with the highest; CPU: 60; 0: 210 */
    double flops_per_s; /* what it computes; 0: 1e11 */
    double bytes_per_s; /* of its own memory; 0: 5e10 */
    double op_s;        /* the least an operation takes; 0: 5e-6 */
    int64_t memory_bytes; /* RESOURCE_EXHAUSTED beyond; 0: no limit */
    double latency_s, link_bytes_per_s; /* to and from other devices; 0: 1e-5 and 1e10 */
} mr_simulated_device;

/* A device for the sessions that are made with these options in this process. */
MR_EXPORT extern void mr_session_add_simulated_device(TF_SessionOptions *options, const mr_simulated_device *device,
                                                      TF_Status *status);

typedef struct mr_simulated_link { /* one way; what goes over a link follows each other */
    size_t struct_size; /* sizeof(mr_simulated_link) */
    const char *from, *to; /* needed: "GPU:0", "CPU:0" */
    double latency_s, bytes_per_s; /* 0: as the devices say */
} mr_simulated_link;

MR_EXPORT extern void mr_session_add_simulated_link(TF_SessionOptions *options, const mr_simulated_link *link,
                                                    TF_Status *status);

/* Devices and links as text, several separated by ';'.  A device: TYPE:ID=key=amount,key=amount with the keys flops_per_s,
 * bytes_per_s, op_us, memory_bytes, latency_us, link_bytes_per_s, priority.  A link: FROM>TO=latency_us=amount,bytes_per_s=amount, or
 * FROM-TO for both ways.  k M G T are powers of 1000, of memory of 1024. */
MR_EXPORT extern void mr_session_simulate(TF_SessionOptions *options, const char *text, TF_Status *status);

/* From now on everything on a simulated device ("GPU:0", or its full name) takes `factor` times as long as it promised. */
MR_EXPORT extern void mr_session_slow_device(TF_Session *session, const char *device, double factor, TF_Status *status);

/* ---- placement by cost ---- */

/* For each operation that a run with these arguments executes (what is computed beforehand, or merged with an equal one, is not):
 * the device it is on (or would be), when it and the whole step end there, why it is there, and the same for each other device that
 * could take it.  All times are of one simulation of the step, feeds and fetches included.  Delete the text with
 * TF_DeleteBuffer; NULL on error. */
MR_EXPORT extern TF_Buffer *mr_session_explain(TF_Session *session, const TF_Output *inputs, int ninputs, const TF_Output *outputs,
                                               int noutputs, const TF_Operation *const *target_opers, int ntargets,
                                               TF_Status *status);

/* What steps took, operation by operation, for the next session on such devices.  Loading adds to what is known.  With
 * MILLRACE_COSTS=FILE in the environment both happen by themselves, when a session that places by cost begins and ends. */
MR_EXPORT extern void mr_session_save_costs(TF_Session *session, const char *path, TF_Status *status);
MR_EXPORT extern void mr_session_load_costs(TF_Session *session, const char *path, TF_Status *status);

/* ---- device types of a library ----
 *
 * A library that is loaded by TF_LoadLibrary, or named in MILLRACE_DEVICES (paths separated by ':'), may register a type of
 * devices from its initialiser; every session and server made afterwards has them.  Its kernels come through
 * tensorflow/c/kernels.h: TF_NewKernelBuilder("MatMul", "MYTYPE", ...); TF_KernelBuilder_HostMemory names arguments that lie in
 * host memory all the same.  Variables are in host memory always, also to kernels of the device.  examples/device/ is such a
 * library.
 *
 * Functions may be called from many threads at once.  `device` is what open gave. */

enum { MR_DEVICE_PLUGIN_VERSION = 1 };

typedef struct mr_device_plugin {
    size_t struct_size; /* sizeof(mr_device_plugin) */
    int version;        /* MR_DEVICE_PLUGIN_VERSION */
    int priority;       /* as in mr_simulated_device; 0: 210 */
    const char *type;   /* needed, up to 31 letters, digits and _ */
    unsigned char borrow; /* kernels of the CPU serve where it has none of its own: they get and give host memory */
    void *user;           /* for count and open */

    int (*count)(void *user); /* how many there are; NULL: one */
    /* A device for a session or server; NULL: it is `user`.  An error makes the session fail. */
    void *(*open)(void *user, int id, TF_Status *status);
    /* When nothing refers to it any more.  NULL: nothing to do. */
    void (*close)(void *device);

    /* Memory of its own: alloc, free, copy_in and copy_out, or none of them: then it computes in host memory.  Other code never
     * looks behind addresses that alloc gave (NULL: there is no memory left); free gets the size that was asked for.
     * copy_within NULL: by way of the host. */
    void *(*alloc)(void *device, size_t bytes);
    void (*free)(void *device, void *at, size_t bytes);
    void (*copy_in)(void *device, void *dst, const void *host, size_t bytes, TF_Status *status);
    void (*copy_out)(void *device, void *host, const void *src, size_t bytes, TF_Status *status);
    void (*copy_within)(void *device, void *dst, const void *src, size_t bytes, TF_Status *status);
    int64_t (*memory_bytes)(void *device); /* NULL, or 0: not told */

    /* Asked for each operation that computes: calls run(arg) once, now or later, from any thread; the operation ends with it.
     * own: its kernel is of this type, not borrowed.  NULL: operations run as they become ready. */
    void (*start)(void *device, const char *node, const char *op, unsigned char own, void (*run)(void *arg), void *arg);

    /* What placement by cost believes before anything was measured; 0: as a core of a CPU. */
    double flops_per_s, bytes_per_s, op_s;
    double latency_s, link_bytes_per_s; /* of copies to and from other devices; 0: as within the host */
} mr_device_plugin;

/* The struct is copied.  ALREADY_EXISTS when there is such a type, INVALID_ARGUMENT when something is missing or cannot be. */
MR_EXPORT extern void mr_register_device(const mr_device_plugin *plugin, TF_Status *status);

/* In a kernel: the device it runs on, as open gave it; NULL on devices of other kinds. */
struct TF_OpKernelContext;
MR_EXPORT extern void *mr_kernel_device(struct TF_OpKernelContext *ctx);

#ifdef __cplusplus
}
#endif

#endif
