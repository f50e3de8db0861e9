/* fed/shamir.h -- secret sharing: any t shares reconstruct the secret, fewer reveal nothing (Shamir 1979).
 *
 * Over the field of 2^16 elements, because there may be more than 255 clients. A secret of 32 bytes is sixteen
 * polynomials; share x (1 .. 65535) is their values at x. */
#ifndef MR_FED_SHAMIR_H
#define MR_FED_SHAMIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_SHAMIR_SECRET = 32 };

/* random: (t - 1) * 32 bytes, the coefficients. */
void mr_shamir_share(const uint8_t secret[MR_SHAMIR_SECRET], const uint8_t *random, int t, uint16_t x,
                     uint8_t out[MR_SHAMIR_SECRET]);

/* The Lagrange weights for t shares at these x: the secret is the sum of the weighted shares. They are the same for all
 * secrets that the same clients share. false if an x is 0 or occurs twice. */
bool mr_shamir_weights(const uint16_t *x, int t, uint16_t *weights);
void mr_shamir_join(const uint16_t *weights, const uint8_t *const *shares, int t, uint8_t out[MR_SHAMIR_SECRET]);

#endif
