/* base/long_wait.h -- a wait for a peer that lasts is logged every ten seconds.
 *
 *     mr_long_wait w;
 *     double seconds;
 *     mr_long_wait_begin(&w, mr_now_ns());
 *     while (!done) {
 *         wait until w.next_ns at the latest;
 *         if (!done && mr_long_wait_due(&w, mr_now_ns(), &seconds))
 *             mr_info("still waiting for %s (%.0f s): %s", peer, seconds, reason);
 *     } */
#ifndef MR_BASE_LONG_WAIT_H
#define MR_BASE_LONG_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/thread.h"

typedef struct mr_long_wait {
    int64_t begun_ns;
    int64_t next_ns; /* when it is to be logged next */
} mr_long_wait;

/* Ten seconds, or MILLRACE_WAIT_LOG_MS. */
int64_t mr_long_wait_period_ns(void);
/* For tests: another period in this process; 0: as above. */
void mr_long_wait_set_period_ns(int64_t ns);

void mr_long_wait_begin(mr_long_wait *w, int64_t now_ns);
/* True once in a period.  *seconds (may be NULL): how long the wait has lasted. */
bool mr_long_wait_due(mr_long_wait *w, int64_t now_ns, double *seconds);

/* mr_cond_wait_until that logs "Still waiting for " and what, a text as of printf, when it is due.  until_ns 0: for
 * ever.  False when that time has passed. */
bool mr_long_wait_cond(mr_long_wait *w, mr_cond *c, mr_mutex *mu, int64_t until_ns, const char *fmt, ...)
    MR_PRINTF(5, 6) MR_REQUIRES(mu);

#endif
