/* server/retries.h -- requests that nobody waits for, but that should arrive: CleanupGraph, DeleteWorkerSession.
 *
 * A task that misses one keeps memory for as long as it runs, so the request is retried (dist/session decides how
 * often). */
#ifndef MR_SERVER_RETRIES_H
#define MR_SERVER_RETRIES_H

#include "base/timers.h"
#include "server/task_peers.h"

typedef struct mr_retries {
    mr_timers *timers;
    mr_mutex mu;
    struct mr_retry *all MR_GUARDED_BY(mu); /* all that have not ended: under way, or waiting for their timers */
    bool hurried MR_GUARDED_BY(mu);
} mr_retries;

void mr_retries_init(mr_retries *e, mr_timers *timers);
void mr_retries_deinit(mr_retries *e); /* hurried, and no request is under way */
/* Takes the body. */
void mr_retries_send(mr_retries *e, mr_task_peers *p, int task, const char *method, mr_str *body);
/* From now on each is tried once: those under way end with their calls. */
void mr_retries_hurry(mr_retries *e);
/* After mr_retries_hurry: frees those that wait for their timers. */
void mr_retries_drop(mr_retries *e);

#endif
