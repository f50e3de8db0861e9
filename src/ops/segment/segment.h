/* ops/segment/segment.h -- combines the rows of a tensor by the segment that each belongs to: code that
 * the ops of this folder share.
 *
 * Rows of one segment are combined by an operation of ops/state/update.h, in the order of the rows.  The
 * columns are divided over threads, not the rows, so that no two threads write the same place and the
 * order does not change.  16-bit floats are combined as floats and rounded once. */
#ifndef MR_OPS_SEGMENT_SEGMENT_H
#define MR_OPS_SEGMENT_SEGMENT_H

#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/state/update.h"

/* The divisor of the sum of a segment: none, the number of its rows, or the square root of that. */
typedef enum mr_segment_scale {
    MR_SEGMENT_PLAIN,
    MR_SEGMENT_MEAN,
    MR_SEGMENT_SQRT_N
} mr_segment_scale;
/* The value of a segment without rows. */
typedef enum mr_segment_empty {
    MR_EMPTY_ZERO,
    MR_EMPTY_ONE,
    MR_EMPTY_LOWEST,
    MR_EMPTY_HIGHEST
} mr_segment_empty;

typedef struct mr_segments {
    mr_update_kind kind;
    mr_segment_scale scale;
    mr_segment_empty empty;
    const mr_tensor *data;
    int64_t n;             /* rows to combine */
    const mr_tensor *rows; /* row k is row rows[k] of data; NULL: row k */
    const mr_tensor
        *ids; /* row k belongs to segment ids[k], below the number of segments; negative: to none */
    const double *weights; /* only for floats: factor of row k; NULL: none */
} mr_segments;

/* Number i of a tensor of int32 or int64, without a call: the loops over rows do little else. */
static inline int64_t mr_segment_id(const mr_tensor *t, int64_t i)
{
    return t->dtype == MR_INT32 ? MR_DATA(int32_t, t)[i] : MR_DATA(int64_t, t)[i];
}
/* Writes all of out, of shape [segments] + the shape of a row.  The caller has checked all indices. */
mr_status *mr_segments_join(mr_run *r, const mr_segments *s, mr_tensor *out);
/* Allocates output i of shape [n] + data.shape[lead:]. */
mr_status *mr_segments_output(mr_run *r, int i, const mr_tensor *data, int lead, int64_t n,
                              mr_tensor **out);

/* INVALID_ARGUMENT unless ids is a vector of non-negative numbers that do not decrease.  If *segments is -1,
 * it is set to the number of segments; otherwise it is the limit of the ids. */
mr_status *mr_segments_sorted(const mr_tensor *ids, int64_t *segments);

/* For gradients: a mask with trailing dimensions of 1, so that it broadcasts against `rows`; and row ids[k] of
 * `from` for each k (negative ids take row 0). */
mr_out mr_segment_mask(mr_grad *g, mr_out mask, mr_out rows);
mr_out mr_segment_spread(mr_grad *g, mr_out from, mr_out ids);
mr_out mr_cast(mr_grad *g, mr_out v, mr_dtype t);
/* Dimension 0 of v, an int32 scalar. */
mr_out mr_dim0(mr_grad *g, mr_out v);

#endif
