/* server/unresolved.c -- requests to tasks whose address is not known yet.
 *
 * Such a request is in the list of its cluster, with a timer set for its deadline. Three events can
 * end it: news about its task, its timer, and a cancellation. The thread that finds it in the list
 * and not `leaving`, under the lock, ends it: it sets `leaving`, does the work without the lock, and
 * takes the request out of the list last.
 *
 * A thread that cancels a request that is leaving waits until it has left, so that afterwards the
 * request is either ended or started, as if it had never been here. A thread that closes the cluster
 * waits for all. Only a thread that is called back by the one that ends the request does not wait: for
 * it the request has ended, and it may be sending the same request again. */
#include "server/unresolved.h"

#include "base/clock.h"
#include "base/memory.h"

#define PATIENCE_NS (3 * INT64_C(1000000000)) /* for the service's first report about a task */
#define FOREVER_NS (INT64_C(1) << 60) /* a timer is always set, so that end_request can always clear it */

typedef struct mr_unresolved_request mr_unresolved_request;
/* The record of a request; `leaving`, `by` and `next` are under the lock of its cluster. */
struct mr_unresolved_request {
    mr_net_request *request;
    mr_task_peers *peers;
    int task;
    bool leaving;
    pthread_t by; /* the thread that ends it, if it is leaving */
    mr_timer timer;
    mr_unresolved_request *next;
};

/* The error of a request that does not wait for its task. */
static mr_status *not_found(const mr_task_peers *p, int task)
{
    return mr_error(MR_UNAVAILABLE, "%s cannot be found: the naming service has no address for it",
                    mr_task_peers_task(p, task)->name);
}

/* A request that may wait must not wait for ever for a service that is unreachable. It ends as if its
 * deadline had passed, which callers do not retry. */
static mr_status *no_service_locked(const mr_task_peers *p, int task, const mr_net_request *r) MR_REQUIRES(p->mu);
static mr_status *no_service_locked(const mr_task_peers *p, int task, const mr_net_request *r)
{
    return mr_error(r->wait_for_ready ? MR_DEADLINE_EXCEEDED : MR_UNAVAILABLE, "%s cannot be found: %s",
                    mr_task_peers_task(p, task)->name, p->unreachable);
}

/* From now on the calling thread is the one that ends the request. */
static void mark_leaving_locked(mr_task_peers *p, mr_unresolved_request *q) MR_REQUIRES(p->mu);
static void mark_leaving_locked(mr_task_peers *p, mr_unresolved_request *q)
{
    MR_ASSERT(!q->leaving);
    (void)p;
    q->leaving = true;
    q->by = pthread_self();
}

/* Takes the request out of the list, frees its record and wakes those who wait for that. */
static void leave_locked(mr_task_peers *p, mr_unresolved_request *q) MR_REQUIRES(p->mu);
static void leave_locked(mr_task_peers *p, mr_unresolved_request *q)
{
    MR_ASSERT(q->leaving);
    mr_unresolved_request **at = &p->unresolved;
    while (*at != q) {
        MR_ASSERT(*at);
        at = &(*at)->next;
    }
    *at = q->next;
    mr_free(q);
    mr_cond_broadcast(&p->started);
}

/* Ends a request that is leaving: with an error, or by starting it on its route. Clearing the timer
 * waits for its callback, unless this is it. */
static void end_request(mr_task_peers *p, mr_unresolved_request *q, mr_status *st, mr_route *route)
{
    mr_net_request *r = q->request;
    mr_bytes none = {0};
    MR_ASSERT(q->leaving && (st != NULL) != (route != NULL));
    mr_timers_clear(p->host->timers, &q->timer);
    if (route) {
        mr_task_peers_go(route, r);
    } else {
        mr_bytes_deinit(&r->body);
        r->done(r, st, &none);
    }
    mr_lock(&p->mu);
    leave_locked(p, q);
    mr_unlock(&p->mu);
}

/* The timer: the request has waited long enough. */
static void time_is_up(mr_timer *t)
{
    mr_unresolved_request *q = (mr_unresolved_request *)((char *)t - offsetof(mr_unresolved_request, timer));
    mr_task_peers *p = q->peers;
    mr_lock(&p->mu);
    bool mine = !q->leaving;
    if (mine)
        mark_leaving_locked(p, q);
    bool late = q->request->deadline_ns && mr_now_ns() >= q->request->deadline_ns;
    mr_unlock(&p->mu);
    if (!mine)
        return;
    mr_status *st = late ? mr_error(MR_DEADLINE_EXCEEDED,
                                    "the naming service had no address for %s before the deadline",
                                    mr_task_peers_task(p, q->task)->name)
                         : not_found(p, q->task);
    end_request(p, q, st, NULL);
}

/* A request that does not wait for its task is kept only until the service has reported about the task
 * at all. */
mr_status *mr_unresolved_add_locked(mr_task_peers *p, int task, mr_net_request *r)
{
    if (!p->naming || (!r->wait_for_ready && p->book.tasks[task].told))
        return not_found(p, task);
    if (p->unreachable)
        return no_service_locked(p, task, r);
    mr_unresolved_request *q = mr_new(mr_unresolved_request);
    *q = (mr_unresolved_request){.request = r, .peers = p, .task = task, .next = p->unresolved};
    p->unresolved = q;
    int64_t until_ns = mr_now_ns() + (r->wait_for_ready ? FOREVER_NS : PATIENCE_NS);
    if (r->deadline_ns)
        until_ns = MR_MIN(until_ns, r->deadline_ns);
    mr_timers_set(p->host->timers, &q->timer, until_ns, time_is_up);
    return NULL;
}

/* A request that can end now, marked as leaving, with its error or its route; NULL: there is none. */
static mr_unresolved_request *take_ready(mr_task_peers *p, int task, mr_status **st, mr_route **route)
{
    mr_lock(&p->mu);
    mr_unresolved_request *q = p->unresolved;
    /* A request can end if its address is known, if the service is unreachable, or if it does not wait for its task and
     * the service has reported on the task. */
    bool known = p->closed || mr_book_address(&p->book, task), told = p->book.tasks[task].told;
    while (q && (q->leaving || q->task != task || !(known || p->unreachable || (told && !q->request->wait_for_ready))))
        q = q->next;
    if (q) {
        mark_leaving_locked(p, q);
        *st = mr_task_peers_route_locked(p, task, q->request, route);
        if (!*st && !*route)
            *st = p->unreachable ? no_service_locked(p, task, q->request) : not_found(p, task);
        if (*st)
            *route = NULL;
        MR_ASSERT((*st != NULL) != (*route != NULL));
    }
    mr_unlock(&p->mu);
    return q;
}

/* One request at a time, because ending one calls back without the lock, and the list may change meanwhile. */
void mr_unresolved_retry(mr_task_peers *p, int task)
{
    mr_status *st;
    mr_route *route;
    for (mr_unresolved_request *q; (q = take_ready(p, task, &st, &route));)
        end_request(p, q, st, route);
}

/* p->closed is set, so every request can end: mr_task_peers_route_locked returns an error for it. */
void mr_unresolved_close(mr_task_peers *p)
{
    for (int i = 0; i < p->cluster.tasks.n; i++)
        mr_unresolved_retry(p, i);
    mr_lock(&p->mu);
    MR_ASSERT(p->closed);
    while (p->unresolved) /* other threads are ending them */
        mr_cond_wait(&p->started, &p->mu);
    mr_unlock(&p->mu);
}

/* The record of a request. One that this thread is ending itself does not count. */
static mr_unresolved_request *find_locked(const mr_task_peers *p, const mr_net_request *r) MR_REQUIRES(p->mu);
static mr_unresolved_request *find_locked(const mr_task_peers *p, const mr_net_request *r)
{
    mr_unresolved_request *q = p->unresolved;
    while (q && (q->request != r || (q->leaving && pthread_equal(q->by, pthread_self()))))
        q = q->next;
    return q;
}

/* Waits until another thread that is ending the request is done with it; then the request is ended or started. */
bool mr_unresolved_cancel(mr_task_peers *p, mr_net_request *r)
{
    mr_unresolved_request *q;
    mr_lock(&p->mu);
    while ((q = find_locked(p, r)) && q->leaving)
        mr_cond_wait(&p->started, &p->mu);
    if (q)
        mark_leaving_locked(p, q);
    mr_unlock(&p->mu);
    if (q)
        end_request(p, q, mr_error(MR_CANCELLED, "%s was cancelled by its caller", r->method), NULL);
    return q != NULL;
}
