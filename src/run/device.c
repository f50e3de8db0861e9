/* run/device.c -- devices, the CPU among them, and the list of makers of other device types. Names of devices
 * are in device_name.c.
 *
 * Makers are few, added at any time and never removed, so their list may be walked by index without holding
 * the lock. */
#include "run/device.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "graph/graph.h"

/* What TensorFlow reports for a CPU; nothing is limited by it. */
#define CPU_MEMORY_LIMIT (INT64_C(256) << 20)

const mr_speed mr_speed_cpu = {.flops_per_s = 2e10, .bytes_per_s = 8e9, .op_s = 1e-6};

/* ---- devices ---- */

/* The type's own members, behind the mr_device, are zeroed. The incarnation identifies this device object: a
 * restarted task has other incarnations. */
mr_status *mr_device_new(const mr_device_type *type, const char *full_name, size_t bytes, mr_pool *pool, mr_device **out)
{
    mr_device_name parsed;
    MR_ASSERT(bytes >= sizeof(mr_device));
    *out = NULL;
    if (!mr_device_name_parse(mr_sv_of(full_name), &parsed) || !mr_device_name_full(&parsed))
        return mr_invalid("'%s' is not the full name of a device, such as /job:worker/replica:0/task:0/device:CPU:0",
                          full_name);
    mr_device *d = mr_calloc(1, bytes);
    d->type = type;
    d->name = mr_strdup(full_name);
    d->alloc = mr_cpu_allocator();
    d->resources = mr_resources_new("localhost");
    d->pool = pool;
    do {
        d->incarnation = mr_random64();
    } while (d->incarnation == 0);
    d->memory_limit = CPU_MEMORY_LIMIT;
    d->speed = mr_speed_cpu;
    *out = d;
    return NULL;
}

/* The type's free comes last and frees d itself. */
void mr_device_free(mr_device *d)
{
    if (!d)
        return;
    if (!d->shares)
        mr_resources_free(d->resources);
    mr_free((char *)(uintptr_t)d->name);
    d->type->free(d);
}

/* Only for a device that nobody uses yet: its own resources are freed here. */
void mr_device_share(mr_device *d, mr_device *with)
{
    MR_ASSERT(!d->shares);
    MR_ASSERT(d != with && with->resources);
    mr_resources_free(d->resources);
    d->resources = with->resources;
    d->shares = true;
}

static bool is_count_type(int type)
{
    type = mr_dtype_base(type);
    return type == MR_INT32 || type == MR_INT64 || type == MR_BOOL;
}

/* True for arithmetic of shapes and conditions of loops: only int32, int64 and bool go in and out. A device
 * with its own memory leaves these to the host rather than to another device. */
static bool is_counting(const mr_node *n)
{
    bool all = n->def->op && !(n->def->flags & MR_STATEFUL) && n->n_out > 0;
    for (int i = 0; i < n->n_in; i++)
        all &= is_count_type(n->in_types[i]) && !mr_dtype_is_ref(n->in_types[i]);
    for (int i = 0; i < n->n_out; i++)
        all &= is_count_type(n->out_types[i]) && !mr_dtype_is_ref(n->out_types[i]);
    return all;
}

/* The type's own kernel, else one of the type it borrows from, else the CPU's if the node only counts. */
const mr_kernel *mr_device_kernel(const mr_device *d, const mr_node *n)
{
    const mr_kernel *own = mr_kernel_find(n, d->type->own ? d->type->own : d->type->name);
    if (!own && d->type->kernels)
        own = mr_kernel_find(n, d->type->kernels);
    return !own && d->accel && is_counting(n) ? mr_kernel_find(n, "CPU") : own;
}

/* ---- the CPU ---- */

static void cpu_free(mr_device *d) { mr_free(d); }

const mr_device_type mr_device_cpu = {.name = "CPU", .priority = 60, .free = cpu_free};

mr_status *mr_device_new_cpu(const char *full_name, mr_pool *pool, mr_device **out)
{
    return mr_device_new(&mr_device_cpu, full_name, sizeof **out, pool, out);
}

/* ---- makers: few, and never removed ---- */

static mr_mutex makers_mu = {PTHREAD_MUTEX_INITIALIZER};
static MR_VEC(const mr_device_maker *) makers MR_GUARDED_BY(makers_mu);

/* Two makers of one type would make devices with equal names. The CPU has no maker: every session makes its own. */
static mr_status *add_maker(const mr_device_maker *m) MR_REQUIRES(makers_mu)
{
    bool taken = strcmp(m->type, mr_device_cpu.name) == 0;
    for (int i = 0; i < makers.n; i++)
        taken |= strcmp(m->type, makers.p[i]->type) == 0;
    if (taken)
        return mr_error(MR_ALREADY_EXISTS, "Device type '%s' exists already", m->type);
    mr_vec_push(&makers, m);
    return NULL;
}

mr_status *mr_device_maker_register(const mr_device_maker *m)
{
    mr_lock(&makers_mu);
    mr_status *st = add_maker(m);
    mr_unlock(&makers_mu);
    return st;
}

/* NULL behind the last one. The maker itself is never freed, so the pointer stays valid without the lock. */
static const mr_device_maker *maker_at(int i)
{
    mr_lock(&makers_mu);
    const mr_device_maker *m = i < makers.n ? makers.p[i] : NULL;
    mr_unlock(&makers_mu);
    return m;
}

/* Calls the makers without the lock: making devices may take long, and may register further types. */
mr_status *mr_device_make_all(const char *task, mr_pool *pool, int (*limit)(void *ctx, const char *type), void *ctx, mr_device_vec *out)
{
    const mr_device_maker *m;
    for (int i = 0; (m = maker_at(i)); i++) {
        int most = limit(ctx, m->type);
        if (most != 0)
            MR_TRY(m->make(m, task, pool, most, out));
    }
    return NULL;
}
