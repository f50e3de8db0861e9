/* fed/client.h -- a client of a server elsewhere (fed/server.h). */
#ifndef MR_FED_CLIENT_H
#define MR_FED_CLIENT_H

#include "fed/worker.h"

typedef struct mr_fed_client_options {
    const char *address;
    mr_learner *learner;
    mr_learner_examples examples;
    int64_t deadline_ns; /* how long a server that is not there is looked for */
    bool secure;         /* plain rounds are refused */
    const volatile int *stop; /* not 0: it is to end, CANCELLED; NULL: nothing does.  Looked at between steps and every tenth of a second */
} mr_fed_client_options;

/* Works until the server says that it is over. */
mr_status *mr_fed_client_run(const mr_fed_client_options *o, int64_t *updates);

#endif
