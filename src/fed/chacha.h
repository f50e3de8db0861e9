/* fed/chacha.h -- ChaCha20, Poly1305 and both together (RFC 8439): masks are its stream, shares travel sealed by it. */
#ifndef MR_FED_CHACHA_H
#define MR_FED_CHACHA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_CHACHA_KEY = 32, MR_CHACHA_NONCE = 12, MR_CHACHA_TAG = 16 };

/* out ^= stream from block `counter` on; at most 2^32 blocks of 64 bytes. */
void mr_chacha20(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], uint32_t counter, uint8_t *out,
                 size_t n);
/* sum[i] += (or -=) word i of the stream of a key that is used for this alone, as little-endian numbers modulo 2^32.
 * Further than 2^32 blocks the nonce counts on. */
void mr_chacha20_mask(const uint8_t key[MR_CHACHA_KEY], bool subtract, uint32_t *sum, size_t n);

void mr_poly1305(const uint8_t key[32], const void *p, size_t n, uint8_t tag[MR_CHACHA_TAG]);

/* In place, with a tag behind the n bytes.  A key and nonce serve once. */
void mr_seal(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], const void *extra, size_t extra_n,
             uint8_t *text, size_t n);
/* false: it was changed, or is of another key; the text is useless then. */
bool mr_unseal(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], const void *extra, size_t extra_n,
               uint8_t *text, size_t n);

#endif
