/* dist/ps_manager.h -- the manager of a parameter server: which server holds what, and how that
 * changes while training goes on.
 *
 * Pure: events in, actions out. Everything that servers must do is in the view (dist/ps_view.h): a
 * head sees there that it must drain, a tail that it has a member to feed, a server that it is no
 * longer in a chain. So the manager sends only views, and the next view repairs a lost message:
 * servers and workers name the epoch they have in each heartbeat (mr_psm_heard), and those that are
 * behind are sent the view again.
 *
 * A lost member leaves its chains at once, and the next one is head. Then chains are refilled from
 * behind: a new member catches up, its feeder reports when it has (mr_psm_complete), and it becomes
 * part of the chain. A server that joins is added to the chains that the ring gives it in the same
 * way. Where it should be the head, the old head then drains and reports it (mr_psm_drained), and
 * the next view has the new order, without surplus members. A server that leaves is replaced
 * likewise, and let go when it is in no chain. Only some ranges move at a time.
 *
 * A server that has no memory for a range says so (mr_psm_declined) and is taken out of its chain,
 * or stops catching up. It keeps its other ranges, but gets no new ones for a while: others replace
 * it. If no other server can, the range has fewer copies, and the manager is not quiet. A head never
 * declines: it refuses its clients.
 *
 * A restarted manager knows nothing. It waits for the reports of servers: the view of the highest
 * epoch wins. After a while it is adopted, when all its servers are present, or patience has run
 * out and the missing ones count as lost. Workers may be back before servers are: if one of them
 * remembers tables, new servers get no empty ranges before patience has run out. Meanwhile servers
 * and clients go on with the view they have. Epochs begin at a stamp (the time in microseconds), so
 * no two managers give out the same. A server that reported to a manager must accept no view of an
 * earlier one. */
#ifndef MR_DIST_PS_MANAGER_H
#define MR_DIST_PS_MANAGER_H

#include "dist/ps_view.h"

typedef struct mr_psm_options {
    int num_ranges;       /* 1 .. MR_PS_MAX_RANGES */
    int replicas;        /* copies of each range; 1: no second copy */
    int servers;         /* number of servers before ranges are assigned */
    int max_motion;      /* ranges that may move at a time; 0: 16 */
    int64_t settle_ns;   /* no decision before this time after the start: servers of an earlier manager may report. 0 if
                            there can be none; else several times as long as they take to come back */
    int64_t patience_ns; /* how long to wait for servers of the reported view, after the start; at least settle_ns */
    int64_t again_ns;    /* a server that declined a range gets none for this time; 0: 30 s */
    uint64_t stamp;      /* above all earlier epochs: the time in microseconds */
} mr_psm_options;

typedef enum mr_psm_do {
    MR_PSM_PUBLISH,       /* send the view to all its servers and all workers */
    MR_PSM_SEND_VIEW,     /* send the view to `id` (a server or a worker) */
    MR_PSM_LET_GO,        /* server `id` holds nothing in view `epoch` and may end, unless it has a newer view: it may
                             have been added again meanwhile */
    MR_PSM_KEEP,          /* server `id` cannot leave: no other server can take its ranges (FAILED_PRECONDITION) */
    MR_PSM_DECLINED,      /* log: server `id` has no memory for `range` */
    MR_PSM_LOST_RANGE,     /* log: all copies of `range` are lost */
    MR_PSM_FORGET_CLIENT, /* tell all servers: the clocks of client `id` are no longer needed */
    MR_PSM_WORKERS,       /* the set of workers has changed: for code that counts iterations */
} mr_psm_do;

typedef struct mr_psm_action {
    mr_psm_do what;
    int range;
    uint64_t id, epoch;
} mr_psm_action;
typedef MR_VEC(mr_psm_action) mr_psm_actions;

typedef struct mr_psm_full { /* a server that declined */
    uint64_t id;
    int64_t until_ns;
} mr_psm_full;

typedef struct mr_psm {
    mr_psm_options o;
    int64_t start_ns;
    bool dealt;              /* ranges are assigned: `view` is in force */
    bool remembered;         /* a server or worker knows ranges of an earlier manager */
    mr_ps_view view;         /* while not dealt: the newest one reported */
    MR_VEC(uint64_t) here;   /* servers that joined, by rising id */
    MR_VEC(uint64_t) workers;
    uint64_t *wanted; /* for each range n_wanted servers, from the ring; 0 at the end: no server has memory for it */
    int n_wanted;
    MR_VEC(mr_psm_full) full; /* servers that get no ranges at present */
    bool stale;              /* `wanted` must be computed again: servers, or full ones, have changed */
    bool changed;            /* the view must be published */
    uint64_t epoch;          /* the highest one given out or heard of */
} mr_psm;

/* INVALID_ARGUMENT: an option is out of range. */
mr_status *mr_psm_init(mr_psm *m, const mr_psm_options *o, int64_t now_ns);
void mr_psm_deinit(mr_psm *m);

/* ---- events; actions are appended to out in the order in which they must be done ---- */

/* A server joins, with the view it has (NULL or epoch 0: none). One that is already known is sent the view. An invalid
 * view is an error, and the server is not added. */
mr_status *mr_psm_join(mr_psm *m, uint64_t server, const mr_ps_view *has, int64_t now_ns, mr_psm_actions *out);
void mr_psm_lost(mr_psm *m, uint64_t server, int64_t now_ns, mr_psm_actions *out);
/* A server wants to leave; it repeats this until it is let go or kept. */
void mr_psm_leave(mr_psm *m, uint64_t server, int64_t now_ns, mr_psm_actions *out);
/* A heartbeat of a server or worker, which has the view of that epoch. An unknown server is sent the view, sees that it
 * is not in it, and joins. */
void mr_psm_heard(mr_psm *m, uint64_t id, uint64_t epoch, int64_t now_ns, mr_psm_actions *out);
/* `member`, which catches up, has everything that was ever acknowledged, and is waited for. range_epoch: as `by` knows
 * it. */
void mr_psm_complete(mr_psm *m, uint64_t by, int range, uint64_t range_epoch, uint64_t member, mr_psm_actions *out);
/* The head takes no pushes, and all members have the same. */
void mr_psm_drained(mr_psm *m, uint64_t by, int range, uint64_t range_epoch, mr_psm_actions *out);
/* A follower, or a member that catches up, has no memory for a range; it holds less of it than its predecessor. */
void mr_psm_declined(mr_psm *m, uint64_t by, int range, uint64_t range_epoch, int64_t now_ns, mr_psm_actions *out);
/* All lost ranges begin again, empty, before a snapshot is loaded into them; all: ranges that are not lost too. */
void mr_psm_restore(mr_psm *m, bool all, mr_psm_actions *out);
void mr_psm_worker_join(mr_psm *m, uint64_t worker, mr_psm_actions *out);
void mr_psm_remember(mr_psm *m); /* a worker knows tables of an earlier manager */
/* A worker left (everything it pushed was acknowledged), or is lost for good: its id does not come back. */
void mr_psm_worker_leave(mr_psm *m, uint64_t worker, mr_psm_actions *out);
/* Time passes.  Returns when to tick next. */
int64_t mr_psm_tick(mr_psm *m, int64_t now_ns, mr_psm_actions *out);

/* Nothing moves and nothing is missing: chains are full, and heads are where they should be. */
bool mr_psm_quiet(const mr_psm *m);
int mr_psm_in_motion(const mr_psm *m); /* ranges */
int mr_psm_lost_ranges(const mr_psm *m);

#endif
