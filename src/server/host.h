/* server/host.h -- what the services of one task share: the cluster, this task's devices, the routes to its peers.
 *
 * A service handles calls by name.  Handlers run on transport threads and do not block: they answer at once, start a
 * step that answers when it ends, or hand real work to the pool. */
#ifndef MR_SERVER_HOST_H
#define MR_SERVER_HOST_H

#include "dist/membership.h"
#include "exec/env.h"
#include "server/task_peers.h"
#include "base/timers.h"
#include "wire/pb.h"

#define MR_WORKER_SERVICE "/tensorflow.WorkerService/"
#define MR_MASTER_SERVICE "/tensorflow.MasterService/"

struct mr_host {
    mr_task_peers *peers; /* of the cluster it was started with */
    mr_env env;      /* the devices, shared by all sessions that are not isolated */
    mr_pool *pool; /* for calls that take long; not env's, which a step may keep busy for as long as it likes */
    mr_mutex mu;
    mr_task_peers *all MR_GUARDED_BY(mu); /* its own and those of sessions */
    /* Set before mr_host_init: */
    mr_timers *timers;
    mr_membership_times times; /* of heartbeats */
    mr_str default_config;     /* ConfigProto of the ServerDef: merged into that of each session */
    /* Makes the route to a task, under the lock of its cluster (p->mu). */
    mr_status *(*connect)(mr_task_peers *p, int task, mr_net **net, mr_net_peer **out);
    /* An incarnation of a task has ended, or a new one has appeared.  Called by a thread of the pool. */
    void (*incarnation_changed)(void *arg, mr_task_peers *p, int task);
    void *arg; /* of these */
};

/* An id for a step, or for a call that may happen only once: random, never 0. */
int64_t mr_step_id_new(void);

static inline const char *mr_host_name(const mr_host *h) { return mr_task_peers_name(h->peers); }

/* The cluster is copied. */
mr_status *mr_host_init(mr_host *h, const mr_cluster *c, int self, const mr_session_config *config);
void mr_host_deinit(mr_host *h);
/* Closes the routes to all peers: ends all requests, and waits for the pool's work. */
void mr_host_disconnect(mr_host *h);
/* For server/task_peers.c.  mr_host_drop_peers drops a reference; with the last one the pool frees the cluster.
 * True: there is no pool any more, so the caller has to free it. */
void mr_host_add_peers(mr_host *h, mr_task_peers *p);
bool mr_host_drop_peers(mr_host *h, mr_task_peers *p);

/* ---- a call answered from a message and by a message ---- */

/* Ends a call with a serialized message (taken over) or an error (taken over). */
void mr_reply_str(mr_net_call *c, mr_status *st, mr_str *body);
void mr_reply(mr_net_call *c, mr_status *st, mr_bytes *body);

typedef struct mr_method {
    const char *name; /* behind the service */
    void (*handle)(void *service, mr_net_call *c, mr_sv body);
    bool heavy; /* done by the pool */
} mr_method;
/* The body is made flat first.  UNIMPLEMENTED for an unknown name. */
void mr_dispatch(mr_host *h, const mr_method *methods, int n, const char *prefix, void *service, mr_net_call *c);

/* ---- devices of other tasks (server/devices.c) ---- */

/* Field { DeviceAttributes }. */
void mr_device_attributes_encode(const mr_device *d, mr_pb_writer *w, uint32_t field);
/* A device to place nodes on and to name; nothing runs on it here.  mr_device_free.  NULL if its type is not the one
 * in its name. */
mr_status *mr_device_attributes_decode(mr_sv attributes, mr_device **out);
/* The same as a device of that task. */
mr_status *mr_device_attributes_decode_as(mr_sv attributes, const char *task, mr_device **out);

#endif
