/* ps/peers.h -- calls to and from the thread of an inbox (ps/inbox.h).
 *
 * Outgoing: routes to peers by their id, and requests whose end arrives as a note. Incoming: calls
 * that are passed on as notes, and calls that are held open; a held call reports at once when the
 * caller is gone.
 *
 * The inbox's thread owns all of it; only mr_ps_calls_take may be called from other threads. */
#ifndef MR_PS_PEERS_H
#define MR_PS_PEERS_H

#include "net/net.h"
#include "ps/inbox.h"
#include "ps/wire.h"

/* Addresses with this prefix are inside this process (net/loop.c). */
#define MR_PS_INSIDE "inside:"
/* For tests: sets the transport of such addresses, before the first of them is used; NULL: net/loop.c again. */
void mr_ps_inside_by(mr_net *net);

/* ---- outgoing requests ---- */

typedef struct mr_ps_route { /* an open route to a peer */
    uint64_t id;
    char *address;
    mr_net *net;
    mr_net_peer *peer;
} mr_ps_route;

typedef struct mr_ps_routes {
    mr_ps_inbox *inbox;
    MR_VEC(mr_ps_route) to;
    bool closed;
    int64_t bytes_sent, bytes_received;
} mr_ps_routes;

typedef struct mr_ps_ask { /* a request; embedded first in a struct that the caller allocated */
    mr_net_request r;
    mr_ps_note note;
    mr_ps_routes *routes;
    uint64_t to;
    mr_status *st; /* result: NULL if there is a reply */
    mr_bytes reply;
    /* Called on the inbox's thread. Takes over a: mr_ps_ask_deinit, then mr_free. */
    void (*answered)(void *owner, struct mr_ps_ask *a);
} mr_ps_ask;

/* Starts a request and takes over the body. Errors too arrive through `answered`, never from within this call. */
void mr_ps_ask_start(mr_ps_routes *w, mr_ps_ask *a, uint64_t to, const char *address, const char *method,
                     mr_bytes *body, int64_t deadline_ns);
void mr_ps_ask_deinit(mr_ps_ask *a);
/* Closes the route to a peer: its open requests end with CANCELLED. */
void mr_ps_routes_drop(mr_ps_routes *w, uint64_t to);
/* Closes all routes; requests that start later end with CANCELLED. */
void mr_ps_routes_close(mr_ps_routes *w);

/* ---- incoming calls ---- */

/* A listener: at an address, inside this process, or as a part of a task's server. */
typedef struct mr_ps_listeners mr_ps_listeners;
struct mr_server;
/* task NULL: at the address ("host:port", or MR_PS_INSIDE with any text); service: the methods' prefix. */
mr_status *mr_ps_listeners_open(const char *address, struct mr_server *task, const char *service,
                            void (*handle)(void *arg, mr_net_call *c), void *arg, mr_ps_listeners **out);
const char *mr_ps_listeners_address(const mr_ps_listeners *d); /* with the actual port; borrowed */
void mr_ps_listeners_close(mr_ps_listeners *d);                /* NULL is fine */

void mr_ps_reply(mr_net_call *c, mr_status *st, mr_bytes *body); /* body may be NULL */

typedef struct mr_ps_call_note { /* a call that is passed on to the thread */
    mr_ps_note note;
    mr_net_call *call;
} mr_ps_call_note;
/* For handlers, from any thread: passes the call on; fn frees the note (mr_free). */
void mr_ps_calls_take(mr_ps_inbox *b, mr_net_call *c, void (*fn)(void *owner, mr_ps_note *n));

typedef struct mr_ps_held { /* a call that is answered later; embedded first in a larger struct */
    mr_ps_note note;
    mr_ps_inbox *inbox;
    mr_net_call *call; /* NULL: answered */
    _Atomic bool noted; /* the transport has cancelled it: its note is in the inbox */
    void (*gone)(void *owner, struct mr_ps_held *h); /* the caller is gone; must call mr_ps_held_reply */
} mr_ps_held;
/* Takes over h, which mr_alloc made and which is zeroed: it is freed after its answer. */
void mr_ps_hold(mr_ps_held *h, mr_ps_inbox *b, mr_net_call *c, void (*gone)(void *owner, mr_ps_held *h));
void mr_ps_held_reply(mr_ps_held *h, mr_status *st, mr_bytes *body);

#endif
