/* wire/crc32c.c -- CRC-32C with the processor's instructions where it has them, else by tables.
 *
 * The polynomial is 0x1EDC6F41; bits are reflected, so code sees 0x82F63B78. The tables take eight
 * bytes a step ("slicing"): table k holds the effect of a byte that is followed by k zero bytes;
 * because the checksum is linear, the eight contributions are xored.
 *
 * Long inputs are folded (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", 2009):
 * 16 bytes that are followed by D bits more have the checksum of their product with x^D modulo the polynomial, added
 * to what is D bits further on. Four such sums run side by side, so that no multiplication waits for the one before. */
#include "wire/crc32c.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static uint32_t table[8][256];
static pthread_once_t table_made = PTHREAD_ONCE_INIT;

/* Table 0 by division, bit by bit; each next table shifts the one before by a zero byte. */
static void make_table(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? 0x82F63B78u : 0);
        table[0][b] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xFF];
}

/* The checksum is kept inverted between calls (initial and final xor with ones), hence the ~. */
uint32_t mr_crc32c_extend_portable(uint32_t crc, const void *data, size_t n)
{
    const uint8_t *p = data;
    uint32_t c = ~crc;
    pthread_once(&table_made, make_table);
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t a = c ^ (p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24);
        c = table[7][a & 0xFF] ^ table[6][a >> 8 & 0xFF] ^ table[5][a >> 16 & 0xFF] ^
            table[4][a >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n; n--)
        c = c >> 8 ^ table[0][(c ^ *p++) & 0xFF];
    return ~c;
}

#if defined(__x86_64__)
/* Not inverted: c is the checksum's inner state. */
__attribute__((target("sse4.2"))) static inline uint32_t extend_words(uint64_t c, const uint8_t *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        c = __builtin_ia32_crc32di(c, v);
    }
    for (; n; n--)
        c = __builtin_ia32_crc32qi((uint32_t)c, *p++);
    return (uint32_t)c;
}

__attribute__((target("sse4.2"))) static uint32_t extend_sse42(uint32_t crc, const void *data, size_t n)
{
    return ~extend_words(~crc, data, n);
}

/* For each distance D: x^(D-32) and x^(D+32) modulo the polynomial, reflected and shifted by one bit. */
#define BY_128 0x14cd00bd6, 0xf20c0dfe
#define BY_512 0x9e4addf8, 0x740eef02
#define BY_2048 0xb9e02b86, 0xdcb17aa4

enum { FOLDED = 64, FOLDED_WIDE = 256 }; /* bytes a step */

#define LOAD(at) _mm_loadu_si128((const __m128i *)(at))
#define LOAD_WIDE(at) _mm512_loadu_si512(at)

/* next, with x as it counts that much further on. */
__attribute__((target("pclmul,sse4.2"))) static inline __m128i fold(__m128i x, __m128i by, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(x, by, 0x00), high = _mm_clmulepi64_si128(x, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* The inner state after the 64 bytes x, which are folded already, and n bytes at p. */
__attribute__((target("pclmul,sse4.2"))) static uint32_t finish(__m128i x[4], const uint8_t *p, size_t n)
{
    const __m128i by_512 = _mm_set_epi64x(BY_512), by_128 = _mm_set_epi64x(BY_128);
    for (; n >= FOLDED; p += FOLDED, n -= FOLDED)
        for (int i = 0; i < 4; i++)
            x[i] = fold(x[i], by_512, LOAD(p + 16 * i));
    for (int i = 1; i < 4; i++)
        x[i] = fold(x[i - 1], by_128, x[i]);
    uint8_t rest[16]; /* has the same checksum as all before p */
    memcpy(rest, &x[3], 16);
    return extend_words(extend_words(0, rest, 16), p, n);
}

__attribute__((target("pclmul,sse4.2"))) static uint32_t extend_folded(uint32_t crc, const uint8_t *p, size_t n)
{
    __m128i x[4];
    for (int i = 0; i < 4; i++)
        x[i] = LOAD(p + 16 * i);
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)~crc));
    return ~finish(x, p + FOLDED, n - FOLDED);
}

__attribute__((target("vpclmulqdq,avx512f"))) static inline __m512i fold_wide(__m512i x, __m512i by, __m512i next)
{
    __m512i low = _mm512_clmulepi64_epi128(x, by, 0x00), high = _mm512_clmulepi64_epi128(x, by, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, 0x96);
}

__attribute__((target("vpclmulqdq,avx512f,pclmul,sse4.2"))) static uint32_t extend_wide(uint32_t crc, const uint8_t *p, size_t n)
{
    const __m512i by_2048 = _mm512_broadcast_i32x4(_mm_set_epi64x(BY_2048)), by_512 = _mm512_broadcast_i32x4(_mm_set_epi64x(BY_512));
    __m512i x[4];
    __m128i parts[4];
    for (int i = 0; i < 4; i++)
        x[i] = LOAD_WIDE(p + 64 * i);
    x[0] = _mm512_xor_si512(x[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
    for (p += FOLDED_WIDE, n -= FOLDED_WIDE; n >= FOLDED_WIDE; p += FOLDED_WIDE, n -= FOLDED_WIDE)
        for (int i = 0; i < 4; i++)
            x[i] = fold_wide(x[i], by_2048, LOAD_WIDE(p + 64 * i));
    for (int i = 1; i < 4; i++)
        x[i] = fold_wide(x[i - 1], by_512, x[i]);
    memcpy(parts, &x[3], sizeof parts);
    return ~finish(parts, p, n);
}

uint32_t mr_crc32c_extend(uint32_t crc, const void *p, size_t n)
{
    if (n >= 2 * FOLDED_WIDE && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f"))
        return extend_wide(crc, p, n);
    if (n >= 4 * FOLDED && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2"))
        return extend_folded(crc, p, n);
    if (MR_LIKELY(__builtin_cpu_supports("sse4.2")))
        return extend_sse42(crc, p, n);
    return mr_crc32c_extend_portable(crc, p, n);
}
#else
uint32_t mr_crc32c_extend(uint32_t crc, const void *p, size_t n)
{
    return mr_crc32c_extend_portable(crc, p, n);
}
#endif
