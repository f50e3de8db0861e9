/* server/master.c -- the master service: sessions of clients.
 *
 * A session is created in three rounds, none of which holds a thread: all tasks are asked for their devices, each gets
 * a session of its own, the client gets the handle. */
#include "server/master.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "graph/graph_def.h"
#include "server/master_internal.h"
#include "server/wire.h"

#define START_DEADLINE_NS (600 * INT64_C(1000000000)) /* for a cluster to come up */
#define TELL_DEADLINE_NS (10 * INT64_C(1000000000))

/* ---- sessions ---- */

void mr_msession_unref(mr_msession *s)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    if (!s || !mr_refs_drop(&s->refs))
        return;
    while (mr_map_next(&s->programs, &pos, &key, &v))
        mr_mprogram_free(v);
    for (int i = 0; i < s->failed.n; i++)
        mr_mprogram_free(s->failed.p[i]);
    for (int i = 0; i < s->n_devices; i++)
        mr_device_free(s->devices[i]);
    for (pos = 0; mr_map_next(&s->callables, &pos, &key, &v);) {
        mr_str_deinit(v);
        mr_free(v);
    }
    mr_map_deinit(&s->callables);
    mr_map_deinit(&s->programs);
    mr_vec_deinit(&s->failed);
    mr_placements_deinit(&s->placements);
    mr_graph_unref(s->graph);
    mr_free(s->devices);
    mr_free(s->task_of);
    mr_free(s->member);
    mr_cond_deinit(&s->idle);
    mr_mutex_deinit(&s->mu);
    mr_mutex_deinit(&s->making);
    mr_free(s);
}

static mr_msession *msession_new(mr_master *m)
{
    mr_msession *s = mr_new(mr_msession);
    mr_refs_init(&s->refs);
    mr_mutex_init(&s->making);
    mr_mutex_init(&s->mu);
    mr_cond_init(&s->idle);
    s->master = m;
    s->graph = mr_graph_new();
    s->member = mr_new_array(bool, m->host->cluster.tasks.n + 1);
    snprintf(s->handle, sizeof s->handle, "%016" PRIx64, mr_random64());
    return s;
}

mr_status *mr_msession_find(mr_master *m, mr_sv handle, mr_msession **out)
{
    mr_lock(&m->mu);
    *out = mr_map_get(&m->sessions, handle);
    if (*out)
        mr_refs_take(&(*out)->refs);
    mr_unlock(&m->mu);
    return *out ? NULL
                : mr_error(MR_ABORTED, "Session %.*s is not found. Possibly, this master has restarted.", MR_SV_ARG(handle));
}

mr_status *mr_msession_enter(mr_msession *s)
{
    mr_lock(&s->mu);
    bool open = !s->closed;
    s->n_open += open;
    mr_unlock(&s->mu);
    return open ? NULL : mr_error(MR_CANCELLED, "Session has been closed.");
}

void mr_msession_leave(mr_msession *s)
{
    mr_lock(&s->mu);
    if (--s->n_open == 0)
        mr_cond_broadcast(&s->idle);
    mr_unlock(&s->mu);
}

/* ---- requests that nobody waits for ---- */

static void told(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    (void)reply;
    mr_status_free(st);
    mr_free(r);
}

void mr_host_tell(mr_host *h, int task, const char *method, mr_str *body, int64_t deadline_ns)
{
    mr_net_request *r = mr_new(mr_net_request);
    *r = (mr_net_request){.method = method, .deadline_ns = deadline_ns, .done = told};
    mr_bytes_add_str(&r->body, body);
    mr_host_ask(h, task, r);
}

/* ---- CreateSession ---- */

typedef struct creation {
    mr_net_call *call;
    mr_msession *session;
    mr_mutex mu;
    int n_left MR_GUARDED_BY(mu);
    mr_status *st MR_GUARDED_BY(mu);
    mr_str *devices; /* by task: its GetStatusResponse */
} creation;

typedef struct creation_call {
    mr_net_request request; /* first */
    creation *creation;
    int task;
} creation_call;

static void creation_end(creation *c)
{
    mr_master *m = c->session->master;
    mr_str body = {0};
    mr_pb_writer w;
    mr_status *st = c->st;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(c->session->handle));
    mr_lock(&m->mu);
    if (!st && m->stopped)
        st = mr_error(MR_UNAVAILABLE, "The server was stopped");
    if (!st)
        mr_map_putz(&m->sessions, c->session->handle, c->session);
    mr_unlock(&m->mu);
    if (st) {
        mr_msession_unref(c->session);
        mr_str_clear(&body);
    }
    for (int i = 0; i < m->host->cluster.tasks.n; i++)
        mr_str_deinit(&c->devices[i]);
    mr_free(c->devices);
    mr_mutex_deinit(&c->mu);
    mr_net_call *call = c->call;
    mr_free(c);
    mr_reply_str(call, st, &body); /* last: the server may be gone once nobody waits for it */
    mr_str_deinit(&body);
}

/* Asks all members; `then` follows the last answer. */
static void ask_members(creation *c, const char *method, void (*done)(mr_net_request *, mr_status *, mr_bytes *),
                        const mr_str *body, void (*then)(creation *))
{
    mr_msession *s = c->session;
    mr_host *h = s->master->host;
    int n = h->cluster.tasks.n;
    mr_lock(&c->mu);
    for (int i = 0; i < n; i++)
        c->n_left += s->member[i];
    c->n_left++; /* for this function */
    mr_unlock(&c->mu);
    for (int i = 0; i < n; i++) {
        if (!s->member[i])
            continue;
        creation_call *q = mr_new(creation_call);
        q->creation = c;
        q->task = i;
        q->request = (mr_net_request){.method = method,
                                      .deadline_ns = mr_now_ns() + START_DEADLINE_NS,
                                      .wait_for_ready = true,
                                      .done = done};
        mr_bytes_add_copy(&q->request.body, mr_str_z(body), body->n);
        mr_host_ask(h, i, &q->request);
    }
    mr_lock(&c->mu);
    bool last = --c->n_left == 0;
    mr_unlock(&c->mu);
    if (last)
        then(c);
}

static bool one_less(creation_call *q, mr_status *st)
{
    creation *c = q->creation;
    if (st)
        mr_status_prepend(st, "From %s:\n", c->session->master->host->cluster.tasks.p[q->task].name);
    mr_lock(&c->mu);
    mr_status_update(&c->st, st);
    bool last = --c->n_left == 0;
    mr_unlock(&c->mu);
    mr_free(q);
    return last;
}

static void worker_session_made(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    (void)reply;
    creation *c = ((creation_call *)r)->creation;
    if (one_less((creation_call *)r, mr_wire_unmark(st)))
        creation_end(c);
}

static mr_status *add_devices(mr_msession *s, int task, mr_sv reply)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, reply);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != 1) {
            mr_pb_skip(&r);
            continue;
        }
        mr_device *d = NULL;
        mr_sv attributes = mr_pb_bytes(&r);
        MR_TRY(mr_device_attributes_decode(attributes, &d));
        if (!d)
            continue;
        s->devices = mr_realloc(s->devices, sizeof *s->devices * (size_t)(s->n_devices + 1));
        s->task_of = mr_realloc(s->task_of, sizeof *s->task_of * (size_t)(s->n_devices + 1));
        s->devices[s->n_devices] = d;
        s->task_of[s->n_devices++] = task;
        if (mr_cluster_find_named(&s->master->host->cluster, mr_sv_of(d->name)) != task)
            return mr_error(MR_INTERNAL, "%s says it has %s", s->master->host->cluster.tasks.p[task].name, d->name);
    }
    return mr_pb_reader_status(&r, "GetStatusResponse");
}

/* The client's device comes first: it is this task's. */
static mr_status *gather_devices(creation *c)
{
    mr_msession *s = c->session;
    int self = s->master->host->self;
    MR_TRY(add_devices(s, self, mr_str_view(&c->devices[self])));
    for (int i = 0; i < s->master->host->cluster.tasks.n; i++)
        if (s->member[i] && i != self)
            MR_TRY(add_devices(s, i, mr_str_view(&c->devices[i])));
    return s->n_devices ? NULL : mr_error(MR_INTERNAL, "There is no device");
}

static void devices_known(creation *c)
{
    mr_str body = {0};
    mr_pb_writer w;
    if (!c->st)
        c->st = gather_devices(c);
    if (c->st) {
        creation_end(c);
        return;
    }
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(c->session->handle));
    mr_pb_opt_varint(&w, 3, c->session->isolated);
    for (int i = 0; i < c->session->n_devices; i++)
        mr_device_attributes_encode(c->session->devices[i], &w, 4);
    mr_pb_put_bytes(&w, 5, mr_sv_of(mr_host_name(c->session->master->host)));
    ask_members(c, MR_WORKER_SERVICE "CreateWorkerSession", worker_session_made, &body, creation_end);
    mr_str_deinit(&body);
}

static void status_came(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    creation_call *q = (creation_call *)r;
    creation *c = q->creation;
    mr_sv bytes;
    st = mr_wire_unmark(st);
    if (!st)
        st = mr_bytes_flat(reply, &bytes);
    if (!st)
        mr_str_append(&c->devices[q->task], bytes.p, bytes.n);
    if (one_less(q, st))
        devices_known(c);
}

typedef struct create_request {
    mr_sv graph_def, config;
} create_request;

/* A task is seen when a device of it could match one of the filters. */
static mr_status *choose_members(mr_msession *s, mr_sv config)
{
    mr_host *h = s->master->host;
    mr_pb_reader r;
    uint32_t field, wire;
    int n_filters = 0;
    mr_pb_reader_init(&r, config);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != 4) { /* ConfigProto.device_filters */
            if (field == 15 && wire == MR_WIRE_VARINT)
                s->isolated = mr_pb_bool(&r);
            else
                mr_pb_skip(&r);
            continue;
        }
        mr_device_name filter, task;
        mr_sv text = mr_pb_bytes(&r);
        if (!mr_device_name_parse(text, &filter))
            return mr_invalid("'%.*s' is not a device filter", MR_SV_ARG(text));
        n_filters++;
        for (int i = 0; i < h->cluster.tasks.n; i++) {
            mr_device_name_parse(mr_sv_of(h->cluster.tasks.p[i].name), &task);
            mr_device_name both = filter;
            both.has_type = false;
            both.id = -1;
            s->member[i] |= mr_device_name_matches(&both, &task);
        }
    }
    for (int i = 0; i < h->cluster.tasks.n; i++)
        s->member[i] |= n_filters == 0 || i == h->self;
    return mr_pb_reader_status(&r, "ConfigProto");
}

static mr_status *open_session(mr_msession *s, mr_sv body)
{
    mr_pb_reader r;
    uint32_t field, wire;
    create_request q = {MR_SV(""), MR_SV("")};
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: q.graph_def = mr_pb_bytes(&r); break;
        case 2: q.config = mr_pb_bytes(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "CreateSessionRequest"));
    MR_TRY(mr_session_config_parse(q.config, &s->config));
    MR_TRY(choose_members(s, q.config));
    return mr_graph_import(s->graph, q.graph_def, NULL, NULL);
}

static void create_session(void *service, mr_net_call *call, mr_sv body)
{
    mr_master *m = service;
    mr_msession *s = msession_new(m);
    mr_str empty = {0};
    mr_status *st = open_session(s, body);
    if (st) {
        mr_msession_unref(s);
        mr_reply(call, st, NULL);
        return;
    }
    creation *c = mr_new(creation);
    mr_mutex_init(&c->mu);
    c->call = call;
    c->session = s;
    c->devices = mr_new_array(mr_str, m->host->cluster.tasks.n + 1);
    ask_members(c, MR_WORKER_SERVICE "GetStatus", status_came, &empty, devices_known);
}

/* ---- ExtendSession ---- */

static mr_status *extend(mr_master *m, mr_sv body, int64_t *new_version)
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
    mr_lock(&s->making);
    mr_status *st = NULL;
    if (version != s->version)
        st = mr_error(MR_ABORTED, "The graph has version %lld, not %lld", (long long)s->version, (long long)version);
    if (!st)
        st = mr_graph_import(s->graph, graph_def, &(mr_import_options){.extends = true, .no_validate_colocation = true}, NULL);
    if (!st)
        *new_version = ++s->version;
    mr_unlock(&s->making);
    mr_msession_unref(s);
    return st;
}

static void extend_session(void *service, mr_net_call *c, mr_sv body)
{
    int64_t version = 0;
    mr_str reply = {0};
    mr_pb_writer w;
    mr_status *st = extend(service, body, &version);
    mr_pb_writer_init(&w, &reply);
    if (!st)
        mr_pb_put_varint(&w, 4, (uint64_t)version);
    mr_reply_str(c, st, &reply);
}

/* ---- CloseSession, Reset ---- */

/* Steps are cancelled, and once they have ended the tasks are told. */
static void close_session(mr_msession *s)
{
    mr_host *h = s->master->host;
    mr_lock(&s->mu);
    bool first = !s->closed;
    s->closed = true;
    mr_unlock(&s->mu);
    if (!first)
        return;
    mr_msession_stop_steps(s, MR_CANCELLED, "Session was closed");
    mr_lock(&s->mu);
    while (s->n_open > 0)
        mr_cond_wait(&s->idle, &s->mu);
    mr_unlock(&s->mu);
    for (int i = 0; i < h->cluster.tasks.n; i++) {
        mr_str body = {0};
        mr_pb_writer w;
        if (!s->member[i])
            continue;
        mr_pb_writer_init(&w, &body);
        mr_pb_put_bytes(&w, 1, mr_sv_of(s->handle));
        mr_host_tell(h, i, MR_WORKER_SERVICE "DeleteWorkerSession", &body, mr_now_ns() + TELL_DEADLINE_NS);
    }
}

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
    mr_unlock(&m->mu);
    return v;
}

static void close_call(void *service, mr_net_call *c, mr_sv body)
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
    if (s) {
        close_session(s);
        mr_msession_unref(s);
    }
    mr_reply(c, st, NULL);
}

static void close_all(mr_master *m)
{
    for (mr_msession *s; (s = take_session(m, NULL));) {
        close_session(s);
        mr_msession_unref(s);
    }
}

static void reset(void *service, mr_net_call *c, mr_sv body)
{
    mr_master *m = service;
    mr_pb_reader r;
    uint32_t field, wire;
    mr_str tell = {0};
    mr_pb_writer w;
    mr_pb_reader_init(&r, body);
    mr_pb_writer_init(&w, &tell);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1)
            mr_pb_put_bytes(&w, 1, mr_pb_bytes(&r));
        else
            mr_pb_skip(&r);
    mr_status *st = mr_pb_reader_status(&r, "ResetRequest");
    for (int i = 0; !st && i < m->host->cluster.tasks.n; i++) {
        mr_str copy = {0};
        mr_str_append(&copy, mr_str_z(&tell), tell.n);
        mr_host_tell(m->host, i, MR_WORKER_SERVICE "CleanupAll", &copy, mr_now_ns() + TELL_DEADLINE_NS);
    }
    if (!st)
        close_all(m);
    mr_str_deinit(&tell);
    mr_reply(c, st, NULL);
}

/* ---- ListDevices ---- */

static void list_devices(void *service, mr_net_call *c, mr_sv body)
{
    mr_master *m = service;
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv handle = MR_SV("");
    mr_str reply = {0};
    mr_pb_writer w;
    mr_msession *s = NULL;
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1)
            handle = mr_pb_bytes(&r);
        else
            mr_pb_skip(&r);
    mr_status *st = mr_pb_reader_status(&r, "ListDevicesRequest");
    if (!st && handle.n)
        st = mr_msession_find(m, handle, &s);
    mr_pb_writer_init(&w, &reply);
    for (int i = 0; s && i < s->n_devices; i++)
        mr_device_attributes_encode(s->devices[i], &w, i == 0 ? 1 : 2);
    for (int i = 0; !st && !s && i < m->host->env.n_devices; i++)
        mr_device_attributes_encode(m->host->env.devices[i], &w, 1);
    mr_msession_unref(s);
    mr_reply_str(c, st, &reply);
}

/* ---- the service ---- */

static const mr_method methods[] = {
    {"RunStep", mr_master_run_step, true},
    {"CreateSession", create_session, true},
    {"ExtendSession", extend_session, true},
    {"CloseSession", close_call, true},
    {"ListDevices", list_devices, false},
    {"Reset", reset, true},
};

void mr_master_handle(mr_master *m, mr_net_call *c)
{
    mr_dispatch(m->host, methods, MR_COUNT(methods), MR_MASTER_SERVICE, m, c);
}

mr_master *mr_master_new(mr_host *h, mr_timers *timers)
{
    mr_master *m = mr_new(mr_master);
    mr_mutex_init(&m->mu);
    m->host = h;
    m->timers = timers;
    return m;
}

void mr_master_stop(mr_master *m)
{
    mr_lock(&m->mu);
    m->stopped = true;
    mr_unlock(&m->mu);
    close_all(m);
}

void mr_master_free(mr_master *m)
{
    if (!m)
        return;
    mr_map_deinit(&m->sessions);
    mr_mutex_deinit(&m->mu);
    mr_free(m);
}
