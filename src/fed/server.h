/* fed/server.h -- federated averaging for clients in other processes.
 *
 * There are two methods. A client calls Stay once, and the call stays open as long as the client takes part. It ends
 * when there are no more rounds. If a client dies, its call ends too, so the server notices at once. With Work a
 * client sends the answer to its last task and gets the next one. If there is none, the call stays pending for a
 * while, and then the client is told to ask again. */
#ifndef MR_FED_SERVER_H
#define MR_FED_SERVER_H

#include "fed/coordinator.h"

#define MR_FED_STAY "/millrace.Federated/Stay"
#define MR_FED_WORK_METHOD "/millrace.Federated/Work"

typedef struct mr_fed_server mr_fed_server;

/* options: rounds.n_clients is the maximum of connected clients; asked and arg are set by the server. Takes over the
 * weights, also on failure. */
mr_status *mr_fed_server_new(const mr_fed_coordinator_options *o, const char *address, mr_fed_weights *weights, mr_fed_server **out);
void mr_fed_server_free(mr_fed_server *s); /* tells all clients that training has ended; NULL is fine */
mr_fed_coordinator *mr_fed_server_coordinator(mr_fed_server *s);
const char *mr_fed_server_address(const mr_fed_server *s); /* "host:port" */

#endif
