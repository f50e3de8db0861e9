/* dist/downpour.h -- one replica of Downpour SGD (Dean et al., 2012): when to fetch, to compute and to push.
 *
 * Pure: events in, actions out.  A replica computes gradients one after the other.  Every n_fetch steps it asks the
 * parameter server for newer parameters, every n_push steps it pushes the gradients it has accrued; both travel beside the
 * computing, and what arrives takes effect before the next step.  No replica knows of another: nothing here waits for one.
 *
 * At most one fetch and one push are under way.  While a server fails over they take longer; the replica computes on, with
 * older parameters and accruing more, until it is most_behind steps ahead of what the servers have answered.  So every
 * gradient is pushed once, in one push or a later one, and how stale parameters may be is bounded.
 *
 * Warm start: the first replica trains alone for warm_steps.  The others look at how many steps the job has made; when
 * that stands still for patience_ns, the second one begins, after twice that the third: a first replica that died holds
 * nobody up for ever. */
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
    MR_DOWNPOUR_BEGIN,    /* first of all */
    MR_DOWNPOUR_PROGRESS, /* the answer to WATCH: the job has made so many steps */
    MR_DOWNPOUR_WANT,     /* the client has data for a step */
    MR_DOWNPOUR_FETCHED,
    MR_DOWNPOUR_STEPPED,  /* its gradient has been added to the accrued ones */
    MR_DOWNPOUR_UNDONE,   /* the step failed, and gave no gradient */
    MR_DOWNPOUR_PUSHED,
    MR_DOWNPOUR_FINISH,   /* no more steps are wanted */
} mr_downpour_event;

typedef enum mr_downpour_do {
    MR_DOWNPOUR_WATCH,   /* ask how many steps the job has made, some milliseconds from now */
    MR_DOWNPOUR_FETCH,   /* begin to pull, beside the parameters in use */
    MR_DOWNPOUR_INSTALL, /* what was fetched last are the parameters now */
    MR_DOWNPOUR_STEP,    /* compute a gradient */
    MR_DOWNPOUR_PUSH,    /* begin to push all accrued gradients, and accrue from zero; `steps` of them */
    MR_DOWNPOUR_END,     /* all has been pushed, nothing is under way */
} mr_downpour_do;

typedef struct mr_downpour_action {
    mr_downpour_do what;
    int64_t steps;
} mr_downpour_action;
typedef MR_VEC(mr_downpour_action) mr_downpour_actions;

typedef struct mr_downpour_plan {
    mr_downpour_rules o;
    int64_t steps;            /* made */
    int64_t accrued, on_way;  /* steps whose gradients are not pushed yet, and those in the push under way */
    int64_t asked_at;         /* the step before which the newest fetch was begun */
    int64_t progress, progress_ns; /* of the job, and when it was seen to rise */
    bool warm, ready;         /* may begin; has parameters */
    bool fetching, arrived;   /* a fetch is under way; one waits to be installed */
    bool wanted, computing, pushing, finishing, ended;
} mr_downpour_plan;

void mr_downpour_init(mr_downpour_plan *d, const mr_downpour_rules *o);
/* What follows from an event; actions are in the order in which they are to be done.  `value` counts for PROGRESS only. */
void mr_downpour_step(mr_downpour_plan *d, mr_downpour_event e, int64_t value, int64_t now_ns, mr_downpour_actions *out);
/* Whether the replica would compute, were it not too far ahead of the servers. */
bool mr_downpour_waits(const mr_downpour_plan *d);

/* ---- shards ---- */

/* Where the i-th of n pieces of `total` begins: pieces differ by one at most. */
static inline int64_t mr_downpour_cut(int64_t total, int64_t n, int64_t i)
{
    return total / n * i + (total % n < i ? total % n : i);
}

#endif
