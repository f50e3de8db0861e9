/* ops/array/layout.h -- positions of elements, and tensors that share a part of another's buffer. */
#ifndef MR_OPS_ARRAY_LAYOUT_H
#define MR_OPS_ARRAY_LAYOUT_H

#include "graph/infer.h"
#include "run/run.h"

/* Product of dims begin..end of a tensor's shape. It cannot overflow, because the shape was checked. */
static inline int64_t mr_dims_product(const int64_t *dims, int begin, int end)
{
    int64_t n = 1;
    for (int i = begin; i < end; i++)
        n *= dims[i];
    return n;
}

/* Row-major strides in elements. */
static inline void mr_dims_strides(int rank, const int64_t *dims, int64_t *out)
{
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        out[i] = step;
        step *= dims[i];
    }
}

/* Sets output i to the elements from `start` on of input `in`, as many as its shape needs, in the same buffer.
 * Small data is copied instead, so that a few bytes do not keep a large buffer alive. */
mr_status *mr_share(mr_run *r, int in, int i, int64_t start, int rank, const int64_t *dims);

/* Sets output i to the values of input `in`, in memory that may be written: the input's own if nobody else holds
 * it, else a copy. */
mr_status *mr_take_over(mr_run *r, int in, int i, mr_tensor **out);

/* True if a block of these sizes is contiguous wherever it starts: after the first size above 1 all dimensions are
 * whole. */
bool mr_is_contiguous(int rank, const int64_t *dims, const int64_t *sizes);

/* For shape functions: a copy of s with dimension `at` set to n; s has a rank. */
mr_pshape *mr_pshape_with(mr_arena *a, const mr_pshape *s, int at, int64_t n);
/* Converts an axis that may count from the end to a number in [0, rank). INVALID_ARGUMENT with the message of
 * TensorFlow's shape functions: it gives the smallest rank that has this axis. */
mr_status *mr_infer_position(int64_t axis, int rank, int *out);
/* The axis argument of a kernel whose input has this rank. A vector of one element is accepted too. */
mr_status *mr_in_axis(const mr_run *r, int input, int rank, int *axis);

#endif
