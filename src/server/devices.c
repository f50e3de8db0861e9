/* server/devices.c -- DeviceAttributes: how tasks tell each other of their devices. */
#include "base/memory.h"
#include "server/host.h"

enum { A_NAME = 1, A_TYPE = 2, A_MEMORY = 4, A_LOCALITY = 5, A_INCARNATION = 6 };

void mr_device_attributes_encode(const mr_device *d, mr_pb_writer *w, uint32_t field)
{
    size_t mark = mr_pb_begin(w, field);
    mr_pb_put_bytes(w, A_NAME, mr_sv_of(d->name));
    mr_pb_put_bytes(w, A_TYPE, mr_sv_of(d->type->name));
    mr_pb_put_varint(w, A_MEMORY, (uint64_t)d->memory_limit);
    mr_pb_put_bytes(w, A_LOCALITY, MR_SV(""));
    mr_pb_put_fixed64(w, A_INCARNATION, d->incarnation);
    mr_pb_end(w, mark);
}

mr_status *mr_device_attributes_decode_as(mr_sv attributes, const char *task, mr_device **out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv name = MR_SV(""), type = MR_SV("");
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
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "DeviceAttributes"));
    if (!mr_device_name_parse(name, &parsed) || !mr_device_name_full(&parsed))
        return mr_invalid("DeviceAttributes: '%.*s' is not the full name of a device", MR_SV_ARG(name));
    if (!mr_sv_is(type, mr_device_cpu.name)) /* no kernels are known for it: not used */
        return NULL;
    char *z = task ? mr_printf("%s/device:%s:%d", task, mr_device_cpu.name, parsed.id) : mr_strndup(name.p, name.n);
    mr_status *st = mr_device_new_cpu(z, NULL, out);
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
