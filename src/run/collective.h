/* run/collective.h -- collective operations of a group: all-reduce, gather, broadcast and similar ones.
 *
 * An op starts a call, and its run ends when the result exists. An mr_collective decides who the members are and how
 * their data meets: the one in ops/collective/local.c joins members inside one process, the one in
 * server/collective.c joins the tasks of a cluster. A call holds everything that a ring over transports needs: the
 * group, the number of the exchange, the group size and, if it is known, the rank of this member. */
#ifndef MR_RUN_COLLECTIVE_H
#define MR_RUN_COLLECTIVE_H

#include "run/run.h"

typedef enum mr_collective_kind {
    MR_ALL_REDUCE,
    MR_REDUCE_SCATTER, /* each member gets its part of dimension 0 of the reduced tensor */
    MR_GATHER,         /* every member gets all inputs, concatenated along dimension 0 */
    MR_BROADCAST,      /* every member gets the tensor of the one member that has an input */
    MR_ALL_TO_ALL,     /* row i of member k becomes row k of member i */
} mr_collective_kind;

typedef enum mr_merge { MR_MERGE_ADD, MR_MERGE_MUL, MR_MERGE_MAX, MR_MERGE_MIN } mr_merge;

typedef struct mr_collective_call {
    mr_collective_kind kind;
    int64_t group_key, instance_key;
    int64_t subgroup;    /* which part of a group that is split into parts; else 0 */
    int64_t group_size;
    int64_t rank;        /* -1: decided by the names of the devices, then by the order of arrival */
    mr_merge merge;
    bool mean;           /* divide the result by the group size */
    bool ring;           /* the op's hint asks for a ring; another algorithm with the same result is allowed */
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
/* From now on, the ops of the session with this caller use c; NULL removes the binding. */
void mr_collective_bind(const mr_caller *session, mr_collective *c);
/* The one bound to the session of r; without a binding, the one that joins members inside this process. */
mr_collective *mr_collective_of(const mr_run *r);

#endif
