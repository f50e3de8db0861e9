/* tensor/central.h -- size classes, and the free blocks that belong to no thread.
 *
 * A request up to 256 KiB is rounded up to one of 44 classes: every 64 bytes up to 256, then four
 * classes a doubling.  Free blocks travel between threads in batches: chains of exactly
 * mr_batch_of(class) blocks, ended by NULL.  For allocator.c only. */
#ifndef MR_TENSOR_CENTRAL_H
#define MR_TENSOR_CENTRAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"

enum {
    MR_N_CLASSES = 44,
    MR_MAX_SMALL = 256 << 10, /* the largest class */
    MR_BATCH_BYTES = 32 << 10,
};

typedef struct mr_block { /* a free one; its links are inside it */
    struct mr_block *next;       /* in its chain */
    struct mr_block *next_batch; /* of the first block of a batch in a central list */
} mr_block;

static inline int mr_class_of(size_t bytes)
{
    if (bytes <= 256)
        return bytes ? (int)((bytes - 1) / 64) : 0;
    size_t last = bytes - 1;
    int log = 63 - __builtin_clzll(last);
    return 4 + (log - 8) * 4 + (int)(last >> (log - 2) & 3);
}

static inline size_t mr_class_bytes(int c)
{
    if (c < 4)
        return (size_t)(c + 1) * 64;
    return (size_t)(5 + (c & 3)) << (6 + (c - 4) / 4);
}

static inline uint32_t mr_batch_of(int c)
{
    size_t n = MR_BATCH_BYTES / mr_class_bytes(c);
    return (uint32_t)MR_MIN(MR_MAX(n, 1), 64);
}

/* A chain of up to `want` blocks, at most a batch; *got is their number. NULL: no memory. */
mr_block *mr_central_take(int class, uint32_t want, uint32_t *got);
/* Takes back a chain: a batch when `whole`. */
void mr_central_give(int class, mr_block *chain, bool whole);
/* Returns the pages of spans without a used block. */
void mr_central_trim(void);

#endif
