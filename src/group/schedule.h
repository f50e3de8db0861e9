/* group/schedule.h -- the algorithms as lists of steps: what each member sends to whom, and when.
 *
 * Pure: a schedule is made from the algorithm, the number of members and a member's rank, and can be carried out
 * over anything that sends and receives, blocking (group/run.c) or not.  All positions are in elements of one working
 * buffer, which is the same size at all members and holds their own values at first.
 *
 * A step sends a range of the buffer as it is before the step, and receives another, which is merged with the present
 * values or replaces them.  The ranges of one step never overlap.  A member does its steps in their order; what it
 * sends to another in its k-th send to it is received by that one's k-th receive from it, so a pair needs nothing but
 * order.
 *
 * The last merge of each element happens at one member, and all others get its result unchanged: so all members have
 * the same bits. */
#ifndef MR_GROUP_SCHEDULE_H
#define MR_GROUP_SCHEDULE_H

#include "base/vec.h"
#include "base/status.h"

typedef enum mr_group_algorithm {
    MR_GROUP_AUTO,    /* by size */
    MR_GROUP_RING,    /* bandwidth: 2 (n - 1) steps with a part each */
    MR_GROUP_HALVING, /* latency: recursive halving, then doubling; about 2 log n steps */
    MR_GROUP_DIRECT,  /* every member with every other; merged in the order of ranks */
} mr_group_algorithm;

typedef struct mr_group_step {
    int to, from; /* -1: none */
    int64_t send_at, send_n;
    int64_t recv_at, recv_n;
    bool merge; /* merge what is received: buffer = received . buffer; else it replaces the buffer's values */
} mr_group_step;
typedef MR_VEC(mr_group_step) mr_group_steps;

/* Member `rank`'s part of `count` elements; the parts differ by at most one element. */
static inline void mr_group_part(int64_t count, int size, int rank, int64_t *at, int64_t *n)
{
    int64_t each = count / size, more = count % size;
    *at = each * rank + (rank < more ? rank : more);
    *n = each + (rank < more);
}

/* After these the whole buffer is merged, at all members.  Ring or halving, any number of members. */
void mr_schedule_all_reduce(mr_group_algorithm a, int size, int rank, int64_t count, mr_group_steps *out);
/* After these part `rank` (mr_group_part) is merged; the rest of the buffer is undefined. */
void mr_schedule_reduce_scatter(int size, int rank, int64_t count, mr_group_steps *out);
/* Each holds its part at first; after these, all hold all. */
void mr_schedule_all_gather(int size, int rank, int64_t count, mr_group_steps *out);
/* From the root to all: a binomial tree. */
void mr_schedule_broadcast(int size, int rank, int root, int64_t count, mr_group_steps *out);

enum { MR_GROUP_SMALL = 64 << 10 };
/* What AUTO stands for: halving up to MR_GROUP_SMALL bytes, then a ring. */
mr_group_algorithm mr_group_choose(mr_group_algorithm a, int64_t bytes);
/* "ring", "halving", "direct" or "auto"; false: none of them. */
bool mr_group_algorithm_from_name(const char *name, mr_group_algorithm *out);

#endif
