/* ops/collective/combine.h -- what becomes of the tensors of all members of a group. */
#ifndef MR_OPS_COLLECTIVE_COMBINE_H
#define MR_OPS_COLLECTIVE_COMBINE_H

#include "run/collective.h"

/* in[k] is the tensor of member k (NULL: brings none); out[k], owned, becomes its result. */
mr_status *mr_collective_combine(const mr_collective_call *call, int64_t n,
                                 const mr_tensor *const *in, mr_tensor **out);

#endif
