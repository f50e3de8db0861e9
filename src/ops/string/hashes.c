/* ops/string/hashes.c -- FarmHash's Fingerprint64.
 *
 * Its results are stored in models (buckets of words, keys of crossed features), so they must never
 * change.  Numbers are read as little-endian on every machine. */
#include "ops/string/hashes.h"

typedef struct pair {
    uint64_t a, b;
} pair;

static const uint64_t k0 = 0xc3a5c85c97cb3127u, k1 = 0xb492b66fbe98f273u, k2 = 0x9ae16a3b2f90404fu;

static uint64_t load_uint64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

static uint64_t load_uint32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap32(v);
#endif
    return v;
}

/* Requires 0 < by < 64. */
static uint64_t rotate_right(uint64_t v, int by) { return v >> by | v << (64 - by); }

static uint64_t shift_mix(uint64_t v) { return v ^ v >> 47; }

/* ---- FarmHash, one function for each range of lengths ---- */

static uint64_t mix_words(uint64_t u, uint64_t v, uint64_t mul)
{
    uint64_t a = shift_mix((u ^ v) * mul);
    return shift_mix((v ^ a) * mul) * mul;
}

static uint64_t up_to_16(const char *s, size_t n)
{
    uint64_t mul = k2 + n * 2;
    if (n >= 8) {
        uint64_t a = load_uint64(s) + k2, b = load_uint64(s + n - 8);
        return mix_words(rotate_right(b, 37) * mul + a, (rotate_right(a, 25) + b) * mul, mul);
    }
    if (n >= 4)
        return mix_words(n + (load_uint32(s) << 3), load_uint32(s + n - 4), mul);
    if (n == 0)
        return k2;
    uint64_t a = (uint8_t)s[0], b = (uint8_t)s[n >> 1], c = (uint8_t)s[n - 1];
    return shift_mix((a + (b << 8)) * k2 ^ (n + (c << 2)) * k0) * k2;
}

static uint64_t up_to_32(const char *s, size_t n)
{
    uint64_t mul = k2 + n * 2;
    uint64_t a = load_uint64(s) * k1, b = load_uint64(s + 8);
    uint64_t c = load_uint64(s + n - 8) * mul, d = load_uint64(s + n - 16) * k2;
    return mix_words(rotate_right(a + b, 43) + rotate_right(c, 30) + d, a + rotate_right(b + k2, 18) + c, mul);
}

static uint64_t up_to_64(const char *s, size_t n)
{
    uint64_t mul = k2 + n * 2;
    uint64_t a = load_uint64(s) * k2, b = load_uint64(s + 8);
    uint64_t c = load_uint64(s + n - 8) * mul, d = load_uint64(s + n - 16) * k2;
    uint64_t y = rotate_right(a + b, 43) + rotate_right(c, 30) + d;
    uint64_t z = mix_words(y, a + rotate_right(b + k2, 18) + c, mul);
    uint64_t e = load_uint64(s + 16) * mul, f = load_uint64(s + 24);
    uint64_t g = (y + load_uint64(s + n - 32)) * mul, h = (z + load_uint64(s + n - 24)) * mul;
    return mix_words(rotate_right(e + f, 43) + rotate_right(g, 30) + h, e + rotate_right(f + a, 18) + g, mul);
}

static pair weak_hash_32(const char *s, uint64_t a, uint64_t b)
{
    uint64_t w = load_uint64(s), x = load_uint64(s + 8), y = load_uint64(s + 16), z = load_uint64(s + 24);
    a += w;
    b = rotate_right(b + a + z, 21);
    uint64_t c = a;
    a += x + y;
    b += rotate_right(a, 44);
    return (pair){a + z, b + c};
}

typedef struct farm {
    uint64_t x, y, z;
    pair v, w;
} farm;

/* Processes 64 bytes at s; the last round has a separate multiplier and multiplies some parts by nine. */
static void farm_round(farm *f, const char *s, uint64_t mul, uint64_t times)
{
    f->x = rotate_right(f->x + f->y + f->v.a + load_uint64(s + 8), 37) * mul;
    f->y = rotate_right(f->y + f->v.b + load_uint64(s + 48), 42) * mul;
    f->x ^= f->w.b * times;
    f->y += f->v.a * times + load_uint64(s + 40);
    f->z = rotate_right(f->z + f->w.a, 33) * mul;
    f->v = weak_hash_32(s, f->v.b * mul, f->x + f->w.a);
    f->w = weak_hash_32(s + 32, f->z + f->w.b, f->y + load_uint64(s + 16));
    uint64_t t = f->z;
    f->z = f->x;
    f->x = t;
}

static uint64_t over_64(const char *s, size_t n)
{
    const uint64_t seed = 81;
    farm f = {.x = seed, .y = seed * k1 + 113};
    const char *end = s + (n - 1) / 64 * 64, *last = end + ((n - 1) & 63) - 63;
    f.z = shift_mix(f.y * k2 + 113) * k2;
    f.x = f.x * k2 + load_uint64(s);
    for (; s != end; s += 64)
        farm_round(&f, s, k1, 1);
    uint64_t mul = k1 + ((f.z & 0xff) << 1);
    f.w.a += (n - 1) & 63;
    f.v.a += f.w.a;
    f.w.a += f.v.a;
    farm_round(&f, last, mul, 9);
    return mix_words(mix_words(f.v.a, f.w.a, mul) + shift_mix(f.y) * k0 + f.z, mix_words(f.v.b, f.w.b, mul) + f.x,
                     mul);
}

uint64_t mr_fingerprint64(mr_sv s)
{
    return s.n <= 16   ? up_to_16(s.p, s.n)
           : s.n <= 32 ? up_to_32(s.p, s.n)
           : s.n <= 64 ? up_to_64(s.p, s.n)
                       : over_64(s.p, s.n);
}
