/* net/tls.h -- TLS 1.3 over a connected socket, for the transport over TCP.
 *
 * The code is in libmillrace-net.so (net/grpc/tls.c), because the rest of the library does not link OpenSSL.  The
 * socket does not block and stays the caller's; a session reads and writes it directly, many records with one call.
 *
 * One thread at a time may receive, and one at a time may send; these two may be different threads. */
#ifndef MR_NET_TLS_H
#define MR_NET_TLS_H

#include <sys/uio.h>

#include "net/net.h"

typedef struct mr_tls_context mr_tls_context; /* keys, and whom to accept; used by any number of sessions */
typedef struct mr_tls mr_tls;                 /* one connection */

typedef struct mr_tls_library {
    /* server: accepts connections.  name: the task that a server's certificate must name; NULL: any of the cluster.
     * INVALID_ARGUMENT for keys that are wrong. */
    mr_status *(*context_new)(const mr_net_keys *keys, bool server, const char *name, mr_tls_context **out);
    void (*context_free)(mr_tls_context *c); /* sessions stay valid */
    mr_status *(*open)(mr_tls_context *c, int fd, mr_tls **out);
    void (*close)(mr_tls *t); /* the socket stays open */
    /* Goes on with the handshake; *done when it is over: before that, nothing is received or sent.  To be called when
     * the socket can be read or, while has_unsent, written.  UNAUTHENTICATED: one side does not accept the other's
     * keys. */
    mr_status *(*handshake)(mr_tls *t, bool *done);
    const char *(*peer_name)(const mr_tls *t); /* the task in the peer's certificate, as "ps/0"; "" if there is none */
    /* Fills the space as far as bytes have arrived.  *drained: all that the socket had was read. UNAVAILABLE: the peer
     * closed the connection, or it was lost. */
    mr_status *(*receive)(mr_tls *t, const struct iovec *space, int n, size_t *got, bool *drained);
    /* Takes as many bytes as the socket and a buffer have room for; they are sent at once, or by a later call (iov may
     * be empty) while has_unsent. */
    mr_status *(*send)(mr_tls *t, const struct iovec *iov, int n, size_t *taken);
    bool (*has_unsent)(const mr_tls *t); /* by the thread that sends */
} mr_tls_library;

/* Opens libmillrace-net.so, as mr_net_grpc. */
mr_status *mr_net_tls(const mr_tls_library **out);

#endif
