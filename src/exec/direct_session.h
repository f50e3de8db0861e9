/* exec/direct_session.h -- internals of the session that runs in this process; for its own files only. */
#ifndef MR_EXEC_DIRECT_SESSION_H
#define MR_EXEC_DIRECT_SESSION_H

#include "exec/env.h"
#include "exec/placing.h"
#include "exec/signature.h"

typedef struct mr_partial_run mr_partial_run;

typedef struct mr_direct {
    mr_session base;
    mr_refs refs; /* one for its owner, one for each mr_direct_sessions_reset in progress */
    mr_env env;
    mr_graph *graph;
    mr_mutex *graph_mu; /* NULL: nobody else touches the graph */
    _Atomic bool closed;
    mr_mutex making; /* one program is made at a time; locked before graph_mu and mu */
    mr_placements placements MR_GUARDED_BY(making);
    mr_placements told MR_GUARDED_BY(making); /* already logged */
    mr_mutex mu;
    mr_cond idle; /* n_running fell to 0 */
    int n_running MR_GUARDED_BY(mu);
    mr_run_signatures exact, sorted MR_GUARDED_BY(mu);
    MR_VEC(mr_run_signatures) former MR_GUARDED_BY(mu); /* of earlier placements: runs may still be in their programs */
    mr_placing *placing; /* NULL: not by cost */
    MR_VEC(mr_program *) programs MR_GUARDED_BY(mu);
    mr_map partial_runs MR_GUARDED_BY(mu); /* handle -> mr_partial_run * */
    int64_t next_handle MR_GUARDED_BY(mu);
    struct mr_direct *next; /* in the list of all */
} mr_direct;

/* The entry of a signature, made if it is new. It lives as long as the session, also if devices are chosen again. */
mr_status *mr_direct_find(mr_direct *s, const mr_run_signature *sig, bool partial, mr_entry **out);
/* The session is not freed between these two calls. CANCELLED "Session has been closed." */
mr_status *mr_direct_enter(mr_direct *s);
void mr_direct_leave(mr_direct *s);
/* Checks that the i-th feed has a value of its type. */
mr_status *mr_direct_check_feed(const mr_direct *s, const mr_run_args *a, int i);
/* Waits until f is over; at the deadline (0: none) it is stopped, and waited for. */
void mr_direct_wait(mr_flow *f, int64_t deadline_ns);

/* Fails a running flow with CANCELLED when the cancellation of its run starts, or if it has started already. */
typedef struct mr_direct_guard {
    mr_cancel_entry entry;
    mr_cancel *cancel; /* NULL: there is none */
    mr_flow *flow;
} mr_direct_guard;
void mr_direct_guard_begin(mr_direct_guard *g, mr_flow *f, const mr_run_options *o); /* o may be NULL */
void mr_direct_guard_end(mr_direct_guard *g); /* before the flow is given back */

/* ---- exec/direct_placing.c: placement by cost as the client sees it ---- */
mr_status *mr_direct_placing_new(mr_direct *s); /* with the costs in the file that MILLRACE_COSTS names */
void mr_direct_placing_free(mr_direct *s);
mr_status *mr_direct_explain(mr_session *s, const mr_run_args *a, mr_str *out);
mr_status *mr_direct_costs(mr_session *s, const char *path, bool save);
mr_status *mr_direct_slow(mr_session *s, const char *device, double factor);

/* ---- exec/partial_run.c ---- */
mr_status *mr_partial_setup(mr_session *s, const mr_run_args *a, char **handle);
mr_status *mr_partial_run_step(mr_session *s, const char *handle, const mr_run_args *a, const mr_run_options *o);
/* Ends the partial runs that are left, when the session is freed. */
void mr_partial_runs_end(mr_direct *s);

#endif
