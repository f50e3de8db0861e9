/* fed/secure_server.c -- the server of a secure sum: collects messages, passes them on, and adds.
 *
 * Members are the clients that gave keys (U1), in ascending order once that stage is closed. `reached` is
 * the last stage that a member has answered, so U2 and U3 are the members that reached SHARES and TRAIN.
 * Masked vectors are added as they arrive; single ones are not kept.
 *
 * Invariants: `ids` exists from stage SHARES on and is in the order of members; `sealed` of a member exists exactly
 * if it reached SHARES, `shares` if it reached UNMASK. */
#include <stdlib.h>

#include "dist/federated.h"
#include "fed/secure_internal.h"
#include "fed/shamir.h"

typedef struct member {
    mr_secure_peer p;
    mr_fed_stage reached;
    uint8_t *sealed; /* (n-1) * MR_SECURE_SEALED, for the others in their order */
    uint8_t *shares; /* |U2| * MR_SECURE_SHARE */
} member;

struct mr_secure_server {
    const mr_crypto *crypto;
    mr_fed_stage stage;
    MR_VEC(member) members;
    uint32_t *ids; /* of the members, once closed */
    int t;
    int n_u2, n_u3;
    mr_str list; /* the SHARES message */
    uint8_t list_hash[MR_SHA256];
    uint32_t *sum;
    size_t n;
};

/* n_values is the size of the vectors to add. */
mr_secure_server *mr_secure_server_new(const mr_crypto *crypto, size_t n_values)
{
    mr_secure_server *s = mr_new(mr_secure_server);
    s->crypto = crypto;
    s->stage = MR_FED_KEYS;
    s->n = n_values;
    return s;
}

/* Nothing here is secret: the server sees only sealed shares and masked vectors. */
void mr_secure_server_free(mr_secure_server *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->members.n; i++) {
        mr_free(s->members.p[i].sealed);
        mr_free(s->members.p[i].shares);
    }
    mr_vec_deinit(&s->members);
    mr_free(s->ids);
    mr_str_deinit(&s->list);
    mr_free(s->sum);
    mr_free(s);
}

/* Before SHARES is closed, those that gave keys. */
int mr_secure_server_count(const mr_secure_server *s)
{
    return s->stage == MR_FED_UNMASK ? s->n_u3 : s->stage == MR_FED_TRAIN ? s->n_u2 : s->members.n;
}

/* The position of a client among the members; -1: it is not one. */
static int place_of(const mr_secure_server *s, int64_t client)
{
    if (client < 0 || client > UINT32_MAX)
        return -1;
    if (s->ids)
        return mr_secure_find(s->ids, s->members.n, (uint32_t)client);
    for (int i = 0; i < s->members.n; i++)
        if (s->members.p[i].p.id == client)
            return i;
    return -1;
}

/* ---- answers ---- */

/* A client gives keys once, and the number of clients is limited because their shares need quadratic memory. */
static mr_status *check_keys(const mr_secure_server *s, int64_t client, mr_sv answer)
{
    if (place_of(s, client) >= 0 || client < 0 || client > UINT32_MAX)
        return mr_invalid("secure sum: client %lld gave keys before, or has an invalid number", (long long)client);
    if (answer.n != MR_SECURE_KEYS || s->members.n >= MR_SECURE_MOST)
        return mr_invalid("secure sum: %zu bytes of keys from client %lld, or too many clients", answer.n,
                          (long long)client);
    return NULL;
}

/* The answer must be for the present stage, from a member that answered the stage before and not this one, and of
 * the right size. Contents are checked when the shares are joined. */
mr_status *mr_secure_server_check(const mr_secure_server *s, int stage, int64_t client, mr_sv answer)
{
    int i = place_of(s, client);
    size_t want = stage == MR_FED_SHARES  ? (size_t)(s->members.n - 1) * MR_SECURE_SEALED
                  : stage == MR_FED_TRAIN ? s->n * 4
                                          : (size_t)s->n_u2 * MR_SECURE_SHARE;
    if (stage != (int)s->stage)
        return mr_invalid("secure sum: an answer to stage %d arrived in stage %d", stage, (int)s->stage);
    if (stage == MR_FED_KEYS)
        return check_keys(s, client, answer);
    if (i < 0 || (int)s->members.p[i].reached != stage - 1)
        return mr_invalid("secure sum: client %lld has no part in stage %d, or has answered it", (long long)client,
                          stage);
    if (answer.n != want)
        return mr_invalid("secure sum: client %lld answers stage %d with %zu bytes, expected %zu", (long long)client, stage, answer.n,
                          want);
    return NULL;
}

/* Copies the bytes; the caller owns *out. */
static mr_status *copy_bytes(mr_sv bytes, uint8_t **out)
{
    *out = mr_try_alloc(bytes.n);
    if (!*out)
        return mr_error(MR_RESOURCE_EXHAUSTED, "secure sum: out of memory for %zu bytes of shares", bytes.n);
    memcpy(*out, bytes.p, bytes.n);
    return NULL;
}

/* Adds a masked vector modulo 2^32. The sum is allocated with the first one. */
static mr_status *add_vector(mr_secure_server *s, mr_sv answer)
{
    MR_ASSERT(answer.n == s->n * 4);
    if (!s->sum && !(s->sum = mr_try_calloc(MR_MAX(s->n, 1), sizeof *s->sum)))
        return mr_error(MR_RESOURCE_EXHAUSTED, "secure sum: out of memory for %zu numbers", s->n);
    for (size_t i = 0; i < s->n; i++)
        s->sum[i] += mr_get32(answer.p + 4 * i);
    return NULL;
}

/* Checks again, so that no caller can store an answer that was not checked. */
mr_status *mr_secure_server_take(mr_secure_server *s, int stage, int64_t client, mr_sv answer)
{
    MR_TRY(mr_secure_server_check(s, stage, client, answer));
    if (stage == MR_FED_KEYS) {
        member m = {.p.id = (uint32_t)client, .reached = MR_FED_KEYS};
        memcpy(m.p.keys, answer.p, MR_SECURE_KEYS);
        mr_vec_push(&s->members, m);
        return NULL;
    }
    MR_ASSERT(place_of(s, client) >= 0);
    member *m = &s->members.p[place_of(s, client)];
    if (stage == MR_FED_SHARES)
        MR_TRY(copy_bytes(answer, &m->sealed));
    else if (stage == MR_FED_TRAIN)
        MR_TRY(add_vector(s, answer));
    else
        MR_TRY(copy_bytes(answer, &m->shares));
    m->reached = (mr_fed_stage)stage;
    return NULL;
}

/* ---- asking ---- */

/* For qsort. */
static int by_id(const void *a, const void *b)
{
    uint32_t x = ((const member *)a)->p.id, y = ((const member *)b)->p.id;
    return (x > y) - (x < y);
}

/* Closes KEYS: sorts the members and composes the list, which is the same for all clients. The threshold must be
 * above one half, otherwise clients refuse it. */
mr_status *mr_secure_server_ask_shares(mr_secure_server *s, int t)
{
    int n = s->members.n;
    if (s->stage != MR_FED_KEYS || n < MR_SECURE_LEAST || t > n || 2 * t <= n)
        return mr_error(MR_FAILED_PRECONDITION, "secure sum: a threshold of %d for %d clients is not possible", t, n);
    qsort(s->members.p, (size_t)n, sizeof *s->members.p, by_id);
    s->ids = mr_new_array(uint32_t, n);
    s->t = t;
    mr_put32(&s->list, (uint32_t)n);
    mr_put32(&s->list, (uint32_t)t);
    for (int i = 0; i < n; i++) {
        s->ids[i] = s->members.p[i].p.id;
        mr_put32(&s->list, s->ids[i]);
        mr_str_append(&s->list, s->members.p[i].p.keys, MR_SECURE_KEYS);
    }
    s->stage = MR_FED_REST; /* a failure ends the sum */
    MR_TRY(s->crypto->sha256(mr_str_view(&s->list), s->list_hash));
    s->stage = MR_FED_SHARES;
    MR_ASSERT(s->members.n >= MR_SECURE_LEAST && s->t > s->members.n / 2);
    return NULL;
}

/* Counts the members that answered the stage; fewer than the threshold cannot be unmasked later. */
static mr_status *close_stage(mr_secure_server *s, mr_fed_stage stage, int *n)
{
    if (s->stage != stage)
        return mr_error(MR_FAILED_PRECONDITION, "secure sum: stage %d is not the present stage", (int)stage);
    *n = 0;
    for (int i = 0; i < s->members.n; i++)
        *n += s->members.p[i].reached == stage;
    if (*n < s->t)
        return mr_error(MR_FAILED_PRECONDITION, "secure sum: %d answers are fewer than the threshold of %d", *n, s->t);
    s->stage = stage + 1;
    return NULL;
}

mr_status *mr_secure_server_ask_train(mr_secure_server *s) { return close_stage(s, MR_FED_SHARES, &s->n_u2); }
mr_status *mr_secure_server_ask_unmask(mr_secure_server *s) { return close_stage(s, MR_FED_TRAIN, &s->n_u3); }

/* Writes the shares that the others of U2 have sealed for this member. A sender's list omits the sender, so
 * members after it are one position earlier. */
static void put_sealed(const mr_secure_server *s, int self, mr_str *out)
{
    mr_put32(out, (uint32_t)(s->n_u2 - 1));
    for (int i = 0; i < s->members.n; i++) {
        const member *m = &s->members.p[i];
        if (i == self || m->reached < MR_FED_SHARES)
            continue;
        MR_ASSERT(m->sealed);
        mr_put32(out, m->p.id);
        mr_str_append(out, m->sealed + (size_t)(self < i ? self : self - 1) * MR_SECURE_SEALED, MR_SECURE_SEALED);
    }
}

/* Writes U3: the members whose masked vectors are in the sum. */
static void put_survivors(const mr_secure_server *s, mr_str *out)
{
    mr_put32(out, (uint32_t)s->n_u3);
    for (int i = 0; i < s->members.n; i++)
        if (s->members.p[i].reached >= MR_FED_TRAIN)
            mr_put32(out, s->members.p[i].p.id);
}

/* The KEYS message is empty. A client that has dropped out gets an error. */
mr_status *mr_secure_server_message(const mr_secure_server *s, int64_t client, mr_str *out)
{
    int i = place_of(s, client);
    if (s->stage == MR_FED_KEYS)
        return NULL;
    if (i < 0 || s->members.p[i].reached < s->stage - 1)
        return mr_invalid("secure sum: client %lld has no part in stage %d", (long long)client, (int)s->stage);
    if (s->stage == MR_FED_SHARES)
        mr_str_append(out, s->list.p, s->list.n);
    else if (s->stage == MR_FED_TRAIN)
        put_sealed(s, i, out);
    else
        put_survivors(s, out);
    return NULL;
}

/* ---- the sum ---- */

typedef struct tellers { /* t clients that answered UNMASK */
    int n;
    uint16_t *x, *weights;
    const uint8_t **shares; /* theirs of one secret at a time */
    const member **of;
} tellers;

static void tellers_deinit(tellers *t)
{
    mr_free(t->x);
    mr_free(t->weights);
    mr_free(t->shares);
    mr_free(t->of);
}

/* Selects t members that answered UNMASK; more are not needed. Share i belongs to x = i + 1. */
static mr_status *find_tellers(const mr_secure_server *s, tellers *t)
{
    *t = (tellers){0, mr_new_array(uint16_t, s->t), mr_new_array(uint16_t, s->t), mr_new_array(const uint8_t *, s->t),
                   mr_new_array(const member *, s->t)};
    for (int i = 0; i < s->members.n && t->n < s->t; i++)
        if (s->members.p[i].reached == MR_FED_UNMASK) {
            t->x[t->n] = (uint16_t)(i + 1);
            t->of[t->n++] = &s->members.p[i];
        }
    if (t->n < s->t || !mr_shamir_weights(t->x, t->n, t->weights))
        return mr_error(MR_FAILED_PRECONDITION, "secure sum: only %d of %d shares arrived", t->n, s->t);
    return NULL;
}

/* Removes the pair masks of a lost client from the sum, with its key. */
static mr_status *cancel_pairs(mr_secure_server *s, const member *lost, const uint8_t secret[32])
{
    mr_secure_masking m = {s->crypto, s->list_hash, lost->p.id, false, s->sum, s->n};
    uint8_t public[MR_X25519];
    mr_crypto_key *key;
    MR_TRY(s->crypto->key_new(secret, public, &key));
    mr_status *st = memcmp(public, lost->p.keys + MR_KEYS_MASKING, sizeof public) == 0
                        ? NULL
                        : mr_error(MR_DATA_LOSS, "secure sum: the shares of client %u do not give its key", lost->p.id);
    for (int i = 0; !st && i < s->members.n; i++) {
        const member *other = &s->members.p[i];
        if (other->reached < MR_FED_TRAIN)
            continue;
        st = mr_secure_add_pair_mask(&m, key, other->p.id, other->p.keys + MR_KEYS_MASKING);
        if (mr_status_code(st) == MR_INVALID_ARGUMENT) {
            mr_status_free(st);
            st = mr_error(MR_DATA_LOSS, "secure sum: the public key of client %u is invalid", other->p.id);
        }
    }
    s->crypto->key_free(key);
    return st;
}

/* Removes the own mask of a member from the sum. The hash that it committed to proves that the shares were right. */
static mr_status *cancel_own(mr_secure_server *s, const member *m, const uint8_t seed[32])
{
    mr_secure_masking masking = {s->crypto, s->list_hash, m->p.id, true, s->sum, s->n};
    MR_ASSERT(m->reached >= MR_FED_TRAIN && s->sum);
    uint8_t hash[MR_SHA256];
    MR_TRY(s->crypto->sha256(mr_secure_bytes(seed, 32), hash));
    if (memcmp(hash, m->p.keys + MR_KEYS_COMMITMENT, MR_SHA256) != 0)
        return mr_error(MR_DATA_LOSS, "secure sum: the shares of client %u do not give its seed", m->p.id);
    return mr_secure_add_own_mask(&masking, seed);
}

/* Reconstructs one secret per member of U2: the seed of those whose vector is in the sum, the key of the lost
 * ones. Each secret is wiped after use. */
static mr_status *cancel_masks(mr_secure_server *s, tellers *t)
{
    mr_status *st = NULL;
    size_t at = 0; /* of the client among U2 */
    for (int i = 0; !st && i < s->members.n; i++) {
        const member *m = &s->members.p[i];
        uint8_t secret[32];
        if (m->reached < MR_FED_SHARES)
            continue;
        for (int k = 0; k < t->n; k++)
            t->shares[k] = t->of[k]->shares + at * MR_SECURE_SHARE;
        mr_shamir_join(t->weights, t->shares, t->n, secret);
        MR_ASSERT(at < (size_t)s->n_u2);
        st = m->reached >= MR_FED_TRAIN ? cancel_own(s, m, secret) : cancel_pairs(s, m, secret);
        explicit_bzero(secret, sizeof secret);
        at++;
    }
    return st;
}

/* Joins the shares of t members, checks each secret against what its owner committed to, and removes all masks. A
 * second call is refused, because it would remove the masks twice. */
mr_status *mr_secure_server_finish(mr_secure_server *s, uint32_t *sum)
{
    tellers t = {0};
    if (s->stage != MR_FED_UNMASK)
        return mr_error(MR_FAILED_PRECONDITION, "secure sum: not all stages are complete");
    mr_status *st = find_tellers(s, &t);
    if (!st)
        st = cancel_masks(s, &t);
    if (!st && s->n)
        memcpy(sum, s->sum, s->n * sizeof *sum);
    tellers_deinit(&t);
    s->stage = MR_FED_REST; /* the masks are removed: a second time would add them again */
    return st;
}
