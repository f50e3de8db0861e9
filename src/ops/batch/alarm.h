/* ops/batch/alarm.h -- when the time of a batch, or of those who wait for one, is over.
 *
 * An object that has an alarm is looked at when it goes off, on the one thread of all timers, which must not wait.  What
 * ends runs is done elsewhere, by a thread of the device's pool: ring.  Times that are set never fall: an object
 * has one timeout, so whoever came first is the first whose time is over. */
#ifndef MR_OPS_BATCH_ALARM_H
#define MR_OPS_BATCH_ALARM_H

#include "base/timers.h"
#include "run/later.h"

typedef struct mr_alarm_kind {
    /* With the lock held: does what ends no run, sets the alarm again if somebody waits still, and gives what is taken
     * from a run that is to end now (borrowed; it keeps the session), or NULL: then nothing rings. */
    mr_later *(*look)(mr_object *owner, int64_t now_ns);
    void (*ring)(mr_object *owner); /* without the lock, with a reference */
} mr_alarm_kind;

typedef struct mr_alarm { /* a part of its owner */
    const mr_alarm_kind *kind;
    mr_object *owner;
    mr_mutex *mu; /* the owner's; guards the rest */
    mr_pool *pool;
    mr_timers *timers; /* the process's */
    mr_timer timer;
    mr_task task;
    bool set, stopped;
    bool ringing; /* the task is on its way */
} mr_alarm;

/* pool may be NULL: the thread of the timers rings itself. */
mr_status *mr_alarm_init(mr_alarm *a, const mr_alarm_kind *kind, mr_object *owner, mr_mutex *mu, mr_pool *pool);
/* With the lock held: at this time at the latest.  One that is set already comes before it. */
void mr_alarm_set_locked(mr_alarm *a, int64_t at_ns);
/* When the owner is freed; without the lock. */
void mr_alarm_deinit(mr_alarm *a);

#endif
