/* ops/array/index.h -- tensors of indices: reading, checking and using them. */
#ifndef MR_OPS_ARRAY_INDEX_H
#define MR_OPS_ARRAY_INDEX_H

#include "run/scratch.h"

/* Element i of any integer type that indices can have: uint8, int16, uint16, int32, int64. */
int64_t mr_index_at(const mr_tensor *t, int64_t i);
/* Reads all elements as int64 into out, which has t->n entries. */
void mr_index_read(const mr_tensor *t, int64_t *out);
/* "[1,2]" for element i of a tensor of this shape, "" in a scalar: as TensorFlow names an index. */
const char *mr_index_place(char *buf, size_t n, int rank, const int64_t *dims, int64_t i);
#define MR_INDEX_PLACE(rank, dims, i) mr_index_place((char[200]){0}, 200, rank, dims, i)

/* INVALID_ARGUMENT "indices[i,j] = v is not in [0, n)" for the first index out of range; `what` is "indices". */
mr_status *mr_index_check(const mr_tensor *t, const char *what, int64_t limit);
/* The same, and returns all indices in an array for mr_scratch_free (NULL when there are none). */
mr_status *mr_index_load(const mr_run *r, const mr_tensor *t, const char *what, int64_t limit, int64_t **out);

/* Copies rows of `inner` elements by number: dst row d0 + k is src row s0 + rows[k], k < n; a negative number means
 * a row of zeros. dst must be newly allocated. */
typedef struct mr_gather {
    mr_tensor *dst;
    const mr_tensor *src;
    int64_t inner, n;
    const int64_t *rows;
} mr_gather;
/* `sets` such gathers at once: set i goes to dst row i * n and its rows are counted from src row
 * i * src_rows; rows are those of set (i / repeat), rows + (i / repeat) * n.  Only strings can fail:
 * RESOURCE_EXHAUSTED. */
mr_status *mr_gather_rows(mr_run *r, const mr_gather *g, int64_t sets, int64_t src_rows, int64_t repeat);

/* Reads a tensor [.., k] of indices into the first k dims of a shape. Returns the flat row numbers in an array for
 * mr_scratch_free. INVALID_ARGUMENT "indices[i] = [a, b] does not index into <what> [..]". */
mr_status *mr_index_load_nd(const mr_run *r, const mr_tensor *t, int rank, const int64_t *dims,
                            const char *what, int64_t **out);
struct mr_infer;
/* Updates have the shape of indices without its last dimension, followed by the shape of the slices that the indices
 * name.  The first checks it for shape functions, whose errors call the scattered-to shape `what`, "output" or "input";
 * the second for kernels. */
mr_status *mr_infer_scatter_nd(struct mr_infer *c, const mr_pshape *indices, const mr_pshape *updates,
                               const mr_pshape *out, const char *what);
mr_status *mr_scatter_nd_check(const mr_tensor *indices, const mr_tensor *updates, int rank, const int64_t *dims);

#endif
