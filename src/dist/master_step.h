/* dist/master_step.h -- one step over several tasks, as its master sees it: what to do next, and when it is over.
 *
 * Pure: events in, actions out.  The caller carries out the actions and reports the results.  A part is the share of
 * one task.  All parts are started together, and the first error stops the others.  The client gets the root error
 * rather than one of its consequences.  When all parts have ended, in whatever way, each is cleaned up once and the
 * client is answered once. */
#ifndef MR_DIST_MASTER_STEP_H
#define MR_DIST_MASTER_STEP_H

#include "base/status.h"
#include "base/vec.h"

typedef enum mr_step_do {
    MR_DO_RUN,     /* send RunGraph to the part's task; answered by mr_master_step_ran */
    MR_DO_CANCEL,  /* cancel that call; it is still answered */
    MR_DO_CLEANUP, /* send CleanupGraph; its answer is ignored */
    MR_DO_REPLY,   /* answer the client (part -1); the last action */
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
    bool goes_on;  /* more calls of the same step follow: it is cleaned up only if this one fails */
    mr_status *st; /* the result so far */
} mr_master_step;

void mr_master_step_init(mr_master_step *s, int n_parts);
void mr_master_step_deinit(mr_master_step *s);

void mr_master_step_begin(mr_master_step *s, mr_step_actions *out);
/* A part has ended; takes st.  A second report of the same part is ignored. */
void mr_master_step_ran(mr_master_step *s, int part, mr_status *st, mr_step_actions *out);
/* The client has gone, its time is over, the session is closed, or a task was lost; takes why. */
void mr_master_step_stop(mr_master_step *s, mr_status *why, mr_step_actions *out);
/* After MR_DO_REPLY: the client's result; the caller owns it. */
mr_status *mr_master_step_result(mr_master_step *s);

#endif
