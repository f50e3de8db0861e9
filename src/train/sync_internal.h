/* train/sync_internal.h -- the nodes of synchronous training: sync.c adds them, sync_run.c runs them. */
#ifndef MR_TRAIN_SYNC_INTERNAL_H
#define MR_TRAIN_SYNC_INTERNAL_H

#include "base/thread.h"
#include "train/sync.h"
#include "train/tracer.h"

/* The first number of a fetched tensor, checked, because a peer may have sent anything. */
static inline mr_status *mr_fetched_i64(const mr_tensor *t, int64_t *out)
{
    if (!t || t->dtype != MR_INT64 || t->n < 1)
        return mr_error(MR_INTERNAL, "A fetched value is not an int64");
    *out = *MR_DATA(int64_t, t);
    return NULL;
}

typedef struct mr_sync_accumulator {
    mr_out count;   /* gradients in it: int32 */
    mr_node *drain; /* removes them */
} mr_sync_accumulator;

typedef MR_VEC(mr_node *) mr_sync_nodes;

struct mr_nn_sync {
    mr_nn_sync_options o;
    /* a worker's step */
    mr_out local; /* int64 to feed: its stamp */
    mr_out token[2]; /* stamp and global step, after the gradients */
    mr_out wait[2];  /* the same, without gradients */
    /* messages */
    mr_out message[3]; /* int64 to feed: worker, kind, stamp */
    mr_node *say, *say_join, *say_leave;
    /* the chief's */
    mr_out events[3];  /* int64 vectors, at least one element */
    mr_out required;   /* int32 to feed */
    mr_out give;       /* int64 to feed: stamp of tokens */
    mr_out to;         /* int32 [n_workers] to feed: how many tokens each gets */
    mr_node *apply;    /* takes the gradients, updates, then gives tokens */
    mr_out step_after; /* the global step after the update of `apply` */
    mr_node *tell;     /* gives tokens */
    mr_out stamp;      /* int64 to feed */
    mr_node *set_stamp;
    mr_out step; /* the global step */
    mr_out left; /* bool [n_workers]: its last message was that it leaves, since the task with the queues started */
    mr_mutex mu;
    mr_sync_figures *figures MR_GUARDED_BY(mu); /* by worker; NULL: this process never led */
    bool *knew_left; /* by worker: it had left when this process last led; used by the leading thread alone */
    bool *present MR_GUARDED_BY(mu); /* by worker: it has not left; NULL: this process never led */
    MR_VEC(mr_sync_accumulator) accumulators;
    mr_sync_nodes pushed; /* ApplyGradient of each variable; with a bounded delay the update */
    mr_sync_nodes set;    /* SetGlobalStep of each */
    mr_tracer *tracer; /* traces updates; borrowed, may be NULL */
};

#endif
