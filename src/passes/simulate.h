/* passes/simulate.h -- the tables of a simulated step, made once and simulated often. */
#ifndef MR_PASSES_SIMULATE_H
#define MR_PASSES_SIMULATE_H

#include "base/vec.h"
#include "passes/assign.h"

typedef struct mr_play_use { /* one consumer of a node's output */
    int node, tensor;
    int64_t bytes;
} mr_play_use;

typedef struct mr_play_event {
    double at;
    int node;
    bool ends; /* else it is ready */
} mr_play_event;

typedef struct mr_play_queue { /* of a device; -1: none */
    int running, first, last;
} mr_play_queue;

typedef struct mr_play_send { /* a tensor on its way; control edges have no bytes */
    int from, to; /* devices */
    int node, tensor; /* the node that made it, and the number of the tensor */
    int64_t bytes;
    double start, arrival;
} mr_play_send;

typedef struct mr_play {
    const mr_workload *w;
    const int *device_of;
    int *first_use; /* into uses, by node */
    mr_play_use *uses;
    int *pending, *next; /* by node: inputs that have not arrived; the next node in the device's queue */
    double *ready_at, *start, *finish;
    double *arrival;   /* [tensor * n_devices + device]; below 0: not sent there */
    double *link_free; /* [from * n_devices + to] */
    mr_play_queue *queues;
    int64_t *held; /* bytes, by device */
    double sent;   /* bytes of the last play, and a little for each transfer: of two equal times the one that sends less is better */
    MR_VEC(mr_play_event) events;
    bool keep_sends; /* record sends; set after mr_play_init */
    MR_VEC(mr_play_send) sends; /* of the last play, in the order of their starts */
} mr_play;

/* RESOURCE_EXHAUSTED, and nothing to free then. */
mr_status *mr_play_init(mr_play *s, const mr_workload *w);
void mr_play_deinit(mr_play *s);
/* The makespan, as of mr_assign_simulate; s->start and s->finish are by node. */
double mr_play_step(mr_play *s, const int *device_of);

#endif
