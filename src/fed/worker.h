/* fed/worker.h -- one client: carries out a task and makes the answer, in this process or in another one. */
#ifndef MR_FED_WORKER_H
#define MR_FED_WORKER_H

#include "fed/secure.h"
#include "fed/task.h"

typedef struct mr_fed_worker {
    mr_learner_examples examples;
    mr_secure_client *secure; /* of the ticket below */
    int64_t ticket;
} mr_fed_worker;

void mr_fed_worker_deinit(mr_fed_worker *w);
/* Fills in the answer. Errors of the task become a refusal. Errors of this process (the session, CANCELLED) are
 * returned, and the answer is a refusal then too. */
mr_status *mr_fed_worker_do(mr_fed_worker *w, mr_learner *l, const mr_fed_task *t, mr_learner_stop stop, mr_fed_answer *out);

#endif
