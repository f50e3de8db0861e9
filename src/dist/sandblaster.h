/* dist/sandblaster.h -- who computes which portion of a batch, so that each counts exactly once.
 *
 * Pure: events in, actions out.  Sandblaster evaluates a loss and its gradient over all data.  The data are cut into many
 * small portions; idle replicas are given one after the other, so that fast ones do more, and when none is left the last
 * ones are given out a second time, so that a slow replica holds nobody up, and once more each time that patience with both
 * ends.  The first to be done with a portion keeps it; the others are told to drop what they computed.
 *
 * Why the sum is exact.  A replica adds the gradients of the portions it keeps to a sum of its own, and when it is told to
 * flush it writes that sum over its lane: a vector on the parameter servers that nobody else writes.  A lane counts once the
 * servers have acknowledged the whole of it; then it is the sum of exactly the portions this replica kept until then.  A
 * replica that is lost while it flushes leaves a lane in doubt (some servers may have the new values, or will yet get
 * them): such a lane is never read nor given to another again, and its portions are computed anew.  A replica lost
 * at any other time has nothing under way, so what it flushed before still counts, and its lane may serve again in a later
 * evaluation.  The evaluation is over when each portion is in one lane that counts; the gradient is the sum of these lanes.
 *
 * No wait is for one replica alone: of one that is silent in an order for longer than patience_ns while another is idle,
 * what it has not flushed is taken away (it is disowned: it gets nothing more in this evaluation).  Should all that are left
 * be disowned, the evaluation begins anew under another number. */
#ifndef MR_DIST_SANDBLASTER_H
#define MR_DIST_SANDBLASTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

typedef enum mr_blast_event_kind {
    MR_BLAST_EVALUATE, /* the coordinator wants a loss and a gradient at the present parameters */
    MR_BLAST_JOIN,     /* a replica, under a number never used before, is there and idle */
    MR_BLAST_DONE,     /* it has computed a portion; `loss` is the portion's */
    MR_BLAST_FLUSHED,  /* the servers have acknowledged all of its lane */
    MR_BLAST_LOST,     /* it is gone: what it says later is not heard */
    MR_BLAST_TICK,     /* time passes */
} mr_blast_event_kind;

typedef struct mr_blast_event {
    mr_blast_event_kind kind;
    int64_t replica, evaluation, portion; /* from the wire: checked here */
    double loss;
} mr_blast_event;

typedef enum mr_blast_do {
    MR_BLAST_COMPUTE,  /* replica: this portion at the parameters of this evaluation */
    MR_BLAST_FLUSH,    /* replica: its sum of this evaluation, to this lane */
    MR_BLAST_COMPLETE, /* coordinator: the loss is `loss`, the gradient the sum of mr_blast_counts */
} mr_blast_do;

typedef struct mr_blast_action {
    mr_blast_do what;
    int64_t replica, evaluation, portion;
    int lane;
    bool keep; /* first of all the replica adds the portion it last computed to its sum; else drops it */
    double loss;
} mr_blast_action;
typedef MR_VEC(mr_blast_action) mr_blast_actions;

typedef struct mr_blast_rules {
    int portions;
    int64_t patience_ns; /* with a busy replica while another is idle */
} mr_blast_rules;

typedef enum mr_blast_state { MR_BLAST_IDLE, MR_BLAST_COMPUTING, MR_BLAST_FLUSHING } mr_blast_state;

typedef struct mr_blast_replica {
    int64_t id;
    mr_blast_state state;
    int64_t evaluation, portion; /* of its present order */
    int64_t since_ns;            /* when it got that */
    int lane;                    /* -1: none yet */
    int unflushed;               /* portions in its sum that its lane lacks */
    bool flushed;                /* its lane counts in this evaluation */
    bool disowned;               /* in this evaluation */
    bool keep;                   /* what it is told with its next order */
} mr_blast_replica;

typedef enum mr_blast_holding { MR_BLAST_FREE, MR_BLAST_GIVEN, MR_BLAST_KEPT, MR_BLAST_SAFE } mr_blast_holding;

typedef struct mr_blast_portion {
    mr_blast_holding holding;
    int64_t by[2]; /* GIVEN: whom, the last two; -1: nobody.  KEPT: by[0] */
    int lane;      /* SAFE: where */
    double loss;   /* KEPT and SAFE */
} mr_blast_portion;

typedef struct mr_blast {
    mr_blast_rules o;
    MR_VEC(mr_blast_replica) replicas; /* those that are there */
    mr_blast_portion *portions;
    int n_free, n_safe;
    int64_t evaluation; /* 0: none yet */
    bool running;
    int n_lanes;
    MR_VEC(int) spare;   /* lanes without a replica, which may be given to another */
    MR_VEC(int) resting; /* the same once this evaluation is over: they count in it */
    int64_t given_twice, dropped, disowned, lost, restarts; /* for people */
} mr_blast;

void mr_blast_init(mr_blast *b, const mr_blast_rules *o);
void mr_blast_deinit(mr_blast *b);
/* What follows from an event.  Each replica gets at most one order at a time, and the next one only after it answered. */
void mr_blast_step(mr_blast *b, const mr_blast_event *e, int64_t now_ns, mr_blast_actions *out);
/* Whether a lane is part of the gradient of the evaluation that was just completed. */
bool mr_blast_counts(const mr_blast *b, int lane);

#endif
