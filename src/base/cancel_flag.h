/* base/cancel_flag.h -- ends a long computation whose result nobody waits for any more.
 *
 * One thread computes and looks at the flag now and then; another one sets it. The computation then returns CANCELLED.
 * Work that only waits is ended by run/cancel.h. */
#ifndef MR_BASE_CANCEL_FLAG_H
#define MR_BASE_CANCEL_FLAG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/status.h"

typedef _Atomic bool mr_cancel_flag;

/* f NULL: never cancelled. */
static inline bool mr_cancel_flag_is_set(const mr_cancel_flag *f)
{
    return f && atomic_load_explicit(f, memory_order_relaxed);
}

static inline mr_status *mr_cancel_flag_check(const mr_cancel_flag *f)
{
    return mr_cancel_flag_is_set(f) ? mr_error(MR_CANCELLED, "the computation was cancelled") : NULL;
}

#endif
