/* sim/trainer.c -- synchronous training, as train/sync_run.c and train/recovery do it, around dist/sync.
 *
 * Workers join, push a gradient for the stamp of their token, report that it arrived and wait for the next token;
 * regular messages show that they are alive. The chief receives the messages and carries out the barrier's actions: it
 * applies gradients to the parameters and gives out tokens. After any failure a new session is opened: a worker joins
 * again; a chief initialises servers that have lost their state, takes a new stamp and begins a new barrier. */
#include "sim/world.h"

typedef struct mr_sim_trainer trainer;
typedef void then_fn(mr_sim *s, trainer *t, mr_sim_value v);

struct mr_sim_trainer {
    mr_sim_client *c;
    int worker; /* -1: the chief */
    int n_wanted, n_rounds;
    int64_t stamp, gave; /* of the newest token; of the newest gradient */
    uint64_t session;    /* the current one; results from an earlier session are ignored */
    bool ticking;
    /* the chief's */
    mr_sync sync;
    bool leads;
    mr_sync_actions todo;
    int at;
    bool looking;
    int64_t saved; /* updates in the newest checkpoint */
};

typedef struct run { /* one step */
    trainer *t;
    uint64_t session;
    then_fn *then; /* NULL: the result is ignored */
} run;

/* ---- steps ---- */

/* Once the chief has ended, nobody makes a lost server ready again: a worker that only wanted to report that it leaves
 * counts as having left. */
static bool is_over(const mr_sim *s, const trainer *t)
{
    return t->worker >= 0 && t->n_rounds >= t->n_wanted && s->clients[s->n_tasks]->finished;
}

static void start_anew(mr_sim *s, trainer *t)
{
    t->stamp = 0;
    if (t->leads)
        mr_sync_deinit(&t->sync);
    t->leads = false;
    t->session = 0;
    mr_sim_client_close(s, t->c, is_over(s, t));
}

static void work_ran(mr_sim *s, mr_sim_call *call, mr_status *st)
{
    run *r = call->ctx;
    bool present = r->session == r->t->session && r->session;
    if (st && r->then)
        mr_sim_say(s, r->t->c->node, "work %d: %s %s", call->q.work, mr_code_name(mr_status_code(st)), mr_status_message(st));
    if (present && !st && r->then)
        r->then(s, r->t, call->reply.v);
    if (present && st && r->then)
        start_anew(s, r->t);
    mr_status_free(st);
}

static void do_work(mr_sim *s, trainer *t, mr_sim_work work, int mask, mr_sim_value v, then_fn *then)
{
    run *r = mr_arena_new(&s->arena, run);
    *r = (run){t, t->session, then};
    mr_sim_message q = {.kind = MR_SIM_RUN_STEP,
                        .session = t->session,
                        .request = (int64_t)(mr_sim_random(s) | 1),
                        .work = work,
                        .mask = mask,
                        .v = v};
    mr_sim_start(s, t->c->node, t->c->master, &q, 0, true, work_ran, r);
}

static void send_sync(mr_sim *s, trainer *t, mr_sync_message message, then_fn *then)
{
    do_work(s, t, MR_SIM_SAY, 1, (mr_sim_value){t->worker, message, t->gave}, then);
}

/* ---- a worker ---- */

static void got_token(mr_sim *s, trainer *t, mr_sim_value v);

static void wait_token(mr_sim *s, trainer *t, mr_sim_value v)
{
    (void)v;
    do_work(s, t, MR_SIM_WAIT, 1, (mr_sim_value){.a = t->worker}, got_token);
}

static void say_arrived(mr_sim *s, trainer *t, mr_sim_value v)
{
    (void)v;
    send_sync(s, t, MR_SYNC_ARRIVED, wait_token);
}

static void push_gradient(mr_sim *s, void *arg)
{
    trainer *t = arg;
    int all = (1 << s->n_ps) - 1;
    if (!t->session)
        return;
    t->gave = t->stamp;
    do_work(s, t, MR_SIM_PUSH, all, (mr_sim_value){t->stamp, mr_sim_ledger_request(s, all)}, say_arrived);
}

static void has_left(mr_sim *s, trainer *t, mr_sim_value v)
{
    (void)v;
    t->session = 0;
    mr_sim_client_close(s, t->c, true);
}

static void got_token(mr_sim *s, trainer *t, mr_sim_value v)
{
    if (v.a <= t->stamp) { /* a repeated token: the report of the gradient may have been lost */
        say_arrived(s, t, v);
        return;
    }
    t->n_rounds += t->stamp > 0;
    s->result->n_rounds += t->stamp > 0;
    t->stamp = v.a;
    mr_sim_say(s, t->c->node, "round %d done, token %lld", t->n_rounds, (long long)v.a);
    if (t->n_rounds >= t->n_wanted)
        send_sync(s, t, MR_SYNC_LEAVE, has_left);
    else
        mr_sim_after(s, t->c->node, mr_sim_between(s, 0, MR_SIM_S), push_gradient, t);
}

static void join_training(mr_sim *s, trainer *t)
{
    if (t->n_rounds >= t->n_wanted)
        send_sync(s, t, MR_SYNC_LEAVE, has_left); /* repeats a message that may have been lost */
    else
        send_sync(s, t, MR_SYNC_JOIN, wait_token);
}

/* ---- the chief ---- */

static void take_message(mr_sim *s, trainer *t, mr_sim_value v);

/* Carries out the barrier's actions one after the other; all tokens of an update are given in one step. When none is
 * left, waits for the next message. */
static void do_next(mr_sim *s, trainer *t, mr_sim_value v)
{
    (void)v;
    if (t->at == t->todo.n) {
        t->todo.n = t->at = 0;
        do_work(s, t, MR_SIM_HEAR, 1, (mr_sim_value){0}, take_message);
        return;
    }
    mr_sync_action a = t->todo.p[t->at++];
    int workers = 1 << a.worker;
    switch (a.what) {
    case MR_SYNC_APPLY: do_work(s, t, MR_SIM_APPLY, (1 << s->n_ps) - 1, (mr_sim_value){a.count, a.stamp}, do_next); break;
    case MR_SYNC_TOKEN:
        for (; t->at < t->todo.n && t->todo.p[t->at].what == MR_SYNC_TOKEN; t->at++)
            workers |= 1 << t->todo.p[t->at].worker;
        do_work(s, t, MR_SIM_TOKEN, 1, (mr_sim_value){a.stamp, workers}, do_next);
        break;
    case MR_SYNC_END:
        mr_sim_say(s, t->c->node, "training ends");
        has_left(s, t, v);
    }
}

static void take_message(mr_sim *s, trainer *t, mr_sim_value v)
{
    mr_sync_event e = {v.a, v.b, v.c};
    mr_sync_step(&t->sync, &e, s->now_ns, &t->todo);
    do_next(s, t, v);
}

static void start_barrier(mr_sim *s, trainer *t, mr_sim_value v)
{
    mr_sync_options o = {.n_workers = s->n_trainers - 1, .lease_ns = 8 * MR_SIM_S, .join_ns = 10 * MR_SIM_S};
    (void)v;
    if (t->gave % 2) /* every other chief drops late gradients */
        o.aggregate = MR_SYNC_ADAPTIVE;
    mr_sync_init(&t->sync, &o, t->gave, s->now_ns);
    t->leads = true;
    t->todo.n = t->at = 0;
    do_next(s, t, v);
}

static void take_stamp(mr_sim *s, trainer *t, mr_sim_value v)
{
    (void)v;
    t->gave = s->now_ns / MR_SIM_US + 1;
    do_work(s, t, MR_SIM_STAMP, (1 << s->n_ps) - 1, (mr_sim_value){t->gave}, start_barrier);
}

static void initialise_servers(mr_sim *s, trainer *t)
{
    do_work(s, t, MR_SIM_INIT, (1 << s->n_ps) - 1, (mr_sim_value){t->saved}, take_stamp);
}

/* Checks the state against the newest complete checkpoint; a server that lost its state ends the session. */
static void looked_at(mr_sim *s, trainer *t, mr_sim_value v)
{
    t->looking = false;
    if (!t->leads)
        return;
    if (!v.a)
        start_anew(s, t);
    else if (v.b < t->saved)
        mr_sim_fail(s, "a server has %lld updates, the newest checkpoint held %lld", (long long)v.b, (long long)t->saved);
    else
        t->saved = v.b;
}

/* ---- start and end ---- */

static void tick_trainer(mr_sim *s, void *arg)
{
    trainer *t = arg;
    mr_sim_after(s, t->c->node, 2 * MR_SIM_S, tick_trainer, t);
    if (!t->session)
        return;
    send_sync(s, t, MR_SYNC_ALIVE, NULL); /* from the chief: only lets time pass */
    if (t->leads && !t->looking)
        do_work(s, t, MR_SIM_READ, (1 << s->n_ps) - 1, (mr_sim_value){0}, looked_at);
    t->looking = t->leads;
}

/* The session is new, so a worker joins again and a chief prepares the servers again. */
static void has_session(mr_sim *s, void *arg)
{
    mr_sim_client *c = arg;
    trainer *t = c->trainer;
    t->session = c->session;
    t->stamp = 0;
    t->looking = false;
    if (!t->ticking)
        mr_sim_after(s, c->node, 2 * MR_SIM_S, tick_trainer, t);
    t->ticking = true;
    if (t->worker < 0)
        initialise_servers(s, t);
    else
        join_training(s, t);
}

void mr_sim_trainer_start(mr_sim *s, int node, int worker)
{
    mr_sim_client *c = s->clients[node] = mr_arena_new(&s->arena, mr_sim_client);
    trainer *t = c->trainer = mr_arena_new(&s->arena, trainer);
    c->node = node;
    c->master = s->n_ps + MR_MAX(worker, 0) % s->n_workers;
    c->ready = has_session;
    t->c = c;
    t->worker = worker;
    t->n_wanted = (int)mr_sim_between(s, 4, 10);
    s->nodes[node].up = true;
    mr_sim_after(s, node, mr_sim_between(s, 0, MR_SIM_S), mr_sim_client_create, c);
}

void mr_sim_trainer_deinit(mr_sim_client *c)
{
    if (!c->trainer)
        return;
    if (c->trainer->leads)
        mr_sync_deinit(&c->trainer->sync);
    mr_vec_deinit(&c->trainer->todo);
}
