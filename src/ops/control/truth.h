/* ops/control/truth.h -- whether a tensor counts as true: what If and While decide by. */
#ifndef MR_OPS_CONTROL_TRUTH_H
#define MR_OPS_CONTROL_TRUTH_H

#include "tensor/tensor.h"

/* A scalar number that is not 0 and a scalar string that is not empty are true, and every other tensor that has elements.
 * INVALID_ARGUMENT for a scalar handle or variant. */
mr_status *mr_tensor_truth(const mr_tensor *t, bool *out);

#endif
