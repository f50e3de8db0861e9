/* sim/measure.h -- runs a plan's graph for real on this machine and compares it with the simulation.
 *
 * Nodes are measured in traced steps of one configuration: one CPU device, one thread, half the batch. From these
 * times, scaled by op and shapes, it predicts the steps of other configurations: the whole batch on one device, and on
 * two devices, placed by cost. Then it runs those. Two devices share one machine (memory, caches, threads that pass
 * nodes to each other): the time of half the batch on two devices gives the slowdown while both work, and the
 * simulation of the whole batch uses it.
 *
 * All measurements are interleaved in rounds, so that other activity on the machine affects them equally. */
#ifndef MR_SIM_MEASURE_H
#define MR_SIM_MEASURE_H

#include "sim/step.h"

typedef struct mr_sim_measured {
    int devices;
    int64_t batch;
    double predicted_s, measured_s;
    double naive_s; /* the prediction if devices shared nothing */
    int moved;      /* nodes placed on the second device */
} mr_sim_measured;

typedef struct mr_sim_measures {
    int64_t batch;     /* the batch that was measured node by node */
    int n_nodes;       /* number of measured nodes */
    double step_s;
    double together;   /* slowdown of nodes while both devices work */
    int rounds;
    mr_sim_measured config[2];
} mr_sim_measures;

/* Measures the plan's model at the plan's batch (at least 2); its devices are ignored. save: the file for the costs of
 * the whole batch, or NULL. */
mr_status *mr_sim_measure(const mr_sim_plan *p, int rounds, const char *save, mr_sim_measures *out);
void mr_sim_measures_print(const mr_sim_measures *m, const mr_sim_plan *p, mr_str *out);

/* ---- shared.c ---- */
/* The makespan of a step whose devices share a machine: while two or more work, each takes `together` times as long. */
double mr_sim_step_shared(const mr_sim_step *s, double together);

#endif
