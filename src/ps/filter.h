/* ps/filter.h -- which rows of a push are worth sending.
 *
 * A filter works on a push of n rows before it is packed. It clears present[i] of rows that are not
 * sent (codec.h sends the others) and may change values. It ignores rows that are already absent,
 * so filters can follow each other: KKT, then significantly modified, then random skip. What a
 * filter holds back stays at the client, so a server needs to know nothing about it. */
#ifndef MR_PS_FILTER_H
#define MR_PS_FILTER_H

#include <stdint.h>

#include "base/status.h"

typedef struct mr_ps_filter_stats {
    int64_t seen;                     /* rows that were pushed; counted by the caller */
    int64_t kkt, unmodified, skipped; /* rows that each filter held back */
} mr_ps_filter_stats;

/* ---- KKT: coordinates that would stay 0 ---- */

/* With an l1 penalty a weight of 0 stays 0 as long as |g| <= l1 for the gradient g of an update. g is what one worker
 * pushed, or the mean of several pushes (a table's `aggregate`). Either is within l1 if every push is, so the number
 * of workers does not matter.
 *
 * A row is left out if its values are all 0 and |g| <= threshold in each; MR_PS_KKT_SHARE of l1 leaves a margin for
 * weights that were pulled a while ago. If others push a row that this worker leaves out, their mean counts its
 * gradient as 0, so it is off by less than the threshold.
 *
 * `values` are the weights last pulled (width floats per row). Pushed rows have `push_width` floats, of which the
 * first `width` are g. Returns the number of rows left out. */
#define MR_PS_KKT_SHARE 0.9f
size_t mr_ps_filter_kkt(const float *values, const float *pushed, size_t n, int width,
                        int push_width, float threshold, uint8_t *present,
                        mr_ps_filter_stats *stats);

/* ---- random skip: unbiased ---- */

/* Keeps a row with probability keep (0 < keep <= 1) and divides its values by keep. The draw depends on seed and the
 * row's position, so each push needs another seed. */
size_t mr_ps_filter_skip(float *pushed, size_t n, int push_width, float keep, uint64_t seed,
                         uint8_t *present, mr_ps_filter_stats *stats);

/* ---- significantly modified: small changes wait until they have become large ---- */

/* Changes that are held back, by key. Additive pushes (gradients, ADD) add up. Of ASSIGN the newest value waits, and
 * its distance from the value sent last is what counts. */
typedef struct mr_ps_residuals mr_ps_residuals;
mr_ps_residuals *mr_ps_residuals_new(int push_width, bool assign);
void mr_ps_residuals_free(mr_ps_residuals *r);
/* Combines each pushed row with what is held back. The row is sent if the largest change among its first `judged`
 * floats is above threshold, else held back. RESOURCE_EXHAUSTED: nothing has changed. */
mr_status *mr_ps_filter_modified(mr_ps_residuals *r, const uint64_t *keys, size_t n, float *pushed,
                                 int judged, float threshold, uint8_t *present,
                                 mr_ps_filter_stats *stats);
/* The number of rows that are held back. */
size_t mr_ps_residuals_count(const mr_ps_residuals *r);
/* Takes out everything that is held back, keys rising. The caller owns both arrays (mr_free). */
mr_status *mr_ps_residuals_flush(mr_ps_residuals *r, uint64_t **keys, float **values, size_t *n);

#endif
