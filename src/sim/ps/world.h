/* sim/ps/world.h -- internals of the simulation of parameter servers, for the files of this folder.
 *
 * Nodes: the manager is node 0, then come servers (one node for each incarnation), then clients. Every event is an
 * arriving message, a tick or a fault, in the order of time. Messages and records are in the run's arena. */
#ifndef MR_SIM_PS_WORLD_H
#define MR_SIM_PS_WORLD_H

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "dist/ps_client.h"
#include "dist/ps_manager.h"
#include "dist/ps_replica.h"
#include "sim/ps/ps_sim.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

enum { MAX_RANGES = 6, MAX_SERVERS = 20, MAX_CLIENTS = 4, MAX_PARTS = 1024, MANAGER = 0, FIRST_SERVER = 1,
       FIRST_CLIENT = FIRST_SERVER + MAX_SERVERS, MAX_NODES = FIRST_CLIENT + MAX_CLIENTS };

#define TICK_NS (25 * MS)    /* of servers; each sends a heartbeat */
#define LOST_NS (130 * MS)   /* of silence */
#define SETTLE_NS (110 * MS) /* of a new manager */
#define PATIENCE_NS (500 * MS)
#define AGAIN_NS (150 * MS)  /* for which a full server gets no data */
#define LONGEST_DELAY_MS 400
#define FORGET_NS (600 * MS) /* from a client's end until its clocks are forgotten: longer than any message is in
                              * flight */

typedef struct mr_pss mr_pss;

typedef enum mr_pss_kind {
    JOIN, HEARD, LEAVE, COMPLETE, DRAINED, DECLINE, /* to the manager, from servers */
    ASK_VIEW, GOODBYE,                      /* from clients */
    VIEW, LET_GO, KEEP, FORGET,             /* from it */
    APPEND, HAVE, REFUSE, COPY,             /* from server to server */
    PUSH, PULL, ANSWER,                     /* client and server */
    COPIED, BROKEN,                         /* from the network: a copy arrived or did not; a connection broke */
    N_KINDS,
} mr_pss_kind;

/* The state of a range at a server: the parts that were applied, in their order. */
typedef struct mr_pss_holding {
    uint64_t version, hash;
    uint64_t parts[MAX_PARTS / 64];
} mr_pss_holding;

typedef struct mr_pss_record {
    mr_psr_record_info r;
    const int *parts; /* of the ledger, r.n of them; 0: an empty push */
} mr_pss_record;

typedef struct mr_pss_message {
    mr_pss_kind kind;
    int from, to;
    int incarnation; /* of the manager, as known to the server that sends or receives */
    int range, n, piece, try, part;
    bool again, ok;
    mr_code code;
    int64_t task;
    uint64_t id, epoch, generation, version, stable, ts, prev;
    const mr_pss_record *records;
    const mr_ps_stamp *stamps;
    const mr_pss_holding *holds;
    const mr_ps_view *view;
} mr_pss_message;

typedef struct mr_pss_event {
    int64_t at_ns;
    uint64_t seq;
    void (*fn)(mr_pss *w, void *arg);
    void *arg;
} mr_pss_event;

typedef struct mr_pss_range {
    mr_pss_holding h;
    MR_VEC(mr_pss_record) kept; /* versions first .. */
} mr_pss_range;

typedef struct mr_pss_server {
    int node;
    uint64_t id;
    bool up, joined, wants_to_leave;
    int manager_incarnation; /* that it last reported to */
    mr_ps_view view;
    mr_ps_clock clock;
    mr_psr replicas[MAX_RANGES];
    mr_pss_range ranges[MAX_RANGES];
    mr_psr_actions actions;
} mr_pss_server;

typedef struct mr_pss_part { /* of the ledger */
    int client, range;
    bool bad;            /* servers reject it: it must never be applied */
    bool given_up;       /* its client withdrew it or ended its task with an error: it may count or not */
    bool acked;          /* its task succeeded */
    uint64_t generation; /* of the range that acknowledged it */
} mr_pss_part;

typedef struct mr_pss_task {
    int64_t id;
    bool push, ended;
    bool has_deadline, is_cancelled;
    int n;
    int parts[MAX_RANGES]; /* of a push */
} mr_pss_task;

typedef struct mr_pss_client {
    int node;
    uint64_t id;
    bool up, finished, said_goodbye;
    mr_psc *c;
    int n_wanted;
    MR_VEC(mr_pss_task) tasks; /* by their number, from 1 */
    int64_t timer_ns;
    mr_psc_actions actions;
    mr_pss_holding acked[MAX_RANGES];       /* parts acknowledged to it: its pulls must see them */
    uint64_t generation[MAX_RANGES]; /* to which `acked` belongs */
} mr_pss_client;

typedef struct mr_pss_manager {
    bool up;
    int incarnation;
    mr_psm m;
    mr_psm_actions actions;
    int64_t heard_ns[FIRST_CLIENT];
} mr_pss_manager;

struct mr_pss {
    mr_arena arena;
    uint64_t random, seq;
    int64_t now_ns, faults_end_ns, no_cuts_until_ns;
    MR_VEC(mr_pss_event) heap;
    unsigned faults;
    bool calm; /* faults are over */
    bool declined; /* whether the last message was declined for lack of memory */
    int n_ranges, n_servers, n_clients, n_parts, replicas;
    mr_psr_options replica_options;
    mr_psc_options client_options;
    int max_motion;
    mr_pss_manager manager;
    mr_pss_server *servers[MAX_SERVERS];
    mr_pss_client clients[MAX_CLIENTS];
    bool cut[MAX_NODES][MAX_NODES]; /* from, to */
    uint64_t generations[MAX_RANGES]; /* of the newest view */
    uint64_t newest_epoch;
    bool restoring;     /* generations may change */
    bool was_restored;  /* ever */
    mr_pss_part parts[MAX_PARTS];          /* from 1 */
    const mr_ps_sim_options *options;
    mr_ps_sim_result *result;
};

/* ---- world.c ---- */
void mr_pss_at(mr_pss *w, int64_t delay_ns, void (*fn)(mr_pss *w, void *arg), void *arg);
uint64_t mr_pss_random(mr_pss *w);
int64_t mr_pss_between(mr_pss *w, int64_t low, int64_t high); /* both included */
bool mr_pss_chance(mr_pss *w, int in_1000);
/* A line of the trace: what happened at a node, with up to four numbers for the %llu of fmt. */
void mr_pss_note(mr_pss *w, int node, const char *fmt, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
void mr_pss_fail(mr_pss *w, const char *fmt, ...) MR_PRINTF(2, 3);

/* ---- net.c ---- */
void mr_pss_post(mr_pss *w, const mr_pss_message *m); /* copies it */
const mr_ps_view *mr_pss_frozen(mr_pss *w, const mr_ps_view *v); /* a view as it is now, for a message */
void mr_pss_cut(mr_pss *w, int a, int b, bool both, bool on);
void mr_pss_heal(mr_pss *w);

/* ---- server.c ---- */
mr_pss_server *mr_pss_server_start(mr_pss *w);
void mr_pss_server_end(mr_pss *w, mr_pss_server *s, bool seen); /* dies; seen: its connections close */
void mr_pss_server_free(mr_pss_server *s);
void mr_pss_server_take(mr_pss *w, mr_pss_server *s, const mr_pss_message *m);
mr_pss_server *mr_pss_server_by_id(mr_pss *w, uint64_t id);
int mr_pss_servers_up(const mr_pss *w);

/* ---- manager.c ---- */
void mr_pss_manager_start(mr_pss *w);
void mr_pss_manager_end(mr_pss *w);
void mr_pss_manager_take(mr_pss *w, const mr_pss_message *m);
void mr_pss_manager_closed(mr_pss *w, void *server); /* its connection is gone */
void mr_pss_manager_restore(mr_pss *w, bool all);
bool mr_pss_manager_is_quiet(mr_pss *w);

/* ---- client.c ---- */
void mr_pss_client_start(mr_pss *w, int index);
void mr_pss_client_end(mr_pss *w, mr_pss_client *c); /* dies */
void mr_pss_client_free(mr_pss_client *c);
void mr_pss_client_take(mr_pss *w, mr_pss_client *c, const mr_pss_message *m);

/* ---- faults.c, check.c ---- */
void mr_pss_plan_faults(mr_pss *w);
int mr_pss_new_part(mr_pss *w, int client, int range, bool bad);
void mr_pss_add_record(mr_pss *w, mr_pss_server *s, int range, const mr_pss_record *r);
void mr_pss_check_view(mr_pss *w, const mr_ps_view *v); /* before it is published */
void mr_pss_check_code(mr_pss *w, const mr_pss_task *t, mr_code code); /* of its end */
void mr_pss_check_ack(mr_pss *w, mr_pss_server *s, int range, int part);   /* as a head gives it */
void mr_pss_take_ack(mr_pss *w, mr_pss_client *c, const mr_pss_message *m);      /* as the client gets it */
void mr_pss_check_pull(mr_pss *w, mr_pss_server *s, const mr_pss_message *m);
void mr_pss_check_end(mr_pss *w);

static inline bool has_bit(const uint64_t *bits, int i) { return bits[i / 64] >> (i % 64) & 1; }
static inline void set_bit(uint64_t *bits, int i) { bits[i / 64] |= UINT64_C(1) << (i % 64); }

#endif
