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
void mr_timers_free(mr_timers *t); /* nothing is set any more; NULL is fine */
/* fn is called once, at or after the time.  Set again only when it was called or taken out. */
void mr_timers_set(mr_timers *t, mr_timer *e, int64_t at_ns, void (*fn)(mr_timer *));
/* true: taken out, it will not be called.  false: it was called, to its end (this call waits for that, unless it is
 * made by that very callback), or was never set. */
bool mr_timers_clear(mr_timers *t, mr_timer *e);

#endif
