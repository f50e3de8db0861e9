/* dist/membership.c -- which tasks are alive.
 *
 * The states of a task, and the events that are reported:
 *
 *     UNHEARD -> ALIVE     its first message: JOINED
 *     ALIVE   -> SUSPECT   silent for suspect_ns: SUSPECTED
 *     SUSPECT -> ALIVE     a message of the same incarnation: CLEARED
 *     either  -> LOST      silent for lost_ns, or its end was noticed: LEFT
 *     LOST    -> ALIVE     a message of the same incarnation: JOINED
 *     any     -> ALIVE     a message of a later incarnation: RESTARTED
 *
 * The case to keep in mind: a task runs as incarnations A, B, C in short succession, and a call of
 * B arrives after C was heard. If it were taken for a restart, C would count as past, and its
 * messages would be ignored from then on. Hence past incarnations are remembered, and another one
 * is believed only under the conditions of is_later. */
#include "dist/membership.h"

#include "base/status.h"

#define SECOND INT64_C(1000000000)

const mr_membership_times mr_membership_default = {SECOND, 3 * SECOND, 10 * SECOND};

void mr_membership_init(mr_membership *m, int n, int self, const mr_membership_times *times, int64_t now_ns)
{
    *m = (mr_membership){.times = times ? *times : mr_membership_default,
                         .n = n,
                         .self = self,
                         .members = mr_new_array(mr_member, n + 1)};
    for (int i = 0; i < n; i++)
        m->members[i] = (mr_member){.state = i == self ? MR_MEMBER_ALIVE : MR_MEMBER_UNHEARD,
                                    .since_ns = now_ns,
                                    .heard_ns = now_ns,
                                    .ask_ns = now_ns};
}

void mr_membership_deinit(mr_membership *m)
{
    mr_free(m->members);
    *m = (mr_membership){0};
}

static void add_event(mr_member_events *out, mr_member_what what, int task, uint64_t incarnation)
{
    mr_member_event e = {what, task, incarnation};
    mr_vec_push(out, e);
}

static void enter_state(mr_member *b, mr_member_state state, int64_t now_ns)
{
    b->state = state;
    b->since_ns = now_ns;
}

/* The newest MR_INCARNATIONS_REMEMBERED earlier incarnations are known. */
static bool is_past(const mr_member *b, uint64_t incarnation)
{
    for (int i = 0; i < MR_INCARNATIONS_REMEMBERED; i++)
        if (b->past[i] == incarnation)
            return true;
    return false;
}

/* Another incarnation takes the place of the present one, which is remembered as past. */
static void replace_incarnation(mr_member *b, uint64_t incarnation, int64_t now_ns)
{
    MR_ASSERT(incarnation != 0 && incarnation != b->incarnation);
    for (int i = 0; i < MR_INCARNATIONS_REMEMBERED; i++)
        if (b->past[i] == incarnation)
            b->past[i] = 0;
    if (b->incarnation) {
        b->past[b->at] = b->incarnation;
        b->at = (b->at + 1) % MR_INCARNATIONS_REMEMBERED;
    }
    b->incarnation = incarnation;
    b->born_ns = now_ns;
}

/* Whether another incarnation than the present one is later: it answered something that was asked
 * after the present one was first heard, or the present one is lost and this one is not known to be
 * past. */
static bool is_later(const mr_member *b, uint64_t incarnation, int64_t asked_ns)
{
    return asked_ns > b->born_ns || (b->state == MR_MEMBER_LOST && !is_past(b, incarnation));
}

static bool watched(const mr_membership *m, int task) { return task >= 0 && task < m->n && task != m->self; }

/* ---- messages ---- */

/* What a message of this incarnation means; *is_event is false if it changes no state. */
static mr_member_what sign_of(const mr_member *b, uint64_t incarnation, bool *is_event)
{
    *is_event = true;
    if (b->incarnation && b->incarnation != incarnation)
        return MR_MEMBER_RESTARTED;
    if (b->state == MR_MEMBER_SUSPECT)
        return MR_MEMBER_CLEARED;
    *is_event = b->state != MR_MEMBER_ALIVE;
    return MR_MEMBER_JOINED;
}

/* A late message of an earlier incarnation changes nothing, not even heard_ns. */
bool mr_membership_heard(mr_membership *m, int task, uint64_t incarnation, int64_t asked_ns, int64_t now_ns,
                         mr_member_events *out)
{
    if (!watched(m, task) || incarnation == 0)
        return task == m->self;
    mr_member *b = &m->members[task];
    bool is_event;
    if (b->incarnation && b->incarnation != incarnation && !is_later(b, incarnation, asked_ns))
        return false;
    mr_member_what what = sign_of(b, incarnation, &is_event);
    if (b->incarnation != incarnation)
        replace_incarnation(b, incarnation, now_ns);
    b->heard_ns = now_ns;
    if (is_event) {
        enter_state(b, MR_MEMBER_ALIVE, now_ns);
        add_event(out, what, task, incarnation);
    }
    return true;
}

/* ---- losses ---- */

/* A later message of the same incarnation brings the task back (JOINED). */
static void lose_member(mr_member *b, int task, int64_t now_ns, mr_member_events *out)
{
    MR_ASSERT(b->state == MR_MEMBER_ALIVE || b->state == MR_MEMBER_SUSPECT);
    enter_state(b, MR_MEMBER_LOST, now_ns);
    add_event(out, MR_MEMBER_LEFT, task, b->incarnation);
}

/* A report about another incarnation than the present one is ignored. */
void mr_membership_gone(mr_membership *m, int task, uint64_t incarnation, int64_t now_ns, mr_member_events *out)
{
    if (!watched(m, task))
        return;
    mr_member *b = &m->members[task];
    bool present = b->incarnation && (incarnation == 0 || incarnation == b->incarnation);
    if (present && (b->state == MR_MEMBER_ALIVE || b->state == MR_MEMBER_SUSPECT))
        lose_member(b, task, now_ns, out);
}

/* A task that was never heard is not lost: a cluster starts one task at a time. */
static void judge_silence(const mr_membership *m, mr_member *b, int task, int64_t now_ns, mr_member_events *out)
{
    int64_t silent_ns = now_ns - MR_MAX(b->heard_ns, b->cared_ns);
    bool here = b->state == MR_MEMBER_ALIVE || b->state == MR_MEMBER_SUSPECT;
    if (here && silent_ns >= m->times.lost_ns) {
        lose_member(b, task, now_ns, out);
    } else if (b->state == MR_MEMBER_ALIVE && silent_ns >= m->times.suspect_ns) {
        enter_state(b, MR_MEMBER_SUSPECT, now_ns);
        add_event(out, MR_MEMBER_SUSPECTED, task, b->incarnation);
    }
}

/* Repeated calls have no effect, so callers need not remember what they said. */
void mr_membership_care(mr_membership *m, int task, bool on, int64_t now_ns)
{
    if (!watched(m, task) || m->members[task].ignored == !on)
        return;
    mr_member *b = &m->members[task];
    b->ignored = !on;
    if (on && b->state == MR_MEMBER_SUSPECT) /* it was not watched, so its silence meant nothing */
        enter_state(b, MR_MEMBER_ALIVE, now_ns);
    if (on)
        b->cared_ns = now_ns;
}

void mr_membership_slept(mr_membership *m, int64_t now_ns)
{
    for (int i = 0; i < m->n; i++)
        m->members[i].cared_ns = now_ns;
}

/* Judges every watched task, and lists those whose heartbeat is due. */
int64_t mr_membership_tick(mr_membership *m, int64_t now_ns, mr_member_events *out, mr_member_tasks *ask)
{
    int64_t next_ns = now_ns + m->times.ask_ns;
    for (int i = 0; i < m->n; i++) {
        mr_member *b = &m->members[i];
        if (i == m->self || b->ignored)
            continue;
        judge_silence(m, b, i, now_ns, out);
        if (b->ask_ns <= now_ns) {
            b->ask_ns = now_ns + m->times.ask_ns;
            if (ask)
                mr_vec_push(ask, i);
        }
        next_ns = MR_MIN(next_ns, b->ask_ns);
    }
    MR_ASSERT(next_ns > now_ns);
    return next_ns;
}

bool mr_membership_ended(const mr_membership *m, int task, uint64_t incarnation)
{
    if (!watched(m, task) || incarnation == 0)
        return false;
    const mr_member *b = &m->members[task];
    return is_past(b, incarnation) || (b->state == MR_MEMBER_LOST && b->incarnation == incarnation);
}

const char *mr_member_what_name(mr_member_what what)
{
    static const char *const names[] = {"joined", "left", "restarted", "suspected", "cleared"};
    MR_ASSERT((unsigned)what < (unsigned)MR_COUNT(names));
    return names[what];
}
