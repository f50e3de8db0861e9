/* dist/sandblaster.h -- which replica computes which portion of a batch, so that each portion counts exactly once.
 *
 * Pure: events in, actions out.  Sandblaster evaluates a loss and its gradient over all data.  The data are cut into
 * many small portions.  An idle replica gets the next portion, so fast replicas do more.  When no portion is left, the
 * last ones are given out a second time, so that a slow replica delays no one, and again each time the patience with
 * both replicas ends.  The first replica that completes a portion keeps it; the others are told to drop their result.
 *
 * Why the sum is exact.  A replica adds the gradients of the portions it keeps to a local sum.  When it is told to
 * flush, it writes that sum to its lane: a vector on the parameter servers that no other replica writes.  A lane counts
 * once the servers have acknowledged all of it; then it is the sum of exactly the portions that this replica had kept.
 * A replica that is lost while it flushes leaves its lane in doubt, because some servers may have the new values, or
 * get them later.  Such a lane is never read nor used again, and its portions are computed again.  A replica that is
 * lost at any other time has no write in progress, so what it flushed before still counts, and its lane may be used
 * again in a later evaluation.  The evaluation is over when each portion is in one lane that counts; the gradient is
 * the sum of these lanes.
 *
 * The evaluation never waits for one replica alone.  If a replica has not answered an order for longer than patience_ns
 * while another is idle, its unflushed portions are taken away from it: it is disowned, and gets no more orders in this
 * evaluation.  If all remaining replicas are disowned, the evaluation begins again under another number. */
#ifndef MR_DIST_SANDBLASTER_H
#define MR_DIST_SANDBLASTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

typedef enum mr_blast_event_kind {
    MR_BLAST_EVALUATE, /* the coordinator wants a loss and a gradient at the present parameters */
    MR_BLAST_JOIN,     /* a replica, with a number never used before, is present and idle */
    MR_BLAST_DONE,     /* it has computed a portion, whose loss is `loss` */
    MR_BLAST_FLUSHED,  /* the servers have acknowledged all of its lane */
    MR_BLAST_LOST,     /* it is gone: later messages of it are ignored */
    MR_BLAST_TICK,     /* time passes */
} mr_blast_event_kind;

typedef struct mr_blast_event {
    mr_blast_event_kind kind;
    int64_t replica, evaluation, portion; /* from the wire: checked here */
    double loss;
} mr_blast_event;

typedef enum mr_blast_do {
    MR_BLAST_COMPUTE,  /* replica: compute this portion at the parameters of this evaluation */
    MR_BLAST_FLUSH,    /* replica: write its sum of this evaluation to this lane */
    MR_BLAST_COMPLETE, /* coordinator: the loss is `loss`, the gradient the sum of the lanes of mr_blast_counts */
} mr_blast_do;

typedef struct mr_blast_action {
    mr_blast_do what;
    int64_t replica, evaluation, portion;
    int lane;
    bool keep; /* before that, the replica adds the portion that it computed last to its sum; false: it drops it */
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
    bool keep;                   /* for its next order: mr_blast_action.keep */
} mr_blast_replica;

typedef enum mr_blast_holding { MR_BLAST_FREE, MR_BLAST_GIVEN, MR_BLAST_KEPT, MR_BLAST_SAFE } mr_blast_holding;

typedef struct mr_blast_portion {
    mr_blast_holding holding;
    int64_t by[2]; /* GIVEN: the last two replicas that got it; -1: none.  KEPT: by[0] has it */
    int lane;      /* SAFE: the lane that it is in */
    double loss;   /* KEPT and SAFE */
} mr_blast_portion;

typedef struct mr_blast {
    mr_blast_rules o;
    MR_VEC(mr_blast_replica) replicas; /* the present ones */
    mr_blast_portion *portions;
    int n_free, n_safe;
    int64_t evaluation; /* 0: none yet */
    bool running;
    int n_lanes;
    MR_VEC(int) spare;   /* lanes without a replica, which a new replica may get */
    MR_VEC(int) resting; /* lanes without a replica that count in this evaluation; spare when it is over */
    int64_t given_twice, dropped, disowned, lost, restarts; /* statistics */
} mr_blast;

void mr_blast_init(mr_blast *b, const mr_blast_rules *o);
void mr_blast_deinit(mr_blast *b);
/* Handles an event.  Each replica gets at most one order at a time, and the next one only after it has answered. */
void mr_blast_step(mr_blast *b, const mr_blast_event *e, int64_t now_ns, mr_blast_actions *out);
/* Whether a lane is part of the gradient of the evaluation that was just completed. */
bool mr_blast_counts(const mr_blast *b, int lane);

#endif
