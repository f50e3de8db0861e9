/* capi/device_plugin.c -- mr_register_device: checks the description of a device plugin and adapts its functions.
 *
 * The functions of a plugin use the types of the C API; those of exec/ use ours. The functions below convert between
 * them. */
#include "capi/internal.h"

#include <math.h>

#include "capi/kernels.h"
#include "exec/device_plugin.h"
#include "millrace/device.h"

enum { PRIORITY = 210, MAX_PRIORITY = 1000000 };

typedef struct adapter {
    mr_plugin ours; /* first */
    mr_device_plugin theirs;
} adapter;

static const mr_device_plugin *theirs_of(const mr_plugin *p) { return &((const adapter *)p)->theirs; }

/* ---- their functions ---- */

static mr_status *count_devices(const mr_plugin *p, int *out)
{
    const mr_device_plugin *t = theirs_of(p);
    *out = t->count ? t->count(t->user) : 1;
    return NULL;
}

static mr_status *open_device(const mr_plugin *p, int id, void **device)
{
    const mr_device_plugin *t = theirs_of(p);
    *device = t->user;
    if (!t->open)
        return NULL;
    TF_Status *s = TF_NewStatus();
    *device = t->open(t->user, id, s);
    mr_status *st = mr_capi_status_copy(s);
    TF_DeleteStatus(s);
    return st;
}

static void close_device(const mr_plugin *p, void *device)
{
    const mr_device_plugin *t = theirs_of(p);
    if (t->close)
        t->close(device);
}

static int64_t memory_bytes(const mr_plugin *p, void *device)
{
    const mr_device_plugin *t = theirs_of(p);
    return t->memory_bytes ? t->memory_bytes(device) : 0;
}

static void *alloc_bytes(const mr_plugin *p, void *device, size_t bytes) { return theirs_of(p)->alloc(device, bytes); }

static void free_at(const mr_plugin *p, void *device, void *at, size_t bytes) { theirs_of(p)->free(device, at, bytes); }

static void copy_by_host(const mr_device_plugin *t, void *device, void *dst, const void *src, size_t bytes, TF_Status *s)
{
    void *between = mr_try_calloc(bytes, 1);
    if (!between) {
        TF_SetStatus(s, TF_RESOURCE_EXHAUSTED, "No memory for the buffer of a copy");
        return;
    }
    t->copy_out(device, between, src, bytes, s);
    if (TF_GetCode(s) == TF_OK)
        t->copy_in(device, dst, between, bytes, s);
    mr_free(between);
}

static mr_status *copy_bytes(const mr_plugin *p, void *device, void *dst, const void *src, size_t bytes,
                             mr_copy_way way)
{
    const mr_device_plugin *t = theirs_of(p);
    TF_Status *s = TF_NewStatus();
    if (way == MR_COPY_IN)
        t->copy_in(device, dst, src, bytes, s);
    else if (way == MR_COPY_OUT)
        t->copy_out(device, dst, src, bytes, s);
    else if (t->copy_within)
        t->copy_within(device, dst, src, bytes, s);
    else
        copy_by_host(t, device, dst, src, bytes, s);
    mr_status *st = mr_capi_status_copy(s);
    TF_DeleteStatus(s);
    return st;
}

static void start_kernel(const mr_plugin *p, void *device, const char *node, const char *op, bool own,
                         void (*run)(void *arg), void *arg)
{
    theirs_of(p)->start(device, node, op, own, run, arg);
}

/* ---- checks ---- */

static bool is_type(const char *t)
{
    size_t n = t ? strnlen(t, sizeof ((mr_plugin *)0)->type) : 0;
    bool ok = n > 0 && n < sizeof ((mr_plugin *)0)->type;
    for (size_t i = 0; ok && i < n; i++)
        ok = (t[i] >= 'A' && t[i] <= 'Z') || (t[i] >= 'a' && t[i] <= 'z') || t[i] == '_' || (i && t[i] >= '0' && t[i] <= '9');
    return ok;
}

static mr_status *check_numbers(const mr_device_plugin *t)
{
    const double numbers[] = {t->flops_per_s, t->bytes_per_s, t->op_s, t->latency_s, t->link_bytes_per_s};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (!(numbers[i] >= 0) || !isfinite(numbers[i]))
            return mr_invalid("Device type %s: %g is not a valid speed or time; it must be finite and not negative",
                              t->type, numbers[i]);
    if (t->priority < 0 || t->priority > MAX_PRIORITY)
        return mr_invalid("Device type %s: its priority %d is not from 0 to %d", t->type, t->priority, MAX_PRIORITY);
    return NULL;
}

static mr_status *check_plugin(const mr_device_plugin *t)
{
    int n_memory = !!t->alloc + !!t->free + !!t->copy_in + !!t->copy_out;
    if (t->version != MR_DEVICE_PLUGIN_VERSION)
        return mr_invalid("The device plugin has version %d; this library needs version %d", t->version,
                          MR_DEVICE_PLUGIN_VERSION);
    if (!is_type(t->type))
        return mr_invalid("A device plugin needs a type of up to %zu letters, digits and _", sizeof ((mr_plugin *)0)->type - 1);
    if (n_memory != 0 && n_memory != 4)
        return mr_invalid("Device type %s: set all of alloc, free, copy_in and copy_out, or none", t->type);
    if (t->copy_within && n_memory == 0)
        return mr_invalid("Device type %s: copy_within needs alloc, free, copy_in and copy_out", t->type);
    return check_numbers(t);
}

static double or_usual(double v, double usual) { return v > 0 ? v : usual; }

/* The plugin may free its struct afterwards, so the type is copied. */
static adapter *make_adapter(const mr_device_plugin *t)
{
    adapter *a = mr_new(adapter);
    a->theirs = *t;
    memcpy(a->ours.type, t->type, strlen(t->type) + 1);
    a->theirs.type = a->ours.type;
    a->ours.priority = t->priority ? t->priority : PRIORITY;
    a->ours.borrows = t->borrow;
    a->ours.own_memory = t->alloc != NULL;
    a->ours.speed = (mr_speed){or_usual(t->flops_per_s, mr_speed_cpu.flops_per_s),
                               or_usual(t->bytes_per_s, mr_speed_cpu.bytes_per_s), or_usual(t->op_s, mr_speed_cpu.op_s)};
    a->ours.latency_s = t->latency_s;
    a->ours.link_bytes_per_s = t->link_bytes_per_s;
    a->ours.count = count_devices;
    a->ours.open = open_device;
    a->ours.close = close_device;
    a->ours.memory_bytes = memory_bytes;
    a->ours.alloc = alloc_bytes;
    a->ours.free = free_at;
    a->ours.copy = copy_bytes;
    a->ours.start = t->start ? start_kernel : NULL;
    return a;
}

static mr_status *register_device(const mr_device_plugin *plugin)
{
    mr_device_plugin t;
    MR_TRY(mr_capi_take_struct(&t, sizeof t, plugin, offsetof(mr_device_plugin, user), "device plugin"));
    MR_TRY(check_plugin(&t));
    mr_capi_init();
    adapter *a = make_adapter(&t);
    mr_status *st = mr_plugin_register(&a->ours);
    if (st)
        mr_free(a);
    return st;
}

void mr_register_device(const mr_device_plugin *plugin, TF_Status *status)
{
    mr_capi_set_status(status, register_device(plugin));
}

void *mr_kernel_device(TF_OpKernelContext *ctx) { return ctx ? mr_plugin_device(ctx->run->step->device) : NULL; }
