/* millrace/group.h -- collective operations between processes: all-reduce, broadcast and others.
 *
 * A group is a set of processes, its members, each with a rank. All members call the same operations in the same order,
 * and all get the same result, bit for bit:
 *
 *     mr_group *g = mr_group_join(NULL, status);                        // rank and size come from the launcher
 *     mr_group_all_reduce(g, x, x, n, TF_FLOAT, MR_GROUP_MEAN, status); // x becomes the mean over all members
 *     mr_group_free(g);
 *
 * Members on one host share memory; others communicate through gRPC or MPI. When a member dies or leaves, the
 * operations of the others fail with TF_ABORTED and a message that names it. mr_group_reform then forms a group of the
 * remaining members and of those that have joined meanwhile, with new ranks:
 *
 *     while (!done) {
 *         mr_group_all_reduce(g, gradients, gradients, n, TF_FLOAT, MR_GROUP_MEAN, status);
 *         if (TF_GetCode(status) == TF_ABORTED) {
 *             mr_group_reform(g, status);
 *             mr_group_broadcast(g, weights, weights, n, TF_FLOAT, 0, status);   // all continue from member 0
 *         }
 *         ...
 *     }
 *
 * One thread at a time runs an operation of a group; other threads wait. */
#ifndef MILLRACE_GROUP_H
#define MILLRACE_GROUP_H

#include "millrace/millrace.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- membership ---- */

/* This process as a member of a group. */
typedef struct mr_group mr_group;

/* The group and this member. */
typedef struct mr_group_options {
    size_t struct_size; /* sizeof(mr_group_options) */
    /* Name of the group, letters and digits; NULL: "group", or a name derived from the cluster in TF_CONFIG. */
    const char *name;
    int size; /* number of members; 0: size and rank come from TF_CONFIG (its workers), mpirun or srun */
    int rank; /* number of this member, from 0 */
    /* "shm", "grpc" or "mpi"; NULL: the environment variable MILLRACE_GROUP_TRANSPORT, or shm if all members are on
     * this host, otherwise grpc. */
    const char *transport;
    /* With shared memory, the folder where members meet; only this user may write to it. NULL: a folder of the user. */
    const char *folder;
    /* With gRPC, the addresses of all members, by rank: "host:port,host:port"; NULL: those of the workers in
     * TF_CONFIG. */
    const char *addresses;
    int min_size;         /* members that a group needs to continue after a loss; 0: one, or more than half with gRPC */
    int64_t join_ms;      /* how long to wait for members, at the start and after a loss; 0: ten minutes */
    int64_t timeout_ms;   /* time limit of each operation; 0: ten minutes */
    int64_t cycle_ms;     /* how long an asynchronous all-reduce waits for others to be combined with it; 0: 1 */
    int64_t fusion_bytes; /* how many bytes are combined; 0: 16 MiB */
} mr_group_options;

/* Joins a group and waits until all members have joined. Returns NULL after an error. */
MR_EXPORT extern mr_group *mr_group_join(const mr_group_options *options, TF_Status *status);
/* Leaves the group and frees it. Asynchronous operations that are under way end with TF_CANCELLED. NULL is allowed. */
MR_EXPORT extern void mr_group_free(mr_group *g);

/* Returns the rank of this member, from 0. It may change in mr_group_reform. */
MR_EXPORT extern int mr_group_rank(mr_group *g);
/* Returns the number of members. It may change in mr_group_reform. */
MR_EXPORT extern int mr_group_size(mr_group *g);
/* Returns a number that increases whenever the group is formed; 1 at first. */
MR_EXPORT extern int64_t mr_group_generation(mr_group *g);
/* Forms the group again, from the remaining members and the processes that are waiting to join. The operations of the
 * other members end with TF_ABORTED, so that they call it too. */
MR_EXPORT extern void mr_group_reform(mr_group *g, TF_Status *status);
/* Returns whether a process is waiting for mr_group_reform to let it in. Members may learn this at different times; to
 * act alike, they all-reduce the answer. */
MR_EXPORT extern unsigned char mr_group_waiting(mr_group *g);

/* ---- operations ----
 *
 * `count` is a number of elements of `type`. `in` and `out` may be the same memory where the comment says so. An
 * operation fails with TF_ABORTED when a member is lost, and with TF_DEADLINE_EXCEEDED after timeout_ms. */

/* How elements are combined. */
typedef enum mr_group_reduction {
    MR_GROUP_SUM,
    MR_GROUP_PRODUCT,
    MR_GROUP_MIN,
    MR_GROUP_MAX,
    MR_GROUP_MEAN, /* the sum divided by the number of members */
} mr_group_reduction;

/* Reduces `count` elements over all members; every member gets the result. in and out may be the same. All numeric
 * types are supported; minimum and maximum not for complex types. */
MR_EXPORT extern void mr_group_all_reduce(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type,
                                          mr_group_reduction how, TF_Status *status);
/* The same, but combines elements in the order of ranks, so that the bits are the same with every transport and
 * algorithm. If all members have MILLRACE_DETERMINISTIC=1, the other reductions do this too. */
MR_EXPORT extern void mr_group_all_reduce_in_order(mr_group *g, const void *in, void *out, int64_t count,
                                                   TF_DataType type, mr_group_reduction how, TF_Status *status);
/* Reduces `count` elements over all members and gives each member one part: out gets part `rank` of the result, count /
 * size elements. count must be a multiple of the size of the group. */
MR_EXPORT extern void mr_group_reduce_scatter(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type,
                                              mr_group_reduction how, TF_Status *status);
/* Collects `count` elements from each member: out gets count * size elements, in the order of ranks. */
MR_EXPORT extern void mr_group_all_gather(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type,
                                          TF_Status *status);
/* Copies `count` elements from `in` of the member `root` to `out` of all members. in and out may be the same. */
MR_EXPORT extern void mr_group_broadcast(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type,
                                         int root, TF_Status *status);
/* Exchanges blocks of `count` elements: block i of member k becomes block k of member i. in and out have count * size
 * elements. */
MR_EXPORT extern void mr_group_all_to_all(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type,
                                          TF_Status *status);
/* Waits until all members have called it. */
MR_EXPORT extern void mr_group_barrier(mr_group *g, TF_Status *status);

/* ---- asynchronous operations ---- */

/* An all-reduce that is under way. */
typedef struct mr_group_pending mr_group_pending;

/* Starts an all-reduce and returns at once. Many small ones are combined into one. Members may start them in different
 * orders: they are matched by name, which must be unique among those under way. in and out must stay valid until the
 * end. Returns NULL after an error. */
MR_EXPORT extern mr_group_pending *mr_group_all_reduce_async(mr_group *g, const char *name, const void *in, void *out,
                                                             int64_t count, TF_DataType type, mr_group_reduction how,
                                                             TF_Status *status);
/* Returns whether the operation has ended, without waiting. */
MR_EXPORT extern unsigned char mr_group_is_done(mr_group_pending *p);
/* Waits for the operation to end, reports its status and frees p. May be called before or after mr_group_free. */
MR_EXPORT extern void mr_group_wait(mr_group_pending *p, TF_Status *status);

/* ---- memory ---- */

/* Allocates memory that members on one host share: an all-reduce in place (in and out the same) of such memory copies
 * nothing. With other transports it is ordinary memory. Returns NULL if there is none. */
MR_EXPORT extern void *mr_group_alloc(mr_group *g, size_t bytes);
/* Frees such memory. Call it before mr_group_free, which frees what is left. */
MR_EXPORT extern void mr_group_release(mr_group *g, void *memory);

#ifdef __cplusplus
}
#endif

#endif
