/* fed/worker.c -- a client's stages: training, and the steps of a secure sum around it.
 *
 * In a secure sum the mean loss follows the differences as one more value, so that only its sum is
 * revealed. */
#include "fed/worker.h"

#include "base/clock.h"
#include "fed/fixed.h"

/* Wipes the secrets of an unfinished sum. */
void mr_fed_worker_deinit(mr_fed_worker *w)
{
    mr_secure_client_free(w->secure);
    *w = (mr_fed_worker){0};
}

/* Makes new keys for each ticket; a seed is used once. Without the cryptography this process cannot take part in any
 * secure round, so that is *trouble. */
static mr_status *do_keys(mr_fed_worker *w, const mr_fed_task *t, mr_str *out, mr_status **trouble)
{
    uint8_t seed[MR_SECURE_SEED];
    const mr_crypto *crypto;
    if ((*trouble = mr_crypto_open(&crypto)))
        return mr_error(MR_ABORTED, "federated: no secure sums");
    MR_TRY(mr_random_secret(seed, sizeof seed));
    mr_secure_client_free(w->secure);
    w->secure = NULL;
    w->ticket = t->ticket;
    mr_status *st = mr_secure_client_new(crypto, seed, &w->secure);
    explicit_bzero(seed, sizeof seed);
    return st ? st : mr_secure_client_keys(w->secure, out);
}

/* A later stage must belong to the keys of the same ticket: secrets of two sums are never mixed. */
static mr_status *check_secure(const mr_fed_worker *w, const mr_fed_task *t)
{
    if (w->secure && w->ticket == t->ticket)
        return NULL;
    return mr_error(MR_FAILED_PRECONDITION, "federated: this client gave no keys for ticket %lld",
                    (long long)t->ticket);
}

/* The update of a plain round: the differences as they are. */
static mr_status *put_floats(const float *v, size_t n, mr_str *out)
{
    if (!mr_str_try_append(out, v, n * sizeof *v))
        return mr_error(MR_RESOURCE_EXHAUSTED, "federated: out of memory for an update of %zu weights", n);
    return NULL;
}

/* v has n differences and the loss after them. The words are encoded and masked in place in *out; out->n is set
 * only on success. */
static mr_status *put_masked(mr_fed_worker *w, const mr_fed_task *t, const float *v, size_t n, mr_str *out)
{
    mr_fixed f;
    MR_ASSERT(w->secure);
    MR_TRY(mr_fixed_init(&f, t->config.sum_clients, t->config.clip, t->config.most_examples));
    if (!mr_str_try_reserve(out, (n + 2) * sizeof(uint32_t)))
        return mr_error(MR_RESOURCE_EXHAUSTED, "federated: out of memory for an update of %zu weights", n);
    uint32_t *words = (uint32_t *)(void *)out->p;
    MR_TRY(mr_fixed_encode(&f, v, n + 1, w->examples.n, words));
    MR_TRY(mr_secure_client_mask(w->secure, mr_str_view(&t->ask), words, n + 2));
    out->n = (n + 2) * sizeof *words;
    return NULL;
}

/* Trains and fills in the answer. *trouble is an error of this process (the session, CANCELLED); it is set in
 * addition to the status that is returned. The loss and the number of examples of a secure round are part of the
 * masked vector only. */
static mr_status *do_training(mr_fed_worker *w, mr_learner *l, const mr_fed_task *t, mr_learner_stop stop, mr_fed_answer *out,
                              mr_status **trouble)
{
    mr_status *st = NULL;
    size_t n, had = t->weights->n;
    MR_ASSERT(t->stage == MR_FED_TRAIN);
    mr_learner_result r;
    MR_TRY(mr_learner_size(l->parameters, l->n_parameters, &n));
    if (n != had)
        return mr_invalid("federated: the server's model has %zu weights, this client's has %zu", had, n);
    float *v = mr_try_calloc(n + 1, sizeof *v);
    if (!v)
        return mr_error(MR_RESOURCE_EXHAUSTED, "federated: out of memory for an update of %zu weights", n);
    if ((*trouble = mr_learner_train(l, &t->config.learn, &w->examples, t->weights->v, n, v, stop, &r)))
        MR_GO(mr_error(MR_ABORTED, "federated: training failed"));
    v[n] = (float)r.loss;
    out->examples = t->config.secure ? 0 : w->examples.n;
    out->loss = t->config.secure ? 0 : r.loss;
    MR_GO(t->config.secure ? put_masked(w, t, v, n, &out->body) : put_floats(v, n, &out->body));
out:
    mr_free(v);
    return st;
}

/* Errors of the task become a refusal. Errors of this process (`trouble`) are returned too, and the answer is a
 * refusal then as well. */
mr_status *mr_fed_worker_do(mr_fed_worker *w, mr_learner *l, const mr_fed_task *t, mr_learner_stop stop, mr_fed_answer *out)
{
    mr_status *st = NULL, *trouble = NULL;
    *out = (mr_fed_answer){.ticket = t->ticket, .stage = t->stage};
    if (t->config.secure && t->stage != MR_FED_KEYS)
        st = check_secure(w, t);
    if (!st)
        switch (t->stage) {
        case MR_FED_KEYS: st = do_keys(w, t, &out->body, &trouble); break;
        case MR_FED_SHARES: st = mr_secure_client_shares(w->secure, mr_str_view(&t->ask), &out->body); break;
        case MR_FED_TRAIN: st = do_training(w, l, t, stop, out, &trouble); break;
        case MR_FED_UNMASK: st = mr_secure_client_unmask(w->secure, mr_str_view(&t->ask), &out->body); break;
        default: st = mr_invalid("federated: unknown stage %d", (int)t->stage);
        }
    if (st) { /* drop a partial message */
        out->refused = true;
        mr_str_clear(&out->body);
        mr_str_appendz(&out->body, mr_status_message(trouble ? trouble : st));
        mr_status_free(st);
    }
    return trouble;
}
