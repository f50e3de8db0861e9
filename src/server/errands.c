/* server/errands.c -- requests that nobody waits for, retried until they arrive.
 *
 * A request is in the list from its start to its end. Its state is either under way or waiting for its
 * timer (`waits`). It is freed by whoever takes it out of the list under the lock: the answer, or
 * mr_errands_wait_no_more. dist/session.c decides whether and when to retry. */
#include "server/errands.h"

#include "base/clock.h"
#include "base/memory.h"
#include "dist/session.h"
#include "server/host.h"

#define TELL_DEADLINE_NS (10 * INT64_C(1000000000))

typedef struct mr_errand mr_errand;

/* One request. The body is kept, since each try sends a copy. */
struct mr_errand {
    mr_net_request request; /* first */
    mr_errands *owner;
    mr_fellows *peers;
    const char *method;
    mr_str body;
    int task, tries;
    mr_timer timer;
    bool waits; /* for the timer; under the owner's lock */
    mr_errand *next, **link;
};

static void unlink_locked(mr_errands *o, mr_errand *e) MR_REQUIRES(o->mu);
static void unlink_locked(mr_errands *o, mr_errand *e)
{
    MR_ASSERT(e->owner == o);
    MR_ASSERT(*e->link == e);
    (void)o;
    *e->link = e->next;
    if (e->next)
        e->next->link = e->link;
}

static void errand_free(mr_errand *e)
{
    mr_str_deinit(&e->body);
    mr_fellows_unref(e->peers);
    mr_free(e);
}

static void request_told(mr_net_request *r, mr_status *st, mr_bytes *reply);

/* Sends the request. A CleanupGraph is lazy: it may travel with the next step's messages. */
static void tell_now(mr_errand *e)
{
    bool lazy = strcmp(e->method, MR_WORKER_SERVICE "CleanupGraph") == 0;
    e->request = (mr_net_request){
        .method = e->method, .deadline_ns = mr_now_ns() + TELL_DEADLINE_NS, .lazy = lazy, .done = request_told};
    mr_bytes_add_copy(&e->request.body, mr_str_z(&e->body), e->body.n);
    mr_fellows_ask(e->peers, e->task, &e->request);
}

/* The timer: sends the request again. After mr_errands_hurry it stays in the list, for
 * mr_errands_wait_no_more to free. */
static void try_again(mr_timer *timer)
{
    mr_errand *e = (mr_errand *)((char *)timer - offsetof(mr_errand, timer));
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
    mr_errand *e = (mr_errand *)r;
    mr_errands *o = e->owner;
    int64_t ns = mr_tell_again_ns(e->tries++, mr_status_code(st));
    (void)reply;
    mr_status_free(st);
    mr_lock(&o->mu);
    MR_ASSERT(!e->waits);
    bool over = ns < 0 || o->hurried;
    if (over) {
        unlink_locked(o, e);
    } else {
        e->waits = true;
        mr_timers_set(o->timers, &e->timer, mr_now_ns() + ns, try_again);
    }
    mr_unlock(&o->mu);
    if (over)
        errand_free(e);
}

void mr_errands_send(mr_errands *o, mr_fellows *p, int task, const char *method, mr_str *body)
{
    mr_errand *e = mr_new(mr_errand);
    *e = (mr_errand){.owner = o, .peers = mr_fellows_ref(p), .method = method, .body = *body, .task = task};
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

void mr_errands_hurry(mr_errands *o)
{
    mr_lock(&o->mu);
    o->hurried = true;
    mr_unlock(&o->mu);
}

/* Frees the requests that wait for their timers. Clearing a timer waits for its callback, which does
 * nothing once hurried. */
void mr_errands_wait_no_more(mr_errands *o)
{
    for (;;) {
        mr_lock(&o->mu);
        MR_ASSERT(o->hurried);
        mr_errand *e = o->all;
        while (e && !e->waits)
            e = e->next;
        if (e)
            unlink_locked(o, e);
        mr_unlock(&o->mu);
        if (!e)
            return;
        mr_timers_clear(o->timers, &e->timer);
        errand_free(e);
    }
}

void mr_errands_init(mr_errands *o, mr_timers *timers)
{
    *o = (mr_errands){.timers = timers};
    mr_mutex_init(&o->mu);
}

void mr_errands_deinit(mr_errands *o)
{
    MR_ASSERT(!o->all);
    mr_mutex_deinit(&o->mu);
}
