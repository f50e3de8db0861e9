/* server/parked.c -- requests to tasks of which nobody knows yet where they are.
 *
 * A parked request is in the list of its fellows, with a timer set for its deadline.  Three may want to end it: news of its task,
 * its timer, and whoever cancels it.  The one that finds it in the list and not `leaving`, under the lock, does; it marks it so,
 * does what is to be done without the lock, and takes it out last.  Who cancels one that leaves waits for that, so that the request
 * is either ended or started when it returns, as if it had never been here; who closes the fellows waits for all.  Only who is
 * called back by the one that leaves does not wait: for him it has ended, and he may be asking again with the same request. */
#include "server/parked.h"

#include "base/clock.h"
#include "base/memory.h"

#define PATIENCE_NS (3 * INT64_C(1000000000)) /* for the service's first word of a task */
#define FOREVER_NS (INT64_C(1) << 60)

typedef struct mr_parked_request mr_parked_request;
struct mr_parked_request {
    mr_net_request *request;
    mr_fellows *peers;
    int task;
    bool leaving;
    pthread_t by; /* whom it leaves by, then */
    mr_timer timer;
    mr_parked_request *next;
};

/* What is told to who cannot wait. */
static mr_status *not_found(const mr_fellows *p, int task)
{
    return mr_error(MR_UNAVAILABLE, "%s is not there: the naming service has no address of it", mr_fellows_task(p, task)->name);
}

/* A request that may wait must not wait forever for a service that is unreachable.  It ends like one whose deadline has
 * passed, which callers do not retry. */
static mr_status *no_service_locked(const mr_fellows *p, int task, const mr_net_request *r) MR_REQUIRES(p->mu);
static mr_status *no_service_locked(const mr_fellows *p, int task, const mr_net_request *r)
{
    return mr_error(r->wait_for_ready ? MR_DEADLINE_EXCEEDED : MR_UNAVAILABLE, "%s cannot be found: %s",
                    mr_fellows_task(p, task)->name, p->unreachable);
}

static void mark_leaving_locked(mr_fellows *p, mr_parked_request *q) MR_REQUIRES(p->mu);
static void mark_leaving_locked(mr_fellows *p, mr_parked_request *q)
{
    (void)p;
    q->leaving = true;
    q->by = pthread_self();
}

/* Takes it out, and frees it. */
static void leave_locked(mr_fellows *p, mr_parked_request *q) MR_REQUIRES(p->mu);
static void leave_locked(mr_fellows *p, mr_parked_request *q)
{
    mr_parked_request **at = &p->parked;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    mr_free(q);
    mr_cond_broadcast(&p->started);
}

/* Ends one that is leaving: with an error, or by the way it can go now. */
static void let_go(mr_fellows *p, mr_parked_request *q, mr_status *st, mr_way *way)
{
    mr_net_request *r = q->request;
    mr_bytes none = {0};
    MR_ASSERT(q->leaving && (st != NULL) != (way != NULL));
    mr_timers_clear(p->host->timers, &q->timer);
    if (way) {
        mr_fellows_go(way, r);
    } else {
        mr_bytes_deinit(&r->body);
        r->done(r, st, &none);
    }
    mr_lock(&p->mu);
    leave_locked(p, q);
    mr_unlock(&p->mu);
}

static void time_is_up(mr_timer *t)
{
    mr_parked_request *q = (mr_parked_request *)((char *)t - offsetof(mr_parked_request, timer));
    mr_fellows *p = q->peers;
    mr_lock(&p->mu);
    bool mine = !q->leaving;
    if (mine)
        mark_leaving_locked(p, q);
    bool late = q->request->deadline_ns && mr_now_ns() >= q->request->deadline_ns;
    mr_unlock(&p->mu);
    if (mine)
        let_go(p, q, late ? mr_error(MR_DEADLINE_EXCEEDED, "no address of %s until the deadline", mr_fellows_task(p, q->task)->name)
                          : not_found(p, q->task), NULL);
}

mr_status *mr_park_locked(mr_fellows *p, int task, mr_net_request *r)
{
    if (!p->naming || (!r->wait_for_ready && p->book.tasks[task].told))
        return not_found(p, task);
    if (p->unreachable)
        return no_service_locked(p, task, r);
    mr_parked_request *q = mr_new(mr_parked_request);
    *q = (mr_parked_request){.request = r, .peers = p, .task = task, .next = p->parked};
    p->parked = q;
    int64_t until_ns = mr_now_ns() + (r->wait_for_ready ? FOREVER_NS : PATIENCE_NS);
    if (r->deadline_ns)
        until_ns = MR_MIN(until_ns, r->deadline_ns);
    mr_timers_set(p->host->timers, &q->timer, until_ns, time_is_up);
    return NULL;
}

/* One that can end now, marked as leaving, and how; NULL: there is none. */
static mr_parked_request *take(mr_fellows *p, int task, mr_status **st, mr_way **way)
{
    mr_lock(&p->mu);
    mr_parked_request *q = p->parked;
    bool known = p->closed || mr_book_address(&p->book, task), told = p->book.tasks[task].told;
    while (q && (q->leaving || q->task != task || !(known || p->unreachable || (told && !q->request->wait_for_ready))))
        q = q->next;
    if (q) {
        mark_leaving_locked(p, q);
        *st = mr_fellows_way_locked(p, task, q->request, way);
        if (!*st && !*way)
            *st = p->unreachable ? no_service_locked(p, task, q->request) : not_found(p, task);
        if (*st)
            *way = NULL;
    }
    mr_unlock(&p->mu);
    return q;
}

void mr_park_end(mr_fellows *p, int task)
{
    mr_status *st;
    mr_way *way;
    for (mr_parked_request *q; (q = take(p, task, &st, &way));)
        let_go(p, q, st, way);
}

void mr_park_close(mr_fellows *p)
{
    for (int i = 0; i < p->cluster.tasks.n; i++)
        mr_park_end(p, i);
    mr_lock(&p->mu);
    MR_ASSERT(p->closed);
    while (p->parked) /* others end them */
        mr_cond_wait(&p->started, &p->mu);
    mr_unlock(&p->mu);
}

/* What this thread lets go itself is not there any more. */
static mr_parked_request *find_locked(const mr_fellows *p, const mr_net_request *r) MR_REQUIRES(p->mu);
static mr_parked_request *find_locked(const mr_fellows *p, const mr_net_request *r)
{
    mr_parked_request *q = p->parked;
    while (q && (q->request != r || (q->leaving && pthread_equal(q->by, pthread_self()))))
        q = q->next;
    return q;
}

bool mr_park_cancel(mr_fellows *p, mr_net_request *r)
{
    mr_parked_request *q;
    mr_lock(&p->mu);
    while ((q = find_locked(p, r)) && q->leaving)
        mr_cond_wait(&p->started, &p->mu);
    if (q)
        mark_leaving_locked(p, q);
    mr_unlock(&p->mu);
    if (q)
        let_go(p, q, mr_error(MR_CANCELLED, "cancelled"), NULL);
    return q != NULL;
}
