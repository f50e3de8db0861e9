/* sim/ps/ps_sim.h -- whole parameter servers in one process: virtual time, a seeded network, servers that come and go.
 *
 * A run depends only on its seed, as in sim/sim.h. Manager, replicas and clients are the step functions of dist/ps_*,
 * which ps/ uses in production. Every push has a distinct number, so a ledger knows of each whether it was lost or
 * counted twice. */
#ifndef MR_SIM_PS_PS_SIM_H
#define MR_SIM_PS_PS_SIM_H

#include <stdint.h>

enum mr_ps_sim_fault {
    MR_PS_SIM_DELAY = 1, /* messages that take long; those between two nodes always overtake each other a little */
    MR_PS_SIM_LOSS = 2,  /* messages that are lost, noticed or not */
    MR_PS_SIM_DUPLICATION = 4, /* messages that arrive twice */
    MR_PS_SIM_PARTITION =
        8, /* nodes that do not reach each other, both ways or one: the manager declares live servers lost */
    MR_PS_SIM_CRASH = 16,   /* servers that die and come back as others, clients that die */
    MR_PS_SIM_CHANGE = 32,  /* servers that join and leave */
    MR_PS_SIM_MANAGER = 64, /* a manager that is restarted */
    MR_PS_SIM_NONE = 128,   /* in options: no faults at all */
    MR_PS_SIM_FULL = 256,   /* servers that have no memory for new data */
    MR_PS_SIM_ALL = 127 | MR_PS_SIM_FULL,
};

typedef struct mr_ps_sim_options {
    uint64_t seed;
    unsigned faults;                            /* the faults that may happen; 0: the seed chooses */
    void (*trace)(void *arg, const char *line); /* NULL: none; the hash covers the same lines */
    void *trace_arg;
} mr_ps_sim_options;

typedef struct mr_ps_sim_result {
    char *failure; /* NULL: everything held; freed by the caller */
    uint64_t hash; /* of the trace */
    int64_t end_ns;
    int n_events, n_faults;
    int n_acked, n_failed; /* parts of pushes: acknowledged; ended otherwise */
    int n_views, n_lost;   /* views published; ranges whose copies were all lost */
} mr_ps_sim_result;

void mr_ps_sim_run(const mr_ps_sim_options *o, mr_ps_sim_result *out);

#endif
