/* fed/chacha.c -- ChaCha20 sixteen blocks at a time, Poly1305 in limbs of 44 bits.
 *
 * The mask of a model takes megabytes of stream for each pair of clients, so LANES blocks are computed side by side:
 * word i of all blocks is adjacent in memory, and every step of the cipher is a plain loop over lanes that the compiler
 * vectorises.
 *
 * No branch and no address depends on a secret, so the time of a call does not either. Keys and intermediate values on
 * the stack are wiped before a function returns. */
#include "fed/chacha.h"

#include <string.h>

#include "base/memory.h"
#include "base/simd.h"
#include "base/status.h"
#include "fed/sha256.h"

enum { LANES = 16, BLOCK = 64, WORDS = 16 };
typedef uint32_t lanes[LANES];

/* The quarter round of RFC 8439, 2.1, on all lanes at once. */
MR_INLINE void quarter(lanes a, lanes b, lanes c, lanes d)
{
    for (int i = 0; i < LANES; i++) {
        a[i] += b[i];
        d[i] ^= a[i];
        d[i] = d[i] << 16 | d[i] >> 16;
        c[i] += d[i];
        b[i] ^= c[i];
        b[i] = b[i] << 12 | b[i] >> 20;
        a[i] += b[i];
        d[i] ^= a[i];
        d[i] = d[i] << 8 | d[i] >> 24;
        c[i] += d[i];
        b[i] ^= c[i];
        b[i] = b[i] << 7 | b[i] >> 25;
    }
}

/* Computes the blocks state[12] .. state[12] + LANES - 1 as out[block][word]. The state itself is not advanced. */
MR_CLONES static void make_blocks(const uint32_t state[WORDS], uint32_t out[LANES][WORDS])
{
    lanes x[WORDS];
    for (int w = 0; w < WORDS; w++)
        for (int i = 0; i < LANES; i++)
            x[w][i] = state[w] + (w == 12 ? (uint32_t)i : 0);
    for (int round = 0; round < 10; round++) {
        quarter(x[0], x[4], x[8], x[12]);
        quarter(x[1], x[5], x[9], x[13]);
        quarter(x[2], x[6], x[10], x[14]);
        quarter(x[3], x[7], x[11], x[15]);
        quarter(x[0], x[5], x[10], x[15]);
        quarter(x[1], x[6], x[11], x[12]);
        quarter(x[2], x[7], x[8], x[13]);
        quarter(x[3], x[4], x[9], x[14]);
    }
    for (int i = 0; i < LANES; i++)
        for (int w = 0; w < WORDS; w++)
            out[i][w] = x[w][i] + state[w] + (w == 12 ? (uint32_t)i : 0);
}

static uint32_t load_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The initial state of RFC 8439, 2.3: constants, key, block counter, nonce. */
static void set_up(uint32_t s[WORDS], const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], uint32_t counter)
{
    static const char sigma[] = "expand 32-byte k";
    for (int i = 0; i < 4; i++)
        s[i] = load_u32((const uint8_t *)sigma + 4 * i);
    for (int i = 0; i < 8; i++)
        s[4 + i] = load_u32(key + 4 * i);
    s[12] = counter;
    for (int i = 0; i < 3; i++)
        s[13 + i] = load_u32(nonce + 4 * i);
}

/* The last part uses only the bytes it needs of its LANES blocks. */
void mr_chacha20(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], uint32_t counter, uint8_t *out, size_t n)
{
    uint32_t state[WORDS], words[LANES][WORDS];
    MR_ASSERT((n + BLOCK - 1) / BLOCK <= ((uint64_t)1 << 32) - counter);
    set_up(state, key, nonce, counter);
    for (size_t at = 0; at < n; at += sizeof words, state[12] += LANES) {
        make_blocks(state, words);
        for (size_t i = 0; i < MR_MIN(n - at, sizeof words); i++)
            out[at + i] ^= (uint8_t)(words[i / BLOCK][i / 4 % WORDS] >> 8 * (i % 4));
    }
    mr_wipe(state, sizeof state);
    mr_wipe(words, sizeof words);
}

/* In a separate function, so that the compiler makes one version per instruction set. */
MR_CLONES static void add_words(uint32_t *sum, const uint32_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += words[i];
}

MR_CLONES static void subtract_words(uint32_t *sum, const uint32_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] -= words[i];
}

/* The nonce is 0, because the key is used for one mask only. After 2^32 blocks the first nonce word counts on, so
 * the stream does not repeat. */
void mr_chacha20_mask(const uint8_t key[MR_CHACHA_KEY], bool subtract, uint32_t *sum, size_t n)
{
    static const uint8_t nonce[MR_CHACHA_NONCE];
    uint32_t state[WORDS], words[LANES][WORDS];
    set_up(state, key, nonce, 0);
    for (size_t at = 0; at < n; at += LANES * WORDS) {
        size_t part = MR_MIN(n - at, (size_t)LANES * WORDS);
        make_blocks(state, words);
        (subtract ? subtract_words : add_words)(sum + at, words[0], part);
        state[12] += LANES;
        state[13] += state[12] == 0; /* LANES divides 2^32 */
    }
    mr_wipe(state, sizeof state);
    mr_wipe(words, sizeof words);
}

/* ---- Poly1305: sum of c_i * r^(n-i) modulo 2^130 - 5, plus s ---- */

typedef unsigned __int128 u128;
enum { HALF = 44 }; /* limbs of 44, 44 and 42 bits */
static const uint64_t mask44 = ((uint64_t)1 << 44) - 1, mask42 = ((uint64_t)1 << 42) - 1;

static uint64_t load_u64(const uint8_t *p) { return load_u32(p) | (uint64_t)load_u32(p + 4) << 32; }

/* Splits 16 bytes into limbs of 44, 44 and 42 bits; top becomes bit 128. */
static void split_limbs(const uint8_t *p, uint64_t top, uint64_t out[3])
{
    uint64_t lo = load_u64(p), hi = load_u64(p + 8);
    out[0] = lo & mask44;
    out[1] = (lo >> 44 | hi << 20) & mask44;
    out[2] = hi >> 24 | top << 40;
}

/* h = h * r modulo 2^130 - 5, with carries so that limbs stay below 2^45. */
static void poly_multiply(uint64_t h[3], const uint64_t r[3])
{
    uint64_t s1 = r[1] * 20, s2 = r[2] * 20; /* 2^132 = 20 */
    u128 d0 = (u128)h[0] * r[0] + (u128)h[1] * s2 + (u128)h[2] * s1;
    u128 d1 = (u128)h[0] * r[1] + (u128)h[1] * r[0] + (u128)h[2] * s2;
    u128 d2 = (u128)h[0] * r[2] + (u128)h[1] * r[1] + (u128)h[2] * r[0];
    d1 += (uint64_t)(d0 >> HALF);
    d2 += (uint64_t)(d1 >> HALF);
    h[0] = (uint64_t)d0 & mask44;
    h[1] = (uint64_t)d1 & mask44;
    h[2] = (uint64_t)d2 & mask42;
    h[0] += (uint64_t)(d2 >> 42) * 5;
    h[1] += h[0] >> HALF;
    h[0] &= mask44;
}

/* h = (h + block) * r: one step of the polynomial. */
static void add_block(uint64_t h[3], const uint64_t r[3], const uint8_t *p, uint64_t top)
{
    uint64_t c[3];
    split_limbs(p, top, c);
    for (int i = 0; i < 3; i++)
        h[i] += c[i];
    poly_multiply(h, r);
}

/* Reduces h to the number below 2^130 - 5 that is congruent to it. Both candidates are computed and one is
 * selected by a mask, without a branch. */
static void poly_reduce(uint64_t h[3])
{
    for (int i = 0; i < 2; i++) {
        uint64_t c = h[0] >> 44;
        h[0] &= mask44;
        h[1] += c, c = h[1] >> 44, h[1] &= mask44;
        h[2] += c, c = h[2] >> 42, h[2] &= mask42;
        h[0] += c * 5;
    }
    uint64_t c = h[0] >> 44;
    h[0] &= mask44;
    h[1] += c;
    uint64_t g0 = h[0] + 5, g1 = h[1] + (g0 >> 44), g2 = h[2] + (g1 >> 44) - ((uint64_t)1 << 42);
    uint64_t keep = (uint64_t)0 - (g2 >> 63); /* all ones when h was below */
    h[0] = (h[0] & keep) | (g0 & mask44 & ~keep);
    h[1] = (h[1] & keep) | (g1 & mask44 & ~keep);
    h[2] = (h[2] & keep) | (g2 & mask42 & ~keep);
}

typedef struct poly {
    uint64_t h[3], r[3];
    uint8_t s[16];
} poly;

/* Clears the bits of r that Poly1305 requires to be 0. */
static void poly_init(poly *p, const uint8_t key[32])
{
    uint8_t r[16];
    memcpy(r, key, 16);
    for (int i = 3; i < 16; i += 4)
        r[i] &= 15;
    for (int i = 4; i < 16; i += 4)
        r[i] &= 252;
    *p = (poly){{0}};
    split_limbs(r, 0, p->r);
    memcpy(p->s, key + 16, 16);
}

/* padded: fills the last block up with zeros, as RFC 8439 requires for each part of an AEAD. Not padded: the last
 * block of the message gets its own end bit. */
static void poly_add(poly *p, const void *bytes, size_t n, bool padded)
{
    const uint8_t *in = bytes;
    for (; n >= 16; in += 16, n -= 16)
        add_block(p->h, p->r, in, 1);
    if (n) {
        uint8_t last[16] = {0};
        memcpy(last, in, n);
        last[n] = !padded;
        add_block(p->h, p->r, last, padded);
    }
}

/* Wipes the state. */
static void poly_end(poly *p, uint8_t tag[MR_CHACHA_TAG])
{
    poly_reduce(p->h);
    uint64_t lo = p->h[0] | p->h[1] << 44, hi = p->h[1] >> 20 | p->h[2] << 24;
    u128 sum = ((u128)hi << 64 | lo) + ((u128)load_u64(p->s + 8) << 64 | load_u64(p->s));
    for (int i = 0; i < 16; i++)
        tag[i] = (uint8_t)(sum >> 8 * i);
    mr_wipe(p, sizeof *p);
}

/* For tests against the RFC's vectors; the AEAD uses the same parts. */
void mr_poly1305(const uint8_t key[32], const void *bytes, size_t n, uint8_t tag[MR_CHACHA_TAG])
{
    poly p;
    poly_init(&p, key);
    poly_add(&p, bytes, n, false);
    poly_end(&p, tag);
}

/* ---- both ---- */

/* The tag of RFC 8439, 2.8: Poly1305 over the padded extra data, the padded ciphertext and both lengths, with a
 * key from block 0 of the stream. */
static void tag_of(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], const void *extra, size_t extra_n,
                   const uint8_t *text, size_t n, uint8_t tag[MR_CHACHA_TAG])
{
    uint8_t once[32] = {0}, lengths[16];
    poly p;
    mr_chacha20(key, nonce, 0, once, sizeof once);
    poly_init(&p, once);
    poly_add(&p, extra, extra_n, true);
    poly_add(&p, text, n, true);
    for (int i = 0; i < 8; i++) {
        lengths[i] = (uint8_t)((uint64_t)extra_n >> 8 * i);
        lengths[8 + i] = (uint8_t)((uint64_t)n >> 8 * i);
    }
    poly_add(&p, lengths, sizeof lengths, true);
    poly_end(&p, tag);
    mr_wipe(once, sizeof once);
}

/* The text is encrypted from block 1 on; block 0 is the key of the tag. */
void mr_seal(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], const void *extra, size_t extra_n,
             uint8_t *text, size_t n)
{
    mr_chacha20(key, nonce, 1, text, n);
    tag_of(key, nonce, extra, extra_n, text, n, text + n);
}

/* The tag is compared in constant time, before anything is decrypted. */
bool mr_unseal(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], const void *extra, size_t extra_n,
               uint8_t *text, size_t n)
{
    uint8_t tag[MR_CHACHA_TAG];
    tag_of(key, nonce, extra, extra_n, text, n, tag);
    if (!mr_secret_equal(tag, text + n, sizeof tag))
        return false;
    mr_chacha20(key, nonce, 1, text, n);
    return true;
}
