/* group/group.h -- members that compute together: all-reduce and its kin.
 *
 * An operation is told as mr_group_work and carried out by mr_group_run, which blocks.  All members run the same
 * operations in the same order, with the same type, count and merge; where they do not, those that find out get
 * INVALID_ARGUMENT.  The result has the same bits at all members.
 *
 * mr_group_run_on is all of it for whoever has a transport of his own: nothing else of this folder is needed then. */
#ifndef MR_GROUP_GROUP_H
#define MR_GROUP_GROUP_H

#include "group/schedule.h"
#include "group/transport.h"
#include "run/collective.h"
#include "tensor/dtype.h"

typedef enum mr_group_kind {
    MR_GROUP_ALL_REDUCE,
    MR_GROUP_REDUCE_SCATTER, /* in: count elements; out: part `rank` of them (mr_group_part) */
    MR_GROUP_ALL_GATHER,     /* in: count elements; out: size * count, in the order of ranks */
    MR_GROUP_BROADCAST,      /* root's in to all out; in is not looked at elsewhere */
    MR_GROUP_ALL_TO_ALL,     /* in and out: size * count; block i of k becomes block k of i */
    MR_GROUP_BARRIER,
} mr_group_kind;

struct mr_group_work {
    mr_group_kind kind;
    mr_dtype type; /* plain; for reductions a number */
    mr_merge merge;
    bool mean; /* with MR_MERGE_ADD */
    const void *in;
    void *out;     /* may be `in`, but for all-to-all and the gathers; else they do not overlap */
    int64_t count; /* of elements */
    int root;
    mr_group_algorithm algorithm; /* AUTO: MILLRACE_GROUP_ALGORITHM, or by size */
    bool deterministic; /* elements are merged in the order of ranks, so that every transport and algorithm gives the same bits */
};

/* What is wrong with it, before anything is sent; also sizes that overflow. */
mr_status *mr_group_work_check(const mr_group_work *w, int size, int rank);
/* Carries out an operation over a transport.  After an error the transport is of no use any more. */
mr_status *mr_group_run_on(mr_transport *t, const mr_group_work *w, int64_t deadline_ns);

/* ---- groups that find each other, and change ---- */

typedef struct mr_group mr_group;

typedef struct mr_group_config {
    const char *name;
    const char *transport; /* "shm", "grpc" or "mpi" */
    int rank, size;        /* of the first generation; rank -1: any (shm) */
    int least;             /* members that a later one must have; 0: one, over gRPC more than half of the last */
    const char *folder;    /* shm: where they meet; NULL: the user's own */
    const char *const *addresses; /* grpc: of all, by rank */
    int n_addresses;
    int64_t join_ns;       /* 0: ten minutes */
    int64_t timeout_ns;    /* of each operation; 0: ten minutes */
    int64_t cycle_ns;      /* how long small tensors wait for others to be fused with; 0: 1 ms */
    int64_t fusion_bytes;  /* of a fused buffer; 0: 16 MiB */
} mr_group_config;

/* Joins, and waits for the first generation. */
mr_status *mr_group_open(const mr_group_config *c, mr_group **out);
/* Leaves, and frees.  Operations that were begun end first, CANCELLED where they had not started. */
void mr_group_close(mr_group *g);
/* Carries out an operation; other threads wait their turn.  When a member is lost in the middle it ends with ABORTED naming it;
 * then nothing goes before mr_group_form. */
mr_status *mr_group_run(mr_group *g, const mr_group_work *w);
/* Forms the group anew, with those that are there and those that wait.  For the others, the present generation is over. */
mr_status *mr_group_form(mr_group *g);
/* Of the present generation. */
int mr_group_own_rank(mr_group *g);
int mr_group_n_members(mr_group *g);
int64_t mr_group_number(mr_group *g);
bool mr_group_is_wanted(mr_group *g); /* somebody waits for the next generation */

/* Memory that the members of a group on one host see at once: an all-reduce in place copies nothing.  NULL: no memory. */
void *mr_group_memory(mr_group *g, size_t bytes);
void mr_group_memory_free(mr_group *g, void *p);

/* ---- fusion (fusion.c) ---- */

/* An all-reduce that is carried out some time soon, together with others.  Members may begin theirs in different orders: they are
 * known by name.  done is called once, from the group's own thread. */
typedef struct mr_group_request {
    mr_group_work work; /* MR_GROUP_ALL_REDUCE */
    const char *name;   /* copied */
    void (*done)(void *arg, mr_status *st); /* owns st */
    void *arg;
} mr_group_request;
mr_status *mr_group_begin(mr_group *g, const mr_group_request *r);

#endif
