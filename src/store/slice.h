/* store/slice.h -- a part of a tensor, as checkpoints name it.
 *
 * "10 20 0,5:-" says: of a tensor of shape [10,20] the rows 0 to 4, all columns. Each part of a saved tensor has its
 * own key in the index, in an encoding that sorts bytewise in the order of its numbers. */
#ifndef MR_STORE_SLICE_H
#define MR_STORE_SLICE_H

#include "tensor/tensor.h"

#define MR_SLICE_ALL (-1)

typedef struct mr_slice { /* on the stack only: 4 KB */
    int rank;
    int64_t start[MR_MAX_RANK], length[MR_MAX_RANK]; /* length MR_SLICE_ALL (start 0): the whole dimension */
} mr_slice;

void mr_slice_all(mr_slice *s, int rank);
bool mr_slice_is_all(const mr_slice *s, const int64_t *dims); /* covers the whole of a tensor of that shape */
/* "0,5:-" */
mr_status *mr_slice_parse(mr_sv text, mr_slice *out);
void mr_slice_print(const mr_slice *s, mr_str *out);
/* "10 20 0,5:-": shape, slice and the shape of the part.  INVALID_ARGUMENT. */
mr_status *mr_shape_and_slice_parse(mr_sv text, mr_shape *shape, mr_slice *slice, mr_shape *part);
/* The shape of the part; INVALID_ARGUMENT if it is not inside of the tensor. */
mr_status *mr_slice_shape(const mr_slice *s, int rank, const int64_t *dims, mr_shape *out);
/* The intersection of two parts of one tensor; false if it is empty. */
bool mr_slice_intersect(const mr_slice *a, const mr_slice *b, const int64_t *dims, mr_slice *out);
/* Copies the region `what` of the whole tensor from src (which holds the part src_at) to dst (the part dst_at). Only
 * copies of strings can fail: RESOURCE_EXHAUSTED. */
mr_status *mr_slice_copy(const mr_tensor *src, const mr_slice *src_at, mr_tensor *dst, const mr_slice *dst_at,
                         const mr_slice *what);

/* TensorSliceProto. */
void mr_slice_encode(const mr_slice *s, mr_str *out);
mr_status *mr_slice_decode(mr_sv bytes, mr_slice *out);
/* The key of a part in the index: docs/formats/bundle.md. */
void mr_slice_key(mr_sv name, const mr_slice *s, mr_str *out);

#endif
