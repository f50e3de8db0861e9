/* base/siphash.c -- see siphash.h. */
#include "base/siphash.h"

#include <endian.h>
#include <string.h>

#include "base/memory.h"

static uint64_t rotate_left(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static void run_rounds(uint64_t v[4], int n)
{
    for (; n > 0; n--) {
        v[0] += v[1], v[2] += v[3];
        v[1] = rotate_left(v[1], 13) ^ v[0], v[3] = rotate_left(v[3], 16) ^ v[2];
        v[0] = rotate_left(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = rotate_left(v[1], 17) ^ v[2], v[3] = rotate_left(v[3], 21) ^ v[0];
        v[2] = rotate_left(v[2], 32);
    }
}

static inline uint64_t hash_bytes(const uint64_t key[2], const char *p, size_t n, int a_word, int at_end)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                     key[1] ^ 0x7465646279746573u};
    for (size_t at = 0; at <= n; at += 8) { /* the last word holds the length too */
        uint64_t word = 0;
        if (at < n)
            memcpy(&word, p + at, MR_MIN(n - at, (size_t)8));
        word = le64toh(word);
        if (n - at < 8)
            word |= (uint64_t)n << 56;
        v[3] ^= word;
        run_rounds(v, a_word);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    run_rounds(v, at_end);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t mr_siphash(const uint64_t key[2], const void *data, size_t n) { return hash_bytes(key, data, n, 2, 4); }
uint64_t mr_siphash_quick(const uint64_t key[2], const void *data, size_t n) { return hash_bytes(key, data, n, 1, 3); }
