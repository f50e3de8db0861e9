/* passes/simulate.h -- the tables of a simulated step, made once and played often. */
#ifndef MR_PASSES_SIMULATE_H
#define MR_PASSES_SIMULATE_H

#include "base/vec.h"
#include "passes/assign.h"

typedef struct mr_sim_use { /* who reads a node's output */
    int node, tensor;
    int64_t bytes;
} mr_sim_use;

typedef struct mr_sim_event {
    double at;
    int node;
    bool ends; /* else it is ready */
} mr_sim_event;

typedef struct mr_sim_queue { /* of a device; -1: none */
    int running, first, last;
} mr_sim_queue;

typedef struct mr_sim_step {
    const mr_workload *w;
    const int *device_of;
    int *first_use; /* into uses, by node */
    mr_sim_use *uses;
    int *pending, *next; /* by node: inputs that have not come; who follows in the device's queue */
    double *ready_at, *start, *finish;
    double *arrival;   /* [tensor * n_devices + device]; below 0: not sent there */
    double *link_free; /* [from * n_devices + to] */
    mr_sim_queue *queues;
    int64_t *held; /* bytes, by device */
    MR_VEC(mr_sim_event) events;
} mr_sim_step;

/* RESOURCE_EXHAUSTED, and nothing to free then. */
mr_status *mr_sim_step_init(mr_sim_step *s, const mr_workload *w);
void mr_sim_step_deinit(mr_sim_step *s);
/* The makespan, as of mr_assign_simulate; s->start and s->finish are by node. */
double mr_sim_step_play(mr_sim_step *s, const int *device_of);

#endif
