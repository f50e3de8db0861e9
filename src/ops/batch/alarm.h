/* ops/batch/alarm.h -- the timeout of a batch, or of the runs that wait for one.
 *
 * When the alarm of an object goes off, the single timer thread of the process calls look, which must not block.
 * Work that ends runs is done by a thread of the device's pool: ring. Deadlines never decrease: an object has one
 * timeout, so the waiter that came first is also the first to time out. */
#ifndef MR_OPS_BATCH_ALARM_H
#define MR_OPS_BATCH_ALARM_H

#include "base/timers.h"
#include "run/later.h"

typedef struct mr_alarm_kind {
    /* Called with the lock held. Does all work that ends no run, sets the alarm again if somebody still waits, and
     * returns the mr_later of a run that must end now (borrowed; it keeps the session alive), or NULL: then ring is
     * not called. */
    mr_later *(*look)(mr_object *owner, int64_t now_ns);
    void (*ring)(mr_object *owner); /* called without the lock, with a reference */
} mr_alarm_kind;

typedef struct mr_alarm { /* a part of its owner */
    const mr_alarm_kind *kind;
    mr_object *owner;
    mr_mutex *mu; /* the owner's mutex; guards the rest */
    mr_pool *pool;
    mr_timers *timers; /* those of the process */
    mr_timer timer;
    mr_task task;
    bool set, stopped;
    bool ringing; /* the task is submitted or running */
} mr_alarm;

/* pool may be NULL: then the timer thread calls ring itself. */
mr_status *mr_alarm_init(mr_alarm *a, const mr_alarm_kind *kind, mr_object *owner, mr_mutex *mu, mr_pool *pool);
/* With the lock held: goes off at this time at the latest. An alarm that is already set is earlier, and stays. */
void mr_alarm_set_locked(mr_alarm *a, int64_t at_ns);
/* Call this without the lock, when the owner is freed. */
void mr_alarm_deinit(mr_alarm *a);

#endif
