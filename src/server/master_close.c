/* server/master_close.c -- CloseSession and Reset: no thread waits for the steps they end.
 *
 * A session is taken out of the master's table by whoever closes it, so it is closed once.  Its steps are cancelled, and
 * the last call that leaves it tells the tasks, then answers.  A thread that waited here instead might be the one that those
 * steps need to end. */
#include "base/clock.h"
#include "base/memory.h"
#include "server/master_internal.h"
#include "server/wire.h"

#define RESET_DEADLINE_NS (10 * INT64_C(1000000000))

/* ---- closing ---- */

static void one_less(mr_master *m)
{
    mr_lock(&m->mu);
    if (--m->n_closing == 0)
        mr_cond_broadcast(&m->quiet);
    mr_unlock(&m->mu);
}

/* The answer comes last: the server may be gone once nobody waits for it. */
void mr_msession_closed(mr_msession *s)
{
    mr_master *m = s->master;
    for (int i = 0; i < m->host->cluster.tasks.n; i++) {
        mr_str body = {0};
        mr_pb_writer w;
        if (!s->member[i])
            continue;
        mr_pb_writer_init(&w, &body);
        mr_pb_put_bytes(&w, 1, mr_sv_of(s->handle));
        mr_master_tell(m, i, MR_WORKER_SERVICE "DeleteWorkerSession", &body);
    }
    mr_msession_release(s);
    mr_lock(&s->mu);
    mr_net_call *call = s->to_answer;
    s->to_answer = NULL;
    mr_unlock(&s->mu);
    one_less(m);
    if (call)
        mr_reply(call, NULL, NULL);
}

/* Takes the table's reference; call (may be NULL) is answered when it is done. */
static void close_session(mr_msession *s, mr_net_call *call)
{
    mr_lock(&s->mu);
    MR_ASSERT(!s->closed);
    s->closed = true;
    s->n_open++; /* this function's */
    s->to_answer = call;
    mr_unlock(&s->mu);
    mr_msession_stop(s, MR_CANCELLED, "Session was closed");
    mr_msession_leave(s);
    mr_msession_unref(s);
}

/* The session of a handle, or any (NULL). */
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
        close_session(s, c);
    else
        mr_reply(c, st, NULL);
}

void mr_master_close_all(mr_master *m)
{
    for (mr_msession *s; (s = take_session(m, NULL));)
        close_session(s, NULL);
}

/* ---- Reset ---- */

typedef struct reset reset;

typedef struct cleanup_call {
    mr_net_request request; /* first */
    reset *reset;
    int task;
} cleanup_call;

struct reset {
    mr_master *master;
    mr_net_call *call;
    mr_mutex mu;
    int n_left MR_GUARDED_BY(mu);
    mr_status *st MR_GUARDED_BY(mu);
    cleanup_call *calls; /* by task */
};

static void reset_one_less(reset *r)
{
    mr_lock(&r->mu);
    bool last = --r->n_left == 0;
    mr_unlock(&r->mu);
    if (!last)
        return;
    mr_net_call *call = r->call;
    mr_status *st = r->st;
    mr_master *m = r->master;
    mr_mutex_deinit(&r->mu);
    mr_free(r->calls);
    mr_free(r);
    one_less(m);
    mr_reply(call, st, NULL);
}

static void cleaned(mr_net_request *q, mr_status *st, mr_bytes *reply)
{
    cleanup_call *c = (cleanup_call *)q;
    reset *r = c->reset;
    (void)reply;
    if (st)
        mr_status_prepend(st, "From %s:\n", r->master->host->cluster.tasks.p[c->task].name);
    mr_lock(&r->mu);
    mr_status_update(&r->st, st);
    mr_unlock(&r->mu);
    reset_one_less(r);
}

/* Containers, and which tasks: those of the filters, or all. */
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
            MR_TRY(mr_host_filter(h, text, asked));
        n_filters += field == 2;
    }
    for (int i = 0; i < h->cluster.tasks.n; i++)
        asked[i] |= n_filters == 0;
    return mr_pb_reader_status(&r, "ResetRequest");
}

static void clean_up(reset *r, const mr_str *containers, const bool *asked)
{
    mr_host *h = r->master->host;
    int n = h->cluster.tasks.n;
    r->n_left = 1; /* this function's */
    r->calls = mr_new_array(cleanup_call, n + 1);
    for (int i = 0; i < n; i++)
        r->n_left += asked[i];
    for (int i = 0; i < n; i++) {
        if (!asked[i])
            continue;
        cleanup_call *c = &r->calls[i];
        c->request = (mr_net_request){
            .method = MR_WORKER_SERVICE "CleanupAll", .deadline_ns = mr_now_ns() + RESET_DEADLINE_NS, .done = cleaned};
        mr_bytes_add_copy(&c->request.body, containers->p ? containers->p : "", containers->n);
        c->reset = r;
        c->task = i;
        mr_host_ask(h, i, &c->request);
    }
    reset_one_less(r);
}

/* Sessions end first, so that no step of them fills a container again. */
void mr_master_reset(void *service, mr_net_call *c, mr_sv body)
{
    mr_master *m = service;
    mr_str containers = {0};
    bool *asked = mr_new_array(bool, m->host->cluster.tasks.n + 1);
    mr_status *st = parse_reset(m->host, body, &containers, asked);
    if (st) {
        mr_reply(c, st, NULL);
    } else {
        mr_lock(&m->mu);
        m->n_closing++;
        mr_unlock(&m->mu);
        mr_master_close_all(m);
        reset *r = mr_new(reset);
        r->master = m;
        r->call = c;
        mr_mutex_init(&r->mu);
        clean_up(r, &containers, asked);
    }
    mr_str_deinit(&containers);
    mr_free(asked);
}
