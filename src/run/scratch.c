/* run/scratch.c -- scratch is a block of the device's allocator with a line before it.
 *
 * Allocators want a block's size back when it is freed, and a kernel that fails half-way has better things to do than
 * to remember it.  So the first cache line of a block says whose it is and how large; the kernel gets what is behind
 * it, which is aligned as the block is. */
#include "run/scratch.h"

#include "base/memory.h"

typedef struct head {
    mr_allocator *a;
    size_t bytes; /* of the block, head and all */
} head;

_Static_assert(sizeof(head) <= MR_CACHE_LINE, "the head fits before the first aligned byte");

static head *head_of(void *p) { return (head *)((char *)p - MR_CACHE_LINE); }

/* A kernel that computes by its device still keeps its own arrays where it can read them. */
static mr_allocator *allocator_of(const mr_run *r)
{
    mr_allocator *a = mr_run_allocator(r);
    return a->host ? a : mr_cpu_allocator();
}

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

void *mr_scratch_zeroed(const mr_run *r, size_t n, size_t bytes)
{
    size_t all;
    void *p = mr_size_mul(n, bytes, &all) ? mr_scratch(r, all) : NULL;
    return p ? memset(p, 0, all) : NULL;
}

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
