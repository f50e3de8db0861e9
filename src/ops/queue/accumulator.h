/* ops/queue/accumulator.h -- collects gradients until there are enough of them.
 *
 * An accumulator has a sum and a step.  A gradient that was computed at an earlier step is dropped
 * silently.  A take waits until there are as many gradients as it requires, and increments the step. */
#ifndef MR_OPS_QUEUE_ACCUMULATOR_H
#define MR_OPS_QUEUE_ACCUMULATOR_H

#include "run/run.h"

typedef struct mr_accumulator mr_accumulator;
extern const mr_object_type mr_accumulator_type;

typedef struct mr_accumulator_spec {
    const char *name;
    mr_dtype dtype; /* a numeric type */
    const mr_pshape *shape;
    bool sparse, mean; /* mean: the sum is divided by the number of gradients */
} mr_accumulator_spec;

mr_accumulator *mr_accumulator_new(const mr_accumulator_spec *spec);
mr_dtype mr_accumulator_dtype(const mr_accumulator *a);
bool mr_accumulator_is_sparse(const mr_accumulator *a);

typedef struct mr_accumulator_gradient { /* borrowed */
    mr_tensor *values;
    mr_tensor *indices; /* NULL: dense */
    mr_tensor *shape;   /* the shape of a sparse gradient, int64; NULL: not known */
} mr_accumulator_gradient;

/* Adds a gradient.  INVALID_ARGUMENT if its shape does not match; a stale gradient is not checked. */
mr_status *mr_accumulator_apply(mr_accumulator *a, mr_run *r, int64_t local_step,
                                const mr_accumulator_gradient *g);
/* Takes over a reference to a.  Ends the asynchronous run r, with the sum as its outputs, once there are
 * as many gradients as required. */
void mr_accumulator_take(mr_accumulator *a, mr_run *r, int64_t required);
void mr_accumulator_set_step(mr_accumulator *a, int64_t step);
int64_t mr_accumulator_count(mr_accumulator *a);

#endif
