/* run/scratch.c -- temporary memory of kernels: a block of the device's allocator behind a head.
 *
 * Allocators need the size of a block when it is freed, and a kernel that fails halfway should not have to
 * remember it. So the first cache line of a block holds its allocator and its size. The kernel gets the
 * memory behind it, which is aligned as the block is. */
#include "run/scratch.h"

#include "base/memory.h"

typedef struct head {
    mr_allocator *a;
    size_t bytes; /* of the whole block, with this head */
} head;

_Static_assert(sizeof(head) <= MR_CACHE_LINE, "the head fits before the first aligned byte");

static head *head_of(void *p) { return (head *)((char *)p - MR_CACHE_LINE); }

/* Always host memory: a kernel that computes on its device still reads its own arrays on the host. */
static mr_allocator *allocator_of(const mr_run *r)
{
    mr_allocator *a = mr_run_allocator(r);
    return a->host ? a : mr_cpu_allocator();
}

/* The size of the block is the requested one plus a cache line for the head; a sum that overflows counts as out of
 * memory. */
void *mr_scratch(const mr_run *r, size_t bytes)
{
    mr_allocator *a = allocator_of(r);
    size_t all;
    head *h = mr_size_add(bytes, MR_CACHE_LINE, &all) ? a->alloc(a, all) : NULL;
    if (!h)
        return NULL;
    *h = (head){a, all};
    return (char *)h + MR_CACHE_LINE;
}

/* Clears the memory, because allocators keep freed blocks with their old contents. */
void *mr_scratch_zeroed(const mr_run *r, size_t n, size_t bytes)
{
    size_t all;
    void *p = mr_size_mul(n, bytes, &all) ? mr_scratch(r, all) : NULL;
    return p ? memset(p, 0, all) : NULL;
}

/* Copies to a new block: allocators cannot grow one in place. On NULL, p is unchanged. */
void *mr_scratch_more(const mr_run *r, void *p, size_t bytes)
{
    void *more = mr_scratch(r, bytes);
    if (more && p) {
        memcpy(more, p, MR_MIN(bytes, head_of(p)->bytes - MR_CACHE_LINE));
        mr_scratch_free(p);
    }
    return more;
}

void mr_scratch_free(void *p)
{
    if (!p)
        return;
    head *h = head_of(p);
    MR_ASSERT((uintptr_t)p % MR_CACHE_LINE == 0 && h->bytes >= MR_CACHE_LINE);
    h->a->free(h->a, h, h->bytes);
}
