/* tensor/allocator.c -- the allocator of the CPU: a cache per thread over central lists over pages.
 *
 * Each thread has for each size class a stack of free blocks it works on and perhaps one full batch
 * in reserve, so a thread that allocates and frees by turns never leaves its own memory.  When both
 * are used up, or both are full, a batch is fetched from or left with the central list of the class
 * (central.h).  Requests above the largest class go to the pages straight (pages.h).
 *
 * A thread holds at most two batches a class: 64 KiB in each class up to 32 KiB, two blocks above,
 * about 5 MiB if it used every class there is.
 *
 * Invariants: `head` holds n blocks and ends with NULL; `spare` is NULL or one whole batch. Nothing
 * is kept about blocks in use, whose size the caller tells us again.
 *
 * Without MR_POOLED none of this is used (pages.h). */
#include "tensor/allocator.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/thread.h"
#include "tensor/central.h"
#include "tensor/pages.h"

enum { REPORT_BYTES = 64 << 10 };

/* ---- statistics ------------------------------------------------------------------------------ */

/* What threads have reported; each holds back less than REPORT_BYTES in its cache. */
static _Atomic int64_t reported_in_use, reported_allocs, peak_in_use;

/* The highest number of bytes in use, as far as threads have reported. */
static void raise_peak(int64_t in_use)
{
    int64_t peak = atomic_load_explicit(&peak_in_use, memory_order_relaxed);
    while (in_use > peak && !atomic_compare_exchange_weak_explicit(&peak_in_use, &peak, in_use,
                                                                   memory_order_relaxed,
                                                                   memory_order_relaxed))
        ;
}

/* One shared counter for every allocation would be fought over by all cores; this is called for
 * large blocks, which cost more anyway, and once in many small ones. */
static void report_usage(int64_t bytes, int64_t n_allocs)
{
    int64_t before = atomic_fetch_add_explicit(&reported_in_use, bytes, memory_order_relaxed);
    raise_peak(before + bytes);
    atomic_fetch_add_explicit(&reported_allocs, n_allocs, memory_order_relaxed);
}

static void add_reported(mr_allocator_stats *out)
{
    out->in_use += atomic_load_explicit(&reported_in_use, memory_order_relaxed);
    out->n_allocs += atomic_load_explicit(&reported_allocs, memory_order_relaxed);
}

#if MR_POOLED

/* ---- a thread's cache ------------------------------------------------------------------------ */

/* Two stacks of up to a batch, as Bonwick's magazines: with one alone, a thread whose use swings
 * around a batch's border would go to the central list on every turn. */
typedef struct bin {
    mr_block *head;    /* the stack worked on */
    mr_block *spare;   /* a full one, or NULL */
    uint32_t n, batch; /* blocks in head, and how many may be */
} bin;

typedef struct cache {
    bin bins[MR_N_CLASSES];
    /* Written by the owner alone; atomic because mr_allocator_get_stats reads them. */
    _Atomic int64_t in_use, n_allocs; /* not reported yet */
    uint32_t epoch;                   /* of the last trim this cache took part in */
    struct cache *next, **link;       /* in the list of all, guarded by all.mu */
} cache;

/* The caches of all living threads, for statistics.  Its lock is never held together with one of a
 * class or of the pages. */
static struct {
    mr_mutex mu;
    cache *caches MR_GUARDED_BY(mu);
} all = {.mu = {PTHREAD_MUTEX_INITIALIZER}};

/* Raised by each trim. A cache belongs to its thread, so no other thread may empty it. The owner
 * does so when it next leaves the fast path and sees a new number. */
static _Atomic uint32_t trim_epoch;

/* A pointer of static TLS: reaching it costs one instruction, and 8 bytes fit also when the library
 * is loaded late. */
#define FAST_TLS __attribute__((tls_model("initial-exec")))
static _Thread_local cache *my_cache FAST_TLS;
static _Thread_local bool thread_is_ending FAST_TLS; /* its cache was freed: work without one */

/* Its destructor is how we hear that a thread ends. */
static pthread_key_t exit_key;
static bool have_exit_key;

/* Plain loads and stores, no locked instruction: only this thread writes them. */
static void count_usage(cache *c, int64_t bytes, int64_t n_allocs)
{
    int64_t in_use = atomic_load_explicit(&c->in_use, memory_order_relaxed) + bytes;
    int64_t n = atomic_load_explicit(&c->n_allocs, memory_order_relaxed) + n_allocs;
    if (MR_UNLIKELY(in_use >= REPORT_BYTES || in_use <= -REPORT_BYTES)) {
        report_usage(in_use, n);
        in_use = n = 0;
    }
    atomic_store_explicit(&c->in_use, in_use, memory_order_relaxed);
    atomic_store_explicit(&c->n_allocs, n, memory_order_relaxed);
}

/* Leaves every block with the central lists. */
static void flush_cache(cache *c)
{
    for (int i = 0; i < MR_N_CLASSES; i++) {
        bin *b = &c->bins[i];
        MR_ASSERT(b->n <= b->batch && (b->n == 0) == (b->head == NULL));
        if (b->spare)
            mr_central_give(i, b->spare, true);
        if (b->head)
            mr_central_give(i, b->head, b->n == b->batch);
        b->head = b->spare = NULL;
        b->n = 0;
    }
}

/* Called when a thread ends: gives its cached blocks to the central lists. Destructors of other
 * keys may run after this one and allocate or free; they work without a cache, because a new cache
 * would never be freed. */
static void cache_exit(void *p)
{
    cache *c = p;
    MR_ASSERT(c == my_cache);
    thread_is_ending = true;
    my_cache = NULL;
    flush_cache(c);
    mr_lock(&all.mu);
    report_usage(atomic_load_explicit(&c->in_use, memory_order_relaxed),
                 atomic_load_explicit(&c->n_allocs, memory_order_relaxed));
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    mr_unlock(&all.mu);
    mr_free(c);
}

static void make_exit_key(void) { have_exit_key = pthread_key_create(&exit_key, cache_exit) == 0; }

/* NULL if this thread must work without one: it is ending, or we would not learn of its end. */
static cache *cache_new(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_exit_key);
    if (thread_is_ending || !have_exit_key)
        return NULL;
    cache *c = mr_new(cache);
    if (pthread_setspecific(exit_key, c) != 0) {
        mr_free(c);
        return NULL;
    }
    for (int i = 0; i < MR_N_CLASSES; i++)
        c->bins[i].batch = mr_batch_of(i);
    c->epoch = atomic_load_explicit(&trim_epoch, memory_order_relaxed);
    mr_lock(&all.mu);
    c->next = all.caches;
    c->link = &all.caches;
    if (c->next)
        c->next->link = &c->next;
    all.caches = c;
    mr_unlock(&all.mu);
    return my_cache = c;
}

static void follow_trim(cache *c)
{
    uint32_t epoch = atomic_load_explicit(&trim_epoch, memory_order_relaxed);
    if (MR_UNLIKELY(epoch != c->epoch)) {
        c->epoch = epoch;
        flush_cache(c);
    }
}

/* The stack of this class is empty, or there is no cache. */
static __attribute__((noinline)) void *alloc_slow(int class)
{
    cache *c = my_cache ? my_cache : cache_new();
    uint32_t got;
    if (!c)
        return mr_central_take(class, 1, &got);
    follow_trim(c);
    bin *b = &c->bins[class];
    MR_ASSERT(b->n == 0);
    if (b->spare) {
        b->head = b->spare;
        b->n = b->batch;
        b->spare = NULL;
    } else if (!(b->head = mr_central_take(class, b->batch, &b->n))) {
        return NULL;
    }
    mr_block *p = b->head;
    b->head = p->next;
    b->n--;
    return p;
}

/* The stack of this class is full, or there is no cache. */
static __attribute__((noinline)) void free_slow(int class, mr_block *p)
{
    cache *c = my_cache ? my_cache : cache_new();
    if (!c) {
        p->next = NULL;
        mr_central_give(class, p, false);
        return;
    }
    follow_trim(c);
    bin *b = &c->bins[class];
    if (b->n == b->batch) {
        if (b->spare)
            mr_central_give(class, b->spare, true);
        b->spare = b->head;
        b->head = NULL;
        b->n = 0;
    }
    p->next = b->head;
    b->head = p;
    b->n++;
}

/* The two fast paths: no lock, no atomic, one branch that is nearly always foreseen. */
static inline void *small_alloc(int class)
{
    cache *c = my_cache;
    MR_ASSERT(class >= 0 && class < MR_N_CLASSES);
    if (MR_UNLIKELY(!c || !c->bins[class].head))
        return alloc_slow(class);
    bin *b = &c->bins[class];
    mr_block *p = b->head;
    b->head = p->next;
    b->n--;
    return p;
}

static inline void small_free(int class, void *p)
{
    cache *c = my_cache;
    MR_ASSERT((uintptr_t)p % MR_CACHE_LINE == 0);
    if (MR_UNLIKELY(!c || c->bins[class].n == c->bins[class].batch)) {
        free_slow(class, p);
        return;
    }
    bin *b = &c->bins[class];
    ((mr_block *)p)->next = b->head;
    b->head = p;
    b->n++;
}

/* ---- large blocks ---------------------------------------------------------------------------- */

/* Sixteen sizes a doubling, so at most a sixteenth is wasted and a freed block is more often just
 * right for the next request. Used by alloc and free alike, because the size of a block is not
 * stored anywhere. */
static size_t large_pages(size_t bytes)
{
    MR_ASSERT(bytes > MR_MAX_SMALL && bytes <= PTRDIFF_MAX);
    size_t n = (bytes + MR_PAGE_BYTES - 1) / MR_PAGE_BYTES;
    size_t step = (size_t)1 << (63 - __builtin_clzll(n) - 4);
    return (n + step - 1) & ~(step - 1);
}

static void *large_alloc(size_t bytes)
{
    return bytes <= PTRDIFF_MAX ? mr_pages_alloc(large_pages(bytes)) : NULL;
}

/* Goes from the top down: blocks from caches complete spans, and free spans complete regions. */
static void pool_trim(void)
{
    atomic_fetch_add_explicit(&trim_epoch, 1, memory_order_relaxed);
    if (my_cache)
        follow_trim(my_cache);
    mr_central_trim();
    mr_pages_trim();
}

/* ---- the allocator --------------------------------------------------------------------------- */

static void *pool_alloc(size_t bytes)
{
    if (MR_LIKELY(bytes <= MR_MAX_SMALL)) {
        void *p = small_alloc(mr_class_of(bytes));
        cache *c = my_cache; /* made by the first call */
        if (MR_LIKELY(p && c))
            count_usage(c, (int64_t)bytes, 1);
        else if (p)
            report_usage((int64_t)bytes, 1);
        return p;
    }
    void *p = large_alloc(bytes);
    if (p)
        report_usage((int64_t)bytes, 1);
    return p;
}

static void pool_free(void *p, size_t bytes)
{
    if (MR_UNLIKELY(bytes > MR_MAX_SMALL)) {
        mr_pages_free(p, large_pages(bytes));
        report_usage(-(int64_t)bytes, 0);
        return;
    }
    small_free(mr_class_of(bytes), p);
    if (MR_LIKELY(my_cache))
        count_usage(my_cache, -(int64_t)bytes, 0);
    else
        report_usage(-(int64_t)bytes, 0);
}

void *mr_small_alloc(size_t bytes)
{
    void *p =
        MR_LIKELY(bytes <= MR_MAX_SMALL) ? small_alloc(mr_class_of(bytes)) : large_alloc(bytes);
    if (MR_UNLIKELY(!p))
        mr_out_of_memory(bytes);
    return p;
}

void mr_small_free(void *p, size_t bytes)
{
    if (!p)
        return;
    if (MR_LIKELY(bytes <= MR_MAX_SMALL))
        small_free(mr_class_of(bytes), p);
    else
        mr_pages_free(p, large_pages(bytes));
}

/* Adds up what was reported and what the caches have not reported yet, under one lock, so that a
 * thread that is ending is counted once. */
static void pool_stats(mr_allocator_stats *out)
{
    mr_lock(&all.mu);
    add_reported(out);
    for (cache *c = all.caches; c; c = c->next) {
        out->in_use += atomic_load_explicit(&c->in_use, memory_order_relaxed);
        out->n_allocs += atomic_load_explicit(&c->n_allocs, memory_order_relaxed);
    }
    mr_unlock(&all.mu);
}

#else /* one malloc a block */

static void *alloc_aligned(size_t bytes)
{
    void *p;
    /* The sanitizer's malloc ends the process where others return NULL. */
    if (bytes > mr_pages_limit())
        return NULL;
    return posix_memalign(&p, MR_CACHE_LINE, bytes ? bytes : 1) == 0 ? p : NULL;
}

static void *pool_alloc(size_t bytes)
{
    void *p = alloc_aligned(bytes);
    if (p)
        report_usage((int64_t)bytes, 1);
    return p;
}

static void pool_free(void *p, size_t bytes)
{
    free(p);
    report_usage(-(int64_t)bytes, 0);
}

void *mr_small_alloc(size_t bytes)
{
    void *p = alloc_aligned(bytes);
    if (!p)
        mr_out_of_memory(bytes);
    return p;
}

void mr_small_free(void *p, size_t bytes)
{
    (void)bytes;
    free(p);
}

static void pool_trim(void) {}
static void pool_stats(mr_allocator_stats *out) { add_reported(out); }

#endif

/* ---- the interface --------------------------------------------------------------------------- */

/* Tests refuse memory by number; this counts as one of the mr_try_ family. */
static void *cpu_alloc(mr_allocator *a, size_t bytes)
{
    (void)a;
    return MR_UNLIKELY(mr_memory_refuses()) ? NULL : pool_alloc(bytes);
}

static void cpu_free(mr_allocator *a, void *p, size_t bytes)
{
    (void)a;
    if (p)
        pool_free(p, bytes);
}

static void cpu_stats(mr_allocator *a, mr_allocator_stats *out)
{
    (void)a;
    pool_stats(out);
    raise_peak(out->in_use);
    out->peak = atomic_load_explicit(&peak_in_use, memory_order_relaxed);
}

static void cpu_trim(mr_allocator *a)
{
    (void)a;
    pool_trim();
}

mr_allocator *mr_cpu_allocator(void)
{
    static mr_allocator cpu = {.name = "cpu",
                               .alloc = cpu_alloc,
                               .free = cpu_free,
                               .stats = cpu_stats,
                               .trim = cpu_trim,
                               .host = true};
    return &cpu;
}
