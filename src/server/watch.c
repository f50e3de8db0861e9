/* server/watch.c -- heartbeats.
 *
 * One timer runs while any task is held. At most one heartbeat per task is under way, because several
 * unanswered ones say no more than one. A refused connection says more than silence: the process is
 * gone. It is believed the second time, since the first one may be the end of an old connection.
 *
 * By default a task is asked every 0.7 s (less often, up to every 2 s, if more than 23 tasks are held), and
 * is lost after 7 s of silence. A task whose entry in the naming service has disappeared is doubted: it is
 * asked at the next tick, and is lost if it does not answer within half a second.
 *
 * dist/membership.c decides what follows from the answers. The pool tells those that rely on a task, not
 * the timer's or the transport's thread, because that takes locks and frees memory.
 *
 * Locks: mu is held for a few instructions, never around calls to others. */
#include "server/watch.h"

#include "base/clock.h"
#include "base/memory.h"

#define MS INT64_C(1000000)
#define TICK_NS (250 * MS)
#define ASK_NS_A_TASK (30 * MS) /* the period grows with the number of tasks, to limit the traffic */
#define LONGEST_ASK_NS (2000 * MS)
#define DOUBTS_IN_LOST 14 /* a task that the naming service has lost must answer in 1/14 of the usual time */

const mr_membership_times mr_watch_default = {700 * MS, 3000 * MS, 7000 * MS};

enum { REFUSALS = 2 };

/* The heartbeats to one task. */
typedef struct beat {
    mr_net_request request; /* first */
    mr_watch *watch;
    int task;
    /* Under the watch's lock: */
    int held;
    bool under_way;
    int64_t asked_ns;
    int refused;        /* connections in a row */
    int64_t doubted_ns; /* when the naming service lost it; 0: it has not */
    char *trouble;      /* how the last heartbeat failed, or NULL */
} beat;

/* The watch over the tasks of one cluster. */
struct mr_watch {
    mr_task_peers *peers; /* whose it is */
    mr_host *host;
    int n;
    mr_mutex mu;
    mr_membership members MR_GUARDED_BY(mu);
    int64_t ask_ns; /* the configured period */
    beat *beats;    /* by task */
    int n_held MR_GUARDED_BY(mu);
    bool ticking MR_GUARDED_BY(mu); /* the timer is set, or its callback runs */
    bool stopped MR_GUARDED_BY(mu);
    int64_t looked_ns MR_GUARDED_BY(mu); /* the last tick */
    mr_timer timer;
};

/* ---- notices ---- */

/* The pool's task of telling the host about a change. */
typedef struct notice {
    mr_task task; /* first */
    mr_task_peers *peers;
    int of;
} notice;

/* Runs on the pool, with no lock held: the host ends whatever relied on the old incarnation. */
static void give_notice(mr_task *t)
{
    notice n = *(notice *)t;
    mr_free(t);
    n.peers->host->incarnation_changed(n.peers->host->arg, n.peers, n.of);
    mr_task_peers_unref(n.peers);
}

/* Lets the pool tell the host about the events. The pool exists: no request is answered and no timer
 * runs after its end. */
static void tell_events(mr_watch *w, mr_member_events *events)
{
    for (int i = 0; i < events->n; i++) {
        mr_member_what what = events->p[i].what;
        if (what == MR_MEMBER_SUSPECTED || what == MR_MEMBER_CLEARED)
            continue;
        notice *n = mr_new(notice);
        *n = (notice){{.fn = give_notice}, mr_task_peers_ref(w->peers), events->p[i].task};
        mr_pool_submit(w->host->pool, &n->task);
    }
    mr_vec_deinit(events);
}

/* ---- heartbeats ---- */

/* Reads the incarnation of a process, which is that of its first device. UNAVAILABLE if another task's
 * process answers: it may have taken the port. */
static mr_status *read_incarnation(mr_task_peers *p, int number, mr_bytes *reply, uint64_t *out)
{
    const mr_task_address *task = mr_task_peers_task(p, number);
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv bytes;
    mr_device *d = NULL;
    *out = 0;
    MR_TRY(mr_bytes_flat(reply, &bytes));
    mr_pb_reader_init(&r, bytes);
    while (!d && mr_pb_next(&r, &field, &wire))
        if (field == 1)
            MR_TRY(mr_device_attributes_decode(mr_pb_bytes(&r), &d));
        else
            mr_pb_skip(&r);
    mr_status *st = mr_pb_reader_status(&r, "GetStatusResponse");
    /* In a cluster that a client brought, tasks have other names than their own, so they cannot be compared. */
    size_t n = strlen(task->name);
    if (!st && d && !p->brought && (strncmp(d->name, task->name, n) != 0 || d->name[n] != '/')) {
        mr_str at = {0};
        mr_task_peers_where(p, number, &at);
        st = mr_error(MR_UNAVAILABLE, "%s answers at %s instead", d->name, mr_str_z(&at));
        mr_str_deinit(&at);
    }
    *out = d && !st ? d->incarnation : 0;
    mr_device_free(d);
    return st;
}

/* A heartbeat has failed. After a refused connection the next one is sent at the next tick. */
static void failed_locked(mr_watch *w, beat *b, const mr_status *st, int64_t now_ns, mr_member_events *events)
{
    mr_free(b->trouble);
    b->trouble = mr_strdup(mr_status_message(st));
    if (mr_status_code(st) != MR_UNAVAILABLE) {
        b->refused = 0;
        return;
    }
    w->members.members[b->task].ask_ns = now_ns; /* at the next tick */
    if (++b->refused >= REFUSALS)
        mr_membership_gone(&w->members, b->task, 0, now_ns, events);
}

/* A heartbeat has ended. After the watch has stopped nobody is told any more. */
static void beat_answered(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    beat *b = (beat *)r;
    mr_watch *w = b->watch;
    mr_member_events events = {0};
    uint64_t incarnation = 0;
    int64_t now_ns = mr_now_ns();
    if (!st)
        st = read_incarnation(w->peers, b->task, reply, &incarnation);
    mr_lock(&w->mu);
    MR_ASSERT(b->under_way);
    b->under_way = false; /* the request may be reused from the next tick on */
    if (st) {
        failed_locked(w, b, st, now_ns, &events);
    } else {
        b->refused = 0;
        b->doubted_ns = 0;
        mr_free(b->trouble);
        b->trouble = NULL;
        mr_membership_heard(&w->members, b->task, incarnation, b->asked_ns, now_ns, &events);
    }
    if (w->stopped)
        events.n = 0;
    mr_unlock(&w->mu);
    mr_status_free(st);
    tell_events(w, &events);
}

static void run_tick(mr_timer *t);

/* Sets the timer if any task is held. */
static void arm_locked(mr_watch *w) MR_REQUIRES(w->mu);
static void arm_locked(mr_watch *w)
{
    w->ticking = w->n_held > 0 && !w->stopped;
    if (w->ticking)
        mr_timers_set(w->host->timers, &w->timer, mr_now_ns() + TICK_NS, run_tick);
}

/* Declares those tasks lost that the naming service has lost, and that have not answered a heartbeat
 * since then. */
static void judge_doubted_locked(mr_watch *w, int64_t now_ns, mr_member_events *events) MR_REQUIRES(w->mu);
static void judge_doubted_locked(mr_watch *w, int64_t now_ns, mr_member_events *events)
{
    for (int i = 0; i < w->n; i++) {
        beat *b = &w->beats[i];
        int64_t waited_ns = now_ns - MR_MAX(b->doubted_ns, b->asked_ns);
        if (!b->doubted_ns || !b->under_way || waited_ns < w->members.times.lost_ns / DOUBTS_IN_LOST)
            continue;
        b->doubted_ns = 0;
        if (!b->trouble)
            b->trouble = mr_strdup("the naming service has no entry for it any more");
        mr_membership_gone(&w->members, i, 0, now_ns, events);
    }
}

/* This process was stopped for a while: its own pause must not count as silence of the others. */
static void slept_locked(mr_watch *w, int64_t now_ns) MR_REQUIRES(w->mu);
static void slept_locked(mr_watch *w, int64_t now_ns)
{
    mr_membership_slept(&w->members, now_ns);
    for (int i = 0; i < w->n; i++)
        if (w->beats[i].doubted_ns)
            w->beats[i].doubted_ns = now_ns;
}

static void look_locked(mr_watch *w, mr_member_events *events, mr_member_tasks *ask) MR_REQUIRES(w->mu);
/* One tick: what has become of the tasks, and which heartbeats are due (*ask), except those that are
 * under way. */
static void look_locked(mr_watch *w, mr_member_events *events, mr_member_tasks *ask)
{
    int64_t now_ns = mr_now_ns();
    MR_ASSERT(!w->stopped && w->ticking);
    if (now_ns - w->looked_ns > w->members.times.lost_ns / 2) /* ticks are a quarter of a second apart */
        slept_locked(w, now_ns);
    w->looked_ns = now_ns;
    judge_doubted_locked(w, now_ns, events);
    w->members.times.ask_ns = MR_MAX(w->ask_ns, MR_MIN(w->n_held * ASK_NS_A_TASK, LONGEST_ASK_NS));
    mr_membership_tick(&w->members, now_ns, events, ask);
    int n = 0;
    for (int i = 0; i < ask->n; i++) {
        beat *b = &w->beats[ask->p[i]];
        if (b->under_way)
            continue;
        b->under_way = true;
        b->asked_ns = now_ns;
        ask->p[n++] = ask->p[i];
    }
    ask->n = n;
}

/* The timer. Heartbeats are sent and events are told without the lock; then the timer is set again. */
static void run_tick(mr_timer *t)
{
    mr_watch *w = (mr_watch *)((char *)t - offsetof(mr_watch, timer));
    mr_member_events events = {0};
    mr_member_tasks ask = {0};
    mr_lock(&w->mu);
    if (!w->stopped)
        look_locked(w, &events, &ask);
    mr_unlock(&w->mu);
    for (int i = 0; i < ask.n; i++) {
        beat *b = &w->beats[ask.p[i]];
        b->request = (mr_net_request){.method = MR_WORKER_SERVICE "GetStatus",
                                      .deadline_ns = b->asked_ns + w->members.times.lost_ns,
                                      .done = beat_answered};
        mr_task_peers_ask(w->peers, b->task, &b->request);
    }
    tell_events(w, &events);
    mr_lock(&w->mu);
    arm_locked(w);
    mr_unlock(&w->mu);
    mr_vec_deinit(&ask);
}

/* ---- holding ---- */

static bool is_watched(const mr_watch *w, int task) { return task >= 0 && task < w->n && task != w->peers->self; }

/* The first holder of a task starts its heartbeats, and the first held task starts the timer. */
void mr_watch_hold(mr_watch *w, int task)
{
    if (!is_watched(w, task))
        return;
    mr_lock(&w->mu);
    if (w->beats[task].held++ == 0) {
        w->n_held++;
        mr_membership_care(&w->members, task, true, mr_now_ns());
        if (!w->ticking)
            arm_locked(w);
    }
    mr_unlock(&w->mu);
}

/* The last holder ends the task's heartbeats. The timer ends with its next tick if no task is held. */
void mr_watch_release(mr_watch *w, int task)
{
    if (!is_watched(w, task))
        return;
    mr_lock(&w->mu);
    MR_ASSERT(w->beats[task].held > 0 && w->n_held <= w->n);
    if (--w->beats[task].held == 0) {
        MR_ASSERT(w->n_held > 0);
        w->n_held--;
        w->beats[task].doubted_ns = 0;
        mr_membership_care(&w->members, task, false, mr_now_ns());
    }
    mr_unlock(&w->mu);
}

/* A message other than a heartbeat's answer: the time of the question is -1, since there was none. */
void mr_watch_heard(mr_watch *w, int task, uint64_t incarnation)
{
    mr_member_events events = {0};
    if (!is_watched(w, task))
        return;
    mr_lock(&w->mu);
    if (!w->stopped)
        mr_membership_heard(&w->members, task, incarnation, -1, mr_now_ns(), &events);
    mr_unlock(&w->mu);
    tell_events(w, &events);
}

/* A new incarnation that the service names counts as heard of, unless it is known to have ended; it is
 * asked at the next tick. */
void mr_watch_named(mr_watch *w, int task, uint64_t incarnation)
{
    mr_member_events events = {0};
    int64_t now_ns = mr_now_ns();
    if (!is_watched(w, task))
        return;
    mr_lock(&w->mu);
    beat *b = &w->beats[task];
    mr_member *m = &w->members.members[task];
    b->doubted_ns = 0;
    if (!w->stopped && m->incarnation != incarnation && !mr_membership_ended(&w->members, task, incarnation)) {
        b->refused = 0; /* those were of the earlier incarnation */
        mr_membership_heard(&w->members, task, incarnation, now_ns, now_ns, &events);
        m->ask_ns = now_ns; /* at the next tick */
    }
    mr_unlock(&w->mu);
    tell_events(w, &events);
}

/* Only a task that is held can be lost. It is asked at the next tick, and judged by judge_doubted_locked. */
void mr_watch_doubt(mr_watch *w, int task)
{
    if (!is_watched(w, task))
        return;
    mr_lock(&w->mu);
    beat *b = &w->beats[task];
    if (b->held && !b->doubted_ns) {
        b->doubted_ns = mr_now_ns();
        w->members.members[task].ask_ns = b->doubted_ns; /* at the next tick */
    }
    mr_unlock(&w->mu);
}

/* ---- asking ---- */

/* Ended: the task is lost, or has another incarnation now. */
bool mr_watch_ended(mr_watch *w, int task, uint64_t incarnation)
{
    mr_lock(&w->mu);
    bool ended = mr_membership_ended(&w->members, task, incarnation);
    mr_unlock(&w->mu);
    return ended;
}

static double seconds_since(int64_t ns) { return (double)(mr_now_ns() - ns) / 1e9; }

/* ABORTED if another incarnation answers now: the task was restarted. UNAVAILABLE if none answers; the reason of the
 * last failed heartbeat is appended. */
mr_status *mr_watch_why(mr_watch *w, int task, uint64_t incarnation)
{
    mr_status *st = NULL;
    mr_lock(&w->mu);
    if (mr_membership_ended(&w->members, task, incarnation)) {
        const mr_member *m = &w->members.members[task];
        const char *name = mr_task_peers_task(w->peers, task)->name;
        const char *trouble = w->beats[task].trouble;
        if (m->incarnation != incarnation)
            st = mr_error(MR_ABORTED, "%s was restarted %.1f s ago and has lost its state", name,
                          seconds_since(m->born_ns));
        else
            st = mr_error(MR_UNAVAILABLE, "%s is lost: last heard of %.1f s ago%s%s", name, seconds_since(m->heard_ns),
                          trouble ? "; " : "", trouble ? trouble : "");
    }
    mr_unlock(&w->mu);
    return st;
}

/* Appends the task's name and, if heartbeats were sent to it, when it was last heard of and how the last one failed.
 * Appends nothing for this task itself. */
void mr_watch_describe(mr_watch *w, int task, mr_str *out)
{
    if (!is_watched(w, task))
        return;
    mr_lock(&w->mu);
    const mr_member *m = &w->members.members[task];
    const char *trouble = w->beats[task].trouble;
    mr_str_appendz(out, mr_task_peers_task(w->peers, task)->name);
    if (!w->beats[task].held && !trouble)
        ; /* no heartbeat was sent to it */
    else if (m->incarnation)
        mr_str_printf(out, " (last heard of %.1f s ago%s%s)", seconds_since(m->heard_ns), trouble ? "; " : "",
                      trouble ? trouble : "");
    else
        mr_str_printf(out, " (%s)", trouble ? trouble : "never heard of");
    mr_unlock(&w->mu);
}

/* ---- making and freeing ---- */

/* No task is held at first, so no heartbeat is sent. */
mr_watch *mr_watch_new(mr_task_peers *p)
{
    mr_watch *w = mr_new(mr_watch);
    int64_t now_ns = mr_now_ns();
    mr_mutex_init(&w->mu);
    w->peers = p;
    w->host = p->host;
    w->n = p->cluster.tasks.n;
    w->beats = mr_new_array(beat, w->n + 1);
    mr_membership_init(&w->members, w->n, p->self, &p->host->times, now_ns);
    w->ask_ns = w->members.times.ask_ns;
    for (int i = 0; i < w->n; i++) {
        w->beats[i].watch = w;
        w->beats[i].task = i;
        mr_membership_care(&w->members, i, false, now_ns);
    }
    return w;
}

/* Heartbeats that are under way still end, but nobody is told about them any more. */
void mr_watch_stop(mr_watch *w)
{
    mr_lock(&w->mu);
    w->stopped = true;
    mr_unlock(&w->mu);
    mr_timers_clear(w->host->timers, &w->timer); /* waits for a callback that runs; it does not set the timer again */
}

/* No heartbeat is under way: the routes of the cluster are closed. */
void mr_watch_free(mr_watch *w)
{
    if (!w)
        return;
    mr_watch_stop(w);
    for (int i = 0; i < w->n; i++) {
        MR_ASSERT(!w->beats[i].under_way);
        mr_free(w->beats[i].trouble);
    }
    mr_membership_deinit(&w->members);
    mr_mutex_deinit(&w->mu);
    mr_free(w->beats);
    mr_free(w);
}
