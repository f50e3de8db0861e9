/* fed/shamir.c -- polynomials over GF(2^16), modulo x^16 + x^12 + x^3 + x + 1.
 *
 * Products are computed bit by bit, without a table or a branch, so time and cache reveal nothing about a secret. */
#include "fed/shamir.h"

#include <string.h>

#include "base/simd.h"
#include "base/status.h"

enum { WORDS = MR_SHAMIR_SECRET / 2 };

/* v[i] = v[i] * by for all n words (at most WORDS): shift and add, from the highest bit of `by`. 0x100b is the modulus
 * without x^16. The words are the inner loop, which the compiler makes vectors of. */
MR_INLINE void multiply_words(uint16_t *v, int n, uint16_t by)
{
    uint16_t out[WORDS] = {0};
    for (int bit = 15; bit >= 0; bit--) {
        uint16_t add = (uint16_t)(0 - (by >> bit & 1));
        for (int i = 0; i < n; i++) {
            uint16_t top = (uint16_t)(0 - (out[i] >> 15));
            out[i] = (uint16_t)(out[i] << 1) ^ (top & 0x100b) ^ (add & v[i]);
        }
    }
    memcpy(v, out, (size_t)n * sizeof *v);
}

static uint16_t gf_multiply(uint16_t a, uint16_t b)
{
    multiply_words(&a, 1, b);
    return a;
}

/* a^(2^16 - 2), which is 1 / a; 0 for 0. */
static uint16_t gf_invert(uint16_t a)
{
    uint16_t out = 1;
    for (int i = 0; i < 15; i++) {
        a = gf_multiply(a, a);
        out = gf_multiply(out, a);
    }
    return out;
}

/* Words are little-endian. */
static void read_words(const uint8_t *p, uint16_t out[WORDS])
{
    for (int i = 0; i < WORDS; i++)
        out[i] = (uint16_t)(p[2 * i] | p[2 * i + 1] << 8);
}

static void write_words(const uint16_t v[WORDS], uint8_t *p)
{
    for (int i = 0; i < WORDS; i++) {
        p[2 * i] = (uint8_t)v[i];
        p[2 * i + 1] = (uint8_t)(v[i] >> 8);
    }
}

static void add_words(uint16_t sum[WORDS], const uint16_t v[WORDS])
{
    for (int i = 0; i < WORDS; i++)
        sum[i] ^= v[i];
}

/* Horner, from the highest coefficient down to the secret itself. */
void mr_shamir_share(const uint8_t secret[MR_SHAMIR_SECRET], const uint8_t *random, int t, uint16_t x,
                     uint8_t out[MR_SHAMIR_SECRET])
{
    uint16_t sum[WORDS] = {0}, v[WORDS];
    MR_ASSERT(t >= 1 && x != 0);
    for (int k = t - 1; k >= 0; k--) {
        read_words(k ? random + (size_t)(k - 1) * MR_SHAMIR_SECRET : secret, v);
        multiply_words(sum, WORDS, x);
        add_words(sum, v);
    }
    write_words(sum, out);
    explicit_bzero(sum, sizeof sum);
    explicit_bzero(v, sizeof v);
}

/* Lagrange at 0: the product of x_j / (x_j - x_i) over the others. */
bool mr_shamir_weights(const uint16_t *x, int t, uint16_t *weights)
{
    for (int i = 0; i < t; i++) {
        uint16_t over = 1, under = 1;
        for (int j = 0; j < t; j++) {
            if (j == i)
                continue;
            over = gf_multiply(over, x[j]);
            under = gf_multiply(under, x[j] ^ x[i]);
        }
        if (!x[i] || !under)
            return false;
        weights[i] = gf_multiply(over, gf_invert(under));
    }
    return true;
}

/* A linear combination of the shares; any other set of t shares gives the same secret. */
void mr_shamir_join(const uint16_t *weights, const uint8_t *const *shares, int t, uint8_t out[MR_SHAMIR_SECRET])
{
    uint16_t sum[WORDS] = {0}, v[WORDS];
    MR_ASSERT(t >= 1);
    for (int k = 0; k < t; k++) {
        read_words(shares[k], v);
        multiply_words(v, WORDS, weights[k]);
        add_words(sum, v);
    }
    write_words(sum, out);
    explicit_bzero(sum, sizeof sum);
    explicit_bzero(v, sizeof v);
}
