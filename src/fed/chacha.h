/* fed/chacha.h -- ChaCha20, Poly1305 and the AEAD made of both (RFC 8439). Its stream masks updates; the AEAD seals
 * shares on their way between clients. */
#ifndef MR_FED_CHACHA_H
#define MR_FED_CHACHA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_CHACHA_KEY = 32, MR_CHACHA_NONCE = 12, MR_CHACHA_TAG = 16 };

/* out ^= stream from block `counter` on; at most 2^32 blocks of 64 bytes. */
void mr_chacha20(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], uint32_t counter, uint8_t *out,
                 size_t n);
/* sum[i] += (or -=) word i of the stream, as little-endian numbers modulo 2^32. The key must be used for this mask
 * alone. After 2^32 blocks the nonce counts on. */
void mr_chacha20_mask(const uint8_t key[MR_CHACHA_KEY], bool subtract, uint32_t *sum, size_t n);

void mr_poly1305(const uint8_t key[32], const void *p, size_t n, uint8_t tag[MR_CHACHA_TAG]);

/* Encrypts in place and writes the tag after the n bytes. A pair of key and nonce must be used only once. */
void mr_seal(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], const void *extra, size_t extra_n,
             uint8_t *text, size_t n);
/* false if the text was changed or sealed with another key; the text is not decrypted then. */
bool mr_unseal(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], const void *extra, size_t extra_n,
               uint8_t *text, size_t n);

#endif
