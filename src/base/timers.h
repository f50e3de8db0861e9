/* base/timers.h -- calling back at a time: deadlines of steps, heartbeats.
 *
 * One thread; callbacks run on it, one after the other, and must not block. */
#ifndef MR_BASE_TIMERS_H
#define MR_BASE_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct mr_timer { /* embedded in what waits */
    void (*fn)(struct mr_timer *t);
    int64_t at_ns; /* of mr_now_ns */
    int place;     /* in the heap; -1: not in it */
} mr_timer;

typedef struct mr_timers mr_timers;
mr_status *mr_timers_new(mr_timers **out);
void mr_timers_free(mr_timers *t); /* no timer may be set; NULL is allowed */
/* fn is called once, at or after the time. A timer may be set again only after it was called or cancelled. */
void mr_timers_set(mr_timers *t, mr_timer *e, int64_t at_ns, void (*fn)(mr_timer *));
/* True: the timer is cancelled and will not be called. False: it was never set, or its callback has ended; this call
 * waits for that, unless the callback itself makes it. */
bool mr_timers_clear(mr_timers *t, mr_timer *e);

#endif
