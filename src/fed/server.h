/* fed/server.h -- federated averaging for clients of other processes.
 *
 * Two methods.  A client calls Stay once, and that call is open for as long as it takes part: it ends when there are no more
 * rounds, and a client that dies takes its call with it, so it is missed at once.  With Work it brings the answer to its last task
 * and gets the next; without one the call is kept for a while, then it is told to ask again. */
#ifndef MR_FED_SERVER_H
#define MR_FED_SERVER_H

#include "fed/coordinator.h"

#define MR_FED_STAY "/millrace.Federated/Stay"
#define MR_FED_WORK_METHOD "/millrace.Federated/Work"

typedef struct mr_fed_server mr_fed_server;

/* options: rounds.n_clients is how many may be there at once; asked and arg are set here.  Takes the weights. */
mr_status *mr_fed_server_new(const mr_fed_coordinator_options *o, const char *address, mr_fed_weights *weights, mr_fed_server **out);
void mr_fed_server_free(mr_fed_server *s); /* tells all clients that it is over; NULL is fine */
mr_fed_coordinator *mr_fed_server_coordinator(mr_fed_server *s);
const char *mr_fed_server_address(const mr_fed_server *s); /* "host:port" */

#endif
