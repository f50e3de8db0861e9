/* fed/coordinator.h -- the server's side of federated averaging: the model, and rounds that change it.
 *
 * dist/federated.c decides; this file keeps the state: who is asked for what, the updates of the present attempt, the
 * weights.  It does not know how clients are reached: simulated.c or server.c reports who joins and leaves, hands out
 * tasks and brings answers, from any thread.
 *
 * The thread that calls mr_fed_coordinator_round watches the time and averages. */
#ifndef MR_FED_COORDINATOR_H
#define MR_FED_COORDINATOR_H

#include "fed/task.h"

typedef struct mr_fed_coordinator mr_fed_coordinator;

typedef struct mr_fed_coordinator_options {
    mr_fed_options rounds;
    mr_fed_config config; /* of every round; round, seed and sum_clients are filled in here */
    double server_rate;     /* the mean update is multiplied by it; 0: 1 */
    double server_momentum; /* the share of earlier updates that is added to the next */
    int64_t wait_ns;        /* how long a round waits for enough clients; 0: for ever */
    /* A client has something to do: mr_fed_coordinator_task.  Without locks, from any thread. */
    void (*asked)(void *arg, int client);
    void *arg;
} mr_fed_coordinator_options;

typedef struct mr_fed_coordinator_report {
    int64_t round;
    int tries;
    int asked, updates; /* of the try that succeeded */
    int there;          /* clients at its end */
    int64_t examples;
    double loss; /* weighted mean of the clients' means */
    double seconds;
} mr_fed_coordinator_report;

/* The weights are taken over. */
mr_status *mr_fed_coordinator_new(const mr_fed_coordinator_options *o, mr_fed_weights *weights, mr_fed_coordinator **out);
void mr_fed_coordinator_free(mr_fed_coordinator *c); /* no thread may use it any more; accepts NULL */

/* A free number, or -1: all are taken. */
int mr_fed_coordinator_join(mr_fed_coordinator *c);
/* The same with a number the caller knows to be free. */
void mr_fed_coordinator_join_as(mr_fed_coordinator *c, int client);
void mr_fed_coordinator_gone(mr_fed_coordinator *c, int client);
int mr_fed_coordinator_there(mr_fed_coordinator *c); /* how many clients are */
/* Whether this client's answer to a task would still count. */
bool mr_fed_coordinator_waits(mr_fed_coordinator *c, int client, const mr_fed_task *t);
/* What this client is asked for; false: nothing now. */
bool mr_fed_coordinator_task(mr_fed_coordinator *c, int client, mr_fed_task *out);
/* Takes over the answer.  INVALID_ARGUMENT when it is malformed: its client is out of the try.  Late and repeated ones
 * are dropped silently. */
mr_status *mr_fed_coordinator_answer(mr_fed_coordinator *c, int client, mr_fed_answer *a);

/* Runs until the next round is complete.  ABORTED after too many attempts, DEADLINE_EXCEEDED when there are too few
 * clients, CANCELLED by stop, or the error of fail. */
mr_status *mr_fed_coordinator_round(mr_fed_coordinator *c, mr_fed_coordinator_report *out);
void mr_fed_coordinator_rate(mr_fed_coordinator *c, float rate); /* of the clients, from the next round on */
mr_fed_weights *mr_fed_coordinator_weights(mr_fed_coordinator *c); /* a reference */
/* Rounds end, now and for ever; takes st. */
void mr_fed_coordinator_fail(mr_fed_coordinator *c, mr_status *st);
void mr_fed_coordinator_stop(mr_fed_coordinator *c);

#endif
