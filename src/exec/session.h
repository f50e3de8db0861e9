/* exec/session.h -- running any part of a graph.
 *
 * mr_session is an interface with two implementations: the direct session (exec/direct_session.c) runs in
 * this process, the remote session (server/remote_session.c) through a master. A session reads its client's
 * graph, which only grows; new nodes are seen at the next run. Runs from many threads at the same time are
 * allowed. */
#ifndef MR_EXEC_SESSION_H
#define MR_EXEC_SESSION_H

#include "base/thread.h"
#include "graph/graph.h"
#include "run/cancel.h"

typedef struct mr_session mr_session;

typedef struct mr_device_count { /* at most this many devices of a type */
    char type[32];
    int most;
} mr_device_count;
enum { MR_DEVICE_COUNTS = 8 }; /* more types than a machine has */

/* The fields of ConfigProto that a session uses, and a few settings beyond it. */
typedef struct mr_session_config {
    int n_cpus;                /* CPU devices; 0: 1 */
    int n_counts;              /* of other types; one that is not named has as many devices as there are */
    mr_device_count counts[MR_DEVICE_COUNTS];
    int intra_threads,
        inter_threads; /* 0: one per core; inter < 0: nodes run on the caller's thread */
    bool per_session_threads;
    bool served;       /* a server's: the thread that starts a step does not compute.  Not part of ConfigProto */
    bool soft_placement, log_placement;
    bool no_fold, no_cse;      /* optimizer level L0, or switched off by the RewriterConfig */
    bool no_fuse;              /* likewise; in the RewriterConfig: remapping */
    bool no_simplify;          /* likewise; in the RewriterConfig: arithmetic_optimization */
    int schedule;              /* mr_schedule of passes/passes.h; L0: none, unless enable_recv_scheduling */
    bool lossy_sends;          /* enable_bfloat16_sendrecv */
    int64_t max_folded_bytes;  /* 0: 10 MiB */
    int64_t timeout_ms;        /* of every run; 0: none */
    int64_t memory_limit;      /* bytes a device may hand out; 0: none */
    bool place_pruned;
    bool share_brought;       /* in a cluster that the client describes, sessions share state as in the servers' own */
    int64_t cost_model_every; /* RunMetadata has the costs of nodes every this many steps of a signature; 0: never */
    int64_t cost_model_after; /* number of first steps that do not count for that */
    bool feeds_handles;        /* resource handles may be fed: for running ops one by one. Not part of ConfigProto */
    const struct mr_device_sims *simulated; /* devices (exec/device_sim.h); NULL: those of MILLRACE_SIMULATE.  Borrowed
                                               until the session is made */
    int placement_period;      /* above 0: placement by cost, repeated after this many steps */
    bool order_collectives;    /* collective_deterministic_sequential_execution */
    char executor_type[64];    /* checked when a run needs an executor; a longer name is cut */
    char group_leader[160];    /* collective_group_leader: the task that leads collectives; "": the server's choice */
} mr_session_config;
/* INVALID_ARGUMENT if the bytes are not a ConfigProto. */
mr_status *mr_session_config_parse(mr_sv config_proto, mr_session_config *out);
/* Counts one more step of a signature in *n_steps; returns true if the costs of this step are wanted. */
bool mr_session_config_wants_costs(const mr_session_config *c, _Atomic int64_t *n_steps);

enum { MR_FULL_TRACE = 3 };

typedef struct mr_run_options {
    int64_t timeout_ms;
    int trace_level;  /* RunOptions.TraceLevel; MR_FULL_TRACE fills step_stats */
    bool output_partition_graphs;
    bool inter_op_in_caller; /* inter_op_thread_pool -1 */
    int64_t graph_key;       /* collective_graph_key: masters that run it use the same step ids; 0: none */
    mr_cancel *cancel;       /* starting it ends the run with CANCELLED; NULL: none.  Not part of RunOptions */
} mr_run_options;
mr_status *mr_run_options_parse(mr_sv run_options_proto, mr_run_options *out);

typedef struct mr_run_args {
    const mr_out *feeds, *fetches;
    mr_tensor *const *feed_values; /* borrowed */
    mr_tensor **fetched;           /* owned by the caller afterwards; all NULL on error */
    mr_node *const *targets;
    int n_feeds, n_fetches, n_targets;
} mr_run_args;

typedef struct mr_device_info {
    char *name, *type;
    int64_t memory_limit;
    uint64_t incarnation;
} mr_device_info;

typedef struct mr_session_ops {
    /* Appends a serialized RunMetadata to metadata, unless that is NULL, also if the run fails. */
    mr_status *(*run)(mr_session *s, const mr_run_args *a, const mr_run_options *o,
                      mr_str *metadata);
    mr_status *(*partial_setup)(mr_session *s, const mr_run_args *a, char **handle); /* mr_free */
    /* Of the options (may be NULL) only cancel is used: starting it ends the partial run, unless it had started before
     * the call. */
    mr_status *(*partial_run)(mr_session *s, const char *handle, const mr_run_args *a, const mr_run_options *o);
    /* Cancels running steps and refuses new ones. */
    mr_status *(*close)(mr_session *s);
    mr_status *(*list_devices)(mr_session *s, mr_device_info **out,
                               int *n); /* mr_device_infos_free */
    void (*free)(mr_session *s);
    /* Only for sessions that place nodes themselves; NULL elsewhere. */
    mr_status *(*explain)(mr_session *s, const mr_run_args *a, mr_str *out); /* which device runs which node, and why */
    mr_status *(*costs)(mr_session *s, const char *path, bool save);         /* measured costs, to or from a file */
    mr_status *(*slow)(mr_session *s, const char *device, double factor);    /* of simulated devices */
} mr_session_ops;

struct mr_session {
    const mr_session_ops *ops;
};

static inline mr_status *mr_session_run(mr_session *s, const mr_run_args *a,
                                        const mr_run_options *o, mr_str *metadata)
{
    return s->ops->run(s, a, o, metadata);
}
static inline mr_status *mr_session_close(mr_session *s) { return s->ops->close(s); }
static inline void mr_session_free(mr_session *s)
{
    if (s)
        s->ops->free(s);
}
void mr_device_infos_free(mr_device_info *d, int n);
/* CANCELLED if the options (may be NULL) have a cancellation that has started already. */
mr_status *mr_run_options_check(const mr_run_options *o);
mr_status *mr_run_interrupted(void); /* that error */

/* Takes a reference to the graph. graph_mu (NULL: nobody else touches the graph) guards it while plans are made. */
mr_status *mr_direct_session_new(mr_graph *g, mr_mutex *graph_mu, const mr_session_config *c,
                                 mr_session **out);
/* Clears containers of all live direct sessions and closes the sessions (TF_Reset); n 0: the default container. */
void mr_direct_sessions_reset(const char *const *containers, int n);

#endif
