/* train/vote.h -- the record of dist/election.h at a parameter server: who is the chief.
 *
 * It is the one element of a queue, `chief`, beside the global step: a queue needs no initial value, and when its task was
 * started again there is no record, as there should not be.  A mutex beside it makes compare and swap of dequeue and
 * enqueue. */
#ifndef MR_TRAIN_VOTE_H
#define MR_TRAIN_VOTE_H

#include "dist/election.h"
#include "exec/session.h"
#include "train/net.h"

typedef struct mr_net_vote {
    mr_out expect, want; /* int64 [2] to feed */
    mr_out found;        /* int64 [2]: the record then */
    mr_node *done;       /* lets the next one in */
} mr_net_vote;

/* Adds the nodes; errors go to the network's scope. */
void mr_net_vote_init(mr_net_vote *v, mr_network *n);
/* One worker's part of the election: looks, and takes or keeps the place if it may.  The result is in e. */
mr_status *mr_net_vote_run(mr_net_vote *v, mr_session *s, mr_election *e);

#endif
