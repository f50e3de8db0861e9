/* server/master_tell.c -- requests that nobody waits for, but that should arrive: CleanupGraph, DeleteWorkerSession.
 *
 * What does not arrive keeps memory at a task for as long as it lives, so it is tried again (dist/session says how
 * often).  An errand is in the master's list from its beginning to its end; it is under way, or waits for its timer. */
#include "base/clock.h"
#include "base/memory.h"
#include "dist/session.h"
#include "server/master_internal.h"

#define TELL_DEADLINE_NS (10 * INT64_C(1000000000))

struct mr_errand {
    mr_net_request request; /* first */
    mr_master *master;
    mr_fellows *peers;
    const char *method;
    mr_str body;
    int task, tries;
    mr_timer timer;
    bool waits; /* for the timer; under the master's lock */
    mr_errand *next, **link;
};

static void unlink_locked(mr_master *m, mr_errand *e) MR_REQUIRES(m->mu);
static void unlink_locked(mr_master *m, mr_errand *e)
{
    MR_ASSERT(e->master == m);
    (void)m;
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
    mr_lock(&e->master->mu);
    bool go = !e->master->stopped; /* else who stops it frees it */
    e->waits = !go;
    mr_unlock(&e->master->mu);
    if (go)
        tell_now(e);
}

static void told(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_errand *e = (mr_errand *)r;
    mr_master *m = e->master;
    int64_t ns = mr_tell_again_ns(e->tries++, mr_status_code(st));
    (void)reply;
    mr_status_free(st);
    mr_lock(&m->mu);
    bool over = ns < 0 || m->stopped;
    if (over) {
        unlink_locked(m, e);
    } else {
        e->waits = true;
        mr_timers_set(m->timers, &e->timer, mr_now_ns() + ns, try_again);
    }
    mr_unlock(&m->mu);
    if (over)
        errand_free(e);
}

void mr_master_tell(mr_master *m, mr_fellows *p, int task, const char *method, mr_str *body)
{
    mr_errand *e = mr_new(mr_errand);
    *e = (mr_errand){.master = m, .peers = mr_fellows_ref(p), .method = method, .body = *body, .task = task};
    *body = (mr_str){0};
    mr_lock(&m->mu);
    e->next = m->errands;
    e->link = &m->errands;
    if (e->next)
        e->next->link = &e->next;
    m->errands = e;
    mr_unlock(&m->mu);
    tell_now(e);
}

/* The master is stopped: those under way end with their calls. */
void mr_master_tell_no_more(mr_master *m)
{
    for (;;) {
        mr_lock(&m->mu);
        mr_errand *e = m->errands;
        while (e && !e->waits)
            e = e->next;
        if (e)
            unlink_locked(m, e);
        mr_unlock(&m->mu);
        if (!e)
            return;
        mr_timers_clear(m->timers, &e->timer); /* a callback that runs does nothing, and is waited for */
        errand_free(e);
    }
}
