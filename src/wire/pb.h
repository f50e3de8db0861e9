/* wire/pb.h -- protobuf bytes read and written by hand, where messages would be too slow.
 *
 * Reading: a cursor over bytes owned elsewhere.  It keeps its first error, and after an error all
 * loops end and all values are zero, so only the end needs a check:
 *
 *     mr_pb_reader r, sub;
 *     uint32_t field, wire;
 *     mr_pb_reader_init(&r, bytes);
 *     while (mr_pb_next(&r, &field, &wire))
 *         switch (field) {
 *         case 1: name = mr_pb_bytes(&r); break;
 *         case 2: mr_pb_message(&r, &sub); read_shape(&sub, &shape); break;
 *         default: mr_pb_skip(&r);
 *         }
 *     return mr_pb_reader_status(&r, "Placard");
 *
 * Each field must be taken by one of the value functions or skipped.  The reader knows the wire
 * type of the field it stands at, and a value function of another type is an error, so hostile
 * bytes cannot be read as what they are not.  Utf-8 is not checked.
 *
 * Writing: appends to an mr_str, keeps its first error (memory) likewise.  mr_pb_put_* always
 * writes, mr_pb_opt_* leaves the field out when it has proto3's default value. */
#ifndef MR_WIRE_PB_H
#define MR_WIRE_PB_H

#include <stdint.h>

#include "base/memory.h"
#include "base/str.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fixed values are copied as they are");

enum {
    MR_WIRE_VARINT = 0,
    MR_WIRE_FIXED64 = 1,
    MR_WIRE_BYTES = 2, /* strings, bytes, messages, packed values */
    MR_WIRE_GROUP = 3, /* only ever skipped */
    MR_WIRE_GROUP_END = 4,
    MR_WIRE_FIXED32 = 5,
};

#define MR_PB_MAX_DEPTH 100 /* levels of messages, as in C++ protobuf */
#define MR_PB_MAX_VARINT 10 /* bytes */

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct mr_pb_reader {
    const uint8_t *at, *end;
    const uint8_t *begin;    /* of the outermost bytes, for positions in errors */
    struct mr_pb_reader *up; /* the message this one is inside of; must outlive this reader */
    const char *error;       /* a constant text; NULL while all is well */
    size_t error_at;         /* byte position in the outermost bytes */
    uint32_t field;          /* of the value at the reader */
    uint32_t wire;
    int depth; /* how many levels may still be entered */
} mr_pb_reader;

/* `depth` is for bytes cut out of a message by another reader: what that one had left. */
static inline void mr_pb_reader_init_depth(mr_pb_reader *r, mr_sv bytes, int depth)
{
    const uint8_t *p = (const uint8_t *)(bytes.p ? bytes.p : "");
    *r = (mr_pb_reader){.at = p, .end = p + bytes.n, .begin = p, .depth = depth};
}

static inline void mr_pb_reader_init(mr_pb_reader *r, mr_sv bytes)
{
    mr_pb_reader_init_depth(r, bytes, MR_PB_MAX_DEPTH);
}

/* Ends r and every reader it is inside of; `why` is a constant text.  A caller may use it for its
 * own rules ("dim.size is -7").  Only the first error is kept. */
void mr_pb_fail(mr_pb_reader *r, const char *why) __attribute__((cold));

/* NULL, or INVALID_ARGUMENT "WHAT: malformed protobuf at byte 17: WHY". */
mr_status *mr_pb_reader_status(const mr_pb_reader *r, const char *what);

static inline bool mr_pb_more(const mr_pb_reader *r) { return r->at != r->end; }

uint64_t mr_pb_long_varint(mr_pb_reader *r); /* of any length; the inline ones handle one byte */

/* A varint that is not a field's value: in packed bytes, or in formats that borrow varints. */
static inline uint64_t mr_pb_raw_varint(mr_pb_reader *r)
{
    if (MR_LIKELY(r->at != r->end && *r->at < 0x80))
        return *r->at++;
    return mr_pb_long_varint(r);
}

void mr_pb_bad_tag(mr_pb_reader *r, uint64_t tag) __attribute__((cold));

/* Moves to the next field; false at the end and after an error. */
static inline bool mr_pb_next(mr_pb_reader *r, uint32_t *field, uint32_t *wire)
{
    if (r->at == r->end)
        return false;
    uint64_t tag = mr_pb_raw_varint(r);
    uint32_t w = tag & 7;
    /* 0x2F has the bits of the types that may occur here: all but group end, 6 and 7. */
    if (MR_UNLIKELY(tag < 8 || tag > UINT32_MAX || !(0x2F >> w & 1))) {
        mr_pb_bad_tag(r, tag);
        return false;
    }
    *field = r->field = (uint32_t)tag >> 3;
    *wire = r->wire = w;
    return true;
}

/* True if the field has this wire type; otherwise sets an error. */
static inline bool mr_pb_expect(mr_pb_reader *r, uint32_t wire)
{
    if (MR_LIKELY(r->wire == wire))
        return true;
    mr_pb_fail(r, "wrong wire type");
    return false;
}

static inline uint64_t mr_pb_varint(mr_pb_reader *r)
{
    return mr_pb_expect(r, MR_WIRE_VARINT) ? mr_pb_raw_varint(r) : 0;
}

static inline int64_t mr_pb_int64(mr_pb_reader *r) { return (int64_t)mr_pb_varint(r); }
/* int32, uint32 and enums: higher bits are dropped, as every protobuf does. */
static inline int32_t mr_pb_int32(mr_pb_reader *r) { return (int32_t)(uint32_t)mr_pb_varint(r); }
static inline uint32_t mr_pb_uint32(mr_pb_reader *r) { return (uint32_t)mr_pb_varint(r); }
static inline bool mr_pb_bool(mr_pb_reader *r) { return mr_pb_varint(r) != 0; }

static inline uint32_t mr_pb_fixed32(mr_pb_reader *r)
{
    uint32_t v = 0;
    if (mr_pb_expect(r, MR_WIRE_FIXED32)) {
        if (MR_UNLIKELY((size_t)(r->end - r->at) < sizeof(v))) {
            mr_pb_fail(r, "truncated");
            return 0;
        }
        memcpy(&v, r->at, sizeof(v));
        r->at += sizeof(v);
    }
    return v;
}

static inline uint64_t mr_pb_fixed64(mr_pb_reader *r)
{
    uint64_t v = 0;
    if (mr_pb_expect(r, MR_WIRE_FIXED64)) {
        if (MR_UNLIKELY((size_t)(r->end - r->at) < sizeof(v))) {
            mr_pb_fail(r, "truncated");
            return 0;
        }
        memcpy(&v, r->at, sizeof(v));
        r->at += sizeof(v);
    }
    return v;
}

static inline float mr_pb_float(mr_pb_reader *r)
{
    uint32_t bits = mr_pb_fixed32(r);
    float v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

static inline double mr_pb_double(mr_pb_reader *r)
{
    uint64_t bits = mr_pb_fixed64(r);
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* A view into the bytes being read; never a NULL pointer. */
static inline mr_sv mr_pb_bytes(mr_pb_reader *r)
{
    if (!mr_pb_expect(r, MR_WIRE_BYTES))
        return MR_SV("");
    uint64_t n = mr_pb_raw_varint(r);
    if (MR_UNLIKELY(n > (size_t)(r->end - r->at))) {
        mr_pb_fail(r, "length runs past the end");
        return MR_SV("");
    }
    mr_sv v = {(const char *)r->at, (size_t)n};
    r->at += n;
    return v;
}

/* Opens the field as a nested reader. False after an error; then the reader is empty. */
bool mr_pb_message(mr_pb_reader *r, mr_pb_reader *sub);

/* A repeated scalar of wire type `elem`, packed or not, as a reader of its values:
 *
 *     mr_pb_packed(&r, MR_WIRE_VARINT, &p);
 *     while (mr_pb_more(&p))
 *         push(mr_pb_int64(&p));
 */
bool mr_pb_packed(mr_pb_reader *r, uint32_t elem, mr_pb_reader *p);
/* How many values are left in it: exact for well-formed bytes. */
size_t mr_pb_packed_count(const mr_pb_reader *p);

/* The rest of the bytes. */
static inline mr_sv mr_pb_rest(const mr_pb_reader *r)
{
    return (mr_sv){(const char *)r->at, (size_t)(r->end - r->at)};
}

/* Passes over the value, groups too. */
void mr_pb_skip(mr_pb_reader *r);

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct mr_pb_writer {
    mr_str *out;
    bool failed; /* out of memory: the contents of out are incomplete */
} mr_pb_writer;

static inline void mr_pb_writer_init(mr_pb_writer *w, mr_str *out)
{
    *w = (mr_pb_writer){.out = out};
}
/* NULL, or RESOURCE_EXHAUSTED "WHAT: out of memory after N bytes". */
mr_status *mr_pb_writer_status(const mr_pb_writer *w, const char *what);

static inline size_t mr_pb_varint_size(uint64_t v)
{
    return (size_t)(70 - __builtin_clzll(v | 1)) / 7; /* ceil(bits / 7) */
}

/* Writes at p, which has room for MR_PB_MAX_VARINT bytes; returns past the end. */
static inline uint8_t *mr_pb_encode_varint(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

/* Bytes as they are: packed values, or a message serialized elsewhere. */
static inline void mr_pb_put_raw(mr_pb_writer *w, const void *p, size_t n)
{
    if (MR_LIKELY(!w->failed))
        w->failed = !mr_str_try_append(w->out, p, n);
}

void mr_pb_put_raw_varint(mr_pb_writer *w, uint64_t v);
void mr_pb_put_tag(mr_pb_writer *w, uint32_t field, uint32_t wire);
/* Tag and length; the caller appends the n bytes.  For payloads too big to be moved afterwards. */
void mr_pb_put_header(mr_pb_writer *w, uint32_t field, size_t n);

void mr_pb_put_varint(mr_pb_writer *w, uint32_t field, uint64_t v); /* int32: sign-extend first */
void mr_pb_put_fixed32(mr_pb_writer *w, uint32_t field, uint32_t v);
void mr_pb_put_fixed64(mr_pb_writer *w, uint32_t field, uint64_t v);
void mr_pb_put_float(mr_pb_writer *w, uint32_t field, float v);
void mr_pb_put_double(mr_pb_writer *w, uint32_t field, double v);
void mr_pb_put_bytes(mr_pb_writer *w, uint32_t field, mr_sv v);

static inline void mr_pb_opt_varint(mr_pb_writer *w, uint32_t field, uint64_t v)
{
    if (v)
        mr_pb_put_varint(w, field, v);
}

static inline void mr_pb_opt_fixed32(mr_pb_writer *w, uint32_t field, uint32_t v)
{
    if (v)
        mr_pb_put_fixed32(w, field, v);
}

static inline void mr_pb_opt_fixed64(mr_pb_writer *w, uint32_t field, uint64_t v)
{
    if (v)
        mr_pb_put_fixed64(w, field, v);
}

void mr_pb_opt_float(mr_pb_writer *w, uint32_t field, float v);   /* -0.0 is not the default */
void mr_pb_opt_double(mr_pb_writer *w, uint32_t field, double v); /* likewise */

static inline void mr_pb_opt_bytes(mr_pb_writer *w, uint32_t field, mr_sv v)
{
    if (v.n)
        mr_pb_put_bytes(w, field, v);
}

/* A nested message: what is written between begin and end is inside. The length is not known in
 * advance, so one byte is reserved for it, and long contents are moved at the end. */
size_t mr_pb_begin(mr_pb_writer *w, uint32_t field);
void mr_pb_end(mr_pb_writer *w, size_t mark);

/* Repeated scalars, packed; nothing for n == 0. */
void mr_pb_put_packed_int64(mr_pb_writer *w, uint32_t field, const int64_t *v, size_t n);
void mr_pb_put_packed_int32(mr_pb_writer *w, uint32_t field, const int32_t *v, size_t n);
void mr_pb_put_packed_fixed(mr_pb_writer *w, uint32_t field, const void *v, size_t n,
                            size_t elem_bytes);

#endif
