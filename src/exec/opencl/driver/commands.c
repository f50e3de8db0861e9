/* exec/opencl/driver/commands.c -- the commands of a device.
 *
 * The queue runs commands in order. So memory may be reused as soon as the last command that uses it has been queued. A
 * client that never waits for a result could queue commands without end. So a marker is queued after every MARK
 * commands, and the thread waits for the marker before it. Invariant: at most 2 * MARK counted commands are queued. */
#include "exec/opencl/driver/internal.h"

#include <string.h>

enum { MARK = 512, FLUSH = 16 };

/* ---- memory ---- */

/* A size that the device does not support counts as out of memory. */
mr_status *mr_cl_buffer_new(mr_cl_device *d, size_t bytes, void **out)
{
    cl_int code;
    cl_mem m = clCreateBuffer(d->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (code == CL_INVALID_BUFFER_SIZE)
        code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    *out = m;
    return mr_cl_error(code, "taking memory");
}

void mr_cl_buffer_free(void *buffer) { clReleaseMemObject(buffer); }

/* ---- keeping the queue short ---- */

/* Counts a command, and limits the length of the queue. FLUSH makes sure that the device starts to work before the
 * queue is long. */
static mr_status *after_command(mr_cl_device *d) MR_REQUIRES(d->mu)
{
    cl_int code = CL_SUCCESS;
    d->n_commands++;
    if (d->n_commands % FLUSH == 0)
        code = clFlush(d->queue);
    if (d->n_commands % MARK != 0 || code != CL_SUCCESS)
        return mr_cl_error(code, "handing over commands");
    cl_event before = d->mark;
    d->mark = NULL;
    code = clEnqueueMarkerWithWaitList(d->queue, 0, NULL, &d->mark);
    if (before) {
        if (code == CL_SUCCESS)
            code = clWaitForEvents(1, &before);
        clReleaseEvent(before);
    }
    return mr_cl_error(code, "waiting for earlier commands");
}

/* ---- copies ---- */

/* Not blocking: the event tells when host memory may change. The queue is flushed, because somebody will wait for
 * the event. */
mr_status *mr_cl_write(mr_cl_device *d, void *buffer, size_t at, const void *host, size_t bytes, mr_cl_event **out)
{
    cl_event e = NULL;
    cl_int code = clEnqueueWriteBuffer(d->queue, buffer, CL_FALSE, at, bytes, host, 0, NULL, &e);
    *out = (mr_cl_event *)e;
    if (code == CL_SUCCESS)
        clFlush(d->queue);
    return mr_cl_error(code, "copying to the device");
}

/* Not blocking, as mr_cl_write. */
mr_status *mr_cl_read(mr_cl_device *d, void *buffer, size_t at, void *host, size_t bytes, mr_cl_event **out)
{
    cl_event e = NULL;
    cl_int code = clEnqueueReadBuffer(d->queue, buffer, CL_FALSE, at, bytes, host, 0, NULL, &e);
    *out = (mr_cl_event *)e;
    if (code == CL_SUCCESS)
        clFlush(d->queue);
    return mr_cl_error(code, "copying from the device");
}

mr_status *mr_cl_copy(mr_cl_device *d, void *dst, size_t dst_at, void *src, size_t src_at, size_t bytes)
{
    return mr_cl_error(clEnqueueCopyBuffer(d->queue, src, dst, src_at, dst_at, bytes, 0, NULL, NULL), "copying on the device");
}

mr_status *mr_cl_fill(mr_cl_device *d, void *buffer, size_t at, size_t bytes, uint32_t pattern)
{
    return mr_cl_error(clEnqueueFillBuffer(d->queue, buffer, &pattern, sizeof pattern, at, bytes, 0, NULL, NULL),
                       "filling memory of the device");
}

/* Frees the event, also on failure. */
mr_status *mr_cl_wait(mr_cl_event *e)
{
    cl_event event = (cl_event)e;
    cl_int code = clWaitForEvents(1, &event);
    clReleaseEvent(event);
    return mr_cl_error(code, "waiting for a copy");
}

mr_status *mr_cl_finish(mr_cl_device *d) { return mr_cl_error(clFinish(d->queue), "waiting for the device"); }

/* ---- kernels ---- */

/* Kernels are created once per device and kept. */
static mr_status *find_kernel(mr_cl_device *d, const char *name, cl_kernel *out) MR_REQUIRES(d->mu)
{
    cl_int code = CL_SUCCESS;
    *out = mr_map_getz(&d->kernels, name);
    if (*out)
        return NULL;
    *out = clCreateKernel(d->program, name, &code);
    if (code != CL_SUCCESS)
        return mr_error(MR_INTERNAL, "The OpenCL program has no kernel '%s' (error %d)", name, (int)code);
    mr_map_putz(&d->kernels, name, *out);
    return NULL;
}

/* A buffer takes two arguments of the kernel: the buffer and the offset in it. */
static cl_int set_arg(cl_kernel k, cl_uint *at, const mr_cl_arg *a)
{
    cl_long i = a->i;
    cl_mem m = a->buffer;
    cl_int code = CL_SUCCESS;
    if (a->kind == MR_CL_BUFFER)
        code = clSetKernelArg(k, (*at)++, sizeof m, &m);
    if (code != CL_SUCCESS)
        return code;
    if (a->kind == MR_CL_FLOAT)
        return clSetKernelArg(k, (*at)++, sizeof a->f, &a->f);
    return clSetKernelArg(k, (*at)++, sizeof i, &i);
}

/* The arguments of a kernel object are shared state, so they are set and used under the lock. The number of work
 * items is rounded up to whole groups. */
static mr_status *launch_locked(mr_cl_device *d, const char *name, int64_t global, const mr_cl_arg *args, int n)
    MR_REQUIRES(d->mu)
{
    cl_kernel k;
    cl_uint at = 0;
    cl_int code = CL_SUCCESS;
    MR_TRY(find_kernel(d, name, &k));
    for (int i = 0; i < n && code == CL_SUCCESS; i++)
        code = set_arg(k, &at, &args[i]);
    MR_TRY(mr_cl_error(code, name));
    size_t group = MR_CL_GROUP, all = ((size_t)global + group - 1) / group * group;
    MR_TRY(mr_cl_error(clEnqueueNDRangeKernel(d->queue, k, 1, NULL, &all, &group, 0, NULL, NULL), name));
    return after_command(d);
}

mr_status *mr_cl_launch(mr_cl_device *d, const char *kernel, int64_t global, const mr_cl_arg *args, int n)
{
    mr_lock(&d->mu);
    mr_status *st = launch_locked(d, kernel, global, args, n);
    mr_unlock(&d->mu);
    return st;
}

/* ---- products of matrices: CLBlast ---- */

/* CLBlast counts offsets in elements. Returns its status code. */
static int run_gemm(mr_cl_device *d, const mr_cl_gemm *g)
{
    CLBlastTranspose ta = g->a.transposed ? CLBlastTransposeYes : CLBlastTransposeNo;
    CLBlastTranspose tb = g->b.transposed ? CLBlastTransposeYes : CLBlastTransposeNo;
    size_t m = (size_t)g->m, n = (size_t)g->n, k = (size_t)g->k;
    size_t a = (size_t)g->a.at / sizeof(float), b = (size_t)g->b.at / sizeof(float), c = (size_t)g->c.at / sizeof(float);
    size_t la = (size_t)g->a.width, lb = (size_t)g->b.width, lc = (size_t)g->c.width;
    if (g->n_batch == 1)
        return CLBlastSgemm(CLBlastLayoutRowMajor, ta, tb, m, n, k, 1, g->a.buffer, a, la, g->b.buffer, b, lb, g->beta,
                            g->c.buffer, c, lc, &d->queue, NULL);
    return CLBlastSgemmStridedBatched(CLBlastLayoutRowMajor, ta, tb, m, n, k, 1, g->a.buffer, a, la, (size_t)g->a_step,
                                      g->b.buffer, b, lb, (size_t)g->b_step, g->beta, g->c.buffer, c, lc,
                                      (size_t)g->c_step, (size_t)g->n_batch, &d->queue, NULL);
}

/* CLBlast compiles its kernels on first use, which makes the first product of a kind slow. */
mr_status *mr_cl_gemm_run(mr_cl_device *d, const mr_cl_gemm *g)
{
    mr_lock(&d->mu);
    int code = run_gemm(d, g);
    mr_status *st = code ? mr_error(MR_UNAVAILABLE, "CLBlast: matrix product %lld x %lld x %lld: error %d",
                                    (long long)g->m, (long long)g->n, (long long)g->k, code)
                         : after_command(d);
    mr_unlock(&d->mu);
    return st;
}
