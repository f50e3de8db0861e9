/* dist/ps_replica.h -- one range at one server: takes pushes as head, follows as member, catches up.
 *
 * Pure: events in, actions out. The contents of a range change by records, numbered by version from
 * 1. The head makes them: a push that comes while a record is under way waits, and all waiting
 * pushes become one record, so that they are replicated once, after aggregation. A record names its
 * pushes, (client, ts) each, so that every member keeps the same clocks. The caller keeps the bytes
 * of the records and the values; this file has only numbers.
 *
 * Records are passed on from the head to the tail in the order of their versions. A message "have"
 * goes back: the version that a member holds, and the version that it and all members behind it
 * hold (`stable`). The head answers its clients when their record is stable. Every member keeps a
 * record until it is stable, so a server that becomes the predecessor of a member can send what it lacks.
 * Messages may be lost, repeated and overtaken: versions and epochs sort them, ticks and "have"
 * repair losses.
 *
 * Catching up: the feeder (the last full member) sends records if it still has them, else a copy of
 * the range, and then the records after it. When little is missing, it waits for the new member as
 * if that were the tail. When the new member has everything that was acknowledged before, the
 * feeder tells the manager. From then on nothing is acknowledged that the new member does not have.
 *
 * A member that has no memory for a record or a copy takes nothing of it and tells the manager
 * (mr_psr_decline), which takes it out of the chain. It never differs from the others; it is only
 * gone.
 *
 * A server that is no longer head, without knowing, cannot do harm. Its successor knows the newer
 * epoch and refuses, so it acknowledges nothing and answers its clients UNAVAILABLE. Without a
 * successor it was the only one that had the range, and then no other server becomes head. Its pulls may
 * be out of date until it gets the view: a client that knows a higher epoch of the range is not served
 * (mr_psr_admits), so a client that has seen a newer view never reads values from before it. */
#ifndef MR_DIST_PS_REPLICA_H
#define MR_DIST_PS_REPLICA_H

#include "dist/ps_clock.h"
#include "dist/ps_view.h"

typedef struct mr_psr_options {
    int window;         /* records under way at a time; 0: 1. More means less waiting and less aggregation */
    int max_waiting;    /* pushes that may wait, and half of those waiting for an answer; else UNAVAILABLE; 0: 4096 */
    int max_kept;       /* records kept for a member that catches up; beyond that it gets a new copy; 0: 4096 */
    int64_t retry_ns;   /* without progress messages are repeated after this time; 0: 100 ms */
} mr_psr_options;

typedef struct mr_psr_push {
    uint64_t client, ts, prev;
    uint64_t epoch, generation; /* of the range, in the client's view */
    uint64_t cookie;            /* the caller's name for it, which its ANSWER carries */
} mr_psr_push;

typedef struct mr_psr_record_info { /* from the predecessor */
    uint64_t version;
    const mr_ps_stamp *pushes; /* its pushes, in the order in which they count */
    int n;
} mr_psr_record_info;

typedef enum mr_psr_do {
    MR_PSR_RECORD,  /* make record `version` of the pushes in r->batch, in this order; apply and keep it */
    MR_PSR_APPLY,   /* apply and keep `version`, record `index` of the present append */
    MR_PSR_SEND,    /* to `to`: an append with the kept records first .. version; a question if first > version */
    MR_PSR_HAVE,    /* to `to`: have `version`, `stable`, `again` */
    MR_PSR_REFUSE,  /* to `to`: refused, our epoch of the range is `epoch` */
    MR_PSR_COPY,    /* to `to`: the range's values and clocks at `version`; then call mr_psr_copied */
    MR_PSR_INSTALL, /* replace the values by those of the present copy, and drop the kept records */
    MR_PSR_RESET,   /* drop values and kept records: the range is empty, as at version 0 */
    MR_PSR_FORGET,  /* records up to `version` need not be kept */
    /* Answer push `cookie` with `code`, and `epoch` of the range for the client to compare with its own. OK; ABORTED:
     * there is a gap, the client's last push here was `version`; UNAVAILABLE: not head, or not now; DATA_LOSS: the
     * range is lost; INVALID_ARGUMENT; RESOURCE_EXHAUSTED: too many clients */
    MR_PSR_ANSWER,
    MR_PSR_COMPLETE, /* to the manager: `to` is complete (mr_psm_complete, with `epoch`) */
    MR_PSR_DRAINED,  /* to the manager: drained (mr_psm_drained, with `epoch`) */
    MR_PSR_DECLINE,  /* to the manager: no memory for the range here (mr_psm_declined, with `epoch`) */
    MR_PSR_ASK_VIEW, /* ask the manager for a view: a peer knows a newer one */
} mr_psr_do;

typedef struct mr_psr_action {
    mr_psr_do what;
    mr_code code;
    bool again;
    int index;
    uint64_t to, epoch, version, first, stable, cookie;
} mr_psr_action;
typedef MR_VEC(mr_psr_action) mr_psr_actions;

typedef struct mr_psr_answer { /* a push that is in a record, to be answered when the record is stable */
    uint64_t client, ts, cookie, version;
} mr_psr_answer;

typedef struct mr_psr {
    mr_psr_options o;
    uint64_t self;
    int range;
    mr_ps_clock *clock;  /* shared by the ranges of a server */
    mr_ps_range view;     /* this range in the newest view */
    uint64_t since;      /* when our membership began; 0: no member, and the range is empty here */
    uint64_t before, after; /* neighbours in the chain; 0: none */
    bool head, catching; /* our role; neither: a member further back, or no member */
    bool stale;          /* a peer has a newer epoch: no pushes until its view comes */
    uint64_t version;    /* applied */
    uint64_t stable;     /* we and all members behind us have it; one that catches up counts only once awaited */
    uint64_t first_kept; /* records first_kept .. version are kept */
    uint64_t after_has;  /* version that the successor is known to have */
    uint64_t sent;       /* version up to which records were sent to it */
    bool met;            /* it has said what it has, in this epoch */
    bool copying;        /* a copy is on its way to it; records after copy_version are kept */
    uint64_t copy_version;
    bool awaited;        /* the member that catches up behind us counts for `stable` */
    bool told_complete, told_drained, told_declined; /* the manager was told, since the last tick or view */
    uint64_t told_stable; /* what the predecessor was told */
    int64_t retry_at_ns;
    bool asked;          /* for a view */
    MR_VEC(mr_psr_push) waiting; /* not in a record yet */
    MR_VEC(mr_psr_push) batch;   /* of the RECORD action */
    MR_VEC(mr_psr_answer) answers;
    MR_VEC(uint64_t) undo; /* clocks before the record that is being applied */
    int64_t n_pushes, n_records, n_duplicates, n_bad; /* so far */
} mr_psr;

/* o NULL: all defaults.  A server has one of these for each range, whether it is a member or not. */
void mr_psr_init(mr_psr *r, uint64_t self, int range, mr_ps_clock *clock, const mr_psr_options *o);
void mr_psr_deinit(mr_psr *r);

/* A newer view came. The caller compares the epochs of views, and calls this for every range. */
void mr_psr_view(mr_psr *r, const mr_ps_range *s, int64_t now_ns, mr_psr_actions *out);
/* A client's push to this range, which was checked and can be applied. A part without payload is a push too. */
void mr_psr_push_part(mr_psr *r, const mr_psr_push *p, int64_t now_ns, mr_psr_actions *out);
/* Whether a pull can be served here and now: OK, UNAVAILABLE, DATA_LOSS.  epoch: the client's, of the range. */
mr_code mr_psr_admits(const mr_psr *r, uint64_t epoch);
/* Messages of other servers, with their epoch of the range. APPLY and INSTALL refer to the present message. */
void mr_psr_append(mr_psr *r, uint64_t from, uint64_t epoch, const mr_psr_record_info *records, int n, int64_t now_ns,
                   mr_psr_actions *out);
void mr_psr_have(mr_psr *r, uint64_t from, uint64_t epoch, uint64_t version, uint64_t stable, bool again,
                 int64_t now_ns, mr_psr_actions *out);
void mr_psr_refused(mr_psr *r, uint64_t from, uint64_t epoch, mr_psr_actions *out);
/* A copy of the range at `version`, with its clocks, came whole. */
void mr_psr_copy(mr_psr *r, uint64_t from, uint64_t epoch, uint64_t version, const mr_ps_stamp *stamps, int n,
                 int64_t now_ns, mr_psr_actions *out);
/* Whether an append or a copy of that sender, with that epoch, is considered; for others no memory is allocated. */
bool mr_psr_follows(const mr_psr *r, uint64_t from, uint64_t epoch);
/* Instead of mr_psr_append or mr_psr_copy: there is no memory for its contents. */
void mr_psr_decline(mr_psr *r, uint64_t from, uint64_t epoch, mr_psr_actions *out);
/* The copy to `to` arrived, or did not (a broken connection); then it is made again. */
void mr_psr_copied(mr_psr *r, uint64_t to, bool ok, int64_t now_ns, mr_psr_actions *out);
void mr_psr_tick(mr_psr *r, int64_t now_ns, mr_psr_actions *out); /* several times in each retry_ns */

bool mr_psr_is_member(const mr_psr *r); /* in the chain, and complete */

#endif
