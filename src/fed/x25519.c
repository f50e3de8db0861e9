/* fed/x25519.c -- the Montgomery ladder over 2^255 - 19, in five limbs of 51 bits.
 *
 * Every step does the same work for all keys: a bit of the key only selects a swap, which is done by masks. Limbs stay
 * below 2^54 between operations, so five products of two limbs, with the factor 19, fit in 128 bits. */
#include "fed/x25519.h"

#include <string.h>

#include "fed/sha256.h"

typedef uint64_t field[5];
typedef unsigned __int128 u128;
static const uint64_t mask51 = ((uint64_t)1 << 51) - 1;

/* Little-endian, from any address. */
static uint64_t load_u64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

/* Little-endian; the top bit of the last byte is ignored, as the RFC requires. */
static void field_unpack(field out, const uint8_t p[32])
{
    out[0] = load_u64(p) & mask51;
    out[1] = load_u64(p + 6) >> 3 & mask51;
    out[2] = load_u64(p + 12) >> 6 & mask51;
    out[3] = load_u64(p + 19) >> 1 & mask51;
    out[4] = load_u64(p + 24) >> 12 & mask51; /* the top bit does not count */
}

/* Brings limbs below 2^51, up to a small rest in limb 0. What leaves limb 4 counts 19 times, because 2^255 = 19. */
static void field_carry(field f)
{
    for (int i = 0; i < 4; i++) {
        f[i + 1] += f[i] >> 51;
        f[i] &= mask51;
    }
    f[0] += 19 * (f[4] >> 51);
    f[4] &= mask51;
}

/* Reduces to the number below 2^255 - 19 that represents the field element. */
static void field_pack(uint8_t out[32], const field in)
{
    field f;
    memcpy(f, in, sizeof f);
    field_carry(f);
    field_carry(f);
    uint64_t q = (f[0] + 19) >> 51; /* 1 when f is not below the prime */
    for (int i = 1; i < 5; i++)
        q = (f[i] + q) >> 51;
    f[0] += 19 * q;
    for (int i = 0; i < 4; i++) {
        f[i + 1] += f[i] >> 51;
        f[i] &= mask51;
    }
    f[4] &= mask51;
    uint64_t w[4] = {f[0] | f[1] << 51, f[1] >> 13 | f[2] << 38, f[2] >> 26 | f[3] << 25, f[3] >> 39 | f[4] << 12};
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(w[i / 8] >> 8 * (i % 8));
    mr_wipe(f, sizeof f);
}

/* No carry: the limbs of the result are below 2^54 if those of a and b are below 2^53. */
static void field_add(field out, const field a, const field b)
{
    for (int i = 0; i < 5; i++)
        out[i] = a[i] + b[i];
}

/* a + 8p - b, so that no limb is below zero while those of b are below 2^54. */
static void field_subtract(field out, const field a, const field b)
{
    out[0] = a[0] + 0x3fffffffffff68 - b[0];
    for (int i = 1; i < 5; i++)
        out[i] = a[i] + 0x3ffffffffffff8 - b[i];
    field_carry(out);
}

/* Schoolbook multiplication; products beyond limb 4 wrap around with the factor 19. out may be a or b, because it
 * is written last. */
static void field_multiply(field out, const field a, const field b)
{
    u128 t[5];
    for (int i = 0; i < 5; i++) {
        t[i] = 0;
        for (int j = 0; j < 5; j++) {
            uint64_t y = b[(i - j + 5) % 5];
            t[i] += (u128)a[j] * (j > i ? 19 * y : y);
        }
    }
    for (int i = 0; i < 4; i++) {
        t[i + 1] += t[i] >> 51;
        out[i] = (uint64_t)t[i] & mask51;
    }
    out[4] = (uint64_t)t[4] & mask51;
    u128 first = (u128)19 * (uint64_t)(t[4] >> 51) + out[0];
    out[0] = (uint64_t)first & mask51;
    out[1] += (uint64_t)(first >> 51);
}

/* out = a^(2^n), n >= 1. */
static void square_times(field out, const field a, int n)
{
    field_multiply(out, a, a);
    while (--n)
        field_multiply(out, out, out);
}

/* a^(p - 2), p - 2 = 2^255 - 21: runs of ones, doubled in length. */
static void field_invert(field out, const field a)
{
    field a2, a9, a11, x5, x10, x20, x50, x100, t;
    square_times(a2, a, 1);
    square_times(t, a2, 2);
    field_multiply(a9, t, a);
    field_multiply(a11, a9, a2);
    square_times(t, a11, 1);
    field_multiply(x5, t, a9); /* 2^5 - 1 */
    square_times(t, x5, 5);
    field_multiply(x10, t, x5);
    square_times(t, x10, 10);
    field_multiply(x20, t, x10);
    square_times(t, x20, 20);
    field_multiply(t, t, x20);
    square_times(t, t, 10);
    field_multiply(x50, t, x10);
    square_times(t, x50, 50);
    field_multiply(x100, t, x50);
    square_times(t, x100, 100);
    field_multiply(t, t, x100);
    square_times(t, t, 50);
    field_multiply(t, t, x50);
    square_times(t, t, 5);
    field_multiply(out, t, a11);
}

/* Swaps if bit is 1, with the same instructions in both cases. */
static void swap_if(uint64_t bit, field a, field b)
{
    uint64_t mask = (uint64_t)0 - bit;
    for (int i = 0; i < 5; i++) {
        uint64_t d = mask & (a[i] ^ b[i]);
        a[i] ^= d;
        b[i] ^= d;
    }
}

/* One bit of the ladder, in the letters of the RFC. */
static void ladder_step(field x1, field x2, field z2, field x3, field z3)
{
    static const field a24 = {121665};
    field a, aa, b, bb, e, c, d, da, cb;
    field_add(a, x2, z2);
    field_multiply(aa, a, a);
    field_subtract(b, x2, z2);
    field_multiply(bb, b, b);
    field_subtract(e, aa, bb);
    field_add(c, x3, z3);
    field_subtract(d, x3, z3);
    field_multiply(da, d, a);
    field_multiply(cb, c, b);
    field_add(x3, da, cb);
    field_multiply(x3, x3, x3);
    field_subtract(z3, da, cb);
    field_multiply(z3, z3, z3);
    field_multiply(z3, z3, x1);
    field_multiply(x2, aa, bb);
    field_multiply(z2, a24, e);
    field_add(z2, z2, aa);
    field_multiply(z2, e, z2);
}

/* The function X25519 of RFC 7748, 5: clamps the key, runs 255 steps, and wipes everything that depends on the
 * key. */
static void run_ladder(const uint8_t secret[32], const uint8_t point[32], uint8_t out[32])
{
    uint8_t k[32];
    field x1, x2 = {1}, z2 = {0}, x3, z3 = {1};
    uint64_t swapped = 0;
    memcpy(k, secret, 32);
    k[0] &= 248;
    k[31] = (k[31] & 127) | 64;
    field_unpack(x1, point);
    memcpy(x3, x1, sizeof x3);
    /* Swaps are delayed: two equal bits in a row need none. The sequence of operations is the same in any case. */
    for (int i = 254; i >= 0; i--) {
        uint64_t bit = k[i / 8] >> (i % 8) & 1;
        swap_if(swapped ^ bit, x2, x3);
        swap_if(swapped ^ bit, z2, z3);
        swapped = bit;
        ladder_step(x1, x2, z2, x3, z3);
    }
    swap_if(swapped, x2, x3);
    swap_if(swapped, z2, z3);
    /* The result is x2 / z2. */
    field_invert(z2, z2);
    field_multiply(x2, x2, z2);
    field_pack(out, x2);
    mr_wipe(k, sizeof k);
    mr_wipe(x2, sizeof x2);
    mr_wipe(z2, sizeof z2);
    mr_wipe(x3, sizeof x3);
    mr_wipe(z3, sizeof z3);
}

/* 9 is the base point of the curve. */
void mr_x25519_public(const uint8_t secret[MR_X25519], uint8_t out[MR_X25519])
{
    static const uint8_t base[32] = {9};
    run_ladder(secret, base, out);
}

/* A point of small order gives 0 for every key, so the result would not be secret. */
bool mr_x25519(const uint8_t secret[MR_X25519], const uint8_t other[MR_X25519], uint8_t out[MR_X25519])
{
    static const uint8_t zero[32];
    run_ladder(secret, other, out);
    return !mr_secret_equal(out, zero, 32);
}
