/* dist/ps_replica.h -- one slot at one server: takes pushes as head, follows as member, catches up.
 *
 * Pure: events in, actions out.  What a slot holds changes by records, numbered by version from 1.  The head makes
 * them: a push that comes while a record is under way waits, and all that wait become one record (so they are
 * replicated once, after aggregation).  A record names the pushes in it, (client, ts) each, so that every member keeps
 * the same clocks.  The caller keeps the records' bytes by version, and values, and the snapshot of both; here are only
 * numbers.
 *
 * From the head to the tail records are passed on in the order of their versions.  Backwards goes a word "have": the
 * version that a member holds, and the version that it and all behind it hold (`stable`).  The head answers its
 * clients when their record is stable.  A record is kept until it is stable, by everybody: whoever becomes the
 * predecessor of a member can send what it lacks.  Messages may be lost, repeated and overtaken: versions and epochs
 * sort them, ticks and "have" mend them.
 *
 * Catching up: the feeder (the last full member) sends records if it still has them, else a copy of the slot as it is,
 * and the records after it.  When little is missing it waits for that member as if it were the tail; when the member
 * has all that was acknowledged before, it tells the manager.  From then on nothing is acknowledged that it does not
 * have.
 *
 * A member that has no memory for a record or a copy takes nothing of it and says so to the manager (mr_psr_decline), which
 * takes it out of the chain: it is never different, only gone.
 *
 * A head that is not head any more, without knowing, cannot do harm: its successor knows the newer epoch and refuses,
 * so it acknowledges nothing, and answers its clients UNAVAILABLE.  Without a successor it was the only one that had
 * the slot, and then nobody else is made head.  Its pulls may be old until it hears: a client that knows a higher
 * epoch of the slot is not served (mr_psr_may_pull), so who has heard of a newer view never reads from before it. */
#ifndef MR_DIST_PS_REPLICA_H
#define MR_DIST_PS_REPLICA_H

#include "dist/ps_clock.h"
#include "dist/ps_view.h"

typedef struct mr_psr_options {
    int window;         /* records under way at a time; 0: 1.  More: less waiting, less aggregation */
    int max_waiting;    /* pushes that wait, and half of those that wait for an answer; more: UNAVAILABLE; 0: 4096 */
    int max_kept;       /* records kept for one that catches up; when there are more it gets a new copy; 0: 4096 */
    int64_t retry_ns;   /* without progress something is said again; 0: 100 ms */
} mr_psr_options;

typedef struct mr_psr_push {
    uint64_t client, ts, prev;
    uint64_t epoch, generation; /* of the slot, as the client's view has them */
    uint64_t cookie;            /* the caller's name for it: an ANSWER has it again */
} mr_psr_push;

typedef struct mr_psr_record { /* as it comes from the predecessor */
    uint64_t version;
    const mr_ps_stamp *pushes; /* in it, in the order in which they count */
    int n;
} mr_psr_record;

typedef enum mr_psr_do {
    MR_PSR_RECORD,   /* make a record `version` of r->batch (its pushes, in this order), apply and keep it */
    MR_PSR_APPLY,    /* apply and keep `version`, record `index` of the append at hand */
    MR_PSR_SEND,     /* to `to`: an append with the kept records first .. version (none when first > version: a question) */
    MR_PSR_HAVE,     /* to `to`: have `version`, `stable`, `again` */
    MR_PSR_REFUSE,   /* to `to`: refused, our epoch of the slot is `epoch` */
    MR_PSR_COPY,     /* to `to`: the slot's values and clocks as they are at `version`; then mr_psr_copied */
    MR_PSR_INSTALL,  /* values are replaced by those of the copy at hand; kept records are forgotten */
    MR_PSR_RESET,    /* values and kept records are thrown away: the slot is empty, as at version 0 */
    MR_PSR_FORGET,   /* records through `version` need not be kept */
    MR_PSR_ANSWER,   /* the push `cookie`: `code`, and `epoch` of the slot for the client to compare with its own.
                        OK; ABORTED: there is a gap, the client's last push here was `version`; UNAVAILABLE: not head, or
                        not now; DATA_LOSS: the generation is over, or the slot lost; INVALID_ARGUMENT */
    MR_PSR_COMPLETE, /* to the manager: `to` is complete (mr_psm_complete, with `epoch`) */
    MR_PSR_DRAINED,  /* to the manager: drained (mr_psm_drained, with `epoch`) */
    MR_PSR_DECLINE,  /* to the manager: there is no memory for the slot here (mr_psm_declined, with `epoch`) */
    MR_PSR_ASK_VIEW, /* of the manager: somebody knows a newer one */
} mr_psr_do;

typedef struct mr_psr_action {
    mr_psr_do what;
    mr_code code;
    bool again;
    int index;
    uint64_t to, epoch, version, first, stable, cookie;
} mr_psr_action;
typedef MR_VEC(mr_psr_action) mr_psr_actions;

typedef struct mr_psr_answer { /* a push that counts already, to be answered when its record is stable */
    uint64_t client, ts, cookie, version;
} mr_psr_answer;

typedef struct mr_psr {
    mr_psr_options o;
    uint64_t self;
    int slot;
    mr_ps_clock *clock;  /* shared by the slots of a server */
    mr_ps_slot view;     /* of this slot, as last heard */
    uint64_t since;      /* of our membership; 0: none, and there is nothing here */
    uint64_t before, after; /* neighbours; 0: none */
    bool head, catching; /* our part; neither: a member further back, or no member */
    bool stale;          /* somebody has a newer epoch: nothing is taken until it comes */
    uint64_t version;    /* applied */
    uint64_t stable;     /* we and all behind us have it (the catching one not counted, until awaited) */
    uint64_t first_kept; /* records first_kept .. version are kept */
    uint64_t after_has;  /* what the successor is known to have */
    uint64_t sent;       /* what was sent to it */
    bool met;            /* it said what it has, in this epoch */
    bool copying;        /* a copy is on its way to it; records after copy_version are kept */
    uint64_t copy_version;
    bool awaited;        /* the catching one behind us counts for `stable` */
    bool told_complete, told_drained, told_declined; /* since the last tick or view */
    uint64_t told_stable; /* to the predecessor */
    int64_t retry_at_ns;
    bool asked;          /* for a view */
    MR_VEC(mr_psr_push) waiting; /* not in a record yet */
    MR_VEC(mr_psr_push) batch;   /* of the RECORD action */
    MR_VEC(mr_psr_answer) answers;
    MR_VEC(uint64_t) undo; /* of the record at hand */
    int64_t n_pushes, n_records, n_duplicates, n_bad; /* so far */
} mr_psr;

/* o NULL: all defaults.  A server has one of these for each slot, whether it is a member or not. */
void mr_psr_init(mr_psr *r, uint64_t self, int slot, mr_ps_clock *clock, const mr_psr_options *o);
void mr_psr_deinit(mr_psr *r);

/* A newer view came (the caller compares the views' epochs, and offers all slots of it). */
void mr_psr_view(mr_psr *r, const mr_ps_slot *s, int64_t now_ns, mr_psr_actions *out);
/* A client's part of a push for this slot; it was decoded and can be applied.  A part without payload is a push too. */
void mr_psr_push_part(mr_psr *r, const mr_psr_push *p, int64_t now_ns, mr_psr_actions *out);
/* Whether a pull can be served here and now: OK, UNAVAILABLE, DATA_LOSS.  epoch: the client's, of the slot. */
mr_code mr_psr_may_pull(const mr_psr *r, uint64_t epoch);
/* Messages of other servers, with the epoch of the slot that they say.  APPLY and INSTALL are of what is at hand. */
void mr_psr_append(mr_psr *r, uint64_t from, uint64_t epoch, const mr_psr_record *records, int n, int64_t now_ns,
                   mr_psr_actions *out);
void mr_psr_have(mr_psr *r, uint64_t from, uint64_t epoch, uint64_t version, uint64_t stable, bool again, int64_t now_ns,
                 mr_psr_actions *out);
void mr_psr_refused(mr_psr *r, uint64_t from, uint64_t epoch, mr_psr_actions *out);
/* A copy of the slot at `version`, with its clocks, came whole. */
void mr_psr_copy(mr_psr *r, uint64_t from, uint64_t epoch, uint64_t version, const mr_ps_stamp *stamps, int n, int64_t now_ns,
                 mr_psr_actions *out);
/* Whether an append or a copy of that sender, with that epoch, is looked at: for nothing else memory is taken. */
bool mr_psr_follows(const mr_psr *r, uint64_t from, uint64_t epoch);
/* Instead of mr_psr_append or mr_psr_copy: there is no memory for what it brings. */
void mr_psr_decline(mr_psr *r, uint64_t from, uint64_t epoch, mr_psr_actions *out);
/* The copy to `to` arrived, or did not (a broken connection): it is made anew then. */
void mr_psr_copied(mr_psr *r, uint64_t to, bool ok, int64_t now_ns, mr_psr_actions *out);
void mr_psr_tick(mr_psr *r, int64_t now_ns, mr_psr_actions *out); /* several times in each retry_ns */

bool mr_psr_is_member(const mr_psr *r); /* in the chain, and complete */

#endif
