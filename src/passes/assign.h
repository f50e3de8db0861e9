/* passes/assign.h -- which device runs what, by simulated time.
 *
 * An mr_workload describes a step: nodes in an order in which inputs come first, what each would take on each device,
 * which tensors flow between them, and how fast the links are. mr_assign_simulate simulates a given choice of devices;
 * mr_assign_find searches for a good one. This interface does not know graphs: the placer makes the workload from a
 * graph and a cost model, the cluster simulator from a plan file, tests by hand. */
#ifndef MR_PASSES_ASSIGN_H
#define MR_PASSES_ASSIGN_H

#include <stdint.h>

#include "base/cancel_flag.h"
#include "base/status.h"

typedef struct mr_workload_input { /* a tensor or, with 0 bytes, a control edge */
    int from;     /* the node that makes it */
    int tensor;   /* equal numbers are one tensor: it goes to a device once */
    int64_t bytes;
} mr_workload_input;

typedef struct mr_workload_link { /* from one device to another; transfers of one link follow each other */
    double latency_s, bytes_per_s;
} mr_workload_link;

typedef struct mr_workload {
    int n_nodes, n_groups, n_devices, n_tensors;
    const int *group;            /* of each node; all nodes of a group are on one device */
    const double *seconds;       /* [node * n_devices + device]; INFINITY: it cannot run there */
    const int64_t *bytes;        /* of each node: what it holds for the whole step; NULL: nothing */
    const int *first_input;      /* [n_nodes + 1] into inputs */
    const mr_workload_input *inputs;
    const mr_workload_link *links;   /* [from * n_devices + to]; the diagonal is not read */
    const int64_t *memory;       /* of each device; NULL: enough */
    int64_t visits;              /* nodes that may be simulated to find a good choice; 0: a million */
    const mr_cancel_flag *cancelled; /* ends mr_assign_find with CANCELLED; NULL: nothing does */
} mr_workload;

/* *makespan: when the last node ends, with group g on device_of[g]; INFINITY if a node cannot run on its device, or a
 * device has too little memory. start and finish (by node) may be NULL. */
mr_status *mr_assign_simulate(const mr_workload *w, const int *device_of, double *start, double *finish, double *makespan);

/* Puts every free group (fixed[group] is -1) that can run there on one device, the others on the first device that can
 * run them. */
void mr_assign_single(const mr_workload *w, const int *fixed, int device, int *device_of);

/* Fills in device_of where it is -1; other values stay. *makespan is the simulated time of the result, never more than
 * mr_assign_single gives for any device. Equal workloads give equal answers. RESOURCE_EXHAUSTED if memory suffices
 * nowhere, INVALID_ARGUMENT if a group can run nowhere; then *culprit is a node of that group. */
mr_status *mr_assign_find(const mr_workload *w, int *device_of, double *makespan, int *culprit);

#endif
