/* train/all_reduce.h -- data-parallel training by all-reduce: every worker has all variables, and all make the same step.
 *
 * Gradients are put together in buckets, from the last layer to the first as back-propagation makes them, and the mean
 * of a bucket over all workers is asked for as soon as its gradients are there, while earlier layers are still
 * being differentiated.  All means are there before the first variable changes, so a step that a loss ends has changed
 * nothing; and each number is computed by one worker, so all have the same bits.
 *
 * Of a sparse gradient (rows of an embedding) the rows travel: each worker gets those of all, in the order of ranks, and
 * makes the mean itself, from the same numbers in the same order.
 *
 * Workers are in a generation (dist/elastic.h).  When one is lost the step fails for the rest, which join the next
 * generation, take the variables of the one that has come farthest, and go on. */
#ifndef MR_TRAIN_ALL_REDUCE_H
#define MR_TRAIN_ALL_REDUCE_H

#include "exec/session.h"
#include "run/cancel.h"
#include "train/net.h"

typedef struct mr_reduce_ask {
    int worker, n_workers;
    int64_t generation; /* that it was in before; 0: none */
    int64_t step;       /* how far it has come */
    int64_t wait_ms, settle_ms, deadline_ms;
    mr_cancel *cancel; /* ends the wait; NULL: nobody does */
} mr_reduce_ask;

typedef struct mr_reduce_group {
    int64_t generation;
    int group_key, size, rank, source;
} mr_reduce_group;

typedef struct mr_net_reduce_options {
    int n_workers, worker;
    int64_t bucket_bytes; /* 0: 4 MiB; below 0: each gradient by itself */
    bool no_overlap;      /* buckets wait for the last gradient */
    bool sparse_as_dense; /* sparse gradients are made dense before they travel */
    int64_t wait_ms;      /* for all workers, at first; 0: a minute */
    int64_t settle_ms;    /* for the rest, after a loss; 0: half a second */
    float timeout_s;      /* of an exchange; 0: as long as the cluster lets it */
} mr_net_reduce_options;

typedef struct mr_net_reduce {
    mr_net_reduce_options o;
    mr_node *train; /* the update from the means */
    int n_buckets, n_sparse; /* dense gradients travel in buckets, sparse ones by themselves */
    /* Inside: */
    mr_out size, key;             /* of the group, to be fed */
    mr_node *send, *receive;      /* all variables, from the source and at the others */
    mr_out step;
    /* Set by who trains; NULL: there is one worker only. */
    mr_status *(*join)(void *arg, const mr_reduce_ask *a, mr_reduce_group *out);
    void *arg;
    mr_reduce_group group; /* now; generation 0: none yet.  The client's thread's, */
    _Atomic int size_now;  /* and the same for whoever watches */
    _Atomic int64_t generation_now;
} mr_net_reduce;

/* In place of mr_net_minimize.  All variables of the network are on this worker's device.  Errors go to the network's scope;
 * NULL then.  mr_net_reduce_free. */
mr_net_reduce *mr_net_reduce_new(mr_network *n, mr_out loss, const mr_net_optimizer *o, const mr_net_reduce_options *options);
void mr_net_reduce_free(mr_net_reduce *r);
/* Its first half, for whoever makes the update himself: g is what it is to be made from, the means of the workers' gradients, and
 * has to be deinitialised in any case.  The update, which also raises the global step, becomes `train`. */
mr_net_reduce *mr_net_reduce_begin(mr_network *n, mr_out loss, const mr_net_reduce_options *options, mr_net_gradients *g);
/* Behind everything that has variables: what hands them from the source to the others. */
void mr_net_reduce_complete(mr_net_reduce *r, mr_network *n);

/* Is in the next generation, with the variables of its source; they were made ready before.  cancel (may be NULL) ends the wait for
 * others; what runs in the session ends with that. */
mr_status *mr_net_reduce_join(mr_net_reduce *r, mr_session *s, int64_t deadline_ms, mr_cancel *cancel);
/* What a training step has to feed: two outputs, and values that are owned. */
void mr_net_reduce_feeds(const mr_net_reduce *r, mr_out feeds[2], mr_tensor *values[2]);

#endif
