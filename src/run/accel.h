/* run/accel.h -- how kernels compute on a device that has its own memory and command queue.
 *
 * The kernel of an op runs on the host: it checks its inputs, allocates its outputs in device memory (mr_run_output)
 * and queues commands for the device. The device executes the commands later, in order. So the kernel waits for
 * nothing: it may pass an output on and free the memory of an input at once. Only the device's driver knows what a
 * queue is made of. The device code is in the .cl files beside the ops and in the expressions of elementwise.h.
 *
 *     return mr_accel_launch(r, "relu", y->n, MR_ACCEL(MR_AI(y->n), MR_AT(x), MR_AT(y))); */
#ifndef MR_RUN_ACCEL_H
#define MR_RUN_ACCEL_H

#include "run/run.h"

typedef struct mr_accel_arg {
    enum { MR_ACCEL_TENSOR, MR_ACCEL_INT, MR_ACCEL_FLOAT } kind;
    const mr_tensor *t; /* in the device's memory; a kernel sees a buffer and the bytes to its start */
    int64_t i;          /* a long; of a tensor: elements from its start */
    float f;
} mr_accel_arg;
#define MR_AT(tensor) ((mr_accel_arg){.kind = MR_ACCEL_TENSOR, .t = (tensor)})
#define MR_AI(value) ((mr_accel_arg){.kind = MR_ACCEL_INT, .i = (value)})
#define MR_AF(value) ((mr_accel_arg){.kind = MR_ACCEL_FLOAT, .f = (value)})
#define MR_ACCEL(...) (const mr_accel_arg[]){__VA_ARGS__}, MR_COUNT(((const mr_accel_arg[]){__VA_ARGS__}))

/* The name these kernels are registered under. It is not a device type but a way to compute that a device type may
 * offer (mr_device_type.kernels). Kernels that a user registers for a device type compute on the host. */
#define MR_ACCEL_KERNELS "OpenCL"

enum { MR_ACCEL_GROUP = 64 }; /* work items of a group */

typedef struct mr_accel_matrix {
    const mr_tensor *t;
    int64_t at;      /* offset of the matrix from the start of t, in elements */
    bool transposed; /* memory holds the transpose of the matrix */
} mr_accel_matrix;

typedef struct mr_accel_gemm { /* float: c = a b, or c += a b (add); a is m x k, b is k x n; row-major */
    int64_t m, n, k;
    mr_accel_matrix a, b, c;
    bool add;
    int64_t n_batch; /* number of products; their matrices follow each other without gaps */
    bool b_same;     /* every product uses the first b */
} mr_accel_gemm;

struct mr_accel { /* of a device */
    mr_status *(*launch)(mr_device *d, const char *kernel, int64_t n, const mr_accel_arg *args, int n_args);
    mr_status *(*gemm)(mr_device *d, const mr_accel_gemm *g);
    /* Writes the pattern to every 4 bytes of t. */
    mr_status *(*fill)(mr_device *d, mr_tensor *t, uint32_t pattern);
    /* Copies n elements; dst and src have the same type. */
    mr_status *(*copy)(mr_device *d, mr_tensor *dst, int64_t at, const mr_tensor *src, int64_t from, int64_t n);
    /* Copies from host memory. The caller may change that memory as soon as this returns. */
    mr_status *(*upload)(mr_device *d, mr_tensor *dst, const void *host);
};

/* True if this run computes on the device and not on the host. */
static inline bool mr_on_accel(const mr_run *r) { return mr_run_on_device(r); }

/* Queues a kernel for n work items; does nothing if n is 0. The device rounds n up to whole groups, so the kernel
 * must compare its index with n. */
static inline mr_status *mr_accel_launch(mr_run *r, const char *kernel, int64_t n, const mr_accel_arg *args, int n_args)
{
    mr_device *d = r->step->device;
    return n > 0 ? d->accel->launch(d, kernel, n, args, n_args) : NULL;
}
/* m, n and k must be positive. */
static inline mr_status *mr_accel_gemm_run(mr_run *r, const mr_accel_gemm *g)
{
    return r->step->device->accel->gemm(r->step->device, g);
}
static inline mr_status *mr_accel_fill(mr_run *r, mr_tensor *t, uint32_t pattern)
{
    return t->n > 0 ? r->step->device->accel->fill(r->step->device, t, pattern) : NULL;
}
static inline mr_status *mr_accel_copy(mr_run *r, mr_tensor *dst, int64_t at, const mr_tensor *src, int64_t from, int64_t n)
{
    return n > 0 ? r->step->device->accel->copy(r->step->device, dst, at, src, from, n) : NULL;
}
static inline mr_status *mr_accel_upload(mr_run *r, mr_tensor *dst, const void *host)
{
    return dst->n > 0 ? r->step->device->accel->upload(r->step->device, dst, host) : NULL;
}

/* Rows for MR_KERNELS. */
#define MR_GPU(fn, E) {.device = MR_ACCEL_KERNELS, .type = MR_##E, .run = (fn)},
#define MR_GPU_ANY(fn) {.device = MR_ACCEL_KERNELS, .run = (fn)},
/* The same with masks of the arguments that are in host memory; bit 0 is the first argument. */
#define MR_GPU_HOST(fn, E, in, out) {.device = MR_ACCEL_KERNELS, .type = MR_##E, .run = (fn), .host_in = (in), .host_out = (out)},
#define MR_GPU_ANY_HOST(fn, in, out) {.device = MR_ACCEL_KERNELS, .run = (fn), .host_in = (in), .host_out = (out)},

#endif
