/* group/group.h -- collective operations between processes: all-reduce and similar.
 *
 * An operation is described by mr_group_work and carried out by mr_group_run, which blocks.  All members run the same
 * operations in the same order, with the same type, count and merge; members that notice a difference get
 * INVALID_ARGUMENT.  The result has the same bits at all members.
 *
 * A caller with its own transport needs only mr_group_run_on. */
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
    MR_GROUP_BROADCAST,      /* root's in to every out; in is ignored at other members */
    MR_GROUP_ALL_TO_ALL,     /* in and out: size * count; block i of k becomes block k of i */
    MR_GROUP_BARRIER,
} mr_group_kind;

struct mr_group_work {
    mr_group_kind kind;
    mr_dtype type; /* plain; for reductions a number */
    mr_merge merge;
    bool mean; /* with MR_MERGE_ADD */
    const void *in;
    void *out; /* may equal `in`, except for all-to-all, all-gather and reduce-scatter; otherwise they do not overlap */
    int64_t count; /* of elements */
    int root;
    mr_group_algorithm algorithm; /* AUTO: the value of MILLRACE_GROUP_ALGORITHM, or chosen by size */
    bool deterministic; /* merge in the order of ranks, so that every transport and algorithm gives the same bits */
};

/* Checks an operation, including sizes that overflow, before anything is sent. */
mr_status *mr_group_work_check(const mr_group_work *w, int size, int rank);
/* Carries out an operation over a transport.  After an error the transport cannot be used again. */
mr_status *mr_group_run_on(mr_transport *t, const mr_group_work *w, int64_t deadline_ns);

/* ---- groups whose members find each other, and may change ---- */

typedef struct mr_group mr_group;

typedef struct mr_group_config {
    const char *name;
    const char *transport; /* "shm", "grpc" or "mpi" */
    int rank, size;        /* of the first generation; rank -1: any (shm) */
    int least; /* members that a later generation needs; 0: one, over gRPC more than half of the previous generation */
    const char *folder;    /* shm: folder for sockets and the lock file; NULL: the user's runtime folder */
    const char *const *addresses; /* grpc: of all, by rank */
    int n_addresses;
    int64_t join_ns;       /* 0: ten minutes */
    int64_t timeout_ns;    /* of each operation; 0: ten minutes */
    int64_t cycle_ns;      /* how long small tensors wait for others to be fused with; 0: 1 ms */
    int64_t fusion_bytes;  /* of a fused buffer; 0: 16 MiB */
} mr_group_config;

/* Joins the group and waits for the first generation. */
mr_status *mr_group_open(const mr_group_config *c, mr_group **out);
/* Leaves the group and frees it.  Requests of mr_group_begin end first, with CANCELLED if they had not started. */
void mr_group_close(mr_group *g);
/* Carries out an operation; other threads wait their turn.  If a member is lost meanwhile, it ends with ABORTED naming
 * the member, and so does every later operation until mr_group_form. */
mr_status *mr_group_run(mr_group *g, const mr_group_work *w);
/* Ends the present generation for all members and forms the next one from those present and those waiting to join. */
mr_status *mr_group_form(mr_group *g);
/* Of the present generation. */
int mr_group_own_rank(mr_group *g);
int mr_group_n_members(mr_group *g);
int64_t mr_group_number(mr_group *g);
bool mr_group_is_wanted(mr_group *g); /* a process is waiting for the next generation */

/* Memory shared by the members of a group on one host: an in-place all-reduce in it copies nothing.  NULL: out of
 * memory. */
void *mr_group_memory(mr_group *g, size_t bytes);
void mr_group_memory_free(mr_group *g, void *p);

/* ---- fusion (fusion.c) ---- */

/* An all-reduce that is carried out soon, together with others.  Requests are matched by name, so members may begin
 * them in different orders.  done is called once, on the group's fusion thread. */
typedef struct mr_group_request {
    mr_group_work work; /* MR_GROUP_ALL_REDUCE */
    const char *name;   /* copied */
    void (*done)(void *arg, mr_status *st); /* owns st */
    void *arg;
} mr_group_request;
mr_status *mr_group_begin(mr_group *g, const mr_group_request *r);

#endif
