/* dist/worker_steps.h -- the steps a worker knows: which may begin, which wait, which are over.
 *
 * Pure.  A worker learns of a step from the master (RunGraph) or from a peer that wants one of its values (RecvTensor),
 * in either order.  The step ends with the master's CleanupGraph, or when no CleanupGraph can come any more: the caller
 * of RunGraph has gone, its session is deleted, or all peers that asked for its values have gone before it began.  A
 * message for a step that is over, because it was late or repeated, gets an error and does not wait: the newest ends
 * are remembered.  A step begins once, and a call with a request id takes effect once. */
#ifndef MR_DIST_WORKER_STEPS_H
#define MR_DIST_WORKER_STEPS_H

#include "dist/recent.h"

enum { MR_STEPS_REMEMBERED = MR_RECENT_REMEMBERED }; /* ends, and request ids */

typedef struct mr_worker_step {
    int64_t id;
    bool begun, pieces; /* by its master; as a partial run */
    int n_asked;        /* waiting RecvTensor calls of other tasks */
    const void *owner;  /* once begun: the session it belongs to */
    void *host;         /* the rendezvous; belongs to the caller */
} mr_worker_step;

typedef struct mr_worker_steps {
    mr_imap steps; /* id -> mr_worker_step */
    mr_recent over, requests;
} mr_worker_steps;

mr_worker_steps *mr_worker_steps_new(void);
void mr_worker_steps_free(mr_worker_steps *t); /* the caller has ended all steps */

/* The step, added if it is new (*is_new: the caller sets host).  ABORTED if it is over. */
mr_status *mr_worker_steps_get(mr_worker_steps *t, int64_t id, mr_worker_step **out, bool *is_new);
/* Records a call with a request id (0: not tracked).  ABORTED if it was seen before. */
mr_status *mr_worker_steps_once(mr_worker_steps *t, int64_t request_id);
/* RunGraph arrives for a step.  ABORTED if the step has begun before.  A partial run arrives in pieces. */
mr_status *mr_worker_steps_begin(mr_worker_step *s, bool piece, const void *owner);
/* A RecvTensor begins to wait. */
void mr_worker_steps_ask(mr_worker_step *s);
/* It was answered, or (gone) its caller has gone.  True: the step must be ended. */
bool mr_worker_steps_asked(mr_worker_step *s, bool gone);
/* NULL: unknown. */
mr_worker_step *mr_worker_steps_find(const mr_worker_steps *t, int64_t id);
/* Ends a step and remembers that; the caller gets its host (NULL: there is no such step). */
void *mr_worker_steps_end(mr_worker_steps *t, int64_t id);
/* Any step that is left (of an owner, unless that is NULL), which must be ended; NULL: there is none. */
mr_worker_step *mr_worker_steps_any(const mr_worker_steps *t, const void *owner);

#endif
