/* ops/collective/combine.h -- computes the results of a collective from the tensors of all members. */
#ifndef MR_OPS_COLLECTIVE_COMBINE_H
#define MR_OPS_COLLECTIVE_COMBINE_H

#include "run/collective.h"

/* in[k] is the tensor of member k (NULL: it has none); out[k], owned by the caller, becomes its result. */
mr_status *mr_collective_combine(const mr_collective_call *call, int64_t n,
                                 const mr_tensor *const *in, mr_tensor **out);

/* Merges numbers of a type; for callers whose tensors are in pieces. */
typedef struct mr_arithmetic {
    mr_dtype type;
    void (*merge[4])(void *to, const void *a, const void *b, int64_t n); /* by mr_merge; `to` may be a or b */
    void (*divide)(void *to, int64_t n, int64_t by);
} mr_arithmetic;
mr_status *mr_arithmetic_of(mr_dtype type, const mr_arithmetic **out);

#endif
