/* group/keeper.h -- the process of a group that keeps its roster: dist/group.h carried out by calls.
 *
 * Each member has one call pending here, so the end of its process is noticed at once.  A call is answered after a
 * second at the latest and the member calls again; a member that does not call again counts as gone. */
#ifndef MR_GROUP_KEEPER_H
#define MR_GROUP_KEEPER_H

#include "dist/group.h"
#include "net/net.h"

typedef struct mr_keeper mr_keeper;
/* key: this process's own. */
mr_status *mr_keeper_new(const char *group, uint64_t key, const mr_roster_options *o, mr_keeper **out);
/* Takes over a call of MR_ATTEND_METHOD. */
void mr_keeper_handle(mr_keeper *k, mr_net_call *c);
/* Whether other members attend that have not left. */
bool mr_keeper_has_guests(mr_keeper *k);
/* Pending calls end with UNAVAILABLE.  The caller must hand over no more calls. */
void mr_keeper_free(mr_keeper *k);

#endif
