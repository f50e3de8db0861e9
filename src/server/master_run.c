/* server/master_run.c -- RunStep: a step over the tasks of a program.
 *
 * A step is a record (mr_master_run) that passes through four stages: registration of its program (once for
 * all steps of the program), one RunGraph per task, one CleanupGraph per task, and the answer. No
 * thread waits for it; the callbacks of the calls move it on. dist/master_step.c decides what happens
 * next: its functions are called under the step's lock and return actions, which are carried out
 * without the lock.
 *
 *     client         master                                        tasks
 *     RunStep -----> mr_master_handle_run_step
 *                    mr_master_run_start_when_ready (first step) -> RegisterGraph
 *                    mr_master_run_begin -------------------------> RunGraph
 *                    part_ran <------------------------------------ fetched values, from the client's part
 *                    clean_up ------------------------------------> CleanupGraph, not waited for
 *            <------ mr_master_run_answer
 *
 * References: the step has one until it is answered (mr_master_run_answer drops it), and one for each call
 * and timer under way. It is in its session's list of steps from mr_master_run_begin until it is answered,
 * so that a thread that closes the session or loses a task can find it. Each call to the session
 * (mr_master_run_enter) is matched by one mr_msession_leave in mr_master_run_answer. */
#include "base/clock.h"
#include "base/memory.h"
#include "exec/trace.h"
#include "server/collective.h"
#include "server/master_internal.h"
#include "server/wire.h"

#define BEGUN_AT_ONCE 65536 /* bytes of a request; larger ones are handled by the pool */

/* ---- references and lists ---- */

/* The step has one reference, which mr_master_run_answer drops. It has no session yet: mr_master_run_enter finds it. */
mr_master_run *mr_master_run_new(mr_net_call *c)
{
    mr_master_run *t = mr_new(mr_master_run);
    mr_refs_init(&t->refs);
    mr_mutex_init(&t->mu);
    t->call = c;
    return t;
}

/* The step is in no list, and no call or timer of it is under way. Its program belongs to the session, which
 * mr_master_run_answer has left. */
void mr_master_run_unref(mr_master_run *t)
{
    if (!mr_refs_drop(&t->refs))
        return;
    MR_ASSERT(!t->link);
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

/* Puts the step into its session's list, where mr_msession_stop and mr_msession_stop_lost find it. */
static void enlist_run(mr_master_run *t)
{
    mr_msession *s = t->session;
    mr_lock(&s->mu);
    MR_ASSERT(!t->link);
    t->next = s->steps;
    t->link = &s->steps;
    if (t->next)
        t->next->link = &t->next;
    s->steps = t;
    mr_unlock(&s->mu);
}

/* Takes the step out of the list. A step that was answered before it began is not in the list. */
static void delist_run(mr_master_run *t)
{
    mr_msession *s = t->session;
    mr_lock(&s->mu);
    if (t->link) {
        MR_ASSERT(*t->link == t);
        *t->link = t->next;
        if (t->next)
            t->next->link = t->link;
        t->link = NULL;
    }
    mr_unlock(&s->mu);
}

/* ---- the answer ---- */

/* Calls of a partial run have their feeds and fetches at other positions than the program (feed_at, fetch_at). */
static int position_of(const int *at, int i) { return at ? at[i] : i; }

/* Adds the fetched values to the answer, in the client's order and under the client's names; a
 * callable's have no names. The values are views into the reply of the client's part, which the step
 * keeps. */
static mr_status *encode_fetches(mr_master_run *t, mr_wire *w)
{
    mr_mprogram *p = t->program;
    mr_run_reply reply = {0};
    mr_status *st = NULL;
    if (t->q.fetches.n == 0)
        return NULL;
    MR_ASSERT(p->client_part >= 0 && p->client_part < t->n_parts);
    MR_GO(mr_run_reply_parse(&t->parts[p->client_part].reply, &reply));
    for (int i = 0; i < t->q.fetches.n; i++) {
        mr_sv value = MR_SV("");
        const char *key = p->fetch_keys[position_of(t->fetch_at, i)];
        for (int k = 0; k < reply.named.n && !value.n; k++)
            if (mr_sv_is(mr_wire_field(reply.named.p[k], 1), key))
                value = mr_wire_field(reply.named.p[k], 2);
        if (!value.n)
            MR_GO(mr_error(MR_INTERNAL, "No value was returned for fetch %.*s", MR_SV_ARG(t->q.fetches.p[i])));
        if (t->callable)
            mr_wire_raw(w, 1, value);
        else
            mr_wire_named_raw(w, 1, t->q.fetches.p[i], value);
    }
out:
    mr_run_reply_deinit(&reply);
    return st;
}

/* Starts the body of an answer. What was recorded of the step comes first, also if it failed. */
static void begin_answer(mr_master_run *t, bool failed, mr_wire *w)
{
    mr_wire_init(w);
    if (t->parts && mr_master_run_is_traced(t))
        mr_master_run_trace_encode(t, failed, &w->pb);
}

/* Makes the body of the answer. Takes st; returns the status to reply with, which is NULL when the
 * client asked for errors in the body (store_errors_in_response_body) and the error is there.
 *
 * Fields of a RunStepResponse: 1 tensor (of a callable: fetch), 2 metadata, 3 status_code,
 * 4 status_error_message. */
static mr_status *encode_answer(mr_master_run *t, mr_status *st, mr_bytes *body)
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

/* Ends the step: answers the client and drops the step's own reference, its entry into the session and
 * its reference to the session. The order matters: the timer goes before the answer, and the session
 * is left last, because leaving a closed session may end it. */
void mr_master_run_answer(mr_master_run *t, mr_status *st)
{
    mr_bytes body = {0};
    mr_msession *s = t->session;
    MR_ASSERT(s && t->call);
    delist_run(t);
    if (t->timed && mr_timers_clear(s->master->timers, &t->timer))
        mr_master_run_unref(t);
    if (t->partial)
        mr_master_run_leave_turn(t, st != NULL);
    else if (t->q.options.graph_key)
        mr_collectives_retire_step(s->master->collectives, t->q.options.graph_key, t->id);
    if (t->placing == MR_PLACING_MEASURE && !st)
        mr_master_run_learn(t);
    st = encode_answer(t, st, &body);
    mr_reply(t->call, st, &body);
    mr_bytes_deinit(&body);
    mr_master_run_unref(t);
    mr_msession_leave(s);
    mr_msession_unref(s);
}

/* ---- carrying out what dist/master_step decides ---- */

static void part_ran(mr_net_request *r, mr_status *st, mr_bytes *reply);

/* Adds what the worker is to record of the step, and the fields of a partial run. A traced or measured
 * step asks for timings; a piece of a partial run has a separate request id, because the worker runs
 * each request id once.
 *
 * Fields: 5 exec_opts { 1 record_costs, 3 record_timeline, 4 record_partition_graphs }, 6 is_partial,
 * 7 is_last_partial_run, 11 request_id. */
static void encode_options(mr_master_run *t, mr_pb_writer *out)
{
    bool measured = t->placing == MR_PLACING_MEASURE;
    if (mr_master_run_is_traced(t) || measured) {
        size_t mark = mr_pb_begin(out, 5); /* ExecutorOpts */
        mr_pb_opt_varint(out, 1, t->costs);
        mr_pb_opt_varint(out, 3, mr_master_run_is_timed(t) || measured);
        mr_pb_opt_varint(out, 4, t->q.options.output_partition_graphs);
        mr_pb_end(out, mark);
    }
    if (t->partial) {
        mr_pb_put_varint(out, 6, 1);
        mr_pb_opt_varint(out, 7, t->last);
        mr_pb_put_varint(out, 11, (uint64_t)mr_step_id_new()); /* a piece happens once, as a step does */
    }
}

/* Encodes the RunGraphRequest of one part. Only the client's part gets feeds and fetches; a key that
 * is fetched twice is asked for once, since the worker takes each value out of its rendezvous.
 *
 * Fields: 1 graph_handle, 2 step_id, 3 send (named tensors), 4 recv_key, 8 session_handle,
 * 9 store_errors_in_response_body, 10 create_worker_session_called. */
static void encode_run(mr_master_run *t, int part, mr_wire *w)
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
        const char *key = p->fetch_keys[position_of(t->fetch_at, i)];
        bool again = false;
        for (int k = 0; k < i && !again; k++)
            again = strcmp(p->fetch_keys[position_of(t->fetch_at, k)], key) == 0;
        if (!again)
            mr_pb_put_bytes(out, 4, mr_sv_of(key));
    }
    for (int i = 0; i < t->q.feeds.n; i++)
        mr_wire_named_raw(w, 3, mr_sv_of(p->feed_keys[position_of(t->feed_at, i)]), t->q.values.p[i]);
}

/* Sends RunGraph to the part's task. A request can be cancelled only once it is started, so a
 * cancellation that arrives earlier leaves a mark (`cancelled`) and is carried out here. */
static void run_part(mr_master_run *t, int part)
{
    mr_wire w;
    mr_mpart_call *c = &t->parts[part];
    mr_task_peers *peers = t->session->peers;
    int task = t->program->parts[part].task;
    mr_bytes none = {0};
    MR_ASSERT(part >= 0 && part < t->n_parts && !c->started);
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
        mr_task_peers_ask(peers, task, &c->request);
    mr_lock(&t->mu);
    c->started = true;
    bool cancelled = c->cancelled;
    mr_unlock(&t->mu);
    if (cancelled)
        mr_task_peers_cancel(peers, task, &c->request);
}

/* Cancels the part's RunGraph, or leaves a mark for run_part if the call is not started yet. */
static void cancel_part(mr_master_run *t, int part)
{
    mr_mpart_call *c = &t->parts[part];
    MR_ASSERT(part >= 0 && part < t->n_parts);
    mr_lock(&t->mu);
    c->cancelled = true;
    bool started = c->started;
    mr_unlock(&t->mu);
    if (started)
        mr_task_peers_cancel(t->session->peers, t->program->parts[part].task, &c->request);
}

/* Sends CleanupGraph, retried until the task has answered or is lost. The step does not wait for it. */
static void clean_up(mr_master_run *t, int part)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_varint(&w, 1, (uint64_t)t->id);
    mr_retries_send(&t->session->master->retries, t->session->peers, t->program->parts[part].task,
                    MR_WORKER_SERVICE "CleanupGraph", &body);
}

/* Carries out the actions, in order. The caller holds a reference to the step, since MR_DO_REPLY drops
 * the step's own. No lock is held: a call inside this process may finish inside run_part and come back
 * to part_ran. */
static void do_actions(mr_master_run *t, mr_step_actions *a)
{
    mr_net_hold(); /* a request from our own part to another task is sent together with that task's RunGraph */
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
            mr_master_run_trace_end(t, st, mr_master_run_answer);
            break;
        }
        }
    }
    mr_net_release();
    mr_vec_deinit(a);
}

/* Puts the name of the task that an error comes from in front of its message. */
static mr_status *from_task(mr_master_run *t, int part, mr_status *st)
{
    if (!st)
        return NULL;
    return mr_status_prepend(st, "From %s:\n",
                             mr_task_peers_task(t->session->peers, t->program->parts[part].task)->name);
}

/* A part's RunGraph has ended. Keeps the reply and reports the end to dist/master_step. Malformed
 * replies become errors here, so that later code may parse them again without checking. */
static void part_ran(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_mpart_call *c = (mr_mpart_call *)r;
    mr_master_run *t = c->step;
    mr_msession *s = t->session;
    mr_step_actions a = {0};
    MR_ASSERT(c->part >= 0 && c->part < t->n_parts);
    c->heard_ns = t->trace ? mr_trace_clock_ns() : 0;
    mr_run_reply parsed = {0};
    mr_refs_take(&s->refs); /* do_actions may answer the step, which may free the session */
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
    do_actions(t, &a);
    mr_msession_unref(s);
    mr_master_run_unref(t);
}

/* Ends the step early with `why`, which it takes. The caller holds a reference. Stopping a step that
 * has ended does nothing. */
static void stop_step(mr_master_run *t, mr_status *why)
{
    mr_step_actions a = {0};
    mr_msession *s = t->session;
    mr_refs_take(&s->refs); /* as in part_ran */
    mr_lock(&t->mu);
    mr_master_step_stop(&t->state, why, &a);
    mr_unlock(&t->mu);
    do_actions(t, &a);
    mr_msession_unref(s);
}

/* The step's time limit has passed. The timer's reference is dropped here. */
static void time_is_up(mr_timer *e)
{
    mr_master_run *t = (mr_master_run *)((char *)e - offsetof(mr_master_run, timer));
    stop_step(t, mr_error(MR_DEADLINE_EXCEEDED, "Timed out waiting for notification"));
    mr_master_run_unref(t);
}

/* The client cancelled the call or its connection broke. */
static void client_left(void *arg, mr_net_call *c)
{
    mr_master_run *t = arg;
    (void)c;
    mr_refs_take(&t->refs); /* stopping may answer the call and drop the last reference */
    stop_step(t, mr_error(MR_CANCELLED, "RunStep was cancelled"));
    mr_master_run_unref(t);
}

/* Whether the step's program has a part on the task. */
static bool takes_part(const mr_master_run *t, int task)
{
    for (int i = 0; i < t->program->n_parts; i++)
        if (t->program->parts[i].task == task)
            return true;
    return false;
}

/* Stops the steps that run on a task (-1: all). They are collected first, because stopping a step may
 * remove it from the list and must not happen under the session's lock. */
static void stop_steps(mr_msession *s, int task, const mr_status *why)
{
    MR_VEC(mr_master_run *) all = {0};
    mr_lock(&s->mu);
    for (mr_master_run *t = s->steps; t; t = t->next) {
        if (task >= 0 && !takes_part(t, task))
            continue;
        mr_refs_take(&t->refs);
        mr_vec_push(&all, t);
    }
    mr_unlock(&s->mu);
    for (int i = 0; i < all.n; i++) {
        stop_step(all.p[i], mr_status_copy(why));
        mr_master_run_unref(all.p[i]);
    }
    mr_vec_deinit(&all);
}

/* ---- from a ready program on ---- */

/* Refuses a program with a part on a task that is known to be lost or restarted: such a task might
 * never answer. */
static mr_status *check_incarnations(const mr_msession *s, const mr_mprogram *p)
{
    for (int i = 0; i < p->n_parts; i++) {
        int task = p->parts[i].task;
        if (mr_watch_ended(s->peers->watch, task, s->incarnations[task]))
            return mr_watch_why(s->peers->watch, task, s->incarnations[task]);
    }
    return NULL;
}

/* Starts the step, whose program is registered. The step joins the session's list before its first
 * call, and the session's end, the client's departure and lost tasks are checked again afterwards: one
 * that happened before the step was in the list could not stop it. Two references are held meanwhile,
 * because the step may be answered inside do_actions. */
void mr_master_run_begin(mr_master_run *t)
{
    mr_step_actions a = {0};
    mr_mprogram *p = t->program;
    mr_msession *s = t->session;
    int64_t ms = t->q.options.timeout_ms > 0 ? t->q.options.timeout_ms : s->config.timeout_ms;
    MR_ASSERT(!t->link && !t->parts && !t->trace);
    if (!t->partial && !t->id)
        t->id = mr_step_id_new();
    MR_ASSERT(t->id != 0 && p->ready);
    t->n_parts = p->n_parts;
    t->parts = mr_new_array(mr_mpart_call, p->n_parts + 1);
    mr_master_step_init(&t->state, p->n_parts);
    t->state.goes_on = t->partial && !t->last;
    t->costs = !t->partial && mr_session_config_wants_costs(&s->config, &p->n_counted);
    mr_master_run_trace_begin(t);
    mr_refs_take(&t->refs); /* for this function, as the next one */
    mr_refs_take(&s->refs);
    /* From here on the end of the session, or of a task, finds the step. */
    enlist_run(t);
    mr_lock(&t->mu);
    mr_master_step_begin(&t->state, &a);
    mr_unlock(&t->mu);
    if (ms > 0) {
        t->timed = true;
        mr_refs_take(&t->refs);
        mr_timers_set(s->master->timers, &t->timer, mr_now_ns() + MR_MIN(ms, INT64_MAX / 4000000) * 1000000,
                      time_is_up);
    }
    bool here = t->call->net->on_cancel(t->call, client_left, t);
    do_actions(t, &a); /* sends RunGraph to all tasks */
    /* What happened before the step was in the list, or before the cancellation was registered, is caught up here. */
    mr_lock(&s->mu);
    bool closed = s->closed, unused = s->unused;
    mr_unlock(&s->mu);
    if (!here)
        client_left(t, NULL);
    if (closed) /* the session was closed before the step was in its list */
        stop_step(t, mr_error(MR_CANCELLED, "%s", mr_msession_why_closed(unused)));
    mr_status *lost = check_incarnations(s, p);
    if (lost) /* the task was lost before the step was in the list */
        stop_step(t, lost);
    mr_master_run_unref(t);
    mr_msession_unref(s);
}

/* Registrations first: a step that waits for one is not in the session's list of steps. */
void mr_msession_stop(mr_msession *s, mr_code code, const char *why)
{
    mr_status *st = mr_error(code, "%s", why);
    mr_msession_stop_registrations(s, -1, st);
    stop_steps(s, -1, st);
    mr_status_free(st);
}

/* Does nothing if the incarnation that the session relies on is still the present one. */
void mr_msession_stop_lost(mr_msession *s, int task)
{
    MR_ASSERT(task >= 0 && task < s->peers->cluster.tasks.n);
    mr_status *why = s->incarnations[task] ? mr_watch_why(s->peers->watch, task, s->incarnations[task]) : NULL;
    if (!why)
        return;
    mr_msession_stop_registrations(s, task, why);
    stop_steps(s, task, why);
    mr_status_free(why);
}

/* ---- RunStep ---- */

/* Finds the session and enters it. On failure t->session is NULL and nothing has to be left. */
mr_status *mr_master_run_enter(mr_master_run *t, mr_master *m, mr_sv session, int64_t request)
{
    MR_ASSERT(!t->session);
    mr_lock(&m->mu);
    mr_status *st = mr_recent_once(&m->requests, request); /* a client repeats a request whose answer was lost */
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

/* The id of a step that several masters share (collective_graph_key) has been agreed on. */
static void id_found(void *ctx, mr_status *st, int64_t id)
{
    mr_master_run *t = ctx;
    t->id = id;
    if (st)
        mr_master_run_answer(t, st);
    else
        mr_master_run_start_when_ready(t);
}

/* Takes st. An error before the session was entered is replied directly; afterwards mr_master_run_answer
 * has to leave the session. */
void mr_master_run_go(mr_master_run *t, mr_status *st)
{
    MR_ASSERT(st || (t->session && t->program));
    if (!st)
        st = check_incarnations(t->session, t->program);
    if (!st && t->q.options.graph_key && !t->partial) {
        mr_collectives_next_step(t->session->master->collectives, t->q.options.graph_key, id_found, t);
    } else if (!st) {
        mr_master_run_start_when_ready(t);
    } else if (t->session) {
        mr_master_run_answer(t, st);
    } else {
        mr_reply(t->call, st, NULL);
        mr_master_run_unref(t);
    }
}

/* Runs on the pool, because making a program takes long: places the graph again if it is due, finds or
 * makes the program, and starts the step. */
static void make_and_go(mr_task *task)
{
    mr_master_run *t = (mr_master_run *)((char *)task - offsetof(mr_master_run, turn));
    if (t->placing == MR_PLACING_ANEW)
        mr_msession_place_anew(t->session);
    if (t->q.partial_run.n)
        mr_master_run_take_turn(t);
    else
        mr_master_run_go(t, mr_mprogram_get(t->session, &t->q, false, &t->program));
}

/* Runs on the transport's thread. A step whose program exists and whose request is small is started
 * there, which saves a thread switch per step; everything else goes to the pool. */
void mr_master_handle_run_step(void *service, mr_net_call *c, mr_sv body)
{
    mr_master *m = service;
    mr_master_run *t = mr_master_run_new(c);
    mr_status *st = mr_mrequest_parse(body, &t->q);
    if (!st)
        st = mr_master_run_enter(t, m, t->q.session, t->q.request);
    if (!st && t->session->placing && !t->q.partial_run.n)
        t->placing = mr_placing_next(t->session->placing);
    if (!st && body.n <= BEGUN_AT_ONCE && !t->q.partial_run.n && t->placing != MR_PLACING_ANEW)
        t->program = mr_mprogram_find(t->session, &t->q);
    if (st || t->program) {
        mr_master_run_go(t, st);
    } else {
        t->turn.fn = make_and_go;
        mr_pool_submit(m->host->pool, &t->turn);
    }
}
