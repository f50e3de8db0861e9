/* dist/recent.c -- the newest numbers of some kind.
 *
 * The ring holds the numbers in the order in which they came, the set holds the same numbers. */
#include "dist/recent.h"

void mr_recent_deinit(mr_recent *r) { mr_imap_deinit(&r->set); }

bool mr_recent_has(const mr_recent *r, uint64_t id) { return mr_imap_get(&r->set, mr_id_mixed(id)) != NULL; }

/* The oldest number makes room for the new one. */
void mr_recent_add(mr_recent *r, uint64_t id)
{
    if (id == 0 || mr_recent_has(r, id))
        return;
    if (r->ring[r->at])
        mr_imap_remove(&r->set, mr_id_mixed(r->ring[r->at]));
    MR_ASSERT(r->at >= 0 && r->at < MR_RECENT_REMEMBERED && r->set.n < MR_RECENT_REMEMBERED);
    r->ring[r->at] = id;
    r->at = (r->at + 1) % MR_RECENT_REMEMBERED;
    mr_imap_put(&r->set, mr_id_mixed(id), r);
}

mr_status *mr_recent_once(mr_recent *r, int64_t request_id)
{
    if (request_id == 0)
        return NULL;
    if (mr_recent_has(r, (uint64_t)request_id))
        return mr_error(MR_ABORTED, "The same request (id %lld) was received twice", (long long)request_id);
    mr_recent_add(r, (uint64_t)request_id);
    return NULL;
}
