/* run/scratch.h -- temporary memory that a kernel frees before its run ends.
 *
 * It comes from the allocator of the run's device, like outputs: it counts against the budget and is 64-byte aligned.
 * The allocator keeps freed blocks, so repeated steps do not call malloc. Kernels use it for arrays sized by their
 * input; mr_run_temp allocates a temporary tensor. Objects that outlive the run (states, resources) must not use it.
 *
 * NULL means out of memory or over the budget; the caller returns MR_RESOURCE_EXHAUSTED. Zero bytes give a valid
 * pointer. Any thread that works for the run may call these functions. */
#ifndef MR_RUN_SCRATCH_H
#define MR_RUN_SCRATCH_H

#include "run/run.h"

void *mr_scratch(const mr_run *r, size_t bytes) __attribute__((alloc_size(2)));
void *mr_scratch_zeroed(const mr_run *r, size_t n, size_t bytes) __attribute__((alloc_size(2, 3)));
/* Grows p (NULL: empty) to `bytes` and keeps its content. On failure returns NULL and leaves p unchanged. */
void *mr_scratch_more(const mr_run *r, void *p, size_t bytes) __attribute__((alloc_size(3)));
void mr_scratch_free(void *p); /* NULL is fine */

#endif
