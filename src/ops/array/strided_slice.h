/* ops/array/strided_slice.h -- x[a:b:c, ..., d] worked out.
 *
 * StridedSlice writes Python's indexing as three vectors and five bit sets.  This turns them into
 * one range for every dimension of the input, and the shape of the result.  It serves kernels,
 * where all is known, and shape inference, where sizes may be -1 and begin and end missing; a range
 * is then unknown (size -1) as well. */
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
    mr_shape shape; /* of the result, with new dimensions in and single ones out */
} mr_slicing;

/* begin and end may be NULL when they are not known.  dims are the input's, of this rank. */
mr_status *mr_slicing_parse(const mr_node *n, const mr_tensor *begin, const mr_tensor *end,
                            const mr_tensor *strides, int rank, const int64_t *dims,
                            mr_slicing *out);
/* The walk through the ranges of a whole tensor of these strides beside that through the packed slice: from the whole
 * to the slice, or back.  The answer is where in the whole it starts. */
int64_t mr_slicing_walk(const mr_slicing *s, const int64_t *strides, bool from_whole, mr_blit *b);

#endif
