/* ops/queue/accumulator.h -- gradients collected until there are enough of them.
 *
 * An accumulator has a sum and a step.  A gradient computed at an earlier step is dropped without a
 * word; whoever takes the sum waits for as many gradients as required, and moves the step on. */
#ifndef MR_OPS_QUEUE_ACCUMULATOR_H
#define MR_OPS_QUEUE_ACCUMULATOR_H

#include "run/run.h"

typedef struct mr_accumulator mr_accumulator;
extern const mr_object_type mr_accumulator_type;

typedef struct mr_accumulator_spec {
    const char *name;
    mr_dtype dtype; /* a number */
    const mr_pshape *shape;
    bool sparse, mean; /* mean: divided by how many were added */
} mr_accumulator_spec;

mr_accumulator *mr_accumulator_new(const mr_accumulator_spec *spec);
mr_dtype mr_accumulator_dtype(const mr_accumulator *a);
bool mr_accumulator_is_sparse(const mr_accumulator *a);

typedef struct mr_accumulator_gradient { /* borrowed */
    mr_tensor *values;
    mr_tensor *indices; /* NULL: dense */
    mr_tensor *shape;   /* of a sparse one, int64; NULL: not known */
} mr_accumulator_gradient;

/* INVALID_ARGUMENT when the gradient does not fit, which is not looked at when it is stale. */
mr_status *mr_accumulator_apply(mr_accumulator *a, mr_run *r, int64_t local_step,
                                const mr_accumulator_gradient *g);
/* Takes a reference to a over and ends the asynchronous run r, whose outputs become the sum, once
 * there are as many gradients as required. */
void mr_accumulator_take(mr_accumulator *a, mr_run *r, int64_t required);
void mr_accumulator_set_step(mr_accumulator *a, int64_t step);
int64_t mr_accumulator_count(mr_accumulator *a);

#endif
