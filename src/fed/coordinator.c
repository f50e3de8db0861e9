/* fed/coordinator.c -- carries out the decisions of dist/federated.c.
 *
 * Everything is guarded by `mu` except the averaging itself: when a round is complete and the next has
 * not begun, no answer is accepted, so only the thread of mr_fed_coordinator_round uses the updates.
 * Callbacks run without the lock: the clients to call back for are collected in `told` first.
 *
 * Updates of a plain round are kept until its end and added in the order of clients, so the sum does
 * not depend on the order in which they arrive.
 *
 * Invariants: `secure` exists only during an attempt of a secure round; `told` is empty whenever the lock is free;
 * a client is `asked` only for the present ticket and stage. */
#include "fed/coordinator.h"

#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/long_wait.h"
#include "fed/fixed.h"
#include "fed/secure.h"

enum { MAX_LISTED = 10 }; /* clients in a line of the log */

/* What the coordinator keeps of a client; dist/federated.c has its own record of who is chosen and has answered. */
typedef struct client {
    bool asked; /* for `stage` of the present ticket */
    mr_fed_stage stage;
    mr_fed_answer update; /* plain; empty until taken */
} client;

struct mr_fed_coordinator {
    mr_fed_coordinator_options o;
    mr_mutex mu;
    mr_cond changed; /* a round ended or must end, or the next deadline changed */
    mr_fed rounds MR_GUARDED_BY(mu);
    client *clients MR_GUARDED_BY(mu);
    const mr_crypto *crypto;                    /* secure */
    mr_secure_server *secure MR_GUARDED_BY(mu); /* of the present try */
    mr_fed_weights *weights MR_GUARDED_BY(mu);
    float *momentum; /* used by the thread of the round alone */
    MR_VEC(int) told MR_GUARDED_BY(mu); /* clients to call back for */
    int n_asked MR_GUARDED_BY(mu);      /* of the present try */
    int sum_clients
        MR_GUARDED_BY(mu); /* secure: clients that dealt shares; the scale of the fixed point depends on it */
    bool complete, failed MR_GUARDED_BY(mu);
    int next_free MR_GUARDED_BY(mu);
    mr_status *error MR_GUARDED_BY(mu); /* set by fail and stop */
    mr_status *refusal MR_GUARDED_BY(mu); /* the newest one, for the error message */
};

/* Takes over the weights, also when it fails. No round begins before the first
 * mr_fed_coordinator_round. */
mr_status *mr_fed_coordinator_new(const mr_fed_coordinator_options *o, mr_fed_weights *weights, mr_fed_coordinator **out)
{
    const char *wrong = mr_fed_check(&o->rounds);
    mr_fixed f;
    const mr_crypto *crypto = NULL;
    mr_status *st = wrong ? mr_invalid("federated: %s", wrong) : NULL;
    if (!st && (!isfinite(o->server_rate) || !(o->server_momentum >= 0 && o->server_momentum < 1)))
        st = mr_invalid("federated: server_momentum must be at least 0 and below 1, and server_rate finite");
    if (!st && o->config.most_examples < 1)
        st = mr_invalid("federated: most_examples must be at least 1, not %lld", (long long)o->config.most_examples);
    if (!st && o->rounds.secure)
        st = mr_fixed_init(&f, o->rounds.n_clients, o->config.clip, o->config.most_examples);
    if (!st && o->rounds.secure)
        st = mr_crypto_open(&crypto);
    if (st) {
        mr_fed_weights_unref(weights);
        return st;
    }
    mr_fed_coordinator *c = mr_new(mr_fed_coordinator);
    c->o = *o;
    c->o.config.secure = o->rounds.secure;
    c->crypto = crypto;
    c->weights = weights;
    c->clients = mr_new_array(client, o->rounds.n_clients);
    mr_mutex_init(&c->mu);
    mr_cond_init(&c->changed);
    mr_fed_init(&c->rounds, &o->rounds);
    c->rounds.hold = true;
    c->rounds.round = 0;
    *out = c;
    return NULL;
}

/* Drops everything that belongs to the present attempt. Needs the lock, or no other thread. */
static void forget_try(mr_fed_coordinator *c)
{
    for (int i = 0; i < c->rounds.o.n_clients; i++) {
        mr_fed_answer_deinit(&c->clients[i].update);
        c->clients[i].asked = false;
    }
    mr_secure_server_free(c->secure);
    c->secure = NULL;
}

/* Drops the answers of an unfinished attempt too. */
void mr_fed_coordinator_free(mr_fed_coordinator *c)
{
    if (!c)
        return;
    forget_try(c);
    mr_fed_deinit(&c->rounds);
    mr_fed_weights_unref(c->weights);
    mr_free(c->clients);
    mr_free(c->momentum);
    mr_vec_deinit(&c->told);
    mr_status_free(c->error);
    mr_status_free(c->refusal);
    mr_cond_deinit(&c->changed);
    mr_mutex_deinit(&c->mu);
    mr_free(c);
}

/* ---- carrying out decisions ---- */

/* Closes the stage before and composes the messages of the next one. */
static mr_status *next_secure_stage(mr_fed_coordinator *c, mr_fed_stage stage)
{
    MR_ASSERT(c->secure && stage != MR_FED_KEYS);
    if (stage == MR_FED_SHARES)
        return mr_secure_server_ask_shares(c->secure, c->rounds.threshold);
    return stage == MR_FED_TRAIN ? mr_secure_server_ask_train(c->secure) : mr_secure_server_ask_unmask(c->secure);
}

/* Records that a client has something to do. The first request of an attempt makes the secure sum. */
static void ask_locked(mr_fed_coordinator *c, const mr_fed_action *a) MR_REQUIRES(c->mu)
{
    bool first = a->stage == (c->rounds.o.secure ? MR_FED_KEYS : MR_FED_TRAIN);
    MR_ASSERT(a->client >= 0 && a->client < c->rounds.o.n_clients);
    if (first && c->rounds.o.secure && !c->secure)
        c->secure = mr_secure_server_new(c->crypto, c->weights->n + 2); /* the loss and the examples behind the weights */
    c->n_asked += first;
    c->clients[a->client].asked = true;
    c->clients[a->client].stage = a->stage;
    mr_vec_push(&c->told, a->client);
}

/* Accepts the answer of the present event. An answer that cannot be kept, for lack of memory, spoils
 * the attempt. */
static mr_status *take_locked(mr_fed_coordinator *c, const mr_fed_action *a, mr_fed_answer *answer) MR_REQUIRES(c->mu)
{
    client *k = &c->clients[a->client];
    MR_ASSERT(answer && a->client >= 0 && a->client < c->rounds.o.n_clients);
    k->asked = false;
    if (c->secure)
        return mr_secure_server_take(c->secure, answer->stage, a->client, mr_str_view(&answer->body));
    mr_fed_answer_deinit(&k->update);
    k->update = *answer;
    *answer = (mr_fed_answer){0};
    return NULL;
}

/* A new stage, or the end of the round: earlier requests do not count any more. */
static void unask_locked(mr_fed_coordinator *c) MR_REQUIRES(c->mu)
{
    for (int i = 0; i < c->rounds.o.n_clients; i++)
        c->clients[i].asked = false;
}

/* Carries out the actions. If one fails, the attempt is spoilt and a new one may begin; that cannot
 * fail here, so the recursion ends. */
static void carry_out_locked(mr_fed_coordinator *c, mr_fed_actions *todo, mr_fed_answer *answer) MR_REQUIRES(c->mu)
{
    mr_status *st = NULL;
    for (int i = 0; i < todo->n && !st; i++) {
        const mr_fed_action *a = &todo->p[i];
        switch (a->what) {
        case MR_FED_ASK: ask_locked(c, a); break;
        case MR_FED_TAKE: st = take_locked(c, a, answer); break;
        case MR_FED_NEXT:
            unask_locked(c);
            st = next_secure_stage(c, a->stage);
            if (a->stage == MR_FED_TRAIN)
                c->sum_clients = a->count;
            break;
        case MR_FED_COMPLETE:
            unask_locked(c);
            c->complete = true;
            break;
        case MR_FED_GIVE_UP:
            forget_try(c);
            c->n_asked = 0;
            break;
        case MR_FED_FAIL: c->failed = true; break;
        case MR_FED_DROP: break;
        }
    }
    todo->n = 0;
    if (!st)
        return;
    /* The error is kept for the message of a round that is given up. */
    mr_status_free(c->refusal);
    c->refusal = st;
    mr_fed_spoilt(&c->rounds, mr_now_ns(), todo);
    c->complete = false;
    carry_out_locked(c, todo, NULL);
}

/* Calls back for the collected clients; called without the lock. Takes over the list. */
static void call_back_clients(mr_fed_coordinator *c, int *told, int n)
{
    for (int i = 0; i < n && c->o.asked; i++)
        c->o.asked(c->o.arg, told[i]);
    mr_free(told);
}

/* Feeds one event to dist/federated.c, carries out what follows, releases the lock, and calls back. */
static void step_and_unlock(mr_fed_coordinator *c, mr_fed_event e, mr_fed_answer *answer) MR_RELEASE(c->mu) MR_NO_TSA
{
    mr_fed_actions todo = {0};
    mr_fed_step(&c->rounds, &e, mr_now_ns(), &todo);
    carry_out_locked(c, &todo, answer);
    mr_vec_deinit(&todo);
    int *told = c->told.p, n = c->told.n;
    MR_ASSERT(n >= 0 && (n == 0 || told));
    c->told.p = NULL;
    c->told.n = c->told.cap = 0;
    mr_cond_broadcast(&c->changed);
    mr_unlock(&c->mu);
    call_back_clients(c, told, n);
}

/* ---- clients ---- */

static bool is_client(const mr_fed_coordinator *c, int i) { return i >= 0 && i < c->o.rounds.n_clients; }

/* Numbers are given out round-robin, so that a late answer of a client that left rarely meets a new
 * one. */
int mr_fed_coordinator_join(mr_fed_coordinator *c)
{
    mr_lock(&c->mu);
    int n = c->rounds.o.n_clients, found = -1;
    for (int k = 0; k < n && found < 0; k++) {
        int i = (c->next_free + k) % n;
        if (!c->rounds.clients[i].there)
            found = i;
    }
    if (found < 0) {
        mr_unlock(&c->mu);
        return -1;
    }
    c->next_free = (found + 1) % n;
    step_and_unlock(c, (mr_fed_event){.message = MR_FED_JOIN, .client = found}, NULL);
    return found;
}

/* For clients with fixed numbers: those of a simulation. */
void mr_fed_coordinator_join_as(mr_fed_coordinator *c, int i)
{
    MR_ASSERT(is_client(c, i));
    mr_lock(&c->mu);
    step_and_unlock(c, (mr_fed_event){.message = MR_FED_JOIN, .client = i}, NULL);
}

/* A client that leaves while it is asked no longer owes an answer; dist/federated.c may choose another one. */
void mr_fed_coordinator_gone(mr_fed_coordinator *c, int i)
{
    if (!is_client(c, i))
        return;
    mr_lock(&c->mu);
    c->clients[i].asked = false;
    step_and_unlock(c, (mr_fed_event){.message = MR_FED_GONE, .client = i}, NULL);
}

int mr_fed_coordinator_there(mr_fed_coordinator *c)
{
    mr_lock(&c->mu);
    int n = c->rounds.n_there;
    mr_unlock(&c->mu);
    return n;
}

/* A different order of examples for each client, round and attempt, but the same in a repeated run. */
static uint64_t seed_for(const mr_fed_coordinator *c, int i)
{
    uint64_t s[4] = {c->rounds.o.seed, (uint64_t)c->rounds.round, (uint64_t)i, (uint64_t)c->rounds.ticket};
    return mr_hash64(s, sizeof s);
}

/* A client that was asked always has a part in the stage, so a failure to compose its message is a
 * bug. */
bool mr_fed_coordinator_task(mr_fed_coordinator *c, int i, mr_fed_task *out)
{
    mr_status *st = NULL;
    *out = (mr_fed_task){.kind = MR_FED_WAIT};
    if (!is_client(c, i))
        return false;
    mr_lock(&c->mu);
    bool asked = c->clients[i].asked && c->rounds.stage == c->clients[i].stage;
    if (asked) {
        *out = (mr_fed_task){.kind = MR_FED_WORK, .ticket = c->rounds.ticket, .stage = c->rounds.stage, .config = c->o.config};
        out->config.round = c->rounds.round;
        out->config.learn.seed = seed_for(c, i);
        if (c->secure) {
            out->config.sum_clients = c->sum_clients;
            st = mr_secure_server_message(c->secure, i, &out->ask);
        }
        if (out->stage == MR_FED_TRAIN)
            out->weights = mr_fed_weights_ref(c->weights);
    }
    mr_unlock(&c->mu);
    if (st) {
        MR_ASSERT(!st);
        mr_status_free(st);
        mr_fed_task_deinit(out);
        return false;
    }
    return asked;
}

/* False once the stage or the attempt has changed: the answer would be dropped. */
bool mr_fed_coordinator_waits(mr_fed_coordinator *c, int i, const mr_fed_task *t)
{
    mr_lock(&c->mu);
    bool waits = is_client(c, i) && c->clients[i].asked && c->rounds.ticket == t->ticket && c->rounds.stage == t->stage;
    mr_unlock(&c->mu);
    return waits;
}

/* One multiplication per value, without a branch, so that it vectorises. */
static bool all_finite(const float *v, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i] * 0; /* stays 0 unless a value is not finite */
    return sum == 0;
}

/* The update comes from another process: its size and all its values are checked. */
static mr_status *check_plain(const mr_fed_coordinator *c, const mr_fed_answer *a)
{
    size_t want = c->weights->n * sizeof(float);
    if (a->body.n != want)
        return mr_invalid("federated: an update has %zu bytes, expected %zu", a->body.n, want);
    if (a->examples < 1 || !isfinite(a->loss) || !all_finite((const float *)(const void *)a->body.p, c->weights->n))
        return mr_invalid("federated: an update has %lld examples, or values that are not finite",
                          (long long)a->examples);
    return NULL;
}

/* A late answer passes here: dist/federated.c drops it, and its client is not to blame. */
static mr_status *check_locked(mr_fed_coordinator *c, int i, const mr_fed_answer *a) MR_REQUIRES(c->mu)
{
    if (a->refused)
        return mr_error(MR_ABORTED, "federated: client %d refused: %.*s", i, (int)MR_MIN(a->body.n, 500), mr_str_z(&a->body));
    if (!c->clients[i].asked || a->ticket != c->rounds.ticket || a->stage != c->rounds.stage)
        return NULL; /* late: it will be dropped */
    return c->secure ? mr_secure_server_check(c->secure, a->stage, i, mr_str_view(&a->body)) : check_plain(c, a);
}

/* Checks the answer and reports it to dist/federated.c. A refusal by the client itself is not an error
 * to return to it. */
mr_status *mr_fed_coordinator_answer(mr_fed_coordinator *c, int i, mr_fed_answer *a)
{
    if (!is_client(c, i)) {
        mr_fed_answer_deinit(a);
        return mr_invalid("federated: unknown client %d", i);
    }
    mr_lock(&c->mu);
    mr_fed_event e = {MR_FED_ANSWER, i, a->ticket, a->stage};
    mr_status *st = check_locked(c, i, a);
    if (st) {
        e.message = MR_FED_REFUSE;
        if (c->clients[i].asked && a->ticket == c->rounds.ticket && a->stage == c->rounds.stage) {
            c->clients[i].asked = false;
            mr_status_free(c->refusal);
            c->refusal = mr_status_copy(st);
        }
    }
    /* A refusal and a malformed answer both take the client out of the attempt. */
    step_and_unlock(c, e, a);
    bool refused = a->refused;
    mr_fed_answer_deinit(a);
    if (refused) {
        mr_status_free(st);
        return NULL;
    }
    return st;
}

/* ---- averaging ---- */

/* The mean of the updates, weighted by examples and added in the order of clients. A client may claim
 * any number of examples, so it is limited. */
static mr_status *mean_of_updates(mr_fed_coordinator *c, float *mean, mr_fed_coordinator_report *r)
{
    size_t n = c->weights->n;
    double total = 0;
    double *sum = mr_try_calloc(MR_MAX(n, 1), sizeof *sum);
    if (!sum)
        return mr_error(MR_RESOURCE_EXHAUSTED, "federated: out of memory to average %zu weights", n);
    for (int k = 0; k < c->rounds.o.n_clients; k++) {
        const mr_fed_answer *a = &c->clients[k].update;
        if (!a->body.n)
            continue;
        const float *v = (const float *)(const void *)a->body.p;
        int64_t examples = MR_MIN(a->examples, c->o.config.most_examples);
        double weight = (double)examples;
        /* The sums are doubles, so that many weighted floats can be added without losing digits. */
        for (size_t i = 0; i < n; i++)
            sum[i] += weight * v[i];
        total += weight;
        r->loss += weight * a->loss;
        r->examples += examples;
        r->updates++;
    }
    for (size_t i = 0; i < n; i++)
        mean[i] = (float)(sum[i] / total);
    r->loss /= total;
    mr_free(sum);
    return NULL;
}

/* The mean from a secure sum, which also contains the loss and the number of examples. */
static mr_status *mean_of_sum(mr_fed_coordinator *c, float *mean, mr_fed_coordinator_report *r)
{
    mr_status *st = NULL;
    mr_fixed f;
    size_t n = c->weights->n;
    uint32_t *sum = mr_try_calloc(n + 2, sizeof *sum);
    if (!sum)
        return mr_error(MR_RESOURCE_EXHAUSTED, "federated: out of memory to average %zu weights", n);
    r->updates = mr_secure_server_count(c->secure);
    MR_GO(mr_fixed_init(&f, c->sum_clients, c->o.config.clip, c->o.config.most_examples));
    MR_GO(mr_secure_server_finish(c->secure, sum));
    MR_GO(mr_fixed_decode(&f, sum, n + 1, mean, &r->examples));
    r->loss = mean[n];
out:
    mr_free(sum);
    return st;
}

/* Adds the mean update to a new copy of the weights, because clients may still hold the old ones. */
static mr_status *apply_mean(mr_fed_coordinator *c, const float *mean)
{
    size_t n = c->weights->n;
    double rate = c->o.server_rate ? c->o.server_rate : 1;
    mr_fed_weights *w = mr_fed_weights_new(n);
    if (w && c->o.server_momentum > 0 && !c->momentum)
        c->momentum = mr_try_calloc(MR_MAX(n, 1), sizeof *c->momentum);
    if (!w || (c->o.server_momentum > 0 && !c->momentum)) {
        mr_fed_weights_unref(w);
        return mr_error(MR_RESOURCE_EXHAUSTED, "federated: out of memory for %zu weights", n);
    }
    /* Momentum: each step is the mean plus a share of the last step. */
    for (size_t i = 0; i < n; i++) {
        double step = mean[i];
        if (c->momentum)
            c->momentum[i] = (float)(step += c->o.server_momentum * c->momentum[i]);
        w->v[i] = (float)(c->weights->v[i] + rate * step);
    }
    mr_lock(&c->mu);
    mr_fed_weights *former = c->weights;
    c->weights = w;
    mr_unlock(&c->mu);
    mr_fed_weights_unref(former);
    return NULL;
}

/* Computes the mean of the updates and applies it to the weights. Runs without the lock: see the head of this
 * file. */
static mr_status *average_updates(mr_fed_coordinator *c, mr_fed_coordinator_report *r)
{
    MR_ASSERT(c->complete);
    float *mean = mr_try_calloc(c->weights->n + 1, sizeof *mean);
    if (!mean)
        return mr_error(MR_RESOURCE_EXHAUSTED, "federated: out of memory to average %zu weights", c->weights->n);
    mr_status *st = c->secure ? mean_of_sum(c, mean, r) : mean_of_updates(c, mean, r);
    if (!st)
        st = apply_mean(c, mean);
    mr_free(mean);
    return st;
}

/* ---- rounds ---- */

/* The error of a round that did not get enough clients in time. */
static mr_status *too_few(mr_fed_coordinator *c)
{
    return mr_error(MR_DEADLINE_EXCEEDED, "federated: round %lld waited %.1f s for clients: %d are connected",
                    (long long)c->rounds.round, (double)c->o.wait_ns / 1e9, c->rounds.n_there);
}

/* Names the newest refusal, which is usually the cause. */
static mr_status *too_often(mr_fed_coordinator *c)
{
    return mr_error(MR_ABORTED, "federated: round %lld was given up after %d attempts; the last error: %s",
                    (long long)c->rounds.round, c->rounds.tries,
                    c->refusal ? mr_status_message(c->refusal) : "too few updates in time");
}

/* Appends the numbers of the connected clients, or of those that owe an answer to the present stage. */
static void list_clients_locked(mr_fed_coordinator *c, bool owe, mr_str *out) MR_REQUIRES(c->mu)
{
    int n = 0;
    for (int i = 0; i < c->rounds.o.n_clients; i++) {
        const mr_fed_client *k = &c->rounds.clients[i];
        if (!(owe ? k->chosen && !k->answered : k->there))
            continue;
        if (n++ < MAX_LISTED)
            mr_str_printf(out, n > 1 ? ", %d" : "%d", i);
    }
    if (n > MAX_LISTED)
        mr_str_printf(out, " and %d more", n - MAX_LISTED);
}

/* Logs which clients a round waits for: those it needs to begin, or those that have not answered its
 * present stage. A pause between two attempts is not a wait for clients. */
static void tell_wait_locked(mr_fed_coordinator *c, double seconds) MR_REQUIRES(c->mu)
{
    static const char *const stages[] = {"", "keys", "shares", "training", "unmasking"};
    const mr_fed *f = &c->rounds;
    int least = mr_fed_least(f);
    mr_str who = {0};
    list_clients_locked(c, f->stage != MR_FED_REST, &who);
    if (f->stage != MR_FED_REST)
        mr_info("Still waiting for clients %s of federated round %lld: they have not answered its stage '%s' (%.0f s)",
                mr_str_z(&who), (long long)f->round, stages[f->stage], seconds);
    else if (f->n_there < least)
        mr_info("Still waiting for clients of federated round %lld: it needs %d, %d are connected (%s), %d are missing "
                "(%.0f s)",
                (long long)f->round, least, f->n_there, f->n_there ? mr_str_z(&who) : "none", least - f->n_there,
                seconds);
    mr_str_deinit(&who);
}

/* Waits for the end of the round. Meanwhile it reports passing time to dist/federated.c when that is
 * due, and logs long waits, each stage separately. Returns with the lock held. */
static mr_status *wait_locked(mr_fed_coordinator *c) MR_REQUIRES(c->mu) MR_NO_TSA
{
    int64_t idle_ns = mr_now_ns(); /* since when no client is asked */
    int64_t passed = 0;            /* the end of a pause already reported: too few clients may keep it idle */
    mr_fed_stage stage = c->rounds.stage;
    double seconds;
    mr_long_wait wait;
    mr_long_wait_begin(&wait, idle_ns);
    for (;;) {
        int64_t now = mr_now_ns(), due = mr_fed_next_ns(&c->rounds);
        if (c->error)
            return mr_status_copy(c->error);
        if (c->complete)
            return NULL;
        if (c->failed)
            return too_often(c);
        /* wait_ns limits only the time in which no client works: a stage has its own deadline (dist/federated.c). */
        bool idle = c->rounds.stage == MR_FED_REST;
        if (!idle)
            idle_ns = now;
        int64_t limit = idle && c->o.wait_ns ? idle_ns + c->o.wait_ns : 0;
        if (limit && now >= limit)
            return too_few(c);
        if (due && due <= now && !(idle && due == passed)) {
            passed = idle ? due : 0;
            step_and_unlock(c, (mr_fed_event){.message = MR_FED_TIME}, NULL);
            mr_lock(&c->mu);
            continue;
        }
        if (c->rounds.stage != stage)
            mr_long_wait_begin(&wait, now);
        stage = c->rounds.stage;
        if (mr_long_wait_due(&wait, now, &seconds))
            tell_wait_locked(c, seconds);
        if (due > now)
            limit = limit ? MR_MIN(limit, due) : due;
        mr_cond_wait_until(&c->changed, &c->mu, limit ? MR_MIN(limit, wait.next_ns) : wait.next_ns);
    }
}

/* Starts a round, or repeats a spoilt one (what), and releases the lock. The time event starts an attempt at once
 * if enough clients are connected. */
static void go_and_unlock(mr_fed_coordinator *c, void (*what)(mr_fed *, int64_t, mr_fed_actions *)) MR_RELEASE(c->mu) MR_NO_TSA
{
    mr_fed_actions todo = {0};
    if (c->rounds.stage == MR_FED_REST) {
        forget_try(c);
        c->n_asked = 0;
    }
    c->complete = false;
    what(&c->rounds, mr_now_ns(), &todo);
    carry_out_locked(c, &todo, NULL);
    mr_vec_deinit(&todo);
    step_and_unlock(c, (mr_fed_event){.message = MR_FED_TIME}, NULL);
}

/* Repeats attempts until one can be averaged. DATA_LOSS means that a client of a secure sum lied; then
 * it tries again, perhaps with others. */
static mr_status *run_round(mr_fed_coordinator *c, mr_fed_coordinator_report *r)
{
    for (;;) {
        mr_lock(&c->mu);
        mr_status *st = wait_locked(c);
        *r = (mr_fed_coordinator_report){c->rounds.round, c->rounds.tries, c->n_asked, .there = c->rounds.n_there};
        mr_unlock(&c->mu);
        MR_TRY(st);
        st = average_updates(c, r);
        if (mr_status_code(st) != MR_DATA_LOSS)
            return st;
        mr_lock(&c->mu);
        mr_status_free(c->refusal);
        c->refusal = st;
        go_and_unlock(c, mr_fed_spoilt);
    }
}

/* For one thread at a time: it watches the time and averages. */
mr_status *mr_fed_coordinator_round(mr_fed_coordinator *c, mr_fed_coordinator_report *out)
{
    int64_t start_ns = mr_now_ns();
    mr_fed_coordinator_report unused;
    out = out ? out : &unused;
    mr_lock(&c->mu);
    go_and_unlock(c, mr_fed_go);
    MR_TRY(run_round(c, out));
    out->seconds = (double)(mr_now_ns() - start_ns) / 1e9;
    return NULL;
}

/* Tasks that were handed out keep their rate. */
void mr_fed_coordinator_rate(mr_fed_coordinator *c, float rate)
{
    mr_lock(&c->mu);
    c->o.config.learn.rate = rate;
    mr_unlock(&c->mu);
}

/* The weights of the last complete round; later rounds do not change them. */
mr_fed_weights *mr_fed_coordinator_weights(mr_fed_coordinator *c)
{
    mr_lock(&c->mu);
    mr_fed_weights *w = mr_fed_weights_ref(c->weights);
    mr_unlock(&c->mu);
    return w;
}

/* The first error that is not a consequence of another one is kept. */
void mr_fed_coordinator_fail(mr_fed_coordinator *c, mr_status *st)
{
    mr_lock(&c->mu);
    mr_status_update(&c->error, st);
    mr_cond_broadcast(&c->changed);
    mr_unlock(&c->mu);
}

/* From any thread. */
void mr_fed_coordinator_stop(mr_fed_coordinator *c)
{
    mr_fed_coordinator_fail(c, mr_error(MR_CANCELLED, "federated: the rounds were stopped"));
}
