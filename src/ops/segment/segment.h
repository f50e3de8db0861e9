/* ops/segment/segment.h -- rows of a tensor joined by the segment each belongs to: what the ops of
 * this folder share.
 *
 * Rows of one segment are joined by an operation of ops/state/update.h, in the order of the rows.
 * The columns are cut over threads, not the rows, so that no two threads write the same place and
 * the order stays.  16-bit floats are joined as floats and rounded once. */
#ifndef MR_OPS_SEGMENT_SEGMENT_H
#define MR_OPS_SEGMENT_SEGMENT_H

#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/state/update.h"

/* What the sum of a segment is divided by: nothing, its rows, or their root. */
typedef enum mr_segment_scale {
    MR_SEGMENT_PLAIN,
    MR_SEGMENT_MEAN,
    MR_SEGMENT_SQRT_N
} mr_segment_scale;
/* What a segment without rows has. */
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
    int64_t n;             /* rows to join */
    const mr_tensor *rows; /* row k is row rows[k] of data; NULL: row k */
    const mr_tensor
        *ids; /* row k belongs to segment ids[k], below the number of them; negative: to none */
    const double *weights; /* of floats only: what row k is multiplied by; NULL: nothing */
} mr_segments;

/* out, [segments] and the shape of a row, is written whole.  All indices have been checked. */
mr_status *mr_segments_join(mr_run *r, const mr_segments *s, mr_tensor *out);
/* Output i: [n] + data.shape[lead:]. */
mr_status *mr_segments_output(mr_run *r, int i, const mr_tensor *data, int lead, int64_t n,
                              mr_tensor **out);

/* INVALID_ARGUMENT unless ids are a vector of numbers from 0 on that do not fall.  *segments: their
 * number when it is -1, else the limit of the ids. */
mr_status *mr_segments_sorted(const mr_tensor *ids, int64_t *segments);

/* For gradients.  A mask of the shape of ids with as many 1s behind as `rows` has further
 * dimensions; row k of `from` by ids[k] (negative ids take row 0). */
mr_out mr_segment_mask(mr_grad *g, mr_out mask, mr_out rows);
mr_out mr_segment_spread(mr_grad *g, mr_out from, mr_out ids);
mr_out mr_cast(mr_grad *g, mr_out v, mr_dtype t);
/* Dimension 0 of v, an int32 scalar. */
mr_out mr_dim0(mr_grad *g, mr_out v);

#endif
