/* dist/ps_ring.h -- which servers should hold a range: consistent hashing with virtual nodes and
 * bounded loads.
 *
 * Every server has many points on a ring. A range prefers the servers in the order in which a walk
 * from its own point meets them. That alone balances badly (a third more or less is usual), so
 * loads are bounded: a server is head of at most R / n ranges rounded up, and at least R / n rounded
 * down. With tight bounds on a ring one arrival can push others along in a long row. Therefore the
 * present heads matter too: a head within its bound stays, and only the surplus moves, to servers
 * that have too few. So a join moves R / (n + 1) ranges, a leave moves what the server had, and no
 * more. Nearly the same holds for the other members, which must be k distinct servers.
 *
 * Deterministic: the same servers, ranges and heads give the same answer everywhere. */
#ifndef MR_DIST_PS_RING_H
#define MR_DIST_PS_RING_H

#include "dist/ps_view.h"

/* order[range * k + i] becomes the server at place i of that range's chain; k <= n. now (may be NULL): the present
 * ranges; members that are not among the servers are ignored, and lost ranges are left out (their places are 0). ids: n
 * distinct servers in rising order. No pointer is kept. */
mr_status *mr_ps_ring_deal(const uint64_t *ids, int n, int num_ranges, int k, const mr_ps_range *now, uint64_t *order);

#endif
