/* passes/planned_step.h -- a step as it would run, and its simulation; internal to placement by cost.
 *
 * A step graph is the graph that a session runs for a signature: pruned and folded, with a node for each feed (_Arg)
 * and each fetch (_Retval). A planned step is a step graph as a workload: the time of each node on each device, and
 * the tensors that flow between nodes. Feeds and fetches are on the client's device (devices[0]) and take no time;
 * only the transfers from and to that device cost time. */
#ifndef MR_PASSES_PLANNED_STEP_H
#define MR_PASSES_PLANNED_STEP_H

#include "passes/place_internal.h"
#include "passes/simulate.h"

struct mr_planned_step {
    mr_graph *g; /* owned when the step was realized (mr_step_realize), else borrowed */
    bool owns_graph;
    mr_workload w;
    mr_node **nodes; /* by number in the workload; node->mark is the id in the session's graph, -1
                        for feeds and fetches */
    int first_added; /* nodes of g from this id on are further reads of ref variables (mr_refresh_ref_reads), with
                        the marks of the nodes that they are placed with, or fused nodes, with the name and the mark of
                        one that they replace */
    int *group;      /* by number */
    int *roots;      /* by group of the workload: the placer's root; -1: the client's feeds and fetches */
    int *group_of;     /* by the placer's root; -1: not in the step */
    int *device_of;    /* by group: where it is or must be; -1: free */
    int *first_tensor; /* by number: of its outputs; the last one means "it has run" */
    int *first_input;  /* by number */
    double *seconds;
    int64_t *bytes, *memory;
    MR_VEC(mr_workload_input) inputs;
    bool *fits; /* [group * n_devices + device] */
    bool *lost; /* by group: no device can take it; mr_place reports the error later */
    mr_play play;
    double step_s; /* INFINITY: the devices have too little memory */
};

/* The step graph of a signature; sig NULL: of the whole graph, with its placeholders as feeds. Sets the marks. */
mr_status *mr_step_graph(const mr_graph *g, const mr_run_signature *sig, const mr_prepare_options *o,
                         mr_graph **out);

/* The workload of a step graph, which must outlive it. all: lists the possible devices also for groups that were placed
 * before (for reasons). Does not simulate. On failure the step is empty. */
mr_status *mr_planned_step_init(mr_planned_step *s, mr_placer *p, mr_graph *step_graph, bool all);
void mr_planned_step_deinit(mr_planned_step *s);

/* Copies the step graph, puts its nodes on the devices of their groups (device_by_root, by the placer's root), reads
 * ref variables again, merges equal nodes of one device and fuses nodes as mr_prepare does, and simulates the result: out->play has
 * the times. */
mr_status *mr_step_realize(mr_placer *p, const mr_graph *step_graph, const int *device_by_root,
                           bool all, mr_planned_step *out);

/* The index of a device among the options' devices; -1: no device has this name. */
int mr_placer_device(const mr_placer *p, const char *name);

#endif
