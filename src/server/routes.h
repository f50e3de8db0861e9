/* server/routes.h -- which transport leads to an address.
 *
 * Tasks of one host talk through shared memory, others through gRPC and TCP beside it (net/direct.c).  A task listens on both: at its port, and at a
 * socket named after that port in a folder of its user: MILLRACE_SOCKETS (which `millrace launch` sets),
 * XDG_RUNTIME_DIR/millrace or /tmp/millrace-UID.  A folder that another user could write to is not used; then gRPC is
 * used for everything.  MILLRACE_SHM sets when the socket is used for an address of this host: auto (default: if it
 * exists at the first call), on (always; for tasks that start together), off. */
#ifndef MR_SERVER_ROUTES_H
#define MR_SERVER_ROUTES_H

#include "net/net.h"

/* The route to an address.  own: the task that calls ("worker/0"; NULL: MILLRACE_TASK, or "client"), whose keys in
 * MILLRACE_TLS_DIR are used; name: the task that the peer must be ("ps/0"), or NULL. */
mr_status *mr_route_to(const char *address, const char *own, const char *name, mr_net **net, mr_net_peer **out);

typedef struct mr_listeners { /* what a task listens on */
    mr_net *nets[2];
    mr_net_server *servers[2];
    int n;
    bool plain; /* anyone that reaches the port can run steps */
} mr_listeners;
/* Listens at "host:port" as a task, or at the host that MILLRACE_BIND names; port 0 takes any, *port is the one taken.
 * FAILED_PRECONDITION at an address that other hosts can reach without keys, unless MILLRACE_TLS=off. */
mr_status *mr_listeners_open(const char *address, const char *own, void (*handle)(void *arg, mr_net_call *c), void *arg,
                             mr_listeners *out, int *port);
/* The address to listen at, which MILLRACE_BIND may change: other tasks may know this one by a name that is not one of
 * its own.  mr_free. */
mr_status *mr_listeners_address(const char *address, char **out);
/* The error if listening there would be refused because there are no keys. */
mr_status *mr_listeners_check(const char *address);
void mr_listeners_close(mr_listeners *d, int64_t grace_ns);

#endif
