/* fed/secure_internal.h -- what both sides of a secure sum must compute in the same way: lists of clients, and the
 * keys of pairs. */
#ifndef MR_FED_SECURE_INTERNAL_H
#define MR_FED_SECURE_INTERNAL_H

#include "base/memory.h"
#include "fed/secure.h"

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

static inline mr_sv mr_secure_bytes(const void *p, size_t n) { return (mr_sv){p, n}; }

/* The position of a client in an ascending list of ids, or -1. */
int mr_secure_find(const uint32_t *ids, int n, uint32_t id);

/* Derives a key for one purpose (label) between two clients, in this direction. */
mr_status *mr_secure_pair_key(const mr_crypto *crypto, const uint8_t shared[32], const uint8_t list[MR_SHA256],
                              const char *label, uint32_t from, uint32_t to, uint8_t out[32]);

/* A vector to which the masks of one client are added. */
typedef struct mr_secure_masking {
    const mr_crypto *crypto;
    const uint8_t *list; /* the hash of the list, MR_SHA256 bytes */
    uint32_t self;       /* the client's number */
    bool cancel;         /* remove masks that were added before */
    uint32_t *values;
    size_t n;
} mr_secure_masking;

/* Adds the mask of a pair: the client with the lower number adds it, the other one subtracts it. key: the client's
 * for masking; public: the peer's. INVALID_ARGUMENT if the peer's is invalid. */
mr_status *mr_secure_add_pair_mask(const mr_secure_masking *m, mr_crypto_key *key, uint32_t peer,
                                   const uint8_t public[MR_X25519]);
/* Adds the client's own mask, which is derived from its seed. */
mr_status *mr_secure_add_own_mask(const mr_secure_masking *m, const uint8_t seed[32]);

#endif
