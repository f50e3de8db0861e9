/* fed/crypto.h -- the interface between libmillrace-crypto.so and the rest of the library: the cryptography of secure
 * sums.
 *
 * Only that library uses OpenSSL's libcrypto. It is opened at the first use (crypto_library.c), asked for one symbol,
 * and returns a table of functions on plain memory. Both sides are from the same build; each has its own copy of the
 * few files of base/ that it needs.
 *
 * Every function may be called from any thread. One that fails returns RESOURCE_EXHAUSTED (memory), INVALID_ARGUMENT
 * where that is said below, or INTERNAL, and has written nothing that depends on a secret. Keys and intermediate
 * values of its own are wiped. */
#ifndef MR_FED_CRYPTO_H
#define MR_FED_CRYPTO_H

#include <stdint.h>

#include "base/str.h"

#define MR_CRYPTO_ABI 1

enum { MR_SHA256 = 32, MR_X25519 = 32, MR_CHACHA_KEY = 32, MR_CHACHA_NONCE = 12, MR_CHACHA_TAG = 16 };

typedef struct mr_crypto_key mr_crypto_key; /* a secret key for X25519; to be used by one thread at a time */

typedef struct mr_crypto {
    int abi;
    /* To be called before the other functions, by one thread at a time (mr_crypto_open does). */
    mr_status *(*start)(void);

    mr_status *(*sha256)(mr_sv bytes, uint8_t out[MR_SHA256]);
    /* HKDF (RFC 5869) with SHA-256: derives n bytes, at most 255 * 32, for one purpose (info) from a secret. */
    mr_status *(*hkdf)(mr_sv secret, mr_sv salt, mr_sv info, uint8_t *out, size_t n);

    /* X25519 (RFC 7748). Any 32 random bytes are a secret key; `public` is computed from them. */
    mr_status *(*key_new)(const uint8_t secret[MR_X25519], uint8_t public[MR_X25519], mr_crypto_key **out);
    void (*key_free)(mr_crypto_key *k); /* wipes; NULL is fine */
    /* The secret that is common to both keys. INVALID_ARGUMENT if the other's is of small order: the result would be
     * the same for every key. */
    mr_status *(*agree)(mr_crypto_key *k, const uint8_t other[MR_X25519], uint8_t out[MR_X25519]);

    /* ChaCha20 (RFC 8439): bytes ^= stream from block `counter` on. */
    mr_status *(*chacha20)(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], uint32_t counter,
                           uint8_t *bytes, size_t n);
    /* sum[i] += (or -=) word i of the stream with nonce 0 from block 0 on, as little-endian numbers modulo 2^32. The
     * key must be used for this mask alone. After 2^32 blocks the nonce counts on. On failure part of the sum is
     * changed. */
    mr_status *(*mask)(const uint8_t key[MR_CHACHA_KEY], bool subtract, uint32_t *sum, size_t n);

    /* ChaCha20-Poly1305 (RFC 8439, 2.8). Encrypts n bytes in place and writes the tag after them. A pair of key and
     * nonce must be used only once. */
    mr_status *(*seal)(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], mr_sv extra,
                       uint8_t *text, size_t n);
    /* Decrypts n bytes, which the tag follows. INVALID_ARGUMENT if they were changed or sealed with another key. On
     * failure text is zeros. */
    mr_status *(*unseal)(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], mr_sv extra,
                         const uint8_t *sealed, size_t n, uint8_t *text);
} mr_crypto;

/* The table; UNIMPLEMENTED, with what is missing, if the library cannot be loaded. */
mr_status *mr_crypto_open(const mr_crypto **out);

/* The only symbol; it gives NULL if the caller is from another build. */
#define MR_CRYPTO_SYMBOL "mr_crypto_get"
typedef const mr_crypto *(*mr_crypto_fn)(int abi);

#endif
