/* train/all_reduce.h -- data-parallel training by all-reduce: every worker has all variables, and all make the same
 * step.
 *
 * Gradients are collected in buckets, from the last layer to the first, in the order of back-propagation.  A bucket is
 * reduced to its mean over all workers as soon as its gradients are complete, while earlier layers are still being
 * differentiated.  All means are complete before the first variable changes, so a step that fails has changed nothing;
 * and each number is computed by one worker, so all have the same bits.
 *
 * Of a sparse gradient (rows of an embedding) only the rows are sent: each worker gets the rows of all, in the order of
 * ranks, and computes the mean itself, from the same numbers in the same order.
 *
 * Workers form a generation (dist/elastic.h).  When one is lost, the step fails for the others; they join the next
 * generation, take the variables of the worker with the highest step, and continue. */
#ifndef MR_TRAIN_ALL_REDUCE_H
#define MR_TRAIN_ALL_REDUCE_H

#include "exec/session.h"
#include "run/cancel.h"
#include "train/nn.h"

typedef struct mr_reduce_ask {
    int worker, n_workers;
    int64_t generation; /* its last one; 0: none */
    int64_t step;       /* its global step */
    int64_t wait_ms, settle_ms, deadline_ms;
    mr_cancel *cancel; /* ends the wait; may be NULL */
} mr_reduce_ask;

typedef struct mr_reduce_group {
    int64_t generation;
    int group_key, size, rank, source;
} mr_reduce_group;

typedef struct mr_nn_reduce_options {
    int n_workers, worker;
    int64_t bucket_bytes; /* 0: 4 MiB; negative: a bucket for each gradient */
    bool no_overlap;      /* exchanges wait for the last gradient */
    bool sparse_as_dense; /* sparse gradients are made dense before they are sent */
    int64_t wait_ms;      /* for all workers, at the first start; 0: a minute */
    int64_t settle_ms;    /* for the other workers, after a loss; 0: half a second */
    float timeout_s;      /* of an exchange; 0: it has no timeout */
} mr_nn_reduce_options;

typedef struct mr_nn_reduce {
    mr_nn_reduce_options o;
    mr_node *train; /* the update from the means */
    int n_buckets, n_sparse; /* exchanges of dense and of sparse gradients */
    /* internal: */
    mr_out size, key;             /* of the group, to be fed */
    mr_node *send, *receive;      /* all variables, from the source and at the others */
    mr_out step;
    /* Set by the caller; NULL: there is only one worker. */
    mr_status *(*join)(void *arg, const mr_reduce_ask *a, mr_reduce_group *out);
    void *arg;
    mr_reduce_group group; /* the present one, for the client's thread; generation 0: none yet */
    _Atomic int size_now;  /* the same for other threads */
    _Atomic int64_t generation_now;
} mr_nn_reduce;

/* In place of mr_nn_minimize.  All variables of the network are on this worker's device.  Errors go to the network's scope;
 * NULL then.  mr_nn_reduce_free. */
mr_nn_reduce *mr_nn_reduce_new(mr_nn *n, mr_out loss, const mr_nn_optimizer *o, const mr_nn_reduce_options *options);
void mr_nn_reduce_free(mr_nn_reduce *r);
/* The first half, for callers that make the update themselves from g, the mean gradients of the workers; deinit g in
 * any case. Set `train` to the update, which also increments the global step. */
mr_nn_reduce *mr_nn_reduce_begin(mr_nn *n, mr_out loss, const mr_nn_reduce_options *options, mr_nn_gradients *g);
/* Adds the nodes that copy variables from the source to the others; call it after everything that adds variables. */
void mr_nn_reduce_complete(mr_nn_reduce *r, mr_nn *n);

/* Joins the next generation and takes the variables of its source; variables must be initialized before.  cancel (may
 * be NULL) ends the wait for others; runs in the session end when the session is closed. */
mr_status *mr_nn_reduce_join(mr_nn_reduce *r, mr_session *s, int64_t deadline_ms, mr_cancel *cancel);
/* What a training step has to feed: two outputs, and their values, which the caller owns. */
void mr_nn_reduce_feeds(const mr_nn_reduce *r, mr_out feeds[2], mr_tensor *values[2]);

#endif
