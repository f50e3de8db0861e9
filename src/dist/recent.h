/* dist/recent.h -- a set of the newest numbers of some kind: steps that are over, requests that were seen.
 *
 * A call with a request id takes effect once, even if a transport repeats it. */
#ifndef MR_DIST_RECENT_H
#define MR_DIST_RECENT_H

#include "base/map.h"

enum { MR_RECENT_REMEMBERED = 4096 };

typedef struct mr_recent {
    mr_imap set;
    uint64_t ring[MR_RECENT_REMEMBERED];
    int at;
} mr_recent;

void mr_recent_deinit(mr_recent *r);
bool mr_recent_has(const mr_recent *r, uint64_t id);
/* Forgets the oldest number if the set is full.  0 is ignored. */
void mr_recent_add(mr_recent *r, uint64_t id);
/* Records a request (0: not tracked).  ABORTED if it was seen before. */
mr_status *mr_recent_once(mr_recent *r, int64_t request_id);

/* Ids come from peers. They are mixed, so that a peer cannot easily choose ids that collide in the hash table. */
static inline uint64_t mr_id_mixed(uint64_t id)
{
    id ^= id >> 33;
    id *= 0xff51afd7ed558ccdu;
    id ^= id >> 33;
    return id;
}

#endif
