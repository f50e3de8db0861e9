/* dist/ps_manager.h -- the manager of a parameter server: who holds what, and how that changes while training goes on.
 *
 * Pure: what happens goes in, what is to be done comes out.  All that servers must do lies in the view
 * (dist/ps_view.h): a head sees there that it must drain, a tail that it has a member to feed, a server that it is not
 * in a chain any more.  So nothing is told but views, and a lost message is mended by the next view: servers and
 * workers name the epoch they have in each heartbeat (mr_psm_heard), and who is behind is sent the view again.
 *
 * A lost member leaves its chains at once; the next one is head.  Then chains are refilled from behind: a new member
 * catches up, its feeder says when it has (mr_psm_complete), and it is part of the chain.  A server that joins is
 * taken into the chains that the ring gives it in the same way; where it should be the head the old head then drains,
 * says so (mr_psm_drained), and the next view has the new order, without the members that are too many.  A server that
 * leaves is replaced likewise and let go when it is in no chain.  Only some slots are in motion at a time.
 *
 * A server that has no memory for a slot says so (mr_psm_declined) and is taken out of its chain, or catches up no more.  It
 * keeps what else it has, but is given nothing for a while: others stand in for it.  Where there is nobody, the slot has
 * fewer copies, and the manager is not quiet.  A head never declines: it refuses its clients.
 *
 * A manager that is started anew knows nothing.  It waits for what servers report: the view of the highest epoch wins,
 * and after a while it is taken up when all its servers are there, or patience has run out: who is missing is lost.
 * Workers may be back before servers are: when one of them remembers tables, new servers are not dealt empty slots
 * before patience has run out.
 * Meanwhile servers and clients go on by the view they have.  Epochs begin at a stamp (the time in microseconds), so
 * no two managers give out the same.  A server that reported to a manager must take no view from an earlier one any
 * more. */
#ifndef MR_DIST_PS_MANAGER_H
#define MR_DIST_PS_MANAGER_H

#include "dist/ps_view.h"

typedef struct mr_psm_options {
    int num_slots;       /* 1 .. MR_PS_MAX_SLOTS */
    int replicas;        /* copies of each slot, 1: no other */
    int servers;         /* so many before slots are dealt out */
    int max_motion;      /* slots that change hands at a time; 0: 16 */
    int64_t settle_ns;   /* nothing is decided sooner after the start: servers of an earlier manager may report.  0 where
                            there can be none; else several times as long as they take to come back */
    int64_t patience_ns; /* for servers of the view that was reported, after the start; at least settle_ns */
    int64_t again_ns;    /* a server that declined a slot is given none for so long; 0: 30 s */
    uint64_t stamp;      /* above all earlier epochs: the time in microseconds */
} mr_psm_options;

typedef enum mr_psm_do {
    MR_PSM_PUBLISH,       /* the view to all its servers and all workers */
    MR_PSM_SEND_VIEW,     /* the view to `id` (a server or a worker) */
    MR_PSM_LET_GO,        /* server `id` holds nothing in view `epoch` and may end, unless it has a newer view: it may have
                             been taken in again meanwhile */
    MR_PSM_KEEP,          /* server `id` cannot leave: there is nobody to take its slots (FAILED_PRECONDITION) */
    MR_PSM_DECLINED,      /* server `id` has no memory for `slot`: to be reported */
    MR_PSM_LOST_SLOT,     /* all copies of `slot` are lost: to be reported */
    MR_PSM_FORGET_CLIENT, /* tell all servers: the clocks of client `id` are not needed any more */
    MR_PSM_WORKERS,       /* who is there has changed: for whoever counts iterations */
} mr_psm_do;

typedef struct mr_psm_action {
    mr_psm_do what;
    int slot;
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
    bool dealt;              /* `view` is in force */
    bool remembered;         /* somebody knows of slots of an earlier manager */
    mr_ps_view view;         /* while not dealt: the best one reported */
    MR_VEC(uint64_t) here;   /* servers that joined, by rising id */
    MR_VEC(uint64_t) workers;
    uint64_t *wanted;        /* of each slot: n_wanted servers, as the ring has it; 0 at the end: nobody has memory for it */
    int n_wanted;
    MR_VEC(mr_psm_full) full; /* those that are given nothing at present */
    bool stale;              /* `wanted` is of other servers than there are now, or others are full */
    bool changed;            /* the view is to be published */
    uint64_t epoch;          /* the highest one given out or heard of */
} mr_psm;

/* INVALID_ARGUMENT: options that make no sense. */
mr_status *mr_psm_init(mr_psm *m, const mr_psm_options *o, int64_t now_ns);
void mr_psm_deinit(mr_psm *m);

/* ---- what happens; actions are appended to out in the order in which they are to be done ---- */

/* A server is there, with the view it has (NULL or epoch 0: none).  One that is known already is sent the view.  A view
 * that is no good is an error and the server is not taken. */
mr_status *mr_psm_join(mr_psm *m, uint64_t server, const mr_ps_view *has, int64_t now_ns, mr_psm_actions *out);
void mr_psm_lost(mr_psm *m, uint64_t server, int64_t now_ns, mr_psm_actions *out);
/* It wants to leave, and says so again now and then until it is let go or kept. */
void mr_psm_leave(mr_psm *m, uint64_t server, int64_t now_ns, mr_psm_actions *out);
/* A heartbeat of a server or worker: it has the view of that epoch.  An unknown server is sent the view, sees that it
 * is not in it, and joins. */
void mr_psm_heard(mr_psm *m, uint64_t id, uint64_t epoch, int64_t now_ns, mr_psm_actions *out);
/* `member`, which catches up, has everything that was ever acknowledged and is waited for.  slot_epoch: as `by` knows
 * it. */
void mr_psm_complete(mr_psm *m, uint64_t by, int slot, uint64_t slot_epoch, uint64_t member, mr_psm_actions *out);
/* The head takes no pushes, and all members have the same. */
void mr_psm_drained(mr_psm *m, uint64_t by, int slot, uint64_t slot_epoch, mr_psm_actions *out);
/* It has no memory for a slot that it follows in, or catches up with, and holds less of it than the one before it. */
void mr_psm_declined(mr_psm *m, uint64_t by, int slot, uint64_t slot_epoch, int64_t now_ns, mr_psm_actions *out);
/* All lost slots begin anew, empty (a snapshot is read into them then); all: those that are not lost too. */
void mr_psm_restore(mr_psm *m, bool all, mr_psm_actions *out);
void mr_psm_worker_join(mr_psm *m, uint64_t worker, mr_psm_actions *out);
void mr_psm_remember(mr_psm *m); /* a worker knows tables of before */
/* It left (all it pushed was acknowledged), or is lost for good: its id does not come back. */
void mr_psm_worker_leave(mr_psm *m, uint64_t worker, mr_psm_actions *out);
/* Time passes.  Returns when to tick next. */
int64_t mr_psm_tick(mr_psm *m, int64_t now_ns, mr_psm_actions *out);

/* Nothing moves and nothing is missing: chains are full and heads where they should be. */
bool mr_psm_quiet(const mr_psm *m);
int mr_psm_in_motion(const mr_psm *m); /* slots */
int mr_psm_lost_slots(const mr_psm *m);

#endif
