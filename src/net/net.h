/* net/net.h -- calls between tasks: a method and bytes go out, a status and bytes come back.
 *
 * These transports offer this: gRPC between hosts (net/grpc/, in libmillrace-net.so, opened at the first use, so
 * that a plain session maps none of it), frames over TCP between tasks of ours (net/tcp.c) beside it (net/direct.c),
 * local sockets with shared memory between processes of one host (net/local.c), and direct calls inside one process
 * (net/loop.c).  One conformance test runs over all of them.
 *
 * Pieces of a received body may be in memory shared with the sender (piece.shared): the owner of such a piece
 * may read and write it in place, and the memory goes back to the sender when the piece is dropped.
 *
 * Callbacks come from the transport's own threads and must not block.  Every request ends: done is called
 * exactly once, with DEADLINE_EXCEEDED, CANCELLED or UNAVAILABLE when nothing else happens first.  Nothing
 * a peer sends is trusted: sizes are checked before memory is taken. */
#ifndef MR_NET_NET_H
#define MR_NET_NET_H

#include "base/bytes.h"
#include "base/status.h"

typedef struct mr_net mr_net;               /* a transport */
typedef struct mr_net_server mr_net_server; /* something that listens */
typedef struct mr_net_peer mr_net_peer;     /* the route to one address */
typedef struct mr_net_call mr_net_call;     /* a call that we answer */
typedef struct mr_net_request mr_net_request; /* a call that we make */

/* PEM texts; all NULL: plain.  Both sides must show a certificate of the CA. */
typedef struct mr_net_keys {
    const char *ca, *certificate, *key;
} mr_net_keys;

/* ---- answering ---- */

typedef struct mr_net_listen {
    const char *address;     /* "host:port", port 0: any; local transport: a path */
    const mr_net_keys *keys; /* NULL: plain */
    /* Takes over the call, to be ended by reply; method is "/service/Method". */
    void (*handle)(void *arg, mr_net_call *c);
    void *arg;
} mr_net_listen;

struct mr_net_call {
    const mr_net *net;
    const char *method;
    mr_bytes body;         /* the handler may take it */
    const char *peer_name; /* from its certificate, as "worker/1"; "" without one */
    int64_t deadline_ns;   /* the caller's, by mr_now_ns; 0: none */
    /* Called once when the caller has gone or cancelled, if set before (mr_net_on_cancel). */
    void (*cancelled)(void *arg, mr_net_call *c);
    void *cancelled_arg;
};

/* ---- asking ---- */

typedef struct mr_net_pending { /* of server/pending.c, which lists all requests that are not answered yet */
    struct mr_task_peers *of;
    int task;
    int64_t since_ns;
    void (*done)(mr_net_request *r, mr_status *st, mr_bytes *reply); /* the requester's, called after its own */
    mr_net_request *next, **link;
} mr_net_pending;

struct mr_net_request { /* embedded in what waits for the reply; must live until done was called */
    const char *method;
    mr_bytes body;       /* taken over */
    int64_t deadline_ns; /* of mr_now_ns; 0: none */
    bool wait_for_ready; /* wait for a peer that is not up yet; false: UNAVAILABLE at once */
    bool lazy;           /* may be held back a few milliseconds, to be sent together with others */
    void (*done)(mr_net_request *r, mr_status *st, mr_bytes *reply); /* owns st; may take the reply */
    void *impl;          /* the transport's */
    const mr_net *via;   /* net/direct.c's: the transport that has the request; atomic */
    /* gRPC: called before done of a successful request, with the address that it came from, as "ipv4:10.0.0.1:2222".
     * May be NULL. */
    void (*answered_by)(mr_net_request *r, const char *address);
    mr_net *net; /* set by the starter (server/task_peers.c): the transport it was started with; NULL: not started */
    mr_net_pending pending;
};

/* ---- a transport ---- */

struct mr_net {
    const char *name; /* "grpc", "tcp", "direct", "local", "loop" */
    /* Listening; *port is the one bound (0 for a path). */
    mr_status *(*listen)(mr_net *n, const mr_net_listen *o, mr_net_server **out, int *port);
    /* Refuses new calls, cancels those that run, waits until all are answered (at most grace_ns, then
     * their callers get UNAVAILABLE), and frees.  A call that is still not answered stays valid, and reply
     * must still be called.  Not from a callback. */
    void (*stop)(mr_net_server *s, int64_t grace_ns);
    /* Ends a call and frees it: st (taken over) NULL and a body, or an error. */
    void (*reply)(mr_net_call *c, mr_status *st, mr_bytes *body);
    /* From now on a cancellation calls fn; false: the call is cancelled already, and fn will not be called.  Ends with
     * reply, which waits for a callback that runs. */
    bool (*on_cancel)(mr_net_call *c, void (*fn)(void *arg, mr_net_call *c), void *arg);

    /* No connection is made before the first request.  name: the task that the peer's certificate must name
     * ("ps/0"); NULL: any certificate of the CA. */
    mr_status *(*connect)(mr_net *n, const char *address, const mr_net_keys *keys, const char *name,
                          mr_net_peer **out);
    void (*disconnect)(mr_net_peer *p); /* open requests end CANCELLED first; not from a callback */
    void (*start)(mr_net_peer *p, mr_net_request *r);
    /* done is still called, perhaps with a reply that was faster.  May be called after done, as long as the
     * request's memory is valid; then nothing happens. */
    void (*cancel)(mr_net_request *r);

    /* The largest message to be received, set before listen and connect; 0: what memory allows.  A longer one ends
     * its call with RESOURCE_EXHAUSTED before memory is taken for it (gRPC: after it has arrived). */
    size_t max_message;
    /* gRPC's servers: how long a request may take to arrive once it has begun, set before listen; 0: a minute.  The
     * local transport watches the pace instead. */
    int64_t arrival_ns;
    /* gRPC: the cluster's token as text, set before listen and connect; "": none.  In plain text every call sends it,
     * and a server answers a call without it UNAUTHENTICATED: other users of the host can reach its port too. */
    char token[65];
};

/* Messages that this thread sends between these two calls may be written at the release, several to a peer together,
 * so that they wake it once.  Pairs nest; the work in between must be short. */
void mr_net_hold(void);
void mr_net_release(void);

/* Opens libmillrace-net.so beside this library (or MILLRACE_NET_LIB), once, and with MILLRACE_TLS=off reads the job's
 * token (net/keys.h).  FAILED_PRECONDITION naming what to install when the library cannot be opened. */
mr_status *mr_net_grpc(mr_net **out);
/* Frames over TCP, or over TLS if there are keys (docs/formats/direct.md), between tasks of ours.  Addresses are
 * numbers; net/direct.c finds them. */
mr_net *mr_net_tcp(void);
/* gRPC, and beside it, between tasks of ours, frames over TCP, for which a server listens at a second port that gRPC's
 * callers can ask for.  Requests go the second way while it is open.  With MILLRACE_DIRECT=off gRPC alone.  Errors as
 * of mr_net_grpc. */
mr_status *mr_net_direct(mr_net **out);
/* Inside this process: an address is any text.  Deadlines are not enforced: this process itself answers. */
mr_net *mr_net_loop(void);
/* Never fails; addresses are paths of Unix sockets, peers must run as the same user and know the token. */
mr_net *mr_net_local(void);
/* The cluster's secret for local connections; before the first listen or connect. */
void mr_net_local_token(const uint8_t token[32]);
/* Limits in bytes: shared memory for sending, and received messages outside shared memory; 0 leaves a limit as it is.
 * When the first is used up, messages travel through the socket. */
void mr_net_local_budget(size_t shared_bytes, size_t received_bytes);

/* ---- keys ---- */

/* Makes a CA (ca.pem, ca.key) in a folder, and for each name ("ps/0") ps-0.pem and ps-0.key, mode 0600; files that
 * exist stay.  hosts (may be NULL, as may each): further names and addresses of the task's host, separated by commas.
 * days: until they expire; with 0 or less they have expired.  Through libmillrace-net.so; net/keys.h reads them. */
mr_status *mr_net_make_keys(const char *folder, const char *const *names, const char *const *hosts, int n,
                            int days);

#endif
