/* exec/straight.h -- runs a small program on the calling thread, one node after another.
 *
 * A function that a dataset calls for every element is usually a chain of a few cheap kernels. For such a program the
 * executor's counters, stacks and hand-overs between threads cost more than the kernels. An mr_straight has the nodes
 * in one fixed order and a flow of its own, and runs them in a loop.
 *
 * A program is straight if it has one part, on a device whose kernels run on the CPU, without loops, conditionals,
 * transfers or references, and if at most one of its nodes may wait. That node comes as late as the edges allow, so
 * that it holds up nothing that could run before it. */
#ifndef MR_EXEC_STRAIGHT_H
#define MR_EXEC_STRAIGHT_H

#include "exec/program.h"

typedef struct mr_straight mr_straight;

/* *out is NULL without an error if the program is not straight. */
mr_status *mr_straight_new(mr_program *p, mr_straight **out);
/* Runs of s are cancelled when `parent` is started, which must outlive s. Call this once, before the first run. */
void mr_straight_begin(mr_straight *s, mr_cancel *parent);
void mr_straight_free(mr_straight *s); /* nothing is running in it; NULL is fine */
mr_flow *mr_straight_flow(mr_straight *s); /* for its arguments and depth; its results are absent between runs */

/* Runs the program once. The arguments in the flow stay borrowed until it returns; the results are in the flow's rets.
 * On error there are none. The calling thread may wait if mr_straight_waits. */
mr_status *mr_straight_run(mr_straight *s);

/* True if some node may wait. */
bool mr_straight_waits(const mr_straight *s);
/* The number of nodes that were measured to be worth another thread, or were not measured yet. Some runs and
 * mr_straight_cost_ns look again. */
int mr_straight_heavy(const mr_straight *s);
/* About the time of a run; 0: not measured yet. */
int64_t mr_straight_cost_ns(mr_straight *s);

#endif
