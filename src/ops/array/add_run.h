/* ops/array/add_run.h -- adds elements of any type in place, for ops that sum values with the same destination. */
#ifndef MR_OPS_ARRAY_ADD_RUN_H
#define MR_OPS_ARRAY_ADD_RUN_H

#include "tensor/tensor.h"

/* to[i] += from[i * step] for i < n. */
typedef void mr_add_run(void *to, const void *from, int64_t step, int64_t n);
/* NULL for types that cannot be added (strings, handles).  For bool it is "or". */
mr_add_run *mr_add_run_of(mr_dtype t);
/* Adding strings concatenates them: element i of `from` is appended to element `at` of `to`. */
mr_status *mr_add_string(mr_tensor *to, int64_t at, const mr_tensor *from, int64_t i);

#endif
