/* exec/opencl/device.c -- the device type GPU: a session's name for a physical OpenCL device.
 *
 * Each session has its own mr_device with its own resources; memory, queue and waiter belong to the physical
 * device. */
#include "base/memory.h"
#include "exec/opencl/opencl.h"

typedef struct gpu {
    mr_device base;
    mr_opencl *physical;
} gpu;

mr_opencl *mr_opencl_of(const mr_device *d) { return ((const gpu *)d)->physical; }

static void copy_in(mr_device *d, const mr_tensor *host, mr_tensor *dst, void (*done)(void *, mr_status *), void *arg)
{
    mr_opencl_copy_in(mr_opencl_of(d), host, dst, done, arg);
}

static void copy_out(mr_device *d, const mr_tensor *src, mr_tensor *host, void (*done)(void *, mr_status *), void *arg)
{
    mr_opencl_copy_out(mr_opencl_of(d), src, host, done, arg);
}

/* The physical device stays, but memory that nobody uses is freed. The queue is empty then, so that a process
 * may end without the driver still being at work. */
static void gpu_free(mr_device *d)
{
    const mr_opencl *p = mr_opencl_of(d);
    mr_status_free(p->driver->finish(p->d));
    mr_allocator_trim(d->alloc);
    mr_free(d);
}

static const mr_device_type gpu_type = {.name = "GPU",
                                        .kernels = MR_ACCEL_KERNELS,
                                        .priority = 210, /* as TensorFlow's: preferred where it has a kernel */
                                        .start = mr_opencl_start,
                                        .copy_in = copy_in,
                                        .copy_out = copy_out,
                                        .free = gpu_free};

/* The speed is a guess for placement by cost: queueing a kernel takes some microseconds, and the memory of a
 * GPU is about ten times as fast as that of its host. */
static mr_status *make_one(const char *task, int i, mr_opencl *p, mr_pool *pool, mr_device_vec *out)
{
    char *name = mr_printf("%s/device:GPU:%d", task, i);
    mr_device *d = NULL;
    mr_status *st = mr_device_new(&gpu_type, name, sizeof(gpu), pool, &d);
    mr_free(name);
    MR_TRY(st);
    mr_allocator_stats s;
    ((gpu *)d)->physical = p;
    d->alloc = mr_opencl_allocator(p->memory);
    d->accel = &mr_opencl_accel;
    mr_allocator_get_stats(d->alloc, &s);
    d->memory_limit = s.limit;
    d->speed = (mr_speed){p->info.flops_per_s, p->info.is_cpu ? mr_speed_cpu.bytes_per_s : 1e11, 1e-5};
    mr_vec_push(out, d);
    return NULL;
}

/* The mr_device_maker.make of GPUs: one mr_device for each physical device. */
static mr_status *make_devices(const mr_device_maker *m, const char *task, mr_pool *pool, int limit, mr_device_vec *out)
{
    mr_opencl *const *devices;
    int n = mr_opencl_devices(&devices);
    (void)m;
    for (int i = 0; i < n && (limit < 0 || i < limit); i++)
        MR_TRY(make_one(task, i, devices[i], pool, out));
    return NULL;
}

/* Registers the maker at most once. If another library has registered the type GPU first, its devices are
 * used. */
void mr_opencl_register(void)
{
    static const mr_device_maker maker = {.type = "GPU", .make = make_devices};
    static _Atomic int registered;
    const char *want;
    if (atomic_load(&registered) || !mr_opencl_wanted(&want) || atomic_exchange(&registered, 1))
        return;
    mr_status_free(mr_device_maker_register(&maker));
}
