/* ops/first_error.h -- keeps the first error of a loop that is split over threads. */
#ifndef MR_OPS_FIRST_ERROR_H
#define MR_OPS_FIRST_ERROR_H

#include <stdatomic.h>

#include "base/status.h"

typedef struct mr_first_error { /* initialise with {NULL} */
    _Atomic(mr_status *) st;
} mr_first_error;

/* Takes ownership of st, which may be NULL. */
static inline void mr_first_error_note(mr_first_error *e, mr_status *st)
{
    mr_status *none = NULL;
    if (st && !atomic_compare_exchange_strong(&e->st, &none, st))
        mr_status_free(st);
}

/* True if an error was noted: parts that have not begun can be skipped. */
static inline bool mr_first_error_any(mr_first_error *e) { return atomic_load_explicit(&e->st, memory_order_relaxed); }

/* Call this when the loop has ended: returns the error, which the caller owns, or NULL. */
static inline mr_status *mr_first_error_take(mr_first_error *e) { return atomic_exchange(&e->st, NULL); }

#endif
