/* server/master_close.c -- CloseSession and Reset: no thread waits for the steps they end.
 *
 * The thread that closes a session takes it out of the master's table, so it is closed once. Its steps
 * are cancelled, and the last call that leaves it tells the tasks and then answers. A thread that waited
 * here might be the one that those steps need to end.
 *
 *     take_session -> close_session -> steps end -> last mr_msession_leave -> mr_msession_closed -> reply
 *
 * n_closing counts the sessions that are being closed, the resets, and the timer that looks for idle
 * sessions; mr_master_stop waits until it is 0. */
#include "base/clock.h"
#include "base/memory.h"
#include "server/master_internal.h"
#include "server/round.h"
#include "server/wire.h"

#define RESET_DEADLINE_NS (10 * INT64_C(1000000000))

/* ---- closing ---- */

/* Both texts are TensorFlow's. */
const char *mr_msession_why_closed(bool unused)
{
    return unused ? "Step was cancelled because the session was garbage collected due to inactivity."
                  : "Step was cancelled by an explicit call to `Session::Close()`.";
}

/* One session, reset or timer has ended. */
static void one_less_closing(mr_master *m)
{
    mr_lock(&m->mu);
    MR_ASSERT(m->n_closing > 0);
    if (--m->n_closing == 0)
        mr_cond_broadcast(&m->quiet);
    mr_unlock(&m->mu);
}

/* The last call has left: tells all member tasks to delete their sessions and answers CloseSession.
 * The reply comes last: when nobody waits for an answer any more, the server may be freed. */
void mr_msession_closed(mr_msession *s)
{
    mr_master *m = s->master;
    for (int i = 0; i < s->peers->cluster.tasks.n; i++) {
        mr_str body = {0};
        mr_pb_writer w;
        if (!s->member[i])
            continue;
        mr_pb_writer_init(&w, &body);
        mr_pb_put_bytes(&w, 1, mr_sv_of(s->handle));
        mr_retries_send(&m->retries, s->peers, i, MR_WORKER_SERVICE "DeleteWorkerSession", &body);
    }
    mr_msession_release(s);
    mr_lock(&s->mu);
    mr_net_call *call = s->to_answer;
    s->to_answer = NULL;
    mr_unlock(&s->mu);
    one_less_closing(m);
    if (call)
        mr_reply(call, NULL, NULL);
}

/* Closes a session that was taken out of the table, and takes the table's reference. call (may be
 * NULL) is answered when the session has ended. The function counts as a call of the session, so that
 * the session cannot end while its steps are being stopped. */
static void close_session(mr_msession *s, mr_net_call *call, bool unused)
{
    mr_lock(&s->mu);
    MR_ASSERT(!s->closed);
    s->closed = true;
    s->unused = unused;
    s->n_open++; /* for this function */
    s->to_answer = call;
    mr_unlock(&s->mu);
    mr_msession_stop(s, MR_CANCELLED, mr_msession_why_closed(unused));
    mr_msession_leave(s);
    mr_msession_unref(s);
}

/* Takes the session of a handle, or any session (NULL), out of the table; returns NULL if there is
 * none. */
static mr_msession *take_session(mr_master *m, const mr_sv *handle)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v = NULL;
    mr_lock(&m->mu);
    if (handle)
        v = mr_map_remove(&m->sessions, *handle);
    else if (mr_map_next(&m->sessions, &pos, &key, &v))
        mr_map_remove(&m->sessions, key);
    m->n_closing += v != NULL;
    mr_unlock(&m->mu);
    return v;
}

/* Handles CloseSession. The answer is sent when the session's last step has ended. */
void mr_master_close_session(void *service, mr_net_call *c, mr_sv body)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv handle = MR_SV("");
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1)
            handle = mr_pb_bytes(&r);
        else
            mr_pb_skip(&r);
    mr_status *st = mr_pb_reader_status(&r, "CloseSessionRequest");
    mr_msession *s = st ? NULL : take_session(service, &handle);
    if (!st && !s)
        st = mr_error(MR_ABORTED, "Session %.*s is not found. Possibly, this master has restarted.", MR_SV_ARG(handle));
    if (s)
        close_session(s, c, false);
    else
        mr_reply(c, st, NULL);
}

/* One session at a time, because closing one calls back. */
void mr_master_close_all(mr_master *m)
{
    for (mr_msession *s; (s = take_session(m, NULL));)
        close_session(s, NULL, false);
}

/* ---- sessions of clients that are gone ---- */

/* Takes a session out of the table that no call has entered for gc_ns; NULL: there is none. The
 * master's lock is held while a session's is taken. */
static mr_msession *take_idle(mr_master *m)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    mr_msession *found = NULL;
    int64_t before_ns = mr_now_ns() - m->gc_ns;
    mr_lock(&m->mu);
    while (!found && mr_map_next(&m->sessions, &pos, &key, &v)) {
        mr_msession *s = v;
        mr_lock(&s->mu);
        if (s->entered_ns < before_ns)
            found = s;
        mr_unlock(&s->mu);
    }
    if (found) {
        mr_map_remove(&m->sessions, mr_sv_of(found->handle));
        m->n_closing++;
    }
    mr_unlock(&m->mu);
    return found;
}

static void sweep_time(mr_timer *t);

/* The timer runs four times per gc_ns, so a session is closed about a quarter of gc_ns late at most. */
static void set_sweep(mr_master *m)
{
    mr_timers_set(m->timers, &m->sweep, mr_now_ns() + MR_MAX(m->gc_ns / 4, 1), sweep_time);
}

/* Runs on the pool: closes the idle sessions and sets the timer again, unless the master was stopped
 * meanwhile. */
static void sweep_now(mr_task *t)
{
    mr_master *m = (mr_master *)((char *)t - offsetof(mr_master, sweeping));
    for (mr_msession *s; (s = take_idle(m));)
        close_session(s, NULL, true);
    mr_lock(&m->mu);
    bool on = !m->stopped;
    if (on)
        set_sweep(m);
    mr_unlock(&m->mu);
    if (!on)
        one_less_closing(m);
}

/* The timer: closing takes locks and makes calls, so the pool does it. */
static void sweep_time(mr_timer *t)
{
    mr_master *m = (mr_master *)((char *)t - offsetof(mr_master, sweep));
    m->sweeping.fn = sweep_now;
    mr_pool_submit(m->host->pool, &m->sweeping);
}

/* The timer counts in n_closing, so mr_master_stop waits for its end. */
void mr_master_sweep(mr_master *m)
{
    mr_lock(&m->mu);
    m->n_closing++;
    set_sweep(m);
    mr_unlock(&m->mu);
}

/* If the timer cannot be cleared, it has fired: sweep_now sees that the master is stopped, and lowers
 * n_closing. */
void mr_master_sweep_no_more(mr_master *m)
{
    if (m->gc_ns > 0 && mr_timers_clear(m->timers, &m->sweep))
        one_less_closing(m);
}

/* ---- Reset ---- */

/* A Reset that waits for the tasks. */
typedef struct reset {
    mr_master *master;
    mr_net_call *call;
} reset;

/* All tasks have answered, or failed to: answers Reset with the first error. The reply comes last, as in
 * mr_msession_closed. */
static void tasks_cleaned(void *arg, mr_status *st, mr_str *replies)
{
    reset r = *(reset *)arg;
    (void)replies;
    mr_free(arg);
    one_less_closing(r.master);
    mr_reply(r.call, st, NULL);
}

/* Parses a ResetRequest (1 container, 2 device_filters) into a CleanupAllRequest (1 container) and the tasks to
 * ask: those that match a device filter, or all. */
static mr_status *parse_reset(const mr_host *h, mr_sv body, mr_str *containers, bool *asked)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_writer w;
    int n_filters = 0;
    mr_pb_reader_init(&r, body);
    mr_pb_writer_init(&w, containers);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != 1 && field != 2) {
            mr_pb_skip(&r);
            continue;
        }
        mr_sv text = mr_pb_bytes(&r);
        if (field == 1)
            mr_pb_put_bytes(&w, 1, text);
        else
            MR_TRY(mr_task_peers_filter(h->peers, text, asked));
        n_filters += field == 2;
    }
    for (int i = 0; i < h->peers->cluster.tasks.n; i++)
        asked[i] |= n_filters == 0;
    return mr_pb_reader_status(&r, "ResetRequest");
}

/* Handles Reset. Sessions are closed first, so that their steps do not fill a container again. */
void mr_master_reset(void *service, mr_net_call *c, mr_sv body)
{
    mr_master *m = service;
    mr_str containers = {0};
    bool *asked = mr_new_array(bool, m->host->peers->cluster.tasks.n + 1);
    mr_status *st = parse_reset(m->host, body, &containers, asked);
    if (st) {
        mr_reply(c, st, NULL);
    } else {
        mr_lock(&m->mu);
        m->n_closing++;
        mr_unlock(&m->mu);
        mr_master_close_all(m);
        reset *r = mr_new(reset);
        *r = (reset){m, c};
        mr_round_start(m->host, asked, MR_WORKER_SERVICE "CleanupAll", mr_str_view(&containers),
                       mr_now_ns() + RESET_DEADLINE_NS, tasks_cleaned, r);
    }
    mr_str_deinit(&containers);
    mr_free(asked);
}
