/* fed/secure.h -- a sum of vectors that shows nothing but the sum (Bonawitz et al. 2017).
 *
 * Each client adds to its vector, modulo 2^32, a mask of its own and one for every other client, which that one subtracts.  The
 * masks of pairs cancel in the sum; what is left of lost clients, and the masks of their own, are brought back from shares
 * that all dealt out to each other before.  The server passes messages on and learns the sum; what it sees of one client is
 * uniform noise.
 *
 *     stage    the server asks with                         the client answers                            those who did
 *     KEYS     nothing                                      two public keys, a hash of its seed  96 bytes      U1
 *     SHARES   n, t, n * {client, 96 bytes}                 (n-1) * 80 bytes, sealed shares for the others     U2
 *     TRAIN    m, m * {client, 80 bytes}, the others of U2  the masked vector, 4 bytes a number                U3
 *     UNMASK   m, m * {client}, U3                          |U2| * 32 bytes, one share each                    any t
 *
 * Numbers are of 32 bits, little-endian; clients are in rising order.  For a client in U3 the others tell their share of its
 * seed, for one that was lost that of its key, never both: with more than half as the threshold, no t clients can be found for
 * each.  A client answers every stage once.  All secrets are derived with a hash of the SHARES message: clients to whom the server
 * tells different lists have masks that do not cancel.
 *
 * What this does not give: the server is believed that the clients it names exist.  Against one that invents most of
 * them there must be keys that it cannot make (TLS with a CA of the clients' own is not that).
 *
 * Pure: no I/O, no clock; randomness comes in.  Nothing in a message is trusted. */
#ifndef MR_FED_SECURE_H
#define MR_FED_SECURE_H

#include "base/str.h"

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
mr_secure_client *mr_secure_client_new(const uint8_t seed[MR_SECURE_SEED]);
void mr_secure_client_free(mr_secure_client *c); /* wipes; NULL is fine */
/* In this order, each once: FAILED_PRECONDITION otherwise.  A message that is refused (INVALID_ARGUMENT) ends the sum for this
 * client. */
mr_status *mr_secure_client_keys(mr_secure_client *c, mr_str *out);
mr_status *mr_secure_client_shares(mr_secure_client *c, mr_sv ask, mr_str *out);
/* Masks the values in place. */
mr_status *mr_secure_client_mask(mr_secure_client *c, mr_sv ask, uint32_t *values, size_t n);
mr_status *mr_secure_client_unmask(mr_secure_client *c, mr_sv ask, mr_str *out);

/* ---- the server, for one sum ---- */

typedef struct mr_secure_server mr_secure_server;
mr_secure_server *mr_secure_server_new(size_t n_values);
void mr_secure_server_free(mr_secure_server *s); /* NULL is fine */

/* Whether an answer is well-formed; then take takes it over (a copy).  Stages are those of dist/federated.h, in their
 * order: asking for one closes the one before.  A client's answer is taken once a stage; doubled ones are refused. */
mr_status *mr_secure_server_check(const mr_secure_server *s, int stage, int64_t client, mr_sv answer);
mr_status *mr_secure_server_take(mr_secure_server *s, int stage, int64_t client, mr_sv answer);
/* t: the threshold, which clients want above half of those who gave keys. */
mr_status *mr_secure_server_ask_shares(mr_secure_server *s, int t);
mr_status *mr_secure_server_ask_train(mr_secure_server *s);
mr_status *mr_secure_server_ask_unmask(mr_secure_server *s);
/* What to send this client for the stage that was asked for last. */
mr_status *mr_secure_server_message(const mr_secure_server *s, int64_t client, mr_str *out);
/* Clients of the stage that was closed last: U1, U2, U3. */
int mr_secure_server_count(const mr_secure_server *s);
/* With at least t answers to UNMASK: the sum.  DATA_LOSS when shares bring back something else than what was committed
 * to: some client lied. */
mr_status *mr_secure_server_finish(mr_secure_server *s, uint32_t *sum);

#endif
