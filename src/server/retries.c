/* server/retries.c -- requests that nobody waits for, retried until they arrive.
 *
 * A request is in the list from its start to its end. Its state is either under way or waiting for its
 * timer (`waits`). It is freed by the thread that takes it out of the list under the lock: the answer, or
 * mr_retries_drop. dist/session.c decides whether and when to retry.
 *
 *     mr_retries_send -> under way --error--> waits --timer--> under way -> ...
 *                            |                  |
 *                 answer, or given up   mr_retries_drop
 *                            +------> freed <---+
 *
 * Stopping takes two steps: after mr_retries_hurry no request waits for a timer again; mr_retries_drop
 * frees those that wait already. Requests under way end when their routes are closed. */
#include "server/retries.h"

#include "base/clock.h"
#include "base/memory.h"
#include "dist/session.h"
#include "server/host.h"

#define TELL_DEADLINE_NS (10 * INT64_C(1000000000))

typedef struct mr_retry mr_retry;

/* One request. The body is kept, since each try sends a copy. */
struct mr_retry {
    mr_net_request request; /* first */
    mr_retries *owner;
    mr_task_peers *peers;
    const char *method;
    mr_str body;
    int task, tries;
    mr_timer timer;
    bool waits; /* for the timer; under the owner's lock */
    mr_retry *next, **link;
};

static void unlink_locked(mr_retries *o, mr_retry *e) MR_REQUIRES(o->mu);
static void unlink_locked(mr_retries *o, mr_retry *e)
{
    MR_ASSERT(e->owner == o);
    MR_ASSERT(*e->link == e);
    (void)o;
    *e->link = e->next;
    if (e->next)
        e->next->link = e->link;
}

/* The request is in no list, its call has ended and its timer is cleared. */
static void retry_free(mr_retry *e)
{
    mr_str_deinit(&e->body);
    mr_task_peers_unref(e->peers);
    mr_free(e);
}

static void request_told(mr_net_request *r, mr_status *st, mr_bytes *reply);

/* Sends the request. A CleanupGraph is lazy: it may travel with the next step's messages. */
static void tell_now(mr_retry *e)
{
    bool lazy = strcmp(e->method, MR_WORKER_SERVICE "CleanupGraph") == 0;
    e->request = (mr_net_request){
        .method = e->method, .deadline_ns = mr_now_ns() + TELL_DEADLINE_NS, .lazy = lazy, .done = request_told};
    mr_bytes_add_copy(&e->request.body, mr_str_z(&e->body), e->body.n);
    mr_task_peers_ask(e->peers, e->task, &e->request);
}

/* The timer: sends the request again. After mr_retries_hurry it stays in the list, for
 * mr_retries_drop to free. */
static void try_again(mr_timer *timer)
{
    mr_retry *e = (mr_retry *)((char *)timer - offsetof(mr_retry, timer));
    mr_lock(&e->owner->mu);
    MR_ASSERT(e->waits);
    bool go = !e->owner->hurried;
    e->waits = !go;
    mr_unlock(&e->owner->mu);
    if (go)
        tell_now(e);
}

/* The request has ended: it is done, given up, or waits for its timer. Once hurried, nothing waits any
 * more. */
static void request_told(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_retry *e = (mr_retry *)r;
    mr_retries *o = e->owner;
    int64_t ns = mr_tell_again_ns(e->tries++, mr_status_code(st));
    (void)reply;
    mr_status_free(st);
    mr_lock(&o->mu);
    MR_ASSERT(!e->waits);
    /* ns < 0: the task has answered, or the error does not pass, or there were too many tries. */
    bool over = ns < 0 || o->hurried;
    if (over) {
        unlink_locked(o, e);
    } else {
        e->waits = true;
        mr_timers_set(o->timers, &e->timer, mr_now_ns() + ns, try_again);
    }
    mr_unlock(&o->mu);
    if (over)
        retry_free(e);
}

/* The reference to the peers keeps them while the request is retried, even if its session has ended. */
void mr_retries_send(mr_retries *o, mr_task_peers *p, int task, const char *method, mr_str *body)
{
    mr_retry *e = mr_new(mr_retry);
    *e = (mr_retry){.owner = o, .peers = mr_task_peers_ref(p), .method = method, .body = *body, .task = task};
    *body = (mr_str){0};
    mr_lock(&o->mu);
    e->next = o->all;
    e->link = &o->all;
    if (e->next)
        e->next->link = &e->next;
    o->all = e;
    mr_unlock(&o->mu);
    tell_now(e);
}

/* A call that is under way still ends by itself; the end of it does not set a timer any more. */
void mr_retries_hurry(mr_retries *o)
{
    mr_lock(&o->mu);
    o->hurried = true;
    mr_unlock(&o->mu);
}

/* Frees the requests that wait for their timers. Clearing a timer waits for its callback, which does
 * nothing once hurried. */
void mr_retries_drop(mr_retries *o)
{
    for (;;) {
        mr_lock(&o->mu);
        MR_ASSERT(o->hurried);
        mr_retry *e = o->all;
        while (e && !e->waits)
            e = e->next;
        if (e)
            unlink_locked(o, e);
        mr_unlock(&o->mu);
        if (!e)
            return;
        mr_timers_clear(o->timers, &e->timer);
        retry_free(e);
    }
}

void mr_retries_init(mr_retries *o, mr_timers *timers)
{
    *o = (mr_retries){.timers = timers};
    mr_mutex_init(&o->mu);
}

/* mr_retries_drop has freed those that waited, and closing the routes has ended the others. */
void mr_retries_deinit(mr_retries *o)
{
    MR_ASSERT(!o->all);
    mr_mutex_deinit(&o->mu);
}
