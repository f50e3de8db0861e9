/* server/collective.h -- collective ops between devices of the tasks of a cluster.
 *
 * The members of a group find each other through the leader of the cluster's collectives (CompleteGroup, decided in
 * dist/groups.h), which numbers each formation of a group: the communicator.  The n-th exchange of an instance in a
 * communicator is the same for all members, whatever ids their steps have.  Each member fetches its data from the
 * others (RecvBuf), in pieces.
 *
 * A member that fails in an exchange breaks the communicator: all members are told which member and why
 * (AbortCollective, which TensorFlow does not have), end their exchanges in it, and ask the leader again before the
 * next one.  So all members agree again after every failure. */
#ifndef MR_SERVER_COLLECTIVE_H
#define MR_SERVER_COLLECTIVE_H

#include "run/collective.h"
#include "server/host.h"
#include "server/server.h"

struct mr_worker_service;
struct mr_wsession;

typedef struct mr_collectives mr_collectives; /* of one task */

mr_collectives *mr_collectives_new(struct mr_worker_service *w);
/* Ends all exchanges and all waiting calls; nothing begins any more. */
void mr_collectives_stop(mr_collectives *c, const mr_status *why);
void mr_collectives_free(mr_collectives *c); /* stopped, and no session is left */
/* ConfigProto.experimental.collective_group_leader; "" (as at first): the first ps, chief, worker or task of the
 * cluster. */
void mr_collectives_set_leader(mr_collectives *c, mr_sv task);
/* An incarnation of a task has ended. */
void mr_collectives_lost(mr_collectives *c, const mr_task_peers *p, int task);

/* Calls of the worker service. */
void mr_collectives_complete_group(mr_collectives *c, mr_net_call *call, mr_sv body);
void mr_collectives_complete_instance(mr_collectives *c, mr_net_call *call, mr_sv body);
void mr_collectives_abort(mr_collectives *c, mr_net_call *call, mr_sv body);
void mr_collectives_join(mr_collectives *c, mr_net_call *call, mr_sv body);
void mr_collectives_get_step_sequence(mr_collectives *c, mr_net_call *call, mr_sv body);

/* ---- collective_steps.c: ids of steps that several masters share (RunOptions' collective_graph_key) ---- */
/* Calls done with the next id, perhaps before this returns: the leader chooses the first id of a key, and from then on
 * each task counts by itself. */
void mr_collectives_next_step(mr_collectives *c, int64_t graph_key, void (*done)(void *ctx, mr_status *st, int64_t id), void *ctx);
/* The step is over.  If it is not the one that was next, this task asks the leader again. */
void mr_collectives_retire_step(mr_collectives *c, int64_t graph_key, int64_t id);
/* True: the buffer is one of a collective, and the call will be answered when it exists. */
bool mr_collectives_recv_buf(mr_collectives *c, mr_net_call *call, mr_sv body);

/* Asks the leader, and waits.  The answer is an mr_joined of server.h. */
mr_status *mr_collectives_ask_to_join(mr_collectives *c, const mr_join *q, mr_joined *out);

/* What a worker's session has. */
typedef struct mr_session_collective {
    mr_collective base; /* first */
    struct mr_wsession *session; /* it is part of that */
    mr_mutex mu;
    char *leader MR_GUARDED_BY(mu); /* of its collectives; NULL: as the task says */
} mr_session_collective;
void mr_session_collective_init(mr_session_collective *c, struct mr_wsession *s);
void mr_session_collective_deinit(mr_session_collective *c);
/* What a ConfigProto (may be empty) says of the leader. */
mr_status *mr_session_collective_configure(mr_session_collective *c, mr_sv config);
/* The session is closed: groups it has last worked in are broken, so that nobody waits for it. */
void mr_collectives_session_closed(mr_collectives *c, struct mr_wsession *s);

#endif
