/* fed/client.h -- a client of a server elsewhere (fed/server.h). */
#ifndef MR_FED_CLIENT_H
#define MR_FED_CLIENT_H

#include "fed/worker.h"

typedef struct mr_fed_client_options {
    const char *address;
    mr_learner *learner;
    mr_learner_examples examples;
    int64_t deadline_ns; /* how long to retry while the server does not answer */
    bool secure;         /* refuse plain rounds */
    /* A value other than 0 stops the client (CANCELLED); read between steps and every tenth of a second. NULL: none. */
    const volatile int *stop;
} mr_fed_client_options;

/* Works until the server reports the end of training. *updates: how many updates were sent. */
mr_status *mr_fed_client_run(const mr_fed_client_options *o, int64_t *updates);

#endif
