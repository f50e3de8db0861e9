/* ops/sets/rows.h -- treats the last dimension of a tensor, dense or sparse, as many small lists of elements.
 *
 * Each element has the number of the list it belongs to (`group`, the flat index over all other dimensions).
 * Elements can be sorted: first by group, then by position or by value. */
#ifndef MR_OPS_SETS_ROWS_H
#define MR_OPS_SETS_ROWS_H

#include "run/run.h"

typedef struct mr_row_element {
    int64_t group, at; /* at: index in the values tensor */
} mr_row_element;

typedef struct mr_rows {
    const mr_tensor *values;
    int64_t n;
    mr_row_element *e;
} mr_rows;

/* The number of groups of a shape: the product of all dimensions but the last. */
mr_status *mr_groups_of(int rank, const int64_t *dims, int64_t *out);
mr_status *mr_rows_of_dense(const mr_tensor *t, mr_rows *out);
/* The rows of a sparse tensor of these dimensions, with indices [n, rank] and values [n]; INVALID_ARGUMENT if an
 * index is outside.  `groups` has the rank - 1 dimensions in which groups are numbered. */
mr_status *mr_rows_of_sparse(const mr_tensor *indices, const mr_tensor *values, int rank,
                             const int64_t *dims, const int64_t *groups, mr_rows *out);
void mr_rows_deinit(mr_rows *r); /* all zeros is fine */

void mr_rows_sort(mr_rows *r, bool by_value);
/* Compares elements of the same type: -1, 0, 1.  Types without an order (complex) are only equal or not. */
int mr_element_compare(const mr_tensor *a, int64_t i, const mr_tensor *b, int64_t k);
/* Checks that indices, values and shape form a sparse tensor; `what` names it in errors. */
mr_status *mr_sparse_check(const char *what, const mr_tensor *indices, const mr_tensor *values,
                           const mr_tensor *shape);

#endif
