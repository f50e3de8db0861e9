/* ops/sparse/parts.h -- sparse tensors kept one by one, and put together along a new first
 * dimension: what the ops that serialize them and those that keep them in a map share. */
#ifndef MR_OPS_SPARSE_PARTS_H
#define MR_OPS_SPARSE_PARTS_H

#include "ops/sparse/sparse.h"

typedef struct mr_sparse_part { /* owned tensors */
    mr_tensor *indices, *values, *shape;
} mr_sparse_part;
void mr_sparse_part_deinit(mr_sparse_part *p);
/* INVALID_ARGUMENT unless its tensors are a matrix and two vectors of these types that belong
 * together; i is its number, for the error. */
mr_status *mr_sparse_part_check(const mr_sparse_part *p, mr_dtype type, int64_t i);

/* Calls give(ctx, i, part) for i in [0, dims[0]) with the elements of s that have i as their first
 * index, which is left out.  s has two dimensions or more and is in order by the first; the part is
 * owned by the callee. */
mr_status *mr_sparse_cut(mr_run *r, const mr_sparse *s,
                         mr_status *(*give)(void *ctx, int64_t i, mr_sparse_part *p), void *ctx);

/* Outputs 0, 1, 2 are n parts put together: indices get the digits of the part's number in a tensor
 * of shape `lead` before them, and the shape is lead and the largest size of each dimension.  All
 * have been checked. */
mr_status *mr_sparse_stack(mr_run *r, const mr_sparse_part *parts, int64_t n, int lead_rank,
                           const int64_t *lead);

/* Element i of a variant tensor, empty before, holds t (referenced), as SerializeSparse has it. */
void mr_sparse_box(mr_tensor *variants, int64_t i, const mr_tensor *t);

#endif
