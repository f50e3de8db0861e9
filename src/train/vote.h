/* train/vote.h -- the record of dist/election.h at a parameter server: which worker is the chief.
 *
 * The record is the only element of a queue, `chief`, on the device of the global step.  A queue needs no initial
 * value, and after a restart of its task there is no record, as it should be.  A mutex makes a compare-and-swap of
 * dequeue and enqueue. */
#ifndef MR_TRAIN_VOTE_H
#define MR_TRAIN_VOTE_H

#include "dist/election.h"
#include "exec/session.h"
#include "train/nn.h"

typedef struct mr_nn_vote {
    mr_out expect, want; /* int64 [2] to feed */
    mr_out found;        /* int64 [2]: the record afterwards */
    mr_node *done;       /* releases the mutex */
} mr_nn_vote;

/* Adds the nodes; errors go to the network's scope. */
void mr_nn_vote_init(mr_nn_vote *v, mr_nn *n);
/* One worker's part of the election: reads the record, and becomes or stays chief if it may.  The result is in e. */
mr_status *mr_nn_vote_run(mr_nn_vote *v, mr_session *s, mr_election *e);

#endif
