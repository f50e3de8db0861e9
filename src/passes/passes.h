/* passes/passes.h -- graph in, graph out: from the graph a client built to what each device runs.
 *
 * For one signature (feeds, fetches, targets) mr_prepare copies the needed part of the session's graph
 * and sends it through: place -> prune -> lower -> refresh reads -> fold -> cse -> partition -> schedule.  Placement looks
 * at the whole graph and is remembered, so that a variable never moves between two runs; the other passes work in place
 * on the copy.  Prune, fold, cse and schedule leave results the same to the bit and can be left out. */
#ifndef MR_PASSES_PASSES_H
#define MR_PASSES_PASSES_H

#include "graph/graph.h"
#include "passes/costs.h"
#include "passes/assign.h"
#include "run/device.h"

typedef struct mr_run_signature {
    const mr_out *feeds, *fetches;
    mr_node *const *targets;
    int n_feeds, n_fetches, n_targets;
} mr_run_signature;

typedef struct mr_placements { /* by node id: full name of the chosen device, borrowed; NULL: not placed yet */
    const char **device;
    int n;
} mr_placements;
void mr_placements_deinit(mr_placements *p);

/* Which Recvs start late (passes/schedule.c). */
typedef enum mr_schedule {
    MR_SCHEDULE_REMOTE, /* those from other tasks, so that their values still come in time */
    MR_SCHEDULE_NONE,
    MR_SCHEDULE_ALL, /* every one, as late as can be, whatever it costs: for tests */
} mr_schedule;

/* A node with this attr (bool) decides for its own outputs whether they go to other tasks as bfloat16. */
#define MR_LOSSY_ATTR "_lossy_bfloat16"

/* What placement by cost knows.  Arrays are by device, in the order of the options' devices. */
typedef struct mr_place_costs {
    const mr_costs *measured;      /* NULL: nothing yet */
    const mr_workload_link *links; /* [from * n_devices + to] */
    const int64_t *memory;         /* bytes; NULL: enough */
    int64_t visits;                /* of the search, as in mr_workload; 0: the usual */
} mr_place_costs;

typedef struct mr_prepare_options {
    mr_device *const *devices; /* devices[0] is the client's: feeds and fetches live there */
    int n_devices;
    bool soft_placement;
    bool place_all; /* a node that can be placed nowhere is an error also for steps that do not need it, as in TensorFlow */
    const mr_place_costs *costs; /* devices are chosen by what a step would take; NULL: the first that can */
    bool no_fold, no_cse;
    mr_schedule schedule;
    bool order_collectives; /* those of a device run one after the other */
    bool lossy; /* floats go to other tasks as bfloat16, but for nodes that say otherwise */
    int64_t max_folded_bytes;  /* 0: 10 MiB */
    bool rendezvous;           /* feeds and fetches become _Recv and _Send on the client device (partial runs) */
    mr_placements *placements; /* remembered between calls; NULL: not remembered */
} mr_prepare_options;

/* The whole way.  parts[i] (n_devices of them) runs on devices[i]; NULL when nothing runs there. */
mr_status *mr_prepare(const mr_graph *g, const mr_run_signature *sig, const mr_prepare_options *o, mr_graph **parts);
/* The same for a function's body: the graph (consumed) already has its _Arg and _Retval nodes.  Nodes without a
 * device of their own go to devices[0]. */
mr_status *mr_prepare_body(mr_graph *body, const mr_prepare_options *o, mr_graph **parts);

/* ---- the single passes ---- */

/* needed[id] = a step of this signature runs (a copy of) that node.  INVALID_ARGUMENT for what cannot be fed,
 * fetched or run. */
mr_status *mr_needed(const mr_graph *g, const mr_run_signature *sig, bool *needed);

/* Copies what is needed.  Fed outputs become _Arg nodes (attr index: position among the feeds), fetched
 * ones _Retval nodes, or _Recv and _Send.  Nodes keep their names, so that their state is found. */
mr_status *mr_prune(const mr_graph *g, const mr_run_signature *sig, const mr_prepare_options *o, mr_graph **out);

/* Chooses a device for every node of g: requested devices, colocation, kernels.  placed[id] not
 * NULL on entry stays.  Only errors of needed nodes count (NULL: all).  sig: the step that is placed by cost, with its
 * feeds and fetches; NULL: everything, once (without costs it is not read). */
mr_status *mr_place(const mr_graph *g, const mr_prepare_options *o, const mr_run_signature *sig, const bool *needed,
                    const char **placed);

/* The one simulation of a placed step that totals, timelines and reasons are drawn from (passes/planned_step.h).
 * o->costs must be set. */
typedef struct mr_planned_step mr_planned_step;
mr_status *mr_place_simulate(const mr_graph *g, const mr_prepare_options *o, const mr_run_signature *sig,
                             const char *const *placed, mr_planned_step *out);
/* What the step takes with everything on one device but what is placed already or asks for another; INFINITY: it does
 * not fit. */
mr_status *mr_place_alone(const mr_graph *g, const mr_prepare_options *o, const mr_run_signature *sig,
                          const char *const *placed, int device, double *seconds);

/* Where a node stands and why. */
typedef struct mr_place_choice {
    int device;            /* among the options' */
    double ends_s, step_s; /* when it and the whole step would end there; INFINITY: there is no memory */
} mr_place_choice;
typedef struct mr_place_reason {
    const mr_node *node;
    mr_place_choice here;
    const mr_place_choice *others; /* the other devices that could take it, with everything else as it is */
    int n_others;
    const char *why;
} mr_place_reason;
/* Calls tell for each node that the step of a placed graph runs, those with wanted[id] only (NULL: all).  What was
 * computed when the step was prepared, or merged with an equal node, does not run.  o->costs must be set. */
mr_status *mr_place_reasons(const mr_graph *g, const mr_prepare_options *o, const mr_run_signature *sig, const char *const *placed,
                            const bool *wanted, void (*tell)(void *arg, const mr_place_reason *r), void *arg);

/* The same as text: where each node is and why, the devices that could take it, and when it and the whole step would end
 * if it were there with everything else as it is. */
mr_status *mr_place_explain(const mr_graph *g, const mr_prepare_options *o, const mr_run_signature *sig,
                            const char *const *placed, mr_str *out);

/* Puts the functions of If, Case, While and call nodes that say _lower_using_switch_merge in their places, as Switch, Merge
 * and loops; what nobody needs of them is left out.  *g may become another graph.  New nodes have no device yet unless
 * they asked for one; where a node was placed they get its device, if they can.  *any: something was lowered. */
mr_status *mr_lower(mr_graph **g, bool *any);
/* Lets nodes of a placed graph that run after an update of a ref variable see it, as TensorFlow's shared memory does. */
mr_status *mr_refresh_ref_reads(mr_graph *g);
/* Replaces what depends on constants only by its value.  max_bytes 0: 10 MiB. */
mr_status *mr_fold(mr_graph *g, int64_t max_bytes);
/* Merges nodes that compute the same. */
mr_status *mr_cse(mr_graph *g);
/* Collectives of each device of a placed graph one after the other, by their instance keys. */
mr_status *mr_order_collectives(mr_graph *g);

/* Cuts a placed graph (node->placed) into one graph a device, joined by _Send and _Recv, with a control loop on each
 * device that receives inside a loop; then schedules the Recvs.  out[i] belongs to o->devices[i] and is NULL when nothing
 * runs there. */
mr_status *mr_partition(mr_graph *g, const mr_prepare_options *o, mr_graph **out);

typedef struct mr_cut_edge { /* an edge that was cut */
    mr_node *send, *recv;
    mr_node *value; /* what the consumers read: the Recv, or the Cast behind it */
    bool remote;    /* between tasks */
    int line;       /* the receiving task: the first of its devices */
} mr_cut_edge;
/* Holds Recvs of a cut graph back until their values are of use. */
mr_status *mr_schedule_recvs(mr_graph *g, const mr_cut_edge *edges, int n, mr_schedule how);

/* ---- guesses (passes/cost.c) ---- */
int64_t mr_cost_bytes(mr_out o); /* -1: not known */
int64_t mr_cost_node_ns(const mr_node *n);
int64_t mr_cost_transfer_ns(mr_out o); /* to another task */

/* The frame every node of a graph runs in: of_node[id] is an index into info; 0 is the root.  An Enter counts to
 * the frame it is called in, an Exit to the loop's.  INVALID_ARGUMENT "... has inputs from different frames ...". */
typedef struct mr_frame_info {
    const char *name; /* frame_name attr; "" for the root */
    int parent;       /* index of the enclosing frame; -1 for the root */
    int parallel_iterations;
    int n_enters;
    mr_node *loop_cond; /* NULL when there is none */
} mr_frame_info;
typedef struct mr_frames {
    int n;
    mr_frame_info *info;
    int *of_node; /* by node id; -1 where a node was removed */
} mr_frames;
mr_status *mr_frames_find(const mr_graph *g, mr_frames *out);
void mr_frames_deinit(mr_frames *f);
/* The frame a node's outputs are in: that of the node but for Enter and Exit. */
int mr_frames_out(const mr_frames *f, const mr_node *n);

#endif
