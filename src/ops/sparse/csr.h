/* ops/sparse/csr.h -- sparse matrices in CSR form, one or a batch of them, as elements of variant
 * tensors.
 *
 * The layout is that of TensorFlow's CSRSparseMatrix: the entries of matrix b are
 * batch_ptrs[b] .. batch_ptrs[b + 1] of col_inds and values; those of its row i begin at
 * batch_ptrs[b] + row_ptrs[b * (rows + 1) + i].  Within a row, columns increase.  A matrix is never
 * changed after it became an output. */
#ifndef MR_OPS_SPARSE_CSR_H
#define MR_OPS_SPARSE_CSR_H

#include "graph/grad.h"
#include "graph/infer.h"
#include "run/run.h"

typedef struct mr_csr {
    mr_object base;
    mr_dtype type;             /* float, double, complex64, complex128 */
    int rank;                  /* 2, or 3 with a batch */
    int64_t batch, rows, cols; /* batch is 1 if the rank is 2 */
    int64_t nnz;
    mr_tensor *batch_ptrs, *row_ptrs, *col_inds; /* int32 */
    mr_tensor *values;
} mr_csr;

/* Creates a matrix; all pointers are 0, columns and values are not set. */
mr_status *mr_csr_new(mr_allocator *a, mr_dtype type, int rank, int64_t batch, int64_t rows,
                      int64_t cols, int64_t nnz, mr_csr **out);
/* The matrix in input i, borrowed.  INVALID_ARGUMENT if there is none, or it has another type (0: any). */
mr_status *mr_csr_read(const mr_run *r, int i, mr_dtype type, const mr_csr **out);
/* Sets output i to the matrix and takes over its reference. */
mr_status *mr_csr_give(mr_run *r, int i, mr_csr *m);

/* Row i of matrix b has the entries mr_csr_begin .. mr_csr_end (exclusive) of col_inds and values. */
static inline int64_t mr_csr_begin(const mr_csr *m, int64_t b, int64_t i)
{
    return MR_DATA(const int32_t, m->batch_ptrs)[b] +
           MR_DATA(const int32_t, m->row_ptrs)[b * (m->rows + 1) + i];
}
static inline int64_t mr_csr_end(const mr_csr *m, int64_t b, int64_t i)
{
    return mr_csr_begin(m, b, i + 1);
}
static inline int64_t mr_csr_col(const mr_csr *m, int64_t k)
{
    return MR_DATA(const int32_t, m->col_inds)[k];
}

/* All values as complex128, which can represent those of every other type; free with mr_free. */
mr_status *mr_csr_wide(const mr_csr *m, mr_c128 **out);

/* Builds a matrix row by row if the number of entries is not known in advance. */
typedef struct mr_csr_builder {
    int64_t n, cap;
    int32_t *cols;
    mr_c128 *values;
    int64_t *ends; /* where each row ends, over all batches */
    int64_t n_rows;
} mr_csr_builder;
mr_status *mr_csr_builder_init(mr_csr_builder *b, int64_t rows); /* of all batches together */
void mr_csr_builder_deinit(mr_csr_builder *b);
mr_status *mr_csr_push(mr_csr_builder *b, int64_t col, mr_c128 value);
static inline void mr_csr_end_row(mr_csr_builder *b) { b->ends[b->n_rows++] = b->n; }
/* Creates a matrix of this type from the entries that were pushed. */
mr_status *mr_csr_build(mr_csr_builder *b, mr_allocator *a, mr_dtype type, int rank, int64_t batch,
                        int64_t rows, int64_t cols, mr_csr **out);

/* alpha a + beta b; the shapes must be equal. */
mr_status *mr_csr_add(const mr_csr *a, const mr_csr *b, mr_c128 alpha, mr_c128 beta,
                      mr_allocator *alloc, mr_csr **out);

#endif
