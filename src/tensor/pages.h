/* tensor/pages.h -- runs of pages: what the CPU allocator is built on.
 *
 * Memory comes from the system in large regions that ask for huge pages, and stays: a freed run is
 * joined with its free neighbours and handed out again.  For the files of this folder only. */
#ifndef MR_TENSOR_PAGES_H
#define MR_TENSOR_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Under AddressSanitizer nothing is pooled or packed together: every block is a malloc of its own,
 * so that overruns and late uses are seen. */
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

/* n pages in a row, or NULL.  Their content is whatever was there. */
void *mr_pages_alloc(size_t n);
/* The run must be one that mr_pages_alloc gave, whole. */
void mr_pages_free(void *p, size_t n);

/* Gives free memory back: regions without a used page go, free runs in others lose their memory. */
void mr_pages_trim(void);

/* Bytes mapped from the system, and the most there may be: what the machine or container has. */
size_t mr_pages_mapped(void);
size_t mr_pages_limit(void);

#endif
