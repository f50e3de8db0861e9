/* ops/sparse/parts.h -- splits sparse tensors, and stacks them along a new first dimension: code that the
 * ops that serialize them and those that keep them in a map share. */
#ifndef MR_OPS_SPARSE_PARTS_H
#define MR_OPS_SPARSE_PARTS_H

#include "ops/sparse/sparse.h"

typedef struct mr_sparse_part { /* owned tensors */
    mr_tensor *indices, *values, *shape;
} mr_sparse_part;
void mr_sparse_part_deinit(mr_sparse_part *p);
/* INVALID_ARGUMENT unless its tensors are a matrix and two vectors of these types with matching sizes; i is
 * the number of the part, for the error. */
mr_status *mr_sparse_part_check(const mr_sparse_part *p, mr_dtype type, int64_t i);

/* Calls give(ctx, i, part) for i in [0, dims[0]) with the elements of s whose first index is i, without that
 * index.  s must have two or more dimensions and be sorted by the first; the callee owns the part. */
mr_status *mr_sparse_cut(mr_run *r, const mr_sparse *s,
                         mr_status *(*give)(void *ctx, int64_t i, mr_sparse_part *p), void *ctx);

/* Sets outputs 0, 1, 2 to n parts stacked: each index is preceded by the part's position in a tensor of shape
 * `lead`, and the dense shape is `lead` followed by the largest size of each dimension.  The caller has checked
 * all parts. */
mr_status *mr_sparse_stack(mr_run *r, const mr_sparse_part *parts, int64_t n, int lead_rank,
                           const int64_t *lead);

/* Stores a reference to t in element i of a variant tensor, which must be empty, as SerializeSparse does. */
void mr_sparse_box(mr_tensor *variants, int64_t i, const mr_tensor *t);

#endif
