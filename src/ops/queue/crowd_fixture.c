/* ops/queue/crowd_fixture.c -- see crowd_fixture.h. */
#include "ops/queue/crowd_fixture.h"

#include <sched.h>

#include "base/memory.h"

uint64_t mr_crowd_member_random(mr_crowd_member *m, uint64_t below)
{
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return (m->random >> 8) % below;
}

/* A waiting call blocks its own thread, so other threads must cancel it. */
static void cancel_one(mr_crowd *c, mr_crowd_member *m)
{
    mr_lock(&m->mu);
    if (m->call && !mr_call_ended(m->call)) {
        mr_call_cancel(m->call);
        atomic_fetch_add(&c->n_cancelled, 1);
    }
    mr_unlock(&m->mu);
}

static void publish(mr_crowd_member *m, mr_call *c)
{
    mr_lock(&m->mu); /* waits for a thread that is cancelling the old call */
    m->call = c;
    mr_unlock(&m->mu);
}

mr_call *mr_crowd_member_call(mr_crowd_member *m, mr_call *c, bool may_be_cancelled)
{
    mr_crowd *all = m->crowd;
    publish(m, may_be_cancelled ? c : NULL);
    if (atomic_load(&all->n_cancelled) * 4 < atomic_load(&all->n_calls))
        cancel_one(all, &all->members[mr_crowd_member_random(m, MR_CROWD)]);
    mr_call_begin(c);
    mr_lock(&c->mu);
    while (!c->ended)
        mr_cond_wait(&c->changed, &c->mu);
    mr_unlock(&c->mu);
    publish(m, NULL);
    atomic_fetch_add(&all->n_calls, 1);
    return c;
}

static void member(void *arg)
{
    mr_crowd_member *m = arg;
    while (!atomic_load(&m->crowd->all_there))
        sched_yield();
    m->crowd->work(m);
}

void mr_crowd_run(void (*work)(mr_crowd_member *m), void *ctx)
{
    mr_crowd *c = mr_new(mr_crowd);
    c->work = work;
    for (int i = 0; i < MR_CROWD; i++) {
        mr_crowd_member *m = &c->members[i];
        *m = (mr_crowd_member){.crowd = c, .id = i, .ctx = ctx, .random = mr_test_random() | 1};
        mr_mutex_init(&m->mu);
    }
    for (int i = 0; i < MR_CROWD; i++)
        MR_CHECK_INT(mr_thread_start(&c->members[i].thread, "crowd", member, &c->members[i]), 0);
    atomic_store(&c->all_there, true);
    for (int i = 0; i < MR_CROWD; i++)
        mr_thread_join(&c->members[i].thread);
    for (int i = 0; i < MR_CROWD; i++) /* only now: other members may have accessed it until all ended */
        mr_mutex_deinit(&c->members[i].mu);
    mr_free(c);
}
