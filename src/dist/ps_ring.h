/* dist/ps_ring.h -- which servers a slot should be at: consistent hashing with virtual nodes and bounded loads.
 *
 * Every server has many points on a ring; a slot prefers the servers in the order in which a walk from its own point
 * meets them.  That alone balances badly (a third more or less is usual), so loads are bounded: nobody is head of more
 * than R / n slots rounded up, nor of fewer than R / n rounded down.  Tight bounds on a ring let one arrival push
 * others along in a long row; therefore the present heads are looked at too: who is head and within its bound stays,
 * and only what is too much moves, to those who have too little.  So a join moves R / (n + 1) slots, a leave what the
 * server had, and no more.  The same goes for the other members, nearly: k must be distinct.
 *
 * Deterministic: the same servers, slots and heads give the same answer everywhere. */
#ifndef MR_DIST_PS_RING_H
#define MR_DIST_PS_RING_H

#include "dist/ps_view.h"

/* order[slot * k + i]: the server that should be at place i of that slot's chain; k <= n.  now (may be NULL): the
 * slots as they are: members that are not among the servers count for nothing, lost slots are left out (their places
 * are 0). ids are n distinct servers in rising order; no pointer of the answer is kept. */
mr_status *mr_ps_ring_deal(const uint64_t *ids, int n, int num_slots, int k, const mr_ps_slot *now, uint64_t *order);

#endif
