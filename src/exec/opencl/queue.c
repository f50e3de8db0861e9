/* exec/opencl/queue.c -- the operations of run/accel.h in the driver's terms: addresses become buffers and
 * offsets.
 *
 * Everything is queued and nothing is waited for. Bounds are checked here with MR_ENSURE, because a kernel
 * that reads outside of its buffer would bring the whole device down. */
#include "base/memory.h"
#include "exec/opencl/opencl.h"

/* The buffer of element `at` of a tensor, and the bytes to it. An empty tensor has no buffer: NULL. */
static mr_status *locate_tensor(mr_opencl *p, const mr_tensor *t, int64_t at, void **buffer, int64_t *bytes_to)
{
    size_t start = 0, size = mr_dtype_size(t->dtype);
    *buffer = NULL; /* an empty one may be anywhere */
    *bytes_to = 0;
    if (t->n == 0)
        return NULL;
    MR_TRY(mr_opencl_find(p->memory, t->data, mr_tensor_bytes(t), buffer, &start));
    *bytes_to = (int64_t)(start + (size_t)at * size);
    return NULL;
}

/* Tensor arguments become pairs of buffer and offset; numbers are passed as they are. */
static mr_status *launch_kernel(mr_device *d, const char *kernel, int64_t n, const mr_accel_arg *args, int n_args)
{
    mr_opencl *p = mr_opencl_of(d);
    mr_cl_arg out[MR_CL_ARGS];
    MR_ENSURE(n_args <= MR_CL_ARGS);
    for (int i = 0; i < n_args; i++) {
        out[i] = (mr_cl_arg){.kind = MR_CL_INT, .i = args[i].i, .f = args[i].f};
        if (args[i].kind == MR_ACCEL_FLOAT)
            out[i].kind = MR_CL_FLOAT;
        if (args[i].kind != MR_ACCEL_TENSOR)
            continue;
        out[i].kind = MR_CL_BUFFER;
        MR_TRY(locate_tensor(p, args[i].t, args[i].i, &out[i].buffer, &out[i].i));
    }
    return p->driver->launch(p->d, kernel, n, out, n_args);
}

/* `width` is the length of a row in memory: that of the transposed matrix if it is stored transposed. */
static mr_status *locate_matrix(mr_opencl *p, const mr_accel_matrix *m, int64_t rows, int64_t cols, mr_cl_matrix *out)
{
    MR_ENSURE(m->at >= 0 && m->t->dtype == MR_FLOAT && rows * cols <= m->t->n - m->at);
    *out = (mr_cl_matrix){.transposed = m->transposed, .width = m->transposed ? rows : cols};
    return locate_tensor(p, m->t, m->at, &out->buffer, &out->at);
}

/* Batches are contiguous; b_same uses one right-hand matrix for all products. */
static mr_status *run_gemm(mr_device *d, const mr_accel_gemm *g)
{
    mr_opencl *p = mr_opencl_of(d);
    mr_cl_gemm out = {.m = g->m, .n = g->n, .k = g->k, .beta = g->add ? 1 : 0, .n_batch = MR_MAX(g->n_batch, 1)};
    MR_TRY(locate_matrix(p, &g->a, g->m, g->k, &out.a));
    MR_TRY(locate_matrix(p, &g->b, g->k, g->n, &out.b));
    MR_TRY(locate_matrix(p, &g->c, g->m, g->n, &out.c));
    out.a_step = g->m * g->k;
    out.b_step = g->b_same ? 0 : g->k * g->n;
    out.c_step = g->m * g->n;
    return p->driver->gemm(p->d, &out);
}

/* The last 4 bytes may reach beyond the tensor, but not beyond its block, which is a multiple of ALIGN. */
static mr_status *fill_tensor(mr_device *d, mr_tensor *t, uint32_t pattern)
{
    mr_opencl *p = mr_opencl_of(d);
    void *buffer;
    int64_t at;
    MR_TRY(locate_tensor(p, t, 0, &buffer, &at));
    return p->driver->fill(p->d, buffer, (size_t)at, (mr_tensor_bytes(t) + 3) / 4 * 4, pattern);
}

/* Both ranges must be inside their tensors. */
static mr_status *copy_elements(mr_device *d, mr_tensor *dst, int64_t at, const mr_tensor *src, int64_t from, int64_t n)
{
    mr_opencl *p = mr_opencl_of(d);
    void *to, *of;
    int64_t to_at, of_at;
    MR_ENSURE(dst->dtype == src->dtype && at >= 0 && from >= 0 && n <= dst->n - at && n <= src->n - from);
    MR_TRY(locate_tensor(p, dst, at, &to, &to_at));
    MR_TRY(locate_tensor(p, src, from, &of, &of_at));
    return p->driver->copy(p->d, to, (size_t)to_at, of, (size_t)of_at, (size_t)n * mr_dtype_size(dst->dtype));
}

static mr_status *upload_tensor(mr_device *d, mr_tensor *dst, const void *host)
{
    return mr_opencl_copy_in_soon(mr_opencl_of(d), host, dst);
}

const struct mr_accel mr_opencl_accel = {
    .launch = launch_kernel, .gemm = run_gemm, .fill = fill_tensor, .copy = copy_elements, .upload = upload_tensor};
