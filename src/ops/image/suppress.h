/* ops/image/suppress.h -- non-maximum suppression: of boxes that overlap, the one with the best score stays.
 *
 * Boxes are taken by falling score (the earlier of two equal ones first).  Hard suppression drops a box that overlaps
 * one taken before by more than a threshold.  Soft suppression (sigma > 0) lowers its score by exp(-overlap^2 / 2 sigma) for
 * each of them and puts it back in its place; above the threshold nothing is left of it. */
#ifndef MR_OPS_IMAGE_SUPPRESS_H
#define MR_OPS_IMAGE_SUPPRESS_H

#include "run/run.h"

typedef struct mr_suppress {
    int64_t n; /* boxes */
    const float *scores;
    /* How much boxes i and k overlap. */
    float (*overlap)(const struct mr_suppress *s, int64_t i, int64_t k);
    const float *data; /* for overlap: 4 corners a box `stride` apart, or a matrix */
    int64_t stride;
    float threshold, score_threshold, sigma;
    int64_t limit;           /* of boxes taken */
    const mr_cancel *cancel; /* may be NULL */
} mr_suppress;

/* The share of their union that two boxes have in common; their corners may come in any order. */
float mr_overlap_of_boxes(const mr_suppress *s, int64_t i, int64_t k);
/* Fills indices and (unless NULL) scores, each with room for min(limit, n).  CANCELLED, RESOURCE_EXHAUSTED. */
mr_status *mr_suppress_run(const mr_run *r, const mr_suppress *s, int32_t *indices, float *scores, int64_t *n_taken);

#endif
