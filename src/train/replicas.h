/* train/replicas.h -- where the variables of a replicated network go.
 *
 * Between-graph replication: every worker builds the same network; its variables are on the parameter servers, found
 * by their names, and everything else is on the worker.  The choice depends only on the order in which variables are
 * made and their sizes, so all workers choose alike.  Slots of optimizers stay beside their variable. */
#ifndef MR_TRAIN_REPLICAS_H
#define MR_TRAIN_REPLICAS_H

#include "train/nn.h"

typedef enum mr_replicas_strategy {
    MR_REPLICAS_ROUND_ROBIN, /* one after the other, as TensorFlow's replica_device_setter */
    MR_REPLICAS_BY_SIZE,     /* where the fewest bytes are so far */
} mr_replicas_strategy;

typedef struct mr_replicas {
    mr_replicas_strategy strategy;
    int n_ps;
    int next;
    int64_t *bytes;       /* by task */
    const char **devices; /* by task, in the graph's arena */
} mr_replicas;

/* From now on variables of n go to tasks 0 .. n_ps-1 of a job ("ps"), other nodes to `worker`
 * ("/job:worker/task:1").  INVALID_ARGUMENT, kept in the scope, for an invalid count or name. */
void mr_nn_replicate(mr_nn *n, const char *ps_job, int n_ps, const char *worker, mr_replicas_strategy strategy);

void mr_replicas_free(mr_replicas *r); /* accepts NULL */
/* The device of the next variable. */
const char *mr_replicas_place(mr_replicas *r, int64_t bytes);

#endif
