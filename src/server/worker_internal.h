/* server/worker_internal.h -- the inside of the worker service; for its own files. */
#ifndef MR_SERVER_WORKER_INTERNAL_H
#define MR_SERVER_WORKER_INTERNAL_H

#include "dist/session.h"
#include "dist/worker_steps.h"
#include "server/collective.h"
#include "server/retries.h"
#include "server/remote_call.h"
#include "server/transfers.h"
#include "server/watch.h"
#include "server/worker.h"

/* A field of RunGraphRequest that TensorFlow does not know and ignores: how many function calls the step is nested in.
 * So functions that call each other across tasks without end are stopped like those of one task. */
enum { MR_RUN_GRAPH_DEPTH = 1000 };

/* What a master's session has here. */
typedef struct mr_wsession {
    mr_refs refs; /* the table's, of graphs and of steps */
    mr_worker_service *worker;
    mr_task_peers *peers; /* the host's, or of a cluster that the master brought */
    char *handle;    /* "": of masters that do not create worker sessions */
    char *prefix;    /* of this task's devices in it: "/job:w/replica:0/task:0/" */
    int master;      /* its task, which is watched while the session is in the table; -1: not one of the cluster */
    mr_env env;   /* devices of the host, or isolated ones */
    mr_remote_calls remote;
    mr_session_collective collective;
    mr_status *ended; /* why; under the worker's lock */
    struct mr_wsession *next, *prev; /* of all that are not freed, in the table or not; under the worker's lock */
    bool held_ended;                 /* mr_functions_end was called; under the worker's lock */
    _Atomic int to_drop;             /* references that the pool has to drop */
    mr_task dropping;
} mr_wsession;

/* A registered graph. */
typedef struct mr_wgraph {
    mr_refs refs; /* the table's, and of steps that run it */
    mr_wsession *session;
    mr_program *program;
    struct mr_wgraph *next; /* of those to be freed */
} mr_wgraph;

typedef struct mr_wreceive mr_wreceive;
typedef struct mr_wcall mr_wcall; /* of a function, at another task */

/* A step, from the first message about it until it is cleaned up.  A flow that was cancelled may keep the rendezvous
 * after nobody else works on the step, and may still report its end to it: so the memory is freed with the
 * rendezvous. */
typedef struct mr_worker_run {
    mr_refs refs; /* the table's, and of each call that works on it */
    mr_worker_service *worker;
    int64_t id;
    mr_rendezvous *rendezvous;
    mr_wsession *session; /* once begun, before anything of it runs; a reference */
    mr_mutex mu;
    mr_wreceive *receives MR_GUARDED_BY(mu); /* under way from other tasks */
    mr_status *aborted MR_GUARDED_BY(mu);
    struct mr_worker_flow *partial MR_GUARDED_BY(mu); /* its flow, while it is fed piece by piece */
    bool closed MR_GUARDED_BY(mu); /* the last piece has arrived, or the step has ended: there is no further flow */
} mr_worker_run;

struct mr_worker_service {
    mr_host *host;
    mr_mutex mu;
    mr_worker_sessions sessions MR_GUARDED_BY(mu); /* their hosts are mr_wsession */
    mr_map graphs MR_GUARDED_BY(mu);   /* handle -> mr_wgraph */
    mr_worker_steps *steps MR_GUARDED_BY(mu);
    uint64_t next_graph MR_GUARDED_BY(mu);
    mr_status *stopped MR_GUARDED_BY(mu); /* why nothing runs any more */
    mr_wgraph *unused MR_GUARDED_BY(mu); /* to be freed by a thread that is not inside a cancellation */
    mr_wsession *all MR_GUARDED_BY(mu);  /* not referenced */
    _Atomic int n_sessions; /* that are not freed, in the table or not */
    mr_cond session_gone;
    _Atomic uint64_t next_request;
    mr_transfers transfers;
    mr_collectives *collectives;
    mr_retries retries;
    mr_mutex calls_mu;
    mr_wcall *calls MR_GUARDED_BY(calls_mu);
    int64_t skew_ns; /* of its clock, in tests */
};

/* ---- worker.c ---- */
/* A reference.  ABORTED if there is no such graph, or (session not NULL) it belongs to another session: each
 * incarnation of a task counts its handles from 0. */
mr_status *mr_wgraph_find(mr_worker_service *w, mr_sv handle, const mr_sv *session, mr_wgraph **out);
void mr_wgraph_unref(mr_wgraph *g);
void mr_wsession_unref(mr_wsession *s);

/* ---- worker_step.c ---- */
/* The step of this id, made if it is new; a reference.  ABORTED if it is over, or has begun before.  piece: the call is
 * one of several of a partial run, which may have begun. */
mr_status *mr_worker_run_begin(mr_worker_service *w, int64_t id, int64_t request_id, bool piece, mr_wsession *owner,
                          mr_worker_run **out);
void mr_worker_run_unref(mr_worker_run *s);
/* Takes a step out of the table and fails its rendezvous and its flow.  Takes why. */
void mr_worker_run_end(mr_worker_service *w, int64_t id, mr_status *why);
void mr_worker_recv_tensor(void *service, mr_net_call *c, mr_sv body);
void mr_worker_recv_buf(void *service, mr_net_call *c, mr_sv body);
/* Ends receives from incarnations of a task that have ended. */
void mr_worker_runs_lost(mr_worker_service *w, const mr_task_peers *p, int task);
void mr_worker_cleanup_graph(void *service, mr_net_call *c, mr_sv body);

/* ---- worker_run.c ---- */
void mr_worker_flow_unref(struct mr_worker_flow *p);
/* The step has ended, so its flow has to end, too.  Takes the reference; NULL is fine. */
void mr_worker_flow_end(struct mr_worker_flow *p, const mr_status *why);
void mr_worker_handle_run_graph(void *service, mr_net_call *c, mr_sv body);

#endif
