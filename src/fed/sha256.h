/* fed/sha256.h -- SHA-256 (FIPS 180-4), HMAC (RFC 2104) and HKDF (RFC 5869).
 *
 * Only libmillrace-net.so links libcrypto, and simulated clients use no network. So the few functions that secure sums
 * need are here. No branch and no index depends on a secret byte. */
#ifndef MR_FED_SHA256_H
#define MR_FED_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { MR_SHA256 = 32 };

typedef struct mr_sha256 {
    uint32_t h[8];
    uint64_t n; /* bytes so far */
    uint8_t block[64];
} mr_sha256;

void mr_sha256_init(mr_sha256 *s);
void mr_sha256_add(mr_sha256 *s, const void *p, size_t n);
void mr_sha256_end(mr_sha256 *s, uint8_t out[MR_SHA256]);
void mr_sha256_of(const void *p, size_t n, uint8_t out[MR_SHA256]);

void mr_hmac_sha256(const void *key, size_t key_n, const void *p, size_t n, uint8_t out[MR_SHA256]);
/* Derives n bytes (at most 255 * 32) for one purpose (`info`) from a secret. */
void mr_hkdf_sha256(const void *secret, size_t secret_n, const void *salt, size_t salt_n, const void *info, size_t info_n,
                    uint8_t *out, size_t n);

/* Overwrites a secret; the compiler cannot remove it. */
void mr_wipe(void *p, size_t n);
/* Compares in constant time. */
int mr_secret_equal(const void *a, const void *b, size_t n);

#endif
