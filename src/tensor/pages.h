/* tensor/pages.h -- runs of pages: what the CPU allocator is built on.
 *
 * Memory comes from the system in large regions with huge pages, and is kept: a freed run is merged
 * with its free neighbours and used again. For the files of this folder only. */
#ifndef MR_TENSOR_PAGES_H
#define MR_TENSOR_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Under AddressSanitizer nothing is pooled or packed together: every block is a separate malloc, so
 * that overruns and uses after free are detected. */
#if defined(__SANITIZE_ADDRESS__)
#define MR_POOLED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MR_POOLED 0
#endif
#endif
#ifndef MR_POOLED
#define MR_POOLED 1
#endif

#define MR_PAGE_BYTES ((size_t)4096)

/* n contiguous pages, or NULL. Their contents are undefined. */
void *mr_pages_alloc(size_t n);
/* The run must be one that mr_pages_alloc gave, whole. */
void mr_pages_free(void *p, size_t n);

/* Returns free memory to the system: unmaps regions without a used page, and drops the memory of
 * free runs in others. */
void mr_pages_trim(void);

/* Bytes mapped from the system, and their limit: the memory of the machine or container. */
size_t mr_pages_mapped(void);
size_t mr_pages_limit(void);

#endif
