/* server/parked.h -- requests to tasks of which nobody knows yet where they are.
 *
 * For server/fellows.c.  A request waits here until the naming service has told the address of its task, then goes its way.  One
 * that is not to wait for its task (mr_net_request.wait_for_ready) waits only until the service has said anything at all, and
 * not for long. */
#ifndef MR_SERVER_PARKED_H
#define MR_SERVER_PARKED_H

#include "server/host.h"

/* UNAVAILABLE when there is nothing to wait for. */
mr_status *mr_park_locked(mr_fellows *p, int task, mr_net_request *r) MR_REQUIRES(p->mu);
/* Starts what waits for that task, or ends it, as far as something is known now. */
void mr_park_end(mr_fellows *p, int task);
/* Ends all, when the fellows are closed.  Not from a callback. */
void mr_park_close(mr_fellows *p);
/* Ends a request that waits, as cancelled; false: it does not wait. */
bool mr_park_cancel(mr_fellows *p, mr_net_request *r);

/* For the above (server/fellows.c): the way to a task, which r must go then; NULL without an error when its address is not known. */
mr_status *mr_fellows_way_locked(mr_fellows *p, int task, mr_net_request *r, mr_way **out) MR_REQUIRES(p->mu);
void mr_fellows_go(mr_way *w, mr_net_request *r);

#endif
