/* tensor/budget.c -- an allocator with a limit, and what all allocators have in common.
 *
 * The bytes are reserved before the allocator below is called, so that two threads together cannot
 * exceed the limit. A budget is owned by its creator and by each of its blocks; the last owner
 * frees it. */
#include "tensor/allocator.h"

#include <stdatomic.h>

#include "base/memory.h"

typedef struct budget {
    mr_allocator a;
    mr_allocator *base;
    int64_t limit;
    char *name;
    _Atomic int64_t in_use, peak, n_allocs;
    _Atomic int64_t owners; /* the maker and the blocks */
} budget;

/* The loop ends when we have set the peak, or another thread has set a higher one. */
static void raise_peak(budget *b, int64_t in_use)
{
    int64_t peak = atomic_load_explicit(&b->peak, memory_order_relaxed);
    while (in_use > peak && !atomic_compare_exchange_weak_explicit(&b->peak, &peak, in_use,
                                                                   memory_order_relaxed,
                                                                   memory_order_relaxed))
        ;
}

/* Drops one owner. The memory order ensures that the thread that frees b sees all changes by others. */
static void leave_budget(budget *b)
{
    int64_t before = atomic_fetch_sub_explicit(&b->owners, 1, memory_order_acq_rel);
    MR_ASSERT(before > 0);
    if (before > 1)
        return;
    MR_ASSERT(atomic_load_explicit(&b->in_use, memory_order_relaxed) == 0);
    mr_free(b->name);
    mr_free(b);
}

/* Reserves the bytes; false if fewer are left. */
static bool reserve_bytes(budget *b, int64_t bytes)
{
    int64_t in_use = atomic_load_explicit(&b->in_use, memory_order_relaxed), after;
    do {
        if (!mr_i64_add(in_use, bytes, &after) || (b->limit > 0 && after > b->limit))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&b->in_use, &in_use, after,
                                                    memory_order_relaxed, memory_order_relaxed));
    raise_peak(b, after);
    return true;
}

static void *budget_alloc(mr_allocator *a, size_t bytes)
{
    budget *b = (budget *)a; /* its first member */
    if ((uint64_t)bytes > INT64_MAX || !reserve_bytes(b, (int64_t)bytes))
        return NULL;
    void *p = b->base->alloc(b->base, bytes);
    if (!p) {
        atomic_fetch_sub_explicit(&b->in_use, (int64_t)bytes, memory_order_relaxed);
        return NULL;
    }
    atomic_fetch_add_explicit(&b->n_allocs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&b->owners, 1, memory_order_relaxed);
    return p;
}

static void budget_free(mr_allocator *a, void *p, size_t bytes)
{
    budget *b = (budget *)a;
    if (!p)
        return;
    b->base->free(b->base, p, bytes);
    atomic_fetch_sub_explicit(&b->in_use, (int64_t)bytes, memory_order_relaxed);
    leave_budget(b); /* last: b may be freed now */
}

static void budget_stats(mr_allocator *a, mr_allocator_stats *out)
{
    budget *b = (budget *)a;
    out->in_use = atomic_load_explicit(&b->in_use, memory_order_relaxed);
    out->peak = atomic_load_explicit(&b->peak, memory_order_relaxed);
    out->n_allocs = atomic_load_explicit(&b->n_allocs, memory_order_relaxed);
    out->limit = b->limit;
}

static mr_status *budget_copy(mr_allocator *a, void *dst, const void *src, size_t bytes, mr_copy_way way)
{
    mr_allocator *base = ((budget *)a)->base;
    return base->copy(base, dst, src, bytes, way);
}

static mr_status *budget_clear(mr_allocator *a, void *p, size_t bytes)
{
    mr_allocator *base = ((budget *)a)->base;
    return base->clear(base, p, bytes);
}

static void budget_trim(mr_allocator *a) { mr_allocator_trim(((budget *)a)->base); }

mr_allocator *mr_budget_new(mr_allocator *base, const char *name, int64_t limit)
{
    budget *b = mr_new(budget);
    b->base = base ? base : mr_cpu_allocator();
    b->limit = MR_MAX(limit, 0);
    b->name = mr_strdup(name);
    b->a = (mr_allocator){.name = b->name,
                          .alloc = budget_alloc,
                          .free = budget_free,
                          .stats = budget_stats,
                          .trim = budget_trim,
                          .host = b->base->host,
                          .copy = budget_copy,
                          .clear = budget_clear};
    atomic_init(&b->owners, 1);
    return &b->a;
}

void mr_budget_free(mr_allocator *a)
{
    if (a)
        leave_budget((budget *)a);
}

void mr_allocator_get_stats(mr_allocator *a, mr_allocator_stats *out)
{
    *out = (mr_allocator_stats){0};
    if (a->stats)
        a->stats(a, out);
}

void mr_allocator_trim(mr_allocator *a)
{
    if (a->trim)
        a->trim(a);
}
