/* dist/worker_steps.h -- the steps a worker knows: which may begin, which wait, which are over.
 *
 * Pure.  A step is first heard of either from the master (RunGraph) or from a peer that wants one of its values
 * (RecvTensor), in either order; it ends with the master's CleanupGraph, or when nobody is left to send one: the caller
 * of RunGraph has gone, its session is deleted, or all who asked for its values have gone before it began.  What comes
 * for a step after its end (a message that was late or came twice) is told so and waits for nothing: the newest ends are
 * remembered.  A step begins once, and a call that is tracked by a request id happens once. */
#ifndef MR_DIST_WORKER_STEPS_H
#define MR_DIST_WORKER_STEPS_H

#include "dist/recent.h"

enum { MR_STEPS_REMEMBERED = MR_RECENT_REMEMBERED }; /* ends, and request ids */

typedef struct mr_worker_step {
    int64_t id;
    bool begun, pieces; /* by its master; as a partial run */
    int n_asked;        /* RecvTensor calls of other tasks that wait */
    const void *owner;  /* once begun: the session it belongs to */
    void *host;         /* the caller's: the rendezvous */
} mr_worker_step;

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
/* RunGraph comes for a step.  ABORTED when it began before: its effects happen once.  A partial run comes in pieces. */
mr_status *mr_worker_steps_begin(mr_worker_step *s, bool piece, const void *owner);
/* A RecvTensor waits; it was answered, or who asked has gone: true when the step is to be ended then. */
void mr_worker_steps_ask(mr_worker_step *s);
bool mr_worker_steps_asked(mr_worker_step *s, bool gone);
/* The step, or NULL. */
mr_worker_step *mr_worker_steps_find(const mr_worker_steps *t, int64_t id);
/* The end of a step: its host is handed to the caller (NULL when there is none), and it is remembered. */
void *mr_worker_steps_end(mr_worker_steps *t, int64_t id);
/* Any step that is left (of an owner, unless it is NULL), to be ended; NULL when there is none. */
mr_worker_step *mr_worker_steps_any(const mr_worker_steps *t, const void *owner);

#endif
