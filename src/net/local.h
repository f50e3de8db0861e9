/* net/local.h -- the parts of the local transport, put together in local.c. */
#ifndef MR_NET_LOCAL_H
#define MR_NET_LOCAL_H

#include <sys/socket.h>
#include <sys/un.h>

#include "net/local_conn.h"

/* The two halves of mr_net. */
mr_status *mr_local_listen(mr_net *n, const mr_net_listen *o, mr_net_server **out, int *port);
void mr_local_stop(mr_net_server *s, int64_t grace_ns);
void mr_local_reply(mr_net_call *c, mr_status *st, mr_bytes *body);
bool mr_local_on_cancel(mr_net_call *c, void (*fn)(void *arg, mr_net_call *c), void *arg);

mr_status *mr_local_connect(mr_net *n, const char *address, const mr_net_keys *keys,
                            const char *name, mr_net_peer **out);
void mr_local_disconnect(mr_net_peer *p);
void mr_local_start(mr_net_peer *p, mr_net_request *r);
void mr_local_cancel(mr_net_request *r);

/* ---- over TCP: tcp.c, direct.c ---- */

/* Answers calls at a socket that listens.  Takes fd, and link->tls. */
mr_status *mr_local_serve(mr_net *n, const mr_net_listen *o, int fd, const mr_link *link, mr_net_server **out);

/* A peer at this address; address is its name in errors.  Takes link->tls.  to NULL: it is reached only after
 * mr_local_dial, and takes requests only by mr_local_start_open; changed is called in the transport's thread when a
 * connection was opened, and when it was lost or could not be opened. */
typedef struct mr_dialing {
    void (*changed)(void *arg, bool open);
    void *arg;
} mr_dialing;
mr_status *mr_local_connect_tcp(mr_net *n, const char *address, const struct sockaddr_storage *to, const mr_link *link,
                                const mr_dialing *dialing, mr_net_peer **out);
/* Makes a connection to this address, which changed tells.  There must be none. */
void mr_local_dial(mr_net_peer *p, const struct sockaddr_storage *to, const uint8_t token[MR_HELLO_TOKEN]);
/* Starts the request if a connection is open; false: nothing has happened. */
bool mr_local_start_open(mr_net_peer *p, mr_net_request *r);

/* Bytes leave at once, and a host that has gone is noticed within about 20 s. */
void mr_tcp_set_options(int fd);

/* A path as an address; INVALID_ARGUMENT when it is too long. */
mr_status *mr_local_address(const char *path, struct sockaddr_un *out);

#endif
