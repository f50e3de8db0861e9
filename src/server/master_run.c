/* server/master_run.c -- RunStep: a step over the tasks of a program.
 *
 * A step is a record that passes through: registration of its program (once for all its steps), one RunGraph a task,
 * one CleanupGraph a task, the answer.  No thread waits for it.  What to do next says dist/master_step; its calls are made
 * under the step's lock, what it tells to do is done without. */
#include "base/clock.h"
#include "base/memory.h"
#include "exec/trace.h"
#include "server/collective.h"
#include "server/master_internal.h"
#include "server/wire.h"

#define BEGUN_AT_ONCE 65536 /* bytes of a request */

/* ---- life ---- */

mr_mstep *mr_mstep_new(mr_net_call *c)
{
    mr_mstep *t = mr_new(mr_mstep);
    mr_refs_init(&t->refs);
    mr_mutex_init(&t->mu);
    t->call = c;
    return t;
}

void mr_mstep_unref(mr_mstep *t)
{
    if (!mr_refs_drop(&t->refs))
        return;
    for (int i = 0; i < t->n_parts; i++)
        mr_bytes_deinit(&t->parts[i].reply);
    mr_master_step_deinit(&t->state);
    mr_mrequest_deinit(&t->q);
    mr_mpartial_unref(t->partial);
    mr_mcallable_unref(t->callable);
    mr_mutex_deinit(&t->mu);
    mr_free(t->feed_at);
    mr_free(t->fetch_at);
    mr_free(t->parts);
    mr_mtrace_free(t->trace);
    mr_free(t);
}

static void enlist(mr_mstep *t)
{
    mr_msession *s = t->session;
    mr_lock(&s->mu);
    t->next = s->steps;
    t->link = &s->steps;
    if (t->next)
        t->next->link = &t->next;
    s->steps = t;
    mr_unlock(&s->mu);
}

static void delist(mr_mstep *t)
{
    mr_msession *s = t->session;
    mr_lock(&s->mu);
    if (t->link) {
        *t->link = t->next;
        if (t->next)
            t->next->link = t->link;
        t->link = NULL;
    }
    mr_unlock(&s->mu);
}

/* ---- the answer ---- */

static int place(const int *at, int i) { return at ? at[i] : i; }

/* The fetches, in the client's order and under the client's names; those of a callable have none. */
static mr_status *encode_fetches(mr_mstep *t, mr_wire *w)
{
    mr_mprogram *p = t->program;
    mr_run_reply reply = {0};
    mr_status *st = NULL;
    if (t->q.fetches.n == 0)
        return NULL;
    MR_GO(mr_run_reply_parse(&t->parts[p->client_part].reply, &reply));
    for (int i = 0; i < t->q.fetches.n; i++) {
        mr_sv value = MR_SV("");
        const char *key = p->fetch_keys[place(t->fetch_at, i)];
        for (int k = 0; k < reply.named.n && !value.n; k++)
            if (mr_sv_is(mr_wire_field(reply.named.p[k], 1), key))
                value = mr_wire_field(reply.named.p[k], 2);
        if (!value.n)
            MR_GO(mr_error(MR_INTERNAL, "No value came for %.*s", MR_SV_ARG(t->q.fetches.p[i])));
        if (t->callable)
            mr_wire_raw(w, 1, value);
        else
            mr_wire_named_raw(w, 1, t->q.fetches.p[i], value);
    }
out:
    mr_run_reply_deinit(&reply);
    return st;
}

static void begin_answer(mr_mstep *t, bool failed, mr_wire *w)
{
    mr_wire_init(w);
    if (t->parts && mr_mstep_is_traced(t))
        mr_mstep_trace_encode(t, failed, &w->pb);
}

static mr_status *encode_answer(mr_mstep *t, mr_status *st, mr_bytes *body)
{
    mr_wire w;
    begin_answer(t, st != NULL, &w);
    if (!st)
        st = encode_fetches(t, &w);
    if (st && t->q.errors_in_body) {
        mr_wire_deinit(&w); /* of values that came before the error */
        begin_answer(t, true, &w);
        mr_pb_put_varint(&w.pb, 3, mr_status_code(st));
        mr_pb_put_bytes(&w.pb, 4, mr_sv_of(mr_status_message(st)));
        mr_status_free(st);
        st = NULL;
    }
    mr_status_update(&st, mr_wire_finish(&w, body));
    /* The values are parts of the replies that t holds, so they are copied or sent before it goes. */
    mr_sv flat;
    return st ? st : mr_bytes_flat(body, &flat);
}

void mr_mstep_answer(mr_mstep *t, mr_status *st)
{
    mr_bytes body = {0};
    mr_msession *s = t->session;
    delist(t);
    if (t->timed && mr_timers_clear(s->master->timers, &t->timer))
        mr_mstep_unref(t);
    if (t->partial)
        mr_mstep_leave_turn(t, st != NULL);
    else if (t->q.options.graph_key)
        mr_collectives_retire_step(s->master->collectives, t->q.options.graph_key, t->id);
    if (t->placing == MR_PLACING_MEASURE && !st)
        mr_mstep_learn(t);
    st = encode_answer(t, st, &body);
    mr_reply(t->call, st, &body);
    mr_bytes_deinit(&body);
    mr_mstep_unref(t);
    mr_msession_leave(s);
    mr_msession_unref(s);
}

/* ---- doing what dist/master_step tells ---- */

static void part_ran(mr_net_request *r, mr_status *st, mr_bytes *reply);

static void encode_options(mr_mstep *t, mr_pb_writer *out)
{
    bool measured = t->placing == MR_PLACING_MEASURE;
    if (mr_mstep_is_traced(t) || measured) {
        size_t mark = mr_pb_begin(out, 5); /* ExecutorOpts */
        mr_pb_opt_varint(out, 1, t->costs);
        mr_pb_opt_varint(out, 3, mr_mstep_is_timed(t) || measured);
        mr_pb_opt_varint(out, 4, t->q.options.output_partition_graphs);
        mr_pb_end(out, mark);
    }
    if (t->partial) {
        mr_pb_put_varint(out, 6, 1);
        mr_pb_opt_varint(out, 7, t->last);
        mr_pb_put_varint(out, 11, (uint64_t)mr_step_id_new()); /* a piece happens once, as a step does */
    }
}

static void encode_run(mr_mstep *t, int part, mr_wire *w)
{
    mr_mprogram *p = t->program;
    mr_pb_writer *out = &w->pb;
    mr_pb_put_bytes(out, 1, mr_sv_of(p->parts[part].handle));
    mr_pb_put_varint(out, 2, (uint64_t)t->id);
    encode_options(t, out);
    mr_pb_put_bytes(out, 8, mr_sv_of(t->session->handle));
    mr_pb_put_varint(out, 9, 1);
    mr_pb_put_varint(out, 10, 1);
    if (part != p->client_part)
        return;
    for (int i = 0; i < t->q.fetches.n; i++) {
        const char *key = p->fetch_keys[place(t->fetch_at, i)];
        bool again = false;
        for (int k = 0; k < i && !again; k++)
            again = strcmp(p->fetch_keys[place(t->fetch_at, k)], key) == 0;
        if (!again)
            mr_pb_put_bytes(out, 4, mr_sv_of(key));
    }
    for (int i = 0; i < t->q.feeds.n; i++)
        mr_wire_named_raw(w, 3, mr_sv_of(p->feed_keys[place(t->feed_at, i)]), t->q.values.p[i]);
}

static void run_part(mr_mstep *t, int part)
{
    mr_wire w;
    mr_mpart_call *c = &t->parts[part];
    mr_fellows *peers = t->session->peers;
    int task = t->program->parts[part].task;
    mr_bytes none = {0};
    mr_wire_init(&w);
    encode_run(t, part, &w);
    c->request = (mr_net_request){.method = MR_WORKER_SERVICE "RunGraph", .done = part_ran};
    c->step = t;
    c->part = part;
    c->asked_ns = t->trace ? mr_trace_clock_ns() : 0;
    mr_refs_take(&t->refs);
    mr_status *st = mr_wire_finish(&w, &c->request.body);
    if (st)
        part_ran(&c->request, st, &none);
    else
        mr_fellows_ask(peers, task, &c->request);
    mr_lock(&t->mu);
    c->started = true;
    bool cancelled = c->cancelled;
    mr_unlock(&t->mu);
    if (cancelled)
        mr_fellows_cancel(peers, task, &c->request);
}

static void cancel_part(mr_mstep *t, int part)
{
    mr_mpart_call *c = &t->parts[part];
    mr_lock(&t->mu);
    c->cancelled = true;
    bool started = c->started;
    mr_unlock(&t->mu);
    if (started)
        mr_fellows_cancel(t->session->peers, t->program->parts[part].task, &c->request);
}

static void clean_up(mr_mstep *t, int part)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_varint(&w, 1, (uint64_t)t->id);
    mr_errands_send(&t->session->master->errands, t->session->peers, t->program->parts[part].task, MR_WORKER_SERVICE "CleanupGraph", &body);
}

/* The caller holds a reference to the step. */
static void do_all(mr_mstep *t, mr_step_actions *a)
{
    mr_net_hold(); /* what a part of this task asks of another goes with the part of that one */
    for (int i = 0; i < a->n; i++) {
        int part = a->p[i].part;
        switch (a->p[i].what) {
        case MR_DO_RUN: run_part(t, part); break;
        case MR_DO_CANCEL: cancel_part(t, part); break;
        case MR_DO_CLEANUP: clean_up(t, part); break;
        case MR_DO_REPLY: {
            mr_lock(&t->mu);
            mr_status *st = mr_master_step_result(&t->state);
            mr_unlock(&t->mu);
            mr_mstep_trace_end(t, st, mr_mstep_answer);
            break;
        }
        }
    }
    mr_net_release();
    mr_vec_deinit(a);
}

/* Where an error comes from is said in front of it. */
static mr_status *from_task(mr_mstep *t, int part, mr_status *st)
{
    if (!st)
        return NULL;
    return mr_status_prepend(st, "From %s:\n", mr_fellows_task(t->session->peers, t->program->parts[part].task)->name);
}

static void part_ran(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_mpart_call *c = (mr_mpart_call *)r;
    mr_mstep *t = c->step;
    mr_msession *s = t->session;
    mr_step_actions a = {0};
    c->heard_ns = t->trace ? mr_trace_clock_ns() : 0;
    mr_run_reply parsed = {0};
    mr_refs_take(&s->refs); /* the step may be answered, and the session be gone, before all is done */
    st = mr_wire_unmark(st);
    if (!st) {
        mr_bytes_append(&c->reply, reply);
        st = mr_run_reply_parse(&c->reply, &parsed);
        mr_run_reply_deinit(&parsed);
    }
    st = from_task(t, c->part, st);
    mr_lock(&t->mu);
    mr_master_step_ran(&t->state, c->part, st, &a);
    mr_unlock(&t->mu);
    do_all(t, &a);
    mr_msession_unref(s);
    mr_mstep_unref(t);
}

static void stop_step(mr_mstep *t, mr_status *why)
{
    mr_step_actions a = {0};
    mr_msession *s = t->session;
    mr_refs_take(&s->refs); /* as in part_ran */
    mr_lock(&t->mu);
    mr_master_step_stop(&t->state, why, &a);
    mr_unlock(&t->mu);
    do_all(t, &a);
    mr_msession_unref(s);
}

static void time_is_up(mr_timer *e)
{
    mr_mstep *t = (mr_mstep *)((char *)e - offsetof(mr_mstep, timer));
    stop_step(t, mr_error(MR_DEADLINE_EXCEEDED, "Timed out waiting for notification"));
    mr_mstep_unref(t);
}

static void client_left(void *arg, mr_net_call *c)
{
    mr_mstep *t = arg;
    (void)c;
    mr_refs_take(&t->refs); /* stopping may answer the call and end the step */
    stop_step(t, mr_error(MR_CANCELLED, "RunStep was cancelled"));
    mr_mstep_unref(t);
}

static bool takes_part(const mr_mstep *t, int task)
{
    for (int i = 0; i < t->program->n_parts; i++)
        if (t->program->parts[i].task == task)
            return true;
    return false;
}

/* Those with a task (-1: all). */
static void stop_steps(mr_msession *s, int task, const mr_status *why)
{
    MR_VEC(mr_mstep *) all = {0};
    mr_lock(&s->mu);
    for (mr_mstep *t = s->steps; t; t = t->next) {
        if (task >= 0 && !takes_part(t, task))
            continue;
        mr_refs_take(&t->refs);
        mr_vec_push(&all, t);
    }
    mr_unlock(&s->mu);
    for (int i = 0; i < all.n; i++) {
        stop_step(all.p[i], mr_status_copy(why));
        mr_mstep_unref(all.p[i]);
    }
    mr_vec_deinit(&all);
}

/* ---- from a ready program on ---- */

/* A task of a program that is known to be lost: it is not asked, for it may not answer. */
static mr_status *check_lives(const mr_msession *s, const mr_mprogram *p)
{
    for (int i = 0; i < p->n_parts; i++) {
        int task = p->parts[i].task;
        if (mr_watch_ended(s->peers->watch, task, s->lives[task]))
            return mr_watch_why(s->peers->watch, task, s->lives[task]);
    }
    return NULL;
}

void mr_mstep_begin(mr_mstep *t)
{
    mr_step_actions a = {0};
    mr_mprogram *p = t->program;
    mr_msession *s = t->session;
    int64_t ms = t->q.options.timeout_ms > 0 ? t->q.options.timeout_ms : s->config.timeout_ms;
    if (!t->partial && !t->id)
        t->id = mr_step_id_new();
    t->n_parts = p->n_parts;
    t->parts = mr_new_array(mr_mpart_call, p->n_parts + 1);
    mr_master_step_init(&t->state, p->n_parts);
    t->state.goes_on = t->partial && !t->last;
    t->costs = !t->partial && mr_session_config_wants_costs(&s->config, &p->n_counted);
    mr_mstep_trace_begin(t);
    mr_refs_take(&t->refs); /* this function's */
    mr_refs_take(&s->refs);
    enlist(t);
    mr_lock(&t->mu);
    mr_master_step_begin(&t->state, &a);
    mr_unlock(&t->mu);
    if (ms > 0) {
        t->timed = true;
        mr_refs_take(&t->refs);
        mr_timers_set(s->master->timers, &t->timer, mr_now_ns() + MR_MIN(ms, INT64_MAX / 4000000) * 1000000, time_is_up);
    }
    bool here = t->call->net->on_cancel(t->call, client_left, t);
    do_all(t, &a);
    mr_lock(&s->mu);
    bool closed = s->closed, unused = s->unused;
    mr_unlock(&s->mu);
    if (!here)
        client_left(t, NULL);
    if (closed) /* while it was not in the list yet */
        stop_step(t, mr_error(MR_CANCELLED, "%s", mr_msession_why_closed(unused)));
    mr_status *lost = check_lives(s, p);
    if (lost) /* likewise */
        stop_step(t, lost);
    mr_mstep_unref(t);
    mr_msession_unref(s);
}

void mr_msession_stop(mr_msession *s, mr_code code, const char *why)
{
    mr_status *st = mr_error(code, "%s", why);
    mr_msession_stop_registrations(s, -1, st);
    stop_steps(s, -1, st);
    mr_status_free(st);
}

void mr_msession_stop_lost(mr_msession *s, int task)
{
    mr_status *why = s->lives[task] ? mr_watch_why(s->peers->watch, task, s->lives[task]) : NULL;
    if (!why)
        return;
    mr_msession_stop_registrations(s, task, why);
    stop_steps(s, task, why);
    mr_status_free(why);
}

/* ---- RunStep ---- */

mr_status *mr_mstep_enter(mr_mstep *t, mr_master *m, mr_sv session, int64_t request)
{
    mr_lock(&m->mu);
    mr_status *st = mr_recent_once(&m->requests, request); /* clients send a request again when its answer is lost */
    mr_unlock(&m->mu);
    if (!st)
        st = mr_msession_find(m, session, &t->session);
    if (st)
        return st;
    st = mr_msession_enter(t->session);
    if (st) {
        mr_msession_unref(t->session);
        t->session = NULL;
    }
    return st;
}

/* The id of a step that other masters make too. */
static void id_found(void *ctx, mr_status *st, int64_t id)
{
    mr_mstep *t = ctx;
    t->id = id;
    if (st)
        mr_mstep_answer(t, st);
    else
        mr_mstep_run_when_ready(t);
}

void mr_mstep_go(mr_mstep *t, mr_status *st)
{
    if (!st)
        st = check_lives(t->session, t->program);
    if (!st && t->q.options.graph_key && !t->partial) {
        mr_collectives_next_step(t->session->master->collectives, t->q.options.graph_key, id_found, t);
    } else if (!st) {
        mr_mstep_run_when_ready(t);
    } else if (t->session) {
        mr_mstep_answer(t, st);
    } else {
        mr_reply(t->call, st, NULL);
        mr_mstep_unref(t);
    }
}

/* What may take longer: a program is made. */
static void make_and_go(mr_task *task)
{
    mr_mstep *t = (mr_mstep *)((char *)task - offsetof(mr_mstep, turn));
    if (t->placing == MR_PLACING_ANEW)
        mr_msession_place_anew(t->session);
    if (t->q.partial_run.n)
        mr_mstep_take_turn(t);
    else
        mr_mstep_go(t, mr_mprogram_get(t->session, &t->q, false, &t->program));
}

/* In the thread of the transport: a known step with small feeds is begun there. */
void mr_master_run_step(void *service, mr_net_call *c, mr_sv body)
{
    mr_master *m = service;
    mr_mstep *t = mr_mstep_new(c);
    mr_status *st = mr_mrequest_parse(body, &t->q);
    if (!st)
        st = mr_mstep_enter(t, m, t->q.session, t->q.request);
    if (!st && t->session->placing && !t->q.partial_run.n)
        t->placing = mr_placing_next(t->session->placing);
    if (!st && body.n <= BEGUN_AT_ONCE && !t->q.partial_run.n && t->placing != MR_PLACING_ANEW)
        t->program = mr_mprogram_find(t->session, &t->q);
    if (st || t->program) {
        mr_mstep_go(t, st);
    } else {
        t->turn.fn = make_and_go;
        mr_pool_submit(m->host->pool, &t->turn);
    }
}
