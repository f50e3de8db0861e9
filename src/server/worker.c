/* server/worker.c -- the worker service: sessions, registered graphs, and the small methods.
 *
 * A session (mr_wsession) is made by a master's CreateWorkerSession and ends with DeleteWorkerSession,
 * with the loss or restart of the master, or with the server. A graph belongs to a session, and a step
 * to both. dist/session.c keeps the table of sessions; its entries point to ours.
 *
 * The table has one reference to each session, its graphs and steps have others. So a session that has
 * ended is freed only after its last flow has ended; mr_worker_free waits for that (n_sessions). The
 * list `all` holds every session that is not freed, in the table or not.
 *
 *     session   from CreateWorkerSession to DeleteWorkerSession, the loss of its master, or stop; freed with
 *               its last graph, step or object that holds it
 *     graph     from RegisterGraph to DeregisterGraph or its session's end; freed with its last flow
 *     step      from its first message to CleanupGraph or its session's end; freed with its rendezvous
 *
 * Nothing that may call back (ending steps, cancelling, dropping graphs) happens under the worker's
 * lock. A loop that ends several things takes one out under the lock, ends it without, and starts
 * again. */
#include "server/worker.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/trace.h"
#include "graph/graph_def.h"
#include "server/clocks.h"
#include "server/collective.h"
#include "server/worker_internal.h"
#include "wire/pb.h"

/* ---- sessions ---- */

/* Drops a reference without the lock unless it may be the last one; false: the caller must drop it
 * under the lock. */
static bool drop_one_of_many(mr_refs *r)
{
    int32_t n = atomic_load_explicit(&r->n, memory_order_relaxed);
    while (n > 1)
        if (atomic_compare_exchange_weak_explicit(&r->n, &n, n - 1, memory_order_acq_rel, memory_order_relaxed))
            return true;
    return false;
}

/* The last reference is dropped under the worker's lock, because end_held may find the session in the
 * list until then. A thread may drop it after the call that used it was answered, and the worker's
 * owner waits for that, so the count is lowered last, and the lock keeps the worker alive until the
 * signal is sent. */
void mr_wsession_unref(mr_wsession *s)
{
    if (!s || drop_one_of_many(&s->refs))
        return;
    mr_worker_service *w = s->worker;
    mr_lock(&w->mu);
    bool last = mr_refs_drop(&s->refs);
    if (last) {
        MR_ASSERT(s->prev ? s->prev->next == s : w->all == s);
        *(s->prev ? &s->prev->next : &w->all) = s->next;
        if (s->next)
            s->next->prev = s->prev;
    }
    mr_unlock(&w->mu);
    if (!last)
        return;
    /* Nobody can find the session any more. */
    mr_collective_bind(mr_functions_caller(s->env.functions), NULL);
    mr_session_collective_deinit(&s->collective);
    mr_env_deinit(&s->env);
    mr_remote_calls_deinit(&s->remote);
    mr_status_free(s->ended);
    mr_task_peers_unref(s->peers);
    mr_free(s->handle);
    mr_free(s->prefix);
    mr_free(s);
    mr_lock(&w->mu); /* the worker may be freed once this is unlocked */
    MR_ASSERT(atomic_load(&w->n_sessions) > 0);
    atomic_fetch_sub(&w->n_sessions, 1);
    mr_cond_broadcast(&w->session_gone);
    mr_unlock(&w->mu);
}

/* ---- objects that outlive a session ----
 *
 * An iterator, or another object that calls functions, belongs to a device of the host. Other sessions share it by its
 * name, so closing the session that made it does not end it, as in TensorFlow. The functions belong to the session,
 * which is therefore kept until the object is gone or the server stops. */

/* An object that calls the session's functions was made on a device of the host; release_session is the counterpart. */
static void hold_session(void *arg) { mr_refs_take(&((mr_wsession *)arg)->refs); }

/* Runs on the pool: drops the references that release_session has collected. It may run once for
 * several of them. */
static void drop_holds(mr_task *t)
{
    mr_wsession *s = (mr_wsession *)((char *)t - offsetof(mr_wsession, dropping));
    for (int n = atomic_exchange(&s->to_drop, 0); n > 0; n--)
        mr_wsession_unref(s);
}

/* An object that held the session is gone. The pool drops the reference, because the end of a session
 * waits for the session's own threads, and this may be one of them. Without a pool the server has
 * stopped, no step runs any more, and the reference is dropped here. */
static void release_session(void *arg)
{
    mr_wsession *s = arg;
    mr_host *h = s->worker->host;
    mr_lock(&h->mu); /* the pool stays meanwhile */
    bool pooled = h->pool != NULL;
    if (pooled && atomic_fetch_add(&s->to_drop, 1) == 0)
        mr_pool_submit(h->pool, &s->dropping);
    mr_unlock(&h->mu);
    if (!pooled)
        mr_wsession_unref(s);
}

/* Ends the objects of sessions that were closed but are still held, because the server stops. Each
 * session is visited once (held_ended). */
static void end_held(mr_worker_service *w)
{
    for (;;) {
        mr_lock(&w->mu);
        mr_wsession *s = w->all;
        while (s && s->held_ended)
            s = s->next;
        if (s) {
            mr_refs_take(&s->refs);
            s->held_ended = true;
        }
        mr_unlock(&w->mu);
        if (!s)
            return;
        mr_functions_end(s->env.functions);
        mr_wsession_unref(s);
    }
}

/* Lets the devices of a session with a separate cluster use the state of the host's devices, which
 * have other names. */
static void share_state(mr_env *e, const mr_env *host)
{
    for (int i = 0; i < e->n_devices && i < host->n_devices; i++)
        if (e->devices[i]->type == host->devices[i]->type)
            mr_device_share(e->devices[i], host->devices[i]);
}

/* Makes a session that is not in the table yet. Takes the reference to the peers, also on failure. In
 * a cluster that the client brought, devices have other names, so the session has separate devices;
 * they share the host's state unless the session is isolated. Only sessions on the host's devices are
 * held by the objects they leave there. */
static mr_status *wsession_new(mr_worker_service *w, mr_task_peers *p, mr_sv handle, bool isolated, mr_wsession **out)
{
    mr_wsession *s = mr_new(mr_wsession);
    const mr_env *host = &w->host->env;
    bool shares = p->brought && !isolated;
    isolated |= p->brought;
    mr_refs_init(&s->refs);
    s->master = -1;
    s->peers = p;
    s->prefix = mr_printf("%s/", mr_task_peers_name(p));
    s->handle = mr_strndup(handle.p, handle.n);
    mr_remote_calls_init(&s->remote, s);
    mr_status *st = isolated ? mr_env_init(&s->env, &host->config, mr_task_peers_name(p))
                             : mr_env_init_beside(&s->env, &host->config, host);
    /* Peers know this process by one incarnation, whichever devices a session has. */
    for (int i = 0; !st && isolated && i < s->env.n_devices; i++)
        s->env.devices[i]->incarnation = host->devices[i]->incarnation;
    if (!st && shares)
        share_state(&s->env, host);
    if (st) {
        mr_env_deinit(&s->env);
        mr_remote_calls_deinit(&s->remote);
        mr_task_peers_unref(p);
        mr_free(s->handle);
        mr_free(s->prefix);
        mr_free(s);
        s = NULL;
    } else {
        s->worker = w;
        s->env.remote = &s->remote.caller;
        s->dropping.fn = drop_holds;
        if (!isolated) {
            s->env.hold = hold_session;
            s->env.release = release_session;
            s->env.holder = s;
        }
        mr_lock(&w->mu);
        s->next = w->all;
        if (s->next)
            s->next->prev = s;
        w->all = s;
        mr_unlock(&w->mu);
        /* The session's collective ops go over the cluster, not over this task's devices alone. */
        mr_session_collective_init(&s->collective, s);
        mr_collective_bind(mr_functions_caller(s->env.functions), &s->collective.base);
        atomic_fetch_add(&w->n_sessions, 1);
    }
    *out = s;
    return st;
}

/* Finds the session and takes a reference. Old masters do not create worker sessions; theirs has the
 * handle "" and is made when it is first needed. It is made before the lock is taken and dropped if
 * another thread was faster. */
static mr_status *find_session(mr_worker_service *w, mr_sv handle, bool created, mr_wsession **out)
{
    mr_status *st = NULL;
    mr_sv key = created ? handle : MR_SV("");
    mr_wsession *made = NULL;
    if (!created)
        MR_TRY(wsession_new(w, mr_task_peers_ref(w->host->peers), MR_SV(""), false, &made));
    mr_lock(&w->mu);
    mr_worker_session *have = mr_worker_sessions_find(&w->sessions, key);
    mr_wsession *s = have ? have->host : NULL;
    /* The new session of an old master is entered, unless one exists or the worker has stopped. */
    if (!s && made && !(st = mr_status_copy(w->stopped)) &&
        !(st = mr_worker_sessions_add(&w->sessions, key, MR_SV(""), 0, &have))) {
        have->host = s = made;
        made = NULL;
    }
    if (s)
        mr_refs_take(&s->refs);
    mr_unlock(&w->mu);
    mr_wsession_unref(made);
    *out = s;
    if (s || st)
        return st;
    return mr_error(MR_ABORTED, "Session handle is not found: %.*s. Possibly %s was restarted.", MR_SV_ARG(handle),
                    mr_host_name(w->host));
}

typedef MR_VEC(mr_wgraph *) wgraph_vec;

/* Takes the graphs of a session (NULL: all graphs) out of the table. The caller drops them without the
 * lock. */
static void take_graphs_locked(mr_worker_service *w, const mr_wsession *s, wgraph_vec *out)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    MR_VEC(char *) keys = {0};
    while (mr_map_next(&w->graphs, &pos, &key, &v))
        if (!s || ((mr_wgraph *)v)->session == s) {
            mr_vec_push(out, v);
            mr_vec_push(&keys, mr_strndup(key.p, key.n));
        }
    for (int i = 0; i < keys.n; i++) {
        mr_map_remove(&w->graphs, mr_sv_of(keys.p[i]));
        mr_free(keys.p[i]);
    }
    mr_vec_deinit(&keys);
}

/* Without the lock: dropping a graph may free its session. */
static void drop_graphs(wgraph_vec *v)
{
    for (int i = 0; i < v->n; i++)
        mr_wgraph_unref(v->p[i]);
    mr_vec_deinit(v);
}

/* The value of field 1 of a request, as a view into its body; "" if it is missing. */
static mr_sv first_string(mr_sv body, const char *what, mr_status **st)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv v = MR_SV("");
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1)
            v = mr_pb_bytes(&r);
        else
            mr_pb_skip(&r);
    *st = mr_pb_reader_status(&r, what);
    return v;
}

/* Ends the steps of a session (NULL: all steps), one at a time, since ending one completes its calls. */
static void end_steps(mr_worker_service *w, const mr_wsession *owner, const mr_status *why)
{
    for (;;) {
        mr_lock(&w->mu);
        mr_worker_step *s = mr_worker_steps_any(w->steps, owner);
        int64_t id = s ? s->id : 0;
        mr_unlock(&w->mu);
        if (!s)
            return;
        mr_worker_run_end(w, id, mr_status_copy(why));
    }
}

static void free_unused(mr_worker_service *w);

/* Ends a session: its steps, graphs and objects that only its own kernels use. Takes why.
 * dist/session.c remembers the handle even if there is no such session, so that a CreateWorkerSession
 * that arrives late is refused. May be called from inside a cancellation, where graphs cannot be
 * freed. */
static void end_session(mr_worker_service *w, mr_sv handle, mr_status *why)
{
    wgraph_vec graphs = {0};
    mr_lock(&w->mu);
    mr_wsession *s = mr_worker_sessions_end(&w->sessions, handle);
    if (s) {
        take_graphs_locked(w, s, &graphs);
        s->ended = mr_status_copy(why);
    }
    mr_unlock(&w->mu);
    if (!s) {
        mr_status_free(why);
        return;
    }
    MR_ASSERT(s->worker == w);
    /* The order: cancel what runs, end what waits, leave the groups of collective ops, then drop the graphs. */
    mr_watch_release(s->peers->watch, s->master);
    mr_cancel_start(s->env.cancel);
    end_steps(w, s, why); /* those whose CleanupGraph has not arrived */
    mr_collectives_session_closed(w->collectives, s);
    mr_status_free(why);
    drop_graphs(&graphs);
    if (s->env.holder) /* objects that only its kernels use end here; others may hold the session */
        mr_kernel_cache_clear(s->env.kernels);
    mr_wsession_unref(s);
    if (!mr_cancel_in_callback())
        free_unused(w);
}

/* Handles DeleteWorkerSession, on the pool: ending a session takes long. */
static void delete_session(void *service, mr_net_call *c, mr_sv body)
{
    mr_status *st;
    mr_sv handle = first_string(body, "DeleteWorkerSessionRequest", &st);
    if (!st)
        end_session(service, handle, mr_error(MR_CANCELLED, "The session was deleted"));
    mr_reply(c, st, NULL);
}

/* A CreateWorkerSessionRequest; views into its body. */
typedef struct create_request {
    mr_sv handle, master, server_def;
    uint64_t incarnation; /* of the master */
    bool isolated;
    MR_VEC(mr_sv) devices; /* DeviceAttributes */
} create_request;

/* Parses a CreateWorkerSessionRequest. The strings are views into the body; the caller frees q->devices, also on
 * failure. */
static mr_status *parse_create(mr_sv body, create_request *q)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire)) {
        mr_sv v = MR_SV("");
        if (wire == MR_WIRE_BYTES && field <= 5)
            v = mr_pb_bytes(&r);
        switch (field) {
        case 1: q->handle = v; break;
        case 2: q->server_def = v; break;
        case 3: q->isolated = mr_pb_bool(&r); break;
        case 4: mr_vec_push(&q->devices, v); break;
        case 5: q->master = v; break;
        case 6: q->incarnation = (uint64_t)mr_pb_int64(&r); break;
        default: mr_pb_skip(&r);
        }
    }
    return mr_pb_reader_status(&r, "CreateWorkerSessionRequest");
}

/* Adds a device to those that the session's functions may be called on. The master says which
 * incarnation of this task it means: if the task was restarted since the master asked it, the session
 * is refused. */
static mr_status *take_device(mr_wsession *s, mr_sv attributes)
{
    mr_device *d = NULL;
    MR_TRY(mr_device_attributes_decode(attributes, &d));
    bool other = false;
    for (int i = 0; d && i < s->env.n_devices; i++)
        other |= strcmp(d->name, s->env.devices[i]->name) == 0 && d->incarnation != s->env.devices[i]->incarnation;
    if (d)
        mr_remote_calls_add_device(&s->remote, d);
    mr_device_free(d);
    return other ? mr_error(MR_ABORTED, "%s was restarted", mr_task_peers_name(s->peers)) : NULL;
}

/* The session's cluster and this task's place in it: the host's, unless the request brings another
 * one. */
static mr_status *choose_cluster(mr_worker_service *w, const create_request *q, mr_task_peers **out)
{
    mr_server_def def;
    *out = NULL;
    if (!q->server_def.n) {
        *out = mr_task_peers_ref(w->host->peers);
        return NULL;
    }
    if (q->server_def.n > 2 * MR_BROUGHT_MAX_BYTES) /* the cluster, and as much for its ConfigProto */
        return mr_error(MR_RESOURCE_EXHAUSTED, "The server_def has %zu bytes; the maximum is %d", q->server_def.n,
                        2 * MR_BROUGHT_MAX_BYTES);
    MR_TRY(mr_server_def_decode(q->server_def, &def));
    int self = mr_cluster_find(&def.cluster, mr_sv_of(def.job), def.task);
    mr_status *st = mr_task_peers_new(w->host, &def.cluster, self, true, out);
    mr_server_def_deinit(&def);
    return st;
}

/* Ends the sessions of earlier incarnations of this master: nobody else would delete them. */
static void end_orphans(mr_worker_service *w, mr_sv master, uint64_t incarnation)
{
    for (;;) {
        mr_lock(&w->mu);
        mr_worker_session *s = mr_worker_sessions_left_by(&w->sessions, &master, incarnation);
        char *handle = s ? mr_strdup(s->handle) : NULL;
        mr_unlock(&w->mu);
        if (!handle)
            return;
        end_session(w, mr_sv_of(handle), mr_error(MR_ABORTED, "The master was restarted"));
        mr_free(handle);
    }
}

/* Puts the session into the table and watches its master. Takes the reference to s, also on failure. A
 * request of an incarnation that is known to have ended arrived late and is refused. */
static mr_status *add_session(mr_worker_service *w, const create_request *q, mr_wsession *s)
{
    mr_worker_session *entry;
    int master = mr_cluster_find_named(&s->peers->cluster, q->master);
    /* In a cluster that was brought, the master's name is valid in this session only, so its address identifies it. */
    mr_sv name = s->peers->brought && master >= 0 ? mr_sv_of(mr_task_peers_task(s->peers, master)->address) : q->master;
    /* The request itself shows that the master's earlier incarnations have ended. */
    if (name.n && q->incarnation)
        end_orphans(w, name, q->incarnation);
    mr_watch_heard(s->peers->watch, master, q->incarnation);
    mr_status *st = mr_watch_why(s->peers->watch, master, q->incarnation);
    mr_lock(&w->mu);
    if (!st)
        st = mr_status_copy(w->stopped);
    if (!st && !(st = mr_worker_sessions_add(&w->sessions, q->handle, name, q->incarnation, &entry))) {
        entry->host = s;
        s->master = q->incarnation ? master : -1;
        mr_watch_hold(s->peers->watch, s->master);
        s = NULL;
    }
    mr_unlock(&w->mu);
    mr_wsession_unref(s);
    return st;
}

/* A new session of a master ends the sessions of the master's earlier incarnations, so only the master
 * itself may make one. With certificates (peer is not ""), the peer's certificate must name the
 * master. In a cluster that was brought tasks have other names, so nothing can be checked. */
static mr_status *check_master(const mr_worker_service *w, const create_request *q, const char *peer)
{
    const mr_task_peers *p = w->host->peers;
    int task = mr_cluster_find_named(&p->cluster, q->master);
    if (!peer[0] || task < 0 || q->server_def.n)
        return NULL;
    char *name = mr_printf("%s/%d", mr_task_peers_task(p, task)->job, mr_task_peers_task(p, task)->number);
    bool itself = strcmp(name, peer) == 0;
    mr_free(name);
    return itself ? NULL
                  : mr_error(MR_PERMISSION_DENIED, "The certificate names %s, but the request says it is from %.*s",
                             peer, MR_SV_ARG(q->master));
}

/* Handles a CreateWorkerSessionRequest; `peer` is the name in the caller's certificate, or "". */
static mr_status *open_session(mr_worker_service *w, mr_sv body, const char *peer)
{
    create_request q = {.handle = MR_SV(""), .master = MR_SV(""), .server_def = MR_SV("")};
    mr_wsession *s = NULL;
    mr_task_peers *p = NULL;
    mr_status *st = NULL;
    MR_GO(parse_create(body, &q));
    MR_GO(check_master(w, &q, peer));
    MR_GO(choose_cluster(w, &q, &p));
    MR_GO(wsession_new(w, p, q.handle, q.isolated, &s));
    for (int i = 0; i < q.devices.n; i++)
        MR_GO(take_device(s, q.devices.p[i]));
    st = add_session(w, &q, s);
    s = NULL;
out:
    mr_wsession_unref(s);
    mr_vec_deinit(&q.devices);
    return st;
}

/* Finds a session whose master's incarnation has ended, or returns NULL. */
static const mr_worker_session *orphan_locked(mr_worker_service *w, const mr_task_peers *p, int task)
    MR_REQUIRES(w->mu);
static const mr_worker_session *orphan_locked(mr_worker_service *w, const mr_task_peers *p, int task)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(&w->sessions.by_handle, &pos, &key, &v)) {
        const mr_worker_session *s = v;
        const mr_wsession *host = s->host;
        if (host && host->peers == p && host->master == task && mr_watch_ended(p->watch, task, s->incarnation))
            return s;
    }
    return NULL;
}

/* Handles CreateWorkerSession, on the pool: making devices and threads takes long. */
static void create_session(void *service, mr_net_call *c, mr_sv body)
{
    mr_reply(c, open_session(service, body, c->peer_name), NULL);
}

/* Ends the sessions of a lost master. The master is not told; if it comes back, its next call is
 * refused. */
static void end_sessions_of(mr_worker_service *w, const mr_task_peers *p, int task)
{
    for (;;) {
        mr_lock(&w->mu);
        const mr_worker_session *s = orphan_locked(w, p, task);
        char *handle = s ? mr_strdup(s->handle) : NULL;
        mr_status *why = s ? mr_watch_why(p->watch, task, s->incarnation) : NULL;
        mr_unlock(&w->mu);
        if (!handle)
            return;
        end_session(w, mr_sv_of(handle), why ? why : mr_error(MR_ABORTED, "The master was lost"));
        mr_free(handle);
    }
}

/* Ends what relies on an incarnation of a task that has ended: sessions of that master, receives, function calls and
 * collective ops. On a thread of the pool. */
void mr_worker_lost(mr_worker_service *w, const mr_task_peers *p, int task)
{
    end_sessions_of(w, p, task);
    mr_worker_runs_lost(w, p, task);
    mr_remote_calls_lost(w, p, task);
    mr_collectives_lost(w->collectives, p, task);
}

/* ---- graphs ---- */

/* Frees the program, which waits for a cancellation that is under way. */
static void wgraph_free(mr_wgraph *g)
{
    mr_program_free(g->program);
    mr_wsession_unref(g->session);
    mr_free(g);
}

/* A flow may end while it is cancelled, and a graph cannot be freed inside a cancellation, because
 * freeing it waits for the cancellation to end. Such a graph is put aside in `unused`. */
void mr_wgraph_unref(mr_wgraph *g)
{
    if (!g || !mr_refs_drop(&g->refs))
        return;
    if (!mr_cancel_in_callback()) {
        wgraph_free(g);
        return;
    }
    mr_worker_service *w = g->session->worker;
    mr_lock(&w->mu);
    g->next = w->unused;
    w->unused = g;
    mr_cond_broadcast(&w->session_gone);
    mr_unlock(&w->mu);
}

/* Frees the graphs that were put aside. Must not be called inside a cancellation. */
static void free_unused(mr_worker_service *w)
{
    MR_ASSERT(!mr_cancel_in_callback());
    mr_lock(&w->mu);
    mr_wgraph *all = w->unused;
    w->unused = NULL;
    mr_unlock(&w->mu);
    for (mr_wgraph *next; all; all = next) {
        next = all->next;
        wgraph_free(all);
    }
}

/* The session is checked because handles of graphs are counted from 0 in each incarnation of a task: a master that
 * does not know of a restart could otherwise run another master's graph. */
mr_status *mr_wgraph_find(mr_worker_service *w, mr_sv handle, const mr_sv *session, mr_wgraph **out)
{
    mr_lock(&w->mu);
    mr_wgraph *g = mr_map_get(&w->graphs, handle);
    mr_worker_session *s = session ? mr_worker_sessions_find(&w->sessions, *session) : NULL;
    if (g && session && (!s || s->host != g->session))
        g = NULL;
    if (g)
        mr_refs_take(&g->refs);
    mr_status *stopped = g ? NULL : mr_status_copy(w->stopped); /* a stopped worker has no graphs */
    mr_unlock(&w->mu);
    *out = g;
    if (g || stopped)
        return stopped;
    return mr_error(MR_ABORTED, "Graph handle is not found: %.*s. Possibly, %s was restarted.", MR_SV_ARG(handle),
                    mr_host_name(w->host));
}

/* Places each node on the device that the master chose for it, which must be one of ours, by its full
 * name. */
static mr_status *place_nodes(const mr_env *env, mr_graph *g)
{
    for (int i = 0; i < g->nodes.n; i++) {
        mr_node *n = g->nodes.p[i];
        for (int d = 0; n && !n->placed && d < env->n_devices; d++)
            if (strcmp(env->devices[d]->name, n->device) == 0)
                n->placed = env->devices[d]->name;
        if (n && !n->placed)
            return mr_invalid("{{node %s}} is placed on '%s', which is not a device of this task", n->name, n->device);
    }
    return NULL;
}

/* Makes the program of a registered GraphDef. The master has already cut the graph by task; here nodes
 * are fused, and it is cut by device. */
static mr_status *make_program(mr_env *env, mr_sv graph_def, mr_program **out)
{
    mr_status *st = NULL;
    mr_graph *g = mr_graph_new();
    mr_graph **parts = mr_new_array(mr_graph *, env->n_devices);
    const mr_import_options import = {.internal_ok = true, .no_validate_colocation = true};
    MR_GO(mr_graph_import(g, graph_def, &import, NULL));
    MR_GO(place_nodes(env, g));
    mr_prepare_options o = mr_env_prepare_options(env);
    o.schedule = MR_SCHEDULE_NONE; /* the master has scheduled it */
    MR_GO(mr_fuse(g, &o));
    MR_GO(mr_partition(g, &o, parts));
    MR_GO(mr_program_new(parts, env->devices, env->n_devices, 0, 0, env->kernels,
                         mr_functions_caller(env->functions), out));
out:
    mr_free(parts);
    mr_graph_unref(g);
    return st;
}

/* A RegisterGraphRequest; views into its body. created: the master has made a session before. */
typedef struct register_request {
    mr_sv session, graph_def, config;
    bool created;
} register_request;

/* Parses a RegisterGraphRequest. The strings are views into the body. */
static mr_status *parse_register(mr_sv body, register_request *q)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *q = (register_request){0};
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: q->session = mr_pb_bytes(&r); break;
        case 2: q->graph_def = mr_pb_bytes(&r); break;
        case 6: q->created = mr_pb_bool(&r); break;
        case 8: q->config = mr_pb_bytes(&r); break;
        default: mr_pb_skip(&r);
        }
    return mr_pb_reader_status(&r, "RegisterGraphRequest");
}

/* Puts a graph into the table and writes its handle. Takes the references to the session and the
 * program, also on failure. */
static mr_status *add_graph(mr_worker_service *w, mr_wsession *s, mr_program *p, char handle[17])
{
    mr_wgraph *g = mr_new(mr_wgraph);
    mr_refs_init(&g->refs);
    g->session = s;
    g->program = p;
    mr_lock(&w->mu);
    mr_status *st = mr_status_copy(w->stopped);
    snprintf(handle, 17, "%016" PRIx64, w->next_graph++);
    if (!st)
        mr_map_putz(&w->graphs, handle, g);
    mr_unlock(&w->mu);
    if (st)
        mr_wgraph_unref(g);
    return st;
}

/* Handles RegisterGraph, on the pool, because compiling a program takes long. Also a good place to
 * free unused graphs: this thread is not inside a cancellation. */
static void register_graph(void *service, mr_net_call *c, mr_sv body)
{
    mr_worker_service *w = service;
    register_request q;
    mr_wsession *s = NULL;
    mr_program *p = NULL;
    char handle[17];
    mr_str reply = {0};
    mr_pb_writer out;
    free_unused(w);
    mr_status *st = parse_register(body, &q);
    if (!st)
        st = find_session(w, q.session, q.created, &s);
    if (!st)
        st = mr_session_collective_configure(&s->collective, q.config);
    if (!st)
        st = make_program(&s->env, q.graph_def, &p);
    /* The graph takes over the reference to the session; without a graph it is dropped here. */
    if (!st)
        st = add_graph(w, s, p, handle);
    else
        mr_wsession_unref(s);
    mr_pb_writer_init(&out, &reply);
    if (!st)
        mr_pb_put_bytes(&out, 1, mr_sv_of(handle));
    mr_reply_str(c, st, &reply);
}

/* A DeregisterGraphRequest; views into its body. */
typedef struct deregister_request {
    mr_sv graph, session;
    bool created;
} deregister_request;

/* Parses a DeregisterGraphRequest. The strings are views into the body. */
static mr_status *parse_deregister(mr_sv body, deregister_request *q)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *q = (deregister_request){0};
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: q->graph = mr_pb_bytes(&r); break;
        case 2: q->session = mr_pb_bytes(&r); break;
        case 3: q->created = mr_pb_bool(&r); break;
        default: mr_pb_skip(&r);
        }
    return mr_pb_reader_status(&r, "DeregisterGraphRequest");
}

/* Handles DeregisterGraph. Steps that run the graph keep it until they end. */
static void deregister_graph(void *service, mr_net_call *c, mr_sv body)
{
    mr_worker_service *w = service;
    deregister_request q;
    mr_wgraph *g = NULL;
    mr_status *st = parse_deregister(body, &q);
    if (!st)
        st = mr_wgraph_find(w, q.graph, q.created ? &q.session : NULL, &g);
    if (!st) {
        mr_lock(&w->mu);
        bool mine = mr_map_get(&w->graphs, q.graph) == g; /* else another thread has removed it */
        if (mine)
            mr_map_remove(&w->graphs, q.graph);
        mr_unlock(&w->mu);
        if (mine)
            mr_wgraph_unref(g); /* the table's */
    }
    mr_wgraph_unref(g);
    mr_reply(c, st, NULL);
}

/* ---- the rest ---- */

/* Handles GetStatus: our devices, or, if the request asks for it, our clock (clocks.h). The time is
 * read first, because the caller computes with it. */
static void get_status(void *service, mr_net_call *c, mr_sv body)
{
    mr_worker_service *w = service;
    mr_str reply = {0};
    mr_pb_writer out;
    int64_t received = mr_trace_clock_ns();
    bool clock = mr_clock_is_asked(body);
    mr_pb_writer_init(&out, &reply);
    if (clock)
        mr_clock_answer(received, w->skew_ns, &out);
    for (int i = 0; !clock && i < w->host->env.n_devices; i++)
        mr_device_attributes_encode(w->host->env.devices[i], &out, 1);
    mr_reply_str(c, NULL, &reply);
}

/* Handles CleanupAll: clears the named resource containers of all devices; no name means the default
 * container. */
static void cleanup_all(void *service, mr_net_call *c, mr_sv body)
{
    mr_worker_service *w = service;
    mr_pb_reader r;
    uint32_t field, wire;
    int n = 0;
    const mr_env *env = &w->host->env;
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != 1) {
            mr_pb_skip(&r);
            continue;
        }
        mr_sv container = mr_pb_bytes(&r);
        for (int d = 0; d < env->n_devices; d++)
            mr_resources_clear(env->devices[d]->resources, container);
        n++;
    }
    for (int d = 0; n == 0 && d < env->n_devices; d++) /* the default container */
        mr_resources_clear(env->devices[d]->resources, MR_SV(""));
    mr_reply(c, mr_pb_reader_status(&r, "CleanupAllRequest"), NULL);
}

/* Handles Logging: turns the recording of transfers on or off, or returns what was recorded. */
static void handle_logging(void *service, mr_net_call *c, mr_sv body)
{
    mr_worker_service *w = service;
    mr_str reply = {0};
    mr_status *st = mr_transfers_answer(&w->transfers, body, &reply);
    mr_reply_str(c, st, &reply);
    mr_str_deinit(&reply);
}

/* As in TensorFlow, whose workers have no profiler: a step's stats come with its answer
 * (ExecutorOpts). */
static void handle_tracing(void *service, mr_net_call *c, mr_sv body)
{
    (void)service, (void)body;
    mr_reply(c, mr_error(MR_UNIMPLEMENTED, "Tracing is not supported; set RunOptions.trace_level for a step's stats"),
             NULL);
}

/* Handles MarkRecvFinished. We do not keep replies for a repeated request, so there is nothing to
 * release. */
static void handle_mark_recv_finished(void *service, mr_net_call *c, mr_sv body)
{
    (void)service, (void)body;
    mr_reply(c, NULL, NULL);
}

/* The methods of collective ops belong to mr_collectives; these functions only have the type of a handler. */
static void complete_group(void *service, mr_net_call *c, mr_sv body)
{
    mr_collectives_complete_group(((mr_worker_service *)service)->collectives, c, body);
}

static void complete_instance(void *service, mr_net_call *c, mr_sv body)
{
    mr_collectives_complete_instance(((mr_worker_service *)service)->collectives, c, body);
}

static void abort_collective(void *service, mr_net_call *c, mr_sv body)
{
    mr_collectives_abort(((mr_worker_service *)service)->collectives, c, body);
}

static void join_collective(void *service, mr_net_call *c, mr_sv body)
{
    mr_collectives_join(((mr_worker_service *)service)->collectives, c, body);
}

static void get_step_sequence(void *service, mr_net_call *c, mr_sv body)
{
    mr_collectives_get_step_sequence(((mr_worker_service *)service)->collectives, c, body);
}

/* Handles RecvBuf: the key decides whether it asks for a piece of a collective or for a value of a step. */
static void recv_buf(void *service, mr_net_call *c, mr_sv body)
{
    if (!mr_collectives_recv_buf(((mr_worker_service *)service)->collectives, c, body))
        mr_worker_recv_buf(service, c, body);
}

static const mr_method methods[] = {
    {"RunGraph", mr_worker_handle_run_graph},
    {"RecvTensor", mr_worker_recv_tensor},
    {"RecvBuf", recv_buf},
    {"CompleteGroup", complete_group},
    {"CompleteInstance", complete_instance},
    {"AbortCollective", abort_collective}, /* not in TensorFlow, like the next one */
    {"JoinCollective", join_collective},
    {"GetStepSequence", get_step_sequence},
    {"CleanupGraph", mr_worker_cleanup_graph},
    {"GetStatus", get_status},
    {"CreateWorkerSession", create_session, true},
    {"DeleteWorkerSession", delete_session, true},
    {"RegisterGraph", register_graph, true},
    {"DeregisterGraph", deregister_graph},
    {"CleanupAll", cleanup_all},
    {"Logging", handle_logging},
    {"Tracing", handle_tracing},
    {"MarkRecvFinished", handle_mark_recv_finished},
};

mr_collectives *mr_worker_collectives(mr_worker_service *w) { return w->collectives; }

void mr_worker_handle(mr_worker_service *w, mr_net_call *c)
{
    mr_dispatch(w->host, methods, MR_COUNT(methods), MR_WORKER_SERVICE, w, c);
}

/* ---- making, stopping and freeing ---- */

/* The host's timers and devices exist already. The worker is ready for calls when this returns. */
mr_worker_service *mr_worker_new(mr_host *h)
{
    mr_worker_service *w = mr_new(mr_worker_service);
    mr_mutex_init(&w->mu);
    mr_mutex_init(&w->calls_mu);
    mr_cond_init(&w->session_gone);
    w->host = h;
    mr_retries_init(&w->retries, h->timers);
    w->steps = mr_worker_steps_new();
    w->skew_ns = mr_clock_skew_ns(mr_host_name(h));
    mr_transfers_init(&w->transfers);
    w->collectives = mr_collectives_new(w);
    /* Request ids must differ from those of other tasks and of earlier incarnations of this one. */
    atomic_init(&w->next_request, mr_random64() | 1);
    return w;
}

/* Ends all steps and sessions with `why`; later calls are refused with it. Does not wait for flows to
 * come to rest. */
void mr_worker_stop(mr_worker_service *w, const mr_status *why)
{
    wgraph_vec graphs = {0};
    mr_retries_hurry(&w->retries);
    mr_lock(&w->mu);
    if (!w->stopped)
        w->stopped = mr_status_copy(why);
    take_graphs_locked(w, NULL, &graphs);
    mr_unlock(&w->mu);
    mr_collectives_stop(w->collectives, why);
    end_steps(w, NULL, why);
    /* Sessions are taken out one at a time: cancelling one may end flows in this thread. */
    for (;;) {
        mr_lock(&w->mu);
        mr_worker_session *any = mr_worker_sessions_left_by(&w->sessions, NULL, 0);
        mr_wsession *s = any ? mr_worker_sessions_end(&w->sessions, mr_sv_of(any->handle)) : NULL;
        mr_unlock(&w->mu);
        if (!s)
            break;
        mr_watch_release(s->peers->watch, s->master);
        mr_cancel_start(s->env.cancel);
        mr_wsession_unref(s);
    }
    drop_graphs(&graphs);
    end_held(w);
}

/* Waits until all sessions are freed. A call is answered a little before its flow has come to rest,
 * and a flow uses the devices of its session. Graphs that were put aside hold sessions too, so they
 * are freed meanwhile. */
static void wait_for_sessions(mr_worker_service *w)
{
    mr_lock(&w->mu);
    while (atomic_load(&w->n_sessions) > 0) {
        if (!w->unused)
            mr_cond_wait(&w->session_gone, &w->mu);
        mr_unlock(&w->mu);
        free_unused(w);
        mr_lock(&w->mu);
    }
    mr_unlock(&w->mu);
}

/* The transports are stopped, so no call arrives; flows may still run. The order matters: sessions use the
 * collectives and the retries until they are freed. */
void mr_worker_free(mr_worker_service *w)
{
    if (!w)
        return;
    mr_status *why = mr_error(MR_CANCELLED, "The server was stopped");
    mr_worker_stop(w, why);
    mr_status_free(why);
    wait_for_sessions(w);
    MR_ASSERT(!w->all && !w->unused && !w->calls);
    mr_retries_drop(&w->retries);
    mr_retries_deinit(&w->retries);
    mr_collectives_free(w->collectives);
    mr_worker_steps_free(w->steps);
    mr_transfers_deinit(&w->transfers);
    mr_worker_sessions_deinit(&w->sessions);
    mr_map_deinit(&w->graphs);
    mr_status_free(w->stopped);
    mr_cond_deinit(&w->session_gone);
    mr_mutex_deinit(&w->calls_mu);
    mr_mutex_deinit(&w->mu);
    mr_free(w);
}
