/* server/task_peers.h -- the tasks of a cluster as one of them sees it: their names, the routes to them, and a watch
 * over them.
 *
 * A host has those of the cluster it was started with.  A session may bring another cluster
 * (ConfigProto.cluster_def): then all tasks have other names in it, this one too.
 *
 * A naming service (net/naming.h), if there is one, reports the addresses of the host's own cluster, and reports a
 * new one when a task was started elsewhere: then a new route is made.  A task is looked up when it is first called. */
#ifndef MR_SERVER_TASK_PEERS_H
#define MR_SERVER_TASK_PEERS_H

#include "base/pool.h"
#include "base/thread.h"
#include "base/timers.h"
#include "dist/cluster.h"
#include "net/naming_book.h"
#include "net/net.h"

typedef struct mr_host mr_host;
typedef struct mr_watch mr_watch; /* server/watch.h */

typedef struct mr_route { /* to a task's present or former address */
    mr_net *net;
    mr_net_peer *peer;
    _Atomic int starting; /* requests that are about to be started on it */
} mr_route;

typedef struct mr_task_peers {
    mr_refs refs;
    mr_host *host;
    mr_cluster cluster;
    int self;        /* this task in the cluster */
    bool brought;    /* by a session: its names are not those that the tasks were started with */
    mr_watch *watch; /* over the tasks */
    mr_mutex mu;
    mr_route **routes MR_GUARDED_BY(mu); /* by task, made at the first use */
    bool closed MR_GUARDED_BY(mu);
    bool named MR_GUARDED_BY(mu);        /* a naming service reports the addresses, not the cluster's spec */
    mr_naming *naming MR_GUARDED_BY(mu); /* that service; NULL: there is none, or it is closed */
    mr_book book MR_GUARDED_BY(mu);      /* what it has reported */
    char *unreachable
        MR_GUARDED_BY(mu); /* why the service has been unreachable for long; NULL: it is reachable, or was recently */
    bool *watched MR_GUARDED_BY(mu);     /* by task: it was looked up */
    struct mr_unresolved_request *
        unresolved MR_GUARDED_BY(mu);           /* requests that wait for an address (server/unresolved.c) */
    mr_cond started;                            /* an unresolved request has ended or was started */
    mr_net_request *pending MR_GUARDED_BY(mu); /* all that are not answered (server/pending.c) */
    mr_timer pending_timer;
    struct mr_task_peers *next, **link; /* of the host's, under its lock */
    mr_task parting;                 /* of the host's pool, at the end */
} mr_task_peers;

/* The largest cluster_def that a session may bring.  It has room for thousands of tasks; the memory that is kept for
 * each task is many times its size there. */
enum { MR_BROUGHT_MAX_BYTES = 128 << 10 };

/* The cluster is copied. */
mr_status *mr_task_peers_new(mr_host *h, const mr_cluster *c, int self, bool brought, mr_task_peers **out);
mr_task_peers *mr_task_peers_ref(mr_task_peers *p);
/* From any thread: the last reference lets the host's pool free it. */
void mr_task_peers_unref(mr_task_peers *p);
/* Ends all requests and refuses new ones.  Not from a callback. */
void mr_task_peers_close(mr_task_peers *p);

static inline const mr_task_address *mr_task_peers_task(const mr_task_peers *p, int task) { return &p->cluster.tasks.p[task]; }
/* Of this task. */
static inline const char *mr_task_peers_name(const mr_task_peers *p) { return p->cluster.tasks.p[p->self].name; }

/* Starts a request to a task; done is called in any case. */
void mr_task_peers_ask(mr_task_peers *p, int task, mr_net_request *r);
void mr_task_peers_cancel(mr_task_peers *p, int task, mr_net_request *r);
/* Appends a task's address, for messages; true: a naming service reports addresses, so it may be out of date. */
bool mr_task_peers_where(mr_task_peers *p, int task, mr_str *out);
/* How often a task has moved: requests to its former address end CANCELLED, and can be made again. */
int mr_task_peers_moves(mr_task_peers *p, int task);
/* From now on the service reports where tasks are, by mr_task_peers_found; NULL: it does not any more. */
void mr_task_peers_name_by(mr_task_peers *p, mr_naming *n);
void mr_task_peers_found(void *peers, int task, mr_sv value);
/* The service has been unreachable for longer than its deadline: requests that wait for an address fail with this
 * reason.  NULL: it is reachable again. */
void mr_task_peers_unreachable(void *peers, const char *why);
/* For the host's connect: the address to call. */
const char *mr_task_peers_address_locked(const mr_task_peers *p, int task) MR_REQUIRES(p->mu);
/* Marks the tasks (by their number) that a device filter lets through: a device of theirs could match it. */
mr_status *mr_task_peers_filter(const mr_task_peers *p, mr_sv filter, bool *marked);

#endif
