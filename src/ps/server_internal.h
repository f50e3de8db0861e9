/* ps/server_internal.h -- a parameter server's state, for its files.
 *
 *     server.c        start to end: joining, views, leaving
 *     server_calls.c  incoming calls, and pushes
 *     server_pulls.c  pulls and reductions
 *     server_chain.c  carries out decisions, and takes messages of other members
 *     server_messages.c  messages between the members of a chain, as bytes
 *     server_copy.c   copies of a range, for members that catch up
 *     server_aggregate.c  merges the pushes of a record for the members behind the head
 *
 * The server's thread owns all of it, except what `mu` guards. */
#ifndef MR_PS_SERVER_INTERNAL_H
#define MR_PS_SERVER_INTERNAL_H

#include "dist/ps_replica.h"
#include "ps/graph_update.h"
#include "ps/keys.h"
#include "ps/link.h"
#include "ps/request.h"
#include "ps/server.h"

typedef struct mr_ps_entry { /* a push in a record */
    mr_ps_stamp stamp;
    mr_ps_change change;
    mr_ps_blob *blob; /* its keys and floats are in there; may be NULL */
} mr_ps_entry;

typedef struct mr_ps_record {
    uint64_t version;
    MR_VEC(mr_ps_entry) entries;
} mr_ps_record;
void mr_ps_record_deinit(mr_ps_record *r);

typedef struct mr_ps_range_state {
    mr_psr r;
    MR_VEC(mr_ps_record) kept; /* versions follow each other */
} mr_ps_range_state;

/* ---- a client's push that is not answered yet ---- */

typedef struct mr_ps_push_part {
    struct mr_ps_push_call *of;
    int range;
    mr_ps_change change; /* in the call's blob */
    mr_status *st;       /* the push was counted, but its update failed; owned */
    bool answered;
} mr_ps_push_part;

typedef struct mr_ps_push_call {
    mr_net_call *call;
    struct mr_ps_server *server;
    struct mr_ps_push_call *next, **link; /* list of open calls: mr_ps_server.pushes */
    mr_ps_blob *blob;
    int n, left; /* number of parts; parts without an answer */
    mr_ps_numbers codes, epochs, versions;
    mr_ps_push_part parts[];
} mr_ps_push_call;
void mr_ps_push_answered(mr_ps_push_part *p, mr_code code, uint64_t epoch, uint64_t version);

/* ---- a client's pull that waits for memory ---- */

typedef struct mr_ps_waiting_pull {
    mr_ps_held held; /* first */
    struct mr_ps_waiting_pull *next;
    size_t bytes;     /* size of the answer */
    size_t body;      /* size of the request, counted as under way */
    int64_t until_ns;
} mr_ps_waiting_pull;

/* ---- messages to other servers ---- */

typedef struct mr_ps_message { /* a message about one range */
    enum { MR_PS_MESSAGE_APPEND, MR_PS_MESSAGE_HAVE, MR_PS_MESSAGE_REFUSE } kind;
    int range;
    uint64_t epoch, version, stable;
    bool again;
    MR_VEC(mr_ps_record) records; /* APPEND: copies, whose blobs are shared */
} mr_ps_message;

typedef struct mr_ps_outbox { /* to one server: one call at a time is open, the rest waits and travels together */
    uint64_t to;
    bool busy;
    MR_VEC(mr_ps_message) messages;
} mr_ps_outbox;

struct mr_ps_server {
    mr_ps_inbox inbox;
    mr_ps_routes routes;
    mr_ps_link link;
    mr_ps_listeners *listeners;
    uint64_t id;
    size_t memory;
    mr_ps_map map; /* the newest */
    mr_ps_store store;
    mr_ps_clock clock;
    mr_ps_range_state *ranges; /* store.n_ranges entries; NULL: not joined yet */
    mr_psr_actions actions;
    MR_VEC(mr_ps_outbox *) outboxes;
    mr_ps_key_cache *keys; /* key lists that clients have sent */
    MR_VEC(mr_ps_graph_update *) graphs; /* by table; NULL: no graph, or it could not be loaded */
    mr_ps_push_call *pushes; /* open */
    size_t under_way;        /* bytes of open pushes and of waiting pulls */
    mr_ps_tally *answers;    /* bytes of answers that are not sent yet */
    mr_ps_waiting_pull *line, **line_end; /* waiting pulls: the first, and where the next one goes */
    int n_line;
    mr_mutex mu;
    mr_cond changed;
    bool joined MR_GUARDED_BY(mu);
    bool left MR_GUARDED_BY(mu), leaving MR_GUARDED_BY(mu);
    mr_status *failed MR_GUARDED_BY(mu); /* why the server stopped by itself */
    mr_status *failed_to_leave MR_GUARDED_BY(mu); /* result of the last hand-over; every waiter gets a copy */
    mr_ps_note leave_note;
    int64_t leave_again_ns; /* when to repeat Leave; 0: not needed */
    int64_t leave_until_ns; /* when to give up */
    bool closing; /* nothing new is accepted */
    bool closed;  /* all open calls have been answered */
};

/* ---- server.c ---- */
/* Stops the server because of an error; others will consider it lost. Takes over st. */
void mr_ps_server_fail(mr_ps_server *s, mr_status *st);
/* Sends COMPLETE, DRAINED or DECLINE to the manager. */
void mr_ps_server_report(mr_ps_server *s, int range, const mr_psr_action *a);

/* ---- server_calls.c ---- */
void mr_ps_server_handle(void *server, mr_net_call *c); /* from any thread */
void mr_ps_server_end_pushes(mr_ps_server *s);          /* answers UNAVAILABLE; the ranges must get no further event */

/* ---- server_pulls.c ---- */
mr_status *mr_ps_server_know_table(const mr_ps_server *s, int table);
/* Answers a call, or lets it wait in line until there is memory for the answer. */
void mr_ps_server_pull(mr_ps_server *s, mr_net_call *c);
void mr_ps_server_serve_line(mr_ps_server *s, int64_t now_ns); /* answers the pulls whose turn has come */
void mr_ps_server_end_line(mr_ps_server *s);                   /* answers UNAVAILABLE */
size_t mr_ps_server_room(const mr_ps_server *s);               /* bytes left of the budget; SIZE_MAX: no budget */
mr_status *mr_ps_server_reduce(mr_ps_server *s, const mr_ps_request *q, mr_bytes *body);

/* ---- server_aggregate.c ---- */
/* Replaces the pushes of a record, which have been applied, by the resulting rows where that takes fewer bytes. */
void mr_ps_record_aggregate(const mr_ps_store *store, int range, mr_ps_record *r);

/* ---- server_chain.c ---- */
typedef struct mr_ps_action_data { /* contents of the message whose actions are carried out */
    mr_ps_record *records; /* of an append; an action moves out the ones it uses */
    mr_ps_staged *copy;    /* of a range; likewise */
} mr_ps_action_data;
/* Carries out s->actions for a range, and empties them. h may be NULL. */
void mr_ps_server_act(mr_ps_server *s, int range, mr_ps_action_data *h);
void mr_ps_server_chain(mr_ps_server *s, mr_net_call *c); /* the method Chain */
/* This server has no memory for what came for a range. `why` stays the caller's. */
void mr_ps_server_decline(mr_ps_server *s, int range, uint64_t from, uint64_t epoch, const mr_status *why);
void mr_ps_range_state_deinit(mr_ps_range_state *s);

/* ---- server_messages.c ---- */
void mr_ps_server_say(mr_ps_server *s, uint64_t to, mr_ps_message w); /* queues w, which it takes over */
void mr_ps_server_flush(mr_ps_server *s);                          /* sends what is queued */
void mr_ps_server_drop_peer(mr_ps_server *s, uint64_t id);
/* Reads a message. Its records share the raw bytes from *at on; *at moves behind them. */
mr_status *mr_ps_message_get(const mr_ps_server *s, mr_pb_reader *r, mr_ps_blob *raw, size_t *at, mr_ps_message *out);
void mr_ps_message_deinit(mr_ps_message *w);

/* ---- server_copy.c ---- */
void mr_ps_server_send_copy(mr_ps_server *s, int range, const mr_psr_action *a);
void mr_ps_server_copy(mr_ps_server *s, mr_net_call *c); /* the method Copy */

#endif
