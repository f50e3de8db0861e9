/* ops/array/add_run.h -- adds elements of any type in place, for ops that sum up what falls
 * together. */
#ifndef MR_OPS_ARRAY_ADD_RUN_H
#define MR_OPS_ARRAY_ADD_RUN_H

#include "tensor/tensor.h"

/* to[i] += from[i * step] for i < n; the element's place is counted from the pointers. */
typedef void mr_add_run(void *to, const void *from, int64_t step, int64_t n);
/* NULL for types that cannot be added (strings, handles).  For bool it is "or". */
mr_add_run *mr_add_run_of(mr_dtype t);
/* Strings are added by writing one behind the other: element `at` of `to` gets element i of `from` behind it. */
mr_status *mr_add_string(mr_tensor *to, int64_t at, const mr_tensor *from, int64_t i);

#endif
