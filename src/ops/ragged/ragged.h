/* ops/ragged/ragged.h -- ragged tensors as ops get them: nested row splits over dense values.
 *
 * splits[i] .. splits[i + 1] are the parts of row i: rows of the next splits, or of the values. */
#ifndef MR_OPS_RAGGED_RAGGED_H
#define MR_OPS_RAGGED_RAGGED_H

#include "graph/grad.h"
#include "graph/infer.h"
#include "run/run.h"

/* splits[0..n] are int32 or int64 vectors from 0 on that do not fall, each ending with the length
 * of the next, the last with dimension 0 of the values.  INVALID_ARGUMENT says how not. */
mr_status *mr_ragged_check(mr_tensor *const *splits, int n, const mr_tensor *values);

/* A variant of these splits and values, whose references are taken over. */
mr_object *mr_ragged_object(int depth, mr_tensor *const *splits, mr_tensor *values);

/* Output i is a vector of these numbers in its type; INVALID_ARGUMENT where one does not fit. */
mr_status *mr_give_splits(mr_run *r, int i, int64_t n, const int64_t *v);

#endif
