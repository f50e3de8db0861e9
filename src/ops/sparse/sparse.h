/* ops/sparse/sparse.h -- sparse tensors as inputs of ops: three tensors, checked.
 *
 * A sparse tensor is indices (int64 [n, rank]), values [n] and a dense shape [rank].  The number of
 * elements of its dense form may overflow, so indices are compared row by row and never flattened unless
 * the product of the shape was checked.  Most ops accept any order; some require row-major order without
 * repetitions. */
#ifndef MR_OPS_SPARSE_SPARSE_H
#define MR_OPS_SPARSE_SPARSE_H

#include "graph/grad.h"
#include "graph/infer.h"
#include "run/scratch.h"

typedef struct mr_sparse {
    const mr_tensor *indices, *values, *shape;
    int64_t n, rank;
    const int64_t *at;   /* n rows of rank numbers */
    const int64_t *dims; /* rank of them, none negative */
} mr_sparse;

/* Makes a sparse tensor of three tensors, whose shapes must match; INVALID_ARGUMENT.  The indices are not
 * checked.  `what` is a prefix of the names in errors ("a_", "input_" or ""); values may be NULL. */
mr_status *mr_sparse_of(const mr_tensor *indices, const mr_tensor *values, const mr_tensor *shape,
                        const char *what, mr_sparse *out);
/* The same for inputs first, first + 1, first + 2. */
mr_status *mr_sparse_read(const mr_run *r, int first, const char *what, mr_sparse *out);

static inline const int64_t *mr_sparse_at(const mr_sparse *s, int64_t i)
{
    return s->at + i * s->rank;
}
/* Compares by the first number that differs: < 0, 0, > 0. */
static inline int mr_sparse_compare(const int64_t *a, const int64_t *b, int64_t rank)
{
    for (int64_t d = 0; d < rank; d++)
        if (a[d] != b[d])
            return a[d] < b[d] ? -1 : 1;
    return 0;
}

/* Checks the indices: "indices[1] = [3,4] is out of bounds: need 0 <= index < [2,5]". */
mr_status *mr_sparse_check_bounds(const mr_sparse *s);
/* The same, and checks their order: "indices[1] = [0,0] is repeated", ".. is out of order. ..". */
mr_status *mr_sparse_check_order(const mr_sparse *s);
/* Checks that the dense shape has at most INT64_MAX elements and MR_MAX_RANK dimensions; *n is the number of
 * elements. */
mr_status *mr_sparse_elements(const mr_sparse *s, int64_t *n);
/* Row-major strides of the dense form; call mr_sparse_elements first. */
void mr_sparse_strides(const mr_sparse *s, int64_t *out);
/* The flat position of an index in the dense form. */
static inline int64_t mr_sparse_flat(const int64_t *at, const int64_t *strides, int64_t rank)
{
    int64_t flat = 0;
    for (int64_t d = 0; d < rank; d++)
        flat += at[d] * strides[d];
    return flat;
}

/* The positions of the indices in row-major order; the sort is stable.  Free *order with mr_scratch_free. */
mr_status *mr_sparse_sort(const mr_run *r, const mr_sparse *s, int64_t **order);

/* Allocates outputs i and i + 1: n indices of this rank and n values. */
mr_status *mr_sparse_output(mr_run *r, int i, int64_t n, int64_t rank, mr_tensor **indices,
                            mr_tensor **values);
/* Sets output i to an int64 vector. */
mr_status *mr_give_vector(mr_run *r, int i, int64_t n, const int64_t *v);
/* values[k] = from[rows[k]] for all of values. */
mr_status *mr_sparse_pick(mr_run *r, mr_tensor *values, const mr_tensor *from, const int64_t *rows);
/* Allocates n numbers, or returns RESOURCE_EXHAUSTED; free them with mr_scratch_free. */
mr_status *mr_new_i64(const mr_run *r, int64_t n, int64_t **out);

/* ---- shape functions ---- */
/* Checks the ranks of the sparse tensor in the inputs from `first` on; *n and *rank are its sizes, -1 if
 * unknown. */
mr_status *mr_infer_sparse(mr_infer *c, int first, int64_t *n, int64_t *rank);
/* Outputs i, i + 1 and, with a shape, i + 2. */
void mr_infer_out_sparse(mr_infer *c, int i, int64_t n, int64_t rank, bool with_shape);

#endif
