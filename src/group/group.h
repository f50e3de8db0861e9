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

#endif
