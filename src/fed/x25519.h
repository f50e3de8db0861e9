/* fed/x25519.h -- Diffie-Hellman key agreement on Curve25519 (RFC 7748): two parties that know each other's public keys
 * compute a common secret. */
#ifndef MR_FED_X25519_H
#define MR_FED_X25519_H

#include <stdbool.h>
#include <stdint.h>

enum { MR_X25519 = 32 };

/* The public key of a secret key; any 32 random bytes are a secret key. */
void mr_x25519_public(const uint8_t secret[MR_X25519], uint8_t out[MR_X25519]);
/* The common secret. false if the other public key is of small order, which gives a known result: refuse it. */
bool mr_x25519(const uint8_t secret[MR_X25519], const uint8_t other[MR_X25519], uint8_t out[MR_X25519]);

#endif
