/* dist/worker_steps.h -- the steps a worker knows: which may begin, which wait, which are over.
 *
 * Pure.  A step is first heard of either from the master (RunGraph) or from a peer that wants one of its values
 * (RecvTensor), in either order; it ends with the master's CleanupGraph.  What comes for a step after its end (a message
 * that was late or came twice) is told so and waits for nothing: the newest ends are remembered.  A call that is tracked
 * by a request id happens once. */
#ifndef MR_DIST_WORKER_STEPS_H
#define MR_DIST_WORKER_STEPS_H

#include "base/map.h"

enum { MR_STEPS_REMEMBERED = 4096 }; /* ends, and request ids */

typedef struct mr_worker_step {
    int64_t id;
    int n_running; /* RunGraph calls that are not answered */
    void *host;    /* the caller's: the rendezvous */
} mr_worker_step;

typedef struct mr_recent { /* the newest numbers of some kind */
    mr_imap set;
    uint64_t ring[MR_STEPS_REMEMBERED];
    int at;
} mr_recent;

typedef struct mr_worker_steps {
    mr_imap steps; /* id -> mr_worker_step */
    mr_recent over, requests;
} mr_worker_steps;

mr_worker_steps *mr_worker_steps_new(void);
void mr_worker_steps_free(mr_worker_steps *t); /* no step is left */

/* The step, made when it is new (*is_new: the caller sets host).  ABORTED when it is over. */
mr_status *mr_worker_steps_get(mr_worker_steps *t, int64_t id, mr_worker_step **out, bool *is_new);
/* A call comes with a request id (0: not tracked).  ABORTED when it came before. */
mr_status *mr_worker_steps_once(mr_worker_steps *t, int64_t request_id);
/* The step, or NULL. */
mr_worker_step *mr_worker_steps_find(const mr_worker_steps *t, int64_t id);
/* The end of a step: its host is handed to the caller (NULL when there is none), and it is remembered. */
void *mr_worker_steps_end(mr_worker_steps *t, int64_t id);
/* Any step that is left, to be ended; NULL when there is none. */
mr_worker_step *mr_worker_steps_any(const mr_worker_steps *t);

#endif
