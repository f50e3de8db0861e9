/* tensor/allocator.h -- where tensor data comes from.
 *
 * A device has an allocator.  The one of the CPU retains what is freed, in size classes with a
 * small cache per thread, and asks for huge pages, because a page fault costs more than most
 * kernels: after warm-up a training step calls neither malloc nor mmap.  All memory is 64-byte
 * aligned. */
#ifndef MR_TENSOR_ALLOCATOR_H
#define MR_TENSOR_ALLOCATOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct mr_allocator_stats {
    int64_t in_use, peak, limit; /* bytes handed out now and at most; 0: no limit */
    int64_t n_allocs;
} mr_allocator_stats;

typedef enum mr_copy_way { MR_COPY_WITHIN, MR_COPY_IN, MR_COPY_OUT } mr_copy_way; /* IN: from host memory */

typedef struct mr_allocator mr_allocator;
struct mr_allocator {
    const char *name;
    void *(*alloc)(mr_allocator *a, size_t bytes); /* NULL: out of memory or over the budget */
    void (*free)(mr_allocator *a, void *p, size_t bytes); /* bytes: the size it was allocated with */
    void (*stats)(mr_allocator *a, mr_allocator_stats *out); /* NULL: nothing is counted */
    void (*trim)(mr_allocator *a);                           /* NULL: nothing is retained */
    /* Ordinary memory of this process: the header of a small tensor may share a block with its
     * data. */
    bool host;
    /* Of other memory, whose addresses must not be touched: copies and zeros, in order with all that the device does.
     * Copies from and to host memory are done on return, others need not be. */
    mr_status *(*copy)(mr_allocator *a, void *dst, const void *src, size_t bytes, mr_copy_way way);
    mr_status *(*clear)(mr_allocator *a, void *p, size_t bytes);
};

/* The process-wide one; always there, never freed. */
mr_allocator *mr_cpu_allocator(void);
/* An allocator with at most `limit` bytes in use at a time (0: no limit), on top of another one
 * (NULL: the CPU's). After mr_budget_free it exists until the last of its blocks is freed, so a
 * fetched tensor may outlive the session whose budget it came from. */
mr_allocator *mr_budget_new(mr_allocator *base, const char *name, int64_t limit);
void mr_budget_free(mr_allocator *a); /* NULL is fine */

/* Exact if no other thread is allocating, except for the peak of the CPU: threads report every 64
 * KiB. */
void mr_allocator_get_stats(mr_allocator *a, mr_allocator_stats *out);
/* Gives retained memory back to the system. */
void mr_allocator_trim(mr_allocator *a);

/* Small blocks (tensor headers, step bookkeeping) from the same per-thread caches, 64-byte aligned;
 * ends the process when memory is out.  Not counted in the statistics. */
void *mr_small_alloc(size_t bytes);
void mr_small_free(void *p, size_t bytes);

#endif
