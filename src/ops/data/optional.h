/* ops/data/optional.h -- a value that may be missing, as a variant. */
#ifndef MR_OPS_DATA_OPTIONAL_H
#define MR_OPS_DATA_OPTIONAL_H

#include "run/run.h"

/* Sets output 0 to an optional of these tensors (references are taken); n 0: without a value. */
mr_status *mr_optional_give(mr_run *r, int n, mr_tensor *const *t);

#endif
