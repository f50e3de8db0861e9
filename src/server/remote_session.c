/* server/remote_session.c -- the client's session with a master in another process, or in this one.
 *
 * The client's graph is sent when the session is made; nodes that are added later are sent before the
 * next run. A run is one RunStep call, and the calling thread waits for it. What ends a run from
 * outside cancels that call: the client gets its error at once, while the master stops the step at its
 * tasks.
 *
 * A call may take any time, but its master must be alive. So a waiting thread probes the master every
 * two seconds with GetStatus, which a task answers whatever else it does. A master that has not been
 * heard yet may still be starting, and is waited for; one that has answered before and is silent now
 * is an error.
 *
 *     call                                 first probe after   if the master does not answer a probe
 *     CreateSession, Reset                 0.5 s               wait until the deadline, or until keys prove wrong
 *     all others; any call after an        2 s                 the call fails with UNAVAILABLE
 *     answer of the master
 *
 * Locks: `extending` is held while new nodes are sent, so the master gets them in order; `mu` guards
 * only the counts. Neither is held while a step runs. */
#include "base/clock.h"
#include "base/log.h"
#include "base/long_wait.h"
#include "base/memory.h"
#include "graph/graph_def.h"
#include "server/host.h"
#include "server/server.h"
#include "server/routes.h"
#include "server/wire.h"

#define START_DEADLINE_MS (610 * 1000) /* the master itself waits ten minutes for its tasks */
#define CLOSE_DEADLINE_MS 5000
#define PROBE_AFTER_NS (2 * INT64_C(1000000000)) /* most calls are answered before the first probe */
#define FIRST_PROBE_NS INT64_C(500000000)        /* if the master has not answered yet */
#define HANG_UPS 5                               /* probes in a row that meet a closed connection */
#define PROBE_DEADLINE_NS (6 * INT64_C(1000000000))

/* The connection to the master. */
typedef struct master {
    mr_net *net;
    mr_net_peer *peer;
    char *address;
    _Atomic int64_t tell_ns; /* when the next long wait may be logged; shared by all calls */
} master;

/* The client's end of a session. handle is NULL until CreateSession has succeeded. */
typedef struct remote {
    mr_session base; /* first */
    master to;
    mr_graph *graph;
    mr_mutex *graph_mu;
    char *handle;
    int64_t timeout_ms;
    mr_mutex extending;
    int64_t version MR_GUARDED_BY(extending);
    int n_sent MR_GUARDED_BY(extending); /* nodes the master knows */
    mr_mutex mu;
    mr_cond idle;
    int n_running MR_GUARDED_BY(mu);
    bool closed MR_GUARDED_BY(mu);
} remote;

/* ---- one call, waited for ---- */

/* Lives on the stack of a thread that waits for calls. */
typedef struct waited {
    mr_mutex mu;
    mr_cond changed;
} waited;

/* One of the calls that are waited for. */
typedef struct call {
    mr_net_request request; /* first */
    mr_cancel_entry on_cancel; /* used if the run can be cancelled */
    mr_net *net;
    waited *w;
    bool done; /* under the lock */
    mr_status *st;
    mr_bytes reply;
} call;

/* The call has ended. The lock is held until the end of the broadcast, because the waiter frees it as
 * soon as it sees `done`. */
static void call_done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    call *c = (call *)r;
    waited *w = c->w;
    mr_lock(&w->mu);
    MR_ASSERT(!c->done);
    c->st = mr_wire_unmark(st);
    mr_bytes_append(&c->reply, reply);
    c->done = true;
    mr_cond_broadcast(&w->changed);
    mr_unlock(&w->mu);
}

/* Whether a call waits until its master is up. The others use a session, and if the master has gone,
 * so has the session: they fail at once. */
static bool waits_for_master(const char *method)
{
    return strcmp(method, MR_MASTER_SERVICE "CreateSession") == 0 || strcmp(method, MR_MASTER_SERVICE "Reset") == 0;
}

/* Waits until c or other (may be NULL) is done, or until the time has come (0: no limit). */
static void wait_for_locked(waited *w, const call *c, const call *other, int64_t until_ns) MR_REQUIRES(w->mu);
static void wait_for_locked(waited *w, const call *c, const call *other, int64_t until_ns)
{
    bool in_time = true;
    while (in_time && !c->done && !(other && other->done))
        if (until_ns)
            in_time = mr_cond_wait_until(&w->changed, &w->mu, until_ns);
        else
            mr_cond_wait(&w->changed, &w->mu);
}

/* Asks the master's task for its status. Returns NULL if it answered, or if c was done first. The
 * probe is always completed before this returns, since it is on the stack. */
static mr_status *probe_master(const master *m, waited *w, const call *c)
{
    int64_t deadline_ns = mr_now_ns() + PROBE_DEADLINE_NS;
    call q = {.request = {.method = MR_WORKER_SERVICE "GetStatus", .deadline_ns = deadline_ns, .done = call_done},
              .w = w};
    m->net->start(m->peer, &q.request);
    mr_lock(&w->mu);
    wait_for_locked(w, c, &q, 0);
    bool early = !q.done;
    mr_unlock(&w->mu);
    if (early)
        m->net->cancel(&q.request);
    mr_lock(&w->mu);
    wait_for_locked(w, &q, NULL, 0);
    MR_ASSERT(q.done);
    mr_unlock(&w->mu);
    mr_bytes_deinit(&q.reply);
    if (early) {
        mr_status_free(q.st);
        return NULL;
    }
    return q.st;
}

/* Whether a probe's error means that nobody answers. Any other error is an answer. */
static bool means_silence(const mr_status *st)
{
    return mr_status_code(st) == MR_UNAVAILABLE || mr_status_code(st) == MR_DEADLINE_EXCEEDED;
}

/* A call that ran out of time says little; the error that the last probe met says why, so it is
 * appended. Takes the probe's status. */
static void tell_trouble(call *c, mr_status *probed)
{
    if (probed && mr_status_code(c->st) == MR_DEADLINE_EXCEEDED)
        mr_status_append(c->st, ": %s", mr_status_message(probed));
    mr_status_free(probed);
}

/* Logs that a call takes long. A master that is up logs itself which tasks it waits for, so nothing is
 * logged if it is in this process. There may be many calls, for example of threads that fill a queue;
 * one of them is logged per period. */
static void tell_wait(master *m, const call *c, bool heard, const mr_status *probed, double seconds)
{
    const char *method = c->request.method + strlen(MR_MASTER_SERVICE);
    int64_t now_ns = mr_now_ns(), tell_ns = m->tell_ns;
    if (!heard)
        mr_info("%s still waiting for the master: %s (%.0f s)", method,
                probed ? mr_status_message(probed) : "it does not answer", seconds);
    else if (now_ns >= tell_ns && !mr_server_is_here(m->address) &&
             atomic_compare_exchange_strong(&m->tell_ns, &tell_ns, now_ns + mr_long_wait_period_ns()))
        mr_info("%s still waiting for the master at %s: it is up, and has not finished; its log says why (%.0f s)",
                method, m->address, seconds);
}

/* Waits for the call and probes the master meanwhile. Returns NULL when the call is done, or the error
 * to give it up with. The caller has to cancel a call that was given up. */
static mr_status *wait_for(master *m, waited *w, call *c)
{
    bool heard = !c->request.wait_for_ready;
    int hung_up = 0;
    double seconds;
    mr_long_wait long_wait;
    mr_long_wait_begin(&long_wait, mr_now_ns());
    mr_status *st = NULL; /* of the last probe */
    for (;;) {
        mr_lock(&w->mu);
        wait_for_locked(w, c, NULL, mr_now_ns() + (heard ? PROBE_AFTER_NS : FIRST_PROBE_NS));
        bool done = c->done;
        mr_unlock(&w->mu);
        if (done) {
            tell_trouble(c, st);
            return NULL;
        }
        mr_status *now = probe_master(m, w, c);
        mr_lock(&w->mu);
        done = c->done;
        mr_unlock(&w->mu);
        if (done && !now) /* the probe was broken off because the call is done: the next round returns */
            continue;
        mr_status_free(st);
        st = now;
        heard |= !st;
        /* The master is there but refuses our connection: waiting does not change its keys, nor ours. */
        hung_up = mr_status_reason(st) == MR_REASON_HUNG_UP ? hung_up + 1 : 0;
        if (mr_status_code(st) == MR_UNAUTHENTICATED || hung_up == HANG_UPS)
            return st;
        if (mr_long_wait_due(&long_wait, mr_now_ns(), &seconds))
            tell_wait(m, c, heard, st, seconds);
        if (!heard || !means_silence(st))
            continue;
        mr_status *silent = mr_error(MR_UNAVAILABLE, "The master does not answer: %s", mr_status_message(st));
        mr_status_free(st);
        return silent;
    }
}

/* The client cancels the run. The call still ends with `done`. */
static void cancel_call(mr_cancel_entry *e)
{
    call *c = (call *)((char *)e - offsetof(call, on_cancel));
    c->net->cancel(&c->request);
}

/* wait_for, during which the call is cancelled when `cancel` (may be NULL) starts. */
static mr_status *wait_under(master *m, waited *w, call *c, mr_cancel *cancel)
{
    c->on_cancel.fn = cancel_call;
    if (cancel && !mr_cancel_register(cancel, &c->on_cancel))
        cancel_call(&c->on_cancel);
    mr_status *st = wait_for(m, w, c);
    if (cancel)
        mr_cancel_unregister(cancel, &c->on_cancel);
    return st;
}

/* Makes one call to the master and waits for it. Takes the body; the caller owns the reply. timeout_ms
 * 0 means no limit. cancel may be NULL. If the master answers after the call was given up, the answer
 * counts. */
static mr_status *ask_master(master *m, const char *method, mr_bytes *body, int64_t timeout_ms, mr_cancel *cancel,
                      mr_bytes *reply)
{
    waited w = {0};
    bool wait = waits_for_master(method);
    call c = {.request = {.method = method, .body = *body, .wait_for_ready = wait, .done = call_done},
              .net = m->net, .w = &w};
    if (timeout_ms > 0)
        c.request.deadline_ns = mr_now_ns() + MR_MIN(timeout_ms, INT64_MAX / 4000000) * 1000000;
    *body = (mr_bytes){0};
    mr_mutex_init(&w.mu);
    mr_cond_init(&w.changed);
    m->net->start(m->peer, &c.request);
    mr_status *silent = wait_under(m, &w, &c, cancel);
    if (silent)
        m->net->cancel(&c.request);
    /* The request is on this stack, so its end is waited for in any case. */
    mr_lock(&w.mu);
    wait_for_locked(&w, &c, NULL, 0);
    mr_unlock(&w.mu);
    MR_ASSERT(c.done);
    mr_cond_deinit(&w.changed);
    mr_mutex_deinit(&w.mu);
    *reply = c.reply;
    if (!silent || !c.st) { /* it may have been answered after all */
        mr_status_free(silent);
        return c.st;
    }
    mr_status_free(c.st);
    return silent;
}

/* The same with a body in one string, which it takes. */
static mr_status *ask_str(master *m, const char *method, mr_str *body, int64_t timeout_ms, mr_bytes *reply)
{
    mr_bytes b = {0};
    mr_bytes_add_str(&b, body);
    return ask_master(m, method, &b, timeout_ms, NULL, reply);
}

/* ---- the graph ---- */

/* The graph's lock is the front end's; a session without one has a graph that nobody changes. */
static void lock_graph(remote *s) MR_NO_TSA
{
    if (s->graph_mu)
        mr_lock(s->graph_mu);
}

static void unlock_graph(remote *s) MR_NO_TSA
{
    if (s->graph_mu)
        mr_unlock(s->graph_mu);
}

/* Exports the nodes that the master does not know yet. The lock `extending` is held. */
static mr_status *export_new(remote *s, mr_str *out, int *n)
{
    lock_graph(s);
    *n = s->graph->nodes.n;
    mr_status *st = *n > s->n_sent ? mr_graph_export_since(s->graph, s->n_sent, out) : NULL;
    unlock_graph(s);
    return st;
}

/* Sends new nodes to the master; does nothing if there are none. The lock `extending` is held, so that
 * two runs do not send the same nodes. */
static mr_status *extend_locked(remote *s)
{
    mr_str graph = {0}, body = {0};
    mr_bytes reply = {0};
    mr_pb_writer w;
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv bytes;
    int n;
    MR_ASSERT(s->handle);
    mr_status *st = export_new(s, &graph, &n);
    if (st || n == s->n_sent)
        goto out;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(s->handle));
    mr_pb_put_bytes(&w, 2, mr_str_view(&graph));
    mr_pb_opt_varint(&w, 3, (uint64_t)s->version);
    MR_GO(mr_pb_writer_status(&w, "ExtendSessionRequest"));
    MR_GO(ask_str(&s->to, MR_MASTER_SERVICE "ExtendSession", &body, s->timeout_ms, &reply));
    MR_GO(mr_bytes_flat(&reply, &bytes));
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 4)
            s->version = mr_pb_int64(&r);
        else
            mr_pb_skip(&r);
    MR_GO(mr_pb_reader_status(&r, "ExtendSessionResponse"));
    s->n_sent = n;
out:
    mr_bytes_deinit(&reply);
    mr_str_deinit(&graph);
    mr_str_deinit(&body);
    return st;
}

/* Sends new nodes, if there are any. */
static mr_status *extend_session(remote *s)
{
    mr_lock(&s->extending);
    mr_status *st = extend_locked(s);
    mr_unlock(&s->extending);
    return st;
}

/* ---- a run ---- */

/* Counts the run, so that remote_free waits for it; fails if the session is closed. */
static mr_status *enter_session(remote *s)
{
    mr_lock(&s->mu);
    bool open = !s->closed;
    s->n_running += open;
    mr_unlock(&s->mu);
    return open ? NULL : mr_error(MR_CANCELLED, "Session has been closed.");
}

/* Wakes remote_free when no run is left. */
static void leave_session(remote *s)
{
    mr_lock(&s->mu);
    MR_ASSERT(s->n_running > 0);
    if (--s->n_running == 0)
        mr_cond_broadcast(&s->idle);
    mr_unlock(&s->mu);
}

/* Checks that the feed has a value of the right dtype, as a local session does. */
static mr_status *check_feed(const mr_run_args *a, int i)
{
    mr_out o = a->feeds[i];
    const mr_tensor *t = a->feed_values[i];
    if (!t)
        return mr_invalid("Feed %s:%d has no value", o.node->name, o.index);
    if (t->dtype != mr_dtype_base(mr_out_type(o)))
        return mr_invalid("Expects arg[%d] to be %s but %s is provided", i,
                          mr_dtype_name(mr_dtype_base(mr_out_type(o))), mr_dtype_name(t->dtype));
    return NULL;
}

/* Writes outputs as "node:index". */
static void put_outs(mr_pb_writer *w, uint32_t field, const mr_out *o, int n)
{
    mr_str name = {0};
    for (int i = 0; i < n; i++) {
        mr_str_clear(&name);
        mr_str_printf(&name, "%s:%d", o[i].node->name, o[i].index);
        mr_pb_put_bytes(w, field, mr_str_view(&name));
    }
    mr_str_deinit(&name);
}

/* The fields that RunStepRequest and PartialRunSetupRequest share: 1 session_handle, 3 fetch, 4 target. */
static void put_common(const remote *s, const mr_run_args *a, mr_pb_writer *w)
{
    mr_pb_put_bytes(w, 1, mr_sv_of(s->handle));
    put_outs(w, 3, a->fetches, a->n_fetches);
    for (int i = 0; i < a->n_targets; i++)
        mr_pb_put_bytes(w, 4, mr_sv_of(a->targets[i]->name));
}

/* Writes the RunOptions: 1 trace_level, 2 timeout_in_ms, 5 output_partition_graphs, 8 experimental
 * { 1 collective_graph_key }. Tracing is requested only if the caller takes the metadata. */
static void put_options(const mr_run_options *o, bool metadata, mr_pb_writer *w)
{
    size_t mark = mr_pb_begin(w, 5);
    if (metadata) {
        mr_pb_opt_varint(w, 1, (uint64_t)o->trace_level);
        mr_pb_opt_varint(w, 5, o->output_partition_graphs);
    }
    if (o->timeout_ms > 0)
        mr_pb_put_varint(w, 2, (uint64_t)o->timeout_ms);
    if (o->graph_key) {
        size_t experimental = mr_pb_begin(w, 8);
        mr_pb_put_varint(w, 1, (uint64_t)o->graph_key);
        mr_pb_end(w, experimental);
    }
    mr_pb_end(w, mark);
}

typedef struct run_call { /* what a RunStep is made of besides its arguments */
    const mr_run_options *options; /* or NULL */
    const char *partial;           /* handle of the partial run it belongs to, or NULL */
    mr_str *metadata;              /* or NULL */
} run_call;

/* Encodes a RunStepRequest. The feeds' memory is referenced, not copied. Errors come in the response's
 * body (field 7), since the length of a gRPC status is limited. Further fields: 2 feed, 5 options,
 * 6 partial_run_handle. */
static mr_status *encode_run(remote *s, const mr_run_args *a, const run_call *c, mr_bytes *out)
{
    mr_wire w;
    mr_str name = {0};
    mr_status *st = NULL;
    mr_wire_init(&w);
    put_common(s, a, &w.pb);
    if (c->options && !c->partial)
        put_options(c->options, c->metadata != NULL, &w.pb);
    if (c->partial)
        mr_pb_put_bytes(&w.pb, 6, mr_sv_of(c->partial));
    mr_pb_put_varint(&w.pb, 7, 1);
    for (int i = 0; i < a->n_feeds; i++) {
        MR_GO(check_feed(a, i));
        mr_str_clear(&name);
        mr_str_printf(&name, "%s:%d", a->feeds[i].node->name, a->feeds[i].index);
        mr_wire_named(&w, 2, mr_str_view(&name), a->feed_values[i]);
    }
    st = mr_wire_finish(&w, out);
out:
    mr_wire_deinit(&w);
    mr_str_deinit(&name);
    return st;
}

/* Decodes the i-th value of a RunStepResponse into the i-th fetch, whose dtype it must have. */
static mr_status *take_value(const mr_run_args *a, int i, mr_sv named)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv value = MR_SV("");
    if (i >= a->n_fetches)
        return mr_error(MR_INTERNAL, "The master returned more values than the %d fetched", a->n_fetches);
    mr_pb_reader_init(&r, named);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 2)
            value = mr_pb_bytes(&r);
        else
            mr_pb_skip(&r);
    MR_TRY(mr_pb_reader_status(&r, "NamedTensorProto"));
    MR_TRY(mr_tensor_decode(mr_cpu_allocator(), value, &a->fetched[i]));
    if (a->fetched[i]->dtype != mr_dtype_base(mr_out_type(a->fetches[i])))
        return mr_error(MR_INTERNAL, "The master returned a %s tensor for %s:%d", mr_dtype_name(a->fetched[i]->dtype),
                        a->fetches[i].node->name, a->fetches[i].index);
    return NULL;
}

/* Decodes a RunStepResponse. Values are in the order of the fetches; those that were decoded before an
 * error stay in a->fetched. */
static mr_status *decode_run(mr_bytes *reply, const mr_run_args *a, mr_str *metadata)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv bytes, text = MR_SV("");
    int64_t code = 0;
    int n = 0;
    MR_TRY(mr_bytes_flat(reply, &bytes));
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        mr_sv v = MR_SV("");
        if (wire == MR_WIRE_BYTES && (field == 1 || field == 2 || field == 4))
            v = mr_pb_bytes(&r);
        switch (field) {
        case 1: MR_TRY(take_value(a, n++, v)); break;
        case 2:
            if (metadata)
                mr_str_append(metadata, v.p, v.n);
            break;
        case 3: code = mr_pb_int64(&r); break;
        case 4: text = v; break;
        default: mr_pb_skip(&r);
        }
    }
    MR_TRY(mr_pb_reader_status(&r, "RunStepResponse"));
    if (code)
        return mr_wire_error(code, text);
    return n == a->n_fetches ? NULL
                             : mr_error(MR_INTERNAL, "The master returned %d values for %d fetches", n, a->n_fetches);
}

/* Names are sent to the master, so a node of another graph could pass for one with the same name. */
static mr_status *check_args(const remote *s, const mr_run_args *a)
{
    for (int i = 0; i < a->n_feeds; i++)
        if (!a->feeds[i].node || a->feeds[i].node->graph != s->graph)
            return mr_invalid("Feed is not an output of this graph");
    for (int i = 0; i < a->n_fetches; i++)
        if (!a->fetches[i].node || a->fetches[i].node->graph != s->graph)
            return mr_invalid("Fetch is not an output of this graph");
    for (int i = 0; i < a->n_targets; i++)
        if (!a->targets[i] || a->targets[i]->graph != s->graph)
            return mr_invalid("target %d is not an operation of this graph", i);
    return NULL;
}

/* Sends new nodes and runs the step. A run that its own cancellation ended gets the same error as in a
 * local session. */
static mr_status *run_entered(remote *s, const mr_run_args *a, const run_call *c)
{
    mr_bytes body = {0}, reply = {0};
    MR_TRY(check_args(s, a));
    MR_TRY(extend_session(s));
    MR_TRY(encode_run(s, a, c, &body));
    mr_cancel *cancel = c->options ? c->options->cancel : NULL;
    mr_status *st = ask_master(&s->to, MR_MASTER_SERVICE "RunStep", &body, 0, cancel, &reply);
    if (!st)
        st = decode_run(&reply, a, c->metadata);
    if (cancel && mr_cancel_started(cancel) && mr_status_code(st) == MR_CANCELLED) {
        mr_status_free(st);
        st = mr_run_interrupted();
    }
    mr_bytes_deinit(&reply);
    return st;
}

/* Runs one step, or one piece of a partial run. On failure no fetched value is left. */
static mr_status *run_step(remote *s, const mr_run_args *a, const run_call *c)
{
    for (int i = 0; i < a->n_fetches; i++)
        a->fetched[i] = NULL;
    MR_TRY(mr_run_options_check(c->options));
    MR_TRY(enter_session(s));
    mr_status *st = run_entered(s, a, c);
    leave_session(s);
    for (int i = 0; st && i < a->n_fetches; i++) {
        mr_tensor_unref(a->fetched[i]);
        a->fetched[i] = NULL;
    }
    return st;
}

static mr_status *remote_run(mr_session *base, const mr_run_args *a, const mr_run_options *o, mr_str *metadata)
{
    return run_step((remote *)base, a, &(run_call){.options = o, .metadata = metadata});
}

/* ---- partial runs ---- */

/* Sends PartialRunSetup and returns the handle, which the caller frees. The session is entered. */
static mr_status *setup_entered(remote *s, const mr_run_args *a, char **handle)
{
    mr_str body = {0};
    mr_bytes reply = {0};
    mr_pb_writer w;
    mr_sv bytes;
    mr_status *st = NULL;
    MR_TRY(check_args(s, a));
    MR_TRY(extend_session(s));
    mr_pb_writer_init(&w, &body);
    put_common(s, a, &w);
    put_outs(&w, 2, a->feeds, a->n_feeds);
    MR_GO(mr_pb_writer_status(&w, "PartialRunSetupRequest"));
    MR_GO(ask_str(&s->to, MR_MASTER_SERVICE "PartialRunSetup", &body, s->timeout_ms, &reply));
    MR_GO(mr_bytes_flat(&reply, &bytes));
    mr_sv text = mr_wire_field(bytes, 1);
    if (text.n == 0)
        MR_GO(mr_error(MR_INTERNAL, "The PartialRunSetupResponse has no handle"));
    *handle = mr_strndup(text.p, text.n);
out:
    mr_bytes_deinit(&reply);
    mr_str_deinit(&body);
    return st;
}

/* *handle is NULL on failure. */
static mr_status *remote_partial_setup(mr_session *base, const mr_run_args *a, char **handle)
{
    remote *s = (remote *)base;
    *handle = NULL;
    MR_TRY(enter_session(s));
    mr_status *st = setup_entered(s, a, handle);
    leave_session(s);
    return st;
}

/* Like a run, but the handle names the step that the values belong to. */
static mr_status *remote_partial_run(mr_session *base, const char *handle, const mr_run_args *a,
                                     const mr_run_options *o)
{
    if (!handle || !handle[0]) /* without a handle it would be an ordinary step */
        return mr_invalid("Must run 'setup' before performing partial runs!");
    return run_step((remote *)base, a, &(run_call){.options = o, .partial = handle});
}

/* ---- devices ---- */

/* Appends one device to the list; a device of an unknown type is left out. */
static mr_status *add_info(mr_sv attributes, mr_device_info **out, int *n)
{
    mr_device *d;
    MR_TRY(mr_device_attributes_decode(attributes, &d));
    if (!d)
        return NULL;
    *out = mr_realloc(*out, sizeof **out * (size_t)(*n + 1));
    (*out)[(*n)++] = (mr_device_info){mr_strdup(d->name), mr_strdup(d->type->name), d->memory_limit, d->incarnation};
    mr_device_free(d);
    return NULL;
}

/* Lists the devices of the session. On failure the list is empty. */
static mr_status *remote_list_devices(mr_session *base, mr_device_info **out, int *n)
{
    remote *s = (remote *)base;
    mr_str body = {0};
    mr_bytes reply = {0};
    mr_pb_writer w;
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv bytes;
    mr_status *st = NULL;
    *out = NULL;
    *n = 0;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(s->handle));
    MR_GO(ask_str(&s->to, MR_MASTER_SERVICE "ListDevices", &body, s->timeout_ms, &reply));
    MR_GO(mr_bytes_flat(&reply, &bytes));
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1 || field == 2)
            MR_GO(add_info(mr_pb_bytes(&r), out, n));
        else
            mr_pb_skip(&r);
    st = mr_pb_reader_status(&r, "ListDevicesResponse");
out:
    mr_bytes_deinit(&reply);
    if (st) {
        mr_device_infos_free(*out, *n);
        *out = NULL;
        *n = 0;
    }
    return st;
}

/* ---- connecting and closing ---- */

/* Connects by the given transport, or picks one by the address (routes.h). */
static mr_status *connect_master(mr_net *given, const char *address, master *out)
{
    out->net = given;
    out->address = mr_strdup(address);
    return given ? given->connect(given, address, NULL, NULL, &out->peer)
                 : mr_route_to(address, NULL, NULL, &out->net, &out->peer);
}

/* Ends all requests to the master first. */
static void disconnect_master(master *m)
{
    if (m->peer)
        m->net->disconnect(m->peer);
    mr_free(m->address);
}

/* Closes the session once; later calls do nothing. Steps that run are cancelled by the master. */
static mr_status *remote_close(mr_session *base)
{
    remote *s = (remote *)base;
    mr_str body = {0};
    mr_bytes reply = {0};
    mr_pb_writer w;
    mr_lock(&s->mu);
    bool first = !s->closed;
    s->closed = true;
    mr_unlock(&s->mu);
    if (!first || !s->handle)
        return NULL;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(s->handle));
    mr_status *st = ask_str(&s->to, MR_MASTER_SERVICE "CloseSession", &body,
                            s->timeout_ms > 0 ? s->timeout_ms : CLOSE_DEADLINE_MS, &reply);
    mr_bytes_deinit(&reply);
    return st;
}

/* Closes the session and waits for the threads that are still in a run. */
static void remote_free(mr_session *base)
{
    remote *s = (remote *)base;
    mr_status_free(remote_close(base));
    mr_lock(&s->mu);
    while (s->n_running > 0)
        mr_cond_wait(&s->idle, &s->mu);
    mr_unlock(&s->mu);
    MR_ASSERT(s->n_running == 0);
    disconnect_master(&s->to);
    mr_graph_unref(s->graph);
    mr_free(s->handle);
    mr_cond_deinit(&s->idle);
    mr_mutex_deinit(&s->mu);
    mr_mutex_deinit(&s->extending);
    mr_free(s);
}

static const mr_session_ops remote_ops = {remote_run,   remote_partial_setup, remote_partial_run,
                                          remote_close, remote_list_devices,  remote_free};

/* Sends CreateSession with the whole graph, and waits for a master that is not up yet. */
static mr_status *create_session(remote *s, const char *address, mr_sv config, mr_cancel *cancel)
{
    mr_str graph = {0}, body = {0};
    mr_bytes request = {0}, reply = {0};
    mr_pb_writer w;
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv bytes, handle = MR_SV("");
    int n;
    mr_status *st = NULL;
    MR_GO(export_new(s, &graph, &n));
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_str_view(&graph));
    mr_pb_put_bytes(&w, 2, config);
    mr_pb_put_bytes(&w, 3, mr_sv_of(address)); /* by which the master finds itself in a cluster_def of the client's */
    MR_GO(mr_pb_writer_status(&w, "CreateSessionRequest"));
    mr_bytes_add_str(&request, &body);
    MR_GO(ask_master(&s->to, MR_MASTER_SERVICE "CreateSession", &request,
              s->timeout_ms > 0 ? s->timeout_ms : START_DEADLINE_MS, cancel, &reply));
    MR_GO(mr_bytes_flat(&reply, &bytes));
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: handle = mr_pb_bytes(&r); break;
        case 2: s->version = mr_pb_int64(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_GO(mr_pb_reader_status(&r, "CreateSessionResponse"));
    s->handle = mr_strndup(handle.p, handle.n);
    s->n_sent = n;
out:
    mr_bytes_deinit(&reply);
    mr_str_deinit(&graph);
    mr_str_deinit(&body);
    return st;
}

/* Waits until the session exists. On failure everything is released, and *out is NULL. remote_free accepts a session
 * without a handle: then there is nothing to close. */
mr_status *mr_remote_session_new(mr_net *net, const char *address, mr_graph *g, mr_mutex *graph_mu, mr_sv config,
                                 mr_cancel *cancel, mr_session **out)
{
    mr_session_config parsed;
    remote *s = mr_new(remote);
    s->base.ops = &remote_ops;
    s->graph = mr_graph_ref(g);
    s->graph_mu = graph_mu;
    mr_mutex_init(&s->extending);
    mr_mutex_init(&s->mu);
    mr_cond_init(&s->idle);
    mr_status *st = mr_session_config_parse(config, &parsed);
    if (!st) {
        s->timeout_ms = parsed.timeout_ms;
        st = connect_master(net, address, &s->to);
    }
    if (!st)
        st = create_session(s, address, config, cancel);
    if (st) {
        remote_free(&s->base);
        s = NULL;
    }
    *out = s ? &s->base : NULL;
    return st;
}

/* Waits for a master that is not up yet, for at most timeout_ms, or ten minutes if it is 0. */
mr_status *mr_remote_reset(mr_net *net, const char *address, const char *const *containers, int n, int64_t timeout_ms)
{
    master to = {0};
    mr_str body = {0};
    mr_bytes reply = {0};
    mr_pb_writer w;
    mr_status *st = connect_master(net, address, &to);
    if (st) {
        disconnect_master(&to);
        return st;
    }
    mr_pb_writer_init(&w, &body);
    for (int i = 0; i < n; i++)
        mr_pb_put_bytes(&w, 1, mr_sv_of(containers[i]));
    st = ask_str(&to, MR_MASTER_SERVICE "Reset", &body, timeout_ms > 0 ? timeout_ms : START_DEADLINE_MS, &reply);
    mr_bytes_deinit(&reply);
    disconnect_master(&to);
    return st;
}
