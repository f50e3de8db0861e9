/* sim/sim.h -- whole clusters in one process: virtual time, a seeded network, tasks that crash.
 *
 * A run is made of a seed alone: the cluster, what its clients do and every fault follow from it, so a run that fails
 * is replayed by its number, to the same trace.  Masters and workers are the step functions of dist/, those that
 * server/ runs for real; the simulation carries out what they tell, as a transport, a disk and a process would. */
#ifndef MR_SIM_SIM_H
#define MR_SIM_SIM_H

#include <stdint.h>

enum mr_sim_fault {
    MR_SIM_DELAY = 1,       /* messages that take long, and overtake each other */
    MR_SIM_LOSS = 2,        /* packets that are sent again, connections that break with what was under way */
    MR_SIM_DUPLICATION = 4, /* requests that arrive twice */
    MR_SIM_PARTITION = 8,   /* nodes that do not reach each other, both ways or one */
    MR_SIM_CRASH = 16,      /* tasks that die with all their state and come back as another incarnation */
    MR_SIM_SLOW = 32,       /* tasks that take long for everything */
    MR_SIM_ALL = 63,
    MR_SIM_NONE = 64, /* in options: really none */
};

typedef struct mr_sim_options {
    uint64_t seed;
    unsigned faults;                             /* those that may happen; 0: a choice by the seed */
    void (*trace)(void *arg, const char *line);  /* NULL: none; the hash is of the same lines */
    void *trace_arg;
} mr_sim_options;

typedef struct mr_sim_result {
    char *failure; /* NULL: everything held; freed by the caller */
    uint64_t hash; /* of the trace */
    int64_t end_ns;
    int n_events, n_steps_ok, n_steps_failed, n_rounds, n_faults;
} mr_sim_result;

void mr_sim_run(const mr_sim_options *o, mr_sim_result *out);

#endif
