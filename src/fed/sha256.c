/* fed/sha256.c -- SHA-256, HMAC and HKDF, written after their specifications.
 *
 * Every state that depends on a secret is wiped: blocks, keys, and the hash state at its end. */
#include "fed/sha256.h"

#include <string.h>

#include "base/status.h"

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate_right(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* SHA-256 is big-endian. */
static uint32_t load_be(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_be(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* The compression function of FIPS 180-4, 6.2.2, for one block of 64 bytes. */
static void take_block(uint32_t h[8], const uint8_t *p)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = load_be(p + 4 * i);
    /* The message schedule: 16 words of the block, expanded to 64. */
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10);
    }
    memcpy(v, h, sizeof v);
    /* 64 rounds over the working variables a .. h, which are v[0] .. v[7]. */
    for (int i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t t1 = v[7] + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
                      ((e & v[5]) ^ (~e & v[6])) + k[i] + w[i];
        uint32_t t2 = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +
                      ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
    mr_wipe(w, sizeof w);
}

void mr_sha256_init(mr_sha256 *s)
{
    *s = (mr_sha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

/* Bytes are collected until a block is full; s->n % 64 of them are in s->block. */
void mr_sha256_add(mr_sha256 *s, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    while (n) {
        size_t at = s->n % 64, part = 64 - at < n ? 64 - at : n;
        memcpy(s->block + at, p, part);
        s->n += part;
        p += part;
        n -= part;
        if (s->n % 64 == 0)
            take_block(s->h, s->block);
    }
}

/* Appends a 1 bit, zeros and the length in bits, which end the last block. Wipes the state. */
void mr_sha256_end(mr_sha256 *s, uint8_t out[MR_SHA256])
{
    uint8_t length[8];
    uint64_t bits = s->n * 8;
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    mr_sha256_add(s, "\x80", 1);
    while (s->n % 64 != 56)
        mr_sha256_add(s, "", 1);
    mr_sha256_add(s, length, 8);
    for (int i = 0; i < 8; i++)
        store_be(out + 4 * i, s->h[i]);
    mr_wipe(s, sizeof *s);
}

void mr_sha256_of(const void *p, size_t n, uint8_t out[MR_SHA256])
{
    mr_sha256 s;
    mr_sha256_init(&s);
    mr_sha256_add(&s, p, n);
    mr_sha256_end(&s, out);
}

/* ---- HMAC, in pieces because HKDF's messages are ---- */

typedef struct hmac {
    mr_sha256 inner, outer;
} hmac;

/* Starts both hashes with the padded key. A key longer than a block is hashed first. The message goes into
 * m->inner. */
static void hmac_init(hmac *m, const void *key, size_t key_n)
{
    uint8_t block[64] = {0}, pad[64];
    if (key_n > sizeof block)
        mr_sha256_of(key, key_n, block);
    else if (key_n)
        memcpy(block, key, key_n);
    for (int i = 0; i < 64; i++)
        pad[i] = block[i] ^ 0x36;
    mr_sha256_init(&m->inner);
    mr_sha256_add(&m->inner, pad, sizeof pad);
    for (int i = 0; i < 64; i++)
        pad[i] = block[i] ^ 0x5c;
    mr_sha256_init(&m->outer);
    mr_sha256_add(&m->outer, pad, sizeof pad);
    mr_wipe(block, sizeof block);
    mr_wipe(pad, sizeof pad);
}

/* Wipes both hash states. */
static void hmac_end(hmac *m, uint8_t out[MR_SHA256])
{
    uint8_t digest[MR_SHA256];
    mr_sha256_end(&m->inner, digest);
    mr_sha256_add(&m->outer, digest, sizeof digest);
    mr_sha256_end(&m->outer, out);
}

/* For a message in one piece. */
void mr_hmac_sha256(const void *key, size_t key_n, const void *p, size_t n, uint8_t out[MR_SHA256])
{
    hmac m;
    hmac_init(&m, key, key_n);
    mr_sha256_add(&m.inner, p, n);
    hmac_end(&m, out);
}

/* RFC 5869: extracts a key from the secret, then expands it block by block. Without a salt the key is 32 zeros. */
void mr_hkdf_sha256(const void *secret, size_t secret_n, const void *salt, size_t salt_n, const void *info, size_t info_n,
                    uint8_t *out, size_t n)
{
    static const uint8_t no_salt[MR_SHA256];
    uint8_t key[MR_SHA256], t[MR_SHA256];
    MR_ASSERT(n <= 255 * MR_SHA256);
    mr_hmac_sha256(salt_n ? salt : no_salt, salt_n ? salt_n : MR_SHA256, secret, secret_n, key);
    /* T(i) = HMAC(key, T(i - 1) | info | i) */
    for (uint8_t i = 1; n; i++) {
        hmac m;
        hmac_init(&m, key, sizeof key);
        if (i > 1)
            mr_sha256_add(&m.inner, t, sizeof t);
        mr_sha256_add(&m.inner, info, info_n);
        mr_sha256_add(&m.inner, &i, 1);
        hmac_end(&m, t);
        size_t part = n < sizeof t ? n : sizeof t;
        memcpy(out, t, part);
        out += part;
        n -= part;
    }
    mr_wipe(key, sizeof key);
    mr_wipe(t, sizeof t);
}

/* The empty assembly statement reads the memory as far as the compiler knows, so the memset is not removed. */
void mr_wipe(void *p, size_t n)
{
    memset(p, 0, n);
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* Looks at all bytes, so the time does not depend on where they differ. */
int mr_secret_equal(const void *a, const void *b, size_t n)
{
    const uint8_t *x = a, *y = b;
    unsigned differ = 0;
    for (size_t i = 0; i < n; i++)
        differ |= x[i] ^ y[i];
    return differ == 0;
}
