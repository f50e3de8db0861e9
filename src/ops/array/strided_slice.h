/* ops/array/strided_slice.h -- resolves x[a:b:c, ..., d].
 *
 * StridedSlice encodes Python's indexing in three vectors and five bit sets. This file converts them to one range
 * for every dimension of the input, and the shape of the result. Kernels, which know everything, use it, and so
 * does shape inference, where sizes may be -1 and begin and end missing; a range is then unknown (size -1) as well. */
#ifndef MR_OPS_ARRAY_STRIDED_SLICE_H
#define MR_OPS_ARRAY_STRIDED_SLICE_H

#include "ops/array/blit.h"
#include "ops/array/layout.h"

typedef struct mr_range {
    int64_t begin, stride, size; /* size elements, begin, begin + stride ..; size -1: unknown */
} mr_range;

typedef struct mr_slicing {
    int rank; /* of the input */
    mr_range ranges[MR_MAX_RANK];
    mr_shape shape; /* of the result: new dimensions added, single indices removed */
} mr_slicing;

/* begin and end may be NULL when they are not known. dims are the input's sizes, `rank` of them. */
mr_status *mr_slicing_parse(const mr_node *n, const mr_tensor *begin, const mr_tensor *end,
                            const mr_tensor *strides, int rank, const int64_t *dims,
                            mr_slicing *out);
/* Adds to b the copy between the ranges of a whole tensor with these strides and the packed slice: from the whole
 * to the slice, or back. Returns the position in the whole tensor where it starts. */
int64_t mr_slicing_walk(const mr_slicing *s, const int64_t *strides, bool from_whole, mr_blit *b);

#endif
