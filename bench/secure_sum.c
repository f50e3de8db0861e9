/* bench/secure_sum.c -- secure sums of federated averaging: the cryptography, and what a round costs a client and the
 * server.
 *
 * Prints `name value unit` by the CPU time of the thread: the best of many short rounds of the primitives, and the best
 * of some sums. In a sum, a fifth of the clients is lost after it has dealt its shares, which is what costs the server
 * most. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "dist/federated.h"
#include "fed/secure.h"

enum { ROUNDS = 60, INNER = 20, SUMS = 5 };

static const mr_crypto *crypto;
static uint8_t key[32] = {1}, public[32];
static mr_crypto_key *pair;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(mr_status *st)
{
    if (!st)
        return;
    fprintf(stderr, "secure_sum: %s\n", mr_status_message(st));
    exit(1);
}

/* ---- primitives ---- */

enum { MASK_WORDS = 1 << 20 };
static uint32_t *words;

static void mask(void) { must(crypto->mask(key, false, words, MASK_WORDS)); }

static void agree(void)
{
    uint8_t out[32];
    for (int i = 0; i < INNER; i++)
        must(crypto->agree(pair, public, out));
}

static void make_key(void)
{
    uint8_t out[32];
    for (int i = 0; i < INNER; i++) {
        mr_crypto_key *k;
        must(crypto->key_new(key, out, &k));
        crypto->key_free(k);
    }
}

static void derive(void)
{
    uint8_t out[32];
    for (int i = 0; i < INNER; i++)
        must(crypto->hkdf((mr_sv){(char *)key, 32}, (mr_sv){(char *)public, 32}, MR_SV("millrace pair"), out, 32));
}

static double best_seconds(void (*f)(void))
{
    double best = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        double t = now();
        f();
        t = now() - t;
        best = MR_MIN(best, t);
    }
    return best;
}

/* ---- sums ---- */

typedef struct sum {
    int n, lost;
    size_t n_values;
    mr_secure_client **clients;
    mr_secure_server *server;
    uint32_t *values;
    double client_s, server_s;
} sum;

static void answer(sum *s, int i, int stage, mr_sv ask, mr_str *out)
{
    mr_secure_client *c = s->clients[i];
    switch (stage) {
    case MR_FED_KEYS: must(mr_secure_client_keys(c, out)); break;
    case MR_FED_SHARES: must(mr_secure_client_shares(c, ask, out)); break;
    case MR_FED_TRAIN:
        memset(s->values, 0, s->n_values * 4);
        must(mr_secure_client_mask(c, ask, s->values, s->n_values));
        mr_str_append(out, s->values, s->n_values * 4);
        break;
    default: must(mr_secure_client_unmask(c, ask, out));
    }
}

static void run_stage(sum *s, int stage)
{
    for (int i = stage >= MR_FED_TRAIN ? s->lost : 0; i < s->n; i++) {
        mr_str ask = {0}, out = {0};
        double t0 = now();
        must(mr_secure_server_message(s->server, i, &ask));
        double t1 = now();
        answer(s, i, stage, mr_str_view(&ask), &out);
        double t2 = now();
        must(mr_secure_server_take(s->server, stage, i, mr_str_view(&out)));
        s->server_s += t1 - t0 + now() - t2;
        s->client_s += t2 - t1;
        mr_str_deinit(&ask);
        mr_str_deinit(&out);
    }
}

static void run_sum(sum *s)
{
    s->server = mr_secure_server_new(crypto, s->n_values);
    s->client_s = s->server_s = 0;
    double t = now();
    for (int i = 0; i < s->n; i++) {
        uint8_t seed[MR_SECURE_SEED] = {(uint8_t)i, (uint8_t)(i >> 8)};
        must(mr_secure_client_new(crypto, seed, &s->clients[i]));
    }
    s->client_s += now() - t;
    run_stage(s, MR_FED_KEYS);
    must(mr_secure_server_ask_shares(s->server, s->n * 2 / 3 + 1));
    run_stage(s, MR_FED_SHARES);
    must(mr_secure_server_ask_train(s->server));
    run_stage(s, MR_FED_TRAIN);
    must(mr_secure_server_ask_unmask(s->server));
    run_stage(s, MR_FED_UNMASK);
    t = now();
    must(mr_secure_server_finish(s->server, s->values));
    s->server_s += now() - t;
    for (size_t i = 0; i < s->n_values; i++)
        if (s->values[i])
            must(mr_error(MR_INTERNAL, "the sum is wrong"));
    for (int i = 0; i < s->n; i++)
        mr_secure_client_free(s->clients[i]);
    mr_secure_server_free(s->server);
}

static void measure_sum(int n, size_t n_values)
{
    sum s = {.n = n, .lost = n / 5, .n_values = n_values, .clients = mr_new_array(mr_secure_client *, n)};
    double client = 1e9, server = 1e9;
    s.values = mr_new_array(uint32_t, n_values);
    for (int i = 0; i < SUMS; i++) {
        run_sum(&s);
        client = MR_MIN(client, s.client_s / n);
        server = MR_MIN(server, s.server_s);
    }
    printf("client_of_%d_with_%zu_weights %.2f ms\n", n, n_values, client * 1e3);
    printf("server_of_%d_with_%zu_weights %.2f ms\n", n, n_values, server * 1e3);
    mr_free(s.values);
    mr_free(s.clients);
}

int main(void)
{
    must(mr_crypto_open(&crypto));
    must(crypto->key_new(key, public, &pair));
    words = mr_new_array(uint32_t, MASK_WORDS);
    printf("mask %.2f GB/s\n", MASK_WORDS * 4 / best_seconds(mask) / 1e9);
    printf("agreement %.1f us\n", best_seconds(agree) / INNER * 1e6);
    printf("key %.1f us\n", best_seconds(make_key) / INNER * 1e6);
    printf("hkdf %.2f us\n", best_seconds(derive) / INNER * 1e6);
    measure_sum(10, 100000);
    measure_sum(100, 10000);
    measure_sum(20, 1700000);
    mr_free(words);
    crypto->key_free(pair);
    return 0;
}
