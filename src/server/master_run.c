/* server/master_run.c -- RunStep: a step over the tasks of a program.
 *
 * A step is a record that passes through: registration of its program (once for all its steps), one RunGraph a task,
 * one CleanupGraph a task, the answer.  No thread waits for it.  What to do next says dist/master_step; its calls are made
 * under the step's lock, what it tells to do is done without. */
#include "base/clock.h"
#include "base/memory.h"
#include "dist/master_step.h"
#include "server/master_internal.h"
#include "server/wire.h"

typedef struct part_call { /* a RunGraph on its way */
    mr_net_request request; /* first */
    mr_mstep *step;
    int part;
    mr_bytes reply;
    bool started, cancelled; /* under the step's lock: a call is cancelled once it is started */
} part_call;

struct mr_mstep {
    mr_refs refs; /* its own until the answer, and of each call and timer under way */
    mr_msession *session;
    mr_net_call *call;
    mr_mrequest q; /* views into the call's body */
    mr_mprogram *program;
    int64_t id;
    int n_parts;
    mr_mutex mu;
    mr_master_step state MR_GUARDED_BY(mu);
    part_call *parts;
    mr_timer timer;
    bool timed;
    mr_mstep *next, **link; /* of the session's steps, under its lock; link NULL: not in the list */
};

/* ---- life ---- */

static void step_unref(mr_mstep *t)
{
    if (!mr_refs_drop(&t->refs))
        return;
    for (int i = 0; i < t->n_parts; i++)
        mr_bytes_deinit(&t->parts[i].reply);
    mr_master_step_deinit(&t->state);
    mr_mrequest_deinit(&t->q);
    mr_mutex_deinit(&t->mu);
    mr_free(t->parts);
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

typedef struct run_reply { /* a RunGraphResponse */
    mr_status *st;
    MR_VEC(mr_sv) named; /* NamedTensorProtos */
} run_reply;

static mr_status *parse_reply(mr_bytes *body, run_reply *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv bytes, text = MR_SV("");
    int64_t code = 0;
    MR_TRY(mr_bytes_flat(body, &bytes));
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: {
            mr_sv v = mr_pb_bytes(&r);
            mr_vec_push(&out->named, v);
            break;
        }
        case 5: code = mr_pb_int64(&r); break;
        case 6: text = mr_pb_bytes(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "RunGraphResponse"));
    return mr_wire_error(code, text);
}

static mr_sv named_field(mr_sv named, uint32_t want)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv v = MR_SV("");
    mr_pb_reader_init(&r, named);
    while (mr_pb_next(&r, &field, &wire))
        if (field == want)
            v = mr_pb_bytes(&r);
        else
            mr_pb_skip(&r);
    return v;
}

/* The fetches, in the client's order and under the client's names. */
static mr_status *encode_fetches(mr_mstep *t, mr_wire *w)
{
    mr_mprogram *p = t->program;
    run_reply reply = {0};
    mr_status *st = NULL;
    if (p->n_fetches == 0)
        return NULL;
    MR_GO(parse_reply(&t->parts[p->client_part].reply, &reply));
    for (int i = 0; i < p->n_fetches; i++) {
        mr_sv value = MR_SV("");
        for (int k = 0; k < reply.named.n && !value.n; k++)
            if (mr_sv_is(named_field(reply.named.p[k], 1), p->fetch_keys[i]))
                value = named_field(reply.named.p[k], 2);
        if (!value.n)
            MR_GO(mr_error(MR_INTERNAL, "No value came for %.*s", MR_SV_ARG(t->q.fetches.p[i])));
        mr_wire_named_raw(w, 1, t->q.fetches.p[i], value);
    }
out:
    mr_vec_deinit(&reply.named);
    return st;
}

/* With the step's last work done. */
static void answer(mr_mstep *t, mr_status *st)
{
    mr_wire w;
    mr_bytes body = {0};
    mr_msession *s = t->session;
    delist(t);
    if (t->timed && mr_timers_clear(s->master->timers, &t->timer))
        step_unref(t);
    mr_wire_init(&w);
    if (!st)
        st = encode_fetches(t, &w);
    if (st && t->q.errors_in_body) {
        mr_wire_deinit(&w);
        mr_wire_init(&w);
        mr_pb_put_varint(&w.pb, 3, mr_status_code(st));
        mr_pb_put_bytes(&w.pb, 4, mr_sv_of(mr_status_message(st)));
        mr_status_free(st);
        st = NULL;
    }
    mr_status_update(&st, mr_wire_finish(&w, &body));
    /* The values are parts of the replies that t holds, so they are copied or sent before it goes. */
    mr_sv flat;
    if (!st)
        st = mr_bytes_flat(&body, &flat);
    mr_reply(t->call, st, &body);
    mr_bytes_deinit(&body);
    step_unref(t);
    mr_msession_leave(s);
    mr_msession_unref(s);
}

/* ---- doing what dist/master_step tells ---- */

static void part_ran(mr_net_request *r, mr_status *st, mr_bytes *reply);

static void encode_run(mr_mstep *t, int part, mr_wire *w)
{
    mr_mprogram *p = t->program;
    mr_pb_writer *out = &w->pb;
    mr_pb_put_bytes(out, 1, mr_sv_of(p->parts[part].handle));
    mr_pb_put_varint(out, 2, (uint64_t)t->id);
    mr_pb_put_bytes(out, 8, mr_sv_of(t->session->handle));
    mr_pb_put_varint(out, 9, 1);
    mr_pb_put_varint(out, 10, 1);
    if (part != p->client_part)
        return;
    for (int i = 0; i < p->n_fetches; i++) {
        bool again = false;
        for (int k = 0; k < i && !again; k++)
            again = strcmp(p->fetch_keys[k], p->fetch_keys[i]) == 0;
        if (!again)
            mr_pb_put_bytes(out, 4, mr_sv_of(p->fetch_keys[i]));
    }
    for (int i = 0; i < p->n_feeds; i++)
        mr_wire_named_raw(w, 3, mr_sv_of(p->feed_keys[i]), t->q.values.p[i]);
}

static void run_part(mr_mstep *t, int part)
{
    mr_wire w;
    part_call *c = &t->parts[part];
    mr_host *h = t->session->master->host;
    int task = t->program->parts[part].task;
    mr_bytes none = {0};
    mr_wire_init(&w);
    encode_run(t, part, &w);
    c->request = (mr_net_request){.method = MR_WORKER_SERVICE "RunGraph", .done = part_ran};
    c->step = t;
    c->part = part;
    mr_refs_take(&t->refs);
    mr_status *st = mr_wire_finish(&w, &c->request.body);
    if (st)
        part_ran(&c->request, st, &none);
    else
        mr_host_ask(h, task, &c->request);
    mr_lock(&t->mu);
    c->started = true;
    bool cancelled = c->cancelled;
    mr_unlock(&t->mu);
    if (cancelled)
        mr_host_cancel(h, task, &c->request);
}

static void cancel_part(mr_mstep *t, int part)
{
    part_call *c = &t->parts[part];
    mr_lock(&t->mu);
    c->cancelled = true;
    bool started = c->started;
    mr_unlock(&t->mu);
    if (started)
        mr_host_cancel(t->session->master->host, t->program->parts[part].task, &c->request);
}

static void clean_up(mr_mstep *t, int part)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_varint(&w, 1, (uint64_t)t->id);
    mr_master_tell(t->session->master, t->program->parts[part].task, MR_WORKER_SERVICE "CleanupGraph", &body);
}

/* The caller holds a reference to the step. */
static void do_all(mr_mstep *t, mr_step_actions *a)
{
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
            answer(t, st);
            break;
        }
        }
    }
    mr_vec_deinit(a);
}

/* Where an error comes from is said in front of it. */
static mr_status *from_task(mr_mstep *t, int part, mr_status *st)
{
    if (!st)
        return NULL;
    return mr_status_prepend(st, "From %s:\n", t->session->master->host->cluster.tasks.p[t->program->parts[part].task].name);
}

static void part_ran(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    part_call *c = (part_call *)r;
    mr_mstep *t = c->step;
    mr_step_actions a = {0};
    run_reply parsed = {0};
    st = mr_wire_unmark(st);
    if (!st) {
        mr_bytes_append(&c->reply, reply);
        st = parse_reply(&c->reply, &parsed);
        mr_vec_deinit(&parsed.named);
    }
    st = from_task(t, c->part, st);
    mr_lock(&t->mu);
    mr_master_step_ran(&t->state, c->part, st, &a);
    mr_unlock(&t->mu);
    do_all(t, &a);
    step_unref(t);
}

static void stop_step(mr_mstep *t, mr_status *why)
{
    mr_step_actions a = {0};
    mr_lock(&t->mu);
    mr_master_step_stop(&t->state, why, &a);
    mr_unlock(&t->mu);
    do_all(t, &a);
}

static void time_is_up(mr_timer *e)
{
    mr_mstep *t = (mr_mstep *)((char *)e - offsetof(mr_mstep, timer));
    stop_step(t, mr_error(MR_DEADLINE_EXCEEDED, "Timed out waiting for notification"));
    step_unref(t);
}

static void client_left(void *arg, mr_net_call *c)
{
    (void)c;
    stop_step(arg, mr_error(MR_CANCELLED, "RunStep was cancelled"));
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
        step_unref(all.p[i]);
    }
    mr_vec_deinit(&all);
}

/* ---- from a ready program on ---- */

/* A task of a program that is known to be lost: it is not asked, for it may not answer. */
static mr_status *check_lives(const mr_msession *s, const mr_mprogram *p)
{
    for (int i = 0; i < p->n_parts; i++) {
        int task = p->parts[i].task;
        if (mr_watch_ended(s->master->host->watch, task, s->lives[task]))
            return mr_watch_why(s->master->host->watch, task, s->lives[task]);
    }
    return NULL;
}

static int64_t new_step_id(void)
{
    int64_t id = (int64_t)(mr_random64() >> 7);
    return id ? id : 1;
}

static void begin(mr_mstep *t)
{
    mr_step_actions a = {0};
    mr_mprogram *p = t->program;
    mr_msession *s = t->session;
    int64_t ms = t->q.timeout_ms > 0 ? t->q.timeout_ms : s->config.timeout_ms;
    t->id = new_step_id();
    t->n_parts = p->n_parts;
    t->parts = mr_new_array(part_call, p->n_parts + 1);
    mr_master_step_init(&t->state, p->n_parts);
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
    bool closed = s->closed;
    mr_unlock(&s->mu);
    if (!here)
        client_left(t, NULL);
    if (closed) /* while it was not in the list yet */
        stop_step(t, mr_error(MR_CANCELLED, "Session was closed"));
    mr_status *lost = check_lives(s, p);
    if (lost) /* likewise */
        stop_step(t, lost);
    step_unref(t);
    mr_msession_unref(s);
}

/* ---- registration ---- */

struct mr_mregister { /* a RegisterGraph on its way */
    mr_net_request request; /* first */
    mr_mprogram *program;
    int part;
    /* Under the session's lock: */
    bool started, cancelled, over; /* a call is cancelled once it is started */
    mr_status *lost;               /* why it was cancelled, when its task is lost */
};

/* The program leaves the table, so that the next step tries anew. */
static void forget_failed_locked(mr_mprogram *p)
{
    mr_msession *s = p->session;
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(&s->programs, &pos, &key, &v))
        if (v == p) {
            mr_map_remove(&s->programs, key);
            mr_vec_push(&s->failed, p);
            return;
        }
}

static void registered_all(mr_mprogram *p)
{
    mr_msession *s = p->session;
    mr_lock(&s->mu);
    p->ready = !p->failed;
    mr_status *st = mr_status_copy(p->failed);
    MR_VEC(mr_mstep *) waiting = {0};
    for (int i = 0; i < p->waiting.n; i++)
        mr_vec_push(&waiting, p->waiting.p[i]);
    p->waiting.n = 0;
    if (st)
        forget_failed_locked(p);
    mr_unlock(&s->mu);
    for (int i = 0; i < waiting.n; i++)
        if (st)
            answer(waiting.p[i], mr_status_copy(st));
        else
            begin(waiting.p[i]);
    mr_status_free(st);
    mr_vec_deinit(&waiting);
    mr_msession_leave(s);
    mr_msession_unref(s);
}

static mr_status *read_handle(mr_bytes *reply, char **out)
{
    mr_sv bytes;
    MR_TRY(mr_bytes_flat(reply, &bytes));
    mr_sv handle = named_field(bytes, 1);
    *out = mr_strndup(handle.p, handle.n);
    return handle.n ? NULL : mr_error(MR_INTERNAL, "RegisterGraphResponse without a handle");
}

static void part_registered(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_mregister *c = (mr_mregister *)r;
    mr_mprogram *p = c->program;
    mr_mpart *part = &p->parts[c->part];
    char *handle = NULL;
    st = mr_wire_unmark(st);
    if (!st)
        st = read_handle(reply, &handle);
    if (st)
        mr_status_prepend(st, "From %s:\n", p->session->master->host->cluster.tasks.p[part->task].name);
    mr_lock(&p->session->mu);
    c->over = true;
    if (c->lost) {
        mr_status_free(st);
        st = c->lost;
        c->lost = NULL;
    }
    part->handle = handle;
    mr_status_update(&p->failed, st);
    bool last = --p->n_registering == 0;
    mr_unlock(&p->session->mu);
    if (last)
        registered_all(p);
}

static void register_part(mr_mprogram *p, int i)
{
    mr_mregister *c = &p->calls[i];
    mr_host *h = p->session->master->host;
    int task = p->parts[i].task;
    mr_str head = {0};
    mr_pb_writer w;
    c->program = p;
    c->part = i;
    c->request = (mr_net_request){.method = MR_WORKER_SERVICE "RegisterGraph", .done = part_registered};
    mr_pb_writer_init(&w, &head);
    mr_pb_put_bytes(&w, 1, mr_sv_of(p->session->handle));
    mr_pb_put_varint(&w, 6, 1);
    mr_pb_put_header(&w, 2, p->parts[i].graph_def.n);
    mr_bytes_add_str(&c->request.body, &head);
    mr_bytes_add_str(&c->request.body, &p->parts[i].graph_def);
    mr_host_ask(h, task, &c->request);
    mr_lock(&p->session->mu);
    c->started = true;
    bool cancelled = c->cancelled;
    mr_unlock(&p->session->mu);
    if (cancelled)
        mr_host_cancel(h, task, &c->request);
}

/* Sends the parts to their tasks; the session stays open meanwhile. */
static void register_all(mr_mprogram *p)
{
    int n = p->n_parts;
    mr_lock(&p->session->mu);
    p->session->n_open++;
    mr_refs_take(&p->session->refs);
    p->n_registering = n + 1; /* one for this function */
    p->calls = mr_new_array(mr_mregister, n + 1);
    mr_unlock(&p->session->mu);
    for (int i = 0; i < n; i++)
        register_part(p, i);
    for (int i = 0; i < n; i++) /* what was lost while it was not to be seen yet */
        mr_msession_stop_lost(p->session, p->parts[i].task);
    mr_lock(&p->session->mu);
    bool last = --p->n_registering == 0;
    mr_unlock(&p->session->mu);
    if (last)
        registered_all(p);
}

/* A registration that is under way; a reference to the session, which keeps the program, is held. */
static mr_mregister *find_registering_locked(mr_msession *s, int task)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(&s->programs, &pos, &key, &v)) {
        mr_mprogram *p = v;
        for (int i = 0; p->n_registering > 0 && i < p->n_parts; i++)
            if (!p->calls[i].over && !p->calls[i].cancelled && (task < 0 || p->parts[i].task == task))
                return &p->calls[i];
    }
    return NULL;
}

/* Those with a task (-1: all).  Cancelling may end the call in this thread, so the lock is not held then, and the table is
 * read anew. */
static void stop_registrations(mr_msession *s, int task, const mr_status *why)
{
    for (;;) {
        mr_lock(&s->mu);
        mr_mregister *c = find_registering_locked(s, task);
        bool started = c && c->started;
        if (c) {
            c->cancelled = true;
            c->lost = mr_status_copy(why);
        }
        mr_unlock(&s->mu);
        if (!c)
            return;
        if (started)
            mr_host_cancel(s->master->host, c->program->parts[c->part].task, &c->request);
    }
}

void mr_msession_stop(mr_msession *s, mr_code code, const char *why)
{
    mr_status *st = mr_error(code, "%s", why);
    stop_registrations(s, -1, st);
    stop_steps(s, -1, st);
    mr_status_free(st);
}

void mr_msession_stop_lost(mr_msession *s, int task)
{
    mr_status *why = s->lives[task] ? mr_watch_why(s->master->host->watch, task, s->lives[task]) : NULL;
    if (!why)
        return;
    stop_registrations(s, task, why);
    stop_steps(s, task, why);
    mr_status_free(why);
}

/* ---- RunStep ---- */

/* Lets the step run as soon as its program is registered. */
static void run_when_ready(mr_mstep *t)
{
    mr_mprogram *p = t->program;
    mr_lock(&t->session->mu);
    bool ready = p->ready, first = !ready && p->n_registering == 0 && p->waiting.n == 0;
    if (!ready)
        mr_vec_push(&p->waiting, t);
    mr_unlock(&t->session->mu);
    if (ready)
        begin(t);
    else if (first)
        register_all(p);
}

static mr_status *open_step(mr_master *m, mr_sv body, mr_mstep *t)
{
    MR_TRY(mr_mrequest_parse(body, &t->q));
    mr_lock(&m->mu);
    mr_status *st = mr_recent_once(&m->requests, t->q.request); /* clients send a request again when its answer is lost */
    mr_unlock(&m->mu);
    if (!st)
        st = mr_msession_find(m, t->q.session, &t->session);
    if (st)
        return st;
    st = mr_msession_enter(t->session);
    if (st) {
        mr_msession_unref(t->session);
        t->session = NULL;
        return st;
    }
    if (t->q.partial_run.n)
        return mr_error(MR_UNIMPLEMENTED, "Partial runs through a master are not there yet");
    MR_TRY(mr_mprogram_get(t->session, &t->q, false, &t->program));
    return check_lives(t->session, t->program);
}

void mr_master_run_step(void *service, mr_net_call *c, mr_sv body)
{
    mr_mstep *t = mr_new(mr_mstep);
    mr_refs_init(&t->refs);
    mr_mutex_init(&t->mu);
    t->call = c;
    mr_status *st = open_step(service, body, t);
    if (!st) {
        run_when_ready(t);
    } else if (t->session) {
        answer(t, st);
    } else {
        mr_reply(c, st, NULL);
        step_unref(t);
    }
}
