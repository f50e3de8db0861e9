/* wire/text_print.c -- a message as protobuf text, the way C++ prints it.
 *
 *     node {
 *       name: "a"
 *       attr {
 *         key: "T"
 *         value {
 *           type: DT_FLOAT
 *         }
 *       }
 *     }
 *
 * Fields come in the order of their numbers, which is that of the descriptor; what has its default
 * value is left out, except inside map entries, which always show both sides.  Unknown fields
 * follow by number; their bytes do not tell a string from a message, so bytes that could be a
 * message are printed as one.  Text with unknown fields cannot be read back, nor can it in C++. */
#include <inttypes.h>
#include <stdio.h>

#include "base/memory.h"
#include "wire/number.h"
#include "wire/pb.h"
#include "wire/reflect.h"
#include "wire/text_format.h"

#define MAX_GUESS 10 /* levels of unknown bytes that are printed as messages */

typedef struct printer {
    mr_str *out;
    int indent;
    bool failed; /* out of memory */
} printer;

static void put_bytes(printer *p, const void *text, size_t n)
{
    if (!p->failed)
        p->failed = !mr_str_try_append(p->out, text, n);
}

static void put_string(printer *p, const char *text) { put_bytes(p, text, strlen(text)); }

static void put_indent(printer *p)
{
    static const char spaces[] = "                                ";
    for (size_t left = 2 * (size_t)p->indent, n; left; left -= n) {
        n = MR_MIN(left, sizeof(spaces) - 1);
        put_bytes(p, spaces, n);
    }
}

/* ---- scalars --------------------------------------------------------------------------------- */

/* The character after the backslash; 0 for a character that is printed as itself or in octal. */
static char short_escape(uint8_t c)
{
    switch (c) {
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    case '"':
    case '\'':
    case '\\': return (char)c;
    default: return 0;
    }
}

static bool is_printable(uint8_t c) { return c >= 0x20 && c < 0x7F; }

static size_t escaped_size(mr_sv bytes)
{
    size_t n = 0; /* at most four times bytes.n, which fit in memory: 64 bits do not overflow */
    for (size_t i = 0; i < bytes.n; i++) {
        uint8_t c = (uint8_t)bytes.p[i];
        n += short_escape(c) ? 2 : is_printable(c) ? 1 : 4;
    }
    return n;
}

/* Measured first, then written: tensor contents may be large, and one allocation is enough. */
bool mr_text_escape(mr_sv bytes, mr_str *out)
{
    size_t n = escaped_size(bytes);
    if (!mr_str_try_reserve(out, n))
        return false;
    char *p = out->p + out->n;
    for (size_t i = 0; i < bytes.n; i++) {
        uint8_t c = (uint8_t)bytes.p[i];
        if (short_escape(c)) {
            *p++ = '\\';
            *p++ = short_escape(c);
        } else if (is_printable(c)) {
            *p++ = (char)c;
        } else {
            *p++ = '\\';
            *p++ = (char)('0' + (c >> 6));
            *p++ = (char)('0' + (c >> 3 & 7));
            *p++ = (char)('0' + (c & 7));
        }
    }
    *p = '\0';
    out->n += n;
    return true;
}

static void put_quoted(printer *p, mr_sv bytes)
{
    put_bytes(p, "\"", 1);
    if (!p->failed)
        p->failed = !mr_text_escape(bytes, p->out);
    put_bytes(p, "\"", 1);
}

static void put_i64(printer *p, int64_t v)
{
    char buf[MR_NUMBER_BYTES];
    put_bytes(p, buf, (size_t)snprintf(buf, sizeof(buf), "%" PRId64, v));
}

static void put_u64(printer *p, uint64_t v)
{
    char buf[MR_NUMBER_BYTES];
    put_bytes(p, buf, (size_t)snprintf(buf, sizeof(buf), "%" PRIu64, v));
}

static void put_hex(printer *p, uint64_t v, int digits)
{
    char buf[MR_NUMBER_BYTES];
    put_bytes(p, buf, (size_t)snprintf(buf, sizeof(buf), "0x%0*" PRIx64, digits, v));
}

/* A number that has no name (a newer type, say) is printed as it is, and reads back as itself. */
static void put_enum(printer *p, const ProtobufCEnumDescriptor *e, int32_t v)
{
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(e, v);
    if (known)
        put_string(p, known->name);
    else
        put_i64(p, v);
}

static void put_scalar(printer *p, const mr_field *f, const void *at)
{
    char buf[MR_NUMBER_BYTES];
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING: put_quoted(p, mr_sv_of(*(const char *const *)at)); break;
    case PROTOBUF_C_TYPE_BYTES: {
        const ProtobufCBinaryData *b = at;
        put_quoted(p, (mr_sv){(const char *)b->data, b->len});
        break;
    }
    case PROTOBUF_C_TYPE_BOOL: put_string(p, *(const protobuf_c_boolean *)at ? "true" : "false"); break;
    case PROTOBUF_C_TYPE_ENUM: put_enum(p, f->descriptor, *(const int32_t *)at); break;
    case PROTOBUF_C_TYPE_FLOAT: put_bytes(p, buf, (size_t)mr_float_text(*(const float *)at, buf)); break;
    case PROTOBUF_C_TYPE_DOUBLE:
        put_bytes(p, buf, (size_t)mr_double_text(*(const double *)at, buf));
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32: put_u64(p, *(const uint32_t *)at); break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64: put_u64(p, *(const uint64_t *)at); break;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32: put_i64(p, *(const int32_t *)at); break;
    default: put_i64(p, *(const int64_t *)at); break;
    }
}

/* ---- unknown fields -------------------------------------------------------------------------- */

static void open_block(printer *p)
{
    put_bytes(p, " {\n", 3);
    p->indent++;
}

static void close_block(printer *p)
{
    p->indent--;
    put_indent(p);
    put_bytes(p, "}\n", 2);
}

/* Wholly made of fields.  Short strings can be so by chance; C++ guesses the same way. */
static bool could_be_message(mr_sv bytes)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        mr_pb_skip(&r);
    return bytes.n && !r.error;
}

static void print_unknown(printer *p, mr_pb_reader *r, int guesses);

static void print_unknown_bytes(printer *p, mr_sv bytes, int guesses)
{
    if (guesses == 0 || !could_be_message(bytes)) {
        put_string(p, ": ");
        put_quoted(p, bytes);
        put_bytes(p, "\n", 1);
        return;
    }
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, bytes);
    open_block(p);
    while (mr_pb_next(&r, &field, &wire))
        print_unknown(p, &r, guesses - 1);
    close_block(p);
}

/* Ends at the tag that closes the group; the decoder has checked that it exists. */
static void print_group(printer *p, mr_pb_reader *r, int guesses)
{
    open_block(p);
    for (;;) {
        uint64_t tag = mr_pb_raw_varint(r);
        r->field = (uint32_t)(tag >> 3);
        r->wire = tag & 7;
        if (r->error || r->wire == MR_WIRE_GROUP_END)
            break;
        print_unknown(p, r, guesses);
    }
    close_block(p);
}

/* Prints the value at r and moves past it. */
static void print_unknown(printer *p, mr_pb_reader *r, int guesses)
{
    put_indent(p);
    put_u64(p, r->field);
    switch (r->wire) {
    case MR_WIRE_BYTES: print_unknown_bytes(p, mr_pb_bytes(r), guesses); return;
    case MR_WIRE_GROUP: print_group(p, r, guesses); return;
    case MR_WIRE_VARINT:
        put_string(p, ": ");
        put_u64(p, mr_pb_varint(r));
        break;
    case MR_WIRE_FIXED32:
        put_string(p, ": ");
        put_hex(p, mr_pb_fixed32(r), 8);
        break;
    case MR_WIRE_FIXED64:
        put_string(p, ": ");
        put_hex(p, mr_pb_fixed64(r), 16);
        break;
    default: mr_pb_fail(r, "unknown wire type");
    }
    put_bytes(p, "\n", 1);
}

/* ---- fields ---------------------------------------------------------------------------------- */

static void print_message(printer *p, const ProtobufCMessage *m, bool is_entry);

/* `name: value`, or `name {` with the message inside. */
static void print_value(printer *p, const mr_field *f, const void *at)
{
    put_indent(p);
    put_string(p, f->name);
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        const ProtobufCMessage *m = *(const ProtobufCMessage *const *)at;
        open_block(p);
        if (m) /* NULL, in a map entry: an empty one */
            print_message(p, m, mr_field_is_map(f));
        close_block(p);
        return;
    }
    put_string(p, ": ");
    put_scalar(p, f, at);
    put_bytes(p, "\n", 1);
}

/* Each value on its own line with its name, never in [], as C++ prints by default. */
static void print_array(printer *p, const mr_field *f, const char *array, size_t n)
{
    for (size_t i = 0; i < n && !p->failed; i++)
        print_value(p, f, array + i * mr_field_elem_bytes(f));
}

/* The entries are the caller's, so a copy of the array is sorted. */
static void print_map(printer *p, const mr_field *f, ProtobufCMessage *const *entries, size_t n)
{
    ProtobufCMessage **sorted = mr_try_calloc(n, sizeof(*sorted));
    if (sorted) {
        memcpy(sorted, entries, n * sizeof(*sorted));
        p->failed |= !mr_map_entries_sort(sorted, n);
        print_array(p, f, (const char *)sorted, n);
    } else {
        p->failed = true;
    }
    mr_free(sorted);
}

static void print_field(printer *p, const ProtobufCMessage *m, const mr_field *f)
{
    const void *at = mr_field_at(m, f);
    if (!mr_field_repeated(f))
        print_value(p, f, at);
    else if (mr_field_is_map(f))
        print_map(p, f, *(ProtobufCMessage *const *const *)at, *mr_field_count(m, f));
    else
        print_array(p, f, *(const char *const *)at, *mr_field_count(m, f));
}

/* Stops early if there is no memory; the text is then not used. */
static void print_message(printer *p, const ProtobufCMessage *m, bool is_entry)
{
    for (unsigned i = 0; i < m->descriptor->n_fields && !p->failed; i++) {
        const mr_field *f = &m->descriptor->fields[i];
        if (is_entry || mr_field_is_set(m, f))
            print_field(p, m, f);
    }
    for (unsigned i = 0; i < m->n_unknown_fields && !p->failed; i++) {
        const ProtobufCMessageUnknownField *u = &m->unknown_fields[i];
        mr_pb_reader r;
        mr_pb_reader_init(&r, (mr_sv){(const char *)u->data, u->len});
        r.field = u->tag;
        r.wire = (uint32_t)u->wire_type;
        print_unknown(p, &r, MAX_GUESS);
    }
}

mr_status *mr_text_print(const ProtobufCMessage *m, mr_str *out)
{
    printer p = {.out = out};
    print_message(&p, m, false);
    if (!p.failed)
        return NULL;
    return mr_error(MR_RESOURCE_EXHAUSTED, "%s: no memory for its text after %zu bytes",
                    m->descriptor->short_name, out->n);
}
