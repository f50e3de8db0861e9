/* server/master_internal.h -- the inside of the master service; for its own files. */
#ifndef MR_SERVER_MASTER_INTERNAL_H
#define MR_SERVER_MASTER_INTERNAL_H

#include "dist/master_step.h"
#include "dist/recent.h"
#include "exec/partial_use.h"
#include "exec/placing.h"
#include "server/retries.h"
#include "server/watch.h"
#include "server/master.h"

typedef struct mr_master_run mr_master_run;
typedef struct mr_msession mr_msession;
typedef struct mr_mregister mr_mregister;
typedef struct mr_mpartial mr_mpartial;
typedef struct mr_mcallable mr_mcallable;

/* One task's share of a signature. */
typedef struct mr_mpart {
    int task;
    mr_str graph_def; /* until it is registered */
    char *handle;     /* then */
} mr_mpart;

/* What runs for one signature. */
typedef struct mr_mprogram {
    mr_msession *session; /* borrowed: programs die with it */
    int n_feeds, n_fetches;
    char **feed_keys, **fetch_keys; /* rendezvous keys, in the client's order */
    int n_parts;
    mr_mpart *parts;
    int client_part; /* the one that takes feeds and gives fetches; -1: there are none */
    bool partial;
    _Atomic int64_t n_counted; /* steps, for GraphOptions.build_cost_model */
    /* Under the session's lock: */
    bool ready;
    int n_registering;
    mr_mregister *calls; /* by part; live as long as the program */
    mr_status *failed;
    MR_VEC(mr_master_run *) waiting; /* for the registration */
} mr_mprogram;

struct mr_msession {
    mr_refs refs;
    mr_master *master;
    char handle[17];
    mr_session_config config;
    mr_mutex making; /* one program at a time, and the graph; outside of mu */
    mr_graph *graph MR_GUARDED_BY(making);
    int64_t version MR_GUARDED_BY(making);
    mr_placements placements MR_GUARDED_BY(making);
    mr_placements told MR_GUARDED_BY(making); /* in the log */
    mr_placing *placing; /* by cost; NULL: not */
    mr_task_peers *peers; /* the host's, or of a cluster that the client brought */
    mr_str config_proto;
    int n_devices;
    mr_device **devices; /* of all tasks; the first is the client's */
    int *task_of;        /* of each */
    bool *member;        /* by task: it has a session of ours */
    uint64_t *incarnations;     /* by task: its incarnation; 0: not a member */
    bool holds;          /* its tasks are watched for it */
    bool isolated;       /* its variables are not shared with other sessions */
    mr_mutex mu;
    mr_map programs MR_GUARDED_BY(mu); /* signature text -> mr_mprogram */
    /* Programs that could not be registered, or of an earlier placement: not in the table any more, freed at the
     * end. */
    MR_VEC(mr_mprogram *) failed MR_GUARDED_BY(mu);
    mr_map callables MR_GUARDED_BY(mu); /* handle text -> mr_mcallable */
    mr_map partials MR_GUARDED_BY(mu);  /* handle text -> mr_mpartial */
    int64_t next_callable MR_GUARDED_BY(mu), next_partial MR_GUARDED_BY(mu);
    mr_master_run *steps MR_GUARDED_BY(mu); /* that run */
    int n_open MR_GUARDED_BY(mu);      /* calls that use it */
    int64_t entered_ns MR_GUARDED_BY(mu); /* by the last of them */
    bool closed MR_GUARDED_BY(mu);
    bool unused MR_GUARDED_BY(mu); /* closed because nobody had used it for long */
    mr_net_call *to_answer MR_GUARDED_BY(mu); /* once all have left; NULL: nobody waits */
};

struct mr_master {
    mr_host *host;
    struct mr_collectives *collectives;
    mr_timers *timers;
    mr_mutex mu;
    mr_map sessions MR_GUARDED_BY(mu); /* handle -> mr_msession */
    bool stopped MR_GUARDED_BY(mu);
    mr_recent requests MR_GUARDED_BY(mu); /* of RunStep */
    mr_retries retries;
    int n_closing MR_GUARDED_BY(mu); /* sessions whose calls have not all left, and resets */
    mr_cond quiet;                   /* it fell to 0 */
    _Atomic int n_sessions;          /* that are not freed, in the table or not */
    int64_t gc_ns;                   /* 0: sessions are kept */
    mr_timer sweep;
    mr_task sweeping;
};

/* ---- master.c ---- */
/* A reference.  ABORTED: the master was restarted, or the session is closed. */
mr_status *mr_msession_find(mr_master *m, mr_sv handle, mr_msession **out);
void mr_msession_unref(mr_msession *s);
/* In pairs: a closed session ends when the last call has left it.  CANCELLED if it is closed. */
mr_status *mr_msession_enter(mr_msession *s);
void mr_msession_leave(mr_msession *s);
/* Its tasks are not known yet: mr_msession_set_peers. */
mr_msession *mr_msession_new(mr_master *m);
/* Takes the reference. */
void mr_msession_set_peers(mr_msession *s, mr_task_peers *p);

/* Its tasks are watched from now on. */
void mr_msession_hold(mr_msession *s);
/* They are not watched any more; a second call does nothing. */
void mr_msession_release(mr_msession *s);

/* ---- master_create.c ---- */
void mr_master_create_session(void *service, mr_net_call *call, mr_sv body);

/* ---- master_close.c ---- */
void mr_master_close_session(void *service, mr_net_call *call, mr_sv body);
void mr_master_reset(void *service, mr_net_call *call, mr_sv body);
/* Begins to close all sessions: their steps are cancelled, no thread waits for that. */
void mr_master_close_all(mr_master *m);
/* Idle sessions are closed from now on, until mr_master_sweep_no_more. */
void mr_master_sweep(mr_master *m);
void mr_master_sweep_no_more(mr_master *m);
/* The last call has left a closed session: once. */
void mr_msession_closed(mr_msession *s);

/* ---- master_program.c ---- */
typedef struct mr_mrequest { /* a RunStepRequest, views into its bytes */
    mr_sv session, partial_run;
    MR_VEC(mr_sv) feeds;   /* names */
    MR_VEC(mr_sv) values;  /* TensorProtos */
    MR_VEC(mr_sv) fetches, targets;
    MR_VEC(mr_sv) connections; /* of a callable: TensorConnections */
    mr_run_options options;
    int64_t request;
    bool errors_in_body;
} mr_mrequest;
mr_status *mr_mrequest_parse(mr_sv body, mr_mrequest *q);
void mr_mrequest_deinit(mr_mrequest *q);

typedef struct mr_mnamed { /* the outputs and nodes that a request names */
    mr_out *outs;
    mr_node **nodes;
    mr_run_signature sig;
} mr_mnamed;
/* The session's lock `making` is held.  mr_mnamed_deinit, also on failure. */
mr_status *mr_mnamed_find(const mr_graph *g, const mr_mrequest *q, mr_mnamed *out);
void mr_mnamed_deinit(mr_mnamed *n);

/* The program of a signature; a new one is made, and is not ready yet. */
mr_status *mr_mprogram_get(mr_msession *s, const mr_mrequest *q, bool partial, mr_mprogram **out);
/* NULL if the signature is new.  Not of a partial run. */
mr_mprogram *mr_mprogram_find(mr_msession *s, const mr_mrequest *q);
void mr_mprogram_free(mr_mprogram *p);

/* ---- master_register.c ---- */
/* Lets the step run as soon as its program is registered. */
void mr_master_run_start_when_ready(mr_master_run *t);
/* Ends registrations under way with a task (-1: with all). */
void mr_msession_stop_registrations(mr_msession *s, int task, const mr_status *why);

/* ---- master_run.c ---- */
typedef struct mr_mpart_call { /* a RunGraph under way */
    mr_net_request request; /* first */
    mr_master_run *step;
    int part;
    mr_bytes reply;
    bool started, cancelled; /* under the step's lock: a call is cancelled once it is started */
    int64_t asked_ns, heard_ns; /* by the clock of traces, if the step is traced */
} mr_mpart_call;

/* A step, or one call of a partial run. */
struct mr_master_run {
    mr_refs refs; /* its own until the answer, and of each call and timer under way */
    mr_msession *session;
    mr_net_call *call;
    mr_mrequest q; /* views into the call's body, or its callable's */
    mr_mprogram *program;
    int *feed_at, *fetch_at; /* positions in the program; NULL: the same as in the request */
    mr_mpartial *partial;    /* NULL: not a call of a partial run */
    mr_task turn;            /* of the pool, when it has waited for another call of that run */
    mr_mcallable *callable;  /* NULL: not the run of one */
    bool last, refused;      /* it is the partial run's last call; it was refused and has used nothing */
    int64_t id;
    int n_parts;
    mr_mutex mu;
    mr_master_step state MR_GUARDED_BY(mu);
    mr_mpart_call *parts;
    struct mr_mtrace *trace; /* of a timed step, until it is answered; or NULL */
    mr_placing_turn placing; /* the step is measured, or the graph is placed again before it */
    bool costs;              /* the costs of its nodes are wanted (GraphOptions.build_cost_model) */
    mr_timer timer;
    bool timed;
    mr_master_run *next, **link; /* of the session's steps, under its lock; link NULL: not in the list */
};
void mr_master_handle_run_step(void *service, mr_net_call *c, mr_sv body);
mr_master_run *mr_master_run_new(mr_net_call *c);
void mr_master_run_unref(mr_master_run *t);
/* Finds the session and enters it; a request id comes once. */
mr_status *mr_master_run_enter(mr_master_run *t, mr_master *m, mr_sv session, int64_t request);
/* Runs it (st NULL), or answers with an error. */
void mr_master_run_go(mr_master_run *t, mr_status *st);
/* Its program is ready. */
void mr_master_run_begin(mr_master_run *t);
/* Ends the step: answers the client (st is taken over). */
void mr_master_run_answer(mr_master_run *t, mr_status *st);
/* The error of steps that a closing session ends; unused: it was closed because no client had used it for long. */
const char *mr_msession_why_closed(bool unused);
/* Stops all steps and registrations. */
void mr_msession_stop(mr_msession *s, mr_code code, const char *why);
/* Stops those that rely on an incarnation of a task that has ended. */
void mr_msession_stop_lost(mr_msession *s, int task);

/* ---- master_placing.c ---- */
void mr_msession_placing_init(mr_msession *s); /* once its devices are known */
/* The next step of each signature makes its program again. */
void mr_msession_place_anew(mr_msession *s);
/* Learns from the stats of a step that was measured. */
void mr_master_run_learn(mr_master_run *t);

/* ---- master_trace.c ---- */
bool mr_master_run_is_timed(const mr_master_run *t);  /* its nodes are timed */
bool mr_master_run_is_traced(const mr_master_run *t); /* anything is recorded of it */
/* A timed step begins: its time counts from now on. */
void mr_master_run_trace_begin(mr_master_run *t);
/* It has ended: asks its tasks for their clocks, then calls fn(t, st); at once if it is not timed. */
void mr_master_run_trace_end(mr_master_run *t, mr_status *st, void (*fn)(mr_master_run *t, mr_status *st));
/* Field 2 of a RunStepResponse: RunMetadata with the stats of all tasks by this one's clock, their graphs, and the
 * costs of their nodes unless the step failed. */
void mr_master_run_trace_encode(mr_master_run *t, bool failed, mr_pb_writer *w);
void mr_mtrace_free(struct mr_mtrace *x);

/* ---- master_partial.c ---- */
void mr_master_partial_setup(void *service, mr_net_call *c, mr_sv body);
/* A RunStep that names a partial run, after mr_master_run_enter: it runs when its turn comes. */
void mr_master_run_take_turn(mr_master_run *t);
/* The call is over, and the next one may run.  The partial run ends with its last call, or the first that failed. */
void mr_master_run_leave_turn(mr_master_run *t, bool failed);
void mr_mpartial_unref(mr_mpartial *p);

/* ---- master_callable.c ---- */
void mr_master_make_callable(void *service, mr_net_call *c, mr_sv body);
void mr_master_handle_run_callable(void *service, mr_net_call *c, mr_sv body);
void mr_master_release_callable(void *service, mr_net_call *c, mr_sv body);
void mr_mcallable_unref(mr_mcallable *k);

#endif
