/* fed/secure_test.c -- secure sums: they are exact, survive losses, show nothing of one client, and refuse what would. */
#include "fed/secure.h"

#include <stdio.h>

#include "dist/federated.h"
#include "fed/secure_internal.h"
#include "tests/harness/test.h"

enum { MOST = 40, VALUES = 50 };

typedef struct sum {
    int n;
    size_t n_values;
    mr_secure_client *clients[MOST];
    mr_secure_server *server;
    uint32_t id[MOST];
    uint32_t *values[MOST], *masked[MOST];
    mr_fed_stage lost_at[MOST]; /* before answering this stage; 0: never */
    mr_str messages;            /* all, in the order of answer_stage */
} sum;

static void fill(void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)p)[i] = (uint8_t)(mr_test_random() >> 32);
}

static const mr_crypto *crypto_here(void)
{
    const mr_crypto *c;
    MR_CHECK_OK(mr_crypto_open(&c));
    return c;
}

/* Without clients; the values are zeros. */
static sum begin_with(const mr_crypto *crypto, int n, size_t n_values)
{
    sum s = {.n = n, .n_values = n_values, .server = mr_secure_server_new(crypto, n_values)};
    for (int i = 0; i < n; i++) {
        s.id[i] = (uint32_t)(i * 7 + 3);
        s.values[i] = mr_new_array(uint32_t, n_values);
        s.masked[i] = mr_new_array(uint32_t, n_values);
    }
    return s;
}

static sum begin(int n, size_t n_values)
{
    sum s = begin_with(crypto_here(), n, n_values);
    for (int i = 0; i < n; i++) {
        uint8_t seed[MR_SECURE_SEED];
        fill(seed, sizeof seed);
        MR_CHECK_OK(mr_secure_client_new(crypto_here(), seed, &s.clients[i]));
        fill(s.values[i], n_values * 4);
    }
    return s;
}

static void end(sum *s)
{
    for (int i = 0; i < s->n; i++) {
        mr_secure_client_free(s->clients[i]);
        mr_free(s->values[i]);
        mr_free(s->masked[i]);
    }
    mr_secure_server_free(s->server);
    mr_str_deinit(&s->messages);
}

static bool is_lost(const sum *s, int i, mr_fed_stage stage) { return s->lost_at[i] && s->lost_at[i] <= stage; }

static mr_status *client_answers(sum *s, int i, mr_fed_stage stage, mr_sv ask, mr_str *out)
{
    switch (stage) {
    case MR_FED_KEYS: return mr_secure_client_keys(s->clients[i], out);
    case MR_FED_SHARES: return mr_secure_client_shares(s->clients[i], ask, out);
    case MR_FED_TRAIN:
        memcpy(s->masked[i], s->values[i], s->n_values * 4);
        MR_TRY(mr_secure_client_mask(s->clients[i], ask, s->masked[i], s->n_values));
        mr_str_append(out, s->masked[i], s->n_values * 4);
        return NULL;
    default: return mr_secure_client_unmask(s->clients[i], ask, out);
    }
}

/* A client answers a stage; one that fails refuses to do it again. Messages are kept for those who want to look at
 * them. */
static mr_status *answer_stage(sum *s, int i, mr_fed_stage stage)
{
    mr_str ask = {0}, answer = {0};
    mr_status *st = mr_secure_server_message(s->server, s->id[i], &ask);
    if (!st && (st = client_answers(s, i, stage, mr_str_view(&ask), &answer))) {
        mr_str again = {0};
        MR_CHECK_ERR(client_answers(s, i, stage, mr_str_view(&ask), &again), MR_FAILED_PRECONDITION, "out of order");
        mr_str_deinit(&again);
    }
    if (!st)
        st = mr_secure_server_take(s->server, stage, s->id[i], mr_str_view(&answer));
    mr_str_append(&s->messages, ask.p, ask.n);
    mr_str_append(&s->messages, answer.p, answer.n);
    mr_str_deinit(&ask);
    mr_str_deinit(&answer);
    return st;
}

/* All that are left do a stage. */
static void run_stage(sum *s, mr_fed_stage stage)
{
    for (int k = s->n - 1; k >= 0; k--) /* the order of arrival is not that of the numbers */
        if (!is_lost(s, k, stage))
            MR_CHECK_OK(answer_stage(s, k, stage));
}

static void run_to(sum *s, mr_fed_stage last, int t)
{
    run_stage(s, MR_FED_KEYS);
    MR_CHECK_OK(mr_secure_server_ask_shares(s->server, t));
    if (last >= MR_FED_SHARES)
        run_stage(s, MR_FED_SHARES);
    if (last >= MR_FED_TRAIN) {
        MR_CHECK_OK(mr_secure_server_ask_train(s->server));
        run_stage(s, MR_FED_TRAIN);
    }
    if (last >= MR_FED_UNMASK) {
        MR_CHECK_OK(mr_secure_server_ask_unmask(s->server));
        run_stage(s, MR_FED_UNMASK);
    }
}

static void check_sum(sum *s)
{
    uint32_t *out = mr_new_array(uint32_t, s->n_values);
    MR_CHECK_OK(mr_secure_server_finish(s->server, out));
    for (size_t v = 0; v < s->n_values; v++) {
        uint32_t want = 0;
        for (int i = 0; i < s->n; i++)
            want += is_lost(s, i, MR_FED_TRAIN) ? 0 : s->values[i][v];
        MR_CHECK_INT(out[v], want);
    }
    mr_free(out);
}

MR_TEST(secure_sum_is_exact_when_all_stay)
{
    sum s = begin(5, VALUES);
    run_to(&s, MR_FED_UNMASK, 3);
    check_sum(&s);
    end(&s);
}

MR_TEST(secure_sum_is_exact_whoever_is_lost_whenever)
{
    for (int turn = 0; turn < 40; turn++) {
        int n = 3 + (int)(mr_test_random() >> 33) % 8, t = n / 2 + 1, left = n;
        sum s = begin(n, 1 + (size_t)turn * 20);
        for (int i = 0; i < n && left > t; i++) {
            s.lost_at[i] = (mr_fed_stage)((mr_test_random() >> 33) % 5);
            if (s.lost_at[i] == MR_FED_KEYS)
                s.lost_at[i] = MR_FED_REST; /* the threshold is of those who give keys */
            left -= s.lost_at[i] != MR_FED_REST;
        }
        run_to(&s, MR_FED_UNMASK, t);
        check_sum(&s);
        end(&s);
    }
}

MR_TEST(secure_sum_of_forty_survives_a_third_lost)
{
    sum s = begin(40, 300);
    for (int i = 0; i < 13; i++)
        s.lost_at[3 * i] = i % 2 ? MR_FED_TRAIN : MR_FED_UNMASK;
    run_to(&s, MR_FED_UNMASK, 27);
    check_sum(&s);
    end(&s);
}

MR_TEST(secure_sum_below_the_threshold_gives_nothing)
{
    sum s = begin(5, VALUES);
    uint32_t out[VALUES];
    s.lost_at[0] = s.lost_at[1] = MR_FED_UNMASK;
    run_to(&s, MR_FED_UNMASK, 4);
    MR_CHECK_ERR(mr_secure_server_finish(s.server, out), MR_FAILED_PRECONDITION, "3 of 4 shares");
    end(&s);
}

/* ---- the cryptography ---- */

static int calls_to_failure; /* of `failing` */
static mr_status *maybe_fail(void)
{
    return --calls_to_failure == 0 ? mr_error(MR_RESOURCE_EXHAUSTED, "planted") : NULL;
}

static mr_status *failing_sha256(mr_sv bytes, uint8_t *out)
{
    MR_TRY(maybe_fail());
    return crypto_here()->sha256(bytes, out);
}

static mr_status *failing_hkdf(mr_sv secret, mr_sv salt, mr_sv info, uint8_t *out, size_t n)
{
    MR_TRY(maybe_fail());
    return crypto_here()->hkdf(secret, salt, info, out, n);
}

static mr_status *failing_key_new(const uint8_t *secret, uint8_t *public, mr_crypto_key **out)
{
    MR_TRY(maybe_fail());
    return crypto_here()->key_new(secret, public, out);
}

static mr_status *failing_agree(mr_crypto_key *k, const uint8_t *other, uint8_t *out)
{
    MR_TRY(maybe_fail());
    return crypto_here()->agree(k, other, out);
}

static mr_status *failing_chacha20(const uint8_t *key, const uint8_t *nonce, uint32_t counter, uint8_t *bytes, size_t n)
{
    MR_TRY(maybe_fail());
    return crypto_here()->chacha20(key, nonce, counter, bytes, n);
}

static mr_status *failing_mask(const uint8_t *key, bool subtract, uint32_t *values, size_t n)
{
    MR_TRY(maybe_fail());
    return crypto_here()->mask(key, subtract, values, n);
}

static mr_status *failing_seal(const uint8_t *key, const uint8_t *nonce, mr_sv extra, uint8_t *text, size_t n)
{
    MR_TRY(maybe_fail());
    return crypto_here()->seal(key, nonce, extra, text, n);
}

static mr_status *failing_unseal(const uint8_t *key, const uint8_t *nonce, mr_sv extra, const uint8_t *sealed, size_t n,
                                 uint8_t *text)
{
    MR_TRY(maybe_fail());
    return crypto_here()->unseal(key, nonce, extra, sealed, n, text);
}

static mr_status *close_stage_before(sum *s, mr_fed_stage stage, int t)
{
    return stage == MR_FED_SHARES  ? mr_secure_server_ask_shares(s->server, t)
           : stage == MR_FED_TRAIN ? mr_secure_server_ask_train(s->server)
           : stage == MR_FED_UNMASK ? mr_secure_server_ask_unmask(s->server)
                                    : NULL;
}

/* The whole sum of 4 clients, of which the last is lost; the first error ends it. */
static mr_status *try_sum(sum *s, const mr_crypto *crypto, uint32_t *out)
{
    for (int i = 0; i < s->n; i++) {
        uint8_t seed[MR_SECURE_SEED] = {(uint8_t)(i + 1)};
        MR_TRY(mr_secure_client_new(crypto, seed, &s->clients[i]));
    }
    for (int stage = MR_FED_KEYS; stage <= MR_FED_UNMASK; stage++) {
        MR_TRY(close_stage_before(s, (mr_fed_stage)stage, 3));
        for (int i = 0; i < s->n; i++)
            if (!is_lost(s, i, (mr_fed_stage)stage))
                MR_TRY(answer_stage(s, i, (mr_fed_stage)stage));
    }
    return mr_secure_server_finish(s->server, out);
}

/* The bytes on the wire do not depend on who implements the cryptography: the digest is of the implementation before
 * libcrypto. */
MR_TEST(secure_sum_messages_are_the_same_bytes_as_ever)
{
    enum { N = 5000 };
    sum s = begin_with(crypto_here(), 4, N);
    uint32_t out[N];
    uint8_t digest[MR_SHA256];
    char hex[2 * MR_SHA256 + 1];
    s.lost_at[3] = MR_FED_TRAIN;
    MR_CHECK_OK(try_sum(&s, crypto_here(), out));
    MR_CHECK_OK(crypto_here()->sha256(mr_str_view(&s.messages), digest));
    for (int i = 0; i < MR_SHA256; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    MR_CHECK_STR(hex, "d60aa5bf6a8face7628551a39105d248f7801a3da75bbd82aa9ff19e36cfcbf3");
    end(&s);
}

/* Every call of the cryptography fails once. The error comes back as it is, and nothing leaks (sanitizers). */
MR_TEST(secure_sum_bears_failing_cryptography_at_every_point)
{
    mr_crypto failing = {.sha256 = failing_sha256,
                         .hkdf = failing_hkdf,
                         .key_new = failing_key_new,
                         .key_free = crypto_here()->key_free,
                         .agree = failing_agree,
                         .chacha20 = failing_chacha20,
                         .mask = failing_mask,
                         .seal = failing_seal,
                         .unseal = failing_unseal};
    int failures = 0;
    for (bool failed = true; failed; failures += failed) {
        sum s = begin_with(&failing, 4, VALUES);
        uint32_t out[VALUES];
        s.lost_at[3] = MR_FED_TRAIN;
        calls_to_failure = failures + 1;
        mr_status *st = try_sum(&s, &failing, out);
        failed = calls_to_failure <= 0;
        if (failed)
            MR_CHECK_ERR(st, MR_RESOURCE_EXHAUSTED, "planted");
        else
            MR_CHECK_OK(st);
        end(&s);
    }
    MR_CHECK(failures > 100);
}

/* How far the bytes of a vector are from even, in deviations: chi-square with 255 degrees of freedom. */
static double unevenness(const uint32_t *v, size_t n)
{
    double hits[256] = {0}, chi = 0, even = (double)n * 4 / 256;
    for (size_t i = 0; i < n * 4; i++)
        hits[((const uint8_t *)v)[i]]++;
    for (int i = 0; i < 256; i++)
        chi += (hits[i] - even) * (hits[i] - even) / even;
    return (chi - 255) / sqrt(2 * 255);
}

MR_TEST(secure_sum_single_masked_updates_look_uniform)
{
    enum { N = 4096 };
    sum s = begin(4, N);
    for (int i = 0; i < 4; i++)
        memset(s.values[i], 0, N * 4); /* the least random of all updates */
    MR_CHECK(unevenness(s.values[0], N) > 100);
    run_to(&s, MR_FED_TRAIN, 3);
    for (int i = 0; i < 4; i++)
        MR_CHECK(fabs(unevenness(s.masked[i], N)) < 6);
    for (size_t v = 1; v < N; v++) /* and sums of some are no better: here of three of the four */
        s.masked[0][v] += s.masked[1][v] + s.masked[2][v];
    MR_CHECK(fabs(unevenness(s.masked[0], N)) < 6);
    end(&s);
}

/* The pairwise masks alone would be known for a client that was taken for lost; its own mask still hides it. */
MR_TEST(secure_sum_update_that_comes_late_stays_hidden)
{
    enum { N = 4096 };
    sum s = begin(4, N);
    uint32_t out[N];
    memset(s.values[3], 0, N * 4);
    run_to(&s, MR_FED_SHARES, 3);
    MR_CHECK_OK(mr_secure_server_ask_train(s.server));
    mr_str late = {0}, answer = {0};
    MR_CHECK_OK(mr_secure_server_message(s.server, s.id[3], &late));
    s.lost_at[3] = MR_FED_TRAIN;
    run_stage(&s, MR_FED_TRAIN);
    MR_CHECK_OK(mr_secure_server_ask_unmask(s.server));
    run_stage(&s, MR_FED_UNMASK);
    MR_CHECK_OK(client_answers(&s, 3, MR_FED_TRAIN, mr_str_view(&late), &answer));
    MR_CHECK_ERR(mr_secure_server_take(s.server, MR_FED_TRAIN, s.id[3], mr_str_view(&answer)), MR_INVALID_ARGUMENT, "stage");
    MR_CHECK(fabs(unevenness(s.masked[3], N)) < 6);
    MR_CHECK_OK(mr_secure_server_finish(s.server, out)); /* the key of client 3 is known now */
    for (int i = 0; i < 3; i++)
        for (size_t v = 0; v < N; v++)
            out[v] -= s.values[i][v];
    for (size_t v = 0; v < N; v++)
        MR_CHECK_INT(out[v], 0);
    mr_str_deinit(&late);
    mr_str_deinit(&answer);
    end(&s);
}

/* ---- what clients refuse ---- */

static mr_str survivors(const sum *s, unsigned set)
{
    mr_str out = {0};
    mr_put32(&out, (uint32_t)__builtin_popcount(set));
    for (int i = 0; i < s->n; i++)
        if (set >> i & 1)
            mr_put32(&out, s->id[i]);
    return out;
}

MR_TEST(secure_sum_client_tells_a_seed_or_a_key_but_never_both)
{
    sum s = begin(5, VALUES);
    run_to(&s, MR_FED_TRAIN, 3);
    mr_str all = survivors(&s, 31), but_one = survivors(&s, 15), first = {0}, second = {0};
    MR_CHECK_OK(mr_secure_client_unmask(s.clients[0], mr_str_view(&all), &first));
    MR_CHECK_ERR(mr_secure_client_unmask(s.clients[0], mr_str_view(&but_one), &second), MR_FAILED_PRECONDITION, "out of order");
    MR_CHECK_INT(second.n, 0);
    /* Shares are of one kind each. */
    MR_CHECK_OK(mr_secure_client_unmask(s.clients[1], mr_str_view(&but_one), &second));
    MR_CHECK_INT(first.n, 5 * MR_SECURE_SHARE);
    MR_CHECK_INT(second.n, 5 * MR_SECURE_SHARE);
    mr_str_deinit(&all);
    mr_str_deinit(&but_one);
    mr_str_deinit(&first);
    mr_str_deinit(&second);
    end(&s);
}

static void refuses_survivors(unsigned set, const char *why)
{
    sum s = begin(5, VALUES);
    run_to(&s, MR_FED_TRAIN, 3);
    mr_str ask = survivors(&s, set), out = {0};
    MR_CHECK_ERR(mr_secure_client_unmask(s.clients[0], mr_str_view(&ask), &out), MR_INVALID_ARGUMENT, why);
    MR_CHECK_INT(out.n, 0);
    mr_str_deinit(&ask);
    end(&s);
}

MR_TEST(secure_sum_client_refuses_sums_of_few) { refuses_survivors(3, "fewer than the threshold"); }
MR_TEST(secure_sum_client_refuses_to_count_as_lost) { refuses_survivors(30, "is missing"); }

static void refuses_list(int n, int t, const char *why)
{
    sum s = begin(n, VALUES);
    mr_str list = {0}, out = {0};
    mr_put32(&list, (uint32_t)n);
    mr_put32(&list, (uint32_t)t);
    for (int i = 0; i < n; i++) {
        mr_put32(&list, s.id[i]);
        MR_CHECK_OK(mr_secure_client_keys(s.clients[i], &list));
    }
    MR_CHECK_ERR(mr_secure_client_shares(s.clients[0], mr_str_view(&list), &out), MR_INVALID_ARGUMENT, why);
    MR_CHECK_INT(out.n, 0);
    mr_str_deinit(&list);
    end(&s);
}

MR_TEST(secure_sum_client_refuses_thresholds_of_half_and_small_groups)
{
    refuses_list(6, 3, "threshold of 3 for 6");
    refuses_list(2, 2, "threshold of 2 for 2");
    refuses_list(4, 5, "threshold of 5 for 4");
}

MR_TEST(secure_sum_client_refuses_keys_that_everybody_can_make)
{
    sum s = begin(3, VALUES);
    mr_str ask = {0}, out = {0};
    run_to(&s, MR_FED_KEYS, 2);
    MR_CHECK_OK(mr_secure_server_message(s.server, s.id[0], &ask));
    memset(ask.p + 8 + 100 + 4, 0, 32); /* the second client's key for sealing */
    MR_CHECK_ERR(mr_secure_client_shares(s.clients[0], mr_str_view(&ask), &out), MR_INVALID_ARGUMENT, "is invalid");
    mr_str_deinit(&ask);
    mr_str_deinit(&out);
    end(&s);
}

MR_TEST(secure_sum_client_refuses_shares_that_were_changed)
{
    sum s = begin(4, VALUES);
    mr_str ask = {0};
    run_to(&s, MR_FED_SHARES, 3);
    MR_CHECK_OK(mr_secure_server_ask_train(s.server));
    MR_CHECK_OK(mr_secure_server_message(s.server, s.id[1], &ask));
    ask.p[4 + 4 + 10] ^= 1;
    MR_CHECK_ERR(mr_secure_client_mask(s.clients[1], mr_str_view(&ask), s.values[1], VALUES), MR_INVALID_ARGUMENT, "cannot be opened");
    mr_str_deinit(&ask);
    end(&s);
}

MR_TEST(secure_sum_clients_with_different_lists_cannot_open_each_others_shares)
{
    sum s = begin(4, VALUES);
    run_stage(&s, MR_FED_KEYS);
    MR_CHECK_OK(mr_secure_server_ask_shares(s.server, 3));
    for (int i = 0; i < 4; i++) {
        mr_str ask = {0}, out = {0};
        MR_CHECK_OK(mr_secure_server_message(s.server, s.id[i], &ask));
        if (i == 0)
            ask.p[8 + 3 * 100 + 4 + 64] ^= 1; /* another commitment of the last client, told to the first only */
        MR_CHECK_OK(mr_secure_client_shares(s.clients[i], mr_str_view(&ask), &out));
        MR_CHECK_OK(mr_secure_server_take(s.server, MR_FED_SHARES, s.id[i], mr_str_view(&out)));
        mr_str_deinit(&ask);
        mr_str_deinit(&out);
    }
    mr_str ask = {0};
    MR_CHECK_OK(mr_secure_server_ask_train(s.server));
    MR_CHECK_OK(mr_secure_server_message(s.server, s.id[1], &ask));
    MR_CHECK_ERR(mr_secure_client_mask(s.clients[1], mr_str_view(&ask), s.values[1], VALUES), MR_INVALID_ARGUMENT, "cannot be opened");
    mr_str_deinit(&ask);
    end(&s);
}

/* ---- what the server refuses ---- */

MR_TEST(secure_sum_server_refuses_doubled_and_foreign_answers)
{
    sum s = begin(3, VALUES);
    uint8_t keys[MR_SECURE_KEYS] = {1}, vector[VALUES * 4] = {0};
    run_to(&s, MR_FED_TRAIN, 2);
    mr_sv v = {(const char *)vector, sizeof vector};
    MR_CHECK_ERR(mr_secure_server_take(s.server, MR_FED_TRAIN, s.id[0], v), MR_INVALID_ARGUMENT, "or has answered it");
    MR_CHECK_ERR(mr_secure_server_take(s.server, MR_FED_TRAIN, 4, v), MR_INVALID_ARGUMENT, "no part");
    MR_CHECK_ERR(mr_secure_server_take(s.server, MR_FED_TRAIN, -1, v), MR_INVALID_ARGUMENT, "no part");
    MR_CHECK_ERR(mr_secure_server_take(s.server, MR_FED_KEYS, 4, (mr_sv){(char *)keys, 96}), MR_INVALID_ARGUMENT, "stage");
    end(&s);
}

MR_TEST(secure_sum_server_finds_out_about_wrong_shares)
{
    for (int lost = 0; lost < 2; lost++) { /* of a seed; of a lost client's key */
        sum s = begin(4, VALUES);
        uint32_t out[VALUES];
        s.lost_at[3] = lost ? MR_FED_TRAIN : MR_FED_REST;
        run_to(&s, MR_FED_TRAIN, 3);
        MR_CHECK_OK(mr_secure_server_ask_unmask(s.server));
        for (int i = 0; i < 3; i++) {
            mr_str ask = {0}, answer = {0};
            MR_CHECK_OK(mr_secure_server_message(s.server, s.id[i], &ask));
            MR_CHECK_OK(mr_secure_client_unmask(s.clients[i], mr_str_view(&ask), &answer));
            if (i == 1)
                answer.p[3 * MR_SECURE_SHARE + 5] ^= 4;
            MR_CHECK_OK(mr_secure_server_take(s.server, MR_FED_UNMASK, s.id[i], mr_str_view(&answer)));
            mr_str_deinit(&ask);
            mr_str_deinit(&answer);
        }
        MR_CHECK_ERR(mr_secure_server_finish(s.server, out), MR_DATA_LOSS, "client 24 do not give");
        end(&s);
    }
}
