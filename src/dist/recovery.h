/* dist/recovery.h -- how a session gets to work, at first and after a loss.
 *
 * Pure: events in, one action out.  If a task lacks its variables, the chief prepares them, from the newest checkpoint
 * or else from their initial values; the other workers wait for that.  Opening a session is tried again, with growing
 * pauses, until a deadline. */
#ifndef MR_DIST_RECOVERY_H
#define MR_DIST_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef enum mr_recovery_do {
    MR_RECOVER_OPEN,    /* close the old session and open one, then mr_recovery_opened */
    MR_RECOVER_CHECK,   /* check whether all variables are ready, then mr_recovery_checked */
    MR_RECOVER_PREPARE, /* restore or initialise, then mark ready, then mr_recovery_prepared */
    MR_RECOVER_PAUSE,   /* wait for pause_ns, then mr_recovery_paused */
    MR_RECOVER_WORK,    /* the session works, until mr_recovery_lost */
    MR_RECOVER_FAIL,    /* give up; the reason is mr_recovery.why */
} mr_recovery_do;

typedef struct mr_recovery {
    bool chief;
    int64_t deadline_ns;      /* how long a recovery may take; 0: no limit */
    int64_t lost_ns;          /* when the present recovery began */
    int64_t pause_ns;         /* the next pause */
    mr_recovery_do next;      /* what follows the pause */
    mr_status *why;           /* the newest error */
} mr_recovery;

void mr_recovery_init(mr_recovery *r, bool chief, int64_t deadline_ns);
void mr_recovery_deinit(mr_recovery *r);
/* Whether an error is a loss that a new session can repair. */
bool mr_recovery_mends(const mr_status *st);

/* Each reports the result of an action and returns the next one.  They take over st; NULL: success. */
mr_recovery_do mr_recovery_begin(mr_recovery *r, int64_t now_ns);
mr_recovery_do mr_recovery_lost(mr_recovery *r, mr_status *st, int64_t now_ns);
mr_recovery_do mr_recovery_opened(mr_recovery *r, mr_status *st, int64_t now_ns);
mr_recovery_do mr_recovery_checked(mr_recovery *r, mr_status *st, bool ready, int64_t now_ns);
mr_recovery_do mr_recovery_prepared(mr_recovery *r, mr_status *st, int64_t now_ns);
mr_recovery_do mr_recovery_paused(mr_recovery *r);

#endif
