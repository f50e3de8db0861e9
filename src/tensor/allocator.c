/* tensor/allocator.c -- the allocator of the CPU: size classes, a cache per thread, central lists.
 *
 * A request up to 256 KiB is rounded up to one of 44 classes: every 64 bytes up to 256, then four
 * classes a doubling.  Each thread has for each class a stack of free blocks it works on and perhaps
 * one full batch in reserve; so a thread that allocates and frees by turns never leaves its own
 * memory.  Whole batches, found and left by their first block, travel between the caches and the
 * central list of the class, which carves new blocks out of spans of pages.  Classes above 32 KiB are
 * single runs of pages and have no central list; requests above 256 KiB go to the pages straight.
 *
 * A thread holds at most two batches a class: 64 KiB in each class up to 32 KiB, two blocks above,
 * about 5 MiB if it used every class there is.
 *
 * Invariants: a batch is a chain of exactly batch_of(class) blocks.  `spare` is NULL or one batch.
 * Free blocks carry their links inside; nothing is kept about blocks in use, whose size the caller
 * tells us again.
 *
 * Without MR_POOLED none of this is used (pages.h). */
#include "tensor/allocator.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/thread.h"
#include "base/vec.h"
#include "tensor/pages.h"

enum { REPORT_BYTES = 64 << 10 };

/* ---- statistics ------------------------------------------------------------------------------------ */

/* What threads have reported; each holds back less than REPORT_BYTES in its cache. */
static _Atomic int64_t reported_in_use, reported_allocs, peak_in_use;

static void raise_peak(int64_t in_use)
{
    int64_t peak = atomic_load_explicit(&peak_in_use, memory_order_relaxed);
    while (in_use > peak && !atomic_compare_exchange_weak_explicit(&peak_in_use, &peak, in_use,
                                                                   memory_order_relaxed,
                                                                   memory_order_relaxed))
        ;
}

static void report(int64_t bytes, int64_t n_allocs)
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

/* ---- size classes ---------------------------------------------------------------------------------- */

enum {
    N_CLASSES = 44,
    MAX_SMALL = 256 << 10, /* the largest class */
    MAX_CARVED = 32 << 10, /* the largest class whose blocks are cut out of spans */
    BATCH_BYTES = 32 << 10,
    SPAN_BYTES = 64 << 10, /* at least; and at least eight blocks */
};

static int class_of(size_t bytes)
{
    if (bytes <= 256)
        return bytes ? (int)((bytes - 1) / 64) : 0;
    size_t last = bytes - 1;
    int log = 63 - __builtin_clzll(last);
    return 4 + (log - 8) * 4 + (int)(last >> (log - 2) & 3);
}

static size_t class_bytes(int c)
{
    if (c < 4)
        return (size_t)(c + 1) * 64;
    return (size_t)(5 + (c & 3)) << (6 + (c - 4) / 4);
}

static uint32_t batch_of(int c)
{
    size_t n = BATCH_BYTES / class_bytes(c);
    return (uint32_t)MR_MIN(MR_MAX(n, 1), 64);
}

static size_t span_bytes(int c)
{
    size_t bytes = MR_MAX(8 * class_bytes(c), (size_t)SPAN_BYTES);
    return (bytes + MR_PAGE_BYTES - 1) & ~(MR_PAGE_BYTES - 1);
}

/* ---- central lists --------------------------------------------------------------------------------- */

typedef struct block { /* a free one */
    struct block *next;       /* in its chain */
    struct block *next_batch; /* of the first block of a batch in a central list */
} block;

typedef struct central {
    mr_mutex mu;
    block *batches MR_GUARDED_BY(mu); /* whole ones */
    block *loose MR_GUARDED_BY(mu);   /* a chain of any length */
    char *fresh, *fresh_end MR_GUARDED_BY(mu); /* what is left of the newest span */
    MR_VEC(char *) spans MR_GUARDED_BY(mu);
} __attribute__((aligned(MR_CACHE_LINE))) central;

static central centrals[N_CLASSES] = {[0 ... N_CLASSES - 1] = {.mu = {PTHREAD_MUTEX_INITIALIZER}}};

/* One block from the loose ones, from a broken batch or fresh; NULL: no memory. */
static block *take_one_locked(central *c, int class) MR_REQUIRES(c->mu)
{
    size_t bytes = class_bytes(class);
    if (!c->loose && c->batches) {
        c->loose = c->batches;
        c->batches = c->batches->next_batch;
    }
    if (c->loose) {
        block *b = c->loose;
        c->loose = b->next;
        return b;
    }
    if ((size_t)(c->fresh_end - c->fresh) < bytes) {
        char *span = mr_pages_alloc(span_bytes(class) / MR_PAGE_BYTES);
        if (!span)
            return NULL;
        mr_vec_push(&c->spans, span);
        c->fresh = span;
        c->fresh_end = span + span_bytes(class);
    }
    block *b = (block *)c->fresh;
    c->fresh += bytes;
    return b;
}

/* A chain of up to `want` blocks, at most a batch; how many in *got.  NULL: no memory. */
static block *central_take(int class, uint32_t want, uint32_t *got)
{
    *got = 0;
    if (class_bytes(class) > MAX_CARVED) {
        block *b = mr_pages_alloc(class_bytes(class) / MR_PAGE_BYTES);
        if (b)
            b->next = NULL, *got = 1;
        return b;
    }
    central *c = &centrals[class];
    block *chain = NULL, *b;
    mr_lock(&c->mu);
    if (c->batches && want == batch_of(class)) {
        chain = c->batches;
        c->batches = chain->next_batch;
        *got = want;
    } else {
        while (*got < want && (b = take_one_locked(c, class))) {
            b->next = chain;
            chain = b;
            ++*got;
        }
    }
    mr_unlock(&c->mu);
    return chain;
}

/* Takes back a chain: a batch when `whole`. */
static void central_give(int class, block *chain, bool whole)
{
    central *c = &centrals[class];
    if (class_bytes(class) > MAX_CARVED) {
        for (block *next; chain; chain = next) {
            next = chain->next;
            mr_pages_free(chain, class_bytes(class) / MR_PAGE_BYTES);
        }
        return;
    }
    mr_lock(&c->mu);
    if (whole) {
        chain->next_batch = c->batches;
        c->batches = chain;
    } else {
        for (block *next; chain; chain = next) {
            next = chain->next;
            chain->next = c->loose;
            c->loose = chain;
        }
    }
    mr_unlock(&c->mu);
}

/* ---- a thread's cache ------------------------------------------------------------------------------ */

typedef struct bin {
    block *head; /* the stack worked on */
    block *spare;
    uint32_t n, batch; /* blocks in head, and how many may be */
} bin;

typedef struct cache {
    bin bins[N_CLASSES];
    /* Written by the owner alone; atomic because mr_allocator_get_stats reads them. */
    _Atomic int64_t in_use, n_allocs; /* not reported yet */
    uint32_t epoch;                   /* of the last trim this cache took part in */
    struct cache *next, **link;       /* in the list of all, guarded by all.mu */
} cache;

static struct {
    mr_mutex mu;
    cache *caches MR_GUARDED_BY(mu);
} all = {.mu = {PTHREAD_MUTEX_INITIALIZER}};

static _Atomic uint32_t trim_epoch; /* raised by each trim; caches follow when they next come by */

/* A pointer of static TLS: reaching it costs one instruction, and 8 bytes fit also when the library is
 * loaded late. */
#define FAST_TLS __attribute__((tls_model("initial-exec")))
static _Thread_local cache *my_cache FAST_TLS;
static _Thread_local bool thread_is_ending FAST_TLS; /* its cache is gone: work without one */

static pthread_key_t exit_key;
static bool have_exit_key;

static void count(cache *c, int64_t bytes, int64_t n_allocs)
{
    int64_t in_use = atomic_load_explicit(&c->in_use, memory_order_relaxed) + bytes;
    int64_t n = atomic_load_explicit(&c->n_allocs, memory_order_relaxed) + n_allocs;
    if (MR_UNLIKELY(in_use >= REPORT_BYTES || in_use <= -REPORT_BYTES)) {
        report(in_use, n);
        in_use = n = 0;
    }
    atomic_store_explicit(&c->in_use, in_use, memory_order_relaxed);
    atomic_store_explicit(&c->n_allocs, n, memory_order_relaxed);
}

static void flush(cache *c)
{
    for (int i = 0; i < N_CLASSES; i++) {
        bin *b = &c->bins[i];
        if (b->spare)
            central_give(i, b->spare, true);
        if (b->head)
            central_give(i, b->head, b->n == b->batch);
        b->head = b->spare = NULL;
        b->n = 0;
    }
}

/* The thread ends: what it cached becomes everybody's. */
static void cache_exit(void *p)
{
    cache *c = p;
    thread_is_ending = true;
    my_cache = NULL;
    flush(c);
    mr_lock(&all.mu);
    report(atomic_load_explicit(&c->in_use, memory_order_relaxed),
           atomic_load_explicit(&c->n_allocs, memory_order_relaxed));
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    mr_unlock(&all.mu);
    mr_free(c);
}

static void make_exit_key(void) { have_exit_key = pthread_key_create(&exit_key, cache_exit) == 0; }

/* NULL when this thread is to work without one. */
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
    for (int i = 0; i < N_CLASSES; i++)
        c->bins[i].batch = batch_of(i);
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
        flush(c);
    }
}

/* The stack of this class is empty, or there is no cache. */
static __attribute__((noinline)) void *alloc_slow(int class)
{
    cache *c = my_cache ? my_cache : cache_new();
    uint32_t got;
    if (!c)
        return central_take(class, 1, &got);
    follow_trim(c);
    bin *b = &c->bins[class];
    if (b->spare) {
        b->head = b->spare;
        b->n = b->batch;
        b->spare = NULL;
    } else if (!(b->head = central_take(class, b->batch, &b->n))) {
        return NULL;
    }
    block *p = b->head;
    b->head = p->next;
    b->n--;
    return p;
}

/* The stack of this class is full, or there is no cache. */
static __attribute__((noinline)) void free_slow(int class, block *p)
{
    cache *c = my_cache ? my_cache : cache_new();
    if (!c) {
        p->next = NULL;
        central_give(class, p, false);
        return;
    }
    follow_trim(c);
    bin *b = &c->bins[class];
    if (b->n == b->batch) {
        if (b->spare)
            central_give(class, b->spare, true);
        b->spare = b->head;
        b->head = NULL;
        b->n = 0;
    }
    p->next = b->head;
    b->head = p;
    b->n++;
}

static inline void *small_alloc(int class)
{
    cache *c = my_cache;
    if (MR_UNLIKELY(!c || !c->bins[class].head))
        return alloc_slow(class);
    bin *b = &c->bins[class];
    block *p = b->head;
    b->head = p->next;
    b->n--;
    return p;
}

static inline void small_free(int class, void *p)
{
    cache *c = my_cache;
    if (MR_UNLIKELY(!c || c->bins[class].n == c->bins[class].batch)) {
        free_slow(class, p);
        return;
    }
    bin *b = &c->bins[class];
    ((block *)p)->next = b->head;
    b->head = p;
    b->n++;
}

/* ---- large blocks ---------------------------------------------------------------------------------- */

/* Sixteen sizes a doubling: freed blocks are more often just right for the next request. */
static size_t large_pages(size_t bytes)
{
    size_t n = (bytes + MR_PAGE_BYTES - 1) / MR_PAGE_BYTES;
    size_t step = (size_t)1 << (63 - __builtin_clzll(n) - 4);
    return (n + step - 1) & ~(step - 1);
}

/* ---- trimming -------------------------------------------------------------------------------------- */

static int compare_spans(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    return (x > y) - (x < y);
}

/* The span that holds p; spans are sorted. */
static int span_of_locked(const central *c, int class, const char *p) MR_REQUIRES(c->mu)
{
    int lo = 0, hi = c->spans.n - 1;
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (c->spans.p[mid] <= p)
            lo = mid;
        else
            hi = mid - 1;
    }
    MR_ASSERT(p >= c->spans.p[lo] && p < c->spans.p[lo] + span_bytes(class));
    (void)class;
    return lo;
}

/* Puts all free blocks into the one loose chain. */
static void break_batches_locked(central *c) MR_REQUIRES(c->mu)
{
    while (c->batches) {
        block *batch = c->batches, *last = batch;
        c->batches = batch->next_batch;
        while (last->next)
            last = last->next;
        last->next = c->loose;
        c->loose = batch;
    }
}

/* Takes the blocks of spans marked free out of the loose chain. */
static void drop_blocks_locked(central *c, int class, const uint32_t *n_free, uint32_t whole)
    MR_REQUIRES(c->mu)
{
    block **link = &c->loose;
    while (*link) {
        if (n_free[span_of_locked(c, class, (char *)*link)] == whole)
            *link = (*link)->next;
        else
            link = &(*link)->next;
    }
}

/* Spans all of whose blocks are here go back to the pages.  The part of the newest span that was not
 * carved yet counts as free. */
static void trim_class_locked(central *c, int class) MR_REQUIRES(c->mu)
{
    uint32_t whole = (uint32_t)(span_bytes(class) / class_bytes(class));
    uint32_t *n_free = mr_try_calloc((size_t)c->spans.n, sizeof(*n_free));
    if (!n_free || c->spans.n == 0) { /* trimming is a courtesy */
        mr_free(n_free);
        return;
    }
    qsort(c->spans.p, (size_t)c->spans.n, sizeof(char *), compare_spans);
    break_batches_locked(c);
    for (block *b = c->loose; b; b = b->next)
        n_free[span_of_locked(c, class, (char *)b)]++;
    int newest = c->fresh < c->fresh_end ? span_of_locked(c, class, c->fresh) : -1;
    if (newest >= 0)
        n_free[newest] += (uint32_t)((size_t)(c->fresh_end - c->fresh) / class_bytes(class));
    drop_blocks_locked(c, class, n_free, whole);
    int kept = 0;
    for (int i = 0; i < c->spans.n; i++) {
        if (n_free[i] < whole) {
            c->spans.p[kept++] = c->spans.p[i];
            continue;
        }
        if (i == newest)
            c->fresh = c->fresh_end = NULL;
        mr_pages_free(c->spans.p[i], span_bytes(class) / MR_PAGE_BYTES);
    }
    c->spans.n = kept;
    mr_free(n_free);
}

static void pool_trim(void)
{
    atomic_fetch_add_explicit(&trim_epoch, 1, memory_order_relaxed);
    if (my_cache)
        follow_trim(my_cache);
    for (int i = 0; i < N_CLASSES; i++) {
        mr_lock(&centrals[i].mu);
        trim_class_locked(&centrals[i], i);
        mr_unlock(&centrals[i].mu);
    }
    mr_pages_trim();
}

/* ---- the allocator --------------------------------------------------------------------------------- */

static void *pool_alloc(size_t bytes)
{
    if (MR_LIKELY(bytes <= MAX_SMALL)) {
        void *p = small_alloc(class_of(bytes));
        cache *c = my_cache; /* made by the first call */
        if (MR_LIKELY(p && c))
            count(c, (int64_t)bytes, 1);
        else if (p)
            report((int64_t)bytes, 1);
        return p;
    }
    if (bytes > PTRDIFF_MAX)
        return NULL;
    void *p = mr_pages_alloc(large_pages(bytes));
    if (p)
        report((int64_t)bytes, 1);
    return p;
}

static void pool_free(void *p, size_t bytes)
{
    if (MR_UNLIKELY(bytes > MAX_SMALL)) {
        mr_pages_free(p, large_pages(bytes));
        report(-(int64_t)bytes, 0);
        return;
    }
    small_free(class_of(bytes), p);
    if (MR_LIKELY(my_cache))
        count(my_cache, -(int64_t)bytes, 0);
    else
        report(-(int64_t)bytes, 0);
}

void *mr_small_alloc(size_t bytes)
{
    void *p = MR_LIKELY(bytes <= MAX_SMALL) ? small_alloc(class_of(bytes))
                                            : mr_pages_alloc(large_pages(bytes));
    if (MR_UNLIKELY(!p))
        mr_out_of_memory(bytes);
    return p;
}

void mr_small_free(void *p, size_t bytes)
{
    if (!p)
        return;
    if (MR_LIKELY(bytes <= MAX_SMALL))
        small_free(class_of(bytes), p);
    else
        mr_pages_free(p, large_pages(bytes));
}

/* What was reported and what the caches still hold back, under one lock: a thread that ends meanwhile
 * is counted once. */
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

static void *aligned(size_t bytes)
{
    void *p;
    /* The sanitizer's malloc ends the process where others return NULL. */
    if (bytes > mr_pages_limit())
        return NULL;
    return posix_memalign(&p, MR_CACHE_LINE, bytes ? bytes : 1) == 0 ? p : NULL;
}

static void *pool_alloc(size_t bytes)
{
    void *p = aligned(bytes);
    if (p)
        report((int64_t)bytes, 1);
    return p;
}

static void pool_free(void *p, size_t bytes)
{
    free(p);
    report(-(int64_t)bytes, 0);
}

void *mr_small_alloc(size_t bytes)
{
    void *p = aligned(bytes);
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
