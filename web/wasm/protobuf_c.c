/* web/wasm/protobuf_c.c -- the parts of protobuf-c's library that wire/message.c uses, as its header declares them.
 *
 * wire/message.c reads messages itself, so only packing is here. Debian has the library for the machine alone. */
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <string.h>

typedef ProtobufCFieldDescriptor field;

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

const char protobuf_c_empty_string[] = "";

/* The range of consecutive numbers that has this one says where its fields are. */
const field *protobuf_c_message_descriptor_get_field(const ProtobufCMessageDescriptor *d, unsigned number)
{
    for (unsigned i = 0; i < d->n_field_ranges; i++) {
        const ProtobufCIntRange *r = &d->field_ranges[i];
        unsigned n = d->field_ranges[i + 1].orig_index - r->orig_index; /* a last, empty range ends the list */
        if (number >= (unsigned)r->start_value && number - (unsigned)r->start_value < n)
            return &d->fields[r->orig_index + (number - (unsigned)r->start_value)];
    }
    return NULL;
}

/* ---- packing: each function returns how many bytes it puts; `to` NULL: none, they are only counted ---- */

static size_t put_message(const ProtobufCMessage *m, uint8_t *to);

static uint8_t *at(uint8_t *to, size_t n) { return to ? to + n : NULL; }

static size_t put_bytes(const void *p, size_t n, uint8_t *to)
{
    if (to && n)
        memcpy(to, p, n);
    return n;
}

static size_t put_varint(uint64_t v, uint8_t *to)
{
    size_t n = 0;
    do {
        if (to)
            to[n] = (uint8_t)(v & 0x7f) | (v > 0x7f ? 0x80 : 0);
        n++;
        v >>= 7;
    } while (v);
    return n;
}

static size_t put_tag(uint32_t number, int wire, uint8_t *to) { return put_varint((uint64_t)number << 3 | (uint64_t)wire, to); }

static size_t put_block(const void *p, size_t n, uint8_t *to)
{
    size_t head = put_varint(n, to);
    return head + put_bytes(p, n, at(to, head));
}

static int wire_of(ProtobufCType t)
{
    switch (t) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return FIXED32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return BYTES;
    default: return VARINT;
    }
}

static size_t put_submessage(const ProtobufCMessage *m, uint8_t *to)
{
    size_t n = m ? put_message(m, NULL) : 0, head = put_varint(n, to);
    return head + (m ? put_message(m, at(to, head)) : 0);
}

/* Without its tag. A message and a block begin with their length. */
static size_t put_value(ProtobufCType t, const void *v, uint8_t *to)
{
    const ProtobufCBinaryData *b = v;
    const char *s;
    int32_t i32;
    int64_t i64;
    switch (t) {
    case PROTOBUF_C_TYPE_STRING:
        s = *(const char *const *)v;
        return put_block(s, s ? strlen(s) : 0, to);
    case PROTOBUF_C_TYPE_BYTES: return put_block(b->data, b->len, to);
    case PROTOBUF_C_TYPE_MESSAGE: return put_submessage(*(const ProtobufCMessage *const *)v, to);
    case PROTOBUF_C_TYPE_BOOL: return put_varint(*(const protobuf_c_boolean *)v != 0, to);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM: return put_varint((uint64_t)(int64_t)*(const int32_t *)v, to);
    case PROTOBUF_C_TYPE_UINT32: return put_varint(*(const uint32_t *)v, to);
    case PROTOBUF_C_TYPE_SINT32:
        i32 = *(const int32_t *)v;
        return put_varint((uint32_t)i32 << 1 ^ (uint32_t)(i32 >> 31), to);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64: return put_varint(*(const uint64_t *)v, to);
    case PROTOBUF_C_TYPE_SINT64:
        i64 = *(const int64_t *)v;
        return put_varint((uint64_t)i64 << 1 ^ (uint64_t)(i64 >> 63), to);
    default: return put_bytes(v, wire_of(t) == FIXED32 ? 4 : 8, to);
    }
}

static size_t value_bytes(ProtobufCType t) /* in an array */
{
    switch (t) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_SINT64: return 8;
    default: return wire_of(t) == FIXED64 ? 8 : 4;
    }
}

static size_t put_packed_values(const field *f, const char *p, size_t n, uint8_t *to)
{
    size_t done = 0;
    for (size_t i = 0; i < n; i++)
        done += put_value(f->type, p + i * value_bytes(f->type), at(to, done));
    return done;
}

static size_t put_repeated(const field *f, const ProtobufCMessage *m, uint8_t *to)
{
    size_t n = *(const size_t *)((const char *)m + f->quantifier_offset), done = 0;
    const char *p = *(const char *const *)((const char *)m + f->offset);
    if (n && (f->flags & PROTOBUF_C_FIELD_FLAG_PACKED)) {
        done = put_tag(f->id, BYTES, to);
        done += put_varint(put_packed_values(f, p, n, NULL), at(to, done));
        return done + put_packed_values(f, p, n, at(to, done));
    }
    for (size_t i = 0; i < n; i++) {
        done += put_tag(f->id, wire_of(f->type), at(to, done));
        done += put_value(f->type, p + i * value_bytes(f->type), at(to, done));
    }
    return done;
}

/* Whether a field of proto3 without a label has its default value, which is not written. */
static bool is_zero(const field *f, const void *v)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING: return !*(const char *const *)v || !**(const char *const *)v;
    case PROTOBUF_C_TYPE_MESSAGE: return !*(const void *const *)v;
    case PROTOBUF_C_TYPE_BYTES: return ((const ProtobufCBinaryData *)v)->len == 0;
    case PROTOBUF_C_TYPE_BOOL: return !*(const protobuf_c_boolean *)v;
    case PROTOBUF_C_TYPE_FLOAT: return *(const float *)v == 0;
    case PROTOBUF_C_TYPE_DOUBLE: return *(const double *)v == 0;
    default: return value_bytes(f->type) == 8 ? *(const uint64_t *)v == 0 : *(const uint32_t *)v == 0;
    }
}

static bool is_set(const field *f, const ProtobufCMessage *m)
{
    const char *v = (const char *)m + f->offset, *quantifier = (const char *)m + f->quantifier_offset;
    bool points = f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE;
    if (f->label == PROTOBUF_C_LABEL_REQUIRED)
        return true;
    if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) && *(const uint32_t *)quantifier != f->id)
        return false;
    if (points && f->label == PROTOBUF_C_LABEL_OPTIONAL)
        return *(const void *const *)v && *(const void *const *)v != f->default_value;
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return !points || (*(const void *const *)v && *(const void *const *)v != f->default_value);
    if (f->label == PROTOBUF_C_LABEL_OPTIONAL)
        return *(const protobuf_c_boolean *)quantifier;
    return !is_zero(f, v);
}

static size_t put_message(const ProtobufCMessage *m, uint8_t *to)
{
    size_t done = 0;
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const field *f = &m->descriptor->fields[i];
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            done += put_repeated(f, m, at(to, done));
        } else if (is_set(f, m)) {
            done += put_tag(f->id, wire_of(f->type), at(to, done));
            done += put_value(f->type, (const char *)m + f->offset, at(to, done));
        }
    }
    for (unsigned i = 0; i < m->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *u = &m->unknown_fields[i];
        done += put_tag(u->tag, u->wire_type, at(to, done));
        done += put_bytes(u->data, u->len, at(to, done));
    }
    return done;
}

size_t protobuf_c_message_get_packed_size(const ProtobufCMessage *m) { return put_message(m, NULL); }
size_t protobuf_c_message_pack(const ProtobufCMessage *m, uint8_t *out) { return put_message(m, out); }
