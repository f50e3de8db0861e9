/* net/tcp.h -- frames over TCP, as net/direct.c uses them; net/net.h has the whole transport. */
#ifndef MR_NET_TCP_H
#define MR_NET_TCP_H

#include "net/local.h"

/* token: what both sides must know; NULL: zeros. */
mr_status *mr_tcp_listen(mr_net *n, const mr_net_listen *o, const uint8_t token[MR_HELLO_TOKEN], mr_net_server **out,
                         int *port);
/* As mr_local_connect_tcp. */
mr_status *mr_tcp_connect(mr_net *n, const char *address, const struct sockaddr_storage *to, const mr_net_keys *keys,
                          const char *name, const mr_dialing *dialing, mr_net_peer **out);
/* "host:port" in numbers. */
mr_status *mr_tcp_address(const char *address, struct sockaddr_storage *out);

#endif
