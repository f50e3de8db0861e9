/* train/supervised_internal.h -- a supervised session opened: supervised.c has the client's side, supervised_threads.c what
 * goes on beside it. */
#ifndef MR_TRAIN_SUPERVISED_INTERNAL_H
#define MR_TRAIN_SUPERVISED_INTERNAL_H

#include "base/long_wait.h"
#include "dist/recovery.h"
#include "train/supervised.h"
#include "train/sync_internal.h"
#include "train/tracer.h"
#include "train/vote.h"

enum { MR_SUPERVISED_THREADS = 3 }; /* leads, saves, says that it lives */

struct mr_supervised {
    mr_supervised_options o;
    char *folder, *prefix;
    mr_net_saver *saver;
    mr_node *init, *set_flags;
    MR_VEC(mr_out) flags;
    mr_out step, step_after;
    bool started;
    int64_t deadline_ms;
    mr_cancel *cancel; /* of the waits for an era to begin */
    /* the client's thread's own */
    mr_recovery recovery;
    mr_long_wait way_back; /* since the client's thread has no session */
    mr_sync_worker worker;
    int n_losses;
    int64_t last_step; /* the newest of this worker */
    int64_t known_step; /* the same when it is known to be of the present variables; -1: it is not */
    mr_sync_figures own; /* asynchronous: its own; others' updates are seen in the step */
    int64_t stale_sum;
    int64_t told_ns; /* `own`, to whoever watches */
    bool cleaned; /* what killed saves had left */
    mr_tracer tracer;

    mr_mutex voting; /* one at a time; outside of mu */
    mr_net_vote vote;
    mr_election election MR_GUARDED_BY(voting);

    mr_mutex saving; /* one checkpoint at a time; outside of mu */
    mr_mutex mu;
    mr_cond changed;
    mr_session *session MR_GUARDED_BY(mu); /* NULL: no era at present */
    mr_session *old MR_GUARDED_BY(mu);     /* closed, freed when nobody uses it */
    mr_session *opening MR_GUARDED_BY(mu); /* of the era to come; NULL: none is at present */
    mr_status *why MR_GUARDED_BY(mu);      /* the loss that ended the era */
    mr_status *fatal MR_GUARDED_BY(mu);    /* what no new session mends */
    int era MR_GUARDED_BY(mu), n_users MR_GUARDED_BY(mu);
    bool chief MR_GUARDED_BY(mu); /* in this era */
    bool ending MR_GUARDED_BY(mu);
    bool left MR_GUARDED_BY(mu); /* this worker has left the barrier */
    bool led MR_GUARDED_BY(mu);  /* all have; until this one trains again */

    mr_thread threads[MR_SUPERVISED_THREADS];
    int n_threads;
};

/* The session of the present era, waited for; NULL when all ends.  Each is given back. */
mr_session *mr_supervised_use(mr_supervised *s, int *era);
/* The same of an era in which this is the chief. */
mr_session *mr_supervised_use_as_chief(mr_supervised *s, int *era);
void mr_supervised_unuse(mr_supervised *s);
/* Somebody saw a loss in an era; takes st.  Called with the session given back. */
void mr_supervised_lost(mr_supervised *s, int era, mr_status *st);
/* Whether every task has been made ready since it started. */
mr_status *mr_supervised_check(mr_supervised *s, mr_session *session, bool *ready);
/* Looks who is the chief, and keeps or takes the place. */
mr_status *mr_supervised_vote(mr_supervised *s, mr_session *session, bool *chief);
/* ABORTED when that is not what it is in this era. */
mr_status *mr_supervised_confirm(mr_supervised *s, mr_session *session);
/* A checkpoint of now, and its step. */
mr_status *mr_supervised_save(mr_supervised *s, mr_session *session, int64_t *step);

mr_status *mr_supervised_start_threads(mr_supervised *s);
void mr_supervised_join_threads(mr_supervised *s);

#endif
