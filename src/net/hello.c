/* net/hello.c -- the handshake of processes, on one host or over TCP.
 *
 * Each side sends a random nonce and proves that it knows the token with a keyed hash of both nonces.
 * The server proves first, so a client never proves anything to a process that does not know the
 * token. The token itself is not sent.
 *
 * The token has 32 bytes. SipHash takes a key of 16 bytes and returns 8, so a proof consists of two hashes
 * of the same text, one with each half of the token. */
#include "net/hello.h"

#include <endian.h>
#include <string.h>

#include "base/clock.h"
#include "base/siphash.h"

/* How the handshake begins; the frames that follow differ a little. */
static const char *magic_of(const mr_hello *h) { return h->direct ? "MRDIREC1" : "MRLOCAL1"; }

/* ---- the keyed hash ---- */

static uint64_t load_le64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return le64toh(v);
}

/* SipHash with a key of 16 bytes. */
static uint64_t keyed_hash(const uint8_t key[16], const void *data, size_t n)
{
    const uint64_t words[2] = {load_le64(key), load_le64(key + 8)};
    return mr_siphash(words, data, n);
}

/* ---- messages ---- */

/* Each half of the token keys one half of the proof. The side is part of what is hashed, so a proof
 * that is sent back to its maker does not count. */
static void make_proof(const mr_hello *h, char side, uint8_t out[MR_HELLO_PROOF])
{
    uint8_t text[1 + 2 * MR_HELLO_NONCE];
    text[0] = (uint8_t)side;
    memcpy(text + 1, h->client, MR_HELLO_NONCE);
    memcpy(text + 1 + MR_HELLO_NONCE, h->server, MR_HELLO_NONCE);
    for (int i = 0; i < 2; i++) {
        uint64_t half = htole64(keyed_hash(h->token + 16 * i, text, sizeof(text)));
        memcpy(out + 8 * i, &half, 8);
    }
}

/* Compares in constant time. */
static bool bytes_equal(const uint8_t *a, const uint8_t *b, size_t n)
{
    uint8_t differ = 0;
    for (size_t i = 0; i < n; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}

/* A peer that speaks another protocol, or another version of this one, is told apart from one with a wrong token. */
static mr_status *check_magic(const mr_hello *h, const uint8_t *in)
{
    const char *magic = magic_of(h);
    if (memcmp(in, magic, MR_HELLO_MAGIC) != 0)
        return mr_error(MR_UNAUTHENTICATED,
                        "the peer speaks another protocol: its handshake does not begin with %s", magic);
    return NULL;
}

/* The proof that this side would make itself for the other side; both must be equal. */
static mr_status *check_proof(const mr_hello *h, char side, const uint8_t *in)
{
    uint8_t want[MR_HELLO_PROOF];
    make_proof(h, side, want);
    if (!bytes_equal(in, want, sizeof(want)))
        return mr_error(MR_UNAUTHENTICATED,
                        "the peer does not have this cluster's token: it belongs to another cluster");
    return NULL;
}

/* The client's first message: the magic and its nonce. */
mr_status *mr_hello_begin(mr_hello *h, const uint8_t token[MR_HELLO_TOKEN], uint8_t out[MR_HELLO_CLIENT])
{
    memcpy(h->token, token, MR_HELLO_TOKEN);
    MR_TRY(mr_random_secret(h->client, MR_HELLO_NONCE));
    memcpy(out, magic_of(h), MR_HELLO_MAGIC);
    memcpy(out + MR_HELLO_MAGIC, h->client, MR_HELLO_NONCE);
    return NULL;
}

/* The server's answer, with its own nonce and its proof.  Anybody may get one, but it is only valid for the nonce that
 * was sent. */
mr_status *mr_hello_answer(mr_hello *h, const uint8_t token[MR_HELLO_TOKEN],
                           const uint8_t in[MR_HELLO_CLIENT], uint8_t out[MR_HELLO_SERVER])
{
    MR_TRY(check_magic(h, in));
    memcpy(h->token, token, MR_HELLO_TOKEN);
    memcpy(h->client, in + MR_HELLO_MAGIC, MR_HELLO_NONCE);
    MR_TRY(mr_random_secret(h->server, MR_HELLO_NONCE));
    memcpy(out, magic_of(h), MR_HELLO_MAGIC);
    memcpy(out + MR_HELLO_MAGIC, h->server, MR_HELLO_NONCE);
    make_proof(h, 's', out + MR_HELLO_MAGIC + MR_HELLO_NONCE);
    return NULL;
}

/* The client checks the server's proof before it makes its own. */
mr_status *mr_hello_finish(mr_hello *h, const uint8_t in[MR_HELLO_SERVER],
                           uint8_t out[MR_HELLO_PROOF])
{
    MR_TRY(check_magic(h, in));
    memcpy(h->server, in + MR_HELLO_MAGIC, MR_HELLO_NONCE);
    MR_TRY(check_proof(h, 's', in + MR_HELLO_MAGIC + MR_HELLO_NONCE));
    make_proof(h, 'c', out);
    return NULL;
}

/* The server checks the client's proof; then the connection is open. */
mr_status *mr_hello_check(const mr_hello *h, const uint8_t in[MR_HELLO_PROOF])
{
    return check_proof(h, 'c', in);
}
