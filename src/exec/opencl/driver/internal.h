/* exec/opencl/driver/internal.h -- the inside of the driver: the only place that sees the headers of OpenCL and CLBlast. */
#ifndef MR_EXEC_OPENCL_DRIVER_INTERNAL_H
#define MR_EXEC_OPENCL_DRIVER_INTERNAL_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS /* clCreateCommandQueue: older devices know no other */
#include <CL/cl.h>
#include <clblast_c.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/thread.h"
#include "exec/opencl/driver.h"

struct mr_cl_device {
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    mr_mutex mu;                    /* a kernel's arguments are set and used under it */
    mr_map kernels MR_GUARDED_BY(mu); /* by name */
    int n_commands MR_GUARDED_BY(mu);
    cl_event mark MR_GUARDED_BY(mu); /* the last marker in the queue (commands.c); NULL: none yet */
};

/* NULL for CL_SUCCESS; RESOURCE_EXHAUSTED for memory, else UNAVAILABLE. */
mr_status *mr_cl_error(cl_int code, const char *what);

const mr_cl_driver *mr_cl_driver_get(int abi) __attribute__((visibility("default")));
mr_status *mr_cl_buffer_new(mr_cl_device *d, size_t bytes, void **out);
void mr_cl_buffer_free(void *buffer);
mr_status *mr_cl_write(mr_cl_device *d, void *buffer, size_t at, const void *host, size_t bytes, mr_cl_event **out);
mr_status *mr_cl_read(mr_cl_device *d, void *buffer, size_t at, void *host, size_t bytes, mr_cl_event **out);
mr_status *mr_cl_copy(mr_cl_device *d, void *dst, size_t dst_at, void *src, size_t src_at, size_t bytes);
mr_status *mr_cl_fill(mr_cl_device *d, void *buffer, size_t at, size_t bytes, uint32_t pattern);
mr_status *mr_cl_launch(mr_cl_device *d, const char *kernel, int64_t global, const mr_cl_arg *args, int n);
mr_status *mr_cl_gemm_run(mr_cl_device *d, const mr_cl_gemm *g);
mr_status *mr_cl_wait(mr_cl_event *e);
mr_status *mr_cl_finish(mr_cl_device *d);

#endif
