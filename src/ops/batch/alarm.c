/* ops/batch/alarm.c -- see alarm.h. */
#include "ops/batch/alarm.h"

#include <pthread.h>

#include "base/clock.h"

/* One timer thread serves all alarms and is never ended, because an owner may be freed on any thread, including
 * that one. */
static mr_timers *the_timers;
static void make_timers(void) { mr_status_free(mr_timers_new(&the_timers)); }

mr_status *mr_alarm_init(mr_alarm *a, const mr_alarm_kind *kind, mr_object *owner, mr_mutex *mu, mr_pool *pool)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_timers);
    *a = (mr_alarm){.kind = kind, .owner = owner, .mu = mu, .pool = pool, .timers = the_timers, .timer = {.place = -1}};
    return the_timers ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "Cannot start the thread for the timers of batches");
}

/* A stopped alarm stays stopped: a callback that takes the lock later does not set it again. */
void mr_alarm_deinit(mr_alarm *a)
{
    if (!a->timers)
        return;
    mr_lock(a->mu);
    a->stopped = true;
    mr_unlock(a->mu);
    mr_timers_clear(a->timers, &a->timer);
}

static void ring_alarm(mr_task *t)
{
    mr_alarm *a = (mr_alarm *)((char *)t - offsetof(mr_alarm, task));
    mr_object *owner = a->owner;
    mr_lock(a->mu);
    a->ringing = false;
    mr_unlock(a->mu);
    a->kind->ring(owner);
    mr_object_unref(owner);
}

/* Keeps the session alive while the timer thread submits work to its pool, as a running call does. */
static mr_later *hold_later(mr_later *l)
{
    mr_later_ref(l);
    mr_lock(&l->mu);
    l->busy++;
    mr_unlock(&l->mu);
    return l;
}

static void let_go(mr_later *l)
{
    mr_lock(&l->mu);
    if (--l->busy == 0)
        mr_cond_broadcast(&l->idle);
    mr_unlock(&l->mu);
    mr_later_unref(l);
}

static void go_off(mr_timer *t)
{
    mr_alarm *a = (mr_alarm *)((char *)t - offsetof(mr_alarm, timer));
    mr_lock(a->mu);
    a->set = false;
    mr_later *l = a->stopped ? NULL : a->kind->look(a->owner, mr_now_ns());
    bool rings = l && !a->ringing;
    if (l)
        hold_later(l); /* its run has not ended, so the owner and the session still exist */
    if (rings) {
        a->ringing = true;
        mr_object_ref(a->owner);
    }
    mr_pool *pool = a->pool;
    mr_unlock(a->mu); /* unless the alarm rings, the owner may be freed from here on */
    if (rings) {
        a->task.fn = ring_alarm;
        if (pool)
            mr_pool_submit(pool, &a->task);
        else
            ring_alarm(&a->task);
    }
    if (l)
        let_go(l);
}

void mr_alarm_set_locked(mr_alarm *a, int64_t at_ns)
{
    if (a->set || a->stopped)
        return;
    a->set = true;
    mr_timers_set(a->timers, &a->timer, at_ns, go_off);
}
