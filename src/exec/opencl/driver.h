/* exec/opencl/driver.h -- the interface between libmillrace-opencl.so and the rest of the library.
 *
 * Only the driver knows OpenCL and CLBlast. It is opened if a session may have such a device (library.c),
 * asked for one symbol, and returns a table of functions over plain memory: buffers, copies, kernels by name,
 * matrix products. Each device has one queue that runs all commands in the order they were queued; only
 * `wait` and `finish` block. Both sides come from one build; each has its own copy of the few files of base/
 * that it needs. */
#ifndef MR_EXEC_OPENCL_DRIVER_H
#define MR_EXEC_OPENCL_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/status.h"

#define MR_CL_DRIVER_ABI 1

typedef struct mr_cl_device mr_cl_device; /* the driver's */
typedef struct mr_cl_event mr_cl_event;   /* the driver's: the end of one command */

typedef struct mr_cl_info {
    char name[128], platform[128];
    bool is_cpu;
    uint64_t memory, max_buffer; /* bytes */
    double flops_per_s;          /* a guess from units and clock */
} mr_cl_info;

typedef enum mr_cl_arg_kind { MR_CL_BUFFER, MR_CL_INT, MR_CL_FLOAT } mr_cl_arg_kind;
typedef struct mr_cl_arg {
    mr_cl_arg_kind kind;
    void *buffer; /* becomes two arguments of the kernel: the buffer, and `i`, the offset in bytes */
    int64_t i;
    float f;
} mr_cl_arg;

typedef struct mr_cl_matrix {
    void *buffer;
    int64_t at; /* bytes */
    bool transposed;
    int64_t width; /* elements from one row to the next, as stored */
} mr_cl_matrix;

typedef struct mr_cl_gemm { /* c = a b + beta c, row-major */
    int64_t m, n, k;
    mr_cl_matrix a, b, c;
    float beta;
    int64_t n_batch, a_step, b_step, c_step; /* elements from one product to the next; n_batch 1: just one */
} mr_cl_gemm;

typedef struct mr_cl_driver {
    int abi;
    /* Lists the devices of platforms whose name contains `want` (in any case); "all": of all platforms; NULL: of all,
     * but none that is the host's CPU. Having none is not an error. Returns how many were written to out, at most
     * `room`. */
    int (*list)(const char *want, mr_cl_info *out, int room);
    /* Opens the i-th device of the last list and compiles the kernels in `source`. */
    mr_status *(*open)(int i, const char *source, mr_cl_device **out);
    mr_status *(*buffer_new)(mr_cl_device *d, size_t bytes, void **out); /* RESOURCE_EXHAUSTED */
    void (*buffer_free)(void *buffer);
    /* Host memory must not change until the event; each event is waited for once, which frees it. */
    mr_status *(*write)(mr_cl_device *d, void *buffer, size_t at, const void *host, size_t bytes, mr_cl_event **out);
    mr_status *(*read)(mr_cl_device *d, void *buffer, size_t at, void *host, size_t bytes, mr_cl_event **out);
    mr_status *(*copy)(mr_cl_device *d, void *dst, size_t dst_at, void *src, size_t src_at, size_t bytes);
    mr_status *(*fill)(mr_cl_device *d, void *buffer, size_t at, size_t bytes, uint32_t pattern); /* multiples of 4 */
    /* `global` work items in groups of MR_CL_GROUP. */
    mr_status *(*launch)(mr_cl_device *d, const char *kernel, int64_t global, const mr_cl_arg *args, int n);
    mr_status *(*gemm)(mr_cl_device *d, const mr_cl_gemm *g);
    mr_status *(*wait)(mr_cl_event *e); /* UNAVAILABLE if the command failed */
    mr_status *(*finish)(mr_cl_device *d);
} mr_cl_driver;

enum { MR_CL_GROUP = 64, MR_CL_ARGS = 48 };

/* The one symbol; it returns NULL if the library is of another build. */
#define MR_CL_DRIVER_SYMBOL "mr_cl_driver_get"
typedef const mr_cl_driver *(*mr_cl_driver_fn)(int abi);

#endif
