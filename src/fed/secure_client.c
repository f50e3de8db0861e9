/* fed/secure_client.c -- a client of a secure sum.
 *
 * `next` is the only stage that is accepted: it advances when a stage succeeds and becomes OVER when
 * one is refused, so two different questions about the same sum are never answered. Everything
 * dangerous is refused before a secret is used: lists that are not in rising order, thresholds of half
 * or less, groups of less than three, sums without this client. */
#include "fed/secure_internal.h"
#include "fed/shamir.h"

enum { KEYS, SHARES, MASK, UNMASK, OVER };

struct mr_secure_client {
    const mr_crypto *crypto;
    int next;
    uint8_t seed[32];             /* all secrets below are derived from it */
    uint8_t masking[32], own[32]; /* the secret key for masks, and the seed of its own mask */
    mr_crypto_key *seal_key, *mask_key;
    uint8_t keys[MR_SECURE_KEYS];
    uint8_t list[MR_SHA256]; /* of the SHARES message */
    int n, t, self;          /* clients of U1, the threshold, its place among them */
    mr_secure_peer *peers;   /* U1 */
    uint32_t *ids;           /* U1 */
    uint8_t *unseal_keys;    /* n * 32: for what each client seals for this one; until TRAIN */
    uint8_t *shares;         /* n * 64: of each client's masking key and seed, for this one */
    bool *in_sum;            /* U2 */
};

/* All secrets come from the seed, each under its own label, so they are independent. */
static mr_status *derive_key(mr_secure_client *c, const char *label, uint8_t out[32])
{
    return c->crypto->hkdf(mr_secure_bytes(c->seed, sizeof c->seed), (mr_sv){0}, mr_sv_of(label), out, 32);
}

/* The secret key for sealing is needed as a key only; that for masks also as bytes, which are shared among the others,
 * so it is kept. */
static mr_status *make_secrets(mr_secure_client *c)
{
    uint8_t sealing[32];
    mr_status *st = NULL;
    MR_GO(derive_key(c, "millrace sealing", sealing));
    MR_GO(derive_key(c, "millrace masking", c->masking));
    MR_GO(derive_key(c, "millrace own mask", c->own));
    MR_GO(c->crypto->key_new(sealing, c->keys + MR_KEYS_SEALING, &c->seal_key));
    MR_GO(c->crypto->key_new(c->masking, c->keys + MR_KEYS_MASKING, &c->mask_key));
    MR_GO(c->crypto->sha256(mr_secure_bytes(c->own, sizeof c->own), c->keys + MR_KEYS_COMMITMENT));
out:
    explicit_bzero(sealing, sizeof sealing);
    return st;
}

/* The seed is copied; the caller wipes its own. */
mr_status *mr_secure_client_new(const mr_crypto *crypto, const uint8_t seed[MR_SECURE_SEED], mr_secure_client **out)
{
    mr_secure_client *c = mr_new(mr_secure_client);
    c->crypto = crypto;
    memcpy(c->seed, seed, MR_SECURE_SEED);
    mr_status *st = make_secrets(c);
    if (st)
        mr_secure_client_free(c);
    else
        *out = c;
    return st;
}

/* The keys are needed for TRAIN alone. */
static void drop_unseal_keys(mr_secure_client *c)
{
    if (c->unseal_keys)
        explicit_bzero(c->unseal_keys, (size_t)c->n * 32);
    mr_free(c->unseal_keys);
    c->unseal_keys = NULL;
}

/* Wipes all secrets before the memory is freed. */
void mr_secure_client_free(mr_secure_client *c)
{
    if (!c)
        return;
    drop_unseal_keys(c);
    if (c->shares)
        explicit_bzero(c->shares, (size_t)c->n * 64);
    c->crypto->key_free(c->seal_key);
    c->crypto->key_free(c->mask_key);
    mr_free(c->peers);
    mr_free(c->ids);
    mr_free(c->shares);
    mr_free(c->in_sum);
    explicit_bzero(c, sizeof *c);
    mr_free(c);
}

/* Begins a stage; whatever its outcome, it cannot begin again. */
static mr_status *begin_stage(mr_secure_client *c, int stage)
{
    bool due = c->next == stage;
    c->next = OVER;
    return due ? NULL : mr_error(MR_FAILED_PRECONDITION, "secure sum: stage %d was requested out of order", stage);
}

/* Only a stage that succeeded makes the next one possible; after a failure `next` stays OVER. */
static mr_status *finish_stage(mr_secure_client *c, int stage, mr_status *st)
{
    MR_ASSERT(c->next == OVER);
    if (!st)
        c->next = stage + 1;
    return st;
}

/* The public values only; nothing secret leaves the client in this stage. */
mr_status *mr_secure_client_keys(mr_secure_client *c, mr_str *out)
{
    MR_TRY(begin_stage(c, KEYS));
    mr_str_append(out, c->keys, sizeof c->keys);
    return finish_stage(c, KEYS, NULL);
}

/* ---- SHARES ---- */

/* Checks that a message is a head with a count and that many records, and nothing more. */
static mr_status *check_list(mr_sv ask, size_t head, size_t each, int *n)
{
    uint32_t count = ask.n >= head ? mr_get32(ask.p) : 0;
    if (ask.n < head || count > MR_SECURE_MOST || ask.n - head != count * each)
        return mr_invalid("secure sum: a list of %u clients does not fit %zu bytes", count, ask.n);
    *n = (int)count;
    return NULL;
}

/* Reads and checks the SHARES message. Its hash goes into every key, so clients that get different
 * lists have masks that do not cancel. */
static mr_status *read_peers(mr_secure_client *c, mr_sv ask)
{
    enum { HEAD = 8, EACH = 4 + MR_SECURE_KEYS };
    MR_TRY(check_list(ask, HEAD, EACH, &c->n));
    uint32_t t = mr_get32(ask.p + 4);
    if (c->n < MR_SECURE_LEAST || t > (uint32_t)c->n || 2 * t <= (uint32_t)c->n)
        return mr_invalid("secure sum: a threshold of %u for %d clients is not allowed", t, c->n);
    c->t = (int)t;
    c->peers = mr_try_calloc((size_t)c->n, sizeof *c->peers);
    c->ids = mr_try_calloc((size_t)c->n, sizeof *c->ids);
    c->unseal_keys = mr_try_calloc((size_t)c->n, 32);
    c->shares = mr_try_calloc((size_t)c->n, 64);
    c->in_sum = mr_try_calloc((size_t)c->n, sizeof *c->in_sum);
    if (!c->peers || !c->ids || !c->unseal_keys || !c->shares || !c->in_sum)
        return mr_error(MR_RESOURCE_EXHAUSTED, "secure sum: out of memory for %d clients", c->n);
    /* This client finds itself by its keys, not by its number, which the server could choose. */
    c->self = -1;
    for (int i = 0; i < c->n; i++) {
        const char *p = ask.p + HEAD + (size_t)i * EACH;
        c->ids[i] = c->peers[i].id = mr_get32(p);
        memcpy(c->peers[i].keys, p + 4, MR_SECURE_KEYS);
        if (i && c->ids[i] <= c->ids[i - 1])
            return mr_invalid("secure sum: the clients are not in rising order");
        if (memcmp(c->peers[i].keys, c->keys, MR_SECURE_KEYS) == 0)
            c->self = c->self < 0 ? i : c->n;
    }
    if (c->self < 0 || c->self == c->n)
        return mr_invalid("secure sum: this client is missing from the list, or in it twice");
    MR_ASSERT(c->self >= 0 && c->self < c->n && c->t > c->n / 2);
    return c->crypto->sha256(ask, c->list);
}

/* The coefficients of the polynomials of both secrets, derived from the seed alone, so they are always
 * the same. */
static mr_status *derive_coefficients(mr_secure_client *c, uint8_t **out)
{
    static const uint8_t nonce[MR_CHACHA_NONCE];
    uint8_t key[32];
    size_t n = (size_t)(c->t - 1) * MR_SHAMIR_SECRET * 2;
    if (!(*out = mr_try_calloc(n, 1)))
        return mr_error(MR_RESOURCE_EXHAUSTED, "secure sum: out of memory for %d shares", c->t);
    mr_status *st = derive_key(c, "millrace shares", key);
    if (!st)
        st = c->crypto->chacha20(key, nonce, 0, *out, n);
    explicit_bzero(key, sizeof key);
    return st;
}

/* Derives the keys that seal the shares between this client and another, one per direction, from one agreement: the key
 * for what the other sends is kept. INVALID_ARGUMENT if the public key of the other is invalid. */
static mr_status *agree_with(mr_secure_client *c, int with, uint8_t seal[32])
{
    static const char label[] = "millrace share";
    uint8_t shared[32];
    mr_status *st = NULL;
    MR_ASSERT(with != c->self);
    uint32_t self = c->ids[c->self], peer = c->ids[with];
    MR_GO(c->crypto->agree(c->seal_key, c->peers[with].keys + MR_KEYS_SEALING, shared));
    MR_GO(mr_secure_pair_key(c->crypto, shared, c->list, label, peer, self, c->unseal_keys + (size_t)with * 32));
    MR_GO(mr_secure_pair_key(c->crypto, shared, c->list, label, self, peer, seal));
out:
    explicit_bzero(shared, sizeof shared);
    return st;
}

/* Says whose public key an agreement found invalid. */
static mr_status *about_peer(mr_status *st, uint32_t id)
{
    if (mr_status_code(st) != MR_INVALID_ARGUMENT)
        return st;
    mr_status_free(st);
    return mr_invalid("secure sum: the public key of client %u is invalid", id);
}

/* Computes the shares of both secrets for client i and appends them, sealed. The client's own shares are kept
 * instead. Each key is used for one message, so the nonce may be constant. */
static mr_status *seal_for(mr_secure_client *c, const uint8_t *random, int i, mr_str *out)
{
    static const uint8_t nonce[MR_CHACHA_NONCE]; /* each key is used once */
    uint8_t text[MR_SECURE_SEALED], key[32];
    mr_status *st = NULL;
    size_t half = (size_t)(c->t - 1) * MR_SHAMIR_SECRET;
    MR_ASSERT(c->t >= 1 && i >= 0 && i < c->n);
    mr_shamir_share(c->masking, random, c->t, (uint16_t)(i + 1), text);
    mr_shamir_share(c->own, random + half, c->t, (uint16_t)(i + 1), text + 32);
    if (i == c->self) {
        memcpy(c->shares + (size_t)i * 64, text, 64);
        goto out;
    }
    MR_GO(about_peer(agree_with(c, i, key), c->ids[i]));
    MR_GO(c->crypto->seal(key, nonce, (mr_sv){0}, text, 64));
    mr_str_append(out, text, sizeof text);
out:
    explicit_bzero(text, 64);
    explicit_bzero(key, sizeof key);
    return st;
}

/* The random coefficients are wiped: with them, one share would reveal the secrets. */
mr_status *mr_secure_client_shares(mr_secure_client *c, mr_sv ask, mr_str *out)
{
    uint8_t *random = NULL;
    MR_TRY(begin_stage(c, SHARES));
    mr_status *st = read_peers(c, ask);
    if (!st)
        st = derive_coefficients(c, &random);
    for (int i = 0; !st && i < c->n; i++)
        st = seal_for(c, random, i, out);
    if (random)
        explicit_bzero(random, (size_t)(c->t - 1) * MR_SHAMIR_SECRET * 2);
    mr_free(random);
    return finish_stage(c, SHARES, st);
}

/* ---- TRAIN ---- */

/* Opens what client i has sealed for this one. */
static mr_status *open_from(mr_secure_client *c, int i, const uint8_t *sealed)
{
    static const uint8_t nonce[MR_CHACHA_NONCE];
    const uint8_t *key = c->unseal_keys + (size_t)i * 32;
    mr_status *st = c->crypto->unseal(key, nonce, (mr_sv){0}, sealed, 64, c->shares + (size_t)i * 64);
    if (mr_status_code(st) != MR_INVALID_ARGUMENT)
        return st;
    mr_status_free(st);
    return mr_invalid("secure sum: what client %u sent cannot be opened", c->ids[i]);
}

/* Opens the shares that the others have dealt to this client, and fills in in_sum (U2). The clients must be in
 * ascending order, known and not this one; fewer than the threshold are refused. */
static mr_status *open_shares(mr_secure_client *c, mr_sv ask)
{
    enum { HEAD = 4, EACH = 4 + MR_SECURE_SEALED };
    int m, last = -1;
    MR_TRY(check_list(ask, HEAD, EACH, &m));
    /* Fewer clients than the threshold could not unmask the sum later. */
    if (m + 1 < c->t)
        return mr_invalid("secure sum: %d clients are fewer than the threshold of %d", m + 1, c->t);
    for (int k = 0; k < m; k++) {
        const char *p = ask.p + HEAD + (size_t)k * EACH;
        int i = mr_secure_find(c->ids, c->n, mr_get32(p));
        if (i <= last || i == c->self)
            return mr_invalid("secure sum: the list of shares contains client %u, which is unknown or out of order",
                              mr_get32(p));
        MR_TRY(open_from(c, i, (const uint8_t *)p + 4));
        c->in_sum[i] = true;
        last = i;
    }
    c->in_sum[c->self] = true;
    return NULL;
}

/* Adds the pair masks of all clients of U2 and the own mask. */
static mr_status *add_masks(mr_secure_client *c, uint32_t *values, size_t n)
{
    mr_secure_masking m = {c->crypto, c->list, c->ids[c->self], false, values, n};
    MR_ASSERT(c->in_sum[c->self]);
    for (int i = 0; i < c->n; i++) {
        uint32_t id = c->ids[i];
        if (c->in_sum[i] && i != c->self)
            MR_TRY(about_peer(mr_secure_add_pair_mask(&m, c->mask_key, id, c->peers[i].keys + MR_KEYS_MASKING), id));
    }
    return mr_secure_add_own_mask(&m, c->own);
}

/* On failure the values may be masked in part and must not be sent. */
mr_status *mr_secure_client_mask(mr_secure_client *c, mr_sv ask, uint32_t *values, size_t n)
{
    MR_TRY(begin_stage(c, MASK));
    mr_status *st = open_shares(c, ask);
    drop_unseal_keys(c);
    if (!st)
        st = add_masks(c, values, n);
    return finish_stage(c, MASK, st);
}

/* ---- UNMASK ---- */

/* Reads U3 into alive. All its clients must be in U2, in ascending order, at least the threshold, and this client
 * must be among them: otherwise the server could learn a sum that this client is not part of. */
static mr_status *read_survivors(mr_secure_client *c, mr_sv ask, bool *alive)
{
    int m, last = -1;
    MR_TRY(check_list(ask, 4, 4, &m));
    if (m < c->t)
        return mr_invalid("secure sum: %d updates are fewer than the threshold of %d", m, c->t);
    for (int k = 0; k < m; k++) {
        int i = mr_secure_find(c->ids, c->n, mr_get32(ask.p + 4 + 4 * (size_t)k));
        if (i <= last || !c->in_sum[i])
            return mr_invalid("secure sum: the list of updates contains a client that is not in the sum");
        alive[i] = true;
        last = i;
    }
    return alive[c->self] ? NULL : mr_invalid("secure sum: the update of this client is missing");
}

/* For a client whose update is in the sum it gives the share of its seed, for a lost one the share of
 * its key, never both. */
mr_status *mr_secure_client_unmask(mr_secure_client *c, mr_sv ask, mr_str *out)
{
    MR_TRY(begin_stage(c, UNMASK));
    bool *alive = mr_try_calloc((size_t)c->n, sizeof *alive);
    mr_status *st =
        alive ? read_survivors(c, ask, alive) : mr_error(MR_RESOURCE_EXHAUSTED, "secure sum: out of memory");
    for (int i = 0; !st && i < c->n; i++)
        if (c->in_sum[i])
            mr_str_append(out, c->shares + (size_t)i * 64 + (alive[i] ? 32 : 0), MR_SECURE_SHARE);
    mr_free(alive);
    return finish_stage(c, UNMASK, st);
}
