/* fed/shamir.c -- polynomials over GF(2^16), modulo x^16 + x^12 + x^3 + x + 1.
 *
 * Products are computed bit by bit, without a table or a branch, so time and cache reveal nothing about a secret. */
#include "fed/shamir.h"

#include <string.h>

#include "base/status.h"

enum { WORDS = MR_SHAMIR_SECRET / 2 };

/* Shift and add, from the highest bit of b. 0x100b is the modulus without x^16. */
static uint16_t gf_multiply(uint16_t a, uint16_t b)
{
    uint16_t out = 0;
    for (int i = 15; i >= 0; i--) {
        uint16_t top = (uint16_t)(0 - (out >> 15));
        out = (uint16_t)(out << 1) ^ (top & 0x100b);
        out ^= (uint16_t)(0 - (b >> i & 1)) & a;
    }
    return out;
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

static uint16_t word_at(const uint8_t *p, int i) { return (uint16_t)(p[2 * i] | p[2 * i + 1] << 8); }

static void put_word(uint8_t *p, int i, uint16_t v)
{
    p[2 * i] = (uint8_t)v;
    p[2 * i + 1] = (uint8_t)(v >> 8);
}

/* Horner, from the highest coefficient down to the secret itself. */
void mr_shamir_share(const uint8_t secret[MR_SHAMIR_SECRET], const uint8_t *random, int t, uint16_t x,
                     uint8_t out[MR_SHAMIR_SECRET])
{
    uint16_t sum[WORDS] = {0};
    MR_ASSERT(t >= 1 && x != 0);
    for (int k = t - 1; k >= 0; k--) {
        const uint8_t *coefficients = k ? random + (size_t)(k - 1) * MR_SHAMIR_SECRET : secret;
        for (int i = 0; i < WORDS; i++)
            sum[i] = gf_multiply(sum[i], x) ^ word_at(coefficients, i);
    }
    for (int i = 0; i < WORDS; i++)
        put_word(out, i, sum[i]);
    explicit_bzero(sum, sizeof sum);
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
    uint16_t sum[WORDS] = {0};
    MR_ASSERT(t >= 1);
    for (int k = 0; k < t; k++)
        for (int i = 0; i < WORDS; i++)
            sum[i] ^= gf_multiply(weights[k], word_at(shares[k], i));
    for (int i = 0; i < WORDS; i++)
        put_word(out, i, sum[i]);
    explicit_bzero(sum, sizeof sum);
}
