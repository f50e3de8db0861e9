/* ops/array/order.h -- maps values to unsigned numbers in the same order, so that one search, selection or sort serves
 * all types. -0 and 0 are equal; a NaN is larger than any number. */
#ifndef MR_OPS_ARRAY_ORDER_H
#define MR_OPS_ARRAY_ORDER_H

#include "tensor/tensor.h"

/* Computes out[i] from element at + i of the packed elements of `data`, for n of them. The numbers of types of at most
 * 4 bytes are below 2^32. */
typedef void mr_order_fn(const void *data, int64_t at, int n, uint64_t *out);
mr_order_fn *mr_order_of(mr_dtype type); /* NULL: not a real number */

/* Sorts the n <= INT32_MAX packed elements of `row`, the largest first; equal elements keep their order. The lower
 * half of words[i] becomes the position of the i-th element, the upper half is for mr_order_values. Both arrays have room
 * for n words. */
void mr_order_descending(mr_dtype type, const void *row, int64_t n, uint64_t *words, uint64_t *spare);
/* out[i] becomes the element of the row that is i-th in the order, for the first n. */
void mr_order_values(mr_dtype type, const void *row, const uint64_t *words, int64_t n, void *out);

#endif
