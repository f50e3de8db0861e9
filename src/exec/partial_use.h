/* exec/partial_use.h -- what a partial run has used of its feeds and fetches, and what it may use next.
 *
 * A setup names all feeds and fetches; each is used once, by one of the calls that follow.  A fetch may be asked for when
 * all feeds it depends on have been fed. */
#ifndef MR_EXEC_PARTIAL_USE_H
#define MR_EXEC_PARTIAL_USE_H

#include "passes/passes.h"

typedef struct mr_partial_use {
    const mr_signature *sig; /* of the setup; borrowed */
    bool *fed, *fetched;     /* by position in it */
} mr_partial_use;

typedef struct mr_partial_call { /* what one call names */
    const mr_out *feeds, *fetches;
    int n_feeds, n_fetches;
} mr_partial_call;

void mr_partial_use_init(mr_partial_use *u, const mr_signature *sig);
void mr_partial_use_deinit(mr_partial_use *u);
/* Whether all was named and none was used.  INVALID_ARGUMENT. */
mr_status *mr_partial_use_check(const mr_partial_use *u, const mr_partial_call *c);
/* Whether the fetches follow from the feeds so far and those of the call.  The graph is not changed meanwhile. */
mr_status *mr_partial_use_follow(const mr_partial_use *u, const mr_graph *g, const mr_partial_call *c);
/* The call is made. */
void mr_partial_use_mark(mr_partial_use *u, const mr_partial_call *c);
/* Nothing is left: it was the last call. */
bool mr_partial_use_all(const mr_partial_use *u);

/* The position of an output among n; -1. */
int mr_outs_find(const mr_out *o, int n, mr_out want);

#endif
