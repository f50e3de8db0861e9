/* server/devices.c -- DeviceAttributes: how tasks tell each other about their devices.
 *
 * A master places nodes on devices of other tasks, so it has to know which kernels a device has, its
 * priority and its speed. TensorFlow has no fields for that. A device that is not a CPU says it in its
 * physical_device_desc, which is free text: "millrace; kernels CPU; priority 210; flops 1e+11; bytes
 * 5e+10; op 5e-06". A device without such a description has only the kernels that are registered here
 * for its type, and nodes are placed on it only if they ask for it. */
#include <math.h>

#include "base/memory.h"
#include "run/accel.h"
#include "server/host.h"
#include "wire/number.h"

enum { A_NAME = 1, A_TYPE = 2, A_MEMORY = 4, A_LOCALITY = 5, A_INCARNATION = 6, A_PHYSICAL = 7 };
enum { NOT_BY_ITSELF = -1 }; /* a priority below all others: no node is placed there unasked */

/* ---- writing ---- */

/* Writes the description; read_description is its counterpart. */
static void put_description(const mr_device *d, mr_pb_writer *w)
{
    const char *kernels = d->type->kernels;
    char flops[MR_NUMBER_BYTES], bytes[MR_NUMBER_BYTES], op[MR_NUMBER_BYTES];
    mr_double_text(d->speed.flops_per_s, flops);
    mr_double_text(d->speed.bytes_per_s, bytes);
    mr_double_text(d->speed.op_s, op);
    char *text = mr_printf("millrace; kernels %s; priority %d; flops %s; bytes %s; op %s", kernels ? kernels : "none",
                           d->type->priority, flops, bytes, op);
    mr_pb_put_bytes(w, A_PHYSICAL, mr_sv_of(text));
    mr_free(text);
}

/* A CPU has no description: every task knows its kernels, and TensorFlow's CPUs have none either. */
void mr_device_attributes_encode(const mr_device *d, mr_pb_writer *w, uint32_t field)
{
    size_t mark = mr_pb_begin(w, field);
    mr_pb_put_bytes(w, A_NAME, mr_sv_of(d->name));
    mr_pb_put_bytes(w, A_TYPE, mr_sv_of(d->type->name));
    mr_pb_put_varint(w, A_MEMORY, (uint64_t)d->memory_limit);
    mr_pb_put_bytes(w, A_LOCALITY, MR_SV(""));
    mr_pb_put_fixed64(w, A_INCARNATION, d->incarnation);
    if (strcmp(d->type->name, mr_device_cpu.name) != 0)
        put_description(d, w);
    mr_pb_end(w, mark);
}

/* ---- devices of others ---- */

/* Another task's device that is not a CPU. Its type is part of it, and lives as long as the device. */
typedef struct remote {
    mr_device base; /* first */
    mr_device_type type;
    char name[sizeof ((mr_device_name *)0)->type];
} remote;

static void remote_free(mr_device *d) { mr_free(d); }

/* Numbers that are not positive and finite are ignored. */
static void read_positive(mr_sv text, double *out)
{
    double v;
    if (mr_text_to_double(text, &v) && v > 0 && isfinite(v))
        *out = v;
}

/* The device type whose kernels it uses, if that is known here. */
static const char *read_kernels(mr_sv value)
{
    static const char *const known[] = {"CPU", MR_ACCEL_KERNELS};
    for (int i = 0; i < MR_COUNT(known); i++)
        if (mr_sv_is(value, known[i]))
            return known[i];
    return NULL;
}

/* One "key value" of a description; unknown keys are ignored, so newer tasks may add some. */
static void read_word(mr_sv key, mr_sv value, remote *r)
{
    int64_t n;
    if (mr_sv_is(key, "kernels"))
        r->type.kernels = read_kernels(value);
    else if (mr_sv_is(key, "priority") && mr_sv_to_i64(value, &n) && n >= 0 && n <= 1000000)
        r->type.priority = (int)n;
    else if (mr_sv_is(key, "flops"))
        read_positive(value, &r->base.speed.flops_per_s);
    else if (mr_sv_is(key, "bytes"))
        read_positive(value, &r->base.speed.bytes_per_s);
    else if (mr_sv_is(key, "op"))
        read_positive(value, &r->base.speed.op_s);
}

/* Reads a description. It comes from another process: whatever cannot be read keeps its default. */
static void read_description(mr_sv text, remote *r)
{
    mr_sv word, key;
    if (!mr_sv_cut(&text, ';', &word) || !mr_sv_is(word, "millrace"))
        return;
    while (mr_sv_cut(&text, ';', &word)) {
        mr_sv value = mr_sv_trim(word);
        if (mr_sv_cut(&value, ' ', &key) && value.p)
            read_word(key, mr_sv_trim(value), r);
    }
}

/* Makes a device that is not a CPU. It is created as a CPU with room for a separate type, and then gets that type. */
static mr_status *make_remote(const char *full_name, const mr_device_name *parsed, mr_sv description, mr_device **out)
{
    MR_TRY(mr_device_new(&mr_device_cpu, full_name, sizeof(remote), NULL, out));
    remote *r = (remote *)*out;
    memcpy(r->name, parsed->type, sizeof r->name);
    r->type = (mr_device_type){.name = r->name, .priority = NOT_BY_ITSELF, .free = remote_free};
    r->base.type = &r->type;
    read_description(description, r);
    return NULL;
}

/* task (may be NULL): the name that the device's task has in a cluster that a client brought; it replaces the task in
 * the device's name. *out stays NULL without an error if the type does not fit the name. */
mr_status *mr_device_attributes_decode_as(mr_sv attributes, const char *task, mr_device **out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv name = MR_SV(""), type = MR_SV(""), description = MR_SV("");
    uint64_t memory = 0, incarnation = 0;
    mr_device_name parsed;
    *out = NULL;
    mr_pb_reader_init(&r, attributes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case A_NAME: name = mr_pb_bytes(&r); break;
        case A_TYPE: type = mr_pb_bytes(&r); break;
        case A_MEMORY: memory = mr_pb_varint(&r); break;
        case A_INCARNATION: incarnation = mr_pb_fixed64(&r); break;
        case A_PHYSICAL: description = mr_pb_bytes(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "DeviceAttributes"));
    if (!mr_device_name_parse(name, &parsed) || !mr_device_name_full(&parsed))
        return mr_invalid("DeviceAttributes: '%.*s' is not the full name of a device", MR_SV_ARG(name));
    /* No node could ask for such a device by its type, so it is left out, without an error. */
    if (!mr_sv_is(type, parsed.type))
        return NULL;
    bool cpu = strcmp(parsed.type, mr_device_cpu.name) == 0;
    char *z = task ? mr_printf("%s/device:%s:%d", task, parsed.type, parsed.id) : mr_strndup(name.p, name.n);
    mr_status *st = cpu ? mr_device_new_cpu(z, NULL, out) : make_remote(z, &parsed, description, out);
    mr_free(z);
    if (!st) {
        (*out)->incarnation = incarnation;
        (*out)->memory_limit = (int64_t)memory;
    }
    return st;
}

mr_status *mr_device_attributes_decode(mr_sv attributes, mr_device **out)
{
    return mr_device_attributes_decode_as(attributes, NULL, out);
}
