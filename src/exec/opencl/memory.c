/* exec/opencl/memory.c -- the memory of an OpenCL device, as an allocator.
 *
 * OpenCL's buffers have no addresses, but tensors need them: views and rows are made by adding to a pointer.
 * So every buffer gets a range of addresses that is reserved and can be neither read nor written (PROT_NONE).
 * Host code that touches device memory by mistake crashes at once instead of computing with garbage.
 *
 * Buffers (chunks) are large. Blocks are cut from them, best fit first, and joined with their neighbours when
 * freed. A freed block may be handed out again at once, because the device runs all commands in order
 * (driver.h).
 *
 * Invariants:
 * - The blocks of a chunk cover it without gaps, in order of `at`; two neighbours are never both free.
 * - A block is either in the free list (is_free) or in `used`.
 * - `held` is the sum of all chunks and never exceeds `limit`. */
#include <sys/mman.h>

#include "base/map.h"
#include "base/memory.h"
#include "exec/opencl/opencl.h"

#define CHUNK_BYTES ((size_t)32 << 20) /* of a buffer, unless one block wants more */
#define ALIGN ((size_t)256)

typedef struct block {
    struct chunk *chunk;
    size_t at, bytes;
    struct block *before, *after; /* neighbours in the chunk */
    struct block *prev, *next;    /* in the list of free blocks */
    bool is_free;
} block;

typedef struct chunk {
    void *buffer;
    char *base; /* reserved addresses */
    size_t bytes;
    block *first;
    struct chunk *next;
} chunk;

struct mr_opencl_memory {
    mr_allocator a; /* first: its address is ours */
    const mr_cl_driver *driver;
    mr_cl_device *d;
    uint64_t limit, max_buffer;
    char *name;
    mr_mutex mu;
    chunk *chunks MR_GUARDED_BY(mu);
    block *free_list MR_GUARDED_BY(mu);
    mr_imap used MR_GUARDED_BY(mu); /* blocks by address */
    uint64_t held MR_GUARDED_BY(mu); /* bytes of all chunks */
    mr_allocator_stats stats MR_GUARDED_BY(mu);
};

/* ---- the list of free blocks ---- */

/* Inserts a block at the front of the free list. */
static void list_add(mr_opencl_memory *m, block *b) MR_REQUIRES(m->mu)
{
    MR_ASSERT(!b->is_free);
    b->is_free = true;
    b->prev = NULL;
    b->next = m->free_list;
    if (b->next)
        b->next->prev = b;
    m->free_list = b;
}

/* The block stays in its chunk. */
static void list_remove(mr_opencl_memory *m, block *b) MR_REQUIRES(m->mu)
{
    MR_ASSERT(b->is_free);
    if (b->prev)
        b->prev->next = b->next;
    else
        m->free_list = b->next;
    if (b->next)
        b->next->prev = b->prev;
    b->is_free = false;
}

/* ---- chunks ---- */

/* A new chunk with one free block, or NULL if the limit, the device or the address space does not allow it.
 * The caller reports what was wanted. */
static chunk *chunk_new(mr_opencl_memory *m, size_t bytes) MR_REQUIRES(m->mu)
{
    void *buffer = NULL;
    MR_ASSERT(m->held <= m->limit);
    if (bytes > m->limit - m->held || bytes > m->max_buffer)
        return NULL;
    char *base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    mr_status *st = m->driver->buffer_new(m->d, bytes, &buffer);
    if (st) {
        mr_status_free(st);
        munmap(base, bytes);
        return NULL;
    }
    chunk *c = mr_new(chunk);
    *c = (chunk){.buffer = buffer, .base = base, .bytes = bytes, .first = mr_new(block), .next = m->chunks};
    *c->first = (block){.chunk = c, .bytes = bytes};
    list_add(m, c->first);
    m->chunks = c;
    m->held += bytes;
    return c;
}

/* Frees the chunks that have no block in use. OpenCL keeps a buffer until the commands that use it are done. */
static void trim_locked(mr_opencl_memory *m) MR_REQUIRES(m->mu)
{
    for (chunk **at = &m->chunks; *at;) {
        chunk *c = *at;
        if (!c->first->is_free || c->first->after) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        list_remove(m, c->first);
        m->driver->buffer_free(c->buffer);
        munmap(c->base, c->bytes);
        MR_ASSERT(m->held >= c->bytes);
        m->held -= c->bytes;
        mr_free(c->first);
        mr_free(c);
    }
}

/* ---- blocks ---- */

/* The smallest free block that is large enough; NULL: none. */
static block *best_fit(mr_opencl_memory *m, size_t bytes) MR_REQUIRES(m->mu)
{
    block *best = NULL;
    for (block *b = m->free_list; b; b = b->next)
        if (b->bytes >= bytes && (!best || b->bytes < best->bytes))
            best = b;
    return best;
}

/* Returns a free block of at least that size, from a new chunk if there is none. As a last resort unused
 * chunks are freed: together they may be large enough. */
static block *find_block(mr_opencl_memory *m, size_t bytes) MR_REQUIRES(m->mu)
{
    block *b = best_fit(m, bytes);
    if (b)
        return b;
    size_t usual = (size_t)MR_MIN((uint64_t)CHUNK_BYTES, m->max_buffer);
    chunk *c = chunk_new(m, MR_MAX(bytes, usual));
    if (!c)
        c = chunk_new(m, bytes);
    if (!c) {
        trim_locked(m);
        c = chunk_new(m, bytes);
    }
    return c ? c->first : NULL;
}

/* Cuts the block to size; the rest becomes a free block, unless it is too small to be useful. */
static void split_block(mr_opencl_memory *m, block *b, size_t bytes) MR_REQUIRES(m->mu)
{
    MR_ASSERT(b->bytes >= bytes && !b->is_free);
    if (b->bytes - bytes < ALIGN)
        return;
    block *rest = mr_new(block);
    *rest = (block){.chunk = b->chunk, .at = b->at + bytes, .bytes = b->bytes - bytes, .before = b, .after = b->after};
    if (rest->after)
        rest->after->before = rest;
    b->after = rest;
    b->bytes = bytes;
    list_add(m, rest);
}

/* Joins b, which is free, with the block behind it, if that is free too. */
static void join_after(mr_opencl_memory *m, block *b) MR_REQUIRES(m->mu)
{
    block *gone = b->after;
    MR_ASSERT(b->is_free && (!gone || gone->before == b));
    if (!gone || !gone->is_free)
        return;
    list_remove(m, gone);
    b->bytes += gone->bytes;
    b->after = gone->after;
    if (b->after)
        b->after->before = b;
    mr_free(gone);
}

/* ---- the allocator ---- */

/* Blocks are multiples of ALIGN, and an empty one has an address too. */
static size_t round_size(size_t bytes) { return bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN; }

/* bytes must be rounded. The free block that was found leaves the list before it is cut. */
static void *alloc_locked(mr_opencl_memory *m, size_t bytes) MR_REQUIRES(m->mu)
{
    block *b = find_block(m, bytes);
    MR_ASSERT(bytes % ALIGN == 0 && bytes > 0);
    if (!b)
        return NULL;
    list_remove(m, b);
    split_block(m, b, bytes);
    char *p = b->chunk->base + b->at;
    mr_imap_put(&m->used, (uint64_t)(uintptr_t)p, b);
    m->stats.in_use += (int64_t)b->bytes;
    m->stats.peak = MR_MAX(m->stats.peak, m->stats.in_use);
    m->stats.n_allocs++;
    return p;
}

/* A size above the limit is refused before rounding, which could overflow. */
static void *device_alloc(mr_allocator *a, size_t bytes)
{
    mr_opencl_memory *m = (mr_opencl_memory *)a;
    if (bytes > m->limit)
        return NULL;
    mr_lock(&m->mu);
    void *p = alloc_locked(m, round_size(bytes));
    mr_unlock(&m->mu);
    return p;
}

/* Joins the block with both neighbours, so that two free blocks are never adjacent. */
static void device_free(mr_allocator *a, void *p, size_t bytes)
{
    mr_opencl_memory *m = (mr_opencl_memory *)a;
    (void)bytes;
    mr_lock(&m->mu);
    block *b = mr_imap_remove(&m->used, (uint64_t)(uintptr_t)p);
    MR_ASSERT(b && !b->is_free);
    m->stats.in_use -= (int64_t)b->bytes;
    list_add(m, b);
    join_after(m, b);
    if (b->before && b->before->is_free)
        join_after(m, b->before);
    mr_unlock(&m->mu);
}

/* in_use and peak count rounded sizes. */
static void device_stats(mr_allocator *a, mr_allocator_stats *out)
{
    mr_opencl_memory *m = (mr_opencl_memory *)a;
    mr_lock(&m->mu);
    *out = m->stats;
    mr_unlock(&m->mu);
    out->limit = (int64_t)m->limit;
}

/* Gives unused chunks back to the device, when a session ends. */
static void device_trim(mr_allocator *a)
{
    mr_opencl_memory *m = (mr_opencl_memory *)a;
    mr_lock(&m->mu);
    trim_locked(m);
    mr_unlock(&m->mu);
}

/* True if the range is inside the chunk; no sum can overflow. */
static bool chunk_holds(const chunk *c, const char *p, size_t bytes)
{
    return p >= c->base && bytes <= c->bytes && (size_t)(p - c->base) <= c->bytes - bytes;
}

/* Searches the list of chunks: there are few, and the newest comes first. */
mr_status *mr_opencl_find(mr_opencl_memory *m, const void *p, size_t bytes, void **buffer, size_t *at)
{
    mr_lock(&m->mu);
    const chunk *c = m->chunks;
    while (c && !chunk_holds(c, p, bytes))
        c = c->next;
    if (c) {
        *buffer = c->buffer;
        *at = (size_t)((const char *)p - c->base);
    }
    mr_unlock(&m->mu);
    return c ? NULL : mr_error(MR_INTERNAL, "%zu bytes at %p are not in the memory of %s", bytes, p, m->name);
}

/* ---- copies for callers that have only tensors ---- */

/* A copy within the device is only queued; one from or to the host waits until it is done. */
static mr_status *device_copy(mr_allocator *a, void *dst, const void *src, size_t bytes, mr_copy_way way)
{
    mr_opencl_memory *m = (mr_opencl_memory *)a;
    void *to = NULL, *from = NULL;
    size_t to_at = 0, from_at = 0;
    mr_cl_event *e = NULL;
    if (way != MR_COPY_OUT)
        MR_TRY(mr_opencl_find(m, dst, bytes, &to, &to_at));
    if (way != MR_COPY_IN)
        MR_TRY(mr_opencl_find(m, src, bytes, &from, &from_at));
    if (way == MR_COPY_WITHIN)
        return m->driver->copy(m->d, to, to_at, from, from_at, bytes);
    if (way == MR_COPY_IN)
        MR_TRY(m->driver->write(m->d, to, to_at, src, bytes, &e));
    else
        MR_TRY(m->driver->read(m->d, from, from_at, dst, bytes, &e));
    return m->driver->wait(e);
}

/* Clears up to the next multiple of 4, as the driver requires: a block always has room for that. */
static mr_status *device_clear(mr_allocator *a, void *p, size_t bytes)
{
    mr_opencl_memory *m = (mr_opencl_memory *)a;
    void *buffer;
    size_t at;
    MR_TRY(mr_opencl_find(m, p, bytes, &buffer, &at));
    return m->driver->fill(m->d, buffer, at, (bytes + 3) / 4 * 4, 0);
}

/* Allocates nothing on the device yet: the first tensor makes the first chunk. */
mr_opencl_memory *mr_opencl_memory_new(const mr_cl_driver *driver, mr_cl_device *d, const char *name, uint64_t limit,
                                       uint64_t max_buffer)
{
    mr_opencl_memory *m = mr_new(mr_opencl_memory);
    m->driver = driver;
    m->d = d;
    m->limit = limit;
    m->max_buffer = MR_MIN(max_buffer, limit);
    m->name = mr_strdup(name);
    mr_mutex_init(&m->mu);
    m->a = (mr_allocator){.name = m->name,
                          .alloc = device_alloc,
                          .free = device_free,
                          .stats = device_stats,
                          .trim = device_trim,
                          .copy = device_copy,
                          .clear = device_clear};
    return m;
}

/* Nothing that was handed out may still be in use. */
static void free_chunks(mr_opencl_memory *m) MR_NO_TSA
{
    for (chunk *c = m->chunks, *next; c; c = next) {
        next = c->next;
        for (block *b = c->first, *after; b; b = after) {
            after = b->after;
            mr_free(b);
        }
        m->driver->buffer_free(c->buffer);
        munmap(c->base, c->bytes);
        mr_free(c);
    }
}

/* Only for tests: the memory of a physical device lives as long as the process. */
void mr_opencl_memory_free(mr_opencl_memory *m)
{
    if (!m)
        return;
    free_chunks(m);
    mr_imap_deinit(&m->used);
    mr_mutex_deinit(&m->mu);
    mr_free(m->name);
    mr_free(m);
}

mr_allocator *mr_opencl_allocator(mr_opencl_memory *m) { return &m->a; }
