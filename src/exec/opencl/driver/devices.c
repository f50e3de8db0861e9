/* exec/opencl/driver/devices.c -- lists the OpenCL devices of the machine and opens them.
 *
 * The list of the last call is kept, because a device is opened by its position in it. `mu` guards the list; the rest
 * of the driver sees only devices that are open. */
#include "exec/opencl/driver/internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/str.h"

enum { MOST = 64 };

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static cl_device_id listed[MOST] MR_GUARDED_BY(mu);
static int n_listed MR_GUARDED_BY(mu);

/* ---- errors ---- */

/* The errors that a user can do something about. */
static const char *name_of(cl_int code)
{
    switch (code) {
    case CL_DEVICE_NOT_AVAILABLE: return "the device is not available";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE: return "no memory on the device";
    case CL_OUT_OF_RESOURCES: return "out of resources";
    case CL_OUT_OF_HOST_MEMORY: return "out of host memory";
    case CL_BUILD_PROGRAM_FAILURE: return "the kernels do not compile";
    case CL_INVALID_KERNEL_ARGS: return "a kernel got wrong arguments";
    case CL_INVALID_COMMAND_QUEUE: return "the queue is broken";
    default: return "unexpected error";
    }
}

/* Out of memory is the caller's to handle; everything else means that the device cannot be used. */
mr_status *mr_cl_error(cl_int code, const char *what)
{
    if (code == CL_SUCCESS)
        return NULL;
    bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY;
    return mr_error(memory ? MR_RESOURCE_EXHAUSTED : MR_UNAVAILABLE, "OpenCL: %s: %s (error %d)", what, name_of(code),
                    (int)code);
}

/* ---- finding ---- */

/* True if the text contains the part, in upper or lower case. */
static bool contains_part(const char *text, const char *part)
{
    size_t n = strlen(part);
    for (; *text; text++)
        if (strncasecmp(text, part, n) == 0)
            return true;
    return n == 0;
}

/* What a device does not report keeps its default, so a query that fails does no harm. flops_per_s is only an
 * estimate for placement. */
static void describe_device(cl_device_id d, const char *platform, mr_cl_info *out)
{
    cl_device_type type = 0;
    cl_uint units = 1, mhz = 1000;
    cl_ulong memory = 0, most = 0;
    *out = (mr_cl_info){0};
    snprintf(out->platform, sizeof out->platform, "%s", platform);
    clGetDeviceInfo(d, CL_DEVICE_NAME, sizeof out->name - 1, out->name, NULL);
    clGetDeviceInfo(d, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    clGetDeviceInfo(d, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
    clGetDeviceInfo(d, CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof mhz, &mhz, NULL);
    clGetDeviceInfo(d, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL);
    clGetDeviceInfo(d, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most, NULL);
    out->is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
    out->memory = memory;
    out->max_buffer = most;
    /* Lanes of a compute unit differ by maker; 64 of a GPU and 8 of a CPU, each a multiplication and a sum. */
    out->flops_per_s = (double)units * (double)MR_MAX(mhz, 100) * 1e6 * (out->is_cpu ? 16 : 128);
}

/* Appends the devices of a platform that `want` selects; without `want`, all except the host's CPU. */
static void list_platform(cl_platform_id p, const char *want, mr_cl_info *out, int room) MR_REQUIRES(mu)
{
    char name[128] = "";
    cl_device_id found[MOST];
    cl_uint n = 0;
    clGetPlatformInfo(p, CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
    if (want && strcasecmp(want, "all") != 0 && !contains_part(name, want))
        return;
    if (clGetDeviceIDs(p, CL_DEVICE_TYPE_ALL, MOST, found, &n) != CL_SUCCESS)
        return;
    for (cl_uint i = 0; i < n && i < MOST && n_listed < MR_MIN(room, MOST); i++) {
        describe_device(found[i], name, &out[n_listed]);
        if (want || !out[n_listed].is_cpu)
            listed[n_listed++] = found[i];
    }
}

/* Replaces the list of the last call. A loader without any platform reports an error, which counts as no devices. */
static int list_devices(const char *want, mr_cl_info *out, int room)
{
    cl_platform_id platforms[16];
    cl_uint n = 0;
    if (clGetPlatformIDs(16, platforms, &n) != CL_SUCCESS)
        n = 0; /* a loader without platforms says CL_PLATFORM_NOT_FOUND */
    mr_lock(&mu);
    n_listed = 0;
    for (cl_uint i = 0; i < n && i < 16; i++)
        list_platform(platforms[i], want, out, room);
    int found = n_listed;
    mr_unlock(&mu);
    return found;
}

/* ---- opening ---- */

/* Appends the compiler's log to the error. */
static mr_status *build_failed(mr_cl_device *d, cl_int code)
{
    size_t n = 0;
    clGetProgramBuildInfo(d->program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &n);
    char *text = mr_calloc(n + 1, 1);
    clGetProgramBuildInfo(d->program, d->id, CL_PROGRAM_BUILD_LOG, n, text, NULL);
    mr_status *st = mr_cl_error(code, "building the kernels");
    mr_status_append(st, ": %.2000s", text);
    mr_free(text);
    return st;
}

/* Makes the context, the queue and the program. On failure the caller frees the parts that exist. */
static mr_status *open_parts(mr_cl_device *d, const char *source)
{
    cl_int code;
    d->context = clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
    MR_TRY(mr_cl_error(code, "making a context"));
    d->queue = clCreateCommandQueue(d->context, d->id, 0, &code);
    MR_TRY(mr_cl_error(code, "making a queue"));
    d->program = clCreateProgramWithSource(d->context, 1, &source, NULL, &code);
    MR_TRY(mr_cl_error(code, "reading the kernels"));
    /* No fast-math options: as on the CPU, NaN and infinity must propagate. */
    code = clBuildProgram(d->program, 1, &d->id, "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt", NULL, NULL);
    if (code != CL_SUCCESS) /* an older device may not know the option */
        code = clBuildProgram(d->program, 1, &d->id, "-cl-std=CL1.2", NULL, NULL);
    return code == CL_SUCCESS ? NULL : build_failed(d, code);
}

/* The parts that are missing are NULL. */
static void device_free(mr_cl_device *d)
{
    if (d->program)
        clReleaseProgram(d->program);
    if (d->queue)
        clReleaseCommandQueue(d->queue);
    if (d->context)
        clReleaseContext(d->context);
    mr_mutex_deinit(&d->mu);
    mr_free(d);
}

/* The i-th device of the last list. mu is not held while the kernels compile, which may take seconds. */
static mr_status *open_device(int i, const char *source, mr_cl_device **out)
{
    mr_cl_device *d = mr_new(mr_cl_device);
    mr_mutex_init(&d->mu);
    mr_lock(&mu);
    bool known = i >= 0 && i < n_listed;
    if (known)
        d->id = listed[i];
    mr_unlock(&mu);
    mr_status *st = known ? open_parts(d, source) : mr_invalid("OpenCL device %d does not exist", i);
    if (st) {
        device_free(d);
        return st;
    }
    *out = d;
    return NULL;
}

/* ---- the table ---- */

/* The only exported symbol. The version check refuses a library of another build, whose structs may differ. */
const mr_cl_driver *mr_cl_driver_get(int abi)
{
    static const mr_cl_driver driver = {.abi = MR_CL_DRIVER_ABI,
                                        .list = list_devices,
                                        .open = open_device,
                                        .buffer_new = mr_cl_buffer_new,
                                        .buffer_free = mr_cl_buffer_free,
                                        .write = mr_cl_write,
                                        .read = mr_cl_read,
                                        .copy = mr_cl_copy,
                                        .fill = mr_cl_fill,
                                        .launch = mr_cl_launch,
                                        .gemm = mr_cl_gemm_run,
                                        .wait = mr_cl_wait,
                                        .finish = mr_cl_finish};
    return abi == MR_CL_DRIVER_ABI ? &driver : NULL;
}
