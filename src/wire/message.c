/* wire/message.c -- a decoder for protobuf-c's structs, over the cursor of wire/pb.h.
 *
 * One pass: each field is looked up in the descriptor, its value appended or merged into the
 * struct, everything allocated from the message's own arena.  A message in a singular field that
 * comes twice is merged in place.  The root has its arena in front of it:
 *
 *     | arena | root message |  ->  blocks with the sub-messages, arrays and strings
 *
 * What the structs promise to those who read them: strings are never NULL, messages are NULL when
 * absent, n_x values stand at x, a oneof's case is the number of the member that is set, enums may
 * hold any number, and fields we do not know are in base.unknown_fields and packed again behind the
 * known ones.
 *
 * Time is linear in the bytes, whatever they are: fields are found by a guess or a binary search,
 * arrays double, merging copies nothing.  Memory is too: the smallest message is two bytes on the
 * wire and one struct here.
 *
 * Packing is protobuf-c's. */
#include "wire/message.h"

#include <limits.h>

#include "wire/pb.h"
#include "wire/reflect.h"

typedef struct root {
    mr_arena arena;
    uint64_t magic; /* marks our messages in debug builds */
    _Alignas(16) char message[];
} root;

#define MAGIC 0x6d6573736167656dull

static root *root_of(ProtobufCMessage *m)
{
    root *r = (root *)((char *)m - offsetof(root, message));
    MR_ASSERT(r->magic == MAGIC);
    return r;
}

/* An empty message with an arena, which takes no memory before a part is added. first_block is an
 * estimate of what the parts need. */
static mr_status *new_root(const ProtobufCMessageDescriptor *d, size_t first_block,
                           ProtobufCMessage **out)
{
    root *r = mr_try_alloc(sizeof(root) + d->sizeof_message);
    if (!r)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a %s", d->short_name);
    mr_arena_init(&r->arena, first_block);
    r->magic = MAGIC;
    *out = (ProtobufCMessage *)r->message;
    d->message_init(*out);
    return NULL;
}

mr_status *mr_message_new(const ProtobufCMessageDescriptor *d, ProtobufCMessage **out)
{
    return new_root(d, 0, out);
}

void mr_message_free(ProtobufCMessage *m)
{
    if (!m)
        return;
    root *r = root_of(m);
    mr_arena_deinit(&r->arena);
    r->magic = 0;
    mr_free(r);
}

mr_arena *mr_message_arena(ProtobufCMessage *m) { return &root_of(m)->arena; }

/* ---- unpacking ------------------------------------------------------------------------------- */

typedef struct decoder {
    mr_arena *arena;
    bool no_memory; /* the cursor's error is not malformed bytes but a refused allocation */
    /* Where the first error was found; NULL while all is well. */
    const ProtobufCMessageDescriptor *bad_message;
    const mr_field *bad_field;
} decoder;

static void out_of_memory(decoder *d, mr_pb_reader *r)
{
    d->no_memory = true;
    mr_pb_fail(r, "out of memory");
}

/* A copy in the arena with a NUL after it; after an error, sets the error of r and returns NULL. */
static char *copy_bytes(decoder *d, mr_pb_reader *r, mr_sv v)
{
    char *p = mr_arena_try_alloc(d->arena, v.n + 1); /* v is in memory, so v.n + 1 does not overflow */
    if (!p) {
        out_of_memory(d, r);
        return NULL;
    }
    memcpy(p, v.p, v.n);
    p[v.n] = '\0';
    return p;
}

/* After an error the slot keeps the empty value, never NULL. */
static void read_string(decoder *d, mr_pb_reader *r, char **slot)
{
    mr_sv v = mr_pb_bytes(r);
    if (memchr(v.p, '\0', v.n))
        mr_pb_fail(r, "string with a NUL inside");
    char *p = r->error ? NULL : copy_bytes(d, r, v);
    *slot = p ? p : (char *)(uintptr_t)protobuf_c_empty_string;
}

/* Never a NULL pointer, even for no bytes, so that callers may pass it to memcpy. */
static void read_bytes(decoder *d, mr_pb_reader *r, ProtobufCBinaryData *slot)
{
    mr_sv v = mr_pb_bytes(r);
    char *p = r->error ? NULL : copy_bytes(d, r, v);
    *slot = (ProtobufCBinaryData){.len = p ? v.n : 0, .data = (uint8_t *)p};
}

/* 0, 1, 2, 3 on the wire are 0, -1, 1, -2. */
static uint64_t unzigzag_value(uint64_t v) { return v >> 1 ^ -(v & 1); }

/* Reads one number; r is at a value with the wire type of f. */
static void read_number(mr_pb_reader *r, const mr_field *f, void *slot)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_ENUM: *(uint32_t *)slot = mr_pb_uint32(r); break;
    case PROTOBUF_C_TYPE_SINT32: *(uint32_t *)slot = (uint32_t)unzigzag_value(mr_pb_uint32(r)); break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64: *(uint64_t *)slot = mr_pb_varint(r); break;
    case PROTOBUF_C_TYPE_SINT64: *(uint64_t *)slot = unzigzag_value(mr_pb_varint(r)); break;
    case PROTOBUF_C_TYPE_BOOL: *(protobuf_c_boolean *)slot = mr_pb_bool(r); break;
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT: *(uint32_t *)slot = mr_pb_fixed32(r); break;
    default: *(uint64_t *)slot = mr_pb_fixed64(r); break;
    }
}

/* One occurrence of a repeated number, packed or not.  The values are counted first, so that the
 * array grows once; the count cannot be inflated, as each value has at least one byte. */
static void read_numbers(decoder *d, mr_pb_reader *r, ProtobufCMessage *m, const mr_field *f)
{
    mr_pb_reader p;
    uint32_t wire = mr_field_wire(f);
    size_t elem_bytes = mr_field_elem_bytes(f);
    mr_pb_packed(r, wire, &p);
    size_t n = mr_pb_packed_count(&p);
    char *slot = n ? mr_field_add(d->arena, m, f, n) : NULL;
    if (n && !slot) {
        out_of_memory(d, r);
    } else if (wire != MR_WIRE_VARINT) { /* the same bytes on the wire and in memory */
        if (n)
            memcpy(slot, p.at, n * elem_bytes);
    } else {
        for (size_t i = 0; i < n && mr_pb_more(&p); i++, slot += elem_bytes)
            read_number(&p, f, slot);
        if (mr_pb_more(&p)) /* a last one cut short was not counted; reading it makes the error */
            mr_pb_raw_varint(&p);
    }
}

static void read_message(decoder *d, mr_pb_reader *r, ProtobufCMessage *m);

/* Reads a value for f at r. The slot is added before the value is read; after an error it is empty,
 * and the whole message is dropped. */
static void read_field(decoder *d, mr_pb_reader *r, ProtobufCMessage *m, const mr_field *f)
{
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        mr_pb_reader sub;
        if (!mr_pb_message(r, &sub))
            return;
        ProtobufCMessage *part = mr_field_message(d->arena, m, f);
        if (part)
            read_message(d, &sub, part);
        else
            out_of_memory(d, r);
        return;
    }
    bool number = f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_BYTES;
    if (number && mr_field_repeated(f)) {
        read_numbers(d, r, m, f);
        return;
    }
    void *slot = mr_field_slot(d->arena, m, f);
    if (!slot)
        out_of_memory(d, r);
    else if (number)
        read_number(r, f, slot);
    else if (f->type == PROTOBUF_C_TYPE_STRING)
        read_string(d, r, slot);
    else
        read_bytes(d, r, slot);
}

/* Unknown fields are kept as in protobuf-c: number, wire type, and the bytes after the tag. */
static void read_unknown(decoder *d, mr_pb_reader *r, ProtobufCMessage *m)
{
    uint32_t field = r->field, wire = r->wire;
    const uint8_t *at = r->at;
    mr_pb_skip(r);
    if (r->error)
        return;
    mr_sv raw = {(const char *)at, (size_t)(r->at - at)};
    char *copy = copy_bytes(d, r, raw);
    if (!copy)
        return;
    ProtobufCMessageUnknownField *u = mr_message_add_unknown(d->arena, m);
    if (!u) {
        out_of_memory(d, r);
        return;
    }
    *u = (ProtobufCMessageUnknownField){
        .tag = field, .wire_type = (ProtobufCWireType)wire, .len = raw.n, .data = (uint8_t *)copy};
}

/* Fields are mostly in the order of their numbers, often with repetitions. */
static const mr_field *find_field(const ProtobufCMessageDescriptor *d, unsigned number,
                                  unsigned *guess)
{
    for (unsigned i = *guess; i < d->n_fields && i < *guess + 2; i++)
        if (d->fields[i].id == number) {
            *guess = i;
            return &d->fields[i];
        }
    const mr_field *f = protobuf_c_message_descriptor_get_field(d, number);
    if (f)
        *guess = (unsigned)(f - d->fields);
    return f;
}

/* Reads r to its end into m, which may hold parts already: then the two are merged, as protobuf has
 * it. Recursion ends at the cursor's limit of levels. */
static void read_message(decoder *d, mr_pb_reader *r, ProtobufCMessage *m)
{
    uint32_t number, wire;
    unsigned guess = 0;
    while (mr_pb_next(r, &number, &wire)) {
        const mr_field *f = find_field(m->descriptor, number, &guess);
        if (f)
            read_field(d, r, m, f);
        else
            read_unknown(d, r, m);
        /* The innermost message notices first, and its field is the one to name. */
        if (MR_UNLIKELY(r->error != NULL) && !d->bad_message) {
            d->bad_message = m->descriptor;
            d->bad_field = f;
        }
    }
}

static mr_status *decoder_status(const decoder *d, const mr_pb_reader *r, const char *what)
{
    if (d->no_memory)
        return mr_error(MR_RESOURCE_EXHAUSTED, "%s: no memory to unpack %zu bytes", what,
                        (size_t)(r->end - r->begin));
    mr_status *st = mr_pb_reader_status(r, what);
    if (d->bad_message)
        mr_status_append(st, " (%s%s%s)", d->bad_message->short_name, d->bad_field ? "." : "",
                         d->bad_field ? d->bad_field->name : "");
    return st;
}

/* *out is set only on success. */
mr_status *mr_message_unpack(const ProtobufCMessageDescriptor *descriptor, mr_sv bytes,
                             const char *what, ProtobufCMessage **out)
{
    mr_pb_reader r;
    ProtobufCMessage *m = NULL;
    mr_pb_reader_init(&r, bytes);
    /* Structs take two to four times their bytes; if they take more, the arena grows. */
    MR_TRY(new_root(descriptor, bytes.n < 32768 ? bytes.n * 2 + 256 : 65536, &m));
    decoder d = {.arena = mr_message_arena(m)};
    read_message(&d, &r, m);
    mr_status *st = decoder_status(&d, &r, what);
    if (st)
        mr_message_free(m);
    else
        *out = m;
    return st;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* The size is computed first, so memory is allocated once and a failure is reported before anything is written. */
mr_status *mr_message_pack(const ProtobufCMessage *m, mr_str *out)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    if (n > INT_MAX)
        return mr_invalid("%s: %zu bytes are more than the %d a protobuf message may have",
                          m->descriptor->short_name, n, INT_MAX);
    if (!mr_str_try_reserve(out, n))
        return mr_error(MR_RESOURCE_EXHAUSTED, "%s: no memory for its %zu bytes",
                        m->descriptor->short_name, n);
    size_t packed = protobuf_c_message_pack(m, (uint8_t *)out->p + out->n);
    MR_ENSURE(packed == n);
    out->n += n;
    out->p[out->n] = '\0';
    return NULL;
}

/* Of sorted entries with equal keys the last stays. */
static size_t drop_doubles(ProtobufCMessage **entries, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (i + 1 == n || mr_map_entries_compare(entries[i], entries[i + 1]) != 0)
            entries[kept++] = entries[i];
    return kept;
}

/* The parts of a repeated message: first among themselves if they are map entries, then inside. */
static mr_status *sort_repeated(ProtobufCMessage *m, const mr_field *f)
{
    size_t *n = mr_field_count(m, f);
    ProtobufCMessage **parts = *(ProtobufCMessage ***)mr_field_at(m, f);
    if (mr_field_is_map(f)) {
        if (!mr_map_entries_sort(parts, *n))
            return mr_error(MR_RESOURCE_EXHAUSTED, "%s.%s: no memory to sort %zu entries",
                            m->descriptor->short_name, f->name, *n);
        *n = drop_doubles(parts, *n);
    }
    for (size_t i = 0; i < *n; i++)
        MR_TRY(mr_message_sort_maps(parts[i]));
    return NULL;
}

mr_status *mr_message_sort_maps(ProtobufCMessage *m)
{
    for (unsigned i = 0; m && i < m->descriptor->n_fields; i++) {
        const mr_field *f = &m->descriptor->fields[i];
        if (f->type != PROTOBUF_C_TYPE_MESSAGE || !mr_field_is_set(m, f))
            continue;
        if (mr_field_repeated(f))
            MR_TRY(sort_repeated(m, f));
        else
            MR_TRY(mr_message_sort_maps(*(ProtobufCMessage **)mr_field_at(m, f)));
    }
    return NULL;
}
