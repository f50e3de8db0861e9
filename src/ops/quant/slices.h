/* ops/quant/slices.h -- a tensor cut into slices along an axis, each with a separate range.
 *
 * Axis -1 means one slice for the whole tensor.  A tensor is treated as [outer, slices, inner]. */
#ifndef MR_OPS_QUANT_SLICES_H
#define MR_OPS_QUANT_SLICES_H

#include "graph/infer.h"
#include "run/run.h"

typedef struct mr_slices {
    int64_t outer, n, inner;
} mr_slices;

/* INVALID_ARGUMENT if x has no such axis. */
mr_status *mr_slices_init(mr_slices *s, const mr_tensor *x, int64_t axis);
/* Checks that input i has one number per slice; `what` names it in errors. */
mr_status *mr_slices_check(const mr_slices *s, const mr_run *r, int i, const char *what,
                           int64_t axis);
/* For shape functions: inputs i and i + 1 must be scalars, or vectors if there is an axis. */
mr_status *mr_slices_infer(mr_infer *c, int i);

#endif
