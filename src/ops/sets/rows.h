/* ops/sets/rows.h -- the last dimension of a tensor, dense or sparse, as many small lists of elements.
 *
 * Elements are numbered by the list they belong to (`group`, as if all other dimensions were one) and can be
 * put into order: first by group, then as they came or by value. */
#ifndef MR_OPS_SETS_ROWS_H
#define MR_OPS_SETS_ROWS_H

#include "run/run.h"

typedef struct mr_row_element {
    int64_t group, at; /* `at` counts the elements of the values tensor */
} mr_row_element;

typedef struct mr_rows {
    const mr_tensor *values;
    int64_t n;
    mr_row_element *e;
} mr_rows;

/* The groups of a shape: all of its dimensions but the last. */
mr_status *mr_groups_of(int rank, const int64_t *dims, int64_t *out);
mr_status *mr_rows_of_dense(const mr_tensor *t, mr_rows *out);
/* indices [n, rank] of values [n] in a tensor of these dimensions; INVALID_ARGUMENT when one lies outside.
 * `groups` are the dimensions that groups are counted in, rank - 1 of them. */
mr_status *mr_rows_of_sparse(const mr_tensor *indices, const mr_tensor *values, int rank,
                             const int64_t *dims, const int64_t *groups, mr_rows *out);
void mr_rows_deinit(mr_rows *r); /* of zeros too */

void mr_rows_sort(mr_rows *r, bool by_value);
/* Of one type: -1, 0, 1.  Numbers that are not ordered (complex ones) are only equal or not. */
int mr_element_compare(const mr_tensor *a, int64_t i, const mr_tensor *b, int64_t k);
/* Indices, values and shape of a sparse tensor fit together; `what` names it. */
mr_status *mr_sparse_check(const char *what, const mr_tensor *indices, const mr_tensor *values,
                           const mr_tensor *shape);

#endif
