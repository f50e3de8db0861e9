/* fed/x25519.h -- two who know each other's public keys have a secret in common (RFC 7748). */
#ifndef MR_FED_X25519_H
#define MR_FED_X25519_H

#include <stdbool.h>
#include <stdint.h>

enum { MR_X25519 = 32 };

/* Any 32 random bytes are a secret key. */
void mr_x25519_public(const uint8_t secret[MR_X25519], uint8_t out[MR_X25519]);
/* false for a public key that gives everybody the same (of small order): refuse it. */
bool mr_x25519(const uint8_t secret[MR_X25519], const uint8_t other[MR_X25519], uint8_t out[MR_X25519]);

#endif
