/* server/server.h -- one task of a cluster in this process: a master and a worker service behind one address.
 *
 *     mr_server *s;
 *     MR_TRY(mr_server_new(&def, NULL, &s));
 *     MR_TRY(mr_server_start(s));
 *     ... mr_server_target(s) is "grpc://host:port" ...
 *     mr_server_stop(s);
 *     mr_server_free(s);
 */
#ifndef MR_SERVER_SERVER_H
#define MR_SERVER_SERVER_H

#include "dist/cluster.h"
#include "exec/session.h"
#include "net/naming.h"
#include "net/net.h"
#include "run/cancel.h"

typedef struct mr_server mr_server;

typedef struct mr_server_options {
    mr_net *net; /* of all tasks; NULL: gRPC, and shared memory within a host */
    int64_t lost_ms; /* a task that is silent for that long is lost; 0: 7 seconds */
    int64_t session_gc_ms; /* a session that no call has entered for that long is closed; 0: never */
    const char *zookeeper; /* the naming service, "host:port,host:port/path"; NULL: MILLRACE_ZOOKEEPER; "": none */
    int64_t zookeeper_ms;  /* the timeout of a session with it; 0: MILLRACE_ZOOKEEPER_TIMEOUT_MS, or 4 seconds */
    const char *address;   /* of this task, before that of the cluster; NULL: MILLRACE_ADDRESS */
    mr_naming_open_fn open_naming; /* another naming service in place of ZooKeeper; NULL: ZooKeeper */
    const struct mr_device_sims *simulated; /* devices (exec/device_sim.h); NULL: those of MILLRACE_SIMULATE */
} mr_server_options;

/* INVALID_ARGUMENT if the cluster does not have the task, or has two at one address.  If session_gc_ms is 0,
 * MILLRACE_SESSION_GC_SECONDS is used.  FAILED_PRECONDITION if ZooKeeper is configured and its client is not
 * installed. */
mr_status *mr_server_new(const mr_server_def *def, const mr_server_options *o, mr_server **out);
/* Where a task listens: at the address, else at MILLRACE_ADDRESS, else at its address in the cluster, else at any
 * port of the loopback.  mr_free. */
char *mr_server_place(const char *address, const char *in_cluster);
/* FAILED_PRECONDITION if it was stopped before. */
mr_status *mr_server_start(mr_server *s);
/* Ends sessions and steps, then the listening. */
mr_status *mr_server_stop(mr_server *s);
bool mr_server_runs(mr_server *s); /* started, not stopped */
/* Started, and anyone that reaches its port can run steps as this user. */
bool mr_server_is_plain(mr_server *s);
/* Waits until it is stopped. */
mr_status *mr_server_join(mr_server *s);
/* "grpc://host:port"; where the port is 0, it is known when the server has started. */
const char *mr_server_target(mr_server *s);
void mr_server_free(mr_server *s); /* stops it first; NULL is fine */

/* ---- groups whose members come and go (server/collective_join.c) ---- */

typedef struct mr_join {
    const char *name; /* of the group */
    int worker, n_workers;
    int64_t generation; /* that this worker was in before; 0: none */
    int64_t step;       /* the last step it has state of; -1: it has no state */
    int64_t wait_ms;    /* how long the first generation waits for all workers */
    int64_t settle_ms;  /* how long a later one waits for further workers */
    int64_t deadline_ms; /* for the answer; 0: none */
    mr_cancel *cancel;   /* ends the wait, with CANCELLED; may be NULL */
} mr_join;
typedef struct mr_joined {
    int64_t generation;
    int group_key;          /* of its collectives */
    int size, rank, source; /* source: the rank of the member with the newest state */
} mr_joined;
/* Waits for the next generation and is in it.  Asked of the leader of the cluster's collectives. */
mr_status *mr_server_join_group(mr_server *s, const mr_join *q, mr_joined *out);

/* Whether a server of this process runs at this address, as its target says it. */
bool mr_server_is_here(const char *address);

/* Calls of methods that begin with the prefix ("/package.Service/") go to `handle`, which must not block, until the
 * prefix is unmounted: once mr_server_unmount has returned, handle does not run any more.  handle must answer all
 * calls it got. */
mr_status *mr_server_mount(mr_server *s, const char *prefix, void (*handle)(void *arg, mr_net_call *c), void *arg);
void mr_server_unmount(mr_server *s, const char *prefix);

/* ---- sessions on a cluster (server/remote_session.c) ---- */

/* A session of the master at an address.  net NULL: chosen by the address.  config: a serialized ConfigProto.  The
 * graph is referenced; graph_mu (may be NULL) guards it.  cancel (may be NULL) ends the wait for the cluster to
 * start. */
mr_status *mr_remote_session_new(mr_net *net, const char *address, mr_graph *g, mr_mutex *graph_mu, mr_sv config, mr_cancel *cancel,
                                 mr_session **out);
/* A session of a started server's own master, which does not leave the process. */
mr_status *mr_server_session(mr_server *s, mr_graph *g, mr_mutex *graph_mu, mr_sv config, mr_cancel *cancel, mr_session **out);
/* Reset of the master at an address. */
mr_status *mr_remote_reset(mr_net *net, const char *address, const char *const *containers, int n, int64_t timeout_ms);

#endif
