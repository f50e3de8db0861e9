/* ps/peers.h -- calls from and to a thread that does one thing after the other (ps/inbox.h).
 *
 * Outwards: ways to peers by their id, and requests whose end comes as a note.  Inwards: calls that are handed over as notes,
 * and calls that are held open: their end tells at once when whoever called is gone.
 *
 * All of it belongs to the inbox's thread, but for mr_ps_calls_take. */
#ifndef MR_PS_PEERS_H
#define MR_PS_PEERS_H

#include "net/net.h"
#include "ps/inbox.h"
#include "ps/wire.h"

/* An address that begins so is inside this process (net/loop.c). */
#define MR_PS_INSIDE "inside:"
/* For tests: another transport for such addresses, before the first of them is used; NULL: net/loop.c again. */
void mr_ps_inside_by(mr_net *net);

/* ---- asking ---- */

typedef struct mr_ps_way {
    uint64_t id;
    char *address;
    mr_net *net;
    mr_net_peer *peer;
} mr_ps_way;

typedef struct mr_ps_ways {
    mr_ps_inbox *inbox;
    MR_VEC(mr_ps_way) to;
    bool closed;
    int64_t bytes_sent, bytes_received;
} mr_ps_ways;

typedef struct mr_ps_ask { /* first in what waits for the answer; allocated by its maker */
    mr_net_request r;
    mr_ps_note note;
    mr_ps_ways *ways;
    uint64_t to;
    mr_status *st; /* how it ended */
    mr_bytes reply;
    void (*answered)(void *owner, struct mr_ps_ask *a); /* on the inbox's thread; frees it after mr_ps_ask_deinit */
} mr_ps_ask;

/* Starts a request, which takes over the body.  Fails through the answer only. */
void mr_ps_ask_start(mr_ps_ways *w, mr_ps_ask *a, uint64_t to, const char *address, const char *method, mr_bytes *body,
                     int64_t deadline_ns);
void mr_ps_ask_deinit(mr_ps_ask *a);
/* Closes the way to a peer: what is open ends CANCELLED. */
void mr_ps_ways_drop(mr_ps_ways *w, uint64_t to);
/* Closes all; requests that are begun from now on end CANCELLED. */
void mr_ps_ways_close(mr_ps_ways *w);

/* ---- answering ---- */

/* What listens: at an address, inside this process, or as a part of a task's server. */
typedef struct mr_ps_doors mr_ps_doors;
struct mr_server;
/* task NULL: at the address ("host:port", or MR_PS_INSIDE with any text); service: the methods' prefix. */
mr_status *mr_ps_doors_open(const char *address, struct mr_server *task, const char *service, void (*handle)(void *arg, mr_net_call *c),
                            void *arg, mr_ps_doors **out);
const char *mr_ps_doors_address(const mr_ps_doors *d); /* with the port that was taken */
void mr_ps_doors_close(mr_ps_doors *d);                /* NULL is fine */

void mr_ps_reply(mr_net_call *c, mr_status *st, mr_bytes *body); /* body may be NULL */

typedef struct mr_ps_call_note { /* a call on its way to the thread */
    mr_ps_note note;
    mr_net_call *call;
} mr_ps_call_note;
/* For handlers: hands the call over; fn frees the note (mr_free). */
void mr_ps_calls_take(mr_ps_inbox *b, mr_net_call *c, void (*fn)(void *owner, mr_ps_note *n));

typedef struct mr_ps_held { /* a call that is answered later; first in what knows more of it */
    mr_ps_note note;
    mr_ps_inbox *inbox;
    mr_net_call *call; /* NULL: answered */
    _Atomic bool noted;
    void (*gone)(void *owner, struct mr_ps_held *h); /* whoever called is gone: it answers with mr_ps_held_reply */
} mr_ps_held;
/* h is of mr_alloc and zeroed; freed after its answer. */
void mr_ps_hold(mr_ps_held *h, mr_ps_inbox *b, mr_net_call *c, void (*gone)(void *owner, mr_ps_held *h));
void mr_ps_held_reply(mr_ps_held *h, mr_status *st, mr_bytes *body);

#endif
