/* server/master_create.c -- CreateSession: in rounds, none of which holds a thread.
 *
 * First every member task is asked for its devices (GetStatus), for up to ten minutes, so that a
 * cluster may start in any order. When all have answered, their devices are gathered, and each task is
 * asked to make a session (CreateWorkerSession). If a task refuses, the sessions that exist are
 * deleted again. dist/session.c decides what happens next: its functions are called under the
 * creation's lock and return actions, which are carried out without it.
 *
 *     ask_task (GetStatus to all members) -> gather_devices -> ask_task (CreateWorkerSession) -> answer_client
 *
 * References: the creation has one until the client is answered, one for each call under way, one for
 * the timer while it is set, and one for each thread that carries out actions. The new session is in no table
 * until the answer, so nobody else knows it. */
#include "base/clock.h"
#include "base/log.h"
#include "base/long_wait.h"
#include "base/memory.h"
#include "dist/session.h"
#include "graph/graph_def.h"
#include "server/master_internal.h"
#include "server/wire.h"

#define START_DEADLINE_NS (600 * INT64_C(1000000000)) /* for a cluster to come up */
#define MAKE_DEADLINE_NS (8 * INT64_C(1000000000))

typedef struct creation creation;

/* A GetStatus or CreateWorkerSession under way. */
typedef struct task_call {
    mr_net_request request; /* first */
    creation *creation;
    int task;
    int moves;    /* how often the task had moved when it was asked */
    bool making;  /* it is the CreateWorkerSession */
    bool patient; /* it waits until the task is up */
    /* Under the creation's lock; a call can be cancelled only once it is started. */
    bool started, cancelled;
} task_call;

/* A CreateSession under way. */
struct creation {
    mr_refs refs; /* see the head of this file */
    mr_net_call *call;
    mr_msession *session;
    mr_mutex mu;
    mr_creation state MR_GUARDED_BY(mu);
    mr_timer timer;   /* logs from time to time which tasks are missing */
    int64_t begun_ns;
    task_call *calls; /* by task; those of the second round follow those of the first */
    mr_str *devices;  /* by task: its GetStatusResponse */
    int n_tasks;
    bool answered MR_GUARDED_BY(mu);
};

/* The creation was answered, and no call, timer or action of it is under way. */
static void creation_unref(creation *c)
{
    if (!mr_refs_drop(&c->refs))
        return;
    mr_msession_unref(c->session);
    for (int i = 0; i < c->n_tasks; i++)
        mr_str_deinit(&c->devices[i]);
    mr_creation_deinit(&c->state);
    mr_mutex_deinit(&c->mu);
    mr_free(c->devices);
    mr_free(c->calls);
    mr_free(c);
}

/* ---- devices ---- */

/* Whether the session sees a device: it is this task's, or it matches one of the device filters, or
 * there are none. The filters are known to be well-formed, since choose_members has parsed the config. */
static bool is_seen(const mr_msession *s, int task, const mr_device *d)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_device_name filter, name;
    bool any = false, match = false;
    mr_device_name_parse(mr_sv_of(d->name), &name);
    mr_pb_reader_init(&r, mr_str_view(&s->config_proto));
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != 4) { /* ConfigProto.device_filters */
            mr_pb_skip(&r);
            continue;
        }
        any = true;
        match |= mr_device_name_parse(mr_pb_bytes(&r), &filter) && mr_device_name_matches(&filter, &name);
    }
    return match || !any || task == s->peers->self;
}

/* The error for a task that answers at another task's address. Where a naming service gives the
 * addresses, another task may have got the port of one that is gone; that passes, so the error is
 * UNAVAILABLE and may be retried. */
static mr_status *is_another(mr_msession *s, int task, const mr_device *d)
{
    mr_str at = {0};
    bool named = mr_task_peers_where(s->peers, task, &at);
    mr_status *st = mr_error(named ? MR_UNAVAILABLE : MR_INVALID_ARGUMENT,
                             "The task at %s has the device %s, but it should be %s%s", mr_str_z(&at), d->name,
                             mr_task_peers_task(s->peers, task)->name,
                             named ? "" : ": the cluster specs of the two tasks differ");
    mr_str_deinit(&at);
    return st;
}

/* Adds the devices in a task's GetStatusResponse to the session. The incarnation of the first one is
 * that of the task. */
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
        /* In a cluster that the client brought, tasks have other names than their own. */
        const char *name = s->peers->brought ? mr_task_peers_task(s->peers, task)->name : NULL;
        MR_TRY(mr_device_attributes_decode_as(attributes, name, &d));
        /* Also of a device that the session does not see: the task's incarnation must be known. */
        if (d && !s->incarnations[task])
            s->incarnations[task] = d->incarnation;
        if (!d || !is_seen(s, task, d)) {
            mr_device_free(d);
            continue;
        }
        s->devices = mr_realloc(s->devices, sizeof *s->devices * (size_t)(s->n_devices + 1));
        s->task_of = mr_realloc(s->task_of, sizeof *s->task_of * (size_t)(s->n_devices + 1));
        s->devices[s->n_devices] = d;
        s->task_of[s->n_devices++] = task;
        if (mr_cluster_find_named(&s->peers->cluster, mr_sv_of(d->name)) != task)
            return is_another(s, task, d);
    }
    return mr_pb_reader_status(&r, "GetStatusResponse");
}

/* Collects the devices of all members. This task's come first: its first device takes the client's
 * feeds and fetches. */
static mr_status *gather_devices(creation *c)
{
    mr_msession *s = c->session;
    int self = s->peers->self;
    MR_ASSERT(s->n_devices == 0 && s->member[self]);
    MR_TRY(add_devices(s, self, mr_str_view(&c->devices[self])));
    for (int i = 0; i < c->n_tasks; i++)
        if (s->member[i] && i != self)
            MR_TRY(add_devices(s, i, mr_str_view(&c->devices[i])));
    return s->n_devices ? NULL : mr_error(MR_INTERNAL, "The session's tasks have no devices");
}

/* ---- carrying out what dist/session decides ---- */

static void do_actions(creation *c, mr_create_actions *a);
static void ask_task(creation *c, int task, bool making);

/* Whether a GetStatus is sent again after it failed. A task is first asked without waiting, because
 * waiting would hide errors that never pass, such as wrong keys; one that is not up is then asked
 * again and waited for. A task that moved to another address meanwhile is asked there. */
static bool asks_again(task_call *q, const mr_status *st)
{
    creation *c = q->creation;
    mr_code code = mr_status_code(st);
    bool moved = (code == MR_CANCELLED || code == MR_UNAVAILABLE) &&
                 mr_task_peers_moves(c->session->peers, q->task) != q->moves;
    mr_lock(&c->mu);
    bool again = ((code == MR_UNAVAILABLE && !q->patient) || moved) && !q->making && !q->cancelled;
    q->patient |= again && !moved;
    q->started &= !again; /* a cancellation from now on is carried out by the next ask_task, which reuses the request */
    mr_unlock(&c->mu);
    return again;
}

/* A task that moved has lost its new session, and a task that does not answer may be down. Both may be
 * tried again, which clients recognise by the code UNAVAILABLE. Takes st. */
static mr_status *as_unavailable(task_call *q, mr_status *st)
{
    mr_code code = mr_status_code(st);
    bool moved = code == MR_CANCELLED && mr_task_peers_moves(q->creation->session->peers, q->task) != q->moves;
    if (!moved && !(code == MR_DEADLINE_EXCEEDED && q->making))
        return st;
    mr_status *told = moved ? mr_error(MR_UNAVAILABLE, "The task was restarted at another address")
                            : mr_error(MR_UNAVAILABLE, "The task does not answer: %s", mr_status_message(st));
    mr_status_free(st);
    return told;
}

/* A call has ended: asks again, or reports the end to dist/session. Drops the call's reference. */
static void task_answered(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    task_call *q = (task_call *)r;
    creation *c = q->creation;
    mr_create_actions a = {0};
    mr_sv bytes;
    MR_ASSERT(q->task >= 0 && q->task < c->n_tasks);
    st = mr_wire_unmark(st);
    if (asks_again(q, st)) {
        mr_status_free(st);
        ask_task(c, q->task, false);
        creation_unref(c);
        return;
    }
    /* Devices are only kept here; gather_devices parses them when all tasks have answered. */
    if (!st && !q->making && !(st = mr_bytes_flat(reply, &bytes)))
        mr_str_append(&c->devices[q->task], bytes.p, bytes.n);
    st = as_unavailable(q, st);
    if (st)
        mr_status_prepend(st, "From %s:\n", mr_task_peers_task(c->session->peers, q->task)->name);
    mr_lock(&c->mu);
    mr_creation_came(&c->state, q->task, st, &a);
    mr_unlock(&c->mu);
    do_actions(c, &a);
    creation_unref(c);
}

/* Tells a task which one it is in the cluster that the client brought.
 *
 * Fields of a ServerDef: 1 cluster, 2 job_name, 3 task_index, 4 default_session_config, 5 protocol. */
static void encode_server_def(const mr_msession *s, const mr_task_address *task, mr_pb_writer *w)
{
    mr_str cluster = {0};
    size_t mark = mr_pb_begin(w, 2);
    mr_cluster_encode(&s->peers->cluster, &cluster);
    mr_pb_put_bytes(w, 1, mr_str_view(&cluster));
    mr_pb_put_bytes(w, 2, mr_sv_of(task->job));
    mr_pb_opt_varint(w, 3, (uint64_t)task->number);
    mr_pb_put_bytes(w, 4, mr_str_view(&s->config_proto));
    mr_pb_put_bytes(w, 5, MR_SV("grpc"));
    mr_pb_end(w, mark);
    mr_str_deinit(&cluster);
}

/* Encodes a CreateWorkerSessionRequest. It carries all devices of the session, and this master's name
 * and incarnation, by which the task knows when the master is restarted.
 *
 * Fields: 1 session_handle, 2 server_def, 3 isolate_session_state, 4 cluster_device_attributes, 5 master_task,
 * 6 master_incarnation. */
static void encode_make(const mr_msession *s, int task, mr_str *out)
{
    mr_pb_writer w;
    MR_ASSERT(s->n_devices > 0);
    mr_pb_writer_init(&w, out);
    mr_pb_put_bytes(&w, 1, mr_sv_of(s->handle));
    if (s->peers->brought)
        encode_server_def(s, mr_task_peers_task(s->peers, task), &w);
    mr_pb_opt_varint(&w, 3, s->isolated);
    for (int i = 0; i < s->n_devices; i++)
        mr_device_attributes_encode(s->devices[i], &w, 4);
    mr_pb_put_bytes(&w, 5, mr_sv_of(mr_task_peers_name(s->peers)));
    mr_pb_put_varint(&w, 6, s->devices[0]->incarnation); /* the first device is this task's */
}

/* Sends GetStatus, or CreateWorkerSession (making). A cancellation that came before the call was
 * started is carried out here. */
static void ask_task(creation *c, int task, bool making)
{
    mr_task_peers *peers = c->session->peers;
    task_call *q = &c->calls[making ? c->n_tasks + task : task];
    mr_str body = {0};
    MR_ASSERT(task >= 0 && task < c->n_tasks);
    if (making)
        encode_make(c->session, task, &body);
    const char *method = making ? MR_WORKER_SERVICE "CreateWorkerSession" : MR_WORKER_SERVICE "GetStatus";
    q->request = (mr_net_request){.method = method,
                                  .deadline_ns = mr_now_ns() + (making ? MAKE_DEADLINE_NS : START_DEADLINE_NS),
                                  .wait_for_ready = q->patient,
                                  .done = task_answered};
    mr_bytes_add_str(&q->request.body, &body);
    q->creation = c;
    q->task = task;
    q->making = making;
    q->moves = mr_task_peers_moves(peers, task);
    mr_refs_take(&c->refs);
    mr_task_peers_ask(peers, task, &q->request);
    mr_lock(&c->mu);
    q->started = true;
    bool cancelled = q->cancelled;
    mr_unlock(&c->mu);
    if (cancelled)
        mr_task_peers_cancel(peers, task, &q->request);
}

/* Cancels the task's call of the current round, or leaves a mark for ask_task. */
static void cancel_task(creation *c, int task)
{
    MR_ASSERT(task >= 0 && task < c->n_tasks);
    mr_lock(&c->mu);
    task_call *q = &c->calls[c->state.making ? c->n_tasks + task : task];
    q->cancelled = true;
    bool started = q->started;
    mr_unlock(&c->mu);
    if (started)
        mr_task_peers_cancel(c->session->peers, task, &q->request);
}

/* Deletes the session at a task, without waiting for the answer. */
static void delete_at(creation *c, int task)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(c->session->handle));
    mr_retries_send(&c->session->master->retries, c->session->peers, task, MR_WORKER_SERVICE "DeleteWorkerSession",
                    &body);
}

/* Between the two rounds: collects the devices and reports how that went. */
static void gather_then_go_on(creation *c)
{
    mr_create_actions a = {0};
    mr_status *st = gather_devices(c);
    if (!st)
        mr_msession_placing_init(c->session);
    mr_lock(&c->mu);
    mr_creation_gathered(&c->state, st, &a);
    mr_unlock(&c->mu);
    do_actions(c, &a);
}

/* ---- logging the tasks that are missing ---- */

/* Logs a line for each missing task, in TensorFlow's words; the first ten are enough. */
static void log_missing(creation *c, mr_str *names, int n, double seconds)
{
    enum { MAX_LINES = 10 };
    for (int i = 0; i < MR_MIN(n, MAX_LINES); i++)
        mr_info("CreateSession still waiting for response from worker: %s, %.0f s", mr_str_z(&names[i]), seconds);
    if (n > MAX_LINES)
        mr_info("CreateSession still waiting for response from %d more of %d workers", n - MAX_LINES, c->n_tasks);
}

/* The timer: logs which tasks are missing and sets itself again. It holds a reference to the creation
 * while it is set, which is dropped by the function that finds the creation answered: this
 * one or stop_telling. */
static void tell_missing(mr_timer *t)
{
    creation *c = (creation *)((char *)t - offsetof(creation, timer));
    mr_master *m = c->session->master;
    mr_str *names = mr_new_array(mr_str, c->n_tasks + 1);
    int n = 0;
    mr_lock(&c->mu);
    for (int i = 0; i < c->n_tasks; i++)
        if (c->state.waiting[i]) {
            if (i == c->session->peers->self)
                mr_str_appendz(&names[n++], mr_task_peers_name(c->session->peers));
            else
                mr_watch_describe(c->session->peers->watch, i, &names[n++]);
        }
    bool over = c->answered;
    if (!over)
        mr_timers_set(m->timers, t, mr_now_ns() + mr_long_wait_period_ns(), tell_missing);
    mr_unlock(&c->mu);
    if (!over)
        log_missing(c, names, n, (double)(mr_now_ns() - c->begun_ns) / 1e9);
    for (int i = 0; i < n; i++)
        mr_str_deinit(&names[i]);
    mr_free(names);
    if (over)
        creation_unref(c);
}

/* Stops the timer. If it is running right now, it sees `answered` and drops the reference itself. */
static void stop_telling(creation *c)
{
    mr_lock(&c->mu);
    c->answered = true;
    mr_unlock(&c->mu);
    if (mr_timers_clear(c->session->master->timers, &c->timer))
        creation_unref(c);
}

/* Answers the client, and on success puts the session into the master's table, which takes over its
 * first reference. The reply comes last: when nobody waits for an answer any more, the server may be
 * freed. */
static void answer_client(creation *c)
{
    mr_msession *s = c->session;
    mr_master *m = s->master;
    mr_net_call *call = c->call;
    mr_str body = {0};
    mr_pb_writer w;
    stop_telling(c);
    mr_lock(&c->mu);
    mr_status *st = mr_creation_result(&c->state);
    MR_ASSERT(c->answered);
    mr_unlock(&c->mu);
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(s->handle));
    /* mr_master_stop closes the sessions in the table; one that comes too late must not be added. */
    mr_lock(&m->mu);
    bool stopped = m->stopped;
    if (!st && !stopped)
        mr_map_putz(&m->sessions, s->handle, s);
    mr_unlock(&m->mu);
    if (!st && stopped)
        st = mr_error(MR_UNAVAILABLE, "The server was stopped");
    if (st) {
        mr_msession_release(s);
        mr_msession_unref(s);
        mr_str_clear(&body);
    }
    creation_unref(c);
    mr_reply_str(call, st, &body);
    mr_str_deinit(&body);
}

/* Carries out the actions, in order. The caller holds a reference to the creation and no lock. */
static void do_actions(creation *c, mr_create_actions *a)
{
    for (int i = 0; i < a->n; i++) {
        int task = a->p[i].task;
        switch (a->p[i].what) {
        case MR_CREATE_ASK: ask_task(c, task, false); break;
        case MR_CREATE_GATHER: gather_then_go_on(c); break;
        case MR_CREATE_MAKE: ask_task(c, task, true); break;
        case MR_CREATE_CANCEL: cancel_task(c, task); break;
        case MR_CREATE_DELETE: delete_at(c, task); break;
        case MR_CREATE_REPLY: answer_client(c); break;
        }
    }
    mr_vec_deinit(a);
}

/* The client cancelled the call. Stopping a creation that has ended does nothing. */
static void client_left(void *arg, mr_net_call *call)
{
    creation *c = arg;
    mr_create_actions a = {0};
    (void)call;
    mr_refs_take(&c->refs);
    mr_lock(&c->mu);
    mr_creation_stop(&c->state, mr_error(MR_CANCELLED, "CreateSession was cancelled"), &a);
    mr_unlock(&c->mu);
    do_actions(c, &a);
    creation_unref(c);
}

/* ---- the request ---- */

/* A CreateSessionRequest; views into its body. */
typedef struct create_request {
    mr_sv graph_def, config, target;
} create_request;

/* Finds which task of a client's cluster this one is: the one at the address that the client has
 * called. */
static mr_status *find_self(const mr_cluster *c, mr_sv target, int *self)
{
    mr_sv address = target;
    *self = -1;
    if (mr_sv_starts(target, "grpc://"))
        address = (mr_sv){target.p + 7, target.n - 7};
    for (int i = 0; i < c->tasks.n; i++) {
        if (!mr_sv_is(address, c->tasks.p[i].address))
            continue;
        if (*self >= 0)
            return mr_invalid("Found multiple matching tasks that correspond to the master. Master target: '%.*s'",
                              MR_SV_ARG(target));
        *self = i;
    }
    if (*self < 0)
        return mr_invalid("The cluster of the session has no task at the target '%.*s'", MR_SV_ARG(target));
    return NULL;
}

/* The session's cluster: the one that the client brings, or the host's. The variables of a brought
 * cluster belong to the session, unless the client wants to share them
 * (share_session_state_in_clusterspec_propagation). */
static mr_status *choose_cluster(mr_msession *s, const create_request *q)
{
    mr_host *h = s->master->host;
    mr_sv bytes = mr_wire_field(q->config, 14); /* ConfigProto.cluster_def */
    mr_cluster c = {0};
    mr_task_peers *p = NULL;
    int self;
    if (bytes.n > MR_BROUGHT_MAX_BYTES)
        return mr_error(MR_RESOURCE_EXHAUSTED, "The cluster_def has %zu bytes; the maximum is %d", bytes.n,
                        MR_BROUGHT_MAX_BYTES);
    mr_status *st = mr_cluster_decode(&c, bytes);
    if (!st && c.tasks.n == 0) {
        mr_msession_set_peers(s, mr_task_peers_ref(h->peers));
    } else if (!st && !(st = find_self(&c, q->target, &self)) && !(st = mr_task_peers_new(h, &c, self, true, &p))) {
        mr_msession_set_peers(s, p);
        s->isolated = !s->config.share_brought;
    }
    mr_cluster_deinit(&c);
    return st;
}

/* Reads the device filters: the session has the tasks that match one of them, and always this task.
 * Without filters it has all tasks. */
static mr_status *choose_members(mr_msession *s, mr_sv config)
{
    const mr_task_peers *p = s->peers;
    mr_pb_reader r;
    uint32_t field, wire;
    int n_filters = 0;
    mr_pb_reader_init(&r, config);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != 4) { /* ConfigProto.device_filters */
            if (field == 15 && wire == MR_WIRE_VARINT)
                s->isolated |= mr_pb_bool(&r);
            else
                mr_pb_skip(&r);
            continue;
        }
        mr_sv text = mr_pb_bytes(&r);
        MR_TRY(mr_task_peers_filter(p, text, s->member));
        n_filters++;
    }
    MR_ASSERT(p->self >= 0 && p->self < p->cluster.tasks.n);
    for (int i = 0; i < p->cluster.tasks.n; i++)
        s->member[i] |= n_filters == 0 || i == p->self;
    return mr_pb_reader_status(&r, "ConfigProto");
}

/* Parses a CreateSessionRequest into the session. On failure the caller drops the session. */
static mr_status *open_session(mr_msession *s, mr_sv body)
{
    mr_pb_reader r;
    uint32_t field, wire;
    create_request q = {MR_SV(""), MR_SV(""), MR_SV("")};
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: q.graph_def = mr_pb_bytes(&r); break;
        case 2: q.config = mr_pb_bytes(&r); break;
        case 3: q.target = mr_pb_bytes(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "CreateSessionRequest"));
    /* As in TensorFlow, the server's own config wins. Two serialized messages, one after the other, are their merge. */
    const mr_str *more = &s->master->host->default_config;
    mr_str_append(&s->config_proto, q.config.p, q.config.n);
    mr_str_append(&s->config_proto, more->p ? more->p : "", more->n);
    mr_session_config own;
    MR_TRY(mr_session_config_parse(q.config, &own));
    q.config = mr_str_view(&s->config_proto);
    MR_TRY(mr_session_config_parse(q.config, &s->config));
    if (own.timeout_ms > 0) /* except for the client's timeout */
        s->config.timeout_ms = own.timeout_ms;
    MR_TRY(choose_cluster(s, &q));
    MR_TRY(choose_members(s, q.config));
    return mr_graph_import(s->graph, q.graph_def, NULL, NULL);
}

/* One reference, which answer_client drops. */
static creation *creation_new(mr_net_call *call, mr_msession *s)
{
    creation *c = mr_new(creation);
    mr_refs_init(&c->refs);
    mr_mutex_init(&c->mu);
    c->call = call;
    c->session = s;
    mr_refs_take(&s->refs); /* a cancellation may still use the session after the answer has dropped it */
    c->n_tasks = s->peers->cluster.tasks.n;
    c->calls = mr_new_array(task_call, 2 * c->n_tasks + 1);
    c->devices = mr_new_array(mr_str, c->n_tasks + 1);
    mr_creation_init(&c->state, c->n_tasks, s->member);
    return c;
}

/* Handles CreateSession, on the pool: importing the graph takes long. */
void mr_master_create_session(void *service, mr_net_call *call, mr_sv body)
{
    mr_create_actions a = {0};
    mr_msession *s = mr_msession_new(service);
    mr_status *st = open_session(s, body);
    if (st) {
        mr_msession_unref(s);
        mr_reply(call, st, NULL);
        return;
    }
    creation *c = creation_new(call, s);
    /* Tasks are watched from the first question on, so that tell_missing can describe those that are missing. */
    mr_msession_hold(s);
    mr_refs_take(&c->refs); /* for this function */
    mr_refs_take(&c->refs); /* for the timer */
    c->begun_ns = mr_now_ns();
    mr_timers_set(s->master->timers, &c->timer, c->begun_ns + mr_long_wait_period_ns(), tell_missing);
    mr_lock(&c->mu);
    mr_creation_begin(&c->state, &a);
    mr_unlock(&c->mu);
    bool here = call->net->on_cancel(call, client_left, c);
    if (!here)
        client_left(c, call);
    do_actions(c, &a);
    creation_unref(c);
}
