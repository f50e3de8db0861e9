/* exec/partial_use.h -- which feeds and fetches a partial run has used, and which it may use next.
 *
 * A setup names all feeds and fetches. Each is used once, by one of the calls that follow. A fetch may be
 * requested once all feeds it depends on have been fed. */
#ifndef MR_EXEC_PARTIAL_USE_H
#define MR_EXEC_PARTIAL_USE_H

#include "passes/passes.h"

typedef struct mr_partial_use {
    const mr_run_signature *sig; /* of the setup; borrowed */
    bool *fed, *fetched;     /* by position in it */
} mr_partial_use;

typedef struct mr_partial_call { /* what one call names */
    const mr_out *feeds, *fetches;
    int n_feeds, n_fetches;
} mr_partial_call;

void mr_partial_use_init(mr_partial_use *u, const mr_run_signature *sig);
void mr_partial_use_deinit(mr_partial_use *u);
/* Checks that everything in the call was named in the setup and was not used before. INVALID_ARGUMENT. */
mr_status *mr_partial_use_check(const mr_partial_use *u, const mr_partial_call *c);
/* Checks that the fetches can be computed from the feeds so far and those of the call. The graph must not change
 * meanwhile. */
mr_status *mr_partial_use_follow(const mr_partial_use *u, const mr_graph *g, const mr_partial_call *c);
/* Marks what the call names as used. */
void mr_partial_use_mark(mr_partial_use *u, const mr_partial_call *c);
/* True if everything has been used: that was the last call. */
bool mr_partial_use_all(const mr_partial_use *u);

/* The position of an output among n; -1: not among them. */
int mr_outs_find(const mr_out *o, int n, mr_out want);

#endif
