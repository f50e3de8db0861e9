/* fed/secure.h -- a sum of vectors that reveals nothing but the sum (Bonawitz et al. 2017).
 *
 * Each client adds masks to its vector, modulo 2^32: its own mask, and one mask for every other client, which that
 * client subtracts. The masks of pairs cancel in the sum. The own masks, and the pair masks of lost clients, are
 * reconstructed from shares that the clients have dealt to each other before. The server forwards messages and learns
 * the sum; the vector it sees of one client is uniform noise.
 *
 *     stage    the server sends                             the client answers                                 clients
 *     KEYS     nothing                                      two public keys, a hash of its seed  96 bytes      U1
 *     SHARES   n, t, n * {client, 96 bytes}                 (n-1) * 80 bytes, sealed shares for the others     U2
 *     TRAIN    m, m * {client, 80 bytes}, the others of U2  the masked vector, 4 bytes a number                U3
 *     UNMASK   m, m * {client}, U3                          |U2| * 32 bytes, one share each                    any t
 *
 * Numbers have 32 bits, little-endian; clients are in ascending order. For a client in U3 the others reveal their share
 * of its seed, for a lost client the share of its key, never both: because the threshold is above one half, no two sets
 * of t clients can reveal both. A client answers every stage once. All secrets are derived with a hash of the SHARES
 * message, so if the server sends different lists to the clients, their masks do not cancel.
 *
 * Limits: clients trust the server that the clients it names exist. Protection from a server that invents most of them
 * would need keys that it cannot make (TLS with a CA of the clients is not enough).
 *
 * Pure: no I/O, no clock; randomness and cryptography (mr_crypto_open) are arguments. Nothing in a message is
 * trusted. */
#ifndef MR_FED_SECURE_H
#define MR_FED_SECURE_H

#include "base/str.h"
#include "fed/crypto.h"

enum {
    MR_SECURE_SEED = 32,
    MR_SECURE_KEYS = 96,
    MR_SECURE_SEALED = 80,
    MR_SECURE_SHARE = 32,
    MR_SECURE_LEAST = 3,     /* clients in a sum */
    MR_SECURE_MOST = 20000, /* likewise; what is kept of shares grows with its square */
};

/* ---- a client, for one sum ---- */

typedef struct mr_secure_client mr_secure_client;
/* The seed must be from the system's randomness, and used once. */
mr_status *mr_secure_client_new(const mr_crypto *crypto, const uint8_t seed[MR_SECURE_SEED], mr_secure_client **out);
void mr_secure_client_free(mr_secure_client *c); /* wipes; NULL is fine */
/* To be called in this order, each once; otherwise FAILED_PRECONDITION. A message that is refused (INVALID_ARGUMENT)
 * ends the sum for this client. */
mr_status *mr_secure_client_keys(mr_secure_client *c, mr_str *out);
mr_status *mr_secure_client_shares(mr_secure_client *c, mr_sv ask, mr_str *out);
/* Masks the values in place. */
mr_status *mr_secure_client_mask(mr_secure_client *c, mr_sv ask, uint32_t *values, size_t n);
mr_status *mr_secure_client_unmask(mr_secure_client *c, mr_sv ask, mr_str *out);

/* ---- the server, for one sum ---- */

typedef struct mr_secure_server mr_secure_server;
mr_secure_server *mr_secure_server_new(const mr_crypto *crypto, size_t n_values);
void mr_secure_server_free(mr_secure_server *s); /* NULL is fine */

/* check reports whether an answer is well-formed; take keeps a copy of it. Stages are those of dist/federated.h, in
 * their order: asking for one closes the one before. One answer per client and stage is accepted; repeated ones are
 * refused. */
mr_status *mr_secure_server_check(const mr_secure_server *s, int stage, int64_t client, mr_sv answer);
mr_status *mr_secure_server_take(mr_secure_server *s, int stage, int64_t client, mr_sv answer);
/* t: the threshold; clients refuse one of half the clients of U1 or less. */
mr_status *mr_secure_server_ask_shares(mr_secure_server *s, int t);
mr_status *mr_secure_server_ask_train(mr_secure_server *s);
mr_status *mr_secure_server_ask_unmask(mr_secure_server *s);
/* The message for this client in the present stage. */
mr_status *mr_secure_server_message(const mr_secure_server *s, int64_t client, mr_str *out);
/* Clients of the stage that was closed last: U1, U2, U3. */
int mr_secure_server_count(const mr_secure_server *s);
/* Computes the sum; needs at least t answers to UNMASK. DATA_LOSS if the shares do not reconstruct the committed
 * secrets: some client sent wrong shares. */
mr_status *mr_secure_server_finish(mr_secure_server *s, uint32_t *sum);

#endif
