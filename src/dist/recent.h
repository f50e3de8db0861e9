/* dist/recent.h -- the newest numbers of some kind: steps that are over, requests that were seen.
 *
 * A call that is tracked by a request id happens once, however often it comes: transports retry. */
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
/* The oldest one is forgotten for it.  0 is no number. */
void mr_recent_add(mr_recent *r, uint64_t id);
/* A request comes (0: not tracked).  ABORTED when it came before. */
mr_status *mr_recent_once(mr_recent *r, int64_t request_id);

/* Ids come from outside: mixed, so that none are made to collide in a table for numbers of our own. */
static inline uint64_t mr_id_mixed(uint64_t id)
{
    id ^= id >> 33;
    id *= 0xff51afd7ed558ccdu;
    id ^= id >> 33;
    return id;
}

#endif
