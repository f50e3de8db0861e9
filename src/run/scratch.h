/* run/scratch.h -- room a kernel works in and gives back before its run ends.
 *
 * It comes from the allocator of the run's device, as outputs do: counted against its budget, 64-byte aligned, and
 * retained when freed, so that a step that ran before asks malloc for nothing.  A kernel uses this for arrays sized by
 * its input; where a tensor is the handier form, mr_run_temp gives one.  What outlives the run (states, resources)
 * does not come from here.
 *
 * NULL means no memory or over the budget, and the caller answers MR_RESOURCE_EXHAUSTED.  Zero bytes give a valid
 * pointer.  Any thread that works for the run may call these. */
#ifndef MR_RUN_SCRATCH_H
#define MR_RUN_SCRATCH_H

#include "run/run.h"

void *mr_scratch(const mr_run *r, size_t bytes) __attribute__((alloc_size(2)));
void *mr_scratch_zeroed(const mr_run *r, size_t n, size_t bytes) __attribute__((alloc_size(2, 3)));
/* Room for more, with what p (NULL: nothing) held; on NULL, p is as it was. */
void *mr_scratch_more(const mr_run *r, void *p, size_t bytes) __attribute__((alloc_size(3)));
void mr_scratch_free(void *p); /* NULL is fine */

#endif
