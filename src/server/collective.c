/* server/collective.c -- exchanges between the members of a group: their lifetime and their requests.
 *
 * An exchange is one collective op of one member. It finds its group, or asks the leader for it; for a
 * broadcast it finds the source; then it gets its number, opens its box and makes all its offers and
 * requests. n_left counts what is not done yet: the search itself, requests under way, and offers that
 * nobody has fetched. The thread that takes it to 0 ends the run. A failure cancels the requests and
 * withdraws the offers; the rest is the same.
 *
 *     start_exchange
 *       mr_exchange_find_group    asks the leader (CompleteGroup) unless the group is known
 *       with_group                holds the members' tasks in the watch; for a broadcast, asks for the source
 *       begin_moving              gives the exchange its number and opens its box
 *       mr_exchange_move          makes all offers and requests of the op
 *     request_replied             each reply may offer more data; n_left falls
 *     finish_exchange             n_left is 0: the run ends
 *
 * A failure breaks the communicator: its other exchanges here fail too, and the tasks of the other
 * members are told, unless the failure came from one of them.
 *
 * Everything is under the lock of mr_collectives; calls are answered, requests are sent and runs are
 * ended without it. */
#include "server/collective.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/collective_internal.h"
#include "server/wire.h"

#define PATIENCE_NS (600 * INT64_C(1000000000))

/* ---- references and the end of an exchange ---- */

mr_exchange *mr_exchange_ref(mr_exchange *x)
{
    mr_refs_take(&x->refs);
    return x;
}

/* When the last reference is dropped, the exchange has finished or never began: it has no requests and no output. */
void mr_exchange_unref(mr_exchange *x)
{
    if (!x || !mr_refs_drop(&x->refs))
        return;
    MR_ASSERT(!x->requests && !x->out && !x->pieces && !x->flows);
    mr_cgroup_unref(x->group);
    mr_task_peers_unref(x->peers);
    mr_free(x->text);
    mr_str_deinit(&x->signature);
    mr_status_free(x->st);
    mr_free(x);
}

/* hold: from now on the loss of a member's task is noticed. In pairs (x->holds). */
void mr_exchange_watch(mr_exchange *x, bool hold)
{
    for (int i = 0; i < x->group->n; i++)
        (hold ? mr_watch_hold : mr_watch_release)(x->peers->watch, x->group->members[i].task);
}

/* Ends the run: nothing of the exchange is under way any more. The timer and the cancellation are
 * stopped first, so that neither can find the exchange afterwards. The run is ended last, because that
 * may free the session. */
static void finish_exchange(mr_exchange *x)
{
    mr_collectives *c = x->all;
    mr_run *r = x->r;
    mr_status *over = mr_error(MR_ABORTED, "The exchange is over");
    /* Both wait for a callback that runs in another thread. */
    mr_timers_clear(c->worker->host->timers, &x->timer);
    if (x->listens)
        mr_cancel_unregister(r->step->cancel, &x->on_cancel);
    mr_exchange_close(x, over);
    mr_status_free(over);
    MR_ASSERT(!x->requests);
    mr_lock(&c->mu);
    MR_ASSERT(*x->link == x && x->n_left == 0 && x->over);
    *x->link = x->next;
    if (x->next)
        x->next->link = x->link;
    mr_status *st = x->st;
    x->st = NULL;
    mr_unlock(&c->mu);
    if (x->holds)
        mr_exchange_watch(x, false);
    mr_exchange_forget_pieces(x);
    if (!st)
        mr_run_set(r, 0, x->out);
    else
        mr_tensor_unref(x->out);
    x->out = NULL;
    mr_exchange_unref(x);
    mr_run_done(r, st);
}

/* The exchange may be finished and freed in here, unless the caller has a reference. `ended` is set with `over`, so
 * that no new request or offer is accepted. */
void mr_exchange_less(mr_exchange *x, int64_t n)
{
    mr_lock(&x->all->mu);
    MR_ASSERT(!x->over);
    x->n_left -= n;
    MR_ASSERT(x->n_left >= 0);
    x->over = x->n_left == 0;
    bool over = x->over;
    x->ended |= over;
    mr_unlock(&x->all->mu);
    if (over)
        finish_exchange(x);
}

/* The last reference drops that to the exchange, which may free it. */
static void xrequest_unref(mr_xrequest *q)
{
    if (!mr_refs_drop(&q->refs))
        return;
    mr_exchange_unref(q->x);
    mr_free(q);
}

/* Cancels all requests under way. Cancelling may complete a request in this thread, so it happens
 * without the lock, and the list is read again from its start each time. */
static void cancel_requests(mr_exchange *x)
{
    mr_collectives *c = x->all;
    for (;;) {
        mr_lock(&c->mu);
        mr_xrequest *q = x->requests;
        while (q && q->cancelled)
            q = q->next;
        bool started = q && q->started;
        if (q) {
            q->cancelled = true;
            mr_refs_take(&q->refs);
        }
        mr_unlock(&c->mu);
        if (!q)
            return;
        if (started)
            mr_task_peers_cancel(x->peers, q->task, &q->request);
        xrequest_unref(q);
    }
}

/* What the other members are told: the error, with the device that it happened at in front. */
static mr_status *as_told(const mr_exchange *x, const mr_status *st)
{
    const char *text = mr_status_message(st);
    if (strncmp(text, MR_ABORTED_BY, sizeof MR_ABORTED_BY - 1) == 0)
        return mr_error(MR_ABORTED, "%s", text);
    return mr_error(MR_ABORTED, MR_ABORTED_BY "%s: %s", x->device, text);
}

/* The first failure counts. It raises n_left by one, so that the exchange does not end before the
 * function is done with it. */
void mr_exchange_fail(mr_exchange *x, mr_status *st, bool tell)
{
    mr_collectives *c = x->all;
    mr_lock(&c->mu);
    bool first = !x->st && !x->over;
    if (first) {
        x->st = mr_status_copy(st);
        x->ended = true;
        x->n_left++;
    }
    mr_cgroup *g = first && x->group ? mr_cgroup_ref(x->group) : NULL;
    mr_unlock(&c->mu);
    if (!first) {
        mr_status_free(st);
        return;
    }
    mr_status *told = as_told(x, st);
    mr_status_mark_derived(told);
    /* Offers that nobody will fetch any more do not count; requests end one by one and lower n_left themselves. */
    int64_t untaken = mr_exchange_close(x, told);
    cancel_requests(x);
    if (g)
        mr_cgroup_break(c, g, told, tell ? MR_BREAK_TELL : MR_BREAK_HERE);
    mr_cgroup_unref(g);
    mr_status_free(told);
    mr_status_free(st);
    mr_exchange_less(x, untaken + 1);
}

/* ---- requests ---- */

/* Why a request failed, with the name of the member or task that was asked in front. Takes st.
 * CANCELLED means that the other server was stopped: requests that we cancel are not reported. */
static mr_status *why_failed(const mr_xrequest *q, mr_status *st)
{
    const char *who =
        q->from >= 0 ? q->x->group->members[q->from].device : mr_task_peers_task(q->x->peers, q->task)->name;
    st = mr_wire_unmark(st);
    if (strncmp(mr_status_message(st), MR_ABORTED_BY, sizeof MR_ABORTED_BY - 1) == 0)
        return st;
    if (mr_status_code(st) == MR_CANCELLED) {
        mr_status_free(st);
        st = mr_error(MR_UNAVAILABLE, "The server was stopped");
    }
    return mr_status_prepend(st, MR_ABORTED_BY "%s: ", who);
}

/* A request has ended. If the exchange has ended meanwhile, the reply is dropped; otherwise the
 * request's own `then` takes it. In each case the exchange waits for one thing less. */
static void request_replied(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_xrequest *q = (mr_xrequest *)r;
    mr_exchange *x = q->x;
    mr_lock(&x->all->mu);
    MR_ASSERT(*q->link == q && x->n_left > 0);
    *q->link = q->next;
    if (q->next)
        q->next->link = q->link;
    bool ended = x->ended;
    mr_unlock(&x->all->mu);
    if (ended)
        mr_status_free(st);
    else if (st)
        mr_exchange_fail(x, why_failed(q, st), true);
    else
        q->then(q, reply);
    mr_exchange_less(x, 1);
    xrequest_unref(q);
}

/* The caller has one reference, which mr_xrequest_send takes. */
mr_xrequest *mr_xrequest_new(mr_exchange *x, int task, int from, void (*then)(mr_xrequest *q, mr_bytes *reply))
{
    mr_xrequest *q = mr_new(mr_xrequest);
    mr_refs_init(&q->refs);
    q->x = mr_exchange_ref(x);
    q->task = task;
    q->from = from;
    q->then = then;
    return q;
}

/* Sends the request and takes the caller's reference; takes the body. A request of an exchange that
 * has ended is dropped. A cancellation that came before the request was started is carried out here. */
void mr_xrequest_send(mr_xrequest *q, const char *method, mr_str *body)
{
    MR_ASSERT(q->then && !q->link);
    mr_exchange *x = q->x;
    mr_collectives *c = x->all;
    mr_lock(&c->mu);
    bool ended = x->ended;
    if (!ended) {
        q->next = x->requests;
        q->link = &x->requests;
        if (q->next)
            q->next->link = &q->next;
        x->requests = q;
        x->n_left++;
    }
    mr_unlock(&c->mu);
    if (ended) {
        mr_str_deinit(body);
        xrequest_unref(q);
        return;
    }
    /* A leader that is not up yet is waited for, since a cluster may start in any order; a member has been heard of. */
    q->request = (mr_net_request){.method = method, .done = request_replied, .wait_for_ready = q->from < 0};
    mr_bytes_add_str(&q->request.body, body);
    mr_refs_take(&q->refs);
    mr_task_peers_ask(x->peers, q->task, &q->request);
    mr_lock(&c->mu);
    q->started = true;
    bool cancelled = q->cancelled;
    mr_unlock(&c->mu);
    if (cancelled)
        mr_task_peers_cancel(x->peers, q->task, &q->request);
    xrequest_unref(q);
}

/* ---- the beginning ---- */

/* The step that runs the op was cancelled. */
static void step_cancelled(mr_cancel_entry *e)
{
    mr_exchange *x = mr_exchange_ref((mr_exchange *)((char *)e - offsetof(mr_exchange, on_cancel)));
    mr_exchange_fail(x, mr_error(MR_CANCELLED, "Collective op was cancelled"), true);
    mr_exchange_unref(x);
}

/* Puts the exchange into the task's list; false: the task has stopped, and nothing begins any more. */
static bool enlist_exchange(mr_exchange *x)
{
    mr_collectives *c = x->all;
    mr_lock(&c->mu);
    bool ok = !c->stopped;
    if (ok) {
        x->next = c->exchanges;
        x->link = &c->exchanges;
        if (x->next)
            x->next->link = &x->next;
        c->exchanges = x;
    }
    mr_unlock(&c->mu);
    return ok;
}

/* Makes the exchange of a run, with one reference, which finish_exchange drops. n_left is 1: start_exchange itself.
 * The session's choice of a leader is read under the session's own lock. */
static mr_exchange *exchange_new(mr_session_collective *s, mr_run *r, const mr_collective_call *call)
{
    mr_exchange *x = mr_new(mr_exchange);
    mr_refs_init(&x->refs);
    x->session = s->session;
    x->all = s->session->worker->collectives;
    x->peers = mr_task_peers_ref(s->session->peers);
    mr_lock(&s->mu);
    x->leader = mr_collectives_leader_of(x->all, x->peers, s->leader);
    mr_unlock(&s->mu);
    x->r = r;
    x->call = *call;
    x->device = r->step->device->name;
    x->incarnation = r->step->device->incarnation;
    /* The exchanges of a communicator op are counted per group: after a failure its members count from 0 again. */
    x->instance = call->rank >= 0 ? -1 : call->instance_key;
    x->n_left = 1;
    x->timer.place = -1;
    return x;
}

/* Starts a collective op. A group of one needs no other task, unless it is a generation: then the
 * leader has to know of it, so that it hears of the generation's end. The run may have ended when this
 * returns. */
static void start_exchange(mr_collective *base, mr_run *r, const mr_collective_call *call)
{
    mr_session_collective *s = (mr_session_collective *)base;
    if (call->group_size <= 0 || (call->group_size == 1 && !mr_collectives_is_generation(call->group_key))) {
        mr_collective_local()->start(mr_collective_local(), r, call);
        return;
    }
    if (call->group_size > MR_GROUP_MAX_SIZE) {
        mr_run_done(r, mr_invalid("a group of %lld members is too large; the maximum is %d",
                                  (long long)call->group_size, MR_GROUP_MAX_SIZE));
        return;
    }
    mr_exchange *x = exchange_new(s, r, call);
    /* In the list before anything else, so that mr_collectives_stop finds every exchange that has begun. */
    if (!enlist_exchange(x)) {
        mr_exchange_unref(x);
        mr_run_done(r, mr_error(MR_UNAVAILABLE, "The server was stopped"));
        return;
    }
    mr_exchange_ref(x); /* for this function: a failure may finish the exchange */
    mr_exchange_set_timer(x);
    x->on_cancel.fn = step_cancelled;
    x->listens = mr_cancel_register(r->step->cancel, &x->on_cancel);
    if (!x->listens)
        mr_exchange_fail(x, mr_error(MR_CANCELLED, "Collective op was cancelled"), true);
    else
        mr_exchange_find_group(x);
    mr_exchange_less(x, 1);
    mr_exchange_unref(x);
}

/* ---- of a task ---- */

/* Fails everything that is under way. Nothing begins afterwards, since `stopped` is set first. */
void mr_collectives_stop(mr_collectives *c, const mr_status *why)
{
    mr_lock(&c->mu);
    if (!c->stopped)
        c->stopped = mr_status_copy(why);
    mr_unlock(&c->mu);
    /* Exchanges that have ended are still in the list until their last request has ended. */
    for (;;) {
        mr_lock(&c->mu);
        mr_exchange *x = c->exchanges;
        while (x && x->ended)
            x = x->next;
        if (x)
            mr_exchange_ref(x);
        mr_unlock(&c->mu);
        if (!x)
            break;
        mr_exchange_fail(x, mr_status_copy(why), false);
        mr_exchange_unref(x);
    }
    mr_boxes_break(c, 0, why);
    mr_collectives_break_led(c, 0, why);
    mr_collectives_end_joining(c, why);
}

/* Part of the session, so it needs no reference to it. */
void mr_session_collective_init(mr_session_collective *c, mr_wsession *s)
{
    c->base = (mr_collective){"cluster", start_exchange};
    c->session = s;
    mr_mutex_init(&c->mu);
}

void mr_session_collective_deinit(mr_session_collective *c)
{
    mr_free(c->leader);
    mr_mutex_deinit(&c->mu);
}

/* An empty config changes nothing; one without a leader removes the session's choice. */
mr_status *mr_session_collective_configure(mr_session_collective *c, mr_sv config)
{
    mr_session_config parsed;
    if (!config.n)
        return NULL;
    MR_TRY(mr_session_config_parse(config, &parsed));
    mr_lock(&c->mu);
    mr_free(c->leader);
    c->leader = parsed.group_leader[0] ? mr_strdup(parsed.group_leader) : NULL;
    mr_unlock(&c->mu);
    return NULL;
}

/* A number from the environment, or `otherwise` if it is missing, malformed or out of range. */
static int64_t read_setting(const char *name, int64_t otherwise, int64_t least, int64_t most)
{
    const char *text = getenv(name);
    int64_t v = 0;
    return text && mr_sv_to_i64(mr_sv_of(text), &v) && v >= least && v <= most ? v : otherwise;
}

/* Settings are read from the environment once; wrong values are ignored, and the defaults are used. */
mr_collectives *mr_collectives_new(mr_worker_service *w)
{
    mr_collectives *c = mr_new(mr_collectives);
    mr_mutex_init(&c->mu);
    c->worker = w;
    c->ticker.place = -1;
    c->patience_ns =
        read_setting("MILLRACE_COLLECTIVE_TIMEOUT_MS", PATIENCE_NS / 1000000, 1, INT64_C(1) << 40) * 1000000;
    c->chunk_bytes = read_setting("MILLRACE_COLLECTIVE_CHUNK", 1 << 20, 64, INT64_C(1) << 32);
    c->ring_from = (int)read_setting("MILLRACE_COLLECTIVE_RING_FROM", 9, 2, INT32_MAX);
    const char *algorithm = getenv("MILLRACE_COLLECTIVE_ALGORITHM"); /* an unknown name means AUTO */
    if (algorithm)
        mr_group_algorithm_from_name(algorithm, &c->algorithm);
    return c;
}

/* "" removes the setting. Before the first exchange, since all members must ask the same leader. */
void mr_collectives_set_leader(mr_collectives *c, mr_sv task)
{
    mr_lock(&c->mu);
    mr_free(c->leader);
    c->leader = task.n ? mr_strndup(task.p, task.n) : NULL;
    mr_unlock(&c->mu);
}

/* All exchanges have ended and nobody waits in a box: mr_collectives_stop was called, and all sessions are gone. */
void mr_collectives_free(mr_collectives *c)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    if (!c)
        return;
    MR_ASSERT(!c->exchanges && c->boxes.n == 0);
    MR_ASSERT(!c->ticking);
    while (mr_map_next(&c->groups, &pos, &key, &v))
        mr_cgroup_unref(v);
    mr_map_deinit(&c->groups);
    mr_map_deinit(&c->boxes);
    mr_groups_deinit(&c->led);
    mr_collectives_forget_steps(c);
    mr_collectives_forget_early(c);
    for (int i = 0; i < MR_ELASTIC_SLOTS; i++) {
        mr_elastic_deinit(&c->elastic[i].e);
        mr_free(c->elastic[i].name);
    }
    mr_status_free(c->stopped);
    mr_free(c->leader);
    mr_mutex_deinit(&c->mu);
    mr_free(c);
}
