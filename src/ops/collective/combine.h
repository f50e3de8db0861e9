/* ops/collective/combine.h -- what becomes of the tensors of all members of a group. */
#ifndef MR_OPS_COLLECTIVE_COMBINE_H
#define MR_OPS_COLLECTIVE_COMBINE_H

#include "run/collective.h"

/* in[k] is the tensor of member k (NULL: brings none); out[k], owned, becomes its result. */
mr_status *mr_collective_combine(const mr_collective_call *call, int64_t n,
                                 const mr_tensor *const *in, mr_tensor **out);

/* How numbers of a type are merged; for those who have them in pieces. */
typedef struct mr_arithmetic {
    mr_dtype type;
    void (*merge[4])(void *to, const void *a, const void *b, int64_t n); /* by mr_merge; `to` may be a or b */
    void (*divide)(void *to, int64_t n, int64_t by);
} mr_arithmetic;
mr_status *mr_arithmetic_of(mr_dtype type, const mr_arithmetic **out);

#endif
