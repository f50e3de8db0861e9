/* ops/quant/slices.h -- a tensor cut along an axis, of which each slice has a range of its own.
 *
 * Axis -1 is one slice for all.  A tensor is seen as [outer, slices, inner]. */
#ifndef MR_OPS_QUANT_SLICES_H
#define MR_OPS_QUANT_SLICES_H

#include "graph/infer.h"
#include "run/run.h"

typedef struct mr_slices {
    int64_t outer, n, inner;
} mr_slices;

/* INVALID_ARGUMENT when x has no such axis. */
mr_status *mr_slices_init(mr_slices *s, const mr_tensor *x, int64_t axis);
/* Input i has one number a slice; `what` names it. */
mr_status *mr_slices_check(const mr_slices *s, const mr_run *r, int i, const char *what,
                           int64_t axis);
/* For shape functions: inputs i and i + 1 are scalars, or vectors where there is an axis. */
mr_status *mr_slices_infer(mr_infer *c, int i);

#endif
