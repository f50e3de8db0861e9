/* group/roster_server.h -- the process of a group that keeps its roster: dist/group.h carried out by calls.
 *
 * Each member has one call pending here, so the end of its process is noticed at once.  A call is answered after a
 * second at the latest and the member calls again; a member that does not call again counts as gone. */
#ifndef MR_GROUP_ROSTER_SERVER_H
#define MR_GROUP_ROSTER_SERVER_H

#include "dist/group.h"
#include "net/net.h"

typedef struct mr_roster_server mr_roster_server;
/* key: identifies this process in the group. */
mr_status *mr_roster_server_new(const char *group, uint64_t key, const mr_roster_options *o, mr_roster_server **out);
/* Takes over a call of MR_ATTEND_METHOD. */
void mr_roster_server_handle(mr_roster_server *k, mr_net_call *c);
/* Whether other members attend that have not left. */
bool mr_roster_server_has_guests(mr_roster_server *k);
/* Pending calls end with UNAVAILABLE.  The caller must hand over no more calls. */
void mr_roster_server_free(mr_roster_server *k);

#endif
