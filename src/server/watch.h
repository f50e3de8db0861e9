/* server/watch.h -- heartbeats: which of its peers a task can count on.
 *
 * Peers are watched while they are held: a master holds the tasks of its sessions, a worker the masters of its sessions
 * and the tasks it receives from.  A heartbeat is a GetStatus, which every worker service answers with its devices and
 * so with the incarnation of its process.  dist/membership decides what follows from the answers. */
#ifndef MR_SERVER_WATCH_H
#define MR_SERVER_WATCH_H

#include "server/host.h"

extern const mr_membership_times mr_watch_default; /* lost after 7 s, so that all waits for the task end within 10 s */

/* When an incarnation of a task has ended, or a new one has appeared, the host's incarnation_changed is called;
 * mr_watch_ended answers which incarnations have ended. */
mr_watch *mr_watch_new(mr_task_peers *p);
/* Ends the heartbeats. */
void mr_watch_stop(mr_watch *w);
void mr_watch_free(mr_watch *w); /* stopped, and no request to its tasks is under way */

/* In pairs.  Does nothing for this task itself and for -1. */
void mr_watch_hold(mr_watch *w, int task);
void mr_watch_release(mr_watch *w, int task);
/* A call of a task has named the task's incarnation. */
void mr_watch_heard(mr_watch *w, int task, uint64_t incarnation);

/* The naming service has named a task's incarnation: counts like a message of the task, unless that incarnation has
 * ended. */
void mr_watch_named(mr_watch *w, int task, uint64_t incarnation);
/* The naming service has lost a task.  Either the task or the service may be cut off: the task is lost unless it
 * answers a heartbeat soon. */
void mr_watch_doubt(mr_watch *w, int task);

bool mr_watch_ended(mr_watch *w, int task, uint64_t incarnation);
/* Why an incarnation has ended: UNAVAILABLE or ABORTED, with the task, and since when.  NULL: it has not. */
mr_status *mr_watch_why(mr_watch *w, int task, uint64_t incarnation);
/* One line on the state of a task. */
void mr_watch_describe(mr_watch *w, int task, mr_str *out);

#endif
