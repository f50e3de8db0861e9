/* ops/control/truth.h -- the truth value of a tensor, by which If and While decide. */
#ifndef MR_OPS_CONTROL_TRUTH_H
#define MR_OPS_CONTROL_TRUTH_H

#include "tensor/tensor.h"

/* A scalar number is true if it is not 0, a scalar string if it is not empty, and any other tensor if it has
 * elements. INVALID_ARGUMENT for a scalar handle or variant. */
mr_status *mr_tensor_truth(const mr_tensor *t, bool *out);

#endif
