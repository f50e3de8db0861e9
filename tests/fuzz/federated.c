/* tests/fuzz/federated.c -- messages of federated averaging: tasks, answers, secure sums with damaged messages, and
 * rounds of clients that send anything.
 *
 * A secure sum whose messages were damaged on the way may fail, but if it succeeds, the result is the sum of the
 * updates that the server accepted. */
#include "base/memory.h"
#include "dist/federated.h"
#include "fed/secure.h"
#include "fed/task.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"

enum { TASKS, ANSWERS, SUMS, ROUNDS, N_FORMS };
enum { TASKS_OK, ANSWERS_OK, SUMS_OK, ROUNDS_OK, N_COUNTS };


/* ---- tasks and answers ---- */

static void put_bytes(fuzz_rng *r, mr_str *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        mr_str_appendc(out, (char)fuzz_u64(r));
}

static mr_fed_task make_task(fuzz_rng *r)
{
    mr_fed_task t = {.kind = (mr_fed_kind)fuzz_below(r, 3), .ticket = fuzz_odd_int(r), .stage = (mr_fed_stage)fuzz_below(r, 5)};
    t.config = (mr_fed_config){.round = fuzz_odd_int(r), .learn = {(int64_t)fuzz_below(r, 10), (int64_t)fuzz_below(r, 100), 0.1f, fuzz_u64(r)},
                               .secure = fuzz_once_in(r, 2), .sum_clients = fuzz_odd_int(r), .clip = 4, .most_examples = fuzz_odd_int(r)};
    if (t.kind == MR_FED_WORK && t.stage == MR_FED_TRAIN) {
        t.weights = mr_fed_weights_new(fuzz_below(r, 20));
        memset(t.weights->v, 0x3e, t.weights->n * sizeof(float));
    } else {
        t.config.secure = true;
    }
    put_bytes(r, &t.ask, fuzz_below(r, 100));
    return t;
}

static void read_task(fuzz_run *r, mr_sv bytes, const mr_fed_task *sent)
{
    mr_fed_task t;
    mr_sv exact = fuzz_exact(bytes);
    mr_status *st = mr_fed_task_decode(exact, &t);
    fuzz_say(r, "a task of %zu bytes: %s", bytes.n, mr_status_message(st));
    r->counts[TASKS_OK] += !st;
    if (!st && sent && (t.ticket != sent->ticket || t.ask.n != sent->ask.n || (t.weights != NULL) != (sent->weights != NULL)))
        fuzz_fail("a task differs after a round trip");
    if (!st)
        mr_fed_task_deinit(&t);
    mr_status_free(st);
    mr_free((void *)(uintptr_t)exact.p);
}

static void try_task(fuzz_run *r)
{
    mr_fed_task t = make_task(&r->rng);
    mr_bytes b = {0};
    mr_str s = {0};
    mr_sv flat;
    fuzz_must(mr_fed_task_encode(&t, &b), "encoding a task");
    fuzz_must(mr_bytes_flat(&b, &flat), "a flat task");
    mr_str_append(&s, flat.p, flat.n);
    bool whole = fuzz_once_in(&r->rng, 4);
    if (!whole)
        fuzz_damage(&r->rng, &s);
    fuzz_note(r, mr_str_view(&s));
    read_task(r, mr_str_view(&s), whole ? &t : NULL);
    mr_str_deinit(&s);
    mr_bytes_deinit(&b);
    mr_fed_task_deinit(&t);
}

static void read_answer(fuzz_run *r, mr_sv bytes)
{
    mr_fed_answer a;
    mr_sv name, exact = fuzz_exact(bytes);
    mr_status *st = mr_fed_answer_decode(exact, &name, &a);
    fuzz_say(r, "an answer of %zu bytes: %s", bytes.n, mr_status_message(st));
    r->counts[ANSWERS_OK] += !st;
    if (!st && (name.n == 0 || name.n > MR_FED_NAME))
        fuzz_fail("a name of %zu bytes", name.n);
    if (!st)
        mr_fed_answer_deinit(&a);
    mr_status_free(st);
    mr_free((void *)(uintptr_t)exact.p);
}

static void try_answer(fuzz_run *r)
{
    fuzz_rng *g = &r->rng;
    mr_fed_answer a = {.ticket = fuzz_odd_int(g), .stage = (mr_fed_stage)fuzz_below(g, 5), .refused = fuzz_once_in(g, 3),
                       .examples = (int64_t)fuzz_below(g, 1000), .loss = 0.5};
    mr_str s = {0}, name = {0};
    put_bytes(g, &name, 1 + fuzz_below(g, MR_FED_NAME));
    put_bytes(g, &a.body, fuzz_below(g, 200));
    fuzz_must(mr_fed_answer_encode(mr_str_view(&name), &a, &s), "encoding an answer");
    if (!fuzz_once_in(g, 4))
        fuzz_damage(g, &s);
    fuzz_note(r, mr_str_view(&s));
    read_answer(r, mr_str_view(&s));
    mr_str_deinit(&s);
    mr_str_deinit(&name);
    mr_fed_answer_deinit(&a);
}

/* ---- secure sums ---- */

enum { MOST = 6, VALUES = 3 };

typedef struct group {
    int n;
    mr_secure_client *clients[MOST];
    mr_secure_server *server;
    bool counted[MOST];
    int troubles; /* messages that may still be damaged */
} group;

static void spoil(fuzz_run *r, group *g, mr_str *s)
{
    if (g->troubles && fuzz_once_in(&r->rng, 6)) {
        g->troubles--;
        fuzz_damage(&r->rng, s);
    }
}

static mr_status *client_does(group *g, int i, mr_fed_stage stage, mr_sv ask, mr_str *out)
{
    uint32_t values[VALUES] = {(uint32_t)i + 1, 1000000007u * (uint32_t)(i + 1), 5};
    mr_secure_client *c = g->clients[i];
    switch (stage) {
    case MR_FED_KEYS: return mr_secure_client_keys(c, out);
    case MR_FED_SHARES: return mr_secure_client_shares(c, ask, out);
    case MR_FED_TRAIN:
        MR_TRY(mr_secure_client_mask(c, ask, values, VALUES));
        mr_str_append(out, values, sizeof values);
        return NULL;
    default: return mr_secure_client_unmask(c, ask, out);
    }
}

/* The contents of a vector are up to its client: only the length is damaged. */
static void spoil_answer(fuzz_run *r, group *g, mr_fed_stage stage, mr_str *s)
{
    size_t n = s->n;
    if (stage != MR_FED_TRAIN)
        spoil(r, g, s);
    else if (fuzz_once_in(&r->rng, 20) && n)
        s->n -= 1 + fuzz_below(&r->rng, n);
}

static void do_stage(fuzz_run *r, group *g, mr_fed_stage stage)
{
    for (int i = 0; i < g->n; i++) {
        mr_str ask = {0}, answer = {0};
        mr_status *st = fuzz_once_in(&r->rng, 12) ? mr_error(MR_CANCELLED, "lost") : NULL;
        if (!st)
            st = mr_secure_server_message(g->server, i, &ask);
        if (!st) {
            spoil(r, g, &ask);
            mr_sv exact = fuzz_exact(mr_str_view(&ask));
            st = client_does(g, i, stage, exact, &answer);
            mr_free((void *)(uintptr_t)exact.p);
        }
        if (!st) {
            spoil_answer(r, g, stage, &answer);
            mr_sv exact = fuzz_exact(mr_str_view(&answer));
            bool foreign = stage != MR_FED_TRAIN && fuzz_once_in(&r->rng, 40);
            st = mr_secure_server_take(g->server, stage, foreign ? fuzz_odd_int(&r->rng) : i, exact);
            mr_free((void *)(uintptr_t)exact.p);
        }
        if (!st && stage == MR_FED_TRAIN)
            g->counted[i] = true;
        fuzz_say(r, "stage %d client %d: %s", (int)stage, i, mr_status_message(st));
        mr_status_free(st);
        mr_str_deinit(&ask);
        mr_str_deinit(&answer);
    }
}

static mr_status *do_stages(fuzz_run *r, group *g, uint32_t *sum)
{
    do_stage(r, g, MR_FED_KEYS);
    int n = mr_secure_server_count(g->server);
    MR_TRY(mr_secure_server_ask_shares(g->server, n / 2 + 1));
    do_stage(r, g, MR_FED_SHARES);
    MR_TRY(mr_secure_server_ask_train(g->server));
    do_stage(r, g, MR_FED_TRAIN);
    MR_TRY(mr_secure_server_ask_unmask(g->server));
    do_stage(r, g, MR_FED_UNMASK);
    return mr_secure_server_finish(g->server, sum);
}

static void check_sum(const group *g, const uint32_t *sum)
{
    uint32_t want[VALUES] = {0};
    for (uint32_t i = 0; i < (uint32_t)g->n; i++)
        if (g->counted[i]) {
            want[0] += i + 1;
            want[1] += 1000000007u * (i + 1);
            want[2] += 5;
        }
    if (memcmp(want, sum, sizeof want) != 0)
        fuzz_fail("a sum of %u %u %u, expected %u %u %u", sum[0], sum[1], sum[2], want[0], want[1], want[2]);
}

static void try_sum(fuzz_run *r)
{
    const mr_crypto *crypto;
    fuzz_must(mr_crypto_open(&crypto), "libmillrace-crypto.so");
    group g = {.n = 3 + (int)fuzz_below(&r->rng, MOST - 2), .server = mr_secure_server_new(crypto, VALUES)};
    uint32_t sum[VALUES];
    g.troubles = (int)fuzz_below(&r->rng, 4);
    for (int i = 0; i < g.n; i++) {
        uint64_t seed[4] = {fuzz_u64(&r->rng), fuzz_u64(&r->rng), fuzz_u64(&r->rng), fuzz_u64(&r->rng)};
        fuzz_must(mr_secure_client_new(crypto, (const uint8_t *)seed, &g.clients[i]), "a client");
    }
    mr_status *st = do_stages(r, &g, sum);
    if (!st)
        check_sum(&g, sum);
    r->counts[SUMS_OK] += !st;
    mr_status_free(st);
    for (int i = 0; i < g.n; i++)
        mr_secure_client_free(g.clients[i]);
    mr_secure_server_free(g.server);
}

/* ---- rounds ---- */

static int64_t some_number(fuzz_rng *r, int64_t near) { return fuzz_once_in(r, 8) ? fuzz_odd_int(r) : near; }

static void check_rounds(const mr_fed *f)
{
    int there = 0, open = 0;
    for (int i = 0; i < f->o.n_clients; i++) {
        there += f->clients[i].there;
        open += f->clients[i].chosen && !f->clients[i].answered;
    }
    if (there != f->n_there || (f->stage != MR_FED_REST && open != f->n_open))
        fuzz_fail("%d clients are present and %d are asked, expected %d and %d", there, open, f->n_there, f->n_open);
    if (f->stage != MR_FED_REST && f->n_open == 0)
        fuzz_fail("a stage waits although no client is asked");
}

static void try_rounds(fuzz_run *r)
{
    fuzz_rng *g = &r->rng;
    mr_fed f;
    mr_fed_options o = {.n_clients = 1 + (int)fuzz_below(g, 8), .fraction = (double)fuzz_below(g, 11) / 10, .over = (double)fuzz_below(g, 20) / 10,
                        .suffice = (double)fuzz_below(g, 11) / 10, .secure = fuzz_once_in(g, 2), .stage_ns = 50, .pause_ns = 5,
                        .seed = fuzz_u64(g)};
    mr_fed_init(&f, &o);
    int64_t now = 0, completed = 0;
    for (int k = 0; k < 300; k++, now += (int64_t)fuzz_below(g, 4)) {
        mr_fed_actions out = {0};
        mr_fed_event e = {(mr_fed_message)fuzz_below(g, 5),
                          some_number(g, (int64_t)fuzz_below(g, (uint64_t)o.n_clients)), some_number(g, f.ticket),
                          some_number(g, f.stage)};
        if (e.message == MR_FED_GONE && !fuzz_once_in(g, 4))
            e.message = MR_FED_ANSWER;
        mr_fed_step(&f, &e, now, &out);
        if (fuzz_once_in(g, 50))
            mr_fed_spoilt(&f, now, &out);
        if (f.hold)
            mr_fed_go(&f, now, &out);
        for (int i = 0; i < out.n; i++)
            completed += out.p[i].what == MR_FED_COMPLETE;
        mr_vec_deinit(&out);
        check_rounds(&f);
    }
    r->counts[ROUNDS_OK] += completed > 0;
    mr_fed_deinit(&f);
}

/* ---- the target ---- */

static int64_t n_runs(void) { return 100000; }
static int n_counts(void) { return N_COUNTS; }

static void run(fuzz_run *r)
{
    static void (*const forms[N_FORMS])(fuzz_run *) = {try_task, try_answer, try_sum, try_rounds};
    forms[r->number % N_FORMS](r);
}

static void replay(fuzz_run *r, mr_sv input)
{
    read_task(r, input, NULL);
    read_answer(r, input);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    static const char *const names[] = {"tasks", "answers", "sums", "rounds"};
    return fuzz_shares("federated", names, counts, N_COUNTS, runs, N_FORMS, out, err);
}

const fuzz_target fuzz_federated = {.name = "federated",
                                    .about = "tasks, answers, secure sums and rounds of federated averaging",
                                    .n_runs = n_runs,
                                    .n_counts = n_counts,
                                    .run = run,
                                    .replay = replay,
                                    .summary = summary};
