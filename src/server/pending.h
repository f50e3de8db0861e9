/* server/pending.h -- requests to tasks that are not answered yet, and the log of those that wait for long.
 *
 * For server/task_peers.c.  Every request passes through here on its way, so whatever this task waits for (its part of
 * a step, a tensor, the members of a collective), the log names the task that owes the answer, every ten seconds. */
#ifndef MR_SERVER_PENDING_H
#define MR_SERVER_PENDING_H

#include "server/host.h"

/* A request begins: from now on it is in the list, until its done is called. */
void mr_pending_add_locked(mr_task_peers *p, int task, mr_net_request *r) MR_REQUIRES(p->mu);
/* From now on, every ten seconds, until mr_pending_stop; not from a callback. */
void mr_pending_watch(mr_task_peers *p);
void mr_pending_stop(mr_task_peers *p);

#endif
