/* server/master.c -- the master service: sessions of clients.
 *
 * The master's table has one reference to each session from the answer of CreateSession until it is
 * closed. Calls enter a session before they use it and leave it afterwards; a closed session ends
 * when the last of them has left (mr_msession_leave). Its memory lives a little longer, until the last
 * reference is dropped; mr_master_free waits for that. */
#include "server/master.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "graph/graph_def.h"
#include "server/master_internal.h"
#include "server/round.h"

#define LIST_DEADLINE_NS (10 * INT64_C(1000000000))

/* ---- sessions ---- */

/* The count of sessions goes down last: the master may be freed once it is 0. */
void mr_msession_unref(mr_msession *s)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    if (!s || !mr_refs_drop(&s->refs))
        return;
    MR_ASSERT(!s->steps && !s->holds && !s->to_answer && s->n_open == 0);
    mr_master *m = s->master;
    while (mr_map_next(&s->programs, &pos, &key, &v))
        mr_mprogram_free(v);
    for (int i = 0; i < s->failed.n; i++)
        mr_mprogram_free(s->failed.p[i]);
    for (int i = 0; i < s->n_devices; i++)
        mr_device_free(s->devices[i]);
    for (pos = 0; mr_map_next(&s->callables, &pos, &key, &v);)
        mr_mcallable_unref(v);
    for (pos = 0; mr_map_next(&s->partials, &pos, &key, &v);)
        mr_mpartial_unref(v);
    mr_map_deinit(&s->callables);
    mr_map_deinit(&s->partials);
    mr_map_deinit(&s->programs);
    mr_vec_deinit(&s->failed);
    mr_placements_deinit(&s->placements);
    mr_placements_deinit(&s->told);
    mr_placing_free(s->placing);
    mr_graph_unref(s->graph);
    mr_free(s->devices);
    mr_free(s->task_of);
    mr_free(s->member);
    mr_free(s->incarnations);
    mr_str_deinit(&s->config_proto);
    mr_task_peers_unref(s->peers);
    mr_mutex_deinit(&s->mu);
    mr_mutex_deinit(&s->making);
    mr_free(s);
    atomic_fetch_sub_explicit(&m->n_sessions, 1, memory_order_release);
}

/* The session has one reference, which goes to the master's table. The handle is random, so that a client of an earlier
 * incarnation of this task does not find a session of another client. */
mr_msession *mr_msession_new(mr_master *m)
{
    mr_msession *s = mr_new(mr_msession);
    mr_refs_init(&s->refs);
    mr_mutex_init(&s->making);
    mr_mutex_init(&s->mu);
    s->master = m;
    atomic_fetch_add_explicit(&m->n_sessions, 1, memory_order_relaxed);
    s->entered_ns = mr_now_ns();
    s->graph = mr_graph_new();
    snprintf(s->handle, sizeof s->handle, "%016" PRIx64, mr_random64());
    return s;
}

/* Takes the reference; called once, before anybody else knows the session. */
void mr_msession_set_peers(mr_msession *s, mr_task_peers *p)
{
    MR_ASSERT(!s->peers);
    s->peers = p;
    s->member = mr_new_array(bool, p->cluster.tasks.n + 1);
    s->incarnations = mr_new_array(uint64_t, p->cluster.tasks.n + 1);
}

/* The error is TensorFlow's: clients recover from ABORTED by making a new session. */
mr_status *mr_msession_find(mr_master *m, mr_sv handle, mr_msession **out)
{
    mr_lock(&m->mu);
    *out = mr_map_get(&m->sessions, handle);
    if (*out)
        mr_refs_take(&(*out)->refs);
    mr_unlock(&m->mu);
    return *out ? NULL
                : mr_error(MR_ABORTED, "Session %.*s is not found. Possibly, this master has restarted.",
                           MR_SV_ARG(handle));
}

/* Also notes the time, by which idle sessions are found. */
mr_status *mr_msession_enter(mr_msession *s)
{
    mr_lock(&s->mu);
    bool open = !s->closed;
    s->n_open += open;
    s->entered_ns = mr_now_ns();
    mr_unlock(&s->mu);
    return open ? NULL : mr_error(MR_CANCELLED, "Session has been closed.");
}

/* May end the session: the caller needs a reference to use it afterwards. */
void mr_msession_leave(mr_msession *s)
{
    mr_lock(&s->mu);
    MR_ASSERT(s->n_open > 0);
    bool over = --s->n_open == 0 && s->closed; /* a closed session cannot be entered, so this happens once */
    mr_unlock(&s->mu);
    if (over)
        mr_msession_closed(s);
}

/* Before the first message to a task, so that a loss is noticed from the beginning. */
void mr_msession_hold(mr_msession *s)
{
    MR_ASSERT(!s->holds);
    s->holds = true;
    for (int i = 0; i < s->peers->cluster.tasks.n; i++)
        if (s->member[i])
            mr_watch_hold(s->peers->watch, i);
}

/* A session that is not held stays so, so this may be called twice. */
void mr_msession_release(mr_msession *s)
{
    for (int i = 0; s->holds && i < s->peers->cluster.tasks.n; i++)
        if (s->member[i])
            mr_watch_release(s->peers->watch, i);
    s->holds = false;
}

/* A task was lost or restarted. Stops the steps of sessions in that cluster (p) that rely on it.
 * Sessions are collected first, because stopping a step must not happen under the master's lock. */
void mr_master_lost(mr_master *m, const mr_task_peers *p, int task)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    MR_VEC(mr_msession *) all = {0};
    mr_lock(&m->mu);
    while (mr_map_next(&m->sessions, &pos, &key, &v)) {
        mr_msession *s = v;
        if (s->peers != p)
            continue;
        mr_refs_take(&s->refs);
        mr_vec_push(&all, s);
    }
    mr_unlock(&m->mu);
    for (int i = 0; i < all.n; i++) {
        mr_msession_stop_lost(all.p[i], task);
        mr_msession_unref(all.p[i]);
    }
    mr_vec_deinit(&all);
}

/* ---- ExtendSession ---- */

/* Handles an ExtendSessionRequest: adds nodes to the session's graph. Versions count the extensions,
 * so that two clients of one session cannot extend the same graph without knowing of each other. */
static mr_status *extend_graph(mr_master *m, mr_sv body, int64_t *new_version)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv handle = MR_SV(""), graph_def = MR_SV("");
    int64_t version = 0;
    mr_msession *s;
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: handle = mr_pb_bytes(&r); break;
        case 2: graph_def = mr_pb_bytes(&r); break;
        case 3: version = mr_pb_int64(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "ExtendSessionRequest"));
    MR_TRY(mr_msession_find(m, handle, &s));
    /* Under `making`, so that no program is made of a graph that is changing. */
    mr_lock(&s->making);
    mr_status *st = NULL;
    if (version != s->version)
        st = mr_error(MR_ABORTED, "The session's graph has version %lld, but the request extends version %lld",
                      (long long)s->version, (long long)version);
    const mr_import_options import = {.extends = true, .no_validate_colocation = true};
    if (!st)
        st = mr_graph_import(s->graph, graph_def, &import, NULL);
    if (!st)
        *new_version = ++s->version;
    mr_unlock(&s->making);
    mr_msession_unref(s);
    return st;
}

/* Handles ExtendSession, on the pool: importing nodes takes long. */
static void extend_session(void *service, mr_net_call *c, mr_sv body)
{
    int64_t version = 0;
    mr_str reply = {0};
    mr_pb_writer w;
    mr_status *st = extend_graph(service, body, &version);
    mr_pb_writer_init(&w, &reply);
    if (!st)
        mr_pb_put_varint(&w, 4, (uint64_t)version);
    mr_reply_str(c, st, &reply);
}

/* ---- ListDevices ---- */

/* Answers with the devices of a session: the first is local to the client, the others are remote.
 * Takes the reference to s. */
static void session_devices(mr_net_call *c, mr_msession *s)
{
    mr_str reply = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &reply);
    for (int i = 0; i < s->n_devices; i++)
        mr_device_attributes_encode(s->devices[i], &w, i == 0 ? 1 : 2);
    mr_msession_unref(s);
    mr_reply_str(c, NULL, &reply);
}

/* A ListDevices of the whole cluster that waits for the other tasks. */
typedef struct listing {
    mr_master *master;
    mr_net_call *call;
} listing;

/* All tasks have answered, or one has failed. Answers with this task's devices, then those of the
 * others as they reported them. */
static void devices_came(void *arg, mr_status *st, mr_str *replies)
{
    listing l = *(listing *)arg;
    const mr_host *h = l.master->host;
    mr_str reply = {0};
    mr_pb_writer w;
    mr_free(arg);
    mr_pb_writer_init(&w, &reply);
    /* Fields of a ListDevicesResponse: 1 local_device, 2 remote_device. The others' attributes are copied unparsed. */
    for (int i = 0; !st && i < h->env.n_devices; i++)
        mr_device_attributes_encode(h->env.devices[i], &w, 1);
    for (int i = 0; !st && i < h->peers->cluster.tasks.n; i++) {
        mr_pb_reader r;
        uint32_t field, wire;
        mr_pb_reader_init(&r, mr_str_view(&replies[i]));
        while (mr_pb_next(&r, &field, &wire))
            if (field == 1)
                mr_pb_put_bytes(&w, 2, mr_pb_bytes(&r));
            else
                mr_pb_skip(&r);
        st = mr_pb_reader_status(&r, "GetStatusResponse");
    }
    mr_reply_str(l.call, st, &reply);
    mr_str_deinit(&reply);
}

/* Lists the devices of the whole cluster: asks every other task. */
static void list_cluster_devices(mr_master *m, mr_net_call *c)
{
    mr_host *h = m->host;
    bool *others = mr_new_array(bool, h->peers->cluster.tasks.n + 1);
    for (int i = 0; i < h->peers->cluster.tasks.n; i++)
        others[i] = i != h->peers->self;
    listing *l = mr_new(listing);
    *l = (listing){m, c};
    mr_round_start(h, others, MR_WORKER_SERVICE "GetStatus", MR_SV(""), mr_now_ns() + LIST_DEADLINE_NS, devices_came,
                   l);
    mr_free(others);
}

/* Handles ListDevices, of a session or, without a handle, of the cluster. */
static void list_devices(void *service, mr_net_call *c, mr_sv body)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv handle = MR_SV("");
    mr_msession *s = NULL;
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1)
            handle = mr_pb_bytes(&r);
        else
            mr_pb_skip(&r);
    mr_status *st = mr_pb_reader_status(&r, "ListDevicesRequest");
    if (!st && handle.n)
        st = mr_msession_find(service, handle, &s);
    if (st)
        mr_reply(c, st, NULL);
    else if (s)
        session_devices(c, s);
    else
        list_cluster_devices(service, c);
}

/* ---- the service ---- */

static const mr_method methods[] = {
    {"RunStep", mr_master_handle_run_step, false},
    {"PartialRunSetup", mr_master_partial_setup, true},
    {"MakeCallable", mr_master_make_callable, true},
    {"RunCallable", mr_master_handle_run_callable, true},
    {"ReleaseCallable", mr_master_release_callable, true},
    {"CreateSession", mr_master_create_session, true},
    {"ExtendSession", extend_session, true},
    {"CloseSession", mr_master_close_session, true},
    {"ListDevices", list_devices, false},
    {"Reset", mr_master_reset, true},
};

void mr_master_handle(mr_master *m, mr_net_call *c)
{
    mr_dispatch(m->host, methods, MR_COUNT(methods), MR_MASTER_SERVICE, m, c);
}

/* With gc_ns > 0 the timer that closes idle sessions starts at once. */
mr_master *mr_master_new(mr_host *h, mr_timers *timers, int64_t gc_ns, struct mr_collectives *collectives)
{
    mr_master *m = mr_new(mr_master);
    m->collectives = collectives;
    mr_mutex_init(&m->mu);
    mr_cond_init(&m->quiet);
    m->host = h;
    m->timers = timers;
    mr_retries_init(&m->retries, timers);
    m->gc_ns = gc_ns;
    if (gc_ns > 0)
        mr_master_sweep(m);
    return m;
}

/* Closes all sessions and waits until their calls have left. The messages to workers that are still
 * being retried get a short time to arrive (mr_retries_hurry). */
void mr_master_stop(mr_master *m)
{
    mr_lock(&m->mu);
    m->stopped = true;
    mr_unlock(&m->mu);
    mr_retries_hurry(&m->retries);
    mr_master_sweep_no_more(m);
    mr_master_close_all(m);
    /* No session is added any more (`stopped`), so the count can only fall. */
    mr_lock(&m->mu);
    while (m->n_closing > 0)
        mr_cond_wait(&m->quiet, &m->mu);
    mr_unlock(&m->mu);
    mr_retries_drop(&m->retries);
}

/* Waits for threads that still have to drop a session after its last answer, which takes a moment. */
void mr_master_free(mr_master *m)
{
    if (!m)
        return;
    while (atomic_load_explicit(&m->n_sessions, memory_order_acquire) > 0)
        mr_sleep_ns(100000);
    MR_ASSERT(m->n_closing == 0);
    mr_map_deinit(&m->sessions);
    mr_recent_deinit(&m->requests);
    mr_retries_deinit(&m->retries);
    mr_cond_deinit(&m->quiet);
    mr_mutex_deinit(&m->mu);
    mr_free(m);
}
