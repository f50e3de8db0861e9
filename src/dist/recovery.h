/* dist/recovery.h -- the way of a session back to work after a loss, and to work at first.
 *
 * Pure: events in, one action out.  The chief makes variables ready (from the newest checkpoint, else their
 * initial values) when some task has none; everybody else waits until that has happened.  A task that was lost is looked
 * for again and again, with pauses that grow, until a deadline. */
#ifndef MR_DIST_RECOVERY_H
#define MR_DIST_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef enum mr_recovery_do {
    MR_RECOVER_OPEN,    /* open a session, the old one closed: mr_recovery_opened */
    MR_RECOVER_CHECK,   /* see whether all variables are ready: mr_recovery_checked */
    MR_RECOVER_PREPARE, /* restore or initialise, then mark ready: mr_recovery_prepared */
    MR_RECOVER_PAUSE,   /* for pause_ns: mr_recovery_paused */
    MR_RECOVER_WORK,    /* all is well; until mr_recovery_lost */
    MR_RECOVER_FAIL,    /* mr_recovery.why says why */
} mr_recovery_do;

typedef struct mr_recovery {
    bool chief;
    int64_t deadline_ns;      /* how long the way back may take; 0: as long as it takes */
    int64_t lost_ns;          /* when the present way began */
    int64_t pause_ns;         /* the next pause */
    mr_recovery_do next;      /* behind the pause */
    mr_status *why;           /* the newest trouble */
} mr_recovery;

void mr_recovery_init(mr_recovery *r, bool chief, int64_t deadline_ns);
void mr_recovery_deinit(mr_recovery *r);
/* Losses that a new session can mend. */
bool mr_recovery_mends(const mr_status *st);

/* All take st, NULL for success. */
mr_recovery_do mr_recovery_begin(mr_recovery *r, int64_t now_ns);
mr_recovery_do mr_recovery_lost(mr_recovery *r, mr_status *st, int64_t now_ns);
mr_recovery_do mr_recovery_opened(mr_recovery *r, mr_status *st, int64_t now_ns);
mr_recovery_do mr_recovery_checked(mr_recovery *r, mr_status *st, bool ready, int64_t now_ns);
mr_recovery_do mr_recovery_prepared(mr_recovery *r, mr_status *st, int64_t now_ns);
mr_recovery_do mr_recovery_paused(mr_recovery *r);

#endif
