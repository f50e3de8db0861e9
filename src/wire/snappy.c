/* wire/snappy.c -- decodes one Snappy block.
 *
 *     varint32   length of the output
 *     elements until the input ends, by the two low bits of a tag byte:
 *       00 literal  length-1 = tag >> 2; 60..63: the next 1..4 bytes (little-endian) are length-1
 *       01 copy     length 4 + (tag >> 2 & 7), offset (tag >> 5) << 8 | next byte
 *       10 copy     length 1 + (tag >> 2), offset in the next 2 bytes
 *       11 copy     the same with 4 bytes of offset
 *
 * A copy repeats output from `offset` bytes back and may overlap what it writes: offset 1 repeats
 * the last byte.  Invariants: in <= in_end; begin <= out <= out_end, and every step checks both
 * sides before it moves anything. */
#include "wire/snappy.h"

#include "wire/pb.h"

/* The densest element is a copy of 64 bytes in 3 bytes; a length that needs more than that is invalid. */
#define MAX_EXPANSION 22

typedef struct decoder {
    const uint8_t *in, *in_end;
    uint8_t *begin, *out, *out_end;
} decoder;

/* Reads n little-endian bytes; the caller has checked that there are that many. */
static uint32_t take_le(decoder *d, int n)
{
    uint32_t v = 0;
    for (int i = 0; i < n; i++)
        v |= (uint32_t)*d->in++ << 8 * i;
    return v;
}

/* The functions for both kinds of elements return NULL or an error text. */
static const char *copy_literal(decoder *d, uint8_t tag)
{
    uint64_t n = tag >> 2;
    if (n >= 60) {
        int bytes = (int)n - 59;
        if (d->in_end - d->in < bytes)
            return "literal length cut short";
        n = take_le(d, bytes);
    }
    n++;
    if (n > (size_t)(d->in_end - d->in))
        return "literal cut short";
    if (n > (size_t)(d->out_end - d->out))
        return "literal longer than the output";
    memcpy(d->out, d->in, n);
    d->in += n;
    d->out += n;
    return NULL;
}

/* Copies n bytes from `offset` back, where an overlapping copy means repetition: each copy doubles
 * the length that the next one can copy. */
static void repeat_bytes(uint8_t *out, size_t offset, size_t n)
{
    const uint8_t *from = out - offset;
    while (n > offset) {
        memcpy(out, from, offset);
        out += offset;
        n -= offset;
        offset *= 2;
    }
    memcpy(out, from, n);
}

/* A copy of bytes that were already decoded. The tag selects an offset of 1, 2 or 4 bytes; with 1 byte, its upper 3
 * bits are in the tag. */
static const char *copy_earlier(decoder *d, uint8_t tag)
{
    static const int offset_bytes[] = {0, 1, 2, 4};
    int bytes = offset_bytes[tag & 3];
    if (d->in_end - d->in < bytes)
        return "copy cut short";
    size_t n = (tag & 3) == 1 ? (size_t)4 + (tag >> 2 & 7) : (size_t)1 + (tag >> 2);
    size_t offset = take_le(d, bytes);
    if ((tag & 3) == 1)
        offset |= (size_t)(tag >> 5) << 8;
    if (offset == 0 || offset > (size_t)(d->out - d->begin))
        return "copy from before the output";
    if (n > (size_t)(d->out_end - d->out))
        return "copy longer than the output";
    repeat_bytes(d->out, offset, n);
    d->out += n;
    return NULL;
}

static const char *decode_block(decoder *d)
{
    while (d->in < d->in_end) {
        uint8_t tag = *d->in++;
        const char *error = tag & 3 ? copy_earlier(d, tag) : copy_literal(d, tag);
        if (error)
            return error;
    }
    return d->out == d->out_end ? NULL : "output shorter than its length";
}

/* The length comes first. It is checked against what the input can expand to before memory is allocated for it. */
mr_status *mr_snappy_uncompress(mr_sv in, mr_str *out)
{
    mr_pb_reader r;
    mr_pb_reader_init(&r, in);
    uint64_t n = mr_pb_raw_varint(&r);
    if (r.error || n > UINT32_MAX)
        return mr_error(MR_DATA_LOSS, "snappy: bad length");
    mr_sv rest = mr_pb_rest(&r);
    if (n > (uint64_t)rest.n * MAX_EXPANSION)
        return mr_error(MR_DATA_LOSS, "snappy: %zu bytes cannot hold %llu", rest.n,
                        (unsigned long long)n);
    if (!mr_str_try_reserve(out, n))
        return mr_error(MR_RESOURCE_EXHAUSTED, "snappy: no memory for %llu bytes",
                        (unsigned long long)n);
    uint8_t *to = (uint8_t *)out->p + out->n;
    decoder d = {.in = (const uint8_t *)rest.p,
                 .in_end = (const uint8_t *)rest.p + rest.n,
                 .begin = to,
                 .out = to,
                 .out_end = to + n};
    const char *error = decode_block(&d);
    if (!error)
        out->n += n;
    out->p[out->n] = '\0';
    return error ? mr_error(MR_DATA_LOSS, "snappy: %s", error) : NULL;
}
