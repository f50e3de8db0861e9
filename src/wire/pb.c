/* wire/pb.c -- the parts of wire/pb.h that are too long or too rarely used to be inline.
 *
 * A message is a sequence of fields in any order, each a tag and a value:
 *
 *     tag      varint: field number << 3 | wire type
 *     0        varint: 7 bits a byte from the lowest, high bit set while more follow, 10 bytes at
 * most 1        8 bytes, little-endian 2        varint length, then as many bytes: string, bytes,
 * message, packed numbers 3 ... 4  group: fields up to an end tag with the same number; only in
 * files older than proto3 5        4 bytes, little-endian
 *
 * A later value of the same number replaces or is appended to an earlier one.  Negative int32 are
 * sent as 64 bits.  There is no end mark: whoever holds the bytes knows how many they are.
 *
 * Readers of nested messages form a chain through `up`, innermost first.  An error is written into
 * every reader of the chain and each is moved to its end, so whichever loop is asked next stops.
 * Invariant: begin <= at <= end, and a reader with an error has at == end. */
#include "wire/pb.h"

/* ---- reading --------------------------------------------------------------------------------- */

/* The position is measured in the outermost bytes: all readers of a chain read from the same bytes,
 * so the innermost `at` is the place of the error. */
void mr_pb_fail(mr_pb_reader *r, const char *why)
{
    MR_ASSERT(r->begin <= r->at && r->at <= r->end);
    size_t where = (size_t)(r->at - r->begin);
    for (mr_pb_reader *i = r; i; i = i->up) {
        if (!i->error) {
            i->error = why;
            i->error_at = where;
        }
        i->at = i->end;
    }
}

mr_status *mr_pb_reader_status(const mr_pb_reader *r, const char *what)
{
    if (MR_LIKELY(!r->error))
        return NULL;
    return mr_invalid("%s: malformed protobuf at byte %zu: %s", what, r->error_at, r->error);
}

/* Little-endian groups of seven bits, the high bit of a byte saying that more follow.  On an error
 * `at` is still at the first byte, which is the place worth naming. */
uint64_t mr_pb_long_varint(mr_pb_reader *r)
{
    uint64_t v = 0;
    const uint8_t *p = r->at;
    for (int shift = 0; shift < 7 * MR_PB_MAX_VARINT; shift += 7) {
        if (p == r->end) {
            mr_pb_fail(r, "truncated");
            return 0;
        }
        uint8_t b = *p++;
        /* The tenth byte has room for one bit; C++ drops the others too. */
        v |= (uint64_t)(b & 0x7F) << shift;
        if (b < 0x80) {
            r->at = p;
            return v;
        }
    }
    mr_pb_fail(r, "varint is longer than 10 bytes");
    return 0;
}

/* Reports an invalid tag. After a failed read the tag is 0; then the first error is kept. */
void mr_pb_bad_tag(mr_pb_reader *r, uint64_t tag)
{
    if (tag >> 3 == 0 || tag > UINT32_MAX)
        mr_pb_fail(r, "field number out of range");
    else if ((tag & 7) == MR_WIRE_GROUP_END)
        mr_pb_fail(r, "end of a group that did not begin");
    else
        mr_pb_fail(r, "unknown wire type");
}

/* Makes sub a reader of [at, end), a part of what r reads. */
static void open_nested(mr_pb_reader *r, const uint8_t *at, const uint8_t *end, mr_pb_reader *sub)
{
    *sub = (mr_pb_reader){.at = at, .end = end, .begin = r->begin, .up = r, .depth = r->depth - 1};
}

/* Leaves sub as an empty reader that has r's error. */
static bool nest_failed(mr_pb_reader *r, mr_pb_reader *sub)
{
    open_nested(r, r->end, r->end, sub);
    sub->error = r->error;
    sub->error_at = r->error_at;
    return false;
}

/* The limit counts nested messages, so it is checked when one is entered; a reader at the limit may
 * still read all other fields. */
bool mr_pb_message(mr_pb_reader *r, mr_pb_reader *sub)
{
    if (MR_UNLIKELY(r->depth <= 0))
        mr_pb_fail(r, "messages nested too deeply");
    mr_sv v = mr_pb_bytes(r);
    if (MR_UNLIKELY(r->error != NULL))
        return nest_failed(r, sub);
    open_nested(r, (const uint8_t *)v.p, (const uint8_t *)v.p + v.n, sub);
    return true;
}

/* A single value, seen as packed bytes that hold one. */
static void one_value(mr_pb_reader *r, mr_pb_reader *p)
{
    const uint8_t *at = r->at;
    mr_pb_skip(r);
    if (!r->error)
        open_nested(r, at, r->at, p);
}

static size_t wire_bytes(uint32_t wire)
{
    return wire == MR_WIRE_FIXED32 ? 4 : wire == MR_WIRE_FIXED64 ? 8 : 1;
}

/* Old writers and proto2 files have one tag a value; a field may even mix both ways, so each
 * occurrence is judged by its own wire type. */
bool mr_pb_packed(mr_pb_reader *r, uint32_t elem, mr_pb_reader *p)
{
    MR_ASSERT(elem == MR_WIRE_VARINT || elem == MR_WIRE_FIXED32 || elem == MR_WIRE_FIXED64);
    if (r->wire == elem) {
        one_value(r, p);
    } else {
        mr_sv v = mr_pb_bytes(r);
        open_nested(r, (const uint8_t *)v.p, (const uint8_t *)v.p + v.n, p);
        if (!r->error && v.n % wire_bytes(elem) != 0)
            mr_pb_fail(r, "the length of packed values is not a multiple of the element size");
    }
    if (MR_UNLIKELY(r->error != NULL))
        return nest_failed(r, p);
    p->wire = elem;
    return true;
}

size_t mr_pb_packed_count(const mr_pb_reader *p)
{
    size_t n = (size_t)(p->end - p->at);
    if (p->wire != MR_WIRE_VARINT)
        return n / wire_bytes(p->wire);
    size_t count = 0; /* each varint has one byte without the high bit: its last */
    for (const uint8_t *b = p->at; b < p->end; b++)
        count += *b < 0x80;
    return count;
}

static void skip_bytes(mr_pb_reader *r, size_t n)
{
    if (n > (size_t)(r->end - r->at))
        mr_pb_fail(r, "truncated");
    else
        r->at += n;
}

/* Groups nest by tags instead of lengths, and each must end with the number it began with. This is
 * a loop with an explicit stack, so that hostile input cannot exhaust the call stack; `open` holds
 * the numbers of the groups that have not ended. */
static void skip_group(mr_pb_reader *r)
{
    uint32_t open[MR_PB_MAX_DEPTH];
    int n = 0;
    if (r->depth <= 0)
        mr_pb_fail(r, "messages nested too deeply");
    open[n++] = r->field;
    while (n && !r->error) {
        uint64_t tag = mr_pb_raw_varint(r);
        if (r->error)
            return;
        r->field = (uint32_t)(tag >> 3);
        r->wire = tag & 7;
        if (tag > UINT32_MAX || r->field == 0 || r->wire > MR_WIRE_FIXED32)
            mr_pb_bad_tag(r, tag);
        else if (r->wire == MR_WIRE_GROUP_END && open[--n] != r->field)
            mr_pb_fail(r, "end of another group");
        else if (r->wire == MR_WIRE_GROUP && n >= MR_MIN(r->depth, MR_PB_MAX_DEPTH))
            mr_pb_fail(r, "messages nested too deeply");
        else if (r->wire == MR_WIRE_GROUP)
            open[n++] = r->field;
        else if (r->wire != MR_WIRE_GROUP_END)
            mr_pb_skip(r);
    }
}

void mr_pb_skip(mr_pb_reader *r)
{
    switch (r->wire) {
    case MR_WIRE_VARINT: mr_pb_raw_varint(r); break;
    case MR_WIRE_FIXED64: skip_bytes(r, 8); break;
    case MR_WIRE_BYTES: mr_pb_bytes(r); break;
    case MR_WIRE_FIXED32: skip_bytes(r, 4); break;
    case MR_WIRE_GROUP: skip_group(r); break;
    default: mr_pb_fail(r, "unknown wire type");
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

mr_status *mr_pb_writer_status(const mr_pb_writer *w, const char *what)
{
    if (MR_LIKELY(!w->failed))
        return NULL;
    return mr_error(MR_RESOURCE_EXHAUSTED, "%s: out of memory after %zu bytes", what, w->out->n);
}

void mr_pb_put_raw_varint(mr_pb_writer *w, uint64_t v)
{
    uint8_t buf[MR_PB_MAX_VARINT];
    mr_pb_put_raw(w, buf, (size_t)(mr_pb_encode_varint(buf, v) - buf));
}

/* All tags go through here, so a wrong field number in our code is found by the first debug run. */
static uint8_t *encode_tag(uint8_t *p, uint32_t field, uint32_t wire)
{
    MR_ASSERT(field > 0 && field < 1u << 29 && wire <= MR_WIRE_FIXED32);
    return mr_pb_encode_varint(p, (uint64_t)field << 3 | wire);
}

void mr_pb_put_tag(mr_pb_writer *w, uint32_t field, uint32_t wire)
{
    uint8_t buf[MR_PB_MAX_VARINT];
    mr_pb_put_raw(w, buf, (size_t)(encode_tag(buf, field, wire) - buf));
}

/* One append a field: tag and value are put together first. */
static void tag_and_varint(mr_pb_writer *w, uint32_t field, uint32_t wire, uint64_t v)
{
    uint8_t buf[2 * MR_PB_MAX_VARINT];
    uint8_t *p = mr_pb_encode_varint(encode_tag(buf, field, wire), v);
    mr_pb_put_raw(w, buf, (size_t)(p - buf));
}

void mr_pb_put_header(mr_pb_writer *w, uint32_t field, size_t n)
{
    tag_and_varint(w, field, MR_WIRE_BYTES, n);
}

void mr_pb_put_varint(mr_pb_writer *w, uint32_t field, uint64_t v)
{
    tag_and_varint(w, field, MR_WIRE_VARINT, v);
}

static void tag_and_fixed(mr_pb_writer *w, uint32_t field, uint32_t wire, const void *v, size_t n)
{
    uint8_t buf[MR_PB_MAX_VARINT + 8];
    uint8_t *p = encode_tag(buf, field, wire);
    memcpy(p, v, n);
    mr_pb_put_raw(w, buf, (size_t)(p - buf) + n);
}

void mr_pb_put_fixed32(mr_pb_writer *w, uint32_t field, uint32_t v)
{
    tag_and_fixed(w, field, MR_WIRE_FIXED32, &v, sizeof(v));
}

void mr_pb_put_fixed64(mr_pb_writer *w, uint32_t field, uint64_t v)
{
    tag_and_fixed(w, field, MR_WIRE_FIXED64, &v, sizeof(v));
}

void mr_pb_put_float(mr_pb_writer *w, uint32_t field, float v)
{
    tag_and_fixed(w, field, MR_WIRE_FIXED32, &v, sizeof(v));
}

void mr_pb_put_double(mr_pb_writer *w, uint32_t field, double v)
{
    tag_and_fixed(w, field, MR_WIRE_FIXED64, &v, sizeof(v));
}

void mr_pb_opt_float(mr_pb_writer *w, uint32_t field, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    mr_pb_opt_fixed32(w, field, bits);
}

void mr_pb_opt_double(mr_pb_writer *w, uint32_t field, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    mr_pb_opt_fixed64(w, field, bits);
}

void mr_pb_put_bytes(mr_pb_writer *w, uint32_t field, mr_sv v)
{
    mr_pb_put_header(w, field, v.n);
    mr_pb_put_raw(w, v.p, v.n);
}

/* The mark is where the contents begin; the byte before it waits for their length. */
size_t mr_pb_begin(mr_pb_writer *w, uint32_t field)
{
    mr_pb_put_header(w, field, 0);
    return w->out->n;
}

void mr_pb_end(mr_pb_writer *w, size_t mark)
{
    if (w->failed)
        return;
    MR_ASSERT(mark > 0 && mark <= w->out->n);
    size_t n = w->out->n - mark, len = mr_pb_varint_size(n);
    if (len > 1) { /* 128 bytes or more: the contents are moved to make room for a longer length */
        static const char room[MR_PB_MAX_VARINT];
        mr_pb_put_raw(w, room, len - 1);
        if (w->failed)
            return;
        memmove(w->out->p + mark + len - 1, w->out->p + mark, n);
    }
    mr_pb_encode_varint((uint8_t *)w->out->p + mark - 1, n);
}

/* The lengths are added up first, which is cheaper than moving the bytes afterwards. */
void mr_pb_put_packed_int64(mr_pb_writer *w, uint32_t field, const int64_t *v, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += mr_pb_varint_size((uint64_t)v[i]);
    if (n)
        mr_pb_put_header(w, field, bytes);
    for (size_t i = 0; i < n; i++)
        mr_pb_put_raw_varint(w, (uint64_t)v[i]);
}

void mr_pb_put_packed_int32(mr_pb_writer *w, uint32_t field, const int32_t *v, size_t n)
{
    size_t bytes = 0; /* negative values take ten bytes, so that an int32 can be read as an int64 */
    for (size_t i = 0; i < n; i++)
        bytes += mr_pb_varint_size((uint64_t)(int64_t)v[i]);
    if (n)
        mr_pb_put_header(w, field, bytes);
    for (size_t i = 0; i < n; i++)
        mr_pb_put_raw_varint(w, (uint64_t)(int64_t)v[i]);
}

void mr_pb_put_packed_fixed(mr_pb_writer *w, uint32_t field, const void *v, size_t n,
                            size_t elem_bytes)
{
    size_t bytes;
    if (n == 0)
        return;
    if (!mr_size_mul(n, elem_bytes, &bytes)) {
        w->failed = true;
        return;
    }
    mr_pb_put_header(w, field, bytes);
    mr_pb_put_raw(w, v, bytes);
}
