/* ops/image/suppress.h -- non-maximum suppression: of overlapping boxes, the one with the best score is kept.
 *
 * Boxes are selected by falling score (the earlier of two equal ones first). Hard suppression drops a box that
 * overlaps a selected one by more than a threshold. Soft suppression (sigma > 0) multiplies its score by
 * exp(-overlap^2 / 2 sigma) for each of them and puts it back into the queue; above the threshold the score becomes
 * 0. */
#ifndef MR_OPS_IMAGE_SUPPRESS_H
#define MR_OPS_IMAGE_SUPPRESS_H

#include "run/run.h"

typedef struct mr_suppress {
    int64_t n; /* boxes */
    const float *scores;
    /* The overlap of boxes i and k. */
    float (*overlap)(const struct mr_suppress *s, int64_t i, int64_t k);
    const float *data; /* for overlap: 4 corners per box, `stride` apart, or a matrix */
    int64_t stride;
    float threshold, score_threshold, sigma;
    int64_t limit;           /* maximum number of boxes to select */
    const mr_cancel *cancel; /* may be NULL */
} mr_suppress;

/* The intersection of two boxes divided by their union; their corners may be in any order. */
float mr_overlap_of_boxes(const mr_suppress *s, int64_t i, int64_t k);
/* Fills indices and (unless NULL) scores, each with room for min(limit, n).  CANCELLED, RESOURCE_EXHAUSTED. */
mr_status *mr_suppress_run(const mr_run *r, const mr_suppress *s, int32_t *indices, float *scores, int64_t *n_taken);

#endif
