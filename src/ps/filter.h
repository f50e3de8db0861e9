/* ps/filter.h -- which rows of a push are worth sending.
 *
 * A filter works on a push of n rows before it is packed: it clears present[i] of rows that stay at
 * home (codec.h sends the others) and may change values.  Rows that are absent already are left
 * alone, so filters can follow each other: KKT, then significantly modified, then random skip.
 * Everything that is kept back here is the client's, so a server needs to know nothing of it. */
#ifndef MR_PS_FILTER_H
#define MR_PS_FILTER_H

#include <stdint.h>

#include "base/status.h"

typedef struct mr_ps_filter_stats {
    int64_t seen;                     /* rows that came: the caller counts them */
    int64_t kkt, unmodified, skipped; /* rows each of them kept back */
} mr_ps_filter_stats;

/* ---- KKT: coordinates that would stay 0 ---- */

/* With an l1 penalty a weight of 0 stays 0 as long as |g| <= l1 for the gradient g of an update.  That
 * is what one worker pushed, or the mean of what several did (a table's `aggregate`): either is within
 * l1 when every push is, so the number of workers does not matter.  A row is left out when its values
 * are all 0 and |g| <= threshold in each; MR_PS_KKT_SHARE of l1 leaves a margin for weights that were
 * pulled a while ago.  Where others push a row that this worker leaves out, their mean takes its
 * gradient for 0, so it is off by less than the threshold.  `values` are the weights last pulled
 * (width floats a row), pushed rows have `push_width` floats, of which the first `width` are g.
 * Returns how many are left out. */
#define MR_PS_KKT_SHARE 0.9f
size_t mr_ps_filter_kkt(const float *values, const float *pushed, size_t n, int width,
                        int push_width, float threshold, uint8_t *present,
                        mr_ps_filter_stats *stats);

/* ---- random skip: unbiased ---- */

/* Keeps a row with probability keep (0 < keep <= 1), its values divided by keep.  Drawn from seed
 * and the row's place: a seed of its own for each push. */
size_t mr_ps_filter_skip(float *pushed, size_t n, int push_width, float keep, uint64_t seed,
                         uint8_t *present, mr_ps_filter_stats *stats);

/* ---- significantly modified: small changes wait until they have become large ---- */

/* What is kept back, by key.  Additive pushes (gradients, ADD) add up; of ASSIGN the newest value
 * waits, and what counts is its distance to the value sent last. */
typedef struct mr_ps_residuals mr_ps_residuals;
mr_ps_residuals *mr_ps_residuals_new(int push_width, bool assign);
void mr_ps_residuals_free(mr_ps_residuals *r);
/* The row of each key joined with what was kept: sent when the largest change among the first
 * `judged` floats is above threshold, else kept.  RESOURCE_EXHAUSTED: nothing has changed. */
mr_status *mr_ps_filter_modified(mr_ps_residuals *r, const uint64_t *keys, size_t n, float *pushed,
                                 int judged, float threshold, uint8_t *present,
                                 mr_ps_filter_stats *stats);
/* Rows that wait. */
size_t mr_ps_residuals_count(const mr_ps_residuals *r);
/* Takes out all that waits, keys rising; both have mr_ps_residuals_count entries (times width): mr_free. */
mr_status *mr_ps_residuals_flush(mr_ps_residuals *r, uint64_t **keys, float **values, size_t *n);

#endif
