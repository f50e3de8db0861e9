/* dist/downpour.h -- one replica of Downpour SGD (Dean et al., 2012): when to fetch, to compute and to push.
 *
 * Pure: events in, actions out.  A replica computes one gradient after the other.  Every n_fetch steps it asks the
 * parameter server for newer parameters, every n_push steps it pushes the gradients it has accrued.  Both happen in the
 * background, and parameters that arrive take effect before the next step.  Replicas do not know of each other and
 * never wait for each other.
 *
 * At most one fetch and one push are in progress.  While a server fails over they take longer; the replica computes on,
 * with older parameters, and accrues more, until it is most_behind steps ahead of what the servers have answered.  So
 * every gradient is pushed exactly once, and the staleness of parameters is bounded.
 *
 * Warm start: the first replica trains alone for warm_steps.  The others watch how many steps the job has made.  If
 * that number does not rise for patience_ns, the second replica begins, after twice that the third: a first replica
 * that died does not stop the others. */
#ifndef MR_DIST_DOWNPOUR_H
#define MR_DIST_DOWNPOUR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

typedef struct mr_downpour_rules {
    int64_t n_fetch, n_push; /* at least 1 */
    int64_t most_behind;     /* steps */
    int replica;             /* 0: the first, which warms up */
    int64_t warm_steps;      /* 0: all begin together */
    int64_t patience_ns;
} mr_downpour_rules;

typedef enum mr_downpour_event {
    MR_DOWNPOUR_BEGIN,    /* the first event */
    MR_DOWNPOUR_PROGRESS, /* the answer to WATCH: the job has made `value` steps */
    MR_DOWNPOUR_WANT,     /* the client has data for a step */
    MR_DOWNPOUR_FETCHED,
    MR_DOWNPOUR_STEPPED,  /* the gradient of the step was added to the accrued ones */
    MR_DOWNPOUR_UNDONE,   /* the step failed without a gradient */
    MR_DOWNPOUR_PUSHED,
    MR_DOWNPOUR_FINISH,   /* no more steps are wanted */
} mr_downpour_event;

typedef enum mr_downpour_do {
    MR_DOWNPOUR_WATCH,   /* ask how many steps the job has made, some milliseconds from now */
    MR_DOWNPOUR_FETCH,   /* begin to pull, into other memory than the parameters in use */
    MR_DOWNPOUR_INSTALL, /* use the parameters that were fetched last */
    MR_DOWNPOUR_STEP,    /* compute a gradient */
    MR_DOWNPOUR_PUSH,    /* begin to push the accrued gradients, of `steps` steps, and accrue from zero */
    MR_DOWNPOUR_END,     /* everything was pushed, and nothing is in progress */
} mr_downpour_do;

typedef struct mr_downpour_action {
    mr_downpour_do what;
    int64_t steps;
} mr_downpour_action;
typedef MR_VEC(mr_downpour_action) mr_downpour_actions;

typedef struct mr_downpour_plan {
    mr_downpour_rules o;
    int64_t steps;            /* made */
    int64_t accrued, on_way;  /* steps whose gradients are not pushed yet, and those in the push in progress */
    int64_t asked_at;         /* the step before which the newest fetch was begun */
    int64_t progress, progress_ns; /* steps of the job, and when their number last rose */
    bool warm, ready;         /* may begin; has parameters */
    bool fetching, arrived;   /* a fetch is in progress; one waits to be installed */
    bool wanted, computing, pushing, finishing, ended;
} mr_downpour_plan;

void mr_downpour_init(mr_downpour_plan *d, const mr_downpour_rules *o);
/* Handles an event; appends the actions in the order in which they must be done.  Only PROGRESS uses `value`. */
void mr_downpour_step(mr_downpour_plan *d, mr_downpour_event e, int64_t value, int64_t now_ns, mr_downpour_actions *out);
/* Whether the replica waits only because it is too far ahead of the servers. */
bool mr_downpour_waits(const mr_downpour_plan *d);

/* ---- shards ---- */

/* Where the i-th of n pieces of `total` begins: pieces differ by one at most. */
static inline int64_t mr_downpour_cut(int64_t total, int64_t n, int64_t i)
{
    return total / n * i + (total % n < i ? total % n : i);
}

#endif
