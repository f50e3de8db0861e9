/* millrace/group.h -- processes that compute together: all-reduce and its kin.
 *
 * A group is some processes, its members, each with a rank.  All call the same operations in the same order, and each gets
 * the result, with the same bits:
 *
 *     mr_group *g = mr_group_join(NULL, status);                        // rank and size as the launcher says
 *     mr_group_all_reduce(g, x, x, n, TF_FLOAT, MR_GROUP_MEAN, status); // x: the mean over all members
 *     mr_group_free(g);
 *
 * Members of one host share memory, others talk through gRPC or MPI.  When a member dies or leaves, the operations of the
 * others end with TF_ABORTED and a message that names it; then mr_group_reform makes a group of those who are left, and of
 * those who have come meanwhile, with new ranks:
 *
 *     while (!done) {
 *         mr_group_all_reduce(g, gradients, gradients, n, TF_FLOAT, MR_GROUP_MEAN, status);
 *         if (TF_GetCode(status) == TF_ABORTED) {
 *             mr_group_reform(g, status);
 *             mr_group_broadcast(g, weights, weights, n, TF_FLOAT, 0, status);   // where member 0 was, all go on
 *         }
 *         ...
 *     }
 *
 * One thread at a time runs operations of a group; others wait their turn.  Structs of options begin with their size, and zero
 * is a sensible value of every other field. */
#ifndef MILLRACE_GROUP_H
#define MILLRACE_GROUP_H

#include "millrace/millrace.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_group mr_group;

typedef struct mr_group_options {
    size_t struct_size;    /* sizeof(mr_group_options) */
    const char *name;      /* of the group, letters and digits; NULL: "group", or one of the cluster in TF_CONFIG */
    int size, rank;        /* size 0: both as TF_CONFIG (its workers), mpirun or srun have set them */
    const char *transport; /* "shm", "grpc", "mpi"; NULL: MILLRACE_GROUP_TRANSPORT, or shm when all are on this host, else grpc */
    const char *folder;    /* shm: where members meet, only this user may write there; NULL: a folder of the user */
    const char *addresses; /* grpc: of all members, by rank: "host:port,host:port"; NULL: those of the workers in TF_CONFIG */
    int min_size;          /* members that a group must have to go on after a loss; 0: 1, over gRPC more than half */
    int64_t join_ms;       /* how long members are waited for, at first and after a loss; 0: ten minutes */
    int64_t timeout_ms;    /* of each operation; 0: ten minutes */
    int64_t cycle_ms;      /* how long an asynchronous all-reduce waits for others to be done with it; 0: 1 */
    int64_t fusion_bytes;  /* how much is done together; 0: 16 MiB */
} mr_group_options;

/* Joins a group, and waits until all members are there.  NULL after an error. */
MR_EXPORT extern mr_group *mr_group_join(const mr_group_options *options, TF_Status *status);
/* Leaves the group and frees it; asynchronous operations that are under way end with TF_CANCELLED. */
MR_EXPORT extern void mr_group_free(mr_group *g);

MR_EXPORT extern int mr_group_rank(mr_group *g);
MR_EXPORT extern int mr_group_size(mr_group *g);
/* Rises whenever the group is formed anew; 1 at first. */
MR_EXPORT extern int64_t mr_group_generation(mr_group *g);
/* Forms the group anew, with who is left and who waits.  The others' operations end with TF_ABORTED, so that they come too. */
MR_EXPORT extern void mr_group_reform(mr_group *g, TF_Status *status);
/* Whether a process waits to be let in by mr_group_reform.  Members may hear of it at different times: to decide the same, they
 * all-reduce the answer. */
MR_EXPORT extern unsigned char mr_group_waiting(mr_group *g);

/* ---- operations: in and out may be the same where it is said ---- */

typedef enum mr_group_reduction { MR_GROUP_SUM, MR_GROUP_PRODUCT, MR_GROUP_MIN, MR_GROUP_MAX, MR_GROUP_MEAN } mr_group_reduction;

/* The reduction of count elements over all members; in may be out.  All types that are numbers; min and max not for complex ones. */
MR_EXPORT extern void mr_group_all_reduce(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type, mr_group_reduction how, TF_Status *status);
/* The same, where elements are added in the order of ranks: then the bits are the same over every transport and algorithm.  Where
 * all members have MILLRACE_DETERMINISTIC=1 the other reductions do so too. */
MR_EXPORT extern void mr_group_all_reduce_in_order(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type, mr_group_reduction how, TF_Status *status);
/* in: count elements at each member, a multiple of the size; out: the part `rank` of their reduction, count / size elements. */
MR_EXPORT extern void mr_group_reduce_scatter(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type, mr_group_reduction how, TF_Status *status);
/* in: count elements at each member; out: those of all, in the order of ranks. */
MR_EXPORT extern void mr_group_all_gather(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type, TF_Status *status);
/* What member root has in `in` comes to all in `out`, which may be the same. */
MR_EXPORT extern void mr_group_broadcast(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type, int root, TF_Status *status);
/* in, out: size times count elements; the i-th block of member k becomes the k-th of member i. */
MR_EXPORT extern void mr_group_all_to_all(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type, TF_Status *status);
/* Until all are here. */
MR_EXPORT extern void mr_group_barrier(mr_group *g, TF_Status *status);

/* ---- asynchronously ---- */

typedef struct mr_group_pending mr_group_pending;

/* Begins an all-reduce and returns; NULL after an error.  Many small ones are done together.  Members may begin them in different
 * orders: they know them by name, which is one for all that are under way. */
MR_EXPORT extern mr_group_pending *mr_group_all_reduce_async(mr_group *g, const char *name, const void *in, void *out, int64_t count, TF_DataType type, mr_group_reduction how, TF_Status *status);
/* Whether it is over, without waiting. */
MR_EXPORT extern unsigned char mr_group_is_done(mr_group_pending *p);
/* Waits for its end, and frees it.  Before mr_group_free, or after. */
MR_EXPORT extern void mr_group_wait(mr_group_pending *p, TF_Status *status);

/* ---- memory ---- */

/* Memory that members of one host see at once: an all-reduce in place (in is out) of such memory copies nothing.  Elsewhere plain
 * memory.  NULL: there is none. */
MR_EXPORT extern void *mr_group_alloc(mr_group *g, size_t bytes);
/* Before mr_group_free, which frees what is left. */
MR_EXPORT extern void mr_group_release(mr_group *g, void *memory);

#ifdef __cplusplus
}
#endif

#endif
