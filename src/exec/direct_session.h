/* exec/direct_session.h -- the inside of the session that runs in this process; for its own files.
 */
#ifndef MR_EXEC_DIRECT_SESSION_H
#define MR_EXEC_DIRECT_SESSION_H

#include "exec/env.h"
#include "exec/placing.h"
#include "exec/signature.h"

typedef struct mr_partial_run mr_partial_run;

typedef struct mr_direct {
    mr_session base;
    mr_refs refs; /* its owner's, and of whoever resets all sessions */
    mr_env env;
    mr_graph *graph;
    mr_mutex *graph_mu; /* NULL: nobody else touches the graph */
    _Atomic bool closed;
    mr_mutex making; /* one program at a time; outside of mu */
    mr_placements placements MR_GUARDED_BY(making);
    mr_placements told MR_GUARDED_BY(making); /* in the log */
    mr_mutex mu;
    mr_cond idle; /* n_running fell to 0 */
    int n_running MR_GUARDED_BY(mu);
    mr_signatures exact, sorted MR_GUARDED_BY(mu);
    MR_VEC(mr_signatures) former MR_GUARDED_BY(mu); /* of earlier placements: runs may still be in their programs */
    mr_placing *placing; /* NULL: not by cost */
    MR_VEC(mr_program *) programs MR_GUARDED_BY(mu);
    mr_map partial_runs MR_GUARDED_BY(mu); /* handle -> mr_partial_run * */
    int64_t next_handle MR_GUARDED_BY(mu);
    struct mr_direct *next; /* in the list of all */
} mr_direct;

/* The entry of a signature, made when it is new; lives as long as the session, also when devices are chosen anew. */
mr_status *mr_direct_find(mr_direct *s, const mr_signature *sig, bool partial, mr_entry **out);
/* Between these a session waits with its end.  CANCELLED "Session has been closed." */
mr_status *mr_direct_enter(mr_direct *s);
void mr_direct_leave(mr_direct *s);
/* The i-th feed is given a value of its type. */
mr_status *mr_direct_check_feed(const mr_direct *s, const mr_run_args *a, int i);
/* Waits until f is over; after the deadline (0: none) it is stopped. */
void mr_direct_wait(mr_flow *f, int64_t deadline_ns);

/* A flow that runs is failed with CANCELLED when the cancellation of its run starts, or has started. */
typedef struct mr_direct_guard {
    mr_cancel_entry entry;
    mr_cancel *cancel; /* NULL: there is none */
    mr_flow *flow;
} mr_direct_guard;
void mr_direct_guard_begin(mr_direct_guard *g, mr_flow *f, const mr_run_options *o); /* o may be NULL */
void mr_direct_guard_end(mr_direct_guard *g); /* before the flow is given back */

/* ---- exec/direct_placing.c: placement by cost as the client sees it ---- */
mr_status *mr_direct_placing_new(mr_direct *s); /* with what MILLRACE_COSTS has */
void mr_direct_placing_free(mr_direct *s);
mr_status *mr_direct_explain(mr_session *s, const mr_run_args *a, mr_str *out);
mr_status *mr_direct_costs(mr_session *s, const char *path, bool save);
mr_status *mr_direct_slow(mr_session *s, const char *device, double factor);

/* ---- exec/partial_run.c ---- */
mr_status *mr_partial_setup(mr_session *s, const mr_run_args *a, char **handle);
mr_status *mr_partial_run_step(mr_session *s, const char *handle, const mr_run_args *a, const mr_run_options *o);
/* Ends all that are left (the session is closed). */
void mr_partial_runs_end(mr_direct *s);

#endif
