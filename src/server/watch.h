/* server/watch.h -- heartbeats: which of its peers a task can count on.
 *
 * Peers are watched while somebody holds them: a master the tasks of its sessions, a worker the masters of its sessions and
 * the tasks it receives from.  A heartbeat is a GetStatus, which every worker service answers with its devices and
 * so with the incarnation of its process.  What follows from them says dist/membership. */
#ifndef MR_SERVER_WATCH_H
#define MR_SERVER_WATCH_H

#include "server/host.h"

extern const mr_membership_times mr_watch_default; /* lost after 7 s: with all that follows no wait goes over 10 s */

/* When a life of a task has ended, or a new one is there, the host's incarnation_changed is called: who has to do with
 * it asks mr_watch_ended. */
mr_watch *mr_watch_new(mr_task_peers *p);
/* No heartbeats any more. */
void mr_watch_stop(mr_watch *w);
void mr_watch_free(mr_watch *w); /* stopped, and no request to its tasks is under way */

/* In pairs.  A task that is not watched (this one, none) is fine. */
void mr_watch_hold(mr_watch *w, int task);
void mr_watch_release(mr_watch *w, int task);
/* A call of a task tells which life of it this is. */
void mr_watch_heard(mr_watch *w, int task, uint64_t incarnation);

/* The naming service says which life of a task is there now: as good as its own word, unless it is an earlier one. */
void mr_watch_named(mr_watch *w, int task, uint64_t incarnation);
/* The naming service has lost a task.  Either can be cut off from it: the task is lost too unless it answers soon. */
void mr_watch_doubt(mr_watch *w, int task);

bool mr_watch_ended(mr_watch *w, int task, uint64_t incarnation);
/* Why a life has ended: UNAVAILABLE or ABORTED, with the task, and since when.  NULL: it has not. */
mr_status *mr_watch_why(mr_watch *w, int task, uint64_t incarnation);
/* One line on the state of a task. */
void mr_watch_describe(mr_watch *w, int task, mr_str *out);

#endif
