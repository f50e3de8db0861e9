/* server/retries.h -- requests that nobody waits for, but that should arrive: CleanupGraph, DeleteWorkerSession.
 *
 * What does not arrive keeps memory at a task for as long as it lives, so it is tried again (dist/session says how
 * often). */
#ifndef MR_SERVER_RETRIES_H
#define MR_SERVER_RETRIES_H

#include "base/timers.h"
#include "server/task_peers.h"

typedef struct mr_retries {
    mr_timers *timers;
    mr_mutex mu;
    struct mr_retry *all MR_GUARDED_BY(mu); /* from their beginning to their end: under way, or waiting for their timers */
    bool hurried MR_GUARDED_BY(mu);
} mr_retries;

void mr_retries_init(mr_retries *e, mr_timers *timers);
void mr_retries_deinit(mr_retries *e); /* hurried, and no request is under way */
/* Takes the body. */
void mr_retries_send(mr_retries *e, mr_task_peers *p, int task, const char *method, mr_str *body);
/* From now on each is tried once: those under way end with their calls. */
void mr_retries_hurry(mr_retries *e);
/* Hurried before: none waits for its timer any more. */
void mr_retries_drop(mr_retries *e);

#endif
