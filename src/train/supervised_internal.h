/* train/supervised_internal.h -- the fields of a supervised session: supervised.c has the client's side,
 * supervised_threads.c the other threads. */
#ifndef MR_TRAIN_SUPERVISED_INTERNAL_H
#define MR_TRAIN_SUPERVISED_INTERNAL_H

#include "base/long_wait.h"
#include "dist/recovery.h"
#include "train/supervised.h"
#include "train/sync_internal.h"
#include "train/tracer.h"
#include "train/vote.h"

enum { MR_SUPERVISED_THREADS = 3 }; /* leads the barrier, saves, sends heartbeats */

struct mr_supervised {
    mr_supervised_options o;
    char *folder, *prefix;
    mr_nn_saver *saver;
    mr_node *init, *set_flags;
    MR_VEC(mr_out) flags;
    mr_out step, step_after;
    bool started;
    int64_t deadline_ms;
    mr_cancel *cancel; /* ends the waits for an era to begin */
    /* used by the client's thread alone */
    mr_recovery recovery;
    mr_long_wait way_back; /* for logging, while there is no session */
    mr_sync_worker worker;
    int n_losses;
    int64_t last_step; /* the newest step of this worker */
    int64_t known_step; /* the same, if it is known to belong to the present variables; else -1 */
    mr_sync_figures own; /* of asynchronous training: figures of this worker */
    int64_t stale_sum;
    int64_t told_ns; /* when `own` was last reported */
    bool cleaned; /* files left by killed saves have been removed */
    mr_tracer tracer;

    mr_mutex voting; /* one vote at a time; taken before mu */
    mr_nn_vote vote;
    mr_election election MR_GUARDED_BY(voting);

    mr_mutex saving; /* one checkpoint at a time; taken before mu */
    mr_mutex mu;
    mr_cond changed;
    mr_session *session MR_GUARDED_BY(mu); /* NULL: between two eras */
    mr_session *old MR_GUARDED_BY(mu);     /* closed; freed when n_users is 0 */
    mr_session *opening MR_GUARDED_BY(mu); /* being prepared for the next era; or NULL */
    mr_status *why MR_GUARDED_BY(mu);      /* the loss that ended the era */
    mr_status *fatal MR_GUARDED_BY(mu);    /* an error that no new session repairs */
    int era MR_GUARDED_BY(mu), n_users MR_GUARDED_BY(mu);
    bool chief MR_GUARDED_BY(mu); /* in this era */
    bool ending MR_GUARDED_BY(mu);
    bool left MR_GUARDED_BY(mu); /* this worker has left the barrier */
    bool led MR_GUARDED_BY(mu);  /* all have left; until this one trains again */

    mr_thread threads[MR_SUPERVISED_THREADS];
    int n_threads;
};

/* Waits for the session of the present era; NULL when the supervised session ends.  Give it back with
 * mr_supervised_unuse. */
mr_session *mr_supervised_use(mr_supervised *s, int *era);
/* The same for an era in which this worker is the chief. */
mr_session *mr_supervised_use_as_chief(mr_supervised *s, int *era);
void mr_supervised_unuse(mr_supervised *s);
/* Reports a loss in an era; takes st.  Call it after giving the session back. */
void mr_supervised_lost(mr_supervised *s, int era, mr_status *st);
/* Whether the variables of every task were prepared since it started. */
mr_status *mr_supervised_check(mr_supervised *s, mr_session *session, bool *ready);
/* Takes part in the election of the chief. */
mr_status *mr_supervised_vote(mr_supervised *s, mr_session *session, bool *chief);
/* Votes; ABORTED if the outcome differs from this era's. */
mr_status *mr_supervised_confirm(mr_supervised *s, mr_session *session);
/* Saves a checkpoint; *step is its step. */
mr_status *mr_supervised_save(mr_supervised *s, mr_session *session, int64_t *step);

mr_status *mr_supervised_start_threads(mr_supervised *s);
void mr_supervised_join_threads(mr_supervised *s);

#endif
