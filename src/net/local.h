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

/* A path as an address; INVALID_ARGUMENT when it is too long. */
mr_status *mr_local_address(const char *path, struct sockaddr_un *out);

#endif
