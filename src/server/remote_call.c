/* server/remote_call.c -- calls of functions on devices of other tasks.
 *
 * A call makes two requests at most: RegisterGraph, unless an earlier call of the node has done that,
 * and RunGraph. Each call that finds nothing registered registers by itself, so that none depends on
 * another one, whose step may be cancelled; the handle that arrives second is deregistered. No thread
 * waits.
 *
 *     start_call -> RegisterGraph -> graph_registered -> RunGraph -> graph_ran -> finish_call -> CleanupGraph
 *
 * Ending a call: when its step is cancelled or its task is lost, `ended` is set and the request under
 * way is cancelled. The end of that request is always the end of the call, and has the reason.
 * A call is in the worker's list from listen_for_end to finish_call, and holds a reference to its session. */
#include "server/remote_call.h"

#include "base/memory.h"
#include "server/wire.h"
#include "server/worker_internal.h"

/* A function's graph that is registered at another task. */
typedef struct registered {
    mr_graph *graph; /* the node's; the reference keeps its address, which is in the key, from being reused */
    char *handle;
} registered;

/* One of the call's two requests. */
typedef struct ask {
    mr_net_request request; /* first */
    mr_wcall *call;
    bool started; /* under the worker's calls_mu; a request can be cancelled only once it is started */
} ask;

/* A call of a function at another task, from start_call to finish_call. */
struct mr_wcall {
    mr_refs refs; /* one until it is finished, and one for each thread that ends it */
    mr_wsession *session; /* a reference */
    const mr_remote_device *on;
    mr_str key; /* of what is registered */
    mr_graph *graph;
    ask registering, running;
    char *handle;
    int64_t step; /* 0: not begun */
    int depth;
    /* The caller's, until done is called: */
    mr_tensor *const *args;
    mr_tensor **rets;
    int n_args, n_rets;
    void (*done)(void *ctx, mr_status *st);
    void *ctx;
    mr_cancel *cancel;
    mr_cancel_entry on_cancel;
    bool listens; /* on_cancel is registered */
    /* Under the worker's calls_mu: */
    bool ended;      /* it shall end */
    bool cancelled;  /* because its step was cancelled */
    mr_status *lost; /* why, if its task is lost */
    mr_wcall *next, **link; /* of the worker's */
};

/* ---- devices ---- */

/* Devices of this task are left out: their functions are called without a request. */
void mr_remote_calls_add_device(mr_remote_calls *c, const mr_device *d)
{
    const mr_task_peers *p = c->session->peers;
    int task = mr_cluster_find_named(&p->cluster, mr_sv_of(d->name));
    if (task >= 0 && task != p->self)
        mr_vec_push(&c->devices, ((mr_remote_device){mr_strdup(d->name), task, d->incarnation}));
}

/* Finds the session's device that matches the name, which may be partial. */
static mr_status *find_device(const mr_remote_calls *c, mr_sv name, const mr_remote_device **out)
{
    mr_device_name asked, full;
    if (!mr_device_name_parse(name, &asked))
        return mr_invalid("Malformed device specification '%.*s'", MR_SV_ARG(name));
    for (int i = 0; i < c->devices.n; i++)
        if (mr_device_name_parse(mr_sv_of(c->devices.p[i].name), &full) && mr_device_name_matches(&asked, &full)) {
            *out = &c->devices.p[i];
            return NULL;
        }
    return mr_invalid("The session has no device '%.*s' to run a function on", MR_SV_ARG(name));
}

/* ---- references, the list and the end of a call ---- */

/* The call has finished. Its session may be freed with it. */
static void call_unref(mr_wcall *c)
{
    if (!mr_refs_drop(&c->refs))
        return;
    mr_bytes_deinit(&c->registering.request.body); /* if it was not sent */
    mr_bytes_deinit(&c->running.request.body);
    mr_str_deinit(&c->key);
    mr_graph_unref(c->graph);
    mr_free(c->handle);
    mr_status_free(c->lost);
    mr_wsession_unref(c->session);
    mr_free(c);
}

/* From now on mr_remote_calls_lost finds the call. */
static void enlist_call(mr_wcall *c)
{
    mr_worker_service *w = c->session->worker;
    mr_lock(&w->calls_mu);
    c->next = w->calls;
    c->link = &w->calls;
    if (c->next)
        c->next->link = &c->next;
    w->calls = c;
    mr_unlock(&w->calls_mu);
}

/* Takes the call out of the list and returns what it ends with: st (taken), or why its task is lost.
 * An error that follows from the end of the step is marked as derived. */
static mr_status *delist_call(mr_wcall *c, mr_status *st)
{
    mr_worker_service *w = c->session->worker;
    mr_lock(&w->calls_mu);
    MR_ASSERT(*c->link == c);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    bool cancelled = c->cancelled;
    if (st && c->lost && !cancelled) {
        mr_status_free(st);
        st = c->lost;
        c->lost = NULL;
    }
    mr_unlock(&w->calls_mu);
    return cancelled ? mr_status_mark_derived(st) : st;
}

/* Sends CleanupGraph for the call's step, without waiting for the answer. */
static void clean_up(mr_wcall *c)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_varint(&w, 1, (uint64_t)c->step);
    mr_retries_send(&c->session->worker->retries, c->session->peers, c->on->task, MR_WORKER_SERVICE "CleanupGraph",
                    &body);
}

/* Ends the call, once. Takes st and the call's own reference. `done` is called last, because the
 * session may be freed then. */
static void finish_call(mr_wcall *c, mr_status *st)
{
    void (*done)(void *ctx, mr_status *st) = c->done;
    void *ctx = c->ctx;
    if (c->listens)
        mr_cancel_unregister(c->cancel, &c->on_cancel);
    st = delist_call(c, st);
    if (st && strncmp(mr_status_message(st), "From ", 5) != 0) /* of nested calls, the innermost task is named */
        mr_status_prepend(st, "From %s:\n", mr_task_peers_task(c->session->peers, c->on->task)->name);
    if (c->step)
        clean_up(c);
    mr_watch_release(c->session->peers->watch, c->on->task);
    call_unref(c);
    done(ctx, st);
}

/* ---- ending it ---- */

/* Makes the call end. Cancelling may finish it in this thread, so the lock is not held then. The
 * caller has a reference. */
static void end_call(mr_wcall *c)
{
    mr_worker_service *w = c->session->worker;
    ask *all[] = {&c->registering, &c->running};
    for (int i = 0; i < MR_COUNT(all); i++) {
        mr_lock(&w->calls_mu);
        c->ended = true;
        bool started = all[i]->started;
        mr_unlock(&w->calls_mu);
        if (started)
            mr_task_peers_cancel(c->session->peers, c->on->task, &all[i]->request);
    }
}

/* The step that makes the call was cancelled. */
static void step_cancelled(mr_cancel_entry *e)
{
    mr_wcall *c = (mr_wcall *)((char *)e - offsetof(mr_wcall, on_cancel));
    mr_worker_service *w = c->session->worker;
    mr_refs_take(&c->refs);
    mr_lock(&w->calls_mu);
    c->cancelled = true;
    mr_unlock(&w->calls_mu);
    end_call(c);
    call_unref(c);
}

/* A call to an incarnation of a task that has ended and that was not told to end yet, or NULL; a
 * reference. */
static mr_wcall *take_lost(mr_worker_service *w, const mr_task_peers *p, int task)
{
    mr_status *why = NULL;
    mr_lock(&w->calls_mu);
    mr_wcall *c = w->calls;
    while (c && !(c->session->peers == p && c->on->task == task && !c->ended &&
                  (why = mr_watch_why(p->watch, task, c->on->incarnation))))
        c = c->next;
    if (c) {
        c->ended = true;
        c->lost = why;
        mr_refs_take(&c->refs);
    }
    mr_unlock(&w->calls_mu);
    return c;
}

/* One call at a time, because ending one calls back without the lock. */
void mr_remote_calls_lost(mr_worker_service *w, const mr_task_peers *p, int task)
{
    for (mr_wcall *c; (c = take_lost(w, p, task));) {
        end_call(c);
        call_unref(c);
    }
}

/* ---- asking ---- */

/* Sends a request; `done` is called in any case. The call may be over when this returns. A
 * cancellation that came before the request was started is carried out here. */
static void send_ask(mr_wcall *c, ask *a, const char *method,
                 void (*done)(mr_net_request *r, mr_status *st, mr_bytes *reply))
{
    mr_worker_service *w = c->session->worker;
    mr_bytes none = {0};
    a->call = c;
    a->request.method = method;
    a->request.done = done;
    mr_lock(&w->calls_mu);
    MR_ASSERT(!a->started);
    bool ended = c->ended;
    mr_unlock(&w->calls_mu);
    if (ended) {
        done(&a->request, mr_error(MR_CANCELLED, "RemoteCall was cancelled"), &none);
        return;
    }
    mr_refs_take(&c->refs);
    mr_task_peers_ask(c->session->peers, c->on->task, &a->request);
    mr_lock(&w->calls_mu);
    a->started = true;
    ended = c->ended;
    mr_unlock(&w->calls_mu);
    if (ended)
        mr_task_peers_cancel(c->session->peers, c->on->task, &a->request);
    call_unref(c);
}

/* Why a request failed. CANCELLED, if we did not cancel, means that the other server was stopped.
 * Takes st. */
static mr_status *as_told(mr_wcall *c, mr_status *st)
{
    mr_worker_service *w = c->session->worker;
    mr_lock(&w->calls_mu);
    bool ended = c->ended;
    mr_unlock(&w->calls_mu);
    if (ended || mr_status_code(st) != MR_CANCELLED)
        return mr_wire_unmark(st);
    mr_status_free(st);
    return mr_error(MR_UNAVAILABLE, "The server was stopped");
}

/* ---- RunGraph ---- */

/* Adds the arguments and the keys of the results to a RunGraphRequest. */
static mr_status *encode_values(mr_wcall *c, mr_wire *w)
{
    char *key;
    for (int i = 0; i < c->n_args; i++) {
        MR_TRY(mr_remote_key(c->on, "arg", i, &key));
        mr_wire_named(w, 3, mr_sv_of(key), c->args[i]);
        mr_free(key);
    }
    for (int i = 0; i < c->n_rets; i++) {
        MR_TRY(mr_remote_key(c->on, "ret", i, &key));
        mr_pb_put_bytes(&w->pb, 4, mr_sv_of(key));
        mr_free(key);
    }
    return NULL;
}

/* Encodes the RunGraphRequest. On failure *out is empty.
 *
 * Fields: 1 graph_handle, 2 step_id, 3 send, 4 recv_key, 8 session_handle, 9 store_errors_in_response_body,
 * 10 create_worker_session_called; ours: the depth of nested calls. */
static mr_status *encode_run(mr_wcall *c, mr_bytes *out)
{
    mr_wire w;
    mr_wire_init(&w);
    mr_pb_put_bytes(&w.pb, 1, mr_sv_of(c->handle));
    mr_pb_put_varint(&w.pb, 2, (uint64_t)c->step);
    mr_pb_put_bytes(&w.pb, 8, mr_sv_of(c->session->handle));
    mr_pb_put_varint(&w.pb, 9, 1);
    mr_pb_put_varint(&w.pb, 10, 1);
    mr_pb_put_varint(&w.pb, MR_RUN_GRAPH_DEPTH, (uint64_t)c->depth);
    mr_status *st = encode_values(c, &w);
    if (st) {
        mr_wire_deinit(&w);
        return st;
    }
    return mr_wire_finish(&w, out);
}

/* Finds a result in the answer by its key. */
static mr_status *decode_one(mr_wcall *c, const mr_run_reply *reply, int i)
{
    char *key;
    mr_sv value = MR_SV("");
    MR_TRY(mr_remote_key(c->on, "ret", i, &key));
    for (int k = 0; k < reply->named.n && !value.n; k++)
        if (mr_sv_is(mr_wire_field(reply->named.p[k], 1), key))
            value = mr_wire_field(reply->named.p[k], 2);
    mr_free(key);
    if (!value.n)
        return mr_error(MR_INTERNAL, "No value was returned for result %d", i);
    return mr_tensor_decode(mr_cpu_allocator(), value, &c->rets[i]);
}

/* Decodes all results, or none. */
static mr_status *decode_results(mr_wcall *c, mr_bytes *bytes)
{
    mr_run_reply reply = {0};
    mr_status *st = mr_run_reply_parse(bytes, &reply);
    for (int i = 0; !st && i < c->n_rets; i++)
        st = decode_one(c, &reply, i);
    for (int i = 0; st && i < c->n_rets; i++) {
        mr_tensor_unref(c->rets[i]);
        c->rets[i] = NULL;
    }
    mr_run_reply_deinit(&reply);
    return st;
}

/* RunGraph has ended: the call is over. */
static void graph_ran(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_wcall *c = ((ask *)r)->call;
    st = as_told(c, st);
    if (!st)
        st = decode_results(c, reply);
    finish_call(c, st);
}

/* Sends RunGraph. The step id is a new one: the other task may have a part in the caller's step, and a
 * node may make several calls in it. */
static void run_graph(mr_wcall *c)
{
    MR_ASSERT(c->handle && !c->step);
    c->step = mr_step_id_new();
    mr_status *st = encode_run(c, &c->running.request.body);
    if (st)
        finish_call(c, st);
    else
        send_ask(c, &c->running, MR_WORKER_SERVICE "RunGraph", graph_ran);
}

/* ---- RegisterGraph ---- */

/* A copy of the handle that is registered under the key, or NULL; the caller frees it. */
static char *find_registered(mr_remote_calls *rc, mr_sv key)
{
    mr_lock(&rc->mu);
    const registered *g = mr_map_get(&rc->registered, key);
    char *handle = g ? mr_strdup(g->handle) : NULL;
    mr_unlock(&rc->mu);
    return handle;
}

/* Keeps the handle for later calls; false: another call was faster, and its handle is kept. */
static bool keep_registered(mr_wcall *c, const char *handle)
{
    mr_remote_calls *rc = &c->session->remote;
    mr_sv key = mr_str_view(&c->key);
    mr_lock(&rc->mu);
    bool first = !mr_map_get(&rc->registered, key);
    if (first) {
        registered *g = mr_new(registered);
        *g = (registered){mr_graph_ref(c->graph), mr_strdup(handle)};
        mr_map_put(&rc->registered, key, g);
    }
    mr_unlock(&rc->mu);
    return first;
}

/* Deregisters a handle that is not needed. */
static void give_back(mr_wcall *c, const char *handle)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(handle));
    mr_pb_put_bytes(&w, 2, mr_sv_of(c->session->handle));
    mr_pb_put_varint(&w, 3, 1);
    mr_retries_send(&c->session->worker->retries, c->session->peers, c->on->task, MR_WORKER_SERVICE "DeregisterGraph",
                    &body);
}

/* Takes the handle out of the answer, or uses the one that another call has registered meanwhile. */
static mr_status *take_handle(mr_wcall *c, mr_bytes *reply)
{
    mr_sv bytes;
    MR_TRY(mr_bytes_flat(reply, &bytes));
    mr_sv given = mr_wire_field(bytes, 1);
    if (!given.n)
        return mr_error(MR_INTERNAL, "The RegisterGraphResponse has no handle");
    c->handle = mr_strndup(given.p, given.n);
    if (keep_registered(c, c->handle))
        return NULL;
    give_back(c, c->handle);
    mr_free(c->handle);
    c->handle = find_registered(&c->session->remote, mr_str_view(&c->key));
    return NULL;
}

/* RegisterGraph has ended: runs the graph, or ends the call. */
static void graph_registered(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_wcall *c = ((ask *)r)->call;
    st = as_told(c, st);
    if (!st)
        st = take_handle(c, reply);
    if (st)
        finish_call(c, st);
    else
        run_graph(c);
}

/* Takes the graph. */
static void register_graph(mr_wcall *c, mr_str *graph_def)
{
    mr_str head = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &head);
    mr_pb_put_bytes(&w, 1, mr_sv_of(c->session->handle));
    mr_pb_put_varint(&w, 6, 1);
    mr_pb_put_header(&w, 2, graph_def->n);
    mr_bytes_add_str(&c->registering.request.body, &head);
    mr_bytes_add_str(&c->registering.request.body, graph_def);
    send_ask(c, &c->registering, MR_WORKER_SERVICE "RegisterGraph", graph_registered);
}

/* ---- a call ---- */

/* args, rets and ctx stay the caller's until `done`. The key names the node by its graph's address, which the
 * reference to the graph keeps from being used again. */
static mr_wcall *call_new(mr_remote_calls *rc, mr_run *r, const mr_remote_device *on, const mr_remote_args *a)
{
    mr_wcall *c = mr_new(mr_wcall);
    mr_refs_init(&c->refs);
    c->session = rc->session;
    mr_refs_take(&c->session->refs);
    c->on = on;
    c->graph = mr_graph_ref(r->node->graph);
    c->depth = a->depth;
    c->args = a->args;
    c->rets = a->rets;
    c->n_args = a->n_args;
    c->n_rets = a->n_rets;
    c->done = a->done;
    c->ctx = a->ctx;
    c->cancel = r->step->cancel;
    mr_str_printf(&c->key, "%p %s %s", (void *)c->graph, on->name, r->node->name);
    return c;
}

/* From now on the call is in the list, and learns about the end of its step and of its task. What
 * happened before is checked here, since nobody reports it again. */
static void listen_for_end(mr_wcall *c)
{
    mr_task_peers *p = c->session->peers;
    mr_watch_hold(p->watch, c->on->task);
    enlist_call(c);
    c->on_cancel.fn = step_cancelled;
    c->listens = mr_cancel_register(c->cancel, &c->on_cancel);
    if (!c->listens) {
        mr_lock(&c->session->worker->calls_mu);
        c->cancelled = c->ended = true;
        mr_unlock(&c->session->worker->calls_mu);
    }
    if (mr_watch_ended(p->watch, c->on->task, c->on->incarnation))
        mr_remote_calls_lost(c->session->worker, p, c->on->task);
}

/* Starts a call. The graph is built before the call is in the list, because the node and its arguments
 * are valid only now. */
static void start_call(mr_remote_caller *caller, mr_run *r, const mr_remote_args *a)
{
    mr_remote_calls *rc = (mr_remote_calls *)caller;
    const mr_remote_device *on = NULL;
    mr_str graph_def = {0};
    mr_status *st = find_device(rc, a->device, &on);
    if (st) {
        a->done(a->ctx, st);
        return;
    }
    mr_wcall *c = call_new(rc, r, on, a);
    /* A handle of an earlier call of this node on this device saves the registration. */
    c->handle = find_registered(rc, mr_str_view(&c->key));
    if (!c->handle)
        st = mr_remote_graph(r, a->f, a->args, a->n_args, on, &graph_def);
    listen_for_end(c);
    if (st)
        finish_call(c, st);
    else if (c->handle)
        run_graph(c);
    else
        register_graph(c, &graph_def);
    mr_str_deinit(&graph_def);
}

/* ---- of a session ---- */

void mr_remote_calls_init(mr_remote_calls *c, mr_wsession *s)
{
    c->caller.call = start_call;
    c->session = s;
    mr_mutex_init(&c->mu);
}

/* The handles are not deregistered: the master deletes the session at all its tasks, and the graphs with it. */
void mr_remote_calls_deinit(mr_remote_calls *c)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(&c->registered, &pos, &key, &v)) {
        registered *g = v;
        mr_graph_unref(g->graph);
        mr_free(g->handle);
        mr_free(g);
    }
    mr_map_deinit(&c->registered);
    for (int i = 0; i < c->devices.n; i++)
        mr_free(c->devices.p[i].name);
    mr_vec_deinit(&c->devices);
    mr_mutex_deinit(&c->mu);
}
