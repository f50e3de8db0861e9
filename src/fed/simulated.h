/* fed/simulated.h -- clients inside this process: many of them share the sessions of a few threads. */
#ifndef MR_FED_SIMULATED_H
#define MR_FED_SIMULATED_H

#include "fed/coordinator.h"
#include "fed/worker.h"

typedef struct mr_fed_simulated mr_fed_simulated;

typedef struct mr_fed_simulated_options {
    mr_fed_coordinator_options coordinator; /* rounds.n_clients, asked and arg are set here */
    const mr_learner_examples *clients; /* borrowed until it is freed */
    int n_clients;
    mr_learner *learners; /* one per thread; borrowed likewise */
    int n_learners;
    /* For experiments: with this probability a client is lost when it gets a task, and joins again at once. */
    double lose;
} mr_fed_simulated_options;

mr_status *mr_fed_simulated_new(const mr_fed_simulated_options *o, mr_fed_weights *weights, mr_fed_simulated **out);
void mr_fed_simulated_free(mr_fed_simulated *s); /* ends its threads; NULL is fine */
mr_fed_coordinator *mr_fed_simulated_coordinator(mr_fed_simulated *s);

#endif
