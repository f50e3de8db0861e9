/* dist/recovery.c -- open, check, prepare, work; and again.
 *
 *     OPEN -> CHECK -> WORK                    the variables are ready
 *             CHECK -> PREPARE -> CHECK        they are not, and this is the chief
 *             CHECK -> PAUSE -> CHECK          they are not, and another worker is the chief
 *     any error -> PAUSE -> OPEN               if a new session can repair it, else FAIL
 *     the deadline is over -> FAIL
 *
 * Any error leads through a pause back to the start: a task may have been lost at each point, and
 * only a new session knows its new incarnation. */
#include "dist/recovery.h"

#include "base/memory.h"

#define FIRST_PAUSE_NS INT64_C(20000000)
#define LAST_PAUSE_NS INT64_C(1000000000)

void mr_recovery_init(mr_recovery *r, bool chief, int64_t deadline_ns)
{
    *r = (mr_recovery){.chief = chief, .deadline_ns = deadline_ns, .pause_ns = FIRST_PAUSE_NS};
}

void mr_recovery_deinit(mr_recovery *r)
{
    mr_status_free(r->why);
    r->why = NULL;
}

/* CANCELLED: another part of this process saw the loss first and closed the session. */
bool mr_recovery_mends(const mr_status *st)
{
    mr_code c = mr_status_code(st);
    return c == MR_ABORTED || c == MR_UNAVAILABLE || c == MR_CANCELLED || c == MR_DEADLINE_EXCEEDED;
}

/* Keeps the newest error. Takes over st. */
static void remember_error(mr_recovery *r, mr_status *st)
{
    if (!st)
        return;
    mr_status_free(r->why);
    r->why = st;
}

static mr_recovery_do fail_recovery(mr_recovery *r) { return r->next = MR_RECOVER_FAIL; }

/* Continues with `next` after a pause, unless the deadline is over. */
static mr_recovery_do pause_recovery(mr_recovery *r, mr_recovery_do next, int64_t now_ns)
{
    if (r->deadline_ns > 0 && now_ns - r->lost_ns > r->deadline_ns) {
        if (!r->why)
            r->why = mr_error(MR_DEADLINE_EXCEEDED, "The chief has not made the variables ready");
        else
            mr_status_prepend(r->why, "Gave up after %lld s: ", (long long)((now_ns - r->lost_ns) / 1000000000));
        return fail_recovery(r);
    }
    r->next = next;
    return MR_RECOVER_PAUSE;
}

/* After an error: opens a new session after a pause, or gives up if a new session cannot repair it. Takes over st. */
static mr_recovery_do try_again(mr_recovery *r, mr_status *st, int64_t now_ns)
{
    remember_error(r, st);
    return mr_recovery_mends(r->why) ? pause_recovery(r, MR_RECOVER_OPEN, now_ns) : fail_recovery(r);
}

mr_recovery_do mr_recovery_begin(mr_recovery *r, int64_t now_ns)
{
    r->lost_ns = now_ns;
    r->pause_ns = FIRST_PAUSE_NS;
    return MR_RECOVER_OPEN;
}

mr_recovery_do mr_recovery_lost(mr_recovery *r, mr_status *st, int64_t now_ns)
{
    r->lost_ns = now_ns;
    r->pause_ns = FIRST_PAUSE_NS;
    return try_again(r, st, now_ns);
}

mr_recovery_do mr_recovery_opened(mr_recovery *r, mr_status *st, int64_t now_ns)
{
    return st ? try_again(r, st, now_ns) : MR_RECOVER_CHECK;
}

/* A worker that only waits for the chief keeps its session and looks again. */
mr_recovery_do mr_recovery_checked(mr_recovery *r, mr_status *st, bool ready, int64_t now_ns)
{
    if (st)
        return try_again(r, st, now_ns);
    if (!ready)
        return r->chief ? MR_RECOVER_PREPARE : pause_recovery(r, MR_RECOVER_CHECK, now_ns);
    mr_status_free(r->why);
    r->why = NULL;
    return MR_RECOVER_WORK;
}

/* Checks once more: a task may have been lost during the preparation. */
mr_recovery_do mr_recovery_prepared(mr_recovery *r, mr_status *st, int64_t now_ns)
{
    return st ? try_again(r, st, now_ns) : MR_RECOVER_CHECK;
}

mr_recovery_do mr_recovery_paused(mr_recovery *r)
{
    MR_ASSERT(r->pause_ns > 0 && r->next != MR_RECOVER_PAUSE);
    r->pause_ns = MR_MIN(r->pause_ns * 2, LAST_PAUSE_NS);
    return r->next;
}
