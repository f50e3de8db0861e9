/* sim/sim.h -- whole clusters in one process: virtual time, a seeded network, tasks that crash.
 *
 * A run depends only on its seed: the cluster, the actions of its clients and every fault follow from it, so a failed
 * run can be replayed from its seed with the same trace. Masters and workers are the step functions of dist/, which
 * server/ uses in production; the simulation carries out their actions, as a transport, a disk and a process would. */
#ifndef MR_SIM_SIM_H
#define MR_SIM_SIM_H

#include <stdint.h>

enum mr_sim_fault {
    MR_SIM_DELAY = 1,       /* messages that take long, and overtake each other */
    MR_SIM_LOSS = 2,        /* retransmitted packets, and connections that break and lose messages in flight */
    MR_SIM_DUPLICATION = 4, /* requests that arrive twice */
    MR_SIM_PARTITION = 8,   /* nodes that do not reach each other, both ways or one */
    MR_SIM_CRASH = 16,      /* tasks that die with all their state and come back as another incarnation */
    MR_SIM_SLOW = 32,       /* tasks that take long for everything */
    MR_SIM_ALL = 63,
    MR_SIM_NONE = 64, /* in options: no faults at all */
};

typedef struct mr_sim_options {
    uint64_t seed;
    unsigned faults;                             /* the faults that may happen; 0: the seed chooses */
    void (*trace)(void *arg, const char *line);  /* NULL: none; the hash covers the same lines */
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
