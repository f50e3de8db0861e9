/* server/pending.c -- requests to tasks that are not answered yet.
 *
 * A pending request is in the list of its cluster (mr_task_peers). Until it is answered, its `done` is
 * `request_answered` below, which takes the request out of the list and calls the caller's `done`, so the list
 * never holds a request that has been freed. One timer looks at the list; a request costs two short
 * locks and no timer. A request to this task itself counts as a wait for other tasks only where it
 * needs all members of a group.
 *
 * A line of the log: "Still waiting for /job:ps/replica:0/task:0 (last heard of 0.4 s ago): a tensor of a
 * step has not arrived (20 s)". */
#include "server/pending.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/long_wait.h"
#include "base/memory.h"
#include "server/watch.h"

enum { MAX_LINES = 10 }; /* tasks that are named in the log at once */

static void take_out_locked(mr_task_peers *p, mr_net_request *r) MR_REQUIRES(p->mu);
static void take_out_locked(mr_task_peers *p, mr_net_request *r)
{
    mr_net_pending *w = &r->pending;
    MR_ASSERT(w->of == p && *w->link == r);
    (void)p;
    *w->link = w->next;
    if (w->next)
        w->next->pending.link = w->link;
}

/* Stands in for the request's `done`. The callback may free the request, so it is called last and
 * without the lock. */
static void request_answered(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_task_peers *p = r->pending.of;
    mr_lock(&p->mu);
    take_out_locked(p, r);
    r->done = r->pending.done;
    mr_unlock(&p->mu);
    r->done(r, st, reply);
}

/* Before the request is started, so that its end always finds it in the list. */
void mr_pending_add_locked(mr_task_peers *p, int task, mr_net_request *r)
{
    MR_ASSERT(r->done && r->done != request_answered && task >= 0 && task < p->cluster.tasks.n);
    r->pending = (mr_net_pending){
        .of = p, .task = task, .since_ns = mr_now_ns(), .done = r->done, .next = p->pending, .link = &p->pending};
    if (r->pending.next)
        r->pending.next->pending.link = &r->pending.next;
    p->pending = r;
    r->done = request_answered;
}

/* ---- logging ---- */

static const struct reason {
    const char *method, *text;
    bool of_all; /* the task that answers waits for others in turn: also a wait when it is this task */
} reasons[] = {
    {MR_WORKER_SERVICE "RunGraph", "its part of a step is still running", false},
    {MR_WORKER_SERVICE "RecvTensor", "a tensor of a step has not arrived", false},
    {MR_WORKER_SERVICE "RegisterGraph", "it is still preparing its part of the graph", false},
    {MR_WORKER_SERVICE "CreateWorkerSession", "it is still making its session", false},
    {MR_WORKER_SERVICE "CompleteGroup", "not all members of a collective have joined", true},
    {MR_WORKER_SERVICE "CompleteInstance", "the sender of a broadcast has not joined", true},
    {MR_WORKER_SERVICE "JoinCollective", "not all workers have joined the group", true},
    {MR_WORKER_SERVICE "RecvBuf", "a piece of a collective has not arrived", false},
    {MR_WORKER_SERVICE "GetStepSequence", "it has not sent the id of a step", false},
    {MR_WORKER_SERVICE "GetStatus", NULL, false}, /* a heartbeat, or part of CreateSession, which logs its own waits */
};

/* What the log says about a request; NULL: nothing. A method that is not in the table is named by its
 * path. */
static const char *reason_of(const mr_task_peers *p, const mr_net_request *r)
{
    for (int i = 0; i < MR_COUNT(reasons); i++)
        if (strcmp(r->method, reasons[i].method) == 0)
            return r->pending.task == p->self && !reasons[i].of_all ? NULL : reasons[i].text;
    return r->pending.task == p->self ? NULL : r->method;
}

/* The requests that one task has not answered for a period or longer. */
typedef struct late_task {
    int n;
    int64_t since_ns; /* of the oldest */
    char *text;       /* why, of that one */
} late_task;

static int gather_locked(mr_task_peers *p, int64_t now_ns, late_task *late) MR_REQUIRES(p->mu);
/* Collects, by task, the requests that have waited for a period or longer; returns the number of such
 * tasks. The oldest request gives the reason. */
static int gather_locked(mr_task_peers *p, int64_t now_ns, late_task *late)
{
    int n = 0;
    for (mr_net_request *r = p->pending; r; r = r->pending.next) {
        MR_ASSERT(r->pending.of == p && r->pending.task < p->cluster.tasks.n);
        late_task *t = &late[r->pending.task];
        const char *reason = now_ns - r->pending.since_ns >= mr_long_wait_period_ns() ? reason_of(p, r) : NULL;
        if (!reason)
            continue;
        n += t->n++ == 0;
        if (t->n > 1 && r->pending.since_ns >= t->since_ns)
            continue;
        t->since_ns = r->pending.since_ns;
        mr_free(t->text);
        t->text = reason == r->method ? mr_printf("%s has not been answered", r->method) : mr_strdup(reason);
    }
    return n;
}

/* The timer: logs which tasks owe answers, and sets itself again. */
static void tell_late(mr_timer *timer)
{
    mr_task_peers *p = (mr_task_peers *)((char *)timer - offsetof(mr_task_peers, pending_timer));
    int n_tasks = p->cluster.tasks.n, logged = 0;
    late_task *late = mr_new_array(late_task, n_tasks + 1);
    int64_t now_ns = mr_now_ns();
    mr_lock(&p->mu);
    int n = gather_locked(p, now_ns, late);
    bool closed = p->closed;
    mr_unlock(&p->mu);
    /* Without the lock: describing a task takes the lock of the watch. */
    for (int i = 0; i < n_tasks; i++) {
        if (!late[i].n || logged++ >= MAX_LINES)
            continue;
        mr_str name = {0};
        if (i == p->self)
            mr_str_printf(&name, "other tasks at %s", mr_task_peers_name(p));
        else
            mr_watch_describe(p->watch, i, &name);
        mr_info("Still waiting for %s: %s (%.0f s)", mr_str_z(&name), late[i].text,
                (double)(now_ns - late[i].since_ns) / 1e9);
        mr_str_deinit(&name);
    }
    if (n > MAX_LINES)
        mr_info("Still waiting for %d more tasks", n - MAX_LINES);
    for (int i = 0; i < n_tasks; i++)
        mr_free(late[i].text);
    mr_free(late);
    if (!closed)
        mr_timers_set(p->host->timers, timer, mr_now_ns() + mr_long_wait_period_ns(), tell_late);
}

/* The timer runs as long as the cluster is open: one per cluster, however many requests there are. */
void mr_pending_watch(mr_task_peers *p)
{
    mr_timers_set(p->host->timers, &p->pending_timer, mr_now_ns() + mr_long_wait_period_ns(), tell_late);
}

/* The cluster is closed. Clearing the timer waits for a callback that runs, which may have set the
 * timer once more before it saw that; so it is cleared twice. */
void mr_pending_stop(mr_task_peers *p)
{
    mr_timers_clear(p->host->timers, &p->pending_timer);
    mr_timers_clear(p->host->timers, &p->pending_timer);
}
