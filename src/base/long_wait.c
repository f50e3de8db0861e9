/* base/long_wait.c -- waits that last. */
#include "base/long_wait.h"

#include <stdatomic.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
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

void mr_long_wait_begin(mr_long_wait *w, int64_t now_ns)
{
    *w = (mr_long_wait){now_ns, now_ns + mr_long_wait_period_ns()};
}

bool mr_long_wait_due(mr_long_wait *w, int64_t now_ns, double *seconds)
{
    if (now_ns < w->next_ns)
        return false;
    w->next_ns = now_ns + mr_long_wait_period_ns();
    if (seconds)
        *seconds = (double)(now_ns - w->begun_ns) / 1e9;
    return true;
}

/* Waits on c, at most until until_ns (0: without limit), and logs when the wait has become long. Like any wait on a
 * condition, it may return early. False: the time is over. */
bool mr_long_wait_cond(mr_long_wait *w, mr_cond *c, mr_mutex *mu, int64_t until_ns, const char *fmt, ...)
{
    double seconds;
    bool in_time = mr_cond_wait_until(c, mu, until_ns ? MR_MIN(until_ns, w->next_ns) : w->next_ns);
    int64_t now_ns = mr_now_ns();
    if (in_time)
        return true;
    if (mr_long_wait_due(w, now_ns, &seconds)) {
        va_list ap;
        mr_str what = {0};
        va_start(ap, fmt);
        mr_str_vprintf(&what, fmt, ap);
        va_end(ap);
        mr_info("Still waiting for %s (%.0f s)", mr_str_z(&what), seconds);
        mr_str_deinit(&what);
    }
    return !until_ns || now_ns < until_ns;
}
