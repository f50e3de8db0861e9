/* ops/ragged/ragged.h -- ragged tensors as the inputs of ops: nested row splits over dense values.
 *
 * Row i consists of the rows splits[i] .. splits[i + 1] of the next splits, or of the values. */
#ifndef MR_OPS_RAGGED_RAGGED_H
#define MR_OPS_RAGGED_RAGGED_H

#include "graph/grad.h"
#include "graph/infer.h"
#include "run/run.h"

/* Checks that the n splits are int32 or int64 vectors that start at 0 and do not decrease, that each ends with
 * the number of rows of the next, and the last with dimension 0 of the values; INVALID_ARGUMENT. */
mr_status *mr_ragged_check(mr_tensor *const *splits, int n, const mr_tensor *values);

/* Creates a variant of these splits and values, and takes over their references. */
mr_object *mr_ragged_object(int depth, mr_tensor *const *splits, mr_tensor *values);

/* Sets output i to a vector of these numbers in its type; INVALID_ARGUMENT if one does not fit. */
mr_status *mr_give_splits(mr_run *r, int i, int64_t n, const int64_t *v);

#endif
