/* wire/snappy_compress.c -- makes one Snappy block; snappy.c describes the format.
 *
 * Greedy: a table holds where a hash of four bytes was last seen, a match there is made as long as
 * it goes, and bytes without a match are collected into literals.  Input is taken in fragments of
 * 64 KiB, so that places fit 16 bits and an offset takes two at most.  Where nothing matches the
 * steps grow, so that bytes which cannot be compressed cost little time.
 *
 * Invariants: fragment <= literal <= at <= end; everything before `literal` has been written. */
#include "wire/snappy.h"

#include "base/memory.h"

enum {
    FRAGMENT = 1 << 16,
    MAX_BITS = 14,  /* of the table: 32 KiB, which stays in the first cache */
    TAIL = 15,      /* last bytes of a fragment are not looked up: loads of 8 stay inside */
    LONGEST_COPY = 64,
};

static inline uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t hash_of(uint32_t bytes, int shift) { return bytes * 0x1e35a7bdu >> shift; }

static uint8_t *put_literal(uint8_t *out, const uint8_t *from, size_t n)
{
    if (n == 0)
        return out;
    if (n <= 60) {
        *out++ = (uint8_t)((n - 1) << 2);
    } else if (n <= 256) {
        *out++ = 60 << 2;
        *out++ = (uint8_t)(n - 1);
    } else { /* at most a fragment */
        *out++ = 61 << 2;
        *out++ = (uint8_t)(n - 1);
        *out++ = (uint8_t)((n - 1) >> 8);
    }
    memcpy(out, from, n);
    return out + n;
}

static uint8_t *put_long_copy(uint8_t *out, size_t offset, size_t n)
{
    *out++ = (uint8_t)((n - 1) << 2 | 2);
    *out++ = (uint8_t)offset;
    *out++ = (uint8_t)(offset >> 8);
    return out;
}

static uint8_t *put_copy(uint8_t *out, size_t offset, size_t n)
{
    for (; n >= LONGEST_COPY + 4; n -= LONGEST_COPY) /* the rest is long enough for the short form */
        out = put_long_copy(out, offset, LONGEST_COPY);
    if (n > LONGEST_COPY) {
        out = put_long_copy(out, offset, 60);
        n -= 60;
    }
    if (n >= 12 || offset >= 2048)
        return put_long_copy(out, offset, n);
    *out++ = (uint8_t)((offset >> 8) << 5 | (n - 4) << 2 | 1);
    *out++ = (uint8_t)offset;
    return out;
}

/* How many bytes at a and b are the same; b < end is the later one, and may overlap a. */
static inline size_t count_equal(const uint8_t *a, const uint8_t *b, const uint8_t *end)
{
    const uint8_t *start = b;
    while (end - b >= 8) {
        uint64_t x = load64(a) ^ load64(b);
        if (x)
            return (size_t)(b - start) + ((size_t)__builtin_ctzll(x) >> 3);
        a += 8, b += 8;
    }
    while (b < end && *a == *b)
        a++, b++;
    return (size_t)(b - start);
}

/* The next place from `at` on where four bytes are those of an earlier one; NULL: none up to limit. */
static inline const uint8_t *find_match(const uint8_t *fragment, const uint8_t *at, const uint8_t *limit,
                                        uint16_t *table, int shift, const uint8_t **earlier)
{
    for (uint32_t skip = 32; at < limit; at += skip++ >> 5) {
        uint32_t bytes = load32(at), h = hash_of(bytes, shift);
        const uint8_t *candidate = fragment + table[h];
        table[h] = (uint16_t)(at - fragment);
        if (load32(candidate) == bytes && candidate < at) {
            *earlier = candidate;
            return at;
        }
    }
    return NULL;
}

/* Compresses at most 64 KiB. The table is cleared for each fragment and sized by it, so that small inputs are cheap. */
static uint8_t *compress_fragment(const uint8_t *fragment, size_t n, uint8_t *out, uint16_t *table)
{
    int bits = 8;
    while (bits < MAX_BITS && ((size_t)1 << bits) < n)
        bits++;
    memset(table, 0, sizeof *table << bits);
    const uint8_t *literal = fragment, *end = fragment + n;
    const uint8_t *limit = n > TAIL ? end - TAIL : fragment, *at = fragment + 1, *earlier;
    while ((at = find_match(fragment, at, limit, table, 32 - bits, &earlier))) {
        out = put_literal(out, literal, (size_t)(at - literal));
        size_t length = 4 + count_equal(earlier + 4, at + 4, end);
        out = put_copy(out, (size_t)(at - earlier), length);
        literal = at += length;
        if (at < limit) /* the end of the match may begin the next one */
            table[hash_of(load32(at - 1), 32 - bits)] = (uint16_t)(at - 1 - fragment);
    }
    return put_literal(out, literal, (size_t)(end - literal));
}

static uint8_t *put_varint(uint8_t *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *out++ = (uint8_t)(v | 0x80);
    *out++ = (uint8_t)v;
    return out;
}

mr_status *mr_snappy_compress(mr_sv in, mr_str *out)
{
    if (in.n > UINT32_MAX)
        return mr_invalid("snappy: %zu bytes are too many for a block", in.n);
    if (!mr_str_try_reserve(out, mr_snappy_most(in.n)))
        return mr_error(MR_RESOURCE_EXHAUSTED, "snappy: no memory to compress %zu bytes", in.n);
    uint16_t table[1 << MAX_BITS];
    const uint8_t *from = (const uint8_t *)in.p;
    uint8_t *to = put_varint((uint8_t *)out->p + out->n, in.n);
    for (size_t done = 0; done < in.n; done += FRAGMENT)
        to = compress_fragment(from + done, MR_MIN(in.n - done, (size_t)FRAGMENT), to, table);
    MR_ASSERT((size_t)((char *)to - out->p) - out->n <= mr_snappy_most(in.n));
    out->n = (size_t)((char *)to - out->p);
    out->p[out->n] = '\0';
    return NULL;
}
