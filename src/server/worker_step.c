/* server/worker_step.c -- the steps of a worker: where their values meet, and how they arrive from
 * other tasks.
 *
 * A step exists from the first message about it, which may be another task's RecvTensor before the
 * master's RunGraph, until CleanupGraph. dist/worker_steps.c keeps the table and knows which steps
 * have begun, ended or were repeated.
 *
 * Aborting: whatever fails a step aborts its rendezvous. That ends the receives that wait here and,
 * through step_aborted, the calls to other tasks. Each receive is completed exactly once: when its call
 * ends, or at once if the step was already aborted.
 *
 * A value that goes from task A to task B:
 *
 *     B  the flow's _Recv asks the rendezvous -> take_remote -> RecvTensor to A
 *     A  answer_when_it_comes -> the rendezvous of A's step, perhaps before A has begun it
 *     A  _Send brings the value -> value_came -> reply
 *     B  tensor_received -> the _Recv is done
 *
 * Locks: the worker's lock guards the table, a step's lock its list of receives; no function here
 * holds both. Cancelling a call may complete it in the same thread, so no lock is held then. */
#include "base/clock.h"
#include "base/memory.h"
#include "server/wire.h"
#include "server/worker_internal.h"

/* ---- values from other tasks ---- */

/* A value that a Recv of this task waits for: a RecvTensor to the task that produces it. It is in the
 * step's list until the call ends. */
struct mr_wreceive {
    mr_net_request request; /* first */
    mr_worker_run *step;
    mr_recv *to;
    int task;
    int64_t start_us;
    bool started, told_to_end; /* under the step's lock; a call can be cancelled only once it is started */
    mr_status *lost;           /* under the step's lock: why it was cancelled, if its task is lost */
    mr_refs refs;              /* one for the call, and one for each thread that cancels it */
    mr_wreceive *next, **link; /* of the step's receives */
};

/* The last reference ends the watch over the producing task. */
static void receive_unref(mr_wreceive *v)
{
    if (!mr_refs_drop(&v->refs))
        return;
    mr_watch_release(v->step->session->peers->watch, v->task);
    mr_worker_run_unref(v->step);
    mr_status_free(v->lost);
    mr_free(v);
}

/* The call has ended, so step_aborted and end_lost_receives must not find it any more. */
static void unlink_receive(mr_wreceive *v)
{
    mr_worker_run *s = v->step;
    mr_lock(&s->mu);
    MR_ASSERT(*v->link == v);
    *v->link = v->next;
    if (v->next)
        v->next->link = v->link;
    mr_unlock(&s->mu);
}

/* The call has ended: decodes the value and completes the Recv. An error that follows from the step's
 * own end is marked as derived, so that the master reports the first error; other errors say what was
 * being received, and from where. */
static void tensor_received(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_wreceive *v = (mr_wreceive *)r;
    mr_worker_run *s = v->step;
    mr_recv *to = v->to;
    mr_tensor *t = NULL;
    bool dead = false;
    unlink_receive(v);
    st = mr_wire_unmark(st);
    if (!st)
        st = mr_wire_recv_decode(reply, mr_cpu_allocator(), &t, &dead);
    if (!st)
        mr_transfers_add(&s->worker->transfers, s->id, to->key->name, to->key->src_device, to->key->dst_device,
                         t ? mr_tensor_bytes(t) : 0, v->start_us);
    if (st) {
        /* The loss of the task explains more than the CANCELLED that our own cancellation has caused. */
        mr_lock(&s->mu);
        bool aborted = s->aborted != NULL;
        if (v->lost && !aborted) {
            mr_status_free(st);
            st = v->lost;
            v->lost = NULL;
        }
        mr_unlock(&s->mu);
        if (aborted)
            mr_status_mark_derived(st);
        else
            mr_status_append(st, "\n\t while receiving %.*s from %s", MR_SV_ARG(to->key->name),
                             mr_task_peers_task(s->session->peers, v->task)->name);
    }
    to->fn(to, st, t, dead);
    receive_unref(v);
}

/* Encodes the RecvTensorRequest: 1 step_id, 2 rendezvous_key, 7 request_id. The key ends with the frame and the
 * iteration of the receiving _Recv, so that a value in a loop is asked for once per iteration. */
static void encode_request(mr_wreceive *v)
{
    mr_str body = {0}, key = {0};
    mr_pb_writer w;
    mr_worker_service *worker = v->step->worker;
    /* The receiver refuses an id that it has seen, so each is used once, and none can be guessed from another. */
    uint64_t request = mr_id_mixed(atomic_fetch_add(&worker->next_request, 1));
    const mr_rendezvous_key *k = v->to->key;
    mr_str_append(&key, k->text, (size_t)(k->name.p + k->name.n - k->text));
    mr_str_printf(&key, ";%llu:%lld", (unsigned long long)v->to->frame, (long long)v->to->iteration);
    mr_pb_writer_init(&w, &body);
    mr_pb_put_varint(&w, 1, (uint64_t)v->step->id);
    mr_pb_put_bytes(&w, 2, mr_str_view(&key));
    mr_pb_put_varint(&w, 7, request);
    mr_bytes_add_str(&v->request.body, &body);
    mr_str_deinit(&key);
}

/* Puts the receive into the step's list; false: the step is aborted, and the call must not start. */
static bool enlist_receive(mr_wreceive *v)
{
    mr_worker_run *s = v->step;
    mr_lock(&s->mu);
    bool ok = !s->aborted;
    if (ok) {
        v->next = s->receives;
        v->link = &s->receives;
        if (v->next)
            v->next->link = &v->next;
        s->receives = v;
    }
    mr_unlock(&s->mu);
    return ok;
}

/* Finds a receive from an incarnation of the task that has ended and that was not cancelled yet; *why
 * says what happened. */
static mr_wreceive *find_lost_locked(mr_worker_run *s, int task, mr_status **why) MR_REQUIRES(s->mu);
static mr_wreceive *find_lost_locked(mr_worker_run *s, int task, mr_status **why)
{
    for (mr_wreceive *v = s->receives; v; v = v->next)
        if (v->task == task && !v->told_to_end &&
            (*why = mr_watch_why(s->session->peers->watch, task, v->to->key->src_incarnation)))
            return v;
    return NULL;
}

/* Cancels the receives from ended incarnations of a task. After each one the list is read again from
 * its start, because cancelling happens without the lock. */
static void end_lost_receives(mr_worker_run *s, int task)
{
    for (;;) {
        mr_lock(&s->mu);
        mr_status *why = NULL;
        mr_wreceive *v = find_lost_locked(s, task, &why);
        bool started = v && v->started;
        if (v) {
            v->told_to_end = true;
            v->lost = why;
            mr_refs_take(&v->refs);
        }
        mr_unlock(&s->mu);
        if (!v)
            return;
        if (started)
            mr_task_peers_cancel(s->session->peers, v->task, &v->request);
        receive_unref(v);
    }
}

static void value_came(mr_recv *w, mr_status *st, mr_tensor *t, bool dead);

/* The rendezvous asks whether a Recv is for another task's value; true: it is, and this function
 * completes it. RecvTensors of other tasks (value_came) want our values, maybe before the step has
 * begun and has a session.
 *
 * The producing task is watched while the call is under way. If it is lost before the receive is in
 * the list, its loss would go unnoticed, so that is checked at the end. */
static bool take_remote(void *arg, mr_recv *to)
{
    mr_worker_run *s = arg;
    if (to->fn == value_came || mr_sv_starts(to->key->src_device, s->session->prefix))
        return false;
    mr_task_peers *p = s->session->peers;
    int task = mr_cluster_find_named(&p->cluster, to->key->src_device);
    if (task < 0) {
        to->fn(to, mr_invalid("Device %.*s belongs to no task of the cluster", MR_SV_ARG(to->key->src_device)), NULL,
               false);
        return true;
    }
    uint64_t incarnation = to->key->src_incarnation;
    mr_wreceive *v = mr_new(mr_wreceive);
    v->request = (mr_net_request){.method = MR_WORKER_SERVICE "RecvTensor", .done = tensor_received};
    mr_refs_init(&v->refs);
    mr_refs_take(&s->refs);
    v->step = s;
    v->to = to;
    v->task = task;
    v->start_us = mr_wall_us();
    mr_watch_hold(p->watch, task);
    if (!enlist_receive(v)) {
        /* The step was aborted before, so step_aborted would not find this receive. */
        receive_unref(v);
        mr_lock(&s->mu);
        mr_status *st = mr_status_mark_derived(mr_status_copy(s->aborted));
        mr_unlock(&s->mu);
        to->fn(to, st, NULL, false);
        return true;
    }
    encode_request(v);
    /* The call may end, and drop its reference, before mr_task_peers_ask returns. */
    mr_refs_take(&v->refs);
    mr_task_peers_ask(p, task, &v->request);
    mr_lock(&s->mu);
    v->started = true;
    bool cancelled = v->told_to_end;
    mr_unlock(&s->mu);
    if (cancelled)
        mr_task_peers_cancel(p, task, &v->request);
    receive_unref(v);
    if (mr_watch_ended(p->watch, task, incarnation)) /* mr_worker_runs_lost is not called again for it */
        end_lost_receives(s, task);
    return true;
}

/* The step's rendezvous was aborted: cancels all receives under way. Cancelling may end the call in
 * this thread, so it happens without the lock, and the list is read again from its start each time. */
static void step_aborted(void *arg, const mr_status *why)
{
    mr_worker_run *s = arg;
    mr_lock(&s->mu);
    if (!s->aborted)
        s->aborted = mr_status_mark_derived(mr_status_copy(why));
    mr_unlock(&s->mu);
    for (;;) {
        mr_lock(&s->mu);
        mr_wreceive *v = s->receives;
        while (v && v->told_to_end)
            v = v->next;
        if (v) {
            v->told_to_end = true;
            mr_refs_take(&v->refs);
        }
        bool started = v && v->started;
        mr_unlock(&s->mu);
        if (!v)
            return;
        if (started)
            mr_task_peers_cancel(s->session->peers, v->task, &v->request);
        receive_unref(v);
    }
}

/* Ends the receives from a lost task in all steps of a cluster. */
void mr_worker_runs_lost(mr_worker_service *w, const mr_task_peers *p, int task)
{
    MR_VEC(mr_worker_run *) all = {0};
    uint32_t pos = 0;
    uint64_t key;
    void *v;
    mr_lock(&w->mu);
    while (mr_imap_next(&w->steps->steps, &pos, &key, &v)) {
        mr_worker_run *s = ((mr_worker_step *)v)->host;
        if (!s->session || s->session->peers != p)
            continue;
        mr_refs_take(&s->refs);
        mr_vec_push(&all, s);
    }
    mr_unlock(&w->mu);
    for (int i = 0; i < all.n; i++) {
        end_lost_receives(all.p[i], task);
        mr_worker_run_unref(all.p[i]);
    }
    mr_vec_deinit(&all);
}

/* ---- the table ---- */

/* Called when the rendezvous is freed; see mr_worker_run. */
static void wstep_free(void *arg)
{
    mr_worker_run *s = arg;
    MR_ASSERT(!s->receives && !s->session);
    mr_status_free(s->aborted);
    mr_mutex_deinit(&s->mu);
    mr_free(s);
}

/* The step belongs to its rendezvous, which frees it (wstep_free): a flow that was cancelled may keep the rendezvous
 * longer than anybody else keeps the step. */
static mr_worker_run *wstep_new(mr_worker_service *w, int64_t id)
{
    mr_worker_run *s = mr_new(mr_worker_run);
    mr_refs_init(&s->refs);
    mr_mutex_init(&s->mu);
    s->worker = w;
    s->id = id;
    s->rendezvous = mr_rendezvous_new();
    mr_rendezvous_set_remote(s->rendezvous, (mr_rendezvous_remote){take_remote, step_aborted, s, wstep_free});
    return s;
}

/* When nobody works on the step any more, its session is released; the memory goes with the rendezvous. */
void mr_worker_run_unref(mr_worker_run *s)
{
    if (!s || !mr_refs_drop(&s->refs))
        return;
    MR_ASSERT(!s->receives);
    mr_wsession_unref(s->session); /* nothing is received any more */
    s->session = NULL;
    mr_rendezvous_unref(s->rendezvous); /* the last reference to it frees s */
}

static mr_status *get_locked(mr_worker_service *w, int64_t id, int64_t request_id, mr_worker_step **out)
    MR_REQUIRES(w->mu);

/* Finds the step, or makes it; refuses a repeated request id and a step that is over. */
static mr_status *get_locked(mr_worker_service *w, int64_t id, int64_t request_id, mr_worker_step **out)
{
    bool is_new;
    if (w->stopped)
        return mr_status_copy(w->stopped);
    MR_TRY(mr_worker_steps_once(w->steps, request_id));
    MR_TRY(mr_worker_steps_get(w->steps, id, out, &is_new));
    if (is_new)
        (*out)->host = wstep_new(w, id);
    return NULL;
}

/* The session is set by the first piece; later pieces of a partial run come with the same one. */
mr_status *mr_worker_run_begin(mr_worker_service *w, int64_t id, int64_t request_id, bool piece, mr_wsession *owner,
                          mr_worker_run **out)
{
    mr_worker_step *step;
    mr_lock(&w->mu);
    mr_status *st = get_locked(w, id, request_id, &step);
    if (!st)
        st = mr_worker_steps_begin(step, piece, owner);
    *out = st ? NULL : step->host;
    if (!st) {
        mr_refs_take(&(*out)->refs);
        if (!(*out)->session) {
            mr_refs_take(&owner->refs);
            (*out)->session = owner;
        }
    }
    MR_ASSERT(st || (*out)->session);
    mr_unlock(&w->mu);
    return st;
}

/* Finds or makes a step of which another task wants a value. Each success is matched by one
 * wstep_asked. */
static mr_status *wstep_ask(mr_worker_service *w, int64_t id, int64_t request_id, mr_worker_run **out)
{
    mr_worker_step *step;
    mr_lock(&w->mu);
    mr_status *st = get_locked(w, id, request_id, &step);
    *out = st ? NULL : step->host;
    if (!st) {
        mr_worker_steps_ask(step);
        mr_refs_take(&(*out)->refs);
    }
    mr_unlock(&w->mu);
    return st;
}

/* The value was sent, or its receiver is gone. Returns true if the step must be ended: no master has
 * begun it, and nobody waits for it any more. */
static bool wstep_asked(mr_worker_run *s, bool gone)
{
    mr_worker_service *w = s->worker;
    mr_lock(&w->mu);
    mr_worker_step *step = mr_worker_steps_find(w->steps, s->id);
    bool last = step && step->host == s && mr_worker_steps_asked(step, gone);
    mr_unlock(&w->mu);
    return last;
}

/* Closes the step for further pieces and takes its reference to the flow. */
static struct mr_worker_flow *take_partial(mr_worker_run *s)
{
    mr_lock(&s->mu);
    struct mr_worker_flow *p = s->partial;
    s->partial = NULL;
    s->closed = true;
    mr_unlock(&s->mu);
    return p;
}

/* Takes why. A step that has ended, or was never there, is remembered as over by dist/worker_steps, so
 * that late messages are refused. The rendezvous is aborted without the worker's lock, since that
 * completes Recvs. */
void mr_worker_run_end(mr_worker_service *w, int64_t id, mr_status *why)
{
    mr_lock(&w->mu);
    mr_worker_run *s = mr_worker_steps_end(w->steps, id);
    mr_unlock(&w->mu);
    if (s) {
        mr_rendezvous_abort(s->rendezvous, why);
        mr_worker_flow_end(take_partial(s), why); /* of a partial run whose last piece never arrived */
    }
    mr_worker_run_unref(s);
    mr_status_free(why);
}

/* Handles CleanupGraph. The step may have ended, or may never have existed: it is remembered as over in both cases. */
void mr_worker_cleanup_graph(void *service, mr_net_call *c, mr_sv body)
{
    mr_pb_reader r;
    uint32_t field, wire;
    int64_t id = 0;
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1)
            id = mr_pb_int64(&r);
        else
            mr_pb_skip(&r);
    mr_status *st = mr_pb_reader_status(&r, "CleanupGraphRequest");
    if (!st)
        mr_worker_run_end(service, id, mr_error(MR_ABORTED, "Cleanup %lld", (long long)id));
    mr_reply(c, st, NULL);
}

/* ---- RecvTensor: a value of ours for another task ---- */

/* Another task's request for a value of ours. Either the value or the caller's cancellation answers
 * it, whichever is first; each has a reference. */
typedef struct asked {
    mr_recv w; /* first */
    mr_net_call *call;
    mr_worker_run *step;
    mr_rendezvous_key key;
    int64_t start_us;
    int64_t buf_bytes; /* RecvBuf: the size that is expected; -1: RecvTensor */
    mr_mutex mu;
    bool answered MR_GUARDED_BY(mu);
    mr_refs refs; /* one for the receive, one for the call until it is answered */
} asked;

/* The call is answered, and the rendezvous is done with the receive. */
static void asked_unref(asked *a)
{
    if (!mr_refs_drop(&a->refs))
        return;
    mr_rendezvous_key_deinit(&a->key);
    mr_worker_run_unref(a->step);
    mr_mutex_deinit(&a->mu);
    mr_free(a);
}

/* True for the first caller, which has to answer the call. */
static bool answers_first(asked *a)
{
    mr_lock(&a->mu);
    bool first = !a->answered;
    a->answered = true;
    mr_unlock(&a->mu);
    return first;
}

/* Encodes the answer. The receiver of a buffer has said how large it is; a different size means that
 * the two disagree. */
static mr_status *encode_value(const asked *a, const mr_tensor *t, bool dead, mr_bytes *out)
{
    if (a->buf_bytes < 0)
        return mr_wire_recv_encode(t, dead, a->start_us, out);
    if (t && mr_tensor_bytes(t) != (uint64_t)a->buf_bytes)
        return mr_invalid("Buffer %.*s has %zu bytes, but %lld were requested", MR_SV_ARG(a->key.name),
                          mr_tensor_bytes(t), (long long)a->buf_bytes);
    return mr_wire_buf_encode(t, dead, a->start_us, out);
}

/* The value exists, or the step failed. Drops the receive's reference. */
static void value_came(mr_recv *w, mr_status *st, mr_tensor *t, bool dead)
{
    asked *a = (asked *)w;
    mr_bytes body = {0};
    if (answers_first(a)) {
        wstep_asked(a->step, false);
        if (!st)
            st = encode_value(a, t, dead, &body);
        mr_reply(a->call, st, &body);
        mr_bytes_deinit(&body);
        asked_unref(a); /* the call's */
    } else {
        mr_status_free(st);
    }
    mr_tensor_unref(t);
    asked_unref(a);
}

/* The caller cancelled. The value may still appear, and is dropped then. A step that nobody has begun
 * and nobody waits for has failed elsewhere, and is forgotten. */
static void caller_left(void *arg, mr_net_call *c)
{
    asked *a = arg;
    if (!answers_first(a))
        return;
    mr_worker_run *s = a->step;
    bool last = wstep_asked(s, true);
    mr_reply(c, mr_error(MR_CANCELLED, "RecvTensor was cancelled"), NULL);
    if (last)
        mr_worker_run_end(s->worker, s->id,
                          mr_error(MR_ABORTED, "Step %lld has no receiver any more", (long long)s->id));
    asked_unref(a);
}

/* Refuses a request for a value of an earlier incarnation of this task. A device that we do not have
 * passes: nothing is ever sent under such a key, so the request ends with its step. */
static mr_status *check_incarnation(const mr_env *env, const mr_rendezvous_key *k)
{
    for (int i = 0; i < env->n_devices; i++) {
        const mr_device *d = env->devices[i];
        if (mr_sv_is(k->src_device, d->name) && k->src_incarnation != d->incarnation)
            return mr_error(MR_ABORTED,
                            "RecvTensor expects a different device incarnation: %llu vs. %llu. The task of %s was "
                            "restarted and has lost its state",
                            (unsigned long long)k->src_incarnation, (unsigned long long)d->incarnation, d->name);
    }
    return NULL;
}

/* Whether the device's name begins with the task's name as a whole. */
static bool is_of_task(mr_sv device, const char *task)
{
    size_t n = strlen(task);
    return mr_sv_starts(device, task) && device.n > n && device.p[n] == '/';
}

/* Checks that the source is this task, by its own name or by the name it has in the cluster of one of
 * its sessions, and in the incarnation that the caller means. */
static mr_status *check_source(mr_worker_service *w, const mr_rendezvous_key *k)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    if (is_of_task(k->src_device, mr_host_name(w->host)))
        return check_incarnation(&w->host->env, k);
    mr_status *st = mr_invalid("A value of %.*s was requested from %s, which does not have that device",
                               MR_SV_ARG(k->src_device), mr_host_name(w->host));
    mr_lock(&w->mu);
    while (mr_map_next(&w->sessions.by_handle, &pos, &key, &v)) {
        const mr_wsession *s = ((mr_worker_session *)v)->host;
        if (s && is_of_task(k->src_device, mr_task_peers_name(s->peers))) {
            mr_status_free(st);
            st = check_incarnation(&s->env, k);
            break;
        }
    }
    mr_unlock(&w->mu);
    return st;
}

/* Parses a RecvTensorRequest into a->key and the step's id. */
static mr_status *parse_recv(mr_sv body, int64_t *step, int64_t *request, asked *a)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv key = MR_SV("");
    *step = *request = 0;
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: *step = mr_pb_int64(&r); break;
        case 2: key = mr_pb_bytes(&r); break;
        case 7: *request = mr_pb_int64(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "RecvTensorRequest"));
    return mr_rendezvous_key_parse(key, &a->key, &a->w.frame, &a->w.iteration);
}

/* Parses a RecvBufRequest. A buffer of a collective op is a value of its step; its rendezvous key is
 * made of the two devices and the buffer's name. */
static mr_status *parse_recv_buf(mr_sv body, int64_t *step, int64_t *request, asked *a)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv key = MR_SV(""), from = MR_SV(""), to = MR_SV("");
    uint64_t incarnation = 0;
    *step = *request = a->buf_bytes = 0;
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: *step = mr_pb_int64(&r); break;
        case 2: key = mr_pb_bytes(&r); break;
        case 3: a->buf_bytes = mr_pb_int64(&r); break;
        case 8: from = mr_pb_bytes(&r); break;
        case 9: to = mr_pb_bytes(&r); break;
        case 10: *request = mr_pb_int64(&r); break;
        case 11: incarnation = mr_pb_varint(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "RecvBufRequest"));
    if (a->buf_bytes < 0)
        return mr_invalid("RecvBuf: the number of bytes is negative (%lld)", (long long)a->buf_bytes);
    return mr_rendezvous_key_make(from, incarnation, to, key, &a->key);
}

/* Parses and checks a request, then finds or makes its step. Each success is matched by one wstep_asked. */
static mr_status *open_recv(mr_worker_service *w, mr_sv body, asked *a)
{
    int64_t step, request;
    MR_TRY(a->buf_bytes < 0 ? parse_recv(body, &step, &request, a) : parse_recv_buf(body, &step, &request, a));
    MR_TRY(check_source(w, &a->key));
    return wstep_ask(w, step, request, &a->step);
}

/* Handles RecvTensor and RecvBuf: the answer is sent when the value exists, without a thread waiting
 * for it. */
static void answer_when_it_comes(mr_worker_service *service, mr_net_call *c, mr_sv body, bool is_buf)
{
    asked *a = mr_new(asked);
    a->buf_bytes = is_buf ? 0 : -1;
    mr_refs_init(&a->refs);
    mr_mutex_init(&a->mu);
    a->call = c;
    a->start_us = mr_now_ns() / 1000;
    mr_status *st = open_recv(service, body, a);
    if (st) {
        mr_reply(c, st, NULL);
        asked_unref(a);
        return;
    }
    a->w.fn = value_came;
    a->w.key = &a->key;
    mr_refs_take(&a->refs); /* the call's */
    if (!c->net->on_cancel(c, caller_left, a))
        caller_left(a, c);
    /* Also if the caller has left: the receive ends with the value or with the step, and drops its reference. */
    mr_rendezvous_recv(a->step->rendezvous, &a->w);
}

void mr_worker_recv_tensor(void *service, mr_net_call *c, mr_sv body) { answer_when_it_comes(service, c, body, false); }

void mr_worker_recv_buf(void *service, mr_net_call *c, mr_sv body) { answer_when_it_comes(service, c, body, true); }
