/* group/keeper.h -- the process of a group that keeps its roster: dist/group.h carried out by calls.
 *
 * Members wait with it, each by a call of its own: so it hears at once when the process of one ends.  Once a second they are sent
 * away and come again: who does not come is gone too. */
#ifndef MR_GROUP_KEEPER_H
#define MR_GROUP_KEEPER_H

#include "dist/group.h"
#include "net/net.h"

typedef struct mr_keeper mr_keeper;
/* key: of this process. */
mr_status *mr_keeper_new(const char *group, uint64_t key, const mr_roster_options *o, mr_keeper **out);
/* Takes over a call of MR_ATTEND_METHOD. */
void mr_keeper_handle(mr_keeper *k, mr_net_call *c);
/* Others attend, who have not heard that this process leaves. */
bool mr_keeper_has_guests(mr_keeper *k);
/* Who waits is told UNAVAILABLE.  No call is handed over any more. */
void mr_keeper_free(mr_keeper *k);

#endif
