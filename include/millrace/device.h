/* millrace/device.h -- simulated devices, placement by cost, and device plug-ins.
 *
 * A simulated device computes on this machine, but takes the time of another one with a given speed, memory and links.
 * Add simulated devices to the options of a session, or name them in the environment variable MILLRACE_SIMULATE, and
 * use their names like those of any other device:
 *
 *     mr_session_simulate(options, "GPU:0=flops_per_s=2e11,memory_bytes=4G; GPU:1=flops_per_s=8e11;"
 *                                  "GPU:0-GPU:1=latency_us=2,bytes_per_s=50G", status);
 *
 * With placement_period N above 0 in its ConfigProto, a session chooses devices by cost, for the shortest step: by
 * estimates at first, and by measured times after N steps and again later, less and less often. mr_session_explain says
 * why a node is on its device. docs/devices.md describes all of this. */
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

/* A device that takes the time of another one. */
typedef struct mr_simulated_device {
    size_t struct_size; /* sizeof(mr_simulated_device) */
    const char *type;   /* required: "GPU", "SIM", or any other name except "CPU" */
    int id;             /* number among the devices of this type: the 0 of "GPU:0" */
    int priority; /* where nothing else decides, nodes go to the type with the highest priority; CPU has 60; 0: 210 */
    double flops_per_s;   /* speed of arithmetic; 0: 1e11 */
    double bytes_per_s;   /* speed of its memory; 0: 5e10 */
    double op_s;          /* shortest time of an operation; 0: 5e-6 */
    int64_t memory_bytes; /* steps that need more fail with TF_RESOURCE_EXHAUSTED; 0: no limit */
    double latency_s;     /* latency of copies to and from other devices; 0: 1e-5 */
    double link_bytes_per_s; /* bandwidth of these copies; 0: 1e10 */
} mr_simulated_device;

/* Adds a device to the sessions that are created in this process with these options. The struct is copied. */
MR_EXPORT extern void mr_session_add_simulated_device(TF_SessionOptions *options, const mr_simulated_device *device,
                                                      TF_Status *status);

/* A link from one device to another, in one direction. Transfers over a link do not overlap. */
typedef struct mr_simulated_link {
    size_t struct_size; /* sizeof(mr_simulated_link) */
    const char *from;   /* source device, for example "GPU:0"; required */
    const char *to;     /* destination device; required */
    double latency_s;   /* 0: as the devices say */
    double bytes_per_s; /* 0: as the devices say */
} mr_simulated_link;

/* Sets the speed of a link for the sessions that are created with these options. The struct is copied. */
MR_EXPORT extern void mr_session_add_simulated_link(TF_SessionOptions *options, const mr_simulated_link *link,
                                                    TF_Status *status);

/* Adds devices and links that are described by a text, separated by ';'. A device is TYPE:ID=key=amount,key=amount with
 * the keys flops_per_s, bytes_per_s, op_us, memory_bytes, latency_us, link_bytes_per_s and priority. A link is
 * FROM>TO=latency_us=amount,bytes_per_s=amount, or FROM-TO for both directions. The suffixes k, M, G and T are powers
 * of 1000; for memory, of 1024. */
MR_EXPORT extern void mr_session_simulate(TF_SessionOptions *options, const char *text, TF_Status *status);

/* From now on, everything on a simulated device ("GPU:0", or its full name) takes `factor` times as long. Fails with
 * TF_UNIMPLEMENTED if the session is not in this process. */
MR_EXPORT extern void mr_session_slow_device(TF_Session *session, const char *device, double factor, TF_Status *status);

/* ---- placement by cost ---- */

/* Returns a text that explains the placement of a run with these arguments. For each operation that the run executes,
 * it gives the device, when the operation and the whole step end there, and why it was chosen; and the same times for
 * each other device that could run it. Operations that are computed beforehand or merged with an equal one are left
 * out. All times come from one simulation of the step, with its feeds and fetches. The caller deletes the buffer. NULL
 * after an error; TF_UNIMPLEMENTED if the session is not in this process. */
MR_EXPORT extern TF_Buffer *mr_session_explain(TF_Session *session, const TF_Output *inputs, int ninputs,
                                               const TF_Output *outputs, int noutputs,
                                               const TF_Operation *const *target_opers, int ntargets,
                                               TF_Status *status);

/* Saves the measured times of operations to a file, for later sessions on such devices. With MILLRACE_COSTS=FILE in the
 * environment, a session that places by cost loads the file when it is created and saves it when it is closed. Fails
 * with TF_UNIMPLEMENTED if the session is not in this process. */
MR_EXPORT extern void mr_session_save_costs(TF_Session *session, const char *path, TF_Status *status);
/* Loads such a file and adds its times to those that the session already knows. */
MR_EXPORT extern void mr_session_load_costs(TF_Session *session, const char *path, TF_Status *status);

/* ---- device plug-ins ----
 *
 * A library that is loaded by TF_LoadLibrary, or named in MILLRACE_DEVICES (paths separated by ':'), may register a
 * device type in its initializer. Every session and server created afterwards has devices of this type. Its kernels are
 * registered through tensorflow/c/kernels.h with TF_NewKernelBuilder("MatMul", "MYTYPE", ...).
 * TF_KernelBuilder_HostMemory names arguments that are in host memory even so. Variables are always in host memory, for
 * kernels of the device too. examples/device/ is such a library.
 *
 * The functions of a plug-in may be called from several threads at once. Their argument `device` is the result of
 * `open`. */

/* The version of mr_device_plugin that this header describes. */
enum { MR_DEVICE_PLUGIN_VERSION = 1 };

/* A device type. Only struct_size, version and type are required. */
typedef struct mr_device_plugin {
    size_t struct_size;   /* sizeof(mr_device_plugin) */
    int version;          /* MR_DEVICE_PLUGIN_VERSION */
    int priority;         /* as in mr_simulated_device; 0: 210 */
    const char *type;     /* up to 31 letters, digits and underscores, not starting with a digit */
    unsigned char borrow; /* 1: where the type has no kernel, CPU kernels run instead, on host memory */
    void *user;           /* passed to count and open */

    int (*count)(void *user); /* returns the number of devices; NULL: one */
    /* Opens a device for a session or server and returns its handle. An error makes the creation of the session fail.
     * NULL: the handle is `user`. */
    void *(*open)(void *user, int id, TF_Status *status);
    /* Called when nothing refers to the device any more. NULL: nothing to do. */
    void (*close)(void *device);

    /* Memory of the device. Set alloc, free, copy_in and copy_out, or none of them; without them the device computes in
     * host memory. alloc returns NULL if there is no memory left. The library never accesses what its addresses point
     * to. */
    void *(*alloc)(void *device, size_t bytes);
    /* Frees memory of alloc; `bytes` is the size that was requested. */
    void (*free)(void *device, void *at, size_t bytes);
    /* Copies from host memory to device memory. */
    void (*copy_in)(void *device, void *dst, const void *host, size_t bytes, TF_Status *status);
    /* Copies from device memory to host memory. */
    void (*copy_out)(void *device, void *host, const void *src, size_t bytes, TF_Status *status);
    /* Copies within device memory. NULL: by way of the host. */
    void (*copy_within)(void *device, void *dst, const void *src, size_t bytes, TF_Status *status);
    int64_t (*memory_bytes)(void *device); /* returns the size of the memory; NULL, or a result of 0: unknown */

    /* Called for each operation that computes. It must call run(arg) once, now or later, from any thread; the operation
     * ends when run returns. `own` is 1 if the kernel is registered for this type, 0 if it is borrowed. NULL:
     * operations run as soon as they are ready. */
    void (*start)(void *device, const char *node, const char *op, unsigned char own, void (*run)(void *arg), void *arg);

    double flops_per_s;      /* estimate for placement by cost, before anything is measured; 0: that of a CPU core */
    double bytes_per_s;      /* the same for memory */
    double op_s;             /* the same for the shortest time of an operation */
    double latency_s;        /* latency of copies to and from other devices; 0: as within the host */
    double link_bytes_per_s; /* bandwidth of these copies; 0: as within the host */
} mr_device_plugin;

/* Registers a device type. The struct is copied. Fails with TF_ALREADY_EXISTS if the type exists, and with
 * TF_INVALID_ARGUMENT if a field is missing or has an invalid value. */
MR_EXPORT extern void mr_register_device(const mr_device_plugin *plugin, TF_Status *status);

struct TF_OpKernelContext; /* see tensorflow/c/kernels.h */
/* In a kernel, returns the device it runs on: the result of `open`. NULL on devices of other kinds. */
MR_EXPORT extern void *mr_kernel_device(struct TF_OpKernelContext *ctx);

#ifdef __cplusplus
}
#endif

#endif
