/* server/errands.h -- requests that nobody waits for, but that should arrive: CleanupGraph, DeleteWorkerSession.
 *
 * What does not arrive keeps memory at a task for as long as it lives, so it is tried again (dist/session says how
 * often). */
#ifndef MR_SERVER_ERRANDS_H
#define MR_SERVER_ERRANDS_H

#include "base/timers.h"
#include "server/fellows.h"

typedef struct mr_errands {
    mr_timers *timers;
    mr_mutex mu;
    struct mr_errand *all MR_GUARDED_BY(mu); /* from their beginning to their end: under way, or waiting for their timers */
    bool hurried MR_GUARDED_BY(mu);
} mr_errands;

void mr_errands_init(mr_errands *e, mr_timers *timers);
void mr_errands_deinit(mr_errands *e); /* hurried, and no request is under way */
/* Takes the body. */
void mr_errands_send(mr_errands *e, mr_fellows *p, int task, const char *method, mr_str *body);
/* From now on each is tried once: those under way end with their calls. */
void mr_errands_hurry(mr_errands *e);
/* Hurried before: none waits for its timer any more. */
void mr_errands_wait_no_more(mr_errands *e);

#endif
