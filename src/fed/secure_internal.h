/* fed/secure_internal.h -- what both sides of a secure sum must do alike: lists of clients, and the keys of pairs. */
#ifndef MR_FED_SECURE_INTERNAL_H
#define MR_FED_SECURE_INTERNAL_H

#include "base/memory.h"
#include "fed/secure.h"
#include "fed/sha256.h"

/* What a client tells of itself: offsets in its MR_SECURE_KEYS bytes. */
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

/* The place of a client in a rising list of ids, or -1. */
int mr_secure_find(const uint32_t *ids, int n, uint32_t id);

/* A key for what `from` does with `to`; the label says what. */
void mr_secure_pair_key(const uint8_t shared[32], const uint8_t list[MR_SHA256], const char *label, uint32_t from, uint32_t to,
                        uint8_t out[32]);
/* The mask of a pair: the lower id adds it, the higher one subtracts it.  false: the key is none. */
bool mr_secure_add_pair_mask(const uint8_t secret[32], const uint8_t other[32], const uint8_t list[MR_SHA256], uint32_t self,
                             uint32_t peer, bool cancel, uint32_t *values, size_t n);
/* A client's own mask, of its seed. */
void mr_secure_add_own_mask(const uint8_t seed[32], const uint8_t list[MR_SHA256], uint32_t self, bool cancel, uint32_t *values,
                            size_t n);

#endif
