/* exec/device_plugin.c -- devices of a type that a loaded library provides.
 *
 * The memory of a device is an allocator that lives until the device and the last of its blocks are gone.
 * Only then is the library asked to close the device. So `owners` is 1 for the device plus 1 for each block
 * in use.
 *
 * If the type has its own memory, plugin_start moves each input to where the kernel wants it before the
 * kernel runs. */
#include "exec/device_plugin.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/thread.h"
#include "run/run.h"

enum { MAX_DEVICES = 256 };

typedef struct memory {
    mr_allocator a; /* first */
    const mr_plugin *p;
    void *device;
    _Atomic int64_t owners; /* the device and the blocks */
    _Atomic int64_t in_use, n_allocs;
} memory;

typedef struct plugged {
    mr_device base; /* first */
    const mr_plugin *p;
    memory *m;
} plugged;

/* ---- memory ---- */

/* Drops one owner; the last one closes the device and frees the memory. */
static void drop_owner(memory *m)
{
    MR_ASSERT(m->owners > 0);
    if (atomic_fetch_sub_explicit(&m->owners, 1, memory_order_acq_rel) != 1)
        return;
    m->p->close(m->p, m->device);
    mr_free(m);
}

/* The mr_allocator.alloc of a plugged-in device. Each block counts as an owner, so the library stays open until
 * the last tensor is freed. */
static void *plugin_alloc(mr_allocator *a, size_t bytes)
{
    memory *m = (memory *)a;
    void *p = m->p->alloc(m->p, m->device, bytes);
    if (p) {
        MR_ASSERT(m->owners > 0);
        atomic_fetch_add_explicit(&m->owners, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&m->in_use, (int64_t)bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&m->n_allocs, 1, memory_order_relaxed);
    }
    return p;
}

/* May close the device: a tensor can outlive the mr_device. */
static void plugin_free(mr_allocator *a, void *p, size_t bytes)
{
    memory *m = (memory *)a;
    if (!p)
        return;
    m->p->free(m->p, m->device, p, bytes);
    MR_ASSERT(m->in_use >= (int64_t)bytes);
    atomic_fetch_sub_explicit(&m->in_use, (int64_t)bytes, memory_order_relaxed);
    drop_owner(m);
}

static mr_status *plugin_copy(mr_allocator *a, void *dst, const void *src, size_t bytes, mr_copy_way way)
{
    memory *m = (memory *)a;
    return m->p->copy(m->p, m->device, dst, src, bytes, way);
}

/* Copies zeros from the host: the library has no function for it. */
static mr_status *plugin_clear(mr_allocator *a, void *p, size_t bytes)
{
    void *zeros = mr_try_calloc(bytes, 1);
    if (!zeros)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot allocate %zu bytes to clear a tensor", bytes);
    mr_status *st = plugin_copy(a, p, zeros, bytes, MR_COPY_IN);
    mr_free(zeros);
    return st;
}

/* The peak and the limit are not known: the library manages the memory. */
static void plugin_stats(mr_allocator *a, mr_allocator_stats *out)
{
    memory *m = (memory *)a;
    out->in_use = atomic_load_explicit(&m->in_use, memory_order_relaxed);
    out->n_allocs = atomic_load_explicit(&m->n_allocs, memory_order_relaxed);
}

/* The allocator of a device that was just opened, with the device as its only owner. It is host memory unless the
 * type has its own memory. */
static memory *memory_new(const mr_plugin *p, void *device)
{
    memory *m = mr_new(memory);
    m->p = p;
    m->device = device;
    m->a = (mr_allocator){.name = p->type,
                          .alloc = plugin_alloc,
                          .free = plugin_free,
                          .stats = plugin_stats,
                          .host = !p->own_memory,
                          .copy = plugin_copy,
                          .clear = plugin_clear};
    atomic_init(&m->owners, 1);
    return m;
}

/* ---- running ---- */

typedef enum place { EITHER, HOST, DEVICE } place;

static bool is_send(const mr_run *r) { return mr_node_is(r->node, "_Send") || mr_node_is(r->node, "_HostSend"); }

/* True if the kernel is of the device's type, not borrowed from the CPU. */
static bool is_own(const mr_run *r) { return strcmp(r->kernel->device, r->step->device->type->name) == 0; }

/* Where input i must be. The library's own kernels want device memory, borrowed ones host memory. Ops that
 * touch no data pass either on. A _Send hands its value to the host. */
static place place_of(const mr_run *r, int i, bool own)
{
    if (r->in[i].kind != MR_LIVE || !mr_dtype_is_plain(r->in[i].t->dtype))
        return EITHER;
    if (mr_run_host_in(r, i) || is_send(r))
        return HOST;
    bool passes = !r->node->def->op || (r->node->def->op->flags & MR_HOST_ONLY);
    return own ? DEVICE : passes ? EITHER : HOST;
}

/* Replaces an input by a copy in the other memory. The run owns both. */
static mr_status *move_input(mr_run *r, int i, place to)
{
    mr_tensor *copy = NULL;
    const plugged *d = (const plugged *)r->step->device;
    MR_TRY(mr_tensor_copy(to == HOST ? mr_cpu_allocator() : &d->m->a, mr_in(r, i), &copy));
    mr_tensor_unref(r->in[i].t);
    r->in[i].t = copy;
    return NULL;
}

/* Moves the inputs that are in the wrong memory. Empty tensors need no memory and stay. */
static mr_status *move_inputs(mr_run *r, bool own)
{
    for (int i = 0; i < r->n_in; i++) {
        place want = place_of(r, i, own);
        if (want != EITHER && mr_in(r, i)->n > 0 && mr_tensor_on_host(mr_in(r, i)) != (want == HOST))
            MR_TRY(move_input(r, i, want));
    }
    return NULL;
}

/* Called by the library when the node's turn has come, or directly. */
static void run_now(void *arg)
{
    mr_run *r = arg;
    mr_status *st = NULL;
    if (mr_run_kernel(r, &st))
        mr_run_done(r, st);
}

/* mr_device_type.start. The library decides when its kernels, and the CPU's synchronous ones, run. Kernels
 * that wait for others (a Recv, a queue) run at once: they must not hold up the device. */
static void plugin_start(mr_run *r)
{
    plugged *d = (plugged *)r->step->device;
    bool own = is_own(r);
    mr_status *st = d->p->own_memory && !r->dead ? move_inputs(r, own) : NULL;
    if (st)
        mr_run_done(r, st);
    else if (d->p->start && (own || r->kernel->run) && !is_send(r))
        d->p->start(d->p, d->m->device, r->node->name, r->node->def->name, own, run_now, r);
    else
        run_now(r);
}

/* Reports only what the library has set; the caller keeps its defaults for the rest. */
static bool plugin_link(const mr_device *d, const mr_device *from, const mr_device *to, double *latency_s, double *bytes_per_s)
{
    const mr_plugin *p = ((const plugged *)d)->p;
    (void)from, (void)to;
    if (p->latency_s > 0)
        *latency_s = p->latency_s;
    if (p->link_bytes_per_s > 0)
        *bytes_per_s = p->link_bytes_per_s;
    return p->latency_s > 0 || p->link_bytes_per_s > 0;
}

/* Blocks that are still in use keep the memory and the library's device open. */
static void plugin_device_free(mr_device *base)
{
    plugged *d = (plugged *)base;
    drop_owner(d->m);
    mr_free(d);
}

/* Plugged-in devices are recognized by their start function. */
void *mr_plugin_device(const mr_device *d)
{
    return d->type->start == plugin_start ? ((const plugged *)d)->m->device : NULL;
}

mr_allocator *mr_plugin_memory(const mr_device *d)
{
    const plugged *p = (const plugged *)d;
    return d->type->start == plugin_start && p->p->own_memory ? &p->m->a : NULL;
}

/* Strings and handles need the host's destructors, so they are always in host memory. */
mr_allocator *mr_plugin_allocator(const mr_run *r, int output, mr_dtype type)
{
    mr_allocator *a = mr_plugin_memory(r->step->device);
    bool on_host = !is_own(r) || !mr_dtype_valid((int)type) || !mr_dtype_is_plain(type) || (output >= 0 && mr_run_host_out(r, output));
    return on_host ? NULL : a;
}

/* ---- making ---- */

/* Opens one device and appends it to *out. On failure the device is closed again. */
static mr_status *make_one(const mr_plugin *p, const char *task, mr_pool *pool, int id, mr_device_vec *out)
{
    mr_device *base = NULL;
    void *device = NULL;
    MR_TRY(mr_status_prepend(p->open(p, id, &device), "Device %s:%d: ", p->type, id));
    char *name = mr_printf("%s/device:%s:%d", task, p->type, id);
    mr_status *st = mr_device_new(&p->device_type, name, sizeof(plugged), pool, &base);
    mr_free(name);
    if (st) {
        p->close(p, device);
        return st;
    }
    plugged *d = (plugged *)base;
    MR_ASSERT(!d->m);
    d->p = p;
    d->m = memory_new(p, device);
    int64_t bytes = p->memory_bytes ? p->memory_bytes(p, device) : 0;
    if (bytes > 0)
        base->memory_limit = bytes;
    base->speed = p->speed;
    mr_vec_push(out, base);
    return NULL;
}

/* The mr_device_maker.make of a plugin. The devices that were made before a failure are in *out and belong to the
 * caller. */
static mr_status *make_devices(const mr_device_maker *maker, const char *task, mr_pool *pool, int limit,
                                  mr_device_vec *out)
{
    const mr_plugin *p = maker->user;
    int n = 0;
    MR_TRY(mr_status_prepend(p->count(p, &n), "Devices of type %s: ", p->type));
    if (n < 0 || n > MAX_DEVICES)
        return mr_invalid("Devices of type %s: the library reports %d devices, expected 0 to %d", p->type, n,
                          MAX_DEVICES);
    for (int i = 0; i < n && (limit < 0 || i < limit); i++)
        MR_TRY(make_one(p, task, pool, i, out));
    return NULL;
}

/* The plugin embeds the device type and the maker, which are used as long as the process lives. */
mr_status *mr_plugin_register(mr_plugin *p)
{
    p->device_type = (mr_device_type){.name = p->type,
                                      .kernels = p->borrows ? mr_device_cpu.name : NULL,
                                      .priority = p->priority,
                                      .start = plugin_start,
                                      .moves = true,
                                      .link = plugin_link,
                                      .free = plugin_device_free};
    p->maker = (mr_device_maker){.type = p->type, .make = make_devices, .user = p};
    return mr_device_maker_register(&p->maker);
}

/* ---- libraries ---- */

static mr_mutex libraries_mu = {PTHREAD_MUTEX_INITIALIZER};
static bool loaded MR_GUARDED_BY(libraries_mu);
static mr_status *loading MR_GUARDED_BY(libraries_mu); /* NULL: successful */

/* Opens a library; its initializer registers its device types. It is never closed: devices may use it until
 * the process ends. */
static mr_status *load_library(mr_sv path)
{
    char *z = mr_strndup(path.p, path.n);
    mr_status *st = NULL;
    if (!dlopen(z, RTLD_NOW | RTLD_LOCAL)) {
        const char *why = dlerror();
        st = mr_error(MR_NOT_FOUND, "MILLRACE_DEVICES: %s", why ? why : z);
    }
    mr_free(z);
    return st;
}

/* Loads each library once. A failure is kept and reported to every later session as well. */
mr_status *mr_plugin_libraries(void)
{
    mr_lock(&libraries_mu);
    const char *text = loaded ? NULL : getenv("MILLRACE_DEVICES");
    mr_sv rest = mr_sv_of(text), path;
    loaded = true;
    while (rest.n && !loading && mr_sv_cut(&rest, ':', &path))
        if (path.n)
            loading = load_library(path);
    mr_status *st = loading ? mr_status_copy(loading) : NULL;
    mr_unlock(&libraries_mu);
    return st;
}
