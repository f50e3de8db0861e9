/* run/collective.h -- what members of a group compute together: all-reduce, gather, broadcast and their kin.
 *
 * An op makes a call and is told when its result is there.  Who the members are, and how their data meets, is the
 * business of an mr_collective; the one in ops/collective/local.c joins members inside one process, the one in
 * server/collective.c those of a cluster.  A call says
 * everything a ring over transports needs as well: the group, which exchange of the group this is, how many
 * members there are and, where it is known, which of them this one is. */
#ifndef MR_RUN_COLLECTIVE_H
#define MR_RUN_COLLECTIVE_H

#include "run/run.h"

typedef enum mr_collective_kind {
    MR_ALL_REDUCE,
    MR_REDUCE_SCATTER, /* each gets its part of dimension 0 of the reduced tensor */
    MR_GATHER,         /* one behind the other along dimension 0, for all */
    MR_BROADCAST,      /* from the one that brings a tensor */
    MR_ALL_TO_ALL,     /* row i of member k becomes row k of member i */
} mr_collective_kind;

typedef enum mr_merge { MR_MERGE_ADD, MR_MERGE_MUL, MR_MERGE_MAX, MR_MERGE_MIN } mr_merge;

typedef struct mr_collective_call {
    mr_collective_kind kind;
    int64_t group_key, instance_key;
    int64_t subgroup;    /* of groups that are cut into parts; else 0 */
    int64_t group_size;
    int64_t rank;        /* -1: as the names of devices, then the order of coming say */
    mr_merge merge;
    bool mean;           /* divide by the group's size in the end */
    bool ring;           /* the op's hint asks for one; who reduces another way to the same result may pass over it */
    const mr_tensor *in; /* borrowed from the run; NULL: a receiver of a broadcast */
    mr_dtype type;
    double timeout_s;    /* 0: none */
} mr_collective_call;

typedef struct mr_collective mr_collective;
struct mr_collective {
    const char *name;
    /* Ends the asynchronous run r; its output 0 is the result.  Ended early by the cancellation of its step
     * (CANCELLED), by the timeout (DEADLINE_EXCEEDED), or by the failure of another member (ABORTED). */
    void (*start)(mr_collective *c, mr_run *r, const mr_collective_call *call);
};

/* Joins members inside this process. */
mr_collective *mr_collective_local(void);

/* ---- run/collective.c: which one an op uses ---- */
/* Ops of the session that has this caller of functions use c from now on; NULL: no more.  Few ops ask, so a session is
 * looked up rather than told to every step. */
void mr_collective_bind(const mr_caller *session, mr_collective *c);
/* That of the session of r; where there is none, the one that joins members inside this process. */
mr_collective *mr_collective_of(const mr_run *r);

#endif
