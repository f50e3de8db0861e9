/* dist/sync.c -- the members of a barrier, and the count that opens it.
 *
 * Only the count that a step requires depends on the speed of workers, and within a step it can
 * only fall. So whatever is chosen, every step is completed once, with gradients of its own stamp.
 *
 * The states of a worker:
 *
 *     UNHEARD -> ACTIVE    its first message, except LEAVE
 *     UNHEARD -> SILENT    join_ns is over
 *     ACTIVE  -> SILENT    no message for lease_ns
 *     SILENT  -> ACTIVE    any message, except LEAVE
 *     any     -> LEFT      LEAVE; only JOIN makes it ACTIVE again
 *
 * Invariant between events: fewer workers have arrived than the step requires (else it would have
 * been applied), or the start still waits for workers that were never heard. */
#include "dist/sync.h"

#include "base/memory.h"
#include "base/status.h"

void mr_sync_init(mr_sync *s, const mr_sync_options *o, int64_t stamp, int64_t now_ns)
{
    *s = (mr_sync){.o = *o, .last_ns = now_ns, .stamp = stamp, .first = stamp};
    s->members = mr_new_array(mr_sync_member, o->n_workers + 1);
    if (o->aggregate == MR_SYNC_ADAPTIVE)
        mr_backups_init(&s->backups, o->n_workers, 0);
    mr_delay_init(&s->delay, &(mr_delay_options){.bound = o->delay}, 0);
}

void mr_sync_deinit(mr_sync *s)
{
    mr_free(s->members);
    mr_backups_deinit(&s->backups);
    mr_delay_deinit(&s->delay);
    *s = (mr_sync){0};
}

void mr_sync_remember_left(mr_sync *s, int worker)
{
    MR_ASSERT(worker >= 0 && worker < s->o.n_workers && s->members[worker].state == MR_SYNC_UNHEARD);
    s->members[worker].state = MR_SYNC_LEFT;
}

/* Silence counts only while we listen. With leases at least the chief itself sends a message several
 * times in each. If none came for longer, we did not listen (stopped, or cut off), and the messages of
 * all that time may be waiting behind this one. */
static int64_t listened_ns(mr_sync *s, int64_t now_ns)
{
    int64_t gap_ns = MR_MAX(0, now_ns - s->last_ns);
    s->last_ns = now_ns;
    s->listened_ns += s->o.lease_ns > 0 ? MR_MIN(gap_ns, s->o.lease_ns - s->o.lease_ns / 2) : gap_ns;
    return s->listened_ns;
}

static int count_members(const mr_sync *s, mr_sync_state state)
{
    int n = 0;
    for (int i = 0; i < s->o.n_workers; i++)
        n += s->members[i].state == state;
    return n;
}

static int count_arrived(const mr_sync *s)
{
    int n = 0;
    for (int i = 0; i < s->o.n_workers; i++)
        n += s->members[i].arrived;
    return n;
}

/* The gradients of a worker that arrived and then left or fell silent are in the accumulators and
 * count, but they do not replace those of another worker. */
int mr_sync_required(const mr_sync *s)
{
    int n = 0;
    if (count_members(s, MR_SYNC_UNHEARD))
        return 0;
    for (int i = 0; i < s->o.n_workers; i++)
        n += s->members[i].state == MR_SYNC_ACTIVE || s->members[i].arrived;
    int enough = s->o.aggregate == MR_SYNC_ADAPTIVE ? s->wait_for : s->o.aggregate;
    return enough > 0 ? MR_MIN(enough, n) : n;
}

/* Sends a worker the present stamp. */
static void give_token(mr_sync *s, int worker, mr_sync_actions *out)
{
    MR_ASSERT(worker >= 0 && worker < s->o.n_workers && !s->o.bounded);
    mr_sync_action a = {.what = MR_SYNC_TOKEN, .worker = worker, .stamp = s->stamp};
    mr_vec_push(out, a);
    s->members[worker].told_ns = s->listened_ns;
}

/* ---- durations ---- */

/* When a worker began with a stamp. An idle worker takes the newest token, so it began when that
 * token was given, or when it became idle, whichever is later. For a stamp from long ago only the
 * latter is known. */
static int64_t began_ns(const mr_sync *s, const mr_sync_member *m, int64_t stamp)
{
    bool known = stamp <= s->stamp && s->stamp - stamp < MR_SYNC_REMEMBERED;
    return known ? MR_MAX(m->free_ns, s->began_ns[(uint64_t)stamp % MR_SYNC_REMEMBERED]) : m->free_ns;
}

/* Messages may be repeated, and stamps of earlier chiefs mean nothing: each arrival counts once. */
static void note_arrival(mr_sync *s, int worker, int64_t stamp, int64_t now_ns)
{
    mr_sync_member *m = &s->members[worker];
    if (stamp <= m->gave || stamp > s->stamp || stamp < s->first)
        return;
    m->took_ns = now_ns - began_ns(s, m, stamp);
    if (s->o.aggregate == MR_SYNC_ADAPTIVE)
        mr_backups_took(&s->backups, worker, m->took_ns);
    m->gave = stamp;
    m->free_ns = now_ns;
    m->n_gave++;
    m->n_late += stamp < s->stamp;
}

/* How long a worker has been busy; 0: it waits for a token. */
static int64_t since_ns(const mr_sync *s, const mr_sync_member *m, int64_t now_ns)
{
    if (m->gave == s->stamp)
        return 0;
    return now_ns - (m->gave ? began_ns(s, m, m->gave + 1) : m->free_ns);
}

/* Decides how many workers the step waits for, from which are active and how long each has been busy. */
static void choose_wait(mr_sync *s, int64_t now_ns)
{
    MR_ASSERT(s->o.aggregate == MR_SYNC_ADAPTIVE);
    for (int i = 0; i < s->o.n_workers; i++) {
        const mr_sync_member *m = &s->members[i];
        mr_backups_there(&s->backups, i, m->state == MR_SYNC_ACTIVE || m->arrived, since_ns(s, m, now_ns));
    }
    s->wait_for = mr_backups_choose(&s->backups);
    s->chosen_ns = now_ns;
}

/* Within a step: when it has lasted twice as long as expected, and again each time it has lasted
 * half as long more, the number may fall. */
static void wait_for_fewer(mr_sync *s, int64_t now_ns)
{
    int64_t began = s->began_ns[(uint64_t)s->stamp % MR_SYNC_REMEMBERED];
    double lasted_ns = (double)(now_ns - began), thought_ns = (double)(s->chosen_ns - began);
    double expected_ns = mr_backups_expected_ns(&s->backups, s->wait_for);
    int before = s->wait_for;
    if (expected_ns <= 0 || lasted_ns <= 2 * expected_ns || lasted_ns <= 1.5 * thought_ns)
        return;
    choose_wait(s, now_ns);
    s->wait_for = MR_MIN(before, s->wait_for);
}

/* A worker sent a message. One that comes (back) gets a token, unless its gradient for this stamp
 * is already in: then the next token is for it too. */
static void hear_worker(mr_sync *s, const mr_sync_event *e, int64_t now_ns, mr_sync_actions *out)
{
    MR_ASSERT(e->worker >= 0 && e->worker < s->o.n_workers);
    mr_sync_member *m = &s->members[e->worker];
    bool comes = e->message == MR_SYNC_JOIN || m->state == MR_SYNC_UNHEARD || m->state == MR_SYNC_SILENT;
    m->heard_ns = now_ns;
    if (e->message == MR_SYNC_ARRIVED && !s->o.bounded)
        note_arrival(s, (int)e->worker, e->stamp, now_ns);
    if (comes)
        m->free_ns = now_ns;
    if (e->message == MR_SYNC_LEAVE) {
        m->state = MR_SYNC_LEFT;
        return;
    }
    if (m->state == MR_SYNC_LEFT && e->message != MR_SYNC_JOIN) /* sent before it left */
        return;
    m->state = MR_SYNC_ACTIVE;
    if (s->o.bounded)
        return;
    if (e->message == MR_SYNC_ARRIVED && e->stamp == s->stamp)
        m->arrived = true;
    if (comes && !m->arrived)
        give_token(s, (int)e->worker, out);
}

/* A limit of 0 means never. */
static bool is_over(int64_t since_ns, int64_t now_ns, int64_t limit_ns)
{
    return limit_ns > 0 && now_ns - since_ns > limit_ns;
}

/* Workers whose lease is over, or that were never heard in join_ns, are no longer waited for. */
static void expire_members(mr_sync *s, int64_t now_ns)
{
    for (int i = 0; i < s->o.n_workers; i++) {
        mr_sync_member *m = &s->members[i];
        if ((m->state == MR_SYNC_ACTIVE && is_over(m->heard_ns, now_ns, s->o.lease_ns)) ||
            (m->state == MR_SYNC_UNHEARD && is_over(0, now_ns, s->o.join_ns)))
            m->state = MR_SYNC_SILENT;
    }
}

/* A token, or the message that a worker arrived, may have been taken by a step of a session that is
 * gone; then both sides would wait without end. So tokens are repeated once per lease, and a worker
 * that gets its token twice reports again what it did. */
static void tell_again(mr_sync *s, int64_t now_ns, mr_sync_actions *out)
{
    for (int i = 0; i < s->o.n_workers; i++) {
        const mr_sync_member *m = &s->members[i];
        if (m->state == MR_SYNC_ACTIVE && !m->arrived && is_over(m->told_ns, now_ns, s->o.lease_ns))
            give_token(s, i, out);
    }
}

/* Ends the step if enough workers have arrived: the gradients are applied, the stamp rises, and all
 * active workers get tokens. */
static void apply_if_complete(mr_sync *s, int64_t now_ns, mr_sync_actions *out)
{
    if (s->o.aggregate == MR_SYNC_ADAPTIVE)
        wait_for_fewer(s, now_ns);
    int required = mr_sync_required(s), arrived = count_arrived(s);
    if (required == 0 || arrived < required)
        return;
    s->stamp++;
    s->began_ns[(uint64_t)s->stamp % MR_SYNC_REMEMBERED] = now_ns;
    mr_sync_action a = {.what = MR_SYNC_APPLY, .count = arrived, .stamp = s->stamp};
    mr_vec_push(out, a);
    for (int i = 0; i < s->o.n_workers; i++) {
        s->members[i].arrived = false;
        if (s->members[i].state != MR_SYNC_ACTIVE)
            continue;
        if (s->members[i].gave == s->stamp - 1)
            s->members[i].waited_ns += now_ns - s->members[i].free_ns;
        give_token(s, i, out);
    }
    if (s->o.aggregate == MR_SYNC_ADAPTIVE)
        choose_wait(s, now_ns);
}

/* A silent worker is not waited for in a step, but may only be cut off or slow: training ends
 * without it when its silence has lasted much longer. */
static bool all_have_left(const mr_sync *s, int64_t now_ns)
{
    for (int i = 0; i < s->o.n_workers; i++) {
        const mr_sync_member *m = &s->members[i];
        bool long_silent = s->o.lease_ns == 0 || is_over(m->heard_ns, now_ns, MR_SYNC_PATIENCE * s->o.lease_ns);
        if (m->state != MR_SYNC_LEFT && !(m->state == MR_SYNC_SILENT && long_silent))
            return false;
    }
    return true;
}

/* ---- bounded delay ---- */

/* Iterations of dist/delay.h are counted from the first stamp. */
static void delay_message(mr_sync *s, int64_t worker, mr_delay_message message, int64_t stamp, int64_t now_ns,
                       mr_delay_actions *out)
{
    mr_delay_step(&s->delay, &(mr_delay_event){worker, message, stamp - s->first}, now_ns, out);
}

/* Translates a message for dist/delay.h. A worker that sends anything while it is unknown joins
 * with it, and a worker that joins wants to begin. */
static void hear_bounded(mr_sync *s, const mr_sync_event *e, int64_t now_ns, mr_delay_actions *out)
{
    const mr_delay_worker *w = mr_delay_find(&s->delay, e->worker);
    bool there = w && w->state != MR_DELAY_GONE;
    if (s->members[e->worker].state != MR_SYNC_ACTIVE) {
        delay_message(s, e->worker, MR_DELAY_LEAVE, 0, now_ns, out);
        return;
    }
    if (there && e->message == MR_SYNC_ARRIVED && e->stamp >= s->first && e->stamp - s->first == w->clock) {
        delay_message(s, e->worker, MR_DELAY_FINISH, e->stamp, now_ns, out);
        delay_message(s, e->worker, MR_DELAY_ASK, e->stamp + 1, now_ns, out);
    } else if (!there || e->message == MR_SYNC_JOIN) {
        delay_message(s, e->worker, MR_DELAY_JOIN, 0, now_ns, out);
        w = mr_delay_find(&s->delay, e->worker);
        delay_message(s, e->worker, MR_DELAY_ASK, s->first + w->clock, now_ns, out);
    }
}

/* Sends a worker the stamp of its own next iteration. */
static void token_for(mr_sync *s, int64_t worker, int64_t iteration, mr_sync_actions *out)
{
    MR_ASSERT(s->o.bounded && worker >= 0 && worker < s->o.n_workers);
    mr_sync_action a = {.what = MR_SYNC_TOKEN, .worker = (int)worker, .stamp = s->first + iteration};
    mr_vec_push(out, a);
    s->members[worker].told_ns = s->listened_ns;
    s->stamp = MR_MAX(s->stamp, a.stamp);
}

/* A silent worker counts as lost for the others. If a worker has been busy for longer than a lease,
 * its token may have been lost, so it is repeated. */
static void pass_bounded(mr_sync *s, int64_t now_ns, mr_delay_actions *begun, mr_sync_actions *out)
{
    for (int i = 0; i < s->o.n_workers; i++)
        if (s->members[i].state == MR_SYNC_SILENT)
            delay_message(s, i, MR_DELAY_LOST, 0, now_ns, begun);
    for (int i = 0; i < begun->n; i++)
        if (begun->p[i].what == MR_DELAY_BEGIN)
            token_for(s, begun->p[i].worker, begun->p[i].iteration, out);
    for (int i = 0; i < s->o.n_workers; i++) {
        const mr_delay_worker *w = mr_delay_find(&s->delay, i);
        if (w && w->state == MR_DELAY_WORKING && is_over(s->members[i].told_ns, now_ns, s->o.lease_ns))
            token_for(s, i, w->clock, out);
    }
}

/* The step of a barrier with bounded delay: nothing is collected. */
static void step_bounded(mr_sync *s, const mr_sync_event *e, bool heard, int64_t now_ns, mr_sync_actions *out)
{
    mr_delay_actions begun = {0};
    if (heard)
        hear_bounded(s, e, now_ns, &begun);
    expire_members(s, now_ns);
    pass_bounded(s, now_ns, &begun, out);
    mr_vec_deinit(&begun);
}

/* With bounded delay dist/delay.c keeps the figures; a worker that never joined has those of the barrier, all 0. */
mr_sync_figures mr_sync_figures_of(const mr_sync *s, int worker)
{
    const mr_sync_member *m = &s->members[worker];
    const mr_delay_worker *w = s->o.bounded ? mr_delay_find(&s->delay, worker) : NULL;
    if (w)
        return (mr_sync_figures){.iterations = w->iterations, .waited_ns = mr_delay_waited_ns(w, s->listened_ns),
                                 .staleness = mr_delay_mean_staleness(w), .staleness_max = w->staleness_max,
                                 .waited_for = mr_delay_is_waited_for(&s->delay, w)};
    return (mr_sync_figures){.iterations = m->n_gave,
                             .late = m->n_late,
                             .waited_ns = m->waited_ns,
                             .waited_for =
                                 !s->o.bounded && m->state == MR_SYNC_ACTIVE && !m->arrived && count_arrived(s) > 0};
}

/* One event. Time passes with every event, also with an invalid one. */
void mr_sync_step(mr_sync *s, const mr_sync_event *e, int64_t now_ns, mr_sync_actions *out)
{
    if (s->ended)
        return;
    now_ns = listened_ns(s, now_ns);
    bool heard =
        e->worker >= 0 && e->worker < s->o.n_workers && e->message >= MR_SYNC_JOIN && e->message <= MR_SYNC_LEAVE;
    if (heard)
        hear_worker(s, e, now_ns, out);
    if (s->o.bounded) {
        step_bounded(s, e, heard, now_ns, out);
    } else {
        expire_members(s, now_ns);
        apply_if_complete(s, now_ns, out);
        tell_again(s, now_ns, out);
    }
    if (all_have_left(s, now_ns)) {
        mr_sync_action end = {.what = MR_SYNC_END};
        mr_vec_push(out, end);
        s->ended = true;
    }
}
