/* net/budget.h -- bytes that may be in use at a time. */
#ifndef MR_NET_BUDGET_H
#define MR_NET_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct mr_net_budget {
    _Atomic size_t used, limit;
} mr_net_budget;

/* false: it would go over the limit, and nothing is taken. */
static inline bool mr_net_budget_take(mr_net_budget *b, size_t n)
{
    size_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
    size_t limit = atomic_load_explicit(&b->limit, memory_order_relaxed);
    do {
        if (used > limit || n > limit - used)
            return false;
    } while (!atomic_compare_exchange_weak(&b->used, &used, used + n));
    return true;
}

static inline void mr_net_budget_give(mr_net_budget *b, size_t n) { atomic_fetch_sub(&b->used, n); }

#endif
