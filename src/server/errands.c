/* server/errands.c -- requests that nobody waits for, tried again until they arrive. */
#include "server/errands.h"

#include "base/clock.h"
#include "base/memory.h"
#include "dist/session.h"
#include "server/host.h"

#define TELL_DEADLINE_NS (10 * INT64_C(1000000000))

typedef struct mr_errand mr_errand;
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

static void told(mr_net_request *r, mr_status *st, mr_bytes *reply);

static void tell_now(mr_errand *e)
{
    /* The clean-up of a step goes with the next step, if that is soon. */
    bool lazy = strcmp(e->method, MR_WORKER_SERVICE "CleanupGraph") == 0;
    e->request = (mr_net_request){.method = e->method, .deadline_ns = mr_now_ns() + TELL_DEADLINE_NS, .lazy = lazy, .done = told};
    mr_bytes_add_copy(&e->request.body, mr_str_z(&e->body), e->body.n);
    mr_fellows_ask(e->peers, e->task, &e->request);
}

static void try_again(mr_timer *timer)
{
    mr_errand *e = (mr_errand *)((char *)timer - offsetof(mr_errand, timer));
    mr_lock(&e->owner->mu);
    bool go = !e->owner->hurried; /* else mr_errands_wait_no_more frees it */
    e->waits = !go;
    mr_unlock(&e->owner->mu);
    if (go)
        tell_now(e);
}

static void told(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_errand *e = (mr_errand *)r;
    mr_errands *o = e->owner;
    int64_t ns = mr_tell_again_ns(e->tries++, mr_status_code(st));
    (void)reply;
    mr_status_free(st);
    mr_lock(&o->mu);
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

void mr_errands_wait_no_more(mr_errands *o)
{
    for (;;) {
        mr_lock(&o->mu);
        mr_errand *e = o->all;
        while (e && !e->waits)
            e = e->next;
        if (e)
            unlink_locked(o, e);
        mr_unlock(&o->mu);
        if (!e)
            return;
        mr_timers_clear(o->timers, &e->timer); /* a callback that runs does nothing, and is waited for */
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
