/* run/device.c -- the CPU as a device.  Names of devices are in device_name.c. */
#include "run/device.h"

#include "base/clock.h"
#include "base/memory.h"

/* What TensorFlow reports for a CPU; nothing is limited by it. */
#define CPU_MEMORY_LIMIT (INT64_C(256) << 20)

const mr_speed mr_speed_cpu = {.flops_per_s = 2e10, .bytes_per_s = 8e9, .op_s = 1e-6};

static void cpu_free(mr_device *d) { mr_free(d); }

const mr_device_type mr_device_cpu = {.name = "CPU", .priority = 60, .free = cpu_free};

mr_status *mr_device_new_cpu(const char *full_name, mr_pool *pool, mr_device **out)
{
    mr_device_name parsed;
    if (!mr_device_name_parse(mr_sv_of(full_name), &parsed) || !mr_device_name_full(&parsed))
        return mr_invalid("'%s' is not the full name of a device", full_name);
    mr_device *d = mr_new(mr_device);
    d->type = &mr_device_cpu;
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

void mr_device_free(mr_device *d)
{
    if (!d)
        return;
    mr_resources_free(d->resources);
    mr_free((char *)(uintptr_t)d->name);
    d->type->free(d);
}
