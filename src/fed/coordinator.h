/* fed/coordinator.h -- the server's side of federated averaging: the model, and rounds that change it.
 *
 * dist/federated.c decides; this file keeps the state: the requests to clients, the updates of the present attempt, the
 * weights. It does not know how clients are reached: simulated.c or server.c reports clients that join and leave, hands
 * out tasks and delivers answers, from any thread.
 *
 * The thread that calls mr_fed_coordinator_round watches the time and averages. */
#ifndef MR_FED_COORDINATOR_H
#define MR_FED_COORDINATOR_H

#include "fed/task.h"

typedef struct mr_fed_coordinator mr_fed_coordinator;

typedef struct mr_fed_coordinator_options {
    mr_fed_options rounds;
    mr_fed_config config; /* of every round; the coordinator sets round, seed and sum_clients */
    double server_rate;     /* the mean update is multiplied by it; 0: 1 */
    double server_momentum; /* the share of earlier updates that is added to the next */
    int64_t wait_ns;        /* how long a round waits for enough clients; 0: without a limit */
    /* Reports that a client has a task (mr_fed_coordinator_task). Called from any thread, without locks. */
    void (*asked)(void *arg, int client);
    void *arg;
} mr_fed_coordinator_options;

typedef struct mr_fed_coordinator_report {
    int64_t round;
    int tries;
    int asked, updates; /* of the attempt that succeeded */
    int there;          /* clients that are connected at its end */
    int64_t examples;
    double loss; /* weighted mean of the clients' means */
    double seconds;
} mr_fed_coordinator_report;

/* Takes over the weights, also on failure. */
mr_status *mr_fed_coordinator_new(const mr_fed_coordinator_options *o, mr_fed_weights *weights, mr_fed_coordinator **out);
void mr_fed_coordinator_free(mr_fed_coordinator *c); /* no thread may use it any more; accepts NULL */

/* Adds a client and returns its number; -1: all numbers are in use. */
int mr_fed_coordinator_join(mr_fed_coordinator *c);
/* The same with a number that the caller knows to be free. */
void mr_fed_coordinator_join_as(mr_fed_coordinator *c, int client);
void mr_fed_coordinator_gone(mr_fed_coordinator *c, int client);
int mr_fed_coordinator_there(mr_fed_coordinator *c); /* how many clients are connected */
/* True if this client's answer to a task would still count. */
bool mr_fed_coordinator_waits(mr_fed_coordinator *c, int client, const mr_fed_task *t);
/* The present task of this client; false: none now. */
bool mr_fed_coordinator_task(mr_fed_coordinator *c, int client, mr_fed_task *out);
/* Takes over the answer. INVALID_ARGUMENT if it is malformed: its client is excluded from the attempt. Late and
 * repeated answers are dropped silently. */
mr_status *mr_fed_coordinator_answer(mr_fed_coordinator *c, int client, mr_fed_answer *a);

/* Runs until the next round is complete. ABORTED after too many attempts, DEADLINE_EXCEEDED if too few clients connect,
 * CANCELLED by stop, or the error of fail. */
mr_status *mr_fed_coordinator_round(mr_fed_coordinator *c, mr_fed_coordinator_report *out);
void mr_fed_coordinator_rate(mr_fed_coordinator *c, float rate); /* of the clients, from the next round on */
mr_fed_weights *mr_fed_coordinator_weights(mr_fed_coordinator *c); /* a reference */
/* Ends the present round and all later ones with st, which it takes. */
void mr_fed_coordinator_fail(mr_fed_coordinator *c, mr_status *st);
void mr_fed_coordinator_stop(mr_fed_coordinator *c);

#endif
