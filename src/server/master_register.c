/* server/master_register.c -- RegisterGraph: a program is sent to its tasks once, before its first
 * step.
 *
 * Steps that arrive meanwhile wait in the program. A program that could not be registered leaves the
 * table, so that the next step makes it again; it is kept until the session's end, because calls may
 * still point to it.
 *
 *     state         ready   n_registering   waiting   failed
 *     new           no      0               none      NULL
 *     registering   no      > 0             steps     NULL, or the first error
 *     ready         yes     0               none      NULL
 *     failed        no      0               none      the error; not in the table any more
 *
 * All state here is under the session's lock. A registration counts as a call of the session (n_open)
 * and holds a reference, so the session does not end before the tasks have answered. */
#include "base/memory.h"
#include "server/master_internal.h"
#include "server/wire.h"

/* A RegisterGraph under way. */
struct mr_mregister {
    mr_net_request request; /* first */
    mr_mprogram *program;
    int part;
    /* Under the session's lock: */
    bool started, cancelled, over; /* a call can be cancelled only once it is started */
    mr_status *lost;               /* why it was cancelled */
};

/* Takes a program that could not be registered out of the table. The session's lock is held. */
static void forget_failed_locked(mr_mprogram *p)
{
    mr_msession *s = p->session;
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(&s->programs, &pos, &key, &v))
        if (v == p) {
            mr_map_remove(&s->programs, key);
            mr_vec_push(&s->failed, p);
            return;
        }
}

/* Deregisters the parts that some tasks have accepted, after others refused theirs. Does not wait for
 * the answers. Fields: 1 graph_handle, 2 session_handle, 3 create_worker_session_called. */
static void deregister_parts(mr_mprogram *p)
{
    for (int i = 0; i < p->n_parts; i++) {
        mr_str body = {0};
        mr_pb_writer w;
        if (!p->parts[i].handle)
            continue;
        mr_pb_writer_init(&w, &body);
        mr_pb_put_bytes(&w, 1, mr_sv_of(p->parts[i].handle));
        mr_pb_put_bytes(&w, 2, mr_sv_of(p->session->handle));
        mr_pb_put_varint(&w, 3, 1);
        mr_retries_send(&p->session->master->retries, p->session->peers, p->parts[i].task,
                        MR_WORKER_SERVICE "DeregisterGraph", &body);
    }
}

/* All tasks have answered: starts the steps that waited, or answers them with the error. The waiting
 * steps are taken out under the lock and started without it. At the end the registration leaves the
 * session. */
static void registered_all(mr_mprogram *p)
{
    mr_msession *s = p->session;
    mr_lock(&s->mu);
    MR_ASSERT(p->n_registering == 0 && !p->ready);
    p->ready = !p->failed;
    mr_status *st = mr_status_copy(p->failed);
    /* Steps that arrive from now on start by themselves, or get the error. */
    MR_VEC(mr_master_run *) waiting = {0};
    for (int i = 0; i < p->waiting.n; i++)
        mr_vec_push(&waiting, p->waiting.p[i]);
    p->waiting.n = 0;
    if (st)
        forget_failed_locked(p);
    mr_unlock(&s->mu);
    if (st)
        deregister_parts(p);
    for (int i = 0; i < waiting.n; i++)
        if (st)
            mr_master_run_answer(waiting.p[i], mr_status_copy(st));
        else
            mr_master_run_begin(waiting.p[i]);
    mr_status_free(st);
    mr_vec_deinit(&waiting);
    mr_msession_leave(s);
    mr_msession_unref(s);
}

/* *out is the caller's, also on failure. */
static mr_status *read_handle(mr_bytes *reply, char **out)
{
    mr_sv bytes;
    MR_TRY(mr_bytes_flat(reply, &bytes));
    mr_sv handle = mr_wire_field(bytes, 1);
    *out = mr_strndup(handle.p, handle.n);
    return handle.n ? NULL : mr_error(MR_INTERNAL, "The RegisterGraphResponse has no handle");
}

/* A task has answered. CANCELLED without a reason of ours means that the task's server was stopped
 * while it worked on the call. */
static void part_registered(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_mregister *c = (mr_mregister *)r;
    mr_mprogram *p = c->program;
    mr_mpart *part = &p->parts[c->part];
    char *handle = NULL;
    st = mr_wire_unmark(st);
    if (!st)
        st = read_handle(reply, &handle);
    if (mr_status_code(st) == MR_CANCELLED) {
        mr_status_free(st);
        st = mr_error(MR_UNAVAILABLE, "The server was stopped");
    }
    if (st)
        mr_status_prepend(st, "From %s:\n", mr_task_peers_task(p->session->peers, part->task)->name);
    mr_lock(&p->session->mu);
    MR_ASSERT(!c->over && p->n_registering > 0);
    c->over = true;
    if (c->lost) {
        mr_status_free(st);
        st = c->lost;
        c->lost = NULL;
    }
    part->handle = handle;
    mr_status_update(&p->failed, st);
    bool last = --p->n_registering == 0;
    mr_unlock(&p->session->mu);
    if (last)
        registered_all(p);
}

/* Sends one part. The GraphDef moves into the request; it is not needed afterwards. It is the last field, so
 * that it can follow the others as a separate piece. A cancellation that came before the call was started is
 * carried out here.
 *
 * Fields: 1 session_handle, 2 graph_def, 6 create_worker_session_called, 8 config_proto. */
static void register_part(mr_mprogram *p, int i)
{
    mr_mregister *c = &p->calls[i];
    int task = p->parts[i].task;
    mr_str head = {0};
    mr_pb_writer w;
    c->program = p;
    c->part = i;
    c->request = (mr_net_request){.method = MR_WORKER_SERVICE "RegisterGraph", .done = part_registered};
    mr_pb_writer_init(&w, &head);
    mr_pb_put_bytes(&w, 1, mr_sv_of(p->session->handle));
    mr_pb_put_varint(&w, 6, 1);
    if (p->session->config.group_leader[0]) /* all tasks of the session must ask the same group leader */
        mr_pb_put_bytes(&w, 8, mr_str_view(&p->session->config_proto));
    mr_pb_put_header(&w, 2, p->parts[i].graph_def.n);
    mr_bytes_add_str(&c->request.body, &head);
    mr_bytes_add_str(&c->request.body, &p->parts[i].graph_def);
    mr_task_peers_ask(p->session->peers, task, &c->request);
    mr_lock(&p->session->mu);
    c->started = true;
    bool cancelled = c->cancelled;
    mr_unlock(&p->session->mu);
    if (cancelled)
        mr_task_peers_cancel(p->session->peers, task, &c->request);
}

/* Sends all parts to their tasks. The function counts as one of the calls, so registered_all is not
 * called before all are sent. Tasks that were lost before their call could be found are handled at the
 * end. */
static void register_all(mr_mprogram *p)
{
    int n = p->n_parts;
    mr_lock(&p->session->mu);
    p->session->n_open++;
    mr_refs_take(&p->session->refs);
    MR_ASSERT(p->n_registering == 0 && !p->calls);
    p->n_registering = n + 1; /* 1: this function */
    p->calls = mr_new_array(mr_mregister, n + 1);
    mr_unlock(&p->session->mu);
    for (int i = 0; i < n; i++)
        register_part(p, i);
    for (int i = 0; i < n; i++)
        mr_msession_stop_lost(p->session, p->parts[i].task);
    mr_lock(&p->session->mu);
    bool last = --p->n_registering == 0;
    mr_unlock(&p->session->mu);
    if (last)
        registered_all(p);
}

/* Finds a registration with the task (-1: with any) that is under way and not cancelled yet. The
 * session's lock is held; the caller has a reference to the session, which keeps the program. */
static mr_mregister *find_registering_locked(mr_msession *s, int task)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(&s->programs, &pos, &key, &v)) {
        mr_mprogram *p = v;
        for (int i = 0; p->n_registering > 0 && i < p->n_parts; i++)
            if (!p->calls[i].over && !p->calls[i].cancelled && (task < 0 || p->parts[i].task == task))
                return &p->calls[i];
    }
    return NULL;
}

/* Cancelling may complete the call in this thread, so the lock is not held then, and the table is
 * searched again each time. */
void mr_msession_stop_registrations(mr_msession *s, int task, const mr_status *why)
{
    for (;;) {
        mr_lock(&s->mu);
        mr_mregister *c = find_registering_locked(s, task);
        bool started = c && c->started;
        if (c) {
            c->cancelled = true;
            c->lost = mr_status_copy(why);
        }
        mr_unlock(&s->mu);
        if (!c)
            return;
        if (started)
            mr_task_peers_cancel(s->peers, c->program->parts[c->part].task, &c->request);
    }
}

/* Starts the step if its program is registered, registers the program if this is its first step, and
 * otherwise lets the step wait. A program is sent only once, so a step that found it before it failed
 * gets its error. */
void mr_master_run_start_when_ready(mr_master_run *t)
{
    mr_mprogram *p = t->program;
    mr_lock(&t->session->mu);
    bool ready = p->ready, idle = !ready && p->n_registering == 0 && p->waiting.n == 0;
    mr_status *failed = idle ? mr_status_copy(p->failed) : NULL;
    bool first = idle && !failed;
    if (!ready && !failed)
        mr_vec_push(&p->waiting, t);
    mr_unlock(&t->session->mu);
    if (ready)
        mr_master_run_begin(t);
    else if (failed)
        mr_master_run_answer(t, failed);
    else if (first)
        register_all(p);
}
