/* server/master.h -- the master service of a task: sessions of clients, and the steps they ask for.
 *
 * A session has its graph and the devices of the cluster.  A signature seen for the first time is pruned, placed, cut
 * and registered with the tasks that take part; after that a step is one message to each of them. */
#ifndef MR_SERVER_MASTER_H
#define MR_SERVER_MASTER_H

#include "server/host.h"
#include "base/timers.h"

typedef struct mr_master mr_master;
/* gc_ns: sessions that no call has entered for that long are closed, even while steps run; 0: none. */
struct mr_collectives; /* of the same task; they agree on the ids of steps with a graph key */
mr_master *mr_master_new(mr_host *h, mr_timers *timers, int64_t gc_ns, struct mr_collectives *collectives);
/* Closes all sessions and waits for their steps; later calls fail. */
void mr_master_stop(mr_master *m);
void mr_master_free(mr_master *m); /* stopped, no call of it is open */
/* An incarnation of a task has ended: steps that rely on it fail. */
void mr_master_lost(mr_master *m, const mr_task_peers *p, int task);
/* Handles a call of MR_MASTER_SERVICE. */
void mr_master_handle(mr_master *m, mr_net_call *c);

#endif
