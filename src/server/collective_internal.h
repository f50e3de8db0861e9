/* server/collective_internal.h -- the inside of collectives over tasks; for its own files.
 *
 *     collective.c          an exchange: its beginning, its requests, its end
 *     collective_setup.c    how it finds its group, its source and its number
 *     collective_groups.c   groups as a member sees them, and what breaks them
 *     collective_leader.c   the leader's methods
 *     collective_join.c     groups whose members come and go
 *     collective_steps.c    ids of steps that several masters share
 *     collective_boxes.c    what members have for each other: offers, and the calls that fetch them
 *     collective_moves.c    which pieces go where: ops that only move data
 *     collective_reduce.c   reductions among few members or in a ring
 *     collective_halving.c  the same in few hops among many
 *
 * One lock (mr_collectives.mu) guards all of it; calls are answered, requests made and runs ended without it. */
#ifndef MR_SERVER_COLLECTIVE_INTERNAL_H
#define MR_SERVER_COLLECTIVE_INTERNAL_H

#include "dist/elastic.h"
#include "dist/groups.h"
#include "group/schedule.h"
#include "server/collective.h"
#include "server/worker_internal.h"

typedef struct mr_exchange mr_exchange;

enum { MR_ELASTIC_SLOTS = 64 }; /* groups whose members come and go */
enum { MR_EARLY_ENDS = 64 };    /* communicators that are remembered to be broken before they were known here */

struct mr_collectives {
    mr_worker_service *worker;
    mr_mutex mu;
    mr_groups led MR_GUARDED_BY(mu);        /* as the leader */
    mr_map groups MR_GUARDED_BY(mu);        /* "peers key part" -> mr_cgroup, a reference; also broken ones */
    mr_map boxes MR_GUARDED_BY(mu);         /* exchange's text -> mr_box */
    mr_exchange *exchanges MR_GUARDED_BY(mu);
    mr_status *stopped MR_GUARDED_BY(mu);
    char *leader MR_GUARDED_BY(mu);
    struct {
        char *name; /* NULL: no such group yet */
        mr_elastic e;
    } elastic[MR_ELASTIC_SLOTS] MR_GUARDED_BY(mu); /* as the leader */
    struct {
        uint64_t communicator; /* 0: none */
        mr_status *why;
    } early[MR_EARLY_ENDS] MR_GUARDED_BY(mu); /* the oldest goes first */
    int next_early MR_GUARDED_BY(mu);
    mr_imap steps MR_GUARDED_BY(mu); /* graph key, mixed -> int64_t: the id of its next step */
    mr_timer ticker;
    bool ticking MR_GUARDED_BY(mu); /* the timer is set */
    int64_t patience_ns; /* of exchanges that do not say how long they may take */
    int64_t chunk_bytes;
    int ring_from;       /* from this number of members on, each talks to few of the others only */
    mr_group_algorithm algorithm; /* of all-reduce; AUTO: by members and bytes */
};

typedef struct mr_cmember {
    char *device;
    int task;
    uint64_t incarnation;
} mr_cmember;

/* A group as it was formed once: a communicator. */
typedef struct mr_cgroup {
    mr_refs refs;
    mr_task_peers *peers;
    int64_t key, part;
    uint64_t communicator;
    int leader; /* task */
    int n;
    mr_cmember *members; /* by rank */
    /* Under the lock: */
    mr_status *broken;  /* why; NULL: it is not */
    bool left;          /* broken only because a member has left: exchanges that do not need that member continue */
    mr_map counts;      /* "instance rank" -> int64_t: exchanges begun here */
    mr_map sources;     /* "instance" -> int64_t: the rank of the broadcast's source */
    const mr_wsession *user; /* the last session that used it; compared only, since it may be freed */
} mr_cgroup;

/* A request of an exchange to another task. */
typedef struct mr_xrequest {
    mr_net_request request; /* first */
    mr_refs refs;           /* the call's, and of each thread that cancels it */
    mr_exchange *x;
    int task, from;         /* from: the rank of the member that is asked; -1: the leader */
    void (*then)(struct mr_xrequest *q, mr_bytes *reply); /* it succeeded */
    void *ctx;
    int64_t bytes; /* that are expected */
    int64_t at;    /* where they go */
    int index;
    bool started, cancelled; /* under the lock: it is cancelled once it is started */
    struct mr_xrequest *next, **link;
} mr_xrequest;

/* One piece of an exchange's data: the phase it belongs to, the section of the tensor, and the chunk of that. */
typedef struct mr_xname {
    int64_t phase, section, chunk;
} mr_xname;

/* One collective op of one member, from its start to its end. */
struct mr_exchange {
    mr_refs refs; /* one until it is finished, one for each request, and one for each thread that ends it */
    mr_collectives *all;
    mr_task_peers *peers; /* a reference */
    mr_wsession *session;
    mr_run *r; /* until it is done */
    mr_collective_call call;
    int leader;         /* task that knows the group */
    const char *device; /* of the run */
    uint64_t incarnation;
    mr_cgroup *group;   /* once it is known; a reference */
    int rank;
    int64_t instance, number;
    int source;     /* of a broadcast */
    char *text;     /* under the lock: its name, "communicator;instance;number;rank" */
    mr_str signature; /* what members must agree on */
    mr_tensor *out;
    const struct mr_arithmetic *how;
    mr_group_algorithm algorithm;
    struct mr_xpiece *pieces; /* of a reduction */
    struct mr_xflow *flows;   /* of one by halving */
    mr_cancel_entry on_cancel;
    bool listens;
    mr_timer timer;
    bool holds; /* the watch of all members' tasks */
    /* Under the lock: */
    int64_t n_left;  /* its setup, requests under way, offers that are not fetched */
    bool ended, over; /* it shall end; it has ended */
    mr_status *st;
    mr_xrequest *requests;
    mr_exchange *next, **link;
};

/* ---- collective.c ---- */
#define MR_ABORTED_BY "Collective ops is aborted by: "
mr_exchange *mr_exchange_ref(mr_exchange *x);
void mr_exchange_unref(mr_exchange *x);
/* It ends with this error (taken over), unless it has ended.  tell: this task has to tell the other members. */
void mr_exchange_fail(mr_exchange *x, mr_status *st, bool tell);
/* n of the things it waits for are done; with the last one the run ends. */
void mr_exchange_less(mr_exchange *x, int64_t n);
/* q->then is called when the request succeeds; otherwise the exchange fails.  mr_xrequest_send takes the request and
 * the body. */
mr_xrequest *mr_xrequest_new(mr_exchange *x, int task, int from, void (*then)(mr_xrequest *q, mr_bytes *reply));
void mr_xrequest_send(mr_xrequest *q, const char *method, mr_str *body);
/* The watch holds the tasks of all members, or releases them. */
void mr_exchange_watch(mr_exchange *x, bool hold);

/* ---- collective_setup.c ---- */
/* Begins: finds the group, and goes on from there. */
void mr_exchange_find_group(mr_exchange *x);
/* Ends it when its time is up. */
void mr_exchange_set_timer(mr_exchange *x);

/* ---- collective_groups.c ---- */
mr_cgroup *mr_cgroup_ref(mr_cgroup *g);
void mr_cgroup_unref(mr_cgroup *g);
/* Its key in the table. */
enum { MR_CGROUP_TEXT = 96 };
mr_sv mr_cgroup_text(const mr_task_peers *p, int64_t key, int64_t part, char out[MR_CGROUP_TEXT]);
/* Puts the group into the table in place of the one before it, which breaks.  Takes the reference and returns one to
 * the group to be used: another op may have brought the same communicator before. */
mr_cgroup *mr_cgroup_keep(mr_collectives *c, mr_cgroup *g);
/* The communicator cannot be used any more: its exchanges end.  why is borrowed. */
typedef enum mr_break {
    MR_BREAK_HERE, /* the other members know, or need not know */
    MR_BREAK_TELL, /* this task tells the other members */
    MR_BREAK_TOLD, /* another member has told this task */
    MR_BREAK_LEFT, /* a member has left after it finished what it had begun: only what waits for it ends */
} mr_break;
void mr_cgroup_break(mr_collectives *c, mr_cgroup *g, const mr_status *why, mr_break how);
/* Tells a task that a communicator is broken.  left: because a member has left after it finished what it had begun. */
void mr_collectives_tell(mr_collectives *c, mr_task_peers *p, int task, uint64_t communicator, const mr_status *why, bool left);
mr_cgroup *mr_cgroup_find_locked(mr_collectives *c, uint64_t communicator) MR_REQUIRES(c->mu);
void mr_collectives_forget_early(mr_collectives *c);
/* How many exchanges of an instance a member has begun here. */
int64_t mr_cgroup_count_locked(mr_collectives *c, const mr_cgroup *g, int64_t instance, int64_t rank) MR_REQUIRES(c->mu);
enum { MR_COUNT_TEXT = 64 };
mr_sv mr_cgroup_count_text(int64_t instance, int64_t rank, char out[MR_COUNT_TEXT]); /* its key in `counts` */

/* ---- collective_leader.c ---- */
/* Numbers of fields that TensorFlow does not know and ignores. */
enum { MR_C_PART = 1000, MR_C_RANK = 1001, MR_C_COMMUNICATOR = 1002 };
/* Calls that wait here for a communicator's group (0: for any group) are answered with why. */
void mr_collectives_break_led(mr_collectives *c, uint64_t communicator, const mr_status *why);
/* The same by the group's key. */
void mr_collectives_drop_led(mr_collectives *c, int64_t key, const mr_status *why);
/* The leader's task in the cluster; by_session (may be NULL): the task that a session has chosen. */
int mr_collectives_leader_of(mr_collectives *c, const mr_task_peers *p, const char *by_session);
/* ---- collective_steps.c ---- */
void mr_collectives_forget_steps(mr_collectives *c);

/* ---- collective_join.c ---- */
bool mr_collectives_is_generation(int64_t key);
/* The key is of a generation that has ended. */
bool mr_collectives_is_over_locked(const mr_collectives *c, int64_t key) MR_REQUIRES(c->mu);
void mr_collectives_end_joining(mr_collectives *c, const mr_status *why);

/* ---- collective_boxes.c ---- */
/* From now on other members may fetch from this exchange, which has not ended. */
void mr_exchange_open_locked(mr_collectives *c, mr_exchange *x) MR_REQUIRES(c->mu);
/* Answers fetchers that came before the exchange and expect another op. */
void mr_exchange_greet(mr_exchange *x);
/* n others will fetch these bytes of t. */
void mr_exchange_offer(mr_exchange *x, mr_xname name, const mr_tensor *t, int64_t at_bytes, int64_t bytes, int64_t n);
/* Asks a member for a piece; bytes -1: as many as there are. */
void mr_exchange_fetch(mr_exchange *x, int from, mr_xname name, int64_t bytes, mr_xrequest *q);
/* The contents of a reply, where they begin in it; INVALID_ARGUMENT unless they are `bytes` (-1: any). */
mr_status *mr_fetched_at(mr_bytes *reply, int64_t bytes, size_t *at, size_t *n);
/* The exchange ends: its box leaves the table, and its fetchers are answered with why.  Returns how many fetches of
 * its offers are missing. */
int64_t mr_exchange_close(mr_exchange *x, const mr_status *why);
/* It has an offer that is not fetched yet. */
bool mr_exchange_offers_locked(mr_collectives *c, const mr_exchange *x) MR_REQUIRES(c->mu);
/* Answers fetchers that wait for exchanges of a communicator that have not begun here. */
void mr_boxes_break(mr_collectives *c, uint64_t communicator, const mr_status *why); /* 0: of all */

/* ---- collective_moves.c ---- */
/* What members must agree on; its group is known. */
void mr_exchange_sign(mr_exchange *x);
/* Makes the offers and the requests of its kind. */
mr_status *mr_exchange_move(mr_exchange *x);

/* ---- collective_reduce.c ---- */
void mr_exchange_forget_pieces(mr_exchange *x);

#endif
