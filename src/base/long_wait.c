/* base/long_wait.c -- waits that last. */
#include "base/long_wait.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/str.h"

#define MS INT64_C(1000000)
enum { DEFAULT_MS = 10000, LONGEST_MS = 24 * 3600 * 1000 };

static _Atomic int64_t period_ns; /* 0: not known yet */

int64_t mr_long_wait_period_ns(void)
{
    int64_t ns = atomic_load(&period_ns), ms;
    if (ns)
        return ns;
    const char *text = getenv("MILLRACE_WAIT_LOG_MS");
    if (!text || !mr_sv_to_i64(mr_sv_of(text), &ms) || ms < 1 || ms > LONGEST_MS)
        ms = DEFAULT_MS;
    atomic_store(&period_ns, ms * MS);
    return ms * MS;
}

void mr_long_wait_set_period_ns(int64_t ns) { atomic_store(&period_ns, ns); }

void mr_long_wait_begin(mr_long_wait *w, int64_t now_ns) { *w = (mr_long_wait){now_ns, now_ns + mr_long_wait_period_ns()}; }

bool mr_long_wait_due(mr_long_wait *w, int64_t now_ns, double *seconds)
{
    if (now_ns < w->next_ns)
        return false;
    w->next_ns = now_ns + mr_long_wait_period_ns();
    if (seconds)
        *seconds = (double)(now_ns - w->begun_ns) / 1e9;
    return true;
}
