/* dist/federated_test.c -- rounds told as stories, and thousands of them from seeds. */
#include "dist/federated.h"

#include "base/str.h"
#include "tests/harness/test.h"

typedef struct story {
    mr_fed f;
    mr_str log;
    int64_t now;
} story;

static const char *const stages[] = {"rest", "keys", "shares", "train", "unmask"};

static const char *tell(story *t, mr_fed_actions *out)
{
    mr_str_clear(&t->log);
    for (int i = 0; i < out->n; i++) {
        const mr_fed_action *a = &out->p[i];
        static const char *const names[] = {"ask", "take", "drop", "next", "complete", "give up", "fail"};
        mr_str_printf(&t->log, "%s%s", i ? ", " : "", names[a->what]);
        if (a->what == MR_FED_ASK)
            mr_str_printf(&t->log, " %d %s#%d", a->client, stages[a->stage], (int)a->ticket);
        else if (a->what == MR_FED_NEXT)
            mr_str_printf(&t->log, " %s %d", stages[a->stage], a->count);
        else if (a->what == MR_FED_COMPLETE)
            mr_str_printf(&t->log, " %d", a->count);
    }
    mr_vec_deinit(out);
    return mr_str_z(&t->log);
}

static const char *say(story *t, mr_fed_message message, int64_t client, int64_t ticket, mr_fed_stage stage)
{
    mr_fed_actions out = {0};
    mr_fed_step(&t->f, &(mr_fed_event){message, client, ticket, stage}, t->now, &out);
    return tell(t, &out);
}

static const char *train(story *t, int client, int64_t ticket) { return say(t, MR_FED_ANSWER, client, ticket, MR_FED_TRAIN); }
static const char *gone(story *t, int client) { return say(t, MR_FED_GONE, client, 0, 0); }
static const char *at(story *t, int64_t now)
{
    t->now = now;
    return say(t, MR_FED_TIME, 0, 0, 0);
}

static const char *go(story *t)
{
    mr_fed_actions out = {0};
    mr_fed_go(&t->f, t->now, &out);
    return tell(t, &out);
}

static story begin(mr_fed_options o)
{
    story t = {0};
    o.wait_for = o.wait_for ? o.wait_for : o.n_clients;
    o.stage_ns = 100;
    mr_fed_init(&t.f, &o);
    for (int i = 0; i + 1 < o.n_clients; i++)
        say(&t, MR_FED_JOIN, i, 0, 0);
    return t;
}

/* The last client comes, and with it the first round begins. */
static const char *join_last(story *t) { return say(t, MR_FED_JOIN, t->f.o.n_clients - 1, 0, 0); }

static void end(story *t)
{
    mr_str_deinit(&t->log);
    mr_fed_deinit(&t->f);
}

MR_TEST(federated_round_asks_all_and_completes)
{
    story t = begin((mr_fed_options){.n_clients = 3, .fraction = 1});
    MR_CHECK_STR(join_last(&t), "ask 0 train#1, ask 1 train#1, ask 2 train#1");
    MR_CHECK_STR(train(&t, 1, 1), "take");
    MR_CHECK_STR(train(&t, 0, 1), "take");
    MR_CHECK_STR(train(&t, 2, 1), "take, complete 3");
    MR_CHECK_STR(at(&t, 1000), ""); /* until the next is wanted */
    MR_CHECK_STR(go(&t), "ask 0 train#2, ask 1 train#2, ask 2 train#2");
    MR_CHECK_INT(t.f.round, 2);
    end(&t);
}

MR_TEST(federated_round_takes_a_tenth_of_the_clients_that_are_there)
{
    story t = begin((mr_fed_options){.n_clients = 100, .fraction = 0.1, .seed = 5});
    join_last(&t);
    MR_CHECK_INT(t.f.wanted, 10);
    MR_CHECK_INT(t.f.n_open, 10);
    end(&t);
    t = begin((mr_fed_options){.n_clients = 101, .fraction = 0.1, .over = 0.3, .seed = 5});
    join_last(&t);
    MR_CHECK_INT(t.f.wanted, 11);
    MR_CHECK_INT(t.f.n_open, 15); /* ceil(11 * 1.3) */
    end(&t);
}

MR_TEST(federated_sample_repeats_for_its_seed_and_changes_with_the_round)
{
    mr_str first[3] = {{0}};
    for (int k = 0; k < 3; k++) {
        story t = begin((mr_fed_options){.n_clients = 50, .fraction = 0.2, .seed = k == 1 ? 8 : 7});
        mr_str_appendz(&first[k], join_last(&t));
        end(&t);
    }
    MR_CHECK_STR(mr_str_z(&first[0]), mr_str_z(&first[2]));
    MR_CHECK(strcmp(mr_str_z(&first[0]), mr_str_z(&first[1])) != 0);
    for (int k = 0; k < 3; k++)
        mr_str_deinit(&first[k]);
}

MR_TEST(federated_sample_is_even)
{
    int hits[20] = {0};
    for (uint64_t seed = 0; seed < 2000; seed++) {
        story t = begin((mr_fed_options){.n_clients = 20, .fraction = 0.25, .seed = seed});
        join_last(&t);
        for (int i = 0; i < 20; i++)
            hits[i] += t.f.clients[i].chosen;
        end(&t);
    }
    for (int i = 0; i < 20; i++) /* 500 each, deviation 19 */
        MR_CHECK(hits[i] > 400 && hits[i] < 600);
}

MR_TEST(federated_late_and_doubled_updates_do_not_count)
{
    story t = begin((mr_fed_options){.n_clients = 4, .fraction = 0.5, .over = 1});
    join_last(&t);
    MR_CHECK_STR(train(&t, 3, 1), "take");
    MR_CHECK_STR(train(&t, 3, 1), "drop"); /* twice */
    MR_CHECK_STR(train(&t, 0, 0), "drop"); /* of another try */
    MR_CHECK_STR(say(&t, MR_FED_ANSWER, 0, 1, MR_FED_KEYS), "drop");
    MR_CHECK_STR(train(&t, 0, 1), "take, complete 2");
    MR_CHECK_STR(train(&t, 1, 1), "drop"); /* asked, but too late */
    MR_CHECK_STR(train(&t, 77, 1), "");    /* nobody */
    MR_CHECK_STR(train(&t, -1, 1), "");
    end(&t);
}

MR_TEST(federated_round_ends_at_its_deadline_with_what_has_come)
{
    story t = begin((mr_fed_options){.n_clients = 4, .fraction = 1, .suffice = 0.5});
    join_last(&t);
    train(&t, 0, 1);
    train(&t, 1, 1);
    MR_CHECK_STR(at(&t, 99), "");
    MR_CHECK_STR(at(&t, 100), "complete 2");
    end(&t);
}

MR_TEST(federated_round_with_too_few_is_given_up_and_repeated)
{
    story t = begin((mr_fed_options){.n_clients = 3, .fraction = 1, .suffice = 0.9, .pause_ns = 10});
    join_last(&t);
    train(&t, 0, 1);
    MR_CHECK_STR(at(&t, 100), "give up");
    MR_CHECK_INT(t.f.round, 1);
    MR_CHECK_INT(mr_fed_next_ns(&t.f), 110);
    MR_CHECK_STR(train(&t, 1, 1), "drop"); /* of the try that was given up */
    MR_CHECK_STR(at(&t, 110), "ask 0 train#2, ask 1 train#2, ask 2 train#2");
    end(&t);
}

MR_TEST(federated_round_is_given_up_as_soon_as_it_cannot_succeed)
{
    story t = begin((mr_fed_options){.n_clients = 3, .fraction = 1, .suffice = 0.6, .wait_for = 1, .pause_ns = 5});
    MR_CHECK_STR(gone(&t, 1), ""); /* the first try began with client 0 alone */
    MR_CHECK_STR(train(&t, 0, 1), "take, complete 1");
    say(&t, MR_FED_JOIN, 1, 0, 0);
    say(&t, MR_FED_JOIN, 2, 0, 0);
    MR_CHECK_STR(go(&t), "ask 0 train#2, ask 1 train#2, ask 2 train#2");
    MR_CHECK_STR(gone(&t, 1), "");
    MR_CHECK_STR(gone(&t, 2), "give up");
    end(&t);
}

MR_TEST(federated_round_does_not_wait_for_who_is_gone)
{
    story t = begin((mr_fed_options){.n_clients = 4, .fraction = 1});
    join_last(&t);
    train(&t, 0, 1);
    train(&t, 1, 1);
    gone(&t, 2);
    MR_CHECK_STR(gone(&t, 3), "complete 2");
    MR_CHECK_STR(go(&t), ""); /* waits until four are there */
    end(&t);
}

MR_TEST(federated_client_that_comes_back_is_out_of_the_try)
{
    story t = begin((mr_fed_options){.n_clients = 3, .fraction = 1});
    join_last(&t);
    gone(&t, 1);
    say(&t, MR_FED_JOIN, 1, 0, 0);
    MR_CHECK_STR(train(&t, 1, 1), "drop");
    end(&t);
}

MR_TEST(federated_tries_have_an_end)
{
    story t = begin((mr_fed_options){.n_clients = 2, .fraction = 1, .most_tries = 2});
    join_last(&t);
    at(&t, 100);
    MR_CHECK_STR(at(&t, 200), "give up, fail");
    MR_CHECK_STR(at(&t, 1000), "");
    MR_CHECK_INT(mr_fed_next_ns(&t.f), 0);
    end(&t);
}

static const char *all_say(story *t, int n, int64_t ticket, mr_fed_stage stage)
{
    const char *last = "";
    for (int i = 0; i < n; i++)
        last = say(t, MR_FED_ANSWER, i, ticket, stage);
    return last;
}

MR_TEST(federated_secure_round_goes_through_its_stages)
{
    story t = begin((mr_fed_options){.n_clients = 3, .fraction = 1, .secure = true});
    MR_CHECK_STR(join_last(&t), "ask 0 keys#1, ask 1 keys#1, ask 2 keys#1");
    MR_CHECK_STR(all_say(&t, 3, 1, MR_FED_KEYS), "take, next shares 3, ask 0 shares#1, ask 1 shares#1, ask 2 shares#1");
    MR_CHECK_INT(t.f.threshold, 3);
    MR_CHECK_STR(all_say(&t, 3, 1, MR_FED_SHARES), "take, next train 3, ask 0 train#1, ask 1 train#1, ask 2 train#1");
    MR_CHECK_STR(all_say(&t, 3, 1, MR_FED_TRAIN), "take, next unmask 3, ask 0 unmask#1, ask 1 unmask#1, ask 2 unmask#1");
    MR_CHECK_STR(all_say(&t, 3, 1, MR_FED_UNMASK), "take, complete 3");
    end(&t);
}

MR_TEST(federated_secure_round_survives_losses_down_to_the_threshold)
{
    story t = begin((mr_fed_options){.n_clients = 6, .fraction = 1, .secure = true, .threshold = 0.5});
    join_last(&t);
    all_say(&t, 6, 1, MR_FED_KEYS);
    MR_CHECK_INT(t.f.threshold, 4);
    all_say(&t, 6, 1, MR_FED_SHARES);
    gone(&t, 5);
    all_say(&t, 5, 1, MR_FED_TRAIN);
    MR_CHECK_INT(t.f.stage, MR_FED_UNMASK);
    MR_CHECK_STR(gone(&t, 4), ""); /* its update is in the sum: five count */
    MR_CHECK_STR(all_say(&t, 4, 1, MR_FED_UNMASK), "take, complete 5");
    end(&t);
}

MR_TEST(federated_secure_round_is_given_up_below_the_threshold)
{
    story t = begin((mr_fed_options){.n_clients = 5, .fraction = 1, .secure = true, .threshold = 0.5});
    join_last(&t);
    all_say(&t, 5, 1, MR_FED_KEYS);
    all_say(&t, 5, 1, MR_FED_SHARES);
    gone(&t, 0);
    gone(&t, 1);
    MR_CHECK_STR(gone(&t, 2), "give up");
    end(&t);
}

MR_TEST(federated_secure_round_needs_three)
{
    story t = begin((mr_fed_options){.n_clients = 4, .fraction = 0.1, .secure = true, .wait_for = 1});
    MR_CHECK_INT(t.f.n_open, 3); /* with the third client it began */
    gone(&t, 0);
    MR_CHECK_INT(t.f.stage, MR_FED_REST);
    end(&t);
}

MR_TEST(federated_spoilt_try_is_given_up)
{
    story t = begin((mr_fed_options){.n_clients = 2, .fraction = 1});
    mr_fed_actions out = {0};
    join_last(&t);
    train(&t, 0, 1);
    mr_fed_spoilt(&t.f, 5, &out);
    MR_CHECK_STR(tell(&t, &out), "give up, ask 0 train#2, ask 1 train#2");
    train(&t, 0, 2);
    MR_CHECK_STR(train(&t, 1, 2), "take, complete 2");
    out = (mr_fed_actions){0};
    mr_fed_spoilt(&t.f, 5, &out); /* behind its end, too */
    MR_CHECK_STR(tell(&t, &out), "give up, ask 0 train#3, ask 1 train#3");
    MR_CHECK_INT(t.f.round, 1);
    end(&t);
}

MR_TEST(federated_options_are_checked)
{
    MR_CHECK(mr_fed_check(&(mr_fed_options){.n_clients = 2, .fraction = 1}) == NULL);
    MR_CHECK(mr_fed_check(&(mr_fed_options){.n_clients = 0}) != NULL);
    MR_CHECK(mr_fed_check(&(mr_fed_options){.n_clients = 1, .fraction = NAN}) != NULL);
    MR_CHECK(mr_fed_check(&(mr_fed_options){.n_clients = 1, .secure = true, .threshold = 0.3}) != NULL);
    MR_CHECK(mr_fed_check(&(mr_fed_options){.n_clients = 1, .wait_for = 2}) != NULL);
}

/* ---- from seeds: clients that answer late, twice, wrongly, leave and come back ---- */

enum { MOST_CLIENTS = 12, MOST_LETTERS = 400 };

typedef struct letter { /* an answer on its way */
    int64_t at, ticket;
    int client;
    mr_fed_stage stage;
} letter;

typedef struct world {
    story t;
    uint64_t s;
    letter letters[MOST_LETTERS];
    int n_letters;
    bool there[MOST_CLIENTS];
    /* What the server would hold of the present try, kept from the actions alone. */
    int64_t ticket;
    mr_fed_stage stage;
    bool asked[MOST_CLIENTS], taken[MOST_CLIENTS], counted[MOST_CLIENTS];
    int64_t rounds;
    int64_t tries;
} world;

static uint64_t roll(world *w, uint64_t n)
{
    w->s ^= w->s >> 12;
    w->s ^= w->s << 25;
    w->s ^= w->s >> 27;
    return w->s * 0x2545F4914F6CDD1Du % n;
}

static void post(world *w, letter l)
{
    if (w->n_letters < MOST_LETTERS)
        w->letters[w->n_letters++] = l;
}

/* The client's mind: mostly it answers in time, sometimes late, twice, for another stage, or not. */
static void asked(world *w, const mr_fed_action *a)
{
    letter l = {w->t.now + 1 + (int64_t)roll(w, 60), a->ticket, a->client, a->stage};
    uint64_t mood = roll(w, 20);
    if (mood == 0)
        return;
    if (mood == 1)
        l.at += 200;
    if (mood == 2)
        post(w, (letter){l.at + (int64_t)roll(w, 5), l.ticket, l.client, l.stage});
    if (mood == 3)
        l.stage = (mr_fed_stage)roll(w, 6);
    if (mood == 4)
        l.ticket += (int64_t)roll(w, 5) - 2;
    post(w, l);
}

static int count(const bool *b)
{
    int n = 0;
    for (int i = 0; i < MOST_CLIENTS; i++)
        n += b[i];
    return n;
}

static void new_stage(world *w, const mr_fed_action *a)
{
    memset(w->asked, 0, sizeof w->asked);
    memset(w->taken, 0, sizeof w->taken);
    if (a->ticket != w->ticket) {
        MR_CHECK(a->ticket > w->ticket);
        memset(w->counted, 0, sizeof w->counted);
        w->tries++;
    }
    w->ticket = a->ticket;
    w->stage = a->stage;
}

static void follow(world *w, const mr_fed_action *a, const mr_fed_event *e)
{
    switch (a->what) {
    case MR_FED_ASK:
        if (a->ticket != w->ticket || a->stage != w->stage)
            new_stage(w, a);
        MR_CHECK(!w->asked[a->client]);
        MR_CHECK(w->there[a->client]);
        w->asked[a->client] = true;
        asked(w, a);
        break;
    case MR_FED_TAKE: /* only what was asked for, once, in the present stage of the present try */
        MR_CHECK(e && e->message == MR_FED_ANSWER && e->client == a->client);
        MR_CHECK(e->ticket == w->ticket && e->stage == (int64_t)w->stage && w->there[a->client]);
        MR_CHECK(w->asked[a->client] && !w->taken[a->client]);
        w->taken[a->client] = true;
        if (w->stage == MR_FED_TRAIN)
            w->counted[a->client] = true;
        break;
    case MR_FED_COMPLETE:
        MR_CHECK(a->ticket == w->ticket && a->count == count(w->counted));
        MR_CHECK(a->count >= 1 && a->count >= w->t.f.suffice);
        MR_CHECK(!w->t.f.o.secure || (a->count >= MR_FED_SECURE_LEAST && count(w->taken) >= w->t.f.threshold));
        w->rounds++;
        break;
    default: break;
    }
}

static void happen(world *w, const mr_fed_event *e)
{
    mr_fed_actions out = {0};
    if (e)
        mr_fed_step(&w->t.f, e, w->t.now, &out);
    else
        mr_fed_go(&w->t.f, w->t.now, &out);
    for (int i = 0; i < out.n; i++)
        follow(w, &out.p[i], e);
    mr_vec_deinit(&out);
}

static void deliver(world *w)
{
    for (int i = 0; i < w->n_letters; i++)
        while (i < w->n_letters && w->letters[i].at <= w->t.now) {
            letter l = w->letters[i];
            w->letters[i] = w->letters[--w->n_letters];
            if (w->there[l.client])
                happen(w, &(mr_fed_event){roll(w, 30) ? MR_FED_ANSWER : MR_FED_REFUSE, l.client, l.ticket, l.stage});
        }
}

static void come_or_go(world *w, int n, bool faults)
{
    int c = (int)roll(w, (uint64_t)n);
    if (!faults || roll(w, 12))
        return;
    w->there[c] = !w->there[c];
    happen(w, &(mr_fed_event){.message = w->there[c] ? MR_FED_JOIN : MR_FED_GONE, .client = c});
}

static void live(uint64_t seed)
{
    world *w = mr_new(world);
    w->s = seed * 2 + 1;
    int n = 1 + (int)roll(w, MOST_CLIENTS);
    mr_fed_options o = {.n_clients = n, .fraction = (double)(1 + roll(w, 10)) / 10, .over = (double)roll(w, 6) / 10,
                        .suffice = (double)roll(w, 11) / 10, .secure = n >= 3 && roll(w, 2), .stage_ns = 100, .pause_ns = 20,
                        .threshold = roll(w, 2) ? 0.5 : 0, .seed = seed};
    mr_fed_init(&w->t.f, &o);
    for (int i = 0; i < n; i++) {
        w->there[i] = true;
        happen(w, &(mr_fed_event){.message = MR_FED_JOIN, .client = i});
    }
    for (int64_t end = 4000; w->t.now < end; w->t.now++) {
        deliver(w);
        come_or_go(w, n, w->t.now < end / 2);
        if (w->t.f.hold)
            happen(w, NULL);
        int64_t next = mr_fed_next_ns(&w->t.f);
        if (w->t.f.stage != MR_FED_REST) /* no stage without an end */
            MR_CHECK(next > 0 && next <= w->t.now + o.stage_ns);
        happen(w, &(mr_fed_event){.message = MR_FED_TIME});
        if (w->t.now == end / 2) /* then all are there, and rounds must go on */
            for (int i = 0; i < n; i++)
                if (!w->there[i]) {
                    w->there[i] = true;
                    happen(w, &(mr_fed_event){.message = MR_FED_JOIN, .client = i});
                }
        if (w->t.now == end / 2)
            w->tries = 0;
    }
    MR_CHECK(w->tries >= 2); /* even if most are given up */
    mr_fed_deinit(&w->t.f);
    mr_str_deinit(&w->t.log);
    mr_free(w);
}

MR_TEST(federated_rounds_hold_for_thousands_of_seeds)
{
    mr_test_deadline(120);
    for (uint64_t seed = 1; seed <= 3000; seed++)
        live(seed);
}
