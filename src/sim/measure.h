/* sim/measure.h -- a plan's graph run for real on this machine, beside what the simulation says of it.
 *
 * Nodes are measured in traced steps of one configuration: one CPU device, one thread, half the batch.  From these times,
 * scaled by what op and shapes say, the steps of other configurations are predicted: the whole batch on one device, and
 * on two devices, placed by cost.  Then those are run.  Two devices of a machine share it (memory, caches, threads that hand
 * nodes to each other): how much slower each is while both work follows from what half the batch takes on two devices, and
 * the simulation of the whole batch counts with it.
 *
 * All of it goes round and round, a little of each at a time, so that whatever else the machine does touches all alike. */
#ifndef MR_SIM_MEASURE_H
#define MR_SIM_MEASURE_H

#include "sim/step.h"

typedef struct mr_sim_measured {
    int devices;
    int64_t batch;
    double predicted_s, measured_s;
    double naive_s; /* the prediction if devices shared nothing */
    int moved;      /* nodes that stand on the second device */
} mr_sim_measured;

typedef struct mr_sim_measures {
    int64_t batch;     /* that was measured node by node */
    int n_nodes;       /* and so many of them */
    double step_s;
    double together;   /* while both devices work, nodes take so many times as long */
    int rounds;
    mr_sim_measured config[2];
} mr_sim_measures;

/* The plan's model at the plan's batch (at least 2); its devices are not looked at.  save: where the costs of the whole
 * batch are written to; NULL: nowhere. */
mr_status *mr_sim_measure(const mr_sim_plan *p, int rounds, const char *save, mr_sim_measures *out);
void mr_sim_measures_print(const mr_sim_measures *m, const mr_sim_plan *p, mr_str *out);

/* ---- shared.c ---- */
/* The makespan of a step when its devices share a machine: while two or more work at once each takes `together` times as
 * long. */
double mr_sim_step_shared(const mr_sim_step *s, double together);

#endif
