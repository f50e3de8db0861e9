/* server/unresolved.h -- requests to tasks whose address is not known yet.
 *
 * For server/task_peers.c.  A request waits here until the naming service has reported the address of its task, and
 * is then started.  One that does not wait for its task (mr_net_request.wait_for_ready is false) waits only until the
 * service has reported anything about the task, and for a few seconds at most. */
#ifndef MR_SERVER_UNRESOLVED_H
#define MR_SERVER_UNRESOLVED_H

#include "server/host.h"

/* UNAVAILABLE when there is nothing to wait for. */
mr_status *mr_unresolved_add_locked(mr_task_peers *p, int task, mr_net_request *r) MR_REQUIRES(p->mu);
/* Starts or ends the requests that wait for that task, as far as that is possible now. */
void mr_unresolved_retry(mr_task_peers *p, int task);
/* Ends all requests; the cluster is closed.  Not from a callback. */
void mr_unresolved_close(mr_task_peers *p);
/* Ends a request that waits, as cancelled; false: it does not wait. */
bool mr_unresolved_cancel(mr_task_peers *p, mr_net_request *r);

/* For the above (server/task_peers.c): the route to a task, on which r must be started (mr_task_peers_go); NULL
 * without an error if its address is not known. */
mr_status *mr_task_peers_route_locked(mr_task_peers *p, int task, mr_net_request *r, mr_route **out) MR_REQUIRES(p->mu);
void mr_task_peers_go(mr_route *w, mr_net_request *r);

#endif
