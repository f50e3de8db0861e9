/* fed/crypto/evp.c -- the cryptography of secure sums, by OpenSSL's EVP interface.
 *
 * Algorithms are fetched once, in a library context of our own: a host that configures OpenSSL's default context, by
 * code or by openssl.cnf, does not change what a secure sum computes, and its exit handler does not free what
 * our threads still use. They are never freed.
 *
 * OpenSSL keeps errors in a queue per thread. Every function leaves it empty when it fails, so that others in this
 * process do not find ours. OpenSSL wipes the contexts and keys that it frees; what is on our stack is wiped here. */
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>

#include "base/memory.h"
#include "base/simd.h"
#include "fed/crypto.h"

enum {
    MASK_BLOCK = 4096, /* bytes */
    LONGEST = 1 << 30, /* bytes in a call of OpenSSL, which takes an int */
};

static OSSL_LIB_CTX *library;
static EVP_MD *sha256;
static EVP_KDF *hkdf;
static EVP_CIPHER *chacha20, *chacha20_poly1305;

/* ---- errors ---- */

/* Whether the newest error in OpenSSL's queue is that memory ran out. */
static bool is_out_of_memory(void) { return ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE; }

/* The newest error in OpenSSL's queue, which is emptied: older ones may be of another user of this thread. */
static mr_status *failure_of(const char *what)
{
    char text[256];
    mr_code code = is_out_of_memory() ? MR_RESOURCE_EXHAUSTED : MR_INTERNAL;
    ERR_error_string_n(ERR_peek_last_error(), text, sizeof text);
    ERR_clear_error();
    return mr_error(code, "%s by OpenSSL failed: %s", what, text);
}

/* ---- hashes ---- */

static mr_status *hash_bytes(mr_sv bytes, uint8_t out[MR_SHA256])
{
    return EVP_Digest(bytes.p, bytes.n, out, NULL, sha256, NULL) == 1 ? NULL : failure_of("SHA-256");
}

static OSSL_PARAM bytes_param(const char *name, mr_sv v)
{
    return OSSL_PARAM_construct_octet_string(name, (void *)(uintptr_t)v.p, v.n);
}

/* OpenSSL wants an empty salt or info to be left out; both mean the same in the RFC. */
static mr_status *derive_bytes(mr_sv secret, mr_sv salt, mr_sv info, uint8_t *out, size_t n)
{
    OSSL_PARAM params[5], *p = params;
    char digest[] = "SHA256";
    *p++ = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0);
    *p++ = bytes_param(OSSL_KDF_PARAM_KEY, secret);
    if (salt.n)
        *p++ = bytes_param(OSSL_KDF_PARAM_SALT, salt);
    if (info.n)
        *p++ = bytes_param(OSSL_KDF_PARAM_INFO, info);
    *p = OSSL_PARAM_construct_end();
    EVP_KDF_CTX *c = EVP_KDF_CTX_new(hkdf);
    mr_status *st = c && EVP_KDF_derive(c, out, n, params) == 1 ? NULL : failure_of("HKDF");
    EVP_KDF_CTX_free(c);
    return st;
}

/* ---- key agreement ---- */

/* The context is kept for all agreements of a key: a new key or context would take as long as an agreement. */
struct mr_crypto_key {
    EVP_PKEY *pair;
    EVP_PKEY_CTX *agreement;
};

static void free_key(mr_crypto_key *k)
{
    if (!k)
        return;
    EVP_PKEY_CTX_free(k->agreement);
    EVP_PKEY_free(k->pair);
    mr_free(k);
}

static mr_status *new_key(const uint8_t secret[MR_X25519], uint8_t public[MR_X25519], mr_crypto_key **out)
{
    size_t n = MR_X25519;
    mr_crypto_key *k = mr_new(mr_crypto_key);
    k->pair = EVP_PKEY_new_raw_private_key_ex(library, "X25519", NULL, secret, MR_X25519);
    k->agreement = k->pair ? EVP_PKEY_CTX_new_from_pkey(library, k->pair, NULL) : NULL;
    if (!k->agreement || EVP_PKEY_derive_init(k->agreement) != 1 ||
        EVP_PKEY_get_raw_public_key(k->pair, public, &n) != 1) {
        free_key(k);
        return failure_of("making a key for X25519");
    }
    *out = k;
    return NULL;
}

/* Any 32 bytes are a public key, so validation is left out. All that can be wrong with one is that it is of small
 * order, which EVP_PKEY_derive refuses. */
static mr_status *agree_on_secret(mr_crypto_key *k, const uint8_t other[MR_X25519], uint8_t out[MR_X25519])
{
    size_t n = MR_X25519;
    mr_status *st = NULL;
    EVP_PKEY *peer = EVP_PKEY_new_raw_public_key_ex(library, "X25519", NULL, other, MR_X25519);
    if (!peer || EVP_PKEY_derive_set_peer_ex(k->agreement, peer, 0) != 1) {
        st = failure_of("X25519");
    } else if (EVP_PKEY_derive(k->agreement, out, &n) != 1) {
        st = is_out_of_memory() ? failure_of("X25519") : mr_invalid("X25519: the other public key is of small order");
        ERR_clear_error();
    }
    EVP_PKEY_free(peer);
    return st;
}

/* ---- ciphers ---- */

/* OpenSSL's initial vector of ChaCha20 is the block counter and the nonce. */
static EVP_CIPHER_CTX *begin_stream(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE],
                                    uint32_t counter)
{
    uint8_t iv[4 + MR_CHACHA_NONCE] = {(uint8_t)counter, (uint8_t)(counter >> 8), (uint8_t)(counter >> 16),
                                       (uint8_t)(counter >> 24)};
    memcpy(iv + 4, nonce, MR_CHACHA_NONCE);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    if (c && EVP_EncryptInit_ex2(c, chacha20, key, iv, NULL) != 1) {
        EVP_CIPHER_CTX_free(c);
        c = NULL;
    }
    return c;
}

static mr_status *encrypt_stream(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE],
                                 uint32_t counter, uint8_t *bytes, size_t n)
{
    EVP_CIPHER_CTX *c = begin_stream(key, nonce, counter);
    bool ok = c != NULL;
    for (size_t at = 0, part; ok && at < n; at += part) {
        int written;
        part = MR_MIN(n - at, (size_t)LONGEST);
        ok = EVP_EncryptUpdate(c, bytes + at, &written, bytes + at, (int)part) == 1;
    }
    mr_status *st = ok ? NULL : failure_of("ChaCha20");
    EVP_CIPHER_CTX_free(c);
    return st;
}

/* In separate functions, so that the compiler makes one version per instruction set. */
MR_CLONES static void add_words(uint32_t *sum, const uint32_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += words[i];
}

MR_CLONES static void subtract_words(uint32_t *sum, const uint32_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] -= words[i];
}

/* The stream is what OpenSSL makes of zeros, in blocks that stay in the first-level cache together with the part of
 * the sum that they are added to. */
static mr_status *add_stream(const uint8_t key[MR_CHACHA_KEY], bool subtract, uint32_t *sum, size_t n)
{
    static const uint8_t nonce[MR_CHACHA_NONCE], zeros[MASK_BLOCK];
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words of the stream are used as they are in memory");
    enum { WORDS = MASK_BLOCK / 4 };
    uint32_t words[WORDS];
    EVP_CIPHER_CTX *c = begin_stream(key, nonce, 0);
    bool ok = c != NULL;
    for (size_t at = 0; ok && at < n; at += WORDS) {
        size_t part = MR_MIN(n - at, (size_t)WORDS);
        int written;
        ok = EVP_EncryptUpdate(c, (uint8_t *)words, &written, zeros, (int)part * 4) == 1;
        if (ok)
            (subtract ? subtract_words : add_words)(sum + at, words, part);
    }
    mr_status *st = ok ? NULL : failure_of("ChaCha20");
    EVP_CIPHER_CTX_free(c);
    explicit_bzero(words, MR_MIN(n, (size_t)WORDS) * 4);
    return st;
}

static mr_status *seal_text(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], mr_sv extra,
                            uint8_t *text, size_t n)
{
    int written;
    MR_ENSURE(n <= LONGEST && extra.n <= LONGEST);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    bool ok = c && EVP_EncryptInit_ex2(c, chacha20_poly1305, key, nonce, NULL) == 1 &&
              (!extra.n || EVP_EncryptUpdate(c, NULL, &written, (const uint8_t *)extra.p, (int)extra.n) == 1) &&
              EVP_EncryptUpdate(c, text, &written, text, (int)n) == 1 &&
              EVP_EncryptFinal_ex(c, text + n, &written) == 1 &&
              EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, MR_CHACHA_TAG, text + n) == 1;
    mr_status *st = ok ? NULL : failure_of("ChaCha20-Poly1305");
    EVP_CIPHER_CTX_free(c);
    return st;
}

/* EVP_DecryptUpdate decrypts before the tag is checked, so what it wrote is wiped when the tag is wrong. */
static mr_status *unseal_text(const uint8_t key[MR_CHACHA_KEY], const uint8_t nonce[MR_CHACHA_NONCE], mr_sv extra,
                              const uint8_t *sealed, size_t n, uint8_t *text)
{
    int written;
    mr_status *st = NULL;
    MR_ENSURE(n <= LONGEST && extra.n <= LONGEST);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    bool ok = c && EVP_DecryptInit_ex2(c, chacha20_poly1305, key, nonce, NULL) == 1 &&
              EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, MR_CHACHA_TAG, (void *)(uintptr_t)(sealed + n)) == 1 &&
              (!extra.n || EVP_DecryptUpdate(c, NULL, &written, (const uint8_t *)extra.p, (int)extra.n) == 1) &&
              EVP_DecryptUpdate(c, text, &written, sealed, (int)n) == 1;
    if (!ok)
        st = failure_of("ChaCha20-Poly1305");
    else if (EVP_DecryptFinal_ex(c, text + n, &written) != 1)
        st = mr_invalid("ChaCha20-Poly1305: the text was changed, or sealed with another key");
    if (st) {
        explicit_bzero(text, n);
        ERR_clear_error();
    }
    EVP_CIPHER_CTX_free(c);
    return st;
}

/* ---- the table ---- */

/* Whether the library context has the algorithm of new_key, which is fetched by each use. */
static bool has_x25519(void)
{
    EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_from_name(library, "X25519", NULL);
    EVP_PKEY_CTX_free(c);
    return c != NULL;
}

/* Not by two threads at a time; what was fetched before a failure is kept for the next try. */
static mr_status *fetch_algorithms(void)
{
    bool ok = (library || (library = OSSL_LIB_CTX_new())) &&
              (sha256 || (sha256 = EVP_MD_fetch(library, "SHA256", NULL))) &&
              (hkdf || (hkdf = EVP_KDF_fetch(library, "HKDF", NULL))) &&
              (chacha20 || (chacha20 = EVP_CIPHER_fetch(library, "ChaCha20", NULL))) &&
              (chacha20_poly1305 || (chacha20_poly1305 = EVP_CIPHER_fetch(library, "ChaCha20-Poly1305", NULL))) &&
              has_x25519();
    return ok ? NULL : failure_of("finding SHA-256, HKDF, ChaCha20 and X25519");
}

const mr_crypto *mr_crypto_get(int abi) __attribute__((visibility("default")));
const mr_crypto *mr_crypto_get(int abi)
{
    static const mr_crypto table = {MR_CRYPTO_ABI,   fetch_algorithms, hash_bytes, derive_bytes, new_key,    free_key,
                                    agree_on_secret, encrypt_stream,   add_stream, seal_text,    unseal_text};
    return abi == MR_CRYPTO_ABI ? &table : NULL;
}
