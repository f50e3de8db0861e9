/* server/unresolved.h -- requests to tasks of which nobody knows yet where they are.
 *
 * For server/task_peers.c.  A request waits here until the naming service has told the address of its task, then goes its way.  One
 * that is not to wait for its task (mr_net_request.wait_for_ready) waits only until the service has said anything at all, and
 * not for long. */
#ifndef MR_SERVER_UNRESOLVED_H
#define MR_SERVER_UNRESOLVED_H

#include "server/host.h"

/* UNAVAILABLE when there is nothing to wait for. */
mr_status *mr_unresolved_add_locked(mr_task_peers *p, int task, mr_net_request *r) MR_REQUIRES(p->mu);
/* Starts what waits for that task, or ends it, as far as something is known now. */
void mr_unresolved_retry(mr_task_peers *p, int task);
/* Ends all, when the fellows are closed.  Not from a callback. */
void mr_unresolved_close(mr_task_peers *p);
/* Ends a request that waits, as cancelled; false: it does not wait. */
bool mr_unresolved_cancel(mr_task_peers *p, mr_net_request *r);

/* For the above (server/task_peers.c): the way to a task, which r must go then; NULL without an error when its address is not known. */
mr_status *mr_task_peers_route_locked(mr_task_peers *p, int task, mr_net_request *r, mr_route **out) MR_REQUIRES(p->mu);
void mr_task_peers_go(mr_route *w, mr_net_request *r);

#endif
