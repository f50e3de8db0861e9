/* train/sync_internal.h -- the nodes of synchronous training: sync.c adds them, sync_run.c runs them. */
#ifndef MR_TRAIN_SYNC_INTERNAL_H
#define MR_TRAIN_SYNC_INTERNAL_H

#include "base/thread.h"
#include "train/sync.h"
#include "train/tracer.h"

/* The first number of what a run fetched; a peer may have sent anything. */
static inline mr_status *mr_fetched_i64(const mr_tensor *t, int64_t *out)
{
    if (!t || t->dtype != MR_INT64 || t->n < 1)
        return mr_error(MR_INTERNAL, "A run gave no int64 where one was fetched");
    *out = *MR_DATA(int64_t, t);
    return NULL;
}

typedef struct mr_sync_accumulator {
    mr_out count;   /* gradients in it: int32 */
    mr_node *drain; /* takes what is in it */
} mr_sync_accumulator;

typedef MR_VEC(mr_node *) mr_sync_nodes;

struct mr_net_sync {
    mr_net_sync_options o;
    /* a worker's step */
    mr_out local; /* int64 to feed: its stamp */
    mr_out token[2]; /* stamp and global step, behind the gradients */
    mr_out wait[2];  /* the same at once */
    /* words */
    mr_out word[3]; /* int64 to feed: worker, word, stamp */
    mr_node *say, *say_join, *say_leave;
    /* the chief's */
    mr_out events[3];  /* int64 vectors, at least one element */
    mr_out required;   /* int32 to feed */
    mr_out give[2];    /* int64 to feed: stamp and step of tokens */
    mr_out to;         /* int32 [n_workers] to feed: how many tokens each gets */
    mr_node *apply;    /* takes, updates, then gives tokens */
    mr_node *tell;     /* gives tokens */
    mr_out stamp;      /* int64 to feed */
    mr_node *set_stamp;
    mr_out step; /* the global step */
    mr_out left; /* bool [n_workers]: whose last word was that it leaves, since the task that holds the queues started */
    mr_mutex mu;
    mr_sync_figures *figures MR_GUARDED_BY(mu); /* by worker; NULL: this process never led */
    bool *knew_left; /* the same, as this process knew it when it last led */
    bool *present MR_GUARDED_BY(mu); /* by worker: it has not left; NULL: this process never led */
    MR_VEC(mr_sync_accumulator) accumulators;
    mr_sync_nodes pushed; /* ApplyGradient of each variable; or, each for itself, the update */
    mr_sync_nodes set;    /* SetGlobalStep of each */
    mr_tracer *tracer; /* of updates; borrowed, may be NULL */
};

#endif
