/* server/host.h -- what the services of one task share: the cluster, this task's devices, the ways to its peers.
 *
 * A service handles calls by name.  Handlers run on transport threads and do not block: they answer at once, start a step
 * that answers when it ends, or hand real work to the pool. */
#ifndef MR_SERVER_HOST_H
#define MR_SERVER_HOST_H

#include "dist/cluster.h"
#include "exec/env.h"
#include "net/net.h"
#include "wire/pb.h"

#define MR_WORKER_SERVICE "/tensorflow.WorkerService/"
#define MR_MASTER_SERVICE "/tensorflow.MasterService/"

typedef struct mr_watch mr_watch; /* server/watch.h */

typedef struct mr_host {
    mr_cluster cluster;
    int self;     /* this task in the cluster */
    mr_env env;   /* the devices, shared by all sessions that are not isolated */
    mr_pool *pool; /* for calls that take long; not env's, which a step may keep busy for as long as it likes */
    mr_net_peer **peers; /* by task, made at the first use */
    mr_net **nets;       /* of each peer */
    mr_mutex mu;
    mr_watch *watch; /* over the peers */
    /* Makes the way to a task. */
    mr_status *(*connect)(struct mr_host *h, int task, mr_net **net, mr_net_peer **out);
    void *arg; /* of connect */
} mr_host;

static inline const char *mr_host_name(const mr_host *h) { return h->cluster.tasks.p[h->self].name; }

/* The cluster is copied. */
mr_status *mr_host_init(mr_host *h, const mr_cluster *c, int self, const mr_session_config *config);
void mr_host_deinit(mr_host *h);
/* Closes the ways to all peers; requests under way end. */
void mr_host_disconnect(mr_host *h);
/* Marks the tasks (by their number) that a device filter lets through: a device of theirs could match it. */
mr_status *mr_host_filter(const mr_host *h, mr_sv filter, bool *marked);
/* Starts a request to a task; done is called in any case. */
void mr_host_ask(mr_host *h, int task, mr_net_request *r);
void mr_host_cancel(mr_host *h, int task, mr_net_request *r);

/* ---- a call answered from a message and by a message ---- */

/* Ends a call with a serialized message (taken over) or an error (taken over). */
void mr_reply_str(mr_net_call *c, mr_status *st, mr_str *body);
void mr_reply(mr_net_call *c, mr_status *st, mr_bytes *body);

typedef struct mr_method {
    const char *name; /* behind the service */
    void (*handle)(void *service, mr_net_call *c, mr_sv body);
    bool heavy; /* done by the pool */
} mr_method;
/* The body is made flat first.  UNIMPLEMENTED for a name that is not there. */
void mr_dispatch(mr_host *h, const mr_method *methods, int n, const char *prefix, void *service, mr_net_call *c);

/* ---- devices of other tasks (server/devices.c) ---- */

/* Field { DeviceAttributes }. */
void mr_device_attributes_encode(const mr_device *d, mr_pb_writer *w, uint32_t field);
/* A device to place nodes on and to name; nothing runs on it here.  mr_device_free. */
mr_status *mr_device_attributes_decode(mr_sv attributes, mr_device **out);

#endif
