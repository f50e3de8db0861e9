/* ops/array/order.h -- maps values to unsigned numbers in the same order, so that one search or selection serves
 * all types. -0 and 0 are equal; a NaN is larger than any number. */
#ifndef MR_OPS_ARRAY_ORDER_H
#define MR_OPS_ARRAY_ORDER_H

#include "tensor/tensor.h"

/* Computes out[i] from element at + i of the packed elements of `data`, for n of them. */
typedef void mr_order_fn(const void *data, int64_t at, int n, uint64_t *out);
mr_order_fn *mr_order_of(mr_dtype type); /* NULL: not a real number */

#endif
