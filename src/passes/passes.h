/* passes/passes.h -- graph in, graph out: from the graph that a client built to one graph for each device.
 *
 * For one signature (feeds, fetches, targets) mr_prepare runs: place -> prune -> lower -> refresh reads -> fold ->
 * simplify -> cse -> fuse -> order collectives -> partition -> schedule. Placement looks at the whole graph and is remembered, so a variable
 * never moves between two runs. Pruning copies the needed part of the session's graph; the later passes change that
 * copy. Fold, simplify, cse, fuse and schedule leave results the same to the bit and can be switched off (no_fold, no_simplify, no_cse,
 * no_fuse, MR_SCHEDULE_NONE); collectives are ordered only on request. All other passes always run. A function's body, which its
 * caller has pruned, is lowered first, then placed (mr_prepare_body). */
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
    bool entangled; /* where a new node goes may depend on more than the devices of nodes it is with: see mr_place_added */
} mr_placements;
void mr_placements_deinit(mr_placements *p);

/* Which Recvs start late (passes/schedule.c). */
typedef enum mr_schedule {
    MR_SCHEDULE_REMOTE, /* those from other tasks, but early enough that their values arrive in time */
    MR_SCHEDULE_NONE,
    MR_SCHEDULE_ALL, /* all of them, as late as possible, whatever the cost; for tests */
} mr_schedule;

/* With this bool attr, a node decides whether its outputs are sent to other tasks as bfloat16. */
#define MR_LOSSY_ATTR "_lossy_bfloat16"

/* The input of placement by cost. Arrays are indexed by device, in the order of the options' devices. */
typedef struct mr_place_costs {
    const mr_costs *measured;      /* NULL: nothing yet */
    const mr_workload_link *links; /* [from * n_devices + to] */
    const int64_t *memory;         /* bytes; NULL: unlimited */
    int64_t visits;                /* limit of the search, as in mr_workload; 0: the default */
    const mr_cancel_flag *cancelled; /* ends placing, reasons and mr_place_alone with CANCELLED; NULL: nothing does */
} mr_place_costs;

typedef struct mr_prepare_options {
    mr_device *const *devices; /* devices[0] is the client's device, for feeds and fetches */
    int n_devices;
    bool soft_placement;
    bool place_all; /* as in TensorFlow, a node that no device can run fails also the steps that do not need it */
    const mr_place_costs *costs; /* choose devices by the simulated time of a step; NULL: the first possible device */
    bool no_fold, no_simplify, no_cse, no_fuse;
    mr_schedule schedule;
    bool order_collectives; /* the collectives of a device run one after the other */
    bool lossy; /* send floats to other tasks as bfloat16, unless a node says otherwise (MR_LOSSY_ATTR) */
    int64_t max_folded_bytes;  /* 0: 10 MiB */
    bool exported;             /* the parts are sent to other tasks, which fuse nodes themselves: TensorFlow's know no such nodes */
    bool rendezvous;           /* feeds and fetches become _Recv and _Send on the client's device (partial runs) */
    mr_placements *placements; /* remembered between calls; NULL: not remembered */
} mr_prepare_options;

/* Runs all passes. parts[i] (n_devices of them, owned by the caller) runs on devices[i]; NULL if nothing runs there. */
mr_status *mr_prepare(const mr_graph *g, const mr_run_signature *sig, const mr_prepare_options *o, mr_graph **parts);
/* The same for a function's body, which is consumed and has its _Arg and _Retval nodes already. Nodes that request no
 * device run on devices[0] if it can run all of them; otherwise they are placed like any others. */
mr_status *mr_prepare_body(mr_graph *body, const mr_prepare_options *o, mr_graph **parts);

/* ---- the single passes ---- */

/* Sets needed[id] to true if a step of this signature runs that node. INVALID_ARGUMENT if a feed, fetch or target is
 * not possible. */
mr_status *mr_needed(const mr_graph *g, const mr_run_signature *sig, bool *needed);

/* Copies the needed nodes. Fed outputs become _Arg nodes (attr index: position among the feeds) and fetched outputs
 * _Retval nodes; with o->rendezvous, _Recv and _Send. Nodes keep their names, because their state is found by name. */
mr_status *mr_prune(const mr_graph *g, const mr_run_signature *sig, const mr_prepare_options *o, mr_graph **out);

/* Chooses a device for every node of g by requested devices, colocation and kernels. Entries of placed that are not
 * NULL on entry stay. Only errors of needed nodes count (NULL: of all nodes). With costs, sig is the step to place;
 * NULL: the whole graph. Without costs it is not read. */
mr_status *mr_place(const mr_graph *g, const mr_prepare_options *o, const mr_run_signature *sig, const bool *needed,
                    const char **placed);

/* The same without costs for placements that are remembered: a device that was chosen stays, also if the node or its
 * group is changed later. Looks at all nodes only if those without a device cannot be placed by themselves. */
mr_status *mr_place_added(const mr_graph *g, const mr_prepare_options *o, const bool *needed, mr_placements *to);

/* Simulates a placed step once; totals, timelines and reasons come from this simulation (passes/planned_step.h).
 * o->costs must be set. */
typedef struct mr_planned_step mr_planned_step;
mr_status *mr_place_simulate(const mr_graph *g, const mr_prepare_options *o, const mr_run_signature *sig,
                             const char *const *placed, mr_planned_step *out);
/* The time of the step if one device runs all nodes, except those that are placed already or request another device.
 * INFINITY: the memory does not suffice. */
mr_status *mr_place_alone(const mr_graph *g, const mr_prepare_options *o, const mr_run_signature *sig,
                          const char *const *placed, int device, double *seconds);

/* Where a node is placed, and why. */
typedef struct mr_place_choice {
    int device;            /* index into the options' devices */
    double ends_s, step_s; /* when the node and the whole step would end there; INFINITY: not enough memory */
} mr_place_choice;
typedef struct mr_place_reason {
    const mr_node *node;
    mr_place_choice here;
    const mr_place_choice *others; /* the other devices that could run it, all other nodes unchanged */
    int n_others;
    const char *why;
} mr_place_reason;
/* Calls tell for each node that the step of a placed graph runs, if wanted[id] is set (wanted NULL: for all). Nodes
 * that were folded or merged with an equal node do not run. o->costs must be set. */
mr_status *mr_place_reasons(const mr_graph *g, const mr_prepare_options *o, const mr_run_signature *sig, const char *const *placed,
                            const bool *wanted, void (*tell)(void *arg, const mr_place_reason *r), void *arg);

/* The same as text: where each node is and why, the devices that could run it, and when the node and the whole step
 * would end there, all other nodes unchanged. */
mr_status *mr_place_explain(const mr_graph *g, const mr_prepare_options *o, const mr_run_signature *sig,
                            const char *const *placed, mr_str *out);

/* Replaces If, Case, While and call nodes with the attr _lower_using_switch_merge by the bodies of their functions,
 * built from Switch, Merge and loops; nodes that nobody needs are removed. *g may become another graph. A new node
 * takes the device of the node it replaces if that one is placed and the new node can run there; otherwise it is not
 * placed. *any: something was lowered. */
mr_status *mr_lower(mr_graph **g, bool *any);
/* Makes nodes of a placed graph that run after an update of a ref variable see the update, as in TensorFlow, where they
 * share the memory. */
mr_status *mr_refresh_ref_reads(mr_graph *g);
/* Replaces nodes that depend only on constants by their values. max_bytes 0: 10 MiB. */
mr_status *mr_fold(mr_graph *g, int64_t max_bytes);
/* Removes nodes of a placed graph whose output is one of their inputs, and replaces powers by products. Does nothing with
 * no_simplify. */
mr_status *mr_simplify(mr_graph *g, const mr_prepare_options *o);
/* Merges nodes that compute the same value. */
mr_status *mr_cse(mr_graph *g);
/* Replaces several nodes by one that computes the same, where all are on the same CPU (passes/fuse.c). Does nothing with
 * no_fuse. */
mr_status *mr_fuse(mr_graph *g, const mr_prepare_options *o);
/* Makes the collectives of each device of a placed graph run one after the other, ordered by instance key. */
mr_status *mr_order_collectives(mr_graph *g);

/* Cuts a placed graph (node->placed) into one graph per device, joined by _Send and _Recv, with a control loop on each
 * device that receives inside a loop. Then schedules the Recvs. out[i] runs on o->devices[i]; NULL if nothing runs
 * there. */
mr_status *mr_partition(mr_graph *g, const mr_prepare_options *o, mr_graph **out);

typedef struct mr_cut_edge { /* an edge that was cut */
    mr_node *send, *recv;
    mr_node *value; /* the node that the consumers read: the Recv, or the Cast after it */
    bool remote;    /* between tasks */
    int line;       /* the receiving task, as the number of its first device */
} mr_cut_edge;
/* Delays the Recvs of a cut graph until their values are useful. */
mr_status *mr_schedule_recvs(mr_graph *g, const mr_cut_edge *edges, int n, mr_schedule how);

/* ---- rough costs (passes/cost.c) ---- */
int64_t mr_cost_bytes(mr_out o); /* -1: unknown */
int64_t mr_cost_node_ns(const mr_node *n);
int64_t mr_cost_transfer_ns(mr_out o); /* to another task */

/* The frame in which each node of a graph runs: of_node[id] is an index into info; 0 is the root. An Enter belongs to
 * the outer frame, an Exit to the frame of the loop. INVALID_ARGUMENT "... has inputs from different frames ...". */
typedef struct mr_frame_info {
    const char *name; /* frame_name attr; "" for the root */
    int parent;       /* index of the enclosing frame; -1 for the root */
    int parallel_iterations;
    int n_enters;
    mr_node *loop_cond; /* NULL: none */
} mr_frame_info;
typedef struct mr_frames {
    int n;
    mr_frame_info *info;
    int *of_node; /* by node id; -1 where a node was removed */
} mr_frames;
mr_status *mr_frames_find(const mr_graph *g, mr_frames *out);
void mr_frames_deinit(mr_frames *f);
/* The frame of a node's outputs: the frame of the node, except for Enter and Exit. */
int mr_frames_out(const mr_frames *f, const mr_node *n);

#endif
