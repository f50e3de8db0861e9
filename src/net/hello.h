/* net/hello.h -- the handshake by which two processes verify that they belong to one cluster.
 *
 * Each side proves that it knows the cluster's token without sending it: it answers the other's
 * random number with a keyed hash of both numbers.
 *
 *     client -> server   "MRLOCAL1"  nonce[16]                24 bytes, "MRDIREC1" over TCP
 *     server -> client   "MRLOCAL1"  nonce[16]  proof[16]     40 bytes
 *     client -> server   proof[16]                            16 bytes, then frames (net/frame.h)
 *
 * The server proves itself first, so a client with another token notices that and can report it. */
#ifndef MR_NET_HELLO_H
#define MR_NET_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum {
    MR_HELLO_TOKEN = 32,
    MR_HELLO_MAGIC = 8,
    MR_HELLO_NONCE = 16,
    MR_HELLO_PROOF = 16,
    MR_HELLO_CLIENT = MR_HELLO_MAGIC + MR_HELLO_NONCE,
    MR_HELLO_SERVER = MR_HELLO_MAGIC + MR_HELLO_NONCE + MR_HELLO_PROOF,
};

typedef struct mr_hello {
    bool direct; /* over TCP; set before the first message */
    uint8_t token[MR_HELLO_TOKEN];
    uint8_t client[MR_HELLO_NONCE], server[MR_HELLO_NONCE];
} mr_hello;

/* The three messages, in their order. */
mr_status *mr_hello_begin(mr_hello *h, const uint8_t token[MR_HELLO_TOKEN], uint8_t out[MR_HELLO_CLIENT]);
mr_status *mr_hello_answer(mr_hello *h, const uint8_t token[MR_HELLO_TOKEN],
                           const uint8_t in[MR_HELLO_CLIENT], uint8_t out[MR_HELLO_SERVER]);
mr_status *mr_hello_finish(mr_hello *h, const uint8_t in[MR_HELLO_SERVER],
                           uint8_t out[MR_HELLO_PROOF]);
mr_status *mr_hello_check(const mr_hello *h, const uint8_t in[MR_HELLO_PROOF]);

#endif
