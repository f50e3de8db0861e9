/* sim/ps/server.c -- a server: carries out the decisions of the replicas of its ranges, as ps/ does with real data. */
#include <stdlib.h>
#include <string.h>

#include "sim/ps/world.h"

mr_pss_server *mr_pss_server_by_id(mr_pss *w, uint64_t id)
{
    for (int i = 0; i < w->n_servers; i++)
        if (w->servers[i]->id == id)
            return w->servers[i];
    return NULL;
}

int mr_pss_servers_up(const mr_pss *w)
{
    int n = 0;
    for (int i = 0; i < w->n_servers; i++)
        n += w->servers[i]->up;
    return n;
}

/* ---- records ---- */

static const mr_pss_record *find_record(const mr_pss_server *s, int range, uint64_t version)
{
    for (int i = 0; i < s->ranges[range].kept.n; i++)
        if (s->ranges[range].kept.p[i].r.version == version)
            return &s->ranges[range].kept.p[i];
    return NULL;
}

static void forget_records(mr_pss_server *s, int range, uint64_t through)
{
    int n = 0;
    for (int i = 0; i < s->ranges[range].kept.n; i++)
        if (s->ranges[range].kept.p[i].r.version > through)
            s->ranges[range].kept.p[n++] = s->ranges[range].kept.p[i];
    s->ranges[range].kept.n = n;
}

static void keep_record(mr_pss *w, mr_pss_server *s, int range, const mr_pss_record *r)
{
    mr_pss_add_record(w, s, range, r);
    mr_vec_push(&s->ranges[range].kept, *r);
}

/* Turns the waiting pushes into a record; their parts are in the messages. */
static void make_record(mr_pss *w, mr_pss_server *s, int range, uint64_t version)
{
    const mr_psr *r = &s->replicas[range];
    mr_ps_stamp *stamps = mr_arena_alloc(&w->arena, sizeof *stamps * (size_t)(r->batch.n + 1));
    int *parts = mr_arena_alloc(&w->arena, sizeof *parts * (size_t)(r->batch.n + 1));
    for (int i = 0; i < r->batch.n; i++) {
        stamps[i] = (mr_ps_stamp){r->batch.p[i].client, r->batch.p[i].ts};
        parts[i] = ((const mr_pss_message *)(uintptr_t)r->batch.p[i].cookie)->part;
    }
    keep_record(w, s, range, &(mr_pss_record){{version, stamps, r->batch.n}, parts});
}

/* ---- messages to others ---- */

static mr_pss_message to_server(mr_pss *w, const mr_pss_server *s, mr_pss_kind k, int range, const mr_psr_action *a)
{
    const mr_pss_server *to = mr_pss_server_by_id(w, a->to);
    return (mr_pss_message){.kind = k,
                            .from = s->node,
                            .to = to ? to->node : s->node,
                            .range = range,
                            .id = s->id,
                            .epoch = a->epoch,
                            .version = a->version,
                            .stable = a->stable,
                            .again = a->again};
}

static void send_word(mr_pss *w, mr_pss_server *s, mr_pss_kind k, int range, const mr_psr_action *a)
{
    mr_pss_message m = to_server(w, s, k, range, a);
    mr_pss_post(w, &m);
}

/* Records that a successor still lacks must have been kept. */
static void send_records(mr_pss *w, mr_pss_server *s, int range, const mr_psr_action *a)
{
    mr_pss_message m = to_server(w, s, APPEND, range, a);
    uint64_t n = a->version + 1 - a->first;
    mr_pss_record *records = mr_arena_alloc(&w->arena, sizeof *records * (size_t)(n + 1));
    for (uint64_t v = a->first; v <= a->version; v++) {
        const mr_pss_record *r = find_record(s, range, v);
        if (!r) {
            mr_pss_fail(w, "range %d: record %llu is to be sent and was not kept", range, (unsigned long long)v);
            return;
        }
        records[m.n++] = *r;
    }
    m.records = records;
    mr_pss_post(w, &m);
}

static void send_copy(mr_pss *w, mr_pss_server *s, int range, const mr_psr_action *a)
{
    mr_pss_message m = to_server(w, s, COPY, range, a);
    mr_ps_stamps stamps = {0};
    mr_ps_clock_export(&s->clock, range, &stamps);
    mr_ps_stamp *copy = mr_arena_alloc(&w->arena, sizeof *copy * (size_t)(stamps.n + 1));
    if (stamps.n > 0)
        memcpy(copy, stamps.p, sizeof *copy * (size_t)stamps.n);
    mr_pss_holding *h = mr_arena_alloc(&w->arena, sizeof *h);
    *h = s->ranges[range].h;
    m.n = stamps.n;
    m.stamps = copy;
    m.holds = h;
    mr_vec_deinit(&stamps);
    mr_pss_note(w, s->node, "copies range %llu at version %llu", (uint64_t)range, a->version, 0, 0);
    mr_pss_post(w, &m);
}

static mr_pss_message answer_to(const mr_pss_server *s, const mr_pss_message *q, mr_code code)
{
    return (mr_pss_message){.kind = ANSWER,
                            .from = s->node,
                            .to = q->from,
                            .range = q->range,
                            .code = code,
                            .task = q->task,
                            .piece = q->piece,
                            .try = q->try,
                            .id = s->id,
                            .part = q->part};
}

static void send_answer(mr_pss *w, mr_pss_server *s, const mr_psr_action *a)
{
    const mr_pss_message *q = (const mr_pss_message *)(uintptr_t)a->cookie;
    if (a->code == MR_OK)
        mr_pss_check_ack(w, s, q->range, q->part);
    mr_pss_message m = answer_to(s, q, a->code);
    m.epoch = a->epoch;
    m.version = a->version;
    m.generation = s->replicas[q->range].view.generation;
    mr_pss_post(w, &m);
}

static void to_manager(mr_pss *w, mr_pss_server *s, mr_pss_kind k, int range, uint64_t about, uint64_t epoch)
{
    mr_pss_post(w, &(mr_pss_message){.kind = k,
                                     .from = s->node,
                                     .to = MANAGER,
                                     .range = range,
                                     .id = s->id,
                                     .version = about,
                                     .epoch = epoch,
                                     .incarnation = s->manager_incarnation});
}

/* ---- actions ---- */

/* Carries out the actions of one range's replica. m is the message that caused them, or NULL. */
static void carry_out(mr_pss *w, mr_pss_server *s, int range, const mr_pss_message *m)
{
    for (int i = 0; i < s->actions.n; i++) {
        mr_psr_action *a = &s->actions.p[i];
        switch (a->what) {
        case MR_PSR_RECORD: make_record(w, s, range, a->version); break;
        case MR_PSR_APPLY: keep_record(w, s, range, &m->records[a->index]); break;
        case MR_PSR_SEND: send_records(w, s, range, a); break;
        case MR_PSR_HAVE: send_word(w, s, HAVE, range, a); break;
        case MR_PSR_REFUSE: send_word(w, s, REFUSE, range, a); break;
        case MR_PSR_COPY: send_copy(w, s, range, a); break;
        case MR_PSR_INSTALL:
            s->ranges[range].h = *m->holds;
            s->ranges[range].kept.n = 0;
            break;
        case MR_PSR_RESET:
            s->ranges[range].h = (mr_pss_holding){0};
            s->ranges[range].kept.n = 0;
            break;
        case MR_PSR_FORGET: forget_records(s, range, a->version); break;
        case MR_PSR_ANSWER: send_answer(w, s, a); break;
        case MR_PSR_COMPLETE: to_manager(w, s, COMPLETE, range, a->to, a->epoch); break;
        case MR_PSR_DRAINED: to_manager(w, s, DRAINED, range, 0, a->epoch); break;
        case MR_PSR_DECLINE: to_manager(w, s, DECLINE, range, 0, a->epoch); break;
        case MR_PSR_ASK_VIEW: to_manager(w, s, HEARD, range, 0, s->view.epoch); break;
        }
    }
    s->actions.n = 0;
    if (s->ranges[range].h.version != s->replicas[range].version)
        mr_pss_fail(w, "range %d: version %llu is held, %llu is meant", range, (unsigned long long)s->ranges[range].h.version,
             (unsigned long long)s->replicas[range].version);
}

/* ---- views, and the manager ---- */

static void take_view(mr_pss *w, mr_pss_server *s, const mr_pss_message *m)
{
    if (m->incarnation != s->manager_incarnation || m->view->epoch < s->view.epoch)
        return;
    s->joined = mr_ps_view_has_server(m->view, s->id);
    if (m->view->epoch == s->view.epoch)
        return;
    mr_ps_view_copy(&s->view, m->view);
    mr_pss_note(w, s->node, "has view %llu", s->view.epoch, 0, 0, 0);
    for (int i = 0; i < w->n_ranges; i++) {
        mr_psr_view(&s->replicas[i], &s->view.ranges.p[i], w->now_ns, &s->actions);
        carry_out(w, s, i, m);
    }
}

/* Sends a heartbeat, or joins if the manager is new or does not count this server as a member. */
static void say_hello(mr_pss *w, mr_pss_server *s)
{
    if (!w->manager.up)
        return; /* nobody is listening */
    if (s->manager_incarnation != w->manager.incarnation) {
        s->manager_incarnation = w->manager.incarnation;
        s->joined = false;
    }
    if (s->joined && s->wants_to_leave)
        to_manager(w, s, LEAVE, 0, 0, s->view.epoch);
    if (s->joined)
        to_manager(w, s, HEARD, 0, 0, s->view.epoch);
    else
        mr_pss_post(w, &(mr_pss_message){.kind = JOIN, .from = s->node, .to = MANAGER, .id = s->id, .incarnation = s->manager_incarnation,
                           .view = mr_pss_frozen(w, &s->view)});
}

static void tick_server(mr_pss *w, void *arg)
{
    mr_pss_server *s = arg;
    if (!s->up)
        return;
    for (int i = 0; i < w->n_ranges; i++) {
        mr_psr_tick(&s->replicas[i], w->now_ns, &s->actions);
        carry_out(w, s, i, NULL);
    }
    say_hello(w, s);
    mr_pss_at(w, TICK_NS, tick_server, s);
}

/* ---- start and end ---- */

mr_pss_server *mr_pss_server_start(mr_pss *w)
{
    if (w->n_servers == MAX_SERVERS)
        return NULL;
    mr_pss_server *s = w->servers[w->n_servers] = mr_new(mr_pss_server);
    s->node = FIRST_SERVER + w->n_servers++;
    s->id = mr_pss_random(w) | 1;
    s->up = true;
    mr_ps_clock_init(&s->clock, w->n_ranges, 0);
    for (int i = 0; i < w->n_ranges; i++)
        mr_psr_init(&s->replicas[i], s->id, i, &s->clock, &w->replica_options);
    mr_pss_note(w, s->node, "starts as %llx", s->id, 0, 0, 0);
    mr_pss_at(w, mr_pss_between(w, 0, 5000) * US, tick_server, s);
    return s;
}

static void close_connections(mr_pss *w, mr_pss_server *s)
{
    mr_pss_at(w, mr_pss_between(w, 1, 20) * MS, mr_pss_manager_closed, s);
    for (int i = 0; i < w->n_clients; i++)
        mr_pss_post(w, &(mr_pss_message){.kind = BROKEN, .from = s->node, .to = w->clients[i].node, .id = s->id});
}

void mr_pss_server_end(mr_pss *w, mr_pss_server *s, bool seen)
{
    s->up = false;
    mr_pss_note(w, s->node, "ends (seen: %llu)", seen, 0, 0, 0);
    if (seen)
        close_connections(w, s);
}

void mr_pss_server_free(mr_pss_server *s)
{
    for (int i = 0; i < MAX_RANGES; i++) {
        mr_psr_deinit(&s->replicas[i]);
        mr_vec_deinit(&s->ranges[i].kept);
    }
    mr_ps_clock_deinit(&s->clock);
    mr_ps_view_deinit(&s->view);
    mr_vec_deinit(&s->actions);
    mr_free(s);
}

/* ---- messages ---- */

static void take_push(mr_pss *w, mr_pss_server *s, const mr_pss_message *m)
{
    if (m->part && w->parts[m->part].bad) { /* it cannot be decoded */
        mr_pss_message bad = answer_to(s, m, MR_INVALID_ARGUMENT);
        mr_pss_post(w, &bad);
        return;
    }
    mr_psr_push p = {w->clients[m->from - FIRST_CLIENT].id, m->ts, m->prev, m->epoch, m->generation, (uint64_t)(uintptr_t)m};
    mr_psr_push_part(&s->replicas[m->range], &p, w->now_ns, &s->actions);
}

static void take_append(mr_pss *w, mr_pss_server *s, const mr_pss_message *m)
{
    mr_psr_record_info records[MAX_PARTS];
    for (int i = 0; i < m->n; i++)
        records[i] = m->records[i].r;
    mr_psr_append(&s->replicas[m->range], m->id, m->epoch, records, m->n, w->now_ns, &s->actions);
}

/* Whether the server has no memory for the data in a message. */
static bool is_too_much(mr_pss *w, const mr_psr *r, const mr_pss_message *m)
{
    bool brings = (m->kind == APPEND && m->n > 0) || m->kind == COPY;
    if (!(w->faults & MR_PS_SIM_FULL) || w->calm || !brings || !mr_psr_follows(r, m->id, m->epoch))
        return false;
    bool full = mr_pss_chance(w, 60);
    w->result->n_faults += full;
    return full;
}

void mr_pss_server_take(mr_pss *w, mr_pss_server *s, const mr_pss_message *m)
{
    mr_psr *r = &s->replicas[m->range];
    w->declined = is_too_much(w, r, m);
    if (w->declined) {
        mr_psr_decline(r, m->id, m->epoch, &s->actions);
        carry_out(w, s, m->range, m);
        return;
    }
    switch (m->kind) {
    case VIEW: take_view(w, s, m); return;
    case LET_GO:
        if (m->incarnation == s->manager_incarnation && s->wants_to_leave && m->epoch >= s->view.epoch)
            mr_pss_server_end(w, s, true);
        return;
    case KEEP: s->wants_to_leave = false; return;
    case FORGET: mr_ps_clock_forget(&s->clock, m->id); return;
    case APPEND: take_append(w, s, m); break;
    case HAVE: mr_psr_have(r, m->id, m->epoch, m->version, m->stable, m->again, w->now_ns, &s->actions); break;
    case REFUSE: mr_psr_refused(r, m->id, m->epoch, &s->actions); break;
    case COPY: mr_psr_copy(r, m->id, m->epoch, m->version, m->stamps, m->n, w->now_ns, &s->actions); break;
    case COPIED: mr_psr_copied(r, w->servers[m->from - FIRST_SERVER]->id, m->ok, w->now_ns, &s->actions); break;
    case PUSH: take_push(w, s, m); break;
    case PULL: mr_pss_check_pull(w, s, m); return;
    default: mr_pss_fail(w, "a server gets a message of kind %d", m->kind); return;
    }
    carry_out(w, s, m->range, m);
}
