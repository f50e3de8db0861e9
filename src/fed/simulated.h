/* fed/simulated.h -- clients inside this process: many of them share the sessions of a few threads. */
#ifndef MR_FED_SIMULATED_H
#define MR_FED_SIMULATED_H

#include "fed/coordinator.h"
#include "fed/worker.h"

typedef struct mr_simulated mr_simulated;

typedef struct mr_simulated_options {
    mr_coordinator_options coordinator; /* rounds.n_clients, asked and arg are set here */
    const mr_learner_examples *clients; /* borrowed until it is freed */
    int n_clients;
    mr_learner *learners; /* one a thread; borrowed likewise */
    int n_learners;
    /* For trials: with this probability a client is lost when it is asked for something, and comes back at once. */
    double lose;
} mr_simulated_options;

mr_status *mr_simulated_new(const mr_simulated_options *o, mr_fed_weights *weights, mr_simulated **out);
void mr_simulated_free(mr_simulated *s); /* ends its threads; NULL is fine */
mr_coordinator *mr_simulated_coordinator(mr_simulated *s);

#endif
