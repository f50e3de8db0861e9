/* dist/federated.c -- how a round of federated averaging continues from what its clients do.
 *
 * n_open and n_answered count the chosen clients of the present stage, so whether the stage can
 * still succeed is arithmetic. Whatever changes these numbers ends in settle_stage(), which alone moves
 * to the next stage, completes the round, or gives up.
 *
 * In a secure round the clients that answered a stage are the chosen ones of the next. The
 * threshold follows from the clients that gave keys, because shares were dealt to them. In TRAIN `counted`
 * is set with the answer and stays when the client goes away: its update is in the sum. */
#include "dist/federated.h"

#include <math.h>

#include "base/status.h"

/* Comparisons are written so that a NaN is refused. */
const char *mr_fed_check(const mr_fed_options *o)
{
    if (o->n_clients < 1)
        return "there are no clients";
    if (!(o->fraction >= 0 && o->fraction <= 1))
        return "the fraction of clients is not between 0 and 1";
    if (!(o->over >= 0 && o->over <= 100))
        return "over-selection is not between 0 and 100";
    if (!(o->suffice >= 0 && o->suffice <= 1))
        return "the share of updates that suffices is not between 0 and 1";
    if (o->secure && !(o->threshold == 0 || (o->threshold >= 0.5 && o->threshold < 1)))
        return "the threshold is not at least a half and below 1";
    if (o->at_least < 0 || o->wait_for < 0 || o->stage_ns < 0 || o->pause_ns < 0 || o->most_tries < 0)
        return "a count or a time is negative";
    if (o->at_least > o->n_clients || o->wait_for > o->n_clients)
        return "more clients are wanted than there can be";
    return NULL;
}

void mr_fed_init(mr_fed *f, const mr_fed_options *o)
{
    MR_ASSERT(mr_fed_check(o) == NULL);
    *f = (mr_fed){.o = *o, .round = 1, .clients = mr_new_array(mr_fed_client, o->n_clients)};
}

void mr_fed_deinit(mr_fed *f)
{
    mr_free(f->clients);
    *f = (mr_fed){0};
}

int64_t mr_fed_next_ns(const mr_fed *f)
{
    if (f->failed)
        return 0;
    return f->stage != MR_FED_REST ? f->until_ns : f->hold ? 0 : f->not_before_ns;
}

/* ---- drawing ---- */

/* splitmix64. */
static uint64_t next_random(uint64_t *s)
{
    uint64_t z = *s += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* A random number below n, without the bias of a remainder. */
static int random_below(uint64_t *s, int n)
{
    MR_ASSERT(n > 0);
    uint64_t span = UINT64_MAX / (uint64_t)n * (uint64_t)n, v;
    do
        v = next_random(s);
    while (v >= span);
    return (int)(v % (uint64_t)n);
}

/* Products such as 0.1 * 100 are slightly above or below what was meant. */
static int rounded_up(double x) { return x < INT32_MAX ? (int)ceil(x - 1e-9) : INT32_MAX; }

/* Chooses n present clients. The draw depends only on seed and ticket, so it can be repeated. */
static void draw_clients(mr_fed *f, int n)
{
    uint64_t s = f->o.seed ^ (uint64_t)f->ticket * 0xD1342543DE82EF95u;
    int *there = mr_new_array(int, f->n_there), k = 0;
    for (int i = 0; i < f->o.n_clients; i++)
        if (f->clients[i].there)
            there[k++] = i;
    MR_ASSERT(k == f->n_there && n <= k);
    for (int i = 0; i < n; i++) {
        int j = i + random_below(&s, k - i), c = there[j];
        there[j] = there[i];
        f->clients[c].chosen = true;
    }
    mr_free(there);
}

/* ---- stages ---- */

static void add_action(mr_fed_actions *out, mr_fed_do what, const mr_fed *f, int client, int count)
{
    mr_vec_push(out, (mr_fed_action){what, f->stage, client, count, f->ticket});
}

/* Begins a stage: all chosen clients are asked. */
static void enter_stage(mr_fed *f, mr_fed_stage stage, int64_t now_ns, mr_fed_actions *out)
{
    f->stage = stage;
    f->n_open = f->n_answered = 0;
    f->until_ns = f->o.stage_ns ? now_ns + f->o.stage_ns : 0;
    for (int i = 0; i < f->o.n_clients; i++) {
        mr_fed_client *c = &f->clients[i];
        c->answered = false;
        if (!c->chosen)
            continue;
        f->n_open++;
        add_action(out, MR_FED_ASK, f, i, 0);
    }
}

int mr_fed_least(const mr_fed *f) { return MR_MAX(f->o.secure ? MR_FED_SECURE_LEAST : 1, f->o.wait_for); }

/* Whether a try may begin: nothing holds the round, and enough clients are present. */
static bool may_begin(const mr_fed *f, int64_t now_ns)
{
    return !f->hold && !f->failed && f->stage == MR_FED_REST && f->n_there >= mr_fed_least(f) &&
           now_ns >= f->not_before_ns;
}

/* A new try of the round, with a new ticket: more clients than wanted are drawn, because some will
 * drop out. */
static void begin_try(mr_fed *f, int64_t now_ns, mr_fed_actions *out)
{
    int there = f->n_there, least = f->o.secure ? MR_FED_SECURE_LEAST : 1;
    f->ticket++;
    f->tries++;
    f->wanted = MR_MAX(rounded_up(f->o.fraction * there), MR_MAX(least, f->o.at_least));
    f->wanted = MR_MIN(f->wanted, there);
    f->suffice = MR_MAX(rounded_up(f->wanted * (f->o.suffice > 0 ? f->o.suffice : 0.5)), least);
    f->threshold = f->n_counted = 0;
    for (int i = 0; i < f->o.n_clients; i++)
        f->clients[i].chosen = f->clients[i].counted = false;
    draw_clients(f, MR_MIN(rounded_up(f->wanted * (1 + f->o.over)), there));
    enter_stage(f, f->o.secure ? MR_FED_KEYS : MR_FED_TRAIN, now_ns, out);
}

/* Ends the try, however it went. */
static void end_try(mr_fed *f)
{
    f->stage = MR_FED_REST;
    f->n_open = f->n_answered = 0;
    f->until_ns = 0;
    for (int i = 0; i < f->o.n_clients; i++)
        f->clients[i].chosen = false;
}

/* The try failed; the next one begins after a pause, unless there were too many. */
static void give_up(mr_fed *f, int64_t now_ns, mr_fed_actions *out)
{
    add_action(out, MR_FED_GIVE_UP, f, -1, 0);
    end_try(f);
    f->not_before_ns = now_ns + f->o.pause_ns;
    if (f->o.most_tries && f->tries >= f->o.most_tries) {
        f->failed = true;
        add_action(out, MR_FED_FAIL, f, -1, f->tries);
    }
}

/* The round is held until the caller has used its result (mr_fed_go). */
static void complete_round(mr_fed *f, mr_fed_actions *out)
{
    add_action(out, MR_FED_COMPLETE, f, -1, f->n_counted);
    end_try(f);
    f->hold = true;
}

/* Answers without which the present stage has failed. */
static int answers_needed(const mr_fed *f)
{
    switch (f->stage) {
    case MR_FED_KEYS: return f->suffice;
    case MR_FED_SHARES: return MR_MAX(f->threshold, f->suffice);
    case MR_FED_TRAIN: return MR_MAX(f->threshold, f->suffice);
    case MR_FED_UNMASK: return f->threshold;
    default: return 0;
    }
}

/* Answers at which the stage need not wait for more. Keys and shares are quick, and a client left
 * out there is lost for the round, so all are waited for. */
static int answers_plenty(const mr_fed *f)
{
    if (f->stage == MR_FED_TRAIN)
        return MR_MAX(f->wanted, f->threshold);
    return f->stage == MR_FED_UNMASK ? f->threshold : INT32_MAX;
}

/* The number of clients whose shares are needed to unmask the sum. */
static void set_threshold(mr_fed *f)
{
    double share = f->o.threshold > 0 ? f->o.threshold : 2.0 / 3;
    int n = f->n_answered;
    f->threshold = MR_MAX((int)floor(share * n + 1e-9) + 1, 2);
    f->threshold = MR_MIN(f->threshold, n);
}

/* In a secure round only clients that answered this stage take part in the next. */
static void next_stage(mr_fed *f, int64_t now_ns, mr_fed_actions *out)
{
    int n = f->n_answered;
    if (f->stage == MR_FED_UNMASK || !f->o.secure) {
        complete_round(f, out);
        return;
    }
    if (f->stage == MR_FED_KEYS)
        set_threshold(f);
    for (int i = 0; i < f->o.n_clients; i++)
        f->clients[i].chosen &= f->clients[i].answered;
    f->stage++;
    add_action(out, MR_FED_NEXT, f, -1, n);
    enter_stage(f, f->stage, now_ns, out);
}

/* Goes on as far as possible. Every turn ends a stage, so the loop ends. */
static void settle_stage(mr_fed *f, int64_t now_ns, mr_fed_actions *out)
{
    while (f->stage != MR_FED_REST) {
        bool late = f->until_ns && now_ns >= f->until_ns;
        bool over = late || f->n_open == 0 || f->n_answered >= answers_plenty(f);
        if (f->n_answered + (late ? 0 : f->n_open) < answers_needed(f))
            give_up(f, now_ns, out);
        else if (over)
            next_stage(f, now_ns, out);
        else
            break;
    }
    if (may_begin(f, now_ns))
        begin_try(f, now_ns, out);
}

/* Without a round that is held it only lets time pass. */
void mr_fed_go(mr_fed *f, int64_t now_ns, mr_fed_actions *out)
{
    if (f->hold) {
        f->hold = false;
        f->round++;
        f->tries = 0;
    }
    settle_stage(f, now_ns, out);
}

/* Between rounds there is nothing to give up, unless the last one is complete and held. */
void mr_fed_spoilt(mr_fed *f, int64_t now_ns, mr_fed_actions *out)
{
    if (f->stage == MR_FED_REST && !f->hold)
        return;
    f->hold = false;
    give_up(f, now_ns, out);
    settle_stage(f, now_ns, out);
}

/* ---- events of clients ---- */

/* Takes a client out of the try: what it has answered stays, but it is asked for no further stage. */
static void leave_try(mr_fed *f, mr_fed_client *c)
{
    f->n_open -= c->chosen && !c->answered;
    MR_ASSERT(f->n_open >= 0);
    c->chosen = false;
}

/* Whether the answer is for the present try and stage, and the first one of this client. */
static bool is_awaited(const mr_fed *f, const mr_fed_client *c, const mr_fed_event *e)
{
    return f->stage != MR_FED_REST && e->ticket == f->ticket && e->stage == (int64_t)f->stage && c->chosen &&
           !c->answered;
}

/* Counts an answer. */
static void take_answer(mr_fed *f, mr_fed_client *c, int client, mr_fed_actions *out)
{
    MR_ASSERT(c->chosen && !c->answered && f->n_open > 0);
    c->answered = true;
    f->n_open--;
    f->n_answered++;
    if (f->stage == MR_FED_TRAIN) {
        c->counted = true;
        f->n_counted++;
    }
    add_action(out, MR_FED_TAKE, f, client, 0);
}

/* Handles the message of one client, without moving on to another stage: that is left to settle_stage. Every answer
 * gets exactly one TAKE or DROP. */
static void hear_client(mr_fed *f, const mr_fed_event *e, mr_fed_actions *out)
{
    int client = (int)e->client;
    MR_ASSERT(client >= 0 && client < f->o.n_clients);
    mr_fed_client *c = &f->clients[client];
    switch (e->message) {
    case MR_FED_JOIN:
        f->n_there += !c->there;
        c->there = true;
        break;
    case MR_FED_GONE:
        f->n_there -= c->there;
        c->there = false;
        leave_try(f, c);
        break;
    case MR_FED_ANSWER:
        if (is_awaited(f, c, e))
            take_answer(f, c, client, out);
        else
            add_action(out, MR_FED_DROP, f, client, 0);
        break;
    case MR_FED_REFUSE:
        if (is_awaited(f, c, e))
            leave_try(f, c);
        break;
    case MR_FED_TIME: break;
    }
}

/* An answer at the very end of a stage is late. */
void mr_fed_step(mr_fed *f, const mr_fed_event *e, int64_t now_ns, mr_fed_actions *out)
{
    if (e->message == MR_FED_ANSWER && f->stage != MR_FED_REST && f->until_ns && now_ns >= f->until_ns)
        settle_stage(f, now_ns, out);
    if (e->message == MR_FED_TIME || (e->client >= 0 && e->client < f->o.n_clients))
        hear_client(f, &(mr_fed_event){e->message, e->message == MR_FED_TIME ? 0 : e->client, e->ticket, e->stage},
                    out);
    settle_stage(f, now_ns, out);
}
