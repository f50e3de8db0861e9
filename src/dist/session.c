/* dist/session.c -- how a session over several tasks is created, and undone after an error.
 *
 * Creation has two rounds: all members are asked for their devices, then all get a session.
 * n_waiting counts the calls under way; nothing happens between rounds until it is 0. A task whose
 * call to make a session was sent may have one, whatever it answered, so after an error all those
 * are told to delete it. The actions for two members:
 *
 *     all goes well     ASK 0, ASK 1, GATHER, MAKE 0, MAKE 1, REPLY
 *     MAKE 1 fails      ASK 0, ASK 1, GATHER, MAKE 0, MAKE 1, CANCEL 0, DELETE 0, DELETE 1, REPLY
 *
 * CANCEL 0 comes only if the answer of 0 has not come yet. */
#include "dist/session.h"

#include "base/memory.h"

/* ---- creation ---- */

void mr_creation_init(mr_creation *c, int n_tasks, const bool *member)
{
    *c = (mr_creation){.n = n_tasks,
                       .member = mr_new_array(bool, n_tasks + 1),
                       .waiting = mr_new_array(bool, n_tasks + 1),
                       .asked_to_make = mr_new_array(bool, n_tasks + 1)};
    for (int i = 0; i < n_tasks; i++)
        c->member[i] = member[i];
}

void mr_creation_deinit(mr_creation *c)
{
    mr_free(c->member);
    mr_free(c->waiting);
    mr_free(c->asked_to_make);
    mr_status_free(c->st);
    *c = (mr_creation){0};
}

static void add_action(mr_create_actions *out, mr_create_do what, int task)
{
    mr_create_action a = {what, task};
    mr_vec_push(out, a);
}

/* Starts a round. */
static void ask_all(mr_creation *c, mr_create_do what, mr_create_actions *out)
{
    MR_ASSERT(c->n_waiting == 0);
    for (int i = 0; i < c->n; i++) {
        if (!c->member[i])
            continue;
        c->waiting[i] = true;
        c->n_waiting++;
        c->asked_to_make[i] = what == MR_CREATE_MAKE;
        add_action(out, what, i);
    }
}

/* The last actions: undo after an error, then reply. */
static void end_creation(mr_creation *c, mr_create_actions *out)
{
    for (int i = 0; c->st && i < c->n; i++)
        if (c->asked_to_make[i])
            add_action(out, MR_CREATE_DELETE, i);
    add_action(out, MR_CREATE_REPLY, -1);
}

/* Does nothing until all calls of the round have ended. */
static void next_round(mr_creation *c, mr_create_actions *out)
{
    if (c->n_waiting > 0)
        return;
    if (c->st || c->making)
        end_creation(c, out);
    else
        add_action(out, MR_CREATE_GATHER, -1);
}

void mr_creation_begin(mr_creation *c, mr_create_actions *out)
{
    ask_all(c, MR_CREATE_ASK, out);
    next_round(c, out);
}

/* Cancels the calls under way, once. They are still answered. */
static void stop_others(mr_creation *c, mr_create_actions *out)
{
    if (c->stopping)
        return;
    c->stopping = true;
    for (int i = 0; i < c->n; i++)
        if (c->waiting[i])
            add_action(out, MR_CREATE_CANCEL, i);
}

/* The first error stops the others; a root error is reported rather than its consequences. */
void mr_creation_came(mr_creation *c, int task, mr_status *st, mr_create_actions *out)
{
    if (task < 0 || task >= c->n || !c->waiting[task]) {
        mr_status_free(st);
        return;
    }
    c->waiting[task] = false;
    c->n_waiting--;
    MR_ASSERT(c->n_waiting >= 0);
    bool failed = st != NULL;
    /* A cancelled call fails as a consequence of whatever cancelled it. */
    if (failed && c->stopping)
        mr_status_mark_derived(st);
    mr_status_update(&c->st, st);
    if (failed)
        stop_others(c, out);
    next_round(c, out);
}

/* The caller has looked at all devices; the second round begins. */
void mr_creation_gathered(mr_creation *c, mr_status *st, mr_create_actions *out)
{
    MR_ASSERT(!c->making && c->n_waiting == 0);
    mr_status_update(&c->st, st);
    if (c->st) {
        end_creation(c, out);
        return;
    }
    c->making = true;
    ask_all(c, MR_CREATE_MAKE, out);
    next_round(c, out);
}

/* Between two rounds nothing is under way; the error is noticed where the next one would begin. */
void mr_creation_stop(mr_creation *c, mr_status *why, mr_create_actions *out)
{
    mr_status_update(&c->st, why);
    stop_others(c, out);
}

mr_status *mr_creation_result(mr_creation *c)
{
    mr_status *st = c->st;
    c->st = NULL;
    return st;
}

/* ---- repeating requests ---- */

/* Doubles from 100 ms to 10 s. */
int64_t mr_tell_again_ns(int tries, mr_code code)
{
    enum { MAX_TRIES = 66 };
    bool may_help = code == MR_UNAVAILABLE || code == MR_DEADLINE_EXCEEDED;
    if (!may_help || tries >= MAX_TRIES)
        return -1;
    int64_t ns = INT64_C(100000000) << MR_MIN(tries, 7);
    return MR_MIN(ns, INT64_C(10000000000));
}

/* ---- at a worker ---- */

/* A hash (FNV-1a) by which deleted handles are remembered; never 0. */
static uint64_t number_of(mr_sv handle)
{
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < handle.n; i++)
        h = (h ^ (unsigned char)handle.p[i]) * 1099511628211u;
    return h ? h : 1;
}

void mr_worker_sessions_deinit(mr_worker_sessions *t)
{
    mr_map_deinit(&t->by_handle);
    mr_recent_deinit(&t->over);
}

/* The table owns the session; the caller sets its host. A late request for a deleted session is refused, because no
 * DeleteWorkerSession would follow it. */
mr_status *mr_worker_sessions_add(mr_worker_sessions *t, mr_sv handle, mr_sv master, uint64_t incarnation,
                                  mr_worker_session **out)
{
    *out = NULL;
    if (memchr(handle.p, 0, handle.n)) /* it is kept as a C string, by which it is found again */
        return mr_invalid("A session handle of %zu bytes contains a zero byte", handle.n);
    if (mr_map_has(&t->by_handle, handle))
        return mr_error(MR_ALREADY_EXISTS, "Session %.*s already exists", MR_SV_ARG(handle));
    if (mr_recent_has(&t->over, number_of(handle)))
        return mr_error(MR_ABORTED, "Session %.*s was deleted", MR_SV_ARG(handle));
    mr_worker_session *s = mr_new(mr_worker_session);
    s->handle = mr_strndup(handle.p, handle.n);
    s->master = mr_strndup(master.p, master.n);
    s->incarnation = incarnation;
    mr_map_put(&t->by_handle, handle, s);
    *out = s;
    return NULL;
}

mr_worker_session *mr_worker_sessions_find(const mr_worker_sessions *t, mr_sv handle)
{
    return mr_map_get(&t->by_handle, handle);
}

/* The handle may be the session's own, so it is used before the session is freed. */
void *mr_worker_sessions_end(mr_worker_sessions *t, mr_sv handle)
{
    uint64_t number = number_of(handle);
    mr_worker_session *s = mr_map_remove(&t->by_handle, handle);
    void *host = s ? s->host : NULL;
    if (handle.n) /* "" is shared by all masters that create no session, and is used again */
        mr_recent_add(&t->over, number);
    if (s) {
        mr_free(s->handle);
        mr_free(s->master);
        mr_free(s);
    }
    return host;
}

/* See the header. A session without an incarnation is never taken for abandoned. */
mr_worker_session *mr_worker_sessions_left_by(const mr_worker_sessions *t, const mr_sv *master, uint64_t incarnation)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(&t->by_handle, &pos, &key, &v)) {
        const mr_worker_session *s = v;
        if (!master || (mr_sv_is(*master, s->master) && s->incarnation && s->incarnation != incarnation))
            return v;
    }
    return NULL;
}
