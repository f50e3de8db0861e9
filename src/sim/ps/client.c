/* sim/ps/client.c -- a worker that pushes, pulls, waits, cancels, and leaves. */
#include "sim/ps/world.h"

enum { MAX_OPEN = 5 };

static mr_pss_task *task_of(mr_pss_client *c, int64_t id)
{
    return id > 0 && id <= c->tasks.n ? &c->tasks.p[id - 1] : NULL;
}

/* ---- actions ---- */

static void send_push(mr_pss *w, mr_pss_client *c, const mr_psc_action *a)
{
    const mr_pss_task *t = task_of(c, a->task);
    const mr_pss_server *to = mr_pss_server_by_id(w, a->to);
    int part = t->parts[a->piece];
    if (a->empty)
        w->parts[part].given_up = true;
    mr_pss_post(w, &(mr_pss_message){.kind = PUSH,
                                     .from = c->node,
                                     .to = to->node,
                                     .range = a->range,
                                     .part = a->empty ? 0 : part,
                                     .task = a->task,
                                     .piece = a->piece,
                                     .try = a->try,
                                     .ts = a->ts,
                                     .prev = a->prev,
                                     .epoch = a->epoch,
                                     .generation = a->generation,
                                     .id = a->to});
}

/* The message carries what was acknowledged to the client so far: the server's state must include it. */
static void send_pull(mr_pss *w, mr_pss_client *c, const mr_psc_action *a)
{
    mr_pss_holding *h = mr_arena_alloc(&w->arena, sizeof *h);
    *h = c->acked[a->range];
    mr_pss_post(w, &(mr_pss_message){.kind = PULL,
                                     .from = c->node,
                                     .to = mr_pss_server_by_id(w, a->to)->node,
                                     .range = a->range,
                                     .task = a->task,
                                     .piece = a->piece,
                                     .try = a->try,
                                     .epoch = a->epoch,
                                     .generation = c->generation[a->range],
                                     .id = a->to,
                                     .holds = h});
}

/* Checks how the task ended, and records which of its parts count as acknowledged. */
static void end_task(mr_pss *w, mr_pss_client *c, const mr_psc_action *a)
{
    mr_pss_task *t = task_of(c, a->task);
    mr_pss_note(w, c->node, "task %llu ends with %llu", (uint64_t)a->task, a->code, 0, 0);
    if (t->ended)
        mr_pss_fail(w, "task %lld of client %d ends twice", (long long)t->id, c->node - FIRST_CLIENT);
    t->ended = true;
    mr_pss_check_code(w, t, a->code);
    for (int i = 0; t->push && i < t->n; i++) {
        mr_pss_part *p = &w->parts[t->parts[i]];
        if (a->code == MR_OK && p->bad)
            mr_pss_fail(w, "task %lld ends well with a part that was refused", (long long)t->id);
        p->acked = a->code == MR_OK;
        p->given_up |= a->code != MR_OK;
        w->result->n_acked += p->acked;
        w->result->n_failed += !p->acked;
    }
}

static void ask_view(mr_pss *w, mr_pss_client *c)
{
    mr_pss_post(w, &(mr_pss_message){.kind = ASK_VIEW, .from = c->node, .to = MANAGER, .id = c->id});
}

static void carry_out(mr_pss *w, mr_pss_client *c)
{
    for (int i = 0; i < c->actions.n; i++) {
        mr_psc_action *a = &c->actions.p[i];
        switch (a->what) {
        case MR_PSC_PUSH: send_push(w, c, a); break;
        case MR_PSC_PULL: send_pull(w, c, a); break;
        case MR_PSC_DONE: end_task(w, c, a); break;
        case MR_PSC_ASK_VIEW: ask_view(w, c); break;
        }
    }
    c->actions.n = 0;
}

static void finish_client(mr_pss *w, mr_pss_client *c)
{
    c->finished = true;
    mr_pss_note(w, c->node, "has finished", 0, 0, 0, 0);
    mr_pss_post(w, &(mr_pss_message){.kind = GOODBYE, .from = c->node, .to = MANAGER, .id = c->id});
}

static void on_timer(mr_pss *w, void *arg);

/* After every event: carries out the actions and sets the timer. */
static void go_on(mr_pss *w, mr_pss_client *c)
{
    carry_out(w, c);
    int64_t next_ns = mr_psc_tick(c->c, w->now_ns, &c->actions);
    carry_out(w, c);
    if (!c->finished && c->tasks.n == c->n_wanted && mr_psc_settled(c->c)) {
        finish_client(w, c);
    } else if (next_ns < INT64_MAX && (c->timer_ns <= w->now_ns || next_ns < c->timer_ns)) {
        c->timer_ns = next_ns;
        mr_pss_at(w, next_ns - w->now_ns, on_timer, c);
    }
}

static void on_timer(mr_pss *w, void *arg)
{
    mr_pss_client *c = arg;
    if (c->up && !c->finished && c->timer_ns == w->now_ns)
        go_on(w, c);
}

/* ---- its own requests ---- */

typedef struct to_cancel {
    mr_pss_client *c;
    int64_t task;
} to_cancel;

static void cancel_task(mr_pss *w, void *arg)
{
    to_cancel *k = arg;
    if (!k->c->up || k->c->finished)
        return;
    k->c->tasks.p[k->task - 1].is_cancelled = true;
    mr_psc_cancel(k->c->c, k->task, w->now_ns, &k->c->actions);
    go_on(w, k->c);
}

static int make_pieces(mr_pss *w, mr_psc_piece *pieces)
{
    int first = (int)mr_pss_between(w, 0, w->n_ranges - 1), n = 0;
    int end = mr_pss_chance(w, 500) ? w->n_ranges : (int)mr_pss_between(w, first + 1, w->n_ranges);
    for (int range = first; range < end; range++)
        if (n == 0 || mr_pss_chance(w, 800))
            pieces[n++] = (mr_psc_piece){range, 100};
    return n;
}

static void enter_task(mr_pss *w, mr_pss_client *c, const mr_psc_piece *pieces, int n, bool push, bool has_deadline)
{
    mr_pss_task t = {.id = c->tasks.n + 1, .push = push, .n = n, .has_deadline = has_deadline};
    for (int i = 0; push && i < n; i++)
        t.parts[i] = mr_pss_new_part(w, c->node - FIRST_CLIENT, pieces[i].range, mr_pss_chance(w, 10));
    mr_vec_push(&c->tasks, t);
}

/* Starts a random push or pull, sometimes after other tasks, with a deadline, or with a later cancellation. */
static void begin_one(mr_pss *w, mr_pss_client *c)
{
    mr_psc_piece pieces[MAX_RANGES];
    int n = make_pieces(w, pieces), n_after = c->tasks.n > 0 && mr_pss_chance(w, 250) ? (int)mr_pss_between(w, 1, 2) : 0;
    int64_t after[2], id;
    for (int i = 0; i < n_after; i++)
        after[i] = mr_pss_between(w, 1, c->tasks.n);
    bool push = mr_pss_chance(w, 800);
    int64_t deadline_ns = mr_pss_chance(w, 80) ? w->now_ns + mr_pss_between(w, 1, 300) * MS : INT64_MAX;
    enter_task(w, c, pieces, n, push, deadline_ns < INT64_MAX); /* the actions may already refer to it */
    mr_status *st = mr_psc_begin(c->c, push, pieces, n, after, n_after, deadline_ns, w->now_ns, &id, &c->actions);
    if (st || id != c->tasks.n)
        mr_pss_fail(w, "begin: %s", st ? mr_status_message(st) : "another number");
    mr_status_free(st);
    mr_pss_note(w, c->node, "task %llu begins with %llu parts (push: %llu)", (uint64_t)c->tasks.n, (uint64_t)n, push, 0);
    if (mr_pss_chance(w, 40)) {
        to_cancel *k = mr_arena_alloc(&w->arena, sizeof *k);
        *k = (to_cancel){c, c->tasks.n};
        mr_pss_at(w, mr_pss_between(w, 0, 60) * MS, cancel_task, k);
    }
}

static void begin_some(mr_pss *w, void *arg)
{
    mr_pss_client *c = arg;
    if (!c->up || c->tasks.n == c->n_wanted)
        return;
    if (mr_psc_epoch(c->c) == 0)
        ask_view(w, c);
    else if (mr_psc_open(c->c) < MAX_OPEN)
        begin_one(w, c);
    go_on(w, c);
    mr_pss_at(w, mr_pss_between(w, 0, 60000) * US, begin_some, c);
}

/* ---- start and end ---- */

void mr_pss_client_start(mr_pss *w, int index)
{
    mr_pss_client *c = &w->clients[index];
    *c = (mr_pss_client){.node = FIRST_CLIENT + index, .id = mr_pss_random(w) | 1, .up = true};
    c->n_wanted = (int)mr_pss_between(w, 2, 20);
    c->c = mr_psc_new(c->id, &w->client_options);
    mr_pss_at(w, mr_pss_between(w, 0, 20) * MS, begin_some, c);
}

static void report_death(mr_pss *w, void *arg)
{
    mr_pss_client *c = arg;
    mr_pss_post(w, &(mr_pss_message){.kind = GOODBYE, .from = c->node, .to = MANAGER, .id = c->id});
}

void mr_pss_client_end(mr_pss *w, mr_pss_client *c)
{
    mr_pss_note(w, c->node, "dies", 0, 0, 0, 0);
    c->up = false;
    mr_pss_at(w, 150 * MS, report_death, c);
}

void mr_pss_client_free(mr_pss_client *c)
{
    mr_psc_free(c->c);
    mr_vec_deinit(&c->tasks);
    mr_vec_deinit(&c->actions);
}

void mr_pss_client_take(mr_pss *w, mr_pss_client *c, const mr_pss_message *m)
{
    if (c->finished)
        return;
    switch (m->kind) {
    case VIEW: {
        mr_status *st = mr_psc_view(c->c, m->view, w->now_ns, &c->actions);
        if (st)
            mr_pss_fail(w, "view: %s", mr_status_message(st));
        mr_status_free(st);
        break;
    }
    case ANSWER:
        if (m->code == MR_OK && m->part)
            mr_pss_take_ack(w, c, m);
        mr_psc_answer(c->c, m->id, m->task, m->piece, m->try, m->code, m->epoch, m->version, w->now_ns, &c->actions);
        break;
    case BROKEN: mr_psc_broken(c->c, m->id, w->now_ns, &c->actions); break;
    default: mr_pss_fail(w, "a client gets a message of kind %d", m->kind); return;
    }
    go_on(w, c);
}
