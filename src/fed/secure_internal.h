/* fed/secure_internal.h -- what both sides of a secure sum must compute in the same way: lists of clients, and the keys
 * of pairs. */
#ifndef MR_FED_SECURE_INTERNAL_H
#define MR_FED_SECURE_INTERNAL_H

#include "base/memory.h"
#include "fed/secure.h"
#include "fed/sha256.h"

/* The public values of a client: offsets in its MR_SECURE_KEYS bytes. */
enum { MR_KEYS_SEALING = 0, MR_KEYS_MASKING = 32, MR_KEYS_COMMITMENT = 64 };

typedef struct mr_secure_peer {
    uint32_t id;
    uint8_t keys[MR_SECURE_KEYS];
} mr_secure_peer;

static inline uint32_t mr_get32(const void *at)
{
    const uint8_t *p = at;
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void mr_put32(mr_str *s, uint32_t v)
{
    uint8_t b[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    mr_str_append(s, b, 4);
}

/* The position of a client in an ascending list of ids, or -1. */
int mr_secure_find(const uint32_t *ids, int n, uint32_t id);

/* Derives a key for one purpose (label) between two clients, in this direction. */
void mr_secure_pair_key(const uint8_t shared[32], const uint8_t list[MR_SHA256], const char *label, uint32_t from, uint32_t to,
                        uint8_t out[32]);
/* Adds the mask of a pair: the client with the lower id adds it, the other subtracts it; cancel reverses that. false:
 * the public key is invalid. */
bool mr_secure_add_pair_mask(const uint8_t secret[32], const uint8_t other[32], const uint8_t list[MR_SHA256], uint32_t self,
                             uint32_t peer, bool cancel, uint32_t *values, size_t n);
/* Adds a client's own mask, which is derived from its seed; cancel subtracts it. */
void mr_secure_add_own_mask(const uint8_t seed[32], const uint8_t list[MR_SHA256], uint32_t self, bool cancel, uint32_t *values,
                            size_t n);

#endif
