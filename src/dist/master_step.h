/* dist/master_step.h -- one step over several tasks, as its master sees it: what to do next, and when it is over.
 *
 * Pure: events in, actions out.  The caller sends what it is told to and reports what came back.  A part is the
 * share of one task.  All parts are started together; the first error stops the others, a root error is told rather
 * than its consequences; when all have ended, however they did, each is cleaned up once and the client is
 * answered once. */
#ifndef MR_DIST_MASTER_STEP_H
#define MR_DIST_MASTER_STEP_H

#include "base/status.h"
#include "base/vec.h"

typedef enum mr_step_do {
    MR_DO_RUN,     /* send RunGraph to the part's task; answered by mr_master_step_ran */
    MR_DO_CANCEL,  /* cancel that call; it is still answered */
    MR_DO_CLEANUP, /* send CleanupGraph; nobody waits for the answer */
    MR_DO_REPLY,   /* tell the client (part -1); the last action of all */
} mr_step_do;

typedef struct mr_step_action {
    mr_step_do what;
    int part;
} mr_step_action;
typedef MR_VEC(mr_step_action) mr_step_actions;

typedef struct mr_master_step {
    int n_parts;
    bool *running; /* by part */
    int n_running;
    bool stopping; /* the others were cancelled */
    bool goes_on;  /* more calls of the same step follow: it is cleaned up only when this one fails */
    mr_status *st; /* how it went, so far */
} mr_master_step;

void mr_master_step_init(mr_master_step *s, int n_parts);
void mr_master_step_deinit(mr_master_step *s);

void mr_master_step_begin(mr_master_step *s, mr_step_actions *out);
/* A part has ended; takes st.  A second report of the same part is ignored. */
void mr_master_step_ran(mr_master_step *s, int part, mr_status *st, mr_step_actions *out);
/* The client went away, its time is up, the session is closed, a task was lost: takes why. */
void mr_master_step_stop(mr_master_step *s, mr_status *why, mr_step_actions *out);
/* After MR_DO_REPLY: what to tell the client; the caller owns it. */
mr_status *mr_master_step_result(mr_master_step *s);

#endif
