/* group/merge.h -- sums, products, minima and maxima of elements.
 *
 * The bits of a result depend on the order in which values are merged, never on how the work was
 * divided.  16-bit types are computed in float and rounded once per call. */
#ifndef MR_GROUP_MERGE_H
#define MR_GROUP_MERGE_H

#include "run/collective.h"
#include "tensor/dtype.h"

/* INVALID_ARGUMENT for a combination that is not supported: sums and products exist for all numbers, minima and maxima
 * for those that are ordered. */
mr_status *mr_merge_check(mr_dtype type, mr_merge how);
/* out[i] = a[i] . b[i]; out may be a or b. */
void mr_merge_two(mr_dtype type, mr_merge how, const void *a, const void *b, void *out, int64_t n);
/* out[i] = in[0][i] . in[1][i] ..., from the left; divided by `divide` when that is over 1.  out may be one of them. */
void mr_merge_many(mr_dtype type, mr_merge how, const void *const *in, int n_in, int divide, void *out, int64_t n);
/* x[i] /= by: the mean, after a sum; integers as C divides them. */
void mr_merge_divide(mr_dtype type, void *x, int64_t by, int64_t n);

#endif
